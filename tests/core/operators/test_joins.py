"""Joins, pads and windows of pixels against numpy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from assay.core import dtypes as dt
from assay.core.errors import UserError
from assay.core.lang import walk
from assay.core.operators import OPERATORS
from assay.core.operators.samples import like
from tests.core.operators.calling import array, call, drawn, evaluate, same

inf, nan = math.inf, math.nan
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def _cat(tensors: Any, d: int) -> Any:
    dtype = tensors[0].dtype
    for t in tensors[1:]:
        dtype = dt.promote(dt.dtype(dtype), dt.dtype(t.dtype)).numpy
    parts = [t.astype(dtype) for t in tensors if t.shape != (0,)]
    return np.concatenate(parts, d)


def _stack(tensors: Any, d: int) -> Any:
    d = d % (tensors[0].ndim + 1)
    return _cat([np.expand_dims(t, d) for t in tensors], d)


def _widths(x: Any, pad: Any) -> Any:
    given = [(pad[k], pad[k + 1]) for k in range(0, len(pad), 2)]
    return [(0, 0)] * (x.ndim - len(given)) + given[::-1]


def _constant(x: Any, pad: Any, value: Any = 0) -> Any:
    if not x.ndim:
        return x
    widths = _widths(x, pad)
    grown = np.pad(x, [(max(a, 0), max(b, 0)) for a, b in widths], constant_values=np.asarray(value).astype(x.dtype))
    return grown[tuple(slice(max(-a, 0), n - max(-b, 0)) for n, (a, b) in zip(grown.shape, widths, strict=True))]


def _pad(x: Any, pad: Any, mode: str = "reflect", value: Any = None) -> Any:
    if mode == "constant":
        return _constant(x, pad, 0 if value is None else value)
    cropped = _constant(x, [min(p, 0) for p in pad])
    name = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode]
    return np.pad(cropped, [(max(a, 0), max(b, 0)) for a, b in _widths(x, pad)], name)


def _im2col(x: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    x4 = x if x.ndim == 4 else x[None]
    n, c, *_ = x4.shape
    wide = np.pad(x4, [(0, 0), (0, 0), *((p, p) for p in padding)])
    h, w = ((m - d * (k - 1) - 1) // s + 1 for m, d, k, s in zip(wide.shape[2:], dilation, kernel, stride, strict=True))
    y = np.empty((n, c, *kernel, h, w), x.dtype)
    for a, b in np.ndindex(*kernel):
        rows, columns = a * dilation[0] + np.arange(h) * stride[0], b * dilation[1] + np.arange(w) * stride[1]
        y[:, :, a, b] = wide[:, :, rows[:, None], columns]
    y = y.reshape(n, c * kernel[0] * kernel[1], h * w)
    return y if x.ndim == 4 else y[0]


def _col2im(x: Any, size: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    """Every window added to its place, kernel positions in row-major order."""
    x3 = x if x.ndim == 3 else x[None]
    n, rows, _ = x3.shape
    c = rows // math.prod(kernel)
    y = np.zeros((n, c, *(m + 2 * p for m, p in zip(size, padding, strict=True))), x.dtype)
    h, w = ((m - d * (k - 1) - 1) // s + 1 for m, d, k, s in zip(y.shape[2:], dilation, kernel, stride, strict=True))
    cells = x3.reshape(n, c, *kernel, h, w)
    for a, b in np.ndindex(*kernel):
        at = (slice(a * dilation[0], None, stride[0]), slice(b * dilation[1], None, stride[1]))
        y[(slice(None), slice(None), *at)][:, :, :h, :w] += cells[:, :, a, b]
    y = y[:, :, padding[0] : padding[0] + size[0], padding[1] : padding[1] + size[1]]
    return y if x.ndim == 3 else y[0]


def _shuffle(x: Any, r: int) -> Any:
    *lead, c, h, w = x.shape
    y = x.reshape(*lead, c // r**2, r, r, h, w)
    return np.moveaxis(y, (-4, -3), (-3, -1)).reshape(*lead, c // r**2, h * r, w * r)


def _unshuffle(x: Any, r: int) -> Any:
    *lead, c, h, w = x.shape
    y = x.reshape(*lead, c, h // r, r, w // r, r)
    return np.moveaxis(y, (-3, -1), (-4, -3)).reshape(*lead, c * r * r, h // r, w // r)


REFERENCES = {
    "cat.default": _cat,
    "stack.default": _stack,
    "hstack.default": np.hstack,
    "vstack.default": np.vstack,
    "dstack.default": np.dstack,
    "meshgrid.indexing": lambda ts, how: tuple(np.array(t) for t in np.meshgrid(*ts, indexing=how)),
    "constant_pad_nd.default": _constant,
    "pad.default": _pad,
    "reflection_pad1d.default": _pad,
    "reflection_pad2d.default": _pad,
    "reflection_pad3d.default": _pad,
    "replication_pad1d.default": lambda x, p: _pad(x, p, "replicate"),
    "replication_pad2d.default": lambda x, p: _pad(x, p, "replicate"),
    "replication_pad3d.default": lambda x, p: _pad(x, p, "replicate"),
    "pixel_shuffle.default": _shuffle,
    "pixel_unshuffle.default": _unshuffle,
    "im2col.default": _im2col,
    "col2im.default": _col2im,
    "channel_shuffle.default": lambda x, g: x.reshape(x.shape[0], g, -1, *x.shape[2:]).swapaxes(1, 2).reshape(x.shape),
}


def test_every_overload_of_the_family_has_a_formula():
    assert {o.name for o in OPERATORS.values() if o.family == "joins" and not o.inplace_of} == {*REFERENCES}


@pytest.mark.parametrize("name", REFERENCES)
def test_every_sample(name):
    for arguments in drawn(OPERATORS[name]):
        assert same(evaluate(OPERATORS[name], arguments), REFERENCES[name](*arguments)), arguments


X = array([[1, nan, -0.0]])


@pytest.mark.parametrize(("name", "args", "expected"), [
    ("cat", ([array([-0.0]), array([nan, inf])],), [-0.0, nan, inf]),
    ("cat", ([array([1]), array([])],), [1]),
    ("stack", ([array([1, 2]), array([3, nan])], 1), [[1, 3], [2, nan]]),
    ("constant_pad_nd", (array([1, 2]), (1, 1), -0.0), [-0.0, 1, 2, -0.0]),
    ("constant_pad_nd", (array([nan, -0.0]), (1, 0), 0), [0, nan, -0.0]),
    ("constant_pad_nd", (array([1, 2]), (1, 1), nan), [nan, 1, 2, nan]),
    ("pad", (array([1, 2, 3]), (2, 2), "reflect"), [3, 2, 1, 2, 3, 2, 1]),
    ("pad", (array([1, 2, 3]), (2, 1), "replicate"), [1, 1, 1, 2, 3, 3]),
    ("pad", (array([1, 2, 3]), (3, 3), "circular"), [1, 2, 3, 1, 2, 3, 1, 2, 3]),
    ("pad", (array([1, 2, 3]), (-1, 2), "circular"), [2, 3, 2, 3]),
    ("pad", (array([1, 2, 3]), (-3, 0)), []),
])  # fmt: skip
def test_values(name, args, expected):
    assert same(call(name, *args), array(expected))


def test_a_pad_of_an_integer_takes_a_whole_number():
    assert call("pad", np.array([1], np.int32), (1, 0), "constant", 2.0).tolist() == [2, 1]


@pytest.mark.parametrize(("name", "samples", "loads"), [
    ("cat.default", ((like(3), like(4)), 0), {"load"}),
    ("constant_pad_nd.default", (like(3), (1, 2), 1.5), {"load"}),  # guarded by a select
    ("constant_pad_nd.default", (like(3), (1, 2), -0.0), {"load"}),
    ("constant_pad_nd.default", (like(3), (1, 2), 0), {"load_or_zero"}),
    ("pad.default", (like(3), (1, 2), "reflect", None), {"load"}),
])  # fmt: skip
def test_only_pads_with_zero_load_outside(name, samples, loads):
    p = OPERATORS[name].program(*samples)
    assert {e.op for t in p.outputs for e in walk((t.body,)) if e.op.startswith("load")} == loads


@pytest.mark.parametrize(("name", "args", "text"), [
    ("cat", ([],), "at least one tensor"),
    ("cat", ([array(1), array(2)],), "use stack"),
    ("cat", ([array([[1]]), array([1])],), "differ outside axis 0"),
    ("cat", ([array([[1]]), array([[1, 2]])],), "differ outside axis 0"),
    ("cat", ([array([1])], 1), "dim 1 is not an axis"),
    ("stack", ([array([1]), array([1, 2])],), "differ"),
    ("pad", (array([1, 2]), (2, 0), "reflect"), "less than the size"),
    ("pad", (array([1, 2]), (3, 0), "circular"), "at most the size"),
    ("pad", (array([]), (1, 0), "replicate"), "nothing to repeat"),
    ("pad", (array([1, 2]), (1,)), "two numbers for each"),
    ("pad", (array([1, 2]), (1, 1, 1, 1)), "two numbers for each"),
    ("pad", (array([1, 2]), (-2, -1)), "negative size"),
    ("pad", (array([1, 2]), (1, 1), "mirror"), "allowed: 'constant', 'reflect'"),
    ("pad", (array([1, 2]), (1, 1), "reflect", 1.0), "no meaning"),
    ("constant_pad_nd", (np.array([1]), (1, 0), 0.5), "not a value of type i64"),
    ("pixel_shuffle", (array([[[1]]]), 2), "must be a multiple of 4"),
    ("im2col", (array([[[1.0]]]), (2, 2), (1, 1), (0, 0), (1, 1)), "do not fit"),
    ("meshgrid", ([array([1])], "yx"), "allowed: 'ij', 'xy'"),
])  # fmt: skip
def test_wrong_arguments(name, args, text):
    kwargs = {"indexing": args[1]} if name == "meshgrid" else {}
    with pytest.raises(UserError) as raised:
        call(name, *(args[:1] if kwargs else args), **kwargs)
    assert text in str(raised.value)
