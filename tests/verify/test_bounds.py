"""Index obligations: the 57 true and 12 false questions, kept checks, width, sign, guards, and what a backend learns."""

import statistics
import time

import pytest

import assay.core.functions  # noqa: F401
from assay.core.errors import Unsound
from assay.core.text import parse
from assay.verify import bounds
from assay.verify.bounds import Obligation, Proof, prove, proven
from tests.verify.cases import FALSE, TRUE, Case


def owed(p: Proof, kind: str) -> list[Obligation]:
    return [o for o in p.obligations if o.kind == kind]


def proof(text: str) -> Proof:
    return prove(parse(text))


# ------------------------------------------------------------------------------------------------ the questions


def test_there_are_57_true_and_12_false_ones() -> None:
    assert (len(TRUE), len(FALSE)) == (57, 12)


@pytest.mark.parametrize("case", TRUE, ids=lambda c: c.name)
def test_true(case: Case) -> None:
    p = prove(case.program)
    assert [o.status for o in owed(p, "bounds")] == ["kept" if "require" in o.where else "proved" for o in owed(p, "bounds")]
    assert p.verdict.kind == "PROVED"


@pytest.mark.parametrize("case", FALSE, ids=lambda c: c.name)
def test_false(case: Case) -> None:
    p = prove(case.program)
    bad = [o for o in p.obligations if o.status == "refuted"]
    assert [o.kind for o in bad] == ["bounds"]
    [index] = bad[0].witness["index"]  # type: ignore[index]
    n = case.program.inputs[0].shape[0]
    assert not 0 <= index < n
    assert p.verdict.kind == "REFUTED"
    with pytest.raises(Unsound, match="may not be emitted"):
        proven(case.program)


def test_the_indices_that_go_out_are_those_of_the_witness() -> None:
    o = owed(prove(FALSE[0].program), "bounds")[0]
    assert o.witness == {"i": 49, "index": [101]}
    o = owed(prove(next(c for c in FALSE if c.name == "reshape to a wrong size").program), "bounds")[0]
    w = o.witness
    assert w is not None
    assert (21 * w["i"] + w["j"]) // 35 == w["index"][0] >= 12
    o = owed(prove(next(c for c in FALSE if c.name == "gather of raw indices").program), "bounds")[1]
    w = o.witness
    assert w is not None
    assert w[f"n[{w['i']}]"] == w["index"][0]


def test_the_median_question_takes_less_than_5_ms() -> None:
    programs = [c.program for c in TRUE + FALSE]
    times: list[float] = []
    for p in programs:
        bounds._proofs.clear()
        start = time.process_time()
        prove(p)
        times.append(time.process_time() - start)
    assert statistics.median(times) < 0.005  # measured: see benchmarks/bounds.py
