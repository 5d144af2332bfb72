"""Integers and conditions of a kernel: interned polynomials with integer coefficients over atoms.

    Poly = sum of coefficient * product of atoms                 the mathematical integers; every Poly has an interval
    Atom = Leaf(name)                       a size, a program id, a lane, an iteration, or a value that is not known
         | Op(div | mod | min | max, P, Q)  floor division and its remainder (by a divisor that is positive)
         | Op(select, c, P, Q)              P where c holds, else Q
         | Op(and | or | xor, P, Q)         the bits of two's complement
    Cond = p >= 0 | p == 0 | not c | c and ... | c or ...

Everything is interned: equal terms are the same object.  Conditions that the intervals decide are constants.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

_numbers = itertools.count()


class Leaf:
    """An integer without structure, in [lo, hi]; `arguments` are what it is a function of (equal arguments, equal values).

    `lower` and `upper` are further bounds, which hold wherever the leaf occurs.  `kind` is size, program, lane, iteration,
    loaded (an element of an input: any value of its range can occur) or unknown (`why` says what it is).
    """

    __slots__ = ("arguments", "hi", "kind", "lo", "lower", "name", "number", "upper", "why")

    def __init__(
        self,
        name: str,
        lo: int,
        hi: int,
        kind: str,
        arguments: tuple[Poly, ...] = (),
        why: str = "",
        lower: Poly | None = None,
        upper: Poly | None = None,
    ) -> None:
        self.name, self.lo, self.hi, self.kind, self.arguments, self.why = name, lo, hi, kind, arguments, why
        self.lower, self.upper = lower, upper
        self.number = next(_numbers)

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(map(repr, self.arguments))})" if self.arguments else self.name


class Op:
    """div, mod, min, max, and, or, xor of two polynomials; select of a condition and two."""

    __slots__ = ("args", "hi", "lo", "name", "number")
    args: tuple[Any, ...]

    def __init__(self, name: str, args: tuple[Any, ...], lo: int, hi: int) -> None:
        self.name, self.args, self.lo, self.hi = name, args, lo, hi
        self.number = next(_numbers)

    def __repr__(self) -> str:
        sign = {"div": "//", "mod": "%", "and": "&", "or": "|", "xor": "^"}.get(self.name)
        if sign:
            return f"({self.args[0]!r} {sign} {self.args[1]!r})"
        return f"{self.name}({', '.join(map(repr, self.args))})"


Atom: TypeAlias = Leaf | Op
Monomial: TypeAlias = "tuple[Atom, ...]"
Terms: TypeAlias = "tuple[tuple[Monomial, int], ...]"


class Poly:
    """A sum of coefficient * monomial."""

    __slots__ = ("hi", "lo", "number", "terms")

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.number = next(_numbers)
        self.lo, self.hi = _interval(terms)

    def __repr__(self) -> str:
        return " + ".join(_product(m, k) for m, k in self.terms).replace("+ -", "- ") or "0"

    def __add__(self, other: Poly | int) -> Poly:
        return _sum(((1, self), (1, poly(other))))

    __radd__ = __add__

    def __sub__(self, other: Poly | int) -> Poly:
        return _sum(((1, self), (-1, poly(other))))

    def __rsub__(self, other: int) -> Poly:
        return _sum(((1, poly(other)), (-1, self)))

    def __neg__(self) -> Poly:
        return _sum(((-1, self),))

    def __mul__(self, other: Poly | int) -> Poly:
        if isinstance(other, int):
            return _sum(((other, self),))
        total: dict[Monomial, int] = {}
        for m, k in self.terms:
            for n, q in other.terms:
                product = tuple(sorted(m + n, key=_number)) if m and n else m or n
                total[product] = total.get(product, 0) + k * q
        return _poly(total)

    __rmul__ = __mul__

    @property
    def constant(self) -> int | None:
        """The value, where it is one."""
        if not self.terms:
            return 0
        return self.terms[0][1] if len(self.terms) == 1 and not self.terms[0][0] else None

    @property
    def offset(self) -> int:
        """The constant summand."""
        return self.terms[0][1] if self.terms and not self.terms[0][0] else 0

    @property
    def atoms(self) -> list[Atom]:
        """Each atom of a monomial once."""
        return list(dict.fromkeys(a for m, _ in self.terms for a in m))


def _number(x: Any) -> int:
    return x.number


def _product(m: Monomial, k: int) -> str:
    factors = "*".join(map(repr, m))
    return str(k) if not m else factors if k == 1 else f"-{factors}" if k == -1 else f"{k}*{factors}"


def _times(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    ends = a[0] * b[0], a[0] * b[1], a[1] * b[0], a[1] * b[1]
    return min(ends), max(ends)


def _interval(terms: Terms) -> tuple[int, int]:
    lo = hi = 0
    for m, k in terms:
        if not m:
            lo, hi = lo + k, hi + k
            continue
        low, high = m[0].lo, m[0].hi
        for a in m[1:]:
            low, high = _times((low, high), (a.lo, a.hi))
        if k > 0:
            lo, hi = lo + k * low, hi + k * high
        else:
            lo, hi = lo + k * high, hi + k * low
    return lo, hi


_polys: dict[Terms, Poly] = {}
_ops: dict[tuple[Any, ...], Op] = {}
_leaves: dict[tuple[Any, ...], Leaf] = {}


def _key(t: tuple[Monomial, int]) -> tuple[int, ...]:
    return (len(t[0]), *(a.number for a in t[0]))


def _poly(total: Mapping[Monomial, int]) -> Poly:
    terms = tuple(sorted(((m, k) for m, k in total.items() if k), key=_key))
    found = _polys.get(terms)
    return found if found is not None else _polys.setdefault(terms, Poly(terms))


def _sum(parts: Iterable[tuple[int, Poly]]) -> Poly:
    total: dict[Monomial, int] = {}
    for k, p in parts:
        for m, q in p.terms:
            total[m] = total.get(m, 0) + k * q
    return _poly(total)


def poly(x: Poly | Atom | int) -> Poly:
    """`x` as a polynomial; an atom with one possible value is that value."""
    if isinstance(x, Poly):
        return x
    if isinstance(x, Leaf | Op):
        return _poly({(x,): 1}) if x.lo != x.hi else _poly({(): x.lo})
    return _poly({(): int(x)})


def leaf(
    name: str,
    lo: int,
    hi: int,
    kind: str,
    arguments: tuple[Poly, ...] = (),
    *,
    why: str = "",
    lower: Poly | None = None,
    upper: Poly | None = None,
) -> Poly:
    """The leaf of this name, kind, range and arguments (the same one each time)."""
    key = name, lo, hi, kind, arguments, lower, upper
    found = _leaves.get(key)
    if found is None:
        found = _leaves.setdefault(key, Leaf(name, lo, hi, kind, arguments, why, lower, upper))
    return poly(found)


def fresh(name: str, lo: int, hi: int, kind: str, *, why: str = "", lower: Poly | None = None, upper: Poly | None = None) -> Poly:
    """A leaf that occurs nowhere else yet."""
    return leaf(f"{name}'{next(_numbers)}", lo, hi, kind, why=why, lower=lower, upper=upper)


def _op(name: str, args: tuple[Any, ...], lo: int, hi: int) -> Poly:
    key = name, *args
    found = _ops.get(key)
    if found is None:
        found = _ops.setdefault(key, Op(name, args, lo, hi))
    return poly(found)


# ------------------------------------------------------------------------------------------------ operations


def quotient(p: Poly, m: Monomial, k: int) -> tuple[Poly, Poly]:
    """(a, r) with p = k*m*a + r: a collects the terms that k*m divides."""
    whole: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for n, q in p.terms:
        left = _without(n, m)
        if left is None or q % k:
            rest[n] = q
        else:
            whole[left] = q // k
    return _poly(whole), _poly(rest)


def _without(n: Monomial, m: Monomial) -> Monomial | None:
    left = list(n)
    for a in m:
        if a not in left:
            return None
        left.remove(a)
    return tuple(left)


def floordiv(p: Poly, q: Poly) -> Poly:
    """floor(p / q), q > 0."""
    d = q.constant
    if d == 1:
        return p
    if d is not None and p.constant is not None:
        return poly(p.constant // d)
    whole, rest = poly(0), p
    if len(q.terms) == 1:
        m, k = q.terms[0]
        whole, rest = quotient(p, m, k)
        if d is not None and rest.offset // d:
            whole, rest = whole + rest.offset // d, rest - rest.offset // d * d
    if q.lo > 0 and rest.lo >= 0 and rest.hi < q.lo:
        return whole
    lo, hi = _div_interval(rest, q)
    return whole + _op("div", (rest, q), lo, hi)


def _div_interval(p: Poly, q: Poly) -> tuple[int, int]:
    low, high = max(q.lo, 1), max(q.hi, 1)
    ends = p.lo // low, p.lo // high, p.hi // low, p.hi // high
    return min(ends), max(ends)


def mod(p: Poly, q: Poly) -> Poly:
    """p - q * floor(p / q), q > 0."""
    if q.constant == 1:
        return poly(0)
    if q.constant is not None and p.constant is not None:
        return poly(p.constant % q.constant)
    rest = p
    if len(q.terms) == 1:
        m, k = q.terms[0]
        _, rest = quotient(p, m, k)
        if q.constant is not None:
            rest = rest - rest.offset // q.constant * q.constant
    if q.lo > 0 and rest.lo >= 0 and rest.hi < q.lo:
        return rest
    high = max(q.hi - 1, 0)
    return _op("mod", (rest, q), 0, min(high, rest.hi) if rest.lo >= 0 else high)


def minimum(p: Poly, q: Poly) -> Poly:
    """The smaller of two."""
    if p is q or p.hi <= q.lo:
        return p
    if q.hi <= p.lo:
        return q
    return _op("min", (p, q), min(p.lo, q.lo), min(p.hi, q.hi))


def maximum(p: Poly, q: Poly) -> Poly:
    """The larger of two."""
    if p is q or p.lo >= q.hi:
        return p
    if q.lo >= p.hi:
        return q
    return _op("max", (p, q), max(p.lo, q.lo), max(p.hi, q.hi))


def select(c: Cond, p: Poly, q: Poly) -> Poly:
    """p where c holds, else q."""
    if p is q or c is TRUE:
        return p
    if c is FALSE:
        return q
    return _op("select", (c, p, q), min(p.lo, q.lo), max(p.hi, q.hi))


def bits(name: str, p: Poly, q: Poly) -> Poly:
    """The bitwise and, or, xor of two integers in two's complement."""
    if p.constant is not None and q.constant is not None:
        a, b = p.constant, q.constant
        return poly({"and": a & b, "or": a | b, "xor": a ^ b}[name])
    if name == "and":
        for x, m in ((p, q.constant), (q, p.constant)):
            if m is not None and m >= 0 and m & (m + 1) == 0:  # the low bits
                return mod(x, poly(m + 1))
    if p is q:
        return poly(0) if name == "xor" else p
    if name == "xor":  # the complement
        for x, m in ((p, q.constant), (q, p.constant)):
            if m == -1 or (m is not None and m >= 0 and m & (m + 1) == 0 and 0 <= x.lo and x.hi <= m):
                return m - x
    width = max(x.bit_length() for x in (p.lo, p.hi, q.lo, q.hi))
    lo, hi = -(1 << width), (1 << width) - 1
    if p.lo >= 0 and q.lo >= 0:
        lo, hi = 0, min(p.hi, q.hi) if name == "and" else hi
    elif name == "and" and (p.lo >= 0 or q.lo >= 0):
        lo, hi = 0, p.hi if p.lo >= 0 else q.hi
    return _op(name, (p, q), lo, hi)


# ------------------------------------------------------------------------------------------------ conditions


class Cond:
    """A condition: `kind` is true, false, ge (p >= 0), eq (p == 0), not, and, or."""

    __slots__ = ("args", "kind", "number")
    args: tuple[Any, ...]

    def __init__(self, kind: str, args: tuple[Any, ...]) -> None:
        self.kind, self.args = kind, args
        self.number = next(_numbers)

    def __repr__(self) -> str:
        if self.kind in ("ge", "eq"):
            return f"{self.args[0]!r} {'>=' if self.kind == 'ge' else '=='} 0"
        if self.kind == "not":
            return f"not ({self.args[0]!r})"
        return f" {self.kind} ".join(f"({c!r})" for c in self.args) or self.kind


_conds: dict[tuple[Any, ...], Cond] = {}


def _cond(kind: str, args: tuple[Any, ...] = ()) -> Cond:
    found = _conds.get((kind, *args))
    return found if found is not None else _conds.setdefault((kind, *args), Cond(kind, args))


TRUE, FALSE = _cond("true"), _cond("false")


def _content(p: Poly) -> int:
    return math.gcd(*(k for m, k in p.terms if m))


def tightened(p: Poly) -> Poly:
    """q with q >= 0 if and only if p >= 0: coefficients without a common factor."""
    g = _content(p)
    return _poly({m: k // g for m, k in p.terms}) if g > 1 else p


def nonnegative(p: Poly) -> Cond:
    """p >= 0"""
    if p.lo >= 0:
        return TRUE
    if p.hi < 0:
        return FALSE
    return _cond("ge", (tightened(p),))


def zero(p: Poly) -> Cond:
    """p == 0"""
    if p.lo == p.hi == 0:
        return TRUE
    g = _content(p)
    if p.lo > 0 or p.hi < 0 or (g > 1 and p.offset % g):
        return FALSE
    q = _poly({m: k // g for m, k in p.terms}) if g > 1 else p
    return _cond("eq", (q if q.terms[-1][1] > 0 else -q,))


def less(p: Poly, q: Poly) -> Cond:
    """p < q"""
    return nonnegative(q - p - 1)


def at_most(p: Poly, q: Poly) -> Cond:
    """p <= q"""
    return nonnegative(q - p)


def equal(p: Poly, q: Poly) -> Cond:
    """p == q"""
    return zero(p - q)


def negation(c: Cond) -> Cond:
    """not c"""
    if c.kind == "not":
        return c.args[0]
    if c.kind == "ge":
        return nonnegative(-c.args[0] - 1)
    if c.kind in ("and", "or"):
        return (any_of if c.kind == "and" else all_of)(negation(x) for x in c.args)
    return {"true": FALSE, "false": TRUE}.get(c.kind) or _cond("not", (c,))


def all_of(cs: Iterable[Cond]) -> Cond:
    """c and ..."""
    return _join(cs, "and", TRUE, FALSE)


def any_of(cs: Iterable[Cond]) -> Cond:
    """c or ..."""
    return _join(cs, "or", FALSE, TRUE)


def _join(cs: Iterable[Cond], kind: str, unit: Cond, end: Cond) -> Cond:
    found: dict[Cond, None] = {}
    for c in cs:
        for x in c.args if c.kind == kind else (c,):
            if x is end or negation(x) in found:
                return end
            if x is not unit:
                found[x] = None
    parts = tuple(found)
    return unit if not parts else parts[0] if len(parts) == 1 else _cond(kind, parts)


def conjuncts(c: Cond) -> tuple[Cond, ...]:
    """The conditions that together say `c`."""
    return c.args if c.kind == "and" else () if c is TRUE else (c,)


def as_integer(c: Cond) -> Poly:
    """1 where c holds, else 0."""
    return select(c, poly(1), poly(0))


# ------------------------------------------------------------------------------------------------ substitution


class Substitution:
    """Replaces atoms by polynomials, in polynomials and conditions; `images` returns None for one that stays.

    Arguments of a leaf are rewritten too: it becomes the same function of the new arguments.
    """

    def __init__(self, images: Callable[[Any], Poly | None]) -> None:
        self.images = images
        self.known: dict[Any, Any] = {}

    def poly(self, p: Poly) -> Poly:
        found = self.known.get(p)
        if found is None:
            found = p
            images = {a: self._atom(a) for a in p.atoms}
            if any(not _is_atom(image, a) for a, image in images.items()):
                found = poly(0)
                for m, k in p.terms:
                    product = poly(k)
                    for a in m:
                        product = product * images[a]
                    found = found + product
            self.known[p] = found
        return found

    def _atom(self, a: Atom) -> Poly:
        found = self.known.get(a)
        if found is None:
            found = self.images(a)
            if found is None:
                found = self._leaf(a) if isinstance(a, Leaf) else self._rebuilt(a)
            self.known[a] = found
        return found

    def _leaf(self, a: Leaf) -> Poly:
        arguments = tuple(self.poly(x) for x in a.arguments)
        lower = self.poly(a.lower) if a.lower is not None else None
        upper = self.poly(a.upper) if a.upper is not None else None
        if arguments == a.arguments and lower is a.lower and upper is a.upper:
            return poly(a)
        return leaf(a.name, a.lo, a.hi, a.kind, arguments, why=a.why, lower=lower, upper=upper)

    def _rebuilt(self, a: Op) -> Poly:
        args = tuple(self.cond(x) if isinstance(x, Cond) else self.poly(x) for x in a.args)
        return poly(a) if args == a.args else rebuilt(a.name, args)

    def cond(self, c: Cond) -> Cond:
        found = self.known.get(c)
        if found is None:
            args = tuple(self.cond(x) if isinstance(x, Cond) else self.poly(x) for x in c.args)
            if args == c.args:
                found = c
            else:
                found = _MAKE[c.kind](args)
            self.known[c] = found
        return found


_MAKE: dict[str, Callable[[tuple[Any, ...]], Cond]] = {
    "ge": lambda a: nonnegative(a[0]),
    "eq": lambda a: zero(a[0]),
    "not": lambda a: negation(a[0]),
    "and": all_of,
    "or": any_of,
}


def rebuilt(name: str, args: tuple[Any, ...]) -> Poly:
    """The operation of this name on these arguments, simplified."""
    if name in ("and", "or", "xor"):
        return bits(name, *args)
    return {"div": floordiv, "mod": mod, "min": minimum, "max": maximum, "select": select}[name](*args)


def _is_atom(p: Poly, a: Atom) -> bool:
    return p.terms == (((a,), 1),)


def substitute(x: Any, values: Mapping[Any, Poly]) -> Any:
    """The polynomial or condition `x` with atoms replaced."""
    s = Substitution(values.get)
    return s.cond(x) if isinstance(x, Cond) else s.poly(x)


def walk(roots: Iterable[Poly | Cond]) -> list[Atom]:
    """Every atom that the terms are made of, those in bounds of leaves too; what an atom is made of comes before it."""
    found: dict[Atom, None] = {}
    done: set[Any] = set()
    stack: list[tuple[Any, bool]] = [(x, False) for x in roots]
    while stack:
        x, ready = stack.pop()
        if ready:
            found[x] = None
            continue
        if x in done:
            continue
        done.add(x)
        if isinstance(x, Poly):
            stack += [(a, False) for a in x.atoms]
        elif isinstance(x, Cond):
            stack += [(y, False) for y in x.args]
        else:
            stack.append((x, True))
            inner = x.args if isinstance(x, Op) else (*x.arguments, *(b for b in (x.lower, x.upper) if b is not None))
            stack += [(y, False) for y in inner]
    return list(found)
