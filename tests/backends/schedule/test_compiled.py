"""Chosen plans, and other candidates of every form, give the bits of the meaning when they are compiled."""

import dataclasses
import shutil

import numpy as np
import pytest

from assay.backends.cpp import compile_many
from assay.backends.schedule import choose
from assay.backends.schedule.decide import candidates
from assay.backends.schedule.fuse import Decisions, Model
from assay.backends.schedule.machine import DEFAULTS
from assay.backends.schedule.tune import alone, interleaved, measure, standalone, tune
from assay.backends.target import host
from assay.semantics.denote import bits_equal, run
from tests.backends.schedule.test_choose import PROGRAMS, special

pytestmark = [pytest.mark.cpp, pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")]


def same(programs, plans, meanings):
    """Compile, run on special values, compare with the meanings."""
    built = compile_many(programs, plans=plans, threads=2)
    bad = []
    for k, (executable, meaning) in enumerate(zip(built, meanings, strict=True)):
        inputs = [special(t, np.random.default_rng(1)) for t in meaning.inputs]
        if not all(bits_equal(a, b) for a, b in zip(run(meaning, inputs), executable(inputs), strict=True)):
            bad.append(k)
    return bad


def test_chosen_plans_have_the_bits_of_the_meaning():
    meanings = [build() for build in PROGRAMS.values()]
    chosen = [choose(p, host()) for p in meanings]
    assert same([p for p, _ in chosen], [plan for _, plan in chosen], meanings) == []


@pytest.mark.parametrize("name", ["softmax", "matmul", "convolution", "column sum", "argmax", "layernorm"])
def test_candidates_of_every_form_have_the_bits_of_the_meaning(name):
    model = Model(dataclasses.replace(DEFAULTS[8], threads=2, lanes=host().lanes, registers=host().registers))
    tried = []
    for group in Decisions(PROGRAMS[name](), model).groups():
        forms = {}
        for c in candidates(group, model):
            s = c.choice.schedule
            form = (s.vector, s.fold, bool(s.jam), bool(s.carry), any(b for _, b in s.order), s.stream, len(c.copies))
            forms.setdefault(form, c)
        if standalone(group):
            tried += [alone(group, c) for c in list(forms.values())[:8]]
    assert tried
    programs = [p for p, _ in tried]
    assert same(programs, [plan for _, plan in tried], programs) == []


def test_tuning_keeps_the_bits_and_remembers(tmp_path, monkeypatch):
    from assay.backends.schedule import space
    from assay.backends.schedule import tune as module

    monkeypatch.setattr(module, "directory", lambda: tmp_path)
    monkeypatch.setattr(module, "TIMED", 0.0)
    monkeypatch.setattr(space, "TIMED", 0.0)
    meaning = PROGRAMS["layernorm"]()
    first = tune(meaning, host(), first=2, seconds=0.02)
    assert same([first[0]], [first[1]], [meaning]) == []
    assert len(list(tmp_path.iterdir())) == 1
    monkeypatch.setattr(module, "measure", lambda *_: pytest.fail("measured again"))
    again = tune(meaning, host(), first=2, seconds=0.02)
    assert again[0] is first[0]
    assert again[1] == first[1]


def test_interleaved_gives_the_quickest_run_of_each():
    ticks = iter(range(1000))
    assert interleaved([lambda: None, lambda: None], 0.0, clock=lambda: next(ticks)) == [1, 1]


def test_measure_runs_programs():
    p, plan = choose(PROGRAMS["relu sum"](), host())
    assert 0 < measure([(p, plan)], 0.01)[0] < 1
