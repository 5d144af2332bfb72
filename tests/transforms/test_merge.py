"""Loop merging (proposition 6.3): which axes merge, and that the memory is the same."""

import numpy as np
import pytest

from assay.core import dtypes as dt
from assay.core.lang import const, fold, index, input, let, op, program, tensor
from assay.semantics.access import row_major
from assay.semantics.compare import bits_equal
from assay.semantics.denote import run
from assay.transforms.merge import merge_axes, merge_loops

X = input("x", (4, 5, 6, 7), dt.f32)
B = input("b", (6, 7), dt.f32)
V = input("v", (7,), dt.f32)
Q = input("q", (64, 16384), dt.f32)

CASES = [
    ("pointwise", tensor((4, 5, 6, 7), lambda i, j, k, n: X[i, j, k, n] * 2.0), (840,)),
    ("bias over two axes", tensor((4, 5, 6, 7), lambda i, j, k, n: X[i, j, k, n] + B[k, n]), (20, 42)),
    ("bias over one axis", tensor((4, 5, 6, 7), lambda i, j, k, n: X[i, j, k, n] + V[n]), (120, 7)),
    ("transposed", tensor((5, 4, 6, 7), lambda j, i, k, n: X[i, j, k, n] * 2.0), (5, 4, 42)),
    ("an axis read as a value", tensor((4, 5), lambda i, j: op("add", index(i, dt.i32), index(j, dt.i32))), (4, 5)),
    ("unit axes", tensor((1, 6, 1, 7), lambda i, j, k, n: B[j, n] * 2.0), (42,)),
    ("a fold stays", tensor((6, 5, 4), lambda k, j, i: fold(7, const(0.0, dt.f32), lambda s, n: s + X[i, j, k, n])), (6, 5, 4)),
    # Listing 6.4: 16384*i0 + 8192*i1 + r with sizes 64, 2 becomes 8192*x0 with 128 (checklist 100).
    ("split sum", tensor((64, 2), lambda i, p: fold(8192, const(0.0, dt.f32), lambda s, r: s + Q[i, 8192 * p + r])), (128,)),
]


@pytest.mark.parametrize(("name", "t", "shape"), CASES, ids=[c[0] for c in CASES])
def test_99_shape_of_the_merged_loops(name, t, shape):
    assert merge_loops(t).shape == shape


@pytest.mark.parametrize(("name", "t", "shape"), CASES[:-1], ids=[c[0] for c in CASES[:-1]])
def test_same_elements_in_the_same_order(name, t, shape):
    inputs = [u for u in (X, B, V) if u in t.reads]
    arrays = [np.random.default_rng(0).standard_normal(u.shape).astype(np.float32) for u in inputs]
    (a,), (b,) = run(program(inputs, (t,)), arrays), run(program(inputs, (merge_loops(t),)), arrays)
    assert bits_equal(a.reshape(b.shape), b)


def test_100_the_address_of_listing_6_4_after_merging():
    merged = merge_loops(CASES[-1][1])
    (load,) = [e for e in merged.body.args[1].args if e.op == "load"]
    assert repr(row_major(load.attr[0].shape, load.attr[1])) == "8192*i0+i1"


def test_100_one_access_that_does_not_merge_blocks_it():
    t = tensor((4, 5), lambda i, j: op("add", X[i, j, 0, 0], X[j % 4, i, 0, 0]))
    assert merge_axes(t, 0) is None


def test_a_wrong_merge_is_caught_by_running():
    t = tensor((5, 4), lambda j, i: X[i, j, 0, 0])
    wrong = let((20,), tensor((20,), lambda m: X[m // 5, m % 5, 0, 0]).body)
    x = np.random.default_rng(0).standard_normal(X.shape).astype(np.float32)
    (a,), (b,) = run(program((X,), (t,)), [x]), run(program((X,), (wrong,)), [x])
    assert not bits_equal(a.reshape(-1), b)
