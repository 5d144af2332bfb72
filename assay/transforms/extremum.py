"""A definition that is a maximum or a minimum: the first term that equals the stored result has the cotangent.

    m[i] = max(k:n) x[i,k]      at[i] = the first k where x[i,k] = m[i]; 0 where none does, which is where m[i] is NaN
                                x[i,at[i]] += cotangent of m[i]

The loop runs backwards, so that the last term that it finds is the first one: a comparison and a choice a term, where running the
fold again (selection.py) takes three operations.  Of a window of -inf the first term has the cotangent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from assay.core import dtypes as dt
from assay.core.index import Ix, Var
from assay.core.lang import (
    E,
    Environment,
    as_index,
    const,
    folds,
    index,
    is_const,
    load_as,
    op,
    open_fold,
    own_accumulators,
    select,
    substitute,
    substitute_all,
)
from assay.semantics.access import row_major
from assay.transforms.cotangent import Cotangent
from assay.transforms.opened import Given, tabulated
from assay.transforms.push import Emit, Frame, NotClosed, push

Emitted = tuple[E, Cotangent, tuple[Var, ...]]
UNITS = {"max": -math.inf, "min": math.inf}


def extremum(node: E, c: Cotangent, frame: Frame, emit: Emit) -> Given | None:
    """The cotangents of the terms of a fold whose value is stored; None where it is no maximum or minimum from its unit."""
    result = frame.stored.get(node)
    opened = None if result is None else _terms(node)
    if result is None or opened is None:
        return None
    loops, term = opened
    inner = frame
    for v in loops:
        inner = inner.inside(v, closed=True)
    emitted: list[Emitted] = []
    try:
        if push([(term, c)], inner, lambda *x: emitted.append(x)):
            return None
    except NotClosed:
        return None
    at = tabulated(_first(loops, op("eq", term, result)), frame.scope)
    there: Environment = dict(zip(loops, _digits(as_index(at), [v.n for v in loops]), strict=True))
    for e, given, scope in emitted:
        t, _ = e.attr
        moved = substitute_all(tuple(map(index, e.attr[1])), there)
        value, *guards = substitute_all((given.value, *given.guards), there)
        read = load_as(e.op, t, *moved)
        emit(read, Cotangent((), value).under(*guards), tuple(v for v in scope if v not in there))
    return []


def _terms(node: E) -> tuple[list[Var], E] | None:
    """(loops, term) of a nest of loops that takes the maximum or minimum of the terms, from the unit."""
    first, before, loops = node.args[0], node.args[0], list[Var]()
    while node.op == "fold" and len(node.args) == 2 and node.args[0] is before:
        v, _, (step,), (before,) = open_fold(node)
        loops.append(v)
        if step.op in UNITS and before in step.args:
            (term,) = (x for x in step.args if x is not before)
            reads = any(own_accumulators(w, (term,)) for w in loops)
            return None if reads or not is_const(first, UNITS[step.op]) else (loops, term)
        node = step
    return None


def _first(loops: Sequence[Var], holds: E) -> E:
    """The number of the first iteration in row-major order at which it holds; 0: at none."""
    extents = [v.n for v in loops]

    def nest(depth: int, found: E, at: tuple[Ix, ...]) -> E:
        if depth == len(loops):
            here: Environment = dict(zip(loops, at, strict=True))
            return select(substitute(holds, here), index(row_major(extents, at)), found)
        n = extents[depth]
        return folds(n, [found], lambda a, r: nest(depth + 1, a, (*at, n - 1 - r)))[0]

    return nest(0, const(0, dt.i64), ())


def _digits(number: Ix, extents: Sequence[int]) -> list[Ix]:
    """The position of which this is the number in row-major order."""
    found: list[Ix] = []
    for n in reversed(extents):
        found.append(number % n)
        number = number // n
    return found[::-1]
