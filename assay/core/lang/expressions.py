"""Scalar expressions: interned nodes, and the functions that build them."""

from __future__ import annotations

import math
import struct
import threading
import zlib
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from assay.core import dtypes as dt
from assay.core import index as index_
from assay.core.dtypes import DType
from assay.core.errors import InternalError, UserError
from assay.core.index import Div, Ix, Val, Var, is_symbolic, ix, values
from assay.core.row import TABLE, Interval, Row, row

if TYPE_CHECKING:
    from assay.core.lang.tensors import T

Number: TypeAlias = "int | float | bool"
Operand: TypeAlias = "E | Ix | Var | int | float | bool"
Index: TypeAlias = "Ix | Var | int | E"

NO_VARS: frozenset[Var] = frozenset()
NO_TENSORS: frozenset[T] = frozenset()
ids = count()  # one counter for expressions and tensors: creation order is a topological order
by_creation = attrgetter("id")
_deps = attrgetter("deps")
Node = TypeVar("Node")
_nodes: dict[tuple[Any, ...], E] = {}


REPR_DEPTH = 8
_shown = threading.local()  # how deep the text of an expression is that is being made


class E:
    """A scalar expression.  `attr` holds what is not an expression:

    const: the bits (unsigned int)   load, load_or_zero: (T, indices)   idx: Ix   acc: (Var, k)   fold: Var   proj: k

    `free` are the variables it depends on (an accumulator depends on its loop variable), `reads` the tensors it loads,
    `deps` the expressions it is built from (arguments and values inside indices), [lo, hi] contains every integer value.
    `sized`: an index in it depends on sizes.  An idx of a float type is a size as a number, rounded to nearest.
    """

    __slots__ = ("args", "attr", "deps", "digest", "dtype", "free", "has_fold", "hi", "id", "lo", "op", "reads", "sized")
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
    sized: bool

    def __repr__(self) -> str:
        """The expression to a depth of REPR_DEPTH: its whole text may be exponential in its size (text.py gives names)."""
        if self.op == "const":
            return f"{constant_value(self)!r}:{self.dtype.name}"
        depth = getattr(_shown, "depth", 0)
        if depth == REPR_DEPTH:
            return "..."
        _shown.depth = depth + 1
        try:
            return self._text()
        finally:
            _shown.depth = depth

    def _text(self) -> str:
        if self.op in LOADS:
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


LOADS = ("load", "load_or_zero")
STRUCTURAL = frozenset((*LOADS, "const", "idx", "acc", "fold", "proj"))
_op_code: dict[str, int] = {}


def code(name: str) -> int:
    found = _op_code.get(name)
    if found is None:
        found = _op_code[name] = zlib.crc32(name.encode())
    return found


def index_digest(i: Ix) -> int:
    """A hash of the structure of `i`, the same in every process."""
    parts: list[tuple[int, int, int]] = []
    for a, k in i.terms:
        if isinstance(a, Var):
            parts.append((a.level, extent_digest(a.n), k))
        elif isinstance(a, Div):
            parts.append((index_digest(a.e), a.c, k))
        elif isinstance(a, Val):
            parts.append((a.e.digest, -1, k))
        else:
            parts.append((hash(tuple(map(_atom_digest, index_.factors(a)))), -2, k))
    return hash((i.c, tuple(parts)))


def _atom_digest(a: index_.Factor) -> int:
    """A hash of the structure of a factor."""
    if isinstance(a, Var):
        return hash((a.level, extent_digest(a.n)))
    if isinstance(a, index_.Size):
        return hash((code(a.name), a.lo, a.hi))
    return hash((a.e.digest, -1)) if isinstance(a, Val) else hash((index_digest(a.e), extent_digest(a.c)))


def extent_digest(n: Ix | int) -> int:
    """A hash of an extent, the same in every process."""
    return index_digest(n) if isinstance(n, Ix) else n


def union(sets: Sequence[frozenset[Any]], empty: frozenset[Any]) -> frozenset[Any]:
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


def make_node(op_: str, args: tuple[E, ...], attr: Any, dtype: DType, interval: Interval) -> E:
    key = (op_, args, attr, dtype)
    found = _nodes.get(key)
    if found is not None:
        return found
    e = E()
    e.op, e.args, e.attr, e.dtype, e.id = op_, args, attr, dtype, next(ids)
    e.lo, e.hi = interval
    deps = args
    signature: Any = attr
    if args:
        free = union([a.free for a in args], NO_VARS)
        reads = union([a.reads for a in args], NO_TENSORS)
        if op_ == "fold":
            free = free - attr.free
            signature = (attr.level, extent_digest(attr.n))
    elif op_ in LOADS:
        t, idx = attr
        deps = tuple([v.e for i in idx if not i.is_plain for v in values(i)])
        free = union([i.free for i in idx], NO_VARS)
        reads = union([t.itself, *(d.reads for d in deps)], NO_TENSORS)
        signature = (t.digest, tuple(map(index_digest, idx)))
    elif op_ == "idx":
        deps = tuple(v.e for v in values(attr))
        free, reads = attr.free, union([d.reads for d in deps], NO_TENSORS)
        signature = index_digest(attr)
    elif op_ == "acc":
        free, reads = attr[0].free, NO_TENSORS
        signature = (attr[0].level, attr[1])
    else:
        free, reads = NO_VARS, NO_TENSORS
    e.free, e.reads = free, reads
    e.deps = deps
    e.has_fold, e.sized = op_ == "fold", op_ == "idx" and bool(attr.sizes)
    for d in deps:
        e.has_fold |= d.has_fold
        e.sized |= d.sized
    e.digest = hash((code(op_), dtype.code, tuple([d.digest for d in deps]), 0 if signature is None else signature))
    return _nodes.setdefault(key, e)


FULL: dict[DType, Interval] = {d: (d.lo, d.hi) if not d.is_float else (0, 0) for d in dt.DTYPES.values()}
_FORMAT = {"bool": "<?", "i8": "<b", "i16": "<h", "i32": "<i", "i64": "<q", "u8": "<B", "f32": "<f", "f64": "<d"}


def const(v: Number, dtype: DType) -> E:
    """The constant `v` rounded (floats, to nearest even) or wrapped (integers) to `dtype`.

    Interned by bits: +0 and -0 differ, there is one NaN.  A number that depends on sizes is an idx.
    """
    if is_symbolic(v):
        fits = dtype.is_float or dtype.lo <= v.lo <= v.hi <= dtype.hi
        return index(v, dtype) if fits else convert(index(v, dt.i64), dtype)
    if dtype.is_float:
        return make_node("const", (), _float_bits(math.nan if v != v else float(v), dtype), dtype, (0, 0))
    if v != v or v in (math.inf, -math.inf):
        raise UserError(f"constant {v} has no value of type {dtype.name}")
    n = int(bool(v)) if dtype is dt.bool_ else int(v)
    bits = n & (1 << dtype.bits) - 1
    n = bits - (1 << dtype.bits) if dtype.kind == "int" and bits >> dtype.bits - 1 else bits
    return make_node("const", (), bits, dtype, (n, n))


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
    todo = [e]
    while todo:  # not by recursion: programs are deep
        x = todo[-1]
        missing = [a for a in _index_operands(x) if a not in _indices]
        if missing and x not in _indices:
            todo += missing
            continue
        todo.pop()
        if x not in _indices:
            _indices[x] = _index_of(x)
    return _indices[e]


_indices: dict[E, Ix] = {}


def _index_operands(e: E) -> tuple[E, ...]:
    """The arguments of `e` as index arithmetic; none where it is a leaf of it."""
    if e.op == "convert":
        x = e.args[0]
        return e.args if x.dtype.is_integer and e.dtype.lo <= x.lo and x.hi <= e.dtype.hi else ()
    return e.args if e.op in ("add", "sub", "neg", "mul", "floordiv", "mod") and (e.sized or _exact(e)) else ()


def _index_of(e: E) -> Ix:
    """The index of `e`, given those of its operands."""
    result: Ix | None = None
    if e.op == "idx":
        result = e.attr
    elif e.op == "const":
        result = ix(e.lo)
    elif operands := _index_operands(e):
        a, b = _indices[operands[0]], _indices[operands[-1]]
        if e.op == "convert":
            result = a
        elif e.op == "neg":
            result = -a
        elif e.op == "add":
            result = a + b
        elif e.op == "sub":
            result = a - b
        elif e.op == "mul" and (a.is_const or b.is_const):
            result = a * b.c if b.is_const else b * a.c
        elif e.op == "mul" and e.sized:
            result = a * b
        elif e.op in ("floordiv", "mod") and b.is_const and b.c > 0:
            result = a // b.c if e.op == "floordiv" else a % b.c
        elif e.op in ("floordiv", "mod") and b.is_extent and b.lo > 0:
            result = a // b if e.op == "floordiv" else a % b
    if result is None or result.lo < e.dtype.lo or result.hi > e.dtype.hi:
        result = index_.value(e)
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
        return FULL[dtype]
    lo, hi = r.range(*((a.lo, a.hi) for a in args))
    return (lo, hi) if dtype.lo <= lo and hi <= dtype.hi else FULL[dtype]


def index(i: Index, dtype: DType = dt.i64) -> E:
    """The integer `i` as a value of type `dtype`, a float type only for extents.  Raises UserError where it may not fit."""
    e = as_index(i)
    if dtype.is_float and (e.is_extent or e.is_const):
        return const(e.c, dtype) if e.is_const else make_node("idx", (), e, dtype, (0, 0))
    if e.lo <= e.hi and not (dtype.lo <= e.lo and e.hi <= dtype.hi):  # over an empty axis there is no value
        raise UserError(f"the index {e!r} lies in [{e.lo}, {e.hi}], which does not fit {dtype.name}")
    if e.is_const:
        return const(e.c, dtype)
    if len(e.terms) == 1 and e.c == 0 and e.terms[0][1] == 1 and type(v := e.terms[0][0]) is Val and v.e.dtype is dtype:
        return v.e
    return make_node("idx", (), e, dtype, (e.lo, e.hi))


def load(t: T, *indices: Index) -> E:
    """t[indices].  The program owes the proof that it is in bounds."""
    return _load("load", t, indices)


def load_or_zero(t: T, *indices: Index) -> E:
    """t[indices], or 0 outside the domain (pads)."""
    idx = tuple(as_index(i) for i in indices)
    inside = len(idx) == len(t.shape) and all(index_.within(i, n) for i, n in zip(idx, t.shape, strict=True))
    return _load("load" if inside else "load_or_zero", t, idx)


def load_as(how: str, t: T, *indices: Index) -> E:
    """The load of t that `how` names, one of LOADS: a rewriting reads another tensor, or elsewhere, in the way of before."""
    return load(t, *indices) if how == "load" else load_or_zero(t, *indices)


def _load(op_: str, t: T, indices: tuple[Index, ...]) -> E:
    idx = tuple([i if type(i) is Ix else as_index(i) for i in indices])
    if len(idx) != len(t.shape):
        raise UserError(f"{len(idx)} indices for a tensor of shape {list(t.shape)}")
    interval = (t.lo, t.hi) if op_ == "load" or t.dtype.is_float else (min(t.lo, 0), max(t.hi, 0))
    return make_node(op_, (), (t, idx), t.dtype, interval)


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
            extent = isinstance(a, Ix) and (a.is_extent or a.is_const)
            number = like is not None and (like.is_integer or (like.is_float and extent))
            nodes.append(index(a, like if like is not None and number else dt.i64))
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
        dtype = r.types(*[a.dtype for a in args])
    except UserError as error:
        raise UserError(f"{r.name}: {error}") from None
    lo, hi = _interval(r, args, dtype)
    if r.name == "select" and args[0].lo == args[0].hi:
        found = args[1] if args[0].lo else args[2]
    elif lo == hi and not dtype.is_float:
        found = const(lo, dtype)
    else:
        found = make_node(r.name, args, None, dtype, (lo, hi))
    return _nodes.setdefault(key, found)


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
        found = _expanded.setdefault(e, r.define(*e.args))  # type: ignore[operator]
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
        lo, hi = _truncated(x) if x.dtype.is_float else (x.lo, x.hi)
        fits = dtype.lo <= lo and hi <= dtype.hi
        interval = (lo, hi) if fits else (max(lo, dtype.lo), min(hi, dtype.hi)) if x.dtype.is_float else FULL[dtype]
    return make_node("convert", (x,), None, dtype, interval)


_CLAMPS: dict[str, Callable[[float, float], float]] = {"max": max, "min": min}
_ROUNDINGS: dict[str, Callable[[float], Any]] = {"floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.rint}
_WIDE = 1 << 64  # more than any type holds
_limits: dict[E, tuple[float, float]] = {}


def _truncated(x: E) -> Interval:
    """The interval of the float `x` as an integer, before it saturates: that of its limits, and 0, which NaN becomes."""
    lo, hi = limits(x)
    if lo > hi:  # always NaN
        return 0, 0
    ends = [math.trunc(v) if abs(v) < _WIDE else _WIDE if v > 0 else -_WIDE for v in (lo, hi)]
    return min(0, ends[0]), max(0, ends[1])


def limits(x: E, depth: int = 64) -> tuple[float, float]:
    """[lo, hi] that contains every value of the float `x` but NaN: what clamps, choices and roundings say of it."""
    found = _limits.get(x)
    if found is None:
        found = _limits[x] = _limits_of(x, depth - 1) if depth else (-math.inf, math.inf)
    return found


def _limits_of(x: E, depth: int) -> tuple[float, float]:
    if x.op == "const":
        v = float(constant_value(x))
        return (v, v) if v == v else (math.inf, -math.inf)
    if x.op in _CLAMPS:
        (a, b), (c, d) = limits(x.args[0], depth), limits(x.args[1], depth)
        nothing = a > b or c > d  # NaN stays NaN
        return (math.inf, -math.inf) if nothing else (_CLAMPS[x.op](a, c), _CLAMPS[x.op](b, d))
    if x.op == "select":
        (a, b), (c, d) = limits(x.args[1], depth), limits(x.args[2], depth)
        return min(a, c), max(b, d)
    if x.op in _ROUNDINGS:
        lo, hi = limits(x.args[0], depth)
        return float(_ROUNDINGS[x.op](lo)), float(_ROUNDINGS[x.op](hi))
    if x.op == "convert" and x.args[0].dtype.is_float:  # rounding is monotone
        lo, hi = limits(x.args[0], depth)
        with np.errstate(over="ignore"):
            return float(x.dtype.numpy.type(lo)), float(x.dtype.numpy.type(hi))
    return -math.inf, math.inf


TWIN = {"f16": dt.i16, "bf16": dt.i16, "f32": dt.i32, "f64": dt.i64, "i32": dt.f32, "i64": dt.f64}


def bitcast(x: E, dtype: DType | None = None) -> E:
    """The same bits as the integer or float type of the same width (f32 <-> i32, f64 <-> i64, f16, bf16 <-> i16)."""
    target = dtype or TWIN.get(x.dtype.name)
    if target is None or target.bits != x.dtype.bits or target.is_float == x.dtype.is_float:
        raise UserError(f"bitcast of {x.dtype.name} to {target}; allowed: f32 <-> i32, f64 <-> i64, f16 or bf16 <-> i16")
    return make_node("bitcast", (x,), None, target, FULL[target])


def walk(es: Iterable[E]) -> list[E]:
    """Every node reachable from `es` (through indices and folds too), arguments before users, in the order of the text."""
    return postorder(es, _deps)


def postorder(roots: Iterable[Node], below: Callable[[Node], Iterable[Node]]) -> list[Node]:
    """The roots and all that is below them, each after what is below it, otherwise from first to last.

    The order follows from the roots alone: the kernels of a program do not depend on what the process has done before.
    """
    found: dict[Node, None] = {}
    todo = [*roots]
    todo.reverse()
    while todo:
        node = todo.pop()
        if node in found:
            continue
        waiting = [x for x in below(node) if x not in found]
        if waiting:
            todo.append(node)
            waiting.reverse()
            todo += waiting
        else:
            found[node] = None
    return list(found)
