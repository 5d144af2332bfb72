"""log, log2, log10, log1p, softplus, logaddexp and the inverse hyperbolic functions.

x = 2**k m with m in [sqrt(1/2), sqrt(2)): g = m - 1 is exact, log(1 + g) is the pair g - g^2/2 plus a polynomial (f32), or
plus the atanh series in g/(2 + g) (f64: FreeBSD e_log.c), k ln2 in two parts. Errors: docs/accuracy.md.
"""

from __future__ import annotations

from assay.core.lang import E, bitcast, const, op, select
from assay.core.mathlib.exponential import exp_normal
from assay.core.mathlib.pieces import (
    F32,
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
    number,
    polynomial,
    power_of_two,
    quotient,
    scale,
    sqrt_pair,
    two_product,
    two_sum,
)

SQRT_HALF_BITS = {"f32": 0x3F3504F3, "f64": 0x3FE6A09E667F3BCD}


def log_split(u: E) -> tuple[E, E]:
    """u = 2**k m with m in [sqrt(1/2), sqrt(2)), u normal and positive."""
    f = format_of(u)
    k = (bitcast(u) - SQRT_HALF_BITS[u.dtype.name]) >> (f.p - 1)
    return k, bitcast(bitcast(u) - (k << (f.p - 1)))


def log_kernel(g: E, gl: E | None = None) -> Pair:
    """log(1 + g + gl) = s + t for 1 + g in [sqrt(1/2), sqrt(2)): s is g - g^2/2 rounded."""
    a, b = two_product(g, g)
    s, e = fast_sum(g, a * -0.5)
    low = fma(b, -0.5, e)
    if format_of(g) is F32:
        t = fma(g * a, horner(polynomial("log", g), g), low)
    else:
        w = g / (g + 2.0)
        z = w * w
        t = fma(w, fma(z, horner(polynomial("log_atanh", g), z), a * 0.5), low)
    return s, t if gl is None else t + gl


def normalised(x: E) -> tuple[E, E]:
    """x or, where it is subnormal, x 2**(p+1), and the exponent that this added."""
    f = format_of(x)
    small = x < 2.0 ** (1 - f.bias)
    return select(small, x * 2.0 ** (f.p + 1), x), select(small, const(-(f.p + 1), f.integer), 0)


def _log_parts(x: E) -> tuple[E, E, E]:
    """x = 2**k m: k as a float, log(m) = s + t."""
    u, k0 = normalised(x)
    k, m = log_split(u)
    return float_of(k + k0, format_of(x)), *log_kernel(m - 1.0)


def _log_limits(x: E, result: E) -> E:
    """The result for finite x > 0; -inf at zeros, inf at inf, NaN below."""
    outside = select(equal(x, 0.0), -INF, select(x < 0.0, NAN, x))
    return select(x > 0.0, select(x < INF, result, x), outside)


def log(x: E) -> E:
    """k ln2 + (s + t), one sum rounded last; where k = 0 the pair itself."""
    f = format_of(x)
    k, s, t = _log_parts(x)
    h, low = fast_sum(k * f.ln2_by_integer[0], s)
    near = equal(k, 0.0)
    h, low = select(near, s, h), select(near, 0.0, low)
    return _log_limits(x, h + (low + fma(k, f.ln2_by_integer[1], t)))


def _log_in_base(x: E, inverse: tuple[float, float]) -> tuple[E, E, E]:
    """x = 2**k m: k, and log(m) times the pair `inverse` as a pair."""
    k, s, t = _log_parts(x)
    s, t = fast_sum(s, t)
    p, e = two_product(s, number(inverse[0], x))
    return k, p, fma(s, inverse[1], fma(t, inverse[0], e))


def log2(x: E) -> E:
    """log(m) as a pair times 1/ln2 as a pair, plus k."""
    k, p, e = _log_in_base(x, format_of(x).inverse_ln2)
    h, low = two_sum(k, p)
    return _log_limits(x, h + (low + e))


def log10(x: E) -> E:
    """log(m) as a pair times 1/ln10 as a pair, plus k log10(2) in two parts."""
    f = format_of(x)
    k, p, e = _log_in_base(x, f.inverse_ln10)
    h, low = two_sum(k * f.log10_2_by_integer[0], p)
    return _log_limits(x, h + (low + fma(k, f.log10_2_by_integer[1], e)))


def log1p_pair(u: E, c: E, x: E, xl: E, shift: E | int = 0) -> Pair:
    """log((u + c) 2**shift), c small against u; where u is near 1 and shift = 0, log(1 + x + xl), the same number.

    c/u is the first-order term of c.
    """
    f = format_of(u)
    k, m = log_split(u)
    k = k + shift
    near = op("eq", k, 0)
    s, t = log_kernel(select(near, x, m - 1.0), select(near, xl, c) / u)
    kf = float_of(k, f)
    h, low = fast_sum(kf * f.ln2_by_integer[0], s)
    return select(near, s, h), select(near, 0.0, low) + fma(kf, f.ln2_by_integer[1], t)


def log1p(x: E) -> E:
    """log(1 + x), with 1 + x = u + c exactly; x itself where it is huge."""
    f = format_of(x)
    y = clamp(x, -1.0, 2.0 ** (f.p + 9))
    u, c = two_sum(number(1, x), y)
    huge = x > 2.0 ** (f.p + 8)
    u = select(huge, x, select(u < 2.0**-f.p, 0.5, u))
    h, low = log1p_pair(u, select(huge, 0.0, c), y, number(0, x))
    outside = select(equal(x, -1.0), -INF, select(x < -1.0, NAN, x))
    return select(x > -1.0, select(x < INF, copysign(h + low, x), x), outside)


def softplus(x: E) -> E:
    """log(1 + e**x) = max(x, 0) + log1p(e**-|x|), all of it in pairs with one final sum; e**x itself far below 0."""
    f = format_of(x)
    n, s, t = exp_normal(clamp(-fabs(x), f.exp_low, 0.0))
    power = power_of_two(select(n < -f.p - 6, -f.p - 6, n), f)
    e, el = s * power, t * power
    u, c = fast_sum(number(1, x), e)
    h, low = log1p_pair(u, c + el, e, el)
    positive = x > 0.0
    a, b = two_sum(select(positive, x, 0.0), h)
    return select(n < -f.p - 4, select(positive, x, scale(s + t, n)), a + (b + low))


def logaddexp(x: E, y: E) -> E:
    """log(e**x + e**y) = max + log1p(e**-|x - y|): d = x - y as a pair, as softplus of it; max(x, y) where one is infinite."""
    f = format_of(x)
    top = op("max", x, y)
    bottom = op("min", x, y)
    d, dl = two_sum(bottom, -top)
    finite = op("lt", fabs(d), INF)
    n, s, t = exp_normal(select(finite, op("max", d, number(f.exp_low, x)), 0.0))
    s, t = fast_sum(s, fma(s, select(d > f.exp_low, dl, 0.0), t))
    e, el = scale(s, n), scale(t, n)
    u, c = fast_sum(number(1, x), e)
    h, low = log1p_pair(u, c + el, e, el)
    a, b = two_sum(top, h)
    return select(finite, a + (b + low), select(is_inf(top), top, select(is_nan(d), d, top)))


def _log1p_of(y: E, yl: E, huge: E, x: E) -> E:
    """log(1 + y + yl), or log(2x) where x is huge; the last step of asinh and acosh."""
    u, c = two_sum(number(1, y), y)
    u, c = select(huge, x, u), select(huge, 0.0, c + yl)
    h, low = log1p_pair(u, c, y, yl, select(huge, const(1, format_of(x).integer), 0))
    return h + low


def asinh(x: E) -> E:
    """log1p(t + t^2/(1 + sqrt(1 + t^2))), t = |x|, everything in pairs; log(2t) above 2**(p/2 + 2)."""
    f = format_of(x)
    t = fabs(x)
    huge = t > 2.0 ** (f.p // 2 + 2)
    r = select(huge, 1.0, t)
    a, b = two_product(r, r)
    v, vl = two_sum(number(1, x), a)
    s, sl = sqrt_pair(*fast_sum(v, vl + b))
    dh, dl = fast_sum(s, number(1, x))
    q, e = quotient(a, b, *fast_sum(dh, dl + sl))
    y, yl = fast_sum(r, q)
    y, yl = fast_sum(y, yl + e)
    result = copysign(_log1p_of(y, yl, huge, t), x)
    return select((t < INF) & (t >= 2.0 ** -(f.p // 2 + 1)), result, x)


def acosh(x: E) -> E:
    """log1p(x - 1 + sqrt(x^2 - 1)), everything in pairs; log(2x) above 2**(p/2 + 2); NaN below 1."""
    f = format_of(x)
    huge = x > 2.0 ** (f.p // 2 + 2)
    r = select(huge | (x < 1.0), 1.0, x)
    a, b = two_product(r, r)
    v, vl = two_sum(a, number(-1, x))
    s, sl = sqrt_pair(*fast_sum(v, vl + b))
    g, gl = two_sum(r, number(-1, x))
    y, yl = two_sum(s, g)
    y, yl = fast_sum(y, yl + (sl + gl))
    result = _log1p_of(y, yl, huge, x)
    return select(x < INF, select(x < 1.0, NAN, result), x)


def atanh(x: E) -> E:
    """log1p(2t/(1 - t))/2 with t = |x|, the quotient as a pair; x itself where tiny, NaN beyond 1."""
    f = format_of(x)
    t = fabs(x)
    r = select(t < 1.0, t, 0.0)
    q, e = quotient(r + r, 0.0, *two_sum(number(1, x), -r))
    q, e = fast_sum(q, e)
    u, c = two_sum(number(1, x), q)
    h, low = log1p_pair(u, c + e, q, e)
    inside = copysign((h + low) * 0.5, x)
    outside = select(equal(t, 1.0), copysign(number(INF, x), x), select(is_nan(x), x, NAN))
    return select(t < 1.0, select(t < 2.0 ** -(f.p // 2 + 1), x, inside), outside)
