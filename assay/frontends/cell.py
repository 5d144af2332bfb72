"""Mutable storage.  A tensor handle is a cell and a chain of views of it; writing through a view changes the cell.

    read    = replay the chain on the cell's value
    write   = eager: copy into the cell's memory, which every view, numpy array and DLPack alias shares
              traced: fold the inverses of the chain over the new value; the cell gets another immutable value

So functionalisation is not a pass: interpreters see immutable values only.  A write reads everything first: the new value
is complete before the first element is stored, which makes self-overlapping updates right.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from assay.core.errors import UserError
from assay.core.operators.registry import Operator
from assay.frontends import source
from assay.frontends.layout import overlaps
from assay.frontends.value import STATE, Trace, Value, abstract, apply_by_name, leaked, process, same_value


class Cell:
    """Storage: its memory (`array`), how often it was written (`version`), and by which operator last.

    During a capture a cell has a value without memory; `owner` is the trace that it belongs to.
    Where there is a `lock`, it is held from the read to the write of an update: the state of a generator has one.
    """

    __slots__ = ("__weakref__", "_value", "array", "lock", "owner", "version", "writer")

    def __init__(self, array: np.ndarray | None, value: Value | None = None, owner: Trace | None = None) -> None:
        self.array = array
        self._value = value
        self.owner = owner
        self.lock: AbstractContextManager[Any] | None = None
        self.version = 0
        self.writer = ""

    @property
    def value(self) -> Value:
        """The whole storage as a value."""
        if self._value is None:
            assert self.array is not None
            self._value = Value(self.array)
        return self._value

    def replace(self, value: Value, writer: str) -> None:
        """The storage after `writer` stored `value` in all of it."""
        self._value, self.array = value, value.array
        self.written(writer)

    def written(self, writer: str) -> None:
        """Count one write."""
        self.version += 1
        self.writer = writer


class Link:
    """One view of a chain: result `output` of the view operator `op`, whose arguments after the first are `rest`."""

    __slots__ = ("op", "output", "rest")

    def __init__(self, op: Operator, rest: tuple[Any, ...], output: int | None) -> None:
        self.op, self.rest, self.output = op, rest, output

    @property
    def key(self) -> tuple[Any, ...]:
        """What distinguishes links."""
        return (self.op, self.rest, self.output)

    def view(self, parent: Value) -> Value:
        """The view of a value."""
        out = process(self.op, (parent, *self.rest))
        return out if self.output is None else out[self.output]

    def put(self, parent: Value, new: Value) -> Value:
        """The parent after `new` was written to the view."""
        if self.op.inverse is None:
            raise UserError(f"{source.quoted()}  a result of {self.op.name} cannot be written to; clone it first")
        extra = {} if self.output is None else {"output": self.output}
        return self.op.inverse(apply_by_name, parent, new, *self.rest, **extra)


Chain = tuple[Link, ...]


def current(cell: Cell) -> Cell:
    """The cell that stands for `cell` here: itself, or, for one from outside the running capture, its stand-in there.

    A stand-in starts as an input of the graph that is bound to the memory of the cell.
    Raises UserError for a cell of a capture that is over.
    """
    trace = STATE.trace
    if cell.owner is trace:
        return cell
    if trace is None:
        if cell.array is None:
            raise leaked(cell.value)
        return cell
    found = trace.cells.get(cell)
    if found is None:
        outside = cell.value
        value = abstract(outside.shape, outside.dtype, outside.strides)
        trace.outside[trace.bind(value, outside.array)] = cell
        found = trace.cells[cell] = Cell(None, value, trace)
    return found


def new_cell(value: Value) -> Cell:
    """Storage for a fresh value."""
    return Cell(value.array, value, STATE.trace)


def read(cell: Cell, chain: Chain) -> Value:
    """The value that a chain of views shows of the cell."""
    value = cell.value
    for link in chain:
        value = link.view(value)
    return value


def write(cell: Cell, chain: Chain, shown: Value, new: Value, writer: str) -> None:
    """Store `new` in the view of `cell`, which shows `shown` (of the same shape and type).

    Raises UserError where several elements of the view are one element of memory, or the memory is read-only.
    """
    contiguous = shown.array is not None and shown.array.flags.c_contiguous
    if not contiguous and overlaps(shown.shape, shown.strides):
        raise UserError(
            f"{source.quoted()}  {writer}: several elements of this {shown.dtype.name}{list(shown.shape)} are one element of "
            f"memory (strides {list(shown.strides)}), so it cannot be written in place; clone() it first"
        )
    if STATE.trace is None:
        if shown.array is None or not shown.array.flags.writeable:
            raise UserError(f"{source.quoted()}  {writer}: the memory of this tensor is read-only; clone() it first")
        np.copyto(shown.array, new.array)  # type: ignore[arg-type]
        cell.written(writer)
        return
    parents = [cell.value]
    for link in chain[:-1]:
        parents.append(link.view(parents[-1]))
    for link in reversed(chain):
        new = link.put(parents.pop(), new)
    cell.replace(same_value(new, cell.value.strides), writer)
