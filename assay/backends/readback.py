"""What a placement computes, as expressions again: the kernel's values read back over the axes of its domain.

Placement opens bodies, numbers loops, shares rows and replaces indices that are read from data by symbols.  Reading it
back undoes none of that by knowing what was there before: each value is built from what the printer prints.
"""

from __future__ import annotations

from dataclasses import dataclass

from assay.backends.placement import Access, Fill, Fold, Loop, Placement, Symbol, Value
from assay.core.errors import InternalError
from assay.core.index import Ix, Val, Var, ix, rewrite
from assay.core.lang import E, apply_row, as_index, axes, bitcast, const_bits, convert, index, load, load_or_zero, proj
from assay.core.lang import acc as accumulator
from assay.core.lang.folds import close_fold
from assay.core.row import TABLE
from assay.verify.nests import Axis, RowBuffer, Stored, written


@dataclass
class ReadBack:
    """The stores and row buffers of a placement; `cut` says how the loops of a row buffer are cut."""

    placement: Placement
    cuts: dict[Loop, Axis]

    def __post_init__(self) -> None:
        p = self.placement
        self.known: dict[Value, E] = {}
        named = axes(p.shape)
        self.variables: dict[Var, Ix] = {a.var: ix(v) for a, v in zip(p.axes, named, strict=True) if a is not None}
        for v in p.values:
            if v.op != "fill":
                self.known[v] = self._value(v)
        self.stores = tuple(
            Stored(s.tensor, self.known[s.value], self.known[s.cond] if s.cond is not None else None,
                   tuple(self.index(i) for i in s.indices))
            for s in p.stores
        )  # fmt: skip
        self.buffers = tuple(self._buffer(f) for f in p.fills)

    def index(self, i: Ix) -> Ix:
        """The index over the axes of the domain, the variables of folds and values."""

        def atom(a: Var | Val) -> Ix:
            if isinstance(a, Symbol):
                return as_index(self.known[self.placement.symbols[a.mark]])
            return self.variables.get(a, ix(a)) if isinstance(a, Var) else as_index(a.e)

        return rewrite(i, atom)

    def _value(self, v: Value) -> E:
        if v.op == "const":
            return const_bits(v.attr, v.dtype)
        if v.op == "idx":
            return index(self.index(v.attr), v.dtype)
        if v.op == "acc":
            loop, k = v.attr
            return accumulator(loop.var, k, v.dtype, (v.lo, v.hi))
        if v.op == "load":
            return self._load(v.attr)
        if v.op == "fold":
            f: Fold = v.attr
            return close_fold(f.loop.var, tuple(self.known[a] for a in f.inits), tuple(self.known[s] for s in f.steps))
        args = tuple(self.known[a] for a in v.args)
        if v.op == "proj":
            return proj(args[0], v.attr)
        if v.op == "convert":
            return convert(args[0], v.dtype)
        if v.op == "bitcast":
            return bitcast(args[0], v.dtype)
        if v.op not in TABLE:
            raise InternalError(f"{v!r} cannot be read back")
        return apply_row(TABLE[v.op], args)

    def _load(self, a: Access) -> E:
        idx = tuple(map(self.index, a.indices))
        if isinstance(a.buffer, Fill):
            return load_or_zero(a.buffer.tensor, *map(self.index, a.buffer.lead), *idx)
        t = a.tensor if a.tensor is not None else written(a.output, a.shape, a.dtype)
        return (load if a.proved else load_or_zero)(t, *idx)

    def _buffer(self, f: Fill) -> RowBuffer:
        assert f.body is not None
        trail = tuple(ix(x.var) if x is not None else ix(0) for x in f.loops)
        cut = tuple(self.cuts[x] for x in f.loops if x is not None)
        return RowBuffer(f.tensor, tuple(map(self.index, f.lead)), trail, self.known[f.body], cut)


__all__ = ["ReadBack"]
