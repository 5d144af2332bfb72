"""Races: two programs, or two lanes of one store, that touch one element, one of them by a plain store.

Proof: two copies of everything that may differ (program, lanes, iterations); equal offsets must force equal programs, and
equal lanes within one store. Offsets a*S + b with 0 <= b < S are equal only if a and b are, which splits the equation digit
by digit. Refutation: all programs of small launches are run, and their writes compared. What one program does in order,
statement after statement, is no race here.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from assay.kernels import terms as tm
from assay.kernels.arguments import Launch, Tensor
from assay.kernels.deciding import decide, decide_quickly, implied
from assay.kernels.source import Module
from assay.kernels.symbolic import Symbolic
from assay.kernels.symbols import Access
from assay.kernels.terms import FALSE, Atom, Cond, Leaf, Poly, Substitution
from assay.kernels.trials import Trial
from assay.kernels.witness import place
from assay.verify.integers import Answer
from assay.verify.verdict import PROVED, REFUTED, UNKNOWN

Ask: TypeAlias = Callable[[Cond, Iterable[Cond]], "Answer | None"]


@dataclass(frozen=True)
class Conflict:
    """Two accesses of one element."""

    sizes: Mapping[str, int]
    tensor: str
    index: int
    first: tuple[int, tuple[int, ...], tuple[int, ...]]  # line, program, lane
    second: tuple[int, tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True)
class Race:
    """Whether a store races."""

    node: ast.AST
    tensor: str
    status: str
    how: str
    conflict: Conflict | None = None

    @property
    def line(self) -> int:
        return getattr(self.node, "lineno", 0)

    def __str__(self) -> str:
        c = self.conflict
        assert c is not None
        parts = [f"line {line}, {place(p, i)}" for line, p, i in (c.first, c.second)]
        sizes = ", ".join(f"{k} = {v}" for k, v in c.sizes.items())
        return f"{c.tensor}[{c.index}] by {parts[0]} and by {parts[1]}\nat {sizes}"

    def to_json(self) -> dict[str, Any]:
        """The conflict."""
        c = self.conflict
        assert c is not None
        return {
            "sizes": dict(c.sizes),
            "tensor": c.tensor,
            "index": c.index,
            "accesses": [{"line": line, "program": list(p), "lane": list(i)} for line, p, i in (c.first, c.second)],
        }


def races(
    module: Module, launch: Launch, s: Symbolic, given: tuple[Cond, ...], trials: Callable[[], Sequence[Trial]]
) -> Iterator[Race]:
    """One result for each store: against itself, other stores to its tensor, loads and atomics of it."""
    conflicts: list[Conflict] | None = None
    done: set[tuple[int, int, str]] = set()
    for a in s.accesses:
        if a.kind != "store" or _place(a) in done:
            continue
        done.add(_place(a))
        same = [x for x in s.accesses if _place(x) == _place(a)]
        pairs = [
            (x, b) for x in same for b in s.accesses if b.tensor is a.tensor and (b.kind != "store" or _place(b) >= _place(a))
        ]
        if all(_apart(s, x, y, given, decide_quickly) for x, y in pairs):
            yield _single_writer(a)
            continue
        if s.synchronises:
            how = f"programs may share elements of {a.tensor.name}; locks (atomic_cas, atomic_xchg) are not modelled"
            yield Race(a.node, a.tensor.name, UNKNOWN, how)
            continue
        if conflicts is None:
            conflicts = [c for t in trials() for c in conflicts_of(t)]
        line = getattr(a.node, "lineno", 0)
        found = next((c for c in conflicts if c.tensor == a.tensor.name and line in (c.first[0], c.second[0])), None)
        if found is not None:
            yield Race(a.node, a.tensor.name, REFUTED, f"one element of {a.tensor.name} is accessed twice without order", found)
        elif all(_apart(s, x, y, given, decide) for x, y in pairs):
            yield _single_writer(a)
        else:
            how = f"that one lane of one program writes each element of {a.tensor.name} was neither proved nor refuted"
            yield Race(a.node, a.tensor.name, UNKNOWN, how)


def _single_writer(a: Access) -> Race:
    return Race(a.node, a.tensor.name, PROVED, f"each element of {a.tensor.name} is written by one lane of one program")


def _place(a: Access) -> tuple[int, int, str]:
    return getattr(a.node, "lineno", 0), getattr(a.node, "col_offset", 0), a.tensor.name


# ------------------------------------------------------------------------------------------------ proof


def _apart(s: Symbolic, a: Access, b: Access, given: tuple[Cond, ...], ask: Ask) -> bool:
    """Whether a of one program and b of another never touch one element, nor two lanes of a."""
    same_store = a is b
    ids = [p.atoms[0] for p in s.ids if p.constant is None]
    masks = [tm.conjuncts(x.mask.term) if x.mask is not None else () for x in (a, b)]
    other = _Primed()
    hyps = [*given, *a.path, *masks[0], *(other.cond(c) for c in (*b.path, *masks[1]))]
    facts = (given, (*a.path, *masks[0]), tuple(other.cond(c) for c in (*b.path, *masks[1])))
    equalities = list(_digits(a.offset.term, other.poly(b.offset.term), a.tensor, facts))
    if ids and not _forced(ask, hyps, equalities, [(i, other.poly(tm.poly(i))) for i in ids]):
        return False
    if not same_store or not any(n > 1 for n in a.shape):
        return True
    within = _Primed(keep={*ids, *a.times})
    hyps = [*given, *a.path, *masks[0], *(within.cond(c) for c in masks[0])]
    facts = (given, (*a.path, *masks[0]), tuple(within.cond(c) for c in masks[0]))
    lanes = [tm.leaf(f"lane{k}", 0, n - 1, "lane") for k, n in enumerate(a.shape) if n > 1]
    equalities = list(_digits(a.offset.term, within.poly(a.offset.term), a.tensor, facts))
    return _forced(ask, hyps, equalities, [(p.atoms[0], within.poly(p)) for p in lanes])


class _Primed(Substitution):
    """A second copy of programs, iterations and lanes (and of what depends on them)."""

    def __init__(self, keep: Iterable[Any] = ()) -> None:
        kept = set(keep)
        self.made: dict[Leaf, Poly] = {}
        super().__init__(lambda a: None if not isinstance(a, Leaf) or a in kept else self._copy(a))

    def _copy(self, a: Leaf) -> Poly | None:
        if a.kind in ("size",) or a.arguments:
            return None
        if a not in self.made:
            lower, upper = (self.poly(b) if b is not None else None for b in (a.lower, a.upper))
            self.made[a] = tm.leaf(f"{a.name} of another", a.lo, a.hi, a.kind, why=a.why, lower=lower, upper=upper)
        return self.made[a]


def _digits(p: Poly, q: Poly, tensor: Tensor, facts: tuple[tuple[Cond, ...], ...]) -> Iterator[tuple[Poly, Poly]]:
    """Equations that p == q implies (p and q are made alike): digit by digit where both are a*S + b with 0 <= b < S."""
    given, here, there = facts
    for stride in _strides(p, q, tensor):
        m, k = stride.terms[0]
        (a, b), (c, d) = tm.quotient(p, m, k), tm.quotient(q, m, k)
        if not a.atoms or (b.constant is not None and d.constant is not None):
            continue
        small = lambda x: tm.all_of((tm.nonnegative(x), tm.less(x, stride)))  # noqa: B023, E731
        if implied(small(b), (*given, *here)) and implied(small(d), (*given, *there)):
            yield from _digits(a, c, tensor, facts)
            yield from _digits(b, d, tensor, facts)
            return
    yield p, q


def _strides(p: Poly, q: Poly, tensor: Tensor) -> list[Poly]:
    """Candidates for the weight of a digit, the greatest first: the tensor's strides, coefficients and sizes in the terms."""
    found: dict[Poly, None] = {}
    for t in (*tensor.strides, *tensor.shape):
        if len(t.terms) == 1 and t.lo > 0 and t.constant != 1:
            found[t] = None
    for m, k in (*p.terms, *q.terms):
        sizes = tuple(a for a in m if isinstance(a, Leaf) and a.kind == "size" and a.lo > 0)
        if sizes or (m and abs(k) > 1):
            found[_monomial(sizes, abs(k))] = None
            found[_monomial(sizes, 1)] = None
    return sorted((f for f in found if f.constant != 1), key=lambda f: (-len(f.terms[0][0]), -f.terms[0][1]))


def _monomial(atoms: tuple[Atom, ...], k: int) -> Poly:
    found = tm.poly(k)
    for a in atoms:
        found = found * tm.poly(a)
    return found


def _forced(ask: Ask, hyps: list[Cond], equalities: list[tuple[Poly, Poly]], wanted: list[tuple[Any, Poly]]) -> bool:
    """Whether the equalities force each wanted pair to be equal; an equation between atoms replaces one of them."""
    images: dict[Any, Poly] = {}
    conds = list(hyps)
    rest = list(equalities)
    changed = True
    while changed:
        changed = False
        s = Substitution(images.get)
        for k, (p, q) in enumerate(rest):
            x, y = s.poly(p), s.poly(q)
            pair = _atoms_equal(x, y)
            if pair is not None and pair[0] not in images:
                images[pair[0]] = pair[1]
                conds.append(tm.equal(p, q))
                del rest[k]
                changed = True
                break
    s = Substitution(images.get)
    conds = [s.cond(c) for c in conds] + [tm.equal(s.poly(p), s.poly(q)) for p, q in rest]
    conds += [tm.equal(tm.poly(a), p) for a, p in images.items() if not isinstance(a, Leaf)]
    conds = [c for c in conds if c is not tm.TRUE]
    if FALSE in conds:
        return True
    for a, p in wanted:
        answer = ask(tm.equal(s.poly(tm.poly(a)), s.poly(p)), conds)
        if answer is None or answer.status != "proved":
            return False
    return True


def _atoms_equal(x: Poly, y: Poly) -> tuple[Any, Poly] | None:
    """(atom, what it equals) where x == y says that one atom is another."""
    d = x - y
    if (
        len(d.terms) == 2
        and all(len(m) == 1 for m, _ in d.terms)
        and {abs(k) for _, k in d.terms} == {1}
        and d.terms[0][1] == -d.terms[1][1]
    ):
        a, b = d.terms[0][0][0], d.terms[1][0][0]
        new, old = (a, b) if a.number > b.number else (b, a)
        return new, tm.poly(old)
    return None


# ------------------------------------------------------------------------------------------------ refutation


def conflicts_of(trial: Trial) -> Iterator[Conflict]:
    """The first conflict of each pair of lines."""
    stored = {e.tensor.name for e in trial.events if e.kind == "store" and e.tensor is not None}
    for name in stored:
        events = [e for e in trial.events if e.tensor is not None and e.tensor.name == name]
        lanes = [np.flatnonzero(e.mask) for e in events]
        where = np.concatenate([np.asarray(e.offsets).ravel()[i] for e, i in zip(events, lanes, strict=True)])
        event = np.repeat(np.arange(len(events)), [len(i) for i in lanes])
        lane = np.concatenate(lanes)
        numbers = {p: k for k, p in enumerate(dict.fromkeys(e.program for e in events))}
        program = np.array([numbers[e.program] for e in events])[event]
        store = np.array([e.kind == "store" for e in events])[event]
        order = np.lexsort((event, ~store, where))
        where, event, lane, program, store = (x[order] for x in (where, event, lane, program, store))
        first = np.maximum.accumulate(np.where(np.diff(where, prepend=where[:1] - 1) != 0, np.arange(len(where)), 0))
        apart = store[first] & (program != program[first])
        twice = np.zeros(len(where), np.bool_)
        twice[1:] = store[1:] & (where[1:] == where[:-1]) & (event[1:] == event[:-1])
        seen: set[tuple[int, int]] = set()
        for k in np.flatnonzero(apart | twice):
            j = int(first[k]) if apart[k] else int(k) - 1
            lines = events[event[j]].line, events[event[k]].line
            if lines not in seen:
                seen.add(lines)
                one, two = (
                    (
                        events[event[x]].line,
                        events[event[x]].program,
                        tuple(map(int, np.unravel_index(lane[x], events[event[x]].mask.shape))),
                    )
                    if events[event[x]].mask.shape
                    else (events[event[x]].line, events[event[x]].program, ())
                    for x in (j, k)
                )
                yield Conflict(trial.sizes, name, int(where[k]), one, two)
