"""What a program costs: operations, bytes, peak memory; and the price of storing a value against computing it again (6.6)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from assay.core.dtypes import DType
from assay.core.lang import Program, T, apply_row, input, load, order, size_of
from assay.core.row import NAMED, TABLE, Row
from assay.semantics.access import accesses, evaluations, times
from assay.semantics.tape import composition

CASTS = ("convert", "bitcast")


@dataclass(frozen=True)
class Cost:
    """Sums over all elements of a definition, or of all definitions of a program.

    operations       scalar operations as written: a row of the table or a conversion counts one
    functions        those of them that are named rows (exp, erf, ...)
    arithmetic       operations with the compositions of named rows written out
    read, written    bytes that the loads and stores move: what is loaded again counts again
    moved            bytes of the distinct tensors that are read, and of those that are written: what memory must move
    buffers          distinct tensors that are read
    """

    operations: int = 0
    functions: int = 0
    arithmetic: int = 0
    read: int = 0
    written: int = 0
    moved: int = 0
    buffers: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.operations + other.operations, self.functions + other.functions, self.arithmetic + other.arithmetic,
            self.read + other.read, self.written + other.written, self.moved + other.moved, self.buffers + other.buffers,
        )  # fmt: skip


@cache
def cost_of(t: T) -> Cost:
    """The cost of computing the definition `t` from the tensors it reads.  An input costs nothing, an extern its bytes."""
    if t.kind == "input":
        return Cost()
    operations = functions = arithmetic = 0
    for e, loops in evaluations(t):
        row = TABLE.get(e.op)
        if row is None and e.op not in CASTS:
            continue
        count = times(loops)
        operations += count
        functions += count * (row is not None and row.kind == NAMED)
        arithmetic += count * (1 if row is None else length(row, tuple(a.dtype for a in e.args)))
    if t.kind == "scatter" and t.combine is not None:
        operations, arithmetic = operations + accesses(t)[0].count, arithmetic + accesses(t)[0].count
    found = accesses(t)
    tensors = {a.tensor for a in found if a.kind == "read"}
    return Cost(
        operations, functions, arithmetic,
        sum(a.bytes for a in found if a.kind == "read"), sum(a.bytes for a in found if a.kind == "write"),
        sum(map(size_of, tensors)) + size_of(t), len(tensors),
    )  # fmt: skip


@cache
def length(row: Row, types: tuple[DType, ...]) -> int:
    """Primitive operations that one application of the row takes."""
    if row.kind != NAMED:
        return 1
    arguments = tuple(load(input(f"{row.name} argument {k}", (), d)) for k, d in enumerate(types))
    total = 0
    for e in composition(apply_row(row, arguments)):
        r = TABLE.get(e.op)
        total += 1 if e.op in CASTS else 0 if r is None else length(r, tuple(a.dtype for a in e.args))
    return total


def program_cost(p: Program) -> Cost:
    """The sum over the definitions of the program; `buffers` counts each tensor once a definition that reads it."""
    return sum((cost_of(t) for t in p.tensors), Cost())


def peak_bytes(p: Program) -> int:
    """The most bytes held at once when the definitions run in creation order and each is freed after its last reader.

    Inputs belong to the caller and outputs to the result: both are held throughout, outputs from when they are made.
    """
    tensors = order(p.roots)
    last = {r: k for k, t in enumerate(tensors) for r in (t, *t.reads)}
    held = peak = sum(map(size_of, p.inputs))
    for k, t in enumerate(tensors):
        if t.kind != "input":
            held += size_of(t)
        peak = max(peak, held)
        held -= sum(size_of(r) for r, end in last.items() if end == k and r.kind != "input" and r not in p.outputs)
    return peak


@dataclass(frozen=True)
class Prices:
    """What the machine does in a second: `operations` and `bytes` moved."""

    operations: float
    bytes: float


@dataclass(frozen=True)
class Realisation:
    """Seconds to recompute a value at each reader, and to store it once (formula of section 6.6)."""

    inline: float
    realise: float

    @property
    def gain(self) -> float:
        """T_inline - T_realise: positive where storing pays."""
        return self.inline - self.realise


def realisation(elements: int, operations: float, read: float, stored: float, readers: int, prices: Prices) -> Realisation:
    """T_inline = k N (c/P + q/B) and T_realise = N (c/P + q/B) + N b/B + k N b/B.

    N elements, c operations and q bytes read an element, b bytes a stored element, k readers, P operations and B bytes a
    second.  Storing pays where (k - 1) (c/P + q/B) > (k + 1) b/B; one reader never makes it pay.
    """
    once = elements * (operations / prices.operations + read / prices.bytes)
    move = elements * stored / prices.bytes
    return Realisation(readers * once, once + move + readers * move)
