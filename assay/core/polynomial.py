"""Index expressions with sizes: products, quotients by sizes, and what is true of them for all sizes.

An expression over sizes is a polynomial in its atoms.  Every rule here is about the mathematical integers and needs no
assumption but the ranges that the atoms carry; it depends on nothing else, so equal expressions stay one object.

    multiply(a, b)        the polynomial a * b
    divide(e, c)          floor(e / c), simplified by `RULES`
    nonnegative(e)        whether e >= 0 is seen to hold for all values of its atoms
    interval(e)           integers that e lies between

The products of sizes that occur in a program are at most LIMIT (bind and a compiled entry check it), so that an address,
a sum of such products, fits int64.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

from assay.core import index
from assay.core.division import divide_by_constant
from assay.core.index import Atom, Div, Factor, Ix, Product, Quotient, Size, Terms, Val, Var, extents, fresh, is_symbolic, ix

Monomial: TypeAlias = "tuple[Factor, ...]"  # in the order of keys
Polynomial: TypeAlias = "dict[Monomial, int]"  # no zero coefficients

LIMIT = 1 << 40
"""The largest product of sizes: the most elements that a tensor may have."""

RESIDUES = 256
"""How many combinations of remainders are tried to see that a constant divides a polynomial."""

DIGITS = 8
"""How many digits a question is taken apart into."""

DEPTH = 4
"""How often a sum is multiplied by a divisor to decide its sign."""

# ------------------------------------------------------------------------------------------------ polynomials


def polynomial(e: Ix) -> Polynomial:
    """`e` by its monomials."""
    found: Polynomial = {index.factors(a): k for a, k in e.terms}
    if e.c:
        found[()] = e.c
    return found


def expression(p: Polynomial) -> Ix:
    """The polynomial as an index expression."""
    return index.affine((k, monomial(m)) for m, k in p.items())


def monomial(m: Monomial) -> Ix:
    """The atoms multiplied."""
    if len(m) > 1:
        return index.from_atom(index.product(m))
    return index.from_atom(m[0]) if m else ix(1)


def plus(p: Polynomial, q: Polynomial, k: int = 1) -> Polynomial:
    """p + k * q"""
    total = dict(p)
    for m, x in q.items():
        total[m] = total.get(m, 0) + k * x
        if not total[m]:
            del total[m]
    return total


def times(p: Polynomial, q: Polynomial) -> Polynomial:
    """p * q"""
    total: Polynomial = {}
    for (a, x), (b, y) in itertools.product(p.items(), q.items()):
        m = tuple(sorted(a + b, key=_key)) if a and b else a or b
        total[m] = total.get(m, 0) + x * y
    return {m: k for m, k in total.items() if k}


def _key(a: Factor) -> tuple[Any, ...]:
    return a.key


def multiply(*es: Ix) -> Ix:
    """The product of the expressions."""
    constant, rest = math.prod(e.c for e in es if not e.terms), [e for e in es if e.terms]
    if len(rest) < 2:
        return index.affine(((constant, rest[0] if rest else ix(1)),))
    p: Polynomial = {(): constant}
    for e in rest:
        p = times(p, polynomial(e))
    return expression(p)


def in_powers_of(p: Polynomial, a: Factor) -> list[Polynomial]:
    """[p0, p1, ...] with p = p0 + p1 * a + p2 * a**2 + ..."""
    found: list[Polynomial] = [{}]
    for m, k in p.items():
        degree = m.count(a)
        while len(found) <= degree:
            found.append({})
        found[degree][tuple(x for x in m if x is not a)] = k
    return found


def replace(p: Polynomial, a: Factor, by: Polynomial) -> Polynomial:
    """`p` with the atom `a` replaced."""
    powers = in_powers_of(p, a)
    total = powers[-1]
    for q in reversed(powers[:-1]):
        total = plus(times(total, by), q)
    return total


def quotient_and_rest(p: Polynomial, c: Polynomial) -> tuple[Polynomial, Polynomial]:
    """(q, r) with p = c*q + r; r holds what the leading monomial of c does not divide, with coefficients as remainders."""
    lead = max(c, key=lambda m: (len(m), [a.key for a in m]))
    q: Polynomial = {}
    rest = p
    for _ in range(16):
        for m, k in rest.items():
            other = without(m, lead)
            if other is not None and k // c[lead]:
                q = plus(q, {other: k // c[lead]})
                rest = plus(rest, times(c, {other: k // c[lead]}), -1)
                break
        else:
            break
    return q, rest


def without(m: Monomial, divisor: Monomial) -> Monomial | None:
    """The monomial m / divisor, or None."""
    rest = list(m)
    for a in divisor:
        if a not in rest:
            return None
        rest.remove(a)
    return tuple(rest)


# ------------------------------------------------------------------------------------------------ signs

_signs: dict[tuple[frozenset[tuple[Monomial, int]], int], bool] = {}
_tops: dict[Factor, Polynomial] = {}
_digits: dict[Factor, Var] = {}


def nonnegative(e: Ix) -> bool:
    """Whether e >= 0 is seen to hold for all values of its atoms."""
    if e.lo >= 0 or not e.sizes:
        return e.lo >= 0
    if is_nonnegative(polynomial(e)):
        return True
    digits = with_digits(e)
    return digits is not e and is_nonnegative(polynomial(digits))


def with_digits(e: Ix) -> Ix:
    """`e` with flat variables replaced by their digits: i < n*m that is divided by m becomes m*q + r, q < n, r < m.

    Then i // m is q and i % m is r, and so on for q: what a chain of reshapes relinearises comes apart.
    """
    for _ in range(DIGITS):
        chosen = next((pair for pair in _flat(e)), None)
        if chosen is None:
            break
        v, c = chosen
        if chosen not in _pairs:
            q, _ = quotient_and_rest(polynomial(ix(v.n)), polynomial(c))
            high, low = extents((expression(q), c))
            _pairs[chosen] = fresh(high), fresh(low)
        high, low = _pairs[chosen]
        e = index.rewrite(e, lambda a, v=v, c=c, q=high, r=low: c * ix(q) + ix(r) if a is v else _same(a))
    return e


def _same(a: Var | Val) -> Ix:
    return ix(a) if type(a) is Var else index.from_atom(a)


def _flat(e: Ix) -> Iterator[tuple[Var, Ix]]:
    """(variable, divisor) of quotients v // c where c divides the axis of v and every other divisor of v."""
    found: dict[Var, dict[Ix, None]] = {}
    for d in index.divisions(e):
        if len(d.e.terms) == 1 and not d.e.c and d.e.terms[0][1] == 1 and type(v := d.e.terms[0][0]) is Var:
            found.setdefault(v, {})[ix(d.c)] = None
    for v, divisors in found.items():
        for c in divisors:
            if all(not quotient_and_rest(polynomial(x), polynomial(c))[1] for x in (*divisors, ix(v.n))):
                yield v, c


_pairs: dict[tuple[Var, Ix], tuple[Var, Var]] = {}


def is_nonnegative(p: Polynomial, depth: int = DEPTH) -> bool:
    """Whether p >= 0 is seen to hold, by eliminating one atom after the other.

    a variable or a value in which p is monotone   is set to its least or its largest value
    a quotient x // c                              c * (x // c) = x - r with a digit 0 <= r < c; where c does not divide its
                                                   coefficient, p >= 0 is asked as c*p + c - 1 >= 0, the same for integers
    what is left, a polynomial in sizes            holds if all coefficients are >= 0 after lo is taken out of each size
    """
    key = frozenset(p.items()), depth
    found = _signs.get(key)
    if found is None:
        found = _least(p) >= 0 or _by_digits(p, depth)
        if not found and depth:
            corner = extreme(p, -1, fixed=True)
            found = corner is not None and corner != p and is_nonnegative(corner, depth - 1)
        _signs[key] = found = found or (depth == DEPTH and _by_corners(p))
    return found


def _least(p: Polynomial) -> float:
    """A number that p is never below: by corners in its variables, then by the signs of the coefficients."""
    corner = extreme(p, -1)
    return -math.inf if corner is None else bound(corner, -1)


def bound(p: Polynomial, side: int) -> float:
    """The least (side -1) or largest (side 1) value of a polynomial over sizes, as far as its coefficients tell."""
    shifted = p
    for s in dict.fromkeys(a for m in p for a in m):
        shifted = replace(shifted, s, {(s,): 1, (): s.lo} if s.lo else {(s,): 1})
    total: float = shifted.get((), 0)
    if all(k * side <= 0 for m, k in shifted.items() if m):
        return total
    if side < 0:
        return -math.inf
    return sum(k * (most(m) if k > 0 else math.prod(a.lo for a in m)) for m, k in p.items())


def most(m: Monomial) -> int:
    """The largest value of a product of sizes."""
    return min(LIMIT, math.prod(a.hi for a in m)) if m else 1


def extreme(p: Polynomial, side: int, *, fixed: bool = False) -> Polynomial | None:
    """A polynomial over sizes that p is never below (side -1), or above (side 1); None where none is found.

    With `fixed` it may also have divisions of sizes, whose digits are still to be looked at.
    """
    for _ in range(32):
        pending = dict.fromkeys(a for m in p for a in m if type(a) is not Size and not (fixed and _is_fixed(a)))
        if not pending:
            return p
        for a in sorted(pending, key=lambda a: (type(a) is Var, a.key), reverse=True):
            powers = in_powers_of(p, a)[1:]
            if a.lo < 0 and len(powers) > 1:
                continue
            rising = _sign_of(powers)
            if rising is not None:
                end = top(a) if rising * side > 0 else ({(): a.lo} if a.lo else {})
                p = replace(p, a, end)
                break
        else:
            return None
    return None


def _is_fixed(a: Factor) -> bool:
    return (type(a) is Div or type(a) is Quotient) and a.e.is_extent


def _sign_of(powers: list[Polynomial]) -> int | None:
    """1 where all coefficients are seen to be >= 0, -1 where they are <= 0."""
    for sign in (1, -1):
        if all(_plainly(q, sign) for q in powers):
            return sign
    return next((s for s in (1, -1) if all(is_nonnegative({m: s * k for m, k in q.items()}, 1) for q in powers)), None)


def _plainly(q: Polynomial, sign: int) -> bool:
    return all(k * sign > 0 and all(a.lo >= 0 for a in m) for m, k in q.items())


def top(a: Factor) -> Polynomial:
    """A polynomial over sizes that the atom never exceeds."""
    found = _tops.get(a)
    if found is None:
        found = {(): a.hi} if a.hi else {}
        if type(a) is Var and is_symbolic(a.n):
            found = plus(polynomial(a.n), {(): -1})
        elif type(a) is Val and a.e.op == "load" and (end := a.e.attr[0].end) is not None:
            t, indices = a.e.attr
            found = polynomial(end) if all(map(index.within, indices, t.shape)) else found
        elif (type(a) is Div or type(a) is Quotient) and a.sizes:
            found = _quotient_top(a.e, polynomial(ix(a.c))) or found
        _tops[a] = found
    return found


def _quotient_top(e: Ix, c: Polynomial) -> Polynomial | None:
    """A polynomial over sizes that e // c never exceeds."""
    top = extreme(polynomial(e), 1)
    if top is None:
        return None
    q, rest = quotient_and_rest(top, c)  # (c*q + rest) // c is <= q where rest < c, and <= q - 1 where rest < 0
    if bound(rest, 1) < 0:
        return plus(q, {(): -1})
    return q if bound(plus(c, rest, -1), -1) >= 1 else None


def digit(a: Div | Quotient) -> Var:
    """The variable x % c, from 0 to c - 1, of a quotient x // c."""
    if a not in _digits:
        _digits[a] = fresh(a.c)  # type: ignore[arg-type]
    return _digits[a]


@cache
def divides(c: int, e: Ix) -> bool:
    """Whether c divides e for all values of its atoms, as 2 divides n*(n + 1): tried for all their remainders."""
    p = polynomial(e)
    atoms = list(dict.fromkeys(a for m in p for a in m))
    if c ** len(atoms) > RESIDUES:
        return False
    for values in itertools.product(range(c), repeat=len(atoms)):
        at = dict(zip(atoms, values, strict=True))
        if sum(k * math.prod(at[a] for a in m) for m, k in p.items()) % c:
            return False
    return True


def remainder(a: Div | Quotient) -> Ix:
    """x % c of a quotient x // c: 0 where c is seen to divide x, else a variable."""
    return ix(0) if type(a) is Div and divides(a.c, a.e) else ix(digit(a))


def _by_digits(p: Polynomial, depth: int) -> bool:
    if not depth:
        return False
    for a in dict.fromkeys(a for m in p for a in m if type(a) is Div or type(a) is Quotient):
        powers = in_powers_of(p, a)
        if len(powers) > 2:
            continue
        c = polynomial(ix(a.c))
        q, rest = quotient_and_rest(powers[1], c)
        scaled = bool(rest)
        if scaled:  # p >= 0 if and only if c*p + c - 1 >= 0
            q, powers[0] = powers[1], plus(plus(times(c, powers[0]), c), {(): -1})
        inside = plus(polynomial(a.e), polynomial(remainder(a)), -1)
        if is_nonnegative(plus(times(q, inside), powers[0]), depth - scaled):
            return True
    return False


def _by_corners(p: Polynomial) -> bool:
    """p is linear in a variable whose coefficient has no known sign: it is enough that p >= 0 at both of its ends."""
    for a in dict.fromkeys(a for m in p for a in m if type(a) is Var):
        if len(in_powers_of(p, a)) == 2:
            return all(is_nonnegative(replace(p, a, end), 0) for end in ({}, top(a)))
    return False


# ------------------------------------------------------------------------------------------------ intervals


def interval(e: Ix) -> tuple[int, int]:
    """Integers that `e` lies between: those of its atoms added up, and what corners tell."""
    p = polynomial(e)
    lo, hi = e.lo, e.hi
    least, top = _least(p), extreme(p, 1)
    if least > lo:
        lo = int(least)
    if top is not None:
        hi = min(hi, int(bound(top, 1)))
    return lo, hi


def product_interval(factors: Sequence[Factor]) -> tuple[int, int]:
    """Integers that the product lies between."""
    if all(type(a) is Size for a in factors):
        return math.prod(a.lo for a in factors), most(tuple(factors))
    ends = [(a.lo, a.hi) for a in factors]
    corners = [math.prod(c) for c in itertools.product(*ends)] if len(ends) < 8 else [-(1 << 80), 1 << 80]
    lo, hi = min(corners), max(corners)
    if lo >= 0:
        top = extreme({tuple(factors): 1}, 1)
        hi = hi if top is None else min(hi, int(bound(top, 1)))
    for at, a in enumerate(factors):
        if type(a) is not Quotient and type(a) is not Div:
            continue
        (m, k), *others = polynomial(c := ix(a.c)).items()
        rest = without((*factors[:at], *factors[at + 1 :]), m)  # of a power of a quotient one is taken
        if rest is None or others:
            continue
        if lo >= 0 and a.e.lo >= 0:  # (x // c) * c <= x
            hi = min(hi, multiply(a.e, monomial(rest)).hi // k)
        elif lo < 0:  # x - c < (x // c) * c
            ends = [x * y for x, y in itertools.product((a.e.lo - c.hi + 1, a.e.hi), product_interval(rest))]
            lo, hi = max(lo, min(ends) // k), min(hi, max(ends) // k)
    return lo, hi


def quotient_interval(e: Ix, c: Ix) -> tuple[int, int]:
    """Integers that e // c lies between."""
    ends = [x // y for x in (e.lo, e.hi) for y in (max(1, c.lo), c.hi)]
    lo, hi = min(ends), max(ends)
    top = _quotient_top(e, polynomial(c))
    if top is not None:
        hi = min(hi, int(bound(top, 1)))
    return lo, hi


# ------------------------------------------------------------------------------------------------ division


@dataclass(frozen=True)
class Rule:
    """One simplification of e // c: `statement` is what the tests prove, `apply(e, c)` returns the result or None."""

    name: str
    statement: str
    apply: Callable[[Ix, Ix], Ix | None]


def _nested(e: Ix, c: Ix) -> Ix | None:
    if e.c == 0 and len(e.terms) == 1 and e.terms[0][1] == 1 and type(a := e.terms[0][0]) in (Div, Quotient):
        return divide(a.e, multiply(ix(a.c), c))  # type: ignore[union-attr]
    return None


def _multiples(e: Ix, c: Ix) -> Ix | None:
    q, r = quotient_and_rest(polynomial(e), polynomial(c))
    rest = expression(r)
    for m in (0, -1, 1):
        if nonnegative(rest - m * c) and nonnegative(c - 1 - rest + m * c):
            return expression(q) + m
    return None


def _low_part(e: Ix, c: Ix) -> Ix | None:
    for g, other in _divisors(c):
        x, b = quotient_and_rest(polynomial(e), polynomial(g))
        rest = expression(b)
        if x and nonnegative(rest) and nonnegative(g - 1 - rest):
            return divide(expression(x), other)
    return None


def _divisors(c: Ix) -> Iterator[tuple[Ix, Ix]]:
    """(g, x) with g * x = c for the proper divisors of a single product, the larger ones first."""
    if c.c or len(c.terms) != 1:
        return
    atom, k = c.terms[0]
    m = index.factors(atom)
    found: dict[Monomial, None] = {}
    for n in range(len(m), -1, -1):
        found.update(dict.fromkeys(itertools.combinations(m, n)))
    for inside in found:
        rest = without(m, inside)
        assert rest is not None
        for d in sorted((d for d in range(1, min(k, 4096) + 1) if k % d == 0), reverse=True):
            if (inside or d > 1) and (rest or d < k):
                yield d * monomial(inside), (k // d) * monomial(rest)


def _reduce(e: Ix, c: Ix) -> Ix | None:
    q, r = quotient_and_rest(polynomial(e), polynomial(c))
    return expression(q) + divide(expression(r), c) if q else None


RULES: tuple[Rule, ...] = (
    Rule("nested", "(x // a) // c == x // (a*c)", _nested),
    Rule("multiples", "(c*q + r) // c == q + m  if  c*m <= r < c*(m+1)", _multiples),
    Rule("low_part", "(g*x + b) // (g*c) == x // c  if  0 <= b < g", _low_part),
    Rule("reduce", "(c*q + r) // c == q + r // c", _reduce),
)


def divide(e: Ix, c: Ix) -> Ix:
    """floor(e / c).  Raises ValueError unless c > 0 for all sizes, or by a guard.

    As in division.py, no rule is applied whose dividend may leave int64.
    """
    if not _is_divisor(c):
        raise ValueError(f"index division by {c!r}; the divisor must be positive for all sizes")
    if not e.terms and not c.terms:
        return ix(e.c // c.c)
    if not e.sizes and not c.terms:
        return divide_by_constant(e, c.c)
    for rule in RULES:
        result = rule.apply(e, c)
        if result is not None and not any(_exceeds(a.e) for a in index.divisions(result)):
            return result
    return index.quotient(e, c) if c.terms else divide_by_constant(e, c.c)


_divisors_by_guard: set[Ix] = set()


def _is_divisor(c: Ix) -> bool:
    """Whether c is positive for all sizes, or where the assumptions hold under which it was divided by."""
    if c.lo > 0:
        return True
    if not c.is_extent or c.hi <= 0:
        return False
    if nonnegative(c - 1):
        return True
    from assay.core import sizes

    if sizes.current() is None:
        return c in _divisors_by_guard
    if not sizes.holds("ge", c - 1):
        return False
    _divisors_by_guard.add(c)
    return True


def _exceeds(e: Ix) -> bool:
    return e.lo < -(1 << 63) or e.hi >= 1 << 63


# ------------------------------------------------------------------------------------------------ walks


def limits(es: Iterable[Ix]) -> dict[Monomial, None]:
    """The products of sizes that the expressions reach, those under divisions too: each is at most LIMIT.

    A variable reaches its axis: of i*w, where i < a, that is a*w.
    """
    found: dict[Monomial, None] = {}
    seen: set[Atom] = set()
    todo = list(es)
    while todo:
        for a, _ in todo.pop().terms:
            if a in seen:
                continue
            seen.add(a)
            reached: Polynomial = {(): 1}
            for x in index.factors(a):
                reached = times(reached, {(x,): 1} if type(x) is Size else top(x))
                if type(x) is Div or type(x) is Quotient:
                    todo += [x.e, ix(x.c)]
                elif type(x) is Var and is_symbolic(x.n):
                    todo.append(x.n)
            found.update((m, None) for m in reached if len(m) > 1)
    return found


__all__ = ["LIMIT", "Atom", "Product", "Terms", "divide", "interval", "limits", "multiply", "nonnegative"]
