"""The commands, one function each.  Every command takes --json and says its exit code by what it returns."""

from __future__ import annotations

import sys
import time
from typing import Annotated, Any

import typer

from assay.cli.output import emit, guarded
from assay.cli.target import load_target, program_inputs
from assay.core.lang import Program

app = typer.Typer(
    add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode="rich",
    help="A reference tensor compiler that proves its own work, and a differential tester for everybody else's.\n\n"
         "A target is [bold]file.py:function[/bold] with one --arg for each argument, or a [bold].assay[/bold] program.\n\n"
         "Exit codes: 0 ok, 1 refuted, 2 usage, 3 internal error, 4 unknown, 5 unsupported, 6 nothing ran, 130 interrupted.",
)  # fmt: skip

TargetArgument = Annotated[str, typer.Argument(metavar="TARGET", help="file.py:function, or program.assay")]
Args = Annotated[list[str], typer.Option("--arg", help="An argument: f32[64,128], i64[5]=0..9, f32[3]=0.5, or a Python literal.")]
Seed = Annotated[int, typer.Option("--seed", help="Seed of everything drawn at random.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Stage = Annotated[
    str, typer.Option("--stage", help="graph, lower, the name of a pass (see `assay passes`), final, scheduled, kernels or cpp.")
]
Inputs = Annotated[int, typer.Option("--inputs", help="How many drawn inputs.")]
Backend = Annotated[str, typer.Option("--backend", help="cpp or reference.")]


@app.command()
def run(target: TargetArgument, arg: Args = [], seed: Seed = 0, backend: Backend = "cpp", json: Json = False) -> None:
    """Compile and run once; print the results."""

    def command() -> int:
        found = load_target(target, arg, seed)
        start = time.perf_counter()
        if isinstance(found.subject, Program):
            from assay.compiler import build

            results: Any = list(build(found.subject, backend=backend)(program_inputs(found.subject, seed)))
        else:
            from assay.compiler import compile as compile_

            results = compile_(found.subject, backend=backend)(*found.args)
        seconds = time.perf_counter() - start
        shown = repr(results)
        return emit(shown, {"verdict": "OK", "exit_code": 0, "results": shown, "seconds": seconds}, as_json=json)

    guarded(command, as_json=json)


@app.command()
def show(target: TargetArgument, arg: Args = [], stage: Stage = "final", seed: Seed = 0, json: Json = False) -> None:
    """Print the text of one stage of the compile."""

    def command() -> int:
        from assay.examine import stage_text

        found = load_target(target, arg, seed)
        text = stage_text(found.subject, found.args, stage)
        return emit(text, {"verdict": "OK", "exit_code": 0, "stage": stage, "text": text}, as_json=json)

    guarded(command, as_json=json)


@app.command()
def explain(target: TargetArgument, arg: Args = [], seed: Seed = 0, json: Json = False) -> None:
    """The whole story of one compile: graph, programs, decisions with reasons, kernels, obligations, time per stage."""

    def command() -> int:
        from assay.examine import explain as explain_

        found = load_target(target, arg, seed)
        story = explain_(found.subject, *found.args)
        return emit(str(story), story.to_json(), as_json=json)

    guarded(command, as_json=json)


@app.command()
def check(target: TargetArgument, arg: Args = [], inputs: Inputs = 10, backend: Backend = "cpp", seed: Seed = 0,
          json: Json = False) -> None:  # fmt: skip
    """Every stage, eager to machine code, against the meaning, bit for bit."""

    def command() -> int:
        from assay.examine import check as check_

        found = load_target(target, arg, seed)
        report = check_(found.subject, *found.args, backend=backend, inputs=inputs, seed=seed)
        return emit(str(report), report.to_json(), as_json=json)

    guarded(command, as_json=json)


@app.command()
def prove(target: TargetArgument, arg: Args = [], seed: Seed = 0, json: Json = False) -> None:
    """Every index access: proved in bounds (how), kept as a run-time check (why), or refuted (by which index)."""

    def command() -> int:
        from assay.examine import prove as prove_

        found = load_target(target, arg, seed)
        proof = prove_(found.subject, *found.args)
        return emit(str(proof), {"name": found.name, **proof.to_json()}, as_json=json)

    guarded(command, as_json=json)


@app.command()
def ops(name: Annotated[str, typer.Argument(metavar="[NAME]", help="Only operators whose name contains this.")] = "",
        scalar: Annotated[bool, typer.Option("--scalar", help="The table of scalar functions instead.")] = False,
        json: Json = False) -> None:# fmt: skip
    """The operator table, and what each entry has; with --scalar, the table of scalar functions."""

    def command() -> int:
        from assay.report.tables import operator_rows, print_table, scalar_rows

        rows = [r for r in (scalar_rows() if scalar else operator_rows()) if name in r["name"]]
        data = {"verdict": "OK", "exit_code": 0, "functions" if scalar else "operators": rows}
        columns = ("name", "kind", "ulp", "meaning") if scalar else ("name", "has", "meaning")
        return emit(lambda: print_table(rows, columns), data, as_json=json)

    guarded(command, as_json=json)


@app.command()
def passes(json: Json = False) -> None:
    """The transformations in the order in which they run, and what each promises."""

    def command() -> int:
        from assay.report.tables import pass_rows, print_table
        from assay.transforms.pipeline import contract_of

        rows = pass_rows()
        total = str(contract_of())

        def text() -> None:
            print_table(rows, ("order", "name", "contract", "meaning"))
            sys.stdout.write(f"\nthe pipeline as a whole: {total}\n")

        return emit(text, {"verdict": "OK", "exit_code": 0, "passes": rows, "contract": total}, as_json=json)

    guarded(command, as_json=json)


@app.command()
def doctor(json: Json = False) -> None:
    """What this installation can do: compiler, cache, optional parts, and how to install what is missing."""

    def command() -> int:
        from assay.report.doctor import doctor_text, installation

        found = installation()
        return emit(doctor_text(found), found, as_json=json)

    guarded(command, as_json=json)
