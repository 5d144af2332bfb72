"""Gradients: against differences and tangents for every operator, second order three ways, random chains, the forms they take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from assay.backends.cpp import compile_many
from assay.core import dtypes as dt
from assay.core.errors import Unsupported, UserError
from assay.core.lang import (
    E,
    T,
    bodies,
    const,
    fold,
    index,
    input,
    let,
    load,
    load_or_zero,
    op,
    order,
    program,
    select,
    tensor,
    walk,
)
from assay.core.operators import OPERATORS, Operator
from assay.core.text import show
from assay.fuzz.audit_derivatives import SURE, disagreement, gradients, wrong_derivative, wrong_slope
from assay.fuzz.chains import chain
from assay.fuzz.differences import FUNCTIONAL, SLOPED, Point, differentiable, one_sample, points, samples, slope
from assay.semantics.denote import bits_equal, evaluate, run
from assay.semantics.tangent import tangent
from assay.transforms.adjoint import adjoint, gradient_program
from assay.transforms.pipeline import optimise
from assay.verify.bounds import prove
from assay.verify.validate import validate
from tests.frontends.test_every_gradient import ALSO_CONSTANT, CONSTANT

DIFFERENTIABLE = [o for o in SLOPED if (found := one_sample(o)) is not None and differentiable(o.program(*found))]
NOT_COMPARED = {
    "detach.default": "it is said to have no derivative",
    "overwritten.default": "it is said to have that of what it overwrites",
    "round.decimals": "differences of a staircase with steps of 10**-decimals say nothing",
    "alias.default": "it is the identity: there is no definition to differentiate",
}
"""Overloads of floats that differences are not taken of; tests/frontends/test_every_gradient.py names those that are constant."""


def some_points(o: Operator) -> list[tuple[Point, float]]:
    """One point of the sample, or of another where that has none (it fills with infinity)."""
    return next(filter(None, (list(points(o, s)) for s in (one_sample(o) or (), *samples(o)))), [])


def test_15_every_overload_is_differentiated_or_named() -> None:
    """344 overloads; the others are constant by their names."""
    assert len(DIFFERENTIABLE) >= 344
    rest = [o for o in FUNCTIONAL if o not in DIFFERENTIABLE and o.name not in NOT_COMPARED]
    assert [o.name for o in rest if o.base not in CONSTANT and o.name not in ALSO_CONSTANT] == []
    assert not {o.name for o in DIFFERENTIABLE} & {*NOT_COMPARED}


def check(point: Point, wanted: float) -> None:
    """The gradient along the directions is the slope, and the tangent's product with the weights."""
    assert disagreement(point, wanted) is None


@pytest.mark.parametrize("o", DIFFERENTIABLE, ids=lambda o: o.name)
def test_15_gradient_of_every_operator(o: Operator) -> None:
    found = some_points(o)
    assert found, "no point: nothing would be compared"
    for point, wanted in found:
        check(point, wanted)


@pytest.mark.full
@pytest.mark.parametrize("o", DIFFERENTIABLE, ids=lambda o: o.name)
def test_15_gradient_of_every_sample(o: Operator) -> None:
    for sample in samples(o):
        for point, wanted in points(o, sample):
            check(point, wanted)


def test_15_a_wrong_gradient_is_seen() -> None:
    """Twice the slope, and a tangent along a part of the directions."""
    point, wanted = next(points(OPERATORS["mul.Tensor"], one_sample(OPERATORS["mul.Tensor"]) or ()))
    assert disagreement(point, wanted) is None
    assert disagreement(point, 2 * wanted) is not None
    half = Point(point.program, point.values, dict(list(point.directions.items())[:1]), point.weights)
    assert disagreement(half, wanted) is not None


# ------------------------------------------------------------------------------------------------ second order

TWICE = ("mul.Tensor", "div.Tensor", "pow.Tensor_Tensor", "tanh.default", "gelu.default", "silu.default", "softmax.int",
         "log_softmax.int", "logsumexp.default", "native_layer_norm.default", "var.correction", "std.correction", "prod.dim_int",
         "cumprod.default", "cumsum.default", "logcumsumexp.default", "mm.default", "conv2d.default", "conv_transpose1d.default",
         "avg_pool2d.default", "max_pool2d.default", "embedding.default", "index_add.default", "scatter.reduce",
         "linalg_vector_norm.default", "scaled_dot_product_attention.default", "grid_sampler_2d.default", "atan2.default",
         "reshape.default", "cat.default")  # fmt: skip


def second_order(point: Point) -> None:
    """Hessian times direction, forward over reverse, reverse over reverse, reverse over forward, and by differences."""
    wrt, g, arrays = gradients(point)
    seeds = [t for t in arrays if t not in point.values]
    outputs = list(point.weights)
    u = {t: input(f"u_{t.name}", t.shape, t.dtype) for t in wrt}
    arrays = {**arrays, **{u[t]: d for t, d in point.directions.items()}}
    zeros = {t: np.zeros(t.shape) for t in wrt}

    def values(tensors: Sequence[T | None]) -> list[np.ndarray]:
        return [zeros[t] if x is None else evaluate([x], arrays)[0] for t, x in zip(wrt, tensors, strict=True)]

    forward_reverse = values(tangent(g, u))
    reverse_reverse = values(adjoint(g, [u[t] for t in wrt], wrt))
    moves = [(d, s) for d, s in zip(tangent(outputs, u), seeds, strict=True) if d is not None]
    reverse_forward = values(adjoint([d for d, _ in moves], [s for _, s in moves], wrt)) if moves else list(zeros.values())
    step = 1e-4

    def moved(h: float) -> list[np.ndarray]:
        return evaluate(g, {**arrays, **{t: point.values[t] + h * d for t, d in point.directions.items()}})

    ends = [(moved(h), moved(-h), h) for h in (step, step / 2)]
    first, second = ([(a - b) / (2 * h) for a, b in zip(x, y, strict=True)] for x, y, h in ends)
    for k, reference in enumerate(forward_reverse):
        size = max(1.0, float(np.max(abs(reference), initial=0)))
        assert np.max(abs(reverse_reverse[k] - reference), initial=0) <= 1e-10 * size
        assert np.max(abs(reverse_forward[k] - reference), initial=0) <= 1e-10 * size
        assert np.max(abs((4 * second[k] - first[k]) / 3 - reference), initial=0) <= 1e-6 * size


@pytest.mark.parametrize("name", TWICE)
def test_second_order_three_ways(name: str) -> None:
    o = OPERATORS[name]
    point, _ = next(points(o, one_sample(o) or ()))
    second_order(point)


@pytest.mark.full
@pytest.mark.parametrize("o", DIFFERENTIABLE, ids=lambda o: o.name)
def test_second_order_of_every_operator(o: Operator) -> None:
    found = some_points(o)
    assert found
    for point, _ in found:
        second_order(point)


# ------------------------------------------------------------------------------------------------ random chains


def check_chain(seed: int) -> bool:
    """Whether the chain has a point away from kinks; its derivatives are checked there."""
    point = chain(seed).point()
    if point is None:
        return False
    wanted, apart = slope(point)
    if not (np.isfinite(wanted) and apart < SURE * max(1.0, abs(wanted))):
        return False
    check(point, wanted)
    return True


def test_random_chains() -> None:
    assert sum(map(check_chain, range(30))) > 20


@pytest.mark.full
@pytest.mark.parametrize("start", range(1000, 3000, 50))
def test_many_random_chains(start: int) -> None:
    assert sum(map(check_chain, range(start, start + 50))) > 25


@pytest.mark.parametrize("first", range(0, 160, 16))
def test_derivatives_made_in_two_ways(first: int) -> None:
    """Slopes of scalar functions, chains, operators, halves of joint programs, the engine."""
    found = [w for s in range(first, first + 16) for w in (wrong_slope(s), wrong_derivative(s)) if w]
    assert found == []


# ------------------------------------------------------------------------------------------------ the forms of gradients


def f64(name: str, *shape: int) -> T:
    return input(name, shape, dt.f64)


X, P = f64("x", 5, 6), f64("p", 2, 3, 4)
LINEAR: dict[str, tuple[T, tuple[int, ...], Callable[..., E], int]] = {  # input, shape of the view, view, folds of its transpose
    "permute": (P, (4, 2, 3), lambda i, j, k: P[j, k, i], 0),
    "reshape": (X, (10, 3), lambda i, j: X[(3 * i + j) // 6, (3 * i + j) % 6], 0),
    "reshape of a transpose": (X, (3, 10), lambda i, j: X[(10 * i + j) % 5, (10 * i + j) // 5], 0),
    "three axes": (P, (4, 6), lambda i, j: P[(6 * i + j) // 12, ((6 * i + j) // 4) % 3, (6 * i + j) % 4], 0),
    "flip": (X, (5, 6), lambda i, j: X[4 - i, 5 - j], 0),
    "roll": (X, (5, 6), lambda i, j: X[i, (j + 2) % 6], 0),
    "slice": (X, (4, 3), lambda i, j: X[i + 1, 2 * j], 0),
    "pad": (X, (8, 9), lambda i, j: load_or_zero(X, i - 1, j - 2), 0),
    "cat": (X, (9, 6), lambda i, j: select(op("lt", index(i), 4), X[i + 1, j], load_or_zero(X, i - 4, j)), 0),
    "tril": (X, (5, 6), lambda i, j: select(op("le", index(j), index(i)), X[i, j], const(0, dt.f64)), 0),
    "diagonal": (X, (5,), lambda i: X[i, i + 1], 0),
    "expand": (X, (3, 5, 6), lambda n, i, j: X[i, j], 1),
    "repeat": (X, (5, 18), lambda i, j: X[i, j // 3], 1),
    "windows": (X, (5, 4, 3), lambda i, h, u: X[i, h + u], 1),
    "sum": (X, (5,), lambda i: fold(6, const(0, dt.f64), lambda a, r: a + X[i, r]), 0),
    "images to columns": (X, (6, 12), lambda i, j: X[i // 3 + j // 4, i % 3 + j % 4], 2),
}  # fmt: skip
SAME_TWICE = ("permute", "reshape", "reshape of a transpose", "flip", "roll", "tril", "expand", "repeat", "sum")


def transpose(x: T, y: T) -> T:
    """The transpose of the linear map x -> y, of an input that has the name of x."""
    return adjoint([y], [input(x.name, y.shape, y.dtype)], [x])[0]


@pytest.mark.parametrize("name", LINEAR)
def test_transposes_have_no_more_folds_than_needed(name: str) -> None:
    x, shape, view, folds = LINEAR[name]
    y = tensor(shape, view)
    made = transpose(x, y)
    assert made.kind == "let"
    assert show(program([t for t in order([made]) if t.kind == "input"], [made])).count("(k:") == min(folds, 1)
    dense = np.zeros((y.size, x.size))
    for k, unit in enumerate(np.eye(x.size)):
        dense[:, k] = evaluate([y], {x: unit.reshape(x.shape)})[0].reshape(-1)
    g = np.random.default_rng(0).standard_normal(shape)
    found = evaluate([made], {input(x.name, y.shape, y.dtype): g})[0]
    assert np.allclose(found.reshape(-1), dense.T @ g.reshape(-1), rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("name", SAME_TWICE)
def test_transposing_twice_gives_the_same_object(name: str) -> None:
    x, shape, view, _ = LINEAR[name]
    y = tensor(shape, view)
    seed = input(x.name, y.shape, y.dtype)
    assert adjoint([transpose(x, y)], [input(x.name, x.shape, x.dtype)], [seed])[0] is y


def text(name: str, shape: tuple[int, ...], body: Callable[..., E], *inputs: T) -> list[str]:
    """The definitions of the gradient program."""
    return show(gradient_program(program(inputs, [tensor(shape, body)], name=name))).splitlines()[1:-1]


def test_matmul() -> None:
    a, b = f64("a", 4, 5), f64("b", 5, 6)
    found = text("mm", (4, 6), lambda i, j: fold(5, const(0, dt.f64), lambda s, k: op("fma", a[i, k], b[k, j], s)), a, b)
    assert found == [
        "  t0[i:4,j:5] = fold(k:6; c=0x0p+0:f64) fma(d0[i,k], b[j,k], c)",
        "  t1[i:5,j:6] = fold(k:4; c=0x0p+0:f64) fma(d0[k,j], a[k,i], c)",
    ]


def test_a_strided_convolution_has_a_tensor_for_each_phase_and_no_test_of_divisibility_in_loops() -> None:
    x, w = f64("x", 12), f64("w", 4)
    found = text("conv", (5,), lambda i: fold(4, const(0, dt.f64), lambda s, k: op("fma", x[2 * i + k], w[k], s)), x, w)
    inside = "and(le(0:i64, [i - k]:i64), lt([i - k]:i64, 5:i64))"
    assert found[0] == f"  t0[i:6] = fold(k:2; a=0x0p+0:f64) select({inside}, fma(d0[i - k], w[2*k], a), a)"
    assert found[2] == "  t2[i:12] = select(eq([i%2]:i64, 0:i64), t0[i//2], t1[i//2])"


@pytest.mark.parametrize("stride", range(1, 7))
@pytest.mark.parametrize("dilation", range(1, 7))
def test_windows_of_any_stride_and_dilation(stride: int, dilation: int) -> None:
    """y[i] = sum(k) w[k] x[stride*i + dilation*k - before]: its transpose by what it does to units, and no test in its loops."""
    for length, taps, before in ((30, 1, 0), (30, 2, 0), (31, 4, 3), (40, 6, 1)):
        x, w = f64("x", length), f64("w", taps)
        count = (length + 2 * before - dilation * (taps - 1) - 1) // stride + 1
        if count < 2:
            continue

        def at(i: Any, k: Any) -> E:
            where = stride * i + dilation * k - before  # noqa: B023
            return load_or_zero(x, where) if before else load(x, where)  # noqa: B023

        y = tensor((count,), lambda i: fold(taps, const(0, dt.f64), lambda s, k: op("fma", at(i, k), w[k], s)))  # noqa: B023
        rng = np.random.default_rng(0)
        arrays = {w: rng.standard_normal(taps), f64("g", count): rng.standard_normal(count)}
        (made,) = adjoint([y], [f64("g", count)], [x])
        dense = np.stack([evaluate([y], {x: unit, **arrays})[0] for unit in np.eye(length)], axis=1)
        assert np.allclose(evaluate([made], arrays)[0], dense.T @ arrays[f64("g", count)], rtol=1e-13, atol=1e-13)
        loops = [e for t in order([made]) for e in walk(bodies(t)) if e.op == "fold"]
        assert not any(e.op == "eq" for e in walk(step for loop in loops for step in loop.args))


def test_a_gather_becomes_a_scatter_and_a_scatter_a_gather() -> None:
    table, at = f64("table", 100, 8), input("at", (7,), dt.i64)
    p = OPERATORS["embedding.default"].program(table, at, -1, False, False)
    q = gradient_program(p)
    made = q.outputs[0]
    assert made.kind == "scatter"
    assert made.domain == (7, 8)
    back = gradient_program(program(q.inputs, q.outputs), [q.inputs[-1]]).outputs[0]
    assert back.kind == "let"
    assert not back.body.has_fold


def test_the_branch_that_is_not_taken_contributes_nothing() -> None:
    """sqrt has an infinite slope at 0, and 0 * inf would be NaN."""
    x = f64("x", 3)
    y = tensor((3,), lambda i: select(op("eq", x[i], 0), const(0, dt.f64), op("sqrt", x[i])))
    g = adjoint([y], [input("c", (3,), dt.f64)], [x])
    arrays = {x: np.array([0.0, 4.0, 9.0]), input("c", (3,), dt.f64): np.ones(3)}
    assert evaluate(g, arrays)[0].tolist() == [0.0, 0.25, 1 / 6]


BRANCHES: dict[str, tuple[Callable[[E], E], list[float]]] = {  # f and its slopes at -1, 0.5, 2
    "one value in two branches": (lambda e: select(e > 0, e, e), [1.0, 1.0, 1.0]),
    "two values": (lambda e: select(e > 0, e * 2, e * 3), [3.0, 2.0, 2.0]),
    "two values, the condition negated": (lambda e: select(~(e > 0), e * 3, e * 2), [3.0, 2.0, 2.0]),
    "one value, by two conditions": (lambda e: select(e > 0, select(e > 1, e, e * 5), e), [1.0, 5.0, 1.0]),
    "three values": (lambda e: select(e > 0, select(e > 1, e * 7, e * 5), e * 3), [3.0, 5.0, 7.0]),
    "one value or none": (lambda e: select(e > 0, select(e > 1, e, const(4, e.dtype)), e), [1.0, 0.0, 1.0]),
}


@pytest.mark.parametrize("name", BRANCHES)
def test_branches_of_one_condition(name: str) -> None:
    f, wanted = BRANCHES[name]
    x, c = f64("x", 3), f64("c", 3)
    y = tensor((3,), lambda i: f(x[i]))
    arrays = {x: np.array([-1.0, 0.5, 2.0]), c: np.ones(3)}
    assert evaluate(adjoint([y], [c], [x]), arrays)[0].tolist() == wanted


@pytest.mark.parametrize(("name", "arguments", "value", "wanted"), [
    ("amax.default", ((0,), False), [1.0, 3.0, 3.0], [0.0, 1.0, 0.0]),           # ties: the first (PyTorch shares equally)
    ("max.dim", (0, False), [3.0, 1.0, 3.0], [1.0, 0.0, 0.0]),
    ("prod.default", (None,), [2.0, 0.0, 5.0], [0.0, 10.0, 0.0]),
    ("relu.default", (), [0.0, -1.0, 2.0], [0.0, 0.0, 1.0]),
    ("linalg_vector_norm.default", (2, None, False, None), [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]),
    ("std.correction", (None, 0, False), [1.0, 1.0, 1.0], [0.0, 0.0, 0.0]),
])  # fmt: skip
def test_kinks(name: str, arguments: tuple[Any, ...], value: list[float], wanted: list[float]) -> None:
    p = OPERATORS[name].program(f64("x", 3), *arguments)
    q = gradient_program(program(p.inputs, p.outputs[:1], p.checks))
    ones = np.ones(p.outputs[0].shape)
    assert run(q, [np.array(value), ones])[0].tolist() == wanted


# ------------------------------------------------------------------------------------------------ compiled, proved

COMPILED = ("softmax.int", "native_layer_norm.default", "conv2d.default", "max_pool2d.default", "embedding.default", "mm.default",
            "cumprod.default", "gelu.default", "index_put.default", "cummax.default")  # fmt: skip


@pytest.mark.cpp
def test_compiled_gradients_have_the_bits_of_their_meaning() -> None:
    made = [(o, gradient_program(o.program(*(one_sample(o) or ())))) for o in map(OPERATORS.__getitem__, COMPILED)]
    final = [optimise(p)[-1].program for _, p in made]
    for (_, p), q in zip(made, final, strict=True):
        assert validate(p, q).proved
    for (o, p), e in zip(made, compile_many(final, threads=2), strict=True):
        point, _ = next(points(o, one_sample(o) or ()))
        arrays = [*point.values.values(), *point.weights.values()]
        assert all(bits_equal(a, b) for a, b in zip(run(p, arrays), e(arrays), strict=True))


@pytest.mark.full
@pytest.mark.parametrize("o", DIFFERENTIABLE, ids=lambda o: o.name)
def test_gradients_are_proved_in_bounds(o: Operator) -> None:
    p = o.program(*(one_sample(o) or ()))
    if differentiable(p):
        assert [str(x) for x in prove(gradient_program(p)).obligations if x.status not in ("proved", "kept")] == []


# ------------------------------------------------------------------------------------------------ errors


def test_quotients_of_two_equations_end() -> None:
    """Rows of 8 read with those of 7: the solution of one equation is a quotient in the other one."""
    o = OPERATORS["scatter_reduce.two"]
    sample = next(s for s in samples(o) if s[1] == 1 and tuple(s[3].shape) == (3, 8) and tuple(s[4:]) == ("amax", True))
    found = [disagreement(point, wanted) for point, wanted in points(o, sample)]
    assert found
    assert not any(found)


def test_errors() -> None:
    x, n = f64("x", 3), input("n", (3,), dt.i64)
    y = tensor((3,), lambda i: x[i] * 2)
    with pytest.raises(UserError, match=r"cotangent .* must have its shape and type"):
        adjoint([y], [f64("c", 4)], [x])
    with pytest.raises(UserError, match="only floats have derivatives"):
        adjoint([y], [f64("c", 3)], [n])
    values = let((3,), load(x, 0))
    assert adjoint([values], [f64("c", 3)], [f64("z", 3)])[0].body is const(0, dt.f64)
    from assay.core.lang import extern

    ordered = extern("sort", (x,), (0, False), 0, (3,), dt.f64)
    with pytest.raises(Unsupported, match="extern 'sort' has no derivative; read its values through the indices"):
        adjoint([ordered], [f64("c", 3)], [x])
    with pytest.raises(Unsupported, match="extern 'sort' has no derivative"):
        tangent([ordered], {x: f64("d", 3)})
