"""The rules of the cost model: pairs of schedules whose order must come out right."""

import dataclasses

import pytest

from assay.backends.plan import Schedule
from assay.backends.schedule.cost import Nest, arithmetic, cost, finish, traffic
from assay.backends.schedule.machine import DEFAULTS
from assay.backends.schedule.prices import Prices
from assay.backends.schedule.summary import Summary
from assay.core.lang import const, fold, input, op, tensor
from benchmarks import workloads as w

MACHINE = dataclasses.replace(DEFAULTS[8], threads=2)
PRICES = Prices(MACHINE)


def seconds(tensors, schedule, local=None, *, threads=None, stream=None):
    """Modelled time with the best threads and store kind, or with those given."""
    nest = Nest(Summary(tensors, PRICES, local), schedule, MACHINE)
    assert nest.legal
    cycles = arithmetic(nest)
    if threads is None and stream is None:
        return finish(nest, cycles)[0].seconds
    at = next((j for j, x in enumerate(nest.loops) if x.key == threads), -1)
    return cost(nest, cycles, traffic(nest), at, bool(stream)).seconds


def matrix(*shape, name="x"):
    return w.matrix(name, *shape)


MATMUL = (w.product(matrix(1024, 1024), matrix(1024, 1024, name="y")),)
ROW_SUM = (w.row_sum(matrix(4096, 4096)),)
SMALL_ROW_SUM = (w.row_sum(matrix(64, 16384)),)
COLUMN_SUM = (w.column_sum(matrix(16384, 1024)),)
EXP = (w.each(matrix(4096, 4096), lambda v: op("exp", v)),)
SMALL_RELU = (w.each(matrix(256, 256), lambda v: op("relu", v)),)
TRANSPOSED = (tensor((4096, 4096), lambda i, j: matrix(4096, 4096)[j, i]),)
SHIFTED = w.each(matrix(4096, 4096), lambda v: op("exp", v))
NORMAL = (w.by_row(SHIFTED, w.row_sum(SHIFTED), lambda a, s: a / s),)


def by_own_sum(rows, columns):
    x = matrix(rows, columns)
    return (tensor(x.shape, lambda i, j: x[i, j] / fold(columns, const(0.0, w.f32), lambda a, k: a + x[i, k])),)


INLINE = by_own_sum(4096, 4096)
NATURAL2 = ((0, None), (1, None))
ROWS = {"fold": "rowvec"}
BLOCKS = ((0, 64), (1, None), (0, None))

RULES = [
    ("reuse: a 6 x 16 tile before one row", MATMUL, Schedule(1, 2, ((0, 6),)), Schedule(1, 2), None),
    ("reuse: a 4 x 24 tile before 2 x 8", MATMUL, Schedule(1, 3, ((0, 4),)), Schedule(1, 1, ((0, 2),)), None),
    ("accumulators beyond the registers spill", MATMUL, Schedule(1, 2, ((0, 6),)), Schedule(1, 4, ((0, 12),)), None),
    ("lanes over outputs before scalars", MATMUL, Schedule(1, 2, ((0, 6),)), Schedule(None, 1, ((0, 6),)), None),
    ("vectors in flight hide the latency of exp", EXP, Schedule(1, 2), Schedule(None, 1), None),
    ("rows of terms in lanes before scalars", SMALL_ROW_SUM, Schedule(None, 1, ((0, 4),), **ROWS), Schedule(), None),
    ("sums side by side hide the chain", SMALL_ROW_SUM, Schedule(None, 1, ((0, 4),), **ROWS), Schedule(None, 1, **ROWS), None),
    ("no more streams than needed", ROW_SUM, Schedule(None, 1, ((0, 4),), **ROWS), Schedule(None, 1, ((0, 12),), **ROWS), None),
    ("accumulators in the output: whole rows a pass", COLUMN_SUM, Schedule(0, 4, carry=8), Schedule(0, 4), None),
    ("a power-of-two stride reaches few sets: blocks", TRANSPOSED, Schedule(1, 1, (), BLOCKS), Schedule(1, 1), None),
    ("many rows' buffers leave L1", NORMAL, Schedule(1, 2, ((0, 2),), **ROWS), Schedule(1, 2, ((0, 12),), **ROWS), {SHIFTED: 1}),
    ("ties go to the natural order", SMALL_RELU, Schedule(1, 2, (), NATURAL2), Schedule(1, 2, (), ((1, None), (0, None))), None),
]  # fmt: skip


@pytest.mark.parametrize(("tensors", "better", "worse", "local"), [r[1:] for r in RULES], ids=[r[0] for r in RULES])
def test_order(tensors, better, worse, local):
    assert seconds(tensors, better, local) < seconds(tensors, worse, local)


def test_work_outside_the_threaded_loop_is_done_by_every_thread():
    rows = Schedule(1, 2, ((0, 4),), NATURAL2, "rowvec")
    small = by_own_sum(128, 512)
    assert seconds(small, rows, threads=0) < 0.8 * seconds(small, rows, threads=1)


def test_threads_pay_only_where_there_is_work():
    tiny = (w.each(matrix(8, 64), lambda v: op("relu", v)),)
    assert seconds(tiny, Schedule(1, 1), threads=None, stream=False) < seconds(tiny, Schedule(1, 1), threads=0)
    assert seconds(EXP, Schedule(1, 1), threads=0) < seconds(EXP, Schedule(1, 1), threads=None, stream=False)


def test_streaming_stores_for_what_leaves_the_cache_only():
    k = Summary(SMALL_RELU, PRICES)
    nest = Nest(k, Schedule(1, 2), MACHINE)
    assert not finish(nest, arithmetic(nest))[1].stream
    nest = Nest(Summary(EXP, PRICES), Schedule(1, 2), MACHINE)
    assert finish(nest, arithmetic(nest))[1].stream


def test_siblings_share_what_one_of_them_brought_in():
    once = traffic(Nest(Summary(ROW_SUM, PRICES), Schedule(None, 1, **ROWS), MACHINE))["l3"].read
    twice = traffic(Nest(Summary(INLINE, PRICES), Schedule(1, 2, **ROWS), MACHINE))["l3"].read
    assert twice == pytest.approx(once, rel=0.1)


def test_data_that_fits_is_warm():
    t = traffic(Nest(Summary(SMALL_RELU, PRICES), Schedule(1, 2), MACHINE))
    assert t["l3"].read == 0
    assert t["l2"].read > 0 or t["l1"].read > 0


def test_a_guard_costs():
    x = matrix(64, 1024)
    plain = (tensor((62, 1022), lambda i, j: x[i + 1, j + 1]),)
    guarded = (tensor((64, 1024), lambda i, j: __import__("assay.core.lang", fromlist=["x"]).load_or_zero(x, i - 1, j - 1)),)
    assert seconds(plain, Schedule(1, 2)) < 0.7 * seconds(guarded, Schedule(1, 2))


def test_eight_byte_types_cost_twice():
    a = (tensor((64, 1024), lambda i, j: op("mul", input("d", (64, 1024), w.dt.f64)[i, j], 2.0)),)
    b = (tensor((64, 1024), lambda i, j: op("mul", matrix(64, 1024)[i, j], 2.0)),)
    assert seconds(a, Schedule(1, 2)) > 1.4 * seconds(b, Schedule(1, 2))


def two_row_sums(second):
    """Sums over k of x[i, k] and of second(x[i, k], the first sum)."""
    x, zero = matrix(4096, 4096), const(0.0, w.f32)

    def body(i):
        first = fold(4096, zero, lambda a, k: a + x[i, k])
        return first + fold(4096, zero, lambda a, k: a + second(x[i, k], first))

    return (tensor((4096,), body),)


def test_independent_folds_share_a_loop_and_what_they_load():
    nest = Nest(Summary(two_row_sums(lambda v, _: v * v), PRICES), Schedule(fold="rowvec"), MACHINE)
    assert len(nest.loops) == 2
    assert [a.kind for form in nest.accesses() for a in form] == ["load", "store"]


def test_a_fold_that_needs_another_has_its_own_loop():
    nest = Nest(Summary(two_row_sums(lambda v, s: v * s), PRICES), Schedule(fold="rowvec"), MACHINE)
    assert len(nest.loops) == 3
    assert [a.kind for form in nest.accesses() for a in form] == ["load", "load", "store"]
