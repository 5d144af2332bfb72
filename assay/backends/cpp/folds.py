"""Printing folds and scans: accumulators are variables, the steps a loop.

"rowvec" keeps the order exactly: the terms of W neighbouring steps are computed in lanes and stored, then the
recurrence runs through the lanes one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from assay.backends.cpp.spell import TYPES
from assay.backends.cpp.values import Block, Names, Printer, extent_text
from assay.backends.legality import Rep, in_rows
from assay.backends.placement import Fold, Loop, Value
from assay.core import dtypes as dt
from assay.core.index import is_symbolic, ix, same_shape, within


def print_folds(p: Printer, vs: list[Value]) -> None:
    """Print folds that can share a loop (see `joinable`) into the current block and name their results."""
    block = p.block
    folds: list[tuple[Fold, list[Names]]] = []
    for v in vs:
        p.compute(v.attr.inits)
        folds.append((v.attr, declare(p, v)))
    n = folds[0][0].loop.n
    if (carry := p.carries.get(vs[0])) is not None:
        _loop(p, folds, 0, n, bounds=(carry.lo, carry.hi))
    elif _by_rows(p, vs[0]):
        _rows(p, folds)
    else:
        _loop(p, folds, 0, n)
    for v, (_, accs) in zip(vs, folds, strict=True):
        block.names[v], block.results[v] = accs[0], accs


def joinable(p: Printer, v: Value, others: list[Value]) -> list[Value]:
    """The folds among `others` that run in one loop with `v`: as long, in the same loops, none needing another's result.

    What both read is loaded once.  Each accumulator sees its own steps in its own order, so no bit changes.
    """
    found = [v]
    room = p.target.registers - 4 - _accumulators(p, v)
    for u in others:
        alike = same_shape((u.attr.loop.n,), (v.attr.loop.n,)) and u.within == v.within and p.form(u)[1] == p.form(v)[1]
        if not alike or _by_rows(p, u) != _by_rows(p, v) or (u in p.carries) != (v in p.carries):
            continue
        if any(w in p.needs(u) or u in p.needs(w) for w in found) or _accumulators(p, u) > room:
            continue
        room -= _accumulators(p, u)
        found.append(u)
    return found


def _by_rows(p: Printer, v: Value) -> bool:
    return v not in p.carries and p.schedule.fold == "rowvec" and not p.form(v)[1] and in_rows(v.attr, p.lanes)


def _accumulators(p: Printer, v: Value) -> int:
    return len(p.coordinates(p.form(v)[0])) * len(v.attr.accs)


def declare(p: Printer, v: Value) -> list[Names]:
    """Declare the accumulators of a fold, holding their first values."""
    f: Fold = v.attr
    reps, vector = p.reps(v), p.vector(v)
    accs = []
    for a, init in zip(f.accs, f.inits, strict=True):
        texts = p.texts(init, reps, vector=vector, width=32 if a.dtype is dt.bool_ else 0)
        kind = TYPES[a.dtype].vector if vector else TYPES[a.dtype].register
        names = [p.name("a") for _ in texts]
        if (carry := p.carries.get(v)) is not None:
            at = p.coordinates(reps)
            old = [p.load_at(p.outputs[carry.output], a.dtype, p.index(carry.flat, c), [], c, vector=vector)[0] for c in at]
            texts = [f"{carry.first}?{new}:{held}" for held, new in zip(old, texts, strict=True)]
        p.block.lines.extend(f"{kind} {n}={t};" for n, t in zip(names, texts, strict=True))
        accs.append(Names(reps, names, vector))
    return accs


def _loop(p: Printer, folds: list[tuple[Fold, list[Names]]], start: int, n: int, bounds: tuple[str, str] | None = None,
          each: Callable[[str], None] | None = None) -> None:  # fmt: skip
    """Steps start .. start+n-1 in order (those of `bounds`, C++ texts, when given); `each(counter)` prints before a step."""
    outer = p.block
    counter, name = p.counter(n, "r")
    with ExitStack() as stack:
        inner = stack.enter_context(p.inside(Block(outer, [f.loop for f, _ in folds])))
        for f, accs in folds:
            stack.enter_context(p.loop(f.loop, [counter + start]))
            inner.names.update(zip(f.accs, accs, strict=True))
        if each is not None:
            each(name)
        _step(p, folds)
    lo, hi = bounds or ("0", extent_text(n))
    outer.lines += [f"for(long {name}={lo};{name}<{hi};{name}++){{", *inner.lines, "}"]


def _step(p: Printer, folds: list[tuple[Fold, list[Names]]]) -> None:
    """Print one step into the current block: all new values, then the assignments."""
    p.compute([step for f, _ in folds for step in f.steps])
    assigned = []
    for f, a, names, step in [(g, *row) for g, accs in folds for row in zip(g.accs, accs, g.steps, strict=True)]:
        if step is a:
            continue
        texts = p.texts(step, names.reps, vector=names.vector, width=32 if a.dtype is dt.bool_ else 0)
        if step in f.accs:  # accumulators change places
            kind = TYPES[a.dtype].vector if names.vector else TYPES[a.dtype].register
            held = [p.name("t") for _ in texts]
            p.block.lines.extend(f"{kind} {h}={t};" for h, t in zip(held, texts, strict=True))
            texts = held
        assigned += [f"{n}={t};" for n, t in zip(names.texts, texts, strict=True)]
    p.block.lines += assigned


def _rows(p: Printer, folds: list[tuple[Fold, list[Names]]]) -> None:
    """The terms of W steps in lanes, then the recurrence lane by lane; what is left over runs as a plain loop."""
    outer, w = p.block, p.lanes
    n = folds[0][0].loop.n
    loops = [f.loop for f, _ in folds]
    whole = n // w
    counter, name = p.counter(whole, "r")
    with p.inside(Block(outer, loops)) as inner:
        held: dict[Value, tuple[tuple[Loop, ...], list[str]]] = {}
        with ExitStack() as stack:
            for loop in loops:
                stack.enter_context(p.loop(loop, [counter * w + ix(p.lane)], Rep(1, w)))
            for f, _ in folds:
                held.update(_hold_terms(p, f, inner))
        lane, lane_name = p.counter(w, "l")
        with ExitStack() as stack:
            steps = stack.enter_context(p.inside(Block(inner, loops)))
            for f, accs in folds:
                stack.enter_context(p.loop(f.loop, [counter * w + lane]))
                steps.names.update(zip(f.accs, accs, strict=True))
            for term, (reps, names) in held.items():
                cast, suffix = ("(", "!=0)") if term.dtype is dt.bool_ else (f"({TYPES[term.dtype].register})", "")
                steps.names[term] = Names(reps, [f"{cast}{n}[{lane_name}]{suffix}" for n in names], False)
            _step(p, folds)
        inner.lines += [f"#pragma GCC unroll {w}", f"for(long {lane_name}=0;{lane_name}<{w};{lane_name}++){{", *steps.lines, "}"]
    outer.lines += [f"for(long {name}=0;{name}<{extent_text(whole)};{name}++){{", *inner.lines, "}"]
    if is_symbolic(n) or n % w:
        _loop(p, folds, whole * w, n - whole * w)


def _hold_terms(p: Printer, f: Fold, block: Block) -> dict[Value, tuple[tuple[Loop, ...], list[str]]]:
    """Compute the terms that vary with the fold in lanes, and store them: an array for each copy."""
    terms = [t for t in f.terms if f.loop in t.varies and not _is_row(p, t)]
    p.compute(terms)
    held: dict[Value, tuple[tuple[Loop, ...], list[str]]] = {}
    for t in terms:
        names = p.names(t)
        kind = TYPES[t.dtype]
        memory = {"I": "int", "F": "float", "L": "long", "D": "double"}[kind.vector]
        arrays = []
        for text in p.texts(t, names.reps, vector=True, width=32 if t.dtype is dt.bool_ else 0):
            arrays.append(p.name("v"))
            block.lines.append(f"{memory} {arrays[-1]}[{p.lanes}] __attribute__((aligned({p.target.bytes})));")
            block.lines.append(f"st{kind.vector}({arrays[-1]},{text});")
        held[t] = names.reps, arrays
    return held


def _is_row(p: Printer, t: Value) -> bool:
    """Whether the term is a load of neighbouring elements: the recurrence then reads them from memory itself."""
    if t.op != "load" or t.attr.buffer is not None or t.dtype is dt.bool_:
        return False
    flat = t.attr.flat
    inside = all(map(within, t.attr.indices, t.attr.shape))
    loops = [p.loop_of.get(a) for a, _ in flat.terms]  # type: ignore[call-overload]
    return inside and t.args == () and None not in loops


def print_scan(p: Printer, v: Value, store: Callable[[list[Names], str], None]) -> None:
    """Print a scan into the current block: `store(accumulators, step)` before each step and after the last."""
    f: Fold = v.attr
    p.compute(f.inits)
    accs = declare(p, v)
    _loop(p, [(f, accs)], 0, f.loop.n, each=lambda at: store(accs, at))
    store(accs, extent_text(f.loop.n))
