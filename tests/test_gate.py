"""The gate: what it compares, what counts as worse, and its baseline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assay import gate
from assay.core.errors import UserError

CASES = Path(__file__).parent / "cases"
SOFTMAX = """program softmax(x: f32[3,4]):
  e[i:3,j:4] = exp(x[i,j])
  s[i:3] = fold(k:4; a=0x0p+0:f32) add(a, e[i,k])
  y[i:3,j:4] = div(e[i,j], s[i])
  return y
"""
LOOKUP = """program lookup(x: f32[5], at: i64[3]):
  c[i:3] = {
    v = at[i]
    require(and(le(0:i64, v), lt(v, 5:i64)), v, "[IndexError] {value} at {index}", 0..4)
  }
  y[i:3] = x[c[i]]
  return y
"""


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "cases"
    folder.mkdir()
    (folder / "softmax.assay").write_text(SOFTMAX)
    (folder / "lookup.assay").write_text(LOOKUP)
    return folder


def accepted(corpus: Path, baseline: Path) -> dict[str, Any]:
    code, found, count = gate.run_gate([corpus], baseline, accept=True, backend="reference")
    assert (code, found, count) == (0, [], 2)
    return json.loads(baseline.read_text())


@pytest.mark.cpp
def test_the_corpus_is_as_committed() -> None:
    """The gate itself, over every case; `assay gate tests/cases/corpus --baseline tests/cases/gate.json --accept` rewrites it."""
    code, found, count = gate.run_gate([CASES / "corpus"], CASES / "gate.json")
    assert [str(d) for d in found] == []
    assert code == 0
    assert count == len(list((CASES / "corpus").glob("*.assay"))) >= 25


def test_accept_then_nothing_differs(corpus: Path, tmp_path: Path) -> None:
    baseline = tmp_path / "deep" / "gate.json"
    facts = accepted(corpus, baseline)
    assert {k: n for k, n in facts["lookup.assay"]["obligations"].items() if k.startswith("bounds")} == {
        "bounds kept": 1, "bounds proved": 3}  # fmt: skip
    assert facts["softmax.assay"]["verdict"].startswith("VALIDATED")
    assert gate.run_gate([corpus], baseline, backend="reference") == (0, [], 2)


def test_the_facts_of_a_case_do_not_depend_on_the_others(corpus: Path) -> None:
    both = gate.collect([corpus], backend="reference")
    alone = gate.collect([corpus / "softmax.assay"], backend="reference")
    assert both["softmax.assay"] == alone["softmax.assay"]


def test_a_case_that_does_not_parse_is_a_fact(corpus: Path, tmp_path: Path) -> None:
    baseline = tmp_path / "gate.json"
    accepted(corpus, baseline)
    (corpus / "lookup.assay").write_text("program lookup(\n")
    code, found, _ = gate.run_gate([corpus], baseline, backend="reference")
    assert code == 1
    assert any(d.fact == "verdict" and d.after == "UserError" and d.worse for d in found)
    code, found, _ = gate.run_gate([corpus], baseline, accept=True, backend="reference")
    assert (code, [(d.case, d.fact, d.worse) for d in found]) == (0, [("lookup.assay", "error", True)])  # accepted, and said


def test_no_case_no_baseline_no_json(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert gate.run_gate([tmp_path / "empty"], tmp_path / "gate.json") == (6, [], 0)
    with pytest.raises(UserError, match=r"no baseline .*gate\.json; make it with: assay gate"):
        gate.run_gate([corpus], tmp_path / "gate.json", backend="reference")
    (tmp_path / "gate.json").write_text("{")
    with pytest.raises(UserError, match=r"the baseline .*gate\.json is not JSON"):
        gate.run_gate([corpus], tmp_path / "gate.json", backend="reference")
    (tmp_path / "gate.json").write_bytes(b"\xff\xfe{}")
    with pytest.raises(UserError, match=r"gate\.json is not JSON: 'utf-8' codec .*; restore it, or make it again with --accept"):
        gate.run_gate([corpus], tmp_path / "gate.json", backend="reference")
    (tmp_path / "gate.json").write_text("[1]")
    with pytest.raises(UserError, match=r"the baseline .*gate\.json is not a JSON object of cases"):
        gate.run_gate([corpus], tmp_path / "gate.json", backend="reference")
    with pytest.raises(UserError, match="no file or folder"):
        gate.run_gate([tmp_path / "nowhere"], tmp_path / "gate.json", backend="reference")


BASE = {"verdict": "VALIDATED(10)", "stages": {"inline": "PROVED", "cpp": "VALIDATED(10)"},
        "obligations": {"bounds proved": 4, "bounds kept": 1}, "kernels": 2, "tensors": 3}  # fmt: skip


def changed(**facts: Any) -> dict[str, Any]:
    return {k: {**v, **facts[k]} if isinstance(v, dict) and k in facts else facts.get(k, v) for k, v in BASE.items()} | {
        k: v for k, v in facts.items() if k not in BASE
    }


@pytest.mark.parametrize(
    ("after", "fact", "worse"),
    [
        (changed(verdict="REFUTED"), "verdict", True),
        (changed(verdict="UNKNOWN(time)"), "verdict", True),
        (changed(verdict="PROVED"), "verdict", False),
        (changed(stages={"inline": "VALIDATED(10)"}), "stages.inline", True),
        (changed(stages={"cpp": "PROVED"}), "stages.cpp", False),
        (changed(obligations={"bounds proved": 3}), "obligations.bounds proved", True),
        (changed(obligations={"bounds proved": 5}), "obligations.bounds proved", False),
        (changed(obligations={"bounds kept": 2}), "obligations.bounds kept", True),
        (changed(obligations={"bounds kept": 0}), "obligations.bounds kept", False),
        (changed(obligations={"sign refuted": 1}), "obligations.sign refuted", True),
        (changed(kernels=3), "kernels", True),
        (changed(kernels=1), "kernels", False),
        (changed(tensors=4), "tensors", False),
        (changed(error="boom"), "error", True),
    ],
)
def test_what_is_worse(after: dict[str, Any], fact: str, *, worse: bool) -> None:
    (found,) = gate.differences({"c": BASE}, {"c": after})
    assert (found.case, found.fact, found.worse) == ("c", fact, worse)
    assert str(found).startswith("WORSE   " if worse else "changed ")


def test_cases_that_come_and_go() -> None:
    assert gate.differences({"c": BASE}, {"c": BASE}) == []
    (gone,) = gate.differences({"c": BASE}, {})
    (new,) = gate.differences({}, {"c": BASE})
    assert (gone.worse, new.worse) == (True, False)
    assert (str(gone), str(new)) == ("WORSE   c: not there any more", "changed c: new")
