"""The interval that an index expression c + terms lies in, from the intervals of its atoms.

    plain_interval(c, terms)    as if the atoms were independent
    interval(c, terms)          which knows digits: x - b * (x // b) lies in 0..b - 1
    without_digit(c, terms)     the ways to take such a digit out of a sum

With sizes the ends are polynomials: polynomial.py.
"""

from __future__ import annotations

from collections.abc import Iterable

from assay.core.atoms import Div, Terms


def plain_interval(c: int, terms: Terms) -> tuple[int, int]:
    """Interval of c + terms as if the atoms were independent."""
    lo = hi = c
    for a, k in terms:
        if k > 0:
            lo, hi = lo + k * a.lo, hi + k * a.hi
        else:
            lo, hi = lo + k * a.hi, hi + k * a.lo
    return lo, hi


def interval(c: int, terms: Terms) -> tuple[int, int]:
    """Interval of c + terms, which knows that digits x - b * (x // b) lie between 0 and b - 1, and that x // b is near x / b.

    Digits are taken out as long as that makes the sum of the intervals narrower: a reshape is a sum of digits.
    """
    lo, hi = plain_interval(c, terms)
    if Div not in [type(a) for a, _ in terms]:
        return lo, hi
    digits_lo = digits_hi = 0
    width = hi - lo
    while True:
        best = None
        for m, b, c2, terms2 in without_digit(c, terms):
            lo2, hi2 = plain_interval(c2, terms2)
            if hi2 - lo2 + abs(m) * (b - 1) < width:
                width = hi2 - lo2 + abs(m) * (b - 1)
                best = m * (b - 1), c2, terms2, lo2, hi2
        if best is None:
            break
        digit, c, terms, lo2, hi2 = best
        width = hi2 - lo2
        digits_lo, digits_hi = digits_lo + min(0, digit), digits_hi + max(0, digit)
        lo, hi = max(lo, lo2 + digits_lo), min(hi, hi2 + digits_hi)
    for a, k in terms:
        if type(a) is Div:  # c + terms = (a.c * (c + the others) + k * a.e - k * (a.e % a.c)) / a.c
            scaled = {t: a.c * q for t, q in terms if t is not a}
            for t, q in a.e.terms:
                scaled[t] = scaled.get(t, 0) + k * q
            lo2, hi2 = plain_interval(a.c * c + k * a.e.c, tuple(scaled.items()))
            lo = max(lo, digits_lo - (max(0, k * (a.c - 1)) - lo2) // a.c)
            hi = min(hi, digits_hi + (hi2 - min(0, k * (a.c - 1))) // a.c)
    return lo, hi


def without_digit(c: int, terms: Terms) -> Iterable[tuple[int, int, int, Terms]]:
    """(m, b, c2, terms2): c + terms = m * (x - b * (x // b)) + c2 + terms2 for a division x // b and an m that cancels a term."""
    total = dict(terms)
    divs = [a for a in total if type(a) is Div]
    for a in divs:
        inner = [d for d in divs if d.e is a.e and d.c < a.c and a.c % d.c == 0]  # a is d // (a.c / d.c)
        dividends: list[tuple[Terms, int, int]] = [(a.e.terms, a.e.c, a.c), *((((d, 1),), 0, a.c // d.c) for d in inner)]
        for x, x_constant, b in dividends:
            factors = [-total[a] // b] if total[a] % b == 0 else []
            factors += [total[t] // q for t, q in x if t in total and total[t] % q == 0]
            for m in dict.fromkeys(factors):
                rest = dict(total)
                rest[a] += m * b
                for t, q in x:
                    rest[t] = rest.get(t, 0) - m * q
                yield m, b, c - m * x_constant, tuple((t, q) for t, q in rest.items() if q)
