"""How long the index questions of tests/verify/cases.py take, and which step settles them.

    python -m benchmarks.bounds
"""

from __future__ import annotations

import statistics
import time
from collections import Counter

import assay.core.functions  # noqa: F401
from assay.verify import bounds, integers
from tests.verify.cases import FALSE, TRUE, Case

REPEATS = 5


def measure(case: Case) -> tuple[float, bounds.Proof]:
    """(milliseconds, proof), the best of REPEATS without any memory of earlier answers."""
    program = case.program
    best = float("inf")
    for _ in range(REPEATS):
        bounds._proofs.clear()
        integers._answers.clear()
        start = time.perf_counter()
        bounds.prove(program)
        best = min(best, time.perf_counter() - start)
    return best * 1e3, bounds.prove(program)


def main() -> None:
    times: list[float] = []
    steps: Counter[str] = Counter()
    wrong = 0
    for case, expected in [(c, "PROVED") for c in TRUE] + [(c, "REFUTED") for c in FALSE]:
        ms, proof = measure(case)
        times.append(ms)
        [how] = [o.how for o in proof.obligations if o.kind == "bounds" and o.node is not None][-1:]
        steps[how.removesuffix(", under its guard").split(" ")[0]] += 1
        wrong += proof.verdict.kind != expected
        print(f"{ms:8.2f} ms  {proof.verdict.kind:8} {case.name:44} {how}")
    print(f"\n{len(times)} questions, {wrong} decided wrongly; median {statistics.median(times):.2f} ms, max {max(times):.2f} ms")
    print("settled by:", ", ".join(f"{k} {n}" for k, n in steps.most_common()))


if __name__ == "__main__":
    main()
