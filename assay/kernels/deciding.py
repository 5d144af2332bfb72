"""Do the hypotheses imply the goal, for all values of the leaves?

In this order: intervals (conditions that they decide are constants already), elimination of variables, samples (sizes first,
then programs, lanes and iterations within their bounds), and the portfolio of verify/integers.py: few points exhaustively,
else z3 under a resource limit. A refutation is a point that was evaluated.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np

from assay.kernels.eliminate import Budget, Facts
from assay.kernels.terms import FALSE, TRUE, Cond, Leaf, Op, Poly, all_of, conjuncts, walk
from assay.verify.integers import WIDE, Answer, Question
from assay.verify.terms import Numpy

SAMPLES = 512
QUICK, THOROUGH = 60, 300  # goals that elimination expands, before and after samples were tried


class Points(Numpy):
    """Numpy arrays of points; a division by what is not positive has any value, since no question depends on it."""

    def floordiv(self, a: Any, b: Any) -> Any:
        return a // np.where(b > 0, b, 1)

    def mod(self, a: Any, b: Any) -> Any:
        return a % np.where(b > 0, b, 1)

    def bits(self, name: str, a: Any, b: Any) -> Any:
        return {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[name](a, b)


class TermReading:
    """Polynomials and conditions as terms of an algebra, given those of the leaves."""

    def __init__(self, algebra: Any, leaves: dict[Leaf, Any]) -> None:
        self.algebra = algebra
        self.known: dict[Any, Any] = dict(leaves)

    def poly(self, p: Poly) -> Any:
        found = self.known.get(p)
        if found is None:
            found = self.algebra.integer(0)
            for m, k in p.terms:
                product = self.algebra.integer(k)
                for a in m:
                    product = product * self.atom(a)
                found = found + product
            self.known[p] = found
        return found

    def atom(self, a: Any) -> Any:
        found = self.known.get(a)
        if found is None:
            found = self.known[a] = self._operation(a)
        return found

    def _operation(self, a: Op) -> Any:
        algebra = self.algebra
        args = [self.cond(x) if isinstance(x, Cond) else self.poly(x) for x in a.args]
        if a.name == "div":
            return algebra.floordiv(*args)
        if a.name == "mod":
            return algebra.mod(*args)
        if a.name == "select":
            return algebra.select(*args)
        if a.name == "min":
            return algebra.select(algebra.le(*args), *args)
        if a.name == "max":
            return algebra.select(algebra.le(*args), args[1], args[0])
        if isinstance(algebra, Points):
            return algebra.bits(a.name, *args)
        v = algebra.variable(f"{a.name}{a.number}", boolean=False)  # z3 knows its range only; a model is evaluated anyway
        algebra.side += [v >= a.lo, v <= a.hi]
        return v

    def cond(self, c: Cond) -> Any:
        found = self.known.get(c)
        if found is None:
            found = self.known[c] = self._condition(c)
        return found

    def _condition(self, c: Cond) -> Any:
        algebra = self.algebra
        if c.kind in ("true", "false"):
            return algebra.boolean(c is TRUE)
        if c.kind == "ge":
            return algebra.le(algebra.integer(0), self.poly(c.args[0]))
        if c.kind == "eq":
            return algebra.eq(self.poly(c.args[0]), algebra.integer(0))
        if c.kind == "not":
            return algebra.negate(self.cond(c.args[0]))
        found = self.cond(c.args[0])
        for x in c.args[1:]:
            found = (algebra.both if c.kind == "and" else algebra.either)(found, self.cond(x))
        return found


class KernelQuestion(Question):
    """A question of verify/integers.py about terms of a kernel."""

    def __init__(self, goal: Cond, hypotheses: tuple[Cond, ...]) -> None:
        self.wanted, self.given = goal, hypotheses
        self.order = walk((*hypotheses, goal))
        self.leaves = [a for a in self.order if isinstance(a, Leaf)]
        self.atoms = {a: (a.lo, a.hi) for a in self.leaves}  # type: ignore[misc]
        self.nodes = list(self.order)  # type: ignore[assignment]
        self.hypotheses = ()

    @property
    def opaque(self) -> Any:
        return tuple(a for a in self.leaves if a.kind == "unknown")

    @cached_property
    def wide(self) -> bool:
        ends = [x for a in self.order for x in (a.lo, a.hi)]
        for p in self._polys():
            ends += [sum(abs(k) * _magnitude(m) for m, k in p.terms)]
        return any(abs(x) >= WIDE for x in ends)

    def _polys(self) -> Iterable[Poly]:
        for a in self.order:
            inner = a.args if isinstance(a, Op) else (*a.arguments, a.lower, a.upper)
            for x in inner:
                if isinstance(x, Poly):
                    yield x
                elif isinstance(x, Cond):
                    yield from _polys_of(x)
        for c in (*self.given, self.wanted):
            yield from _polys_of(c)

    def terms(self, algebra: Any, atoms: Any) -> tuple[Any, Any]:
        if isinstance(algebra, Numpy):
            algebra = Points(self.wide)
        reading = TermReading(algebra, atoms)
        holds = algebra.boolean(True)
        for a in self.leaves:
            x = reading.known[a]
            if a.lower is not None:
                holds = algebra.both(holds, algebra.le(reading.poly(a.lower), x))
            if a.upper is not None:
                holds = algebra.both(holds, algebra.le(x, reading.poly(a.upper)))
        for a, b in self._functions():
            same = algebra.boolean(True)
            for p, q in zip(a.arguments, b.arguments, strict=True):
                same = algebra.both(same, algebra.eq(reading.poly(p), reading.poly(q)))
            holds = algebra.both(holds, algebra.either(algebra.negate(same), algebra.eq(reading.known[a], reading.known[b])))
        for h in self.given:
            holds = algebra.both(holds, reading.cond(h))
        return holds, reading.cond(self.wanted)

    def _functions(self) -> list[tuple[Leaf, Leaf]]:
        """Pairs of values of one function at different arguments."""
        found: dict[tuple[str, str], list[Leaf]] = {}
        for a in self.leaves:
            if a.arguments:
                found.setdefault((a.name, a.kind), []).append(a)
        return [(a, b) for same in found.values() for k, a in enumerate(same) for b in same[:k]][:64]

    @cached_property
    def sampled(self) -> Any:
        return self.judge(self.drawn(np.random.default_rng(0)))

    def drawn(self, rng: np.random.Generator, count: int = SAMPLES) -> dict[Any, Any]:
        """Columns of leaves, each within its bounds, in the order in which the bounds refer to each other."""
        near = {abs(p.offset) + d for p in self._polys() for d in (-1, 0, 1)} | {0, 1, 2, 3}
        interesting = np.array(sorted(x for x in near if x < WIDE), np.int64)
        columns: dict[Any, Any] = {}
        reading = TermReading(Points(self.wide), columns)
        reading.known = columns
        for a in self.order:
            if isinstance(a, Leaf):
                lo, hi = (
                    np.broadcast_to(np.asarray(end if bound is None else reading.poly(bound)), (count,))
                    for end, bound in ((a.lo, a.lower), (a.hi, a.upper))
                )
                low, high = np.maximum(lo, max(a.lo, -WIDE)), np.minimum(hi, min(a.hi, WIDE))
                columns[a] = _draw(rng, low.astype(np.int64), high.astype(np.int64), interesting).astype(
                    object if self.wide else np.int64
                )
        return {a: c for a, c in columns.items() if isinstance(a, Leaf)}


def _draw(rng: np.random.Generator, lo: Any, hi: Any, interesting: Any) -> Any:
    """One integer in lo..hi for each pair: an end, near one, near a constant of the question, of any order of magnitude, any."""
    count = len(lo)
    room = np.maximum(hi - lo, 0)
    magnitude = (2.0 ** (rng.random(count) * np.log2(room.astype(np.float64) + 1)) - 1).astype(np.int64)
    ways = (
        lo,
        hi,
        rng.choice(interesting, count),
        lo + rng.integers(0, 4, count),
        lo + magnitude,
        lo + (rng.random(count) * (room + 1)).astype(np.int64),
    )
    return np.maximum(np.minimum(np.choose(rng.integers(0, len(ways), count), ways), hi), lo)


def _magnitude(m: tuple[Any, ...]) -> int:
    found = 1
    for a in m:
        found *= max(abs(a.lo), abs(a.hi))
    return found


def _polys_of(c: Cond) -> Iterable[Poly]:
    for x in c.args:
        if isinstance(x, Poly):
            yield x
        else:
            yield from _polys_of(x)


_quick: dict[tuple[Cond, frozenset[Cond]], Answer | None] = {}
_answers: dict[tuple[Cond, frozenset[Cond]], Answer] = {}


def decide_quickly(goal: Cond, hypotheses: Iterable[Cond] = ()) -> Answer | None:
    """`decide` by intervals, a short elimination and samples; None where these leave it open."""
    given = _split(hypotheses)
    key = goal, frozenset(given)
    if key not in _quick:
        _quick[key] = _decide_quickly(goal, given)
    return _quick[key]


def decide(goal: Cond, hypotheses: Iterable[Cond] = ()) -> Answer:
    """Whether `goal` holds wherever the hypotheses do."""
    given = _split(hypotheses)
    quick = decide_quickly(goal, given)
    if quick is not None:
        return quick
    key = goal, frozenset(given)
    found = _answers.get(key)
    if found is None:
        found = _answers[key] = _eliminated(goal, given, Budget(THOROUGH)) or KernelQuestion(goal, given).decide()
    return found


def _split(hypotheses: Iterable[Cond]) -> tuple[Cond, ...]:
    return tuple(dict.fromkeys(x for h in hypotheses for x in conjuncts(h)))


def _decide_quickly(goal: Cond, given: tuple[Cond, ...]) -> Answer | None:
    if FALSE in given or all_of(given) is FALSE:
        return Answer("proved", "unreachable", unreachable=True)
    if goal is TRUE or goal in given:
        return Answer("proved", "intervals" if goal is TRUE else "its guard")
    found = _eliminated(goal, given, Budget(QUICK))
    if found is not None:
        return found
    question = KernelQuestion(goal, given)
    _, point = question.sampled
    return None if point is None else Answer("unknown" if question.opaque else "refuted", "samples", point, question.opaque)


def _eliminated(goal: Cond, given: tuple[Cond, ...], budget: Budget) -> Answer | None:
    if not _proved(goal, given, budget):
        return None
    question = KernelQuestion(FALSE, given)
    unreachable = not question.sampled[0] and not question.satisfiable()
    return Answer("proved", "unreachable" if unreachable else "elimination", unreachable=unreachable)


def _proved(goal: Cond, given: tuple[Cond, ...], budget: Budget) -> bool:
    facts: Facts | None = None
    for c in conjuncts(goal):
        if c.kind not in ("ge", "eq"):
            return False
        facts = facts or Facts(given, (goal,), budget)
        p = c.args[0]
        if not facts.proves(p) or (c.kind == "eq" and not facts.proves(-p)):
            return False
    return True


def satisfiable(given: Iterable[Cond]) -> bool:
    """Whether some values of the leaves satisfy the conditions (True where that could not be decided)."""
    conds = tuple(x for h in given for x in conjuncts(h))
    return FALSE not in conds and KernelQuestion(FALSE, conds).satisfiable()


def implied(goal: Cond, given: Iterable[Cond]) -> bool:
    """Whether the goal was proved."""
    return decide(goal, given).status == "proved"
