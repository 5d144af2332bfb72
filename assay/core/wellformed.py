"""The whole-program check: what lang's constructors promise locally, asked again of a finished program.

Run by tests and after every pass.  Nodes are immutable and interned, so each is checked once in a process.
What is checked: element types against the rows of the scalar table, ranks, sizes, free variables, the canonical level
of every bound variable, accumulators inside the steps of their fold, inductive ranges, index expressions in normal form,
the fields of require, scan, scatter and extern, and that a tensor reads only what exists before it.
"""

from __future__ import annotations

from collections.abc import Iterator

from assay.core import dtypes as dt
from assay.core.errors import AssayError, InternalError
from assay.core.index import Div, Ix, Quotient, Val, Var, factors, floordiv, ix, rewrite, within
from assay.core.lang import LOADS, E, Program, T, accumulators, as_index, axes, bodies, const_bits, order, walk
from assay.core.row import TABLE
from assay.core.text import Names, domain, lines

_good_nodes: dict[E, frozenset[E]] = {}  # node -> the accumulators it uses without binding them
_good_tensors: set[T] = set()


def check(program: Program) -> Program:
    """`program`, if it is well formed.  Raises InternalError that shows it, with the offending line marked."""
    known = set(program.inputs)
    before: set[T] = set(program.inputs)
    for t in order(program.roots):
        if t.kind == "input" and t not in known:
            _fail(program, t, f"the input {t!r} is not declared")
        if t not in _good_tensors:
            for fault in faults(t):
                _fail(program, t, fault)
            _good_tensors.add(t)
        if not t.reads <= before:
            _fail(program, t, f"reads {sorted(map(repr, t.reads - before))}, which are not defined before it")
        before.add(t)
    for t in program.effects:
        if t.kind != "require":
            _fail(program, t, f"an effect is a require, not a {t.kind}")
    return program


def _fail(program: Program, t: T, fault: str) -> None:
    shown = [("> " if where is t else "  ") + line for where, line in lines(program, definition=_definition)]
    raise InternalError(f"the program is not well formed: {fault}\n" + "\n".join(shown))


def _definition(names: Names, t: T) -> list[str]:
    """The lines that define `t`; the bare nodes where it is too broken to be printed."""
    try:
        return names.definition(t)
    except (AssayError, KeyError, IndexError):
        return [f"{names.of[t]} {t!r} = {', '.join(map(_short, bodies(t)))}"]


def faults(t: T) -> Iterator[str]:
    """What is wrong with the tensor `t` itself."""
    if any(type(n) is int and n < 0 for n in t.shape):
        yield f"negative size in the shape {list(t.shape)}"
    reads: frozenset[T] = frozenset()
    for e in bodies(t):
        for node in walk((e,)):
            if node not in _good_nodes:
                for fault in _node_faults(node):
                    yield f"{fault}, in {_short(node)}"
                _good_nodes[node] = _unbound(node)
        if _good_nodes[e]:
            yield f"the accumulators {sorted(map(repr, _good_nodes[e]))} occur outside of the steps of their fold"
        if not e.free <= frozenset(axes(domain(t))):
            yield f"depends on variables that are not its axes {list(domain(t))}: {_short(e)}"
        reads |= e.reads
    yield from _tensor_faults(t, reads)


def _short(e: E) -> str:
    text = repr(e)
    return text if len(text) <= 200 else text[:200] + " ..."


def _tensor_faults(t: T, reads: frozenset[T]) -> Iterator[str]:
    if t.kind == "input":
        return
    if t.kind in ("let", "require"):
        if t.dtype is not t.body.dtype:
            yield f"type {t.dtype.name} with a body of type {t.body.dtype.name}"
    if t.kind == "require":
        if t.cond.dtype is not dt.bool_:
            yield f"the condition has type {t.cond.dtype.name}, not bool"
        if t.lo < t.body.lo or t.hi > t.body.hi:
            yield f"the stated range {t.lo}..{t.hi} is wider than the body's {t.body.lo}..{t.body.hi}"
    elif t.kind == "scan":
        if t.body.op != "fold" or not 0 <= t.k < len(t.body.args) // 2:
            yield f"scans accumulator {t.k} of {_short(t.body)}"
        elif ix(t.shape[t.axis]) is not ix(t.body.attr.n) + 1 or t.dtype is not t.body.args[t.k].dtype:
            yield f"a scan of {t.body.attr.n} steps has {t.shape[t.axis]} states of type {t.dtype.name}"
    elif t.kind == "scatter":
        reads |= t.base.itself
        if (
            t.shape != t.base.shape
            or len(t.indices) != len(t.shape)
            or t.dtype is not t.base.dtype
            or t.dtype is not t.body.dtype
        ):
            yield f"scatters {t.body.dtype.name} at {len(t.indices)} indices into {t.base!r}"
        if t.combine is not None and (t.combine not in TABLE or TABLE[t.combine].arity != 2):
            yield f"combines with {t.combine!r}, which is no function of two arguments"
        for i in t.indices:
            yield from _index_faults(i)
            if not i.free <= frozenset(axes(t.domain)):
                yield f"the index {i!r} depends on more than the axes of the updates {list(t.domain)}"
    elif t.kind == "extern":
        reads |= frozenset(t.args)
        if not t.dtype.is_float and not t.dtype.lo <= t.lo <= t.hi <= t.dtype.hi:
            yield f"the stated range {t.lo}..{t.hi} is not one of {t.dtype.name}"
    elif t.kind != "let":
        yield f"unknown kind {t.kind!r}"
    if reads != t.reads:
        yield f"declares to read {sorted(map(repr, t.reads))}, but reads {sorted(map(repr, reads))}"


# ------------------------------------------------------------------------------------------------ expressions


def _node_faults(e: E) -> Iterator[str]:
    if any(a.id >= e.id for a in e.deps):
        yield "an argument was made after its user"
    if not e.dtype.is_float and not e.dtype.lo <= e.lo <= e.hi <= e.dtype.hi:
        yield f"the range {e.lo}..{e.hi} is not one of {e.dtype.name}"
    if e.op == "const":
        if const_bits(e.attr, e.dtype) is not e:
            yield f"the bits {e.attr:#x} are not the canonical constant of {e.dtype.name}"
    elif e.op in LOADS:
        yield from _load_faults(e)
    elif e.op == "idx":
        yield from _index_faults(e.attr)
        interval = (0, 0) if e.dtype.is_float and e.attr.is_extent else (e.attr.lo, e.attr.hi)
        if interval != (e.lo, e.hi) or not (e.dtype.is_integer or e.attr.is_extent) or e.free != e.attr.free:
            yield f"an index in {e.attr.lo}..{e.attr.hi} as a value of type {e.dtype.name} in {e.lo}..{e.hi}"
    elif e.op == "acc":
        if e.free != e.attr[0].free:
            yield "an accumulator depends on its loop variable"
    elif e.op == "fold":
        yield from _fold_faults(e)
    elif e.op == "proj":
        fold, half = e.args[0], len(e.args[0].args) // 2
        if fold.op != "fold" or half < 2 or not 0 <= e.attr < half or fold.args[e.attr].dtype is not e.dtype:
            yield f"accumulator {e.attr} of a fold of {half}"
    elif e.op == "convert":
        half = e.dtype.is_half or e.args[0].dtype.is_half
        if e.dtype is dt.bool_ or e.args[0].dtype is e.dtype or (half and dt.f32 not in (e.dtype, e.args[0].dtype)):
            yield f"no conversion from {e.args[0].dtype.name} to {e.dtype.name}"
    elif e.op == "bitcast":
        if e.dtype.bits != e.args[0].dtype.bits or e.dtype.is_float == e.args[0].dtype.is_float:
            yield f"no bitcast from {e.args[0].dtype.name} to {e.dtype.name}"
    else:
        yield from _row_faults(e)
    if e.args and e.op != "fold" and e.free != frozenset[Var]().union(*(a.free for a in e.args)):
        yield "the free variables are not those of the arguments"


def _row_faults(e: E) -> Iterator[str]:
    r = TABLE.get(e.op)
    if r is None or r.kind == "derived":
        yield f"{e.op!r} is not a node of the scalar table"
    elif len(e.args) != r.arity:
        yield f"{e.op} of {len(e.args)} arguments; it takes {r.arity}"
    else:
        types = ", ".join(a.dtype.name for a in e.args)
        try:
            dtype = r.types(*(a.dtype for a in e.args))
        except AssayError as error:
            yield f"{e.op}({types}): {error}"
        else:
            if dtype is not e.dtype:
                yield f"{e.op}({types}) has type {dtype.name}, not {e.dtype.name}"


def _load_faults(e: E) -> Iterator[str]:
    t, idx = e.attr
    if len(idx) != len(t.shape) or e.dtype is not t.dtype:
        yield f"{len(idx)} indices and type {e.dtype.name} for {t!r}"
    for i in idx:
        yield from _index_faults(i)
    if e.op == "load_or_zero" and all(within(i, n) for i, n in zip(idx, t.shape, strict=False)):
        yield "a load_or_zero that is always inside is a load"
    if e.free != frozenset[Var]().union(*(i.free for i in idx)):
        yield "the free variables are not those of the indices"
    if not t.itself <= e.reads:
        yield "reads without saying so"


def _fold_faults(e: E) -> Iterator[str]:
    half = len(e.args) // 2
    inits, steps = e.args[:half], e.args[half:]
    v: Var = e.attr
    if len(e.args) % 2 or not half or [x.dtype for x in inits] != [x.dtype for x in steps] or e.dtype is not inits[0].dtype:
        yield f"inits of types {[x.dtype for x in inits]}, steps of types {[x.dtype for x in steps]}"
        return
    if type(v.n) is int and v.n < 2:
        yield f"a fold of {v.n} steps"
    if any(v in x.free for x in inits) and v.level == 1 + max((u.level for x in inits for u in x.free), default=-1):
        yield f"the loop variable {v!r} occurs in an init"
    free = frozenset[Var]().union(*(x.free for x in e.args)) - v.free
    if e.free != free or v.level != 1 + max((u.level for u in free), default=-1):
        yield f"the loop variable {v!r} is not named canonically: the free variables are {sorted(map(repr, free))}"
    accs = accumulators(e)
    used = frozenset[E]().union(*(_good_nodes.get(x, frozenset()) for x in steps))
    for a in used:
        if a.attr[0] is v and a not in accs:
            yield f"{a!r} in {a.lo}..{a.hi} is not an accumulator of this fold"
    for a, init, step in zip(accs, inits, steps, strict=True):
        if a in used and not a.dtype.is_float and not (a.lo <= min(init.lo, step.lo) and max(init.hi, step.hi) <= a.hi):
            yield f"the range {a.lo}..{a.hi} of {a!r} is not kept: init {init.lo}..{init.hi}, step {step.lo}..{step.hi}"


def _unbound(e: E) -> frozenset[E]:
    if e.op == "acc":
        return frozenset((e,))
    found = [s for d in e.deps if (s := _good_nodes[d])]
    if not found:
        return frozenset()
    if e.op != "fold":
        return found[0].union(*found[1:])
    half = len(e.args) // 2
    inits = frozenset[E]().union(*(_good_nodes[x] for x in e.args[:half]))
    steps = frozenset[E]().union(*(_good_nodes[x] for x in e.args[half:]))
    return inits | {a for a in steps if a.attr[0] is not e.attr}


# ------------------------------------------------------------------------------------------------ indices


def _index_faults(i: Ix) -> Iterator[str]:
    if any(k == 0 for _, k in i.terms) or [a.key for a, _ in i.terms] != sorted(a.key for a, _ in i.terms):
        yield f"the terms of the index {i!r} are not in order"
    for a in (a for term, _ in i.terms for a in factors(term)):
        if isinstance(a, Var) and type(a.n) is int and a.n == 1:
            yield f"the variable {a!r} of size 1 is the index 0"
        elif isinstance(a, Val) and (not a.e.dtype.is_integer or as_index(a.e).terms != ((a, 1),)):
            yield f"the value {_short(a.e)} in an index is not in normal form"
        elif isinstance(a, Div | Quotient):
            yield from _index_faults(a.e)
            if floordiv(a.e, a.c).terms != ((a, 1),):
                yield f"the division {a!r} in an index is not in normal form"
    if rewrite(i, lambda a: ix(a) if isinstance(a, Var) else as_index(a.e)) is not i:
        yield f"the index {i!r} is not in normal form"
