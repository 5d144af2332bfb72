"""How long proofs of examples/kernels and refutations of the faults in tests/kernels take, and which step settles an access.

    python -m benchmarks.kernels

Milliseconds of processor time, the best of three without any memory of earlier answers.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections import Counter
from pathlib import Path

from assay.kernels import KernelProof, deciding, prove
from tests.kernels.launches import FAULTS, KERNELS, seeded

REPEATS = 3


def measure(path: Path, kernel: str, grid: str = "", args: tuple[str, ...] = ()) -> tuple[float, KernelProof]:
    """(milliseconds, proof)"""
    best, proof = float("inf"), None
    for _ in range(REPEATS):
        deciding._answers.clear()
        deciding._quick.clear()
        start = time.process_time()
        proof = prove(path, kernel, grid=grid, args=args)
        best = min(best, time.process_time() - start)
    assert proof is not None
    return best * 1e3, proof


def main() -> None:
    prove(KERNELS["add"], "add")  # loads what loads on first use
    steps: Counter[str] = Counter()
    accesses: list[float] = []
    for kernel, file in KERNELS.items():
        ms, proof = measure(file, kernel)
        bounds = [o for o in proof.obligations if o.kind == "bounds"]
        steps.update(o.how.rpartition(": ")[2] for o in bounds)
        accesses += [ms / len(bounds)] * len(bounds)
        print(f"{ms:8.0f} ms  {proof.verdict.kind:8} {kernel:20} {len(bounds)} accesses")
    print(f"\n{len(accesses)} accesses: median {statistics.median(accesses):.0f} ms each (int32, races and masks included)")
    print("settled by:", ", ".join(f"{k} {n}" for k, n in steps.most_common()))
    faulty: list[float] = []
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for fault in FAULTS:
            path = Path(folder) / KERNELS[fault.kernel].name
            path.write_text(seeded(fault))
            ms, proof = measure(path, fault.kernel, fault.grid, fault.args)
            faulty.append(ms)
            wrong += proof.verdict.kind != "REFUTED"
    times = f"median {statistics.median(faulty):.0f} ms a kernel, max {max(faulty):.0f} ms"
    print(f"{len(faulty)} faults: {wrong} not refuted; {times}")


if __name__ == "__main__":
    main()
