"""What of the arguments of a call a compiled function depends on: the key of its entry, and the same in words.

    leaf_signature(x)       of one leaf: a tensor's shape, type, and strides where they are not row-major; else its value
    dictionary_keys(x)      the order of keys, which the structure of nested arguments does not tell
    sharing(c, tensors)     which tensors share storage: part of the key of a function that changes its arguments
    describe, difference    an argument, and what is new in a call, as messages say it
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from assay.core.errors import UserError
from assay.frontends.autograd import AUTOGRAD
from assay.frontends.capture import Captured, is_tensor, leaf_state
from assay.frontends.creation import from_numpy
from assay.frontends.tensor import Tensor
from assay.frontends.value import STATE

# ------------------------------------------------------------------------------------------------ keys


def _static(x: Any) -> Any:
    """A key that is equal only for arguments that mean the same to the function: 1, 1.0 and True differ, so do +0 and -0.

    Also inside of tuples, frozen sets and the fields of dataclasses.
    """
    if isinstance(x, float | complex):
        return (type(x), struct.pack("<dd", x.real, x.imag))
    if isinstance(x, np.generic):
        return (type(x), x.tobytes())
    if isinstance(x, tuple):
        return (type(x), tuple(map(_static, x)))
    if isinstance(x, frozenset):
        return (type(x), frozenset(map(_static, x)))
    try:
        hash(x)
    except TypeError:
        raise UserError(
            f"a compiled function got an argument of type {type(x).__name__}, which is neither a tensor, nor hashable, nor a "
            "container of such; pass its tensors and numbers instead"
        ) from None
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        return (type(x), x, tuple(_static(getattr(x, f.name)) for f in dataclasses.fields(x) if f.compare))
    return (type(x), x)


def dictionary_keys(x: Any) -> Any:
    """The keys of the dictionaries in `x`, in their order, which a function can see and a structure (sorted) does not tell."""
    if isinstance(x, dict):
        return tuple([(_static(k), dictionary_keys(v)) for k, v in x.items()])
    return tuple(map(dictionary_keys, x)) if isinstance(x, tuple | list) else None


def leaf_signature(x: Any) -> Any:
    """Equal only for leaves that one entry serves: (shape, type, strides) of a tensor or array, a key of any other value."""
    if isinstance(x, Tensor):
        return x.signature
    if isinstance(x, np.ndarray):
        return from_numpy(x).signature
    return _static(x)


def array_signature(a: np.ndarray) -> tuple[Any, ...]:
    """(shape, type, strides where they are not row-major) of an array, without making a tensor of it."""
    return (a.shape, a.dtype, None if a.flags.c_contiguous else a.strides)


# ------------------------------------------------------------------------------------------------ shared storage


def independent(tensors: Sequence[Tensor]) -> bool:
    """Whether the tensors are row-major and share no storage: others are compiled for their sizes."""
    return all(t.is_contiguous() for t in tensors) and len({t.cell for t in tensors}) == len(tensors)


def sharing(captured: Captured, tensors: Sequence[Tensor]) -> Any:
    """Which arguments share storage with which, and how those that do see it."""
    cells = [t.cell for t in tensors]
    first = tuple(cells.index(c) for c in cells)
    shared = {k for k, c in enumerate(cells) if cells.count(c) > 1 or c in captured.outside}
    if not shared:
        return ()
    views = tuple((tuple(link.key for link in t.chain), t.cell.array.shape) if k in shared else () for k, t in enumerate(tensors))  # type: ignore[union-attr]
    return (first, views, tuple(c in captured.outside for c in cells))


def further(captured: Captured, tensors: Sequence[Tensor]) -> Any:
    """What else the entry of a function depends on that changes arguments (`sharing`), or asks for gradients itself."""
    found = sharing(captured, tensors) if captured.changed else ()
    if captured.leaves is None:
        return found
    values = [s.value(tensors) for s, _ in captured.leaves]
    edges = [v.meta.get(AUTOGRAD) for v in values]
    return found, AUTOGRAD in STATE.muted, tuple(map(leaf_state, values)), tuple(map(edges.index, edges))


def refuse_hidden_sharing(captured: Captured, tensors: Sequence[Tensor]) -> None:
    """Raises UserError where a changed argument shares memory with another one that is a different storage to us."""
    used = {*(t.cell for t in tensors), *captured.outside}
    for s in captured.changed:
        cell = s.storage(tensors)
        if any(other is not cell and np.may_share_memory(cell.array, other.array) for other in used):  # type: ignore[union-attr]
            raise UserError(
                "a tensor that the compiled function changes in place shares memory, through two numpy arrays, with another one "
                "that it uses; make one tensor with assay.from_numpy and pass views of it, or pass a copy"
            )


# ------------------------------------------------------------------------------------------------ in words


def describe(x: Any) -> str:
    """An argument in a message: f32[2,3], or its value."""
    if is_tensor(x):
        shape, dtype, strides = leaf_signature(x)
        text = f"{dtype.name}[{','.join(map(str, shape))}]"
        return text if strides is None else f"{text} with strides {list(strides)}"
    return repr(x)


def describe_symbolic(x: Any, shape: tuple[int, ...]) -> str:
    """An argument whose shape depends on sizes: f32[n0,2*n1]"""
    return f"{leaf_signature(x)[1].name}[{','.join(map(repr, shape))}]"


def changes(old: tuple[str, ...], new: tuple[str, ...]) -> list[str]:
    """What differs between two described calls, argument by argument."""
    if len(old) != len(new):
        return [f"{len(old)} arguments -> {len(new)}"]
    return [f"{a} -> {b.partition(': ')[2]}" for a, b in zip(old, new, strict=True) if a != b]


def difference(old: tuple[str, ...], new: tuple[str, ...]) -> str:
    """`changes` in one line, also where no description differs."""
    return "; ".join(changes(old, new)) or "the order of keys, or which arguments share storage"
