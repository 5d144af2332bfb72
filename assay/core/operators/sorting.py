"""Sorting and searching.  The order is a reference function (core/externs.py); the values are read through its indices.

Every sort is stable; NaN counts as the largest, -0 equals +0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from assay.core import dtypes as dt
from assay.core.errors import UserError
from assay.core.index import Ix
from assay.core.lang import E, T, const, convert, extern, folds, index, load, load_or_zero, op, select
from assay.core.operators.build import cast, constant, elements, lift, number_type, result_type
from assay.core.operators.build import dim as axis_of
from assay.core.operators.guards import data_dependent
from assay.core.operators.indexing import flat, replaced, resized
from assay.core.operators.registry import operator
from assay.core.operators.samples import ALL, NUMBERS, like, listed, unary
from assay.core.operators.views import reindexed

SHAPES = ((5,), (3, 4), (), (1,), (0,), (2, 0), (1, 17))


def _order(x: T, name: str, params: Sequence[Any], d: int, n: int) -> T:
    """The positions along axis d that the extern returns, n of them."""
    last = max(x.shape[d] - 1, 0)
    return extern(name, (x,), params, 1, resized(x.shape, d, n), dt.i64, lo=0, hi=last)


def _read(x: T, order: T, d: int) -> T:
    """y[i] = x[i with order[i] along axis d]."""
    return elements(order.shape, lambda *i: load(x, *replaced(i, d, load(order, *i))), x.dtype)


def _with_axis(x: T) -> T:
    """x, a 0-d tensor as a vector of one element."""
    return x if x.shape else reindexed(x, (1,))


@operator("sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)",
          samples=unary(ALL, (True, -1, False), (True, 0, True), shapes=SHAPES))  # fmt: skip
def sort_stable(self: T, stable: bool | None, dim: int, descending: bool) -> tuple[T, T]:
    """The elements along dim in ascending (or descending) order, and where they stood; ties keep their order."""
    x, d = _with_axis(self), axis_of(dim, len(self.shape))
    order = _order(x, "sort", (d, descending), d, x.shape[d])
    return reindexed(_read(x, order, d), self.shape), reindexed(order, self.shape)


@operator("sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)",
          samples=unary(ALL, (-1, False), (0, True), shapes=SHAPES))  # fmt: skip
def sort(self: T, dim: int, descending: bool) -> tuple[T, T]:
    """sort.stable"""
    return sort_stable(self, True, dim, descending)


@operator("argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor",
          samples=unary(ALL, (-1, False), (0, True), shapes=SHAPES))
def argsort(self: T, dim: int, descending: bool) -> T:
    """The indices that sort self along dim; ties keep their order."""
    return sort_stable(self, True, dim, descending)[1]


@operator("argsort.stable(Tensor self, *, bool stable, int dim=-1, bool descending=False) -> Tensor",
          samples=unary(NUMBERS, (True, -1, False), (True, 0, True), shapes=SHAPES))  # fmt: skip
def argsort_stable(self: T, stable: bool, dim: int, descending: bool) -> T:
    """argsort"""
    return sort_stable(self, stable, dim, descending)[1]


@operator("msort(Tensor self) -> Tensor", samples=unary(NUMBERS, shapes=SHAPES))
def msort(self: T) -> T:
    """The elements along the first axis in ascending order."""
    return sort_stable(self, True, 0, False)[0]


@operator("topk(Tensor self, int k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor indices)",
          samples=listed((like(5), 2, -1, True, True), (like(3, 4), 4, 0 - 1, False, True), (like(4, 3), 1, 0, True, True),
                         (like(3), 0, 0, True, True),
                         (like(), 1, -1, True, True), (like(), 0, -1, True, True),
                         *((like(6, dtype=d), 3, 0, True, True) for d in NUMBERS)))  # fmt: skip
def topk(self: T, k: int, dim: int, largest: bool, sorted: bool) -> tuple[T, T]:
    """The k largest (or smallest) elements along dim in order, and where they stood; of equal elements the first ones.

    A number is itself, at 0, whatever k is.
    """
    x, d = _with_axis(self), axis_of(dim, len(self.shape))
    if not 0 <= k <= x.shape[d]:
        raise UserError(f"k={k} of an axis of size {x.shape[d]}; allowed: 0..{x.shape[d]}")
    order = _order(x, "topk", (k if self.shape else 1, d, largest), d, k if self.shape else 1)
    values = _read(x, order, d)
    return (values, order) if self.shape else (reindexed(values, ()), reindexed(order, ()))


def _sorted(self: T, dim: int, what: str) -> tuple[T, T, int]:
    """(x, order, d): the tensor with at least one axis, and the order that sorts it along axis d, which must not be empty."""
    x, d = _with_axis(self), axis_of(dim, len(self.shape))
    if x.shape[d] == 0:
        raise UserError(f"the {what} of an empty axis (shape {list(self.shape)}, dim {dim}) does not exist")
    return x, _order(x, "sort", (d, False), d, x.shape[d]), d


def _chosen(x: T, d: int, place: Callable[..., E], *, keepdim: bool) -> tuple[T, T]:
    """(value, index): one element along axis d, the one whose index is place(*i)."""
    at = elements(resized(x.shape, d, 1), place, dt.i64)
    values = _read(x, at, d)
    if keepdim:
        return values, at
    rest = (*x.shape[:d], *x.shape[d + 1 :])
    return reindexed(values, rest), reindexed(at, rest)


@operator("kthvalue(Tensor self, int k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)",
          samples=listed((like(5), 2, -1, False), (like(3, 4), 4, 1, True), (like(4, 3), 1, 0, False), (like(), 1, -1, False),
                         (like(6, dtype=dt.i64), 3, 0, False)))  # fmt: skip
def kthvalue(self: T, k: int, dim: int, keepdim: bool) -> tuple[T, T]:
    """The k-th smallest element along dim (k from 1, NaN the largest) and its index: of equal elements in their order."""
    x, d = _with_axis(self), axis_of(dim, len(self.shape))
    if not 1 <= k <= x.shape[d]:
        raise UserError(f"k={k} of an axis of size {x.shape[d]}; allowed: 1..{x.shape[d]}")
    order = _order(x, "sort", (d, False), d, x.shape[d])
    return _chosen(x, d, lambda *i: load(order, *replaced(i, d, k - 1)), keepdim=keepdim and bool(self.shape))


@operator("mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)",
          samples=unary(ALL, (0, False), (-1, True), shapes=((5,), (3, 4), (), (1,), (1, 17), (9,))))  # fmt: skip
def mode(self: T, dim: int, keepdim: bool) -> tuple[T, T]:
    """The smallest of the most frequent elements along dim and its last index; -0 equals +0, no NaN equals another.

    A fold over the sorted elements counts the run of equal ones that each ends; the first longest run wins.
    """
    x, order, d = _sorted(self, dim, "mode")

    def place(*i: Ix) -> E:
        def step(best: E, longest: E, start: E, r: Ix) -> tuple[E, ...]:
            here, before = (lift(load(x, *replaced(i, d, load_or_zero(order, *replaced(i, d, k))))) for k in (r, r - 1))
            start = select(op("lt", 0, index(r)) & op("eq", before, here), start, index(r))  # of the run that holds r
            run = index(r) - start + 1
            longer = op("lt", longest, run)
            return select(longer, index(r), best), select(longer, run, longest), start

        best = folds(x.shape[d], [const(0, dt.i64)] * 3, step)[0]
        return load(order, *replaced(i, d, best))

    return _chosen(x, d, place, keepdim=keepdim and bool(self.shape))


@operator("median.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
          samples=unary(NUMBERS, (0, False), (-1, True), shapes=((5,), (3, 4), (), (1,), (6,))))  # fmt: skip
def median_dim(self: T, dim: int, keepdim: bool) -> tuple[T, T]:
    """The lower median along dim and its index; the first NaN where there is one."""
    x, order, d = _sorted(self, dim, "median")

    def place(*i: Ix) -> E:
        """The index of the lower median, or of the first NaN."""
        middle = load(order, *replaced(i, d, (x.shape[d] - 1) // 2))
        if not x.dtype.is_float:
            return middle

        def first(found: E, r: Ix) -> E:
            e = lift(load(x, *replaced(i, d, r)))
            return select((found < 0) & op("ne", e, e), index(r), found)

        nan = folds(x.shape[d], (const(-1, dt.i64),), first)[0]
        return select(nan < 0, middle, op("max", nan, 0))

    return _chosen(x, d, place, keepdim=keepdim and bool(self.shape))


@operator("median(Tensor self) -> Tensor", samples=unary(NUMBERS, shapes=((5,), (3, 4), (), (1,))))
def median(self: T) -> T:
    """The lower median of all elements; NaN where there is one."""
    return median_dim(flat(self), 0, False)[0]


# ------------------------------------------------------------------------------------------------ searching


def _insertion(boundaries: T, values: T, out_int32: bool, right: bool) -> T:
    """How many boundaries of the row stand before each value: b < v, or b <= v with `right`; NaN counts as the largest."""
    lead, n = boundaries.shape[:-1], boundaries.shape[-1]
    if lead and values.shape[:-1] != lead:
        raise UserError(f"sorted rows {list(boundaries.shape)} for values {list(values.shape)}: the leading sizes differ")
    common = result_type(boundaries, values)
    rows, found = cast(boundaries, common), cast(values, common)

    def body(*i: Ix) -> E:
        v = lift(load(found, *i))

        def step(count: E, r: Ix) -> E:
            b = lift(load(rows, *(i[:-1] if lead else ()), r))
            after = op("lt", v, b) if right else op("le", v, b)
            return count + convert(~after, dt.i64)

        return folds(n, (const(0, dt.i64),), step)[0]

    return elements(values.shape, body, dt.i32 if out_int32 else dt.i64)


@operator("searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool right=False, str? side=None, "
          "Tensor? sorter=None) -> Tensor",
          samples=listed((like(5, lo=-3, hi=3), like(4), False, False, None, None),
                         (like(5, lo=-3, hi=3), like(2, 3), True, True, None, None),
                         (like(2, 5, lo=-3, hi=3), like(2, 3), False, False, "right", None),
                         (like(0), like(3), False, False, None, None),
                         (like(5, dtype=dt.i64), like(4, dtype=dt.f32), False, False, None, None),
                         (like(5), like(), False, True, None, None)))  # fmt: skip
def searchsorted(sorted_sequence: T, self: T, out_int32: bool, right: bool, side: str | None, sorter: T | None) -> T:
    """Where each value would be inserted into the sorted last axis: before equal elements, or after them with right=True."""
    if sorter is not None or side not in (None, "left", "right") or (side == "left" and right):
        raise UserError(f"side={side!r}, right={right}, sorter={sorter}; allowed: 'left' or 'right' as right says, no sorter")
    if not sorted_sequence.shape:
        raise UserError("sorted_sequence needs at least one axis")
    return _insertion(sorted_sequence, self, out_int32, right or side == "right")


@operator("bucketize.Tensor(Tensor self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor",
          samples=listed((like(4), like(5, lo=-3, hi=3), False, False), (like(2, 3), like(5, lo=-3, hi=3), True, True),
                         (like(), like(1), False, False)))  # fmt: skip
def bucketize(self: T, boundaries: T, out_int32: bool, right: bool) -> T:
    """How many boundaries (sorted, one axis) stand before each value: b < v, or b <= v with right=True."""
    if len(boundaries.shape) != 1:
        raise UserError(f"boundaries must have one axis, not shape {list(boundaries.shape)}")
    return _insertion(boundaries, self, out_int32, right)


@operator("searchsorted.Scalar(Tensor sorted_sequence, Scalar self, *, bool out_int32=False, bool right=False, str? side=None, "
          "Tensor? sorter=None) -> Tensor",
          samples=listed((like(5, lo=-3, hi=3), 0.5, False, False, None, None),
                         (like(5, dtype=dt.i64), 2, True, True, None, None)))  # fmt: skip
def searchsorted_number(sorted_sequence: T, self: bool | int | float, out_int32: bool, right: bool, side: str | None,
                        sorter: T | None) -> T:  # fmt: skip
    """searchsorted of one number."""
    return searchsorted(sorted_sequence, constant((), self, number_type(self)), out_int32, right, side, sorter)


@operator("bucketize.Scalar(Scalar self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor",
          samples=listed((0.5, like(5, lo=-3, hi=3), False, False), (2, like(5, dtype=dt.i64), True, True)))  # fmt: skip
def bucketize_number(self: bool | int | float, boundaries: T, out_int32: bool, right: bool) -> T:
    """bucketize of one number."""
    return bucketize(constant((), self, number_type(self)), boundaries, out_int32, right)


@operator("unique_dim(Tensor self, int dim, bool sorted=True, bool return_inverse=False, "
          "bool return_counts=False) -> (Tensor, Tensor, Tensor)")
@operator("_unique2(Tensor self, bool sorted=True, bool return_inverse=False, "
          "bool return_counts=False) -> (Tensor, Tensor, Tensor)")
@operator("unique_consecutive(Tensor self, bool return_inverse=False, bool return_counts=False, "
          "int? dim=None) -> (Tensor, Tensor, Tensor)")
def unique(*arguments: Any) -> NoReturn:
    """Unsupported: the shape of the result depends on the data."""
    raise data_dependent("unique", "sort, and compare neighbours: the count of values is sum(s[1:] != s[:-1]) + 1")
