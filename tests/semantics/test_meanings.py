"""Programs of the same inputs, evaluated together: each tensor once, with the values and errors of each program alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from assay.core.parser import parse
from assay.semantics import denote
from assay.semantics.denote import Meanings, RequireError, bits_equal, run

HEAD = "program f(x: f32[3], at: i64[2]):\n  a[i:3] = mul(x[i], x[i])\n"
FIRST = parse(HEAD + "  b[i:3] = add(a[i], x[i])\n  return b\n")
SECOND = parse(HEAD + "  b[i:3] = sub(a[i], x[i])\n  return a, b\n")
CHECKED = parse(HEAD + '  c[j:2] = require(lt(at[j], 2:i64), at[j], "[IndexError] {value} at {index}", 0..2)\n'
                "  b[j:2] = a[c[j]]\n  return b\n")  # fmt: skip
X = np.array([2.0, -0.0, np.nan], np.float32)
RIGHT, WRONG = np.array([1, 0]), np.array([1, 5])


def test_each_program_has_its_own_results_and_shared_tensors_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[Any] = []
    let = denote.KINDS["let"]

    def counted(t: Any, tensors: Any) -> Any:
        computed.append(t)
        return let(t, tensors)

    monkeypatch.setitem(denote.KINDS, "let", counted)
    meanings = Meanings(FIRST.inputs, [X, RIGHT])
    for p in (FIRST, SECOND, CHECKED, FIRST):
        got = meanings.run(p)
        count = len(computed)
        assert all(bits_equal(a, b) for a, b in zip(got, run(p, [X, RIGHT]), strict=True))
        del computed[count:]
    assert len(computed) == len(set(computed)) == 4


def test_a_check_fails_in_every_program_that_has_it() -> None:
    meanings = Meanings(FIRST.inputs, [X, WRONG])
    for _ in range(2):
        with pytest.raises(RequireError, match=r"5 at \[1\]"):
            meanings.run(CHECKED)
        assert bits_equal(meanings.run(FIRST)[0], run(FIRST, [X, WRONG])[0])


def test_the_arrays_are_copies() -> None:
    x = X.copy()
    meanings = Meanings(FIRST.inputs, [x, RIGHT])
    x[:] = 1
    assert bits_equal(meanings.run(FIRST)[0], run(FIRST, [X, RIGHT])[0])


def test_other_inputs_in_the_same_places() -> None:
    other = parse("program g(y: f32[3], at: i64[2]):\n  b[i:3] = neg(y[i])\n  return b\n")
    assert bits_equal(Meanings(FIRST.inputs, [X, RIGHT]).run(other)[0], run(other, [X, RIGHT])[0])
