"""fma32 and fma64 against literal values and against the machine's own fma instruction."""

import ctypes
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from assay.backends.target import host
from assay.core.fma import fma32, fma64, is_fused, machine32, machine64
from assay.core.fma_emulated import BLOCK, emulated32, emulated64

INF, NAN = float("inf"), float("nan")

# a, b, c, round(a*b + c): one trap a line
CASES32 = [
    (1.0, 1.0, 2.0**-25, 1.0),
    (1.0 + 2.0**-23, 1.0 - 2.0**-23, -1.0, -(2.0**-46)),  # the product's last bit survives
    (2.0**-24, 1.0 + 2.0**-23, 1.0, 1.0 + 2.0**-23),  # just above a midpoint, which f64 can hold
    (2.0**-24, 1.0, 1.0, 1.0),  # a midpoint: to even
    (2.0**-54, 2.0**-40, 1.0 + 2.0**-23, 1.0 + 2.0**-23),
    (2.0**-24 * (1 + 2.0**-23), 1.0 - 2.0**-23, 1.0, 1.0),  # below the midpoint by less than f64 sees
    (2.0**-75, 2.0**-75, 2.0**-149, 2.0**-148),  # 1.5 subnormal steps: to even
    (2.0**-75 * (1 + 2.0**-23), 2.0**-75 * (1 - 2.0**-23), 2.0**-127 + 2.0**-149, 2.0**-127 + 2.0**-149),  # just below half
    (2.0**-75 * (1 + 2.0**-23), 2.0**-75 * (2 - 2.0**-23) * 0.5, 2.0**-127, 2.0**-127 + 2.0**-149),  # just above half
    (1 + 2.0**-23, 1 - 2.0**-23, 2.0**24 + 2.0**23 - 1, 2.0**24 + 2.0**23),
    (2.0**100, 2.0**100, -INF, -INF),
    (2.0**100, 2.0**100, -3.0e38, INF),
    (0.0, -1.0, 0.0, 0.0),
    (0.0, -1.0, -0.0, -0.0),
    (0.0, INF, 1.0, NAN),
    (INF, 1.0, -INF, NAN),
    (NAN, 0.0, 0.0, NAN),
]
CASES64 = [
    (1.0 + 2.0**-52, 1.0 - 2.0**-52, -1.0, -(2.0**-104)),
    (2.0**-53, 1.0 + 2.0**-52, 1.0, 1.0 + 2.0**-52),
    (2.0**600, 2.0**600, -INF, -INF),  # a*b alone overflows, and c is -inf
    (2.0**600, 2.0**424, -(2.0**1023), 2.0**1023),
    (2.0**600, 2.0**425, -(2.0**1023), INF),
    (2.0**512, 2.0**512, -(2.0**1023) * (2 - 2.0**-52), 2.0**971),  # 2^1024 - max
    (1.0 + 2.0**-27, 2.0**900 * (1.0 + 2.0**-26), 5e-324, 2.0**900 * (1.0 + 2.0**-26 + 2.0**-27 + 2.0**-52)),
    (1.0 + 2.0**-27, 2.0**900 * (1.0 + 2.0**-26), -5e-324, 2.0**900 * (1.0 + 2.0**-26 + 2.0**-27)),  # tie decided by c
    (2.0**-537, 2.0**-538, 5e-324, 1e-323),  # half of the last subnormal bit
    (2.0**-537, -(2.0**-538), 5e-324, 0.0),
    (2.0**-600, 2.0**-600, 0.0, 0.0),
    (-(2.0**-600), 2.0**-600, 0.0, -0.0),
    (-(2.0**-600), 2.0**-600, 5e-324, 5e-324),
    (0.0, -1.0, 0.0, 0.0),
    (0.0, -1.0, -0.0, -0.0),
    (1.0, -1.0, 1.0, 0.0),
    (0.0, INF, 1.0, NAN),
    (INF, 1.0, -INF, NAN),
]


def same(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    bits = np.uint32 if x.dtype == np.float32 else np.uint64
    return (x.view(bits) == y.view(bits)) | (np.isnan(x) & np.isnan(y))


def emulated(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """What fma32 and fma64 give where numpy does not fuse."""
    out = np.empty_like(c)
    with np.errstate(all="ignore"):
        for k in range(0, out.size, BLOCK):
            block = slice(k, k + BLOCK)
            (emulated32 if c.dtype == np.float32 else emulated64)(a[block], b[block], c[block], out[block])
    return out


@pytest.mark.parametrize("fma", [fma32, emulated])
@pytest.mark.parametrize(("a", "b", "c", "expected"), CASES32)
def test_fma32_case(a: float, b: float, c: float, expected: float, fma: Callable[..., np.ndarray]):
    assert same(fma(*np.array([[a], [b], [c]], np.float32)), np.array([expected], np.float32)).all()


@pytest.mark.parametrize("fma", [fma64, emulated])
@pytest.mark.parametrize(("a", "b", "c", "expected"), CASES64)
def test_fma64_case(a: float, b: float, c: float, expected: float, fma: Callable[..., np.ndarray]):
    assert same(fma(*np.array([[a], [b], [c]])), np.array([expected])).all()


def twice_rounded(a: np.ndarray, b: np.ndarray, c: np.ndarray, out: np.ndarray) -> None:
    np.add(a * b, c, out=out)


def fused_but_the_last(a: np.ndarray, b: np.ndarray, c: np.ndarray, out: np.ndarray) -> None:
    """As a loop whose rest, that does not fill a vector, is compiled otherwise."""
    (emulated32 if c.dtype == np.float32 else emulated64)(a, b, c, out)
    if out.size % 8 == 7:
        out[-1] = a[-1] * b[-1] + c[-1]


def through_f64(a: np.ndarray, b: np.ndarray, c: np.ndarray, out: np.ndarray) -> None:
    """Right but for sums that f64 rounds to a midpoint."""
    out[...] = a.astype(np.float64) * b + c


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_does_not_fuse_is_not_used(dtype: type):
    right = emulated32 if dtype == np.float32 else emulated64
    assert is_fused(right, right, dtype)
    assert not is_fused(twice_rounded, right, dtype)
    assert not is_fused(fused_but_the_last, right, dtype)
    assert not is_fused(through_f64, right, dtype)


@pytest.mark.skipif(host().lanes < 8, reason="numpy fuses with AVX2")
def test_this_numpy_fuses():
    """Elsewhere everything is right and slower."""
    assert is_fused(machine32, emulated32, np.float32)
    assert is_fused(machine64, emulated64, np.float64)


SHAPES = [((), (), ()), ((0,), (1,), ()), ((5, 1), (1, 7), (5, 7)), ((3, 1, 1), (2, 1), (4,)), ((300, 1), (400,), (1, 1))]


@pytest.mark.parametrize("fma", [fma32, fma64])
@pytest.mark.parametrize(("a", "b", "c"), SHAPES)
def test_shapes_broadcast(fma: Callable[..., np.ndarray], a: tuple, b: tuple, c: tuple):
    x, y, z = (np.random.default_rng(0).integers(-9, 10, s).astype(np.float32) for s in (a, b, c))
    out = fma(x, y, z)
    assert out.shape == np.broadcast_shapes(a, b, c)
    assert (out == x * y + z).all()


def test_more_than_a_block():
    x = np.arange(3 * BLOCK + 5, dtype=np.float32) % 1000
    assert (fma32(x, x, x) == x * x + x).all()
    assert (fma64(x, x, x) == x * x + x).all()


FAMILIES = ["bits", "ordinary", "cancel", "midpoint", "subnormal", "far", "overflow", "special", "integers", "sticky"]


def triples(family: str, dtype: type, n: int) -> Iterator[np.ndarray]:
    """n triples of one family of difficulty."""
    g = np.random.default_rng(FAMILIES.index(family))
    p, least, most = (24, -149, 128) if dtype == np.float32 else (53, -1074, 1024)
    uint = np.uint32 if dtype == np.float32 else np.uint64

    def scaled(low: int, high: int) -> np.ndarray:
        return np.ldexp(g.uniform(1, 2, n) * g.choice([-1.0, 1.0], n), g.integers(low, high, n)).astype(dtype)

    def short(bits: int) -> np.ndarray:
        return (1.0 + g.integers(0, 2**bits, n) * 2.0**-bits).astype(dtype)

    a, b, c = scaled(-30, 30), scaled(-30, 30), scaled(-30, 30)
    if family == "bits":
        a, b, c = (g.integers(0, np.iinfo(uint).max, n, dtype=uint, endpoint=True).view(dtype) for _ in range(3))
    elif family == "cancel":
        c = -(a * b) * (1 + g.integers(-3, 4, n) * 2.0 ** (1 - p)).astype(dtype)
    elif family == "midpoint":
        a, b = short(p // 2), short(p // 2 + 1)
        c = (g.choice([-1.0, 1.0], n) * np.ldexp(1.0, -g.integers(0, 2 * p, n))).astype(dtype)
    elif family == "subnormal":
        a, b, c = scaled(least // 2 - 30, least // 2 + 30), scaled(least // 2 - 30, least // 2 + 30), scaled(least, least + 60)
    elif family == "far":
        c = scaled(least, most)
    elif family == "overflow":
        a, b, c = scaled(most // 2 - 1, most // 2), scaled(most // 2, most // 2 + 1), scaled(most - 2, most)
        c = -np.copysign(c, a * np.sign(b))
    elif family == "special":
        values = np.array(
            [
                0.0,
                -0.0,
                1.0,
                -1.0,
                INF,
                -INF,
                NAN,
                2.0**least,
                2.0 ** (least + p - 1),
                2.0 ** (most - 1),
                2.0 ** (least // 2 - 9),
                0.5,
            ],
            dtype,
        )
        a, b, c = (g.choice(values, n) for _ in range(3))
    elif family == "integers":
        a, b, c = (g.integers(-(2**p) + 1, 2**p, n).astype(dtype) for _ in range(3))
    elif family == "sticky":  # a product that is a tie, decided by a c far below
        a, b = short(p // 2 + 1), np.ldexp(short(p // 2), g.integers(0, most - 2, n)).astype(dtype)
        c = scaled(least, least + 40)
    yield from (a, b, c)


@pytest.fixture(scope="module")
def hardware(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder: Path = tmp_path_factory.mktemp("fma")
    loop = "for (long i = 0; i < n; i++) y[i] = __builtin_fma{1}(a[i], b[i], c[i]);"
    loop = 'extern "C" void {2}({0}* y, const {0}* a, const {0}* b, const {0}* c, long n) {{ ' + loop + " }}\n"
    (folder / "fma.cpp").write_text(loop.format("float", "f", "f32") + loop.format("double", "", "f64"))
    command = ["g++", "-O1", "-march=native", "-ffp-contract=off", "-fPIC", "-shared", "-o", "fma.so", "fma.cpp", "-lm"]
    subprocess.run(command, cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "fma.so"))


@pytest.mark.cpp
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("family", FAMILIES)
def test_equals_the_instruction(hardware: ctypes.CDLL, family: str, dtype: type):
    with np.errstate(all="ignore"):
        arrays = [np.ascontiguousarray(x) for x in triples(family, dtype, 1 << 17)]
    expected = np.empty_like(arrays[0])
    call, fma = (hardware.f32, fma32) if dtype == np.float32 else (hardware.f64, fma64)
    call(*(ctypes.c_void_p(x.ctypes.data) for x in (expected, *arrays)), ctypes.c_long(expected.size))
    assert same(emulated(*arrays), expected).all()
    wrong = np.nonzero(~same(fma(*arrays), expected))[0]
    assert not len(wrong), [[float(x[i]).hex() for x in (*arrays, fma(*arrays), expected)] for i in wrong[:3]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_emulation_and_small_arrays_equal_large_ones(family: str, dtype: type):
    with np.errstate(all="ignore"):
        arrays = list(triples(family, dtype, 1 << 14))
    fma = fma32 if dtype == np.float32 else fma64
    whole = fma(*arrays)
    parts = np.concatenate([fma(*(x[i : i + 7] for x in arrays)) for i in range(0, whole.size, 7)])
    assert same(parts, whole).all()
    assert same(emulated(*arrays), whole).all()
