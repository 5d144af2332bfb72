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
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from assay.kernels import terms as tm
from assay.kernels.arguments import Launch, Tensor
from assay.kernels.deciding import implied
from assay.kernels.induction import Loops
from assay.kernels.operators import Value
from assay.kernels.source import Module
from assay.kernels.symbols import Access, Address, Fits, Hint, Sym, lane, leaf_of, substituted
from assay.kernels.terms import TRUE, Cond, Leaf, Poly, Substitution
from assay.kernels.types import BOOL, I32, PointerType, Type
from assay.kernels.walker import Env, Poison, Return


class Symbolic(Loops):
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
        own = Substitution({leaf_of(lane(k, n)): tm.fresh("lane", 0, n - 1, "lane") for k, n in enumerate(v.shape) if n > 1}.get)
        return substituted(v.data.needs, own)

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
        if k is None and op == "shl" and x.constant == 1 and y.lo >= 0 and 1 << y.hi <= type_.hi:
            return self.unknown(type_, a.shape, "a power of two", 1, 1 << y.hi, needs)
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
        needs = substituted(d.needs, s)
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
        images = {leaf_of(lane(k, n)): lane(k + 1, n) for k, n in enumerate(v.shape) if k >= axis and n > 1}
        return self._relabelled(v, (*v.shape[:axis], 1, *v.shape[axis:]), images)

    def stretched(self, v: Value, shape: tuple[int, ...]) -> Value:
        return Value(v.type, shape, v.data)

    def permuted(self, v: Value, order: tuple[int, ...]) -> Value:
        images = {leaf_of(lane(old, v.shape[old])): lane(new, v.shape[old]) for new, old in enumerate(order) if v.shape[old] > 1}
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
                images[leaf_of(lane(k, n))] = tm.mod(tm.floordiv(flat, tm.poly(inner)), tm.poly(n))
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
                first = tm.substitute(term, {leaf_of(i): tm.poly(0)}) if n > 1 else term
                promises.append(tm.zero(tm.mod(first, tm.poly(d))))
            elif n > 1:
                start = i - tm.mod(i, tm.poly(d))
                group = tm.substitute(term, {leaf_of(i): start})
                promises.append(tm.equal(term, group + (i - start if kind == "max_contiguous" else 0)))
        return tm.all_of(promises)

    def assumed(self, c: Value) -> None:
        if not self.trial:
            self.hints.append(Hint("assume", self.node, c.data.term, self.path))

    # -------------------------------------------------------------------------------------------- branches

    def branch(self, node: ast.If, condition: Value, env: Env) -> Return | None:
        c: Sym = condition.data
        saved = self.path, self.path_needs
        ends: list[tuple[Env, Return | None]] = []
        for body, term in ((node.body, c.term), (node.orelse, tm.negation(c.term))):
            self.path, self.path_needs = self.under(Sym(term, c.needs))
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
            self.path, self.path_needs = self.under(Sym(tm.negation(c.term) if yes_end else c.term, c.needs))
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


def _wrapped(v: int, t: Type) -> int:
    return (v - t.lo) % (1 << t.bits) + t.lo


def _varying(p: Poly | None) -> Poly | None:
    return p if p is not None and p.constant is None else None
