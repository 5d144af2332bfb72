"""One process, one mutant: every check of the compiler is run under it until one of them says that something is wrong.

    torch        the meaning of operators against PyTorch's (for mutants of it)
    audit        questions to the simplifier, the intervals and the prover, whose answers are found by evaluating every point;
                 gradients against differences and against each other (for mutants of derivatives)
    proof        the obligations of random programs after each pass, and each pass against the program before it, for all inputs
    comparison   every stage of the same programs against the meaning, bit for bit, as they are run

What a check by tolerance would have said of the same programs and inputs is asked too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from assay.fuzz.mutants.mutant import Mutant, plant
from assay.fuzz.mutants.tolerance import TOLERANCES, Shown, tolerated

if TYPE_CHECKING:
    from pathlib import Path

    from assay.core.operators import Operator
    from assay.fuzz.oracle import Judged
    from assay.fuzz.recipe import Recipe
    from assay.fuzz.worker import Judge

Tell: TypeAlias = Callable[[str], None]

BATCH = 20  # programs between two looks at the other checks
AUDITED = 20  # rounds of questions in a batch
DERIVATIVES = frozenset(("slopes", "tangent", "adjoint", "partition", "autograd"))
ABOUT_THEM = ("slopes", "histories", "derivatives")  # the audits of these parts: first for their mutants, left out for others
BACKEND = ("schedule", "nest", "emit", "cpp")  # stages that need a build
PLANS, SMALL = 12, 6  # random ones of each core program of so many tensors at most
SCALAR = 1  # the random plan without vectors, for all of them
WEAK = 5  # programs that are judged by the rules with a tolerance too


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant.

    `by`         the check that caught it, "" where none did
    `part`       what that check named
    `programs`   how many were drawn until then
    `operators`  of the program that shows it, after shrinking (0 where no program was needed)
    `tolerated`  the rules of TOLERANCES that saw nothing wrong in the same programs on the same inputs
    """

    name: str
    by: str = ""
    part: str = ""
    programs: int = 0
    operators: int = 0
    text: str = ""
    tolerated: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def caught(self) -> bool:
        return bool(self.by)


def _by_audit(mutant: Mutant, first: int, tell: Tell) -> Outcome | None:
    from assay.fuzz.audit import AUDITS, audit
    from assay.fuzz.oracle import Judged, draw_many_arrays

    derived = not DERIVATIVES.isdisjoint(mutant.part.split("|"))
    for part in sorted(AUDITS, key=lambda name: derived and name not in ABOUT_THEM):
        if part in ABOUT_THEM and not derived:
            continue  # a core program that is broken is seen sooner by what follows
        tell(part)
        found = audit(part, AUDITED, first)
        if found is not None:
            recipes = drawn(range(BATCH))
            shown = [Judged(r, tuple(xs), None) for r, xs in zip(recipes, draw_many_arrays(recipes, 0), strict=True)]
            return Outcome("", "audit", found.part, 0, 0, str(found), _tolerated(shown))
    return None


def _by_torch(mutant: Mutant) -> Outcome | None:
    """Overloads of the module that the mutant is in; all of them where it is none of the operators'."""
    from importlib.util import find_spec

    if find_spec("torch") is None:
        return None
    try:
        from assay.fuzz.against_torch import compared, pointwise

        module = ".".join(("assay", *mutant.file.removesuffix(".py").split("/")))
        for special, listed in ((0.0, compared()), (0.3, pointwise())):
            own = [o for o in listed if o.meaning.__module__ == module or "operators" not in module]
            if (found := _disagreement(own, special)) is not None:
                return found
    except Exception as error:  # a meaning that raises, or cannot be compared
        return Outcome("", "torch", "operators", 0, 1, f"{type(error).__name__}: {error}")
    return None


def _disagreement(operators: Sequence[Operator], special: float) -> Outcome | None:
    """The first one, and what the rules with a tolerance say of all results."""
    from assay.fuzz.against_torch import disagreements, results

    text = next((text for o in operators for text in disagreements(o, special=special)), None)
    if text is None:
        return None
    made = [found for o in operators for found in results(o, special=special)]
    pairs = [pair for _, ours, theirs in made for pair in zip(ours, theirs, strict=False)]
    left = tuple(n for n, rule in TOLERANCES.items() if all(rule(a, b) for a, b in pairs))
    return Outcome("", "torch", "operators", 0, 1, text, left)


def drawn(seeds: range) -> list[Recipe]:
    """The programs of these numbers: every second one computes more from what it has computed."""
    from assay.fuzz.generate import random_recipe

    return [random_recipe(s, joined=s % 2 == 1) for s in seeds]


def batch(first: int) -> tuple[tuple[range, list[int] | None], ...]:
    """Numbers first .. first + BATCH - 1 of programs, and of their plans: half of them have the best one, half a random one."""
    half = first + BATCH // 2
    return (range(first, half), None), (range(half, first + BATCH), [*range(half, first + BATCH)])


def _by_programs(by: str, judge: Judge, seeds: range, schedules: list[int] | None, trials: int,
                 known: Sequence[int | str]) -> Outcome | None:  # fmt: skip
    """The programs of these numbers, but for the `known` ones; of those judged wrong, one shows it, made small."""
    from assay.fuzz.campaign import QUICK
    from assay.fuzz.shrink import shrink

    judged = judge.judge(drawn(seeds), seeds.start, QUICK, schedules=schedules)
    wrong = [(s, j) for s, j in zip(seeds, judged, strict=True) if not j.ok and not j.unsupported and s not in known]
    if not wrong:
        return None
    seed, one = wrong[0]
    builds = by == "proof" or one.stage in BACKEND
    small = shrink(one, type(judge)("cpp" if builds else "reference"), trials=trials, flags=QUICK)
    shown = str(small.report.witness) if small.report is not None else small.error
    left = _tolerated([j for _, j in wrong[:WEAK]])
    return Outcome("", by, small.stage, seed + 1, len(small.recipe.calls), f"{small.recipe}\n{shown}", left)


def _tolerated(judged: Sequence[Judged]) -> tuple[str, ...]:
    """The rules by which nothing is wrong with these programs, on their inputs under their schedules."""
    from assay.examine import examine
    from assay.fuzz.recipe import tensors

    try:
        made = [examine(j.recipe, tuple(tensors(j.inputs[0]))) for j in judged]
    except Exception:
        return ()
    return tolerated([Shown(e.program, e.final, j.schedule, j.inputs) for e, j in zip(made, judged, strict=True)])


def _by_cases(files: Sequence[Path], known: Sequence[int | str], tell: Tell) -> Outcome | None:
    """The programs of these files, but for the `known` ones, with the best schedules and with random ones."""
    return next((o for o in _cases([f for f in files if str(f) not in known], tell)), None)


def _cases(files: Sequence[Path], tell: Tell) -> Iterator[Outcome]:
    """What is wrong with the programs of these files."""
    from assay.fuzz.cases import read_case
    from assay.fuzz.mutants.corpus import compared, prepare
    from assay.fuzz.oracle import judge_on

    cases = {f: read_case(f) for f in files}
    bare = {f: len(case.program.tensors) for f, case in cases.items() if case.recipe is None}
    small = [f for f, size in bare.items() if size <= SMALL]
    tell("eager")
    for file, case in cases.items():
        if case.recipe is not None and case.inputs:
            (judged,) = judge_on([case.recipe], [list(case.inputs)], backend="reference", thorough=True)
            if not judged.ok:
                shown = f"{file}\n{judged.report.witness if judged.report is not None else judged.error}"
                yield Outcome(str(file), "comparison", judged.stage, 0, len(case.recipe.calls), shown, _tolerated([judged]))
    for number, some in ((None, files), (SCALAR, [*bare]), *((k, small) for k in range(PLANS) if k != SCALAR)):
        tell("validator")
        prepared = [(f, *prepare(f, number)) for f in some]
        for file, case, error in prepared:
            if error:
                yield _of_case("proof", file, case, error.partition(":")[0], error)
        tell("cpp")
        for (file, case, _), report in zip(prepared, compared([case for _, case, _ in prepared]), strict=True):
            if isinstance(report, str):
                yield _of_case("comparison", file, case, report.partition(":")[0], report)
            elif not report.agrees:
                wrong = next(s.name for s in report.stages if not s.verdict.ok)
                yield _of_case("comparison", file, case, wrong, str(report.witness))


def _of_case(by: str, file: Path, shown: Shown, stage: str, text: str) -> Outcome:
    from assay.fuzz.mutants.corpus import smaller

    small = smaller(shown, by, stage)
    size = sum(t.kind != "input" for t in small.source.tensors)
    return Outcome(str(file), by, stage, 0, size, f"{file}\n{text}", tolerated([shown]))


def control(programs: int, files: Sequence[Path], tell: Tell = lambda _: None) -> list[int | str]:
    """The programs (their numbers, or files) that are judged wrong without any mutant: they say nothing of one.

    It is a defect, or a proof that is not found.  `tell` hears what is looked at, as in a hunt.
    """
    from assay.fuzz.audit import AUDITS, audit
    from assay.fuzz.campaign import QUICK
    from assay.fuzz.mutants.proofs import Proofs
    from assay.fuzz.worker import Judge

    found: set[int] = set()
    for part in AUDITS:
        tell(part)
        audit(part, AUDITED, 0)
    wrong = dict.fromkeys(o.name for o in _cases(files, tell))
    for first in range(0, programs, BATCH):
        for part, judge in (("validator", Proofs()), ("cpp", Judge())):
            tell(part)
            for seeds, schedules in batch(first):
                judged = judge.judge(drawn(seeds), seeds.start, QUICK, schedules=schedules)
                found.update(s for s, j in zip(seeds, judged, strict=True) if not j.ok and not j.unsupported)
    return [*sorted(found), *wrong]


def hunt(mutant: Mutant, programs: int, *, files: Sequence[Path] = (), known: Sequence[int | str] = (),
         tell: Tell = lambda _: None, trials: int = 80) -> Outcome:  # fmt: skip
    """Run this process as the mutant and look for what is wrong, until something is or `programs` have been drawn.

    The cases of `files` are judged after the first programs.  `known` programs and cases are wrong without the mutant (see
    `control`).  `tell` hears which part is looked at: should the process die of the mutant, it was that one.
    """
    start = time.perf_counter()
    plant(mutant)
    try:
        found = _search(mutant, programs, files, trials, known, tell)
    except Exception as error:  # a check that raises has noticed too
        where = _where(error)
        found = Outcome("", "error", where, 0, 0, f"{type(error).__name__}: {error}")
    found = found or Outcome("", programs=programs)
    return replace(found, name=mutant.name, seconds=time.perf_counter() - start)


def _search(mutant: Mutant, programs: int, files: Sequence[Path], trials: int, known: Sequence[int | str],
            tell: Tell) -> Outcome | None:  # fmt: skip
    from assay.fuzz.mutants.proofs import Proofs
    from assay.fuzz.worker import Judge

    tell("operators")
    if mutant.part == "operators" and (found := _by_torch(mutant)) is not None:
        return found
    for first in range(0, programs, BATCH):
        if (found := _by_audit(mutant, first // BATCH * AUDITED, tell)) is not None:
            return found
        for by, part, judge in (("proof", "validator", Proofs), ("comparison", "cpp", Judge)):
            tell(part)
            for seeds, schedules in batch(first):
                if (found := _by_programs(by, judge(), seeds, schedules, trials, known)) is not None:
                    return found
        if not first and (found := _by_cases(files, known, tell)) is not None:
            return found
    return None


def _where(error: BaseException) -> str:
    """The innermost frame of Assay's own that raised."""
    import traceback

    frames = [f for f in traceback.extract_tb(error.__traceback__) if "/assay/" in f.filename and "/fuzz/" not in f.filename]
    return frames[-1].filename.partition("/assay/")[2] if frames else ""
