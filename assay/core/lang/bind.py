"""The program at given sizes: what a program with sizes means.

    bind(program, {"n": 64})        every size replaced by an integer, every node built again

The constructors simplify as they do for a program that was made at those sizes, so that where the same decisions were taken
the two are one object.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

from assay.core import index as index_
from assay.core import polynomial
from assay.core.errors import UserError
from assay.core.index import Ix, Size, Val, Var, evaluate, is_symbolic, ix, variable
from assay.core.lang.expressions import LOADS, E, as_index, const, index, is_const, load_as, op, select
from assay.core.lang.folds import accumulators, folds, rebuild
from assay.core.lang.programs import Program, indices, program
from assay.core.lang.tensors import T, axes, extern, input, let, order, require, scan, scatter

STATED = re.compile(r"\{=([^{}]*)\}")

Scope: TypeAlias = "dict[Var | E, Ix | E]"


def bind(p: Program, sizes: Mapping[str, int]) -> Program:
    """The program at these sizes.

    Raises UserError for a size that is missing or outside of its range, a guard that does not hold, and products of sizes
    beyond polynomial.LIMIT.
    """
    return bind_tensors(p, sizes)[0]


def bind_tensors(p: Program, sizes: Mapping[str, int]) -> tuple[Program, dict[T, T]]:
    """`bind`, and what each tensor has become."""
    missing = [s.name for s in p.sizes if s.name not in sizes]
    if missing:
        raise UserError(f"the program {p.name} needs the sizes {', '.join(missing)}; given: {dict(sizes)}")
    at = {s: sizes[s.name] for s in p.sizes}
    for s, n in at.items():
        if not s.lo <= n <= s.hi:
            raise UserError(f"the size {s.name} = {n} is not in {s.lo}..{s.hi}")
    for m in polynomial.limits(indices(p)):
        reached = evaluate(polynomial.monomial(m), at.__getitem__)
        if reached > polynomial.LIMIT:
            raise UserError(f"{'*'.join(map(repr, m))} = {reached}; at most 2**40 elements are allowed")
    bound = _Bound(at)
    for e in p.guards:
        if not is_const(bound.expression(e), True):
            raise UserError(f"the guard {e!r} of the program {p.name} does not hold for {dict(sizes)}")
    made = _program(p, bound)
    return made, bound.tensors


def _program(p: Program, bound: _Bound) -> Program:
    return program([bound.tensor(t) for t in p.inputs], [bound.tensor(t) for t in p.outputs],
                   [bound.tensor(t) for t in p.checks], p.name)  # fmt: skip


ARITHMETIC: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
}  # fmt: skip


def evaluate_text(text: str, sizes: Mapping[str, int]) -> int:
    """The value of an expression over sizes, as it is written in a message."""

    def value(node: ast.expr) -> int:
        match node:
            case ast.Constant(value=int(n)):
                return n
            case ast.Name(id=name):
                return sizes[name]
            case ast.UnaryOp(op=ast.USub(), operand=x):
                return -value(x)
            case ast.BinOp(left=a, op=how, right=b) if type(how) in ARITHMETIC:
                return ARITHMETIC[type(how)](value(a), value(b))
            case _:
                raise UserError(f"{text!r} is no expression over sizes")

    return value(ast.parse(text, mode="eval").body)


def stated(sizes: Mapping[str, int], text: str) -> str:
    """A message with its expressions over sizes, {=n*m}, evaluated."""
    return STATED.sub(lambda m: str(evaluate_text(m[1], sizes)), text)


class _Bound:
    """Tensors and expressions at given sizes."""

    def __init__(self, at: Mapping[Size, int]) -> None:
        self.at = at
        self.tensors: dict[T, T] = {}

    def extent(self, n: Ix | int) -> int:
        return evaluate(n, self.at.__getitem__) if is_symbolic(n) else n  # type: ignore[return-value]

    def end(self, t: T) -> int:
        """The largest value that a require or an extern states."""
        return t.hi if t.end is None else self.extent(t.end)

    def message(self, text: str) -> str:
        """The message with its expressions over sizes, {=n*m}, evaluated."""
        return stated({s.name: n for s, n in self.at.items()}, text)

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(map(self.extent, shape))

    def tensor(self, t: T) -> T:
        """`t` at the sizes, and what it reads."""
        if t not in self.tensors:
            for x in order((t,)):
                if x not in self.tensors:
                    self.tensors[x] = self._tensor(x)
        return self.tensors[t]

    def _tensor(self, t: T) -> T:
        if t.kind == "input":
            return input(t.name, self.shape(t.shape), t.dtype)
        if t.kind == "let":
            return let(self.shape(t.shape), self.expression(t.body))
        if t.kind == "require":
            body, cond = self.expressions((t.body, t.cond), {})
            return require(self.shape(t.shape), body, cond, self.message(t.message), lo=t.lo, hi=self.end(t))
        if t.kind == "scan":
            rest = self.shape(t.shape[: t.axis] + t.shape[t.axis + 1 :])
            if self.extent(t.body.attr.n) < 2:
                return self._short_scan(t, rest)
            made = self.expression(t.body)  # of a fold with several accumulators the first of them
            return scan(rest, made.args[0] if made.op == "proj" else made, t.k, t.axis)
        if t.kind == "scatter":
            body = self.expression(t.body)
            at = [self.expression(index(i)) for i in t.indices]
            return scatter(self.tensors[t.base], self.shape(t.domain), at, body, t.combine)
        params = tuple(self.extent(x) if is_symbolic(x) else x for x in t.params)
        return extern(t.name, [self.tensors[a] for a in t.args], params, t.output, self.shape(t.shape), t.dtype, t.lo,
                      self.end(t))  # fmt: skip

    def _short_scan(self, t: T, rest: tuple[int, ...]) -> T:
        """The states of a fold of no or one step: y[.., r, ..] = r == 0 ? init : step."""
        half, n = len(t.body.args) // 2, self.extent(t.body.attr.n)
        shape = (*rest[: t.axis], n + 1, *rest[t.axis :])
        every = axes(shape)
        outer = t.shape[: t.axis] + t.shape[t.axis + 1 :]
        scope: Scope = dict(zip(axes(outer), map(ix, every[: t.axis] + every[t.axis + 1 :]), strict=True))
        inits = self.expressions(t.body.args[:half], scope)
        if n == 0:
            return let(shape, inits[t.k])
        after = self._fold(t.body, inits, scope)[t.k]
        return let(shape, select(op("eq", index(every[t.axis]), 0), inits[t.k], after))

    def expression(self, e: E) -> E:
        """`e` at the sizes; its free variables are axes."""
        return self.expressions((e,), {})[0]

    def expressions(self, es: tuple[E, ...], scope: Scope) -> tuple[E, ...]:
        """Expressions at the sizes; `scope` says what the variables and accumulators of the loops around them have become."""
        memo: dict[E, E] = {}

        def atom(a: Var | Val) -> Ix:
            if isinstance(a, Val):
                return as_index(memo[a.e])
            found = scope.get(a)
            return found if isinstance(found, Ix) else ix(variable(a.level, self.extent(a.n)))

        def at(i: Ix) -> Ix:
            return index_.rewrite(i, atom, lambda s: ix(self.at[s]))

        for e in _pending(es):
            if e.op in LOADS:
                t, idx = e.attr
                memo[e] = load_as(e.op, self.tensor(t), *map(at, idx))
            elif e.op == "idx":
                memo[e] = index(at(e.attr), e.dtype)
            elif e.op == "convert" and e.args[0].op == "idx" and e.args[0].attr.is_extent:
                memo[e] = const(self.extent(e.args[0].attr), e.dtype)  # a size as a number that may wrap
            elif e.op == "acc":
                found = scope[e]
                assert isinstance(found, E)
                memo[e] = found
            elif e.op == "fold":
                memo[e] = self._fold(e, tuple(memo[a] for a in e.args[: len(e.args) // 2]), scope)[0]
            elif e.op == "proj":
                half = len(e.args[0].args) // 2
                memo[e] = self._fold(e.args[0], tuple(memo[a] for a in e.args[0].args[:half]), scope)[e.attr]
            else:
                memo[e] = rebuild(e, tuple(memo[a] for a in e.args)) if e.args else e
        return tuple(memo[e] for e in es)

    def _fold(self, e: E, inits: tuple[E, ...], scope: Scope) -> tuple[E, ...]:
        """The accumulators of a fold at the sizes."""

        def step(*state: E | Ix) -> tuple[E, ...]:
            inside: Scope = {**scope, e.attr: state[-1], **dict(zip(accumulators(e), state, strict=False))}
            return self.expressions(e.args[len(inits) :], inside)

        return folds(self.extent(e.attr.n), inits, step)


def _pending(es: tuple[E, ...]) -> list[E]:
    """The nodes to build, in creation order; steps of folds are left to their fold."""
    seen: set[E] = set()
    stack = list(es)
    while stack:
        e = stack.pop()
        if e not in seen:
            seen.add(e)
            below = e.args[0].args[: len(e.args[0].args) // 2] if e.op == "proj" else e.deps
            stack.extend(e.args[: len(e.args) // 2] if e.op == "fold" else below)
    return sorted(seen, key=lambda e: e.id)
