"""Comparisons, logic, bits, shifts, choices."""

from __future__ import annotations

import math
from collections.abc import Callable

from assay.core import dtypes as dt
from assay.core.errors import UserError
from assay.core.lang import E, T, const, convert, op, select
from assay.core.operators.build import Operand, at, broadcast, elements, pointwise, result_type, same_type
from assay.core.operators.pointwise import is_nan
from assay.core.operators.registry import operator
from assay.core.operators.samples import ALL, INTEGERS, binary, like, listed, unary, with_scalar

BITS = (*INTEGERS, dt.bool_)

# ------------------------------------------------------------------------------------------------ comparisons


def _comparison(name: str, symbol: str) -> None:
    def meaning(self: T, other: Operand) -> T:
        if name in ("gt", "ge"):
            return pointwise(lambda x, y: op({"gt": "lt", "ge": "le"}[name], y, x), self, other, promotion="bool")
        return pointwise(lambda x, y: op(name, x, y), self, other, promotion="bool")

    meaning.__doc__ = f"self {symbol} other in their common type; {'true' if name == 'ne' else 'false'} with a NaN, +0 equals -0."
    operator(f"{name}.Tensor(Tensor self, Tensor other) -> Tensor", family="compare", samples=binary())(meaning)
    operator(f"{name}.Scalar(Tensor self, Scalar other) -> Tensor", family="compare", samples=with_scalar())(meaning)


for _name, _symbol in (("eq", "=="), ("ne", "!="), ("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">=")):
    _comparison(_name, _symbol)


@operator("isnan(Tensor self) -> Tensor", samples=unary())
def isnan(self: T) -> T:
    """Whether it is NaN."""
    return pointwise(is_nan, self, promotion="bool")


def _is_infinite(x: E) -> E:
    return op("eq", op("abs", x), math.inf) if x.dtype.is_float else const(False, dt.bool_)


@operator("isinf(Tensor self) -> Tensor", samples=unary())
def isinf(self: T) -> T:
    """Whether it is an infinity."""
    return pointwise(_is_infinite, self, promotion="bool")


@operator("isfinite(Tensor self) -> Tensor", samples=unary())
def isfinite(self: T) -> T:
    """Whether it is neither an infinity nor NaN."""
    return pointwise(lambda x: op("abs", x) < math.inf if x.dtype.is_float else const(True, dt.bool_), self, promotion="bool")


@operator("isposinf(Tensor self) -> Tensor", samples=unary())
def isposinf(self: T) -> T:
    """Whether it is +inf."""
    return pointwise(lambda x: op("eq", x, math.inf) if x.dtype.is_float else const(False, dt.bool_), self, promotion="bool")


@operator("isneginf(Tensor self) -> Tensor", samples=unary())
def isneginf(self: T) -> T:
    """Whether it is -inf."""
    return pointwise(lambda x: op("eq", x, -math.inf) if x.dtype.is_float else const(False, dt.bool_), self, promotion="bool")


@operator("isclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> Tensor",
          samples=binary(ALL, (1e-5, 1e-8, False), (0.5, 0.5, True), mixed=False))  # fmt: skip
def isclose(self: T, other: T, rtol: float, atol: float, equal_nan: bool) -> T:
    """self == other, or both finite and |self - other| <= atol + rtol * |other|; NaN is close to NaN if equal_nan."""
    same_type(self, other)

    def body(x: E, y: E) -> E:
        close = op("eq", x, y)
        if x.dtype.is_float:
            distance = op("abs", x - y)
            near = (distance <= op("abs", y) * rtol + atol) & (distance < math.inf) & (op("abs", y) < math.inf)
            return close | near | (is_nan(x) & is_nan(y)) if equal_nan else close | near
        if x.dtype is dt.bool_ or (rtol == 0 and atol == 0):
            return close
        a, b = convert(x, dt.f64), convert(y, dt.f64)  # where no difference wraps
        return close | (op("abs", a - b) <= op("abs", b) * rtol + atol)

    return pointwise(body, self, other, promotion="bool")


# ------------------------------------------------------------------------------------------------ logic and bits


def truth(x: E) -> E:
    """x != 0; NaN is true."""
    return x if x.dtype is dt.bool_ else op("ne", x, 0)


@operator("logical_and(Tensor self, Tensor other) -> Tensor", inplace=True, samples=binary())
def logical_and(self: T, other: T) -> T:
    """self != 0 and other != 0."""
    return pointwise(lambda x, y: truth(x) & truth(y), self, other, promotion="bool")


@operator("logical_or(Tensor self, Tensor other) -> Tensor", inplace=True, samples=binary())
def logical_or(self: T, other: T) -> T:
    """self != 0 or other != 0."""
    return pointwise(lambda x, y: truth(x) | truth(y), self, other, promotion="bool")


@operator("logical_xor(Tensor self, Tensor other) -> Tensor", inplace=True, samples=binary())
def logical_xor(self: T, other: T) -> T:
    """Exactly one of self != 0, other != 0."""
    return pointwise(lambda x, y: op("ne", truth(x), truth(y)), self, other, promotion="bool")


@operator("logical_not(Tensor self) -> Tensor", inplace=True, samples=unary())
def logical_not(self: T) -> T:
    """self == 0."""
    return pointwise(lambda x: op("not", truth(x)), self, promotion="bool")


def _bitwise(name: str, word: str, combine: Callable[[E, E], E]) -> None:
    def meaning(self: T, other: Operand) -> T:
        return pointwise(combine, self, other, kinds="bool int")

    meaning.__doc__ = f"Bitwise {word} of integers, {word} of bools."
    operator(f"bitwise_{name}.Tensor(Tensor self, Tensor other) -> Tensor", inplace=True, family="compare",
             samples=binary(BITS))(meaning)  # fmt: skip
    operator(f"bitwise_{name}.Scalar(Tensor self, Scalar other) -> Tensor", inplace=True, family="compare",
             samples=with_scalar(BITS, (6, -1, True)))(meaning)  # fmt: skip


_bitwise("and", "and", lambda x, y: x & y)
_bitwise("or", "or", lambda x, y: x | y)
_bitwise("xor", "exclusive or", lambda x, y: x ^ y)


@operator("bitwise_not(Tensor self) -> Tensor", inplace=True, samples=unary(BITS))
def bitwise_not(self: T) -> T:
    """Every bit flipped; of bools: not."""
    return pointwise(lambda x: ~x, self, kinds="bool int")


@operator("bitwise_left_shift.Tensor(Tensor self, Tensor other) -> Tensor", inplace=True, samples=binary(INTEGERS))
@operator("bitwise_left_shift.Tensor_Scalar(Tensor self, Scalar other) -> Tensor", inplace=True,
          samples=with_scalar(INTEGERS, (1, 64, -1)))  # fmt: skip
def bitwise_left_shift(self: T, other: Operand) -> T:
    """self * 2**other, wrapping; 0 where other < 0 or other >= width."""
    return pointwise(lambda x, n: x << n, self, other, kinds="int")


@operator("bitwise_right_shift.Tensor(Tensor self, Tensor other) -> Tensor", inplace=True, samples=binary(INTEGERS))
@operator("bitwise_right_shift.Tensor_Scalar(Tensor self, Scalar other) -> Tensor", inplace=True,
          samples=with_scalar(INTEGERS, (1, 64, -1)))  # fmt: skip
def bitwise_right_shift(self: T, other: Operand) -> T:
    """floor(self / 2**other); 0 or -1 (the sign) where other < 0 or other >= width."""
    return pointwise(lambda x, n: x >> n, self, other, kinds="int")


# ------------------------------------------------------------------------------------------------ choices


@operator("where.self(Tensor condition, Tensor self, Tensor other) -> Tensor",
          samples=listed(*((like(3, 4, dtype=dt.bool_), like(4, dtype=d), like(3, 1, dtype=d)) for d in ALL),
                         (like(dtype=dt.bool_), like(2), like(dtype=dt.f64)),
                         (like(0, dtype=dt.bool_), like(1), like())))  # fmt: skip
@operator("where.ScalarSelf(Tensor condition, Scalar self, Tensor other) -> Tensor",
          samples=listed((like(3, 4, dtype=dt.bool_), 2, like(4)),
                         (like(4, dtype=dt.bool_), -0.0, like(4, dtype=dt.i64))))  # fmt: skip
@operator("where.ScalarOther(Tensor condition, Tensor self, Scalar other) -> Tensor",
          samples=listed((like(3, 4, dtype=dt.bool_), like(4), 2), (like(4, dtype=dt.bool_), like(4, dtype=dt.i64),
                                                                    1)))  # fmt: skip
@operator("where.Scalar(Tensor condition, Scalar self, Scalar other) -> Tensor",
          samples=listed((like(3, 4, dtype=dt.bool_), 2, -1), (like(4, dtype=dt.bool_), -0.0, True)))  # fmt: skip
def where(condition: T, self: Operand, other: Operand) -> T:
    """self where the condition holds, else other: a choice of bits, in their common type."""
    if condition.dtype is not dt.bool_:
        raise UserError(f"the condition must be a bool tensor, not {condition.dtype.name}; write condition != 0")
    common = result_type(self, other)
    shape = broadcast(*(x.shape for x in (condition, self, other) if isinstance(x, T)))

    def body(*i: object) -> E:
        a, b = (convert(at(x, i), common) if isinstance(x, T) else const(x, common) for x in (self, other))
        return select(at(condition, i), a, b)

    return elements(shape, body, common)
