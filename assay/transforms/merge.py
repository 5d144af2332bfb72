"""Loop merging (proposition 6.3): two neighbouring axes of a tensor become one where every address allows it."""

from __future__ import annotations

from collections.abc import Sequence

from assay.core.index import Ix, Var, divisions, ix
from assay.core.lang import E, T, axes, let, substitute, tensor, walk
from assay.semantics.access import row_major


def merge_axes(t: T, j: int) -> T | None:
    """The let with axes j, j+1 (sizes a, b) as one axis of size a*b, or None where an address forbids it.

    merged[.., m, ..] = t[.., m // b, m % b, ..]: the same elements in the same row-major order, so the two are the same
    memory.  The condition a_j = s_(j+1) * a_(j+1) of the document reads here: in no flat address does a division by the
    merged axis survive, and the axis occurs nowhere else (not as a value, not under a guarded load).
    """
    b = t.shape[j + 1]
    shape = (*t.shape[:j], t.shape[j] * b, *t.shape[j + 2 :])

    def body(*i: Ix) -> E:
        split = (*i[:j], i[j] // b, i[j] % b, *i[j + 1 :])
        return substitute(t.body, dict(zip(axes(t.shape), split, strict=True)))

    merged = tensor(shape, body)
    v = axes(shape)[j]
    for e in walk((merged.body,)):
        if v not in e.free:
            continue
        if e.op in ("idx", "load_or_zero"):
            return None
        if e.op == "load" and _divides(row_major(e.attr[0].shape, e.attr[1]), v):
            return None
    return merged


def _divides(address: Ix, v: Var) -> bool:
    return any(v in d.free for d in divisions(address))


def merge_loops(t: T) -> T:
    """The let with every mergeable pair of neighbouring axes merged, and axes of size 1 dropped (the same memory)."""
    return merge_together((t,))[0]


def merge_together(tensors: Sequence[T]) -> tuple[T, ...]:
    """Lets of one shape, with the same axes merged in all of them: pairs that every one of them allows."""
    if any(t.kind != "let" or 0 in t.shape for t in tensors):
        return tuple(tensors)
    now = tuple(map(drop_unit_axes, tensors))
    for j in reversed(range(len(now[0].shape) - 1)):
        merged = [merge_axes(t, j) for t in now]
        if all(m is not None for m in merged):
            now = tuple(m for m in merged if m is not None)
    return now


def drop_unit_axes(t: T) -> T:
    """The let without its axes of size 1 (their index is the constant 0 already)."""
    kept = [k for k, n in enumerate(t.shape) if n != 1]
    if len(kept) == len(t.shape):
        return t
    shape = tuple(t.shape[k] for k in kept)
    new = dict(zip(kept, axes(shape), strict=True))
    return let(shape, substitute(t.body, {v: ix(new[k]) for k, v in enumerate(axes(t.shape)) if k in new}))

