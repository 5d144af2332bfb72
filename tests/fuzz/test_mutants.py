"""Mutants: each can be planted, is planted before import, and the score says what became of it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

from assay.core.errors import UserError
from assay.fuzz.mutants.faults import MUTANTS
from assay.fuzz.mutants.hunt import Outcome
from assay.fuzz.mutants.hunters import Hunters
from assay.fuzz.mutants.mutant import Mutant, plant
from assay.fuzz.mutants.score import Score, chosen, names, run_score
from assay.fuzz.mutants.tolerance import TOLERANCES

FEW = 20  # programs for the mutants that are run here


@pytest.fixture(scope="module")
def hunters() -> Iterator[Hunters]:
    with Hunters(FEW) as made:
        yield made


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=lambda m: m.name.replace(" ", "-"))
def test_the_fault_is_in_the_source(mutant: Mutant) -> None:
    """`old` stands once in the file, and what it becomes is still Python (or C++ for g++ to judge)."""
    changed = mutant.text
    assert changed != mutant.path.read_text(encoding="utf-8")
    if mutant.path.suffix == ".py":
        compile(changed, mutant.file, "exec")


def test_there_are_enough_of_every_kind() -> None:
    assert len(MUTANTS) >= 200
    by_file = Counter(m.file.split("/")[0] for m in MUTANTS.values())
    assert min(by_file[part] for part in ("backends", "core", "transforms")) >= 20, by_file


def test_a_stale_fault_is_refused() -> None:
    stale = Mutant("stale", "inline", "transforms/inline.py", "this stands nowhere", "")
    with pytest.raises(ValueError, match="stands 0 times in transforms/inline"):
        plant(stale)


def test_a_fault_is_planted_before_import() -> None:
    with pytest.raises(ValueError, match="has been imported already"):
        plant(Mutant("late", "lower", "fuzz/mutants/mutant.py", "import sys\n", "import sys  #\n"))


def test_nothing_on_disk_changes_and_no_byte_code_is_left() -> None:
    mutant = MUTANTS["clamp forgets its upper bound"]
    files = [mutant.path, *mutant.path.parent.rglob("pointwise*.pyc")]
    before = {p: p.stat().st_mtime_ns for p in files}
    code = (
        "from assay.fuzz.mutants.faults import MUTANTS\nfrom assay.fuzz.mutants.mutant import plant\n"
        f"plant(MUTANTS[{mutant.name!r}])\nimport assay, numpy as np\n"
        "print(assay.tensor(np.float32([9])).clamp(0, 1).item())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "9.0"
    assert all(p.stat().st_mtime_ns == t for p, t in before.items())


@pytest.mark.cpp
@pytest.mark.parametrize(
    ("name", "by", "part"),
    [
        ("a nested quotient has the outer divisor only", "audit", "index"),
        ("a layout changes, and its readers do not", "proof", "choose_layout"),
        ("less or equal is less", "comparison", "cpp"),
    ],
)
def test_a_mutant_is_caught_and_its_part_named(hunters: Hunters, name: str, by: str, part: str) -> None:
    outcome = hunters.find(MUTANTS[name])
    assert (outcome.by, outcome.part) == (by, part), outcome.text


@pytest.mark.cpp
def test_without_a_mutant_nothing_is_wrong(hunters: Hunters) -> None:
    assert hunters.control() == ()


@pytest.mark.cpp
def test_a_mutant_that_does_not_end_is_caught(hunters: Hunters) -> None:
    assert hunters.find(MUTANTS["less or equal is less"], seconds=0.05).by == "hang"


def test_a_hunt_that_cannot_be_run_is_no_outcome(hunters: Hunters) -> None:
    with pytest.raises(UserError, match="could not be run: KeyError: 'unheard of'"):
        hunters.find(Mutant("unheard of", "cpp", "x.py", "1", "2"))


def test_a_killed_run_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    class Fake(nullcontext):  # type: ignore[type-arg]
        def __init__(self, programs: int, files: object, *, jobs: int) -> None:
            super().__init__(self)

        def control(self) -> tuple[int, ...]:
            return ()

        def find(self, mutant: Mutant, known: object) -> Outcome:
            ran.append(mutant.name)
            return Outcome(mutant.name, "audit", mutant.part)

    monkeypatch.setattr("assay.fuzz.mutants.score.Hunters", Fake)
    record, mutants = tmp_path / "mutants.jsonl", list(MUTANTS.values())[:3]
    run_score(mutants[:2], FEW, record=record)
    with record.open("a") as file:
        file.write('{"key": "half a li')
    run_score(mutants, FEW, record=record)
    assert ran == [m.name for m in mutants]
    run_score(mutants, FEW + 1, record=record)
    assert len(ran) == 6


def test_the_score_counts_survivors_and_wrong_names() -> None:
    a, b, c = (Mutant(n, "cpp", "x.py", "1", "2") for n in "abc")
    caught = Outcome("a", "comparison", "cpp", 5, 3), Outcome("b", "comparison", "inline", 9, 5, tolerated=("sums",))
    outcomes = (*caught, Outcome("c", programs=100))
    score = Score((a, b, c), outcomes)
    assert score.exit_code == 1
    assert [o.name for o in score.survivors] == ["c"]
    assert [m.name for m, _ in score.misnamed] == ["b"]
    text = str(score)
    assert "2 of 3 mutants caught (66.7%)" in text
    assert "judged by sums: 1 of 3" in text
    assert json.loads(json.dumps(score.to_json()))["caught"] == 2


def test_a_part_may_have_several_names() -> None:
    assert names(Mutant("a", "schedule|cpp", "x.py", "1", "2"), Outcome("a", "comparison", "cpp"))
    assert names(Mutant("a", "cpp", "core/index.py", "1", "2"), Outcome("a", "error", "core/index.py"))
    assert not names(Mutant("a", "cpp", "x.py", "1", "2"), Outcome("a", "comparison", "lower"))


def test_words_choose_mutants() -> None:
    assert {m.file for m in chosen(["softmax.py"])} == {"core/operators/softmax.py"}
    with pytest.raises(UserError, match="no mutant has 'nonsense'"):
        chosen(["nonsense"])


@pytest.mark.parametrize(
    ("got", "expected", "accepts"),
    [
        ([1.0, 2.0], [1.0, 2.0], ["allclose(1e-2, 1e-3)", "assert_close", "sums"]),
        ([1.001, 2.0], [1.0, 2.0], ["allclose(1e-2, 1e-3)", "sums"]),
        ([2.0, 1.0], [1.0, 2.0], ["sums"]),
        ([float("nan"), 1.0], [float("nan"), 1.0], ["allclose(1e-2, 1e-3)", "assert_close", "sums"]),
        ([float("nan"), 1.0], [0.0, 1.0], []),
        ([-0.0], [0.0], ["allclose(1e-2, 1e-3)", "assert_close", "sums"]),
    ],
)
def test_rules_with_a_tolerance(got: list[float], expected: list[float], accepts: list[str]) -> None:
    assert [n for n, rule in TOLERANCES.items() if rule(np.float32(got), np.float32(expected))] == accepts
