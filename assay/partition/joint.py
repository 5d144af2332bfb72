"""A program with its gradients, and its two halves.

    joint     inputs, cotangents -> outputs, gradients
    split     forward   inputs -> outputs, saved values
              backward  saved values, inputs, cotangents -> gradients

Whatever is saved, both halves together are the joint program: putting what the forward computes in the place of the saved
values gives it back, the same object (`rejoined`).  So the gradients have the same bits for every choice.

Integers are saved in the narrowest type that holds their interval: the position of a maximum in a window of 4 takes a byte.

The checks stay in the forward.  A checked value that the backward computes again, and a saved integer, are limited to the
interval that the forward has established: where that holds nothing changes, and what is read by them stays in bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from assay.core import dtypes as dt
from assay.core.dtypes import DType
from assay.core.errors import InternalError, UserError
from assay.core.index import Ix
from assay.core.lang import (
    E,
    Program,
    T,
    const,
    convert,
    input,
    let,
    load,
    load_or_zero,
    op,
    order,
    program,
    rewrite_tensor,
    size_of,
    tensor,
)
from assay.transforms.adjoint import adjoint, cotangents_of, unused


@dataclass(frozen=True)
class Joint:
    """The first `outputs` results of the program are those of the forward, the rest its gradients.

    changed: inputs whose memory the caller overwrites before the backward runs; what it reads of them has to be saved
    """

    program: Program
    outputs: int
    cotangents: tuple[T, ...]
    changed: frozenset[T] = frozenset()

    @property
    def results(self) -> tuple[T, ...]:
        return self.program.outputs[: self.outputs]

    @property
    def gradients(self) -> tuple[T, ...]:
        return self.program.outputs[self.outputs :]

    @property
    def inputs(self) -> tuple[T, ...]:
        """The inputs of the forward."""
        return tuple(t for t in self.program.inputs if t not in self.cotangents)

    @cached_property
    def values(self) -> tuple[T, ...]:
        """What the backward may be given: what gradients depend on and cotangents do not, each after what it reads.

        Most of them the forward computes anyway; those that it does not (the position of a maximum) it may as well.
        Inputs are none, as the backward reads them where they are; except for those that are `changed`.
        """
        late = set(self.cotangents)
        found: list[T] = []
        for t in order(self.gradients):
            if not late.isdisjoint(t.reads):
                late.add(t)
            elif t not in late and (t.kind != "input" or t in self.changed):
                found.append(t)
        return tuple(found)

    @cached_property
    def wanted(self) -> frozenset[T]:
        """The values that are read together with cotangents, or are gradients themselves."""
        known = frozenset(self.values)
        late = [t for t in order(self.gradients) if t not in known]
        return frozenset(r for t in late for r in t.reads if r in known) | (known & frozenset(self.gradients))

    def packed(self, t: T) -> T:
        """What is saved for the value `t`: itself, or, where its integers fit a narrower type, these."""
        narrow = _narrowest(t)
        if narrow is t.dtype or t in self.results or t.kind == "input":
            return t
        return tensor(t.shape, lambda *i: convert(load(t, *i), narrow))

    @cached_property
    def early(self) -> frozenset[T]:
        """What the forward computes in any case."""
        return frozenset(order((*self.results, *self.program.checks)))


def joint_program(p: Program, wrt: Sequence[T] | None = None, *, given: Sequence[int] | None = None,
                  changed: Collection[T] = ()) -> Joint:  # fmt: skip
    """The program with the gradients of `wrt` (by default the float inputs) for the outputs `given` (by default the floats).

    Raises as `adjoint` does.
    """
    wanted = [t for t in p.inputs if t.dtype.is_float] if wrt is None else list(wrt)
    which = [k for k, t in enumerate(p.outputs) if t.dtype.is_float] if given is None else list(given)
    seeds = cotangents_of(p, which)
    return joint_from(p, seeds, adjoint([p.outputs[k] for k in which], seeds, wanted), changed)


def joint_from(p: Program, seeds: Sequence[T], gradients: Sequence[T], changed: Collection[T] = ()) -> Joint:
    """The program with these gradients of it, which read its definitions and the cotangents `seeds`."""
    made = program((*p.inputs, *seeds), (*p.outputs, *gradients), p.checks, p.name)
    return Joint(made, len(p.outputs), tuple(seeds), frozenset(changed))


@dataclass(frozen=True)
class Split:
    """The halves of a joint program.

    forward     inputs -> outputs, then the saved values that are no outputs, packed
    backward    the saved values, the inputs that it reads, the cotangents -> gradients
    saved       the values that pass from one to the other      at    where each is among the forward's results
    again       the values that the backward computes again
    """

    joint: Joint
    forward: Program
    backward: Program
    saved: tuple[T, ...]
    at: tuple[int, ...]
    again: tuple[T, ...]

    @property
    def held(self) -> tuple[T, ...]:
        """The inputs that the backward reads where they are."""
        return self.backward.inputs[len(self.saved) : len(self.backward.inputs) - len(self.joint.cotangents)]

    @property
    def saved_bytes(self) -> int:
        return sum(size_of(self.joint.packed(t)) for t in self.saved)


def split(joint: Joint, saved: Iterable[T]) -> Split:
    """The halves that pass these values; those that no gradient needs are left out.

    Raises UserError for a tensor that is no value of the joint program, and where a changed input is needed and not saved.
    """
    chosen = frozenset(saved)
    stray = chosen - frozenset(joint.values)
    if stray:
        raise UserError(f"{sorted(stray, key=repr)} cannot be saved; the values of {joint.program!r} are {list(joint.values)}")
    values, needs = frozenset(joint.values), _needed(joint, chosen)
    kept = [t for t in joint.values if t in chosen and t in needs]
    names = {t.name for t in joint.program.inputs}
    passed = {t: joint.packed(t) for t in kept}
    inputs = {t: input(unused(f"s{k}", names), t.shape, p.dtype) for k, (t, p) in enumerate(passed.items())}
    new = {t: restored(s, t) for t, s in inputs.items()}
    again = [t for t in joint.values if t in needs and t not in chosen]
    lost = [t for t in again if t.kind == "input"]
    if lost:
        raise UserError(f"the backward needs {lost}, which will have been overwritten: save them")
    late = [t for t in order(joint.gradients) if t not in values]
    for t in (*again, *late):
        made = _rebuilt(t, new)
        new[t] = _limited(made) if made.kind == "require" else made
    gradients = [new.get(t, t) for t in joint.gradients]
    read = set(order(gradients))
    held = [t for t in joint.inputs if t in read]
    backward = program((*inputs.values(), *held, *joint.cotangents), gradients, name=f"{joint.program.name}_backward")
    results = list(joint.results)
    extra = [p for p in passed.values() if p not in results]
    forward = program(joint.inputs, (*results, *extra), joint.program.checks, f"{joint.program.name}_forward")
    return Split(joint, forward, backward, tuple(kept), tuple(map(forward.outputs.index, passed.values())), tuple(again))


def rejoined(halves: Split) -> Program:
    """The joint program, after putting what the forward computes in the place of the saved values has given it back.

    The gradients are compared as definitions, those without a repeated check: with each require replaced by its limited values,
    which it has wherever the forward's checks hold.  Raises InternalError where something else comes out.
    """
    joint, forward = halves.joint, halves.forward
    wrong = InternalError(f"the halves of {joint.program!r} that pass {list(halves.saved)} make another program")
    plain: dict[T, T] = {}
    for t in order((*joint.gradients, *joint.values)):
        made = _rebuilt(t, plain)
        plain[t] = _limited(made) if made.kind == "require" else made
    values = {joint.packed(t): t for t in joint.values}
    new: dict[T, T] = {}
    for s, k in zip(halves.backward.inputs, halves.at, strict=False):
        passed = forward.outputs[k]
        t = values.get(passed)
        if t is None or (passed.shape, passed.dtype) != (s.shape, s.dtype):
            raise wrong
        new[restored(s, t)] = plain[t]
    for t in order(halves.backward.outputs):
        if t not in new:
            new[t] = _rebuilt(t, new)
    gradients = [new[t] for t in halves.backward.outputs]
    if gradients != [plain[t] for t in joint.gradients]:
        raise wrong
    if (forward.inputs, forward.outputs[: joint.outputs], forward.checks) != (joint.inputs, joint.results, joint.program.checks):
        raise wrong
    return joint.program


def restored(s: T, t: T) -> T:
    """The saved value `t` as the backward reads it from the input `s`: what is known of its integers is said again."""
    if s.dtype is t.dtype and (t.dtype.is_float or (s.lo, s.hi) == (t.lo, t.hi)):
        return s
    return tensor(t.shape, lambda *i: convert(_clamped(load(s, *i), t.lo, t.hi), t.dtype))


def _narrowest(t: T) -> DType:
    """The integer type of fewest bytes that holds every value of `t`; its own type for floats and conditions."""
    if not t.dtype.is_integer:
        return t.dtype
    return min((d for d in (t.dtype, *INTEGERS) if d.lo <= t.lo and t.hi <= d.hi), key=lambda d: d.itemsize)


def _limited(t: T) -> T:
    """The values of a require without its check."""
    return let(t.shape, t.body if t.dtype.is_float else _clamped(t.body, t.lo, t.hi))


def _clamped(e: E, lo: int, hi: int) -> E:
    if e.hi > hi:
        e = op("min", e, const(hi, e.dtype))
    return op("max", e, const(lo, e.dtype)) if e.lo < lo else e


def _rebuilt(t: T, new: dict[T, T]) -> T:
    """The definition `t` with what it reads replaced."""
    if all(new.get(r, r) is r for r in t.reads):
        return t

    def on_load(r: T, at: tuple[Ix, ...], how: str) -> E | None:
        made = new.get(r, r)
        return None if made is r else _LOADS[how](made, *at)

    return rewrite_tensor(t, on_load, lambda r: new.get(r, r))


INTEGERS = (dt.i8, dt.u8, dt.i16, dt.i32)
_LOADS: dict[str, Callable[..., E]] = {"load": load, "load_or_zero": load_or_zero}


def _needed(joint: Joint, saved: Collection[T]) -> frozenset[T]:
    """The values that the backward needs, saved or not."""
    known = frozenset(joint.values)
    found = set(joint.wanted)
    todo = list(found)
    while todo:
        t = todo.pop()
        if t not in saved:
            new = (t.reads & known) - found
            found |= new
            todo += new
    return frozenset(found)
