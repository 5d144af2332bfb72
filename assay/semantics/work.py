"""Scalar work (theorem 5.1): the operations of a definition, each done once for every setting of what it depends on.

An fma counts two operations, a named function those of its composition, any other row of the table one; conversions, and the
arithmetic and conditions of indices (what depends on no data), none.  This is the least number for any order of the loops;
semantics/cost.py counts those of one loop nest.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cache

from assay.core.index import Var
from assay.core.lang import E, T, accumulators, bodies, own_accumulators
from assay.core.row import MARKS, TABLE
from assay.semantics.cost import length


@cache
def work(t: T) -> int:
    """Operations that the definition takes; none for an input or an extern."""
    found: dict[E, frozenset[Var]] = {}
    for e in bodies(t):
        _visit(e, frozenset(), None, found)
    count = sum(_operations(e) * math.prod(v.n for v in free) for e, free in found.items())
    return count + (math.prod(t.domain) if t.kind == "scatter" and t.combine is not None else 0)


def total_work(tensors: Iterable[T]) -> int:
    """The sum over the definitions."""
    return sum(map(work, tensors))


def _operations(e: E) -> int:
    if e.op not in TABLE or e.op in MARKS or not (e.dtype.is_float or e.reads):
        return 0
    return 2 if e.op == "fma" else length(TABLE[e.op], tuple(a.dtype for a in e.args))


def _visit(e: E, around: frozenset[Var], loop: Var | None, found: dict[E, frozenset[Var]]) -> None:
    """Record what each node below `e` depends on; what reads an accumulator over `loop` also depends on what its fold does."""
    todo = [e]
    while todo:
        x = todo.pop()
        if x in found:
            continue
        carried = loop is not None and loop in x.free and bool(own_accumulators(loop, (x,)))
        free = found[x] = x.free | around if carried else x.free
        if x.op == "fold":
            half = len(accumulators(x))
            todo.extend(x.args[:half])
            for step in x.args[half:]:
                _visit(step, free, x.attr, found)
        else:
            todo.extend(x.args[:1] if x.op in MARKS else x.deps)
