"""The laws of the scalar table, row by row: intervals on every box of small integers, monoids on bits.

Integers of 8 bits are enumerated, wider ones and floats are z3's bit-vectors and IEEE floats.  Each law is refuted where
its side condition is dropped: the checker that finds nothing on the table finds something there.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import z3

import assay.core.functions  # noqa: F401
from assay.core import dtypes as dt
from assay.core.dtypes import DType
from assay.core.errors import UserError
from assay.core.index import evaluate as evaluate_index
from assay.core.lang import E, as_index, const, convert, input, load, op, select
from assay.core.row import TABLE, Interval, Monoid, Row

RANGED = [r for r in TABLE.values() if callable(r.range) and r.kind == "primitive"]
MONOIDS = [r for r in TABLE.values() if isinstance(r.monoid, Monoid)]
SMALL = range(-8, 8)


# ------------------------------------------------------------------------------------------------ intervals of integers


def intervals(values: range) -> Iterator[Interval]:
    yield from itertools.combinations_with_replacement(values, 2)


def takes(r: Row, d: DType) -> bool:
    """Whether all arguments of the row may be of this type."""
    try:
        r.types(*[d] * r.arity)
    except UserError:
        return False
    return True


def escapes(r: Row, rule: Callable[..., Interval], d: DType) -> Any:
    """Intervals of arguments for which the rule misses a value of the row, computed without wrapping; None: there are none."""
    values = range(2) if d is dt.bool_ else SMALL
    d = d if takes(r, d) else dt.i32
    grid = np.meshgrid(*[np.array(values, d.numpy)] * r.arity, indexing="ij")
    with np.errstate(all="ignore"):
        results = np.asarray(r.numpy(*grid)).astype(np.int64)  # type: ignore[operator]
    for box in itertools.product(intervals(values), repeat=r.arity):
        part = results[tuple(slice(lo - values[0], hi - values[0] + 1) for lo, hi in box)]
        lo, hi = rule(*box)
        if part.min() < lo or part.max() > hi:
            return box
    return None


@pytest.mark.parametrize("r", RANGED, ids=lambda r: r.name)
@pytest.mark.parametrize("d", [dt.i64, dt.bool_], ids=lambda d: d.name)
def test_an_interval_rule_contains_every_value(r: Row, d: DType) -> None:
    if takes(r, d) or (d is dt.i64 and takes(r, dt.i32)):
        assert escapes(r, r.range, d) is None  # type: ignore[arg-type]
    else:
        assert r.name == "select" or d is dt.bool_ or takes(r, dt.bool_)


WORDS = (-(2**31), -(2**31) + 1, -(2**16), -2, -1, 0, 1, 2, 2**16 - 1, 2**16, 2**31 - 2, 2**31 - 1)


def products_escape(rule: Callable[..., Interval]) -> Any:
    """Intervals of WORDS for which the rule misses an upper half of a product; None: there are none."""
    boxes = [*itertools.combinations_with_replacement(WORDS, 2)]
    for a, b in itertools.product(boxes, repeat=2):
        x, y = (np.array([v for v in WORDS if lo <= v <= hi], np.int32) for lo, hi in (a, b))
        part = TABLE["umulhi"].numpy(*np.meshgrid(x, y))  # type: ignore[operator]
        lo, hi = rule(a, b)
        if part.min() < lo or part.max() > hi or lo < -(2**31) or hi >= 2**31:
            return a, b
    return None


def test_the_interval_of_upper_halves_of_products() -> None:
    rule: Any = TABLE["umulhi"].range
    assert products_escape(rule) is None
    assert rule((0, 2**16), (0, 2**20)) == (0, 16)
    assert rule((-1, 5), (0, 2**16)) == (0, 2**16 - 1)
    assert rule((-2, -1), (-2, -1)) == (-4, -2)
    assert products_escape(lambda a, b: (a[0] * b[0] >> 32, a[1] * b[1] >> 32)) is not None  # those of signed numbers


def test_the_interval_of_a_choice() -> None:
    rule = TABLE["select"].range
    for c, a, b in itertools.product(((0, 0), (0, 1), (1, 1)), intervals(range(-2, 3)), intervals(range(-2, 3))):
        lo, hi = rule(c, a, b)  # type: ignore[operator]
        chosen = [*(range(a[0], a[1] + 1) if c[1] else ()), *(range(b[0], b[1] + 1) if not c[0] else ())]
        assert lo <= min(chosen) <= max(chosen) <= hi


WRONG = {
    "add": lambda a, b: (a[0] + b[0], a[1] + b[0]),
    "sub": lambda a, b: (a[0] - b[0], a[1] - b[1]),
    "mul": lambda a, b: (a[0] * b[0], a[1] * b[1]),  # right for a, b >= 0
    "neg": lambda a: a,
    "abs": lambda a: (min(abs(a[0]), abs(a[1])), max(abs(a[0]), abs(a[1]))),  # right where 0 is not inside
    "max": lambda a, b: (min(a[0], b[0]), max(a[0], b[1])),
    "min": lambda a, b: (min(a[0], b[0]), a[1] if a[1] < b[1] else b[0]),
    "floordiv": lambda a, b: (min(x // (y or 1) for x in a for y in b), max(x // (y or 1) for x in a for y in b)),  # b > 0
    "mod": lambda a, b: (0, max(b[1] - 1, 0)),  # right for b > 0
    "lt": lambda a, b: (1, 1) if a[1] <= b[0] else (0, 1),
    "le": lambda a, b: (0, 0) if a[0] >= b[1] else (0, 1),
    "eq": lambda a, b: (1, 1) if a == b else (0, 1),  # right for intervals of one value
    "ne": lambda a, b: (1, 1) if a != b else (0, 1),
    "band": lambda a, b: (0, min(a[1], b[1])) if min(a[0], b[0]) >= 0 or max(a[1], b[1]) >= 0 else (-8, 0),
    "bor": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "bxor": lambda a, b: (0, max(a[1], b[1])),
    "bnot": lambda a: (-a[1], -a[0]),
    "and": lambda a, b: (min(a[0], b[0]), min(a[0], b[1])),
    "or": lambda a, b: (a[0], a[1]),
    "not": lambda a: a,
    "umulhi": lambda a, b: (0, max(a[1] * b[1] >> 32, 0)),  # right for a, b >= 0
    "stop": lambda a: (a[0], a[0]),
}  # fmt: skip


def test_every_rule_has_a_wrong_one_beside_it() -> None:
    assert {r.name for r in RANGED} - {"select"} <= WRONG.keys()


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_interval_rule_is_refuted(name: str) -> None:
    r = TABLE[name]
    assert escapes(r, WRONG[name], dt.bool_ if takes(r, dt.bool_) and not takes(r, dt.i64) else dt.i64) is not None


ENDS = {dt.i8: (-128, -127, -3, -1, 0, 1, 2, 100, 127), dt.u8: (0, 1, 2, 15, 16, 127, 128, 254, 255)}


@pytest.mark.parametrize("d", ENDS, ids=lambda d: d.name)
@pytest.mark.parametrize("r", [r for r in RANGED if r.name != "select"], ids=lambda r: r.name)
def test_the_interval_of_a_node_contains_every_wrapped_value(r: Row, d: DType) -> None:
    if not takes(r, d):
        return
    every = np.arange(d.lo, d.hi + 1).astype(d.numpy)
    with np.errstate(all="ignore"):
        results = np.asarray(r.numpy(*np.meshgrid(*[every] * r.arity, indexing="ij"))).astype(np.int64)  # type: ignore[operator]
    x = [load(input(name, (), d)) for name in "xy"[: r.arity]]
    for box in itertools.product(itertools.combinations_with_replacement(ENDS[d], 2), repeat=r.arity):
        e = op(r.name, *(op("min", op("max", v, lo), hi) for v, (lo, hi) in zip(x, box, strict=True)))
        part = results[tuple(slice(lo - d.lo, hi - d.lo + 1) for lo, hi in box)]
        assert e.lo <= part.min() <= part.max() <= e.hi, (box, e)


@pytest.mark.parametrize("target", [dt.i8, dt.u8, dt.i16, dt.i32, dt.i64, dt.bool_], ids=lambda d: d.name)
@pytest.mark.parametrize("source", [dt.i8, dt.u8], ids=lambda d: d.name)
def test_the_interval_of_a_conversion(source: DType, target: DType) -> None:
    v = load(input("x", (), source))
    for lo, hi in itertools.combinations_with_replacement(ENDS[source], 2):
        e = convert(op("min", op("max", v, lo), hi), target)
        values = np.arange(lo, hi + 1).astype(source.numpy).astype(target.numpy).astype(np.int64)
        assert e.lo <= values.min() <= values.max() <= e.hi


# ------------------------------------------------------------------------------------------------ arithmetic as an index


def shown(e: E, x: E, value: int) -> int:
    return int(evaluate_index(as_index(e), lambda a: {x: value}[a.e]))  # type: ignore[union-attr]


@pytest.mark.parametrize("d", [dt.i8, dt.u8], ids=lambda d: d.name)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "floordiv", "mod", "neg"])
def test_an_index_has_the_value_that_the_arithmetic_stores(name: str, d: DType) -> None:
    """as_index(e) is arithmetic over the integers only where no value wraps, by its interval."""
    source = load(input("x", (), d))
    as_arithmetic = 0
    for lo, hi in [(d.lo, d.hi), (0, 9), (1, 100)]:
        x = op("min", op("max", source, lo), hi)
        for c in (1, 2, 3, 7, 27):
            e = op(name, x) if name == "neg" else op(name, x, c)
            leaves = {a.e for a, _ in as_index(e).terms if hasattr(a, "e") and isinstance(a.e, E)}
            if e in leaves or e.op == "const":
                continue  # it stays a value
            as_arithmetic += 1
            for value in range(lo, hi + 1):
                with np.errstate(all="ignore"):
                    args = [np.array(v, d.numpy) for v in ((value,) if name == "neg" else (value, c))]
                    assert shown(e, x, value) == int(TABLE[name].numpy(*args))  # type: ignore[operator]
    assert as_arithmetic or (name, d) == ("neg", dt.u8)


def test_what_may_wrap_stays_a_value() -> None:
    """127 + 1 is -128: as index arithmetic it would be 128."""
    x = load(input("x", (), dt.i8))
    e = x + 1
    assert as_index(e).terms[0][0].e is e  # type: ignore[union-attr]
    assert as_index(op("min", x, 126) + 1).c == 1


def test_folding_keeps_values() -> None:
    """A node of one value is that constant, a decided choice its arm; both follow from the intervals above."""
    x = load(input("x", (), dt.i8))
    assert op("mod", x, 1) is const(0, dt.i8)
    assert op("band", x, 0) is op("mul", x, 0) is const(0, dt.i8)
    assert select(op("le", x, 127), x, 0) is x
    assert select(op("lt", op("min", x, 3), 4), x, 0) is x
    assert select(op("lt", op("min", x, 4), 4), x, 0) is not x  # 4 < 4 is false


# ------------------------------------------------------------------------------------------------ monoids


@pytest.mark.parametrize("d", [dt.i8, dt.u8, dt.bool_], ids=lambda d: d.name)
@pytest.mark.parametrize("r", MONOIDS, ids=lambda r: r.name)
def test_the_laws_of_a_monoid_hold_on_all_small_integers(r: Row, d: DType) -> None:
    if not takes(r, d):
        return
    assert isinstance(r.monoid, Monoid)
    assert r.monoid.is_exact(d)
    values = np.arange(d.lo, d.hi + 1).astype(d.numpy)
    f: Any = r.numpy
    table = f(values[:, None], values[None, :])
    assert np.array_equal(table, table.T)
    assert np.array_equal(f(np.asarray(r.monoid.neutral(d), d.numpy), values), values)
    for c in values[:: 1 if d is dt.bool_ else 5]:
        assert np.array_equal(f(table, c), f(values[:, None], f(values, c)[None, :]))


BITS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "max": lambda a, b: z3.If(a < b, b, a),
    "min": lambda a, b: z3.If(b < a, b, a),
    "band": lambda a, b: a & b,
    "bor": lambda a, b: a | b,
    "bxor": lambda a, b: a ^ b,
}


def never(*claims: Any) -> bool:
    """Whether no value makes one of the claims false."""
    solver = z3.SolverFor("QF_BV") if not any("fp" in c.sexpr() for c in claims) else z3.Solver()
    solver.add(z3.Or([z3.Not(c) for c in claims]))
    outcome = solver.check()
    assert outcome != z3.unknown
    return outcome == z3.unsat


@pytest.mark.parametrize("d", [dt.i16, dt.i32, dt.i64], ids=lambda d: d.name)
@pytest.mark.parametrize("name", BITS)
def test_the_laws_hold_on_all_bit_vectors(name: str, d: DType) -> None:
    f, monoid = BITS[name], TABLE[name].monoid
    assert isinstance(monoid, Monoid)
    a, b, c = z3.BitVecs("a b c", d.bits)
    e = z3.BitVecVal(int(monoid.neutral(d)), d.bits)
    assert never(f(f(a, b), c) == f(a, f(b, c)), f(a, b) == f(b, a), f(e, a) == a)


def test_the_laws_of_products_are_those_of_the_integers() -> None:
    """Wrapping is a homomorphism of rings, so what holds over the integers holds for every width."""
    a, b, c = z3.Ints("a b c")
    assert never((a * b) * c == a * (b * c), a * b == b * a, 1 * a == a)


@pytest.mark.parametrize(
    ("name", "wrong"), [("max", 0), ("min", 0), ("band", 1), ("bor", 1), ("add", 1), ("bxor", -1)]
)  # fmt: skip
def test_another_neutral_element_is_refuted(name: str, wrong: int) -> None:
    a = z3.BitVec("a", 32)
    assert not never(BITS[name](z3.BitVecVal(wrong, 32), a) == a)


def test_a_difference_is_no_monoid() -> None:
    a, b, c = z3.BitVecs("a b c", 32)
    assert not never((a - b) - c == a - (b - c))
    assert not never(a - b == b - a)


# -- floats: = of the theory identifies all NaNs and tells +0 from -0, as Assay does

NEAREST = z3.RNE()


def ieee_max(a: Any, b: Any) -> Any:
    """NaN propagates, -0 < +0 (the row max)."""
    larger = z3.If(z3.And(z3.fpIsZero(a), z3.fpIsZero(b)), z3.If(z3.fpIsNegative(a), b, a), z3.If(z3.fpLT(a, b), b, a))
    return z3.If(z3.fpIsNaN(a), a, z3.If(z3.fpIsNaN(b), b, larger))


def ieee_min(a: Any, b: Any) -> Any:
    """NaN propagates, -0 < +0 (the row min)."""
    smaller = z3.If(z3.And(z3.fpIsZero(a), z3.fpIsZero(b)), z3.If(z3.fpIsNegative(a), a, b), z3.If(z3.fpLT(b, a), b, a))
    return z3.If(z3.fpIsNaN(a), a, z3.If(z3.fpIsNaN(b), b, smaller))


@pytest.mark.parametrize("sort", [z3.Float16(), z3.FPSort(8, 8), z3.Float32()], ids=str)
@pytest.mark.parametrize(("f", "sign"), [(ieee_max, -1), (ieee_min, 1)])
def test_maxima_of_floats_are_exact_monoids(f: Any, sign: int, sort: Any) -> None:
    a, b, c = (z3.FP(x, sort) for x in "abc")
    infinity = z3.fpMinusInfinity(sort) if sign < 0 else z3.fpPlusInfinity(sort)
    assert never(f(f(a, b), c) == f(a, f(b, c)), f(a, b) == f(b, a), f(infinity, a) == a)


def test_without_the_order_of_zeros_a_maximum_does_not_commute() -> None:
    a, b = z3.FP("a", z3.Float32()), z3.FP("b", z3.Float32())
    plain = z3.If(z3.fpIsNaN(a), a, z3.If(z3.fpIsNaN(b), b, z3.If(z3.fpLT(a, b), b, a)))
    swapped = z3.substitute(plain, (a, b), (b, a))
    assert not never(plain == swapped)


def test_a_maximum_that_drops_nan_is_no_monoid_with_minus_infinity() -> None:
    a = z3.FP("a", z3.Float32())
    infinity = z3.fpMinusInfinity(z3.Float32())
    assert not never(z3.If(z3.fpLT(infinity, a), a, infinity) == a)


def test_neutral_elements_of_float_sums() -> None:
    """-0 is neutral, +0 is not (at -0); but a sum that starts at +0 never becomes -0, so there +0 lanes change nothing."""
    sort = z3.Float32()
    a, b = z3.FP("a", sort), z3.FP("b", sort)
    plus, minus = z3.fpPlusZero(sort), z3.fpMinusZero(sort)
    assert never(z3.fpAdd(NEAREST, minus, a) == a, z3.fpAdd(NEAREST, a, b) == z3.fpAdd(NEAREST, b, a))
    assert not never(z3.fpAdd(NEAREST, plus, a) == a)
    assert never(z3.Implies(a != minus, z3.fpAdd(NEAREST, a, b) != minus))
    assert never(z3.Implies(a != minus, z3.fpAdd(NEAREST, a, plus) == a))
    assert float(TABLE["add"].monoid.neutral(dt.f32)) == 0  # type: ignore[union-attr]
    assert np.signbit(TABLE["add"].monoid.neutral(dt.f32))  # type: ignore[union-attr]


def test_neutral_element_of_float_products() -> None:
    sort = z3.FPSort(4, 6)
    a = z3.FP("a", sort)
    assert never(z3.fpMul(NEAREST, z3.FPVal(1, sort), a) == a)


@pytest.mark.parametrize("f", [z3.fpAdd, z3.fpMul])
def test_sums_and_products_of_floats_are_not_associative(f: Any) -> None:
    """The side condition of Monoid.is_exact: without it a split would change bits."""
    a, b, c = (z3.FP(x, z3.FPSort(4, 5)) for x in "abc")
    assert not never(f(NEAREST, f(NEAREST, a, b), c) == f(NEAREST, a, f(NEAREST, b, c)))
    name = "add" if f is z3.fpAdd else "mul"
    monoid = TABLE[name].monoid
    assert isinstance(monoid, Monoid)
    assert not any(monoid.is_exact(d) for d in (dt.f16, dt.bf16, dt.f32, dt.f64))


# ------------------------------------------------------------------------------------------------ splitting a fold


def folded(f: Any, terms: list[Any], start: Any) -> Any:
    for t in terms:
        start = f(start, t)
    return start


def split(f: Any, terms: list[Any], start: Any, neutral: Any, lanes: int) -> Any:
    """What split_exact_folds makes of a fold: lanes, a tree over them, the rest in order."""
    whole = len(terms) // lanes * lanes
    parts = [folded(f, terms[k:whole:lanes], neutral) for k in range(lanes)]
    while len(parts) > 1:
        half = len(parts) // 2
        parts = [f(a, b) for a, b in zip(parts[:half], parts[half:], strict=True)]
    return folded(f, terms[whole:], f(start, parts[0]))


@pytest.mark.parametrize("name", BITS)
def test_a_split_fold_has_the_bits_of_the_fold(name: str) -> None:
    f, monoid = BITS[name], TABLE[name].monoid
    assert isinstance(monoid, Monoid)
    terms = [z3.BitVec(f"t{k}", 8) for k in range(7)]
    start, neutral = z3.BitVec("s", 8), z3.BitVecVal(int(monoid.neutral(dt.i8)), 8)
    assert never(folded(f, terms, start) == split(f, terms, start, neutral, 2))


def test_a_split_sum_of_floats_has_other_bits() -> None:
    terms = [z3.FP(f"t{k}", z3.FPSort(3, 4)) for k in range(4)]
    zero = z3.fpMinusZero(z3.FPSort(3, 4))

    def f(a: Any, b: Any) -> Any:
        return z3.fpAdd(NEAREST, a, b)

    assert not never(folded(f, terms, zero) == split(f, terms, zero, zero, 2))


def test_a_split_from_a_wrong_neutral_element_is_refuted() -> None:
    terms = [z3.BitVec(f"t{k}", 16) for k in range(4)]
    zero = z3.BitVecVal(0, 16)
    assert not never(folded(BITS["max"], terms, terms[0]) == split(BITS["max"], terms, terms[0], zero, 2))


# ------------------------------------------------------------------------------------------------ integers as bits


WIDTHS = (8, 32, 64)


@pytest.mark.parametrize("w", WIDTHS)
def test_identities_that_proofs_read_bits_by(w: int) -> None:
    """The readings of verify/terms.py over the integers, at the level of bits."""
    x, y = z3.BitVecs("x y", w)
    wide = z3.SignExt(w, x)
    assert never(~x == -x - 1, x - y == x + (~y + 1))
    for k in (1, 3, w - 2):
        power, mask = z3.BitVecVal(1 << k, 2 * w), (1 << k) - 1
        floor = z3.SignExt(w, x >> k)  # arithmetic shift
        assert never(floor * power <= wide, wide < floor * power + power)  # x >> k == x // 2**k
        rest = z3.ZeroExt(w, x & mask)
        assert never(rest == wide - floor * power)  # x & (2**k - 1) == x % 2**k
        assert never(z3.Extract(w - 1, 0, wide * power) == x << k)  # x << k == wrap(x * 2**k)


def upper(x: Any, y: Any, extend: Callable[[int, Any], Any] = z3.ZeroExt) -> Any:
    """The upper half of the bits of the product."""
    w = x.size()
    return z3.Extract(2 * w - 1, w, extend(w, x) * extend(w, y))


@pytest.mark.parametrize("w", [8, 32])
def test_upper_halves_of_products(w: int) -> None:
    """umulhi as the proofs read it (numbers >= 0, over the integers), and as g++ does it (lanes in pairs)."""
    x, y, u, v = z3.BitVecs("x y u v", w)
    whole = z3.SignExt(w, x) * z3.SignExt(w, y)
    assert never(z3.Implies(z3.And(x >= 0, y >= 0), z3.ZeroExt(w, upper(x, y)) == whole >> w))  # floor(x * y / 2**w)
    assert never(upper(x, y) == upper(y, x))
    pair, other = z3.Concat(u, x), z3.Concat(v, y)  # lane 1 above lane 0
    low = z3.BitVecVal((1 << w) - 1, 2 * w)
    even, odd = (pair & low) * (other & low), z3.LShR(pair, w) * z3.LShR(other, w)
    assert never(z3.Extract(2 * w - 1, w, even) == upper(x, y), z3.Extract(2 * w - 1, w, odd) == upper(u, v))


def test_upper_halves_of_other_products_are_refuted() -> None:
    x, y = z3.BitVecs("x y", 32)
    assert not never(upper(x, y) == upper(x, y, z3.SignExt))
    assert not never(z3.Implies(x >= 0, z3.SignExt(32, upper(x, y)) == z3.SignExt(32, x) * z3.SignExt(32, y) >> 32))


@pytest.mark.parametrize("w", WIDTHS)
def test_without_their_side_conditions_they_are_refuted(w: int) -> None:
    x = z3.BitVec("x", w)
    wide = z3.SignExt(w, x)
    assert not never(z3.ZeroExt(w, x & 6) == z3.SRem(wide, z3.BitVecVal(7, 2 * w)))  # 6 is no mask
    assert not never(z3.SignExt(w, z3.LShR(x, 1)) * 2 <= wide)  # a logical shift is no floor for x < 0
    assert not never(z3.SignExt(w, x << 1) == wide * 2)  # unless it does not wrap
    assert not never(z3.SignExt(w, -x) == -wide)  # nor does -INT_MIN


@pytest.mark.parametrize("d", [dt.i8, dt.u8], ids=lambda d: d.name)
def test_wrapping_as_a_remainder(d: DType) -> None:
    """(x - lo) mod 2**bits + lo is the value that the type stores."""
    x = np.arange(-1000, 1000)
    assert np.array_equal((x - d.lo) % (1 << d.bits) + d.lo, x.astype(d.numpy))
    assert not np.array_equal(x % (1 << d.bits), x.astype(np.int8))
