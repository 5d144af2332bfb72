"""Scalar work of derived derivatives: operations of the gradient, and of the tangent, over those of the value.

    python -m benchmarks.derivatives [operator ...]        the largest ratios last; theorem 5.1 bounds straight-line programs by 5

Operations are counted as semantics/work.py says, on the operator's sample with the most elements (at most 200), in f64.  The
least that a value counts is one operation for each element of the result, or of the inputs (views, joins, indexing).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass

from assay.core.lang import Program, T, input, order
from assay.fuzz.differences import FUNCTIONAL, differentiable, one_sample
from assay.semantics.tangent import tangent
from assay.semantics.work import total_work
from assay.transforms.adjoint import adjoint


@dataclass(frozen=True)
class Work:
    """Operations of the value, and what its gradient and its tangent need on top of it."""

    name: str
    value: int
    gradient: int
    tangent: int

    @property
    def ratio(self) -> float:
        return self.gradient / self.value


def work_of(name: str, p: Program) -> Work:
    """The work of a program, and of its derivatives by all float inputs."""
    inputs = [t for t in p.inputs if t.dtype.is_float]
    outputs = [t for t in p.outputs if t.dtype.is_float]
    known = set(order(outputs))
    value = max(total_work(known), sum(t.size for t in outputs), sum(t.size for t in inputs))

    def more(tensors: Iterable[T | None]) -> int:
        return total_work(set(order(t for t in tensors if t is not None)) - known)

    gradients = adjoint(outputs, [input(f"d{k}", t.shape, t.dtype) for k, t in enumerate(outputs)], inputs)
    moves = tangent(outputs, {t: input(f"d_{t.name}", t.shape, t.dtype) for t in inputs})
    return Work(name, value, more(gradients), more(moves))


def every(names: Iterable[str] = ()) -> list[Work]:
    """The work of every operator that has a derivative (or of those named)."""
    wanted = set(names)
    found: list[Work] = []
    for o in FUNCTIONAL:
        sample = one_sample(o)
        if sample is None or (wanted and o.name not in wanted and o.base not in wanted):
            continue
        p = o.program(*sample)
        if differentiable(p):
            found.append(work_of(o.name, p))
    return sorted(found, key=lambda w: w.ratio)


def main() -> None:
    found = every(sys.argv[1:])
    print(f"{'operator':36}{'value':>8}{'gradient':>10}{'ratio':>8}{'tangent':>9}{'ratio':>8}")
    for w in found:
        print(f"{w.name:36}{w.value:8}{w.gradient:10}{w.ratio:8.2f}{w.tangent:9}{w.tangent / w.value:8.2f}")
    over = [sum(w.ratio > bound for w in found) for bound in (3, 4, 5)]
    print(f"{len(found)} operators; gradients of a ratio over 3, 4, 5: {over}")


if __name__ == "__main__":
    main()
