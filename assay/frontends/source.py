"""The user's own line: the nearest frame that is neither Assay's nor of a library that called Assay."""

from __future__ import annotations

import linecache
import os
import re
import sys
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import numpy as np

from assay.core.errors import Unsupported, UserError

P = ParamSpec("P")
R = TypeVar("R")
PLACE = re.compile(r".+:\d+:( .*)?\n")
"""How a message begins that says where it happened."""


def _folder(file: str) -> str:
    return os.path.dirname(os.path.abspath(file)) + os.sep


PACKAGE = os.path.dirname(_folder(__file__)[:-1]) + os.sep
COMMANDS = PACKAGE + "cli" + os.sep
NUMPY = _folder(np.__file__)
STANDARD = _folder(os.__file__)


def _is_users(file: str) -> bool:
    """Whether a frame of this file is the user's: np.sum(x) and copy.copy(x) happen where they are called."""
    if file.startswith((PACKAGE, NUMPY, "<frozen")):
        return False
    return not file.startswith(STANDARD) or "-packages" in file


def user_frame() -> tuple[str, int] | None:
    """(file, line) of the innermost frame that is the user's, or None: what calls a command of Assay is not."""
    frame = sys._getframe(1)
    while frame is not None and not (file := frame.f_code.co_filename).startswith(COMMANDS):
        if _is_users(file):
            return file, frame.f_lineno
        frame = frame.f_back  # type: ignore[assignment]
    return None


def numpy_function() -> str:
    """The name of the function of numpy that the user called and that called Assay, or ""."""
    frame, name = sys._getframe(1), ""
    while frame is not None and not _is_users(file := frame.f_code.co_filename):
        if file.startswith(NUMPY):
            name = frame.f_code.co_name
        frame = frame.f_back  # type: ignore[assignment]
    return name


def where() -> str:
    """ "file:line" of the user's line, or ""."""
    found = user_frame()
    return f"{found[0]}:{found[1]}" if found else ""


def quoted() -> str:
    """The user's line as the head of a message: file, line and its text."""
    found = where()
    return f"{quoted_line(found)}\n" if found else ""


def quoted_line(place: str) -> str:
    """ "file:line" with the text of that line."""
    file, _, line = place.rpartition(":")
    text = linecache.getline(file, int(line)).strip() if line.isdigit() else ""
    return f"{place}: {text}" if text else f"{place}:"


def located(error: UserError | Unsupported) -> UserError | Unsupported:
    """The error with the user's line at the head of its message, where it has none yet; its class stays."""
    text = str(error)
    if PLACE.match(text) or not (head := quoted()):
        return error
    made = type(error)(f"{head}  {text}")
    made.__dict__.update(error.__dict__)  # its notes, for one
    return made


def at_the_users_line(f: Callable[P, R]) -> Callable[P, R]:
    """The function with its errors at the user's line."""

    @wraps(f)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return f(*args, **kwargs)
        except (UserError, Unsupported) as error:
            raise located(error) from None

    return call
