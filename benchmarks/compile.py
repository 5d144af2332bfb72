"""How long a compile takes and what a call costs: the figures of docs/performance.md.

    python benchmarks/compile.py

Every figure is the median of several runs in this process; "CPU" is processor time, which a busy machine does not change much.
"""

from __future__ import annotations

import ctypes
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parent.parent


def operators(n: int, seed: int) -> Callable[..., Any]:
    """A function of n random pointwise operators and row sums on two 64x128 tensors."""

    def f(x: Any, y: Any) -> Any:
        rnd = random.Random(seed)
        values = [x, y]
        for k in range(n):
            a, b = values[-1], rnd.choice(values[-6:])
            if k % 10 == 9:
                values.append(a - a.sum(-1, keepdim=True) * 0.01)
            else:
                how = rnd.choice(["add", "mul", "relu", "tanh", "exp", "max"])
                made = {
                    "add": lambda a, b: a + b, "mul": lambda a, b: a * b, "relu": lambda a, b: a.relu(),
                    "tanh": lambda a, b: a.tanh(), "exp": lambda a, b: (a * 0.1).exp(), "max": lambda a, b: a.maximum(b),
                }  # fmt: skip
                values.append(made[how](a, b))
        return values[-1]

    return f


def printed(code: str, *args: object, **env: str) -> list[float]:
    """The numbers that a fresh process prints."""
    command = [sys.executable, "-c", code, *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, env=os.environ | env)
    return [float(word) for word in done.stdout.split()]


def timed(f: Callable[[], Any], clock: Callable[[], float] = time.perf_counter) -> float:
    start = clock()
    f()
    return clock() - start


STEPS = (
    "import sys, time; sys.path.insert(0, 'benchmarks'); import assay, numpy as np, compile as c\n"
    "from assay.backends import cpp; from assay.backends.schedule import choose; from assay.backends.target import host\n"
    "from assay.core.collection import uncollected; from assay.transforms.pipeline import optimise\n"
    "x = assay.from_numpy(np.ones((64, 128), np.float32))\n"
    "warm = assay.lower(assay.trace(c.operators(10, 99), x, x)); p, plan = choose(optimise(warm)[-1].program, host())\n"
    "cpp.emit_program(cpp.proven(p), plan, host())\n"
    "graph = assay.trace(c.operators(int(sys.argv[2]), int(sys.argv[1])), x, x)\n"
    "with uncollected():\n"
    "    at = [time.process_time()]; wall = time.perf_counter()\n"
    "    p = optimise(assay.lower(graph))[-1].program; at.append(time.process_time())\n"
    "    p, plan = choose(p, host()); at.append(time.process_time())\n"
    "    p = cpp.proven(p); at.append(time.process_time())\n"
    "    text = cpp.emit_program(p, plan, host()).text; at.append(time.process_time())\n"
    "print(time.perf_counter() - wall, *[b - a for a, b in zip(at, at[1:])], len(plan.kernels), len(text))"
)


def text_of(operators: int, seeds: int = 5) -> list[float]:
    """From the captured graph of so many operators to C++ text, as a compile does it but for g++; medians of fresh processes.

    Wall seconds; CPU seconds of lowering and passes, schedule, proof, emission; kernels; characters of text.
    """
    runs = [printed(STEPS, seed, operators) for seed in range(seeds)]
    return [statistics.median(column) for column in zip(*runs, strict=True)]


def compile_10() -> tuple[float, float]:
    """Wall seconds of the first call of a function of 10 operators: with an empty build cache, and from the disk cache."""
    code = (
        "import sys, time; sys.path.insert(0, 'benchmarks'); import assay, numpy as np, compile as c\n"
        "x = assay.from_numpy(np.ones((64, 128), np.float32))\n"
        "assay.compile(c.operators(3, 99))(x, x)\n"
        "f = assay.compile(c.operators(10, int(sys.argv[1])))\n"
        "t = time.perf_counter(); f(x, x); print(time.perf_counter() - t)"
    )
    cold, warm = [], []
    for seed in range(5):
        with tempfile.TemporaryDirectory() as cache:
            for found in (cold, warm):
                found += printed(code, seed, ASSAY_CACHE=cache)
    return statistics.median(cold), statistics.median(warm)


def call() -> float:
    """Wall seconds of one call of (relu(x+y)*2).sum(-1) on 64x128 tensors."""
    import assay

    x, y = (assay.from_numpy(np.random.default_rng(k).standard_normal((64, 128), np.float32)) for k in (0, 1))
    g = assay.compile(lambda x, y: ((x + y).relu() * 2).sum(-1))
    g(x, y)
    return min(timed(lambda: [g(x, y) for _ in range(1000)]) / 1000 for _ in range(20))


def matmul() -> tuple[float, float]:
    """GFLOP/s of the 1024**3 product, and the FMA peak of as many threads at once, measured in turn with it: clocks move."""
    import assay
    from assay.backends.threads import available

    a, b = (np.random.default_rng(k).standard_normal((1024, 1024), np.float32) for k in (0, 1))
    g = assay.compile(lambda a, b: a @ b)
    g(a, b)
    product, peak = math.inf, 0.0
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(available()) as pool:
        library = _probe(Path(folder))
        for _ in range(300):
            product = min(product, timed(lambda: g(a, b)))
            seconds = pool.map(lambda _: library.fma_t(ctypes.c_long(1_000_000)), range(available()))  # as long as the product
            peak = max(peak, sum(2 * library.lanes() / t for t in seconds))
    return 2 * 1024**3 / product / 1e9, peak / 1e9


def _probe(folder: Path) -> ctypes.CDLL:
    """The loops that the machine model is measured with: `fma_t(n)` is the seconds of one vector fma among n rounds of them."""
    from assay.backends.build import compiler
    from assay.backends.schedule import machine, probe

    source, library = folder / "probe.cpp", folder / "probe.so"
    source.write_text(probe.SOURCE)
    subprocess.run((compiler()[0], *machine.FLAGS, "-o", library, source), check=True, capture_output=True)
    loaded = ctypes.CDLL(str(library))
    loaded.fma_t.restype = ctypes.c_double
    return loaded


def main() -> None:
    code = "import time; t = time.perf_counter(); import assay; print(time.perf_counter() - t)"
    imported = [printed(code)[0] for _ in range(5)]
    print(f"import assay                                   {statistics.median(imported) * 1e3:8.1f} ms")
    wall, *cpu, _, _ = text_of(100)
    print(f"graph of 100 operators -> C++, without g++     {sum(cpu) * 1e3:8.1f} ms CPU, {wall * 1e3:.1f} ms wall")
    print("  operators   passes schedule    proof     emit    total  ms CPU an operator   kernels  kB of text")
    for n in (10, 100, 300, 1000):
        _, *cpu, kernels, text = text_of(n, seeds=3)
        total = sum(cpu)
        times = " ".join(f"{c * 1e3:8.1f}" for c in (*cpu, total))
        print(f"  {n:9d} {times} {total / n * 1e3:19.2f} {kernels:9.0f} {text / 1e3:11.1f}")
    cold, warm = compile_10()
    print(f"first call of 10 operators, empty cache        {cold * 1e3:8.1f} ms")
    print(f"first call of 10 operators, warm disk cache    {warm * 1e3:8.1f} ms")
    print(f"call on 64x128 tensors                         {call() * 1e6:8.1f} us")
    rate, peak = matmul()
    print(f"matmul 1024                                    {rate:8.1f} GFLOP/s, {rate / peak:.0%} of the FMA peak {peak:.0f}")


if __name__ == "__main__":
    main()
