"""The document's policy: its table, each rule, distances, forced values, and where no cut is finite."""

import math

import pytest

from assay.core import dtypes as dt
from assay.core.graph import Graph
from assay.partition.document import document, is_cheap
from tests.partition.graphs import Hand, example_5_1


def saved(parts) -> list[str]:
    return [n.name for n in document(*parts).saved]


def row(parts, name: str):
    return next(r for r in document(*parts).rows if r.node.name == name)


def test_25_table_5_1() -> None:
    found = document(*example_5_1())
    assert str(found) == (
        "value                   bytes    d beta         capacity  U  B\n"
        "matmul                  8,192    1    1            9,011  1  B\n"
        "gelu                    8,192  100    2      225,781,552  -  -\n"
        "sum_0                       4  100    1           55,122  3  -\n"
        "flow 9011; saved {matmul}"
    )
    assert found.flow == 9011
    assert [n.name for n in found.recomputed] == []


def test_33_saved_bytes_of_example_5_1() -> None:
    found = document(*example_5_1())
    assert sum(r.bytes for r in found.rows if r.node in found.saved) == 8192
    assert sum(r.bytes for r in found.rows if r.node.name in ("matmul", "gelu")) == 16384  # what saving all takes


@pytest.mark.parametrize(
    ("operator", "args", "cheap"),
    [
        ("matmul.default", (("x", 4, 4), ("y", 4, 4)), False),
        ("linear.default", (("x", 4, 4), ("y", 4, 4), None), False),
        ("conv2d.default", (("x", 1, 1, 5, 5), ("y", 1, 1, 3, 3), None, (1, 1), (0, 0), (1, 1), 1), False),
        ("cumsum.default", (("x", 4, 4), 0, None), False),
        ("gelu.default", (("x", 4, 4), "none"), True),
        ("softmax.int", (("x", 4, 4), -1, None), True),
        ("t.default", (("x", 4, 4),), True),
        ("sum.default", (("x", 4, 4), None), True),
    ],
)
def test_21_rule_1_asks_the_meaning_of_the_operator(operator: str, args: tuple, cheap: object) -> None:
    h = Hand()
    made = h(operator, "y", *(h.input(*a) if isinstance(a, tuple) and isinstance(a[0], str) else a for a in args))
    assert is_cheap(made) is cheap


def test_22_rule_2_a_reader_in_the_backward_that_is_not_cheap() -> None:
    h = Hand()
    a, g = h.input("a", 8, 8), h.input("g", 8, 8)
    r = h("relu.default", "r", a)
    h("exp.default", "e", r)
    h.backward()
    h("matmul.default", "d", r, g)
    assert row(h.parts(h.nodes[1]), "r").rule == 2
    assert row(h.parts(h.nodes[1]), "r").beta == 1
    assert saved(h.parts(h.nodes[1])) == ["r"]


@pytest.mark.parametrize(("n", "rule"), [(4, None), (5, 3)])
def test_23_rule_3_four_times_the_bytes_are_less_than_those_read(n: int, rule: int | None) -> None:
    h = Hand()
    a, g = h.input("a", 8, n), h.input("g", 8)
    s = h("sum.dim_IntList", "s", a, (1,), False, None)
    h.backward()
    h("mul.Tensor", "d", g, s)
    assert row(h.parts(s), "s").rule == rule


@pytest.mark.parametrize(
    ("steps", "distance", "capacity"),
    [(1, 1, 2 * math.floor(4096 * 1.1)), (2, 2, 2 * math.floor(4096 * 1.1**2)), (50, 50, 2 * math.floor(4096 * 1.1**50)),
     (99, 99, 2 * math.floor(4096 * 1.1**99)), (100, 100, 2 * math.floor(4096 * 1.1**100)),
     (150, 100, 2 * math.floor(4096 * 1.1**100))],
)  # fmt: skip
def test_24_distance_and_capacity(steps: int, distance: int, capacity: int) -> None:
    h = Hand()
    a, g = h.input("a", 32, 32), h.input("g", 32, 32)
    v = h("relu.default", "v0", a)
    for k in range(1, steps):
        v = h("neg.default", f"v{k}", v)
    out = h("exp.default", "out", v)
    h.backward()
    h("mul.Tensor", "d", g, v)
    found = row(h.parts(out), "v0")
    assert (found.distance, found.beta, found.capacity) == (distance, 2, capacity)


def test_24_a_value_that_no_backward_node_follows_is_far() -> None:
    assert row(example_5_1(), "sum_0").distance == 100


def near_and_far(*, far: bool):
    """v is read by a cheap operator, and again after a matrix product (far), or before it."""
    h = Hand()
    a, w, g = h.input("a", 16, 16), h.input("w", 16, 16), h.input("g", 16, 16)
    v = h("relu.default", "v", a)
    p = h("neg.default", "p", v)
    early = None if far else h("exp.default", "early", v)
    q = h("matmul.default", "q", p, w)
    late = h("add.Tensor", "late", q, v, 1) if far else h("add.Tensor", "late", q, early, 1)
    h.backward()
    h("mul.Tensor", "d", g, late)
    return h.parts(late)


def test_27_read_near_and_far_is_saved() -> None:
    assert row(near_and_far(far=True), "v").forced == "read near and far"
    assert "v" in saved(near_and_far(far=True))
    assert row(near_and_far(far=False), "v").forced is None
    assert "v" not in saved(near_and_far(far=False))


@pytest.mark.parametrize(("steps", "ends"), [(99, []), (101, []), (102, ["v101"]), (150, ["v101"])])
def test_28_the_end_of_a_long_chain_is_saved(steps: int, ends: list[str]) -> None:
    """Values v0 .. : the first one more than 100 steps after the start ends the chain."""
    h = Hand()
    v, g = h.input("a", 4, 4), h.input("g", 4, 4)
    for k in range(steps):
        v = h("sin.default", f"v{k}", v)
    h.backward()
    h("mul.Tensor", "d", g, v)
    found = document(*h.parts(v))
    assert [r.node.name for r in found.rows if r.forced] == ends
    assert set(ends) <= set(saved(h.parts(v)))


def test_29_without_a_finite_cut_everything_that_is_read_is_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    """A value with several results cannot be saved whole; where it must not be recomputed either, no cut is finite."""
    graph, backward, outputs = example_5_1()
    (product,) = (n for n in graph.nodes if n.name == "matmul")
    product.outputs = (((32, 64), dt.f32),)
    monkeypatch.setattr("assay.partition.document.is_cheap", lambda n: n is not product)
    found = document(graph, backward, outputs)
    assert found.flow is None
    assert found.saved == ()  # what is read can only be recomputed
    assert [n.name for n in found.recomputed] == ["matmul"]
    assert "flow None" in str(found)


def test_a_graph_of_5000_operators_is_read_once() -> None:
    h = Hand()
    v, g = h.input("a", 4, 4), h.input("g", 4, 4)
    for k in range(5000):
        v = h("matmul.default", f"m{k}", v, v) if k % 50 == 0 else h("sin.default", f"v{k}", v)
    h.backward()
    h("mul.Tensor", "d", g, v)
    found = document(*h.parts(v))
    assert found.flow is not None
    assert isinstance(h.parts(v)[0], Graph)
