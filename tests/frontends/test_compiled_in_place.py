"""Random programs of views, in-place updates seen and unseen, pure operators: compiled gradients against eager's, bit for bit."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import assay
from assay.autograd import BackwardError, grad
from tests.frontends.in_place_programs import drawn


def outcome(f: Callable[..., Any], start: list[np.ndarray]) -> list[Any] | None:
    """Values, which of them have a history, and gradients; None where eager evaluation refuses to go back."""
    leaves = [assay.tensor(a, requires_grad=True) for a in start]
    made = f(*leaves)
    ends = [y for y in made if y.requires_grad]
    rng = np.random.default_rng(0)
    seeds = [assay.tensor(rng.standard_normal(y.shape)) for y in ends]
    try:
        found = grad(ends, leaves, seeds, materialize_grads=True)
    except BackwardError as error:
        if "changed in place" not in str(error):
            raise
        return None
    return [[y.tolist() for y in made], [y.requires_grad for y in made], [g.tolist() for g in found]]


def check(seed: int) -> bool:
    """Whether a program could be compared."""
    program, start = drawn(seed)
    f = functools.partial(program, assay)
    want = outcome(f, start)
    if want is None:
        return False
    assert outcome(assay.compile(lambda *leaves: f(*leaves), backend="reference"), start) == want, seed
    return True


def test_random_programs() -> None:
    assert sum(map(check, range(30))) > 12


@pytest.mark.full
@pytest.mark.parametrize("start", range(1000, 2500, 100))
def test_many_random_programs(start: int) -> None:
    assert sum(map(check, range(start, start + 100))) > 30
