"""The one list of the order in which transformations run, and the run itself, stage by stage."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from assay.core.lang import Program
from assay.transforms.contract import Contract, Transform, bitwise
from assay.transforms.indices import propagate_indices
from assay.transforms.inline import CPU, Decision, Policy, inline
from assay.transforms.layout import choose_layout
from assay.transforms.slopes import drop_slopes
from assay.transforms.views import compose_views

EXACT: tuple[Transform, ...] = (drop_slopes, propagate_indices, compose_views, inline, choose_layout)


@dataclass(frozen=True)
class Stage:
    """The program after one transformation, what it promises of the program before, and why it did what it did."""

    name: str
    program: Program
    contract: Contract
    decisions: tuple[Decision, ...] = ()
    seconds: float = field(default=0.0, compare=False)

    @property
    def notes(self) -> tuple[str, ...]:
        """The decisions in words."""
        return tuple(map(str, self.decisions))


def optimise(program: Program, *, policy: Policy = CPU, passes: tuple[Transform, ...] = EXACT,
             observe: Callable[[Stage], None] | None = None) -> list[Stage]:  # fmt: skip
    """The stages of the program, from lowering to what the backend gets (the last one's program).

    `observe` is called with each stage as it is made.
    """
    stages = [Stage("lower", program, bitwise)]
    if observe is not None:
        observe(stages[0])
    for step in passes:
        decisions: list[Decision] = []
        options = {"policy": policy, "log": decisions.append} if step is inline else {}
        start = time.perf_counter()
        program = step(program, **options)
        stage = Stage(step.name, program, step.contract, tuple(decisions), time.perf_counter() - start)
        stages.append(stage)
        if observe is not None:
            observe(stage)
    return stages


def contract_of(passes: tuple[Transform, ...] = EXACT) -> Contract:
    """The contract of the passes one after the other."""
    total = bitwise
    for step in passes:
        total = total.then(step.contract)
    return total
