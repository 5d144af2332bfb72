"""Reductions: left folds over the reduced axes in ascending lexicographic order."""

from __future__ import annotations

from collections.abc import Sequence

from assay.core import dtypes as dt
from assay.core.dtypes import DType, compute_dtype
from assay.core.lang import T, const
from assay.core.operators.build import dims, reduction
from assay.core.operators.registry import operator
from assay.core.operators.samples import ALL, unary

DIMS = (((0,), False, None), ((-1,), True, None), ((0, 1), False, None), ((), False, None))


def _sum_type(x: T, dtype: DType | None) -> DType:
    """The type of a sum or product: integers and bool give i64."""
    return dtype or (x.dtype if x.dtype.is_float else dt.i64)


@operator("sum(Tensor self, *, ScalarType? dtype=None) -> Tensor", samples=unary(ALL, (None,), (dt.f64,)))
def sum_default(self: T, dtype: DType | None) -> T:
    """The sum of all elements, from +0."""
    return sum_dim(self, None, keepdim=False, dtype=dtype)


@operator("sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
          samples=unary(ALL, *DIMS, shapes=((3, 4), (0, 3), (1, 17), (5,), ())))  # fmt: skip
def sum_dim(self: T, dim: Sequence[int] | None, keepdim: bool, dtype: DType | None) -> T:
    """The sum over `dim` (None or empty: all axes), a left fold from +0; of integers and bools i64."""
    result = _sum_type(self, dtype)
    how = compute_dtype(result)
    return reduction(self, dims(dim, len(self.shape)), [const(0, how)], lambda a, x, _: (a[0] + x,), lambda s: s, result,
                     keepdim=keepdim, compute=how)  # fmt: skip
