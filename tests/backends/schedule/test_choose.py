"""choose: the program keeps its bits, every tensor has one kernel, schedules are legal, decisions are the known good ones."""

import dataclasses
import math

import numpy as np
import pytest

from assay.backends.legality import illegal
from assay.backends.placement import Placement
from assay.backends.plan import Kernel, Schedule
from assay.backends.schedule import choose as entry
from assay.backends.schedule.decide import candidates
from assay.backends.schedule.fuse import Decisions, Model, rows_known
from assay.backends.schedule.machine import DEFAULTS
from assay.backends.schedule.pack import packed, packings
from assay.backends.schedule.signature import Local
from assay.backends.target import of
from assay.core import dtypes as dt
from assay.core import lang
from assay.core.errors import InternalError
from assay.core.index import ix
from assay.core.lang import input, op, program
from assay.frontends.capture import capture
from assay.fuzz.generate import random_recipe
from assay.fuzz.oracle import draw_many_arrays
from assay.fuzz.recipe import tensors
from assay.fuzz.schedules import random_plan
from assay.semantics.denote import bits_equal, run
from assay.transforms.lower import lower
from assay.transforms.pipeline import optimise
from assay.verify.validate import validate
from benchmarks import workloads as w

TARGET = of("x86_64", frozenset(("avx2", "fma", "f16c")), "test")


@pytest.fixture(autouse=True)
def fixed_machine(monkeypatch):
    from assay.backends.schedule import decide as module

    module._model.cache_clear()
    monkeypatch.setattr(module, "measured", lambda: dataclasses.replace(DEFAULTS[8], threads=2))
    yield
    module._model.cache_clear()


def whole(*outputs, effects=()):
    inputs = [t for t in lang.order((*outputs, *effects)) if t.kind == "input"]
    return program(inputs, outputs, effects)


def m(name, *shape):
    return w.matrix(name, *shape)


def scattered():
    """Rows added where an index says, one after the other."""
    at, v = input("at", (50,), dt.i64), m("v", 50, 24)
    row = lang.op("mod", at[lang.axes((50, 24))[0]], 9)
    return lang.scatter(m("base", 9, 24), (50, 24), (row, lang.axes((50, 24))[1]), v[lang.axes((50, 24))], "add")


PROGRAMS = {
    "relu sum": lambda: whole(
        w.row_sum(w.each(w.pair(m("x", 7, 83), m("y", 7, 83), lambda a, b: a + b), lambda v: op("relu", v)))
    ),
    "softmax": lambda: whole(w.softmax(m("x", 5, 150))),
    "layernorm": lambda: whole(w.layer_norm(m("x", 9, 70), m("w", 70), m("b", 70))),
    "layernorm backward": lambda: whole(*w.layer_norm_backward(m("g", 9, 33), m("x", 9, 33), m("m", 9), m("r", 9), m("w", 33))),
    "matmul": lambda: whole(w.product(m("a", 45, 67), m("b", 67, 53))),
    "big matmul": lambda: whole(w.product(m("a", 130, 129), m("b", 129, 131))),
    "attention": lambda: whole(w.attention(m("q", 2, 37, 16), m("k", 2, 37, 16), m("v", 2, 37, 16))),
    "convolution": lambda: whole(w.conv2d(m("x", 2, 17, 19, 23), m("f", 18, 17, 3, 3), 1)),
    "cat": lambda: whole(w.cat_rows(m("x", 3, 40), m("y", 5, 40), m("z", 2, 40))),
    "argmax": lambda: whole(w.argmax(m("x", 6, 50))),
    "cumsum": lambda: whole(w.cumsum(m("x", 6, 50))),
    "column sum": lambda: whole(w.column_sum(m("x", 300, 70))),
    "scattered rows": lambda: whole(scattered()),
    "two users": lambda: (lambda e: whole(w.row_sum(e), w.each(e, lambda v: v + 1.0)))(
        w.each(m("x", 30, 90), lambda v: op("exp", v))
    ),
    "integer sum": lambda: whole(
        lang.tensor((5,), lambda i: lang.fold(99, lang.const(3, dt.i64), lambda a, k: a + input("n", (5, 99), dt.i64)[i, k]))
    ),
}


def special(t, rng):
    """Values of every kind: NaN, infinities, signed zeros, subnormals among ordinary ones."""
    if not t.dtype.is_float:
        return rng.integers(-5, 5, t.shape).astype(t.dtype.numpy)
    a = rng.standard_normal(t.shape).astype(t.dtype.numpy)
    flat = a.reshape(-1)
    for k, v in enumerate((np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-42, -1e-45, 3e38)):
        if flat.size > 40 + 7 * k:
            flat[40 + 7 * k] = v
    return a


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_program_keeps_its_bits(name):
    p = PROGRAMS[name]()
    q, _ = entry(p, TARGET)
    inputs = [special(t, np.random.default_rng(0)) for t in p.inputs]
    for a, b in zip(run(p, inputs), run(q, inputs), strict=True):
        assert a.shape == b.shape
        assert bits_equal(a, b)


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_tensor_has_one_kernel_after_what_it_reads(name):
    q, plan = entry(PROGRAMS[name](), TARGET)
    local = {t for k in plan.kernels for t, _ in k.local}
    done = set(q.inputs)
    for kernel in plan.kernels:
        reads = set().union(*(t.reads for t in kernel.tensors), *(t.reads for t, _ in kernel.local))
        assert reads - {t for t, _ in kernel.local} <= done
        assert not set(kernel.computes) & done
        done |= set(kernel.computes)
    assert done | local >= set(q.tensors)
    assert not done & local


@pytest.mark.parametrize("name", PROGRAMS)
def test_schedules_are_legal_and_reasoned(name):
    _, plan = entry(PROGRAMS[name](), TARGET)
    for kernel in plan.kernels:
        assert illegal(Placement(kernel), kernel.schedule, TARGET.lanes) is None
        assert kernel.reason


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_candidate_is_legal(name):
    model = Model(dataclasses.replace(DEFAULTS[8], threads=2))
    for group in Decisions(PROGRAMS[name](), model).groups():
        for c in candidates(group, model)[:40]:
            from assay.backends.plan import Kernel

            kernel = Kernel(c.tensors, c.choice.schedule, group.local)
            assert illegal(Placement(kernel), kernel.schedule, TARGET.lanes) is None


def test_the_choice_is_the_same_every_time():
    p = PROGRAMS["layernorm"]()
    first = entry(p, TARGET)
    from assay.backends.schedule import decide as module

    module._model.cache_clear()
    second = entry(p, TARGET)
    assert first[0] is second[0]
    assert first[1] == second[1]


def kernels(p):
    return entry(p, TARGET)[1].kernels


def test_an_elementwise_chain_is_one_kernel():
    assert len(kernels(whole(w.gelu(m("x", 512, 512))))) == 1


def test_an_elementwise_operand_of_a_contraction_is_stored():
    p = whole(w.product(w.each(m("a", 256, 256), lambda v: op("exp", v)), m("b", 256, 256)))
    assert any(k.tensors[0].body.op == "exp" for k in kernels(p))


def test_a_matmul_gets_a_register_tile():
    (last,) = [k for k in kernels(whole(w.product(m("a", 512, 512), m("b", 512, 512)))) if k.tensors[0].body.has_fold]
    tile = last.schedule.copies * dict(last.schedule.jam)[0]
    assert last.schedule.vector == 1
    assert 8 <= tile <= 14


def test_a_matmul_of_many_pages_reads_packed_operands_in_blocks_of_columns():
    a, b, product = kernels(whole(w.product(m("a", 1024, 1024), m("b", 1024, 1024))))
    assert (a.tensors[0].shape, b.tensors[0].shape) == ((171, 1024, 6), (64, 1024, 16))
    assert b.schedule.order == ((0, 8), (1, None), (0, None), (2, None))
    assert product.schedule.order == ((1, 64), (0, None), (1, None))


def test_threads_do_not_write_the_same_cache_lines():
    """Two threads that each wrote 3 of 6 neighbouring elements took three times as long as two that wrote far apart."""
    a, b = m("a", 171, 6, 1024), m("b", 1024, 1024)
    apart = lang.tensor((171, 1024, 6), lambda i, j, k: a[i, k, j])
    (copy,) = kernels(whole(apart))
    assert copy.schedule.threads in (0, 1, ("block", 0), ("block", 1))
    (copy,) = kernels(whole(lang.tensor((1024, 1024), lambda i, j: b[j, i])))
    assert copy.schedule.threads is not None


def test_a_function_of_an_operand_is_computed_when_it_is_copied():
    """Six rectifications stood in the inner loop of a product: once for each column of the result."""
    x, y = m("x", 256, 1024), m("y", 1024, 1024)

    def element(i, j):
        return lang.fold(1024, lang.const(0.0, dt.f32), lambda acc, k: op("fma", op("relu", x[i, k]), y[k, j], acc))

    found = kernels(whole(lang.tensor((256, 1024), element)))
    rectified = [sum(e.op == "relu" for e in lang.walk((k.tensors[0].body,))) for k in found]
    assert sorted(rectified[:2]) == [0, 1]
    assert rectified[2:] == [0]


def test_an_operand_that_is_gathered_is_left_where_it_lies():
    """The position is read too, and is no part of what would be copied."""
    x, at, y = m("x", 300, 512), input("at", (256,), dt.i64), m("y", 512, 512)

    def element(i, j):
        return lang.fold(512, lang.const(0.0, dt.f32), lambda acc, k: op("fma", op("exp", x[at[i], k]), y[k, j], acc))

    found = kernels(whole(lang.tensor((256, 512), element)))
    assert [k.tensors[0].shape for k in found if x in k.tensors[0].reads] == [(256, 512)]


@pytest.mark.parametrize("function", [
    lambda v: v, lambda v: op("relu", v), lambda v: op("sub", op("exp", v), v), lambda v: op("add", v, 1.0),
    lambda v: lang.convert(lang.convert(v, dt.f16), dt.f32),
], ids=["itself", "relu", "one element twice", "a constant", "rounded"])  # fmt: skip
@pytest.mark.parametrize("guarded", [False, True], ids=["tiles", "pads"])
def test_packed_operands_keep_the_bits(function, guarded):
    x, f = m("x", 13, 21), m("f", 21, 19)
    read = (lambda i, k: lang.load_or_zero(x, i - 1, k)) if guarded else (lambda i, k: x[i, k])

    def element(i, j):
        zero = lang.const(0.0, dt.f32)
        return lang.fold(21, zero, lambda acc, k: op("fma", function(read(i, k)), op("mul", f[k, j], f[k, j]), acc))

    t = lang.tensor((13, 19), element)
    tile = Schedule(vector=1, copies=1, jam=((0, 6),))
    rng = np.random.default_rng(0)
    data = {x: rng.standard_normal((13, 21), np.float32), f: rng.standard_normal((21, 19), np.float32)}
    given = whole(t)
    found = [packed(t, tile, 8, operands) for operands in packings(t, tile, 8)]
    assert len(found) == 3
    for copies, made in found:
        assert not set(copies).isdisjoint(made.reads)
        q = program(given.inputs, (made,))
        arrays = [data[i] for i in given.inputs]
        assert all(map(bits_equal, run(given, arrays), run(q, arrays)))
        assert validate(given, q).proved


def test_a_padded_copy_removes_the_guards_of_a_convolution():
    ks = kernels(whole(w.conv2d(m("x", 8, 64, 32, 32), m("f", 64, 64, 3, 3), 1)))
    assert ks[0].tensors[0].shape == (8, 64, 34, 34)
    assert all(e.op != "load_or_zero" for e in lang.walk((ks[-1].tensors[0].body,)))


def test_column_sums_of_one_shape_share_a_kernel():
    x = m("x", 8192, 1024)
    ks = kernels(whole(w.column_sum(x), w.column_sum(w.pair(x, x, lambda a, b: a * b))))
    assert any(len(k.tensors) == 2 and k.schedule.carry for k in ks)


def test_a_sum_and_the_sum_of_what_it_is_taken_from_are_not_in_chunks_together():
    """The second reads the first at each step: a kernel of both was chosen in chunks, which is not legal."""
    x = m("x", 256, 64)
    total = w.column_sum(x)
    i, j = lang.axes((256, 64))
    rest = lang.let((256, 64), op("sub", x[i, j], total[j]))
    ks = kernels(whole(total, w.column_sum(rest)))
    assert all(illegal(Placement(k), k.schedule, 8) is None for k in ks)
    assert [len(k.tensors) for k in ks if k.schedule.carry] == [1, 1]


def test_a_require_is_neither_inlined_nor_dropped():
    p = whole(w.gather(m("x", 500, 64), input("at", (1000,), dt.i64)))
    q, plan = entry(p, TARGET)
    assert [t.kind for k in plan.kernels for t in k.tensors] == ["require", "let"]
    assert len(lang.requires(q)) == 1


def test_a_require_that_nothing_reads_has_a_kernel():
    x = m("x", 64)
    check = lang.require((64,), x[lang.axes((64,))[0]], x[lang.axes((64,))[0]] > 0.0, "[ValueError] {value}")
    _, plan = entry(whole(w.each(x, lambda v: v + 1.0), effects=(check,)), TARGET)
    assert any(check in k.tensors for k in plan.kernels)


def test_rows_are_scattered_in_lanes():
    (kernel,) = kernels(whole(scattered()))
    assert kernel.schedule.vector == 1
    assert kernel.schedule.threads in (None, 1)


def test_decisions_say_what_was_weighed():
    _, plan = entry(whole(w.softmax(m("x", 4096, 4096))), TARGET)
    assert any("->" in d and "us" in d for d in plan.decisions)


def test_a_pointwise_kernel_runs_over_one_merged_loop():
    x = input("x", (6, 5, 4, 8), dt.f32)
    t = lang.tensor(x.shape, lambda i, j, k, n: x[i, j, k, n] * 2.0)
    q, plan = entry(whole(t), TARGET)
    (kernel,) = plan.kernels
    assert kernel.tensors[0].shape == (960,)
    assert kernel.computes == q.outputs
    assert q.outputs[0].shape == (6, 5, 4, 8)


def test_a_transposed_read_keeps_its_loops():
    x = input("x", (6, 5), dt.f32)
    _, plan = entry(whole(lang.tensor((5, 6), lambda i, j: x[j, i] * 2.0)), TARGET)
    assert plan.kernels[0].tensors[0].shape == (5, 6)


@pytest.mark.parametrize("columns", [(), (1,)], ids=["sums of shape (n,)", "sums of shape (n, 1)"])
def test_rows_that_are_summed_and_written_are_one_kernel(columns):
    x = m("x", 8192, 1024)
    zero = lang.const(0.0, dt.f32)

    def sums(term):
        def body(i, *_):
            return lang.fold(1024, zero, lambda a, k: a + term(x[i, k]))

        return lang.tensor((8192, *columns), body)

    s, q = sums(lambda v: v), sums(lambda v: v * v)
    rest = (0,) * len(columns)
    y = lang.tensor(x.shape, lambda i, j: x[i, j] * s[(i, *rest)] - q[(i, *rest)])
    _, plan = entry(whole(y), TARGET)
    assert len(plan.kernels) == 1


def rows_asked(by, count, n=40):
    """A sum over k of elements of `count` lets of rows of one element: of row `by(k)`, 0 where there is none, and of two more."""
    rows = [w.each(m(f"x{k}", n, 1), lambda v: op("exp", op("exp", v)) + op("exp", v)) for k in range(count)]

    def step(a, k):
        for r in rows:
            a = a + lang.load_or_zero(r, by(k), 0) * lang.load_or_zero(r, by(k), 0)
        return a + sum((r[ix(q), 0] for r in rows for q in (1, 2)), start=lang.const(0.0, w.f32))

    return whole(lang.tensor((3,), lambda i: lang.fold(n, lang.const(0.0, w.f32), step) + m("b", 3)[i]))


@pytest.mark.parametrize("by", [lambda k: k, lambda k: k - 1, lambda k: 41 - k], ids=["row k", "row k-1", "row 41-k"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_rows_that_cannot_be_filled_are_stored(by, count):
    """However many of them a kernel reads: storing one of two leaves a kernel that has no schedule either."""
    p = rows_asked(by, count)
    model = Model(dataclasses.replace(DEFAULTS[8], threads=2))
    decisions = Decisions(p, model)
    for group in decisions.groups():
        assert model.seconds(group.tensors, group.local) < math.inf
    _, plan = entry(p, TARGET)
    for kernel in plan.kernels:
        assert illegal(Placement(kernel), kernel.schedule, TARGET.lanes) is None


def test_rows_are_known_where_a_kernel_can_be_opened_and_fills_them_outside_of_folds(monkeypatch) -> None:
    asked: set[tuple[tuple[lang.T, ...], Local]] = set()
    was = Model.fillable

    def noted(self: Model, computed: tuple[lang.T, ...], local: Local) -> bool:
        asked.add((computed, local))
        return was(self, computed, local)

    monkeypatch.setattr(Model, "fillable", noted)
    for seed in range(100, 180):
        recipe = random_recipe(seed)
        args = tuple(tensors(draw_many_arrays([recipe], seed)[0][0]))
        final = optimise(lower(capture(recipe, args, {}).graph))[-1].program
        if all(t.size for t in final.tensors):
            random_plan(final, seed)
    found = {key: rows_known(*key) for key in asked if key[1]}
    assert found == {key: _fills_rows(*key) for key in found}
    assert {True, False} <= set(found.values())


def _fills_rows(computed: tuple[lang.T, ...], local: Local) -> bool:
    try:
        p = Placement(Kernel(computed, local=local))
    except InternalError:  # a row that the tensor does not have
        return False
    return all(v.within <= {a for a in p.axes if a} for v in p.values if v.op == "fill") and illegal(p, Schedule(), 8) is None


def test_what_a_position_is_computed_from_is_not_copied():
    """The fold stands inside of an index, where no load is replaced: nothing would read the copy."""
    x, y = m("x", 24, 40), m("y", 24, 40)
    zero = lang.const(0.0, dt.f32), lang.const(0, dt.i64)

    def first(i):
        def step(best, at, k):
            return op("max", best, x[i, k]), op("select", op("lt", best, x[i, k]), lang.index(k, dt.i64), at)

        return lang.folds(40, zero, step)[1]

    t = lang.tensor((24, 24), lambda i, j: y[j, first(i)])
    assert [*packings(t, Schedule(vector=1, copies=1, jam=((0, 6),)), 8)] == []


def test_two_products_share_the_copy_of_their_common_operand():
    a, b, c = m("a", 1024, 1024), m("b", 1024, 1024), m("c", 1024, 1024)
    found = kernels(whole(w.product(a, b), w.product(a, c)))
    assert [k.tensors[0].shape for k in found].count((171, 1024, 6)) == 1
    assert len({k.computes for k in found}) == len(found) == 5
