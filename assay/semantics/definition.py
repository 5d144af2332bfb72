"""The definition of a scatter as a let: what its derivative is taken of, where the operation that it combines with is no sum."""

from __future__ import annotations

from assay.core import dtypes as dt
from assay.core.index import Ix
from assay.core.lang import E, T, axes, const, folds, index, load, op, select, substitute_all, tensor


def as_fold(t: T) -> T:
    """y[j] = fold over u, from base[j], of combine(acc, body(u)) where target(u) = j, else acc: the whole domain for each j."""
    named = axes(t.domain)

    def body(*j: Ix) -> E:
        def level(k: int, acc: E, u: tuple[Ix, ...]) -> E:
            if k < len(t.domain):
                return folds(t.domain[k], (acc,), lambda a, r: level(k + 1, a, (*u, r)))[0]
            value, *at = substitute_all((t.body, *map(index, t.indices)), dict(zip(named, u, strict=True)))
            here = const(True, dt.bool_)
            for a, b in zip(at, j, strict=True):
                here = here & op("eq", a, index(b))
            return select(here, value if t.combine is None else op(t.combine, acc, value), acc)

        return level(0, load(t.base, *j), ())

    return tensor(t.shape, body)
