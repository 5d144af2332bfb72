"""Saving against recomputing as a cut (definitions 5.1 and 5.2).

The forward has values 0 .. n-1, each computed from its parents.  The backward reads the values in `wanted`.  It gets a value
that it needs either saved by the forward, or computed again, and then it needs the parents too:

    needs(v)  <=  v in wanted, or v is a parent of a recomputed value          recomputed = needs - saved
    cost(C)    =  sum of save[v] for v in C  +  sum of recompute[v] for v recomputed with C saved

A price of infinity forbids.  With prices of recomputing that are 0 or infinity (the set U) this is the document's model: C is
feasible when each path from U to `wanted` meets C (definition 5.1).  The network (definition 5.2) has two vertices a value:

    v_in -> v_out   save[v]          s -> v_in   recompute[v]          u_out -> v_in   infinite, u a parent of v
    v_out -> t      infinite, v in wanted

A finite cut (S, T) saves the values whose edge v_in -> v_out it cuts, and recomputes those with v_in in T; it costs as much.
Of the minimum cuts the one with the smallest T is taken: it recomputes least.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np

from assay.core.errors import InternalError, UserError
from assay.partition.maxflow import Network, minimum_cut

Price = int | float
"""A whole number >= 0, or infinity."""


@dataclass(frozen=True)
class Values:
    """parents[v] < v for each value; prices of saving and of recomputing it; the values that the backward reads."""

    parents: tuple[tuple[int, ...], ...]
    save: tuple[Price, ...]
    recompute: tuple[Price, ...]
    wanted: frozenset[int]

    def __post_init__(self) -> None:
        n = len(self.parents)
        if not n == len(self.save) == len(self.recompute):
            raise UserError(f"{n} values with {len(self.save)} prices of saving and {len(self.recompute)} of recomputing")
        for v, parents in enumerate(self.parents):
            if any(not 0 <= u < v for u in parents):
                raise UserError(f"value {v} has the parents {parents}; a value comes after its parents")
        for p in (*self.save, *self.recompute):
            if p != math.inf and (p != int(p) or p < 0):
                raise UserError(f"price {p}; a price is a whole number >= 0 or infinity")
        if any(not 0 <= v < n for v in self.wanted):
            raise UserError(f"the backward reads {sorted(self.wanted)}; there are {n} values")

    def __len__(self) -> int:
        return len(self.parents)


@dataclass(frozen=True)
class Choice:
    """A feasible set, what is recomputed with it, and its cost."""

    saved: frozenset[int]
    recomputed: frozenset[int]
    cost: int


def needed(values: Values, saved: Collection[int], wanted: Iterable[int] | None = None) -> frozenset[int]:
    """The values that the backward needs when `saved` are saved, those among them included; `wanted` None: what it reads."""
    found = set(values.wanted if wanted is None else wanted)
    todo = list(found)
    while todo:
        v = todo.pop()
        if v not in saved:
            new = set(values.parents[v]) - found
            found |= new
            todo += new
    return frozenset(found)


def recomputed(values: Values, saved: Collection[int]) -> frozenset[int]:
    """The values that the backward computes again when `saved` are saved."""
    return needed(values, saved) - frozenset(saved)


def meets_every_path(values: Values, saved: Collection[int]) -> bool:
    """Definition 5.1, by its words: each path from a value that must not be recomputed to a wanted one meets `saved`."""
    reached = [False] * len(values)  # by a path from such a value that avoids `saved`
    for v, parents in enumerate(values.parents):
        reached[v] = v not in saved and (values.recompute[v] == math.inf or any(reached[u] for u in parents))
    return not any(reached[v] for v in values.wanted)


def cost(values: Values, saved: Collection[int]) -> Price:
    """What it costs to save these values; infinity where that is not feasible."""
    return sum(values.save[v] for v in saved) + sum(values.recompute[v] for v in recomputed(values, saved))


def network(values: Values) -> Network:
    """The network of definition 5.2: v_in is the vertex 2 v, v_out is 2 v + 1, then s and t."""
    n = len(values)
    source, sink = 2 * n, 2 * n + 1
    edges: list[tuple[int, int, Price]] = [(2 * v, 2 * v + 1, p) for v, p in enumerate(values.save)]
    edges += [(2 * u + 1, 2 * v, math.inf) for v, parents in enumerate(values.parents) for u in parents]
    edges += [(source, 2 * v, p) for v, p in enumerate(values.recompute) if p]
    edges += [(2 * v + 1, sink, math.inf) for v in values.wanted]
    return Network(2 * n + 2, edges, source, sink)


def cheapest(values: Values) -> Choice | None:
    """A feasible set of least cost, of these one that recomputes least; None where every set costs infinity.

    The cut comes with a flow of the same value, which proves both optimal (theorem 5.2), and the cost is counted again.
    """
    found = minimum_cut(network(values))
    if found is None:
        return None
    saved = frozenset(_cut_values(found.source_side, len(values)))
    choice = Choice(saved, recomputed(values, saved), found.value)
    if cost(values, saved) != found.value:
        raise InternalError(f"a cut of {found.value} saves {sorted(saved)}, which costs {cost(values, saved)}")
    return choice


def _cut_values(side: np.ndarray, n: int) -> Iterable[int]:
    return (int(v) for v in np.flatnonzero(side[0 : 2 * n : 2] & ~side[1 : 2 * n : 2]))
