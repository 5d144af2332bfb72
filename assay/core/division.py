"""How floor(e / c) is simplified, for an integer c > 0: the rules, each with the statement that the tests prove by z3.

    divide_by_constant(e, c)    the first of `RULES` that applies, or the atom Div(e, c)
    RULES                       (name, statement, apply), in the order in which they are tried

A new rule is a function here, (e, c) -> the result or None, and its line in `RULES`.  Quotients are made, and remembered, by
index.floordiv; polynomial.py has the rules for sizes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from assay.core.atoms import Div, Terms
from assay.core.index import Ix, affine, div, floordiv, from_atom, interned
from assay.core.intervals import plain_interval, without_digit


@dataclass(frozen=True)
class Rule:
    """One simplification of e // c: `statement` is what the tests prove, `apply(e, c)` returns the result or None."""

    name: str
    statement: str
    apply: Callable[[Ix, int], Ix | None]


def _unit(e: Ix, c: int) -> Ix | None:
    return e if c == 1 else None


def _nested(e: Ix, c: int) -> Ix | None:
    if (a := _division(e)) is not None:
        return floordiv(a.e, a.c * c)
    return None


def _division(e: Ix) -> Div | None:
    """The division that `e` is, if it is one."""
    if e.c == 0 and len(e.terms) == 1 and e.terms[0][1] == 1 and type(a := e.terms[0][0]) is Div:
        return a
    return None


def _split(e: Ix, g: int, enough: Callable[[int, int], bool]) -> tuple[Ix, int, int] | None:
    """(q, lo, hi) with e = g * q + r, lo <= r <= hi and enough(lo, hi); None where no such split is found.

    r holds what is no multiple of g; it gets narrower where digits are taken out whose rest is one.
    """
    constant, terms = e.c, e.terms
    low = interned(constant % g, tuple((a, k) for a, k in terms if k % g))
    lo, hi = low.lo, low.hi
    whole: list[tuple[int, Ix]] = []
    offsets: list[int] = []
    while not enough(lo, hi):
        best = None
        for m, b, constant2, terms2 in without_digit(constant, terms):
            low2 = plain_interval(constant2 % g, tuple((a, k) for a, k in terms2 if k % g))
            taken = [*offsets, m * (b - 1)] if m % g else offsets
            lo2, hi2 = low2[0] + sum(min(0, x) for x in taken), low2[1] + sum(max(0, x) for x in taken)
            if (hi2 - lo2, not enough(lo2, hi2)) < (hi - lo, not enough(lo, hi)):
                lo, hi, best = lo2, hi2, (m, constant2, terms2, taken)
        if best is None:
            return None
        m, constant2, terms2, offsets = best
        if m % g == 0:
            digit = affine(((1, interned(constant, terms)), (-1, interned(constant2, terms2))))
            whole.append((1, interned(digit.c // g, tuple((a, k // g) for a, k in digit.terms))))
        constant, terms = constant2, terms2
    return affine([*whole, (1, interned(constant // g, tuple((a, k // g) for a, k in terms if k % g == 0)))]), lo, hi


def _multiples(e: Ix, c: int) -> Ix | None:
    found = _split(e, c, lambda lo, hi: lo // c == hi // c)
    return found and found[0] + found[1] // c


def _reduce(e: Ix, c: int) -> Ix | None:
    if e.c == e.c % c and all(0 <= k < c for _, k in e.terms):
        return None
    whole = interned(e.c // c, tuple((a, k // c) for a, k in e.terms if k // c))
    rest = interned(e.c % c, tuple((a, k % c) for a, k in e.terms if k % c))
    return whole + floordiv(rest, c)


def _common_factor(e: Ix, c: int) -> Ix | None:
    g = math.gcd(c, *(k for _, k in e.terms))
    if g == 1:
        return None
    return floordiv(interned(e.c // g, tuple((a, k // g) for a, k in e.terms)), c // g)


def _low_part(e: Ix, c: int) -> Ix | None:
    steps = {k for _, k in e.terms} | {k for *_, terms in without_digit(e.c, e.terms) for _, k in terms}
    for g in sorted((k for k in steps if k > 1 and c % k == 0), reverse=True):
        found = _split(e, g, lambda lo, hi, g=g: 0 <= lo and hi < g)
        # a division that stays inside would be nested again by sum_nested, unless it is all there is
        whole = found and (_division(found[0]) or all(k % (c // g) == 0 for a, k in found[0].terms if type(a) is Div))
        if found and (whole or found[0].terms == _high(e, g)):
            return floordiv(found[0], c // g)
    return None


def _high(e: Ix, g: int) -> Terms:
    return tuple((a, k // g) for a, k in e.terms if k % g == 0)


def _sum_nested(e: Ix, c: int) -> Ix | None:
    for a, k in e.terms:
        if k == 1 and type(a) is Div:
            return floordiv(a.e + a.c * (e - from_atom(a)), a.c * c)
    return None


RULES: tuple[Rule, ...] = (
    Rule("unit", "x // 1 == x", _unit),
    Rule("nested", "(x // a) // c == x // (a*c)", _nested),
    Rule("multiples", "(c*q + r) // c == q + m  if  c*m <= r < c*(m+1)", _multiples),
    Rule("low_part", "(g*x + b) // (g*c) == x // c  if  0 <= b < g", _low_part),
    Rule("reduce", "((c*q + s)*x + r) // c == q*x + (s*x + r) // c", _reduce),
    Rule("common_factor", "(g*x + k) // (g*c) == (x + k // g) // c", _common_factor),
    Rule("sum_nested", "(x // a + y) // c == (x + a*y) // (a*c)", _sum_nested),
)


def _exceeds(e: Ix) -> bool:
    return e.lo < -(1 << 63) or e.hi >= 1 << 63


def divide_by_constant(e: Ix, c: int) -> Ix:
    """floor(e / c) by `RULES`, or as an atom.

    No rule is applied whose dividend may leave int64, in which it will be computed: v % 4 + 1 has the range 1..4, but
    (v % 4 + 1) % 4 == (v + 1) % 4 only where v + 1 does not wrap.
    """
    for rule in RULES:
        result = rule.apply(e, c)
        if result is not None and not any(type(a) is Div and _exceeds(a.e) for a, _ in result.terms):
            return result
    return div(e, c)
