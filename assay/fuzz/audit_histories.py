"""Audit of what has a history, and of slopes that are said and not those of values: op by op, compiled, and in forward mode.

Each question is a function of x = [1, 1] and w = [1, 1], and the means of the gradients (None: no gradient) that PyTorch gives
its results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from assay.autograd.forward_ad import dual_level, make_dual, unpack_dual
from assay.compiler import compile
from assay.core.operators.registry import lookup
from assay.frontends.autograd import BackwardError
from assay.frontends.creation import from_numpy
from assay.frontends.dispatch import apply
from assay.frontends.gradients import grad
from assay.frontends.tensor import Tensor

Gradient: TypeAlias = "float | None"
Case: TypeAlias = "tuple[Callable[..., Any], list[tuple[Gradient, Gradient]]]"


def _call(name: str, *arguments: Any) -> Any:
    return apply(lookup(name), arguments)


SIZE = 2
CASES: dict[str, Case] = {
    "x**0 * w": (lambda x, w: x**0 * w, [(0.0, 1.0)]),
    "tril(x, -5) + w": (lambda x, w: x.reshape(1, 2).tril(-5).sum() + w, [(0.0, 1.0)]),
    "x[:0] @ w[:0] + x": (lambda x, w: x[:0] @ w[:0] + x, [(1.0, 0.0)]),
    "cat(x, w[:0], w[:0])": (lambda x, w: _call("cat.default", (x, w[:0], w[:0]), 0), [(1.0, 0.0)]),
    "meshgrid(x[:0], w)": (lambda x, w: _call("meshgrid.indexing", (x[:0], w), "ij"), [(0.0, None), (None, 0.0)]),
    "exp(0 * x), w + w": (lambda x, w: ((x * 0).exp(), w + w), [(0.0, None), (None, 2.0)]),
    "x.detach() * w": (lambda x, w: x.detach() * w, [(None, 1.0)]),
    "w[x.long()]": (lambda x, w: w.index_select(0, x.long()), [(None, 1.0)]),
    "overwritten(x, w)": (lambda x, w: _call("overwritten.default", x, w), [(1.0, None)]),
    "maximum(x, w)": (lambda x, w: x.maximum(w), [(0.5, 0.5)]),
    "amax(x) * w": (lambda x, w: x.amax() * w, [(1.0, 1.0)]),
}


def wrong_history(seed: int) -> tuple[str, str] | None:
    """What one question finds: the part, and what it says."""
    name = [*CASES][seed % len(CASES)]
    f, wanted = CASES[name]
    compiled = name != "overwritten(x, w)"  # a compiled function refuses to lose a history
    for how, g in (("op by op", f), *((("compiled", compile(f, backend="reference")),) if compiled else ())):
        try:
            found = _gradients(g)
        except BackwardError as error:
            return "autograd", f"{name}, {how}: {error}"
        if found != wanted:
            return "autograd", f"{name}, {how}: the gradients of its results are {found}, not {wanted}"
        along = _tangents(g)
        if along != [None if x is None else x * SIZE for x, _ in wanted]:
            return "autograd", f"{name}, {how}: for the gradients {wanted} the tangents along x = [1, 1] sum up to {along}"
    return None


def _gradients(f: Callable[..., Any]) -> list[tuple[Gradient, ...]]:
    """For each result, the mean of each gradient."""
    arguments = [from_numpy(np.ones(SIZE)).requires_grad_() for _ in range(2)]
    made = f(*arguments)
    results: Sequence[Tensor] = made if isinstance(made, tuple | list) else (made,)
    found = [grad(y.sum(), arguments, allow_unused=True, retain_graph=True) for y in results]
    return [tuple([None if d is None else float(d.numpy().mean()) for d in each]) for each in found]


def _tangents(f: Callable[..., Any]) -> list[Gradient]:
    """For each result, the sum of its tangent along x = [1, 1]; None: it has none."""
    ones = from_numpy(np.ones(SIZE))
    with dual_level():
        made = f(make_dual(ones, ones), ones)
        results: Sequence[Tensor] = made if isinstance(made, tuple | list) else (made,)
        found = [unpack_dual(y).tangent for y in results]
    return [None if t is None else float(t.numpy().sum()) for t in found]
