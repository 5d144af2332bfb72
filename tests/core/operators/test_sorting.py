"""Sorting and searching against Python's stable sort and bisect."""

from __future__ import annotations

import bisect
import math
from typing import Any

import numpy as np
import pytest

from assay.core.errors import Unsupported, UserError
from assay.core.operators import OPERATORS
from tests.core.operators.calling import array, call, drawn, evaluate, same

inf, nan = math.inf, math.nan


def order(v: Any) -> Any:
    if np.asarray(v).dtype.kind in "biu":
        return int(v)
    return (1, 0.0) if v != v else (0, float(v))


def places(x: Any, d: int, descending: Any) -> Any:
    """The stable order along d: Python's sort keeps ties in their order, reversed or not."""
    rows = np.moveaxis(np.atleast_1d(x), d, -1)
    found = np.empty(rows.shape, np.int64)
    for i in np.ndindex(*rows.shape[:-1]):
        found[i] = sorted(range(rows.shape[-1]), key=lambda k, i=i: order(rows[i][k]), reverse=bool(descending))
    return np.moveaxis(found, -1, d).reshape(x.shape)


def read(x: Any, at: Any, d: int) -> Any:
    return np.take_along_axis(x, at, d) if x.ndim else x


def sort(x: Any, d: int, descending: Any) -> Any:
    at = places(x, d, descending)
    return read(x, at, d), at


def topk(x: Any, k: int, d: int, largest: Any, _: Any) -> Any:
    first = np.take(places(x, d, largest), np.arange(k), d) if x.ndim else np.array(0)
    return read(x, first, d), first


def at_place(x: Any, d: int, k: int, keepdim: Any) -> Any:
    if not x.ndim:
        return x, np.array(0)
    at = np.take(places(x, d, False), [k], d)
    return tuple(a if keepdim else a.squeeze(d) for a in (read(x, at, d), at))


def median(x: Any, d: int, keepdim: Any) -> Any:
    values, at = at_place(x, d, ((x.shape[d] if x.ndim else 1) - 1) // 2, True)
    if x.dtype.kind not in "biu" and x.ndim:
        missing = np.isnan(x.astype(np.float64))
        some = missing.any(d, keepdims=True)
        at = np.where(some, missing.argmax(d, keepdims=True), at)
        values = read(x, at, d)
    return (values, at) if keepdim or not x.ndim else (values.squeeze(d), at.squeeze(d))


def mode(x: Any, d: int, keepdim: Any) -> Any:
    if not x.ndim:
        return x, np.array(0)
    rows = np.moveaxis(x, d, -1)
    found = np.empty(rows.shape[:-1], np.int64)
    for i in np.ndindex(*found.shape):
        counts = (rows[i][:, None] == rows[i]).sum(1)
        k = min(np.flatnonzero(counts == counts.max()), key=lambda k, i=i: order(rows[i][k]))
        found[i] = max(np.flatnonzero(rows[i] == rows[i][k]), default=k)
    at = np.expand_dims(found, d)
    return tuple(a if keepdim else a.squeeze(d) for a in (read(x, at, d), at))


REFERENCES = {
    "sort.default": sort,
    "sort.stable": lambda x, _, d, descending: sort(x, d, descending),
    "argsort.default": places,
    "argsort.stable": lambda x, _, d, descending: places(x, d, descending),
    "msort.default": lambda x: sort(x, 0, False)[0],
    "topk.default": topk,
    "kthvalue.default": lambda x, k, d, keepdim: at_place(x, d, k - 1, keepdim),
    "median.dim": median,
    "mode.default": mode,
    "median.default": lambda x: median(x.ravel(), 0, False)[0],
}


def test_every_overload_of_the_family_has_a_formula():
    others = {f"{name}.{o}" for name in ("searchsorted", "bucketize") for o in ("Tensor", "Scalar")}
    others |= {"unique_dim.default", "_unique2.default", "unique_consecutive.default"}
    assert {o.name for o in OPERATORS.values() if o.family == "sorting" and not o.inplace_of} == {*REFERENCES, *others}


@pytest.mark.parametrize("name", REFERENCES)
def test_every_sample(name):
    for arguments in drawn(OPERATORS[name]):
        assert same(evaluate(OPERATORS[name], arguments), REFERENCES[name](*arguments)), arguments


@pytest.mark.parametrize(("name", "args", "values", "indices"), [
    ("sort", ([3, nan, -inf, 3, inf],), [-inf, 3, 3, inf, nan], [2, 0, 3, 4, 1]),
    ("sort", ([1, nan, 1, 2], 0, True), [nan, 2, 1, 1], [1, 3, 0, 2]),
    ("sort", ([0.0, -0.0, 0.0],), [0.0, -0.0, 0.0], [0, 1, 2]),  # equal: they keep their order
    ("topk", ([1, 3, nan, 3], 3), [nan, 3, 3], [2, 1, 3]),
    ("topk", ([1, 3, nan, 1], 2, 0, False), [1, 1], [0, 3]),
    ("kthvalue", ([5, 1, 5, nan], 2), 5, 0),
    ("median", ([4, 1, 3, 2], 0), 2, 3),
    ("mode", ([3, 1, 3, 1, 2],), 1, 3),
    ("mode", ([nan, nan, inf],), inf, 2),
    ("mode", ([nan, nan],), nan, 0),
    ("mode", ([5, -0.0, 0.0],), 0.0, 2),
    ("median", ([4, nan, 3, nan], 0), nan, 1),
])  # fmt: skip
def test_values(name, args, values, indices):
    assert same(call(name, array(args[0]), *args[1:]), (array(values), np.array(indices)))


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "bf16", "i64", "u8"])
@pytest.mark.parametrize("right", [False, True])
def test_searching_is_bisection(dtype, right):
    rows = array([-3, -1, -1, 0, 2, 2, 2, 7], dtype) if dtype != "u8" else array([0, 1, 1, 3, 3, 9], dtype)
    values = array([-4, -3, -2, -1, 0, 1, 2, 7, 8] if dtype != "u8" else [0, 1, 2, 3, 9, 10], dtype)
    find = bisect.bisect_right if right else bisect.bisect_left
    expected = np.array([find(rows.tolist(), v) for v in values.tolist()])
    assert same(call("searchsorted", rows, values, right=right), expected)
    assert same(call("bucketize", values, rows, right=right), expected)
    assert same(call("searchsorted", rows, values[2].item(), right=right), expected[2])
    assert same(call("bucketize", values[2].item(), rows, right=right), expected[2])
    assert same(call("bucketize", values, rows, out_int32=True, right=right), expected.astype(np.int32))
    assert same(call("searchsorted", np.stack([rows, rows]), np.stack([values, values]), side="right" if right else "left"),
                np.stack([expected, expected]))  # fmt: skip


@pytest.mark.parametrize(("rows", "values", "left", "right"), [
    ([], [1, nan], [0, 0], [0, 0]),
    ([0.0], [-0.0], [0], [1]),
    ([-inf, inf], [-inf, inf, nan], [0, 1, 2], [1, 2, 2]),
])  # fmt: skip
def test_searching_special_values(rows, values, left, right):
    assert call("searchsorted", array(rows), array(values)).tolist() == left
    assert call("searchsorted", array(rows), array(values), right=True).tolist() == right


@pytest.mark.parametrize(("name", "args", "error", "text"), [
    ("topk", (array([1, 2]), 3), UserError, "k=3 of an axis of size 2; allowed: 0..2"),
    ("kthvalue", (array([1, 2]), 0), UserError, "allowed: 1..2"),
    ("median", (array([]), 0), UserError, "does not exist"),
    ("sort", (array([1]), 1), UserError, "dim 1 is not an axis"),
    ("searchsorted", (array(1), array([1])), UserError, "at least one axis"),
    ("searchsorted", (array([[1]]), array([1])), UserError, "the leading sizes differ"),
    ("bucketize", (array([1]), array([[1]])), UserError, "one axis"),
    ("_unique2", (array([1]),), Unsupported, "depends on the data; use sort"),
    ("unique_consecutive", (array([1]),), Unsupported, "depends on the data"),
    ("unique_dim", (array([1]), 0), Unsupported, "depends on the data"),
])  # fmt: skip
def test_wrong_arguments(name, args, error, text):
    with pytest.raises(error) as raised:
        call(name, *args)
    assert text in str(raised.value)


def test_sides_that_contradict_each_other():
    with pytest.raises(UserError, match="side='left', right=True"):
        call("searchsorted", array([1]), array([1]), right=True, side="left")
