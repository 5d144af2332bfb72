"""Definitions 5.1 and 5.2, propositions and theorems about them, by brute force on small graphs; flows against an oracle."""

import itertools
import math
import random
from dataclasses import replace

import numpy as np
import pytest

from assay.core.errors import InternalError, Unsupported, UserError
from assay.partition.maxflow import Cut, Network, check_certificate, minimum_cut
from assay.partition.network import Values, cheapest, cost, meets_every_path, network, recomputed
from tests.partition.flows import edmonds_karp, least, random_values, subsets

INF = math.inf
CHAIN = Values(((), (0,), (1,)), (5, 3, 4), (INF, 0, 0), frozenset((2,)))


def paths_meet(values: Values, saved: frozenset[int]) -> bool:
    """Definition 5.1 by listing the paths."""

    def free_path(v: int) -> bool:
        if v in saved:
            return False
        return values.recompute[v] == INF or any(free_path(u) for u in values.parents[v])

    return not any(free_path(v) for v in values.wanted)


# ------------------------------------------------------------------------------------------------ definitions


@pytest.mark.parametrize(
    ("saved", "feasible"), [((), False), ((0,), True), ((1,), True), ((2,), True), ((0, 2), True)], ids=str
)
def test_16_a_chain_has_to_be_cut_somewhere(saved: tuple[int, ...], feasible: object) -> None:
    assert meets_every_path(CHAIN, saved) is feasible
    assert (cost(CHAIN, saved) < INF) is feasible


def test_16_feasible_is_meeting_every_path() -> None:
    for seed in range(150):
        values = random_values(seed, banned=True)
        for saved in subsets(len(values)):
            wanted = paths_meet(values, saved)
            assert meets_every_path(values, saved) is wanted
            assert all(values.recompute[v] < INF for v in recomputed(values, saved)) is wanted


def test_17_each_value_is_an_edge_between_two_vertices() -> None:
    made = network(CHAIN)
    assert made.vertices == 8
    assert sorted(made.edges) == sorted([
        (0, 1, 5), (2, 3, 3), (4, 5, 4),  # save
        (1, 2, INF), (3, 4, INF),  # parents
        (6, 0, INF),  # not to be recomputed
        (5, 7, INF),  # read by the backward
    ])  # fmt: skip


def test_18_finite_cuts_are_the_feasible_sets_at_equal_cost() -> None:
    for seed in range(40):
        values = random_values(seed, 4, banned=True)
        if INF in values.save:
            continue
        made = network(values)
        vertices = range(2 * len(values))
        found: dict[frozenset[int], float] = {}
        for bits in itertools.product((False, True), repeat=len(vertices)):
            side = [*bits, True, False]
            capacity = sum(c for u, v, c in made.edges if side[u] and not side[v])
            if capacity < INF:
                cut = frozenset(v for v in range(len(values)) if side[2 * v] and not side[2 * v + 1])
                assert capacity == sum(values.save[v] for v in cut)
                found[cut] = capacity
        assert set(found) == {s for s in subsets(len(values)) if meets_every_path(values, s)}


# ------------------------------------------------------------------------------------------------ flow and cut


def random_network(seed: int, scale: int = 1) -> Network:
    rng = random.Random(seed)
    n = rng.randint(2, 12)
    edges = [(rng.randrange(n), rng.randrange(n), rng.choice((INF, 0, *(rng.randint(1, 30) * scale for _ in range(6)))))
             for _ in range(rng.randint(1, 40))]  # fmt: skip
    return Network(n, [(u, v, c) for u, v, c in edges if u != v], 0, n - 1)


@pytest.mark.parametrize("scale", [1, 2**20 + 7, 2**31 - 1, 2**31, 2**45 + 12345, 2**52 - 1])
def test_19_the_flow_is_the_cut_for_capacities_of_any_size(scale: int) -> None:
    """Against Edmonds and Karp on Python's integers; parallel and opposite edges, infinite and zero ones among them."""
    for seed in range(40):
        made = random_network(seed, scale)
        flow, _ = edmonds_karp(made)
        found = minimum_cut(made)
        assert (INF if found is None else found.value) == flow


def test_19_the_cut_that_is_returned_is_the_one_nearest_to_the_sink() -> None:
    for seed in range(100):
        made = random_network(seed)
        found = minimum_cut(made)
        if found is None or made.vertices > 9:
            continue
        sides = [np.array([True, *bits, False]) for bits in itertools.product((False, True), repeat=made.vertices - 2)]
        least_sides = [s for s in sides if sum(c for u, v, c in made.edges if s[u] and not s[v]) == found.value]
        assert np.array_equal(found.source_side, np.logical_or.reduce(least_sides))


def test_20_augmenting_paths_are_at_most_half_of_vertices_times_edges() -> None:
    for seed in range(60):
        made = random_network(seed)
        assert edmonds_karp(made)[1] <= made.vertices * len(made.edges) / 2


def test_one_capacity_of_32_bits_is_where_the_solver_alone_returns_nothing() -> None:
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_flow

    edges = [(0, 1, 2**31), (1, 2, 5)]
    alone = csr_array((np.array([c for *_, c in edges]), ([0, 1], [1, 2])), shape=(3, 3))
    assert maximum_flow(alone, 0, 2).flow_value == 0  # silently
    found = minimum_cut(Network(3, edges, 0, 2))
    assert found is not None
    assert found.value == 5


@pytest.mark.parametrize(
    ("value", "side", "flow", "message"),
    [
        (5, (True, True, False), (5, 5), None),
        (5, (True, True, False), (5, 4), "leaves"),
        (5, (True, True, False), (6, 6), "capacity"),
        (4, (True, True, False), (4, 4), "a cut of 5 for a flow of 4"),
        (7, (True, False, False), (5, 5), "a cut of 7 for a flow of 5"),
        (5, (True, True, True), (5, 5), "separate"),
        (5, (True, True, False), (-1, -1), "flow of -1"),
    ],
)
def test_a_certificate_that_proves_nothing_is_refused(value: int, side: tuple, flow: tuple, message: str | None) -> None:
    made = Network(3, [(0, 1, 7), (1, 2, 5)], 0, 2)
    cut = Cut(value, np.array(side), np.array(flow))
    if message is None:
        check_certificate(made, cut)
    else:
        with pytest.raises(InternalError, match=message):
            check_certificate(made, cut)


def test_capacities_beyond_64_bits_are_refused() -> None:
    with pytest.raises(Unsupported, match="larger unit"):
        minimum_cut(Network(2, [(0, 1, 2**62)], 0, 1))


# ------------------------------------------------------------------------------------------------ the least cost


@pytest.mark.parametrize("seeds", [range(250), pytest.param(range(250, 1000), marks=pytest.mark.full)], ids=["250", "1000"])
def test_26_no_feasible_set_costs_less_in_the_documents_model(seeds: range) -> None:
    for seed in seeds:
        values = random_values(seed, banned=True)
        found = cheapest(values)
        assert (INF if found is None else found.cost) == least(values)
        if found is not None:
            assert meets_every_path(values, found.saved)


def test_no_set_costs_less_when_both_are_priced_and_none_of_them_recomputes_less() -> None:
    for seed in range(200):
        values = random_values(seed)
        found = cheapest(values)
        best = least(values)
        assert (INF if found is None else found.cost) == best
        if found is not None:
            equal = [recomputed(values, s) for s in subsets(len(values)) if cost(values, s) == best]
            assert all(found.recomputed <= r for r in equal)


def test_a_random_problem_of_600_values_agrees_with_the_oracle() -> None:
    for seed in range(3):
        values = random_values(seed, 600)
        found = cheapest(values)
        assert (INF if found is None else found.cost) == edmonds_karp(network(values))[0]


def test_29_there_may_be_no_finite_cut() -> None:
    assert cheapest(Values(((),), (INF,), (INF,), frozenset((0,)))) is None


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (lambda: replace(CHAIN, save=(1, 2)), "prices of saving"),
        (lambda: replace(CHAIN, parents=((), (2,), ())), "comes after its parents"),
        (lambda: replace(CHAIN, save=(1, -2, 0)), "price -2"),
        (lambda: replace(CHAIN, save=(1, 0.5, 0)), r"price 0\.5"),
        (lambda: replace(CHAIN, wanted=frozenset((3,))), "there are 3 values"),
    ],
)
def test_a_wrong_problem_is_refused(values, message: str) -> None:
    with pytest.raises(UserError, match=message):
        values()
