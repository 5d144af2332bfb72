"""The laws of the rules: each pullback made of named operators has the bits of the derived one, on every sample."""

import zlib
from typing import Any

import numpy as np
import pytest

import assay
from assay.autograd import grad
from assay.core.operators import OPERATORS
from assay.frontends import rules
from assay.frontends.autograd import RuleNode
from assay.frontends.rules import RULES
from assay.semantics.compare import bits_equal
from tests.frontends.test_every_gradient import leaves
from tests.frontends.test_every_overload import call, tensors
from tests.frontends.test_func import work_of


def gradients(name: str, sample: tuple[Any, ...]) -> tuple[Any, list[np.ndarray]] | None:
    """(the node of the call, the gradients of its float arguments); None: none has one."""
    o = OPERATORS[name]
    args = tensors(sample, np.random.default_rng(zlib.crc32(name.encode())))
    wrt = [x.requires_grad_() for x in leaves(args) if x.dtype.is_float]
    out = call(o, args)
    if not out.requires_grad:
        return None
    seed = np.random.default_rng(1).standard_normal(out.shape).astype(out.dtype.numpy)
    return out.grad_fn, [g.numpy() for g in grad(out, wrt, assay.from_numpy(np.asarray(seed)))]


@pytest.mark.parametrize("name", RULES)
def test_a_rule_has_the_bits_of_the_derived_pullback(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = list(OPERATORS[name].samples())
    ruled = [gradients(name, tuple(s)) for s in samples]
    monkeypatch.setattr(rules, "RULES", {})
    derived = [gradients(name, tuple(s)) for s in samples]
    used = 0
    for s, a, b in zip(samples, ruled, derived, strict=True):
        assert (a is None) == (b is None)
        if a is not None and b is not None:
            used += type(a[0]) is RuleNode
            assert type(b[0]) is not RuleNode
            assert all(bits_equal(x, y) for x, y in zip(a[1], b[1], strict=True)), (name, s)
    assert used


def test_14_the_gradient_of_a_sum_is_a_view() -> None:
    x = assay.ones(3, 4, requires_grad=True)
    seen: list[Any] = []
    h = x * 1.0
    h.register_hook(lambda g: seen.append(g.stride()))
    h.sum().backward()
    assert seen == [(0, 0)]


def test_gradients_share_no_memory_with_each_other_or_with_what_was_passed() -> None:
    x, y = assay.ones(3, requires_grad=True), assay.ones(3, requires_grad=True)
    seed = assay.ones(3)
    a, b = grad((x + 1.0) + (y + 2.0), [x, y], seed)
    (c,) = grad(x.reshape(3, 1) + 0.0, [x], assay.ones(3, 1))
    (d,) = grad(x + 1.0, [x], seed)
    for g in (a, b, c, d):
        g.add_(1.0)
        assert g.tolist() == [2.0, 2.0, 2.0]
    assert seed.tolist() == [1.0, 1.0, 1.0]


def test_9_the_backward_of_a_product_is_two_products_of_its_size() -> None:
    x, w = assay.ones(4, 5, requires_grad=True), assay.ones(5, 6, requires_grad=True)
    node = (x @ w).grad_fn
    assert type(node) is RuleNode
    assert sorted(node.saved) == ["other", "self"]
    assert node.op.name == "matmul.default"
    seed = assay.ones(4, 6)
    forward = work_of(lambda: x @ w)
    assert forward == 2 * 4 * 5 * 6
    assert work_of(lambda: grad(x @ w, [x, w], seed)) == 3 * forward
