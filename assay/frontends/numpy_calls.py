"""numpy's functions of a tensor.

np.float32(2) * x     an operator of numpy with a tensor on the right is the tensor's own
np.exp(x), np.sum(x)  what numpy computes of arrays only, or leaves to a method of the array with arguments of its own (axis=None,
                      out=None), takes no tensors: the message says which function of Assay does
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from assay.core.errors import UserError
from assay.frontends.arithmetic import Arithmetic

REFLECTED = {
    "add": "__radd__", "subtract": "__rsub__", "multiply": "__rmul__", "divide": "__rtruediv__", "floor_divide": "__rfloordiv__",
    "remainder": "__rmod__", "power": "__rpow__", "equal": "__eq__", "not_equal": "__ne__",
    "less": "__gt__", "less_equal": "__ge__", "greater": "__lt__", "greater_equal": "__le__", "bitwise_and": "__rand__",
    "bitwise_or": "__ror__", "bitwise_xor": "__rxor__", "left_shift": "__rlshift__", "right_shift": "__rrshift__",
}  # fmt: skip
"""numpy's function of an operator -> the tensor's method where the tensor is the right operand."""

_OURS = {
    "around": "round", "max": "amax", "min": "amin", "repeat": "repeat_interleave", "std": "std(x, correction=0)",
    "transpose": "permute", "var": "var(x, correction=0)",
}  # fmt: skip
"""Functions that mean something else here, or nothing, under numpy's name."""


def reflected(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Callable[[Any], Any] | None:
    """The tensor's method that is the operator `ufunc` with an array or a number on the left; None: there is none."""
    name = REFLECTED.get(ufunc.__name__)
    if name is None or method != "__call__" or options or isinstance(inputs[0], Arithmetic):
        return None
    return getattr(inputs[1], name)


def refused(name: str) -> UserError:
    """The error of a function of numpy that takes no tensors: what to write instead."""
    from assay.core.operators.registry import canonical
    from assay.frontends.namespace import names

    ours = _OURS.get(name) or canonical(name)
    call = ours if "(" in ours else f"{ours}(...)"
    here = f"assay.{call}, or " if ours.partition("(")[0] in names() else ""
    return UserError(f"numpy's {name} takes no tensors; use {here}np.{name}(...) of x.numpy()")
