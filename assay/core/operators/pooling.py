"""Pooling: a left fold over each window, its positions in lexicographic order.

Maxima follow the order -inf < ... < -0 < +0 < ... < inf < NaN; of equal elements the first one's index is returned.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from assay.core import dtypes as dt
from assay.core.dtypes import DType, compute_dtype
from assay.core.errors import UserError
from assay.core.index import Ix, ix
from assay.core.lang import E, T, const, convert, index, load, load_or_zero, op, select
from assay.core.operators.build import elements, fold_axes, lift, need_float
from assay.core.operators.guards import inside
from assay.core.operators.order import at_least
from assay.core.operators.registry import register
from assay.core.operators.samples import FLOATS, like, listed

Sizes: TypeAlias = Sequence[int]


@dataclass(frozen=True)
class Windows:
    """Windows over the last axes of a tensor: output p reads p*stride + k*dilation - padding for k < kernel."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    sizes: tuple[int, ...]

    def start(self, p: Sequence[Ix]) -> list[Ix]:
        """The first position of window p (it may lie in the padding)."""
        return [q * s - a for q, s, a in zip(p, self.stride, self.padding, strict=True)]

    def position(self, p: Sequence[Ix], k: Sequence[Ix]) -> list[Ix]:
        """Where element k of window p lies."""
        return [s + j * d for s, j, d in zip(self.start(p), k, self.dilation, strict=True)]


def windows(x: T, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, *, ceil: bool) -> Windows:
    """The windows of a pooling operator.  Raises UserError where the arguments do not fit x [(n,) c, *axes]."""
    axes, stride = len(kernel), stride or kernel
    if len(x.shape) not in (axes + 1, axes + 2):
        raise UserError(f"needs {axes + 1} or {axes + 2} axes, not shape {list(x.shape)}")
    if min(*kernel, *stride, *dilation) < 1 or any(not 0 <= 2 * a <= k for a, k in zip(padding, kernel, strict=True)):
        raise UserError(
            f"kernel {list(kernel)}, stride {list(stride)}, padding {list(padding)}, dilation {list(dilation)}; "
            "allowed: sizes >= 1, and a padding of at most half the kernel"
        )
    sizes: list[int] = []
    for n, k, s, a, d in zip(x.shape[-axes:], kernel, stride, padding, dilation, strict=True):
        room = n + 2 * a - d * (k - 1) - 1
        size = (room + (s - 1 if ceil else 0)) // s + 1
        if ceil and (size - 1) * s >= n + a:  # the last window would start in the padding after the tensor
            size -= 1
        sizes.append(size)
        if size < 1:
            raise UserError(f"windows of {list(kernel)} (dilation {list(dilation)}) do not fit into {list(x.shape[-axes:])}")
    return Windows(tuple(kernel), tuple(stride), tuple(padding), tuple(dilation), tuple(sizes))


def lowest(d: DType) -> E:
    """The neutral element of max."""
    return const(-math.inf if d.is_float else d.lo, d)


# ------------------------------------------------------------------------------------------------ max


def _flat_place(place: Sequence[Ix | E], shape: Sizes) -> E:
    flat = const(0, dt.i64)
    for p, n in zip(place, shape, strict=True):
        flat = flat * n + (p if isinstance(p, E) else index(p))
    return flat


_MAX_1 = ((like(2, 3, 8), (2,), (), (0,), (1,), False), (like(3, 7), (3,), (2,), (1,), (2,), False),
          (like(1, 1, 7), (2,), (2,), (0,), (1,), True),
          (like(2, 0, 4), (2,), (), (0,), (1,), False))  # fmt: skip
_MAX_2 = ((like(1, 2, 4, 6), (2, 2), (), (0, 0), (1, 1), False), (like(2, 5, 5), (3, 3), (2, 2), (1, 1), (1, 1), False),
          (like(1, 1, 6, 7), (2, 3), (2, 1), (1, 0), (2, 2), True), (like(1, 2, 1, 1), (1, 1), (), (0, 0), (1, 1), False),
          *((like(1, 1, 4, 4, dtype=d), (2, 2), (), (0, 0), (1, 1), False) for d in (*FLOATS[1:], dt.i64, dt.i8)))  # fmt: skip


_MAX_3 = ((like(1, 2, 4, 4, 3), (2, 2, 1), (), (0, 0, 0), (1, 1, 1), False),
          (like(2, 3, 5, 4), (2, 3, 2), (1, 2, 2), (1, 1, 0), (1, 1, 2), True))  # fmt: skip


def max_pool(self: T, kernel_size: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, ceil_mode: bool) -> T:
    """The maximum of each window of the last axes, one for each size of the kernel; padding counts as -inf; NaN propagates."""
    w, axes = windows(self, kernel_size, stride, padding, dilation, ceil=ceil_mode), len(kernel_size)
    how = compute_dtype(self.dtype)

    def body(*i: Ix) -> E:
        def step(accs: tuple[E, ...], k: tuple[Ix, ...]) -> tuple[E, ...]:
            place = w.position(i[-axes:], k)
            value = lift(load(self, *i[:-axes], *place))
            return (op("max", accs[0], select(inside(place, self.shape[-axes:]), value, lowest(how))),)

        return fold_axes(w.kernel, [lowest(how)], step)[0]

    return elements((*self.shape[:-axes], *w.sizes), body, self.dtype)


def max_pool_with_indices(self: T, kernel_size: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes,
                          ceil_mode: bool) -> tuple[T, T]:  # fmt: skip
    """max_pool, and the row-major position of each maximum in the windowed axes: the first NaN, else the first of equal ones."""
    w, axes = windows(self, kernel_size, stride, padding, dilation, ceil=ceil_mode), len(kernel_size)
    how = compute_dtype(self.dtype)
    plane = self.shape[-axes:]

    def found(i: Sequence[Ix]) -> tuple[E, ...]:
        first: list[Ix | E] = []
        for s, d in zip(w.start(i[-axes:]), w.dilation, strict=True):  # the first element of the window that is not padding
            first.append(s if s.lo >= 0 else index(s) + op("max", index((d - 1 - s) // d), 0) * d)

        def step(accs: tuple[E, ...], k: tuple[Ix, ...]) -> tuple[E, ...]:
            m, at = accs
            place = w.position(i[-axes:], k)
            value = lift(load_or_zero(self, *i[:-axes], *place))
            newer = inside(place, plane) & ~at_least(m, value)
            return select(newer, value, m), select(newer, _flat_place(place, plane), at)

        return fold_axes(w.kernel, [lowest(how), _flat_place(first, plane)], step)

    shape = (*self.shape[:-axes], *w.sizes)
    return elements(shape, lambda *i: found(i)[0], self.dtype), elements(shape, lambda *i: found(i)[1], dt.i64)


for _n, _rows in ((1, _MAX_1), (2, _MAX_2), (3, _MAX_3)):
    _arguments = (f"Tensor self, int[{_n}] kernel_size, int[{_n}] stride=[], int[{_n}] padding=0, int[{_n}] dilation=1, "
                  "bool ceil_mode=False")  # fmt: skip
    register(f"max_pool{_n}d({_arguments}) -> Tensor", max_pool, samples=listed(*_rows))
    register(f"max_pool{_n}d_with_indices({_arguments}) -> (Tensor, Tensor)", max_pool_with_indices, samples=listed(*_rows))


# ------------------------------------------------------------------------------------------------ average


def _product(factors: Sequence[E | int], how: DType) -> E:
    count = const(1, dt.i64)
    for f in factors:
        count = count * f
    return convert(count, how)


def _extent(start: Ix, kernel: int, n: int, padding: int, *, include_pad: bool) -> E | int:
    """How many positions of [start, start + kernel) lie in the axis (include_pad: or in its padding)."""
    lo, hi = (-padding, n + padding) if include_pad else (0, n)
    if lo <= start.lo and start.hi + kernel <= hi:
        return kernel
    first = index(start) if lo <= start.lo else op("max", index(start), lo)
    return op("min", index(start + kernel), hi) - first


def avg_pool(self: T, kernel_size: Sizes, stride: Sizes, padding: Sizes, ceil_mode: bool, count_include_pad: bool,
             divisor_override: int | None = None) -> T:  # fmt: skip
    """The sum of each window of the last axes (a left fold from +0) divided by its size, padding counted or not."""
    dtype = need_float(self)
    axes, how = len(kernel_size), compute_dtype(dtype)
    w = windows(self, kernel_size, stride, padding, (1,) * axes, ceil=ceil_mode)
    if divisor_override == 0:
        raise UserError("divisor_override must not be 0")

    def body(*i: Ix) -> E:
        p = i[-axes:]

        def step(accs: tuple[E, ...], k: tuple[Ix, ...]) -> tuple[E, ...]:
            return (accs[0] + lift(load_or_zero(self, *i[:-axes], *w.position(p, k))),)

        total = fold_axes(w.kernel, [const(0, how)], step)[0]
        if divisor_override is not None:
            return total / const(divisor_override, how)
        sides = zip(w.start(p), w.kernel, self.shape[-axes:], w.padding, strict=True)
        return total / _product([_extent(s, k, n, a, include_pad=count_include_pad) for s, k, n, a in sides], how)

    return elements((*self.shape[:-axes], *w.sizes), body, dtype)


_AVERAGE_1 = ((like(2, 3, 8), (2,), (), (0,), False, True), (like(3, 7), (3,), (2,), (1,), False, False),
              (like(1, 1, 7), (2,), (2,), (1,), True, True), (like(1, 1, 7), (3,), (2,), (1,), True, False))  # fmt: skip
_AVERAGE_2 = ((like(1, 2, 4, 6), (2, 2), (), (0, 0), False, True, None),
              (like(2, 5, 5), (3, 3), (2, 2), (1, 1), False, False, None),
              (like(1, 1, 6, 7), (2, 3), (2, 2), (1, 1), True, True, None),
              (like(1, 1, 6, 7), (2, 3), (2, 2), (1, 0), True, False, None),
              (like(1, 1, 4, 4), (2, 2), (), (0, 0), False, True, 3),
              *((like(1, 1, 4, 4, dtype=d), (2, 2), (), (0, 0), False, True, None) for d in FLOATS[1:]))  # fmt: skip
_AVERAGE_3 = ((like(1, 2, 4, 4, 3), (2, 2, 1), (), (0, 0, 0), False, True, None),
              (like(2, 3, 5, 4), (2, 3, 2), (1, 2, 2), (1, 1, 0), True, False, None))  # fmt: skip
for _n, _rows in ((1, _AVERAGE_1), (2, _AVERAGE_2), (3, _AVERAGE_3)):
    register(f"avg_pool{_n}d(Tensor self, int[{_n}] kernel_size, int[{_n}] stride=[], int[{_n}] padding=0, bool ceil_mode=False, "
             f"bool count_include_pad=True{', int? divisor_override=None' if _n > 1 else ''}) -> Tensor",
             avg_pool, samples=listed(*_rows))  # fmt: skip


# ------------------------------------------------------------------------------------------------ adaptive


@dataclass(frozen=True)
class Spans:
    """out spans of an axis of n elements: span i is floor(i*n / out) .. ceil((i+1)*n / out) - 1, at most `longest` elements."""

    n: int
    out: int

    @property
    def longest(self) -> int:
        return max((-(-(i + 1) * self.n // self.out) - i * self.n // self.out for i in range(self.out)), default=0)

    def start(self, i: Ix) -> Ix:
        return i * self.n // self.out

    def end(self, i: Ix) -> Ix:
        return (i * self.n + self.n + self.out - 1) // self.out

    def length(self, i: Ix) -> Ix:
        return ix(self.longest) if self.n % self.out == 0 else self.end(i) - self.start(i)

    def holds(self, i: Ix, place: Ix) -> E:
        """Whether `place`, which is at or after the start of span i, is in it."""
        return const(True, dt.bool_) if self.n % self.out == 0 else op("lt", index(place), index(self.end(i)))


def _spans(x: T, out: Sizes) -> list[Spans]:
    axes = len(out)
    if len(x.shape) not in (axes + 1, axes + 2) or min(out) < 1 or min(x.shape[-axes:]) < 1:
        raise UserError(f"shape {list(x.shape)} to output sizes {list(out)}; needs {axes + 1} or {axes + 2} axes and sizes >= 1")
    return [Spans(n, k) for n, k in zip(x.shape[-axes:], out, strict=True)]


def _over_spans(spans: Sequence[Spans], p: Sequence[Ix], inits: Sequence[E],
                step: Callable[[tuple[E, ...], list[Ix]], tuple[E, ...]]) -> tuple[E, ...]:  # fmt: skip
    """The fold of step(accs, place) over the places of the spans p."""

    def guarded(accs: tuple[E, ...], k: tuple[Ix, ...]) -> tuple[E, ...]:
        place = [s.start(q) + j for s, q, j in zip(spans, p, k, strict=True)]
        held = const(True, dt.bool_)
        for s, q, at in zip(spans, p, place, strict=True):
            held = held & s.holds(q, at) if s.n % s.out else held
        return tuple(select(held, new, old) for new, old in zip(step(accs, place), accs, strict=True))

    return fold_axes([s.longest for s in spans], inits, guarded)


def adaptive_avg_pool(self: T, output_size: Sizes) -> T:
    """The mean of x[floor(i*n/m) .. ceil((i+1)*n/m) - 1], i < m, along the last axes: a left fold from +0 by the count."""
    dtype, spans, axes = need_float(self), _spans(self, output_size), len(output_size)
    how = compute_dtype(dtype)

    def body(*i: Ix) -> E:
        p = i[-axes:]
        total = _over_spans(spans, p, [const(0, how)], lambda a, at: (a[0] + lift(load(self, *i[:-axes], *at)),))[0]
        return total / _product([index(s.length(q)) for s, q in zip(spans, p, strict=True)], how)

    return elements((*self.shape[:-axes], *output_size), body, dtype)


def adaptive_max_pool(self: T, output_size: Sizes) -> tuple[T, T]:
    """The maximum of x[floor(i*n/m) .. ceil((i+1)*n/m) - 1], i < m, along the last axes, and its row-major position there."""
    spans, axes = _spans(self, output_size), len(output_size)
    plane = self.shape[-axes:]
    how = compute_dtype(self.dtype)

    def found(i: Sequence[Ix]) -> tuple[E, ...]:
        def step(accs: tuple[E, ...], at: list[Ix]) -> tuple[E, ...]:
            value = lift(load(self, *i[:-axes], *at))
            newer = ~at_least(accs[0], value)
            return select(newer, value, accs[0]), select(newer, _flat_place(at, plane), accs[1])

        first = _flat_place([s.start(q) for s, q in zip(spans, i[-axes:], strict=True)], plane)
        return _over_spans(spans, i[-axes:], [lowest(how), first], step)

    shape = (*self.shape[:-axes], *output_size)
    return elements(shape, lambda *i: found(i)[0], self.dtype), elements(shape, lambda *i: found(i)[1], dt.i64)


_ADAPTIVE_1 = ((like(2, 3, 8), (4,)), (like(3, 7), (3,)), (like(1, 1, 3), (5,)), (like(2, 2, 5), (1,)))
_ADAPTIVE_2 = ((like(1, 2, 4, 6), (2, 3)), (like(2, 5, 7), (3, 2)), (like(1, 1, 2, 3), (3, 1)), (like(1, 2, 5, 5), (1, 1)),
               *((like(1, 1, 4, 5, dtype=d), (2, 2)) for d in FLOATS[1:]))  # fmt: skip
_ADAPTIVE_3 = ((like(1, 2, 4, 2, 3), (2, 2, 1)), (like(2, 3, 5, 2), (2, 3, 1)))


for _n, _rows in ((1, _ADAPTIVE_1), (2, _ADAPTIVE_2), (3, _ADAPTIVE_3)):
    for _name in (f"adaptive_avg_pool{_n}d", *([f"_adaptive_avg_pool{_n}d"] if _n > 1 else [])):
        register(f"{_name}(Tensor self, int[{_n}] output_size) -> Tensor", adaptive_avg_pool, samples=listed(*_rows))
    register(f"adaptive_max_pool{_n}d(Tensor self, int[{_n}] output_size) -> (Tensor, Tensor)", adaptive_max_pool,
             samples=listed(*_rows))  # fmt: skip
