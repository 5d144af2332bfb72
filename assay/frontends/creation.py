"""Tensors from data, and the generator of random numbers.

assay.tensor(data)        copies                     assay.from_numpy(array)    shares the memory
assay.from_dlpack(x)      shares the memory          assay.manual_seed(seed)    restarts the default generator
"""

from __future__ import annotations

from typing import Any

import numpy as np

from assay.core.dtypes import DType, f32, i64
from assay.core.errors import UserError
from assay.core.index import Ix
from assay.frontends import source
from assay.frontends.cell import Cell
from assay.frontends.dispatch import dtype_of
from assay.frontends.tensor import Tensor
from assay.frontends.value import STATE


def tensor(data: Any, dtype: Any = None, requires_grad: bool = False) -> Tensor:  # noqa: FBT001, FBT002
    """A new tensor with a copy of `data`: a number, nested lists, an array or a tensor.

    Without `dtype`: that of an array, else bool, i64, or f32 for floats (PyTorch's defaults).
    """
    if isinstance(data, Tensor):
        given = data.detach()
        copied = given.to(dtype_of(dtype), copy=True) if dtype is not None else given.clone()
        return copied.requires_grad_(requires_grad)
    array = _array(data)
    wanted = dtype_of(dtype) if dtype is not None else _inferred(data, array)
    return Tensor(Cell(_converted(array, wanted), owner=STATE.trace)).requires_grad_(requires_grad)


def as_tensor(data: Any, dtype: Any = None) -> Tensor:
    """`data` as a tensor, sharing memory where it is a tensor or an array of that type."""
    if isinstance(data, Tensor):
        return data if dtype is None else data.to(dtype)
    if isinstance(data, np.ndarray) and (dtype is None or dtype_of(dtype).numpy == data.dtype):
        return from_numpy(data)
    return tensor(data, dtype)


def _array(data: Any) -> np.ndarray:
    data = _without_tensors(data)
    try:
        array = np.asarray(data)
    except ValueError as error:
        raise source.located(UserError(f"tensor(): the nested lists do not form a tensor: {error}")) from None
    return array if array.dtype != np.bool_ else array.view(np.uint8) != 0  # a copy: whatever is not 0 is true


def _without_tensors(data: Any) -> Any:
    if isinstance(data, list | tuple):
        return [_without_tensors(x) for x in data]
    if isinstance(data, Ix):
        return int(data)  # data of a tensor is fixed, so a size in it is: a guard
    return data.item() if isinstance(data, Tensor) else _unmasked(data, "tensor")


def _unmasked(data: Any, caller: str) -> Any:
    """`data`.  Raises UserError for a masked array, some of whose elements have no value."""
    if isinstance(data, np.ndarray) and type(data) is not np.ndarray and isinstance(data, np.ma.MaskedArray):
        raise source.located(
            UserError(
                f"{caller}(): a masked array, {np.ma.count_masked(data)} of whose {data.size} elements have no value; fill them "
                f"first, as in {caller}(x.filled(0)), and keep the mask in a tensor of its own: {caller}(np.ma.getmaskarray(x))"
            )
        )
    return data


def check_bools(array: np.ndarray) -> None:
    """Raises UserError where a byte of a bool array is neither 0 nor 1: numpy, C++ and arithmetic would disagree about it."""
    octets = array.view(np.uint8)
    if octets.size and octets.max() > 1:
        at = tuple(map(int, np.unravel_index(int(np.argmax(octets > 1)), octets.shape)))
        raise source.located(
            UserError(
                f"element {list(at)} of a bool array {list(array.shape)} is the byte {octets[at]}; allowed: 0 and 1.  "
                "Make such bytes truth values with  x.view(np.uint8) != 0"
            )
        )


def _inferred(data: Any, array: np.ndarray) -> DType:
    if isinstance(data, np.ndarray | np.generic):
        return dtype_of(array.dtype)
    if array.dtype.kind == "f" or array.size == 0:
        return f32
    return i64 if array.dtype.kind in "iu" else dtype_of(array.dtype)


def _converted(array: np.ndarray, wanted: DType) -> np.ndarray:
    """A row-major copy in the wanted type: an integer that does not fit is an error, a float rounds once."""
    if wanted.is_integer and array.dtype.kind in "iu" and array.size:
        lo, hi = int(array.min()), int(array.max())
        if lo < wanted.lo or hi > wanted.hi:
            raise source.located(
                UserError(f"tensor(): {lo if lo < wanted.lo else hi} does not fit {wanted.name} [{wanted.lo}, {wanted.hi}]")
            )
    with np.errstate(over="ignore", invalid="ignore"):
        return np.array(array, dtype=wanted.numpy, order="C", copy=True)


def from_numpy(array: np.ndarray) -> Tensor:
    """The tensor that shares the memory of `array`, any strides; it is written in place only where the array may be.

    Raises UserError for an element type that tensors do not have, foreign byte order, a masked array, or bytes of a bool
    array that are neither 0 nor 1.
    """
    if not isinstance(array, np.ndarray):
        raise source.located(
            UserError(f"from_numpy() needs a numpy array, not {type(array).__name__}; use assay.tensor({array!r:.40})")
        )
    dtype_of(_unmasked(array, "from_numpy").dtype)
    if array.dtype == np.bool_:
        check_bools(array)
    if any(s % array.itemsize for s in array.strides) or not array.dtype.isnative:
        raise source.located(
            UserError(
                f"from_numpy(): strides {array.strides} of {array.dtype} elements do not count whole elements; copy it first"
            )
        )
    return Tensor(Cell(array.view(np.ndarray)))  # an array object of our own: the caller's may be reshaped in place


def from_dlpack(source: Any) -> Tensor:
    """The tensor that shares the memory of anything with __dlpack__."""
    return source if isinstance(source, Tensor) else from_numpy(np.from_dlpack(source))
