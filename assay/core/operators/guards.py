"""Indices read from data, and accesses that hold only on a part of the domain."""

from __future__ import annotations

from collections.abc import Sequence

from assay.core import dtypes as dt
from assay.core.errors import OutOfBounds, Unsupported, UserError
from assay.core.index import Ix
from assay.core.lang import E, T, as_index, const, convert, index, is_const, load, op, require, select, tensor

INDEX_TYPES = (dt.i64, dt.i32)


def checked_index(idx: T, n: int, *, operator: str, dim: int, wraps: bool = False) -> T:
    """idx as i64 positions in an axis of n elements; with `wraps`, a negative index counts from the end, once.

    Where the interval of idx proves 0 <= position < n this is a plain let; else a require with the range [0, n-1], so
    that every access through it is provably in bounds.

    Raises UserError for a type that is not an index, OutOfBounds where no element can be in bounds.
    """
    if idx.dtype not in INDEX_TYPES:
        raise UserError(f"an index tensor must be i64 or i32, not {idx.dtype.name}")

    def position(*i: Ix) -> E:
        raw = convert(load(idx, *i), dt.i64)
        return select(raw < 0, raw + n, raw) if wraps else raw

    found = tensor(idx.shape, position)
    inside = (found.body >= 0) & (found.body < n)
    if is_const(inside, True) or 0 in idx.shape:
        return found
    rule = f"{operator}, dimension {dim}; " + ("a negative index wraps once" if wraps else "negative indices are not allowed")
    if n == 0 or is_const(inside, False):
        shown = str(found.lo) if found.lo == found.hi else f"{found.lo} .. {found.hi}"
        raise OutOfBounds(f"index out of bounds: 0 <= {shown} < {n} ({rule})")
    unwrapped = f"{{wrapped:{n}}}" if wraps else ""
    message = f"[IndexError] index out of bounds: 0 <= {{value}} < {n} ({rule}{unwrapped}) at {{index}}"
    return require(idx.shape, found.body, inside, message, lo=0, hi=n - 1)


def known_index(i: int, n: int, dim: int) -> int:
    """The position of a Python index, -n <= i < n.  Raises OutOfBounds for any other."""
    if not -n <= i < n:
        raise OutOfBounds(f"index out of bounds: {-n} <= {i} < {n} (dimension {dim})")
    return i + n if i < 0 else i


def inside(indices: Sequence[Ix], shape: Sequence[int]) -> E:
    """Whether every index lies in its axis.  What the ranges of the variables decide vanishes."""
    held = const(True, dt.bool_)
    for i, n in zip(indices, shape, strict=True):
        held = both(held, both(op("le", const(0, dt.i64), index(i)), op("lt", index(i), const(n, dt.i64))))
    return held


def within(e: E, lo: int, hi: int) -> E:
    """lo <= e <= hi; a side that the type or the interval of `e` decides vanishes."""
    low = const(True, dt.bool_) if e.lo >= lo else op("le", const(lo, e.dtype), e)
    high = const(True, dt.bool_) if e.hi <= hi else op("le", e, const(hi, e.dtype))
    if e.hi < lo or e.lo > hi:
        raise OutOfBounds(f"{lo} <= value <= {hi} cannot hold: the value lies in {e.lo}..{e.hi}")
    return both(low, high)


def both(a: E, b: E) -> E:
    """a and b; a decided side vanishes."""
    return b if is_const(a, True) else a if is_const(b, True) else a & b


def load_or(t: T, indices: Sequence[Ix], fill: int | float | bool) -> E:
    """t[indices], or `fill` outside the domain; a guarded load, never a load of what lies outside."""
    if 0 in t.shape:
        return const(fill, t.dtype)
    return select(inside(indices, t.shape), load(t, *indices), const(fill, t.dtype))


def clamped(i: Ix, n: int) -> Ix:
    """min(max(i, 0), n - 1)."""
    return as_index(op("min", op("max", index(i), 0), n - 1))


def data_dependent(what: str, instead: str) -> Unsupported:
    """The error of an operator whose result shape depends on values."""
    return Unsupported(f"{what}: the shape of the result depends on the data; use {instead}")
