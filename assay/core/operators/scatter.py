"""Writes through indices.  Of several writes to one element the last wins, or all accumulate, in lexicographic order.

    y = self; for u in the index's domain, lexicographic: y[target(u)] = value(u), or combine(y[target(u)], value(u))

Half types accumulate in f32 and round once, bools with or (sums) and and (products).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from assay.core import dtypes as dt
from assay.core.dtypes import compute_dtype
from assay.core.errors import UserError
from assay.core.index import Ix, affine, ix
from assay.core.lang import E, T, axes, const, convert, index, is_const, load, op, require, scatter, select, tensor
from assay.core.operators.build import at, broadcast, cast, constant, copy, elements, lift, number, same_type, size_at
from assay.core.operators.build import dim as axis_of
from assay.core.operators.guards import both, checked_index, data_dependent, inside, known_index
from assay.core.operators.indexing import advanced, at_element, flat, indices, is_mask, need_mask, replaced, resized, selected
from assay.core.operators.registry import operator
from assay.core.operators.samples import ALL, like, listed
from assay.core.operators.scans import states
from assay.core.operators.views import STRIDED, contiguous_strides, strided_place

_ON_BOOL = {"add": "or", "mul": "and", "max": "or", "min": "and"}


def put(base: T, domain: Sequence[int], target: Callable[..., Sequence[Ix | E]], value: Callable[..., E],
        combine: str | None = None) -> T:  # fmt: skip
    """base with value(u) stored at target(u), or combined into it, for u in `domain` in lexicographic order."""
    if 0 in domain or 0 in base.shape:
        return copy(base)
    u = tuple(map(ix, axes(domain)))
    if combine is None:
        return scatter(base, domain, target(*u), convert(value(*u), base.dtype))
    how = compute_dtype(base.dtype)
    name = _ON_BOOL[combine] if how is dt.bool_ else combine
    return cast(scatter(cast(base, how), domain, target(*u), convert(value(*u), how), name), base.dtype)


# ------------------------------------------------------------------------------------------------ along one axis


def along(self: T, dim: int, chosen: T, source: T | None, what: str) -> tuple[T, Callable[..., Sequence[Ix | E]]]:
    """(checked index, u -> u with index[u] along dim) of an operator whose index has the rank of self."""
    d = axis_of(dim, len(self.shape))
    if chosen.size:
        limits = [("self", self.shape, d)] + ([("src", source.shape, None)] if source is not None else [])
        for name, shape, free in limits:
            if len(shape) != len(chosen.shape) or any(k != free and n > shape[k] for k, n in enumerate(chosen.shape)):
                where = "" if free is None else f" outside axis {d}"
                raise UserError(
                    f"index of shape {list(chosen.shape)} for {name} of shape {list(shape)}; "
                    f"allowed: the same rank, and no larger{where}"
                )
    positions = checked_index(chosen, size_at(self, d), operator=what, dim=d)
    return positions, lambda *u: replaced(u, d, load(positions, *u)) if u else ()


_INDEX = indices(2, 4, n=3)
_SOURCES = ((like(3, 4), 0, _INDEX, like(2, 4)), (like(3, 4), 1, indices(3, 7, n=4), like(3, 8)),
            (like(1, 4), 0, indices(6, 4, n=1), like(6, 4)),
            (like(), 0, indices(n=1), like()), (like(3, 4), 0, indices(0, 4, n=3), like(0, 4)),
            (like(3, 4), -1, indices(1, 2, n=4), like(2, 2)),
            *((like(3, 4, dtype=d), 0, _INDEX, like(2, 4, dtype=d)) for d in ALL))  # fmt: skip
_VALUES = ((like(3, 4), 0, _INDEX, 1.5), (like(3, 4, dtype=dt.i64), 1, indices(3, 7, n=4), -2), (like(), 0, indices(n=1), 2.0),
           (like(3, dtype=dt.f16), 0, indices(5, n=3), 0.1))  # fmt: skip
_REDUCE = {"add": "add", "multiply": "mul"}


def _combine(reduce: str) -> str:
    if reduce not in _REDUCE:
        raise UserError(f"reduce={reduce!r}; allowed: 'add', 'multiply'")
    return _REDUCE[reduce]


@operator("scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor", inplace=True, samples=listed(*_SOURCES))
def scatter_src(self: T, dim: int, chosen: T, src: T) -> T:
    """y = self, then y[u with chosen[u] along dim] = src[u]; the last write wins."""
    same_type(self, src)
    _, target = along(self, dim, chosen, src, "scatter")
    return put(self, chosen.shape, target, lambda *u: load(src, *u))


@operator("scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor", inplace=True, samples=listed(*_VALUES))
def scatter_value(self: T, dim: int, chosen: T, value: bool | int | float) -> T:
    """y = self, then y[u with chosen[u] along dim] = value."""
    _, target = along(self, dim, chosen, None, "scatter")
    return put(self, chosen.shape, target, lambda *_: number(value, self.dtype))


@operator("scatter.reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor", inplace=True,
          samples=listed(*((*s, r) for s in _SOURCES for r in _REDUCE)))  # fmt: skip
def scatter_with(self: T, dim: int, chosen: T, src: T, reduce: str) -> T:
    """y = self, then y[u with chosen[u] along dim] += src[u] (reduce="add") or *= ("multiply"), in lexicographic order."""
    same_type(self, src)
    _, target = along(self, dim, chosen, src, "scatter")
    return put(self, chosen.shape, target, lambda *u: load(src, *u), _combine(reduce))


@operator("scatter.value_reduce(Tensor self, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor", inplace=True,
          samples=listed(*((*s, r) for s in _VALUES for r in _REDUCE)))  # fmt: skip
def scatter_value_with(self: T, dim: int, chosen: T, value: bool | int | float, reduce: str) -> T:
    """y = self, then y[u with chosen[u] along dim] += value (reduce="add") or *= ("multiply")."""
    _, target = along(self, dim, chosen, None, "scatter")
    return put(self, chosen.shape, target, lambda *_: number(value, self.dtype), _combine(reduce))


@operator("scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor", inplace=True, samples=listed(*_SOURCES))
def scatter_add(self: T, dim: int, chosen: T, src: T) -> T:
    """y = self, then y[u with chosen[u] along dim] += src[u], in lexicographic order of u."""
    return scatter_with(self, dim, chosen, src, "add")


_REDUCTIONS = {"sum": "add", "mean": "add", "prod": "mul", "amax": "max", "amin": "min"}


def _neutral(reduce: str, how: dt.DType) -> E:
    if reduce in ("sum", "mean", "prod"):
        return const(int(reduce == "prod"), how)
    if how.is_float:
        return const(-math.inf if reduce == "amax" else math.inf, how)
    return const(how.lo if reduce == "amax" else how.hi, how)


@operator("scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) -> Tensor",
          inplace=True, samples=listed(*((*s, r, k) for s in (*_SOURCES[:5], *_SOURCES[-6:-3]) for r in _REDUCTIONS
                                         for k in (True, False))))  # fmt: skip
def scatter_reduce(self: T, dim: int, chosen: T, src: T, reduce: str, include_self: bool) -> T:
    """y[j] = the sum, mean, prod, amax or amin of all src[u] with u's target j (and of self[j]); self[j] where there is none.

    A left fold in lexicographic order of u, from self[j] or from the neutral element; the mean divides the sum by the
    count (integers: floor).
    """
    if reduce not in _REDUCTIONS:
        raise UserError(f"reduce={reduce!r}; allowed: {', '.join(map(repr, _REDUCTIONS))}")
    dtype = same_type(self, src)
    how = compute_dtype(dtype)
    _, target = along(self, dim, chosen, src, "scatter_reduce")
    if 0 in chosen.shape:
        return copy(self)
    start = cast(self, how) if include_self else tensor(self.shape, lambda *_: _neutral(reduce, how))
    folded = put(start, chosen.shape, target, lambda *u: convert(load(src, *u), how), _REDUCTIONS[reduce])
    if include_self and reduce != "mean":
        return cast(folded, dtype)
    hits = put(constant(self.shape, 0, dt.i64), chosen.shape, target, lambda *_: const(1, dt.i64), "add")

    def body(*i: Ix) -> E:
        result, n = load(folded, *i), load(hits, *i)
        if reduce == "mean":
            count = convert(op("max", n + int(include_self), 1), how)
            result = op("div" if how.is_float else "floordiv", result, count)
        return result if include_self else select(n > 0, result, convert(load(self, *i), how))

    return elements(self.shape, body, dtype)


# ------------------------------------------------------------------------------------------------ x[index tensors] = values


_PUTS = ((like(5), (indices(3, n=5, wraps=True),), like(3)), (like(3, 4), (None, indices(2, 2, n=4)), like(3, 2, 2)),
         (like(3, 4), (indices(2, 1, n=3), indices(5, n=4)), like(5)),
         (like(2, 3, 4), (indices(2, n=2), None, indices(2, n=4)), like()),
         (like(1, 4), (indices(3, n=1),), like(3, 4)), (like(3, 4), (indices(0, n=3),), like(0, 4)),
         *((like(4, dtype=d), (indices(9, n=4),), like(9, dtype=d)) for d in ALL))  # fmt: skip


@operator("index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor", inplace=True,
          samples=listed(*((*s, a) for s in _PUTS for a in (False, True)),
                         (like(3, 4), (like(3, 4, dtype=dt.bool_),), like(), False),
                         (like(3, 4), (None, like(4, dtype=dt.bool_)), like(1), False),
                         (like(3, 4), (like(3, dtype=dt.bool_),), like(4), True)))  # fmt: skip
def index_put(self: T, given: Sequence[T | None], values: T, accumulate: bool) -> T:
    """y = self, then y[given] = values, or += with `accumulate`; values broadcast; the last of several writes wins.

    One mask is allowed where the values do not depend on how many elements it selects.
    """
    if values.shape:
        same_type(self, values)
    values = cast(values, self.dtype)
    if any(map(is_mask, given)):
        return _masked_put(self, given, values, accumulate=accumulate)
    a = advanced(self, given, "index_put")
    if broadcast(values.shape, a.shape) != a.shape:
        raise UserError(f"values of shape {list(values.shape)} do not broadcast to the indexed shape {list(a.shape)}")
    return put(self, a.shape, lambda *u: a.source(u), lambda *u: at(values, u), "add" if accumulate else None)


def _masked_put(self: T, given: Sequence[T | None], values: T, *, accumulate: bool) -> T:
    first = next(d for d, t in enumerate(given) if t is not None)
    mask = given[first]
    assert mask is not None
    need_mask(mask)
    end = first + len(mask.shape)
    if any(t is not None for t in given[first + 1 :]) or mask.shape != self.shape[first:end]:
        raise UserError(
            f"a mask of shape {list(mask.shape)} at axis {first} of shape {list(self.shape)}; "
            "allowed: one mask, with the sizes of the axes that it stands for"
        )
    trailing = self.shape[end:]
    shape = values.shape if values.size != 1 else ()
    if len(shape) > len(trailing) or broadcast(shape, trailing) != trailing:
        raise data_dependent("a masked assignment of many values", "masked_scatter, or where with values of the whole shape")

    def body(*i: Ix) -> E:
        old, new = load(self, *i), at(values, i[end:]) if values.size != 1 else load(values, *[0] * len(values.shape))
        if accumulate:
            new = lift(old) | lift(new) if self.dtype is dt.bool_ else lift(old) + lift(new)
        return select(load(mask, *i[first:end]), convert(new, self.dtype), old)

    return elements(self.shape, body, self.dtype)


@operator("masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor", inplace=True,
          samples=listed((like(3, 4), like(3, 4, dtype=dt.bool_), like(12)), (like(3, 4), like(4, dtype=dt.bool_), like(3, 4)),
                         (like(1), like(1, dtype=dt.bool_), like(1)), (like(), like(dtype=dt.bool_), like(2)),
                         (like(0), like(0, dtype=dt.bool_), like(0))))  # fmt: skip
def masked_scatter(self: T, mask: T, source: T) -> T:
    """Where mask holds, the next element of source in row-major order, else self; too few elements are an error."""
    need_mask(mask)
    same_type(self, source)
    shape = broadcast(self.shape, mask.shape)
    if 0 in shape:
        return constant(shape, 0, self.dtype)
    held = flat(tensor(shape, lambda *i: at(mask, i)))
    before = states((), 0, held.size, [const(0, dt.i64)], lambda _, a, r: (a[0] + convert(load(held, r), dt.i64),))[0]
    taken = tensor(held.shape, lambda k: select(load(held, k), load(before, k), 0))
    enough = (taken.body < source.size) | ~tensor(held.shape, lambda k: load(held, k)).body
    message = f"[ValueError] masked_scatter: source has {source.size} elements, fewer than the mask selects"
    place = require(held.shape, taken.body, enough, message, lo=0, hi=max(source.size - 1, 0))
    if 0 in source.shape:
        return tensor(shape, lambda *i: at(self, i))
    values, strides = flat(source), contiguous_strides(shape)

    def body(*i: Ix) -> E:
        position = affine(list(zip(strides, i, strict=True)))
        return select(at(mask, i), load(values, load(place, position)), at(self, i))

    return elements(shape, body, self.dtype)


# ------------------------------------------------------------------------------------------------ whole slices by index


def _slices(self: T, dim: int, chosen: T, source: T, what: str) -> tuple[tuple[int, ...], Callable[..., Sequence[Any]]]:
    """(the shape of `source`, u -> u with chosen[u[d]] along dim)."""
    d, shape, positions = selected(self, dim, chosen, what)
    same_type(self, source)
    if source.shape != shape and not (source.size == 1 == math.prod(shape) and len(source.shape) <= 1):
        raise UserError(f"source of shape {list(source.shape)} for {chosen.size} indices along axis {d}; allowed: {list(shape)}")
    return source.shape, lambda *u: replaced(u, d, at_element(positions, u[d])) if u and self.shape else [0] * len(self.shape)


_SLICES = ((like(3, 4), 0, indices(5, n=3), like(5, 4)), (like(3, 4), -1, indices(2, n=4), like(3, 2)),
           (like(1, 4), 0, indices(3, n=1), like(3, 4)),
           (like(), 0, indices(1, n=1), like()), (like(3, 4), 0, indices(0, n=3), like(0, 4)),
           (like(3, 4), 1, indices(n=4), like(3, 1)))  # fmt: skip
_TYPED = tuple((like(3, dtype=d), 0, indices(7, n=3), like(7, dtype=d)) for d in ALL)


@operator("index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor", inplace=True,
          samples=listed(*((*s, 1) for s in (*_SLICES, *_TYPED)), *((*s, 2) for s in _TYPED[:-1]),
                         (*_SLICES[0], -0.5)))  # fmt: skip
def index_add(self: T, dim: int, chosen: T, source: T, alpha: bool | int | float) -> T:
    """y = self, then y[.., chosen[k], ..] += alpha * source[.., k, ..] along dim; negative indices are errors."""
    domain, target = _slices(self, dim, chosen, source, "index_add")
    scale = number(alpha, self.dtype)

    def value(*u: Ix) -> E:
        s = lift(load(source, *u))
        return s if is_const(scale, 1) or self.dtype is dt.bool_ else s * scale

    return put(self, domain, target, value, "add")


@operator("index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor", inplace=True,
          samples=listed(*_SLICES, *_TYPED))  # fmt: skip
def index_copy(self: T, dim: int, chosen: T, source: T) -> T:
    """y = self, then y[.., chosen[k], ..] = source[.., k, ..] along dim; the last write wins; negative indices are errors."""
    domain, target = _slices(self, dim, chosen, source, "index_copy")
    return put(self, domain, target, lambda *u: load(source, *u))


@operator("index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar value) -> Tensor", inplace=True,
          samples=listed((like(3, 4), 0, indices(2, n=3, wraps=True), -1.5), (like(3, 4), 1, indices(n=4), 0),
                         (like(), 0, indices(1, n=1), 2),
                         (like(3, dtype=dt.i32), 0, indices(2, n=3), 7)))  # fmt: skip
@operator("index_fill.int_Tensor(Tensor self, int dim, Tensor index, Tensor value) -> Tensor", inplace=True,
          samples=listed((like(3, 4), 0, indices(2, n=3, wraps=True), like()),
                         (like(3, dtype=dt.f16), 0, indices(2, n=3), like(dtype=dt.f64))))  # fmt: skip
def index_fill(self: T, dim: int, chosen: T, value: T | bool | int | float) -> T:
    """y = self, then y[.., chosen[k], ..] = value along dim; negative indices wrap once; value has no axes."""
    d, shape, positions = selected(self, dim, chosen, "index_fill", wraps=True)
    if isinstance(value, T) and value.shape:
        raise UserError(f"value must have no axes, not shape {list(value.shape)}")
    filler = cast(value, self.dtype) if isinstance(value, T) else number(value, self.dtype)
    return put(self, shape, lambda *u: replaced(u, d, at_element(positions, u[d])) if u else (),
               lambda *_: load(filler) if isinstance(filler, T) else filler)  # fmt: skip


# ------------------------------------------------------------------------------------------------ writes to views


def _need_slice(src: T, shape: Sequence[int], what: str) -> None:
    if src.shape != tuple(shape):
        raise UserError(f"src of shape {list(src.shape)} for {what} of shape {list(shape)}")


@operator("slice_scatter(Tensor self, Tensor src, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor",
          samples=listed((like(5), like(2), 0, 1, 3, 1), (like(3, 8), like(3, 3), 1, 1, 7, 2),
                         (like(3, 8), like(3, 8), -1, None, None, 1),
                         (like(5), like(2), 0, -2, None, 1), (like(5), like(0), 0, 4, 2, 1),
                         (like(5), like(5), 0, -100, 100, 1),
                         (like(4, dtype=dt.bf16), like(2, dtype=dt.bf16), 0, 0, 4, 3),
                         (like(0, 3), like(0, 3), 0, None, None, 1)))  # fmt: skip
def slice_scatter(self: T, src: T, dim: int, start: int | None, end: int | None, step: int) -> T:
    """self with src in the slice start:end:step of dim (bounds counted from the end where negative, then clipped)."""
    same_type(self, src)
    if not self.shape or step <= 0:
        raise UserError(f"a slice with step {step} of shape {list(self.shape)}; allowed: at least one axis, a step >= 1")
    d = axis_of(dim, len(self.shape))
    lo, hi, step = slice(start, end, step).indices(self.shape[d])
    n = len(range(lo, hi, step))
    _need_slice(src, resized(self.shape, d, n), "the slice")
    if n == 0:
        return copy(self)

    def body(*i: Ix) -> E:
        offset = i[d] - lo
        held = inside([offset], [hi - lo])
        if step > 1:
            held = both(held, op("eq", index(offset % step), 0))
        return select(held, load(src, *replaced(i, d, offset // step)), load(self, *i))

    return elements(self.shape, body, self.dtype)


@operator("select_scatter(Tensor self, Tensor src, int dim, int index) -> Tensor",
          samples=listed((like(3, 4), like(4), 0, 1), (like(3, 4), like(3), 1, -1), (like(1), like(), 0, 0)))  # fmt: skip
def select_scatter(self: T, src: T, dim: int, k: int) -> T:
    """self with src at position k of dim."""
    same_type(self, src)
    d = axis_of(dim, len(self.shape))
    place = known_index(k, size_at(self, d), d)
    _need_slice(src, (*self.shape[:d], *self.shape[d + 1 :]), f"position {k} of axis {d}")
    here = lambda i: load(src, *i[:d], *i[d + 1 :])  # noqa: E731
    return elements(self.shape, lambda *i: select(op("eq", index(i[d]), place), here(i), load(self, *i)), self.dtype)


@operator("diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor",
          samples=listed((like(3, 4), like(3), 0, 0, 1), (like(3, 4), like(2), -1, 0, 1), (like(2, 3, 4), like(3, 1), 1, -1, 0),
                         (like(3, 3), like(0), 3, 0, 1)))  # fmt: skip
def diagonal_scatter(self: T, src: T, offset: int, dim1: int, dim2: int) -> T:
    """self with src on the diagonal i[dim2] - i[dim1] = offset."""
    same_type(self, src)
    a, b = axis_of(dim1, len(self.shape)), axis_of(dim2, len(self.shape))
    if len(self.shape) < 2 or a == b:
        raise UserError(f"dim1={dim1} and dim2={dim2} must be two axes of a tensor of shape {list(self.shape)}")
    row, column = max(-offset, 0), max(offset, 0)
    n = max(0, min(self.shape[a] - row, self.shape[b] - column))
    rest = [k for k in range(len(self.shape)) if k not in (a, b)]
    _need_slice(src, (*(self.shape[k] for k in rest), n), "the diagonal")
    if n == 0:
        return copy(self)

    def body(*i: Ix) -> E:
        k = i[a] - row
        held = both(inside([k], [n]), op("eq", index(i[b] - i[a]), offset))
        return select(held, load(src, *(i[r] for r in rest), k), load(self, *i))

    return elements(self.shape, body, self.dtype)


@operator("as_strided_scatter(Tensor self, Tensor src, int[] size, int[] stride, int? storage_offset=None) -> Tensor",
          samples=listed(*((like(*s[0]), like(*s[1]), *s[1:]) for s in STRIDED)))  # fmt: skip
def as_strided_scatter(self: T, src: T, size: Sequence[int], stride: Sequence[int], storage_offset: int | None) -> T:
    """self with src[i...] at element storage_offset + sum stride_k * i_k, counted row-major; the last write wins."""
    same_type(self, src)
    _need_slice(src, size, "the elements")
    return put(self, size, strided_place(self, size, stride, storage_offset), lambda *u: load(src, *u))
