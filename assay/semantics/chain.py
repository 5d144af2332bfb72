"""Chains of fused multiply-adds a = round(x*y + a), one after the other, on Python floats: what few long dot products take.

numpy costs microseconds a call, whatever the length; a step here costs half of one.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from assay.core.fma import fma64

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

LEAST, MOST = 2.0**-960, 2.0**1000
"""Between them the product of two f64 is the exact sum of two f64, and three such terms do not overflow."""


def fma32_chain(x: F32, y: F32, a: float) -> list[float]:
    """The states of a = round_f32(x*y + a) over the elements of x and y in order.

    p = x*y is exact in f64.  s = round_f64(p + a) lies next to p + a, so the two f64 neighbours of s enclose it; where both
    round to the same f32, so does p + a (rounding is monotone).  Elsewhere p + a is rounded as a rational number.
    """
    cell = memoryview(bytearray(4)).cast("f")  # assignment rounds an f64 to nearest even
    states: list[float] = []
    for p in np.multiply(x, y, dtype=np.float64).tolist():
        s = p + a
        if s == 0.0 or not math.isfinite(s):
            a = s
        else:
            cell[0] = math.nextafter(s, -math.inf)
            below = cell[0]
            cell[0] = math.nextafter(s, math.inf)
            a = below if below == cell[0] else _round_f32(Fraction(p) + Fraction(a))
        states.append(a)
    return states


def _round_f32(q: Fraction) -> float:
    """q != 0 rounded to f32: nearest, ties to even."""
    exponent = max(math.frexp(float(q))[1] - 24, -149)  # of the last bit; a power of two just above q takes one bit less
    n = round(q / Fraction(2) ** exponent)
    return math.ldexp(n, exponent) if abs(n) < 1 << 24 or exponent < 104 else math.copysign(math.inf, n)


def fma64_chain(x: F64, y: F64, a: float) -> list[float]:
    """The states of a = round_f64(x*y + a) over the elements of x and y in order.

    x*y is the exact sum of two f64, and fsum rounds the exact sum of three once.  Where a product may underflow or a sum
    overflow, x*y + a is rounded as a rational number.
    """
    product = x * y
    rest = fma64(x, y, -product)
    states: list[float] = []
    for u, v, p, low in zip(x.tolist(), y.tolist(), product.tolist(), rest.tolist(), strict=True):
        s = p + a
        if u == 0.0 or v == 0.0 or not (math.isfinite(u) and math.isfinite(v)):
            a = s
        elif not math.isfinite(a):
            pass  # whatever x*y is: it may overflow to the other infinity
        elif LEAST < abs(p) < MOST and abs(a) < MOST:
            a = math.fsum((p, low, a)) or s
        else:
            a = _round_f64(Fraction(u) * Fraction(v) + Fraction(a), s)
        states.append(a)
    return states


def _round_f64(q: Fraction, zero: float) -> float:
    """q rounded to f64; `zero` where q = 0."""
    try:
        return float(q) if q else zero
    except OverflowError:
        return math.inf if q > 0 else -math.inf
