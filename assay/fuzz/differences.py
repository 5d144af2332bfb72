"""Operators in f64 at ordinary points, and their slopes by central differences: what derived derivatives are compared with."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.core import dtypes as dt
from assay.core.errors import AssayError
from assay.core.lang import Program, T
from assay.core.operators import OPERATORS, Operator
from assay.core.operators.samples import Like, draw
from assay.semantics.denote import RequireError, evaluate, run

Array = np.ndarray
STEP = 2e-3


@dataclass
class Point:
    """A program with values of its inputs, a direction for each float input and a weight for each float output."""

    program: Program
    values: dict[T, Array]
    directions: dict[T, Array]
    weights: dict[T, Array]

    def along(self, h: float) -> dict[T, Array]:
        """The inputs, moved by h times the directions."""
        return {t: v + h * self.directions[t] if t in self.directions else v for t, v in self.values.items()}

    def loss(self, h: float) -> float:
        """The weighted sum of the outputs at the moved inputs."""
        outputs = evaluate(list(self.weights), self.along(h))
        return sum(float(np.sum(a * w)) for a, w in zip(outputs, self.weights.values(), strict=True))


def slope(point: Point) -> tuple[float, float]:
    """(the derivative of the loss along the directions, how far two estimates of it are apart): Richardson's extrapolation."""
    d = [(point.loss(h) - point.loss(-h)) / (2 * h) for h in (STEP, STEP / 2, STEP / 4, STEP / 8)]
    for k in (4, 16):
        d = [(k * b - a) / (k - 1) for a, b in itertools.pairwise(d)]
    return d[1], abs(d[1] - d[0])


def in_f64(arguments: Sequence[Any]) -> tuple[Any, ...]:
    """The sample with every float tensor, and every type that is asked for, as f64."""

    def lifted(x: Any) -> Any:
        if isinstance(x, Like) and x.dtype.is_float:
            return dataclasses.replace(x, dtype=dt.f64)
        if isinstance(x, dt.DType) and x.is_float:
            return dt.f64
        return tuple(map(lifted, x)) if isinstance(x, tuple) else x

    return tuple(map(lifted, arguments))


def likes(arguments: Sequence[Any]) -> list[Like]:
    found: list[Like] = []
    for x in arguments:
        found += [x] if isinstance(x, Like) else likes(x) if isinstance(x, tuple) else []
    return found


def samples(o: Operator) -> list[tuple[Any, ...]]:
    """Its samples in f64 that have a float input with elements, without repetitions."""
    found = {repr(a): a for a in map(in_f64, o.samples()) if any(x.dtype.is_float and 0 not in x.shape for x in likes(a))}
    return list(found.values())


def one_sample(o: Operator) -> tuple[Any, ...] | None:
    """The sample with the most elements, of those with at most 200."""
    size = {repr(a): sum(int(np.prod(x.shape)) for x in likes(a)) for a in samples(o)}
    fitting = [a for a in samples(o) if size[repr(a)] <= 200]
    return max(fitting, key=lambda a: size[repr(a)]) if fitting else None


def differentiable(p: Program) -> bool:
    """Whether a float output depends on a float input."""
    return any(t.dtype.is_float for t in p.inputs) and any(t.dtype.is_float and t.kind != "input" for t in p.outputs)


RANGES = ((-1.5, 1.5), (0.15, 0.85), (1.2, 2.8))


def point(p: Program, wanted: Sequence[Like], seed: int, values_in: tuple[float, float]) -> Point | None:
    """Values in this range (where the sample says nothing) at which the outputs are finite; None where there are none."""
    rng = np.random.default_rng(seed)
    values: dict[T, Array] = {}
    for t, like in zip(p.inputs, wanted, strict=True):
        free = like.dtype.is_float and like.lo is None
        values[t] = np.asarray(rng.uniform(*values_in, t.shape) if free else draw(like, rng, special=0.0))
    directions = {t: np.asarray(rng.standard_normal(t.shape)) for t in p.inputs if t.dtype.is_float}
    weights = {t: np.asarray(rng.standard_normal(t.shape)) for t in p.outputs if t.dtype.is_float}
    made = Point(p, values, directions, weights)
    try:
        run(p, list(values.values()))
        finite = all(np.all(np.isfinite(a)) for h in (0, STEP, -STEP) for a in evaluate(list(weights), made.along(h)))
    except RequireError:
        return None
    return made if finite else None


def points(o: Operator, arguments: tuple[Any, ...], count: int = 1) -> Iterator[tuple[Point, float]]:
    """Points away from kinks (where two estimates of the slope agree), each with the slope; at most `count`."""
    try:
        p = o.program(*arguments)
    except AssayError:
        return
    if not differentiable(p):
        return
    for seed in range(12):
        made = point(p, likes(arguments), seed, RANGES[seed % len(RANGES)])
        if made is None:
            continue
        wanted, apart = slope(made)
        if np.isfinite(wanted) and apart < 1e-9 * max(1.0, abs(wanted)):
            yield made, wanted
            count -= 1
            if not count:
                return


FUNCTIONAL = [o for o in OPERATORS.values() if o.inplace_of is None]
DECLARED = ("detach.default", "overwritten.default")  # what their derivative is, is said, and does not follow from the value
SLOPED = [o for o in FUNCTIONAL if o.name not in (*DECLARED, "round.decimals")]
