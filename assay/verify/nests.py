"""The scheduled program, as data: kernels with their loop nests, the order in which they run, and where tensors live.

The printer prints it (backends/cpp/nest.py), and verify/coverage.py proves that it computes the program.

    kernel(lo, hi):                                  units lo .. hi-1 of the loop that is divided among threads
      for each (axis, block) of `order`, outermost first:
        block None   the pieces of the axis, one after the other: start = base + min(c * size, last) for c in 0..count-1;
                     elements start + offset + lane are computed together
        block b      so many units of the axis (a whole tile is a unit, all tails are one) in their order

With `chunks` (length, size) the fold of every store runs in chunks, outermost of all: its accumulators rest in the output.
"""

from __future__ import annotations

from dataclasses import dataclass

from assay.core.dtypes import DType
from assay.core.index import Ix
from assay.core.lang import E, Program, T
from assay.core.lang import input as tensor_input


@dataclass(frozen=True)
class Piece:
    """Part of an axis: `count` tiles of `lanes` neighbouring elements at each of `offsets`.

    Tile c starts at base + min(c * size, last), or base + c * size where `last` is None.  A piece of `count` tiles is so many
    units, a tail is part of one.
    """

    count: int
    size: int
    offsets: tuple[int, ...]
    lanes: int
    base: int = 0
    last: int | None = None
    is_tail: bool = False


@dataclass(frozen=True)
class Axis:
    """An axis of n elements and the pieces that it is cut in."""

    n: int
    pieces: tuple[Piece, ...]

    @property
    def whole(self) -> int:
        """The number of tiles that are no tails; a piece of them stands first, if there are any."""
        return sum(p.count for p in self.pieces if not p.is_tail)

    @property
    def units(self) -> int:
        """Whole tiles, and one for all tails."""
        return self.whole + any(p.is_tail for p in self.pieces)


@dataclass(frozen=True)
class RowBuffer:
    """Rows of the let `tensor` at the leading indices `lead`, computed where they are read; `value` over its trailing axes.

    `trail` are the variables of the trailing axes in `value`; `axes` how each is cut.
    """

    tensor: T
    lead: tuple[Ix, ...]
    trail: tuple[Ix, ...]
    value: E
    axes: tuple[Axis, ...]


@dataclass(frozen=True)
class Stored:
    """What a kernel writes to `tensor`: `value` at each point of the domain, whose axes are Var(0), Var(1), ...

    `indices` of a scatter: the element that is written; `condition` of a require.
    For a scan `value` is the fold whose states are written.
    """

    tensor: T
    value: E
    condition: E | None = None
    indices: tuple[Ix, ...] = ()


@dataclass(frozen=True)
class LoopNest:
    """One kernel.  `domain` is cut in `axes`; the elements of a let have row-major numbers in it, whatever its own shape.

    order       (axis, None) or (axis, units of a block), outermost first
    threads     the axis, or ("block", axis), whose `units` are divided; None: one thread runs all
    chunks      (length of the fold, steps of a chunk)
    """

    kind: str
    domain: tuple[int, ...]
    axes: tuple[Axis, ...]
    order: tuple[tuple[int, int | None], ...]
    stores: tuple[Stored, ...]
    buffers: tuple[RowBuffer, ...] = ()
    threads: int | tuple[str, int] | None = None
    units: int = 1
    chunks: tuple[int, int] | None = None


@dataclass(frozen=True)
class Step:
    """A kernel, or reference functions (`nest` None), in the order of running.  `reads` are tensors in memory."""

    writes: tuple[T, ...]
    reads: frozenset[T]
    nest: LoopNest | None = None


@dataclass(frozen=True)
class Scheduled:
    """The steps of a program; `offsets` say where in the arena of `arena` bytes the intermediates live."""

    program: Program
    steps: tuple[Step, ...]
    offsets: tuple[tuple[T, int], ...] = ()
    arena: int = 0


def written(output: int, shape: tuple[int, ...], dtype: DType) -> T:
    """What stands for the memory of output number `output` of a kernel, as it is when a scatter reads it."""
    return tensor_input(f"what was written to output {output}", shape, dtype)


__all__ = ["Axis", "LoopNest", "Piece", "RowBuffer", "Scheduled", "Step", "Stored", "written"]
