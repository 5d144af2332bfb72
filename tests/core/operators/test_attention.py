"""Attention against its definition in f64, and literals for masks, rows with nothing kept, and special values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from assay.core.errors import Unsupported, UserError
from assay.core.operators import OPERATORS
from assay.core.operators.samples import Like, draw
from tests.core.operators.calling import array, call, evaluate, same

inf, nan = math.inf, math.nan
SDPA = OPERATORS["scaled_dot_product_attention.default"]
ROUNDINGS = {2: 2.0**-8, 4: 2.0**-24, 8: 2.0**-53}


def attention(q: Any, k: Any, v: Any, mask: Any, _: float, causal: Any, scale: Any, gqa: Any) -> Any:
    q, k, v = (np.asarray(a, np.float64) for a in (q, k, v))
    if gqa:
        k, v = (np.repeat(a, q.shape[-3] // a.shape[-3], -3) for a in (k, v))
    s = q @ np.swapaxes(k, -1, -2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if causal:
        s = np.where(np.tri(*s.shape[-2:], dtype=bool), s, -inf)
    if mask is not None:
        s = np.where(mask, s, -inf) if mask.dtype == bool else s + mask
    top = s.max(-1, keepdims=True, initial=-inf)
    p = np.where(top == -inf, 0, np.exp(s - np.where(top == -inf, 0, top)))
    total = p.sum(-1, keepdims=True)
    return (p / np.where(total == 0, 1, total)) @ v


def test_every_sample_is_within_its_roundings():
    """A weight is at most 1: its error and those of at most 8 terms of a dot product are below 64 roundings of the values."""
    rng = np.random.default_rng(11)
    for sample in SDPA.samples():
        arguments = tuple(draw(a, rng, special=0) if isinstance(a, Like) else a for a in sample)
        actual, expected = evaluate(SDPA, arguments), attention(*arguments)
        assert (actual.dtype, actual.shape) == (arguments[0].dtype, expected.shape)
        scores = np.abs(np.asarray(arguments[0], np.float64)).max() * np.abs(np.asarray(arguments[1], np.float64)).max(initial=1)
        bound = 64 * ROUNDINGS[actual.itemsize] * (1 + scores) * np.abs(np.asarray(arguments[2], np.float64)).max(initial=0)
        assert (np.abs(actual.astype(np.float64) - expected) <= bound).all(), arguments


ONE = array([[1.0]])
KEYS, VALUES = array([[0], [0]]), array([[2], [4]])


@pytest.mark.parametrize(("q", "k", "v", "mask", "expected"), [
    (ONE, KEYS, VALUES, None, [[3]]),
    (ONE, KEYS, VALUES, np.array([True, False]), [[2]]),
    (ONE, KEYS, VALUES, np.array([False, False]), [[0]]),
    (ONE, KEYS, VALUES, array([-inf, 0]), [[4]]),
    (ONE, KEYS, VALUES, array([-inf, -inf]), [[0]]),
    (ONE, array([[nan], [0]]), VALUES, None, [[nan]]),
    (ONE, array([[nan], [0]]), VALUES, np.array([False, True]), [[4]]),  # what is masked is not looked at
    (ONE, array([[-inf], [0]]), VALUES, None, [[4]]),
    (ONE, array([[1000], [0]]), VALUES, None, [[2]]),
    (ONE, KEYS[:0], VALUES[:0], None, [[0]]),
])  # fmt: skip
def test_values(q, k, v, mask, expected):
    assert same(call("scaled_dot_product_attention", q, k, v, mask), array(expected))


def test_causal_rows_see_what_came_before():
    x = np.zeros((3, 1), np.float32)
    y = call("scaled_dot_product_attention", x, x, array([[6], [8], [nan]]), None, 0.0, True)
    assert same(y, array([[nan], [nan], [nan]]))  # 0 * NaN: the weight of a masked value is 0, and it is multiplied
    assert call("scaled_dot_product_attention", x[:2], x[:2], array([[6], [8]]), None, 0.0, True).ravel().tolist() == [6, 7]


def test_one_call_is_a_batch_of_calls():
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((2, 3, 4, 5)).astype(np.float32) for _ in range(3))
    y = call("scaled_dot_product_attention", q, k, v)
    for i in np.ndindex(2, 3):
        assert same(y[i], call("scaled_dot_product_attention", q[i], k[i], v[i]))


@pytest.mark.parametrize(("args", "error", "text"), [
    ((ONE, KEYS, VALUES, None, 0.5), Unsupported, "random numbers need a state"),
    ((ONE[0], KEYS, VALUES), UserError, "at least 2 axes"),
    ((ONE, KEYS, VALUES[:1]), UserError, "needs [.., l, d], [.., s, d], [.., s, e]"),
    ((ONE, KEYS, VALUES, np.array([True] * 3)), UserError, "do not broadcast"),
    ((ONE, KEYS, VALUES, np.array([True, True]), 0.0, True), UserError, "exclude one another"),
    ((ONE, KEYS, array([[1], [2]], "f64")), UserError, "one type"),
])  # fmt: skip
def test_wrong_arguments(args, error, text):
    with pytest.raises(error) as raised:
        call("scaled_dot_product_attention", *args)
    assert text in str(raised.value)


def test_heads_that_cannot_be_shared():
    q, k = np.zeros((3, 2, 4), np.float32), np.zeros((2, 2, 4), np.float32)
    with pytest.raises(UserError, match="3 query heads for 2 key heads"):
        call("scaled_dot_product_attention", q, k, k, enable_gqa=True)
