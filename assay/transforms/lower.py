"""Lowering: an operator graph becomes a core program, each operator its own binding.  Nothing is fused here."""

from __future__ import annotations

from assay.core.errors import UserError
from assay.core.graph import Graph
from assay.core.ieee import ieee
from assay.core.lang import Program, input, program, recorded_requires


def lower(graph: Graph) -> Program:
    """The program of the graph's inputs whose outputs are the graph's results: epilogue values, then outputs.

    Every call becomes the meaning of its operator over the tensors of its arguments, `as_if` it were its convention where it
    has one.  The requires of every call are effects, read or not: an input on which the operators would raise is an error
    of the program too.
    Raises UserError for what is no graph.
    """
    if not isinstance(graph, Graph):
        raise UserError(f"lower() takes a graph, not {type(graph).__name__}: assay.lower(assay.trace(f, *args))")
    with ieee(), recorded_requires() as effects:
        inputs = [input(node.name, node.shape, node.dtype) for node in graph.inputs]
        results = graph.run(lambda operator, arguments: operator.declared(*arguments), inputs)
    return program(inputs, results, effects, graph.name)
