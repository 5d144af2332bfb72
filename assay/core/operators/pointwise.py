"""Pointwise operators: arithmetic."""

from __future__ import annotations

from assay.core import dtypes as dt
from assay.core.errors import UserError
from assay.core.lang import E, T, const, op
from assay.core.operators.build import Operand, number, pointwise, result_type
from assay.core.operators.registry import operator
from assay.core.operators.samples import ALL, NUMBERS, binary, unary, with_scalar


def _scaled(y: E, alpha: int | float | bool) -> E:
    """alpha * y; y itself for alpha = 1."""
    if isinstance(alpha, float) and not y.dtype.is_float:
        raise UserError(f"alpha {alpha!r} must be an integer for operands of type {y.dtype.name}")
    return y if alpha == 1 else number(alpha, y.dtype) * y


@operator("add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", inplace=True, samples=binary(ALL, (1,), (2,)))
@operator("add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", inplace=True,
          samples=with_scalar(ALL, (2, -1.5, True), (1,), (2,)))  # fmt: skip
def add(self: Operand, other: Operand, alpha: int | float | bool = 1) -> T:
    """self + alpha * other, two roundings; of bools: or."""
    if result_type(self, other) is dt.bool_:
        return pointwise(lambda x, y: op("or", x, y if alpha else const(False, dt.bool_)), self, other)
    return pointwise(lambda x, y: x + _scaled(y, alpha), self, other)


@operator("mul.Tensor(Tensor self, Tensor other) -> Tensor", inplace=True, samples=binary())
@operator("mul.Scalar(Tensor self, Scalar other) -> Tensor", inplace=True, samples=with_scalar())
def mul(self: Operand, other: Operand) -> T:
    """self * other; of bools: and."""
    return pointwise(lambda x, y: x & y if x.dtype is dt.bool_ else x * y, self, other)


@operator("relu(Tensor self) -> Tensor", inplace=True, samples=unary(NUMBERS))
def relu(self: T) -> T:
    """self where self > 0, else +0; NaN stays."""
    return pointwise(lambda x: op("relu", x), self, kinds="int float")
