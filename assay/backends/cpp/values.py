"""Printing values: each where it is placed, all its copies side by side.

A `Block` is the body of open loops.  A value is printed once into the innermost block whose loops it lies within, in
topological order; its copies (the product of rep over the loops it varies with) are neighbouring statements, so
independent chains interleave.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import NamedTuple

from assay.backends.cpp import spell
from assay.backends.cpp.rows import is_named, print_row
from assay.backends.cpp.spell import TYPES
from assay.backends.legality import ONE, Rep, replication
from assay.backends.placement import Access, Fill, Loop, Placement, Symbol, Value, reachable
from assay.backends.plan import Schedule
from assay.backends.target import Target
from assay.core import dtypes as dt
from assay.core.dtypes import DType
from assay.core.errors import InternalError
from assay.core.index import (
    Div,
    Factor,
    Ix,
    Quotient,
    Size,
    Val,
    Var,
    factors,
    is_symbolic,
    ix,
    rewrite,
    variable,
    within,
)
from assay.core.lang import T

_LANE = 1 << 17  # level of the variable that stands for the lane of a vector
_COUNTERS = (1 << 17) + 1  # levels of loop counters


def size_name(s: Size) -> str:
    """The C++ name of a size."""
    return f"z_{s.name}"


def extent_text(n: Ix | int) -> str:
    """C++ of an extent: 64, or a long expression over sizes in parentheses."""
    if not is_symbolic(n):
        return str(n)

    def atom(a: Factor) -> str:
        if isinstance(a, Size):
            return size_name(a)
        assert isinstance(a, Div | Quotient)
        inner, c = extent_text(a.e), extent_text(a.c)
        return f"({inner}/{c})" if a.e.lo >= 0 else f"fdiv({inner},{c})"

    parts = [f"{k}L*" * (k != 1) + "*".join(map(atom, factors(term))) for term, k in n.terms]
    return f"({'+'.join([*parts, str(n.c)] if n.c else parts)})".replace("+-", "-")


class Names(NamedTuple):
    """The C++ variables of a value: one for each copy, row-major over `reps`."""

    reps: tuple[Loop, ...]
    texts: list[str]
    vector: bool


class Block:
    """The body of the loops in `loops`, and what has been printed into it."""

    __slots__ = ("broadcasts", "lines", "loops", "names", "parent", "places", "results")

    def __init__(self, parent: Block | None, loops: Iterable[Loop] = ()) -> None:
        self.parent, self.loops = parent, frozenset(loops)
        self.places: dict[frozenset[Loop], Block] = {}
        self.lines: list[str] = []
        self.names: dict[Value, Names] = {}
        self.results: dict[Value, list[Names]] = {}
        self.broadcasts: dict[tuple[Value, int], list[str]] = {}

    def branch(self) -> Block:
        """A block in the same loops that sees what this one has, and keeps what it adds to itself."""
        made = Block(self, self.loops)
        made.names.update(self.names)
        made.results.update(self.results)
        made.broadcasts.update(self.broadcasts)
        return made


class Carry(NamedTuple):
    """A fold cut in chunks: it runs over [lo, hi) (C++ texts); its first value is its init where `first` holds, else the
    old content of output number `output`, element `flat`."""

    lo: str
    hi: str
    first: str
    output: int
    flat: Ix


class Printer:
    """What is known while a kernel is printed: open loops with their copies, and the names of values.

    rep     copies and lanes of the open loops that have more than one (`fill_rep`: of row buffers, when they are filled)
    carries the folds that are cut in chunks
    at      for each open loop, its index in each copy (over counters and the lane)
    """

    def __init__(self, placement: Placement, schedule: Schedule, target: Target, pointer: dict[T, str],
                 outputs: list[str]) -> None:  # fmt: skip
        self.placement, self.schedule, self.target, self.pointer, self.outputs = placement, schedule, target, pointer, outputs
        self.lanes = target.lanes
        self.lane = variable(_LANE, self.lanes)
        self.rep: dict[Loop, Rep] = {}
        self.fill_rep = {x: r for x, r in replication(placement, schedule, target.lanes).items() if x.axis is None}
        self.at: dict[Loop, list[Ix]] = {}
        self.named: dict[Var, str] = {}
        self.block = Block(None)
        self.buffers: list[str] = []
        self.bytes = 0  # of row buffers
        self._needs: dict[Value, set[Value]] = {}
        self.carries: dict[Value, Carry] = {}
        self.widths: dict[Value, int] = {}
        self.constants: dict[Value, Names] = {}
        self.share = 1.0  # of the elements of the kernel, those that are computed where the printer is
        self.rows: dict[str, str] = {}  # the functions of named rows that are used, with their text
        self._constant_vectors: dict[tuple[Value, int], list[str]] = {}
        self.loop_of = {x.var: x for x in placement.loops}
        self._forms: dict[frozenset[Loop], tuple[tuple[Loop, ...], bool]] = {}
        self._indices: dict[tuple[object, ...], Ix] = {}
        self._at_lane: dict[tuple[Ix, int], Ix] = {}
        self._texts: dict[Ix, str] = {}
        self._serial = itertools.count()
        self._counters = itertools.count()
        self._coordinates: dict[tuple[tuple[Loop, int], ...], list[dict[Loop, int]]] = {}
        self._maps: dict[tuple[object, ...], list[int]] = {}

    # -------------------------------------------------------------------------------------------- blocks and names

    def name(self, prefix: str) -> str:
        """A new C++ name."""
        return f"{prefix}{next(self._serial)}"

    def counter(self, n: int, prefix: str = "i") -> tuple[Ix, str]:
        """A new loop counter, 0 <= counter < n, as an index and as a C++ name."""
        var = variable(_COUNTERS + next(self._counters), n)
        name = self.named[var] = self.name(prefix)
        return ix(var), name

    @contextmanager
    def inside(self, block: Block) -> Generator[Block]:
        """Print into `block`."""
        outer, self.block = self.block, block
        try:
            yield block
        finally:
            self.block = outer

    @contextmanager
    def loop(self, loop: Loop, at: list[Ix], rep: Rep = ONE) -> Generator[None]:
        """`loop` is open: its index in each copy is `at`."""
        old = self.rep.get(loop)
        self.at[loop] = at
        if rep != ONE:
            self.rep[loop] = rep
        else:
            self.rep.pop(loop, None)
        self._forget()
        try:
            yield
        finally:
            self._forget()
            self.rep.pop(loop, None)
            if old is not None:
                self.rep[loop] = old

    def _forget(self) -> None:
        """What was found for the copies of the open loops no longer holds."""
        self._forms.clear()
        self._indices.clear()

    def line(self, text: str) -> None:
        self.block.lines.append(text)

    def place(self, v: Value) -> Block:
        """The innermost open block whose loops `v` lies within."""
        found = self.block.places.get(v.within)
        if found is None:
            found = self.block
            while found.parent is not None and found.loops.isdisjoint(v.within):
                found = found.parent
            self.block.places[v.within] = found
        return found

    def form(self, v: Value) -> tuple[tuple[Loop, ...], bool]:
        """The loops over whose copies `v` exists, outermost first, and whether it is a vector: varies with lanes."""
        found = self._forms.get(v.varies)
        if found is None:
            rep = self.rep
            copied = [x for x in v.varies if x in rep and rep[x].copies > 1]
            lanes = any(x in rep and rep[x].lanes > 1 for x in v.varies)
            found = self._forms[v.varies] = tuple(sorted(copied, key=lambda x: x.var.level)), lanes
        return found

    def reps(self, v: Value) -> tuple[Loop, ...]:
        return self.form(v)[0]

    def vector(self, v: Value) -> bool:
        return self.form(v)[1]

    def coordinates(self, reps: tuple[Loop, ...]) -> list[dict[Loop, int]]:
        """Every combination of copies of these loops, in the order of `Names.texts`."""
        key = tuple((x, self.rep[x].copies) for x in reps)
        found = self._coordinates.get(key)
        if found is None:
            ranges = [range(n) for _, n in key]
            found = self._coordinates[key] = [dict(zip(reps, c, strict=True)) for c in itertools.product(*ranges)]
        return found

    def names(self, v: Value) -> Names:
        """The names of a value that has been printed (or of a constant)."""
        found = self.constants.get(v) if v.op == "const" else self.place(v).names.get(v)
        if found is None and v.op == "const":
            found = self.constants[v] = Names((), [spell.constant(v.attr, v.dtype)], False)
        if found is None:
            raise InternalError(f"{v!r} is used before it is printed")
        return found

    def picks(self, user: tuple[Loop, ...], used: tuple[Loop, ...]) -> list[int]:
        """For each copy of a user over `user`, the number of the copy over `used` that it reads."""
        key = (user, used, tuple(self.rep[x].copies for x in user))
        found = self._maps.get(key)
        if found is None:
            found = []
            for at in self.coordinates(user):
                k = 0
                for x in used:
                    k = k * self.rep[x].copies + at.get(x, 0)
                found.append(k)
            self._maps[key] = found
        return found

    def pick(self, names: Names, at: dict[Loop, int]) -> str:
        """The variable that holds the copy `at`."""
        k = 0
        for x in names.reps:
            k = k * self.rep[x].copies + at.get(x, 0)
        return names.texts[k]

    def texts(self, v: Value, user: tuple[Loop, ...], *, vector: bool, width: int = 0) -> list[str]:
        """The text of `v` in each copy of a user; broadcast if the user is a vector; a mask of `width` bits if not 0."""
        names = self.names(v)
        texts = names.texts
        if vector and not names.vector:
            texts = self._broadcast(v, names, width or 32)
        elif vector and width:
            texts = [spell.mask(t, self.width(v), width) for t in texts]
        if names.reps == user:
            return texts
        if len(texts) == 1:
            return texts * len(self.coordinates(user))
        return [texts[k] for k in self.picks(user, names.reps)]

    def _broadcast(self, v: Value, names: Names, width: int) -> list[str]:
        if v.op == "const":
            found = self._constant_vectors.get((v, width))
            if found is None:
                found = self._constant_vectors[v, width] = [spell.broadcast(t, v.dtype, width) for t in names.texts]
            return found
        block = self.place(v)
        if block is self.block:  # at each use: a register is taken for as short as possible, and g++ shares equal ones
            return [spell.broadcast(t, v.dtype, width) for t in names.texts]
        found = block.broadcasts.get((v, width))
        if found is None:
            kind = "L" if width == 64 and v.dtype is dt.bool_ else TYPES[v.dtype].vector
            found = block.broadcasts[v, width] = []
            for t in names.texts:
                made = self.name("b")
                block.lines.append(f"{kind} {made}={spell.broadcast(t, v.dtype, width)};")
                found.append(made)
        return found

    def width(self, v: Value) -> int:
        """Bits a lane of the mask that the boolean `v` is, as a vector."""
        found = self.widths.get(v)
        if found is None:
            found = 32
            if v.op not in ("load", "acc", "fold", "proj", "const", "fill") and v.args:
                inner = [a for a in v.args if a.dtype is dt.bool_]
                if spell.mask_arguments(v):
                    found = max([self.width(a) for a in inner if self.vector(a)], default=32)
                elif spell.wide(v.args[-1].dtype):
                    found = 64
            self.widths[v] = found
        return found

    def type(self, v: Value, *, vector: bool) -> str:
        """The C++ type of a variable that holds `v`."""
        if not vector:
            return TYPES[v.dtype].register
        return "L" if v.dtype is dt.bool_ and self.width(v) == 64 else TYPES[v.dtype].vector

    # -------------------------------------------------------------------------------------------- values

    def compute(self, roots: Iterable[Value]) -> None:
        """Print what `roots` are made of and is not there yet."""
        pending: set[Value] = set()
        stack = list(roots)
        while stack:
            v = stack.pop()
            if v in pending or v.op == "const" or v in self.place(v).names:
                continue
            pending.add(v)
            stack.extend(v.args)
        ordered = sorted(pending, key=lambda v: v.order)
        folds = [v for v in ordered if v.op == "fold"]
        for v in ordered:
            block = self.place(v)
            if v not in block.names:
                self._print(v, block, folds)

    def needs(self, v: Value) -> set[Value]:
        """Everything that the fold `v` is made of."""
        found = self._needs.get(v)
        if found is None:
            found = self._needs[v] = reachable((v,))
        return found

    def _print(self, v: Value, block: Block, folds: list[Value]) -> None:
        if v.op == "proj":
            block.names[v] = self.place(v.args[0]).results[v.args[0]][v.attr]
            return
        outer, self.block = self.block, block
        try:
            if v.op == "fold":
                from assay.backends.cpp.folds import joinable, print_folds

                others = [u for u in folds if u is not v and self.place(u) is block and u not in block.names]
                print_folds(self, joinable(self, v, others) if others else [v])
            elif v.op == "fill":
                from assay.backends.cpp.nest import print_fill

                print_fill(self, v)
            elif is_named(v):
                texts, vector = print_row(self, v)
                block.names[v] = Names(self.form(v)[0], texts, vector)
            else:
                reps, vector = self.form(v)
                texts, vector = self._expressions(v, reps, vector=vector)
                kind = self.type(v, vector=vector)
                names = [f"t{k}" for k in itertools.islice(self._serial, len(texts))]
                block.lines += [f"{kind} {name}={text};" for name, text in zip(names, texts, strict=True)]
                block.names[v] = Names(reps, names, vector)
        finally:
            self.block = outer

    def _expressions(self, v: Value, reps: tuple[Loop, ...], *, vector: bool) -> tuple[list[str], bool]:
        """The text of each copy, and whether they are vectors."""
        if v.op == "load":
            if vector and reps:
                from assay.backends.cpp.transpose import transposed_load

                texts = transposed_load(self, v, reps)
                if texts is not None:
                    return texts, True
            flat = v.attr.flat
            made = [self._load(v, flat, at, vector=vector) for at in self.coordinates(reps)]
            some = any(is_vector for _, is_vector in made)
            if some and not all(is_vector for _, is_vector in made):
                return [t if is_vector else spell.broadcast(t, v.dtype) for t, is_vector in made], True
            return [t for t, _ in made], some
        if v.op == "idx":
            made = [self._index_value(v, at, vector=vector) for at in self.coordinates(reps)]
            some = any(is_vector for _, is_vector in made)
            return [t if is_vector or not some else spell.broadcast(t, v.dtype) for t, is_vector in made], some
        width = 0
        if vector and spell.mask_arguments(v):
            width = self.width(v)
        elif vector and v.op == "select":
            width = 64 if spell.wide(v.dtype) else 32
        columns = []
        for a in v.args:
            if a.dtype is dt.bool_ and vector:
                columns.append(self.texts(a, reps, vector=True, width=width or (self.width(a) if self.names(a).vector else 32)))
            else:
                columns.append(self.texts(a, reps, vector=vector))
        if v.op == "convert" and vector and v.args[0].dtype is dt.bool_:
            columns = [self.texts(v.args[0], reps, vector=vector, width=64 if v.dtype is dt.i64 else 32)]
        return list(map(spell.template(v, vector=vector), *columns)), vector

    # -------------------------------------------------------------------------------------------- indices

    def index(self, i: Ix, at: dict[Loop, int]) -> Ix:
        """`i` over counters, the lane and symbols, in the copy `at`."""
        if not i.terms:
            return i

        key = (i, *at.items())
        found = self._indices.get(key)
        if found is None:

            def atom(a: Var | Val) -> Ix:
                loop = self.loop_of.get(a)  # type: ignore[arg-type]
                return ix(a) if loop is None else self.at[loop][at.get(loop, 0)]

            found = self._indices[key] = rewrite(i, atom)
        return found

    def at_lane(self, i: Ix, lane: int) -> Ix:
        """`i` in one lane."""
        if self.lane not in i.free:
            return i
        found = self._at_lane.get((i, lane))
        if found is None:
            found = self._at_lane[i, lane] = rewrite(i, lambda a: ix(lane) if a is self.lane else ix(a))
        return found

    def index_text(self, i: Ix, at: dict[Loop, int], lane: int | None = None) -> str:
        """C++ of an index (a long); symbols that are vectors are read in `lane`."""
        found = self._texts.get(i)
        if found is not None:
            return found
        parts: list[str] = []
        for term, k in i.terms:
            texts = [self._factor(a, at, lane) for a in factors(term)]
            text = "*".join(f"({x})" if "/" in x and len(texts) > 1 else x for x in texts)
            parts.append(text if k == 1 else f"{k}L*({text})" if "/" in text else f"{k}L*{text}")
        if i.c or not parts:
            parts.append(str(i.c) if -(2**31) < i.c < 2**31 else spell.constant(i.c % 2**64, dt.i64))
        text = "+".join(parts).replace("+-", "-")
        if i.is_plain:  # counters keep their names, a symbol is a name of this place
            self._texts[i] = text
        return text

    def _factor(self, a: Factor, at: dict[Loop, int], lane: int | None) -> str:
        """C++ of an atom of an index."""
        if type(a) is Var:
            return self.named[a]
        if isinstance(a, Symbol):
            return self._symbol(a, at, lane)
        if type(a) is Size:
            return size_name(a)
        assert isinstance(a, Div | Quotient)
        inner, c = self.index_text(a.e, at, lane), extent_text(a.c)
        return f"({inner})/{c}" if a.e.lo >= 0 else f"fdiv({inner},{c})"

    def _symbol(self, symbol: Symbol, at: dict[Loop, int], lane: int | None) -> str:
        """The value that `symbol` stands for."""
        v = self.placement.symbols[symbol.mark]
        names = self.names(v)
        text = self.pick(names, at)
        if names.vector:
            text = f"{text}[{lane}]"
        return f"(long){text}"

    def varying(self, i: Ix) -> bool:
        """Whether the index differs between lanes."""
        symbols = self.placement.symbols
        return self.lane in i.free or any(s in symbols and self.names(symbols[s]).vector for s in i.free)

    def stride(self, i: Ix) -> int | None:
        """k where i = k * lane + (the same in all lanes); None where it is not of this form."""
        k = dict(i.terms).get(self.lane, 0)
        return k if i.is_plain or not self.varying(i - k * ix(self.lane)) else self._stride_by_lanes(i)

    def _stride_by_lanes(self, i: Ix) -> int | None:
        """The stride where division hides it: the lanes differ by constants."""
        first = self.at_lane(i, 0)
        if self.varying(first):
            return None
        step = self.at_lane(i, 1) - first
        if not step.is_const or any(self.at_lane(i, j) - first != ix(step.c * j) for j in range(2, self.lanes)):
            return None
        return step.c

    def base(self, i: Ix) -> Ix:
        """`i` in lane 0."""
        return self.at_lane(i, 0)

    def _index_value(self, v: Value, at: dict[Loop, int], *, vector: bool) -> tuple[str, bool]:
        i = self.index(v.attr, at)
        kind = TYPES[v.dtype]
        if not vector or not self.varying(i):
            text = self.index_text(i, at)
            if v.dtype.is_half:
                return spell.convert(f"(float)({text})", dt.f32, v.dtype, vector=False), False
            return f"({kind.register})({text})", False
        k = self.stride(i)
        if k is None:
            cells = ",".join(f"({kind.register})({self.index_text(self.at_lane(i, j), at, j)})" for j in range(self.lanes))
            return f"mk{kind.vector}({cells})", True
        iota = "iota" if kind.vector == "I" else "iotaL"
        base = self.index_text(self.base(i), at)
        scaled = iota if k == 1 else f"{iota}*{spell.broadcast(f'({kind.register}){k}', v.dtype)}"
        return f"{scaled}+{spell.broadcast(f'({kind.register})({base})', v.dtype)}", True

    # -------------------------------------------------------------------------------------------- loads

    def _load(self, v: Value, flat: Ix, at: dict[Loop, int], *, vector: bool) -> tuple[str, bool]:
        access: Access = v.attr
        guards = self.guards(access, at)
        return self.load_at(self.pointer_of(v, at), access.dtype, self.index(flat, at), guards, at, vector=vector)

    def guards(self, access: Access, at: dict[Loop, int]) -> list[tuple[Ix, int]]:
        """The indices that may lie outside [0, n), each with its n."""
        if access.proved:
            return []
        indices = [(self.index(i, at), n) for i, n in zip(access.indices, access.shape, strict=True)]
        return [(i, n) for i, n in indices if not within(i, n)]

    def pointer_of(self, v: Value, at: dict[Loop, int]) -> str:
        """The C++ pointer that the load `v` reads through: a parameter, a row buffer, or the output itself."""
        access: Access = v.attr
        if isinstance(access.buffer, Fill):
            return self.pick(self.names(v.args[0]), at)
        return self.outputs[access.output] if access.tensor is None else self.pointer[access.tensor]

    def load_at(self, p: str, d: DType, flat: Ix, guards: list[tuple[Ix, int]], at: dict[Loop, int], *,
                vector: bool) -> tuple[str, bool]:  # fmt: skip
        """Element `flat` behind the pointer `p`, 0 where a guard (0 <= index < n) fails; whether it is a vector."""
        kind = TYPES[d]
        if not vector or not (self.varying(flat) or any(self.varying(g) for g, _ in guards)):
            return self._scalar_load(p, d, flat, guards, at, 0), False
        uniform = [(g, n) for g, n in guards if not self.varying(g)]
        lanewise = [(g, n) for g, n in guards if self.varying(g)]
        contiguous = self.stride(flat) == 1
        by_mask = kind.access in "FIDL" and all(self.stride(g) == 1 for g, _ in lanewise)
        if contiguous and (by_mask or not lanewise):
            address = f"{p}+({self.index_text(self.base(flat), at)})"
            text = f"ld{kind.access}({address})"
            if lanewise:
                ranges = "&".join(f"range({self.index_text(self.base(g), at)},{extent_text(n)})" for g, n in lanewise)
                text = f"ml{kind.access}({address},{ranges})"
            return (f"({self.conditions(uniform, at)})?{text}:{kind.vector}{{}}" if uniform else text), True
        cells = []
        for j in range(self.lanes):
            inside = [(self.at_lane(g, j), n) for g, n in guards]
            inside = [(g, n) for g, n in inside if not within(g, n)]
            cells.append(self._scalar_load(p, d, self.at_lane(flat, j), inside, at, j))
        text = f"mk{kind.vector}({','.join(cells)})"
        return (f"-{text}" if d is dt.bool_ else text), True

    def _scalar_load(self, p: str, d: DType, flat: Ix, guards: list[tuple[Ix, int]], at: dict[Loop, int], lane: int) -> str:
        text = f"{p}[{self.index_text(flat, at, lane)}]"
        if d is dt.bool_:
            text = f"({text}!=0)"
        if any(g.hi < 0 or (not is_symbolic(n) and g.lo >= n) for g, n in guards):
            return f"({TYPES[d].register})0"
        return f"(({self.conditions(guards, at, lane)})?{text}:({TYPES[d].register})0)" if guards else text

    def conditions(self, guards: list[tuple[Ix, int]], at: dict[Loop, int], lane: int = 0) -> str:
        """C++ that holds where every index lies in [0, n)."""
        return "&&".join(f"(unsigned long)({self.index_text(g, at, lane)})<{extent_text(n)}" for g, n in guards)
