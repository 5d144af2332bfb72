"""Equality of folds: step by step, through a flat position, or as one sum of the same terms in another grouping.

    fold(k:64) f(k)          and  fold(p:4) fold(q:16) f(16*p + q), one accumulator: one position, no law
    fold(k:1024) max(acc, x[k])   and  a tree over 8 folds of x[8*k + l]: the same terms, by associativity, commutativity, units

The last needs laws of the function.  They hold bit for bit for some functions and types (Monoid.is_exact); otherwise they
must be among the laws that the contract of the transformation names.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from assay.core.index import Div, Ix, Val, Var, affine, evaluate, is_symbolic, ix, same_shape, variable
from assay.core.lang import LOADS, E, accumulators, const, own_accumulators, substitute, substitute_all
from assay.core.lang import acc as accumulator
from assay.core.row import MARKS, TABLE, Monoid
from assay.verify.context import Context
from assay.verify.equal import Comparator, is_view, loop_variable, steps_at
from assay.verify.questions import EQUAL, Answer, Law, Laws, Mismatch, Pair, Rule

DEEPEST = 64  # folds in one another, of a sum that is regrouped
LANES = 64  # parts of a fold that may be interleaved
POSITIONS = 1 << 22  # of a regrouped fold, that are looked at one by one


def folds(q: Comparator, a: E, b: E, c: Context) -> Rule:
    """Two fold nodes, all their accumulators."""
    answer: Answer = Mismatch("folds of different lengths", a, b, c)
    if len(a.args) == len(b.args) and same_shape((a.attr.n,), (b.attr.n,)):
        answer = yield from states(q, a, b, c)
        if not isinstance(answer, Mismatch):
            return answer
    else:
        flat = yield from _flat(q, a, b, c)
        if not isinstance(flat, Mismatch):
            return flat
    return (yield from regrouped(q, a, b, c, answer))


def states(q: Comparator, a: E, b: E, c: Context) -> Rule:
    """Two folds of as many steps and accumulators: the same before and after each step, which no law of a sum gives."""
    if len(a.args) != len(b.args) or not same_shape((a.attr.n,), (b.attr.n,)):
        return Mismatch("folds of different lengths", a, b, c)
    answer = yield from _step_by_step(q, a, b, c)
    if not isinstance(answer, Mismatch):
        return answer
    flat = yield from _flat(q, a, b, c)  # so many of its states lie between two of the outer loop, in both
    return answer if isinstance(flat, Mismatch) else flat


def _flat(q: Comparator, a: E, b: E, c: Context) -> Rule:
    flat_a, flat_b = Flat.of(a), Flat.of(b)
    if (len(flat_a.loops) > 1 or len(flat_b.loops) > 1) and same_shape((flat_a.length,), (flat_b.length,)):
        return (yield from _by_position(q, flat_a, flat_b, c))
    return Mismatch("they are no folds over as many positions", a, b, c)


def _step_by_step(q: Comparator, a: E, b: E, c: Context) -> Rule:
    half = len(a.args) // 2
    first = yield from q.each(zip(a.args[:half], b.args[:half], strict=True), c)
    if isinstance(first, Mismatch):
        return first
    v = loop_variable(a, b, c, a.attr.n)
    pairs = zip(accumulators(a), accumulators(b), strict=True)
    bounds = tuple((max(x.lo, y.lo), min(x.hi, y.hi)) for x, y in pairs)  # both hold, as the states are equal so far
    then = yield from q.each(zip(steps_at(a, v, bounds), steps_at(b, v, bounds), strict=True), c)
    return then if isinstance(then, Mismatch) else first | then


# ------------------------------------------------------------------------------------------------ one position


class Flat(NamedTuple):
    """A nest of folds that hands one set of accumulators through all its loops: a fold over the positions of their box."""

    loops: tuple[Var, ...]
    inits: tuple[E, ...]
    steps: tuple[E, ...]
    accs: tuple[E, ...]

    @property
    def length(self) -> int:
        return math.prod(v.n for v in self.loops)

    @staticmethod
    def of(node: E) -> Flat:
        half = len(node.args) // 2
        loops: list[Var] = [node.attr]
        steps, accs = node.args[half:], accumulators(node)
        while True:
            inner = steps[0].args[0] if steps[0].op == "proj" else steps[0]
            whole = inner.op == "fold" and len(inner.args) == 2 * half and inner.args[:half] == accs
            handed = half == 1 or all(s.op == "proj" and s.args[0] is inner and s.attr == k for k, s in enumerate(steps))
            if not whole or not handed or own_accumulators(loops[-1], inner.args[half:]):
                return Flat(tuple(loops), node.args[:half], steps, accs)
            loops.append(inner.attr)
            steps, accs = inner.args[half:], accumulators(inner)

    def at(self, p: Var, bounds: Sequence[tuple[int, int]]) -> tuple[E, ...]:
        """The steps at position `p`."""
        env: dict[Var | E, Ix | E] = {**digits(self.loops, ix(p))}
        env.update((a, accumulator(p, k, a.dtype, bounds[k])) for k, a in enumerate(self.accs))
        return substitute_all(self.steps, env)


def digits(loops: Sequence[Var], p: Ix) -> dict[Var, Ix]:
    """The loops' indices at the position `p` of their box."""
    stride = math.prod(v.n for v in loops)
    found: dict[Var, Ix] = {}
    for v in loops:
        stride //= v.n
        found[v] = p // stride % v.n
    return found


def _by_position(q: Comparator, a: Flat, b: Flat, c: Context) -> Rule:
    if len(a.inits) != len(b.inits):
        return Mismatch("folds of different accumulators")
    first = yield from q.each(zip(a.inits, b.inits, strict=True), c)
    if isinstance(first, Mismatch):
        return first
    level = max(v.level for v in (*a.loops, *b.loops))
    while (p := variable(level, a.length)) in c.free:
        level += 1
    bounds = tuple((max(x.lo, y.lo), min(x.hi, y.hi)) for x, y in zip(a.accs, b.accs, strict=True))
    then = yield from q.each(zip(a.at(p, bounds), b.at(p, bounds), strict=True), c)
    return then if isinstance(then, Mismatch) else first | then


# ------------------------------------------------------------------------------------------------ other groupings


class Terms(NamedTuple):
    """`term` for each position of the box of `loops`, in row-major order."""

    loops: tuple[Var, ...]
    term: E

    @property
    def size(self) -> int:
        return math.prod(v.n for v in self.loops)


def monoid_of(e: E) -> str | None:
    """The function of a monoid whose sum `e` is: a row, or a fold whose step is that row of the accumulator and a term."""
    if e.op == "fold":
        if len(e.args) != 2:
            return None
        step, own = e.args[1], accumulators(e)[0]
        return step.op if _is_monoid(step.op) and step.args[0] is own and not own_accumulators(e.attr, step.args[1:]) else None
    return e.op if _is_monoid(e.op) else None


def _is_monoid(name: str) -> bool:
    return name in TABLE and isinstance(TABLE[name].monoid, Monoid) and TABLE[name].arity == 2


def regrouped(q: Comparator, a: E, b: E, c: Context, why: Answer) -> Rule:
    """Two sums of the same terms, grouped or ordered otherwise; `why` is the answer where they are none."""
    name = monoid_of(a) or monoid_of(b)
    if name is None or (monoid_of(a) or name) != name or (monoid_of(b) or name) != name:
        return why
    monoid = TABLE[name].monoid
    assert isinstance(monoid, Monoid)
    exact = monoid.is_exact(a.dtype)
    if not exact and "assoc" not in q.allowed:
        return why
    units = {const(monoid.neutral(a.dtype), a.dtype)}
    if not exact and "unit" in q.allowed:
        units.add(const(monoid.neutral(a.dtype) + 0, a.dtype))  # +0, which over the reals is as good as -0
    level = 1 + max((v.level for v in (*a.free, *b.free, *c.free)), default=-1)
    gather = _Gather(q, name, units, c)
    mine, yours = gather.terms(a, level), gather.terms(b, level + DEEPEST)  # no loop has the name of one of the other side
    if len(mine) == len(yours) == 1 and not mine[0].loops and not yours[0].loops:
        return why
    if any(is_symbolic(v.n) for terms in (*mine, *yours) for v in terms.loops):  # positions are counted, which needs numbers
        return why
    if len(mine) < len(yours):
        found = yield from _same_terms(q, mine, yours, c, turned=True)
    else:
        found = yield from _same_terms(q, yours, mine, c, turned=False)
    if isinstance(found, Mismatch):
        return found
    laws = found - {ORDERED}
    ordered = ORDERED in found and not gather.interleaved
    needed = ["assoc", *([] if ordered else ["comm"]), *(["unit"] if gather.units else [])]
    for law in needed:
        answer = q.law(law, name, a.dtype, exact=exact)
        if isinstance(answer, Mismatch):
            return answer
        laws |= answer
    return laws


ORDERED = Law("the terms stand in their order", "", "", exact=True)  # among the laws of _same_terms only


class _Gather:
    """The terms of sums of one function.

    units         neutral elements were left out
    interleaved   one loop runs through several terms: those of the first do not all stand before those of the second
    """

    def __init__(self, q: Comparator, name: str, neutral: set[E], c: Context) -> None:
        self.q, self.name, self.neutral, self.context = q, name, neutral, c
        self.units = self.interleaved = False

    def terms(self, e: E, level: int) -> list[Terms]:
        """The terms that `e` is the sum of, left to right; loops get levels from `level` on."""
        found: list[Terms] = []
        within: list[int] = []  # the outermost folds of the terms, by number
        folds = 0
        todo: list[tuple[E, tuple[Var, ...], int]] = [(e, (), 0)]
        while todo:
            x, loops, outer = todo.pop()
            if x in self.neutral:
                self.units = True
            elif x.op in LOADS and (y := self._opened(x)) is not x:
                todo.append((y, loops, outer))
            elif x.op in MARKS:
                todo.append((x.args[0], loops, outer))
            elif monoid_of(x) != self.name:
                found.append(Terms(loops, x))
                within += [outer] if loops else []
            elif x.op == "fold":
                v = variable(level + len(loops), x.attr.n)
                inner = (*loops, v)
                term = substitute(x.args[1].args[1], {x.attr: ix(v)})
                folds += 1
                todo += [(term, inner, outer if loops else folds), (x.args[0], loops, outer)]
            else:
                todo += [(x.args[1], loops, outer), (x.args[0], loops, outer)]
        self.interleaved = self.interleaved or len(within) != len(set(within))
        return found

    def _opened(self, x: E) -> E:
        """A load of a let that is itself such a sum, or a view, as its body."""
        t = x.attr[0]
        if t.kind == "let" and (is_view(t) or monoid_of(t.body) == self.name):
            body, _ = self.q.meaning(x, self.context)
            return body
        return x


def _same_terms(q: Comparator, coarse: list[Terms], fine: list[Terms], c: Context, *, turned: bool) -> Rule:
    """Each position of each of `coarse` is one position of `fine`, and the other way round; sides change where `turned`."""
    laws: Laws = EQUAL
    places = _Places(q, coarse, fine, c)
    for number in places.order():  # the same text first: what is equal as well may have to stand for another part
        same = (p for p in places.tried(number) if substitute(coarse[p.of].term, {**p.at}) is fine[number].term)
        if (place := next(same, None)) is not None:
            places.taken[number] = place
    for number in [n for n in places.order() if n not in places.taken]:
        f = fine[number]
        for place in places.tried(number):
            term = substitute(coarse[place.of].term, {**place.at})
            answer = yield Pair(term, f.term, c) if turned else Pair(f.term, term, c)
            if not isinstance(answer, Mismatch):
                laws |= answer
                places.taken[number] = place
                break
        else:
            return Mismatch("a term that the other side does not have", f.term, coarse[0].term if coarse else None, c)
    taken = [(place, fine[number]) for number, place in sorted(places.taken.items())]
    ordered = all(x.of <= y.of for (x, _), (y, _) in itertools.pairwise(taken))
    for k, g in enumerate(coarse):
        how = partition([(f.loops, place.flat) for place, f in taken if place.of == k], g.size)
        if how is None:
            return Mismatch("the terms are not each used once", g.term, None, c)
        ordered = ordered and how
    return laws | {ORDERED} if ordered else laws


class Place(NamedTuple):
    """Positions of the box of the loops of the part `of`, one for each of another part: their indices, and their numbers."""

    of: int
    at: dict[Var, Ix]
    flat: Ix


class _Places:
    """Which positions of `coarse` the parts of `fine` may be.  All of them lie in the box of the loops: elsewhere two of
    them may have one number."""

    def __init__(self, q: Comparator, coarse: list[Terms], fine: list[Terms], c: Context) -> None:
        self.q, self.coarse, self.fine, self.context = q, coarse, fine, c
        self.taken: dict[int, Place] = {}  # by the part of `fine` of this number
        self.by_indices = [list(self._solved(f)) for f in fine]

    def order(self) -> list[int]:
        """The parts whose positions can be read off come first: one that is the same everywhere takes what is left."""
        return sorted(range(len(self.fine)), key=lambda number: not self.by_indices[number])

    def tried(self, number: int) -> Iterator[Place]:
        """By the indices; in lanes where parts of its size are; next after what is taken; the last; in as many lanes as parts."""
        f = self.fine[number]
        for place in (*self.by_indices[number], *self._lanes(f)):
            if all(_apart(place.flat, f.loops, other.flat, self.fine[n].loops)
                   for n, other in self.taken.items() if other.of == place.of):  # fmt: skip
                yield place

    def _lanes(self, f: Terms) -> Iterator[Place]:
        own = row_major(f.loops, {v: ix(v) for v in f.loops})
        for k, g in enumerate(self.coarse):
            taken = {n: place.flat for n, place in self.taken.items() if place.of == k}
            alike = sum(x.size == f.size for x in self.fine)  # with the rest, which may have the size of a lane
            steps = {alike, alike - 1, *(step for flat in taken.values() for _, step in flat.terms)}
            lanes = [(lane, n) for n in sorted(steps) if 1 < n <= LANES and g.loops for lane in range(n)]
            like = {step for n, flat in taken.items() if self.fine[n].size == f.size for _, step in flat.terms}
            starts = [(sum(self.fine[n].size for n in taken), 1), (g.size - f.size, 1)]
            for first, step in (*(s for s in lanes if s[1] in like), *starts, *(s for s in lanes if s[1] not in like)):
                if 0 <= first and first + step * (f.size - 1) < g.size:
                    yield Place(k, digits(g.loops, first + step * own), first + step * own)

    def _solved(self, f: Terms) -> Iterator[Place]:
        """By the indices of the loads."""
        for k, g in enumerate(self.coarse):
            before = None
            for arm in (1, 2) if g.loops else ():
                at = Unifier(self.q, g.loops, self.context, arm).solve(g.term, f.term)
                if at and at != before and all(self.context.within(i, 0, v.n - 1) for v, i in at.items()):
                    yield Place(k, at, row_major(g.loops, at))
                before = at


def _apart(one: Ix, loops: Sequence[Var], other: Ix, others: Sequence[Var]) -> bool:
    """Whether no position is met by both, as far as that can be seen."""
    if one is other:
        return False
    a, b = _progression(loops, one), _progression(others, other)
    return a is None or b is None or not _meet(a, b)


def row_major(loops: Sequence[Var], at: dict[Var, Ix]) -> Ix:
    """The number of a position in the box of the loops."""
    return affine((math.prod(w.n for w in loops[k + 1 :]), at[v]) for k, v in enumerate(loops))


class Unifier:
    """Which positions of the loops make a term equal to another one: read off the indices of its loads.

    A select in one of them alone (a pad that the other does not meet) is taken to be its `arm`, 1 or 2, first.
    """

    def __init__(self, q: Comparator, loops: Sequence[Var], c: Context, arm: int = 1) -> None:
        self.q, self.context, self.arm = q, c, arm
        self.open = set(loops)
        self.found: dict[Var, Ix] = {}

    def solve(self, g: E, f: E) -> dict[Var, Ix] | None:
        """The index of each loop of `g`, or None where some loop could not be solved for."""
        todo = [(g, f)]
        seen: set[tuple[E, E]] = set()
        while todo and self.open:
            x, y = todo.pop()
            if (x, y) in seen or x is y:
                continue
            seen.add((x, y))
            if x.op in LOADS and y.op in LOADS and x.attr[0] is y.attr[0]:
                for i, j in zip(x.attr[1], y.attr[1], strict=True):
                    todo += self._solve_index(i, j)
            elif x.op == y.op == "idx":
                todo += self._solve_index(x.attr, y.attr)
            elif (opened := (self._opened(x), self._opened(y))) != (x, y):
                todo.append(opened)
            elif x.op == y.op and len(x.args) == len(y.args):
                todo += reversed(list(zip(x.args, y.args, strict=True)))
            elif x.op == "select":
                todo += [(x.args[3 - self.arm], y), (x.args[self.arm], y)]
            elif y.op == "select":
                todo += [(x, y.args[3 - self.arm]), (x, y.args[self.arm])]
        return None if self.open else self.found

    def _opened(self, x: E) -> E:
        return self.q.meaning(x, self.context)[0]

    def _solve_index(self, i: Ix, j: Ix) -> list[tuple[E, E]]:
        """i = j, solved for the loops that i has as digits: i = rest + v_0 + n_0 * v_1 + ...

        Where they stand in a quotient or a value, those of i and j are taken to be equal; what results is only tried.
        """
        unknown = sorted((k, v.level, v) for v, k in i.terms if isinstance(v, Var) and v in self.open)
        known = i - affine((k, ix(v)) for k, _, v in unknown)
        if known.free & self.open:
            pairs: list[tuple[E, E]] = []
            for (a, _), (b, _) in zip(known.terms, (t for t in j.terms if not isinstance(t[0], Var)), strict=False):
                if isinstance(a, Div) and isinstance(b, Div) and a.c == b.c:
                    pairs += self._solve_index(a.e, b.e)
                elif isinstance(a, Val) and isinstance(b, Val):
                    pairs.append((a.e, b.e))
            return pairs
        target, stride = j - known, 1
        if len(unknown) == 1 and unknown[0][0] in (1, -1):
            k, _, v = unknown[0]
            self._found(v, target * k)
            return []
        for k, _, v in unknown:
            if k != stride:
                return []
            stride *= v.n
        for k, _, v in unknown:
            self._found(v, target // k % v.n)
        return []

    def _found(self, v: Var, i: Ix) -> None:
        self.found[v] = i
        self.open.discard(v)


def partition(parts: list[tuple[tuple[Var, ...], Ix]], size: int) -> bool | None:
    """Whether the positions of the parts, in order, are 0, 1, ..., size - 1; None where they are not each met once."""
    if sum(math.prod(v.n for v in loops) for loops, _ in parts) != size:
        return None
    if any(not flat.free <= frozenset(loops) for loops, flat in parts):
        return None
    if size > POSITIONS:
        return _progressions(parts, size)
    columns = [_column(loops, flat) for loops, flat in parts]
    every = np.concatenate(columns) if columns else np.zeros(0, np.int64)
    if np.array_equal(every, np.arange(size)):
        return True
    return False if np.array_equal(np.sort(every), np.arange(size)) else None


def _column(loops: tuple[Var, ...], flat: Ix) -> np.ndarray:
    shape = tuple(v.n for v in loops)
    size = math.prod(shape)
    grid = dict(zip(loops, np.indices(shape, dtype=np.int64).reshape(len(shape), size), strict=True))
    made = evaluate(flat, lambda a: grid[a])  # type: ignore[index]
    return np.broadcast_to(made, (size,))


def _progressions(parts: list[tuple[tuple[Var, ...], Ix]], size: int) -> bool | None:
    """As `partition` for many positions: parts start + step * v that lie inside and do not meet."""
    found: list[tuple[int, int, int]] = []
    for loops, flat in parts:
        made = _progression(loops, flat)
        if made is None:
            return None
        found.append(made)
    if any(start < 0 or start + step * (n - 1) >= size for start, step, n in found):
        return None
    for k, one in enumerate(found):
        if any(_meet(one, other) for other in found[:k]):
            return None
    return len(found) == 1


def _progression(loops: Sequence[Var], flat: Ix) -> tuple[int, int, int] | None:
    """(start, step, length) where the positions are so many, going up by the same step."""
    length = math.prod(v.n for v in loops)
    if length == 1 and not flat.terms:
        return flat.c, 1, 1
    if len(loops) > 1 or len(flat.terms) != 1 or flat.terms[0][0] not in loops or flat.terms[0][1] < 1:
        return None
    return flat.c, flat.terms[0][1], length


def _meet(a: tuple[int, int, int], b: tuple[int, int, int]) -> bool:
    """Whether two progressions (start, step, length) have a common element."""
    (s, p, n), (t, r, m) = a, b
    g = math.gcd(p, r)
    if (t - s) % g:
        return False
    every = p * r // g
    x = s + p * ((t - s) // g * pow(p // g, -1, r // g) % (r // g) if r // g > 1 else 0)  # the least common one from s on
    low = max(s, t)
    x += max(0, -(-(low - x) // every)) * every
    return x <= min(s + p * (n - 1), t + r * (m - 1))


__all__ = ["Flat", "folds", "monoid_of", "partition", "regrouped", "states"]
