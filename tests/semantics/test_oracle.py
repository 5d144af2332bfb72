"""Random programs: the vectorised reference and the element-by-element oracle have the same bits and the same errors."""

import math

import numpy as np
import pytest

from assay.core.dtypes import f32
from assay.core.index import ix
from assay.core.lang import axes, const, input, load_or_zero, op, program, scatter, tensor
from assay.core.lang import fold as left_fold
from assay.semantics import denote, fold, scope
from assay.semantics.denote import RequireError, evidence, first_difference, run
from tests.semantics import oracle
from tests.semantics.generate import Generator


def disagreement(program, arrays):
    """A description of the first difference, or None; and how many elements were evidence."""
    with np.errstate(all="ignore"):
        try:
            expected = oracle.run(program, arrays)
        except oracle.Failed as failed:
            expected = failed.args[:2]
    try:
        found = run(program, arrays)
    except RequireError as error:
        found = error.tensor, error.index
    if isinstance(found, tuple) or isinstance(expected, tuple):
        return (None, 1) if found == expected else (f"{found} for {expected}", 0)
    for a, b in zip(found, expected, strict=True):
        difference = first_difference(a, b)
        if difference is not None:
            return str(difference), 0
    return None, sum(evidence(a, b) for a, b in zip(found, expected, strict=True))


def check(seeds):
    total = 0
    for seed in seeds:
        g = Generator(seed)
        difference, count = disagreement(g.program(), g.arrays())
        assert difference is None, f"seed {seed}"
        total += count
    assert total > len(seeds)


@pytest.mark.parametrize("start", range(0, 160, 20))
def test_random_programs(start):
    check(range(start, start + 20))


@pytest.fixture
def tiny_blocks(monkeypatch):
    """Boxes, chunks of folds and thresholds so small that every path runs on small arrays."""
    monkeypatch.setattr(denote, "BLOCK", 4)
    monkeypatch.setattr(fold, "CHUNK", 6)
    monkeypatch.setattr(fold, "FEW", 2)
    monkeypatch.setattr(fold, "VERY_FEW", 1)
    denote.code_of.cache_clear()
    yield
    denote.code_of.cache_clear()


@pytest.mark.usefixtures("tiny_blocks")
@pytest.mark.parametrize("start", range(0, 160, 20))
def test_random_programs_in_tiny_blocks(start):
    check(range(start, start + 20))


@pytest.mark.full
@pytest.mark.parametrize("start", range(1000, 5000, 200))
def test_many_random_programs(start):
    check(range(start, start + 200))


def no_mask(access, idx, t, stored, s):
    clipped = (np.clip(s.index(i), 0, n - 1) * k for i, n, k in zip(idx, t.shape, access.strides, strict=True))
    return stored.flat[np.asarray(sum(clipped), np.int64)] if t.size else gather(access, idx, t, stored, s)


def first_wins(y, at, x):
    y[at[::-1]] = x[::-1]


def rounded_twice(x, y, a):
    states = []
    for p in x * y:
        a = float(p) + a
        states.append(a)
    return states


def sign_of_zero_lost(codes, dtype):
    return decode(codes, dtype) + dtype.type(0)


decode, gather = fold._decode, scope._gather

x = input("x", (4,), f32)
pad = tensor((5,), lambda i: load_or_zero(x, i + 1))
u = ix(axes((4,))[0])
last = scatter(x, (4,), (u // 2,), x[u])
dot = tensor((), lambda: left_fold(4, const(0.0, f32), lambda a, r: op("fma", x[r], x[r], a)))
largest = tensor((), lambda: left_fold(4, const(-math.inf, f32), lambda a, r: op("max", a, x[r])))

# the function to replace, by what, and a program and its input that show it
MUTANTS = [
    (scope, "_gather", no_mask, pad, (1.0, 2.0, 3.0, 4.0)),
    (denote, "_set", first_wins, last, (1.0, 2.0, 3.0, 4.0)),
    (fold, "fma32_chain", rounded_twice, dot, (7.6, 6.8, 3.8, 2.3)),
    (fold, "_decode", sign_of_zero_lost, largest, (-1.0, -0.0, -2.0, -0.0)),
]


@pytest.mark.parametrize(("module", "name", "mutant", "output", "values"), MUTANTS)
def test_the_comparison_can_fail(monkeypatch, module, name, mutant, output, values):
    p, arrays = program((x,), (output,)), [np.array(values, np.float32)]
    assert disagreement(p, arrays)[0] is None
    monkeypatch.setattr(module, name, mutant)
    assert disagreement(p, arrays)[0] is not None
