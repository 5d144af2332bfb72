"""Maxima, minima and where they are.

Values: NaN wins, -0 < +0.  Positions: NaN wins, of equal elements (+0 and -0 are) the one of smallest index.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from assay.core import dtypes as dt
from assay.core.dtypes import DType, compute_dtype
from assay.core.index import affine
from assay.core.lang import E, Ix, T, const, convert, index, load, op, select
from assay.core.operators.build import dims, elements, pointwise, reduction
from assay.core.operators.pointwise import equal_halves, is_nan
from assay.core.operators.reductions import DIMS, not_empty
from assay.core.operators.registry import operator
from assay.core.operators.samples import ALL, binary, unary
from assay.core.operators.views import contiguous_strides
from assay.core.row import row

FULL = ((3, 4), (1, 17), (2, 3, 5), (9, 1), (1,), ())
ONE_DIM = ((0, False), (-1, True))


def _neutral(name: str, d: DType) -> E:
    monoid = row(name).monoid
    assert not isinstance(monoid, Exception)
    return const(monoid.neutral(d), d)


def extreme(name: str, x: T, axes: Sequence[int], *, keepdim: bool) -> T:
    """The largest ("max") or smallest ("min") element over `axes`.  Raises UserError where there is none."""
    not_empty(x, axes)
    how = compute_dtype(x.dtype)
    return reduction(x, axes, [_neutral(name, how)], lambda a, e, _: (op(name, a[0], e),), lambda e: e, x.dtype, keepdim=keepdim)


def _position_step(name: str, place: Callable[[tuple[Ix, ...]], Ix]) -> Callable[..., tuple[E, ...]]:
    """The step of the fold over (best value, its index): take e if it is better, or the first NaN."""

    def step(accs: tuple[E, ...], e: E, inner: tuple[Ix, ...]) -> tuple[E, ...]:
        best, at = accs
        better = op("lt", best, e) if name == "max" else op("lt", e, best)
        take = better | (is_nan(e) & ~is_nan(best)) if e.dtype.is_float else better
        return select(take, e, best), select(take, index(place(inner)), at)

    return step


def _best(name: str, x: T, axes: Sequence[int], finish: Callable[[E, E], E], dtype: DType, *, keepdim: bool) -> T:
    """finish(value, index) of the extreme element over `axes`; the index counts the reduced elements in lexicographic order."""
    not_empty(x, axes)
    strides = contiguous_strides([x.shape[k] for k in axes])
    step = _position_step(name, lambda inner: affine(zip(strides, inner, strict=True)))
    inits = [_neutral(name, compute_dtype(x.dtype)), const(0, dt.i64)]
    return reduction(x, axes, inits, step, finish, dtype, keepdim=keepdim)


def position(name: str, x: T, axes: Sequence[int], *, keepdim: bool) -> T:
    """The index of the extreme element over `axes`, as i64."""
    return _best(name, x, axes, lambda _, i: i, dt.i64, keepdim=keepdim)


def value_there(name: str, x: T, axes: Sequence[int], *, keepdim: bool) -> T:
    """The element at that index."""
    return _best(name, x, axes, lambda v, _: v, x.dtype, keepdim=keepdim)


def shared(name: str, x: T, axes: Sequence[int], *, keepdim: bool) -> T:
    """The extreme element as the mean of those equal to it, so that each has an equal share of the gradient."""
    if not x.dtype.is_float:
        return extreme(name, x, axes, keepdim=keepdim)
    best = extreme(name, x, axes, keepdim=keepdim)
    how = compute_dtype(x.dtype)

    def among(value: Callable[..., E]) -> T:
        """The sum over the axes of value(i...) where the element is extreme."""

        def body(*i: Ix) -> E:
            there = [0 if k in axes else j for k, j in enumerate(i) if keepdim or k not in axes]
            e, b = convert(load(x, *i), how), convert(load(best, *there), how)
            return select(op("eq", e, b) | (is_nan(e) & is_nan(b)), value(e), const(0, how))

        chosen = elements(x.shape, body, how)
        return reduction(chosen, axes, [const(0, how)], lambda a, e, _: (a[0] + e,), lambda e: e, how, keepdim=keepdim)

    sums, number = among(lambda e: e), among(lambda e: const(1, how))
    return elements(best.shape, lambda *i: load(sums, *i) / load(number, *i), x.dtype)


def _families(name: str, word: str) -> None:
    """amax, max.default, max.dim, max.other, argmax; or those of min."""

    def a_extreme(self: T, d: Sequence[int], keepdim: bool) -> T:
        return extreme(name, self, dims(d, len(self.shape)), keepdim=keepdim)

    def a_shared(self: T, d: Sequence[int], keepdim: bool) -> T:
        return shared(name, self, dims(d, len(self.shape)), keepdim=keepdim)

    def default(self: T) -> T:
        return extreme(name, self, dims(None, len(self.shape)), keepdim=False)

    def shared_default(self: T) -> T:
        return shared(name, self, dims(None, len(self.shape)), keepdim=False)

    def along(self: T, d: int, keepdim: bool) -> tuple[T, T]:
        axes = dims([d], len(self.shape))
        return value_there(name, self, axes, keepdim=keepdim), position(name, self, axes, keepdim=keepdim)

    def other(self: T, other: T) -> T:
        return pointwise(lambda x, y: op(name, x, y), self, other)

    def arg(self: T, d: int | None, keepdim: bool) -> T:
        return position(name, self, dims(None if d is None else [d], len(self.shape)), keepdim=keepdim)

    a_extreme.__doc__ = f"The {word} element over `dim`: NaN wins, -0 < +0."
    default.__doc__ = f"The {word} of all elements: NaN wins, -0 < +0."
    along.__doc__ = f"The {word} element over `dim` and its index: NaN wins, of equal ones (+0, -0) the first."
    other.__doc__ = f"The {word} of the two: NaN wins, -0 < +0."
    arg.__doc__ = f"The index of the {word} element over `dim` (None: of the flattened tensor): NaN wins, ties: the first."
    operator(f"a{name}(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor", family="extremes",
             samples=unary(ALL, *DIMS[:-1], shapes=FULL[:-1]), convention=a_shared)(a_extreme)  # fmt: skip
    operator(f"{name}(Tensor self) -> Tensor", family="extremes", samples=unary(ALL, shapes=FULL),
             convention=shared_default)(default)  # fmt: skip
    operator(f"{name}.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)", family="extremes",
             samples=unary(ALL, *ONE_DIM, shapes=(*FULL, (0, 3)[::-1])))(along)  # fmt: skip
    operator(f"{name}.other(Tensor self, Tensor other) -> Tensor", family="extremes", samples=binary(),
             convention=equal_halves(name))(other)  # fmt: skip
    operator(f"arg{name}(Tensor self, int? dim=None, bool keepdim=False) -> Tensor", family="extremes",
             samples=unary(ALL, (None, False), (None, True), *ONE_DIM, shapes=FULL))(arg)  # fmt: skip


_families("max", "largest")
_families("min", "smallest")


def _shared_aminmax(self: T, d: int | None, keepdim: bool) -> tuple[T, T]:
    axes = dims(None if d is None else [d], len(self.shape))
    return shared("min", self, axes, keepdim=keepdim), shared("max", self, axes, keepdim=keepdim)


@operator("aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)",
          samples=unary(ALL, (None, False), (0, True), (-1, False), shapes=FULL), convention=_shared_aminmax)  # fmt: skip
def aminmax(self: T, d: int | None, keepdim: bool) -> tuple[T, T]:
    """The smallest and the largest element over `dim` (None: of all)."""
    axes = dims(None if d is None else [d], len(self.shape))
    return extreme("min", self, axes, keepdim=keepdim), extreme("max", self, axes, keepdim=keepdim)
