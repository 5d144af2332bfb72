"""Normalisations against left folds in numpy, bit for bit, and against their definition in exact arithmetic."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from assay.core.errors import Unsupported, UserError
from assay.core.operators import OPERATORS
from tests.core.operators.calling import array, call, drawn, evaluate, same

inf, nan = math.inf, math.nan
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def how(x: Any) -> Any:
    return np.float32 if x.dtype in (np.float16, ml_dtypes.bfloat16) else x.dtype.type


def left_sum(x: Any, axes: tuple[int, ...]) -> Any:
    """The sum over `axes`, kept with size 1: a left fold from +0 in lexicographic order."""
    rest = [k for k in range(x.ndim) if k not in axes]
    rows = x.transpose(*axes, *rest).reshape(math.prod(x.shape[k] for k in axes), *(x.shape[k] for k in rest))
    start = np.zeros(rows.shape[1:], x.dtype)
    return functools.reduce(np.add, rows, start).reshape([1 if k in axes else n for k, n in enumerate(x.shape)])


def moments(x: Any, axes: tuple[int, ...]) -> Any:
    x = x.astype(how(x))
    n = x.dtype.type(math.prod(x.shape[k] for k in axes))
    mean = left_sum(x, axes) / n
    centred = x - mean
    return centred, mean, left_sum(centred * centred, axes) / n


def rstd(var: Any, eps: float) -> Any:
    return var.dtype.type(1) / np.sqrt(var + var.dtype.type(eps))


def scaled(centred: Any, r: Any, w: Any, b: Any, dtype: Any) -> Any:
    y = centred * r
    y = y if w is None else y * w.astype(y.dtype)
    return (y if b is None else y + b.astype(y.dtype)).astype(dtype)


def layer(x: Any, shape: Any, w: Any, b: Any, eps: float) -> Any:
    centred, mean, var = moments(x, tuple(range(x.ndim - len(shape), x.ndim)))
    r = rstd(var, eps)
    return scaled(centred, r, w, b, x.dtype), mean, r


def rms(x: Any, shape: Any, w: Any, eps: float | None) -> Any:
    z, axes = x.astype(how(x)), tuple(range(x.ndim - len(shape), x.ndim))
    mean = left_sum(z * z, axes) / z.dtype.type(math.prod(shape))
    r = rstd(mean, float(np.finfo(z.dtype).eps) if eps is None else eps)
    return scaled(z, r, w, None, x.dtype), r


def channel(p: Any, x: Any) -> Any:
    return None if p is None else p.reshape(1, -1, *(1,) * (x.ndim - 2))


def group(x: Any, w: Any, b: Any, n: int, c: int, area: int, groups: int, eps: float) -> Any:
    centred, mean, var = moments(x.reshape(n, groups, c // groups * area), (2,))
    r = rstd(var, eps)
    y = scaled((centred * r).reshape(x.shape), how(x)(1), channel(w, x), channel(b, x), x.dtype)
    return y, mean.reshape(n, groups), r.reshape(n, groups)


def batch(x: Any, w: Any, b: Any, mean: Any, var: Any, eps: float) -> Any:
    if mean is None:
        centred, m, v = moments(x, (0, *range(2, x.ndim)))
        r = rstd(v, eps)
        return scaled(centred, r, channel(w, x), channel(b, x), x.dtype), m.ravel(), v.ravel(), r.ravel()
    r = rstd(var.astype(how(x)), eps)
    centred = x.astype(how(x)) - channel(mean.astype(how(x)), x)
    return scaled(centred, channel(r, x), channel(w, x), channel(b, x), x.dtype), None, None, None


def functional(x: Any, w: Any, b: Any, mean: Any, var: Any, training: Any, momentum: float, eps: float) -> Any:
    if not training:
        empty = np.zeros(0, how(x))
        return batch(x, w, b, mean, var, eps)[0], empty, empty, mean, var
    y, m, v, r = batch(x, w, b, None, None, eps)
    n, t = x.size // x.shape[1], how(x)
    pairs = ((m, mean), (v * t(n / (n - 1)), var))
    return y, m, r, *((a * t(momentum) + old.astype(t) * t(1 - momentum)).astype(old.dtype) for a, old in pairs)


def normalized(x: Any, p: float, d: int, eps: float) -> Any:
    z = x.astype(how(x))
    powers = {2.0: lambda: z * z, 1.0: lambda: np.abs(z), 3.0: lambda: np.abs(z) ** 3}[p]()
    s = left_sum(powers, (d % x.ndim,))
    size = {2.0: np.sqrt, 1.0: lambda v: v, 3.0: lambda v: v ** (1 / 3)}[p](s)
    return (z / np.maximum(size, z.dtype.type(eps))).astype(x.dtype)


REFERENCES: dict[str, Callable[..., Any]] = {
    "native_layer_norm.default": layer,
    "layer_norm.default": lambda x, s, w, b, eps, _: layer(x, s, w, b, eps)[0],
    "_fused_rms_norm.default": rms,
    "rms_norm.default": lambda *a: rms(*a)[0],
    "native_group_norm.default": group,
    "group_norm.default": lambda x, g, w, b, eps, _: group(x, w, b, *x.shape[:2], math.prod(x.shape[2:]), g, eps)[0],
    "batch_norm.default": lambda x, w, b, m, v, training, momentum, eps, _: batch(x, w, b, m, v, eps)[0],
    "_native_batch_norm_legit_no_training.default": lambda *a: functional(*a[:5], False, *a[5:])[:3],
    "_native_batch_norm_legit_functional.default": functional,
    "instance_norm.default": lambda x, w, b, m, v, own, momentum, eps, _: (
        group(x, w, b, *x.shape[:2], math.prod(x.shape[2:]), x.shape[1], eps) if own else batch(x, w, b, m, v, eps)
    )[0],
}


def test_every_overload_of_the_family_has_a_formula():
    assert {o.name for o in OPERATORS.values() if o.family == "norms" and not o.inplace_of} == {*REFERENCES, "normalize.default"}


@pytest.mark.parametrize("name", REFERENCES)
def test_every_sample(name):
    for arguments in drawn(OPERATORS[name]):
        assert same(evaluate(OPERATORS[name], arguments), REFERENCES[name](*arguments)), arguments


def test_normalize():
    for arguments in drawn(OPERATORS["normalize.default"]):
        if arguments[1] != 3.0:  # numpy's pow has other bits than ours
            assert same(evaluate(OPERATORS["normalize.default"], arguments), normalized(*arguments)), arguments
    x = array([[3, -4, 0, 1]], "f64")
    assert np.abs(call("normalize", x, 3.0) - normalized(x, 3.0, 1, 1e-12)).max() < 4 * np.finfo(np.float64).eps


@pytest.mark.parametrize(("name", "args", "expected"), [
    ("layer_norm", (array([1, 1, 1]), (3,)), [0, 0, 0]),
    ("layer_norm", (array([-1, 1]), (2,), None, None, 0.0), [-1, 1]),
    ("layer_norm", (array([-1, 1]), (2,), array([2, 3]), array([10, nan]), 0.0), [8, nan]),
    ("layer_norm", (array([1, nan]), (2,)), [nan, nan]),
    ("layer_norm", (array([1, inf]), (2,)), [nan, nan]),
    ("layer_norm", (array([5]), (1,), None, array([-0.0])), [0.0]),
    ("rms_norm", (array([3, 3]), (2,), None, 0.0), [1, 1]),
    ("rms_norm", (array([0, -0.0]), (2,)), [0, -0.0]),
    ("rms_norm", (array([inf, 1]), (2,)), [nan, 0]),
    ("normalize", (array([3, 4]), 2.0, 0), [array([3])[0] / 5, array([4])[0] / 5]),
    ("normalize", (array([0, -0.0]), 2.0, 0), [0, -0.0]),
    ("normalize", (array([nan, 1]), 2.0, 0), [nan, nan]),
])  # fmt: skip
def test_values(name, args, expected):
    assert same(call(name, *args), array(expected))


def test_half_types_keep_their_statistics_in_f32():
    y, mean, r = call("native_layer_norm", array([60000, 60000], "f16"), (2,), None, None, 1e-5)
    assert (y.dtype, mean.dtype, r.dtype) == (np.float16, np.float32, np.float32)
    assert mean.tolist() == [60000]  # their sum is beyond f16


RUNNING = (None, None, array([0]), array([1]))


@pytest.mark.parametrize(("name", "args", "error", "text"), [
    ("layer_norm", (array([[1, 2]]), (3,)), UserError, "must be one or more of the last sizes of [1, 2]"),
    ("layer_norm", (array([[1, 2]]), ()), UserError, "must be one or more"),
    ("layer_norm", (array([[1, 2]]), (2,), array([1])), UserError, "weight f32[1]; needs [2]"),
    ("layer_norm", (np.array([1, 2]), (2,)), UserError, "needs a float tensor"),
    ("group_norm", (array([[1, 2, 3]]), 2), UserError, "must be a multiple of group"),
    ("group_norm", (array([1, 2]), 1), UserError, "needs a batch axis"),
    ("batch_norm", (array([[1]]), *RUNNING, True, 0.1, 1e-5, True), Unsupported, "_native_batch_norm_legit_functional returns"),
    ("instance_norm", (array([[[1]]]), *RUNNING, True, 0.1, 1e-5, True), Unsupported, "leave running_mean"),
    ("_native_batch_norm_legit_functional", (array([[1]]), *RUNNING, True, 0.1, 1e-5), UserError, "more than one value"),
    ("_native_batch_norm_legit_functional", (array([[1], [2]]), None, None, array([0, 0]), array([1]), True, 0.1, 1e-5),
     UserError, "running_mean f32[2]; needs [1]"),
    ("_native_batch_norm_legit_functional", (array([[1], [2]]), None, None, array([0]), array([1, 1, 1]), True, 0.1, 1e-5),
     UserError, "running_var f32[3]; needs [1]"),
    ("normalize", (array([1]), inf, 0), UserError, "positive and finite"),
])  # fmt: skip
def test_wrong_arguments(name, args, error, text):
    with pytest.raises(error) as raised:
        call(name, *args)
    assert text in str(raised.value)
