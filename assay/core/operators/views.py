"""Views: index maps of one tensor.  Their inverses say what the parent becomes when the view is written to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from assay.core.errors import UserError
from assay.core.index import affine
from assay.core.lang import Ix, T, ix, load
from assay.core.operators.build import at, broadcast, dim, elements, size_at
from assay.core.operators.registry import Apply, operator
from assay.core.operators.samples import ALL, like, listed, unary


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides in elements."""
    return tuple(math.prod(shape[k + 1 :]) for k in range(len(shape)))


def sizes_of(size: Sequence[int], numel: int) -> tuple[int, ...]:
    """`size` with a single -1 filled in.  Raises UserError where it does not hold `numel` elements."""
    known = math.prod(n for n in size if n != -1)
    unknown = list(size).count(-1)
    filled = tuple(numel // known if n == -1 and known else n for n in size)
    if unknown > 1 or min(filled, default=0) < 0 or math.prod(filled) != numel:
        raise UserError(f"shape {list(size)} does not hold {numel} elements; one size may be -1")
    return filled


def reindexed(x: T, shape: Sequence[int]) -> T:
    """The elements of x in row-major order as `shape` (same number of elements)."""

    def body(*i: Ix) -> Any:
        flat = affine(zip(contiguous_strides(shape), i, strict=True)) if i else ix(0)
        return load(x, *(flat // s % n for s, n in zip(contiguous_strides(x.shape), x.shape, strict=True)))

    return elements(shape, body, x.dtype)


def narrowed(x: T, d: int, start: int, length: int, step: int = 1) -> T:
    """`length` elements of axis `d`: start, start + step, ..."""
    shape = (*x.shape[:d], length, *x.shape[d + 1 :])
    return elements(shape, lambda *i: load(x, *i[:d], i[d] * step + start, *i[d + 1 :]), x.dtype)


@operator("view(Tensor(a) self, int[] size) -> Tensor(a)", view=True,
          inverse=lambda apply, parent, new, size: apply("view.default", new, parent.shape),
          samples=listed((like(3, 4), (12,)), (like(3, 4), (2, -1)), (like(), (1, 1)), (like(1), ()), (like(0, 3), (3, 0)),
                         (like(2, 3, 4), (4, 6)), (like(6, 35), (10, 21)), (like(1, 5, 1), (5,))))  # fmt: skip
def view(self: T, size: Sequence[int]) -> T:
    """The elements in row-major order as `size`; one size may be -1."""
    return reindexed(self, sizes_of(size, self.size))


@operator("t(Tensor(a) self) -> Tensor(a)", view=True, inverse=lambda apply, parent, new: apply("t.default", new),
          samples=unary(ALL, shapes=((), (5,), (3, 4), (1, 3), (0, 3))))  # fmt: skip
def t(self: T) -> T:
    """y[i,j] = self[j,i]; a vector or 0-d tensor stays."""
    if len(self.shape) > 2:
        raise UserError(f"needs at most 2 axes, not shape {list(self.shape)}; use transpose or permute")
    return elements(self.shape[::-1], lambda *i: load(self, *i[::-1]), self.dtype)


def _no_write(what: str) -> Any:
    def inverse(apply: Apply, parent: Any, new: Any, *rest: Any) -> Any:
        raise UserError(f"{what} cannot be written to: several of its elements are one element of {parent!r}; clone it first")

    return inverse


@operator("expand(Tensor(a) self, int[] size, *, bool implicit=False) -> Tensor(a)", view=True,
          inverse=_no_write("an expanded tensor"),
          samples=listed((like(), (2, 3), False), (like(3, 1), (3, 4), False), (like(3, 1), (2, -1, 4), False),
                         (like(0, 1), (0, 2), False), (like(1), (0,), False), (like(), (), False)))  # fmt: skip
def expand(self: T, size: Sequence[int], implicit: bool) -> T:
    """self repeated along axes of size 1 and along new axes at the front; -1 keeps a size."""
    own = (None,) * (len(size) - len(self.shape)) + self.shape
    if len(size) < len(self.shape) or any(n == -1 and o is None for n, o in zip(size, own, strict=False)):
        raise UserError(f"shape {list(self.shape)} does not expand to {list(size)}")
    shape = tuple(o if n == -1 and o is not None else n for n, o in zip(size, own, strict=True))
    if broadcast(self.shape, shape) != shape:
        raise UserError(f"shape {list(self.shape)} does not expand to {list(size)}; only axes of size 1 repeat")
    return elements(shape, lambda *i: at(self, i), self.dtype)


def halves(x: T, d: int) -> tuple[T, T]:
    """The first and the second half of axis `d`.  Raises UserError where its size is odd."""
    d = dim(d, len(x.shape))
    n = size_at(x, d)
    if n % 2 or not x.shape:
        raise UserError(f"axis {d} of shape {list(x.shape)} must have an even size")
    return narrowed(x, d, 0, n // 2), narrowed(x, d, n // 2, n // 2)
