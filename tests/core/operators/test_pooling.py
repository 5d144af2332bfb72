"""Pooling against loops over windows, bit for bit, and literals with NaN, infinities and zeros of both signs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from assay.core.errors import UserError
from assay.core.operators import OPERATORS
from tests.core.operators.calling import array, call, drawn, evaluate, same

inf, nan = math.inf, math.nan
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

Window = tuple[tuple[int, ...], list[tuple[int, ...]], int]


def sliding(x: Any, axes: int, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: Any) -> Iterator[Window]:
    """(output position, positions of x in its window, how many positions lie in x or its padding), for every window."""
    plane = x.shape[-axes:]
    ranges = []
    for n, k, s, p, d in zip(plane, kernel, stride or kernel, padding, dilation, strict=True):
        room = n + 2 * p - d * (k - 1) - 1
        count = (-(-room // s) if ceil else room // s) + 1
        count -= ceil and (count - 1) * s >= n + p
        ranges.append([[q * s - p + j * d for j in range(k)] for q in range(count)])
    for out in np.ndindex(*map(len, ranges)):
        lines = [r[q] for r, q in zip(ranges, out, strict=True)]
        inside = [i for i in itertools.product(*lines) if all(0 <= a < n for a, n in zip(i, plane, strict=True))]
        padded = math.prod(sum(-p <= a < n + p for a in line) for line, p, n in zip(lines, padding, plane, strict=True))
        yield out, inside, padded


def spans(x: Any, axes: int, sizes: Any) -> Iterator[Window]:
    ranges = [[range(q * n // m, -(-(q + 1) * n // m)) for q in range(m)] for n, m in zip(x.shape[-axes:], sizes, strict=True)]
    for out in np.ndindex(*sizes):
        inside = list(itertools.product(*(r[q] for r, q in zip(ranges, out, strict=True))))
        yield out, inside, len(inside)


def order(v: Any) -> Any:
    if np.asarray(v).dtype.kind in "iu":
        return int(v)
    f = float(v)
    return (1, 0.0, 0.0) if f != f else (0, f, math.copysign(1, f))


def maxima(x: Any, axes: int, windows: list[Window]) -> Any:
    plane = x.shape[-axes:]
    sizes = tuple(1 + max(out[k] for out, *_ in windows) for k in range(axes))
    values, places = np.empty((*x.shape[:-axes], *sizes), x.dtype), np.empty((*x.shape[:-axes], *sizes), np.int64)
    for lead in np.ndindex(*x.shape[:-axes]):
        for out, inside, _ in windows:
            best = max(inside, key=lambda i, lead=lead: order(x[(*lead, *i)]))  # max returns the first of equal ones
            values[(*lead, *out)], places[(*lead, *out)] = x[(*lead, *best)], np.ravel_multi_index(best, plane)
    return values, places


def means(x: Any, axes: int, windows: list[Window], count: Callable[..., int]) -> Any:
    how = np.float32 if x.itemsize == 2 else x.dtype.type
    sizes = tuple(1 + max(out[k] for out, *_ in windows) for k in range(axes))
    y = np.empty((*x.shape[:-axes], *sizes), x.dtype)
    for lead in np.ndindex(*x.shape[:-axes]):
        for out, inside, padded in windows:
            total = how(0)
            for i in inside:
                total = total + x[(*lead, *i)].astype(how)
            y[(*lead, *out)] = total / how(count(len(inside), padded))
    return y


def max_pool(axes: int) -> Callable[..., Any]:
    return lambda x, *rest: maxima(x, axes, list(sliding(x, axes, *rest)))


def avg_pool(axes: int) -> Callable[..., Any]:
    def reference(x: Any, kernel: Any, stride: Any, padding: Any, ceil: Any, include: Any, divisor: Any = None) -> Any:
        windows = list(sliding(x, axes, kernel, stride, padding, (1,) * axes, ceil))
        return means(x, axes, windows, lambda inside, padded: divisor or (padded if include else inside))

    return reference


REFERENCES = {
    "max_pool1d.default": lambda *a: max_pool(1)(*a)[0],
    "max_pool2d.default": lambda *a: max_pool(2)(*a)[0],
    "max_pool3d.default": lambda *a: max_pool(3)(*a)[0],
    "max_pool1d_with_indices.default": max_pool(1),
    "max_pool2d_with_indices.default": max_pool(2),
    "max_pool3d_with_indices.default": max_pool(3),
    "avg_pool1d.default": avg_pool(1),
    "avg_pool2d.default": avg_pool(2),
    "avg_pool3d.default": avg_pool(3),
    **{f"{name}.default": lambda x, sizes, axes=axes: means(x, axes, list(spans(x, axes, sizes)), lambda inside, _: inside)
       for name, axes in (("adaptive_avg_pool1d", 1), ("adaptive_avg_pool2d", 2), ("_adaptive_avg_pool2d", 2),
                          ("adaptive_avg_pool3d", 3), ("_adaptive_avg_pool3d", 3))},
    "adaptive_max_pool1d.default": lambda x, sizes: maxima(x, 1, list(spans(x, 1, sizes))),
    "adaptive_max_pool2d.default": lambda x, sizes: maxima(x, 2, list(spans(x, 2, sizes))),
    "adaptive_max_pool3d.default": lambda x, sizes: maxima(x, 3, list(spans(x, 3, sizes))),
}  # fmt: skip


def test_every_overload_of_the_family_has_a_formula():
    assert {o.name for o in OPERATORS.values() if o.family == "pooling" and not o.inplace_of} == {*REFERENCES}


@pytest.mark.parametrize("name", REFERENCES)
def test_every_sample(name):
    for arguments in drawn(OPERATORS[name]):
        assert same(evaluate(OPERATORS[name], arguments), REFERENCES[name](*arguments)), arguments


def line(*values: float) -> np.ndarray:
    return array(values).reshape(1, -1)


@pytest.mark.parametrize(("values", "kernel", "padding", "maximum", "index"), [
    ([1, 3, 3], 3, 0, 3, 1),  # of equal elements the first
    ([nan, 1, nan], 3, 0, nan, 0),  # of NaNs the first
    ([1, nan, 5], 3, 0, nan, 1),
    ([-0.0, 0.0], 2, 0, 0.0, 1),
    ([0.0, -0.0], 2, 0, 0.0, 0),
    ([-inf, -inf], 2, 0, -inf, 0),
    ([-1, -2], 2, 1, -1, 0),  # the padding is -inf, not 0
    ([-inf], 2, 1, -inf, 0),  # and its place is never returned
])  # fmt: skip
def test_maxima(values, kernel, padding, maximum, index):
    y, at = call("max_pool1d_with_indices", line(*values), kernel, kernel, padding)
    assert same(y[:, :1], line(maximum))
    assert at[0, 0] == index
    assert same(call("max_pool1d", line(*values), kernel, kernel, padding)[:, :1], line(maximum))


@pytest.mark.parametrize(("kernel", "kwargs", "expected"), [
    (2, {}, [1, 3.5]),
    (2, {"stride": 1}, [1, 2, 3.5]),
    (2, {"padding": 1}, [0, 2, 2.5]),
    (2, {"padding": 1, "count_include_pad": False}, [0, 2, 5]),
    (3, {}, [array([4])[0] / 3]),
    (3, {"ceil_mode": True}, [array([4])[0] / 3, 5]),  # the last window holds one element
])  # fmt: skip
def test_averages(kernel, kwargs, expected):
    assert same(call("avg_pool1d", line(0, 2, 2, 5), kernel, **kwargs), line(*expected))


@pytest.mark.parametrize(("x", "expected"), [([1e8, 1, -1e8], 0), ([nan, 1, 1], nan), ([inf, -inf, 1], nan), ([-0.0] * 3, 0)])
def test_the_sum_of_a_window_is_a_left_fold_from_zero(x, expected):
    assert same(call("avg_pool1d", line(*x), 3), line(expected))


def test_a_window_of_integers():
    x = np.array([[-5, -7, -6]], np.int8)
    assert call("max_pool1d", x, 3).tolist() == [[-5]]


@pytest.mark.parametrize(("name", "args", "text"), [
    ("max_pool1d", (line(1, 2), 3), "do not fit"),
    ("max_pool1d", (line(1, 2), 2, 1, 2), "a padding of at most half the kernel"),
    ("max_pool1d", (line(1, 2), 0), "sizes >= 1"),
    ("max_pool1d", (array([1, 2]), 1), "needs 2 or 3 axes"),
    ("avg_pool1d", (np.array([[1, 2]]), 1), "needs a float tensor, not i64"),
    ("avg_pool2d", (array([[[1.0]]]), 1, 1, 0, False, True, 0), "divisor_override must not be 0"),
    ("adaptive_avg_pool1d", (line(1, 2), 0), "sizes >= 1"),
])  # fmt: skip
def test_wrong_arguments(name, args, text):
    with pytest.raises(UserError) as raised:
        call(name, *args)
    assert text in str(raised.value)
