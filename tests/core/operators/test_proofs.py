"""Every access in the meaning of every overload is proved in bounds; what is kept for run time are the stated checks only."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from assay.core.lang import requires
from assay.core.operators import FAMILIES, OPERATORS
from assay.core.operators.samples import Like, draw
from assay.semantics.denote import evaluate
from assay.semantics.failure import RequireError
from assay.verify.bounds import prove

CHECKED = {  # families with operators that check values: an index, a divisor, a probability read from data
    "division", "indexing", "scatter", "losses", "random",
}  # fmt: skip


def unproved(family: str, *, rows: slice) -> list[str]:
    """What was not proved, but for the checks that the meaning itself asks for."""
    found: list[str] = []
    for o in OPERATORS.values():
        if o.family != family or o.inplace_of is not None:
            continue
        for arguments in list(o.samples())[rows]:
            p = o.program(*arguments)
            kept = [r for r in prove(p).obligations if r.status != "proved"]
            checks = len(requires(p))
            assert family in CHECKED or not checks, f"{o.name}{arguments} has a check at run time"
            stated = [r for r in kept if r.status == "kept" and r.where.endswith(": require")]
            found += [f"{o.name}{arguments}: {r.kind} {r.where} {r.status}" for r in kept if r not in stated]
            assert len(stated) <= checks
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_accesses_are_proved(family):
    assert unproved(family, rows=slice(0, None, 5)) == []


@pytest.mark.full
@pytest.mark.parametrize("family", FAMILIES)
def test_accesses_of_every_sample_are_proved(family):
    assert unproved(family, rows=slice(None)) == []


def drawn(v: Any, rng: np.random.Generator) -> Iterator[np.ndarray]:
    if isinstance(v, Like):
        yield draw(v, rng)
    elif isinstance(v, tuple | list):
        for x in v:
            yield from drawn(x, rng)


@pytest.mark.parametrize("family", FAMILIES)
def test_integers_lie_in_the_ranges_of_their_tensors(family):
    """What intervals say, and what externs declare, of every integer tensor in the meaning of every overload."""
    for o in OPERATORS.values():
        for arguments in o.samples() if o.family == family else ():
            p = o.program(*arguments)
            tensors = [t for t in p.tensors if t.dtype.is_integer and t.size]
            arrays = drawn(arguments, np.random.default_rng(zlib.crc32(o.name.encode())))
            try:
                values = evaluate(tensors, dict(zip(p.inputs, arrays, strict=True))) if tensors else []
            except RequireError:
                continue
            for t, v in zip(tensors, values, strict=True):
                assert t.lo <= v.min() <= v.max() <= t.hi, (o.name, arguments, t)
