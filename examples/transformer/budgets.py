"""One training step of the transformer block under memory budgets: bytes kept for the backward, against the time it takes.

    python -m examples.transformer.budgets [--plot budgets.svg]

The gradients have the same bits under every budget; less memory costs time, by the cost model and by the clock.  The plot shows
the frontier (what some price of a byte makes best) and the budgets beside it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import assay
from assay.partition.budget import Point, frontier
from assay.partition.prices import Partition
from examples.transformer.model import block, tokens, weights

SHARES = (1.0, 0.5, 0.2)


def loss(ids: Any, *parameters: Any) -> Any:
    """The mean square of the block's output."""
    y = block(ids, *parameters)
    return (y * y).mean()


def step(f: Any, ids: Any, parameters: Sequence[Any]) -> list[np.ndarray]:
    """The gradients of the parameters."""
    return [g.numpy() for g in assay.autograd.grad(f(ids, *parameters), parameters)]


def partitions(*, backend: str = "cpp", calls: int = 5) -> list[tuple[Partition, float]]:
    """The partition of each budget with the least seconds of some steps; the bits of the gradients are compared."""
    ids = assay.tensor(tokens(8))
    parameters = [assay.tensor(w).requires_grad_() for w in weights()]
    found: list[tuple[Partition, float]] = []
    wanted: list[np.ndarray] = []
    free = 0
    for share in SHARES:
        f = assay.compile(loss, backend=backend, memory_budget=None if share == 1 else int(share * free))
        gradients, best = step(f, ids, parameters), float("inf")
        for _ in range(calls):
            start = time.perf_counter()
            step(f, ids, parameters)
            best = min(best, time.perf_counter() - start)
        made = f.derivatives.partitions[0][1]
        free = free or made.saved_bytes
        wanted = wanted or gradients
        if any(a.tobytes() != b.tobytes() for a, b in zip(gradients, wanted, strict=True)):
            raise SystemExit("the gradients differ: this is a bug")
        found.append((made, best))
    return found


def plot(points: Sequence[Point], chosen: Sequence[Partition]) -> str:
    """The frontier as a line, the chosen partitions as dots: an SVG text."""
    wide, high, edge = 480, 300, 50
    most, slowest = max(p.bytes for p in points) or 1, max(p.time for p in points)

    def at(size: float, seconds: float) -> str:
        return f"{edge + (wide - 2 * edge) * size / most:.1f},{high - edge - (high - 2 * edge) * seconds / slowest:.1f}"

    line = " ".join(at(p.bytes, p.time) for p in points)
    places = [at(p.saved_bytes, p.time).split(",") for p in chosen]
    dots = "".join(f'<circle r="4" fill="#c33" cx="{x}" cy="{y}"/>' for x, y in places)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" font-family="sans-serif" font-size="12">'
        f'<polyline fill="none" stroke="#357" stroke-width="2" points="{line}"/>{dots}'
        f'<text x="{edge}" y="{high - 15}">bytes kept for the backward, 0 to {most:,}</text>'
        f'<text x="{edge}" y="25">time of saving and recomputing, 0 to {slowest * 1e6:.0f} us (model)</text></svg>\n'
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plot", type=Path, help="write the frontier as an SVG")
    parser.add_argument("--backend", default="cpp")
    options = parser.parse_args()
    found = partitions(backend=options.backend)
    print(f"{'kept bytes':>12} {'model us':>9} {'step ms':>8}   all gradients have the same bits")
    for made, seconds in found:
        print(f"{made.saved_bytes:>12,} {made.time * 1e6:>9.1f} {seconds * 1e3:>8.2f}   {made.policy}")
    points = frontier(found[0][0].split.joint)
    print("\nfrontier: " + ", ".join(f"{p.bytes:,} B {p.time * 1e6:.0f} us" for p in points))
    if options.plot:
        options.plot.write_text(plot(points, [made for made, _ in found]), encoding="utf-8")


if __name__ == "__main__":
    main()
