"""Compiled training: eager's losses, gradients and weights bit for bit, within budgets; example 5.1's backward kernel."""

from __future__ import annotations

import re

import numpy as np
import pytest

import assay
from assay.backends.cpp import compile_program
from assay.semantics.compare import bits_equal
from assay.transforms.pipeline import optimise
from examples.digits import compiled_training as train
from examples.digits import data
from examples.document import example_5_1
from tests.kernels.launches import ulps_of_gelu_backward


@pytest.mark.cpp
def test_digits_follow_eager_bit_for_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two steps of 16 images: the second is at weights that the first has changed."""
    monkeypatch.setattr(train, "BATCH", 16)
    lines: list[str] = []
    assert train.check(2, show=lines.append)
    assert [line.endswith("the same bits") for line in lines[:2]] == [True, True]
    assert lines[0].split()[3] != lines[1].split()[3]


def test_a_loss_that_differs_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """One compiled loss that is scaled by 1 + 2^-20."""
    monkeypatch.setattr(train, "BATCH", 2)
    monkeypatch.setattr(assay, "compile", lambda f, **_: _Scaled(f))
    lines: list[str] = []
    assert not train.check(1, show=lines.append)
    assert lines[0].endswith("DIFFERS")


class _Scaled:
    def __init__(self, f: object) -> None:
        self.f = f
        self.real = _COMPILE(f, backend="reference")
        self.derivatives = self.real.derivatives

    def __call__(self, *args: object) -> object:
        made = self.real(*args)
        return made if made is None else made * (1 + 2.0**-20)


_COMPILE = assay.compile


def test_batches_show_every_image_once_an_epoch() -> None:
    images, labels = data.digits()
    seen = [int(n) for _, _, b in train.batches(images[:100], labels[:100], 1) for n in b.numpy()]
    assert sorted(seen) == sorted(labels[:100].tolist())


# ------------------------------------------------------------------------------------------------ example 5.1


@pytest.mark.cpp
def test_30_31_the_backward_kernel_of_example_5_1_reads_h_and_a_scalar_once_and_writes_once() -> None:
    """Listing 5.3: h and the scalar are loaded, erf is computed again, one store; nothing else touches memory."""
    random = np.random.default_rng(5)
    x = assay.tensor(random.standard_normal((32, 64)).astype(np.float32))
    w = assay.tensor(random.standard_normal((64, 64)).astype(np.float32)).requires_grad_()
    f = assay.compile(example_5_1)
    (g,) = assay.autograd.grad(f(x, w), [w])
    (wanted,) = assay.autograd.grad(example_5_1(x, w), [w])
    assert bits_equal(g.numpy(), wanted.numpy())

    back = f.derivatives.partitions[0][1].split.backward
    assert [t.shape for t in back.inputs] == [(32, 64), (32, 64), ()]  # h, x, the cotangent
    text = compile_program(optimise(back)[-1].program).text
    kernel = text[text.index("void k_0(") : text.index("void k_1(")]
    loads = re.findall(r"ldF\(p(\d)\+(\([^;]*)\);", kernel)
    stores = re.findall(r"stF\(o0\+(\([^;]*),t\d+\);", kernel)
    assert {p for p, _ in loads} == {"0"}  # h only
    assert sorted(at for _, at in loads) == sorted(stores)  # each element where it is written, in lanes
    assert len(set(stores)) == len(stores)
    assert re.findall(r"p\d\[[^]]*\]", kernel) == ["p2[0]"]  # the scalar
    assert kernel.index("p2[0]") < kernel.index("for(")  # outside of the loop
    assert kernel.count("=erf_f32v(") == kernel.count("=exp_f32v(") == len(stores)
    assert kernel.count("for(") == 1


@pytest.mark.cpp
def test_31_the_backward_of_gelu_is_within_two_ulps() -> None:
    """Listing 5.3's arithmetic, compiled, against f64."""
    h = np.linspace(-6, 6, 1001, dtype=np.float32)
    f = assay.compile(lambda g, h: assay.ops.gelu_backward(g.expand(h.shape[0]), h))
    got = f(assay.tensor(0.75), assay.from_numpy(h)).numpy()
    assert ulps_of_gelu_backward(got, h, 0.75) <= 2
