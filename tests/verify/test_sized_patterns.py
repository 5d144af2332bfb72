"""Index patterns of models for all sizes: which checks go, and that enumeration at small sizes agrees with every removal."""

from __future__ import annotations

from functools import cache

import pytest

from assay.core.errors import UserError
from assay.dynamic import SizedProgram
from assay.verify import bounds, recheck, smtlib
from assay.verify.certificate import certificates
from tests.verify.patterns import PATTERNS, Pattern
from tests.verify.sized_patterns import sized
from tests.verify.test_patterns import checks

KEPT = {
    "nearest by floats": "n - 1 is rounded to f32 where there are more than 2**24 elements",
    "argmin of a matrix": "a fold over two axes is not known to stay below their product",
}  # beside those that keep their check at real sizes too


@cache
def program(p: Pattern, *, small: bool) -> SizedProgram:
    return sized(p).program(small=small)


def is_free(found: bounds.Proof) -> bool:
    return found.verdict.kind == "PROVED" and not checks(found)


def test_enough_are_free() -> None:
    assert sum(not p.kept and p.name not in KEPT for p in PATTERNS) >= 0.9 * len(PATTERNS)


@pytest.mark.parametrize("p", PATTERNS, ids=lambda p: p.name)
def test_the_check_goes_for_all_sizes_or_stays_with_a_reason(p: Pattern) -> None:
    found = bounds.prove(program(p, small=False).final)
    assert is_free(found) is not (bool(p.kept) or p.name in KEPT)
    assert all(o.reason for o in found.kept)
    assert "{" not in "".join(o.message for o in found.kept)


@pytest.mark.parametrize("p", PATTERNS, ids=lambda p: p.name)
def test_enumeration_at_small_sizes_agrees(p: Pattern) -> None:
    """Every index fact at several small sizes that the guards admit, by evaluating every point of its box."""
    made = program(p, small=True)
    free = is_free(bounds.prove(made.final))
    tried = 0
    for more in (0, 1, -1, 2):
        try:
            at = made.at({s.name: made.sizes.assumptions.hints[s] + more for s in made.final.sizes})
        except UserError:  # a guard does not hold there
            continue
        tried += 1
        proof = bounds.prove(at)
        assert not free or is_free(proof)
        for c in certificates(proof).certificates:
            if c.kind in ("bounds", "range"):
                script = smtlib.read(c.text)
                assert recheck.by_enumeration(c, script) in (None, [check.expected for check in script.checks]), c.text
    assert tried
