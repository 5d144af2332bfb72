"""Which lets are stored, recomputed where they are read, or kept in a row buffer; and which kernels run together.

    inline   the body stands in every reader       keep   a kernel of its own       local   a row buffer in each reader

Start from a rule of thumb, then flip one let at a time while the modelled total falls.  Loads of stored lets keep
naming the let of the given program, so that a kernel is the same interned object, and costs nothing to model again,
whatever is decided elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from assay.backends.schedule.machine import Machine
from assay.backends.schedule.prices import Prices
from assay.backends.schedule.signature import Local, signature
from assay.backends.schedule.space import COARSE, FULL, Choice, rank
from assay.backends.schedule.summary import Summary, loop_shape
from assay.core import lang
from assay.core.errors import UserError
from assay.core.index import Ix, Var, ix
from assay.core.lang import LOADS, E, Program, T
from assay.transforms.merge import merge_together
from assay.transforms.rewrite import inline_load, must_realise, readers, rewrite

INLINE, KEEP, LOCAL = "inline", "keep", "local"
LAUNCH = 2e-7  # seconds to enter a kernel
SHORT_ROW = 64
SMALL_BODY = 12  # instructions that are recomputed rather than stored, to begin with
REMEMBERED = 20_000  # kernels, before all are forgotten
QUICK = 20e-6  # seconds of all kernels: below, the rule of thumb is good enough
NODES_MODELLED = 3_000  # nodes of candidate kernels the search may look at
NODES_OF_MANY = 600  # the same for more than MANY lets: further looks gained 0.2 % of the time of 100 operators
MANY = 20
MERGE_GAIN = 0.95
ROWS_TOGETHER = 1.2  # a kernel of whole rows has more schedules than the coarse space shows
RECOMPUTED = 3  # a fold that would be evaluated this many times is not tried inline


@dataclass(frozen=True)
class Group:
    """A kernel to be scheduled: its tensors (inlined), the tensors of the given program they stand for, its row buffers.

    Where neighbouring axes of `tensors` were merged, `stores` are the same tensors with their own axes.
    """

    tensors: tuple[T, ...]
    sources: tuple[T, ...]
    local: tuple[tuple[T, int], ...]
    stores: tuple[T, ...] = ()

    def merged(self) -> Group:
        """The group over fewer, longer loops, where it is pointwise and every access allows it."""
        if self.local or any(t.kind != "let" or t.body.has_fold for t in self.tensors):
            return self
        made = merge_together(self.tensors)
        if made == self.tensors or not all(map(_inside, made)):
            return self
        return Group(made, self.sources, (), self.tensors)


def rows_known(tensors: tuple[T, ...], local: Local) -> bool:
    """Whether every row buffer is asked only for rows that its tensor has, and that depend on the kernel's axes alone.

    There is nothing to fill it with elsewhere, and no place outside of the loops of a fold to fill it in.
    """
    leads = dict(local)
    if not leads:
        return True
    stack: list[tuple[E, frozenset[Var]]] = []
    for t in (*tensors, *leads):
        known = lang.axes(t.shape)[: leads[t]] if t in leads else lang.axes(loop_shape(t))
        stack += [(e, frozenset(known)) for e in lang.bodies(t)]
    seen = set(stack)
    while stack:
        e, known = stack.pop()
        if e.op in LOADS and e.attr[0] in leads:
            t, idx = e.attr
            if not all(0 <= i.lo and i.hi < n and i.free <= known for i, n in list(zip(idx, t.shape, strict=True))[: leads[t]]):
                return False
        half = len(e.args) // 2
        if e.op == "fold":  # whose variable may have the name of an axis that its step does not use
            parts = [*((a, known) for a in e.args[:half]), *((a, known - {e.attr}) for a in e.args[half:])]
        else:
            parts = [(d, known) for d in e.deps]
        stack += [x for x in parts if x not in seen]
        seen.update(parts)
    return True


def _inside(t: T) -> bool:
    """Whether the interval of every index shows that it is in bounds."""
    loads = [e for e in lang.walk((t.body,)) if e.op in LOADS]
    return all(0 <= i.lo and i.hi < n for e in loads for i, n in zip(e.attr[1], e.attr[0].shape, strict=True))


_State = tuple[dict[T, str], dict[T, T], dict[T, Local]]


class Model:
    """The modelled time of kernels, remembered by what they look like (signature.py).

    `spent` counts what a search has looked at, also what was remembered: the search does not depend on earlier ones.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.prices = Prices(machine)
        self.spent = 0
        self.memory: dict[tuple[Any, ...], Any] = {}
        self._signatures: dict[tuple[tuple[T, ...], Local], tuple[Any, ...]] = {}
        self._charged: set[tuple[Any, ...]] = set()
        self._summaries: dict[tuple[Any, ...], Summary] = {}  # of this search

    def start(self) -> None:
        """A new search."""
        self.spent = 0
        self._charged.clear()
        self._summaries.clear()
        if len(self.memory) > REMEMBERED:
            self.memory.clear()
            self._signatures.clear()

    def signature(self, tensors: tuple[T, ...], local: Local) -> tuple[Any, ...]:
        key = tensors, local
        found = self._signatures.get(key)
        if found is None:
            found = self._signatures[key] = signature(tensors, local)
        return found

    def summary(self, tensors: tuple[T, ...], local: Local) -> Summary:
        key = self.signature(tensors, local)
        found = self._summaries.get(key)
        if found is None:
            found = self._summaries[key] = Summary(tensors, self.prices, dict(local))
        return found

    def ranked(self, tensors: tuple[T, ...], local: Local) -> list[Choice]:
        """The schedules of a kernel, best first; of one that takes a moment, those of the coarse space only.

        None where the row buffers cannot be filled: the full space has no legal schedule of it either.
        """
        coarse = self._coarse(tensors, local)
        if not coarse or coarse[0].cost.seconds < QUICK:
            return coarse
        key = FULL, self.signature(tensors, local)
        found = self.memory.get(key)
        if found is None:
            found = self.memory[key] = rank(self.summary(tensors, local), self.machine)
        return found

    def _coarse(self, tensors: tuple[T, ...], local: Local) -> list[Choice]:
        """The schedules of the coarse space, best first; none where the row buffers cannot be filled."""
        key = COARSE, self.signature(tensors, local)
        found = self.memory.get(key)
        if found is None:
            legal = self.fillable(tensors, local)
            found = self.memory[key] = rank(self.summary(tensors, local), self.machine, COARSE) if legal else []
        return found

    def fillable(self, tensors: tuple[T, ...], local: Local) -> bool:
        """Whether the row buffers fit the cache and are filled, with rows that exist, where only axes are known."""
        return self.fits(local) and rows_known(tensors, local)

    def fits(self, local: Local) -> bool:
        """Whether the row buffers fit the cache."""
        room = self.machine.l2 // 4
        return all(lang.size_of(t) // max(1, math.prod(t.shape[:lead])) <= room for t, lead in local)

    def seconds(self, tensors: tuple[T, ...], local: Local = ()) -> float:
        """The time of the best schedule of the coarse space; infinite where the row buffers cannot be filled."""
        key = COARSE, self.signature(tensors, local)
        best = self._coarse(tensors, local)
        found = best[0].cost.seconds if best else math.inf
        if key not in self._charged:
            self._charged.add(key)
            self.spent += 10 + len(key[1])
        return found


def visits(tensors: list[T]) -> dict[T, int]:
    """How often the reader that does so most evaluates a load of each tensor, in units of the tensor's size.

    What depends on the variable of a fold is evaluated in its loop, inside the loops around it.
    """
    found = dict.fromkeys(tensors, 0)

    def count(t: T, loops: frozenset[Var]) -> None:
        if t in found:
            found[t] = max(found[t], math.ceil(math.prod(v.n for v in loops) / max(1, t.size)))

    for t in tensors:
        for e in lang.walk(lang.bodies(t)):
            if e.op in LOADS:
                count(e.attr[0], e.free)
            elif e.op == "fold":
                for x in lang.walk(e.args):
                    if x.op in LOADS and e.attr in x.free:
                        count(x.attr[0], e.free | x.free)
    return found


def by_constants(t: T, readers: list[T]) -> bool:
    """Whether `t` is a short row that is read at constant positions only (the lanes of a split fold)."""
    if not t.shape or t.shape[-1] > SHORT_ROW or any(r.kind != "let" for r in readers):
        return False
    loads = [e for r in readers for e in lang.walk((r.body,)) if e.op == "load" and e.attr[0] is t]
    return all(e.attr[1][-1].is_const for e in loads) and len(loads) > 1


def collapse(program: Program) -> Program:
    """The program without the lets about which there is nothing to weigh: no fold, one reader, each element read once."""
    tensors = program.tensors
    reading, times = readers(program), visits(tensors)

    def inlined(source: T, made: T) -> bool:
        rs = set(reading[source])
        return len(rs) == 1 and times[source] <= 1 and not source.body.has_fold and not by_constants(source, reading[source])

    try:
        return rewrite(program, inlined=inlined)
    except UserError:  # an index that is exact as a stored value would not fit its type as an expression
        return program


@dataclass
class Decisions:
    """The state of the search: a mode for each tensor, and what each became."""

    program: Program
    model: Model
    mode: dict[T, str] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        p = self.program
        self.tensors = p.tensors
        self.place = {t: k for k, t in enumerate(self.tensors)}
        self.whole = must_realise(p)
        self.readers: dict[T, list[T]] = {t: [] for t in self.tensors}
        for t in self.tensors:
            for r in t.reads:
                if r.kind != "input":
                    self.readers[r].append(t)
        self.limit = NODES_OF_MANY if len(self.tensors) > MANY else NODES_MODELLED
        self.visits = visits(self.tensors)
        for t in self.tensors:
            self.mode.setdefault(t, self._first_mode(t))
        self.made: dict[T, T] = {}
        self.locals: dict[T, tuple[tuple[T, int], ...]] = {}
        try:
            self._make_all()
        except UserError:  # an index that is exact as a stored value would not fit its type as an expression
            self.mode.update((r, KEEP) for r in self.tensors if self.mode[r] == INLINE)
            self._make_all()
            self._store_unfillable()
            return
        self._store_unfillable()
        self._fuse_rows()

    def _make_all(self) -> None:
        self.made, self.locals = {}, {}
        for t in self.tensors:
            self._make(t, self.made, self.locals, self.mode)

    def _store_unfillable(self) -> None:
        """Start from kernels that have a schedule: the rows of those that cannot fill them are stored.

        No flip leads out of a kernel that can fill neither of two rows: it has no schedule after any one of them either.
        """
        while True:
            kept = [t for t in self.tensors if self.mode[t] == KEEP and self.locals[t]]
            stuck = [t for t in kept if self.kernel_seconds(t, self.made, self.locals) == math.inf]
            rows = {row for t in stuck for row, _ in self.locals[t]}
            if not rows:
                return
            self.mode.update((t, KEEP) for t in self.tensors if self.mode[t] == LOCAL and self.made[t] in rows)
            self._make_all()

    def free(self, t: T) -> bool:
        """Whether there is anything to decide about `t`."""
        return t.kind == "let" and t not in self.whole

    def _first_mode(self, t: T) -> str:
        if not self.free(t):
            return KEEP
        if by_constants(t, self.readers[t]):
            return LOCAL
        if self.visits[t] > 2:
            return KEEP
        return INLINE if not t.body.has_fold and (len(self.readers[t]) == 1 or self._small(t)) else KEEP

    def _read_by_rows(self, t: T) -> bool:
        """Whether a tensor of more axes reads `t`, itself or through lets that are inlined."""
        stack, seen = [t], {t}
        while stack:
            for r in self.readers[stack.pop()]:
                if r.kind == "let" and _axes(r) > _axes(t):
                    return True
                if r not in seen and self.mode[r] == INLINE:
                    seen.add(r)
                    stack.append(r)
        return False

    def _small(self, t: T) -> bool:
        """Whether the body of `t` is a few instructions."""
        return sum(max(1.0, self.model.prices.of(e).count) for e in lang.walk((t.body,)) if e.op != "const") <= SMALL_BODY

    def _fuse_rows(self) -> None:
        """Start from whole rows in one kernel where that is quicker: row folds inline, rows that are read twice in a buffer.

        No single flip leads there from kernels of their own: the fold alone, or the row alone, would be computed twice.
        """
        modes = dict(self.mode)
        for t in self.tensors:
            if not self.free(t) or self.visits[t] > 2:
                continue
            if t.body.has_fold and self._read_by_rows(t) and not by_constants(t, self.readers[t]):
                modes[t] = INLINE
            elif len(t.shape) >= 2 and len(self.readers[t]) > 1 and not self._small(t):
                modes[t] = LOCAL
        if modes == self.mode:
            return
        made: dict[T, T] = {}
        locals_: dict[T, tuple[tuple[T, int], ...]] = {}
        try:
            for t in self.tensors:
                self._make(t, made, locals_, modes)
        except UserError:
            return
        before = sum(self.kernel_seconds(t, self.made, self.locals) for t in self.tensors if self.mode[t] == KEEP)
        after = sum(self.kernel_seconds(t, made, locals_) for t in self.tensors if modes[t] == KEEP)
        taken = after < before * ROWS_TOGETHER
        self.log.append(f"rows in one kernel: {before * 1e6:.1f} -> {after * 1e6:.1f} us{'' if taken else ', not taken'}")
        if taken:
            self.mode, self.made, self.locals = modes, made, locals_

    def _make(self, t: T, made: dict[T, T], locals_: dict[T, tuple[tuple[T, int], ...]], mode: dict[T, str]) -> None:
        """`t` with its inlined reads substituted and its row buffers named, and the row buffers it uses."""

        def on_load(source: T, idx: tuple[Ix, ...], how: str) -> E | None:
            m = mode.get(source)
            if m == INLINE:
                return inline_load(made[source], idx, how)
            if m == LOCAL:
                return lang.load_as(how, made[source], *idx)
            return None

        deep = [r for r in t.reads if mode.get(r, KEEP) != KEEP]
        made[t] = lang.rewrite_tensor(t, on_load, lambda x: x) if deep else t
        used: dict[T, int] = {}
        for r in sorted(deep, key=self.place.__getitem__):  # a row after those that it is filled from
            used.update(locals_.get(r, ()))
            if mode[r] == LOCAL:
                used[made[r]] = len(r.shape) - 1
        locals_[t] = tuple(used.items())

    def kernel_seconds(self, t: T, made: dict[T, T], locals_: dict[T, tuple[tuple[T, int], ...]]) -> float:
        if t.kind == "extern":
            return 0.0
        if t.kind in ("scan", "scatter") and locals_[t]:
            return math.inf
        return self.model.seconds((made[t],), locals_[t]) + LAUNCH

    def flip(self, t: T, mode: str) -> tuple[float, float, _State | None]:
        """(modelled seconds before, after, the new state) of the kernels that a decision about `t` touches."""
        modes = {**self.mode, t: mode}
        touched: set[T] = {t}
        for u in self.tensors:  # in topological order
            if u is not t and any(r in touched and (r is t or modes[r] != KEEP) for r in u.reads):
                touched.add(u)
        made, locals_ = dict(self.made), dict(self.locals)
        before = after = 0.0
        for u in self.tensors:
            if u in touched:
                try:
                    self._make(u, made, locals_, modes)
                except UserError:
                    return 0.0, math.inf, None
                if modes[u] == KEEP:
                    after += self.kernel_seconds(u, made, locals_)
                if self.mode[u] == KEEP:
                    before += self.kernel_seconds(u, self.made, self.locals)
        return before, after, (modes, made, locals_)

    def search(self, rounds: int = 2) -> None:
        """Flip one let at a time while the modelled total falls; nothing is tried for what takes microseconds in all."""
        if sum(self.kernel_seconds(t, self.made, self.locals) for t in self.tensors if self.mode[t] == KEEP) < QUICK:
            return
        stale: set[T] | None = None  # the lets that a change may have made worth another look
        for _ in range(rounds):
            changed: set[T] = set()
            for t in self.tensors:
                if not self.free(t) or self.model.spent > self.limit or (stale is not None and t not in stale):
                    continue
                for mode in self._alternatives(t):
                    before, after, state = self.flip(t, mode)
                    # fewer kernels win a tie, stored values must earn their place
                    gain = 1.01 if mode == INLINE and self.mode[t] == KEEP else 0.98
                    if state is not None and after < before * gain:
                        self.log.append(f"{t!r}: {self.mode[t]} -> {mode}, {before * 1e6:.1f} -> {after * 1e6:.1f} us")
                        self.mode, self.made, self.locals = state
                        changed.update(t.reads, self.readers[t])
            if not changed:
                return
            stale = changed

    def _alternatives(self, t: T) -> Iterable[str]:
        now, fold, readers = self.mode[t], t.body.has_fold, self.readers[t]
        once = len(readers) == 1 and self.visits[t] <= 1
        if now == INLINE and once and not fold:
            return
        if now != INLINE and not (fold and self.visits[t] >= RECOMPUTED):
            yield INLINE
        rows = len(t.shape) >= 2 and t.shape[-1] > 1
        if now != LOCAL and rows and ((not fold and not once and self._folded(t)) or by_constants(t, self.readers[t])):
            yield LOCAL
        if now != KEEP and (now != INLINE or self.visits[t] > 1 or self._kernels_reading(t) > 1):
            yield KEEP

    def _kernels_reading(self, t: T) -> int:
        """In how many kernels the inlined `t` is evaluated."""
        found: set[T] = set()
        stack, seen = [t], {t}
        while stack:
            for r in self.readers[stack.pop()]:
                if self.mode[r] == KEEP:
                    found.add(r)
                elif r not in seen:
                    seen.add(r)
                    stack.append(r)
        return len(found)

    def _folded(self, t: T) -> bool:
        """Whether a fold reads `t`, itself or through lets without folds: only then is a row needed more than once."""
        stack, seen = [t], {t}
        while stack:
            for r in self.readers[stack.pop()]:
                if r.kind == "let" and r.body.has_fold:
                    return True
                if r not in seen:
                    seen.add(r)
                    stack.append(r)
        return False

    # -------------------------------------------------------------------------------------------- kernels

    def groups(self) -> list[Group]:
        """The kernels in an order in which they can run, those of one shape that gain by it together."""
        singles = [Group((self.made[t],), (t,), self.locals[t]) for t in self.tensors if self.mode[t] == KEEP]
        if self.model.spent <= self.limit:
            singles = self._merge(singles)
        return self._sorted(singles)

    def _reads(self, g: Group) -> set[T]:
        """The stored tensors a group needs (through its row buffers too)."""
        found: set[T] = set()
        local = dict(g.local)
        stack = list(g.tensors)
        while stack:
            for r in stack.pop().reads:
                if r in local:
                    stack.append(r)
                else:
                    found.add(r)
        return found

    def _merge(self, groups: list[Group]) -> list[Group]:
        result = list(groups)
        for a in groups:
            for b in groups:
                if self.place[a.sources[0]] >= self.place[b.sources[0]] or self.model.spent > self.limit:
                    continue
                left = next((g for g in result if a.sources[0] in g.sources), None)
                right = next((g for g in result if b.sources[0] in g.sources), None)
                if left is None or right is None or left is right:
                    continue
                joined = self._joined(left, right)
                if joined is None or not self._acyclic([joined, *(g for g in result if g is not left and g is not right)]):
                    continue
                apart = self.model.seconds(left.tensors, left.local) + self.model.seconds(right.tensors, right.local) + LAUNCH
                together = self.model.seconds(joined.tensors, joined.local)
                if together < MERGE_GAIN * apart:
                    self.log.append(f"{list(joined.sources)}: one kernel, {apart * 1e6:.1f} -> {together * 1e6:.1f} us")
                    result = [g for g in result if g is not left and g is not right] + [joined]
        return result

    def _joined(self, a: Group, b: Group) -> Group | None:
        """Both in one kernel: same loops, something read in common; a value of `a` that `b` reads is recomputed in `b`."""
        kinds = {t.kind for t in (*a.tensors, *b.tensors)}
        if kinds - {"let", "require"} or loop_shape(a.tensors[0]) != loop_shape(b.tensors[0]):
            return None
        inner = dict(zip(a.sources, a.tensors, strict=True))
        common = self._reads(a) & self._reads(b)
        chained = any(s in self._reads(b) and t.kind == "let" for s, t in inner.items())
        if not common and not chained:
            return None
        if chained and (a.local or b.local or not all(_identity(t, s) for t in b.tensors for s in inner)):
            return None

        def on_load(source: T, idx: tuple[Ix, ...], how: str) -> E | None:
            t = inner.get(source)
            return inline_load(t, idx, how) if t is not None and t.kind == "let" else None

        tensors = tuple(lang.rewrite_tensor(t, on_load, lambda x: x) for t in b.tensors) if chained else b.tensors
        joined = Group(a.tensors + tensors, a.sources + b.sources, tuple(dict.fromkeys(a.local + b.local)))
        # a require is checked before anything reads it, so it can be neither recomputed nor read in its own kernel
        return None if self._reads(joined) & set(joined.sources) else joined

    def _acyclic(self, groups: list[Group]) -> bool:
        try:
            self._sorted(groups)
        except ValueError:
            return False
        return True

    def _sorted(self, groups: list[Group]) -> list[Group]:
        """Topological order, otherwise as the program; ValueError for a cycle."""
        owner = {s: g for g in groups for s in g.sources}
        needs = {id(g): {id(owner[r]) for r in self._reads(g) if r in owner and owner[r] is not g} for g in groups}
        done: set[int] = set()
        waiting = sorted(groups, key=lambda g: min(self.place[s] for s in g.sources))
        result: list[Group] = []
        while waiting:
            ready = next((g for g in waiting if needs[id(g)] <= done), None)
            if ready is None:
                raise ValueError("kernels that wait for each other")
            waiting.remove(ready)
            done.add(id(ready))
            result.append(ready)
        return result


def _axes(t: T) -> int:
    """The axes of more than one element."""
    return sum(n > 1 for n in t.shape)


def _identity(t: T, source: T) -> bool:
    """Whether `t` reads `source` only at its own element."""
    own = tuple(ix(v) for v in lang.axes(t.shape))
    return all(e.attr[1] == own for e in lang.walk(lang.bodies(t)) if e.op in LOADS and e.attr[0] is source)
