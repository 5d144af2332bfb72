"""Copies with the elements in other places: reversal, rotation, repetition, triangles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from assay.core import dtypes as dt
from assay.core.errors import UserError
from assay.core.index import is_symbolic
from assay.core.lang import E, Ix, T, const, index, load, op
from assay.core.lang import select as choose
from assay.core.operators.build import dim, dims, elements
from assay.core.operators.registry import operator
from assay.core.operators.samples import ALL, like, listed, unary
from assay.core.operators.views import diagonal, reindexed


def _flipped(self: T, axes: Sequence[int]) -> T:
    return elements(self.shape, lambda *i: load(self, *(self.shape[k] - 1 - x if k in axes else x for k, x in enumerate(i))),
                    self.dtype)


@operator("flip(Tensor self, int[] dims) -> Tensor",
          samples=listed((like(5), (0,)), (like(3, 4), (0, -1)), (like(3, 4), ()), (like(0, 3), (0,)),
                         (like(1, 3, dtype=dt.i64), (1,))))  # fmt: skip
def flip(self: T, axes: Sequence[int]) -> T:
    """The axes `dims` in reverse order."""
    return _flipped(self, dims(axes, len(self.shape)) if axes else ())


@operator("fliplr(Tensor self) -> Tensor", samples=listed((like(3, 4),), (like(0, 3),)))
def fliplr(self: T) -> T:
    """Axis 1 in reverse order."""
    if len(self.shape) < 2:
        raise UserError(f"needs at least 2 axes, not shape {list(self.shape)}")
    return _flipped(self, (1,))


@operator("flipud(Tensor self) -> Tensor", samples=listed((like(3, 4),), (like(3),)))
def flipud(self: T) -> T:
    """Axis 0 in reverse order."""
    if not self.shape:
        raise UserError("a 0-d tensor has no axis")
    return _flipped(self, (0,))


@operator("roll(Tensor self, int[1] shifts, int[1] dims=[]) -> Tensor",
          samples=listed((like(5), (2,), (0,)), (like(3, 4), (-1, 5), (0, 1)), (like(3, 4), (3,), ()), (like(0, 3), (1,), (0,)),
                         (like(2, 3, dtype=dt.bool_), (1,), (-1,))))  # fmt: skip
def roll(self: T, shifts: Sequence[int], axes: Sequence[int]) -> T:
    """y[i] = self[(i - shift) mod n] along each of `dims`; without dims, of the flattened tensor."""
    if not axes:
        if len(shifts) != 1:
            raise UserError(f"shifts {list(shifts)} without dims; allowed: one shift")
        flat = reindexed(self, (self.size,))
        return reindexed(roll(flat, shifts, (0,)), self.shape)
    if len(shifts) != len(axes):
        raise UserError(f"{len(shifts)} shifts for {len(axes)} dims")
    amount = [0] * len(self.shape)
    for s, d in zip(shifts, axes, strict=True):
        amount[dim(d, len(self.shape))] += s

    def at(k: int, x: Ix) -> Ix:
        n = self.shape[k]
        if is_symbolic(n):
            return (x - amount[k]) % n
        shift = amount[k] % max(n, 1)
        return (x + (n - shift)) % n if shift else x

    return elements(self.shape, lambda *i: load(self, *(at(k, x) for k, x in enumerate(i))), self.dtype)


@operator("rot90(Tensor self, int k=1, int[] dims=[0,1]) -> Tensor",
          samples=listed(*((like(3, 4), k, (0, 1)) for k in range(-1, 5)), (like(2, 3, 4), 1, (1, 2))))  # fmt: skip
def rot90(self: T, k: int, axes: Sequence[int]) -> T:
    """k quarter turns from axis dims[0] towards axis dims[1]."""
    if len(axes) != 2:
        raise UserError(f"dims {list(axes)}; allowed: two axes")
    a, b = (dim(d, len(self.shape)) for d in axes)
    if a == b or len(self.shape) < 2:
        raise UserError(f"dims {list(axes)} of shape {list(self.shape)}; allowed: two different axes")
    turns = k % 4
    shape = list(self.shape)
    if turns % 2:
        shape[a], shape[b] = shape[b], shape[a]

    def body(*i: Ix) -> E:
        j: list[Any] = list(i)
        x, y, n, m = i[a], i[b], self.shape[a], self.shape[b]
        j[a], j[b] = ((x, y), (y, m - 1 - x), (n - 1 - x, m - 1 - y), (n - 1 - y, x))[turns]
        return load(self, *j)

    return elements(shape, body, self.dtype)


# ------------------------------------------------------------------------------------------------ repetition


def _repeated(self: T, repeats: Sequence[int]) -> T:
    if len(repeats) < len(self.shape) or min(repeats, default=0) < 0:
        raise UserError(f"repeats {list(repeats)} for shape {list(self.shape)}; allowed: one number >= 0 for each axis, or more")
    own = (1,) * (len(repeats) - len(self.shape)) + self.shape
    new = len(repeats) - len(self.shape)
    return elements([r * n for r, n in zip(repeats, own, strict=True)],
                    lambda *i: load(self, *(x % n for x, n in zip(i[new:], self.shape, strict=True))), self.dtype)  # fmt: skip


@operator("repeat(Tensor self, int[] repeats) -> Tensor",
          samples=listed((like(3), (2,)), (like(2, 3), (2, 1)), (like(3), (2, 2)), (like(), (3,)), (like(2), (0,)),
                         (like(0, 2), (2, 2))))  # fmt: skip
def repeat(self: T, repeats: Sequence[int]) -> T:
    """self repeated repeats[k] times along axis k; new axes at the front."""
    return _repeated(self, repeats)


@operator("tile(Tensor self, int[] dims) -> Tensor",
          samples=listed((like(3), (2,)), (like(2, 3), (2,)), (like(2), (3, 1)), (like(), ())))  # fmt: skip
def tile(self: T, reps: Sequence[int]) -> T:
    """self repeated dims[k] times along axis k, the numbers aligned at the right."""
    return _repeated(self, (1,) * max(len(self.shape) - len(reps), 0) + tuple(reps))


@operator("repeat_interleave.self_int(Tensor self, int repeats, int? dim=None) -> Tensor",
          samples=listed((like(3), 2, 0), (like(2, 3), 2, None), (like(2, 3), 3, -1), (like(2), 0, 0),
                         (like(0, 2), 2, 1)))  # fmt: skip
def repeat_interleave(self: T, repeats: int, d: int | None) -> T:
    """Each element of axis `dim` (None: of the flattened tensor) `repeats` times in a row."""
    if repeats < 0:
        raise UserError(f"repeats {repeats}; allowed: >= 0")
    x = self if d is not None and self.shape else reindexed(self, (self.size,))
    k = dim(d, len(x.shape)) if d is not None else 0
    shape = (*x.shape[:k], x.shape[k] * repeats, *x.shape[k + 1 :])
    return elements(shape, lambda *i: load(x, *i[:k], i[k] // repeats, *i[k + 1 :]), x.dtype)


# ------------------------------------------------------------------------------------------------ triangles


def _triangle(self: T, diagonal: int, *, lower: bool) -> T:
    if len(self.shape) < 2:
        raise UserError(f"needs at least 2 axes, not shape {list(self.shape)}")

    def body(*i: Ix) -> E:
        below = op("le", index(i[-1]), index(i[-2] + diagonal)) if lower else op("le", index(i[-2] + diagonal), index(i[-1]))
        return choose(below, load(self, *i), const(0, self.dtype))

    return elements(self.shape, body, self.dtype)


TRIANGLES = unary(ALL, (0,), (1,), (-2,), (9,), shapes=((3, 4), (4, 3), (2, 3, 3), (0, 3), (1, 1)))


@operator("tril(Tensor self, int diagonal=0) -> Tensor", inplace=True, samples=TRIANGLES)
def tril(self: T, diagonal: int) -> T:
    """self where j <= i + diagonal, else 0: a choice, so NaN above the diagonal vanishes."""
    return _triangle(self, diagonal, lower=True)


@operator("triu(Tensor self, int diagonal=0) -> Tensor", inplace=True, samples=TRIANGLES)
def triu(self: T, diagonal: int) -> T:
    """self where j >= i + diagonal, else 0: a choice, so NaN below the diagonal vanishes."""
    return _triangle(self, diagonal, lower=False)


# ------------------------------------------------------------------------------------------------ diagonals


@operator("diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor",
          samples=unary(ALL, (0, -2, -1), (1, -2, -1), (-2, 0, 1), shapes=((3,), (2, 3), (0,), (1,))))  # fmt: skip
def diag_embed(self: T, offset: int, dim1: int, dim2: int) -> T:
    """self[.., k] at (k, k + offset) of two new axes dim1, dim2 (offset < 0: at (k - offset, k)), else 0."""
    if not self.shape:
        raise UserError("a 0-d tensor has no axis")
    rank = len(self.shape) + 1
    a, b = dim(dim1, rank), dim(dim2, rank)
    if a == b:
        raise UserError(f"dim1 {dim1} and dim2 {dim2} are the same axis")
    n, down, right = self.shape[-1] + abs(offset), max(-offset, 0), max(offset, 0)
    rest = iter(self.shape[:-1])
    shape = [n if k in (a, b) else next(rest) for k in range(rank)]

    def body(*i: Ix) -> E:
        k = i[a] - down
        inside = op("eq", index(k), index(i[b] - right)) & op("le", 0, index(k)) & op("lt", index(k), self.shape[-1])
        return choose(inside, load(self, *(x for j, x in enumerate(i) if j not in (a, b)), k), const(0, self.dtype))

    return elements(shape, body, self.dtype)


@operator("diag(Tensor self, int diagonal=0) -> Tensor", samples=unary(ALL, (0,), (1,), (-2,),
                                                                       shapes=((3,), (3, 4), (0,), (4, 3))))
def diag(self: T, offset: int) -> T:
    """The matrix with this diagonal, or the diagonal of a matrix."""
    if len(self.shape) not in (1, 2):
        raise UserError(f"needs a vector or a matrix, not shape {list(self.shape)}")
    return diag_embed(self, offset, 0, 1) if len(self.shape) == 1 else diagonal(self, offset, 0, 1)
