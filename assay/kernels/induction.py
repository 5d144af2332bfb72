"""Loops, for all iterations at once.

What a loop carries is p0 + t * step at iteration t where the body adds the same step each time: found by trial runs of the
body on unknown values, and confirmed by a last one.  What the body leaves has step 0; any other integer is unknown in every
iteration.  Loops of few iterations are run one by one, and so are longer ones that carry what has no such form.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from assay.kernels import terms as tm
from assay.kernels.deciding import implied
from assay.kernels.operators import BlockPointer, Value
from assay.kernels.symbols import Fits, Sym, all_needs, lane, leaf_of, parts_of, substituted, with_needs, with_parts
from assay.kernels.terms import Leaf, Poly, Substitution
from assay.kernels.types import I64, PointerType, Type
from assay.kernels.walker import Env, Poison, Walker

MOST = 1 << 64  # iterations of a while loop
UNROLL = 4  # loops of at most this many iterations are run one by one
UNROLL_AT_MOST = 128  # ... and of this many where what they carry has no other form


class Loops(Walker):
    """Loops of the symbolic domain."""

    launch: Any
    path: tuple[tm.Cond, ...]
    path_needs: frozenset[Fits]
    times: tuple[Leaf, ...]
    trial: int

    def under(self, c: Sym) -> tuple[tuple[tm.Cond, ...], frozenset[Fits]]:
        """The path and what it needs, where `c` holds too."""
        return (*self.path, c.term), self.path_needs | c.needs

    def fitting(self, term: Poly, type_: Type, needs: frozenset[Fits]) -> Sym:
        raise NotImplementedError

    def unknown(self, type_: Type, shape: tuple[int, ...], why: str, lo: int | None = None, hi: int | None = None) -> Value:
        raise NotImplementedError

    def loop(self, node: ast.For, bounds: tuple[Any, Any, Any], env: Env) -> None:
        known = [self.python(b) for b in bounds]
        values = [self.int32(b) for b in bounds]
        t = self.common(self.common_value(values[0], values[1]), values[2])
        values = [self.cast(v, t) for v in values]
        lo, hi, step = (v.data.term for v in values)
        needs = values[0].data.needs | values[1].data.needs | values[2].data.needs
        count: int | None = None
        if all(isinstance(k, int) for k in known):
            count = len(range(*known))
            if count <= UNROLL:
                self._unrolled(node, [self.constant(i, t) for i in range(*known)], env)
                return
        if step.lo <= 0 <= step.hi and not implied(tm.nonnegative(step - 1), (*self.launch.assumptions, *self.path)):
            self.unsupported("a loop whose step was not proved positive", "say so with --assume")
        down = step.hi < 0
        size = -step if down else step
        distance = lo - hi if down else hi - lo
        trips = tm.floordiv(distance + size - 1, size)
        at = leaf_of(
            tm.fresh(f"iteration of line {node.lineno}", 0, max(1, trips.hi), "iteration", lower=tm.poly(0), upper=trips - 1)
        )
        counter = Value(t, (), Sym(lo + tm.poly(at) * step, needs))
        inside = tm.less(hi, counter.data.term) if down else tm.less(counter.data.term, hi)
        saved = self.path, self.path_needs
        self.path, self.path_needs = self.under(Sym(inside, needs))
        env.pop(_name(node.target), None)
        if size.hi != 1 and not (t.lo <= hi.lo - size.hi + 1 and hi.hi + size.hi - 1 <= t.hi):
            self.node = node.iter  # the machine adds the step once more before it compares: what wraps there goes on
            counter = replace(counter, data=Sym(counter.data.term, self.fitting(counter.data.term + step, t, needs).needs))
        try:
            after = self._carried(node, env, at, {_name(node.target): counter}, None)
        finally:
            self.path, self.path_needs = saved
        if after is None and count is not None:
            self._unrolled(node, [self.constant(i, t) for i in range(*known)], env)
            return
        if after is None:
            self.unsupported("this loop", "its iterations carry integers that are not start + iteration * step")
        env.update(after(tm.maximum(trips, tm.poly(0))))
        env[_name(node.target)] = Poison("is the counter of a loop that has ended")

    def common_value(self, a: Value, b: Value) -> Value:
        return self.constant(0, self.common(a, b))

    def while_(self, node: ast.While, env: Env) -> None:
        at = leaf_of(tm.fresh(f"iteration of line {node.lineno}", 0, MOST, "iteration"))
        ended = tm.fresh(f"iterations of line {node.lineno}", 0, MOST, "iteration")
        saved = self.path, self.path_needs
        try:
            after = self._carried(node, env, at, {}, node.test)
        finally:
            self.path, self.path_needs = saved
        assert after is not None
        env.update(after(ended))
        self.node = node
        condition = self.truth(self.expr(node.test, env))
        if isinstance(condition, Value):
            self.path, self.path_needs = self.under(Sym(tm.negation(condition.data.term), condition.data.needs))

    def _carried(
        self, node: ast.For | ast.While, env: Env, at: Leaf, own: Env, test: ast.expr | None
    ) -> Callable[[Poly], Env] | None:
        """Runs the body for all iterations at once; returns what gives the names after so many iterations.

        None (and nothing is recorded) where an integer has no closed form, but the loop is short enough to be run one by one.
        """
        c = _Carried(
            node, {n: env[n] for n in _assigned(node.body) if n in env and n not in own and not isinstance(env[n], Poison)}, at
        )
        saved_times, saved = self.times, (self.path, self.path_needs)
        self.times = (*self.times, at)

        def run() -> Env:
            inner = {**env, **{n: c.value(n, tm.poly(at)) for n in c.start}, **own}
            self.path, self.path_needs = saved
            if test is not None:
                condition = self.truth(self.expr(test, inner))
                if isinstance(condition, Value):
                    self.path, self.path_needs = self.under(condition.data)
            self.inside(node.body, inner)
            return inner

        try:
            self.trial += 1
            end = run()
            while self._found_steps(c, end):
                end = run()
            self.trial -= 1
            if c.odd and test is None and at.hi <= UNROLL_AT_MOST:
                return None
            self.node = node
            for n, k in c.odd:
                c.hollow[n][k] = self._odd(c, n, k)
            past = tm.fresh(at.name, 0, at.hi, "iteration", lower=at.lower, upper=at.upper)
            earlier = Substitution({at: past}.get)
            c.needs = {n: substituted(all_needs(end[n]), earlier) for n in c.start}  # of the updates in earlier iterations
            end = run()
        finally:
            self.times, (self.path, self.path_needs) = saved_times, saved
        self.node = node
        for n in {*end} - {*env} - {*own}:
            env[n] = Poison("is assigned in a loop only; give it a value before the loop")

        def after(t: Poly) -> Env:
            for n, k in c.odd:
                c.hollow[n][k] = self._odd(c, n, k)
            return {n: c.value(n, t) for n in c.start}

        return after

    def _odd(self, c: _Carried, name: str, k: int) -> Poly:
        _, shape = parts_of(c.start[name])[k]
        t = c.start[name].type if isinstance(c.start[name], Value) and isinstance(c.start[name].type, Type) else I64
        why = f"{name}, which the loop at line {c.node.lineno} carries and which is not start + iteration * step"
        return self.unknown(I64, shape, why, 0, 1).data.term if t.is_bool else self.unknown(t, shape, why).data.term

    def _found_steps(self, c: _Carried, end: Env) -> bool:
        """Whether the trial run showed the step of another name: what an iteration adds, the same in each."""
        found = False
        for n in c.start:
            self._same_kind(n, c.start[n], end[n])
            before = parts_of(c.value(n, tm.poly(c.at)))
            for k, ((p, _), (q, _)) in enumerate(zip(before, parts_of(end[n]), strict=True)):
                step, known = q - p, c.steps[n][k]
                if known is None and not any(a is c.at or (isinstance(a, Leaf) and a.name in c.names) for a in tm.walk((step,))):
                    c.steps[n][k] = step
                    found = True
                elif known is not None and known is not step:
                    self.wrong(f"{n} changes in a way that is not understood")
        return found

    def _same_kind(self, name: str, a: Any, b: Any) -> None:
        if isinstance(a, Value) and isinstance(b, Value) and a.type == b.type and a.shape == b.shape:
            if isinstance(a.type, PointerType) and a.data.tensor is not b.data.tensor:
                self.unsupported(f"{name}, which points to another tensor after an iteration", "use one name for each tensor")
            return
        if isinstance(a, BlockPointer) and isinstance(b, BlockPointer) and a.block == b.block:
            return
        if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
            for x, y in zip(a, b, strict=True):
                self._same_kind(name, x, y)
            return
        if isinstance(a, Value) and isinstance(b, Value):
            self.wrong(
                f"{name} is {a.type}{list(a.shape)} before the loop and {b.type}{list(b.shape)} after an iteration, "
                "which Triton rejects"
            )
        if a != b:
            self.unsupported(f"{name}, which a loop changes and which is no tensor", "use a tensor or tl.static_range")


class _Carried:
    """What a loop carries: for each part of each name its step, or what stands for its value at the iteration in hand."""

    def __init__(self, node: ast.For | ast.While, start: Env, at: Leaf) -> None:
        self.node, self.start, self.at = node, start, at
        self.steps: dict[str, list[Poly | None]] = {n: [None] * len(parts_of(v)) for n, v in start.items()}
        self.hollow = {n: [_anything(n, shape) for _, shape in parts_of(v)] for n, v in start.items()}
        self.names = {leaf_of(h).name for parts in self.hollow.values() for h in parts}
        self.needs: dict[str, frozenset[Fits]] = {}

    @property
    def odd(self) -> list[tuple[str, int]]:
        """The parts without a step."""
        return [(n, k) for n, steps in self.steps.items() for k, s in enumerate(steps) if s is None]

    def value(self, name: str, t: Poly) -> Any:
        """The value of a name after t iterations."""
        parts = zip(parts_of(self.start[name]), self.steps[name], self.hollow[name], strict=True)
        v = with_parts(self.start[name], [p + t * s if s is not None else h for (p, _), s, h in parts])
        return with_needs(v, self.needs.get(name, frozenset()))


def _anything(name: str, shape: tuple[int, ...]) -> Poly:
    lanes = tuple(lane(k, n) for k, n in enumerate(shape) if n > 1)
    return tm.leaf(f"{name}'{next(tm._numbers)}", -(1 << 64), 1 << 64, "unknown", lanes)


def _name(target: ast.expr) -> str:
    return target.id if isinstance(target, ast.Name) else ast.unparse(target)


def _assigned(body: Sequence[ast.stmt]) -> list[str]:
    """The names to which statements assign."""
    found: dict[str, None] = {}
    for s in body:
        for n in ast.walk(s):
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store):
                found[n.id] = None
    return list(found)
