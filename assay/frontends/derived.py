"""Operators whose meaning is derived from that of another one, so that none needs a rule of differentiation.

    pullback(mul.Tensor, its program, ...)     -> mul_vjp.Tensor(d0, other) -> gradient of self
    pushforward(mul.Tensor, its program, ...)  -> mul_jvp.Tensor(t_self, other) -> tangent of the result

Each takes what its core program loads and nothing else: those are the values that have to be saved.  Results of the operator
count too, so that exp_vjp reads exp(x) where it is there already.  They are operators like any other: traced, lowered, compiled,
and differentiated again.  One stands for one set of shapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from assay.core.errors import UserError
from assay.core.ieee import ieee
from assay.core.lang import LOADS, E, Program, T, bodies, input, order, program, recorded_requires
from assay.core.operators.registry import Operator
from assay.core.operators.schema import parse
from assay.semantics.tangent import tangent
from assay.transforms.adjoint import adjoint, cotangents_of, unused
from assay.transforms.rewrite import put_for


class ProgramOperator(Operator):
    """The operator name(inputs...) -> outputs that means this program."""

    def __init__(self, base: str, overload: str, p: Program, backend: Any = None) -> None:
        named = base if overload == "default" else f"{base}.{overload}"
        takes = ", ".join(f"Tensor {t.name}" for t in p.inputs)
        gives = "Tensor" if len(p.outputs) == 1 else f"({', '.join(['Tensor'] * len(p.outputs))})"
        super().__init__(parse(f"{named}({takes}) -> {gives}"), self._of, "derived", backend=backend)
        self.fixed = p

    def program(self, *arguments: Any) -> Program:
        """The program, whatever the arguments.  Raises UserError for other shapes or types than its inputs have."""
        for a, t in zip(arguments, self.fixed.inputs, strict=True):
            if tuple(a.shape) != t.shape or a.dtype is not t.dtype:
                raise UserError(f"{self.name} takes {t!r}, not {a.dtype.name}{list(a.shape)}")
        return self.fixed

    def recording(self, wanted: tuple[int, ...]) -> Operator:
        """The operator to run where gradients of the inputs `wanted` are recorded: its first results are those of this one."""
        return self

    def pullback(self, wanted: tuple[int, ...], given: tuple[int, ...]) -> Derived | None:
        """What the function `pullback` gives, where this operator has its own; None: derived from the program as always."""
        return None

    def derivative(self, name: str, p: Program) -> Operator:
        """The operator of a derivative of this one."""
        return ProgramOperator(name, self.overload, p, self.backend)

    def _of(self, *tensors: T) -> T | tuple[T, ...]:
        given = dict(zip(self.fixed.inputs, tensors, strict=True))
        results = put_for((*self.fixed.checks, *self.fixed.outputs), given)[len(self.fixed.checks) :]
        return results[0] if len(results) == 1 else tuple(results)


class Derived(NamedTuple):
    """An operator made from another one.

    Its first arguments are cotangents or tangents; then comes, for each k of `reads`, the tensor argument k >= 0 of the other
    one, or its result ~k.  `results`: which results (tangents) or tensor arguments (gradients) it gives.
    """

    operator: Operator
    reads: tuple[int, ...]
    results: tuple[int, ...]


_derived: dict[Any, Derived] = {}


def active(p: Program, wanted: Sequence[int]) -> tuple[int, ...]:
    """The outputs of `p` that depend on one of these inputs through floats."""
    key = "active", p, wanted
    found = _active.get(key)
    if found is None:
        known = {p.inputs[k] for k in wanted}
        for t in order(p.outputs):
            if t.dtype.is_float and not _sources(t).isdisjoint(known):
                known.add(t)
        found = _active[key] = tuple(k for k, t in enumerate(p.outputs) if t in known)
    return found


def reaching(p: Program, wanted: tuple[int, ...], given: tuple[int, ...]) -> tuple[int, ...]:
    """The inputs among `wanted` on which an output of `given` depends through floats: the others have no gradient."""
    key = "reaching", p, wanted, given
    found = _active.get(key)
    if found is None:
        leads = {p.outputs[k] for k in given}
        for t in reversed(order(tuple(leads))):
            if t in leads:
                leads.update(r for r in _sources(t) if r.dtype.is_float)
        found = _active[key] = tuple(k for k in wanted if p.inputs[k] in leads)
    return found


def carried(p: Program, wanted: tuple[int, ...], given: tuple[int, ...]) -> tuple[int, ...]:
    """The inputs among `wanted` that the cotangents of the outputs `given` go to: the others get nothing, rather than zeros."""
    return wanted if len(p.outputs) == 1 else reaching(p, wanted, given)


@cache
def _sources(t: T) -> frozenset[T]:
    """What the definition reads, but for what it reads below a `stop` only."""
    found = {t.base} if t.kind == "scatter" else set(t.args) if t.kind == "extern" else set[T]()
    todo, seen = list(bodies(t)), set[E]()
    while todo:
        e = todo.pop()
        if e in seen or e.op == "stop" or t.reads == found:
            continue
        seen.add(e)
        if e.op == "as_if":
            todo.append(e.args[1])
            continue
        if e.op in LOADS:
            found.add(e.attr[0])
        todo += e.deps
    return frozenset(found)


_active: dict[Any, tuple[int, ...]] = {}


def pullback(op: Operator, p: Program, wanted: tuple[int, ...], given: tuple[int, ...]) -> Derived:
    """The cotangents of the outputs `given` -> the gradients of the inputs `wanted` of the operator with the program `p`.

    Raises Unsupported where the operator has no derivative.
    """
    own = op.pullback(wanted, given) if isinstance(op, ProgramOperator) else None
    if own is not None:
        return own
    key = "vjp", op, p, wanted, given
    found = _derived.get(key)
    if found is None:
        with ieee(), recorded_requires():
            seeds = cotangents_of(p, given)
            gradients = adjoint([op.differentiated(p).outputs[k] for k in given], seeds, [p.inputs[k] for k in wanted])
            operator, reads = _reading("vjp", op, p, seeds, gradients)
        found = _derived[key] = Derived(operator, reads, wanted)
    return found


def pushforward(op: Operator, p: Program, moving: tuple[int, ...]) -> Derived | None:
    """The tangents of the inputs `moving` -> those of the outputs that have one; None: none has.

    Raises Unsupported where the operator has no derivative.
    """
    key = "jvp", op, p, moving
    found = _derived.get(key)
    if found is None:
        names = {t.name for t in p.inputs}
        with ieee(), recorded_requires():
            moves = {p.inputs[k]: input(unused(f"t{k}", names), p.inputs[k].shape, p.inputs[k].dtype) for k in moving}
            tangents = tangent(op.differentiated(p).outputs, moves)
            results = tuple(k for k, t in enumerate(tangents) if t is not None)
            if not results:
                return None
            operator, reads = _reading("jvp", op, p, list(moves.values()), [t for t in tangents if t is not None])
        found = _derived[key] = Derived(operator, reads, results)
    return found


def _reading(what: str, op: Operator, p: Program, first: Sequence[T],
             outputs: list[T]) -> tuple[Operator, tuple[int, ...]]:  # fmt: skip
    """The operator first..., what `outputs` load -> outputs, and which arguments (k) and results (~k) of `op` those are."""
    names = {t.name for t in (*p.inputs, *first)}
    loaded = set(order(outputs))
    there = {t: ~k for k, t in enumerate(p.outputs) if t in loaded and t.kind != "input" and not op.view}
    results = {t: input(unused("result" if len(p.outputs) == 1 else f"result{~k}", names), t.shape, t.dtype)
               for t, k in there.items()}  # fmt: skip
    outputs = put_for(outputs, {**{t: t for t in (*p.inputs, *first)}, **results})
    loaded = set(order(outputs))
    reads = {t: k for k, t in enumerate(p.inputs) if t in loaded}
    reads.update((t, there[made]) for made, t in results.items() if t in loaded)
    name = f"{op.base}_{what}"
    made = program((*first, *reads), outputs, (), name)
    if isinstance(op, ProgramOperator):
        return op.derivative(name, made), tuple(reads.values())
    return ProgramOperator(name, op.overload, made, op.backend), tuple(reads.values())
