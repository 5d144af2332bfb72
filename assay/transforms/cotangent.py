"""A cotangent inside a definition: a value, and the conditions under which it counts.

The conditions are kept apart from the value: the slopes of a branch multiply the value only, the conditions are applied last, as
selects.  So a branch that is not taken contributes nothing, though its slope there be infinite or NaN.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from assay.core.lang import E, const, is_const, select
from assay.core.mathlib.slopes import negation


@dataclass(frozen=True)
class Cotangent:
    """`value` where every guard holds, else 0."""

    guards: tuple[E, ...]
    value: E

    def under(self, *conditions: E) -> Cotangent:
        """The cotangent where these hold too."""
        guards = list(self.guards)
        for g in conditions:
            guards += [x for x in conjuncts(g) if x not in guards]
        return Cotangent(tuple(guards), self.value)

    def valued(self, value: E) -> Cotangent:
        """Another value under the same conditions."""
        return Cotangent(self.guards, value)

    @property
    def is_zero(self) -> bool:
        """Whether a condition never holds."""
        return any(is_const(g, False) for g in self.guards)

    @property
    def parts(self) -> tuple[E, ...]:
        """The expressions it is made of."""
        return (*self.guards, self.value)

    def stored(self) -> E:
        """The value where the guards hold, else 0."""
        return chosen(self.guards, self.value, const(0, self.value.dtype))


def conjuncts(condition: E) -> tuple[E, ...]:
    """The conditions that `condition` is the conjunction of, without those that always hold."""
    if condition.op == "and":
        return (*conjuncts(condition.args[0]), *conjuncts(condition.args[1]))
    return () if is_const(condition, True) else (condition,)


def conjunction(conditions: Sequence[E]) -> E:
    """All of them hold (at least one is given)."""
    held = conditions[0]
    for g in conditions[1:]:
        held = held & g
    return held


def chosen(guards: Iterable[E], value: E, other: E) -> E:
    """`value` where all guards hold, else `other`.

    What is known of indices alone is decided first, the rest in order inside it: its loads may be in bounds only there.
    """
    guards = tuple(guards)
    plain = [g for g in guards if not g.reads]
    for g in reversed([g for g in guards if g.reads]):
        value = choice(g, value, other)
    return choice(conjunction(plain), value, other) if plain else value


def choice(condition: E, value: E, other: E) -> E:
    """`value` where the condition holds, else `other`; no negation is left.

    The second of two conditions is tested only where the first holds, if it reads data: its loads may be in bounds only there.
    """
    if condition.op == "not":
        return choice(condition.args[0], other, value)
    if condition.op == "and" and condition.args[1].reads:
        return choice(condition.args[0], choice(condition.args[1], value, other), other)
    return select(condition, value, other)


def plus(a: Cotangent | None, b: Cotangent) -> Cotangent:
    """The sum.

    Two branches of one condition make a choice instead; the same value under both needs no condition, and under (p and q) and
    (not p) the one condition not (p and not q).
    """
    if a is None:
        return b
    common = 0
    while common < min(len(a.guards), len(b.guards)) and a.guards[common] is b.guards[common]:
        common += 1
    shared, rest_a, rest_b = a.guards[:common], a.guards[common:], b.guards[common:]
    for x, y, rest_x, rest_y in ((a, b, rest_a, rest_b), (b, a, rest_b, rest_a)):
        if len(rest_x) == 1 and rest_y:
            opposite = conjuncts(negation(rest_x[0]))
            more = [g for g in rest_y if g not in opposite]
            if not set(opposite) <= set(rest_y):
                continue
            if a.value is b.value:
                either = (negation(conjunction(opposite) & negation(conjunction(more))),) if more else ()
                return Cotangent((*shared, *either), a.value)
            if not more:
                return Cotangent(shared, choice(rest_x[0], x.value, y.value))
    return Cotangent(shared, chosen(rest_a, a.value, _zero(a)) + chosen(rest_b, b.value, _zero(b)))


def total(cotangents: Sequence[Cotangent]) -> Cotangent | None:
    """Their sum, from left to right."""
    result: Cotangent | None = None
    for c in cotangents:
        result = plus(result, c)
    return result


def _zero(c: Cotangent) -> E:
    return const(0, c.value.dtype)
