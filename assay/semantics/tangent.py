"""The forward derivative of programs: how outputs change when inputs do, as a program.

    tangent([y], {x: dx})  ->  [dy],   dy = sum over x of (dy/dx) dx

Every node is differentiated by column `lin` of its row; loads of x become loads of dx, a fold becomes one fold of its
accumulators and their tangents.  What is piecewise constant (integers, conditions, floor, `stop`) has no tangent, and where
nothing has one the result is None.  Tangents have the types of the values; half types are computed in f32, rounded where stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assay.core.dtypes import compute_dtype
from assay.core.errors import Unsupported, UserError
from assay.core.index import Var, same_shape
from assay.core.lang import (
    LOADS,
    E,
    T,
    acc,
    const,
    convert,
    fold_results,
    let,
    load,
    load_as,
    open_fold,
    order,
    scan,
    scatter,
    select,
    tensor,
)
from assay.core.mathlib.slopes import negation
from assay.core.row import TABLE, Linear, Where
from assay.semantics.definition import as_fold

LINEAR_SCATTERS = (None, "add")
"""The operations for which a scatter is linear in its base and in what it writes."""


def tangent(outputs: Sequence[T], tangents: Mapping[T, T]) -> list[T | None]:
    """The tangent of each output, given those of some tensors (inputs, or definitions); None where it is zero.

    Raises UserError for a tangent of another shape or type than its tensor, Unsupported for an extern of floats.
    """
    for t, d in tangents.items():
        check_like(t, d, "tangent")
    known = _Tangents(tangents)
    return [known.of(t) for t in outputs]


def check_like(t: T, d: T, what: str) -> None:
    """Raise UserError unless `d` has the shape and the type of `t`, which must be a float type."""
    if not t.dtype.is_float:
        raise UserError(f"{t!r} has no {what}: only floats have derivatives")
    if d.dtype is not t.dtype or not same_shape(d.shape, t.shape):
        raise UserError(f"the {what} {d!r} of {t!r} must have its shape and type")


def linear_maps(e: E, result: E) -> tuple[Linear, ...]:
    """Column `lin` at the node `e` of a row, whose value is `result`.  Raises Unsupported where the row has no derivative."""
    lin = TABLE[e.op].lin
    if isinstance(lin, Unsupported):
        raise Unsupported(f"{e.op}: {lin}")
    return lin(*e.args, result)


class _Tangents:
    """The tangents of tensors, made once each."""

    def __init__(self, tangents: Mapping[T, T]) -> None:
        self._of: dict[T, T | None] = dict(tangents)
        self._active: set[T] = set(tangents)

    def of(self, t: T) -> T | None:
        if t not in self._of:
            for x in order((t,)):
                if x not in self._of:
                    reached = x.dtype.is_float and not x.reads.isdisjoint(self._active)
                    found = self._of[x] = self._tensor(x) if reached else None
                    if found is not None:
                        self._active.add(x)
        return self._of[t]

    def _tensor(self, t: T) -> T | None:
        if t.kind == "scan":
            return self._scan(t)
        if t.kind == "scatter":
            return self._scatter(t)
        if t.kind == "extern":
            raise Unsupported(f"extern {t.name!r} has no derivative; read its values through the indices that it gives")
        found = self.expressions((t.body,), {})[0]
        return None if found is None else let(t.shape, convert(found, t.dtype))

    def _scan(self, t: T) -> T | None:
        made = self._fold(t.body, {})
        if t.k not in made:
            return None
        e = made[t.k]
        node, k = (e.args[0], e.attr) if e.op == "proj" else (e, 0)
        states = scan(t.shape[: t.axis] + t.shape[t.axis + 1 :], node, k, t.axis)
        return states if states.dtype is t.dtype else tensor(t.shape, lambda *i: convert(load(states, *i), t.dtype))

    def _scatter(self, t: T) -> T | None:
        if t.combine not in LINEAR_SCATTERS:
            found = self.expressions((as_fold(t).body,), {})[0]
            return None if found is None else let(t.shape, convert(found, t.dtype))
        base, body = self._of[t.base], self.expressions((t.body,), {})[0]
        if base is None and body is None:
            return None
        zero = const(0, t.dtype)
        start = let(t.shape, zero) if base is None else base
        if body is None and t.combine is not None:
            return start
        return scatter(start, t.domain, t.indices, zero if body is None else convert(body, t.dtype), t.combine)

    # -------------------------------------------------------------------------------------------- expressions

    def expressions(self, es: Sequence[E], accumulators: Mapping[E, E]) -> list[E | None]:
        """The tangents of the expressions, in the types they are computed in, given those of accumulators."""
        loops = frozenset[Var]().union(*(a.free for a in accumulators))
        found: dict[E, E | None] = {}
        folds: dict[E, dict[int, E]] = {}

        def fold_of(e: E) -> dict[int, E]:
            if e not in folds:
                folds[e] = self._fold(e, accumulators)
            return folds[e]

        for e in _differentiable(es, self._active, loops):
            if e.op in LOADS:
                t, idx = e.attr
                d = self._of[t]
                loaded = None if d is None else load_as(e.op, d, *idx)
                found[e] = None if loaded is None else convert(loaded, compute_dtype(e.dtype))
            elif e.op == "acc":
                found[e] = accumulators.get(e)
            elif e.op in ("fold", "proj"):
                found[e] = fold_of(e).get(0) if e.op == "fold" else fold_of(e.args[0]).get(e.attr)
            elif e.op == "convert":
                d = found.get(e.args[0])
                found[e] = None if d is None else convert(d, compute_dtype(e.dtype))
            elif e.op in TABLE:
                found[e] = _row(e, [found.get(a) for a in e.args])
        return [found.get(e) for e in es]

    def _fold(self, node: E, accumulators: Mapping[E, E]) -> dict[int, E]:
        """The tangents of the accumulators of a fold that have one: further accumulators, of those that any step makes active."""
        v, inits, steps, accs = open_fold(node)
        first = self.expressions(inits, accumulators)
        active = [k for k, d in enumerate(first) if d is not None]
        while True:
            own = {accs[k]: acc(v, len(inits) + n, compute_dtype(accs[k].dtype)) for n, k in enumerate(active)}
            made = self.expressions(steps, {**accumulators, **own})
            reached = [k for k in range(len(inits)) if first[k] is not None or made[k] is not None]
            if reached == active:
                break
            active = reached
        if not active:
            return {}

        def or_zero(d: E | None, k: int) -> E:
            return const(0, compute_dtype(accs[k].dtype)) if d is None else d

        starts = [or_zero(first[k], k) for k in active]
        moves = [or_zero(made[k], k) for k in active]
        wanted = range(len(inits), len(inits) + len(active))
        results = fold_results(v, (*inits, *starts), (*steps, *moves), wanted)
        return dict(zip(active, results, strict=True))


def _differentiable(es: Sequence[E], active: set[T], loops: frozenset[Var]) -> list[E]:
    """The float nodes that may depend on an active tensor or a loop, in creation order; steps of folds are left to their fold."""
    seen: set[E] = set()
    stack = list(es)
    while stack:
        e = stack.pop()
        if e in seen or not e.dtype.is_float or (e.reads.isdisjoint(active) and e.free.isdisjoint(loops)):
            continue
        seen.add(e)
        if e.op != "fold" and e.op != "proj":
            stack.extend(e.args)
    return sorted(seen, key=lambda e: e.id)


def _row(e: E, parts: Sequence[E | None]) -> E | None:
    """The tangent of a row from those of its arguments."""
    if all(d is None for d in parts):
        return None
    dtype = compute_dtype(e.dtype)
    maps = linear_maps(e, e)
    zero = const(0, dtype)
    guarded = [(m.condition, zero if d is None else d) for m, d in zip(maps, parts, strict=True) if isinstance(m, Where)]
    if len(guarded) == 2 and negation(guarded[0][0]) is guarded[1][0]:
        (condition, x), (other, y) = guarded
        return select(other, y, x) if condition.op == "not" else select(condition, x, y)
    total: E | None = None
    for m, d in zip(maps, parts, strict=True):
        if m is None or d is None:
            continue
        term = select(m.condition, d, zero) if isinstance(m, Where) else m(d)
        total = term if total is None else total + term
    return total
