"""Losses: literals, laws, special values; and their formulas in f64 on every sample without special values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from assay.core.errors import UserError
from assay.core.operators import OPERATORS
from assay.core.operators.samples import Like, draw
from tests.core.operators.calling import array, call, evaluate, same

inf, nan = math.inf, math.nan
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
NONE, MEAN, SUM = 0, 1, 2
ROUNDINGS = {2: 2.0**-8, 4: 2.0**-24, 8: 2.0**-53}  # the unit roundoff, of bf16 for half types


def reduced(terms: Any, how: int, count: Any = None) -> Any:
    return terms if how == NONE else terms.sum() / (terms.size if count is None else count) if how == MEAN else terms.sum()


def pointwise(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, y, how, *rest, **_: reduced(f(*np.broadcast_arrays(x, y), *rest), how)


def huber(x: Any, y: Any, delta: float) -> Any:
    d = np.abs(x - y)
    return np.where(d <= delta, d * d / 2, delta * (d - delta / 2))


def softplus(x: Any) -> Any:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def xlogy(x: Any, y: Any) -> Any:
    return np.where(x == 0, 0, x * np.log(np.where(x == 0, 1, y)))


def poisson(x: Any, y: Any, log_input: Any, full: Any, eps: float, how: int) -> Any:
    terms = np.exp(x) - y * x if log_input else x - y * np.log(x + eps)
    more = np.where(y > 1, xlogy(y, y) - y + 0.5 * np.log(np.where(y > 1, 2 * np.pi * y, 1)), 0)
    return reduced(terms + more if full else terms, how)


def kl(x: Any, y: Any, log_target: Any) -> Any:
    return np.exp(y) * (y - x) if log_target else xlogy(y, y) - y * x


def bce(p: Any, y: Any, w: Any, how: int) -> Any:
    terms = -(y * np.maximum(np.log(p), -100) + (1 - y) * np.maximum(np.log(1 - p), -100))
    return reduced(terms * (1 if w is None else w), how)


def bce_logits(x: Any, y: Any, w: Any, v: Any, how: int) -> Any:
    terms = (1 - y) * softplus(x) + (1 if v is None else v) * y * softplus(-x)
    return reduced(terms * (1 if w is None else w), how)


def classes(x: Any) -> int:
    return 0 if x.ndim == 1 else 1


def nll(x: Any, t: Any, w: Any, how: int, ignore: int) -> Any:
    d, kept = classes(x), t != ignore
    picked = np.take_along_axis(x, np.expand_dims(np.where(kept, t, 0), d), d).squeeze(d)
    weights = np.where(kept, 1.0 if w is None else w[np.where(kept, t, 0)], 0.0)
    return reduced(-weights * picked, how, weights.sum()), weights


def log_softmax(x: Any) -> Any:
    d = classes(x)
    z = x - x.max(d, keepdims=True, initial=-inf)
    return z - np.log(np.exp(z).sum(d, keepdims=True))


def cross_entropy(x: Any, t: Any, w: Any, how: int, ignore: int, smoothing: float) -> Any:
    d, logs = classes(x), log_softmax(x)
    n = x.shape[d]
    weights = np.ones(n) if w is None else w
    weights = weights.reshape([n if k == d else 1 for k in range(x.ndim)])
    if t.dtype.kind != "i":
        return reduced(-(weights * (t * (1 - smoothing) + smoothing / n) * logs).sum(d), how, x.size / n)
    plain, kept = nll(logs, t, w, NONE, ignore)
    even = np.where(t == ignore, 0, -(weights * logs).sum(d))
    return reduced((1 - smoothing) * plain + smoothing / n * even, how, kept.sum())


REFERENCES: dict[str, Callable[..., Any]] = {
    "mse_loss.default": pointwise(lambda x, y: (x - y) ** 2),
    "l1_loss.default": pointwise(lambda x, y: np.abs(x - y)),
    "smooth_l1_loss.default": pointwise(lambda x, y, b: huber(x, y, b) / b),
    "huber_loss.default": pointwise(lambda x, y, d: huber(x, y, d)),
    "kl_div.default": pointwise(kl),
    "soft_margin_loss.default": pointwise(lambda x, y: np.log1p(np.exp(-y * x))),
    "hinge_embedding_loss.default": lambda x, y, m, how: reduced(
        np.where(y == 1, 0, np.maximum(0, m - x)) + np.where(y == -1, 0, x), how),
    "margin_ranking_loss.default": lambda a, b, t, m, how: reduced(np.maximum(0, -t * (a - b) + m), how),
    "poisson_nll_loss.default": poisson,
    "binary_cross_entropy.default": bce,
    "binary_cross_entropy_with_logits.default": bce_logits,
    **dict.fromkeys(("nll_loss.default", "nll_loss2d.default", "nll_loss_nd.default"), lambda *a: nll(*a)[0]),
    "nll_loss_forward.default": lambda *a: (nll(*a)[0], nll(*a)[1].sum() if a[3] != NONE else 0.0),
    "cross_entropy_loss.default": cross_entropy,
    "cosine_similarity.default": lambda x, y, d, eps: (x * y).sum(d)
        / (np.maximum(np.sqrt((x * x).sum(d)), eps) * np.maximum(np.sqrt((y * y).sum(d)), eps)),
}  # fmt: skip


def test_every_overload_of_the_family_has_a_formula():
    assert {o.name for o in OPERATORS.values() if o.family == "losses" and not o.inplace_of} == {*REFERENCES}


@pytest.mark.parametrize("name", REFERENCES)
def test_every_sample_is_within_its_roundings(name):
    """Each value has fewer than 64 operations, none of which magnifies an error: 64 roundings of the largest term bound it."""
    rng = np.random.default_rng(3)
    for sample in OPERATORS[name].samples():
        arguments = tuple(draw(a, rng, special=0) if isinstance(a, Like) else a for a in sample)
        wide = [np.asarray(a, np.float64) if isinstance(a, np.ndarray) and a.dtype.kind != "i" else a for a in arguments]
        actual, expected = evaluate(OPERATORS[name], arguments), REFERENCES[name](*wide)
        for a, e in zip(actual, expected, strict=True) if isinstance(actual, tuple) else [(actual, expected)]:
            assert (a.dtype, a.shape) == (arguments[0].dtype, np.shape(e))
            scale = 1 + np.abs(np.nan_to_num(e)).max(initial=0)
            assert np.array_equal(np.isnan(a.astype(float)), np.isnan(e)), arguments
            assert (np.abs(np.nan_to_num(a.astype(float) - e)) <= 64 * ROUNDINGS[a.itemsize] * scale).all(), arguments


def at(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


LOGS = array([[-1, -2, -4], [-8, -16, -32]])


@pytest.mark.parametrize(("name", "args", "expected"), [
    ("mse_loss", (array([1, 3]), array([0, 0])), 5),
    ("mse_loss", (array([]), array([])), nan),
    ("mse_loss", (array([]), array([]), SUM), 0),
    ("mse_loss", (array([inf, nan]), array([inf, 0]), NONE), [nan, nan]),
    ("l1_loss", (array([-0.0]), array([0.0]), NONE), [0.0]),
    ("smooth_l1_loss", (array([0.25, 2]), array([0, 0]), NONE, 0.5), [0.0625, 1.75]),
    ("smooth_l1_loss", (array([0.25, 2]), array([0, 0]), NONE, 0.0), [0.25, 2]),
    ("huber_loss", (array([0.25, 2]), array([0, 0]), NONE, 0.5), [0.03125, 0.875]),
    ("kl_div", (array([3, -1]), array([0, 1]), NONE), [0, 1]),
    ("kl_div", (array([nan, -inf]), array([0, 0]), NONE), [nan, nan]),
    ("soft_margin_loss", (array([0, inf, nan]), array([1, 1, 1]), NONE), [np.float32(math.log(2)), 0, nan]),
    ("hinge_embedding_loss", (array([0.25, 0.25, 3]), array([1, -1, -1]), 1.0, NONE), [0.25, 0.75, 0]),
    ("margin_ranking_loss", (array([1, 1]), array([3, 3]), array([1, -1]), 0.5, NONE), [2.5, 0]),
    ("poisson_nll_loss", (array([0, 0]), array([1, 1]), True, False, 1e-8, NONE), [1, 1]),
    ("binary_cross_entropy", (array([0, 1]), array([0, 1]), None, NONE), [0, -0.0]),
    ("binary_cross_entropy", (array([0, 1]), array([1, 0]), None, NONE), [100, 100]),
    ("binary_cross_entropy_with_logits", (array([1000, -1000]), array([0, 0]), None, None, NONE), [1000, 0]),
    ("nll_loss", (LOGS, at(0, 2)), 16.5),
    ("nll_loss", (LOGS, at(0, 2), None, SUM), 33),
    ("nll_loss", (LOGS, at(0, -100)), 1),
    ("nll_loss", (LOGS, at(-100, -100)), nan),
    ("nll_loss", (LOGS, at(0, 2), array([1, 7, 3]), NONE), [1, 96]),
    ("nll_loss", (LOGS, at(0, 2), array([1, 7, 3])), 97 / 4),
    ("nll_loss", (array([[nan, -1]]), at(1)), 1),
    ("cross_entropy_loss", (array([[0, 0]]), at(0)), np.float32(math.log(2))),
    ("cross_entropy_loss", (array([[1000, 0]]), at(1)), 1000),
    ("cross_entropy_loss", (array([[-inf, 0]]), at(0)), inf),
    ("cross_entropy_loss", (array([[inf, 0]]), at(0)), nan),
    ("cosine_similarity", (array([3, 4]), array([3, 4]), 0), 1),
    ("cosine_similarity", (array([0, 0]), array([1, 0]), 0), 0),
])  # fmt: skip
def test_values(name, args, expected):
    assert same(call(name, *args), array(expected))


def test_the_sum_is_a_left_fold():
    assert call("l1_loss", array([1e8, 1, 1]), array([0, 0, 0]), SUM).item() == 1e8
    assert call("l1_loss", array([1, 1, 1e8]), array([0, 0, 0]), SUM).item() == 1e8 + 0  # 2 + 1e8 rounds down
    assert call("nll_loss", array([[1e8], [-1], [-1e8]]), at(0, 0, 0), None, SUM).item() == 0


def test_half_types_round_once():
    x = array([300, 300], "f16")  # 300 * 300 is beyond f16, the difference of the means is not
    assert call("mse_loss", x, array([299, 298], "f16")).tolist() == 2.5
    assert call("mse_loss", array([2048, 1], "bf16"), array([0, 0], "bf16"), SUM).dtype == ml_dtypes.bfloat16


@pytest.mark.parametrize(("name", "args", "text"), [
    ("nll_loss", (LOGS, at(0, 3)), "0 <= 3 < 3 (nll_loss, a class of target) at [1]"),
    ("nll_loss", (LOGS, at(-1, 0)), "0 <= -1 < 3 (nll_loss, a class of target) at [0]"),
    ("cross_entropy_loss", (LOGS, at(0, -2)), "0 <= -2 < 3 (cross_entropy_loss, a class of target) at [1]"),
    ("cross_entropy_loss", (LOGS[:, :1], at(0, 1)), "0 <= 1 < 1"),
])  # fmt: skip
def test_a_class_outside_is_an_index_error(name, args, text):
    with pytest.raises(IndexError) as error:
        call(name, *args)
    assert f"index out of bounds: {text}" in str(error.value)


@pytest.mark.parametrize(("p", "shown"), [(1.5, "1.5"), (-0.5, "-0.5"), (nan, "nan")])
def test_a_probability_outside_is_a_value_error(p, shown):
    with pytest.raises(ValueError, match=rf"must lie in \[0, 1\], not {shown} at \[1\]"):
        call("binary_cross_entropy", array([0, p]), array([0, 0]))


@pytest.mark.parametrize(("name", "args", "text"), [
    ("mse_loss", (array([1]), array([1]), 3), "allowed: 0 (none), 1 (mean), 2 (sum)"),
    ("mse_loss", (at(1), at(1)), "needs float tensors"),
    ("smooth_l1_loss", (array([1]), array([1]), 1, -1.0), "allowed: >= 0"),
    ("huber_loss", (array([1]), array([1]), 1, 0.0), "allowed: > 0"),
    ("nll_loss", (LOGS, at(0)), "target i64[1] for scores of shape [2, 3]; needs classes (i64) of shape [2]"),
    ("nll_loss", (LOGS, at(0, 0), array([1])), "one number a class, [3]"),
    ("cross_entropy_loss", (LOGS, at(0, 0), None, 1, -100, 2.0), "allowed: 0..1"),
    ("cross_entropy_loss", (array(1), at()), "needs an axis of classes"),
])  # fmt: skip
def test_wrong_arguments(name, args, text):
    with pytest.raises(UserError) as raised:
        call(name, *args)
    assert text in str(raised.value)
