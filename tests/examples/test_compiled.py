"""The examples compile with numerics="exact" to the bits of eager evaluation; their programs are the document's listings."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import assay
from assay.compiler import build
from assay.core.lang import Program, T, axes
from assay.examine import final_program
from assay.semantics.access import Access, accesses
from assay.semantics.compare import bits_equal
from examples import document
from examples.digits import data
from examples.digits import model as digits
from examples.transformer import model as transformer


def floats(*shape: int) -> np.ndarray:
    """f32 normal values, with NaN, infinities, -0 and a subnormal at the front of the last row."""
    values = np.random.Generator(np.random.Philox(6)).standard_normal(shape).astype(np.float32)
    values.reshape(-1, shape[-1])[-1, :5] = [np.nan, np.inf, -np.inf, -0.0, 1e-45]
    return values


ARRAYS = {
    "example_1_1": [floats(64, 128), floats(64, 128)],
    "example_5_1": [floats(33, 64)[:-1], floats(65, 64)[:-1]],
    "example_6_1": [floats(512, 256), floats(256, 512)],
    "example_6_2": [floats(64, 16384)],
    "g1": [floats(128), np.arange(-64, 64)],
    "g2": [floats(128)],
}


def final(name: str) -> Program:
    """What the backend gets of an example."""
    return final_program(getattr(document, name), *map(assay.tensor, ARRAYS[name]))


def reads(t: T) -> list[Access]:
    """The loads of a definition."""
    return [a for a in accesses(t) if a.kind == "read"]


# ------------------------------------------------------------------------------------------------ compiled == eager


def same_bits(function: Callable[..., Any], arrays: list[np.ndarray]) -> np.ndarray:
    """The compiled result, which has eager's bits (-0 differs from +0; every NaN is one)."""
    inputs = [assay.tensor(array) for array in arrays]
    got, want = assay.compile(function)(*inputs).numpy(), function(*inputs).numpy()
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    assert bits_equal(got, want)
    return got


@pytest.mark.cpp
@pytest.mark.parametrize("name", ARRAYS)
def test_document(name: str) -> None:
    same_bits(getattr(document, name), ARRAYS[name])


@pytest.mark.cpp
def test_digits() -> None:
    """All 1,797 images compiled; 60 of them in eager evaluation, alone, have the same bits (`make demo` compares all)."""
    images, labels = data.digits()
    got = assay.compile(digits.model)(images, *digits.weights())
    want = digits.model(*map(assay.tensor, [images[:60], *digits.weights()])).numpy()
    assert bits_equal(got[:60], want)
    hit = got.argmax(1) == labels
    assert int(hit.sum()) == 1790
    assert int(hit[data.split(1797)[1]].sum()) == 355


@pytest.mark.cpp
def test_transformer() -> None:
    same_bits(transformer.block, [transformer.tokens(), *transformer.weights()])


@pytest.mark.cpp
def test_transformer_refuses_a_token_outside() -> None:
    tokens = transformer.tokens()
    tokens[1, 7] = 256
    with pytest.raises(IndexError, match="0 <= 256 < 256"):
        assay.compile(transformer.block)(*[assay.tensor(array) for array in (tokens, *transformer.weights())])


# ------------------------------------------------------------------------------------------------ listings


@pytest.mark.parametrize("name", ARRAYS)
def test_listing(golden: Callable[[str, str], None], name: str) -> None:
    """The final program beside listing 6.2 (example 1.1), listing 6.3 (6.1), listings 6.5 and 6.6 (g1, g2)."""
    golden(f"listings/{name}.txt", assay.show(final(name)))


def test_65_listing_6_2_is_one_buffer() -> None:
    """Checklist 64, 65: add, relu, mul and sum are one definition over [64], which folds 128."""
    p = final("example_1_1")
    (t,) = p.tensors
    assert t.shape == (64,)
    assert t.body.op == "fold"
    assert t.body.attr.n == 128


def test_74_listing_6_3_is_two_strided_reads() -> None:
    """Checklist 74: x at i0 + 256*i1, y at 512*i0 + i1, over (256, 512); the transpose is no node."""
    p = final("example_6_1")
    (t,) = p.tensors
    assert t.shape == (256, 512)
    steps = {r.tensor.name: [r.stride(axis) for axis in axes(t.shape)] for r in reads(t)}
    assert steps == {"primals_1": [1, 256], "primals_2": [512, 1]}


def test_103_g1_keeps_wrap_and_check() -> None:
    """Checklist 103: the message of the document, in the words of `assay prove`."""
    lines = str(assay.prove(document.g1, *map(assay.tensor, ARRAYS["g1"]))).splitlines()
    (kept,) = [line for line in lines if line.startswith("kept")]
    assert "checked at run time (index out of bounds: 0 <= t0 < 128 (index.Tensor, dimension 0; " in kept
    assert "fails for primals_2[0] = 128" in kept


def test_104_g2_has_no_check() -> None:
    """Checklist 104: a direct index with range [0, 127]; no require, no second tensor."""
    p = final("g2")
    assert [t.kind for t in p.tensors] == ["let"]
    (read,) = reads(p.outputs[0])
    assert (read.address.lo, read.address.hi) == (0, 127)
    proof = assay.prove(p)
    assert {o.status for o in proof.obligations} == {"proved"}


@pytest.mark.cpp
def test_g2_has_no_buffer_in_machine_code() -> None:
    """The C++ text takes two arrays, x and the result, and can never fail."""
    text = build(final("g2"), backend="cpp").text  # type: ignore[attr-defined]
    kernels = text[text.index('extern "C"') :]
    assert "P[1]" in kernels
    assert "P[2]" not in kernels
    assert "fail(" not in kernels


CHECKED = [
    pytest.param(lambda f: f, id="eager"),
    pytest.param(assay.compile, id="cpp", marks=pytest.mark.cpp),
]


@pytest.mark.parametrize("compiled", CHECKED)
@pytest.mark.parametrize(("bad", "text"), [
    (128, "0 <= 128 < 128 (index.Tensor, dimension 0; a negative index wraps once) at [100]"),
    (-129, "0 <= -1 < 128 (index.Tensor, dimension 0; a negative index wraps once, here -129) at [100]"),
    (2**63 - 1, "0 <= 9223372036854775807 < 128"),
    (-(2**63), "a negative index wraps once, here -9223372036854775808"),
])  # fmt: skip
def test_g1_refuses_an_index_outside(compiled: Callable[..., Any], bad: int, text: str) -> None:
    idx = np.zeros(128, dtype=np.int64)
    idx[100] = bad
    with pytest.raises(IndexError) as error:
        compiled(document.g1)(assay.tensor(floats(128)), assay.tensor(idx))
    assert text in str(error.value)
