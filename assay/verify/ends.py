"""Upper ends of opaque integers that depend on sizes, as facts:

    load of an extern in 0..n-1                  what its contract declares
    fold(k:n; a=0) select(c, [k], a)             <= n - 1: a step keeps the accumulator, or takes the loop's index or a constant
    fold(k:n; a=0) add(a, i64(c))                <= n * 1: each step adds a bounded amount, and no sum falls below the type
    band(x, m) for m >= 0                        <= m

Numbers are in the ranges that every expression carries; these hold for all sizes.
"""

from __future__ import annotations

from collections.abc import Iterator

from assay.core import dtypes as dt
from assay.core.index import Ix, ix, within
from assay.core.lang import LOADS, E, accumulators, as_index, convert, index, op
from assay.core.lang.folds import growth
from assay.core.polynomial import expression, extreme, nonnegative, polynomial

CHOICES = 64  # of a step


def ends(a: E) -> Iterator[E]:
    """Conditions that bound the atom from above by sizes, where it is one of the above."""
    if not a.dtype.is_integer:
        return
    if a.op == "band":
        yield from (op("le", a, m) for m in a.args if m.lo >= 0 and m.op == "idx")
    elif (end := _end(a)) is not None and end.sizes and dt.i64.lo <= end.lo and end.hi <= dt.i64.hi:
        yield op("le", convert(a, dt.i64), index(end))


def _end(a: E) -> Ix | None:
    if a.op in LOADS:
        t, indices = a.attr
        if t.end is not None:
            return t.end if all(map(within, indices, t.shape)) else None
        end = _end(t.body) if t.kind == "let" and t.body.op in ("fold", "proj") else None
        outside = not all(map(within, indices, t.shape))  # there the load is 0
        return None if end is not None and outside and not nonnegative(end) else end
    fold, k = (a.args[0], a.attr) if a.op == "proj" else (a, 0)
    return fold_end(fold, k) if fold.op == "fold" else None


def fold_end(fold: E, k: int) -> Ix | None:
    """What accumulator `k` of the fold never exceeds, over sizes: after no step, and after each one if before it."""
    half = len(fold.args) // 2
    step, own = fold.args[half + k], accumulators(fold)[k]
    end = _top(fold.args[k])
    added = growth(step, own)
    if end is not None and added is not None:
        least = fold.args[k].lo + min(added[0], 0) * (fold.attr.hi + 1)  # below its type a sum comes back from above
        return end + max(added[1], 0) * ix(fold.attr.n) if least >= own.dtype.lo else None
    for x in _choices(step):
        top = end if x is own else _top(x)
        if end is None or top is None:
            return None
        if not nonnegative(end - top):
            end = top if nonnegative(top - end) else None
    return end


def _choices(e: E) -> list[E]:
    """What the selects choose from."""
    found: dict[E, None] = {}
    todo = [e]
    while todo and len(found) < CHOICES:
        x = todo.pop()
        if x.op == "select":
            todo += x.args[1:]
        else:
            found[x] = None
    return list(found) if not todo else [e]


def _top(e: E) -> Ix | None:
    """An expression over sizes that an index, or a constant, never exceeds."""
    if e.op not in ("const", "idx"):
        return None
    made = extreme(polynomial(as_index(e)), 1)
    return None if made is None else expression(made)


__all__ = ["ends"]
