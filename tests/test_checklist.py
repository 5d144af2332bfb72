"""The checkable points of the description that Assay was designed after, by number, where no other test bears the point.

A test bears the points that its name begins with: test_58_59_... those of 58 and 59.

    2-3, 5      tests/frontends/test_capture.py               1, 10-13            tests/frontends/test_joint_graph.py
    6, 12-13    tests/frontends/test_autograd.py              7-8                 tests/transforms/test_work.py
    9, 14       tests/frontends/test_rules.py                 15                  tests/transforms/test_adjoint.py
    15          tests/frontends/test_every_gradient.py        15                  tests/peers/test_gradients.py
    16-20, 26, 29 tests/partition/test_network.py             21-25, 27-29, 33    tests/partition/test_document.py
    30, 33-34   tests/partition/test_joint.py                 30-31               tests/examples/test_training.py
    32          tests/kernels/test_examples.py                32                  tests/peers/test_triton.py
    34-37       tests/frontends/test_partitioned.py           35, 37              tests/frontends/test_autograd.py
    38-41       tests/frontends/test_func.py                  42-43, 51           tests/frontends/test_partitioned.py
    44, 46-50   tests/partition/test_schedule.py              45, 47              tests/test_checkpoints.py
    51          tests/partition/test_budget.py                65, 74, 103-104     tests/examples/test_compiled.py
    63          tests/frontends/test_every_overload.py        86-93, 95           tests/transforms/test_inline.py
    99-100      tests/transforms/test_merge.py                101-102             tests/semantics/test_ranges.py
    106         tests/semantics/test_denote.py                73                  tests/cases/transforms/choose_layout.txt

Not there yet, and not claimed: 75-84 (splits of sums), the second class of 111 and 114
(equality over the reals: numerics="fast").  53's templates do not exist: a matrix product is a fold like any other.
"""

import ast
import itertools
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import assay
import assay.nn.functional as F
from assay.backends.build import FLAGS
from assay.compiler import build
from assay.core import dtypes as dt
from assay.core.index import ix, variable
from assay.core.lang import E, Program, T, axes, const, convert, input, load, op, program, substitute, tensor, walk
from assay.core.operators import FAMILIES
from assay.core.operators.registry import OPERATORS
from assay.core.row import TABLE
from assay.examine import draw_many, final_program
from assay.semantics.access import accesses, evaluations
from assay.semantics.compare import bits_equal
from assay.semantics.cost import cost_of
from assay.semantics.denote import run
from assay.transforms.contract import BITWISE, all_transforms
from assay.transforms.inline import CPU, GPU_DOCUMENT
from assay.transforms.pipeline import EXACT, contract_of, optimise
from assay.verify.layered import Layer, compare
from tests.frontends.test_every_overload import call, tensors

t = assay.tensor
f32 = dt.f32


def lowered(f: Callable[..., Any], *args: Any) -> Program:
    return assay.lower(assay.trace(f, *args))


def definitions(f: Callable[..., Any], *args: Any) -> list[T]:
    """What the backend computes of f."""
    return list(final_program(f, *args).tensors)


# ------------------------------------------------------------------------------------------------ the map above

ROOT = Path(__file__).parents[1]
UNBORNE = {*range(75, 85)}
BY_SUBJECT = {63, 73, *range(86, 91), 92, 93, 106}
"""Points that a whole file, or the cases of one of its tests, are about: no test is named by their number."""


def stated() -> Iterator[tuple[set[int], str]]:
    """(points, file) of the map."""
    for text, file in re.findall(r"((?:\d[\d, -]*))\s+(tests/\S+)", __doc__ or ""):
        spans = [span.split("-") for span in text.replace(" ", "").split(",")]
        yield {k for span in spans for k in range(int(span[0]), int(span[-1]) + 1)}, file


def borne(file: Path) -> set[int]:
    """The points that names of tests in the file begin with."""
    names = [n.name for n in ast.walk(ast.parse(file.read_text())) if isinstance(n, ast.FunctionDef | ast.ClassDef)]
    return {int(k) for n in names if (found := re.match(r"test_((?:\d+_)+)", n)) for k in found[1].strip("_").split("_")}


def test_every_point_has_a_test_and_the_map_is_right() -> None:
    assert len(list(stated())) >= 27
    for points, file in stated():
        assert (ROOT / file).exists(), file
        missing = points - BY_SUBJECT - (borne(ROOT / file) if file.endswith(".py") else set())
        assert not missing, f"{file} has no test of {sorted(missing)}"
    here = borne(Path(__file__))
    elsewhere = set[int]().union(*(points for points, _ in stated()))
    assert here | elsewhere | UNBORNE == set(range(1, 118))
    for file in (ROOT / "tests").rglob("test_*.py"):
        known = set[int]().union(*(points for points, name in stated() if ROOT / name == file))
        assert file == Path(__file__) or borne(file) <= known | {2000}, file


# ------------------------------------------------------------------------------------------------ 1-5 the operator graph


def test_4_every_node_is_one_overload_and_an_unknown_one_is_an_error() -> None:
    graph = assay.trace(lambda x: F.softmax(x.t() @ x, -1).sum(), assay.ones(3, 2))
    assert [n.target.name for n in graph.nodes] == ["t.default", "matmul.default", "softmax.int", "sum.default"]
    assert all(OPERATORS[n.target.name] is n.target for n in graph.nodes)
    with pytest.raises(AttributeError, match="relu7"):
        assay.ops.relu7  # noqa: B018
    with pytest.raises(AttributeError, match="Fensor"):
        assay.ops.add.Fensor  # noqa: B018


@pytest.mark.parametrize("family", FAMILIES)
def test_4_a_call_of_an_overload_is_a_node_of_it_with_every_argument(family: str) -> None:
    """One sample of each functional overload: what is traced is it, its defaults filled in, and no other that means the same."""
    count = 0
    for o in (o for o in OPERATORS.values() if o.family == family and o.inplace_of is None):
        for sample in list(o.samples())[:1]:
            args = tensors(tuple(sample), np.random.default_rng(0))
            try:
                graph = assay.trace(lambda *leaves: call(o, leaves), *args)  # noqa: B023
            except (assay.Unsupported, IndexError):  # a shape that depends on data; an index out of bounds
                continue
            made = [n for n in graph.nodes if n.target is not None]
            assert all(OPERATORS[n.target.name] is n.target for n in made)
            if graph.outputs and made:
                assert o in [n.target for n in made], (o.name, sample)
                assert all(len(n.args) == len(n.target.params) for n in made)
                count += 1
    assert count, family


# ------------------------------------------------------------------------------------------------ 52-65 lowering


def test_52_capture_and_lowering_touch_no_data() -> None:
    x = assay.zeros(1, 1).expand(1 << 20, 1 << 20)  # 4 TiB, were it stored
    (made,) = lowered(lambda x: (x + 1).sum(-1), x).outputs
    assert made.shape == (1 << 20,)


def test_53_outputs_are_stored_row_major_and_sorts_are_reference_functions() -> None:
    x = assay.ones(2, 3)
    assert assay.compile(lambda x: x.t() + 0, backend="reference")(x).is_contiguous()
    assert [y.kind for y in definitions(lambda x: x.sort(-1), x)].count("extern") == 1
    assert [y.kind for y in definitions(lambda x: x @ x.t(), x)] == ["let"]


def test_54_pointwise_broadcasts_by_its_indices() -> None:
    p = lowered(lambda x, y: x + y, assay.ones(3, 1), assay.ones(4))
    assert assay.show(p).splitlines()[1] == "  t0[i:3,j:4] = add(primals_1[i,0], primals_2[j])"


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "erf", "sigmoid", "sqrt", "sin", "floor", "abs", "neg", "relu", "gelu"])
def test_55_a_unary_operator_is_its_row(name: str) -> None:
    (made,) = definitions(getattr(F, name) if name in ("relu", "gelu") else getattr(assay, name), assay.ones(4))
    assert made.body.op == name


def test_56_rules_of_every_class() -> None:
    families = {o.family for o in OPERATORS.values()}
    assert families >= {"pointwise", "reductions", "views", "creation", "indexing", "scatter", "joins", "matmul", "sorting"}
    assert len(OPERATORS) >= 300


@pytest.mark.parametrize("compiled", [
    pytest.param(lambda f: f, id="eager"),
    pytest.param(assay.compile, id="cpp", marks=pytest.mark.cpp),
])  # fmt: skip
def test_57_an_index_wraps_once_and_is_checked(compiled: Callable[..., Any]) -> None:
    x = assay.arange(128).float()
    assert compiled(lambda x, i: x[i])(x, t([-1])).tolist() == [127.0]
    with pytest.raises(IndexError, match="0 <= 128 < 128"):
        compiled(lambda x, i: x[i])(x, t([128]))


def test_58_59_scatters_have_an_order() -> None:
    at, values = t([0, 0, 0, 1]), t([1e8, 1.0, -1e8, 5.0])
    assert assay.zeros(2).index_put((at,), values).tolist() == [-1e8, 5.0]
    assert assay.zeros(2).index_put((at,), values, accumulate=True).tolist() == [0.0, 5.0]
    assert t([0, 0]).scatter_add(0, t([0] * 9), t([2**62] * 9)).tolist() == [9 * 2**62 - 2**65, 0]


def test_60_a_concatenation_fuses_with_its_consumer() -> None:
    (made,) = definitions(lambda x, y: F.relu(assay.cat([x, y])) * 2, assay.ones(3), assay.ones(5))
    assert sum(e.op == "select" for e in walk((made.body,))) >= 1
    assert made.shape == (8,)


@pytest.mark.parametrize(("f", "types", "result"), [
    (lambda x, y: x + y, ("int32", "float32"), "float32"),
    (lambda x, y: x + y, ("uint8", "int8"), "int16"),
    (lambda x, y: x / y, ("int32", "int32"), "float32"),
    (lambda x, y: (x * y).sqrt(), ("int64", "int64"), "float32"),
    (lambda x, y: x < y, ("float16", "float16"), "bool"),
    (lambda x, y: assay.logical_and(x, y), ("float32", "int32"), "bool"),
])  # fmt: skip
def test_61_promotion_kinds(f: Callable[..., Any], types: tuple[str, str], result: str) -> None:
    assert f(*(assay.ones(2, dtype=getattr(assay, k)) for k in types)).dtype is getattr(assay, result)


def test_62_half_types_are_converted_at_loads_and_stores_only() -> None:
    """(x * y).exp() as two operators rounds twice; each computes in f32."""
    x = assay.ones(4, dtype=assay.float16)
    product, exponential = lowered(lambda x: (x * x).exp(), x).tensors
    for made in (product, exponential):
        assert made.body.op == "convert"
        assert {e.dtype for e in walk((made.body.args[0],)) if e.op in ("mul", "exp")} == {f32}


def test_64_a_chain_of_pointwise_operators_is_one_loop() -> None:
    def chain(x: Any) -> Any:
        for k in range(20):
            x = x * 0.5 + k
        return x

    (made,) = definitions(chain, assay.ones(8))
    assert len([e for e in walk((made.body,)) if e.op == "load"]) == 1


# ------------------------------------------------------------------------------------------------ 66-73 layouts and views

VIEWS: list[tuple[str, Callable[[Any], Any], list[int]]] = [
    ("permute", lambda x: x.permute(2, 0, 1), [1, 20, 5]),
    ("slice", lambda x: x[1:, ::2], [20, 10, 1]),
    ("expand", lambda x: x[:, :1].expand(3, 7, 5), [20, 0, 1]),
    ("unsqueeze", lambda x: x.unsqueeze(1).squeeze(1).transpose(0, 2), [1, 5, 20]),
    ("all", lambda x: x.permute(1, 2, 0)[::2].unsqueeze(-1).expand(2, 5, 3, 2), [10, 1, 20, 0]),
]


@pytest.mark.parametrize(("name", "view", "strides"), VIEWS, ids=[v[0] for v in VIEWS])
def test_66_67_68_71_a_view_is_strides_on_the_same_memory_and_an_index_when_compiled(
    name: str, view: Callable[[Any], Any], strides: list[int]
) -> None:
    """Proposition 6.2: t' = A^T t; no copy, no kernel of its own."""
    x = assay.arange(60).float().reshape(3, 4, 5)
    seen = view(x)
    assert list(seen.stride()) == strides
    assert np.shares_memory(seen.numpy(), x.numpy())
    (made,) = definitions(lambda x: view(x) * 2, x)
    (read,) = [a for a in accesses(made) if a.kind == "read"]
    assert [read.stride(v) for v in axes(made.shape)] == strides


def test_69_a_reshape_is_a_view_iff_strides_can_say_it() -> None:
    """t_j = s_(j+1) t_(j+1), or a size is 1 (the document's condition leaves that out): as numpy decides, on 432 views."""
    count = 0
    for sizes in itertools.product((1, 2, 3), repeat=3):
        whole = np.zeros([2 * n for n in sizes], np.float32)
        for order in itertools.permutations(range(3)):
            for steps in itertools.product((1, 2), repeat=3):
                a = whole.transpose(order)[tuple(slice(0, sizes[d] * s, s) for d, s in zip(order, steps, strict=True))]
                try:
                    a.reshape(a.shape[0] * a.shape[1], a.shape[2], copy=False)
                    strided = True
                except ValueError:
                    strided = False
                made = assay.from_numpy(a).reshape(a.shape[0] * a.shape[1], a.shape[2])
                assert np.shares_memory(made.numpy(), whole) == strided, (sizes, order, steps)
                count += 1
    assert count == 27 * 6 * 8


def test_70_a_reshape_that_strides_cannot_say_is_an_index_when_compiled() -> None:
    x = assay.arange(12).float().reshape(3, 4)
    f = lambda x: x.t().reshape(12) * 2  # noqa: E731
    (made,) = definitions(f, x)
    (read,) = [a for a in accesses(made) if a.kind == "read"]
    assert not read.is_affine
    assert assay.compile(f, backend="reference")(x).tolist() == (np.arange(12.0).reshape(3, 4).T.reshape(12) * 2).tolist()


def test_72_indices_simplify_when_they_are_made() -> None:
    i, j = variable(0, 100), variable(1, 8)
    assert (ix(i) * 8 + ix(j)) // 8 is ix(i)
    assert (ix(i) * 8 + ix(j)) % 8 is ix(j)


# ------------------------------------------------------------------------------------------------ 85 loads


def test_85_what_is_read_twice_is_one_load() -> None:
    (made,) = definitions(lambda x: (x * x).sum(-1), assay.ones(64, 256))
    assert len([e for e, _ in evaluations(made) if e.op == "load"]) == 1


# ------------------------------------------------------------------------------------------------ 94-98 handlers


def test_94_two_devices_decide_differently() -> None:
    p = lowered(lambda x: (x.exp() + 1, x.exp() * 2), assay.ones(64))
    count = {policy.name: len(optimise(p, policy=policy)[-1].program.tensors) for policy in (CPU, GPU_DOCUMENT)}
    assert count == {"cpu": 3, "gpu, as the document": 2}


@pytest.mark.cpp
def test_96_97_one_definition_has_every_reading() -> None:
    """Value, accesses, cost, intervals, text, proof and C++ of the same node; exp is its composition, not libm's."""
    x = input("x", (40,), f32)
    y = tensor((40,), lambda i: op("exp", load(x, i) + 1.0))
    p = program([x], [y])
    (value,) = run(p, [np.zeros(40, np.float32)])
    assert abs(value[0] - math.e) < 1e-6
    assert [a.kind for a in accesses(y)] == ["write", "read"]
    assert cost_of(y).operations == 80
    assert "exp(add(x[i], 0x1p+0:f32))" in assay.show(p)
    assert assay.prove(p).verdict.kind == "PROVED"
    executable = build(p, backend="cpp")
    assert bits_equal(executable([np.zeros(40, np.float32)])[0], value)
    text = executable.text  # type: ignore[attr-defined]
    assert "expf(" not in text
    assert "std::" not in text


def test_98_indices_are_apart_from_values() -> None:
    """A load's index is an index expression; a value enters one only as an atom of it."""
    (made,) = definitions(lambda x: x[(assay.arange(128) * 3) % 128], assay.ones(128))
    assert made.body.op == "load"
    assert str(made.body.attr[1][0]).count("%") <= 1
    assert not made.body.deps


# ------------------------------------------------------------------------------------------------ 105 widths


@pytest.mark.parametrize(("n", "width"), [(2**31 - 1, "int32"), (2**31, "int64")])
def test_105_indices_are_int32_iff_every_one_fits(n: int, width: str) -> None:
    x = input("x", (n,), dt.i8)
    proof = assay.prove(program([x], [tensor((n,), lambda i: op("neg", load(x, i)))]))
    (owed,) = [o for o in proof.obligations if o.kind == "width"]
    assert owed.how.startswith(width)


# ------------------------------------------------------------------------------------------------ 106-117 the core language


def random_values() -> np.ndarray:
    return np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-45, 1.5, -2.5], np.float32)


def test_107_108_inlining_is_materialising_backwards() -> None:
    """Lemma 6.1 and theorem 6.1: let y = e; b and b[e/y] have the same bits."""
    x = input("x", (8,), f32)
    y = tensor((8,), lambda i: op("exp", load(x, i)) * 0.1)
    b = tensor((8,), lambda i: load(y, i) * load(y, (ix(i) + 3) % 8) + load(x, i))

    def inlined(name: T, idx: Any, how: str) -> E | None:
        return substitute(y.body, {v: ix(k) for v, k in zip(axes(y.shape), idx, strict=True)}) if name is y else None

    whole = tensor((8,), lambda *i: substitute(b.body, {v: ix(k) for v, k in zip(axes(b.shape), i, strict=True)}, inlined))
    assert y not in whole.reads
    (left,), (right,) = run(program([x], [b]), [random_values()]), run(program([x], [whole]), [random_values()])
    assert bits_equal(left, right)


def test_109_maps_and_views_compose_to_the_same_object() -> None:
    """Corollary 6.1: map_g(view(map_f(x))) is map_(g.f)(view(x))."""
    x = assay.ones(3, 4)
    after = final_program(lambda x: F.relu(x.neg().t()), x)
    before = final_program(lambda x: F.relu(x.t().neg()), x)
    assert after.outputs[0] is before.outputs[0]


def test_110_equal_is_one_and_unread_is_none() -> None:
    """Theorem 6.2, by construction; a check that may fail is read by nobody and stays."""
    p = lowered(lambda x: (x.exp() + x.exp(), x.log())[0], assay.ones(4))
    assert [made.body.op for made in p.tensors] == ["exp", "add"]

    def unread(x: Any, i: Any) -> Any:
        x[i]
        return x + 1

    assert [made.kind for made in final_program(unread, assay.ones(4), t([1])).tensors].count("require") == 1


def test_111_114_no_pass_reorders() -> None:
    """Every transformation states its contract; all of exact mode's are bitwise; what would not be is Unsupported."""
    assert {s.contract.kind for s in all_transforms().values()} == {BITWISE}
    assert str(contract_of(EXACT)) == "bitwise"
    with pytest.raises(assay.Unsupported):
        assay.compile(lambda x: x, numerics="fast")


def test_112_random_numbers_are_functions_of_their_state() -> None:
    """Two draws differ; the same draw is the same node, so the theorems hold for it."""
    two = lowered(lambda: (assay.rand(4), assay.rand(4)))
    assert two.outputs[-1] is not two.outputs[-2]
    draw = OPERATORS["rand.state"]
    state = input("state", (2,), dt.i64)
    assert draw(state, (4,), None) is draw(state, (4,), None)


def test_113_a_store_rounds_and_nothing_contracts() -> None:
    """bf16(x*y) + z is not x*y + z in f32: the cast is in the program; the build flags forbid contraction."""
    x = input("x", (1,), dt.bf16)
    wide = convert(load(x, 0), f32)
    stored = tensor((1,), lambda i: convert(convert(wide * wide, dt.bf16), f32) + -1.0)
    kept = tensor((1,), lambda i: wide * wide + -1.0)
    value = np.array([1.0078125], np.float32).astype(dt.bf16.numpy)
    (a,), (b,) = run(program([x], [stored]), [value]), run(program([x], [kept]), [value])
    assert a[0] == 0.015625
    assert b[0] == 0.01568603515625
    assert "-ffp-contract=off" in FLAGS
    assert "-ffast-math" not in FLAGS


@pytest.mark.parametrize(("f", "ops"), [
    (lambda x: (x + 1e8) - 1e8, ["add", "sub"]),
    (lambda x: x * 0.0, ["mul"]),
    (lambda x: x + 0.0, ["add"]),
    (lambda x: x / 3.0, ["div"]),
    (lambda x: x - x, ["sub"]),
])  # fmt: skip
def test_115_no_rewriting_by_algebra(f: Callable[..., Any], ops: list[str]) -> None:
    (made,) = definitions(f, assay.ones(4))
    assert [e.op for e in walk((made.body,)) if e.op in TABLE] == ops


def test_116_there_is_no_fallback() -> None:
    with pytest.raises(assay.Unsupported, match="strict=False"):
        assay.compile(lambda x: x, strict=False)
    with pytest.raises(assay.Unsupported, match="depends on the data"):
        assay.compile(lambda x: assay.nonzero(x))(assay.ones(2))


def test_117_the_first_stage_that_differs_is_named() -> None:
    """A wrong stage in the middle, wrong again later: the report names the first, with a minimal witness."""
    x = input("x", (8,), f32)
    right = program([x], [tensor((8,), lambda i: op("max", load(x, i), const(0.0, f32)))])
    wrong = program([x], [tensor((8,), lambda i: op("max", load(x, i), const(0.5, f32)))])
    layers = [Layer(n, lambda xs, p=p: run(p, xs), p) for n, p in (("first", right), ("second", wrong), ("third", wrong))]
    report = compare(right, layers, draw_many(right, 10, 0))
    assert [s.verdict.kind for s in report.stages] == ["PROVED", "REFUTED", "REFUTED"]
    assert report.witness is not None
    assert report.witness.layer == "second"
    assert (float(report.witness.expected), float(report.witness.got)) == (0.0, 0.5)
