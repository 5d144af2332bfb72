"""Timing in one process: every contestant of a row in turn, many rounds, medians; memory that was freed stays mapped."""

from __future__ import annotations

import ctypes
import math
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import util
from typing import Any

import numpy as np

from assay.bench.rows import ROWS, Row
from assay.core.errors import UserError

PEERS = ("torch", "inductor", "jax")
WARM = 0.03
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


@dataclass
class Timed:
    """Medians in seconds by contestant; `difference` is the largest |assay - torch| where torch ran (information only)."""

    row: str
    seconds: dict[str, float] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    decision: str = ""

    @property
    def best(self) -> tuple[str, float] | None:
        """The fastest peer."""
        peers = {k: v for k, v in self.seconds.items() if k != "assay"}
        return min(peers.items(), key=lambda x: x[1]) if peers else None

    @property
    def ratio(self) -> float | None:
        """Assay's time over that of the fastest peer."""
        return self.seconds["assay"] / self.best[1] if self.best and "assay" in self.seconds else None

    def to_json(self) -> dict[str, Any]:
        return {"row": self.row, "seconds": self.seconds, "failed": self.failed, "best_peer": self.best, "ratio": self.ratio,
                "decision": self.decision}  # fmt: skip


def retain_heap() -> None:
    """Freed memory stays with the process, for all contestants: no page faults are timed."""
    try:
        libc = ctypes.CDLL("libc.so.6")
    except OSError:
        return
    libc.mallopt(_M_MMAP_THRESHOLD, 1 << 30)
    libc.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)


def installed_peers(wanted: Sequence[str] = PEERS) -> list[str]:
    """The peers among `wanted` that are installed.  Raises UserError for an unknown one."""
    unknown = set(wanted) - set(PEERS)
    if unknown:
        raise UserError(f"unknown peers {sorted(unknown)}; allowed: {', '.join(PEERS)}")
    return [p for p in wanted if util.find_spec("jax" if p == "jax" else "torch") is not None]


def matching(pattern: str) -> list[Row]:
    """The rows whose name contains `pattern`.  Raises UserError where none does."""
    found = [r for r in ROWS if pattern.lower() in r.name.lower()]
    if not found:
        raise UserError(f"no row contains {pattern!r}; rows: {'; '.join(r.name for r in ROWS)}")
    return found


def measure(row: Row, peers: Sequence[str], *, threads: int, rounds: int, budget: float = 4.0) -> Timed:
    """Medians over `rounds` interleaved rounds (fewer where one round takes long: about `budget` seconds in all)."""
    arrays = [np.ascontiguousarray(a) for a in row.inputs(np.random.default_rng(0))]
    result = Timed(row.name)
    runs: dict[str, Callable[[], Any]] = {}
    for who in ("assay", *peers):
        try:
            run = _CONTESTANTS[who](row, arrays, threads, result)
            run()
            run()
            runs[who] = run
        except Exception as error:
            if who == "assay":
                raise
            result.failed[who] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    samples: dict[str, list[float]] = {who: [] for who in runs}
    start = time.perf_counter()
    repeat = {who: max(1, int(2e-3 / max(_once(run), 1e-7))) for who, run in runs.items()}  # a call alone finds caches cold
    for k in range(rounds):
        for who, run in runs.items():
            _awake(run)
            begin = time.perf_counter()
            for _ in range(repeat[who]):
                run()
            samples[who].append((time.perf_counter() - begin) / repeat[who])
            if who != "assay":
                time.sleep(0.02)  # workers of a peer spin for a while: whoever comes next would have half the cores
        if k >= 4 and time.perf_counter() - start > budget:
            break
    result.seconds = {who: statistics.median(s) for who, s in samples.items()}
    return result


def _awake(run: Callable[[], Any]) -> None:
    """Calls for WARM seconds: threads that have slept may share a processor until the kernel moves them apart."""
    begin = time.perf_counter()
    while time.perf_counter() - begin < WARM:
        run()


def _once(run: Callable[[], Any]) -> float:
    """Seconds of the fastest of three calls."""
    taken: list[float] = []
    for _ in range(3):
        begin = time.perf_counter()
        run()
        taken.append(time.perf_counter() - begin)
    return min(taken)


def geometric_mean(results: Sequence[Timed]) -> float | None:
    """Of Assay's time over that of the fastest peer."""
    ratios = [r.ratio for r in results if r.ratio is not None]
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None


# ------------------------------------------------------------------------------------------------ contestants


def _assay(row: Row, arrays: list[np.ndarray], threads: int, result: Timed) -> Callable[[], Any]:
    import assay
    from assay.compiler import Compiled

    compiled: Compiled = assay.compile(lambda *xs: row.torch_like(assay, *xs))
    compiled(*arrays)
    entry = next(iter(compiled.entries.values()))
    plan = getattr(entry.executable, "plan", None)
    result.decision = "; ".join(k.reason for k in plan.kernels) if plan is not None else ""
    return lambda: compiled(*arrays)


def _torch(row: Row, arrays: list[np.ndarray], threads: int, result: Timed) -> Callable[[], Any]:
    import torch

    torch.set_num_threads(threads)
    tensors = [torch.from_numpy(a) for a in arrays]

    def run() -> Any:
        with torch.no_grad():
            return row.torch_like(torch, *tensors)

    return run


def _inductor(row: Row, arrays: list[np.ndarray], threads: int, result: Timed) -> Callable[[], Any]:
    import torch

    torch.set_num_threads(threads)
    torch._dynamo.reset()
    tensors = [torch.from_numpy(a) for a in arrays]
    compiled = torch.compile(lambda *xs: row.torch_like(torch, *xs), dynamic=False)

    def run() -> Any:
        with torch.no_grad():
            return compiled(*tensors)

    return run


def _jax(row: Row, arrays: list[np.ndarray], threads: int, result: Timed) -> Callable[[], Any]:
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import jax
    import jax.numpy as jnp

    inputs = [jax.device_put(a) for a in arrays]
    compiled = jax.jit(lambda *xs: row.jax(jnp, jax, *xs))
    return lambda: jax.block_until_ready(compiled(*inputs))


_CONTESTANTS = {"assay": _assay, "torch": _torch, "inductor": _inductor, "jax": _jax}
