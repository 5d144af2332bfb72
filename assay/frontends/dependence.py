"""What the results of a captured function depend on, as its derivatives see it: call by call, as eager evaluation records it.

    flow(graph)                   for each node, for each of its outputs, the inputs of the graph that a gradient of it goes to
    dependences_of_graph(graph)   the same of its results

The program that a graph is lowered to says less: it does not read what comes to nothing (x**0, an axis of no elements).
"""

from __future__ import annotations

from assay.core.graph import GETITEM, Graph, Node
from assay.core.operators.dependence import NOTHING, Dependences


def flow(graph: Graph) -> dict[Node, Dependences]:
    """Which inputs each output of each node depends on."""
    known: dict[Node, Dependences] = {n: (frozenset((k,)),) for k, n in enumerate(graph.inputs)}
    for node in graph.nodes:
        if node.kind == GETITEM:
            known[node] = (known[node.args[0]][node.args[1]],)
            continue
        of = [known[n][0] for n in node.operands]
        on = node.target.dependences(node.target.program(*node.args))
        known[node] = tuple([NOTHING.union(*map(of.__getitem__, inputs)) for inputs in on])
    return known


def dependences_of_graph(graph: Graph) -> Dependences:
    """Which inputs each result depends on."""
    known = flow(graph)
    return tuple([known[n][0] for n in graph.results])
