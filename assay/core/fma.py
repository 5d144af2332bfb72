"""Fused multiply-add of numpy arrays: round(a*b + c) with ONE rounding.

numpy has no fma, but its complex product ends with one where the processor has the instruction.  The imaginary part of

    (a + c i) * (1 + b i)    is    fma(a, b, c*1)

because numpy's vector loop rounds one product, here c*1 = c, and adds the other to it with a fused multiply-add.  That is
how the loop happens to be written: it is asked on first use, for every length of a loop and its rest, and where a bit
differs from what fma_emulated.py computes with ordinary operations, those do all the work.
"""

import math
import threading
from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from assay.core.fma_emulated import BLOCK, F32, F64, Array, emulated32, emulated64

Complex: TypeAlias = npt.NDArray[np.complexfloating[Any, Any]]
Compute: TypeAlias = Callable[[Any, Any, Any, Any], None]  # compute(a, b, c, out)

LENGTHS = (*range(1, 70), BLOCK)
"""Lengths on which the machine's own fma is compared with the emulation; vectors have at most 16 elements."""

ASKED = 997
"""Different elements on which they are compared, a prime: each comes to stand in every lane of a vector."""


def fma32(a: npt.ArrayLike, b: npt.ArrayLike, c: npt.ArrayLike) -> F32:
    """round_f32(a*b + c), for every f32 value (subnormals, zeros, inf, NaN); the operands broadcast."""
    x, y, z = np.asarray(a, np.float32), np.asarray(b, np.float32), np.asarray(c, np.float32)
    return _in_blocks(_best32(), x, y, z)


def fma64(a: npt.ArrayLike, b: npt.ArrayLike, c: npt.ArrayLike) -> F64:
    """round_f64(a*b + c), for every f64 value (subnormals, zeros, inf, NaN, overflow of a*b alone); the operands broadcast."""
    x, y, z = np.asarray(a, np.float64), np.asarray(b, np.float64), np.asarray(c, np.float64)
    return _in_blocks(_best64(), x, y, z)


class _Scratch(threading.local):
    """Factors of complex products, kept by each thread; the real part of the right one stays 1."""

    def __init__(self) -> None:
        self.left32, self.right32 = np.empty(BLOCK, np.complex64), np.ones(BLOCK, np.complex64)
        self.left64, self.right64 = np.empty(BLOCK, np.complex128), np.ones(BLOCK, np.complex128)


_scratch = _Scratch()


def machine32(a: F32, b: F32, c: F32, out: F32) -> None:
    """out = the imaginary part of (a + c i) * (1 + b i) in complex64, for at most BLOCK elements."""
    _imaginary(_scratch.left32, _scratch.right32, a, b, c, out)


def machine64(a: F64, b: F64, c: F64, out: F64) -> None:
    """out = the imaginary part of (a + c i) * (1 + b i) in complex128, for at most BLOCK elements."""
    _imaginary(_scratch.left64, _scratch.right64, a, b, c, out)


def _imaginary(left: Complex, right: Complex, a: Array, b: Array, c: Array, out: Array) -> None:
    if out.size == 1:  # which numpy gives to another loop
        left, right = left[:2], right[:2]
    else:
        left, right = left[: out.size].reshape(out.shape), right[: out.size].reshape(out.shape)
    left.real, left.imag, right.imag = a, c, b
    np.multiply(left, right, out=left)
    out[...] = left.imag if out.size != 1 else left.imag[0]


@cache
def _best32() -> Compute:
    return machine32 if is_fused(machine32, emulated32, np.float32) else emulated32


@cache
def _best64() -> Compute:
    return machine64 if is_fused(machine64, emulated64, np.float64) else emulated64


def is_fused(compute: Compute, right: Compute, dtype: type) -> bool:
    """Whether both give the same bits for all LENGTHS.

    Most elements have c = -round(a*b), so that two roundings would give 0 instead of what the product's rounding lost; others
    lie on and next to midpoints of two results, subnormal ones too, or are special.
    """
    last, least = float(np.finfo(dtype).eps), float(np.finfo(dtype).smallest_normal)
    root = math.sqrt(least)
    hard = (
        (last / 2, 1.0 + last, 1.0), (last / 2, 1.0, 1.0), (last / 2 * (1.0 + last), 1.0 - last, 1.0 + last),
        (root * 2.0**-12, root * 2.0**-12 * (1.0 + last), least), (root * last, root / 2, least * last), (root, -root, least),
        (0.0, -1.0, -0.0), (0.0, -1.0, 0.0), (math.nan, 1.0, 1.0), (math.inf, 0.0, 1.0), (math.inf, 1.0, -math.inf),
        (1.0 / least, 1.0 / least, -math.inf), (1.0 / least, 4.0, -1.0 / least),
    )  # fmt: skip
    a, b = (1.0 + np.modf(np.arange(1, 1 + ASKED) * step)[0].astype(dtype) for step in (math.sqrt(2.0), math.sqrt(3.0)))
    c = -(a * b)
    for k, values in enumerate(hard):
        a[3 * k + 1], b[3 * k + 1], c[3 * k + 1] = values
    expected = np.empty(ASKED, dtype)
    with np.errstate(all="ignore"):
        right(a, b, c, expected)
        a, b, c, expected = (np.resize(x, BLOCK) for x in (a, b, c, _bits(expected)))
        for n in LENGTHS:
            found = np.empty(n, dtype)
            compute(a[:n], b[:n], c[:n], found)
            if not np.array_equal(_bits(found), expected[:n]):
                return False
    return True


def _bits(x: Array) -> Array:
    """The elements' bits; all NaNs are one."""
    return np.where(np.isnan(x), x.dtype.type(math.nan), x).view(f"u{x.itemsize}")


def _in_blocks(compute: Compute, a: Array, b: Array, c: Array) -> Array:
    """compute(a, b, c, out) on blocks of the broadcast arrays; out has the dtype of c."""
    shape = np.broadcast(a, b, c).shape
    out = np.empty(shape, c.dtype)
    with np.errstate(all="ignore"):
        if out.size <= BLOCK:
            compute(a, b, c, out)
        else:
            for block in _blocks(shape):
                compute(_part(a, block), _part(b, block), _part(c, block), out[block])
    return out


def _blocks(shape: tuple[int, ...]) -> list[tuple[slice, ...]]:
    """Slices that cut an array of this shape into blocks of at most BLOCK elements, along its leading axes."""
    if not shape:
        return [()]
    row = math.prod(shape[1:])
    if row > BLOCK:
        return [(slice(i, i + 1), *rest) for i in range(shape[0]) for rest in _blocks(shape[1:])]
    rows = BLOCK // max(1, row)
    return [(slice(i, i + rows), *(slice(None),) * len(shape[1:])) for i in range(0, shape[0], rows)]


def _part(x: Array, block: tuple[slice, ...]) -> Array:
    """The elements of x that broadcast onto a block; an axis of length 1 stays whole."""
    axes = block[len(block) - x.ndim :]
    return x[tuple(s if n > 1 else slice(None) for s, n in zip(axes, x.shape, strict=True))]
