"""What the body of a kernel computes, by where it is computed and what it varies with: all that the cost model looks at.

A variable of the kernel is a small number: 0..rank-1 are its axes, then its folds and the last axes of its row buffers.
A set of variables is a bit mask.  Every node has two:
    place   the variables it mentions: it is computed in the innermost loop among them
    varies  the variables its value depends on (through accumulators too): it exists once per copy of each
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from assay.backends.schedule.prices import FREE, Prices, live_width
from assay.core import lang
from assay.core.index import Div, Ix, Var, affine, fresh, ix, values
from assay.core.lang import LOADS, E, T
from assay.core.row import TABLE, Monoid

Lead = dict[T, int]


@dataclass(eq=False, slots=True)
class Access:
    """One load or store.  `steps[v]` is the distance in elements between neighbours along v (coefficient of the address).

    `bent`: the address is not affine in some variable (a division, a value from data); `strides` then evaluates it.
    """

    tensor: T
    address: Ix
    itemsize: int
    place: int
    varies: int
    kind: str = "load"  # "load", "store", "row" (a row buffer, read or written)
    guarded: bool = False
    from_data: int = 0  # the variables that reach the address through a value
    steps: dict[int, int] = field(default_factory=dict)
    bent: bool = False
    names: dict[Var, int] = field(default_factory=dict)

    def stride(self, v: int, count: int) -> int:
        """Bytes between element 0 and element `count` along v, others 0."""
        if not self.bent:
            return abs(self.steps.get(v, 0)) * count * self.itemsize
        return abs(self._at({v: count}) - self._at({})) * self.itemsize

    def _at(self, point: dict[int, int]) -> int:
        def value(i: Ix) -> int:
            total = i.c
            for a, k in i.terms:
                if isinstance(a, Var):
                    total += k * point.get(self.names.get(a, -1), 0)
                elif isinstance(a, Div):
                    total += k * (value(a.e) // a.c)
                else:
                    total += k * 1237 * sum(point.get(self.names.get(v, -1), 0) for v in a.free)
            return total

        return value(self.address)


@dataclass(frozen=True)
class Fold:
    """A fold of the body.

    chain       latency from the accumulators of one step to those of the next
    recurrence  port cycles and instructions of the part of a step that depends on the accumulators
    ordered     its terms may be evaluated in lanes and folded in order ("rowvec"): no fold depends on an accumulator
    exact       a monoid that is associative on bits, so that it may be split (transforms/split.py)
    """

    var: int
    node: E
    n: int
    accumulators: int
    place: int
    varies: int
    chain: float
    recurrence: Group
    ordered: bool
    exact: bool


@dataclass
class Group:
    """Port cycles and instructions of the nodes that share place and varies."""

    mul: float = 0.0
    add: float = 0.0
    count: float = 0.0


class _Scope:
    """The fold in whose steps we are: its variable, what has been visited there, and the masks of sets of variables."""

    __slots__ = ("masks", "number", "parent", "seen", "var")

    def __init__(self, parent: _Scope | None, var: Var | None, number: int) -> None:
        self.parent, self.var, self.number = parent, var, number
        self.seen: dict[E, tuple[int, int, float]] = {}
        self.masks: dict[frozenset[Var], int] = {}


class Summary:
    """The summary of the tensors of one kernel (they have one shape), some of the lets they read being row buffers."""

    def __init__(self, tensors: Sequence[T], prices: Prices, local: Lead | None = None) -> None:
        self.tensors = tuple(tensors)
        self.local: Lead = local or {}
        self.prices = prices
        first = self.tensors[0]
        self.shape = loop_shape(first)
        self.rank = len(self.shape)
        self.sizes: list[int] = list(self.shape)
        self.groups: dict[tuple[int, int], Group] = {}
        self.folds: list[Fold] = []
        self.accesses: list[Access] = []
        self.rows: dict[int, int] = {}  # the last axis of a row buffer -> where it is filled
        self.latency: dict[int, float] = {-1: 0.0}  # of the straight-line body of a loop; -1: the body of the axes
        self.live: dict[int, int] = {-1: 1}
        self.chained = False  # iterations must run in order (scan, scatter)
        self._depends: dict[int, int] = {}
        self._fills: dict[tuple[T, tuple[Ix, ...]], int] = {}
        self._names: dict[Var, int] = {}
        top = self._top = _Scope(None, None, -1)
        for k, v in enumerate(lang.axes(self.shape)):
            if v.n != 1:
                self._names[v] = k
        self.alone = (1 << self.rank) - 1  # axes whose iterations write different elements: all but those of a scatter
        self.axes_mask = sum(1 << k for k, n in enumerate(self.shape) if n > 1)
        for t in self.tensors:
            self._tensor(t, top)
        self.forms = _forms(self.accesses)
        self.fold_of = {f.var: f for f in self.folds}
        self.beside = self._beside()

    def read_in(self, v: int) -> list[Access]:
        """The loads in the loop over fold v whose vectors differ between neighbours of some axis."""
        return [a for a in self.accesses if a.kind != "store" and a.place >> v & 1 and a.varies & self.axes_mask]

    def _beside(self) -> dict[int, tuple[int, ...]]:
        """A fold -> the folds numbered before it that can run in its loop: as long, in the same loops, independent."""
        if len(self.folds) < 2:
            return {}
        needs = {f.var: set(lang.walk((f.node,))) for f in self.folds}
        filled = {
            f.var for f in self.folds
            if any(e.op in LOADS and e.attr[0] in self.local for e in needs[f.var])
        }  # fmt: skip
        found: dict[int, tuple[int, ...]] = {}
        for f in self.folds:
            found[f.var] = tuple(
                g.var for g in self.folds
                if g.var < f.var and g.n == f.n and g.place == f.place and not {f.var, g.var} & filled
                and f.node not in needs[g.var] and g.node not in needs[f.var]
            )  # fmt: skip
        return found

    # -------------------------------------------------------------------------------------------- tensors

    def _tensor(self, t: T, top: _Scope) -> None:
        axes = [ix(v) for v in lang.axes(self.shape)]
        for e in lang.bodies(t):
            self.latency[-1] = max(self.latency[-1], self._settle((e,), top)[0][2])
            self.live[-1] = max(self.live[-1], live_width((e,)))
        if t.kind == "scatter":
            address = flat(t.base.shape, t.indices)
        elif t.kind == "scan":
            address = flat(t.shape, (*axes[: t.axis], ix(0), *axes[t.axis :]))
        else:
            address = flat(t.shape, axes)
        self.chained |= t.kind in ("scan", "scatter")
        if t.kind == "scatter":
            written = {i.terms for i in t.indices}
            self.alone &= sum(1 << k for k, v in enumerate(lang.axes(self.shape)) if v.n > 1 and ix(v).terms in written)
        place = self.axes_mask
        if t.kind == "scan":
            place |= 1 << next(f.var for f in self.folds if f.node is t.body)
        stored = self._access(t, address, top, place, place, "store")
        if t.kind == "scan":
            stored.steps[place.bit_length() - 1] = math.prod(t.shape[t.axis + 1 :])

    # -------------------------------------------------------------------------------------------- expressions

    def _settle(self, roots: Sequence[E], scope: _Scope) -> list[tuple[int, int, float]]:
        """`_visit` of each root, arguments first: programs are deeper than Python's stack."""
        for e in lang.postorder(roots, lambda e: e.args[: len(e.args) // 2] if e.op == "fold" else e.deps):
            self._visit(e, scope)
        return [self._visit(e, scope) for e in roots]

    def _visit(self, e: E, scope: _Scope) -> tuple[int, int, float]:
        """(place, varies, latency of the straight-line part of `e` in its own loop)."""
        while scope.var is not None and scope.var not in e.free:
            assert scope.parent is not None
            scope = scope.parent
        found = scope.seen.get(e)
        if found is None:
            found = scope.seen[e] = self._node(e, scope)
        return found

    def _number(self, v: Var, scope: _Scope) -> int:
        at: _Scope | None = scope
        while at is not None:
            if at.var is v:
                return at.number
            at = at.parent
        return self._names[v]

    def _is_axis(self, v: Var, scope: _Scope) -> bool:
        """Whether `v` is an axis of the kernel here, and not a fold variable of the same level and size."""
        return v.n == 1 or (v in self._names and self._number(v, scope) == self._names[v])

    def _mask(self, free: frozenset[Var], scope: _Scope) -> int:
        mask = scope.masks.get(free)
        if mask is None:
            mask = 0
            for v in free:
                mask |= 1 << self._number(v, scope)
            scope.masks[free] = mask
        return mask

    def _node(self, e: E, scope: _Scope) -> tuple[int, int, float]:
        place = self._mask(e.free, scope)
        if e.op == "const":
            return 0, 0, 0.0
        if e.op == "acc":
            return place, place | self._depends[self._number(e.attr[0], scope)], 0.0
        if e.op in LOADS:
            return self._load(e, scope, place)
        if e.op == "fold":
            return self._fold(e, scope, place)
        parts = [self._visit(a, scope) for a in e.deps]
        varies = place
        latency = 0.0
        for p, d, t in parts:
            varies |= d
            if p == place:
                latency = max(latency, t)
        if e.op == "proj":
            return parts[0]
        price = self.prices.of(e) if e.op != "idx" else self.prices.primitive["idx"]
        if price is not FREE:
            self._add(place, varies, price.mul, price.add, price.count)
            if price.live > 1:
                key = scope.number
                self.live[key] = max(self.live.get(key, 1), price.live)
        return place, varies, latency + price.latency

    def _add(self, place: int, varies: int, mul: float, add: float, count: float) -> None:
        g = self.groups.get((place, varies))
        if g is None:
            g = self.groups[place, varies] = Group()
        g.mul += mul
        g.add += add
        g.count += count

    def _fold(self, e: E, scope: _Scope, place: int) -> tuple[int, int, float]:
        half = len(e.args) // 2
        number = len(self.sizes)
        self.sizes.append(e.attr.n)
        inits = [self._visit(a, scope) for a in e.args[:half]]
        varies = place
        for _, d, _ in inits:
            varies |= d
        if scope.var is not None:  # the accumulators of enclosing folds that the steps mention
            for a in lang.walk(e.args[half:]):
                if a.op == "acc" and a.attr[0] is not e.attr and a.attr[0] in e.free:
                    varies |= self._depends.get(self._number(a.attr[0], scope), 0)  # none: an inner fold, named like an axis
        self._depends[number] = varies
        inner = _Scope(scope, e.attr, number)
        steps = e.args[half:]
        body = max(latency for _, _, latency in self._settle(steps, inner))
        self.latency[number] = max(self.latency.get(number, 0.0), body)
        self.live[number] = max(self.live.get(number, 1), live_width(steps))
        chain, recurrence, ordered = self._recurrence(steps, e.attr)
        monoid = monoid_of(e)
        exact = monoid is not None and monoid.is_exact(e.dtype)
        self.folds.append(Fold(number, e, e.attr.n, half, place, varies, chain, recurrence, ordered, exact))
        return place, varies, chain

    def _recurrence(self, steps: Sequence[E], v: Var) -> tuple[float, Group, bool]:
        """(latency from accumulator to accumulator, what lies on the way, whether no fold does)."""
        at: dict[E, float] = {}
        total, ordered = Group(), True
        for x in lang.walk(steps):
            if v not in x.free:
                continue
            if x.op == "acc" and x.attr[0] is v:
                at[x] = 0.0
                continue
            below = max((at[a] for a in x.args if a in at), default=None)
            if below is None:
                continue
            if x.op in ("fold", "proj"):
                ordered = False
                at[x] = below + (4.0 * x.attr.n if x.op == "fold" else 0.0)
                continue
            price = self.prices.of(x)
            total.mul, total.add, total.count = total.mul + price.mul, total.add + price.add, total.count + price.count
            at[x] = below + price.latency
        return max((at.get(s, 0.0) for s in steps), default=0.0), total, ordered

    def _load(self, e: E, scope: _Scope, place: int) -> tuple[int, int, float]:
        t, idx = e.attr
        varies = place
        for a in e.deps:
            varies |= self._visit(a, scope)[1]
        if t in self.local:
            return self._row(t, idx, scope, place, varies)
        guarded = e.op == "load_or_zero" and any(i.lo < 0 or i.hi >= n for i, n in zip(idx, t.shape, strict=True))
        made = self._access(t, flat(t.shape, idx), scope, place, varies, "load", guarded=guarded)
        if t.dtype.is_half or made.from_data:
            self._add(place, varies, 0.0, 0.0, 1.0)
        return place, varies, 6.0

    def _row(self, t: T, idx: tuple[Ix, ...], scope: _Scope, place: int, varies: int) -> tuple[int, int, float]:
        """A load from a row buffer; the first one also fills it, in a loop of its own over the last axis."""
        lead = self.local[t]
        key = (t, idx[:lead])
        if key not in self._fills:
            at = 0
            for i in idx[:lead]:
                at |= self._mask(i.free, scope)
            number = len(self.sizes)
            self.sizes.append(t.shape[lead])
            self._fills[key] = number
            self.rows[number] = at
            own = lang.axes(t.shape)
            if all(i is ix(v) and self._is_axis(v, scope) for i, v in zip(idx[:lead], own, strict=False)):
                body, inner = t.body, _Scope(self._top, own[lead], number)
            else:
                last = fresh(t.shape[lead])
                env: lang.Environment = dict(zip(own, (*idx[:lead], ix(last)), strict=True))
                body, inner = lang.substitute(t.body, env), _Scope(scope, last, number)
            self.latency[number] = self._settle((body,), inner)[0][2]
            self.live[number] = max(self.live.get(number, 1), live_width((body,)))
            mask = at | 1 << number
            self.accesses.append(Access(t, ix(0), t.dtype.itemsize, mask, mask, "row", steps={number: 1}))
        steps, _, _ = self._steps(idx[lead], scope)
        self.accesses.append(Access(t, ix(0), t.dtype.itemsize, place, varies, "row", steps=steps))
        return place, varies, 6.0

    def _access(self, t: T, address: Ix, scope: _Scope, place: int, varies: int, kind: str, *, guarded: bool = False) -> Access:
        steps, bent, from_data = self._steps(address, scope)
        names = {v: self._number(v, scope) for v in address.free} if bent else {}
        made = Access(t, address, t.dtype.itemsize, place, varies, kind, guarded, from_data, steps, bent, names)
        self.accesses.append(made)
        return made

    def _steps(self, address: Ix, scope: _Scope) -> tuple[dict[int, int], bool, int]:
        """(coefficients of the variables, whether something else is left, the variables that values depend on)."""
        steps: dict[int, int] = {}
        bent = False
        for a, k in address.terms:
            if isinstance(a, Var):
                steps[self._number(a, scope)] = k
            else:
                bent = True
        return steps, bent, self._mask(frozenset(v for a in values(address) for v in a.free), scope) if bent else 0


def _forms(accesses: Sequence[Access]) -> list[list[Access]]:
    """The accesses that differ in nothing but their tensors and constant offsets, together."""
    found: dict[tuple[object, ...], list[Access]] = {}
    for a in accesses:
        key = (a.itemsize, a.place, a.varies, a.kind, a.guarded, a.from_data, *a.steps.items()) if not a.bent else (id(a),)
        found.setdefault(key, []).append(a)
    return list(found.values())


def loop_shape(t: T) -> tuple[int, ...]:
    """The axes a kernel for `t` loops over: its shape; without the folded axis for a scan; the domain of a scatter."""
    if t.kind == "scan":
        return t.shape[: t.axis] + t.shape[t.axis + 1 :]
    return t.domain if t.kind == "scatter" else t.shape


def flat(shape: Sequence[int], idx: Sequence[Ix]) -> Ix:
    """The row-major address of an element."""
    parts: list[tuple[int, Ix]] = []
    stride = 1
    for n, i in zip(reversed(shape), reversed(idx), strict=True):
        parts.append((stride, i))
        stride *= n
    return affine(parts)


def monoid_of(node: E) -> Monoid | None:
    """The monoid m of a fold of one accumulator whose step is m(acc, term), term without the accumulator and without folds."""
    if len(node.args) != 2:
        return None
    step = node.args[1]
    r = TABLE.get(step.op)
    if r is None or not isinstance(r.monoid, Monoid) or len(step.args) != 2:
        return None
    first, term = step.args
    if first.op != "acc" or first.attr[0] is not node.attr or term.has_fold:
        return None
    return None if any(x.op == "acc" and x.attr[0] is node.attr for x in lang.walk((term,))) else r.monoid
