"""Words of messages."""

from __future__ import annotations


def counted(n: int, noun: str) -> str:
    """ "1 case", "2 cases": the number with its noun, whose plural takes an s."""
    return f"{n} {noun}" if n == 1 else f"{n:,} {noun}s"
