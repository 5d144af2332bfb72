"""erf, erfc and the Gaussian error linear units.

erfc(t) = e**-t^2 F(u)/(1 + 9t/8) with u = (t - 3)/(t + 3), F nearly constant (Schonfelder, "Chebyshev expansions for the error
and related functions", Math. Comp. 32, 1978, with a rational factor): relative accuracy down to the last subnormal. Errors:
docs/accuracy.md.
"""

from __future__ import annotations

from assay.core.lang import E, select
from assay.core.mathlib.coefficients import LOG_ERFC_START
from assay.core.mathlib.exponential import exp_pair
from assay.core.mathlib.pieces import (
    F32,
    INF,
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
    quotient,
    scale,
    times_constant,
    two_product,
    two_sum,
)

SLOPE = (-0.227, 0.194, 0.118, -0.267)
"""dF/du to 0.03, a cubic in u: it multiplies only the low part of u."""


def erfc_tail(dh: E, dl: E, t: E, h: E, hl: E) -> tuple[E, E, E]:
    """erfc(t) = e**(h + hl) F(u) / (dh + dl) = 2**n (q + e), for t >= 0, -t^2 = h + hl and 1 + 9t/8 = dh + dl given exactly.

    F depends weakly on t, so t may be rounded; F is c0 (a pair) + u P(u), u as a pair.
    """
    n, s, low = exp_pair(h, hl)
    c = polynomial("erfc", t)
    v, vl = quotient(t, 0.0, *two_sum(number(3, t), t))
    u, ul = fast_sum(number(-1, t), v + v)
    ul = fma(vl, 2.0, ul)
    p, pl = two_product(u, horner(c[2:], u))
    a, b = fast_sum(number(c[0], t), p)
    b = b + (pl + fma(ul, horner(SLOPE, u), c[1]))
    p, e = two_product(s, a)
    q, e = quotient(p, fma(low, a, fma(s, b, e)), dh, dl)
    return n, q, e


def erfc_positive(t: E) -> tuple[E, E, E]:
    """erfc(t) = 2**n (q + e) for t >= 0."""
    h, low = two_product(t, -t)
    p, e = two_product(t, number(1.125, t))
    dh, dl = two_sum(number(1, t), p)
    return erfc_tail(dh, dl + e, t, h, low)


def _power_above(n: E, low: int, like: E) -> E:
    """2**max(n, low): what is smaller is added to something that it cannot change."""
    return power_of_two(select(n < low, low, n), format_of(like))


def erfc(x: E) -> E:
    """The tail for x > 0; 2 minus it for x < 0."""
    f = format_of(x)
    n, q, e = erfc_positive(clamp(fabs(x), 0.0, 10.2 if f is F32 else 27.3))
    power = _power_above(n, -2 * f.p, x)
    a, b = fast_sum(number(2, x), -q * power)
    return select(x < 0.0, a + fma(-e, power, b), scale(q + e, n))


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
    else:
        start = 0.75
        n, q, e = erfc_positive(clamp(t, 0.0, 6.5))
    power = power_of_two(n, f)
    tail = fma(q, power, e * power)
    return copysign(select(t < start, small, 1.0 - tail), x)


def gelu(x: E) -> E:
    """x Phi(x) = x/2 (1 + erf(x/sqrt2)): with tail = |x|/2 erfc(|x|/sqrt2), -tail below 0 and x - tail above.

    Relative accuracy in the negative tail, where 1 + erf cancels; -0 at -inf, the limit.
    """
    f = format_of(x)
    t = clamp(fabs(x), 0.0, 15.0 if f is F32 else 40.0)
    p, e = times_constant(t, f.nine_eighths_of_sqrt_half)
    dh, dl = two_sum(number(1, x), p)
    h, low = two_product(t * 0.5, -t)
    n, q, r = erfc_tail(dh, dl + e, t * 0.5**0.5, h, low)
    h, low = two_product(q, t * 0.5)
    low = fma(r, t * 0.5, low)
    power = _power_above(n, -2 * f.p, x)
    a, b = two_sum(x, -h * power)
    positive = a + fma(-low, power, b)
    return select(x < INF, copysign(select(x > 0.0, positive, scale(h + low, n)), x), x)
