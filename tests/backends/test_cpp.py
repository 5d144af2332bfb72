"""Emitted code has the bits of the meaning: every program, under every feature of a schedule and number of threads."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.backends.programs import SPECIAL, arrays, build, f32, mapped, total, values, wrapped

from assay.backends.cpp import compile_many, compile_program
from assay.backends.plan import Kernel, Plan, Schedule
from assay.backends.runtime import Executable
from assay.core import dtypes as dt
from assay.core import lang
from assay.core.errors import InternalError, UserError
from assay.core.lang import Program, bitcast, const, convert, fold, load, op, program, scatter, select, tensor
from assay.core.row import TABLE
from assay.semantics.denote import RequireError, bits_equal, run
from tests.backends.plans import FEATURES, plan

pytestmark = pytest.mark.cpp
LONG = ("conversions", "integer_arithmetic")  # many outputs: only under the features that change their code


def differs(e: Executable, meaning: Program, inputs: list[np.ndarray]) -> list[int]:
    """The outputs whose bits differ from the meaning."""
    want, got = run(meaning, inputs), e(inputs)
    return [k for k, (a, b) in enumerate(zip(want, got, strict=True)) if a.dtype != b.dtype or not bits_equal(a, b)]


@pytest.mark.parametrize("feature", FEATURES)
def test_bits(feature: str) -> None:
    programs = {n: p for n, p in build().items() if feature in ("scalar", "vector") or n not in LONG}
    made = compile_many(list(programs.values()), plans=[plan(p, feature) for p in programs.values()], threads=2)
    bad = {n: found for (n, p), e in zip(programs.items(), made, strict=True) if (found := differs(e, p, arrays(p)))}
    assert bad == {}
