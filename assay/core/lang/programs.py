"""Programs: inputs, outputs, and the checks that must hold although no output reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from assay.core.errors import UserError
from assay.core.lang.tensors import T, order


class Program:
    """inputs -> outputs.  `effects` are the requires that must hold although no output reads them.

    Interned: equal programs are the same object.
    """

    __slots__ = ("effects", "inputs", "name", "outputs")
    name: str
    inputs: tuple[T, ...]
    outputs: tuple[T, ...]
    effects: tuple[T, ...]

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


_programs: dict[tuple[Any, ...], Program] = {}


def program(inputs: Sequence[T], outputs: Sequence[T], effects: Sequence[T] = (), name: str = "f") -> Program:
    """The program; effects that an output already reads are dropped, the others are kept in creation order.

    Raises UserError for a tensor that reads an input which is not among `inputs`, or two inputs of one name.
    """
    inputs, outputs = tuple(inputs), tuple(outputs)
    reached = set(order(outputs))
    kept = tuple(t for t in order(effects) if t.kind == "require" and t not in reached)
    known = set(inputs)
    for t in order(outputs + kept):
        if t.kind == "input" and t not in known:
            raise UserError(f"program {name} reads {t!r}, which is not among its inputs {list(inputs)}")
    if len({t.name for t in inputs}) != len(inputs):
        raise UserError(f"program {name}: two inputs have the same name: {[t.name for t in inputs]}")
    key = (name, inputs, outputs, kept)
    found = _programs.get(key)
    if found is None:
        found = _programs[key] = Program()
        found.name, found.inputs, found.outputs, found.effects = name, inputs, outputs, kept
    return found


def requires(p: Program) -> list[T]:
    """The run-time checks of a program."""
    return [t for t in p.tensors if t.kind == "require"]


def size_of(t: T) -> int:
    """Bytes of a tensor."""
    return t.size * t.dtype.itemsize
