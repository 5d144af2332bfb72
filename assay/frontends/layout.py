"""Where the elements of a view lie: a view's meaning is a load of its source at an index map; if the address is affine in the
axes, the view is a stride pattern over the same memory, otherwise it can only be a copy.

    address(i...) = sum_k stride_k * index_k(i...) = offset + sum_j stride'_j * i_j       (strides count elements)

For reshapes the floor divisions cancel exactly when the dimensions merge, so one rule decides every view.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.core import sizes
from assay.core.index import Var, affine, factors, from_atom, is_symbolic
from assay.core.lang import Program, T
from assay.core.operators.views import reindexed
from assay.core.sizes import hint


@dataclass(frozen=True)
class Layout:
    """Element i... of the view is element offset + sum strides_k * i_k of its source's memory, counted from its first element."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides in elements."""
    strides: list[int] = []
    step = 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


def is_contiguous(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether the elements lie row-major without gaps (axes of size 1 do not matter)."""
    step = 1
    for n, s in zip(reversed(shape), reversed(strides), strict=True):
        if s is not step and n != 1 and s != step:  # the first spares a decision about n
            return 0 in shape
        step *= n
    return True


def overlaps(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether two elements share an address.

    Exact: they do not when each stride exceeds what all smaller ones reach together; otherwise the addresses are counted.
    """
    if 0 in shape or all(a is b for a, b in zip(strides, contiguous_strides(shape), strict=True)):
        return False
    reach, nested = 0, True
    axes = sorted(((abs(s), n) for n, s in zip(shape, strides, strict=True) if n > 1), key=lambda t: (hint(t[0]), hint(t[1])))
    for s, n in axes:
        nested = nested and s > reach
        reach += (n - 1) * s
    if nested or any(s == 0 for s, _ in axes):
        return not nested
    addresses = np.zeros((), np.int64)
    for s, n in axes:
        addresses = np.add.outer(addresses, np.arange(n) * s)
    return len(np.unique(addresses)) < math.prod(shape)


_layouts: dict[tuple[Program, tuple[int, ...]], tuple[Layout | None, ...]] = {}


def layouts(program: Program, strides: tuple[int, ...]) -> tuple[Layout | None, ...]:
    """The layout of each output of a view's program over its first input with these strides; None: it needs a copy."""
    key = (program, strides)
    assumed = sizes.current()
    known = _layouts if assumed is None else assumed.memory(layouts)  # with sizes, they hold under guards
    found = known.get(key)
    if found is None:
        found = known[key] = tuple(_layout(t, program.inputs[0], strides) for t in program.outputs)
    return found


def _layout(t: T, source: T, strides: tuple[int, ...]) -> Layout | None:
    if t is source:
        return Layout(t.shape, strides, 0)
    if 0 in t.shape:
        return Layout(t.shape, contiguous_strides(t.shape), 0)
    body = t.body if t.kind == "let" else None
    if body is not None and body.op == "stop":  # the same element, for derivatives a constant
        body = body.args[0]
    if body is None or body.op != "load" or body.attr[0] is not source:
        return None
    address = affine(zip(strides, body.attr[1], strict=True))
    steps = list(contiguous_strides(t.shape))
    for axis, n in enumerate(t.shape):
        if is_symbolic(n) or n > 1:  # the step of an axis of one element does not matter
            steps[axis] = 0
    offset: Any = address.c
    for atom, k in address.terms:
        variables = [a for a in factors(atom) if not from_atom(a).is_extent]
        if len(variables) > 1 or any(not isinstance(a, Var) for a in variables):
            if t is reindexed(source, t.shape) and is_contiguous(source.shape, strides):  # digits to sizes that nothing ties
                return Layout(t.shape, contiguous_strides(t.shape), 0)
            return None
        step = math.prod([from_atom(a) for a in factors(atom) if from_atom(a).is_extent], start=k)
        for v in variables:
            steps[v.level] = steps[v.level] + step if steps[v.level] else step  # type: ignore[union-attr]
        if not variables:
            offset = offset + step
    return Layout(t.shape, tuple(steps), offset)


class _Span:
    """The bytes [start, start + size) that `owner` keeps alive, as numpy's array interface."""

    def __init__(self, owner: np.ndarray, start: int, size: int) -> None:
        self.owner = owner
        self.__array_interface__: dict[str, Any] = {
            "version": 3, "typestr": "|u1", "shape": (size,), "data": (start, not owner.flags.writeable),
        }  # fmt: skip


def memory(array: np.ndarray) -> tuple[np.ndarray, int]:
    """(bytes that contain every element of `array`, u8[n]; offset of its first element in them)."""
    if array.flags.c_contiguous:
        return array.reshape(-1).view(np.uint8), 0
    low, high = np.lib.array_utils.byte_bounds(array)
    return np.asarray(_Span(array, low, high - low)), array.__array_interface__["data"][0] - low


def strided(source: np.ndarray, layout: Layout) -> np.ndarray:
    """The array with this layout over the memory of `source`."""
    if 0 in layout.shape:
        return np.empty(layout.shape, source.dtype)
    data, start = memory(source)
    size = source.itemsize
    strides = tuple([s * size for s in layout.strides])
    return np.ndarray(layout.shape, source.dtype, data, start + layout.offset * size, strides)
