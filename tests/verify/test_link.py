"""What a compile says of its own proofs: found while g++ runs, kept in the record, found later for whoever asks."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import assay
import assay.nn.functional as F
from assay.backends import build
from assay.backends.cpp import compile_program
from assay.backends.plan import Kernel, Plan, Schedule
from assay.backends.schedule.machine import machine
from assay.core.parser import parse
from assay.verify import link
from assay.verify.questions import Mismatch
from assay.verify.validate import Validation

STEPS = ["drop_slopes", "propagate_indices", "compose_views", "inline", "choose_layout", "schedule", "nest"]
x = np.linspace(-3, 3, 4 * 45, dtype=np.float32).reshape(4, 45)


def softmax(t):
    return F.softmax(t + 1, -1)


@pytest.fixture(autouse=True)
def _empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine()  # measured before the cache is another one
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path))
    monkeypatch.setattr(build, "_loaded", {})


@pytest.mark.cpp
def test_every_step_is_proved_while_the_code_is_compiled() -> None:
    g = assay.compile(softmax)
    with mock.patch.object(link, "validate", wraps=link.validate) as asked:
        g(x)
        during = asked.call_count
        (entry,) = g.entries.values()
        assert [p.name for p in entry.links] == STEPS
        assert all(p.proved and not p.laws for p in entry.links)
        assert asked.call_count == during > 0
    assert "nest: PROVED, for all inputs; " in g.explain_proofs()
    assert assay.compile(softmax).explain_proofs() == "softmax: compiled never"


@pytest.mark.cpp
def test_a_record_keeps_what_was_proved() -> None:
    assay.compile(softmax)(x)
    again = assay.compile(softmax)
    with mock.patch.object(link, "validate", side_effect=AssertionError), mock.patch.object(link, "prove_schedule", None):
        again(x)
    (entry,) = again.entries.values()
    assert "stored" in entry.executable.timings
    assert [(p.name, p.proved) for p in entry.links] == [(name, True) for name in STEPS]


@pytest.mark.cpp
def test_what_is_not_proved_says_why() -> None:
    wrong = Validation(reason=str(Mismatch("indices differ")), where="output 0", questions=1)
    g = assay.compile(softmax)
    with mock.patch.object(link, "validate", return_value=wrong):
        g(x)
    assert "inline: not proved: output 0: indices differ" in g.explain_proofs()


@pytest.mark.cpp
def test_a_given_plan_is_proved_when_asked() -> None:
    p = parse("program f(x: f32[4,45]):\n  y[i:4] = max(k:45) x[i,k]\n  return y\n")
    (t,) = p.tensors
    made = compile_program(p, plan=Plan((Kernel((t,), Schedule(jam=((0, 3),))),)))
    assert [(k.name, k.proved) for k in made.links] == [("nest", True)]


def test_the_reference_proves_its_passes() -> None:
    g = assay.compile(softmax, backend="reference")
    g(x)
    (entry,) = g.entries.values()
    assert [p.name for p in entry.links] == STEPS[:5]
