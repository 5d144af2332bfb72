"""Philox4x32-10 (Salmon et al., SC 2011): random words as a pure function of a key and a counter.

    words(seed, offset, index) -> four i32 words, a function of its arguments alone

The key is the 64-bit seed; the counter is (index, offset), 64 bits each.  Nothing is carried from one element to the
next, so what an element draws depends neither on the shape nor on how the work is split, and recomputing it gives the
same bits.  Ten rounds of multiplications of 32 by 32 bits, in the integer operations of the scalar table.
"""

from __future__ import annotations

from assay.core import dtypes as dt
from assay.core.errors import UserError
from assay.core.lang import E, const, convert, op

ROUNDS = 10
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_LOW = 0xFFFFFFFF

Words = tuple[E, E, E, E]


def words(seed: E, offset: E, index: E) -> Words:
    """Philox4x32-10 with key (low, high of seed) and counter (low, high of index, low, high of offset); all i64."""
    if any(e.dtype is not dt.i64 for e in (seed, offset, index)):
        raise UserError(f"philox: seed, offset and index must be i64, not {seed.dtype}, {offset.dtype}, {index.dtype}")
    key = [_low(seed), _high(seed)]
    c = [_low(index), _high(index), _low(offset), _high(offset)]
    for r in range(ROUNDS):
        if r:
            key = [k + const(step, dt.i32) for k, step in zip(key, KEY_STEPS, strict=True)]
        (high0, low0), (high1, low1) = (_product(m, c[k]) for m, k in zip(MULTIPLIERS, (0, 2), strict=True))
        c = [op("bxor", op("bxor", high1, c[1]), key[0]), low1, op("bxor", op("bxor", high0, c[3]), key[1]), low0]
    return c[0], c[1], c[2], c[3]


def _low(e: E) -> E:
    """The low 32 bits of an i64, as i32."""
    return convert(e, dt.i32)


def _high(e: E) -> E:
    """The high 32 bits of an i64, as i32."""
    return convert(e >> 32, dt.i32)


def unsigned(word: E) -> E:
    """The word as an i64 in 0 .. 2**32 - 1."""
    return op("band", convert(word, dt.i64), _LOW)


def _product(m: int, word: E) -> tuple[E, E]:
    """(high, low) 32 bits of m * word, both unsigned."""
    factor = const(m, dt.i32)
    return op("umulhi", word, factor), word * factor


def uniform(w: Words, dtype: dt.DType) -> E:
    """Uniform in [0, 1), a multiple of 2**-p, p the precision of `dtype` (24, 53; 11 and 8 for f16 and bf16), exactly.

    Half types come in f32, to be rounded without loss.
    """
    if dtype is dt.f64:
        bits = (op("shr", unsigned(w[0]), 5) << 26) + op("shr", unsigned(w[1]), 6)
        return convert(bits, dt.f64) * const(2.0**-53, dt.f64)
    precision = {"f32": 24, "f16": 11, "bf16": 8}[dtype.name]
    bits = op("band", w[0] >> (32 - precision), (1 << precision) - 1)
    return convert(bits, dt.f32) * const(2.0**-precision, dt.f32)


def integer(w: Words) -> E:
    """Uniform in 0 .. 2**63 - 1, as i64."""
    return op("band", (convert(w[1], dt.i64) << 32) + unsigned(w[0]), (1 << 63) - 1)
