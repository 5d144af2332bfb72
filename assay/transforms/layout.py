"""Layout of intermediates: a temporary that is only read transposed is written transposed.

Inputs and outputs have a fixed layout and are never changed; a temporary is flexible (section 6.4).
"""

from __future__ import annotations

from assay.core.index import Ix
from assay.core.lang import (
    LOADS,
    E,
    Program,
    T,
    axes,
    bodies,
    load_as,
    order,
    program,
    rewrite_tensor,
    substitute,
    tensor,
    walk,
)
from assay.transforms.contract import bitwise, transform
from assay.transforms.rewrite import checks, must_realise


@transform(contract=bitwise)
def choose_layout(program: Program) -> Program:
    """A temporary whose readers all run fastest along one other axis has that axis moved last.

        t[i:4,j:6] = exp(x[i,j])                       t[j:6,i:4] = exp(x[i,j])
        z[j:6,i:4] = mul(t[i,j], 2)              ->    z[j:6,i:4] = mul(t[j,i], 2)
    """
    fixed = must_realise(program)
    last = fastest_axes(program)
    moved = {t: k for t, k in last.items() if t.kind == "let" and t not in fixed and k is not None and k != len(t.shape) - 1}
    return _with_last_axis(program, moved) if moved else program


def fastest_axes(p: Program) -> dict[T, int | None]:
    """For each tensor that is read, the axis along which every reader runs fastest; None where they differ or one has none."""
    found: dict[T, set[int | None]] = {}
    for reader in p.tensors:
        if reader.kind != "let" or not reader.shape:
            for t in reader.reads:
                found.setdefault(t, set()).add(None)
            continue
        inner = axes(reader.shape)[-1]
        for e in walk(bodies(reader)):
            if e.op in LOADS:
                t, idx = e.attr
                where = [k for k, i in enumerate(idx) if inner in i.free]
                one = len(where) == 1 and (inner, 1) in idx[where[0]].terms
                found.setdefault(t, set()).add(where[0] if one else None)
    return {t: ways.pop() if len(ways) == 1 else None for t, ways in found.items()}


def _with_last_axis(p: Program, last: dict[T, int]) -> Program:
    new: dict[T, T] = {}

    def permuted(idx: tuple[Ix, ...], k: int) -> tuple[Ix, ...]:
        return (*idx[:k], *idx[k + 1 :], idx[k])

    def on_load(t: T, idx: tuple[Ix, ...], how: str) -> E | None:
        made = new[t]
        if made is t and t not in last:
            return None
        where = permuted(idx, last[t]) if t in last else idx
        return load_as(how, made, *where)

    for t in order(p.roots):
        made = rewrite_tensor(t, on_load, new.__getitem__)
        if t in last:
            made = _move_last(made, last[t])
        new[t] = made
    return program(p.inputs, [new[t] for t in p.outputs], checks(p, new), p.name, p.guards)


def _move_last(t: T, k: int) -> T:
    shape = (*t.shape[:k], *t.shape[k + 1 :], t.shape[k])
    return tensor(shape, lambda *i: substitute(t.body, dict(zip(axes(t.shape), (*i[:k], i[-1], *i[k:-1]), strict=True))))
