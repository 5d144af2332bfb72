"""Printing folds and scans: accumulators are variables, the steps a loop.

"rowvec" keeps the order exactly: the terms of W neighbouring steps are computed in lanes and stored, then the
recurrence runs through the lanes one by one.
"""

from __future__ import annotations

from collections.abc import Callable

from assay.backends.cpp.spell import TYPES
from assay.backends.cpp.values import Block, Names, Printer
from assay.backends.legality import Rep, in_rows
from assay.backends.placement import Fold, Loop, Value
from assay.core import dtypes as dt
from assay.core.index import ix


def print_fold(p: Printer, v: Value) -> None:
    """Print the fold `v` into the current block and name its results."""
    f: Fold = v.attr
    block = p.block
    p.compute(f.inits)
    accs = declare(p, v)
    if (carry := p.carries.get(v)) is not None:
        _loop(p, f, accs, 0, f.loop.n, bounds=(carry.lo, carry.hi))
    elif p.schedule.fold == "rowvec" and not accs[0].vector and in_rows(f, p.lanes):
        _rows(p, f, accs)
    else:
        _loop(p, f, accs, 0, f.loop.n)
    block.names[v], block.results[v] = accs[0], accs


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


def _loop(p: Printer, f: Fold, accs: list[Names], start: int, n: int, bounds: tuple[str, str] | None = None,
          each: Callable[[str], None] | None = None) -> None:  # fmt: skip
    """Steps start .. start+n-1 in order (those of `bounds`, C++ texts, when given); `each(counter)` prints before a step."""
    outer = p.block
    counter, name = p.counter(n, "r")
    with p.inside(Block(outer, (f.loop,))) as inner, p.loop(f.loop, [counter + start]):
        inner.names.update(zip(f.accs, accs, strict=True))
        if each is not None:
            each(name)
        _step(p, f, accs)
    lo, hi = bounds or ("0", str(n))
    outer.lines += [f"for(long {name}={lo};{name}<{hi};{name}++){{", *inner.lines, "}"]


def _step(p: Printer, f: Fold, accs: list[Names]) -> None:
    """Print one step into the current block: all new values, then the assignments."""
    p.compute(f.steps)
    assigned = []
    for a, names, step in zip(f.accs, accs, f.steps, strict=True):
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


def _rows(p: Printer, f: Fold, accs: list[Names]) -> None:
    """The terms of W steps in lanes, then the recurrence lane by lane; what is left over runs as a plain loop."""
    outer, w = p.block, p.lanes
    whole = f.loop.n // w
    counter, name = p.counter(whole, "r")
    with p.inside(Block(outer, (f.loop,))) as inner:
        with p.loop(f.loop, [counter * w + ix(p.lane)], Rep(1, w)):
            held = _hold_terms(p, f, inner)
        lane, lane_name = p.counter(w, "l")
        with p.inside(Block(inner, (f.loop,))) as steps, p.loop(f.loop, [counter * w + lane]):
            for term, (reps, names) in held.items():
                suffix = "!=0" if term.dtype is dt.bool_ else ""
                steps.names[term] = Names(reps, [f"{n}[{lane_name}]{suffix}" for n in names], False)
            steps.names.update(zip(f.accs, accs, strict=True))
            _step(p, f, accs)
        inner.lines += [f"#pragma GCC unroll {w}", f"for(long {lane_name}=0;{lane_name}<{w};{lane_name}++){{", *steps.lines, "}"]
    outer.lines += [f"for(long {name}=0;{name}<{whole};{name}++){{", *inner.lines, "}"]
    if f.loop.n % w:
        _loop(p, f, accs, whole * w, f.loop.n % w)


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
    inside = all(0 <= i.lo and i.hi < n for i, n in zip(t.attr.indices, t.attr.shape, strict=True))
    loops = [p.loop_of.get(a) for a, _ in flat.terms]  # type: ignore[call-overload]
    return inside and t.args == () and None not in loops


def print_scan(p: Printer, v: Value, store: Callable[[list[Names], str], None]) -> None:
    """Print a scan into the current block: `store(accumulators, step)` before each step and after the last."""
    f: Fold = v.attr
    p.compute(f.inits)
    accs = declare(p, v)
    _loop(p, f, accs, 0, f.loop.n, each=lambda at: store(accs, at))
    store(accs, str(f.loop.n))
