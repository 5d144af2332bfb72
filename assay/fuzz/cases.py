"""Cases: one .assay file that reproduces a finding, or pins what was found right.

The file is the text of the lowered program; comment lines before it carry the operator recipe, the inputs and the stage,
and the number from which the plan was drawn (fuzz/schedules.py; without one it is chosen):

    # assay case 1
    # stage: cpp
    # schedule: 417
    # recipe: {"inputs": [...], "calls": [...], "results": [...]}
    # inputs: [[{"dtype": "f32", "shape": [3], "hex": "0000803f..."}]]
    program f(x: f32[3]):
      ...
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from assay.core.dtypes import DTYPES, dtype
from assay.core.errors import UserError
from assay.core.files import write_whole
from assay.core.lang import Program
from assay.core.parser import parse
from assay.core.text import show
from assay.examine import draw_many, examine, program_layers
from assay.fuzz.oracle import Judged, judge_on
from assay.fuzz.recipe import Recipe, from_json, recipe_of, tensors
from assay.transforms.pipeline import optimise
from assay.verify.layered import Arrays, Report, compare

VERSION = "# assay case 1"


@dataclass(frozen=True)
class Case:
    """A program with the recipe it came from (if any), inputs to run it on, the stage that was wrong ("" if none), and the
    number of its plan (None: the plan is chosen)."""

    program: Program
    recipe: Recipe | None
    inputs: tuple[Arrays, ...]
    stage: str
    schedule: int | None = None


def case_of(judged: Judged) -> Case:
    """The case of a judged recipe."""
    program = examine(judged.recipe, tuple(tensors(judged.inputs[0]))).program
    return Case(program, judged.recipe, judged.inputs, judged.stage, judged.schedule)


def write_case(path: Path, case: Case) -> None:
    """Write the file at once or not at all (a killed run leaves no half case)."""
    lines = [VERSION]
    if case.stage:
        lines.append(f"# stage: {case.stage}")
    if case.schedule is not None:
        lines.append(f"# schedule: {case.schedule}")
    if case.recipe is not None:
        lines.append(f"# recipe: {json.dumps(case.recipe.to_json())}")
    if case.inputs:
        lines.append(f"# inputs: {json.dumps([[_array_to_json(a) for a in xs] for xs in case.inputs])}")
    text = "\n".join([*lines, show(case.program)])
    write_whole(path, text if text.endswith("\n") else text + "\n")


def read_case(path: Path) -> Case:
    """The case in a file; a bare program is a case too.  Raises UserError where the file is not one."""
    if not path.is_file():
        raise UserError(f"no file {path}")
    try:
        text = path.read_text(encoding="utf-8")
        program = parse(text)
    except (UserError, UnicodeDecodeError) as error:
        what = str(error) if isinstance(error, UserError) else f"not UTF-8: {error}"
        raise UserError(f"{path}: {what}") from None
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, colon, value = line.removeprefix("# ").partition(": ")
        if line.startswith("# ") and colon and name in ("stage", "schedule", "recipe", "inputs"):
            fields[name] = value

    def read(name: str, convert: Callable[[Any], Any]) -> Any:
        try:
            return convert(json.loads(fields[name])) if name in fields else None
        except json.JSONDecodeError as error:
            raise UserError(f"{path}: the line '# {name}: ...' is not JSON: {error}") from None
        except (UserError, KeyError, TypeError, ValueError) as error:
            raise UserError(f"{path}: the line '# {name}: ...': {error}") from None

    inputs = read("inputs", lambda given: tuple([_array_from_json(a) for a in xs] for xs in given)) or ()
    return Case(program, read("recipe", from_json), inputs, fields.get("stage", ""), read("schedule", int))


def replay(case: Case, *, backend: str = "cpp", seed: int = 0) -> Report | Judged:
    """Run the case again: the recipe through every stage on its inputs, or the bare program on its or drawn inputs.

    Where the recipe agrees and no longer means the program in the file, the program is run too.
    """
    if case.recipe is not None and case.inputs:
        (judged,) = judge_on([case.recipe], [list(case.inputs)], backend=backend, thorough=True, schedules=[case.schedule])
        if judged.report is None:
            return judged
        if not judged.report.agrees or case_of(judged).program is case.program:
            return judged.report
    inputs: Sequence[Arrays] = case.inputs or draw_many(case.program, 10, seed)
    return compare(case.program, program_layers(tuple(optimise(case.program)), backend), inputs, shrink=False)


def save_refuted(subject: Callable[..., Any] | Program, args: tuple[Any, ...], report: Report, directory: Path, *,
                 backend: str = "cpp") -> tuple[Path, bool]:  # fmt: skip
    """Write the witness of a refuted check(subject, *args) as a case: its file, and whether replaying that is refuted too.

    The case holds the operators that the function calls, where each is in the table, so that every stage is replayed; else the
    program, so that eager evaluation and the graph are not.  It is not refuted where the function does what its operators do not.
    """
    witness = report.witness
    assert witness is not None
    cases: list[Case] = []
    program = subject if isinstance(subject, Program) else None
    if not isinstance(subject, Program):
        examined = examine(subject, args)
        program, recipe = examined.program, recipe_of(examined.captured.graph)
        if recipe is not None:
            same = examine(recipe, tuple(tensors(witness.inputs))).program
            cases.append(Case(same, recipe, (witness.inputs,), witness.layer))
    assert program is not None
    cases.append(Case(program, None, (witness.inputs,), witness.layer))
    again = (c for c in cases if not (isinstance(found := replay(c, backend=backend), Report) and found.agrees))
    found = next(again, None)
    path = directory / f"{program.name}-{witness.layer}.assay"
    write_case(path, found or cases[0])
    return path, found is not None


def case_files(paths: Iterable[Path]) -> list[Path]:
    """The .assay files among `paths`, those of folders included, in order of name.  Raises UserError for a missing path,
    and for a file that is given twice, which would count once."""
    found: dict[Path, Path] = {}
    for path in paths:
        if not path.exists():
            raise UserError(f"no file or folder {path}")
        for file in sorted(path.rglob("*.assay")) if path.is_dir() else [path]:
            if file.resolve() in found:
                raise UserError(f"{file} is given twice; name each case once, by itself or by a folder")
            found[file.resolve()] = file
    return list(found.values())


def _array_to_json(a: np.ndarray) -> dict[str, Any]:
    return {"dtype": dtype(a.dtype).name, "shape": list(a.shape), "hex": np.ascontiguousarray(a).tobytes().hex()}


def _array_from_json(data: dict[str, Any]) -> np.ndarray:
    return np.frombuffer(bytes.fromhex(data["hex"]), DTYPES[data["dtype"]].numpy).reshape(data["shape"]).copy()
