"""Lowering: an operator graph becomes a core program, each operator its own binding.  Nothing is fused here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay.core.lang import Program, T, input, program, recorded_requires

if TYPE_CHECKING:
    from assay.core.graph import Graph


def lower(graph: Graph) -> Program:
    """The program whose outputs are the graph's.

    Every call becomes the meaning of its operator over the tensors of its arguments.  The requires of every call are
    effects, read or not: an input on which the operators would raise is an error of the program too.
    """
    values: dict[Any, Any] = {}
    inputs: list[T] = []

    def resolved(x: Any) -> Any:
        if isinstance(x, list | tuple):
            return type(x)(map(resolved, x))
        return values.get(x, x) if x.__hash__ is not None else x

    with recorded_requires() as effects:
        for node in graph.nodes:
            if node.op == "placeholder":
                made = input(node.name, node.shape, node.dtype)
                inputs.append(made)
            else:
                made = node.target.meaning(*map(resolved, node.args), **{k: resolved(v) for k, v in node.kwargs.items()})
            values[node] = made
    return program(inputs, [resolved(out) for out in graph.outputs], effects, graph.name)
