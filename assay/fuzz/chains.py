"""Random chains of operators on f64 tensors: views, gathers, scatters, folds, scans, and smooth functions between them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from assay.core import dtypes as dt
from assay.core.index import Ix, ix
from assay.core.lang import E, Program, T, const, fold, folds, index, input, load, op, program, select, tensor
from assay.core.operators import OPERATORS
from assay.fuzz.differences import STEP, Point, evaluate
from assay.transforms.rewrite import rewrite

ELEMENTS = 60


def call(name: str, *arguments: object) -> T:
    made = OPERATORS[name](*arguments)
    return made[0] if isinstance(made, tuple) else made


class Chain:
    """A random program of `length` links over the inputs x and y, with integer inputs for indices."""

    def __init__(self, rng: np.random.Generator, length: int) -> None:
        self.rng = rng
        self.x, self.y = input("x", (3, 4), dt.f64), input("y", (4,), dt.f64)
        self.values: dict[T, np.ndarray] = {self.x: rng.uniform(0.3, 1.7, (3, 4)), self.y: rng.uniform(-1, 1, 4)}
        self.made: list[T] = [self.x, self.y]
        self.names: list[str] = []
        t = self.x
        for _ in range(length):
            t = self._link(t)
            self.made.append(t)
        whole = program([*self.values], [t])
        self.program = rewrite(whole, inlined=lambda *_: True) if rng.random() < 0.5 else whole

    def pick(self, n: int) -> int:
        return int(self.rng.integers(n))

    def indices(self, shape: tuple[int, ...], n: int) -> T:
        t = input(f"i{len(self.values)}", shape, dt.i64)
        self.values[t] = self.rng.integers(0, n, shape)
        return t

    def _link(self, t: T) -> T:
        links = [f for f in LINKS if f is not _outer or t.size <= ELEMENTS // 4]
        while True:
            f = links[self.pick(len(links))]
            made = f(self, t)
            if made is not None and 0 < made.size <= ELEMENTS:
                self.names.append(f.__name__)
                return made

    def point(self) -> Point | None:
        """The chain at its values; None where it is not finite nearby."""
        p = self.program
        values = {t: self.values[t] for t in p.inputs}
        directions = {t: self.rng.standard_normal(t.shape) for t in p.inputs if t.dtype.is_float}
        weights = {t: np.asarray(self.rng.standard_normal(t.shape)) for t in p.outputs}
        made = Point(p, values, directions, weights)
        finite = all(np.all(np.abs(a) < 1e3) for h in (0, STEP, -STEP) for a in evaluate(list(weights), made.along(h)))
        return made if finite else None


def _smooth(c: Chain, t: T) -> T:
    name = ("tanh", "sigmoid", "sin", "gelu", "atan")[c.pick(5)]
    return tensor(t.shape, lambda *i: op(name, load(t, *i)))


def _permute(c: Chain, t: T) -> T:
    return call("permute.default", t, tuple(map(int, c.rng.permutation(len(t.shape)))))


def _reshape(c: Chain, t: T) -> T:
    n = t.size
    first = [k for k in range(1, n + 1) if n % k == 0][c.pick(sum(n % k == 0 for k in range(1, n + 1)))]
    return call("reshape.default", t, (first, n // first))


def _flip(c: Chain, t: T) -> T | None:
    return call("flip.default", t, (c.pick(len(t.shape)),)) if t.shape else None


def _roll(c: Chain, t: T) -> T | None:
    return call("roll.default", t, (1 + c.pick(3),), (c.pick(len(t.shape)),)) if t.shape else None


def _slice(c: Chain, t: T) -> T | None:
    d = c.pick(max(1, len(t.shape)))
    return call("slice.Tensor", t, d, c.pick(2), None, 1 + c.pick(2)) if t.shape and t.shape[d] > 2 else None


def _pad(c: Chain, t: T) -> T | None:
    return call("constant_pad_nd.default", t, (c.pick(2), c.pick(3)), 0.5) if t.shape else None


def _windows(c: Chain, t: T) -> T | None:
    d = c.pick(max(1, len(t.shape)))
    return call("unfold.default", t, d, 2, 1 + c.pick(2)) if t.shape and t.shape[d] > 2 else None


def _cat(c: Chain, t: T) -> T | None:
    return call("cat.default", (t, call("flip.default", t, (0,))), c.pick(len(t.shape))) if t.shape else None


def _choose(c: Chain, t: T) -> T | None:
    if not t.shape:
        return None
    d = c.pick(len(t.shape))
    return call("index_select.default", t, d, c.indices((4,), t.shape[d]))


def _gather(c: Chain, t: T) -> T | None:
    if not t.shape:
        return None
    d = c.pick(len(t.shape))
    return call("gather.default", t, d, c.indices(t.shape, t.shape[d]), False)


def _add_at(c: Chain, t: T) -> T | None:
    return call("index_add.default", t, 0, c.indices((t.shape[0],), t.shape[0]), call("sin.default", t), 2) if t.shape else None


def _set_at(c: Chain, t: T) -> T | None:
    return call("index_copy.default", t, 0, c.indices((t.shape[0],), t.shape[0]), call("tanh.default", t)) if t.shape else None


def _multiply_at(c: Chain, t: T) -> T | None:
    return call("scatter.reduce", t, 0, c.indices(t.shape, t.shape[0]), call("cos.default", t), "multiply") if t.shape else None


def _scaled(c: Chain, t: T) -> T:
    other = c.made[c.pick(len(c.made))]

    def there(i: tuple) -> list:
        return [a % n for a, n in zip([*i, *[ix(0)] * 8], other.shape, strict=False)]

    return tensor(t.shape, lambda *i: load(t, *i) * load(other, *there(i)))


def _outer(c: Chain, t: T) -> T:
    return tensor((*t.shape, 4), lambda *i: load(t, *i[:-1]) * load(c.y, i[-1]))


def _total(c: Chain, t: T) -> T | None:
    return call("sum.dim_IntList", t, (c.pick(len(t.shape)),), False, None) if len(t.shape) > 1 else None


def _product(c: Chain, t: T) -> T | None:
    return call("prod.dim_int", t, c.pick(len(t.shape)), False, None) if len(t.shape) > 1 else None


def _largest(c: Chain, t: T) -> T | None:
    return call("amax.default", t, (c.pick(len(t.shape)),), True) if t.shape else None


def _first_largest(c: Chain, t: T) -> T | None:
    return call("max.dim", t, c.pick(len(t.shape)), True) if t.shape else None


def _softmax(c: Chain, t: T) -> T | None:
    return call("softmax.int", t, c.pick(len(t.shape)), None) if t.shape else None


def _running_sum(c: Chain, t: T) -> T | None:
    return call("cumsum.default", t, c.pick(len(t.shape)), None) if t.shape else None


def _running_product(c: Chain, t: T) -> T | None:
    return call("cumprod.default", t, c.pick(len(t.shape)), None) if t.shape else None


def _running_largest(c: Chain, t: T) -> T | None:
    return call("cummax.default", t, c.pick(len(t.shape))) if t.shape else None


def _product_of_matrices(c: Chain, t: T) -> T | None:
    return call("mm.default", t, call("permute.default", t, (1, 0))) if len(t.shape) == 2 else None


def _deviations(c: Chain, t: T) -> T | None:
    return call("var.correction", t, (c.pick(len(t.shape)),), 0, True) if t.shape else None


def _recurrence(c: Chain, t: T) -> T | None:
    if not t.shape:
        return None
    n = t.shape[-1]

    def step(a: E, lead: tuple, r: object) -> E:
        return op("tanh", a * load(c.y, 1) + load(t, *lead, r))

    return tensor(t.shape[:-1], lambda *i: fold(n, const(0.1, dt.f64), lambda a, r: step(a, i, r)))


def _nested(c: Chain, t: T) -> T | None:
    if len(t.shape) < 2:
        return None
    n, m = t.shape[-2:]

    def inner(a: E, lead: tuple, r: object) -> E:
        return fold(m, a, lambda b, s: op("sin", b * 0.7 + load(t, *lead, r, s)))

    return tensor(t.shape[:-2], lambda *i: fold(n, const(0.2, dt.f64), lambda a, r: inner(a, i, r) * 0.9))


def _average(c: Chain, t: T) -> T | None:
    """The square of a moving average: a linear recurrence, whose result is used twice."""
    if not t.shape:
        return None

    def body(*i: Ix) -> E:
        average = fold(t.shape[-1], const(0.3, dt.f64), lambda a, r: a * 0.5 + load(t, *i, r))
        return average * average

    return tensor(t.shape[:-1], body)


def _coupled(c: Chain, t: T) -> T | None:
    """Two accumulators, of which the one that is returned reads the other one, and this one the tensor."""
    if not t.shape:
        return None

    def body(*i: Ix) -> E:
        start = const(0.1, dt.f64), const(0.2, dt.f64)
        return folds(t.shape[-1], start, lambda a, b, r: (a * 0.5 + op("sin", load(t, *i, r)), b * 0.7 + a * 0.3))[1]

    return tensor(t.shape[:-1], body)


def _pieces(c: Chain, t: T) -> T | None:
    """One value under two conditions that have nothing to do with each other."""
    if not t.shape:
        return None

    def body(*i: Ix) -> E:
        x = load(t, *i)
        return select(x > 0.4, x * x, const(0.16, dt.f64)) + select(op("lt", index(i[-1]), 2), x * 3.0, const(0, dt.f64))

    return tensor(t.shape, body)


LINKS: list[Callable[[Chain, T], T | None]] = [
    _smooth, _permute, _reshape, _flip, _roll, _slice, _pad, _windows, _cat, _choose, _gather, _add_at, _set_at, _multiply_at,
    _scaled, _outer, _total, _product, _largest, _first_largest, _softmax, _running_sum, _running_product, _running_largest,
    _product_of_matrices, _deviations, _recurrence, _nested, _average, _coupled, _pieces,
]  # fmt: skip


def chain(seed: int) -> Chain:
    rng = np.random.default_rng(seed)
    return Chain(rng, int(rng.integers(2, 7)))


__all__ = ["Chain", "Program", "chain"]
