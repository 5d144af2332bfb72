"""The modelled time of a kernel under a schedule.

    rep[v] = (copies, lanes)       a node costs prod(copies of what it varies with) instructions an iteration of its loop
    arithmetic                     per loop: max(ports, issue, loads and stores, latency of chains) x iterations
    traffic                        bytes that miss L1, L2, L3: a loop whose single iteration fits adds only new lines
    time                           max(arithmetic, L2, L3, RAM) + OVERLAP x the rest, plus starting the threads

Everything that a machine can be asked is in machine.py; the constants here are fitted to timings.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from assay.backends.plan import Schedule
from assay.backends.schedule.machine import Machine
from assay.backends.schedule.summary import Access, Fold, Summary
from assay.core.lang import T

WINDOW = 250  # instructions in flight: the latency of a longer body is not hidden by the next iteration
OVERLAP = 0.2  # share of the lesser times that is not hidden behind the greatest
STREAMS = 0.06  # bandwidth falls as (streams open at once) ** -STREAMS
RESTART = {"l1": 60.0, "l2": 2200.0, "l3": 6000.0}  # bytes that could have come while the prefetcher starts a run
COMBINED = 5.0  # half lines of this many rows wait for their other halves; of more rows, they leave apart
PAGE = 4096.0  # runs that follow each other this closely are prefetched: starting them costs bandwidth, not time to wait
FROM_DATA = 4.0  # rows at unknown addresses that instructions in flight fetch side by side
TRACKED = 16  # streams that a prefetcher follows; of more, each waits (two arrays, 16 rows each: 3x the time of 4)
SPILL = 0.08  # cycles an instruction, for the share of values that do not fit in the registers
IN_ORDER = 0.12  # cycles a lane to bring one element of a row from a vector to the scalar that folds it
THROUGH_INTEGERS = 3.0  # cycles a lane of a term that g++ moves through an integer register for want of others
SCATTERED = 1.5  # cycles a lane of a vector stored element by element
CELL = 0.85  # cycles a lane of a vector put together from scalars
AGAINST_THE_GRAIN = 0.1  # lanes far apart meet in few cache sets and many pages: only where it clearly wins
CONFLICT = 2.5  # a line that the body itself drives out costs its latency, not only its transfer
GUARD = 8.0  # cycles a vector load under a computed mask
ROLLED = 2.0  # cycles an iteration of a loop of scalars that "rowvec" would have unrolled
LOOP = 1.0  # cycles an iteration
START = 4.0, 12.0  # cycles to enter a loop: short (unrolled or predicted) and long
LINE = 64
COMPILED_LINE = 1.7e-4  # seconds g++ takes for a line of code; twice as much a line from MANY_LINES on
MANY_LINES = 5000
FEW_LINES = 1000  # cost no more than starting g++
CALLS = 20_000  # longer code must pay in this many calls
SHARE = {"l1": 1.0, "l2": 1.0, "l3": 0.5}  # what part of a cache a kernel can count on
STREAM_GAIN = 1.25  # a store around the caches moves its line once, and a little quicker
POOL_US = 12.0  # to wake threads that sleep (they spin for a few microseconds only) and to wait for them, beside the round trip


@dataclass
class Loop:
    """One loop of the nest: `trips` iterations of `step` elements of variable `var`, inside `parent` (an index, -1: none)."""

    var: int
    trips: int
    step: int
    parent: int
    depth: int
    key: int | tuple[str, int] | None = None
    also: tuple[int, ...] = ()  # variables that advance together with `var`: folds in one loop, or cut by one carry


class Nest:
    """A schedule applied to a summary: copies and lanes of every variable, and the loop in which every place is."""

    def __init__(self, summary: Summary, schedule: Schedule, machine: Machine) -> None:
        k, s = summary, schedule
        self.summary, self.schedule, self.machine = k, s, machine
        lanes = machine.lanes
        sizes = k.sizes
        self.copies = copies = [1] * len(sizes)
        self.lanes = width = [1] * len(sizes)
        for axis, u in s.jam:
            copies[axis] = min(u, sizes[axis])
        if s.vector is not None and sizes[s.vector] >= lanes:
            copies[s.vector], width[s.vector] = max(1, min(s.copies, sizes[s.vector] // lanes)), lanes
        vector = 1 << s.vector if s.vector is not None and width[s.vector] > 1 else 0
        self.legal = not any(at & vector for at in k.rows.values())
        for v in k.rows:
            if sizes[v] >= lanes:
                copies[v], width[v] = max(1, min(s.copies, sizes[v] // lanes)), lanes
        self.in_rows: set[int] = set()
        if s.fold == "rowvec":
            for f in k.folds:
                if f.ordered and f.n >= lanes and not any(width[v] > 1 for v in bits(f.varies)):
                    width[f.var] = lanes
                    self.in_rows.add(f.var)
        self.lines = 0.0  # of code: set by `arithmetic`
        self.loops: list[Loop] = []
        self.loop_of: dict[int, int] = {}
        self._at: dict[int, int] = {0: -1}
        self._copies: dict[int, int] = {}
        self.lanes_mask = sum(1 << v for v in range(len(sizes)) if width[v] > 1)
        self._build()

    def _add(self, var: int, trips: int, step: int, parent: int, key: int | tuple[str, int] | None = None) -> int:
        self.loops.append(Loop(var, trips, step, parent, self.loops[parent].depth + 1 if parent >= 0 else 0, key))
        return len(self.loops) - 1

    def _build(self) -> None:
        k, s = self.summary, self.schedule
        at = -1
        carry = s.carry or 0
        cut = [f for f in k.folds if f.place == k.axes_mask] if carry else []
        if cut:
            at = self._add(cut[0].var, -(-cut[0].n // carry), carry, at)
            self.loops[at].also = tuple(f.var for f in cut[1:])
        block: dict[int, int] = {}
        for axis, b in s.order or tuple((a, None) for a in range(k.rank)):
            n, tile = k.sizes[axis], self.copies[axis] * self.lanes[axis]
            if n == 1:
                continue
            if b is not None:
                block[axis] = b
                at = self._add(axis, -(-n // b), b, at, ("block", axis))
            else:
                at = self.loop_of[axis] = self._add(axis, -(-min(block.get(axis, n), n) // tile), tile, at, axis)
        self.spine = len(self.loops)
        waiting = [(f.var, f.place, min(f.n, carry) if f in cut else f.n) for f in k.folds]
        waiting += [(v, place, k.sizes[v]) for v, place in k.rows.items()]
        for v, place, n in sorted(waiting):  # a fold is numbered before the folds inside it
            tile = self.copies[v] * self.lanes[v]
            joined = self._beside(v)
            if joined is None:
                joined = self._add(v, -(-n // tile), tile, self.at(place))
            else:
                self.loops[joined].also += (v,)
            self.loop_of[v] = joined

    def _beside(self, v: int) -> int | None:
        """The loop of an earlier fold that fold `v` can share: as long, in the same loops, of the same form."""
        k = self.summary
        for u in k.beside.get(v, ()):
            f, g, at = k.fold_of[v], k.fold_of[u], self.loop_of[u]
            alike = self.in_lanes(f.varies) == self.in_lanes(g.varies) and (u in self.in_rows) == (v in self.in_rows)
            shared = (self.loops[at].var, *self.loops[at].also)
            held = sum(self.copies_of(k.fold_of[w].varies) * k.fold_of[w].accumulators for w in (*shared, v))
            if alike and held <= self.machine.registers - 4 and all(w in k.beside[v] for w in shared):
                return at
        return None

    def accesses(self) -> list[list[Access]]:
        """The accesses by their form (see Summary.forms); what two folds in one loop load is loaded once."""
        if not any(loop.also for loop in self.loops):
            return self.summary.forms
        seen: set[tuple[object, ...]] = set()
        found: list[list[Access]] = []
        for form in self.summary.forms:
            kept = form
            if form[0].kind == "load" and not form[0].bent:
                steps = frozenset((self.loop_of.get(v, -1 - v), d) for v, d in form[0].steps.items())
                once = {(a.tensor, self.at(a.place), a.address.c, steps): a for a in form}
                kept = [a for key, a in once.items() if key not in seen]
                seen.update(once)
            if kept:
                found.append(kept)
        return found

    def at(self, place: int) -> int:
        """The innermost loop among the variables of `place` (-1: outside all)."""
        found = self._at.get(place)
        if found is None:
            inner = [self.loop_of[v] for v in bits(place) if v in self.loop_of]
            found = max(inner, key=lambda j: self.loops[j].depth, default=-1)
            self._at[place] = found
        return found

    def iterations(self, loop: int) -> float:
        """How often the body of the loop runs."""
        total = 1.0
        while loop >= 0:
            total *= self.loops[loop].trips
            loop = self.loops[loop].parent
        return total

    def path(self, loop: int) -> list[int]:
        """The loops around (and including) `loop`, outermost first."""
        found: list[int] = []
        while loop >= 0:
            found.append(loop)
            loop = self.loops[loop].parent
        return found[::-1]

    def copies_of(self, varies: int) -> int:
        found = self._copies.get(varies)
        if found is None:
            found, copies = 1, self.copies
            for v in bits(varies):
                found *= copies[v]
            self._copies[varies] = found
        return found

    def within(self, j: int, outer: int) -> bool:
        """Whether loop j is `outer` or inside it."""
        while j >= 0:
            if j == outer:
                return True
            j = self.loops[j].parent
        return False

    def in_lanes(self, varies: int) -> bool:
        return bool(varies & self.lanes_mask)

    def lane_variables(self, varies: int) -> list[int]:
        return list(bits(varies & self.lanes_mask))


def bits(mask: int) -> tuple[int, ...]:
    """The elements of a set of small numbers."""
    found = _BITS.get(mask)
    if found is None:
        found = _BITS[mask] = tuple(k for k in range(mask.bit_length()) if mask >> k & 1)
    return found


_BITS: dict[int, tuple[int, ...]] = {}


def arithmetic(nest: Nest) -> list[tuple[int, float]]:
    """Cycles of one thread, by loop (-1: outside every loop)."""
    k, m = nest.summary, nest.machine
    bodies: dict[int, list[float]] = {}  # multiplier, adder, instructions, loads and stores, copies of vectors

    def body(place: int) -> list[float]:
        at = nest.at(place)
        found = bodies.get(at)
        if found is None:
            found = bodies[at] = [0.0, 0.0, 0.0, 0.0, 1.0]
        return found

    scalar = m.scalar_t / m.add_t
    lanes, copies_of = nest.lanes_mask, nest.copies_of
    for (place, varies), g in k.groups.items():
        b = body(place)
        n = copies_of(varies)
        if varies & lanes:
            b[4] = max(b[4], n)
        else:
            n *= scalar
        b[0] += n * g.mul
        b[1] += n * g.add
        b[2] += n * g.count
    for form in nest.accesses():
        a = form[0]
        b = body(a.place)
        n = len(form) * copies_of(a.varies)
        b[3] += n * access_cycles(nest, a)
        b[2] += n
    nest.lines = sum(b[2] for b in bodies.values())
    folds = k.fold_of
    loops = nest.loops
    parents = {x.parent for x in loops}
    result: list[tuple[int, float]] = []
    for at, (mul, add, count, memory, copies) in bodies.items():
        v = loops[at].var if at >= 0 else -1
        throughput = max(mul, add, count * m.mix_t, memory)
        crowd = copies * k.live.get(v, k.live[-1])
        if crowd > m.registers - 2:
            throughput += SPILL * count * (1 - (m.registers - 2) / crowd)
        latency = extra = 0.0
        iterations = nest.iterations(at)
        if v in folds:
            for w in (v, *loops[at].also):
                chain, more, once = _fold_cycles(nest, folds[w], scalar)
                latency, throughput, extra = max(latency, chain), throughput + more, extra + once
            entered = iterations / max(1, loops[at].trips)
            extra = entered * (extra + START[loops[at].trips > 32])
        if v in folds or v in k.rows:
            latency = max(latency, k.latency.get(v, 0.0) * min(1.0, count / WINDOW))
        elif at >= 0 and at not in parents:
            latency = k.latency[-1] * min(1.0, count / WINDOW)
        result.append((at, iterations * max(throughput + LOOP, latency) + extra))
    return result


def access_cycles(nest: Nest, a: Access) -> float:
    """Cycles on the load and store ports for one copy of an access."""
    m = nest.machine
    wide = a.itemsize / 4
    store = a.kind == "store"
    if not a.varies & nest.lanes_mask:
        return (m.store_t if store else m.load_t) + 3 * a.guarded
    lanes = nest.lane_variables(a.varies)
    step = max(a.stride(v, 1) for v in lanes) // a.itemsize
    straight = not (a.from_data and any(a.from_data >> v & 1 for v in lanes))
    if straight and a.bent and step:
        straight = all(a.stride(v, m.lanes - 1) == (m.lanes - 1) * a.stride(v, 1) for v in lanes)
    if store:
        return m.store_t * max(wide, 0.5) if straight and step == 1 else SCATTERED * m.lanes
    if straight and step <= 1:
        return m.load_t * max(wide, 1.0) * (1 if step else 1.0) + GUARD * a.guarded
    if a.itemsize >= 4 and not a.guarded and straight:
        return min(m.gather_t, CELL * m.lanes) * wide
    return 2.0 * m.lanes + GUARD * a.guarded


def _fold_cycles(nest: Nest, f: Fold, scalar: float) -> tuple[float, float, float]:
    """(latency an iteration, further cycles an iteration, cycles each time the loop is entered)."""
    m = nest.machine
    copies = nest.copies_of(f.varies)
    room = m.registers - 2
    if nest.in_lanes(f.varies):  # an operand that several accumulators share stays in registers, and one is broadcast
        shared = [nest.copies_of(a.varies) for a in nest.summary.read_in(f.var) if nest.in_lanes(a.varies)]
        room -= max((n for n in shared if n < copies), default=0)
    over = max(0, copies * f.accumulators - room)
    if f.var not in nest.in_rows:
        return f.chain, 2.5 * over + (ROLLED if f.ordered and not nest.in_lanes(f.varies) else 0.0), 0.0
    one = max(f.recurrence.mul, f.recurrence.add, f.recurrence.count * m.mix_t) * scalar + IN_ORDER
    extra = f.n % m.lanes * f.chain
    over = max(0, copies * (f.accumulators + 1) - room)  # the terms of each row are a register too
    return m.lanes * f.chain, copies * (m.lanes * one + m.store_t) + over * THROUGH_INTEGERS * m.lanes, extra


@dataclass
class Traffic:
    """Bytes into a cache: read, written through it, written when the stores bypass the caches.

    `restarted`: bytes that could have been moved while the prefetcher was starting on short runs; nothing hides that time.
    """

    read: float = 0.0
    written: float = 0.0
    streamed: float = 0.0
    restarted: float = 0.0


@dataclass
class _Walk:
    """Accesses of one form seen from the inside out: `ladder` has, a loop, (lines of one iteration, dimensions so far, trips,
    stride).  `run`: bytes read one after the other, the same with neighbouring runs read side by side, how many are side by side.
    """

    access: Access
    tensors: list[T]
    loops: list[int]
    lines: tuple[float, float]
    ladder: list[tuple[float, int, int, int]]
    total: float
    dims: list[tuple[int, int]]
    width: int  # contiguous bytes of one iteration of the innermost loop
    run: tuple[float, float, float]


def traffic(nest: Nest) -> dict[str, Traffic]:
    """What misses each cache.  Data that fits in a cache after one call is there at the next."""
    m = nest.machine
    walks = [_walk(nest, form[0], [a.tensor for a in form]) for form in nest.accesses()]
    result = {level: Traffic() for level in ("l1", "l2", "l3")}
    total = sum(w.total * len(w.tensors) for w in walks) * LINE
    for level, out in result.items():
        size = getattr(m, level) * SHARE[level]
        if total > size:
            way = 0 if level == "l3" else getattr(m, level) // getattr(m, f"{level}_ways")  # L3 spreads addresses over its sets
            _misses(nest, walks, out, size, way, level)
    return result


def _walk(nest: Nest, a: Access, tensors: list[T]) -> _Walk:
    varies = bits(a.varies)
    inside = [(nest.lanes[v], 1, v) for v in varies if nest.lanes[v] > 1]
    in_lanes = len(inside)
    inside += [(nest.copies[v], nest.lanes[v], v) for v in varies if nest.copies[v] > 1]
    lines = touched = 1.0
    dims: list[tuple[int, int]] = []
    for j, (n, step, v) in enumerate(inside):
        d = a.stride(v, step)
        if a.kind == "row" and not d and v < nest.summary.rank:  # every copy has its own row buffer
            lines, touched = lines * n, touched * n
        if d:
            grown = n if d >= LINE else max(1.0, n * d / LINE)
            lines *= grown
            touched *= n if j >= in_lanes else grown
            dims.append((n, d))
    first = (lines, touched)
    width = a.itemsize
    for n, d in dims:
        width = n * d if d <= width else width
    loops = nest.path(nest.at(a.place))[::-1]
    ladder: list[tuple[float, int, int, int]] = []
    for j in loops:
        loop = nest.loops[j]
        d = a.stride(loop.var, loop.step)
        for v in loop.also:
            d = max(d, a.stride(v, loop.step))
        ladder.append((lines, len(dims), loop.trips, d))
        if d:
            lines *= loop.trips if d >= LINE else max(1.0, loop.trips * d / LINE)
            dims.append((loop.trips, d))
    return _Walk(a, tensors, loops, first, ladder, lines, dims, width, _run(a.itemsize, dims))


def _misses(nest: Nest, walks: list[_Walk], out: Traffic, size: float, way: int, level: str) -> None:
    footprint: dict[int, float] = {}
    innermost: dict[int, float] = {}
    for w in walks:
        reached, q = 1.0, 0
        for (lines, count, _, _), j in zip(w.ladder, w.loops, strict=True):
            while q < count:  # a power-of-two stride reaches few sets
                n, d = w.dims[q]
                reached *= (min(n, way // math.gcd(way, d)) if way else n) if d >= LINE else max(1.0, n * d / LINE)
                q += 1
            held = lines * LINE * (max(1.0, way / LINE / reached) if reached < lines else 1.0)
            held *= len(w.tensors)
            footprint[j] = footprint.get(j, 0.0) + held
            if j == w.loops[0]:
                innermost[j] = innermost.get(j, 0.0) + held
    streams_open: dict[int, float] = {}
    followed: dict[int, float] = {}  # those that go on for more than a line
    for w in walks:
        if w.access.kind != "row":
            j = w.loops[0] if w.loops else -1
            streams_open[j] = streams_open.get(j, 0.0) + w.run[2] * len(w.tensors)
            if w.run[0] > LINE:
                followed[j] = followed.get(j, 0.0) + w.run[2] * len(w.tensors)
    seen: dict[T, list[_Walk]] = {}
    for w in walks:
        if w.access.kind == "row" and level != "l1":
            continue
        run, reach, streams = w.run
        thrashed = bool(w.loops) and innermost[w.loops[0]] > size
        lines = w.lines[1] * CONFLICT if thrashed else w.lines[0]
        for (_, _, n, d), loop in zip(w.ladder, w.loops, strict=True):
            if footprint[loop] <= size:
                lines *= 1 if d == 0 else n if d >= LINE else max(1.0, n * d / LINE)
            else:
                lines *= n
        count = len(w.tensors)
        if w.access.kind == "load":
            for t in w.tensors:
                others = seen.setdefault(t, [])
                count -= any(_shared(w, other, footprint, size) for other in others)
                others.append(w)
        if not count:
            continue
        moved = count * lines * LINE
        starting = 0.0
        if w.access.kind != "row" and not thrashed:
            side_by_side = streams + (FROM_DATA if w.access.from_data else 0.0)
            starting = {"l1": 1.0, "l2": 1 / (side_by_side + 2), "l3": side_by_side**-1.3}[level] * RESTART[level]
        lost = min(4.0, starting / max(run, LINE)) * moved
        crowd = 1.0
        if level != "l1":
            j = w.loops[0] if w.loops else -1
            crowd = max(1.0, streams_open[j]) ** -STREAMS * min(1.0, TRACKED / max(1.0, followed.get(j, 0.0)))
        if streams > 1 and run >= PAGE and level != "l3" and w.access.kind == "load":  # pages that the prefetcher starts on anew
            reach, lost = 0.0, RESTART["l2"] / run * moved
        if reach < PAGE or level == "l1":
            out.restarted += lost
            lost = 0.0
        if w.access.kind == "store":
            out.written += (moved + lost) / crowd
            out.streamed += moved * streams ** (0.5 if w.width >= LINE else 0.75 if streams <= COMBINED else 1.2)
        else:
            out.read += (moved + lost) / crowd


def _run(itemsize: int, dims: list[tuple[int, int]]) -> tuple[float, float, float]:
    """(bytes read one after the other, the same with neighbouring runs read side by side, how many are side by side)."""
    run, streams = float(itemsize), 1.0
    apart: list[tuple[int, int]] = []
    reach = run
    for n, d in dims:
        if d <= max(run, LINE) * 1.01:
            run = max(run, n * d)
            reach = max(reach, run)
        elif d <= reach * 1.01:
            reach = max(reach, n * d)
        elif streams * n > TRACKED:
            break
        else:
            streams *= n
            apart.append((n, d))
        for m, e in apart:
            if e <= reach * 1.01:
                reach = max(reach, m * e)
    return run, reach, streams


def _shared(a: _Walk, b: _Walk, footprint: dict[int, float], size: float) -> bool:
    """Whether the load `b`, in a sibling loop over the same tensor, has brought in what the load `a` reads."""
    common = [j for j in a.loops if j in b.loops]
    if not common or footprint[common[0]] > size:
        return False
    return all(a.access.stride(v, 1) == b.access.stride(v, 1) for v in bits(a.access.place & b.access.place))


class Cost(NamedTuple):
    """Modelled seconds, and the cycles each resource alone would need."""

    seconds: float
    parts: dict[str, float]

    @property
    def bound(self) -> str:
        """The resource that decides."""
        return max(self.parts, key=lambda k: self.parts[k])


def woken(m: Machine) -> float:
    """Seconds until other threads have been woken and waited for."""
    return (m.fork_us + POOL_US) * 1e-6


def cost(nest: Nest, cycles: list[tuple[int, float]], bytes_: dict[str, Traffic], at: int, stream: bool) -> Cost:  # noqa: FBT001
    """The modelled time with threads over loop `at` (-1: one thread), stores through the caches or around them."""
    m = nest.machine
    speed, threads = 1.0, 1
    if at >= 0:
        n, threads = nest.loops[at].trips, m.threads
        speed = n / -(-n // threads)
    l1, l2, l3 = bytes_["l1"], bytes_["l2"], bytes_["l3"]
    ram = m.bw_ram[min(threads, 2) - 1]
    through = 0 if stream else 2
    waiting = (l1.restarted / m.bw_l2[0] + l2.restarted / m.bw_l3[0]) / speed + l3.restarted / ram
    parts = {
        "arithmetic": sum(c / speed if at >= 0 and nest.within(j, at) else c for j, c in cycles) + waiting,
        "L2": (l1.read + l1.written * through) / m.bw_l2[0] / speed,
        "L3": (l2.read + l2.written * through) / m.bw_l3[0] / speed,
        "RAM": (l3.read + l3.streamed) / (ram * STREAM_GAIN) if stream else (l3.read + 2 * l3.written) / ram,
    }
    worst = max(parts.values())
    total = worst + OVERLAP * (sum(parts.values()) - worst)
    seconds = total / (m.ghz * 1e9) + (woken(m) if at >= 0 else 0.0)
    more = max(0.0, nest.lines - FEW_LINES)
    return Cost(seconds + more * (1 + more / MANY_LINES) * COMPILED_LINE / CALLS, parts)


def finish(nest: Nest, cycles: list[tuple[int, float]]) -> tuple[Cost, Schedule]:
    """The best thread axis (or none) and store kind for the nest; ties go to the simpler nest."""
    k, s, m = nest.summary, nest.schedule, nest.machine
    bytes_ = traffic(nest)
    streams = bytes_["l3"].written > 0 and _streams(nest)  # where the output stays in the cache, bypassing it only hurts
    loops = [-1]
    if m.threads > 1:
        blocked = {a for a, b in s.order if b is not None}  # such an axis is divided by its blocks
        loops += [
            j for j in range(nest.spine)
            if nest.loops[j].key is not None and nest.loops[j].key not in blocked and nest.loops[j].trips >= 2
            and k.alone >> nest.loops[j].var & 1 and not _shares_lines(nest, nest.loops[j].var)
        ]  # fmt: skip
    best, at, stream = Cost(math.inf, {}), -1, False
    for j in loops:
        if j >= 0 and best.seconds <= woken(m):
            break
        for bypass in (False, True) if streams else (False,):
            c = cost(nest, cycles, bytes_, j, bypass)
            if c.seconds < best.seconds:
                best, at, stream = c, j, bypass
    plain = all(b is None for _, b in s.order)
    natural = not s.order or s.order == tuple((a, None) for a in range(k.rank))
    tie = 1 + 0.0005 * s.copies * math.prod(u for _, u in s.jam) + 0.01 * (not plain) + 0.003 * (not natural)
    if s.vector is not None and any(a.kind == "load" and a.steps.get(s.vector, 0) > 1 for a in k.accesses):
        tie += AGAINST_THE_GRAIN
    made = s._replace(threads=nest.loops[at].key if at >= 0 else None, stream=stream)
    return Cost(best.seconds * tie, best.parts), made


def _shares_lines(nest: Nest, axis: int) -> bool:
    """Whether threads that divide the axis write the same cache lines, which go back and forth between their cores."""
    k = nest.summary
    part = -(-k.sizes[axis] // nest.machine.threads)  # neighbouring elements of the axis in one thread
    return any(a.kind == "store" and 0 < abs(a.steps.get(axis, 0)) * a.itemsize * part < LINE for a in k.accesses)


def _streams(nest: Nest) -> bool:
    """Whether every store writes whole vectors along the last axis."""
    k, s = nest.summary, nest.schedule
    return (
        s.vector is not None and s.vector == k.rank - 1 and s.carry is None and not k.chained
        and k.shape[-1] % nest.machine.lanes == 0
        and all(a.kind != "store" or (a.steps.get(s.vector) == 1 and a.itemsize >= 4) for a in k.accesses)
    )  # fmt: skip
