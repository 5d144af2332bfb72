"""Index patterns of models: which checks go, and that enumeration at small sizes agrees with every removal."""

from __future__ import annotations

from functools import cache

import pytest

from assay.examine import final_program
from assay.verify import recheck, smtlib
from assay.verify.bounds import Proof, prove
from assay.verify.certificate import certificates
from tests.verify.patterns import PATTERNS, Pattern


@cache
def proof(p: Pattern, *, small: bool) -> Proof:
    return prove(final_program(p.function, *p.arguments(small=small)))


def checks(found: Proof) -> list[str]:
    """The messages of run-time checks that stay, but for what is assumed in so many words."""
    return [o.message for o in found.kept if not o.message.startswith("assumed")]


def test_there_are_enough() -> None:
    removable = [p for p in PATTERNS if not p.kept]
    assert len(PATTERNS) >= 60
    assert len(removable) >= 0.9 * len(PATTERNS)
    assert len({p.name for p in PATTERNS}) == len(PATTERNS)


@pytest.mark.parametrize("p", PATTERNS, ids=lambda p: p.name)
def test_the_check_goes_or_stays_with_a_reason(p: Pattern) -> None:
    found = proof(p, small=False)
    assert found.verdict.kind == "PROVED"
    assert bool(checks(found)) == bool(p.kept)
    assert all(o.reason for o in found.kept)


@pytest.mark.parametrize("p", PATTERNS, ids=lambda p: p.name)
def test_enumeration_of_the_small_one_agrees(p: Pattern) -> None:
    """Every index fact of the pattern at small sizes, by evaluating every point of its box."""
    found = certificates(proof(p, small=True))
    assert p.kept or found.open == ()
    facts = [c for c in found.certificates if c.kind in ("bounds", "range")]
    for c in facts:
        script = smtlib.read(c.text)
        assert recheck.by_enumeration(c, script) == [check.expected for check in script.checks], c.text
