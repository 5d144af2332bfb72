"""The document's partition of an operator graph (sections 5.4 and 5.5): policy `document`.

    c(v) = beta(v) * floor(b(v) * 1.1**d(v))

b(v) bytes; d(v) forward steps to the first reader in the backward, between 1 and 100; beta(v) = 1 where v is written to memory
anyway, else 2.  Not to be recomputed (U):

    rule 1  not the result of a cheap operator (a matrix product, a convolution, a scan, a sort)
    rule 2  some reader in the backward is not cheap, so that v must be in memory for it
    rule 3  the result of a reduction: 4 times its bytes are less than those of its operands

Saved in any case: a value whose readers lie both before and after the first operator that is not cheap ("near" and "far"), and
the end of a chain of cheap operators that is longer than 100 steps.  Where no finite cut exists everything read is saved.

The default policy is another one (prices.py): this one's distances and factors only stand for time and memory.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from assay.core.graph import CALL, GETITEM, Graph, Node, map_nodes
from assay.core.lang import T, bodies, input, order, walk
from assay.partition.network import Values, cheapest, recomputed

NEAREST, FARTHEST = 1, 100
FACTOR = 1.1
LONGEST_CHAIN = 100
REDUCES = 4
"""A result this many times smaller than what it was computed from is a reduction's."""


@dataclass(frozen=True)
class Row:
    """What the policy says of one value: bytes, distance, beta, capacity; the rule by which it is in U; why it must be saved."""

    node: Node
    bytes: int
    distance: int
    beta: int
    capacity: int
    rule: int | None
    forced: str | None
    wanted: bool


@dataclass(frozen=True)
class Document:
    """The rows of a joint graph's forward values, the network's values, and what is saved; `flow` None: no finite cut."""

    rows: tuple[Row, ...]
    values: Values
    flow: int | None
    saved: tuple[Node, ...]
    recomputed: tuple[Node, ...]

    def __str__(self) -> str:
        return "\n".join([f"{'value':<16} {'bytes':>12} {'d':>4} {'beta':>4} {'capacity':>16}  U  B", *map(self._row, self.rows),
                          f"flow {self.flow}; saved {{{', '.join(n.name for n in self.saved)}}}"])  # fmt: skip

    @staticmethod
    def _row(r: Row) -> str:
        rule = "-" if r.rule is None else r.rule
        return (f"{r.node.name:<16} {r.bytes:>12,} {r.distance:>4} {r.beta:>4} {r.capacity:>16,}  {rule}  "
                f"{'B' if r.wanted else '-'}{f'  {r.forced}' if r.forced else ''}")  # fmt: skip


def document(graph: Graph, backward: Collection[Node], outputs: Collection[Node]) -> Document:
    """The partition of a joint graph whose nodes `backward` depend on cotangents, and whose forward returns `outputs`."""
    return _Reading(graph, backward, outputs).partition()


def is_cheap(node: Node) -> bool:
    """Whether the meaning of the call is elementwise, a view or a sum: no fold of products, no scan, scatter or extern."""
    if node.kind == GETITEM:
        return True
    key = f"{node.target.name}{map_nodes(node.args, lambda n: (n.shape, n.dtype.name))}"
    if key not in _CHEAP:
        _CHEAP[key] = _is_cheap(node.target(*(map_nodes(a, _abstract) for a in node.args)))
    return _CHEAP[key]


_CHEAP: dict[str, bool] = {}


def _is_cheap(made: T | tuple[T, ...]) -> bool:
    tensors = order(made if isinstance(made, tuple) else (made,))
    if any(t.kind in ("scan", "scatter", "extern") for t in tensors):
        return False
    folds = (e for t in tensors for e in walk(bodies(t)) if e.op == "fold")
    return not any(e.op == "fma" for f in folds for e in walk(f.args[len(f.args) // 2 :]))


def _abstract(n: Node) -> T:
    return input(n.name, n.shape, n.dtype)


def _bytes(n: Node) -> int:
    return 0 if n.outputs else math.prod(n.shape) * n.dtype.itemsize


class _Reading:
    def __init__(self, graph: Graph, backward: Collection[Node], outputs: Collection[Node]) -> None:
        late = set(backward)
        self.forward = [n for n in graph.nodes if n not in late]
        self.number = {n: k for k, n in enumerate(self.forward)}
        self.outputs = set(outputs)
        self.cheap = {n: is_cheap(n) for n in graph.nodes}
        self.near: dict[Node, list[Node]] = {n: [] for n in self.forward}  # readers in the forward
        self.late: dict[Node, list[Node]] = {n: [] for n in self.forward}  # and in the backward
        for reader in graph.nodes:
            for n in dict.fromkeys(reader.operands):
                if n in self.number:
                    (self.late if reader in late else self.near)[n].append(reader)
        self.required = self._required()

    def _required(self) -> set[Node]:
        """The values that the backward reads, and what they are computed from."""
        todo = [n for n in self.forward if self.late[n]]
        found = set(todo)
        while todo:
            new = [p for p in todo.pop().operands if p in self.number and p not in found]
            found.update(new)
            todo += new
        return found

    def partition(self) -> Document:
        distance = self._distances()
        forced = self._near_and_far() | self._ends_of_chains()
        rows = [self._row(n, distance[n], forced.get(n)) for n in self.forward]
        values = Values(
            tuple(tuple(self.number[p] for p in dict.fromkeys(n.operands) if p in self.number) for n in self.forward),
            tuple(math.inf if n.outputs else r.capacity for n, r in zip(self.forward, rows, strict=True)),
            tuple(math.inf if r.rule or r.forced else 0 for r in rows),
            frozenset(k for k, r in enumerate(rows) if r.wanted or r.forced),
        )
        found = cheapest(values)
        saved = _everything(values) if found is None else found.saved
        return Document(tuple(rows), values, None if found is None else found.cost, self._nodes(saved),
                        self._nodes(recomputed(values, saved)))  # fmt: skip

    def _nodes(self, numbers: Iterable[int]) -> tuple[Node, ...]:
        return tuple(self.forward[k] for k in sorted(numbers))

    def _row(self, n: Node, distance: float, forced: str | None) -> Row:
        d = int(max(NEAREST, min(FARTHEST, distance)))
        written = not self.cheap[n] or n in self.outputs or any(not self.cheap[m] for m in (*self.near[n], *self.late[n]))
        beta = 1 if written else 2
        return Row(n, _bytes(n), d, beta, beta * math.floor(_bytes(n) * FACTOR**d), self._rule(n), forced, bool(self.late[n]))

    def _rule(self, n: Node) -> int | None:
        if not self.cheap[n]:
            return 1
        if any(not self.cheap[m] for m in self.late[n]):
            return 2
        return 3 if n.kind == CALL and REDUCES * _bytes(n) < sum(map(_bytes, n.operands)) else None

    def _distances(self) -> dict[Node, float]:
        found: dict[Node, float] = {}
        for n in reversed(self.forward):
            steps = [1 + found[m] for m in self.near[n]] + [1.0] * bool(self.late[n])
            found[n] = min(steps, default=math.inf)
        return found

    def _near_and_far(self) -> dict[Node, str]:
        """Values that are read before and after the first operator downstream that is not cheap."""
        found: dict[Node, str] = {}
        for n in self.forward:
            readers = [self.number[m] for m in self.near[n] if m in self.required]
            if n in self.required and len(readers) > 1 and min(readers) < self._first_dear(n) < max(readers):
                found[n] = "read near and far"
        return found

    def _first_dear(self, n: Node) -> float:
        """The number of the first operator downstream of `n`, through cheap ones, that is not cheap."""
        last = max(self.number[m] for m in self.near[n])
        todo = [self.number[m] for m in self.near[n] if m in self.required]
        heapq.heapify(todo)
        seen = set(todo)
        while todo:
            k = heapq.heappop(todo)
            if k >= last:
                return math.inf
            if not self.cheap[self.forward[k]]:
                return k
            for m in self.near[self.forward[k]]:
                if m in self.required and self.number[m] not in seen:
                    seen.add(self.number[m])
                    heapq.heappush(todo, self.number[m])
        return math.inf

    def _ends_of_chains(self) -> dict[Node, str]:
        """Values more than LONGEST_CHAIN steps after the start of a chain of cheap operators, where nothing goes on beside."""
        found: dict[Node, str] = {}
        seen: set[int] = set()
        for start in range(len(self.forward)):
            todo = [start] if self.forward[start] in self.required else []
            while todo:
                k = heapq.heappop(todo)
                if k in seen:
                    continue
                seen.add(k)
                if k > start + LONGEST_CHAIN and not todo:
                    found[self.forward[k]] = f"the end of a chain of {k - start} steps"
                    break
                for m in self.near[self.forward[k]]:
                    if m in self.required and self.cheap[m]:
                        heapq.heappush(todo, self.number[m])
        return found


def _everything(values: Values) -> frozenset[int]:
    """All wanted values that can be saved; what cannot is recomputed whatever it takes."""
    return frozenset(v for v in values.wanted if values.save[v] != math.inf)
