"""Philox4x32-10: the known-answer vectors of Random123, and the uniform numbers made from its words."""

import numpy as np
import pytest

from assay.core import dtypes as dt
from assay.core import philox
from assay.core.errors import UserError
from assay.core.lang import const, index, let, program, tensor
from assay.semantics.denote import run

# seed, offset, index, the four words: kat_vectors of Random123 (counter = index, offset; key = seed; low words first)
KNOWN = [
    (0, 0, 0, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    (-1, -1, -1, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (0x299F31D0A4093822, 0x0370734413198A2E, 0x85A308D3243F6A88, (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
]


@pytest.mark.parametrize(("seed", "offset", "counter", "expected"), KNOWN)
def test_known_answer(seed: int, offset: int, counter: int, expected: tuple[int, ...]):
    words = philox.words(*(const(v, dt.i64) for v in (seed, offset, counter)))
    got = run(program([], [let((), philox.unsigned(w)) for w in words]), [])
    assert tuple(int(w) for w in got) == expected


def uniform(n: int, dtype: dt.DType, seed: int = 7, offset: int = 0) -> np.ndarray:
    start = [const(v, dt.i64) for v in (seed, offset)]
    return run(program([], [tensor((n,), lambda i: philox.uniform(philox.words(*start, index(i)), dtype))]), [])[0]


@pytest.mark.parametrize(("dtype", "bits"), [(dt.f32, 24), (dt.f64, 53), (dt.f16, 11), (dt.bf16, 8)])
def test_uniform(dtype: dt.DType, bits: int):
    u = uniform(1 << 15, dtype).astype(float)
    assert (u >= 0).all()
    assert (u < 1).all()
    assert (np.ldexp(u, bits) % 1 == 0).all()
    assert abs(u.mean() + 2.0**-bits / 2 - 0.5) < 4 * (1 / 12 / u.size) ** 0.5
    counts = np.histogram(u, 64, (0, 1))[0]
    assert ((counts - u.size / 64) ** 2).sum() / (u.size / 64) < 63 + 4 * (2 * 63) ** 0.5  # chi squared


def test_draws_differ_by_seed_offset_and_index():
    a = uniform(1000, dt.f32)
    assert (uniform(1000, dt.f32) == a).all()
    assert (uniform(1000, dt.f32, seed=8) == a).sum() <= 2
    assert (uniform(1000, dt.f32, offset=1) == a).sum() <= 2
    assert np.unique(a).size > 990


def test_integer_is_63_bits():
    start = [const(v, dt.i64) for v in (3, 0)]
    k = run(program([], [tensor((4096,), lambda i: philox.integer(philox.words(*start, index(i))))]), [])[0]
    assert (k >= 0).all()
    assert abs(k.astype(float).mean() / 2.0**63 - 0.5) < 4 * (1 / 12 / k.size) ** 0.5


def test_narrow_seeds_are_refused():
    with pytest.raises(UserError, match="must be i64"):
        philox.words(const(0, dt.i32), const(0, dt.i64), const(0, dt.i64))
