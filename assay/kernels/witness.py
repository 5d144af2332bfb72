"""Counterexamples: sizes, a program, a lane; replayed by the concrete interpreter before anything is said.

A point of the solver gives values to leaves. From it come the launch's sizes, the program, the lane and the elements that
were read; the kernel's source is then run at exactly these, with the machine's integers, and the access must really go
outside.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.core.errors import AssayError
from assay.kernels import terms as tm
from assay.kernels.arguments import Launch, Tensor
from assay.kernels.concrete import Concrete, Event, FloatsNeeded, Memory, Sparse, TooLong
from assay.kernels.deciding import Points, TermReading
from assay.kernels.symbols import Access, Fits, Hint
from assay.kernels.terms import Leaf, Poly
from assay.kernels.types import Type
from assay.verify.integers import Answer


@dataclass(frozen=True)
class Witness:
    """Where and how it fails: `message` says what happens."""

    sizes: Mapping[str, int]
    program: tuple[int, ...]
    lane: tuple[int, ...]
    index: int
    bound: int | None
    line: int
    how: str
    message: str
    elements: tuple[str, ...] = ()  # values of inputs that it takes

    def __str__(self) -> str:
        where = [place(self.program, self.lane)]
        where += [f"{k} = {v}" for k, v in self.sizes.items()]
        where += self.elements
        return f"{self.message}\nat {', '.join(where)}"

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return {
            "sizes": dict(self.sizes),
            "program": list(self.program),
            "lane": list(self.lane),
            "index": self.index,
            "bound": self.bound,
            "line": self.line,
            "message": self.message,
            "elements": list(self.elements),
        }


def place(program: tuple[int, ...], lane: tuple[int, ...]) -> str:
    """program 3, lane [5]"""
    shown = f"({', '.join(map(str, program))})" if len(program) > 1 else str(program[0])
    return f"program {shown}" + (f", lane {list(lane)}" if lane else "")


class At:
    """The launch at a point of the solver; leaves that the point does not name take the least value they can."""

    def __init__(self, launch: Launch, point: Mapping[Any, int]) -> None:
        self.launch = launch
        self.reading = TermReading(Points(True), {a: np.array(v, object) for a, v in point.items()})

    def value(self, p: Poly) -> int:
        """The integer that a term is there."""
        for a in tm.walk((p,)):
            if isinstance(a, Leaf) and a not in self.reading.known:
                least = max(a.lo, self.value(a.lower)) if a.lower is not None else a.lo
                self.reading.known[a] = np.array(least, object)
        return int(self.reading.poly(p))

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes by name; those that are expressions of others too."""
        return {n: self.value(p) for n, p in self.launch.sizes.items() if p.constant is None}

    @property
    def grid(self) -> tuple[int, ...]:
        return tuple(self.value(g) for g in self.launch.grid)

    def arguments(self) -> dict[str, Any]:
        """The kernel's arguments, as the concrete interpreter takes them."""
        return concrete_arguments(self.launch, self.value)


def concrete_arguments(launch: Launch, value: Any) -> dict[str, Any]:
    """The arguments of a launch, given what its terms are."""
    found: dict[str, Any] = {}
    for name, v in launch.parameters.items():
        if isinstance(v, Tensor):
            found[name] = Memory(name, v.type, value(v.count))
        elif isinstance(v, tuple) and len(v) == 2 and isinstance(v[0], Type):
            found[name] = (v[0], value(v[1]))
        elif isinstance(v, Type) and v.is_float:
            found[name] = (v, 1.0)
        else:
            found[name] = v
    return found


def _replayed(prover: Any, at: At, program: tuple[int, ...], given: dict[tuple[str, int], int]) -> list[Event] | None:
    """The events of one program at the point; None where it takes too much work, or cannot be run."""
    least = {n: at.value(t.lower) for n, t in prover.launch.parameters.items() if isinstance(t, Tensor) and t.lower is not None}
    for floats in (False, True):
        walker = Concrete(prover.module, Sparse(given, least), program, at.grid, floats=floats)
        try:
            return walker.run(prover.kernel, at.arguments())
        except FloatsNeeded:
            continue
        except TooLong:
            return walker.events  # what happened so far counts
        except (AssayError, MemoryError):
            return None
    return None


def _given(at: At, point: Mapping[Any, int], tensors: Mapping[str, Any]) -> tuple[dict[tuple[str, int], int], tuple[str, ...]]:
    """The elements of inputs of which the point says the value, and their texts."""
    found: dict[tuple[str, int], int] = {}
    for a, v in point.items():
        if isinstance(a, Leaf) and a.kind == "loaded":
            found[a.name, at.value(a.arguments[0])] = v
    texts = []
    for (name, offset), v in found.items():
        t = tensors.get(name)
        if isinstance(t, Tensor) and 0 <= offset < at.value(t.count):
            texts.append(f"{name}[{offset}] = {v}")
    return found, tuple(texts)


def _program(prover: Any, at: At) -> tuple[int, ...]:
    return tuple(at.value(prover.symbolic.ids[k]) for k in range(len(prover.launch.grid)))


def bounds_witness(prover: Any, a: Access, answer: Answer) -> Witness | None:
    """The access that goes outside, found in the replay; None where the replay does not show it."""
    assert answer.point is not None
    at = At(prover.launch, answer.point)
    program = _program(prover, at)
    given, texts = _given(at, answer.point, prover.launch.parameters)
    events = _replayed(prover, at, program, given)
    for e in events or ():
        if e.kind == a.kind and same_place(e.node, a.node) and e.tensor is not None and e.outside.any():
            return outside_witness(at.sizes, e, texts)
    return None


def outside_witness(sizes: Mapping[str, int], e: Event, elements: tuple[str, ...] = ()) -> Witness:
    """The first lane of an access that goes outside."""
    assert e.tensor is not None
    lane = tuple(int(i) for i in np.argwhere(e.outside)[0]) if e.outside.shape else ()
    index = int(np.asarray(e.offsets)[lane])
    message = f"{e.kind} of {e.tensor.name}[{index}], which has {e.tensor.count} elements"
    how = f"{e.tensor.name} is accessed outside"
    return Witness(sizes, e.program, lane, index, e.tensor.count, e.line, how, message, elements)


def fits_witness(prover: Any, f: Fits, a: Access, answer: Answer) -> Witness | None:
    """The operation that overflows, found in the replay, and the access that it spoils if there is one."""
    if answer.point is None:
        return None
    at = At(prover.launch, answer.point)
    program = _program(prover, at)
    given, texts = _given(at, answer.point, prover.launch.parameters)
    events = _replayed(prover, at, program, given)
    for e in events or ():
        if e.kind == "overflow" and same_place(e.node, f.node):
            wrong = (e.value < f.type.lo) | (e.value > f.type.hi)
            lane = tuple(int(i) for i in np.argwhere(wrong)[0]) if np.shape(e.value) else ()
            exact = int(np.asarray(e.value)[lane])
            wrapped = (exact - f.type.lo) % (1 << f.type.bits) + f.type.lo
            how = f"does not fit {f.type}; widen an operand with .to(tl.int64)"
            message = f"{exact} wraps to {wrapped}"
            spoiled = next((x for x in events or () if x.tensor is not None and x.outside.any()), None)
            if spoiled is not None:
                where = tuple(int(i) for i in np.argwhere(spoiled.outside)[0]) if spoiled.outside.shape else ()
                message += f"; line {spoiled.line} then accesses {spoiled.tensor.name}[{int(spoiled.offsets[where])}]"  # type: ignore[union-attr]
            return Witness(at.sizes, program, lane, exact, f.type.hi, f.line, how, message, texts)
    return None


def promise_witness(prover: Any, h: Hint, answer: Answer) -> Witness | None:
    """The promise that is broken, found in the replay."""
    assert answer.point is not None
    at = At(prover.launch, answer.point)
    program = _program(prover, at)
    given, texts = _given(at, answer.point, prover.launch.parameters)
    for e in _replayed(prover, at, program, given) or ():
        if e.kind == "hint" and same_place(e.node, h.node):
            return Witness(
                at.sizes, program, (), 0, None, e.line, "does not hold", f"what {h.kind} promises the compiler is false", texts
            )
    return None


def same_place(a: ast.AST, b: ast.AST) -> bool:
    """Whether two nodes are the same piece of source."""
    ends = "lineno", "col_offset", "end_lineno", "end_col_offset"
    return a is b or [getattr(a, k, None) for k in ends] == [getattr(b, k, None) for k in ends]
