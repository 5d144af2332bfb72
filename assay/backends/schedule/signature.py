"""What a kernel looks like, whatever its tensors are called: equal signatures have equal schedules and modelled times."""

from __future__ import annotations

from typing import Any

from assay.backends.schedule.summary import loop_shape
from assay.core import lang
from assay.core.index import Div, Ix, Val, values
from assay.core.lang import LOADS, E, T

Local = tuple[tuple[T, int], ...]


def signature(tensors: tuple[T, ...], local: Local) -> tuple[Any, ...]:
    """Operations, types, indices and shapes; tensors are numbered as they are met, constants have no value."""
    leads = dict(local)
    number: dict[T, int] = {}
    node: dict[E, int] = {}
    found: list[Any] = []

    def tensor(t: T) -> int:
        k = number.get(t)
        if k is None:
            k = number[t] = len(number)
            found.append((t.shape, t.dtype.code, leads.get(t)))
        return k

    def index(i: Ix) -> Any:
        if not any(True for _ in values(i)):
            return i
        return i.c, i.lo, i.hi, tuple((atom(a), k) for a, k in i.terms)

    def atom(a: Any) -> Any:
        if isinstance(a, Val):
            return node[a.e]
        return (index(a.e), a.c) if isinstance(a, Div) else a

    for t in tensors:
        found.append((t.kind, t.shape, loop_shape(t), t.dtype.code))
    for t, _ in local:
        tensor(t)
    for e in lang.walk([b for t in (*tensors, *leads) for b in lang.bodies(t)]):
        node[e] = len(node)
        if e.op in LOADS:
            t, idx = e.attr
            found.append((e.op, tensor(t), tuple(map(index, idx))))
        elif e.op == "idx":
            found.append((e.dtype.code, index(e.attr)))
        elif e.op == "const":
            found.append(e.dtype.code)
        else:
            attr = e.attr[:2] if e.op == "acc" else e.attr
            found.append((e.op, e.dtype.code, attr, tuple([node[a] for a in e.args])))
    for t in tensors:
        if t.kind == "scatter":
            found.append((tensor(t.base), t.combine, tuple(map(index, t.indices))))
        elif t.kind == "scan":
            found.append((t.axis, t.k))
        if t.kind != "input":
            found.append(tuple(node[b] for b in lang.bodies(t)))
    found.extend(node[b] for t in leads for b in lang.bodies(t))
    return tuple(found)
