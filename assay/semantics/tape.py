"""Expressions as straight-line code: what is computed, in which order, and what a fold's steps share.  Compiled once a node.

A fold over v splits the nodes below its steps into four groups, each computed as seldom as possible:

    invariant   without v: computed with the fold's arguments, outside
    parts       with v, without the accumulators: computed for a range of v at once
    carried     with the accumulators: computed once an iteration
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from assay.core.dtypes import DType
from assay.core.errors import InternalError
from assay.core.index import Var
from assay.core.lang import E, accumulators, apply_row, expand, input, load
from assay.core.row import TABLE, Row

Array: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Instruction:
    """memo[node] = function(memo[arguments]...); structural nodes have no function.  `release` is not needed afterwards."""

    node: E
    function: Callable[..., Any] | None
    arguments: tuple[E, ...]
    release: tuple[E, ...]


Tape: TypeAlias = tuple[Instruction, ...]


@dataclass(frozen=True, slots=True)
class Fold:
    """A fold node, taken apart.  Where it is acc = row(acc, operand) or acc = fma(x, y, acc), `row` and `operands` say so.

    Where every accumulator becomes select(take, new, acc), `take` is that one condition: where it is false nothing changes.
    `rank` is 1 + the highest level of a variable that it binds, or that folds in its steps bind.
    """

    node: E
    variable: Var
    inits: tuple[E, ...]
    steps: tuple[E, ...]
    accs: tuple[E, ...]
    invariant: tuple[E, ...]
    parts: tuple[E, ...]
    parts_tape: Tape
    carried_tape: Tape
    row: Row | None
    operands: tuple[E, ...]
    take: E | None
    take_tape: Tape
    rank: int


_folds: dict[E, Fold] = {}


def needs(e: E) -> tuple[E, ...]:
    """What must be known before `e` is computed."""
    if e.op != "fold":
        return e.deps
    f = fold_of(e)
    return f.inits + f.invariant


def reachable(roots: Iterable[E], stop: Callable[[E], bool]) -> list[E]:
    """The nodes that computing `roots` takes, without those that `stop` holds for, arguments first."""
    seen: set[E] = set()
    stack = [e for e in roots if not stop(e)]
    while stack:
        e = stack.pop()
        if e not in seen:
            seen.add(e)
            stack.extend(d for d in needs(e) if d not in seen and not stop(d))
    return sorted(seen, key=lambda e: e.id)


def tape(roots: tuple[E, ...], nodes: Iterable[E]) -> Tape:
    """The code that computes `nodes` (in order); everything but `roots` is released after its last use."""
    nodes = tuple(nodes)
    last: dict[E, int] = {}
    for k, e in enumerate(nodes):
        last[e] = k
        for d in needs(e):
            last[d] = k
    own = set(nodes).difference(roots)
    release: list[list[E]] = [[] for _ in nodes]
    for e, k in last.items():
        if e in own:
            release[k].append(e)
    return tuple(Instruction(e, _function(e), e.args, tuple(release[k])) for k, e in enumerate(nodes))


def _function(e: E) -> Callable[..., Any] | None:
    r = TABLE.get(e.op)
    if r is None:
        return None
    return r.numpy if callable(r.numpy) else kernel(r, tuple(a.dtype for a in e.args))


def fold_of(e: E) -> Fold:
    """The fold node `e`, taken apart."""
    found = _folds.get(e)
    if found is not None:
        return found
    v, half = e.attr, len(e.args) // 2
    inits, steps, accs = e.args[:half], e.args[half:], accumulators(e)
    inside = reachable(steps, lambda d: v not in d.free)
    carried: set[E] = set()
    for d in inside:
        if d in accs or any(x in carried for x in needs(d)):
            carried.add(d)
    invariant = dict.fromkeys(d for d in steps if v not in d.free)
    parts = dict.fromkeys(d for d in steps if v in d.free and d not in carried)
    for d in inside:
        for x in needs(d):
            if v not in x.free:
                invariant[x] = None
            elif d in carried and x not in carried:
                parts[x] = None
    r, operands = _reduction(steps, accs, carried)
    loop = [d for d in inside if d in carried and d not in accs]
    take = _taken(steps, accs)
    below = set(reachable((take,), lambda d: v not in d.free)) if take is not None else set[E]()
    found = _folds[e] = Fold(
        e, v, inits, steps, accs, tuple(invariant), tuple(parts),
        tape(tuple(parts), (d for d in inside if d not in carried)), tape(steps, loop), r, operands,
        take, tape((take,), (d for d in loop if d in below)) if take is not None else (),
        rank_of((d for d in inside if d is not e), v.level + 1),
    )  # fmt: skip
    return found


COMMUTATIVE = frozenset(("add", "mul", "max", "min", "and", "or", "band", "bor", "bxor", "umulhi"))
"""Rows whose two arguments may change places, bit for bit (NaNs identified)."""


def _reduction(steps: tuple[E, ...], accs: tuple[E, ...], carried: set[E]) -> tuple[Row | None, tuple[E, ...]]:
    """(row, operands) where the fold is acc = row(acc, operand), or acc = fma(x, y, acc)."""
    if len(steps) != 1:
        return None, ()
    step, a = steps[0], accs[0]
    r = TABLE.get(step.op)
    if r is None or step not in carried:
        return None, ()
    if step.op == "fma" and step.args[2] is a and not carried.intersection(step.args[:2]):
        return r, step.args[:2]
    if step.op in COMMUTATIVE:
        for x, y in (step.args, step.args[::-1]):
            if x is a and y not in carried:
                return r, (y,)
    return None, ()


def _taken(steps: tuple[E, ...], accs: tuple[E, ...]) -> E | None:
    """The condition of the step where it is select(condition, new, acc) for each accumulator that it changes."""
    changed = [(s, a) for s, a in zip(steps, accs, strict=True) if s is not a]
    if not changed or any(s.op != "select" or s.args[2] is not a for s, a in changed):
        return None
    conditions = {s.args[0] for s, _ in changed}
    return conditions.pop() if len(conditions) == 1 else None


def rank_of(nodes: Iterable[E], rank: int) -> int:
    """How many levels of variables there are: `rank`, or more where the folds among `nodes` bind higher ones."""
    return max([rank, *(fold_of(e).rank for e in nodes if e.op == "fold")])


# ------------------------------------------------------------------------------------------------ named rows

_kernels: dict[tuple[Row, tuple[DType, ...]], Callable[..., Any]] = {}
_constants: dict[E, Any] = {}


def constant(e: E) -> Any:
    """The numpy value of a const node (halves as 0-d arrays, whose operations keep their type)."""
    found = _constants.get(e)
    if found is None:
        raw = np.array(e.attr, f"u{e.dtype.itemsize}").view(e.dtype.numpy)
        found = _constants[e] = raw if e.dtype.is_half else raw[()]
    return found


def kernel(r: Row, types: tuple[DType, ...]) -> Callable[..., Any]:
    """The composition of a named row as one function of arrays; compiled once for each tuple of types."""
    found = _kernels.get((r, types))
    if found is None:
        found = _kernels[r, types] = _compile(r, types)
    return found


def composition(e: E) -> list[E]:
    """The nodes of what a named row node means, in order, without its arguments.  Raises InternalError for a fold in it."""
    body = expand(e)
    if body.has_fold:
        raise InternalError(f"{e.op}: the composition of a named row must not contain a fold")
    return reachable((body,), lambda d: d in e.args)


def _compile(r: Row, types: tuple[DType, ...]) -> Callable[..., Any]:
    arguments = tuple(load(input(f"{r.name} argument {k}", (), d)) for k, d in enumerate(types))
    node = apply_row(r, arguments)
    body = expand(node)
    code: list[tuple[E, Callable[..., Any], tuple[E, ...], tuple[E, ...]]] = []
    start: dict[E, Any] = {}
    for i in tape((body,), composition(node)):
        if i.node.op == "const":
            start[i.node] = constant(i.node)
        else:
            code.append((i.node, i.function or STRUCTURAL[i.node.op](i.node), i.arguments, i.release))

    def run(*values: Any) -> Any:
        memo = dict(start)
        memo.update(zip(arguments, values, strict=True))
        for node, function, needed, release in code:
            memo[node] = function(*[memo[a] for a in needed])
            for a in release:
                memo.pop(a, None)
        return memo[body]

    run.__name__ = r.name
    return run


# ------------------------------------------------------------------------------------------------ conversions


def bitcast(e: E) -> Callable[[Any], Any]:
    """The reading of a bitcast node."""
    target = e.dtype.numpy
    return lambda x: x.view(target)


def convert(e: E) -> Callable[[Any], Any]:
    """The reading of a convert node: nearest even, wrapping; float to integer saturates and maps NaN to 0."""
    source, target = e.args[0].dtype, e.dtype
    if not source.is_float or target.is_float:
        return lambda x: x.astype(target.numpy)
    lo, hi, zero = (np.array(n, target.numpy) for n in (target.lo, target.hi, 0))
    nothing = source.numpy.type(0)
    below, above = source.numpy.type(target.lo), source.numpy.type(target.hi + 1)  # powers of two or 0: exact

    def saturate(x: Any) -> Any:
        inside = (x > below) & (x < above)
        outside = np.where(x >= above, hi, np.where(x <= below, lo, zero))
        return np.where(inside, np.where(inside, x, nothing).astype(target.numpy), outside)

    return saturate


STRUCTURAL: dict[str, Callable[[E], Callable[[Any], Any]]] = {"convert": convert, "bitcast": bitcast}
