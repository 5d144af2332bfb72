"""Folds, and substitution under them.  The two need each other: a fold is closed by renaming its variable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from assay.core import index as index_
from assay.core.dtypes import DType
from assay.core.errors import UserError
from assay.core.index import Ix, Val, Var, fresh, ix, variable
from assay.core.lang.expressions import (
    FULL,
    LOADS,
    NO_VARS,
    E,
    apply_row,
    as_index,
    bitcast,
    by_creation,
    convert,
    index,
    load_as,
    make_node,
    union,
)
from assay.core.row import TABLE, Interval

if TYPE_CHECKING:
    from assay.core.lang.tensors import T

Environment: TypeAlias = "dict[Var | E, Ix | E]"
OnLoad: TypeAlias = "Callable[[T, tuple[Ix, ...], str], E | None]"


def acc(v: Var, k: int, dtype: DType, interval: Interval | None = None) -> E:
    """Accumulator k of the fold over `v`, inside its steps.  Use `folds`, which makes them."""
    lo, hi = interval or FULL[dtype]
    return make_node("acc", (), (v, k, lo, hi), dtype, (lo, hi))


def folds(n: int, inits: Sequence[E], step: Callable[..., E | tuple[E, ...]]) -> tuple[E, ...]:
    """a_k = inits[k]; for r in 0..n-1: (a_0, ...) = step(a_0, ..., r); the final (a_0, ...).

    A left fold, in this order.  n = 0 gives the inits, n = 1 the step applied once.
    """
    inits = tuple(inits)
    (n,) = index_.extents((n,))
    if type(n) is int and n == 0:
        return inits
    if type(n) is int and n == 1:
        once = step(*inits, ix(0))
        return once if isinstance(once, tuple) else (once,)
    v = fresh(n)
    accs = tuple(acc(v, k, e.dtype) for k, e in enumerate(inits))
    made = step(*accs, ix(v))
    steps = made if isinstance(made, tuple) else (made,)
    if [s.dtype for s in steps] != [e.dtype for e in inits]:
        raise UserError(f"fold: steps of types {[s.dtype for s in steps]} for inits of types {[e.dtype for e in inits]}")
    node = close_fold(v, inits, steps)
    return tuple(proj(node, k) for k in range(len(inits)))


def fold(n: int, init: E, step: Callable[[E, Ix], E]) -> E:
    """The left fold with one accumulator: (..((init . 0) . 1) ..) . n-1."""
    return folds(n, (init,), step)[0]


def proj(node: E, k: int) -> E:
    """Accumulator k of a fold; a fold of one accumulator is its own projection."""
    half = len(node.args) // 2
    if half == 1:
        return node
    final = node.args[k], node.args[half + k]
    interval = (min(e.lo for e in final), max(e.hi for e in final))
    return make_node("proj", (node,), k, node.args[k].dtype, interval)


def fold_results(v: Var, inits: Sequence[E], steps: Sequence[E], wanted: Sequence[int]) -> tuple[E, ...]:
    """The accumulators `wanted` after the fold over the fresh variable `v`.

    The others stay only where a step of a kept one reads them.  The accumulators in `steps` are acc(v, k, dtype), as
    `open_fold` gives them.
    """
    kept: dict[int, tuple[E, ...]] = {}
    todo = list(wanted)
    while todo:
        k = todo.pop()
        if k not in kept:
            kept[k] = tuple(own_accumulators(v, (steps[k],)))
            todo.extend(a.attr[1] for a in kept[k])
    place = {k: n for n, k in enumerate(sorted(kept))}
    env: Environment = {a: acc(v, place[a.attr[1]], a.dtype) for found in kept.values() for a in found}
    node = close_fold(v, tuple(inits[k] for k in place), substitute_all(tuple(steps[k] for k in place), env))
    return tuple(proj(node, place[k]) for k in wanted)


_accumulators: dict[E, tuple[E, ...]] = {}


def accumulators(node: E) -> tuple[E, ...]:
    """The acc nodes that the steps of a fold node refer to."""
    return _accumulators[node]


def close_fold(v: Var, inits: tuple[E, ...], steps: tuple[E, ...], bounds: Sequence[Interval] | None = None) -> E:
    """The fold node over the fresh variable `v`, renamed canonically, with inductive intervals for its accumulators.

    `bounds` are intervals to take in place of the derived ones; the accumulators in `steps` carry them already.
    Raises UserError where they do not hold at first, or are not kept by a step.
    """
    free = union([e.free for e in inits + steps], NO_VARS) - v.free
    w = variable(1 + max((u.level for u in free), default=-1), v.n)
    accs = {e.attr[1]: e for e in own_accumulators(v, steps)}
    if bounds is None:
        bounds = _inductive(v, inits, steps, accs)
    else:
        for k, ((lo, hi), init, step) in enumerate(zip(bounds, inits, steps, strict=True)):
            for e in (init, step):
                if not lo <= e.lo <= e.hi <= hi and not (k in accs and _within(grown(v.hi + 1, init, step, accs[k]), (lo, hi))):
                    raise UserError(f"the accumulator range {lo}..{hi} does not hold: {e!r} lies in {e.lo}..{e.hi}")
    env: dict[Var | E, Ix | E] = {v: ix(w)}
    for k, a in accs.items():
        env[a] = acc(w, k, a.dtype, bounds[k])
    if w is not v or any(env[a] is not a for a in accs.values()):
        steps = substitute_all(steps, env)
        if 1 + max((u.level for e in inits + steps for u in e.free if u is not w), default=-1) != w.level:
            return close_fold(w, inits, steps)  # the intervals made a variable vanish from the steps
    hull = (min(inits[0].lo, steps[0].lo), max(inits[0].hi, steps[0].hi))
    node = make_node("fold", inits + steps, w, inits[0].dtype, hull)
    _accumulators[node] = tuple(acc(w, k, e.dtype, bounds[k]) for k, e in enumerate(inits))
    return node


def own_accumulators(v: Var, steps: tuple[E, ...]) -> list[E]:
    """The accumulators over `v` in the steps, without those of inner folds that bind the same variable anew."""
    found: list[E] = []
    seen: set[E] = set()
    todo = list(steps)
    while todo:
        e = todo.pop()
        if v in e.free and e not in seen:
            seen.add(e)
            todo.extend(e.deps)
            if e.op == "acc":
                found.append(e)
    return [e for e in found if e.attr[0] is v]


def _inductive(v: Var, inits: tuple[E, ...], steps: tuple[E, ...], accs: dict[int, E]) -> list[Interval]:
    """Intervals that hold initially and are kept by a step; the full range where none is found in two tries."""
    bounds = [FULL[e.dtype] for e in inits]
    integer = [k for k in accs if not inits[k].dtype.is_float]
    if not integer:
        return bounds
    trial = [(e.lo, e.hi) for e in inits]
    for _ in range(3):
        env: dict[Var | E, Ix | E] = {a: acc(v, k, a.dtype, trial[k]) for k, a in accs.items() if k in integer}
        after = substitute_all(steps, env)
        hull = [(min(lo, e.lo), max(hi, e.hi)) for (lo, hi), e in zip(trial, after, strict=True)]
        if all(hull[k] == trial[k] for k in integer):
            return [trial[k] if k in integer else bounds[k] for k in range(len(inits))]
        trial = hull
    return [grown(v.hi + 1, inits[k], steps[k], accs[k]) or full if k in integer else full for k, full in enumerate(bounds)]


def _within(a: Interval | None, b: Interval) -> bool:
    return a is not None and b[0] <= a[0] and a[1] <= b[1]


def grown(n: int, init: E, step: E, a: E) -> Interval | None:
    """The range of the accumulator `a` at the start of each of (at most) n steps, where a step adds a bounded amount to it.

    count = fold(k:64; a=0) a + select(x[k] < 0, 1, 0)        0 <= a <= 63 at the start of a step, and 0 <= count <= 64

    None where the step is not of that kind, or the last sum might wrap.
    """
    found = growth(step, a)
    if found is None:
        return None
    least, most = min(0, found[0]), max(0, found[1])
    if init.lo + n * least < a.dtype.lo or init.hi + n * most > a.dtype.hi:
        return None
    return init.lo + (n - 1) * least, init.hi + (n - 1) * most


NESTED = 64
"""How deep the terms of a growing step are looked for."""


def growth(e: E, a: E, known: dict[E, Interval | None] | None = None, depth: int = NESTED) -> Interval | None:
    """The interval of e - a over the integers, where `e` is `a` plus terms of known intervals, or a choice of such."""
    if e is a:
        return 0, 0
    if a.attr[0] not in e.free or not depth:
        return None
    known = {} if known is None else known
    if e not in known:
        known[e] = _growth(e, a, known, depth - 1)
    return known[e]


def _growth(e: E, a: E, known: dict[E, Interval | None], depth: int) -> Interval | None:
    if e.op in ("add", "sub"):
        x, y = e.args
        first = growth(x, a, known, depth)
        if first is not None:
            return (first[0] + y.lo, first[1] + y.hi) if e.op == "add" else (first[0] - y.hi, first[1] - y.lo)
        second = growth(y, a, known, depth) if e.op == "add" else None
        return (second[0] + x.lo, second[1] + x.hi) if second is not None else None
    if e.op == "select":
        one, other = growth(e.args[1], a, known, depth), growth(e.args[2], a, known, depth)
        return (min(one[0], other[0]), max(one[1], other[1])) if one is not None and other is not None else None
    if e.op == "fold" and len(e.args) == 2:
        start, once = growth(e.args[0], a, known, depth), growth(e.args[1], accumulators(e)[0])
        if start is None or once is None:
            return None
        n = e.attr.hi + 1
        return start[0] + n * min(0, once[0]), start[1] + n * max(0, once[1])
    return None


def open_fold(node: E, w: Var | None = None) -> tuple[Var, tuple[E, ...], tuple[E, ...], tuple[E, ...]]:
    """(variable, inits, steps over it, its accumulators) of a fold node; the variable is `w`, or fresh.

    The accumulators of the opened steps carry no interval: what is done to the steps may change it.
    """
    half = len(node.args) // 2
    w = w or fresh(node.attr.n)
    new = tuple(acc(w, k, a.dtype) for k, a in enumerate(accumulators(node)))
    env: Environment = {node.attr: ix(w), **dict(zip(accumulators(node), new, strict=True))}
    return w, node.args[:half], substitute_all(node.args[half:], env), new


# ------------------------------------------------------------------------------------------------ substitution


def substitute(e: E, env: Environment, on_load: OnLoad | None = None) -> E:
    """`e` with variables and accumulators replaced by `env`, and each load by on_load(tensor, indices, op) if not None."""
    return substitute_all((e,), env, on_load)[0]


def substitute_all(es: tuple[E, ...], env: Environment, on_load: OnLoad | None = None) -> tuple[E, ...]:
    """Substitution in several expressions at once (shared parts are rewritten once)."""
    env = {k: x for k, x in env.items() if not (isinstance(k, Var) and x is ix(k))}
    keys = frozenset(k if isinstance(k, Var) else k.attr[0] for k in env)
    if on_load is None and not any(e.free & keys for e in es):
        return es
    memo: dict[E, E] = {}

    def untouched(e: E) -> bool:
        return (on_load is None or not e.reads) and keys.isdisjoint(e.free)

    def atom(a: Var | Val) -> Ix:
        if isinstance(a, Var):
            found = env.get(a)
            return found if isinstance(found, Ix) else ix(a)
        return as_index(memo.get(a.e, a.e))

    def indices(idx: tuple[Ix, ...]) -> tuple[Ix, ...]:
        every = on_load is not None  # a value inside an index may read what on_load replaces
        return tuple([index_.rewrite(i, atom) if not keys.isdisjoint(i.free) or (every and not i.is_plain) else i for i in idx])

    for e in _pending(es, untouched):
        if e.op in LOADS:
            t, idx = e.attr
            idx = indices(idx)
            replaced = on_load(t, idx, e.op) if on_load is not None else None
            memo[e] = replaced if replaced is not None else load_as(e.op, t, *idx)
        elif e.op == "idx":
            memo[e] = index(indices((e.attr,))[0], e.dtype)
        elif e.op == "acc":
            found = env.get(e)
            memo[e] = found if isinstance(found, E) else e
        elif e.op == "fold":
            memo[e] = _substitute_fold(e, tuple(memo.get(a, a) for a in e.args[: len(e.args) // 2]), env, on_load)
        else:
            memo[e] = rebuild(e, tuple([memo.get(a, a) for a in e.args]))
    return tuple([memo.get(e, e) for e in es])


def _pending(es: tuple[E, ...], untouched: Callable[[E], bool]) -> list[E]:
    """The nodes to rewrite, in creation order; steps of folds are left to their fold."""
    stack = [e for e in es if not untouched(e)]
    seen = set(stack)
    while stack:
        e = stack.pop()
        for d in e.args[: len(e.args) // 2] if e.op == "fold" else e.deps:
            if d not in seen and not untouched(d):
                seen.add(d)
                stack.append(d)
    return sorted(seen, key=by_creation)


def _substitute_fold(e: E, inits: tuple[E, ...], env: Environment, on_load: OnLoad | None) -> E:
    """The steps are rewritten under the name that the new fold will most likely have; close_fold corrects a wrong guess."""
    images = [x.free for v, x in env.items() if isinstance(v, Var) and v in e.free]
    free = union([e.free - env.keys(), *images, *(i.free for i in inits)], NO_VARS)
    w = variable(1 + max((u.level for u in free), default=-1), e.attr.n)
    old = accumulators(e)
    inner: Environment = {k: x for k, x in env.items() if k is not e.attr}
    inner[e.attr] = ix(w)
    inner.update((a, acc(w, k, a.dtype)) for k, a in enumerate(old))
    return close_fold(w, inits, substitute_all(e.args[len(inits) :], inner, on_load))


def rebuild(e: E, args: tuple[E, ...]) -> E:
    """The node `e` over other arguments (proj, convert, bitcast and rows of the table)."""
    if args == e.args:
        return e
    if e.op == "convert":
        return convert(args[0], e.dtype)
    if e.op == "bitcast":
        return bitcast(args[0], e.dtype)
    if e.op == "proj":
        return proj(args[0], e.attr)
    return apply_row(TABLE[e.op], args)
