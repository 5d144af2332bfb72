"""Inputs that find defects: special values, exact integers, subnormals, extremes, indices in and out of range."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from assay.core.lang import Program, T
from assay.core.operators.samples import special_values
from assay.semantics.denote import run
from assay.semantics.failure import RequireError

Arrays: TypeAlias = "list[np.ndarray[Any, Any]]"

ORDINARY, SPECIAL, EXACT, TINY, HUGE = "ordinary", "special", "exact", "tiny", "huge"
KINDS = (ORDINARY, SPECIAL, EXACT, TINY, HUGE)


def draw(t: T, kind: str, rng: np.random.Generator, bound: int | None = None) -> np.ndarray[Any, Any]:
    """An array for the input `t`.  Integers lie in [-bound, bound) where a bound is given."""
    d, shape = t.dtype, t.shape
    if d.kind == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if not d.is_float:
        if bound is not None:
            return rng.integers(-bound if d.kind == "int" else 0, max(bound, 1), shape).astype(d.numpy)
        if kind == ORDINARY or kind == EXACT:
            return rng.integers(-5 if d.kind == "int" else 0, 6, shape).astype(d.numpy)
        return _mix(rng.integers(max(d.lo, -100), 101, shape).astype(d.numpy), special_values(d), rng)
    if kind == EXACT:  # small integers: sums, products and their reorderings are exact; zeros have either sign
        whole = rng.integers(-4, 5, shape).astype(np.float64)
        return np.where((whole == 0) & (rng.random(shape) < 0.5), -0.0, whole).astype(d.numpy)
    ordinary = rng.standard_normal(shape) * rng.choice([0.1, 1.0, 1.0, 10.0])
    with np.errstate(over="ignore", under="ignore"):
        if kind == TINY:
            ordinary = ordinary * float(ml_dtypes.finfo(d.numpy).smallest_normal)
        elif kind == HUGE:
            ordinary = ordinary * float(ml_dtypes.finfo(d.numpy).max) / 4
        made = np.asarray(ordinary).astype(d.numpy)
    return _mix(made, special_values(d), rng) if kind == SPECIAL else made


def _mix(a: np.ndarray[Any, Any], values: np.ndarray[Any, Any], rng: np.random.Generator) -> np.ndarray[Any, Any]:
    picked = values[rng.integers(0, len(values), a.shape)]
    return np.where(rng.random(a.shape) < 0.3, picked, a).astype(a.dtype)


def draw_inputs(p: Program, kind: str, rng: np.random.Generator, *, defined: bool = True) -> Arrays:
    """One input for each of p.inputs.

    With `defined`, integers are drawn from ever smaller ranges until no require of the program fails (six tries; the last
    is returned as it is): a campaign of nothing but IndexErrors would show little.
    """
    bounds: Sequence[int | None] = (None, 8, 4, 2, 1) if defined else (None,)
    arrays: Arrays = []
    for bound in bounds:
        arrays = [draw(t, kind, rng, bound) for t in p.inputs]
        if not defined or not _fails(p, arrays):
            return arrays
    return [np.zeros(t.shape, t.dtype.numpy) if t.dtype.is_integer else a for t, a in zip(p.inputs, arrays, strict=True)]


def _fails(p: Program, arrays: Arrays) -> bool:
    if not any(t.kind == "require" for t in p.tensors):
        return False
    try:
        run(p, arrays)
    except RequireError:
        return True
    return False
