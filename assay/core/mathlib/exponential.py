"""exp, exp2, expm1, the hyperbolic functions and the logistic family.

Method throughout (Tang, "Table-driven implementation of the exponential function", ACM TOMS 15(2), 1989, without the table):
x = n ln2 + r, e**r as a pair whose head is 1 + r, the polynomial only for what is below. Errors: docs/accuracy.md.
"""

from __future__ import annotations

from assay.core.lang import E, select
from assay.core.mathlib.pieces import (
    INF,
    Pair,
    clamp,
    copysign,
    fabs,
    fast_sum,
    fma,
    format_of,
    horner,
    integer_of_magic,
    number,
    polynomial,
    power_of_two,
    quotient,
    round_to_integer,
    scale,
    scale_by_magic,
    times_constant,
    two_product,
    two_sum,
)


def exp_reduce(x: E, low: E | None = None) -> tuple[E, E, E]:
    """x + low = n ln2 + r + rl with |r| <= 0.347: ln2 in two parts (Cody & Waite), r exact to a pair.

    With `low` the second part is below 2**-12 (f64: 2**-32), so its own rounding and a tiny head do not matter.
    """
    f = format_of(x)
    t = fma(x, f.inverse_ln2[0], f.magic)
    j = t - f.magic
    head = fma(j, -f.ln2_by_integer[0], x)
    if low is not None:
        return integer_of_magic(t), *fast_sum(head, fma(j, -f.ln2_by_integer[1], low))
    r = fma(j, -f.ln2_by_integer[1], head)
    return integer_of_magic(t), r, fma(j, -f.ln2_by_integer[1], head - r)


def exp_series(r: E, rl: E) -> Pair:
    """e**(r + rl) = s + t, |t| < 0.07: s is 1 + r rounded; the cross term rl*s counts where rl is large."""
    s, t = fast_sum(number(1, r), r)
    return s, fma(r * r, horner(polynomial("exp", r), r), fma(rl, s, t))


def exp_pair(x: E, low: E | None = None) -> tuple[E, E, E]:
    """e**(x + low) = 2**n (s + t), |t| < 0.07."""
    n, r, rl = exp_reduce(x, low)
    return n, *exp_series(r, rl)


def exp_normal(x: E, low: E | None = None) -> tuple[E, E, E]:
    """e**(x + low) = 2**n (s + t), |t| <= ulp(s)/2: a pair that may enter a product or a division."""
    n, s, t = exp_pair(x, low)
    return n, *fast_sum(s, t)


def exp(x: E) -> E:
    """e**x = 2**n (s + t), scaled in two steps so that overflow and subnormal results come out right.

    x = n ln2 + r: one fma with all of ln2's head leaves r with an error below 2**-(p+2), where x and n ln2 are of one size.
    """
    f = format_of(x)
    x = clamp(x, f.exp_low, f.exp_high)
    magic = f.magic + 2.0 * f.bias
    b = fma(x, f.inverse_ln2[0], magic)
    j = b - magic
    r = fma(j, -f.ln2[0], x)
    s, t = fast_sum(number(1, x), r)
    t = fma(r * r, horner(polynomial("exp", x), r), t)
    return scale_by_magic(s + fma(j * -f.ln2[1], s + t, t), b)


def exp2(x: E) -> E:
    """2**x: x - round(x) is exact, times ln2 as a pair; then as exp."""
    f = format_of(x)
    x = clamp(x, -(f.bias + f.p + 2.0), f.bias + 1.5)
    n, whole = round_to_integer(x)
    s, t = exp_series(*times_constant(x - whole, f.ln2))
    return scale(s + t, n)


def expm1_half(x: E) -> Pair:
    """(e**x - 1)/2 = h + low (low not small): S - 1/2, S r, S r^2/2 by exact sums with S = 2**(n-1), the cubic rest last."""
    n, r, rl = exp_reduce(x)
    half = power_of_two(n - 1, format_of(x))
    c, cl = two_sum(half, number(-0.5, x))
    a, al = two_product(r, r)
    rest = fma(r * a, horner(polynomial("expm1", x), r), fma(al, 0.5, fma(rl, r, rl)))
    h, low = two_sum(c, half * r)
    h, k = two_sum(h, half * (a * 0.5))
    return h, k + (low + fma(half, rest, cl))


def expm1(x: E) -> E:
    """e**x - 1, halved so that n = 128 fits; tiny x is itself (half of a subnormal would lose its last bit)."""
    f = format_of(x)
    h, low = expm1_half(clamp(x, -0.75 * f.p, f.exp_high))
    return select(fabs(x) < 2.0 ** -(f.p + 1), x, (h + low) * 2.0)


def tanh(x: E) -> E:
    """-e/(e + 2) with e = expm1(-2|x|) as a pair, one division with its residual; no separate polynomial near 0."""
    f = format_of(x)
    t = fabs(x)
    h, low = fast_sum(*expm1_half(clamp(t, 0.0, 0.4 * f.p) * -2.0))
    dh, dl = fast_sum(number(1, x), h)
    q, e = quotient(h, low, dh, dl + low)
    return select(t < 2.0 ** -(f.p // 2 + 1), x, copysign(q + e, x))


def _exp_quarter(t: E) -> Pair:
    """e**t / 4 = h + low for t >= 0; clamped above 2 * the largest finite number."""
    f = format_of(t)
    n, s, low = exp_normal(clamp(t, 0.0, f.exp_high + 0.5))
    quarter = power_of_two(n - 2, f)
    return s * quarter, low * quarter


def sinh(x: E) -> E:
    """Odd polynomial below 1; else E/2 - 1/(2E) with E = e**|x| as a pair, scaled by 1/4 against overflow."""
    t = fabs(x)
    z = x * x
    small = fma(x * z, horner(polynomial("sinh", x), z), x)
    h, low = _exp_quarter(t)
    large = (h + (low - 0.0625 / h)) * 2.0
    return select(t < 1.0, small, copysign(large, x))


def cosh(x: E) -> E:
    """E/2 + 1/(2E) with E = e**|x| and 1/E as pairs, scaled by 1/4 against overflow."""
    h, low = _exp_quarter(fabs(x))
    q, e = quotient(number(0.0625, x), 0.0, h, low)
    a, b = fast_sum(h, q)
    return (a + (b + (low + e))) * 2.0


def logistic(x: E, low: E | None = None) -> tuple[E, E, E]:
    """1/(1 + e**-(x + low)) = 2**n (q + e), from E = e**-|x + low|: 1/(1 + E), or E/(1 + E) unscaled for a tiny result."""
    f = format_of(x)
    below = x < 0.0
    n, s, t = exp_normal(clamp(-fabs(x), f.exp_low, 0.0), None if low is None else select(below, low, -low))
    power = power_of_two(select(n < -f.p - 5, -f.p - 5, n), f)
    dh, dl = fast_sum(number(1, x), s * power)
    q, e = quotient(select(below, s, 1.0), select(below, t, 0.0), dh, fma(t, power, dl))
    return select(below, n, 0), q, e


def sigmoid(x: E) -> E:
    """1/(1 + e**-x)."""
    n, q, e = logistic(x)
    return scale(q + e, n)


def _gated(x: E, least: float, gate: E, gate_low: E | None) -> E:
    """x/(1 + e**-(gate + gate_low)), scaled last; -0 at -inf, the limit. Below `least` the result is zero."""
    n, q, e = logistic(gate, gate_low)
    y = clamp(x, least, INF)
    h, low = two_product(y, q)
    return select(x < INF, copysign(scale(h + fma(y, e, low), n), x), x)


def silu(x: E) -> E:
    """x/(1 + e**-x)."""
    return _gated(x, format_of(x).exp_low, x, None)


def gelu_tanh(x: E) -> E:
    """x/2 (1 + tanh(sqrt(2/pi)(x + 0.044715 x^3))) = x/(1 + e**-y), y = x (a + b x^2) as a pair."""
    f = format_of(x)
    t = clamp(x, -30.0, 30.0)
    z, zl = two_product(t, t)
    h, low = times_constant(z, f.gelu_cubic)
    h, e = two_sum(number(f.gelu_linear[0], x), h)
    low = e + (fma(zl, f.gelu_cubic[0], low) + f.gelu_linear[1])
    y, yl = two_product(t, h)
    y, yl = fast_sum(y, fma(t, low, yl))
    return _gated(x, -30.0, y, yl)
