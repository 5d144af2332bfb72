"""Checkpoint schedules: the checker refuses what definition 5.3 forbids; theorems 5.3 and 5.4, and what is better than 5.3."""

import functools
import math
import random

import pytest

from assay.core.errors import UserError
from assay.partition.schedule import (
    ADVANCE,
    FREE,
    LOAD,
    REVERSE,
    STORE,
    BadSchedule,
    Move,
    binomial,
    check,
    equal_segments,
    growing,
    least_repetition,
    least_steps,
    longest,
    optimal,
    segmented,
    uniform,
)

# ------------------------------------------------------------------------------------------------ the checker

TWO = [(LOAD, 0), (ADVANCE, 1), (REVERSE, 2), (LOAD, 0), (REVERSE, 1)]


def moves(listed) -> list[Move]:
    return [Move(*m) for m in listed]


def test_46_a_chain_of_two_steps() -> None:
    found = check(moves(TWO), 2, 1)
    assert (found.repetition, found.steps, found.slots, found.states) == (1, 1, 1, 2)


@pytest.mark.parametrize(
    ("listed", "message"),
    [
        ([(LOAD, 1)], "state 1 is loaded and not stored"),
        ([(ADVANCE, 1)], "from the current state None"),
        ([(LOAD, 0), (ADVANCE, 2)], "step 2 is computed from the current state 0"),
        ([(LOAD, 0), (ADVANCE, 1), (ADVANCE, 2), (ADVANCE, 3)], "step 3 is computed"),
        ([(LOAD, 0), (ADVANCE, 1), (STORE, 0)], "state 0 is stored"),
        ([(LOAD, 0), (STORE, 0)], "state 0 is stored"),
        ([(LOAD, 0), (ADVANCE, 1), (STORE, 1)], "2 slots are used, 1 allowed"),
        ([(FREE, 1)], "state 1 is given up"),
        ([(LOAD, 0), (REVERSE, 1)], "step 1 is reversed after step 3"),
        ([(LOAD, 0), (REVERSE, 2)], "without the state 1"),
        (TWO[:3], "steps 1 to 1 have not been reversed"),
        ([], "steps 1 to 2 have not been reversed"),
        ([("skip", 0)], "no move"),
    ],
)
def test_46_what_definition_5_3_forbids_is_refused(listed, message: str) -> None:
    with pytest.raises(BadSchedule, match=message):
        check(moves(listed), 2, 1)


def test_46_mutants_of_schedules_are_refused_or_still_reverse_the_chain() -> None:
    """Every single change of a schedule; what is accepted was judged by an independent reading of the definition."""
    right = binomial(10, 3)
    refused = accepted = 0
    for n in range(len(right)):
        for new in (None, Move(ADVANCE, 5), Move(REVERSE, 5), Move(LOAD, 3), Move(STORE, 4), Move(FREE, 0), Move(LOAD, 0)):
            changed = right[:n] + ([] if new is None else [new]) + right[n + 1 :]
            if changed == right:
                continue
            try:
                check(changed, 10, 3)
                accepted += 1
                assert reverses(changed, 10, 3)
            except BadSchedule:
                refused += 1
                assert not reverses(changed, 10, 3)
    assert refused > 200
    assert accepted < 25


def reverses(schedule: list[Move], length: int, slots: int) -> bool:
    """Definition 5.3 again, on the states themselves: whether the gradients of a chain of functions come out."""
    def step(k: int, z: float) -> float:
        return math.sin(z + k)

    def slope(k: int, z: float) -> float:
        return math.cos(z + k)

    states = [0.3]
    for k in range(1, length + 1):
        states.append(step(k, states[-1]))
    wanted = math.prod(slope(k, states[k - 1]) for k in range(1, length + 1))
    kept: dict[int, float] = {0: 0.3}
    at, z, bar, done = None, math.nan, 1.0, length + 1
    for kind, k in schedule:
        if kind == LOAD:
            if k not in kept:
                return False
            at, z = k, kept[k]
        elif kind == ADVANCE:
            if at != k - 1 or k > length:
                return False
            at, z = k, step(k, z)
        elif kind == STORE:
            if at != k or k in kept or len(kept) == slots:
                return False
            kept[k] = z
        elif kind == FREE:
            if kept.pop(k, None) is None:
                return False
        else:
            before = z if at == k - 1 else kept.get(k - 1)
            if k != done - 1 or before is None:
                return False
            bar, done = bar * slope(k, before), k
            at = None if at is not None and at >= k else at
    return done == 1 and math.isclose(bar, wanted, rel_tol=1e-12)


# ------------------------------------------------------------------------------------------------ theorem 5.4


@pytest.mark.parametrize(("most", "count"), [(1000, 154), pytest.param(10_000, 212, marks=pytest.mark.full)])
def test_47_binomial_schedules_of_every_maximal_length(most: int, count: int) -> None:
    """All C(s + t, s) up to 10,000 (s <= 13, t < 40): exactly t repetitions, and s slots suffice."""
    cases = 0
    for s in range(1, 14):
        for t in range(40):
            length = longest(s, t)
            if length <= most:
                cases += 1
                found = check(binomial(length, s), length, s)
                assert (found.repetition, found.steps) == (t, t * length - (math.comb(s + t, t - 1) if t else 0))
                assert found.states <= s + 1
    assert cases == count


def test_47_binomial_schedules_of_every_length() -> None:
    for s in range(1, 7):
        for length in range(1, 120):
            found = check(binomial(length, s), length, s)
            assert (found.repetition, found.steps) == (least_repetition(length, s), least_steps(length, s))


@functools.cache
def reachable(length: int, slots: int, repetition: int) -> bool:
    """Whether some schedule reverses the chain, by trying all states of the machine of definition 5.3."""
    start = (frozenset((0,)), None, length + 1, (0,) * (length + 1))
    seen, todo = {start}, [start]
    while todo:
        stored, current, done, count = todo.pop()
        if done == 1:
            return True
        new = [(stored, k, done, count) for k in stored]
        new += [(stored - {k}, current, done, count) for k in stored]
        if current is not None and current < length and count[current + 1] < repetition:
            k = current + 1
            new.append((stored, k, done, (*count[:k], count[k] + 1, *count[k + 1 :])))
        if current is not None and current not in stored and len(stored) < slots:
            new.append((stored | {current}, current, done, count))
        if current == done - 2 or done - 2 in stored:
            k = done - 1
            new.append((stored, None if current is not None and current >= k else current, k, count))
        for s in new:
            if s not in seen:
                seen.add(s)
                todo.append(s)
    return False


@pytest.mark.parametrize(("slots", "repetition"), [(1, 0), (1, 1), (1, 2), (1, 3), (2, 0), (2, 1), (3, 0), (3, 1), (2, 2)])
def test_48_one_step_more_is_impossible(slots: int, repetition: int) -> None:
    length = longest(slots, repetition)
    if length <= 5:
        assert reachable(length, slots, repetition)
        assert not reachable(length + 1, slots, repetition)
    else:
        assert not reachable(length + 1, slots, repetition)


@pytest.mark.parametrize(("s", "t", "length"), [(1, 0, 1), (5, 0, 1), (1, 1, 2), (1, 7, 8), (2, 2, 6), (3, 3, 20), (0, 3, 0)])
def test_49_base_cases(s: int, t: int, length: int) -> None:
    assert longest(s, t) == length


def test_49_the_recurrence_is_pascals() -> None:
    for s in range(2, 12):
        for t in range(1, 12):
            assert longest(s, t) == longest(s, t - 1) + longest(s - 1, t)


@pytest.mark.parametrize(("s", "length"), [(5, 252), (10, 184_756)])
def test_50_as_many_slots_as_repetitions(s: int, length: int) -> None:
    assert longest(s, s) == length
    assert length == pytest.approx(4**s / math.sqrt(math.pi * s), rel=0.03)


def test_50_a_chain_of_252_states_with_5_slots() -> None:
    assert check(binomial(252, 5), 252, 5).repetition == 5


@pytest.mark.full
def test_50_a_chain_of_184756_states_with_10_slots() -> None:
    found = check(binomial(184_756, 10), 184_756, 10)
    assert (found.repetition, found.steps, found.states) == (10, 1_679_600, 11)


@functools.cache
def fewest(length: int, slots: int) -> int:
    """The fewest steps by dynamic programming over where the chain is cut."""
    if length == 1:
        return 0
    if slots == 1:
        return length * (length - 1) // 2
    return min(m + fewest(length - m, slots - 1) + fewest(m, slots) for m in range(1, length))


def test_the_fewest_steps_in_all_are_the_formulas() -> None:
    for slots in range(1, 6):
        for length in range(1, 60):
            assert fewest(length, slots) == least_steps(length, slots)


# ------------------------------------------------------------------------------------------------ unequal steps


def spent(schedule: list[Move], times: list[float]) -> float:
    return sum(times[m.at - 1] for m in schedule if m.kind == ADVANCE)


def test_unequal_steps_take_least_time() -> None:
    """Never more than the binomial schedule, equal to it for equal steps, and what is promised is what it takes."""
    rng = random.Random(0)
    for slots in (1, 2, 3, 5):
        times = [float(rng.choice((1, 1, 2, 10))) for _ in range(40)]
        schedule, time = optimal(times, slots)
        check(schedule, 40, slots)
        assert spent(schedule, times) == time
        assert time <= spent(binomial(40, slots), times)
        assert optimal([1.0] * 40, slots)[1] == least_steps(40, slots)
    assert optimal([1, 1, 2, 10] * 10, 3)[1] < 0.9 * spent(binomial(40, 3), [1, 1, 2, 10] * 10)


def test_unequal_steps_by_brute_force() -> None:
    rng = random.Random(1)
    for _ in range(20):
        times = [rng.randint(1, 9) for _ in range(7)]

        @functools.cache
        def least(a: int, b: int, s: int, times: tuple = tuple(times)) -> int:
            if b - a <= 1:
                return 0
            if s == 1:
                return sum(sum(times[a:k]) for k in range(a, b))
            return min(sum(times[a:m]) + least(m, b, s - 1) + least(a, m, s) for m in range(a + 1, b))

        for slots in (1, 2, 3, 4):
            assert optimal(times, slots)[1] == least(0, 7, slots)


def test_a_long_chain_of_unequal_steps_is_refused() -> None:
    with pytest.raises(UserError, match="at most 400"):
        optimal([1.0] * 401, 3)


# ------------------------------------------------------------------------------------------------ segments


@pytest.mark.parametrize(("length", "bound"), [(16, 8), (100, 20), (101, 21), (1000, 64)])
def test_44_equal_segments(length: int, bound: int) -> None:
    """Theorem 5.3: at most c + l/c states, each step computed at most twice; the least over c is ceil(2 sqrt l)."""
    assert math.ceil(2 * math.sqrt(length)) == bound
    assert min(c + -(-length // c) for c in range(1, length + 1)) == bound
    for c in {1, 2, 5, equal_segments(length), length}:
        found = check(segmented(uniform(length, c)), length)
        assert found.states <= c + -(-length // c) - (c > 1)
        assert found.repetition <= 2
        assert found.steps <= 2 * length
    assert check(segmented(uniform(length, equal_segments(length))), length).states <= bound - 1


@pytest.mark.parametrize(("length", "states"), [(1, 1), (4, 3), (9, 4), (12, 5), (16, 6), (20, 6), (100, 14), (1000, 45)])
def test_44_growing_segments_need_fewer(length: int, states: int) -> None:
    """The least P with P (P + 1) / 2 >= l, at the same repetition."""
    found = check(segmented(growing(length)), length)
    assert (found.states, found.repetition) == (states, 2 if length > 1 else 0)
    assert states * (states + 1) // 2 >= length > states * (states - 1) // 2
    equal = min(check(segmented(uniform(length, c)), length).states for c in range(1, length + 1)) if length <= 100 else 63
    assert states <= equal


def test_no_schedule_with_two_repetitions_holds_fewer_than_growing_segments() -> None:
    """P states suffice for P (P + 1) / 2 steps computed at most twice, for P = 3 by trying everything."""
    assert not reachable(7, 2, 2)  # two slots and a current state are three states
    assert reachable(6, 2, 2)


@pytest.mark.parametrize("length", [1, 2, 7, 30])
def test_segments_of_any_number(length: int) -> None:
    for c in range(1, length + 1):
        for lengths in (uniform(length, c), growing(length, c)):
            assert sum(lengths) == length
            assert len(lengths) == c
            assert min(lengths) >= 1
            assert lengths == sorted(lengths, reverse=True) or lengths == uniform(length, c)
            check(segmented(lengths), length)


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (lambda: binomial(0, 1), "0 steps with 1 slots"),
        (lambda: binomial(3, 0), "3 steps with 0 slots"),
        (lambda: uniform(3, 4), r"segments=4 for a chain of 3 steps; allowed: 1 \.\. 3"),
        (lambda: growing(3, 0), "segments=0"),
        (lambda: segmented([2, 0]), "at least one"),
    ],
)
def test_wrong_arguments_are_refused(f, message: str) -> None:
    with pytest.raises(UserError, match=message):
        f()
