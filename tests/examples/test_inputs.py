"""The examples' data and weights are what their docstrings say."""

import numpy as np

from examples.digits import data
from examples.digits import model as digits
from examples.transformer import model as transformer


def test_digits_are_exact_sixteenths() -> None:
    images, labels = data.digits()
    assert (images.shape, images.dtype, labels.shape) == ((1797, 1, 8, 8), np.float32, (1797,))
    assert np.array_equal(np.unique(images * 16), np.arange(17))
    assert np.bincount(labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_split_is_fixed_and_disjoint() -> None:
    seen, held_out = data.split(1797)
    assert (len(seen), len(held_out)) == (1437, 360)
    assert sorted([*seen, *held_out]) == list(range(1797))
    assert held_out[:4].tolist() == [838, 1294, 1366, 1391]


def test_digits_weights_are_small_and_finite() -> None:
    assert digits.WEIGHTS.stat().st_size < 200_000
    assert all(np.isfinite(array).all() for array in digits.weights())
    assert sum(array.size for array in digits.weights()) == 13_962


def test_transformer_weights_are_always_the_same() -> None:
    first, again = transformer.weights(), transformer.weights()
    assert [array.shape for array in first] == list(transformer.SHAPES.values())
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))


def test_tokens_are_bytes() -> None:
    assert bytes(transformer.tokens()[0].tolist()) == b"Assay, v.: to test a metal again"
    assert transformer.tokens(3).shape == (3, 32)
