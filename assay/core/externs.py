"""Reference functions that are not core programs (sort, topk, ...): the meaning of `extern` tensors.

    fn(*arrays, *params) -> tuple of arrays

Each is deterministic numpy; its outputs depend on its arguments' bits only.  A proof that is asked about one answers UNSUPPORTED.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from assay.core.errors import UserError

Array: TypeAlias = npt.NDArray[Any]
Function: TypeAlias = "Callable[..., tuple[Array, ...]]"

EXTERNS: dict[str, Function] = {}


def register_extern(name: str) -> Callable[[Function], Function]:
    """Declares the decorated function as the meaning of `extern(name, ...)`.  Raises UserError when the name is taken."""

    def declare(function: Function) -> Function:
        if name in EXTERNS:
            raise UserError(f"extern {name!r} is already registered, as {EXTERNS[name].__qualname__}")
        EXTERNS[name] = function
        return function

    return declare


@register_extern("sort")
def sort(x: Array, axis: int, descending: bool) -> tuple[Array, Array]:  # noqa: FBT001  (params are positional values)
    """(sorted values, i64 indices) along `axis`: stable; NaN counts as the largest; -0 equals +0.

    Descending is the stable order of the reversed comparison, so NaN comes first and ties keep their order.
    """
    indices = _stable_order(x, axis, descending=descending)
    return np.take_along_axis(x, indices, axis), indices


@register_extern("topk")
def topk(x: Array, k: int, axis: int, largest: bool) -> tuple[Array, Array]:  # noqa: FBT001  (params are positional values)
    """The first k along `axis` of the stable sort (descending when `largest`): values, i64 indices."""
    indices = _stable_order(x, axis, descending=largest)
    first = np.take(indices, np.arange(k), axis=axis)
    return np.take_along_axis(x, first, axis), first


def _stable_order(x: Array, axis: int, *, descending: bool) -> npt.NDArray[np.int64]:
    rank = _rank(x)
    return np.argsort(~rank if descending else rank, axis=axis, kind="stable").astype(np.int64)


def _rank(x: Array) -> npt.NDArray[np.int64]:
    """Integers in the order of x: -inf < ... < -0 = +0 < ... < inf < NaN (all NaNs equal)."""
    if x.dtype.kind in "biu":
        return x.astype(np.int64)
    bits = x.view(f"i{x.dtype.itemsize}").astype(np.int64)
    magnitude = bits & ((1 << (8 * x.dtype.itemsize - 1)) - 1)
    return np.where(np.isnan(x), np.iinfo(np.int64).max, np.where(bits < 0, -magnitude, magnitude))
