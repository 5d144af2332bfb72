"""Prefix operators against left folds written as loops."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from assay.core.operators import OPERATORS
from tests.core.operators.calling import array, call, drawn, evaluate, same

inf, nan = math.inf, math.nan
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def folded(x: Any, d: int, start: Any, step: Callable[..., Any], dtype: Any, how: Any) -> Any:
    """The states of a left fold along d, in `how`, rounded to `dtype`."""
    y = np.empty(x.shape, dtype)
    rows, out = np.moveaxis(np.atleast_1d(x), d, -1), np.moveaxis(np.atleast_1d(y), d, -1)
    for i in np.ndindex(*rows.shape[:-1]):
        a = how(start)
        for r in range(rows.shape[-1]):
            a = step(a, rows[i][r].astype(how))
            out[(*i, r)] = a
    return y


def accumulated(start: int, step: Callable[..., Any]) -> Callable[..., Any]:
    def reference(x: Any, d: int, dtype: Any) -> Any:
        floats = x.dtype.kind in "fV" or x.dtype == ml_dtypes.bfloat16
        result = np.dtype(dtype.numpy) if dtype else x.dtype if floats else np.dtype(np.int64)
        how = np.float32 if result.itemsize == 2 else result.type
        return folded(x, d, start, step, result, how)

    return reference


def extreme(sign: int) -> Callable[..., Any]:
    def key(v: Any) -> Any:
        v = float(v) if np.asarray(v).dtype.kind not in "iub" else int(v)
        return (2, 0.0) if v != v else (1, sign * v, sign * math.copysign(1, v) if isinstance(v, float) else 0)

    def reference(x: Any, d: int) -> Any:
        values, places = x.copy(), np.zeros(x.shape, np.int64)
        rows, v, p = (np.moveaxis(np.atleast_1d(a), d, -1) for a in (x, values, places))
        for i in np.ndindex(*rows.shape[:-1]):
            best = 0
            for r in range(rows.shape[-1]):
                best = r if key(rows[i][r]) >= key(rows[i][best]) else best
                v[(*i, r)], p[(*i, r)] = rows[i][best], best
        return values, places

    return reference


REFERENCES = {
    "cumsum.default": accumulated(0, lambda a, x: a + x),
    "cumprod.default": accumulated(1, lambda a, x: a * x),
    "cummax.default": extreme(1),
    "cummin.default": extreme(-1),
}


def test_every_overload_of_the_family_has_a_formula():
    others = {"logcumsumexp.default"}
    assert {o.name for o in OPERATORS.values() if o.family == "scans" and not o.inplace_of} == {*REFERENCES, *others}


@pytest.mark.parametrize("name", REFERENCES)
def test_every_sample(name):
    for arguments in drawn(OPERATORS[name]):
        assert same(evaluate(OPERATORS[name], arguments), REFERENCES[name](*arguments)), arguments


@pytest.mark.parametrize(("name", "x", "expected"), [
    ("cumsum", [1, inf, -inf], [1, inf, nan]),
    ("cumsum", [inf] * 5, [inf] * 5),
    ("cumsum", [1] * 8, [1, 2, 3, 4, 5, 6, 7, 8]),
    ("cumsum", [-0.0, -0.0], [0, 0]),
    ("cumsum", [1e8, 1, -1e8], [1e8, 1e8, 0]),
    ("cumprod", [2, -0.0, inf], [2, -0.0, nan]),
    ("logcumsumexp", [-inf, -inf, 0], [-inf, -inf, 0]),
    ("logcumsumexp", [inf, 0, -inf], [inf, inf, inf]),
    ("logcumsumexp", [nan, 0], [nan, nan]),
])  # fmt: skip
def test_values(name, x, expected):
    assert same(call(name, array(x), 0), array(expected))


def test_logcumsumexp_of_ones_is_the_logarithm_of_the_count():
    y = call("logcumsumexp", array([0.0] * 10, "f64"), 0)
    assert np.abs(y - np.log(np.arange(1, 11))).max() < 1e-15 * 3


@pytest.mark.parametrize(("name", "x", "values", "indices"), [
    ("cummax", [1, 3, 3, 2], [1, 3, 3, 3], [0, 1, 2, 2]),  # of equal elements the last, as in PyTorch
    ("cummax", [1, nan, 5, nan], [1, nan, nan, nan], [0, 1, 1, 3]),
    ("cummax", [-0.0, 0.0, -0.0], [-0.0, 0.0, 0.0], [0, 1, 1]),
    ("cummin", [0.0, -0.0, 0.0], [0.0, -0.0, -0.0], [0, 1, 1]),
    ("cummin", [-inf, inf], [-inf, -inf], [0, 0]),
    ("cummax", [-inf], [-inf], [0]),
])  # fmt: skip
def test_extremes(name, x, values, indices):
    assert same(call(name, array(x), 0), (array(values), np.array(indices)))


def test_half_types_accumulate_in_f32():
    assert call("cumsum", array([2048, 1, 1], "f16"), 0).tolist() == [2048, 2048, 2050]


def test_integers_accumulate_in_i64():
    y = call("cumsum", np.array([100, 100], np.int8), 0)
    assert (y.tolist(), y.dtype) == ([100, 200], np.dtype(np.int64))
