"""A minimum cut by maximum flow, exact for capacities of any size, with a certificate.

The flow is scipy's (Dinic), which computes in 32 bits and returns 0, without a word, where one capacity does not fit.  So

1. a capacity beyond some known cut counts as that cut and 1: no minimum cut changes, and infinity becomes a number;
2. what still does not fit is computed digit by digit: a flow for the capacities without their low bits, then one in the
   residual network for what is left, which is less than one unit of the digit for each edge;
3. the flow is checked: conserved, within the capacities, and of the value of the cut that is returned.  A flow and a cut of
   equal value are both optimal, whoever found them (theorem 5.2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.core.errors import InternalError, Unsupported

BITS = 30
"""Capacities below 2**BITS are what the solver computes with: both directions of an edge together must fit 31 bits."""

WIDEST = 1 << 62
"""The sum of all finite capacities must be below it."""


@dataclass(frozen=True)
class Network:
    """Vertices 0 .. vertices-1, edges (from, to, capacity), a source and a sink.  A capacity is a whole number or infinity."""

    vertices: int
    edges: Sequence[tuple[int, int, int | float]]
    source: int
    sink: int


@dataclass(frozen=True)
class Cut:
    """The value of a minimum cut, which vertices are on the side of the source, and the flow on each edge that proves it."""

    value: int
    source_side: np.ndarray
    flow: np.ndarray


def minimum_cut(network: Network) -> Cut | None:
    """A minimum cut, the one with the fewest vertices on the side of the sink; None where every cut is infinite."""
    tails, heads = (np.array([e[k] for e in network.edges], np.int64) for k in (0, 1))
    finite = np.array([e[2] != math.inf for e in network.edges], bool)
    exact = [int(e[2]) for e in network.edges if e[2] != math.inf]
    if sum(exact) >= WIDEST:
        raise Unsupported(f"capacities of {sum(exact)} in all; at most 2**62: use a larger unit")
    capacity = np.zeros(len(finite), np.int64)
    capacity[finite] = exact
    n, s, t = network.vertices, network.source, network.sink
    known = _known_cuts(n, tails, heads, finite, capacity, s, t)
    if known is None:
        return None
    capacity[~finite] = known + 1
    capacity = np.minimum(capacity, known + 1)
    total = _matrix(n, tails, heads, capacity)
    flow = _flow(total, s, t)
    side = ~_reached((total - flow).T, t)
    per_edge = _spread(total, flow, tails, heads, capacity)
    value = int(capacity[side[tails] & ~side[heads]].sum())
    check_certificate(network, Cut(value, side, per_edge))
    return Cut(value, side, per_edge)


def check_certificate(network: Network, cut: Cut) -> None:
    """Raises InternalError unless the flow is one, and the cut separates source from sink at the value of the flow."""
    balance = [0] * network.vertices
    crossing: int | float = 0
    for (u, v, c), f in zip(network.edges, cut.flow.tolist(), strict=True):
        if not 0 <= f <= c:
            raise InternalError(f"a flow of {f} on the edge {u} -> {v} of capacity {c}")
        balance[u] -= f
        balance[v] += f
        if cut.source_side[u] and not cut.source_side[v]:
            crossing += c
    for v, b in enumerate(balance):
        if b and v not in (network.source, network.sink):
            raise InternalError(f"the flow leaves {b} at the vertex {v}")
    if not cut.source_side[network.source] or cut.source_side[network.sink]:
        raise InternalError("the cut does not separate the source from the sink")
    if not crossing == balance[network.sink] == cut.value:
        raise InternalError(f"a cut of {crossing} for a flow of {balance[network.sink]}, given as {cut.value}")


def _known_cuts(n: int, tails: np.ndarray, heads: np.ndarray, finite: np.ndarray, capacity: np.ndarray,
                s: int, t: int) -> int | None:  # fmt: skip
    """The smaller of two finite cuts: around the source, and around the sink; None where infinite edges lead through."""
    ones = np.ones(int((~finite).sum()), np.int64)
    infinite = _matrix(n, tails[~finite], heads[~finite], ones)
    near = _reached(infinite, s)
    if near[t]:
        return None
    far = _reached(infinite.T, t)
    return min(int(capacity[near[tails] & ~near[heads]].sum()), int(capacity[~far[tails] & far[heads]].sum()))


def _matrix(n: int, tails: np.ndarray, heads: np.ndarray, data: np.ndarray) -> Any:
    from scipy.sparse import csr_array

    return csr_array((data, (tails, heads)), shape=(n, n), dtype=np.int64)  # parallel edges are added up


def _reached(matrix: Any, start: int) -> np.ndarray:
    """The vertices that positive entries lead to from `start`."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order

    positive = csr_array(matrix > 0, dtype=np.int8)
    positive.eliminate_zeros()
    found = np.zeros(matrix.shape[0], bool)
    found[breadth_first_order(positive, start, return_predecessors=False)] = True
    return found


def _flow(total: Any, s: int, t: int) -> Any:
    """A maximum flow, antisymmetric: what goes from u to v, less what comes back."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_flow

    residual, flow = total, csr_array(total.shape, dtype=np.int64)
    widest = int(total.data.max(initial=0))
    shift = max(0, widest.bit_length() - BITS)
    while True:
        digit = residual.copy()
        digit.data = np.minimum(digit.data >> shift, (1 << BITS) - 1)
        digit.eliminate_zeros()
        found = maximum_flow(csr_array(digit, dtype=np.int32), s, t).flow
        more = csr_array((found.data.astype(np.int64) << shift, found.indices, found.indptr), shape=found.shape)
        residual, flow = residual - more, flow + more
        if not shift:
            return flow
        shift = max(0, (residual.nnz << shift).bit_length() - BITS)


def _spread(total: Any, flow: Any, tails: np.ndarray, heads: np.ndarray, capacity: np.ndarray) -> np.ndarray:
    """The flow of each edge: parallel edges share what their pair of vertices carries, in order."""
    left = flow[tails, heads].copy() if len(tails) else np.zeros(0, np.int64)
    whole = total[tails, heads] if len(tails) else left
    left = np.maximum(left, 0)
    alone = whole == capacity
    found = np.where(alone, left, 0)
    rest: dict[tuple[int, int], int] = {}
    for k in np.flatnonzero(~alone).tolist():
        pair = int(tails[k]), int(heads[k])
        open_ = rest.get(pair, int(left[k]))
        found[k] = min(open_, int(capacity[k]))
        rest[pair] = open_ - int(found[k])
    return found
