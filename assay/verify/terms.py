"""Integer expressions and indices as terms of an algebra: numpy arrays of many points, or z3 formulas.

The meaning of an expression is given once, in `Reading`; an algebra says what arithmetic and logic are made of.
Arithmetic is that of the mathematical integers; an operation that may leave its type is wrapped explicitly.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np

from assay.core import dtypes as dt
from assay.core.dtypes import DType
from assay.core.index import Div, Ix, Quotient, Size, Val, Var, factors, ix, values
from assay.core.lang import LOADS, E, expand
from assay.core.row import TABLE, Interval

Atom: TypeAlias = "Var | Size | E"  # what has no structure here: a variable, a size, or the value of an expression


BRIEF = 100  # characters


def _mask(e: E) -> int:
    """2**k where `e` is the constant 2**k - 1, else 0."""
    return e.lo + 1 if e.op == "const" and e.lo >= 0 and e.lo & (e.lo + 1) == 0 else 0


def interpreted(e: E) -> bool:
    """Whether the value of `e` follows from that of its arguments by integer arithmetic and logic."""
    if e.dtype.is_float:
        return False
    if e.op in ("const", "idx", "and", "or", "not", "select", "stop", "max", "min"):
        return True
    if e.op in ("lt", "le", "eq", "ne", "convert"):
        return not e.args[0].dtype.is_float
    if e.op in ("add", "sub", "mul", "neg", "abs", "bnot"):
        return True
    if e.op in ("floordiv", "mod"):
        return e.args[1].lo > 0
    if e.op in ("shl", "shr"):
        return e.args[1].op == "const" and 0 <= e.args[1].lo < e.dtype.bits
    if e.op == "band":
        return bool(_mask(e.args[0]) or _mask(e.args[1]))
    if e.op == "umulhi":
        return min(x.lo for x in e.args) >= 0  # read as signed or as unsigned, they are the same numbers
    r = TABLE.get(e.op)
    return r is not None and r.kind == "named" and not any(a.dtype.is_float for a in e.args)


def is_expanded(e: E) -> bool:
    """Whether `e` is read as the composition that its named row means."""
    return bool(e.args) and interpreted(e) and not hasattr(Reading, f"_{e.op}")


def unwrapped(e: E) -> Interval:
    """The range of the integer operation `e` before it wraps to its type."""
    if e.op == "convert":
        return e.args[0].lo, e.args[0].hi
    if e.op == "shl":
        return e.args[0].lo << e.args[1].lo, e.args[0].hi << e.args[1].lo
    r = TABLE[e.op].range
    return r(*((a.lo, a.hi) for a in e.args)) if callable(r) else (e.dtype.lo, e.dtype.hi)


def wraps(e: E) -> bool:
    lo, hi = unwrapped(e)
    return lo < e.dtype.lo or hi > e.dtype.hi


def brief(e: E, depth: int = 4) -> str:
    """The outermost operations of `e` in at most a line: the whole text of a value that shares its parts is exponential."""
    if not depth:
        return "..."
    if e.op in ("const", "acc"):
        return repr(e)
    if e.op in (*LOADS, "idx"):
        indices = (e.attr,) if e.op == "idx" else e.attr[1]
        inside = ", ".join("..." if any(True for _ in values(i)) else repr(i) for i in indices)
        return f"[{inside}]" if e.op == "idx" else f"{e.attr[0]!r}[{inside}]"
    text = f"{e.op}({', '.join(brief(a, depth - 1) for a in e.args)})"
    return text if len(text) <= BRIEF else f"{text[:BRIEF]} ..."


class Numpy:
    """Terms are arrays: of int64, or of Python integers where numbers are large."""

    def __init__(self, wide: bool) -> None:  # noqa: FBT001
        self.dtype: Any = object if wide else np.int64

    def integer(self, v: int) -> Any:
        return np.array(v, self.dtype)

    def boolean(self, v: bool) -> Any:  # noqa: FBT001
        return np.array(v, np.bool_)

    def lt(self, a: Any, b: Any) -> Any:
        return np.asarray(a < b, np.bool_)

    def le(self, a: Any, b: Any) -> Any:
        return np.asarray(a <= b, np.bool_)

    def eq(self, a: Any, b: Any) -> Any:
        return np.asarray(a == b, np.bool_)

    def both(self, a: Any, b: Any) -> Any:
        return a & b

    def either(self, a: Any, b: Any) -> Any:
        return a | b

    def negate(self, a: Any) -> Any:
        return ~a

    def select(self, c: Any, a: Any, b: Any) -> Any:
        return np.where(c, a, b)

    def floordiv(self, a: Any, b: Any) -> Any:
        return a // (np.where(b == 0, 1, b) if self.dtype is object else b)  # sizes that no guard admits may make it 0

    def mod(self, a: Any, b: Any) -> Any:
        return a % b


class Z3:
    """Terms are those of z3, over the mathematical integers; its div and mod are floor for positive divisors."""

    def __init__(self) -> None:
        import z3

        self.z3 = z3
        self.context = z3.Context()
        self.side: list[Any] = []

    def integer(self, v: int) -> Any:
        return self.z3.IntVal(v, self.context)

    def boolean(self, v: bool) -> Any:  # noqa: FBT001
        return self.z3.BoolVal(v, self.context)

    def variable(self, name: str, *, boolean: bool) -> Any:
        return (self.z3.Bool if boolean else self.z3.Int)(name, self.context)

    def lt(self, a: Any, b: Any) -> Any:
        return a < b

    def le(self, a: Any, b: Any) -> Any:
        return a <= b

    def eq(self, a: Any, b: Any) -> Any:
        return a == b

    def both(self, a: Any, b: Any) -> Any:
        return self.z3.And(a, b)

    def either(self, a: Any, b: Any) -> Any:
        return self.z3.Or(a, b)

    def negate(self, a: Any) -> Any:
        return self.z3.Not(a)

    def select(self, c: Any, a: Any, b: Any) -> Any:
        return self.z3.If(c, a, b)

    def floordiv(self, a: Any, b: Any) -> Any:
        return a / b

    def mod(self, a: Any, b: Any) -> Any:
        return a % b


class Quotients(Z3):
    """z3 with quotient and remainder as variables: a = b*q + r, 0 <= r < b."""

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[tuple[int, int], tuple[Any, Any]] = {}

    def _divide(self, a: Any, b: Any) -> tuple[Any, Any]:
        key = a.get_id(), b.get_id()
        if key not in self.known:
            q, r = (self.variable(f"{x}{len(self.known)}", boolean=False) for x in "qr")
            self.side += [a == b * q + r, r >= 0, r < b]
            self.known[key] = q, r
        return self.known[key]

    def floordiv(self, a: Any, b: Any) -> Any:
        return self._divide(a, b)[0]

    def mod(self, a: Any, b: Any) -> Any:
        return self._divide(a, b)[1]


class Reading:
    """Expressions and indices as terms of an algebra, given those of the atoms."""

    def __init__(self, algebra: Any, atoms: dict[Atom, Any]) -> None:
        self.algebra = algebra
        self.known: dict[Any, Any] = dict(atoms)

    def index(self, i: Ix) -> Any:
        """The term of an index."""
        found = self.known.get(i)
        if found is None:
            found = self.algebra.integer(i.c)
            for term, k in i.terms:
                x: Any = k
                for a in factors(term):
                    if isinstance(a, Div | Quotient):
                        x = x * self.algebra.floordiv(self.index(a.e), self.index(ix(a.c)))
                    else:
                        x = x * self.known[a.e if isinstance(a, Val) else a]
                found = found + x
            self.known[i] = found
        return found

    def read(self, order: Iterable[E]) -> None:
        """Fill in the terms of the expressions, arguments before users."""
        for e in order:
            if e not in self.known:
                self.known[e] = self._term(e)

    def _term(self, e: E) -> Any:
        a = self.algebra
        if e.op == "const":
            return a.boolean(bool(e.lo)) if e.dtype is dt.bool_ else a.integer(e.lo)
        if e.op == "idx":
            return self.index(e.attr)
        args = [self.known[x] for x in e.args]
        known = getattr(self, f"_{e.op}", None)
        if known is not None:
            made = known(e, *args)
            return self._wrap(made, e.dtype) if e.dtype.is_integer and wraps(e) else made
        return self.known[expand(e)]

    def _wrap(self, x: Any, d: DType) -> Any:
        low = self.algebra.integer(d.lo)
        return self.algebra.mod(x - low, self.algebra.integer(1 << d.bits)) + low

    def _lt(self, e: E, x: Any, y: Any) -> Any:
        if e.args[0].dtype is dt.bool_:
            return self.algebra.both(self.algebra.negate(x), y)
        return self.algebra.lt(x, y)

    def _le(self, e: E, x: Any, y: Any) -> Any:
        if e.args[0].dtype is dt.bool_:
            return self.algebra.either(self.algebra.negate(x), y)
        return self.algebra.le(x, y)

    def _eq(self, _: E, x: Any, y: Any) -> Any:
        return self.algebra.eq(x, y)

    def _ne(self, _: E, x: Any, y: Any) -> Any:
        return self.algebra.negate(self.algebra.eq(x, y))

    def _and(self, _: E, x: Any, y: Any) -> Any:
        return self.algebra.both(x, y)

    def _or(self, _: E, x: Any, y: Any) -> Any:
        return self.algebra.either(x, y)

    def _not(self, _: E, x: Any) -> Any:
        return self.algebra.negate(x)

    def _stop(self, _: E, x: Any) -> Any:
        return x

    def _select(self, _: E, c: Any, x: Any, y: Any) -> Any:
        return self.algebra.select(c, x, y)

    def _max(self, e: E, x: Any, y: Any) -> Any:
        return self.algebra.either(x, y) if e.dtype is dt.bool_ else self.algebra.select(self.algebra.lt(x, y), y, x)

    def _min(self, e: E, x: Any, y: Any) -> Any:
        return self.algebra.both(x, y) if e.dtype is dt.bool_ else self.algebra.select(self.algebra.lt(y, x), y, x)

    def _add(self, _: E, x: Any, y: Any) -> Any:
        return x + y

    def _sub(self, _: E, x: Any, y: Any) -> Any:
        return x - y

    def _mul(self, _: E, x: Any, y: Any) -> Any:
        return x * y

    def _neg(self, _: E, x: Any) -> Any:
        return -x

    def _bnot(self, _: E, x: Any) -> Any:
        return -x - 1

    def _abs(self, _: E, x: Any) -> Any:
        return self.algebra.select(self.algebra.lt(x, self.algebra.integer(0)), -x, x)

    def _floordiv(self, _: E, x: Any, y: Any) -> Any:
        return self.algebra.floordiv(x, y)

    def _mod(self, _: E, x: Any, y: Any) -> Any:
        return self.algebra.mod(x, y)

    def _shl(self, e: E, x: Any, _: Any) -> Any:
        return x * (1 << e.args[1].lo)

    def _shr(self, e: E, x: Any, _: Any) -> Any:
        return self.algebra.floordiv(x, self.algebra.integer(1 << e.args[1].lo))

    def _band(self, e: E, x: Any, y: Any) -> Any:
        m = _mask(e.args[1])
        return self.algebra.mod(x if m else y, self.algebra.integer(m or _mask(e.args[0])))

    def _umulhi(self, _: E, x: Any, y: Any) -> Any:
        return self.algebra.floordiv(x * y, self.algebra.integer(1 << 32))

    def _convert(self, e: E, x: Any) -> Any:
        if e.args[0].dtype is dt.bool_:
            return self.algebra.select(x, self.algebra.integer(1), self.algebra.integer(0))
        return x
