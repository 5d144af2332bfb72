"""Carrying cotangents from expressions to the loads they depend on, inside one definition.

    push([(y, c)], ...)     for y = f(x[g(i)], ...):  emit(x[g(i)], df/dx c) for each load

Nodes are visited in reverse creation order, which is a reverse topological order (core/lang: arguments are created before users).
Folds are in fold_adjoint.py.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from assay.core.dtypes import compute_dtype
from assay.core.index import Var
from assay.core.lang import LOADS, E, T, convert
from assay.core.row import Where
from assay.semantics.tangent import linear_maps
from assay.transforms.cotangent import Cotangent, plus

Emit: TypeAlias = "Callable[[E, Cotangent, tuple[Var, ...]], None]"
_CONSTANT = ("const", "idx", "bitcast")


class NotClosed(Exception):
    """A fold inside another has no cotangent that is one expression an iteration."""


@dataclass(frozen=True)
class Frame:
    """Where a cotangent is carried.

    scope     the variables around: a contribution is summed over all their values
    loops     those of them that are of folds, whose accumulators may occur
    active    the tensors that a derivative is wanted of, or that depend on one
    stores    whether tensors may be made (states of folds, one for each setting of the scope)
    closed    whether a fold without a closed form is refused (NotClosed)
    stored    expressions whose value is an element of a tensor, and that element
    fused     results of folds that were run again with further accumulators, and those results of that fold
    """

    scope: tuple[Var, ...]
    active: frozenset[T]
    loops: frozenset[Var] = frozenset()
    stores: bool = True
    closed: bool = False
    stored: Mapping[E, E] = field(default_factory=dict[E, E])
    fused: dict[E, E] = field(default_factory=dict[E, E])

    def inside(self, v: Var, **changed: Any) -> Frame:
        """The frame of a step of the fold over `v`."""
        return replace(self, scope=(*self.scope, v), loops=self.loops | {v}, **changed)


def push(roots: Iterable[tuple[E, Cotangent]], frame: Frame, emit: Emit, within: Var | None = None) -> dict[E, Cotangent]:
    """Tell `emit` the cotangent of each load that the roots depend on.

    Returns the cotangents of accumulators and, with `within`, of the nodes that do not depend on that variable, which are not
    looked into.  Raises NotClosed.
    """
    from assay.transforms.fold_adjoint import adjoint_of_fold

    found: dict[E, Cotangent] = {}
    outer: dict[E, Cotangent] = {}
    results: dict[E, dict[int, Cotangent]] = {}
    waiting: list[tuple[int, E]] = []
    known: set[E] = set()

    def wait(e: E) -> None:
        if e not in known:
            known.add(e)
            heapq.heappush(waiting, (-e.id, e))

    def give(e: E, c: Cotangent) -> None:
        if not e.dtype.is_float or e.op in _CONSTANT or c.is_zero:
            return
        if e.reads.isdisjoint(frame.active) and e.free.isdisjoint(frame.loops):
            return
        if e.op == "acc" or (within is not None and within not in e.free):
            outer[e] = plus(outer.get(e), c)
        elif e.op in ("fold", "proj"):
            node, k = (e, 0) if e.op == "fold" else (e.args[0], e.attr)
            final = results.setdefault(node, {})
            final[k] = plus(final.get(k), c)
            wait(node)
        else:
            found[e] = plus(found.get(e), c)
            wait(e)

    for e, c in roots:
        give(e, c)
    while waiting:
        e = heapq.heappop(waiting)[1]
        if e.op == "fold":
            for x, c in adjoint_of_fold(e, results[e], frame, emit):
                give(x, c)
            continue
        c = found[e]
        if e.op in LOADS:
            emit(e, c, frame.scope)
        elif e.op == "convert":
            x = e.args[0]
            if x.dtype.is_float:
                give(x, c.valued(convert(c.value, compute_dtype(x.dtype))))
        else:
            for x, m in zip(e.args, linear_maps(e, frame.stored.get(e, e)), strict=True):
                if m is not None and x.dtype.is_float:
                    give(x, c.under(m.condition) if isinstance(m, Where) else c.valued(m(c.value)))
    return outer
