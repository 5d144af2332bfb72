"""Terms of kernels: what simplification and elimination claim, beside Python's own integers."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest

from assay.kernels import terms as tm
from assay.kernels.deciding import Points, TermReading, decide
from assay.kernels.eliminate import Budget, Facts
from assay.kernels.terms import Cond, Poly

X, Y, N = (tm.leaf(n, lo, hi, "size") for n, lo, hi in (("x", -3, 4), ("y", 0, 5), ("n", 1, 4)))
POINTS = list(itertools.product(range(-3, 5), range(6), range(1, 5)))
COLUMNS = {tm.poly(p).atoms[0]: np.array([q[k] for q in POINTS], object) for k, p in enumerate((X, Y, N))}


def value(t: Poly | Cond) -> list[Any]:
    r = TermReading(Points(True), COLUMNS)
    found = r.cond(t) if isinstance(t, Cond) else r.poly(t)
    return list(np.broadcast_to(found, (len(POINTS),)))


def build(r: random.Random, depth: int) -> tuple[Poly, list[int]]:
    """A random term, and its values by Python."""
    if depth == 0:
        k = r.randint(-6, 6)
        return r.choice([(X, [p[0] for p in POINTS]), (Y, [p[1] for p in POINTS]), (N, [p[2] for p in POINTS]),
                         (tm.poly(k), [k] * len(POINTS))])  # fmt: skip
    (a, xs), (b, ys) = build(r, depth - 1), build(r, depth - 1)
    op = r.choice(["+", "-", "*", "//", "%", "min", "max", "&", "|", "^", "select"])
    if op in ("//", "%"):
        d, ds = r.choice([(N, [p[2] for p in POINTS]), (2 * N, [2 * p[2] for p in POINTS]), (tm.poly(3), [3] * len(POINTS)),
                          (tm.poly(4), [4] * len(POINTS))])  # fmt: skip
        if op == "//":
            return tm.floordiv(a, d), [x // y for x, y in zip(xs, ds, strict=True)]
        return tm.mod(a, d), [x % y for x, y in zip(xs, ds, strict=True)]
    if op == "select":
        c, _ = build(r, 0)
        return tm.select(tm.less(a, c), a, b), [
            x if x < z else y for x, y, z in zip(xs, ys, value(c), strict=True)
        ]  # fmt: skip
    make = {"+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "min": lambda: tm.minimum(a, b),
            "max": lambda: tm.maximum(a, b),
            "&": lambda: tm.bits("and", a, b), "|": lambda: tm.bits("or", a, b), "^": lambda: tm.bits("xor", a, b)}  # fmt: skip
    mean = {"+": lambda x, y: x + y, "-": lambda x, y: x - y, "*": lambda x, y: x * y, "min": min, "max": max,
            "&": lambda x, y: x & y, "|": lambda x, y: x | y, "^": lambda x, y: x ^ y}  # fmt: skip
    return make[op](), [mean[op](x, y) for x, y in zip(xs, ys, strict=True)]


@pytest.mark.parametrize("seed", range(6))
def test_terms_mean_what_python_means(seed: int) -> None:
    r = random.Random(seed)
    for _ in range(60):
        t, expected = build(r, r.randint(1, 3))
        assert value(t) == expected, t
        assert t.lo <= min(expected), t
        assert t.hi >= max(expected), t
        assert value(tm.nonnegative(t)) == [x >= 0 for x in expected]
        assert value(tm.negation(tm.nonnegative(t))) == [x < 0 for x in expected]
        assert value(tm.zero(t)) == [x == 0 for x in expected]


@pytest.mark.parametrize("seed", range(3))
def test_elimination_and_decide_prove_nothing_false(seed: int) -> None:
    r = random.Random(100 + seed)
    proved = 0
    for _ in range(40):
        g, values = build(r, r.randint(1, 3))
        h, given = build(r, r.randint(0, 2))
        goal, hypothesis = tm.nonnegative(g), tm.nonnegative(h)
        if hypothesis is tm.FALSE:
            continue
        true = all(x >= 0 for x, y in zip(values, given, strict=True) if y >= 0)
        if Facts((hypothesis,), (goal, g), Budget(60)).proves(g):
            proved += 1
            assert true, (g, h)
        answer = decide(goal, (hypothesis,))
        assert answer.status == ("proved" if true else "refuted"), (g, h)
    assert proved


def test_substitution_is_evaluation_at_the_image() -> None:
    r = random.Random(7)
    x, y, n = (p.atoms[0] for p in (X, Y, N))
    for _ in range(60):
        t, _ = build(r, 2)
        moved = tm.substitute(t, {x: Y - 2, y: N + 1})
        at = TermReading(Points(True), {x: COLUMNS[y] - 2, y: COLUMNS[n] + 1, n: COLUMNS[n]})
        assert value(moved) == list(np.broadcast_to(at.poly(t), (len(POINTS),)))


I, J, S, T = (tm.leaf(n, 0, 1 << 40, "size") for n in "ijst")  # noqa: E741
CASES = [
    ("i*t + j < s*t", (tm.less(I, S), tm.less(J, T)), tm.less(I * T + J, S * T), True),
    ("i*s + j < s*t is false", (tm.less(I, S), tm.less(J, T)), tm.less(I * S + J, S * T), False),
    ("i <= s*t - 1 gives i // t < s", (tm.less(I, S * T), tm.less(tm.poly(0), T)), tm.less(tm.floordiv(I, T + 0), S), True),
    ("i % t < t", (tm.less(tm.poly(0), T),), tm.less(tm.mod(I, T), T), True),
    ("t * (i // t) <= i", (tm.less(tm.poly(0), T),), tm.at_most(T * tm.floordiv(I, T), I), True),
    ("min(i, j) <= (i + j) // 2", (), tm.at_most(tm.minimum(I, J), tm.floordiv(I + J, tm.poly(2))), True),
    ("max(i, j) <= (i + j) // 2 is false", (), tm.at_most(tm.maximum(I, J), tm.floordiv(I + J, tm.poly(2))), False),
    ("blocks: i < cdiv(s, 128), then 128*i < s", (tm.less(I, tm.floordiv(S + 127, tm.poly(128))),), tm.less(128 * I, S), True),
    ("blocks: 128*i + 127 < s is false", (tm.less(I, tm.floordiv(S + 127, tm.poly(128))),), tm.less(128 * I + 127, S), False),
]  # fmt: skip


@pytest.mark.parametrize(("name", "given", "goal", "true"), CASES, ids=[c[0] for c in CASES])
def test_symbolic_facts(name: str, given: tuple[Cond, ...], goal: Cond, *, true: bool) -> None:
    assert decide(goal, given).status == ("proved" if true else "refuted")
