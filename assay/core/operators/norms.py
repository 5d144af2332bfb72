"""Normalisations: y = (x - mean) * rstd * weight + bias, in this order, each step rounded.

    mean = sum(x) / n        var = sum((x - mean)**2) / n        rstd = 1 / sqrt(var + eps)

Both sums are left folds from +0 over the normalised axes, ascending.  Half types compute everything in f32 and round
the result once; saved statistics of half tensors are f32.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import ml_dtypes

from assay.core import dtypes as dt
from assay.core.dtypes import compute_dtype
from assay.core.errors import Unsupported, UserError
from assay.core.index import Ix
from assay.core.lang import E, T, const, convert, load, op, tensor
from assay.core.operators.build import at, cast, constant, dims, elements, lift, need_float
from assay.core.operators.reductions import average, count, variance, vector_norm
from assay.core.operators.registry import operator
from assay.core.operators.samples import FLOATS, like, listed
from assay.core.operators.views import reindexed

Sizes: TypeAlias = Sequence[int]


@dataclass(frozen=True)
class Moments:
    """x - mean, the mean and the biased variance of `count` elements (axes kept with size 1), in the type x is computed in."""

    centred: T
    mean: T
    var: T
    count: int

    def rstd(self, eps: float) -> T:
        """1 / sqrt(var + eps)"""
        return reciprocal_root(self.var, eps)


def reciprocal_root(var: T, eps: float) -> T:
    """1 / sqrt(var + eps), in the type var is computed in."""
    how = compute_dtype(var.dtype)
    return tensor(var.shape, lambda *i: const(1, how) / op("sqrt", lift(load(var, *i)) + const(eps, how)))


def moments(x: T, axes: Sequence[int]) -> Moments:
    """The moments of x over `axes`.  Raises UserError for another than a float type."""
    var, mean = variance(x, axes, 0, keepdim=True)
    centred = elements(x.shape, lambda *i: lift(load(x, *i)) - at(mean, i), mean.dtype)
    return Moments(centred, mean, var, count(x, axes))


def scaled(centred: T, rstd: T, weight: T | None, bias: T | None, dtype: dt.DType) -> T:
    """centred * rstd * weight + bias, broadcast, rounded to `dtype` once."""

    def body(*i: Ix) -> E:
        y = load(centred, *i) * at(rstd, i)
        if weight is not None:
            y = y * lift(at(weight, i))
        return y if bias is None else y + lift(at(bias, i))

    return elements(centred.shape, body, dtype)


def _need_parameter(name: str, p: T | None, shape: Sequence[int], x: T) -> None:
    if p is not None and (p.shape != tuple(shape) or p.dtype not in (x.dtype, dt.f32)):
        raise UserError(f"{name} {p.dtype.name}{list(p.shape)}; needs {list(shape)} of type {x.dtype.name} (or f32)")


# ------------------------------------------------------------------------------------------------ the last axes


def _last_axes(x: T, normalized_shape: Sizes) -> tuple[int, ...]:
    k = len(normalized_shape)
    if not k or x.shape[len(x.shape) - k :] != tuple(normalized_shape):
        raise UserError(f"normalized_shape {list(normalized_shape)} must be one or more of the last sizes of {list(x.shape)}")
    return tuple(range(len(x.shape) - k, len(x.shape)))


_LAYERS = ((like(3, 4), (4,), like(4), like(4)), (like(2, 3, 4), (3, 4), like(3, 4), None), (like(2, 5), (5,), None, None),
           (like(0, 4), (4,), like(4), like(4)),
           (like(4), (4,), None, like(4)), (like(3, 1), (1,), like(1), like(1)), (like(2, 17), (17,), like(17), like(17)),
           *((like(3, 4, dtype=d), (4,), like(4, dtype=d), like(4, dtype=d)) for d in FLOATS[1:]))  # fmt: skip


@operator("native_layer_norm(Tensor input, int[] normalized_shape, Tensor? weight, Tensor? bias, "
          "float eps) -> (Tensor, Tensor, Tensor)",
          samples=listed(*((*s, 1e-5) for s in _LAYERS)))  # fmt: skip
def native_layer_norm(x: T, normalized_shape: Sizes, weight: T | None, bias: T | None, eps: float) -> tuple[T, T, T]:
    """(layer_norm, mean, rstd); the statistics keep the normalised axes with size 1."""
    axes = _last_axes(x, normalized_shape)
    _need_parameter("weight", weight, normalized_shape, x)
    _need_parameter("bias", bias, normalized_shape, x)
    m = moments(x, axes)
    rstd = m.rstd(eps)
    return scaled(m.centred, rstd, weight, bias, x.dtype), m.mean, rstd


@operator("layer_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, "
          "bool cudnn_enable=True) -> Tensor",
          samples=listed(*((*s, 1e-5, True) for s in _LAYERS), (*_LAYERS[0], 0.5, True)))  # fmt: skip
def layer_norm(x: T, normalized_shape: Sizes, weight: T | None, bias: T | None, eps: float, cudnn_enable: bool) -> T:
    """(x - mean) * rstd * weight + bias over the last axes."""
    return native_layer_norm(x, normalized_shape, weight, bias, eps)[0]


@operator("_fused_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float? eps) -> (Tensor, Tensor)",
          samples=listed(*((*s[:3], e) for s in _LAYERS for e in (None, 1e-3))))  # fmt: skip
def fused_rms_norm(x: T, normalized_shape: Sizes, weight: T | None, eps: float | None) -> tuple[T, T]:
    """(rms_norm, rstd)"""
    axes = _last_axes(x, normalized_shape)
    _need_parameter("weight", weight, normalized_shape, x)
    how = compute_dtype(need_float(x))
    margin = float(ml_dtypes.finfo(how.numpy).eps) if eps is None else eps
    wide = cast(x, how)
    squares = elements(x.shape, lambda *i: load(wide, *i) * load(wide, *i), how)
    rstd = reciprocal_root(average(squares, axes, how, keepdim=True), margin)
    return scaled(wide, rstd, weight, None, x.dtype), rstd


@operator("rms_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor",
          samples=listed(*((*s[:3], e) for s in _LAYERS for e in (None, 1e-3))))  # fmt: skip
def rms_norm(x: T, normalized_shape: Sizes, weight: T | None, eps: float | None) -> T:
    """x / sqrt(mean(x*x) + eps) * weight over the last axes; eps=None is the epsilon of the type it is computed in."""
    return fused_rms_norm(x, normalized_shape, weight, eps)[0]


# ------------------------------------------------------------------------------------------------ channels


def _per_channel(p: T, rank: int) -> T:
    """p[c] as [1, c, 1, ...]."""
    return reindexed(p, (1, p.size, *(1,) * (rank - 2)))


def _channels(x: T, weight: T | None, bias: T | None) -> tuple[T | None, T | None]:
    if len(x.shape) < 2:
        raise UserError(f"needs a batch axis and a channel axis, not shape {list(x.shape)}")
    _need_parameter("weight", weight, x.shape[1:2], x)
    _need_parameter("bias", bias, x.shape[1:2], x)
    rank = len(x.shape)
    return (None if weight is None else _per_channel(weight, rank)), (None if bias is None else _per_channel(bias, rank))


_GROUPS = ((like(2, 4, 3), 2, like(4), like(4)), (like(1, 6, 2, 3), 3, like(6), None), (like(2, 4), 1, None, None),
           (like(2, 3, 5), 3, like(3), like(3)),
           *((like(1, 4, 3, dtype=d), 2, like(4, dtype=d), like(4, dtype=d)) for d in FLOATS[1:]))  # fmt: skip


@operator("native_group_norm(Tensor input, Tensor? weight, Tensor? bias, int N, int C, int HxW, int group, "
          "float eps) -> (Tensor, Tensor, Tensor)",
          samples=listed(*((s[0], s[2], s[3], s[0].shape[0], s[0].shape[1], math.prod(s[0].shape[2:]), s[1], 1e-5)
                         for s in _GROUPS)))  # fmt: skip
def native_group_norm(x: T, weight: T | None, bias: T | None, n: int, c: int, area: int, group: int,
                      eps: float) -> tuple[T, T, T]:  # fmt: skip
    """(group_norm, mean [N, group], rstd [N, group])"""
    w, b = _channels(x, weight, bias)
    if (n, c) != x.shape[:2] or n * c * area != x.size or group < 1 or c % group:
        raise UserError(f"N={n}, C={c}, HxW={area}, group={group} for shape {list(x.shape)}; C must be a multiple of group")
    m = moments(reindexed(x, (n, group, c // group * area)), (2,))
    rstd = m.rstd(eps)
    normal = scaled(m.centred, rstd, None, None, m.centred.dtype)
    ones = constant((1,) * len(x.shape), 1, normal.dtype)
    y = scaled(reindexed(normal, x.shape), ones, w, b, x.dtype)
    return y, reindexed(m.mean, (n, group)), reindexed(rstd, (n, group))


@operator("group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, "
          "bool cudnn_enabled=True) -> Tensor", samples=listed(*((*s, 1e-5, True) for s in _GROUPS)))  # fmt: skip
def group_norm(x: T, num_groups: int, weight: T | None, bias: T | None, eps: float, cudnn_enabled: bool) -> T:
    """(x - mean) * rstd * weight + bias, the statistics over each group of channels and all their positions."""
    if len(x.shape) < 2:
        raise UserError(f"needs a batch axis and a channel axis, not shape {list(x.shape)}")
    return native_group_norm(x, weight, bias, *x.shape[:2], math.prod(x.shape[2:]), num_groups, eps)[0]


def _batch_axes(x: T) -> tuple[int, ...]:
    return tuple(k for k in range(len(x.shape)) if k != 1)


def _batch(x: T, weight: T | None, bias: T | None, mean: T | None, var: T | None, eps: float) -> tuple[T, Moments | None, T]:
    """(normalised x, the moments of the batch where no mean and var are given, rstd per channel)."""
    w, b = _channels(x, weight, bias)
    if mean is None or var is None:
        m = moments(x, _batch_axes(x))
        rstd = m.rstd(eps)
        return scaled(m.centred, rstd, w, b, x.dtype), m, rstd
    _need_parameter("running_mean", mean, x.shape[1:2], x)
    _need_parameter("running_var", var, x.shape[1:2], x)
    how, at_mean = compute_dtype(need_float(x)), _per_channel(mean, len(x.shape))
    rstd = _per_channel(reciprocal_root(cast(var, how), eps), len(x.shape))
    centred = elements(x.shape, lambda *i: lift(load(x, *i)) - convert(at(at_mean, i), how), how)
    return scaled(centred, rstd, w, b, x.dtype), None, rstd


def _flat(p: T) -> T:
    return reindexed(p, (p.size,))


_BATCHES = ((like(3, 2, 4), like(2), like(2), like(2), like(2, lo=0.1, hi=4)),
            (like(4, 3), None, None, like(3), like(3, lo=0.1, hi=4)),
            (like(2, 2, 3, 3), like(2), None, like(2), like(2, lo=0.1, hi=4)),
            *((like(3, 2, dtype=d), like(2, dtype=d), like(2, dtype=d), like(2, dtype=d), like(2, dtype=d, lo=0.1, hi=4))
            for d in FLOATS[1:]))  # fmt: skip


@operator("batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, "
          "float momentum, float eps, bool cudnn_enabled) -> Tensor",
          samples=listed(*((*s, False, 0.1, 1e-5, True) for s in _BATCHES),
                         *((*s[:3], None, None, True, 0.1, 1e-5, True) for s in _BATCHES)))  # fmt: skip
def batch_norm(x: T, weight: T | None, bias: T | None, running_mean: T | None, running_var: T | None, training: bool,
               momentum: float,
               eps: float, cudnn_enabled: bool) -> T:  # fmt: skip
    """(x - mean) * rstd * weight + bias per channel, with the running statistics, or those of the batch where there are none."""
    if training and running_mean is not None:
        raise Unsupported("it would update running statistics; _native_batch_norm_legit_functional returns the new ones")
    return _batch(x, weight, bias, running_mean, running_var, eps)[0]


@operator("_native_batch_norm_legit_no_training(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, "
          "Tensor running_var, "
          "float momentum, float eps) -> (Tensor, Tensor, Tensor)",
          samples=listed(*((*s, 0.1, 1e-5) for s in _BATCHES)))  # fmt: skip
def batch_norm_no_training(x: T, weight: T | None, bias: T | None, running_mean: T, running_var: T, momentum: float,
                           eps: float) -> tuple[T, T, T]:  # fmt: skip
    """(batch_norm with the running statistics, two empty tensors)"""
    empty = constant((0,), 0, compute_dtype(x.dtype))
    return _batch(x, weight, bias, running_mean, running_var, eps)[0], empty, empty


@operator("_native_batch_norm_legit_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, "
          "Tensor running_var, "
          "bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor running_mean_out, "
          "Tensor running_var_out)",
          samples=listed(*((*s, t, 0.1, 1e-5) for s in _BATCHES for t in (True, False))))  # fmt: skip
def batch_norm_functional(x: T, weight: T | None, bias: T | None, running_mean: T, running_var: T, training: bool,
                          momentum: float,
                          eps: float) -> tuple[T, T, T, T, T]:  # fmt: skip
    """(batch_norm, mean, rstd, new running mean, new running variance)

    new = momentum * batch + (1 - momentum) * running, the variance of the batch unbiased (times n / (n - 1)).
    """
    if not training:
        y, empty, _ = batch_norm_no_training(x, weight, bias, running_mean, running_var, momentum, eps)
        return y, empty, empty, running_mean, running_var
    y, m, rstd = _batch(x, weight, bias, None, None, eps)
    assert m is not None
    _need_parameter("running_mean", running_mean, x.shape[1:2], x)
    _need_parameter("running_var", running_var, x.shape[1:2], x)
    if m.count < 2:
        raise UserError(f"the statistics of a batch need more than one value per channel, not shape {list(x.shape)}")

    def updated(running: T, batch: T, factor: float) -> T:
        def body(*i: Ix) -> E:
            new = load(batch, *i) if factor == 1 else load(batch, *i) * const(factor, batch.dtype)
            return new * const(momentum, batch.dtype) + convert(load(running, *i), batch.dtype) * const(1 - momentum, batch.dtype)

        return elements(running.shape, body, running.dtype)

    mean, var = _flat(m.mean), _flat(m.var)
    return y, mean, _flat(rstd), updated(running_mean, mean, 1), updated(running_var, var, m.count / (m.count - 1))


@operator("instance_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, "
          "bool use_input_stats, "
          "float momentum, float eps, bool cudnn_enabled) -> Tensor",
          samples=listed(*((*s[:3], None, None, True, 0.1, 1e-5, True) for s in _BATCHES if len(s[0].shape) > 2),
                         *((*s, False, 0.1, 1e-5, True) for s in _BATCHES if len(s[0].shape) > 2)))  # fmt: skip
def instance_norm(x: T, weight: T | None, bias: T | None, running_mean: T | None, running_var: T | None, use_input_stats: bool,
                  momentum: float, eps: float, cudnn_enabled: bool) -> T:  # fmt: skip
    """(x - mean) * rstd * weight + bias, the statistics of each channel of each sample over its positions."""
    if not use_input_stats:
        return _batch(x, weight, bias, running_mean, running_var, eps)[0]
    if running_mean is not None or running_var is not None:
        raise Unsupported("it would update running statistics; leave running_mean and running_var out")
    if len(x.shape) < 3:
        raise UserError(f"needs batch, channel and position axes, not shape {list(x.shape)}")
    return group_norm(x, x.shape[1], weight, bias, eps, cudnn_enabled)


# ------------------------------------------------------------------------------------------------ vectors


@operator("normalize(Tensor input, float p=2.0, int dim=1, float eps=1e-12) -> Tensor",
          samples=listed((like(3, 4), 2.0, 1, 1e-12), (like(3, 4), 1.0, 0, 1e-12), (like(5), 2.0, -1, 1e-12),
                         (like(3, 4), 3.0, 1, 0.5),
                         (like(2, 0), 2.0, 1, 1e-12), *((like(3, 4, dtype=d), 2.0, 1, 1e-6) for d in FLOATS[1:])))  # fmt: skip
def normalize(x: T, p: float, dim: int, eps: float) -> T:
    """x / max(|x|_p, eps) with the p-norm along dim; p = 2 is sqrt(sum x*x), p = 1 sum |x|, else pow(sum pow(|x|, p), 1/p)."""
    how = compute_dtype(need_float(x))
    if not 0 < p < math.inf:
        raise UserError(f"p={p}; allowed: positive and finite")
    size = vector_norm(x, p, dims([dim], len(x.shape)), how, keepdim=True)
    return elements(x.shape, lambda *i: lift(load(x, *i)) / op("max", at(size, i), eps), x.dtype)
