"""How a tensor prints: as torch.Tensor does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from assay.core.dtypes import bool_, f32, i64

if TYPE_CHECKING:
    from assay.frontends.tensor import Tensor

THRESHOLD, EDGE, DIGITS, WIDTH = 1000, 3, 4, 80


def show_tensor(x: Tensor) -> str:
    """tensor([[1., -2.]]); the type where it is not a default one.  During a capture: the type and shape."""
    array = x.value.array
    if array is None:
        return f"tensor({x.dtype.name}{list(x.shape)}, captured)"
    suffix = "" if x.dtype in (f32, i64, bool_) else f", dtype=assay.{x.dtype.torch}"
    if x.requires_grad:
        suffix += ", requires_grad=True" if x.is_leaf else f", grad_fn={x.grad_fn!r}"
    if array.size == 0 and array.ndim != 1:
        return f"tensor([], size={array.shape}{suffix})"
    return f"tensor({_body(array)}{suffix})"


def _body(array: np.ndarray) -> str:
    if array.dtype.kind in "biu":
        one = str if array.dtype.kind == "b" else repr
        texts = [one(v) for v in _shown(array).tolist()]
        width = max(map(len, texts), default=0)
        formatter = lambda v: one(v.item()).rjust(width)  # noqa: E731
    else:
        array = array.astype(np.float64)
        formatter = _float_format(_shown(array))
    return np.array2string(
        array, separator=", ", prefix="tensor(", threshold=THRESHOLD, edgeitems=EDGE, max_line_width=WIDTH,
        formatter={"all": formatter},
    )  # fmt: skip


def _shown(array: np.ndarray) -> np.ndarray:
    """The elements that will be printed."""
    if array.size > THRESHOLD:
        for axis, n in enumerate(array.shape):
            if n > 2 * EDGE:
                array = np.concatenate([array.take(range(EDGE), axis), array.take(range(n - EDGE, n), axis)], axis)
    return array.reshape(-1)


def _float_format(shown: np.ndarray):
    """One format for all elements: integers as `1.`, else 4 decimals, or an exponent where the magnitudes need one."""
    finite = np.abs(shown[np.isfinite(shown) & (shown != 0)])
    if finite.size == 0 or ((finite == np.floor(finite)).all() and finite.max() < 1e8 and finite.max() / finite.min() < 1e8):
        one = lambda v: f"{v:.0f}." if np.isfinite(v) else f"{v:.0f}"  # noqa: E731
    elif finite.max() / finite.min() > 1000 or finite.max() > 1e8 or finite.min() < 1e-4:
        one = lambda v: f"{v:.{DIGITS}e}"  # noqa: E731
    else:
        one = lambda v: f"{v:.{DIGITS}f}"  # noqa: E731
    width = max((len(one(v)) for v in shown), default=0)
    return lambda v: one(v).rjust(width)
