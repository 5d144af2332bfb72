"""Rebuilding a program tensor by tensor: the one walk that every transformation of programs uses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from assay.core import dtypes as dt
from assay.core.index import Ix, below
from assay.core.lang import (
    E,
    Program,
    T,
    axes,
    const,
    index,
    load_as,
    op,
    order,
    program,
    rewrite_tensor,
    select,
    substitute,
)


def inline_load(t: T, idx: tuple[Ix, ...], how: str) -> E:
    """The value of t[idx] by the body of the let `t`; outside the domain 0 for a load_or_zero."""
    value = substitute(t.body, dict(zip(axes(t.shape), idx, strict=True)))
    if how == "load":
        return value
    for i, n in zip(idx, t.shape, strict=True):
        if i.lo < 0:
            value = select(op("le", const(0, dt.i64), index(i)), value, const(0, t.dtype))
        if not below(i, n):
            value = select(op("lt", index(i), const(n, dt.i64)), value, const(0, t.dtype))
    return value


def rewrite(p: Program, *, inlined: Callable[[T, T], bool], replace: Callable[[T], T] = lambda t: t) -> Program:
    """The program in which lets are substituted into their readers, and replace(t) stands for each rewritten tensor t.

    inlined(source, made) is asked once of each let: as it is in `p`, and as it became when everything that it reads
    was rewritten.  Outputs, effects and what a scatter or an extern names whole are kept whatever it says.
    """
    new: dict[T, T] = {}
    gone: set[T] = set()
    whole = must_realise(p)

    def on_load(t: T, idx: tuple[Ix, ...], how: str) -> E | None:
        made = new[t]
        if t in gone:
            return inline_load(made, idx, how)
        return None if made is t else load_as(how, made, *idx)

    for t in order(p.roots):
        touched = any(r in gone or new[r] is not r for r in t.reads)
        made = new[t] = replace(rewrite_tensor(t, on_load, new.__getitem__) if touched else t)
        if made.kind == "let" and t not in whole and inlined(t, made):
            gone.add(t)
    return program(p.inputs, [new[t] for t in p.outputs], checks(p, new), p.name, p.guards)


def checks(p: Program, new: Mapping[T, T]) -> list[T]:
    """What became of the checks of `p`, in their order.  All are listed as effects: what read one may not any more."""
    made = (new.get(t, t) for t in p.checks)
    return [t for t in made if t.kind == "require"]


def must_realise(p: Program) -> set[T]:
    """The tensors that exist as buffers whatever is decided: outputs, effects, and what is named whole."""
    whole = set(p.roots)
    for t in p.tensors:
        if t.kind == "scatter":
            whole.add(t.base)
        elif t.kind == "extern":
            whole.update(t.args)
    return whole


def readers(p: Program) -> dict[T, list[T]]:
    """For each tensor, the tensors that read it."""
    found: dict[T, list[T]] = {t: [] for t in order(p.roots)}
    for t in p.tensors:
        for read in t.reads:
            found[read].append(t)
    return found


def put_for(tensors: Sequence[T], given: Mapping[T, T]) -> list[T]:
    """The tensors with those of `given` (inputs, or definitions) replaced, all the way down."""
    new = dict(given)

    def on_load(t: T, idx: tuple[Ix, ...], how: str) -> E:
        return load_as(how, new[t], *idx)

    todo = [(t, False) for t in reversed(tensors)]
    while todo:
        t, ready = todo.pop()
        if ready:
            new[t] = rewrite_tensor(t, on_load, new.__getitem__)
        elif t not in new:
            todo.append((t, True))
            todo.extend((r, False) for r in t.reads if r not in new)
    return [new[t] for t in tensors]
