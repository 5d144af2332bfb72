"""The joint graph: the document's listing 5.2 (with the one shape that it has wrong set right), its gradients, dropout."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import assay
import assay.nn.functional as F
from assay.autograd import Function
from assay.core.errors import Unsupported
from assay.frontends.joint_graph import joint_graph
from assay.semantics.compare import bits_equal
from assay.semantics.denote import run
from assay.transforms.lower import lower

Golden = Callable[[str, str], None]


def example_5_1(x: Any, w: Any) -> Any:
    return F.gelu(x @ w).sum()


def test_11_listing_5_2(golden: Golden) -> None:
    """The document prints %t shape=(64, 64); the transpose of x, (32, 64), has the shape (64, 32)."""
    made = joint_graph(example_5_1, assay.ones(32, 64), assay.ones(64, 64, requires_grad=True))
    golden("listing_5_2.txt", str(made))
    assert [n.name for n in made.graph.outputs] == ["sum_0", "matmul_0"]


def test_12_another_gradient_is_one_more_transpose_and_one_more_product() -> None:
    x, w = assay.ones(32, 64), assay.ones(64, 64, requires_grad=True)
    one = joint_graph(example_5_1, x, w)
    both = joint_graph(example_5_1, x.clone().requires_grad_(), w)
    more = sorted(n.target.base for n in both.graph.nodes)
    for n in one.graph.nodes:
        more.remove(n.target.base)
    assert more == ["matmul", "t"]


def test_13_gelu_backward_reads_h() -> None:
    made = joint_graph(example_5_1, assay.ones(4, 3), assay.ones(3, 3, requires_grad=True))
    (back,) = [n for n in made.graph.nodes if n.target.base == "gelu_backward"]
    assert [n.name for n in back.operands] == ["expand", "matmul"]


def test_1_inference_and_training_have_the_same_forward() -> None:
    x, w = assay.ones(4, 3), assay.ones(3, 3, requires_grad=True)
    made = joint_graph(example_5_1, x, w)
    forward = [n.target.name for n in made.graph.nodes if n not in made.backward]
    assert forward == [n.target.name for n in assay.trace(example_5_1, x, w).nodes]




def test_10_its_gradients_are_the_engine_s_bit_for_bit() -> None:
    w = assay.randn(5, 4).requires_grad_()
    b = assay.zeros(4, requires_grad=True)
    x = assay.randn(3, 5)

    def net(x: Any) -> Any:
        h = (x @ w + b).tanh()
        h = (h / h.amax(-1, keepdim=True)).exp() + 0.0
        h[0] = h[1] * 2
        return F.softmax(h.detach() + h, -1).log().sum()

    made = joint_graph(net, x)
    net(x).backward()
    got = run(lower(made.graph), [*(s.memory([x]) for s in made.captured.sources), np.ones((), np.float32)])
    by_shape = {g.shape: g for g in got[1:]}
    assert len(got) == 3
    for leaf in (w, b):
        assert bits_equal(by_shape[leaf.shape], leaf.grad.numpy())


def test_10_the_state_of_the_generator_is_shared() -> None:
    x = assay.ones(64, requires_grad=True)
    made = joint_graph(lambda x: F.dropout(x * 2, 0.5).sum(), x)
    drawn = [n for n in made.graph.nodes if n.target.base == "dropout"]
    assert len(drawn) == 1
    assert [p.name for p, _ in made.graph.epilogue] == ["bound_1"]
    state = np.array([7, 3])
    arrays = [x.detach().numpy() if s.kind == "argument" else state for s in made.captured.sources]
    advanced, total, gradient = run(lower(made.graph), [*arrays, np.ones((), np.float32)])
    assert advanced.tolist() == [7, 4]
    assert set(gradient.tolist()) == {0.0, 4.0}
    assert gradient.sum() == total


def test_nothing_to_go_back_for() -> None:
    with pytest.raises(assay.UserError, match="no result of the function depends"):
        joint_graph(example_5_1, assay.ones(2, 2), assay.ones(2, 2))


class Halved(Function):
    """2 x, whose derivative it declares to be 1."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0]


def test_a_function_of_the_user_is_not_part_of_it() -> None:
    x = assay.ones(3, requires_grad=True)
    with pytest.raises(Unsupported, match="calls Halved, whose backward is Python"):
        joint_graph(lambda x: Halved.apply(x).sum(), x)
