"""Packing: an operand that is read many times is read through a copy laid out in the order in which it is read.

    c[i,j] = fold(k) fma(a[i,k], b[k,j], acc)        tile 6 x 16
becomes
    ap[p,k,u] = a[6*p + u, k]     bp[q,k,l] = b[k, 16*q + l]     (0 outside: the last tile is padded)
    c[i,j] = fold(k) fma(ap[i // 6, k, i % 6], bp[j // 16, k, j % 16], acc)

What is computed of an element alone (relu(a[i,k]), f32(a[i,k])) is computed when it is copied, once instead of at each read.
An operand that is read under a guard is padded instead: the copy holds the zeros, and the guard vanishes.
The copies are ordinary lets, scheduled like any other; no value changes (contract: bitwise).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from assay.backends.plan import Schedule
from assay.backends.schedule.cost import bits
from assay.backends.schedule.summary import Summary
from assay.core import lang
from assay.core.index import Ix, Var, ix, values
from assay.core.lang import E, T

REUSE = 16  # an operand read less often than this is read where it lies


@dataclass(frozen=True)
class Operand:
    """`value` of one element of the source: its load at the variables of its axes, or a function of that alone."""

    source: T
    value: E

    def of(self, element: E) -> E:
        """The value where the element is this one."""
        return lang.substitute(self.value, {}, lambda source, idx, how: element)


@dataclass(frozen=True)
class Pad:
    """A copy of the box [lo, hi] of the index space, of zeros where the operand has no element."""

    box: tuple[tuple[int, int], ...]

    def copy(self, operand: Operand) -> T:
        shape = tuple(hi - lo + 1 for lo, hi in self.box)

        def element(*i: Ix) -> E:
            at = (x + lo for x, (lo, _) in zip(i, self.box, strict=True))
            return operand.of(lang.load_or_zero(operand.source, *at))

        return lang.tensor(shape, element)

    def read(self, copy: T, idx: tuple[Ix, ...]) -> E:
        return lang.load(copy, *(x - lo for x, (lo, _) in zip(idx, self.box, strict=True)))


@dataclass(frozen=True)
class Tile:
    """A copy [lead.., axis // size, folded.., axis % size]: what a tile reads in one step of the fold lies together."""

    axis: int
    folded: tuple[int, ...]
    size: int

    def lead(self, rank: int) -> list[int]:
        return [k for k in range(rank) if k not in self.folded and k != self.axis]

    def copy(self, operand: Operand) -> T:
        n = operand.source.shape
        lead = self.lead(len(n))
        shape = (*(n[k] for k in lead), -(-n[self.axis] // self.size), *(n[k] for k in self.folded), self.size)

        def element(*i: Ix) -> E:
            at: list[Ix] = [ix(0)] * len(n)
            for k, x in zip(lead, i, strict=False):
                at[k] = x
            for k, x in zip(self.folded, i[len(lead) + 1 : -1], strict=True):
                at[k] = x
            at[self.axis] = self.size * i[len(lead)] + i[-1]
            return operand.of((lang.load if n[self.axis] % self.size == 0 else lang.load_or_zero)(operand.source, *at))

        return lang.tensor(shape, element)

    def read(self, copy: T, idx: tuple[Ix, ...]) -> E:
        lead = self.lead(len(idx))
        i = idx[self.axis]
        return lang.load(copy, *(idx[k] for k in lead), i // self.size, *(idx[k] for k in self.folded), i % self.size)


def reused(k: Summary) -> bool:
    """Whether an operand of a fold is read at least REUSE times as often as it has elements along the kernel's loops."""
    if not any(f.varies for f in k.folds) or len(k.tensors) != 1 or k.local or k.tensors[0].kind != "let":
        return False
    folds = sum(1 << f.var for f in k.folds)
    every = math.prod(k.sizes[v] for v in bits(k.axes_mask | folds))
    return any(
        a.kind == "load" and a.varies & folds and every >= REUSE * math.prod(k.sizes[v] for v in bits(a.varies))
        for a in k.accesses
    )


def packings(t: T, tile: Schedule, lanes: int) -> Iterator[tuple[int, ...]]:
    """Every subset of the operands (by number) that the register tile of `tile` can read packed."""
    count = len(_ways(t, tile, lanes))
    for k in range(1, count + 1):
        yield from itertools.combinations(range(count), k)


def packed(t: T, tile: Schedule, lanes: int, operands: tuple[int, ...]) -> tuple[tuple[T, ...], T]:
    """The copies of these operands, and `t` reading them."""
    ways = _ways(t, tile, lanes)
    copies = {o: ways[o].copy(o) for k, o in enumerate(ways) if k in operands}
    read = {e: ways[o].read(copies[o], idx) for e, (o, idx) in _operands(t.body).items() if o in copies}
    return tuple(copies.values()), lang.let(t.shape, _with(t.body, read))


def _ways(t: T, schedule: Schedule, lanes: int) -> dict[Operand, Pad | Tile]:
    """How each operand of the folds of `t` would be packed; those that are read in two ways are left where they lie."""
    axes = lang.axes(t.shape)
    tile: dict[Var, int] = {axes[k]: u for k, u in schedule.jam}
    if schedule.vector is not None:
        tile[axes[schedule.vector]] = lanes * schedule.copies
    found: dict[Operand, set[Pad | Tile | None]] = {}
    for operand, idx in _operands(t.body).values():
        found.setdefault(operand, set()).add(_way(operand.source, idx, frozenset(axes), tile))
    return {o: way for o, ways in found.items() for way in ways if way is not None and len(ways) == 1}


def _operands(body: E) -> dict[E, tuple[Operand, tuple[Ix, ...]]]:
    """The largest parts of the body that are a float function of one element, or are a load, with that element's index."""
    nodes = lang.postorder((body,), lambda e: e.args)  # what an index is made of is read where it lies
    of: dict[E, E] = {}  # the load that a node is a function of
    for e in nodes:
        read = {of.get(a) for a in e.args if a.op != "const"}
        if e.op in lang.LOADS:
            of[e] = e
        elif e.dtype.is_float and len(read) == 1 and None not in read and e.op not in ("fold", "proj"):
            of[e] = read.pop()  # type: ignore[assignment]
    used = {a for e in nodes if e not in of for a in e.args}
    return {e: (_operand(e, of[e]), of[e].attr[1]) for e in of if e in used}


def _operand(e: E, element: E) -> Operand:
    source, at = element.attr
    whole = lang.load(source, *map(ix, lang.axes(source.shape)))
    return Operand(source, lang.substitute(e, {}, lambda t, idx, how: whole if (t, idx) == (source, at) else None))


def _with(body: E, read: dict[E, E]) -> E:
    """The body with loads of copies in the place of these nodes."""
    made: dict[E, E] = {}
    for e in lang.walk((body,)):
        args = tuple(made.get(a, a) for a in e.args)
        if e in read:
            made[e] = read[e]
        elif args == e.args:
            continue
        elif e.op == "fold":
            half = len(args) // 2
            bounds = [(a.lo, a.hi) for a in lang.accumulators(e)]
            made[e] = lang.close_fold(e.attr, args[:half], args[half:], bounds)
        else:
            made[e] = lang.rebuild(e, args)
    return made.get(body, body)


def _way(source: T, idx: tuple[Ix, ...], axes: frozenset[Var], tile: dict[Var, int]) -> Pad | Tile | None:
    if any(True for i in idx for _ in values(i)):
        return None
    folded = tuple(k for k, i in enumerate(idx) if not i.free <= axes)
    if not folded:
        return None
    if any(i.lo < 0 or i.hi >= n for i, n in zip(idx, source.shape, strict=True)):
        return Pad(tuple((min(0, i.lo), max(n - 1, i.hi)) for i, n in zip(idx, source.shape, strict=True)))
    tiled = [
        k for k, i in enumerate(idx)
        if k not in folded and i.c == 0 and len(i.terms) == 1 and i.terms[0][1] == 1 and i.terms[0][0] in tile
    ]  # fmt: skip
    if len(tiled) != 1:
        return None
    return Tile(tiled[0], folded, tile[idx[tiled[0]].terms[0][0]])  # type: ignore[index]
