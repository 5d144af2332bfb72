"""Tensors: inputs and definitions."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from assay.core import sizes
from assay.core.dtypes import DType
from assay.core.errors import InternalError, UserError
from assay.core.index import Ix, Var, extents, is_symbolic, ix, values, variable
from assay.core.lang.expressions import (
    FULL,
    NO_TENSORS,
    E,
    Index,
    as_index,
    by_creation,
    code,
    extent_digest,
    ids,
    index,
    index_digest,
    load,
    union,
)
from assay.core.lang.folds import OnLoad, substitute, substitute_all
from assay.core.row import Interval

MAX_ELEMENTS = 1 << 40  # a tensor beyond this is a mistake, not a tensor

_tensors: dict[tuple[Any, ...], T] = {}


class T:
    """A tensor: an input or a definition.  `kind` says which fields hold:

    input     name
    let       body                       body over the axes Var(0..rank-1)
    require   body, cond, message        a let; every element must satisfy `cond`, else the program is the error
    scan      body (a fold), k, axis     states of accumulator k before step 0, 1, ..., n along `axis` (n+1 of them)
    scatter   base, domain, indices, body, combine     y = base; for u in domain in lexicographic order:
                                         y[indices(u)] = combine(y[indices(u)], body(u)); combine None sets
    extern    name, args, params, output a reference function that is not a core program (sort, topk)

    `end`: of a require or an extern whose values are at most an expression over sizes, that expression.
    """

    __slots__ = ("args", "axis", "base", "body", "combine", "cond", "digest", "domain", "dtype", "end", "hi", "id", "indices",
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
    end: Ix | None

    def __repr__(self) -> str:
        return f"{self.name if self.kind == 'input' else f't{self.id}'}:{self.dtype.name}{list(self.shape)}"

    def __getitem__(self, indices: Index | tuple[Index, ...]) -> E:
        return load(self, *(indices if isinstance(indices, tuple) else (indices,)))

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


def make_tensor(kind: str, shape: tuple[int, ...], dtype: DType, interval: Interval, reads: Iterable[T], **fields: Any) -> T:
    if any(is_symbolic(n) for n in shape):
        shape = _checked_extents(shape)
    else:
        for n in shape:
            if not isinstance(n, int) or n < 0:  # pyright: ignore[reportUnnecessaryIsInstance]
                raise UserError(f"shape {list(shape)}: sizes must be integers >= 0, not {n!r}")
    if least_elements(shape) > MAX_ELEMENTS:
        raise UserError(f"shape {list(shape)} has {math.prod(shape)} elements; at most 2**40 are allowed")
    key = (kind, shape, dtype, interval, *fields.values())
    if kind == "extern":
        key = (kind, shape, dtype, interval, *(exactly(v) if name == "params" else v for name, v in fields.items()))
    found = _tensors.get(key)
    if found is None:
        t = T()
        t.kind, t.shape, t.dtype, t.id, t.reads = kind, shape, dtype, next(ids), frozenset(reads)
        t.lo, t.hi = interval
        t.itself, t.end = frozenset((t,)), None
        for name, v in fields.items():
            setattr(t, name, v)
        t.digest = hash((code(kind), tuple(map(extent_digest, shape)), dtype.code, tuple(map(_digest, fields.values()))))
        found = _tensors.setdefault(key, t)
    return found


def _checked_extents(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape, of which some extents depend on sizes.  Raises UserError where one is negative (for the hints, if assumed)."""
    shape = extents(shape)
    for n in shape:
        if is_symbolic(n):
            known = n.is_extent and (n.lo >= 0 or sizes.current() is None or n >= 0)
        else:
            known = isinstance(n, int) and n >= 0  # pyright: ignore[reportUnnecessaryIsInstance]
        if not known:
            raise UserError(f"shape {list(shape)}: sizes must be integers >= 0, not {n!r}")
    return shape


def least_elements(shape: Sequence[int]) -> int:
    """The number of elements; with sizes, the least there can be."""
    count = math.prod(shape)
    return count.lo if is_symbolic(count) else count


def exactly(v: Any) -> Any:
    """A key that only the same parameter of an extern has: 0.0 is not -0.0, 1 is not true, and there is one NaN."""
    if isinstance(v, tuple):
        return tuple(map(exactly, v))  # type: ignore[arg-type]
    if isinstance(v, float):
        return float, "nan" if v != v else v.hex()
    return (type(v), v) if isinstance(v, int) else v


def _digest(v: object) -> int:
    if isinstance(v, E | T):
        return v.digest
    if isinstance(v, Ix):
        return index_digest(v)
    return hash(tuple(map(_digest, v))) if isinstance(v, tuple) else code(repr(v))


def axes(shape: Sequence[int]) -> tuple[Var, ...]:
    """The axis variables of a tensor of this shape (an axis of size 1 is the index 0: see index.ix)."""
    return tuple([variable(k, n) for k, n in enumerate(shape)])


def _check_axes(what: str, shape: tuple[int, ...], *bodies: E | Ix) -> None:
    allowed = frozenset(axes(shape))
    for body in bodies:
        if not body.free <= allowed:
            raise InternalError(f"{what} of shape {list(shape)} depends on {sorted(map(repr, body.free - allowed))}: {body!r}")


def input(name: str, shape: Sequence[int], dtype: DType) -> T:
    """The input `name`."""
    return make_tensor("input", tuple(shape), dtype, FULL[dtype], (), name=name)


def let(shape: Sequence[int], body: E) -> T:
    """y[i...] = body, over the axes Var(0..rank-1)."""
    shape = tuple(shape)
    _check_axes("let", shape, body)
    return make_tensor("let", shape, body.dtype, (body.lo, body.hi), body.reads, body=body)


def tensor(shape: Sequence[int], body: Callable[..., E]) -> T:
    """y[i...] = body(i...)."""
    return let(shape, body(*(ix(v) for v in axes(shape))))


def require(shape: Sequence[int], body: E, cond: E, message: str, *, lo: int | None = None, hi: int | None = None) -> T:
    """y[i...] = body where cond holds everywhere; otherwise the program is the error `message`.

    `lo` and `hi` state what cond says of the value (lo <= body <= hi), so that loads of y carry the interval.
    The message may contain {value} (of body), {index} (the first failing element, in lexicographic order),
    {wrapped:n} (", here" and the index before it was wrapped once in an axis of n, where that happened).
    """
    shape = tuple(shape)
    _check_axes("require", shape, body, cond)
    most = body.hi if hi is None else min(hi.hi if is_symbolic(hi) else hi, body.hi)
    interval = (body.lo if lo is None else max(lo, body.lo), most)
    end = {"end": hi} if is_symbolic(hi) else {}
    made = make_tensor("require", shape, body.dtype, interval, body.reads | cond.reads, body=body, cond=cond, message=message,
                       **end)  # fmt: skip
    record = _recorded.get()
    if record is not None:
        record.append(made)
    return made


_recorded: ContextVar[list[T] | None] = ContextVar("recorded", default=None)


@contextmanager
def recorded_requires() -> Generator[list[T], None, None]:
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
    if not 0 <= k < half:
        raise UserError(f"scan of accumulator {k} of a fold that has {half}")
    dtype = node.args[k].dtype
    interval = (min(node.args[k].lo, node.args[half + k].lo), max(node.args[k].hi, node.args[half + k].hi))
    shape = (*rest[:axis], node.attr.n + 1, *rest[axis:])
    return make_tensor("scan", shape, dtype, interval, node.reads, body=node, k=k, axis=axis)


def scatter(base: T, domain: Sequence[int], indices: Sequence[Index], body: E, combine: str | None = None) -> T:
    """y = base; for u in domain, lexicographic: y[indices(u)] = combine(y[indices(u)], body(u)); combine None: = body(u)."""
    domain = tuple(domain)
    idx = tuple(as_index(i) for i in indices)
    _check_axes("scatter", domain, body, *idx)
    if len(idx) != len(base.shape) or body.dtype is not base.dtype:
        raise UserError(f"scatter of {body.dtype.name} with {len(idx)} indices into {base!r}")
    reads = union([body.reads, *(v.e.reads for i in idx for v in values(i))], NO_TENSORS) | {base}
    full = FULL[base.dtype]
    interval = (min(base.lo, body.lo), max(base.hi, body.hi)) if combine is None else full
    return make_tensor("scatter", base.shape, base.dtype, interval, reads,
                   base=base, domain=domain, indices=idx, body=body, combine=combine)  # fmt: skip


def extern(name: str, args: Sequence[T], params: Sequence[Any], output: int, shape: Sequence[int], dtype: DType,
           lo: int | None = None, hi: int | Ix | None = None) -> T:  # fmt: skip
    """Output `output` of the named reference function of `args`; [lo, hi] is what its contract says of integer results."""
    full = FULL[dtype]
    interval = (full[0] if lo is None else lo, full[1] if hi is None else hi.hi if isinstance(hi, Ix) else hi)
    end = {"end": hi} if isinstance(hi, Ix) else {}
    return make_tensor("extern", tuple(shape), dtype, interval, args,
                   name=name, args=tuple(args), params=tuple(params), output=output, **end)  # fmt: skip


def order(outputs: Iterable[T]) -> list[T]:
    """The tensors that `outputs` depend on, and they themselves, each after what it reads (creation order)."""
    seen = set(outputs)
    stack = list(seen)
    while stack:
        for r in stack.pop().reads:
            if r not in seen:
                seen.add(r)
                stack.append(r)
    return sorted(seen, key=by_creation)


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
        return require(t.shape, body, cond, t.message, lo=t.lo, hi=t.hi if t.end is None else t.end)  # type: ignore[arg-type]
    if t.kind == "scan":
        node = substitute(t.body, {}, on_load)
        rest = t.shape[: t.axis] + t.shape[t.axis + 1 :]
        return scan(rest, node, t.k, t.axis)
    if t.kind == "scatter":
        body = substitute(t.body, {}, on_load)
        idx = tuple(as_index(substitute(index(i), {}, on_load)) if any(True for _ in values(i)) else i for i in t.indices)
        return scatter(tensor_map(t.base), t.domain, idx, body, t.combine)
    return extern(
        t.name, tuple(map(tensor_map, t.args)), t.params, t.output, t.shape, t.dtype, t.lo, t.hi if t.end is None else t.end
    )  # type: ignore[arg-type]
