"""Fused multiply-adds of ordinary numpy operations, bit for bit what the instruction gives: round(a*b + c) with ONE rounding.

Both functions compute the result with ordinary operations wherever those cannot go wrong, find the few elements where they
can, and redo only these with a rounding to odd (Boldo & Melquiond, "Emulation of a FMA and correctly rounded sums", IEEE
Trans. Computers 57(4), 2008).  They take at most BLOCK elements, in which their temporaries stay in the caches.
"""

import threading
from typing import Any

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Array = npt.NDArray[Any]

BLOCK = 1 << 16
"""Elements a block: numpy's cost of a call is small against the work, temporaries stay in the caches."""

SMALLEST_NORMAL_F32 = 2.0**-126
SMALLEST_NORMAL_F64 = 2.0**-1022
SPLITTER = 2.0**27 + 1.0
"""Veltkamp's constant: x * SPLITTER splits 53 bits into 26 + 27."""


class _Scratch(threading.local):
    """Temporaries of one emulated32, kept by each thread: fresh pages for every call would cost more than the arithmetic."""

    def __init__(self) -> None:
        self.product = np.empty(BLOCK, np.float64)
        self.total = np.empty(BLOCK, np.float64)
        self.magnitude = np.empty(BLOCK, np.float32)
        self.suspect = np.empty(BLOCK, np.bool_)


_scratch = _Scratch()


def emulated32(a: F32, b: F32, c: F32, out: F32) -> None:
    """out = round_f32(a*b + c), for every f32 value (subnormals, zeros, inf, NaN); the operands broadcast onto out.

    The f64 product of two f32 is exact. s = round_f64(a*b + c) rounded once more to f32 is right unless s lies on a
    midpoint of two neighbouring f32 (rounding is monotone, midpoints are f64 numbers); such s are rounded to odd first.
    """

    def temporary(buffer: Array) -> Array:
        return buffer[: out.size].reshape(out.shape)

    product = np.multiply(a, b, out=temporary(_scratch.product), dtype=np.float64)
    total = temporary(_scratch.total)
    np.copyto(total, c)
    np.add(product, total, out=total)
    np.copyto(out, total, casting="same_kind")
    below = total.view(np.int64)
    np.left_shift(below, 35, out=below)  # keeps the 29 bits below an f32: 100...0 on a midpoint
    suspect = np.equal(below, -(2**63), out=temporary(_scratch.suspect))
    magnitude = np.abs(out, out=temporary(_scratch.magnitude))
    if magnitude.min(initial=np.inf) <= SMALLEST_NORMAL_F32:  # the midpoints of subnormals lie elsewhere
        suspect |= (magnitude <= SMALLEST_NORMAL_F32) & ((out != 0.0) | (product != 0.0))
    if np.count_nonzero(suspect):
        addend = np.broadcast_to(c, out.shape)[suspect].astype(np.float64)
        out[suspect] = _round_to_odd(*_two_sum(product[suspect], addend)).astype(np.float32)


def emulated64(a: F64, b: F64, c: F64, out: F64) -> None:
    """out = round_f64(a*b + c), for every f64 value (subnormals, zeros, inf, NaN, overflow of a*b alone); operands broadcast.

    Dekker's product as a pair, two sums, the low parts rounded to odd; elements whose exponents leave the range in which
    this is exact are scaled by powers of two.
    """
    high, low = _odd_sum(*_two_product(a, b), c)
    np.add(high, low, out=out)
    safe = _between(a, 2.0**-400, 2.0**400) & _between(b, 2.0**-400, 2.0**400) & _between(c, 2.0**-900, 2.0**900)
    safe = safe & (out != 0.0)
    if not safe.all():
        rest = ~safe
        out[rest] = _fma64_scaled(*(np.broadcast_to(v, out.shape)[rest] for v in (a, b, c)))


def _fma64_scaled(a: F64, b: F64, c: F64) -> F64:
    """emulated64 of one-dimensional arrays of any values, on mantissas in [1/2, 1) and c scaled to match."""
    product = a * b
    finite = np.isfinite(a) & np.isfinite(b)
    plain = np.where(finite & ~np.isfinite(c), c, product + c)  # a*b may overflow where the exact a*b does not
    plain = np.where((c == 0.0) & (a != 0.0) & (b != 0.0), product, plain)  # which may be a -0 that is not exact
    (ma, ea), (mb, eb) = np.frexp(a), np.frexp(b)
    k = -(ea + eb)
    scaled = np.ldexp(c, k)
    scaled = np.copysign(np.maximum(np.abs(scaled), 2.0**-600), c)  # below every bit of the product only its sign counts
    high, low = _odd_sum(*_two_product(ma, mb), scaled)
    result = np.ldexp(high + low, -k)
    grid = np.copysign(np.ldexp(1.0, k - 1022), high)  # its last bit is the last bit of a subnormal result
    top, rest = _two_sum(grid, high)
    subnormal = np.ldexp((top + _round_to_odd(*_two_sum(rest, low))) - grid, -k)
    subnormal = np.copysign(subnormal, high + low)
    result = np.where(np.abs(result) <= SMALLEST_NORMAL_F64, subnormal, result)
    result = np.where(high + low == 0.0, plain, result)  # exact cancellation: the sum's own sign of zero
    result = np.where(np.abs(scaled) > 2.0**200, c, result)  # a*b is far below half a last place of c
    return np.where(~finite | ~np.isfinite(c) | (a == 0.0) | (b == 0.0) | (c == 0.0), plain, result)


def _odd_sum(high: F64, low: F64, c: F64) -> tuple[F64, F64]:
    """high + low + c as v + z, where v + z in one addition is the correctly rounded sum (Boldo & Melquiond, fig. 5)."""
    th, tl = _two_sum(c, low)
    vh, vl = _two_sum(high, th)
    return vh, _round_to_odd(*_two_sum(tl, vl))


def _round_to_odd(s: F64, e: F64) -> F64:
    """s + e (s the rounded sum, e its error) truncated, with the last bit set when anything was cut off."""
    bits = np.array(s).view(np.int64)
    inexact = (e != 0.0) & np.isfinite(s) & ((bits & 1) == 0)
    bits += np.where(inexact, np.where((e > 0.0) == (s > 0.0), 1, -1), 0)
    return bits.view(np.float64)


def _two_sum(a: F64, b: F64) -> tuple[F64, F64]:
    """a + b = s + e exactly (Knuth)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _two_product(a: F64, b: F64) -> tuple[F64, F64]:
    """a * b = p + e exactly (Dekker), barring overflow and underflow."""
    p = a * b
    ah, al = _split(a)
    bh, bl = _split(b)
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


def _split(a: F64) -> tuple[F64, F64]:
    t = a * SPLITTER
    high = t - (t - a)
    return high, a - high


def _between(x: F64, low: float, high: float) -> Mask:
    magnitude = np.abs(x)
    return (magnitude >= low) & (magnitude <= high)
