"""The joint program of an operator graph (algorithm 5.1): its results, and the gradients that the engine would compute.

The walk is that of frontends/autograd.py, on core tensors instead of values: the derived operators of the calls from last to
first, each gradient added to what has come before.  So every sum is in eager's order, and gradients have eager's bits.  What a
derived operator loads are the definitions of the forward, the same objects; what both need is there once.
"""

from __future__ import annotations

from collections.abc import Sequence

from assay.core.graph import GETITEM, Graph, Node, map_nodes
from assay.core.ieee import ieee
from assay.core.lang import Program, T, const, recorded_requires, tensor
from assay.core.operators.registry import OPERATORS
from assay.frontends.derived import active, pullback
from assay.frontends.value import abstract
from assay.partition.joint import Joint, joint_from
from assay.transforms.adjoint import cotangents_of

Place = tuple[Node, int]
"""A result of a call, or an input."""


def joint_of_graph(graph: Graph, p: Program, wanted: Sequence[int], given: Sequence[int]) -> Joint:
    """Results of the graph, whose lowered program is `p`, and gradients of its inputs `wanted` for its results `given`.

    Raises Unsupported where an operator has no derivative.
    """
    with ieee(), recorded_requires():
        walk = _Walk(graph, p, wanted)
        seeds = cotangents_of(p, given)
        found = walk.gradients([graph.results[k] for k in given], seeds, wanted)
        return joint_from(p, seeds, found, changed=[walk.made[n, 0] for n, _ in graph.epilogue])


class _Walk:
    def __init__(self, graph: Graph, p: Program, wanted: Sequence[int]) -> None:
        self.graph = graph
        self.made: dict[Place, T] = {(n, 0): t for n, t in zip(graph.inputs, p.inputs, strict=True)}
        self.active = {(graph.inputs[k], 0) for k in wanted}
        self.calls: list[tuple[Node, tuple[int, ...]]] = []
        for node in graph.nodes:
            if node.kind != GETITEM:
                self._call(node)

    def _call(self, node: Node) -> None:
        """What the call computes, and through which of its arguments a gradient goes on."""
        out = node.target.declared(*(map_nodes(a, lambda n: self.made[place(n)]) for a in node.args))
        self.made.update(((node, k), t) for k, t in enumerate(out if isinstance(out, tuple) else (out,)))
        wanted = tuple(k for k, n in enumerate(node.operands) if place(n) in self.active)
        if wanted and node.target.base != "detach":
            given = active(_program(node), wanted)
            self.active.update((node, k) for k in given)
            self.calls += [(node, wanted)] if given else []

    def gradients(self, results: Sequence[Node], seeds: Sequence[T], wanted: Sequence[int]) -> list[T]:
        found: dict[Place, T] = {}

        def give(at: Place, g: T) -> None:
            before = found.get(at)
            found[at] = g if before is None else OPERATORS["add.Tensor"](before, g, 1)  # type: ignore[assignment]

        for n, seed in zip(results, seeds, strict=True):
            if place(n) in self.active:
                give(place(n), seed)
        for node, arguments in reversed(self.calls):
            p = _program(node)
            given = tuple(k for k in range(len(p.outputs)) if (node, k) in found and (node, k) in self.active)
            if not given:
                continue
            derived = pullback(node.target, p, arguments, given)
            operands = list(node.operands)
            read = [self.made[place(operands[k]) if k >= 0 else (node, ~k)] for k in derived.reads]
            made = derived.operator(*(found[node, k] for k in given), *read)
            for k, g in zip(arguments, made if isinstance(made, tuple) else (made,), strict=True):
                give(place(operands[k]), g)
        ends = [(self.graph.inputs[k], 0) for k in wanted]
        return [found[e] if e in found else _zeros(self.made[e]) for e in ends]


def place(n: Node) -> Place:
    """Which result of which call the node stands for."""
    return (n.args[0], n.args[1]) if n.kind == GETITEM else (n, 0)


def _program(node: Node) -> Program:
    return node.target.program(*(map_nodes(a, lambda n: abstract(n.shape, n.dtype)) for a in node.args))


def _zeros(t: T) -> T:
    return tensor(t.shape, lambda *_: const(0, t.dtype))
