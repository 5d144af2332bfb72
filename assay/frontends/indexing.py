"""x[index] and x[index] = new, in operators.

    integers, slices, None, ...      views: select.int, slice.Tensor, unsqueeze
    integer tensors, lists, arrays   index.Tensor and index_put_ on the view that the rest of the index makes
    a boolean mask                   x[mask] has a shape that depends on data: refused; x[mask] = number is masked_fill_

As in PyTorch, integers select before tensors index.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from assay.core.dtypes import bool_
from assay.core.errors import OutOfBounds, Unsupported, UserError
from assay.core.index import is_symbolic
from assay.core.operators.views import slice_ends
from assay.frontends import dispatch, source
from assay.frontends.creation import from_numpy, tensor
from assay.frontends.tensor import Tensor


def getitem(x: Tensor, index: Any) -> Tensor:
    """x[index]"""
    view, indices = _basic(x, index)
    if not indices:
        return view
    masks = [i for i in indices if i is not None and i.dtype is bool_]
    if masks:
        raise Unsupported(
            f"{source.quoted()}  x[mask] with a bool{list(masks[0].shape)} mask: its size depends on the data. Use "
            "assay.where(mask, x, other) to choose, x.masked_fill(mask, value) to replace, "
            "(x * mask).sum() to reduce, or numpy: x.numpy()[mask.numpy()]."
        )
    return dispatch.call("index.Tensor", (view, tuple(indices)), {})


def setitem(x: Tensor, index: Any, new: Any) -> None:
    """x[index] = new"""
    view, indices = _basic(x, index)
    if isinstance(new, np.ndarray | list | tuple):
        new = tensor(new, dtype=None if isinstance(new, np.ndarray) else x.dtype)
    if indices:
        _put(view, indices, new)
    elif not isinstance(new, Tensor):
        dispatch.call("fill_", (view, new), {})
    elif new.cell is not view.cell or [k.key for k in new.chain] != [k.key for k in view.chain]:  # x[i] += y stores x[i] itself
        dispatch.call("copy_", (view, _without_leading_ones(new, view.ndim)), {})


def _without_leading_ones(x: Tensor, rank: int) -> Tensor:
    while x.ndim > rank and x.shape[0] == 1:
        x = x[0]
    return x


def _put(view: Tensor, indices: list[Tensor | None], new: Any) -> None:
    masks = [i for i in indices if i is not None and i.dtype is bool_]
    if not masks:
        if not isinstance(new, Tensor):
            new = dispatch.call("full", ((), new), {"dtype": view.dtype})
        dispatch.call("index_put_", (view, tuple(indices), new.to(view.dtype)), {})
        return
    (mask, *others) = masks
    single = not isinstance(new, Tensor) or new.numel() == 1
    if others or len(indices) > 1 or not single:
        raise Unsupported(
            f"{source.quoted()}  x[mask] = values: how many values are used depends on the data. "
            "Use x = assay.where(mask, values, x) with values of the shape of x, or x.masked_scatter_(mask, values)."
        )
    if mask.shape != view.shape[: mask.ndim]:
        raise UserError(
            f"{source.quoted()}  a mask of shape {list(mask.shape)} does not fit a tensor of shape {list(view.shape)}"
        )
    mask = mask.view(mask.shape + (1,) * (view.ndim - mask.ndim))
    dispatch.call("masked_fill_", (view, mask, new.reshape(()) if isinstance(new, Tensor) else new), {})


def _basic(x: Tensor, index: Any) -> tuple[Tensor, list[Tensor | None]]:
    """The view that integers, slices and None make of x, and the tensors that index what is left, None where an axis is whole.

    Raises UserError or OutOfBounds at the user's line for an index that does not fit.
    """
    items = index if isinstance(index, tuple) else (index,)
    used = sum(_axes_of(i) for i in items)
    if used > x.ndim:
        raise OutOfBounds(f"{source.quoted()}  {used} indices for a tensor of shape {list(x.shape)}")
    if sum(i is Ellipsis for i in items) > 1:
        raise UserError(f"{source.quoted()}  an index has at most one '...'")
    view, axis = x, 0
    indices: list[Tensor | None] = []
    for i in items:
        if i is Ellipsis:
            axis += x.ndim - used
            indices += [None] * (x.ndim - used)
        elif i is None:
            view = view.unsqueeze(axis)
            axis += 1
            indices.append(None)
        elif isinstance(i, slice):
            view = _sliced(view, axis, i)
            axis += 1
            indices.append(None)
        elif isinstance(i, bool | np.bool_):
            raise Unsupported(f"{source.quoted()}  an index {i!r}; a mask is a bool tensor, a position an integer")
        elif isinstance(i, Tensor | np.ndarray | list):
            at = _index_tensor(i)
            axis += at.ndim if at.dtype is bool_ else 1
            indices.append(at)
        elif hasattr(i, "__index__"):
            n, k = view.shape[axis], i.__index__()
            if not -n <= k < n:
                raise OutOfBounds(
                    f"{source.quoted()}  index {k} is out of bounds for axis {axis} of size {n}; allowed: {-n}..{n - 1}"
                )
            view = dispatch.call("select.int", (view, axis, k), {})
        else:
            raise UserError(
                f"{source.quoted()}  an index must be an integer, a slice, None, ..., or a tensor, not {type(i).__name__}"
            )
    while indices and indices[-1] is None:
        indices.pop()
    return view, indices


def _axes_of(i: Any) -> int:
    """How many axes of the tensor the index item stands for."""
    if i is None or i is Ellipsis:
        return 0
    if isinstance(i, Tensor | np.ndarray) and i.dtype in (bool_, np.dtype(bool)):
        return i.ndim
    return 1


def _sliced(view: Tensor, axis: int, s: slice) -> Tensor:
    for part in (s.start, s.stop, s.step):
        if part is not None and not hasattr(part, "__index__"):
            raise UserError(f"{source.quoted()}  a slice needs integers, not {type(part).__name__}")
    if s.start is None and s.stop is None and s.step in (None, 1):
        return view
    start, stop, step = _ends(s, view.shape[axis])
    if step < 0:
        raise Unsupported(f"{source.quoted()}  a slice with step {step}; use x.flip({axis}) and a positive step")
    if not any(map(is_symbolic, (start, stop, view.shape[axis]))) and (start, stop, step) == (0, view.shape[axis], 1):
        return view
    return dispatch.call("slice.Tensor", (view, axis, start, max(start, stop), step), {})


def _ends(s: slice, n: int) -> tuple[int, int, int]:
    """The first position, the end and the step of a slice of an axis of n elements."""
    if not any(map(is_symbolic, (n, s.start, s.stop, s.step))) or (s.step is not None and s.step < 0):
        return s.indices(n)
    return *slice_ends(n, s.start, s.stop), 1 if s.step is None else s.step


def _index_tensor(i: Any) -> Tensor:
    at = i if isinstance(i, Tensor) else from_numpy(i) if isinstance(i, np.ndarray) else tensor(i)
    if at.numel() == 0 and isinstance(i, list):
        at = at.long()
    if at.dtype.is_float:
        raise UserError(f"{source.quoted()}  an index tensor must hold integers or booleans, not {at.dtype.name}")
    return at
