"""Processes that hunt mutants (fork.py), asked from here."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Self

from assay.backends.build import directory
from assay.backends.schedule.machine import machine
from assay.core.errors import UserError
from assay.fuzz.mutants.hunt import Outcome
from assay.fuzz.mutants.mutant import Mutant

SECONDS = 300.0  # of processor time for one check of a mutant where it is not known how long it takes without one
SLOWER, LEAST = 10, 60.0  # a check that takes so many times what it takes without a mutant, and so many seconds, hangs
HANG = (signal.SIGPROF, signal.SIGALRM)


class Hunters:
    """`jobs` such processes with one build cache, and how they are asked; threads share them.

    Every mutant is hunted with up to `programs` random programs, and with the cases of `files`.
    """

    def __init__(self, programs: int, files: Sequence[Path] = (), *, jobs: int = 1) -> None:
        self._work = {"programs": programs, "files": list(map(str, files))}
        self._usual: dict[str, float] = {}
        self._stack = ExitStack()
        self._idle: SimpleQueue[subprocess.Popen[str]] = SimpleQueue()
        cache = self._stack.enter_context(tempfile.TemporaryDirectory())
        _give_machine(Path(cache))
        environment = {**os.environ, "ASSAY_CACHE": cache, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        for _ in range(jobs):
            process = subprocess.Popen([sys.executable, "-m", "assay.fuzz.mutants.fork"], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, text=True, env=environment)  # fmt: skip
            self._stack.callback(_end, process)
            self._idle.put(process)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()

    def control(self) -> tuple[int | str, ...]:
        """The programs that are judged wrong without a mutant (see hunt.control).

        How long each check takes without a mutant is the measure of what hangs.
        """
        found = self._ask({"name": "", "known": [], "seconds": 24 * 3600, "limits": {}})
        self._usual = found["usual"]
        return tuple(found["control"])

    def find(self, mutant: Mutant, known: Sequence[int | str] = (), *, seconds: float | None = None) -> Outcome:
        """The outcome of a mutant; one whose process dies is caught, and so is one that does not end.

        `seconds` is how long a check may take; by default it depends on how long it takes without a mutant.
        """
        limits = {part: LEAST + SLOWER * usual for part, usual in self._usual.items()} if seconds is None else {}
        seconds = SECONDS if seconds is None else seconds
        found = self._ask({"name": mutant.name, "known": list(known), "seconds": seconds, "limits": limits})
        if "died" in found:
            hangs, at = found["died"] in HANG, found["at"]
            by = "hang" if hangs else "crash"
            how = f"the process died of {signal.Signals(found['died']).name} when {at} was looked at"
            if hangs:
                usual = f"; without a mutant it takes {self._usual[at]:.0f}" if at in self._usual else ""
                how += f": its limit is {limits.get(at, seconds):.0f} s of processor time{usual}"
            return Outcome(mutant.name, by, found["at"], text=how)
        return Outcome(**found | {"tolerated": tuple(found["tolerated"])})

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        process = self._idle.get()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(request | self._work) + "\n")
        process.stdin.flush()
        found = json.loads(process.stdout.readline() or f'{{"died": {int(signal.SIGTERM)}, "at": ""}}')
        self._idle.put(process)
        if "raised" in found:
            raise UserError(f"the hunt of {request['name'] or 'no mutant'!r} could not be run: {found['raised']}")
        if found.get("died") in (signal.SIGTERM, signal.SIGINT):
            raise UserError("the hunt was ended by a signal from outside; what was found before is kept")
        return found


def _give_machine(cache: Path) -> None:
    """The speeds of this machine, so that they are not measured anew."""
    machine()
    (cache / "cpp").mkdir()
    for file in directory().glob("machine-*.json"):
        shutil.copy(file, cache / "cpp")


def _end(process: subprocess.Popen[str]) -> None:
    with process:  # closes its pipes and waits
        process.terminate()
