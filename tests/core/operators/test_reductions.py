"""Reductions, extremes and softmax against left folds written out in numpy, bit for bit, on every sample; literal values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from assay.core import dtypes as dt
from assay.core.errors import UserError
from assay.core.operators import OPERATORS
from tests.core.operators.calling import array, call, drawn, evaluate, same

inf, nan = math.inf, math.nan
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

Rows = Any


def compute(d: dt.DType) -> Any:
    return np.float32 if d.is_half else d.numpy


def rounded(x: Any, d: dt.DType) -> np.ndarray:
    return np.asarray(x).astype(d.numpy)


def fold(x: np.ndarray, dims: Any, keepdim: bool, f: Callable[[np.ndarray], Any]) -> np.ndarray:  # noqa: FBT001
    """f of the reduced elements of each output, in lexicographic order."""
    dims = [dims] if isinstance(dims, int) else dims
    axes = {d % max(x.ndim, 1) for d in dims} if dims else set(range(x.ndim))
    out_shape = [1 if k in axes else n for k, n in enumerate(x.shape)]
    rows = {i: f(x[tuple(slice(None) if k in axes else i[k] for k in range(x.ndim))].ravel()) for i in np.ndindex(*out_shape)}
    out = np.array(list(rows.values())) if rows else np.zeros(0)
    return out.reshape(out_shape if keepdim else [n for k, n in enumerate(out_shape) if k not in axes])


def left(start: Any, f: Callable[[Any, Any], Any]) -> Callable[[np.ndarray], Any]:
    def run(row: np.ndarray) -> Any:
        acc = row.dtype.type(start)
        for e in row:
            acc = f(acc, e)
        return acc

    return run


add = left(0, lambda a, e: a + e)


def sum_type(x: Any, dtype: dt.DType | None) -> dt.DType:
    return dtype or (dt.dtype(x.dtype) if dt.dtype(x.dtype).is_float else dt.i64)


def summing(f: Callable[[np.ndarray], Any]) -> Callable[..., np.ndarray]:
    """f of each row, over dim, keepdim, dtype, or (two arguments) over everything."""

    def oracle(x: Any, *rest: Any) -> np.ndarray:
        dims, keepdim, dtype = rest if len(rest) == 3 else (None, False, rest[0])
        d = sum_type(x, dtype)
        return rounded(fold(x.astype(compute(d)), dims, keepdim, f), d)

    return oracle


def mean_row(row: np.ndarray) -> Any:
    return add(row) / row.dtype.type(len(row))


def variance_row(correction: float) -> Callable[[np.ndarray], Any]:
    def run(row: np.ndarray) -> Any:
        d = row - mean_row(row)
        return add(d * d) / row.dtype.type(max(len(row) - correction, 0))

    return run


def root(row_value: Any) -> Any:
    return np.where(row_value == 0, 0, np.sqrt(row_value)).astype(row_value.dtype)


def variance(x: Any, dims: Any, correction: Any, keepdim: bool) -> np.ndarray:  # noqa: FBT001
    d = dt.dtype(x.dtype)
    return fold(x.astype(compute(d)), dims, keepdim, variance_row(1 if correction is None else correction)).astype(compute(d))


def var(x: Any, dims: Any, correction: Any, keepdim: bool) -> np.ndarray:  # noqa: FBT001
    return variance(x, dims, correction, keepdim).astype(x.dtype)


def std(x: Any, dims: Any, correction: Any, keepdim: bool) -> np.ndarray:  # noqa: FBT001
    return root(variance(x, dims, correction, keepdim)).astype(x.dtype)


def mean_of(x: Any, dims: Any, keepdim: bool) -> np.ndarray:  # noqa: FBT001
    return rounded(fold(x.astype(compute(dt.dtype(x.dtype))), dims, keepdim, mean_row), dt.dtype(x.dtype))


def logic(f: Callable[[Any], Any]) -> Callable[..., np.ndarray]:
    """bool, but u8 for u8; over no axis where an empty list of axes is given."""

    def oracle(x: Any, dims: Any = None, keepdim: bool = False) -> np.ndarray:  # noqa: FBT001, FBT002
        y = x != 0 if dims == () else fold(x != 0, dims, keepdim, f)
        return y.astype(np.uint8 if x.dtype == np.uint8 else np.bool_)

    return oracle


def best_position(row: Any, sign: int) -> int:
    """NaN first, else the first of the largest (sign 1) or smallest."""
    row = row.astype(np.float32) if row.dtype.kind == "V" or (row.dtype.itemsize == 2 and row.dtype.kind != "i") else row
    for k, v in enumerate(row.tolist()):
        if isinstance(v, float) and math.isnan(v):
            return k
    values = [sign * v for v in row.tolist()]
    return values.index(max(values))


def best_value(sign: int) -> Callable[[np.ndarray], Any]:
    """NaN wins, -0 < +0."""

    def run(row: np.ndarray) -> Any:
        values = row.tolist()
        if any(v != v for v in values):
            return nan
        return max(values, key=lambda v: (sign * v, sign * math.copysign(1, v) if v == 0 else 0))

    return run


def extreme(sign: int) -> Callable[..., np.ndarray]:
    return lambda x, dims=None, keepdim=False: fold(as_double(x), dims, keepdim, best_value(sign)).astype(x.dtype)


def as_double(x: Any) -> Any:
    return x.astype(np.float64) if dt.dtype(x.dtype).is_float else x


def argument(sign: int) -> Callable[..., np.ndarray]:
    return lambda x, dims, keepdim: fold(as_double(x), dims, keepdim, lambda row: best_position(row, sign)).astype(np.int64)


def along(sign: int) -> Callable[..., Any]:
    def oracle(x: Any, d: int, keepdim: bool) -> Any:  # noqa: FBT001
        values = fold(as_double(x), d, keepdim, lambda row: row[best_position(row, sign)]).astype(x.dtype)
        return values, argument(sign)(x, d, keepdim)

    return oracle


def norm(x: Any, p: Any, dims: Any, keepdim: bool, dtype: dt.DType | None) -> np.ndarray | None:  # noqa: FBT001
    d = dtype or dt.dtype(x.dtype)
    x = np.abs(x.astype(compute(d)))
    if p not in (0, 1, 2, inf, -inf):
        return None
    maximum = left(0, np.maximum)
    rows: dict[Any, Callable[[np.ndarray], Any]] = {
        0: lambda r: r.dtype.type(np.count_nonzero(r)),
        1: add,
        2: lambda r: root(np.asarray(add(r * r))),
        inf: maximum,
    }
    return rounded(fold(x, dims, keepdim, rows[p]), d)


ORACLES: dict[str, Callable[..., Any]] = {
    "sum.default": summing(add),
    "sum.dim_IntList": summing(add),
    "nansum.default": summing(lambda r: add(np.where(r != r, r.dtype.type(0), r))),
    "nanmean.default": summing(lambda r: add(np.where(r != r, r.dtype.type(0), r)) / r.dtype.type(np.count_nonzero(r == r))),
    "mean.default": summing(mean_row),
    "mean.dim": summing(mean_row),
    "prod.default": summing(left(1, lambda a, e: a * e)),
    "prod.dim_int": summing(left(1, lambda a, e: a * e)),
    "trace.default": lambda x: rounded(add(np.diagonal(x).astype(compute(sum_type(x, None)))), sum_type(x, None)),
    "any.default": logic(np.any),
    "any.dim": logic(np.any),
    "any.dims": logic(np.any),
    "all.default": logic(np.all),
    "all.dim": logic(np.all),
    "all.dims": logic(np.all),
    "count_nonzero.default": lambda x, d: fold(x != 0, d, False, np.count_nonzero).astype(np.int64),
    "count_nonzero.dim_IntList": lambda x, d: fold(x != 0, d, False, np.count_nonzero).astype(np.int64),
    "var.default": lambda x, u: var(x, None, int(u), False),
    "var.dim": lambda x, d, u, k: var(x, d, int(u), k),
    "var.correction": var,
    "std.default": lambda x, u: std(x, None, int(u), False),
    "std.dim": lambda x, d, u, k: std(x, d, int(u), k),
    "std.correction": std,
    "var_mean.correction": lambda x, d, c, k: (var(x, d, c, k), mean_of(x, d, k)),
    "std_mean.correction": lambda x, d, c, k: (std(x, d, c, k), mean_of(x, d, k)),
    "linalg_vector_norm.default": norm,
    "norm.Scalar": lambda x, p: norm(x, p, None, False, None),
    "norm.ScalarOpt_dim": lambda x, p, d, k: norm(x, 2 if p is None else p, d, k, None),
    "amax.default": extreme(1),
    "amin.default": extreme(-1),
    "max.default": extreme(1),
    "min.default": extreme(-1),
    "max.dim": along(1),
    "min.dim": along(-1),
    "argmax.default": argument(1),
    "argmin.default": argument(-1),
    "aminmax.default": lambda x, d, k: (extreme(-1)(x, d, k), extreme(1)(x, d, k)),
}
ELSEWHERE = {"max.other", "min.other"}  # pointwise: test_pointwise.py


def test_every_overload_has_an_oracle():
    families = ("reductions", "extremes")
    assert {o.name for o in OPERATORS.values() if o.family in families and o.inplace_of is None} - ORACLES.keys() == ELSEWHERE


@pytest.mark.parametrize("name", ORACLES)
def test_against_a_left_fold(name):
    compared = 0
    for arguments in drawn(OPERATORS[name]):
        expected = ORACLES[name](*arguments)
        if expected is not None:
            compared += 1
            actual = evaluate(OPERATORS[name], arguments)
            assert same(actual, expected), f"{name}{arguments}:\n{actual!r}\n{expected!r}"
    assert compared


# ------------------------------------------------------------------------------------------------ literal values


@pytest.mark.parametrize(("name", "args", "expected"), [
    ("sum", ([],), 0.0),
    ("sum", ([-0.0],), 0.0),  # from +0
    ("sum", ([1e8, 1.0, -1e8],), 0.0),  # left to right
    ("sum", ([inf, -inf],), nan),
    ("prod", ([],), 1.0),
    ("mean", ([],), nan),
    ("mean", ([1.0, 2.0],), 1.5),
    ("nansum", ([nan, 1.0, nan],), 1.0),
    ("nanmean", ([nan, 1.0, 2.0],), 1.5),
    ("nanmean", ([nan, nan],), nan),
    ("amax", ([-0.0, 0.0, -0.0],), 0.0),
    ("amin", ([0.0, -0.0],), -0.0),
    ("max", ([1.0, nan, 3.0],), nan),
    ("var", ([1.0, 2.0, 3.0],), 1.0),
    ("var", ([1.0],), nan),
    ("std", ([2.0, 2.0],), 0.0),
    ("norm", ([3.0, 4.0],), 5.0),
    ("linalg_vector_norm", ([3.0, -4.0], inf), 4.0),
    ("linalg_vector_norm", ([3.0, -4.0], -inf), 3.0),
    ("linalg_vector_norm", ([3.0, 0.0, nan], 0), 2.0),
    ("linalg_vector_norm", ([2.0, 0.0], 4), 2.0),
    ("linalg_vector_norm", ([0.0, 2.0], -1), 0.0),
    ("linalg_vector_norm", ([0.0, 0.0], 1.5), 0.0),
    ("logsumexp", ([0.0, 0.0], 0), math.log(2)),
    ("logsumexp", ([-inf, -inf], 0), -inf),
    ("logsumexp", ([inf, 1.0], 0), inf),
    ("logsumexp", ([], 0), -inf),
    ("logsumexp", ([1000.0, 1000.0], 0), 1000 + math.log(2)),
])  # fmt: skip
def test_values(name, args, expected):
    x, *rest = args
    assert same(call(name, array(x, "f32"), *rest), array(expected))


@pytest.mark.parametrize(("name", "values", "dtype", "expected"), [
    ("argmax", [1, 3, 3], "i32", 1),
    ("argmax", [-inf] * 20, "f32", 0),
    ("argmax", [1.0, nan, 2.0, nan], "f32", 1),
    ("argmin", [1.0, nan, 2.0, nan], "f32", 1),
    ("argmax", [-0.0, 0.0], "f32", 0),
    ("argmin", [0.0, -0.0], "f32", 0),
    ("argmin", [7] * 16 + [3], "u8", 16),
    ("argmax", [False, True, True], "bool", 1),
])  # fmt: skip
def test_positions(name, values, dtype, expected):
    assert same(call(name, array(values, dtype)), np.int64(expected))
    value, index = call(name[3:], array(values, dtype), 0)
    assert same(index, np.int64(expected))
    assert same(value, array(values, dtype)[expected])


@pytest.mark.parametrize(("name", "shape", "args"), [
    ("amax", (0, 3), (0,)), ("amax", (0,), ()), ("max", (0,), ()), ("min", (3, 0), (1,)), ("argmax", (0,), ()),
    ("argmin", (0, 3), (0,)),
    ("aminmax", (0,), ()), ("linalg_vector_norm", (0,), (-inf,)),
])  # fmt: skip
def test_an_extreme_of_nothing_is_an_error(name, shape, args):
    with pytest.raises(UserError, match="no element"):
        call(name, np.zeros(shape, np.float32), *args)


def test_an_extreme_over_another_axis_of_an_empty_tensor_is_empty():
    assert call("amax", np.zeros((0, 3), np.float32), 1).shape == (0,)
    assert call("argmax", np.zeros((0, 3), np.float32), 1).shape == (0,)


@pytest.mark.parametrize(("name", "args"), [
    ("mean", (array([1], "i64"),)), ("var", (array([1], "i64"),)), ("sum", (array([1.0]), 1)), ("sum", (array([[1.0]]), (0, 0))),
    ("norm", (array([1], "i64"),)), ("softmax", (array([1], "i64"), 0)), ("logsumexp", (array([1], "i64"), 0)),
    ("trace", (array([1.0]),)),
])  # fmt: skip
def test_bad_arguments(name, args):
    with pytest.raises(UserError):
        call(name, *args)


# ------------------------------------------------------------------------------------------------ softmax


def exact(x: Any) -> Any:
    return x.astype(np.float64)


SOFTMAX: dict[str, Callable[[Any, Any], Any]] = {
    "softmax.int": lambda e, s: e / s,
    "_softmax.default": lambda e, s: e / s,
    "log_softmax.int": lambda e, s: np.log(e) - np.log(s),
    "_log_softmax.default": lambda e, s: np.log(e) - np.log(s),
}


@pytest.mark.parametrize("name", SOFTMAX)
def test_softmax_against_doubles(name):
    """Within the error of a sum of n terms and of exp, in units of the result type: 8 + n."""
    for x, d, *_ in drawn(OPERATORS[name]):
        x = np.where(np.isfinite(x.astype(np.float64)), np.clip(x.astype(np.float64), -30, 30), 1.0).astype(x.dtype)
        got = evaluate(OPERATORS[name], (x, d, *_))
        e = np.exp(exact(x) - (exact(x).max(d, keepdims=True) if x.size else 0))
        expected = SOFTMAX[name](e, e.sum(d, keepdims=True))
        eps = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}[str(got.dtype)]
        bound = eps * (8 + (x.shape[d] if x.ndim else 1)) * np.maximum(np.abs(expected), 2.0**-14 if "log" not in name else 4)
        assert got.shape == x.shape
        assert (np.abs(exact(got) - expected) <= bound).all()


@pytest.mark.parametrize(("name", "x", "expected"), [
    ("softmax", [0.0, 0.0], [0.5, 0.5]),
    ("softmax", [1000.0, 1000.0, -inf], [0.5, 0.5, 0.0]),
    ("softmax", [-inf, -inf], [nan, nan]),
    ("softmax", [inf, 0.0], [nan, nan]),
    ("softmax", [nan, 0.0], [nan, nan]),
    ("log_softmax", [0.0, -inf], [0.0, -inf]),
    ("log_softmax", [-2000.0, 0.0], [-2000.0, 0.0]),
])  # fmt: skip
def test_softmax_values(name, x, expected):
    assert same(call(name, array(x), 0), array(expected))


@pytest.mark.parametrize("name", ["softmax.int", "log_softmax.int", "reshape.default"])
def test_decompositions_are_the_same_values(name):
    o = OPERATORS[name]
    for arguments in drawn(o):
        assert same(o.decompose(lambda n, *a: evaluate(OPERATORS[n], a), *arguments), evaluate(o, arguments))


def test_logsumexp_over_two_axes():
    x = array([[0.0, 1.0], [2.0, -inf]])
    expected = math.log(1 + math.e + math.e**2)
    assert abs(float(call("logsumexp", x, (0, 1))) - expected) < 2.0**-21
    assert call("logsumexp", x, (0, 1), True).shape == (1, 1)
