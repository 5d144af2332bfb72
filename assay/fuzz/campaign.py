"""A campaign: many random programs, every stage of each against its meaning; findings are shrunk and saved as cases."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assay.backends.build import FLAGS
from assay.core.wording import counted
from assay.fuzz.cases import case_of, write_case
from assay.fuzz.generate import MOST_OPERATORS
from assay.fuzz.oracle import Judged
from assay.fuzz.shrink import MOST_TRIALS, shrink
from assay.fuzz.worker import Judge, Worker
from assay.verify.verdict import NOTHING_RAN, OK

BATCH = 1000  # programs in one C++ file, which have the functions of named rows in common
LOST_TRIALS, LOST_LIMIT = 20, 10.0  # to shrink a program that ends or holds its process; seconds until it counts as hanging
PINNED, PINNED_EVERY = 25, 1000  # of so many programs the first 25 are compiled as users' programs are, every stage run
QUICK = (*FLAGS, "-O0", "-DAI=static inline", "-fno-exceptions", "-fno-asynchronous-unwind-tables",
         "--param", "ggc-min-expand=1000", "--param", "ggc-min-heapsize=1000000")  # fmt: skip


@dataclass(frozen=True)
class Finding:
    """A program that some stage treats wrongly."""

    seed: int
    stage: str
    operators: int
    recipe: str
    witness: str
    file: str

    def __str__(self) -> str:
        wrong = f"wrong stage: {self.stage}, {counted(self.operators, 'operator')} (seed {self.seed})"
        return f"{self.recipe}\n{wrong}\n{self.witness}\nreplay: assay replay {self.file}"

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass
class Result:
    """What a campaign found.  `programs` were run; `unsupported` could not be."""

    programs: int = 0
    unsupported: int = 0
    operators: Counter[str] = field(default_factory=Counter[str])
    findings: list[Finding] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def exit_code(self) -> int:
        return NOTHING_RAN if not self.programs else 1 if self.findings else OK

    def to_json(self) -> dict[str, Any]:
        verdict = "REFUTED" if self.findings else f"VALIDATED({self.programs})" if self.programs else "UNKNOWN(nothing ran)"
        return {
            "verdict": verdict, "exit_code": self.exit_code, "programs": self.programs, "unsupported": self.unsupported,
            "operators": dict(self.operators), "findings": [f.to_json() for f in self.findings], "seconds": self.seconds,
        }  # fmt: skip


def run_campaign(count: int, seed: int, *, directory: Path, backend: str = "cpp", most: int = MOST_OPERATORS,
                 stop_after: int | None = None, progress: Callable[[int, Result], None] | None = None,
                 judge: Judge | None = None) -> Result:  # fmt: skip
    """Programs number seed, seed + 1, ..., seed + count - 1; a campaign ends after `stop_after` findings.

    Every finding is shrunk and written to `directory`/seed-N.assay as soon as it is found, so a killed campaign keeps
    what it has; `progress` gets the result as it grows, first before anything is run.  Programs are run by `judge`: by
    default in a child process, so that a crash is a finding too.
    """
    result = Result()
    start = time.perf_counter()
    if progress is not None:
        progress(0, result)
    with judge or Worker(backend) as worker:
        for seeds in batches(range(seed, seed + count)):
            whole = pinned(seeds.start)
            flags, plans = (FLAGS, None) if whole else (QUICK, seeds)
            recipes = worker.draw(seeds, most)
            judged = worker.judge(recipes, seeds.start, flags, inputs=2 if whole else 1, ends=not whole, schedules=plans)
            for s, one in zip(seeds, judged, strict=True):
                _count(result, one)
                if not one.ok and not one.unsupported:
                    result.findings.append(_keep(s, one, directory, worker, flags))
            result.seconds = time.perf_counter() - start
            if progress is not None:
                progress(len(seeds), result)
            if stop_after is not None and len(result.findings) >= stop_after:
                break
    return result


def pinned(number: int) -> bool:
    """Whether this program is compiled as users' programs are, with every stage run and proved; others run from end to end."""
    return number % PINNED_EVERY < PINNED


def batches(numbers: range) -> Iterator[range]:
    """The programs in runs of at most BATCH that are pinned, or are not."""
    first = numbers.start
    while first < numbers.stop:
        last = first + 1
        while last < min(first + BATCH, numbers.stop) and pinned(last) == pinned(first):
            last += 1
        yield range(first, last)
        first = last


def _count(result: Result, judged: Judged) -> None:
    if judged.unsupported:
        result.unsupported += 1
        return
    result.programs += 1
    result.operators.update(c.operator for c in judged.recipe.calls)


def _keep(seed: int, judged: Judged, directory: Path, worker: Judge, flags: tuple[str, ...]) -> Finding:
    if judged.stage in ("crash", "hang"):  # each trial costs a process or the time limit
        with Worker(worker.backend, limit=LOST_LIMIT) as own:
            small = shrink(judged, own, trials=LOST_TRIALS, flags=flags)
    else:
        small = shrink(judged, worker, trials=MOST_TRIALS, flags=flags)
    path = directory / f"seed-{seed}.assay"
    try:
        write_case(path, case_of(small))
        file = str(path)
    except Exception as error:  # a program that cannot even be captured has no text: the recipe below is the finding
        file = f"(no case: {type(error).__name__}: {error})"
    witness = str(small.report.witness) if small.report is not None and small.report.witness is not None else small.error
    return Finding(seed, small.stage, len(small.recipe.calls), str(small.recipe), witness, file)
