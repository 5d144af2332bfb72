"""Programs: inputs, outputs, and the checks that must hold although no output reads them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from assay.core.errors import UserError
from assay.core.index import Ix, Size, is_symbolic
from assay.core.lang.expressions import LOADS, E, walk
from assay.core.lang.tensors import T, bodies, order


class Program:
    """inputs -> outputs.  `checks` are all its requires: where several fail, the error is that of the first in this order.

    `effects` are the checks that must hold although no output reads them.  Interned: equal programs are the same object.

    With sizes it means a program for each choice of them (core/lang/bind.py) that satisfies the `guards`.
    """

    __slots__ = ("checks", "effects", "guards", "inputs", "name", "outputs")
    name: str
    inputs: tuple[T, ...]
    outputs: tuple[T, ...]
    checks: tuple[T, ...]
    effects: tuple[T, ...]
    guards: tuple[E, ...]

    def __repr__(self) -> str:
        return f"<program {self.name}({', '.join(map(repr, self.inputs))}) -> {list(self.outputs)}>"

    @property
    def roots(self) -> tuple[T, ...]:
        """What has to be evaluated: outputs and effects."""
        return self.outputs + self.effects

    @property
    def tensors(self) -> list[T]:
        """Every tensor of the program that is not an input, in an order in which it can be computed."""
        return [t for t in order(self.roots) if t.kind != "input"]

    @property
    def sizes(self) -> tuple[Size, ...]:
        """The sizes that it depends on, by name."""
        return tuple(sorted(_sizes_of(self), key=lambda s: s.key))


_programs: dict[tuple[Any, ...], Program] = {}


def program(inputs: Sequence[T], outputs: Sequence[T], effects: Sequence[T] = (), name: str = "f",
            guards: Sequence[E] = ()) -> Program:  # fmt: skip
    """The program.  Its checks are the requires that outputs or effects read, in reading order, then `effects` as listed.

    A listed require stands where it is listed, also if an output reads it.
    Raises UserError for a tensor that reads an input which is not among `inputs`, or two inputs of one name.
    """
    inputs, outputs = tuple(inputs), tuple(outputs)
    listed = dict.fromkeys(t for t in effects if t.kind == "require")
    read = reading_order(outputs)
    reached = set(read)
    every = reading_order((*outputs, *listed)) if listed else read
    checks = (*(t for t in every if t.kind == "require" and t not in listed), *listed)
    known = set(inputs)
    for t in order(outputs + checks):
        if t.kind == "input" and t not in known:
            raise UserError(f"program {name} reads {t!r}, which is not among its inputs {list(inputs)}")
    if len({t.name for t in inputs}) != len(inputs):
        raise UserError(f"program {name}: two inputs have the same name: {[t.name for t in inputs]}")
    guards = tuple(dict.fromkeys(guards))
    key = (name, inputs, outputs, checks, guards)
    found = _programs.get(key)
    if found is None:
        made = Program()
        made.name, made.inputs, made.outputs, made.checks, made.guards = name, inputs, outputs, checks, guards
        made.effects = tuple(t for t in checks if t not in reached)
        found = _programs.setdefault(key, made)
    return found


@cache
def _sizes_of(p: Program) -> frozenset[Size]:
    return frozenset[Size]().union(*(i.sizes for i in indices(p)))


def indices(p: Program) -> list[Ix]:
    """Every extent and index expression of the program, those in its guards too."""
    found: dict[Ix, None] = {}
    for t in order((*p.inputs, *p.roots)):
        found.update((n, None) for n in (*t.shape, *(t.domain if t.kind == "scatter" else ())) if is_symbolic(n))
        found.update((i, None) for i in (t.indices if t.kind == "scatter" else ()))
        found.update((i, None) for e in walk(bodies(t)) for i in _own_indices(e))
    found.update((i, None) for e in walk(p.guards) for i in _own_indices(e))
    return list(found)


def _own_indices(e: E) -> tuple[Ix, ...]:
    if e.op in LOADS:
        return e.attr[1]
    if e.op == "fold":
        return (e.attr.n,) if is_symbolic(e.attr.n) else ()
    return (e.attr,) if e.op == "idx" else ()


def reading_order(roots: Sequence[T]) -> list[T]:
    """The tensors that are not inputs, each after what it reads; the order follows from the roots alone."""
    found: list[T] = []
    seen: set[T] = set()
    todo = [(t, False) for t in reversed(roots)]
    while todo:
        t, done = todo.pop()
        if done:
            found.append(t)
        elif t not in seen and t.kind != "input":
            seen.add(t)
            todo.append((t, True))
            todo.extend((r, False) for r in reversed(_reads_in_order(t)))
    return found


@cache
def _reads_in_order(t: T) -> tuple[T, ...]:
    """What `t` reads, in the order in which its text mentions it."""
    if len(t.reads) < 2:
        return tuple(t.reads)
    found: dict[T, None] = dict.fromkeys((t.base,) if t.kind == "scatter" else t.args if t.kind == "extern" else ())
    seen: set[E] = set()
    todo = list(reversed(bodies(t)))
    while todo and len(found) < len(t.reads):
        e = todo.pop()
        if e not in seen and e.reads:
            seen.add(e)
            if e.op in LOADS:
                found[e.attr[0]] = None
            todo.extend(reversed(e.deps))
    return tuple(found)


def requires(p: Program) -> list[T]:
    """The run-time checks of a program."""
    return [t for t in p.tensors if t.kind == "require"]


def size_of(t: T) -> int:
    """Bytes of a tensor (an extent where its shape has sizes)."""
    return t.size * t.dtype.itemsize
