"""Audit of folds inside folds: two nests of other extents, whose results differ, are not proved equal.

Both run over as many positions and have the same step: what it reads of positions, loops and the accumulators of each loop is
drawn, so that some pairs are equal (the step reads positions and the innermost accumulator only) and most are not.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np

from assay.core import dtypes as dt
from assay.core.index import Ix, ix
from assay.core.lang import E, Program, T, const, fold, index, input, load, op, program, tensor
from assay.core.text import show
from assay.semantics.compare import bits_equal
from assay.semantics.denote import run
from assay.verify.validate import validate

EXTENTS = (2, 3, 4)
COMBINE = ("add", "add", "sub", "mul", "max", "bxor")
SPREAD = 9  # of the elements

Step = Callable[[Sequence[E], Sequence[Ix], Ix], E]
"""step(accumulators of the loops, outermost first; their variables; the position)."""


def wrong_folds(seed: int) -> str | None:
    """What one pair of nests shows, or None."""
    rng = random.Random(seed)
    extents = rng.sample(EXTENTS, rng.choice((2, 3, 3)))
    others = rng.sample(extents, len(extents)) if rng.random() < 0.8 else _joined(extents, rng)
    n = int(np.prod(extents))
    x = input("x", (n,), dt.i64)
    step, start = _step(x, rng), rng.randrange(3)
    made, wanted = (program((x,), (tensor((), lambda es=es: _nest(es, step, start)),)) for es in (others, extents))
    given = [np.random.default_rng([seed, q]).integers(-SPREAD, SPREAD, n) for q in range(2)]
    if all(bits_equal(*(run(p, [xs])[0] for p in (made, wanted))) for xs in given) or not _proved(wanted, made):
        return None
    return f"{show(made)}\nis proved equal to\n{show(wanted)}\nand has other results"


def _proved(source: Program, target: Program) -> bool:
    return validate(source, target).proved


def _joined(extents: list[int], rng: random.Random) -> list[int]:
    """The extents with two neighbours as one loop."""
    k = rng.randrange(len(extents) - 1)
    return [*extents[:k], extents[k] * extents[k + 1], *extents[k + 2 :]]


def _step(x: T, rng: random.Random) -> Step:
    """acc op element, or acc op (element op the accumulator or the variable of some loop)."""
    outer, inner = rng.choice(COMBINE), rng.choice(COMBINE)
    level, what = rng.randrange(3), rng.choice(("position", "accumulator", "accumulator", "accumulator", "variable"))

    def step(accumulators: Sequence[E], loops: Sequence[Ix], position: Ix) -> E:
        element = load(x, position)
        k = min(level, len(loops) - 1)
        other = {"accumulator": accumulators[k], "variable": index(loops[k], dt.i64), "position": index(position, dt.i64)}[what]
        return op(outer, accumulators[-1], op(inner, element, other))

    return step


def _nest(extents: Sequence[int], step: Step, start: int) -> E:
    """Loops inside each other, which hand one accumulator through."""

    def opened(accumulators: list[E], loops: list[Ix], position: Ix) -> E:
        k = len(loops)
        if k == len(extents):
            return step(accumulators, loops, position)
        entered = accumulators[-1] if accumulators else const(start, dt.i64)
        return fold(extents[k], entered, lambda a, i: opened([*accumulators, a], [*loops, i], position * extents[k] + i))

    return opened([], [], ix(0))


__all__ = ["wrong_folds"]
