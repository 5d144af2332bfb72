"""The chain of one compile as text: eager -> graph -> core -> each pass -> schedule -> machine code, one verdict a link.

    f, from Python to machine code
      eager              VALIDATED(11)  a Python function is run, not read
      graph              VALIDATED(11)  operators are run one by one
      lower              PROVED         the meaning that all others are compared with
      inline             PROVED         for all inputs
      cpp                VALIDATED(11)  what was printed is run, not read
    lower to schedule: PROVED for all inputs, bit for bit (no law was used that changes bits).
    The rest agrees on 11 inputs, bit for bit.

The statement of the whole is the composition of its links: the laws are those of all links, the verdict is the weakest.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from assay.verify.layered import Report, StageReport
from assay.verify.verdict import PROVED, worst

COLUMNS = 100


def chain_text(report: Report) -> str:
    """Every link with what its verdict rests on, and the statement that they make together."""
    width = max((len(s.name) for s in report.stages), default=0)
    kinds = max((len(str(s.verdict)) for s in report.stages), default=0)
    lines = [f"{report.name}, from {_origin(report.stages)} to machine code, each link against the one before it"]
    for s in report.stages:
        head = f"  {s.name:{width}}  {s.verdict!s:{kinds}}  "
        lines += wrapped(head, s.how)
        lines += wrapped(" " * len(head), f"laws: {', '.join(s.laws)}") if s.laws else []
    return "\n".join([*lines, *statement(report.stages), *report.remarks()])


def statement(stages: Sequence[StageReport]) -> list[str]:
    """What the links say together."""
    found: list[str] = []
    for proved, group in groupby(stages, key=lambda s: s.verdict.kind == PROVED):
        part = list(group)
        if proved:
            laws = sorted({x for s in part for x in s.laws})
            bits = "bit for bit (no law was used that changes bits)" if not laws else f"by the laws {', '.join(laws)}"
            found += wrapped("", f"{_ends(part)}: PROVED for all inputs, {bits}.")
    rest = [s for s in stages if s.verdict.kind != PROVED]
    if rest:
        found += wrapped("", f"{', '.join(s.name for s in rest)}: {worst(s.verdict for s in rest)}, bit for bit on what was run.")
    return found


def _ends(part: Sequence[StageReport]) -> str:
    return part[0].name if len(part) == 1 else f"{part[0].name} to {part[-1].name}"


def _origin(stages: Sequence[StageReport]) -> str:
    return "Python" if stages and stages[0].name in ("eager", "graph") else "its core program"


def wrapped(head: str, text: str) -> list[str]:
    """The text behind `head`, in lines of at most COLUMNS characters where its words allow it."""
    lines, margin, words = [head.rstrip() if not text else head], " " * len(head), text.split()
    for k, word in enumerate(words):
        if len(lines[-1]) + len(word) > COLUMNS and lines[-1].strip() and k:
            lines.append(margin or "  ")
        lines[-1] += word if lines[-1].endswith("  ") or not lines[-1] or lines[-1] == head else f" {word}"
    return [line.rstrip() for line in lines]


__all__ = ["chain_text", "statement"]
