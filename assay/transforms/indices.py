"""Index propagation: values that depend on indices only are not stored, and checks that always hold are dropped."""

from __future__ import annotations

from assay.core.lang import Program, T, is_const, let
from assay.transforms.contract import bitwise, transform
from assay.transforms.rewrite import rewrite


@transform(contract=bitwise)
def propagate_indices(program: Program) -> Program:
    """A let that reads no tensor is substituted into its readers; a require whose condition is constantly true is a let.

        a[i:128] = (3 * i) % 128                       y[i:128] = x[(3 * i) % 128]
        c[i:128] = require(a[i], true)           ->
        y[i:128] = x[c[i]]

    An index computed by tensor operators becomes an index expression where no step can wrap (example 6.3).
    The condition is decided by intervals when the node is built (proposition 6.4).
    """
    proved: set[T] = set()

    def replace(t: T) -> T:
        if t.kind == "require" and is_const(t.cond, True):
            t = let(t.shape, t.body)
            proved.add(t)
        return t

    def inlined(source: T, made: T) -> bool:
        return not made.reads or made in proved

    return rewrite(program, inlined=inlined, replace=replace)
