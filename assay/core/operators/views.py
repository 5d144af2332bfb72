"""Views: index maps of one tensor.  Their inverses say what the parent becomes after a write to the view."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from assay.core.dtypes import i64
from assay.core.errors import UserError
from assay.core.index import affine, is_symbolic, ix
from assay.core.lang import Ix, T, load, op, tensor
from assay.core.operators.build import at, broadcast, copy, dim, elements, inserted, size_at
from assay.core.operators.guards import known_index
from assay.core.operators.registry import Apply, operator
from assay.core.operators.samples import ALL, like, listed, unary

# ------------------------------------------------------------------------------------------------ builders


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides in elements."""
    return tuple(math.prod(shape[k + 1 :]) for k in range(len(shape)))


def sizes_of(size: Sequence[int], numel: int) -> tuple[int, ...]:
    """`size` with a single -1 filled in.  Raises UserError where it does not hold `numel` elements."""
    known = math.prod(n for n in size if n != -1)
    unknown = list(size).count(-1)
    filled = tuple(numel // known if n == -1 and known else n for n in size)
    if unknown > 1 or any(n < 0 for n in filled) or math.prod(filled) != numel:
        raise UserError(f"shape {list(size)} does not hold {numel} elements; one size may be -1")
    return filled


def reindexed(x: T, shape: Sequence[int]) -> T:
    """The elements of x in row-major order as `shape` (same number of elements)."""
    shape = tuple(shape)
    if shape == x.shape:
        return copy(x)
    strides = contiguous_strides(x.shape)

    def body(*i: Ix) -> Any:
        flat = affine(zip(contiguous_strides(shape), i, strict=True)) if i else ix(0)
        return load(x, *(flat // s % n for s, n in zip(strides, x.shape, strict=True)))

    return elements(shape, body, x.dtype)


def permuted(x: T, order: Sequence[int]) -> T:
    """Axis k of the result is axis order[k] of x."""
    back = [order.index(k) for k in range(len(order))]
    return elements([x.shape[k] for k in order], lambda *i: load(x, *(i[k] for k in back)), x.dtype)


def narrowed(x: T, d: int, start: int, length: int, step: int = 1) -> T:
    """`length` elements of axis `d`: start, start + step, ..."""
    shape = (*x.shape[:d], length, *x.shape[d + 1 :])
    return elements(shape, lambda *i: load(x, *i[:d], i[d] * step + start, *i[d + 1 :]), x.dtype)


def halves(x: T, d: int) -> tuple[T, T]:
    """The first and the second half of axis `d`.  Raises UserError where its size is odd."""
    d = dim(d, len(x.shape))
    n = size_at(x, d)
    if n % 2 or not x.shape:
        raise UserError(f"axis {d} of shape {list(x.shape)} must have an even size")
    return narrowed(x, d, 0, n // 2), narrowed(x, d, n // 2, n // 2)


def axis_of(x: T, d: int) -> int:
    """The axis `d` of a tensor that has axes."""
    if not x.shape:
        raise UserError("a 0-d tensor has no axis")
    return dim(d, len(x.shape))


def no_write(what: str) -> Any:
    """The inverse of a view in which one element of the parent appears several times."""

    def inverse(apply: Apply, parent: Any, new: Any, *rest: Any, **output: int) -> Any:
        raise UserError(f"{what} cannot be written to: several of its elements are one element of its base; clone it first")

    return inverse


# ------------------------------------------------------------------------------------------------ shape


def _reshaped_back(apply: Apply, parent: Any, new: Any, *rest: Any) -> Any:
    return apply("view.default", new, tuple(parent.shape))


RESHAPES = listed((like(3, 4), (12,)), (like(3, 4), (2, -1)), (like(), (1, 1)), (like(1), ()), (like(0, 3), (3, 0)),
                  (like(2, 3, 4), (4, 6)), (like(6, 35), (10, 21)), (like(1, 5, 1), (5,)), (like(3, 4), (3, 4)))  # fmt: skip


@operator("view(Tensor(a) self, int[] size) -> Tensor(a)", view=True, inverse=_reshaped_back, samples=RESHAPES)
def view(self: T, size: Sequence[int]) -> T:
    """The elements in row-major order as `size`; one size may be -1."""
    return reindexed(self, sizes_of(size, self.size))


@operator("reshape(Tensor(a) self, int[] shape) -> Tensor(a)", view=True, inverse=_reshaped_back, samples=RESHAPES,
          decompose=lambda apply, self, shape: apply("view.default", self, shape))  # fmt: skip
def reshape(self: T, shape: Sequence[int]) -> T:
    """The elements in row-major order as `shape`; one size may be -1.  A view where the layout allows it, else a copy."""
    return reindexed(self, sizes_of(shape, self.size))


@operator("view_as(Tensor(a) self, Tensor other) -> Tensor(a)", view=True, inverse=_reshaped_back,
          samples=listed((like(3, 4), like(12)), (like(2, 6), like(3, 2, 2)), (like(0), like(3, 0))))  # fmt: skip
def view_as(self: T, other: T) -> T:
    """The elements in row-major order in the shape of other."""
    return reindexed(self, sizes_of(other.shape, self.size))


@operator("ravel(Tensor(a) self) -> Tensor(a)", view=True, inverse=_reshaped_back,
          samples=unary(ALL, shapes=((), (5,), (3, 4), (0, 3))))  # fmt: skip
def ravel(self: T) -> T:
    """The elements in row-major order, one axis."""
    return reindexed(self, (self.size,))


@operator("flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)", view=True, inverse=_reshaped_back,
          samples=unary(ALL, (0, -1), shapes=((), (5,), (3, 4), (2, 3, 4), (0, 3))))  # fmt: skip
def flatten(self: T, start_dim: int, end_dim: int) -> T:
    """The axes start_dim..end_dim joined into one."""
    a, b = dim(start_dim, len(self.shape)), dim(end_dim, len(self.shape))
    if a > b:
        raise UserError(f"start_dim {start_dim} comes after end_dim {end_dim}")
    return reindexed(self, (*self.shape[:a], math.prod(self.shape[a : b + 1]), *self.shape[b + 1 :]))


@operator("unflatten.int(Tensor(a) self, int dim, int[] sizes) -> Tensor(a)", view=True, inverse=_reshaped_back,
          samples=listed((like(3, 4), 1, (2, 2)), (like(12), 0, (3, -1)), (like(3, 4), -1, (4, 1)),
                         (like(0, 4), 1, (2, 2))))  # fmt: skip
def unflatten(self: T, d: int, sizes: Sequence[int]) -> T:
    """Axis `dim` split into axes of these sizes; one may be -1."""
    d = axis_of(self, d)
    return reindexed(self, (*self.shape[:d], *sizes_of(sizes, self.shape[d]), *self.shape[d + 1 :]))


def _squeezed(self: T, axes: Sequence[int]) -> T:
    return reindexed(self, [n for k, n in enumerate(self.shape) if k not in axes or n != 1])


@operator("squeeze(Tensor(a) self) -> Tensor(a)", view=True, inverse=_reshaped_back,
          samples=unary(ALL, shapes=((), (1,), (1, 3, 1), (2, 3), (0, 1))))  # fmt: skip
def squeeze(self: T) -> T:
    """Without the axes of size 1."""
    return _squeezed(self, range(len(self.shape)))


@operator("squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)", view=True, inverse=_reshaped_back,
          samples=listed((like(1, 3), 0), (like(1, 3), -1), (like(3, 1), -1), (like(), 0), (like(0, 1), 1)))  # fmt: skip
def squeeze_dim(self: T, d: int) -> T:
    """Without axis `dim`, if its size is 1."""
    return _squeezed(self, [dim(d, len(self.shape))])


@operator("squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)", view=True, inverse=_reshaped_back,
          samples=listed((like(1, 3, 1), (0, 2)), (like(1, 3), (-1, 0)), (like(2), ())))  # fmt: skip
def squeeze_dims(self: T, d: Sequence[int]) -> T:
    """Without those of the axes `dim` whose size is 1."""
    return _squeezed(self, [dim(k, len(self.shape)) for k in d])


@operator("unsqueeze(Tensor(a) self, int dim) -> Tensor(a)", view=True, inverse=_reshaped_back,
          samples=listed((like(), 0), (like(3), 0), (like(3), -1), (like(3, 4), 1), (like(0, 3), 2),
                         (like(2, dtype=i64), -2)))  # fmt: skip
def unsqueeze(self: T, d: int) -> T:
    """With a new axis of size 1 before axis `dim` (negative: counted from the end of the result)."""
    d = dim(d, len(self.shape) + 1)
    return reindexed(self, inserted(self.shape, d, 1))


# ------------------------------------------------------------------------------------------------ order of axes


@operator("permute(Tensor(a) self, int[] dims) -> Tensor(a)", view=True,
          inverse=lambda apply, parent, new, dims: apply("permute.default", new, inverse_order(dims)),
          samples=listed((like(2, 3, 4), (2, 0, 1)), (like(2, 3, 4), (0, -1, 1)), (like(), ()), (like(3), (0,)),
                         (like(0, 3), (1, 0)),
                         (like(2, 3, dtype=i64), (1, 0))))  # fmt: skip
def permute(self: T, dims: Sequence[int]) -> T:
    """Axis k of the result is axis dims[k] of self."""
    order = [dim(d, len(self.shape)) for d in dims] if self.shape else []
    if sorted(order) != list(range(len(self.shape))) or len(dims) != len(self.shape):
        raise UserError(f"dims {list(dims)} must name each of the {len(self.shape)} axes once")
    return permuted(self, order)


def inverse_order(dims: Sequence[int]) -> tuple[int, ...]:
    """The permutation that undoes `dims`."""
    order = [d % len(dims) for d in dims]
    return tuple(order.index(k) for k in range(len(order)))


def _swapped(self: T, dim0: int, dim1: int) -> T:
    a, b = dim(dim0, len(self.shape)), dim(dim1, len(self.shape))
    if not self.shape:
        return copy(self)
    order = list(range(len(self.shape)))
    order[a], order[b] = b, a
    return permuted(self, order)


SWAPS = listed((like(2, 3, 4), 0, 2), (like(2, 3, 4), -1, -2), (like(3), 0, 0), (like(), 0, -1), (like(0, 3), 0, 1))


@operator("transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)", view=True, samples=SWAPS,
          inverse=lambda apply, parent, new, dim0, dim1: apply("transpose.int", new, dim0, dim1))  # fmt: skip
def transpose(self: T, dim0: int, dim1: int) -> T:
    """Axes dim0 and dim1 exchanged."""
    return _swapped(self, dim0, dim1)


@operator("swapaxes(Tensor(a) self, int axis0, int axis1) -> Tensor(a)", view=True, samples=SWAPS,
          inverse=lambda apply, parent, new, axis0, axis1: apply("swapaxes.default", new, axis0, axis1))  # fmt: skip
def swapaxes(self: T, axis0: int, axis1: int) -> T:
    """Axes axis0 and axis1 exchanged."""
    return _swapped(self, axis0, axis1)


@operator("t(Tensor(a) self) -> Tensor(a)", view=True, inverse=lambda apply, parent, new: apply("t.default", new),
          samples=unary(ALL, shapes=((), (5,), (3, 4), (1, 3), (0, 3))))  # fmt: skip
def t(self: T) -> T:
    """y[i,j] = self[j,i]; a vector or 0-d tensor stays."""
    if len(self.shape) > 2:
        raise UserError(f"needs at most 2 axes, not shape {list(self.shape)}; use transpose or permute")
    return permuted(self, range(len(self.shape))[::-1])


@operator("numpy_T(Tensor(a) self) -> Tensor(a)", view=True, inverse=lambda apply, parent, new: apply("numpy_T.default", new),
          samples=unary(ALL, shapes=((), (5,), (2, 3, 4), (0, 3))))  # fmt: skip
def numpy_t(self: T) -> T:
    """The axes in reverse order."""
    return permuted(self, range(len(self.shape))[::-1])


@operator("mT(Tensor(a) self) -> Tensor(a)", view=True, inverse=lambda apply, parent, new: apply("mT.default", new),
          samples=listed((like(3, 4),), (like(2, 3, 4),), (like(0, 3),)))  # fmt: skip
def m_t(self: T) -> T:
    """The last two axes exchanged."""
    if len(self.shape) < 2:
        raise UserError(f"needs at least 2 axes, not shape {list(self.shape)}")
    return _swapped(self, -1, -2)


@operator("movedim.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)", view=True,
          inverse=lambda apply, parent, new, source, destination: apply("movedim.intlist", new, destination, source),
          samples=listed((like(2, 3, 4), (0,), (2,)), (like(2, 3, 4), (0, 1), (-1, -2)), (like(3), (0,), (0,)),
                         (like(2, 0), (0,), (1,))))  # fmt: skip
@operator("movedim.int(Tensor(a) self, int source, int destination) -> Tensor(a)", view=True,
          inverse=lambda apply, parent, new, source, destination: apply("movedim.int", new, destination, source),
          samples=listed((like(2, 3, 4), 0, 2), (like(2, 3, 4), -1, 0), (like(2, 3, 4), 1, 1)))  # fmt: skip
def movedim(self: T, source: int | Sequence[int], destination: int | Sequence[int]) -> T:
    """Axis source[k] becomes axis destination[k]; the others keep their order."""
    rank = len(self.shape)
    origin = [dim(d, rank) for d in ([source] if isinstance(source, int) else source)]
    target = [dim(d, rank) for d in ([destination] if isinstance(destination, int) else destination)]
    if len(set(origin)) != len(origin) or len(set(target)) != len(target) or len(origin) != len(target):
        raise UserError(f"source {source} and destination {destination} must name as many axes, none twice")
    rest = iter(k for k in range(rank) if k not in origin)
    return permuted(self, [origin[target.index(k)] if k in target else next(rest) for k in range(rank)])


# ------------------------------------------------------------------------------------------------ repetition


def _expanded(self: T, size: Sequence[int]) -> T:
    own = (None,) * (len(size) - len(self.shape)) + self.shape
    if len(size) < len(self.shape) or any(n == -1 and o is None for n, o in zip(size, own, strict=False)):
        raise UserError(f"shape {list(self.shape)} does not expand to {list(size)}")
    shape = tuple(o if n == -1 and o is not None else n for n, o in zip(size, own, strict=True))
    if broadcast(self.shape, shape) != shape:
        raise UserError(f"shape {list(self.shape)} does not expand to {list(size)}; only axes of size 1 repeat")
    return elements(shape, lambda *i: at(self, i), self.dtype)


@operator("expand(Tensor(a) self, int[] size, *, bool implicit=False) -> Tensor(a)", view=True,
          inverse=no_write("an expanded tensor"),
          samples=listed((like(), (2, 3), False), (like(3, 1), (3, 4), False), (like(3, 1), (2, -1, 4), False),
                         (like(0, 1), (0, 2), False), (like(1), (0,), False), (like(), (), False)))  # fmt: skip
def expand(self: T, size: Sequence[int], implicit: bool) -> T:
    """self repeated along axes of size 1 and along new axes at the front; -1 keeps a size."""
    return _expanded(self, size)


@operator("expand_as(Tensor(a) self, Tensor other) -> Tensor(a)", view=True, inverse=no_write("an expanded tensor"),
          samples=listed((like(3, 1), like(3, 4)), (like(), like(2)), (like(1), like(0))))  # fmt: skip
def expand_as(self: T, other: T) -> T:
    """self expanded to the shape of other."""
    return _expanded(self, other.shape)


@operator("broadcast_to(Tensor(a) self, int[] size) -> Tensor(a)", view=True, inverse=no_write("an expanded tensor"),
          samples=listed((like(3, 1), (3, 4)), (like(), (2, 3)), (like(1), (0,))))  # fmt: skip
def broadcast_to(self: T, size: Sequence[int]) -> T:
    """self expanded to `size`."""
    return _expanded(self, size)


# ------------------------------------------------------------------------------------------------ parts


@operator("select.int(Tensor(a) self, int dim, int index) -> Tensor(a)", view=True,
          inverse=lambda apply, parent, new, d, index: apply("select_scatter.default", parent, new, d, index),
          samples=listed((like(3, 4), 0, 1), (like(3, 4), -1, -1), (like(5), 0, 4), (like(1, 3), 0, 0),
                         (like(0, 3), 1, 2)))  # fmt: skip
def select(self: T, d: int, index: int) -> T:
    """self at position `index` of axis `dim` (negative: from the end); an index outside raises IndexError."""
    d = axis_of(self, d)
    k = known_index(index, self.shape[d], d)
    return elements(self.shape[:d] + self.shape[d + 1 :], lambda *i: load(self, *inserted(i, d, k)), self.dtype)


def slice_bounds(n: int, start: int | None, end: int | None, step: int) -> tuple[int, int]:
    """(start, length) of the Python slice start:end:step of an axis of n elements.  Raises UserError unless step > 0."""
    if step <= 0:
        raise UserError(f"step {step}; allowed: > 0 (use flip to reverse)")
    if any(map(is_symbolic, (n, start, end, step))):
        first, last = slice_ends(n, start, end)
        length = (last - first + step - 1) // step
        return (first, length) if length > 0 else (0, 0)
    positions = range(*slice(start, end, step).indices(n))
    return (positions.start if len(positions) else 0), len(positions)


def slice_ends(n: int, start: int | None, end: int | None) -> tuple[int, int]:
    """start and end as positions 0..n of an axis of n elements: negative ones count from the end, others are clamped."""

    def position(k: int | None, default: int) -> int:
        if k is None:
            return default
        k = k + n if k < 0 else k
        return max(0, min(k, n))

    return position(start, 0), position(end, n)


@operator("slice.Tensor(Tensor(a) self, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor(a)", view=True,
          inverse=lambda apply, parent, new, *rest: apply("slice_scatter.default", parent, new, *rest),
          samples=listed((like(5), 0, 1, 4, 1), (like(5), 0, None, None, 2), (like(3, 17), -1, -9, 100, 3),
                         (like(3, 4), 0, 2, 1, 1),
                         (like(0, 3), 1, None, -1, 1), (like(5, dtype=i64), 0, -100, 3, 1),
                         (like(2, 6), 1, 1, None, 4)))  # fmt: skip
def slice_tensor(self: T, d: int, start: int | None, end: int | None, step: int) -> T:
    """self[start:end:step] along axis `dim`, as Python slices."""
    d = axis_of(self, d)
    first, length = slice_bounds(self.shape[d], start, end, step)
    return narrowed(self, d, first, length, step)


@operator("narrow(Tensor(a) self, int dim, int start, int length) -> Tensor(a)", view=True,
          inverse=lambda apply, parent, new, d, start, length: apply(
              "slice_scatter.default", parent, new, d, start % max(parent.shape[d], 1), start % max(parent.shape[d], 1) + length,
              1),
          samples=listed((like(5), 0, 1, 3), (like(3, 4), -1, 0, 4), (like(3, 4), 0, -2, 2), (like(3), 0, 3, 0)))  # fmt: skip
def narrow(self: T, d: int, start: int, length: int) -> T:
    """`length` elements of axis `dim` from `start` (negative: from the end)."""
    d = axis_of(self, d)
    n = self.shape[d]
    first = start + n if start < 0 else start
    if not 0 <= first <= first + length <= n:
        raise UserError(f"elements {first}..{first + length - 1} of an axis of {n}; allowed: 0 <= start <= start + length <= {n}")
    return narrowed(self, d, first, length)


@operator("diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)", view=True,
          inverse=lambda apply, parent, new, *rest: apply("diagonal_scatter.default", parent, new, *rest),
          samples=listed((like(3, 4), 0, 0, 1), (like(3, 4), 2, 0, 1), (like(4, 3), -2, 0, 1), (like(2, 3, 4), 1, 2, 0),
                         (like(3, 3), 5, 0, 1),
                         (like(0, 3), 0, 0, 1)))  # fmt: skip
def diagonal(self: T, offset: int, dim1: int, dim2: int) -> T:
    """y[..., k] = self at (k, k + offset) of axes dim1, dim2 (offset < 0: at (k - offset, k)); the new axis is the last."""
    a, b = axis_of(self, dim1), axis_of(self, dim2)
    if a == b:
        raise UserError(f"dim1 {dim1} and dim2 {dim2} are the same axis")
    down, right = max(-offset, 0), max(offset, 0)
    length = max(min(self.shape[a] - down, self.shape[b] - right), 0)
    rest = [n for k, n in enumerate(self.shape) if k not in (a, b)]

    def body(*i: Ix) -> Any:
        outer = iter(i[:-1])
        return load(self, *(i[-1] + down if k == a else i[-1] + right if k == b else next(outer) for k in range(len(self.shape))))

    return elements([*rest, length], body, self.dtype)


@operator("unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)", view=True,
          inverse=no_write("a tensor of windows"),
          samples=listed((like(7), 0, 3, 2), (like(3, 8), 1, 2, 1), (like(5), 0, 5, 1), (like(4, 3), 0, 2, 2)))  # fmt: skip
def unfold(self: T, dimension: int, size: int, step: int) -> T:
    """Windows of `size` elements of an axis, `step` apart: y[..., w, ..., k] = self[..., w * step + k, ...]."""
    d = axis_of(self, dimension)
    if step <= 0 or not 0 <= size <= self.shape[d]:
        allowed = f"0 <= size <= {self.shape[d]} (the axis), step > 0"
        raise UserError(f"size {size}, step {step}; allowed: {allowed}")
    windows = (self.shape[d] - size) // step + 1
    shape = (*self.shape[:d], windows, *self.shape[d + 1 :], size)
    return elements(shape, lambda *i: load(self, *i[:d], i[d] * step + i[-1], *i[d + 1 : -1]), self.dtype)


def strided_place(x: T, size: Sequence[int], stride: Sequence[int], offset: int | None) -> Callable[..., list[Ix]]:
    """i... -> the indices of element offset + sum stride_k * i_k of x, counted row-major.

    Raises UserError for a negative stride, or where an element would lie outside of x.
    """
    first = offset or 0
    if len(size) != len(stride) or min(*size, *stride, first, 0) < 0:
        raise UserError(f"size {list(size)}, stride {list(stride)}, offset {first}; allowed: as many strides as sizes, all >= 0")
    last = first + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    if 0 not in size and last >= x.size:
        raise UserError(f"size {list(size)}, stride {list(stride)}, offset {first} reach element {last} of {x.size}")
    strides = contiguous_strides(x.shape)

    def place(*i: Ix) -> list[Ix]:
        flat = affine(zip(stride, i, strict=True)) + first
        return [flat // s % n for s, n in zip(strides, x.shape, strict=True)]

    return place


STRIDED: tuple[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], int | None], ...] = (
    ((3, 4), (2, 3), (4, 1), 1), ((3, 4), (4, 3), (1, 4), None), ((12,), (3, 2), (5, 1), 0), ((6,), (2, 2), (0, 3), 2),
    ((), (1,), (7,), None), ((5,), (), (), 4), ((4, 5), (0, 3), (9, 9), 3),
)  # fmt: skip


@operator("as_strided(Tensor(a) self, int[] size, int[] stride, int? storage_offset=None) -> Tensor(a)", view=True,
          inverse=lambda apply, parent, new, *rest: apply("as_strided_scatter.default", parent, new, *rest),
          samples=listed(*((like(*s[0]), *s[1:]) for s in STRIDED)))  # fmt: skip
def as_strided(self: T, size: Sequence[int], stride: Sequence[int], storage_offset: int | None) -> T:
    """y[i...] = element storage_offset + sum stride_k * i_k of self, counted row-major.

    Of a tensor that is the whole of its memory, row-major: there PyTorch's storage is the tensor itself.
    """
    place = strided_place(self, size, stride, storage_offset)
    return elements(size, lambda *i: load(self, *place(*i)), self.dtype)


# ------------------------------------------------------------------------------------------------ several parts


@operator("unbind.int(Tensor(a) self, int dim=0) -> Tensor[]", view=True,
          inverse=lambda apply, parent, new, d, output: apply("select_scatter.default", parent, new, d, output),
          samples=listed((like(3, 4), 0), (like(3, 4), -1), (like(1), 0), (like(2, 0), 0)))  # fmt: skip
def unbind(self: T, d: int) -> tuple[T, ...]:
    """self at each position of axis `dim`."""
    d = axis_of(self, d)
    return tuple(select(self, d, k) for k in range(self.shape[d]))


def _parts(self: T, sizes: Sequence[int], d: int) -> tuple[T, ...]:
    starts = [sum(sizes[:k]) for k in range(len(sizes))]
    return tuple(narrowed(self, d, a, n) for a, n in zip(starts, sizes, strict=True))


def _put_part(apply: Apply, parent: Any, new: Any, sizes: Sequence[int], d: int, output: int) -> Any:
    start = sum(sizes[:output])
    return apply("slice_scatter.default", parent, new, d, start, start + sizes[output], 1)


def split_sizes(n: int, split_size: int) -> list[int]:
    """Sizes of the parts of at most `split_size` of an axis of n elements."""
    if split_size <= 0:
        raise UserError(f"split_size {split_size}; allowed: > 0")
    if not (is_symbolic(n) or is_symbolic(split_size)):
        return [min(split_size, n - a) for a in range(0, n, split_size)] or [0]
    sizes: list[Any] = []
    start: Any = 0
    while start + split_size < n:  # decided part by part: as many parts as for the hints
        sizes.append(split_size)
        start = start + split_size
    return [*sizes, n - start]


def chunk_sizes(n: int, chunks: int) -> list[int]:
    """Sizes of at most `chunks` parts of an axis of n elements, all but the last equal."""
    if chunks <= 0:
        raise UserError(f"chunks {chunks}; allowed: > 0")
    return split_sizes(n, -(-n // chunks)) if n else [0] * chunks


@operator("split.Tensor(Tensor(a) self, int split_size, int dim=0) -> Tensor[]", view=True,
          inverse=lambda apply, parent, new, size, d, output: _put_part(
              apply, parent, new, split_sizes(parent.shape[d], size), d, output),
          samples=listed((like(5), 2, 0), (like(3, 4), 4, -1), (like(3, 4), 1, 0), (like(0, 3), 2, 0)))  # fmt: skip
def split(self: T, split_size: int, d: int) -> tuple[T, ...]:
    """Parts of `split_size` elements of axis `dim`; the last one may be smaller."""
    d = axis_of(self, d)
    return _parts(self, split_sizes(self.shape[d], split_size), d)


@operator("split.sizes(Tensor(a) self, int[] split_size, int dim=0) -> Tensor[]", view=True, inverse=_put_part,
          samples=listed((like(5), (2, 0, 3), 0), (like(3, 4), (1, 3), -1)))  # fmt: skip
@operator("split_with_sizes(Tensor(a) self, int[] split_sizes, int dim=0) -> Tensor[]", view=True, inverse=_put_part,
          samples=listed((like(5), (2, 0, 3), 0), (like(3, 4), (4,), 1)))  # fmt: skip
def split_with_sizes(self: T, sizes: Sequence[int], d: int) -> tuple[T, ...]:
    """Parts of these sizes of axis `dim`."""
    d = axis_of(self, d)
    if min(sizes, default=0) < 0 or sum(sizes) != self.shape[d]:
        raise UserError(f"split_sizes {list(sizes)} must be >= 0 and add up to {self.shape[d]}")
    return _parts(self, sizes, d)


@operator("chunk(Tensor(a) self, int chunks, int dim=0) -> Tensor[]", view=True,
          inverse=lambda apply, parent, new, chunks, d, output: _put_part(
              apply, parent, new, chunk_sizes(parent.shape[d], chunks), d, output),
          samples=listed((like(5), 2, 0), (like(3, 6), 3, -1), (like(3), 7, 0), (like(0, 3), 2, 0)))  # fmt: skip
def chunk(self: T, chunks: int, d: int) -> tuple[T, ...]:
    """At most `chunks` parts of axis `dim` of one size; the last one may be smaller."""
    d = axis_of(self, d)
    return _parts(self, chunk_sizes(self.shape[d], chunks), d)


# ------------------------------------------------------------------------------------------------ the same elements


@operator("detach(Tensor(a) self) -> Tensor(a)", view=True, inverse=lambda apply, parent, new: new, samples=unary())
def detach(self: T) -> T:
    """self, as a constant: nothing is differentiated through it."""
    return tensor(self.shape, lambda *i: op("stop", self[i])) if self.dtype.is_float else self


@operator("overwritten(Tensor self, Tensor new) -> Tensor",
          samples=listed((like(3), like(3)), (like(2, 3), like(2, 3)), (like(), like()), (like(0), like(0))))  # fmt: skip
def overwritten(self: T, new: T) -> T:
    """new, written over self where no derivative sees it (under no_grad, through detach()): its derivative is that of self."""
    if self.shape != new.shape or self.dtype is not new.dtype:
        shapes = f"new {new.dtype.name}{list(new.shape)}, self {self.dtype.name}{list(self.shape)}"
        raise UserError(f"shape and type must be the same; these are {shapes}")
    return tensor(self.shape, lambda *i: op("as_if", new[i], self[i])) if self.dtype.is_float else new


@operator("alias(Tensor(a) self) -> Tensor(a)", view=True, inverse=lambda apply, parent, new: new, samples=unary())
def alias(self: T) -> T:
    """self."""
    return self


@operator("clone(Tensor self) -> Tensor", samples=unary())
@operator("contiguous(Tensor(a) self) -> Tensor(a)", samples=unary())
def clone(self: T) -> T:
    """A copy of self (every value of the core language is row-major)."""
    return copy(self)
