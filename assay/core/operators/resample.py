"""Interpolation.  Source positions are rational numbers computed with integers: no rounding decides which pixel is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TypeAlias

from assay.core import dtypes as dt
from assay.core.dtypes import compute_dtype
from assay.core.errors import Unsupported, UserError
from assay.core.index import Ix, ix
from assay.core.lang import E, T, as_index, const, convert, index, load, op, select
from assay.core.operators.build import elements, lift, need_float
from assay.core.operators.guards import inside
from assay.core.operators.registry import operator
from assay.core.operators.samples import FLOATS, like, listed

Sizes: TypeAlias = Sequence[int]


Ratios: TypeAlias = "list[Fraction]"


def _ratios(x: T, sizes: Sizes, scales: Sequence[float | None]) -> Ratios:
    """Input elements per output element, for each axis: n/m, or 1/scale where the scale does not give m exactly.

    Raises UserError where the shapes do not fit.
    """
    axes = len(scales)
    if len(x.shape) != axes + 2 or len(sizes) != axes or min(*sizes, *x.shape[2:]) < 1:
        raise UserError(f"shape {list(x.shape)} to sizes {list(sizes)}; needs [n, c] and {axes} axes, all sizes >= 1")
    return [_ratio(n, m, s) for n, m, s in zip(x.shape[2:], sizes, scales, strict=True)]


def _ratio(n: int, m: int, scale: float | None) -> Fraction:
    if scale is None or n * scale == m:
        return Fraction(n, m)
    exact = Fraction(scale).limit_denominator(1 << 16)
    if float(exact) != scale or not m <= n * exact < m + 1:
        raise UserError(f"scale factor {scale} takes size {n} to {n * scale}, not {m}; allowed: a fraction that gives it")
    return 1 / exact


def _from_scales(x: T, sizes: Sizes | None, scales: Sequence[float] | None) -> tuple[Sizes, Sequence[float | None]]:
    if (sizes is None) == (scales is None):
        raise UserError(f"output_size={sizes}, scale_factors={scales}; needs one of the two")
    if scales is None:
        assert sizes is not None
        return sizes, [None] * len(sizes)
    if len(scales) != len(x.shape) - 2:
        raise UserError(f"{len(scales)} scale factors for shape {list(x.shape)}; needs one for each axis after [n, c]")
    return [int(n * s) for n, s in zip(x.shape[2:], scales, strict=True)], scales


def _nearest(x: T, sizes: Sizes, ratios: Ratios) -> T:
    def body(*i: Ix) -> E:
        return load(x, *i[:2], *(k * r.numerator // r.denominator for k, r in zip(i[2:], ratios, strict=True)))

    return elements((*x.shape[:2], *sizes), body, x.dtype)


_NEAREST_2 = ((like(1, 2, 3, 4), (6, 8)), (like(2, 1, 5, 5), (3, 7)), (like(1, 1, 1, 1), (2, 3)), (like(1, 1, 4, 4), (4, 4)),
              *((like(1, 1, 2, 3, dtype=d), (4, 4)) for d in (*FLOATS[1:], dt.u8)))  # fmt: skip


@operator("upsample_nearest1d(Tensor self, int[1] output_size, float? scales=None) -> Tensor",
          samples=listed((like(1, 2, 3), (6,), 2.0), (like(1, 2, 5), (3,), None)))  # fmt: skip
def upsample_nearest1d(self: T, output_size: Sizes, scales: float | None) -> T:
    """y[.., i] = self[.., floor(i * n / m)]; i / scales where the factor does not give the size exactly."""
    return _nearest(self, output_size, _ratios(self, output_size, [scales]))


@operator("upsample_nearest2d(Tensor self, int[2] output_size, float? scales_h=None, float? scales_w=None) -> Tensor",
          samples=listed(*((*s, None, None) for s in _NEAREST_2), (like(1, 2, 3, 4), (6, 8), 2.0, 2.0)))  # fmt: skip
def upsample_nearest2d(self: T, output_size: Sizes, scales_h: float | None, scales_w: float | None) -> T:
    """y[.., i, j] = self[.., floor(i * h / H), floor(j * w / W)]; i / scale where a factor does not give the size exactly."""
    return _nearest(self, output_size, _ratios(self, output_size, [scales_h, scales_w]))


@operator("upsample_nearest2d.vec(Tensor input, int[]? output_size, float[]? scale_factors) -> Tensor",
          samples=listed((like(1, 2, 3, 4), (6, 8), None), (like(1, 2, 3, 4), None, (2.0, 1.5)),
                         (like(1, 1, 7, 5), None, (1.5, 0.7))))  # fmt: skip
def upsample_nearest2d_vec(x: T, output_size: Sizes | None, scale_factors: Sequence[float] | None) -> T:
    """upsample_nearest2d to a size or by factors."""
    sizes, scales = _from_scales(x, output_size, scale_factors)
    return _nearest(x, sizes, _ratios(x, sizes, scales))


def _linear_place(i: Ix, n: int, m: int, ratio: Fraction, *, align_corners: bool) -> tuple[Ix, Ix, int]:
    """(position, numerator, denominator): output i of m lies at position + numerator/denominator of n inputs."""
    if align_corners:
        scaled, whole = (i * (n - 1), m - 1) if m > 1 else (ix(0), 1)
    else:  # (i + 1/2) * ratio - 1/2, at least 0
        step, whole = ratio.numerator, 2 * ratio.denominator
        scaled = as_index(op("max", index(i * (2 * step) + (step - ratio.denominator)), 0))
    place = scaled // whole
    return place, scaled - place * whole, whole


def _bilinear(x: T, sizes: Sizes, ratios: Ratios, *, align_corners: bool) -> T:
    how = compute_dtype(need_float(x))
    height, width = x.shape[2:]

    def line(at: Callable[[Ix], E], i: Ix, n: int, axis: int) -> E:
        if n == sizes[axis]:
            return at(i)
        place, over, whole = _linear_place(i, n, sizes[axis], ratios[axis], align_corners=align_corners)
        after = place + 1 if place.hi + 1 < n else as_index(op("min", index(place + 1), n - 1))
        share = convert(index(over), how) / const(whole, how)
        return at(place) * (1 - share) + at(after) * share

    def body(*i: Ix) -> E:
        *b, r, c = i
        return line(lambda y: line(lambda z: lift(load(x, *b, y, z)), c, width, 1), r, height, 0)

    return elements((*x.shape[:2], *sizes), body, x.dtype)


@operator("upsample_bilinear2d(Tensor self, int[2] output_size, bool align_corners, float? scales_h=None, "
          "float? scales_w=None) -> Tensor",
          samples=listed(*((*s, a, None, None) for s in _NEAREST_2[:-1] for a in (False, True))))  # fmt: skip
def upsample_bilinear2d(self: T, output_size: Sizes, align_corners: bool, scales_h: float | None, scales_w: float | None) -> T:
    """Linear interpolation along the rows, then between them: a*(1 - t) + b*t, each operation rounded.

    Output i lies at max((i + 1/2)*n/m - 1/2, 0), n/m as in upsample_nearest2d; with align_corners at i*(n - 1)/(m - 1).
    An axis that keeps its size is copied.
    """
    return _bilinear(self, output_size, _ratios(self, output_size, [scales_h, scales_w]), align_corners=align_corners)


@operator("upsample_bilinear2d.vec(Tensor input, int[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor",
          samples=listed((like(1, 2, 3, 4), (6, 8), False, None), (like(1, 2, 3, 4), None, True, (2.0, 1.5)),
                         (like(1, 1, 7, 5), None, False, (1.5, 0.7))))  # fmt: skip
def upsample_bilinear2d_vec(x: T, output_size: Sizes | None, align_corners: bool, scale_factors: Sequence[float] | None) -> T:
    """upsample_bilinear2d to a size or by factors."""
    sizes, scales = _from_scales(x, output_size, scale_factors)
    return _bilinear(x, sizes, _ratios(x, sizes, scales), align_corners=align_corners)


_A = -0.75
"""The parameter of the cubic kernel, as in PyTorch and OpenCV."""


def _near(d: E) -> E:
    """The weight of a pixel at distance d <= 1: ((A + 2) d - (A + 3)) d^2 + 1."""
    return (d * (_A + 2) - (_A + 3)) * d * d + 1


def _far(d: E) -> E:
    """The weight of a pixel at distance 1 <= d <= 2: ((A d - 5 A) d + 8 A) d - 4 A."""
    return ((d * _A - 5 * _A) * d + 8 * _A) * d - 4 * _A


def _bicubic(x: T, sizes: Sizes, ratios: Ratios, *, align_corners: bool) -> T:
    how = compute_dtype(need_float(x))

    def line(at: Callable[[Ix], E], i: Ix, axis: int) -> E:
        n, m, ratio = x.shape[2 + axis], sizes[axis], ratios[axis]
        if n == m:
            return at(i)
        if align_corners:
            scaled, whole = (i * (n - 1), m - 1) if m > 1 else (ix(0), 1)
        else:  # (i + 1/2) * ratio - 1/2: it may lie before the first pixel
            step, whole = ratio.numerator, 2 * ratio.denominator
            scaled = i * (2 * step) + (step - ratio.denominator)
        place = scaled // whole
        t = convert(index(scaled - place * whole), how) / const(whole, how)
        weights = _far(t + 1), _near(t), _near(1 - t), _far(2 - t)
        terms = [at(_clipped(place + k - 1, n)) * w for k, w in enumerate(weights)]
        return terms[0] + terms[1] + terms[2] + terms[3]

    def body(*i: Ix) -> E:
        *b, r, c = i
        return line(lambda y: line(lambda z: lift(load(x, *b, y, z)), c, 1), r, 0)

    return elements((*x.shape[:2], *sizes), body, x.dtype)


def _clipped(i: Ix, n: int) -> Ix:
    """The nearest position of an axis of n elements."""
    if i.lo >= 0 and i.hi < n:
        return i
    return as_index(op("min", op("max", index(i), 0), n - 1))


@operator("upsample_bicubic2d(Tensor self, int[2] output_size, bool align_corners, float? scales_h=None, "
          "float? scales_w=None) -> Tensor",
          samples=listed(*((*s, a, None, None) for s in _NEAREST_2[:-1] for a in (False, True))))  # fmt: skip
def upsample_bicubic2d(self: T, output_size: Sizes, align_corners: bool, scales_h: float | None, scales_w: float | None) -> T:
    """Cubic interpolation (A = -3/4) along the rows, then between them: x0*w0 + x1*w1 + x2*w2 + x3*w3, each operation rounded.

    Output i lies at (i + 1/2)*n/m - 1/2, n/m as in upsample_nearest2d; with align_corners at i*(n - 1)/(m - 1).  A pixel
    outside is the nearest one inside; an axis that keeps its size is copied.
    """
    return _bicubic(self, output_size, _ratios(self, output_size, [scales_h, scales_w]), align_corners=align_corners)


@operator("upsample_bicubic2d.vec(Tensor input, int[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor",
          samples=listed((like(1, 2, 3, 4), (6, 8), False, None), (like(1, 2, 3, 4), None, True, (2.0, 1.5)),
                         (like(1, 1, 7, 5), None, False, (1.5, 0.7))))  # fmt: skip
def upsample_bicubic2d_vec(x: T, output_size: Sizes | None, align_corners: bool, scale_factors: Sequence[float] | None) -> T:
    """upsample_bicubic2d to a size or by factors."""
    sizes, scales = _from_scales(x, output_size, scale_factors)
    return _bicubic(x, sizes, _ratios(x, sizes, scales), align_corners=align_corners)


# ------------------------------------------------------------------------------------------------ sampling at given points

_NEAREST_MODE = _BORDER = 1
_GRIDS = (like(1, 2, 3, 4), like(1, 2, 5, 2, lo=-1.5, hi=1.5))


@operator("grid_sampler_2d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor",
          samples=listed(*((*_GRIDS, m, p, a) for m in (0, 1) for p in (0, 1) for a in (False, True)),
                         (*_GRIDS[:1], like(1, 3, 1, 2), 0, 0, False),
                         *((like(2, 1, 3, 3, dtype=d), like(2, 2, 2, 2, dtype=d, lo=-1, hi=1), 0, 0, False)
                         for d in FLOATS[1:])))  # fmt: skip
def grid_sampler_2d(x: T, grid: T, interpolation_mode: int, padding_mode: int, align_corners: bool) -> T:
    """y[n, c, p] = x[n, c] at the point grid[n, p] = (column, row), -1 and 1 being the ends of an axis.

    interpolation_mode 0: v00*w00 + v01*w01 + v10*w10 + v11*w11, a left fold from +0 over the pixels around it that exist;
    1: the nearest pixel, ties to even.  padding_mode 0: a pixel outside is 0; 1: points are clipped to the image.
    A NaN coordinate counts as pixel 0; in mode 0 the weights keep it NaN.
    """
    dtype = need_float(x)
    how = compute_dtype(dtype)
    if grid.dtype is not dtype or len(x.shape) != 4 or len(grid.shape) != 4 or grid.shape[0] != x.shape[0] or grid.shape[3] != 2:
        raise UserError(f"input {x!r} and grid {grid!r}; needs [n, c, h, w] and [n, H, W, 2] of one type")
    if interpolation_mode not in (0, 1) or padding_mode not in (0, 1) or not min(x.shape[2:]):
        raise Unsupported(
            f"interpolation_mode={interpolation_mode}, padding_mode={padding_mode} of an image of sizes {list(x.shape[2:])}; "
            "there: 0 (bilinear) and 1 (nearest), 0 (zeros) and 1 (border), of an image that is not empty"
        )
    sizes = x.shape[2:]

    def coordinate(place: Sequence[Ix], axis: int) -> E:
        n = sizes[axis]
        at = lift(load(grid, *place, 1 - axis)) + 1
        at = at / 2.0 * (n - 1) if align_corners else (at * n - 1) / 2.0
        return op("min", op("max", at, 0), n - 1) if padding_mode == _BORDER else at

    def pixel(i: Sequence[Ix], at: Sequence[E]) -> tuple[E, E]:
        """(whether the pixel exists, its value)"""
        place = [as_index(convert(convert(k, dt.i32), dt.i64)) for k in at]
        return inside(place, sizes), lift(load(x, *i[:2], *place))

    def body(*i: Ix) -> E:
        row, column = (coordinate((i[0], *i[2:]), axis) for axis in (0, 1))
        zero = const(0, how)
        if interpolation_mode == _NEAREST_MODE:
            return select(*pixel(i, (op("round", row), op("round", column))), zero)
        top, left = op("floor", row), op("floor", column)
        total = zero
        for y, x_ in ((0, 0), (0, 1), (1, 0), (1, 1)):
            exists, value = pixel(i, (top + y, left + x_))
            weight = (row - top if y else top + 1 - row) * (column - left if x_ else left + 1 - column)
            total = select(exists, total + value * weight, total)
        return total

    return elements((*x.shape[:2], *grid.shape[1:3]), body, dtype)
