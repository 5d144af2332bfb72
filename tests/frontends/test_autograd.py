"""The engine of reverse mode: leaves, accumulation, hooks, modes, in-place updates and views, what is saved, what is refused."""

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import assay
import assay.nn.functional as F
from assay.autograd import BackwardError, Function, detect_anomaly, grad
from tests.frontends.functions import Exp

t = assay.tensor


def leaf(*data: Any) -> assay.Tensor:
    return t(list(data), requires_grad=True)


# ------------------------------------------------------------------------------------------------ leaves, grad_fn, accumulation


def test_leaves_and_results() -> None:
    x = leaf(1.0, 2.0)
    y = x * 3
    assert (x.requires_grad, x.is_leaf, x.grad_fn, x.grad) == (True, True, None, None)
    assert (y.requires_grad, y.is_leaf, y.grad) == (True, False, None)
    assert repr(y.grad_fn) == "<MulBackward of mul.Scalar>"
    assert repr(assay.gelu(y).sum().grad_fn.next_functions[0][0]) == "<GeluBackward of gelu.default>"
    assert not t([1.0]).requires_grad
    for made in (assay.ones(2, requires_grad=True), assay.zeros(2, requires_grad=True), t(1.0, requires_grad=True)):
        assert made.is_leaf
        assert made.requires_grad


def test_6_contributions_add_up() -> None:
    """x used k times has the sum of k cotangents, x*x both."""
    x = leaf(3.0)
    (x * x + x * 2 + x).sum().backward()
    assert x.grad.tolist() == [9.0]


def test_backward_accumulates_in_the_memory_of_grad() -> None:
    x = leaf(1.0, 2.0)
    (x * x).sum().backward()
    first = x.grad
    (x * x).sum().backward()
    assert x.grad is first
    assert first.tolist() == [4.0, 8.0]
    x.grad = None
    (x * x).backward(t([1.0, 10.0]))
    assert x.grad.tolist() == [2.0, 40.0]


def test_grad_does_not_touch_grad_and_takes_any_tensor() -> None:
    x, w = leaf(1.0, 2.0), leaf(5.0, 6.0)
    h = x * w
    dh, dw = grad((h * h).sum(), [h, w])
    assert dh.tolist() == [10.0, 24.0]
    assert dw.tolist() == [10.0, 48.0]
    assert x.grad is None
    with pytest.raises(BackwardError, match=r"do not depend on input 1, f32\[2\].*allow_unused"):
        grad((x * x).sum(), [x, w])
    assert grad((x * x).sum(), [x, w], allow_unused=True)[1] is None


def test_12_a_gradient_that_is_not_wanted_is_not_computed() -> None:
    x, w = assay.ones(3, 4), assay.ones(4, 5, requires_grad=True)
    node = (x @ w).grad_fn
    assert [saved.name for saved in node.saved.values()] == ["self"]
    assert len(node.edges) == 1


def test_13_gelu_saves_its_argument_and_tanh_its_result() -> None:
    x = leaf(1.0)
    assert [saved.name for saved in F.gelu(x).grad_fn.saved.values()] == ["self"]
    assert [saved.name for saved in x.tanh().grad_fn.saved.values()] == ["the result"]
    assert [saved.name for saved in (x + x).grad_fn.saved.values()] == []


def test_backward_of_many_and_for_some_inputs() -> None:
    x, w = leaf(2.0), leaf(3.0)
    assay.autograd.backward([x * w, x * x], [t([1.0]), t([10.0])], inputs=[x])
    assert x.grad.tolist() == [43.0]
    assert w.grad is None


def test_several_results() -> None:
    x = t([[1.0, 5.0], [7.0, 3.0]], requires_grad=True)
    values, _ = x.max(1)
    values.sum().backward()
    assert x.grad.tolist() == [[0.0, 1.0], [1.0, 0.0]]
    a, b = x.unbind(0)
    assert grad((b * 2).sum(), x)[0].tolist() == [[0.0, 0.0], [2.0, 2.0]]
    assert grad(a.sum() + (b * b).sum(), x)[0].tolist() == [[1.0, 1.0], [14.0, 6.0]]
    assert grad((assay.cat([x, x * 2]) * 3).sum(), x)[0].tolist() == [[9.0, 9.0], [9.0, 9.0]]


def test_what_has_no_derivative_has_no_history() -> None:
    x = leaf(1.5, 2.5)
    assert not x.argmax().requires_grad
    assert not (x > 2).requires_grad
    assert not assay.zeros_like(x).requires_grad
    assert grad(x.floor().sum(), x)[0].tolist() == [0.0, 0.0]


# ------------------------------------------------------------------------------------------------ higher order


def test_second_and_third_derivatives() -> None:
    """B49: x^4 at 0.5 and 1.5."""
    x = leaf(0.5, 1.5)
    first = grad((x**4).sum(), x, create_graph=True)[0]
    second = grad(first.sum(), x, create_graph=True)[0]
    third = grad(second.sum(), x)[0]
    assert first.tolist() == [0.5, 13.5]
    assert second.tolist() == [3.0, 27.0]
    assert third.tolist() == [12.0, 36.0]
    assert not third.requires_grad


def test_double_backward_through_a_saved_result() -> None:
    x = leaf(0.3)
    (d,) = grad(x.tanh().sum(), x, create_graph=True)
    d.sum().backward()
    y = np.tanh(0.3)
    assert x.grad.item() == pytest.approx(-2 * y * (1 - y * y), rel=1e-6)


# ------------------------------------------------------------------------------------------------ modes


def test_modes() -> None:
    x = leaf(1.0)
    with assay.no_grad():
        assert not (x * 2).requires_grad
        assert x.requires_grad
        with assay.enable_grad():
            assert (x * 2).requires_grad
        assert not assay.is_grad_enabled()
    with assay.inference_mode():
        assert not (x * 2).requires_grad

    @assay.no_grad()
    def plain(x: Any) -> Any:
        return x * 2

    assert not plain(x).requires_grad
    assert (x * 2).requires_grad
    assay.set_grad_enabled(False)
    assert not (x * 2).requires_grad
    with assay.set_grad_enabled(True):
        assert (x * 2).requires_grad
    assert not (x * 2).requires_grad
    assay.set_grad_enabled(True)
    assert assay.is_grad_enabled()


def test_detach_ends_the_history_and_shares_the_memory() -> None:
    x = leaf(1.0, 2.0)
    y = (x * 2).detach()
    assert not y.requires_grad
    d = x.detach()
    d[0] = 5.0
    assert x.tolist() == [5.0, 2.0]
    w = x.detach().requires_grad_()
    (w * w).sum().backward()
    assert w.grad.tolist() == [10.0, 4.0]
    assert x.grad is None
    with pytest.raises(assay.UserError, match="detach"):
        (x * 2).requires_grad_(False)


# ------------------------------------------------------------------------------------------------ in place


def test_in_place_on_views() -> None:
    x = leaf(1.0, 2.0, 3.0)
    b = assay.zeros(2, 3)
    row = b[0]
    b[1] = x * x
    row.add_(x)
    b.t()[2].mul_(10.0)
    (b * t([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])).sum().backward()
    assert x.grad.tolist() == [1.0 + 4 * 2, 2.0 + 5 * 4, 10 * (3.0 + 6 * 6)]
    assert row.requires_grad


def test_b46_what_is_written_over_is_kept_where_it_is_needed() -> None:
    x = leaf(3.0)
    y = 2 * x
    y *= y
    y.sum().backward()
    assert x.grad.tolist() == [24.0]
    c = t([3.0])
    y = x * c
    with assay.no_grad():
        c += 1
    with pytest.raises(BackwardError, match=r"mul.Tensor needs the value of 'other', f32\[1\].*add_.Scalar \(version 1"):
        y.sum().backward()


def test_37_a_saved_value_that_was_changed_is_an_error_that_names_all_three() -> None:
    x = leaf(1.0, 2.0)
    y = x.exp()
    y[0] += 1
    with pytest.raises(BackwardError, match=r"exp.default needs the value of 'the result'.*changed in place by add_.Scalar"):
        y.sum().backward()
    z = (x * 2).relu()
    z += 1  # relu needs its argument only
    z.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_a_leaf_is_not_changed_in_place() -> None:
    x = leaf(1.0, 2.0)
    for change in (lambda: x.add_(1.0), lambda: x[:1].mul_(2.0), lambda: x.__setitem__(0, 3.0)):
        with pytest.raises(BackwardError, match="leaf"):
            change()
    assert x.tolist() == [1.0, 2.0]
    with assay.no_grad():
        x.add_(1.0)
    assert x.tolist() == [2.0, 3.0]
    assert x.is_leaf
    (x * x).sum().backward()
    assert x.grad.tolist() == [4.0, 6.0]


def test_what_cannot_be_recorded_is_refused() -> None:
    x = leaf(1.0, 2.0)
    b = assay.zeros(2)
    with assay.no_grad():
        part = b[0]
    for target in (part, b.detach()[0]):
        with pytest.raises(assay.UserError, match="detached from"):
            target.copy_(x.sum())
    with pytest.raises(assay.UserError, match="detach"):
        x.numpy()
    with pytest.raises(assay.UserError, match=r"only floats have gradients, and this tensor is i64\[1\]"):
        t([1]).requires_grad_()


def test_an_untracked_write_keeps_the_history_of_the_rest() -> None:
    x = leaf(1.0, 2.0)
    y = x * 3
    y[0] = 0.0
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 3.0]


# ------------------------------------------------------------------------------------------------ hooks, retain_grad


def test_hooks() -> None:
    x = leaf(1.0)
    seen: list[Any] = []
    h = x * 2
    first = h.register_hook(lambda g: seen.append(g.item()))
    h.register_hook(lambda g: g * 100)
    leaf_hook = x.register_hook(lambda g: g + 1)
    h.retain_grad()
    (h * h).sum().backward()
    assert seen == [4.0]
    assert h.grad.tolist() == [400.0]
    assert x.grad.tolist() == [801.0]
    first.remove()
    leaf_hook.remove()
    x.grad = None
    y = x * 2
    y.register_hook(lambda g: t([1.0, 2.0]))
    with pytest.raises(assay.UserError, match=r"hook on a result of mul.Scalar returned f32\[2\]; the gradient is f32\[1\]"):
        y.sum().backward()
    with pytest.raises(BackwardError, match=r"register_hook\(\) of a tensor that does not require"):
        t([1.0]).register_hook(print)


# ------------------------------------------------------------------------------------------------ Function


class Split(Function):
    """(a * b, a + b), of which the second has no gradient."""

    @staticmethod
    def forward(ctx: Any, a: Any, b: Any, scale: float) -> Any:
        ctx.save_for_backward(a, b)
        ctx.scale = scale
        total = a + b
        ctx.mark_non_differentiable(total)
        return a * b * scale, total

    @staticmethod
    def backward(ctx: Any, g: Any, _: Any) -> Any:
        _, b = ctx.saved_tensors
        assert ctx.needs_input_grad == (True, False, False)
        return g * b * ctx.scale, None, None


def test_a_function_of_the_user() -> None:
    x = leaf(1.0, 2.0)
    y = Exp.apply(x)
    assert repr(y.grad_fn) == "<ExpBackward of Exp>"
    (d,) = grad(y.sum(), x, create_graph=True)
    (dd,) = grad(d.sum(), x)
    assert y.tolist() == d.tolist() == dd.tolist()
    p, total = Split.apply(x, t([5.0, 6.0]), 2.0)
    assert not total.requires_grad
    p.sum().backward()
    assert x.grad.tolist() == [10.0, 12.0]


def test_a_function_with_a_wrong_backward() -> None:
    class Wrong(Exp):
        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g.sum()

    class Two(Exp):
        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g, g

    x = leaf(1.0, 2.0)
    with pytest.raises(assay.UserError, match=r"Wrong.backward: gradient 0 is f32\[\]; the argument is f32\[2\]"):
        Wrong.apply(x).sum().backward()
    with pytest.raises(assay.UserError, match=r"Two.backward returned 2 gradients for 1 arguments"):
        Two.apply(x).sum().backward()
    y = Exp.apply(x)
    y *= 2
    with pytest.raises(BackwardError, match=r"backward of Exp needs the value of 'saved tensor 0'.*mul_"):
        y.sum().backward()


def test_a_function_that_writes_in_place() -> None:
    class Double(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.mark_dirty(x)
            x.mul_(2.0)
            return x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    x = leaf(1.0, 2.0)
    y = x * 1
    z = Double.apply(y)
    assert z is y
    z.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


# ------------------------------------------------------------------------------------------------ graphs: depth, memory, errors


def test_a_second_time() -> None:
    x = leaf(2.0)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(BackwardError, match=r"went through mul.Tensor before.*retain_graph=True"):
        y.backward()
    assert x.grad.tolist() == [8.0]
    s = x.sum()
    s.backward()
    s.backward()  # a sum saves nothing


def test_seeds() -> None:
    x = leaf(1.0, 2.0)
    with pytest.raises(BackwardError, match=r"output 0 has shape \[2\]; only of one element"):
        (x * 2).backward()
    with pytest.raises(BackwardError, match=r"output 0, f32\[1\], has no history"):
        t([1.0]).backward()
    with pytest.raises(assay.UserError, match=r"gradient f32\[3\] of f32\[2\]"):
        (x * 2).backward(assay.ones(3))


@pytest.mark.parametrize(("call", "error", "said"), [
    (lambda x: (x * 2).backward(np.ones(3, np.float32)), TypeError, "the gradient of output 0 is a tensor or None, not ndarray"),
    (lambda x: (x * 2).sum().backward(1.0), TypeError, "the gradient of output 0 is a tensor or None, not float"),
    (lambda x: grad([x * 2], x, [1.0]), TypeError, "the gradient of output 0 is a tensor or None, not float"),
    (lambda x: grad(1.0, x), TypeError, "output 0 is a tensor, not float"),
    (lambda x: grad((x * 2).sum(), [x, 1.0]), TypeError, "input 1 is a tensor, not float"),
    (lambda x: (x * 2).sum().backward(inputs="x"), TypeError, "input 0 is a tensor, not str"),
    (lambda x: (x * 2).backward(assay.ones(2)), BackwardError, r"the gradient f32\[2\] of f32\[3\] must have its shape and type"),
    (lambda x: grad([x * 2, x], x, [assay.ones(3)]), assay.UserError, "2 outputs, but 1 gradients of them"),
    (lambda x: (lambda y: (y.backward(), y.backward()))((x * x).sum()), BackwardError, "backward went through mul.Tensor before"),
    (lambda x: setattr(x, "grad", assay.ones(2)), BackwardError, r"the gradient f32\[2\] of f32\[3\]"),
])  # fmt: skip
def test_mistakes_are_told_at_the_users_line(call: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=f"test_autograd.py:[0-9]+: .*\n  {said}"):
        call(assay.ones(3).requires_grad_())


def test_a_deep_graph_takes_no_recursion() -> None:
    x = leaf(1.0)
    y = x
    for _ in range(10_000):
        y = y + 1.0
    y.backward()
    assert x.grad.tolist() == [1.0]


def test_35_saved_values_are_let_go_as_they_are_used() -> None:
    x = assay.ones(100, requires_grad=True)
    h = (x * x).exp()
    memory = weakref.ref(h.value.array)
    loss = (h * h).sum()
    del h
    gc.collect()
    assert memory() is not None
    gc.disable()
    try:
        loss.backward()
        assert memory() is None
        h = (x * x).exp()
        memory = weakref.ref(h.value.array)
        del h  # a graph that nobody goes back through
        assert memory() is None
    finally:
        gc.enable()


def test_anomaly() -> None:
    x = leaf(0.0, 1.0)
    with detect_anomaly():
        y = (x * 0).sqrt()
        with pytest.raises(BackwardError, match=r"test_autograd.py:\d+: y = \(x \* 0\).sqrt\(\)\n.*mul.Scalar.* is NaN in 2"):
            y.sum().backward()


# ------------------------------------------------------------------------------------------------ compiled functions

BACKENDS = ["reference", pytest.param("cpp", marks=pytest.mark.cpp)]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_compiled_function_is_differentiated(backend: str) -> None:
    w = assay.randn(8, 8).requires_grad_()

    def f(x: Any) -> Any:
        h = F.gelu(x @ w)
        return h.sum(), h.tanh()[1:]

    g = assay.compile(f, backend=backend)
    x = assay.randn(4, 8).requires_grad_()
    with assay.no_grad():
        assert not g(x)[0].requires_grad
    for h in (f, g):
        loss, _ = h(x)
        loss.backward()
    assert (2 * g(x)[0]).requires_grad
    first, second = (grad((h(x)[1] ** 2).sum(), (x, w), create_graph=True) for h in (f, g))
    for a, b in zip(first, second, strict=True):
        assert np.array_equal(a.detach().numpy(), b.detach().numpy())
    (aa,), (bb,) = (grad(d[0].sum(), x) for d in (first, second))
    assert np.allclose(aa.numpy(), bb.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_constants_and_writes_of_a_compiled_function(backend: str) -> None:
    def f(x: Any, b: Any) -> Any:
        y = x * 2
        with assay.no_grad():
            z = x * 3
        b[0] = y.sum()
        b.mul_(2.0)
        return (y * z + x.detach() * x).sum()

    x = leaf(1.0, 2.0)
    g = assay.compile(f, backend=backend)
    for h in (f, g):
        x.grad = None
        b = assay.zeros(2)
        (h(x, b) + b.sum()).backward()
        assert x.grad.tolist() == [2 * 3 * 1 + 1 + 4.0, 2 * 3 * 2 + 2 + 4.0]


def test_dropout_goes_back_by_the_mask_that_it_drew() -> None:
    """The state that a draw reads is advanced in place right after it; the way back has the state as it was."""
    x = leaf(*[1.0] * 64)
    assay.manual_seed(5)
    y = F.dropout(x * 2, 0.5)
    F.dropout(x, 0.5)
    y.sum().backward()
    assert set(x.grad.tolist()) == {0.0, 4.0}
    assert x.grad.tolist() == [4.0 * (v != 0) for v in y.detach().tolist()]
