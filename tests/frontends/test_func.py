"""Forward mode and assay.func: against closed forms, against one another, nested, counted."""

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import assay
from assay.autograd import grad
from assay.autograd.forward_ad import dual_level, make_dual, unpack_dual
from assay.core.errors import Unsupported
from assay.frontends import derived
from assay.func import hessian, hvp, jacfwd, jacobian, jvp, value_and_grad, vjp

t = assay.tensor
F64 = assay.float64
X = [0.3, -0.7, 1.1]


def x64(*shape: int, seed: int = 0) -> assay.Tensor:
    return assay.from_numpy(np.asarray(np.random.default_rng(seed).uniform(0.2, 0.9, shape)))


def close(a: Any, b: Any, tolerance: float = 1e-12) -> None:
    assert np.allclose(np.asarray(a), np.asarray(b), rtol=tolerance, atol=tolerance), (a, b)


def net(x: Any, w: Any) -> Any:
    h = x @ w
    return (assay.gelu(h).softmax(-1) * h.tanh()).sum()


# ------------------------------------------------------------------------------------------------ dual numbers


def test_39_dual_numbers() -> None:
    x, d = t(X, dtype=F64), t([1.0, 2.0, 3.0], dtype=F64)
    with dual_level():
        y = make_dual(x, d) ** 2
        y[0] = 5.0
        primal, tangent = unpack_dual(y)
        assert primal.tolist() == [5.0, 0.7**2, 1.1**2]
        assert tangent is not None
        close(tangent, [0.0, -2.8, 6.6])
        assert unpack_dual(make_dual(x, d) > 0).tangent is None
        assert unpack_dual(make_dual(x, d).detach()).tangent is None
        with pytest.raises(assay.UserError, match=r"the tangent f64\[2\] of f64\[3\]"):
            make_dual(x, d[:2])
    with pytest.raises(assay.UserError, match="dual_level"):
        make_dual(x, d)


def test_39_forward_mode_keeps_nothing() -> None:
    x = x64(64)
    with dual_level():
        y = make_dual(x, x)
        assert y.grad_fn is None
        kept: list[Any] = []
        gc.collect()
        gc.disable()
        try:
            for _ in range(50):
                y = y.sin()
                kept += [weakref.ref(y.value.array), weakref.ref(unpack_dual(y)[1].value.array)]
            assert sum(r() is not None for r in kept) <= 4  # the last one, its tangent
        finally:
            gc.enable()


# ------------------------------------------------------------------------------------------------ assay.func


def test_40_closed_forms() -> None:
    x = t(X, dtype=F64)
    a = x64(3, 3)
    close(assay.func.grad(lambda x: (x**3).sum())(x), 3 * np.square(X))
    quadratic = lambda x: x @ a @ x  # noqa: E731
    symmetric = a.numpy() + a.numpy().T
    close(hessian(quadratic)(x), symmetric)
    close(hvp(quadratic, (x,), (x,))[1][0], symmetric @ X)
    close(hvp(quadratic, (x,), (x,))[0][0], symmetric @ X)
    close(jacobian(lambda x: a @ x)(x), a)
    close(jacfwd(lambda x: a @ x)(x), a)
    close(jacobian(lambda x: (a[:2] @ x).exp())(x), np.exp(a.numpy()[:2] @ X)[:, None] * a.numpy()[:2])
    out, pull = vjp(lambda x, y: (x * y, x.sum()), x, a)
    close(out[1], sum(X))
    close(pull((assay.ones(3, 3, dtype=F64), t(2.0, dtype=F64)))[0], a.numpy().sum(0) + 2)
    close(pull((assay.ones(3, 3, dtype=F64), t(2.0, dtype=F64)))[1], np.broadcast_to(X, (3, 3)))
    y, dy = jvp(lambda x: x.exp(), (x,), (a[0],))
    close(dy, y.numpy() * a.numpy()[0])
    close(jvp(lambda x: assay.ones(2, dtype=F64), (x,), (x,))[1], [0.0, 0.0])


def test_arguments_results_and_errors() -> None:
    f = lambda p, x: ((p["w"] * x + p["b"]).sum(), x)  # noqa: E731
    p = {"w": t([2.0, 3.0]), "b": t([1.0, 1.0])}
    g, aux = assay.func.grad(f, has_aux=True)(p, t([5.0, 6.0]))
    assert g["w"].tolist() == [5.0, 6.0]
    assert g["b"].tolist() == [1.0, 1.0]
    assert aux.tolist() == [5.0, 6.0]
    v, (ga, gb) = value_and_grad(lambda a, b, c: (a * b).sum(), (0, 2))(t([1.0]), t([2.0]), t([3.0]))
    assert (v.item(), ga.item(), gb.item()) == (2.0, 2.0, 0.0)
    assert not v.requires_grad
    with pytest.raises(assay.UserError, match=r"one element; this one is of shape \[2\]"):
        assay.func.grad(lambda x: x * 2)(t([1.0, 2.0]))
    with pytest.raises(assay.UserError, match=r"floats, not i64\[1\]"):
        assay.func.grad(lambda x: x.sum())(t([1]))


@pytest.mark.parametrize(("call", "said"), [
    (lambda f, x: assay.func.grad(f, argnums=3)(x), "argnums=3 of a call with 1 positional arguments"),
    (lambda f, x: hessian(f, argnums=1)(x), "argnums=1 of a call with 1 positional arguments"),
    (lambda f, x: jacobian(f)(2.0), "jacobian is taken with respect to a tensor, not float"),
    (lambda f, x: jacobian(f)(assay.ones(3).int()), r"derivatives are taken with respect to tensors of floats, not i32\[3\]"),
    (lambda f, x: jacobian(f, (0,))(x), r"jacobian: argnums=\(0,\); allowed: the number of one argument"),
    (lambda f, x: jacobian(lambda x: 2.0)(x), "jacobian needs a function with one tensor as its result, not a float"),
    (lambda f, x: jacfwd(lambda x: (x, x))(x), "jacfwd needs a function with one tensor as its result, not a tuple"),
    (lambda f, x: hessian(lambda x: x * 2)(x), r"hessian needs a result of one element; this one is of shape \[3\]: use jac"),
    (lambda f, x: hessian(f)(2.0), "hessian is taken with respect to a tensor, not float"),
    (lambda f, x: hvp(lambda x: x * 2, (x,), (x,)), r"hvp needs a result of one element; this one is of shape \[3\]: use hvp of"),
    (lambda f, x: hvp(f, (x,), (x, x)), "hvp: the tangents have the structure"),
    (lambda f, x: value_and_grad(lambda x: 2.0)(x), "value_and_grad needs a result of one element; this one is of type float"),
    (lambda f, x: jvp(f, (2.0,), (x,)), "what moves is a tensor, not float"),
    (lambda f, x: jvp(f, (x,), (2.0,)), "a tangent is a tensor, not float"),
    (lambda f, x: jvp(lambda x: 2.0, (x,), (x,)), "jvp needs a function whose results are tensors"),
    (lambda f, x: vjp(f, x)[1](1.0), "vjp: a cotangent is a tensor, not float"),
])  # fmt: skip
def test_mistakes_are_told_at_the_users_line(call: Any, said: str) -> None:
    with pytest.raises(assay.UserError, match=f"test_func.py:[0-9]+: .*\n  {said}"):
        call(lambda x: (x**3).sum(), assay.ones(3))


def test_perturbations_are_not_confused() -> None:
    one = t(1.0)
    d = assay.func.grad
    assert d(lambda x: x * d(lambda y: x + y)(one))(one).item() == 1.0
    assert jvp(lambda x: x * jvp(lambda y: x + y, (one,), (one,))[1], (one,), (one,))[1].item() == 1.0
    assert jvp(lambda x: x * d(lambda y: x * y * y)(one), (t(3.0),), (one,))[1].item() == 12.0
    assert d(lambda x: jvp(lambda y: x * y * y, (x,), (one,))[1])(t(3.0)).item() == 12.0


def test_41_second_order_four_ways() -> None:
    x, w, u = x64(4, 3), x64(3, 5, seed=1), x64(3, 5, seed=2)
    f = lambda w: net(x, w)  # noqa: E731
    forward_reverse = hvp(f, (w,), (u,))[1][0]
    reverse_reverse = assay.func.grad(lambda w: (assay.func.grad(f)(w) * u).sum())(w)
    reverse_forward = assay.func.grad(lambda w: jvp(f, (w,), (u,))[1])(w)
    leaf = w.clone().requires_grad_()
    (first,) = grad(f(leaf), leaf, create_graph=True)
    (one_engine,) = grad((first * u).sum(), leaf)
    for other in (reverse_reverse, reverse_forward, one_engine):
        close(other, forward_reverse, 1e-10)
    h = hessian(lambda v: net(x, v.reshape(3, 5)))(w.reshape(-1))
    close(h, h.t(), 1e-10)
    close(h @ u.reshape(-1), forward_reverse.reshape(-1), 1e-10)
    third = assay.func.grad(lambda w: (hvp(f, (w,), (u,))[1][0] * u).sum())(w)
    other = jvp(lambda w: assay.func.grad(lambda w: jvp(f, (w,), (u,))[1])(w), (w,), (u,))[1]
    close(third, other, 1e-9)


def test_levels_below_keep_their_history() -> None:
    x, w = t(X, dtype=F64), t([1.0, 2.0, 3.0], dtype=F64, requires_grad=True)
    assay.func.grad(lambda x: (x * x * w).sum())(x).sum().backward()
    close(w.grad, 2 * np.array(X))
    with assay.no_grad():
        assert not assay.func.grad(lambda x: (x * w).sum())(x).requires_grad
        close(assay.func.grad(lambda x: (x * x).sum())(x), 2 * np.array(X))


# ------------------------------------------------------------------------------------------------ counted


def passes(monkeypatch: Any, f: Any) -> tuple[int, int]:
    """(values and tangents together, walks back) that a call of f takes."""
    made: list[str] = []

    def counted(name: str) -> Any:
        real = getattr(assay.func, name)
        return lambda *args, **kwargs: (made.append(name), real(*args, **kwargs))[1]

    for name in ("Dual", "differentiate"):
        monkeypatch.setattr(assay.func, name, counted(name))
    f()
    monkeypatch.undo()
    return made.count("Dual"), made.count("differentiate")


def test_38_a_jacobian_takes_as_many_passes_as_its_smaller_side(monkeypatch: Any) -> None:
    """Proposition 5.2: n forward passes for n inputs, or m reverse passes for m results."""
    wide, tall = x64(2, 7), x64(7, 2)
    assert passes(monkeypatch, lambda: jacobian(lambda x: wide @ x)(x64(7))) == (0, 2)
    assert passes(monkeypatch, lambda: jacobian(lambda x: tall @ x)(x64(2))) == (2, 0)
    assert passes(monkeypatch, lambda: hvp(lambda x: (tall @ x).sum(), (x64(2),), (x64(2),))) == (1, 1)


def work_of(f: Any) -> int:
    """Scalar operations of the programs that a call of f evaluates."""
    from assay.frontends.value import Eager
    from assay.semantics.work import total_work

    total = 0
    run = Eager.process

    def counted(self: Any, op: Any, args: tuple[Any, ...]) -> Any:
        nonlocal total
        total += total_work(op.program(*args).tensors)
        return run(self, op, args)

    Eager.process = counted  # type: ignore[method-assign]
    try:
        f()
    finally:
        Eager.process = run  # type: ignore[method-assign]
    return total


def test_41_a_product_with_the_hessian_costs_a_small_multiple() -> None:
    """Of the function's own cost, whatever the number of inputs."""
    for n in (4, 16):
        x, w = x64(8, n), x64(n, 8, seed=1)
        f = lambda w: net(x, w)  # noqa: E731, B023
        once = work_of(lambda: f(w))  # noqa: B023
        assert work_of(lambda: jvp(f, (w,), (w,))) <= 5 * once  # noqa: B023
        assert work_of(lambda: assay.func.grad(f)(w)) <= 5 * once  # noqa: B023
        assert work_of(lambda: hvp(f, (w,), (w,))) <= 14 * once  # noqa: B023


# ------------------------------------------------------------------------------------------------ derived operators, compiled


def test_a_derived_operator_reads_what_its_program_loads() -> None:
    op = assay.ops.exp.default.op
    p = op.program(assay.ones(3))
    made = derived.pullback(op, p, (0,), (0,))
    assert made.reads == (~0,)
    assert made.operator.schema.text == "exp_vjp(Tensor d0, Tensor result) -> Tensor"
    again = derived.pullback(made.operator, made.operator.program(assay.ones(3), assay.ones(3)), (0, 1), (0,))
    assert again.operator.name == "exp_vjp_vjp.default"
    with pytest.raises(assay.UserError, match=r"exp_vjp.default takes d0:f32\[3\], not f32\[4\]"):
        made.operator.program(assay.ones(4), assay.ones(3))


@pytest.mark.parametrize("backend", ["reference", pytest.param("cpp", marks=pytest.mark.cpp)])
def test_compiled_derivatives_and_derivatives_of_compiled_functions(backend: str) -> None:
    x, w = x64(4, 3), x64(3, 5, seed=1)
    f = assay.compile(lambda w: net(x, w), backend=backend)
    g = assay.compile(assay.func.grad(lambda w: net(x, w)), backend=backend)
    want = assay.func.grad(lambda w: net(x, w))(w)
    assert np.array_equal(g(w).numpy(), want.numpy())
    close(assay.func.grad(f)(w), want, 1e-12)
    close(jvp(f, (w,), (w,))[1], jvp(lambda w: net(x, w), (w,), (w,))[1], 1e-12)
    close(hvp(f, (w,), (w,))[1][0], hvp(lambda w: net(x, w), (w,), (w,))[1][0], 1e-10)


def test_a_function_of_the_user_without_a_tangent() -> None:
    class Twice(assay.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

    with pytest.raises(Unsupported, match=r"Twice has no forward derivative: write the static method jvp\(ctx, \*tangents\)"):
        jvp(Twice.apply, (t(1.0),), (t(1.0),))


@pytest.mark.parametrize(("name", "said"), [
    ("vmap", "no vmap"), ("jacrev", "assay.func.jacobian"), ("hesian", "func.hessian"),
])  # fmt: skip
def test_names_that_are_not_there(name: str, said: str) -> None:
    with pytest.raises(assay.UserError, match=said):
        getattr(assay.func, name)


def test_derivatives_have_the_name_of_their_function() -> None:
    def cube(x):
        return (x**3).sum()

    assert assay.trace(assay.func.hessian(cube), assay.ones(2)).name == "cube"


@pytest.mark.parametrize(
    ("call", "want"),
    [
        (lambda v, w: assay.func.grad(lambda x: ((x.view(1, 2) * w) ** 2).sum())(v), [4.0, 16.0]),  # a view of a cotangent
        (lambda v, w: assay.func.grad(lambda x: (x.expand(2, 2) * w).sum())(v), [2.0, 2.0]),
        (lambda v, w: assay.func.grad(lambda x, y: ((x + y) * w).sum(), (0, 1))(v, v)[1], [1.0, 1.0]),  # one cotangent for both
        (lambda v, w: vjp(lambda x: x.view(2), v)[1](w * w)[0], [2.0, 4.0]),  # the cotangent itself
        (lambda v, w: hvp(lambda x: ((x.view(1, 2) * w) ** 2).sum(), (v,), (v,))[1][0], [4.0, 16.0]),
    ],
)
def test_a_gradient_that_is_copied_keeps_the_history_outside(call: Any, want: list[float]) -> None:
    v, w = assay.tensor([1.0, 2.0]), assay.tensor([1.0, 2.0], requires_grad=True)
    for f in (call, assay.compile(call, backend="reference")):
        assert grad(f(v, w).sum(), w)[0].tolist() == want


@pytest.mark.parametrize(
    "derivative",
    [
        lambda f, v, w: assay.func.grad(lambda x: f(x, w))(v),  # two levels record the call: this one's, and that of w
        lambda f, v, w: assay.func.grad(lambda x: assay.func.grad(f)(x, w).square().sum())(v),
        lambda f, v, w: assay.func.grad(f, (0, 1))(v, w)[1],
        lambda f, v, w: vjp(f, v, w)[1](w[0])[0],
        lambda f, v, w: assay.func.hessian(lambda x: f(x, w))(v),
        lambda f, v, w: jvp(assay.func.grad(f), (v, w), (w, v))[1],
    ],
)
def test_a_compiled_function_is_differentiated_by_several_levels(derivative: Any) -> None:
    def f(x: Any, y: Any) -> Any:
        return ((x.view(1, 2) * y).tanh().exp() ** 3).sum()

    def results(g: Any) -> list[Any]:
        v, w = (assay.tensor(a, dtype=assay.float64, requires_grad=True) for a in ([0.5, -1.25], [1.5, 0.25]))
        made = derivative(g, v, w)
        return [made, *grad(made.square().sum(), (v, w))]

    for g in (assay.compile(f, backend="reference"), assay.compile(f, backend="reference", memory_budget=0)):
        for got, want in zip(results(g), results(f), strict=True):
            close(got.detach().numpy(), want.detach().numpy())
