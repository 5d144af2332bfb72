"""Quotients rounded to integers, remainders, powers.  Integers: division by zero and negative exponents are errors.

Float // and % are Python's: the exact fmod first, then its sign is fixed (floor(a / b) would be off by one where the
exact quotient lies just below an integer).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from assay.core import dtypes as dt
from assay.core.dtypes import DType
from assay.core.errors import UserError
from assay.core.lang import E, T, const, convert, folds, is_const, load, op, require, select, tensor
from assay.core.operators.build import (
    Number,
    Operand,
    at,
    broadcast,
    elements,
    nonzero,
    number,
    pointwise,
    result_type,
)
from assay.core.operators.pointwise import sign_bit
from assay.core.operators.registry import operator
from assay.core.operators.samples import FLOATS, INTEGERS, Like, Samples, like, listed

Binary = Callable[[E, E], E]


def quotient(on_floats: Binary, on_integers: Binary, self: Operand, other: Operand) -> T:
    """The float or the integer function of the promoted operands; a zero integer divisor raises ZeroDivisionError."""
    common = result_type(self, other)
    if common.is_float:
        return pointwise(on_floats, self, other)
    if common is dt.bool_:
        raise UserError("not defined on bool; allowed: int, float")
    shape = broadcast(*(x.shape for x in (self, other) if isinstance(x, T)))
    divisor = nonzero(other, shape, common)

    def body(*i: Any) -> E:
        x = convert(at(self, i), common) if isinstance(self, T) else number(self, common)
        return on_integers(x, divisor(i))

    return elements(shape, body, common)


# ------------------------------------------------------------------------------------------------ on elements


def integer_floor(x: E, y: E) -> E:
    """floor(x / y), wrapping."""
    return op("floordiv", x, y)


def integer_modulo(x: E, y: E) -> E:
    """x - y * floor(x / y)"""
    return op("mod", x, y)


def integer_trunc(x: E, y: E) -> E:
    """x / y rounded towards zero, wrapping."""
    q = op("floordiv", x, y)
    if x.dtype is dt.u8:
        return q
    down = op("ne", op("mod", x, y), 0) & op("ne", x < 0, y < 0)
    return select(down, q + 1, q)


def integer_fmod(x: E, y: E) -> E:
    """x - y * trunc(x / y): the sign of x."""
    return x - y * integer_trunc(x, y)


def float_modulo(x: E, y: E) -> E:
    """x % y of Python: fmod(x, y), plus y where the signs differ; a zero has the sign of y."""
    m = op("fmod", x, y)
    fixed = select(op("ne", m < 0, y < 0), m + y, m)
    return select(op("eq", m, 0), select(sign_bit(y), const(-0.0, x.dtype), const(0.0, x.dtype)), fixed)


def float_floor(x: E, y: E) -> E:
    """x // y of Python: (x - fmod(x, y)) / y, one less where the signs differ, to the nearest integer; x / 0 for y = 0."""
    m = op("fmod", x, y)
    whole = (x - m) / y
    whole = select(op("ne", m, 0) & op("ne", m < 0, y < 0), whole - 1, whole)
    down = op("floor", whole)
    nearest = select(whole - down > 0.5, down + 1, down)
    zero = select(op("ne", sign_bit(x), sign_bit(y)), const(-0.0, x.dtype), const(0.0, x.dtype))
    return select(op("eq", y, 0), x / y, select(op("eq", whole, 0), zero, nearest))


# ------------------------------------------------------------------------------------------------ operators


def _pairs(*attributes: tuple[Any, ...], scalar: bool = False, floats: bool = True) -> Samples:
    """Operands whose integer divisors are positive or negative, never 0."""

    def samples() -> Any:
        first = attributes[0] if attributes else ()
        for d in (*FLOATS, *INTEGERS) if floats else INTEGERS:
            for lo, hi in ((1, 9),) if d is dt.u8 else ((1, 9), (-9, -1)):
                divisor = (lo if scalar else Like((5,), d)) if d.is_float else (lo if scalar else Like((5,), d, lo, hi))
                yield (Like((3, 5), d), divisor, *first)
        d = dt.f32 if floats else dt.i64
        for a, b in (((), ()), ((0, 3), (3,)), ((1, 4), (3, 1))):
            yield (Like(a, d), 2 if scalar else Like(b, d, 1, 5), *first)
        for rest in attributes[1:]:
            yield (Like((3, 4), dt.f32), 2.5 if scalar else Like((4,), dt.f32), *rest)
            yield (Like((3, 4), dt.i32), -3 if scalar else Like((4,), dt.i32, 1, 9), *rest)
        if not scalar:
            yield (Like((3, 4), dt.i64), Like((), dt.i32, -5, -2), *first)
            yield (Like((3, 4), dt.i64), Like((), dt.f32), *first)

    return samples


@operator("div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor", inplace=True,
          samples=_pairs(("floor",), ("trunc",), (None,)))  # fmt: skip
@operator("div.Scalar_mode(Tensor self, Scalar other, *, str? rounding_mode) -> Tensor", inplace=True,
          samples=_pairs(("floor",), ("trunc",), (None,), scalar=True))  # fmt: skip
def div_mode(self: Operand, other: Operand, rounding_mode: str | None) -> T:
    """The quotient: as it is (None), rounded towards zero ("trunc"), or Python's // ("floor")."""
    if rounding_mode is None:
        return pointwise(lambda x, y: x / y, self, other, promotion="int_to_float")
    if rounding_mode == "trunc":
        return quotient(lambda x, y: op("trunc", x / y), integer_trunc, self, other)
    if rounding_mode == "floor":
        return floor_divide(self, other)
    raise UserError(f"rounding_mode {rounding_mode!r}; allowed: None, 'trunc', 'floor'")


@operator("floor_divide(Tensor self, Tensor other) -> Tensor", inplace=True, samples=_pairs())
@operator("floor_divide.Scalar(Tensor self, Scalar other) -> Tensor", inplace=True, samples=_pairs(scalar=True))
def floor_divide(self: Operand, other: Operand) -> T:
    """Python's self // other; integers floor and wrap, a zero integer divisor raises ZeroDivisionError."""
    return quotient(float_floor, integer_floor, self, other)


@operator("remainder.Tensor(Tensor self, Tensor other) -> Tensor", inplace=True, samples=_pairs())
@operator("remainder.Scalar(Tensor self, Scalar other) -> Tensor", inplace=True, samples=_pairs(scalar=True))
def remainder(self: Operand, other: Operand) -> T:
    """Python's self % other: the sign of other; a zero integer divisor raises ZeroDivisionError."""
    return quotient(float_modulo, integer_modulo, self, other)


@operator("remainder.Scalar_Tensor(Scalar self, Tensor other) -> Tensor",
          samples=listed((7, like(3, 4)), (-7, like(5, dtype=dt.i64, lo=1, hi=9)), (2.5, like(dtype=dt.f64))))  # fmt: skip
def remainder_of_scalar(self: Number, other: T) -> T:
    """Python's self % other for a number self."""
    return remainder(self, other)


@operator("fmod.Tensor(Tensor self, Tensor other) -> Tensor", inplace=True, samples=_pairs())
@operator("fmod.Scalar(Tensor self, Scalar other) -> Tensor", inplace=True, samples=_pairs(scalar=True))
def fmod(self: Operand, other: Operand) -> T:
    """self - other * trunc(self / other), exact: the sign of self; a zero integer divisor raises ZeroDivisionError."""
    return quotient(lambda x, y: op("fmod", x, y), integer_fmod, self, other)


# ------------------------------------------------------------------------------------------------ powers


def integer_power(base: E, exponent: E) -> E:
    """base ** exponent for exponent >= 0 by squaring, one step for each bit of the exponent, wrapping."""
    one = const(1, base.dtype)
    if is_const(exponent):
        result, power, n = one, base, exponent.lo
        while n > 0:
            result = (power if result is one else result * power) if n & 1 else result
            power, n = power * power if n > 1 else power, n >> 1
        return result

    def step(result: E, power: E, rest: E, _: object) -> tuple[E, ...]:
        return select(op("eq", rest & 1, 1), result * power, result), power * power, rest >> 1

    return folds(base.dtype.bits - (base.dtype.kind == "int"), (one, base, exponent), step)[0]


def _float_power(base: E, exponent: E) -> E:
    """base ** exponent; the constant exponents 0, 1, 2, -1 are 1, base, base * base and 1 / base, correctly rounded."""
    if is_const(exponent, 0.0) or is_const(exponent, -0.0):
        return const(1, base.dtype)
    if is_const(exponent, 1.0):
        return base
    if is_const(exponent, 2.0):
        return base * base
    if is_const(exponent, -1.0):
        return 1 / base
    return op("pow", base, exponent)


_NEGATIVE_POWER = "[ValueError] integers to negative integer powers are not allowed: exponent {value} at {index}"


def _not_negative(exponent: Operand, dtype: DType) -> Operand:
    """The integer exponents as `dtype`, checked to be >= 0."""
    if not isinstance(exponent, T):
        if exponent < 0:
            raise UserError(f"integers to negative integer powers are not allowed: exponent {exponent}")
        return exponent
    x = tensor(exponent.shape, lambda *i: convert(load(exponent, *i), dtype))
    return x if x.lo >= 0 or 0 in x.shape else require(x.shape, x.body, x.body >= 0, _NEGATIVE_POWER, lo=0)


def _powers(*, scalar: bool = False) -> Samples:
    def samples() -> Any:
        for d in FLOATS:
            yield (Like((3, 5), d), 3 if scalar else Like((5,), d))
        for d in INTEGERS:
            yield (Like((3, 5), d), 5 if scalar else Like((5,), d, 0, 9))
        for e in (0, 1, 2, -1, 0.5, -2.5, 10):
            yield (Like((17,)), e if scalar else Like((), dt.f32, e, e))
        yield (Like((0, 3)), 2 if scalar else Like((3,)))
        yield (Like((4,), dt.i32), 2.5 if scalar else Like((), dt.f32))

    return samples


@operator("pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor", samples=_powers())
@operator("pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor", inplace=True, samples=_powers(scalar=True))
def pow_tensor(self: Operand, exponent: Operand) -> T:
    """self ** exponent: IEEE pow on floats, wrapping on integers; a negative integer exponent raises ValueError."""
    common = result_type(self, exponent)
    if common.is_float or common is dt.bool_:
        return pointwise(_float_power, self, exponent, kinds="float")
    shape = broadcast(*(x.shape for x in (self, exponent) if isinstance(x, T)))
    if 0 in shape:
        return elements(shape, lambda *_: const(0, common), common)
    return pointwise(integer_power, self, _not_negative(exponent, common), dtype=common)


@operator("pow.Scalar(Scalar self, Tensor exponent) -> Tensor",
          samples=listed((2, like(3, 4)), (2.5, like(5)), (-3, like(5, dtype=dt.i64, lo=0, hi=9)),
                         (0.0, like(17, dtype=dt.f64))))  # fmt: skip
def pow_scalar(self: Number, exponent: T) -> T:
    """self ** exponent for a number self."""
    return pow_tensor(self, exponent)
