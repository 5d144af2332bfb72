"""THE table of scalar functions: every row with all its readings.  See core/row.py for what each column means.

Primitive rows are the basic operations of IEEE 754 and of two's complement integers; their meaning is the `numpy`
column.  Named rows (exp, erf, relu, ...) are opaque to proofs and derivatives and mean the composition `define`
of primitive rows, which evaluation and emission expand, so every backend has the same bits.
Derived rows are Python functions that build nodes of other rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from assay.core import dtypes as dt
from assay.core.dtypes import COMPUTED, INTEGERS, DType
from assay.core.errors import Unsupported, UserError
from assay.core.fma import fma32, fma64
from assay.core.mathlib import slopes
from assay.core.row import DERIVED, NAMED, PRIMITIVE, TABLE, Derivative, Interval, Monoid, Row, same, to

NUMBERS = (*COMPUTED, *INTEGERS)
ANY = (*dt.DTYPES.values(),)
inf, nan = math.inf, math.nan
NO_DERIVATIVE = Unsupported("integers and booleans have no derivative")


def scalar(name: str, params: str, *, types: Callable[..., DType], doc: str, cases: list[tuple[Any, ...]],
           numpy: Callable[..., Any] | None = None, define: Callable[..., Any] | None = None, derived: bool = False,
           range: Callable[..., Interval] | None = None, monoid: Monoid | None = None,
           lin: Derivative | Unsupported | None = None, ulp: dict[str, float] | None = None) -> Row:  # fmt: skip
    """Declare one row.  Exactly one of `numpy` (primitive) and `define` (named, or derived) says what it means.

    A derived row has the derivatives of the rows it is made of; every other states `lin`.
    """
    kind = PRIMITIVE if numpy is not None else DERIVED if derived else NAMED
    row = Row(
        name, tuple(params.split()), kind, types, doc,
        numpy or Unsupported(f"{name} means its composition"),
        define or Unsupported(f"{name} is primitive"),
        range or Unsupported(f"{name} has no integer interval"),
        monoid or Unsupported(f"{name} is not the operation of a monoid"),
        lin or Unsupported(f"{name} is made of other rows, which have derivatives"),
        tuple(cases), ulp or {},
    )  # fmt: skip
    if name in TABLE or not cases or (numpy is None) == (define is None) or (lin is None) != derived:
        raise UserError(f"scalar row {name}: needs a new name, a case, one of numpy and define, and lin unless it is derived")
    TABLE[name] = row
    return row


# ------------------------------------------------------------------------------------------------ types


def _select_types(c: DType, a: DType, b: DType) -> DType:
    if c is not dt.bool_ or a is not b:
        raise UserError(f"argument types ({c.name}, {a.name}, {b.name}); allowed: (bool, t, t)")
    return a


# ------------------------------------------------------------------------------------------------ intervals


def _corners(f: Callable[[int, int], int]) -> Callable[[Interval, Interval], Interval]:
    def interval(a: Interval, b: Interval) -> Interval:
        ends = [f(x, y) for x in a for y in b]
        return min(ends), max(ends)

    return interval


def _interval_mod(a: Interval, b: Interval) -> Interval:
    if b[0] > 0:
        if 0 <= a[0] and a[1] < b[0]:
            return a
        return 0, b[1] - 1 if a[0] < 0 else min(a[1], b[1] - 1)
    return min(b[0] + 1, 0), max(b[1] - 1, 0)


def _interval_floordiv(a: Interval, b: Interval) -> Interval:
    if b[0] > 0 or b[1] < 0:
        return _corners(lambda x, y: x // y)(a, b)
    m = max(abs(a[0]), abs(a[1]))
    return -m, m


def _interval_abs(a: Interval) -> Interval:
    if a[0] <= 0 <= a[1]:
        return 0, max(-a[0], a[1])
    return min(abs(a[0]), abs(a[1])), max(abs(a[0]), abs(a[1]))


def _interval_compare(decide: Callable[[Interval, Interval], bool | None]) -> Callable[[Interval, Interval], Interval]:
    def interval(a: Interval, b: Interval) -> Interval:
        known = decide(a, b)
        return (0, 1) if known is None else (int(known), int(known))

    return interval


def _decide_lt(a: Interval, b: Interval) -> bool | None:
    return True if a[1] < b[0] else False if a[0] >= b[1] else None


def _decide_le(a: Interval, b: Interval) -> bool | None:
    return True if a[1] <= b[0] else False if a[0] > b[1] else None


def _decide_eq(a: Interval, b: Interval) -> bool | None:
    return False if a[1] < b[0] or b[1] < a[0] else True if a[0] == a[1] == b[0] == b[1] else None


def _decide_ne(a: Interval, b: Interval) -> bool | None:
    known = _decide_eq(a, b)
    return None if known is None else not known


def _interval_band(a: Interval, b: Interval) -> Interval:
    if a[0] >= 0 and b[0] >= 0:
        return 0, min(a[1], b[1])
    if a[0] >= 0 or b[0] >= 0:
        return 0, a[1] if a[0] >= 0 else b[1]
    return -_above(a, b) - 1, max(a[1], b[1], 0)


def _interval_bor(a: Interval, b: Interval) -> Interval:
    m = _above(a, b)
    return (max(a[0], b[0]), m) if a[0] >= 0 and b[0] >= 0 else (-m - 1, m)


def _interval_umulhi(a: Interval, b: Interval) -> Interval:
    """From the products of the ends, which grow with both; everything where the sign bit is not the same at both."""
    lo, hi = (x * y >> 32 for x, y in zip(_unsigned(a), _unsigned(b), strict=True))
    if lo < 1 << 31 <= hi:
        return dt.i32.lo, dt.i32.hi
    return (lo, hi) if hi < 1 << 31 else (lo - (1 << 32), hi - (1 << 32))


def _unsigned(a: Interval) -> Interval:
    """The interval of i32 values read as unsigned: everything where it holds numbers of both signs."""
    if a[0] < 0 <= a[1]:
        return 0, (1 << 32) - 1
    return a if a[0] >= 0 else (a[0] + (1 << 32), a[1] + (1 << 32))


def _above(a: Interval, b: Interval) -> int:
    """2**k - 1 that is >= |x| of every x in both intervals (a bit mask that holds them)."""
    return (1 << max(abs(x).bit_length() for x in (*a, *b))) - 1


# ------------------------------------------------------------------------------------------------ numpy meanings


def _signed_zero_max(a: Any, b: Any) -> Any:
    """IEEE 754-2019 maximum: NaN propagates, -0 < +0."""
    r = np.maximum(a, b)
    if r.dtype.kind != "f":
        return r
    return np.where((r == 0) & (a == b), np.where(np.signbit(a), b, a), r)


def _signed_zero_min(a: Any, b: Any) -> Any:
    """IEEE 754-2019 minimum: NaN propagates, -0 < +0."""
    r = np.minimum(a, b)
    if r.dtype.kind != "f":
        return r
    return np.where((r == 0) & (a == b), np.where(np.signbit(a), a, b), r)


def _floordiv(a: Any, b: Any) -> Any:
    return np.where(b == 0, np.zeros((), a.dtype), np.floor_divide(a, np.where(b == 0, np.ones((), b.dtype), b)))


def _mod(a: Any, b: Any) -> Any:
    return np.where(b == 0, np.zeros((), a.dtype), np.remainder(a, np.where(b == 0, np.ones((), b.dtype), b)))


def _shl(a: Any, n: Any) -> Any:
    inside = (n >= 0) & (n < 8 * a.dtype.itemsize)
    return np.where(inside, np.left_shift(a, np.where(inside, n, np.zeros((), n.dtype))), np.zeros((), a.dtype))


def _shr(a: Any, n: Any) -> Any:
    inside = (n >= 0) & (n < 8 * a.dtype.itemsize)
    last = np.asarray(8 * a.dtype.itemsize - 1, n.dtype)
    shifted = np.right_shift(a, np.where(inside, n, last))
    return shifted if a.dtype.kind == "i" else np.where(inside, shifted, np.zeros((), a.dtype))


def _umulhi(a: Any, b: Any) -> Any:
    product = np.multiply(*(x.view(np.uint32).astype(np.uint64) for x in (a, b)))
    return np.right_shift(product, np.uint64(32)).astype(np.uint32).view(np.int32)


def _fma(a: Any, b: Any, c: Any) -> Any:
    return fma32(a, b, c) if a.dtype == np.float32 else fma64(a, b, c)


def _neutral_max(d: DType) -> int | float:
    return -inf if d.is_float else d.lo


def _neutral_min(d: DType) -> int | float:
    return inf if d.is_float else d.hi


def _not_float(d: DType) -> bool:
    return not d.is_float


def _always(_: DType) -> bool:
    return True


# ------------------------------------------------------------------------------------------------ primitive rows

scalar("add", "x y", types=same(*NUMBERS), doc="x + y, rounded to nearest even; integers wrap.",
       numpy=np.add, range=lambda a, b: (a[0] + b[0], a[1] + b[1]),
       monoid=Monoid(lambda d: -0.0 if d.is_float else 0, _not_float),
       lin=slopes.add, cases=[(1.0, 2.0, 3.0), (-0.0, 0.0, 0.0), (-0.0, -0.0, -0.0), (inf, -inf, nan)])  # fmt: skip
scalar("sub", "x y", types=same(*NUMBERS), doc="x - y, rounded to nearest even; integers wrap.",
       numpy=np.subtract, range=lambda a, b: (a[0] - b[1], a[1] - b[0]),
       lin=slopes.sub, cases=[(1.0, 2.0, -1.0), (-0.0, 0.0, -0.0), (inf, inf, nan)])  # fmt: skip
scalar("mul", "x y", types=same(*NUMBERS), doc="x * y, rounded to nearest even; integers wrap.",
       numpy=np.multiply, range=_corners(lambda x, y: x * y),
       monoid=Monoid(lambda d: 1, _not_float),
       lin=slopes.mul, cases=[(3.0, 2.0, 6.0), (-0.0, 2.0, -0.0), (inf, 0.0, nan)])  # fmt: skip
scalar("div", "x y", types=same(*COMPUTED), doc="x / y, rounded to nearest even.",
       numpy=np.divide, lin=slopes.div, cases=[(1.0, 0.0, inf), (1.0, -0.0, -inf), (0.0, 0.0, nan), (3.0, 2.0, 1.5)])  # fmt: skip
scalar("fma", "x y z", types=same(*COMPUTED), doc="x * y + z with one rounding.",
       numpy=_fma, lin=slopes.fma, cases=[(2.0, 3.0, 4.0, 10.0), (inf, 0.0, 1.0, nan), (-0.0, 0.0, -0.0, -0.0)])  # fmt: skip
scalar("neg", "x", types=same(*NUMBERS), doc="-x (floats: the sign bit flips; integers wrap).",
       numpy=np.negative, range=lambda a: (-a[1], -a[0]),
       lin=slopes.neg, cases=[(1.0, -1.0), (0.0, -0.0), (inf, -inf)])  # fmt: skip
scalar("abs", "x", types=same(*NUMBERS), doc="|x| (floats: the sign bit clears; integers wrap).",
       numpy=np.abs, range=_interval_abs, lin=slopes.abs, cases=[(-1.5, 1.5), (-0.0, 0.0), (-inf, inf)])  # fmt: skip
scalar("sqrt", "x", types=same(*COMPUTED), doc="Square root, correctly rounded.",
       numpy=np.sqrt,
       lin=slopes.sqrt, cases=[(4.0, 2.0), (-0.0, -0.0), (-1.0, nan), (inf, inf)], ulp={"f32": 0.5, "f64": 0.5})  # fmt: skip
scalar("floor", "x", types=same(*COMPUTED), doc="Largest integer <= x.",
       numpy=np.floor, lin=slopes.zero, cases=[(1.5, 1.0), (-0.0, -0.0), (-0.5, -1.0)])  # fmt: skip
scalar("ceil", "x", types=same(*COMPUTED), doc="Smallest integer >= x.",
       numpy=np.ceil, lin=slopes.zero, cases=[(1.5, 2.0), (-0.5, -0.0)])  # fmt: skip
scalar("trunc", "x", types=same(*COMPUTED), doc="x rounded towards zero.",
       numpy=np.trunc, lin=slopes.zero, cases=[(1.5, 1.0), (-1.5, -1.0), (-0.5, -0.0)])  # fmt: skip
scalar("round", "x", types=same(*COMPUTED), doc="x rounded to the nearest integer, ties to even.",
       numpy=np.rint, lin=slopes.zero, cases=[(0.5, 0.0), (1.5, 2.0), (2.5, 2.0), (-0.5, -0.0), (-2.5, -2.0)])  # fmt: skip
scalar("max", "x y", types=same(*NUMBERS, dt.bool_), doc="IEEE maximum: NaN propagates, -0 < +0.",
       numpy=_signed_zero_max, range=lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
       monoid=Monoid(_neutral_max, _always),
       lin=slopes.max, cases=[(1.0, 2.0, 2.0), (-0.0, 0.0, 0.0), (0.0, -0.0, 0.0), (nan, 1.0, nan), (1.0, nan, nan)])  # fmt: skip
scalar("min", "x y", types=same(*NUMBERS, dt.bool_), doc="IEEE minimum: NaN propagates, -0 < +0.",
       numpy=_signed_zero_min, range=lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
       monoid=Monoid(_neutral_min, _always),
       lin=slopes.min,
       cases=[(1.0, 2.0, 1.0), (-0.0, 0.0, -0.0), (0.0, -0.0, -0.0), (nan, 1.0, nan), (1.0, nan, nan)])  # fmt: skip
scalar("floordiv", "x y", types=same(*INTEGERS), doc="floor(x / y) of integers, wrapping; y = 0 gives 0 (guarded by a require).",
       numpy=_floordiv, range=_interval_floordiv, lin=NO_DERIVATIVE, cases=[(-7, 2, -4), (7, -2, -4), (7, 0, 0)])  # fmt: skip
scalar("mod", "x y", types=same(*INTEGERS), doc="x - y * floor(x / y): the sign of y; y = 0 gives 0 (guarded by a require).",
       numpy=_mod, range=_interval_mod, lin=NO_DERIVATIVE, cases=[(-7, 2, 1), (7, -2, -1), (7, 0, 0)])  # fmt: skip
scalar("lt", "x y", types=to(dt.bool_, *NUMBERS, dt.bool_), doc="x < y; false with a NaN.",
       numpy=np.less, range=_interval_compare(_decide_lt),
       lin=slopes.zero, cases=[(1.0, 2.0, True), (-0.0, 0.0, False), (nan, 1.0, False)])  # fmt: skip
scalar("le", "x y", types=to(dt.bool_, *NUMBERS, dt.bool_), doc="x <= y; false with a NaN.",
       numpy=np.less_equal, range=_interval_compare(_decide_le),
       lin=slopes.zero, cases=[(2.0, 2.0, True), (nan, nan, False)])  # fmt: skip
scalar("eq", "x y", types=to(dt.bool_, *NUMBERS, dt.bool_), doc="x == y; +0 == -0; false with a NaN.",
       numpy=np.equal, range=_interval_compare(_decide_eq),
       lin=slopes.zero, cases=[(0.0, -0.0, True), (nan, nan, False)])  # fmt: skip
scalar("ne", "x y", types=to(dt.bool_, *NUMBERS, dt.bool_), doc="x != y; true with a NaN.",
       numpy=np.not_equal, range=_interval_compare(_decide_ne),
       lin=slopes.zero, cases=[(0.0, -0.0, False), (nan, nan, True)])  # fmt: skip
scalar("and", "x y", types=same(dt.bool_), doc="Both hold.", numpy=np.logical_and,
       range=lambda a, b: (min(a[0], b[0]), min(a[1], b[1])), monoid=Monoid(lambda d: True, _always),
       lin=NO_DERIVATIVE, cases=[(True, True, True), (True, False, False)])  # fmt: skip
scalar("or", "x y", types=same(dt.bool_), doc="One holds.", numpy=np.logical_or,
       range=lambda a, b: (max(a[0], b[0]), max(a[1], b[1])), monoid=Monoid(lambda d: False, _always),
       lin=NO_DERIVATIVE, cases=[(False, False, False), (True, False, True)])  # fmt: skip
scalar("not", "x", types=same(dt.bool_), doc="x does not hold.", numpy=np.logical_not,
       range=lambda a: (1 - a[1], 1 - a[0]), lin=NO_DERIVATIVE, cases=[(True, False), (False, True)])  # fmt: skip
scalar("band", "x y", types=same(*INTEGERS), doc="Bitwise and.", numpy=np.bitwise_and, range=_interval_band,
       monoid=Monoid(lambda d: -1 if d.kind == "int" else d.hi, _always),
       lin=NO_DERIVATIVE, cases=[(12, 10, 8), (-1, 5, 5)])  # fmt: skip
scalar("bor", "x y", types=same(*INTEGERS), doc="Bitwise or.", numpy=np.bitwise_or, range=_interval_bor,
       monoid=Monoid(lambda d: 0, _always), lin=NO_DERIVATIVE, cases=[(12, 10, 14)])  # fmt: skip
scalar("bxor", "x y", types=same(*INTEGERS), doc="Bitwise exclusive or.", numpy=np.bitwise_xor,
       range=lambda a, b: (-_above(a, b) - 1 if min(a[0], b[0]) < 0 else 0, _above(a, b)),
       monoid=Monoid(lambda d: 0, _always), lin=NO_DERIVATIVE, cases=[(12, 10, 6)])  # fmt: skip
scalar("bnot", "x", types=same(*INTEGERS), doc="Bitwise complement.", numpy=np.bitwise_not,
       range=lambda a: (-a[1] - 1, -a[0] - 1), lin=NO_DERIVATIVE, cases=[(0, -1), (5, -6)])  # fmt: skip
scalar("shl", "x n", types=same(*INTEGERS), doc="x * 2**n, wrapping; 0 for n < 0 or n >= width.",
       numpy=_shl, lin=NO_DERIVATIVE, cases=[(7, 1, 14), (7, 64, 0), (7, -1, 0)])  # fmt: skip
scalar("shr", "x n", types=same(*INTEGERS), doc="floor(x / 2**n); n < 0 or n >= width leaves the sign (0 or -1).",
       numpy=_shr, lin=NO_DERIVATIVE, cases=[(7, 1, 3), (-7, 70, -1), (7, -1, 0)])  # fmt: skip
scalar("umulhi", "x y", types=same(dt.i32), doc="The upper 32 bits of x * y, all read as unsigned 32-bit integers.",
       numpy=_umulhi, range=_interval_umulhi, lin=NO_DERIVATIVE,
       cases=[(-1, -1, -2), (-(2**31), -(2**31), 2**30), (2**31 - 1, 2**31 - 1, 2**30 - 1), (-1, 1, 0), (-1, 2, 1),
              (1 << 16, 1 << 16, 1), (-(2**31), 2, 1), (0, -1, 0), (-766435501, -845247145, -1460848572)])  # fmt: skip
scalar("select", "c x y", types=_select_types, doc="x where c holds, else y; a choice of bits.",
       numpy=np.where, range=lambda c, a, b: (min(a[0], b[0]), max(a[1], b[1])),
       lin=slopes.select, cases=[(True, 1.0, 2.0, 1.0), (False, nan, -0.0, -0.0)])  # fmt: skip
scalar("stop", "x", types=same(*ANY), doc="x; its derivative is declared zero (the shift in softmax-like meanings).",
       numpy=lambda x: x, range=lambda a: a, lin=slopes.zero, cases=[(1.5, 1.5), (-0.0, -0.0)])  # fmt: skip
