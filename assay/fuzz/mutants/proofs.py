"""Judging programs by proof alone: nothing is compiled or run but the function itself, to capture it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from assay.backends import cpp
from assay.backends.build import FLAGS
from assay.core.errors import Unsupported
from assay.examine import examine
from assay.fuzz.oracle import Judged, scheduled
from assay.fuzz.recipe import Recipe, tensors
from assay.fuzz.worker import Judge
from assay.transforms.pipeline import Stage
from assay.verify import bounds
from assay.verify.coverage import prove_schedule
from assay.verify.layered import Arrays, Report
from assay.verify.validate import validate


class Proofs(Judge):
    """A recipe is wrong at the first stage whose program owes what does not hold, or is not proved equal to the one before."""

    def judge_on(self, recipes: Sequence[Recipe], inputs: Sequence[Sequence[Arrays]], flags: tuple[str, ...] = FLAGS, *,
                 ends: bool = False, schedules: Sequence[int | None] | None = None) -> list[Judged]:  # fmt: skip
        numbers = schedules or [None] * len(recipes)
        return [replace(_judged(r, tuple(xs), number), schedule=number)
                for r, xs, number in zip(recipes, inputs, numbers, strict=True)]  # fmt: skip


def _judged(recipe: Recipe, inputs: tuple[Arrays, ...], schedule: int | None) -> Judged:
    try:
        stages = examine(recipe, tuple(tensors(inputs[0]))).stages
        error = fault(stages, schedule)
    except Unsupported as what:
        return Judged(recipe, inputs, None, f"capture: {what}", unsupported=True)
    except Exception:  # the comparison will say at which stage
        return Judged(recipe, inputs, Report(()))
    return Judged(recipe, inputs, None, error) if error else Judged(recipe, inputs, Report(()))


def fault(stages: Sequence[Stage], schedule: int | None) -> str:
    """`stage: what is not proved`, or nothing."""
    programs = [(s.name, s.program) for s in stages]
    chosen, plan = scheduled(programs[-1][1], schedule)
    if plan is not None:
        programs.append(("schedule", chosen))
    for (_, before), (name, after) in zip((programs[0], *programs), programs, strict=False):
        found = validate(before, after)
        if not found.proved:
            return f"{name}: {found}"
        owed = bounds.prove(after)
        if not owed.verdict.ok:
            return f"{name}: {owed.verdict}"
    nests = prove_schedule(cpp.scheduled(chosen, plan)) if plan is not None else None
    return f"nest: {nests}" if nests is not None and not nests.proved else ""
