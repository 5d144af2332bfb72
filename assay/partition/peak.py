"""The partition under a limit on the peak of memory, the backward's own temporaries included.

    footprint(halves)        bytes held at once: by the forward with all its results, by the backward with what was saved for it
    within_peak(joint, M)    little time with a footprint of at most M

Counted by liveness on the programs that the passes make of both halves, without what the caller holds (inputs, cotangents).
The peak is no sum over values: a saved value is held throughout, a recomputed one only around its readers, and then it needs its
parents.  So choices that are good for saved bytes are tried, and then values are flipped one by one where that pays.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from assay.core.errors import UserError
from assay.core.lang import Program
from assay.partition.budget import frontier, within
from assay.partition.joint import Joint, Split, split
from assay.partition.network import needed
from assay.partition.prices import Costs, Partition, costs, cut, save_none
from assay.semantics.lifetimes import working_bytes
from assay.transforms.pipeline import optimise

BUDGETS = 12
"""Limits on saved bytes whose best choices are tried."""

FLIPS = 24
"""Values that are flipped, at most, once a choice fits (or to make one fit)."""

ROUNDS = 4
"""How often the limit is lowered where compiled code holds more than was simulated."""


@dataclass(frozen=True)
class Footprint:
    """Bytes that either half holds at most, without what the caller holds."""

    forward: int
    backward: int

    @property
    def peak(self) -> int:
        return max(self.forward, self.backward)


def footprint(halves: Split, held: Callable[[Program], int] = working_bytes) -> Footprint:
    """What both halves hold at most, after the passes; `held` says it of one program: simulated, or what a backend allocates."""
    forward, backward = (held(optimise(p)[-1].program) for p in (halves.forward, halves.backward))
    return Footprint(forward, halves.saved_bytes + backward)


def within_peak(joint: Joint, *, peak: int, saved: int | None = None,
                held: Callable[[Program], int] = working_bytes) -> Partition:  # fmt: skip
    """A partition with a footprint of at most `peak` and at most `saved` bytes saved; of those tried the one of least time.

    The search goes by the simulated footprint.  Where `held` (what a backend allocates) says more of its result, it starts again
    with a limit as much lower.  Raises UserError with the least that was found where none fits.
    """
    limit, least = peak, math.inf
    for _ in range(ROUNDS):
        found = _within_peak(joint, peak, limit, saved)
        if held is working_bytes or (real := footprint(found.split, held).peak) <= peak:
            return found
        limit, least = min(limit - 1, limit * peak // real), min(least, real)
    raise UserError(f"a peak of {peak} bytes was asked for; compiled code of the choices that were tried needs {least} or more")


def _within_peak(joint: Joint, asked: int, peak: int, saved: int | None) -> Partition:
    search = _Search(joint, costs(joint), peak, saved)
    policy = f"a peak of at most {asked:,} bytes"
    for c in search.candidates():
        if search.fits(c):
            best = search.improved(c)
            return Partition(search.halves(best), search.costs, best, policy)
    best = search.reduced()
    if not search.fits(best):
        raise UserError(
            f"a peak of {asked} bytes was asked for; the least that was found is {search.measured(best)} bytes, with "
            f"{search.costs.saved_bytes(best)} of them saved. Allow that much, make the batch smaller, or checkpoint: "
            "values that are recomputed block by block need less"
        )
    return Partition(search.halves(best), search.costs, best, policy)


class _Search:
    def __init__(self, joint: Joint, c: Costs, peak: int, limit: int | None) -> None:
        self.joint, self.costs, self.peak, self.limit = joint, c, peak, limit
        self._halves: dict[frozenset[int], Split] = {}
        self._measured: dict[frozenset[int], int] = {}

    def halves(self, saved: frozenset[int]) -> Split:
        if saved not in self._halves:
            self._halves[saved] = split(self.joint, self.costs.chosen(saved))
        return self._halves[saved]

    def measured(self, saved: frozenset[int]) -> int:
        if saved not in self._measured:
            self._measured[saved] = footprint(self.halves(saved)).peak
        return self._measured[saved]

    def fits(self, saved: frozenset[int]) -> bool:
        return self.allowed(saved) and self.measured(saved) <= self.peak

    def allowed(self, saved: frozenset[int]) -> bool:
        return self.limit is None or self.costs.saved_bytes(saved) <= self.limit

    def candidates(self) -> list[frozenset[int]]:
        """Choices that are best for some limit on saved bytes, the quickest first."""
        most = min(cut(self.joint).saved_bytes, math.inf if self.limit is None else self.limit)
        found = {p.saved for p in frontier(self.joint, given=self.costs)} | {save_none(self.joint).saved}
        least = min(map(self.costs.saved_bytes, found))
        for k in range(BUDGETS + (self.limit is not None)):
            found.add(within(self.joint, saved=int(least + (most - least) * k // BUDGETS)).saved)
        return sorted(filter(self.allowed, found), key=lambda c: (self.costs.time(c), sorted(c)))

    def improved(self, best: frozenset[int]) -> frozenset[int]:
        """The choice after flips that take less time and still fit."""
        for v in self._flips(best):
            c = self._flipped(best, v)
            if self.costs.time(c) < self.costs.time(best) and self.fits(c):
                best = c
        return best

    def reduced(self) -> frozenset[int]:
        """The choice of least peak that was tried, after flips that lower it."""
        best = min(self._measured, key=lambda c: (self._measured[c], self.costs.time(c), sorted(c)))
        for v in self._flips(best):
            c = self._flipped(best, v)
            if self.allowed(c) and self.measured(c) < self.measured(best):
                best = c
                if self.fits(best):
                    break
        return best

    def _flips(self, saved: frozenset[int]) -> list[int]:
        """The values by what flipping each alone gains in time."""
        free = [v for v in needed(self.costs.plain, saved) if self.costs.recompute[v] is not None]
        return sorted(free, key=lambda v: (self.costs.time(self._flipped(saved, v)), v))[:FLIPS]

    def _flipped(self, saved: frozenset[int], v: int) -> frozenset[int]:
        changed = saved ^ {v}
        return changed & needed(self.costs.plain, changed)
