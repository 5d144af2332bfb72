"""assay.checkpoint and checkpoint_sequential: the bits without them, less that is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import assay
import assay.nn.functional as F
from assay.autograd import BackwardError, grad
from assay.core.errors import UserError


def leaf(*shape: int, seed: int = 0, dtype: Any = np.float32) -> Any:
    return assay.tensor(np.random.default_rng(seed).standard_normal(shape).astype(dtype)).requires_grad_()


def bits(xs: Any) -> list[bytes]:
    return [x.detach().numpy().tobytes() for x in xs]


def layers(count: int, width: int = 6) -> list[Callable[[Any], Any]]:
    """Functions with weights of their own."""
    weights = [leaf(width, width, seed=k) for k in range(count)]
    made = [lambda x, w=w: F.gelu(x @ w) + x for w in weights]
    for f, w in zip(made, weights, strict=True):
        f.weight = w
    return made


def kept(y: Any) -> int:
    """Bytes of the distinct arrays that the graph behind y keeps."""
    found: dict[int, int] = {}
    todo, seen = [y.grad_fn], set()
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        for s in (getattr(node, "saved", None) or {}).values():
            array = s.value.array
            while array.base is not None and isinstance(array.base, np.ndarray):
                array = array.base
            found[id(array)] = s.value.array.nbytes
        todo += [n for n, _ in node.next_functions]
    return sum(found.values())


def test_45_a_checkpoint_keeps_its_arguments_and_has_the_same_bits() -> None:
    x, w = leaf(4, 6), leaf(6, 6, seed=9)

    def f(x: Any, w: Any) -> Any:
        return F.softmax(F.gelu(x @ w).tanh() @ w, -1)

    plain, part = f(x, w), assay.checkpoint(f, x, w)
    assert bits([plain]) == bits([part])
    assert kept(part) == 4 * (24 + 36) < kept(plain)
    assert bits(grad(plain.sum(), (x, w))) == bits(grad(part.sum(), (x, w)))


def test_a_checkpoint_can_be_differentiated_again() -> None:
    x = leaf(5, dtype=np.float64)

    def f(x: Any) -> Any:
        return (x.sin() * x.exp()).sum()

    found = []
    for y in (f(x), assay.checkpoint(f, x)):
        (g,) = grad(y, x, create_graph=True)
        found.append((g.detach().numpy(), grad((g * g).sum(), x)[0].numpy()))
    assert np.array_equal(found[0][0], found[1][0])
    assert np.allclose(found[0][1], found[1][1], rtol=1e-12)


def test_what_a_checkpoint_finds_elsewhere_has_its_gradient() -> None:
    (f,) = layers(1)
    x = leaf(3, 6)
    y = assay.checkpoint(f, x)
    assert bits(grad(y.sum(), (x, f.weight))) == bits(grad(f(x).sum(), (x, f.weight)))


def test_random_numbers_are_drawn_again_as_they_were() -> None:
    x = leaf(200)

    def f(x: Any) -> Any:
        return F.dropout(x.exp(), 0.5) * x

    assay.manual_seed(1)
    plain = f(x)
    after = assay.rand(3).numpy()
    assay.manual_seed(1)
    part = assay.checkpoint(f, x)
    assert np.array_equal(assay.rand(3).numpy(), after)  # the generator is where it would be
    assert bits([plain]) == bits([part])
    assert bits(grad(plain.sum(), x)) == bits(grad(part.sum(), x))


@pytest.mark.parametrize("segments", [1, 2, 3, 4, 12, None])
def test_45_segments_have_the_same_gradients(segments: int | None) -> None:
    fs, x = layers(12), leaf(4, 6, seed=50)
    wrt = [x, *(f.weight for f in fs)]
    plain = x
    for f in fs:
        plain = f(plain)
    y = assay.checkpoint_sequential(fs, segments, x)
    assert bits([y]) == bits([plain])
    assert bits(grad(y.sum(), wrt)) == bits(grad(plain.sum(), wrt))


def test_45_what_is_kept_falls_with_the_segments_and_rises_again() -> None:
    """States kept by the forward: the first of each segment, and the last segment whole."""
    fs, x = layers(16, width=8), leaf(32, 8, seed=51)
    found = {s: kept(assay.checkpoint_sequential(fs, s, x)) for s in (1, 2, 4, 8, 16, None)}
    assert found[1] > found[2] > found[4] < found[16]
    assert found[None] < found[4]  # growing segments: the last, which is kept whole, is the shortest


@pytest.mark.parametrize("slots", [1, 2, 3, 5, 30])
def test_47_a_chain_with_slots_has_the_same_gradients_and_holds_no_more_states(slots: int) -> None:
    fs, x = layers(11), leaf(4, 6, seed=52)
    wrt = [x, *(f.weight for f in fs)]
    plain = x
    for f in fs:
        plain = f(plain)
    y = assay.checkpoint_sequential(fs, None, x, slots=slots)
    chain = y.grad_fn.ctx.chain
    assert bits([y]) == bits([plain])
    assert bits(grad(y.sum(), wrt)) == bits(grad(plain.sum(), wrt))
    assert chain.most <= slots


def test_a_weight_of_several_steps_has_the_sum_in_eagers_order() -> None:
    w, x = leaf(6, 6, seed=1), leaf(3, 6)
    fs = [lambda x: (x @ w).tanh()] * 6
    plain = x
    for f in fs:
        plain = f(plain)
    y = assay.checkpoint_sequential(fs, None, x, slots=2)
    wanted = bits(grad(plain.sum(), (x, w)))
    assert bits(grad(y.sum(), (x, w), retain_graph=True)) == wanted
    with pytest.raises(BackwardError, match="its states were let go"):
        y.sum().backward()
    assay.checkpoint_sequential(fs, None, x, slots=2).sum().backward()
    assert bits([x.grad, w.grad]) == wanted


def test_what_a_chain_with_slots_cannot_do_it_says() -> None:
    x = leaf(3)
    with pytest.raises(UserError, match="choose one of the two"):
        assay.checkpoint_sequential([assay.exp], 1, x, slots=2)
    with pytest.raises(assay.Unsupported, match="must give one tensor, change none"):
        assay.checkpoint_sequential([lambda x: F.dropout(x, 0.5)], None, x, slots=2)
    y = assay.checkpoint_sequential([assay.exp, assay.sin], None, x, slots=2)
    with pytest.raises(assay.Unsupported, match="not differentiated again"):
        grad(y.sum(), x, create_graph=True)


def test_nothing_to_do_and_wrong_arguments() -> None:
    x = leaf(2)
    assert assay.checkpoint_sequential([], 3, x) is x
    with pytest.raises(UserError, match=r"segments=4 for a chain of 2 steps"):
        assay.checkpoint_sequential([assay.exp, assay.sin], 4, x)
    with pytest.raises(UserError, match="needs a function, not int"):
        assay.checkpoint(3, x)


def test_inside_a_compiled_function_it_is_the_function() -> None:
    x = leaf(4, 6)
    (f,) = layers(1)
    g = assay.compile(lambda x: assay.checkpoint(f, x).sum(), backend="reference")
    assert bits(grad(g(x), (x, f.weight))) == bits(grad(f(x).sum(), (x, f.weight)))
