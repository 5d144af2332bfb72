"""Is a random program treated right?  Every stage of it against its meaning, many programs to one C++ file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from assay.backends.build import FLAGS
from assay.core.errors import NoView, Unsupported
from assay.core.lang import Program, input
from assay.core.operators import samples
from assay.examine import Examined, schedule_layers, source_layers, stage_layers
from assay.frontends.capture import capture
from assay.fuzz.recipe import Recipe, tensors
from assay.semantics.inputs import HUGE, KINDS, draw
from assay.transforms.lower import lower
from assay.transforms.pipeline import EXACT, optimise
from assay.verify.layered import Arrays, Layer, Report, compare, compare_runs

if TYPE_CHECKING:
    from assay.backends.plan import Plan

BUILDING = -1  # in the place of a program's number: the build of all
Tell: TypeAlias = Callable[..., None]  # tell(kind, number of the program or BUILDING, what)


@dataclass(frozen=True)
class Judged:
    """A recipe, the inputs it was run on, and what came out: a report, or the error that a stage raised.

    `schedule` is the number of its plan (fuzz/schedules.py); None: the plan was chosen.
    """

    recipe: Recipe
    inputs: tuple[Arrays, ...]
    report: Report | None
    error: str = ""
    unsupported: bool = False
    schedule: int | None = None

    @property
    def ok(self) -> bool:
        return self.report is not None and self.report.agrees

    @property
    def stage(self) -> str:
        """The first stage that is wrong."""
        if self.report is None:
            return self.error.partition(":")[0]
        return next((s.name for s in self.report.stages if not s.verdict.ok), "")


@dataclass
class _Prepared:
    recipe: Recipe
    inputs: list[Arrays]
    schedule: int | None = None
    examined: Examined | None = None
    error: str = ""
    unsupported: bool = False
    backend: list[Layer] = field(default_factory=list)


def draw_arrays(recipe: Recipe, kind: str, rng: np.random.Generator) -> Arrays:
    """Inputs of the recipe: float ones of this kind, bounded ones in their range (HUGE: up to 2 outside, so that checks fail)."""
    arrays: Arrays = []
    for i in recipe.inputs:
        if i.lo is not None and i.hi is not None and i.dtype.is_integer and kind == HUGE:
            arrays.append(samples.draw(replace(i, lo=i.lo - 2, hi=i.hi + 2), rng))
        elif i.lo is not None or not i.dtype.is_float:
            arrays.append(samples.draw(i, rng))
        else:
            arrays.append(draw(input("x", i.shape, i.dtype), kind, rng))
    return arrays


def draw_many_arrays(recipes: Sequence[Recipe], seed: int, inputs: int = 2) -> list[list[Arrays]]:
    """`inputs` inputs for each recipe, drawn with the seed, of kinds in rotation."""
    given: list[list[Arrays]] = []
    for k, recipe in enumerate(recipes):
        rng = np.random.default_rng([seed, k])
        given.append([draw_arrays(recipe, KINDS[(seed + k + q) % len(KINDS)], rng) for q in range(inputs)])
    return given


def _say_nothing(kind: str, at: int, what: Any = None) -> None:
    """Nobody listens."""


def judge_on(recipes: Sequence[Recipe], inputs: Sequence[Sequence[Arrays]], *, backend: str = "cpp",
             flags: tuple[str, ...] = FLAGS, thorough: bool = False, ends: bool = False,
             schedules: Sequence[int | None] | None = None, tell: Tell = _say_nothing) -> list[Judged]:  # fmt: skip
    """The verdict on each recipe on its inputs.  With "cpp", one translation unit for all, built with `flags`.

    All stages run on the first input, the first and the last stage on all (`thorough`: all stages on all; `ends`: the
    first and the last stage only, and all on all where these two differ).
    A recipe to which `schedules` gives a number has the plan that is drawn from it (fuzz/schedules.py) instead of the best one.
    `tell("doing", k)` is called before anything is done with recipe k (BUILDING: before the build of all), and
    `tell("judged", k, verdict)` with its verdict.
    """
    prepared: list[_Prepared] = []
    for k, (r, xs, number) in enumerate(zip(recipes, inputs, schedules or [None] * len(recipes), strict=True)):
        tell("doing", k)
        prepared.append(_prepare(r, list(xs), number))
    if backend == "cpp":
        _emit(prepared, flags, tell)
    judged: list[Judged] = []
    for k, p in enumerate(prepared):
        tell("doing", k)
        judged.append(_judged(p, thorough=thorough, ends_only=ends))
        tell("judged", k, judged[-1])
    return judged


def _prepare(recipe: Recipe, inputs: list[Arrays], schedule: int | None = None) -> _Prepared:
    made = _Prepared(recipe, inputs, schedule)
    args, seen, stage = tuple(tensors(inputs[0])), [], "capture"
    try:
        captured = capture(recipe, args, {})
        stage = "lower"
        program = lower(captured.graph)
        stage = ""
        made.examined = Examined(recipe, (args, {}), captured, tuple(optimise(program, observe=seen.append)))
    except (Unsupported, NoView) as error:  # a program was drawn that is none
        made.error, made.unsupported = f"{stage}: {error}", True
    except Exception as error:
        made.error = f"{stage or EXACT[len(seen) - 1].name}: {type(error).__name__}: {error}"
    return made


def scheduled(final: Program, schedule: int | None = None) -> tuple[Program, Plan | None]:
    """The program that is emitted for `final`, and its plan: the best one, or the one drawn from the number."""
    from assay.backends.schedule import choose
    from assay.backends.target import host
    from assay.fuzz.schedules import random_plan

    if not all(t.size for t in final.tensors):
        return final, None
    return choose(final, host()) if schedule is None else random_plan(final, schedule)


def _emit(prepared: list[_Prepared], flags: tuple[str, ...], tell: Tell) -> None:
    """Give each program its machine code; a program that breaks the file is found by compiling each alone."""
    from assay.backends import cpp

    todo: list[tuple[_Prepared, Any, Any]] = []
    for k, p in enumerate(prepared):
        if p.examined is None:
            continue
        tell("doing", k)
        try:
            todo.append((p, *scheduled(p.examined.final, p.schedule)))
        except Exception as error:
            p.error = f"schedule: {type(error).__name__}: {error}"
    tell("doing", BUILDING)
    _emit_together(cpp, todo, flags)


def _emit_together(cpp: Any, todo: list[tuple[_Prepared, Any, Any]], flags: tuple[str, ...]) -> None:
    if not todo:
        return
    try:
        made = cpp.compile_many([program for _, program, _ in todo], plans=[plan for _, _, plan in todo], flags=flags)
    except Unsupported:
        raise
    except Exception as error:
        if len(todo) == 1:
            todo[0][0].error = f"emit: {type(error).__name__}: {error}"
            return
        half = len(todo) // 2
        _emit_together(cpp, todo[:half], flags)
        _emit_together(cpp, todo[half:], flags)
        return
    for (p, program, _), executable in zip(todo, made, strict=True):
        p.backend = [
            *schedule_layers(program, lambda e=executable: e.links[-1]),
            Layer("cpp", lambda xs, e=executable: list(e(xs))),
        ]


def _judged(p: _Prepared, *, thorough: bool, ends_only: bool) -> Judged:
    """The report of all stages; the error of the schedule or the emitter only where every stage before agrees."""
    xs = tuple(p.inputs)
    failed = Judged(p.recipe, xs, None, p.error, p.unsupported, p.schedule)
    if p.examined is None:
        return failed
    source = source_layers(p.examined)
    layers = [*source, *stage_layers(p.examined.stages), *p.backend]
    ends = [] if thorough else [*source[:1], *p.backend[-1:]]
    try:
        if ends_only and p.backend and (same := compare_runs(p.examined.program, ends, xs)) is not None:
            return Judged(p.recipe, xs, same, schedule=p.schedule)
        report = _compared(p.examined.program, layers, ends, xs)
    except Exception as error:  # whatever it is: no stage may raise what the program does not mean
        return replace(failed, error=f"run: {type(error).__name__}: {error}", unsupported=False)
    return failed if p.error and report.agrees else Judged(p.recipe, xs, report, schedule=p.schedule)


def _compared(program: Program, layers: Sequence[Layer], ends: Sequence[Layer], inputs: Sequence[Arrays]) -> Report:
    """Every layer on the first input and the `ends` on all; every layer on all where one differs, or without `ends`."""
    report = compare(program, layers, inputs[:1], shrink=False)
    if ends and report.agrees and all(compare(program, ends, [xs], shrink=False).agrees for xs in inputs[1:]):
        return report
    return compare(program, layers, inputs, shrink=False)
