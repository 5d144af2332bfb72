"""Creation and conversion.  `empty` is defined: it gives zeros, so that no result depends on what memory held."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from assay.core import dtypes as dt
from assay.core.dtypes import DType, compute_dtype
from assay.core.errors import UserError
from assay.core.lang import E, Ix, T, const, convert, index, op, select
from assay.core.operators.build import Number, cast, constant, copy, elements, number_type
from assay.core.operators.registry import operator
from assay.core.operators.samples import ALL, like, listed, unary
from assay.core.operators.views import broadcast_to

SIZES = listed(((),  None), ((3,), None), ((2, 3), dt.i64), ((0, 2), dt.bool_), ((4,), dt.bf16), ((1, 5), dt.f64))  # fmt: skip
LIKES = unary(ALL, (None,), (dt.i32,), (dt.f16,))


def _sizes(size: Sequence[int]) -> Sequence[int]:
    if min(size, default=0) < 0:
        raise UserError(f"size {list(size)}; allowed: sizes >= 0")
    return size


def filled(size: Sequence[int], value: Number, dtype: DType) -> T:
    """Every element is `value` as `dtype`, a float into an integer type truncated.  Raises UserError where it does not fit."""
    if not dtype.is_float and dtype is not dt.bool_ and not dtype.lo <= value <= dtype.hi:
        raise UserError(f"the value {value} does not fit {dtype.name}; allowed: {dtype.lo}..{dtype.hi}")
    whole = dtype is dt.bool_ or dtype.is_float
    return constant(_sizes(size), value if whole else int(value), dtype)


@operator("zeros(int[] size, *, ScalarType? dtype=None) -> Tensor", samples=SIZES)
@operator("empty(int[] size, *, ScalarType? dtype=None) -> Tensor", samples=SIZES)
def zeros(size: Sequence[int], dtype: DType | None) -> T:
    """Zeros of type `dtype` (f32)."""
    return filled(size, 0, dtype or dt.f32)


@operator("ones(int[] size, *, ScalarType? dtype=None) -> Tensor", samples=SIZES)
def ones(size: Sequence[int], dtype: DType | None) -> T:
    """Ones of type `dtype` (f32)."""
    return filled(size, 1, dtype or dt.f32)


@operator("full(int[] size, Scalar fill_value, *, ScalarType? dtype=None) -> Tensor",
          samples=listed(((), 2, None), ((3,), -0.0, None), ((2, 2), True, None), ((2,), 1.5, dt.f16), ((0,), 1, None),
                         ((2,), math.nan, dt.f64),
                         ((3,), 255, dt.u8)))  # fmt: skip
def full(size: Sequence[int], fill_value: Number, dtype: DType | None) -> T:
    """Every element is fill_value; without a dtype its own: bool, i64 or f32."""
    return filled(size, fill_value, dtype or number_type(fill_value))


@operator("zeros_like(Tensor self, *, ScalarType? dtype=None) -> Tensor", samples=LIKES)
@operator("empty_like(Tensor self, *, ScalarType? dtype=None) -> Tensor", samples=LIKES)
def zeros_like(self: T, dtype: DType | None) -> T:
    """Zeros in the shape and, without a dtype, the type of self."""
    return filled(self.shape, 0, dtype or self.dtype)


@operator("ones_like(Tensor self, *, ScalarType? dtype=None) -> Tensor", samples=LIKES)
def ones_like(self: T, dtype: DType | None) -> T:
    """Ones in the shape and, without a dtype, the type of self."""
    return filled(self.shape, 1, dtype or self.dtype)


@operator("full_like(Tensor self, Scalar fill_value, *, ScalarType? dtype=None) -> Tensor",
          samples=unary(ALL, (1, None), (2.5, None), (-3, dt.i32)))  # fmt: skip
def full_like(self: T, fill_value: Number, dtype: DType | None) -> T:
    """fill_value in the shape and, without a dtype, the type of self."""
    return filled(self.shape, fill_value, dtype or self.dtype)


@operator("new_zeros(Tensor self, int[] size, *, ScalarType? dtype=None) -> Tensor",
          samples=unary(ALL, ((2, 3), None), ((), dt.i32)))
@operator("new_empty(Tensor self, int[] size, *, ScalarType? dtype=None) -> Tensor",
          samples=unary(ALL, ((2, 3), None), ((), dt.i32)))
def new_zeros(self: T, size: Sequence[int], dtype: DType | None) -> T:
    """Zeros of the type of self."""
    return filled(size, 0, dtype or self.dtype)


@operator("new_ones(Tensor self, int[] size, *, ScalarType? dtype=None) -> Tensor",
          samples=unary(ALL, ((2, 3), None), ((), dt.i32)))
def new_ones(self: T, size: Sequence[int], dtype: DType | None) -> T:
    """Ones of the type of self."""
    return filled(size, 1, dtype or self.dtype)


@operator("new_full(Tensor self, int[] size, Scalar fill_value, *, ScalarType? dtype=None) -> Tensor",
          samples=unary(ALL, ((2, 3), 1, None), ((), 2.5, dt.i32)))  # fmt: skip
def new_full(self: T, size: Sequence[int], fill_value: Number, dtype: DType | None) -> T:
    """fill_value of the type of self."""
    return filled(size, fill_value, dtype or self.dtype)


@operator("scalar_tensor(Scalar s, *, ScalarType? dtype=None) -> Tensor", samples=listed((2, None), (-0.0, None), (True, None),
                                                                                         (1.5, dt.f16)))
def scalar_tensor(s: Number, dtype: DType | None) -> T:
    """The number as a 0-d tensor, of type f32 without a dtype."""
    return filled((), s, dtype or dt.f32)


# ------------------------------------------------------------------------------------------------ ranges


def _range(start: Number, end: Number, step: Number, dtype: DType | None) -> T:
    if step == 0 or any(isinstance(v, float) and not math.isfinite(v) for v in (start, end, step)):
        raise UserError(f"start {start}, end {end}, step {step}; allowed: finite numbers, step not 0")
    is_float = any(isinstance(v, float) for v in (start, end, step))
    result = dtype or (dt.f32 if is_float else dt.i64)
    n: Any = math.ceil((end - start) / step) if is_float else -((start - end) // step)
    if n < 0:
        raise UserError(f"start {start} lies beyond end {end} for step {step}")
    if result.is_float:
        how = compute_dtype(result)
        return elements((n,), lambda i: const(start, how) + convert(index(i), how) * const(step, how), result)
    first, by = (int(v) if isinstance(v, float) else v for v in (start, step))
    if by == 0:
        raise UserError(f"step {step} is 0 as {result.name}")
    return elements((n,), lambda i: index(i * by + first), result)


@operator("arange(Scalar end, *, ScalarType? dtype=None) -> Tensor", samples=listed((5, None), (0, None), (2.5, None),
                                                                                    (7, dt.f16), (1, dt.i32)))
def arange(end: Number, dtype: DType | None) -> T:
    """0, 1, ..., end - 1; i64, or f32 if end is a float."""
    return _range(0, end, 1, dtype)


@operator("arange.start(Scalar start, Scalar end, *, ScalarType? dtype=None) -> Tensor",
          samples=listed((2, 7, None), (-3, 3, dt.i8), (0.5, 4, None), (3, 3, None)))  # fmt: skip
def arange_start(start: Number, end: Number, dtype: DType | None) -> T:
    """start, start + 1, ... below end."""
    return _range(start, end, 1, dtype)


@operator("arange.start_step(Scalar start, Scalar end, Scalar step=1, *, ScalarType? dtype=None) -> Tensor",
          samples=listed((2, 17, 3, None), (5, -5, -2, None), (0, 1, 0.1, None), (1.0, -1.0, -0.25, dt.f64),
                         (0, 1, 0.125, dt.bf16), (0.0, 5.0, 1.0, dt.i64), (1.5, 6.0, 1.5, dt.i32)))  # fmt: skip
def arange_step(start: Number, end: Number, step: Number, dtype: DType | None) -> T:
    """start + i * step, ceil((end - start) / step) of them; floats: the product and the sum rounded."""
    return _range(start, end, step, dtype)


@operator("linspace(Scalar start, Scalar end, int steps, *, ScalarType? dtype=None) -> Tensor",
          samples=listed((0, 1, 5, None), (-2.5, 3, 8, None), (1, 1, 1, dt.f64), (0, 1, 0, None), (0, 10, 4, dt.i64),
                         (0, 1, 7, dt.f16)))  # fmt: skip
def linspace(start: Number, end: Number, steps: int, dtype: DType | None) -> T:
    """`steps` numbers from start to end, both exact: start + i * d in the first half, end - (steps - 1 - i) * d in the second."""
    if steps < 0:
        raise UserError(f"steps {steps}; allowed: >= 0")
    result = dtype or dt.f32
    how = compute_dtype(result) if result.is_float else dt.f64
    first, last = const(start, how), const(end, how)
    step = (last - first) / max(steps - 1, 1)

    def body(i: Ix) -> E:
        low = first + convert(index(i), how) * step
        high = last - convert(index(steps - 1 - i), how) * step
        return select(index(i) < steps // 2, low, high) if steps > 1 else first

    return elements((steps,), body, result)


@operator("eye(int n, *, ScalarType? dtype=None) -> Tensor", samples=listed((3, None), (0, None), (2, dt.i64)))
def eye(n: int, dtype: DType | None) -> T:
    """1 on the diagonal, else 0."""
    return eye_rectangle(n, n, dtype)


@operator("eye.m(int n, int m, *, ScalarType? dtype=None) -> Tensor", samples=listed((3, 4, None), (2, 1, dt.bool_)))
def eye_rectangle(n: int, m: int, dtype: DType | None) -> T:
    """1 where i = j, else 0."""
    result = dtype or dt.f32
    one, other = const(1, result), const(0, result)
    return elements(_sizes((n, m)), lambda i, j: select(op("eq", index(i), index(j)), one, other), result)


# ------------------------------------------------------------------------------------------------ conversion


@operator("_to_copy(Tensor self, *, ScalarType? dtype=None) -> Tensor",
          samples=lambda: [(like(3, 5, dtype=a), b) for a in ALL for b in ALL] + [(like(2), None), (like(), dt.i32),
                                                                                  (like(0, 3), dt.f64)])  # fmt: skip
def to_copy(self: T, dtype: DType | None) -> T:
    """A copy of self as `dtype`: floats round to nearest even, integers wrap, float -> integer saturates (NaN: 0)."""
    return copy(self) if dtype in (None, self.dtype) else cast(self, dtype or self.dtype)


@operator("to.dtype(Tensor(a) self, ScalarType dtype, bool non_blocking=False, bool copy=False) -> Tensor(a)",
          samples=lambda: [(like(3, 5, dtype=a), b, False, False) for a in ALL for b in ALL] + [(like(), dt.i32, False, True)],
          decompose=lambda apply, self, dtype, non_blocking, copy: apply("_to_copy.default", self, dtype))  # fmt: skip
def to_dtype(self: T, dtype: DType, non_blocking: bool, copy: bool) -> T:
    """self as `dtype`: floats round to nearest even, integers wrap, float -> integer saturates (NaN: 0)."""
    return to_copy(self, dtype)


@operator("type_as(Tensor self, Tensor other) -> Tensor",
          samples=lambda: [(like(3, dtype=a), like(2, dtype=b)) for a,
                           b in zip(ALL, (*ALL[3:], *ALL[:3]), strict=True)])  # fmt: skip
def type_as(self: T, other: T) -> T:
    """self as the type of other."""
    return to_copy(self, other.dtype)


@operator("copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor", inplace=True,
          samples=listed((like(3, 4), like(4), False), (like(3), like(dtype=dt.i64), False),
                         (like(2, dtype=dt.i32), like(2), False),
                         (like(0, 2), like(2), False), (like(2, dtype=dt.bool_), like(2), False)))  # fmt: skip
def copy_from(self: T, src: T, non_blocking: bool) -> T:
    """src, broadcast to the shape and converted to the type of self."""
    return cast(copy(src) if src.shape == self.shape else broadcast_to(src, self.shape), self.dtype)


@operator("fill.Scalar(Tensor self, Scalar value) -> Tensor", inplace=True, samples=unary(ALL, (1,), (2.5,)))
def fill(self: T, value: Number) -> T:
    """Every element is value, as the type of self."""
    return filled(self.shape, value, self.dtype)


@operator("fill.Tensor(Tensor self, Tensor value) -> Tensor", inplace=True,
          samples=listed((like(3), like()), (like(2, dtype=dt.i64), like())))
def fill_tensor(self: T, value: T) -> T:
    """Every element is the 0-d value, as the type of self."""
    if value.shape:
        raise UserError(f"value must be a 0-d tensor, not shape {list(value.shape)}")
    return elements(self.shape, lambda *_: value[()], self.dtype)


@operator("zero(Tensor self) -> Tensor", inplace=True, samples=unary())
def zero(self: T) -> T:
    """Zeros in the shape and type of self."""
    return filled(self.shape, 0, self.dtype)
