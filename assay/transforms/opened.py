"""Folds opened for differentiation: their steps over a fresh variable, their states as tensors, sums over their loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from assay.core.index import Ix, Var, ix
from assay.core.lang import E, T, axes, fold_results, let, load, own_accumulators, scan, substitute
from assay.transforms.accumulate import summed
from assay.transforms.cotangent import Cotangent

Given: TypeAlias = "Sequence[tuple[E, Cotangent]]"
AtState: TypeAlias = "Callable[[Ix], E]"


@dataclass
class Opened:
    """A fold over the fresh variable `v`: inits, steps, and the accumulators that the steps refer to."""

    v: Var
    inits: tuple[E, ...]
    steps: tuple[E, ...]
    accs: tuple[E, ...]

    def owns(self, e: E) -> bool:
        """Whether `e` reads one of its accumulators."""
        return bool(own_accumulators(self.v, (e,)))



def summed_over(v: Var, c: Cotangent) -> Cotangent:
    """The sum over the values of `v`."""
    return Cotangent((), summed([v], c.guards, c.value))


@dataclass(frozen=True)
class Table:
    """The states of one accumulator over the variables `used`."""

    tensor: T
    used: tuple[Var, ...]


def all_states(scope: Sequence[Var], f: Opened, wanted: Sequence[int]) -> list[Table]:
    """All states of the accumulators `wanted`, for each setting of the variables of the scope that they depend on."""
    results = fold_results(f.v, f.inits, f.steps, wanted)
    made: list[Table] = []
    for e in results:
        used = tuple(v for v in scope if v in e.free)
        shape = [v.n for v in used]
        node, k = (e.args[0], e.attr) if e.op == "proj" else (e, 0)
        moved = substitute(node, {v: ix(w) for v, w in zip(used, axes(shape), strict=True)})
        made.append(Table(scan(shape, moved, k, len(shape)), used))
    return made


def element(table: Table, state: Ix) -> E:
    """The accumulator in this state."""
    return load(table.tensor, *table.used, state)


def tabulated(e: E, scope: Sequence[Var]) -> E:
    """The value of `e` as an element of a tensor that has one for each setting of the variables it depends on."""
    used = [v for v in scope if v in e.free]
    shape = [v.n for v in used]
    body = substitute(e, {v: ix(w) for v, w in zip(used, axes(shape), strict=True)})
    return load(let(shape, body), *used)
