"""A mutant: one small change of Assay's own source, such as a person could make, and how a process is made to run it.

The change is of the text: `old` stands exactly once in `file`, `new` takes its place.  It is planted before the module is
imported, so that every user of the module, every table and every default argument sees it; nothing on disk changes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

PACKAGE = Path(__file__).parent.parent.parent


@dataclass(frozen=True)
class Mutant:
    """`file`, below the package's folder, has `new` for `old`.

    `part`  what is broken, which is what must be named when it is caught: the name of a pass, "lower", "schedule", "cpp",
            "index" (the simplifier), "intervals", "prover", "validator", "operators"; "a|b" where either may show it first
    """

    name: str
    part: str
    file: str
    old: str
    new: str

    @property
    def path(self) -> Path:
        """The file on disk."""
        return PACKAGE / self.file

    @property
    def text(self) -> str:
        """The changed text of the file.  Raises ValueError unless `old` stands in it exactly once."""
        text = self.path.read_text(encoding="utf-8")
        if (found := text.count(self.old)) != 1:
            raise ValueError(f"mutant {self.name!r}: {self.old!r} stands {found} times in {self.file}; allowed: once")
        return text.replace(self.old, self.new)


def plant(mutant: Mutant) -> None:
    """This process runs the mutant.  Raises ValueError where the module has been imported already, or `old` is stale."""
    text = mutant.text
    if mutant.path.suffix != ".py":
        _plant_text(mutant.path, text)
        return
    parts = ("assay", *Path(mutant.file).with_suffix("").parts)
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    if name in sys.modules:
        raise ValueError(f"{name} has been imported already; a mutant is planted before")
    sys.meta_path.insert(0, _Finder(name, text))


class _Loader(SourceFileLoader):
    """Loads the changed text, from no byte code and to no byte code."""

    def __init__(self, name: str, path: str, text: str) -> None:
        super().__init__(name, path)
        self.changed = text.encode()

    def get_data(self, path: str) -> bytes:
        return self.changed

    def path_stats(self, path: str) -> Any:
        raise OSError("no byte code of changed text")


class _Finder(MetaPathFinder):
    def __init__(self, name: str, text: str) -> None:
        self.name, self.changed = name, text

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname != self.name:
            return None
        spec = PathFinder.find_spec(fullname, path)
        if spec is not None and spec.origin is not None:
            spec.loader = _Loader(fullname, spec.origin, self.changed)
        return spec


def _plant_text(path: Path, text: str) -> None:
    """A file that is no module is read with Path.read_text."""
    read = Path.read_text

    def read_text(self: Path, *args: Any, **kwargs: Any) -> str:
        return text if self == path else read(self, *args, **kwargs)

    Path.read_text = read_text  # type: ignore[method-assign]
