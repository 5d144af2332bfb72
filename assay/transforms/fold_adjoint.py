"""The cotangents of folds: from those of its final accumulators (or of every state, for a scan) to what its steps read.

Of four forms the first that applies:

    closed     every step passes the cotangent of its accumulator on unchanged (sum, matmul, conv): each term has the cotangent
               of the result; no loop, no tensor
    selection  a step either keeps its accumulator or takes something else (max, argmax): the index of the last take is stored,
               and what was taken there has the cotangent of the result
    linear     the recurrence of cotangents reads no accumulators (prod, cumsum, moving averages): one fold backwards
    general    it does (recurrent cells, Welford): the states before each iteration are stored, then one fold backwards
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from assay.core import dtypes as dt
from assay.core.dtypes import compute_dtype
from assay.core.index import Ix, Val, Var, fresh, ix, rewrite
from assay.core.lang import (
    E,
    T,
    acc,
    as_index,
    axes,
    close_fold,
    const,
    fold_results,
    index,
    let,
    load,
    load_or_zero,
    op,
    open_fold,
    own_accumulators,
    proj,
    scan,
    select,
    substitute,
    substitute_all,
)
from assay.core.mathlib.slopes import negation
from assay.transforms.accumulate import summed
from assay.transforms.cotangent import Cotangent, conjuncts, plus
from assay.transforms.push import Emit, Frame, NotClosed, push

Given = Sequence[tuple[E, Cotangent]]
AtState = Callable[[Ix], E]


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


def adjoint_of_fold(node: E, final: Mapping[int, Cotangent], frame: Frame, emit: Emit) -> Given:
    """Emit what the fold's steps read; return the cotangents of inits and of nodes outside of the loop.

    `final` are the cotangents of its accumulators after the last iteration.  Raises NotClosed.
    """
    f = Opened(*open_fold(node))
    found = _closed(f, final, frame, emit)
    if found is None:
        found = _selection(f, final, frame, emit)
    if found is not None:
        return found
    if frame.closed:
        raise NotClosed
    return _backwards(f, final, {}, frame, emit)


def adjoint_of_scan(node: E, states: Mapping[int, AtState], frame: Frame, emit: Emit) -> Given:
    """As adjoint_of_fold, for cotangents of every state r = 0..n of some accumulators."""
    f = Opened(*open_fold(node))
    found = _selected_states(f, states, frame, emit)
    return _backwards(f, {}, states, frame, emit) if found is None else found


# ------------------------------------------------------------------------------------------------ closed


def _closed(f: Opened, final: Mapping[int, Cotangent], frame: Frame, emit: Emit) -> Given | None:
    emitted: list[tuple[E, Cotangent, tuple[Var, ...]]] = []
    inner = frame.inside(f.v, closed=True)
    try:
        out = push([(f.steps[k], c) for k, c in final.items()], inner, lambda *x: emitted.append(x), f.v)
    except NotClosed:
        return None
    passed = {f.accs[k]: c for k, c in final.items()}
    own = {a: c for a, c in out.items() if a.op == "acc" and a.attr[0] is f.v}
    outer = {e: c for e, c in out.items() if e not in own}
    read = [x for _, c, _ in emitted for x in c.parts] + [x for c in outer.values() for x in c.parts]
    indices = [e for e, _, _ in emitted]
    if own != passed or any(map(f.owns, (*read, *indices))):
        return None
    for e, c, scope in emitted:
        emit(e, c, scope)
    return [(f.inits[k], c) for k, c in final.items()] + [(e, _over(f.v, c)) for e, c in outer.items()]


def _over(v: Var, c: Cotangent) -> Cotangent:
    """The sum over the values of `v`."""
    return Cotangent((), summed([v], c.guards, c.value))


# ------------------------------------------------------------------------------------------------ selection


@dataclass
class Taken:
    """What one accumulator takes: it keeps its value where all of `kept` hold, and what is emitted is emitted where one fails."""

    k: int
    kept: tuple[E, ...]
    emitted: list[tuple[E, Cotangent, tuple[Var, ...]]] = field(default_factory=list[tuple[E, Cotangent, tuple[Var, ...]]])
    outer: dict[E, Cotangent] = field(default_factory=dict[E, Cotangent])

    @property
    def takes(self) -> list[set[E]]:
        """Sets of conditions; it takes where all of one of them hold."""
        return [set(conjuncts(negation(g))) for g in self.kept]

    def implies(self, guards: Sequence[E]) -> bool:
        """Whether, where these hold, it takes."""
        return any(needed <= set(guards) for needed in self.takes)

    def rest(self, guards: Sequence[E], f: Opened) -> list[E]:
        """The guards without those that hold because it takes; of these, what reads no accumulator stays (it proves bounds)."""
        implied = set[E]().union(*(needed for needed in self.takes if needed <= set(guards)))
        return [g for g in guards if g not in implied or not f.owns(g)]

    def parts(self, f: Opened) -> list[E]:
        """Everything that may read the accumulators of the loop: conditions, and indices of loads."""
        cotangents = [c for _, c, _ in self.emitted] + list(self.outer.values())
        conditions = [g for c in cotangents for g in self.rest(c.guards, f)]
        return conditions + [index(i) for e, _, _ in self.emitted for i in e.attr[1]]


def _takes(f: Opened, k: int, c: Cotangent, frame: Frame) -> Taken | None:
    """How accumulator k selects, or None: its step is no choice between keeping and taking."""
    emitted: list[tuple[E, Cotangent, tuple[Var, ...]]] = []
    try:
        out = push([(f.steps[k], c)], frame.inside(f.v, closed=True), lambda *x: emitted.append(x), f.v)
    except NotClosed:
        return None
    mine = out.pop(f.accs[k], None)
    if mine is None or mine.value is not c.value or mine.guards[: len(c.guards)] != c.guards:
        return None
    kept = mine.guards[len(c.guards) :]
    if not kept or any(a.op == "acc" and a.attr[0] is f.v for a in out):
        return None
    taken = Taken(k, kept, emitted, out)
    every = [x for _, x, _ in emitted] + list(out.values())
    return None if any(not taken.implies(x.guards) or f.owns(x.value) for x in every) else taken


def _record(f: Opened, takes: Sequence[Taken]) -> tuple[Opened, list[tuple[E, ...]]]:
    """The fold with further accumulators for each of `takes`: the last iteration that took something (-1: none), and the values
    that expressions which read accumulators then had.

    Returns the fold, and these expressions for each of `takes`.
    """
    inits, steps, held = list(f.inits), list(f.steps), list[tuple[E, ...]]()
    accs = list(f.accs)

    def add(start: E, condition: E, new: E) -> None:
        a = acc(f.v, len(inits), start.dtype)
        inits.append(start)
        accs.append(a)
        steps.append(select(condition, a, new))

    for t in takes:
        kept = t.kept[0]
        for g in t.kept[1:]:
            kept = kept & g
        read = _read_off(f, t.parts(f))
        add(const(-1, dt.i64), kept, index(ix(f.v)))
        for e in read:
            add(const(0, e.dtype), kept, e)
        held.append(read)
    return Opened(f.v, tuple(inits), tuple(steps), tuple(accs)), held


def _read_off(f: Opened, parts: Sequence[E]) -> tuple[E, ...]:
    """The largest expressions in `parts` that read accumulators of the loop; of an index, the values it is made of."""
    found: dict[E, None] = {}
    todo = list(parts)
    seen: set[E] = set()
    while todo:
        e = todo.pop()
        if e in seen or not f.owns(e):
            continue
        seen.add(e)
        if e.op == "idx":
            todo.extend(e.deps)
        else:
            found[e] = None
    return tuple(found)


def _selection(f: Opened, final: Mapping[int, Cotangent], frame: Frame, emit: Emit) -> Given | None:
    takes: list[Taken] = []
    for k, c in final.items():
        t = _takes(f, k, c, frame)
        if t is None:
            return None
        takes.append(t)
    full, held = _record(f, takes)
    given: list[tuple[E, Cotangent]] = []
    at = len(f.inits)
    for t, read in zip(takes, held, strict=True):
        wanted = range(at, at + 1 + len(read))
        at += 1 + len(read)
        found = _kept_values(fold_results(full.v, full.inits, full.steps, wanted), frame)
        given += _at_take(f, t, read, found, frame.scope, emit)
        given.append((f.inits[t.k], final[t.k].under(negation(_took(found[0])))))
    return given


def _took(k: E) -> E:
    return op("le", const(0, dt.i64), k)


def _at_take(f: Opened, t: Taken, read: Sequence[E], found: Sequence[E], scope: tuple[Var, ...], emit: Emit) -> Given:
    """Emit what was taken, at the iteration found[0], where there is one; found[1:] are the values that `read` then had."""
    last = as_index(op("max", found[0], 0))

    def then(es: Sequence[E]) -> tuple[E, ...]:
        """The expressions as they were at that iteration."""
        known = dict(zip(read, found[1:], strict=True))
        return substitute_all(tuple(_replaced(e, known) for e in es), {f.v: last})

    def cotangent(c: Cotangent) -> Cotangent:
        guards = t.rest(c.guards, f)
        free = [g for g in guards if f.v not in g.free]
        value, *rest = then((c.value, *(g for g in guards if f.v in g.free)))
        return Cotangent((), value).under(*free, _took(found[0]), *rest)

    for e, c, around in t.emitted:
        t_, idx = e.attr
        moved = then([index(i) for i in idx])
        loaded = (load if e.op == "load" else load_or_zero)(t_, *moved)
        emit(loaded, cotangent(c), tuple(w for w in around if w is not f.v))
    return [(e, cotangent(c)) for e, c in t.outer.items()]


def _replaced(e: E, known: Mapping[E, E]) -> E:
    """`e` with what it is, or the values its index is made of, replaced as `known` says."""
    if e in known or e.op != "idx":
        return known.get(e, e)
    return index(rewrite(e.attr, lambda a: as_index(known.get(a.e, a.e)) if isinstance(a, Val) else ix(a)), e.dtype)


def _kept_values(es: Sequence[E], frame: Frame) -> tuple[E, ...]:
    """Integers of the scope as elements of tensors, where they read no accumulator of a loop that is not closed yet."""
    if any(own_accumulators(v, es) for v in frame.loops):
        return tuple(es)
    return tuple(_tabulated(e, frame.scope) for e in es)


def _tabulated(e: E, scope: Sequence[Var]) -> E:
    """The value of `e` as an element of a tensor that has one for each setting of the variables it depends on."""
    used = [v for v in scope if v in e.free]
    shape = [v.n for v in used]
    body = substitute(e, {v: ix(w) for v, w in zip(used, axes(shape), strict=True)})
    return load(let(shape, body), *used)


def _selected_states(f: Opened, states: Mapping[int, AtState], frame: Frame, emit: Emit) -> Given | None:
    s = fresh(f.v.n + 1)
    around = Frame((*frame.scope, s), frame.active, frame.loops)
    takes: list[Taken] = []
    for k, at_state in states.items():
        t = _takes(f, k, Cotangent((), at_state(ix(s))), around)
        if t is None:
            return None
        takes.append(t)
    full, held = _record(f, takes)
    given: list[tuple[E, Cotangent]] = []
    place = len(f.inits)
    for t, read in zip(takes, held, strict=True):
        wanted = range(place, place + 1 + len(read))
        place += 1 + len(read)
        tables = _scans(frame.scope, full, wanted)
        found = tuple(_element(table, frame.scope, ix(s)) for table in tables)
        given += [(e, _over(s, c)) for e, c in _at_take(f, t, read, found, around.scope, emit)]
        given.append((f.inits[t.k], _over(s, Cotangent((), states[t.k](ix(s))).under(negation(_took(found[0]))))))
    return given


# ------------------------------------------------------------------------------------------------ linear and general


@dataclass(frozen=True)
class Table:
    """The states of one accumulator over the variables `used`."""

    tensor: T
    used: tuple[Var, ...]


def _scans(scope: Sequence[Var], f: Opened, wanted: Sequence[int]) -> list[Table]:
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


def _element(table: Table, scope: Sequence[Var], state: Ix) -> E:
    return load(table.tensor, *table.used, state)


def _backwards(f: Opened, final: Mapping[int, Cotangent], states: Mapping[int, AtState], frame: Frame, emit: Emit) -> Given:
    """One fold from the last iteration to the first carries the cotangents of the accumulators."""
    floats = [k for k, e in enumerate(f.inits) if e.dtype.is_float]
    tables = _scans(frame.scope, f, range(len(f.inits)))
    before = {a: _element(table, frame.scope, ix(f.v)) for a, table in zip(f.accs, tables, strict=True)}
    origin = {tables[k].tensor: k for k in floats}
    steps = substitute_all(f.steps, dict(before))
    active = frame.active | frozenset(origin)
    once = frame.inside(f.v, stores=False, active=active)

    def back(carried: Mapping[int, E]) -> tuple[dict[int, Cotangent], dict[E, Cotangent]]:
        """The cotangents before an iteration from those after it, and what nodes outside of the loop get from it."""
        reached: dict[int, Cotangent] = {}

        def collect(e: E, c: Cotangent, _: tuple[Var, ...]) -> None:
            k = origin.get(e.attr[0])
            if k is not None:
                reached[k] = plus(reached.get(k), c)

        roots = [(steps[k], Cotangent((), e)) for k, e in carried.items()]
        return reached, push(roots, once, collect, f.v)

    w = fresh(f.v.n)
    reverse: dict[Var | E, Ix | E] = {f.v: f.v.n - 1 - ix(w)}
    chosen = sorted({*final, *states})
    while True:  # which accumulators receive a cotangent at all
        carried = {k: acc(w, i, _computed(f, k)) for i, k in enumerate(chosen)}
        reached, outer = back(carried)
        if reached.keys() <= set(chosen):
            break
        chosen = sorted({*chosen, *reached})

    def start(k: int) -> E:
        last = final[k].stored() if k in final else None
        state = states[k](ix(f.v.n)) if k in states else None
        found = last if state is None else state if last is None else last + state
        return const(0, _computed(f, k)) if found is None else found

    def move(k: int) -> E:
        found = substitute(reached[k].stored(), reverse) if k in reached else None
        state = states[k](f.v.n - 1 - ix(w)) if k in states else None
        total = found if state is None else state if found is None else found + state
        return const(0, _computed(f, k)) if total is None else total

    starts, moves = [start(k) for k in chosen], [move(k) for k in chosen]
    if not frame.stores:  # one fold carries the sums for the nodes outside too
        sums = list(outer.items())
        own = [acc(w, len(chosen) + i, c.value.dtype) for i, (_, c) in enumerate(sums)]
        added = [a + substitute(c.stored(), reverse) for a, (_, c) in zip(own, sums, strict=True)]
        node = close_fold(w, (*starts, *(const(0, a.dtype) for a in own)), (*moves, *added))
        results = [proj(node, i) for i in range(len(chosen) + len(sums))]
        keys = [f.inits[k] for k in chosen] + [e for e, _ in sums]
        return [(e, Cotangent((), r)) for e, r in zip(keys, results, strict=True)]
    after = _scans(frame.scope, Opened(w, tuple(starts), tuple(moves), ()), range(len(chosen)))
    at_end = {k: _element(t, frame.scope, f.v.n - 1 - ix(f.v)) for k, t in zip(chosen, after, strict=True)}

    def pass_on(e: E, c: Cotangent, scope: tuple[Var, ...]) -> None:
        if e.attr[0] not in origin:
            emit(e, c, scope)

    roots = [(steps[k], Cotangent((), e)) for k, e in at_end.items()]
    rest = push(roots, frame.inside(f.v, active=active), pass_on, f.v)
    whole = [(f.inits[k], Cotangent((), _element(t, frame.scope, ix(f.v.n)))) for k, t in zip(chosen, after, strict=True)]
    return whole + [(e, _over(f.v, c)) for e, c in rest.items()]


def _computed(f: Opened, k: int) -> dt.DType:
    return compute_dtype(f.inits[k].dtype)
