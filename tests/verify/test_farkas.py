"""Multipliers of small systems: what adds up to -1, and systems with a solution."""

from fractions import Fraction

import pytest

from assay.verify.farkas import multipliers

X, Y, XY = ("x",), ("y",), ("x", "y")
RLIMIT = 100_000


@pytest.mark.parametrize(
    ("positive", "zero"),
    [
        ([{(): -1}], []),
        ([{X: 1, (): -1}, {X: -1}], []),  # x >= 1, x <= 0
        ([{X: 2, (): -3}, {X: -3, (): 1}], []),  # by fractions
        ([{X: 1}], [{X: 1, (): 5}]),  # x >= 0, x == -5
        ([{X: 1}], [{X: -1, (): -5}]),  # the other sign of the multiplier
        ([{X: Fraction(1, 3), (): Fraction(-2, 7)}, {X: -1}], []),
        ([{XY: 1}, {X: -1, (): -1}, {Y: 1}], [{XY: 1, X: -1}]),  # xy >= 0, xy == x, x <= -1
    ],
)
def test_the_parts_add_up(positive: list, zero: list) -> None:
    found = multipliers(positive, zero, rlimit=RLIMIT)
    assert found is not None
    assert len(found[0]) == len(positive)
    assert len(found[1]) == len(zero)
    assert all(a >= 0 for a in found[0])
    total: dict = {}
    for a, p in zip(found[0] + found[1], positive + zero, strict=True):
        for m, c in p.items():
            total[m] = total.get(m, 0) + a * c
    assert {m: c for m, c in total.items() if c} == {(): -1}


@pytest.mark.parametrize(
    ("positive", "zero"),
    [
        ([], []),
        ([{(): 1}], []),
        ([{X: 1}, {X: -1}], []),
        ([{X: 1, (): -1}, {X: -1, (): 1}], [{X: 1, (): -1}]),
        ([{X: 1, (): -1}, {Y: -1}], []),  # x >= 1, y <= 0
        ([{X: 1}], [{X: 1, (): -5}]),
    ],
)
def test_a_system_with_a_solution_has_none(positive: list, zero: list) -> None:
    assert multipliers(positive, zero, rlimit=RLIMIT) is None
