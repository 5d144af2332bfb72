"""How long the index questions of tests/verify/cases.py take, and which step settles them.

    python -m benchmarks.bounds
    python -m benchmarks.bounds --dynamic       the questions for all sizes, of tests/verify/size_cases.py

Milliseconds of processor time.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections import Counter

import assay.core.functions  # noqa: F401
from assay.core import polynomial
from assay.verify import bounds, integers
from tests.verify import cases, size_cases

REPEATS = 5


def measure(case: cases.Case | size_cases.SizeCase) -> tuple[float, bounds.Proof]:
    """(milliseconds, proof), the best of REPEATS without any memory of earlier answers."""
    program = case.program
    best = float("inf")
    for _ in range(REPEATS):
        bounds._proofs.clear()
        integers._answers.clear()
        polynomial._signs.clear()
        start = time.process_time()
        bounds.prove(program)
        best = min(best, time.process_time() - start)
    return best * 1e3, bounds.prove(program)


def main() -> None:
    dynamic = "--dynamic" in sys.argv[1:]
    true, false = (size_cases.TRUE, size_cases.FALSE) if dynamic else (cases.TRUE, cases.FALSE)
    times: list[float] = []
    steps: Counter[str] = Counter()
    wrong = 0
    for case, expected in [(c, "PROVED") for c in true] + [(c, "REFUTED") for c in false]:
        ms, proof = measure(case)
        times.append(ms)
        [how] = [o.how for o in proof.obligations if o.kind == "bounds" and o.node is not None][-1:]
        steps["all points" if how.startswith("all ") else how.split(",")[0]] += 1
        wrong += proof.verdict.kind != expected
        print(f"{ms:8.2f} ms  {proof.verdict.kind:8} {case.name:44} {how}")
    print(f"\n{len(times)} questions, {wrong} decided wrongly; median {statistics.median(times):.2f} ms, max {max(times):.2f} ms")
    print("settled by:", ", ".join(f"{k} {n}" for k, n in steps.most_common()))


if __name__ == "__main__":
    main()
