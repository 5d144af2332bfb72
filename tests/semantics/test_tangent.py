"""Tangents of core programs: what has none, folds, scans, scatters, half types.

Those of every operator are compared with gradients and with differences in tests/transforms/test_adjoint.py.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from assay.core import dtypes as dt
from assay.core.errors import UserError
from assay.core.lang import (
    E,
    T,
    axes,
    bitcast,
    const,
    convert,
    fold,
    folds,
    index,
    input,
    load,
    load_or_zero,
    op,
    program,
    require,
    scan,
    scatter,
    select,
    tensor,
)
from assay.core.operators import OPERATORS
from assay.core.text import show
from assay.semantics.definition import as_fold
from assay.semantics.denote import evaluate
from assay.semantics.tangent import tangent

X, DX = input("x", (4,), dt.f64), input("dx", (4,), dt.f64)
VALUES = np.array([0.5, -1.25, 2.0, 0.75])
MOVES = np.array([1.0, 2.0, -0.5, 0.25])


def moved(y: T, **values: np.ndarray) -> list[float] | None:
    """The tangent of y along MOVES at VALUES."""
    found = tangent([y], {X: DX})[0]
    return None if found is None else evaluate([found], {X: VALUES, DX: MOVES})[0].tolist()


ZERO: dict[str, Callable[..., E]] = {
    "a constant": lambda i: const(2.0, dt.f64),
    "an index": lambda i: convert(index(i), dt.f64),
    "floor": lambda i: op("floor", X[i]),
    "stop": lambda i: op("stop", X[i]),
    "a comparison": lambda i: convert(X[i] < 0, dt.f64),
    "an integer": lambda i: convert(convert(X[i], dt.i64), dt.f64),
    "bits": lambda i: bitcast(bitcast(X[i]) + 1, dt.f64),
}


@pytest.mark.parametrize("name", ZERO)
def test_what_is_piecewise_constant_has_no_tangent(name: str) -> None:
    assert moved(tensor((4,), ZERO[name])) is None


def test_a_sum_needs_no_value() -> None:
    y = tensor((), lambda: fold(4, const(0, dt.f64), lambda a, k: a + X[k]))
    found = tangent([y], {X: DX})[0]
    assert found is not None
    assert show(program([DX], [found])) == "program f(dx: f64[4]):\n  t0[] = sum(k:4) dx[k]\n  return t0\n"


def test_accumulators_that_become_active_later() -> None:
    """The tangent of b appears in the second round: a is active first, b reads a."""
    y = tensor((), lambda: folds(4, (const(0, dt.f64), const(1, dt.f64)), lambda a, b, k: (a + X[k], b * (1 + a)))[1])
    a = b = da = db = 0.0
    b = 1.0
    for x, d in zip(VALUES, MOVES, strict=True):
        a, b, da, db = a + x, b * (1 + a), da + d, db * (1 + a) + b * da
    assert moved(y) == pytest.approx(db, rel=1e-15)


def test_scan() -> None:
    node = fold(4, const(1, dt.f64), lambda a, k: a * X[k])
    states, moves = [1.0], [0.0]
    for x, d in zip(VALUES, MOVES, strict=True):
        moves.append(moves[-1] * x + states[-1] * d)
        states.append(states[-1] * x)
    assert moved(scan((), node, 0, 0)) == moves


@pytest.mark.parametrize("combine", [None, "add", "mul", "max", "min"])
def test_scatters(combine: str | None) -> None:
    """Two writes to element 1, of differentiable values into a differentiable base; the linear ones stay scatters."""
    at = [1, 3, 1]
    base, v = input("base", (4,), dt.f64), input("v", (3,), dt.f64)
    place = tensor((3,), lambda u: select(op("eq", index(u), 1), 3, const(1, dt.i64)))
    u = axes((3,))[0]
    y = scatter(base, (3,), [load(place, u)], load(v, u) * load(v, u), combine)
    d_base, d_v = input("db", (4,), dt.f64), input("dv", (3,), dt.f64)
    found = tangent([y], {base: d_base, v: d_v})[0]
    assert found is not None
    assert (found.kind == "scatter") == (combine in (None, "add"))
    w, dw = np.array([1.5, -0.5, 2.0]), np.array([1.0, 2.0, -1.0])
    value, move = VALUES.copy(), MOVES.copy()
    for k, j in enumerate(at):
        x, dx = w[k] ** 2, 2 * w[k] * dw[k]
        if combine == "mul":
            value[j], move[j] = value[j] * x, move[j] * x + value[j] * dx
        elif combine == "add":
            value[j], move[j] = value[j] + x, move[j] + dx
        elif combine is None or (x > value[j] if combine == "max" else x < value[j]):
            value[j], move[j] = x, dx
    arrays = {base: VALUES, v: w, d_base: MOVES, d_v: dw}
    assert evaluate([y], arrays)[0].tolist() == pytest.approx(value.tolist())
    assert evaluate([as_fold(y)], arrays)[0].tolist() == evaluate([y], arrays)[0].tolist()
    assert evaluate([found], arrays)[0].tolist() == pytest.approx(move.tolist())


def test_a_check_is_no_part_of_the_tangent() -> None:
    y = require((4,), X[axes((4,))[0]] * 3, const(True, dt.bool_), "never")
    found = tangent([y], {X: DX})[0]
    assert found is not None
    assert found.kind == "let"
    assert moved(y) == (3 * MOVES).tolist()


def test_pads_of_tangents_are_zero() -> None:
    assert moved(tensor((6,), lambda i: load_or_zero(X, i - 1))) == [0.0, *MOVES.tolist(), 0.0]


def test_half_types_are_computed_in_f32_and_rounded_once() -> None:
    x, d = input("x", (2,), dt.bf16), input("d", (2,), dt.bf16)
    y = tensor((2,), lambda i: convert(convert(x[i], dt.f32) * 1.01 * convert(x[i], dt.f32), dt.bf16))
    found = tangent([y], {x: d})[0]
    assert found is not None
    assert found.dtype is dt.bf16
    a, b = np.array([1.5, 3.0], dt.bf16.numpy), np.array([1.0, -2.0], dt.bf16.numpy)
    p, q = a.astype(np.float32), b.astype(np.float32)
    k = np.float32(1.01)
    assert evaluate([found], {x: a, d: b})[0].tolist() == (q * k * p + (p * k) * q).astype(dt.bf16.numpy).tolist()


def test_errors() -> None:
    n = input("n", (4,), dt.i64)
    with pytest.raises(UserError, match="only floats have derivatives"):
        tangent([X], {n: n})
    with pytest.raises(UserError, match=r"tangent .* must have its shape and type"):
        tangent([X], {X: input("d", (5,), dt.f64)})


@pytest.mark.parametrize(("name", "arguments", "has"), [("relu.default", (), True), ("argmax.default", (None, False), False)])
def test_operators_with_and_without(name: str, arguments: tuple[object, ...], *, has: bool) -> None:
    p = OPERATORS[name].program(X, *arguments)
    assert (tangent(p.outputs, {p.inputs[0]: DX}) != [None]) == has
