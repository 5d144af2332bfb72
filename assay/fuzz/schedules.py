"""Random plans: whatever is legal must be right, not only what the cost model prefers for small programs.

What is stored is drawn for one let after the other; which kernels run together, by a model that draws the times that are
compared; schedules feature by feature.  All of it costs less than to model them.
"""

from __future__ import annotations

import math
import random
import zlib
from dataclasses import replace
from functools import cache

from assay.backends.legality import illegal, tile
from assay.backends.placement import Placement
from assay.backends.plan import Kernel, Plan, Schedule
from assay.backends.schedule.cost import Cost
from assay.backends.schedule.decide import Candidate, assemble
from assay.backends.schedule.fuse import INLINE, KEEP, LOCAL, Decisions, Group, Model, collapse
from assay.backends.schedule.machine import DEFAULTS
from assay.backends.schedule.pack import packed, packings
from assay.backends.schedule.signature import Local
from assay.backends.schedule.space import Choice
from assay.backends.target import Target, host
from assay.core.errors import Unsound
from assay.core.lang import Program, T
from assay.transforms.split import split_exact_folds
from assay.verify.bounds import ProvenProgram, proven

ATTEMPTS = 100
ROOM = 16  # values that the body of a kernel computes at a time, with all their copies; one without copies may be larger
LARGE = 128  # values of a body that is scalar code
WHOLE = 128  # and so many in all kernels of a program of few kernels, which compile quickly
PRICE = 50  # what a kernel counts for in the work of a search
CHANGED = 0.4  # of the lets
PACKED = 0.5  # of the kernels with a fold have copies of operands, where they have any that can be copied


def random_schedule(p: Placement, rng: random.Random, target: Target, room: int | None = None) -> Schedule:
    """Any legal combination of features; the plain schedule where none of ATTEMPTS is legal.

    With `room`, there is no jam and one copy where more than so many values would be computed at a time, and scalar code where
    there are more than LARGE values: a vector of elements that are not neighbours is a text of as many loads.
    """
    axes, lanes = range(len(p.axes)), target.lanes
    for _ in range(ATTEMPTS):
        vector, threads = rng.choice([None, *axes]), rng.choice([None, *axes])
        jam = tuple((k, rng.choice((2, 3, 4, lanes, lanes))) for k in axes if k != vector and rng.random() < 0.4)
        copies = rng.choice((1, 1, 2, 3))
        if room is not None and len(p.values) * copies * math.prod(u for _, u in jam) > room:
            copies, jam = 1, ()
        if room is not None and len(p.values) > LARGE:
            vector = None
        order: list[tuple[int, int | None]] = [(k, None) for k in rng.sample(axes, len(axes))]
        blocked: int | tuple[str, int] | None = threads
        if axes and rng.random() < 0.35:
            k = rng.choice(axes)
            order.insert(0, (k, tile(p, Schedule(vector=vector, copies=copies, jam=jam), k, lanes) * rng.choice((1, 2))))
            blocked = ("block", k) if threads == k else threads
        made = Schedule(vector, copies, jam, tuple(order), rng.choice(("seq", "rowvec")), rng.choice((None, None, 2, 4)),
                        blocked, rng.random() < 0.2)  # type: ignore[arg-type]  # fmt: skip
        if illegal(p, made, lanes) is None:
            return made
    return Schedule()


class _Chance(Model):
    """Draws the time of a kernel from its look and a number; infinite where its row buffers cannot be filled, as in any model."""

    def __init__(self, number: int) -> None:
        super().__init__(_model().machine)
        self.prices = _model().prices
        self.number = number
        self._drawn: dict[tuple[tuple[T, ...], Local], float] = {}

    def seconds(self, tensors: tuple[T, ...], local: Local = ()) -> float:
        found = self._drawn.get((tensors, local))
        if found is None:
            self.spent += PRICE
            look = [self.number, *((t.kind, t.shape, t.dtype.name, len(t.reads)) for t in tensors), *(lead for _, lead in local)]
            drawn = zlib.crc32(repr(look).encode()) / 2**32  # and not the next of a sequence: a search may ask in any order
            found = drawn if self.fillable(tensors, local) else math.inf
            self._drawn[tensors, local] = found
        return found


@cache
def _model() -> Model:
    return Model(DEFAULTS[host().lanes])


def random_plan(program: Program, number: int) -> tuple[Program, Plan]:
    """What decide.choose returns, with everything that is decided drawn from the number.

    Kernels that are alike have the same schedule, whatever else is in the plan: a smaller program still shows a fault.
    """
    target = host()
    program = collapse(split_exact_folds(program))
    decisions = Decisions(program, _Chance(number))
    _decide(decisions, random.Random(number))
    chosen: list[tuple[Group, Candidate | None]] = []
    for g in (g.merged() for g in decisions.groups()):
        chosen.append((g, _candidate(g, random.Random(number), target.lanes) if g.tensors[0].kind != "extern" else None))
    program, plan = assemble(program, chosen)
    room = max(ROOM, WHOLE // max(1, len(plan.kernels)))
    facts = _facts(program)
    kernels: list[Kernel] = []
    for k in plan.kernels:
        opened = Placement(k, facts)
        made = random_schedule(opened, random.Random(number), target, room)
        kernels.append(replace(k, schedule=made, reason="drawn", placement=opened))
    return program, Plan(tuple(kernels))


def _candidate(g: Group, rng: random.Random, lanes: int) -> Candidate:
    """The group as it is, or with some operands of its folds copied for a register tile."""
    unpriced = Choice(Cost(0.0, {"arithmetic": 0.0}), Schedule())
    t, rank = g.tensors[0], len(g.tensors[0].shape)
    plain = len(g.tensors) == 1 and not g.local and t.kind == "let" and t.body.has_fold and rank > 0
    if not plain or rng.random() > PACKED:
        return Candidate(0.0, g, unpriced)
    vector = rng.randrange(rank)
    jam = tuple((k, rng.choice((2, 3, lanes))) for k in range(rank) if k != vector and rng.random() < 0.7)
    tile = Schedule(vector, rng.choice((1, 2)), jam)
    ways = [*packings(t, tile, lanes)]
    if not ways:
        return Candidate(0.0, g, unpriced)
    operands = rng.choice(ways)
    copies, _ = packed(t, tile, lanes, operands)
    return Candidate(0.0, g, unpriced, lanes, tile, operands, (unpriced,) * len(copies))


def _facts(program: Program) -> ProvenProgram | None:
    """The program with its proof; None where it has none, which the emitter says."""
    try:
        return proven(program)
    except Unsound:
        return None


def _decide(decisions: Decisions, rng: random.Random) -> None:
    """Some lets are inlined, stored, or kept in row buffers, where a kernel can do that."""
    for t in decisions.tensors:
        if not decisions.free(t) or rng.random() > CHANGED:
            continue
        mode = rng.choice((INLINE, KEEP, LOCAL) if len(t.shape) > 1 else (INLINE, KEEP))
        _, after, state = decisions.flip(t, mode)
        if state is not None and after < math.inf:
            decisions.mode, decisions.made, decisions.locals = state
