"""Construction: interning, canonical bound variables, intervals, substitution without capture."""

import math
from typing import Any

import numpy as np
import pytest

import assay.core.functions  # noqa: F401
from assay.core import dtypes as dt
from assay.core.dtypes import DType
from assay.core.errors import InternalError, UserError
from assay.core.index import ix, variable
from assay.core.lang import (
    E,
    T,
    acc,
    accumulators,
    as_index,
    close_fold,
    const,
    const_bits,
    constant_value,
    convert,
    expand,
    extern,
    fold,
    folds,
    index,
    input,
    let,
    load,
    load_or_zero,
    op,
    program,
    select,
    substitute,
    tensor,
)
from assay.core.text import parse, show
from assay.core.wellformed import check
from assay.semantics.denote import evaluate

X = input("x", (8, 12), dt.f32)
N = input("n", (8,), dt.i64)
I0, J0 = ix(variable(0, 8)), ix(variable(1, 12))


def row_sum(i: object, name: str = "k") -> E:
    return fold(12, const(0, dt.f32), lambda a, k: a + X[i, k])  # type: ignore[index]


def test_equal_text_is_the_same_object() -> None:
    assert X[I0, 3] + 1.0 is op("add", load(X, I0, 3), const(1, dt.f32))
    assert row_sum(I0) is row_sum(I0)
    assert row_sum(I0) is not row_sum(J0 // 2)


def test_parameters_of_externs_are_interned_by_their_values() -> None:
    def made(*parameters: object) -> T:
        return extern("nudge", (X,), parameters, 0, X.shape, X.dtype)

    assert made(0.0, (1, "a"), math.nan) is made(0.0, (1, "a"), -math.nan)
    for one, other in ((0.0, -0.0), (1, True), (1, 1.0), ((0.0,), (-0.0,)), (False, 0)):
        assert made(one) is not made(other)


def test_constants_are_interned_by_bits() -> None:
    assert const(0.0, dt.f32) is not const(-0.0, dt.f32)
    assert const(math.nan, dt.f32) is const_bits(0x7FC12345, dt.f32)
    assert const(300, dt.u8) is const(44, dt.u8)
    assert const(0.1, dt.f32) is not const(0.1, dt.f64)
    assert constant_value(const(1e40, dt.f32)) == math.inf
    assert constant_value(const(1e-45, dt.f32)) == 2.0**-149
    assert constant_value(const(65520.0, dt.f16)) == math.inf
    with pytest.raises(UserError, match="no value of type i64"):
        const(math.inf, dt.i64)


def test_the_name_of_a_bound_variable_does_not_depend_on_the_context() -> None:
    alone = fold(12, const(0, dt.f32), lambda a, k: a + X[3, k])
    inside = fold(8, const(0, dt.f32), lambda a, r: a + X[r, 1] * fold(12, const(0, dt.f32), lambda b, k: b + X[3, k]))
    assert alone.attr is variable(0, 12)
    assert any(e is alone for e in inside.args[1].args[1].args)


def test_substitution_does_not_confuse_folds_that_bind_one_variable() -> None:
    inner = folds(8, (const(0, dt.i64), const(0, dt.i64)), lambda a, b, k: (a + N[k], b + a))[1]
    outer = fold(8, const(0, dt.i64), lambda a, r: a + inner + N[r] * index(I0))
    at_3 = substitute(outer, {variable(0, 8): ix(3)})
    assert at_3 is fold(8, const(0, dt.i64), lambda a, r: a + inner + N[r] * 3)
    assert at_3.attr is inner.args[0].attr
    check(program((N,), (let((), at_3),)))


def test_one_step_folds_are_their_step() -> None:
    assert fold(1, const(0, dt.f32), lambda a, k: a + X[k, 3]) is const(0, dt.f32) + X[0, 3]
    assert fold(0, const(7, dt.f32), lambda a, k: a + X[k, 3]) is const(7, dt.f32)


def test_accumulators_carry_inductive_intervals() -> None:
    def step(top: E, at: E, k: object) -> tuple[E, E]:
        c = op("lt", top, X[I0, k])  # type: ignore[index]
        return select(c, X[I0, k], top), select(c, index(k), at)  # type: ignore[index, arg-type]

    at = folds(12, (const(-math.inf, dt.f32), const(0, dt.i64)), step)[1]
    assert (at.lo, at.hi) == (0, 11)
    assert [(a.lo, a.hi) for a in accumulators(at.args[0])][1] == (0, 11)


def test_a_stated_interval_must_be_inductive() -> None:
    v = variable(1 << 30, 4)
    a = acc(v, 0, dt.i64, (0, 7))
    assert close_fold(v, (const(3, dt.i64),), (op("min", a + 1, 7),), [(0, 7)]).lo == 1
    assert close_fold(v, (const(3, dt.i64),), (a + 1,), [(0, 7)]).hi == 8  # 3..6 at the start of the four steps
    b = acc(v, 0, dt.i64, (0, 5))
    with pytest.raises(UserError, match=r"the accumulator range 0\.\.5 does not hold"):
        close_fold(v, (const(3, dt.i64),), (b + 1,), [(0, 5)])


@pytest.mark.parametrize(
    ("n", "step", "lo", "hi"),
    [
        (4, lambda a, r: a + 1, 0, 4),
        (4, lambda a, r: a - 2, -8, 0),
        (4, lambda a, r: a + index(r), 0, 12),
        (64, lambda a, r: a + convert(op("lt", N[r % 3], 0), dt.i64), 0, 64),
        (64, lambda a, r: select(N[r % 3] < 0, a + 3, a - 1), -64, 192),
        (64, lambda a, r: select(a < 9, a + 3, a), 0, 192),
        (5, lambda a, r: fold(7, a, lambda b, k: b + convert(op("lt", N[k % 3], index(r)), dt.i64)), 0, 35),
        (3, lambda a, r: (a + dt.i64.hi) - dt.i64.hi, 0, 0),  # a sum that wraps on its way comes back
        (4, lambda a, r: a + N[r % 3], dt.i64.lo, dt.i64.hi),
        (4, lambda a, r: a + a + 1, dt.i64.lo, dt.i64.hi),
        (4, lambda a, r: 7 - 2 * a, dt.i64.lo, dt.i64.hi),
        (1 << 40, lambda a, r: a + (1 << 30), dt.i64.lo, dt.i64.hi),  # the last sum wraps
    ],
)
def test_what_grows_by_bounded_steps_has_a_range(n: int, step: Any, lo: int, hi: int) -> None:
    e = fold(n, const(0, dt.i64), step)
    assert (e.lo, e.hi) == (lo, hi)


@pytest.mark.parametrize("d", [dt.f16, dt.bf16, dt.f32, dt.f64])
@pytest.mark.parametrize(
    ("clamp", "lo", "hi"),
    [
        (lambda v: op("min", op("max", v, 0.0), 63.0), 0, 63),
        (lambda v: op("max", op("min", v, 63.0), 0.0), 0, 63),
        (lambda v: op("min", op("max", v, 2.5), 7.75), 0, 7),  # NaN becomes 0
        (lambda v: op("max", v, -3.75), -3, None),
        (lambda v: op("min", v, 1e30), None, None),
        (lambda v: op("max", v, math.nan), 0, 0),
        (lambda v: op("max", v, math.inf), 0, None),
        (lambda v: op("floor", op("min", op("max", v, -2.5), 7.75)), -3, 7),
        (lambda v: op("round", op("min", op("max", v, -2.5), 7.75)), -2, 8),
        (lambda v: select(v < 0, const(3.25, v.dtype), op("min", op("max", v, 0.5), 9.0)), 0, 9),
        (lambda v: v + 1, None, None),
    ],
)
def test_a_float_that_is_clamped_has_a_range_as_an_integer(d: DType, clamp: Any, lo: int | None, hi: int | None) -> None:
    special = [math.nan, math.inf, -math.inf, 0.0, -0.0, 0.3, -0.3, 62.6, 63.5, 1e30, -1e30, 9.3e18, 5e-324, 1e300]
    with np.errstate(over="ignore"):
        values = np.array(special).astype(d.numpy)
    x = input("x", (len(special),), d)
    e = convert(x[variable(0, len(special))], dt.f32 if d.is_half else d)
    found = convert(convert(clamp(e), d), dt.i64)
    assert (found.lo, found.hi) == (dt.i64.lo if lo is None else lo, dt.i64.hi if hi is None else hi)
    [got] = evaluate([let((len(special),), found)], {x: values})
    assert found.lo <= got.min() <= got.max() <= found.hi


@pytest.mark.parametrize(
    ("e", "lo", "hi"),
    [
        (index(I0) * 3 - 5, -5, 16),
        (op("mod", index(I0) - 20, 5), 0, 4),
        (op("floordiv", index(I0), 3), 0, 2),
        (op("max", index(I0), 3), 3, 7),
        (op("band", N[I0], 15), 0, 15),
        (op("relu", index(I0) - 4), 0, 3),
        (convert(index(I0), dt.u8), 0, 7),
        (convert(N[I0], dt.i8), -128, 127),
        (N[I0] + 1, -(2**63), 2**63 - 1),
        (op("lt", index(I0), 8), 1, 1),
        (op("lt", index(I0), 7), 0, 1),
    ],
)
def test_intervals(e: E, lo: int, hi: int) -> None:
    assert (e.lo, e.hi) == (lo, hi)


def test_decided_selects_vanish() -> None:
    assert select(op("le", 0, index(I0)), X[I0, 0], 0) is X[I0, 0]
    assert select(op("lt", index(I0), 0), X[I0, 0], 0) is const(0, dt.f32)


def test_index_arithmetic_on_values_becomes_index_arithmetic() -> None:
    assert as_index(op("mod", index(I0) * 3, 5)) is (3 * I0) % 5
    assert as_index(op("floordiv", convert(index(I0), dt.i32) + 1, 2)) is (I0 + 1) // 2
    assert as_index(N[I0] + 1).terms[0][0].e is N[I0] + 1  # type: ignore[union-attr] it may wrap, so it stays a value
    with pytest.raises(UserError, match="an index must be an integer"):
        as_index(X[I0, 0])
    with pytest.raises(UserError, match="does not fit i8"):
        index(J0 * 12, dt.i8)


def test_a_load_or_zero_that_is_inside_is_a_load() -> None:
    assert load_or_zero(X, I0, J0) is load(X, I0, J0)
    assert load_or_zero(X, I0 + 1, J0).op == "load_or_zero"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: X[I0], "1 indices for a tensor of shape"),
        (lambda: X[I0, 0] + N[I0], "argument types"),
        (lambda: op("nothing", X[I0, 0]), "unknown scalar function 'nothing'"),
        (lambda: op("add", X[I0, 0]), "add takes 2 arguments"),
        (lambda: input("y", (-1,), dt.f32), "sizes must be integers >= 0"),
        (lambda: input("y", (1 << 30, 1 << 30), dt.f32), "at most"),
        (lambda: program((), (tensor((8,), lambda i: N[i]),)), "which is not among its inputs"),
    ],
)
def test_errors(make: object, message: str) -> None:
    with pytest.raises(UserError, match=message.replace("*", r"\*")):
        make()  # type: ignore[operator]


def test_a_body_depends_on_its_axes_only() -> None:
    with pytest.raises(InternalError, match="depends on"):
        let((8,), X[I0, J0])


def test_half_types_become_bool_through_f32() -> None:
    h = input("h", (3,), dt.bf16)
    p = program((h,), (tensor((3,), lambda i: convert(h[i], dt.bool_)),))
    assert parse(show(p)) is p
    assert "ne(f32(h[i])" in show(p)


def test_named_rows_expand_one_level() -> None:
    x = X[I0, 0]
    assert expand(op("relu", x)) is select(op("le", x, 0), const(0, dt.f32), x)
    assert expand(x) is x


def test_the_text_of_a_value_that_shares_its_parts_is_short() -> None:
    x = input("x", (4,), dt.f32)
    e = load(x, 0)
    for _ in range(200):
        e = e + e
    text = repr(e)
    assert text.startswith("add(add(add(")
    assert "..." in text
    assert len(text) < 5000
    assert repr(op("mul", load(x, 1), const(2.0, dt.f32))) == "mul(x:f32[4][1], 2.0:f32)"
