"""Accesses, counts and peak memory in literal numbers."""

import math

import pytest

from assay.core.dtypes import bool_, f16, f32, i64
from assay.core.index import ix, variable
from assay.core.lang import (
    as_index,
    axes,
    const,
    convert,
    extern,
    fold,
    input,
    load_or_zero,
    op,
    program,
    scan,
    scatter,
    tensor,
)
from assay.core.row import TABLE
from assay.semantics.access import accesses
from assay.semantics.cost import Cost, Prices, cost_of, length, peak_bytes, program_cost, realisation

a, b = input("a", (8, 16), f32), input("b", (16, 4), f32)
at = input("at", (8,), i64)
at_j = input("w", (16,), f32)
i, j, k = variable(0, 8), variable(1, 4), variable(2, 16)
zero = const(0.0, f32)

matmul = tensor((8, 4), lambda i, j: fold(16, zero, lambda s, k: op("fma", a[i, k], b[k, j], s)))
row_sum = tensor((8,), lambda i: fold(16, zero, lambda s, k: s + a[i, k] * a[i, k]))
softmax = tensor((8, 16), lambda i, j: op("exp", a[i, j] - fold(16, const(-math.inf, f32), lambda m, k: op("max", m, a[i, k]))))
flipped = tensor((16, 8), lambda i, j: a[7 - j, i])
reshaped = tensor((128,), lambda i: a[i // 16, i % 16] + a[i % 8, 3])
gathered = tensor((8, 16), lambda i, j: a[as_index(at[i]), j])
padded = tensor((10,), lambda i: load_or_zero(a, i - 1, 0))
nested = tensor((8,), lambda i: fold(4, zero, lambda s, r: fold(4, s, lambda u, q: u + a[i, 4 * r + q])))


def summary(t):
    """(kind, tensor, count, may_miss) of each access, the write first, the reads by tensor."""
    write, *reads = ((x.kind, x.tensor, x.count, x.may_miss) for x in accesses(t))
    return [write, *sorted(reads, key=lambda x: x[1].id)]


def read(t, tensor):
    """The one read of `tensor`."""
    (found,) = (x for x in accesses(t) if (x.kind, x.tensor) == ("read", tensor))
    return found


def test_matmul():
    write, x, y = accesses(matmul)[0], read(matmul, a), read(matmul, b)
    assert summary(matmul) == [("write", matmul, 32, False), ("read", a, 512, False), ("read", b, 512, False)]
    assert [write.stride(v) for v in (i, j, k)] == [4, 1, 0]
    assert [x.stride(v) for v in (i, j, k)] == [16, 0, 1]
    assert [y.stride(v) for v in (i, j, k)] == [0, 1, 4]
    assert y.is_contiguous(j)
    assert not y.is_contiguous(k)
    assert all(v.is_affine for v in (write, x, y))


def test_what_does_not_depend_on_an_axis_is_counted_once():
    assert summary(softmax) == [("write", softmax, 128, False), ("read", a, 128, False), ("read", a, 128, False)]
    assert cost_of(softmax).operations == 128 + 128 + 128  # max once a row element, sub and exp once an element
    assert cost_of(softmax).functions == 128


def test_strides_of_views():
    x = accesses(flipped)[1]
    assert [x.stride(variable(0, 16)), x.stride(variable(1, 8))] == [1, -16]
    plain, divided = accesses(reshaped)[1:]
    assert (plain.stride(variable(0, 128)), plain.is_affine) == (1, True)
    assert (divided.stride(variable(0, 128)), divided.is_affine) == (None, False)


def test_gathers_and_pads():
    index, data = read(gathered, at), read(gathered, a)
    assert (index.tensor, index.count, index.stride(i)) == (at, 8, 1)
    assert (data.stride(i), data.stride(variable(1, 16)), data.is_affine) == (None, 1, False)
    assert summary(padded) == [("write", padded, 10, False), ("read", a, 10, True)]


def test_outer_loops_repeat_what_only_the_inner_one_needs():
    x = tensor((8, 16), lambda i, j: a[i, j] + at_j[j] * a[i, 0])
    assert [read(x, at_j).count, *sorted(v.count for v in accesses(x) if v.tensor is a)] == [128, 8, 128]


def test_accumulators_carry_the_axes_of_their_fold():
    x = tensor((8,), lambda i: fold(16, zero, lambda s, k: op("sqrt", s) + a[i, k]))
    assert cost_of(x).operations == 2 * 8 * 16
    assert cost_of(nested).operations == 8 * 16
    assert summary(nested)[1] == ("read", a, 128, False)
    still = tensor((8,), lambda i: fold(16, zero, lambda s, k: s + op("exp", a[i, 0])))
    assert (cost_of(still).operations, cost_of(still).functions) == (8 * 16 + 8, 8)


def test_scan_scatter_extern():
    u = ix(axes((8,))[0])
    running = scan((8,), row_sum.body, 0, 1)
    assert summary(running) == [("write", running, 8 * 17, False), ("read", a, 128, False)]
    y = input("y", (4,), f32)
    added = scatter(y, (8,), (as_index(at[u]),), row_sum[u], "add")
    assert [read(added, x).count for x in (y, row_sum, at)] == [4, 8, 8]
    assert accesses(added)[0].count == 8
    assert accesses(added)[0].is_affine is False
    assert cost_of(added).operations == 8
    ordered = extern("sort", (a,), (1, False), 1, (8, 16), i64)
    assert summary(ordered) == [("write", ordered, 128, False), ("read", a, 128, False)]


COSTS = [
    (matmul, Cost(512, 0, 512, 4 * 1024, 4 * 32, 4 * (128 + 64 + 32), 2)),
    (row_sum, Cost(256, 0, 256, 4 * 128, 4 * 8, 4 * (128 + 8), 1)),
    (a, Cost()),
    (tensor((8,), lambda i: convert(convert(a[i, 0], f16), f32)), Cost(16, 0, 16, 32, 32, 4 * 136, 1)),
    (tensor((8,), lambda i: op("lt", a[i, 0], 1.0)), Cost(8, 0, 8, 32, 8, 4 * 128 + 8, 1)),
    (tensor((0, 3), lambda i, j: const(True, bool_)), Cost()),
]


@pytest.mark.parametrize(("t", "expected"), COSTS)
def test_cost(t, expected):
    assert cost_of(t) == expected


def test_arithmetic_writes_compositions_out():
    t = tensor((8,), lambda i: op("relu", a[i, 0]))
    assert (cost_of(t).operations, cost_of(t).functions, cost_of(t).arithmetic) == (8, 8, 16)
    assert length(TABLE["add"], (f32, f32)) == 1
    assert length(TABLE["exp"], (f32,)) > 20


def test_a_program_is_the_sum_and_its_peak_follows_the_lives():
    x = input("x", (100,), f32)
    first = tensor((100,), lambda i: x[i] + 1.0)
    second = tensor((100,), lambda i: first[i] * first[i])
    third = tensor((100,), lambda i: second[i] + 2.0)
    last = tensor((), lambda: fold(100, zero, lambda s, k: s + third[k]))
    p = program((x,), (last,))
    assert program_cost(p) == Cost(400, 0, 400, 4 * 400, 4 * 301, 4 * 701, 4)
    assert peak_bytes(p) == 4 * 300  # x, one temporary, its successor
    assert peak_bytes(program((x,), (first, last))) == 4 * 400
    assert peak_bytes(program((x,), (x,))) == 400


REALISATIONS = [
    (1, 10.0, 4.0, 4.0, -2 * 1000 * 4 / 2e9),  # one reader: storing costs a write and a read
    (2, 10.0, 4.0, 4.0, 1000 * (10 / 1e9 + 4 / 2e9 - 3 * 4 / 2e9)),
    (5, 0.0, 4.0, 4.0, 1000 * (4 * 4 - 6 * 4) / 2e9),
    (5, 50.0, 8.0, 4.0, 1000 * (4 * (50 / 1e9 + 8 / 2e9) - 6 * 4 / 2e9)),
]


@pytest.mark.parametrize(("readers", "operations", "read", "stored", "gain"), REALISATIONS)
def test_realisation(readers, operations, read, stored, gain):
    found = realisation(1000, operations, read, stored, readers, Prices(1e9, 2e9))
    assert math.isclose(found.gain, gain, rel_tol=1e-12)
    assert math.isclose(found.inline, readers * 1000 * (operations / 1e9 + read / 2e9))
