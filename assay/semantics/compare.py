"""Equality of results: equal bits, all NaNs identified, +0 and -0 distinguished."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]


def _same(a: Array, b: Array) -> npt.NDArray[np.bool_]:
    """Elementwise, for arrays of one shape and dtype."""
    if a.dtype.kind in "biu":
        return np.equal(a, b)
    unsigned = f"u{a.dtype.itemsize}"
    return (a.view(unsigned) == b.view(unsigned)) | (np.isnan(a) & np.isnan(b))


def bits_equal(a: Array, b: Array) -> bool:
    """Whether a and b have one shape, one dtype and the same bits (NaNs identified)."""
    return a.shape == b.shape and a.dtype == b.dtype and bool(_same(a, b).all())


def first_difference(a: Array, b: Array) -> tuple[tuple[int, ...], Any, Any] | None:
    """(index, a[index], b[index]) of the first difference in lexicographic order, or None.

    Raises ValueError for different shapes or dtypes: then no element can be named.
    """
    if a.shape != b.shape or a.dtype != b.dtype:
        raise ValueError(f"{a.dtype}{list(a.shape)} against {b.dtype}{list(b.shape)}: only arrays of one shape and dtype compare")
    differs = ~_same(a, b)
    if not differs.any():
        return None
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(differs)), a.shape))
    return index, a[index], b[index]


def evidence(a: Array, b: Array) -> int:
    """How many elements say something when a and b are equal: those that are not NaN on both sides.

    Equality of two empty or all-NaN results is true, and no evidence.
    """
    if a.dtype.kind in "biu" or a.shape != b.shape or a.dtype != b.dtype:
        return a.size
    return int(np.count_nonzero(~(np.isnan(a) & np.isnan(b))))
