"""Small launches, run in full: every program of a few launches whose sizes satisfy the conditions.

What happens in one of them did happen: an access outside or a conflict of two writes is a counterexample.  Where no condition
and no index depends on a float, floats are not computed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.core.errors import AssayError
from assay.kernels import terms as tm
from assay.kernels.arguments import Launch, Tensor
from assay.kernels.concrete import Arrays, Event, FloatsNeeded, TooLong, run_all
from assay.kernels.deciding import KernelQuestion, Points, TermReading
from assay.kernels.source import Module
from assay.kernels.terms import FALSE, Cond, Leaf
from assay.kernels.witness import concrete_arguments

PROGRAMS = 80  # most programs of a small launch
LAUNCHES = 6
WORK = 1 << 23  # elements computed in one


@dataclass(frozen=True)
class Trial:
    """One launch: its sizes and what happened."""

    sizes: dict[str, int]
    events: list[Event]


def run_trials(module: Module, kernel: ast.FunctionDef, launch: Launch, given: tuple[Cond, ...]) -> list[Trial]:
    """A few launches of few programs that satisfy the conditions."""
    found: list[Trial] = []
    for sizes, grid, value in small_launches(launch, given):
        for floats in (False, True):
            arguments = concrete_arguments(launch, value)
            scalars = [v[1] for v in arguments.values() if isinstance(v, tuple) and isinstance(v[1], int)]
            arrays = {n: elements(t, value, scalars) for n, t in launch.parameters.items() if isinstance(t, Tensor)}
            events: list[Event] = []
            try:
                events.extend(run_all(module, kernel, arguments, grid, Arrays(arrays), work=WORK, floats=floats))
            except FloatsNeeded:
                continue
            except TooLong:
                pass
            except AssayError:
                break
            found.append(Trial(sizes, events))
            break
    return found


def elements(t: Tensor, value: Any, scalars: list[int]) -> Any:
    """Elements of the tensor's range: any, often the same few or the value of an argument, to meet the kernel's conditions."""
    count = value(t.count)
    if t.type.is_float:
        return np.ones(count, t.type.numpy)
    lo = value(t.lower) if t.lower is not None else max(t.type.lo, -2)
    hi = value(t.upper) if t.upper is not None else min(t.type.hi, 300)
    few = [x for x in (lo, hi, *scalars) if lo <= x <= hi] or [lo]
    rng = np.random.default_rng(0)
    drawn = np.where(rng.random(count) < 0.25, rng.integers(lo, max(lo, hi) + 1, count), rng.choice(few, count))
    return drawn.astype(t.type.numpy)


def small_launches(
    launch: Launch, given: tuple[Cond, ...], count: int = LAUNCHES
) -> Iterator[tuple[dict[str, int], tuple[int, ...], Any]]:
    """(sizes, grid, value of a term) for a few launches of few programs that satisfy the conditions, of several if possible."""
    leaves = [a for a in tm.walk((*given, *launch.grid, *launch.sizes.values())) if isinstance(a, Leaf)]
    q = KernelQuestion(FALSE, (*given, *(tm.nonnegative(tm.poly(a) - a.lo) for a in leaves)))
    found: list[tuple[int, dict[Any, int]]] = []
    for cap in (4, 40, 400, 4000):
        columns = _drawn_small(q, leaves, cap)
        holds, _ = q.points(columns) if columns else (np.ones(1, bool), None)
        reading = TermReading(Points(True), dict(columns))
        programs: Any = 1
        for g in launch.grid:
            programs = programs * reading.poly(g)
        programs = np.broadcast_to(np.asarray(programs, object), np.shape(holds))
        for k in np.flatnonzero(holds):
            if 1 <= programs[k] <= PROGRAMS:
                found.append((int(programs[k]), {a: int(c[k]) for a, c in columns.items()}))
    several = sorted((f for f in found if f[0] > 1), key=lambda f: (f[0], sum(f[1].values())))
    chosen = several[:: max(1, len(several) // count)][:count] or found[:1]
    for _, point in chosen:
        reading = TermReading(Points(True), {a: np.array(v, object) for a, v in point.items()})
        value = lambda p, r=reading: int(r.poly(p))  # noqa: E731
        yield {n: value(p) for n, p in launch.sizes.items() if p.constant is None}, tuple(value(g) for g in launch.grid), value


def _drawn_small(q: KernelQuestion, leaves: list[Leaf], cap: int) -> dict[Any, Any]:
    rng = np.random.default_rng(cap)
    columns: dict[Any, Any] = {}
    reading = TermReading(Points(True), columns)
    reading.known = columns
    for a in leaves:
        lo = reading.poly(a.lower) if a.lower is not None else a.lo
        hi = reading.poly(a.upper) if a.upper is not None else a.hi
        lo = np.maximum(np.broadcast_to(np.asarray(lo, object), (64,)), a.lo if a.lo >= 0 or a.hi <= 0 else max(a.lo, -1))
        hi = np.minimum(np.minimum(np.broadcast_to(np.asarray(hi, object), (64,)), a.hi), lo + cap)
        columns[a] = lo + np.array([int(x) for x in rng.random(64) * np.maximum((hi - lo + 1).astype(float), 1)], object)
        columns[a] = np.minimum(columns[a], np.maximum(hi, lo))
    return {a: c for a, c in columns.items() if isinstance(a, Leaf)}
