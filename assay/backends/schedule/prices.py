"""What one scalar operation costs in a vector of 4-byte lanes: port cycles, latency, and the registers a composition needs.

A named row (exp, erf, ...) is priced by the composition that is printed for it, once per row and type.
"""

from __future__ import annotations

from dataclasses import dataclass

from assay.backends.schedule.machine import Machine
from assay.core import lang
from assay.core.dtypes import DType
from assay.core.lang import LOADS, E
from assay.core.row import TABLE


@dataclass(frozen=True)
class Price:
    """Cycles on the multiplier ports, on the adder ports, instructions, latency, values alive at once."""

    mul: float = 0.0
    add: float = 0.0
    count: float = 0.0
    latency: float = 0.0
    live: int = 1

    def scaled(self, k: float) -> Price:
        return Price(k * self.mul, k * self.add, k * self.count, self.latency, self.live)


FREE = Price()
PER_NODE = 1.5  # instructions a node of a long composition takes: constants, moves and blends are not nodes
_STRUCTURAL = frozenset((*LOADS, "const", "acc", "proj", "fold", "bitcast", "stop"))


class Prices:
    """The prices of one machine."""

    def __init__(self, machine: Machine) -> None:
        m = self.machine = machine
        compare = Price(add=m.cmp_t / 2, count=1, latency=m.cmp_l / 2)
        whole = Price(count=1, latency=m.int_l)
        # NaN-propagating maximum with -0 < +0: two maxima, an and; a compare, an add, a select
        extreme = Price(add=2 * m.cmp_t, count=6, latency=m.cmp_l + m.add_l)
        rounding = Price(add=2 * m.add_t, count=2, latency=2 * m.add_l)
        self.primitive: dict[str, Price] = {
            "add": Price(add=m.add_t, count=1, latency=m.add_l), "sub": Price(add=m.add_t, count=1, latency=m.add_l),
            "mul": Price(mul=m.mul_t, count=1, latency=m.mul_l), "fma": Price(mul=m.fma_t, count=1, latency=m.fma_l),
            "div": Price(mul=m.div_t, count=1, latency=m.div_l), "sqrt": Price(mul=m.sqrt_t, count=1, latency=m.sqrt_l),
            "neg": whole, "abs": whole, "max": extreme, "min": extreme,
            "lt": compare, "le": compare, "eq": compare, "ne": compare, "select": compare,
            "floor": rounding, "ceil": rounding, "trunc": rounding, "round": rounding,
            "convert": Price(add=2 * m.add_t, count=3, latency=m.add_l + 1), "idx": whole,
        }  # fmt: skip
        self.integer: dict[str, Price] = {
            "mul": Price(mul=2 * m.mul_t, count=2, latency=10.0), "fma": FREE,
            "floordiv": Price(count=12 * m.lanes, latency=25), "mod": Price(count=14 * m.lanes, latency=28),
            "max": Price(add=m.cmp_t, count=1, latency=1.0), "min": Price(add=m.cmp_t, count=1, latency=1.0),
            "shl": Price(count=3, latency=3.0), "shr": Price(count=3, latency=3.0),
            "umulhi": Price(mul=2 * m.mul_t, count=6, latency=m.mul_l + 3.0),
        }  # fmt: skip
        self._whole = whole
        self._known: dict[tuple[str | DType, ...], Price] = {}

    def of(self, e: E) -> Price:
        """The price of the node `e` alone; 8-byte types count twice (a vector of f32 lanes is a pair of registers)."""
        if e.op in _STRUCTURAL:
            return FREE
        key = (e.op, e.dtype, *[a.dtype for a in e.args])
        found = self._known.get(key)
        if found is None:
            r = TABLE.get(e.op)
            named = r is not None and r.kind == "named"
            found = self._known[key] = self._composition(e) if named else self._primitive(e)
        return found

    def _primitive(self, e: E) -> Price:
        wide = 2 if e.dtype.bits == 64 or any(a.dtype.bits == 64 for a in e.args) else 1
        kind = e.args[-1].dtype if e.args else e.dtype
        found = None if kind.is_float else self.integer.get(e.op, self._whole if e.op in ("add", "sub") else None)
        price = found or self.primitive.get(e.op, self._whole)
        if e.op == "convert" and (e.dtype.is_half or e.args[0].dtype.is_half):
            price = price.scaled(2)
        return price.scaled(wide) if wide > 1 else price

    def _composition(self, e: E) -> Price:
        inner = lang.expand(e)
        leaves = frozenset(e.args)
        nodes = _between(inner, leaves)
        prices = {x: self.of(x) for x in nodes}
        at: dict[E, float] = {}
        for x in nodes:
            at[x] = prices[x].latency + max((at.get(a, 0.0) for a in x.args), default=0.0)
        own = prices.values()
        return Price(
            sum(p.mul for p in own),
            sum(p.add for p in own),
            PER_NODE * sum(p.count for p in own),
            at.get(inner, 0.0),
            max([live_width((inner,), leaves), *(p.live for p in own)]),
        )


def _between(root: E, leaves: frozenset[E]) -> list[E]:
    """The nodes of `root` above `leaves`, arguments before users."""
    return lang.postorder([] if root in leaves else [root], lambda x: [a for a in x.args if a not in leaves])


def live_width(roots: tuple[E, ...], leaves: frozenset[E] = frozenset()) -> int:
    """Values alive at once when the straight-line code of `roots` runs in depth-first order (constants are free)."""
    order: list[E] = []
    last: dict[E, int] = {}
    seen: set[E] = set(leaves)
    stack: list[E | None] = [*reversed(roots)]
    users: list[E] = []  # whose arguments are on the stack, a None below them
    while stack:
        e = stack.pop()
        if e is None:
            user = users.pop()
            if user.op not in ("bitcast", "stop"):
                last.update(dict.fromkeys(user.args, len(order)))
                order.append(user)
        elif e not in seen:
            seen.add(e)
            if e.args and e.op not in ("fold", "proj"):
                users.append(e)
                stack += [None, *reversed(e.args)]
    ends = [0] * (len(order) + 1)
    for e in order:
        ends[last.get(e, len(order))] += 1
    alive = most = 0
    for k in range(len(order)):
        alive += 1 - ends[k]
        most = max(most, alive)
    return max(1, most)
