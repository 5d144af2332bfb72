"""Philox4x32-10: the known-answer vectors of Random123, and the distributions drawn from it."""

import numpy as np
import pytest

from assay.core import dtypes as dt
from assay.core import philox
from assay.core.errors import UserError
from assay.core.lang import const, index, let, load, program, tensor
from assay.core.lang import input as tensor_input
from assay.semantics.denote import run

# counter, key, result: kat_vectors of Random123 (Salmon et al.)
KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN)
def test_known_answer(counter: tuple[int, ...], key: tuple[int, ...], expected: tuple[int, ...]):
    t = tensor_input("t", (6,), dt.i64)
    c0, c1, c2, c3, k0, k1 = (load(t, k) for k in range(6))
    outputs = [let((), w) for w in philox.philox((c0, c1, c2, c3), (k0, k1))]
    got = run(program([t], outputs), [np.array([*counter, *key])])
    assert tuple(int(w) for w in got) == expected


def test_seed_offset_and_index_fill_key_and_counter():
    seed = np.array(0x299F31D0A4093822 - 0)
    p = [const(v, dt.i64) for v in (0x299F31D0A4093822, 0x0370734413198A2E, 0x85A308D3243F6A88 - 2**64)]
    got = run(program([], [let((), w) for w in philox.words(*p)]), [])
    assert tuple(int(w) for w in got) == KNOWN[2][2]
    assert seed.dtype == np.int64


def drawn(n: int, make: object, seed: int = 7, offset: int = 0) -> np.ndarray:
    body = tensor((n,), lambda i: make(const(seed, dt.i64), const(offset, dt.i64), index(i)))  # type: ignore[operator]
    return run(program([], [body]), [])[0]


@pytest.mark.parametrize(("dtype", "bits"), [(dt.f32, 24), (dt.f64, 53)])
def test_uniform(dtype: dt.DType, bits: int):
    u = drawn(1 << 15, lambda s, o, i: philox.uniform(s, o, i, dtype))
    assert u.dtype == dtype.numpy
    assert (u >= 0).all()
    assert (u < 1).all()
    assert (np.ldexp(u.astype(float), bits) % 1 == 0).all()
    assert abs(u.mean() - 0.5) < 4 * (1 / 12 / u.size) ** 0.5
    counts = np.histogram(u, 64, (0, 1))[0]
    assert ((counts - u.size / 64) ** 2).sum() / (u.size / 64) < 63 + 4 * (2 * 63) ** 0.5


@pytest.mark.parametrize("dtype", [dt.f32, dt.f64])
def test_normal(dtype: dt.DType):
    x = drawn(1 << 15, lambda s, o, i: philox.normal(s, o, i, dtype)).astype(float)
    n = x.size
    assert np.isfinite(x).all()
    assert abs(x.mean()) < 4 / n**0.5
    assert abs(x.var() - 1) < 4 * (2 / n) ** 0.5
    assert abs((x**3).mean()) < 4 * (15 / n) ** 0.5
    assert abs((x**4).mean() - 3) < 4 * (96 / n) ** 0.5


def test_box_muller_at_the_edges():
    """u = 1 gives 0; the smallest u gives the largest number; neither is infinite or NaN."""
    zero, last = (tuple(const(v, dt.i64) for _ in range(4)) for v in (0, 0xFFFFFFFF))
    u = run(program([], [let((), philox.uniform_of(w, d)) for w in (zero, last) for d in (dt.f32, dt.f64)]), [])
    assert [float(v) for v in u] == [0.0, 0.0, 1 - 2.0**-24, 1 - 2.0**-53]


def test_below():
    k = drawn(1 << 14, lambda s, o, i: philox.below(s, o, i, 10))
    assert set(k) == set(range(10))
    assert np.abs(np.bincount(k) - k.size / 10).max() < 5 * (k.size * 0.09) ** 0.5
    for bound in (0, -1, 2**53 + 1):
        with pytest.raises(UserError, match=r"2\*\*53"):
            philox.below(*(const(0, dt.i64),) * 3, bound)


def test_draws_differ_by_seed_offset_and_index():
    def uniform(s: object, o: object, i: object) -> object:
        return philox.uniform(s, o, i, dt.f32)  # type: ignore[arg-type]

    a = drawn(1000, uniform)
    assert (drawn(1000, uniform) == a).all()
    assert (drawn(1000, uniform, seed=8) == a).sum() <= 2
    assert (drawn(1000, uniform, offset=1) == a).sum() <= 2
    assert np.unique(a).size > 990


def test_other_types_are_refused():
    with pytest.raises(UserError, match="seed must be i64"):
        philox.words(const(0, dt.i32), const(0, dt.i64), const(0, dt.i64))
    with pytest.raises(UserError, match="f32 or f64"):
        philox.uniform(*(const(0, dt.i64),) * 3, dt.i32)
