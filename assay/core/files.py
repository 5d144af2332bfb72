"""Files that are read by others: whole, or not there."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

UNFINISHED = "building-"  # begins the name of a file that is being written, or that a killed process has left


def write_whole(path: Path, text: str) -> None:
    """Write the file, in UTF-8, at once or not at all: beside `path`, then renamed.  Its folder is made if there is none.

    Raises OSError where it cannot be written; `path` is then what it was, and nothing lies beside it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=UNFINISHED, suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)
