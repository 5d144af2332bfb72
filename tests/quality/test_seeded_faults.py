"""Does the checker find defects, and how small does it make them?  Faults are put into single stages on purpose.

The quick tests run one kept program for each fault; the long one searches, as a campaign does, and prints the table.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.fuzz import campaign
from assay.fuzz.cases import read_case
from assay.fuzz.shrink import shrink
from assay.fuzz.worker import Judge
from tests.quality.faults import FAULTS, Fault

PASSES = ("propagate_indices", "compose_views", "inline", "choose_layout")
WITHIN = 500  # programs
SMALL = 5  # operators


@pytest.mark.cpp
@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.name.replace(" ", "-"))
def test_a_kept_program_shows_the_fault_and_names_its_stage(fault: Fault) -> None:
    case = read_case(fault.case)
    assert case.recipe is not None
    backend = "reference" if fault.stage in PASSES else "cpp"
    (right,) = Judge(backend).judge_on([case.recipe], [case.inputs])
    assert right.ok
    with fault.on():
        (wrong,) = Judge(backend).judge_on([case.recipe], [case.inputs], fault.flags)
    assert (wrong.ok, wrong.stage) == (False, fault.stage)


@pytest.mark.parametrize("fault", [f for f in FAULTS if f.stage in PASSES], ids=lambda f: f.name.replace(" ", "-"))
def test_findings_become_small(fault: Fault) -> None:
    case = read_case(fault.case)
    assert case.recipe is not None
    judge = Judge("reference")
    with fault.on():
        (wrong,) = judge.judge_on([case.recipe], [case.inputs])
        small = shrink(wrong, judge)
    assert small.stage == fault.stage
    assert len(small.recipe.calls) <= SMALL


@pytest.mark.full
@pytest.mark.cpp
def test_every_fault_is_found_and_shrunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                         capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    """Within WITHIN programs from seed 0, to at most SMALL operators, with the stage of the fault named."""
    rows = []
    monkeypatch.setattr(campaign, "BATCH", 10)  # every finding of a batch is shrunk
    for fault in FAULTS:
        monkeypatch.setattr(campaign, "FLAGS", fault.flags)
        monkeypatch.setattr(campaign, "QUICK", fault.flags)
        with fault.on():
            result = campaign.run_campaign(WITHIN, 0, directory=tmp_path / fault.name, judge=Judge(), stop_after=1)
        found = next((f for f in result.findings if f.stage == fault.stage), None)
        rows.append((fault, result.findings[0].seed + 1 if result.findings else None, found))
    with capsys.disabled():
        print(f"\n{'fault':48} {'stage':18} {'program':>7} {'operators':>9}")  # noqa: T201
        for fault, programs, found in rows:
            print(f"{fault.name:48} {fault.stage:18} {programs or '-':>7} {found.operators if found else '-':>9}")  # noqa: T201
    assert [fault.name for fault, _, found in rows if found is None or found.operators > SMALL] == []
