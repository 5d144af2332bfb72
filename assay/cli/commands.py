"""The commands, one function each.  Every command takes --json and says its exit code by what it returns."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from assay.cli.output import Commands, emit, guarded
from assay.cli.target import kernel_target, load_target, program_inputs
from assay.core.errors import UserError
from assay.core.lang import Program
from assay.core.wording import counted
from assay.verify.verdict import INTERRUPTED

app = typer.Typer(
    cls=Commands, add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode="rich",
    help="A reference tensor compiler that proves its own work, and compares every stage of a compile bit for bit.\n\n"
         "A target is [bold]file.py:function[/bold] with one --arg for each argument, or a [bold].assay[/bold] program. "
         "Every command takes --json.\n\n"
         "Exit codes: 0 ok, 1 refuted, 2 usage, 3 internal error, 4 unknown, 5 unsupported, 6 nothing ran, "
         "125 (replay) cannot be tested, 130 interrupted.",
)  # fmt: skip

TargetArgument = Annotated[str, typer.Argument(metavar="TARGET", help="file.py:function, or program.assay")]
Args = Annotated[
    list[str],
    typer.Option("--arg", help="An argument: f32[64,128], i64[5]=0..9 (drawn in this range, which proofs do not rely on), "
                               "f32[3]=0.5, or a Python literal."),
]  # fmt: skip
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of everything drawn at random.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Stage = Annotated[
    str, typer.Option("--stage", help="graph, lower, the name of a pass (see `assay passes`), final, searched, scheduled, "
                                      "kernels or cpp.")
]  # fmt: skip
Grid = Annotated[str, typer.Option("--grid", help="Of a kernel: its programs, such as 'cdiv(n, BLOCK)' or '(M, cdiv(N, 64))'.")]
Assume = Annotated[list[str], typer.Option("--assume", help="Of a kernel: a condition on its sizes, such as 'n % 16 == 0'.")]
ForAllSizes = Annotated[bool, typer.Option("--dynamic", help="For all sizes of the arguments, with the guards that this needs.")]
Inputs = Annotated[int, typer.Option("--inputs", min=0, help="How many drawn inputs.")]
SaveCase = Annotated[Path | None, typer.Option("--save", metavar="DIR", help="Folder for a failing case.")]
Explained = Annotated[bool, typer.Option("--explain", help="Each link of the chain with what its verdict rests on.")]
Backend = Annotated[str, typer.Option("--backend", help="cpp or reference.")]


def _folder(save: Path | None) -> None:
    """Raises UserError where what is found later could not be written: said before the work, not after it."""
    if save is not None and save.exists() and not save.is_dir():
        raise UserError(f"--save {save}: this is a file; give a folder (it is made if there is none)")


def _version(value: bool) -> None:
    if value:
        from assay import __version__

        sys.stdout.write(f"assay {__version__}\n")
        raise typer.Exit


Version = Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")]


@app.callback()
def options(version: Version = False) -> None:
    """What stands before the name of a command."""


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
          save: SaveCase = None, explained: Explained = False, json: Json = False) -> None:  # fmt: skip
    """Every stage, eager to machine code, proved equal to the one before it, or against the meaning, bit for bit.

    With --save, the program and the input on which a stage differs are written to DIR; `assay replay` runs that file again.
    """

    def command() -> int:
        from assay.examine import check as check_
        from assay.verify.chain import chain_text

        _folder(save)
        found = load_target(target, arg, seed)
        report = check_(found.subject, *found.args, backend=backend, inputs=inputs, seed=seed)
        text, data = chain_text(report) if explained else str(report), report.to_json()
        if save is not None:
            from assay.fuzz.cases import save_refuted

            data["case"] = None
            if report.witness is not None:
                path, again = save_refuted(found.subject, found.args, report, save, backend=backend)
                data["case"] = str(path)
                text += f"\nsaved {path}" if again else f"\nsaved {path}, which does not show it: only the function itself does"
        return emit(text, data, as_json=json)

    guarded(command, as_json=json)


SavedIn = Annotated[Path | None, typer.Argument(metavar="[DIR]", help="With --recheck: the saved certificates.")]
Save = Annotated[Path | None, typer.Option("--save-certificates", metavar="DIR", help="Write a certificate of each obligation.")]
Recheck = Annotated[bool, typer.Option("--recheck", help="Replay the certificates (of DIR, or fresh ones) with cvc5.")]


@app.command()
def prove(target: TargetArgument, saved: SavedIn = None, arg: Args = [], save_certificates: Save = None, recheck: Recheck = False,
          seed: Seed = 0, grid: Grid = "", assume: Assume = [], dynamic: ForAllSizes = False,
          json: Json = False) -> None:  # fmt: skip
    """Every index access: proved in bounds (how), kept as a run-time check (why), or refuted (by which index).

    `assay prove TARGET --save-certificates DIR` writes them as SMT-LIB files, `assay prove TARGET --recheck DIR` and
    `assay prove DIR --recheck` replay them with the second solver.

    A kernel under @triton.jit is read from its source (neither triton nor a GPU is needed), for all programs, sizes and inputs:
    `assay prove kernel.py:add --grid 'cdiv(n, BLOCK)' --arg 'x_ptr=f32\\[n]' --arg n=1..2**30 --arg BLOCK=1024`.
    """

    def command() -> int:
        kernel = kernel_target(target)
        if kernel is not None:
            from assay.kernels import prove as prove_kernel

            if recheck or save_certificates is not None:
                raise UserError("kernels have no certificates yet; prove them without --recheck and --save-certificates")
            found_about = prove_kernel(*kernel, grid=grid, args=arg, assume=assume)
            return emit(str(found_about), found_about.to_json(), as_json=json)
        if grid or assume:
            raise UserError(f"--grid and --assume are for kernels (functions under @triton.jit); {target} is none")
        from assay.cli import certified
        from assay.examine import prove as prove_

        if saved is not None and not recheck:
            raise UserError(f"the folder {saved} is for --recheck; to write certificates: --save-certificates {saved}")
        if recheck and Path(target).is_dir():
            return certified.recheck_folder(Path(target), as_json=json)
        found = load_target(target, arg, seed)
        proof = prove_(found.subject, *found.args, dynamic=dynamic)
        if dynamic:
            if recheck or save_certificates is not None:
                raise UserError("proofs for all sizes have no certificates yet; prove without --recheck and --save-certificates")
            return emit(str(proof), proof.to_json(), as_json=json)
        if recheck or save_certificates is not None:
            return certified.certify(found.name, proof, save_certificates, saved, recheck=recheck, as_json=json)
        return emit(str(proof), {"name": found.name, **proof.to_json()}, as_json=json)

    guarded(command, as_json=json)


Count = Annotated[int, typer.Option("--count", min=0, help="How many programs.")]
Most = Annotated[int, typer.Option("--operators", min=1, help="Most operators of a program.")]
Findings = Annotated[Path, typer.Option("--save", help="Folder for findings.")]
Cases = Annotated[list[Path], typer.Argument(metavar="CASE...", help=".assay files, or folders of them.")]
Baseline = Annotated[Path, typer.Option("--baseline", help="The committed facts.")]
Accept = Annotated[bool, typer.Option("--accept", help="Write the facts as the new baseline.")]


@app.command()
def fuzz(count: Count = 200, seed: Seed = 0, operators: Most = 12, backend: Backend = "cpp", save: Findings = Path("findings"),
         json: Json = False) -> None:  # fmt: skip
    """Random programs through every stage and compiled code, bit for bit against their meaning; findings are shrunk."""

    def command() -> int:
        from rich.console import Console
        from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        from assay.fuzz.campaign import Result, run_campaign

        _folder(save)
        console = Console(stderr=True)
        columns = (TextColumn("{task.description}"), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console, disable=json or not console.is_terminal) as bar:
            task = bar.add_task("programs", total=count)

            result, interrupted = Result(), False

            def progress(done: int, so_far: Result) -> None:
                nonlocal result
                result = so_far
                bar.update(task, advance=done, description=counted(len(so_far.findings), "finding"))

            try:
                run_campaign(count, seed, directory=save, backend=backend, most=operators, progress=progress)
            except KeyboardInterrupt:
                interrupted = True
        lines = [f"{f}\n" for f in result.findings]
        rate = result.programs / result.seconds if result.seconds else 0.0
        lines.append(f"{counted(result.programs, 'program')}, {counted(len(result.operators), 'operator')}, "
                     f"{counted(len(result.findings), 'finding')}, "
                     f"{result.unsupported} unsupported, {rate:.1f} programs/s")  # fmt: skip
        data = result.to_json()
        if interrupted:
            lines[-1] = f"interrupted: {lines[-1]}"
            data |= {"verdict": "INTERRUPTED", "exit_code": INTERRUPTED}
        return emit("\n".join(lines), data, as_json=json)

    guarded(command, as_json=json)


@app.command()
def replay(case: Annotated[Path, typer.Argument(metavar="CASE", help="A .assay file.")], backend: Backend = "cpp", seed: Seed = 0,
           json: Json = False) -> None:  # fmt: skip
    """Run one saved case again.  Exit code 0: every stage agrees, 1: one differs, 125: the case cannot be tested."""

    def command() -> int:
        from assay.core.errors import Unsupported
        from assay.fuzz.cases import read_case
        from assay.fuzz.cases import replay as replay_
        from assay.verify.layered import Report

        try:
            outcome = replay_(read_case(case), backend=backend, seed=seed)
        except Unsupported as error:
            data = {"verdict": "UNSUPPORTED", "exit_code": 125, "error": str(error)}
            return emit(f"cannot be tested: {error}", data, as_json=json)
        if isinstance(outcome, Report):
            return emit(str(outcome), outcome.to_json(), as_json=json)
        code = 125 if outcome.unsupported else 1
        verdict = "UNSUPPORTED" if outcome.unsupported else "REFUTED"
        return emit(outcome.error, {"verdict": verdict, "exit_code": code, "error": outcome.error}, as_json=json)

    guarded(command, as_json=json)


@app.command()
def gate(cases: Cases, baseline: Baseline = Path("gate.json"), accept: Accept = False, backend: Backend = "cpp",
         json: Json = False) -> None:  # fmt: skip
    """Verdicts, proofs and kernel counts of a corpus against a committed baseline; exit code 1 for any difference."""

    def command() -> int:
        from assay.gate import run_gate

        code, found, count = run_gate(cases, baseline, accept=accept, backend=backend)
        verdict = "OK" if code == 0 else "REFUTED" if found else "UNKNOWN"
        written = f"; {baseline} written" if accept else ""
        lines = [*map(str, found), f"{counted(count, 'case')}, {counted(len(found), 'difference')}{written}"]
        data = {"verdict": verdict, "exit_code": code, "cases": count, "differences": [vars(d) for d in found]}
        return emit("\n".join(lines), data, as_json=json)

    guarded(command, as_json=json)


Rows = Annotated[str, typer.Option("--rows", help="Only rows whose name contains this.")]
Peers = Annotated[str, typer.Option("--peers", help="Peers to run beside, if installed.")]
Threads = Annotated[int, typer.Option("--threads", min=1, help="Threads of every contestant.")]
Rounds = Annotated[int, typer.Option("--rounds", min=1, help="Interleaved rounds; medians are shown.")]


@app.command()
def bench(rows: Rows = "", peers: Peers = "torch,inductor,jax", threads: Threads = 2, rounds: Rounds = 15,
          json: Json = False) -> None:  # fmt: skip
    """The speed of compiled code (exact mode) beside PyTorch, Inductor and XLA, interleaved in this process."""

    def command() -> int:
        from assay.bench.measure import geometric_mean, installed_peers, matching, measure, retain_heap
        from assay.report.tables import print_table

        retain_heap()
        wanted = [p for p in peers.split(",") if p]
        present = installed_peers(wanted)
        absent = [p for p in wanted if p not in present]
        found = []
        for row in matching(rows):
            timed = measure(row, present, threads=threads, rounds=rounds)
            found.append(timed)
            if not json:
                shown = ", ".join(f"{who} {s * 1e3:.4g}" for who, s in timed.seconds.items())
                ratio = f"  {timed.ratio:.2f}x of {timed.best[0]}" if timed.ratio is not None and timed.best else ""
                sys.stderr.write(f"{timed.row:36} ms: {shown}{ratio}\n")  # a row takes seconds: what is there already
        mean = geometric_mean(found)
        data = {"verdict": "OK", "exit_code": 0, "rows": [t.to_json() for t in found], "geometric_mean": mean, "threads": threads}
        cells = [
            {"row": t.row, **{w: f"{t.seconds[w] * 1e3:.4g}" if w in t.seconds else "-" for w in ("assay", *present)},
             "ratio": f"{t.ratio:.2f}" if t.ratio is not None else "-"} for t in found
        ]  # fmt: skip

        def text() -> None:
            print_table(cells, ("row", "assay", *present, "ratio"))
            if mean is not None:
                sys.stdout.write(f"milliseconds; geometric mean of Assay's time over the best peer's: {mean:.2f}\n")
            for t in found:
                sys.stdout.writelines(f"{t.row}: {who} failed: {why}\n" for who, why in t.failed.items())
            if absent:
                sys.stdout.write(f"not installed: {', '.join(absent)}; `make bench` in a checkout installs all peers\n")

        return emit(text, data, as_json=json)

    guarded(command, as_json=json)


Words = Annotated[list[str], typer.Argument(metavar="[WORD]...", help="Only mutants with one of these in name, part or file.")]
Programs = Annotated[int, typer.Option("--programs", min=0, help="Random programs that a mutant may survive; then it is missed.")]
Jobs = Annotated[int, typer.Option("--jobs", min=1, help="Mutants at once, each in a process of its own.")]
MutantCases = Annotated[list[Path], typer.Option("--corpus", help="Cases (files or folders) that every mutant is run on too.")]
Record = Annotated[Path, typer.Option("--record", help="Where outcomes are kept: a killed run goes on from there.")]


@app.command()
def mutants(words: Words = [], programs: Programs = 300, corpus: MutantCases = [], jobs: Jobs = 1,
            record: Record = Path("mutants.jsonl"),
            only_list: Annotated[bool, typer.Option("--list", help="Show the mutants; run none.")] = False,
            json: Json = False) -> None:  # fmt: skip
    """Faults planted in Assay's own source, one at a time: is each caught, by which check, and is the broken part named?

    Exit code 1 if one survives.  An outcome is kept for the source that it was found with.
    """

    def command() -> int:
        from rich.console import Console
        from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        from assay.fuzz.cases import case_files
        from assay.fuzz.mutants.hunt import Outcome
        from assay.fuzz.mutants.mutant import Mutant
        from assay.fuzz.mutants.score import chosen, run_score
        from assay.report.tables import print_table

        found = chosen(words)
        if only_list:
            rows = [{"mutant": m.name, "part": m.part, "file": m.file} for m in found]
            data = {"verdict": "OK", "exit_code": 0, "mutants": rows}
            shown = [row | {"part": row["part"].replace("|", " | ")} for row in rows]
            return emit(lambda: print_table(shown, ("mutant", "part", "file")), data, as_json=json)
        console = Console(stderr=True)
        columns = (TextColumn("{task.description}"), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console, disable=json or not console.is_terminal) as bar:
            task, missed = bar.add_task("mutants", total=len(found)), 0

            def progress(mutant: Mutant, outcome: Outcome) -> None:
                nonlocal missed
                missed += not outcome.caught
                bar.update(task, advance=1, description=f"{missed} survived")

            score = run_score(found, programs, case_files(corpus), record=record, jobs=jobs, progress=progress)

        def text() -> None:
            titles = ("mutant", "part", "caught by", "named", "programs", "operators")
            print_table([dict(zip(titles, map(str, row), strict=True)) for row in score.table()], titles)
            sys.stdout.write(f"\n{score}\n")

        return emit(text, score.to_json(), as_json=json)

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
        if not rows:
            return emit(f"no {'scalar function' if scalar else 'operator'} has {name!r} in its name", data, as_json=json)
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
