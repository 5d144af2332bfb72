"""The joint program of an operator graph (algorithm 5.1): its results, and the gradients that the engine computes.

    Recorded(graph, values, wanted)     the graph, run under a level of reverse mode of its own; .gradients(seeds) goes back
    joint_of_graph(graph, p, ...)       this, where a value is the core tensor that defines it

Derivatives of a graph have no walk of their own: the engine's way back (autograd.py) runs on whatever stack there is.  On
[Abstract, Trace] it is recorded, operator by operator (joint_graph.py); on [Definitions] it makes the definitions of the
gradients, which load those of the forward, the same objects.  So gradients have eager's bits, each sum in eager's order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from assay.core.graph import Graph
from assay.core.ieee import ieee
from assay.core.lang import Program, T, order, recorded_requires
from assay.core.operators.registry import Operator
from assay.frontends.autograd import Autograd, differentiate, make_leaf
from assay.frontends.derived import zeros
from assay.frontends.value import Interpreter, Value, abstract, has_list_result, interpreters, process, pushed
from assay.partition.joint import Joint, joint_from
from assay.transforms.adjoint import cotangents_of
from assay.transforms.rewrite import rewrite
from assay.transforms.views import is_view


class Recorded:
    """A graph that ran on `values` under the present stack and a level of reverse mode: `results`, and those of them (`given`)
    that depend on the inputs `wanted`."""

    def __init__(self, graph: Graph, values: Sequence[Value], wanted: Sequence[int]) -> None:
        self.level = Autograd()
        self.edges = [(make_leaf(values[k], self.level), 0) for k in wanted]
        with pushed(self.level):
            self.results = graph.run(process, values)
        self.given = tuple(k for k, v in enumerate(self.results) if self.level in v.meta)

    def gradients(self, seeds: Mapping[int, Value]) -> list[Value | None]:
        """The gradients of the wanted inputs for these cotangents of results; None: no result depends on it.  Once only."""
        starts = [(self.results[k].meta[self.level], seed) for k, seed in seeds.items() if k in self.given]
        with pushed(self.level):
            found = differentiate(self.level, starts, self.edges, keep=False, create_graph=False)
        return [found.get(edge) for edge in self.edges]


class Definitions(Interpreter):
    """The bottom on which a value is known by the core tensor that defines it: `value.meta[definitions]`."""

    def value(self, t: T) -> Value:
        """A value that means `t`."""
        made = abstract(t.shape, t.dtype)
        made.meta[self] = t
        return made

    def process(self, op: Operator, args: tuple[Any, ...]) -> Any:
        made = op.declared(*map(self._tensors, args))
        found = tuple(map(self.value, made if isinstance(made, tuple) else (made,)))
        return found if has_list_result(op) else found[0]

    def _tensors(self, x: Any) -> Any:
        if isinstance(x, Value):
            return x.meta[self]
        return tuple(map(self._tensors, x)) if isinstance(x, list | tuple) else x


def joint_of_graph(graph: Graph, p: Program, wanted: Sequence[int], given: Sequence[int]) -> Joint:
    """Results of the graph, whose lowered program is `p`, and gradients of its inputs `wanted` for its results `given`.

    Raises Unsupported where an operator has no derivative.
    """
    definitions = Definitions()
    seeds = cotangents_of(p, given)
    values = [definitions.value(t) for t in p.inputs]
    with ieee(), recorded_requires(), interpreters(definitions):
        found = Recorded(graph, values, wanted).gradients({k: definitions.value(t) for k, t in zip(given, seeds, strict=True)})
    return joint_of(graph, p, seeds, dict(zip(wanted, [None if g is None else g.meta[definitions] for g in found], strict=True)))


def joint_of(graph: Graph, p: Program, seeds: Sequence[T], gradients: Mapping[int, T | None]) -> Joint:
    """The joint program of a graph and these gradients of its inputs, zeros where there is none.

    Views that only the way back makes (the transpose of a factor) are composed: no copy of a value is one that could be saved.
    """
    found = [zeros(p.inputs[k]) if g is None else g for k, g in gradients.items()]
    joint = joint_from(p, seeds, found, [p.inputs[graph.inputs.index(n)] for n, _ in graph.epilogue])
    forward = set(order(p.roots))
    return replace(joint, program=rewrite(joint.program, inlined=lambda t, made: t not in forward and is_view(made)))
