"""Which results have a history, which arguments a gradient, and which results a tangent: as PyTorch says."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from tests.frontends.histories import CASES, SECOND, TANGENTS, second_gradients, tangents, with_gradients

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]


def of_shapes(shapes: list[tuple[int, ...]]) -> list[Any]:
    import torch

    return [torch.ones(*s) for s in shapes]


def leaves(shapes: list[tuple[int, ...]]) -> list[Any]:
    return [x.requires_grad_() for x in of_shapes(shapes)]


@pytest.mark.parametrize(("f", "shapes", "wanted"), CASES)
def test_histories(f: Any, shapes: list[tuple[int, ...]], wanted: list[str | None]) -> None:
    import torch

    xs = leaves(shapes)
    assert with_gradients(f(torch, *xs), xs, torch) == wanted


@pytest.mark.parametrize(("f", "shapes", "wanted"), SECOND)
def test_histories_of_gradients(f: Any, shapes: list[tuple[int, ...]], wanted: str) -> None:
    import torch

    xs = leaves(shapes)
    assert second_gradients(f(torch, *xs), xs, torch) == wanted


@pytest.mark.parametrize(("f", "shapes", "wanted"), TANGENTS)
def test_tangents(f: Any, shapes: list[tuple[int, ...]], wanted: list[bool]) -> None:
    import torch

    assert tangents(functools.partial(f, torch), of_shapes(shapes), torch) == wanted
