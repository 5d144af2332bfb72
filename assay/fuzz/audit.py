"""Audits of the parts that proofs rest on: each draws questions whose answers are found by evaluating every point.

index       a simplified index expression has the values of the written one, and its interval holds them
intervals   the interval of an integer scalar expression holds its values, whatever the inputs
prover      what is proved holds at every point that satisfies the hypotheses; a refutation has such a point
validator   a program that was changed at one place, and has other results for it, is not proved equal to its source
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
from assay.core.lang import E, Program, as_index, const, convert, index, input, load, op, program, select, tensor
from assay.examine import examine
from assay.semantics.denote import run
from assay.semantics.failure import RequireError
from assay.verify.integers import Goal, Hypothesis, decide

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
    kind = rng.randrange(6)
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
COMPARE = ("lt", "le", "eq", "ne")


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
    return op(rng.choice(BINARY), *(_expression(rng, leaves, d, depth - 1) for _ in range(2)))


def audit_intervals(seed: int) -> Contradiction | None:
    """One random integer expression of inputs at the ends of their types and near zero, and of small constants."""
    rng = random.Random(seed)
    n = 512
    inputs = [input(f"x{k}", (n,), d) for k, d in enumerate(INTEGERS)]
    d = rng.choice(INTEGERS)
    narrow = rng.randint(2, 40)
    made: list[E] = []

    def body(i: Ix) -> E:
        leaves: dict[DType, list[E]] = {}
        for t in inputs:
            x = load(t, i)
            low, high = rng.choice((0, -3, 1)), narrow
            clamped = op("min", op("max", x, low), high)
            leaves[t.dtype] = [x, clamped, clamped, convert(index(i % narrow), t.dtype)]
        made.append(_expression(rng, leaves, d, 4))
        return made[0]

    p = program(inputs, [tensor((n,), body)])
    draw = np.random.default_rng(seed)
    arrays = [_integers(draw, t.dtype, n) for t in inputs]
    (values,) = run(p, arrays)
    e = made[0]
    if int(values.min()) < e.lo or int(values.max()) > e.hi:
        return Contradiction("intervals", f"{e!r} has the interval [{e.lo}, {e.hi}] and values {values.min()}..{values.max()}")
    return None


def _integers(draw: np.random.Generator, d: DType, n: int) -> np.ndarray:
    """Ends of the type, numbers near zero, any numbers."""
    ends = [d.lo, d.lo + 1, d.hi, d.hi - 1, 0, 1, max(d.lo, -1), 2, 31, 7]
    some = draw.integers(d.lo, d.hi, n, dtype=np.int64, endpoint=True)
    near = np.clip(draw.integers(-40, 40, n), d.lo, d.hi)
    kind = draw.integers(0, 3, n)
    return np.choose(kind, [some, near, draw.choice(np.array(ends, np.int64), n)]).astype(d.numpy)


COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "lt": np.less, "le": np.less_equal, "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip


def _computed(rng: random.Random, box: _Box, sizes: tuple[int, ...], depth: int) -> tuple[Ix, np.ndarray]:
    """A random index: written as one, or computed by integer operations, whose values are those of the denotation."""
    if rng.random() < 0.5:
        return _index(rng, box, depth)
    d = rng.choice((dt.i64, dt.i64, dt.i32, dt.i8))
    made: list[E] = []

    def body(*i: Ix) -> E:
        leaves = {t: [convert(index(v), t) for v in i] + [const(rng.randint(-5, 12), t)] if t.lo < 0 else
                  [convert(index(v), t) for v in i] for t in INTEGERS}  # fmt: skip
        made.append(convert(_expression(rng, leaves, d, depth), dt.i64))
        return made[0]

    (values,) = run(program([], [tensor(sizes, body)]), [])
    return as_index(made[0]), values.ravel()


def _condition(rng: random.Random, box: _Box, sizes: tuple[int, ...]) -> tuple[E, np.ndarray]:
    name = rng.choice(COMPARE)
    (a, x), (b, y) = _computed(rng, box, sizes, 2), _index(rng, box, 2)
    return op(name, index(a), index(b)), COMPARISONS[name](x, y)


def audit_prover(seed: int) -> Contradiction | None:
    """One random question whose box has more points than the prover evaluates before it asks z3."""
    rng = random.Random(seed)
    sizes = (rng.choice((40, 48, 64)), rng.choice((32, 36, 64)), rng.choice((32, 48)))
    variables = tuple(ix(variable(k, n)) for k, n in enumerate(sizes))
    box = _Box(variables, tuple(c.ravel().astype(np.int64) for c in np.indices(sizes)))
    hypotheses: list[Hypothesis] = []
    holds = np.ones(len(box.columns[0]), np.bool_)
    for _ in range(rng.randint(0, 3)):
        e, truth = _condition(rng, box, sizes)
        positive = rng.random() < 0.7
        hypotheses.append((e, positive))
        holds &= truth == positive
    i, values = _computed(rng, box, sizes, 3)
    within = values[holds]
    lo, hi = (int(within.min()), int(within.max())) if within.size else (0, 0)
    lo, hi = lo + rng.choice((0, 0, 0, 1)), hi - rng.choice((0, 0, 0, 1))
    answer = decide(Goal(((i, lo, hi),)), hypotheses)
    right = bool(((within >= lo) & (within <= hi)).all())
    question = f"{lo} <= {i!r} <= {hi} under {hypotheses}"
    if answer.status == "proved" and not right:
        return Contradiction("prover", f"{question} is proved by {answer.how}, and false")
    if answer.status == "refuted" and right:
        return Contradiction("prover", f"{question} is refuted by {answer.how}, and true")
    if answer.unreachable and within.size:
        return Contradiction("prover", f"the hypotheses of {question} are called contradictory, and hold at {within.size} points")
    return None


EDITS: tuple[tuple[str, str], ...] = (
    (r"\badd\(", "sub("), (r"\bsub\(", "add("), (r"\bmul\(", "add("), (r"\bmax\(", "min("), (r"\bmin\(", "max("),
    (r"\blt\(", "le("), (r"\ble\(", "lt("), (r"\beq\(", "ne("), (r"\band\(", "or("), (r"\bnot\(", "stop("),
    (r"\[(\w+),(\w+)\]", r"[\2,\1]"), (r"\[(\w+)\]", r"[\1 + 1]"), (r" \+ 1\b", " + 2"), (r" - 1\b", ""), (r"\?\[", "["),
    (r"\b0x0p\+0", "0x1p+0"), (r"=-inf", "=0x0p+0"), (r"\((\w):(\d)\b", r"(\1:1"), (r"\bsum\(", "max("),
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
    except AssayError:
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


AUDITS: dict[str, Callable[[int], Contradiction | None]] = {
    "index": audit_index, "intervals": audit_intervals, "prover": audit_prover, "validator": audit_validator,
}  # fmt: skip
SHARE = {"index": 8, "intervals": 4, "prover": 1, "validator": 1}  # questions to each part in a round


def audit(count: int, seed: int) -> Contradiction | None:
    """The first contradiction of `count` rounds of questions from round `seed` on: what other parts rest on is asked first."""
    for part, ask in AUDITS.items():
        for s in range(seed * SHARE[part], (seed + count) * SHARE[part]):
            found = ask(s)
            if found is not None:
                return found
    return None
