"""Folds that choose: max, min, argmax, pooling.  What was taken last has the cotangent of the result.

    m = fold(k:n; a=-inf) max(a, x[k])    at = the last k where x[k] was taken; -1: none
                                          x[at] += cotangent of m, where 0 <= at

A step keeps its accumulator under some conditions and takes something else where they fail.  The fold is run again with the index
of the last take; in nested folds that index and the inner one make one number, the position in row-major order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from assay.core import dtypes as dt
from assay.core.index import Ix, Val, Var, fresh, ix, rewrite
from assay.core.lang import (
    LOADS,
    E,
    acc,
    as_index,
    const,
    fold_results,
    index,
    load_as,
    op,
    own_accumulators,
    proj,
    rebuild,
    substitute_all,
    walk,
)
from assay.core.mathlib.slopes import negation
from assay.transforms.cotangent import Cotangent, choice, conjunction, conjuncts
from assay.transforms.opened import AtState, Given, Opened, all_states, element, summed_over, tabulated
from assay.transforms.push import Emit, Frame, NotClosed, push

Emitted = tuple[E, Cotangent, tuple[Var, ...]]
LARGEST_CODE = 1 << 62
CONDITIONS = ("lt", "le", "eq", "ne", "and", "or", "not")


@dataclass(frozen=True)
class Take:
    """Accumulator `k` keeps its value where all of `kept` hold, and what is emitted is emitted only where one of them fails."""

    f: Opened
    k: int
    kept: tuple[E, ...]
    emitted: tuple[Emitted, ...]
    outer: tuple[tuple[E, Cotangent], ...]

    @property
    def condition(self) -> E:
        """Whether it keeps its value."""
        return conjunction(self.kept)

    @property
    def ways(self) -> list[set[E]]:
        """Sets of conditions; it takes where all of one of them hold."""
        return [set(conjuncts(negation(g))) for g in self.kept]

    def implied(self, guards: Sequence[E]) -> set[E]:
        """Those of the guards that say that it takes; none, where they do not say it."""
        return set[E]().union(*(way for way in self.ways if way <= set(guards)))

    def rest(self, guards: Sequence[E]) -> list[E]:
        """The guards but those; of these too what reads no accumulator, because it proves bounds."""
        implied = self.implied(guards)
        return [g for g in guards if g not in implied or not self.f.owns(g)]

    def read_off(self) -> list[E]:
        """The expressions that read accumulators of the loop in conditions, and as values that indices of loads are made of."""
        cotangents = [c for _, c, _ in self.emitted] + [c for _, c in self.outer]
        todo = [g for c in cotangents for g in self.rest(c.guards)] + [index(i) for e, _, _ in self.emitted for i in e.attr[1]]
        found: dict[E, None] = {}
        seen: set[E] = set()
        while todo:
            e = todo.pop()
            if e not in seen and self.f.owns(e):
                seen.add(e)
                if e.op == "idx" or (e.op in CONDITIONS and not e.args[0].dtype.is_float):
                    todo.extend(e.deps)
                else:
                    found[e] = None
        return list(found)


def _take(f: Opened, k: int, c: Cotangent, frame: Frame) -> Take | None:
    """How accumulator k chooses, or None: its step is no choice between keeping and taking."""
    emitted: list[Emitted] = []
    try:
        outer = push([(f.steps[k], c)], frame.inside(f.v, closed=True), lambda *x: emitted.append(x), f.v)
    except NotClosed:
        return None
    mine = outer.pop(f.accs[k], None)
    if mine is None or mine.value is not c.value or mine.guards[: len(c.guards)] != c.guards:
        return None
    kept = mine.guards[len(c.guards) :]
    if not kept or any(a.op == "acc" and a.attr[0] is f.v for a in outer):
        return None
    take = Take(f, k, kept, tuple(emitted), tuple(outer.items()))
    every = [x for _, x, _ in emitted] + list(outer.values())
    return None if any(not take.implied(x.guards) or f.owns(x.value) for x in every) else take


class Note:
    """What is remembered of the last take: its iteration and, of each expression that reads accumulators, the value it then had.

    Integers are digits of one number, of which the iteration is the first.
    """

    def __init__(self, take: Take) -> None:
        self.take = take
        read = take.read_off()
        sure = set[E]().union(*take.ways)
        ranges = {e: (max(e.lo, 0) if op("le", const(0, e.dtype), e) in sure else e.lo, e.hi) for e in read if e.dtype.is_integer}
        if math.prod(hi - lo + 1 for lo, hi in ranges.values()) * take.f.v.n > LARGEST_CODE:
            ranges = {}
        self.digits = ranges
        self.others = [e for e in read if e not in ranges]

    @property
    def values(self) -> list[E]:
        """What the further accumulators are set to at a take."""
        code = ix(self.take.f.v)
        for e, (lo, hi) in self.digits.items():
            code = code * (hi - lo + 1) + as_index(e) - lo
        return [index(code), *self.others]

    def read(self, found: Sequence[E]) -> tuple[Ix, dict[E, E]]:
        """(the iteration, the expressions' values), of what the further accumulators hold."""
        code = as_index(found[0])
        known = dict(zip(self.others, found[1:], strict=True))
        for e, (lo, hi) in reversed(self.digits.items()):
            known[e] = index(code % (hi - lo + 1) + lo, e.dtype)
            code = code // (hi - lo + 1)
        return code, known


def _noted(f: Opened, takes: Sequence[Take], fused: Mapping[E, E]) -> tuple[Opened, list[Note], list[range]]:
    """The fold with further accumulators, and which of them belong to each of `takes`; -1 and 0 where nothing was taken."""
    inits, steps, accs = list(f.inits), list(replaced_nodes(f.steps, fused)), list(f.accs)
    notes, places = [Note(t) for t in takes], list[range]()
    for note in notes:
        places.append(range(len(inits), len(inits) + len(note.values)))
        kept, *values = replaced_nodes((note.take.condition, *note.values), fused)
        for n, e in enumerate(values):
            a = acc(f.v, len(inits), e.dtype)
            inits.append(const(0 if n else -1, e.dtype))
            accs.append(a)
            steps.append(choice(kept, a, e))
    return Opened(f.v, tuple(inits), tuple(steps), tuple(accs)), notes, places


def selection(f: Opened, node: E, final: Mapping[int, Cotangent], frame: Frame, emit: Emit) -> Given | None:
    """The cotangents of a fold whose accumulators choose; None where one does not."""
    takes: list[Take] = []
    for k, c in final.items():
        take = _take(f, k, c, frame)
        if take is None:
            return None
        takes.append(take)
    full, notes, places = _noted(f, takes, frame.fused)
    given: list[tuple[E, Cotangent]] = []
    for note, place in zip(notes, places, strict=True):
        k = note.take.k
        value, *found = fold_results(full.v, full.inits, full.steps, (k, *place))
        frame.fused[proj(node, k)] = value
        if not any(own_accumulators(v, tuple(found)) for v in frame.loops):
            found = [tabulated(e, frame.scope) for e in found]
        given += _emitted(note, found, frame.scope, emit)
        given.append((f.inits[k], final[k].under(negation(_took(found[0])))))
    return given


def selected_states(f: Opened, states: Mapping[int, AtState], frame: Frame, emit: Emit) -> Given | None:
    """As `selection`, for the cotangents of every state: each state has a last take."""
    s = fresh(f.v.n + 1)
    around = replace(frame, scope=(*frame.scope, s))
    takes: list[Take] = []
    for k, at_state in states.items():
        take = _take(f, k, Cotangent((), at_state(ix(s))), around)
        if take is None:
            return None
        takes.append(take)
    full, notes, places = _noted(f, takes, frame.fused)
    given: list[tuple[E, Cotangent]] = []
    for note, place in zip(notes, places, strict=True):
        k = note.take.k
        found = [element(table, ix(s)) for table in all_states(frame.scope, full, place)]
        given += [(e, summed_over(s, c)) for e, c in _emitted(note, found, around.scope, emit)]
        given.append((f.inits[k], summed_over(s, Cotangent((), states[k](ix(s))).under(negation(_took(found[0]))))))
    return given


def _took(code: E) -> E:
    return op("le", const(0, dt.i64), code)


def _emitted(note: Note, found: Sequence[E], scope: tuple[Var, ...], emit: Emit) -> Given:
    """Emit what was taken last, where something was; return what nodes outside of the loop get from it."""
    take = note.take
    last, known = note.read(found)

    def then(es: Sequence[E]) -> tuple[E, ...]:
        """The expressions as they were at that iteration."""
        return substitute_all(replaced_nodes(es, known), {take.f.v: last})

    def cotangent(c: Cotangent) -> Cotangent:
        value, *guards = then((c.value, *take.rest(c.guards)))
        return Cotangent((), value).under(_took(found[0]), *guards)

    for e, c, around in take.emitted:
        t, at = e.attr
        moved = then([index(i) for i in at])
        emit(load_as(e.op, t, *moved), cotangent(c), tuple(w for w in around if w is not take.f.v))
    return [(e, cotangent(c)) for e, c in take.outer]


def replaced_nodes(es: Sequence[E], known: Mapping[E, E]) -> tuple[E, ...]:
    """The expressions with the nodes in `known` replaced, also as values of indices; what stands inside of folds stays."""
    if not known:
        return tuple(es)
    made = dict(known)

    def moved(i: Ix) -> Ix:
        return rewrite(i, lambda a: as_index(made.get(a.e, a.e)) if isinstance(a, Val) else ix(a))

    for e in walk(es):
        if e in made or e.op == "fold" or all(d not in made for d in e.deps):
            continue
        if e.op == "idx":
            made[e] = index(moved(e.attr), e.dtype)
        elif e.op in LOADS:
            t, at = e.attr
            made[e] = load_as(e.op, t, *map(moved, at))
        else:
            made[e] = rebuild(e, tuple(made.get(a, a) for a in e.args))
    return tuple(made.get(e, e) for e in es)
