"""All mutants, each in a process of its own, and the table of what caught them.

Every outcome is appended to a file as soon as it is known, so that a killed run goes on where it was; an outcome counts only
for the source it was found with.
"""

from __future__ import annotations

import hashlib
import json
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.core.errors import UserError
from assay.fuzz.mutants.faults import MUTANTS
from assay.fuzz.mutants.hunt import Outcome
from assay.fuzz.mutants.hunters import Hunters
from assay.fuzz.mutants.mutant import PACKAGE, Mutant
from assay.fuzz.mutants.tolerance import TOLERANCES
from assay.verify.verdict import NOTHING_RAN, OK


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


def source_digest(files: Sequence[Path] = ()) -> str:
    """Of every source file of the package, and of these."""
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.read_bytes())
    for path in sorted(PACKAGE.rglob("*")):
        if path.suffix in (".py", ".h", ".cpp"):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def run_score(mutants: Sequence[Mutant], programs: int, files: Sequence[Path] = (), *, record: Path, jobs: int = 1,
              progress: Callable[[Mutant, Outcome], None] | None = None) -> Score:  # fmt: skip
    """Hunt every mutant with up to `programs` programs and the cases of `files`.

    Outcomes that `record` has of this source, these files and as many programs are not found again.
    """
    key = f"{source_digest(files)}/{programs}"
    outcomes = _read(record, key)
    left = [m for m in mutants if m.name not in outcomes]
    with ExitStack() as stack:
        hunters = stack.enter_context(Hunters(programs, files, jobs=jobs)) if left else None
        known = hunters.control() if hunters is not None else ()

        def one(mutant: Mutant) -> Outcome:
            found = outcomes.get(mutant.name)
            if found is None:
                assert hunters is not None
                found = hunters.find(mutant, known)
                _append(record, key, found)
            if progress is not None:
                progress(mutant, found)
            return found

        with ThreadPoolExecutor(jobs) as pool:
            return Score(tuple(mutants), tuple(pool.map(one, mutants)))


def _read(record: Path, key: str) -> dict[str, Outcome]:
    found: dict[str, Outcome] = {}
    for line in record.read_text(encoding="utf-8").splitlines() if record.is_file() else ():
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:
            continue  # the line that a killed run was writing
        if entry["key"] == key:
            found[entry["outcome"]["name"]] = Outcome(**entry["outcome"] | {"tolerated": tuple(entry["outcome"]["tolerated"])})
    return found


def _append(record: Path, key: str, outcome: Outcome) -> None:
    record.parent.mkdir(parents=True, exist_ok=True)
    with record.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"key": key, "outcome": vars(outcome)}) + "\n")
