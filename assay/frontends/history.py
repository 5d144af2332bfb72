"""The way back of a captured function that calls Functions of the user: their backward is Python, so the capture keeps it.

    History(trace)      a level of reverse mode above the trace, of which all inputs are leaves
    .joint(graph, p, wanted, given)     the joint program: the way back runs under the same trace, through the user's backward
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Sequence

from assay.core.errors import Unsupported
from assay.core.graph import Graph, Node
from assay.core.ieee import ieee
from assay.core.lang import Program, recorded_requires
from assay.frontends.autograd import AUTOGRAD, Autograd, CallNode, Edge, differentiate, make_leaf
from assay.frontends.derived import ProgramOperator
from assay.frontends.joint import joint_of
from assay.frontends.value import Abstract, Trace, Value, abstract, interpreters, muted
from assay.partition.joint import Joint
from assay.transforms.adjoint import cotangents_of


class History:
    """What a capture on the stack [Abstract, trace, own] remembers of inputs and results."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.own = Autograd()
        self.leaves: dict[Node, Edge] = {}
        self.results: dict[Node, Edge] = {}
        self._lock = threading.Lock()

    def leaf(self, value: Value) -> None:
        """An input of the function."""
        if value.dtype.is_float:
            self.leaves[value.meta[self.trace]] = make_leaf(value, self.own), 0

    def result(self, node: Node, value: Value) -> None:
        """A result of it."""
        if self.own in value.meta:
            self.results[node] = value.meta[self.own]

    def check(self, graph: Graph, op: ProgramOperator, wanted: tuple[int, ...]) -> None:
        """Raises Unsupported where a Function gives a gradient to what its forward does not depend on through floats."""
        for k, r in enumerate(graph.results):
            there = _led_to(self.results[r]) if r in self.results else set[Edge]()
            if any(self.leaves.get(graph.inputs[j]) in there for j in wanted if j not in op.known[k]):
                raise Unsupported(
                    f"a Function inside of the compiled {graph.name} gives a gradient to what its forward does not depend on "
                    "through floats (a comparison, say); call the function without compile where gradients are wanted"
                )

    def joint(self, graph: Graph, p: Program, wanted: Sequence[int], given: Sequence[int]) -> Joint:
        """Results of the graph, whose lowered program is `p`, and gradients of its inputs `wanted` for its results `given`."""
        trace = self.trace
        ends = [self.leaves.get(graph.inputs[k]) for k in wanted]
        with self._lock, interpreters(Abstract(), trace, self.own, AUTOGRAD), muted(frozenset((AUTOGRAD,))):
            nodes, inputs, cells, outside = (copy.copy(x) for x in (trace.nodes, trace.inputs, trace.cells, trace.outside))
            try:
                seeds: list[tuple[Edge, Value]] = []
                cotangents: list[Node] = []
                for k in given:
                    r = graph.results[k]
                    seed = abstract(r.shape, r.dtype)
                    cotangents.append(trace.placeholder(seed, f"tangents_{k}"))
                    if r in self.results:
                        seeds.append((self.results[r], seed))
                found = differentiate(self.own, seeds, [e for e in ends if e is not None], keep=True, create_graph=False)
                gradients = [found.get(e) if e is not None else None for e in ends]
                returned = [trace.node(g) for g in gradients if g is not None]
                if len(trace.inputs) > len(inputs) + len(cotangents):
                    raise Unsupported(
                        f"the backward of a Function inside of the compiled {graph.name} reads a tensor that forward does not: "
                        "save it with ctx.save_for_backward, or compile the parts around it"
                    )
                back = Graph([*graph.inputs, *cotangents], trace.nodes, returned, (), graph.name)
            finally:
                trace.nodes, trace.inputs, trace.cells, trace.outside = nodes, inputs, cells, outside
        with ieee(), recorded_requires():
            starts = cotangents_of(p, given)
            made = iter(back.run(lambda op, args: op.declared(*args), [*p.inputs, *starts]))
            wrt = {k: None if g is None else next(made) for k, g in zip(wanted, gradients, strict=True)}
            return joint_of(graph, p, starts, wrt)


def _led_to(start: Edge) -> set[Edge]:
    """Where a gradient goes on its way back from there."""
    seen = {start}
    todo = [start]
    while todo:
        node, k = todo.pop()
        on = node.op.dependences(node.program)[k] if isinstance(node, CallNode) else None
        inputs = node.wanted if isinstance(node, CallNode) else range(len(node.edges))
        for j, edge in zip(inputs, node.edges, strict=True):
            if edge is not None and edge not in seen and (on is None or j in on):
                seen.add(edge)
                todo.append(edge)
    return seen
