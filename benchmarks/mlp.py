"""A training step of a perceptron (3 layers of 1024, batch 256), forward and backward, beside the peers that are installed.

    python -m benchmarks.mlp [--rounds 11] [--threads N]

One process: each contestant in turn, many rounds, medians, as in `assay bench`.  A cold compile is the first step with empty
caches, in the same process; a tiny step runs before, so what the libraries load and Assay measures of the machine is not in it.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from assay.bench.measure import WARM, installed_peers, retain_heap
from assay.semantics.compare import bits_equal

LAYERS, WIDTH, BATCH = 3, 1024, 256
Step = Callable[[], Any]


def arrays(width: int = WIDTH, batch: int = BATCH) -> list[np.ndarray]:
    """The batch, then a weight and a bias for each layer."""
    random = np.random.default_rng(0)
    made = [random.standard_normal((batch, width))]
    for _ in range(LAYERS):
        made += [random.standard_normal((width, width)) * (2 / width) ** 0.5, random.standard_normal(width) / 8]
    return [a.astype(np.float32) for a in made]


def loss(t: Any, x: Any, *parameters: Any) -> Any:
    """The mean square of the output; `t` is assay or torch."""
    for k in range(LAYERS):
        x = t.nn.functional.linear(x, *parameters[2 * k : 2 * k + 2])
        if k < LAYERS - 1:
            x = t.relu(x)
    return (x * x).mean()


def assay_step(given: list[np.ndarray]) -> Step:
    import assay
    import assay.nn.functional

    x, *parameters = map(assay.tensor, given)
    for p in parameters:
        p.requires_grad_()
    f = assay.compile(lambda *a: loss(assay, *a))
    return lambda: assay.autograd.grad(f(x, *parameters), parameters)


def torch_step(given: list[np.ndarray], *, compiled: bool = False) -> Step:
    import torch

    x, *parameters = map(torch.tensor, given)
    for p in parameters:
        p.requires_grad_()
    if compiled:
        torch._dynamo.reset()
    f = torch.compile(lambda *a: loss(torch, *a), dynamic=False) if compiled else lambda *a: loss(torch, *a)
    return lambda: torch.autograd.grad(f(x, *parameters), parameters)


def jax_step(given: list[np.ndarray]) -> Step:
    import jax
    import jax.numpy as jnp

    def of(parameters: list[Any], x: Any) -> Any:
        for k in range(LAYERS):
            x = x @ parameters[2 * k].T + parameters[2 * k + 1]
            if k < LAYERS - 1:
                x = jax.nn.relu(x)
        return jnp.mean(x * x)

    x, *parameters = map(jax.device_put, given)
    step = jax.jit(jax.grad(of))
    return lambda: jax.block_until_ready(step(parameters, x))


CONTESTANTS: dict[str, Callable[[list[np.ndarray]], Step]] = {
    "assay": assay_step,
    "torch": torch_step,
    "inductor": lambda given: torch_step(given, compiled=True),
    "jax": jax_step,
}


def seconds(step: Step) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--only", nargs="*", choices=CONTESTANTS, help="these, instead of all that are installed")
    options = parser.parse_args()
    os.environ["JAX_PLATFORMS"] = "cpu"
    names = options.only or ["assay", *installed_peers()]
    with tempfile.TemporaryDirectory() as caches:
        os.environ["ASSAY_CACHE"] = os.environ["TORCHINDUCTOR_CACHE_DIR"] = caches
        retain_heap()
        if {"torch", "inductor"} & set(names):
            import torch

            torch.set_num_threads(options.threads)
        runs: dict[str, Step] = {}
        cold: dict[str, float] = {}
        for who in names:
            CONTESTANTS[who](arrays(8, 4))()
            runs[who] = CONTESTANTS[who](arrays())
            cold[who] = seconds(runs[who])
        samples: dict[str, list[float]] = {who: [] for who in names}
        for _ in range(options.rounds):
            for who, run in runs.items():
                begin = time.perf_counter()
                while time.perf_counter() - begin < WARM:
                    run()
                samples[who].append(seconds(run))
                time.sleep(0.02)  # workers of a peer spin for a while
        best = min((statistics.median(s) for who, s in samples.items() if who != "assay"), default=None)
        print(f"{'':10} {'ms a step':>10} {'cold compile s':>15}")
        for who in names:
            print(f"{who:10} {statistics.median(samples[who]) * 1e3:>10.2f} {cold[who]:>15.2f}")
        if best is not None and "assay" in samples:
            print(f"assay / best peer: {statistics.median(samples['assay']) / best:.2f}")
        if {"assay", "torch"} <= set(names):
            pairs = list(zip(runs["assay"](), runs["torch"](), strict=True))
            far = max(float(np.abs(a.numpy() - b.numpy()).max() / np.abs(b.numpy()).max()) for a, b in pairs)
            print(f"largest difference of a gradient from torch's, of its largest element: {far:.1e}")
        if "assay" in names:
            twice = zip(runs["assay"](), runs["assay"](), strict=True)
            print("two calls, the same bits:", all(bits_equal(a.numpy(), b.numpy()) for a, b in twice))


if __name__ == "__main__":
    main()
