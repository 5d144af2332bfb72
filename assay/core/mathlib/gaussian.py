"""erf, erfc and the Gaussian error linear unit.

The tail g(t) = erfc(t) e**t^2 is w F(w) with w = 1/(t + k), F nearly linear (after Schonfelder, "Chebyshev expansions for the
error and related functions", Math. Comp. 32, 1978): relative accuracy down to the last subnormal. Errors: docs/accuracy.md.
"""

from __future__ import annotations

from assay.core.lang import E, bitcast, select
from assay.core.mathlib.coefficients import LOG_ERFC_START
from assay.core.mathlib.exponential import exp_pair
from assay.core.mathlib.pieces import (
    F32,
    F64,
    INF,
    Pair,
    clamp,
    copysign,
    fabs,
    fast_sum,
    fma,
    format_of,
    horner,
    number,
    polynomial,
    power_of_two,
    two_chains,
    two_product,
)

SHIFT = {
    ("erfc", F32): (1.75, 0.15625),
    ("erfc", F64): (2.5, 0.15625),
    ("gelu", F32): (2.5, 0.125),
    ("gelu", F64): (3.0, 0.09375),
}
"""The k of w = 1/(t + k) and the m of v = w - m, as in tools/fit_mathlib.py."""
LIFT = {F32: 64, F64: 256}
"""Tails are computed 2**LIFT too large and scaled down last: low parts do not underflow, subnormal results are rounded once."""


def _tail(name: str, t: E, half: float, factor: E | None = None) -> Pair:
    """2**LIFT factor e**(-half t^2) w F(w) = z + zl for t >= 0, |zl| < 0.1 |z|.

    F = c0 + v (c1 + v Q(v)), v = w - m: the last two steps keep their rounding errors (c0 is short and a < 2 c1, so c - result
    is exact). The error e of w enters to first order, by the slope of log(w F) against log(w). h + hl = -half t^2 = n ln2 + r:
    one fma leaves r with an error below 2**-(p+2).
    """
    f = format_of(t)
    m = t * -half
    h = t * m
    hl = fma(t, m, -h)
    b = fma(h, f.inverse_ln2[0], f.magic + f.bias + LIFT[f])
    j = b - (f.magic + f.bias + LIFT[f])
    power = bitcast(bitcast(b) << (f.p - 1))  # 2**(n + LIFT): the magic number's own bits leave at the top
    r = fma(j, -f.ln2[0], h)

    k, m = SHIFT[name, f]
    d = t + k
    w = 1.0 / d
    e = fma(-w, t - (d - k), fma(-w, d, 1.0))  # 1/(t + k) = w (1 + e)
    v = w - m
    c0, c0_low, c1, c2, *others = polynomial(f"{name}_tail", t)
    q = fma(v, two_chains(others, v), c2)
    a = fma(v, q, c1)
    g = fma(v, a, c0)
    gl = fma(v, fma(v, q, c1 - a), fma(v, a, c0 - g) + c0_low)
    if f is F64:  # in f32, w >= m/2 and w - m is exact
        gl = fma((w - v) - m, fma(v, q, a), gl)

    low = fma(horner(polynomial(f"{name}_slope", t), v), e, fma(j, -f.ln2[1], hl))
    s = 1.0 + r
    rest = (r * r) * horner(polynomial("exp", t), r)
    rest = fma(low, s + rest, rest)  # e**(r + low) = 1 + r + rest
    u, ul = two_product(power if factor is None else factor * power, w)
    y, yl = two_product(u, g)
    yl = fma(ul, g, fma(u, gl, yl))
    z = fma(y, r, y)
    return z, fma(y, rest, fma(yl, s + rest, fma(y, r, y - z)))


def erfc(x: E) -> E:
    """The tail for x > 0; 2 minus it for x < 0."""
    f = format_of(x)
    below = x < 0.0
    last = select(below, number(4.0 if f is F32 else 6.0, x), 10.2 if f is F32 else 27.3)
    t = fabs(x)
    z, zl = fast_sum(*_tail("erfc", select(t > last, last, t), 1.0))
    h = z * 2.0 ** -LIFT[f]
    c = 2.0 - h
    return select(below, c + fma(zl, -(2.0 ** -LIFT[f]), (2.0 - c) - h), h)


def erf(x: E) -> E:
    """x + x (c0 + z P(z)) with z = x^2 and c0 a pair, below 0.84 (f64: 0.75); then 1 - erfc: f32 by e**P(t - 0.84)."""
    f = format_of(x)
    t = fabs(x)
    z = x * x
    c = polynomial("erf", x)
    small = x + fma(x, fma(z, horner(c[2:], z), c[0]), x * c[1])
    if f is F32:
        start = LOG_ERFC_START
        n, q, e = exp_pair(horner(polynomial("log_erfc", x), clamp(t, start, 3.95) - start))
        power = power_of_two(n, f)
        tail = fma(q, power, e * power)
    else:
        start = 0.75
        z, zl = _tail("erfc", clamp(t, 0.0, 6.5), 1.0)
        tail = (z + zl) * 2.0 ** -LIFT[f]
    return copysign(select(t < start, small, 1.0 - tail), x)


def gelu(x: E) -> E:
    """x Phi(x) = x/2 (1 + erf(x/sqrt2)) = max(x, 0) - T with T = t Q(t), t = |x|, Q(t) = erfc(t/sqrt2)/2.

    Relative accuracy in the negative tail, where 1 + erf cancels: there the difference is -T rounded, and the low part of T
    counts for nothing. T <= max(x, 0)/2 elsewhere, so that the error of the difference is exact. -0 at -inf, the limit.
    """
    f = format_of(x)
    below = x < 0.0
    last = 14.5 if f is F32 else 39.5
    t = fabs(x)
    t = select(t > last, last, t)
    z, zl = fast_sum(*_tail("gelu", t, 0.5, t))
    h = z * 2.0 ** -LIFT[f]
    ramp = select(below, number(-0.0, x), x)
    y = ramp - h
    error = fma(zl, select(below, number(0.0, x), 2.0 ** -LIFT[f]), (y - ramp) + h)
    return select(x < INF, y - error, x)
