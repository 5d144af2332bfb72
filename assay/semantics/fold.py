"""Evaluation of folds, one iteration after the other, each on a whole box of outer elements.

Four shapes of a step have a quicker reading with the same bits:

    acc = ufunc(acc, x)                  numpy's accumulate, which is sequential by definition
    acc = max(acc, x)                    exactly associative: an integer maximum of the floats' order-preserving codes (also min)
    acc = fma(x, y, acc)                 one fma of the box an iteration, without the bookkeeping of a scope
    accs = take ? new : accs             argmax and its kind: iterations in which nothing is taken are skipped
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from assay.core.lang import E
from assay.semantics.chain import fma32_chain, fma64_chain
from assay.semantics.scope import STRUCTURE, Scope
from assay.semantics.tape import Array, Fold, fold_of

CHUNK = 1 << 18
"""Elements of one array in the part of a fold that is evaluated for many iterations at once."""

FEW = 64
"""Outer elements below which a fold is accumulated along its own axis, whatever the memory order."""

VERY_FEW = 16
"""Outer elements up to which chains of fmas run on Python floats (chain.py), quicker than numpy on tiny arrays."""

FEW_RECORDS, FIRST_WINDOW, LONGEST_BURST = 64, 64, 1024
"""Outer elements up to which untaken iterations are skipped; how many are first looked at; how many taken ones run in a row."""

Record: TypeAlias = "Callable[[int, Any], None]"


def states(e: E, scope: Scope, record: Record | None = None, k: int = 0) -> list[Any]:
    """The accumulators of the fold `e` after its last iteration.

    `record(r, x)` is told accumulator k after the iterations r, r+1, ... in order, along the fold's axis of x.
    """
    f = fold_of(e)
    now = [scope.memo[i] for i in f.inits]
    n = f.variable.n
    outer = math.prod(hi - lo for v in e.free for lo, hi in (scope.ranges[v],))
    length = max(1, min(n, CHUNK // max(1, outer)))
    reduce = _reduction(f)
    skips = f.take is not None and record is None and outer <= FEW_RECORDS and n > FIRST_WINDOW
    for start in range(0, n, length):
        stop = min(n, start + length)
        memo = {x: scope.memo[x] for x in f.invariant}
        inner = Scope(scope.tensors, {**scope.ranges, f.variable: (start, stop)}, scope.rank, memo)
        inner.run(f.parts_tape)
        if skips:
            now = _taken(f, inner, now, start, stop)
        elif reduce is None:
            now = _iterate(f, inner, now, (start, stop), start, record, k)
        else:
            now = [reduce(f, inner, now[0], start, stop, record)]
    return now


def _iterate(f: Fold, scope: Scope, now: list[Any], part: tuple[int, int], start: int, record: Record | None = None,
             k: int = 0) -> list[Any]:  # fmt: skip
    """The accumulators after the iterations part[0] .. part[1] - 1, in a scope that holds those from `start`."""
    level = f.variable.level
    step = Scope(scope.tensors, dict(scope.ranges), scope.rank, {x: scope.memo[x] for x in (*f.invariant, *f.parts)})
    memo = step.memo
    varying = [(x, a) for x in f.parts if (a := memo[x]).ndim and a.shape[level] > 1]
    before = (slice(None),) * level
    for r in range(*part):
        here = (*before, slice(r - start, r - start + 1))
        for x, a in varying:
            memo[x] = a[here]
        memo.update(zip(f.accs, now, strict=True))
        step.move(f.variable, r)
        step.run(f.carried_tape)
        now = [memo[s] for s in f.steps]
        if record is not None:
            record(r, now[k])
    return now


def _taken(f: Fold, scope: Scope, now: list[Any], start: int, stop: int) -> list[Any]:
    """The accumulators after the iterations start .. stop - 1 of a fold that changes nothing where `f.take` is false.

    The condition is computed for windows of iterations with the accumulators as they are; up to the first one in which it
    holds somewhere nothing changes.  A window grows while nothing is taken; taken iterations that are close run one by one.
    """
    r, window, burst = start, FIRST_WINDOW, 1
    longest = max(FIRST_WINDOW, CHUNK // FEW_RECORDS)
    while r < stop:
        end = min(stop, r + window)
        first = _first_taken(f, scope, now, (r, end), start)
        if first is None:
            r, window, burst = end, min(4 * window, longest), 1
            continue
        near = first - r < FIRST_WINDOW // 8
        window, burst = FIRST_WINDOW, min(2 * burst, LONGEST_BURST) if near else 1
        r = min(stop, first + burst)
        now = _iterate(f, scope, now, (first, r), start)
    return now


def _first_taken(f: Fold, scope: Scope, now: list[Any], part: tuple[int, int], start: int) -> int | None:
    """The first iteration of part[0] .. part[1] - 1 in which the fold would take something, if there is one."""
    level = f.variable.level
    here = (*(slice(None),) * level, slice(part[0] - start, part[1] - start))
    memo = {x: scope.memo[x] for x in f.invariant}
    memo.update((x, a[here] if (a := scope.memo[x]).ndim and a.shape[level] > 1 else a) for x in f.parts)
    memo.update(zip(f.accs, now, strict=True))
    step = Scope(scope.tensors, {**scope.ranges, f.variable: part}, scope.rank, memo)
    step.run(f.take_tape)
    taken = np.asarray(memo[f.take])  # type: ignore[index]
    if taken.ndim and taken.shape[level] > 1:
        taken = taken.any(axis=tuple(k for k in range(taken.ndim) if k != level))
        return part[0] + int(taken.argmax()) if taken.any() else None
    return part[0] if taken.any() else None


# ------------------------------------------------------------------------------------------------ quick readings

Reduce: TypeAlias = "Callable[[Fold, Scope, Any, int, int, Record | None], Any]"


def _reduction(f: Fold) -> Reduce | None:
    if f.row is None:
        return None
    if f.row.name == "fma":
        return _fma
    if f.row.name in ("max", "min"):
        return _extremum
    return _accumulate if isinstance(f.row.numpy, np.ufunc) else None


def _operand(f: Fold, x: Any, scope: Scope, length: int) -> Array:
    """x with all axes, and `length` elements along the fold's axis."""
    if x.ndim == 0:
        x = np.reshape(x, (1,) * scope.rank)
    level = f.variable.level
    if x.shape[level] == length:
        return x
    return np.broadcast_to(x, (*x.shape[:level], length, *x.shape[level + 1 :]))


def _first(x: Any, scope: Scope) -> Array:
    return np.reshape(x, (1,) * scope.rank) if x.ndim == 0 else x


def _accumulate(f: Fold, scope: Scope, now: Any, start: int, stop: int, record: Record | None) -> Any:
    ufunc, level, length = f.row.numpy, f.variable.level, stop - start  # type: ignore[union-attr]
    x = _operand(f, scope.memo[f.operands[0]], scope, length)
    now = _first(now, scope)
    outer = np.broadcast_shapes(now.shape, (*x.shape[:level], 1, *x.shape[level + 1 :]))
    if record is None and math.prod(outer) >= FEW and not _is_innermost(x, level):
        return _each(ufunc, now, x, outer, level)
    every = (slice(None),) * level
    states = np.empty((*outer[:level], length + 1, *outer[level + 1 :]), x.dtype)
    states[(*every, slice(0, 1))] = now
    states[(*every, slice(1, None))] = x
    states = ufunc.accumulate(states, axis=level, dtype=x.dtype)  # type: ignore[union-attr]
    if record is not None:
        record(start, states[(*every, slice(1, None))])
    return states[(*every, slice(length, None))].copy()


def _is_innermost(x: Array, level: int) -> bool:
    """Whether the fold's axis has the smallest step in memory."""
    steps = [abs(s) for s, n in zip(x.strides, x.shape, strict=True) if n > 1 and s]
    return not steps or abs(x.strides[level]) <= min(steps)


def _each(ufunc: Any, now: Array, x: Array, outer: tuple[int, ...], level: int) -> Array:
    result = np.array(np.broadcast_to(now, outer))
    view = result.reshape(outer[:level] + outer[level + 1 :])
    for part in np.moveaxis(x, level, 0):
        ufunc(view, part, out=view)
    return result


def _fma(f: Fold, scope: Scope, now: Any, start: int, stop: int, record: Record | None) -> Any:
    fma: Any = f.row.numpy  # type: ignore[union-attr]
    level = f.variable.level
    x, y = (np.moveaxis(_operand(f, scope.memo[o], scope, stop - start), level, 0) for o in f.operands)
    result = np.squeeze(_first(now, scope), level)
    shape = np.broadcast_shapes(x.shape[1:], y.shape[1:], result.shape)
    if math.prod(shape) <= VERY_FEW:
        length = stop - start
        columns = zip(*(np.broadcast_to(v, (length, *shape)).reshape(length, -1).T for v in (x, y)), strict=True)
        firsts = np.broadcast_to(result, shape).reshape(-1).tolist()
        chain = fma32_chain if result.dtype == np.float32 else fma64_chain
        chains = np.array([chain(u, v, a) for (u, v), a in zip(columns, firsts, strict=True)], result.dtype)
        states = np.moveaxis(chains.reshape(*shape, length), -1, level)
        if record is not None:
            record(start, states)
        return states[(*(slice(None),) * level, slice(length - 1, None))]
    for r, (a, b) in enumerate(zip(x, y, strict=True), start):
        result = fma(a, b, result)
        if record is not None:
            record(r, np.expand_dims(result, level))
    return np.expand_dims(result, level)


def _extremum(f: Fold, scope: Scope, now: Any, start: int, stop: int, record: Record | None) -> Any:
    level, length, largest = f.variable.level, stop - start, f.row.name == "max"  # type: ignore[union-attr]
    x, now = _operand(f, scope.memo[f.operands[0]], scope, length), _first(now, scope)
    ufunc = np.maximum if largest else np.minimum
    codes, first = _code(x, largest=largest), _code(now, largest=largest)
    if record is None:
        return _decode(ufunc(first, ufunc.reduce(codes, axis=level, keepdims=True)), x.dtype)
    record(start, _decode(ufunc(first, ufunc.accumulate(codes, axis=level)), x.dtype))
    return _decode(ufunc(first, ufunc.reduce(codes, axis=level, keepdims=True)), x.dtype)


def _code(x: Array, *, largest: bool) -> Array:
    """Integers in the order of x (-0 below +0), NaN beyond the end that wins."""
    if x.dtype.kind != "f":
        return x
    signed = np.dtype(f"i{x.dtype.itemsize}")
    bits = x.view(signed)
    ends = np.iinfo(signed)
    ordered = np.where(bits < 0, bits ^ ends.max, bits)
    return np.where(np.isnan(x), signed.type(ends.max if largest else ends.min), ordered)


def _decode(codes: Array, dtype: np.dtype[Any]) -> Array:
    if dtype.kind != "f":
        return codes
    return np.where(codes < 0, codes ^ np.iinfo(codes.dtype).max, codes).view(dtype)


def _fold(e: E, scope: Scope) -> Any:
    now = states(e, scope)
    return now[0] if len(now) == 1 else now


STRUCTURE["fold"] = _fold
