"""tests/cases/transforms: NAME.txt holds a program and what the transformation NAME makes of it; NAME-bad.txt what it must not.

The good case is the golden text and equals its source bit for bit; the bad case must be refuted by the comparison.
"""

from pathlib import Path

import numpy as np
import pytest

from assay.core.parser import parse
from assay.core.text import show
from assay.semantics.denote import run
from assay.semantics.inputs import KINDS, draw_inputs
from assay.transforms.contract import all_transforms
from assay.verify.layered import Layer, compare

CASES = Path(__file__).parent.parent / "cases" / "transforms"
TRANSFORMS = all_transforms()


def case(path):
    """The two programs of a case, separated by the line "becomes"."""
    before, after = path.read_text(encoding="utf-8").split("\nbecomes\n")
    return parse(before), parse(after)


def verdict(before, after):
    rng = np.random.default_rng(1)
    inputs = [draw_inputs(before, kind, rng) for kind in KINDS]
    inputs += [draw_inputs(before, kind, rng, defined=False) for kind in KINDS]
    return compare(before, [Layer("after", lambda xs: run(after, xs), after)], inputs)


@pytest.mark.parametrize("name", sorted(TRANSFORMS))
def test_every_transformation_has_a_good_and_a_bad_case(name):
    assert (CASES / f"{name}.txt").exists()
    assert (CASES / f"{name}-bad.txt").exists()


@pytest.mark.parametrize("path", sorted(CASES.glob("*.txt")), ids=lambda p: p.stem)
def test_case(path):
    before, after = case(path)
    if path.stem.endswith("-bad"):
        report = verdict(before, after)
        assert report.verdict.kind == "REFUTED"
        assert report.witness is not None
        assert report.witness.layer == "after"
    else:
        assert show(TRANSFORMS[path.stem](before)) == show(after)
        assert verdict(before, after).verdict.kind == "VALIDATED"


@pytest.mark.parametrize("name", sorted(TRANSFORMS))
def test_the_case_is_a_fixed_point(name):
    _, after = case(CASES / f"{name}.txt")
    assert TRANSFORMS[name](after) is after
