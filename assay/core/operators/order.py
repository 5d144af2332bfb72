"""The total order that maxima follow: -inf < ... < -0 < +0 < ... < inf < NaN, all NaNs equal."""

from __future__ import annotations

from assay.core.lang import E, bitcast, op


def at_least(x: E, y: E) -> E:
    """x >= y."""
    if not x.dtype.is_float:
        return op("le", y, x)
    below = (bitcast(x) < 0) & ~(bitcast(y) < 0)  # of equal values: x is -0 and y is +0
    return op("ne", x, x) | (op("eq", y, y) & (op("lt", y, x) | (op("eq", y, x) & ~below)))
