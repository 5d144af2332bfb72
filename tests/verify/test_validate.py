"""Translation validation: what is equal is proved, by the laws that it needs; what differs in one place is not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from assay.core.parser import parse
from assay.semantics.compare import first_difference
from assay.semantics.denote import run
from assay.semantics.inputs import KINDS, draw_inputs
from assay.verify import integers
from assay.verify.validate import validate
from tests.verify.pairs import BAD, GOOD, Pair

CASES = Path(__file__).parent.parent / "cases" / "transforms"


@pytest.mark.parametrize("pair", GOOD, ids=lambda p: p.name)
def test_equal_programs_are_proved_by_these_laws(pair: Pair) -> None:
    source, target = pair.programs
    found = validate(source, target, laws=pair.laws)
    assert found.proved, found
    assert {law.name for law in found.laws} == pair.used
    assert not validate(source, source).laws


@pytest.mark.parametrize("pair", [p for p in GOOD if p.used], ids=lambda p: p.name)
def test_a_bitwise_contract_allows_no_law(pair: Pair) -> None:
    found = validate(*pair.programs)
    assert not found.proved
    for law in pair.laws - {"unit"}:
        assert not validate(*pair.programs, laws=pair.laws - {law}).proved, law


@pytest.mark.parametrize("pair", BAD, ids=lambda p: p.name)
def test_different_programs_are_not_proved(pair: Pair) -> None:
    found = validate(*pair.programs, laws=pair.laws)
    assert not found.proved
    assert found.where
    assert found.reason


@pytest.mark.parametrize("pair", GOOD, ids=lambda p: p.name)
def test_what_is_proved_without_laws_has_the_same_bits(pair: Pair) -> None:
    """The judgement of the pairs themselves, by running them."""
    source, target = pair.programs
    if pair.used:
        return
    rng = np.random.default_rng(0)
    for kind in KINDS:
        xs = draw_inputs(source, kind, rng, defined=True)
        for a, b in zip(run(source, xs), run(target, xs), strict=True):
            assert first_difference(a, b) is None


@pytest.mark.parametrize("path", sorted(CASES.glob("*.txt")), ids=lambda p: p.stem)
def test_the_cases_of_the_transformations(path: Path) -> None:
    before, after = map(parse, path.read_text(encoding="utf-8").split("\nbecomes\n"))
    assert validate(before, after).proved is not path.stem.endswith("-bad")


@pytest.mark.parametrize("seed", range(5))
def test_verdicts_do_not_depend_on_the_seed_of_the_solver(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(integers, "SEED", seed)
    monkeypatch.setattr(integers, "_answers", {})
    assert all(validate(*p.programs, laws=p.laws).proved for p in GOOD)
    assert not any(validate(*p.programs, laws=p.laws).proved for p in BAD)
