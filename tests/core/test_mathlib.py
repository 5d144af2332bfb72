"""The elementary functions: literal cases, accuracy against a wider oracle, symmetry and order, numpy bits == C++ bits."""

import ctypes
import math
from collections.abc import Callable

import mpmath
import numpy as np
import pytest

from assay.core import dtypes as dt
from assay.core.dtypes import DType
from assay.core.lang import input, op, program, tensor
from assay.core.row import TABLE, Row
from assay.semantics import denote
from assay.semantics.denote import bits_equal, run
from benchmarks import ulp

ROWS = [r for r in TABLE.values() if r.name in ulp.NAMES]
FLOATS = [dt.f32, dt.f64]


def denoted(name: str, *arrays: np.ndarray) -> np.ndarray:
    """The function as the interpreter evaluates it."""
    dtype = dt.f32 if arrays[0].dtype == np.float32 else dt.f64
    tensors = [input(p, a.shape, dtype) for p, a in zip(TABLE[name].params, arrays, strict=True)]
    body = tensor(arrays[0].shape, lambda i: op(name, *(t[i] for t in tensors)))
    return run(program(tensors, [body]), arrays)[0]


def error_in_ulp(got: np.ndarray, exact: np.ndarray, dtype: DType, unit: np.ndarray | None = None) -> np.ndarray:
    """|got - exact| in units of the last place of exact (or of `unit`); infinity counts as 2**128, 2**1024."""
    p, least, most = (24, -125, 128) if dtype is dt.f32 else (53, -1021, 1024)
    limit = np.ldexp(np.longdouble(1), most)
    with np.errstate(invalid="ignore"):  # signalling and other NaN
        a, b = (np.clip(v.astype(np.longdouble), -limit, limit) for v in (got, exact))
        exponent = np.clip(np.frexp(b if unit is None else unit)[1], least, most)
        wrong = np.isnan(a) != np.isnan(b)
        return np.where(wrong, np.inf, np.nan_to_num(np.abs(a - b) * np.ldexp(np.longdouble(1), p - exponent))).astype(float)


def test_every_elementary_row_is_measured():
    named = {
        r.name
        for r in TABLE.values()
        if r.kind == "named" and getattr(r.define, "__module__", "").startswith("assay.core.mathlib")
    }
    assert named == set(ulp.NAMES)


def test_the_table_and_the_document_hold_what_was_measured():
    measured = ulp.results()
    for key, found in measured.items():
        name, dtype = key.split(".")
        assert found["worst"] <= (1.4 if key == "gelu_tanh.f64" else 1)  # an oracle of f64 pairs adds to that (docs/accuracy.md)
        assert max(0.5, found["worst"]) <= TABLE[name].ulp[dtype] <= max(0.5, found["worst"] + 0.001), key
    for dtype in ("f32", "f64"):
        assert ulp.table(dtype) in ulp.DOCUMENT.read_text()


CASES = [(r.name, d, case) for r in ROWS for d in FLOATS for case in r.cases]


@pytest.mark.parametrize(("name", "dtype", "case"), CASES, ids=[f"{n}-{d}-{c}" for n, d, c in CASES])
def test_case(name: str, dtype: DType, case: tuple[float, ...]):
    arguments = [np.array([v], dtype.numpy) for v in case[:-1]]
    got, expected = denoted(name, *arguments), np.array([case[-1]])
    if math.isfinite(expected[0]) and expected[0] != 0:
        assert error_in_ulp(got, expected, dtype) <= 1.5  # the literal itself is rounded
    else:
        assert bits_equal(got, expected.astype(dtype.numpy))


# ------------------------------------------------------------------------------------------------ accuracy


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


def _gelu_tanh(x: float) -> float:
    return x * _sigmoid(1.5957691216057308 * (x + 0.044715 * x**3)) if abs(x) < 30 else max(x, -0.0)


def _log(f: Callable[[float], float]) -> Callable[[float], float]:
    return lambda x: f(x) if x > 0 else -math.inf if x == 0 else math.nan


def _logaddexp(x: float, y: float) -> float:
    top, d = max(x, y), -abs(x - y)
    if math.isnan(x) or math.isnan(y):
        return math.nan
    return top + math.log1p(math.exp(d)) if math.isfinite(d) else top


def _acosh(x: float) -> float:
    return math.acosh(x) if x >= 1 else math.nan


WIDER: dict[str, Callable[..., float]] = {
    "acosh": _acosh,
    "log": _log(math.log),
    "log2": _log(math.log2),
    "log10": _log(math.log10),
    "sigmoid": _sigmoid,
    "silu": lambda x: x * _sigmoid(x) if x > -700 else -0.0,
    "softplus": lambda x: max(x, 0.0) + math.log1p(math.exp(-abs(x))),
    "gelu": lambda x: 0.5 * x * math.erfc(-x * 0.5**0.5) if x > -30 else -0.0,
    "gelu_tanh": _gelu_tanh,
    "rsqrt": lambda x: 1 / math.sqrt(x) if x > 0 else math.nan,
    "logaddexp": _logaddexp,
    "pow": lambda x, y: float(np.float64(x) ** y),
    "remainder": math.remainder,
}
"""f64 functions where Python's math module has none of the name, or one that raises."""


def _guarded(f: Callable[..., float]) -> Callable[..., float]:
    """f, with what Python raises turned back into IEEE values (the cases test their signs)."""

    def call(*xs: float) -> float:
        if len(xs) == 1 and math.isnan(xs[0]):
            return math.nan
        try:
            return f(*xs)
        except OverflowError:
            return math.inf if xs[0] > 0 or f is math.cosh else -math.inf
        except ValueError:
            return math.nan

    return call


@pytest.mark.parametrize("name", ulp.NAMES)
def test_f32_within_one_ulp(name: str):
    """2**16 inputs of several distributions against f64; the whole range is benchmarks/ulp.py's task."""
    g = np.random.default_rng(3)
    with np.errstate(all="ignore"):
        parts = [ulp.inputs(name, dt.f32, 1 << 13, k, g) for k in range(8)]
    arguments = [np.concatenate(p) for p in zip(*parts, strict=True)]
    oracle = np.frompyfunc(_guarded(WIDER.get(name) or getattr(math, name)), len(arguments), 1)
    with np.errstate(all="ignore"):
        exact = oracle(*(a.astype(float) for a in arguments)).astype(float)
    unit = np.maximum(np.abs(exact), np.abs(np.maximum(*arguments))) if name == "logaddexp" else None
    error = error_in_ulp(denoted(name, *arguments), exact, dt.f32, unit)
    worst = int(np.argmax(error))
    assert error[worst] <= 1.0, (name, [float(a[worst]) for a in arguments], exact[worst])


@pytest.mark.full
@pytest.mark.cpp
@pytest.mark.parametrize("name", [n for n in ulp.NAMES if len(TABLE[n].params) == 1])
def test_all_f32_inputs_within_one_ulp(name: str):
    measured = ulp.every_f32(name)
    assert measured.worst <= TABLE[name].ulp.get("f32", 1.0)
    assert measured.sign == 0
    assert measured.compared >= 1 << 25
    assert measured.differing == 0


@pytest.mark.cpp
def test_numpy_that_differs_in_one_bit_is_noticed(monkeypatch: pytest.MonkeyPatch):
    true = denote.run
    monkeypatch.setattr(denote, "run", lambda p, xs: [np.nextafter(y, np.float32(9)) for y in true(p, xs)])
    measured = ulp.every_f32("exp", every=1 << 13, numpy_every=2)
    assert (measured.compared, measured.differing) == (4 * ulp.BLOCK, 4)


MP: dict[str, Callable[..., mpmath.mpf]] = {
    "log2": lambda x: mpmath.log(x, 2),
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
    "silu": lambda x: x / (1 + mpmath.exp(-x)),
    "softplus": lambda x: mpmath.log1p(mpmath.exp(x)),
    "gelu": lambda x: x / 2 * mpmath.erfc(-x / mpmath.sqrt(2)),
    "gelu_tanh": lambda x: x / 2 * (1 + mpmath.tanh(mpmath.sqrt(2 / mpmath.pi) * (x + mpmath.mpf("0.044715") * x**3))),
    "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    "pow": mpmath.power,
    "exp2": lambda x: mpmath.power(2, x),
    "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)),
    "fmod": lambda x, y: mpmath.sign(x) * mpmath.fmod(abs(x), abs(y)),
    "remainder": lambda x, y: x - y * mpmath.nint(x / y),
    "logaddexp": lambda x, y: mpmath.log(mpmath.exp(x) + mpmath.exp(y)),
}


@pytest.mark.parametrize("name", ulp.NAMES)
def test_f64_within_one_ulp(name: str):
    """Ordinary numbers against mpmath with 600 bits."""
    g = np.random.default_rng(4)
    parts = [ulp.inputs(name, dt.f64, 48, k, g) for k in (2, 3, 4)]
    arguments = [np.concatenate(p) for p in zip(*parts, strict=True)]
    if name in ("asin", "acos", "atanh"):
        arguments = [np.clip(a, -1 + 1e-9, 1 - 1e-9) for a in arguments]
    if name == "log1p":
        arguments = [np.maximum(a, -1 + 1e-9) for a in arguments]
    if name == "acosh":
        arguments = [np.abs(a) + 1 for a in arguments]
    if name == "pow":
        arguments[0] = np.abs(arguments[0])
    got = denoted(name, *arguments)
    f = MP.get(name) or getattr(mpmath, name)
    with mpmath.workprec(2400 if name in ("fmod", "remainder") else 600):
        for y, *xs in zip(got, *arguments, strict=True):
            exact = f(*map(mpmath.mpf, map(float, xs)))
            unit = max(abs(exact), abs(max(xs))) if name == "logaddexp" else exact
            exponent = max(math.frexp(float(unit))[1], -1021)
            if math.isinf(y):
                assert abs(exact) > 2.0**1023, (name, xs)
            else:
                assert abs(mpmath.mpf(float(y)) - exact) * mpmath.mpf(2) ** (53 - exponent) <= 1, (name, xs, y)


def test_trigonometric_arguments_close_to_multiples_of_half_pi():
    hard = [6381956970095103.0 * 2.0**797, 5.8e22, math.pi, math.pi / 2, 2.0**1000, 2.0**53 + 2, 1e5 * math.pi]
    with mpmath.workprec(1400):
        for name in ("sin", "cos", "tan"):
            for x, y in zip(hard, denoted(name, np.array(hard)), strict=True):
                exact = getattr(mpmath, name)(mpmath.mpf(x))
                assert abs(mpmath.mpf(float(y)) / exact - 1) < 2.0**-52.5, (name, x)


# ------------------------------------------------------------------------------------------------ properties

ODD = ["sin", "tan", "sinh", "tanh", "asin", "atan", "asinh", "atanh", "erf", "cbrt"]
EVEN = ["cos", "cosh"]
RISING = ["exp", "exp2", "log", "log2", "log10", "log1p", "sigmoid", "tanh", "atan", "sinh", "asinh", "cbrt", "softplus", "expm1"]


def bit_patterns(dtype: DType, n: int) -> np.ndarray:
    return np.concatenate([ulp.random_bits(np.random.default_rng(5), dtype, n), ulp.special(dtype)])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", [*ODD, *EVEN])
def test_symmetry(name: str, dtype: DType):
    x = bit_patterns(dtype, 4096)
    y, mirrored = denoted(name, x), denoted(name, -x)
    assert bits_equal(mirrored, -y if name in ODD else y)


@pytest.mark.parametrize("name", RISING)
def test_rising_over_every_binade(name: str):
    """Neighbouring binades never swap (this holds between distant inputs, not between neighbours: those may be an ulp off)."""
    edges = np.ldexp(np.float32(1), np.arange(-149, 128)).astype(np.float32)
    x = np.concatenate([-edges[::-1], [0.0], edges]).astype(np.float32)
    y = denoted(name, x)
    y = y[~np.isnan(y)]
    assert (np.diff(y[np.isfinite(y)]) >= 0).all()


@pytest.mark.parametrize("name", ["exp", "sigmoid", "erfc", "cosh"])
def test_never_negative(name: str):
    y = denoted(name, bit_patterns(dt.f32, 1 << 14))
    assert not np.signbit(y[~np.isnan(y)]).any()


# ------------------------------------------------------------------------------------------------ the same bits in C++


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    """Every function in one library, translated one node a statement."""
    parts = [ulp.translate(*ulp.composition(r.name, d), name=f"{r.name}_{d}") for r in ROWS for d in FLOATS]
    return ulp.build("".join(parts), optimise="-O1")


@pytest.mark.cpp
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("row", ROWS, ids=lambda r: r.name)
def test_numpy_equals_cpp(library: ctypes.CDLL, row: Row, dtype: DType):
    g = np.random.default_rng(6)
    s = ulp.special(dtype)
    with np.errstate(all="ignore"):
        parts = [ulp.inputs(row.name, dtype, 400, k, g) for k in range(6)]
    parts.append((np.repeat(s, s.size), np.tile(s, s.size)) if len(row.params) == 2 else (s,))
    arguments = [np.ascontiguousarray(np.concatenate(p)) for p in zip(*parts, strict=True)]
    expected = np.empty_like(arguments[0])
    call = getattr(library, f"{row.name}_{dtype}")
    call(*map(ulp.pointer, (expected, *arguments)), ctypes.c_long(expected.size))
    assert bits_equal(denoted(row.name, *arguments), expected)


def test_derived_log_sigmoid():
    x = np.array([-1000.0, -1.0, 0.0, 1.0, 90.0], np.float32)
    assert error_in_ulp(denoted("log_sigmoid", x), -np.logaddexp(0.0, -x.astype(float)), dt.f32).max() <= 1.0
