"""The summary says of every kernel what the emitter's placement says."""

import dataclasses
from collections import Counter

import pytest

from assay.backends.placement import Placement
from assay.backends.plan import Kernel
from assay.backends.schedule.cost import bits
from assay.backends.schedule.fuse import rows_known
from assay.backends.schedule.machine import DEFAULTS
from assay.backends.schedule.prices import Prices
from assay.backends.schedule.summary import Summary
from assay.core.lang import const, fold, input, op, tensor
from benchmarks import workloads as w

PRICES = Prices(dataclasses.replace(DEFAULTS[8], threads=2))
X, Y = w.matrix("x", 24, 40), w.matrix("y", 40, 24)
E = w.each(X, lambda v: v * 2.0)
NESTED = tensor((24,), lambda i: fold(5, const(0.0, w.f32), lambda a, u: fold(7, a, lambda b, v: b + X[i, 5 * v + u] * X[i, u])))
GATHERED = tensor((9, 40), lambda i, j: X[input("at", (9,), w.dt.i64)[i], j] * 3.0)

KERNELS = [
    ("row sum", (w.row_sum(X),), {}),
    ("product", (w.product(X, Y),), {}),
    ("transposed product", (w.product(Y, X, turn_a=True, turn_b=True),), {}),
    ("row and whole", (w.by_row(X, w.row_sum(X), lambda a, s: a / s),), {}),
    ("inlined row", (tensor((24, 40), lambda i, j: X[i, j] / fold(40, const(0.0, w.f32), lambda a, k: a + X[i, k])),), {}),
    ("row buffer", (tensor((24, 40), lambda i, j: E[i, j] / fold(40, const(0.0, w.f32), lambda a, k: a + E[i, k])),), {E: 1}),
    ("nested folds", (NESTED,), {}),
    ("two outputs", (w.column_sum(w.matrix("z", 24, 40)), w.column_sum(X)), {}),
    ("argmax", (w.argmax(X),), {}),
    ("gather", (GATHERED,), {}),
    ("convolution", (w.conv2d(w.matrix("i", 2, 3, 8, 8), w.matrix("f", 4, 3, 3, 3), 1),), {}),
]


def loops_of_placement(placement):
    """A name for every loop: axis k, fold by its length, row buffer by its length."""
    names = {}
    for x in placement.loops:
        names[x] = ("axis", x.axis) if x.axis is not None else ("inner", x.n)
    return names


def loops_of_summary(k):
    return {v: ("axis", v) if v < k.rank else ("inner", k.sizes[v]) for v in range(len(k.sizes))}


@pytest.mark.parametrize(("tensors", "local"), [x[1:] for x in KERNELS], ids=[x[0] for x in KERNELS])
def test_loads_are_placed_and_vary_as_in_the_emitter(tensors, local):
    placement = Placement(Kernel(tensors, local=tuple(local.items())))
    k = Summary(tensors, PRICES, local)
    theirs, ours = loops_of_placement(placement), loops_of_summary(k)
    expected = Counter()
    for v in placement.loads:
        # a load from a row buffer lies within the loops of its indices; its fill may lie further out
        expected[frozenset(theirs[x] for x in v.within), frozenset(theirs[x] for x in v.varies)] += 1
    found = Counter()
    for a in k.accesses:
        filled = a.kind == "row" and any(v in k.rows for v in bits(a.place))
        if a.kind != "store" and not filled:
            found[frozenset(ours[v] for v in bits(a.place)), frozenset(ours[v] for v in bits(a.varies))] += 1
    assert found == expected


@pytest.mark.parametrize(("tensors", "local"), [x[1:] for x in KERNELS], ids=[x[0] for x in KERNELS])
def test_operations_are_placed_and_vary_as_in_the_emitter(tensors, local):
    placement = Placement(Kernel(tensors, local=tuple(local.items())))
    k = Summary(tensors, PRICES, local)
    theirs, ours = loops_of_placement(placement), loops_of_summary(k)
    structural = {"load", "const", "acc", "fold", "proj", "fill", "bitcast", "idx"}
    expected = {
        (frozenset(theirs[x] for x in v.within), frozenset(theirs[x] for x in v.varies))
        for v in placement.values if v.op not in structural
    }  # fmt: skip
    found = {
        (frozenset(ours[v] for v in bits(p)), frozenset(ours[v] for v in bits(d))) for (p, d), g in k.groups.items() if g.count
    }
    assert expected <= found


def test_an_accumulator_varies_with_what_its_fold_varies_with():
    k = Summary((w.product(X, Y),), PRICES)
    (fold_,) = k.folds
    assert (fold_.place, fold_.varies) == (0b011, 0b011)
    assert [(p, d) for p, d in k.groups] == [(0b111, 0b111)]


def test_the_recurrence_is_priced_apart_from_the_terms():
    k = Summary((w.row_sum(w.pair(X, X, lambda a, b: a * b)),), PRICES)
    assert k.folds[0].recurrence.count == 1
    assert k.folds[0].ordered
    assert not k.folds[0].exact


def test_named_rows_are_priced_as_their_composition():
    exp = PRICES.of(op("exp", X[0, 0]))
    assert exp.count > 10
    assert exp.latency > 20
    assert exp.live >= 2


def test_a_row_read_by_a_fold_variable_is_not_the_row_of_an_axis() -> None:
    """The outer fold variable of a scalar kernel is the same object as the first axis of what it reads."""
    total = tensor((), lambda: fold(24, const(0.0, w.f32), lambda a, k: fold(40, a, lambda b, j: b + E[k, j])))
    assert not rows_known((total,), ((E, 1),))
    assert rows_known((tensor((24,), lambda i: fold(40, const(0.0, w.f32), lambda b, j: b + E[i, j])),), ((E, 1),))
    again = tensor((24,), lambda i: fold(24, const(0.0, w.f32), lambda a, k: fold(40, a, lambda b, j: b + E[k, j])))
    assert not rows_known((again,), ((E, 1),))  # whose own axis, which is not used, is the same object too


def test_a_closed_fold_inside_a_fold_may_be_named_like_an_axis() -> None:
    """The variable of a fold that reads no axis is the same object as the first axis of the kernel."""
    total = fold(24, const(0.0, w.f32), lambda a, k: fold(40, a, lambda b, j: b + X[k, j]))
    zero = const(0.0, w.f32)
    counted = tensor((24,), lambda i: fold(7, zero, lambda a, k: a + fold(5, zero, lambda b, j: b + X[i, 5 * k + j] * total)))
    assert len(Summary((counted,), PRICES).folds) == 4
