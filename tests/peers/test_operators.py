"""Every overload against PyTorch's ATen operator of the same name, on every sample of the table."""

from __future__ import annotations

import numpy as np
import pytest

from assay.core.operators import OPERATORS
from assay.fuzz.against_torch import NOT_COMPARED, SPECIAL, ULPS, compared, disagreements, distance, pointwise

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]


@pytest.mark.parametrize("o", compared(), ids=lambda o: o.name)
def test_every_overload_without_special_values(o):
    assert list(disagreements(o)) == []


@pytest.mark.parametrize("o", pointwise(), ids=lambda o: o.name)
def test_every_pointwise_overload_with_special_values(o):
    assert list(disagreements(o, special=0.3)) == []


def test_the_tables_name_operators():
    names = {o.name for o in OPERATORS.values()} | {o.base for o in OPERATORS.values()}
    assert {*ULPS, *NOT_COMPARED, *SPECIAL} - names == set()


def test_a_difference_is_seen():
    one, next_one = np.float32([1.0, 0.5]), np.float32([1.0, 0.5 + 2**-20])
    assert (distance(one, one), distance(next_one, one)) == (0.0, 8.0)
    assert distance(np.float32([np.inf]), np.float32([3.0])) == np.inf
    assert distance(np.int64([3]), np.int64([4])) == np.inf
