"""What every elementary function is made of: the two formats, sums and products as exact pairs, powers of two.

A pair (h, low) stands for the unevaluated sum h + low. Functions are generic in the format: the same text is the f32 and the f64
function, only coefficients and the constants of `Format` differ. No branches, no tables, no float -> integer conversion.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

from assay.core import dtypes as dt
from assay.core.dtypes import DType
from assay.core.lang import E, bitcast, const, convert, op, select
from assay.core.mathlib.coefficients import CONSTANTS, POLYNOMIALS

Pair: TypeAlias = tuple[E, E]
INF, NAN = math.inf, math.nan


class Format:
    """Constants of a floating-point format of p bits."""

    def __init__(self, dtype: DType, integer: DType, p: int, bias: int) -> None:
        self.dtype, self.integer, self.p, self.bias = dtype, integer, p, bias
        self.sign_mask = -(1 << (integer.bits - 1))
        self.magnitude_mask = ~self.sign_mask
        self.magic = 1.5 * 2.0 ** (p - 1)
        """|x| <= 2**(p-2): x + magic is magic + round(x), whose bits are those of magic plus round(x)."""
        self.exp_low = -109.0 if p == 24 else -752.0
        """e**x rounds to zero below."""
        self.exp_high = 89.0 if p == 24 else 710.0
        """e**x overflows above."""
        split = {k: (float.fromhex(h), float.fromhex(low)) for k, (h, low) in CONSTANTS[dtype.name].items()}
        self.ln2_by_integer = split["ln2_by_integer"]
        self.log10_2_by_integer = split["log10_2_by_integer"]
        self.ln2, self.inverse_ln2, self.inverse_ln10 = split["ln2"], split["inverse_ln2"], split["inverse_ln10"]
        self.pi, self.pi_2, self.pi_4, self.pi_3_4 = split["pi"], split["pi_2"], split["pi_4"], split["pi_3_4"]
        self.nine_eighths_of_sqrt_half = split["nine_eighths_of_sqrt_half"]
        self.gelu_linear, self.gelu_cubic = split["gelu_linear"], split["gelu_cubic"]
        self.two_thirds, self.two_fifths = split["two_thirds"], split["two_fifths"]
        self.polynomials = {k: tuple(map(float.fromhex, v)) for k, v in POLYNOMIALS[dtype.name].items()}


F32 = Format(dt.f32, dt.i32, 24, 127)
F64 = Format(dt.f64, dt.i64, 53, 1023)


def format_of(x: E) -> Format:
    """The format of x: f32 or f64."""
    return F32 if x.dtype is dt.f32 else F64


def polynomial(name: str, x: E) -> tuple[float, ...]:
    """The coefficients called `name` in the format of x, from degree 0 up."""
    return format_of(x).polynomials[name]


# ------------------------------------------------------------------------------------------------ one operation


def number(v: float, like: E) -> E:
    """The constant v in the format of `like`."""
    return const(v, like.dtype)


def fma(x: E | float, y: E | float, z: E | float) -> E:
    """x*y + z, rounded once."""
    return op("fma", x, y, z)


def fabs(x: E) -> E:
    """|x|."""
    return op("abs", x)


def equal(x: E, y: E | float) -> E:
    """x == y."""
    return op("eq", x, y)


def is_nan(x: E) -> E:
    return op("ne", x, x)


def is_inf(x: E) -> E:
    return equal(fabs(x), INF)


def is_negative(x: E) -> E:
    """Whether the sign bit is set (true of -0)."""
    return bitcast(x) < 0


def bit_set(n: E, bit: int) -> E:
    """Whether n has the given bit (a power of two)."""
    return op("ne", n & bit, 0)


def copysign(magnitude: E, sign: E) -> E:
    """|magnitude| with the sign of `sign`. Odd functions end in it: an fma chain turns -0 into +0."""
    f = format_of(magnitude)
    return bitcast((bitcast(magnitude) & f.magnitude_mask) | (bitcast(sign) & f.sign_mask))


def xor_sign(x: E, sign: E) -> E:
    """x, negated where the sign bit of `sign` is set."""
    return bitcast(bitcast(x) ^ (bitcast(sign) & format_of(x).sign_mask))


def negate_where(c: E, x: E) -> E:
    """c ? -x : x."""
    f = format_of(x)
    return bitcast(bitcast(x) ^ select(c, const(f.sign_mask, f.integer), 0))


def clamp(x: E, low: float, high: float) -> E:
    """min(max(x, low), high); NaN stays."""
    return select(x > high, high, select(x < low, low, x))


def horner(coefficients: Sequence[float], x: E) -> E:
    """c0 + x (c1 + x (c2 + ...)), one fma a step."""
    p = number(coefficients[-1], x)
    for c in coefficients[-2::-1]:
        p = fma(p, x, c)
    return p


def two_chains(coefficients: Sequence[float], x: E) -> E:
    """c0 + c1 x + ... as even(x^2) + x odd(x^2): half the latency of `horner` for one multiplication more."""
    square = x * x
    return fma(x, horner(coefficients[1::2], square), horner(coefficients[::2], square))


# ------------------------------------------------------------------------------------------------ exact pairs


def two_sum(a: E, b: E) -> Pair:
    """a + b = s + e exactly (Knuth)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def fast_sum(a: E, b: E) -> Pair:
    """a + b = s + e exactly, for |a| >= |b| or a = 0 (Dekker)."""
    s = a + b
    return s, (a - s) + b


def two_product(a: E, b: E) -> Pair:
    """a * b = p + e exactly, barring underflow."""
    p = a * b
    return p, fma(a, b, -p)


def times_constant(a: E, c: tuple[float, float]) -> Pair:
    """a * (c[0] + c[1]) as a pair."""
    p, e = two_product(a, number(c[0], a))
    return p, fma(a, c[1], e)


def quotient(nh: E, nl: E | float, dh: E, dl: E) -> Pair:
    """(nh + nl) / (dh + dl) as a pair, with one division: q = nh (1/dh), then the residual. Both pairs must be normalised."""
    reciprocal = 1.0 / dh
    q = nh * reciprocal
    r = fma(-q, dh, nh)
    return q, ((r + nl) - q * dl) * reciprocal


def sqrt_pair(v: E, vl: E) -> Pair:
    """sqrt(v + vl) = s + e, v + vl >= 0 normalised."""
    s = op("sqrt", v)
    return s, (fma(-s, s, v) + vl) / select(equal(s, 0.0), 1.0, s + s)


# ------------------------------------------------------------------------------------------------ powers of two


def round_to_integer(x: E) -> tuple[E, E]:
    """round(x) as an integer and as a float, |x| <= 2**(p-2); garbage, but no trap, for NaN."""
    t = x + format_of(x).magic
    return integer_of_magic(t), t - format_of(x).magic


def integer_of_magic(t: E) -> E:
    """The integer k of t = magic + k."""
    return bitcast(t) - bitcast(number(format_of(t).magic, t))


def float_of(n: E, f: Format) -> E:
    """The small integer n (of f.integer) as a float. In f64 by the magic number: AVX2 has no i64 -> f64 conversion."""
    if f is F32:
        return convert(n, f.dtype)
    return bitcast(n + bitcast(const(f.magic, f.dtype))) - f.magic


def power_of_two(n: E, f: Format) -> E:
    """2**n for n in the range of normal exponents."""
    return bitcast((n + f.bias) << (f.p - 1))


def scale(x: E, n: E) -> E:
    """x * 2**n for |n| up to twice the exponent range, in two steps: the result may overflow or be subnormal."""
    f = format_of(x)
    half = n >> 1
    return x * power_of_two(half, f) * power_of_two(n - half, f)


def scale_by_magic(x: E, t: E) -> E:
    """x * 2**n as `scale` does, for t = magic + 2 bias + n: halves of t's bits end in the halves of n, each with the bias."""
    f = format_of(x)
    n = bitcast(t)
    half = n >> 1
    return x * bitcast(half << (f.p - 1)) * bitcast((n - half) << (f.p - 1))
