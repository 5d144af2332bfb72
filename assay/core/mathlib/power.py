"""rsqrt, cbrt, hypot, pow, fmod, remainder. Errors: docs/accuracy.md."""

from __future__ import annotations

from assay.core import dtypes as dt
from assay.core.lang import E, bitcast, convert, op, select
from assay.core.mathlib.exponential import exp_pair
from assay.core.mathlib.logarithm import log_split, normalised
from assay.core.mathlib.pieces import (
    F32,
    F64,
    INF,
    NAN,
    Pair,
    clamp,
    copysign,
    equal,
    fabs,
    fast_sum,
    float_of,
    fma,
    format_of,
    horner,
    is_inf,
    is_nan,
    is_negative,
    number,
    polynomial,
    power_of_two,
    quotient,
    round_to_integer,
    scale,
    sqrt_pair,
    two_product,
    two_sum,
    xor_sign,
)


def rsqrt(x: E) -> E:
    """1/sqrt(x): v = 1/s, s = sqrt(x), and one correction from the exact residuals of both (scaled up where tiny)."""
    f = format_of(x)
    tiny = x < 2.0 ** (3 * f.p - f.bias)
    u = select(tiny, x * 2.0 ** (4 * f.p), x)
    s = op("sqrt", u)
    v = 1.0 / s
    residual = fma(-s, s, u)
    y = v + fma(fma(-v, s, 1.0), v, -(v * v) * (residual * v) * 0.5)
    return select((x > 0.0) & (x < INF), select(tiny, y * 2.0 ** (2 * f.p), y), v)


def cbrt(x: E) -> E:
    """x**(1/3): the exponent divided by 3, a polynomial on [1/2, 4), Newton; the last step with y^3 - m exact to a pair."""
    f = format_of(x)
    t = fabs(x)
    tiny = t < 2.0 ** (f.p - f.bias)
    u = select(tiny, t * 2.0 ** (3 * f.p), t)
    exponent = float_of(bitcast(u) >> (f.p - 1), f) - float(f.bias)
    n, _ = round_to_integer(exponent * (1 / 3))
    m = bitcast(bitcast(u) - ((n + n + n) << (f.p - 1)))
    y = horner(polynomial("cbrt", x), m)
    for _ in range(1 if f is F32 else 3):
        y = y - (y * y * y - m) / (y * y * 3.0)
    a, b = two_product(y, y)
    c, d = two_product(a, y)
    y = y - ((c - m) + fma(b, y, d)) / (a * 3.0)
    ordinary = (t < INF) & op("ne", t, 0.0)
    return select(ordinary, copysign(scale(y, select(tiny, n - f.p, n)), x), x)


def hypot(x: E, y: E) -> E:
    """sqrt(x^2 + y^2). f32: in f64, where the squares are exact; f64: scaled, squares as pairs, sqrt with its residual."""
    infinite = is_inf(x) | is_inf(y)
    if format_of(x) is F32:
        a, b = convert(x, dt.f64), convert(y, dt.f64)
        return select(infinite, INF, convert(op("sqrt", a * a + b * b), dt.f32))
    ax, ay = fabs(x), fabs(y)
    a, b = select(ax < ay, ay, ax), select(ax < ay, ax, ay)
    large, tiny = a > 2.0**500, a < 2.0**-400
    down = select(large, 2.0**-600, select(tiny, number(2.0**600, x), 1.0))
    back = select(large, 2.0**600, select(tiny, number(2.0**-600, x), 1.0))
    a, b = a * down, b * down
    p, pl = two_product(a, a)
    q, ql = two_product(b, b)
    h, low = fast_sum(p, q)
    low = low + (pl + ql)
    s, e = sqrt_pair(h, low)
    return select(infinite, INF, select(equal(s, 0.0), a, (s + e) * back))


# ------------------------------------------------------------------------------------------------ pow


def pow(x: E, y: E) -> E:
    """x**y as IEEE 754 pow: |x|**y, then Annex F of C by selects."""
    return _pow_limits(x, y, _pow_f32(x, y) if format_of(x) is F32 else _pow_f64(x, y))


def _pow_f32(x: E, y: E) -> E:
    """|x|**y in f64: log2|x| to 2**-50 relative, 2**(y log2|x|) to 2**-40."""
    k, m = log_split(convert(fabs(x), dt.f64))
    w = (m - 1.0) / (m + 1.0)
    log2_x = fma(w, horner(polynomial("log2_wide", w), w * w), float_of(k, F64))
    p = clamp(convert(y, dt.f64) * log2_x, -200.0, 200.0)
    n, whole = round_to_integer(p)
    return convert(horner(polynomial("exp2_wide", p), p - whole) * power_of_two(n, F64), dt.f32)


def _pow_f64(x: E, y: E) -> E:
    """|x|**y from log|x| in double-double (to about 2**-67), times y, the exponential of a pair."""
    u, k0 = normalised(fabs(x))
    k, m = log_split(u)
    log_x, low = _log_double(m, float_of(k + k0, F64))
    p, e = two_product(y, log_x)
    e = fma(y, low, e)
    beyond = fabs(p) > 800.0
    n, s, t = exp_pair(clamp(p, -800.0, 800.0), select(beyond, 0.0, e))
    return scale(s + t, n)


def _times_low(z: E, zl: E, a: E, al: E) -> Pair:
    """(z + zl)(a + al) as a pair."""
    p, e = two_product(z, a)
    return p, e + fma(z, al, zl * a)


def _log_double(m: E, k: E) -> Pair:
    """log(m) + k ln2 as a pair: the atanh series 2w + w z (2/3 + z (2/5 + z P(z))), z = w^2, its first terms in pairs."""
    dh, dl = two_sum(number(1, m), m)
    w, wl = fast_sum(*quotient(m - 1.0, 0.0, dh, dl))
    z, zl = two_product(w, w)
    zl = fma(w * 2.0, wl, zl)
    tail = horner(polynomial("log_double", m), z)
    a, al = two_product(z, tail)
    b, bl = fast_sum(number(F64.two_fifths[0], m), a)
    bl = bl + (al + fma(zl, tail, F64.two_fifths[1]))
    a, al = _times_low(z, zl, b, bl)
    b, bl = fast_sum(number(F64.two_thirds[0], m), a)
    bl = bl + (al + F64.two_thirds[1])
    a, al = _times_low(z, zl, b, bl)
    p, pl = _times_low(w, wl, a, al)
    s, t = fast_sum(w * 2.0, p)
    t = t + (pl + wl * 2.0)
    h, low = two_sum(k * F64.ln2_by_integer[0], s)
    return fast_sum(h, low + (t + k * F64.ln2_by_integer[1]))


def _parity(y: E) -> tuple[E, E]:
    """(y is an integer, y is an odd integer)."""
    f = format_of(y)
    t = fabs(y)
    large = t >= 2.0 ** (f.p - 1)
    unit = 2.0 ** (f.p - 1)
    whole = large | equal((t + unit) - unit, t)
    last = bitcast(select(large, t, t + unit)) & 1
    return whole, whole & (t < 2.0**f.p) & op("ne", last, 0)


def _pow_limits(x: E, y: E, r: E) -> E:
    """Annex F around r = |x|**y."""
    whole, odd = _parity(y)
    ax = fabs(x)
    infinity, zero = number(INF, x), number(0, x)
    r = select(equal(ax, 0.0), select(y < 0.0, infinity, zero), r)
    r = select(equal(ax, INF), select(y < 0.0, zero, infinity), r)
    grows = ((y > 0.0) & (ax > 1.0)) | ((y < 0.0) & (ax < 1.0))
    r = select(is_inf(y), select(equal(ax, 1.0), 1.0, select(grows, infinity, zero)), r)
    r = select(is_negative(x) & odd, -r, r)
    r = select((x < 0.0) & ~whole & (ax < INF), NAN, r)
    r = select(is_nan(x) | is_nan(y), x + y, r)
    return select(equal(x, 1.0) | equal(y, 0.0), 1.0, r)


# ------------------------------------------------------------------------------------------------ fmod, remainder


def _step(r: E, y: E) -> E:
    """r - trunc(r/y) y exactly, for r >= 0, y > 0 and a quotient below 2**52: the difference is representable, fma is exact."""
    rest = fma(-op("trunc", r / y), y, r)
    return select(rest < 0.0, rest + y, rest)  # the rounded quotient was one too large


def _fmod_f32(a: E, b: E) -> E:
    """a modulo b for a >= 0, b > 0 of f64 that come from f32: a/b < 2**277, six steps of at most 51 bits."""
    for k in range(255, -1, -51):
        a = _step(a, b * 2.0**k)
    return a


def _mantissa_exponent(a: E) -> tuple[E, E]:
    """a = m 2**e with m in [1, 2), a > 0 of f64 (subnormal too)."""
    u, e0 = normalised(a)
    e = (bitcast(u) >> 52) - F64.bias
    return bitcast(bitcast(u) - (e << 52)), e + e0


def _fmod_f64(a: E, b: E) -> E:
    """a modulo b for a >= 0, b > 0 of f64: the mantissas divided, 42 times 51 bits cover the largest difference of exponents."""
    r, ea = _mantissa_exponent(a)
    m, eb = _mantissa_exponent(b)
    n = ea - eb
    r = _step(r, m)
    for k in range(42):
        left = n - 51 * k
        left = select(left < 0, 0, select(left > 51, 51, left))
        r = _step(r * power_of_two(left, F64), m)
    return select(a < b, a, scale(r, eb))


def _operands(x: E, y: E) -> tuple[E, E, E, E]:
    """(undefined, y infinite, |x|, |y|), the last two replaced by 0 and 1 where there is nothing to divide."""
    undefined = is_inf(x) | equal(y, 0.0) | is_nan(x) | is_nan(y)
    infinite = is_inf(y)
    skip = undefined | infinite
    return undefined, infinite, select(skip, 0.0, fabs(x)), select(skip, 1.0, fabs(y))


def fmod(x: E, y: E) -> E:
    """x - y trunc(x/y), exact; the sign of x, on zero results too; NaN for x = inf or y = 0, x for y = inf."""
    undefined, infinite, a, b = _operands(x, y)
    if format_of(x) is F32:
        r = convert(_fmod_f32(convert(a, dt.f64), convert(b, dt.f64)), dt.f32)
    else:
        r = _fmod_f64(a, b)
    return select(undefined, NAN, select(infinite, x, copysign(r, x)))


def remainder(x: E, y: E) -> E:
    """x - y n, n the integer nearest to x/y, ties to even; exact (IEEE 754 remainder; FreeBSD e_remainder.c)."""
    undefined, infinite, a, b = _operands(x, y)
    if format_of(x) is F32:
        a, b = convert(a, dt.f64), convert(b, dt.f64)
        r = _fmod_f32(a, b + b)  # in [0, 2b): the parity of the quotient is kept
    else:
        small = b < 2.0**1023
        r = select(small, _fmod_f64(a, select(small, b + b, b)), a)
    s = r - b
    r = select(r + r > b, select(s + s >= b, s - b, s), r)
    if format_of(x) is F32:
        r = convert(r, dt.f32)
    return select(undefined, NAN, select(infinite, x, xor_sign(r, x)))
