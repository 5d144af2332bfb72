"""Random operators: pure in state and position, independent of shape, with the moments of their distribution."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from assay.core import dtypes as dt
from assay.core.errors import UserError
from assay.core.operators import OPERATORS
from tests.core.operators.calling import array, call, drawn, evaluate, same

nan = math.nan
STATE = np.array([1234, 7], np.int64)
N = 20000


def rand(size: Any, state: Any = STATE, dtype: Any = None) -> Any:
    return evaluate(OPERATORS["rand.state"], (state, size, dtype))


def philox(seed: int, offset: int, index: int) -> list[int]:
    """The words by the definition, in Python's integers."""
    low = 0xFFFFFFFF
    c, k = [index & low, index >> 32, offset & low, offset >> 32], [seed & low, seed >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ k[0], b & low, a >> 32 ^ c[3] ^ k[1], a & low]
        k = [k[0] + 0x9E3779B9 & low, k[1] + 0xBB67AE85 & low]
    return c


def test_rand_is_the_definition():
    expected = [np.float32((philox(1234, 7, k)[0] >> 8) * 2.0**-24) for k in range(6)]
    assert same(rand((2, 3)), np.array(expected, np.float32).reshape(2, 3))


@pytest.mark.parametrize("size", [(24,), (4, 6), (2, 3, 4), (24, 1)])
def test_a_draw_does_not_depend_on_the_shape(size):
    assert same(rand(size).ravel(), rand((24,)))


@pytest.mark.parametrize("name", ["rand.state", "randn.state"])
def test_a_prefix_is_the_same_whatever_follows(name):
    long, short = (evaluate(OPERATORS[name], (STATE, (n,), None)) for n in (100, 37))
    assert same(long[:37], short)


def test_a_mask_drawn_again_is_the_same_mask():
    x = np.ones((5, 8), np.float32)
    first, again, other = (call("dropout", s, x, 0.5, True) for s in (STATE, STATE, STATE + np.array([0, 1])))
    assert same(first, again)
    assert not same(first, other)
    assert not same(rand((8,)), rand((8,), STATE + np.array([1, 0])))


def test_every_sample_is_deterministic():
    for o in OPERATORS.values():
        if o.family == "random":
            for arguments in drawn(o):
                a, b = evaluate(o, arguments), evaluate(o, arguments)
                assert same(a, b), arguments


@pytest.mark.parametrize(("dtype", "step"), [(dt.f32, 2.0**-24), (dt.f64, 2.0**-53), (dt.f16, 2.0**-11), (dt.bf16, 2.0**-8)])
def test_uniform_values(dtype, step):
    u = rand((N,), dtype=dtype)
    assert u.dtype == dtype.numpy
    wide = u.astype(np.float64)
    assert wide.min() >= 0
    assert wide.max() < 1
    assert (wide / step == np.floor(wide / step)).all()
    assert abs(wide.mean() - (1 - step) / 2) < 5 * math.sqrt(1 / 12 / N)  # five standard deviations
    assert abs(wide.var() - 1 / 12) < 5 * math.sqrt(1 / 180 / N)


def test_normal_values():
    z = evaluate(OPERATORS["randn.state"], (STATE, (N,), dt.f64))
    assert abs(z.mean()) < 5 / math.sqrt(N)
    assert abs(z.var() - 1) < 5 * math.sqrt(2 / N)
    assert abs((z**3).mean()) < 5 * math.sqrt(15 / N)
    assert abs((z**4).mean() - 3) < 5 * math.sqrt(96 / N)
    single = evaluate(OPERATORS["randn.state"], (STATE, (N,), None))
    assert np.isfinite(single).all()


def test_normal_of_mean_and_deviation():
    z = evaluate(OPERATORS["randn.state"], (STATE, (4,), dt.f64))
    assert same(evaluate(OPERATORS["normal.state"], (STATE, 3.0, 2.0, (4,), dt.f64)), z * 2 + 3)
    mean, std = array([1, nan, 3, 4], "f64"), array([0, 1, 2, 3], "f64")
    assert same(evaluate(OPERATORS["normal.state_Tensor"], (STATE, mean, std)), z * std + mean)


@pytest.mark.parametrize(("low", "high", "dtype"), [(0, 10, None), (-5, 5, dt.i8), (3, 4, None), (0, 256, dt.u8), (0, 3, dt.f32)])
def test_integers(low, high, dtype):
    n = evaluate(OPERATORS["randint.state"], (STATE, low, high, (N,), dtype))
    assert n.dtype == (dtype or dt.i64).numpy
    assert sorted(set(n.tolist())) == list(range(low, high))
    counts = np.bincount((n.astype(np.int64) - low), minlength=high - low)
    expected = N / (high - low)
    assert np.abs(counts - expected).max() <= 5.5 * math.sqrt(expected)


def test_integers_by_the_definition():
    expected = [-3 + ((philox(1234, 7, k)[1] << 32 | philox(1234, 7, k)[0]) & (1 << 63) - 1) % 10 for k in range(5)]
    assert call("randint", STATE, -3, 7, (5,)).tolist() == expected


@pytest.mark.parametrize("n", [0, 1, 2, 100])
def test_a_permutation(n):
    assert sorted(call("randperm", STATE, n).tolist()) == list(range(n))


@pytest.mark.parametrize("p", [0.0, 0.25, 0.5, 1.0])
def test_dropout(p):
    x = np.full(N, 3, np.float32)
    y, mask = evaluate(OPERATORS["native_dropout.state"], (STATE, x, p, True))
    share = 1 - p
    assert same(y, np.where(mask, x * np.float32(1 / share if share else 0), np.float32(0)))
    assert abs(mask.mean() - share) <= 5 * math.sqrt(share * p / N)
    assert same(mask, rand((N,)) < np.float32(share))


def test_dropout_is_a_choice_and_leaves_evaluation_alone():
    x = array([nan, math.inf] * 8)
    dropped = call("dropout", STATE, x, 0.5, True)
    assert (dropped == 0).any()
    assert same(call("dropout", STATE, x, 0.5, False), x)
    assert same(call("dropout", STATE, x, 1.0, True), np.zeros(16, np.float32))


def test_bernoulli():
    p = array([0, 1, 0.5, nan] * 50)
    y = call("bernoulli", STATE, p).reshape(50, 4)
    assert y[:, 0].tolist() == [0] * 50
    assert y[:, 1].tolist() == [1] * 50
    assert 0 < y[:, 2].sum() < 50
    assert y[:, 3].tolist() == [0] * 50
    assert same(evaluate(OPERATORS["bernoulli.state_p"], (STATE, p, 0.25)), (rand((200,)) < np.float32(0.25)).astype(np.float32))


def test_exponential():
    e = evaluate(OPERATORS["exponential.state"], (STATE, (N,), 2.0, dt.f64))
    assert (e >= 0).all()
    assert abs(e.mean() - 1 / 2) < 5 * math.sqrt(1 / 4 / N)
    assert abs(e.var() - 1 / 4) < 5 * math.sqrt(8 / 16 / N)


@pytest.mark.parametrize("replacement", [False, True])
def test_multinomial(replacement):
    weights = array([1, 0, 2, 5], "f64")
    rows = N // 4
    first = evaluate(OPERATORS["multinomial.state"], (STATE, np.tile(weights, (rows, 1)), 1, replacement)).ravel()
    share = np.bincount(first, minlength=4) / rows
    assert np.abs(share - weights / 8).max() < 5 * math.sqrt(1 / 4 / rows)
    assert share[1] == 0


def test_multinomial_without_replacement_is_a_permutation():
    drawn_rows = call("multinomial", STATE, np.ones((50, 6), np.float32), 6)
    assert (np.sort(drawn_rows, 1) == np.arange(6)).all()
    assert len({tuple(r) for r in drawn_rows.tolist()}) > 20
    assert call("multinomial", STATE, array([0, 1, 0, 0]), 4).tolist() == [1, 0, 2, 3]


@pytest.mark.parametrize("weight", [-1.0, nan, math.inf])
def test_weights_that_are_no_weights(weight):
    with pytest.raises(ValueError, match=r"a weight must be finite and >= 0, not .* at \[1\]"):
        call("multinomial", STATE, array([1, weight]), 1)


def test_the_state_moves_on():
    assert call("advance", STATE).tolist() == [1234, 8]
    assert call("advance", np.array([-1, (1 << 63) - 1]), 1).tolist() == [-1, -(1 << 63)]


@pytest.mark.parametrize(("name", "args", "text"), [
    ("rand", (array([1, 2]), (2,)), "i64[2] (seed, offset), not f32[2]"),
    ("rand", (np.array([1, 2, 3]), (2,)), "not i64[3]"),
    ("dropout", (STATE, array([1]), 1.5, True), "must lie in [0, 1]"),
    ("dropout", (STATE, np.array([1]), 0.5, True), "needs a float tensor"),
    ("randint", (STATE, 3, 3, (1,)), "low < high"),
    ("uniform", (STATE, (1,), 2.0, 1.0), "from_ <= to"),
    ("normal", (STATE, 0.0, -1.0, (1,)), "std=-1.0"),
    ("randperm", (STATE, -1), "n=-1"),
    ("multinomial", (STATE, array([1, 2]), 3), "allowed: 1..2 without replacement"),
    ("multinomial", (STATE, array([]), 1), "the last not empty"),
    ("exponential", (STATE, (2,), 0.0), "allowed: > 0"),
])  # fmt: skip
def test_wrong_arguments(name, args, text):
    with pytest.raises(UserError) as raised:
        call(name, *args)
    assert text in str(raised.value)


def test_wrong_types():
    with pytest.raises(UserError, match=r"0 \.\. 299 does not fit u8"):
        evaluate(OPERATORS["randint.state"], (STATE, 0, 300, (1,), dt.u8))
    with pytest.raises(UserError, match="allowed: a float type"):
        rand((1,), dtype=dt.i32)
