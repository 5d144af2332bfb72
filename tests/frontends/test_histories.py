"""Which results have a history and which arguments get a gradient: eager evaluation, compiled code and PyTorch agree."""

import functools
from typing import Any

import numpy as np
import pytest

import assay
import assay.nn.functional as F
from assay.frontends.joint_graph import joint_graph
from tests.frontends.histories import CASES, SECOND, TANGENTS, second_gradients, tangents, with_gradients

COMPILED = [None, {}, {"memory_budget": 0}, {"ahead": True, "max_order": 1}]


def compiled(f: Any, options: dict[str, Any] | None) -> Any:
    return f if options is None else assay.compile(f, backend="reference", **options)


def of_shapes(shapes: list[tuple[int, ...]]) -> list[Any]:
    return [assay.ones(*s).requires_grad_() for s in shapes]


@pytest.mark.parametrize("options", COMPILED[:3])
@pytest.mark.parametrize(("f", "shapes", "wanted"), CASES)
def test_histories(f, shapes, wanted, options):
    xs = of_shapes(shapes)
    assert with_gradients(compiled(functools.partial(f, assay), options)(*xs), xs, assay) == wanted


@pytest.mark.parametrize(("f", "shapes", "wanted"), [c for c in CASES if all(min(s) > 1 for s in c[1])][::3])
def test_histories_for_all_sizes(f, shapes, wanted):
    xs = of_shapes(shapes)
    assert with_gradients(compiled(functools.partial(f, assay), {"dynamic": True})(*xs), xs, assay) == wanted


@pytest.mark.parametrize("options", COMPILED[:3])
@pytest.mark.parametrize(("f", "shapes", "wanted"), SECOND)
def test_histories_of_gradients(f, shapes, wanted, options):
    xs = of_shapes(shapes)
    assert second_gradients(compiled(functools.partial(f, assay), options)(*xs), xs, assay) == wanted


@pytest.mark.parametrize("options", COMPILED[:2])
@pytest.mark.parametrize(("f", "shapes", "wanted"), TANGENTS)
def test_tangents(f, shapes, wanted, options):
    xs = [assay.ones(*s) for s in shapes]
    assert tangents(compiled(functools.partial(f, assay), options), xs, assay) == wanted


@pytest.mark.parametrize("options", COMPILED)
@pytest.mark.parametrize("f", [lambda x: x**0, lambda x: F.dropout(x, 1.0), lambda x: x.reshape(1, 3).tril(-5).sum()])
def test_what_comes_to_nothing_has_the_gradient_0(f, options):
    x = assay.tensor([-0.0, np.inf, np.nan], requires_grad=True)
    compiled(f, options)(x).sum().backward()
    assert x.grad.tolist() == [0, 0, 0]


def test_the_joint_graph_has_the_same_gradients():
    made = joint_graph(lambda x, w, v: ((x[:0] @ w).sum() + x.sum(), w.index_select(0, v.long())),
                       *of_shapes([(4, 3), (3, 2), (0,)]))  # fmt: skip
    assert made.wanted == (0, 1)  # and not v
    assert made.given == (0, 1)


class Twice(assay.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


FUNCTIONS = [  # (what calls a Function of the user, for each result which arguments have a gradient)
    (lambda a, b: (Twice.apply(a), Twice.apply(b) ** 0), ["g-", "-g"]),
    (lambda a, b: Twice.apply(a**0)[:0].sum() + b, ["gg"]),
    (lambda a, b: (Twice.apply(a) * b, assay.var_mean(b)[1], assay.zeros_like(Twice.apply(b))), ["gg", "-g", None]),
]


@pytest.mark.parametrize("options", COMPILED)
@pytest.mark.parametrize(("f", "wanted"), FUNCTIONS)
def test_with_functions_of_the_user(f, wanted, options):
    xs = of_shapes([(3,), (3,)])
    assert with_gradients(compiled(f, options)(*xs), xs, assay) == wanted


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
