"""The legal schedules of a kernel, and their ranking by modelled time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from assay.backends.plan import Schedule
from assay.backends.schedule.cost import Cost, Nest, arithmetic, bits, finish
from assay.backends.schedule.machine import Machine
from assay.backends.schedule.summary import Summary

Order = tuple[tuple[int, int | None], ...]

COARSE, FULL = "coarse", "full"
KEEP = 1.6  # traffic is computed only while arithmetic alone is below KEEP times the best total


@dataclass(frozen=True)
class Choice:
    """A schedule and its modelled cost."""

    cost: Cost
    schedule: Schedule


def rank(summary: Summary, machine: Machine, space: str = FULL) -> list[Choice]:
    """The schedules of the kernel by modelled time, best first."""
    trials: list[tuple[float, int, Nest, list[tuple[int, float]]]] = []
    for s in schedules(summary, machine, space):
        nest = Nest(summary, s, machine)
        if nest.legal:
            cycles = arithmetic(nest)
            trials.append((sum(c for _, c in cycles), len(trials), nest, cycles))
    trials.sort(key=lambda t: t[:2])
    found: list[Choice] = []
    top = math.inf
    for total, _, nest, cycles in trials:
        if total / machine.threads / (machine.ghz * 1e9) > KEEP * top:
            break
        c, s = finish(nest, cycles)
        found.append(Choice(c, s))
        top = min(top, c.seconds)
    found.sort(key=lambda c: c.cost.seconds)
    return found


def schedules(k: Summary, machine: Machine, space: str = FULL) -> Iterator[Schedule]:
    """The schedules worth modelling."""
    lanes = machine.lanes
    big = [a for a in range(k.rank) if k.shape[a] > 1]
    natural: Order = tuple((a, None) for a in range(k.rank))
    if any(t.kind == "scatter" for t in k.tensors):
        yield Schedule(order=natural)
        return
    for vector in vector_axes(k, lanes):
        rows = [f for f in k.folds if f.ordered and f.n >= lanes and not (vector is not None and f.varies >> vector & 1)]
        folds = ("seq", "rowvec") if rows else ("seq",)
        for copies in _copies(k, vector, lanes, space):
            for jam in _jams(k, vector, copies, big, machine, space):
                for fold in folds:
                    for order in _orders(k, vector, jam, big, natural, copies * lanes, space):
                        for carry in _carries(k, vector, big):
                            yield Schedule(vector, copies, jam, order, fold, carry)  # type: ignore[arg-type]


def vector_axes(k: Summary, lanes: int) -> list[int | None]:
    """Axes along which something is contiguous; none (scalar code, rows in lanes) where a fold runs along memory."""
    found: list[int | None] = []
    for axis in range(k.rank - 1, -1, -1):
        if k.shape[axis] >= lanes and any(a.steps.get(axis) == 1 and not a.from_data >> axis & 1 for a in k.accesses if a.kind != "row"):
            found.append(axis)
    along = any(a.steps.get(f.var) == 1 for f in k.folds for a in k.accesses)
    if not found or along or k.rows:
        found.append(None)
    return found


def _copies(k: Summary, vector: int | None, lanes: int, space: str) -> tuple[int, ...]:
    if vector is None and not k.rows:
        return (1,)
    n = k.shape[vector] if vector is not None else max(k.sizes[v] for v in k.rows)
    wanted = (1, 2, 4) if space == COARSE else (1, 2, 3, 4, 8) if k.folds else (1, 2, 4, 8)
    return tuple(c for c in wanted if c == 1 or lanes * c <= n + lanes - 1)


def _jams(k: Summary, vector: int | None, copies: int, big: list[int], machine: Machine, space: str) -> Iterator[tuple[tuple[int, int], ...]]:
    yield ()
    if not k.folds:
        return
    sizes = (4, 6, 8) if space == COARSE else (2, 3, 4, 5, 6, 8, 12)
    for axis in big:
        if axis == vector or not any(not f.varies >> axis & 1 or True for f in k.folds):
            continue
        for u in sizes:
            if u <= k.shape[axis] and u * (copies if vector is not None else 1) <= machine.registers:
                yield ((axis, u),)


def _orders(k: Summary, vector: int | None, jam: tuple[tuple[int, int], ...], big: list[int], natural: Order,
            width: int, space: str) -> Iterator[Order]:  # fmt: skip
    yield natural
    if vector is None or len(big) < 2:
        return
    if vector != k.rank - 1:
        yield (*(o for o in natural if o[0] != vector), (vector, None))
    turned = _transposed(k, vector)
    others = [a for a, _ in jam] or ([a for a in big if a != vector] if turned or not k.folds and vector != k.rank - 1 else [])
    for axis in others:
        u = dict(jam).get(axis, 1)
        rest = tuple(o for o in natural if o[0] not in (axis, vector))
        if k.shape[axis] >= 4 * u:
            yield (*rest, (vector, None), (axis, None))
        for block in sorted({u * max(1, m // u) for m in ((64, 160) if k.folds else (16, 64))}) if space == FULL or turned else ():
            if block < k.shape[axis]:
                yield (*rest, (axis, block), (vector, None), (axis, None))


def _transposed(k: Summary, vector: int) -> bool:
    """Whether something is read against the grain: contiguous along another axis than the lanes."""
    return any(
        a.kind == "load" and a.steps.get(vector, 0) > 1 and any(a.steps.get(v) == 1 for v in bits(k.axes_mask)) for a in k.accesses
    )


def _carries(k: Summary, vector: int | None, big: list[int]) -> Iterator[int | None]:
    yield None
    axes = sum(1 << a for a in big)
    if vector is None or k.rows or k.chained or len(k.folds) != len(k.tensors):
        return
    if all(f.accumulators == 1 and f.place == axes and f.n == k.folds[0].n for f in k.folds):
        for carry in (4, 8, 64, 256):
            if 2 * carry <= k.folds[0].n:
                yield carry
