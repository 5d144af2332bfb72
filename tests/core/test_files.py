"""Files are whole or not there."""

import os
from pathlib import Path

import pytest

from assay.core.files import write_whole


def test_a_file_is_written_with_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.txt"
    for text in ("ä\n", "b\n"):
        write_whole(path, text)
        assert path.read_text(encoding="utf-8") == text
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("step", ["fdopen", "replace"])
def test_a_file_that_cannot_be_written_is_what_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    path = tmp_path / "a.txt"
    write_whole(path, "before")

    def full(handle: object, *_: object, **__: object) -> None:
        if isinstance(handle, int):
            os.close(handle)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, full)
    with pytest.raises(OSError, match="No space"):
        write_whole(path, "after")
    assert [(f.name, f.read_text()) for f in tmp_path.iterdir()] == [("a.txt", "before")]
