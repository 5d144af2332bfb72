"""The regression gate: deterministic facts of a corpus of cases against a committed baseline.

For each case: the verdict of every stage, how its index obligations were settled, the number of tensors, and of kernels
on a fixed model of a machine.  No times and no tolerances: a difference is a change of the compiler, to be looked at and
accepted.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.backends.build import compiler
from assay.backends.schedule import choose
from assay.backends.schedule.machine import DEFAULTS
from assay.backends.target import host
from assay.core.errors import AssayError, UserError
from assay.fuzz.cases import case_files, read_case, replay
from assay.transforms.pipeline import optimise
from assay.verify import bounds
from assay.verify.layered import Report, StageReport
from assay.verify.verdict import NOTHING_RAN, OK


@dataclass(frozen=True)
class Difference:
    """One fact that is not as in the baseline; `worse` where it must not be accepted without thought."""

    case: str
    fact: str
    before: Any
    after: Any
    worse: bool

    def __str__(self) -> str:
        what = f"{self.fact}: {self.before} -> {self.after}"
        if self.fact == "case":
            what = "not there any more" if self.before else "new"
        return f"{'WORSE' if self.worse else 'changed':7} {self.case}: {what}"


def facts(path: Path, *, backend: str = "cpp") -> dict[str, Any]:
    """The facts of one case file."""
    case = read_case(path)
    outcome = replay(case, backend=backend)
    if not isinstance(outcome, Report):
        return {"verdict": "REFUTED", "stage": outcome.stage, "error": outcome.error}
    program = optimise(case.program)[-1].program
    proof = bounds.prove(program)
    found: dict[str, Any] = {
        "verdict": str(outcome.verdict),
        "stages": {s.name: _fact(s) for s in outcome.stages},
        "obligations": dict(sorted(Counter(f"{o.kind} {o.status}" for o in proof.obligations).items())),
        "tensors": len(program.tensors),
    }
    if backend == "cpp" and all(t.size for t in program.tensors):
        found["kernels"] = len(choose(program, host(), DEFAULTS[8])[1].kernels)
    return found


def _fact(stage: StageReport) -> str:
    """The verdict of a stage.  What is scheduled, and how, depends on the machine: that it is right does not."""
    return "holds" if stage.name in ("schedule", "nest") and stage.verdict.ok else str(stage.verdict)


def collect(paths: Sequence[Path], *, backend: str = "cpp") -> dict[str, dict[str, Any]]:
    """The facts of every case, by file name.  Raises UserError for two cases of one name: one would hide the other."""
    found: dict[str, dict[str, Any]] = {}
    for path in case_files(paths):
        if path.name in found:
            raise UserError(f"two cases are called {path.name}; the baseline tells cases apart by file name, rename one")
        try:
            found[path.name] = facts(path, backend=backend)
        except AssayError as error:
            found[path.name] = {"verdict": f"{type(error).__name__}", "error": str(error).splitlines()[0]}
    return found


def differences(before: dict[str, dict[str, Any]], after: dict[str, dict[str, Any]]) -> list[Difference]:
    """What changed.  Worse: a case that is gone or refuted, a stage with a weaker verdict, a proof lost, more kernels."""
    found: list[Difference] = []
    for case in sorted(before.keys() | after.keys()):
        if case not in after or case not in before:
            found.append(Difference(case, "case", case in before, case in after, case not in after))
            continue
        old, new = _flat(before[case]), _flat(after[case])
        for fact in sorted(old.keys() | new.keys()):
            a, b = old.get(fact), new.get(fact)
            if a != b:
                found.append(Difference(case, fact, a, b, _worse(fact, a, b)))
    return found


def _flat(facts_: dict[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in facts_.items():
        if isinstance(value, dict):
            flat.update((f"{name}.{k}", v) for k, v in value.items())
        else:
            flat[name] = value
    return flat


_RANK = {"PROVED": 0, "VALIDATED": 1, "holds": 1}


def _worse(fact: str, a: Any, b: Any) -> bool:
    if fact == "verdict" or fact.startswith("stages."):
        return _RANK.get(str(b).partition("(")[0], 9) > _RANK.get(str(a).partition("(")[0], 9)
    if fact.startswith("obligations."):
        more = (b or 0) > (a or 0)
        return not more if fact.endswith("proved") else more
    return fact in ("kernels", "error") and (a is None or (b is not None and b > a))


def run_gate(paths: Sequence[Path], baseline: Path, *, accept: bool = False,
             backend: str = "cpp") -> tuple[int, list[Difference], int]:  # fmt: skip
    """(exit code, differences, number of cases).  With `accept` the baseline is rewritten and nothing fails; the differences
    are then the cases that cannot be run, which are accepted as such.

    Exit code 1 for any difference, NOTHING_RAN where there is no case.  Raises UserError where the baseline is missing
    or damaged, Unsupported where the backend needs a compiler that is not there.
    """
    if backend == "cpp":
        compiler()  # without one every case would be a difference
    after = collect(paths, backend=backend)
    if not after:
        return NOTHING_RAN, [], 0
    if accept:
        baseline.parent.mkdir(parents=True, exist_ok=True)
        baseline.write_text(json.dumps(after, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        failing = sorted((case, known["error"]) for case, known in after.items() if "error" in known)
        return OK, [Difference(case, "error", None, error, worse=True) for case, error in failing], len(after)
    if not baseline.is_file():
        raise UserError(f"no baseline {baseline}; make it with: assay gate ... --accept, and commit it")
    try:
        before = json.loads(baseline.read_text(encoding="utf-8"))
    except ValueError as error:  # not JSON, or not UTF-8
        raise UserError(f"the baseline {baseline} is not JSON: {error}; restore it, or make it again with --accept") from None
    if not isinstance(before, dict) or not all(isinstance(facts_, dict) for facts_ in before.values()):
        raise UserError(f"the baseline {baseline} is not a JSON object of cases; make it again with --accept")
    found = differences(before, after)
    return 1 if found else OK, found, len(after)
