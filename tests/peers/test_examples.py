"""The examples in Assay and in PyTorch: the same functions, the same decisions."""

from typing import Any

import numpy as np
import pytest

from examples.digits import data
from examples.digits import model as digits
from examples.transformer import model as transformer

pytestmark = pytest.mark.peers


def in_both(function: str, module: Any, arrays: list[np.ndarray], *, torch_like: str) -> tuple[np.ndarray, np.ndarray]:
    """(Assay's result, PyTorch's) of a function whose first parameter is the library."""
    import torch

    import assay.nn.functional

    libraries = {"assay": (assay, torch), "functional": (assay.nn.functional, torch.nn.functional)}[torch_like]
    run = getattr(module, function)
    ours = run(libraries[0], *[assay.tensor(array) for array in arrays]).numpy()
    theirs = run(libraries[1], *[torch.from_numpy(array) for array in arrays]).numpy()
    assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
    return ours, theirs


def test_digits_recognised_alike() -> None:
    images, labels = data.digits()
    ours, theirs = in_both("network", digits, [images, *digits.weights()], torch_like="functional")
    assert np.array_equal(ours.argmax(1), theirs.argmax(1))
    assert int((ours.argmax(1) == labels).sum()) == 1790


def test_transformer_orders_the_features_alike() -> None:
    ours, theirs = in_both("transformer", transformer, [transformer.tokens(), *transformer.weights()], torch_like="assay")
    assert np.array_equal(ours.argmax(-1), theirs.argmax(-1))
