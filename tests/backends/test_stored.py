"""A program compiled before is loaded from its record; a damaged record is not used."""

import os

import numpy as np
import pytest

from assay.backends import build, cpp
from assay.backends.cpp import stored
from assay.core.parser import parse
from assay.semantics.compare import bits_equal
from assay.semantics.denote import run

pytestmark = pytest.mark.cpp

TEXT = """program f(x: f32[5,7], n: i64[3]):
  t0[i:3] = require(and(le(0:i64, n[i]), lt(n[i], 5:i64)), n[i], "[IndexError] index out of bounds: 0 <= {value} < 5", 0..4)
  t1[i:3,j:7] = mul(x[t0[i],j], 0x1p+1:f32)
  t2[i:3] = sum(k:7) t1[i,k]
  return t1, t2
"""
X = np.random.default_rng(0).standard_normal((5, 7), np.float32)
GOOD, BAD = np.array([4, 0, 2]), np.array([0, 5, 9])


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty build cache, and no library of this process reused."""
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path))
    monkeypatch.setattr(build, "_loaded", {})
    return tmp_path / "cpp"


def compiled():
    return cpp.compile_program(parse(TEXT))


def test_the_second_compile_is_loaded(cache):
    first, second = compiled(), compiled()
    assert "g++" in first.timings
    assert set(second.timings) == {"stored"}
    assert second.program is first.program
    for a, b in zip(first([X, GOOD]), second([X, GOOD]), strict=True):
        assert bits_equal(a, b)
    assert all(map(bits_equal, second([X, GOOD]), run(parse(TEXT), [X, GOOD])))


def test_a_loaded_program_raises_its_requires(cache):
    compiled()
    with pytest.raises(IndexError, match="0 <= 5 < 5"):
        compiled()([X, BAD])


def test_plan_and_text_of_a_loaded_program_are_made_again(cache):
    first, second = compiled(), compiled()
    assert second.plan == first.plan
    assert second.text == first.text


@pytest.mark.parametrize("damage", [
    lambda path: path.write_text("{"),
    lambda path: path.write_text(path.read_text()[:-3]),
    lambda path: path.write_text(path.read_text().replace('"arena": ', '"arena": 1')),
    lambda path: path.write_bytes(b"\xff\xfe\x00"),
])  # fmt: skip
def test_a_damaged_record_is_not_used(cache, damage):
    compiled()
    (record,) = cache.glob("*.program")
    damage(record)
    again = compiled()
    assert "g++" in again.timings
    assert all(map(bits_equal, again([X, GOOD]), run(parse(TEXT), [X, GOOD])))


def test_a_record_of_another_program_is_not_used(cache):
    compiled()
    (mine,) = cache.glob("*.program")
    cpp.compile_program(parse(TEXT.replace("0x1p+1", "0x1p+2")))
    (other,) = set(cache.glob("*.program")) - {mine}
    other.replace(mine)
    again = compiled()
    assert "stored" not in again.timings
    assert all(map(bits_equal, again([X, GOOD]), run(parse(TEXT), [X, GOOD])))


def test_a_record_that_cannot_be_written_is_made_again(cache, monkeypatch):
    compiled()
    (record,) = cache.glob("*.program")
    record.unlink()
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    assert "stored" not in compiled().timings
    assert [p.name for p in cache.iterdir() if p.suffix == ".program" or p.name.startswith("building-")] == []


def test_a_record_without_its_library_is_not_used(cache, monkeypatch):
    compiled()
    for library in cache.glob("*.so"):
        library.unlink()
    monkeypatch.setattr(build, "_loaded", {})
    assert compiled().timings["g++"] > 0


def test_a_record_is_of_one_version_of_the_code(cache, monkeypatch):
    compiled()
    monkeypatch.setattr(stored, "fingerprint", lambda: "another version")
    assert "stored" not in compiled().timings
