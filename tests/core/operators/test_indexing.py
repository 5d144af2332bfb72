"""Indexing against numpy, and the errors of indices that lie outside."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from assay.core import dtypes as dt
from assay.core.errors import OutOfBounds, Unsupported, UserError
from assay.core.index import ix
from assay.core.lang import index, input, program, requires, tensor
from assay.core.operators import OPERATORS
from assay.core.operators.guards import checked_index, clamped, inside, load_or
from assay.core.operators.samples import like
from assay.semantics.denote import RequireError, run
from tests.core.operators.calling import array, call, drawn, evaluate, same

inf, nan = math.inf, math.nan
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def at(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


# ------------------------------------------------------------------------------------------------ every sample


def _index(x: Any, given: Any) -> Any:
    return x[tuple(slice(None) if i is None else i for i in given)]


def _gather(x: Any, d: int, i: Any, _: Any) -> Any:
    if not x.shape:
        return np.broadcast_to(x, i.shape)
    kept = tuple(slice(None) if k == d % x.ndim else slice(i.shape[k]) for k in range(x.ndim))
    return np.take_along_axis(x[kept], i, d)


def _along(x: Any, i: Any, d: int | None) -> Any:
    if d is None:
        return x.ravel()[i.ravel()]
    return np.take_along_axis(*(np.broadcast_to(a, np.broadcast_shapes(a.shape, _one(x, d), _one(i, d))) for a in (x, i)), d)


def _one(a: Any, d: int) -> tuple[int, ...]:
    """The shape of `a` with size 1 in axis d."""
    return tuple(1 if k == d % a.ndim else n for k, n in enumerate(a.shape))


REFERENCES = {
    "index.Tensor": _index,
    "_unsafe_index.Tensor": _index,
    "index_select.default": lambda x, d, i: np.take(x, np.atleast_1d(i), d) if x.shape else x,
    "gather.default": _gather,
    "take_along_dim.default": _along,
    "take.default": lambda x, i: x.ravel()[i],
    "assume.default": lambda x, lo, hi: x,
    "embedding.default": lambda w, i, *_: w[i],
    "one_hot.default": lambda i, n: np.eye(n, dtype=np.int64)[i],
    "masked_fill.Scalar": lambda x, m, v: np.where(m, np.asarray(v, x.dtype), x),
    "masked_fill.Tensor": lambda x, m, v: np.where(m, v.astype(x.dtype), x),
}


def test_every_overload_of_the_family_has_a_formula():
    others = {"masked_select.default", "nonzero.default"}
    assert {o.name for o in OPERATORS.values() if o.family == "indexing" and not o.inplace_of} == {*REFERENCES, *others}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", REFERENCES)
def test_every_sample(name):
    for arguments in drawn(OPERATORS[name]):
        assert same(evaluate(OPERATORS[name], arguments), REFERENCES[name](*arguments)), arguments


# ------------------------------------------------------------------------------------------------ literals


@pytest.mark.parametrize(("name", "args", "expected"), [
    ("index", (X, (at(-1),)), [[3, 4, 5]]),
    ("index", (X, (at(0, -1), at(2, -3))), [2, 3]),
    ("index", (X, (None, at(2, 0))), [[2, 0], [5, 3]]),
    ("index", (np.arange(24, dtype=np.float32).reshape(2, 3, 4), (at(0, 1), None, at(1, 2))), [[1, 5, 9], [14, 18, 22]]),
    ("index", (array([nan, -0.0, inf]), (at(1, 0),)), [-0.0, nan]),
    ("index_select", (X, 1, at(2, 2)), [[2, 2], [5, 5]]),
    ("gather", (X, 1, np.array([[2], [0]])), [[2], [3]]),
    ("take", (X, at(-1, 0)), [5, 0]),
    ("embedding", (X, np.array([[1], [0]])), [[[3, 4, 5]], [[0, 1, 2]]]),
    ("masked_fill", (X, X > 3, -inf), [[0, 1, 2], [3, -inf, -inf]]),
    ("masked_fill", (array([nan, 1]), np.array([False, True]), -0.0), [nan, -0.0]),
])  # fmt: skip
def test_values(name, args, expected):
    assert same(call(name, *args), array(expected))


def test_i32_indices():
    assert same(call("index", X, (np.array([-1], np.int32),)), X[[-1]])


# ------------------------------------------------------------------------------------------------ outside


@pytest.mark.parametrize(("name", "args", "text"), [
    ("index", (X, (at(2),)), "0 <= 2 < 2 (index.Tensor, dimension 0; a negative index wraps once) at [0]"),
    ("index", (X, (at(0, -3),)), "0 <= -1 < 2 (index.Tensor, dimension 0; a negative index wraps once, here -3) at [1]"),
    ("index", (X, (None, at(0, 3))), "0 <= 3 < 3 (index.Tensor, dimension 1"),
    ("index", (X, (at(0, 7), at(0, 9))), "0 <= 7 < 2 (index.Tensor, dimension 0"),
    ("index_select", (X, 0, at(-1)), "0 <= -1 < 2 (index_select, dimension 0; negative indices are not allowed)"),
    ("index_select", (X, -1, at(0, 3)), "0 <= 3 < 3 (index_select, dimension 1"),
    ("gather", (X, 1, np.array([[-1]])), "0 <= -1 < 3 (gather, dimension 1; negative indices are not allowed) at [0, 0]"),
    ("take", (X, at(6)), "0 <= 6 < 6 (take"),
    ("take", (X, at(-7)), "0 <= -1 < 6 (take"),
    ("take_along_dim", (X, np.array([[3]]), 1), "0 <= 3 < 3 (take_along_dim"),
    ("embedding", (X, at(1, -2)), "0 <= -2 < 2 (embedding, dimension 0; negative indices are not allowed) at [1]"),
    ("one_hot", (at(0, 3), 3), "0 <= 3 < 3 (one_hot"),
    ("index", (X[:1], (at(1),)), "0 <= 1 < 1"),  # an axis of size 1 is read at 0, whatever the index: the check remains
    ("gather", (X[:, :1], 1, np.array([[1]])), "0 <= 1 < 1"),
    ("index", (X[:, :0], (at(2),)), "0 <= 2 < 2"),  # nothing is read, the index is still wrong
    ("index", (X, (at(1 << 62),)), "0 <= 4611686018427387904 < 2"),
    ("index", (X, (at(-(1 << 63)),)), "0 <= -9223372036854775806 < 2"),
])  # fmt: skip
def test_an_index_outside_is_an_index_error(name, args, text):
    with pytest.raises(IndexError) as error:
        call(name, *args)
    assert isinstance(error.value, RequireError)
    assert f"index out of bounds: {text}" in str(error.value)


def test_an_index_into_nothing_is_an_error_before_anything_runs():
    with pytest.raises(OutOfBounds, match=r"0 <= .* < 0"):
        call("index", X[:0], (at(0),))
    assert call("index", X[:0], (at(),)).shape == (0, 3)


@pytest.mark.parametrize(("name", "args"), [
    ("masked_select", (X, X > 3)),
    ("nonzero", (X,)),
    ("index", (X, (X > 3,))),
    ("one_hot", (at(0, 1),)),
    ("embedding", (X, at(0), -1, False, True)),
])  # fmt: skip
def test_what_depends_on_the_data_says_what_to_use(name, args):
    with pytest.raises(Unsupported, match=r"use |leave them"):
        call(name, *args)


@pytest.mark.parametrize(("name", "args", "text"), [
    ("index", (X, (X,)), "an index tensor must be i64 or i32, not f32"),
    ("index", (X, (at(0), at(0), at(0))), "3 indices for a tensor of shape [2, 3]"),
    ("index", (X, (at(0, 1), at(0, 1, 2))), "do not broadcast"),
    ("index_select", (X, 2, at(0)), "dim 2 is not an axis"),
    ("index_select", (X, 0, np.array([[0]])), "at most one axis"),
    ("gather", (X, 0, at(0)), "allowed: the same rank"),
    ("gather", (X, 0, np.zeros((1, 4), np.int64)), "no larger in the other axes"),
    ("embedding", (X[0], at(0)), "must have 2 axes"),
    ("masked_fill", (X, X, 0), "the mask must be bool, not f32"),
    ("masked_fill", (at(1), np.array([True]), 0.5), "the float 0.5 is not a value of type i64"),
    ("masked_fill", (X, X > 0, X), "value must have no axes"),
])  # fmt: skip
def test_wrong_arguments(name, args, text):
    with pytest.raises(UserError) as error:
        call(name, *args)
    assert text in str(error.value)


# ------------------------------------------------------------------------------------------------ what is proved


X128 = input("x", (128,), dt.f32)


def test_an_index_that_its_interval_proves_needs_no_check():
    x = OPERATORS["index.Tensor"](X128, (tensor((128,), lambda i: index(i * 3 % 128)),))
    assert not requires(program((X128,), (x,)))


def test_an_index_that_its_interval_refutes_is_an_error_at_once():
    with pytest.raises(OutOfBounds, match=r"0 <= 130 \.\. 257 < 128"):
        OPERATORS["index.Tensor"](X128, (tensor((128,), lambda i: index(i + 130)),))


def test_loads_through_a_check_carry_its_interval():
    idx = OPERATORS["index.Tensor"].program(like(128), (like(5, dtype=dt.i64),))
    (check,) = requires(idx)
    assert (check.kind, check.lo, check.hi) == ("require", 0, 127)
    assert check.message.startswith("[IndexError] index out of bounds: 0 <= {value} < 128")


def test_a_check_that_no_result_reads_is_an_effect():
    p = OPERATORS["index.Tensor"].program(like(1, 3), (like(2, dtype=dt.i64),))
    assert [t.kind for t in p.effects] == ["require"]


@pytest.mark.parametrize(("i", "n", "held"), [(-1, 3, False), (0, 3, True), (2, 3, True), (3, 3, False)])
def test_guards(i, n, held):
    x = tensor((n,), lambda k: index(k) + 10)
    (found,) = run(program((), (tensor((1,), lambda _: load_or(x, [ix(i)], -7)),)), [])
    assert found.tolist() == [i + 10 if held else -7]
    assert bool(inside([ix(i)], [n]).lo) is held
    assert clamped(ix(i), n).lo == min(max(i, 0), n - 1)


def test_a_check_keeps_its_own_index_type():
    checked = checked_index(tensor((4,), lambda i: index(i, dt.i32)), 4, operator="f", dim=0)
    assert checked.dtype is dt.i64
