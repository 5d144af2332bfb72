"""Writes that derivatives do not see (no_grad, detach, a view made under no_grad): a compiled function treats them as eager does.

What is written keeps the history that it had, its values change, its version counts.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import assay
from assay.autograd import grad

t = assay.tensor


def whole(x: Any) -> Any:
    y = x * 3
    with assay.no_grad():
        y.mul_(2)
    return y * y


def part(x: Any) -> Any:
    y = x * 3
    with assay.no_grad():
        y[0] = 7.0
    return y * y


def detached(x: Any) -> Any:
    y = x * 3
    y.detach().mul_(2)
    y.data[0] = -1.0
    return y * y


def view_made_unseen(x: Any) -> Any:
    y = x * 3
    with assay.no_grad():
        v = y[:1]
    v.mul_(2)
    return y * y


def copied(x: Any) -> Any:
    y = x * 3
    with assay.no_grad():
        y.copy_(x.exp())
    return y * y


def seen_and_unseen(x: Any) -> Any:
    y = x * 3
    y.add_(x.sin())
    with assay.no_grad():
        y[1:].clamp_(max=0.5)
    y.mul_(y)
    return y


def leaf(x: Any) -> Any:
    with assay.no_grad():
        x -= 0.5
    return x * x


def leaf_and_result(x: Any) -> Any:
    y = x * 3
    with assay.no_grad():
        x.mul_(0.5)
        x[0] = 4.0
    return y * 2, x


def integers(x: Any) -> Any:
    n = (x > 1).long()
    with assay.no_grad():
        n += 1
    return x * n


def inside(x: Any) -> Any:
    """A gradient that is asked for within, of a function that writes unseen."""
    return assay.func.grad(lambda x: part(x).sum())(x) * x


PROGRAMS: list[Callable[[Any], Any]] = [
    whole, part, detached, view_made_unseen, copied, seen_and_unseen, leaf, leaf_and_result, integers, inside,
]  # fmt: skip


def outcome(f: Callable[[Any], Any], *, order: int = 1) -> list[Any]:
    """Gradients, what became of the argument, and how often it was written."""
    x = t([1.0, 2.0, -0.5], requires_grad=True)
    made = f(x)
    results = made if isinstance(made, tuple) else (made,)
    gradients = grad([y.sum() for y in results], [x], create_graph=order > 1)
    if order > 1:
        gradients = grad((gradients[0] * gradients[0]).sum(), [x], allow_unused=True)
    return [None if g is None else g.tolist() for g in gradients] + [x.tolist(), x.value.writes.count, x.is_leaf]


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("options", [{}, {"dynamic": True}], ids=["", "dynamic"])
def test_compiled_gradients_have_eagers_bits(f: Callable[[Any], Any], options: dict[str, Any]) -> None:
    if f is inside and options:
        pytest.skip("derivatives are not taken inside of a function for all sizes")
    want, got = outcome(f), outcome(assay.compile(f, backend="reference", **options))
    if f in (leaf, leaf_and_result):  # one write at the end of a call, whatever it takes inside
        want[-2] = got[-2] = min(want[-2], got[-2], 1)
    assert got == want


def test_the_second_order_too() -> None:
    for f in (whole, part, detached, copied):
        assert outcome(assay.compile(f, backend="reference"), order=2) == outcome(f, order=2)


def test_values_without_gradients() -> None:
    for f in PROGRAMS:
        a, b = t([1.0, 2.0, -0.5]), t([1.0, 2.0, -0.5])
        want, got = f(a), assay.compile(f, backend="reference")(b)
        assert [y.tolist() for y in (want if isinstance(want, tuple) else (want,))] == [
            y.tolist() for y in (got if isinstance(got, tuple) else (got,))
        ]
        assert a.tolist() == b.tolist()


@pytest.mark.cpp
def test_compiled_by_g() -> None:
    assert outcome(assay.compile(seen_and_unseen)) == outcome(seen_and_unseen)


def test_what_requires_a_gradient_is_not_written_where_none_is_recorded() -> None:
    def f(x: Any) -> Any:
        y = x * 3
        with assay.no_grad():
            v = y[:1]
        v.copy_(x[:1])
        return y

    for g in (f, assay.compile(f, backend="reference")):
        with pytest.raises(assay.UserError, match=r"v\.copy_\(x\[:1\]\)\n.*shares memory with one that it is detached from"):
            g(t([1.0, 2.0], requires_grad=True))
        assert g(t([1.0, 2.0])).tolist() == [1.0, 6.0]


def test_a_recorded_write_to_a_leaf_is_still_an_error() -> None:
    def f(x: Any) -> Any:
        x += 1
        with assay.no_grad():
            x *= 2
        return x

    for g in (f, assay.compile(f, backend="reference")):
        x = t([1.0], requires_grad=True)
        with pytest.raises(assay.autograd.BackwardError, match="leaf"):
            g(x)
        assert x.tolist() == [1.0]


def test_a_level_that_is_muted_keeps_what_it_knows() -> None:
    """A write that an inner gradient records and an outer one, under no_grad, does not: the outer history stays."""
    x = t([2.0], requires_grad=True)
    y = x * 3

    def f(w: Any) -> Any:
        y.mul_(w)
        return y.sum()

    with assay.no_grad():
        assert assay.func.grad(f)(t([5.0])).tolist() == [6.0]
    assert y.requires_grad
    (y * 1.0).sum().backward()
    assert x.grad.tolist() == [3.0]


# ------------------------------------------------------------------------------------------------ results that share memory


@pytest.mark.parametrize("options", [{}, {"dynamic": True}], ids=["", "dynamic"])
def test_a_view_made_unseen_is_returned_without_a_history(options: dict[str, Any]) -> None:
    def f(x: Any) -> Any:
        y = x * 2
        with assay.no_grad():
            v = y[0]
        return y, v, x[1:], y[1]

    for g in (f, assay.compile(f, backend="reference", **options)):
        x = t([1.0, 2.0], requires_grad=True)
        assert [y.requires_grad for y in g(x)] == [True, False, True, True]
        with assay.no_grad():
            assert [y.requires_grad for y in g(x)] == [False, False, False, False]


def test_cotangents_of_results_that_share_memory_meet_in_eagers_order() -> None:
    """Contributions of very different sizes: another order of a sum has other bits."""

    def f(x: Any) -> Any:
        y = x.sin() * x
        v = y[1:]
        w, u = v[::2], y.reshape(2, -1)
        return w, y, u, v

    g = assay.compile(f, backend="reference")
    for seed in range(20):
        found: list[Any] = []
        for h in (f, g):
            rng = np.random.default_rng(seed)
            x = t(rng.standard_normal(12) * 10.0 ** rng.integers(-3, 3, 12), requires_grad=True)
            results: Any = h(x)
            total: Any = 0.0
            for k in rng.permutation(8):
                y = results[k % 4]
                total = total + (y * t(rng.standard_normal(y.shape) * 10.0 ** rng.integers(-6, 6, y.shape))).sum()
            found.append(grad(total, x)[0].tolist())
        assert found[0] == found[1], seed
