"""Elementary functions: the named rows of the scalar table whose meaning is a composition in core/mathlib.

Largest errors (`ulp`) are those of docs/accuracy.md: f32 of one argument over all inputs, the others over samples.
"""

# fmt: off
from __future__ import annotations

import math

from assay.core import mathlib
from assay.core.dtypes import COMPUTED
from assay.core.lang import E, const, op, select
from assay.core.mathlib import slopes
from assay.core.row import same
from assay.core.scalar import NUMBERS, inf, nan, scalar

FLOATS = same(*COMPUTED)
TINY = 2.0**-149
"""The smallest subnormal f32; an ordinary number in f64."""
PI = math.pi

# ------------------------------------------------------------------------------------------------ exponential

scalar("exp", "x", types=FLOATS, doc="e**x.", define=mathlib.exp, lin=slopes.exp,
       cases=[(0.0, 1.0), (-0.0, 1.0), (1.0, math.e), (inf, inf), (-inf, 0.0), (nan, nan), (1000.0, inf), (-1000.0, 0.0)],
       ulp={"f32": 0.765, "f64": 0.743})
scalar("exp2", "x", types=FLOATS, doc="2**x, exact for integers.", define=mathlib.exp2, lin=slopes.exp2,
       cases=[(0.0, 1.0), (3.0, 8.0), (-126.0, 2.0**-126), (inf, inf), (-inf, 0.0), (nan, nan), (2000.0, inf)],
       ulp={"f32": 0.759, "f64": 0.749})
scalar("expm1", "x", types=FLOATS, doc="e**x - 1, without cancellation near 0.", define=mathlib.expm1, lin=slopes.expm1,
       cases=[(-0.0, -0.0), (TINY, TINY), (1.0, math.e - 1), (-inf, -1.0), (inf, inf), (nan, nan), (-50.0, -1.0)],
       ulp={"f32": 0.593, "f64": 0.579})
scalar("sinh", "x", types=FLOATS, doc="(e**x - e**-x)/2.", define=mathlib.sinh, lin=slopes.sinh,
       cases=[(-0.0, -0.0), (TINY, TINY), (1.0, math.sinh(1)), (inf, inf), (-inf, -inf), (nan, nan), (-1000.0, -inf)],
       ulp={"f32": 0.755, "f64": 0.744})
scalar("cosh", "x", types=FLOATS, doc="(e**x + e**-x)/2.", define=mathlib.cosh, lin=slopes.cosh,
       cases=[(-0.0, 1.0), (-1.0, math.cosh(1)), (inf, inf), (-inf, inf), (nan, nan), (1000.0, inf)],
       ulp={"f32": 0.596, "f64": 0.579})
scalar("tanh", "x", types=FLOATS, doc="Hyperbolic tangent.", define=mathlib.tanh, lin=slopes.tanh,
       cases=[(-0.0, -0.0), (TINY, TINY), (0.5, math.tanh(0.5)), (inf, 1.0), (-inf, -1.0), (nan, nan), (-40.0, -1.0)],
       ulp={"f32": 0.554, "f64": 0.53})
scalar("sigmoid", "x", types=FLOATS, doc="1/(1 + e**-x).", define=mathlib.sigmoid, lin=slopes.sigmoid,
       cases=[(-0.0, 0.5), (1.0, 1 / (1 + math.exp(-1))), (inf, 1.0), (-inf, 0.0), (nan, nan), (-1000.0, 0.0)],
       ulp={"f32": 0.779, "f64": 0.577})
scalar("silu", "x", types=FLOATS, doc="x/(1 + e**-x); -0 at -inf, the limit (PyTorch: NaN).",
       define=mathlib.silu, lin=slopes.silu,
       cases=[(-0.0, -0.0), (TINY, TINY / 2), (1.0, 1 / (1 + math.exp(-1))), (inf, inf), (-inf, -0.0), (nan, nan)],
       ulp={"f32": 0.795, "f64": 0.604})

# ------------------------------------------------------------------------------------------------ logarithm

scalar("log", "x", types=FLOATS, doc="Natural logarithm.", define=mathlib.log, lin=slopes.log,
       cases=[(1.0, 0.0), (0.0, -inf), (-0.0, -inf), (-1.0, nan), (TINY, math.log(TINY)), (inf, inf), (nan, nan)],
       ulp={"f32": 0.617, "f64": 0.635})
scalar("log2", "x", types=FLOATS, doc="Logarithm to base 2, exact for powers of two.", define=mathlib.log2, lin=slopes.log2,
       cases=[(1.0, 0.0), (8.0, 3.0), (2.0**-149, -149.0), (0.0, -inf), (-1.0, nan), (inf, inf), (nan, nan)],
       ulp={"f32": 0.646, "f64": 0.657})
scalar("log10", "x", types=FLOATS, doc="Logarithm to base 10.", define=mathlib.log10, lin=slopes.log10,
       cases=[(1.0, 0.0), (1000.0, 3.0), (-0.0, -inf), (-1.0, nan), (inf, inf), (nan, nan)],
       ulp={"f32": 0.596, "f64": 0.602})
scalar("log1p", "x", types=FLOATS, doc="log(1 + x), without cancellation near 0.", define=mathlib.log1p, lin=slopes.log1p,
       cases=[(-0.0, -0.0), (TINY, TINY), (1.0, math.log(2)), (-1.0, -inf), (-2.0, nan), (inf, inf), (nan, nan)],
       ulp={"f32": 0.622, "f64": 0.593})
scalar("softplus", "x", types=FLOATS, doc="log(1 + e**x), for every x (PyTorch switches to x at its threshold).",
       define=mathlib.softplus, lin=slopes.softplus,
       cases=[(-0.0, math.log(2)), (inf, inf), (-inf, 0.0), (nan, nan), (100.0, 100.0)],
       ulp={"f32": 0.758, "f64": 0.633})
scalar("logaddexp", "x y", types=FLOATS, doc="log(e**x + e**y); the larger one where one is infinite.",
       define=mathlib.logaddexp, lin=slopes.logaddexp,
       cases=[(0.0, 0.0, math.log(2)), (-inf, -inf, -inf), (-inf, 1.0, 1.0), (inf, -inf, inf), (inf, inf, inf), (nan, inf, nan),
              (1000.0, -1000.0, 1000.0), (2.0**127, -(2.0**127), 2.0**127)],
       ulp={"f32": 0.771, "f64": 0.711})
scalar("asinh", "x", types=FLOATS, doc="Inverse of sinh.", define=mathlib.asinh, lin=slopes.asinh,
       cases=[(-0.0, -0.0), (TINY, TINY), (1.0, math.asinh(1)), (-(2.0**100), -101 * math.log(2)), (inf, inf), (-inf, -inf),
              (nan, nan)],
       ulp={"f32": 0.647, "f64": 0.632})
scalar("acosh", "x", types=FLOATS, doc="Inverse of cosh, x >= 1.", define=mathlib.acosh, lin=slopes.acosh,
       cases=[(1.0, 0.0), (2.0, math.acosh(2)), (2.0**100, 101 * math.log(2)), (0.5, nan), (-inf, nan), (inf, inf), (nan, nan)],
       ulp={"f32": 0.621, "f64": 0.592})
scalar("atanh", "x", types=FLOATS, doc="Inverse of tanh, |x| <= 1.", define=mathlib.atanh, lin=slopes.atanh,
       cases=[(-0.0, -0.0), (TINY, TINY), (0.5, math.atanh(0.5)), (1.0, inf), (-1.0, -inf), (1.5, nan), (inf, nan), (nan, nan)],
       ulp={"f32": 0.634, "f64": 0.62})

# ------------------------------------------------------------------------------------------------ Gaussian

scalar("erf", "x", types=FLOATS, doc="Error function 2/sqrt(pi) integral of e**-t^2 from 0 to x.",
       define=mathlib.erf, lin=slopes.erf,
       cases=[(-0.0, -0.0), (TINY, TINY * 2 / PI**0.5), (0.5, math.erf(0.5)), (-1.5, math.erf(-1.5)),
              (inf, 1.0), (-inf, -1.0), (nan, nan)],
       ulp={"f32": 0.954, "f64": 0.844})
scalar("erfc", "x", types=FLOATS, doc="1 - erf(x), with relative accuracy in the tail.", define=mathlib.erfc, lin=slopes.erfc,
       cases=[(-0.0, 1.0), (2.0, math.erfc(2)), (-2.0, math.erfc(-2)), (inf, 0.0), (-inf, 2.0), (nan, nan), (30.0, 0.0)],
       ulp={"f32": 0.856, "f64": 0.889})
scalar("gelu", "x", types=FLOATS,
       doc="x/2 (1 + erf(x/sqrt 2)), relative accuracy in the tail; -0 at -inf, the limit (PyTorch: NaN).",
       define=mathlib.gelu, lin=slopes.gelu,
       cases=[(-0.0, -0.0), (1.0, (1 + math.erf(0.5**0.5)) / 2), (inf, inf), (-inf, -0.0), (nan, nan), (-50.0, -0.0)],
       ulp={"f32": 0.767, "f64": 0.931})
scalar("gelu_tanh", "x", types=FLOATS,
       doc="x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x**3))); -0 at -inf, the limit (PyTorch: NaN).",
       define=mathlib.gelu_tanh, lin=slopes.gelu_tanh,
       cases=[(-0.0, -0.0), (1.0, 0.8411919906082768), (inf, inf), (-inf, -0.0), (nan, nan), (-50.0, -0.0)],
       ulp={"f32": 0.789, "f64": 1.386})

# ------------------------------------------------------------------------------------------------ trigonometric

scalar("sin", "x", types=FLOATS, doc="Sine, x in radians, the argument reduced exactly.", define=mathlib.sin, lin=slopes.sin,
       cases=[(-0.0, -0.0), (TINY, TINY), (1.0, math.sin(1)), (2.0**100, -0.8721836054182673), (inf, nan), (-inf, nan),
              (nan, nan)],
       ulp={"f32": 0.674, "f64": 0.66})
scalar("cos", "x", types=FLOATS, doc="Cosine, x in radians, the argument reduced exactly.", define=mathlib.cos, lin=slopes.cos,
       cases=[(-0.0, 1.0), (1.0, math.cos(1)), (2.0**100, 0.48917865697472146), (inf, nan), (-inf, nan), (nan, nan)],
       ulp={"f32": 0.671, "f64": 0.654})
scalar("tan", "x", types=FLOATS, doc="Tangent, x in radians, the argument reduced exactly.", define=mathlib.tan, lin=slopes.tan,
       cases=[(-0.0, -0.0), (TINY, TINY), (1.0, math.tan(1)), (-2.0, math.tan(-2)), (inf, nan), (-inf, nan), (nan, nan)],
       ulp={"f32": 0.77, "f64": 0.735})
scalar("asin", "x", types=FLOATS, doc="Inverse sine, |x| <= 1.", define=mathlib.asin, lin=slopes.asin,
       cases=[(-0.0, -0.0), (TINY, TINY), (0.5, PI / 6), (-1.0, -PI / 2), (1.5, nan), (inf, nan), (nan, nan)],
       ulp={"f32": 0.622, "f64": 0.622})
scalar("acos", "x", types=FLOATS, doc="Inverse cosine, |x| <= 1.", define=mathlib.acos, lin=slopes.acos,
       cases=[(1.0, 0.0), (-0.0, PI / 2), (-1.0, PI), (1.5, nan), (-inf, nan), (nan, nan)],
       ulp={"f32": 0.605, "f64": 0.595})
scalar("atan", "x", types=FLOATS, doc="Inverse tangent.", define=mathlib.atan, lin=slopes.atan,
       cases=[(-0.0, -0.0), (TINY, TINY), (1.0, PI / 4), (inf, PI / 2), (-inf, -PI / 2), (nan, nan)],
       ulp={"f32": 0.907, "f64": 0.789})
scalar("atan2", "y x", types=FLOATS, doc="The angle of the point (x, y), in [-pi, pi].", define=mathlib.atan2, lin=slopes.atan2,
       cases=[(0.0, 0.0, 0.0), (-0.0, 0.0, -0.0), (0.0, -0.0, PI), (-0.0, -1.0, -PI), (1.0, 0.0, PI / 2),
              (1.0, -1.0, 3 * PI / 4), (inf, -inf, 3 * PI / 4), (1.0, inf, 0.0), (-1.0, -inf, -PI), (nan, 1.0, nan),
              (1.0, nan, nan)],
       ulp={"f32": 0.842, "f64": 0.794})

# ------------------------------------------------------------------------------------------------ powers, division

scalar("pow", "x y", types=FLOATS, doc="x**y as IEEE 754 pow: pow(x, 0) = pow(1, y) = 1 for every x, y, NaN too.",
       define=mathlib.pow, lin=slopes.pow,
       cases=[(2.0, 10.0, 1024.0), (-2.0, 3.0, -8.0), (nan, 0.0, 1.0), (1.0, nan, 1.0), (-1.0, inf, 1.0), (-1.0, 0.5, nan),
              (-0.0, -3.0, -inf), (-0.0, 3.0, -0.0), (0.0, -2.0, inf), (-inf, -3.0, -0.0), (0.5, inf, 0.0), (nan, 1.0, nan)],
       ulp={"f32": 0.501, "f64": 0.749})
scalar("rsqrt", "x", types=FLOATS, doc="1/sqrt(x).", define=mathlib.rsqrt, lin=slopes.rsqrt,
       cases=[(4.0, 0.5), (2.0, 2.0**-0.5), (0.0, inf), (-0.0, -inf), (-1.0, nan), (inf, 0.0), (nan, nan)],
       ulp={"f32": 0.501, "f64": 0.501})
scalar("cbrt", "x", types=FLOATS, doc="Cube root, of negative numbers too.", define=mathlib.cbrt, lin=slopes.cbrt,
       cases=[(27.0, 3.0), (-8.0, -2.0), (-0.0, -0.0), (2.0**-147, 2.0**-49), (inf, inf), (-inf, -inf), (nan, nan)],
       ulp={"f32": 0.501, "f64": 0.5})
scalar("hypot", "x y", types=FLOATS,
       doc="sqrt(x**2 + y**2) without overflow; inf where one is infinite, though the other be NaN.",
       define=mathlib.hypot, lin=slopes.hypot,
       cases=[(3.0, 4.0, 5.0), (-0.0, 0.0, 0.0), (inf, nan, inf), (nan, -inf, inf), (nan, 1.0, nan),
              (3 * 2.0**100, -4 * 2.0**100, 5 * 2.0**100)],
       ulp={"f32": 0.5, "f64": 0.75})
scalar("fmod", "x y", types=FLOATS, doc="x - y*trunc(x/y), exact; the sign of x, NaN for y = 0 or infinite x.",
       define=mathlib.fmod, lin=slopes.fmod,
       cases=[(5.5, 2.0, 1.5), (-5.5, 2.0, -1.5), (-4.0, 2.0, -0.0), (1.0, 0.0, nan), (inf, 1.0, nan), (1.0, -inf, 1.0),
              (1.0, nan, nan), (2.0**127, 3 * TINY, TINY)],
       ulp={"f32": 0.5, "f64": 0.5})
scalar("remainder", "x y", types=FLOATS,
       doc="x - y*n with n the integer nearest to x/y, ties to even; exact (IEEE 754 remainder).",
       define=mathlib.remainder, lin=slopes.remainder,
       cases=[(5.0, 2.0, 1.0), (7.0, 2.0, -1.0), (-4.0, 2.0, -0.0), (1.0, 0.0, nan), (inf, 1.0, nan), (1.0, inf, 1.0)],
       ulp={"f32": 0.5, "f64": 0.5})


def _log_sigmoid(x: E) -> E:
    return -op("softplus", -x)


scalar("log_sigmoid", "x", types=FLOATS, doc="log(sigmoid(x)) = -softplus(-x).", define=_log_sigmoid, derived=True,
       cases=[(0.0, -math.log(2)), (inf, -0.0), (-inf, -inf), (nan, nan)])


def _xlogy(x: E, y: E) -> E:
    product, zero = x * op("log", y), const(0, x.dtype)
    at_zero = select((y > 0) & (y < inf), product + 0.0, zero)  # the product is a zero of some sign, and has the slope log(y)
    return select(op("ne", y, y), y, select(op("eq", x, 0), at_zero, product))


def _softsign(x: E) -> E:
    end = select(x > 0, const(1, x.dtype), const(-1, x.dtype))
    return select(op("eq", op("abs", x), inf), end, x / (1 + op("abs", x)))


scalar("square", "x", types=same(*NUMBERS), doc="x * x; integers wrap.", define=lambda x: x * x, derived=True,
       range=lambda a: (0 if a[0] <= 0 <= a[1] else min(a[0] ** 2, a[1] ** 2), max(a[0] ** 2, a[1] ** 2)),
       cases=[(-3.0, 9.0), (-0.0, 0.0), (-inf, inf), (nan, nan)])
scalar("reciprocal", "x", types=FLOATS, doc="1/x.", define=lambda x: 1 / x, derived=True,
       cases=[(2.0, 0.5), (-0.0, -inf), (-inf, -0.0), (nan, nan)])
scalar("xlogy", "x y", types=FLOATS, doc="x log(y); 0 where x = 0, NaN where y is NaN.", define=_xlogy, derived=True,
       cases=[(0.0, 0.0, 0.0), (2.0, 1.0, 0.0), (1.0, 0.0, -inf), (0.0, nan, nan), (nan, 1.0, nan), (0.0, -1.0, 0.0)])
scalar("softsign", "x", types=FLOATS, doc="x/(1 + |x|); 1 and -1 at the infinities.", define=_softsign, derived=True,
       cases=[(1.0, 0.5), (-0.0, -0.0), (inf, 1.0), (-inf, -1.0), (nan, nan)])
