"""What a comparison asks, and how it answers: with the laws that make the two sides equal, or with where they part."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from assay.core.index import Ix
from assay.core.lang import E, T
from assay.verify.context import Context


@dataclass(frozen=True)
class Law:
    """An algebraic law of a scalar function on a type; `exact`: it holds bit for bit there (core/scalar.py, `monoid`)."""

    name: str
    function: str
    dtype: str
    exact: bool

    def __str__(self) -> str:
        return f"{self.name} of {self.function} on {self.dtype}" + (", bit for bit" if self.exact else "")


Laws: TypeAlias = "frozenset[Law]"
EQUAL: Laws = frozenset()


@dataclass(frozen=True)
class Mismatch:
    """Not proved equal: the two sides where the comparison ended, and why."""

    reason: str
    a: E | Ix | T | None = None
    b: E | Ix | T | None = None
    context: Context | None = None

    def __str__(self) -> str:
        sides = f": {_short(self.a)} and {_short(self.b)}" if self.a is not None else ""
        under = self.context.hypotheses if self.context is not None else ()
        given = f", where {', '.join(sorted(('' if holds else 'not ') + _short(e) for e, holds in under))}" if under else ""
        return f"{self.reason}{sides}{given}"


def _short(e: object) -> str:
    text = repr(e)
    return text if len(text) <= 100 else text[:97] + "..."


class Pair(NamedTuple):
    """Is a = b at every point of the context?"""

    a: E
    b: E
    context: Context


class States(NamedTuple):
    """Have the two folds the same accumulators before and after each of their steps?"""

    a: E
    b: E


class Lemma(NamedTuple):
    """Is t[i_order[0], i_order[1], ...] = s[i_0, i_1, ...] at every point?"""

    t: T
    s: T
    order: tuple[int, ...]


Question: TypeAlias = "Pair | States | Lemma"
Answer: TypeAlias = "Laws | Mismatch"
Rule: TypeAlias = "Generator[Question, Answer, Answer]"
