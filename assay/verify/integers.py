"""Deciding integer facts about indices: do the hypotheses imply the goal?

The order is from cheap to dear, and every step is sound on its own:

    intervals    the ranges that every index expression carries (definition 6.4)
    guards       the same, with the linear bounds that the hypotheses state
    signs        for all sizes: by corners and digits (core/polynomial.py)
    samples      ~256 points, to refute
    exhaustive   every point, where there are few: a complete decision
    z3           SimpleSolver under a resource limit, never a wall-clock limit: a busy machine changes no verdict
    products     for all sizes: sums of products of the hypotheses, with a certificate (verify/products.py)
    portfolio    z3 again: quotients and remainders as variables, then the default solver

An atom is what has no structure here: an index variable, a value read from an input, a float comparison, a fold.  Loads of
integer lets and requires are replaced by what they mean (for a require, with its condition as a hypothesis).
Whether the hypotheses can hold at all is always asked: what contradictory hypotheses imply is reported as unreachable.
"""

from __future__ import annotations

import math
import random
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np

from assay.core import dtypes as dt
from assay.core import index as index_
from assay.core.errors import UserError
from assay.core.index import Div, Ix, Quotient, Size, Val, Var, ix
from assay.core.lang import LOADS, E, T, as_index, axes, const, expand, index, is_const, op, select, substitute, substitute_all
from assay.core.polynomial import LIMIT, limits, nonnegative
from assay.core.row import Interval
from assay.semantics.ranges import Facts
from assay.verify import products
from assay.verify.ends import ends as ends_of
from assay.verify.points import draw
from assay.verify.terms import Z3, Atom, Numpy, Quotients, Reading, interpreted, is_expanded, unwrapped, wraps

Hypothesis: TypeAlias = "tuple[E, bool]"  # a condition, and whether it holds

SAMPLES = 256
SEEN = 64  # points at which a condition is looked at before its proof is tried
UNIFORM = np.random.default_rng(0).random((61, SEEN))
KIND = np.random.default_rng(1).integers(0, 4, (59, SEEN))  # 0: near a constant, 1: an end, else anywhere
SIZED_SAMPLES = 448
FEW = 1 << 15  # points that are evaluated rather than asking z3
BOX = 300_000  # points that are evaluated where z3 has no answer
NODES = 600  # a larger question is not asked
RLIMIT = 1_000_000  # z3 resource units (about 4000 a millisecond), for each solver of the portfolio
SEED = 0  # of z3's random choices; no verdict may depend on it
PORTFOLIO = (("z3", Z3, True), ("z3 with quotients", Quotients, True), ("z3's default solver", Z3, False))
END = 1 << 400  # a range that ends here has no upper end
WIDE = 1 << 62  # beyond this numpy's int64 is not trusted, and Python integers are used


@dataclass(frozen=True)
class Goal:
    """lo <= index <= hi for each of `ranges`, and `condition` where there is one."""

    ranges: tuple[tuple[Ix, int, int], ...] = ()
    condition: E | None = None


@dataclass(frozen=True)
class Answer:
    """`status` is proved, refuted or unknown; `how` names the step that settled it.

    `point` gives a value to each atom such that the hypotheses hold and the goal does not.  Where `status` is unknown it is a
    candidate only: it gives values to atoms (`opaque`) that may not be able to take them.
    """

    status: str
    how: str
    point: dict[Atom, int] | None = None
    opaque: tuple[E, ...] = ()
    unreachable: bool = False


@dataclass(frozen=True)
class Fact:
    """A goal, at every point at which the hypotheses hold: one question of `decide`."""

    goal: Goal
    hypotheses: frozenset[Hypothesis] = frozenset()

    @property
    def question(self) -> Question:
        """The question with loads of integer lets and requires replaced by what they mean."""
        hypotheses = _ordered(self.hypotheses)
        return Question(*(inline(self.goal, hypotheses) or (self.goal, hypotheses)))


_answers: dict[tuple[Goal, frozenset[Hypothesis], int | None], Answer] = {}


def decide(goal: Goal, hypotheses: Iterable[Hypothesis] = (), *, rlimit: int | None = None) -> Answer:
    """Whether `goal` holds at every point at which the hypotheses do.

    `rlimit` bounds each question to z3 (None: RLIMIT); with 0 z3 is neither asked nor loaded, and some answers are unknown.
    """
    key = goal, frozenset(hypotheses), rlimit
    found = _answers.get(key)
    if found is None:
        found = _answers[key] = _decide(goal, _ordered(key[1]), rlimit)
    record = _recorded.get()
    if record is not None:
        record[Fact(goal, key[1])] = found
    return found


_recorded: ContextVar[dict[Fact, Answer] | None] = ContextVar("recorded", default=None)


@contextmanager
def recorded_facts() -> Generator[dict[Fact, Answer], None, None]:
    """The facts that are decided inside the block, and their answers: what a second solver may be asked again."""
    facts: dict[Fact, Answer] = {}
    token = _recorded.set(facts)
    try:
        yield facts
    finally:
        _recorded.reset(token)


def _ordered(hypotheses: Iterable[Hypothesis]) -> tuple[Hypothesis, ...]:
    return tuple(sorted(hypotheses, key=lambda h: (h[0].digest, h[0].id, h[1])))


def _decide(goal: Goal, hypotheses: Sequence[Hypothesis], rlimit: int | None) -> Answer:
    if _inside(goal, Facts(())):
        return Answer("proved", "intervals")
    deeper = inline(goal, hypotheses)
    stages = [Question(goal, hypotheses)] if deeper is None else [Question(goal, hypotheses), Question(*deeper)]
    for q in stages:
        if _inside(q.goal, Facts(())):
            return Answer("proved", "intervals after inlining")
        if _seen(q.goal):
            return Answer("proved", "signs")
        if _inside(q.goal, Facts(q.hypotheses)):
            vacuous = not q.satisfiable(rlimit)
            return Answer("proved", "unreachable" if vacuous else "guards", unreachable=vacuous)
    return stages[-1].decide(rlimit)


def seen(goal: Goal, hypotheses: Iterable[Hypothesis]) -> tuple[bool, bool]:
    """(somewhere the goal holds, somewhere it does not), among a few points at which the hypotheses do.

    What is seen of one truth value rules out the proof of the other: two questions of `decide` that need not be asked.
    """
    q = Fact(goal, frozenset(hypotheses)).question
    if len(q.nodes) > NODES or q.sized or q.wide or any(lo > hi for lo, hi in q.atoms.values()):
        return False, False
    facts = Facts(q.hypotheses)
    known = {0, *(x for e in q.nodes if e.op == "const" for x in (e.lo, -e.lo))}
    known.update(x for _, lo, hi in goal.ranges for x in (lo, hi))
    constants = np.array(sorted({x + d for x in known for d in (-1, 0, 1) if abs(x) < WIDE}), np.int64)
    columns: dict[Atom, Any] = {}
    for k, a in enumerate(q.atoms):
        low, high = _range(facts, a)
        at, kind = UNIFORM[k % len(UNIFORM)], KIND[(k + k // len(UNIFORM)) % len(KIND)]
        inside = np.minimum(low + (at * (high - low + 1.0)).astype(np.int64), high)
        near = np.minimum(np.maximum(constants[(at * len(constants)).astype(np.int64)], low), high)
        column = np.where(kind == 0, near, np.where(kind == 1, np.where(at < 0.5, low, high), inside))
        columns[a] = column.astype(np.bool_) if _is_bool(a) else column
    holds, reached = q.points(columns)
    return bool((holds & reached).any()), bool((holds & ~reached).any())


# ------------------------------------------------------------------------------------------------ intervals and guards


def _range(facts: Facts, a: Atom) -> Interval:
    """The range of an atom under the facts; floats have none."""
    return facts.interval(a) if isinstance(a, E) else facts.index(ix(a) if isinstance(a, Var) else index_.from_atom(a))


def _seen(goal: Goal) -> bool:
    """Whether each range is seen to hold for all sizes."""
    if goal.condition is not None or not any(i.sizes for i, _, _ in goal.ranges):
        return False
    return all(nonnegative(i - lo) and (hi >= END or nonnegative(hi - i)) for i, lo, hi in goal.ranges)


def _inside(goal: Goal, facts: Facts) -> bool:
    if goal.condition is not None and not goal.condition.lo == 1:
        return False
    for i, lo, hi in goal.ranges:
        least, most = facts.index(i)
        if least < lo or most > hi:
            return False
    return True


# ------------------------------------------------------------------------------------------------ what loads mean


def split(e: E, holds: bool) -> Iterator[Hypothesis]:  # noqa: FBT001 the polarity is half of the fact
    """The facts that together say that `e` holds, or does not."""
    while e.op == "not":
        e, holds = e.args[0], not holds
    if e.op == ("and" if holds else "or"):
        yield from split(e.args[0], holds)
        yield from split(e.args[1], holds)
    elif not (e.op == "const" and bool(e.lo) == holds):
        yield e, holds


def inline(goal: Goal, hypotheses: Sequence[Hypothesis]) -> tuple[Goal, tuple[Hypothesis, ...]] | None:
    """The question with loads of integer lets and requires replaced by what they mean.

    None where there are none, and where the wider range of what they mean would not fit the type of an index.
    """
    facts: dict[Hypothesis, None] = {}
    means: dict[tuple[T, tuple[Ix, ...], str], E] = {}  # the same load may stand in many lets

    def on_load(t: T, idx: tuple[Ix, ...], how: str) -> E | None:
        if t.kind not in ("let", "require") or t.dtype.is_float or t.body.has_fold:
            return None
        if (t, idx, how) not in means:
            means[t, idx, how] = meaning(t, idx, how)
        return means[t, idx, how]

    def meaning(t: T, idx: tuple[Ix, ...], how: str) -> E:
        env: dict[Any, Any] = dict(zip(axes(t.shape), idx, strict=True))
        body = substitute(t.body, env, on_load)
        inside = _in_domain(t, idx)
        if t.kind == "require" and how == "load":
            fact = substitute(t.cond, env, on_load)
            if t.dtype.is_integer:
                fact = fact & _within(body, t.lo, t.hi)
            # where the load is not selected it may lie outside, and there the require says nothing
            facts.update((f, None) for f in split(fact if is_const(inside, True) else ~inside | fact, True))
        return select(inside, body, 0)

    targets = [i for i, _, _ in goal.ranges]
    if any(i.lo < dt.i64.lo or i.hi > dt.i64.hi for i in targets):
        return None
    whole = tuple(index(i) for i in targets) + ((goal.condition,) if goal.condition is not None else ())
    conditions = tuple(e for e, _ in hypotheses)
    if not _reads_integers(whole + conditions):
        return None
    try:
        new = substitute_all(whole + conditions, {}, on_load)
    except UserError:
        return None
    ranges = tuple((as_index(v), lo, hi) for v, (_, lo, hi) in zip(new, goal.ranges, strict=False))
    condition = new[len(targets)] if goal.condition is not None else None
    rest = new[len(whole) :]
    hyps = [h for e, (_, holds) in zip(rest, hypotheses, strict=True) for h in split(e, holds)]
    return Goal(ranges, condition), (*hyps, *facts)


def _in_domain(t: T, idx: tuple[Ix, ...]) -> E:
    """Whether every index lies in its axis of `t` (constantly true where the intervals say so)."""
    inside = const(True, dt.bool_)
    for i, n in zip(idx, t.shape, strict=True):
        if not index_.within(i, n):
            within = op("le", const(0, dt.i64), index(i)) & op("lt", index(i), const(n, dt.i64))
            inside = within if is_const(inside, True) else inside & within
    return inside


def _within(e: E, lo: int, hi: int) -> E:
    low, high = op("le", const(lo, e.dtype), e), op("le", e, const(hi, e.dtype))
    return low & high


def _reads_integers(es: Sequence[E]) -> bool:
    return any(t.kind in ("let", "require") and not t.dtype.is_float for e in es for t in e.reads)


# ------------------------------------------------------------------------------------------------ questions


@dataclass
class Question:
    """Do the hypotheses imply the goal?"""

    goal: Goal
    hypotheses: Sequence[Hypothesis]
    nodes: list[E] = field(default_factory=list[E])  # arguments before users
    atoms: dict[Atom, Interval] = field(default_factory=dict[Any, Interval])

    def __post_init__(self) -> None:
        self._collect()
        if self.sized and (more := [c for a in self.atoms if isinstance(a, E) for c in ends_of(a)]):
            self.hypotheses = (*self.hypotheses, *((c, True) for c in more))
            self._collect()

    def _collect(self) -> None:
        """The nodes and the atoms that the question speaks of."""
        roots = [e for e, _ in self.hypotheses] + ([self.goal.condition] if self.goal.condition is not None else [])
        seen: dict[E, None] = {}
        todo = list(roots)
        for i, _, _ in self.goal.ranges:
            todo += self._of_index(i)
        while todo and len(seen) <= NODES:
            e = todo.pop()
            if e in seen:
                continue
            seen[e] = None
            if e.op == "idx":
                todo += self._of_index(e.attr)
            elif interpreted(e):
                todo += (expand(e),) if is_expanded(e) else e.args
            else:
                self.atoms[e] = e.lo, e.hi
                if e.op in LOADS:  # its indices are needed to compare it with other reads of the tensor
                    for i in e.attr[1]:
                        todo += self._of_index(i)
        self.nodes = _arguments_first(seen)

    def _of_index(self, i: Ix) -> list[E]:
        found: list[E] = []
        stack = [i]
        while stack:
            for a in (a for term, _ in stack.pop().terms for a in index_.factors(term)):
                if isinstance(a, Div | Quotient):
                    stack += (a.e, ix(a.c))
                elif isinstance(a, Val):
                    found.append(a.e)
                else:
                    if isinstance(a, Var) and isinstance(a.n, Ix) and a not in self.atoms:
                        stack.append(a.n)
                    self.atoms[a] = a.lo, a.hi
        return found

    @cached_property
    def sized(self) -> bool:
        """Whether it is asked for all sizes."""
        return any(isinstance(a, Size) for a in self.atoms)

    @cached_property
    def limits(self) -> tuple[tuple[Size, ...], ...]:
        """The products of sizes that are at most LIMIT."""
        whole = limits((*self._indices(), *self.ends)) if self.sized else {}
        return tuple(m for m in whole if all(s in self.atoms for s in m))  # type: ignore[return-value]

    @cached_property
    def ends(self) -> tuple[Ix, ...]:
        """What is >= 0 because variables lie in axes whose extents depend on sizes."""
        return tuple(a.n - 1 - ix(a) for a in self.atoms if isinstance(a, Var) and isinstance(a.n, Ix))

    @property
    def opaque(self) -> tuple[E, ...]:
        """Atoms that may not be able to take each value of their range: all but variables and elements of inputs."""
        return tuple(a for a in self.atoms if isinstance(a, E) and not (a.op == "load" and a.attr[0].kind == "input"))

    @cached_property
    def wide(self) -> bool:
        """Whether some value may not fit int64 comfortably."""
        if self.sized:
            return True
        bound = max((abs(x) for interval in self.atoms.values() for x in interval), default=0)
        for i in self._indices():
            bound = max(bound, magnitude(i))
        for e in self.nodes:
            if interpreted(e) and e.args and not is_expanded(e) and e.dtype.is_integer:
                bound = max(bound, *(abs(x) for x in unwrapped(e)), 1 << e.dtype.bits if wraps(e) else 0)
        return bound >= WIDE

    def _indices(self) -> Iterator[Ix]:
        yield from (i for i, _, _ in self.goal.ranges)
        for e in self.nodes:
            if e.op == "idx":
                yield e.attr
            elif e.op in LOADS:
                yield from e.attr[1]

    # -------------------------------------------------------------------------------------------- as terms

    def terms(self, algebra: Any, atoms: dict[Atom, Any]) -> tuple[Any, Any]:
        """(hypotheses, goal) as terms; the hypotheses include that equal reads of one tensor have equal values."""
        return self.read(Reading(algebra, atoms))

    def read(self, reading: Reading) -> tuple[Any, Any]:
        """`terms`, by this reading, which then knows the terms of the nodes."""
        algebra = reading.algebra
        reading.read(self.nodes)
        holds = algebra.boolean(True)
        for i in self.ends:
            holds = algebra.both(holds, algebra.le(algebra.integer(0), reading.index(i)))
        for e, positive in self.hypotheses:
            x = reading.known[e]
            holds = algebra.both(holds, x if positive else algebra.negate(x))
        for a, b in self._same_tensor():
            equal = algebra.boolean(True)
            for i, j in zip(a.attr[1], b.attr[1], strict=True):
                equal = algebra.both(equal, algebra.eq(reading.index(i), reading.index(j)))
            holds = algebra.both(holds, algebra.either(algebra.negate(equal), algebra.eq(reading.known[a], reading.known[b])))
        goal = algebra.boolean(True) if self.goal.condition is None else reading.known[self.goal.condition]
        for i, lo, hi in self.goal.ranges:
            x = reading.index(i)
            goal = algebra.both(goal, algebra.le(algebra.integer(lo), x))
            if hi < END:
                goal = algebra.both(goal, algebra.le(x, algebra.integer(hi)))
        return holds, goal

    def _same_tensor(self) -> list[tuple[E, E]]:
        reads: dict[tuple[T, str], list[E]] = {}
        for a in self.atoms:
            if isinstance(a, E) and a.op in LOADS:
                reads.setdefault((a.attr[0], a.op), []).append(a)
        pairs = [(a, b) for found in reads.values() for k, a in enumerate(found) for b in found[:k]]
        return pairs[:64]

    def points(self, columns: dict[Atom, Any]) -> tuple[Any, Any]:
        """Which points satisfy the hypotheses, and which the goal."""
        count = max((len(c) for c in columns.values()), default=1)
        with np.errstate(all="ignore"):
            holds, goal = self.terms(Numpy(self.wide), columns)
        return np.broadcast_to(holds, (count,)), np.broadcast_to(goal, (count,))

    def columns(self, values: dict[Atom, list[int]]) -> dict[Atom, Any]:
        kind: Any = object if self.wide else np.int64
        return {a: np.array(v, np.bool_ if _is_bool(a) else kind) for a, v in values.items()}

    # -------------------------------------------------------------------------------------------- steps

    @cached_property
    def sampled(self) -> tuple[bool, dict[Atom, int] | None]:
        """(some sample satisfies the hypotheses, a sample that refutes the goal)."""
        if self.sized:
            return self.judge(self.columns(draw(self.atoms, self.hypotheses, SIZED_SAMPLES)))
        rng = random.Random(0)
        bits = partial(rng.getrandbits, 64)
        ends = {0, *(x for _, lo, hi in self.goal.ranges for x in (lo, hi, -lo, -hi))}
        ends |= {x for e in self.nodes if e.op == "const" for x in (e.lo, -e.lo)}
        interesting = sorted({x + d for x in ends for d in (-1, 0, 1)})
        stated = Facts(self.hypotheses)
        values: dict[Atom, list[int]] = {}
        for a, (lo, hi) in self.atoms.items():
            if lo > hi:
                return False, None
            values[a] = []
            for low, high in ((lo, hi), _range(stated, a)):  # everywhere, and where the guards are likely to hold
                pool = [low, high, (low + high) // 2, min(low + 1, high), max(high - 1, low)]
                pool += [x for x in interesting if low <= x <= high]
                count = high - low + 1
                values[a] += rng.choices(pool, k=SAMPLES // 4) + [low + bits() % count for _ in range(SAMPLES // 4)]
        return self.judge(self.columns(values))

    def judge(self, columns: dict[Atom, Any]) -> tuple[bool, dict[Atom, int] | None]:
        holds, goal = self.points(columns)
        for m in self.limits:
            holds = holds & (math.prod(columns[s] for s in m) <= LIMIT)
        bad = np.flatnonzero(holds & ~goal)
        if not len(bad):
            return bool(holds.any()), None
        size = sum((abs(c[bad].astype(object)) for c in columns.values()), np.zeros(len(bad), object))
        best = bad[int(np.argmin(size))]  # the smallest counterexample reads best
        return True, {a: int(c[best]) for a, c in columns.items()}

    @property
    def size(self) -> int:
        """Number of points of the box of all atoms."""
        return math.prod(max(0, hi - lo + 1) for lo, hi in self.atoms.values())

    @cached_property
    def exhausted(self) -> tuple[bool, dict[Atom, int] | None]:
        """As `sampled`, on every point."""
        count = self.size
        columns: dict[Atom, Any] = {}
        flat = np.arange(count, dtype=np.int64)
        for a, (lo, hi) in self.atoms.items():
            n = hi - lo + 1
            column = flat % n + lo
            columns[a] = column.astype(np.bool_) if _is_bool(a) else column.astype(object) if self.wide else column
            flat = flat // n
        return self.judge(columns)

    def satisfiable(self, rlimit: int | None = None) -> bool:
        """Whether some point satisfies the hypotheses (True where that could not be decided)."""
        if len(self.nodes) > NODES:
            return True
        if self.sampled[0]:
            return True
        if self.size <= FEW:
            return self.exhausted[0]
        return rlimit == 0 or ask_z3(Z3(), self, rlimit, simple=True, negated_goal=False)[0] != "unsat"

    def decide(self, rlimit: int | None = None) -> Answer:
        if len(self.nodes) > NODES:
            return Answer("unknown", f"not asked: {len(self.nodes)} operations", opaque=self.opaque)
        satisfiable, point = self.sampled
        if point is not None:
            return self._against("samples", point)
        if self.sized and self._by_products():
            vacuous = not satisfiable and products.refutes(products.System(tuple(self.hypotheses), self.ends))
            return Answer("proved", "unreachable" if vacuous else "sums of products", unreachable=vacuous)
        if self.size <= FEW:
            return self._complete()
        for name, algebra, simple in PORTFOLIO if rlimit != 0 else ():
            outcome, point = ask_z3(algebra(), self, rlimit, simple=simple, negated_goal=True)
            if outcome == "unsat":
                vacuous = not satisfiable and not self.satisfiable(rlimit)
                return Answer("proved", "unreachable" if vacuous else name, unreachable=vacuous)
            if outcome == "sat" and point is not None:
                return self._against(name, point)
        if self.size <= BOX:
            return self._complete()
        return Answer("unknown", f"undecided within {RLIMIT if rlimit is None else rlimit} z3 resource units", opaque=self.opaque)

    def _by_products(self) -> bool:
        """Whether each part of the goal is refuted to fail by sums of products."""
        negated = [products.System(tuple(self.hypotheses), (*self.ends, fails)) for i, lo, hi in self.goal.ranges
                   for fails in (lo - 1 - i, i - hi - 1)]  # fmt: skip
        if self.goal.condition is not None:
            negated.append(products.System((*self.hypotheses, (self.goal.condition, False)), self.ends))
        return all(map(products.refutes, negated))

    def _complete(self) -> Answer:
        satisfiable, point = self.exhausted
        if point is not None:
            return self._against(f"all {self.size} points", point)
        if not satisfiable:
            return Answer("proved", "unreachable", unreachable=True)
        return Answer("proved", f"all {self.size} points")

    def _against(self, how: str, point: dict[Atom, int]) -> Answer:
        return Answer("unknown" if self.opaque else "refuted", how, point, self.opaque)


def _arguments_first(nodes: dict[E, None]) -> list[E]:
    """The nodes, arguments before users.  Creation order does not do: a named row's expansion is made after its node."""
    found: dict[E, None] = {}
    todo = [(e, False) for e in sorted(nodes, key=lambda e: -e.id)]
    while todo:
        e, done = todo.pop()
        if done:
            found[e] = None
        elif e not in found:
            todo.append((e, True))
            todo.extend((d, False) for d in ((*e.deps, expand(e)) if is_expanded(e) else e.deps) if d in nodes and d not in found)
    return list(found)


def _is_bool(a: Atom) -> bool:
    return isinstance(a, E) and a.dtype is dt.bool_


def magnitude(i: Ix) -> int:
    """A bound on every partial sum of `i` and of the dividends in it."""
    total = abs(i.c)
    for a, k in i.terms:
        total += abs(k) * max(abs(a.lo), abs(a.hi))
    for d in index_.divisions(i):
        total = max(total, magnitude(d.e))
    return total


def ask_z3(algebra: Z3, q: Question, rlimit: int | None = None, *, simple: bool,
           negated_goal: bool) -> tuple[str, dict[Atom, int] | None]:  # fmt: skip
    """z3's answer to: can the hypotheses hold (and the goal fail)?  With the point, checked by evaluation, if so."""
    z3 = algebra.z3
    solver: Any = z3.SimpleSolver(ctx=algebra.context) if simple else z3.Solver(ctx=algebra.context)
    solver.set("rlimit", RLIMIT if rlimit is None else rlimit)
    solver.set("smt.random_seed", SEED)
    atoms: dict[Atom, Any] = {}
    for number, (a, (lo, hi)) in enumerate(q.atoms.items()):
        v = atoms[a] = algebra.variable(f"a{number}", boolean=_is_bool(a))
        if not _is_bool(a):
            solver.add(v >= lo, v <= hi)
    holds, goal = q.terms(algebra, atoms)
    solver.add(holds, *algebra.side)
    if negated_goal:
        solver.add(algebra.negate(goal))
    outcome = str(solver.check())
    if outcome != "sat":
        return outcome, None
    model = solver.model()
    point: dict[Atom, int] = {}
    for a, v in atoms.items():
        x = model.eval(v, model_completion=True)
        point[a] = int(z3.is_true(x)) if _is_bool(a) else x.as_long()
    if negated_goal:
        _, refutes = q.judge(q.columns({a: [x] for a, x in point.items()}))
        if refutes is None:
            return "unknown", None
    return outcome, point


def value_at(i: Ix, point: dict[Atom, int]) -> int | None:
    """The index at a point; None where it depends on what the point does not say."""
    deeper = inline(Goal(((i, 0, 0),)), ())
    q = Question(deeper[0] if deeper else Goal(((i, 0, 0),)), ())
    if not q.atoms.keys() <= point.keys():
        return None
    reading = Reading(Numpy(True), {a: np.array(x, np.bool_ if _is_bool(a) else object) for a, x in point.items()})
    reading.read(q.nodes)
    return int(reading.index(q.goal.ranges[0][0]))
