"""Compiled C++ has the bits of the meaning: one sample of every overload, all samples in the full run."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

from assay.backends.cpp import compile_many
from assay.core.lang import Program
from assay.core.operators import FAMILIES, OPERATORS
from assay.semantics.denote import run
from tests.core.operators.calling import drawn, flat, same, wrap

pytestmark = pytest.mark.cpp
BATCH = 60  # programs in one translation unit

Job = tuple[str, tuple[Any, ...], Program, list[np.ndarray]]


def jobs(family: str, *, every: bool) -> list[Job]:
    """Calls of the functional overloads of a family; without `every`, one of each, picked by its name."""
    found: dict[Program, Job] = {}
    for o in OPERATORS.values():
        if o.family != family or o.inplace_of is not None:
            continue
        rows = list(drawn(o))
        for arguments in rows if every else rows[zlib.crc32(o.name.encode()) % max(len(rows), 1) :][:1]:
            filled = tuple(map(wrap, arguments))
            p = o.program(*filled)
            found[p] = (o.name, arguments, p, list(flat(filled)))
    return list(found.values())


def outcome(f: Any, inputs: list[np.ndarray]) -> Any:
    """The results, or the class of the error."""
    try:
        return tuple(f(inputs))
    except Exception as error:
        return type(error)


def check(todo: list[Job]) -> None:
    for start in range(0, len(todo), BATCH):
        part = todo[start : start + BATCH]
        for (name, arguments, p, inputs), compiled in zip(part, compile_many([p for _, _, p, _ in part], threads=1), strict=True):
            want, got = outcome(lambda x, p=p: run(p, x), inputs), outcome(compiled, inputs)
            assert got is want or (isinstance(got, tuple) and same(got, want)), f"{name}{arguments}:\n{got!r}\n{want!r}"


@pytest.mark.parametrize("family", FAMILIES)
def test_one_sample_of_every_overload(family):
    todo = jobs(family, every=False)
    assert todo
    check(todo)


@pytest.mark.full
@pytest.mark.parametrize("family", FAMILIES)
def test_every_sample(family):
    check(jobs(family, every=True))
