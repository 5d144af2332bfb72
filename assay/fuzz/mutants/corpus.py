"""Judging the core programs of a corpus, whatever they were made from: by proof, then as they are run, one C++ file for all."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from assay.backends.cpp import compile_many
from assay.core.lang import Program, program
from assay.examine import draw_many, schedule_layers, stage_layers
from assay.fuzz.campaign import QUICK
from assay.fuzz.cases import read_case
from assay.fuzz.mutants.proofs import fault
from assay.fuzz.mutants.tolerance import Shown
from assay.fuzz.oracle import scheduled
from assay.semantics.failure import RequireError
from assay.transforms.pipeline import Stage, optimise
from assay.verify.layered import Arrays, Layer, Report, compare

INPUTS = 5  # drawn for a program whose file has none; on the last one checks may fail


def prepare(file: Path, schedule: int | None) -> tuple[Shown, str]:
    """The program of a case and what its passes make of it; `stage: what is not proved`, or nothing."""
    case = read_case(file)
    inputs = case.inputs[:2] or draw_many(case.program, INPUTS, 0)
    seen: list[Stage] = []
    try:
        final = optimise(case.program, observe=seen.append)[-1].program
        return Shown(case.program, final, schedule, inputs), fault(seen, schedule)
    except Exception:  # the comparison will say at which stage
        return Shown(case.program, seen[-1].program if seen else case.program, schedule, inputs), ""


def compared(shown: Sequence[Shown]) -> list[Report | str]:
    """Every stage of each program against its meaning; `stage: error` where one raises."""
    chosen: list[Any] = [_or_error("schedule", lambda x=x: scheduled(x.final, x.schedule)) for x in shown]
    right = [c for c in chosen if not isinstance(c, str)]
    made = _or_error("emit", lambda: _built(right))
    if isinstance(made, str):  # which one is it?
        made = [_or_error("emit", lambda c=c: _built([c])[0]) for c in right]
    left = iter(made)
    return [_compared(x, c, next(left) if not isinstance(c, str) else c) for x, c in zip(shown, chosen, strict=True)]


def _built(chosen: Sequence[Any]) -> list[Any]:
    return compile_many([p for p, _ in chosen], plans=[plan for _, plan in chosen], flags=QUICK)


def _compared(x: Shown, chosen: Any, executable: Any) -> Report | str:
    if isinstance(executable, str):
        return executable
    stages = _or_error("optimise", lambda: _stages(x.source))
    if isinstance(stages, str):
        return stages
    layers = [*stage_layers(stages), *schedule_layers(chosen[0], lambda: executable.links[-1]),
              Layer("cpp", lambda xs: list(executable(xs)))]  # fmt: skip
    report = _or_error("run", lambda: compare(x.source, layers, x.inputs, shrink=False))
    if isinstance(report, Report) and report.agrees and _shares(executable, x.inputs):
        return "cpp: results share memory"
    return report


def _shares(executable: Any, inputs: Sequence[Arrays]) -> bool:
    """Whether some result is in the memory of another one, or of an input: whoever writes to it changes both."""
    for xs in inputs:
        try:
            arrays = [*xs, *executable(xs)]
        except RequireError:
            continue
        if any(np.may_share_memory(a, b) for a, b in itertools.combinations(arrays, 2)):
            return True
    return False


def _or_error(stage: str, f: Any) -> Any:
    try:
        return f()
    except Exception as error:
        return f"{stage}: {type(error).__name__}: {error}"


def judged(shown: Shown) -> tuple[str, str, str]:
    """(check, stage, what it says) of one program; ("", "", "") where nothing is wrong."""
    error = _or_error("optimise", lambda: fault(_stages(shown.source), shown.schedule))
    if error and not error.startswith("optimise"):
        return "proof", error.partition(":")[0], error
    (report,) = compared([shown])
    if isinstance(report, str):
        return "comparison", report.partition(":")[0], report
    wrong = next((s.name for s in report.stages if not s.verdict.ok), "")
    return ("comparison", wrong, str(report.witness)) if wrong else ("", "", "")


def smaller(shown: Shown, by: str, stage: str) -> Shown:
    """The program with one result, where the same check says the same of it."""
    p = shown.source
    for t in p.outputs if len(p.outputs) > 1 else ():
        source = program(p.inputs, [t], p.checks, p.name)
        stages = _or_error("optimise", lambda source=source: _stages(source))
        made = Shown(source, source if isinstance(stages, str) else stages[-1].program, shown.schedule, shown.inputs)
        if judged(made)[:2] == (by, stage):
            return made
    return shown


def _stages(source: Program) -> list[Stage]:
    seen: list[Stage] = []
    optimise(source, observe=seen.append)
    return seen
