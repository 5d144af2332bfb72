"""The symbolic domain: a kernel for all programs, lanes, sizes and inputs at once.

An integer is a polynomial over sizes, program ids, lanes and iterations (terms.py), a condition a Cond; lane k is the index
along axis k. They are the mathematical values: each machine operation whose result may not fit its type is recorded
(`Fits`), and the record travels with every value that depends on it, so that an access can ask for those it depends on.
Floats have no structure.

A loop is run for all its iterations at once. What it carries is p0 + t * step at iteration t where the body adds the same
step each time (found by a trial run of the body on unknown values), the same as before where the body leaves it, and unknown
otherwise.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from assay.kernels import terms as tm
from assay.kernels.arguments import Launch, Tensor
from assay.kernels.deciding import implied
from assay.kernels.source import Module
from assay.kernels.terms import TRUE, Cond, Leaf, Poly, Substitution
from assay.kernels.types import BOOL, I32, I64, PointerType, Type
from assay.kernels.walker import BlockPointer, Env, Poison, Return, Value, Walker

UNROLL = 4  # loops of at most this many iterations are run one by one
UNROLL_AT_MOST = 128  # ... and of this many where what they carry has no other form


@dataclass(frozen=True)
class Fits:
    """A machine operation: its mathematical value `term` must fit `type` wherever `path` holds."""

    node: ast.AST = field(compare=False, hash=False)
    line: int
    column: int
    type: Type
    term: Poly
    path: tuple[Cond, ...]


@dataclass(frozen=True)
class Sym:
    """The data of a value: a Poly, a Cond, or None for a float; `needs` must all fit for it to be what the machine computes."""

    term: Any
    needs: frozenset[Fits] = frozenset()


@dataclass(frozen=True)
class Address:
    """The data of a pointer: an element of a tensor."""

    tensor: Tensor
    term: Poly
    needs: frozenset[Fits] = frozenset()


@dataclass(frozen=True)
class Access:
    """A load, store or atomic: the offset of every lane, where the mask and the path hold."""

    kind: str
    node: ast.AST
    calls: tuple[int, ...]
    tensor: Tensor
    shape: tuple[int, ...]
    offset: Sym
    mask: Sym | None
    path: tuple[Cond, ...]
    path_needs: frozenset[Fits]
    times: tuple[Leaf, ...]
    value: Sym | None = None


@dataclass(frozen=True)
class Hint:
    """Something that the kernel promises the compiler."""

    kind: str
    node: ast.AST
    goal: Cond
    path: tuple[Cond, ...]


def lane(axis: int, n: int) -> Poly:
    """The index along an axis of length n."""
    return tm.leaf(f"lane{axis}", 0, n - 1, "lane")


class Symbolic(Walker):
    """Runs a kernel symbolically; `accesses`, `hints` and `divisions` are what it finds."""

    def __init__(self, module: Module, launch: Launch, stored: frozenset[str] = frozenset()) -> None:
        super().__init__(module)
        self.launch = launch
        self.stored = stored
        self.accesses: list[Access] = []
        self.hints: list[Hint] = []
        self.texts: dict[Cond, str] = {}
        self.path: tuple[Cond, ...] = ()
        self.path_needs: frozenset[Fits] = frozenset()
        self.times: tuple[Leaf, ...] = ()
        self.trial = 0
        self.synchronises = False
        grid = (*launch.grid, tm.poly(1), tm.poly(1))[:3]
        self.grid = grid
        self.ids = tuple(
            tm.leaf(f"program_id({k})", 0, max(0, min(g.hi, most) - 1), "program", upper=g - 1 if g.constant is None else None)
            for k, (g, most) in enumerate(zip(grid, ((1 << 31) - 1, 65535, 65535), strict=True))
        )

    def run(self, kernel: ast.FunctionDef) -> None:
        """Runs the kernel on the launch's arguments."""
        env: Env = {}
        for name, v in self.launch.parameters.items():
            if isinstance(v, Tensor):
                env[name] = Value(PointerType(v.type), (), Address(v, tm.poly(0)))
            elif isinstance(v, tuple) and len(v) == 2 and isinstance(v[0], Type):
                env[name] = Value(v[0], (), Sym(v[1]))
            elif isinstance(v, Type) and not any(p.name == name and p.constexpr for p in self.module.parameters(kernel)):
                env[name] = Value(v, (), Sym(None))
            else:
                env[name] = v
        self.body(kernel, env)

    # -------------------------------------------------------------------------------------------- values

    def constant(self, v: bool | int | float, type_: Type, shape: tuple[int, ...] = ()) -> Value:  # noqa: FBT001
        if type_.is_float:
            return Value(type_, shape, Sym(None))
        if type_.is_bool:
            return Value(type_, shape, Sym(TRUE if v else tm.FALSE))
        return Value(type_, shape, Sym(tm.poly(_wrapped(int(v), type_))))

    def known(self, v: Value) -> Any:
        term = v.data.term if isinstance(v.data, Sym) else None
        if isinstance(term, Poly):
            return term.constant
        return None if not isinstance(term, Cond) else True if term is TRUE else False if term is tm.FALSE else None

    def unknown(
        self,
        type_: Type,
        shape: tuple[int, ...],
        why: str,
        lo: int | None = None,
        hi: int | None = None,
        needs: frozenset[Fits] = frozenset(),
    ) -> Value:
        """A value of which only the range is known; it is a function of program, iteration and lane."""
        if type_.is_float:
            return Value(type_, shape, Sym(None))
        where = (*self.ids, *(tm.poly(t) for t in self.times), *(lane(k, n) for k, n in enumerate(shape)))
        where = tuple(x for x in where if x.constant is None)
        low, high = (0, 1) if type_.is_bool else (type_.lo if lo is None else lo, type_.hi if hi is None else hi)
        name = f"unknown'{getattr(self.node, 'lineno', 0)}'{next(tm._numbers)}"
        p = tm.leaf(name, low, high, "unknown", where, why=f"{why} (line {getattr(self.node, 'lineno', 0)})")
        if type_.is_bool:
            return Value(type_, shape, Sym(tm.negation(tm.zero(p)), needs))
        return Value(type_, shape, Sym(p, needs))

    def interval(self, v: Value) -> tuple[int, int]:
        """A range of an integer value."""
        return v.data.term.lo, v.data.term.hi

    def computed(
        self,
        what: str,
        type_: Type,
        shape: tuple[int, ...],
        _f: Callable[..., Any],
        *values: Value,
        lo: int | None = None,
        hi: int | None = None,
    ) -> Value:
        """The result of a function that is not modelled."""
        needs = frozenset[Fits]()
        for v in values:
            needs |= self._anywhere(v)
        return self.unknown(type_, shape, f"the result of {what}", lo, hi, needs)

    def _anywhere(self, v: Value) -> frozenset[Fits]:
        """What all elements of `v` together need: its lanes become lanes of their own."""
        if not v.data.needs:
            return v.data.needs
        own = Substitution({_leaf(lane(k, n)): tm.fresh("lane", 0, n - 1, "lane") for k, n in enumerate(v.shape) if n > 1}.get)
        return _needs(v.data.needs, own)

    def program(self, axis: int) -> Value:
        return Value(I32, (), Sym(self.ids[axis]))

    def programs(self, axis: int) -> Value:
        return Value(I32, (), Sym(self.grid[axis]))

    def lanes(self, start: int, n: int) -> Value:
        return Value(I32, (n,), Sym(lane(0, n) + start))

    # -------------------------------------------------------------------------------------------- operations

    def fitting(self, term: Poly, type_: Type, needs: frozenset[Fits]) -> Sym:
        """An integer result that is `term` if it fits its type; unsigned ones wrap, which is what they are for."""
        if type_.lo <= term.lo and term.hi <= type_.hi:
            return Sym(term, needs)
        if type_.kind == "uint":
            return Sym(tm.mod(term, tm.poly(1 << type_.bits)), needs)
        n = self.node
        return Sym(term, needs | {Fits(n, getattr(n, "lineno", 0), getattr(n, "col_offset", 0), type_, term, self.path)})

    def arithmetic(self, op: str, type_: Type, a: Value, b: Value) -> Value:
        if type_.is_float:
            return Value(type_, a.shape, Sym(None))
        x, y, needs = a.data.term, b.data.term, a.data.needs | b.data.needs
        if type_.is_bool:
            made = {
                "and": lambda: tm.all_of((x, y)),
                "or": lambda: tm.any_of((x, y)),
                "min": lambda: tm.all_of((x, y)),
                "max": lambda: tm.any_of((x, y)),
                "xor": lambda: tm.any_of((tm.all_of((x, tm.negation(y))), tm.all_of((tm.negation(x), y)))),
            }[op]()
            return Value(type_, a.shape, Sym(made, needs))
        if op in ("add", "sub", "mul"):
            term = x + y if op == "add" else x - y if op == "sub" else x * y
            return Value(type_, a.shape, self.fitting(term, type_, needs))
        if op in ("min", "max"):
            return Value(type_, a.shape, Sym((tm.minimum if op == "min" else tm.maximum)(x, y), needs))
        if op in ("and", "or", "xor"):
            return Value(type_, a.shape, Sym(tm.bits(op, x, y), needs))
        if op in ("shl", "shr"):
            return self._shift(op, type_, a, b)
        return self._division(op, type_, a, b)

    def _shift(self, op: str, type_: Type, a: Value, b: Value) -> Value:
        x, y, needs = a.data.term, b.data.term, a.data.needs | b.data.needs
        k = y.constant
        if k is None and op == "shl" and x.constant == 1:
            return self.unknown(type_, a.shape, "a power of two", 0, 1 << max(0, min(y.hi, type_.bits - 1)), needs)
        if k is None or not 0 <= k < type_.bits:
            return self.unknown(type_, a.shape, "a shift by a number of bits that is not constant", needs=needs)
        if op == "shl":
            return Value(type_, a.shape, self.fitting(x * (1 << k), type_, needs))
        return Value(type_, a.shape, Sym(tm.floordiv(x, tm.poly(1 << k)), needs))

    def _division(self, op: str, type_: Type, a: Value, b: Value) -> Value:
        """C's division, which truncates: floor where the dividend is not negative."""
        x, y, needs = a.data.term, b.data.term, a.data.needs | b.data.needs
        where = (*self.launch.assumptions, *self.path)
        if y.lo <= 0 and not (y.hi > 0 and implied(tm.nonnegative(y - 1), where)):
            return self.unknown(
                type_, a.shape, f"a division by {self.module.text(self.node)}, whose divisor was not proved positive", needs=needs
            )
        f = tm.floordiv if op == "floordiv" else tm.mod
        if x.lo >= 0 or (x.hi >= 0 and implied(tm.nonnegative(x), where)):
            return Value(type_, a.shape, Sym(f(x, y), needs))
        return Value(type_, a.shape, Sym(tm.select(tm.nonnegative(x), f(x, y), -f(-x, y)), needs))

    def comparison(self, op: str, a: Value, b: Value) -> Value:
        if isinstance(a.type, PointerType):
            return self.unknown(BOOL, a.shape, "a comparison of pointers")
        if a.type.is_float:
            return self.unknown(BOOL, a.shape, "a comparison of floats")
        x, y = (tm.as_integer(v.data.term) if v.type.is_bool else v.data.term for v in (a, b))
        needs = a.data.needs | b.data.needs
        if a.type.is_bool and op in ("eq", "ne"):
            p, q = a.data.term, b.data.term
            same = tm.any_of((tm.all_of((p, q)), tm.all_of((tm.negation(p), tm.negation(q)))))
            return Value(BOOL, a.shape, Sym(same if op == "eq" else tm.negation(same), needs))
        made = {"lt": tm.less, "le": tm.at_most, "eq": tm.equal, "ne": lambda p, q: tm.negation(tm.equal(p, q))}[op](x, y)
        return Value(BOOL, a.shape, Sym(made, needs))

    def evaluated(self, e: Value) -> Value:
        for c in tm.conjuncts(e.data.term):
            self.texts.setdefault(c, self.module.text(self.node))
        return e

    def converted(self, v: Value, type_: Type) -> Value:
        if type_.is_float:
            return Value(type_, v.shape, Sym(None))
        if v.type.is_float:
            return self.unknown(type_, v.shape, "a float as an integer")
        if type_.is_bool:
            return Value(type_, v.shape, Sym(tm.negation(tm.zero(v.data.term)), v.data.needs))
        term = tm.as_integer(v.data.term) if v.type.is_bool else v.data.term
        if (v.type.kind == "int" and type_.kind == "uint" and v.type.bits == type_.bits) or (
            type_.kind == "uint" and term.lo < 0
        ):
            return Value(type_, v.shape, Sym(tm.mod(term, tm.poly(1 << type_.bits)) if term.lo < 0 else term, v.data.needs))
        return Value(type_, v.shape, self.fitting(term, type_, v.data.needs))

    def choice(self, c: Value, a: Value, b: Value) -> Value:
        condition = c.data.term
        if isinstance(a.type, PointerType):
            x, y = a.data, b.data
            if x.tensor is not y.tensor:
                self.unsupported("a choice between pointers to different tensors", "choose between the loaded values")
            return replace(a, data=Address(x.tensor, tm.select(condition, x.term, y.term), x.needs | y.needs | c.data.needs))
        needs = a.data.needs | b.data.needs | c.data.needs
        if a.type.is_float:
            return Value(a.type, a.shape, Sym(None))
        x, y = a.data.term, b.data.term
        if a.type.is_bool:
            made = tm.any_of((tm.all_of((condition, x)), tm.all_of((tm.negation(condition), y))))
            return Value(a.type, a.shape, Sym(made, needs))
        return Value(a.type, a.shape, Sym(tm.select(condition, x, y), needs))

    def moved(self, v: Value, offset: Value) -> Value:
        a: Address = v.data
        return Value(v.type, v.shape, Address(a.tensor, a.term + offset.data.term, a.needs | offset.data.needs))

    # -------------------------------------------------------------------------------------------- shapes

    def _relabelled(self, v: Value, shape: tuple[int, ...], images: Mapping[Leaf, Poly]) -> Value:
        """`v` as a tensor of another shape, given what its lanes are there."""
        d = v.data
        if d.term is None:
            return Value(v.type, shape, d)
        s = Substitution(images.get)
        needs = _needs(d.needs, s)
        if isinstance(d, Address):
            return Value(v.type, shape, Address(d.tensor, s.poly(d.term), needs))
        if not isinstance(d.term, Cond):
            return Value(v.type, shape, Sym(s.poly(d.term), needs))
        for c in tm.conjuncts(d.term):
            if c in self.texts:
                self.texts.setdefault(s.cond(c), self.texts[c])
        return Value(v.type, shape, Sym(s.cond(d.term), needs))

    def expanded(self, v: Value, axis: int) -> Value:
        if not 0 <= axis <= len(v.shape):
            self.wrong(f"there is no axis {axis} in the shape {list(v.shape)}")
        images = {_leaf(lane(k, n)): lane(k + 1, n) for k, n in enumerate(v.shape) if k >= axis and n > 1}
        return self._relabelled(v, (*v.shape[:axis], 1, *v.shape[axis:]), images)

    def stretched(self, v: Value, shape: tuple[int, ...]) -> Value:
        return Value(v.type, shape, v.data)

    def permuted(self, v: Value, order: tuple[int, ...]) -> Value:
        images = {_leaf(lane(old, v.shape[old])): lane(new, v.shape[old]) for new, old in enumerate(order) if v.shape[old] > 1}
        return self._relabelled(v, tuple(v.shape[k] for k in order), images)

    def reshaped(self, v: Value, shape: tuple[int, ...]) -> Value:
        flat = tm.poly(0)
        for k, n in enumerate(shape):
            flat = flat * n + (lane(k, n) if n > 1 else 0)
        images: dict[Leaf, Poly] = {}
        inner = 1
        for k in reversed(range(len(v.shape))):
            n = v.shape[k]
            if n > 1:
                images[_leaf(lane(k, n))] = tm.mod(tm.floordiv(flat, tm.poly(inner)), tm.poly(n))
            inner *= n
        return self._relabelled(v, shape, images)

    # -------------------------------------------------------------------------------------------- memory

    def _record(self, kind: str, pointers: Value, mask: Value | None, value: Value | None = None) -> None:
        if self.trial:
            return
        a: Address = pointers.data
        stored = value.data if value is not None and isinstance(value.data, Sym) else None
        lines = tuple(getattr(c, "lineno", 0) for c in self.calls)
        self.accesses.append(
            Access(
                kind,
                self.node,
                lines,
                a.tensor,
                pointers.shape,
                Sym(a.term, a.needs),
                mask.data if mask is not None else None,
                self.path,
                self.path_needs,
                self.times,
                stored,
            )
        )

    def read(self, pointers: Value, mask: Value | None, other: Value | None) -> Value:
        self._record("load", pointers, mask)
        t, shape, a = pointers.type.element, pointers.shape, pointers.data
        if t.is_float:
            return Value(t, shape, Sym(None))
        if a.tensor.name in self.stored:
            loaded = self.unknown(t, shape, f"an element of {a.tensor.name}, to which the kernel stores")
        else:
            lo, hi = (0, 1) if t.is_bool else (t.lo, t.hi)
            low, high = a.tensor.lower, a.tensor.upper
            lo = lo if low is None else max(lo, low.lo)
            hi = hi if high is None else min(hi, high.hi)
            p = tm.leaf(a.tensor.name, lo, max(lo, hi), "loaded", (a.term,), lower=_varying(low), upper=_varying(high))
            loaded = Value(t, shape, Sym(tm.negation(tm.zero(p)) if t.is_bool else p))
        if mask is None:
            return loaded
        rest = other if other is not None else self.unknown(t, shape, "what a masked lane of a load without `other` holds")
        return self.choice(mask, loaded, rest)

    def write(self, pointers: Value, value: Value, mask: Value | None) -> None:
        self._record("store", pointers, mask, value)

    def update(self, name: str, pointers: Value, values: tuple[Value, ...], mask: Value | None) -> Value:
        self._record("atomic", pointers, mask, values[-1])
        if name in ("cas", "xchg"):
            self.synchronises = True
        return self.unknown(pointers.type.element, pointers.shape, "what an atomic returns")

    # -------------------------------------------------------------------------------------------- hints

    def hinted(self, kind: str, v: Value, values: tuple[int, ...]) -> Value:
        if not self.trial and not (isinstance(v.data, Sym) and v.data.term is None):
            self.hints.append(Hint(kind, self.node, self._promise(kind, v, values), self.path))
        return v

    def _promise(self, kind: str, v: Value, values: tuple[int, ...]) -> Cond:
        """multiple_of: the first element is a multiple; max_contiguous: groups rise by 1; max_constancy: groups stay."""
        term = v.data.term
        promises: list[Cond] = []
        for k, d in enumerate(values if len(values) == max(1, len(v.shape)) else values[-1:] * max(1, len(v.shape))):
            n = v.shape[k] if v.shape else 1
            i = lane(k, n)
            if kind == "multiple_of":
                first = tm.substitute(term, {_leaf(i): tm.poly(0)}) if n > 1 else term
                promises.append(tm.zero(tm.mod(first, tm.poly(d))))
            elif n > 1:
                start = i - tm.mod(i, tm.poly(d))
                group = tm.substitute(term, {_leaf(i): start})
                promises.append(tm.equal(term, group + (i - start if kind == "max_contiguous" else 0)))
        return tm.all_of(promises)

    def assumed(self, c: Value) -> None:
        if not self.trial:
            self.hints.append(Hint("assume", self.node, c.data.term, self.path))

    # -------------------------------------------------------------------------------------------- branches

    def _under(self, c: Sym) -> tuple[tuple[Cond, ...], frozenset[Fits]]:
        return (*self.path, c.term), self.path_needs | c.needs

    def branch(self, node: ast.If, condition: Value, env: Env) -> Return | None:
        c: Sym = condition.data
        saved = self.path, self.path_needs
        ends: list[tuple[Env, Return | None]] = []
        for body, term in ((node.body, c.term), (node.orelse, tm.negation(c.term))):
            self.path, self.path_needs = self._under(Sym(term, c.needs))
            own = dict(env)
            ends.append((own, self.block(body, own)))
            self.path, self.path_needs = saved
        self.node = node
        (yes, yes_end), (no, no_end) = ends
        if (yes_end or no_end) and self.calls:
            self.unsupported(
                "`return` under a condition that is not known at compile time, in a function that is called",
                "compute both values and choose with tl.where",
            )
        if yes_end and no_end:
            return yes_end
        if yes_end or no_end:
            self.path, self.path_needs = self._under(Sym(tm.negation(c.term) if yes_end else c.term, c.needs))
            env.clear()
            env.update(no if yes_end else yes)
            return None
        for name in {*yes, *no}:
            env[name] = self._merged(name, condition, yes.get(name), no.get(name))
        return None

    def _merged(self, name: str, condition: Value, a: Any, b: Any) -> Any:
        if a is b:
            return a
        if isinstance(a, Value) and isinstance(b, Value):
            if a.type == b.type and a.shape == b.shape:
                if isinstance(a.type, PointerType) and a.data.tensor is not b.data.tensor:
                    return Poison(f"points to {a.data.tensor.name} or to {b.data.tensor.name}, which has no meaning here")
                return self.choice(self.broadcast(condition, a.shape), a, b)
            return Poison(f"is {a.type}{list(a.shape)} or {b.type}{list(b.shape)}, by an `if`")
        if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
            return tuple(self._merged(name, condition, x, y) for x, y in zip(a, b, strict=True))
        return Poison("is assigned in one branch of an `if` only, or is not a tensor in both")

    # -------------------------------------------------------------------------------------------- loops

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
        at = _leaf(
            tm.fresh(f"iteration of line {node.lineno}", 0, max(1, trips.hi), "iteration", lower=tm.poly(0), upper=trips - 1)
        )
        counter = Value(t, (), Sym(lo + tm.poly(at) * step, needs))
        inside = tm.less(hi, counter.data.term) if down else tm.less(counter.data.term, hi)
        saved = self.path, self.path_needs
        self.path, self.path_needs = self._under(Sym(inside, needs))
        env.pop(_name(node.target), None)
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
        at = _leaf(tm.fresh(f"iteration of line {node.lineno}", 0, (1 << 31) - 1, "iteration"))
        ended = tm.fresh(f"iterations of line {node.lineno}", 0, (1 << 31) - 1, "iteration")
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
            self.path, self.path_needs = self._under(Sym(tm.negation(condition.data.term), condition.data.needs))

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
                    self.path, self.path_needs = self._under(condition.data)
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
            c.needs = {n: _needs(_all_needs(end[n]), earlier) for n in c.start}  # of the updates in earlier iterations
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
        p, shape = _parts(c.start[name])[k]
        t = c.start[name].type if isinstance(c.start[name], Value) and isinstance(c.start[name].type, Type) else I64
        why = f"{name}, which the loop at line {c.node.lineno} carries and which is not start + iteration * step"
        return p if t.is_float else self.unknown(I64 if t.is_bool else t, shape, why, *((0, 1) if t.is_bool else ())).data.term

    def _found_steps(self, c: _Carried, end: Env) -> bool:
        """Whether the trial run showed the step of another name: what an iteration adds, the same in each."""
        found = False
        for n in c.start:
            self._same_kind(n, c.start[n], end[n])
            before = _parts(c.value(n, tm.poly(c.at)))
            for k, ((p, _), (q, _)) in enumerate(zip(before, _parts(end[n]), strict=True)):
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
        self.steps: dict[str, list[Poly | None]] = {n: [None] * len(_parts(v)) for n, v in start.items()}
        self.hollow = {n: [_anything(n, shape) for _, shape in _parts(v)] for n, v in start.items()}
        self.names = {_leaf(h).name for parts in self.hollow.values() for h in parts}
        self.needs: dict[str, frozenset[Fits]] = {}

    @property
    def odd(self) -> list[tuple[str, int]]:
        """The parts without a step."""
        return [(n, k) for n, steps in self.steps.items() for k, s in enumerate(steps) if s is None]

    def value(self, name: str, t: Poly) -> Any:
        """The value of a name after t iterations."""
        parts = zip(_parts(self.start[name]), self.steps[name], self.hollow[name], strict=True)
        v = _with_parts(self.start[name], [p + t * s if s is not None else h for (p, _), s, h in parts])
        return _with_needs(v, self.needs.get(name, frozenset()))


def _anything(name: str, shape: tuple[int, ...]) -> Poly:
    lanes = tuple(lane(k, n) for k, n in enumerate(shape) if n > 1)
    return tm.leaf(f"{name}'{next(tm._numbers)}", -(1 << 64), 1 << 64, "unknown", lanes)


def _wrapped(v: int, t: Type) -> int:
    return (v - t.lo) % (1 << t.bits) + t.lo


def _leaf(p: Poly) -> Leaf:
    found = p.atoms[0]
    assert isinstance(found, Leaf)
    return found


def _varying(p: Poly | None) -> Poly | None:
    return p if p is not None and p.constant is None else None


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


def _needs(needs: frozenset[Fits], s: Substitution) -> frozenset[Fits]:
    return frozenset(replace(f, term=s.poly(f.term), path=tuple(s.cond(c) for c in f.path)) for f in needs)


def _parts(v: Any) -> list[tuple[Poly, tuple[int, ...]]]:
    """The integers that a value is made of, with their shapes: what an induction over iterations speaks of."""
    if isinstance(v, BlockPointer):
        return [p for x in (v.base, *v.shape, *v.strides, *v.offsets) for p in _parts(x)]
    if isinstance(v, tuple):
        return [p for x in v for p in _parts(x)]
    if not isinstance(v, Value) or v.data.term is None:
        return []
    return [(tm.as_integer(v.data.term) if isinstance(v.data.term, Cond) else v.data.term, v.shape)]


def _with_parts(v: Any, parts: list[Poly]) -> Any:
    """The same value made of other integers."""
    if isinstance(v, BlockPointer):
        values = [v.base, *v.shape, *v.strides, *v.offsets]
        made = [_with_parts(x, [p]) for x, p in zip(values, parts, strict=True)]
        r = len(v.block)
        return replace(
            v,
            base=made[0],
            shape=tuple(made[1 : 1 + r]),
            strides=tuple(made[1 + r : 1 + 2 * r]),
            offsets=tuple(made[1 + 2 * r :]),
        )
    if isinstance(v, tuple):
        made_items, k = [], 0
        for x in v:
            n = len(_parts(x))
            made_items.append(_with_parts(x, parts[k : k + n]))
            k += n
        return tuple(made_items)
    if not isinstance(v, Value) or v.data.term is None:
        return v
    term = tm.negation(tm.zero(parts[0])) if isinstance(v.data.term, Cond) else parts[0]
    return replace(v, data=replace(v.data, term=term))


def _all_needs(v: Any) -> frozenset[Fits]:
    if isinstance(v, BlockPointer):
        return frozenset[Fits]().union(*(_all_needs(x) for x in (v.base, *v.shape, *v.strides, *v.offsets)))
    if isinstance(v, tuple):
        return frozenset[Fits]().union(*(_all_needs(x) for x in v))
    return v.data.needs if isinstance(v, Value) else frozenset()


def _with_needs(v: Any, needs: frozenset[Fits]) -> Any:
    if isinstance(v, BlockPointer):
        return replace(v, base=_with_needs(v.base, needs))
    if isinstance(v, tuple):
        return tuple(_with_needs(x, needs) for x in v)
    if not isinstance(v, Value) or v.data.term is None:
        return v
    return replace(v, data=replace(v.data, needs=v.data.needs | needs))
