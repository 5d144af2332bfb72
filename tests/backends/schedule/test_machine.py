"""The machine model: measured once, stored, never measured again; defaults where nothing can be compiled."""

import dataclasses
import json
import shutil

import pytest

from assay.backends.schedule import machine as module
from assay.backends.schedule.machine import DEFAULTS, Machine, cores, defaults, measure
from assay.core.errors import Unsupported


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "directory", lambda: tmp_path)
    module.machine.cache_clear()
    yield tmp_path
    module.machine.cache_clear()


@pytest.mark.cpp
@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
def test_measured_figures_are_possible():
    m = measure()
    assert 0.3 < m.ghz < 8
    assert m.lanes in (4, 8, 16)
    assert m.threads == cores()
    assert 0.1 < m.add_t <= m.add_l
    assert 0.1 < m.fma_t <= m.fma_l
    assert m.add_t < m.div_t < m.div_l + m.div_t
    assert m.l1 < m.l2 <= m.l3
    assert 0 < m.bw_ram[0] <= m.bw_l2[0] * 2
    assert m.peak_gflops > 1


def test_a_measurement_is_stored_and_read(store, monkeypatch):
    made = dataclasses.replace(DEFAULTS[8], ghz=3.21)
    monkeypatch.setattr(module, "measure", lambda: made)
    assert module.machine() == made
    module.machine.cache_clear()
    monkeypatch.setattr(module, "measure", lambda: pytest.fail("measured again"))
    assert module.machine() == made


@pytest.mark.parametrize("text", ["{", "[]", "null", "3"])
def test_a_damaged_file_is_measured_again(store, monkeypatch, text):
    monkeypatch.setattr(module, "measure", lambda: DEFAULTS[8])
    module._file(store).write_text(text)
    assert module.machine() == DEFAULTS[8]
    assert json.loads(module._file(store).read_text())["lanes"] == 8


def test_defaults_without_a_compiler(store, monkeypatch):
    def refuse():
        raise Unsupported("no g++")

    monkeypatch.setattr(module, "measure", refuse)
    assert module.machine() == defaults()
    assert not list(store.glob("*.json"))


def test_defaults_know_the_cores():
    assert defaults().threads == cores()
    assert defaults().lanes in DEFAULTS


def test_two_measurements_give_the_better_of_each_figure():
    a, b = (
        Machine(add_t=0.5, bw_ram=(5.0, 7.0), fork_us=9.0, ghz=2.9),
        Machine(add_t=0.6, bw_ram=(4.0, 8.0), fork_us=0.1, ghz=3.0),
    )
    best = module._better(a, b)
    assert (best.add_t, best.bw_ram, best.fork_us, best.ghz) == (0.5, (5.0, 8.0), 0.1, 3.0)


@pytest.mark.parametrize(("m", "disturbed"), [
    (Machine(threads=2, fork_us=0.2, bw_l2=(30.0, 60.0)), False),
    (Machine(threads=2, fork_us=50.0, bw_l2=(30.0, 60.0)), True),
    (Machine(threads=2, fork_us=0.2, bw_l2=(30.0, 31.0)), True),
    (Machine(threads=1, fork_us=0.0, bw_l2=(30.0, 30.0)), False),
])  # fmt: skip
def test_a_disturbed_measurement_is_noticed(m, disturbed):
    assert module._disturbed(m) is disturbed
