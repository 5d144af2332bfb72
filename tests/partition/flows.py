"""Oracles: Edmonds and Karp's flow on Python integers, and every subset of a few values."""

import itertools
import math
import random
from collections import deque
from collections.abc import Iterator

from assay.partition.maxflow import Network
from assay.partition.network import Values, cost


def edmonds_karp(network: Network) -> tuple[int | float, int]:
    """The value of a maximum flow, and how many shortest augmenting paths it took."""
    to: list[int] = []
    left: list[int | float] = []
    out: list[list[int]] = [[] for _ in range(network.vertices)]
    for u, v, c in network.edges:
        for a, b, k in ((u, v, c), (v, u, 0)):
            out[a].append(len(to))
            to.append(b)
            left.append(k)
    flow: int | float = 0
    for paths in itertools.count():
        via: dict[int, int] = {network.source: -1}
        todo = deque([network.source])
        while todo and network.sink not in via:
            u = todo.popleft()
            for e in out[u]:
                if left[e] > 0 and to[e] not in via:
                    via[to[e]] = e
                    todo.append(to[e])
        if network.sink not in via:
            return flow, paths
        path = []
        v = network.sink
        while v != network.source:
            path.append(via[v])
            v = to[via[v] ^ 1]
        most = min(left[e] for e in path)
        if most == math.inf:
            return math.inf, paths
        for e in path:
            left[e] -= most
            left[e ^ 1] += most
        flow += most
    raise AssertionError


def subsets(n: int) -> Iterator[frozenset[int]]:
    for bits in range(1 << n):
        yield frozenset(v for v in range(n) if bits >> v & 1)


def least(values: Values) -> int | float:
    """The least cost of any set, by trying all."""
    return min(cost(values, s) for s in subsets(len(values)))


def random_values(seed: int, n: int | None = None, *, banned: bool = False) -> Values:
    """A random problem; `banned`: as the document's, with prices of recomputing of 0 and infinity."""
    rng = random.Random(seed)
    n = n or rng.randint(2, 9)
    parents = tuple(tuple(sorted(rng.sample(range(v), min(v, rng.choice((0, 1, 1, 2)))))) for v in range(n))
    save = tuple(math.inf if rng.random() < 0.05 else rng.randint(0, 20) for _ in range(n))
    again = tuple(math.inf if rng.random() < 0.3 else 0 if banned else rng.randint(0, 20) for _ in range(n))
    return Values(parents, save, again, frozenset(v for v in range(n) if rng.random() < 0.4))
