"""The legal schedules of a kernel, and their ranking by modelled time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from assay.backends.plan import Schedule
from assay.backends.schedule.cost import Cost, Nest, arithmetic, bits, finish, woken
from assay.backends.schedule.machine import Machine
from assay.backends.schedule.summary import Fold, Summary

Order = tuple[tuple[int, int | None], ...]

COARSE, FULL = "coarse", "full"
CONTINUED = 8  # short runs that follow one another in memory and are read together
MANY_VECTORS = 4  # in so many vectors along an axis, the last one that overlaps does not count
TIMED = 20e-6  # seconds: of quicker kernels only the best schedule is wanted, of others the runners-up are timed too (tune.py)
KEEP = 1.6  # traffic is computed only while arithmetic alone is below the best total; below KEEP times that of a timed kernel


class Choice(NamedTuple):
    """A schedule and its modelled cost."""

    cost: Cost
    schedule: Schedule


def rank(k: Summary, machine: Machine, space: str = FULL) -> list[Choice]:
    """Schedules of the kernel by modelled time, best first.

    First the register tiles by their arithmetic, in the natural order of loops; then, for the best of them, the orders;
    then, for the best of these, the chunks of a carried fold.
    """
    search = _Search(k, machine)
    wide = space == FULL
    natural: Order = tuple((a, None) for a in range(k.rank))
    if 0 in k.sizes:
        return [Choice(Cost(0.0, {"arithmetic": 0.0}), Schedule(order=natural))]
    if any(t.kind == "scatter" for t in k.tensors):  # the order of iterations is part of the meaning
        search.model(Schedule(order=natural))
        for axis in vector_axes(k, machine.lanes):
            if axis is not None and k.alone >> axis & 1:
                search.model(Schedule(axis, 1, (), natural))
        search.found.sort(key=lambda c: c.cost.seconds)
        return search.found
    big = [a for a in range(k.rank) if k.shape[a] > 1]
    for s in search.quickest(tiles(k, machine, natural, wide=wide), 12 if wide else 2):
        search.model(s)
        if s.vector is not None and s.vector != k.rank - 1:
            search.model(s._replace(order=(*(o for o in natural if o[0] != s.vector), (s.vector, None))))
    for c in search.best(4 if wide else 1):
        for order in orders(k, c.schedule, machine.lanes, wide=wide):
            search.model(c.schedule._replace(order=order, threads=None, stream=False))
    for c in search.best(3 if wide else 1):
        for carry in _carries(k, c.schedule.vector, big, wide=wide):
            search.model(c.schedule._replace(carry=carry, threads=None, stream=False))
    search.found.sort(key=lambda c: c.cost.seconds)
    return search.found


class _Search:
    """The schedules modelled so far."""

    def __init__(self, k: Summary, machine: Machine) -> None:
        self.k, self.machine = k, machine
        self.found: list[Choice] = []
        self._nests: dict[Schedule, tuple[Nest, list[tuple[int, float]]]] = {}
        self._done: set[Schedule] = set()

    def _nest(self, s: Schedule) -> tuple[Nest, list[tuple[int, float]]]:
        found = self._nests.get(s)
        if found is None:
            nest = Nest(self.k, s, self.machine)
            found = self._nests[s] = nest, arithmetic(nest) if nest.legal else []
        return found

    def quickest(self, candidates: Iterable[Schedule], count: int) -> list[Schedule]:
        """The schedules of least arithmetic, `count` at most, and no more than half of them of one form."""
        timed: list[tuple[float, int, Schedule]] = []
        for s in candidates:
            nest, cycles = self._nest(s)
            if nest.legal:
                timed.append((sum(c for _, c in cycles), len(timed), s))
        timed.sort(key=lambda t: t[:2])
        forms: dict[tuple[object, ...], int] = {}
        kept: list[Schedule] = []
        for total, _, s in timed:
            form = (s.vector, s.fold, bool(s.jam))
            if forms.get(form, 0) < -(-count // 2) and total < 8 * timed[0][0] and len(kept) < count:
                forms[form] = forms.get(form, 0) + 1
                kept.append(s)
        return kept

    def model(self, s: Schedule) -> None:
        """Add the schedule, with its best thread axis and store kind, to what was found."""
        if s in self._done:
            return
        self._done.add(s)
        nest, cycles = self._nest(s)
        m = self.machine
        alone = sum(c for _, c in cycles) / (m.ghz * 1e9)
        least = min((c.cost.seconds for c in self.found), default=math.inf)
        room = KEEP if least >= TIMED else 1.0
        if nest.legal and min(alone, alone / m.threads + woken(m)) < room * least:
            self.found.append(Choice(*finish(nest, cycles)))

    def best(self, count: int) -> list[Choice]:
        return sorted(self.found, key=lambda c: c.cost.seconds)[:count]


def tiles(k: Summary, machine: Machine, natural: Order, *, wide: bool) -> Iterator[Schedule]:
    """Vector axis, copies, jam and fold mode."""
    lanes = machine.lanes
    big = [a for a in range(k.rank) if k.shape[a] > 1]
    for vector in vector_axes(k, lanes):
        rows = [f for f in k.folds if f.ordered and f.n >= lanes and not (vector is not None and f.varies >> vector & 1)]
        folds = ("seq", "rowvec") if rows else ("seq",)
        for copies in _copies(k, vector, lanes, wide=wide):
            for jam in _jams(k, vector, copies, big, machine, wide=wide):
                for fold in folds:
                    yield Schedule(vector, copies, jam, natural, fold)  # type: ignore[arg-type]


def vector_axes(k: Summary, lanes: int) -> list[int | None]:
    """Axes along which something is contiguous; none (scalar code, rows in lanes) where a fold runs along memory."""
    found: list[int | None] = []
    for axis in range(k.rank - 1, -1, -1):
        if k.shape[axis] >= lanes and any(
            a.steps.get(axis) == 1 and not a.from_data >> axis & 1 for a in k.accesses if a.kind != "row"
        ):
            found.append(axis)
    if not k.folds and not k.rows and (smooth := [a for a in found if _smooth(k, a) and k.shape[a] >= MANY_VECTORS * lanes]):
        return [*smooth]
    along = any(a.steps.get(f.var) == 1 for f in k.folds for a in k.accesses)
    whole_rows = k.rank >= 2 and k.rank - 1 in found and all(not f.varies >> (k.rank - 1) & 1 for f in k.folds)
    if not found or ((along or k.rows) and not whole_rows):  # rows that are folded and then written: lanes write them
        found.append(None)
    return found


def _smooth(k: Summary, axis: int) -> bool:
    """Whether every access is contiguous along the axis, or the same: no other axis has less to do."""
    return all(not a.varies >> axis & 1 or (a.steps.get(axis, 0) <= 1 and not a.bent) for a in k.accesses)


def _copies(k: Summary, vector: int | None, lanes: int, *, wide: bool) -> tuple[int, ...]:
    if vector is None and not k.rows:
        return (1,)
    n = k.shape[vector] if vector is not None else max(k.sizes[v] for v in k.rows)
    if not wide:
        return (max(1, min(2 if k.folds else 4, n // lanes)),)
    return tuple(c for c in ((1, 2) if k.rows else (1, 2, 3, 4)) if c == 1 or lanes * c <= n)


def _jams(
    k: Summary, vector: int | None, copies: int, big: list[int], machine: Machine, *, wide: bool
) -> Iterator[tuple[tuple[int, int], ...]]:
    """No jam, or neighbours of one axis: where something in a fold is reused, or where sums run side by side."""
    yield ()
    if not k.folds:
        if vector is not None and _transposed(k, vector):
            for axis in big:
                if axis != vector and any(a.steps.get(axis) == 1 for a in k.accesses):
                    yield from (((axis, u),) for u in (4, 8) if u <= k.shape[axis])
        return
    inner = sum(1 << f.var for f in k.folds)
    useful = [
        axis for axis in reversed(big) if axis != vector
        and any((a.place & inner and not a.varies >> axis & 1) or (f.varies >> axis & 1 and not _in_lanes(f, vector))
                for f in k.folds for a in k.accesses)
    ]  # fmt: skip
    for axis in useful[:2] if wide else useful[:1]:
        for u in ((2, 3, 4, 6, 8) if k.rows else (2, 3, 4, 5, 6, 8, 12)) if wide else (6,) if vector is not None else (4,):
            if u <= k.shape[axis] and u * (copies if vector is not None else 1) <= machine.registers - 2:
                yield ((axis, u),)


def _in_lanes(f: Fold, vector: int | None) -> bool:
    return vector is not None and bool(f.varies >> vector & 1)


def orders(k: Summary, s: Schedule, lanes: int, *, wide: bool = True) -> Iterator[Order]:
    """Orders of the loops, other than the natural one, that may suit the register tile of `s`."""
    natural: Order = tuple((a, None) for a in range(k.rank))
    big = [a for a in range(k.rank) if k.shape[a] > 1]
    vector = s.vector
    if vector is None or len(big) < 2:
        return
    for axis in _continued(k, vector) if wide and not k.folds else ():
        yield ((axis, CONTINUED), *(o for o in natural if o[0] not in (axis, vector)), (axis, None), (vector, None))
    turned = _transposed(k, vector)
    jam = dict(s.jam)
    once = [*(f.place for f in k.folds), *k.rows.values()]  # a loop around these that they are not in would repeat them
    for axis in jam or ([a for a in big if a != vector] if turned or (not k.folds and vector != k.rank - 1) else []):
        if any(at >> axis & 1 and not at >> vector & 1 for at in once):
            continue
        u = jam.get(axis, 1)
        rest = tuple(o for o in natural if o[0] not in (axis, vector))
        if k.shape[axis] >= 4 * u:
            yield (*rest, (vector, None), (axis, None))
        for block in sorted({u * max(1, m // u) for m in ((160,) if k.folds else (16, 64))}) if wide or turned else ():
            if block < k.shape[axis] and block % u == 0:
                yield (*rest, (axis, block), (vector, None), (axis, None))
        width = s.copies * lanes
        for block in sorted({width * max(1, m // width) for m in (64, 128)}) if wide and axis in jam else ():
            if 2 * block <= k.shape[vector]:
                yield (*rest, (vector, block), (axis, None), (vector, None))


def _continued(k: Summary, vector: int) -> list[int]:
    """The axes along which a load goes on where the vector axis has ended, with an axis in between that leads far away."""
    return [
        axis for axis in range(vector) if k.shape[axis] >= 2 * CONTINUED and any(
            a.kind == "load" and not a.bent and a.steps.get(vector) == 1 and a.steps.get(axis) == k.shape[vector]
            and any(a.steps.get(v, 0) >= k.shape[vector] * CONTINUED for v in range(axis + 1, vector)) for a in k.accesses
        )
    ]  # fmt: skip


def _transposed(k: Summary, vector: int) -> bool:
    """Whether something is read against the grain: contiguous along another axis than the lanes."""
    return any(
        a.kind == "load" and a.steps.get(vector, 0) > 1 and any(a.steps.get(v) == 1 for v in bits(k.axes_mask))
        for a in k.accesses
    )


def _carries(k: Summary, vector: int | None, big: list[int], *, wide: bool) -> Iterator[int | None]:
    axes = sum(1 << a for a in big)
    if vector is None or k.rows or k.chained or len(k.folds) != len(k.tensors):
        return
    nested = any(len(k.beside.get(f.var, ())) < at for at, f in enumerate(k.folds))  # one in another is whole before that begins
    if not nested and all(f.accumulators == 1 and f.place == axes and f.n == k.folds[0].n for f in k.folds):
        for carry in (4, 8, 16, 64, 256) if wide else (8,):
            if 2 * carry <= k.folds[0].n:
                yield carry
