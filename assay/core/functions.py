"""Named and derived rows of the scalar table: compositions of primitive rows."""

from __future__ import annotations

from assay.core.lang import E, const, op, select
from assay.core.mathlib import slopes
from assay.core.row import same
from assay.core.scalar import ANY, NUMBERS, inf, nan, scalar

scalar("as_if", "x y", types=same(*ANY), define=lambda x, y: x, range=lambda a, b: a, lin=slopes.as_if,
       doc="x; its derivative is declared to be that of y: another spelling of x, or what x was written over.",
       cases=[(1.5, 2.0, 1.5), (-0.0, nan, -0.0), (nan, 1.0, nan)])  # fmt: skip


def _relu(x: E) -> E:
    return select(op("le", x, 0), const(0, x.dtype), x)


scalar("relu", "x", types=same(*NUMBERS), doc="x where x > 0, else +0; NaN stays.  The derivative at 0 is 0.",
       define=_relu, lin=slopes.relu, range=lambda a: (max(a[0], 0), max(a[1], 0)),
       cases=[(1.5, 1.5), (-1.0, 0.0), (-0.0, 0.0), (nan, nan), (inf, inf)])  # fmt: skip
