"""Gradients of tensors: backward and grad, which walk back through what the level AUTOGRAD has recorded.

    backward(loss)                      adds d loss / d leaf to leaf.grad, for every leaf that requires a gradient
    grad(outputs, inputs, ...)          returns gradients, touches no .grad
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from assay.core.errors import UserError
from assay.frontends import dispatch, source
from assay.frontends.autograd import (
    AUTOGRAD,
    BackwardError,
    Edge,
    Leaf,
    add_found,
    check_level,
    check_like,
    differentiate,
    edge_of,
)
from assay.frontends.tensor import Tensor, fresh
from assay.frontends.value import Value, apply_by_name, recording

_adding = threading.Lock()


def _several(x: Any, what: str, *, optional: bool = False) -> list[Any]:
    """The tensors that were given, one or a sequence of them (optional: or None).  Raises TypeError for anything else."""
    given = list(x) if isinstance(x, list | tuple) else [x]
    for k, y in enumerate(given):
        if not (isinstance(y, Tensor) or (optional and y is None)):
            allowed = "a tensor or None" if optional else "a tensor"
            raise TypeError(f"{source.quoted()}  {what} {k} is {allowed}, not {type(y).__name__}")
    return given


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
                f"output {k}, {v.dtype.name}{list(v.shape)}, has no history to go back through: nothing it "
                "was computed from requires a gradient, or it was computed under no_grad or after detach()"
            )
        if g is None:
            if y.numel() != 1:
                raise BackwardError(
                    f"output {k} has shape {list(v.shape)}; only of one element the gradient is understood "
                    "to be 1. Sum the output, or pass its gradient"
                )
            with recording(AUTOGRAD, wanted=False):
                seed = apply_by_name("full_like", v, 1.0)
        else:
            seed = g.value
            if seed.dtype is not v.dtype and seed.dtype.is_float and v.dtype.is_float:
                seed = apply_by_name("to.dtype", seed, v.dtype)
            check_like(v, seed, "gradient")
        seeds.append((edge, seed))
    return seeds


@source.at_the_users_line
def backward(tensors: Any, grad_tensors: Any = None, *, retain_graph: bool | None = None, create_graph: bool = False,
             inputs: Any = None) -> None:  # fmt: skip
    """leaf.grad += sum of d tensors / d leaf times grad_tensors, for every leaf, or only for those of `inputs`.

    What the forward pass saved is let go on the way, unless retain_graph (by default: create_graph).  With create_graph
    the gradients have a history and can be differentiated again.
    """
    check_level()
    outputs = _several(tensors, "output")
    given = [None] * len(outputs) if grad_tensors is None else _several(grad_tensors, "the gradient of output", optional=True)
    keep = create_graph if retain_graph is None else retain_graph
    wanted = None if inputs is None else [_edge_of_input(x, k) for k, x in enumerate(_several(inputs, "input"))]
    if wanted == []:
        raise BackwardError("inputs=[] asks for no gradient; leave it out to have those of all leaves")
    found = differentiate(AUTOGRAD, seeds_of(outputs, given), wanted, keep=keep, create_graph=create_graph)
    for (node, k), g in found.items():
        if type(node) is Leaf:
            _accumulate(node, g, create_graph=create_graph)
        elif k not in (node.retained or ()):  # the walk has seen to those
            with recording(AUTOGRAD, wanted=create_graph):
                add_found(node, k, g)


def _accumulate(leaf: Leaf, g: Value, *, create_graph: bool) -> None:
    """leaf.grad += g, in its memory unless the sum needs a history.  Threads take turns."""
    with _adding, recording(AUTOGRAD, wanted=create_graph):
        if leaf.grad is None:
            leaf.grad = fresh(apply_by_name("clone", g))
        elif create_graph:
            leaf.grad = fresh(apply_by_name("add.Tensor", leaf.grad.value, g, 1))
        else:
            dispatch.store(leaf.grad, apply_by_name("add.Tensor", leaf.grad.value, g, 1), "backward")
    for hook in list((leaf.after or {}).values()):
        hook()


def _edge_of_input(x: Tensor, k: int) -> Edge:
    edge = edge_of(x.value)
    if edge is None:
        raise BackwardError(f"input {k}, {x.dtype.name}{list(x.shape)}, does not require a gradient")
    return edge


@source.at_the_users_line
def grad(outputs: Any, inputs: Any, grad_outputs: Any = None, retain_graph: bool | None = None,  # noqa: FBT001
         create_graph: bool = False, only_inputs: bool = True, allow_unused: bool | None = None,  # noqa: FBT001, FBT002
         is_grads_batched: bool = False, materialize_grads: bool = False) -> tuple[Tensor | None, ...]:  # noqa: FBT001, FBT002  # fmt: skip
    """The gradients of the outputs (times grad_outputs) with respect to the inputs; calls that do not lead there are not visited.

    is_grads_batched: each grad_output has one axis more, the first, and so has each gradient: one pass for each index.
    Raises BackwardError for an input that the outputs do not depend on, unless allow_unused (None stands for it then) or
    materialize_grads (zeros do), and for only_inputs=False: that is backward().
    """
    check_level()
    if not only_inputs:
        raise BackwardError("only_inputs=False: backward() is what adds to the .grad of leaves")
    if is_grads_batched:
        rows = zip(*(g.unbind(0) for g in _several(grad_outputs, "the gradient of output")), strict=True)
        each = [grad(outputs, inputs, row, True, create_graph, True, allow_unused, False, materialize_grads) for row in rows]
        columns = zip(*each, strict=True)
        return tuple(None if any(g is None for g in gs) else dispatch.call("stack", (gs, 0), {}) for gs in columns)
    roots = _several(outputs, "output")
    wrt = _several(inputs, "input")
    given = [None] * len(roots) if grad_outputs is None else _several(grad_outputs, "the gradient of output", optional=True)
    edges = [_edge_of_input(x, k) for k, x in enumerate(wrt)]
    keep = create_graph if retain_graph is None else retain_graph
    seeds = seeds_of(roots, given)
    found = differentiate(AUTOGRAD, seeds, edges, keep=keep, create_graph=create_graph)
    for k, (x, edge) in enumerate(zip(wrt, edges, strict=True)):
        if edge not in found and not allow_unused and not materialize_grads:
            raise BackwardError(
                f"the outputs do not depend on input {k}, {x.dtype.name}{list(x.shape)}; say "
                "allow_unused=True to get None for it"
            )
    given = {id(seed) for _, seed in seeds}
    with recording(AUTOGRAD, wanted=create_graph):
        return tuple(
            fresh(owned(found[e], given)) if e in found
            else dispatch.call("zeros_like", (x,), {}) if materialize_grads else None
            for x, e in zip(wrt, edges, strict=True)
        )  # fmt: skip


def owned(g: Value, taken: set[int]) -> Value:
    """The gradient in memory of its own: a view, a seed, or what another tensor got already is copied; `taken` takes note.

    The levels see the copy as they see what happens here.
    """
    if g.shares or id(g) in taken:
        return apply_by_name("clone", g)
    taken.add(id(g))
    return g
