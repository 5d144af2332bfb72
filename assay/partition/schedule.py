"""Checkpoints on a chain (section 5.8): what to keep, and what to compute again, when memory holds few states.

The forward is a chain z_k = step_k(z_(k-1)), k = 1 .. l.  The backward of step k needs z_(k-1), and that of step k+1 before it.
A schedule is a list of moves (definition 5.3); `check` runs one on a machine that knows nothing but the rules.

    binomial   s slots: the fewest repetitions and the fewest steps in all (theorem 5.4)      optimal   the same for unequal steps
    uniform    equal segments, each recomputed whole (theorem 5.3)                            growing   segments that grow

A slot holds a state; the state that is being advanced is held besides.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from assay.core.errors import UserError

ADVANCE, STORE, LOAD, FREE, REVERSE = "advance", "store", "load", "free", "reverse"

LONGEST = 400
"""The longest chain of unequal steps that is solved exactly, in time of the cube of its length."""


class Move(NamedTuple):
    """advance: compute the next state from the current one    store: put the current state into a slot (`at` is its number)
    load: make the stored state `at` the current one           free: give up the slot of the state `at`
    reverse: the backward of step `at`                         (`at` of an advance is the step)
    """

    kind: str
    at: int


@dataclass(frozen=True)
class Cost:
    """Of a schedule: how often the most repeated step is computed, steps computed in all, most slots, most states held."""

    repetition: int
    steps: int
    slots: int
    states: int


class BadSchedule(UserError):
    """A move that definition 5.3 does not allow."""


def check(moves: Iterable[Move], length: int, slots: int | None = None) -> Cost:
    """What the schedule costs.  Raises BadSchedule, with the number of the move, where it breaks definition 5.3.

    At first a slot holds z_0; step k is reversed when z_(k-1) is current or stored and step k+1 has been reversed; in the end
    all steps have been.
    """
    stored, current, reversed_ = {0}, None, length + 1
    count = [0] * (length + 1)
    most = states = 1

    def refuse(n: int, why: str) -> BadSchedule:
        return BadSchedule(f"move {n}: {why}")

    for n, (kind, at) in enumerate(moves):
        if kind == LOAD:
            if at not in stored:
                raise refuse(n, f"state {at} is loaded and not stored; stored are {sorted(stored)}")
            current = at
        elif kind == ADVANCE:
            if current is None or current != at - 1 or at > length:
                raise refuse(n, f"step {at} is computed from the current state {current}, of a chain of {length} steps")
            current = at
            count[at] += 1
        elif kind == STORE:
            if current is None or current != at or at in stored:
                raise refuse(n, f"state {at} is stored; current is {current}, stored are {sorted(stored)}")
            stored.add(at)
            if slots is not None and len(stored) > slots:
                raise refuse(n, f"{len(stored)} slots are used, {slots} allowed")
        elif kind == FREE:
            if at not in stored:
                raise refuse(n, f"state {at} is given up and not stored; stored are {sorted(stored)}")
            stored.remove(at)
        elif kind == REVERSE:
            if at != reversed_ - 1:
                raise refuse(n, f"step {at} is reversed after step {reversed_}")
            if current != at - 1 and at - 1 not in stored:
                raise refuse(n, f"step {at} is reversed without the state {at - 1}")
            reversed_ = at
            if current is not None and current >= at:
                current = None
        else:
            raise refuse(n, f"{kind!r} is no move")
        most = max(most, len(stored))
        states = max(states, len(stored) + (current is not None and current not in stored))
    if reversed_ != 1:
        raise BadSchedule(f"after the last move steps 1 to {reversed_ - 1} have not been reversed")
    return Cost(max(count), sum(count), most, states)


# ------------------------------------------------------------------------------------------------ binomial


def longest(slots: int, repetition: int) -> int:
    """C(s + t, s): the longest chain that s slots reverse with each step computed at most t times (theorem 5.4)."""
    return 0 if slots < 1 or repetition < 0 else math.comb(slots + repetition, slots)


def least_repetition(length: int, slots: int) -> int:
    """The fewest times that the most repeated step of a chain has to be computed."""
    _positive(length, slots)
    t = 0
    while longest(slots, t) < length:
        t += 1
    return t


def least_steps(length: int, slots: int) -> int:
    """t l - C(s + t, t - 1), t the least repetition: the fewest steps in all (Griewank)."""
    t = least_repetition(length, slots)
    return t * length - math.comb(slots + t, t - 1) if t else 0


def binomial(length: int, slots: int) -> list[Move]:
    """A schedule of least repetition and fewest steps, for any length.

        reverse(a, l, s):  advance from z_a to z_(a+m), store it, reverse(a+m, l-m, s-1), free it, reverse(a, m, s)

    with m such that both parts keep to their repetitions, t and t - 1.
    """
    _positive(length, slots)
    return _nested(length, slots, _binomial_split)


def _binomial_split(a: int, b: int, s: int) -> int:
    n = b - a
    t = least_repetition(n, s)
    m = min(longest(s, t - 1), n - longest(s - 1, t - 1))
    return a + max(m, 1, n - longest(s - 1, t))


def _nested(length: int, slots: int, cut: Callable[[int, int, int], int]) -> list[Move]:
    """The moves of a schedule that is cut into two parts again and again: where, cut(first state, last state, slots) says."""
    moves: list[Move] = []
    todo: list[Move | tuple[int, int, int]] = [(0, length, slots)]
    while todo:
        x = todo.pop()
        if isinstance(x, Move):
            moves.append(x)
            continue
        a, b, s = x
        if b - a == 1 or s == 1:
            for k in range(b, a, -1):
                moves += [Move(LOAD, a), *(Move(ADVANCE, j) for j in range(a + 1, k)), Move(REVERSE, k)]
            continue
        m = cut(a, b, s)
        moves += [Move(LOAD, a), *(Move(ADVANCE, j) for j in range(a + 1, m + 1)), Move(STORE, m)]
        todo += [(a, m, s), Move(FREE, m), (m, b, s - 1)]
    return moves


# ------------------------------------------------------------------------------------------------ unequal steps


def optimal(times: Sequence[float], slots: int) -> tuple[list[Move], float]:
    """The schedule of least time for steps that take `times`, and that time: by dynamic programming over (from, to, slots).

    Raises UserError for more than LONGEST steps; `binomial` serves beyond.
    """
    n = len(times)
    _positive(n, slots)
    if n > LONGEST:
        raise UserError(f"a chain of {n} unequal steps; at most {LONGEST} are solved exactly. Join some, or use binomial")
    import numpy as np

    at = np.concatenate([[0.0], np.cumsum(np.asarray(times, float))])
    s_max = min(slots, n)
    best = np.zeros((s_max + 1, n + 1, n + 1))
    where = np.zeros((s_max + 1, n + 1, n + 1), int)
    for a in range(n + 1):  # one slot: from z_a again and again
        best[1, a, a + 1 :] = np.cumsum(at[a:n] - at[a])
    for s in range(2, s_max + 1):
        for size in range(2, n + 1):
            for a in range(n - size + 1):
                b = a + size
                middle = np.arange(a + 1, b)
                time = at[middle] - at[a] + best[s - 1, middle, b] + best[s, a, middle]
                k = int(np.argmin(time))
                best[s, a, b], where[s, a, b] = time[k], a + 1 + k
    return _nested(n, s_max, lambda a, b, s: int(where[s, a, b])), float(best[s_max, 0, n])


# ------------------------------------------------------------------------------------------------ segments


def segmented(lengths: Sequence[int]) -> list[Move]:
    """Keep the first state of each segment; reverse segment by segment, each recomputed and kept whole (theorem 5.3).

    No step is computed more than twice.  The last segment is kept on the way: it is reversed first.
    """
    if not lengths or min(lengths) < 1:
        raise UserError(f"segments of {list(lengths)} steps; each has at least one")
    starts = [0, *itertools.accumulate(lengths)][:-1]
    moves = [Move(LOAD, 0)]
    for start in starts[1:]:
        moves += [*(Move(ADVANCE, k) for k in range(_current(moves) + 1, start + 1)), Move(STORE, start)]
    for start, n in zip(reversed(starts), reversed(lengths), strict=True):
        moves.append(Move(LOAD, start))
        for k in range(start + 1, start + n):
            moves += [Move(ADVANCE, k), Move(STORE, k)]
        for k in range(start + n, start, -1):
            moves.append(Move(REVERSE, k))
            if k > 1:
                moves.append(Move(FREE, k - 1))
    return moves


def _current(moves: Sequence[Move]) -> int:
    return moves[-1].at


def uniform(length: int, segments: int) -> list[int]:
    """The lengths of equal segments, of which there are `segments` (theorem 5.3); lengths differ by one at most."""
    if not 1 <= segments <= length:
        raise UserError(f"segments={segments} for a chain of {length} steps; allowed: 1 .. {length}")
    return [(k + 1) * length // segments - k * length // segments for k in range(segments)]


def growing(length: int, segments: int | None = None) -> list[int]:
    """The lengths of segments that grow by a step each time the backward comes to the next one; the first is the longest.

    While a segment of n steps is reversed, the first states of those before it are held too.  So the first segment may have
    as many steps as there are states, P, the next P - 1, and so on: P (P + 1) / 2 >= l suffices, P ~ sqrt(2 l), where equal
    segments need 2 sqrt(l).  `segments` None: as many as that takes.
    """
    if length < 1 or (segments is not None and not 1 <= segments <= length):
        raise UserError(f"segments={segments} for a chain of {length} steps; allowed: 1 .. {length}")
    if segments is None:
        states = math.isqrt(2 * length)
        states += states * (states + 1) // 2 < length
        lengths: list[int] = []
        while (left := length - sum(lengths)) > 0:
            lengths.append(min(left, states - len(lengths)))
        return lengths
    base, rest = divmod(length - segments * (segments - 1) // 2, segments)
    if base < 1:  # too short for so many segments that differ: some of one step
        return [*growing(length - 1, segments - 1), 1] if segments > 1 else [length]
    return [base + (k < rest) + segments - 1 - k for k in range(segments)]


def equal_segments(length: int) -> int:
    """The number of equal segments of least peak c + l/c, about sqrt(l)."""
    return min(range(1, length + 1), key=lambda c: (c + -(-length // c), c))


def _positive(length: int, slots: int) -> None:
    if length < 1 or slots < 1:
        raise UserError(f"a chain of {length} steps with {slots} slots; both are at least 1")
