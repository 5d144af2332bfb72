"""Definition 6.4 and proposition 6.4: the interval of an integer expression contains its values wherever the facts hold."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.core import lang
from assay.core.dtypes import bool_, f32, i8, i32, i64, u8
from assay.core.index import ix, variable
from assay.core.lang import as_index, axes, const, convert, index, input, load, op, select
from assay.semantics import ranges
from assay.semantics.denote import evaluate
from assay.semantics.ranges import Facts, direction, interval

SHAPE = (8, 5)
i, j = (ix(v) for v in axes(SHAPE))
P, Q = index(i), index(j)
x = input("x", SHAPE, i8)
X = convert(load(x, i, j), i64)

CASES = [
    (P, [], (0, 7)),
    (P + Q, [], (0, 11)),
    (P, [(P < 5, True)], (0, 4)),
    (P, [(P < 5, False)], (5, 7)),
    (P * 3 + Q, [(P < 5, True), (Q <= 1, True)], (0, 13)),
    (P - Q, [(Q <= P, True)], (0, 7)),
    (Q - P, [(Q <= P, True)], (-7, 0)),
    (P, [(op("eq", P, Q), True)], (0, 4)),
    (P, [(op("ne", P, 0), True)], (1, 7)),
    (P, [(op("eq", P, 0), False)], (1, 7)),
    (P, [(op("and", 2 <= P, P < 6), True)], (2, 5)),
    (P, [(op("or", P < 2, 6 <= P), False)], (2, 5)),
    (P, [(op("not", P < 2), True)], (2, 7)),
    (index((i + 3) % 8), [(P < 5, True)], (3, 7)),
    (index((i + 3) // 8), [(P < 5, True)], (0, 0)),
    (P, [(index(i // 3) < 1, True)], (0, 2)),
    (P, [(op("eq", index(i // 3), 1), True)], (3, 5)),
    (P, [(2 * P <= 9, True)], (0, 4)),
    (P, [(index(8 - 3 * i) > 0, True)], (0, 2)),
    (X, [], (-128, 127)),
    (X, [(X >= 0, True), (X < 5, True)], (0, 4)),
    (X + P, [(X >= 0, True), (X < 5, True)], (0, 11)),
    (op("mod", X, 8), [(X >= 0, True), (X < 5, True)], (0, 4)),
    (op("max", X, 3), [(X < 9, True)], (3, 8)),
    (op("abs", X), [(X < 3, True), (X > -6, True)], (0, 5)),
    (select(X < 0, X + 128, X), [], (0, 127)),
    (select(X < 0, X + 5, X), [(X >= -5, True), (X < 5, True)], (0, 4)),
    (select(op("and", X >= 0, X < 8), X, 3), [], (0, 7)),
    (P < 5, [(P < 5, True)], (1, 1)),
    (P < 7, [(P < 5, True)], (1, 1)),
    (P < 5, [(P < 5, False)], (0, 0)),
    (convert(load(x, i, j), u8), [(load(x, i, j) >= 0, True)], (0, 127)),
    (convert(load(x, i, j), u8), [], (0, 255)),
    (load(x, i, j) + load(x, i, j), [(load(x, i, j) > 100, True)], (-128, 127)),
    (load(x, i, j) + load(x, i, j), [(load(x, i, j) < 50, True), (load(x, i, j) > 0, True)], (2, 98)),
]


@pytest.mark.parametrize(("e", "facts", "expected"), CASES)
def test_101_interval(e, facts, expected):
    assert interval(e, facts) == expected
    assert all(lo <= v <= hi for v in values(e, facts) for lo, hi in [expected])


def values(e, facts, g=None):
    """The values of e at the points at which the facts hold, for an x with every value of its type."""
    array = (g or np.random.default_rng(0)).integers(-128, 128, SHAPE).astype(np.int8)
    array.flat[:4] = [-128, 127, 0, -1]
    lets = [lang.let(SHAPE, e), *(lang.let(SHAPE, c) for c, _ in facts)]
    found, *conditions = evaluate(lets, {x: array})
    holds = np.ones(SHAPE, np.bool_)
    for c, (_, truth) in zip(conditions, facts, strict=True):
        holds &= c == truth
    return found[holds].tolist()


CONTRADICTIONS = [
    [(P < 3, True), (P > 4, True)],
    [(P < 3, True), (P < 3, False)],
    [(op("eq", P, Q), True), (P > Q, True)],
    [(op("eq", index(i // 4), 1), True), (P < 2, True)],
]


@pytest.mark.parametrize("facts", CONTRADICTIONS)
def test_contradictory_facts(facts):
    assert Facts(facts).contradictory
    assert Facts(facts).interval(P) == (0, 7)
    assert values(P, facts) == []


def test_a_sum_with_a_common_factor():
    assert Facts([(2 * P + 4 * Q < 9, True)]).index(i + 2 * j) == (0, 4)
    assert Facts([(2 * P + 4 * Q < 9, True)]).index(-3 * i - 6 * j + 1) == (-11, 1)
    assert direction(-2 * i - 4 * j + 3) == ((i + 2 * j).terms, -2)


def test_quotients_are_exact():
    """lo <= k * x <= hi just for the x of the interval: rounded up at one end and down at the other, by the sign of k."""
    for k in (-5, -3, -1, 1, 2, 7):
        for lo in range(-12, 13):
            for hi in range(lo, 13):
                first, last = ranges._quotients(lo, hi, k)
                assert list(range(first, last + 1)) == [x for x in range(-20, 21) if lo <= k * x <= hi]


def test_floats_have_no_interval():
    assert interval(const(2.5, f32), [(P < 3, True)]) == (0, 0)


def test_facts_say_nothing_inside_a_fold():
    """The fold's variable may be the very object of an axis that is bound outside."""
    e = lang.fold(5, const(0, i64), lambda a, r: op("max", a, index(i + r)))
    facts = [(Q < 2, True)]
    assert e.attr is variable(1, 5)
    lo, hi = interval(e, facts)
    assert lo <= min(values(e, facts))
    assert max(values(e, facts)) == 11 <= hi


def test_long_chains_of_selects_take_linear_time():
    e = X
    for k in range(400):
        e = select(X < k, e + 1, op("min", e, 90))
    lo, hi = interval(e, [(X > 0, True)])
    assert lo <= min(values(e, [(X > 0, True)]))
    assert hi >= max(values(e, [(X > 0, True)]))


# ------------------------------------------------------------------------------------------------ proposition 6.4


ARITHMETIC = ["add", "sub", "mul", "max", "min", "floordiv", "mod", "band", "bor", "bxor", "shr", "shl"]


@st.composite
def numbers(draw, d, depth=3):
    k = draw(st.integers(0, 9)) if depth else 9
    if k >= 7:
        leaf = draw(st.sampled_from([P, Q, X, index((3 * i + j) % 5), index((i + 2 * j) // 3), -7, -1, 0, 1, 2, 3, d.lo, d.hi]))
        return const(leaf, d) if isinstance(leaf, int) else convert(leaf, d)
    a = draw(numbers(d, depth - 1))
    if k == 0:
        return convert(convert(a, i8), d)
    if k == 1:
        return convert(index(as_index(a) % 7), d)
    if k == 2:
        return op(draw(st.sampled_from(["neg", "abs", "bnot", "stop", "relu"])), a)
    if k == 3:
        return select(draw(conditions(d, depth - 1)), a, draw(numbers(d, depth - 1)))
    return op(draw(st.sampled_from([*ARITHMETIC, *(["umulhi"] if d is i32 else [])])), a, draw(numbers(d, depth - 1)))


@st.composite
def conditions(draw, d, depth=2):
    k = draw(st.integers(0, 4)) if depth else 4
    if k >= 2:
        a, b = draw(numbers(d, min(depth, 1))), draw(numbers(d, min(depth, 1)))
        return op(draw(st.sampled_from(["lt", "le", "eq", "ne"])), a, b)
    a = draw(conditions(d, depth - 1))
    return op("not", a) if k == 0 else op(draw(st.sampled_from(["and", "or"])), a, draw(conditions(d, depth - 1)))


@settings(max_examples=80, deadline=None)
@given(st.data(), st.sampled_from([i64, i32, i8, u8]))
def test_102_concrete_values_are_always_inside(data, d):
    e = data.draw(numbers(d))
    facts = data.draw(st.lists(st.tuples(conditions(data.draw(st.sampled_from([d, i64]))), st.booleans()), max_size=3))
    reading = Facts(facts)
    lo, hi = reading.interval(e)
    found = values(e, facts)
    assert not (found and reading.contradictory)
    assert all(lo <= v <= hi for v in found), (lo, hi, min(found), max(found))
    assert all(e.lo <= v <= e.hi for v in values(e, []))


def test_the_property_can_fail(monkeypatch):
    monkeypatch.setattr(ranges, "_quotients", lambda lo, hi, k: (lo // k, hi // k))
    monkeypatch.setattr(ranges, "OPPOSITE", {**ranges.OPPOSITE, "lt": "gt"})
    facts = [(P < 5, False)]
    lo, hi = interval(P, facts)
    assert not all(lo <= v <= hi for v in values(P, facts))


def test_types():
    assert interval(op("lt", X, 3), []) == (bool_.lo, bool_.hi)


def test_conditions_that_are_choices_of_choices_take_bounded_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every condition of a choice is stated in its arms, and may be a choice itself: sets of facts may not multiply."""
    made = 0
    right = Facts.__init__

    def counted(self: Facts, *args: object, **kwargs: object) -> None:
        nonlocal made
        made += 1
        right(self, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(Facts, "__init__", counted)
    t = input("t", (64,), i64)
    e = load(t, 0)
    for k in range(1, 40):
        e = select(op("lt", e, load(t, k)), op("max", e, k), op("min", e, load(t, k)))
    assert interval(e, [(op("lt", e, const(7, i64)), True)]) == (i64.lo, 6)
    assert made <= 1 + 2 * ranges.ARMS
