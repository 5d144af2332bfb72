"""Printing a kernel: its loop nest with tiles, tails, blocks and threads, and the stores at its bottom.

A kernel is a function `k(P, lo, hi)`: P holds the tensors' addresses, [lo, hi) are the units (tiles, the tail included) of
the loop that is divided among threads.  Tiles of an axis are whole, then one tail: of a vector axis it ends with a
vector that overlaps the one before (the same elements are computed twice, to the same bits), so that no lane is masked.
Where that is little work, the tail is one more whole tile that ends with the axis: its code is that of the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from assay.backends.cpp import spell
from assay.backends.cpp.folds import print_scan
from assay.backends.cpp.spell import TYPES
from assay.backends.cpp.values import Block, Carry, Names, Printer, extent_text, size_name
from assay.backends.legality import ONE, Rep, carried, illegal, replication
from assay.backends.placement import Fill, Fold, Loop, Placement, Store, Value
from assay.backends.plan import Schedule
from assay.backends.readback import ReadBack
from assay.backends.target import Target
from assay.core import dtypes as dt
from assay.core.errors import InternalError
from assay.core.index import Ix, Size, Var, divisions, is_symbolic, ix, within
from assay.core.lang import T
from assay.core.sizes import hint
from assay.verify.nests import Axis, LoopNest, Piece

AGAIN = 25  # one element in so many may be computed twice to save the code of a tail
STACK = 1 << 20  # bytes of row buffers that a kernel may put on its thread's stack


def cut(n: int, rep: Rep, lanes: int, *, repeatable: bool, movable: bool = False) -> Axis:
    """The axis of n elements in tiles of `rep`, then tails.

    Unless computing an element twice is harmless (`repeatable`), the last ones are scalar.  `movable`: a tile may start at
    any element.
    """
    size = rep.copies * rep.lanes
    if is_symbolic(n):
        return _cut_extent(n, rep, size)
    steps, rest = divmod(n, size)
    start = n - rest
    offsets = tuple(q * rep.lanes for q in range(rep.copies))
    if repeatable and movable and steps and rest and AGAIN * (size - rest) <= n:
        return Axis(n, (Piece(steps + 1, size, offsets, rep.lanes, last=n - size),))
    pieces = [Piece(steps, size, offsets, rep.lanes)] if steps else []
    if rest and rep.lanes == 1:
        pieces.append(Piece(1, 0, tuple(range(start, n)), 1, is_tail=True))
    elif rest and repeatable:
        last = tuple(min(start + q * lanes, n - lanes) for q in range(-(-rest // lanes)))
        pieces.append(Piece(1, 0, last, lanes, is_tail=True))
    else:
        if rest >= lanes:
            pieces.append(Piece(1, 0, tuple(start + q * lanes for q in range(rest // lanes)), lanes, is_tail=True))
        if rest % lanes:
            pieces.append(Piece(rest % lanes, 1, (0,), 1, n - rest % lanes, is_tail=True))
    return Axis(n, tuple(pieces))


def _cut_extent(n: Ix, rep: Rep, size: int) -> Axis:
    """The axis of an extent that depends on sizes: tiles, then single elements, each as many as there are."""
    steps = n // size
    whole: Any = steps
    length: Any = n
    if size == 1:
        return Axis(length, (Piece(length, 1, (0,), 1),))
    tiles = Piece(whole, size, tuple(q * rep.lanes for q in range(rep.copies)), rep.lanes)
    left: Any = n - steps * size
    base: Any = steps * size
    return Axis(length, (tiles, Piece(left, 1, (0,), 1, base, is_tail=True)))


class Nest:
    """The loop nest of one kernel."""

    def __init__(self, placement: Placement, schedule: Schedule, target: Target, pointer: dict[T, str], name: str,
                 failures: dict[T, int], addresses: dict[T, int], sizes: Sequence[Size] = ()) -> None:  # fmt: skip
        why = illegal(placement, schedule, target.lanes)
        if why is not None:
            raise InternalError(f"schedule {schedule} for {placement.kernel.tensors}: {why}")
        outputs = [f"o{q}" for q in range(len(placement.stores))]
        self.placement, self.schedule, self.target, self.name = placement, schedule, target, name
        self.failures, self.addresses, self.pointer, self.sizes = failures, addresses, pointer, sizes
        self.printer = Printer(placement, schedule, target, pointer, outputs)
        rep = replication(placement, schedule, target.lanes)
        self.repeatable = placement.kind != "scatter" and schedule.carry is None
        divided = _divided(placement)
        self.cuts = [
            cut(a.n, rep.get(a, ONE), target.lanes, repeatable=self.repeatable, movable=a.var not in divided)
            if a else cut(1, ONE, target.lanes, repeatable=self.repeatable)
            for a in placement.axes
        ]  # fmt: skip
        natural = tuple((k, None) for k in range(len(placement.axes)))
        sizes = [math.prod(rep.get(a, ONE)) if a else 1 for a in placement.axes]
        self.order = tuple((k, b and max(1, b // sizes[k])) for k, b in schedule.order or natural)
        self.units = 1
        self.streams = schedule.stream and placement.kind == "let" and schedule.carry is None
        self.text = self._text()

    @property
    def loops(self) -> LoopNest:
        """The nest as data; what is stored is read back from what is printed."""
        p = self.placement
        made = ReadBack(p, {x: cut_row(self.printer, x) for f in p.fills for x in f.loops if x})
        folds = carried(p, self.target.lanes) if self.schedule.carry is not None else None
        chunks = (folds[0].loop.n, self.schedule.carry) if folds and self.schedule.carry else None
        return LoopNest(p.kind, p.shape, tuple(self.cuts), self.order, made.stores, made.buffers, self.schedule.threads,
                        self.units, chunks)  # fmt: skip

    @property
    def threaded(self) -> bool:
        return self.schedule.threads is not None

    def _text(self) -> str:
        p = self.printer
        folds = carried(self.placement, self.target.lanes) if self.schedule.carry is not None else None
        body = Block(None)
        p.block = body
        if folds is None:
            self._loops(0, {}, self._stores)
        else:
            self._chunks(folds)
        lines = [f'extern "C" __attribute__((noinline)) void {self.name}(void**P,long lo,long hi){{']
        for q, s in enumerate(self.placement.stores):
            kind = TYPES[s.tensor.dtype].memory
            lines.append(f"{kind}*__restrict o{q}=({kind}*)P[{self.addresses[s.tensor]}];")
        for t in self.placement.reads:
            kind = TYPES[t.dtype].memory
            lines.append(f"const {kind}*__restrict {self.pointer[t]}=(const {kind}*)P[{self.addresses[t]}];")
        if self.failures:
            lines.append(f"long*S=(long*)P[{len(self.addresses)}];")
        lines += size_lines(self.sizes, len(self.addresses))
        lines += p.buffers + body.lines
        if self.streams:
            lines.append("fence();")
        return "\n".join([*lines, "}"])

    # -------------------------------------------------------------------------------------------- loops

    def _loops(self, at: int, ranges: dict[int, tuple[str, str]], bottom: Callable[[], None]) -> None:
        """Print the loops order[at:] into the current block; `bottom()` prints what is inside.

        `ranges` bounds the units of an axis (C++ texts), from a block loop.
        """
        if at == len(self.order):
            bottom()
            return
        k, block = self.order[at]
        loop, axis = self.placement.axes[k], self.cuts[k]
        if loop is None:
            if self.schedule.threads == k:
                self.units = 1
            self._loops(at + 1, ranges, bottom)
            return
        if block is not None:
            self._blocks(at, k, block, ranges, bottom)
            return
        if self.schedule.threads == k:
            self.units = axis.units
            ranges = {**ranges, k: ("lo", "hi")}
        for piece in axis.pieces:
            print_piece(self.printer, loop, axis, piece, lambda: self._loops(at + 1, ranges, bottom), ranges.get(k))

    def _blocks(self, at: int, k: int, size: int, ranges: dict[int, tuple[str, str]], bottom: Callable[[], None]) -> None:
        p, units = self.printer, self.cuts[k].units
        count = -(-units // size)
        _, name = p.counter(count, "b")
        lo, hi = "0", str(count)
        if self.schedule.threads == ("block", k):
            self.units, lo, hi = count, "lo", "hi"
        with p.inside(Block(p.block)) as inner:
            end = f"{name}e"
            p.line(f"long {end}=({name}+1)*{size}<{units}?({name}+1)*{size}:{units};")
            self._loops(at + 1, {**ranges, k: (f"{name}*{size}", end)}, bottom)
        p.block.lines += [f"for(long {name}={lo};{name}<{hi};{name}++){{", *inner.lines, "}"]

    # -------------------------------------------------------------------------------------------- carry

    def _chunks(self, folds: tuple[Fold, ...]) -> None:
        """The fold of every store in chunks, outermost: accumulators rest in the outputs in between."""
        p, n, size = self.printer, self.placement.stores, self.schedule.carry
        length = folds[0].loop.n
        lo, hi = "c0", "c1"
        for q, (s, f) in enumerate(zip(n, folds, strict=True)):
            assert f.loop.fold is not None
            p.carries[f.loop.fold] = Carry(lo, hi, f"{lo}==0", q, s.flat)
        with p.inside(Block(p.block)) as inner:
            p.line(f"long c1=c0+{size}<{length}?c0+{size}:{length};")
            self._loops(0, {}, lambda: self._carry_stores(folds, length))
        p.block.lines += [f"for(long c0=0;c0<{length};c0+={size}){{", *inner.lines, "}"]

    def _carry_stores(self, folds: tuple[Fold, ...], length: int) -> None:
        p = self.printer
        rest = [f.loop.fold for f in folds if f.loop.fold]
        p.compute(rest)
        if all(s.value is v for s, v in zip(self.placement.stores, rest, strict=True)):
            self._stores()
            return
        with p.inside(p.block.branch()) as last:
            self._stores()
        p.block.lines += [f"if(c1=={length}){{", *last.lines, "}else{"]
        for q, (s, v) in enumerate(zip(self.placement.stores, rest, strict=True)):
            self._write(q, s, v)
        p.line("}")

    # -------------------------------------------------------------------------------------------- stores

    def _stores(self) -> None:
        """Print what is stored for one tile: all values, then all stores."""
        p = self.printer
        if self.placement.kind == "scan":
            for q, s in enumerate(self.placement.stores):
                fold = s.value
                print_scan(p, fold, lambda accs, step, q=q, s=s: self._write_names(q, s, accs[s.tensor.k], s.step, step))
            return
        p.compute(self.placement.roots)
        for q, s in enumerate(self.placement.stores):
            self._write(q, s, s.value)
            if s.cond is not None:
                self._check(s, s.cond)

    def _write(self, number: int, s: Store, v: Value) -> None:
        self._write_names(number, s, self.printer.names(v), 0, "0", v)

    def _write_names(self, number: int, s: Store, names: Names, stride: int, step: str, v: Value | None = None) -> None:
        """Store every copy of a value: o[flat + stride * step]."""
        p = self.printer
        extra = f"+{extent_text(stride)}*{step}" if is_symbolic(stride) else f"+{stride}L*{step}" if stride else ""
        for at in p.coordinates(self._copied()):
            text = p.pick(names, at)
            if names.vector and v is not None and v.dtype is dt.bool_:
                text = spell.mask(text, p.width(v), 32)
            self._store(f"o{number}", s, p.index(s.flat, at), extra, text, at, vector=names.vector)

    def _copied(self) -> tuple[Loop, ...]:
        rep = self.printer.rep
        return tuple(a for a in self.placement.axes if a and a in rep and rep[a].copies > 1)

    def _store(self, o: str, s: Store, flat: Ix, extra: str, text: str, at: dict[Loop, int], *, vector: bool) -> None:
        p, d = self.printer, s.tensor.dtype
        kind = TYPES[d]
        guards = [(p.index(i, at), n) for i, n in zip(s.indices, s.tensor.shape, strict=False)]
        guards = [(i, n) for i, n in guards if not within(i, n)]
        lanes = any(a in p.rep and p.rep[a].lanes > 1 for a in self.placement.axes if a)
        if not lanes:
            line = f"{o}[{p.index_text(flat, at)}{extra}]={text};"
            p.line(f"if({p.conditions(guards, at)}){line}" if guards else line)
            return
        if p.stride(flat) == 1 and not any(p.varying(g) for g, _ in guards):
            value = text if vector else spell.broadcast(text, d)
            base = p.base(flat)
            store = "nt" if self._aligned(base, d, extra) else "st"
            line = f"{store}{kind.access}({o}+({p.index_text(base, at)}{extra}),{value});"
            p.line(f"if({p.conditions(guards, at)}){line}" if guards else line)
            return
        for j in range(p.lanes):
            inside = [(p.at_lane(g, j), n) for g, n in guards]
            cell = f"{text}[{j}]" if vector else text
            cell = f"({cell}&1)" if vector and d is dt.bool_ else cell
            line = f"{o}[{p.index_text(p.at_lane(flat, j), at, j)}{extra}]={cell};"
            p.line(f"if({p.conditions(inside, at, j)}){line}" if guards else line)

    def _aligned(self, base: Ix, d: dt.DType, extra: str) -> bool:
        """Whether a non-temporal store can be used: every address is a multiple of the vector size."""
        lanes = self.target.lanes
        return self.streams and d.bits >= 32 and not extra and not base.c % lanes and all(k % lanes == 0 for _, k in base.terms)

    def _check(self, s: Store, cond: Value) -> None:
        """Record the least element whose condition fails."""
        p = self.printer
        slot = f"S+{self.failures[s.tensor]}"
        if cond.op == "const":
            if not cond.attr:
                p.line(f"fail({slot},0);")
            return
        names = p.names(cond)
        for at in p.coordinates(self._copied()):
            text, flat = p.pick(names, at), p.index(s.flat, at)
            if not names.vector:
                p.line(f"if(!{text})fail({slot},{p.index_text(p.base(flat), at)});")
                continue
            cells = " ".join(f"if(!{text}[{j}])fail({slot},{p.index_text(p.at_lane(flat, j), at)});" for j in range(p.lanes))
            p.line(f"if(some(~{text})){{{cells}}}")


def size_lines(sizes: Sequence[Size], slots: int) -> list[str]:
    """The statements that read the sizes of a call: they stand behind the pointers of `slots` tensors and of the checks."""
    return [f"const long {size_name(s)}=((const long*)P[{slots + 1}])[{k}];" for k, s in enumerate(sizes)]


def _divided(placement: Placement) -> set[Var]:
    """The variables that are divided in some index: whole tiles at multiples of their size keep such an index simple."""
    found = [i for v in placement.loads for i in v.attr.indices]
    found += [v.attr for v in placement.values if v.op == "idx"]
    found += [i for f in placement.fills for i in f.lead]
    found += [i for s in placement.stores for i in s.indices]
    return {v for i in found for d in divisions(i) for v in d.free}


def print_piece(p: Printer, loop: Loop, axis: Axis, piece: Piece, bottom: Callable[[], None],
                bounds: tuple[str, str] | None = None) -> None:  # fmt: skip
    """Print a piece of an axis; of its units only those between the `bounds` (C++ texts), where they are given."""
    outer, share, whole = p.block, p.share, axis.whole
    if piece.is_tail:
        p.share *= hint(piece.count) * len(piece.offsets) * piece.lanes / max(1, hint(loop.n))
    several = is_symbolic(piece.count) or piece.count > 1
    counter, name = p.counter(piece.count) if several else (ix(0), "")
    with p.inside(Block(outer, (loop,))) as inner:
        start = counter * piece.size + piece.base if piece.last is None else _start(p, name, piece.size, piece.last)
        lane = ix(p.lane) if piece.lanes > 1 else ix(0)
        with p.loop(loop, [start + o + lane for o in piece.offsets], Rep(len(piece.offsets), piece.lanes)):
            bottom()
    p.share = share
    lo, hi, condition = "0", extent_text(piece.count), ""
    if bounds is not None and piece.is_tail:
        condition = f"if({bounds[1]}>{extent_text(whole)}&&{bounds[0]}<={extent_text(whole)})"
    elif bounds is not None and not several:
        condition = f"if({bounds[0]}<=0&&{bounds[1]}>0)"
    elif bounds is not None:
        lo, hi = bounds
        hi = f"({hi}<{extent_text(whole)}?{hi}:{extent_text(whole)})" if axis.units > whole else hi
    head = f"for(long {name}={lo};{name}<{hi};{name}++){{" if name else "{"
    outer.lines += [condition + head, *inner.lines, "}"]


def _start(p: Printer, counter: str, size: int, last: int) -> Ix:
    """Print the first element of a tile: a multiple of the size, of the last tile `last`."""
    step = math.gcd(size, last)
    at, name = p.counter(last // step + 1, "s")
    p.line(f"long {name}={counter}*{size // step}<{last // step}?{counter}*{size // step}:{last // step};")
    return at * step


def print_fill(p: Printer, v: Value) -> None:
    """Print the loops that fill a row buffer, one for each copy of its leading indices."""
    fill: Fill = v.attr
    assert fill.body is not None
    kind, reps = TYPES[fill.tensor.dtype], p.reps(v)
    names = []
    for _ in p.coordinates(reps):
        names.append(p.name("buf"))
        p.bytes += fill.size * fill.tensor.dtype.itemsize
        p.buffers.append(f"{kind.memory} {names[-1]}[{fill.size}] __attribute__((aligned(64)));")
    if p.bytes > STACK:
        raise InternalError(f"row buffers of {p.bytes} bytes for {p.placement.kernel.tensors}; at most {STACK} are allowed")
    body = fill.body

    def store() -> None:
        p.compute((body,))
        flat = _row_major(fill)
        value = p.names(body)
        for k, at in enumerate(p.coordinates(reps)):
            _store_row(p, fill, names[k], flat, value, body, at)

    _fill_loops(p, fill, 0, store)
    p.block.names[v] = Names(reps, names, False)


def cut_row(p: Printer, loop: Loop) -> Axis:
    """How an axis of a row buffer is cut."""
    return cut(loop.n, p.fill_rep.get(loop, ONE), p.lanes, repeatable=True)


def _row_major(fill: Fill) -> Ix:
    flat, stride = ix(0), 1
    for n, x in zip(reversed(fill.shape), reversed(fill.loops), strict=True):
        flat = flat + (ix(x.var) * stride if x else 0)
        stride *= n
    return flat


def _store_row(p: Printer, fill: Fill, buffer: str, flat: Ix, value: Names, body: Value, at: dict[Loop, int]) -> None:
    kind, last = TYPES[fill.tensor.dtype], fill.loops[-1] if fill.loops else None
    own = (last,) if last is not None and last in p.rep else ()
    for c in p.coordinates(own):  # type: ignore[arg-type]
        where = {**at, **c}
        text, i = p.pick(value, where), p.index(flat, where)
        if last is not None and last in p.rep and p.rep[last].lanes > 1:
            if value.vector and body.dtype is dt.bool_:
                text = spell.mask(text, p.width(body), 32)
            text = text if value.vector else spell.broadcast(text, body.dtype)
            p.line(f"st{kind.access}({buffer}+({p.index_text(p.base(i), where)}),{text});")
        else:
            p.line(f"{buffer}[{p.index_text(i, where)}]={text};")


def _fill_loops(p: Printer, fill: Fill, k: int, bottom: Callable[[], None]) -> None:
    if k == len(fill.loops):
        bottom()
        return
    loop = fill.loops[k]
    if loop is None:
        _fill_loops(p, fill, k + 1, bottom)
        return
    axis = cut_row(p, loop)
    for piece in axis.pieces:
        print_piece(p, loop, axis, piece, lambda: _fill_loops(p, fill, k + 1, bottom))


__all__ = ["Nest", "cut", "cut_row", "print_fill"]
