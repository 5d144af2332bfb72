"""Prefix operators: every state of a left fold, in order."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from assay.core import dtypes as dt
from assay.core.dtypes import DType, compute_dtype
from assay.core.index import Ix, ix
from assay.core.lang import E, T, axes, const, convert, folds, index, load, op, scan, select, tensor
from assay.core.operators.build import constant, elements, inserted, need_float, size_at
from assay.core.operators.build import dim as axis_of
from assay.core.operators.order import at_least
from assay.core.operators.registry import operator
from assay.core.operators.samples import ALL, FLOATS, unary

Step = Callable[[Sequence[Ix], tuple[E, ...], Ix], tuple[E, ...]]
SHAPES = ((5,), (3, 4), (2, 1, 3), (), (1,), (0,), (0, 3), (1, 17))


def states(rest: Sequence[int], axis: int, n: int, inits: Sequence[E], step: Step) -> tuple[T, ...]:
    """The states 0..n of the fold over r < n of step(i, accumulators, r), for every i in `rest`, along `axis`; one T each."""
    if n >= 2:
        i = tuple(map(ix, axes(rest)))
        made = folds(n, inits, lambda *a: step(i, a[:-1], a[-1]))
        node = made[0].args[0] if len(inits) > 1 else made[0]
        return tuple(scan(rest, node, k, axis) for k in range(len(inits)))

    def state(k: int) -> T:
        def body(*i: Ix) -> E:
            if n == 0:
                return inits[k]
            after = step((*i[:axis], *i[axis + 1 :]), tuple(inits), ix(0))[k]
            return select(op("eq", index(i[axis]), 0), inits[k], after)

        return tensor(inserted(rest, axis, n + 1), body)

    return tuple(state(k) for k in range(len(inits)))


def prefixes(x: T, dim: int, inits: Sequence[E], step: Callable[[tuple[E, ...], E, Ix], tuple[E, ...]], results: Sequence[DType],
             *, compute: DType | None = None) -> tuple[T, ...]:  # fmt: skip
    """y_k[.., r, ..] = accumulator k after x[.., 0..r, ..] along dim, as results[k]; accs = step(accs, x as `compute`, r)."""
    d = axis_of(dim, len(x.shape))
    how = compute or compute_dtype(x.dtype)
    if 0 in x.shape:
        return tuple(constant(x.shape, 0, r) for r in results)
    rest = (*x.shape[:d], *x.shape[d + 1 :])

    def one(i: Sequence[Ix], accs: tuple[E, ...], r: Ix) -> tuple[E, ...]:
        return step(accs, convert(load(x, *(inserted(i, d, r) if x.shape else ())), how), r)

    made = states(rest, d, size_at(x, d), inits, one)

    def after(t: T) -> Callable[..., E]:
        return lambda *i: load(t, *((*i[:d], i[d] + 1, *i[d + 1 :]) if i else (1,)))

    return tuple(elements(x.shape, after(t), r) for t, r in zip(made, results, strict=True))


DTYPED = ((0, None), (-1, None), (0, dt.f64))


@operator("cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor", samples=unary(ALL, *DTYPED, shapes=SHAPES))
def cumsum(self: T, dim: int, dtype: DType | None) -> T:
    """y[.., r, ..] = self[.., 0, ..] + ... + self[.., r, ..], a left fold from +0; of integers and bools i64."""
    result = dtype or (self.dtype if self.dtype.is_float else dt.i64)
    how = compute_dtype(result)
    return prefixes(self, dim, [const(0, how)], lambda a, x, _: (a[0] + x,), [result], compute=how)[0]


@operator("cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor", samples=unary(ALL, *DTYPED, shapes=SHAPES))
def cumprod(self: T, dim: int, dtype: DType | None) -> T:
    """y[.., r, ..] = self[.., 0, ..] * ... * self[.., r, ..], a left fold from 1; of integers and bools i64."""
    result = dtype or (self.dtype if self.dtype.is_float else dt.i64)
    how = compute_dtype(result)
    return prefixes(self, dim, [const(1, how)], lambda a, x, _: (a[0] * x,), [result], compute=how)[0]


def _extreme(self: T, dim: int, *, largest: bool) -> tuple[T, ...]:
    how = compute_dtype(self.dtype)
    worst: Any = (-math.inf if largest else math.inf) if how.is_float else how.lo if largest else how.hi

    def step(accs: tuple[E, ...], x: E, r: Ix) -> tuple[E, ...]:
        m, k = accs
        newer = at_least(x, m) if largest else at_least(m, x)
        if how.is_float and not largest:
            newer = op("ne", x, x) | (op("eq", m, m) & newer)
        return select(newer, x, m), select(newer, index(r), k)

    return prefixes(self, dim, [const(worst, how), const(0, dt.i64)], step, [self.dtype, dt.i64])


@operator("cummax(Tensor self, int dim) -> (Tensor values, Tensor indices)", samples=unary(ALL, (0,), (-1,), shapes=SHAPES))
def cummax(self: T, dim: int) -> tuple[T, ...]:
    """The largest element so far along dim and where it stands: NaN wins, -0 < +0, of equal ones the last."""
    return _extreme(self, dim, largest=True)


@operator("cummin(Tensor self, int dim) -> (Tensor values, Tensor indices)", samples=unary(ALL, (0,), (-1,), shapes=SHAPES))
def cummin(self: T, dim: int) -> tuple[T, ...]:
    """The smallest element so far along dim and where it stands: NaN wins, -0 < +0, of equal ones the last."""
    return _extreme(self, dim, largest=False)


@operator("logcumsumexp(Tensor self, int dim) -> Tensor", samples=unary(FLOATS, (0,), (-1,), shapes=SHAPES))
def logcumsumexp(self: T, dim: int) -> T:
    """y[.., r, ..] = log(exp(self[.., 0, ..]) + ... + exp(self[.., r, ..])), a left fold of logaddexp from -inf."""
    dtype = need_float(self)
    start = const(-math.inf, compute_dtype(dtype))
    return prefixes(self, dim, [start], lambda a, x, _: (op("logaddexp", a[0], x),), [dtype])[0]
