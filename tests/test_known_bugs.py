"""Wrong results that other compilers have given, each with its right value."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import assay

EVALUATIONS = [
    pytest.param(lambda f: f, id="eager"),
    pytest.param(lambda f: assay.compile(f, backend="reference"), id="reference"),
    pytest.param(assay.compile, id="cpp", marks=pytest.mark.cpp),
]


@pytest.mark.parametrize("compiled", EVALUATIONS)
@pytest.mark.parametrize("n", [4, 100_000])
class TestReadsPrecedeWrites:
    """B41 (pytorch#101950, #197829, #162410, ...): in-place updates from an overlapping view of the same memory."""

    def test_shift(self, compiled: Callable[..., Any], n: int) -> None:
        def shift(x: Any) -> None:
            x[1:] = x[:-1]

        def shift_a_clone(x: Any) -> None:
            x[1:] = x[:-1].clone()

        for f in (shift, shift_a_clone):
            x = assay.arange(n).float()
            compiled(f)(x)
            assert np.array_equal(x.numpy(), np.maximum(np.arange(n) - 1, 0))

    def test_reverse(self, compiled: Callable[..., Any], n: int) -> None:
        x = assay.arange(n).float()
        compiled(lambda x: x.copy_(x.flip(0)))(x)
        assert np.array_equal(x.numpy(), np.arange(n)[::-1])

    def test_add_reversed(self, compiled: Callable[..., Any], n: int) -> None:
        def f(x: Any) -> None:
            x += x.flip(0)

        x = assay.arange(n).float()
        compiled(f)(x)
        assert (x.numpy() == n - 1).all()

    def test_transpose(self, compiled: Callable[..., Any], n: int) -> None:
        m = min(n, 300)
        x = assay.arange(m * m).float().reshape(m, m)
        compiled(lambda x: x.copy_(x.t()))(x)
        assert np.array_equal(x.numpy(), np.arange(m * m, dtype=np.float32).reshape(m, m).T)


@pytest.mark.parametrize("compiled", EVALUATIONS)
def test_repeat_interleave_reversed(compiled: Callable[..., Any]) -> None:
    """B41: the composed index must not go negative."""
    assert compiled(lambda x: x.repeat_interleave(2).flip(0))(assay.tensor([1, 2, 3])).tolist() == [3, 3, 2, 2, 1, 1]


@pytest.mark.parametrize("compiled", EVALUATIONS)
@pytest.mark.parametrize("rows", [1, 2])
def test_gather_reads_what_scatter_wrote(compiled: Callable[..., Any], rows: int) -> None:
    """B43 (pytorch#191571): scatter_add into an axis of size 1, then a gather of it."""

    def f(x: Any, at: Any) -> Any:
        sums = assay.zeros(rows, 4).scatter_add(0, at.unsqueeze(1).expand(8, 4), x)
        return sums.index_select(0, at)

    out = compiled(f)(assay.ones(8, 4), assay.zeros(8, dtype=assay.int64))
    assert out.tolist() == [[8.0] * 4] * 8
