"""The core language: scalar expressions E, tensors T, programs.  Its executable meaning is semantics/denote.py.

    E = const(bits) | load(T, Ix...) | idx(Ix) | acc | fold(n; inits; steps) | proj(fold, k) | scalar function(E...)
    T = input | let(shape, E) | require(shape, E, cond) | scan(E) | scatter(T, domain, Ix..., E) | extern(name, T...)
    Program = inputs, outputs, effects

Nodes are frozen and interned: equal text is the same object, so CSE is construction and DCE is reachability.
Materialising a value is a `let` boundary (theorem 6.1).  In the body of a tensor the axes are the variables of
level 0..rank-1.  A bound variable is named by 1 + the highest free level of its fold: the name does not depend on
the context, so alpha-equal folds are identical and substitution cannot capture.

Creation order is a topological order: `a.id < b.id` whenever b depends on a.

Loads are total: outside the domain they give 0.  A plain `load` carries the obligation "in bounds on this path",
which verify/bounds.py settles before a backend may print it; only pads use `load_or_zero`.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import Any, TypeAlias

import numpy as np

from assay.core import dtypes as dt
from assay.core import index as index_
from assay.core.dtypes import DType
from assay.core.errors import InternalError, UserError
from assay.core.index import Ix, Val, Var, affine, fresh, ix, values, variable
from assay.core.row import TABLE, Interval, Row, row

Number: TypeAlias = "int | float | bool"
Operand: TypeAlias = "E | Ix | Var | int | float | bool"
Index: TypeAlias = "Ix | Var | int | E"

MAX_ELEMENTS = 1 << 40  # a tensor beyond this is a mistake, not a tensor

_NO_VARS: frozenset[Var] = frozenset()
_NO_TENSORS: frozenset[T] = frozenset()
_ids = count()
_nodes: dict[tuple[Any, ...], E] = {}
_tensors: dict[tuple[Any, ...], T] = {}

# ------------------------------------------------------------------------------------------------ expressions


class E:
    """A scalar expression.  `attr` holds what is not an expression:

    const: the bits (unsigned int)   load, load_or_zero: (T, indices)   idx: Ix   acc: (Var, k)   fold: Var   proj: k

    `free` are the variables it depends on (an accumulator depends on its loop variable), `reads` the tensors it loads,
    `deps` the expressions it is built from (arguments and values inside indices), [lo, hi] contains every integer value.
    """

    __slots__ = ("args", "attr", "deps", "digest", "dtype", "free", "has_fold", "hi", "id", "lo", "op", "reads")
    op: str
    args: tuple[E, ...]
    attr: Any
    dtype: DType
    free: frozenset[Var]
    reads: frozenset[T]
    deps: tuple[E, ...]
    id: int
    digest: int
    lo: int
    hi: int
    has_fold: bool

    def __repr__(self) -> str:
        if self.op == "const":
            return f"{constant_value(self)!r}:{self.dtype.name}"
        if self.op in ("load", "load_or_zero"):
            t, idx = self.attr
            return f"{t!r}[{', '.join(map(repr, idx))}]"
        if self.op == "idx":
            return f"[{self.attr!r}]"
        if self.op == "acc":
            return f"acc{self.attr[1]}@{self.attr[0]!r}"
        if self.op == "fold":
            half = len(self.args) // 2
            return f"fold({self.attr!r}:{self.attr.n}; {self.args[:half]!r}; {self.args[half:]!r})"
        if self.op == "proj":
            return f"proj({self.args[0]!r}, {self.attr})"
        suffix = f":{self.dtype.name}" if self.op in ("convert", "bitcast") else ""
        return f"{self.op}{suffix}({', '.join(map(repr, self.args))})"

    def __add__(self, other: Operand) -> E:
        return op("add", self, other)

    def __radd__(self, other: Operand) -> E:
        return op("add", other, self)

    def __sub__(self, other: Operand) -> E:
        return op("sub", self, other)

    def __rsub__(self, other: Operand) -> E:
        return op("sub", other, self)

    def __mul__(self, other: Operand) -> E:
        return op("mul", self, other)

    def __rmul__(self, other: Operand) -> E:
        return op("mul", other, self)

    def __truediv__(self, other: Operand) -> E:
        return op("div", self, other)

    def __rtruediv__(self, other: Operand) -> E:
        return op("div", other, self)

    def __neg__(self) -> E:
        return op("neg", self)

    def __lt__(self, other: Operand) -> E:
        return op("lt", self, other)

    def __le__(self, other: Operand) -> E:
        return op("le", self, other)

    def __gt__(self, other: Operand) -> E:
        return op("lt", other, self)

    def __ge__(self, other: Operand) -> E:
        return op("le", other, self)

    def __and__(self, other: Operand) -> E:
        return op("and" if self.dtype is dt.bool_ else "band", self, other)

    def __or__(self, other: Operand) -> E:
        return op("or" if self.dtype is dt.bool_ else "bor", self, other)

    def __xor__(self, other: Operand) -> E:
        return op("ne" if self.dtype is dt.bool_ else "bxor", self, other)

    def __invert__(self) -> E:
        return op("not" if self.dtype is dt.bool_ else "bnot", self)

    def __lshift__(self, other: Operand) -> E:
        return op("shl", self, other)

    def __rshift__(self, other: Operand) -> E:
        return op("shr", self, other)


STRUCTURAL = frozenset(("const", "load", "load_or_zero", "idx", "acc", "fold", "proj"))
_LOADS = ("load", "load_or_zero")
_op_code: dict[str, int] = {}


def _code(name: str) -> int:
    found = _op_code.get(name)
    if found is None:
        found = _op_code[name] = zlib.crc32(name.encode())
    return found


def _ix_digest(i: Ix) -> int:
    """A hash of the structure of `i`, the same in every process."""
    parts: list[tuple[int, int, int]] = []
    for a, k in i.terms:
        if isinstance(a, Var):
            parts.append((a.level, a.n, k))
        else:
            parts.append((a.e.digest, -1, k) if isinstance(a, Val) else (_ix_digest(a.e), a.c, k))
    return hash((i.c, tuple(parts)))


def _union(sets: Sequence[frozenset[Any]], empty: frozenset[Any]) -> frozenset[Any]:
    """The union, as one of the given objects wherever it equals one (most nodes share their sets)."""
    result = empty
    for s in sets:
        if s is result or not s:
            continue
        if not result or result <= s:
            result = s
        elif not s <= result:
            result = result | s
    return result


def _node(op_: str, args: tuple[E, ...], attr: Any, dtype: DType, interval: Interval) -> E:
    key = (op_, args, attr, dtype)
    found = _nodes.get(key)
    if found is not None:
        return found
    e = E()
    e.op, e.args, e.attr, e.dtype, e.id = op_, args, attr, dtype, next(_ids)
    e.lo, e.hi = interval
    deps = args
    signature: Any = attr
    if args:
        free = _union([a.free for a in args], _NO_VARS)
        reads = _union([a.reads for a in args], _NO_TENSORS)
        if op_ == "fold":
            free = free - attr.free
            signature = (attr.level, attr.n)
    elif op_ in _LOADS:
        t, idx = attr
        deps = tuple(v.e for i in idx for v in values(i))
        free = _union([i.free for i in idx], _NO_VARS)
        reads = _union([t.itself, *(d.reads for d in deps)], _NO_TENSORS)
        signature = (t.digest, tuple(map(_ix_digest, idx)))
    elif op_ == "idx":
        deps = tuple(v.e for v in values(attr))
        free, reads = attr.free, _union([d.reads for d in deps], _NO_TENSORS)
        signature = _ix_digest(attr)
    elif op_ == "acc":
        free, reads = attr[0].free, _NO_TENSORS
        signature = (attr[0].level, attr[1])
    else:
        free, reads = _NO_VARS, _NO_TENSORS
    e.free, e.reads = free, reads
    e.deps = deps
    e.has_fold = op_ == "fold" or any(d.has_fold for d in deps)
    e.digest = hash((_code(op_), dtype.code, tuple([d.digest for d in deps]), 0 if signature is None else signature))
    _nodes[key] = e
    return e


_FULL: dict[DType, Interval] = {d: (d.lo, d.hi) if not d.is_float else (0, 0) for d in dt.DTYPES.values()}
_FORMAT = {"bool": "<?", "i8": "<b", "i16": "<h", "i32": "<i", "i64": "<q", "u8": "<B", "f32": "<f", "f64": "<d"}


def const(v: Number, dtype: DType) -> E:
    """The constant `v` rounded (floats, to nearest even) or wrapped (integers) to `dtype`.

    Interned by bits: +0 and -0 differ, there is one NaN.
    """
    if dtype.is_float:
        return _node("const", (), _float_bits(math.nan if v != v else float(v), dtype), dtype, (0, 0))
    if v != v or v in (math.inf, -math.inf):
        raise UserError(f"constant {v} has no value of type {dtype.name}")
    n = int(bool(v)) if dtype is dt.bool_ else int(v)
    bits = n & (1 << dtype.bits) - 1
    n = bits - (1 << dtype.bits) if dtype.kind == "int" and bits >> dtype.bits - 1 else bits
    return _node("const", (), bits, dtype, (n, n))


def _float_bits(v: float, dtype: DType) -> int:
    if dtype is dt.f64:
        return struct.unpack("<Q", struct.pack("<d", v))[0]
    try:
        bits = struct.unpack("<I", struct.pack("<f", v))[0]
    except OverflowError:  # struct refuses what rounds to infinity
        bits = 0x7F800000 if v > 0 else 0xFF800000
    if dtype is dt.f32:
        return bits
    single = np.array(bits, np.uint32).view(np.float32)
    with np.errstate(over="ignore"):
        return int(single.astype(dtype.numpy).view(np.uint16))


def const_bits(bits: int, dtype: DType) -> E:
    """The constant with these bits (NaNs are identified)."""
    return const(_from_bits(bits, dtype), dtype)


def _from_bits(bits: int, dtype: DType) -> Number:
    raw = bits.to_bytes(dtype.itemsize, "little")
    if dtype.is_half:
        return float(np.frombuffer(raw, dtype.numpy)[0].astype(np.float32))
    return struct.unpack(_FORMAT[dtype.name], raw)[0]


def constant_value(e: E) -> Number:
    """The Python number of a const node."""
    return _from_bits(e.attr, e.dtype)


def is_const(e: E, v: Number | None = None) -> bool:
    """Whether `e` is a constant (equal in bits to `v`, when given)."""
    return e.op == "const" and (v is None or e is const(v, e.dtype))


def as_index(e: Index) -> Ix:
    """`e` as an index expression.

    Integer arithmetic that cannot wrap (by its interval) becomes index arithmetic, so an index computed by tensor
    operators ((3 * arange) % 128) is as good as a written one; the rest stays a value.
    """
    if not isinstance(e, E):
        return ix(e)
    if not e.dtype.is_integer:
        raise UserError(f"an index must be an integer, not {e.dtype.name}")
    return _as_index(e, {})


def _as_index(e: E, memo: dict[E, Ix]) -> Ix:
    found = memo.get(e)
    if found is not None:
        return found
    result: Ix | None = None
    if e.op == "idx":
        result = e.attr
    elif e.op == "const":
        result = ix(e.lo)
    elif e.op == "convert" and e.args[0].dtype.is_integer and e.dtype.lo <= e.args[0].lo and e.args[0].hi <= e.dtype.hi:
        result = _as_index(e.args[0], memo)
    elif e.op in ("add", "sub", "neg", "mul", "floordiv", "mod") and _exact(e):
        a = _as_index(e.args[0], memo)
        b = _as_index(e.args[1], memo) if len(e.args) == 2 else ix(0)
        if e.op == "neg":
            result = -a
        elif e.op == "add":
            result = a + b
        elif e.op == "sub":
            result = a - b
        elif e.op == "mul" and (a.is_const or b.is_const):
            result = a * b.c if b.is_const else b * a.c
        elif e.op in ("floordiv", "mod") and b.is_const and b.c > 0:
            result = a // b.c if e.op == "floordiv" else a % b.c
    if result is None or result.lo < e.dtype.lo or result.hi > e.dtype.hi:
        result = index_.value(e)
    memo[e] = result
    return result


def _exact(e: E) -> bool:
    """Whether no value of the integer node `e` wraps: its unwrapped interval fits the type."""
    r = TABLE[e.op]
    if not callable(r.range):
        return False
    lo, hi = r.range(*((a.lo, a.hi) for a in e.args))
    return e.dtype.lo <= lo and hi <= e.dtype.hi


def _interval(r: Row, args: tuple[E, ...], dtype: DType) -> Interval:
    """[lo, hi] of the node; the full range where it may wrap.  Float nodes have (0, 0)."""
    if dtype.is_float:
        return 0, 0
    if not callable(r.range) or (args and args[-1].dtype.is_float):
        return _FULL[dtype]
    lo, hi = r.range(*((a.lo, a.hi) for a in args))
    return (lo, hi) if dtype.lo <= lo and hi <= dtype.hi else _FULL[dtype]


def index(i: Index, dtype: DType = dt.i64) -> E:
    """The integer `i` as a value of type `dtype`.  Raises UserError where it may not fit."""
    e = as_index(i)
    if not dtype.lo <= e.lo <= e.hi <= dtype.hi:
        raise UserError(f"the index {e!r} lies in [{e.lo}, {e.hi}], which does not fit {dtype.name}")
    if e.is_const:
        return const(e.c, dtype)
    if len(e.terms) == 1 and e.c == 0 and e.terms[0][1] == 1 and type(v := e.terms[0][0]) is Val and v.e.dtype is dtype:
        return v.e
    return _node("idx", (), e, dtype, (e.lo, e.hi))


def load(t: T, *indices: Index) -> E:
    """t[indices].  The program owes the proof that it is in bounds."""
    return _load("load", t, indices)


def load_or_zero(t: T, *indices: Index) -> E:
    """t[indices], or 0 outside the domain (pads)."""
    idx = tuple(as_index(i) for i in indices)
    inside = len(idx) == len(t.shape) and all(0 <= i.lo and i.hi < n for i, n in zip(idx, t.shape, strict=True))
    return _load("load" if inside else "load_or_zero", t, idx)


def _load(op_: str, t: T, indices: tuple[Index, ...]) -> E:
    idx = tuple(as_index(i) for i in indices)
    if len(idx) != len(t.shape):
        raise UserError(f"{len(idx)} indices for a tensor of shape {list(t.shape)}")
    interval = (t.lo, t.hi) if op_ == "load" or t.dtype.is_float else (min(t.lo, 0), max(t.hi, 0))
    return _node(op_, (), (t, idx), t.dtype, interval)


def op(name: str, *args: Operand) -> E:
    """The scalar function `name` of the table.  Python numbers take the type of the other operands.

    Raises UserError for an unknown name, a wrong number of arguments or types that the row does not allow.
    """
    r = TABLE.get(name) or row(name)
    if len(args) != len(r.params):
        raise UserError(f"{name} takes {len(r.params)} arguments ({', '.join(r.params)}), not {len(args)}")
    like = next((a.dtype for a in (args[1:] if name == "select" else args) if isinstance(a, E)), None)
    nodes: list[E] = []
    for a in args:
        if isinstance(a, E):
            nodes.append(a)
        elif isinstance(a, Ix | Var):
            nodes.append(index(a, like if like is not None and like.is_integer else dt.i64))
        elif like is None:
            raise UserError(f"{name}{args!r}: at least one argument must be an expression")
        else:
            nodes.append(const(a, like))
    if r.kind == "derived":
        return r.define(*nodes)  # type: ignore[operator]
    return apply_row(r, tuple(nodes))


def apply_row(r: Row, args: tuple[E, ...]) -> E:
    """The node of a primitive or named row (types checked).

    Simplified by intervals alone: a select whose condition is decided is its arm, an integer known exactly a constant.
    """
    key = (r.name, args, None, None)
    found = _nodes.get(key)
    if found is not None:
        return found
    try:
        dtype = r.types(*(a.dtype for a in args))
    except UserError as error:
        raise UserError(f"{r.name}: {error}") from None
    lo, hi = _interval(r, args, dtype)
    if r.name == "select" and args[0].lo == args[0].hi:
        found = args[1] if args[0].lo else args[2]
    elif lo == hi and not dtype.is_float:
        found = const(lo, dtype)
    else:
        found = _node(r.name, args, None, dtype, (lo, hi))
    _nodes[key] = found
    return found


_expanded: dict[E, E] = {}


def expand(e: E) -> E:
    """The composition of primitive rows that the named row node `e` means (`e` itself for any other node).

    One level: the arguments stay as they are.
    """
    r = TABLE.get(e.op)
    if r is None or r.kind != "named":
        return e
    found = _expanded.get(e)
    if found is None:
        found = _expanded[e] = r.define(*e.args)  # type: ignore[operator]
        if found.dtype is not e.dtype:
            raise InternalError(f"{e.op}: its composition has type {found.dtype.name}, its row {e.dtype.name}")
    return found


def select(c: E, a: Operand, b: Operand) -> E:
    """c ? a : b."""
    return op("select", c, a, b)


def convert(x: E, dtype: DType) -> E:
    """x as `dtype`: floats round to nearest even, integers wrap, float -> integer saturates with NaN -> 0.

    f16 and bf16 convert through f32 only (f64 -> f16 rounds twice, as PyTorch does).  x -> bool is x != 0.
    """
    if x.dtype is dtype:
        return x
    if x.dtype.is_half and dtype is not dt.f32:
        return convert(convert(x, dt.f32), dtype)
    if dtype is dt.bool_:
        return op("ne", x, 0)
    if dtype.is_half and x.dtype is not dt.f32:
        return convert(convert(x, dt.f32), dtype)
    interval = (0, 0)
    if not dtype.is_float:
        fits = not x.dtype.is_float and dtype.lo <= x.lo and x.hi <= dtype.hi
        interval = (x.lo, x.hi) if fits else _FULL[dtype]
    return _node("convert", (x,), None, dtype, interval)


_TWIN = {"f16": dt.i16, "bf16": dt.i16, "f32": dt.i32, "f64": dt.i64, "i32": dt.f32, "i64": dt.f64}


def bitcast(x: E, dtype: DType | None = None) -> E:
    """The same bits as the integer or float type of the same width (f32 <-> i32, f64 <-> i64, f16, bf16 <-> i16)."""
    target = dtype or _TWIN.get(x.dtype.name)
    if target is None or target.bits != x.dtype.bits or target.is_float == x.dtype.is_float:
        raise UserError(f"bitcast of {x.dtype.name} to {target}; allowed: f32 <-> i32, f64 <-> i64, f16 or bf16 <-> i16")
    return _node("bitcast", (x,), None, target, _FULL[target])


# ------------------------------------------------------------------------------------------------ folds


def acc(v: Var, k: int, dtype: DType, interval: Interval | None = None) -> E:
    """Accumulator k of the fold over `v`, inside its steps.  Use `folds`, which makes them."""
    lo, hi = interval or _FULL[dtype]
    return _node("acc", (), (v, k, lo, hi), dtype, (lo, hi))


def folds(n: int, inits: Sequence[E], step: Callable[..., E | tuple[E, ...]]) -> tuple[E, ...]:
    """a_k = inits[k]; for r in 0..n-1: (a_0, ...) = step(a_0, ..., r); the final (a_0, ...).

    A left fold, in this order.  n = 0 gives the inits, n = 1 the step applied once.
    """
    inits = tuple(inits)
    if n == 0:
        return inits
    if n == 1:
        once = step(*inits, ix(0))
        return once if isinstance(once, tuple) else (once,)
    v = fresh(n)
    accs = tuple(acc(v, k, e.dtype) for k, e in enumerate(inits))
    made = step(*accs, ix(v))
    steps = made if isinstance(made, tuple) else (made,)
    if [s.dtype for s in steps] != [e.dtype for e in inits]:
        raise UserError(f"fold: steps of types {[s.dtype for s in steps]} for inits of types {[e.dtype for e in inits]}")
    node = close_fold(v, inits, steps)
    return tuple(proj(node, k) for k in range(len(inits)))


def fold(n: int, init: E, step: Callable[[E, Ix], E]) -> E:
    """The left fold with one accumulator: (..((init . 0) . 1) ..) . n-1."""
    return folds(n, (init,), step)[0]


def proj(node: E, k: int) -> E:
    """Accumulator k of a fold; a fold of one accumulator is its own projection."""
    half = len(node.args) // 2
    if half == 1:
        return node
    final = node.args[k], node.args[half + k]
    interval = (min(e.lo for e in final), max(e.hi for e in final))
    return _node("proj", (node,), k, node.args[k].dtype, interval)


_accumulators: dict[E, tuple[E, ...]] = {}


def accumulators(node: E) -> tuple[E, ...]:
    """The acc nodes that the steps of a fold node refer to."""
    return _accumulators[node]


def close_fold(v: Var, inits: tuple[E, ...], steps: tuple[E, ...], bounds: Sequence[Interval] | None = None) -> E:
    """The fold node over the fresh variable `v`, renamed canonically, with inductive intervals for its accumulators.

    `bounds` are intervals to take in place of the derived ones; the accumulators in `steps` carry them already.
    Raises UserError where they do not hold at first, or are not kept by a step.
    """
    free = _union([e.free for e in inits + steps], _NO_VARS) - v.free
    w = variable(1 + max((u.level for u in free), default=-1), v.n)
    accs = {e.attr[1]: e for e in walk(steps) if e.op == "acc" and e.attr[0] is v}
    if bounds is None:
        bounds = _inductive(v, inits, steps, accs)
    else:
        for (lo, hi), e in zip((*bounds, *bounds), inits + steps, strict=True):
            if not lo <= e.lo <= e.hi <= hi:
                raise UserError(f"the accumulator range {lo}..{hi} does not hold: {e!r} lies in {e.lo}..{e.hi}")
    env: dict[Var | E, Ix | E] = {v: ix(w)}
    for k, a in accs.items():
        env[a] = acc(w, k, a.dtype, bounds[k])
    if w is not v or any(env[a] is not a for a in accs.values()):
        steps = substitute_all(steps, env)
        if 1 + max((u.level for e in inits + steps for u in e.free if u is not w), default=-1) != w.level:
            return close_fold(w, inits, steps)  # the intervals made a variable vanish from the steps
    hull = (min(inits[0].lo, steps[0].lo), max(inits[0].hi, steps[0].hi))
    node = _node("fold", inits + steps, w, inits[0].dtype, hull)
    _accumulators[node] = tuple(acc(w, k, e.dtype, bounds[k]) for k, e in enumerate(inits))
    return node


def _inductive(v: Var, inits: tuple[E, ...], steps: tuple[E, ...], accs: dict[int, E]) -> list[Interval]:
    """Intervals that hold initially and are kept by a step; the full range where none is found in two tries."""
    bounds = [_FULL[e.dtype] for e in inits]
    integer = [k for k in accs if not inits[k].dtype.is_float]
    if not integer:
        return bounds
    trial = [(e.lo, e.hi) for e in inits]
    for _ in range(3):
        env: dict[Var | E, Ix | E] = {a: acc(v, k, a.dtype, trial[k]) for k, a in accs.items() if k in integer}
        after = substitute_all(steps, env)
        hull = [(min(lo, e.lo), max(hi, e.hi)) for (lo, hi), e in zip(trial, after, strict=True)]
        if all(hull[k] == trial[k] for k in integer):
            return [trial[k] if k in integer else bounds[k] for k in range(len(inits))]
        trial = hull
    return bounds


def open_fold(node: E, w: Var | None = None) -> tuple[Var, tuple[E, ...], tuple[E, ...], tuple[E, ...]]:
    """(variable, inits, steps over it, its accumulators) of a fold node; the variable is `w`, or fresh.

    The accumulators of the opened steps carry no interval: what is done to the steps may change it.
    """
    half = len(node.args) // 2
    w = w or fresh(node.attr.n)
    new = tuple(acc(w, k, a.dtype) for k, a in enumerate(accumulators(node)))
    env: Environment = {node.attr: ix(w), **dict(zip(accumulators(node), new, strict=True))}
    return w, node.args[:half], substitute_all(node.args[half:], env), new


# ------------------------------------------------------------------------------------------------ substitution

Environment: TypeAlias = "dict[Var | E, Ix | E]"
OnLoad: TypeAlias = "Callable[[T, tuple[Ix, ...], str], E | None]"


def substitute(e: E, env: Environment, on_load: OnLoad | None = None) -> E:
    """`e` with variables and accumulators replaced by `env`, and each load by on_load(tensor, indices, op) if not None."""
    return substitute_all((e,), env, on_load)[0]


def substitute_all(es: tuple[E, ...], env: Environment, on_load: OnLoad | None = None) -> tuple[E, ...]:
    """Substitution in several expressions at once (shared parts are rewritten once)."""
    env = {k: x for k, x in env.items() if not (isinstance(k, Var) and x is ix(k))}
    keys = frozenset(k if isinstance(k, Var) else k.attr[0] for k in env)
    if on_load is None and not any(e.free & keys for e in es):
        return es
    memo: dict[E, E] = {}

    def untouched(e: E) -> bool:
        return not (e.free & keys) and (on_load is None or not e.reads)

    def atom(a: Var | Val) -> Ix:
        if isinstance(a, Var):
            found = env.get(a)
            return found if isinstance(found, Ix) else ix(a)
        return as_index(memo.get(a.e, a.e))

    def indices(idx: tuple[Ix, ...]) -> tuple[Ix, ...]:
        return tuple(index_.rewrite(i, atom) if i.free & keys or (on_load is not None and i.terms) else i for i in idx)

    for e in _pending(es, untouched):
        if e.op in _LOADS:
            t, idx = e.attr
            idx = indices(idx)
            replaced = on_load(t, idx, e.op) if on_load is not None else None
            memo[e] = replaced if replaced is not None else (load if e.op == "load" else load_or_zero)(t, *idx)
        elif e.op == "idx":
            memo[e] = index(indices((e.attr,))[0], e.dtype)
        elif e.op == "acc":
            found = env.get(e)
            memo[e] = found if isinstance(found, E) else e
        elif e.op == "fold":
            memo[e] = _substitute_fold(e, tuple(memo.get(a, a) for a in e.args[: len(e.args) // 2]), env, on_load)
        else:
            memo[e] = rebuild(e, tuple(memo.get(a, a) for a in e.args))
    return tuple(memo.get(e, e) for e in es)


def _pending(es: tuple[E, ...], untouched: Callable[[E], bool]) -> list[E]:
    """The nodes to rewrite, in creation order; steps of folds are left to their fold."""
    seen: set[E] = set()
    stack = [e for e in es if not untouched(e)]
    while stack:
        e = stack.pop()
        if e in seen:
            continue
        seen.add(e)
        below = e.args[: len(e.args) // 2] if e.op == "fold" else e.deps
        stack.extend(d for d in below if d not in seen and not untouched(d))
    return sorted(seen, key=lambda e: e.id)


def _substitute_fold(e: E, inits: tuple[E, ...], env: Environment, on_load: OnLoad | None) -> E:
    """The steps are rewritten under the name that the new fold will most likely have; close_fold corrects a wrong guess."""
    images = [x.free for v, x in env.items() if isinstance(v, Var) and v in e.free]
    free = _union([e.free - env.keys(), *images, *(i.free for i in inits)], _NO_VARS)
    w = variable(1 + max((u.level for u in free), default=-1), e.attr.n)
    old = accumulators(e)
    inner: Environment = {k: x for k, x in env.items() if k is not e.attr}
    inner[e.attr] = ix(w)
    inner.update((a, acc(w, k, a.dtype)) for k, a in enumerate(old))
    return close_fold(w, inits, substitute_all(e.args[len(inits) :], inner, on_load))


def rebuild(e: E, args: tuple[E, ...]) -> E:
    """The node `e` over other arguments (proj, convert, bitcast and rows of the table)."""
    if args == e.args:
        return e
    if e.op == "convert":
        return convert(args[0], e.dtype)
    if e.op == "bitcast":
        return bitcast(args[0], e.dtype)
    if e.op == "proj":
        return proj(args[0], e.attr)
    return apply_row(TABLE[e.op], args)


def walk(es: Iterable[E]) -> list[E]:
    """Every node reachable from `es` (through indices and folds too), in creation order: arguments before users."""
    seen: set[E] = set()
    stack = list(es)
    while stack:
        e = stack.pop()
        if e not in seen:
            seen.add(e)
            stack.extend(d for d in e.deps if d not in seen)
    return sorted(seen, key=lambda e: e.id)


# ------------------------------------------------------------------------------------------------ tensors


class T:
    """A tensor: an input or a definition.  `kind` says which fields hold:

    input     name
    let       body                       body over the axes Var(0..rank-1)
    require   body, cond, message        a let; every element must satisfy `cond`, else the program is the error
    scan      body (a fold), k, axis     states of accumulator k before step 0, 1, ..., n along `axis` (n+1 of them)
    scatter   base, domain, indices, body, combine     y = base; for u in domain in lexicographic order:
                                         y[indices(u)] = combine(y[indices(u)], body(u)); combine None sets
    extern    name, args, params, output a reference function that is not a core program (sort, topk)
    """

    __slots__ = ("args", "axis", "base", "body", "combine", "cond", "digest", "domain", "dtype", "hi", "id", "indices",
                 "itself", "k", "kind", "lo", "message", "name", "output", "params", "reads", "shape")  # fmt: skip
    kind: str
    shape: tuple[int, ...]
    dtype: DType
    id: int
    digest: int
    lo: int
    hi: int
    reads: frozenset[T]
    itself: frozenset[T]
    name: str
    body: E
    cond: E
    message: str
    base: T
    domain: tuple[int, ...]
    indices: tuple[Ix, ...]
    combine: str | None
    k: int
    axis: int
    args: tuple[T, ...]
    params: tuple[Any, ...]
    output: int

    def __repr__(self) -> str:
        return f"{self.name if self.kind == 'input' else f't{self.id}'}:{self.dtype.name}{list(self.shape)}"

    def __getitem__(self, indices: Index | tuple[Index, ...]) -> E:
        return load(self, *(indices if isinstance(indices, tuple) else (indices,)))

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


def _tensor(kind: str, shape: tuple[int, ...], dtype: DType, interval: Interval, reads: Iterable[T], **fields: Any) -> T:
    for n in shape:
        if not isinstance(n, int) or n < 0:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UserError(f"shape {list(shape)}: sizes must be integers >= 0, not {n!r}")
    if math.prod(shape) > MAX_ELEMENTS:
        raise UserError(f"shape {list(shape)} has {math.prod(shape)} elements; at most 2**40 are allowed")
    key = (kind, shape, dtype, interval, *fields.values())
    found = _tensors.get(key)
    if found is None:
        t = found = _tensors[key] = T()
        t.kind, t.shape, t.dtype, t.id, t.reads = kind, shape, dtype, next(_ids), frozenset(reads)
        t.lo, t.hi = interval
        t.itself = frozenset((t,))
        for name, v in fields.items():
            setattr(t, name, v)
        t.digest = hash((_code(kind), shape, dtype.code, tuple(map(_digest, fields.values()))))
    return found


def _digest(v: object) -> int:
    if isinstance(v, E | T):
        return v.digest
    if isinstance(v, Ix):
        return _ix_digest(v)
    return hash(tuple(map(_digest, v))) if isinstance(v, tuple) else _code(repr(v))


def axes(shape: Sequence[int]) -> tuple[Var, ...]:
    """The axis variables of a tensor of this shape (an axis of size 1 is the index 0: see index.ix)."""
    return tuple(variable(k, n) for k, n in enumerate(shape))


def _check_axes(what: str, shape: tuple[int, ...], *bodies: E | Ix) -> None:
    allowed = frozenset(axes(shape))
    for body in bodies:
        if not body.free <= allowed:
            raise InternalError(f"{what} of shape {list(shape)} depends on {sorted(map(repr, body.free - allowed))}: {body!r}")


def input(name: str, shape: Sequence[int], dtype: DType) -> T:
    """The input `name`."""
    return _tensor("input", tuple(shape), dtype, _FULL[dtype], (), name=name)


def let(shape: Sequence[int], body: E) -> T:
    """y[i...] = body, over the axes Var(0..rank-1)."""
    shape = tuple(shape)
    _check_axes("let", shape, body)
    return _tensor("let", shape, body.dtype, (body.lo, body.hi), body.reads, body=body)


def tensor(shape: Sequence[int], body: Callable[..., E]) -> T:
    """y[i...] = body(i...)."""
    return let(shape, body(*(ix(v) for v in axes(shape))))


def require(shape: Sequence[int], body: E, cond: E, message: str, *, lo: int | None = None, hi: int | None = None) -> T:
    """y[i...] = body where cond holds everywhere; otherwise the program is the error `message`.

    `lo` and `hi` state what cond says of the value (lo <= body <= hi), so that loads of y carry the interval.
    The message may contain {value} (of body), {index} (the first failing element, in lexicographic order).
    """
    shape = tuple(shape)
    _check_axes("require", shape, body, cond)
    interval = (body.lo if lo is None else max(lo, body.lo), body.hi if hi is None else min(hi, body.hi))
    made = _tensor("require", shape, body.dtype, interval, body.reads | cond.reads, body=body, cond=cond, message=message)
    record = _recorded.get()
    if record is not None:
        record.append(made)
    return made


_recorded: ContextVar[list[T] | None] = ContextVar("recorded", default=None)


@contextmanager
def recorded_requires() -> Iterator[list[T]]:
    """The requires built inside the block, also those that no result reads (an index into a dimension of size 1 is 0)."""
    made: list[T] = []
    token = _recorded.set(made)
    try:
        yield made
    finally:
        _recorded.reset(token)


def scan(rest: Sequence[int], node: E, k: int, axis: int) -> T:
    """The states of accumulator k of the fold `node` (over the axes of `rest`): n + 1 of them along `axis`, first the init."""
    rest = tuple(rest)
    if node.op != "fold":
        raise UserError(f"scan needs a fold, not {node.op}")
    _check_axes("scan", rest, node)
    half = len(node.args) // 2
    dtype = node.args[k].dtype
    interval = (min(node.args[k].lo, node.args[half + k].lo), max(node.args[k].hi, node.args[half + k].hi))
    shape = (*rest[:axis], node.attr.n + 1, *rest[axis:])
    return _tensor("scan", shape, dtype, interval, node.reads, body=node, k=k, axis=axis)


def scatter(base: T, domain: Sequence[int], indices: Sequence[Index], body: E, combine: str | None = None) -> T:
    """y = base; for u in domain, lexicographic: y[indices(u)] = combine(y[indices(u)], body(u)); combine None: = body(u)."""
    domain = tuple(domain)
    idx = tuple(as_index(i) for i in indices)
    _check_axes("scatter", domain, body, *idx)
    if len(idx) != len(base.shape) or body.dtype is not base.dtype:
        raise UserError(f"scatter of {body.dtype.name} with {len(idx)} indices into {base!r}")
    reads = _union([body.reads, *(v.e.reads for i in idx for v in values(i))], _NO_TENSORS) | {base}
    full = _FULL[base.dtype]
    interval = (min(base.lo, body.lo), max(base.hi, body.hi)) if combine is None else full
    return _tensor("scatter", base.shape, base.dtype, interval, reads,
                   base=base, domain=domain, indices=idx, body=body, combine=combine)  # fmt: skip


def extern(name: str, args: Sequence[T], params: Sequence[Any], output: int, shape: Sequence[int], dtype: DType,
           lo: int | None = None, hi: int | None = None) -> T:  # fmt: skip
    """Output `output` of the named reference function of `args`; [lo, hi] is what its contract says of integer results."""
    full = _FULL[dtype]
    interval = (full[0] if lo is None else lo, full[1] if hi is None else hi)
    return _tensor("extern", tuple(shape), dtype, interval, args,
                   name=name, args=tuple(args), params=tuple(params), output=output)  # fmt: skip


def order(outputs: Iterable[T]) -> list[T]:
    """The tensors that `outputs` depend on, and they themselves, each after what it reads (creation order)."""
    seen: set[T] = set()
    stack = list(outputs)
    while stack:
        t = stack.pop()
        if t not in seen:
            seen.add(t)
            stack.extend(r for r in t.reads if r not in seen)
    return sorted(seen, key=lambda t: t.id)


def bodies(t: T) -> tuple[E, ...]:
    """The expressions of a tensor: body, cond; for a scatter also the values inside its indices."""
    if t.kind in ("let", "scan"):
        return (t.body,)
    if t.kind == "require":
        return (t.body, t.cond)
    if t.kind == "scatter":
        return (t.body, *(v.e for i in t.indices for v in values(i)))
    return ()


def rewrite_tensor(t: T, on_load: OnLoad, tensor_map: Callable[[T], T]) -> T:
    """`t` with the loads of its expressions replaced by on_load, and the tensors it names whole by tensor_map."""
    if t.kind == "input":
        return t
    if t.kind == "let":
        return let(t.shape, substitute(t.body, {}, on_load))
    if t.kind == "require":
        body, cond = substitute_all((t.body, t.cond), {}, on_load)
        return require(t.shape, body, cond, t.message, lo=t.lo, hi=t.hi)
    if t.kind == "scan":
        node = substitute(t.body, {}, on_load)
        rest = t.shape[: t.axis] + t.shape[t.axis + 1 :]
        return scan(rest, node, t.k, t.axis)
    if t.kind == "scatter":
        body = substitute(t.body, {}, on_load)
        idx = tuple(as_index(substitute(index(i), {}, on_load)) if any(True for _ in values(i)) else i for i in t.indices)
        return scatter(tensor_map(t.base), t.domain, idx, body, t.combine)
    return extern(t.name, tuple(map(tensor_map, t.args)), t.params, t.output, t.shape, t.dtype, t.lo, t.hi)


# ------------------------------------------------------------------------------------------------ programs


class Program:
    """inputs -> outputs.  `effects` are the requires that must hold although no output reads them.

    Interned: equal programs are the same object.
    """

    __slots__ = ("effects", "inputs", "name", "outputs")
    name: str
    inputs: tuple[T, ...]
    outputs: tuple[T, ...]
    effects: tuple[T, ...]

    def __repr__(self) -> str:
        return f"<program {self.name}({', '.join(map(repr, self.inputs))}) -> {list(self.outputs)}>"

    @property
    def roots(self) -> tuple[T, ...]:
        """What has to be evaluated: outputs and effects."""
        return self.outputs + self.effects

    @property
    def tensors(self) -> list[T]:
        """Every tensor of the program that is not an input, in an order in which it can be computed."""
        return [t for t in order(self.roots) if t.kind != "input"]


_programs: dict[tuple[Any, ...], Program] = {}


def program(inputs: Sequence[T], outputs: Sequence[T], effects: Sequence[T] = (), name: str = "f") -> Program:
    """The program; effects that an output already reads are dropped, the others are kept in creation order.

    Raises UserError for a tensor that reads an input which is not among `inputs`, or two inputs of one name.
    """
    inputs, outputs = tuple(inputs), tuple(outputs)
    reached = set(order(outputs))
    kept = tuple(t for t in order(effects) if t.kind == "require" and t not in reached)
    known = set(inputs)
    for t in order(outputs + kept):
        if t.kind == "input" and t not in known:
            raise UserError(f"program {name} reads {t!r}, which is not among its inputs {list(inputs)}")
    if len({t.name for t in inputs}) != len(inputs):
        raise UserError(f"program {name}: two inputs have the same name: {[t.name for t in inputs]}")
    key = (name, inputs, outputs, kept)
    found = _programs.get(key)
    if found is None:
        found = _programs[key] = Program()
        found.name, found.inputs, found.outputs, found.effects = name, inputs, outputs, kept
    return found


def requires(p: Program) -> list[T]:
    """The run-time checks of a program."""
    return [t for t in p.tensors if t.kind == "require"]


def size_of(t: T) -> int:
    """Bytes of a tensor."""
    return t.size * t.dtype.itemsize


__all__ = [
    "E", "Ix", "Program", "T", "Var", "acc", "accumulators", "affine", "apply_row", "as_index", "axes", "bitcast",
    "bodies", "close_fold", "const", "const_bits", "constant_value", "convert", "expand", "extern", "fold", "folds", "index",
    "input", "is_const", "let", "load", "load_or_zero", "op", "open_fold", "order", "program", "proj", "rebuild",
    "recorded_requires", "require", "requires", "rewrite_tensor", "scan", "scatter", "select", "size_of", "substitute",
    "substitute_all",
    "tensor", "walk",
]  # fmt: skip
