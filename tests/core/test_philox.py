"""Philox4x32-10: the known-answer vectors of its authors, and words that depend on seed, offset and index alone."""

from __future__ import annotations

import numpy as np
import pytest

from assay.core import dtypes as dt
from assay.core import philox
from assay.core.errors import UserError
from assay.core.lang import const, index, input, load, program, tensor
from assay.semantics.denote import run

NAMES = ("seed", "offset", "index")
INPUTS = tuple(input(name, (3,), dt.i64) for name in NAMES)
WORDS = program(INPUTS, tuple(tensor((3,), lambda i, k=k: philox.words(*(load(t, i) for t in INPUTS))[k]) for k in range(4)))


def joined(low: int, high: int) -> int:
    value = low | high << 32
    return value - (1 << 64) if value >> 63 else value


def words(counter: tuple[int, int, int, int], key: tuple[int, int]) -> list[int]:
    """The words for a counter and a key, each element of them 32 bits."""
    values = (joined(*key), joined(*counter[2:]), joined(*counter[:2]))
    outputs = run(WORDS, [np.array([v, v + 1 if v >= 0 else v - 1, 0], np.int64) for v in values])
    return [int(w[0]) & 0xFFFFFFFF for w in outputs]


@pytest.mark.parametrize(("counter", "key", "expected"), [
    ((0, 0, 0, 0), (0, 0), [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0),
     [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]),
])  # fmt: skip
def test_known_answers(counter, key, expected):
    assert words(counter, key) == expected


def test_an_independent_numpy_philox_agrees():
    """Numpy's Philox is the 64-bit variant, so this is the 32-bit definition written with Python's integers."""
    rng = np.random.default_rng(5)
    for _ in range(20):
        c = [int(v) for v in rng.integers(0, 1 << 32, 4)]
        k = [int(v) for v in rng.integers(0, 1 << 32, 2)]
        expected, key = list(c), list(k)
        for _ in range(10):
            a, b = 0xD2511F53 * expected[0], 0xCD9E8D57 * expected[2]
            low = 0xFFFFFFFF
            expected = [b >> 32 ^ expected[1] ^ key[0], b & low, a >> 32 ^ expected[3] ^ key[1], a & low]
            key = [key[0] + 0x9E3779B9 & low, key[1] + 0xBB67AE85 & low]
        assert words(tuple(c), tuple(k)) == expected


@pytest.mark.parametrize(("bits", "dtype", "expected"), [
    (-1, "f32", 1 - 2.0**-24),
    (0, "f32", 0.0),
    (1 << 8, "f32", 2.0**-24),
    (255, "f32", 0.0),
    (-1, "f16", 1 - 2.0**-11),
    (-1, "bf16", 1 - 2.0**-8),
    (-1, "f64", 1 - 2.0**-53),
    (-(1 << 31), "f64", 0.5),
])  # fmt: skip
def test_uniform_is_below_one(bits, dtype, expected):
    word = const(bits, dt.i32)
    rest = const(-1 if bits == -1 else 0, dt.i32)
    (found,) = run(program((), (tensor((1,), lambda _: philox.uniform((word, rest, rest, rest), dt.DTYPES[dtype])),)), [])
    assert found.tolist() == [expected]


def test_integer_has_63_bits():
    ones = (const(-1, dt.i32),) * 4
    (found,) = run(program((), (tensor((1,), lambda _: philox.integer(ones)),)), [])
    assert found.tolist() == [(1 << 63) - 1]


def test_the_types_of_its_arguments():
    with pytest.raises(UserError, match="must be i64, not i32"):
        philox.words(const(0, dt.i32), const(0, dt.i64), index(0))
