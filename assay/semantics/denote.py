"""The meaning of programs: their outputs, bit for bit, computed with numpy: the reference of everything else.

    run(program, inputs) -> outputs, or the error of the first of its checks that does not hold

Loads outside a tensor give 0, writes outside are dropped; integers wrap; folds and scatters run in lexicographic order.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from assay.core.dtypes import dtype
from assay.core.errors import UserError
from assay.core.externs import EXTERNS
from assay.core.ieee import ieee
from assay.core.index import values
from assay.core.lang import E, Program, T, axes
from assay.core.row import TABLE
from assay.semantics.compare import bits_equal, evidence, first_difference
from assay.semantics.failure import RequireError, raise_require
from assay.semantics.fold import states
from assay.semantics.scope import Scope, Stored
from assay.semantics.tape import Array, Tape, needs, rank_of, reachable, tape

BLOCK = 1 << 16
"""Elements of a tensor that are evaluated at once, so that intermediate values stay in the cache."""

Box: TypeAlias = "tuple[slice, ...]"

__all__ = ["Meanings", "RequireError", "bits_equal", "evaluate", "evidence", "first_difference", "raise_require", "run"]


def run(program: Program, inputs: Sequence[Any]) -> list[Array]:
    """The outputs of `program` (C-contiguous, of exactly their dtype, owned by the caller).

    Raises UserError naming the input whose shape or dtype is wrong; RequireError where a condition does not hold.
    """
    if len(inputs) != len(program.inputs):
        raise UserError(f"program {program.name} takes {len(program.inputs)} inputs, not {len(inputs)}")
    known = {t: _checked(t, a) for t, a in zip(program.inputs, inputs, strict=True)}
    computed = _compute((*program.checks, *program.outputs), known)
    results: list[Array] = []
    for k, t in enumerate(program.outputs):
        a = computed[t].array
        results.append(a.copy() if t in known or t in program.outputs[:k] else a)
    return results


def evaluate(tensors: Sequence[T], arrays: Mapping[T, Array]) -> list[Array]:
    """The values of `tensors`, given those of the tensors in `arrays` (inputs, or any definition to be taken as known)."""
    known = {t: _checked(t, a) for t, a in arrays.items()}
    computed = _compute(tuple(tensors), known)
    return [computed[t].array for t in tensors]


class Meanings:
    """What programs of the same inputs mean on one choice of arrays: a tensor that several of them define is computed once.

    Tensors are interned, so the same definition has the same value wherever it stands.  Values of more than KEPT elements
    are computed again.  The results are shared: they are for reading.
    """

    KEPT = 1 << 14

    def __init__(self, inputs: Sequence[T], arrays: Sequence[Any]) -> None:
        self.inputs = tuple(inputs)
        self.arrays = [np.array(a, order="C") for a in arrays]
        self._kept: dict[T, Stored] = {}

    def run(self, program: Program) -> list[Array]:
        """As `run` on the arrays."""
        if program.inputs != self.inputs:
            return run(program, self.arrays)
        known = self._kept or {t: _checked(t, a) for t, a in zip(self.inputs, self.arrays, strict=True)}
        self._kept = known
        wanted = (*program.checks, *program.outputs)
        computed = _compute(wanted, {t: known[t] for t in _given(wanted, known)}, known)
        return [computed[t].array for t in program.outputs]


def _given(roots: Sequence[T], known: Mapping[T, Stored]) -> Iterator[T]:
    """The known tensors from which the others that the roots need are computed."""
    seen: set[T] = set()
    todo = list(roots)
    while todo:
        t = todo.pop()
        if t not in seen:
            seen.add(t)
            if t in known:
                yield t
            else:
                todo.extend(t.reads)


def _checked(t: T, a: Any) -> Stored:
    name = f"input {t.name!r}" if t.kind == "input" else repr(t)
    if not isinstance(a, np.ndarray | np.generic):
        raise UserError(f"{name}: a numpy array is needed, not {type(a).__name__}")
    if a.dtype != t.dtype.numpy:
        raise UserError(f"{name}: dtype {a.dtype} given, {t.dtype.numpy} ({t.dtype.name}) needed")
    if a.shape != t.shape:
        raise UserError(f"{name}: shape {list(a.shape)} given, {list(t.shape)} needed")
    return Stored(np.asarray(a, order="C"))


@cache
def _plan(roots: tuple[T, ...], given: frozenset[T]) -> list[tuple[T, tuple[T, ...]]]:
    """The tensors to compute, the roots in their order, each with those that are not needed after it."""
    order: list[T] = []
    seen: set[T] = set()
    todo = [(t, False) for t in reversed(roots)]
    while todo:
        t, done = todo.pop()
        if done:
            order.append(t)
        elif t not in seen and t not in given:
            seen.add(t)
            todo.append((t, True))
            todo.extend((r, False) for r in sorted(t.reads, key=lambda r: -r.id))
    last = {r: k for k, t in enumerate(order) for r in (t, *t.reads)}
    release: list[list[T]] = [[] for _ in order]
    for r, k in last.items():
        if r not in roots and r not in given:
            release[k].append(r)
    return [(t, tuple(release[k])) for k, t in enumerate(order)]


def _compute(roots: tuple[T, ...], known: dict[T, Stored], kept: dict[T, Stored] | None = None) -> dict[T, Stored]:
    """The values of the roots, and of what is known; values of at most Meanings.KEPT elements are put into `kept`."""
    tensors = dict(known)
    with ieee(), np.errstate(all="ignore"):
        for t, release in _plan(roots, frozenset(known)):
            if t.kind == "input":
                raise UserError(f"the input {t!r} has no value")
            tensors[t] = Stored(KINDS[t.kind](t, tensors))
            if kept is not None and t.size <= Meanings.KEPT:
                kept[t] = tensors[t]
            for r in release:
                del tensors[r]
    return tensors


# ------------------------------------------------------------------------------------------------ blocks


def blocks(shape: tuple[int, ...]) -> Iterator[Box]:
    """Boxes of at most BLOCK elements that cover an array of this shape, in lexicographic order."""
    limit = BLOCK
    if math.prod(shape) <= limit:
        yield tuple(slice(0, n) for n in shape)
        return
    k, inner = len(shape), 1
    while k and inner * shape[k - 1] <= limit:
        k -= 1
        inner *= shape[k]
    rest = tuple(slice(0, n) for n in shape[k:])
    length = max(1, limit // inner)
    for lead in itertools.product(*(range(n) for n in shape[: k - 1])):
        for start in range(0, shape[k - 1], length):
            yield (*(slice(i, i + 1) for i in lead), slice(start, min(shape[k - 1], start + length)), *rest)


class Code:
    """Expressions over the axes of a shape, compiled: `roots` are computed by `tape` in arrays of `rank` axes.

    `boxes` cut the shape.  A fold that does not depend on every axis that is cut is `hoisted`: evaluated beforehand,
    once for all boxes.
    """

    __slots__ = ("axes", "boxes", "hoisted", "rank", "shape", "tape")

    def __init__(self, shape: tuple[int, ...], roots: tuple[E, ...], rank: int = 0) -> None:
        self.shape, self.axes = shape, axes(shape)
        self.boxes = tuple(blocks(shape))
        cut = {v for v, s in zip(self.axes, self.boxes[0], strict=True) if s.stop - s.start < v.n} if self.boxes else set()
        self.hoisted: dict[E, None] = {}

        def hoists(e: E) -> bool:
            if cut and e.op == "fold" and not cut <= e.free:
                self.hoisted[e] = None
                return True
            return False

        nodes = reachable(roots, hoists)
        self.rank = rank_of((*nodes, *self.hoisted), max(rank, len(shape)))
        self.tape: Tape = tape(roots, nodes)


@cache
def code_of(shape: tuple[int, ...], roots: tuple[E, ...], rank: int = 0) -> Code:
    """The code of `roots` over the axes of `shape`, compiled once."""
    return Code(shape, roots, rank)


def _scopes(code: Code, tensors: dict[T, Stored]) -> Iterator[tuple[Box, Scope]]:
    """The boxes of the shape, each with the scope in which the code has run."""
    whole = {e: _hoisted(e, code, tensors) for e in code.hoisted}
    for box in code.boxes:
        ranges = {v: (s.start, s.stop) for v, s in zip(code.axes, box, strict=True)}
        memo: dict[E, Any] = {e: [_part(x, box) for x in a] if isinstance(a, list) else _part(a, box) for e, a in whole.items()}
        scope = Scope(tensors, ranges, code.rank, memo)
        scope.run(code.tape)
        yield box, scope


def _hoisted(e: E, code: Code, tensors: dict[T, Stored]) -> Any:
    """A fold over the axes it depends on: one array for each accumulator, of length 1 on the other axes."""
    shape = tuple(v.n if v in e.free else 1 for v in code.axes)
    count = len(e.args) // 2
    results = [np.empty(shape + (1,) * (code.rank - len(shape)), a.dtype.numpy) for a in e.args[:count]]
    for box, scope in _scopes(code_of(shape, (e,), code.rank), tensors):
        found = scope.memo[e]
        for result, x in zip(results, found if isinstance(found, list) else [found], strict=True):
            result[box] = x
    return results if count > 1 else results[0]


def _part(a: Array, box: Box) -> Array:
    return a[tuple(s if n > 1 else slice(None) for s, n in zip(box, a.shape, strict=False))]


def _over(x: Any, rank: int) -> Any:
    """x without the axes of folds, which have length 1."""
    return x if x.ndim <= rank else x.reshape(x.shape[:rank])


# ------------------------------------------------------------------------------------------------ kinds of tensors


def _let(t: T, tensors: dict[T, Stored]) -> Array:
    code = code_of(t.shape, (t.body,))
    rank = len(t.shape)
    out: Array | None = None
    if t.size == 0:
        return np.empty(t.shape, t.dtype.numpy)
    for box, scope in _scopes(code, tensors):
        x = _over(scope.memo[t.body], rank)
        if out is None:
            if x.shape == t.shape and isinstance(x, np.ndarray) and x.base is None and x.flags.c_contiguous:
                return x
            out = np.empty(t.shape, t.dtype.numpy)
        out[box] = x
    assert out is not None
    return out


def _require(t: T, tensors: dict[T, Stored]) -> Array:
    code = code_of(t.shape, (t.body, t.cond))
    rank = len(t.shape)
    out = np.empty(t.shape, t.dtype.numpy)
    if t.size == 0:
        return out
    for box, scope in _scopes(code, tensors):
        x, holds = _over(scope.memo[t.body], rank), _over(scope.memo[t.cond], rank)
        out[box] = x
        if not np.all(holds):
            local = np.unravel_index(int(np.argmin(np.broadcast_to(holds, out[box].shape))), out[box].shape)
            index = tuple(int(i) + s.start for i, s in zip(local, box, strict=True))
            raise_require(t, int(np.ravel_multi_index(index, t.shape)) if index else 0, out[index])
    if t.dtype.is_integer and (t.lo > t.dtype.lo or t.hi < t.dtype.hi) and not t.lo <= out.min() <= out.max() <= t.hi:
        raise UserError(
            f"the require {t.message!r} states the range {t.lo}..{t.hi}, and its condition lets {out.min()}..{out.max()} pass; "
            "what reads it believes the range: state one that the condition implies"
        )
    return out


def _scan(t: T, tensors: dict[T, Stored]) -> Array:
    e = t.body
    rest = t.shape[: t.axis] + t.shape[t.axis + 1 :]
    out = np.empty(t.shape, t.dtype.numpy)
    if out.size == 0:
        return out
    along = np.moveaxis(out, t.axis, -1)
    inits = e.args[: len(e.args) // 2]
    code = code_of(rest, needs(e), rank_of((e,), len(rest)))
    level = e.attr.level
    for box, scope in _scopes(code, tensors):
        along[(*box, 0)] = _over(scope.memo[inits[t.k]], len(rest))

        def record(r: int, x: Any, box: Box = box) -> None:
            if x.ndim == 0:
                along[(*box, r + 1)] = x
                return
            lead = x.shape[:level] + (1,) * (len(rest) - level)
            along[(*box, slice(r + 1, r + 1 + x.shape[level]))] = x.reshape(*lead, x.shape[level])

        states(e, scope, record, t.k)
    return out


def _scatter(t: T, tensors: dict[T, Stored]) -> Array:
    out = tensors[t.base].array.copy()
    size = math.prod(t.domain)
    if size == 0 or t.size == 0:
        return out
    roots = (t.body, *(v.e for i in t.indices for v in values(i)))
    code = code_of(t.domain, roots)
    flat = out.reshape(-1)
    combine = _combine(t.combine)
    for box, scope in _scopes(code, tensors):
        shape = tuple(s.stop - s.start for s in box)
        address, inside = _addresses(t, scope, shape)
        x = np.broadcast_to(_over(scope.memo[t.body], len(shape)), shape).reshape(-1)
        combine(flat, address[inside], x[inside])
    return out


def _addresses(t: T, scope: Scope, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """The flat position that each element of the box writes to, and whether it lies in the tensor."""
    address = np.zeros(shape, np.int64)
    inside = np.ones(shape, np.bool_)
    stride = t.size
    for i, n in zip(t.indices, t.shape, strict=True):
        stride //= n
        x = _over(np.asarray(scope.index(i)), len(shape))
        fits = np.asarray((x >= 0) & (x < n), np.bool_)
        inside &= fits
        address += np.asarray(np.where(fits, x, 0), np.int64) * stride
    return address.reshape(-1), inside.reshape(-1)


Combine: TypeAlias = "Callable[[Array, Array, Array], None]"


def _combine(name: str | None) -> Combine:
    """(y, addresses, values) -> y updated in order."""
    if name is None:
        return _set
    r = TABLE[name].numpy
    return r.at if isinstance(r, np.ufunc) else lambda y, at, x: _in_rounds(r, y, at, x)  # type: ignore[return-value]


def _set(y: Array, at: Array, x: Array) -> None:
    _, last = np.unique(at[::-1], return_index=True)
    last = at.size - 1 - last
    y[at[last]] = x[last]


def _in_rounds(r: Any, y: Array, at: Array, x: Array) -> None:
    """The k-th round applies the k-th update of every address: updates of one address stay in order."""
    order = np.argsort(at, kind="stable")
    sorted_ = at[order]
    starts = np.flatnonzero(np.r_[True, sorted_[1:] != sorted_[:-1]]) if at.size else np.zeros(0, np.int64)
    turn = np.arange(at.size) - np.repeat(starts, np.diff(np.r_[starts, at.size]))
    rounds = order[np.argsort(turn, kind="stable")]
    start = 0
    for n in np.bincount(turn).tolist():
        now = rounds[start : start + n]
        y[at[now]] = r(y[at[now]], x[now])
        start += n


def _extern(t: T, tensors: dict[T, Stored]) -> Array:
    function = EXTERNS.get(t.name)
    if function is None:
        raise UserError(f"unknown extern {t.name!r}; registered: {', '.join(sorted(EXTERNS))}")
    result = function(*(tensors[a].array for a in t.args), *t.params)[t.output]
    if result.shape != t.shape or dtype(result.dtype) is not t.dtype:
        raise UserError(f"extern {t.name}: output {t.output} is {result.dtype}{list(result.shape)}, declared {t!r}")
    if t.dtype.is_integer and (t.lo, t.hi) != (t.dtype.lo, t.dtype.hi) and result.size:  # bounds of what reads it rest on that
        least, most = int(result.min()), int(result.max())
        if least < t.lo or most > t.hi:
            raise UserError(f"extern {t.name}: output {t.output} lies in {least}..{most}, declared {t.lo}..{t.hi}")
    return np.array(result, order="C")


KINDS: dict[str, Callable[[T, dict[T, Stored]], Array]] = {
    "let": _let, "require": _require, "scan": _scan, "scatter": _scatter, "extern": _extern,
}  # fmt: skip
