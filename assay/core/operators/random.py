"""Random numbers: pure functions of an explicit state i64[2] = (seed, offset) and the position of the element.

Element k, in row-major order, draws the words of Philox4x32-10 with key `seed` and counter (k, offset).  A call uses one
offset, so the caller advances the state by 1 after each: `advance.state`.  The same state gives the same bits, whatever
the shape, the schedule or the machine; a mask drawn again is the same mask.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from assay.core import dtypes as dt
from assay.core import philox
from assay.core.dtypes import DType, compute_dtype
from assay.core.errors import UserError
from assay.core.index import Ix, affine, ix
from assay.core.lang import E, T, const, convert, extern, folds, index, load, op, require, select, tensor
from assay.core.operators.build import at, broadcast, elements, lift, need_float
from assay.core.operators.registry import operator
from assay.core.operators.samples import FLOATS, Like, like, listed
from assay.core.operators.views import contiguous_strides

STATE: Like = like(2, dtype=dt.i64, lo=0, hi=9)
SHAPES = ((), (1,), (5,), (2, 3), (0, 2), (17,))


def drawn(state: T, size: Sequence[int], i: Sequence[Ix]) -> philox.Words:
    """The words of element i of a tensor of this size."""
    place = affine(list(zip(contiguous_strides(size), i, strict=True))) if i else ix(0)
    return philox.words(load(state, 0), load(state, 1), index(place))


def need_state(state: T) -> None:
    """Raise UserError unless `state` is i64[2]."""
    if state.shape != (2,) or state.dtype is not dt.i64:
        raise UserError(f"the state of a generator is i64[2] (seed, offset), not {state.dtype.name}{list(state.shape)}")


def _float(dtype: DType | None) -> DType:
    if dtype is not None and not dtype.is_float:
        raise UserError(f"dtype={dtype.name}; allowed: a float type")
    return dtype or dt.f32


def _probability(p: float) -> None:
    if not 0 <= p <= 1:
        raise UserError(f"p={p}; a probability must lie in [0, 1]")


def normal_value(w: philox.Words, dtype: DType) -> E:
    """Box and Muller: sqrt(-2 log(1 - u)) * cos(2 pi v), u and v uniform from different words, in the type of computation."""
    how = compute_dtype(dtype)
    u = philox.uniform(w, how)
    v = philox.uniform((w[2], w[3], w[0], w[1]), how)
    return op("sqrt", op("log", 1 - u) * -2.0) * op("cos", v * (2 * math.pi))


_SIZED = (*((STATE, s, None) for s in SHAPES), *((STATE, (4,), d) for d in FLOATS))


@operator("rand.state(Tensor state, int[] size, *, ScalarType? dtype=None) -> Tensor", samples=listed(*_SIZED))
def rand(state: T, size: Sequence[int], dtype: DType | None) -> T:
    """Uniform in [0, 1): multiples of 2**-24 (f64: 2**-53, f16: 2**-11, bf16: 2**-8)."""
    need_state(state)
    chosen = _float(dtype)
    return elements(size, lambda *i: philox.uniform(drawn(state, size, i), chosen), chosen)


@operator("uniform.state(Tensor state, int[] size, float from_=0.0, float to=1.0, *, ScalarType? dtype=None) -> Tensor",
          samples=listed((STATE, (2, 3), -1.0, 3.0, None), (STATE, (4,), 0.0, 10.0, dt.bf16),
                         (STATE, (3,), 2.0, 2.0, None)))  # fmt: skip
def uniform(state: T, size: Sequence[int], from_: float, to: float, dtype: DType | None) -> T:
    """u * (to - from_) + from_ with u as in rand."""
    need_state(state)
    if not from_ <= to < math.inf or from_ == -math.inf:
        raise UserError(f"from_={from_}, to={to}; allowed: finite, from_ <= to")
    chosen = _float(dtype)
    return elements(size, lambda *i: philox.uniform(drawn(state, size, i), chosen) * (to - from_) + from_, chosen)


@operator("randn.state(Tensor state, int[] size, *, ScalarType? dtype=None) -> Tensor", samples=listed(*_SIZED))
def randn(state: T, size: Sequence[int], dtype: DType | None) -> T:
    """Normal with mean 0 and variance 1 (Box and Muller)."""
    need_state(state)
    chosen = _float(dtype)
    return elements(size, lambda *i: normal_value(drawn(state, size, i), chosen), chosen)


@operator("normal.state(Tensor state, float mean, float std, int[] size, *, ScalarType? dtype=None) -> Tensor",
          samples=listed((STATE, 1.0, 2.0, (2, 3), None), (STATE, -1.0, 0.0, (4,), dt.f16)))  # fmt: skip
def normal(state: T, mean: float, std: float, size: Sequence[int], dtype: DType | None) -> T:
    """z * std + mean with z as in randn."""
    need_state(state)
    if not std >= 0:
        raise UserError(f"std={std}; allowed: >= 0")
    chosen = _float(dtype)
    return elements(size, lambda *i: normal_value(drawn(state, size, i), chosen) * std + mean, chosen)


@operator("normal.state_Tensor(Tensor state, Tensor mean, Tensor std) -> Tensor",
          samples=listed((STATE, like(2, 3), like(3, lo=0, hi=2)),
                         (STATE, like(dtype=dt.f64), like(4, dtype=dt.f64, lo=0, hi=2))))  # fmt: skip
def normal_tensor(state: T, mean: T, std: T) -> T:
    """z * std + mean, element by element, with z as in randn."""
    need_state(state)
    dtype, shape = need_float(mean), broadcast(mean.shape, std.shape)
    how = compute_dtype(dtype)

    def body(*i: Ix) -> E:
        return normal_value(drawn(state, shape, i), dtype) * convert(at(std, i), how) + lift(at(mean, i))

    return elements(shape, body, dtype)


@operator("randint.state(Tensor state, int low, int high, int[] size, *, ScalarType? dtype=None) -> Tensor",
          samples=listed(*((STATE, 0, 10, s, None) for s in SHAPES), (STATE, -5, 5, (7,), dt.i8), (STATE, 3, 4, (3,), dt.f32),
                         (STATE, -(1 << 62), 1 << 61, (3,), None)))  # fmt: skip
def randint(state: T, low: int, high: int, size: Sequence[int], dtype: DType | None) -> T:
    """low + n mod (high - low) with n uniform in 0 .. 2**63 - 1: in low .. high - 1."""
    need_state(state)
    chosen = dtype or dt.i64
    if not -(1 << 63) <= low < high <= (1 << 63) - 1 or high - low >= 1 << 63:
        raise UserError(f"low={low}, high={high}; allowed: low < high, both of 64 bits, less than 2**63 apart")
    if chosen.is_integer and not (chosen.lo <= low and high - 1 <= chosen.hi):
        raise UserError(f"{low} .. {high - 1} does not fit {chosen.name}")

    def body(*i: Ix) -> E:
        return op("mod", philox.integer(drawn(state, size, i)), high - low) + low

    return elements(size, body, chosen)


@operator("randperm.state(Tensor state, int n, *, ScalarType? dtype=None) -> Tensor",
          samples=listed(*((STATE, n, None) for n in (0, 1, 2, 17)), (STATE, 5, dt.i32)))  # fmt: skip
def randperm(state: T, n: int, dtype: DType | None) -> T:
    """The stable order of n random integers of 63 bits: a permutation of 0 .. n - 1."""
    need_state(state)
    if n < 0:
        raise UserError(f"n={n}; allowed: >= 0")
    keys = elements((n,), lambda i: philox.integer(drawn(state, (n,), [i])), dt.i64)
    order = extern("sort", (keys,), (0, False), 1, (n,), dt.i64, lo=0, hi=max(n - 1, 0))
    return elements((n,), lambda i: load(order, i), dtype or dt.i64)


@operator("exponential.state(Tensor state, int[] size, float lambd=1.0, *, ScalarType? dtype=None) -> Tensor",
          samples=listed((STATE, (2, 3), 1.0, None), (STATE, (4,), 0.5, dt.f64), (STATE, (4,), 2.0, dt.bf16)))  # fmt: skip
def exponential(state: T, size: Sequence[int], lambd: float, dtype: DType | None) -> T:
    """-log(1 - u) / lambd, u as in rand, in the type of computation."""
    need_state(state)
    if not lambd > 0:
        raise UserError(f"lambd={lambd}; allowed: > 0")
    chosen = _float(dtype)
    return elements(size, lambda *i: waiting_time(drawn(state, size, i), chosen) / const(lambd, compute_dtype(chosen)), chosen)


def waiting_time(w: philox.Words, dtype: DType) -> E:
    """Exponential with mean 1: -log(1 - u)."""
    return -op("log1p", -philox.uniform(w, compute_dtype(dtype)))


def priority(weight: E, w: philox.Words) -> E:
    """weight / waiting time, 0 where the weight is 0: the largest of several belongs to each in proportion to its weight."""
    return select(op("eq", weight, 0), const(0, weight.dtype), weight / waiting_time(w, weight.dtype))


@operator("multinomial.state(Tensor state, Tensor self, int num_samples, bool replacement=False) -> Tensor",
          samples=listed((STATE, like(5, lo=0.1, hi=1), 3, False), (STATE, like(2, 4, lo=0.1, hi=1), 4, False),
                         (STATE, like(2, 4, lo=0.1, hi=1), 7, True),
                         (STATE, like(3, dtype=dt.f16, lo=0.1, hi=1), 2, True)))  # fmt: skip
def multinomial(state: T, self: T, num_samples: int, replacement: bool) -> T:
    """Categories of the last axis drawn with the weights `self`, `num_samples` a row.

    Without replacement: the num_samples categories of the largest weight / waiting time.  With it, sample s is the one
    with the largest weight / waiting time of its own draw.  Of equal ones the first: those of weight 0 come last, in order.
    A negative, infinite or NaN weight is a ValueError.
    """
    need_state(state)
    how = compute_dtype(need_float(self))
    if len(self.shape) not in (1, 2) or not self.shape[-1]:
        raise UserError(f"weights of shape {list(self.shape)}; needs one or two axes, the last not empty")
    n = self.shape[-1]
    if num_samples < 1 or (not replacement and num_samples > n):
        raise UserError(f"num_samples={num_samples} of {n} categories; allowed: 1..{n} without replacement, >= 1 with it")
    weight = tensor(self.shape, lambda *i: lift(load(self, *i)))
    held = (weight.body >= 0) & (weight.body < math.inf)
    checked = require(self.shape, weight.body, held, "[ValueError] a weight must be finite and >= 0, not {value} at {index}")
    if not replacement:
        keys = elements(self.shape, lambda *i: priority(load(checked, *i), drawn(state, self.shape, i)), how)
        shape = (*self.shape[:-1], num_samples)
        return extern("topk", (keys,), (num_samples, len(self.shape) - 1, True), 1, shape, dt.i64, lo=0, hi=n - 1)
    places = (*self.shape[:-1], num_samples)

    def best(*i: Ix) -> E:
        def step(m: E, at_: E, c: Ix) -> tuple[E, ...]:
            key = priority(load(checked, *i[:-1], c), drawn(state, (*places, n), (*i, c)))
            return op("max", m, key), select(m < key, index(c), at_)

        return folds(n, (const(-math.inf, how), const(0, dt.i64)), step)[1]

    return elements(places, best, dt.i64)


@operator("bernoulli.state(Tensor state, Tensor self) -> Tensor",
          samples=listed(*((STATE, like(*s, lo=0, hi=1)) for s in SHAPES),
                         *((STATE, like(4, dtype=d, lo=0, hi=1)) for d in FLOATS[1:])))  # fmt: skip
def bernoulli(state: T, self: T) -> T:
    """1 where u < self, else 0, in the type of self; u as in rand, in the type self is computed in.  NaN gives 0."""
    need_state(state)
    how = compute_dtype(need_float(self))

    def body(*i: Ix) -> E:
        return convert(philox.uniform(drawn(state, self.shape, i), how) < lift(load(self, *i)), how)

    return elements(self.shape, body, self.dtype)


@operator("bernoulli.state_p(Tensor state, Tensor self, float p=0.5) -> Tensor",
          samples=listed((STATE, like(2, 3), 0.25), (STATE, like(5, dtype=dt.i64), 1.0), (STATE, like(5), 0.0)))  # fmt: skip
def bernoulli_p(state: T, self: T, p: float) -> T:
    """1 where u < p, else 0, in the shape and type of self; u as in rand."""
    need_state(state)
    _probability(p)
    return elements(self.shape, lambda *i: kept(state, self.shape, i, p), self.dtype)


def kept(state: T, size: Sequence[int], i: Sequence[Ix], p: float) -> E:
    """Whether u < p at element i, u uniform in [0, 1) from 24 bits."""
    if p in (0, 1):
        return const(bool(p), dt.bool_)
    return philox.uniform(drawn(state, size, i), dt.f32) < const(p, dt.f32)


_DROPPED = (*((STATE, like(*s), 0.5) for s in SHAPES), (STATE, like(9), 0.0), (STATE, like(9), 1.0),
            *((STATE, like(4, dtype=d), 0.1) for d in FLOATS[1:]))  # fmt: skip


@operator("native_dropout.state(Tensor state, Tensor input, float p, bool? train=True) -> (Tensor, Tensor)",
          samples=listed(*((*s, True) for s in _DROPPED), (*_DROPPED[3], False)))  # fmt: skip
def native_dropout(state: T, input: T, p: float, train: bool | None) -> tuple[T, T]:
    """(dropout, its mask)"""
    need_state(state)
    need_float(input)
    _probability(p)
    share = 1 - p if train is not False else 1.0
    mask = elements(input.shape, lambda *i: kept(state, input.shape, i, share), dt.bool_)
    scale = 1 / share if share else 0.0

    def body(*i: Ix) -> E:
        x = lift(load(input, *i))
        return select(load(mask, *i), x if scale == 1 else x * scale, const(0, x.dtype))

    return elements(input.shape, body, input.dtype), mask


@operator("dropout.state(Tensor state, Tensor input, float p, bool train) -> Tensor",
          samples=listed(*((*s, True) for s in _DROPPED), (*_DROPPED[3], False)))  # fmt: skip
def dropout(state: T, input: T, p: float, train: bool) -> T:
    """input * (1 / (1 - p)) where kept (u < 1 - p, u as in rand), else +0, a choice: a dropped NaN is 0.  Not training: input."""
    return native_dropout(state, input, p, train)[0]


@operator("advance.state(Tensor state, int calls=1) -> Tensor", samples=listed((STATE, 1), (STATE, 3)))
def advance(state: T, calls: int) -> T:
    """The state after this many calls: (seed, offset + calls), wrapping."""
    need_state(state)
    return tensor((2,), lambda i: load(state, i) + select(op("eq", index(i), 1), const(calls, dt.i64), const(0, dt.i64)))
