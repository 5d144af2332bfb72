"""Creation, conversion and filling, on literal values and on every sample."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from assay.core import dtypes as dt
from assay.core.errors import UserError
from assay.core.operators import OPERATORS
from tests.core.operators.calling import array, call, drawn, evaluate, same

inf, nan = math.inf, math.nan


def converted(x: Any, d: dt.DType) -> np.ndarray:
    """x as `d` by the stated rules, with Python's own numbers."""
    x = np.asarray(x)
    source = dt.dtype(x.dtype)
    if d is dt.bool_:
        return x != 0
    if source.is_float and not d.is_float:
        values = x.astype(np.float64).ravel().tolist()
        cut = [0 if v != v else min(max(v, d.lo), d.hi) for v in values]
        return np.array([int(v) for v in cut], d.numpy).reshape(x.shape)
    if d.is_float:
        with np.errstate(over="ignore"):
            return x.astype(np.float32).astype(d.numpy) if d.is_half or source.is_half else x.astype(d.numpy)
    return x.astype(d.numpy)


def test_every_conversion():
    for name in ("_to_copy.default", "to.dtype"):
        for x, d, *_ in drawn(OPERATORS[name]):
            assert same(evaluate(OPERATORS[name], (x, d, *_)), converted(x, d or dt.dtype(x.dtype))), (x.dtype, d, x)


@pytest.mark.parametrize(("values", "source", "target", "expected"), [
    ([nan, inf, -inf, 300.0, -1.0], "f32", "i32", [0, 2**31 - 1, -(2**31), 300, -1]),
    ([nan, inf, -inf, 300.0, -1.0], "f32", "i8", [0, 127, -128, 127, -1]),
    ([nan, inf, -inf, 300.0, -1.0], "f32", "u8", [0, 255, 0, 255, 0]),
    ([1.9, -1.9, -0.0], "f64", "i64", [1, -1, 0]),
    ([300, -1], "i32", "i8", [44, -1]),
    ([300, -1], "i64", "u8", [44, 255]),
    ([nan, 0.0, -0.0, 1e-45], "f32", "bool", [True, False, False, True]),
    ([True, False], "bool", "f32", [1.0, 0.0]),
    ([2**53 + 1], "i64", "f64", [2.0**53]),
    ([65520.0, 65519.0, 1e-8], "f32", "f16", [inf, 65504.0, 0.0]),
    ([3.4e38], "f32", "bf16", [inf]),
    ([1.00390625], "f32", "bf16", [1.0]),  # a tie, to even
])  # fmt: skip
def test_conversions(values, source, target, expected):
    with np.errstate(over="ignore"):
        assert same(call("to", array(values, source), dt.DTYPES[target]), array(expected, target))


@pytest.mark.parametrize(("name", "args", "expected", "dtype"), [
    ("zeros", ((2,),), [0.0, 0.0], "f32"),
    ("empty", ((2,),), [0.0, 0.0], "f32"),
    ("ones", ((1, 2),), [[1.0, 1.0]], "f32"),
    ("full", ((2,), 3), [3, 3], "i64"),
    ("full", ((2,), -0.0), [-0.0, -0.0], "f32"),
    ("full", ((), True), True, "bool"),
    ("full_like", (array([1], "i64"), 2.9), [2], "i64"),
    ("full_like", (array([1], "bool"), 0.5), [True], "bool"),
    ("scalar_tensor", (2,), 2.0, "f32"),
    ("arange", (4,), [0, 1, 2, 3], "i64"),
    ("arange", (2.5,), [0.0, 1.0, 2.0], "f32"),
    ("arange", (5, -5, -2), [5, 3, 1, -1, -3], "i64"),
    ("arange", (0, 1, 0.25), [0.0, 0.25, 0.5, 0.75], "f32"),
    ("arange", (3, 3), [], "i64"),
    ("linspace", (0, 1, 5), [0.0, 0.25, 0.5, 0.75, 1.0], "f32"),
    ("linspace", (0, 1, 1), [0.0], "f32"),
    ("linspace", (0, 1, 0), [], "f32"),
    ("eye", (2,), [[1.0, 0.0], [0.0, 1.0]], "f32"),
    ("eye", (1, 2), [[1.0, 0.0]], "f32"),
])  # fmt: skip
def test_values(name, args, expected, dtype):
    assert same(call(name, *args), array(expected, dtype))


def test_linspace_ends_exactly():
    for start, end, n in ((0.1, 0.7, 7), (-3.3, 9.9, 100), (1e-30, 1e30, 10)):
        y = call("linspace", start, end, n)
        assert (y[0], y[-1]) == (np.float32(start), np.float32(end))


LIKE = {"zeros_like": 0, "empty_like": 0, "ones_like": 1}


def test_like_and_new():
    for base, value in LIKE.items():
        for x, d in drawn(OPERATORS[f"{base}.default"]):
            assert same(evaluate(OPERATORS[f"{base}.default"], (x, d)), np.full(x.shape, value, (d or dt.dtype(x.dtype)).numpy))
    for x, size, d in drawn(OPERATORS["new_zeros.default"]):
        assert same(evaluate(OPERATORS["new_zeros.default"], (x, size, d)), np.zeros(size, (d or dt.dtype(x.dtype)).numpy))
        assert same(evaluate(OPERATORS["new_empty.default"], (x, size, d)), np.zeros(size, (d or dt.dtype(x.dtype)).numpy))
        assert same(evaluate(OPERATORS["new_ones.default"], (x, size, d)), np.ones(size, (d or dt.dtype(x.dtype)).numpy))
    for name in ("full_like.default", "new_full.default"):
        for x, *rest in drawn(OPERATORS[name]):
            *size, value, d = rest
            expected = converted(np.full(size[0] if size else x.shape, value), d or dt.dtype(x.dtype))
            assert same(evaluate(OPERATORS[name], (x, *rest)), expected)


def test_fill_copy_zero():
    for x, value in drawn(OPERATORS["fill.Scalar"]):
        assert same(evaluate(OPERATORS["fill.Scalar"], (x, value)), converted(np.full(x.shape, value), dt.dtype(x.dtype)))
    for x, value in drawn(OPERATORS["fill.Tensor"]):
        assert same(evaluate(OPERATORS["fill.Tensor"], (x, value)), converted(np.full(x.shape, value), dt.dtype(x.dtype)))
    for x, y, _ in drawn(OPERATORS["copy.default"]):
        assert same(evaluate(OPERATORS["copy.default"], (x, y, _)), converted(np.broadcast_to(y, x.shape), dt.dtype(x.dtype)))
    for x, y in drawn(OPERATORS["type_as.default"]):
        assert same(evaluate(OPERATORS["type_as.default"], (x, y)), converted(x, dt.dtype(y.dtype)))
    for (x,) in drawn(OPERATORS["zero.default"]):
        assert same(evaluate(OPERATORS["zero.default"], (x,)), np.zeros(x.shape, x.dtype))


@pytest.mark.parametrize(("name", "args"), [
    ("zeros", ((-1,),)), ("arange", (0, 5, 0)), ("arange", (5, 0)), ("arange", (0, inf)), ("linspace", (0, 1, -1)),
    ("eye", (-1,)),
    ("full", ((2,), 2**70)), ("fill", (array([1], "u8"), 300)), ("fill", (array([1], "i32"), nan)),
    ("fill", (array([1], "i8"), -128.5 - 1)),
    ("fill", (array([1.0, 2.0]), array([1.0]))), ("zeros", ((1 << 21, 1 << 21),)),
])  # fmt: skip
def test_bad_arguments(name, args):
    with pytest.raises(UserError):
        call(name, *args)


def test_copy_broadcasts_to_the_target_only():
    with pytest.raises(UserError):
        call("copy_", array([1.0]), array([1.0, 2.0]))
