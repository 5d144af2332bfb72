"""Random numbers as a pure function of (seed, offset, index): Philox4x32-10 in integer operations.

Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. The 128-bit counter is (offset, index), the
64-bit key is the seed; a recomputed number is the same number, on every machine and in every order. Every word is a 32-bit
unsigned number held in an i64 expression, 0 <= word < 2**32.

Assay's streams are defined here, not borrowed: they do not reproduce the numbers of PyTorch or numpy.
"""

from __future__ import annotations

import math
from typing import TypeAlias

from assay.core import dtypes as dt
from assay.core.dtypes import DType
from assay.core.errors import UserError
from assay.core.lang import E, const, convert, op, select

Words: TypeAlias = tuple[E, E, E, E]

ROUNDS = 10
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
MASK = 0xFFFFFFFF


def _word(x: E, shift: int = 0) -> E:
    """Bits shift..shift+31 of an i64, as a number in [0, 2**32)."""
    return (x >> shift if shift else x) & MASK


def _multiply(m: int, x: E) -> tuple[E, E]:
    """The high and the low word of m * x, a 64-bit product that wraps in i64 but keeps its bits."""
    product = x * m
    return _word(product, 32), _word(product)


def philox(counter: Words, key: tuple[E, E]) -> Words:
    """Ten rounds (c0, c1, c2, c3) -> (hi(M1 c2) ^ c1 ^ k0, lo(M1 c2), hi(M0 c0) ^ c3 ^ k1, lo(M0 c0)), the key stepped between."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for r in range(ROUNDS):
        if r:
            k0, k1 = _word(k0 + KEY_STEPS[0]), _word(k1 + KEY_STEPS[1])
        high0, low0 = _multiply(MULTIPLIERS[0], c0)
        high1, low1 = _multiply(MULTIPLIERS[1], c2)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
    return c0, c1, c2, c3


def words(seed: E, offset: E, index: E) -> Words:
    """Four random words for element `index` of the draw at `offset`; all three are i64, every bit counts.

    counter = (index low, index high, offset low, offset high), key = (seed low, seed high).
    """
    for name, e in (("seed", seed), ("offset", offset), ("index", index)):
        if e.dtype is not dt.i64:
            raise UserError(f"philox: {name} must be i64, not {e.dtype.name}; convert it first")
    counter = (_word(index), _word(index, 32), _word(offset), _word(offset, 32))
    return philox(counter, (_word(seed), _word(seed, 32)))


def _leading(w: E, bits: int, dtype: DType) -> E:
    """The leading bits of a word as a fraction; through i32, whose conversion every vector unit has."""
    return convert(convert(w >> (32 - bits), dt.i32), dtype) * 2.0**-bits


def uniform_of(w: Words, dtype: DType) -> E:
    """In [0, 1), exact: the 24 leading bits of word 0 (f32); 27 of word 0, then 26 of word 1 (f64)."""
    if dtype is dt.f32:
        return _leading(w[0], 24, dtype)
    if dtype is dt.f64:
        return _leading(w[0], 27, dtype) + _leading(w[1], 26, dtype) * 2.0**-27
    raise UserError(f"uniform numbers are f32 or f64, not {dtype.name}; convert them after drawing")


def uniform(seed: E, offset: E, index: E, dtype: DType) -> E:
    """A uniform number in [0, 1): a multiple of 2**-24 (f32) or 2**-53 (f64), each equally likely."""
    return uniform_of(words(seed, offset, index), dtype)


def normal(seed: E, offset: E, index: E, dtype: DType) -> E:
    """A standard normal number by Box and Muller (Ann. Math. Stat. 29, 1958): sqrt(-2 log u) cos(2 pi v).

    u in (0, 1] and v in [0, 1) come from words 0 and 1 (f32: 24 bits each; |result| <= 5.77), or 0, 1 and 2, 3 (f64: 53 bits;
    |result| <= 8.58). 2 pi v is the rounded product. Each element uses its own four words, so no element depends on another.
    """
    w = words(seed, offset, index)
    v = uniform_of((w[1], *w[1:]) if dtype is dt.f32 else (w[2], w[3], *w[2:]), dtype)
    u = 1.0 - uniform_of(w, dtype)
    return op("sqrt", op("log", u) * -2.0) * op("cos", v * (2.0 * math.pi))


def below(seed: E, offset: E, index: E, bound: int) -> E:
    """An i64 integer in [0, bound), 1 <= bound <= 2**53: floor(u * bound) of the 53-bit uniform u.

    Each value's probability is within 2**-53 of 1/bound. Raises UserError for another bound.
    """
    if not 1 <= bound <= 1 << 53:
        raise UserError(f"random integers below {bound}: the bound must be in [1, 2**53]")
    w = words(seed, offset, index)
    scaled = convert(op("floor", uniform_of(w, dt.f64) * float(bound)), dt.i64)
    return select(scaled < bound, scaled, const(bound - 1, dt.i64))  # u * bound may round up to bound
