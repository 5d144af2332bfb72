"""The joint graph of a function (algorithm 5.1): the engine's own way back, recorded under tracing.

    joint_graph(f, x, w)       forward and backward as one operator graph; x, w: which of them require a gradient is read off

The captured graph runs again, recorded (joint.py), on the stack [Abstract, Trace]; what the engine then does to go back passes
through the trace, which is the backward: gradients that nobody wants are not there, and what it reads of the forward are nodes.
The state of a random generator is an input like any other, its advance a result of the forward.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from assay.core.errors import Unsupported, UserError
from assay.core.graph import Graph, Node, show_graph
from assay.frontends.autograd import AUTOGRAD
from assay.frontends.capture import Captured, capture, flatten, with_handles
from assay.frontends.joint import Recorded
from assay.frontends.source import quoted
from assay.frontends.tensor import Tensor
from assay.frontends.value import Abstract, Trace, abstract, interpreters, muted


@dataclass(frozen=True)
class JointGraph:
    """Results of the forward (epilogue values first), then gradients of the inputs `wanted`.

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

    Raises UserError where none does, or no result depends on one, Unsupported where f calls a Function of the user.
    """
    captured = capture(f, args, kwargs)
    if captured.functions:
        raise Unsupported(
            f"{quoted()}  the function calls {', '.join(dict.fromkeys(captured.functions))}, whose backward is Python and no "
            "graph of operators; ask for the joint graphs of the parts around it"
        )
    tensors = [t for t in with_handles(flatten(args, kwargs)[0]) if isinstance(t, Tensor)]
    wanted = tuple(k for k, s in enumerate(captured.sources) if s.kind != "constant" and _requires_grad(s, tensors))
    trace = Trace()
    with interpreters(Abstract(), trace), muted(frozenset()):
        recorded = Recorded(captured.graph, trace.placeholders(captured.graph), wanted)
        if not recorded.given:
            raise UserError("no result of the function depends on a tensor that requires a gradient")
        forward = {*trace.nodes, *trace.inputs}
        seeds = {k: abstract(v.shape, v.dtype) for k, v in enumerate(recorded.results) if k in recorded.given}
        for n, seed in enumerate(seeds.values()):
            trace.placeholder(seed, f"tangents_{n + 1}")
        found = dict(zip(wanted, recorded.gradients(seeds), strict=True))
        graph = trace.retraced(captured.graph, [v for v in (*recorded.results, *found.values()) if v is not None])
    later = frozenset(n for n in (*graph.inputs, *graph.nodes) if n not in forward)
    return JointGraph(graph, later, tuple(k for k, g in found.items() if g is not None), recorded.given, captured)


def _requires_grad(source: Any, tensors: list[Tensor]) -> bool:
    if source.kind == "argument":
        return tensors[source.index].requires_grad
    return AUTOGRAD in source.storage(tensors).value.meta
