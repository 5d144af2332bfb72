"""How good is the schedule that the model chooses?  Its choice against the best of the candidates that are timed.

    python -m benchmarks.schedule [--cpu] [--top N] [--seconds S] [ROW...]

Every kernel of every row (benchmarks/workloads.py) is compiled under the model's first N candidates and some of other
forms, run interleaved, and auto/best is printed.  --cpu times one thread by its own clock: the figures of a machine
that other processes use.
"""

from __future__ import annotations

import argparse
import math
import sys
import time

from assay.backends.plan import Schedule
from assay.backends.schedule.decide import Candidate, choose, explore
from assay.backends.schedule.tune import alone, measure, standalone
from assay.backends.target import host
from benchmarks.workloads import ROWS


def form(s: Schedule, packed: int) -> tuple[object, ...]:
    """What makes two schedules different in kind."""
    return s.vector, s.fold, bool(s.jam), bool(s.carry), any(b for _, b in s.order), packed


def tried(candidates: list[Candidate], top: int) -> list[Candidate]:
    """The first `top`, and the first of every other form."""
    kept = candidates[:top]
    forms = {form(c.choice.schedule, len(c.copies)) for c in kept}
    for c in candidates[top:]:
        f = form(c.choice.schedule, len(c.copies))
        if f not in forms and c.seconds < 6 * candidates[0].seconds:
            forms.add(f)
            kept.append(c)
    return kept


def text(c: Candidate) -> str:
    """The schedule in one line."""
    s = c.choice.schedule
    parts = [f"vector {s.vector} x{s.copies}" if s.vector is not None else f"scalar x{s.copies}"]
    parts += [f"jam {dict(s.jam)}"] * bool(s.jam) + [s.fold] * (s.fold != "seq") + [f"carry {s.carry}"] * bool(s.carry)
    if s.order != tuple((k, None) for k in range(len(s.order))):
        parts.append("order " + " ".join(str(k) if b is None else f"{k}/{b}" for k, b in s.order))
    parts += [f"threads {s.threads}"] + ["stream"] * s.stream + [f"{len(c.copies)} packed"] * bool(c.copies)
    return ", ".join(parts)


def main(argv: list[str]) -> int:
    """Print a line a kernel and a row."""
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", nargs="*")
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--top", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=1.0)
    options = parser.parse_args(argv)
    clock, threads = (time.thread_time, 1) if options.cpu else (time.perf_counter, None)
    target = host()
    choose(ROWS["relu-sum 64x128"](), target)
    ratios: list[float] = []
    for name, build in ROWS.items():
        if options.rows and not any(r in name for r in options.rows):
            continue
        start = time.process_time()
        explored = explore(build(), target)
        spent = time.process_time() - start
        print(f"## {name}: {len(explored.groups)} kernels chosen in {spent * 1e3:.0f} ms", flush=True)
        first = best = 0.0
        for group, candidates in explored.groups:
            if not candidates or not standalone(group):
                print(f"   {list(group.sources)}: not timed alone")
                continue
            kept = tried(candidates, options.top)
            times = measure([alone(group, c) for c in kept], options.seconds, threads=threads, clock=clock)
            k = min(range(len(times)), key=times.__getitem__)
            first, best = first + times[0], best + times[k]
            print(
                f"   {[t.shape for t in group.tensors]}: {times[0] * 1e3:.3f} ms (model {candidates[0].seconds * 1e3:.3f}), "
                f"best {times[k] * 1e3:.3f} is no {k} of {len(kept)}: {times[0] / times[k]:.2f}"
            )
            print(f"      first  {text(kept[0])}; bound by {kept[0].choice.cost.bound}")
            if k:
                print(f"      best   {text(kept[k])}; model {kept[k].seconds * 1e3:.3f}")
        if best:
            ratios.append(first / best)
            print(f"   total {first * 1e3:.3f} ms, best {best * 1e3:.3f} ms, auto/best {first / best:.2f}", flush=True)
    mean = math.exp(sum(map(math.log, ratios)) / max(1, len(ratios)))
    print(f"auto/best: geometric mean {mean:.3f}, worst {max(ratios, default=1.0):.2f} of {len(ratios)} rows")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
