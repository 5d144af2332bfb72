"""Decisions about extents that are expressions over sizes: for all sizes, or by a hint, recorded as a guard.

    with Assumptions({n: 64, m: 128}) as found:
        n + 1 > 0        True for all sizes: nothing is recorded
        n == m           False, as for the hints; found.guards says that the result holds only where n != m

The code that makes a program for given sizes runs unchanged on symbolic ones: where it branches, the branch of the hints is
taken, and the program that comes out is that of every choice of sizes which satisfies the guards.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token
from dataclasses import dataclass
from typing import Any

from assay.core import polynomial
from assay.core.errors import Unsupported
from assay.core.index import Div, Ix, Quotient, Size, affine, evaluate, factors, from_atom, ix
from assay.core.polynomial import nonnegative

USUAL = 64
WORDS = {"ge": ">=", "eq": "==", "ne": "!="}


@dataclass(frozen=True)
class Guard:
    """`kind` (ge, eq, ne) holds between `d` and 0; `where` is the user's line that needed it."""

    kind: str
    d: Ix
    where: str = ""

    def holds(self, at: Callable[[Size], int]) -> bool:
        """Whether it holds for these sizes."""
        x = evaluate(self.d, at)
        return {"ge": x >= 0, "eq": x == 0, "ne": x != 0}[self.kind]

    def __str__(self) -> str:
        return relation(self.kind, self.d)


def relation(kind: str, d: Ix) -> str:
    """`d` compared with 0, as one would write it: n > m, n % 8 == 0, n == 2*h."""
    if kind in ("eq", "ne"):
        for a, _ in d.terms:
            if isinstance(a, Div | Quotient):
                rest = a.e - ix(a.c) * from_atom(a)
                if rest is d or rest is -d:
                    return f"{_sum(a.e)} % {_sum(ix(a.c))} {WORDS[kind]} 0"
    left = affine((k, from_atom(a)) for a, k in d.terms if k > 0) + max(0, d.c)
    right = left - d
    if kind == "ge" and right.c > 0 and right.terms:
        return f"{_sum(left)} > {_sum(right - 1)}"
    return f"{_sum(left)} {WORDS[kind]} {_sum(right)}"


def _sum(e: Ix) -> str:
    parts = [f"{k}*{a!r}" if k != 1 else repr(a) for a, k in e.terms]
    return " + ".join([*parts, str(e.c)] if e.c or not parts else parts)


class Assumptions:
    """Hints for sizes, and the guards under which what was decided by them holds."""

    def __init__(self, hints: Mapping[Size, int], where: Callable[[], str] = lambda: "") -> None:
        self.hints = dict(hints)
        self.guards: dict[tuple[str, Ix], Guard] = {}
        self.where = where
        self._memories: dict[Any, dict[Any, Any]] = {}
        self._tokens: list[Token[Assumptions | None]] = []

    def __enter__(self) -> Assumptions:
        self._tokens.append(_current.set(self))
        return self

    def __exit__(self, *_: Any) -> None:
        _current.reset(self._tokens.pop())

    def memory(self, owner: Any) -> dict[Any, Any]:
        """What `owner` remembers of results that were made under these assumptions: with others, other guards are needed."""
        return self._memories.setdefault(owner, {})

    def ask(self, kind: str, d: Ix) -> bool:
        """Whether `d` is >= 0 (ge), or 0 (eq), for the hints; recorded."""
        opposite = ("ge", -d - 1) if kind == "ge" else ("ne" if kind == "eq" else "eq", d)
        if self.implied(kind, d):
            return True
        if self.implied(*opposite):
            return False
        holds = Guard(kind, d).holds(self.hints.__getitem__)
        stated = (kind, d) if holds else opposite
        self.guards[stated] = Guard(*stated, self.where())
        return holds

    def implied(self, kind: str, d: Ix) -> bool:
        """Whether one of the guards says it: n > m says n >= m, m != n and m < n + 3."""
        if (kind, d) in self.guards:
            return True
        wanted = {"ge": (d,), "ne": (d - 1, -d - 1), "eq": ()}[kind]  # one of these is >= 0
        for stated, g in self.guards:
            for known in {"ge": (g,), "eq": (g, -g), "ne": ()}[stated]:
                if any(not (more := w - known).terms and more.c >= 0 for w in wanted):
                    return True
        return False


_current: ContextVar[Assumptions | None] = ContextVar("assumptions", default=None)


def current() -> Assumptions | None:
    """The assumptions that decisions are made under."""
    return _current.get()


def holds(kind: str, d: Ix) -> bool:
    """Whether d >= 0 (ge) or d == 0 (eq): for all sizes where that is seen, else as the current assumptions say.

    Raises Unsupported where there are none, TypeError for what is no extent.
    """
    if not d.terms:
        return d.c >= 0 if kind == "ge" else d.c == 0
    if not d.is_extent:
        raise TypeError(f"the index {d!r} has no single value; only extents are compared")
    d = without_factors(d, kind)
    d = canonical(d) if kind == "eq" else d
    if kind == "ge":
        if nonnegative(d):
            return True
        if nonnegative(-d - 1):
            return False
    elif d.lo > 0 or d.hi < 0 or nonnegative(d - 1) or nonnegative(-d - 1):
        return False
    found = _current.get()
    if found is None:
        raise Unsupported(f"whether {relation(kind, d)} depends on the sizes; ask within assumptions about them")
    return found.ask(kind, d)


def without_factors(d: Ix, kind: str) -> Ix:
    """`d` without a size or a number that divides it and is positive: 2*n*m - n*k is compared with 0 as 2*m - k is."""
    if kind == "eq" or not d.c:
        g = math.gcd(d.c, *(k for _, k in d.terms))
        d = affine((k // g, from_atom(a)) for a, k in d.terms) + d.c // g
    while not d.c:
        shared = [s for s in factors(d.terms[0][0]) if s.lo > 0 and all(s in factors(a) for a, _ in d.terms)]
        if not shared or len(d.terms) == 1:
            break
        p = {polynomial.without(m, (shared[0],)): k for m, k in polynomial.polynomial(d).items()}
        d = polynomial.expression(p)  # type: ignore[arg-type]
    return d


def canonical(d: Ix) -> Ix:
    """d or -d: the one whose first coefficient is positive (both are 0 for the same sizes)."""
    return d if d.terms[0][1] > 0 else -d


def specialise(e: Ix) -> int:
    """The integer that `e` is for the hints; the guard is that it is this one."""
    if not e.terms:
        return e.c
    found = _current.get()
    if found is None or not e.is_extent:
        raise Unsupported(f"{e!r} has no fixed value here; it depends on the sizes")
    value = evaluate(e, found.hints.__getitem__)
    found.ask("eq", canonical(e - value))
    return value


def hint(e: Ix | int) -> int:
    """`e` for the hints, where it only guides a choice that is right for all sizes: no guard is recorded."""
    if not isinstance(e, Ix):
        return e
    found = _current.get()
    return evaluate(e, found.hints.__getitem__ if found is not None else usual)


def usual(s: Size) -> int:
    """The hint of a size of which nothing else is known."""
    return min(s.hi, max(s.lo, USUAL))
