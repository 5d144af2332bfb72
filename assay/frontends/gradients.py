"""Gradients of tensors: backward and grad, which walk back through what the level AUTOGRAD has recorded.

    backward(loss)                      adds d loss / d leaf to leaf.grad, for every leaf that requires a gradient
    grad(outputs, inputs, ...)          returns gradients, touches no .grad
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from assay.core.errors import UserError
from assay.frontends import dispatch, source
from assay.frontends.autograd import AUTOGRAD, BackwardError, Edge, Leaf, check_like, differentiate, edge_of
from assay.frontends.tensor import Tensor, fresh
from assay.frontends.value import STATE, Value, apply_by_name, muted


def _several(x: Any) -> list[Any]:
    return list(x) if isinstance(x, list | tuple) else [x]


def seeds_of(outputs: Sequence[Tensor], gradients: Sequence[Tensor | None]) -> list[tuple[Edge, Value]]:
    """Where the gradients start: each output, with its gradient (None: 1, for an output of one element)."""
    if len(outputs) != len(gradients):
        raise UserError(f"{len(outputs)} outputs, but {len(gradients)} gradients of them")
    seeds: list[tuple[Edge, Value]] = []
    for k, (y, g) in enumerate(zip(outputs, gradients, strict=True)):
        v = y.value
        edge = edge_of(v)
        if edge is None:
            raise BackwardError(
                f"{source.quoted()}  output {k}, {v.dtype.name}{list(v.shape)}, has no history to go back through: nothing it "
                "was computed from requires a gradient, or it was computed under no_grad or after detach()"
            )
        if g is None:
            if y.numel() != 1:
                raise BackwardError(
                    f"{source.quoted()}  output {k} has shape {list(v.shape)}; only of one element the gradient is understood "
                    "to be 1. Sum the output, or pass its gradient"
                )
            with muted(STATE.muted | {AUTOGRAD}):
                seed = apply_by_name("full_like", v, 1.0)
        else:
            seed = g.value
            check_like(v, seed, "gradient")
        seeds.append((edge, seed))
    return seeds


def backward(tensors: Any, grad_tensors: Any = None, *, retain_graph: bool | None = None, create_graph: bool = False,
             inputs: Any = None) -> None:  # fmt: skip
    """leaf.grad += sum of d tensors / d leaf times grad_tensors, for every leaf, or only for those of `inputs`.

    What the forward pass saved is let go on the way, unless retain_graph (by default: create_graph).  With create_graph
    the gradients have a history and can be differentiated again.
    """
    outputs = _several(tensors)
    given = [None] * len(outputs) if grad_tensors is None else _several(grad_tensors)
    keep = create_graph if retain_graph is None else retain_graph
    wanted = None if inputs is None else [_edge_of_input(x, k) for k, x in enumerate(_several(inputs))]
    found = differentiate(AUTOGRAD, seeds_of(outputs, given), wanted, keep=keep, create_graph=create_graph)
    for (node, _), g in found.items():
        if type(node) is not Leaf:
            raise UserError("backward(inputs=...) takes leaves; for other tensors use assay.autograd.grad, or retain_grad()")
        _accumulate(node, g, create_graph=create_graph)


def _accumulate(leaf: Leaf, g: Value, *, create_graph: bool) -> None:
    """leaf.grad += g, in its memory unless the sum needs a history."""
    with muted(STATE.muted - {AUTOGRAD} if create_graph else STATE.muted | {AUTOGRAD}):
        if leaf.grad is None:
            leaf.grad = fresh(apply_by_name("clone", g))
        elif create_graph:
            leaf.grad = fresh(apply_by_name("add.Tensor", leaf.grad.value, g, 1))
        else:
            dispatch.store(leaf.grad, apply_by_name("add.Tensor", leaf.grad.value, g, 1), "backward")


def _edge_of_input(x: Tensor, k: int) -> Edge:
    edge = edge_of(x.value)
    if edge is None:
        raise BackwardError(f"{source.quoted()}  input {k}, {x.dtype.name}{list(x.shape)}, does not require a gradient")
    return edge


def grad(outputs: Any, inputs: Any, grad_outputs: Any = None, retain_graph: bool | None = None,  # noqa: FBT001
         create_graph: bool = False, allow_unused: bool = False) -> tuple[Tensor | None, ...]:  # noqa: FBT001, FBT002  # fmt: skip
    """The gradients of the outputs (times grad_outputs) with respect to the inputs; calls that do not lead there are not visited.

    Raises BackwardError for an input that the outputs do not depend on, unless allow_unused: then None stands for it.
    """
    roots = _several(outputs)
    wrt = _several(inputs)
    given = [None] * len(roots) if grad_outputs is None else _several(grad_outputs)
    edges = [_edge_of_input(x, k) for k, x in enumerate(wrt)]
    keep = create_graph if retain_graph is None else retain_graph
    seeds = seeds_of(roots, given)
    found = differentiate(AUTOGRAD, seeds, edges, keep=keep, create_graph=create_graph)
    for k, (x, edge) in enumerate(zip(wrt, edges, strict=True)):
        if edge not in found and not allow_unused:
            raise BackwardError(
                f"{source.quoted()}  the outputs do not depend on input {k}, {x.dtype.name}{list(x.shape)}; say "
                "allow_unused=True to get None for it"
            )
    given = {id(seed) for _, seed in seeds}
    return tuple(None if e not in found else fresh(owned(found[e], given, create_graph=create_graph)) for e in edges)


def owned(g: Value, taken: set[int], *, create_graph: bool = False) -> Value:
    """The gradient in memory of its own: a view, a seed, or what another tensor got already is copied; `taken` takes note."""
    if g.shares or id(g) in taken:
        with muted(STATE.muted - {AUTOGRAD} if create_graph else STATE.muted | {AUTOGRAD}):
            return apply_by_name("clone", g)
    taken.add(id(g))
    return g
