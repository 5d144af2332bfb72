"""What is proved of one step of a compile against the step before it, as data that a record can hold."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

from assay.core.lang import Program
from assay.transforms.pipeline import Stage
from assay.verify.coverage import prove_schedule
from assay.verify.equal import STEPS
from assay.verify.nests import Scheduled
from assay.verify.validate import validate

RLIMIT = 200_000  # z3 resource units for a question that is asked while a compile waits for g++ anyway
QUESTIONS = 20_000  # of one step of a compile


class Link(NamedTuple):
    """`how` it is proved, or why it is not; `laws` that were used and change bits."""

    name: str
    proved: bool
    how: str
    laws: tuple[str, ...] = ()

    @staticmethod
    def of(data: Sequence[Any]) -> Link:
        """The link that a record holds."""
        name, proved, how, laws = data
        return Link(name, proved, how, tuple(laws))

    def __str__(self) -> str:
        return f"{self.name}: PROVED, {self.how}" if self.proved else f"{self.name}: {self.how}"


def program_link(name: str, before: Program, after: Program, *, laws: frozenset[str] = frozenset(), rlimit: int | None = None,
                 steps: int = STEPS) -> Link:  # fmt: skip
    """The program after a step against the one before it."""
    found = validate(before, after, laws=laws, rlimit=rlimit, steps=steps)
    return Link(name, found.proved, str(found), found.law_names)


def nest_link(s: Scheduled, *, rlimit: int | None = None, steps: int = STEPS) -> Link:
    """The scheduled loop nests against their program."""
    found = prove_schedule(s, rlimit=rlimit, steps=steps)
    return Link("nest", found.proved, str(found))


def pass_links(stages: Sequence[Stage]) -> tuple[Link, ...]:
    """Every pass, within the budget of a compile."""
    return tuple(
        program_link(s.name, before.program, s.program, laws=s.contract.laws, rlimit=RLIMIT, steps=QUESTIONS)
        for before, s in itertools.pairwise(stages)
    )


def schedule_links(source: Program, s: Scheduled) -> tuple[Link, ...]:
    """What the schedule made of the program, and its loop nests, within the budget of a compile."""
    return (program_link("schedule", source, s.program, rlimit=RLIMIT, steps=QUESTIONS),
            nest_link(s, rlimit=RLIMIT, steps=QUESTIONS))  # fmt: skip


__all__ = ["Link", "nest_link", "pass_links", "program_link", "schedule_links"]
