"""What the scheduler decides and the emitter prints: kernels and the schedule of each.

A schedule changes no value: it says in which order, with which copies in flight and by which thread the elements of
the kernel's tensors are computed.  Everything follows from one fact per variable, rep[v] = (copies, lanes).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from assay.core.lang import Program, T

if TYPE_CHECKING:
    from assay.backends.placement import Placement


class Schedule(NamedTuple):
    """How one kernel is computed.

    vector   the axis whose neighbouring elements are the lanes of a vector; None: scalar code
    copies   vectors side by side along that axis, printed interleaved
    jam      ((axis, u), ...): u neighbouring elements of the axis are computed together
    order    the loops, outermost first: (axis, None) is the loop over the axis; an earlier (axis, block) cuts it in blocks
    fold     "seq": folds run as written, lanes are outputs; "rowvec": a fold over a contiguous axis evaluates its term in
             lanes and folds the lanes in order, so the bits are those of "seq"
    carry    the outermost fold is cut in chunks of this length, its accumulators rest in the output in between
    threads  the axis, or ("block", axis), whose loop is divided among threads; None: one thread
    stream   stores bypass the caches
    """

    vector: int | None = None
    copies: int = 1
    jam: tuple[tuple[int, int], ...] = ()
    order: tuple[tuple[int, int | None], ...] = ()
    fold: Literal["seq", "rowvec"] = "seq"
    carry: int | None = None
    threads: int | tuple[Literal["block"], int] | None = None
    stream: bool = False

    def __str__(self) -> str:
        """vectors along axis 1, 2 side by side; 4 of axis 0 together; loops 0, 1 in blocks of 64; ..."""
        side = f", {self.copies} side by side" if self.copies > 1 else ""
        parts = [f"vectors along axis {self.vector}{side}" if self.vector is not None else f"scalar code{side}"]
        parts += [f"{u} of axis {axis} together" for axis, u in self.jam]
        if any(block is not None for _, block in self.order) or [a for a, _ in self.order] != sorted({a for a, _ in self.order}):
            loops = (str(axis) if block is None else f"{axis} in blocks of {block}" for axis, block in self.order)
            parts.append(f"loops {', '.join(loops)}")
        parts += ["terms of folds in lanes"] if self.fold == "rowvec" else []
        parts += [f"the fold in chunks of {self.carry}"] if self.carry is not None else []
        if self.threads is not None:
            parts.append(f"threads along {'axis ' if isinstance(self.threads, int) else 'blocks of axis '}"
                         f"{self.threads if isinstance(self.threads, int) else self.threads[1]}")  # fmt: skip
        parts += ["stores past the caches"] if self.stream else []
        return "; ".join(parts)


PLAIN = Schedule()


@dataclass(frozen=True)
class Kernel:
    """One loop nest: `tensors` have one shape and are computed together.

    `local` are lets that live in a row buffer inside the nest: (tensor, lead) is indexed by its trailing axes only, and
    is filled where its `lead` leading indices are known.  `reason` says in one line why this schedule was chosen.
    `stores` are the program's tensors whose memory `tensors` fill where neighbouring axes were merged (transforms/merge.py);
    where it is empty they are `tensors` themselves.
    `placement` is the opened kernel where whoever chose the schedule has it already, with the facts of the program's proof.
    """

    tensors: tuple[T, ...]
    schedule: Schedule = PLAIN
    local: tuple[tuple[T, int], ...] = ()
    reason: str = ""
    stores: tuple[T, ...] = ()
    placement: Placement | None = field(default=None, compare=False, repr=False)

    @property
    def computes(self) -> tuple[T, ...]:
        """The program's tensors that exist when the kernel has run."""
        return self.stores or self.tensors


@dataclass(frozen=True)
class Plan:
    """The kernels of a program in the order in which they run; the decisions that led to them, about the program `searched`."""

    kernels: tuple[Kernel, ...]
    decisions: tuple[str, ...] = field(default=(), compare=False)
    searched: Program | None = field(default=None, compare=False, repr=False)
