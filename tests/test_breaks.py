"""Attacks that once succeeded, each with the right answer."""

from __future__ import annotations

import numpy as np
import pytest

import assay
from assay.backends.cpp import compile_program
from assay.core import dtypes as dt
from assay.core.lang import as_index, axes, const, convert, index, input, load, op, program, require, select, tensor
from assay.core.text import parse, show
from assay.semantics import denote
from assay.semantics.failure import RequireError
from assay.verify.bounds import prove

I10 = index(axes((10,))[0])


# ------------------------------------------------------------------------------------------------ proofs


def test_the_complement_of_an_unsigned_value_is_not_negative():
    x, u = input("x", (256,), dt.f32), input("u", (4,), dt.u8)
    y = tensor((4,), lambda i: load(x, as_index(convert(~u[i], dt.i64) + 256)))
    assert prove(program([x, u], [y])).verdict.kind == "REFUTED"
    z = tensor((4,), lambda i: load(x, as_index(convert(~u[i], dt.i64))))
    assert prove(program([x, u], [z])).verdict.kind == "PROVED"


def test_a_require_says_nothing_of_elements_that_it_does_not_have():
    """r[j] is selected for j < 10 only; that j*j <= 9*j, which r checks of its own elements, excludes no j >= 10."""
    x, q = input("x", (12,), dt.f32), input("q", (10,), dt.i64)
    value = q[axes((10,))[0]]
    r = require((10,), value, (I10 * I10 <= I10 * 9) & (value >= 0) & (value < 12), "[IndexError] {value}", lo=0, hi=11)

    def program_of(other):
        y = tensor((20,), lambda j: load(x, as_index(select(index(j) < 10, load(r, j), const(other, dt.i64)))))
        return program([x, q], [y])

    assert prove(program_of(15)).verdict.kind == "REFUTED"
    assert prove(program_of(11)).verdict.kind == "PROVED"


@pytest.mark.parametrize("operations", [280, 700])
def test_a_long_condition_beside_a_guard(operations):
    x, q = input("x", (5,), dt.f32), input("q", (20,), dt.i64)

    def body(j):
        c = q[j]
        for k in range(operations):
            c = c * 3 + k
        return select((index(j) < 5) & (c > 0), load(x, j), const(0.0, dt.f32))

    assert prove(program([x, q], [tensor((20,), body)])).verdict.kind == "PROVED"


# ------------------------------------------------------------------------------------------------ which error


def two_gathers(x, i, j):
    return x[i * 2] + x[j]  # the first index is rewritten by inlining, the second is not


def unread_first(x, i, j):
    x[i * 2]
    return x[j] * 2.0


@pytest.mark.parametrize("f", [two_gathers, unread_first, lambda x, i, j: (x[j], x[i * 2]), lambda x, i, j: x[j] + (i // j)])
@pytest.mark.parametrize("backend", ["cpp", "reference"])
def test_of_several_errors_the_first_in_the_order_of_the_function_is_raised(f, backend):
    x, i, j = assay.arange(10.0), assay.tensor([7]), assay.tensor([99])
    for k in (j, assay.tensor([0]), assay.tensor([3])):
        expected = failure(f, x, i, k)
        assert failure(assay.compile(f, backend=backend), x, i, k) == expected


def failure(f, *args):
    try:
        f(*args)
    except RequireError as error:
        return type(error), str(error), error.index, error.value
    return None


def test_the_order_of_checks_is_part_of_a_program_and_of_its_text():
    x = input("x", (4,), dt.i64)
    a = require((), x[0], x[0] > 0, "[ValueError] a {value}")
    b = require((), x[1], x[1] > 0, "[ValueError] b {value}")
    y = tensor((), lambda: op("add", a[()], b[()]))
    orders = [program([x], [y], effects) for effects in ((), (a,), (b,), (a, b), (b, a))]
    assert [p.checks for p in orders] == [(a, b), (b, a), (a, b), (a, b), (b, a)]
    assert all(parse(show(p)) is p for p in orders)
    assert "effects" not in show(orders[0])
    for p, message in ((orders[3], "a -1"), (orders[4], "b -2")):
        for run in (denote.run, lambda p, xs: compile_program(p)(xs)):
            with pytest.raises(ValueError, match=message):
                run(p, [np.array([-1, -2, 0, 0])])
