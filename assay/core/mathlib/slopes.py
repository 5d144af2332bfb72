"""The derivatives of the scalar functions: column `lin` of the table.

    name(arguments..., result) -> one linear map for each argument: None (zero), a function of c, or Where(condition)

c is a tangent or a cotangent.  The formulas are those that are accurate wherever the function is: no difference of nearly equal
numbers that the argument does not already contain, no square that overflows.  Where a function has a kink, which of its slopes is
taken is a convention, stated here; docs/autodiff.md lists where PyTorch's differs.
"""

from __future__ import annotations

import math
from typing import TypeAlias

from assay.core.lang import E, const
from assay.core.lang import op as _op
from assay.core.lang import select as _select
from assay.core.row import Linear, Where

Maps: TypeAlias = tuple[Linear, ...]

LN2, LN10 = math.log(2), math.log(10)
TWO_OVER_SQRT_PI = 1.1283791670955126
NORMAL_PEAK = 0.3989422804014327
"""1/sqrt(2 pi), the largest value of the normal density."""


def _times(slope: E) -> Maps:
    """The linear map of a function of one argument that has this slope."""
    return (lambda c: c * slope,)


def _same(c: E) -> E:
    return c


def _negated(c: E) -> E:
    return -c


def negation(condition: E) -> E:
    """not condition; of a negation, what it negates."""
    return condition.args[0] if condition.op == "not" else _op("not", condition)


def zero(*arguments: E) -> Maps:
    """Piecewise constant functions, comparisons, and `stop`."""
    return (None,) * (len(arguments) - 1)


def as_if(x: E, y: E, out: E) -> Maps:
    """What the derivative of the second one is."""
    return None, _same


# ------------------------------------------------------------------------------------------------ arithmetic


def add(x: E, y: E, out: E) -> Maps:
    return _same, _same


def sub(x: E, y: E, out: E) -> Maps:
    return _same, _negated


def mul(x: E, y: E, out: E) -> Maps:
    return (lambda c: c * y), (lambda c: c * x)


def div(x: E, y: E, out: E) -> Maps:
    return (lambda c: c / y), (lambda c: -(c / y) * out)


def fma(x: E, y: E, z: E, out: E) -> Maps:
    return (lambda c: c * y), (lambda c: c * x), _same


def neg(x: E, out: E) -> Maps:
    return (_negated,)


def abs(x: E, out: E) -> Maps:
    """The sign of x; 0 at 0."""
    return (lambda c: _select(x > 0, c, _select(x < 0, -c, const(0, c.dtype))),)


def sqrt(x: E, out: E) -> Maps:
    return (lambda c: c / (out + out),)


def max(x: E, y: E, out: E) -> Maps:
    """The larger one; the first where they are equal, or where one is NaN."""
    second = x < y
    return Where(negation(second)), Where(second)


def min(x: E, y: E, out: E) -> Maps:
    """The smaller one; the first where they are equal, or where one is NaN."""
    second = y < x
    return Where(negation(second)), Where(second)


def select(condition: E, x: E, y: E, out: E) -> Maps:
    return None, Where(condition), Where(negation(condition))


def relu(x: E, out: E) -> Maps:
    """1 where x > 0 (or NaN), 0 at 0."""
    return (Where(negation(x <= 0)),)


# ------------------------------------------------------------------------------------------------ exponential


def exp(x: E, out: E) -> Maps:
    return _times(out)


def exp2(x: E, out: E) -> Maps:
    return _times(out * LN2)


def expm1(x: E, out: E) -> Maps:
    """e**x, not out + 1, which has no correct digit where out is near -1."""
    return (lambda c: c * _op("exp", x),)


def sinh(x: E, out: E) -> Maps:
    return (lambda c: c * _op("cosh", x),)


def cosh(x: E, out: E) -> Maps:
    return (lambda c: c * _op("sinh", x),)


def tanh(x: E, out: E) -> Maps:
    return (lambda c: c * (1.0 - out * out),)


def sigmoid(x: E, out: E) -> Maps:
    return (lambda c: c * (out * (1.0 - out)),)


def silu(x: E, out: E) -> Maps:
    """s + out (1 - s), s = sigmoid(x); 1 and 0, the limits, at the infinities."""

    def slope() -> E:
        s = _op("sigmoid", x)
        return _select(_op("eq", x, math.inf), 1.0, s + out * (1.0 - s))

    return (lambda c: c * slope(),)


# ------------------------------------------------------------------------------------------------ logarithm


def log(x: E, out: E) -> Maps:
    return (lambda c: c / x,)


def log2(x: E, out: E) -> Maps:
    return (lambda c: c / (x * LN2),)


def log10(x: E, out: E) -> Maps:
    return (lambda c: c / (x * LN10),)


def log1p(x: E, out: E) -> Maps:
    return (lambda c: c / (1.0 + x),)


def softplus(x: E, out: E) -> Maps:
    return (lambda c: c * _op("sigmoid", x),)


def logaddexp(x: E, y: E, out: E) -> Maps:
    """sigmoid of the differences; 1/2 each where both are the same infinity."""

    def share(a: E, b: E) -> E:
        return _select(_op("eq", a, b), 0.5, _op("sigmoid", a - b))

    return (lambda c: c * share(x, y)), (lambda c: c * share(y, x))


def asinh(x: E, out: E) -> Maps:
    return (lambda c: c / _op("hypot", x, const(1, x.dtype)),)


def acosh(x: E, out: E) -> Maps:
    return (lambda c: c / (_op("sqrt", x - 1) * _op("sqrt", x + 1)),)


def atanh(x: E, out: E) -> Maps:
    return (lambda c: c / ((1 - x) * (1 + x)),)


# ------------------------------------------------------------------------------------------------ Gaussian


def erf(x: E, out: E) -> Maps:
    return (lambda c: c * (_op("exp", -(x * x)) * TWO_OVER_SQRT_PI),)


def erfc(x: E, out: E) -> Maps:
    return (lambda c: -(c * (_op("exp", -(x * x)) * TWO_OVER_SQRT_PI)),)


def gelu_slope(x: E) -> E:
    """Phi(x) + x phi(x), phi the normal density and Phi its integral."""
    cdf = 0.5 * (1.0 + _op("erf", x * 0.7071067811865476))
    pdf = _op("exp", -0.5 * x * x) * NORMAL_PEAK
    return cdf + x * pdf


def gelu_tanh_slope(x: E) -> E:
    """The slope of x/2 (1 + tanh(k (x + 0.044715 x**3))), k = sqrt(2/pi)."""
    k = math.sqrt(2 / math.pi)
    t = _op("tanh", k * (x + 0.044715 * (x * x * x)))
    return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * (k * (1.0 + 0.134145 * (x * x)))


def gelu(x: E, out: E) -> Maps:
    return (lambda c: c * gelu_slope(x),)


def gelu_tanh(x: E, out: E) -> Maps:
    return (lambda c: c * gelu_tanh_slope(x),)


# ------------------------------------------------------------------------------------------------ trigonometric


def sin(x: E, out: E) -> Maps:
    return (lambda c: c * _op("cos", x),)


def cos(x: E, out: E) -> Maps:
    return (lambda c: -(c * _op("sin", x)),)


def tan(x: E, out: E) -> Maps:
    return (lambda c: c * (1.0 + out * out),)


def asin(x: E, out: E) -> Maps:
    return (lambda c: c / _op("sqrt", (1 - x) * (1 + x)),)


def acos(x: E, out: E) -> Maps:
    return (lambda c: -(c / _op("sqrt", (1 - x) * (1 + x))),)


def atan(x: E, out: E) -> Maps:
    return (lambda c: c / (1.0 + x * x),)


def atan2(y: E, x: E, out: E) -> Maps:
    """(x, -y) / (x**2 + y**2) without overflow; 0 at the origin."""

    def part(c: E, over: E) -> E:
        h = _op("hypot", x, y)
        return _select(_op("eq", h, 0), const(0, c.dtype), c * (over / h / h))

    return (lambda c: part(c, x)), (lambda c: part(c, -y))


# ------------------------------------------------------------------------------------------------ powers, division


def pow(x: E, y: E, out: E) -> Maps:
    """y x**(y - 1) and out log(x): the first is 0 for y = 0, the second for x = 0 and y >= 0."""

    def base(c: E) -> E:
        return _select(_op("eq", y, 0), const(0, c.dtype), c * (y * _op("pow", x, y - 1)))

    def exponent(c: E) -> E:
        return _select(_op("eq", x, 0) & (y >= 0), const(0, c.dtype), c * (out * _op("log", x)))

    return base, exponent


def rsqrt(x: E, out: E) -> Maps:
    return (lambda c: c * (-0.5 * out / x),)


def cbrt(x: E, out: E) -> Maps:
    return (lambda c: c / (3.0 * (out * out)),)


def hypot(x: E, y: E, out: E) -> Maps:
    """x / out and y / out; 0 at the origin."""

    def part(c: E, over: E) -> E:
        return _select(_op("eq", out, 0), const(0, c.dtype), c * (over / out))

    return (lambda c: part(c, x)), (lambda c: part(c, y))


def fmod(x: E, y: E, out: E) -> Maps:
    """1 and -n, n the integer with x - n y = out."""
    return _same, (lambda c: -(c * _op("round", (x - out) / y)))


def remainder(x: E, y: E, out: E) -> Maps:
    """1 and -n, n the integer with x - n y = out."""
    return fmod(x, y, out)
