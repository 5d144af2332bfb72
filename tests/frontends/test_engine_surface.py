"""What users of torch.autograd reach for: hooks, modes, leaves, copies, threads, Functions with jvp and setup_context."""

import copy
import pickle
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import assay
from assay.autograd import BackwardError, Function, forward_ad, function, grad
from assay.core.errors import Unsupported
from assay.func import hvp, jvp

t = assay.tensor


def leaf(*data: Any) -> assay.Tensor:
    return t(list(data), requires_grad=True)


# ------------------------------------------------------------------------------------------------ hooks


def test_hooks_run_in_the_order_of_their_registration() -> None:
    x = leaf(1.0)
    seen: list[Any] = []
    x.register_hook(lambda g: seen.append(("a", g.item())) or g * 2)
    x.register_hook(lambda g: seen.append(("b", g.item())))
    (x * 3).sum().backward()
    assert seen == [("a", 3.0), ("b", 6.0)]
    assert x.grad.tolist() == [6.0]


def test_a_hook_returns_a_tensor_or_nothing() -> None:
    x = leaf(1.0)
    x.register_hook(lambda g: 3)  # type: ignore[arg-type, return-value]
    with pytest.raises(TypeError, match="a hook returns a tensor, or None to leave the gradient as it is; this one a int"):
        (x * 3).sum().backward()


def test_hooks_after_accumulation() -> None:
    x = leaf(1.0)
    seen: list[Any] = []
    hook = x.register_post_accumulate_grad_hook(lambda p: seen.append((p is x, p.grad.tolist())))
    for _ in range(2):
        (x * 3).sum().backward()
    hook.remove()
    (x * 3).sum().backward()
    assert seen == [(True, [3.0]), (True, [6.0])]
    with pytest.raises(BackwardError, match="only a leaf accumulates a gradient"):
        (x * 2).register_post_accumulate_grad_hook(lambda p: None)


def test_a_step_within_the_backward() -> None:
    x = leaf(1.0)

    def step(p: Any) -> None:
        with assay.no_grad():
            p -= 0.5 * p.grad
        del p.grad

    x.register_post_accumulate_grad_hook(step)
    (x * 3).sum().backward()
    assert x.tolist() == [-0.5]
    assert x.grad is None


def test_retained_gradients() -> None:
    x = leaf(1.0, 2.0)
    y = x * 2
    assert not y.retains_grad
    y.retain_grad()
    (y * y).sum().backward()
    assert y.retains_grad
    assert y.grad.tolist() == [4.0, 8.0]
    z = x * 3
    (z * x).sum().backward(inputs=[z])
    assert z.grad.tolist() == [1.0, 2.0]
    with pytest.raises(BackwardError, match=r"inputs=\[\] asks for no gradient"):
        (x * x).sum().backward(inputs=[])


# ------------------------------------------------------------------------------------------------ leaves


def test_detach_in_place() -> None:
    x = leaf(1.0, 2.0)
    y = x * 2
    z = y * y
    assert y.detach_() is y
    assert y.is_leaf
    assert not y.requires_grad
    z.sum().backward()  # what used it keeps its history
    assert x.grad.tolist() == [8.0, 16.0]
    assert not x.detach_().requires_grad
    with pytest.raises(BackwardError, match="detach_\\(\\) of a view"):
        (leaf(1.0, 2.0) * 2)[0].detach_()

    def f(x: Any) -> Any:
        y = x.sin()
        y.detach_()
        return y * x

    for g in (f, assay.compile(f, backend="reference")):
        w = leaf(0.0, 2.0)
        assert grad(g(w).sum(), w)[0].tolist() == t([0.0, 2.0]).sin().tolist()


def test_what_grad_may_be() -> None:
    x = leaf(1.0)
    for bad, kind, message in [
        (3.0, TypeError, ".grad is a tensor or None, not float"),
        (t([1.0, 2.0]), BackwardError, r"the gradient f32\[2\] of f32\[1\] must have its shape and type"),
        (t([1]), BackwardError, r"the gradient i64\[1\] of f32\[1\]"),
    ]:
        with pytest.raises(kind, match=message):
            x.grad = bad
    x.sum().backward()
    del x.grad
    assert x.grad is None


def test_another_storage() -> None:
    x = leaf(1.0, 2.0)
    x.sum().backward()
    alias = x.detach()
    x.data = x.data - 0.5 * x.grad
    assert (x.tolist(), x.is_leaf, x.grad.tolist(), alias.tolist()) == ([0.5, 1.5], True, [1.0, 1.0], [1.0, 2.0])
    (x * x).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]
    x.data = assay.ones(3)
    assert x.shape == (3,)
    with pytest.raises(assay.UserError, match=r"x\.data = a f64 tensor; x is f32"):
        x.data = assay.ones(3, dtype=assay.float64)
    y = x * 2
    with pytest.raises(assay.UserError, match="of a result of recorded operators"):
        y.data = x

    def f(x: Any) -> Any:
        x.data = x.data * 2
        return x

    with pytest.raises(assay.UserError, match=r"in a captured function: write in its memory, x\.data\.copy_"):
        assay.compile(f, backend="reference")(t([1.0]))


def test_a_retained_gradient_is_of_what_the_tensor_is_in_the_end() -> None:
    x = leaf(1.0)
    y = x * 2
    y.retain_grad()
    y.mul_(3)
    y.sum().backward()
    assert y.grad.tolist() == [1.0]


@pytest.mark.parametrize("f", [
    lambda x: x.sum(), lambda x: (x * 2).exp().sum(), lambda x: x.reshape(0, 1).sum(1).sum(),
    lambda x: assay.cat([x, assay.ones(2)]).sum(),
    lambda x: (x[:, None] @ assay.ones(1, 3)).sum(), lambda x: x.prod(), lambda x: x.sum(0, keepdim=True).mean(),
])  # fmt: skip
def test_no_elements(f: Any) -> None:
    x = assay.zeros(0, requires_grad=True)
    f(x).backward()
    assert x.grad.shape == (0,)
    x.grad = None
    assay.compile(lambda x: f(x), backend="reference")(x).backward()
    assert x.grad.shape == (0,)
    assert not assay.zeros_like(x).requires_grad
    assert not (x > 0).any().requires_grad


def test_a_batch_of_no_elements() -> None:
    w = assay.ones(3, 2, requires_grad=True)
    (assay.zeros(0, 3) @ w).square().sum().backward()
    assert w.grad.tolist() == [[0.0, 0.0]] * 3


def test_whether_gradients_are_enabled_in_a_compiled_function() -> None:
    def f(x: Any) -> Any:
        inside = assay.is_grad_enabled()
        with assay.no_grad():
            return x * (10 * inside + assay.is_grad_enabled())

    g = assay.compile(f, backend="reference")
    assert g(t([1.0])).tolist() == [10.0]
    with assay.no_grad():
        assert g(t([1.0])).tolist() == [0.0]
    assert g(t([1.0])).tolist() == [10.0]


def test_errors_are_runtime_errors_too() -> None:
    x = leaf(1.0, 2.0)
    y = (x * x).sum()
    y.backward()
    for wrong in (
        lambda: y.backward(), lambda: (x * 2).backward(), lambda: (x * 2).backward(t([1.0])), lambda: t([1]).requires_grad_(),
        lambda: t([1.0]).sum().backward(), lambda: x.add_(1), lambda: (x * 2).requires_grad_(False),
        lambda: grad(x.sum(), [leaf(1.0)]), lambda: grad(x.sum(), [t([1.0])]), lambda: grad(x.sum(), x, only_inputs=False),
        lambda: t([1.0]).register_hook(lambda g: g), lambda: copy.deepcopy(x * 2),
    ):  # fmt: skip
        with pytest.raises(RuntimeError):
            wrong()


def test_seeds_have_the_type_of_the_result() -> None:
    x = leaf(1.0, 2.0)
    (x * 2).backward(t([1.0, 2.0], dtype=assay.float64))
    assert x.grad.tolist() == [2.0, 4.0]
    h = t([1.0], dtype=assay.float16, requires_grad=True)
    (h.float() * 3).sum().backward()
    assert h.grad.dtype is assay.float16


def test_copies() -> None:
    x = leaf(1.0, -0.0)
    x.sum().backward()
    c = copy.deepcopy([x, x])
    assert c[0] is c[1]
    assert c[0].grad.tolist() == [1.0, 1.0]
    c[0].grad.add_(1)
    assert x.grad.tolist() == [1.0, 1.0]
    p = pickle.loads(pickle.dumps(x))
    assert (p.requires_grad, p.is_leaf, p.grad, str(p.tolist())) == (True, True, None, "[1.0, -0.0]")
    assert repr(x) == "tensor([ 1., -0.], requires_grad=True)"
    assert repr(x * 2) == "tensor([ 2., -0.], grad_fn=<MulBackward of mul.Scalar>)"


def test_versions() -> None:
    x = t([1.0])
    x.add_(1)
    assert (x._version, x.detach()._version, x[:1]._version) == (1, 1, 1)


@pytest.mark.parametrize("make", [assay.randn, assay.rand, assay.zeros])
def test_made_as_leaves(make: Any) -> None:
    assert make(2, requires_grad=True).is_leaf
    assert make(2, requires_grad=True).requires_grad
    assert not make(2).requires_grad


# ------------------------------------------------------------------------------------------------ grad


def test_gradients_that_are_not_there() -> None:
    x, y = leaf(1.0), leaf(2.0)
    assert [g.tolist() for g in grad(x.sum(), [x, y], materialize_grads=True)] == [[1.0], [0.0]]
    assert grad(x.sum(), [x, y], allow_unused=True)[1] is None


def test_a_batch_of_cotangents() -> None:
    x = leaf(1.0, 2.0)
    assert grad(x * x, x, grad_outputs=t([[1.0, 0.0], [0.0, 1.0]]), is_grads_batched=True)[0].tolist() == [[2.0, 0.0], [0.0, 4.0]]


def test_a_graph_that_is_shared_goes_back_twice() -> None:
    x = leaf(2.0)
    h = x.exp()
    a, b = (h * 2).sum(), (h * 3).sum()
    a.backward()
    with pytest.raises(BackwardError, match=r"backward went through exp.default before.*retain_graph=True the first time"):
        b.backward()
    y = x
    for _ in range(60):
        y = y + y
    y.sum().backward()
    assert x.grad.item() == 2.0**60


@pytest.mark.parametrize("depth", [10_000])
def test_a_deep_graph(depth: int) -> None:
    x = leaf(1.0)
    y = x
    for _ in range(depth):
        y = y + 1
    y.sum().backward()
    assert x.grad.tolist() == [1.0]


def test_threads_add_up() -> None:
    x = leaf(2.0)
    failed: list[Any] = []

    def work() -> None:
        try:
            for _ in range(50):
                (x * x).sum().backward()
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for k in threads:
        k.start()
    for k in threads:
        k.join()
    assert not failed
    assert x.grad.tolist() == [4.0 * 200]


# ------------------------------------------------------------------------------------------------ modes


def test_modes_as_decorators() -> None:
    x = leaf(1.0)

    @assay.no_grad
    def plain() -> Any:
        return x * 2

    @assay.no_grad()
    def each() -> Iterator[Any]:
        sent = yield x * 2
        yield (x * 3, sent)

    @assay.inference_mode
    def inferred() -> Any:
        return x * 2

    assert not plain().requires_grad
    assert not inferred().requires_grad
    running = each()
    assert not next(running).requires_grad
    assert (x * 2).requires_grad  # between two steps the mode is the caller's
    made, sent = running.send("here")
    assert not made.requires_grad
    assert sent == "here"
    with pytest.raises(StopIteration):
        next(running)


def test_anomaly_on_and_off() -> None:
    for mode in (assay.autograd.set_detect_anomaly(True), assay.autograd.detect_anomaly(check_nan=True)):
        with mode:
            assert assay.autograd.is_anomaly_enabled()
            with pytest.raises(BackwardError, match="is NaN in 1 of 1"):
                (leaf(0.0).sqrt() * 0).sum().backward()
        assert not assay.autograd.is_anomaly_enabled()
    with assay.autograd.detect_anomaly(check_nan=False):
        (leaf(0.0).sqrt() * 0).sum().backward()


# ------------------------------------------------------------------------------------------------ Functions


class Square(Function):
    """x^2 * k, in torch's newer style, with every derivative."""

    @staticmethod
    def forward(x: Any, k: float) -> Any:
        return x * x * k

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])
        ctx.save_for_forward(inputs[0])
        ctx.k = inputs[1]

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return 2 * ctx.k * ctx.saved_tensors[0] * g, None

    @staticmethod
    def jvp(ctx: Any, x: Any, k: Any) -> Any:
        assert k is None
        return 2 * ctx.k * ctx.saved_tensors[0] * x


class Exp(Function):
    """exp, whose derivatives use its result."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def vjp(ctx: Any, g: Any) -> Any:
        return g * ctx.saved_tensors[0]

    @staticmethod
    def jvp(ctx: Any, x: Any) -> Any:
        return x * ctx.saved_tensors[0]


def test_a_function_in_every_mode() -> None:
    x, v = t([1.0, 3.0]), t([1.0, 10.0])
    f = lambda x: Square.apply(x, 2.0)  # noqa: E731
    assert jvp(f, (x,), (v,))[1].tolist() == [4.0, 120.0]
    assert assay.func.grad(lambda x: f(x).sum())(x).tolist() == [4.0, 12.0]
    assert hvp(lambda x: f(x).sum(), (x,), (v,))[1][0].tolist() == [4.0, 40.0]
    assert jvp(lambda x: jvp(f, (x,), (v,))[1], (x,), (v,))[1].tolist() == [4.0, 400.0]
    w = leaf(1.0, 3.0)
    jvp(f, (w,), (v,))[1].sum().backward()  # a tangent has a history at the levels below
    assert w.grad.tolist() == [4.0, 40.0]
    assert assay.compile(lambda x: jvp(f, (x,), (v,))[1], backend="reference")(x).tolist() == [4.0, 120.0]


def test_a_saved_result_has_its_tangent() -> None:
    x, one = t([0.0]), t([1.0])
    g = lambda x: jvp(Exp.apply, (x,), (one,))[1]  # noqa: E731
    assert jvp(g, (x,), (one,))[1].tolist() == [1.0]
    assert assay.func.hessian(lambda x: Exp.apply(x).sum())(x).tolist() == [[1.0]]
    with forward_ad.dual_level():
        y = Exp.apply(forward_ad.make_dual(leaf(0.0), one))
        assert forward_ad.unpack_dual(y).tangent.tolist() == [1.0]


def test_tangents_of_several_results() -> None:
    class Two(Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            ctx.save_for_backward(x, y)
            n = (x > 0).long()
            return x * y, n, x - y

        @staticmethod
        def jvp(ctx: Any, dx: Any, dy: Any) -> Any:
            x, y = ctx.saved_tensors
            return dx * y + x * dy, None, dx - dy

    with forward_ad.dual_level():
        made = Two.apply(forward_ad.make_dual(t([2.0]), t([1.0])), t([5.0]))
        found = [forward_ad.unpack_dual(y).tangent for y in made]
    assert [None if d is None else d.tolist() for d in found] == [[5.0], None, [1.0]]


@pytest.mark.parametrize(("returned", "message"), [
    (lambda d: (d, d), "jvp returned 2 tangents for 1 results of forward"),
    (lambda d: 3.0, "tangent 0: a float; allowed: a tensor or None"),
    (lambda d: d.expand((2, 1)), r"tangent 0 that Wrong.jvp returned, f32\[2, 1\] of f32\[1\] must have its shape and type"),
])  # fmt: skip
def test_a_wrong_jvp(returned: Any, message: str) -> None:
    class Wrong(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def jvp(ctx: Any, d: Any) -> Any:
            return returned(d)

    with pytest.raises(assay.UserError, match=message):
        jvp(Wrong.apply, (t([1.0]),), (t([1.0]),))


def test_a_missing_derivative_is_named() -> None:
    class Plain(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

    with pytest.raises(Unsupported, match=r"Plain has no backward: write the static method backward\(ctx, \*gradients\)"):
        Plain.apply(leaf(1.0)).sum().backward()
    with pytest.raises(Unsupported, match=r"Plain has no forward derivative: write the static method jvp"):
        jvp(Plain.apply, (t([1.0]),), (t([1.0]),))


def test_once_differentiable() -> None:
    class Once(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        @function.once_differentiable
        def backward(ctx: Any, g: Any) -> Any:
            return assay.from_numpy(2 * g.numpy())

    x = leaf(1.0)
    y = Once.apply(x)
    (d,) = grad((y * y).sum(), x, create_graph=True)
    assert d.tolist() == [8.0]
    with pytest.raises(BackwardError, match="Once is marked @once_differentiable"):
        d.sum().backward()


def test_a_retained_gradient_adds_up_in_memory_of_its_own() -> None:
    v = t([1.0, 2.0], requires_grad=True)

    def made(*, retain: bool = True) -> assay.Tensor:
        y = v * 2
        if retain:
            y.retain_grad()
        return y

    y = made()
    y.sum().backward(retain_graph=True)
    y.sum().backward(retain_graph=True, inputs=[y])  # once, though it is asked for by name too
    assert y.grad.tolist() == [2.0, 2.0]
    y, cotangent = made(), t([1.0, 3.0])
    y.backward(cotangent)
    y.grad.mul_(3)  # the caller's tensor stays
    assert (y.grad.tolist(), cotangent.tolist()) == ([3.0, 9.0], [1.0, 3.0])
    y, z = made(), made()
    (y + z).sum().backward()  # one broadcast cotangent for both
    y.grad[0] = 7.0
    assert (y.grad.tolist(), z.grad.tolist()) == ([7.0, 1.0], [1.0, 1.0])
    for forget in (lambda y: setattr(y, "grad", None), lambda y: delattr(y, "grad")):
        y = made()
        y.sum().backward(retain_graph=True)
        forget(y)
        assert y.grad is None
        y.sum().backward()
        assert (y.grad.tolist(), y.retains_grad) == ([1.0, 1.0], True)
    y = made(retain=False)
    y.sum().backward(inputs=[y], retain_graph=True)
    assay.autograd.grad(y.sum(), v)  # asks for nothing of y
    assert (y.grad.tolist(), y.retains_grad) == ([1.0, 1.0], False)


def test_a_retained_gradient_that_is_changed_inside_of_a_compiled_function() -> None:
    def f(v: Any) -> Any:
        x = v.detach().requires_grad_()
        y = x * 2
        y.retain_grad()
        (y.view(1, 2) * 3).sum().backward()
        y.grad[0] = 7.0
        return y.grad, x.grad

    for g in (f, assay.compile(f, backend="reference")):
        assert [a.tolist() for a in g(t([1.0, 2.0]))] == [[7.0, 3.0], [6.0, 6.0]]
