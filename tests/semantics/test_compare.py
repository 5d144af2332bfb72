"""Equality of results: what counts as equal, and what a comparator must never accept."""

import math

import numpy as np
import pytest

from assay.core.dtypes import bf16
from assay.semantics.compare import bits_equal, evidence, first_difference

inf, nan = math.inf, math.nan
TYPES = [np.float32, np.float64, np.float16, bf16.numpy]

# a, b, equal, elements that are evidence when equal
PAIRS = [
    (nan, 0.96, False, 1),
    (nan, -inf, False, 1),
    (inf, -inf, False, 1),
    (nan, nan, True, 0),
    (0.0, -0.0, False, 1),
    (0.0, 0.0, True, 1),
    (-0.0, -0.0, True, 1),
    (inf, inf, True, 1),
    (1.0, 1.5, False, 1),
    (0.5, 0.5, True, 1),
]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("a", "b", "equal", "count"), PAIRS)
def test_pairs(dtype, a, b, equal, count):
    x, y = (np.array([1.0, v, 2.0], np.float32).astype(dtype) for v in (a, b))
    assert bits_equal(x, y) is equal
    assert bits_equal(y, x) is equal
    assert evidence(x, y) == 2 + count
    found = first_difference(x, y)
    assert (found is None) is equal
    if found is not None:
        assert found[0] == (1,)
        assert [repr(float(v)) for v in found[1:]] == [repr(float(v)) for v in (x[1], y[1])]


def test_nans_of_any_payload_are_equal():
    a = np.array([0x7FC00000, 0xFFC00001, 0x7F800001], np.uint32).view(np.float32)
    assert bits_equal(a, np.full(3, nan, np.float32))


def test_neighbours_differ():
    assert not bits_equal(np.float32([1.0]), np.nextafter(np.float32([1.0]), np.float32(2)))
    assert not bits_equal(np.float32([0.0]), np.float32([1e-45]))


@pytest.mark.parametrize(("a", "b"), [((0,), (0,)), ((2, 0), (2, 0))])
def test_empty_results_are_equal_and_no_evidence(a, b):
    x, y = np.zeros(a, np.float32), np.zeros(b, np.float32)
    assert bits_equal(x, y)
    assert evidence(x, y) == 0
    assert evidence(x.astype(np.int64), y.astype(np.int64)) == 0


def test_all_nan_results_are_equal_and_no_evidence():
    x = np.full((2, 2), nan, np.float32)
    assert bits_equal(x, x)
    assert evidence(x, x) == 0


SHAPES = [((1,), ()), ((0,), (0, 1)), ((2, 3), (3, 2)), ((2,), (1, 2))]


@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_shapes_and_types_never_broadcast(a, b):
    x, y = np.zeros(a, np.float32), np.zeros(b, np.float32)
    assert not bits_equal(x, y)
    assert not bits_equal(x, x.astype(np.float64))
    with pytest.raises(ValueError, match="only arrays of one shape and dtype compare"):
        first_difference(x, y)


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8])
def test_integers(dtype):
    x = np.array([[0, 1], [1, 0]]).astype(dtype)
    y = np.array([[0, 1], [0, 1]]).astype(dtype)
    assert bits_equal(x, x.copy())
    assert not bits_equal(x, y)
    assert first_difference(x, y) == ((1, 0), x[1, 0], y[1, 0])
    assert evidence(x, x) == 4


WRONG = {
    "nothing is greater than a NaN": lambda a, b: not abs(a - b) > 1e-6,
    "NaN only on one side": lambda a, b: a == b or math.isnan(a) or math.isnan(b),
    "== of floats": lambda a, b: a == b,
    "+0 is -0": lambda a, b: a == b or (math.isnan(a) and math.isnan(b)),
    "both infinite": lambda a, b: repr(a) == repr(b) or (math.isinf(a) and math.isinf(b)),
    "close": lambda a, b: repr(a) == repr(b) or abs(a - b) <= 0.5,
}


@pytest.mark.parametrize("comparator", WRONG.values(), ids=WRONG.keys())
def test_the_table_catches_wrong_comparators(comparator):
    assert any(comparator(a, b) is not equal for a, b, equal, _ in PAIRS)


def test_the_table_accepts_the_right_one():
    assert all((repr(a) == repr(b)) is equal for a, b, equal, _ in PAIRS)
