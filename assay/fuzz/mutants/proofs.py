"""Judging programs by proof alone: nothing is compiled or run but the function itself, to capture it."""

from __future__ import annotations

from collections.abc import Sequence

from assay.backends.build import FLAGS
from assay.backends.cpp import scheduled
from assay.backends.schedule import choose
from assay.backends.target import host
from assay.core.errors import Unsupported
from assay.examine import examine
from assay.fuzz.oracle import Judged
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
                 ends: bool = False) -> list[Judged]:  # fmt: skip
        return [_judged(r, tuple(xs)) for r, xs in zip(recipes, inputs, strict=True)]


def _judged(recipe: Recipe, inputs: tuple[Arrays, ...]) -> Judged:
    try:
        stages = examine(recipe, tuple(tensors(inputs[0]))).stages
        error = _fault(stages)
    except Unsupported as what:
        return Judged(recipe, inputs, None, f"capture: {what}", unsupported=True)
    except Exception:  # the comparison will say at which stage
        return Judged(recipe, inputs, Report(()))
    return Judged(recipe, inputs, None, error) if error else Judged(recipe, inputs, Report(()))


def _fault(stages: Sequence[Stage]) -> str:
    """`stage: what is not proved`, or nothing."""
    programs = [(s.name, s.program) for s in stages]
    final, plan = programs[-1][1], None
    if all(t.size for t in final.tensors):
        chosen, plan = choose(final, host())
        programs.append(("schedule", chosen))
    for (_, before), (name, after) in zip((programs[0], *programs), programs, strict=False):
        found = validate(before, after)
        if not found.proved:
            return f"{name}: {found}"
        owed = bounds.prove(after)
        if not owed.verdict.ok:
            return f"{name}: {owed.verdict}"
    nests = prove_schedule(scheduled(programs[-1][1], plan)) if plan is not None else None
    return f"nest: {nests}" if nests is not None and not nests.proved else ""
