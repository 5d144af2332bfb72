"""Values without their declared derivatives: what `as_if` says is of no concern once nobody differentiates the program."""

from __future__ import annotations

from assay.core.index import ix
from assay.core.lang import Program, T, axes, let
from assay.transforms.contract import bitwise, transform
from assay.transforms.rewrite import rewrite


def _value(t: T) -> T:
    """as_if(x[i], ...) as a definition is x, or x re-indexed."""
    if t.kind != "let" or t.body.op != "as_if":
        return t
    value = t.body.args[0]
    whole = value.op == "load" and value.attr[0].shape == t.shape and value.attr[1] == tuple(map(ix, axes(t.shape)))
    return value.attr[0] if whole else let(t.shape, value)


@transform(contract=bitwise)
def drop_slopes(program: Program) -> Program:
    """A let that is as_if(x, y) is x; what only y needed is gone.

        t0[i:8] = max(x[i], y[i])                      t0[i:8] = max(x[i], y[i])
        t1[i:8] = mul(add(x[i], y[i]), 0.5)     ->     return t0
        t2[i:8] = as_if(t0[i], t1[i])
        return t2
    """
    if not any(t.kind == "let" and t.body.op == "as_if" for t in program.tensors):
        return program
    return rewrite(program, inlined=lambda source, made: False, replace=_value)
