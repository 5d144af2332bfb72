"""The partition under a limit on saved bytes, and the frontier of bytes against time.

    within(joint, saved=M)    least time with at most M saved bytes
    frontier(joint)           (bytes, time) of the choices that some price of a byte makes best

The exact answer is an integer program (HiGHS), with the bound that it proves; it is NP-hard in general, and beyond EXACT values
the frontier's best point that fits is filled up instead.  Then the frontier is the bound: it is the lower convex hull of all
choices, so that no choice lies below its chords.
"""

from __future__ import annotations

import math
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

from assay.core.errors import UserError
from assay.partition.joint import Joint, split
from assay.partition.network import Values, cheapest, needed, recomputed
from assay.partition.prices import PICOSECONDS, Costs, Partition, costs

EXACT = 2000
"""The most values for which the integer program is solved."""

NODES = 20_000
"""Branches after which the solver returns the best that it has, with the gap."""

RANGE = 1 << 60
"""Prices are scaled so that all of them together stay below."""

ROUNDS = 4
"""How often what a budget leaves is filled up, beyond EXACT values."""


@dataclass(frozen=True)
class Point:
    """Saved bytes, seconds of saving and recomputing, and the choice that has them."""

    bytes: int
    time: float
    saved: frozenset[int]


def frontier(joint: Joint, *, given: Costs | None = None) -> tuple[Point, ...]:
    """The vertices of the lower convex hull of (bytes, time), by bytes; each saves more than the one before and takes less time.

    Every vertex is a minimum cut; what only the backward needs is charged as in `Costs.values`.
    """
    c = costs(joint) if given is None else given
    return _frontier(c, c.plain)


def _frontier(c: Costs, plain: Values) -> tuple[Point, ...]:
    found: dict[frozenset[int], Point] = {}

    def at(time: float, byte: float) -> Point:
        saved = _weighed(plain, c.bytes, time, byte)
        return found.setdefault(saved, Point(c.saved_bytes(saved), c.time(saved) / PICOSECONDS, saved))

    todo = [(at(1, 0), at(0, 1))]
    while todo:
        a, b = todo.pop()  # a saves more, b takes longer
        if a.bytes <= b.bytes or b.time <= a.time:
            continue
        time, byte = (a.bytes - b.bytes) / PICOSECONDS, b.time - a.time
        p = at(time, byte)
        if _price(p, time, byte) < _price(a, time, byte) * (1 - 1e-9) and p not in (a, b):
            todo += [(a, p), (p, b)]
    best: list[Point] = []
    for p in sorted(found.values(), key=lambda p: (p.bytes, p.time)):
        if not best or p.time < best[-1].time:
            best.append(p)
    return tuple(best)


def _price(p: Point, time: float, byte: float) -> float:
    return p.time * PICOSECONDS * time + p.bytes * byte


def _weighed(plain: Values, sizes: Sequence[float], time: float, byte: float) -> frozenset[int]:
    """The choice of least time * picoseconds + byte * bytes; of equal ones the one that counts less of what weighs nothing."""
    total = sum(p for p in (*plain.save, *plain.recompute) if p != math.inf) + 1
    everything = sum(sizes) + 1
    most = time * total + byte * everything
    time, byte = max(time / most * RANGE / 4, 1 / total), max(byte / most * RANGE / 4, 1 / everything)
    save = tuple(p if p == math.inf else round(time * p + byte * b) for p, b in zip(plain.save, sizes, strict=True))
    again = tuple(p if p == math.inf else round(time * p) for p in plain.recompute)
    chosen = cheapest(Values(plain.parents, save, again, plain.wanted))
    assert chosen is not None
    return chosen.saved


def within(joint: Joint, *, saved: int, exact: bool | None = None) -> Partition:
    """The partition of least time with at most this many saved bytes; `exact` None: as the number of values says.

    Raises UserError, with the least that is possible, where there is none.
    """
    c = costs(joint)
    fixed = frozenset(v for v in recomputed(c.plain, ()) if c.recompute[v] is None)
    least = c.saved_bytes(fixed)
    if saved < least:
        raise UserError(
            f"memory_budget={saved}: at least {least} bytes have to be saved, the inputs {list(c.chosen(fixed))}, which are "
            f"overwritten after the forward, as drawing does a generator's state; allow {least} or more, or do not change them"
        )
    if exact is None:
        exact = len(c.tensors) <= EXACT
    chosen, bound = _integer_program(c, saved) if exact else _filled(c, saved)
    policy = f"at most {saved:,} bytes"
    return Partition(split(joint, c.chosen(chosen)), c, chosen, policy, bound)


# ------------------------------------------------------------------------------------------------ the integer program


class _Program:
    """Variables in [0, 1] with costs, and rows lo <= sum of coefficients * variables <= hi."""

    def __init__(self) -> None:
        self.costs: list[float] = []
        self.whole: list[int] = []
        self.most: list[float] = []
        self.rows: list[tuple[dict[int, float], float, float]] = []

    def variable(self, cost: float = 0, *, whole: bool = False, most: float = 1) -> int:
        self.costs.append(cost)
        self.whole.append(int(whole))
        self.most.append(most)
        return len(self.costs) - 1

    def implies(self, a: int, *b: int) -> None:
        """a <= the sum of b."""
        self.rows.append(({a: -1.0, **dict.fromkeys(b, 1.0)}, 0, math.inf))

    def at_most(self, terms: dict[int, float], most: float) -> None:
        self.rows.append((terms, -math.inf, most))

    def solve(self, nodes: int) -> Any:
        import numpy as np
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_array

        at = [(k, v, a) for k, (terms, _, _) in enumerate(self.rows) for v, a in terms.items()]
        matrix = csr_array(([a for *_, a in at], ([k for k, *_ in at], [v for _, v, _ in at])),
                           shape=(len(self.rows), len(self.costs)))  # fmt: skip
        lo, hi, most = map(np.array, ([lo for _, lo, _ in self.rows], [hi for *_, hi in self.rows], self.most))
        limits, bounds = LinearConstraint(matrix, lo, hi), Bounds(0, most)  # type: ignore[arg-type]
        return milp(self.costs, integrality=np.array(self.whole), bounds=bounds, constraints=limits,
                    options={"node_limit": nodes, "mip_rel_gap": 0.0})  # fmt: skip


def _integer_program(c: Costs, limit: int) -> tuple[frozenset[int], float]:
    """The choice of least time within the limit, and a time (picoseconds) below which there is none."""
    n, q = len(c.tensors), _Program()
    if not n:  # the backward reads nothing that the forward computes
        return frozenset(), 0.0
    unit = max(1, max((p or 0 for p in (*c.save, *c.recompute)), default=1))  # prices between 0 and 1
    free = [r is None for r in c.recompute]
    s = [q.variable(p / unit, whole=True) for p in c.save]
    again = [q.variable((p or 0) / unit, whole=True, most=0 if never else 1) for p, never in zip(c.recompute, free, strict=True)]
    needs = [q.variable() for _ in range(n)]
    early = {v: q.variable((c.recompute[v] or 0) / unit) for v in range(n) if c.extra[v]}
    for v in range(n):
        q.implies(needs[v], s[v], again[v])
        for u in c.parents[v]:
            q.implies(again[v], needs[u])
            if v in early and u in early:
                q.implies(early[v], early[u])
        if v in early:
            q.implies(s[v], early[v])
        if v in c.wanted:
            q.rows.append(({needs[v]: 1.0}, 1, 1))
    q.at_most({s[v]: float(c.bytes[v]) for v in range(n)}, limit)
    result = q.solve(NODES)
    if result.x is None:  # no choice was found within NODES branches
        return _filled(c, limit)
    chosen = frozenset(v for v in range(n) if result.x[s[v]] > 0.5)
    chosen = _trimmed(c, chosen)
    bound = getattr(result, "mip_dual_bound", None)
    return chosen, min(c.time(chosen), (0.0 if bound is None else float(bound)) * unit)


def _trimmed(c: Costs, chosen: frozenset[int]) -> frozenset[int]:
    """The choice without what nothing needs."""
    return chosen & needed(c.plain, chosen)


# ------------------------------------------------------------------------------------------------ beyond its size


def _filled(c: Costs, limit: int) -> tuple[frozenset[int], float]:
    """The best point of the frontier that fits, with what the rest of the budget buys, round by round; and the hull's bound.

    In the rounds a byte of a later value is a little dearer: of blocks that are alike some are bought, not all or none.
    """
    chosen, bound = _best_fit(c, c.plain, c.bytes, limit)
    if any(c.extra):  # these are charged with what they may share: a bound counts none of it
        bound = _best_fit(c, replace(c.plain, save=c.save), c.bytes, limit)[1]
    for k in range(ROUNDS):
        left = limit - c.saved_bytes(chosen)
        open_ = [0 if v in chosen else b for v, b in enumerate(c.bytes)]
        save = tuple(0 if v in chosen else p if open_[v] <= left else math.inf for v, p in enumerate(c.plain.save))
        slope = [b * (1 + v / (len(open_) << k)) for v, b in enumerate(open_)]
        found, _ = _best_fit(replace(c, bytes=tuple(open_)), replace(c.plain, save=save), slope, left)
        more = _trimmed(c, chosen | found)
        if c.saved_bytes(more) <= limit and c.time(more) < c.time(chosen):
            chosen = more
    return chosen, bound


def _best_fit(c: Costs, plain: Values, sizes: Sequence[float], limit: int) -> tuple[frozenset[int], float]:
    """A choice of little time on the frontier with at most `limit` bytes, and the time of the hull there.

    `sizes` are what the search takes for the bytes.
    """
    fits, beyond = _weighed(plain, sizes, 0, 1), _weighed(plain, sizes, 1, 0)
    if c.saved_bytes(beyond) <= limit:
        return beyond, _time(plain, beyond)
    for _ in range(100):  # the hull has fewer vertices between
        more, less = _total(sizes, beyond) - _total(sizes, fits), _time(plain, fits) - _time(plain, beyond)
        found = _weighed(plain, sizes, more, less) if more > 0 and less > 0 else fits
        if found in (fits, beyond):
            break
        if c.saved_bytes(found) <= limit:
            fits = found
        else:
            beyond = found
    x, y = c.saved_bytes(fits), c.saved_bytes(beyond)
    a, b = _time(plain, fits), _time(plain, beyond)
    return fits, a + (b - a) * (limit - x) / (y - x) if y > x else a


def _total(sizes: Sequence[float], saved: Set[int]) -> float:
    return sum(sizes[v] for v in saved)


def _time(plain: Values, saved: Set[int]) -> float:
    return sum(plain.save[v] for v in saved) + sum(plain.recompute[v] for v in recomputed(plain, saved))
