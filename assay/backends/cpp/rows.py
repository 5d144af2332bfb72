"""Named rows (exp, tanh, ...) as C++ functions: printed once for all their uses, over all the copies of a value.

    AI void tanh_f32v_3(F x0_0,F x0_1,F x0_2,F&y0,F&y1,F&y2){...}    opened where it is used: its copies interleave
    static F tanh_f32v(F x0_0){...}                                       called, one copy at a time

A call costs a few cycles and keeps the code short, which g++ is slow to translate: a value that is seldom computed is called.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING

from assay.backends.cpp.spell import TYPES
from assay.backends.legality import Rep
from assay.backends.placement import Placement, Value, composition
from assay.backends.plan import Kernel, Schedule
from assay.backends.target import Target
from assay.core.dtypes import DType
from assay.core.index import ix
from assay.core.lang import input as tensor_input
from assay.core.lang import load, op, tensor
from assay.core.row import NAMED, TABLE
from assay.core.sizes import hint

if TYPE_CHECKING:
    from assay.backends.cpp.values import Printer

CALLED = 5.0  # executions of a called row that cost as much as g++ takes for one line more, over the life of the code


def is_named(v: Value) -> bool:
    """Whether the value is a named row, to be printed by `print_row`."""
    r = TABLE.get(v.op)
    return r is not None and r.kind == NAMED


def print_row(p: Printer, v: Value) -> tuple[list[str], bool]:
    """Print the statements that compute every copy of the named row `v`; the names of the copies, whether they are vectors."""
    reps, vector = p.form(v)
    columns = [p.texts(a, reps, vector=vector) for a in v.args]
    names = [p.name("t") for _ in p.coordinates(reps)]
    kind, types = p.type(v, vector=vector), tuple(a.dtype for a in v.args)
    executed = p.share * math.prod(hint(x.n) for x in v.varies | v.within) / (p.lanes if vector else 1)
    if executed < CALLED * len(composition(v.op, types)) * len(names):
        function = _function(p, v.op, types, vector=vector, copies=0)
        p.block.lines += [f"{kind} {t}={function}({','.join(row)});" for t, *row in zip(names, *columns, strict=True)]
    else:
        function = _function(p, v.op, types, vector=vector, copies=len(names))
        arguments = [text for column in columns for text in column]
        p.block.lines += [f"{kind} {','.join(names)};{function}({','.join([*arguments, *names])});"]
    return names, vector


def _function(p: Printer, name: str, types: tuple[DType, ...], *, vector: bool, copies: int) -> str:
    """The name of the function, whose text is then among the rows of `p`; copies 0: to be called."""
    function = f"{name}_{'_'.join(d.name for d in types)}{'v' if vector else ''}{f'_{copies}' if copies else ''}"
    if function not in p.rows:
        p.rows[function] = _text(function, name, types, p.target, vector, copies)
    return function


@cache
def _text(function: str, name: str, types: tuple[DType, ...], target: Target, vector: bool, copies: int) -> str:  # noqa: FBT001
    """The definition of the function: the composition printed for a loop of its own, whose loads are the parameters."""
    from assay.backends.cpp.values import Block, Names, Printer

    side, lanes = max(1, copies), target.lanes if vector else 1
    shape = (2 * side * lanes,)  # an axis of one element would be no loop
    inputs = [tensor_input(f"argument {k}", shape, d) for k, d in enumerate(types)]
    t = tensor(shape, lambda i: op(name, *(load(x, i) for x in inputs)))
    placement = Placement(Kernel((t,)), open_rows=True)
    p = Printer(placement, Schedule(), target, {}, [])
    (loop,) = placement.loops
    outer, inner = Block(None), Block(None, (loop,))
    inner.parent = outer
    p.block = inner
    lane = ix(p.lane) if vector else ix(0)
    (store,) = placement.stores
    with p.loop(loop, [q * lanes + lane for q in range(side)], Rep(side, lanes)):
        reps, vector = (loop,) if side > 1 else (), vector
        parameters: list[str] = []
        for k, x in enumerate(inputs):
            names = [f"x{k}_{q}" for q in range(side)]
            kind = TYPES[x.dtype].vector if vector else TYPES[x.dtype].register
            parameters += [f"{kind} {n}" for n in names]
            inner.names.update((v, Names(reps, names, vector)) for v in placement.loads if v.attr.tensor is x)
        p.compute((store.value,))
        results = p.texts(store.value, reps, vector=vector)
        kind = p.type(store.value, vector=vector)
    body = "\n".join([*outer.lines, *inner.lines])
    if not copies:
        return f"static __attribute__((noinline)) {kind} {function}({','.join(parameters)}){{\n{body}\nreturn {results[0]};}}\n"
    parameters += [f"{kind}&y{q}" for q in range(side)]
    return f"AI void {function}({','.join(parameters)}){{\n{body}\n{''.join(f'y{q}={r};' for q, r in enumerate(results))}}}\n"
