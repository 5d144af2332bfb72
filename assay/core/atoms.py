"""The atoms of index expressions: what an Ix is a sum of multiples of.

    atom = Var(level, n)      0 <= var < n; n is an integer, or an Ix over sizes
         | Div(e, c)          floor(e / c), c > 0: e % c is e - c * (e // c)
         | Val(e)             an integer scalar expression read as an index
         | Size(name, lo, hi) an integer that is fixed for a run
         | Product(a, b, ...) atoms multiplied: with sizes an Ix is a polynomial in normal form
         | Quotient(e, c)     floor(e / c), c > 0 an Ix over sizes

Every atom has `key` (its place in a sum), the interval lo..hi of its value, and the variables (`free`) and sizes in it.
They are interned: index.py makes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from assay.core.index import Ix
    from assay.core.lang import E


class _Atom:
    __slots__ = ("free", "hi", "key", "lo", "sizes")
    key: tuple[Any, ...]
    free: frozenset[Var]
    sizes: frozenset[Size]
    lo: int
    hi: int


class Var(_Atom):
    """A loop variable or tensor axis: 0 <= var < n.  `level` is its canonical name."""

    __slots__ = ("level", "n")
    level: int
    n: int

    def __repr__(self) -> str:
        return f"i{self.level}" if self.level < 1 << 20 else f"t{self.level - (1 << 20)}"


class Div(_Atom):
    """floor(e / c), c > 0."""

    __slots__ = ("c", "e")
    e: Ix
    c: int

    def __repr__(self) -> str:
        return f"({self.e!r})//{self.c}"


class Val(_Atom):
    """The value of an integer scalar expression, as an index; its range is that of the expression."""

    __slots__ = ("e",)
    e: E

    def __repr__(self) -> str:
        return f"<{self.e!r}>"


class Size(_Atom):
    """An integer in lo..hi that is fixed for a run: the extent of an axis of an input, say."""

    __slots__ = ("name",)
    name: str

    def __repr__(self) -> str:
        return self.name


class Product(_Atom):
    """Atoms multiplied, in the order of their keys; none of them is a product."""

    __slots__ = ("factors",)
    factors: tuple[Factor, ...]

    def __repr__(self) -> str:
        return "*".join(map(repr, self.factors))


class Quotient(_Atom):
    """floor(e / c), where c > 0 is an expression over sizes."""

    __slots__ = ("c", "e")
    e: Ix
    c: Ix

    def __repr__(self) -> str:
        return f"({self.e!r})//({self.c!r})"


Factor: TypeAlias = Var | Div | Val | Size | Quotient
Atom: TypeAlias = Var | Div | Val | Size | Product | Quotient
Terms: TypeAlias = tuple[tuple[Atom, int], ...]
