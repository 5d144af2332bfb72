"""The outcomes of a check, as values: nothing is ever silently fine.

PROVED              holds for all inputs
VALIDATED(n)        held on n inputs that were run
REFUTED(witness)    does not hold, here is the input
UNKNOWN(reason)     could not be decided
UNSUPPORTED(what)   a construct for which the question has no answer here
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

PROVED, VALIDATED, REFUTED, UNKNOWN, UNSUPPORTED = "PROVED", "VALIDATED", "REFUTED", "UNKNOWN", "UNSUPPORTED"

# Exit codes of the command line.
OK, USAGE, INTERNAL, NOTHING_RAN, INTERRUPTED = 0, 2, 3, 6, 130
EXIT_CODES = {PROVED: OK, VALIDATED: OK, REFUTED: 1, UNKNOWN: 4, UNSUPPORTED: 5}
_WORST_FIRST = (INTERNAL, 1, 4, 5)  # of several cases, the worst code counts


@dataclass(frozen=True)
class Verdict:
    """`detail` is the witness, the reason or the construct; `count` the number of inputs that were run."""

    kind: str
    detail: Any = None
    count: int = 0

    def __str__(self) -> str:
        if self.kind == VALIDATED:
            return f"VALIDATED({self.count})"
        return f"{self.kind}({self.detail})" if self.kind in (UNKNOWN, UNSUPPORTED) and self.detail else self.kind

    @property
    def ok(self) -> bool:
        return self.kind in (PROVED, VALIDATED)

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.kind]


proved = Verdict(PROVED)


def validated(count: int) -> Verdict:
    """Held on `count` inputs; with none there is no evidence, which is UNKNOWN."""
    return Verdict(VALIDATED, count=count) if count > 0 else unknown("no input was run")


def refuted(witness: Any) -> Verdict:
    return Verdict(REFUTED, witness)


def unknown(reason: str) -> Verdict:
    return Verdict(UNKNOWN, reason)


def unsupported(construct: str) -> Verdict:
    return Verdict(UNSUPPORTED, construct)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict of a chain whose links have these: a single refutation refutes; PROVED only if every link is.

    Of VALIDATED links the least number of inputs counts.  An empty chain is UNKNOWN.
    """
    found = list(verdicts)
    for kind in (REFUTED, UNKNOWN, UNSUPPORTED):
        for v in found:
            if v.kind == kind:
                return v
    counts = [v.count for v in found if v.kind == VALIDATED]
    if counts:
        return validated(min(counts))
    return proved if found else unknown("nothing was checked")


def exit_code(codes: Iterable[int]) -> int:
    """The exit code of several cases: the worst of 3, 1, 4, 5, else 0; with no case at all, NOTHING_RAN."""
    found = set(codes)
    if not found:
        return NOTHING_RAN
    return next((c for c in _WORST_FIRST if c in found), OK)
