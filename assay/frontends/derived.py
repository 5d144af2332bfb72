"""Operators whose meaning is derived from that of another one, so that none needs a rule of differentiation.

    pullback(mul.Tensor, its program, ...)     -> mul_vjp.Tensor(d0, other) -> gradient of self
    pushforward(mul.Tensor, its program, ...)  -> mul_jvp.Tensor(t_self, other) -> tangent of the result

Each takes what its core program loads and nothing else: those are the values that have to be saved.  Results of the operator
count too, so that exp_vjp reads exp(x) where it is there already.  They are operators like any other: traced, lowered, compiled,
and differentiated again.  One stands for one set of shapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

from assay.core.errors import UserError
from assay.core.ieee import ieee
from assay.core.lang import Program, T, const, input, order, program, recorded_requires, tensor
from assay.core.operators.dependence import NOTHING, Dependences, through_floats
from assay.core.operators.registry import Operator
from assay.core.operators.schema import parse
from assay.semantics.tangent import tangent
from assay.transforms.adjoint import adjoint, cotangents_of, unused
from assay.transforms.rewrite import put_for


class ProgramOperator(Operator):
    """The operator name(inputs...) -> outputs that means this program.

    linear: for each output, inputs that it depends on though the program may not read them (cotangents of what gives 0)
    """

    def __init__(self, base: str, overload: str, p: Program, backend: Any = None, *, linear: Dependences = ()) -> None:
        named = base if overload == "default" else f"{base}.{overload}"
        takes = ", ".join(f"Tensor {t.name}" for t in p.inputs)
        gives = "Tensor" if len(p.outputs) == 1 else f"({', '.join(['Tensor'] * len(p.outputs))})"
        super().__init__(parse(f"{named}({takes}) -> {gives}"), self._of, "derived", backend=backend)
        self.fixed, self.linear = p, linear

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

    def dependences(self, p: Program) -> Dependences:
        return self.known

    @cached_property
    def known(self) -> Dependences:
        """The dependences of a call."""
        found = through_floats(self.fixed)
        return tuple(map(frozenset[int].union, found, self.linear)) if self.linear else found

    def derivative(self, name: str, p: Program, linear: Dependences) -> Operator:
        """The operator of a derivative of this one."""
        return ProgramOperator(name, self.overload, p, self.backend, linear=linear)

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


def active(op: Operator, p: Program, wanted: tuple[int, ...]) -> tuple[int, ...]:
    """The outputs of the program `p` of a call of `op` that have a history (a tangent) where the inputs `wanted` have one."""
    key = "active", op, p, wanted
    found = _chosen.get(key)
    if found is None:
        found = _chosen[key] = tuple([k for k, on in enumerate(op.dependences(p)) if not on.isdisjoint(wanted)])
    return found


def reaching(op: Operator, p: Program, wanted: tuple[int, ...], given: tuple[int, ...]) -> tuple[int, ...]:
    """The inputs among `wanted` that a cotangent of an output in `given` goes to: the others have no gradient."""
    key = "reaching", op, p, wanted, given
    found = _chosen.get(key)
    if found is None:
        on = NOTHING.union(*map(op.dependences(p).__getitem__, given))
        found = _chosen[key] = tuple([k for k in wanted if k in on])
    return found


_chosen: dict[Any, tuple[int, ...]] = {}


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
            operator, reads = _reading("vjp", op, p, seeds, gradients, of_cotangents(op, p, wanted, given))
        found = _derived[key] = Derived(operator, reads, wanted)
    return found


def pushforward(op: Operator, p: Program, moving: tuple[int, ...]) -> Derived | None:
    """The tangents of the inputs `moving` -> those of the outputs that have one; None: none has.

    Raises Unsupported where the operator has no derivative.
    """
    results = active(op, p, moving)
    if not results:
        return None
    key = "jvp", op, p, moving
    found = _derived.get(key)
    if found is None:
        names = {t.name for t in p.inputs}
        with ieee(), recorded_requires():
            moves = {p.inputs[k]: input(unused(f"t{k}", names), p.inputs[k].shape, p.inputs[k].dtype) for k in moving}
            tangents = tangent(op.differentiated(p).outputs, moves)
            moved = [zeros(p.outputs[k]) if (t := tangents[k]) is None else t for k in results]
            of_tangents = tuple([frozenset([n for n, j in enumerate(moving) if j in op.dependences(p)[k]]) for k in results])
            operator, reads = _reading("jvp", op, p, list(moves.values()), moved, of_tangents)
        found = _derived[key] = Derived(operator, reads, results)
    return found


def of_cotangents(op: Operator, p: Program, wanted: Sequence[int], given: Sequence[int]) -> Dependences:
    """For the gradient of each of the inputs `wanted`, which of the cotangents of the outputs `given` it is made of."""
    on = op.dependences(p)
    return tuple([frozenset([n for n, k in enumerate(given) if j in on[k]]) for j in wanted])


def zeros(like: T) -> T:
    """Zeros of the shape and type of another tensor."""
    return tensor(like.shape, lambda *_: const(0, like.dtype))


def _reading(what: str, op: Operator, p: Program, first: Sequence[T], outputs: list[T],
             linear: Dependences) -> tuple[Operator, tuple[int, ...]]:  # fmt: skip
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
        return op.derivative(name, made, linear), tuple(reads.values())
    return ProgramOperator(name, op.overload, made, op.backend, linear=linear), tuple(reads.values())
