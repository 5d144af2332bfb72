"""Contractions: left folds of fma from +0, k ascending (integers: multiply and add, wrapping)."""

from __future__ import annotations

from assay.core.errors import UserError
from assay.core.lang import T, load
from assay.core.operators.build import contraction, elements, same_type
from assay.core.operators.registry import operator
from assay.core.operators.samples import NUMBERS, like, listed

SIZES = ((1, 1, 1), (0, 3, 2), (2, 0, 3), (1, 17, 1), (9, 8, 17))


@operator("mm(Tensor self, Tensor mat2) -> Tensor",
          samples=listed(*((like(3, 4, dtype=d), like(4, 5, dtype=d)) for d in NUMBERS),
                         *((like(n, k), like(k, m)) for n, k, m in SIZES)))  # fmt: skip
def mm(self: T, mat2: T) -> T:
    """y[i,j] = fold(k) fma(self[i,k], mat2[k,j])."""
    dtype = same_type(self, mat2)
    if len(self.shape) != 2 or len(mat2.shape) != 2 or self.shape[1] != mat2.shape[0]:
        raise UserError(f"shapes {list(self.shape)} and {list(mat2.shape)} do not multiply; allowed: [n, k] and [k, m]")
    (n, k), m = self.shape, mat2.shape[1]
    return elements((n, m), lambda i, j: contraction(k, dtype, lambda r: load(self, i, r), lambda r: load(mat2, r, j)), dtype)
