"""Chains of fmas on Python floats equal the vectorised fma, step by step, on every family of difficulty."""

import math

import numpy as np
import pytest

from assay.core.fma import fma32, fma64
from assay.semantics.chain import fma32_chain, fma64_chain
from assay.semantics.compare import bits_equal, first_difference
from tests.core.test_fma import CASES32, CASES64, FAMILIES, triples

CHAINS = {np.float32: (fma32_chain, fma32), np.float64: (fma64_chain, fma64)}


@pytest.mark.parametrize("dtype", CHAINS)
@pytest.mark.parametrize("family", FAMILIES)
def test_single_steps(dtype, family):
    chain, fma = CHAINS[dtype]
    with np.errstate(all="ignore"):
        a, b, c = triples(family, dtype, 3000 if dtype is np.float32 else 500)
        found = np.array([chain(a[k : k + 1], b[k : k + 1], float(c[k]))[0] for k in range(a.size)], dtype)
    assert first_difference(found, fma(a, b, c)) is None


@pytest.mark.parametrize("dtype", CHAINS)
@pytest.mark.parametrize("first", [0.0, -0.0, 1e-30, math.inf, math.nan])
def test_a_chain_is_its_steps(dtype, first):
    chain, fma = CHAINS[dtype]
    a, b = np.random.default_rng(1).standard_normal((2, 300)).astype(dtype)
    a[7], b[9] = 0.0, -0.0
    now, states = np.array(first, dtype), []
    for x, y in zip(a, b, strict=True):
        now = fma(x, y, now)
        states.append(now)
    assert bits_equal(np.array(chain(a, b, first), dtype), np.array(states, dtype))


@pytest.mark.parametrize(("a", "b", "c", "expected"), CASES32)
def test_f32_cases(a, b, c, expected):
    with np.errstate(all="ignore"):
        found = fma32_chain(np.float32([a]), np.float32([b]), c)
    assert bits_equal(np.float32(found), np.float32([expected]))


@pytest.mark.parametrize(("a", "b", "c", "expected"), CASES64)
def test_f64_cases(a, b, c, expected):
    with np.errstate(all="ignore"):
        found = fma64_chain(np.float64([a]), np.float64([b]), c)
    assert bits_equal(np.float64(found), np.float64([expected]))
