"""The native part of the runtime: a pool of threads, and the call that binds numpy arrays and runs a program.

Compiled once a machine by build.py.  A kernel is `f(P, lo, hi)`; `parallel` divides its units evenly and statically, so
which thread computes what depends on nothing but the number of threads, and no result depends on that.  Workers spin
for a few microseconds, then sleep in a futex.  A second caller, while the pool is busy, runs its kernel alone.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from pathlib import Path
from typing import NamedTuple

from assay.backends.build import build


class Native(NamedTuple):
    """Functions of the pool: `call` holds the GIL unless told to release it, `bound` releases it."""

    call: ctypes._CFuncPtr  # type: ignore[name-defined]
    bound: ctypes._CFuncPtr  # type: ignore[name-defined]
    parallel: int


@cache
def native() -> Native:
    """The compiled pool."""
    library = build(Path(__file__).with_name("pool.cpp").read_text(encoding="utf-8")).library
    held = ctypes.PyDLL(library._name)
    call, bound = held.call, library.bound
    pointer, number = ctypes.c_void_p, ctypes.c_long
    call.argtypes, call.restype = [ctypes.py_object, pointer], number
    bound.argtypes, bound.restype = [pointer, pointer, number], number
    return Native(call, bound, ctypes.cast(library.parallel, pointer).value or 0)


def available() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
