"""Random programs of views, gathers, scatters, folds, scans, updates in place: against numpy and differences.

A program is a list of steps over a growing list of tensors, some of which share memory; differences are taken on numpy in f64.
"""

from typing import Any

import numpy as np
import pytest

import assay
from assay.autograd import BackwardError
from tests.frontends.in_place_programs import Step, drawn_kind, plain_step

KINDS = """
    slice select transpose reshape sin product sum add_ mul_ copy_ scale_ fresh
    gather scatter_ put_ cumsum amax prod matmul set_slice
""".split()


class Numpy:
    """What is spelled differently on arrays."""

    sin = staticmethod(np.sin)
    add_ = staticmethod(lambda a, b: a.__iadd__(b))
    mul_ = staticmethod(lambda a, b: a.__imul__(b))

    take = staticmethod(lambda a, at: a[at])
    cumsum = staticmethod(lambda a: np.cumsum(a, 0))
    scatter_ = staticmethod(lambda a, at, b: np.add.at(a, at, b.copy()))

    @staticmethod
    def copy_(a: Any, b: Any) -> None:
        a[...] = b

    @staticmethod
    def put_(a: Any, at: np.ndarray, b: Any) -> None:
        a[at] = b.copy()


class Tensors:
    """The same on tensors."""

    sin = staticmethod(lambda a: a.sin())
    add_ = staticmethod(lambda a, b: a.add_(b))
    mul_ = staticmethod(lambda a, b: a.mul_(b))
    copy_ = staticmethod(lambda a, b: a.copy_(b))
    take = staticmethod(lambda a, at: a[assay.tensor(at)])
    cumsum = staticmethod(lambda a: a.cumsum(0))
    scatter_ = staticmethod(lambda a, at, b: a.index_add_(0, assay.tensor(at), b))

    @staticmethod
    def put_(a: Any, at: np.ndarray, b: Any) -> None:
        a[assay.tensor(at)] = b


def random_step(rng: np.random.Generator, live: list[np.ndarray]) -> Step | None:
    """One step that is legal on the arrays `live`, but for the first two, the leaves, which are not written."""
    kind, k, j, number = drawn_kind(rng, live, KINDS)
    a = live[k]
    made = plain_step(kind, rng, a, k, j)
    if made is not None:
        return made
    if kind == "transpose" and a.ndim == 2:
        return lambda xp, v: v.append(v[k].T)
    if kind == "reshape" and a.ndim and a.flags.c_contiguous:
        return lambda xp, v: v.append(v[k].reshape(-1))
    if kind == "sin":
        return lambda xp, v: v.append(xp.sin(v[k]))
    if kind == "scale_" and a.ndim:
        return lambda xp, v: xp.mul_(v[k], number)
    if kind == "gather" and a.ndim and a.shape[0]:
        at = rng.integers(0, a.shape[0], 3)
        return lambda xp, v: v.append(xp.take(v[k], at))
    if kind == "scatter_" and a.ndim and a.shape[0]:
        at = rng.integers(0, a.shape[0], a.shape[0])
        return lambda xp, v: xp.scatter_(v[k], at, v[j])
    if kind == "put_" and a.ndim and a.shape[0]:
        at = rng.permutation(a.shape[0])
        return lambda xp, v: xp.put_(v[k], at, v[j])
    if kind == "set_slice" and a.ndim and a.shape[0] > 1:
        n = int(rng.integers(1, a.shape[0]))
        return lambda xp, v: v[k].__setitem__(slice(n, None), v[j][n:])
    if kind == "cumsum" and a.ndim and a.shape[0]:
        return lambda xp, v: v.append(xp.cumsum(v[k]))
    if kind in ("amax", "prod") and a.ndim and a.shape[-1]:
        return lambda xp, v: v.append(getattr(v[k], "max" if xp is Numpy and kind == "amax" else kind)(-1))
    if kind == "matmul" and a.ndim == 2 and 0 not in a.shape:
        return lambda xp, v: v.append(v[k] @ v[j].T)
    if kind == "fresh":
        return lambda xp, v: v.append(v[k] * number)
    if kind in ("add_", "mul_", "copy_") and a.ndim:
        return lambda xp, v: getattr(xp, kind)(v[k], v[j])
    return None


def program(seed: int) -> tuple[list[Step], list[np.ndarray]]:
    """Steps, and the values of the two leaves."""
    rng = np.random.default_rng(seed)
    start = [rng.uniform(0.3, 1.2, (3, 4)), rng.uniform(0.3, 1.2, (4,))]
    steps: list[Step] = [lambda xp, v: v.append(v[0] * 1.0), lambda xp, v: v.append(v[1] * 1.0)]
    live = [a.copy() for a in start]
    for s in steps:
        s(Numpy, live)
    while len(steps) < 10:
        s = random_step(rng, live)
        if s is not None:
            steps.append(s)
            s(Numpy, live)
    return steps, start


def loss(steps: list[Step], start: list[np.ndarray]) -> tuple[float, list[np.ndarray]]:
    live = [a.copy() for a in start]
    for s in steps:
        s(Numpy, live)
    return sum(float(np.sin(a).sum()) for a in live), live


def check(seed: int) -> bool:
    """Whether the gradient could be compared; a program that changes what a derivative needs is an error, never a number."""
    steps, start = program(seed)
    _, want = loss(steps, start)
    live: list[Any] = [assay.tensor(a, requires_grad=True) for a in start]
    leaves = live[:2]
    for s in steps:
        s(Tensors, live)
    for a, b in zip(live, want, strict=True):
        assert np.allclose(a.detach().numpy(), b, rtol=1e-13), seed
    for k, a in enumerate(live):
        for j in range(k):
            assert np.shares_memory(a.detach().numpy(), live[j].detach().numpy()) == np.shares_memory(want[k], want[j]), seed
    total: Any = 0.0
    for a in live:
        total = total + a.sin().sum()
    try:
        total.backward()
    except BackwardError as error:
        if "changed in place" not in str(error):
            raise
        return False
    rng = np.random.default_rng(seed)
    directions = [rng.standard_normal(a.shape) for a in start]

    def moved(h: float) -> float:
        return loss(steps, [a + h * d for a, d in zip(start, directions, strict=True)])[0]

    d = [(moved(h) - moved(-h)) / (2 * h) for h in (1e-4, 5e-5)]
    slope = (4 * d[1] - d[0]) / 3
    if abs(d[1] - d[0]) > 1e-5 * max(1.0, abs(slope)):  # products of products: too steep for differences
        return False
    along = sum(float((x.grad.numpy() * u).sum()) for x, u in zip(leaves, directions, strict=True) if x.grad is not None)
    assert along == pytest.approx(slope, rel=1e-7, abs=1e-7), seed
    return True


def test_random_programs() -> None:
    assert sum(map(check, range(30))) > 10


@pytest.mark.full
@pytest.mark.parametrize("start", range(1000, 5500, 500))
def test_many_random_programs(start: int) -> None:
    """Of 4,500, more than 2,000 have a gradient that differences can be compared with."""
    assert sum(map(check, range(start, start + 500))) > 222
