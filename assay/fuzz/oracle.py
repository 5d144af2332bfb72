"""Is a random program treated right?  Every stage of it against its meaning, many programs to one C++ file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from assay.core.errors import AssayError, Unsupported
from assay.core.lang import Program, input
from assay.core.operators import samples
from assay.examine import Examined, examine, source_layers, stage_layers
from assay.fuzz.recipe import Recipe, tensors
from assay.semantics.denote import run
from assay.semantics.inputs import KINDS, draw
from assay.verify.layered import Arrays, Layer, Report, compare


@dataclass(frozen=True)
class Judged:
    """A recipe, the inputs it was run on, and what came out: a report, or the error that a stage raised."""

    recipe: Recipe
    inputs: tuple[Arrays, ...]
    report: Report | None
    error: str = ""
    unsupported: bool = False

    @property
    def ok(self) -> bool:
        return self.report is not None and self.report.verdict.ok

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
    examined: Examined | None = None
    error: str = ""
    unsupported: bool = False
    backend: list[Layer] = field(default_factory=list)


def draw_arrays(recipe: Recipe, kind: str, rng: np.random.Generator) -> Arrays:
    """Inputs of the recipe: bounded ones within their range, float ones of this kind."""
    arrays: Arrays = []
    for i in recipe.inputs:
        if i.lo is not None or not i.dtype.is_float:
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


def judge_on(recipes: Sequence[Recipe], inputs: Sequence[Sequence[Arrays]], *, backend: str = "cpp") -> list[Judged]:
    """The verdict on each recipe on its inputs.  With "cpp", one translation unit for all."""
    prepared = [_prepare(r, list(xs)) for r, xs in zip(recipes, inputs, strict=True)]
    if backend == "cpp":
        _emit(prepared)
    return [_judged(p) for p in prepared]


def _prepare(recipe: Recipe, inputs: list[Arrays]) -> _Prepared:
    made = _Prepared(recipe, inputs)
    try:
        made.examined = examine(recipe, tuple(tensors(inputs[0])))
    except Unsupported as error:
        made.error, made.unsupported = f"capture: {error}", True
    except Exception as error:
        made.error = f"capture: {type(error).__name__}: {error}"
    return made


def _emit(prepared: list[_Prepared]) -> None:
    """Give each program its machine code; a program that breaks the file is found by compiling each alone."""
    from assay.backends import cpp
    from assay.backends.schedule import choose
    from assay.backends.target import host

    todo: list[tuple[_Prepared, Any, Any]] = []
    for p in prepared:
        if p.examined is None:
            continue
        try:
            final = p.examined.final
            todo.append((p, *(choose(final, host()) if all(t.size for t in final.tensors) else (final, None))))
        except Exception as error:
            p.error = f"schedule: {type(error).__name__}: {error}"
    _emit_together(cpp, todo)


def _emit_together(cpp: Any, todo: list[tuple[_Prepared, Any, Any]]) -> None:
    if not todo:
        return
    try:
        made = cpp.compile_many([program for _, program, _ in todo], plans=[plan for _, _, plan in todo])
    except Unsupported:
        raise
    except Exception as error:
        if len(todo) == 1:
            todo[0][0].error = f"emit: {type(error).__name__}: {error}"
            return
        half = len(todo) // 2
        _emit_together(cpp, todo[:half])
        _emit_together(cpp, todo[half:])
        return
    for (p, program, _), executable in zip(todo, made, strict=True):
        p.backend = [_scheduled(program), Layer("cpp", lambda xs, e=executable: list(e(xs)))]


def _scheduled(program: Program) -> Layer:
    """The program after scheduling (packed operands, split folds), as a layer."""
    return Layer("schedule", lambda xs: run(program, xs), program)


def _judged(p: _Prepared) -> Judged:
    xs = tuple(p.inputs)
    if p.examined is None or p.error:
        return Judged(p.recipe, xs, None, p.error, p.unsupported)
    layers = [*source_layers(p.examined), *stage_layers(p.examined.stages), *p.backend]
    try:
        return Judged(p.recipe, xs, compare(p.examined.program, layers, xs, shrink=False))
    except AssayError as error:
        return Judged(p.recipe, xs, None, f"run: {type(error).__name__}: {error}")
