"""Capture for all sizes: what a program for all sizes means at given ones is what a capture at those gives."""

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import assay
from assay.core.errors import UserError
from assay.core.index import evaluate, is_symbolic
from assay.core.lang import bind
from assay.core.text import parse, show
from assay.core.wellformed import check
from assay.dynamic import SizedProgram, sized_program
from assay.frontends.capture import capture
from assay.frontends.dynamic import Dim
from assay.transforms.lower import lower
from assay.transforms.pipeline import optimise
from tests.frontends.dynamic_cases import CASES, DynamicCase, tensors


def captured(c: DynamicCase) -> SizedProgram:
    return sized_program(c.f, tuple(tensors(c, [s for s, _ in c.arguments])), {}, True)


def other_shapes(p: SizedProgram, seed: int, count: int) -> Iterator[list[tuple[int, ...]]]:
    """Shapes of the arguments at sizes that satisfy the guards."""
    rng = random.Random(seed)
    found = 0
    for _ in range(4000):
        at = {s: min(s.hi, s.lo + rng.randint(0, 9)) for s in p.sizes.sizes}
        shapes = [tuple([evaluate(n, at.__getitem__) if is_symbolic(n) else n for n in shape]) for shape in p.sizes.shapes]
        if isinstance(p.sizes.match(shapes), dict):
            found += 1
            yield shapes
        if found == count:
            return
    raise AssertionError(f"no sizes satisfy {p.sizes}")


@pytest.mark.parametrize("c", CASES, ids=lambda c: c.name)
def test_bound_programs_are_those_captured_at_the_sizes(c: DynamicCase) -> None:
    p = captured(c)
    assert p.sizes.sizes, "everything was specialised"
    for stage in p.stages:
        check(stage.program)
    for shapes in other_shapes(p, 1, 3):
        sizes = p.sizes.match(shapes)
        assert isinstance(sizes, dict)
        lowered = lower(capture(c.f, tuple(tensors(c, shapes)), {}).graph)
        first = p.stages[0].program
        assert bind(first, {s.name: sizes[s.name] for s in first.sizes}) is lowered, show(lowered)
        assert check(p.at(sizes)) is optimise(lowered)[-1].program


@pytest.mark.parametrize("c", CASES, ids=lambda c: c.name)
def test_proved_for_all_sizes(c: DynamicCase) -> None:
    proof: Any = assay.prove(c.f, *tensors(c, [s for s, _ in c.arguments]), dynamic=True)
    assert proof.verdict.kind == "PROVED", str(proof)
    assert parse(show(proof.sized.final)) is proof.sized.final


@pytest.mark.parametrize("c", CASES, ids=lambda c: c.name)
def test_a_second_capture_needs_the_same_guards(c: DynamicCase) -> None:
    """Nothing that was decided under the assumptions of one capture is remembered in another."""
    assert str(captured(c).sizes).replace(" ", "") == str(captured(c).sizes).replace(" ", "")


# ------------------------------------------------------------------------------------------------ guards


def guards(f: Any, *shapes: tuple[int, ...]) -> list[str]:
    p = sized_program(f, tuple(assay.zeros(*s) for s in shapes), {}, True)
    return [str(g) for g in (*p.sizes.solved, *p.sizes.guards)]


@pytest.mark.parametrize(
    ("f", "shapes", "expected"),
    [
        (lambda x: x + 1, [(6, 10)], []),
        (lambda x, y: x + y, [(6, 10), (6, 10)], []),
        (lambda x: x.view(x.shape[0] // 2, -1), [(6, 10)], ["n0 % 2 == 0"]),
        (lambda x: x.view(2, 3, 10), [(6, 10)], ["n0*n1 == 60", "n0 != 2"]),
        (lambda x: x[:4], [(6, 10)], ["n0 >= 4"]),
        (lambda x: x if x.shape[0] > 5 else x * 2, [(6, 10)], ["n0 >= 6"]),
        (lambda x: x if x.shape[0] == 6 else x * 2, [(6, 10)], ["n0 == 6"]),
        (lambda x: x * 2 if x.shape[0] == 7 else x, [(6, 10)], ["n0 != 7"]),
        (lambda x: sum(x[k] for k in range(x.shape[0])), [(3, 10)], ["n0 == 3"]),
        (lambda x: x * 2 if x.shape[0] < x.shape[1] else x, [(6, 10)], ["n1 > n0"]),
        (lambda x: x * 2 if x.shape[0] else x, [(6, 10)], []),
        (lambda x: x / x.shape[0] ** 1 if x.shape[1] % 5 == 0 else x, [(6, 10)], ["n1 % 5 == 0"]),
    ],
)
def test_guards(f: Any, shapes: list[tuple[int, ...]], expected: list[str]) -> None:
    assert guards(f, *shapes) == expected


def test_a_guard_names_the_line() -> None:
    def f(x: Any) -> Any:
        return x.view(x.shape[0] // 2, -1)

    p = sized_program(f, (assay.zeros(6, 10),), {}, True)
    assert p.sizes.solved[0].where.startswith(__file__)


def test_equal_extents_are_one_size() -> None:
    p = sized_program(lambda x, y: x @ y, (assay.zeros(4, 4), assay.zeros(4, 3)), {}, True)
    assert [list(map(repr, s)) for s in p.sizes.shapes] == [["n0", "n0"], ["n0", "n1"]]


def test_sizes_of_0_and_1_stay() -> None:
    p = sized_program(lambda x: x.sum(0), (assay.zeros(1, 5),), {}, True)
    assert [list(map(repr, s)) for s in p.sizes.shapes] == [["1", "n0"]]
    assert p.sizes.match([(1, 7)]) == {"n0": 7}
    assert p.sizes.match([(2, 7)]) == "x.shape[0] is 1 = 1 there, here 2"
    assert p.sizes.match([(1, 1)]) == "n0 = 1 is not in 2..1099511627776"


def test_marks() -> None:
    def f(x: Any, y: Any) -> Any:
        return x[:, :3] + y

    marks = {"x": {0: "rows", 1: Dim("wide", 3, 100)}, "y": ["rows", None]}
    p = sized_program(f, (assay.zeros(5, 4), assay.zeros(5, 3)), {}, marks)
    assert [list(map(repr, s)) for s in p.sizes.shapes] == [["rows", "wide"], ["rows", "3"]]
    assert p.sizes.match([(9, 50), (9, 3)]) == {"rows": 9, "wide": 50}
    assert p.sizes.match([(9, 500), (9, 3)]) == "wide = 500 is not in 3..100"
    assert p.sizes.match([(9, 50), (8, 3)]) == "y.shape[0] is rows = 9 there, here 8"


def test_two_names_that_must_be_equal() -> None:
    p = sized_program(lambda x, y: x + y, (assay.zeros(5), assay.zeros(5)), {}, {"x": ["a"], "y": ["b"]})
    assert [str(g) for g in p.sizes.solved] == ["a == b"]
    assert p.sizes.match([(7,), (7,)]) == {"a": 7} or p.sizes.match([(7,), (7,)]) == {"b": 7}
    assert isinstance(p.sizes.match([(7,), (8,)]), str)


@pytest.mark.parametrize(
    ("dynamic", "error"),
    [
        ({"z": {0: "n"}}, "no tensor argument"),
        ({"x": {2: "n"}}, "axis 2 of x, which has 2 axes"),
        ({"x": {0: "n", 1: "n"}}, "different sizes: 5 and 4"),
        ({"x": {0: Dim("n", 8, 9)}}, "is not in 8..9"),
    ],
)
def test_wrong_marks(dynamic: Any, error: str) -> None:
    with pytest.raises(UserError, match=error):
        sized_program(lambda x: x, (assay.zeros(5, 4),), {}, dynamic)


@pytest.mark.parametrize("d", [("1n", 2, 5), ("n", 5, 5), ("n", -1, 5)])
def test_wrong_dims(d: Any) -> None:
    with pytest.raises(UserError, match="identifier"):
        Dim(*d)


def test_messages_of_checks_name_the_size() -> None:
    p = sized_program(lambda w, i: w[i], (assay.zeros(6, 3), assay.zeros(4, dtype=assay.int64)), {}, True)
    program = p.at({"n0": 9, "n1": 3, "n2": 2})
    assert any("< 9" in t.message and "{=" not in t.message for t in program.tensors if t.kind == "require")


# ------------------------------------------------------------------------------------------------ reports


def test_a_refuted_access_names_the_sizes() -> None:
    p = parse("program f[n: 2.., m: 2..](x: f32[n,m]):\n t[i:n,j:m] = x[j,i]\n return t")
    proof = assay.prove(p)
    assert proof.verdict.kind == "REFUTED"
    witness = proof.to_json()["obligations"][0]["witness"]
    assert witness["n"] != witness["m"]


def test_the_report_says_sizes_guards_and_passes() -> None:
    def f(x: Any) -> Any:
        return x.view(x.shape[0] // 2, 2, x.shape[1]).softmax(-1).sum(0)

    proof: Any = assay.prove(f, assay.zeros(6, 10), dynamic=True)
    text = str(proof)
    assert "for all n0_2 >= 1" in text
    assert "n0 % 2 == 0" in text
    assert text.splitlines()[-1].startswith("PROVED")
    data = proof.to_json()
    assert data["verdict"] == "PROVED"
    assert data["shapes"] == {"x": ["2*n0_2", "n1"]}
    assert {g["condition"] for g in data["guards"]} >= {"n0 % 2 == 0"}
    assert all(p["proved"] for p in data["passes"])


def test_a_wrong_pass_is_not_proved_for_all_sizes() -> None:
    from assay.verify.validate import validate

    text = "program f[n: 2.., m: 2..](x: f32[n,m]):\n t[i:n,j:m] = x[i,j]\n u[i:n,j:m] = {} \n return u"
    right = parse(text.format("add(t[i,j], 1)"))
    assert validate(right, parse(text.format("add(x[i,j], 1)"))).proved
    assert not validate(right, parse(text.format("add(x[i,m - 1 - j], 1)"))).proved
    assert not validate(right, parse(text.format("add(x[i,j], 2)"))).proved


def test_arrays_are_arguments_too() -> None:
    p = sized_program(lambda x: x * 2, (np.zeros((3, 4), np.float32),), {}, True)
    assert p.sizes.match([(5, 6)]) == {"n0": 5, "n1": 6}


class Layer:
    """A module: its weights are met during the capture and have fixed sizes."""

    def __init__(self) -> None:
        self.weight, self.bias = assay.ones(10, 4), assay.zeros(4)

    def __call__(self, x: Any) -> Any:
        return (x @ self.weight + self.bias).relu()


def test_weights_fix_the_sizes_that_meet_them() -> None:
    proof: Any = assay.prove(Layer(), assay.ones(6, 10), dynamic=True)
    assert proof.verdict.kind == "PROVED"
    assert [str(g) for g in proof.guards] == ["n1 == 10"]
    assert [list(map(repr, s)) for s in proof.sized.sizes.shapes] == [["n0", "10"]]


def test_a_compiled_module() -> None:
    layer = Layer()
    g = assay.compile(layer, dynamic=True)
    for n in (6, 9, 70):
        assert g(assay.ones(n, 10)).shape == (n, 4)
    assert g.cache_info().entries == 1
