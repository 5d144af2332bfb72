"""Joins and pads: every element is read from one place, by guarded loads (never a load of what lies outside)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from assay.core import dtypes as dt
from assay.core.dtypes import compute_dtype
from assay.core.errors import UserError
from assay.core.index import Ix
from assay.core.lang import E, T, as_index, const, convert, index, load, load_or_zero, op, select
from assay.core.operators.build import dim as axis_of
from assay.core.operators.build import elements, fold_axes, lift, result_type, same_type
from assay.core.operators.guards import both, clamped, inside, load_or
from assay.core.operators.registry import operator
from assay.core.operators.samples import ALL, Samples, like, listed
from assay.core.operators.views import reindexed

# ------------------------------------------------------------------------------------------------ joins


@operator("cat(Tensor[] tensors, int dim=0) -> Tensor",
          samples=listed(((like(3), like(4)), 0), ((like(3, 2), like(3, 5), like(3, 1)), -1),
                         ((like(2, 3), like(0, 3), like(1, 3)), 0),
                         ((like(0), like(2, 3)), 0), ((like(5),), 0), ((like(3, dtype=dt.f16), like(2, dtype=dt.i64)), 0),
                         ((like(0, 3), like(0, 3)), 0), *(((like(3, dtype=d), like(2, dtype=d)), 0) for d in ALL)))  # fmt: skip
def cat(tensors: Sequence[T], dim: int) -> T:
    """The tensors after one another along dim, in their common type; a tensor of shape [0] joins with any shape."""
    if not tensors:
        raise UserError("needs at least one tensor")
    dtype = result_type(*tensors)
    parts = [t for t in tensors if t.shape != (0,)] or [tensors[0]]
    shape = parts[0].shape
    if not shape:
        raise UserError("tensors without axes cannot be joined; use stack")
    d = axis_of(dim, len(shape))
    if any((*t.shape[:d], *t.shape[d + 1 :]) != (*shape[:d], *shape[d + 1 :]) or len(t.shape) != len(shape) for t in parts):
        raise UserError(f"shapes {', '.join(str(list(t.shape)) for t in parts)} differ outside axis {d}")

    def body(*i: Ix) -> E:
        return joined([t.shape[d] for t in parts], i[d], lambda k, j: convert(load(parts[k], *i[:d], j, *i[d + 1 :]), dtype))

    return elements((*shape[:d], sum(t.shape[d] for t in parts), *shape[d + 1 :]), body, dtype)


def joined(sizes: Sequence[int], i: Ix, part: Callable[[int, Ix], E]) -> E:
    """part(k, j) where i is element j of part k of consecutive parts of these sizes."""
    starts = [sum(sizes[:k]) for k in range(len(sizes))]
    held = [k for k, n in enumerate(sizes) if n]
    result = part(held[-1], i - starts[held[-1]])
    for k in reversed(held[:-1]):
        result = select(op("lt", index(i), const(starts[k] + sizes[k], dt.i64)), part(k, i - starts[k]), result)
    return result


@operator("stack(Tensor[] tensors, int dim=0) -> Tensor",
          samples=listed(((like(3), like(3)), 0), ((like(2, 3), like(2, 3), like(2, 3)), -1), ((like(), like()), 0),
                         ((like(0, 2), like(0, 2)), 1),
                         ((like(3, dtype=dt.i32), like(3, dtype=dt.f64)), 1)))  # fmt: skip
def stack(tensors: Sequence[T], dim: int) -> T:
    """y[.., k, ..] = tensors[k][.., ..] with the new axis at dim, in their common type."""
    if not tensors:
        raise UserError("needs at least one tensor")
    shape = tensors[0].shape
    if any(t.shape != shape for t in tensors):
        raise UserError(f"shapes {', '.join(str(list(t.shape)) for t in tensors)} differ")
    d = axis_of(dim, len(shape) + 1)
    return cat([reindexed(t, (*shape[:d], 1, *shape[d:])) for t in tensors], d)


_ATLEAST = listed(((like(3), like(3)),), ((like(2, 3), like(2, 3)),), ((like(), like()),))


@operator("hstack(Tensor[] tensors) -> Tensor", samples=_ATLEAST)
def hstack(tensors: Sequence[T]) -> T:
    """cat along the second axis (of vectors, along the only one); tensors without axes count as vectors."""
    parts = [reindexed(t, t.shape or (1,)) for t in tensors]
    return cat(parts, 0 if parts and len(parts[0].shape) == 1 else 1)


@operator("vstack(Tensor[] tensors) -> Tensor", samples=_ATLEAST)
def vstack(tensors: Sequence[T]) -> T:
    """cat along the first axis; vectors count as rows."""
    return cat([reindexed(t, t.shape if len(t.shape) >= 2 else (1, t.size)) for t in tensors], 0)


@operator("dstack(Tensor[] tensors) -> Tensor", samples=_ATLEAST)
def dstack(tensors: Sequence[T]) -> T:
    """cat along the third axis; a vector counts as shape [1, n, 1], a matrix as [n, m, 1]."""
    shapes = [t.shape if len(t.shape) > 2 else (*t.shape, 1) if len(t.shape) == 2 else (1, t.size, 1) for t in tensors]
    return cat([reindexed(t, s) for t, s in zip(tensors, shapes, strict=True)], 2)


@operator("meshgrid.indexing(Tensor[] tensors, *, str indexing='ij') -> Tensor[]",
          samples=listed(((like(3), like(2)), "ij"), ((like(3), like(2), like()), "xy")))  # fmt: skip
def meshgrid(tensors: Sequence[T], indexing: str) -> tuple[T, ...]:
    """y_k[i_0, i_1, ...] = tensors[k][i_k]; with indexing="xy" the first two axes change places."""
    if indexing not in ("ij", "xy"):
        raise UserError(f"indexing={indexing!r}; allowed: 'ij', 'xy'")
    if not tensors or any(len(t.shape) > 1 for t in tensors):
        raise UserError("needs one or more tensors with at most one axis")
    same_type(*tensors)
    place = list(range(len(tensors)))
    if indexing == "xy" and len(tensors) > 1:
        place[:2] = [1, 0]
    shape = [0] * len(tensors)
    for k, t in enumerate(tensors):
        shape[place[k]] = t.size

    def grid(k: int, t: T) -> T:
        return elements(shape, lambda *i: load(t, *((i[place[k]],) if t.shape else ())), t.dtype)

    return tuple(grid(k, t) for k, t in enumerate(tensors))


# ------------------------------------------------------------------------------------------------ pads

Place = Callable[[Ix, int], Ix]


def amounts(pad: Sequence[int], rank: int) -> list[tuple[int, int]]:
    """(before, after) of each axis; `pad` lists them from the last axis backwards.  Raises UserError for an odd list."""
    if len(pad) % 2 or len(pad) > 2 * rank:
        raise UserError(f"pad {list(pad)} for {rank} axes; allowed: two numbers for each of at most {rank} axes, from the last")
    listed_ = [(pad[k], pad[k + 1]) for k in range(0, len(pad), 2)]
    return [(0, 0)] * (rank - len(listed_)) + listed_[::-1]


def grown(x: T, pads: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """The padded shape.  Raises UserError where a size falls below 0."""
    shape = tuple(n + a + b for n, (a, b) in zip(x.shape, pads, strict=True))
    if any(n < 0 for n in shape):
        raise UserError(f"pads {pads} of shape {list(x.shape)} leave a negative size")
    return shape


@operator("constant_pad_nd(Tensor self, int[] pad, Scalar value=0) -> Tensor",
          samples=listed((like(3), (1, 2), 0), (like(3), (1, 2), 1.5), (like(2, 3), (1, 0, 0, 2), float("-inf")),
                         (like(2, 3), (-1, 1), 0),
                         (like(2, 3), (-1, -1, 1, 0), 2), (like(), (), 0), (like(0, 2), (1, 1, 1, 0), 3), (like(3), (0, 0), 0),
                         (like(3), (2, 1), -0.0), (like(3, 4), (1, 1, 1, 1), 0), (like(2, 3, 4), (0, 2), 0), (like(5), (2, 0), 0),
                         *((like(4, dtype=d), (1, 2), 1) for d in ALL)))  # fmt: skip
def constant_pad_nd(self: T, pad: Sequence[int], value: bool | int | float) -> T:
    """self with `value` around it; pad = (before, after) of the last axis, then of the one before, ...; negative pads crop."""
    pads = amounts(pad, len(self.shape))
    if isinstance(value, float) and not self.dtype.is_float:
        raise UserError(f"the float {value!r} is not a value of type {self.dtype.name}")
    zero = const(value, self.dtype) is const(0, self.dtype)

    def body(*i: Ix) -> E:
        source = [k - a for k, (a, _) in zip(i, pads, strict=True)]
        return load_or_zero(self, *source) if zero else load_or(self, source, value)

    return elements(grown(self, pads), body, self.dtype)


def reflected(i: Ix, n: int) -> Ix:
    """Position i of a row of n mirrored at its end elements: -1 is 1, n is n - 2; for -n < i < 2n - 1."""
    left = op("abs", index(i))
    return as_index((n - 1) - op("abs", (n - 1) - left))


def _mapped(self: T, pads: Sequence[tuple[int, int]], place: Place) -> T:
    """y[i] = self[place(i - before)], axis by axis."""
    for n, (a, b) in zip(self.shape, pads, strict=True):
        if n == 0 and (a > 0 or b > 0):
            raise UserError(f"an empty axis of shape {list(self.shape)} has nothing to repeat; use a constant pad")

    def body(*i: Ix) -> E:
        return load(self, *(place(k - a, n) if a or b else k for k, n, (a, b) in zip(i, self.shape, pads, strict=True)))

    return elements(grown(self, pads), body, self.dtype)


def _reflect(self: T, pad: Sequence[int]) -> T:
    pads = amounts(pad, len(self.shape))
    for n, (a, b) in zip(self.shape, pads, strict=True):
        if (a or b) and not max(a, b) < n:
            raise UserError(f"reflection pads ({a}, {b}) of an axis of size {n}; allowed: less than the size")
    return _mapped(self, pads, reflected)


def _replicate(self: T, pad: Sequence[int]) -> T:
    return _mapped(self, amounts(pad, len(self.shape)), clamped)


def _circular(self: T, pad: Sequence[int]) -> T:
    cropped = constant_pad_nd(self, [min(p, 0) for p in pad], 0)
    pads = [(max(a, 0), max(b, 0)) for a, b in amounts(pad, len(self.shape))]
    for n, (a, b) in zip(cropped.shape, pads, strict=True):
        if max(a, b) > n:
            raise UserError(f"circular pads ({a}, {b}) of an axis of size {n}; allowed: at most the size")
    return _mapped(cropped, pads, lambda i, n: i % n)


_MODES: dict[str, Callable[[T, Sequence[int]], T]] = {"reflect": _reflect, "replicate": _replicate, "circular": _circular}


@operator("pad(Tensor self, int[] pad, str mode='constant', float? value=None) -> Tensor",
          samples=listed((like(3), (1, 2), "constant", None), (like(3), (1, 2), "constant", 0.5),
                         (like(2, 4), (2, 3), "reflect", None),
                         (like(2, 4), (2, 5), "replicate", None), (like(2, 4), (4, 3), "circular", None),
                         (like(2, 4), (-1, 2), "reflect", None),
                         (like(2, 4), (-1, 2), "replicate", None), (like(2, 4), (-1, 2), "circular", None),
                         (like(1, 1), (2, 1), "replicate", None),
                         (like(2, 3, 4), (1, 1, 2, 0), "reflect", None),
                         (like(3, dtype=dt.i32), (1, 1), "constant", None)))  # fmt: skip
def pad_(self: T, pad: Sequence[int], mode: str, value: float | None) -> T:
    """self padded by a constant, or by its own elements: mirrored at the ends, the end repeated, or wrapped around."""
    if mode == "constant":
        number = 0 if value is None else value
        return constant_pad_nd(self, pad, int(number) if not self.dtype.is_float and number == int(number) else number)
    if mode not in _MODES:
        raise UserError(f"mode={mode!r}; allowed: 'constant', {', '.join(map(repr, _MODES))}")
    if value is not None:
        raise UserError(f"value={value} has no meaning with mode={mode!r}")
    return _MODES[mode](self, pad)


def _spatial(axes: int, largest: Sequence[int]) -> Samples:
    rows = [(like(2, *(3,) * axes), tuple(largest)), (like(1, 2, *(4,) * axes), (1,) * (2 * axes)),
    (like(2, *(3,) * axes), (0,) * (2 * axes))]
    return listed(*rows)


def _needs_axes(self: T, axes: int, pad: Sequence[int]) -> None:
    if len(self.shape) not in (axes + 1, axes + 2) or len(pad) != 2 * axes:
        raise UserError(f"needs {axes + 1} or {axes + 2} axes and {2 * axes} pads, not shape {list(self.shape)} and {list(pad)}")


@operator("reflection_pad1d(Tensor self, int[2] padding) -> Tensor", samples=_spatial(1, (2, 1)))
def reflection_pad1d(self: T, padding: Sequence[int]) -> T:
    """The last axis mirrored at its ends."""
    _needs_axes(self, 1, padding)
    return _reflect(self, padding)


@operator("reflection_pad2d(Tensor self, int[4] padding) -> Tensor", samples=_spatial(2, (2, 1, 0, 2)))
def reflection_pad2d(self: T, padding: Sequence[int]) -> T:
    """The last two axes mirrored at their ends."""
    _needs_axes(self, 2, padding)
    return _reflect(self, padding)


@operator("replication_pad1d(Tensor self, int[2] padding) -> Tensor", samples=_spatial(1, (5, 1)))
def replication_pad1d(self: T, padding: Sequence[int]) -> T:
    """The last axis with its end elements repeated."""
    _needs_axes(self, 1, padding)
    return _replicate(self, padding)


@operator("replication_pad2d(Tensor self, int[4] padding) -> Tensor", samples=_spatial(2, (5, 1, 0, 4)))
def replication_pad2d(self: T, padding: Sequence[int]) -> T:
    """The last two axes with their end elements repeated."""
    _needs_axes(self, 2, padding)
    return _replicate(self, padding)


@operator("reflection_pad3d(Tensor self, int[6] padding) -> Tensor", samples=_spatial(3, (2, 1, 0, 2, 1, 1)))
def reflection_pad3d(self: T, padding: Sequence[int]) -> T:
    """The last three axes mirrored at their ends."""
    _needs_axes(self, 3, padding)
    return _reflect(self, padding)


@operator("replication_pad3d(Tensor self, int[6] padding) -> Tensor", samples=_spatial(3, (5, 1, 0, 4, 1, 1)))
def replication_pad3d(self: T, padding: Sequence[int]) -> T:
    """The last three axes with their end elements repeated."""
    _needs_axes(self, 3, padding)
    return _replicate(self, padding)


# ------------------------------------------------------------------------------------------------ windows of pixels


@operator("pixel_shuffle(Tensor self, int upscale_factor) -> Tensor",
          samples=listed((like(1, 8, 2, 3), 2), (like(4, 1, 1), 2), (like(2, 0, 8, 2, 3), 2), (like(3, 2, 2), 1)))  # fmt: skip
def pixel_shuffle(self: T, upscale_factor: int) -> T:
    """y[.., c, r*h + a, r*w + b] = self[.., c*r*r + a*r + b, h, w] with r = upscale_factor."""
    r = upscale_factor
    if len(self.shape) < 3 or r < 1 or self.shape[-3] % (r * r):
        raise UserError(f"shape {list(self.shape)} with factor {r}; the third axis from the end must be a multiple of {r * r}")
    *lead, c, h, w = self.shape
    shape = (*lead, c // (r * r), h * r, w * r)

    def body(*i: Ix) -> E:
        return load(self, *i[:-3], i[-3] * (r * r) + i[-2] % r * r + i[-1] % r, i[-2] // r, i[-1] // r)

    return elements(shape, body, self.dtype)


@operator("pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor",
          samples=listed((like(1, 2, 4, 6), 2), (like(1, 2, 2), 2), (like(3, 2, 2), 1)))  # fmt: skip
def pixel_unshuffle(self: T, downscale_factor: int) -> T:
    """y[.., c*r*r + a*r + b, h, w] = self[.., c, r*h + a, r*w + b] with r = downscale_factor."""
    r = downscale_factor
    if len(self.shape) < 3 or r < 1 or self.shape[-1] % r or self.shape[-2] % r:
        raise UserError(f"shape {list(self.shape)} with factor {r}; the last two axes must be multiples of {r}")
    *lead, c, h, w = self.shape
    shape = (*lead, c * r * r, h // r, w // r)

    def body(*i: Ix) -> E:
        return load(self, *i[:-3], i[-3] // (r * r), i[-2] * r + i[-3] // r % r, i[-1] * r + i[-3] % r)

    return elements(shape, body, self.dtype)


@operator("channel_shuffle(Tensor self, int groups) -> Tensor",
          samples=listed((like(1, 6, 2, 2), 2), (like(2, 6, 3), 3), (like(1, 4, 1, 2), 1)))  # fmt: skip
def channel_shuffle(self: T, groups: int) -> T:
    """y[n, c*groups + g, ..] = self[n, g*(channels/groups) + c, ..]"""
    if len(self.shape) < 3 or groups < 1 or self.shape[1] % groups:
        raise UserError(f"shape {list(self.shape)} with {groups} groups; needs 3 axes or more, the second a multiple of groups")
    depth = self.shape[1] // groups
    return elements(self.shape, lambda n, c, *i: load(self, n, c % groups * depth + c // groups, *i), self.dtype)


@operator("im2col(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor",
          samples=listed((like(1, 2, 4, 5), (2, 3), (1, 1), (0, 0), (1, 1)), (like(2, 3, 3), (2, 2), (2, 1), (1, 1), (2, 1)),
                         (like(2, 1, 3, 3), (1, 1), (1, 1), (0, 0), (1, 1))))  # fmt: skip
def im2col(self: T, kernel_size: Sequence[int], dilation: Sequence[int], padding: Sequence[int], stride: Sequence[int]) -> T:
    """y[n, (c, a, b), (h, w)] = self[n, c, h*stride + a*dilation - padding, w...], 0 in the padding (unfold)."""
    if len(self.shape) not in (3, 4):
        raise UserError(f"needs 3 or 4 axes, not shape {list(self.shape)}")
    *lead, c, height, width = self.shape
    (kh, kw), (dh, dw), (ph, pw), (sh, sw) = kernel_size, dilation, padding, stride
    oh, ow = (height + 2 * ph - dh * (kh - 1) - 1) // sh + 1, (width + 2 * pw - dw * (kw - 1) - 1) // sw + 1
    if min(oh, ow) < 1:
        raise UserError(f"windows {list(kernel_size)} do not fit into {height} x {width} with padding {list(padding)}")

    def body(*i: Ix) -> E:
        *n, k, j = i
        row, column = j // ow * sh + k // kw % kh * dh - ph, j % ow * sw + k % kw * dw - pw
        return load_or_zero(self, *n, k // (kh * kw), row, column)

    return elements((*lead, c * kh * kw, oh * ow), body, self.dtype)


@operator("col2im(Tensor self, int[2] output_size, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor",
          samples=listed((like(1, 12, 6), (4, 4), (2, 3), (1, 1), (0, 0), (1, 1)),
                         (like(8, 8), (3, 3), (2, 2), (2, 1), (1, 1), (2, 1)),
                         (like(2, 1, 9), (3, 3), (1, 1), (1, 1), (0, 0), (1, 1))))  # fmt: skip
def col2im(self: T, output_size: Sequence[int], kernel_size: Sequence[int], dilation: Sequence[int], padding: Sequence[int],
           stride: Sequence[int]) -> T:  # fmt: skip
    """y[n, c, p] = sum over (a, b) of self[n, (c, a, b), window] with window*stride + (a, b)*dilation - padding = p (fold).

    A left fold from +0 in the order of (a, b); the transpose of im2col.
    """
    (kh, kw), (dh, dw), (ph, pw), (sh, sw) = kernel_size, dilation, padding, stride
    height, width = output_size
    oh, ow = (height + 2 * ph - dh * (kh - 1) - 1) // sh + 1, (width + 2 * pw - dw * (kw - 1) - 1) // sw + 1
    if len(self.shape) not in (2, 3) or self.shape[-2] % (kh * kw) or self.shape[-1] != oh * ow:
        raise UserError(f"columns of shape {list(self.shape)}; needs a multiple of {kh * kw} rows and {oh} * {ow} columns")
    how = compute_dtype(self.dtype)

    def body(*i: Ix) -> E:
        *n, c, y, x = i

        def step(accs: tuple[E, ...], k: tuple[Ix, ...]) -> tuple[E, ...]:
            row, column = y + ph - k[0] * dh, x + pw - k[1] * dw
            held = inside([row // sh, column // sw], [oh, ow])
            for q, s in ((row, sh), (column, sw)):
                held = both(held, op("eq", index(q % s), 0)) if s > 1 else held
            term = load(self, *n, c * (kh * kw) + k[0] * kw + k[1], row // sh * ow + column // sw)
            return (select(held, accs[0] + lift(term), accs[0]),)

        return fold_axes((kh, kw), [const(0, how)], step)[0]

    return elements((*self.shape[:-2], self.shape[-2] // (kh * kw), height, width), body, self.dtype)
