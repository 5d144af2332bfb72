"""Where each value of a kernel is computed: the facts that both the cost model and the emitter read.

The bodies of a kernel are opened: every axis and every fold gets its own `Loop`, named rows are expanded to primitive
ones, and each scalar becomes a `Value` with two sets of loops:

    within   the loops it must be inside; it is computed once an iteration of the innermost of them
    varies   the loops its value depends on, also through accumulators; it exists once for each copy of these

An accumulator lies within its own loop only, but varies with everything that its fold varies with.  So, with
rep[loop] = (copies, lanes) from the schedule, a value costs prod(copies over varies) operations an iteration of the
innermost loop of `within`, and it is a vector where a loop of `varies` has lanes.  That alone gives hoisting, reuse,
register tiles and recomputation.

Addresses are `Ix` over the variables of loops, and `Symbol`s that stand for values read from data (gather).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.backends.plan import Kernel
from assay.core.dtypes import DType
from assay.core.errors import InternalError
from assay.core.index import Ix, Val, Var, is_symbolic, ix, rewrite, same_shape, values, variable
from assay.core.index import within as is_inside
from assay.core.lang import LOADS, E, T, accumulators, axes, expand, load, op, walk
from assay.core.lang import input as tensor_input
from assay.core.lang.expressions import union
from assay.core.row import NAMED, TABLE
from assay.core.text import domain
from assay.semantics.access import row_major

if TYPE_CHECKING:
    from assay.verify.bounds import ProvenProgram

_SYMBOLS = 1 << 18  # levels of the symbols of a kernel: above every axis, below fresh variables
_NONE: frozenset[Loop] = frozenset()


class Loop:
    """A binder of the kernel: an axis, a fold, or an axis of a row buffer; `var` stands for it in addresses."""

    __slots__ = ("axis", "fold", "n", "var")

    def __init__(self, var: Var, axis: int | None = None) -> None:
        self.var, self.n, self.axis = var, var.n, axis
        self.fold: Value | None = None

    def __repr__(self) -> str:
        return f"{'fold' if self.axis is None else 'axis'} {self.var!r}:{self.n}"


class Value:
    """A scalar of the kernel.  `attr` holds what is not a value:

    const: the bits   load: Access   idx: Ix   acc: (Loop, k)   fold: Fold   proj: k   fill: Fill

    `order` is a topological order: arguments (and the steps of a fold) before users.
    """

    __slots__ = ("args", "attr", "dtype", "hi", "lo", "op", "order", "varies", "within")
    op: str
    args: tuple[Value, ...]
    attr: Any
    dtype: DType
    within: frozenset[Loop]
    varies: frozenset[Loop]
    order: int
    lo: int
    hi: int

    def __repr__(self) -> str:
        return f"v{self.order}={self.op}({', '.join(f'v{a.order}' for a in self.args)})"


class Symbol(Val):
    """An atom of an index that stands for an integer value; `mark` is what it adds to the `free` variables of an index."""

    __slots__ = ("mark",)
    mark: Var


_symbols: dict[tuple[int, int, int], Symbol] = {}


def _symbol(k: int, lo: int, hi: int) -> Symbol:
    """Symbol number k of a kernel, lo <= symbol <= hi (interned: kernels compiled later use the same ones)."""
    found = _symbols.get((k, lo, hi))
    if found is None:
        found = _symbols[k, lo, hi] = Symbol()
        found.mark = variable(_SYMBOLS + k, 2)
        found.key, found.free, found.sizes, found.lo, found.hi = (2, k, lo, hi), found.mark.free, frozenset(), lo, hi
    return found


class Scope(dict[Var, Ix]):
    """What the variables of `tensor`'s expressions are in the kernel; `images` numbers the images of sets of variables,
    `made` are the values of its expressions, as far as they are known."""

    __slots__ = ("images", "made", "tensor")

    def __init__(self, tensor: T, *parts: Iterable[tuple[Var, Ix]] | Mapping[Var, Ix]) -> None:
        super().__init__()
        self.tensor = tensor
        self.images: dict[frozenset[Var], int] = {}
        self.made: dict[E, Value] = {}
        for part in parts:
            self.update(part)


class Access(NamedTuple):
    """A read: `indices` into a tensor of `shape` (for a row buffer, the trailing axes); `flat` is the element's number.

    tensor None reads the kernel's own output number `output` (the old value of a scatter).  `proved`: in bounds on every
    path, so no guard is needed whatever the intervals say.
    """

    tensor: T | None
    shape: tuple[int, ...]
    indices: tuple[Ix, ...]
    dtype: DType
    proved: bool
    buffer: Fill | None = None
    output: int = 0

    @property
    def flat(self) -> Ix:
        return row_major(self.shape, self.indices)


@dataclass(eq=False)
class Fold:
    """a_k = inits[k]; for r in loop: (a_0, ...) = steps(a, r)."""

    loop: Loop
    inits: tuple[Value, ...]
    accs: tuple[Value, ...]
    steps: tuple[Value, ...] = ()

    @cached_property
    def recurrence(self) -> frozenset[Value]:
        """The values of a step that depend on the accumulators: what has to run in order."""
        found: set[Value] = set()
        for v in sorted(reachable(self.steps, inside=self.loop), key=lambda v: v.order):
            if v in self.accs or not found.isdisjoint(v.args):
                found.add(v)
            elif v.op == "fold" and not found.isdisjoint(reachable(v.attr.steps)):
                found.add(v)
        return frozenset(found)

    @cached_property
    def terms(self) -> tuple[Value, ...]:
        """The values that the recurrence reads and that do not depend on the accumulators."""
        used = {a: None for v in sorted(self.recurrence, key=lambda v: v.order) for a in v.args}
        used.update((s, None) for s in self.steps)
        return tuple(a for a in used if a not in self.recurrence and a.op != "const")

    @property
    def splits_terms(self) -> bool:
        """Whether the terms can be computed in lanes ahead of the recurrence ("rowvec")."""
        return not any(v.op in ("fold", "proj") for v in self.recurrence)


@dataclass(eq=False)
class Fill:
    """A row buffer of `tensor`, for the leading indices `lead`: the trailing axes are `loops`, the elements `body`."""

    tensor: T
    lead: tuple[Ix, ...]
    shape: tuple[int, ...]
    loops: tuple[Loop | None, ...]
    body: Value | None = None

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclass(eq=False)
class Store:
    """What one tensor of the kernel writes: `value` at element `flat` (scan: the state before each step, at step 0, 1, ...).

    `cond` of a require.  For a scatter `indices` are the written ones, which may need a guard.
    """

    tensor: T
    value: Value
    flat: Ix
    cond: Value | None = None
    indices: tuple[Ix, ...] = ()
    atoms: tuple[Value, ...] = ()  # the values that the indices read
    step: int = 0  # scan: distance, in elements, between the states


class Placement:
    """The opened kernel; `facts` say which loads need no guard although intervals do not show it.

    axes     the loops over the domain (None for an axis of size 1): the shape of a let or require, the domain of a
             scatter, the shape without the scanned axis of a scan.  `Schedule` numbers these axes.
    stores   one for each tensor
    values   every value in topological order; a named row of floats is one value, or with `open_rows` its composition
    symbols  the value that each symbol stands for, by its mark
    """

    def __init__(self, kernel: Kernel, facts: ProvenProgram | None = None, *, open_rows: bool = False) -> None:
        self.kernel, self.facts, self.open_rows = kernel, facts, open_rows
        self.kind = kernel.tensors[0].kind
        self.shape = domain(kernel.tensors[0])
        self.values: list[Value] = []
        self.symbols: dict[Var, Value] = {}
        self.fills: list[Fill] = []
        self.loops: list[Loop] = []
        self._local = dict(kernel.local)
        self._symbol_of: dict[Value, Ix] = {}
        self._memo: dict[tuple[E, int], Value] = {}
        self._images: dict[tuple[Ix, ...], int] = {}
        self._interned: dict[tuple[Any, ...], Value] = {}
        self._fills: dict[tuple[T, tuple[Ix, ...]], Value] = {}
        self._loop_of: dict[Var, Loop] = {}
        self.axes = tuple(self._loop(n, k) if is_symbolic(n) or n != 1 else None for k, n in enumerate(self.shape))
        self.index = tuple(ix(a.var) if a else ix(0) for a in self.axes)
        self.stores = [self._store(t, q) for q, t in enumerate(kernel.tensors)]

    # -------------------------------------------------------------------------------------------- what a tensor writes

    def _store(self, t: T, number: int) -> Store:
        if not same_shape(domain(t), self.shape) or (t.kind in ("scan", "scatter")) != (self.kind in ("scan", "scatter")):
            raise InternalError(f"a kernel computes tensors of one domain together, not {self.kernel.tensors}")
        scope = Scope(t, zip(axes(self.shape), self.index, strict=True))
        if t.kind in ("let", "require"):
            roots = (t.body,) if t.kind == "let" else (t.body, t.cond)
            made = self._lower(roots, scope)
            return Store(t, made[0], row_major(t.shape, self.index), made[1] if t.kind == "require" else None)
        if t.kind == "scan":
            (node,) = self._lower((t.body,), scope)
            lead = (*self.index[: t.axis], ix(0), *self.index[t.axis :])
            return Store(t, node, row_major(t.shape, lead), step=math.prod(t.shape[t.axis + 1 :]))
        if t.kind == "scatter":
            return self._scatter(t, number, scope)
        raise InternalError(f"a kernel cannot compute {t.kind} {t!r}")

    def _scatter(self, t: T, number: int, scope: Scope) -> Store:
        (body,) = self._lower((t.body,), scope)
        vals = [v.e for i in t.indices for v in values(i)]
        self._lower(vals, scope)
        idx = tuple(self._index(i, scope) for i in t.indices)
        if t.combine is not None:
            every = frozenset(a for a in self.axes if a)
            access = Access(None, t.shape, idx, t.dtype, False, output=number)
            old = self._value("load", tuple(self._atoms(idx)), access, t.dtype, every, every, (t.lo, t.hi))
            body = self._row(t.combine, (old, body), t.dtype, (t.lo, t.hi))
        return Store(t, body, row_major(t.shape, idx), indices=idx, atoms=tuple(self._atoms(idx)))

    # -------------------------------------------------------------------------------------------- construction

    def _loop(self, n: int, axis: int | None = None) -> Loop:
        loop = Loop(variable(_SYMBOLS + len(self.loops) + len(self.symbols), n), axis)
        self.loops.append(loop)
        self._loop_of[loop.var] = loop
        return loop

    def _value(self, op: str, args: tuple[Value, ...], attr: Any, dtype: DType, within: frozenset[Loop],
               varies: frozenset[Loop], interval: tuple[int, int]) -> Value:  # fmt: skip
        key = (op, args, attr, dtype)
        found = self._interned.get(key)
        if found is None:
            found = self._interned[key] = Value()
            found.op, found.args, found.attr, found.dtype = op, args, attr, dtype
            found.within, found.varies, found.order = within, varies, len(self.values)
            found.lo, found.hi = interval
            self.values.append(found)
        return found

    def _row(self, op: str, args: tuple[Value, ...], dtype: DType, interval: tuple[int, int]) -> Value:
        within, varies = union([a.within for a in args], _NONE), union([a.varies for a in args], _NONE)
        return self._value(op, args, None, dtype, within, varies, interval)

    def _key(self, e: E, env: Scope) -> tuple[E, int]:
        """What the value of `e` in this scope depends on: `e`, and what its variables are."""
        free = e.free
        image = env.images.get(free)
        if image is None:
            images = tuple([env[v] for v in sorted(free, key=lambda v: v.key)])
            image = env.images[free] = self._images.setdefault(images, len(self._images))
        return e, image

    def _lower(self, roots: Sequence[E], env: Scope) -> list[Value]:
        """The values of `roots`, bound variables given by `env`; iterative, for programs are deep."""
        memo, key_of = self._memo, self._key
        opened: dict[Any, Any] = {}
        stack: list[tuple[E, Scope]] = [(e, env) for e in roots]
        while stack:
            e, scope = stack[-1]
            known = scope.made
            if e in known:
                stack.pop()
                continue
            key = key_of(e, scope)
            if key in memo:
                known[e] = memo[key]
                stack.pop()
                continue
            if e.args and _is_primitive(e.op):
                made = [known.get(a) for a in e.args]
                if None in made:
                    stack.extend([(a, scope) for a, v in zip(e.args, made, strict=True) if v is None][::-1])
                    continue
                known[e] = memo[key] = self._row(e.op, tuple(made), e.dtype, (e.lo, e.hi))  # type: ignore[arg-type]
                stack.pop()
                continue
            missing = [part for part in self._parts(e, scope, key, opened) if key_of(*part) not in memo]
            if missing:
                stack.extend(reversed(missing))
                continue
            known[e] = memo[key] = self._make(e, scope, key, opened)
            stack.pop()
        return [memo[key_of(e, env)] for e in roots]

    def _parts(self, e: E, env: Scope, key: Any, opened: dict[Any, Any]) -> list[tuple[E, Scope]]:
        """What must be lowered before `e`, each with its scope."""
        if e.op == "fold":
            half = len(e.args) // 2
            inits = [(a, env) for a in e.args[:half]]
            if any(self._key(a, env) not in self._memo for a in e.args[:half]):
                return inits
            if key not in opened:
                opened[key] = self._open(e, env)
            _, scope = opened[key]
            return [(a, scope) for a in e.args[half:]]
        if e.op in LOADS and e.attr[0] in self._local:
            below = [(d, env) for d in e.deps]
            if any(self._key(d, env) not in self._memo for d in e.deps):
                return below
            fill, scope = self._fill(e, env, opened)
            return below if scope is None else [(fill.tensor.body, scope)]
        meaning = e if _composition(e) else expand(e)
        return [(meaning, env)] if meaning is not e else [(d, env) for d in e.deps]

    def _make(self, e: E, env: Scope, key: Any, opened: dict[Any, Any]) -> Value:
        op, interval = e.op, (e.lo, e.hi)
        if op == "const":
            return self._value(op, (), e.attr, e.dtype, _NONE, _NONE, interval)
        if op == "fold":
            return self._close(e, *opened[key])
        if op == "acc":
            loop = self._loop_of[env[e.attr[0]].terms[0][0]]  # type: ignore[index]
            assert loop.fold is not None
            return loop.fold.attr.accs[e.attr[1]]
        if op == "idx":
            i = self._index(e.attr, env)
            atoms = tuple(self._atoms((i,)))
            return self._value(op, atoms, i, e.dtype, self._within((i,), atoms), self._varies((i,), atoms), interval)
        if op in LOADS:
            return self._load(e, env)
        steps = _composition(e)
        meaning = e if steps else expand(e)
        if meaning is not e:
            return self._memo[self._key(meaning, env)]
        args = tuple([self._memo[self._key(a, env)] for a in e.args])
        if steps:
            whole = not self.open_rows and e.dtype.is_float
            return self._row(op, args, e.dtype, interval) if whole else self._compose(steps, args)
        if op == "proj":
            return self._value(op, args, e.attr, e.dtype, args[0].within, args[0].varies, interval)
        assert op == "stop"
        return args[0]

    def _compose(self, steps: Sequence[_Step], args: tuple[Value, ...]) -> Value:
        """The value of a named row of `args`: the steps of its composition in order."""
        made = list(args)
        for s in steps:
            if s.op == "const":
                made.append(self._value(s.op, (), s.attr, s.dtype, _NONE, _NONE, s.interval))
            else:
                made.append(self._row(s.op, tuple([made[k] for k in s.args]), s.dtype, s.interval))
        return made[-1]

    # -------------------------------------------------------------------------------------------- folds

    def _open(self, e: E, env: Scope) -> tuple[Value, Scope]:
        """The fold value without its steps, and the scope of the steps."""
        half = len(e.args) // 2
        loop = self._loop(e.attr.n)
        inits = tuple(self._memo[self._key(a, env)] for a in e.args[:half])
        images = [env[v] for v in e.free]  # a leading index of a row buffer may be an index read from data
        atoms = self._atoms(images)
        within, varies = self._within(images, atoms), self._varies(images, atoms)
        outer = {v for v in e.free if self._loop_of.get(env[v].terms[0][0] if env[v].terms else v, loop).fold}  # type: ignore[arg-type]
        if outer:
            read = [a for a in walk((e,)) if a.op == "acc" and a.attr[0] in outer]
            known = [self._memo[self._key(a, env)].varies for a in read if self._key(a, env) in self._memo]
            varies = union([varies, *known], _NONE)
            for a in read:
                owner = self._loop_of[env[a.attr[0]].terms[0][0]].fold  # type: ignore[index]
                varies = varies | (owner.varies if owner else _NONE)
        fold = Value()
        fold.op, fold.args, fold.dtype, fold.within, fold.varies = "fold", inits, e.dtype, within, varies
        fold.lo, fold.hi, fold.order = e.lo, e.hi, -1
        loop.fold = fold
        own = frozenset((loop,))
        attr = Fold(loop, inits, ())
        attr.accs = tuple(
            self._value("acc", (), (loop, k), a.dtype, own, own | varies, (a.lo, a.hi)) for k, a in enumerate(accumulators(e))
        )
        fold.attr = attr
        return fold, Scope(env.tensor, env, ((e.attr, ix(loop.var)),))

    def _close(self, e: E, fold: Value, scope: Scope) -> Value:
        half = len(e.args) // 2
        fold.attr.steps = tuple(self._memo[self._key(a, scope)] for a in e.args[half:])
        fold.order = len(self.values)
        self.values.append(fold)
        return fold

    # -------------------------------------------------------------------------------------------- indices and loads

    def _index(self, i: Ix, env: Scope) -> Ix:
        def atom(a: Var | Val) -> Ix:
            if isinstance(a, Var):
                return env[a]
            return self._standing(self._memo[self._key(a.e, env)])

        return rewrite(i, atom) if i.terms else i

    def _standing(self, v: Value) -> Ix:
        """An index that stands for an integer value."""
        found = self._symbol_of.get(v)
        if found is None:
            if v.op == "idx":
                found = v.attr
            else:
                symbol = _symbol(len(self.loops) + len(self.symbols), v.lo, v.hi)
                self.symbols[symbol.mark] = v
                found = ix(symbol)
            self._symbol_of[v] = found
        return found

    def _atoms(self, indices: Iterable[Ix]) -> list[Value]:
        """The values that the indices read."""
        if not self.symbols:
            return []
        free = (v for i in indices for v in sorted(i.free, key=lambda v: v.key))
        return list(dict.fromkeys(self.symbols[v] for v in free if v in self.symbols))

    def _within(self, indices: Iterable[Ix], atoms: Iterable[Value]) -> frozenset[Loop]:
        own = frozenset(self._loop_of[v] for i in indices for v in i.free if v in self._loop_of)
        return union([own, *(a.within for a in atoms)], _NONE)

    def _varies(self, indices: Iterable[Ix], atoms: Iterable[Value]) -> frozenset[Loop]:
        own = frozenset(self._loop_of[v] for i in indices for v in i.free if v in self._loop_of)
        return union([own, *(a.varies for a in atoms)], _NONE)

    def _load(self, e: E, env: Scope) -> Value:
        t, indices = e.attr
        idx = tuple([self._index(i, env) for i in indices])
        atoms = tuple(self._atoms(idx))
        proved = self.facts is not None and self.facts.is_inside(env.tensor, e)
        if t in self._local:
            lead = self._local[t]
            fill = self._fills[t, idx[:lead]]
            access = Access(t, fill.attr.shape, idx[lead:], t.dtype, proved, fill.attr)
            atoms = (fill, *atoms)
        else:
            access = Access(t, t.shape, idx, t.dtype, proved)
        within, varies = self._within(idx, atoms), self._varies(idx, atoms)
        return self._value("load", atoms, access, t.dtype, within, varies, (e.lo, e.hi))

    def _fill(self, e: E, env: Scope, opened: dict[Any, Any]) -> tuple[Fill, Scope | None]:
        """The row buffer that `e` reads; its scope too while its body is not lowered yet."""
        t, indices = e.attr
        lead = tuple(self._index(i, env) for i in indices[: self._local[t]])
        found = self._fills.get((t, lead))
        if found is not None:
            return found.attr, None
        if t.kind != "let":
            raise InternalError(f"only a let can live in a row buffer, not {t.kind} {t!r}")
        if not all(is_inside(i, n) for i, n in zip(lead, t.shape, strict=False)):
            raise InternalError(f"a row buffer of {t!r} is asked for rows {list(lead)}, which it may not have")
        key = ("fill", t, lead)
        if key not in opened:
            shape = t.shape[len(lead) :]
            loops = tuple(self._loop(n) if n != 1 else None for n in shape)
            trail = (ix(a.var) if a else ix(0) for a in loops)
            opened[key] = Fill(t, lead, shape, loops), Scope(t, zip(axes(t.shape), (*lead, *trail), strict=True))
        fill, scope = opened[key]
        body = self._memo.get(self._key(t.body, scope))
        if body is None:
            return fill, scope
        fill.body = body
        atoms = tuple(self._atoms(lead))
        within, varies = self._within(lead, atoms), self._varies(lead, atoms)
        own = frozenset(x for x in fill.loops if x)
        within, varies = within | (body.within - own), varies | (body.varies - own)
        self._fills[t, lead] = self._value("fill", atoms, fill, t.dtype, within, varies, (0, 0))
        self.fills.append(fill)
        return fill, None

    # -------------------------------------------------------------------------------------------- what others read

    @cached_property
    def folds(self) -> list[Fold]:
        """The folds, inner ones first."""
        return [v.attr for v in self.values if v.op == "fold"]

    @cached_property
    def loads(self) -> list[Value]:
        """The load values; `.attr` is the Access."""
        return [v for v in self.values if v.op == "load"]

    @cached_property
    def reads(self) -> tuple[T, ...]:
        """The tensors that the kernel reads from memory, each once."""
        read = [v.attr.tensor for v in self.loads if v.attr.buffer is None and v.attr.tensor is not None]
        read += [t.base for t in self.kernel.tensors if t.kind == "scatter"]
        return tuple(dict.fromkeys(read))

    @property
    def roots(self) -> list[Value]:
        """The values that are stored or checked, or say where."""
        return [v for s in self.stores for v in (s.value, s.cond, *s.atoms) if v is not None]


# ------------------------------------------------------------------------------------------------ named rows


class _Step(NamedTuple):
    """A constant, or a primitive row applied to `args`: numbers of arguments of the composition, then of earlier steps."""

    op: str
    args: tuple[int, ...]
    attr: Any
    dtype: DType
    interval: tuple[int, int]


@cache
def _is_primitive(name: str) -> bool:
    """Whether a node of this name is a row of its arguments as it stands: no named row, `stop`, or part of a fold."""
    r = TABLE.get(name)
    return name in ("convert", "bitcast") if r is None else r.kind != NAMED and name != "stop"


def _composition(e: E) -> tuple[_Step, ...]:
    """The primitive rows that the named row `e` of floats means; () for others: integer intervals may decide selects."""
    r = TABLE.get(e.op)
    if r is None or r.kind != "named" or not all(a.dtype.is_float for a in e.args):
        return ()
    return composition(e.op, tuple([a.dtype for a in e.args]))


@cache
def composition(name: str, dtypes: tuple[DType, ...]) -> tuple[_Step, ...]:
    """The steps of a named row for arguments of these types; () where it is no composition of rows alone."""
    args = tuple(load(tensor_input(f"argument {k}", (), d)) for k, d in enumerate(dtypes))
    number: dict[E, int] = {a: k for k, a in enumerate(args)}
    steps: list[_Step] = []
    stack = [expand(op(name, *args))]
    while stack:
        e = stack[-1]
        meaning = expand(e)
        missing = [a for a in ((meaning,) if meaning is not e else e.args) if a not in number]
        if missing and e not in number:
            stack.extend(reversed(missing))
            continue
        stack.pop()
        if e in number:
            continue
        if meaning is not e:
            number[e] = number[meaning]
        elif e.op == "stop":
            number[e] = number[e.args[0]]
        elif e.op == "const" or (e.op in TABLE and e.attr is None) or e.op in ("convert", "bitcast"):
            number[e] = len(args) + len(steps)
            steps.append(_Step(e.op, tuple([number[a] for a in e.args]), e.attr, e.dtype, (e.lo, e.hi)))
        else:
            return ()
    return tuple(steps)


# ------------------------------------------------------------------------------------------------ walks


def reachable(roots: Iterable[Value], inside: Loop | None = None) -> set[Value]:
    """The values that `roots` are made of, steps of folds and bodies of row buffers too; only those within `inside`."""
    seen: set[Value] = set()
    stack = list(roots)
    while stack:
        v = stack.pop()
        if v in seen or (inside is not None and inside not in v.within and inside not in v.varies):
            continue
        seen.add(v)
        stack.extend(v.args)
        if v.op == "fold":
            stack.extend(v.attr.steps)
        elif v.op == "fill":
            stack.append(v.attr.body)
    return seen


__all__ = [
    "Access", "Fill", "Fold", "Loop", "Placement", "Store", "Symbol", "Value", "composition", "reachable",
]  # fmt: skip
