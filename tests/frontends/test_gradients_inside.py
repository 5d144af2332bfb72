"""backward() and autograd.grad inside of a compiled function: its gradients are part of the program, with eager's bits."""

from collections.abc import Callable
from typing import Any

import pytest

import assay
import assay.nn.functional as F
from assay.autograd import BackwardError, Function, grad
from assay.core.errors import Unsupported

t = assay.tensor


def loss(x: Any, y: Any, w: Any, b: Any) -> Any:
    return (F.gelu(x @ w + b).tanh() - y).square().sum()


def train(x: Any, y: Any, w: Any, b: Any) -> Any:
    value = loss(x, y, w, b)
    value.backward()
    with assay.no_grad():
        for p in (w, b):
            p -= 0.1 * p.grad
            p.grad = None
    return value.detach()


def accumulate(x: Any, y: Any, w: Any, b: Any) -> None:
    loss(x, y, w, b).backward()


def twice(x: Any, y: Any, w: Any, b: Any) -> Any:
    value = loss(x, y, w, b)
    value.backward(retain_graph=True, inputs=[w])
    value.backward()
    return w.grad * 2


def gradients(x: Any, y: Any, w: Any, b: Any) -> Any:
    h = x @ w
    return grad((h.sin() * h + b).sum(), [h, b, w])


def penalty(x: Any, y: Any, w: Any, b: Any) -> Any:
    """Differentiated again, at the call too."""
    value = loss(x, y, w, b)
    (g,) = grad(value, w, create_graph=True)
    return value + (g * g).sum()


def with_dropout(x: Any, y: Any, w: Any, b: Any) -> Any:
    h = F.dropout(x @ w, 0.5)
    h.retain_grad()
    (h * h).sum().backward()
    return h.grad


def its_own_leaf(x: Any, y: Any, w: Any, b: Any) -> Any:
    v = assay.ones(4, requires_grad=True)
    (x * v).exp().sum().backward()
    return v.grad


class Twice(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 5  # on purpose


def a_function_of_the_user(x: Any, y: Any, w: Any, b: Any) -> Any:
    (Twice.apply(w) * w.detach()).sum().backward()


def inside_of_func(x: Any, y: Any, w: Any, b: Any) -> Any:
    h = assay.func.grad(lambda w: loss(x, y, w, b))(w)
    return grad((h * h).sum(), w)[0]


PROGRAMS: list[Callable[..., Any]] = [
    train, accumulate, twice, gradients, penalty, with_dropout, its_own_leaf, a_function_of_the_user, inside_of_func,
]  # fmt: skip


def run(f: Callable[..., Any], *, calls: int = 3) -> list[Any]:
    """Results, parameters and gradients of some calls in a row."""
    assay.manual_seed(0)
    x, y = assay.randn(5, 4), assay.randn(5, 3)
    w, b = assay.randn(4, 3, requires_grad=True), assay.randn(3, requires_grad=True)
    found: list[Any] = []
    for _ in range(calls):
        made = f(x, y, w, b)
        if isinstance(made, assay.Tensor) and made.requires_grad:
            made.sum().backward()
        results = made if isinstance(made, tuple) else (made,)
        found.append([r if r is None else r.tolist() for r in (*results, w, b, w.grad, b.grad)])
        assert w.is_leaf
        assert b.is_leaf
    return found


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_the_bits_are_eagers(f: Callable[..., Any]) -> None:
    assert run(assay.compile(f, backend="reference")) == run(f)


@pytest.mark.cpp
@pytest.mark.parametrize("f", [train, penalty], ids=lambda f: f.__name__)
def test_compiled_by_g(f: Callable[..., Any]) -> None:
    assert run(assay.compile(f)) == run(f)


def test_parameters_that_the_function_finds_elsewhere() -> None:
    def made() -> tuple[Any, Any]:
        assay.manual_seed(1)
        x, w = assay.randn(5, 4), assay.randn(4, 4, requires_grad=True)

        def step() -> Any:
            value = (x @ w).sin().sum()
            value.backward()
            with assay.no_grad():
                w.sub_(0.1 * w.grad)
            return value.detach()

        return step, w

    results: list[Any] = []
    for compiled in (False, True):
        step, w = made()
        g = assay.compile(step, backend="reference") if compiled else step
        results.append([])
        for k in range(4):
            if k == 2:
                w.grad = None
            results[-1].append((g().tolist(), w.tolist(), w.grad.tolist()))
    assert results[0] == results[1]
    assert g.cache_info().entries == 2  # with and without a gradient that is there


def test_each_state_of_the_arguments_has_an_entry() -> None:
    g = assay.compile(lambda x, w: grad((x * w).sum(), [v for v in (x, w) if v.requires_grad]), backend="reference")
    x, w = t([2.0]), t([3.0], requires_grad=True)
    assert [d.tolist() for d in g(x, w)] == [[2.0]]
    assert [d.tolist() for d in g(x.clone().requires_grad_(), w)] == [[3.0], [2.0]]
    assert [d.tolist() for d in g(x, w)] == [[2.0]]
    assert g.cache_info().entries == 2
    with assay.no_grad(), pytest.raises(BackwardError, match=r"input 0, f32\[1\], does not require a gradient|history"):
        g(x, w)


def test_a_result_that_was_gone_through_has_no_history() -> None:
    def f(w: Any) -> Any:
        y = (w * w).sum()
        y.backward()
        return y, (w * 3).sum()

    w = t([2.0], requires_grad=True)
    y, z = assay.compile(f, backend="reference")(w)
    assert not y.requires_grad
    z.backward()
    assert w.grad.tolist() == [4.0 + 3.0]


def test_what_is_refused() -> None:
    def f(x: Any) -> Any:
        (x * x).sum().backward()
        return x

    w = t([2.0], requires_grad=True)
    with pytest.raises(BackwardError, match=r"\(x \* x\)\.sum\(\)\.backward\(\)\n.*would leave it, through the history"):
        assay.compile(f, backend="reference")(w * 2)
    with pytest.raises(Unsupported, match="not captured for all sizes; compile it without dynamic"):
        assay.compile(f, backend="reference", dynamic=True)(t([1.0, 2.0], requires_grad=True))
    w.register_hook(lambda g: g)
    with pytest.raises(Unsupported, match="a tensor that has hooks"):
        assay.compile(f, backend="reference")(w)
    with pytest.raises(BackwardError, match="has no history to go back through"):
        assay.compile(f, backend="reference")(t([1.0]))
    assert w.grad is None


def hooked(x: Any) -> Any:
    y = x * 2
    y.register_hook(lambda g: g * 10)
    return (y * y).sum()


def test_hooks_inside_are_for_a_backward_inside() -> None:
    def inside(x: Any) -> Any:
        return grad(hooked(x), x)[0]

    def removed(x: Any) -> Any:
        y = x * 2
        y.register_hook(lambda g: g * 10).remove()
        return (y * y).sum()

    def kept(x: Any) -> Any:
        y = x * 2
        y.retain_grad()
        return (y * y).sum()

    x = t([1.0, -2.0], requires_grad=True)
    assert assay.compile(inside, backend="reference")(x).tolist() == inside(x).tolist() == [80.0, -160.0]
    assert grad(assay.compile(removed, backend="reference")(x), x)[0].tolist() == [8.0, -16.0]
    for f in (hooked, kept):
        for call in (assay.compile(f, backend="reference"), lambda x, f=f: assay.checkpoint(f, x)):
            with pytest.raises(Unsupported, match=r"inside.py:\d+: y\..*\n.*only a backward inside of it calls it"):
                call(x)


def test_hooks_of_what_comes_from_outside_are_refused() -> None:
    def f(x: Any) -> Any:
        x.register_hook(lambda g: g * 10)
        return (x * x).sum()

    def after(x: Any) -> Any:
        x.register_post_accumulate_grad_hook(lambda x: None)
        return (x * x).sum()

    x = t([1.0, -2.0], requires_grad=True)
    for g, given in ((f, x), (f, x * 2), (after, x)):
        with pytest.raises(Unsupported, match=r"x\.register.*\n.*register it outside of the captured function"):
            assay.compile(g, backend="reference")(given)


def test_the_same_tensor_twice() -> None:
    def f(a: Any, b: Any) -> Any:
        (a * b * a).sum().backward()
        return a.grad, grad((a * b).sum(), [a, b], allow_unused=True)

    g = assay.compile(f, backend="reference")
    for _ in range(2):
        found: list[Any] = []
        for h in (f, g):
            w, v = t([1.0, 2.0], requires_grad=True), t([3.0, 5.0], requires_grad=True)
            made = [h(*pair) for pair in ((w, w), (w, v), (v, w), (w, w * 1))[:3]]
            found.append([(a.tolist(), [d.tolist() for d in ds]) for a, ds in made] + [w.grad.tolist(), v.grad.tolist()])
        assert found[0] == found[1]


def test_a_way_that_leads_outside_and_back() -> None:
    g = assay.compile(lambda h, w: grad((h * w).sum(), w)[0], backend="reference")
    w, v = t([1.0, 2.0], requires_grad=True), t([3.0, 4.0], requires_grad=True)
    with pytest.raises(BackwardError, match="would leave it, through the history"):
        g(w * 3, w)
    assert g(v * 3, w).tolist() == [9.0, 12.0]
    assert g(w.detach() * 3, w).tolist() == [3.0, 6.0]


def test_a_check_begins_with_the_graph() -> None:
    w = assay.ones(3, requires_grad=True)

    def step(x: Any) -> Any:
        (x * w).sin().sum().backward()
        return w.grad * 2

    report = assay.check(step, assay.ones(3), backend="reference", inputs=3)
    assert str(report.verdict).startswith("VALIDATED")
    assert [s.name for s in report.stages][:2] == ["graph", "lower"]
    assert w.grad is None
    assert str(assay.prove(step, assay.ones(3)).verdict) == "PROVED"


def test_a_graph_shows_it() -> None:
    graph = str(assay.trace(lambda w: grad((w @ w).sum(), w)[0], assay.ones(3, 3, requires_grad=True)))
    assert "expand" in graph
    assert "matmul" in graph


def test_what_a_function_asks_of_its_arguments_is_true() -> None:
    def f(x: Any) -> Any:
        return x * 2 if x.requires_grad and x.is_leaf and x.grad is None else x * 3

    g = assay.compile(f, backend="reference")
    w = t([1.0], requires_grad=True)
    assert [v.item() for v in (g(t([1.0])), g(w), g(w * 1), g(t([1.0])))] == [3.0, 2.0, 3.0, 3.0]
    g(w).sum().backward()
    assert w.grad.tolist() == [2.0]
    assert g(w).item() == 3.0
