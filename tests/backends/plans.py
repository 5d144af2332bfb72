"""One plan of a program for each feature of a schedule."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from assay.backends.legality import illegal
from assay.backends.placement import Placement
from assay.backends.plan import Kernel, Plan, Schedule
from assay.backends.target import Target, host
from assay.core.lang import Program, T


def _natural(rank: int) -> tuple[tuple[int, None], ...]:
    return tuple((k, None) for k in range(rank))


def scalar(rank: int, lanes: int) -> Iterator[Schedule]:
    yield Schedule(order=_natural(rank)[::-1])
    yield Schedule()


def vector(rank: int, lanes: int) -> Iterator[Schedule]:
    for k in reversed(range(rank)):
        yield Schedule(vector=k, copies=3, stream=True)


def jam(rank: int, lanes: int) -> Iterator[Schedule]:
    for k in reversed(range(rank)):
        for j in range(rank):
            if j != k:
                yield Schedule(vector=k, copies=2, jam=((j, 2),), order=((k, 2 * lanes), *_natural(rank)), threads=j)
    for k in range(rank):
        yield Schedule(jam=((k, 3),), threads=k)


def rowvec(rank: int, lanes: int) -> Iterator[Schedule]:
    for k in range(rank):
        yield Schedule(jam=((k, 4),), fold="rowvec", threads=k)
    yield Schedule(fold="rowvec")


def carry(rank: int, lanes: int) -> Iterator[Schedule]:
    for k in reversed(range(rank)):
        yield Schedule(vector=k, copies=2, carry=4, threads=k)
        yield Schedule(vector=k, threads=("block", k), order=((k, lanes), *_natural(rank)))
    for k in range(rank):
        yield Schedule(carry=5, threads=k)


def transpose(rank: int, lanes: int) -> Iterator[Schedule]:
    for k in reversed(range(rank)):
        for j in range(rank):
            if j != k:
                yield Schedule(vector=k, jam=((j, lanes),))


FEATURES: dict[str, Callable[[int, int], Iterator[Schedule]]] = {
    "scalar": scalar, "vector": vector, "jam": jam, "rowvec": rowvec, "carry": carry, "transpose": transpose,
}  # fmt: skip


def schedule(t: T, feature: str, target: Target) -> Schedule:
    """The first legal schedule with the feature; the plain one where it does not apply."""
    if t.size == 0:
        return Schedule()
    p = Placement(Kernel((t,)))
    found = (s for s in FEATURES[feature](len(p.axes), target.lanes) if illegal(p, s, target.lanes) is None)
    return next(found, Schedule())


def plan(p: Program, feature: str) -> Plan:
    target = host()
    return Plan(tuple(Kernel((t,), schedule(t, feature, target)) for t in p.tensors if t.kind != "extern"))
