"""Checkpoints: parts of a function of which only the arguments are kept for the backward (section 5.8).

    y = assay.checkpoint(f, x)                            f(x); the backward computes what it needs of f again
    y = assay.checkpoint_sequential([f, g, h, ...], 3, x)     the functions one after the other, in three such parts

A part is captured like a compiled function, and partitioned with nothing saved.  So tensors that it finds in globals and
attributes have their gradients, random numbers are drawn again as they were, gradients have the bits of f without a
checkpoint, and they can be differentiated again.  Inside a compiled function a checkpoint is f: there memory_budget decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from assay.compiler import Compiled
from assay.core.errors import UserError
from assay.partition.choose import LEAST
from assay.partition.schedule import growing, uniform

_parts: WeakKeyDictionary[Callable[..., Any], Compiled] = WeakKeyDictionary()
"""The captured parts of functions that are called more than once."""


def checkpoint(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """f(*args, **kwargs); of what it computes nothing is kept for the backward, which computes it again.

    Raises UserError at the user's line where f asks for the elements of a tensor: it is captured.
    """
    if not callable(f):
        raise UserError(f"checkpoint() needs a function, not {type(f).__name__}")
    try:
        part = _parts.get(f)
        if part is None:
            part = _parts[f] = _captured(f)
    except TypeError:  # a function that cannot be hashed, or not be referred to weakly
        part = _captured(f)
    return part(*args, **kwargs)


def _captured(f: Callable[..., Any]) -> Compiled:
    def call(*args: Any, **kwargs: Any) -> Any:
        return f(*args, **kwargs)

    call.__name__ = getattr(f, "__name__", type(f).__name__)
    return Compiled(call, backend="reference", budget=LEAST)


def checkpoint_sequential(functions: Sequence[Callable[[Any], Any]], segments: int | None, x: Any) -> Any:
    """functions[-1](... functions[0](x)) in segments of which only the first state is kept; the last segment is kept whole.

    With `segments` equal ones the states held are at most segments + l/segments (theorem 5.3).  None: segments that grow by a
    step from the last to the first, which holds fewest, about sqrt(2 l), each step computed at most twice.
    """
    fs = list(functions)
    if not fs:
        return x
    lengths = growing(len(fs)) if segments is None else uniform(len(fs), segments)
    at = 0
    for n in lengths[:-1]:
        x = checkpoint(_Run(tuple(fs[at : at + n])), x)
        at += n
    return _Run(tuple(fs[at:]))(x)


class _Run:
    """The functions one after the other."""

    def __init__(self, functions: tuple[Callable[[Any], Any], ...]) -> None:
        self.functions = functions
        self.__name__ = "segment"

    def __call__(self, x: Any) -> Any:
        for f in self.functions:
            x = f(x)
        return x
