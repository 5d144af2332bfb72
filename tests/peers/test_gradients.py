"""Gradients of every overload against those of PyTorch's operator of the same name, at ordinary points in f64."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import assay
from assay.autograd import grad
from assay.core.dtypes import DType
from assay.core.operators import Operator
from assay.core.operators.samples import Like
from assay.frontends.derived import active
from assay.fuzz.against_torch import compared, numpy_array, torch_array
from assay.fuzz.differences import likes, point, samples
from tests.frontends.test_every_gradient import leaves
from tests.frontends.test_every_overload import call

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]

WITHIN = 1e-10
"""The largest difference, relative to the largest element (or to 1)."""

DIFFERENT = {
    "hardsigmoid.default": "its 1/6 is rounded to f32 there (4e-9)",
    **dict.fromkeys(("scatter.src", "index_put.default", "index_copy.default"),
                    "of several writes to one element only the last has a gradient here, each of them there"),
    "as_strided_scatter.default": "the gradient of self is that of the elements that were overwritten there, here of the others",
    **dict.fromkeys(("mse_loss.default", "smooth_l1_loss.default", "huber_loss.default"),
                    "the gradient of a mean for a target that is broadcast is divided by the target's own size there"),
}  # fmt: skip

COMPARED = [o for o in compared() if o.base != "detach"]


def there(o: Operator, sample: tuple[Any, ...], tensors: list[Any]) -> list[Any]:
    """The results of PyTorch's operator, with these tensors in the places of the sample's."""
    import torch

    left = iter(tensors)

    def built(v: Any) -> Any:
        if isinstance(v, Like):
            return next(left)
        if isinstance(v, tuple):
            return list(map(built, v))
        return getattr(torch, v.torch) if isinstance(v, DType) else v

    arguments = list(map(built, sample))
    positional = [v for v, p in zip(arguments, o.params, strict=True) if not p.keyword_only]
    keywords = {p.name: v for v, p in zip(arguments, o.params, strict=True) if p.keyword_only}
    out = getattr(getattr(torch.ops.aten, o.base), o.overload)(*positional, **keywords)
    return list(out) if isinstance(out, tuple | list) else [out]


def here(o: Operator, sample: tuple[Any, ...], tensors: list[Any]) -> list[Any]:
    """The same of ours."""
    left = iter(tensors)

    def built(v: Any) -> Any:
        return tuple(map(built, v)) if isinstance(v, tuple) else next(left) if isinstance(v, Like) else v

    out = call(o, built(sample))
    return list(leaves(tuple(out) if isinstance(out, tuple | list) else (out,)))


def theirs(o: Operator, sample: tuple[Any, ...], values: list[np.ndarray], given: tuple[int, ...],
           seeds: list[np.ndarray]) -> list[np.ndarray] | None:  # fmt: skip
    """PyTorch's gradients of the float arguments; None where it refuses the call, or has no derivative."""
    import torch

    tensors = [torch_array(a) for a in values]
    wrt = [t.requires_grad_() for t in tensors if t.is_floating_point()]
    try:
        results = there(o, sample, tensors)
        pairs = [(results[k], torch_array(s)) for k, s in zip(given, seeds, strict=True) if results[k].requires_grad]
        if len(pairs) < len(given):
            return None
        found = torch.autograd.grad([y for y, _ in pairs], wrt, [s for _, s in pairs], allow_unused=True)
    except (RuntimeError, IndexError, NotImplementedError):
        return None
    return [np.zeros(tuple(t.shape)) if g is None else numpy_array(g) for g, t in zip(found, wrt, strict=True)]


def disagreements(o: Operator) -> Iterator[str]:
    """What PyTorch says otherwise, sample by sample."""
    for sample in samples(o)[:6]:
        p = o.program(*sample)
        given = active(o, p, tuple(k for k, t in enumerate(p.inputs) if t.dtype.is_float))
        made = point(p, likes(sample), zlib.crc32(o.name.encode()), (0.15, 0.85)) if given else None
        if made is None:
            continue
        values = list(made.values.values())
        tensors = [assay.tensor(a) for a in values]
        wrt = [x.requires_grad_() for x in tensors if x.dtype.is_float]
        results = here(o, sample, tensors)
        rng = np.random.default_rng(5)
        seeds = [np.asarray(rng.standard_normal(results[k].shape)) for k in given]
        want = theirs(o, sample, values, given, seeds)
        if want is None:
            continue
        found = grad([results[k] for k in given], wrt, list(map(assay.from_numpy, seeds)), allow_unused=True)
        for a, b in zip(found, want, strict=True):
            ours = np.zeros(b.shape) if a is None else a.numpy()
            apart = np.max(np.abs(ours - b), initial=0) / max(1.0, np.max(np.abs(b), initial=0))
            if not apart <= WITHIN:
                yield f"{o.name}{sample}: {apart:.1e} apart\n  here  {ours!r}\n  there {b!r}"


@pytest.mark.parametrize("o", COMPARED, ids=lambda o: o.name)
def test_15_gradients(o: Operator) -> None:
    found = list(disagreements(o))
    assert bool(found) == (o.name in DIFFERENT), found


def test_a_difference_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    o = next(o for o in COMPARED if o.name == "mul.Tensor")
    assert list(disagreements(o)) == []
    right = theirs
    monkeypatch.setitem(globals(), "theirs", lambda *a: [g * (1 + 1e-9) for g in right(*a) or []])
    assert list(disagreements(o)) != []
