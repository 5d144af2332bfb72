"""Functions of the user inside of compiled functions: the user's backward is captured too; gradients have eager's bits."""

from collections.abc import Callable
from typing import Any

import pytest

import assay
from assay.autograd import BackwardError, Function, grad
from assay.core.errors import Unsupported
from assay.func import jvp
from tests.frontends.functions import Exp

t = assay.tensor


class Round(Function):
    """Rounding, straight through: a backward that does not follow from the forward."""

    @staticmethod
    def forward(ctx: Any, x: Any, scale: float) -> Any:
        ctx.scale = scale
        return (x * scale).round() / scale

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.scale, None


class Both(Function):
    """Two results; a gradient for one argument of two."""

    @staticmethod
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        ctx.save_for_backward(x, w)
        return x * w, (x - w).sin()

    @staticmethod
    def backward(ctx: Any, g: Any, h: Any) -> Any:
        x, w = ctx.saved_tensors
        return (g * w + h * x if ctx.needs_input_grad[0] else None), None


class Step(Function):
    """A gradient for a comparison."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return (x > 0).float()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g


PROGRAMS: list[tuple[str, Callable[..., Any]]] = [
    ("exp", lambda x, w: (Exp.apply(x * w) * x).sin()),
    ("round", lambda x, w: Round.apply(x * w, 4.0) ** 2 + w),
    ("both", lambda x, w: sum(Both.apply(x.sin(), w)) * w),
    ("twice", lambda x, w: Exp.apply(Round.apply(x, 2.0)) + Exp.apply(w)),
    ("several", lambda x, w: (Exp.apply(x), w * 2)),
]


def gradients(f: Callable[..., Any], *, only: int | None = None) -> list[Any]:
    x, w = t([0.3, -1.2, 2.0], requires_grad=only != 1), t([1.1, 0.4, -0.7], requires_grad=only != 0)
    made = f(x, w)
    results = [y for y in (made if isinstance(made, tuple) else (made,)) if y.requires_grad]
    wrt = [v for v in (x, w) if v.requires_grad]
    return [g if g is None else g.tolist() for g in grad([y.sum() for y in results], wrt, allow_unused=True)]


@pytest.mark.parametrize(("name", "f"), PROGRAMS, ids=[name for name, _ in PROGRAMS])
@pytest.mark.parametrize("only", [None, 0, 1])
def test_gradients_have_eagers_bits(name: str, f: Callable[..., Any], only: int | None) -> None:
    want = gradients(f, only=only)
    got = gradients(assay.compile(f, backend="reference"), only=only)
    zeros = [0.0] * 3  # a compiled function gives zeros where eager finds no way back
    assert [zeros if g is None else g for g in got] == [zeros if g is None else g for g in want]


@pytest.mark.cpp
def test_compiled_by_g() -> None:
    f = PROGRAMS[1][1]
    assert gradients(assay.compile(f)) == gradients(f)


def test_a_budget_and_levels_of_func() -> None:
    f = PROGRAMS[0][1]
    g = assay.compile(f, backend="reference", memory_budget=0)
    assert gradients(g) == gradients(f)
    x, w = t([0.3]), t([1.1])
    assert assay.func.grad(lambda x: g(x, w).sum())(x).tolist() == assay.func.grad(lambda x: f(x, w).sum())(x).tolist()


class ByItsOwnGradient(Function):
    """A backward that asks for a gradient itself, as checkpoints do."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return (x.sin() * x).exp()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        assert not assay.is_grad_enabled()
        with assay.enable_grad():
            z = ctx.saved_tensors[0].detach().requires_grad_()
            y = (z.sin() * z).exp()
        return grad(y, z, g)[0]


def test_a_backward_that_asks_for_a_gradient() -> None:
    f = lambda x, w: ByItsOwnGradient.apply(x * w) * w  # noqa: E731
    assert gradients(assay.compile(f, backend="reference")) == gradients(f)


def test_what_is_refused() -> None:
    x = t([0.3, 2.0], requires_grad=True)
    g = assay.compile(lambda x: Round.apply(x, 2.0), backend="reference")
    (d,) = grad((g(x) ** 2).sum(), x, create_graph=True)
    with pytest.raises(Unsupported, match="has no gradient"):
        d.sum().backward()
    with pytest.raises(Unsupported, match=r"calls Exp, .* Python: compiled, it has no forward derivative\. Compile the parts"):
        jvp(assay.compile(Exp.apply, backend="reference"), (t([1.0]),), (t([1.0]),))
    with pytest.raises(Unsupported, match=r"calls Exp, .* Python: compiled for all sizes, it has no gradient\. Compile it for"):
        assay.compile(lambda x: Exp.apply(x), backend="reference", dynamic=True)(x)
    with pytest.raises(Unsupported, match="gives a gradient to what its forward does not depend on through floats"):
        assay.compile(lambda x: Step.apply(x), backend="reference")(x)
    with pytest.raises(Unsupported, match="gives a gradient to what its forward does not depend on through floats"):
        assay.compile(lambda x, y: (y + Step.apply(x), x * 2), backend="reference")(x, t([0.3, 2.0], requires_grad=True))
    assert assay.compile(lambda x: Step.apply(x), backend="reference")(t([1.0])).tolist() == [1.0]

    class Outside(Exp):
        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * x.detach()

    with pytest.raises(Unsupported, match="reads a tensor that forward does not: save it"):
        assay.compile(lambda x: Outside.apply(x), backend="reference")(x).sum().backward()


def test_a_wrong_backward_is_told_as_in_eager_evaluation() -> None:
    class Wrong(Exp):
        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g, g

    x = t([1.0], requires_grad=True)
    for f in (Wrong.apply, assay.compile(lambda x: Wrong.apply(x), backend="reference")):
        with pytest.raises(assay.UserError, match=r"Wrong\.backward returned 2 gradients for 1 arguments"):
            f(x).sum().backward()
    y = assay.compile(lambda x: Exp.apply(x), backend="reference")(x)
    y.sum().backward()
    with pytest.raises(BackwardError, match="before"):
        y.sum().backward()
