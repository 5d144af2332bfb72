"""Fetching ahead: in each step of a fold, the line that a later step reads is asked for.

Only for streams, whose steps read one after the other: step r reads elements [k r, k r + k) behind a start that is the same
for all r.  What stands after the last step is what the next loop around the fold reads, where an operand was packed for it.
A fetch reads no value and may be of any address, so nothing has to be proved of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from assay.backends.cpp.values import Printer
from assay.backends.placement import Access, Value, reachable
from assay.core.index import Ix, is_symbolic
from assay.semantics.access import row_major

LINE = 64  # bytes


def print_fetches(p: Printer, steps: Sequence[Value], counter: Ix) -> None:
    """Print the fetches of the streams that are read where the printer is, in the loop of `counter`."""
    inner = {v.attr.loop for v in reachable(steps) if v.op == "fold"}  # their loops are not open yet
    loads = (v for v in reachable(steps) if v.op == "load" and inner.isdisjoint(v.within) and p.place(v) is p.block)
    p.block.lines += sorted({line for v in loads for line in _fetches(p, v, counter)})


def _fetches(p: Printer, v: Value, counter: Ix) -> list[str]:
    """One a line that a step reads; none where the load is no stream."""
    access: Access = v.attr
    if access.buffer is not None or access.tensor is None or any(map(is_symbolic, access.shape)):
        return []
    reps, vector = p.form(v)
    starts: list[Ix] = []
    wide = 1
    for at in p.coordinates(reps):
        flat = row_major(access.shape, [p.index(i, at) for i in access.indices])
        if not flat.is_plain or p.guards(access, at) or (vector and p.stride(flat) not in (0, 1)):
            return []
        wide = p.lanes if vector and p.stride(flat) == 1 else 1
        starts.append(p.base(flat))
    apart = [start - starts[0] for start in starts]
    step = dict(starts[0].terms).get(counter.terms[0][0], 0)
    if not all(d.is_const for d in apart) or step <= 0:
        return []
    first, last = min(d.c for d in apart), max(d.c for d in apart) + wide
    if last - first != step:
        return []
    size = access.dtype.bits // 8
    here = starts[0] + (first + step * p.schedule.ahead)
    return [
        f"fetch({p.pointer_of(v, {})},{size}L*({p.index_text(here + at, {})}));" for at in range(0, step, max(1, LINE // size))
    ]
