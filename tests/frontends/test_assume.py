"""assay.assume: checked once, before any kernel, never trusted; what it says is known to every proof."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import assay
from assay.core.errors import OutOfBounds, UserError

X = assay.tensor(np.arange(64, dtype=np.float32))


def row(x: Any, idx: Any) -> Any:
    i = assay.assume(idx, 0, 63)
    return x[i] + x[63 - i]


def late(x: Any, idx: Any) -> Any:
    y = (x * 2).exp().sum()
    return y + x[assay.assume(idx, 0, 63)]


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.int16, np.int8, np.uint8])
def test_it_is_the_tensor_itself(dtype: Any) -> None:
    i = assay.tensor(np.array([0, 63, 5], dtype))
    assert assay.assume(i, 0, 63).numpy().tolist() == [0, 63, 5]
    assert assay.assume(i, 0, 63).dtype is i.dtype
    assert assay.compile(lambda x, i: x[assay.assume(i, 0, 63).long()])(X, i).numpy().tolist() == [0.0, 63.0, 5.0]


def test_the_checks_that_it_makes_needless_are_gone() -> None:
    i = assay.tensor(np.arange(9))
    proof = assay.prove(row, X, i)
    assert (proof.verdict.kind, [o.message for o in proof.kept]) == ("PROVED", ["assumed 0 <= value <= 63, here t0"])
    assert len(assay.prove(lambda x, i: x[i] + x[63 - i], X, i).kept) == 2


@pytest.mark.parametrize("bad", [64, -1, 2**62])
@pytest.mark.parametrize("f", [row, late])
def test_it_is_checked_at_every_call(f: Any, bad: int) -> None:
    g = assay.compile(f)
    good = np.arange(9)
    wrong = good.copy()
    wrong[7] = bad
    assert np.array_equal(g(X, assay.tensor(good)).numpy(), f(X, assay.tensor(good)).numpy())
    for call in (f, g):
        with pytest.raises(IndexError, match=rf"assumed 0 <= value <= 63, here {bad} at \[7\]") as error:
            call(X, assay.tensor(wrong))
        [note] = error.value.__notes__
        assert note.startswith("in assume")
        assert f"{__file__}:" in note
        assert note.endswith(("i = assay.assume(idx, 0, 63)", "return y + x[assay.assume(idx, 0, 63)]"))
    with pytest.raises(IndexError) as error:
        g(X, assay.tensor(wrong))
    assert "assume of idx at" in error.value.__notes__[0]


def test_it_is_checked_although_nothing_reads_it() -> None:
    g = assay.compile(lambda x, i: (assay.assume(i, 0, 3), x)[1])
    g(X, assay.tensor(np.arange(4)))
    with pytest.raises(IndexError, match=r"here 4 at \[4\]"):
        g(X, assay.tensor(np.arange(5)))


@pytest.mark.cpp
def test_the_check_runs_before_any_kernel() -> None:
    """The heavy kernel is written first in the function; the emitted code checks first."""
    g = assay.compile(late)
    g(X, assay.tensor(np.arange(9)))
    [entry] = dict.fromkeys(g.entries.values())
    text = entry.executable.text[entry.executable.text.index('extern "C" long run_0') :]
    first = text.index("return 1;")
    assert text.count("k_", 0, first) == 1  # one kernel, which is the check
    assert text.count("k_") > 1


@pytest.mark.cpp
def test_the_check_is_one_vectorised_threaded_pass() -> None:
    g = assay.compile(row)
    g(X, assay.tensor(np.arange(1 << 20) % 64))
    [entry] = dict.fromkeys(g.entries.values())
    checks = [k for k in entry.executable.plan.kernels if any(t.kind == "require" for t in k.computes)]
    assert len(checks) == 1
    assert checks[0].schedule.vector is not None
    assert checks[0].schedule.threads is not None


def test_what_the_type_says_needs_no_check() -> None:
    assert assay.prove(lambda i: assay.assume(i, 0, 255), assay.tensor(np.zeros(3, np.uint8))).kept == ()
    assert assay.prove(lambda i: assay.assume(i.clamp(0, 7), 0, 7), assay.tensor(np.arange(3))).kept == ()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((np.zeros(3, np.float32), 0, 3), UserError, "only integers"),
        ((np.zeros(3, bool), 0, 1), UserError, "only integers"),
        ((np.arange(3), 3, 2), UserError, r"no integer lies in 3\.\.2"),
        ((np.zeros(3, np.uint8), -5, -1), OutOfBounds, "cannot hold"),
        ((np.zeros(3, np.int8), 200, 300), OutOfBounds, "cannot hold"),
    ],
)
def test_what_cannot_be_assumed(arguments: Any, error: type[Exception], message: str) -> None:
    array, lo, hi = arguments
    with pytest.raises(error, match=message):
        assay.assume(assay.tensor(array), lo, hi)


# ------------------------------------------------------------------------------------------------ facts read off the data

M = assay.tensor(np.ones((9, 64), np.float32))
I = assay.tensor(np.arange(9))  # noqa: E741
B = assay.tensor(np.ones((9, 64), np.bool_))
Y = assay.tensor(np.ones(9, np.float32))
Z = assay.tensor(np.arange(65, dtype=np.float32))
PAIR = assay.tensor(np.arange(2, dtype=np.float32))

NEEDS_NO_CHECK = {
    "clamp": (lambda x, i: x[i.clamp(0, 63)], X, I),
    "floor mod": (lambda x, i: x[i % 64], X, I),
    "bits": (lambda x, i: x[i & 63], X, I),
    "where": (lambda x, i: x[assay.where((i >= 0) & (i < 64), i, 0)], X, I),
    "masked_fill": (lambda x, i: x[i.masked_fill((i < 0) | (i > 63), 0)], X, I),
    "arange": (lambda x: x[63 - assay.arange(64)], X),
    "argmax": (lambda x, m: x[m.argmax(1)], X, M),
    "max": (lambda x, m: x[m.max(1)[1]], X, M),
    "topk": (lambda x, m: x[m.topk(3, 1)[1]], X, M),
    "sort": (lambda x, m: x[m.sort(1)[1]], X, M),
    "argsort": (lambda x, m: x[m.argsort(1)], X, M),
    "kthvalue": (lambda x, m: x[m.kthvalue(3, 1)[1]], X, M),
    "median": (lambda x, m: x[m.median(1)[1]], X, M),
    "bool to int": (lambda x, b: x[b.long()], PAIR, B),
    "count": (lambda x, b: x[b.sum(1)], Z, B),
    "count of a comparison": (lambda x, m: x[(m < 0.5).long().sum(1)], Z, M),
    "prefix count": (lambda x, b: x[b.cumsum(1)], Z, B),
    "place among the selected": (lambda x, b: x[(b.cumsum(1) - 1).clamp(min=0)], X, B),
    "searchsorted": (lambda x, y: Z[assay.searchsorted(x, y)], X, Y),
    "bucketize": (lambda x, y: Z[assay.bucketize(y, x)], X, Y),
    "sampling": (lambda x, m: x[(m.softmax(1).cumsum(1) < 0.5).sum(1).clamp(max=63)], X, M),
    "float, clamped, truncated": (lambda x, y: x[(y * 63).clamp(0, 63).long()], X, Y),
    "float, truncated, clamped": (lambda x, y: x[(y * 63).long().clamp(0, 63)], X, Y),
    "float, rounded": (lambda x, y: x[y.round().clamp(0, 63).to(assay.int32)], X, Y),
    "assumed sum": (lambda x, i: x[assay.assume(i, 0, 31) + assay.assume(i, 0, 31)], X, I),
    "nested": (lambda x, i: x[assay.arange(64)[i.clamp(0, 63)]], X, I),
    "random": (lambda x: x[assay.randint(0, 64, (5,))], X),
}


@pytest.mark.parametrize("name", NEEDS_NO_CHECK)
def test_an_index_that_the_program_computes_needs_no_check(name: str) -> None:
    f, *args = NEEDS_NO_CHECK[name]
    proof = assay.prove(f, *args)
    assert proof.verdict.kind == "PROVED"
    assert [o.message for o in proof.kept if "assumed" not in o.message] == []
    assert np.array_equal(assay.compile(f, backend="reference")(*args).numpy(), f(*args).numpy()) or name == "random"


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (lambda x, i: x[i], (X, I)),
        (lambda x, i: x[i.abs().clamp(max=63)], (X, I)),  # |-2**63| is -2**63
        (lambda x, i: x[i.clamp(0, 64)], (X, I)),
        (lambda x, b: x[b.sum(1)], (X, B)),  # 64 of 64 may be selected
        (lambda x, y: x[assay.searchsorted(x, y)], (X, Y)),  # after all of them
        (lambda x, y: x[y.clamp(min=0).long()], (X, Y)),
    ],
)
def test_an_index_that_may_lie_outside_keeps_its_check(f: Any, args: Any) -> None:
    assert len(assay.prove(f, *args).kept) == 1
