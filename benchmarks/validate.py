"""How long translation validation takes on random programs, and whether it ever fails to prove a right one.

    python -m benchmarks.validate                          5, 50 and 500 operators
    python -m benchmarks.validate --operators 8 --count 2000 --seeds 5

Of each program every pass, the schedule and the loop nests are proved; the time is that of all of these proofs together, in CPU
milliseconds, with nothing remembered from other programs.  The programs are the fuzzer's: views, gathers, folds, scans, scatters.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from dataclasses import dataclass

import numpy as np

from assay.backends.cpp import scheduled
from assay.backends.schedule import choose
from assay.backends.schedule.machine import DEFAULTS
from assay.backends.target import host
from assay.core.lang import Program
from assay.frontends.capture import capture
from assay.frontends.creation import from_numpy
from assay.fuzz.generate import draw_recipe
from assay.fuzz.oracle import draw_arrays
from assay.transforms.lower import lower
from assay.transforms.pipeline import optimise
from assay.verify import integers
from assay.verify.link import Link, nest_link, program_link
from assay.verify.nests import Scheduled

SIZES = ((5, 200, 30.0), (50, 60, 60.0), (500, 15, 1500.0))  # operators, programs, most CPU milliseconds that the median may take


@dataclass(frozen=True)
class Compiled:
    """The programs of one compile, and its scheduled loop nests."""

    stages: tuple[tuple[str, Program, frozenset[str]], ...]
    nests: Scheduled | None


def program(seed: int, operators: int) -> Program:
    """The random program of this seed with so many operators."""
    rng = random.Random(seed)
    count = iter([operators - 1])
    recipe = draw_recipe(lambda n: next(count, None) or rng.randrange(n), operators)
    arrays = draw_arrays(recipe, "normal", np.random.default_rng(seed))
    return lower(capture(recipe, tuple(map(from_numpy, arrays)), {}).graph)


def compiled(p: Program) -> Compiled:
    """Everything that is compared; none of it is timed."""
    stages = [(s.name, s.program, s.contract.laws) for s in optimise(p)]
    final = stages[-1][1]
    if not all(t.size for t in final.tensors):
        return Compiled(tuple(stages), None)
    made, plan = choose(final, host(), DEFAULTS[8])
    return Compiled((*stages, ("schedule", made, frozenset())), scheduled(made, plan))


def prove(c: Compiled) -> tuple[float, list[Link]]:
    """(CPU milliseconds, what is proved of each step)."""
    integers._answers.clear()
    start = time.process_time()
    links = [
        program_link(name, before, after, laws=laws)
        for (_, before, _), (name, after, laws) in zip(c.stages, c.stages[1:], strict=False)
    ]
    links += [nest_link(c.nests)] if c.nests is not None else []
    return (time.process_time() - start) * 1e3, links


def measure(operators: int, count: int, seeds: int, first: int = 0) -> tuple[list[float], int, int]:
    """(milliseconds of each program, steps that were not proved, programs whose verdict depends on the solver's seed)."""
    times: list[float] = []
    rejected = differing = 0
    for seed in range(first, first + count):
        try:
            c = compiled(program(seed, operators))
        except Exception as error:  # a defect of another stage: nothing to compare
            print(f"  program {seed} of {operators} operators was not compiled: {type(error).__name__}: {error}", flush=True)
            continue
        verdicts: set[tuple[bool, ...]] = set()
        for solver in range(max(1, seeds)):
            integers.SEED = solver
            ms, links = prove(c)
            times += [ms] if solver == 0 else []
            verdicts.add(tuple(x.proved for x in links))
            for x in links:
                if not x.proved and solver == 0:
                    rejected += 1
                    print(f"  not proved: program {seed} of {operators} operators, {x}", flush=True)
        integers.SEED = 0
        differing += len(verdicts) > 1
    return times, rejected, differing


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--operators", type=int, help="only programs of this size")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=1, help="of the solver")
    parser.add_argument("--first", type=int, default=0, help="the first program")
    given = parser.parse_args()
    rows = SIZES if given.operators is None else ((given.operators, given.count, float("inf")),)
    print("operators  programs  median ms  p90 ms   max ms  most allowed  not proved  differ by seed")
    for operators, count, most in rows:
        times, rejected, differing = measure(operators, count, given.seeds, given.first)
        times.sort()
        p90 = times[int(0.9 * len(times))]
        print(f"{operators:9}  {len(times):8}  {statistics.median(times):9.2f}  {p90:6.1f}  {times[-1]:7.1f}  {most:12.0f}"
              f"  {rejected:10}  {differing:14}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
