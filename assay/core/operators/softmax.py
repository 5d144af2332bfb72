"""softmax, log_softmax, logsumexp: shifted by the maximum, whose derivative is declared zero (`stop`).

Half types: f32 from the argument to the result, rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from assay.core import dtypes as dt
from assay.core.dtypes import DType, compute_dtype
from assay.core.lang import E, Ix, T, const, convert, load, op, select
from assay.core.operators.build import cast, dims, elements, need_float, reduction
from assay.core.operators.reductions import total
from assay.core.operators.registry import operator
from assay.core.operators.samples import FLOATS, unary

SHAPES = ((3, 4), (0, 3), (1, 17), (2, 3, 5), (3, 0))


def _shift(x: T, axes: Sequence[int], *, finite: bool) -> T:
    """stop(max over `axes`), the axes kept with size 1, in the type x is computed in; `finite`: 0 for an infinity."""
    how = compute_dtype(x.dtype)

    def finish(m: E) -> E:
        m = op("stop", m)
        return select(op("eq", op("abs", m), math.inf), const(0, how), m) if finite else m

    return reduction(x, axes, [const(-math.inf, how)], lambda a, e, _: (op("max", a[0], e),), finish, how, keepdim=True)


def _shifted(x: T, shift: T, axes: Sequence[int], *, exponential: bool) -> T:
    """x - shift, or e to that power."""

    def body(*i: Ix) -> E:
        d = convert(load(x, *i), shift.dtype) - load(shift, *_kept(i, axes))
        return op("exp", d) if exponential else d

    return elements(x.shape, body, shift.dtype)


def _kept(i: Sequence[Ix], axes: Sequence[int]) -> list[Ix | int]:
    return [0 if k in axes else j for k, j in enumerate(i)]


def _axis(x: T, d: int) -> tuple[int, ...]:
    need_float(x)
    return dims([d], len(x.shape))


def softmax_over(x: T, d: int, dtype: DType) -> T:
    """e**(x - m) / sum e**(x - m), m the maximum along axis `d`, as `dtype`."""
    axes = _axis(x, d)
    powers = _shifted(x, _shift(x, axes, finite=False), axes, exponential=True)
    sums = total(powers, axes, powers.dtype, keepdim=True)
    return elements(x.shape, lambda *i: load(powers, *i) / load(sums, *_kept(i, axes)), dtype)


def log_softmax_over(x: T, d: int, dtype: DType) -> T:
    """(x - m) - log(sum e**(x - m)), m the maximum along axis `d`, as `dtype`."""
    axes = _axis(x, d)
    shift = _shift(x, axes, finite=False)
    differences = _shifted(x, shift, axes, exponential=False)
    sums = total(_shifted(x, shift, axes, exponential=True), axes, shift.dtype, keepdim=True)
    return elements(x.shape, lambda *i: load(differences, *i) - op("log", load(sums, *_kept(i, axes))), dtype)


@operator("softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
          decompose=lambda apply, self, d, dtype: apply("_softmax.default", _converted(apply, self, dtype), d, False),
          samples=unary(FLOATS, (-1, None), (0, None), (1, dt.f64), shapes=(*SHAPES, ())))  # fmt: skip
def softmax(self: T, d: int, dtype: DType | None) -> T:
    """e**(x - m) / sum e**(x - m) along `dim`, m the maximum; x is self as `dtype`."""
    x = cast(self, dtype or self.dtype)
    return softmax_over(x, d, x.dtype)


@operator("_softmax(Tensor self, int dim, bool half_to_float) -> Tensor",
          samples=unary(FLOATS, (-1, False), (0, False), shapes=(*SHAPES, ())))  # fmt: skip
def softmax_basic(self: T, d: int, half_to_float: bool) -> T:
    """e**(self - m) / sum e**(self - m) along `dim`, m the maximum; half_to_float: the result is f32."""
    return softmax_over(self, d, dt.f32 if half_to_float else self.dtype)


@operator("log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
          decompose=lambda apply, self, d, dtype: apply("_log_softmax.default", _converted(apply, self, dtype), d, False),
          samples=unary(FLOATS, (-1, None), (0, None), (1, dt.f64), shapes=(*SHAPES, ())))  # fmt: skip
def log_softmax(self: T, d: int, dtype: DType | None) -> T:
    """(x - m) - log(sum e**(x - m)) along `dim`, m the maximum; x is self as `dtype`."""
    x = cast(self, dtype or self.dtype)
    return log_softmax_over(x, d, x.dtype)


@operator("_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor",
          samples=unary(FLOATS, (-1, False), (0, False), shapes=(*SHAPES, ())))  # fmt: skip
def log_softmax_basic(self: T, d: int, half_to_float: bool) -> T:
    """(self - m) - log(sum e**(self - m)) along `dim`, m the maximum; half_to_float: the result is f32."""
    return log_softmax_over(self, d, dt.f32 if half_to_float else self.dtype)


def _converted(apply: object, x: object, dtype: DType | None) -> object:
    return x if dtype is None else apply("_to_copy.default", x, dtype)  # type: ignore[operator]


@operator("logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor",
          samples=unary(FLOATS, ((-1,), False), ((0,), True), ((0, 1), False), shapes=SHAPES))  # fmt: skip
def logsumexp(self: T, d: Sequence[int], keepdim: bool) -> T:
    """log(sum e**(self - m)) + m over `dim`, m the maximum, or 0 where that is infinite; -inf of none."""
    need_float(self)
    axes = dims(d, len(self.shape))
    shift = _shift(self, axes, finite=True)
    powers = _shifted(self, shift, axes, exponential=True)
    sums = total(powers, axes, powers.dtype, keepdim=True)

    def body(*i: Ix) -> E:
        full = list(i) if keepdim else _with_zeros(i, axes, len(self.shape))
        return op("log", load(sums, *full)) + load(shift, *full)

    shape = sums.shape if keepdim else tuple(n for k, n in enumerate(self.shape) if k not in axes)
    return elements(shape, body, self.dtype)


def _with_zeros(i: Sequence[Ix], axes: Sequence[int], rank: int) -> list[Ix | int]:
    rest = iter(i)
    return [0 if k in axes else next(rest) for k in range(rank)]
