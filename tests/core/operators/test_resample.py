"""Interpolation against exact rational positions."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from assay.core.errors import Unsupported, UserError
from assay.core.operators import OPERATORS
from tests.core.operators.calling import array, call, drawn, evaluate, same

inf, nan = math.inf, math.nan
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def ratios(x: Any, sizes: Any, scales: Any) -> tuple[Any, Any]:
    """(output sizes, input elements per output element)"""
    if sizes is not None:
        return sizes, [Fraction(n, m) for n, m in zip(x.shape[2:], sizes, strict=True)]
    exact = [Fraction(str(s)) for s in scales]  # the fraction that was written: 0.7 is 7/10
    sizes = [math.floor(n * s) for n, s in zip(x.shape[2:], exact, strict=True)]
    return sizes, [1 / s for s in exact]


def nearest(x: Any, sizes: Any, *scales: Any) -> Any:
    sizes, steps = ratios(x, sizes, scales[0])
    rows = [np.array([math.floor(i * r) for i in range(m)]) for r, m in zip(steps, sizes, strict=True)]
    return x[(slice(None), slice(None), *np.ix_(*rows))]


def bilinear(x: Any, sizes: Any, corners: Any, *rest: Any) -> Any:
    sizes, steps = ratios(x, sizes, rest[0])
    y = x.astype(np.float32 if x.itemsize == 2 else x.dtype)
    for axis in (3, 2):  # along the rows first, then between them
        n, m = y.shape[axis], sizes[axis - 2]
        if n == m:
            continue
        lines = []
        for i in range(m):
            half = Fraction(1, 2)
            at = Fraction(i * (n - 1), max(m - 1, 1)) if corners else max((i + half) * steps[axis - 2] - half, 0)
            a = math.floor(at)
            t = y.dtype.type(at - a)
            lines.append(y.take(a, axis) * (1 - t) + y.take(min(a + 1, n - 1), axis) * t)
        y = np.stack(lines, axis)
    return y.astype(x.dtype)


def bicubic(x: Any, sizes: Any, corners: Any, *rest: Any) -> Any:
    sizes, steps = ratios(x, sizes, rest[0])
    y = x.astype(np.float32 if x.itemsize == 2 else x.dtype)
    number = y.dtype.type
    for axis in (3, 2):
        n, m = y.shape[axis], sizes[axis - 2]
        if n == m:
            continue
        lines = []
        for i in range(m):
            half = Fraction(1, 2)
            at = Fraction(i * (n - 1), max(m - 1, 1)) if corners else (i + half) * steps[axis - 2] - half
            a = math.floor(at)
            t = number(at - a)
            far = lambda d: ((d * number(-0.75) + number(3.75)) * d - number(6)) * d + number(3)  # noqa: E731
            near = lambda d: (d * number(1.25) - number(2.25)) * d * d + number(1)  # noqa: E731
            weights = far(t + number(1)), near(t), near(number(1) - t), far(number(2) - t)
            first, *others = (y.take(min(max(a + k - 1, 0), n - 1), axis) * w for k, w in enumerate(weights))
            lines.append(sum(others, first))
        y = np.stack(lines, axis)
    return y.astype(x.dtype)


def sampled(x: Any, grid: Any, mode: int, padding: int, corners: Any) -> Any:
    """Every output element by its definition, each operation in the type of computation."""
    t = np.float32 if x.itemsize == 2 else x.dtype.type
    image, sizes = x.astype(t), x.shape[2:]
    y = np.zeros((*x.shape[:2], *grid.shape[1:3]), x.dtype)
    for n, c, *p in np.ndindex(*y.shape):
        at = []
        for axis in (0, 1):
            g = grid[(n, *p)][1 - axis].astype(t) + t(1)
            v = g / t(2) * t(sizes[axis] - 1) if corners else (g * t(sizes[axis]) - t(1)) / t(2)
            at.append(np.minimum(np.maximum(v, t(0)), t(sizes[axis] - 1)) if padding else v)
        low = [np.rint(v) if mode else np.floor(v) for v in at]
        total = t(0)
        for a, b in [(0, 0)] if mode else [(0, 0), (0, 1), (1, 0), (1, 1)]:
            i, j = ((0 if v != v else int(np.clip(v, -9, 99))) for v in (low[0] + t(a), low[1] + t(b)))
            if 0 <= i < sizes[0] and 0 <= j < sizes[1]:
                rows, columns = (v - f if k else f + t(1) - v for k, v, f in zip((a, b), at, low, strict=True))
                total = image[n, c, i, j] if mode else total + image[n, c, i, j] * (rows * columns)
        y[(n, c, *p)] = total
    return y


REFERENCES = {
    "grid_sampler_2d.default": sampled,
    "upsample_nearest1d.default": nearest,
    "upsample_nearest2d.default": nearest,
    "upsample_nearest2d.vec": nearest,
    "upsample_bilinear2d.default": bilinear,
    "upsample_bilinear2d.vec": bilinear,
    "upsample_bicubic2d.default": bicubic,
    "upsample_bicubic2d.vec": bicubic,
}


def test_every_overload_of_the_family_has_a_formula():
    assert {o.name for o in OPERATORS.values() if o.family == "resample" and not o.inplace_of} == {*REFERENCES}


@pytest.mark.parametrize("name", REFERENCES)
def test_every_sample(name):
    for arguments in drawn(OPERATORS[name]):
        assert same(evaluate(OPERATORS[name], arguments), REFERENCES[name](*arguments)), arguments


def row(*values: float) -> np.ndarray:
    return array(values).reshape(1, 1, 1, -1)


@pytest.mark.parametrize(("values", "size", "corners", "expected"), [
    ([0, 4], 4, False, [0, 1, 3, 4]),
    ([0, 3], 4, True, [0, 1, 2, 3]),
    ([0, 4, 8], 1, False, [4]),
    ([5, 6], 1, True, [5]),
    ([-0.0, inf], 2, False, [-0.0, inf]),  # the same size is a copy
    ([nan, 4], 4, False, [nan, nan, nan, 4]),  # nan * 1 + 4 * 0 at the first, only 4 at the last
])  # fmt: skip
def test_linear(values, size, corners, expected):
    assert same(call("upsample_bilinear2d", row(*values), (1, size), corners), row(*expected))


@pytest.mark.parametrize(("values", "size", "corners", "expected"), [
    ([0, 4], 4, False, [-0.421875, 0.90625, 3.09375, 4.421875]),  # it overshoots
    ([0, 8, 8], 5, True, [0, 4, 8, 8.75, 8]),
    ([4], 2, False, [4, 4]),
    ([1, 2, 4, 8], 1, True, [1]),
    ([-0.0, inf], 2, False, [-0.0, inf]),  # the same size is a copy
    ([nan, 4, 4, 4], 8, False, [nan, nan, nan, nan, nan, 4, 4, 4]),
])  # fmt: skip
def test_cubic(values, size, corners, expected):
    assert same(call("upsample_bicubic2d", row(*values), (1, size), corners), row(*expected))


@pytest.mark.parametrize(("n", "m"), [(3, 7), (7, 3), (10, 29), (29, 10), (1, 5), (100, 99)])
def test_nearest_positions_are_exact(n, m):
    y = call("upsample_nearest1d", np.arange(n, dtype=np.float32).reshape(1, 1, n), (m,))
    assert y.ravel().tolist() == [i * n // m for i in range(m)]


@pytest.mark.parametrize(("point", "mode", "padding", "expected"), [
    ((0, 0), 0, 0, 2.5),
    ((-1, -1), 1, 0, 1),
    ((1, 1), 0, 0, 4),
    ((3, 0), 0, 0, 0),
    ((3, 3), 0, 1, 4),
    ((nan, 0), 0, 0, nan),
    ((nan, nan), 1, 0, 1),
    ((inf, 0), 1, 0, 0),
    ((-inf, 0), 0, 1, 2),
])  # fmt: skip
def test_sampling(point, mode, padding, expected):
    image, grid = array([[1, 2], [3, 4]]).reshape(1, 1, 2, 2), array(point).reshape(1, 1, 1, 2)
    assert same(call("grid_sampler_2d", image, grid, mode, padding, True).reshape(1), array([expected]))


@pytest.mark.parametrize(("name", "args", "error", "text"), [
    ("grid_sampler_2d", (row(1, 2), row(1, 2), 0, 2, False), Unsupported, "there: 0 (bilinear) and 1 (nearest)"),
    ("grid_sampler_2d", (row(1, 2), row(1, 2, 3), 0, 0, False), UserError, "needs [n, c, h, w] and [n, H, W, 2]"),
    ("upsample_nearest2d", (row(1, 2), (1, 0)), UserError, "sizes >= 1"),
    ("upsample_nearest2d", (row(1, 2)[0], (1, 2)), UserError, "needs [n, c] and 2 axes"),
    ("upsample_nearest2d.vec", (row(1, 2), None, None), UserError, "needs one of the two"),
    ("upsample_nearest2d", (row(1, 2, 3), (1, 5), 1.0, 1.5), UserError, "scale factor 1.5 takes size 3 to 4.5, not 5"),
    ("upsample_bilinear2d", (np.array([[[[1]]]]), (2, 2), False), UserError, "needs a float tensor"),
])  # fmt: skip
def test_wrong_arguments(name, args, error, text):
    with pytest.raises(error) as raised:
        call(name, *args)
    assert text in str(raised.value)
