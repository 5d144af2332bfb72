"""Values, histories, gradients of random in-place programs (writes under no_grad, through detach(), .data too) against torch."""

from typing import Any

import numpy as np
import pytest

import assay
from tests.frontends.in_place_programs import KINDS, drawn

pytestmark = pytest.mark.peers

COMPARED = [k for k in KINDS if k != "hidden"]  # a view made under no_grad is a leaf there, and its writes are refused


def outcome(lib: Any, f: Any, start: list[np.ndarray]) -> list[Any] | None:
    """What is compared; None where the library refuses to go back."""
    leaves = [lib.tensor(a, requires_grad=True) for a in start]
    made = f(lib, *leaves)
    ends = [y for y in made if y.requires_grad]
    rng = np.random.default_rng(0)
    seeds = [lib.tensor(rng.standard_normal(y.shape)) for y in ends]
    try:
        found = lib.autograd.grad(ends, leaves, seeds, materialize_grads=True)
    except RuntimeError:
        return None
    return [[y.requires_grad for y in made], *(y.detach().numpy() for y in (*made, *found))]


def test_random_programs() -> None:
    import torch

    compared = 0
    for seed in range(120):
        f, start = drawn(seed, COMPARED)
        mine, theirs = outcome(assay, f, start), outcome(torch, f, start)
        if mine is None or theirs is None:  # what either has let be destroyed; here, less is
            continue
        compared += 1
        assert mine[0] == theirs[0], seed
        for a, b in zip(mine[1:], theirs[1:], strict=True):
            assert np.allclose(a, b, rtol=1e-12, atol=0), seed
    assert compared > 20
