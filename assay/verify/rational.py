"""Checking that an integer fact follows from sums of products, by exact rational arithmetic and nothing else.

A fact is refuted in each case of its conditions.  A case is a list of polynomials p >= 0 and e = 0.  Its certificate
(Handelman 1988) is a list of numbers with

    sum of  times * product of some p  +  sum of  times * monomial * e   =   -1        times >= 0 in the first sum

which no point of the case can satisfy.  The reading of a text as cases is part of this module: a quotient a div b is an unknown q
with a = b*q + r, 0 <= r < b, in the case b > 0; what b <= 0 means is another case.  Only smtlib.py is imported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeAlias

from assay.verify.smtlib import Check, Refused, Script, Term, number

Monomial: TypeAlias = "tuple[str, ...]"  # its unknowns, sorted, with repetition
Polynomial: TypeAlias = "dict[Monomial, Fraction]"
CASES = 64  # a text with more cases is refused


def constant(v: int | Fraction) -> Polynomial:
    return {(): Fraction(v)} if v else {}


def plus(p: Polynomial, q: Polynomial, times: int | Fraction = 1) -> Polynomial:
    """p + times * q"""
    found = dict(p)
    for m, c in q.items():
        c = found.get(m, Fraction(0)) + times * c
        if c:
            found[m] = c
        else:
            found.pop(m, None)
    return found


def product(p: Polynomial, q: Polynomial) -> Polynomial:
    found: Polynomial = {}
    for m, c in p.items():
        for n, d in q.items():
            both = tuple(sorted(m + n))
            found[both] = found.get(both, Fraction(0)) + c * d
    return {m: c for m, c in found.items() if c}


@dataclass(frozen=True)
class Case:
    """p >= 0 for each of `positive`, e = 0 for each of `zero`."""

    positive: tuple[Polynomial, ...] = ()
    zero: tuple[Polynomial, ...] = ()

    def __add__(self, other: Case) -> Case:
        return Case(_union(self.positive, other.positive), _union(self.zero, other.zero))

    @property
    def unknowns(self) -> list[str]:
        return sorted({x for p in (*self.positive, *self.zero) for m in p for x in m})


def _union(a: tuple[Polynomial, ...], b: tuple[Polynomial, ...]) -> tuple[Polynomial, ...]:
    return (*a, *(p for k, p in enumerate(b) if p not in a and p not in b[:k]))


TRUE = Case()


# ------------------------------------------------------------------------------------------------ reading a text as cases


@dataclass
class _Cases:
    script: Script
    quotients: dict[Any, tuple[str, str]] = field(default_factory=dict[Any, tuple[str, str]])
    known: dict[str, list[tuple[Case, Polynomial]]] = field(default_factory=dict[str, "list[tuple[Case, Polynomial]]"])

    def integer(self, t: Term) -> list[tuple[Case, Polynomial]]:
        """(case, value) for each way in which the integer term has a value."""
        v = number(t)
        if v is not None:
            return [(TRUE, constant(v))]
        if isinstance(t, str):
            if self.script.constants.get(t) == "Int":
                return [(TRUE, {(t,): Fraction(1)})]
            if t in self.script.definitions:
                if t not in self.known:
                    self.known[t] = self.integer(self.script.definitions[t])
                return self.known[t]
            raise Refused(f"{t!r} is not an integer")
        match t:
            case ("ite", c, a, b):
                return _few(
                    [(k + j, p) for k in self.condition(c, True) for j, p in self.integer(a)]
                    + [(k + j, p) for k in self.condition(c, False) for j, p in self.integer(b)]
                )
            case ("-", a):
                return [(k, plus({}, p, -1)) for k, p in self.integer(a)]
            case ("+" | "*" | "-" | "div" | "mod" as op, first, *rest) if rest:
                found = self.integer(first)
                for term in rest:
                    found = _few([x for a in found for b in self.integer(term) for x in self._binary(op, a, b)])
                return found
            case _:
                raise Refused(f"no polynomial: {t!r:.80}")

    def _binary(self, op: str, a: tuple[Case, Polynomial], b: tuple[Case, Polynomial]) -> Iterator[tuple[Case, Polynomial]]:
        both, p, q = a[0] + b[0], a[1], b[1]
        if op in "+-":
            yield both, plus(p, q, 1 if op == "+" else -1)
        elif op == "*":
            yield both, product(p, q)
        else:
            key = (tuple(sorted(p.items())), tuple(sorted(q.items())))
            # no symbol of a text has a blank outside of bars
            x, r = self.quotients.setdefault(key, (f"q {len(self.quotients)}", f"r {len(self.quotients)}"))
            quotient, remainder = {(x,): Fraction(1)}, {(r,): Fraction(1)}
            same = plus(plus(p, product(q, quotient), -1), remainder, -1)
            below = plus(plus(q, remainder, -1), constant(-1))
            value = quotient if op == "div" else remainder
            yield both + Case((plus(q, constant(-1)), remainder, below), (same,)), value
            if not (q.keys() <= {()} and q.get((), 0) > 0):
                yield both + Case((plus({}, q, -1),)), value  # nothing is known of it there

    def condition(self, t: Term, holds: bool) -> list[Case]:  # noqa: FBT001 the polarity is half of the fact
        """The cases in which the term holds, or does not."""
        if isinstance(t, str):
            if t in ("true", "false"):
                return [TRUE] if (t == "true") == holds else []
            if self.script.constants.get(t) == "Bool":  # as 0 or 1
                v = {(t,): Fraction(1)}
                return [Case((plus(v, constant(-1)),) if holds else (plus({}, v, -1),))]
            if t in self.script.definitions:
                return self.condition(self.script.definitions[t], holds)
            raise Refused(f"{t!r} is not a condition")
        match t:
            case ("not", a):
                return self.condition(a, not holds)
            case ("and" | "or" as op, *parts):
                every = [self.condition(p, holds) for p in parts]
                if (op == "and") == holds:
                    found = [TRUE]
                    for cases in every:
                        found = _few([a + b for a in found for b in cases])
                    return found
                return _few([c for cases in every for c in cases])
            case ("ite", c, a, b):
                return [k + j for k in self.condition(c, True) for j in self.condition(a, holds)] + [
                    k + j for k in self.condition(c, False) for j in self.condition(b, holds)
                ]
            case ("<=" | "<" as op, a, b, c):
                return self.condition(("and", (op, a, b), (op, b, c)), holds)
            case ("<=" | "<", a, b):
                low, high, strict = (a, b, t[0] == "<") if holds else (b, a, t[0] == "<=")
                return [
                    k + j + Case((plus(plus(q, p, -1), constant(-int(strict))),))
                    for k, p in self.integer(low)
                    for j, q in self.integer(high)
                ]
            case ("=", a, b):
                if not holds:
                    return self.condition(("<", a, b), True) + self.condition(("<", b, a), True)
                return [k + j + Case((), (plus(p, q, -1),)) for k, p in self.integer(a) for j, q in self.integer(b)]
            case _:
                raise Refused(f"not a condition: {t!r:.80}")


def _few(found: list[Any]) -> list[Any]:
    if len(found) > CASES:
        raise Refused(f"more than {CASES} cases")
    return found


def cases(check: Check) -> list[Case]:
    """The cases of which one holds at every point at which all assertions do.  Raises Refused where there are too many."""
    return _Cases(check.script).condition(("and", *check.assertions), True)


# ------------------------------------------------------------------------------------------------ the check


def combine(case: Case, certificate: Iterable[dict[str, Any]]) -> Polynomial:
    """The sum that a certificate describes.  Raises Refused for a negative multiple of what is only >= 0."""
    total: Polynomial = {}
    for part in certificate:
        times = Fraction(part["times"])
        if "zero" in part:
            term = product(case.zero[part["zero"]], {tuple(sorted(part["monomial"])): Fraction(1)})
        else:
            if times < 0:
                raise Refused(f"a product of what is >= 0 is taken {times} times")
            term = constant(1)
            for k in part["positive"]:
                term = product(term, case.positive[_natural(k)])
        total = plus(total, term, times)
    return total


def _natural(k: Any) -> int:
    if not isinstance(k, int) or k < 0:
        raise Refused(f"{k!r} numbers no polynomial")
    return k


def proves(check: Check, certificate: list[list[dict[str, Any]]]) -> bool:
    """Whether the certificate shows that no point satisfies the assertions: every case has a combination that is -1."""
    found = cases(check)
    if len(certificate) != len(found):
        return False
    try:
        return all(combine(case, parts) == constant(-1) for case, parts in zip(found, certificate, strict=True))
    except (Refused, KeyError, IndexError, TypeError, ValueError):
        return False
