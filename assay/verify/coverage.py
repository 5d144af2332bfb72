"""Does a scheduled program compute its program?  Every obligation of every kernel, settled.

value      what is stored at a point of the domain equals the tensor there, for all inputs (verify/equal.py)
rows       a row buffer holds the rows that are read from it
coverage   every element is computed: each index of an axis lies in one of its pieces, which stay inside
writer     no element is written by two threads, or twice, unless with the same value; a scatter's updates stay in order
chunks     a fold in chunks runs through all of its steps
order      what a step reads was written by an earlier one; every tensor is written once
storage    tensors that share memory are never alive together
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from assay.core.index import Ix, is_symbolic, ix, same_shape
from assay.core.lang import LOADS, E, T, axes, index, op, size_of, substitute, walk
from assay.core.lang import load as load_
from assay.core.polynomial import nonnegative
from assay.core.text import domain
from assay.core.wording import counted
from assay.verify import verdict
from assay.verify.equal import STEPS, Comparator, is_empty
from assay.verify.nests import Axis, LoopNest, Piece, RowBuffer, Scheduled, Stored, written
from assay.verify.questions import Answer, Mismatch, Pair, States
from assay.verify.verdict import Verdict

TILES = 1 << 24  # tiles of an axis that are looked at one by one


@dataclass(frozen=True)
class Owed:
    """One obligation of a scheduled program; `reason` says why it is not proved."""

    kind: str
    where: str
    reason: str = ""

    @property
    def proved(self) -> bool:
        return not self.reason

    def __str__(self) -> str:
        return f"{'proved' if self.proved else 'FAILS':8}{self.kind:9}{self.where}" + (f": {self.reason}" if self.reason else "")


@dataclass(frozen=True)
class Coverage:
    """All obligations of a scheduled program."""

    owed: tuple[Owed, ...]
    kernels: int

    @property
    def proved(self) -> bool:
        return all(o.proved for o in self.owed)

    @property
    def failed(self) -> tuple[Owed, ...]:
        return tuple(o for o in self.owed if not o.proved)

    @property
    def verdict(self) -> Verdict:
        return verdict.proved if self.proved else verdict.unknown(str(self.failed[0]))

    def __str__(self) -> str:
        if not self.proved:
            return f"not proved: {'; '.join(map(str, self.failed[:3]))}"
        return f"for all inputs; {counted(self.kernels, 'kernel')}, {counted(len(self.owed), 'obligation')}"


def prove_schedule(s: Scheduled, *, rlimit: int | None = None, steps: int = STEPS) -> Coverage:
    """Every obligation of `s`; `rlimit` and `steps` as in verify/validate.py.

    Memory of a program with sizes is laid out when they are known: it is not among them.
    """
    comparator = Comparator(rlimit=rlimit, steps=steps)
    owed: list[Owed] = []
    for number, step in enumerate(s.steps):
        if step.nest is not None:
            owed += _kernel(step.nest, step.writes, f"kernel {number}", comparator)
        else:
            missing = [t for t in step.writes if not _without_kernel(t)]
            owed += [Owed("value", f"step {number}: {t!r}", "no kernel computes it") for t in missing]
    owed += [*order_of(s), *(storage_of(s) if not s.program.sizes else ())]
    return Coverage(tuple(owed), sum(step.nest is not None for step in s.steps))


def _kernel(nest: LoopNest, writes: tuple[T, ...], where: str, comparator: Comparator) -> Iterator[Owed]:
    if any(not is_symbolic(n) and n == 0 for n in nest.domain):
        for t in writes:
            if not is_empty(domain(t)):
                yield Owed("value", f"{where}: {t!r}", "its kernel runs through no element")
        return
    for number, (stored, t) in enumerate(zip(nest.stores, writes, strict=True)):
        yield Owed("value", f"{where}: {t!r}", _value(nest, stored, t, number, comparator))
    for b in nest.buffers:
        yield Owed("rows", f"{where}: {b.tensor!r}", _rows(b, comparator) or _read_rows(nest, b))
        for k, axis in enumerate(b.axes):
            yield Owed("coverage", f"{where}: rows of {b.tensor!r}, axis {k}", covered(axis)[0])
    once = True
    for k, axis in enumerate(nest.axes):
        reason, exactly = covered(axis)
        once = once and exactly
        yield Owed("coverage", f"{where}: axis {k} of {axis.n}", reason or _loops(nest, k))
    yield Owed("writer", where, _writers(nest, once=once))
    if nest.chunks is not None:
        length, size = nest.chunks
        yield Owed("chunks", f"{where}: {length} steps in chunks of {size}", _chunks(nest, length, size))


# ------------------------------------------------------------------------------------------------ values


def _value(nest: LoopNest, stored: Stored, t: T, number: int, comparator: Comparator) -> str:
    """Why what is stored is not the tensor `t`; "" where it is."""
    if not _alike(stored.tensor, t, nest.kind):
        return f"what is stored is {stored.tensor!r}, a {stored.tensor.kind} in a kernel of a {nest.kind}"
    if t.kind == "scatter":
        return _scatter(stored, t, number, comparator) if same_shape(nest.domain, domain(t)) else "another domain"
    if t.kind == "scan":
        if not same_shape(nest.domain, domain(t)):
            return "another domain"
        return _reason(comparator.ask(States(stored.value, t.body)))
    if math.prod(nest.domain) != math.prod(t.shape):
        return f"a domain of {list(nest.domain)} for {list(t.shape)} elements"
    point = digits(row_major(t.shape, [ix(v) for v in axes(t.shape)]), nest.domain)
    env = dict(zip(axes(nest.domain), point, strict=True))
    found = _same(substitute(stored.value, {**env}), t.body, comparator)
    if t.kind != "require" or found:
        return found
    if stored.condition is None:
        return "its check is not made"
    return _same(substitute(stored.condition, {**env}), t.cond, comparator)


def _alike(made: T, t: T, kind: str) -> bool:
    """Whether the memory of `made` is that of `t`, written as a kernel of this kind does; axes of a let may have been merged."""
    same = (made.kind, made.dtype) == (t.kind, t.dtype)
    if "scan" in (kind, t.kind) or "scatter" in (kind, t.kind):
        same = same and kind == t.kind and same_shape(made.shape, t.shape)
    return same and (t.kind != "scan" or (made.k, made.axis) == (t.k, t.axis))


def _without_kernel(t: T) -> bool:
    """Whether reference functions compute it, or there is nothing to compute."""
    return t.kind == "extern" or is_empty(t.shape)


def _scatter(stored: Stored, t: T, number: int, comparator: Comparator) -> str:
    for i, j in zip(stored.indices, t.indices, strict=True):
        if i is not j and not comparator.nowhere.is_zero(i - j):
            return f"it is written at {i!r} instead of {j!r}"
    if t.combine is None:
        return _same(stored.value, t.body, comparator)
    old = load_(written(number, t.shape, t.dtype), *t.indices)
    return _same(stored.value, op(t.combine, old, t.body), comparator)


def _rows(b: RowBuffer, comparator: Comparator) -> str:
    t = b.tensor
    env = dict(zip(axes(t.shape), (*b.lead, *b.trail), strict=True))
    if any(i.lo < 0 or i.hi >= n for i, n in zip(b.lead, t.shape, strict=False)):
        return f"rows {list(b.lead)} may lie outside"
    if tuple(a.n for a in b.axes) != tuple(n for n in t.shape[len(b.lead) :] if n != 1):
        return "its size is not that of a row"
    return _same(b.value, substitute(t.body, {**env}), comparator)


def _read_rows(nest: LoopNest, b: RowBuffer) -> str:
    """Why the kernel may read other rows of the tensor than the buffer holds, where it reads from there."""
    for v, axis in zip(axes(nest.domain), nest.axes, strict=True):
        if any(v in i.free for i in b.lead) and any(p.lanes > 1 for p in axis.pieces):
            return "lanes read different rows"
    held = [other.lead for other in nest.buffers if other.tensor is b.tensor]
    parts = [e for x in nest.stores for e in (x.value, *([x.condition] if x.condition is not None else []))]
    parts += [index(i) for x in nest.stores for i in x.indices] + [other.value for other in nest.buffers]
    for e in walk(parts):
        if e.op in LOADS and e.attr[0] is b.tensor and e.attr[1][: len(b.lead)] not in held:
            return f"row {list(e.attr[1][: len(b.lead)])} is read, and {list(b.lead)} is held"
    return ""


def _same(a: E, b: E, comparator: Comparator) -> str:
    return _reason(comparator.ask(Pair(a, b, comparator.nowhere)))


def _reason(answer: Answer) -> str:
    return str(answer) if isinstance(answer, Mismatch) else ""


def row_major(shape: tuple[int, ...], index: list[Ix]) -> Ix:
    """The number of an element."""
    flat = ix(0)
    for n, i in zip(shape, index, strict=True):
        flat = flat * n + i
    return flat


def digits(flat: Ix, shape: tuple[int, ...]) -> list[Ix]:
    """The index of the element of this number."""
    stride, found = math.prod(shape), list[Ix]()
    for n in shape:
        stride //= n
        found.append(flat // stride % n)
    return found


# ------------------------------------------------------------------------------------------------ loops


def covered(axis: Axis) -> tuple[str, bool]:
    """Why some index of the axis is not computed, or lies outside ("" where neither is so); whether each is computed once."""
    if is_symbolic(axis.n):
        return _covered_for_all_sizes(axis)
    if not axis.pieces or any(p.count < 1 or p.lanes < 1 or not p.offsets for p in axis.pieces):
        return "an empty piece", False
    spans = [s for p in axis.pieces for s in _spans(p)]
    if sum(len(s) for s, _ in spans) > TILES:
        return f"more than {TILES} tiles, not looked at", False
    starts = np.concatenate([np.asarray(s, np.int64) for s, _ in spans])
    ends = starts + np.concatenate([np.full(len(s), n, np.int64) for s, n in spans])
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    if starts[0] < 0 or ends[-1] > axis.n:
        return f"elements {min(starts[0], 0)}..{ends[-1] - 1} of {axis.n}", False
    if starts[0] > 0:
        return "element 0 is not computed", False
    gaps = np.flatnonzero(starts[1:] > ends[:-1])
    if len(gaps):
        return f"element {ends[gaps[0]]} is not computed", False
    if ends[-1] < axis.n:
        return f"element {ends[-1]} is not computed", False
    total = sum(len(s) * n for s, n in spans)
    return "", total == axis.n


def _covered_for_all_sizes(axis: Axis) -> tuple[str, bool]:
    """`covered` of an axis whose extent depends on sizes: runs of whole tiles, each from where the one before ends, up to n."""
    end = ix(0)
    for p in axis.pieces:
        if p.last is not None or sorted(p.offsets) != list(range(0, p.size, p.lanes)) or p.size % p.lanes:
            return f"the tiles of {p.size} elements have gaps", False
        if ix(p.base) is not end or not nonnegative(ix(p.count)):
            return f"a piece starts at {p.base!r} instead of {end!r}, or has {p.count!r} tiles", False
        end = end + ix(p.count) * p.size
    return ("", True) if end is ix(axis.n) else (f"the elements from {end!r} on are not computed", False)


def _spans(p: Piece) -> list[tuple[Sequence[int], int]]:
    """The runs of elements of a piece: their first elements, and how long they are."""
    offsets, lanes = sorted(p.offsets), p.lanes
    if all(b - a == lanes for a, b in itertools.pairwise(offsets)):  # a tile is one run
        offsets, lanes = offsets[:1], lanes * len(offsets)
    early = min(p.count, p.last // p.size + 1) if p.last is not None and p.size > 0 else p.count
    late = [p.base + (p.last or 0)] * (p.count - early)
    first = p.base + offsets[0]
    if len(offsets) == 1 and (early == 1 or p.size == lanes):  # so are tiles one after the other
        return [([first], early * lanes), *(([x + offsets[0]], lanes) for x in late)]
    starts = [*(range(p.base, p.base + early * p.size, p.size) if p.size > 0 else [p.base] * early), *late]
    return [([x + o for x in starts], lanes) for o in offsets]


def _loops(nest: LoopNest, k: int) -> str:
    """Why the loops over the axis do not run through all of its units."""
    loops = [block for axis, block in nest.order if axis == k]
    if loops.count(None) != 1 or loops[-1] is not None:
        return f"its loop is printed {loops.count(None)} times"
    if any(block is not None and block < 1 for block in loops):
        return "an empty block"
    if len(loops) > 2:
        return f"{len(loops) - 1} loops over its blocks"
    tail = [p for p in nest.axes[k].pieces if p.is_tail]
    whole = [p for p in nest.axes[k].pieces if not p.is_tail]
    return "" if len(whole) <= 1 and nest.axes[k].pieces == (*whole, *tail) else "its pieces are not in the order that is printed"


def _chunks(nest: LoopNest, length: int, size: int) -> str:
    """Why the accumulators of the folds may not rest in the output between chunks, or some step does not run."""
    if size < 1:
        return "an empty chunk"
    carried: set[E] = set()
    nested: set[E] = set()
    for s in nest.stores:
        nodes = walk((s.value,))
        inner = {x for f in nodes if f.op == "fold" for x in walk(f.args[len(f.args) // 2 :]) if x.op == "fold"}
        outer = [f for f in nodes if f.op == "fold" and f not in inner]
        if s.tensor.kind != "let" or len(outer) != 1 or len(outer[0].args) != 2 or outer[0].dtype is not s.tensor.dtype:
            return f"{s.tensor!r} is not computed from one accumulator of its type"
        if outer[0].attr.n != length:
            return f"{length} of {outer[0].attr.n} steps"
        carried.add(outer[0])
        nested |= inner
    nested |= {x for b in nest.buffers for x in walk((b.value,)) if x.op == "fold"}
    if not nested.isdisjoint(carried):
        return "a fold in chunks is read in another fold, which needs all of its steps"
    return ""


def _writers(nest: LoopNest, *, once: bool) -> str:
    """Why an element may be written by two threads, or twice with different values."""
    divided = nest.threads[1] if isinstance(nest.threads, tuple) else nest.threads
    if divided is not None:
        units = nest.axes[divided].units
        if isinstance(nest.threads, tuple):
            block = next((b for k, b in nest.order if k == divided and b is not None), None)
            if block is None:
                return f"threads divide blocks of axis {divided}, which has none"
            units = -(-units // block)
        elif any(k == divided and b is not None for k, b in nest.order):
            return f"threads divide axis {divided}, which runs in blocks"
        if nest.units != units:
            return f"threads divide {nest.units} units, the loop has {units}"
    if nest.chunks is not None and not once:
        return "elements are computed twice, and each chunk starts from what is stored"
    if any(s.tensor.kind == "scatter" for s in nest.stores):
        return _in_order(nest, divided, once=once)
    return ""


def _in_order(nest: LoopNest, divided: int | None, *, once: bool) -> str:
    """Why the updates of a scatter may change places, or be made twice."""
    if not once:
        return "updates are made twice"
    free = {k for k in range(len(nest.axes)) if _is_free(nest, k)}
    if divided is not None and divided not in free:
        return f"two threads may write one element: axis {divided} is no written index by itself"
    for k, axis in enumerate(nest.axes):
        if k not in free and any(len(p.offsets) > 1 or p.lanes > 1 or p.size < 0 for p in axis.pieces):
            return f"updates along axis {k} are made together, and may write one element"
    kept = [k for k, _ in itertools.groupby(k for k, _ in nest.order if k not in free)]  # blocks right around their loop are one
    return "" if kept == sorted(set(kept)) else "the order of updates of one element changes"


def _is_free(nest: LoopNest, k: int) -> bool:
    """Whether different indices of the axis write different elements: some written index is this axis itself."""
    v = axes(nest.domain)[k]
    return nest.domain[k] == 1 or all(any(i is ix(v) for i in s.indices) for s in nest.stores)


# ------------------------------------------------------------------------------------------------ steps and memory


def order_of(s: Scheduled) -> Iterator[Owed]:
    """Each step reads what is there, and every tensor that is needed is written once."""
    known: set[T] = set(s.program.inputs)
    for number, step in enumerate(s.steps):
        late = [t for t in step.reads if t not in known]
        again = [t for t in step.writes if t in known]
        reason = f"it reads {late[0]!r}, which is not computed yet" if late else f"{again[0]!r} is written twice" if again else ""
        own = [t for t in step.reads if t in step.writes]
        yield Owed("order", f"step {number}", reason or (f"it reads {own[0]!r}, which it writes" if own else ""))
        known.update(step.writes)
    missing = [t for t in (*s.program.outputs, *s.program.checks) if t not in known]
    yield Owed("order", "the program", f"{missing[0]!r} is never computed" if missing else _checks(s))


def _checks(s: Scheduled) -> str:
    """Why some read of a kernel was not declared: what its values load, it must read."""
    for number, step in enumerate(s.steps):
        if step.nest is None:
            unread = [a for t in step.writes if t.kind == "extern" for a in t.args if a not in step.reads]
            if unread:
                return f"step {number} reads {unread[0]!r} and does not say so"
            continue
        local = {b.tensor for b in step.nest.buffers}
        loaded = _loads(e for x in step.nest.stores for e in (x.value, *([x.condition] if x.condition is not None else [])))
        loaded |= _loads(b.value for b in step.nest.buffers)
        loaded |= {r for x in step.nest.stores for i in x.indices for r in _of_index(i)}
        loaded |= {t.base for t in step.writes if t.kind == "scatter"}  # it is copied first
        hidden = [t for t in loaded - local - step.reads if not (t.kind == "input" and t not in s.program.inputs)]
        if hidden:
            return f"kernel {number} loads {hidden[0]!r} and does not say so"
    return ""


def _loads(es: Iterable[E]) -> set[T]:
    return {t for e in es for t in e.reads}


def _of_index(i: Ix) -> set[T]:
    from assay.core.index import values

    return {t for v in values(i) for t in v.e.reads}


def storage_of(s: Scheduled) -> Iterator[Owed]:
    """Tensors whose bytes in the arena overlap are not alive at the same time; outputs are not in it."""
    first, last = lifetimes(s)
    placed = sorted(((at, at + size_of(t), t) for t, at in s.offsets if size_of(t)), key=lambda x: x[:2])
    outside = next((t for at, end, t in placed if at < 0 or end > s.arena), None)
    kept = next((t for _, _, t in placed if t in s.program.outputs), None)
    reason = f"{outside!r} does not fit the arena" if outside is not None else ""
    reason = reason or (f"the output {kept!r} lives in memory that is used again" if kept is not None else "")
    open_: list[tuple[int, T]] = []
    for at, end, t in placed:
        open_ = [(e, u) for e, u in open_ if e > at]
        for _, u in open_:
            if t in first and u in first and first[t] <= last[u] and first[u] <= last[t]:
                reason = reason or f"{t!r} and {u!r} are alive together and share memory"
        open_.append((end, t))
    unplaced = [t for step in s.steps for t in step.writes if t not in s.program.outputs and t not in dict(s.offsets)]
    yield Owed("storage", f"{len(placed)} intermediates in {s.arena} bytes",
               reason or (f"{unplaced[0]!r} has no memory" if unplaced else ""))  # fmt: skip


def lifetimes(s: Scheduled) -> tuple[dict[T, int], dict[T, int]]:
    """The step that writes a tensor, and the last one that reads it."""
    first: dict[T, int] = {}
    last: dict[T, int] = {}
    for number, step in enumerate(s.steps):
        first.update((t, number) for t in step.writes)
        last.update((t, number) for t in (*step.writes, *step.reads))
    return first, last


__all__ = ["Coverage", "Owed", "covered", "prove_schedule"]
