"""Python's operators on tensors.

x + 2 is add.Scalar, x + y add.Tensor, x += y add_; 2 / x divides a 0-d tensor that takes the type of x
"""

from __future__ import annotations

from typing import Any

import numpy as np

from assay.core.errors import UserError
from assay.core.index import is_symbolic
from assay.frontends import dispatch, source


def _number(x: Any) -> bool:
    return isinstance(x, bool | int | float | np.generic) or is_symbolic(x)


def _is_operand(x: Any) -> bool:
    if isinstance(x, np.ndarray):
        raise UserError(
            f"{source.quoted()}  an operator mixes a tensor and a numpy array of shape {x.shape}; wrap the array: "
            "assay.from_numpy(a) shares its memory"
        )
    return isinstance(x, Arithmetic) or _number(x)


class Arithmetic:
    """The arithmetic, comparison and bit operators of a tensor."""

    __slots__ = ()
    dtype: Any

    def _binary(self, base: str, *args: Any) -> Any:
        return dispatch.call(base, args, {}) if all(map(_is_operand, args)) else NotImplemented

    def _like(self, x: Any) -> Any:
        """The number `x` as a 0-d tensor that leaves the type of self as it is, where its category allows."""
        if not _number(x):
            return x
        value = x.item() if isinstance(x, np.generic) else x
        fits = self.dtype.is_float or (self.dtype.is_integer and not isinstance(value, float)) or isinstance(value, bool)
        return dispatch.call("full", ((), value), {"dtype": self.dtype} if fits else {})

    def __add__(self, other: Any) -> Any:
        return self._binary("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return self._binary("add", self, other)

    def __sub__(self, other: Any) -> Any:
        return self._binary("sub", self, other)

    def __rsub__(self, other: Any) -> Any:
        return self._binary("rsub", self, other)

    def __mul__(self, other: Any) -> Any:
        return self._binary("mul", self, other)

    def __rmul__(self, other: Any) -> Any:
        return self._binary("mul", self, other)

    def __truediv__(self, other: Any) -> Any:
        return self._binary("div", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._binary("div", self._like(other), self)

    def __floordiv__(self, other: Any) -> Any:
        return self._binary("floor_divide", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._binary("floor_divide", self._like(other), self)

    def __mod__(self, other: Any) -> Any:
        return self._binary("remainder", self, other)

    def __rmod__(self, other: Any) -> Any:
        return self._binary("remainder", other, self)

    def __pow__(self, other: Any) -> Any:
        return self._binary("pow", self, other)

    def __rpow__(self, other: Any) -> Any:
        return self._binary("pow", other, self)

    def __matmul__(self, other: Any) -> Any:
        return self._binary("matmul", self, other)

    def __neg__(self) -> Any:
        return dispatch.call("neg", (self,), {})

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return dispatch.call("abs", (self,), {})

    def __round__(self, digits: int = 0) -> Any:
        return dispatch.call("round", (self,), {"decimals": digits} if digits else {})

    def __invert__(self) -> Any:
        return dispatch.call("bitwise_not", (self,), {})

    def __and__(self, other: Any) -> Any:
        return self._binary("bitwise_and", self, other)

    def __or__(self, other: Any) -> Any:
        return self._binary("bitwise_or", self, other)

    def __xor__(self, other: Any) -> Any:
        return self._binary("bitwise_xor", self, other)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __lshift__(self, other: Any) -> Any:
        return self._binary("bitwise_left_shift", self, other)

    def __rlshift__(self, other: Any) -> Any:
        return self._binary("bitwise_left_shift", self._like(other), self)

    def __rshift__(self, other: Any) -> Any:
        return self._binary("bitwise_right_shift", self, other)

    def __rrshift__(self, other: Any) -> Any:
        return self._binary("bitwise_right_shift", self._like(other), self)

    def __eq__(self, other: object) -> Any:
        return self._binary("eq", self, other)

    def __ne__(self, other: object) -> Any:
        return self._binary("ne", self, other)

    def __lt__(self, other: Any) -> Any:
        return self._binary("lt", self, other)

    def __le__(self, other: Any) -> Any:
        return self._binary("le", self, other)

    def __gt__(self, other: Any) -> Any:
        return self._binary("gt", self, other)

    def __ge__(self, other: Any) -> Any:
        return self._binary("ge", self, other)

    def __hash__(self) -> int:
        return id(self)

    def __iadd__(self, other: Any) -> Any:
        return self._binary("add_", self, other)

    def __isub__(self, other: Any) -> Any:
        return self._binary("sub_", self, other)

    def __imul__(self, other: Any) -> Any:
        return self._binary("mul_", self, other)

    def __itruediv__(self, other: Any) -> Any:
        return self._binary("div_", self, other)

    def __ifloordiv__(self, other: Any) -> Any:
        return self._binary("floor_divide_", self, other)

    def __imod__(self, other: Any) -> Any:
        return self._binary("remainder_", self, other)

    def __ipow__(self, other: Any) -> Any:
        return self._binary("pow_", self, other)

    def __iand__(self, other: Any) -> Any:
        return self._binary("bitwise_and_", self, other)

    def __ior__(self, other: Any) -> Any:
        return self._binary("bitwise_or_", self, other)

    def __ixor__(self, other: Any) -> Any:
        return self._binary("bitwise_xor_", self, other)

    def __ilshift__(self, other: Any) -> Any:
        return self._binary("bitwise_left_shift_", self, other)

    def __irshift__(self, other: Any) -> Any:
        return self._binary("bitwise_right_shift_", self, other)
