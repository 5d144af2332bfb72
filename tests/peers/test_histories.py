"""Which results have a history, which arguments a gradient, and which results a tangent: as PyTorch says."""

from __future__ import annotations

import functools
import zlib
from typing import Any

import numpy as np
import pytest

import assay
from assay.core.errors import AssayError
from assay.core.operators import Operator
from assay.core.operators.samples import draw
from assay.fuzz.against_torch import compared, torch_array
from assay.fuzz.differences import in_f64, likes
from tests.frontends.histories import CASES, SECOND, TANGENTS, second_gradients, tangents, with_gradients
from tests.peers.test_gradients import here, there

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


DIFFERENT = {
    **dict.fromkeys(("fill.Scalar", "fill.Tensor", "zero.default"), "self has the gradient 0 there, none here"),
    **dict.fromkeys(("native_layer_norm.default", "native_group_norm.default"), "means and deviations are constants there"),
    "hinge_embedding_loss.default": "its target, which is read through comparisons only, has no gradient there",
    **dict.fromkeys(("linalg_vector_norm.default", "norm.Scalar"), "a norm of order 0 has no gradient there, though a history"),
}


def both(o: Operator, sample: tuple[Any, ...]) -> list[list[str | None]]:
    """What has gradients, here and there; [] where one of them refuses the call."""
    import torch

    rng = np.random.default_rng(zlib.crc32(o.name.encode()))
    values = [np.asarray(draw(x, rng)) for x in likes(sample)]
    found: list[list[str | None]] = []
    for lib, made, of in ((assay, here, assay.tensor), (torch, there, torch_array)):
        xs: list[Any] = [of(a) for a in values]
        wrt = [x.requires_grad_() for x, a in zip(xs, values, strict=True) if a.dtype.kind == "f"]
        try:
            found.append(with_gradients(made(o, sample, xs), wrt, lib) if wrt else [])
        except (AssayError, RuntimeError, IndexError, NotImplementedError, ZeroDivisionError):
            return []
    return found


@pytest.mark.parametrize("o", compared(), ids=lambda o: o.name)
def test_every_overload(o: Operator) -> None:
    """On every sample in f64, those without elements too."""
    samples = {repr(s): s for s in map(in_f64, o.samples())}
    apart = {text: pair for text, s in samples.items() if (pair := both(o, s)) and pair[0] != pair[1]}
    assert bool(apart) == (o.name in DIFFERENT), apart
