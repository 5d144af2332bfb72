"""Convolutions against loops on small integers (every order is exact), and literals that show the order and the roundings."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from assay.core.errors import UserError
from assay.core.operators import OPERATORS
from assay.core.operators.samples import Like
from tests.core.operators.calling import array, call, evaluate, same

inf, nan = math.inf, math.nan
RNG = np.random.default_rng(7)


def integers(v: Any) -> Any:
    """The sample with integers in -4..4 in it: sums of their products are exact in every type."""
    return RNG.integers(-4, 5, v.shape).astype(v.dtype.numpy) if isinstance(v, Like) else v


def direct(x: Any, w: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    """Every output element by its definition."""
    axes = w.ndim - 2
    if x.ndim == axes + 1:
        return direct(x[None], w, bias, stride, padding, dilation, groups)[0]
    spans = [d * (k - 1) for d, k in zip(dilation, w.shape[2:], strict=True)]
    if isinstance(padding, str):
        pads = [(s // 2, s - s // 2) if padding == "same" else (0, 0) for s in spans]
    else:
        pads = [(p, p) for p in padding]
    wide = np.pad(x.astype(np.float64), [(0, 0), (0, 0), *pads])
    sizes = [(n - span - 1) // s + 1 for n, span, s in zip(wide.shape[2:], spans, stride, strict=True)]
    y = np.zeros((x.shape[0], w.shape[0], *sizes))
    per_group, depth = w.shape[0] // groups, w.shape[1]
    for i in np.ndindex(*y.shape):
        g = i[1] // per_group
        for c, *k in np.ndindex(*w.shape[1:]):
            at = [p * s + j * d for p, s, j, d in zip(i[2:], stride, k, dilation, strict=True)]
            y[i] += wide[(i[0], g * depth + c, *at)] * float(w[(i[1], c, *k)])
        y[i] += float(bias[i[1]]) if bias is not None else 0
    return y.astype(x.dtype)


def turned(x: Any, w: Any, bias: Any, stride: Any, padding: Any, output_padding: Any, groups: int, dilation: Any) -> Any:
    """Every input element spread over the output."""
    axes = w.ndim - 2
    if x.ndim == axes + 1:
        return turned(x[None], w, bias, stride, padding, output_padding, groups, dilation)[0]
    sizes = [(n - 1) * s - 2 * p + d * (k - 1) + e + 1 for n, s, p, d, k, e in
             zip(x.shape[2:], stride, padding, dilation, w.shape[2:], output_padding, strict=True)]  # fmt: skip
    y = np.zeros((x.shape[0], w.shape[1] * groups, *sizes))
    depth = x.shape[1] // groups
    for n, c, *p in np.ndindex(*x.shape):
        for o, *k in np.ndindex(*w.shape[1:]):
            at = [q * s + j * d - a for q, s, j, d, a in zip(p, stride, k, dilation, padding, strict=True)]
            if all(0 <= a < m for a, m in zip(at, sizes, strict=True)):
                y[(n, c // depth * w.shape[1] + o, *at)] += float(x[(n, c, *p)]) * float(w[(c, o, *k)])
    return (y + (0 if bias is None else bias.astype(float).reshape(-1, *(1,) * axes))).astype(x.dtype)


def general(x: Any, w: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: Any, *rest: Any) -> Any:
    if transposed:
        return turned(x, w, bias, stride, padding, *rest, dilation)
    return direct(x, w, bias, stride, padding, dilation, rest[-1])


REFERENCES = {
    **{f"conv{n}d.{o}": direct for n in (1, 2, 3) for o in ("default", "padding")},
    "conv_transpose1d.default": turned,
    "conv_transpose2d.input": turned,
    "conv_transpose3d.input": turned,
    "convolution.default": general,
}


def test_every_overload_of_the_family_has_a_formula():
    assert {o.name for o in OPERATORS.values() if o.family == "conv" and not o.inplace_of} == {*REFERENCES}


@pytest.mark.parametrize("name", REFERENCES)
def test_every_sample(name):
    for sample in OPERATORS[name].samples():
        arguments = tuple(map(integers, sample))
        assert same(evaluate(OPERATORS[name], arguments), REFERENCES[name](*arguments)), arguments


def row(*values: float, dtype: str = "f32") -> np.ndarray:
    return array(values, dtype).reshape(1, 1, -1)


@pytest.mark.parametrize(("x", "w", "expected"), [
    ([1e8, 1, -1e8], [1, 1, 1], 0),  # left to right: (1e8 + 1) - 1e8
    ([1, 1e8, -1e8], [1, 1, 1], 0),
    ([1e8, -1e8, 1], [1, 1, 1], 1),
    ([-1, 1 + 2.0**-12], [1, 1 + 2.0**-12], 2.0**-11 + 2.0**-24),  # one rounding a step: two would give 2**-11
    ([-0.0, -0.0], [1, 1], 0),  # from +0
    ([nan, 1], [0, 1], nan),
    ([inf, 1], [0, 1], nan),
    ([inf, 1], [-1, 1], -inf),
])  # fmt: skip
def test_the_fold(x, w, expected):
    assert same(call("conv1d", row(*x), row(*w)), row(expected))


@pytest.mark.parametrize(("values", "expected"), [
    ([1e8, 1, -1e8, 0, 0, 0, 0, 0], 0),  # columns before rows: 1 if rows came first
    ([1e8, 0, 0, 1, -1e8, 0, 0, 0], 0),  # a channel after the other: 1 if they alternated
    ([1e8, -1e8, 1, 0, 0, 0, 0, 0], 1),
])  # fmt: skip
def test_the_order_of_the_fold_is_channel_row_column(values, expected):
    x = array(values).reshape(1, 2, 2, 2)
    assert call("conv2d", x, np.ones((1, 2, 2, 2), np.float32)).ravel().tolist() == [expected]


def test_the_bias_is_added_last():
    assert call("conv1d", row(1, 1), row(1, 1), array([1e8])).ravel().tolist() == [100000000]
    assert call("conv1d", row(1e8, 1), row(1, 1), array([-1e8])).ravel().tolist() == [0]


def test_padding_is_multiplied_like_any_zero():
    assert same(call("conv1d", row(1), row(inf, 1, 1), None, 1, 1), row(nan))


def test_half_types_round_once():
    assert call("conv1d", row(2048, 1, 1, dtype="f16"), row(1, 1, 1, dtype="f16")).ravel().tolist() == [2050]


def test_same_padding_of_an_even_kernel_pads_the_end():
    assert call("conv1d", row(1, 2, 3), row(1, 10), None, 1, "same").ravel().tolist() == [21, 32, 3]


@pytest.mark.parametrize(("args", "text"), [
    ((row(1, 2), row(1, 2, 3)), "does not fit"),
    ((row(1, 2), np.ones((1, 2, 1), np.float32)), "the weight takes 2 channels"),
    ((row(1, 2), row(1, dtype="f64")), "needs tensors of one type"),
    ((row(1, 2), row(1), array([1, 2])), "bias of shape [2]; needs [1]"),
    ((row(1, 2), row(1), None, 0), "stride=[0]"),
    ((row(1, 2), row(1), None, 1, -1), "padding=[-1, -1]"),
    ((row(1, 2), row(1), None, 2, "same"), "needs stride 1"),
    ((row(1, 2), row(1), None, 1, "full"), "allowed: 'same', 'valid'"),
    ((row(1, 2), row(1), None, 1, 0, 1, 2), "groups=2"),
    ((row(1, 2)[None], row(1)), "needs 3 axes each"),
])  # fmt: skip
def test_wrong_arguments(args, text):
    with pytest.raises(UserError) as raised:
        call("conv1d", *args)
    assert text in str(raised.value)


@pytest.mark.parametrize(("output_padding", "text"), [(2, "must be below"), (-1, "too small")])
def test_wrong_output_padding(output_padding, text):
    with pytest.raises(UserError, match=text):
        call("conv_transpose1d", row(1, 2), row(1, 2), None, 2, 0, output_padding)


@pytest.mark.parametrize("stride", [[1, 2, 3], [1, 1, 1, 1]])
def test_a_list_of_the_wrong_length_is_refused(stride):
    x = np.zeros((1, 2, 4, 4), np.float32)
    with pytest.raises(UserError, match=r"expected one int or 2 of them, not"):
        call("conv2d", x, x, None, stride)
