"""The joint program of a graph: the engine's way back on core tensors, beside the adjoint of the whole program."""

from typing import Any

import numpy as np
import pytest

import assay
import assay.nn.functional as F
from assay.autograd import grad
from assay.core import dtypes as dt
from assay.core.lang import input, order
from assay.core.operators.registry import OPERATORS
from assay.frontends.joint import Definitions, joint_of_graph
from assay.frontends.value import apply_by_name, interpreters
from assay.partition.joint import joint_program
from assay.semantics.compare import bits_equal
from assay.semantics.denote import run
from assay.transforms.views import is_view

WHOLE = [np.array(a, np.float32) for a in ([[1, -2, 3], [4, 0, -1]], [[2, 1, 1], [-3, 2, 5]])]  # sums of them are exact


def shared(x: Any, y: Any) -> Any:
    """x and y with many readers, an update in place, a part that is detached."""
    a = x * y + x
    a[0] = y[1] * 2
    b = a.t() @ x.detach()
    return (a * a).sum(0) - b.sum(1), b * b


def both(f: Any, *arrays: np.ndarray, wanted: tuple[int, ...] = (0, 1), given: tuple[int, ...] = (0, 1)) -> list[Any]:
    """The graph's joint program, that of its program as a whole, and arguments for both."""
    graph = assay.trace(f, *map(assay.tensor, arrays))
    p = assay.lower(graph)
    seeds = [np.full(p.outputs[k].shape, 1 + k, np.float32) for k in given]
    whole = joint_program(p, [p.inputs[k] for k in wanted], given=given)
    return [joint_of_graph(graph, p, wanted, given), whole, [*arrays, *seeds]]


@pytest.mark.parametrize("wanted", [(0, 1), (0,), (1,)])
@pytest.mark.parametrize("given", [(0, 1), (0,), (1,)])
def test_where_arithmetic_is_exact_it_agrees_with_the_adjoint_of_the_whole(wanted: Any, given: Any) -> None:
    joint, whole, arguments = both(shared, *WHOLE, wanted=wanted, given=given)
    assert all(map(bits_equal, run(joint.program, arguments), run(whole.program, arguments)))


def test_the_forward_is_the_lowered_program() -> None:
    joint, whole, _ = both(shared, *WHOLE)
    assert joint.results == whole.results
    assert joint.inputs == whole.inputs


@pytest.mark.parametrize("f", [shared, lambda x, y: (x * 1, x.abs()), lambda x, y: (F.softmax(x, 0), (x / x).sum())])
def test_its_gradients_are_eagers_also_of_inputs_that_are_not_used(f: Any) -> None:
    x, y = (a.copy() for a in WHOLE)
    x[0] = [np.inf, np.nan, -0.0]
    joint, _, arguments = both(f, x, y)
    leaves = [assay.tensor(a).requires_grad_() for a in (x, y)]
    found = grad(f(*leaves), leaves, [assay.tensor(s) for s in arguments[2:]], allow_unused=True)
    for a, g, got in zip((x, y), found, run(joint.program, arguments)[joint.outputs :], strict=True):
        assert bits_equal(np.zeros_like(a) if g is None else g.numpy(), got)


def test_the_way_back_makes_no_views_of_values() -> None:
    """The rule of a product reads a transposed factor: it is the factor that may be saved."""
    joint, _, _ = both(lambda x, y: ((x.t() @ y).exp() @ y.t(), y.sum()), *WHOLE)
    forward = set(order(joint.results))
    assert not [t for t in joint.program.tensors if t not in forward and t not in joint.gradients and is_view(t)]
    assert all(t in forward for t in joint.values)


def test_a_changed_input_is_one_of_the_joint_program() -> None:
    def f(x: Any, y: Any) -> Any:
        x.mul_(y)
        return (x * x).sum()

    joint, _, _ = both(f, *WHOLE, wanted=(1,), given=(1,))
    assert joint.changed == {joint.inputs[0]}


def test_on_definitions_a_value_is_a_core_tensor() -> None:
    bottom, x = Definitions(), input("x", (2,), dt.f32)
    with interpreters(bottom):
        y = apply_by_name("add.Tensor", bottom.value(x), bottom.value(x), 2)
        parts = apply_by_name("unbind", y)
    assert y.meta[bottom] is OPERATORS["add.Tensor"](x, x, 2)
    assert [v.meta[bottom].shape for v in parts] == [(), ()]
