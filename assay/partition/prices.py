"""The default policy: every value that the backward needs is saved, at a price of bytes, or computed again, at a price of time.

    save        bytes read back, and bytes written where the forward would not store the value; and `held` seconds for each
                byte that is kept.  What only the backward needs the forward has to compute first: `recompute` of it is added
    recompute   operations; for sums, scans, scatters and reference functions also what they read and store.  What is
                elementwise is computed where it is read: no traffic but its inputs

Both in seconds, by the prices of the passes' cost model (transforms/inline.py), counted in picoseconds.  So one minimum cut
weighs bytes against time; no value is forbidden, and there is no distance: what is far away costs no more to read.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property

from assay.core.lang import T, bodies, reading_order, size_of
from assay.partition.joint import Joint, Split, split
from assay.partition.network import Values, cheapest, needed, recomputed
from assay.semantics.cost import Prices, cost_of
from assay.transforms.inline import CPU, contraction_operands

PICOSECONDS = 10**12
HELD = 1e-12
"""Seconds that a byte kept from the forward to the backward is worth, by default: of two ways of the same time, the smaller."""


@dataclass(frozen=True)
class Costs:
    """What each value of a joint program costs, in picoseconds and bytes; None: the value cannot be had that way.

    tensors   the values, each after its parents       stored   the forward stores it whatever is decided
    save, recompute   moving it, computing it          extra    the forward computes it for the backward only
    """

    tensors: tuple[T, ...]
    parents: tuple[tuple[int, ...], ...]
    bytes: tuple[int, ...]
    save: tuple[int, ...]
    recompute: tuple[int | None, ...]
    wanted: frozenset[int]
    stored: tuple[bool, ...]
    extra: tuple[bool, ...]

    def values(self, held: float = HELD) -> Values:
        """The problem of the minimum cut when a byte that is kept is worth `held` seconds.

        An extra value is charged with all that the forward computes to have it, shared with other values or not.
        """
        price = held * PICOSECONDS
        save = tuple(s + math.ceil(price * b) + sum(self.recompute[u] or 0 for u in self.extras((v,)))
                     for v, (s, b) in enumerate(zip(self.save, self.bytes, strict=True)))  # fmt: skip
        return Values(self.parents, save, tuple(math.inf if r is None else r for r in self.recompute), self.wanted)

    @cached_property
    def plain(self) -> Values:
        """The problem in which kept bytes are worth nothing."""
        return self.values(0.0)

    def saved_bytes(self, saved: Collection[int]) -> int:
        return sum(self.bytes[v] for v in saved)

    def time(self, saved: Collection[int]) -> float:
        """Picoseconds of saving these values and of recomputing what else is needed; infinity where that cannot be."""
        again, early = recomputed(self.plain, saved), self.extras(saved)
        return sum(self.save[v] for v in saved) + sum(self.plain.recompute[v] for v in (*again, *early))

    def extras(self, saved: Iterable[int]) -> set[int]:
        """What the forward computes for the backward only, to save these values."""
        found = {v for v in saved if self.extra[v]}
        todo = list(found)
        while todo:
            new = {u for u in self.parents[todo.pop()] if self.extra[u]} - found
            found |= new
            todo += new
        return found

    @cached_property
    def numbers(self) -> dict[T, int]:
        return {t: k for k, t in enumerate(self.tensors)}

    def chosen(self, saved: Iterable[int]) -> tuple[T, ...]:
        return tuple(self.tensors[v] for v in sorted(saved))


def costs(joint: Joint, prices: Prices = Prices(CPU.flops, CPU.bandwidth)) -> Costs:  # noqa: B008 (frozen)
    """The costs of the values of a joint program on a machine of these prices."""
    tensors = joint.values
    number = {t: k for k, t in enumerate(tensors)}
    parents = tuple(tuple(sorted(number[r] for r in t.reads if r in number)) for t in tensors)
    operands = contraction_operands(joint.program) | _named_whole(joint) | set(joint.results)
    packed = tuple(map(joint.packed, tensors))
    stored = tuple(p is t and t in joint.early and (t in operands or not _is_elementwise(t))
                   for t, p in zip(tensors, packed, strict=True))  # fmt: skip
    extra = tuple(t not in joint.early and t.kind != "input" for t in tensors)
    again = tuple(None if t.kind == "input" else _seconds(t, prices) for t in tensors)
    move = PICOSECONDS / prices.bytes
    save = tuple(math.ceil(size_of(p) * move * (1 if at_hand else 2)) for p, at_hand in zip(packed, stored, strict=True))
    return Costs(tensors, parents, tuple(map(size_of, packed)), save, again,
                 frozenset(number[t] for t in joint.wanted), stored, extra)  # fmt: skip


def _is_elementwise(t: T) -> bool:
    return t.kind in ("let", "require") and not any(e.has_fold for e in bodies(t))


def _named_whole(joint: Joint) -> set[T]:
    found: set[T] = set()
    for t in joint.program.tensors:
        if t.kind == "scatter":
            found.add(t.base)
        elif t.kind == "extern":
            found.update(t.args)
    return found


def _seconds(t: T, prices: Prices) -> int:
    """Picoseconds of computing the definition again."""
    found = cost_of(t)
    moved = sum(size_of(r) for r in t.reads if r.kind == "input" or not _is_elementwise(t))
    if not _is_elementwise(t):
        moved += 2 * size_of(t)
    return math.ceil(PICOSECONDS * (found.arithmetic / prices.operations + moved / prices.bytes))


# ------------------------------------------------------------------------------------------------ the decision, and its report


@dataclass(frozen=True)
class Line:
    """What was decided of one value: saved, recomputed or unneeded, its bytes, both prices in picoseconds, and why."""

    name: str
    tensor: T
    action: str
    bytes: int
    save: int
    recompute: int | None
    why: str

    def __str__(self) -> str:
        again = "never" if self.recompute is None else f"{self.recompute / 1e6:.3f}"
        shape = f"{self.tensor.dtype.name}[{','.join(map(str, self.tensor.shape))}]"
        return f"{self.name:<8} {shape:<18} {self.action:<10} {self.bytes:>12,} {self.save / 1e6:>10.3f} {again:>10}  {self.why}"


@dataclass(frozen=True)
class Partition:
    """The halves of a joint program, and what the choice between saving and recomputing weighed.

    policy   "cut", or how a budget was met; `bound`: no feasible choice takes less time (picoseconds); None: not known
    """

    split: Split
    costs: Costs
    saved: frozenset[int]
    policy: str = "cut"
    bound: float | None = None

    @property
    def saved_bytes(self) -> int:
        return self.split.saved_bytes

    @property
    def time(self) -> float:
        """Seconds of saving and recomputing, by the cost model."""
        return self.costs.time(self.saved) / PICOSECONDS

    @property
    def gap(self) -> float | None:
        """How much more time this takes than the bound says is needed, as a part of it; None where no bound is known."""
        if self.bound is None:
            return None
        least = self.bound / PICOSECONDS
        return 0.0 if self.time <= least else math.inf if least == 0 else self.time / least - 1

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        """A line for each value that the backward needs, and for those that were weighed and are not needed."""
        c, again = self.costs, recomputed(self.costs.plain, self.saved)
        names = {t: f"t{k}" for k, t in enumerate(reading_order(self.split.joint.program.roots))}
        found: list[Line] = []
        for v, t in enumerate(c.tensors):
            action = "saved" if v in self.saved else "recomputed" if v in again else "unneeded"
            name = names.get(t, t.name if t.kind == "input" else "-")
            found.append(Line(name, t, action, c.bytes[v], c.save[v], c.recompute[v], self._why(v, action)))
        return tuple(found)

    def _why(self, v: int, action: str) -> str:
        c = self.costs
        if action == "saved":
            if c.recompute[v] is None:
                return "overwritten after the forward"
            where = "written for the backward"
            if c.stored[v] or c.extra[v]:
                where = "stored by the forward anyway" if c.stored[v] else "computed for the backward only"
            return f"{where}; again takes {_ratio(self._closure(v), c.save[v])} as long"
        if action == "recomputed":
            from_ = "saved values and inputs" if all(u in self.saved for u in c.parents[v]) else "recomputed values"
            return f"from {from_}; {_ratio(c.recompute[v] or 0, c.save[v])} the time of saving it"
        return "nothing that is recomputed reads it"

    def _closure(self, v: int) -> float:
        """The time of recomputing a saved value, with what it needs that is not saved."""
        plain = self.costs.plain
        parents = needed(plain, self.saved, self.costs.parents[v])
        return plain.recompute[v] + sum(plain.recompute[u] for u in parents if u not in self.saved)

    def __str__(self) -> str:
        c = self.costs
        head = f"{'value':<8} {'type':<18} {'action':<10} {'bytes':>12} {'save us':>10} {'again us':>10}  why"
        everything = sum(c.bytes[v] for v in c.wanted)
        total = (f"{self.policy}: {self.saved_bytes:,} bytes saved (all that is read: {everything:,}), "
                 f"{self.time * 1e6:.3f} us for saving and recomputing")  # fmt: skip
        if self.gap is not None:
            total += f"; at least {(self.bound or 0) / 1e6:.3f} us are needed (gap {100 * self.gap:.1f} %)"
        return "\n".join([head, *map(str, self.lines), total])


def _ratio(a: float, b: float) -> str:
    return "infinitely" if not b else f"{a / b:.2f} times"


def cut(joint: Joint, *, held: float = HELD) -> Partition:
    """The partition of least time, a byte that is kept being worth `held` seconds."""
    c = costs(joint)
    found = cheapest(c.values(held))
    assert found is not None  # every value can be saved
    return Partition(split(joint, c.chosen(found.saved)), c, found.saved, "cut", None)


def save_all(joint: Joint) -> Partition:
    """The partition that saves everything that is read together with cotangents."""
    c = costs(joint)
    return Partition(split(joint, c.chosen(c.wanted)), c, c.wanted, "save all")


def save_none(joint: Joint) -> Partition:
    """The partition that recomputes all that can be recomputed."""
    c = costs(joint)
    saved = frozenset(v for v in recomputed(c.plain, ()) if c.recompute[v] is None)
    return Partition(split(joint, c.chosen(saved)), c, saved, "recompute all")
