"""The joint graph of a function (algorithm 5.1): the engine's own way back, recorded under tracing.

    joint_graph(f, x, w)       forward and backward as one operator graph; x, w: which of them require a gradient is read off

The captured graph runs again on the stack [Abstract, Trace, Autograd]; what the level then does to go back passes through the
trace, which is the backward: gradients that nobody wants are not there, and what the backward reads of the forward are its nodes.
The state of a random generator is an input like any other, its advance a result of the forward.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from assay.core.errors import UserError
from assay.core.graph import Graph, Node, show_graph
from assay.frontends.autograd import AUTOGRAD, Autograd, differentiate, make_leaf
from assay.frontends.capture import Captured, capture, flatten, with_handles
from assay.frontends.tensor import Tensor
from assay.frontends.value import Abstract, Trace, Value, abstract, interpreters, muted, process


@dataclass(frozen=True)
class JointGraph:
    """Results of the forward (`forward` of them, epilogue values first), then gradients of the inputs `wanted`.

    `backward` are the nodes that belong to the way back: cotangents of the results `given`, and calls.
    """

    graph: Graph
    backward: frozenset[Node]
    wanted: tuple[int, ...]
    given: tuple[int, ...]
    captured: Captured

    def __str__(self) -> str:
        """The listing, each line with its phase: placeholders, calls, what is returned."""
        lines = show_graph(self.graph).splitlines()
        phases = ["[BW]" if n in self.backward else "[FW]" for n in (*self.graph.inputs, *self.graph.nodes)]
        body = [f"{phase} {line.strip()}" for phase, line in zip(phases, lines[1:], strict=False)]
        return "\n".join([*body, *(f"[FW] {line.strip()}" for line in lines[1 + len(body) : -1])])


def joint_graph(f: Callable[..., Any], *args: Any, **kwargs: Any) -> JointGraph:
    """The joint graph of f(*args, **kwargs) for the tensors that require a gradient, those that f finds elsewhere too.

    Raises UserError where none does, or no result depends on one.
    """
    captured = capture(f, args, kwargs)
    tensors = [t for t in with_handles(flatten(args, kwargs)[0]) if isinstance(t, Tensor)]
    wanted = tuple(k for k, s in enumerate(captured.sources) if s.kind != "constant" and _requires_grad(s, tensors))
    level, trace = Autograd(), Trace()
    with interpreters(Abstract(), trace, level), muted(frozenset()):
        values: list[Value] = []
        for node in captured.graph.inputs:
            value = abstract(node.shape, node.dtype)
            trace.placeholder(value, node.name).value = node.value
            values.append(value)
        edges = [(make_leaf(values[k], level), 0) for k in wanted]
        results = captured.graph.run(process, values)
        given = tuple(k for k, v in enumerate(results) if level in v.meta)
        if not given:
            raise UserError("no result of the function depends on a tensor that requires a gradient")
        forward = set(trace.nodes) | set(trace.inputs)
        seeds = [abstract(results[k].shape, results[k].dtype) for k in given]
        for n, seed in enumerate(seeds):
            trace.placeholder(seed, f"tangents_{n + 1}")
        found = differentiate(level, [(results[k].meta[level], s) for k, s in zip(given, seeds, strict=True)], edges,
                              keep=False, create_graph=False)  # fmt: skip
        unused = [k for k, e in zip(wanted, edges, strict=True) if e not in found]
        outputs = [trace.node(v) for v in (*results, *(found[e] for e in edges if e in found))]
    places = dict(zip(captured.graph.inputs, trace.inputs, strict=False))
    cut = len(captured.graph.epilogue)
    epilogue = [(places[n], value) for (n, _), value in zip(captured.graph.epilogue, outputs[:cut], strict=True)]
    graph = Graph(trace.inputs, trace.nodes, outputs[cut:], epilogue, captured.graph.name).without_dead_code()
    later = frozenset(n for n in (*graph.inputs, *graph.nodes) if n not in forward)
    return JointGraph(graph, later, tuple(k for k in wanted if k not in unused), given, captured)


def _requires_grad(source: Any, tensors: list[Tensor]) -> bool:
    if source.kind == "argument":
        return tensors[source.index].requires_grad
    return AUTOGRAD in source.storage(tensors).value.meta
