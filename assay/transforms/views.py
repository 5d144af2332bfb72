"""View composition (proposition 6.2): a let that only re-indexes another tensor is a substitution of indices."""

from __future__ import annotations

from assay.core.lang import Program, T
from assay.transforms.contract import bitwise, transform
from assay.transforms.rewrite import rewrite


def is_view(t: T) -> bool:
    """Whether the let is x[pi(i)] for one index map pi, computed from axes alone."""
    return t.kind == "let" and t.body.op == "load" and not t.body.deps


@transform(contract=bitwise)
def compose_views(program: Program) -> Program:
    """Views are substituted into their readers.

        t[i:256,j:512] = x[j,i]                        z[i:256,j:512] = add(x[j,i], y[i,j])
        z[i:256,j:512] = add(t[i,j], y[i,j])     ->
    """
    return rewrite(program, inlined=lambda source, made: is_view(made))
