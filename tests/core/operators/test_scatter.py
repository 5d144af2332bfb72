"""Writes through indices against loops in lexicographic order, literal duplicates, and errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from assay.core import dtypes as dt
from assay.core.errors import OutOfBounds, Unsupported, UserError
from assay.core.operators import OPERATORS
from tests.core.operators.calling import array, call, drawn, evaluate, same

inf, nan = math.inf, math.nan
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def at(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


# ------------------------------------------------------------------------------------------------ every sample


def written(base: Any, domain: tuple[int, ...], target: Callable[..., Any], value: Callable[..., Any], how: str | None) -> Any:
    """A loop over the domain; accumulation in f32 for half types, in the type itself otherwise."""
    half = base.dtype in (np.float16, ml_dtypes.bfloat16)
    y = base.astype(np.float32) if half and how else base.copy()
    for u in np.ndindex(*domain):
        v = np.asarray(value(u))
        t, v = target(u), (v if v.dtype == y.dtype else v.astype(base.dtype)).astype(y.dtype)
        if how is None:
            y[t] = v
        elif y.dtype == np.bool_:
            y[t] = (y[t] | v) if how in ("add", "amax") else (y[t] & v)
        else:
            a, b = y[t], v
            y[t] = a + b if how == "add" else a * b if how == "mul" else np.maximum(a, b) if how == "amax" else np.minimum(a, b)
    return y.astype(base.dtype)


def along(index: Any, d: int) -> Callable[..., Any]:
    return lambda u: (*u[: d % len(u)], index[u], *u[d % len(u) + 1 :]) if u else ()


def scatter(x: Any, d: int, index: Any, source: Any, reduce: str | None = None) -> Any:
    how = {None: None, "add": "add", "multiply": "mul"}[reduce]
    return written(x, index.shape, along(index, d), lambda u: source[u] if isinstance(source, np.ndarray) else source, how)


def scatter_reduce(x: Any, d: int, index: Any, source: Any, reduce: str, include_self: Any) -> Any:
    how = {"sum": "add", "mean": "add", "prod": "mul"}.get(reduce, reduce)
    integer = x.dtype.kind == "i"
    low, high = (np.iinfo(x.dtype).min, np.iinfo(x.dtype).max) if integer else (-inf, inf)
    start = x if include_self else np.full_like(x, {"add": 0, "mul": 1, "amax": low, "amin": high}[how])
    y = written(start, index.shape, along(index, d), lambda u: source[u], how)
    hits = written(np.zeros(x.shape, np.int64), index.shape, along(index, d), lambda u: 1, "add")
    if reduce == "mean":
        n = np.maximum(hits + int(include_self), 1).astype(x.dtype)
        y = y // n if integer else y / n
    return y if include_self else np.where(hits > 0, y, x)


def index_put(x: Any, given: Any, values: Any, accumulate: Any) -> Any:
    places = tuple(slice(None) if i is None else i for i in given)
    block = np.broadcast_to(values, x[places].shape)
    where = np.arange(x.size).reshape(x.shape)[places]
    how = "add" if accumulate else None
    flat = written(x.ravel(), block.shape, lambda u: where[u], lambda u: block[u], how)
    return flat.reshape(x.shape)


def slices(x: Any, d: int, index: Any, source: Any, how: str | None, alpha: Any = 1) -> Any:
    index = np.atleast_1d(index)
    scaled = source if source.dtype == np.bool_ else source.astype(np.float32) * np.float32(alpha) if source.itemsize == 2 and \
        source.dtype.kind not in "iu" else source * np.asarray(alpha, source.dtype)  # fmt: skip
    return written(x, source.shape, along_slices(index, d, x), lambda u: scaled[u], how)


def along_slices(index: Any, d: int, x: Any) -> Callable[..., Any]:
    return lambda u: (*u[: d % x.ndim], index[u[d % x.ndim]], *u[d % x.ndim + 1 :]) if x.ndim else ()


def index_fill(x: Any, d: int, index: Any, value: Any) -> Any:
    y = np.atleast_1d(x.copy())
    y[(*[slice(None)] * (d % y.ndim), np.atleast_1d(index))] = np.asarray(value).astype(x.dtype)
    return y.reshape(x.shape)


def masked_scatter(x: Any, mask: Any, source: Any) -> Any:
    shape = np.broadcast_shapes(x.shape, mask.shape)
    y, held = np.broadcast_to(x, shape).copy(), np.broadcast_to(mask, shape)
    y[held] = source.ravel()[: held.sum()]
    return y


def into(view: Callable[..., Any]) -> Callable[..., Any]:
    def write(x: Any, src: Any, *rest: Any) -> Any:
        y = x.copy()
        view(y, *rest)[...] = src
        return y

    return write


def _slice(y: Any, d: int, start: Any, end: Any, step: int) -> Any:
    return y[(*[slice(None)] * (d % y.ndim), slice(start, end, step))]


def _diagonal(y: Any, offset: int, a: int, b: int) -> Any:
    view = np.diagonal(y, offset, a, b)
    view.flags.writeable = True
    return view


def as_strided_scatter(x: Any, src: Any, size: Any, stride: Any, offset: Any) -> Any:
    y = x.flatten()
    for i in np.ndindex(*size):
        y[(offset or 0) + sum(s * k for s, k in zip(stride, i, strict=True))] = src[i]
    return y.reshape(x.shape)


REFERENCES = {
    "scatter.src": scatter,
    "scatter.value": scatter,
    "scatter.reduce": scatter,
    "scatter.value_reduce": scatter,
    "scatter_add.default": lambda x, d, i, s: scatter(x, d, i, s, "add"),
    "scatter_reduce.two": scatter_reduce,
    "index_put.default": index_put,
    "index_add.default": lambda x, d, i, s, alpha: slices(x, d, i, s, "add", alpha),
    "index_copy.default": lambda x, d, i, s: slices(x, d, i, s, None),
    "index_fill.int_Scalar": index_fill,
    "index_fill.int_Tensor": index_fill,
    "masked_scatter.default": masked_scatter,
    "slice_scatter.default": into(_slice),
    "select_scatter.default": into(lambda y, d, k: y[(*[slice(None)] * (d % y.ndim), k, ...)]),
    "diagonal_scatter.default": into(_diagonal),
    "as_strided_scatter.default": as_strided_scatter,
}


def test_every_overload_of_the_family_has_a_formula():
    assert {o.name for o in OPERATORS.values() if o.family == "scatter" and not o.inplace_of} == {*REFERENCES}


@pytest.mark.parametrize("name", REFERENCES)
def test_every_sample(name):
    for arguments in drawn(OPERATORS[name]):
        expected = np.asarray(REFERENCES[name](*arguments))
        assert same(evaluate(OPERATORS[name], arguments), expected.astype(arguments[0].dtype)), arguments


# ------------------------------------------------------------------------------------------------ order


def test_the_last_of_several_writes_wins():
    assert call("scatter", array([0, 0]), 0, at(1, 1, 1), array([5, 6, 7])).tolist() == [0, 7]
    assert call("index_put", array([0, 0]), (at(-1, 1),), array([5, 6])).tolist() == [0, 6]
    assert call("index_copy", array([0, 0]), 0, at(0, 0), array([5, 6])).tolist() == [6, 0]


def test_accumulation_runs_in_lexicographic_order():
    ascending, descending = array([1e8, 1, -1e8, 1]), array([1, 1e8, 1, -1e8])  # (1e8 + 1) - 1e8 + 1 = 1;  1 + 1e8 + 1 - 1e8 = 0
    zero = at(0, 0, 0, 0)
    assert call("scatter_add", array([0]), 0, zero, ascending).tolist() == [1]
    assert call("scatter_add", array([0]), 0, zero, descending).tolist() == [0]
    assert call("index_add", array([0]), 0, zero, ascending).tolist() == [1]
    assert call("index_put", array([0]), (zero,), descending, True).tolist() == [0]


def test_half_types_accumulate_in_f32_and_round_once():
    small = array([2.0**-9] * 4, "bf16")  # each alone vanishes beside 1, together they do not
    assert call("scatter_add", array([1], "bf16"), 0, at(0, 0, 0, 0), small).tolist() == [1 + 2.0**-7]
    assert call("scatter_add", array([2048], "f16"), 0, at(0, 0), array([1, 1], "f16")).tolist() == [2050]


@pytest.mark.parametrize(("name", "args", "expected"), [
    ("scatter_add", (array([0, -0.0]), 0, at(0), array([-0.0])), [0, -0.0]),
    ("scatter_add", (array([inf]), 0, at(0), array([-inf])), [nan]),
    ("scatter.src", (array([0, 0]), 0, at(0, 0), array([nan, -0.0])), [-0.0, 0]),
    ("scatter_reduce", (array([1, 2]), 0, at(0, 0), array([-0.0, 0]), "amax"), [1, 2]),
    ("scatter_reduce.two", (array([1, 2]), 0, at(0, 0), array([-0.0, 0.0]), "amax", False), [0, 2]),
    ("scatter_reduce.two", (array([1, 2]), 0, at(0, 0), array([nan, 3]), "amin", True), [nan, 2]),
    ("scatter_reduce.two", (array([1, 2]), 0, at(0, 0), array([4, 7]), "mean", True), [4, 2]),
    ("scatter_reduce.two", (array([1, 2]), 0, at(0, 0), array([4, 7]), "mean", False), [5.5, 2]),
    ("slice_scatter", (array([0, 1, 2, 3, 4]), array([8, 9]), 0, 1, 4, 2), [0, 8, 2, 9, 4]),
    ("select_scatter", (array([[0, 1], [2, 3]]), array([8, 9]), 1, -1), [[0, 8], [2, 9]]),
    ("masked_scatter", (array([1, 2, 3]), np.array([True, False, True]), array([nan, -0.0, 7])), [nan, 2, -0.0]),
])  # fmt: skip
def test_values(name, args, expected):
    assert same(evaluate(OPERATORS[name], args) if name in OPERATORS else call(name, *args), array(expected))


def test_integers_wrap_and_bools_join():
    top = np.array([127], np.int8)
    assert call("scatter_add", top, 0, at(0), np.array([1], np.int8)).tolist() == [-128]
    no, yes = np.array([False]), np.array([True, False])
    assert call("scatter_add", no, 0, at(0, 0), yes).tolist() == [True]


# ------------------------------------------------------------------------------------------------ masks


def test_a_mask_with_one_value_is_a_choice():
    x = array([[1, nan], [3, 4]])
    assert same(call("index_put", x, (np.array([[True, False], [False, True]]),), array(-0.0)), array([[-0.0, nan], [3, -0.0]]))
    assert same(call("index_put", x, (np.array([True, False]),), array([7, 8])), array([[7, 8], [3, 4]]))
    assert same(call("index_put", x, (None, np.array([True, False])), array([9]), True), array([[10, nan], [12, 4]]))


def test_a_mask_with_many_values_is_unsupported():
    with pytest.raises(Unsupported, match="use masked_scatter"):
        call("index_put", array([1, 2, 3]), (np.array([True, False, True]),), array([7, 8]))


# ------------------------------------------------------------------------------------------------ errors


X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize(("name", "args", "text"), [
    ("scatter", (X, 0, np.array([[2]]), array([[1]])), "0 <= 2 < 2 (scatter, dimension 0"),
    ("scatter", (X, 0, np.array([[-1]]), array([[1]])), "0 <= -1 < 2 (scatter, dimension 0; negative indices are not allowed)"),
    ("scatter_add", (X, 1, np.array([[0, 3]]), array([[1, 1]])), "0 <= 3 < 3 (scatter, dimension 1"),
    ("index_put", (X, (at(2),), array([1, 2, 3])), "0 <= 2 < 2 (index_put"),
    ("index_put", (X, (at(-3),), array([1, 2, 3])), "0 <= -1 < 2 (index_put"),
    ("index_add", (X, 0, at(-1), X[:1]), "0 <= -1 < 2 (index_add, dimension 0; negative indices are not allowed)"),
    ("index_copy", (X, 0, at(2), X[:1]), "0 <= 2 < 2 (index_copy"),
    ("index_fill", (X, 0, at(-3), 1.0), "0 <= -1 < 2 (index_fill"),
    ("scatter_add", (X[:1], 0, np.array([[1]]), array([[1]])), "0 <= 1 < 1"),
])  # fmt: skip
def test_an_index_outside_is_an_index_error(name, args, text):
    with pytest.raises(IndexError) as error:
        call(name, *args)
    assert f"index out of bounds: {text}" in str(error.value)


def test_masked_scatter_needs_enough_elements():
    with pytest.raises(ValueError, match="source has 1 elements, fewer than the mask selects"):
        call("masked_scatter", array([1, 2]), np.array([True, True]), array([7]))


@pytest.mark.parametrize(("name", "args", "error", "text"), [
    ("select_scatter", (X, X[0], 0, 2), OutOfBounds, "-2 <= 2 < 2"),
    ("select_scatter", (X, X[0], 0, -3), OutOfBounds, "-2 <= -3 < 2"),
    ("scatter", (X, 0, np.array([[0]]), array([[1]], "f64")), UserError, "needs tensors of one type"),
    ("scatter", (X, 0, at(0), array([1])), UserError, "allowed: the same rank"),
    ("scatter", (X, 0, np.zeros((1, 2), np.int64), array([[1]])), UserError, "for src of shape [1, 1]"),
    ("scatter", (X, 0, np.array([[0]]), array([[1]]), None), UserError, "no overload takes"),
    ("scatter_reduce", (X, 0, np.array([[0]]), array([[1]]), "median"), UserError, "allowed: 'sum', 'mean'"),
    ("index_add", (X, 0, at(0, 1), X[:1]), UserError, "allowed: [2, 3]"),
    ("index_put", (X, (at(0),), array([1, 2])), UserError, "do not broadcast"),
    ("slice_scatter", (X, X[:1], 0, 0, 2, 1), UserError, "src of shape [1, 3] for the slice of shape [2, 3]"),
    ("slice_scatter", (X, X, 0, 0, 2, 0), UserError, "a step >= 1"),
    ("diagonal_scatter", (X, array([1, 2]), 0, 0, -2), UserError, "must be two axes"),
])  # fmt: skip
def test_wrong_arguments(name, args, error, text):
    with pytest.raises(error) as raised:
        call(name, *args)
    assert text in str(raised.value)


def test_the_combination_of_a_scatter_is_a_row_of_the_scalar_table():
    p = OPERATORS["scatter_add.default"].program(*next(iter(OPERATORS["scatter_add.default"].samples())))
    (t,) = (t for t in p.tensors if t.kind == "scatter")
    assert (t.combine, t.dtype) == ("add", dt.f32)
