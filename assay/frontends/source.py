"""The user's own line: the nearest frame outside the package."""

from __future__ import annotations

import linecache
import os
import sys

from assay.core.errors import OutOfBounds, UnknownName, Unsupported, UserError

LOCATED = (UserError, OutOfBounds, UnknownName, Unsupported)
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def user_frame() -> tuple[str, int] | None:
    """(file, line) of the innermost frame that is not Assay's, or None."""
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(PACKAGE) and not file.startswith("<frozen"):
            return file, frame.f_lineno
        frame = frame.f_back  # type: ignore[assignment]
    return None


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
