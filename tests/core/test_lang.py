"""Construction: interning, canonical bound variables, intervals, substitution without capture."""

import math

import pytest

import assay.core.functions  # noqa: F401
from assay.core import dtypes as dt
from assay.core.errors import InternalError, UserError
from assay.core.index import ix, variable
from assay.core.lang import (
    E,
    acc,
    accumulators,
    as_index,
    close_fold,
    const,
    const_bits,
    constant_value,
    convert,
    expand,
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

X = input("x", (8, 12), dt.f32)
N = input("n", (8,), dt.i64)
I0, J0 = ix(variable(0, 8)), ix(variable(1, 12))


def row_sum(i: object, name: str = "k") -> E:
    return fold(12, const(0, dt.f32), lambda a, k: a + X[i, k])  # type: ignore[index]


def test_equal_text_is_the_same_object() -> None:
    assert X[I0, 3] + 1.0 is op("add", load(X, I0, 3), const(1, dt.f32))
    assert row_sum(I0) is row_sum(I0)
    assert row_sum(I0) is not row_sum(J0 // 2)


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
    with pytest.raises(UserError, match=r"the accumulator range 0\.\.7 does not hold"):
        close_fold(v, (const(3, dt.i64),), (a + 1,), [(0, 7)])


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
