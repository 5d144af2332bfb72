"""sin, cos, tan for every finite argument, by the reduction of Payne & Hanek ("Radian reduction for trigonometric functions",
ACM SIGNUM Newsletter 18, 1983): x 2/pi from a window of the bits of 2/pi. Errors: docs/accuracy.md.
"""

from __future__ import annotations

import math

from assay.core import dtypes as dt
from assay.core.lang import E, bitcast, const, convert, op, select
from assay.core.mathlib.coefficients import TWO_OVER_PI
from assay.core.mathlib.pieces import (
    F32,
    F64,
    INF,
    Pair,
    bit_set,
    fabs,
    fast_sum,
    fma,
    format_of,
    horner,
    negate_where,
    number,
    polynomial,
    times_constant,
    two_product,
    two_sum,
    xor_sign,
)

UNREDUCED = 0.785398
"""Below this (just under pi/4) the argument is its own remainder."""
LOW_WORD = 0xFFFFFFFF


def reduce(t: E) -> tuple[E, E, E]:
    """t = q pi/2 + r + rl for t >= 0 with |r| <= pi/4 (q modulo 4; garbage, but no trap, for inf and NaN)."""
    q, r, rl = _reduce_f32(t) if format_of(t) is F32 else _reduce_f64(t)
    small = t < UNREDUCED
    return select(small, 0, q), select(small, t, r), select(small, 0.0, rl)


def _reduce_f32(t: E) -> tuple[E, E, E]:
    """24 x 96 bits in i64; the remainder is one f64 number, split into two f32."""
    b = convert(bitcast(t), dt.i64)
    offset = (b >> 23) - 88
    offset = select(offset < 0, 0, offset)
    mantissa = (b & 0x7FFFFF) | 0x800000
    word, shift = offset >> 6, offset & 63
    back = 63 - shift

    def window(k: int, right: int = 0) -> E:
        """Word `word + k` of 2/pi, shifted right."""
        last = const(TWO_OVER_PI[k + 2] >> right, dt.i64)
        later = select(op("eq", word, 1), const(TWO_OVER_PI[k + 1] >> right, dt.i64), last)
        return select(op("eq", word, 0), const(TWO_OVER_PI[k] >> right, dt.i64), later)

    high = (window(0) << shift) | (window(1, 1) >> back)
    low = (((window(1) << shift) | (window(2, 1) >> back)) >> 32) & LOW_WORD
    product = mantissa * high + ((mantissa * low) >> 32)  # modulo 4, as 2 + 62 bits
    q = (product + (1 << 61)) >> 62
    r = convert(product << 2, dt.f64) * (math.pi / 2 * 2.0**-64)
    rh = convert(r, dt.f32)
    return convert(q, dt.i32), rh, convert(r - convert(rh, dt.f64), dt.f32)


def _shift_right_logical(v: E, n: int) -> E:
    """v >> n of i64, filled with zeros."""
    return (v >> n) & ((1 << (64 - n)) - 1)


def _high_product(a: E, b: E) -> E:
    """The upper 64 bits of the unsigned product of two i64, from 32-bit pieces."""
    al, ah = a & LOW_WORD, _shift_right_logical(a, 32)
    bl, bh = b & LOW_WORD, _shift_right_logical(b, 32)
    lh, hl = al * bh, ah * bl
    middle = _shift_right_logical(al * bl, 32) + (lh & LOW_WORD) + (hl & LOW_WORD)
    return ah * bh + _shift_right_logical(lh, 32) + _shift_right_logical(hl, 32) + _shift_right_logical(middle, 32)


def _reduce_f64(t: E) -> tuple[E, E, E]:
    """53 x 192 bits in i64; the window of 2/pi is chosen by a barrel of selects, not by a table load."""
    b = bitcast(t)
    offset = (b >> 52) - 1013
    offset = select(offset < 0, 0, select(offset > 1033, 1033, offset))
    mantissa = (b & ((1 << 52) - 1)) | (1 << 52)
    word, shift = offset >> 6, offset & 63
    back = 63 - shift
    words = [const(w, dt.i64) for w in TWO_OVER_PI]
    for step, kept in ((16, 19), (8, 11), (4, 7), (2, 5), (1, 4)):  # binary digits of `word`; words still in play after it
        moved = [*words[step:], *[const(0, dt.i64)] * step]
        chosen = bit_set(word, step)
        words = [select(chosen, moved[i], words[i]) for i in range(kept)]
    w0, w1, w2 = ((words[i] << shift) | (_shift_right_logical(words[i + 1], 1) >> back) for i in range(3))
    low1 = mantissa * w1
    low = low1 + _high_product(mantissa, w2)
    sign = F64.sign_mask
    carry = select((low ^ sign) < (low1 ^ sign), const(1, dt.i64), 0)  # unsigned compare
    high = mantissa * w0 + _high_product(mantissa, w1) + carry  # x 2/pi modulo 4, as 2 + 62 bits, continued in `low`
    q = (high + (1 << 61)) >> 62
    fraction, rest = (high << 2) | ((low >> 62) & 3), low << 2
    x, y = two_sum(convert(fraction >> 32, dt.f64) * 2.0**-32, convert(fraction & LOW_WORD, dt.f64) * 2.0**-64)
    x, y = two_sum(x, y + convert(_shift_right_logical(rest, 1), dt.f64) * 2.0**-127)
    p, e = times_constant(x, F64.pi_2)
    return q, *fast_sum(p, fma(y, F64.pi_2[0], e))


def sin_cos_kernel(r: E, rl: E) -> tuple[E, E]:
    """sin(r + rl) = r + r^3 S(r^2) and cos(r + rl) = 1 - r^2/2 (a pair) + r^4 C(r^2), |r| <= pi/4."""
    z, zl = two_product(r, r)
    w = z * 0.5
    h = 1.0 - w
    e = (1.0 - h) - w
    c = polynomial("sin", r)
    sin_ = r + fma(r * z, horner(c, z), fma(r * zl, c[0], rl * h))
    cos_ = h + (e + fma(z * z, horner(polynomial("cos", r), z), -fma(sin_, rl, zl * 0.5)))
    return sin_, cos_


def sin(x: E) -> E:
    """sin |x| by quadrant, with the sign of x; NaN at infinities."""
    t = fabs(x)
    q, r, rl = reduce(t)
    s, c = sin_cos_kernel(r, rl)
    y = negate_where(bit_set(q, 2), select(bit_set(q, 1), c, s))
    return select(t < INF, xor_sign(y, x), x - x)


def cos(x: E) -> E:
    """cos |x| by quadrant; NaN at infinities."""
    t = fabs(x)
    q, r, rl = reduce(t)
    s, c = sin_cos_kernel(r, rl)
    return select(t < INF, negate_where(bit_set(q + 1, 2), select(bit_set(q, 1), s, c)), x - x)


def _tan_kernel(r: E, rl: E) -> Pair:
    """tan(r + rl) = r + c0 r^3 + r^5 P(r^2) as a pair: the cubic term exact to twice the precision, rl to first order."""
    c = polynomial("tan", r)
    z, zl = two_product(r, r)
    a, al = two_product(r, z)
    al = fma(r, zl, al)
    p, pl = two_product(a, number(c[0], r))
    h, low = fast_sum(r, p)
    low = low + fma(a * z, horner(c[1:], z), fma(al, c[0], pl) + rl)
    return fast_sum(h, fma(rl, h * h, low))


def tan(x: E) -> E:
    """tan of the remainder, or -1/tan in odd quadrants (one division with its residual); NaN at infinities."""
    t = fabs(x)
    q, r, rl = reduce(t)
    h, low = _tan_kernel(r, rl)
    v = -1.0 / h
    inverse = fma(v, fma(v, h, 1.0) + v * low, v)
    return select(t < INF, xor_sign(select(bit_set(q, 1), inverse, h + low), x), x - x)
