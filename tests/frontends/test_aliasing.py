"""Views, in-place updates and captures against numpy: values, shared memory, changed inputs, on random programs.

A program is a list of steps over a growing list of arrays; the same steps run on numpy, eagerly, and compiled.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import assay

Step = Callable[[Any, list[Any]], None]


class Numpy:
    """The steps that are spelled differently, on numpy arrays."""

    permute = staticmethod(lambda x, dims: x.transpose(dims))
    expand = staticmethod(np.broadcast_to)
    relu = staticmethod(lambda x: np.array(np.where(x <= 0, np.float32(0), x), order="C"))
    clone = staticmethod(lambda x: np.array(x, order="C"))
    combine = staticmethod(lambda x, c, y: np.array(x * c + y, order="C"))  # new arrays are row-major, as new tensors are

    @staticmethod
    def copy_(x: Any, y: Any) -> None:
        x[...] = y


class Tensors:
    """The same on tensors."""

    permute = staticmethod(lambda x, dims: x.permute(dims))
    expand = staticmethod(lambda x, shape: x.expand(shape))
    relu = staticmethod(lambda x: x.relu())
    clone = staticmethod(lambda x: x.clone())
    combine = staticmethod(lambda x, c, y: x * c + y)

    @staticmethod
    def copy_(x: Any, y: Any) -> None:
        x.copy_(y)


def is_writable(a: np.ndarray) -> bool:
    return a.flags.writeable and all(s != 0 or n <= 1 for s, n in zip(a.strides, a.shape, strict=True))


def random_slice(rng: np.random.Generator, n: int) -> slice:
    start, stop = sorted(rng.integers(0, n + 1, 2).tolist())
    return slice(start, stop, int(rng.integers(1, 3)))


def random_step(rng: np.random.Generator, live: list[np.ndarray]) -> Step:
    """One step that is legal on the numpy arrays `live`."""
    k = int(rng.integers(len(live)))
    a = live[k]
    others = [j for j, b in enumerate(live) if np.broadcast_shapes(*compatible(a.shape, b.shape)) == a.shape]
    j = int(rng.choice(others))
    kind = rng.choice(
        [
            "slice",
            "select",
            "permute",
            "newaxis",
            "reshape",
            "expand",
            "add_",
            "mul_",
            "set_slice",
            "set_number",
            "copy_",
            "pure",
            "relu",
            "clone",
        ]
    )
    axis = int(rng.integers(a.ndim)) if a.ndim else 0
    number = float(rng.integers(-3, 4))
    if kind == "slice" and a.ndim:
        at = (slice(None),) * axis + (random_slice(rng, a.shape[axis]),)
        return lambda xp, v: v.append(v[k][at])
    if kind == "select" and a.ndim and a.shape[axis]:
        where = (slice(None),) * axis + (int(rng.integers(-a.shape[axis], a.shape[axis])), Ellipsis)
        return lambda xp, v: v.append(v[k][where])
    if kind == "permute":
        dims = tuple(rng.permutation(a.ndim).tolist())
        return lambda xp, v: v.append(xp.permute(v[k], dims))
    if kind == "newaxis" and a.ndim < 4:
        return lambda xp, v: v.append(v[k][(slice(None),) * axis + (None,)])
    if kind == "reshape":
        shape = (-1,) if rng.integers(2) else (1, a.size) if a.size else (0, 3)
        return lambda xp, v: v.append(v[k].reshape(shape))
    if kind == "expand" and a.ndim < 4:
        wide = (2, *a.shape)
        return lambda xp, v: v.append(xp.expand(v[k], wide))
    if kind in ("add_", "mul_", "copy_") and is_writable(a):

        def update(xp: Any, v: list[Any]) -> None:
            if kind == "add_":
                v[k] += v[j]
            elif kind == "mul_":
                v[k] *= number
            else:
                xp.copy_(v[k], v[j])

        return update
    if kind == "set_slice" and a.ndim and is_writable(a):
        at = (slice(None),) * axis + (random_slice(rng, a.shape[axis]),)

        def set_slice(xp: Any, v: list[Any]) -> None:
            v[k][at] = v[j][at] if v[j].shape == v[k].shape else number

        return set_slice
    if kind == "set_number" and a.ndim and a.shape[0] and is_writable(a):

        def set_number(xp: Any, v: list[Any]) -> None:
            v[k][-1] = number

        return set_number
    if kind == "relu":
        return lambda xp, v: v.append(xp.relu(v[k]))
    if kind == "clone":
        return lambda xp, v: v.append(xp.clone(v[k]))
    return lambda xp, v: v.append(xp.combine(v[k], number, v[j]))


def compatible(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Both shapes if they broadcast, else one that no array has."""
    try:
        np.broadcast_shapes(a, b)
    except ValueError:
        return ((7, 7, 7, 7, 7),)
    return (a, b)


def inputs(rng: np.random.Generator) -> Callable[[], list[np.ndarray]]:
    """A maker of equal fresh inputs: one array, and another that may be a view of it."""
    data = rng.integers(-4, 5, (3, 4)).astype(np.float32)
    data[0, 0], data[1, 1], data[2, 2] = np.nan, -0.0, np.inf
    other = rng.integers(-4, 5, (4,)).astype(np.float32)
    second = rng.integers(4)

    def make() -> list[np.ndarray]:
        x = data.copy()
        return [x, [other.copy(), x[1], x.T, x[:, ::2]][second]]

    return make


def make_program(seed: int) -> tuple[Callable[[], list[np.ndarray]], list[Step]]:
    rng = np.random.default_rng(seed)
    make = inputs(rng)
    live: list[np.ndarray] = make()
    steps: list[Step] = []
    with np.errstate(all="ignore"):
        for _ in range(int(rng.integers(1, 11))):
            steps.append(random_step(rng, live))
            steps[-1](Numpy, live)
    return make, steps


def as_tensors(arrays: list[np.ndarray]) -> list[assay.Tensor]:
    """Tensors over the arrays' memory; the second is a view of the first where numpy's is."""
    x = assay.from_numpy(arrays[0])
    a, b = arrays
    if not np.shares_memory(a, b):
        return [x, assay.from_numpy(b)]
    view = x[1] if b.ndim == 1 else x.t() if b.shape == a.T.shape else x[:, ::2]
    return [x, view]


def check(got: list[Any], want: list[np.ndarray]) -> None:
    arrays = [g.numpy() for g in got]
    for k, (g, w) in enumerate(zip(arrays, want, strict=True)):
        assert g.shape == w.shape, k
        assert np.array_equal(g, w, equal_nan=True), (k, g, w)
        assert np.array_equal(np.signbit(g) & (g == 0), np.signbit(w) & (w == 0)), k
    for i in range(len(want)):
        for j in range(i):
            assert np.shares_memory(arrays[i], arrays[j]) == np.shares_memory(want[i], want[j]), (i, j)


def compare(seed: int, backend: str) -> None:
    """One program: numpy, eager, captured, compiled."""
    make, steps = make_program(seed)
    want = make()
    with np.errstate(all="ignore"):
        for step in steps:
            step(Numpy, want)

    eager: list[Any] = as_tensors(make())
    for step in steps:
        step(Tensors, eager)
    check(eager, want)

    def program(x: Any, y: Any) -> list[Any]:
        v = [x, y]
        for step in steps:
            step(Tensors, v)
        return v

    given = as_tensors(make())
    graph = assay.trace(program, *given)
    assert all(node.target.inplace_of is None for node in graph.nodes if node.target is not None)
    check(given, make())  # the capture wrote nothing

    results = assay.compile(program, backend=backend)(*given)
    check([*given, *results[2:]], want)
    check(results, want)


@pytest.mark.parametrize("chunk", range(10))
def test_random_programs(chunk: int) -> None:
    for seed in range(40 * chunk, 40 * chunk + 40):
        compare(seed, "reference")


@pytest.mark.full
@pytest.mark.parametrize("start", range(400, 1500, 100))
def test_many_random_programs(start: int) -> None:
    """With those above 1,500: values and shared memory as numpy's."""
    for seed in range(start, start + 100):
        compare(seed, "reference")


@pytest.mark.cpp
@pytest.mark.parametrize("seed", range(8))
def test_random_programs_in_cpp(seed: int) -> None:
    compare(seed, "cpp")


@pytest.mark.cpp
@pytest.mark.full
@pytest.mark.parametrize("seed", range(8, 408))
def test_many_random_programs_in_cpp(seed: int) -> None:
    compare(seed, "cpp")


def test_as_strided_shares_the_memory_of_a_whole_tensor() -> None:
    x = assay.arange(6)
    y = x.as_strided((2, 2), (1, 2), 1)
    y.mul_(10)
    assert (y.tolist(), x.tolist()) == ([[10, 30], [20, 40]], [0, 10, 20, 30, 40, 5])
    doubled = assay.compile(lambda t: t.as_strided((2, 2), (1, 2), 1).mul_(2), backend="reference")
    doubled(x)
    assert x.tolist() == [0, 20, 40, 60, 80, 5]


@pytest.mark.parametrize("part", [lambda x: x[1:], lambda x: x.reshape(2, 3).t(), lambda x: x[::2]])
def test_as_strided_of_a_part_of_a_storage_is_refused(part: Any) -> None:
    with pytest.raises(assay.Unsupported, match=r"clone\(\) it first"):
        part(assay.arange(6)).as_strided((2,), (1,))
    assert part(assay.arange(6)).clone().as_strided((2,), (1,)).shape == (2,)


def test_overlapping_strides_are_not_written() -> None:
    with pytest.raises(assay.UserError, match="several elements"):
        assay.arange(6).as_strided((3, 3), (1, 1)).add_(1)
