"""Calls of operators on numpy arrays through the reference meaning, for the tests of this folder."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from assay.core import dtypes as dt
from assay.core.operators import OPERATORS, Operator, resolve
from assay.core.operators.samples import Like, draw
from assay.semantics.compare import bits_equal
from assay.semantics.denote import run

DTYPES = dt.DTYPES


class Array:
    """An array as a tensor argument: shape and dtype as the table wants them."""

    def __init__(self, a: Any, dtype: dt.DType | None = None) -> None:
        self.a = np.asarray(a, dtype.numpy if dtype else None)
        self.shape: tuple[int, ...] = self.a.shape
        self.dtype = dt.dtype(self.a.dtype)


def _register() -> None:
    from assay.core.operators.schema import TENSOR_TYPES

    if Array not in TENSOR_TYPES:
        TENSOR_TYPES.append(Array)


_register()


def wrap(v: Any) -> Any:
    """Numpy arrays in `v` as tensor arguments."""
    if isinstance(v, np.ndarray):
        return Array(v)
    return tuple(map(wrap, v)) if isinstance(v, tuple | list) else v


def flat(v: Any) -> Iterator[np.ndarray]:
    """The arrays of an argument, in order."""
    if isinstance(v, Array):
        yield v.a
    elif isinstance(v, tuple | list):
        for x in v:
            yield from flat(x)


def evaluate(o: Operator, arguments: tuple[Any, ...]) -> Any:
    """The result of the overload on arguments in schema order (arrays, numbers, tuples)."""
    filled = tuple(map(wrap, arguments))
    outputs = run(o.program(*filled), [a for v in filled for a in flat(v)])
    return outputs[0] if len(outputs) == 1 and o.returns == ("",) and not o.schema.text.endswith("[]") else tuple(outputs)


def call(name: str, *args: Any, **kwargs: Any) -> Any:
    """name(*args): "add" resolves the overload, "add.Tensor" names it."""
    wrapped, named = tuple(map(wrap, args)), {k: wrap(v) for k, v in kwargs.items()}
    if "." in name:
        o = OPERATORS[name]
        filled = o.fill(wrapped, named)
        assert filled is not None, f"{o.schema.text} does not take {args} {kwargs}"
    else:
        o, filled = resolve(name, wrapped, named)
    outputs = run(o.program(*filled), [a for v in filled for a in flat(v)])
    return outputs[0] if len(outputs) == 1 and o.returns == ("",) and not o.schema.text.endswith("[]") else tuple(outputs)


def drawn(o: Operator) -> Iterator[tuple[Any, ...]]:
    """The samples of an operator with arrays in them, always the same."""
    rng = np.random.default_rng(zlib.crc32(o.name.encode()))

    def fill(v: Any) -> Any:
        if isinstance(v, Like):
            return draw(v, rng)
        return tuple(map(fill, v)) if isinstance(v, tuple) else v

    for arguments in o.samples():
        yield tuple(map(fill, arguments))


def array(values: Any, dtype: str = "f32") -> np.ndarray:
    """The array of these values in a type named as in the language."""
    return np.asarray(values, dtype=np.float64 if dtype in ("f16", "bf16") else None).astype(DTYPES[dtype].numpy)


def same(actual: Any, expected: Any) -> bool:
    """Equal bits, shapes and types, of one result or of several."""
    if isinstance(actual, tuple):
        return len(actual) == len(expected) and all(map(same, actual, expected))
    return bits_equal(actual, np.asarray(expected))
