"""Index checks of real patterns: how many can go, how long that takes to prove, and what it saves.

    python -m benchmarks.patterns

Four tables.  The patterns of tests/verify/patterns.py at real sizes: kept checks with their reason, milliseconds of proof, how
many facts enumeration confirms at small sizes.  The same for all sizes (tests/verify/sized_patterns.py).  The questions of
tests/verify/size_cases.py, for all sizes at once.  Compiled kernels in pairs that differ by the check only: a table of 256 rows
read through 8-bit indices needs none, one of 255 does.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import assay
from assay.examine import final_program
from assay.verify import bounds, integers, recheck, smtlib
from assay.verify.certificate import certificates
from tests.verify.patterns import PATTERNS, Pattern
from tests.verify.size_cases import TRUE
from tests.verify.sized_patterns import sized

REPEATS = 5
ROUNDS = 60


def proof_time(program: Any) -> tuple[float, bounds.Proof]:
    """(milliseconds of CPU, proof), the best of REPEATS without any memory of earlier answers."""
    best = float("inf")
    for _ in range(REPEATS):
        bounds._proofs.clear()
        integers._answers.clear()
        start = time.process_time()
        bounds.prove(program)
        best = min(best, time.process_time() - start)
    return best * 1e3, bounds.prove(program)


def enumerated(p: Pattern) -> tuple[int, int, int]:
    """(index facts at small sizes, of which enumeration confirms, of which it contradicts)."""
    facts = confirmed = wrong = 0
    for c in certificates(bounds.prove(final_program(p.function, *p.arguments(small=True)))).certificates:
        if c.kind in ("bounds", "range"):
            script = smtlib.read(c.text)
            got = recheck.by_enumeration(c, script)
            facts += 1
            confirmed += got == [check.expected for check in script.checks]
            wrong += got is not None and got != [check.expected for check in script.checks]
    return facts, confirmed, wrong


def patterns() -> None:
    times: list[float] = []
    free = facts = confirmed = wrong = 0
    for p in PATTERNS:
        ms, proof = proof_time(final_program(p.function, *p.arguments(small=False)))
        small = enumerated(p)
        facts, confirmed, wrong = facts + small[0], confirmed + small[1], wrong + small[2]
        kept = [o.message for o in proof.kept]
        free += not kept
        times.append(ms)
        why = f"kept: {p.kept or 'the assumption itself'}" if kept else "no check"
        print(f"{ms:8.2f} ms  {proof.verdict.kind:8} {p.name:32} {why}")
    share = free / len(PATTERNS)
    print(f"\n{len(PATTERNS)} patterns, {free} need no check ({share:.0%}); median {statistics.median(times):.2f} ms, "
          f"max {max(times):.2f} ms")  # fmt: skip
    print(f"at small sizes {facts} facts: enumeration confirms {confirmed}, contradicts {wrong}\n")


def sized_patterns() -> None:
    times: list[float] = []
    free = 0
    for p in PATTERNS:
        ms, proof = proof_time(sized(p).program(small=False).final)
        times.append(ms)
        kept = [o for o in proof.kept if not o.message.startswith("assumed")]
        free += not kept
        for o in kept:
            print(f"{ms:8.2f} ms  {p.name:32} kept: {o.message}: {o.reason}")
    print(f"for all sizes: {free} of {len(PATTERNS)} patterns need no check ({free / len(PATTERNS):.0%}); "
          f"median {statistics.median(times):.2f} ms, max {max(times):.2f} ms\n")  # fmt: skip


def sizes() -> None:
    times: list[float] = []
    proved = 0
    for case in TRUE:
        ms, proof = proof_time(case.program)
        times.append(ms)
        proved += proof.verdict.kind == "PROVED" and not any(o.status == "refuted" for o in proof.obligations)
    print(f"for all sizes: {proved} of {len(TRUE)} questions proved; median {statistics.median(times):.2f} ms, "
          f"max {max(times):.2f} ms\n")  # fmt: skip


# ------------------------------------------------------------------------------------------------ what a check costs


def gather(x: Any, idx: Any) -> Any:
    return x[idx.long()]


def rows(x: Any, idx: Any) -> Any:
    return assay.nn.functional.embedding(idx.long(), x)


def pairs(x: Any, idx: Any) -> Any:
    i = idx.long()
    return x[i] * x[x.shape[0] - 1 - i]


def add(x: Any, idx: Any) -> Any:
    return x.index_add(0, idx.long(), assay.ones(idx.shape[0]))


KERNELS: dict[str, tuple[Callable[..., Any], tuple[int, ...], int]] = {
    "gather of 2**20 elements": (gather, (), 1 << 20),
    "embedding of 2**14 rows of 64": (rows, (64,), 1 << 14),
    "embedding of 2**12 rows of 512": (rows, (512,), 1 << 12),
    "two gathers of 2**20 elements": (pairs, (), 1 << 20),
    "index_add of 2**20 elements": (add, (), 1 << 20),
}


def savings() -> None:
    rng = np.random.default_rng(0)
    for name, (f, rest, n) in KERNELS.items():
        index = assay.tensor(rng.integers(0, 255, n).astype(np.uint8))
        contestants = []
        for size in (255, 256):
            x = assay.tensor(rng.standard_normal((size, *rest)).astype(np.float32))
            kept = len(assay.prove(f, x, index).kept)
            assert bool(kept) == (size == 255)
            g = assay.compile(f)
            g(x, index)
            contestants.append((g, x, []))
        for _ in range(ROUNDS):
            for g, x, seconds in contestants:
                start = time.perf_counter()
                g(x, index)
                seconds.append(time.perf_counter() - start)
        checked, free = (min(seconds) * 1e3 for _, _, seconds in contestants)
        print(f"{name:32} with its check {checked:8.3f} ms, without {free:8.3f} ms: saved {1 - free / checked:.0%}")


def main() -> None:
    patterns()
    sized_patterns()
    sizes()
    savings()


if __name__ == "__main__":
    main()
