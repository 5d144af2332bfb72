"""The decision procedure: every step agrees with brute force, and none proves a falsehood."""

import itertools
import random

import numpy as np
import pytest

import assay.core.functions  # noqa: F401
from assay.core import dtypes as dt
from assay.core.index import Ix, ix, variable
from assay.core.lang import E, as_index, const, convert, index, input, op, select
from assay.core.row import TABLE
from assay.semantics.ranges import Facts
from assay.verify import integers
from assay.verify.integers import Answer, Goal, Question, decide, split
from assay.verify.terms import Z3, Numpy, Quotients, Reading, interpreted

N = input("n", (4,), dt.i64)
B = input("b", (4,), dt.i8)
I, J = ix(variable(0, 6)), ix(variable(1, 7))  # noqa: E741


def random_integer(rng: random.Random, depth: int) -> E:
    """An integer expression over the axes i, j and the small input b[0]."""
    if depth == 0:
        return rng.choice([index(I), index(J), convert(B[0], dt.i64), const(rng.randint(-9, 9), dt.i64)])
    a, b = random_integer(rng, depth - 1), random_integer(rng, depth - 1)
    name = rng.choice(["add", "sub", "mul", "max", "min", "neg", "abs", "bnot", "floordiv", "mod", "shl", "shr", "band", "select",
                       "relu", "narrow"])  # fmt: skip
    match name:
        case "neg" | "abs" | "bnot" | "relu":
            return op(name, a)
        case "floordiv" | "mod":
            return op(name, a, rng.choice([2, 3, 7]))
        case "shl" | "shr":
            return op(name, a, rng.randint(0, 3))
        case "band":
            return op(name, a, rng.choice([1, 7, 15]))
        case "select":
            return select(op(rng.choice(["lt", "le", "eq", "ne"]), a, b), a, b)
        case "narrow":
            return convert(convert(a, rng.choice([dt.i8, dt.u8])), dt.i64)
        case _:
            return op(name, a, b)


def direct(e: E, point: dict[E | object, int]) -> int:
    """The value by the meaning of the table's rows in numpy, with wrapping."""
    if e.op == "const":
        return e.lo
    if e.op == "idx":
        value = e.attr.c
        for a, k in e.attr.terms:
            value += k * (point[a] if not hasattr(a, "c") else direct(index(a.e), point) // a.c)
        return value
    if e in point:
        return point[e]
    args = [np.array(direct(a, point), a.dtype.numpy) for a in e.args]
    with np.errstate(all="ignore"):
        if e.op == "convert":
            return int(args[0].astype(e.dtype.numpy))
        if e.op == "relu":
            return max(int(args[0]), 0)
        return int(TABLE[e.op].numpy(*args))  # type: ignore[operator]


@pytest.mark.parametrize("seed", range(40))
def test_numpy_reads_what_the_rows_mean(seed: int) -> None:
    rng = random.Random(seed)
    e = random_integer(rng, 3)
    q = Question(Goal(condition=op("le", e, 0)), ())
    for _ in range(30):
        point = {a: rng.randint(lo, hi) for a, (lo, hi) in q.atoms.items()}
        reading = Reading(Numpy(True), {a: np.array(x, object) for a, x in point.items()})
        reading.read(q.nodes)
        if e in reading.known:
            assert int(reading.known[e]) == direct(e, point)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("algebra", [Z3, Quotients])
def test_z3_agrees_with_every_point(algebra: type[Z3], seed: int) -> None:
    """The verdict of z3 alone is that of evaluating the whole box."""
    rng = random.Random(seed)
    e = random_integer(rng, 2)
    bound = rng.choice([0, 5, 20, 100])
    q = Question(Goal(condition=op("le", e, bound)), ())
    if q.size > 20000 or e.op == "const":
        return
    _, counterexample = q.exhausted
    outcome, point = integers.ask_z3(algebra(), q, simple=True, negated_goal=True)
    assert outcome in (("unsat",) if counterexample is None else ("sat",))
    assert (point is None) == (counterexample is None)


def upper(a: Ix, b: Ix | int) -> E:
    return op("umulhi", *(convert(index(x), dt.i32) for x in (a, b)))


@pytest.mark.parametrize(("e", "twice"), [(upper(I, 0x7FFFFFF1), I), (upper(I * 400000000, J * 11 + 3), J * 11 + 3)])
def test_an_upper_half_of_a_product_is_read_where_no_number_is_negative(e: E, twice: Ix) -> None:
    """x * y / 2**32 is below y / 2 for x below 2**31."""
    assert interpreted(e)
    claims = [op("le", convert(e, dt.i64) * 2, index(twice)), op("lt", convert(e, dt.i64) * 2, index(twice - 3))]
    for claim, verdict in zip(claims, ("unsat", "sat"), strict=True):
        q = Question(Goal(condition=claim), ())
        for point in ({a: rng.randint(lo, hi) for a, (lo, hi) in q.atoms.items()} for rng in map(random.Random, range(20))):
            reading = Reading(Numpy(q.wide), {a: np.array(x, object if q.wide else np.int64) for a, x in point.items()})
            reading.read(q.nodes)
            assert int(reading.known[e]) == direct(e, point)  # type: ignore[arg-type]
        assert (q.exhausted[1] is None) == (verdict == "unsat")
        for algebra in (Z3, Quotients):
            assert integers.ask_z3(algebra(), q, simple=True, negated_goal=True)[0] == verdict


def test_an_upper_half_of_a_product_with_negative_numbers_is_opaque() -> None:
    """-1 is 2**32 - 1 there."""
    e = upper(I - 1, 3)
    assert not interpreted(e)
    assert (e.lo, e.hi) == (0, 2)


def test_the_order_of_steps() -> None:
    i = ix(variable(0, 40000))
    guard = split(op("lt", index(i), 100), True)
    assert decide(Goal(((I, 0, 5),))).how == "intervals"
    assert decide(Goal(((i, 0, 99),)), guard).how == "guards"
    assert decide(Goal(((i, 0, 99),))).how == "samples"
    product = as_index(op("floordiv", op("mul", index(I), index(I + 1)), 2))
    assert decide(Goal(((product - J, 0, 15),)), split(op("le", index(J), index(I)), True)).how == "all 42 points"
    far = ix(variable(0, 100000)), ix(variable(1, 100000))
    assert decide(Goal(((far[0] - far[1], 0, 99999),)), split(op("le", index(far[1]), index(far[0])), True)).how == "guards"
    triple = op("lt", index(far[0] + far[1] * 2), 1000)
    assert decide(Goal(((far[0] + far[1], 0, 999),)), split(triple, True)).how == "z3"


def test_small_boxes_decide_where_z3_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(integers, "ask_z3", lambda *_, **__: ("unknown", None))
    a, b = ix(variable(0, 300)), ix(variable(1, 300))
    square = as_index(op("mul", index(a - b), index(a - b)))
    answer = Question(Goal(((square, 0, 299 * 299),)), ()).decide()
    assert (answer.status, answer.how) == ("proved", "all 90000 points")
    wide = as_index(op("mul", index(ix(variable(0, 3000)) - b), index(ix(variable(0, 3000)) - b)))
    answer = Question(Goal(((wide, 0, 2999 * 2999),)), ()).decide()
    assert answer.status == "unknown"
    assert "undecided within" in answer.how


def test_verdicts_do_not_depend_on_time_but_on_resources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(integers, "RLIMIT", 10)
    far = ix(variable(0, 100000)), ix(variable(1, 100000))
    hypothesis = tuple(split(op("lt", index(far[0] * 3 + far[1] * 2), 1000), True))
    assert Question(Goal(((far[0] + far[1], 0, 998),)), hypothesis).decide().status == "unknown"


def test_contradictory_hypotheses_are_unreachable_not_proved() -> None:
    hypotheses = [*split(op("lt", index(J), index(I)), True), *split(op("lt", index(I), index(J)), True)]
    answer = decide(Goal(((I + 100, 0, 5),)), hypotheses)
    assert (answer.status, answer.how, answer.unreachable) == ("proved", "unreachable", True)
    far = [ix(variable(k, 100000)) for k in range(2)]
    hypotheses = [*split(op("lt", index(far[1] * 2), index(far[0])), True), *split(op("lt", index(far[0]), index(far[1])), True)]
    assert decide(Goal(((far[0] + 10**6, 0, 5),)), hypotheses).unreachable


def test_equal_reads_of_a_tensor_are_equal() -> None:
    """n[i] - n[j] lies in [0, 0] where i == j."""
    same = split(op("eq", index(I), index(J)), True)
    e = op("sub", op("mod", N[I % 4], 9), op("mod", N[J % 4], 9))
    assert decide(Goal(((as_index(e), 0, 0),)), same).status == "proved"
    assert decide(Goal(((as_index(e), 0, 0),))).status == "refuted"


def test_wrapping_is_not_forgotten() -> None:
    """n + 1 > n is false at the largest integer."""
    answer = decide(Goal(condition=op("lt", N[0], N[0] + 1)))
    assert answer.status == "refuted"
    assert list(answer.point.values()) == [2**63 - 1]  # type: ignore[union-attr]
    assert decide(Goal(condition=op("lt", convert(B[0], dt.i64), convert(B[0], dt.i64) + 1))).status == "proved"
    small = op("lt", B[0], B[0] + const(1, dt.i8))
    answer = decide(Goal(condition=small))
    assert (answer.status, list(answer.point.values())) == ("refuted", [127])  # type: ignore[union-attr]


def test_known_bug_a_32_bit_encoding_proves_nothing_here() -> None:
    """i * j < 2**31 does not wrap to a false hypothesis: z3 sees mathematical integers."""
    a, b = ix(variable(0, 1 << 20)), ix(variable(1, 1 << 20))
    hypothesis = split(op("lt", op("mul", index(a), index(b)), 1 << 31), True)
    assert decide(Goal(((a, 0, 100),)), hypothesis).status == "refuted"


@pytest.mark.parametrize("holds", [True, False])
def test_split(holds: bool) -> None:  # noqa: FBT001
    a, b = op("lt", N[0], 3), op("lt", N[1], 3)
    both, either = op("and", a, b), op("or", a, b)
    assert list(split(both, holds)) == ([(a, True), (b, True)] if holds else [(both, False)])
    assert list(split(either, holds)) == ([(either, True)] if holds else [(a, False), (b, False)])
    assert list(split(op("not", either), holds)) == list(split(either, not holds))
    assert list(split(const(True, dt.bool_), True)) == []


@pytest.mark.parametrize(("name", "holds"), [*itertools.product(["lt", "le", "eq", "ne"], [True, False])])
def test_guards_mean_what_they_say(name: str, holds: bool) -> None:  # noqa: FBT001
    for k, shift in itertools.product([1, -1, 2, -3], [-2, 0, 3]):
        e = k * I + shift
        condition = op(name, index(e), 4)
        if condition.op == "const":
            continue
        lo, hi = Facts(((condition, holds),)).index(I)
        rows = {"lt": np.less, "le": np.less_equal, "eq": np.equal, "ne": np.not_equal}
        good = [i for i in range(6) if bool(rows[name](k * i + shift, 4)) == holds]
        assert all(lo <= i <= hi for i in good)
        if name != "ne" and not (name == "eq" and not holds) and good and holds:
            assert (lo, hi) == (min(good), max(good)) or name == "eq"


def test_answers_are_values() -> None:
    assert decide(Goal(((I, 0, 5),))) is decide(Goal(((I, 0, 5),)))
    assert Answer("proved", "intervals") == Answer("proved", "intervals")
