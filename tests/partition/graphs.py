"""Operator graphs by hand, and programs of the operators' meanings."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from assay.core import dtypes as dt
from assay.core.graph import CALL, PLACEHOLDER, Graph, Node
from assay.core.lang import Program, T, input, program
from assay.core.operators import OPERATORS


class Hand:
    """A graph written call by call; what is called after `backward()` depends on cotangents."""

    def __init__(self) -> None:
        self.inputs: list[Node] = []
        self.nodes: list[Node] = []
        self.start: int | None = None

    def input(self, name: str, *shape: int, dtype: dt.DType = dt.f32) -> Node:
        self.inputs.append(Node(PLACEHOLDER, name, shape, dtype))
        return self.inputs[-1]

    def __call__(self, operator: str, name: str, *args: Any) -> Node:
        target = OPERATORS[operator]
        meaning = target(*(input(a.name, a.shape, a.dtype) if isinstance(a, Node) else a for a in args))
        self.nodes.append(Node(CALL, name, meaning.shape, meaning.dtype, target=target, args=args))
        return self.nodes[-1]

    def backward(self) -> None:
        self.start = len(self.nodes)

    def parts(self, *outputs: Node) -> tuple[Graph, list[Node], tuple[Node, ...]]:
        """(joint graph, nodes of the backward, outputs of the forward)."""
        return Graph(self.inputs, self.nodes, [*outputs, self.nodes[-1]]), self.nodes[self.start :], outputs


def example_5_1() -> tuple[Graph, list[Node], tuple[Node, ...]]:
    """The joint graph of gelu(x @ W).sum(), x without a gradient (listing 5.2)."""
    h = Hand()
    x, w, g = h.input("primals_1", 32, 64), h.input("primals_2", 64, 64), h.input("tangents_1")
    product = h("matmul.default", "matmul", x, w)
    total = h("sum.default", "sum_0", h("gelu.default", "gelu", product, "none"), None)
    h.backward()
    spread = h("expand.default", "expand", g, [32, 64], False)
    slope = h("gelu_backward.default", "gelu_backward", spread, product, "none")
    h("matmul.default", "matmul_0", h("t.default", "t", x), slope)
    return h.parts(total)


def apply(operator: str, *args: Any) -> T:
    """The meaning of the operator; of several results the first."""
    made = OPERATORS[operator](*args)
    return made[0] if isinstance(made, tuple) else made


def gelu_program() -> tuple[Program, T]:
    """Example 5.1 as a core program, and W."""
    x, w = input("x", (32, 64), dt.f32), input("W", (64, 64), dt.f32)
    return program([x, w], [apply("sum.default", apply("gelu.default", apply("matmul.default", x, w), "none"), None)]), w


def mlp(sizes: Sequence[int], batch: int = 8) -> Program:
    """The sum of squares of a network with tanh, its weights and x as inputs."""
    x = input("x", (batch, sizes[0]), dt.f32)
    weights = [input(f"w{k}", (n, m), dt.f32) for k, (n, m) in enumerate(itertools.pairwise(sizes))]
    h = x
    for w in weights:
        h = apply("tanh.default", apply("matmul.default", h, w))
    return program([x, *weights], [apply("sum.default", apply("mul.Tensor", h, h), None)], name="mlp")


def block(x: T, w: Sequence[T]) -> T:
    """A transformer block: one head of attention, then two layers with gelu."""
    d = x.shape[-1]
    h = apply("native_layer_norm.default", x, (d,), w[0], w[1], 1e-5)
    q, k, v = (apply("matmul.default", h, m) for m in w[2:5])
    scores = apply("mul.Scalar", apply("matmul.default", q, apply("t.default", k)), 0.125)
    mixed = apply("matmul.default", apply("matmul.default", apply("softmax.int", scores, -1, None), v), w[5])
    y = apply("add.Tensor", x, mixed, 1)
    h = apply("native_layer_norm.default", y, (d,), w[6], w[7], 1e-5)
    wide = apply("gelu.default", apply("matmul.default", h, w[8]), "none")
    return apply("add.Tensor", y, apply("matmul.default", wide, w[9]), 1)


def transformer(blocks: int, n: int = 16, d: int = 16) -> Program:
    """The mean square of `blocks` blocks over n positions of width d."""
    x = first = input("x", (n, d), dt.f32)
    inputs = [first]
    for b in range(blocks):
        shapes = [(d,), (d,), (d, d), (d, d), (d, d), (d, d), (d,), (d,), (d, 4 * d), (4 * d, d)]
        w = [input(f"w{b}_{i}", s, dt.f32) for i, s in enumerate(shapes)]
        inputs += w
        x = block(x, w)
    return program(inputs, [apply("mean.default", apply("mul.Tensor", x, x), None)], name="transformer")
