"""A schedule on the placement of a kernel: copies and lanes of every loop, and what is not allowed."""

from __future__ import annotations

import math
from itertools import groupby
from typing import NamedTuple

from assay.backends.placement import Fold, Loop, Placement, Value, reachable
from assay.backends.plan import Schedule
from assay.core.sizes import hint


class Rep(NamedTuple):
    """How many iterations of a loop are in flight: `copies` side by side, each of `lanes` lanes."""

    copies: int
    lanes: int


ONE = Rep(1, 1)


def tile(p: Placement, s: Schedule, axis: int, lanes: int) -> int:
    """Elements of the axis that one iteration of its loop computes."""
    return lanes * s.copies if s.vector == axis else dict(s.jam).get(axis, 1)


def in_rows(f: Fold, lanes: int) -> bool:
    """Whether "rowvec" computes the terms of the fold in lanes along it, where its accumulators are no vectors."""
    return f.splits_terms and hint(f.loop.n) >= lanes and bool(f.terms)


def replication(p: Placement, s: Schedule, lanes: int) -> dict[Loop, Rep]:
    """rep of each axis and row-buffer loop that is not (1, 1); in "rowvec", folds in rows have (1, lanes) besides."""
    rep: dict[Loop, Rep] = {}
    for k, a in enumerate(p.axes):
        if a is None:
            continue
        if s.vector == k and hint(a.n) >= lanes:
            rep[a] = Rep(s.copies, lanes)
        elif (u := dict(s.jam).get(k, 1)) > 1:
            rep[a] = Rep(min(u, hint(a.n)), 1)
    for fill in p.fills:
        last = fill.loops[-1] if fill.loops else None
        if last is not None and last.n >= lanes:
            rep[last] = Rep(max(1, min(s.copies, last.n // lanes)), lanes)
    return rep


def copies(v: Value, rep: dict[Loop, Rep]) -> int:
    """How often the value exists at a time."""
    return math.prod(rep[x].copies for x in v.varies if x in rep)


def is_vector(v: Value, rep: dict[Loop, Rep]) -> bool:
    return any(x in rep and rep[x].lanes > 1 for x in v.varies)


def carried(p: Placement, lanes: int) -> tuple[Fold, ...] | None:
    """The fold of each store that `carry` cuts in chunks, or None where that is not possible.

    Each store must be a function of one fold that is in no other fold of any store, has one accumulator of the tensor's type,
    varies with every axis, and all of these folds have the same length.
    """
    found: list[Value] = []
    nested: set[Value] = set()
    for s in p.stores:
        if s.tensor.kind != "let":
            return None
        outer = [v for v in reachable((s.value,)) if v.op == "fold"]
        inner = {w for v in outer for w in reachable(v.attr.steps) if w.op == "fold"}
        nested |= inner
        outer = [v for v in outer if v not in inner]
        if len(outer) != 1 or len(outer[0].args) != 1 or outer[0].dtype is not s.tensor.dtype:
            return None
        if not outer[0].within or outer[0].within != frozenset(a for a in p.axes if a):
            return None
        found.append(outer[0])
    if len({v.attr.loop.n for v in found}) != 1 or not nested.isdisjoint(found) or any(v.op == "fill" for v in p.values):
        return None
    return tuple(v.attr for v in found)


def disjoint_axes(p: Placement) -> frozenset[int]:
    """The axes whose iterations write different elements: all of a let, require or scan; those of a scatter that are a
    written index by themselves."""
    if p.kind != "scatter":
        return frozenset(range(len(p.axes)))
    alone: set[int] = set()
    for k, a in enumerate(p.axes):
        if a is None or all(any(i.terms == ((a.var, 1),) for i in s.indices) for s in p.stores):
            alone.add(k)
    return frozenset(alone)


def illegal(p: Placement, s: Schedule, lanes: int) -> str | None:
    """Why the schedule cannot be used for the kernel; None where it can."""
    rank, free = len(p.axes), disjoint_axes(p)
    named = [a for a in (s.vector, *(k for k, _ in s.jam), *(k for k, _ in s.order)) if a is not None]
    if any(not 0 <= a < rank for a in named):
        return f"axes {named} of a kernel of rank {rank}"
    if s.order and sorted(k for k, block in s.order if block is None) != list(range(rank)):
        return f"order {s.order} must name each of {rank} axes once"
    for at, (k, block) in enumerate(s.order):
        if block is not None and (block % tile(p, s, k, lanes) or (k, None) not in s.order[at:]):
            return f"block {block} of axis {k} must be a multiple of its tile, before its loop"
    if s.vector is not None and dict(s.jam).get(s.vector, 1) > 1:
        return f"axis {s.vector} is both vector and jam"
    threaded = s.threads[1] if isinstance(s.threads, tuple) else s.threads
    if threaded is not None and isinstance(s.threads, tuple) is not any(k == threaded and b is not None for k, b in s.order):
        return f"threads {s.threads}: an axis is divided by its blocks where it has them"
    tied = {a for a in (s.vector, threaded, *(k for k, u in s.jam if u > 1)) if a is not None} - free
    if tied:
        return f"axes {sorted(tied)} of a scatter may write the same element twice: they must run in order"
    kept = [k for k, _ in groupby(k for k, _ in s.order if k not in free)]  # blocks right around their loop are one loop
    if kept != sorted(set(kept)):
        return f"order {s.order} changes the order in which elements of a scatter are written"
    if p.kind in ("scan", "scatter") and (s.carry is not None or p.fills):
        return f"{p.kind} with carry or row buffers"
    if s.carry is not None and carried(p, lanes) is None:
        return "carry needs one fold, of one accumulator, for each output"
    rep = replication(p, s, lanes)
    in_lanes = {x for x, r in rep.items() if r.lanes > 1}
    if s.fold == "rowvec":
        in_lanes |= {v.attr.loop for v in p.values if v.op == "fold" and not is_vector(v, rep) and in_rows(v.attr, lanes)}
    for v in p.values:
        if v.op == "fill" and not in_lanes.isdisjoint(v.varies):
            return f"the row buffer of {v.attr.tensor!r} would be filled in lanes"
    return None


__all__ = ["ONE", "Rep", "carried", "copies", "disjoint_axes", "illegal", "in_rows", "is_vector", "replication", "tile"]
