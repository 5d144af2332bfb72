"""Mutable storage.  A tensor handle is a cell and a chain of views of it; writing through a view changes the cell.

    read    = replay the chain on the cell's value
    write   = eager: copy into the cell's memory, which every view, numpy array and DLPack alias shares
              traced: fold the inverses of the chain over the new value; the cell gets another immutable value
              differentiated: both; the folded value knows the history of the whole storage, the memory has its elements

So functionalisation is not a pass: interpreters see immutable values only.  A write reads everything first: the new value
is complete before the first element is stored, which makes self-overlapping updates right.
"""

from __future__ import annotations

import itertools
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from assay.core.errors import UserError
from assay.core.operators.registry import Operator, lookup
from assay.frontends import source
from assay.frontends.layout import overlaps
from assay.frontends.value import (
    STATE,
    Interpreter,
    Trace,
    Value,
    Writes,
    abstract,
    annotating_levels,
    apply_by_name,
    is_annotated,
    leaked,
    live_levels,
    muted,
    process,
    same_value,
)

_numbers = itertools.count()  # of links


class Cell:
    """Storage: its memory (`array`) and the writes to it, which cells over the same memory share.

    During a capture a cell has a value without memory; `owner` is the trace that it belongs to.
    Where there is a `lock`, it is held from the read to the write of an update: the state of a generator has one.
    `annotated`: some level knew something of a value of it, as Autograd does of what requires a gradient.
    """

    __slots__ = ("__weakref__", "_value", "annotated", "array", "lock", "owner", "writes")

    def __init__(self, array: np.ndarray | None, value: Value | None = None, owner: Trace | None = None) -> None:
        self.array = array
        self._value = value
        self.owner = owner
        self.lock: AbstractContextManager[Any] | None = None
        if value is None:
            self.writes = Writes()
            self.annotated = False
            return
        self.writes = value.writes or Writes()
        self.annotated = bool(value.meta)
        if array is not None:
            value.writes = self.writes

    @property
    def value(self) -> Value:
        """The whole storage as a value."""
        if self._value is None:
            assert self.array is not None
            self._value = Value(self.array)
            self._value.writes = self.writes
        return self._value

    @property
    def version(self) -> int:
        """How often it was written."""
        return self.writes.count

    def replace(self, value: Value, writer: str) -> None:
        """The storage after `writer` stored `value` in all of it."""
        self._value, self.array = value, value.array
        self.written(writer)

    def written(self, writer: str) -> None:
        """Count one write."""
        self.writes.count += 1
        self.writes.writer = writer

    def detach(self) -> None:
        """The same elements, with no history from now on."""
        made = process(lookup("detach.default"), (self.value,))
        made.shares = False
        if self.array is not None:
            made.writes = self.writes
        self._value = made

    def annotate(self, meta: dict[Any, Any]) -> None:
        """The same elements, of which levels know `meta`."""
        assert self.array is not None
        made = Value(self.array)
        made.meta, made.writes = meta, self.writes
        self._value, self.annotated = made, True


class Link:
    """One view of a chain: result `output` of the view operator `op`, whose arguments after the first are `rest`.

    The levels that were muted when it was made learn nothing of what it shows: a view made under no_grad has no gradient.
    `number` counts links in the order in which they were made.
    """

    __slots__ = ("muted", "number", "op", "output", "rest")

    def __init__(self, op: Operator, rest: tuple[Any, ...], output: int | None) -> None:
        self.op, self.rest, self.output = op, rest, output
        self.muted = STATE.muted
        self.number = next(_numbers)

    def with_rest(self, rest: tuple[Any, ...]) -> Link:
        """The same link with other arguments."""
        made = Link(self.op, rest, self.output)
        made.muted, made.number = self.muted, self.number
        return made

    def called(self, levels: frozenset[Interpreter]) -> Link:
        """The link of a capture at a call: what no_grad muted there, it mutes of `levels` here."""
        made = Link(self.op, self.rest, self.output)
        made.number = self.number
        if any(isinstance(level, Trace) for level in self.muted):
            made.muted = made.muted | levels
        return made

    @property
    def key(self) -> tuple[Any, ...]:
        """What distinguishes links."""
        return (self.op, self.rest, self.output)

    def view(self, parent: Value) -> Value:
        """The view of a value."""
        if self.muted is STATE.muted:
            out = process(self.op, (parent, *self.rest))
        else:
            with muted(self.muted):
                out = process(self.op, (parent, *self.rest))
        return out if self.output is None else out[self.output]

    @property
    def cuts(self) -> bool:
        """Whether what it shows has no history where what it is a view of has one."""
        if self.op.base == "detach" or any(level in self.muted for level in live_levels()):
            return True
        return STATE.trace is not None and STATE.trace in self.muted and STATE.trace not in STATE.muted

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
        if trace.met is not None:
            trace.met(cell, value)
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
        if value.array is not None:
            value.writes = cell.writes
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
    whole = cell.value
    annotated = (new.meta or cell.annotated) and is_annotated(new, whole)
    if annotated:
        annotated = _is_recorded(chain, whole, new, writer)
    if STATE.trace is None:
        if shown.array is None or not shown.array.flags.writeable:
            raise UserError(f"{source.quoted()}  {writer}: the memory of this tensor is read-only; clone() it first")
        if annotated:
            folded = _folded(whole, chain, new)
            for level in live_levels():
                level.before_write(new, cell.writes)
        np.copyto(shown.array, new.array)  # type: ignore[arg-type]
        cell.written(writer)
        if annotated:
            cell.annotate(_known(whole, folded, live_levels()))
            for level in live_levels():
                level.after_write(whole, cell.value)
        return
    made = same_value(_overwritten(whole, chain, new), whole.strides)
    cell.replace(made, writer)
    for level in live_levels():
        level.after_write(whole, made)


def _folded(whole: Value, chain: Chain, new: Value) -> Value:
    """The whole storage after `new` was written to the view: the inverses of the chain, innermost first."""
    parents = [whole]
    for link in chain[:-1]:
        parents.append(link.view(parents[-1]))
    for link in reversed(chain):
        new = link.put(parents.pop(), new)
    return new


def _overwritten(whole: Value, chain: Chain, new: Value) -> Value:
    """The same in a capture: what a level does not see of the write, it knows of the result as it did of `whole`.

    The trace of the capture stands for the levels that there will be at a call, so it takes note of what they will not see.
    """
    trace = STATE.trace
    assert trace is not None
    cut = any(link.cuts for link in chain)
    live = live_levels()
    if not cut and trace not in STATE.muted:
        made = _folded(whole, chain, new)
    else:
        detach = lookup("detach.default")
        with muted(STATE.muted.union(live) if cut else STATE.muted):
            if trace in STATE.muted:
                folded = process(detach, (_folded(whole, chain, new),))
            else:  # of what is written it must show whether it has a history
                folded = _folded(process(detach, (whole,)), chain, new)
        with muted(STATE.muted.union(annotating_levels()) - {trace}):
            made = process(lookup("overwritten.default"), (whole, folded))
        if not cut:
            made.meta.update((level, folded.meta[level]) for level in live if level in folded.meta)
    made = same_value(made, made.strides)
    made.meta = _known(whole, made, [] if cut else live)
    return made


def _known(whole: Value, folded: Value, seeing: list[Interpreter]) -> dict[Any, Any]:
    """What levels know of a storage after a write: those that are `seeing` what they know of `folded`, others as of `whole`."""
    meta = dict(folded.meta)
    for level in annotating_levels():
        if level not in seeing:
            meta.pop(level, None)
            if level in whole.meta:
                meta[level] = whole.meta[level]
    return meta


def _is_recorded(chain: Chain, whole: Value, new: Value, writer: str) -> bool:
    """Whether a write changes the history of the storage `whole`: not through detach() or a view made under no_grad.

    Raises UserError where it must and cannot: for a leaf, and where what is written has a history such a view does not keep.
    """
    if any(link.cuts for link in chain):
        if is_annotated(new):
            raise UserError(
                f"{source.quoted()}  {writer}: this tensor shares memory with one that it is detached from (detach(), .data, or "
                "a view made under no_grad), so what requires a gradient cannot be written to it; clone() it first"
            )
        return False
    for level in live_levels():
        level.check_write(whole, writer)
    return True
