"""Orders of evaluation, and what they hold at once."""

import pytest

from assay.core import dtypes as dt
from assay.core.lang import T, input, load, op, program, tensor
from assay.semantics.lifetimes import demanded, peak, thrifty_order, working_bytes

X = input("x", (25,), dt.f32)  # 100 bytes


def step(name: str, *of: T) -> T:
    return tensor((25,), lambda i: op(name, *(load(t, i) for t in of)))


@pytest.mark.parametrize(
    ("last", "order"), [("d", "abdc"), ("c", "abcd"), ("cd", "abcd"), ("dc", "abdc"), ("", "abcd"), ("ba", "abcd")]
)
def test_each_unit_comes_after_what_it_needs_and_late(last: str, order: str) -> None:
    needs = {"a": "", "b": "a", "c": "b", "d": "ab"}
    found = demanded("abcd", lambda u: needs[u], last)
    assert sorted(found) == list("abcd")
    assert all(found.index(r) < found.index(u) for u in "abcd" for r in needs[u])
    assert "".join(found) == order


def test_a_peak_by_hand() -> None:
    a = step("exp", X)
    b = step("sin", a)
    c = step("add", a, b)
    of = dict(made=lambda t: (t,), reads=lambda t: t.reads)
    assert peak([a, b, c], **of, kept=(c,)) == 300  # the result throughout; a and b
    assert peak([a, b, c], **of, kept=()) == 300  # a is read until c is there
    assert peak([a, b], **of, kept=()) == 200
    assert peak([a], **of, kept=(a,)) == 100


def test_what_is_read_late_is_made_late() -> None:
    """Five values made first and read one after the other, last to first: in creation order all five are held."""
    made = [step("exp", X)]
    for _ in range(4):
        made.append(step("sin", tensor((25,), lambda i, a=made[-1]: load(a, i) + 1.0)))
    early = [tensor((25,), lambda i, k=k: op("cos", load(X, i) * (k + 2.0))) for k in range(5)]
    late = step("neg", X)
    sums = []
    for e in reversed(early):
        late = step("mul", late, e)
        sums.append(tensor((), lambda t=late: load(t, 0)))
    p = program([X], sums[::-1])
    create = peak(p.tensors, lambda t: (t,), lambda t: t.reads, frozenset(p.outputs))
    assert create == 20 + 700
    assert working_bytes(p) == 20 + 300
    assert sorted(t.id for t in thrifty_order(p)) == sorted(t.id for t in p.tensors)


def test_an_order_is_one_of_the_program() -> None:
    from assay.fuzz.chains import chain

    for seed in range(20):
        p = chain(seed).program
        known = set(p.inputs)
        for t in thrifty_order(p):
            assert t.reads <= known
            known.add(t)
        assert set(p.tensors) <= known
        assert working_bytes(p) <= peak(p.tensors, lambda t: (t,), lambda t: t.reads, frozenset(p.outputs))
