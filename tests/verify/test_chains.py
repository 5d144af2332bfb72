"""Every pass and the schedule are proved for all inputs: on the examples, on every operator, on random programs.

And where a pass is broken on purpose, the proof of that pass fails, and of no pass before it.
"""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import assay
from assay.backends.schedule import choose
from assay.backends.schedule.machine import DEFAULTS
from assay.backends.target import host
from assay.core.errors import Unsupported, UserError
from assay.core.lang import Program
from assay.core.operators import FAMILIES, OPERATORS
from assay.examine import examine
from assay.frontends.capture import capture
from assay.frontends.creation import from_numpy
from assay.fuzz.cases import read_case
from assay.fuzz.generate import draw_recipe
from assay.fuzz.oracle import draw_arrays
from assay.fuzz.recipe import Recipe
from assay.transforms.lower import lower
from assay.transforms.pipeline import optimise
from assay.verify import integers
from assay.verify.validate import Validation, validate
from examples import document
from examples.digits import model as digits
from examples.transformer import model as transformer
from tests.core.operators.calling import drawn, wrap
from tests.examples.test_compiled import ARRAYS
from tests.quality.faults import FAULTS, Fault

CORPUS = Path(__file__).parent.parent / "cases" / "corpus"
PASSES = ("propagate_indices", "compose_views", "inline", "choose_layout", "schedule")


def links(p: Program) -> Iterator[tuple[str, Validation]]:
    """Each pass, and the schedule, with what is proved of it."""
    stages = [(s.name, s.program, s.contract.laws) for s in optimise(p)]
    final = stages[-1][1]
    if all(t.size for t in final.tensors):
        stages.append(("schedule", choose(final, host(), DEFAULTS[8])[0], frozenset()))
    for (_, before, _), (name, after, laws) in itertools.pairwise(stages):
        yield name, validate(before, after, laws=laws)


def assert_proved(p: Program) -> None:
    """Every link is proved, without a law that changes bits."""
    for name, found in links(p):
        assert found.proved, (name, str(found), assay.show(p))
        assert not found.laws


def random_recipe(seed: int, operators: int) -> Recipe:
    """The random program of this seed with so many operators."""
    rng = random.Random(seed)
    count = iter([operators - 1])
    return draw_recipe(lambda n: next(count, None) or rng.randrange(n), operators)


def lowered(recipe: Recipe, seed: int) -> Program:
    """The core program of a recipe.  Raises Unsupported or UserError where it asks for what there is not."""
    arrays = draw_arrays(recipe, "normal", np.random.default_rng(seed))
    return lower(capture(recipe, tuple(map(from_numpy, arrays)), {}).graph)


@pytest.mark.parametrize("name", ARRAYS)
def test_the_documents_examples(name: str) -> None:
    assert_proved(examine(getattr(document, name), tuple(map(assay.tensor, ARRAYS[name]))).program)


def test_digits() -> None:
    images = np.zeros((1797, 1, 8, 8), np.float32)
    assert_proved(examine(digits.model, tuple(map(assay.tensor, [images, *digits.weights()]))).program)


def test_transformer() -> None:
    arrays = [transformer.tokens(), *transformer.weights()]
    assert_proved(examine(transformer.block, tuple(map(assay.tensor, arrays))).program)


@pytest.mark.parametrize("family", FAMILIES)
def test_one_sample_of_every_overload(family: str) -> None:
    for o in OPERATORS.values():
        rows = list(drawn(o)) if o.family == family and o.inplace_of is None else []
        for arguments in rows[zlib.crc32(o.name.encode()) % max(len(rows), 1) :][:1]:
            assert_proved(o.program(*map(wrap, arguments)))


@pytest.mark.full
@pytest.mark.parametrize("family", FAMILIES)
def test_every_sample(family: str) -> None:
    for o in OPERATORS.values():
        if o.family == family and o.inplace_of is None:
            for arguments in drawn(o):
                assert_proved(o.program(*map(wrap, arguments)))


@pytest.mark.parametrize("seed", range(20))
def test_random_programs(seed: int) -> None:
    assert_proved(lowered(random_recipe(seed, 12), seed))


@pytest.mark.full
@pytest.mark.parametrize("block", range(100))
def test_ten_thousand_random_programs(block: int) -> None:
    drawn_programs = 0
    for seed in range(100 * block, 100 * block + 100):
        try:
            p = lowered(random_recipe(seed, 1 + seed % 16), seed)
        except (UserError, Unsupported):
            continue
        assert_proved(p)
        drawn_programs += 1
    assert drawn_programs > 95


@pytest.mark.parametrize("fault", [f for f in FAULTS if f.stage in PASSES], ids=lambda f: f.name.replace(" ", "-"))
def test_a_broken_pass_is_named(fault: Fault) -> None:
    case = read_case(fault.case)
    assert_proved(case.program)
    with fault.on():
        found = list(links(case.program))
    assert next(name for name, v in found if not v.proved) == fault.stage


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.assay")), ids=lambda p: p.stem)
def test_the_corpus(path: Path) -> None:
    assert_proved(read_case(path).program)


@pytest.mark.full
def test_a_busy_machine_changes_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Resources decide, not time: the same words are said of each link while all processors are busy."""
    programs = [lowered(random_recipe(seed, 12), seed) for seed in range(40, 70)]

    def said() -> list[tuple[str, str]]:
        monkeypatch.setattr(integers, "_answers", {})
        return [(name, str(found)) for p in programs for name, found in links(p)]

    idle = said()
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        assert said() == idle
    finally:
        for process in busy:
            process.kill()
            process.wait()
