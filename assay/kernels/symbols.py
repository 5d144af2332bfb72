"""What values are made of in the symbolic domain, and what a run records.

An integer is a Poly, a condition a Cond, a pointer an element of a tensor; each carries the operations that it
depends on (`Fits`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from assay.kernels import terms as tm
from assay.kernels.arguments import Tensor
from assay.kernels.operators import BlockPointer, Value
from assay.kernels.terms import Cond, Leaf, Poly, Substitution
from assay.kernels.types import Type


@dataclass(frozen=True)
class Fits:
    """A machine operation: its mathematical value `term` must fit `type` wherever `path` holds."""

    node: ast.AST = field(compare=False, hash=False)
    line: int
    column: int
    type: Type
    term: Poly
    path: tuple[Cond, ...]


def in_order(needs: Iterable[Fits]) -> list[Fits]:
    """In the order of the source, operands before what is made of them."""
    return sorted(
        needs,
        key=lambda f: (f.line, f.column, getattr(f.node, "end_lineno", 0), getattr(f.node, "end_col_offset", 0), f.term.number),
    )


@dataclass(frozen=True)
class Sym:
    """The data of a value: a Poly, a Cond, or None for a float; `needs` must all fit for it to be what the machine computes."""

    term: Any
    needs: frozenset[Fits] = frozenset()


@dataclass(frozen=True)
class Address:
    """The data of a pointer: an element of a tensor."""

    tensor: Tensor
    term: Poly
    needs: frozenset[Fits] = frozenset()


@dataclass(frozen=True)
class Access:
    """A load, store or atomic: the offset of every lane, where the mask and the path hold."""

    kind: str
    node: ast.AST
    calls: tuple[int, ...]
    tensor: Tensor
    shape: tuple[int, ...]
    offset: Sym
    mask: Sym | None
    path: tuple[Cond, ...]
    path_needs: frozenset[Fits]
    times: tuple[Leaf, ...]
    value: Sym | None = None


@dataclass(frozen=True)
class Hint:
    """Something that the kernel promises the compiler."""

    kind: str
    node: ast.AST
    goal: Cond
    path: tuple[Cond, ...]


def lane(axis: int, n: int) -> Poly:
    """The index along an axis of length n."""
    return tm.leaf(f"lane{axis}", 0, n - 1, "lane")


def leaf_of(p: Poly) -> Leaf:
    found = p.atoms[0]
    assert isinstance(found, Leaf)
    return found


def substituted(needs: frozenset[Fits], s: Substitution) -> frozenset[Fits]:
    return frozenset(replace(f, term=s.poly(f.term), path=tuple(s.cond(c) for c in f.path)) for f in needs)


def parts_of(v: Any) -> list[tuple[Poly, tuple[int, ...]]]:
    """The integers that a value is made of, with their shapes: what an induction over iterations speaks of."""
    if isinstance(v, BlockPointer):
        return [p for x in (v.base, *v.shape, *v.strides, *v.offsets) for p in parts_of(x)]
    if isinstance(v, tuple):
        return [p for x in v for p in parts_of(x)]
    if not isinstance(v, Value) or v.data.term is None:
        return []
    return [(tm.as_integer(v.data.term) if isinstance(v.data.term, Cond) else v.data.term, v.shape)]


def with_parts(v: Any, parts: list[Poly]) -> Any:
    """The same value made of other integers."""
    if isinstance(v, BlockPointer):
        values = [v.base, *v.shape, *v.strides, *v.offsets]
        made = [with_parts(x, [p]) for x, p in zip(values, parts, strict=True)]
        r = len(v.block)
        return replace(
            v,
            base=made[0],
            shape=tuple(made[1 : 1 + r]),
            strides=tuple(made[1 + r : 1 + 2 * r]),
            offsets=tuple(made[1 + 2 * r :]),
        )
    if isinstance(v, tuple):
        made_items, k = [], 0
        for x in v:
            n = len(parts_of(x))
            made_items.append(with_parts(x, parts[k : k + n]))
            k += n
        return tuple(made_items)
    if not isinstance(v, Value) or v.data.term is None:
        return v
    term = tm.negation(tm.zero(parts[0])) if isinstance(v.data.term, Cond) else parts[0]
    return replace(v, data=replace(v.data, term=term))


def all_needs(v: Any) -> frozenset[Fits]:
    if isinstance(v, BlockPointer):
        return frozenset[Fits]().union(*(all_needs(x) for x in (v.base, *v.shape, *v.strides, *v.offsets)))
    if isinstance(v, tuple):
        return frozenset[Fits]().union(*(all_needs(x) for x in v))
    return v.data.needs if isinstance(v, Value) else frozenset()


def with_needs(v: Any, needs: frozenset[Fits]) -> Any:
    if isinstance(v, BlockPointer):
        return replace(v, base=with_needs(v.base, needs))
    if isinstance(v, tuple):
        return tuple(with_needs(x, needs) for x in v)
    if not isinstance(v, Value) or v.data.term is None:
        return v
    return replace(v, data=replace(v.data, needs=v.data.needs | needs))
