"""Column `lin` of the scalar table: symbolic derivatives, central differences of the bits, kinks and special values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sympy

import assay.core.functions  # noqa: F401
from assay.core import dtypes as dt
from assay.core.errors import Unsupported
from assay.core.lang import E, apply_row, const, constant_value, input, let, load, select, walk
from assay.core.row import TABLE, Row, Where
from assay.semantics.denote import evaluate

inf, nan = math.inf, math.nan
FLOAT = [r for r in TABLE.values() if callable(r.lin)]
ROUGH = ("floor", "ceil", "trunc", "round", "lt", "le", "eq", "ne", "stop", "as_if", "select")  # steps, or declared
SMOOTH = [r for r in FLOAT if r.name not in ROUGH]


def numbers(r: Row) -> list[E]:
    """One f64 element for each parameter; conditions are booleans."""
    bools = {"select": 1}.get(r.name, 0)
    return [load(input(p, (), dt.bool_ if k < bools else dt.f64)) for k, p in enumerate(r.params)]


def carried(r: Row, args: list[E], c: E) -> list[E | None]:
    """What the row makes of the cotangent c, for each argument."""
    maps = r.lin(*args, apply_row(r, tuple(args)))  # type: ignore[operator]
    assert len(maps) == r.arity
    zero = const(0, c.dtype)
    return [None if m is None else select(m.condition, c, zero) if isinstance(m, Where) else m(c) for m in maps]


@pytest.mark.parametrize("r", TABLE.values(), ids=lambda r: r.name)
def test_every_row_has_a_derivative_or_says_why_not(r: Row) -> None:
    whole_numbers = {"floordiv", "mod", "and", "or", "not", "band", "bor", "bxor", "bnot", "shl", "shr", "umulhi"}
    if r.name in whole_numbers:
        assert str(r.lin) == "integers and booleans have no derivative"
    else:
        assert isinstance(r.lin, Unsupported) == (r.kind == "derived")


# ------------------------------------------------------------------------------------------------ over the reals

REAL: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": lambda a, b: a / b,
    "fma": lambda a, b, c: a * b + c, "neg": lambda a: -a, "sqrt": sympy.sqrt, "exp": sympy.exp, "exp2": lambda a: 2**a,
    "expm1": lambda a: sympy.exp(a) - 1, "sinh": sympy.sinh, "cosh": sympy.cosh, "tanh": sympy.tanh,
    "sigmoid": lambda a: 1 / (1 + sympy.exp(-a)), "silu": lambda a: a / (1 + sympy.exp(-a)), "log": sympy.log,
    "log2": lambda a: sympy.log(a) / sympy.log(2), "log10": lambda a: sympy.log(a) / sympy.log(10),
    "log1p": lambda a: sympy.log(1 + a), "softplus": lambda a: sympy.log(1 + sympy.exp(a)),
    "logaddexp": lambda a, b: sympy.log(sympy.exp(a) + sympy.exp(b)), "asinh": sympy.asinh, "acosh": sympy.acosh,
    "atanh": sympy.atanh, "erf": sympy.erf, "erfc": sympy.erfc,
    "gelu": lambda a: a / 2 * (1 + sympy.erf(a / sympy.sqrt(2))),
    "gelu_tanh": lambda a: a / 2 * (1 + sympy.tanh(sympy.sqrt(2 / sympy.pi) * (a + sympy.Rational("0.044715") * a**3))),
    "sin": sympy.sin, "cos": sympy.cos, "tan": sympy.tan, "asin": sympy.asin, "acos": sympy.acos, "atan": sympy.atan,
    "atan2": lambda y, x: sympy.atan(y / x), "pow": lambda a, b: a**b, "rsqrt": lambda a: 1 / sympy.sqrt(a),
    "cbrt": lambda a: a ** sympy.Rational(1, 3), "hypot": lambda a, b: sympy.sqrt(a**2 + b**2),
    "abs": sympy.Abs, "max": sympy.Max, "min": sympy.Min, "relu": lambda a: sympy.Max(a, 0),
    "fmod": lambda a, b: a - 2 * b, "remainder": lambda a, b: a - 2 * b,  # where the quotient is 2
    "round": lambda a: a, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "eq": sympy.Eq,
    "and": sympy.And, "not": sympy.Not, "select": lambda c, a, b: sympy.Piecewise((a, c), (b, True)),
}  # fmt: skip
CONSTANTS = {
    math.log(2): sympy.log(2), math.log(10): sympy.log(10), 1.1283791670955126: 2 / sympy.sqrt(sympy.pi),
    0.3989422804014327: 1 / sympy.sqrt(2 * sympy.pi), 0.7071067811865476: 1 / sympy.sqrt(2),
    math.sqrt(2 / math.pi): sympy.sqrt(2 / sympy.pi), inf: sympy.oo,
}  # fmt: skip


def real(e: E, symbols: dict[str, Any]) -> Any:
    """The real-number value of an expression as a sympy term."""
    made: dict[E, Any] = {}
    for x in walk((e,)):
        if x.op == "load":
            made[x] = symbols[x.attr[0].name]
        elif x.op == "const":
            v = float(constant_value(x))
            made[x] = CONSTANTS.get(v, sympy.Rational(repr(v)) if math.isfinite(v) else None)
        else:
            made[x] = REAL[x.op](*(made[a] for a in x.args))
    return made[e]


POINTS = [(sympy.Rational(3, 7), sympy.Rational(5, 11)), (sympy.Rational(9, 10), sympy.Rational(-1, 8))]


@pytest.mark.parametrize("r", SMOOTH, ids=lambda r: r.name)
def test_the_maps_are_the_symbolic_derivatives(r: Row) -> None:
    args = numbers(r)
    kinked = r.name in ("abs", "max", "min", "relu")
    symbols = {a.attr[0].name: sympy.Symbol(a.attr[0].name, positive=None if kinked else True, real=True) for a in args}
    c = sympy.Symbol("c", real=True)
    value = REAL[r.name](*symbols.values())
    maps = carried(r, args, load(input("c", (), dt.f64)))
    for symbol, map_ in zip(symbols.values(), maps, strict=True):
        assert map_ is not None
        wanted, found = c * sympy.diff(value, symbol), real(map_, {**symbols, "c": c})
        if kinked:
            points = [dict(zip(symbols.values(), p, strict=False)) for p in (*POINTS, *((-a, -b) for a, b in POINTS))]
            assert all(sympy.simplify(wanted.subs(p).doit() - found.subs(p).doit()) == 0 for p in points)
        else:
            assert sympy.simplify(wanted - found) == 0, f"{r.name}, {symbol}: {wanted} and {found}"


def test_a_wrong_map_is_no_symbolic_derivative() -> None:
    x, c = sympy.Symbol("x", positive=True), sympy.Symbol("c", real=True)
    wrong = real(TABLE["tanh"].lin(*numbers(TABLE["sinh"]), apply_row(TABLE["sinh"], tuple(numbers(TABLE["sinh"]))))[0](  # type: ignore[operator, misc]
        load(input("c", (), dt.f64))), {"x": x, "c": c})  # fmt: skip
    assert sympy.simplify(wrong - c * sympy.cosh(x)) != 0


# ------------------------------------------------------------------------------------------------ on the bits

DOMAIN: dict[str, tuple[tuple[float, float], ...]] = {
    "sqrt": ((0.1, 3),), "log": ((0.1, 3),), "log2": ((0.1, 3),), "log10": ((0.1, 3),), "log1p": ((-0.8, 3),),
    "acosh": ((1.1, 4),), "atanh": ((-0.9, 0.9),), "asin": ((-0.9, 0.9),), "acos": ((-0.9, 0.9),), "tan": ((-1.2, 1.2),),
    "pow": ((0.1, 3), (-3, 3)), "rsqrt": ((0.1, 3),), "cbrt": ((0.2, 5),), "div": ((-2, 2), (0.4, 2)),
    "fmod": ((4.6, 5.4), (2.2, 2.25)), "remainder": ((4.6, 5.4), (2.2, 2.25)),
}  # fmt: skip


def differences(r: Row, points: list[np.ndarray], k: int, step: float = 1e-3) -> np.ndarray:
    """The slope in argument k, by central differences of f64 bits, extrapolated twice."""
    inputs = [input(p, points[0].shape, dt.f64) for p in r.params]
    t = let(inputs[0].shape, apply_row(r, tuple(load(i, *_axes(i)) for i in inputs)))

    def at(h: float) -> np.ndarray:
        moved = [p + h if j == k else p for j, p in enumerate(points)]
        return evaluate([t], dict(zip(inputs, moved, strict=True)))[0]

    d = [(at(h) - at(-h)) / (2 * h) for h in (step, step / 2, step / 4)]
    first = [(4 * b - a) / 3 for a, b in itertools.pairwise(d)]
    return (16 * first[1] - first[0]) / 15


def _axes(t: Any) -> Any:
    from assay.core.lang import axes

    return axes(t.shape)


@pytest.mark.parametrize("r", SMOOTH, ids=lambda r: r.name)
def test_the_maps_agree_with_differences_of_the_bits(r: Row) -> None:
    rng = np.random.default_rng(0)
    domain = DOMAIN.get(r.name, ((-2.0, 2.0),) * r.arity)
    points = [rng.uniform(lo, hi, 50) for lo, hi in domain]
    if r.name in ("abs", "relu"):
        points = [np.where(abs(p) < 0.05, 0.5, p) for p in points]
    if r.name in ("max", "min"):
        points[1] = np.where(abs(points[0] - points[1]) < 0.05, points[0] + 1, points[1])
    inputs = [input(p, (50,), dt.f64) for p in r.params]
    c = rng.uniform(0.5, 2, 50)
    seed = input("c", (50,), dt.f64)
    maps = carried(r, [load(i, *_axes(i)) for i in inputs], load(seed, *_axes(seed)))
    arrays = {seed: c, **dict(zip(inputs, points, strict=True))}
    for k, m in enumerate(maps):
        assert m is not None
        found = evaluate([let((50,), m)], arrays)[0]
        wanted = c * differences(r, points, k)
        assert np.max(np.abs(found - wanted) / np.maximum(1, np.abs(wanted))) < 1e-9


@pytest.mark.parametrize(("name", "args", "slopes"), [
    ("relu", (0.0,), (0.0,)), ("relu", (-0.0,), (0.0,)), ("relu", (-1.0,), (0.0,)), ("relu", (nan,), (1.0,)),
    ("abs", (0.0,), (0.0,)), ("abs", (-0.0,), (0.0,)), ("abs", (-inf,), (-1.0,)),
    ("max", (1.0, 1.0), (1.0, 0.0)), ("max", (-0.0, 0.0), (1.0, 0.0)), ("max", (1.0, 2.0), (0.0, 1.0)),
    ("min", (1.0, 1.0), (1.0, 0.0)), ("min", (2.0, 1.0), (0.0, 1.0)),
    ("sqrt", (0.0,), (inf,)), ("log", (0.0,), (inf,)), ("cbrt", (0.0,), (inf,)), ("log1p", (-1.0,), (inf,)),
    ("silu", (-inf,), (0.0,)), ("silu", (inf,), (1.0,)), ("sigmoid", (-1000.0,), (0.0,)), ("tanh", (inf,), (0.0,)),
    ("softplus", (-inf,), (0.0,)), ("softplus", (inf,), (1.0,)), ("expm1", (-700.0,), (math.exp(-700),)),
    ("logaddexp", (-inf, -inf), (0.5, 0.5)), ("logaddexp", (-inf, 3.0), (0.0, 1.0)), ("logaddexp", (inf, 1.0), (1.0, 0.0)),
    ("asinh", (1e200,), (1e-200,)), ("acosh", (1e200,), (1e-200,)), ("acosh", (1.0,), (inf,)), ("atanh", (1.0,), (inf,)),
    ("hypot", (0.0, 0.0), (0.0, 0.0)), ("hypot", (3e200, 4e200), (0.6, 0.8)),
    ("atan2", (0.0, 0.0), (0.0, 0.0)), ("atan2", (0.0, -2e200), (-5e-201, -0.0)), ("atan", (1e200,), (0.0,)),
    ("pow", (0.0, 0.0), (0.0, 0.0)), ("pow", (0.0, 1.0), (1.0, 0.0)), ("pow", (0.0, 2.0), (0.0, 0.0)),
    ("pow", (-2.0, 3.0), (12.0, nan)), ("rsqrt", (1e-200,), (-0.5e300,)), ("fmod", (5.5, 2.0), (1.0, -2.0)),
    ("fmod", (-5.5, 2.0), (1.0, 2.0)), ("remainder", (7.0, 2.0), (1.0, -4.0)),
])  # fmt: skip
def test_kinks_and_special_values(name: str, args: tuple[float, ...], slopes: tuple[float, ...]) -> None:
    r = TABLE[name]
    c = load(input("c", (), dt.f64))
    made = carried(r, numbers(r), c)
    arrays = {input(p, (), dt.f64): np.float64(v) for p, v in zip(r.params, args, strict=True)}
    for m, wanted in zip(made, slopes, strict=True):
        assert m is not None
        found = float(evaluate([let((), m)], {**arrays, input("c", (), dt.f64): np.float64(1)})[0])
        assert (math.isnan(found) and math.isnan(wanted)) or found == wanted or abs(found / wanted - 1) < 1e-14


def test_a_condition_is_no_product() -> None:
    """What does not pass is 0, though the cotangent be infinite or NaN."""
    for bad in (inf, nan):
        made = carried(TABLE["relu"], numbers(TABLE["relu"]), load(input("c", (), dt.f64)))[0]
        assert made is not None
        arrays = {input("x", (), dt.f64): np.float64(-1), input("c", (), dt.f64): np.float64(bad)}
        assert float(evaluate([let((), made)], arrays)[0]) == 0.0
