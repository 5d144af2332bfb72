"""The reverse derivative of programs: cotangents of outputs to gradients, as a program.

    adjoint([y], [c], [x])  ->  [g],   g = (dy/dx)^T c

The definitions are visited from last to first.  In each the cotangent of its elements is carried to the loads of its body
(push.py, fold_adjoint.py), which gives contributions x[at(scope)] += value; these become a gather by solving at(scope) = j
(solve.py), or a scatter where the position depends on data.  The result is a program like any other: it is differentiated again,
compiled, proved.

Gradients have the types of their tensors; those of half types are computed in f32 and rounded where they are stored.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Sequence

from assay.core import dtypes as dt
from assay.core.dtypes import compute_dtype
from assay.core.errors import Unsupported
from assay.core.index import Ix, Var, fresh, ix
from assay.core.lang import (
    E,
    Environment,
    Program,
    T,
    axes,
    const,
    convert,
    index,
    input,
    let,
    load,
    op,
    order,
    program,
    scatter,
    select,
    substitute,
    substitute_all,
    tensor,
)
from assay.semantics.access import row_major
from assay.semantics.definition import as_fold
from assay.semantics.tangent import LINEAR_SCATTERS, check_like
from assay.transforms.cotangent import Cotangent, chosen
from assay.transforms.fold_adjoint import adjoint_of_scan
from assay.transforms.push import Frame, push
from assay.transforms.solve import Contribution, Solution, Unsolved, scattered, solution

WASTE = 4
"""How many times more terms a gather may go through than the contribution has; beyond it a scatter is made."""

PHASES = 64
"""The most tensors that a strided contribution is made of; beyond it a condition of divisibility stays."""


def adjoint(outputs: Sequence[T], cotangents: Sequence[T], wrt: Sequence[T]) -> list[T]:
    """The gradient with respect to each tensor of `wrt` (inputs, or definitions) of the sum of outputs times cotangents.

    Raises UserError for a cotangent of another shape or type than its output, Unsupported for programs with sizes and for
    externs of floats.
    """
    for y, c in zip(outputs, cotangents, strict=True):
        check_like(y, c, "cotangent")
    for x in wrt:
        check_like(x, x, "gradient")
    if any(not isinstance(n, int) for t in order((*outputs, *cotangents)) for n in t.shape):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise Unsupported("derivatives of programs with sizes; bind the sizes first")
    return _Reverse(outputs, wrt).run(list(zip(outputs, cotangents, strict=True)), wrt)


def gradient_program(p: Program, wrt: Sequence[T] | None = None) -> Program:
    """inputs, cotangents of the float outputs -> gradients of `wrt` (by default the float inputs), with the checks of `p`.

    The cotangent of output k is the input d{k}.
    """
    wanted = [t for t in p.inputs if t.dtype.is_float] if wrt is None else list(wrt)
    given = [k for k, t in enumerate(p.outputs) if t.dtype.is_float]
    seeds = cotangents_of(p, given)
    gradients = adjoint([p.outputs[k] for k in given], seeds, wanted)
    return program((*p.inputs, *seeds), gradients, p.checks, f"{p.name}_gradient")


def cotangents_of(p: Program, given: Sequence[int]) -> tuple[T, ...]:
    """The cotangents of the outputs `given`: that of output k is the input d{k}."""
    names = {t.name for t in p.inputs}
    return tuple(input(unused(f"d{k}", names), p.outputs[k].shape, p.outputs[k].dtype) for k in given)


def unused(name: str, known: Collection[str]) -> str:
    """The name, with as many underscores as make it a new one."""
    while name in known:
        name += "_"
    return name


class _Reverse:
    """The cotangents of tensors, and what has been contributed to them so far."""

    def __init__(self, outputs: Sequence[T], wrt: Sequence[T]) -> None:
        self.definitions = order(outputs)
        active = set(wrt)
        for t in self.definitions:
            if t.dtype.is_float and not t.reads.isdisjoint(active):
                active.add(t)
        self.active = frozenset(active)
        self.contributions: dict[T, list[Contribution]] = {}
        self.whole: dict[T, list[T]] = {}

    def run(self, seeds: Sequence[tuple[T, T]], wrt: Sequence[T]) -> list[T]:
        for y, c in seeds:
            self.whole.setdefault(y, []).append(c)
        made: dict[T, T] = {}
        for t in reversed(self.definitions):
            if t not in self.active or not (self.whole.get(t) or self.contributions.get(t)):
                continue
            bar = made[t] = gathered(t, self.whole.get(t, []), self.contributions.get(t, []))
            if t.kind != "input" and not t.reads.isdisjoint(self.active):
                self._visit(t, bar)
        return [made[t] if t in made else tensor(t.shape, lambda *_, t=t: const(0, t.dtype)) for t in wrt]

    def _emit(self, e: E, c: Cotangent, scope: tuple[Var, ...]) -> None:
        t, at = e.attr
        if t in self.active and not c.is_zero:
            self.contributions.setdefault(t, []).append(Contribution(scope, at, c, e.op == "load_or_zero"))

    def _visit(self, t: T, bar: T) -> None:
        """Carry the cotangent `bar` of the definition `t` to what it reads."""
        if t.kind == "scan":
            self._scan(t, bar)
        elif t.kind == "scatter" and t.combine in LINEAR_SCATTERS:
            self._scatter(t, bar)
        elif t.kind == "extern":
            raise Unsupported(f"extern {t.name!r} has no derivative; read its values through the indices that it gives")
        else:
            scope, env = _opened(t.shape)
            body = substitute(as_fold(t).body if t.kind == "scatter" else t.body, env)
            frame = Frame(scope, self.active, stored={body: load(t, *scope)})
            push([(body, Cotangent((), _element(bar, [*map(ix, scope)])))], frame, self._emit)

    def _scan(self, t: T, bar: T) -> None:
        scope, env = _opened(t.shape[: t.axis] + t.shape[t.axis + 1 :])

        def at_state(r: Ix) -> E:
            return _element(bar, [*map(ix, scope[: t.axis]), r, *map(ix, scope[t.axis :])])

        frame = Frame(scope, self.active)
        push(adjoint_of_scan(substitute(t.body, env), {t.k: at_state}, frame, self._emit), frame, self._emit)

    def _scatter(self, t: T, bar: T) -> None:
        """y = base, then y[at(u)] = body(u) or += body(u).

        What is added has the cotangent of its target, and so has the base.  What is set has it where it is the last write to its
        target, the base where there is none: the index of the last write is stored for each element.
        """
        scope, env = _opened(t.domain)
        body, *at = substitute_all((t.body, *map(index, t.indices)), env)
        target = load(bar, *at)
        if t.combine is not None:
            self.whole.setdefault(t.base, []).append(bar)
            roots = [(body, Cotangent((), convert(target, compute_dtype(t.dtype))))]
        else:
            last = _last_writes(t)
            number = index(row_major(t.domain, list(map(ix, scope))))
            wins = op("eq", load(last, *at), number)
            roots = [(body, Cotangent((), convert(target, compute_dtype(t.dtype))).under(wins))]
            unwritten = tensor(t.shape, lambda *j: select(op("lt", load(last, *j), 0), load(bar, *j), const(0, t.dtype)))
            self.whole.setdefault(t.base, []).append(unwritten)
        push(roots, Frame(scope, self.active), self._emit)


def _opened(shape: Sequence[int]) -> tuple[tuple[Var, ...], Environment]:
    """Variables of their own for the axes, and the substitution that puts them there."""
    scope = tuple(map(fresh, shape))
    return scope, {v: ix(w) for v, w in zip(axes(shape), scope, strict=True)}


def _element(t: T, i: Sequence[Ix]) -> E:
    return convert(load(t, *i), compute_dtype(t.dtype))


def _last_writes(t: T) -> T:
    """For each element of the scatter, the number of the last element of its domain that is written there; -1: none is."""
    none = tensor(t.shape, lambda *_: const(-1, dt.i64))
    return scatter(none, t.domain, t.indices, index(row_major(t.domain, list(map(ix, axes(t.domain))))))


# ------------------------------------------------------------------------------------------------ from contributions to tensors


def gathered(t: T, whole: Sequence[T], contributions: Sequence[Contribution]) -> T:
    """The sum of cotangents of the whole of `t` and of contributions to its elements, in this order; scatters come last."""
    how = compute_dtype(t.dtype)
    j = tuple(map(ix, axes(t.shape)))
    terms = [_element(c, j) for c in whole]
    late: list[Contribution] = []
    for c in contributions:
        try:
            found = _term(t.shape, c, j)
        except Unsolved:
            late.append(c)
            continue
        if found is not None:
            terms.append(found)
    total = const(0, how)
    for n, e in enumerate(terms):
        total = total + e if n else e
    if not late:
        return _identity(t, convert(total, t.dtype))
    result = _identity(t, total) if how is t.dtype else let(t.shape, total)
    for c in late:
        s = scattered(c, t.shape)
        if s is not None:
            domain = [v.n for v in s.variables]
            env: Environment = {v: ix(w) for v, w in zip(s.variables, axes(domain), strict=True)}
            value, *at = substitute_all((s.value, *map(index, s.at)), env)
            result = scatter(result, domain, at, value, "add")
    return result if result.dtype is t.dtype else tensor(t.shape, lambda *i: convert(load(result, *i), t.dtype))


def _identity(t: T, body: E) -> T:
    """The let of this body; the tensor that it copies, where it copies one."""
    if body.op == "load":
        source, at = body.attr
        if source.shape == t.shape and source.dtype is t.dtype and at == tuple(map(ix, axes(t.shape))):
            return source
    return let(t.shape, body)


def _term(shape: Sequence[int], c: Contribution, j: Sequence[Ix]) -> E | None:
    """The contribution to element `j`, None where it is zero.  Raises Unsolved where a scatter is needed, or far cheaper.

    Where a loop would test divisibility, as in x[2*i + k], each rest of the position has a tensor of its own, without the test.
    """
    found = solution(c, j, shape)
    if found is None:
        return None
    most = WASTE * math.prod(v.n for v in c.scope)
    strides = [_stride(c, e, n) for e, n in zip(c.at, shape, strict=True)]
    if not found.variables or math.prod(strides) == 1 or math.prod(strides) > PHASES:
        if found.variables and found.terms * math.prod(shape) > most:
            raise Unsolved
        return found.sum
    phases = {rests: _phase(shape, c, strides, rests) for rests in itertools.product(*map(range, strides))}
    if sum(math.prod(part) * found.terms for part, found in phases.values() if found is not None) > most:
        raise Unsolved
    result: E | None = None
    for rests, (extent, found) in reversed(phases.items()):
        if found is None:
            read = const(0, c.cotangent.value.dtype)
        else:
            read = load(let(extent, found.sum), *(a // k if k > 1 else a for a, k in zip(j, strides, strict=True)))
        if result is None:
            result = read
        else:
            found_here = [op("eq", index(a % k), rest) for a, k, rest in zip(j, strides, rests, strict=True) if k > 1]
            result = chosen(found_here, read, result)
    return result


def _stride(c: Contribution, e: Ix, n: int) -> int:
    """The step that the position moves by with the variable of the largest range."""
    terms = [(v.n, abs(k)) for v, k in e.terms if type(v) is Var and v in c.scope]
    if n == 1 or not terms or len(terms) < len(e.terms):
        return 1
    return min(max(terms)[1], n)


def _phase(shape: Sequence[int], c: Contribution, strides: Sequence[int],
           rests: Sequence[int]) -> tuple[list[int], Solution | None]:  # fmt: skip
    """How many elements have positions that leave these rests, along each axis, and the contributions to them."""
    extent = [-(-(n - r) // k) for n, k, r in zip(shape, strides, rests, strict=True)]
    return extent, solution(c, [ix(v) * k + r for v, k, r in zip(axes(extent), strides, rests, strict=True)], shape)

