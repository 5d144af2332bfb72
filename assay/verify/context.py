"""What is known on a path: conditions with their truth values, and what follows from them about indices.

The steps are those of verify/integers.py, from cheap to dear; intervals under the conditions come first (semantics/ranges.py).
A question is asked under the hypotheses that have something to do with it (`about`), so that many contexts share its answer:
what follows from some of them follows from all.  That the others contradict each other is a question of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

from assay.core import dtypes as dt
from assay.core.index import Ix, Var, is_symbolic, values
from assay.core.lang import LOADS, E, T, const, const_bits, expand, let, order
from assay.core.lang.expressions import NO_VARS, union
from assay.semantics.denote import evaluate
from assay.semantics.ranges import Facts
from assay.verify.integers import END, Goal, Hypothesis, decide, seen, split
from assay.verify.skeleton import inputs
from assay.verify.terms import interpreted, is_expanded

FALSE = const(False, dt.bool_)
ELEMENTS = 1 << 14  # of tensors that are computed to see whether they are constant
_atoms: dict[E, frozenset[Any]] = {}
_constants: dict[T, E | None] = {}


def atoms(e: E) -> frozenset[Any]:
    """What the value of an integer or a bool depends on: variables, values without structure (verify/integers.py), and the names
    of the inputs that it is read from."""
    todo = [e]
    while todo:
        x = todo[-1]
        below = _below(x)
        missing = [d for d in below if d not in _atoms]
        if missing:
            todo += missing
            continue
        todo.pop()
        own = x.attr.free if x.op == "idx" else _of_leaf(x)
        _atoms[x] = own.union(*(_atoms[d] for d in below))
    return _atoms[e]


def atoms_of_index(i: Ix) -> frozenset[Any]:
    """As `atoms`."""
    return i.free.union(*(atoms(v.e) for v in values(i)))


def is_constant(e: E) -> bool:
    """Whether the value is the same everywhere, and quickly computed."""
    return not e.free and not e.reads and not e.has_fold and not e.sized


def constant_of(t: T) -> E | None:
    """The value of every element, where no input is read and all elements have the same bits."""
    if t not in _constants:
        parts = order((t,))
        plain = all(p.kind == "let" and not p.body.has_fold and not p.body.sized and not any(map(is_symbolic, p.shape)) and p.size
                    for p in parts)  # fmt: skip
        _constants[t] = _one_value(t) if plain and sum(p.size for p in parts) <= ELEMENTS else None
    return _constants[t]


def _one_value(t: T) -> E | None:
    data, width = evaluate((t,), {})[0].tobytes(), t.dtype.bits // 8 or 1
    if data != data[:width] * t.size:
        return None
    return const(bool(data[0]), t.dtype) if t.dtype is dt.bool_ else const_bits(int.from_bytes(data[:width], "little"), t.dtype)


def _below(e: E) -> tuple[E, ...]:
    if e.op == "idx":
        return tuple(v.e for v in values(e.attr))
    if e.op in LOADS and not e.dtype.is_float:
        return tuple(v.e for i in e.attr[1] for v in values(i))
    return (expand(e),) if is_expanded(e) else e.args if interpreted(e) else ()


def _of_leaf(e: E) -> frozenset[Any]:
    if interpreted(e):
        return frozenset()
    return e.free | inputs(e.attr[0]) | {e} if e.op in LOADS else frozenset((e,))


class Context:
    """The conjunction of `hypotheses`.  Contexts of one tree are interned: equal sets are the same object.

    `rlimit` bounds each question to z3 (None: RLIMIT of integers.py); 0: none is asked.
    """

    def __init__(self, hypotheses: frozenset[Hypothesis] = frozenset(), *, rlimit: int | None = None,
                 known: dict[frozenset[Hypothesis], Context] | None = None) -> None:  # fmt: skip
        self.hypotheses, self.rlimit = hypotheses, rlimit
        self._known: dict[frozenset[Hypothesis], Context] = {} if known is None else known
        self._known.setdefault(hypotheses, self)
        self._children: dict[Hypothesis, Context] = {}
        self._truth: dict[E, bool | None] = {}
        self._within: dict[tuple[Ix, int, int], bool] = {}

    @cached_property
    def free(self) -> frozenset[Var]:
        """The variables that the hypotheses speak of."""
        return union([e.free for e, _ in self.hypotheses], NO_VARS)

    @cached_property
    def facts(self) -> Facts:
        """The bounds that the hypotheses state."""
        return Facts(self.hypotheses)

    def given(self, condition: E, *, holds: bool) -> Context:
        """This, and `condition` has this truth value."""
        found = self._children.get((condition, holds))
        if found is None:
            found = self._children[condition, holds] = self.all_of(split(condition, holds))
        return found

    def all_of(self, more: Iterable[Hypothesis]) -> Context:
        """This and these."""
        return self._of(self.hypotheses.union(more))

    def without(self, v: Var) -> Context:
        """This without the hypotheses that speak of `v`."""
        if v not in self.free:
            return self
        return self._of(frozenset(h for h in self.hypotheses if v not in h[0].free))

    # -------------------------------------------------------------------------------------------- what follows

    def about(self, known: frozenset[Any]) -> Context:
        """The hypotheses that have something to do with these atoms, directly or by way of one another."""
        left = [h for h in self.hypotheses if not h[0].sized]  # sizes are bounded by what speaks of others
        taken = [h for h in self.hypotheses if h[0].sized]
        for h in taken:
            known |= atoms(h[0])
        while near := [h for h in left if not known.isdisjoint(atoms(h[0]))]:
            taken += near
            left = [h for h in left if h not in near]
            known = known.union(*(atoms(e) for e, _ in near))
        return self if not left else self._of(frozenset(taken))

    def _of(self, hypotheses: frozenset[Hypothesis]) -> Context:
        found = self._known.get(hypotheses)
        return Context(hypotheses, rlimit=self.rlimit, known=self._known) if found is None else found

    def truth(self, condition: E) -> bool | None:
        """Whether `condition` holds, or does not, at every point of the context; None where neither is proved."""
        if condition.lo == condition.hi:
            return bool(condition.lo)
        if condition not in self._truth:
            about = self.about(atoms(condition)) if self.hypotheses else self
            self._truth[condition] = self._decided(condition) if about is self else about.truth(condition)
        return self._truth[condition]

    def _decided(self, condition: E) -> bool | None:
        if is_constant(condition):
            return bool(evaluate((let((), condition),), {})[0])
        if self.hypotheses:
            lo, hi = self.facts.interval(condition)
            if lo == hi:
                return bool(lo)
        if not interpreted(condition):
            return None
        holds, fails = seen(Goal(condition=condition), self.hypotheses)
        if not fails and decide(Goal(condition=condition), self.hypotheses, rlimit=self.rlimit).status == "proved":
            return True
        if not holds and decide(Goal(condition=~condition), self.hypotheses, rlimit=self.rlimit).status == "proved":
            return False
        return None

    def within(self, i: Ix, lo: int, hi: int) -> bool:
        """Whether lo <= i <= hi is proved."""
        if is_symbolic(hi):
            goal = Goal(((i, lo, END), (hi - i, 0, END)))
            return decide(goal, self.hypotheses, rlimit=self.rlimit).status == "proved"
        if lo <= i.lo and i.hi <= hi:
            return True
        if self.hypotheses and (about := self.about(atoms_of_index(i))) is not self:
            return about.within(i, lo, hi)
        if self.hypotheses:
            least, most = self.facts.index(i)
            if lo <= least and most <= hi:
                return True
            if least > hi or most < lo:
                return self.is_unreachable()
        key = i, lo, hi
        if key not in self._within:
            goal = Goal((key,))
            outside = seen(goal, self.hypotheses)[1]
            self._within[key] = not outside and decide(goal, self.hypotheses, rlimit=self.rlimit).status == "proved"
        return self._within[key]

    def is_zero(self, i: Ix) -> bool:
        """Whether i = 0 is proved."""
        if not i.terms:
            return i.c == 0 or self.is_unreachable()
        if i.lo > 0 or i.hi < 0:
            return self.is_unreachable()
        return self.within(i, 0, 0)

    def is_unreachable(self) -> bool:
        """Whether the hypotheses are proved to contradict each other: some of them, that speak of the same things."""
        return any(c.facts.contradictory or c._contradictory for c in self._parts)

    @cached_property
    def _parts(self) -> list[Context]:
        """Contexts that have nothing to do with each other, of all hypotheses."""
        found: list[Context] = []
        left = sorted(self.hypotheses, key=lambda h: h[0].id)
        while left:
            part = self.about(atoms(left[0][0]))
            found.append(self._of(part.hypotheses | {left[0]}))  # what has no atoms has to do with nothing
            left = [h for h in left[1:] if h not in part.hypotheses]
        return found

    @cached_property
    def _contradictory(self) -> bool:
        never = Goal(condition=FALSE)
        reached = seen(never, self.hypotheses)[1]
        return not reached and decide(never, self.hypotheses, rlimit=self.rlimit).status == "proved"
