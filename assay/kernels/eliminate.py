"""Proving p >= 0 by eliminating variables: from a*g >= c*f + ... and f >= 0, one step at a time.

To prove g >= 0 (g an integer), take a fact f >= 0 in which an atom x of g occurs: g = c*x + ..., f = a*x + ..., with c and a
of one sign. With A = |a| > 0 and C = |c| >= 0 it suffices that

    A*g + (A - 1) - C*f >= 0            since then A*g > -A, and g is an integer

which does not have x. A and C are polynomials (strides, block counts), which is what makes this work for symbolic sizes. A
minimum is bounded by either of its arguments from above, and from below by both: that, and a select, is a split into cases.
The search takes the smallest goal first and gives up after a number of steps; "no" means only that no proof was found.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from assay.kernels.terms import (
    Atom,
    Cond,
    Leaf,
    Monomial,
    Op,
    Poly,
    conjuncts,
    negation,
    nonnegative,
    poly,
    quotient,
    tightened,
    walk,
)
from assay.kernels.terms import floordiv as floordiv_

SPLITS = 4  # cases inside each other
CASE = 6  # how much larger a goal counts that needs a split
DEGREE = 7


@dataclass
class Budget:
    """How many more goals may be expanded."""

    steps: int


class Facts:
    """What holds: p >= 0 for each of `given`, and what the atoms in play mean."""

    def __init__(self, hypotheses: Iterable[Cond], roots: Iterable[Poly | Cond], budget: Budget) -> None:
        self.budget = budget
        self.by_atom: dict[Atom, list[Poly]] = {}
        self.seen: set[Poly] = set()
        self.known: set[Atom] = set()
        self.guarded: list[Op] = []
        self.positive: set[Poly] = set()
        self._learn(tuple(h for c in hypotheses for h in conjuncts(c)), roots)
        for a in self.guarded:  # a divisor that is positive only under the hypotheses
            if self.proves(a.args[1] - 1, splits=2):
                self.positive.add(a.args[1])
                self._division(a)

    def _learn(self, hypotheses: tuple[Cond, ...], roots: Iterable[Poly | Cond]) -> None:
        for h in hypotheses:
            if h.kind == "ge":
                self._add(h.args[0])
            elif h.kind == "eq":
                self._add(h.args[0])
                self._add(-h.args[0])
        for a in walk((*hypotheses, *roots)):
            if a not in self.known:
                self.known.add(a)
                self._about(a)

    def under(self, hypothesis: Cond, root: Poly) -> Facts:
        """These facts and one more hypothesis, to speak of `root`."""
        found = Facts.__new__(Facts)
        found.budget, found.positive, found.guarded = self.budget, self.positive, []
        found.by_atom = {a: list(ps) for a, ps in self.by_atom.items()}
        found.seen, found.known = set(self.seen), set(self.known)
        found._learn(conjuncts(hypothesis), (root,))
        for a in found.guarded:
            if a.args[1] in self.positive:
                found._division(a)
        return found

    def _add(self, p: Poly) -> None:
        p = tightened(p)
        if p in self.seen or p.lo >= 0:
            return
        self.seen.add(p)
        for a in p.atoms:
            self.by_atom.setdefault(a, []).append(p)

    def _about(self, a: Atom) -> None:
        x = poly(a)
        if isinstance(a, Leaf):
            if a.lower is not None:
                self._add(x - a.lower)
            if a.upper is not None:
                self._add(a.upper - x)
        elif a.name in ("div", "mod"):
            if a.args[1].lo > 0:
                self._division(a)
            else:
                self.guarded.append(a)
        elif a.name == "min":
            self._add(a.args[0] - x)
            self._add(a.args[1] - x)
        elif a.name == "max":
            self._add(x - a.args[0])
            self._add(x - a.args[1])
        elif a.name in ("and", "or", "xor") and a.args[0].lo >= 0 and a.args[1].lo >= 0:
            p, q = a.args
            if a.name == "and":
                self._add(p - x)
                self._add(q - x)
            else:
                self._add(p + q - x)
                if a.name == "or":
                    self._add(x - p)
                    self._add(x - q)

    def _division(self, a: Op) -> None:
        p, q = a.args
        x = poly(a)
        if a.name == "div":
            self._add(p - q * x)
            self._add(q * x + q - 1 - p)
        else:
            self._add(x)
            self._add(q - 1 - x)
            rest = p - q * floordiv_(p, q)
            self._add(rest - x)
            self._add(x - rest)
            if p.lo >= 0:
                self._add(p - x)

    def proves(self, g: Poly, *, splits: int = SPLITS) -> bool:
        """Whether a proof of g >= 0 was found."""
        if g.lo >= 0:
            return True
        if g.hi < 0:
            return False
        queue = [(_size(g), 0, tightened(g))]
        met = {queue[0][2]}
        while queue and self.budget.steps > 0:
            self.budget.steps -= 1
            _, _, p = heapq.heappop(queue)
            case = _case(p)
            if case is not None:
                if splits > 0 and all(self.under(h, q).proves(q, splits=splits - 1) for h, q in _cases(p, case)):
                    return True
                continue
            for q in self._steps(p):
                if q.lo >= 0:
                    return True
                if q in met or q.hi < 0 or max((len(m) for m, _ in q.terms), default=0) > DEGREE:
                    continue
                met.add(q)
                heapq.heappush(queue, (_size(q) + (CASE if _case(q) is not None else 0), len(met), q))
        return False

    def _steps(self, g: Poly) -> Iterator[Poly]:
        for x in g.atoms:
            c = _coefficient(g, x)
            if c is None:
                continue
            sign = 1 if c.lo >= 0 else -1 if c.hi <= 0 else 0
            if not sign:
                continue
            for f in self.by_atom.get(x, ()):
                a = _coefficient(f, x)
                if a is None:
                    continue
                big, small = (a, c) if sign > 0 else (-a, -c)
                if big.lo <= 0 and big not in self.positive:
                    continue
                big, small = _reduced(big, small)
                yield tightened(big * g + (big - 1) - small * f)
            bound = x.lo if sign > 0 else x.hi  # its own range is a fact too
            yield tightened(g - c * (poly(x) - bound))


def _size(p: Poly) -> int:
    return sum(len(m) + 1 for m, _ in p.terms)


def _coefficient(p: Poly, x: Atom) -> Poly | None:
    """c with p = c*x + (terms without x); None where x occurs in a higher power."""
    c, rest = quotient(p, (x,), 1)
    return c if x not in c.atoms and x not in rest.atoms else None


def _reduced(a: Poly, c: Poly) -> tuple[Poly, Poly]:
    """a and c without a common monomial factor of one-term polynomials."""
    if len(a.terms) != 1 or len(c.terms) != 1:
        return a, c
    (m, k), (n, q) = a.terms[0], c.terms[0]
    common: Monomial = ()
    left = list(n)
    for x in m:
        if x in left and x.lo > 0:
            left.remove(x)
            common = (*common, x)
    g = _gcd(k, q)
    return quotient(a, common, g)[0], quotient(c, common, g)[0]


def _gcd(a: int, b: int) -> int:
    while b:
        a, b = b, a % b
    return abs(a)


def _case(g: Poly) -> Op | None:
    """An atom of g that is bounded only case by case: select; a minimum from below, a maximum from above."""
    for x in g.atoms:
        if isinstance(x, Op) and x.name in ("select", "min", "max"):
            c = _coefficient(g, x)
            if x.name == "select" or c is None:
                return x
            if (x.name == "min" and c.hi > 0) or (x.name == "max" and c.lo < 0):
                return x
    return None


def _cases(g: Poly, x: Op) -> Iterator[tuple[Cond, Poly]]:
    """(hypothesis, g there) for each of the two values that x can have."""
    if x.name == "select":
        c, p, q = x.args
    else:
        p, q = x.args
        c = nonnegative(q - p) if x.name == "min" else nonnegative(p - q)
    for hypothesis, value in ((c, p), (negation(c), q)):
        yield hypothesis, _replaced(g, x, value)


def _replaced(g: Poly, x: Op, value: Poly) -> Poly:
    total = poly(0)
    for m, k in g.terms:
        product = poly(k)
        for a in m:
            product = product * (value if a is x else poly(a))
        total = total + product
    return total
