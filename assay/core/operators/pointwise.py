"""Pointwise arithmetic.  Operands are broadcast and converted to PyTorch's common type before the operation."""

from __future__ import annotations

import math
from collections.abc import Callable

from assay.core import dtypes as dt
from assay.core.errors import UserError
from assay.core.lang import E, T, bitcast, const, op, select
from assay.core.operators.build import Number, Operand, largest_of, number, pointwise, result_type, same_type
from assay.core.operators.registry import operator
from assay.core.operators.samples import ALL, FLOATS, NUMBERS, binary, like, listed, unary, with_scalar

ARITHMETIC = "int float"
NAN_OR_BELOW = (math.nan, 0.5)


def scaled(y: E, alpha: Number) -> E:
    """alpha * y; y itself for alpha = 1."""
    if isinstance(alpha, float) and not y.dtype.is_float:
        raise UserError(f"alpha {alpha!r} must be an integer for operands of type {y.dtype.name}")
    return y if alpha == 1 else number(alpha, y.dtype) * y


@operator("add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", inplace=True, samples=binary(ALL, (1,), (2,)))
@operator("add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", inplace=True,
          samples=with_scalar(ALL, (2, -1.5, True), (1,), (2,)))  # fmt: skip
def add(self: Operand, other: Operand, alpha: Number = 1) -> T:
    """self + alpha * other, two roundings; of bools: or."""
    if result_type(self, other) is dt.bool_:
        return pointwise(lambda x, y: op("or", x, y if alpha else const(False, dt.bool_)), self, other)
    return pointwise(lambda x, y: x + scaled(y, alpha), self, other)


@operator("sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", inplace=True, samples=binary(NUMBERS, (1,), (2,)))
@operator("sub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", inplace=True,
          samples=with_scalar(NUMBERS, (2, -1.5, True), (1,), (3,)))  # fmt: skip
def sub(self: Operand, other: Operand, alpha: Number = 1) -> T:
    """self - alpha * other, two roundings; bools have no difference (use logical_xor)."""
    return pointwise(lambda x, y: x - scaled(y, alpha), self, other, kinds=ARITHMETIC)


@operator("rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", samples=binary(NUMBERS, (1,), (2,)))
@operator("rsub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", samples=with_scalar(NUMBERS, (2, -1.5), (1,), (3,)))
def rsub(self: Operand, other: Operand, alpha: Number = 1) -> T:
    """other - alpha * self, two roundings."""
    return pointwise(lambda x, y: y - scaled(x, alpha), self, other, kinds=ARITHMETIC)


@operator("mul.Tensor(Tensor self, Tensor other) -> Tensor", inplace=True, samples=binary())
@operator("mul.Scalar(Tensor self, Scalar other) -> Tensor", inplace=True, samples=with_scalar())
def mul(self: Operand, other: Operand) -> T:
    """self * other; of bools: and."""
    return pointwise(lambda x, y: x & y if x.dtype is dt.bool_ else x * y, self, other)


@operator("div.Tensor(Tensor self, Tensor other) -> Tensor", inplace=True, samples=binary())
@operator("div.Scalar(Tensor self, Scalar other) -> Tensor", inplace=True, samples=with_scalar())
def div(self: Operand, other: Operand) -> T:
    """self / other; integers and bools become f32 first; x/0 is an infinity or NaN."""
    return pointwise(lambda x, y: x / y, self, other, promotion="int_to_float")


@operator("reciprocal(Tensor self) -> Tensor", inplace=True, samples=unary())
def reciprocal(self: T) -> T:
    """1 / self; integers become f32 first."""
    return pointwise(lambda x: op("reciprocal", x), self, promotion="int_to_float")


@operator("neg(Tensor self) -> Tensor", inplace=True, samples=unary(NUMBERS))
def neg(self: T) -> T:
    """-self: the sign bit flips, of NaN and 0 too; integers wrap."""
    return pointwise(lambda x: -x, self, kinds=ARITHMETIC)


@operator("abs(Tensor self) -> Tensor", inplace=True, samples=unary(NUMBERS))
def absolute(self: T) -> T:
    """|self|; the smallest integer stays (wraps)."""
    return pointwise(lambda x: op("abs", x), self, kinds=ARITHMETIC)


@operator("square(Tensor self) -> Tensor", inplace=True, samples=unary(NUMBERS))
def square(self: T) -> T:
    """self * self."""
    return pointwise(lambda x: op("square", x), self, kinds=ARITHMETIC)


@operator("sign(Tensor self) -> Tensor", inplace=True, samples=unary())
def sign(self: T) -> T:
    """-1, 0 or 1; +0 for NaN and for both zeros, as PyTorch; bools stay."""
    if self.dtype is dt.bool_:
        return pointwise(lambda x: x, self)

    def body(x: E) -> E:
        positive = select(x > 0, const(1, x.dtype), const(0, x.dtype))
        return positive if x.dtype is dt.u8 else select(x < 0, const(-1, x.dtype), positive)

    return pointwise(body, self)


# ------------------------------------------------------------------------------------------------ extremes


def equal_halves(name: str) -> Callable[[T, T], T]:
    """The larger ("max") or smaller one, spelled so that equal ones have half of the gradient each."""

    def body(x: E, y: E) -> E:
        return select(op("eq", x, y), (x + y) * 0.5, op(name, x, y)) if x.dtype.is_float else op(name, x, y)

    return lambda x, y: pointwise(body, x, y)


@operator("maximum(Tensor self, Tensor other) -> Tensor", samples=binary(), convention=equal_halves("max"))
def maximum(self: T, other: T) -> T:
    """The larger one: NaN wins, -0 < +0."""
    return pointwise(lambda x, y: op("max", x, y), self, other)


@operator("minimum(Tensor self, Tensor other) -> Tensor", samples=binary(), convention=equal_halves("min"))
def minimum(self: T, other: T) -> T:
    """The smaller one: NaN wins, -0 < +0."""
    return pointwise(lambda x, y: op("min", x, y), self, other)


def is_nan(x: E) -> E:
    """Whether x is NaN (an integer never is)."""
    return op("ne", x, x) if x.dtype.is_float else const(False, dt.bool_)


@operator("fmax(Tensor self, Tensor other) -> Tensor", samples=binary())
def fmax(self: T, other: T) -> T:
    """The larger one, a number before NaN."""
    return pointwise(lambda x, y: select(is_nan(x), y, select(is_nan(y), x, op("max", x, y))), self, other)


@operator("fmin(Tensor self, Tensor other) -> Tensor", samples=binary())
def fmin(self: T, other: T) -> T:
    """The smaller one, a number before NaN."""
    return pointwise(lambda x, y: select(is_nan(x), y, select(is_nan(y), x, op("min", x, y))), self, other)


@operator("clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor", inplace=True,
          samples=unary(NUMBERS, (-1, 2), (None, 0.5), (0, None), (1.0, -1.0), NAN_OR_BELOW, (-math.inf, 3)))  # fmt: skip
@operator("clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor", inplace=True,
          samples=listed(*((like(3, 4, dtype=d), like(4, dtype=d), like(3, 1, dtype=d)) for d in NUMBERS),
                         (like(3), None, like()), (like(), like(), None), (like(0), like(0), like(1))))  # fmt: skip
def clamp(self: T, min: Operand | None = None, max: Operand | None = None) -> T:
    """minimum(maximum(self, min), max): NaN propagates from self and from the bounds; where min > max it is max."""
    given = [b for b in (min, max) if b is not None]
    if not given:
        raise UserError("needs min, max or both")

    def body(x: E, *bounds: E) -> E:
        rest = list(bounds)
        x = op("max", x, rest.pop(0)) if min is not None else x
        return op("min", x, rest.pop(0)) if max is not None else x

    return pointwise(body, self, *given)


@operator("clamp_min(Tensor self, Scalar min) -> Tensor", inplace=True, samples=with_scalar(NUMBERS, (0, 0.5, math.nan)))
@operator("clamp_min.Tensor(Tensor self, Tensor min) -> Tensor", inplace=True, samples=binary(NUMBERS))
def clamp_min(self: T, min: Operand) -> T:
    """maximum(self, min)."""
    return clamp(self, min=min)


@operator("clamp_max(Tensor self, Scalar max) -> Tensor", inplace=True, samples=with_scalar(NUMBERS, (0, 0.5, math.nan)))
@operator("clamp_max.Tensor(Tensor self, Tensor max) -> Tensor", inplace=True, samples=binary(NUMBERS))
def clamp_max(self: T, max: Operand) -> T:
    """minimum(self, max)."""
    return clamp(self, max=max)


@operator("heaviside(Tensor self, Tensor values) -> Tensor", inplace=True, samples=binary(NUMBERS, mixed=False))
def heaviside(self: T, values: T) -> T:
    """values where self = 0, 1 where self > 0, else 0 (for NaN too, as PyTorch)."""
    same_type(self, values)

    def body(x: E, v: E) -> E:
        return select(op("eq", x, 0), v, select(x > 0, const(1, x.dtype), const(0, x.dtype)))

    return pointwise(body, self, values, kinds=ARITHMETIC)


@operator("ldexp.Tensor(Tensor self, Tensor other) -> Tensor", inplace=True, samples=binary(ALL, mixed=False))
def ldexp(self: T, other: T) -> T:
    """self * 2**other, the power rounded first; integers become f32."""
    return pointwise(lambda x, n: x * op("exp2", n), self, other, promotion="int_to_float")


# ------------------------------------------------------------------------------------------------ compounds


@operator("addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor", inplace=True,
          samples=listed(*((like(3, 4, dtype=d), like(4, dtype=d), like(3, 1, dtype=d), v) for d in NUMBERS for v in (1, 2)),
                         (like(), like(), like(), -0.5), (like(0), like(0), like(1), 1)))  # fmt: skip
def addcmul(self: T, tensor1: T, tensor2: T, value: Number) -> T:
    """self + (value * tensor1) * tensor2, each operation rounded."""
    return pointwise(lambda x, a, b: x + scaled(a, value) * b, self, tensor1, tensor2, kinds=ARITHMETIC)


@operator("addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor", inplace=True,
          samples=listed(*((like(3, 4, dtype=d), like(4, dtype=d), like(3, 1, dtype=d), v) for d in FLOATS for v in (1, 2.5)),
                         (like(), like(), like(), -0.5), (like(0), like(0), like(1), 1)))  # fmt: skip
def addcdiv(self: T, tensor1: T, tensor2: T, value: Number) -> T:
    """self + (value * tensor1) / tensor2, each operation rounded; integers have no quotient here."""
    return pointwise(lambda x, a, b: x + scaled(a, value) / b, self, tensor1, tensor2, kinds="float")


@operator("lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor", inplace=True,
          samples=listed(*((like(3, 4, dtype=d), like(4, dtype=d), w) for d in FLOATS for w in (0.25, 0.5, 2)),
                         (like(), like(), 1.0), (like(0), like(1), 0.5)))  # fmt: skip
@operator("lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor", inplace=True,
          samples=listed(*((like(3, 4, dtype=d), like(4, dtype=d), like(3, 1, dtype=d)) for d in FLOATS),
                         (like(), like(), like()), (like(0), like(1), like())))  # fmt: skip
def lerp(self: T, end: T, weight: Operand) -> T:
    """self + weight * (end - self) for |weight| < 1/2, else end - (end - self) * (1 - weight): exact at both ends."""

    def body(a: E, b: E, w: E) -> E:
        near, far = a + w * (b - a), b - (b - a) * (1 - w)
        return select(op("abs", w) < 0.5, near, far)

    return pointwise(body, self, end, weight, kinds="float")


@operator("nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor", inplace=True,
          samples=unary(ALL, (None, None, None), (1.5, None, -2.0), (None, 7.0, None)))  # fmt: skip
def nan_to_num(self: T, nan: float | None, posinf: float | None, neginf: float | None) -> T:
    """NaN becomes nan (0), infinities become posinf, neginf (the largest finite values of the type); integers stay."""
    if not self.dtype.is_float:
        return pointwise(lambda x: x, self)
    largest = largest_of(self.dtype)
    high = number(largest if posinf is None else posinf, self.dtype)
    low = number(-largest if neginf is None else neginf, self.dtype)
    zero = number(nan or 0.0, self.dtype)
    return pointwise(
        lambda x: select(is_nan(x), zero, select(op("eq", x, math.inf), high, select(op("eq", x, -math.inf), low, x))), self
    )


# ------------------------------------------------------------------------------------------------ signs, rounding


def sign_bit(x: E) -> E:
    """Whether x < 0 or x is -0.  NaNs are one value without a sign."""
    if x.dtype is dt.bool_:
        return const(False, dt.bool_)
    return (bitcast(x) < 0) & op("eq", x, x) if x.dtype.is_float else x < 0


@operator("signbit(Tensor self) -> Tensor", samples=unary())
def signbit(self: T) -> T:
    """Whether self < 0 or self is -0; false for NaN, whose sign is not part of its value."""
    return pointwise(sign_bit, self, promotion="bool")


@operator("copysign.Tensor(Tensor self, Tensor other) -> Tensor", inplace=True, samples=binary())
@operator("copysign.Scalar(Tensor self, Scalar other) -> Tensor", inplace=True, samples=with_scalar(ALL, (-0.0, 2, math.inf)))
def copysign(self: Operand, other: Operand) -> T:
    """|self| with the sign of other (NaN counts as positive); integers become f32 first."""
    return pointwise(lambda x, y: select(sign_bit(y), -op("abs", x), op("abs", x)), self, other, promotion="int_to_float")


def _rounding(name: str) -> None:
    row_doc = {
        "floor": "The largest integer <= self.",
        "ceil": "The smallest integer >= self; -0 for -1 < self < 0.",
        "trunc": "self rounded towards 0, keeping its sign.",
        "round": "self rounded to the nearest integer, ties to even; -0.5 gives -0.",
    }

    def meaning(self: T) -> T:
        return pointwise(lambda x: op(name, x) if x.dtype.is_float else x, self, kinds=ARITHMETIC)

    meaning.__doc__ = f"{row_doc[name]}  Integers stay."
    operator(f"{name}(Tensor self) -> Tensor", inplace=True, samples=unary(NUMBERS), family="pointwise")(meaning)


for _name in ("floor", "ceil", "trunc", "round"):
    _rounding(_name)


@operator("round.decimals(Tensor self, *, int decimals) -> Tensor", inplace=True, samples=unary(NUMBERS, (2,), (0,), (-1,)))
def round_decimals(self: T, decimals: int) -> T:
    """round(self * 10**decimals) / 10**decimals (negative: round(self / 10**-decimals) * 10**-decimals), ties to even."""
    if not self.dtype.is_float:
        if decimals < 0:
            raise UserError(f"decimals {decimals} is not defined on {self.dtype.name}; allowed: >= 0, or a float tensor")
        return pointwise(lambda x: x, self, kinds=ARITHMETIC)
    power = 10.0 ** abs(decimals)
    if decimals > 0:
        return pointwise(lambda x: op("round", x * power) / power, self)
    return pointwise(lambda x: op("round", x / power) * power, self)


@operator("frac(Tensor self) -> Tensor", inplace=True, samples=unary(FLOATS))
def frac(self: T) -> T:
    """self - trunc(self); NaN for infinities."""
    return pointwise(lambda x: x - op("trunc", x), self, kinds="float")
