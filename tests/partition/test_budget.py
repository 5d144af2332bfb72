"""Limits on saved bytes and on the peak: exact on small problems, with bounds that hold, monotone frontiers, clear refusals."""

import itertools
import math

import pytest

from assay.core import dtypes as dt
from assay.core.errors import UserError
from assay.core.lang import input, load, op, program, tensor
from assay.fuzz.chains import chain
from assay.partition import peak as peak_
from assay.partition.budget import frontier, within
from assay.partition.joint import Joint, joint_program, rejoined
from assay.partition.peak import footprint, within_peak
from assay.partition.prices import PICOSECONDS, Costs, costs, cut, save_all, save_none
from tests.partition.flows import subsets
from tests.partition.graphs import mlp, transformer


def best(c: Costs, limit: int) -> float:
    """The least time with at most `limit` saved bytes, by trying all sets."""
    return min((c.time(s) for s in subsets(len(c.tensors)) if c.saved_bytes(s) <= limit), default=math.inf)


def small() -> list[Joint]:
    """Joint programs of at most 10 values, what only the backward needs among them."""
    made = [joint_program(mlp(s, batch=b)) for s, b in (((3, 4, 2), 2), ((6, 3, 3), 30), ((4, 4, 4, 4), 5))]
    made += [joint_program(chain(seed).program) for seed in range(24)]
    return [j for j in made if 2 <= len(j.values) <= 10]


def test_51_the_budget_is_honoured_and_no_choice_within_it_takes_less_time() -> None:
    found = small()
    assert len(found) > 8
    assert any(any(costs(j).extra) for j in found)
    for joint in found:
        c = costs(joint)
        everything = c.saved_bytes(range(len(c.tensors)))
        for limit in {0, everything // 3, everything // 2, everything}:
            made = within(joint, saved=limit)
            assert made.saved_bytes <= limit
            assert c.time(made.saved) == best(c, limit)
            assert made.gap is not None
            assert made.gap < 1e-6
            assert rejoined(made.split) is joint.program


def test_51_without_the_integer_program_the_bound_holds_and_the_budget_too() -> None:
    for joint in small():
        c = costs(joint)
        everything = c.saved_bytes(range(len(c.tensors)))
        for limit in {everything // 3, everything // 2}:
            made = within(joint, saved=limit, exact=False)
            assert made.saved_bytes <= limit
            assert made.bound is not None
            least = best(c, limit)
            assert made.bound <= least * (1 + 1e-9) <= c.time(made.saved) * (1 + 1e-9)


@pytest.mark.parametrize("blocks", [1, 4])
@pytest.mark.parametrize("share", [0, 10, 25, 50, 75, 100])
def test_51_transformer_blocks_under_budgets(blocks: int, share: int) -> None:
    """The integer program proves its answer optimal; what serves beyond its size comes within a fifth of it here."""
    joint = joint_program(transformer(blocks))
    limit = save_all(joint).saved_bytes * share // 100
    exact, quick = within(joint, saved=limit), within(joint, saved=limit, exact=False)
    assert max(exact.saved_bytes, quick.saved_bytes) <= limit
    assert exact.gap is not None
    assert exact.gap < 1e-6
    assert exact.time <= quick.time <= 1.2 * exact.time
    assert "gap" in str(exact)


def test_the_frontier_falls_and_is_convex() -> None:
    for joint in [joint_program(transformer(k)) for k in (1, 3)] + small():
        points = frontier(joint)
        c = costs(joint)
        for p in points:
            assert (p.bytes, p.time) == (c.saved_bytes(p.saved), c.time(p.saved) / PICOSECONDS)
        for a, b in itertools.pairwise(points):
            assert a.bytes < b.bytes
            assert a.time > b.time
        if any(c.extra):  # charged apart in the search, so that the hull is one of other times
            continue
        slopes = [(b.time - a.time) / (b.bytes - a.bytes) for a, b in itertools.pairwise(points)]
        assert all(x <= y * (1 - 1e-6) for x, y in itertools.pairwise(slopes))


def test_no_choice_lies_below_the_frontier() -> None:
    for joint in small():
        c = costs(joint)
        if any(c.extra):
            continue
        points = frontier(joint)
        for saved in subsets(len(c.tensors)):
            m, t = c.saved_bytes(saved), c.time(saved) / PICOSECONDS
            for a, b in itertools.pairwise(points):
                if a.bytes <= m <= b.bytes:
                    assert t >= (a.time + (b.time - a.time) * (m - a.bytes) / (b.bytes - a.bytes)) * (1 - 1e-9)


def test_an_impossible_budget_names_the_least() -> None:
    x, y = input("x", (4,), dt.f32), input("y", (8,), dt.f32)
    p = program([x, y], [tensor((4,), lambda i: op("exp", load(x, i)) * load(y, i))])
    joint = joint_program(p, changed=[x, y])
    message = r"memory_budget=20: at least 48 bytes have to be saved, the inputs \[x:f32\[4\], y:f32\[8\]\], which are overwr"
    with pytest.raises(UserError, match=message):
        within(joint, saved=20)
    assert within(joint, saved=48).saved_bytes == 48


# ------------------------------------------------------------------------------------------------ the peak


def test_a_footprint_counts_saved_values_in_both_halves() -> None:
    """y = exp(exp(x)), 1024 bytes each: the slope of exp is its result, so both are saved, or none."""
    x = input("x", (256,), dt.f32)
    e = tensor((256,), lambda i: op("exp", load(x, i)))
    joint = joint_program(program([x], [tensor((256,), lambda i: op("exp", load(e, i)))]))
    saved, again = footprint(save_all(joint).split), footprint(save_none(joint).split)
    assert (saved.forward, saved.backward) == (2048, 3072)  # the inner one and the result; both saved, and the gradient
    assert (again.forward, again.backward) == (1024, 2048)  # the result; the inner one again, and the gradient
    assert again.peak == 2048


def test_51_the_peak_is_honoured() -> None:
    joint = joint_program(transformer(1))
    ends = footprint(save_none(joint).split).peak, footprint(cut(joint).split).peak
    times = []
    for share in (40, 70, 100):
        limit = min(ends) * 6 // 10 + (max(ends) - min(ends) * 6 // 10) * share // 100
        made = within_peak(joint, peak=limit)
        assert footprint(made.split).peak <= limit
        assert rejoined(made.split) is joint.program
        times.append(made.time)
    assert times == sorted(times, reverse=True)


def test_51_of_all_choices_the_peak_search_finds_a_good_one() -> None:
    """Against every choice of a small program: never a worse peak than allowed, the best time in most cases."""
    joint = joint_program(mlp((8, 6, 5, 4), batch=16))
    c = costs(joint)
    assert len(c.tensors) <= 8
    every = {s: footprint(peak_.split(joint, c.chosen(s))).peak for s in subsets(len(c.tensors))}
    limits = sorted(set(every.values()))
    good = 0
    for limit in limits:
        made = within_peak(joint, peak=limit)
        assert every[made.saved] <= limit
        good += c.time(made.saved) == min(c.time(s) for s, m in every.items() if m <= limit)
    assert good >= 0.6 * len(limits)


def test_51_an_impossible_peak_names_the_least_that_was_found() -> None:
    joint = joint_program(transformer(1))
    with pytest.raises(UserError, match=r"a peak of 100 bytes was asked for; the least that was found is \d+ bytes"):
        within_peak(joint, peak=100)
