"""Functions whose results have a history that their values do not show, for this library and for PyTorch (the argument `t`)."""

from __future__ import annotations

from typing import Any


def _written(t: Any, x: Any, w: Any) -> Any:
    y = x * 1
    y[2:] = w
    return y


def _halves(t: Any, x: Any, w: Any) -> Any:
    first, second = t.split(x * 2, 2)
    return first * w, second.detach() * w, second.tril(-5)


CASES: list[tuple[Any, list[tuple[int, ...]], list[str | None]]] = [
    # (function, shapes of its arguments, for each result: None (no history), or which arguments have a gradient)
    # no elements
    (lambda t, x, w: x @ w, [(0, 3), (3, 2)], ["gg"]),
    (lambda t, x, w: (x @ w).sum(), [(0, 3), (3, 2)], ["gg"]),
    (lambda t, x, w: x[:0] @ w, [(4, 3), (3, 2)], ["gg"]),
    (lambda t, x, w: (x[:0] @ w).sum() + x.sum(), [(4, 3), (3, 2)], ["gg"]),
    (lambda t, x, w: (x[:0] * w[:0]).sum(0) + w, [(4, 3), (4, 3)], ["gg"]),
    (lambda t, x, w: (t.cat([x, w]), x * 2), [(0, 3), (2, 3)], ["gg", "g-"]),
    (lambda t, x, w: t.cat([w, w * 2, w, w, x, w]), [(0, 3), (2, 3)], ["gg"]),
    (lambda t, x, w: t.stack([x, w]).transpose(0, 1), [(0, 3), (0, 3)], ["gg"]),
    (lambda t, x, w: t.meshgrid([x, w], indexing="ij"), [(0,), (2,)], ["g-", "-g"]),
    (lambda t, x: x.softmax(-1).square().mean(0), [(0, 3)], ["g"]),
    (lambda t, x: (x.narrow(0, 1, 0).reshape(2, 0), x.unfold(0, 2, 1)[:0]), [(4,)], ["g", "g"]),
    (lambda t, x, w: t.nn.functional.layer_norm(x, (3,), w), [(0, 3), (3,)], ["gg"]),
    (lambda t, x, w: t.nn.functional.conv1d(x, w), [(0, 2, 5), (3, 2, 2)], ["gg"]),
    (lambda t, x: t.nn.functional.pad(x, (2, 1)), [(0,)], ["g"]),
    (lambda t, x, w: t.nn.functional.cross_entropy(x @ w, t.zeros(0, dtype=t.int64), reduction="sum"), [(0, 3), (3, 2)], ["gg"]),
    (lambda t, x, w: t.nn.functional.embedding(t.zeros(0, dtype=t.int64), x) * w, [(5, 3), (3,)], ["gg"]),
    # read as integers, or not as a gradient sees it
    (lambda t, x, w: w.index_select(0, x.long()), [(0,), (3, 2)], ["-g"]),
    (lambda t, x, w: w.index_select(0, x.long()), [(2,), (3, 2)], ["-g"]),
    (lambda t, x: t.zeros_like(x), [(3,)], [None]),
    (lambda t, x: (t.zeros_like(x), x * 2), [(0, 3)], [None, "g"]),
    (lambda t, x: (x.detach() + 1, x * 2), [(0, 3)], [None, "g"]),
    (lambda t, x, w: (x > w, x * 2, (x > w) * w), [(3,), (3,)], [None, "g-", "-g"]),
    # arguments that leave nothing of another one
    (lambda t, x: x**0, [(3,)], ["g"]),
    (lambda t, x, w: (x**0).exp() * w, [(3,), (3,)], ["gg"]),
    (lambda t, x, w: x + t.nn.functional.dropout(w, 1.0), [(3,), (3,)], ["gg"]),
    (lambda t, x: t.nn.functional.dropout(x, 1.0), [(3,)], ["g"]),
    (lambda t, x: x.reshape(1, 3).tril(-5), [(3,)], ["g"]),
    (lambda t, x: x.diagonal(7), [(3, 3)], ["g"]),
    (lambda t, x: x.floor() * 0, [(3,)], ["g"]),
    # results that do not depend on the same arguments
    (lambda t, a, b: (a.exp() * 2, b.tanh() * 3), [(2,), (2,)], ["g-", "-g"]),
    (lambda t, a, b: (a.exp() * 2, b.tanh() ** 0, a + b), [(2,), (2,)], ["g-", "-g", "gg"]),
    (lambda t, a, b: (a * 2, b.detach()), [(2,), (2,)], ["g-", None]),
    (lambda t, x: t.var_mean(x), [(3,)], ["g", "g"]),
    (_halves, [(4, 2), (2, 2)], ["gg", "-g", "g-"]),
    # writes
    (_written, [(4,), (2,)], ["gg"]),
    (_written, [(2,), (0,)], ["gg"]),
]  # fmt: skip


def with_gradients(results: Any, arguments: list[Any], lib: Any) -> list[str | None]:
    """For each result: None where it has no history, else "g" for each argument with a gradient, "-" for each without one."""
    found: list[str | None] = []
    for y in results if isinstance(results, tuple | list) else [results]:
        made = lib.autograd.grad(y.sum(), arguments, allow_unused=True, retain_graph=True) if y.requires_grad else None
        for d, x in zip(made or (), arguments, strict=False):
            assert d is None or (tuple(d.shape) == tuple(x.shape) and d.dtype == x.dtype)
        found.append(None if made is None else "".join("-" if d is None else "g" for d in made))
    return found


SECOND: list[tuple[Any, list[tuple[int, ...]], str]] = [
    # (function to a number, shapes, for each argument what its gradient depends on: nothing (0), or arguments)
    (lambda t, x: ((x * x) ** 0).sum(), [(3,)], "(g)"),
    (lambda t, x: (x * x).reshape(1, 3).tril(-5).sum(), [(3,)], "(g)"),
    (lambda t, x: t.nn.functional.dropout(x * x, 1.0).sum(), [(3,)], "(g)"),
    (lambda t, x: (x.floor() * x).sum(), [(3,)], "(g)"),
    (lambda t, x: (x**0).sum(), [(3,)], "0"),
    (lambda t, x, w: (x * w).sum() + w.sum(), [(3,), (3,)], "(-g) (g-)"),
    (lambda t, x, w: x.exp().sum() + w.tanh().sum(), [(3,), (2,)], "(g-) (-g)"),
]


def second_gradients(y: Any, arguments: list[Any], lib: Any) -> str:
    """For each argument, what the gradient of `y` depends on."""
    found = lib.autograd.grad(y, arguments, create_graph=True)
    return " ".join(f"({with_gradients(d, arguments, lib)[0]})" if d.requires_grad else "0" for d in found)


TANGENTS: list[tuple[Any, list[tuple[int, ...]], list[bool]]] = [
    # (function of arguments of which only the first has a tangent, shapes, which results have one)
    (lambda t, x: x**0, [(3,)], [True]),
    (lambda t, x: (x.reshape(1, 3).tril(-5), t.nn.functional.dropout(x, 1.0)), [(3,)], [True, True]),
    (lambda t, x: (t.zeros_like(x), x.floor(), x.detach(), x > 0), [(3,)], [False, True, False, False]),
    (lambda t, x, w: ((x[:0] @ w).sum(), w * 2, x.long()), [(4, 3), (3, 2)], [True, False, False]),
]


def tangents(f: Any, arguments: list[Any], lib: Any) -> list[bool]:
    """Which results have a tangent."""
    fwd = lib.autograd.forward_ad
    with fwd.dual_level():
        first = fwd.make_dual(arguments[0], lib.ones_like(arguments[0]))
        made = f(first, *arguments[1:])
        found = [fwd.unpack_dual(y).tangent for y in (made if isinstance(made, tuple | list) else (made,))]
    assert all(d is None or d.dtype in (lib.float32, lib.float64) for d in found)
    return [d is not None for d in found]
