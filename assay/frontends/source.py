"""The user's own line: the nearest frame that is neither Assay's nor of a library that called Assay."""

from __future__ import annotations

import linecache
import os
import sys
from types import FrameType

import numpy as np

from assay.core.errors import OutOfBounds, UnknownName, Unsupported, UserError

LOCATED = (UserError, OutOfBounds, UnknownName, Unsupported)


def _folder(file: str) -> str:
    return os.path.dirname(os.path.abspath(file)) + os.sep


PACKAGE = os.path.dirname(_folder(__file__)[:-1]) + os.sep
NUMPY = _folder(np.__file__)
STANDARD = _folder(os.__file__)


def _is_users(file: str) -> bool:
    """Whether a frame of this file is the user's: np.sum(x) and copy.copy(x) happen where they are called."""
    if file.startswith((PACKAGE, NUMPY, "<frozen")):
        return False
    return not file.startswith(STANDARD) or "-packages" in file


def _frame() -> FrameType | None:
    frame = sys._getframe(1)
    while frame is not None and not _is_users(frame.f_code.co_filename):
        frame = frame.f_back  # type: ignore[assignment]
    return frame


def user_frame() -> tuple[str, int] | None:
    """(file, line) of the innermost frame that is the user's, or None."""
    frame = _frame()
    return None if frame is None else (frame.f_code.co_filename, frame.f_lineno)


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


def located(error: Exception) -> Exception:
    """The error with the user's line at the head of its message, where it has none yet; its class stays."""
    head, text = quoted(), str(error)
    if not head or text.startswith(head.partition("\n")[0]) or type(error) not in LOCATED:
        return error
    return type(error)(f"{head}  {text}")
