"""Compiled programs on disk: a program that was compiled before is loaded without proof, search, emission or g++.

A record is kept beside the builds, under a hash of the program's text, of Assay's own files, the compiler and the
processor.  It holds the scheduled program as text and where each of its tensors lives; it was written after the program was
proved.  A record that is damaged or of another program, or whose library is gone, is not used.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from assay.backends import build
from assay.backends.plan import Plan
from assay.backends.runtime import Executable, Layout, Step
from assay.backends.target import host
from assay.core.files import write_whole
from assay.core.lang import Program, T
from assay.core.parser import parse
from assay.core.text import lines, show
from assay.verify.link import Link

PACKAGE = Path(__file__).parent.parent.parent


@cache
def fingerprint() -> str:
    """What a record depends on besides its program: the files of this package, the compiler, the flags, the processor."""
    files = sorted(p for p in PACKAGE.rglob("*") if p.suffix in (".py", ".h", ".cpp"))
    compiler = shutil.which(build.chosen())
    states = [(str(p), s.st_size, s.st_mtime_ns) for p in [*files, *([Path(compiler)] if compiler else [])] for s in (p.stat(),)]
    return hashlib.sha256(repr((states, build.FLAGS, host().identity)).encode()).hexdigest()


def record_path(p: Program) -> Path:
    """Where the record of the program is, if there is one."""
    name = hashlib.sha256(f"{fingerprint()}\0{show(p)}".encode()).hexdigest()[:40]
    return build.directory() / f"{name}.program"


def store(path: Path, executable: Executable) -> None:
    """Write the record of `executable`; all at once or not at all (on a full disk the program is compiled again)."""
    number = _numbers(executable.program)
    layout = executable.layout
    if any(t not in number for t in layout.slots):
        return  # a kernel computes something that no output needs: nothing names it
    record = {
        "program": show(executable.program),
        "library": executable.key,
        "slots": [[number[t], k] for t, k in layout.slots.items()],
        "failures": [[number[t], k] for t, k in layout.failures.items()],
        "offsets": [[number[t], k] for t, k in layout.offsets.items()],
        "arena": layout.arena,
        "links": executable.links,
        "steps": [[s.entry, [number[t] for t in s.tensors]] for s in executable.steps],
    }
    text = json.dumps(record)
    with contextlib.suppress(OSError):
        write_whole(path, f"{_digest(path, text)}\n{text}")


def load(path: Path, threads: int, again: Callable[[], tuple[Plan, str]]) -> Executable | None:
    """The executable of a record, or None where there is no intact one.

    `again` makes the plan and the text anew, for whoever asks for them.
    """
    start = time.perf_counter()
    record = _read(path)
    if record is None:
        return None
    library = build.load(record["library"])
    if library is None:
        return None
    program = parse(record["program"])
    tensors = list(_numbers(program))

    def named(pairs: list[list[int]]) -> dict[T, int]:
        return {tensors[n]: k for n, k in pairs}

    layout = Layout(named(record["slots"]), named(record["failures"]), named(record["offsets"]), record["arena"])
    steps = [Step(entry, tuple(tensors[n] for n in numbers)) for entry, numbers in record["steps"]]
    timings = {"stored": time.perf_counter() - start}
    links = tuple(map(Link.of, record["links"]))
    return Executable(program, again, timings, steps, layout, library, threads, record["library"], lambda: links)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        digest, _, text = path.read_text(encoding="utf-8").partition("\n")
    except (OSError, UnicodeDecodeError):
        return None
    return json.loads(text) if _digest(path, text) == digest else None


def _digest(path: Path, text: str) -> str:
    return build.digest(path, text.encode()).hex()


def _numbers(p: Program) -> dict[T, int]:
    """Inputs first, then the definitions in the order of the text: the same for every parse of it."""
    defined = [t for t, _ in lines(p) if t is not None and t.kind != "input"]
    return {t: k for k, t in enumerate(dict.fromkeys([*p.inputs, *defined]))}
