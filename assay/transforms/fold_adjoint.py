"""The cotangents of folds: from those of its final accumulators (or of every state, for a scan) to what its steps read.

Of five forms the first that applies:

    closed     every step passes the cotangent of its accumulator on unchanged (sum, matmul, conv): each term has the cotangent
               of the result; no loop, no tensor
    extremum   the fold is a maximum or minimum, and its value is stored: the first term that equals it has the cotangent
    selection  a step either keeps its accumulator or takes something else (max, argmax): the index of the last take is stored,
               and what was taken there has the cotangent of the result
    linear     the recurrence of cotangents reads no accumulators (prod, cumsum, moving averages): one fold backwards
    general    it does (recurrent cells, Welford): the states before each iteration are stored, then one fold backwards
"""

from __future__ import annotations

from collections.abc import Mapping

from assay.core.dtypes import DType, compute_dtype
from assay.core.index import Ix, Var, fresh, ix
from assay.core.lang import E, acc, close_fold, const, open_fold, proj, substitute, substitute_all
from assay.transforms.cotangent import Cotangent, plus
from assay.transforms.extremum import extremum
from assay.transforms.opened import AtState, Given, Opened, all_states, element, summed_over
from assay.transforms.push import Emit, Frame, NotClosed, push
from assay.transforms.selection import selected_states, selection


def adjoint_of_fold(node: E, final: Mapping[int, Cotangent], frame: Frame, emit: Emit) -> Given:
    """Emit what the fold's steps read; return the cotangents of inits and of nodes outside of the loop.

    `final` are the cotangents of its accumulators after the last iteration.  Raises NotClosed.
    """
    f = Opened(*open_fold(node))
    found = _closed(f, final, frame, emit)
    if found is None and 0 in final:
        found = extremum(node, final[0], frame, emit)
    if found is None:
        found = selection(f, node, final, frame, emit)
    if found is not None:
        return found
    if frame.closed:
        raise NotClosed
    return _backwards(f, final, {}, frame, emit)


def adjoint_of_scan(node: E, states: Mapping[int, AtState], frame: Frame, emit: Emit) -> Given:
    """As adjoint_of_fold, for cotangents of every state r = 0..n of some accumulators."""
    f = Opened(*open_fold(node))
    found = selected_states(f, states, frame, emit)
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
    return [(f.inits[k], c) for k, c in final.items()] + [(e, summed_over(f.v, c)) for e, c in outer.items()]


# ------------------------------------------------------------------------------------------------ linear and general


def _backwards(f: Opened, final: Mapping[int, Cotangent], states: Mapping[int, AtState], frame: Frame, emit: Emit) -> Given:
    """One fold from the last iteration to the first carries the cotangents of the accumulators."""
    floats = [k for k, e in enumerate(f.inits) if e.dtype.is_float]
    tables = all_states(frame.scope, f, range(len(f.inits)))
    before = {a: element(table, ix(f.v)) for a, table in zip(f.accs, tables, strict=True)}
    origin = {tables[k].tensor: k for k in floats}
    steps = substitute_all(f.steps, {**before})
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
    after = all_states(frame.scope, Opened(w, tuple(starts), tuple(moves), ()), range(len(chosen)))
    at_end = {k: element(t, f.v.n - 1 - ix(f.v)) for k, t in zip(chosen, after, strict=True)}

    def pass_on(e: E, c: Cotangent, scope: tuple[Var, ...]) -> None:
        if e.attr[0] not in origin:
            emit(e, c, scope)

    roots = [(steps[k], Cotangent((), e)) for k, e in at_end.items()]
    rest = push(roots, frame.inside(f.v, active=active), pass_on, f.v)
    whole = [(f.inits[k], Cotangent((), element(t, ix(f.v.n)))) for k, t in zip(chosen, after, strict=True)]
    return whole + [(e, summed_over(f.v, c)) for e, c in rest.items()]


def _computed(f: Opened, k: int) -> DType:
    return compute_dtype(f.inits[k].dtype)
