"""The default floating-point environment: rounding to nearest even, subnormals kept.

Other code in the process may have changed it in this thread (a library built with -ffast-math, torch.set_flush_denormal,
fesetround); numpy and Python's own conversions would follow it.  Machine code sets its own (backends/pool.cpp).
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache
from typing import Any

_DEFAULT = ctypes.c_void_p(-1)  # FE_DFL_ENV of glibc and musl
_BYTES = 64  # room for a fenv_t


@cache
def _functions() -> tuple[Callable[..., Any], Callable[..., Any]] | None:
    """(fegetenv, fesetenv) of the C library; None where FE_DFL_ENV is not known."""
    if not sys.platform.startswith("linux"):
        return None
    for name in ("libm.so.6", None):
        try:
            library = ctypes.CDLL(name)
            return library.fegetenv, library.fesetenv
        except (OSError, AttributeError):
            continue
    return None


@contextmanager
def ieee() -> Generator[None, None, None]:
    """The block runs in the default environment; what was set before is set again after it."""
    functions = _functions()
    if functions is None:
        yield
        return
    get, set_ = functions
    old = ctypes.create_string_buffer(_BYTES)
    get(old)
    set_(_DEFAULT)
    try:
        yield
    finally:
        set_(old)


__all__ = ["ieee"]
