"""A compiled program as an operator whose derivative is partitioned: its forward keeps what its backward is not to compute again.

    recording(wanted)         the operator to run where gradients of the inputs `wanted` are recorded: the same results, and
                              behind them the values that its backward is given
    pullback(wanted, given)   the backward: cotangents, saved values, inputs -> gradients

Both halves are compiled when they are first run (`ahead`: at the first recorded call).  The backward is an operator of this kind
again, so a gradient that is to be differentiated has a forward, a backward and saved values of its own, of any order, and
nothing is done for orders that nobody asks for.  Beyond `max_order` the gradient has its values, and going back is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from assay.core.errors import InternalError, Unsupported
from assay.core.graph import Graph
from assay.core.lang import Program, order, program
from assay.core.operators.dependence import Dependences, through_floats
from assay.core.operators.registry import Operator
from assay.frontends.dependence import dependences_of_graph
from assay.frontends.derived import Derived, ProgramOperator, active, of_cotangents, pullback, reaching
from assay.partition.choose import Budget, partition
from assay.partition.joint import Joint, joint_program, split
from assay.partition.prices import Partition
from assay.semantics.lifetimes import working_bytes

JointOf = Callable[[tuple[int, ...], tuple[int, ...]], Joint]
"""(wanted inputs, given results) -> the joint program."""


@dataclass
class Derivatives:
    """How all derivatives of one compiled function are made: compiled by `build`, partitioned within `budget`, up to `max_order`.

    held         how much memory compiled code takes
    ahead        the backward is compiled with the forward, not when it first runs
    partitions   those that were made, each with the name of what it is the forward and backward of
    """

    build: Callable[[Program], Callable[[list[Any]], Any]]
    budget: Budget | None = None
    max_order: int | None = None
    held: Callable[[Program], int] = working_bytes
    ahead: bool = False
    partitions: list[tuple[str, Partition]] = field(default_factory=list[tuple[str, Partition]])


class PartitionedOperator(ProgramOperator):
    """The operator that means `p`; `order` counts how often it has been differentiated to become this one.

    joint: the program with its gradients (None: by the adjoint of `p` as a whole)
    of: the graph that `p` is lowered from: results have the history that its calls give them, which `p` may not show
    """

    def __init__(self, base: str, p: Program, settings: Derivatives, *, joint: JointOf | None = None, of: Graph | None = None,
                 order: int = 0, linear: Dependences = ()) -> None:  # fmt: skip
        super().__init__(base, "default", p, settings.build, linear=linear)
        self.graph = of
        self.settings, self.order = settings, order
        self.joint: JointOf = joint or self._adjoint
        self._recording: dict[tuple[int, ...], Operator] = {}

    def _adjoint(self, wanted: tuple[int, ...], given: tuple[int, ...]) -> Joint:
        return joint_program(self.fixed, [self.fixed.inputs[k] for k in wanted], given=given)

    def recording(self, wanted: tuple[int, ...]) -> Operator:
        found = self._recording.get(wanted)
        if found is None:
            given = active(self, self.fixed, wanted)
            if not given or self._is_last:
                found = self
            else:
                reached = reaching(self, self.fixed, wanted, given)
                made = partition(self.joint(reached, given), self.settings.budget, held=self.settings.held)
                self.settings.partitions.append((self.base, made))
                found = Recording(self, made, given)
                if self.settings.ahead:
                    found.build(reached, given)
            self._recording[wanted] = found
        return found

    def pullback(self, wanted: tuple[int, ...], given: tuple[int, ...]) -> Derived | None:
        if self._is_last:
            raise Unsupported(
                f"a derivative of order {self.order} of a compiled function for which max_order={self.settings.max_order} was "
                "asked for: it has no gradient. Compile the function with a larger max_order (None: any order), or run it "
                "without compilation to compute higher-order derivatives"
            )
        return None

    @cached_property
    def known(self) -> Dependences:
        return super().known if self.graph is None else dependences_of_graph(self.graph)

    def derivative(self, name: str, p: Program, linear: Dependences) -> Operator:
        return PartitionedOperator(name, p, self.settings, order=self.order + 1, linear=linear)

    @property
    def _is_last(self) -> bool:
        return self.order == self.settings.max_order


class Recording(ProgramOperator):
    """The forward of a partition: the results of `of`, then the saved values that are not among them."""

    def __init__(self, of: PartitionedOperator, made: Partition, given: tuple[int, ...]) -> None:
        super().__init__(of.base, "default", made.split.forward, of.backend)
        self.of, self.partition, self.given = of, made, given
        self.shown = len(of.fixed.outputs)
        self._derived: dict[Any, Derived] = {}

    def pullback(self, wanted: tuple[int, ...], given: tuple[int, ...]) -> Derived | None:
        """The backward for some of the inputs and results; saved values have cotangents too once a backward is differentiated."""
        found = self._derived.get((wanted, given))
        if found is None:
            found = self._derived[wanted, given] = self.backward(wanted, given)
        return found

    @cached_property
    def known(self) -> Dependences:
        return (*self.of.known, *through_floats(self.fixed)[self.shown :])

    def derivative(self, name: str, p: Program, linear: Dependences) -> Operator:
        return self.of.derivative(name, p, linear)

    def build(self, wanted: tuple[int, ...], given: tuple[int, ...]) -> None:
        """Compile both halves now."""
        found = self.pullback(wanted, given)
        assert found is not None
        assert isinstance(found.operator, ProgramOperator)
        for p in (self.fixed, found.operator.fixed):
            self.of.settings.build(p)

    def backward(self, wanted: tuple[int, ...], given: tuple[int, ...]) -> Derived:
        """The operator from the cotangents of the results `given` to the gradients of the inputs `wanted`, and what it reads."""
        whole = self.partition.split
        if any(k >= self.shown for k in given):
            joint = joint_program(self.fixed, [self.fixed.inputs[k] for k in wanted], given=given)
        else:
            joint = self.of.joint(wanted, given)
        halves = whole if joint == whole.joint else split(joint, set(whole.saved) & set(joint.values))
        back = halves.backward
        saved, held = back.inputs[: len(halves.saved)], halves.held
        at = dict(zip(whole.saved, whole.at, strict=True))
        number = {t: k for k, t in enumerate(self.fixed.inputs)}
        reads = (*(~at[t] for t in halves.saved), *(number[t] for t in held))
        made = program((*joint.cotangents, *saved, *held), back.outputs, name=back.name)
        operator = self.derivative(f"{self.of.base}_backward", made, of_cotangents(self, self.fixed, wanted, given))
        return Derived(operator, reads, wanted)


def visible(op: Operator, made: Any) -> Any:
    """The results of a recorded call without the saved values behind them."""
    if not isinstance(op, Recording):
        return made
    results: Sequence[Any] = made if isinstance(made, tuple) else (made,)
    return results[0] if op.shown == 1 else tuple(results[: op.shown])


def kept(op: Operator, p: Program, wanted: tuple[int, ...], given: tuple[int, ...]) -> tuple[int, ...]:
    """What a recorded call keeps of its arguments (k) and results (~k): what its backward reads, and, of a partition that may be
    differentiated again, all saved values and the inputs that they come from (the backward of saved values reads these).
    """
    if not isinstance(op, Recording):
        return pullback(op, p, wanted, given).reads
    found = pullback(op, p, wanted, tuple(k for k in given if k < op.shown)).reads
    most, order_ = op.of.settings.max_order, op.of.order
    hidden = [p.outputs[k] for k in given if k >= op.shown]
    if hidden and (most is None or order_ + 1 < most):
        sources = set(order(hidden))
        found += tuple(~k for k in op.partition.split.at) + tuple(k for k, t in enumerate(p.inputs) if t in sources)
    return tuple(dict.fromkeys(found))


def check_reads(op: Operator, reads: Sequence[int], kept: Sequence[int]) -> None:
    """Raises InternalError where a backward reads what its forward has not kept."""
    lost = sorted(set(reads) - set(kept))
    if lost:
        raise InternalError(f"the backward of {op.name} reads {lost}, of which only {sorted(kept)} were kept")
