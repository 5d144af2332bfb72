"""Audits: the simplifier, the intervals and the prover say nothing that evaluation contradicts, and would be caught."""

from __future__ import annotations

import numpy as np
import pytest

from assay.core.operators import Operator
from assay.core.operators.dependence import through_floats
from assay.fuzz import audit as audits
from assay.fuzz import audit_folds, audit_nests
from assay.fuzz.audit import AUDITS, audit
from assay.fuzz.audit_histories import CASES
from assay.verify import integers
from assay.verify.coverage import Coverage
from assay.verify.integers import Answer

ROUNDS = {"slopes": (20, 60), "histories": (len(CASES), len(CASES)), "derivatives": (1, 20)}
"""Of the quick test and of the long one; others (40, 2000).  The questions of histories are not drawn: one round is all."""


@pytest.mark.parametrize("part", AUDITS)
def test_nothing_contradicts_evaluation(part: str) -> None:
    assert audit(part, ROUNDS.get(part, (40, 2000))[0], 0) is None


@pytest.mark.full
@pytest.mark.parametrize("part", AUDITS)
def test_nothing_contradicts_evaluation_at_length(part: str) -> None:
    assert audit(part, ROUNDS.get(part, (40, 2000))[1], 1000) is None


def first(name: str, count: int = 400) -> str:
    return next((found.part for s in range(count) if (found := AUDITS[name](s)) is not None), "")


def test_an_unsound_interval_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    right = audits.run

    def run(p, arrays):  # type: ignore[no-untyped-def]
        return [x.astype(np.int64) + (1 << 40) for x in right(p, arrays)]

    monkeypatch.setattr(audits, "run", run)
    assert first("intervals", 3) == "intervals"


GUESSES = [Answer("proved", "hope"), Answer("refuted", "fear", {}), Answer("proved", "z3", unreachable=True)]


@pytest.mark.parametrize("answer", GUESSES)
def test_a_prover_that_guesses_is_seen(monkeypatch: pytest.MonkeyPatch, answer: Answer) -> None:
    assert integers.decide is audits.decide
    monkeypatch.setattr(audits, "decide", lambda goal, hypotheses, rlimit: answer)
    assert first("prover", 40) == "prover"


def test_nests_that_are_proved_unseen_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_folds, "_proved", lambda source, target: True)
    assert first("folds", 20) == "validator"


def test_a_schedule_that_is_proved_unseen_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_nests, "prove_schedule", lambda s: Coverage((), 1))
    assert first("nests", 30) == "validator"


def test_an_axis_that_is_covered_unseen_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_nests, "covered", lambda axis: ("", True))
    assert first("nests", 30) == "validator"


def test_a_lost_history_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Operator, "dependences", lambda self, p: through_floats(p))
    assert first("histories", 11) == "autograd"
