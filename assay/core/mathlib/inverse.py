"""asin, acos, atan, atan2. Errors: docs/accuracy.md."""

from __future__ import annotations

from assay.core.lang import E, op, select
from assay.core.mathlib.pieces import (
    INF,
    clamp,
    copysign,
    equal,
    fabs,
    fast_sum,
    fma,
    format_of,
    horner,
    is_nan,
    is_negative,
    number,
    polynomial,
    quotient,
    two_sum,
)


def _asin_kernel(x: E) -> tuple[E, E, E]:
    """(small, s, p): where small = |x| <= 1/2, asin|x| = s + p; else acos|x| = 2(s + p), from asin sqrt((1 - |x|)/2)."""
    t = fabs(x)
    small = t <= 0.5
    z = select(small, t * t, (1.0 - t) * 0.5)
    root = op("sqrt", z)
    residual = fma(-root, root, z) / select(equal(root, 0.0), 1.0, root + root)
    s = select(small, t, root)
    return small, s, fma(s * z, horner(polynomial("asin", x), z), select(small, 0.0, residual))


def asin(x: E) -> E:
    """x + x^3 A(x^2) below 1/2; else pi/2 - 2 asin sqrt((1 - x)/2), sqrt and pi/2 as pairs (Cody & Waite, 1980)."""
    f = format_of(x)
    small, s, p = _asin_kernel(x)
    a, b = fast_sum(number(f.pi_2[0], x), s * -2.0)
    return copysign(select(small, s + p, a + (b + fma(p, -2.0, f.pi_2[1]))), x)


def acos(x: E) -> E:
    """pi/2 - asin x below 1/2; 2 asin sqrt((1 - x)/2) above; pi minus that for x < -1/2."""
    f = format_of(x)
    small, s, p = _asin_kernel(x)
    below = x < 0.0
    g = select(small, select(below, s, -s), s * -2.0)
    gl = select(small, select(below, p, -p), p * -2.0)
    base, base_low = (select(small, number(f.pi_2[k], x), f.pi[k]) for k in (0, 1))
    a, b = fast_sum(base, g)
    return select(small | below, a + (b + (gl + base_low)), (s + p) * 2.0)


def _atan_ratio(num: E, den: E, flip: E | None = None) -> E:
    """atan(num/den) for num, den >= 0, rounded once; pi minus that where flip.

    One division with its residual: num/den, (num - den)/(num + den) or -den/num, cut at tan(pi/8) and tan(3 pi/8); the angle
    0, pi/4 or pi/2 that this leaves out is a pair.
    """
    f = format_of(num)
    far = den * 2.4142135 < num
    middle = den * 0.41421357 < num
    sh, sl = two_sum(num, den)
    dh, dl = two_sum(num, -den)

    def choose(at_far: E | float, at_middle: E | float, near: E) -> E:
        return select(far, at_far, select(middle, at_middle, near))

    zero = number(0, num)
    z, zl = quotient(choose(-den, dh, num), choose(0.0, dl, zero), choose(num, sh, den), choose(0.0, sl, zero))
    angle, angle_low = (choose(f.pi_2[k], f.pi_4[k], zero) for k in (0, 1))
    if flip is not None:
        z, zl = select(flip, -z, z), select(flip, -zl, zl)
        turned, turned_low = (choose(f.pi_2[k], f.pi_3_4[k], number(f.pi[k], num)) for k in (0, 1))
        angle, angle_low = select(flip, turned, angle), select(flip, turned_low, angle_low)
    w = z * z
    a, b = fast_sum(angle, z)
    return a + (b + (angle_low + fma(z * w, horner(polynomial("atan", num), w), zl)))


def atan(x: E) -> E:
    """atan(|x|/1) with the sign of x; |x| beyond 2**(p + 10) is as good as infinite."""
    f = format_of(x)
    return copysign(_atan_ratio(clamp(fabs(x), 0.0, 2.0 ** (f.p + 10)), number(1, x)), x)


def atan2(y: E, x: E) -> E:
    """The angle of (x, y): atan(|y|/|x|), pi minus that for x < 0, the sign of y; all of IEEE 754's special cases.

    Both arguments are scaled together; where the ratio is tiny, y/x itself.
    """
    f = format_of(x)
    ax, ay = fabs(x), fabs(y)
    largest = select(ax < ay, ay, ax)
    infinite = equal(largest, INF)
    e = (f.bias + 1) // 2
    up = select(largest < 2.0 ** -(e - 4), number(2.0 ** (e + 4), x), 1.0)
    factor = select(largest > 2.0 ** (e - 4), 2.0**-e, up)

    def scaled(a: E) -> E:
        return select(infinite, select(equal(a, INF), number(1, x), 0.0), a * factor)

    sx = select(equal(largest, 0.0), 1.0, scaled(ax))
    sy = scaled(ay)
    flip = is_negative(x)
    angle = _atan_ratio(sy, sx, flip)
    tiny = sy < sx * 2.0 ** -(f.p // 2 + 2)
    plain = ~flip & tiny & ~infinite & op("ne", largest, 0.0)
    return select(is_nan(x) | is_nan(y), x + y, copysign(select(plain, ay / ax, angle), y))
