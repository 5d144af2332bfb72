"""Elementary functions and activations: the cases of their rows, literal values, and formulas in double precision."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from assay.core import dtypes as dt
from assay.core.errors import UserError
from assay.core.operators import OPERATORS
from assay.core.row import TABLE
from tests.core.operators.calling import array, call, drawn, evaluate, same

inf, nan = math.inf, math.nan
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

ROWS = {"gelu": "gelu", "silu": "silu", "log_sigmoid": "log_sigmoid", "relu": "relu", "atan2": "atan2", "hypot": "hypot",
        "logaddexp": "logaddexp", "softsign": "softsign", "square": "square", "reciprocal": "reciprocal"}  # fmt: skip
ROWS |= {o.base: o.base for o in OPERATORS.values() if o.family == "elementary" and o.base in TABLE and o.inplace_of is None
         and o.overload == "default"}  # fmt: skip


def near(actual: Any, expected: Any, ulps: float) -> bool:
    """NaN where NaN; elsewhere within `ulps` units in the last place of the expected value (at least the smallest subnormal)."""
    a, e = np.asarray(actual), np.asarray(expected, np.float64)
    unit = np.spacing(np.abs(e.astype(a.dtype))).astype(np.float64)
    equal = (a.astype(np.float64) == e.astype(a.dtype).astype(np.float64)) | (np.isnan(a) & np.isnan(e))
    return bool((equal | (np.abs(a.astype(np.float64) - e) <= ulps * unit)).all())


@pytest.mark.parametrize("base", sorted(ROWS))
def test_the_operator_is_its_row(base):
    """Its result on the row's cases, within the row's 1 ulp, with the sign of zero."""
    for *args, expected in TABLE[ROWS[base]].cases:
        for dtype in ("f32", "f64"):
            y = call(base, *(array([v], dtype) for v in args))
            assert near(y, [expected], 1), (base, args, y, expected)
            if expected == 0:
                assert same(y, array([expected], dtype))


@pytest.mark.parametrize("base", sorted(ROWS))
def test_half_types_compute_in_f32_and_round_once(base):
    name = f"{base}.default"
    for arguments in drawn(OPERATORS[name]):
        types = {a.dtype for a in arguments if isinstance(a, np.ndarray)}
        if len(types) == 1 and dt.dtype(arguments[0].dtype).is_half:
            wide = evaluate(OPERATORS[name], tuple(a.astype(np.float32) if isinstance(a, np.ndarray) else a for a in arguments))
            assert same(evaluate(OPERATORS[name], arguments), wide.astype(arguments[0].dtype))


def test_integers_become_f32():
    assert same(call("exp", array([0, 1], "i64")), call("exp", array([0.0, 1.0])))
    assert same(call("sqrt", array([True, False], "bool")), array([1.0, 0.0]))


# ------------------------------------------------------------------------------------------------ formulas


def where(c: Any, a: Any, b: Any) -> Any:
    return np.where(c, a, b)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def elu(x: Any, a: float = 1, s: float = 1, i: float = 1) -> Any:
    return where(x > 0, s * x, a * s * np.expm1(i * x))


def shrink(x: Any, d: float) -> Any:
    return where(x > d, x - d, where(x < -d, x + d, where(np.isnan(x), x, 0)))


def gelu_slope(g: Any, x: Any, how: str) -> Any:
    if how == "none":
        return g * ((1 + np.vectorize(math.erf, otypes=[float])(x / 2**0.5)) / 2 + x * np.exp(-x * x / 2) / (2 * np.pi) ** 0.5)
    t = np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3))
    return g * ((1 + t) / 2 + x * (1 - t * t) / 2 * (2 / np.pi) ** 0.5 * (1 + 3 * 0.044715 * x * x))


def prelu(x: Any, w: Any) -> Any:
    shape = [1] * x.ndim
    if w.size > 1:
        shape[min(1, x.ndim - 1)] = w.size
    return where(x > 0, x, w.reshape(shape) * x)


def glu(x: Any, d: int) -> Any:
    a, b = np.split(x, 2, d)
    return a * sigmoid(b)


FORMULAS: dict[str, tuple[Callable[..., Any], float]] = {  # in doubles, and how many roundings of 1 ulp they have
    "relu6.default": (lambda x: where(np.isnan(x), x, np.clip(x, 0, 6)), 0),
    "hardtanh.default": (lambda x, a, b: where(x <= a, a, where(x >= b, b, x)), 0),
    "leaky_relu.default": (lambda x, s: where(x > 0, x, s * x), 1),
    "prelu.default": (prelu, 1),
    "threshold.default": (lambda x, t, v: where(x <= t, v, x), 0),
    "mish.default": (lambda x: where(x == -inf, -0.0, x * np.tanh(np.logaddexp(0, x))), 4),
    "elu.default": (elu, 3),
    "selu.default": (lambda x: elu(x, 1.6732632423543772, 1.0507009873554805), 3),
    "celu.default": (lambda x, a: elu(x, a, 1, 1 / a), 3),
    "softplus.default": (lambda x, b, t: where(b * x > t, x, np.logaddexp(0, b * x) / b), 2),
    "hardsigmoid.default": (lambda x: where(np.isnan(x), x, np.clip(x + 3, 0, 6)) / 6, 4),
    "hardswish.default": (lambda x: where(x <= -3, -0.0, x * where(np.isnan(x), x, np.minimum(x + 3, 6)) / 6), 4),
    "softsign.default": (lambda x: where(np.isinf(x), np.sign(x), x / (1 + np.abs(x))), 2),
    "hardshrink.default": (lambda x, d: where((x >= -d) & (x <= d), 0, x), 0),
    "softshrink.default": (shrink, 1),
    "glu.default": (glu, 3),
    "logit.default": (lambda x, e: np.log((y := x if e is None else np.clip(x, e, 1 - e)) / (1 - y)), 4),
    "sinc.default": (lambda x: where(x == 0, 1, np.sin(np.pi * x) / (np.pi * x)), 4),
    "gelu_backward.default": (gelu_slope, 6),
    "deg2rad.default": (lambda x: x * (np.pi / 180), 2),
    "rad2deg.default": (lambda x: x * (180 / np.pi), 2),
    "xlogy.Tensor": (lambda x, y: where(np.isnan(y), y, where(x == 0, 0, x * np.log(y))), 2),
    "xlogy.Scalar_Other": (lambda x, y: where(x == 0, 0, x * np.log(y)), 2),
}
CANCELLING = {"gelu_backward.default", "logit.default", "sinc.default", "hardsigmoid.default", "hardswish.default",
              "softshrink.default", "tanhshrink.default"}


def test_every_overload_is_tested():
    table = {o.name for o in OPERATORS.values() if o.family in ("elementary", "activations") and o.inplace_of is None}
    rows = {f"{base}.default" for base in ROWS}
    assert table - rows - FORMULAS.keys() == {"tanhshrink.default"}  # literal values below


@pytest.mark.parametrize("name", FORMULAS)
def test_formulas(name):
    """In f32 and f64 within the stated roundings, at moderate arguments where no step cancels, under- or overflows."""
    formula, ulps = FORMULAS[name]
    rng = np.random.default_rng(3)
    seen = 0
    for arguments in drawn(OPERATORS[name]):
        d = dt.dtype(arguments[0].dtype)
        if d is not dt.f32:
            continue
        lo, hi = (0.6, 0.9) if name in CANCELLING else (-3.0, 3.0)
        inputs = tuple(rng.uniform(lo, hi, a.shape).astype(np.float32) if isinstance(a, np.ndarray) else a for a in arguments)
        if name.startswith("xlogy"):
            inputs = tuple(np.abs(a) + np.float32(2) if isinstance(a, np.ndarray) else 2 for a in inputs)
        seen += 1
        got = evaluate(OPERATORS[name], inputs)
        expected = formula(*(a.astype(np.float64) if isinstance(a, np.ndarray) else a for a in inputs))
        assert near(got, expected, 1.5 * ulps), (inputs, got, expected)
    assert seen


@pytest.mark.parametrize(("name", "args", "expected"), [
    ("relu", ([-0.0, 0.0, -1.0, nan, inf],), [0.0, 0.0, 0.0, nan, inf]),
    ("relu6", ([-0.0, 7.0, nan],), [0.0, 6.0, nan]),
    ("hardtanh", ([-inf, 0.5, inf, nan],), [-1.0, 0.5, 1.0, nan]),
    ("leaky_relu", ([-2.0, -0.0, 3.0, -inf, nan], 0.5), [-1.0, -0.0, 3.0, -inf, nan]),
    ("threshold", ([1.0, 1.5, nan], 1, -2), [-2.0, 1.5, nan]),
    ("silu", ([-inf, -0.0, inf, nan],), [-0.0, -0.0, inf, nan]),
    ("gelu", ([-inf, -0.0, inf, nan],), [-0.0, -0.0, inf, nan]),
    ("mish", ([-inf, -0.0, inf, nan],), [-0.0, -0.0, inf, nan]),
    ("hardswish", ([-inf, -3.0, inf, nan],), [-0.0, -0.0, inf, nan]),
    ("hardsigmoid", ([-inf, -3.0, 0.0, 3.0, inf, nan],), [0.0, 0.0, 0.5, 1.0, 1.0, nan]),
    ("elu", ([-inf, -0.0, 2.0, nan],), [-1.0, -0.0, 2.0, nan]),
    ("softplus", ([-inf, inf, 21.0, nan],), [0.0, inf, 21.0, nan]),
    ("log_sigmoid", ([-inf, inf, -1000.0, nan],), [-inf, -0.0, -1000.0, nan]),
    ("softsign", ([-inf, inf, 1.0, -0.0, nan],), [-1.0, 1.0, 0.5, -0.0, nan]),
    ("tanhshrink", ([-inf, 0.0, inf, nan],), [-inf, 0.0, inf, nan]),
    ("hardshrink", ([0.5, -0.5, 0.75, nan],), [0.0, 0.0, 0.75, nan]),
    ("softshrink", ([0.5, -0.75, inf, nan],), [0.0, -0.25, inf, nan]),
    ("xlogy", ([0.0, 0.0, 1.0, nan], [0.0, nan, 1.0, 1.0]), [0.0, nan, 0.0, nan]),
    ("logit", ([0.5, 0.0, 1.0, 2.0],), [0.0, -inf, inf, nan]),
    ("sinc", ([0.0, nan],), [1.0, nan]),
])  # fmt: skip
def test_values(name, args, expected):
    actual = call(name, *(array(a) if isinstance(a, list) else a for a in args))
    assert same(actual, array(expected)), actual


def test_gelu_approximations():
    x = array([-1.0, 0.5, 2.0])
    exact = [v / 2 * (1 + math.erf(v / math.sqrt(2))) for v in x.tolist()]
    tanh = [v / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3))) for v in x.tolist()]
    assert near(call("gelu", x), exact, 1)
    assert near(call("gelu", x, approximate="tanh"), tanh, 2)


@pytest.mark.parametrize(("name", "args", "kwargs"), [
    ("gelu", (array([1.0]),), {"approximate": "erf"}),
    ("gelu", (array([1], "i64"),), {}),
    ("hardtanh", (array([1.0]), 2, 1), {}),
    ("softshrink", (array([1.0]), -1), {}),
    ("celu", (array([1.0]), 0), {}),
    ("glu", (array([1.0, 2.0, 3.0]),), {}),
    ("prelu", (array([[1.0, 2.0]]), array([1.0, 2.0, 3.0])), {}),
    ("relu", (array([True], "bool"),), {}),
    ("hypot", (array([1], "i64"), array([1], "i64")), {}),
])  # fmt: skip
def test_bad_arguments(name, args, kwargs):
    with pytest.raises(UserError):
        call(name, *args, **kwargs)
