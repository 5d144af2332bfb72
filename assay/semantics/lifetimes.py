"""When tensors are made and last read: orders of evaluation, and the memory that each holds at once.

    demanded(units, needs, last)     each unit right before the first that needs it
    peak(order, made, reads, kept)   the most bytes of results and of what has been made and is still to be read
    thrifty_order(program)           the definitions in the order, of a few, that holds least

A value that is cheap to make early and read late should be made late.  Creation order is right for most programs; the backward of
a program that recomputes creates what it recomputes first, and needs it one block after the other, the last block first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import TypeVar

from assay.core.lang import Program, T, size_of

Unit = TypeVar("Unit", bound=Hashable)


def demanded(units: Sequence[Unit], needs: Callable[[Unit], Iterable[Unit]], last: Iterable[Unit]) -> list[Unit]:
    """The units in depth-first order from `last`, in which each comes after what it needs and as late as that allows.

    Units that nothing in `last` needs come at the end, in the order given.
    """
    known, done = set(units), set[Unit]()
    found: list[Unit] = []
    todo = [(u, False) for u in reversed((*last, *units))]
    while todo:
        u, ready = todo.pop()
        if u in done:
            continue
        if ready:
            done.add(u)
            found.append(u)
        else:
            todo.append((u, True))
            todo.extend((r, False) for r in needs(u) if r in known and r not in done)
    return found


def peak(order: Sequence[Unit], made: Callable[[Unit], Iterable[T]], reads: Callable[[Unit], Iterable[T]],
         kept: Collection[T]) -> int:  # fmt: skip
    """The most bytes held at once by what the units make.  `kept` (results) are held throughout, inputs do not count."""
    last: dict[T, int] = {}
    for k, u in enumerate(order):
        last.update(dict.fromkeys((*made(u), *reads(u)), k))
    ends: dict[int, list[T]] = {}
    mine = {t for u in order for t in made(u)}
    for t, k in last.items():
        if t in mine and t not in kept:
            ends.setdefault(k, []).append(t)
    held = most = sum(size_of(t) for t in mine if t in kept)
    for k, u in enumerate(order):
        held += sum(size_of(t) for t in set(made(u)) if t not in kept)
        most = max(most, held)
        held -= sum(map(size_of, ends.get(k, ())))
    return most


def thriftiest(units: Sequence[Unit], made: Callable[[Unit], Sequence[T]], reads: Callable[[Unit], Iterable[T]],
               outputs: Sequence[T], kept: Collection[T]) -> list[Unit]:  # fmt: skip
    """The order of least peak among: as given, outputs demanded from first to last, from last to first.  Of equals the first."""
    maker = {t: u for u in units for t in made(u)}

    def needs(u: Unit) -> list[Unit]:
        found = dict.fromkeys(maker[r] for r in sorted(set(reads(u)), key=lambda t: -t.id) if r in maker)
        return [r for r in found if r != u]

    ends = [maker[t] for t in outputs if t in maker]
    tried = [list(units), demanded(units, needs, ends), demanded(units, needs, reversed(ends))]
    return min(tried, key=lambda order: peak(order, made, reads, kept))


def thrifty_order(p: Program) -> list[T]:
    """The definitions of the program in an order that holds little."""
    return thriftiest(p.tensors, lambda t: (t,), lambda t: t.reads, p.outputs, frozenset(p.outputs))


def working_bytes(p: Program) -> int:
    """The most bytes held at once by results (all of them throughout) and intermediates, in that order, without inputs."""
    return peak(thrifty_order(p), lambda t: (t,), lambda t: t.reads, frozenset(p.outputs))
