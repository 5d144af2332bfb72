"""Elementary functions, each defined once as a composition of IEEE basic operations.

Every function takes and returns expressions (E), in f32 and in f64. The interpreter, C++ and Triton run this one composition,
so their results agree bit for bit. Largest errors, over all 2**32 inputs in f32: docs/accuracy.md.
"""

from assay.core.mathlib.exponential import cosh, exp, exp2, expm1, gelu_tanh, sigmoid, silu, sinh, tanh
from assay.core.mathlib.gaussian import erf, erfc, gelu
from assay.core.mathlib.inverse import acos, asin, atan, atan2
from assay.core.mathlib.logarithm import acosh, asinh, atanh, log, log1p, log2, log10, logaddexp, softplus
from assay.core.mathlib.power import cbrt, fmod, hypot, pow, remainder, rsqrt
from assay.core.mathlib.trigonometric import cos, sin, tan

__all__ = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cbrt",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "fmod",
    "gelu",
    "gelu_tanh",
    "hypot",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "pow",
    "remainder",
    "rsqrt",
    "sigmoid",
    "silu",
    "sin",
    "sinh",
    "softplus",
    "tan",
    "tanh",
]
