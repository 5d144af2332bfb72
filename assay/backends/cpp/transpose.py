"""Loads against the grain: neighbouring lanes are far apart in memory, neighbouring copies are not.

Where W copies of a load read W consecutive elements in every lane, W contiguous vectors are loaded, one a lane, and
transposed in registers: x[j, i] with lanes along j and W copies along i.
"""

from __future__ import annotations

from assay.backends.cpp.spell import TYPES
from assay.backends.cpp.values import Printer
from assay.backends.placement import Access, Loop, Value
from assay.backends.target import Target
from assay.core.index import Ix, ix
from assay.semantics.access import row_major


def transpose_text(target: Target) -> str:
    """C++ of `transpose(F*)`, W vectors of W lanes in place: blocks of half the size change places, log2(W) times."""
    w = target.lanes
    lines = ["AI void transpose(F*v){F a,b;"]
    h = w // 2
    while h:
        low = ",".join(str(k if not k & h else w + k - h) for k in range(w))
        high = ",".join(str(k + h if not k & h else w + k) for k in range(w))
        lines += [f"a=v[{k}];b=v[{k + h}];v[{k}]=SH(a,b,{low});v[{k + h}]=SH(a,b,{high});" for k in range(w) if not k & h]
        h //= 2
    return "\n".join([*lines, "}\n"])


def transposed_load(p: Printer, v: Value, reps: tuple[Loop, ...]) -> list[str] | None:
    """Print the transposes and return the texts of all copies of the load `v`; None where it is not of that form."""
    access: Access = v.attr
    if TYPES[access.dtype].access not in "FI" or access.buffer is not None:
        return None
    along = next((x for x in reps if p.rep[x].copies % p.lanes == 0 and _consecutive(p, access, x, reps)), None)
    if along is None:
        return None
    found: dict[tuple[int, ...], str] = {}
    for at in p.coordinates(reps):
        if at[along] % p.lanes:
            continue
        flat = _flat(p, access, at)
        if p.varying(p.at_lane(flat, 0)) or p.stride(flat) in (0, 1):
            return None
        block = p.name("v")
        kind = TYPES[access.dtype].access
        rows = [f"ld{kind}({p.pointer_of(v, at)}+({p.index_text(p.at_lane(flat, j), at)}))" for j in range(p.lanes)]
        p.line(f"F {block}[{p.lanes}]={{{','.join(r if kind == 'F' else f'(F){r}' for r in rows)}}};transpose({block});")
        for q in range(p.lanes):
            here = {**at, along: at[along] + q}
            found[tuple(here[x] for x in reps)] = f"{block}[{q}]" if kind == "F" else f"(I){block}[{q}]"
    return [found[tuple(at[x] for x in reps)] for at in p.coordinates(reps)]


def _flat(p: Printer, access: Access, at: dict[Loop, int]) -> Ix:
    return row_major(access.shape, [p.index(i, at) for i in access.indices])


def _consecutive(p: Printer, access: Access, x: Loop, reps: tuple[Loop, ...]) -> bool:
    """Whether the copies of `x` read consecutive elements, all of them inside the tensor."""
    first: dict[tuple[int, ...], Ix] = {}
    for at in p.coordinates(reps):
        if p.guards(access, at):
            return False
        others = tuple(at[y] for y in reps if y is not x)
        flat = _flat(p, access, at)
        start = first.setdefault(others, flat)
        if flat - start != ix(at[x]):
            return False
    return True
