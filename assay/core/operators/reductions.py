"""Reductions: left folds over the reduced axes, in ascending lexicographic order.

A half-precision sum is added in f32 and rounded once.  `dim` None or empty means all axes (any.dims, all.dims: empty means none).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from assay.core import dtypes as dt
from assay.core.dtypes import DType, compute_dtype
from assay.core.errors import UserError
from assay.core.lang import E, T, const, convert, load, op, select
from assay.core.operators.build import (
    Number,
    cast,
    dims,
    elements,
    need_float,
    pointwise,
    reduction,
)
from assay.core.operators.compare import truth
from assay.core.operators.pointwise import is_nan
from assay.core.operators.registry import operator
from assay.core.operators.samples import ALL, FLOATS, unary
from assay.core.operators.views import diagonal

SHAPES = ((3, 4), (0, 3), (1, 17), (2, 3, 5), (9, 1))
DIMS = (((0,), False), ((-1,), True), ((0, 1), False), ((), False), (None, True))
DIMS_TYPED = tuple((*rest, None) for rest in DIMS)


def _fold_all(x: T, axes: Sequence[int], start: Number, step: Callable[[E, E], E], result: DType, *, keepdim: bool,
              finish: Callable[[E], E] = lambda e: e, compute: DType | None = None) -> T:  # fmt: skip
    """finish(fold of step(acc, element) from `start`), in the type that `result` is computed in."""
    how = compute or compute_dtype(result)
    return reduction(x, axes, [const(start, how)], lambda a, e, _: (step(a[0], e),), finish, result, keepdim=keepdim, compute=how)


def count(x: T, axes: Sequence[int]) -> int:
    """How many elements are reduced into one."""
    return math.prod(x.shape[k] for k in axes)


def not_empty(x: T, axes: Sequence[int]) -> None:
    """Raise UserError where an axis that is reduced has no element."""
    if any(x.shape[k] == 0 for k in axes):
        raise UserError(f"shape {list(x.shape)} has no element along dim {list(axes)}; a maximum or minimum needs one")


# ------------------------------------------------------------------------------------------------ sums and products


def total(x: T, axes: Sequence[int], dtype: DType, *, keepdim: bool) -> T:
    """The sum over `axes` as `dtype`, from +0."""
    return _fold_all(x, axes, 0, lambda a, e: a + e, dtype, keepdim=keepdim)


def _sum_type(x: T, dtype: DType | None) -> DType:
    """The type of a sum or product: integers and bools give i64."""
    return dtype or (x.dtype if x.dtype.is_float else dt.i64)


@operator("sum(Tensor self, *, ScalarType? dtype=None) -> Tensor", samples=unary(ALL, (None,), (dt.f64,)))
def sum_default(self: T, dtype: DType | None) -> T:
    """The sum of all elements, a left fold from +0; of integers and bools i64."""
    return total(self, dims(None, len(self.shape)), _sum_type(self, dtype), keepdim=False)


@operator("sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
          samples=unary(ALL, *DIMS_TYPED, ((0,), False, dt.f64), shapes=SHAPES))  # fmt: skip
def sum_dim(self: T, d: Sequence[int] | None, keepdim: bool, dtype: DType | None) -> T:
    """The sum over `dim`, a left fold from +0; of integers and bools i64."""
    return total(self, dims(d, len(self.shape)), _sum_type(self, dtype), keepdim=keepdim)


@operator("nansum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
          samples=unary(ALL, *DIMS_TYPED, shapes=SHAPES))  # fmt: skip
def nansum(self: T, d: Sequence[int] | None, keepdim: bool, dtype: DType | None) -> T:
    """The sum over `dim` with NaN counted as 0."""

    def step(a: E, e: E) -> E:
        return a + select(is_nan(e), const(0, e.dtype), e)

    return _fold_all(self, dims(d, len(self.shape)), 0, step, _sum_type(self, dtype), keepdim=keepdim)


def average(x: T, axes: Sequence[int], dtype: DType, *, keepdim: bool) -> T:
    """The sum over `axes` divided by the number of elements; NaN of none."""
    n = count(x, axes)
    return _fold_all(x, axes, 0, lambda a, e: a + e, dtype, keepdim=keepdim, finish=lambda s: s / n)


def _mean_type(x: T, dtype: DType | None) -> DType:
    result = dtype or x.dtype
    if not result.is_float:
        raise UserError(f"the mean of {x.dtype.name} is not defined; pass dtype=, or convert with to(float32)")
    return result


@operator("mean(Tensor self, *, ScalarType? dtype=None) -> Tensor", samples=unary(FLOATS, (None,), (dt.f64,)))
def mean(self: T, dtype: DType | None) -> T:
    """sum(self) / n: one division; NaN without elements."""
    return average(self, dims(None, len(self.shape)), _mean_type(self, dtype), keepdim=False)


@operator("mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
          samples=unary(FLOATS, *DIMS_TYPED, ((0,), False, dt.f64), shapes=SHAPES))  # fmt: skip
def mean_dim(self: T, d: Sequence[int] | None, keepdim: bool, dtype: DType | None) -> T:
    """sum(self, dim) / n: one division; NaN without elements."""
    return average(self, dims(d, len(self.shape)), _mean_type(self, dtype), keepdim=keepdim)


@operator("nanmean(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
          samples=unary(FLOATS, *DIMS_TYPED, shapes=SHAPES))  # fmt: skip
def nanmean(self: T, d: Sequence[int] | None, keepdim: bool, dtype: DType | None) -> T:
    """The sum over `dim` of what is not NaN, divided by how many that are; NaN of none."""
    result = _mean_type(self, dtype)
    how = compute_dtype(result)

    def step(accs: tuple[E, ...], e: E, _: object) -> tuple[E, ...]:
        missing = is_nan(e)
        return accs[0] + select(missing, const(0, how), e), accs[1] + convert(~missing, dt.i64)

    return reduction(self, dims(d, len(self.shape)), [const(0, how), const(0, dt.i64)], step,
                     lambda s, n: s / convert(n, how), result, keepdim=keepdim, compute=how)  # fmt: skip


def _product(x: T, axes: Sequence[int], dtype: DType | None, *, keepdim: bool) -> T:
    return _fold_all(x, axes, 1, lambda a, e: a * e, _sum_type(x, dtype), keepdim=keepdim)


@operator("prod(Tensor self, *, ScalarType? dtype=None) -> Tensor", samples=unary(ALL, (None,), (dt.f64,)))
def prod(self: T, dtype: DType | None) -> T:
    """The product of all elements, a left fold from 1; of integers and bools i64."""
    return _product(self, dims(None, len(self.shape)), dtype, keepdim=False)


@operator("prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
          samples=unary(ALL, (0, False, None), (-1, True, None), (1, False, dt.f64), shapes=SHAPES))  # fmt: skip
def prod_dim(self: T, d: int, keepdim: bool, dtype: DType | None) -> T:
    """The product over `dim`, a left fold from 1; of integers and bools i64."""
    return _product(self, dims([d], len(self.shape)), dtype, keepdim=keepdim)


@operator("trace(Tensor self) -> Tensor", samples=unary(ALL, shapes=((3, 4), (4, 3), (0, 2), (1, 1))))
def trace(self: T) -> T:
    """The sum of self[k,k], k ascending, from +0."""
    if len(self.shape) != 2:
        raise UserError(f"needs a matrix, not shape {list(self.shape)}")
    return total(diagonal(self, 0, 0, 1), (0,), _sum_type(self, None), keepdim=False)


# ------------------------------------------------------------------------------------------------ logic


def _logic(x: T, axes: Sequence[int], *, keepdim: bool, every: bool) -> T:
    step = (lambda a, e: a & e) if every else (lambda a, e: a | e)
    result = _fold_all(pointwise(truth, x, promotion="bool"), axes, every, step, dt.bool_, keepdim=keepdim)
    return cast(result, dt.u8) if x.dtype is dt.u8 else result


def _any_or_all(name: str, doc: str) -> None:
    every = name == "all"

    def default(self: T) -> T:
        return _logic(self, dims(None, len(self.shape)), keepdim=False, every=every)

    def one(self: T, d: int, keepdim: bool) -> T:
        return _logic(self, dims([d], len(self.shape)), keepdim=keepdim, every=every)

    def several(self: T, d: Sequence[int] | None, keepdim: bool) -> T:
        none = d is not None and not d
        return _logic(self, () if none else dims(d, len(self.shape)), keepdim=keepdim, every=every)

    default.__doc__ = one.__doc__ = several.__doc__ = doc
    operator(f"{name}(Tensor self) -> Tensor", samples=unary(), family="reductions")(default)
    operator(f"{name}.dim(Tensor self, int dim, bool keepdim=False) -> Tensor", family="reductions",
             samples=unary(ALL, (0, False), (-1, True), shapes=SHAPES))(one)  # fmt: skip
    operator(f"{name}.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor", family="reductions",
             samples=unary(ALL, *DIMS, shapes=SHAPES))(several)  # fmt: skip


_any_or_all("any", "Whether an element differs from 0 (NaN does); false without elements.  Bool, but u8 for u8.")
_any_or_all("all", "Whether every element differs from 0 (NaN does); true without elements.  Bool, but u8 for u8.")


@operator("count_nonzero.dim_IntList(Tensor self, int[] dim) -> Tensor", samples=unary(ALL, ((0,),), ((0, 1),), shapes=SHAPES))
@operator("count_nonzero(Tensor self, int? dim=None) -> Tensor", samples=unary(ALL, (None,), (-1,), shapes=SHAPES))
def count_nonzero(self: T, d: int | Sequence[int] | None) -> T:
    """How many elements differ from 0 (NaN does), as i64."""
    axes = dims([d] if isinstance(d, int) else d, len(self.shape))
    return total(pointwise(truth, self, promotion="bool"), axes, dt.i64, keepdim=False)


# ------------------------------------------------------------------------------------------------ variance


def variance(x: T, axes: Sequence[int], correction: Number, *, keepdim: bool) -> tuple[T, T]:
    """(variance, mean) in the type x is computed in: sum (x - mean)**2 / max(n - correction, 0), in two passes."""
    how = compute_dtype(need_float(x))
    center = average(x, axes, how, keepdim=True)
    n = max(count(x, axes) - correction, 0)

    def deviation(*i: Any) -> E:
        d = convert(load(x, *i), how) - load(center, *(0 if k in axes else j for k, j in enumerate(i)))
        return d * d

    squares = elements(x.shape, deviation, how)
    v = _fold_all(squares, axes, 0, lambda a, e: a + e, how, keepdim=keepdim, finish=lambda s: s / n)
    return v, center if keepdim else average(x, axes, how, keepdim=False)


def root(v: T) -> T:
    """sqrt(v), 0 where v = 0 (so that its slope there is 0)."""
    return pointwise(lambda s: select(op("eq", s, 0), const(0, s.dtype), op("sqrt", s)), v)


VAR_SAMPLES = unary(FLOATS, ((0,), None, False), ((-1,), 0, True), ((0, 1), 1, False), (None, 2.5, False), shapes=SHAPES)


@operator("var(Tensor self, bool unbiased=True) -> Tensor", samples=unary(FLOATS, (True,), (False,)))
def var(self: T, unbiased: bool) -> T:
    """sum (self - mean)**2 / (n - 1), or / n if not unbiased: two passes."""
    return var_correction(self, None, int(unbiased), keepdim=False)


@operator("var.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor",
          samples=unary(FLOATS, ((0,), True, False), ((-1,), False, True), shapes=SHAPES))  # fmt: skip
def var_dim(self: T, d: Sequence[int] | None, unbiased: bool, keepdim: bool) -> T:
    """The variance over `dim`, of n - 1 degrees of freedom if unbiased."""
    return var_correction(self, d, int(unbiased), keepdim=keepdim)


@operator("var.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor",
          samples=VAR_SAMPLES)
def var_correction(self: T, d: Sequence[int] | None, correction: Number | None, keepdim: bool) -> T:
    """sum (self - mean)**2 / max(n - correction, 0) over `dim`, in two passes; correction 1 by default."""
    v, _ = variance(self, dims(d, len(self.shape)), 1 if correction is None else correction, keepdim=keepdim)
    return cast(v, self.dtype)


@operator("std(Tensor self, bool unbiased=True) -> Tensor", samples=unary(FLOATS, (True,), (False,)))
def std(self: T, unbiased: bool) -> T:
    """The square root of the variance of all elements."""
    return std_correction(self, None, int(unbiased), keepdim=False)


@operator("std.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor",
          samples=unary(FLOATS, ((0,), True, False), ((-1,), False, True), shapes=SHAPES))  # fmt: skip
def std_dim(self: T, d: Sequence[int] | None, unbiased: bool, keepdim: bool) -> T:
    """The square root of the variance over `dim`."""
    return std_correction(self, d, int(unbiased), keepdim=keepdim)


@operator("std.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor",
          samples=VAR_SAMPLES)
def std_correction(self: T, d: Sequence[int] | None, correction: Number | None, keepdim: bool) -> T:
    """The square root of the variance over `dim`; rounded to the type of self once."""
    v, _ = variance(self, dims(d, len(self.shape)), 1 if correction is None else correction, keepdim=keepdim)
    return cast(root(v), self.dtype)


@operator("var_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) "
          "-> (Tensor, Tensor)", samples=VAR_SAMPLES)  # fmt: skip
def var_mean(self: T, d: Sequence[int] | None, correction: Number | None, keepdim: bool) -> tuple[T, T]:
    """The variance and the mean over `dim`."""
    v, m = variance(self, dims(d, len(self.shape)), 1 if correction is None else correction, keepdim=keepdim)
    return cast(v, self.dtype), cast(m, self.dtype)


@operator("std_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) "
          "-> (Tensor, Tensor)", samples=VAR_SAMPLES)  # fmt: skip
def std_mean(self: T, d: Sequence[int] | None, correction: Number | None, keepdim: bool) -> tuple[T, T]:
    """The standard deviation and the mean over `dim`."""
    v, m = variance(self, dims(d, len(self.shape)), 1 if correction is None else correction, keepdim=keepdim)
    return cast(root(v), self.dtype), cast(m, self.dtype)


# ------------------------------------------------------------------------------------------------ norms


def vector_norm(x: T, p: Number, axes: Sequence[int], dtype: DType | None, *, keepdim: bool) -> T:
    """(sum |x|**p)**(1/p); p = inf the largest, -inf the smallest |x|, 0 the number of non-zeros.  Its slope at 0 is 0."""
    result = dtype or need_float(x)
    if not result.is_float:
        raise UserError(f"dtype {result.name}; allowed: a float type")

    def fold(start: Number, step: Callable[[E, E], E], finish: Callable[[E], E] = lambda e: e) -> T:
        return _fold_all(x, axes, start, step, result, keepdim=keepdim, finish=finish)

    def magnitude(e: E) -> E:
        return op("abs", e)

    if p == 0:
        return fold(0, lambda a, e: a + convert(op("ne", e, 0), e.dtype))
    if p == 1:
        return fold(0, lambda a, e: a + magnitude(e))
    if p == 2:
        return fold(0, lambda a, e: a + e * e, lambda s: select(op("eq", s, 0), const(0, s.dtype), op("sqrt", s)))
    if p == math.inf:
        return fold(0, lambda a, e: op("max", a, magnitude(e)))
    if p == -math.inf:
        not_empty(x, axes)
        return fold(math.inf, lambda a, e: op("min", a, magnitude(e)))

    def finish(s: E) -> E:
        power = op("pow", s, 1 / p)
        return select(op("eq", s, 0), const(0, s.dtype), power) if p > 0 else power

    return fold(0, lambda a, e: a + op("pow", magnitude(e), p), finish)


NORM_DIMS = ((None, False, None), ((0,), False, None), ((-1,), True, None), ((0, 1), False, dt.f64))


@operator("linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, "
          "ScalarType? dtype=None) -> Tensor",
          samples=unary(FLOATS, *((p, *rest) for p in (2, 1, 0, math.inf, -1.5, 3) for rest in NORM_DIMS),
                        shapes=SHAPES))  # fmt: skip
def linalg_vector_norm(self: T, ord: Number, d: Sequence[int] | None, keepdim: bool, dtype: DType | None) -> T:
    """(sum |self|**ord)**(1/ord) over `dim`; ord = inf the largest |self|, -inf the smallest, 0 the number of non-zeros."""
    return vector_norm(self, ord, dims(d, len(self.shape)), dtype, keepdim=keepdim)


@operator("norm.Scalar(Tensor self, Scalar p=2) -> Tensor", samples=unary(FLOATS, (2,), (1,), (math.inf,), (0,)))
def norm(self: T, p: Number) -> T:
    """The p-norm of all elements."""
    return vector_norm(self, p, dims(None, len(self.shape)), None, keepdim=False)


@operator("norm.ScalarOpt_dim(Tensor self, Scalar? p, int[1] dim, bool keepdim=False) -> Tensor",
          samples=unary(FLOATS, (2, (0,), False), (None, (-1,), True), (1, (0, 1), False), shapes=SHAPES))  # fmt: skip
def norm_dim(self: T, p: Number | None, d: Sequence[int], keepdim: bool) -> T:
    """The p-norm over `dim` (None: 2)."""
    return vector_norm(self, 2 if p is None else p, dims(d, len(self.shape)), None, keepdim=keepdim)
