"""Integer index expressions, simplified at construction.

    Ix   = c + sum k * atom                      c, k integers; terms sorted by atom, no zero coefficient
    atom = Var | Div | Val | Size | Product | Quotient (atoms.py)

An *extent* (of an axis, of a loop) is an integer or an Ix over sizes alone, which may stand wherever an integer is asked
for: it can be added, multiplied, divided; comparing it asks core/sizes.py, which answers for all sizes or states a guard;
what needs the number itself (n * 0.5, n & 1) states the guard that it is this one.

Everything is interned: equal expressions are the same object, also across threads (an object is published complete, by
`setdefault`, which is atomic).  The range of a variable is part of the variable,
so simplification needs no context.  Arithmetic is that of the mathematical integers.

Here: arithmetic, making and interning, walks.  Elsewhere: the intervals of sums (intervals.py), how floor divisions are
simplified (division.py, a table of rules, each proved with z3), expressions with sizes (polynomial.py).
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeGuard

from assay.core.atoms import Atom, Div, Factor, Product, Quotient, Size, Terms, Val, Var
from assay.core.intervals import interval

if TYPE_CHECKING:
    from assay.core.lang import E

_EMPTY: frozenset[Var] = frozenset()
_NO_SIZES: frozenset[Size] = frozenset()
_fresh = itertools.count(1 << 20)


def is_symbolic(n: object) -> TypeGuard[Ix]:
    """Whether an extent depends on sizes."""
    return type(n) is Ix


class Ix:
    """c + sum k * atom, with the interval [lo, hi] it lies in and the variables it depends on."""

    __slots__ = ("c", "free", "hi", "key", "lo", "sizes", "terms")
    c: int
    terms: Terms
    free: frozenset[Var]
    sizes: frozenset[Size]
    lo: int
    hi: int
    key: tuple[Any, ...]

    def __repr__(self) -> str:
        text = "+".join(f"{k}*{a!r}" if k != 1 else repr(a) for a, k in self.terms)
        if not text:
            return str(self.c)
        return text + (f"{self.c:+d}" if self.c else "")

    def __add__(self, other: Ix | Var | int) -> Ix:
        return affine(((1, self), (1, e))) if (e := operand(other)) is not None else fixed(operator.add, self, other)

    __radd__ = __add__

    def __sub__(self, other: Ix | Var | int) -> Ix:
        return affine(((1, self), (-1, e))) if (e := operand(other)) is not None else fixed(operator.sub, self, other)

    def __rsub__(self, other: Ix | Var | int) -> Ix:
        return affine(((1, e), (-1, self))) if (e := operand(other)) is not None else fixed(operator.sub, other, self)

    def __mul__(self, k: Ix | Var | int) -> Ix:
        if type(k) is int:
            return affine(((k, self),))
        return polynomial().multiply(self, e) if (e := operand(k)) is not None else fixed(operator.mul, self, k)

    __rmul__ = __mul__

    def __pow__(self, k: Any) -> Any:
        if type(k) is int and k >= 0:
            return math.prod([self] * k, start=ix(1))
        return int(self) ** k if isinstance(k, int | float) else NotImplemented  # a float: the size is fixed, as in n / 2

    def __rpow__(self, k: Any) -> Any:
        return k ** int(self) if isinstance(k, int | float) else NotImplemented

    def __pos__(self) -> Ix:
        return self

    def __neg__(self) -> Ix:
        return affine(((-1, self),))

    def __floordiv__(self, c: Ix | int) -> Ix:
        return quotient_of(self, c)

    def __rfloordiv__(self, e: int) -> Ix:
        return quotient_of(e, self)

    def __mod__(self, c: Ix | int) -> Ix:
        return self - c * self.__floordiv__(c) if operand(c) is not None else fixed(operator.mod, self, c)

    def __rmod__(self, e: int) -> Ix:
        return ix(e) % self if operand(e) is not None else fixed(operator.mod, e, self)

    def __divmod__(self, c: Ix | int) -> tuple[Ix, Ix]:
        return self // c, self % c

    def __rdivmod__(self, e: int) -> tuple[Ix, Ix]:
        return e // self, e % self

    @property
    def is_const(self) -> bool:
        return not self.terms

    @property
    def is_plain(self) -> bool:
        """Whether it is affine in variables: no division, no value."""
        for a, _ in self.terms:
            if type(a) is not Var:
                return False
        return True

    @property
    def is_extent(self) -> bool:
        """Whether it depends on sizes, and on nothing else."""
        return bool(self.sizes) and not self.free and not any(True for _ in values(self))

    # What follows is for extents, which stand for integers; other indices are compared by identity.

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, Ix | int):
            d = self - other
            if not d.terms or d.is_extent:
                return sizes().holds("eq", d)
        return fixed(operator.eq, self, other) if self.is_extent else NotImplemented

    def __lt__(self, other: Ix | int) -> bool:
        return sizes().holds("ge", e - self - 1) if (e := operand(other)) is not None else fixed(operator.lt, self, other)

    def __le__(self, other: Ix | int) -> bool:
        return sizes().holds("ge", e - self) if (e := operand(other)) is not None else fixed(operator.le, self, other)

    def __gt__(self, other: Ix | int) -> bool:
        return sizes().holds("ge", self - e - 1) if (e := operand(other)) is not None else fixed(operator.gt, self, other)

    def __ge__(self, other: Ix | int) -> bool:
        return sizes().holds("ge", self - e) if (e := operand(other)) is not None else fixed(operator.ge, self, other)

    def __bool__(self) -> bool:
        return not (self.is_const or self.is_extent) or not sizes().holds("eq", self)

    def __abs__(self) -> Ix:
        return self if self >= 0 else -self

    def __index__(self) -> int:
        return sizes().specialise(self)

    def __format__(self, spec: str) -> str:
        return f"{{={self!r}}}" if self.is_extent else repr(self)  # in a message: put in when the sizes are known

    def __float__(self) -> float:
        return float(sizes().specialise(self))

    def __truediv__(self, other: Any) -> Any:
        return float(self) / other

    def __rtruediv__(self, other: Any) -> Any:
        return other / float(self)

    def __and__(self, other: Any) -> Any:
        return fixed(operator.and_, self, other)

    def __or__(self, other: Any) -> Any:
        return fixed(operator.or_, self, other)

    def __xor__(self, other: Any) -> Any:
        return fixed(operator.xor, self, other)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __lshift__(self, other: Any) -> Any:
        return fixed(operator.lshift, self, other)

    def __rlshift__(self, other: Any) -> Any:
        return fixed(operator.lshift, other, self)

    def __rshift__(self, other: Any) -> Any:
        return fixed(operator.rshift, self, other)

    def __rrshift__(self, other: Any) -> Any:
        return fixed(operator.rshift, other, self)

    def __invert__(self) -> Ix:
        return -self - 1

    def __round__(self, digits: int = 0) -> Any:
        return self if digits >= 0 else round(int(self), digits)


def operand(x: object) -> Ix | None:
    """A number, variable or expression as an expression; None for what is neither."""
    if type(x) is Ix:
        return x
    return ix(x) if isinstance(x, int | Var | Val) or isinstance(x, Integral) else None  # type: ignore[arg-type]


def fixed(f: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    """f(a, b) of numbers: an extent becomes the one that it is, by a guard.  NotImplemented where one is no number."""
    if not (isinstance(a, Ix | Real) and isinstance(b, Ix | Real)):
        return NotImplemented
    return f(*(int(x) if isinstance(x, Ix) else x for x in (a, b)))


def quotient_of(a: Any, b: Any) -> Any:
    """a // b of extents and numbers: for all sizes where b is a positive integer (by a guard), else of the numbers."""
    e, c = operand(a), operand(b)
    if e is None or c is None:
        return fixed(operator.floordiv, a, b)
    numbers = all(x.is_const or x.is_extent for x in (e, c))
    if numbers and c.lo <= 0 and sizes().current() is not None and not c > 0:
        return fixed(operator.floordiv, e, c)
    return floordiv(e, c if c.terms else c.c)


def polynomial() -> Any:
    """The arithmetic of expressions with sizes (loaded on first use: concrete programs have none)."""
    from assay.core import polynomial

    return polynomial


def division() -> Any:
    """The rules of floor division (they are made of expressions: asked only where a quotient is new)."""
    from assay.core import division

    return division


def sizes() -> Any:
    """The decisions about extents."""
    from assay.core import sizes

    return sizes


# ------------------------------------------------------------------------------------------------ making and interning

_vars: dict[tuple[int, int], Var] = {}
_divs: dict[tuple[Ix, int], Div] = {}
_vals: dict[E, Val] = {}
_sizes: dict[tuple[str, int, int], Size] = {}
_products: dict[tuple[Factor, ...], Product] = {}
_size_quotients: dict[tuple[Ix, Ix], Quotient] = {}
_ixs: dict[tuple[int, Terms], Ix] = {}
_quotients: dict[tuple[Ix, int], Ix] = {}


def variable(level: int, n: int) -> Var:
    """The variable named by `level` with 0 <= v < n."""
    found = _vars.get((level, n))
    if found is None:
        made = Var()
        made.level, made.n, made.lo = level, n, 0
        made.free = frozenset((made,))
        if is_symbolic(n):
            if not n.terms:
                return variable(level, n.c)
            made.key, made.hi, made.sizes = (0, level, -1, n.key), n.hi - 1, n.sizes
        else:
            made.key, made.hi, made.sizes = (0, level, n), n - 1, _NO_SIZES
        found = _vars.setdefault((level, made.n), made)
    return found


def fresh(n: int) -> Var:
    """A variable that occurs nowhere else yet."""
    return variable(next(_fresh), n)


def size(name: str, lo: int = 1, hi: int = 1 << 40) -> Ix:
    """The size `name`, an integer in lo..hi, as an expression."""
    found = _sizes.get((name, lo, hi))
    if found is None:
        made = Size()
        made.name, made.lo, made.hi, made.key, made.free = name, lo, hi, (3, name, lo, hi), _EMPTY
        made.sizes = frozenset((made,))
        found = _sizes.setdefault((name, lo, hi), made)
    return from_atom(found) if lo != hi else interned(lo, ())


def product(factors: Iterable[Factor]) -> Atom:
    """Two or more atoms multiplied, as an atom."""
    ordered = tuple(sorted(factors, key=lambda a: a.key))
    found = _products.get(ordered)
    if found is None:
        made = Product()
        made.factors, made.key = ordered, (4, tuple([a.key for a in ordered]))
        made.free, made.sizes = _EMPTY.union(*(a.free for a in ordered)), _NO_SIZES.union(*(a.sizes for a in ordered))
        made.lo, made.hi = polynomial().product_interval(ordered)
        found = _products.setdefault(ordered, made)
    return found


def div(e: Ix, c: int) -> Ix:
    """floor(e / c) as an atom, c an integer; floordiv, which simplifies, is the way to make it."""
    found = _divs.get((e, c))
    if found is None:
        made = Div()
        made.e, made.c, made.key, made.free, made.sizes = e, c, (1, e.key, c), e.free, e.sizes
        made.lo, made.hi = e.lo // c, e.hi // c
        found = _divs.setdefault((e, c), made)
    return from_atom(found)


def quotient(e: Ix, c: Ix) -> Ix:
    """floor(e / c) as an atom; floordiv, which simplifies, is the way to make it."""
    found = _size_quotients.get((e, c))
    if found is None:
        made = Quotient()
        made.e, made.c, made.key, made.free, made.sizes = e, c, (5, e.key, c.key), e.free, e.sizes | c.sizes
        made.lo, made.hi = polynomial().quotient_interval(e, c)
        found = _size_quotients.setdefault((e, c), made)
    return from_atom(found)


def interned(c: int, terms: Terms) -> Ix:
    """c + terms as THE object that it is; the terms are sorted, without zero coefficients."""
    found = _ixs.get((c, terms))
    if found is None:
        made = Ix()
        made.c, made.terms = c, terms
        made.free = terms[0][0].free if terms else _EMPTY
        made.key = (c, tuple([(a.key, k) for a, k in terms]))
        made.lo, made.hi = interval(c, terms)
        made.sizes = _NO_SIZES
        for a, _ in terms:
            if not a.free <= made.free:
                made.free |= a.free
            if a.sizes:
                made.sizes |= a.sizes
        if made.sizes:
            made.lo, made.hi = polynomial().interval(made)
        found = _ixs.setdefault((c, terms), made)
    return found


def from_atom(a: Atom) -> Ix:
    """The atom as an expression."""
    return interned(0, ((a, 1),))


def ix(x: Ix | Var | Val | int) -> Ix:
    """`x` as an index expression; a variable with n = 1 is the constant 0."""
    if isinstance(x, Ix):
        return x
    if isinstance(x, Var):
        return from_atom(x) if x.hi or x.sizes else interned(0, ())
    if isinstance(x, Val):
        return from_atom(x)
    return interned(int(x), ())


def value(e: E) -> Ix:
    """The index that is the value of the integer expression `e` (see lang.as_index, which simplifies first)."""
    found = _vals.get(e)
    if found is None:
        made = Val()
        made.e, made.key, made.free, made.lo, made.hi, made.sizes = e, (2, e.digest, e.id), e.free, e.lo, e.hi, _NO_SIZES
        found = _vals.setdefault(e, made)
    return from_atom(found) if found.lo != found.hi else interned(found.lo, ())


def affine(parts: Iterable[tuple[int, Ix]]) -> Ix:
    """sum of k * e over the (k, e) in `parts`; a k may be an extent."""
    c = 0
    total: dict[Atom, int] = {}
    for k, e in parts:
        if is_symbolic(k):
            k, e = 1, polynomial().multiply(k, e)
        c += k * e.c
        for a, q in e.terms:
            total[a] = total.get(a, 0) + k * q
    return interned(c, _sorted(total))


def _sorted(total: Mapping[Atom, int]) -> Terms:
    terms = [term for term in total.items() if term[1]]
    if len(terms) > 1:
        terms.sort(key=_key)
    return tuple(terms)


def _key(term: tuple[Atom, int]) -> tuple[Any, ...]:
    return term[0].key


def floordiv(e: Ix, c: Ix | int) -> Ix:
    """floor(e / c), simplified.  Raises ValueError unless c > 0 for all sizes."""
    if type(c) is not int:
        return polynomial().divide(e, ix(c))
    if c <= 0:
        raise ValueError(f"index division by {c}; the divisor must be a positive integer")
    if not e.terms:
        return interned(e.c // c, ())
    found = _quotients.get((e, c))
    if found is None:
        found = _quotients.setdefault((e, c), polynomial().divide(e, ix(c)) if e.sizes else division().divide_by_constant(e, c))
    return found


# ------------------------------------------------------------------------------------------------ walks


def factors(a: Atom) -> tuple[Factor, ...]:
    """The atoms that `a` is a product of."""
    return a.factors if type(a) is Product else (a,)  # type: ignore[return-value]


def values(e: Ix) -> Iterable[Val]:
    """The Val atoms of `e`, those under divisions too."""
    for term, _ in e.terms:
        for a in factors(term):
            if type(a) is Val:
                yield a
            elif type(a) is Div or type(a) is Quotient:
                yield from values(a.e)


def divisions(e: Ix) -> Iterable[Div | Quotient]:
    """The divisions in `e`, outermost first."""
    for term, _ in e.terms:
        for a in factors(term):
            if type(a) is Div or type(a) is Quotient:
                yield a
                yield from divisions(a.e)


def rewrite(e: Ix, atom: Callable[[Var | Val], Ix], size: Callable[[Size], Ix] = lambda s: from_atom(s)) -> Ix:
    """`e` with every variable and value replaced by atom(it), every size by size(it), simplified again."""

    def replaced(a: Factor) -> Ix:
        if type(a) is Div:
            return floordiv(rewrite(a.e, atom, size), a.c)
        if type(a) is Quotient:
            c = rewrite(a.c, atom, size)
            return floordiv(rewrite(a.e, atom, size), c if c.terms else c.c)
        return size(a) if type(a) is Size else atom(a)  # type: ignore[arg-type]

    parts: list[tuple[int, Ix]] = [(1, interned(e.c, ()))]
    for a, k in e.terms:
        if type(a) is Product:
            parts.append((k, polynomial().multiply(*map(replaced, a.factors))))
        else:
            parts.append((k, replaced(a)))  # type: ignore[arg-type]
    return affine(parts)


def evaluate(e: Ix, env: Callable[[Any], Any]) -> Any:
    """The value of `e`, given those of its variables, values and sizes (integers or integer arrays)."""
    result: Any = e.c
    for term, k in e.terms:
        part: Any = k
        for a in factors(term):
            if type(a) is Div:
                part = part * (evaluate(a.e, env) // a.c)
            elif type(a) is Quotient:
                part = part * (evaluate(a.e, env) // evaluate(a.c, env))
            else:
                part = part * env(a)
        result = result + part
    return result


def within(i: Ix, n: int) -> bool:
    """Whether 0 <= i < n is seen to hold for all values of the atoms."""
    return i.lo >= 0 and below(i, n) if type(n) is int else below(i, n) and polynomial().nonnegative(i)


def below(i: Ix, n: int) -> bool:
    """Whether i < n is seen to hold for all values of the atoms."""
    return polynomial().nonnegative(n - 1 - i) if is_symbolic(n) else i.hi < n


def same_shape(a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether the shapes are equal for all sizes: extents are in normal form."""
    return len(a) == len(b) and all(n is m or (type(n) is type(m) is int and n == m) for n, m in zip(a, b, strict=True))


def extents(shape: Sequence[Ix | int]) -> tuple[int, ...]:
    """The shape with extents that are known made integers."""
    made: list[Any] = [n.c if is_symbolic(n) and not n.terms else n for n in shape]
    return tuple(made)
