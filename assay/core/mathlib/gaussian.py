"""erf, erfc and the Gaussian error linear unit.

The tail g(t) = erfc(t) e**t^2 is w F(w) with w = 1/(t + k), F nearly linear (after Schonfelder, "Chebyshev expansions for the
error and related functions", Math. Comp. 32, 1978): relative accuracy down to the last subnormal. Errors: docs/accuracy.md.
"""

from __future__ import annotations

from assay.core.lang import E, select
from assay.core.mathlib.coefficients import LOG_ERFC_START
from assay.core.mathlib.exponential import exp_pair
from assay.core.mathlib.pieces import (
    F32,
    F64,
    INF,
    clamp,
    copysign,
    fabs,
    fma,
    format_of,
    horner,
    number,
    polynomial,
    power_of_two,
    two_product,
    two_sum,
)

SHIFT = {
    ("erfc", F32): (1.75, 0.15625),
    ("erfc", F64): (2.5, 0.15625),
    ("gelu", F32): (2.5, 0.125),
    ("gelu", F64): (3.0, 0.09375),
}
"""The k of w = 1/(t + k) and the m of v = w - m, as in tools/fit_mathlib.py."""
LIFT = {F32: 64, F64: 128}
"""Small results are computed 2**LIFT too large and scaled down last, so that subnormal ones are rounded once."""


def _tail(name: str, t: E, h: E, hl: E) -> tuple[E, E, E]:
    """e**(h + hl) w F(w) = 2**n (z + zl) for t >= 0.

    F = c0 + v (c1 + v Q(v)), v = w - m: the last two steps keep their rounding errors (c0 is short and a < 2 c1, so c - result
    is exact). The error e of w enters to first order, by the slope of log(w F) against log(w).
    """
    n, s, low = exp_pair(h, hl)
    k, m = SHIFT[name, format_of(t)]
    d, dl = two_sum(number(k, t), t)
    w = 1.0 / d
    e = fma(dl, w, fma(w, d, -1.0))  # 1/(d + dl) = w (1 - e)
    v = w - m
    c0, c0_low, c1, *rest = polynomial(f"{name}_tail", t)
    q = horner(rest, v)
    a = fma(v, q, c1)
    b = fma(v, q, c1 - a)
    f = fma(v, a, c0)
    fl = fma(v, b, fma(v, a, c0 - f) + c0_low)
    if format_of(t) is F64:  # in f32, w >= m/2 and w - m is exact
        fl = fma((w - v) - m, fma(v, q, a), fl)
    p, pl = two_product(s, f)
    z, zl = two_product(p, w)
    zl = fma(fma(low, f, fma(s + low, fl, pl)), w, zl)
    return n, z, fma(-z, e * horner(polynomial(f"{name}_slope", t), v), zl)


def _erfc_tail(t: E) -> tuple[E, E, E]:
    """erfc(t) = 2**n (z + zl) for t >= 0."""
    h, low = two_product(t, -t)
    return _tail("erfc", t, h, low)


def erfc(x: E) -> E:
    """The tail for x > 0; 2 minus it for x < 0."""
    f = format_of(x)
    below = x < 0.0
    last = select(below, number(4.0 if f is F32 else 6.0, x), 10.2 if f is F32 else 27.3)
    t = fabs(x)
    n, z, zl = _erfc_tail(select(t > last, last, t))
    power = power_of_two(select(below, n, n + LIFT[f]), f)
    z, zl = z * power, zl * power
    c = 2.0 - z
    return select(below, c + (((2.0 - c) - z) - zl), (z + zl) * 2.0 ** -LIFT[f])


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
        n, q, e = _erfc_tail(clamp(t, 0.0, 6.5))
    power = power_of_two(n, f)
    tail = fma(q, power, e * power)
    return copysign(select(t < start, small, 1.0 - tail), x)


def gelu(x: E) -> E:
    """x Phi(x) = x/2 (1 + erf(x/sqrt2)): Phi = Q(|x|) below 0 and 1 - Q(x) above, as a pair, with Q(t) = erfc(t/sqrt2)/2.

    Relative accuracy in the negative tail, where 1 + erf cancels; -0 at -inf, the limit; x/2 where x is tiny (the low part of
    the product would underflow).
    """
    f = format_of(x)
    below = x < 0.0
    last = select(below, number(14.5 if f is F32 else 39.5, x), 6.0 if f is F32 else 9.0)
    t = fabs(x)
    t = select(t > last, last, t)
    square, low = two_product(t, t)
    n, z, zl = _tail("gelu", t, square * -0.5, low * -0.5)
    power = power_of_two(select(below, n + LIFT[f], n), f)
    z, zl = z * power, zl * power
    c = 1.0 - z
    phi = select(below, z, c)
    phi_low = select(below, zl, ((1.0 - c) - z) - zl)
    y = select(below, -t, x)
    y = fma(y, phi, y * phi_low) * select(below, number(2.0 ** -LIFT[f], x), 1.0)
    return select(x < INF, select(t < 2.0 ** -(f.p + 3), x * 0.5, y), x)
