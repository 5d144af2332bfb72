"""Reads and writes of a tensor: which elements, in which steps, how often.  The reading that loop merging and layout ask for.

    c[i:8,j:4] = fold(k:16) fma(a[i,k], b[k,j], acc)

    write c    4*i + j       8*4 times       i 4, j 1
    read  a    16*i + k      8*4*16 times    i 16, k 1
    read  b    4*k + j       8*4*16 times    k 4, j 1

Counted as by the loop nest in row-major order (the axes, inside them the folds) that computes what is equal once and
everything in the outermost loops that suffice: b[j] is read 8*4 times by x[i,j] + b[j], x[i,0] 8 times.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from assay.core.index import Ix, Var, affine, ix
from assay.core.lang import LOADS, E, T, axes, bodies
from assay.core.text import domain
from assay.semantics.tape import fold_of, reachable

Loops: TypeAlias = tuple[Var, ...]


@dataclass(frozen=True)
class Access:
    """Elements `address` (flat, row-major) of `tensor`, read or written `count` times in all.

    `strides` holds the step of each variable that moves the address by a fixed one.  `is_affine` when there is nothing else:
    no division, no value read from data.  `may_miss`: a load that gives 0 outside.
    """

    kind: str
    tensor: T
    address: Ix
    count: int
    strides: tuple[tuple[Var, int], ...]
    is_affine: bool
    may_miss: bool

    def stride(self, v: Var) -> int | None:
        """Elements that one step of `v` moves the address by: 0 where it does not depend on v, None where it varies."""
        if v not in self.address.free:
            return 0
        return dict(self.strides).get(v)

    def is_contiguous(self, v: Var) -> bool:
        """Whether neighbouring values of `v` are neighbouring elements."""
        return self.stride(v) == 1

    @property
    def bytes(self) -> int:
        """Bytes that all of them move."""
        return self.count * self.tensor.dtype.itemsize


def row_major(shape: Sequence[int], indices: Sequence[Ix]) -> Ix:
    """The number of the element at `indices` of a tensor of this shape, counted in row-major order."""
    stride, parts = 1, list[tuple[int, Ix]]()
    for n, i in zip(reversed(shape), reversed(indices), strict=True):
        parts.append((stride, i))
        stride *= n
    return affine(parts)


def times(loops: Loops) -> int:
    """How often the innermost of the loops runs its body."""
    return math.prod(v.n for v in loops)


@cache
def accesses(t: T) -> tuple[Access, ...]:
    """The accesses of a definition: its writes, then the reads in the order of evaluation.  Inputs have none."""
    found = [_write(t)] if t.kind != "input" else []
    found += [Access("read", a, ix(0), a.size, (), is_affine=False, may_miss=False) for a in _whole(t)]
    for e, loops in evaluations(t):
        if e.op in LOADS:
            tensor, idx = e.attr
            found.append(_access("read", tensor, row_major(tensor.shape, idx), times(loops), may_miss=e.op == "load_or_zero"))
    return tuple(found)


def evaluations(t: T) -> Iterator[tuple[E, Loops]]:
    """Each expression node of a definition with the loops around it, outermost first."""
    every = axes(domain(t))
    for e in reachable(bodies(t), lambda e: False):
        depth = max((k + 1 for k, v in enumerate(every) if v in e.free), default=0)
        yield from _visit(e, every[:depth])


def _visit(e: E, loops: Loops) -> Iterator[tuple[E, Loops]]:
    yield e, loops
    if e.op == "fold":
        f = fold_of(e)
        for i in (*f.parts_tape, *f.carried_tape):
            yield from _visit(i.node, (*loops, f.variable))


def _write(t: T) -> Access:
    if t.kind == "scatter":
        return _access("write", t, row_major(t.shape, t.indices), math.prod(t.domain), may_miss=False)
    return _access("write", t, row_major(t.shape, [ix(v) for v in axes(t.shape)]), t.size, may_miss=False)


def _whole(t: T) -> tuple[T, ...]:
    """The tensors that a definition takes as a whole."""
    return (t.base,) if t.kind == "scatter" else t.args if t.kind == "extern" else ()


def _access(kind: str, t: T, address: Ix, count: int, *, may_miss: bool) -> Access:
    moving = {v for a, _ in address.terms if not isinstance(a, Var) for v in a.free}
    strides = tuple((a, k) for a, k in address.terms if isinstance(a, Var) and a not in moving)
    affine_ = all(isinstance(a, Var) for a, _ in address.terms)
    return Access(kind, t, address, count, strides, is_affine=affine_, may_miss=may_miss)
