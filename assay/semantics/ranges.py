"""Intervals of integer expressions (definition 6.4), also under conditions that are known to hold on a path.

Every node carries the interval of its values over all points (lo, hi of core/lang).  Here it is narrowed by facts:

    Facts([(i < 5, True), (j <= i, True)]).index(3 * i + j)      0 <= i, j < 8:  [0, 16] instead of [0, 28]

Proposition 6.4 (soundness): at every point at which the facts hold, the value lies in the interval.  Intervals are of the
values as stored: where an operation may wrap, the interval is that of its type.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TypeAlias

from assay.core import index as index_
from assay.core.index import Atom, Div, Ix, Val, Var, ix, variable
from assay.core.lang import E, as_index
from assay.core.row import TABLE, Interval

Fact: TypeAlias = "tuple[E, bool]"

ROUNDS = 3
"""How often the comparisons are read: a bound that one of them gives may narrow another."""

NESTED = 4
"""How many selects deep their own conditions are added to the facts (the work doubles with each)."""

ARMS = 16
"""How many selects in all have their own conditions added, for one set of facts: conditions may be selects themselves."""

OPPOSITE = {"lt": "ge", "le": "gt", "eq": "ne", "ne": "eq"}


def interval(e: E, facts: Iterable[Fact] = ()) -> Interval:
    """[lo, hi] with lo <= e <= hi at every point at which every condition has its truth value."""
    return Facts(facts).interval(e)


class Facts:
    """Conditions that hold (or do not), read as bounds of the atoms of index expressions and of whole sums.

    They speak of the variables as the expressions that are asked about do; nothing is said inside a fold.
    `contradictory` when they are seen to exclude each other; then every interval is right.
    """

    def __init__(self, facts: Iterable[Fact] = (), *, outer: Facts | None = None) -> None:
        self.conditions: dict[E, bool] = dict(outer.conditions) if outer else {}
        self.contradictory = outer is not None and outer.contradictory
        self._atoms: dict[Atom, Interval] = dict(outer._atoms) if outer else {}
        self._values: dict[E, Interval] = dict(outer._values) if outer else {}
        self._sums: dict[index_.Terms, Interval] = dict(outer._sums) if outer else {}
        self._memo: dict[E, Interval] = {}
        self.depth = outer.depth + 1 if outer else 0
        self._arms: list[int] = outer._arms if outer else [ARMS]  # left, for all that are nested in one another
        self._under: dict[E, tuple[Facts, Facts]] = {}
        self._narrowed = True
        known = set(self.conditions)
        for e, holds in facts:
            self._state(e, holds=holds)
        comparisons = [(e, holds) for e, holds in self.conditions.items()
                       if e not in known and e.op in OPPOSITE and e.args[0].dtype.is_integer]  # fmt: skip
        for _ in range(ROUNDS if comparisons else 0):
            if not self._narrowed or self.contradictory:
                break
            self._narrowed = False
            for e, holds in comparisons:
                self._compare(e.op if holds else OPPOSITE[e.op], as_index(e.args[0]), as_index(e.args[1]))

    def _state(self, e: E, *, holds: bool) -> None:
        """`e` has this truth value, and so have the conditions that it is made of."""
        if not e.lo <= int(holds) <= e.hi or self.conditions.get(e, holds) is not holds:
            self.contradictory = True
        self.conditions[e] = holds
        if e.op == "not":
            self._state(e.args[0], holds=not holds)
        elif e.op == ("and" if holds else "or"):
            for a in e.args:
                self._state(a, holds=holds)

    def _compare(self, kind: str, a: Ix, b: Ix) -> None:
        """a `kind` b: the bounds of a - b, and what they say of each of its atoms."""
        d = a - b
        lo, hi = self.index(d)
        if kind in ("lt", "le", "eq"):
            hi = min(hi, -1 if kind == "lt" else 0)
        if kind in ("gt", "ge", "eq"):
            lo = max(lo, 1 if kind == "gt" else 0)
        if kind == "ne":
            lo, hi = lo + (lo == 0), hi - (hi == 0)
        self._between(d, lo, hi)

    def _between(self, d: Ix, lo: int, hi: int) -> None:
        """lo <= d <= hi: kept for the sum, and for each of its atoms as far as the others allow."""
        if lo > hi:
            self.contradictory = True
        if self.contradictory or not d.terms:
            return
        terms, factor = direction(d)
        new = _quotients(lo - d.c, hi - d.c, factor)
        old = self._sums.get(terms)
        if old is not None:
            new = max(old[0], new[0]), min(old[1], new[1])
        if new != old:
            self._sums[terms] = new
            self._forget()
        for atom, k in d.terms:
            rest = self.index(d - k * _index(atom))
            self._narrow(atom, *_quotients(lo - rest[1], hi - rest[0], k))

    def _narrow(self, atom: Atom, lo: int, hi: int) -> None:
        old = self._of(atom)
        new = max(old[0], lo), min(old[1], hi)
        if new[0] > new[1]:
            self.contradictory = True
        elif new != old:
            self._atoms[atom] = new
            self._forget()
            if isinstance(atom, Val):
                self._values[atom.e] = new
            elif isinstance(atom, Div):
                self._between(atom.e, new[0] * atom.c, new[1] * atom.c + atom.c - 1)

    def _forget(self) -> None:
        """What was found of expressions may be narrower now."""
        self._memo.clear()
        self._narrowed = True

    # -------------------------------------------------------------------------------------------- readings

    def _of(self, atom: Atom) -> Interval:
        found = self._atoms.get(atom)
        if found is not None:
            return found
        if isinstance(atom, Val):
            return self._by_nodes(atom.e)
        if isinstance(atom, Div):
            lo, hi = self.index(atom.e)
            return lo // atom.c, hi // atom.c
        return atom.lo, atom.hi

    def index(self, i: Ix) -> Interval:
        """The interval of an index expression."""
        if not i.terms or self.contradictory:
            return i.lo, i.hi
        lo = hi = i.c
        for atom, k in i.terms:
            ends = self._of(atom)
            lo, hi = lo + k * ends[k < 0], hi + k * ends[k > 0]
        lo, hi = max(lo, i.lo), min(hi, i.hi)
        if self._sums:
            terms, factor = direction(i)
            known = self._sums.get(terms)
            if known is not None:
                ends = i.c + factor * known[0], i.c + factor * known[1]
                lo, hi = max(lo, min(ends)), min(hi, max(ends))
        if any(True for _ in index_.divisions(i)) and any(isinstance(a, Var) for a in self._atoms):
            again = index_.rewrite(i, self._shifted)
            lo, hi = max(lo, again.lo), min(hi, again.hi)
        return (lo, hi) if lo <= hi else (i.lo, i.hi)

    def _shifted(self, atom: Var | Val) -> Ix:
        """A variable in [lo, hi] as lo + a variable of that many values: remainders and quotients simplify again."""
        if isinstance(atom, Val) or atom not in self._atoms:
            return _index(atom)
        lo, hi = self._atoms[atom]
        return ix(variable(atom.level, hi - lo + 1)) + lo

    def interval(self, e: E) -> Interval:
        """The interval of an integer or bool expression.  Floats have none: (0, 0)."""
        if self.contradictory or e.dtype.is_float:
            return e.lo, e.hi
        lo, hi = self._by_nodes(e)
        if e.dtype.is_integer and self._sums:
            ends = self.index(as_index(e))
            lo, hi = max(lo, ends[0]), min(hi, ends[1])
        return (lo, hi) if lo <= hi else (e.lo, e.hi)

    def _by_nodes(self, e: E) -> Interval:
        """The interval of `e` from those of its arguments, node by node."""
        for x in self._pending(e):
            lo, hi = self._interval(x)
            lo, hi = max(lo, x.lo), min(hi, x.hi)
            self._memo[x] = (lo, hi) if lo <= hi else (x.lo, x.hi)
        return self._memo[e]

    def _pending(self, e: E) -> list[E]:
        """The nodes whose intervals `e` takes, without those that are known, arguments first."""
        seen: set[E] = set()
        stack = [e] if e not in self._memo else []
        while stack:
            x = stack.pop()
            if x not in seen:
                seen.add(x)
                below = x.args[:1] if x.op == "select" else () if x.op == "fold" else x.deps
                stack.extend(d for d in below if d not in self._memo and d not in seen)
        return sorted(seen, key=lambda x: x.id)

    def _interval(self, e: E) -> Interval:
        holds = self.conditions.get(e)
        if holds is not None:
            return int(holds), int(holds)
        if e.op == "idx":
            return self.index(e.attr)
        if e.op == "select":
            return self._select(e)
        if e.op == "convert":
            source = e.args[0]
            lo, hi = self._by_nodes(source)
            fits = not source.dtype.is_float and e.dtype.lo <= lo and hi <= e.dtype.hi
            return (lo, hi) if fits else (e.lo, e.hi)
        known = self._values.get(e)
        row = TABLE.get(e.op)
        if row is None or not callable(row.range) or e.args[-1].dtype.is_float:
            return known or (e.lo, e.hi)
        lo, hi = row.range(*(self._by_nodes(x) for x in e.args))
        lo, hi = (lo, hi) if e.dtype.lo <= lo and hi <= e.dtype.hi else (e.lo, e.hi)
        return (lo, hi) if known is None else (max(lo, known[0]), min(hi, known[1]))

    def _select(self, e: E) -> Interval:
        condition, a, b = e.args
        lo, hi = self._by_nodes(condition)
        if lo == hi:
            return self._by_nodes(a if lo else b)
        if self.depth == NESTED or (not self._arms[0] and condition not in self._under):
            return min(a.lo, b.lo), max(a.hi, b.hi)
        if condition not in self._under:
            self._arms[0] -= 1
            self._under[condition] = Facts([(condition, True)], outer=self), Facts([(condition, False)], outer=self)
        arms = zip((a, b), self._under[condition], strict=True)
        ends = [f.interval(x) for x, f in arms if not f.contradictory] or [(e.lo, e.hi)]
        return min(x[0] for x in ends), max(x[1] for x in ends)


def direction(i: Ix) -> tuple[index_.Terms, int]:
    """(terms, factor) with i = i.c + factor * sum of terms: the first coefficient is positive, they have no common factor."""
    g = math.gcd(*(k for _, k in i.terms)) or 1
    factor = g if not i.terms or i.terms[0][1] > 0 else -g
    return tuple((a, k // factor) for a, k in i.terms), factor


def _quotients(lo: int, hi: int, k: int) -> Interval:
    """The integers x with lo <= k * x <= hi."""
    return (-(-lo // k), hi // k) if k > 0 else (-(-hi // k), lo // k)


def _index(atom: Atom) -> Ix:
    if isinstance(atom, Var):
        return ix(atom)
    return index_.value(atom.e) if isinstance(atom, Val) else index_.from_atom(atom)
