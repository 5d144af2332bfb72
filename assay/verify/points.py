"""Points at which a question with sizes is tried: small sizes, and variables at and between the ends of their axes.

A size is drawn near the least one, since what fails for some sizes mostly fails for small ones; a size that a hypothesis gives by
others (n == 2*m) is computed from them.  Values read from inputs are drawn from their range and near the sizes.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from assay.core.index import Ix, Size, Var, evaluate, from_atom, is_symbolic
from assay.core.lang import E, as_index
from assay.core.row import Interval
from assay.verify.terms import Atom

SCALES = (1, 2, 3, 5, 9, 17, 33)  # how far sizes are drawn from the least ones


def draw(atoms: Mapping[Atom, Interval], hypotheses: Iterable[tuple[E, bool]], rows: int) -> dict[Atom, list[int]]:
    """`rows` values for each atom, the same in every process."""
    rng = random.Random(0)
    sizes = [a for a in atoms if isinstance(a, Size)]
    variables = [a for a in atoms if isinstance(a, Var)]
    values = [a for a in atoms if isinstance(a, E)]
    solved = _solved(hypotheses)
    found: dict[Atom, list[int]] = {a: [] for a in atoms}
    for k in range(rows):
        scale = SCALES[k % len(SCALES)]
        point: dict[Any, int] = {s: min(s.hi, s.lo + rng.randint(0, scale)) for s in sizes}
        for s, by in solved:
            if s in point and by.sizes <= point.keys() and s.lo <= (x := _value(by, point)) <= s.hi:
                point[s] = x
        near = [x for s in sizes for x in (point[s], -point[s])] or [0]
        for v in variables:
            last = (_value(v.n, point) if is_symbolic(v.n) else v.n) - 1
            point[v] = rng.choice((0, last, rng.randint(0, max(0, last)), min(1, max(0, last))))
        for e in values:
            low, high = atoms[e]
            around = rng.choice(near) + rng.randint(-2, 2)
            point[e] = rng.choice((low, high, rng.randint(low, high), *((around,) * 5 if low <= around <= high else ())))
        for a, column in found.items():
            column.append(point[a])
    return found


def _value(e: Ix, point: Mapping[Any, int]) -> int:
    """The value of the extent; 0 where it divides by 0, at sizes that no guard admits."""
    try:
        return evaluate(e, point.__getitem__)
    except ZeroDivisionError:
        return 0


def _solved(hypotheses: Iterable[tuple[E, bool]]) -> Sequence[tuple[Size, Ix]]:
    """(size, its value) for each equation of sizes that is linear in one of them with a factor of 1 or -1."""
    found: list[tuple[Size, Ix]] = []
    for e, holds in hypotheses:
        if e.op == "eq" and holds and e.args[0].dtype.is_integer:
            d = as_index(e.args[0]) - as_index(e.args[1])
            for a, k in d.terms if d.is_extent else ():
                rest = d - k * from_atom(a) if isinstance(a, Size) else d
                if isinstance(a, Size) and abs(k) == 1 and a not in rest.sizes:
                    found.append((a, rest * -k))
                    break
    return found
