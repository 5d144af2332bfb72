"""Audits of the parts that proofs rest on: each draws questions whose answers are found by evaluating every point.

index       a simplified index expression has the values of the written one, and its interval holds them
intervals   the interval of an integer scalar expression holds its values, whatever the inputs
prover      what is proved holds at every point that satisfies the hypotheses; a refutation has such a point
validator   a program that was changed at one place, and has other results for it, is not proved equal to its source
folds       two nests of folds that have other results are not proved equal (audit_folds.py)
nests       a scheduled program that was made wrong at one place is not proved (audit_nests.py)
slopes      the column `lin` of a scalar function, against differences
histories   which results have gradients for which arguments (audit_histories.py)
derivatives gradients and tangents against differences, halves of a joint program, the engine (audit_derivatives.py)
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.core import dtypes as dt
from assay.core.dtypes import DType
from assay.core.index import Ix, evaluate, ix, variable
from assay.core.lang import E, Program, as_index, const, convert, index, input, load, load_or_zero, op, program, select, tensor
from assay.examine import examine
from assay.semantics.denote import run
from assay.semantics.failure import RequireError
from assay.semantics.ranges import Facts
from assay.verify.integers import PORTFOLIO, Fact, Goal, Hypothesis, ask_z3, decide, split

DIVISORS = (1, 2, 3, 4, 6, 8, 12)
FACTORS = (-12, -3, -1, 2, 3, 4, 6, 16)


@dataclass(frozen=True)
class Contradiction:
    """What one part says against what evaluation says."""

    part: str
    text: str

    def __str__(self) -> str:
        return f"{self.part}: {self.text}"


@dataclass(frozen=True)
class _Box:
    """Variables, and a column of values for each: every point of the box."""

    variables: tuple[Ix, ...]
    columns: tuple[np.ndarray, ...]

    def evaluate(self, i: Ix) -> np.ndarray:
        at = {v.terms[0][0]: c for v, c in zip(self.variables, self.columns, strict=True) if v.terms}
        return np.asarray(evaluate(i, at.__getitem__)) + 0 * self.columns[0]  # type: ignore[arg-type]


def _box(rng: random.Random, sizes: tuple[int, ...]) -> _Box:
    shape = [rng.choice(sizes) for _ in range(rng.randint(1, 3))]
    variables = tuple(ix(variable(k, n)) for k, n in enumerate(shape))
    return _Box(variables, tuple(c.ravel().astype(np.int64) for c in np.indices(shape)))


def _index(rng: random.Random, box: _Box, depth: int) -> tuple[Ix, np.ndarray]:
    """A random index, and its values computed without simplifying anything."""
    if depth == 0 or rng.random() < 0.15:
        k = rng.randrange(len(box.variables) + 1)
        if k < len(box.variables):
            return box.variables[k], box.columns[k]
        c = rng.randint(-9, 17)
        return ix(c), np.full_like(box.columns[0], c)
    a, x = _index(rng, box, depth - 1)
    kind = rng.randrange(7)
    if kind == 6:  # high and low part, and a quotient or remainder by a multiple of the factor between them
        b, y = _index(rng, box, min(depth - 1, 1))
        g, c = rng.choice(DIVISORS), rng.choice(DIVISORS)
        joined, values = a * g + b, x * g + y
        return (joined // (g * c), values // (g * c)) if rng.random() < 0.5 else (joined % (g * c), values % (g * c))
    if kind < 2:
        b, y = _index(rng, box, depth - 1)
        return (a + b, x + y) if kind == 0 else (a - b, x - y)
    if kind == 2:
        k = rng.choice(FACTORS)
        return a * k, x * k
    c = rng.choice(DIVISORS)
    return (a // c, x // c) if kind == 3 else (a % c, x % c)


def audit_index(seed: int) -> Contradiction | None:
    """One random index over a small box."""
    rng = random.Random(seed)
    box = _box(rng, (1, 2, 3, 4, 5, 7, 8, 12))
    i, expected = _index(rng, box, 5)
    got = box.evaluate(i)
    wrong = np.flatnonzero(got != expected)
    if len(wrong):
        at = [int(c[wrong[0]]) for c in box.columns]
        return Contradiction("index", f"{i!r} is {got[wrong[0]]} at {at}, what was written is {expected[wrong[0]]}")
    if int(expected.min()) < i.lo or int(expected.max()) > i.hi:
        return Contradiction("index", f"{i!r} has the interval [{i.lo}, {i.hi}] and values {expected.min()}..{expected.max()}")
    return None


INTEGERS = (dt.i8, dt.u8, dt.i16, dt.i32, dt.i64)
UNARY = ("neg", "abs", "bnot")
BINARY = ("add", "sub", "mul", "max", "min", "floordiv", "mod", "band", "bor", "bxor", "shl", "shr")
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "lt": np.less, "le": np.less_equal, "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip
COMPARE = tuple(COMPARISONS)


def _binary(d: DType) -> tuple[str, ...]:
    return (*BINARY, "umulhi") if d is dt.i32 else BINARY


def _expression(rng: random.Random, leaves: dict[DType, list[E]], d: DType, depth: int) -> E:
    if depth == 0 or rng.random() < 0.15:
        return rng.choice(leaves[d])
    kind = rng.randrange(8)
    if kind == 0:
        a, b = (_expression(rng, leaves, d, depth - 1) for _ in range(2))
        c = op(rng.choice(COMPARE), *(_expression(rng, leaves, d, depth - 1) for _ in range(2)))
        return select(c, a, b)
    if kind == 1:
        return convert(_expression(rng, leaves, rng.choice(INTEGERS), depth - 1), d)
    if kind == 2:
        return op(rng.choice(UNARY), _expression(rng, leaves, d, depth - 1))
    return op(rng.choice(_binary(d)), *(_expression(rng, leaves, d, depth - 1) for _ in range(2)))


def _readable(rng: random.Random, leaves: dict[DType, list[E]], d: DType, depth: int) -> E:
    """An expression of the operations that the prover computes with."""
    if depth == 0:
        return rng.choice(leaves[d])
    a = _readable(rng, leaves, d, depth - 1)
    kind = rng.randrange(12)
    if kind < 3:
        return op(rng.choice(("add", "sub", "mul", "max", "min")), a, _readable(rng, leaves, d, depth - 1))
    if kind in (4, 11):
        c = op(rng.choice(COMPARE), _readable(rng, leaves, d, depth - 1), rng.randint(0, 9))
        return select(c, a, _readable(rng, leaves, d, depth - 1))
    if kind == 5:
        return op("floordiv" if rng.random() < 0.5 else "mod", a, rng.choice(DIVISORS))
    if kind in (3, 6):
        return op("shl" if rng.random() < 0.5 else "shr", a, rng.randint(0, 3))
    if kind == 7:
        return op("band", a, rng.choice((1, 3, 7, 15)))
    return op(rng.choice(UNARY), a)


def audit_intervals(seed: int) -> Contradiction | None:
    """One operation on every pair of numbers from two small intervals, or one random integer expression."""
    return _small_intervals(random.Random(seed)) if seed % 4 else _random_expression(seed)


def _small_intervals(rng: random.Random) -> Contradiction | None:
    """One operation: intervals of at most 8 numbers around 0, and every pair of them."""
    d = rng.choice(tuple(d for d in INTEGERS if d.lo < 0))
    ends = [sorted(rng.randint(-9, 9) for _ in range(2)) for _ in range(2)]
    ends = [(low, min(high, low + 7)) for low, high in ends]
    if rng.random() < 0.4:  # one begins where the other ends
        ends[1] = ends[0][1], ends[0][1] + rng.randint(0, 3)
        ends = ends[:: rng.choice((1, -1))]

    shape = tuple(high - low + 1 for low, high in ends)
    name = rng.choice((*UNARY, *_binary(d), *COMPARE, "select"))
    made: list[E] = []

    def body(*at: Ix) -> E:
        x, y = (convert(index(i + low), d) for i, (low, _) in zip(at, ends, strict=True))
        made.append(op(name, x) if name in UNARY else select(op("lt", y, rng.randint(-9, 9)), x, y) if name == "select"
                    else op(name, x, y))  # fmt: skip
        return made[0]

    (values,) = run(program([], [tensor(shape, body)]), [])
    if name in COMPARISONS:  # what the intervals decide is a constant
        x, y = (at + low for at, (low, _) in zip(np.indices(shape), ends, strict=True))
        if not np.array_equal(values, COMPARISONS[name](x, y)):
            return Contradiction("intervals", f"{name} of {ends[0]} and {ends[1]} is decided: {made[0]!r}")
    return _outside(made[0], values)


def _outside(e: E, values: np.ndarray) -> Contradiction | None:
    least, most = int(values.min()), int(values.max())
    if e.lo <= least and most <= e.hi:
        return None
    return Contradiction("intervals", f"{e!r} has the interval [{e.lo}, {e.hi}] and values {least}..{most}")


def _random_expression(seed: int) -> Contradiction | None:
    """Inputs at the ends of their types and near zero, padded reads, and small constants."""
    rng = random.Random(seed)
    n = 512
    inputs = [input(f"x{k}", (n,), d) for k, d in enumerate(INTEGERS)]
    d = rng.choice(INTEGERS)
    narrow = rng.randint(2, 40)
    made: list[E] = []
    low = rng.choice((0, -3, 1))
    clamped = {t: tensor((n,), lambda i, t=t: op("min", op("max", load(t, i), low), narrow)) for t in inputs}

    def body(i: Ix) -> E:
        leaves: dict[DType, list[E]] = {}
        for t in inputs:
            inner = op("min", op("max", load(t, i), low), narrow)
            padded = load_or_zero(clamped[t], i - rng.choice((1, 9)))
            leaves[t.dtype] = [load(t, i), inner, padded, convert(index(i % narrow), t.dtype)]
        made.append(_expression(rng, leaves, d, rng.randint(1, 4)))
        return made[0]

    p = program(inputs, [tensor((n,), body)])
    draw = np.random.default_rng(seed)
    arrays = [_integers(draw, t.dtype, n) for t in inputs]
    (values,) = run(p, arrays)
    return _outside(made[0], values)


def _integers(draw: np.random.Generator, d: DType, n: int) -> np.ndarray:
    """Ends of the type, numbers near zero, any numbers."""
    ends = [d.lo, d.lo + 1, d.hi, d.hi - 1, 0, 1, max(d.lo, -1), 2, 31, 7]
    some = draw.integers(d.lo, d.hi, n, dtype=np.int64, endpoint=True)
    near = np.clip(draw.integers(-40, 40, n), d.lo, d.hi)
    kind = draw.integers(0, 3, n)
    return np.choose(kind, [some, near, draw.choice(np.array(ends, np.int64), n)]).astype(d.numpy)


def _computed(rng: random.Random, box: _Box, sizes: tuple[int, ...], depth: int) -> tuple[Ix, np.ndarray]:
    """A random index: written as one, or computed by integer operations, whose values are those of the denotation."""
    if rng.random() < 0.5:
        return _index(rng, box, depth)
    d = rng.choice((dt.i64, dt.i32, dt.i8, dt.i8))
    made: list[E] = []

    def body(*i: Ix) -> E:
        leaves = {t: [convert(index(v), t) for v in i] for t in INTEGERS}
        for t in INTEGERS:
            near = convert(index(i[0] - 4), t) if t.lo < 0 else leaves[t][0]
            leaves[t] += [const(rng.choice((rng.randint(0, 12), 99)), t), near]
        made.append(convert((_readable if rng.random() < 0.7 else _expression)(rng, leaves, d, depth), dt.i64))
        return made[0]

    (values,) = run(program([], [tensor(sizes, body)]), [])
    return as_index(made[0]), values.ravel()


def _condition(rng: random.Random, box: _Box, sizes: tuple[int, ...]) -> tuple[E, np.ndarray]:
    """A comparison; in one case of three the opposite of one, two that hold, or one of two."""
    e, truth = _comparison(rng, box, sizes)
    kind = rng.randrange(9)
    if kind == 0:
        return op("not", e), ~truth
    if kind < 3:
        other, more = _comparison(rng, box, sizes)
        return (op("and", e, other), truth & more) if kind == 1 else (op("or", e, other), truth | more)
    return e, truth


def _comparison(rng: random.Random, box: _Box, sizes: tuple[int, ...]) -> tuple[E, np.ndarray]:
    name = rng.choice(COMPARE)
    if rng.random() < 0.5:  # a sum of one or two variables against a number near its values, in either order
        chosen = rng.sample(range(len(box.variables)), rng.randint(1, 2))
        factors = [rng.choice((*FACTORS, 1)) for _ in chosen]
        a = sum((box.variables[q] * k for q, k in zip(chosen, factors, strict=True)), ix(0))
        x = np.asarray(sum(box.columns[q] * k for q, k in zip(chosen, factors, strict=True)))
        y = int(x[rng.randrange(len(x))]) + rng.choice((0, 0, -1, 1))
        if rng.random() < 0.5:
            return op(name, index(a), const(y, dt.i64)), COMPARISONS[name](x, y)
        return op(name, const(y, dt.i64), index(a)), COMPARISONS[name](y, x)
    (a, x), (b, z) = _computed(rng, box, sizes, 2), _index(rng, box, 2)
    return op(name, index(a), index(b)), COMPARISONS[name](x, z)


def _rare_condition(rng: random.Random, box: _Box) -> tuple[E, np.ndarray]:
    """The number of a point, or another sum that has its value there: it holds at that point, and at few others."""
    factors = [rng.choice(FACTORS) for _ in box.variables]
    if rng.random() < 0.4:
        factors = [1, box.variables[0].hi + 1, (box.variables[0].hi + 1) * (box.variables[1].hi + 1)]
    i = sum((v * k for v, k in zip(box.variables, factors, strict=True)), ix(0))
    point = [rng.choice((v.lo, v.hi, rng.randint(v.lo, v.hi))) for v in box.variables]
    there = sum(x * k for x, k in zip(point, factors, strict=True))
    return op("eq", index(i), const(there, dt.i64)), sum(c * k for c, k in zip(box.columns, factors, strict=True)) == there


SMALL, LARGE = (2, 3, 5, 8, 12, 16), (32, 36, 40, 48, 64)  # boxes of which every point is evaluated, and of which too many are


def audit_prover(seed: int) -> Contradiction | None:
    """One random question: on a small box, on a large one, or on a large one of which few points satisfy the hypotheses."""
    rng = random.Random(seed)
    rare, small = seed % 4 == 0, seed % 8 != 1 and seed % 4 > 0
    sizes = tuple(rng.choice(SMALL if small else LARGE) for _ in range(3))
    variables = tuple(ix(variable(k, n)) for k, n in enumerate(sizes))
    box = _Box(variables, tuple(c.ravel().astype(np.int64) for c in np.indices(sizes)))
    hypotheses: list[Hypothesis] = []
    holds = np.ones(len(box.columns[0]), np.bool_)
    for _ in range(rng.randint(1, 2) if rare else rng.randint(0, 3)):
        e, truth = _rare_condition(rng, box) if rare else _condition(rng, box, sizes)
        positive = rare or rng.random() < 0.7
        hypotheses += split(e, positive)
        holds &= truth == positive
    plain = rare or rng.random() < 0.3
    i, values = _index(rng, box, 1) if plain else _computed(rng, box, sizes, 3)
    within = values[holds]
    lo, hi = (int(within.min()), int(within.max())) if within.size else (0, 0)
    lo, hi = lo + rng.choice((0, 0, 0, 1)), hi - rng.choice((0, 0, 0, 1))
    goal, rlimit = Goal(((i, lo, hi),)), rng.choice((1, 1000, None)) if rare else None  # too little for z3, or enough
    answer = decide(goal, hypotheses, rlimit=rlimit)
    right = bool(((within >= lo) & (within <= hi)).all())
    question = f"{lo} <= {i!r} <= {hi} under {hypotheses}"
    if answer.status == "proved" and not right:
        return Contradiction("prover", f"{question} is proved by {answer.how}, and false")
    if answer.status == "refuted" and right:
        return Contradiction("prover", f"{question} is refuted by {answer.how}, and true")
    if answer.status == "unknown" and not answer.opaque and rlimit is None and (small or rare):
        return Contradiction("prover", f"{question} is {'true' if right else 'false'}, and not settled: {answer.how}")
    if answer.unreachable and within.size:
        return Contradiction("prover", f"the hypotheses of {question} are called contradictory, and hold at {within.size} points")
    facts = Facts(hypotheses)
    for j, x in ((i, values), *zip(box.variables, box.columns, strict=True)):
        least, most = facts.index(j)
        if within.size and (facts.contradictory or int(x[holds].min()) < least or int(x[holds].max()) > most):
            there = "no value" if facts.contradictory else f"{least}..{most}"
            return Contradiction("prover", f"{j!r} has {there} under {hypotheses}, and {x[holds].min()}..{x[holds].max()}")
    for name, algebra, simple in PORTFOLIO if rare else ():  # each solver alone: what one misses another one may hide
        q = Fact(goal, frozenset(hypotheses)).question
        outcome, point = ask_z3(algebra(), q, simple=simple, negated_goal=True)
        if outcome == "unknown" or (outcome == "unsat") != right:
            return Contradiction("prover", f"{question} is {'true' if right else 'false'}, and {name} says {outcome}: {point}")
    return None


EDITS: tuple[tuple[str, str], ...] = (
    (r"\badd\(", "sub("), (r"\bsub\(", "add("), (r"\bmul\(", "add("), (r"\bmax\(", "min("), (r"\bmin\(", "max("),
    (r"\blt\(", "le("), (r"\ble\(", "lt("), (r"\beq\(", "ne("), (r"\band\(", "or("), (r"\bnot\(", "stop("),
    (r"\[(\w+),(\w+)\]", r"[\2,\1]"), (r"\[(\w+),", "[0,"), (r"\[(\w+)\]", r"[\1 + 1]"), (r" \+ 1\b", " + 2"), (r" - 1\b", ""),
    (r"\?\[", "["), (r"\b0x0p\+0", "0x1p+0"), (r"=-inf", "=0x0p+0"), (r"\((\w):(\d)\b", r"(\1:1"), (r"\bsum\(", "max("),
    (r"select\((\w+), (\w+), ", r"select(\1, "), (r"\beffects .*", ""), (r"\beffects \w+, ", "effects "), (r"\bset\b", "add"),
    (r", a\)", ", b)"), (r", b\)", ", a)"), (r"\(a, ", "(b, "), (r"\(b, ", "(a, "),
)  # fmt: skip
"""Changes of a program's text: (what is looked for, what takes its place)."""


def audit_validator(seed: int) -> Contradiction | None:
    """One random program, and the result of its passes changed at one place."""
    from assay.core.errors import AssayError
    from assay.core.parser import parse
    from assay.core.text import show
    from assay.fuzz.generate import random_recipe
    from assay.fuzz.oracle import draw_arrays, draw_many_arrays
    from assay.fuzz.recipe import tensors
    from assay.semantics.inputs import HUGE
    from assay.verify.validate import validate

    rng = random.Random(seed)
    recipe = random_recipe(seed, 4)
    (inputs,) = draw_many_arrays([recipe], seed, 2)
    inputs.append(draw_arrays(recipe, HUGE, np.random.default_rng(seed)))  # on which checks fail
    try:
        stages = examine(recipe, tuple(tensors(inputs[0]))).stages
    except Exception:  # running the programs will say at which stage
        return None
    source, text = stages[0].program, show(stages[-1].program)
    places = [(m, new) for old, new in EDITS for m in re.finditer(old, text)]
    rng.shuffle(places)
    for found, new in places[:CHANGES]:
        changed = text[: found.start()] + found.expand(new) + text[found.end() :]
        try:
            target = parse(changed)
            differs = target.inputs == source.inputs and any(_outcome(source, xs) != _outcome(target, xs) for xs in inputs)
        except (AssayError, IndexError):  # no program, or one that reads outside
            continue
        if differs and validate(source, target).proved:
            at = f"{found.group()!r} became {found.expand(new)!r} in"
            return Contradiction("validator", f"{at}\n{text}\nand the program is proved equal to\n{show(source)}")
    return None


CHANGES = 6  # of one program


def _outcome(p: Program, arrays: list[np.ndarray]) -> list[bytes] | str:
    """The bits of the results (of NaN, that it is one), or the error."""
    try:
        return [_bits(x) for x in run(p, [a.copy() for a in arrays])]
    except RequireError as error:
        return str(error)


def _bits(x: np.ndarray) -> bytes:
    if x.dtype.kind not in "biu":
        x = np.where(np.isnan(x.astype(np.float64)), np.asarray(np.nan, x.dtype), x)
    return x.tobytes()


def audit_folds(seed: int) -> Contradiction | None:
    """One pair of nests of folds."""
    from assay.fuzz.audit_folds import wrong_folds

    found = wrong_folds(seed)
    return None if found is None else Contradiction("validator", found)


def audit_nests(seed: int) -> Contradiction | None:
    """One axis, or one scheduled program, made wrong at one place."""
    from assay.fuzz.audit_nests import wrong_schedule

    found = wrong_schedule(seed)
    return None if found is None else Contradiction("validator", found)


def audit_slopes(seed: int) -> Contradiction | None:
    """The slope of one scalar function."""
    from assay.fuzz.audit_derivatives import wrong_slope

    found = wrong_slope(seed)
    return None if found is None else Contradiction(*found)


def audit_histories(seed: int) -> Contradiction | None:
    """What has a gradient in one function, and which."""
    from assay.fuzz.audit_histories import wrong_history

    found = wrong_history(seed)
    return None if found is None else Contradiction(*found)


def audit_derivatives(seed: int) -> Contradiction | None:
    """One gradient, made in two ways."""
    from assay.fuzz.audit_derivatives import wrong_derivative

    found = wrong_derivative(seed)
    return None if found is None else Contradiction(*found)


# what other parts rest on is asked first
AUDITS: dict[str, Callable[[int], Contradiction | None]] = {
    "index": audit_index, "intervals": audit_intervals, "prover": audit_prover, "validator": audit_validator,
    "folds": audit_folds, "nests": audit_nests, "slopes": audit_slopes, "histories": audit_histories,
    "derivatives": audit_derivatives,
}  # fmt: skip
SHARE = {  # questions to each part in a round
    "index": 24, "intervals": 24, "prover": 6, "validator": 1, "folds": 4, "nests": 4, "slopes": 4, "histories": 1,
    "derivatives": 50,
}  # fmt: skip


def audit(part: str, count: int, seed: int) -> Contradiction | None:
    """The first contradiction of `count` rounds of questions to a part, from round `seed` on."""
    ask, share = AUDITS[part], SHARE[part]
    return next((found for s in range(seed * share, (seed + count) * share) if (found := ask(s)) is not None), None)
