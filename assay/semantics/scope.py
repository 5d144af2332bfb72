"""Evaluation of expressions on boxes of their variables.

Array axis k is the variable of level k: every array has as many axes as the tensor's expressions have levels, and length 1
on each axis it does not depend on.  So a node's array depends on the node and the box alone, and numpy's broadcasting
is the language's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from assay.core.errors import InternalError
from assay.core.index import Div, Factor, Ix, Val, Var, divisions, factors
from assay.core.lang import E, T
from assay.semantics.tape import STRUCTURAL, Array, Tape, constant

WIDE = 1 << 62
"""Index arithmetic whose intermediate values may reach this is done on Python integers."""


class Stored:
    """The array of a tensor (C-contiguous), as a flat array and as bytes."""

    __slots__ = ("array", "flat", "raw")

    def __init__(self, array: Array) -> None:
        self.array = array
        self.flat = array.reshape(-1)
        self.raw = self.flat.view(np.uint8)


class Scope:
    """Ranges of the variables, arrays of the tensors, and the values that are known so far."""

    __slots__ = ("known", "memo", "ranges", "rank", "tensors")

    def __init__(self, tensors: dict[T, Stored], ranges: dict[Var, tuple[int, int]], rank: int, memo: dict[E, Any]) -> None:
        self.tensors, self.ranges, self.rank, self.memo = tensors, ranges, rank, memo
        self.known: dict[Ix | Var, Any] = {}

    def run(self, tape: Tape) -> None:
        """Executes straight-line code."""
        memo = self.memo
        for i in tape:
            node = i.node
            if i.function is not None:
                memo[node] = i.function(*[memo[a] for a in i.arguments])
            else:
                memo[node] = STRUCTURE[node.op](node, self)
            for a in i.release:
                del memo[a]

    def move(self, v: Var, r: int) -> None:
        """Binds `v` to the one value r; what was computed from its old range must be computed again."""
        self.ranges[v] = r, r + 1
        self.known.clear()

    def axis(self, v: Var) -> Any:
        """The values of `v`, along its axis."""
        found = self.known.get(v)
        if found is None:
            lo, hi = self.ranges[v]
            shape = [1] * self.rank
            shape[v.level] = hi - lo
            found = self.known[v] = np.arange(lo, hi, dtype=np.int64).reshape(shape)
        return found

    def index(self, i: Ix) -> Any:
        """The value of an index expression, in mathematical integers (an object array where i64 could overflow)."""
        if not i.terms:
            return i.c
        found = self.known.get(i)
        if found is None:
            found = self.known[i] = self._index(i)
        return found

    def _index(self, i: Ix) -> Any:
        wide = _is_wide(i)
        result: Any = i.c
        for term, k in i.terms:
            x: Any = None
            for a in factors(term):
                y = self._atom(a)
                if wide:
                    y = np.asarray(y).astype(object)  # of Python integers
                x = y if x is None else x * y
            x = x * k if k != 1 else x
            result = x if result is i.c and i.c == 0 else result + x
        return result

    def _atom(self, a: Factor) -> Any:
        """The value of a factor.  There are no sizes: a program is run at given ones."""
        if isinstance(a, Var):
            return self.axis(a)
        if isinstance(a, Div):
            return self.index(a.e) // a.c
        assert isinstance(a, Val)
        return self.memo[a.e].astype(np.int64)


_wide: dict[Ix, bool] = {}


def _is_wide(i: Ix) -> bool:
    found = _wide.get(i)
    if found is None:
        total = abs(i.c) + sum(abs(k) * max(abs(a.lo), abs(a.hi)) for a, k in i.terms)
        deeper = any(_is_wide(d.e) for d in divisions(i))
        found = _wide[i] = total >= WIDE or deeper
    return found


# ------------------------------------------------------------------------------------------------ structural nodes


def _const(e: E, _: Scope) -> Any:
    return constant(e)


def _idx(e: E, scope: Scope) -> Any:
    i = scope.index(e.attr)
    return np.asarray(i).astype(e.dtype.numpy)


def _proj(e: E, scope: Scope) -> Any:
    return scope.memo[e.args[0]][e.attr]


def _cast(e: E, scope: Scope) -> Any:
    return _casts(e)(scope.memo[e.args[0]])


_cast_of: dict[E, Callable[[Any], Any]] = {}


def _casts(e: E) -> Callable[[Any], Any]:
    found = _cast_of.get(e)
    if found is None:
        found = _cast_of[e] = STRUCTURAL[e.op](e)
    return found


def _acc(e: E, _: Scope) -> Any:
    raise InternalError(f"{e!r} is used outside of its fold")


# ------------------------------------------------------------------------------------------------ loads


class Access:
    """A load, prepared: a strided view where every index is affine in variables and inside; else a gather.

    `outside` are the axes whose index may lie outside by its interval.
    """

    __slots__ = ("is_view", "outside", "start", "steps", "strides")

    def __init__(self, e: E) -> None:
        t, idx = e.attr
        self.strides = _strides(t.shape)
        self.outside = frozenset(k for k, (i, n) in enumerate(zip(idx, t.shape, strict=True)) if i.lo < 0 or i.hi >= n)
        self.is_view = not self.outside and all(isinstance(a, Var) for i in idx for a, _ in i.terms)
        steps: dict[Var, int] = {}
        self.start = 0
        if self.is_view:
            for i, stride in zip(idx, self.strides, strict=True):
                self.start += i.c * stride
                for a, k in i.terms:
                    steps[a] = steps.get(a, 0) + k * stride
        self.steps = tuple(steps.items())


_accesses: dict[E, Access] = {}


@cache
def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(shape[k + 1 :]) for k in range(len(shape)))


def _load(e: E, scope: Scope) -> Any:
    access = _accesses.get(e)
    if access is None:
        access = _accesses[e] = Access(e)
    t, idx = e.attr
    stored = scope.tensors[t]
    if access.is_view:
        return _view(access, stored, scope)
    return _gather(access, idx, t, stored, scope)


def _view(access: Access, stored: Stored, scope: Scope) -> Any:
    size, offset = stored.flat.itemsize, access.start
    if not access.steps:
        return stored.flat[offset]
    shape, strides = [1] * scope.rank, [0] * scope.rank
    for v, step in access.steps:
        lo, hi = scope.ranges[v]
        offset += lo * step
        shape[v.level], strides[v.level] = hi - lo, step * size
    return np.ndarray(shape, stored.flat.dtype, stored.raw, offset * size, strides)  # type: ignore[call-overload]


def _gather(access: Access, idx: tuple[Ix, ...], t: T, stored: Stored, scope: Scope) -> Any:
    address: Any = 0
    inside: Any = None
    for k, (i, n, stride) in enumerate(zip(idx, t.shape, access.strides, strict=True)):
        x = scope.index(i)
        if k in access.outside:
            fits = np.asarray((x >= 0) & (x < n), np.bool_)
            inside = fits if inside is None else inside & fits
            x = np.where(fits, x, 0)
        x = np.asarray(x, np.int64)
        if stride != 0:
            address = address + x * stride
    if inside is None:
        return stored.flat[address]
    zero = np.zeros((), t.dtype.numpy)
    if t.size == 0:
        return np.broadcast_to(zero, np.broadcast(inside, address).shape)
    return np.where(inside, stored.flat[address], zero)


STRUCTURE: dict[str, Callable[[E, Scope], Any]] = {
    "const": _const, "idx": _idx, "proj": _proj, "acc": _acc, "load": _load, "load_or_zero": _load,
    "convert": _cast, "bitcast": _cast,
}  # fmt: skip
"""How the nodes that are not rows of the table are evaluated; fold.py adds "fold"."""
