"""Splitting folds of exactly associative monoids into lanes (max, min, and, or, integer sums): any grouping has the same bits."""

from __future__ import annotations

from assay.core import lang
from assay.core.index import Ix, Var, ix
from assay.core.lang import LOADS, E, Program, T
from assay.core.row import TABLE, Monoid
from assay.semantics.access import row_major
from assay.transforms.contract import bitwise, transform
from assay.transforms.rewrite import rewrite

LANES = 8  # partial folds side by side: part of the program, not of the machine
SHORTEST = 4  # folds of fewer than SHORTEST steps a lane are left whole


@transform(contract=bitwise)
def split_exact_folds(program: Program, *, lanes: int = LANES) -> Program:
    """A fold that runs along memory becomes `lanes` folds side by side and a tree over their results.

        s[i:64] = fold(k:1024; -inf) max(acc, x[i,k])
    becomes
        p[i:64,l:8] = fold(k:128; -inf) max(acc, x[i, 8*k + l])
        s[i:64] = max(max(max(p[i,0], p[i,4]), max(p[i,2], p[i,6])), max(max(p[i,1], p[i,5]), max(p[i,3], p[i,7])))

    Steps beyond the last multiple of `lanes` follow in order.  Exact where the monoid of the step is associative and
    commutative on bits and its neutral element is exact (Monoid.is_exact), whatever the value the fold starts from.
    """

    def replace(t: T) -> T:
        if t.kind != "let" or not t.body.has_fold:
            return t
        body = _split(t, lanes)
        return lang.let(t.shape, body) if body is not t.body else t

    return rewrite(program, inlined=lambda source, made: False, replace=replace)


def _split(t: T, lanes: int) -> E:
    """The body of `t` with every fold that is outside of other folds, runs along memory and is exact split."""
    replaced: dict[E, E] = {}
    for e in lang.walk((t.body,)):
        if e.op == "fold":
            made = split_fold(e, t.shape, lanes) if e.free <= frozenset(lang.axes(t.shape)) else None
            if made is not None:
                replaced[e] = made
        elif e.args and any(a in replaced for a in e.args):
            replaced[e] = lang.rebuild(e, tuple(replaced.get(a, a) for a in e.args))
    return replaced.get(t.body, t.body)


def split_fold(e: E, shape: tuple[int, ...], lanes: int) -> E | None:
    """The fold `e` over axes of `shape`, split in lanes; None where it is not exact, too short, or not along memory."""
    monoid = exact_monoid(e)
    if monoid is None or e.attr.n < SHORTEST * lanes or not runs_along_memory(e):
        return None
    v, (init,), (step,), _ = lang.open_fold(e)
    term = step.args[1]
    whole = v.n // lanes
    neutral = lang.const(monoid.neutral(e.dtype), e.dtype)
    used = sorted((a for a in lang.axes(shape) if a in e.free), key=lambda a: a.level)
    closed = {a: ix(b) for a, b in zip(used, lang.axes([a.n for a in used]), strict=True)}

    def combine(a: E, b: E) -> E:
        return lang.op(step.op, a, b)

    lane = lang.axes((*(a.n for a in used), lanes))[-1]
    partial = lang.fold(whole, neutral, lambda a, k: combine(a, lang.substitute(term, {**closed, v: lanes * k + ix(lane)})))
    p = lang.let((*(a.n for a in used), lanes), partial)
    results = [lang.load(p, *(ix(a) for a in used), j) for j in range(lanes)]
    while len(results) > 1:
        half = len(results) // 2
        results = [combine(a, b) for a, b in zip(results[:half], results[half:], strict=True)]
    total = results[0] if init is neutral else combine(init, results[0])
    return lang.fold(v.n % lanes, total, lambda a, k: combine(a, lang.substitute(term, {v: k + whole * lanes})))


def exact_monoid(e: E) -> Monoid | None:
    """The monoid m of a fold with one accumulator and the step m(acc, term), where it is exact on the type of `e`."""
    if len(e.args) != 2:
        return None
    step = e.args[1]
    row = TABLE.get(step.op)
    if row is None or not isinstance(row.monoid, Monoid) or not row.monoid.is_exact(e.dtype) or len(step.args) != 2:
        return None
    own, term = step.args
    if own.op != "acc" or own.attr[0] is not e.attr or term.has_fold:
        return None
    return None if any(x.op == "acc" for x in lang.walk((term,))) else row.monoid


def runs_along_memory(e: E) -> bool:
    """Whether the term of the fold `e` reads neighbouring elements in neighbouring steps."""
    v = e.attr
    loads = [x for x in lang.walk(e.args[1:]) if x.op in LOADS and v in x.free]
    return bool(loads) and any(_coefficient(x.attr[0], x.attr[1], v) == 1 for x in loads)


def _coefficient(t: T, idx: tuple[Ix, ...], v: Var) -> int:
    return dict(row_major(t.shape, idx).terms).get(v, 0)


__all__ = ["LANES", "exact_monoid", "runs_along_memory", "split_exact_folds", "split_fold"]
