"""Races: two programs, or two lanes of one store, that touch one element, one of them by a plain store.

Proof: two copies of everything that may differ (program, lanes, iterations); equal offsets must force equal programs, and
equal lanes within one store. Offsets a*S + b with 0 <= b < S are equal only if a and b are, which splits the equation digit
by digit. Refutation: all programs of small launches are run, and their writes compared. What one program does in order,
statement after statement, is no race here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.core.errors import AssayError
from assay.kernels import terms as tm
from assay.kernels.arguments import Launch, Tensor
from assay.kernels.concrete import Arrays, Event, TooLong, run_all
from assay.kernels.deciding import KernelQuestion, TermReading, decide, implied
from assay.kernels.source import Module
from assay.kernels.symbolic import Access, Symbolic
from assay.kernels.terms import FALSE, Atom, Cond, Leaf, Poly, Substitution
from assay.kernels.witness import concrete_arguments
from assay.verify.verdict import PROVED, REFUTED, UNKNOWN

PROGRAMS = 64
LAUNCHES = 6
WORK = 1 << 23


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
        parts = [f"line {line}, program {list(p)}, lane {list(i)}" for line, p, i in (c.first, c.second)]
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


def races(module: Module, kernel: ast.FunctionDef, launch: Launch, s: Symbolic, given: tuple[Cond, ...]) -> Iterator[Race]:
    """One result for each store (and each load of a tensor that is stored to)."""
    pairs: list[tuple[Access, Access]] = []
    done: set[tuple[int, int, str]] = set()
    for a in s.accesses:
        for b in s.accesses:
            if a.kind == "store" and b.tensor is a.tensor and (b.kind != "store" or _place(b) >= _place(a)):
                pairs.append((a, b))
    conflicts: list[Conflict] | None = None
    for a in s.accesses:
        if a.kind != "store" or _place(a) in done:
            continue
        done.add(_place(a))
        own = [(x, y) for x, y in pairs if _place(x) == _place(a)]
        open_pairs = [(x, y) for x, y in own if not _apart(s, x, y, given)]
        if not open_pairs:
            yield Race(a.node, a.tensor.name, PROVED, f"each element of {a.tensor.name} is written by one lane of one program")
            continue
        if s.synchronises:
            yield Race(
                a.node,
                a.tensor.name,
                UNKNOWN,
                f"programs may share elements of {a.tensor.name}; the kernel synchronises by "
                "atomic_cas or atomic_xchg, which is not modelled",
            )
            continue
        if conflicts is None:
            conflicts = list(_small_conflicts(module, kernel, launch, given))
        line = getattr(a.node, "lineno", 0)
        found = next((c for c in conflicts if c.tensor == a.tensor.name and line in (c.first[0], c.second[0])), None)
        if found is not None:
            yield Race(a.node, a.tensor.name, REFUTED, f"one element of {a.tensor.name} is accessed twice without order", found)
        else:
            yield Race(
                a.node,
                a.tensor.name,
                UNKNOWN,
                f"that one lane of one program writes each element of {a.tensor.name} was neither proved nor refuted",
            )


def _place(a: Access) -> tuple[int, int, str]:
    return getattr(a.node, "lineno", 0), getattr(a.node, "col_offset", 0), a.tensor.name


# ------------------------------------------------------------------------------------------------ proof


def _apart(s: Symbolic, a: Access, b: Access, given: tuple[Cond, ...]) -> bool:
    """Whether a of one program and b of another never touch one element, nor two lanes of a."""
    same_store = a is b
    ids = [p.atoms[0] for p in s.ids if p.constant is None]
    masks = [tm.conjuncts(x.mask.term) if x.mask is not None else () for x in (a, b)]
    other = _Primed()
    hyps = [*given, *a.path, *masks[0], *(other.cond(c) for c in (*b.path, *masks[1]))]
    facts = (given, (*a.path, *masks[0]), tuple(other.cond(c) for c in (*b.path, *masks[1])))
    equalities = list(_digits(a.offset.term, other.poly(b.offset.term), a.tensor, facts))
    if ids and not _forced(hyps, equalities, [(i, other.poly(tm.poly(i))) for i in ids]):
        return False
    if not same_store or not any(n > 1 for n in a.shape):
        return True
    within = _Primed(keep={*ids, *a.times})
    hyps = [*given, *a.path, *masks[0], *(within.cond(c) for c in masks[0])]
    facts = (given, (*a.path, *masks[0]), tuple(within.cond(c) for c in masks[0]))
    lanes = [tm.leaf(f"lane{k}", 0, n - 1, "lane") for k, n in enumerate(a.shape) if n > 1]
    equalities = list(_digits(a.offset.term, within.poly(a.offset.term), a.tensor, facts))
    return _forced(hyps, equalities, [(p.atoms[0], within.poly(p)) for p in lanes])


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


def _forced(hyps: list[Cond], equalities: list[tuple[Poly, Poly]], wanted: list[tuple[Any, Poly]]) -> bool:
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
    return all(decide(tm.equal(s.poly(tm.poly(a)), s.poly(p)), conds).status == "proved" for a, p in wanted)


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


def _small_conflicts(module: Module, kernel: ast.FunctionDef, launch: Launch, given: tuple[Cond, ...]) -> Iterator[Conflict]:
    for sizes, grid, value in small_launches(launch, given):
        arguments = concrete_arguments(launch, value)
        scalars = [v[1] for v in arguments.values() if isinstance(v, tuple) and isinstance(v[1], int)]
        arrays = {n: _elements(t, value, scalars) for n, t in launch.parameters.items() if isinstance(t, Tensor)}
        events = []
        try:
            for e in run_all(module, kernel, arguments, grid, Arrays(arrays), work=WORK):
                events.append(e)
        except TooLong:
            pass
        except AssayError:
            continue
        yield from _conflicts(sizes, events)


def _elements(t: Tensor, value: Any, scalars: list[int]) -> Any:
    """Elements of the tensor's range: any, and often the same few or the value of an argument, to meet conditions of the kernel."""
    count = value(t.count)
    if t.type.is_float:
        return np.ones(count, t.type.numpy)
    lo = value(t.lower) if t.lower is not None else 0
    hi = value(t.upper) if t.upper is not None else lo
    few = [x for x in (lo, hi, *scalars) if lo <= x <= hi] or [lo]
    rng = np.random.default_rng(0)
    drawn = np.where(rng.random(count) < 0.25, rng.integers(lo, max(lo, hi) + 1, count), rng.choice(few, count))
    return drawn.astype(t.type.numpy)


def small_launches(
    launch: Launch, given: tuple[Cond, ...], count: int = LAUNCHES
) -> Iterator[tuple[dict[str, int], tuple[int, ...], Any]]:
    """(sizes, grid, value of a term) for a few launches of few programs that satisfy the conditions, of several if possible."""
    leaves = [a for a in tm.walk((*given, *launch.grid, *launch.sizes.values())) if isinstance(a, Leaf)]
    q = KernelQuestion(FALSE, (*given, *(tm.nonnegative(tm.poly(a) - a.lo) for a in leaves)))
    found: list[tuple[int, dict[Any, int]]] = []
    for cap in (4, 40, 400, 4000):
        columns = _drawn_small(q, leaves, cap)
        holds, _ = q.points(columns) if columns else (np.ones(1, bool), None)
        reading = TermReading(_points(), dict(columns))
        programs: Any = 1
        for g in launch.grid:
            programs = programs * reading.poly(g)
        programs = np.broadcast_to(np.asarray(programs, object), np.shape(holds))
        for k in np.flatnonzero(holds):
            if 1 <= programs[k] <= PROGRAMS:
                found.append((int(programs[k]), {a: int(c[k]) for a, c in columns.items()}))
    several = sorted((f for f in found if f[0] > 1), key=lambda f: (f[0], sum(f[1].values())))
    chosen = several[:: max(1, len(several) // count)][:count] or found[:1]
    for _, point in chosen:
        reading = TermReading(_points(), {a: np.array(v, object) for a, v in point.items()})
        value = lambda p, r=reading: int(r.poly(p))  # noqa: E731
        yield {n: value(p) for n, p in launch.sizes.items()}, tuple(value(g) for g in launch.grid), value


def _points() -> Any:
    from assay.kernels.deciding import Points

    return Points(True)


def _drawn_small(q: KernelQuestion, leaves: list[Leaf], cap: int) -> dict[Any, Any]:
    rng = np.random.default_rng(cap)
    columns: dict[Any, Any] = {}
    reading = TermReading(_points(), columns)
    reading.known = columns
    for a in leaves:
        lo = reading.poly(a.lower) if a.lower is not None else a.lo
        hi = reading.poly(a.upper) if a.upper is not None else a.hi
        lo = np.maximum(np.broadcast_to(np.asarray(lo, object), (64,)), a.lo)
        hi = np.minimum(np.minimum(np.broadcast_to(np.asarray(hi, object), (64,)), a.hi), lo + cap)
        columns[a] = lo + np.array([int(x) for x in rng.random(64) * np.maximum((hi - lo + 1).astype(float), 1)], object)
        columns[a] = np.minimum(columns[a], np.maximum(hi, lo))
    return {a: c for a, c in columns.items() if isinstance(a, Leaf)}


def _conflicts(sizes: dict[str, int], events: list[Event]) -> Iterator[Conflict]:
    """The first conflict of each pair of lines."""
    writes: dict[tuple[str, int], tuple[int, tuple[int, ...], tuple[int, ...]]] = {}
    seen: set[tuple[str, int, int]] = set()
    stored = {e.tensor.name for e in events if e.kind == "store" and e.tensor is not None}
    for e in sorted(events, key=lambda e: e.kind != "store"):
        if e.tensor is None or e.tensor.name not in stored or e.kind not in ("store", "load", "atomic"):
            continue
        own: dict[int, tuple[int, ...]] = {}
        for lane in np.argwhere(e.mask) if e.mask.shape else ([()] if e.mask else []):
            i = tuple(int(x) for x in lane)
            at = int(e.offsets[i])
            here = e.line, e.program, i
            before = writes.get((e.tensor.name, at))
            if e.kind == "store" and at in own:
                before = e.line, e.program, own[at]
            elif before is not None and before[1] == e.program:
                before = None
            if before is not None and (e.tensor.name, before[0], e.line) not in seen:
                seen.add((e.tensor.name, before[0], e.line))
                yield Conflict(sizes, e.tensor.name, at, before, here)
            if e.kind == "store":
                own[at] = i
                writes.setdefault((e.tensor.name, at), here)
