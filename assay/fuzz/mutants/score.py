"""All mutants, each in a process of its own, and the table of what caught them.

Every outcome is appended to a file as soon as it is known, so that a killed run goes on where it was; an outcome counts only
for the source it was found with.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.backends.build import directory
from assay.backends.schedule.machine import machine
from assay.core.errors import UserError
from assay.fuzz.mutants.faults import MUTANTS
from assay.fuzz.mutants.hunt import TOLERANCES, Outcome
from assay.fuzz.mutants.mutant import PACKAGE, Mutant
from assay.verify.verdict import NOTHING_RAN, OK

SECONDS = 600.0  # of one mutant, then it counts as caught: it hangs


@dataclass(frozen=True)
class Score:
    """The outcomes of `mutants`, in their order."""

    mutants: tuple[Mutant, ...]
    outcomes: tuple[Outcome, ...]

    @property
    def survivors(self) -> list[Outcome]:
        return [o for o in self.outcomes if not o.caught]

    @property
    def misnamed(self) -> list[tuple[Mutant, Outcome]]:
        """Caught, and something else was named than the part that is broken."""
        return [(m, o) for m, o in zip(self.mutants, self.outcomes, strict=True) if o.caught and not names(m, o)]

    @property
    def exit_code(self) -> int:
        return NOTHING_RAN if not self.outcomes else 1 if self.survivors else OK

    def __str__(self) -> str:
        n = len(self.outcomes)
        if not n:
            return "no mutant"
        caught = [o for o in self.outcomes if o.caught]
        sizes = [o.operators for o in caught if o.operators]
        by = Counter(o.by for o in caught)
        lines = [
            f"{len(caught)} of {n} mutants caught ({len(caught) / n:.1%}); the right part named for "
            f"{len(caught) - len(self.misnamed)} of them ({1 - len(self.misnamed) / max(1, len(caught)):.1%}); "
            f"median size after shrinking {statistics.median(sizes) if sizes else '-'} operators",
            "caught by: " + ", ".join(f"{check} {count}" for check, count in by.most_common()),
        ]
        for rule in TOLERANCES:
            seen = sum(o.caught and rule not in o.tolerated for o in self.outcomes)
            lines.append(f"the same programs and inputs judged by {rule}: {seen} of {n} ({seen / n:.1%})")
        lines += [f"survived: {o.name}" for o in self.survivors]
        lines += [f"misnamed: {m.name}: {m.part} is broken, {o.by} named {o.part}" for m, o in self.misnamed]
        return "\n".join(lines)

    def table(self) -> list[tuple[str, str, str, str, int, int]]:
        """(mutant, part, caught by, named, programs, operators) of each."""
        return [(m.name, m.part, o.by or "-", o.part or "-", o.programs, o.operators)
                for m, o in zip(self.mutants, self.outcomes, strict=True)]  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        return {
            "verdict": "REFUTED" if self.survivors else "VALIDATED" if self.outcomes else "UNKNOWN(nothing ran)",
            "exit_code": self.exit_code, "mutants": len(self.outcomes), "caught": sum(o.caught for o in self.outcomes),
            "misnamed": len(self.misnamed), "outcomes": [{**vars(o), "part_broken": m.part} for m, o in
                                                         zip(self.mutants, self.outcomes, strict=True)],
        }  # fmt: skip


def names(mutant: Mutant, outcome: Outcome) -> bool:
    """Whether what was named is the part that is broken; a module's own error names it by its file."""
    return outcome.part in mutant.part.split("|") or (outcome.by == "error" and outcome.part == mutant.file)


def chosen(pattern: Sequence[str]) -> tuple[Mutant, ...]:
    """The mutants whose name, part or file contains one of the words (all, without words).  Raises UserError for none."""
    found = tuple(m for m in MUTANTS.values() if not pattern or any(w in f"{m.name} {m.part} {m.file}" for w in pattern))
    if not found:
        raise UserError(f"no mutant has {' or '.join(map(repr, pattern))} in its name, part or file; `assay mutants --list`")
    return found


def source_digest() -> str:
    """Of every source file of the package."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*")):
        if path.suffix in (".py", ".h", ".cpp"):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def run_score(mutants: Sequence[Mutant], programs: int, *, record: Path, jobs: int = 1, seconds: float = SECONDS,
              progress: Callable[[Mutant, Outcome], None] | None = None) -> Score:  # fmt: skip
    """Hunt every mutant with up to `programs` programs; outcomes that `record` has of this source are not found again."""
    key = f"{source_digest()}/{programs}"
    outcomes = _read(record, key)
    known = run_control(programs) if any(m.name not in outcomes for m in mutants) else ()

    def one(mutant: Mutant) -> Outcome:
        if (found := outcomes.get(mutant.name)) is None:
            found = run_one(mutant, programs, known, seconds)
            _append(record, key, found)
        if progress is not None:
            progress(mutant, found)
        return found

    with ThreadPoolExecutor(jobs) as pool:
        return Score(tuple(mutants), tuple(pool.map(one, mutants)))


def run_control(programs: int) -> tuple[int, ...]:
    """The programs that are judged wrong without a mutant (see hunt.control)."""
    return tuple(json.loads(_hunting([str(programs)], None).stdout.strip().splitlines()[-1]))


def run_one(mutant: Mutant, programs: int, known: Sequence[int] = (), seconds: float = SECONDS) -> Outcome:
    """The outcome of a mutant, in a process with a build cache of its own."""
    try:
        done = _hunting([str(programs), mutant.name, *map(str, known)], seconds)
    except subprocess.TimeoutExpired:
        return Outcome(mutant.name, "hang", mutant.part, text=f"no outcome after {seconds:g} s", seconds=seconds)
    if done.returncode < 0:
        return Outcome(mutant.name, "crash", mutant.part, text=f"the process died of signal {-done.returncode}")
    return _outcome(json.loads(done.stdout.strip().splitlines()[-1]))


def _hunting(arguments: Sequence[str], seconds: float | None) -> subprocess.CompletedProcess[str]:
    """hunt.py with these arguments.  Raises UserError, with what it printed, where it fails; TimeoutExpired after `seconds`."""
    with tempfile.TemporaryDirectory() as cache:
        _give_machine(Path(cache))
        command = [sys.executable, "-m", "assay.fuzz.mutants.hunt", *arguments]
        environment = {**os.environ, "ASSAY_CACHE": cache, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=seconds, check=False)
    if done.returncode > 0:
        raise UserError(f"{' '.join(command[1:])} could not be run:\n{done.stderr.strip()[-2000:]}")
    if done.returncode in (-signal.SIGTERM, -signal.SIGINT):
        raise UserError(f"{' '.join(command[1:])} was ended by a signal from outside; what was found before is kept")
    return done


def _give_machine(cache: Path) -> None:
    """The speeds of this machine, so that not every process measures them anew."""
    machine()
    (cache / "cpp").mkdir()
    for file in directory().glob("machine-*.json"):
        shutil.copy(file, cache / "cpp")


def _outcome(data: dict[str, Any]) -> Outcome:
    values: dict[str, Any] = data | {"tolerated": tuple(data["tolerated"])}
    return Outcome(**values)


def _read(record: Path, key: str) -> dict[str, Outcome]:
    found: dict[str, Outcome] = {}
    for line in record.read_text(encoding="utf-8").splitlines() if record.is_file() else ():
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:
            continue  # the line that a killed run was writing
        if entry["key"] == key:
            found[entry["outcome"]["name"]] = _outcome(entry["outcome"])
    return found


def _append(record: Path, key: str, outcome: Outcome) -> None:
    record.parent.mkdir(parents=True, exist_ok=True)
    with record.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"key": key, "outcome": vars(outcome)}) + "\n")
