"""Elementary functions: one operator for each row of the scalar table that ATen knows.  Integers become f32 first."""

from __future__ import annotations

import math

from assay.core.lang import E, T, op, select
from assay.core.operators.build import Operand, pointwise
from assay.core.operators.registry import operator
from assay.core.operators.samples import FLOATS, binary, unary, with_scalar
from assay.core.row import row

UNARY = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos",
    "atan", "asinh", "acosh", "atanh", "erf", "erfc", "sigmoid", "sqrt", "rsqrt",
)  # fmt: skip


def _unary(name: str) -> None:
    def meaning(self: T) -> T:
        return pointwise(lambda x: op(name, x), self, promotion="int_to_float")

    meaning.__doc__ = row(name).doc
    operator(f"{name}(Tensor self) -> Tensor", inplace=True, family="elementary", samples=unary())(meaning)


for _name in UNARY:
    _unary(_name)


@operator("atan2(Tensor self, Tensor other) -> Tensor", inplace=True, samples=binary())
def atan2(self: T, other: T) -> T:
    """The angle of the point (other, self), in [-pi, pi]."""
    return pointwise(lambda y, x: op("atan2", y, x), self, other, promotion="int_to_float")


@operator("hypot(Tensor self, Tensor other) -> Tensor", inplace=True, samples=binary(FLOATS))
def hypot(self: T, other: T) -> T:
    """sqrt(self**2 + other**2) without overflow; inf where one is infinite."""
    return pointwise(lambda x, y: op("hypot", x, y), self, other, kinds="float")


@operator("logaddexp(Tensor self, Tensor other) -> Tensor", samples=binary(FLOATS))
def logaddexp(self: T, other: T) -> T:
    """log(e**self + e**other)."""
    return pointwise(lambda x, y: op("logaddexp", x, y), self, other, kinds="float")


@operator("xlogy.Tensor(Tensor self, Tensor other) -> Tensor", inplace=True, samples=binary())
@operator("xlogy.Scalar_Other(Tensor self, Scalar other) -> Tensor", inplace=True, samples=with_scalar())
def xlogy(self: Operand, other: Operand) -> T:
    """self * log(other); 0 where self = 0, NaN where other is NaN."""
    return pointwise(lambda x, y: op("xlogy", x, y), self, other, promotion="int_to_float")


@operator("logit(Tensor self, float? eps=None) -> Tensor", inplace=True, samples=unary(FLOATS, (None,), (0.01,)))
def logit(self: T, eps: float | None) -> T:
    """log(x / (1 - x)) of x = self, or of self clamped to [eps, 1 - eps]."""

    def body(x: E) -> E:
        if eps is not None:
            x = op("min", op("max", x, eps), 1 - eps)
        return op("log", x / (1 - x))

    return pointwise(body, self, promotion="int_to_float")


@operator("sinc(Tensor self) -> Tensor", inplace=True, samples=unary(FLOATS))
def sinc(self: T) -> T:
    """sin(pi x) / (pi x), the product pi x rounded; 1 at 0."""

    def body(x: E) -> E:
        angle = x * math.pi
        return select(op("eq", x, 0), 1.0, op("sin", angle) / angle)

    return pointwise(body, self, promotion="int_to_float")


@operator("deg2rad(Tensor self) -> Tensor", inplace=True, samples=unary())
def deg2rad(self: T) -> T:
    """self * (pi / 180)"""
    return pointwise(lambda x: x * (math.pi / 180), self, promotion="int_to_float")


@operator("rad2deg(Tensor self) -> Tensor", inplace=True, samples=unary())
def rad2deg(self: T) -> T:
    """self * (180 / pi)"""
    return pointwise(lambda x: x * (180 / math.pi), self, promotion="int_to_float")
