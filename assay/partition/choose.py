"""memory_budget: which partition a joint program gets.

    None            the cut: least time, of equal ways the one that keeps fewer bytes
    Budget(...)     a limit on saved bytes, on the peak of either half, or both; an integer is a limit on saved bytes
    LEAST           nothing but what cannot be computed again: what a checkpoint keeps
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

from assay.core.errors import UserError
from assay.core.lang import Program
from assay.core.options import check_options
from assay.partition.budget import within
from assay.partition.joint import Joint, rejoined
from assay.partition.peak import footprint, within_peak
from assay.partition.prices import Partition, cut, save_none
from assay.semantics.lifetimes import working_bytes


@dataclass(frozen=True)
class Budget:
    """Bytes: at most `saved` between forward and backward, at most `peak` held by either half without its inputs.

    least: as few as possible are saved, whatever it takes
    """

    saved: int | None = None
    peak: int | None = None
    least: bool = False

    def __new__(cls, *args: object, **options: object) -> Budget:
        check_options("Budget()", options, (f.name for f in fields(cls)))
        return object.__new__(cls)

    def __post_init__(self) -> None:
        for name, n in (("saved", self.saved), ("peak", self.peak)):
            if n is not None and (not isinstance(n, int) or isinstance(n, bool) or n < 0):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise UserError(f"Budget({name}={n!r}); allowed: a number of bytes >= 0, or None")


LEAST = Budget(least=True)


def as_budget(x: object) -> Budget | None:
    """The budget that an argument memory_budget= means.  Raises UserError for anything but None, a number of bytes, a Budget."""
    if x is None or isinstance(x, Budget):
        return x
    if isinstance(x, int) and not isinstance(x, bool) and x >= 0:
        return Budget(saved=x)
    raise UserError(f"memory_budget={x!r}; allowed: None, a number of saved bytes >= 0, Budget(saved=..., peak=...)")


def partition(joint: Joint, budget: Budget | None = None, *, held: Callable[[Program], int] = working_bytes) -> Partition:
    """The partition within the budget, its halves checked to be the joint program together; `held` as in `footprint`.

    Raises UserError, with the least that is possible or was found, where there is none.
    """
    found = save_none(joint) if budget is not None and budget.least else cut(joint)
    if budget is not None and budget.saved is not None and found.saved_bytes > budget.saved:
        found = within(joint, saved=budget.saved)
    if budget is not None and budget.peak is not None and footprint(found.split, held).peak > budget.peak:
        found = within_peak(joint, peak=budget.peak, saved=budget.saved, held=held)
    rejoined(found.split)
    return found
