"""What a gradient goes to: the inputs that an output depends on, as derivatives see it.

through_floats(p)     for each output of a program, the float inputs that it reads, but for what is read below a `stop` only
"""

from __future__ import annotations

from functools import cache

from assay.core.lang import LOADS, E, Program, T, bodies, order

Dependences = tuple[frozenset[int], ...]
"""For each output, the numbers of the inputs that a gradient of it goes to."""

NOTHING: frozenset[int] = frozenset()


def through_floats(p: Program) -> Dependences:
    """For each output, the float inputs that it depends on through floats."""
    known = {t: frozenset((k,)) for k, t in enumerate(p.inputs) if t.dtype.is_float}
    for t in order(p.outputs):
        if t not in known and t.dtype.is_float:
            known[t] = NOTHING.union(*(known.get(r, NOTHING) for r in _sources(t)))
    return tuple(known.get(t, NOTHING) for t in p.outputs)


@cache
def _sources(t: T) -> frozenset[T]:
    """What the definition reads, but for what it reads below a `stop` only."""
    found = {t.base} if t.kind == "scatter" else set(t.args) if t.kind == "extern" else set[T]()
    todo, seen = list(bodies(t)), set[E]()
    while todo:
        e = todo.pop()
        if e in seen or e.op == "stop" or found >= t.reads:
            continue
        seen.add(e)
        if e.op == "as_if":
            todo.append(e.args[1])
            continue
        if e.op in LOADS:
            found.add(e.attr[0])
        todo += e.deps
    return frozenset(found)
