"""A hash of what a value computes, whatever the indices, the order of loops, and the lets it is spread over.

Equal values that were inlined or re-indexed have equal skeletons, as a rule.  It decides only which lemma is tried: no claim
rests on it.
"""

from __future__ import annotations

from assay.core.lang import LOADS, E, T, order
from assay.core.row import MARKS

_of: dict[E, int] = {}
_forms: dict[E, int] = {}
_inputs: dict[T, frozenset[str]] = {}


def skeleton(e: E) -> int:
    """The skeleton of an expression.  Integers turn into index arithmetic and back: of them, only what they read stays."""
    todo = [e]
    while todo:
        x = todo[-1]
        if x in _of:
            todo.pop()
            continue
        missing = [y for y in _parts(x) if y not in _of]
        if missing:
            todo += missing
            continue
        todo.pop()
        _of[x] = _combine(x)
    return _of[e]


def form(e: E) -> int:
    """A hash of the operations and constants that an integer is computed by, whatever the indices; narrower than the skeleton.

    Equal integers need not have equal forms; of several that an integer may be equal to, one of its form is tried first.
    """
    todo = [e]
    while todo:
        x = todo[-1]
        below = (x.attr[0].body,) if x.op in LOADS and x.attr[0].kind in ("let", "require") else x.args
        missing = [y for y in below if y not in _forms]
        if missing:
            todo += missing
            continue
        todo.pop()
        if x.op in LOADS:
            _forms[x] = _forms[below[0]] if below else hash(("load", x.dtype.code))
        else:
            _forms[x] = hash((x.op, x.dtype.code, x.attr if x.op == "const" else 0, *(_forms[y] for y in below)))
    return _forms[e]


def _parts(e: E) -> tuple[E, ...]:
    """The expressions whose skeletons that of `e` is made of."""
    if not e.dtype.is_float:
        return ()
    return _bodies(e.attr[0]) if e.op in LOADS else e.args


def _bodies(t: T) -> tuple[E, ...]:
    if t.kind in ("let", "require", "scan"):
        return (t.body,)
    if t.kind == "scatter":
        return (t.body, *_bodies(t.base))
    return tuple(b for a in t.args for b in _bodies(a)) if t.kind == "extern" else ()


def _combine(e: E) -> int:
    if not e.dtype.is_float:
        return hash(("integer", frozenset[str]().union(*map(inputs, e.reads))))
    if e.op in LOADS:
        t: T = e.attr[0]
        if t.kind in ("let", "require"):
            return _of[t.body]
        return hash((t.kind, *(_of[b] for b in _bodies(t)), *sorted(inputs(t))))
    if e.op in MARKS:
        return _of[e.args[0]]
    if e.op in ("const", "acc"):
        return hash((e.op, e.attr if e.op == "const" else e.attr[1]))
    return hash((e.op, e.dtype.code, tuple([_of[a] for a in e.args])))


def inputs(t: T) -> frozenset[str]:
    """The names of the inputs that the tensor depends on."""
    if t not in _inputs:
        for x in order((t,)):
            if x not in _inputs:
                own = frozenset((x.name,)) if x.kind == "input" else frozenset[str]()
                _inputs[x] = own.union(*(_inputs[r] for r in x.reads))
    return _inputs[t]


__all__ = ["form", "inputs", "skeleton"]
