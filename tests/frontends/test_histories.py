"""Which results have a history and which arguments get a gradient: eager evaluation, compiled code and PyTorch agree."""

import numpy as np
import pytest

import assay
import assay.nn.functional as F

NONE = assay.zeros(0, dtype=assay.int64)

CASES = [  # (function, shapes of its arguments, which results have a history, which arguments get a gradient)
    (lambda x, w: x @ w, [(0, 3), (3, 2)], [True], [True, True]),
    (lambda x, w: (x @ w).sum(), [(0, 3), (3, 2)], [True], [True, True]),
    (lambda x, w: x[:0] @ w, [(4, 3), (3, 2)], [True], [True, True]),
    (lambda x, w: (x[:0] @ w).sum() + x.sum(), [(4, 3), (3, 2)], [True], [True, True]),
    (lambda x: x**0, [(3,)], [True], [True]),
    (lambda x: F.dropout(x, 1.0), [(3,)], [True], [True]),
    (lambda x: x.reshape(1, 3).tril(-5), [(3,)], [True], [True]),
    (lambda x: assay.zeros_like(x), [(3,)], [False], [False]),
    (lambda x: (assay.zeros_like(x), x * 2), [(0, 3)], [False, True], [True]),
    (lambda x: (x.detach() + 1, x * 2), [(0, 3)], [False, True], [True]),
    (lambda x, w: (assay.cat([x, w]), x * 2), [(0, 3), (2, 3)], [True, True], [True, True]),
    (lambda x, w: F.layer_norm(x, (3,), w), [(0, 3), (3,)], [True], [True, True]),
    (lambda x, w: F.conv1d(x, w), [(0, 2, 5), (3, 2, 2)], [True], [True, True]),
    (lambda x, w: w.index_select(0, x.long()), [(0,), (3, 2)], [True], [False, True]),
    (lambda x, w: F.cross_entropy(x @ w, NONE, reduction="sum"), [(0, 3), (3, 2)], [True], [True, True]),
    (lambda x, w: F.embedding(NONE, x) * w, [(5, 3), (3,)], [True], [True, True]),
]


@pytest.mark.parametrize("compiled", [None, {}, {"memory_budget": 0}])
@pytest.mark.parametrize(("f", "shapes", "histories", "gradients"), CASES)
def test_without_elements(f, shapes, histories, gradients, compiled):
    g = f if compiled is None else assay.compile(f, backend="reference", **compiled)
    xs = [assay.ones(*s).requires_grad_() for s in shapes]
    made = g(*xs)
    made = made if isinstance(made, tuple) else (made,)
    assert [y.requires_grad for y in made] == histories
    if any(histories):
        found = assay.autograd.grad([y.sum() for y in made if y.requires_grad], xs, allow_unused=True)
        assert [x is not None for x in found] == gradients
        assert all(d is None or d.shape == x.shape for d, x in zip(found, xs, strict=True))


@pytest.mark.parametrize("compiled", [None, {}, {"memory_budget": 0}])
def test_what_a_result_does_not_depend_on_has_no_gradient(compiled):
    def f(a, b):
        return a.exp() * 2, b.tanh() * 3

    g = f if compiled is None else assay.compile(f, backend="reference", **compiled)
    a, b = assay.ones(2, requires_grad=True), assay.ones(2, requires_grad=True)
    first, second = g(a, b)
    assert assay.autograd.grad(first.sum(), [a, b], retain_graph=True, allow_unused=True)[1] is None
    with pytest.raises(assay.autograd.BackwardError, match="do not depend on input 1"):
        assay.autograd.grad(first.sum(), [a, b], retain_graph=True)
    second.sum().backward(retain_graph=True)
    assert a.grad is None
    np.testing.assert_allclose(b.grad.numpy(), 3 * (1 - np.tanh(1.0) ** 2), rtol=1e-6)
    first.sum().backward(create_graph=True)
    assert a.grad is not None


@pytest.mark.parametrize("compiled", [None, {}, {"memory_budget": 0}])
def test_training_on_an_empty_batch_changes_nothing(compiled):
    w = assay.ones(3, 2, requires_grad=True)

    def loss(x):
        return F.gelu(x @ w).square().sum()

    (loss if compiled is None else assay.compile(loss, backend="reference", **compiled))(assay.ones(0, 3)).backward()
    assert w.grad.tolist() == [[0, 0], [0, 0], [0, 0]]


VIEWS = [
    lambda x: x.t(), lambda x: x, lambda x: x[0],
    lambda x: (x.t(), x * 2), lambda x: [x.t()[1:], x.reshape(-1)], lambda x: x.t().t(),
]  # fmt: skip


@pytest.mark.parametrize("f", VIEWS)
@pytest.mark.parametrize("options", [{}, {"memory_budget": 0, "ahead": True, "max_order": 1}])
def test_compiled_functions_that_return_their_arguments(f, options):
    g = assay.compile(f, backend="reference", **options)
    x = assay.arange(6).float().reshape(2, 3).requires_grad_()
    wanted, found = (assay.autograd.grad([(y * y).sum() for y in flat(h(x))], x)[0] for h in (f, g))
    assert wanted.tolist() == found.tolist()


@pytest.mark.parametrize("f", VIEWS)
def test_compiled_functions_that_return_their_arguments_have_tangents(f):
    g = assay.compile(f, backend="reference")
    x, d = assay.arange(6).float().reshape(2, 3), assay.arange(6).float().reshape(2, 3) + 1
    for a, b in zip(assay.func.jvp(f, (x,), (d,)), assay.func.jvp(g, (x,), (d,)), strict=True):
        assert [y.tolist() for y in flat(a)] == [y.tolist() for y in flat(b)]
    (_, pull), (_, other) = assay.func.vjp(f, x), assay.func.vjp(g, x)
    assert pull(f(d))[0].tolist() == other(f(d))[0].tolist()


def flat(made):
    return list(made) if isinstance(made, tuple | list) else [made]


def test_a_compiled_function_without_results_is_called_with_gradients():
    assert assay.compile(lambda x: None, backend="reference")(assay.ones(2, requires_grad=True)) is None
