"""What is known on a path: conditions with their truth values, and what follows from them about indices.

The steps are those of verify/integers.py, from cheap to dear; intervals under the conditions come first (semantics/ranges.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from assay.core import dtypes as dt
from assay.core.index import Ix, Var, is_symbolic
from assay.core.lang import E, const
from assay.core.lang.expressions import NO_VARS, union
from assay.semantics.ranges import Facts
from assay.verify.integers import END, Goal, Hypothesis, decide, seen, split
from assay.verify.terms import interpreted

FALSE = const(False, dt.bool_)


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
        every = self.hypotheses.union(more)
        found = self._known.get(every)
        return Context(every, rlimit=self.rlimit, known=self._known) if found is None else found

    def without(self, v: Var) -> Context:
        """This without the hypotheses that speak of `v`."""
        if v not in self.free:
            return self
        kept = frozenset(h for h in self.hypotheses if v not in h[0].free)
        found = self._known.get(kept)
        return Context(kept, rlimit=self.rlimit, known=self._known) if found is None else found

    # -------------------------------------------------------------------------------------------- what follows

    def truth(self, condition: E) -> bool | None:
        """Whether `condition` holds, or does not, at every point of the context; None where neither is proved."""
        if condition.lo == condition.hi:
            return bool(condition.lo)
        if condition not in self._truth:
            self._truth[condition] = self._decided(condition)
        return self._truth[condition]

    def _decided(self, condition: E) -> bool | None:
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
        """Whether the hypotheses are proved to contradict each other."""
        return bool(self.hypotheses) and (self.facts.contradictory or self._contradictory)

    @cached_property
    def _contradictory(self) -> bool:
        never = Goal(condition=FALSE)
        reached = seen(never, self.hypotheses)[1]
        return not reached and decide(never, self.hypotheses, rlimit=self.rlimit).status == "proved"
