"""Capture: the graph's text, its defaults, its functional form, and what cannot be captured."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import assay
import assay.nn.functional as F
from assay.core.graph import show_graph
from assay.frontends.capture import capture, decompose


def floats(*shape: int) -> assay.Tensor:
    return assay.tensor(np.linspace(-2, 2, int(np.prod(shape)), dtype=np.float32).reshape(shape))


def targets(graph: Any) -> list[str]:
    return [n.target.name if n.target else "getitem" for n in graph.nodes]


def test_2_listing_5_1(golden: Callable[[str, str], None]) -> None:
    def example(x: Any, y: Any) -> Any:
        return (F.relu(x + y) * 2).sum(-1)

    golden("listing_5_1.txt", str(assay.trace(example, floats(64, 128), floats(64, 128))))


def test_5_an_inplace_program_leaves_no_mutation(golden: Callable[[str, str], None]) -> None:
    def update(x: Any, y: Any) -> Any:
        column = x.t()[0]
        column += y
        x[1:] *= 2
        return column, x.sum()

    golden("functionalised.txt", str(assay.trace(update, floats(3, 4), floats(3))))


@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (lambda x: x * 2, ["mul.Scalar"]),
        (lambda x: x * x, ["mul.Tensor"]),
        (lambda x: x.sum(), ["sum.default"]),
        (lambda x: x.sum(-1), ["sum.dim_IntList"]),
        (lambda x: 2 - x, ["rsub.Scalar"]),
        (lambda x: 2**x, ["pow.Scalar"]),
        (lambda x: x > 0, ["gt.Scalar"]),
        (lambda x: x[1], ["select.int"]),
        (lambda x: x[1:], ["slice.Tensor"]),
        (lambda x: x[[0, 1]], ["index.Tensor"]),
        (lambda x: x.t().clone(), ["t.default", "clone.default"]),
        (lambda x: x.max(1).values, ["max.dim", "getitem"]),
        (lambda x: x.split(2, 0)[0].neg(), ["split.Tensor", "getitem", "neg.default"]),
    ],
)
def test_3_each_node_is_one_overload(f: Callable[..., Any], expected: list[str]) -> None:
    graph = assay.trace(lambda x: (f(x), x * 1)[0], floats(4, 4))
    assert targets(graph)[: len(expected)] == (expected if graph.outputs else [])


def test_3_defaults_are_filled_in() -> None:
    (node,) = assay.trace(lambda x: x.add(x), floats(2)).nodes
    assert [p.name for p in node.target.params] == ["self", "other", "alpha"]
    assert node.args[2] == 1
    (node,) = assay.trace(lambda x: F.layer_norm(x, (2,)), floats(3, 2)).nodes
    assert node.args[1:] == ((2,), None, None, 1e-05, True)


def test_nodes_keep_the_users_line() -> None:
    graph = assay.trace(lambda x: x + 1, floats(2))
    assert "tests/frontends/test_capture.py:" in graph.nodes[0].where
    assert f"# {graph.nodes[0].where}" in show_graph(graph, where=True)


def test_dead_code_goes_but_an_operator_that_may_raise_stays() -> None:
    def f(x: Any, at: Any) -> Any:
        x.exp()
        x[at]
        return x + 1

    assert targets(assay.trace(f, floats(3), assay.tensor([0]))) == ["index.Tensor", "add.Scalar"]


def test_arguments_may_be_nested() -> None:
    def f(params: dict[str, Any], *, scale: float) -> Any:
        return {"y": params["w"] * scale + params["b"][0], "n": 3}

    w, b = floats(2, 2), floats(2)
    graph = assay.trace(f, {"w": w, "b": [b, None]}, scale=0.5)
    assert [n.shape for n in graph.inputs] == [(2,), (2, 2)]
    captured = capture(f, ({"w": w, "b": [b, None]},), {"scale": 0.5})
    assert [o.kind for o in captured.outputs] == ["static", "result"]


def test_names_follow_the_operators_and_avoid_python_words() -> None:
    graph = assay.trace(lambda x: x.sum().abs() + x.sum() + x.neg().neg().sum(), floats(2))
    assert [n.name for n in graph.nodes] == ["sum_0", "abs_0", "sum_1", "add", "neg", "neg_0", "sum_2", "add_0"]


OUTSIDE = floats(3)


def test_a_tensor_from_outside_is_an_input_bound_to_its_memory() -> None:
    graph = assay.trace(lambda x: x + OUTSIDE, floats(3))
    assert [n.value is None for n in graph.inputs] == [True, False]
    assert np.shares_memory(graph.inputs[1].value, OUTSIDE.numpy())


def test_writing_a_tensor_from_outside_is_an_epilogue_and_does_not_happen_during_the_capture() -> None:
    before = OUTSIDE.numpy().copy()

    def f(x: Any) -> Any:
        OUTSIDE.add_(x)
        return OUTSIDE * 2

    graph = assay.trace(f, floats(3))
    assert [place.value is not None for place, _ in graph.epilogue] == [True]
    assert np.array_equal(OUTSIDE.numpy(), before)


def test_a_constant_made_inside_is_bound() -> None:
    graph = assay.trace(lambda x: x + assay.tensor([1.0, 2.0]), floats(2))
    assert [n.name for n in graph.inputs] == ["primals_1", "bound_1"]
    assert graph.inputs[1].value is not None
    assert graph.inputs[1].value.tolist() == [1.0, 2.0]


def test_aliased_arguments_that_are_written_become_one_placeholder() -> None:
    def f(x: Any, y: Any) -> Any:
        x.add_(1.0)
        return y * 2

    x = floats(2, 3)
    assert len(assay.trace(f, x, x.t()).inputs) == 1
    assert len(assay.trace(f, x, floats(3, 2)).inputs) == 2
    assert len(assay.trace(lambda x, y: x.t() + y, x, x.t()).inputs) == 2  # nothing is written: sharing does not matter


def test_a_graph_runs_on_values_and_decomposes() -> None:
    graph = assay.trace(lambda x: x.reshape((4,)) * 2, floats(2, 2))
    assert "view.default" in targets(decompose(graph))
    assert "reshape.default" not in targets(decompose(graph))
    from assay.frontends.value import Value, process

    (out,) = graph.run(process, [Value(floats(2, 2).numpy())])
    assert out.array.tolist() == (floats(2, 2).numpy().reshape(4) * 2).tolist()
    with pytest.raises(assay.UserError, match="has 1 inputs"):
        graph.run(process, [])


# ------------------------------------------------------------------------------------------------ what cannot be captured


def branch(x: Any) -> Any:
    if x.sum() > 0:
        return x
    return -x


def count(x: Any) -> Any:
    for _ in range(x[0].long()):
        x = x + 1
    return x


@pytest.mark.parametrize(
    ("f", "line", "advice"),
    [
        (branch, "if x.sum() > 0:", "assay.where"),
        (count, "for _ in range(x[0].long()):", "assay.where"),
        (lambda x: x.item() * 2, "item()", "assay.where"),
        (lambda x: int(x), "int(x)", "assay.where"),
        (lambda x: float(x), "float(x)", "assay.where"),
        (lambda x: x.tolist(), "x.tolist()", "assay.where"),
        (lambda x: x.numpy(), "x.numpy()", "assay.where"),
        (lambda x: np.asarray(x), "np.asarray(x)", "assay.where"),
        (lambda x: [1, 2, 3][x], "[1, 2, 3][x]", ""),
        (lambda x: 1 if x else 2, "1 if x else 2", "assay.where"),
        (lambda x: x and x, "x and x", "assay.where"),
        (lambda x: not x, "not x", "assay.where"),
    ],
)
def test_data_dependent_python_is_an_error_at_the_users_line(f: Callable[..., Any], line: str, advice: str) -> None:
    argument = assay.tensor([3.0]) if f is not count else assay.tensor([3.0, 1.0])
    for call in (assay.trace, lambda f, x: assay.compile(f, backend="reference")(x)):
        with pytest.raises((assay.UserError, TypeError)) as info:
            call(f, argument)
        if isinstance(info.value, assay.UserError):
            assert f"{__file__}:" in str(info.value)
            assert line in str(info.value)
            assert advice in str(info.value)


def test_python_that_depends_on_shapes_is_fine() -> None:
    def f(x: Any) -> Any:
        total = x[0]
        for row in x[1:]:
            total = total + row
        return total if x.shape[0] > 1 else -total

    assert len(assay.trace(f, floats(3, 2)).nodes) == 6


@pytest.mark.parametrize("f", [lambda x: x[x > 0], lambda x: x.nonzero(), lambda x: x.masked_select(x > 0)])
def test_a_shape_that_depends_on_data_is_unsupported(f: Callable[..., Any]) -> None:
    with pytest.raises(assay.Unsupported):
        assay.trace(f, floats(3))


def test_a_tensor_that_leaks_from_a_capture_is_refused_where_it_is_used() -> None:
    kept: list[Any] = []
    assay.trace(lambda x: kept.append(x + 1) or x * 2, floats(3))
    with pytest.raises(assay.UserError, match="captur"):
        kept[0].numpy()
    with pytest.raises(assay.UserError, match="capture"):
        kept[0] + 1
    with pytest.raises(assay.UserError, match="capture"):
        assay.trace(lambda x: x + kept[0], floats(3))


def test_an_error_inside_a_capture_leaves_the_stack_as_it_was() -> None:
    with pytest.raises(assay.UserError):
        assay.trace(branch, floats(3))
    assert (floats(2) + 1).numpy().tolist() == [-1.0, 3.0]


@pytest.mark.parametrize(
    ("f", "words"),
    [
        (lambda x: x.matmul(assay.zeros(5, 5)), "matmul"),
        (lambda x: x + assay.zeros(7), "broadcast"),
        (lambda x: x.sum(5), "dim 5"),
        (lambda x: x.addd(1), "did you mean: add"),
        (lambda x: assay.reluu(x), "did you mean: relu"),
        (lambda x: F.reluu(x), "module 'assay.nn.functional' has no attribute 'reluu'; did you mean: relu"),
        (lambda x: F.layer_nrm(x), "did you mean: layer_norm"),
        (
            lambda x: assay.arange(x.max()),
            r"arange\(f32\[\]\): its arguments are numbers, not tensors, since no shape may depend",
        ),
        (lambda x: assay.linspace(0, 1, steps=x.sum().long()), r"steps=i64\[\]\): its arguments are numbers, not tensors"),
        (lambda x: x[5], "out of bounds"),
        (lambda x: x[0, 0, 0], "3 indices"),
        (lambda x: x[0.5], "must be an integer"),
        (lambda x: x.view(7), "does not hold"),
        (lambda x: x.add_(assay.zeros(3, 3, 3)), "does not fit"),
        (lambda x: x.long().add_(0.5), "cannot be stored"),
        (lambda x: x + np.zeros(3), "from_numpy"),
    ],
)
def test_wrong_calls_say_what_is_wrong(f: Callable[..., Any], words: str) -> None:
    with pytest.raises((assay.UserError, AttributeError), match=words):
        f(floats(3, 3))
    with pytest.raises((assay.UserError, AttributeError), match=words) as info:
        assay.trace(f, floats(3, 3))
    if isinstance(info.value, assay.UserError):
        assert str(info.value).count(f"{__file__}:{f.__code__.co_firstlineno}: ") == 1


def test_the_name_of_what_is_captured() -> None:
    class Net:
        def __call__(self, x):
            return x * 2

    def double(x, by):
        return x * by

    x = assay.ones(2)
    named = [assay.trace(f, x).name for f in (Net(), functools.partial(double, by=2), lambda x: x * 2)]
    assert named == ["Net", "double", "f"]
