"""Integer index expressions, simplified at construction.

    Ix   = c + sum k * atom                      c, k integers; terms sorted by atom, no zero coefficient
    atom = Var(level, n)      0 <= var < n
         | Div(e, c)          floor(e / c), c > 0; it is the only non-affine atom: e % c is e - c * (e // c)
         | Val(e)             an integer scalar expression read as an index

Everything is interned: equal expressions are the same object.  The range of a variable is part of the variable,
so simplification needs no context.  Arithmetic is that of the mathematical integers.
Every simplification is one `Rule` of `RULES`; the tests prove each with z3.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from assay.core.lang import E

_EMPTY: frozenset[Var] = frozenset()
_fresh = itertools.count(1 << 20)


class Var:
    """A loop variable or tensor axis: 0 <= var < n.  `level` is its canonical name."""

    __slots__ = ("free", "hi", "key", "level", "lo", "n")
    level: int
    n: int
    key: tuple[Any, ...]
    free: frozenset[Var]
    lo: int
    hi: int

    def __repr__(self) -> str:
        return f"i{self.level}" if self.level < 1 << 20 else f"t{self.level - (1 << 20)}"


class Div:
    """floor(e / c), c > 0."""

    __slots__ = ("c", "e", "free", "hi", "key", "lo")
    e: Ix
    c: int
    key: tuple[Any, ...]
    free: frozenset[Var]
    lo: int
    hi: int

    def __repr__(self) -> str:
        return f"({self.e!r})//{self.c}"


class Val:
    """The value of an integer scalar expression, as an index; its range is that of the expression."""

    __slots__ = ("e", "free", "hi", "key", "lo")
    e: E
    key: tuple[Any, ...]
    free: frozenset[Var]
    lo: int
    hi: int

    def __repr__(self) -> str:
        return f"<{self.e!r}>"


Atom: TypeAlias = Var | Div | Val
Terms: TypeAlias = tuple[tuple[Atom, int], ...]


class Ix:
    """c + sum k * atom, with the interval [lo, hi] it lies in and the variables it depends on."""

    __slots__ = ("c", "free", "hi", "key", "lo", "terms")
    c: int
    terms: Terms
    free: frozenset[Var]
    lo: int
    hi: int
    key: tuple[Any, ...]

    def __repr__(self) -> str:
        text = "+".join(f"{k}*{a!r}" if k != 1 else repr(a) for a, k in self.terms)
        if not text:
            return str(self.c)
        return text + (f"{self.c:+d}" if self.c else "")

    def __add__(self, other: Ix | Var | int) -> Ix:
        return affine(((1, self), (1, ix(other))))

    __radd__ = __add__

    def __sub__(self, other: Ix | Var | int) -> Ix:
        return affine(((1, self), (-1, ix(other))))

    def __rsub__(self, other: Ix | Var | int) -> Ix:
        return affine(((1, ix(other)), (-1, self)))

    def __mul__(self, k: int) -> Ix:
        return affine(((k, self),))

    __rmul__ = __mul__

    def __neg__(self) -> Ix:
        return affine(((-1, self),))

    def __floordiv__(self, c: int) -> Ix:
        return floordiv(self, c)

    def __mod__(self, c: int) -> Ix:
        return self - c * floordiv(self, c)

    @property
    def is_const(self) -> bool:
        return not self.terms


_vars: dict[tuple[int, int], Var] = {}
_divs: dict[tuple[Ix, int], Div] = {}
_vals: dict[E, Val] = {}
_ixs: dict[tuple[int, Terms], Ix] = {}


def variable(level: int, n: int) -> Var:
    """The variable named by `level` with 0 <= v < n."""
    found = _vars.get((level, n))
    if found is None:
        found = _vars[level, n] = Var()
        found.level, found.n, found.key, found.lo, found.hi = level, n, (0, level, n), 0, n - 1
        found.free = frozenset((found,))
    return found


def fresh(n: int) -> Var:
    """A variable that occurs nowhere else yet."""
    return variable(next(_fresh), n)


def _ix(c: int, terms: Terms) -> Ix:
    found = _ixs.get((c, terms))
    if found is None:
        found = _ixs[c, terms] = Ix()
        found.c, found.terms = c, terms
        found.free = _EMPTY.union(*(a.free for a, _ in terms)) if terms else _EMPTY
        found.key = (c, tuple((a.key, k) for a, k in terms))
        found.lo, found.hi = _interval(c, terms)
    return found


def _atom(a: Atom) -> Ix:
    return _ix(0, ((a, 1),))


def ix(x: Ix | Var | Val | int) -> Ix:
    """`x` as an index expression; a variable with n = 1 is the constant 0."""
    if isinstance(x, Ix):
        return x
    if isinstance(x, Var):
        return _atom(x) if x.n != 1 else _ix(0, ())
    if isinstance(x, Val):
        return _atom(x)
    return _ix(int(x), ())


def value(e: E) -> Ix:
    """The index that is the value of the integer expression `e` (see lang.as_index, which simplifies first)."""
    found = _vals.get(e)
    if found is None:
        found = _vals[e] = Val()
        found.e, found.key, found.free, found.lo, found.hi = e, (2, e.digest, e.id), e.free, e.lo, e.hi
    return _atom(found) if found.lo != found.hi else _ix(found.lo, ())


def affine(parts: Iterable[tuple[int, Ix]]) -> Ix:
    """sum of k * e over the (k, e) in `parts`."""
    c = 0
    total: dict[Atom, int] = {}
    for k, e in parts:
        c += k * e.c
        for a, q in e.terms:
            total[a] = total.get(a, 0) + k * q
    return _ix(c, _sorted(total))


def _sorted(total: Mapping[Atom, int]) -> Terms:
    return tuple(sorted(((a, q) for a, q in total.items() if q), key=lambda t: t[0].key))


def _plain_interval(c: int, terms: Terms) -> tuple[int, int]:
    lo = hi = c
    for a, k in terms:
        if k > 0:
            lo, hi = lo + k * a.lo, hi + k * a.hi
        else:
            lo, hi = lo + k * a.hi, hi + k * a.lo
    return lo, hi


def _interval(c: int, terms: Terms) -> tuple[int, int]:
    """Interval of c + terms; knows that m * (e - d * (e // d)), written out, lies between 0 and m * (d - 1)."""
    lo, hi = _plain_interval(c, terms)
    for a, k in terms:
        if type(a) is not Div or k % a.c:
            continue
        m = -k // a.c
        rest = dict(terms)
        del rest[a]
        for b, q in a.e.terms:
            rest[b] = rest.get(b, 0) - m * q
        rest = {b: q for b, q in rest.items() if q}
        if len(rest) > len(terms):
            continue
        deeper = len(rest) < len(terms) and any(type(b) is Div for b in rest)
        lo2, hi2 = (_interval if deeper else _plain_interval)(c - m * a.e.c, tuple(rest.items()))
        width = m * (a.c - 1)
        lo, hi = max(lo, lo2 + min(0, width)), min(hi, hi2 + max(0, width))
    return lo, hi


# ------------------------------------------------------------------------------------------------ floor division


@dataclass(frozen=True)
class Rule:
    """One simplification of e // c: `statement` is what the tests prove, `apply(e, c)` returns the result or None."""

    name: str
    statement: str
    apply: Callable[[Ix, int], Ix | None]


def _unit(e: Ix, c: int) -> Ix | None:
    return e if c == 1 else None


def _nested(e: Ix, c: int) -> Ix | None:
    if e.c == 0 and len(e.terms) == 1 and e.terms[0][1] == 1 and type(a := e.terms[0][0]) is Div:
        return floordiv(a.e, a.c * c)
    return None


def _multiples(e: Ix, c: int) -> Ix | None:
    rest = _ix(e.c % c, tuple((a, k) for a, k in e.terms if k % c))
    if rest.lo // c != rest.hi // c:
        return None
    return _ix(e.c // c, tuple((a, k // c) for a, k in e.terms if k % c == 0)) + rest.lo // c


def _reduce(e: Ix, c: int) -> Ix | None:
    if e.c == e.c % c and all(0 <= k < c for _, k in e.terms):
        return None
    whole = _ix(e.c // c, tuple((a, k // c) for a, k in e.terms if k // c))
    rest = _ix(e.c % c, tuple((a, k % c) for a, k in e.terms if k % c))
    return whole + floordiv(rest, c)


def _shifted_nested(e: Ix, c: int) -> Ix | None:
    if len(e.terms) == 1 and e.terms[0][1] == 1 and type(a := e.terms[0][0]) is Div:
        return floordiv(a.e + e.c * a.c, a.c * c)
    return None


def _common_factor(e: Ix, c: int) -> Ix | None:
    g = math.gcd(c, *(k for _, k in e.terms))
    if g == 1:
        return None
    return floordiv(_ix(e.c // g, tuple((a, k // g) for a, k in e.terms)), c // g)


def _low_part(e: Ix, c: int) -> Ix | None:
    for g in sorted({k for _, k in e.terms if k > 1 and c % k == 0}, reverse=True):
        low = _ix(e.c % g, tuple((a, k) for a, k in e.terms if k % g))
        if low.lo >= 0 and low.hi < g:
            return floordiv(_ix(e.c // g, tuple((a, k // g) for a, k in e.terms if k % g == 0)), c // g)
    return None


RULES: tuple[Rule, ...] = (
    Rule("unit", "x // 1 == x", _unit),
    Rule("nested", "(x // a) // c == x // (a*c)", _nested),
    Rule("multiples", "(c*q + r) // c == q + m  if  c*m <= r < c*(m+1)", _multiples),
    Rule("reduce", "((c*q + s)*x + r) // c == q*x + (s*x + r) // c", _reduce),
    Rule("shifted_nested", "(x // a + k) // c == (x + k*a) // (a*c)", _shifted_nested),
    Rule("common_factor", "(g*x + k) // (g*c) == (x + k // g) // c", _common_factor),
    Rule("low_part", "(g*x + b) // (g*c) == x // c  if  0 <= b < g", _low_part),
)


def floordiv(e: Ix, c: int) -> Ix:
    """floor(e / c).  Raises ValueError unless c > 0."""
    if c <= 0:
        raise ValueError(f"index division by {c}; the divisor must be a positive integer")
    if not e.terms:
        return _ix(e.c // c, ())
    for rule in RULES:
        result = rule.apply(e, c)
        if result is not None:
            return result
    found = _divs.get((e, c))
    if found is None:
        found = _divs[e, c] = Div()
        found.e, found.c, found.key, found.free = e, c, (1, e.key, c), e.free
        found.lo, found.hi = e.lo // c, e.hi // c
    return _atom(found)


# ------------------------------------------------------------------------------------------------ walks


def values(e: Ix) -> Iterable[Val]:
    """The Val atoms of `e`, those under divisions too."""
    for a, _ in e.terms:
        if type(a) is Val:
            yield a
        elif type(a) is Div:
            yield from values(a.e)


def divisions(e: Ix) -> Iterable[Div]:
    """The Div atoms of `e`, outermost first."""
    for a, _ in e.terms:
        if type(a) is Div:
            yield a
            yield from divisions(a.e)


def rewrite(e: Ix, atom: Callable[[Var | Val], Ix]) -> Ix:
    """`e` with every variable and value replaced by atom(it), simplified again."""
    parts: list[tuple[int, Ix]] = [(1, _ix(e.c, ()))]
    for a, k in e.terms:
        parts.append((k, floordiv(rewrite(a.e, atom), a.c) if type(a) is Div else atom(a)))  # type: ignore[arg-type]
    return affine(parts)


def evaluate(e: Ix, env: Callable[[Var | Val], Any]) -> Any:
    """The value of `e`, given those of its variables and values (integers or integer arrays)."""
    result: Any = e.c
    for a, k in e.terms:
        result = result + k * (evaluate(a.e, env) // a.c if type(a) is Div else env(a))  # type: ignore[arg-type]
    return result
