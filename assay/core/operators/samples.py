"""Sample arguments of operators: the column that tests and the fuzzer read.

A sample is a tuple of arguments in schema order in which each tensor is a `Like`: shape, type, range of values.
`draw` fills one with values, the special ones of its type always among them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from assay.core import dtypes as dt
from assay.core.dtypes import DType
from assay.core.operators.schema import TENSOR_TYPES

Samples = Callable[[], Iterable[tuple[Any, ...]]]


@dataclass(frozen=True)
class Like:
    """A tensor to be filled with values in lo..hi (both included); without a range, any value of its type."""

    shape: tuple[int, ...]
    dtype: DType = dt.f32
    lo: float | None = None
    hi: float | None = None


TENSOR_TYPES.append(Like)


def like(*shape: int, dtype: DType = dt.f32, lo: float | None = None, hi: float | None = None) -> Like:
    """like(2, 3, dtype=i64, lo=-2, hi=1)"""
    return Like(shape, dtype, lo, hi)


SHAPES: tuple[tuple[int, ...], ...] = ((), (1,), (0,), (5,), (3, 4), (2, 1, 3), (0, 3), (17,))
PAIRS: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((), ()), ((3,), ()), ((), (2, 2)), ((3, 4), (3, 4)), ((3, 1), (1, 4)), ((2, 1, 3), (4, 1)), ((0, 3), (1, 3)), ((17,), (17,)),
)  # fmt: skip
FLOATS = (dt.f32, dt.f64, dt.f16, dt.bf16)
INTEGERS = (dt.i64, dt.i32, dt.i16, dt.i8, dt.u8)
NUMBERS = (*FLOATS, *INTEGERS)
ALL = (*NUMBERS, dt.bool_)


def unary(dtypes: Sequence[DType] = ALL, *attributes: tuple[Any, ...], shapes: Sequence[tuple[int, ...]] = SHAPES) -> Samples:
    """One tensor: f32 in every shape, the other types in one; each with the first attributes, (3, 4) with all of them."""

    def samples() -> Iterable[tuple[Any, ...]]:
        first = attributes[0] if attributes else ()
        for shape in shapes:
            yield (Like(shape, dtypes[0]), *first)
        for d in dtypes[1:]:
            yield (Like((3, 5), d), *first)
        for rest in attributes[1:]:
            yield (Like((3, 4), dtypes[0]), *rest)

    return samples


def binary(dtypes: Sequence[DType] = ALL, *attributes: tuple[Any, ...], mixed: bool = True) -> Samples:
    """Two tensors: each pair of shapes, each type, and (mixed) pairs of different types with 0-d operands among them."""

    def samples() -> Iterable[tuple[Any, ...]]:
        first = attributes[0] if attributes else ()
        for a, b in PAIRS:
            yield (Like(a, dtypes[0]), Like(b, dtypes[0]), *first)
        for d in dtypes[1:]:
            yield (Like((3, 5), d), Like((3, 5), d), *first)
        if mixed:
            for d, e in itertools.pairwise(dtypes):
                yield (Like((4,), d), Like((2, 4), e), *first)
                yield (Like((4,), e), Like((), d), *first)
        for rest in attributes[1:]:
            yield (Like((3, 4), dtypes[0]), Like((4,), dtypes[0]), *rest)

    return samples


def with_scalar(dtypes: Sequence[DType] = ALL, scalars: Sequence[Any] = (2, -1.5, True), *attributes: tuple[Any, ...]) -> Samples:
    """A tensor and a number: the first number with each shape and type, the others with (3, 4) of the first type."""

    def samples() -> Iterable[tuple[Any, ...]]:
        first = attributes[0] if attributes else ()
        for shape in SHAPES:
            yield (Like(shape, dtypes[0]), scalars[0], *first)
        for d in dtypes[1:]:
            yield (Like((3, 5), d), scalars[0], *first)
        for s in scalars[1:]:
            yield (Like((3, 4), dtypes[0]), s, *first)
        for rest in attributes[1:]:
            yield (Like((3, 4), dtypes[0]), scalars[0], *rest)

    return samples


def listed(*rows: tuple[Any, ...]) -> Samples:
    """Exactly these argument tuples."""
    return lambda: rows


# ------------------------------------------------------------------------------------------------ values


def special_values(d: DType) -> np.ndarray:
    """NaN, infinities, zeros of both signs, subnormals, the smallest and largest, neighbours of 1; for integers the ends."""
    if d is dt.bool_:
        return np.array([False, True])
    if not d.is_float:
        around = [d.lo, d.lo + 1, d.hi, d.hi - 1, 0, 1, 2, 3, 7, 31, 63, 64]
        return np.array(around + ([-1, -2, -7] if d.kind == "int" else []), d.numpy)
    info = ml_dtypes.finfo(d.numpy)
    tiny, small, big, eps = (float(x) for x in (info.smallest_subnormal, info.smallest_normal, info.max, info.eps))
    values = [math.nan, math.inf, -math.inf, 0.0, -0.0, tiny, -tiny, small - tiny, small, -small, big, -big,
              1.0, -1.0, 1.0 + eps, 1.0 - eps / 2, 0.5, 1.5, 2.5, -2.5, 88.5, -104.0, 3.0e38]  # fmt: skip
    with np.errstate(over="ignore"):
        return np.array(values, np.float64).astype(d.numpy)


def draw(x: Like, rng: np.random.Generator, *, special: float = 0.3) -> np.ndarray:
    """An array for `x`; about `special` of the elements of an unbounded tensor are special values."""
    d = x.dtype
    if d is dt.bool_:
        return rng.integers(0, 2, x.shape).astype(np.bool_)
    if not d.is_float:
        lo, hi = (-9, 9) if x.lo is None or x.hi is None else (int(x.lo), int(x.hi))
        values = rng.integers(max(lo, d.lo), min(hi, d.hi), x.shape, endpoint=True).astype(d.numpy)
    elif x.lo is not None and x.hi is not None:
        values = rng.uniform(x.lo, x.hi, x.shape).astype(d.numpy)
    else:
        values = (rng.standard_normal(x.shape) * 3).astype(d.numpy)
    if x.lo is not None or special <= 0:
        return np.asarray(values)
    known = special_values(d)
    chosen = known[rng.integers(0, len(known), x.shape)]
    return np.asarray(np.where(rng.random(x.shape) < special, chosen, values))
