"""Random plans: whatever is legal must be right, not only what the cost model prefers for small programs."""

from __future__ import annotations

import math
import random
from dataclasses import replace

from assay.backends.legality import illegal, tile
from assay.backends.placement import Placement
from assay.backends.plan import Kernel, Plan, Schedule
from assay.backends.schedule import choose
from assay.backends.schedule.fuse import INLINE, KEEP, LOCAL, Decisions
from assay.backends.target import Target, host
from assay.core.lang import Program

ATTEMPTS = 20
CHANGED = 0.4  # of the lets


def random_schedule(kernel: Kernel, rng: random.Random, target: Target) -> Schedule:
    """Any legal combination of features; the plain schedule where none of ATTEMPTS is legal."""
    if any(t.size == 0 for t in kernel.tensors):
        return Schedule()
    p = Placement(kernel)
    axes, lanes = range(len(p.axes)), target.lanes
    for _ in range(ATTEMPTS):
        vector, threads = rng.choice([None, *axes]), rng.choice([None, *axes])
        jam = tuple((k, rng.choice((2, 3, 4, lanes))) for k in axes if k != vector and rng.random() < 0.3)
        copies = rng.choice((1, 1, 2, 3))
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


def random_plan(program: Program, number: int) -> tuple[Program, Plan]:
    """What `choose` returns, with random decisions and a random schedule for each kernel.

    Kernels that are alike have the same schedule, whatever else is in the plan: a smaller program still shows a fault.
    """
    target = host()
    chosen, plan = choose(program, target, decide=lambda d: _decide(d, random.Random(number)))
    return chosen, Plan(tuple(replace(k, schedule=random_schedule(k, random.Random(number), target)) for k in plan.kernels))


def _decide(decisions: Decisions, rng: random.Random) -> None:
    """Some lets are inlined, stored, or kept in row buffers, where a kernel can do that."""
    for t in decisions.tensors:
        if not decisions.free(t) or rng.random() > CHANGED:
            continue
        mode = rng.choice((INLINE, KEEP, LOCAL) if len(t.shape) > 1 else (INLINE, KEEP))
        _, after, state = decisions.flip(t, mode)
        if state is not None and after < math.inf:
            decisions.mode, decisions.made, decisions.locals = state
