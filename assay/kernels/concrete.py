"""The concrete domain: one program of a kernel at given sizes, lanes as numpy arrays, integers of the machine's width (they
wrap).

It replays counterexamples before they are shown, and is the oracle of the tests: every access is recorded as an `Event`,
with the offset and the mask of every lane. float16 is computed as such; bfloat16 and the 8-bit floats as float32.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol

import numpy as np

from assay.core.errors import Unsupported
from assay.kernels.operators import Value
from assay.kernels.source import Module
from assay.kernels.types import BOOL, I32, PointerType, Type
from assay.kernels.walker import Env, Return, Walker

WORK = 1 << 25  # elements computed by one replay
OPERATION = 256  # the elements that an operation costs beside its own
RUNS = 1 << 16  # iterations of a for loop
WAITS = 1 << 10  # iterations of a while loop: it may wait for another program


class FloatsNeeded(Exception):
    """A condition or an index depends on a float, and floats are not computed."""


class TooLong(Exception):
    """The run needs more work than is allowed."""


@dataclass(frozen=True)
class Memory:
    """A tensor of the launch, as the kernel sees it."""

    name: str
    type: Type
    count: int


class Store(Protocol):
    """Where elements live."""

    def read(self, tensor: Memory, offsets: Any) -> Any: ...
    def write(self, tensor: Memory, offsets: Any, values: Any) -> None: ...


class Arrays:
    """Elements in numpy arrays; reading outside gives 0, writing outside does nothing (the event says that it happened)."""

    def __init__(self, arrays: Mapping[str, Any]) -> None:
        self.arrays = arrays

    def read(self, tensor: Memory, offsets: Any) -> Any:
        a = self.arrays[tensor.name]
        inside = (offsets >= 0) & (offsets < len(a))
        if not len(a):
            return np.zeros(np.shape(offsets), a.dtype)
        return np.where(inside, a[np.where(inside, offsets, 0)], np.zeros((), a.dtype))

    def write(self, tensor: Memory, offsets: Any, values: Any) -> None:
        a = self.arrays[tensor.name]
        inside = (offsets >= 0) & (offsets < len(a))
        a[offsets[inside]] = values[inside]


class Sparse:
    """Elements by offset where a counterexample says so, else the least of their range; floats are 1."""

    def __init__(self, given: Mapping[tuple[str, int], int], least: Mapping[str, int]) -> None:
        self.given, self.least = given, least

    def read(self, tensor: Memory, offsets: Any) -> Any:
        found = np.full(np.shape(offsets), 1 if tensor.type.is_float else self.least.get(tensor.name, 0), tensor.type.numpy)
        for (name, at), v in self.given.items():
            if name == tensor.name:
                found[offsets == at] = v
        return found

    def write(self, tensor: Memory, offsets: Any, values: Any) -> None:
        """What is written is not read back: it has no part in the counterexample."""


@dataclass(frozen=True)
class Event:
    """One execution of an access (offsets and mask of every lane), of an operation that does not fit, or of a broken promise."""

    kind: str  # load, store, atomic, overflow, hint
    node: ast.AST
    line: int
    program: tuple[int, ...]
    tensor: Memory | None = None
    offsets: Any = None
    mask: Any = None
    value: Any = None

    @property
    def outside(self) -> Any:
        """Which lanes access what the tensor does not have."""
        assert self.tensor is not None
        return self.mask & ((self.offsets < 0) | (self.offsets >= self.tensor.count))


class Concrete(Walker):
    """Runs one program of a kernel."""

    def __init__(
        self,
        module: Module,
        store: Store,
        program: tuple[int, ...],
        grid: tuple[int, ...],
        *,
        work: int = WORK,
        floats: bool = True,
    ) -> None:
        super().__init__(module)
        self.floats = floats  # without, every float is 0, and FloatsNeeded is raised where one is looked at
        self.store, self.ids, self.grid, self.work = store, program, grid, work
        self.events: list[Event] = []

    def run(self, kernel: ast.FunctionDef, arguments: Mapping[str, Any]) -> list[Event]:
        """Runs the kernel; an argument is a Memory, (Type, number), or a compile-time value."""
        env: Env = {}
        for name, v in arguments.items():
            if isinstance(v, Memory):
                env[name] = Value(PointerType(v.type), (), (v, np.int64(0)))
            elif isinstance(v, tuple) and len(v) == 2 and isinstance(v[0], Type):
                env[name] = self.constant(v[1], v[0])
            else:
                env[name] = v
        with np.errstate(all="ignore"):
            self.body(kernel, env)
        return self.events

    def _event(self, kind: str, **what: Any) -> None:
        self.events.append(Event(kind, self.node, getattr(self.node, "lineno", 0), self.ids, **what))

    def _made(self, type_: Any, shape: tuple[int, ...], data: Any) -> Value:
        self.work -= OPERATION + prod(shape)
        if self.work < 0:
            raise TooLong
        return Value(type_, shape, data)

    # -------------------------------------------------------------------------------------------- values

    def _skipped(self, type_: Any) -> bool:
        return not self.floats and type_.is_float

    def _zero(self, type_: Type, shape: tuple[int, ...]) -> Value:
        self.work -= OPERATION
        return Value(type_, shape, np.broadcast_to(type_.numpy(0), shape))

    def constant(self, v: bool | int | float, type_: Type, shape: tuple[int, ...] = ()) -> Value:  # noqa: FBT001
        if self._skipped(type_):
            return self._zero(type_, shape)
        if type_.is_integer:
            v = (int(v) - type_.lo) % (1 << type_.bits) + type_.lo
        return self._made(type_, shape, np.full(shape, v, type_.numpy))

    def known(self, v: Value) -> Any:
        if self._skipped(v.type):
            raise FloatsNeeded
        return None if isinstance(v.type, PointerType) else np.asarray(v.data).item()

    def interval(self, v: Value) -> tuple[int, int]:
        """A range of an integer value (of its elements)."""
        return int(np.min(v.data)), int(np.max(v.data))

    def computed(
        self,
        what: str,
        type_: Type,
        shape: tuple[int, ...],
        f: Callable[..., Any],
        *values: Value,
        lo: int | None = None,
        hi: int | None = None,
    ) -> Value:
        """The result of a function of arrays."""
        if self._skipped(type_):
            return self._zero(type_, shape)
        if any(self._skipped(v.type) for v in values):
            raise FloatsNeeded
        self.work -= sum(int(np.size(v.data)) for v in values)
        return self._made(type_, shape, np.asarray(f(*(np.asarray(v.data) for v in values))).astype(type_.numpy).reshape(shape))

    def program(self, axis: int) -> Value:
        return self.constant(self.ids[axis] if axis < len(self.ids) else 0, I32)

    def programs(self, axis: int) -> Value:
        return self.constant(self.grid[axis] if axis < len(self.grid) else 1, I32)

    def lanes(self, start: int, n: int) -> Value:
        return self._made(I32, (n,), np.arange(start, start + n, dtype=np.int32))

    # -------------------------------------------------------------------------------------------- operations

    def arithmetic(self, op: str, type_: Type, a: Value, b: Value) -> Value:
        if self._skipped(type_):
            return self._zero(type_, a.shape)
        x, y = np.asarray(a.data), np.asarray(b.data)
        if type_.is_bool:
            f = {"and": np.logical_and, "min": np.logical_and, "or": np.logical_or, "max": np.logical_or, "xor": np.logical_xor}[
                op
            ]
            return self._made(type_, a.shape, f(x, y))
        if type_.is_float:
            return self._made(type_, a.shape, _FLOAT[op](x, y).astype(type_.numpy))
        made = np.asarray(_INTEGER[op](x, y)).astype(type_.numpy)
        if type_.kind == "int" and op in ("add", "sub", "mul", "shl"):
            exact = np.asarray(
                _INTEGER[op](x.astype(object), y.astype(object))
                if type_.bits == 64
                else _INTEGER[op](x.astype(np.int64), y.astype(np.int64))
            )
            if (exact != made).any():
                self._event("overflow", value=exact)
        return self._made(type_, a.shape, made)

    def comparison(self, op: str, a: Value, b: Value) -> Value:
        if self._skipped(a.type):
            raise FloatsNeeded
        f = {"lt": np.less, "le": np.less_equal, "eq": np.equal, "ne": np.not_equal}[op]
        x, y = (v.data[1] if isinstance(v.type, PointerType) else v.data for v in (a, b))
        return self._made(BOOL, a.shape, np.asarray(f(x, y)))

    def converted(self, v: Value, type_: Type) -> Value:
        if self._skipped(type_):
            return self._zero(type_, v.shape)
        if self._skipped(v.type):
            raise FloatsNeeded
        x = np.asarray(v.data)
        if type_.is_bool:
            return self._made(type_, v.shape, x != 0)
        if v.type.is_float and type_.is_integer:
            finite = np.nan_to_num(np.trunc(x.astype(np.float64)), nan=0.0)
            exact = [min(max(int(e), type_.lo), type_.hi) for e in np.ravel(finite)]
            x = np.array(exact, object).reshape(np.shape(finite))
        elif v.type.is_integer and type_.is_integer and type_.kind == "int" and ((x < type_.lo) | (x > type_.hi)).any():
            self._event("overflow", value=x)
        return self._made(type_, v.shape, np.asarray(x).astype(type_.numpy))

    def choice(self, c: Value, a: Value, b: Value) -> Value:
        if isinstance(a.type, PointerType):
            if a.data[0] is not b.data[0]:
                self.unsupported("a choice between pointers to different tensors", "choose between the loaded values")
            return self._made(a.type, a.shape, (a.data[0], np.where(c.data, a.data[1], b.data[1])))
        if self._skipped(a.type):
            return self._zero(a.type, a.shape)
        return self._made(a.type, a.shape, np.where(c.data, a.data, b.data))

    def moved(self, v: Value, offset: Value) -> Value:
        tensor, at = v.data
        return self._made(v.type, v.shape, (tensor, np.asarray(at) + np.asarray(offset.data).astype(np.int64)))

    # -------------------------------------------------------------------------------------------- shapes

    def _reshaped(self, v: Value, shape: tuple[int, ...], f: Callable[[Any], Any]) -> Value:
        if isinstance(v.type, PointerType):
            return self._made(v.type, shape, (v.data[0], f(np.asarray(v.data[1]))))
        return self._made(v.type, shape, f(np.asarray(v.data)))

    def expanded(self, v: Value, axis: int) -> Value:
        if not 0 <= axis <= len(v.shape):
            self.wrong(f"there is no axis {axis} in the shape {list(v.shape)}")
        shape = (*v.shape[:axis], 1, *v.shape[axis:])
        return self._reshaped(v, shape, lambda a: a.reshape(shape))

    def stretched(self, v: Value, shape: tuple[int, ...]) -> Value:
        return self._reshaped(v, shape, lambda a: np.broadcast_to(a, shape))

    def permuted(self, v: Value, order: tuple[int, ...]) -> Value:
        return self._reshaped(v, tuple(v.shape[k] for k in order), lambda a: np.transpose(a, order))

    def reshaped(self, v: Value, shape: tuple[int, ...]) -> Value:
        return self._reshaped(v, shape, lambda a: a.reshape(shape))

    # -------------------------------------------------------------------------------------------- memory

    def _access(self, kind: str, pointers: Value, mask: Value | None, value: Any = None) -> tuple[Memory, Any, Any]:
        tensor, at = pointers.data
        offsets = np.broadcast_to(np.asarray(at), pointers.shape)
        m = np.ones(pointers.shape, np.bool_) if mask is None else np.broadcast_to(mask.data, pointers.shape)
        self._event(kind, tensor=tensor, offsets=offsets, mask=m, value=value)
        return tensor, offsets, m

    def read(self, pointers: Value, mask: Value | None, other: Value | None) -> Value:
        tensor, offsets, m = self._access("load", pointers, mask)
        if self._skipped(tensor.type):
            return self._zero(tensor.type, pointers.shape)
        found = self.store.read(tensor, np.where(m, offsets, 0))
        rest = other.data if other is not None else np.zeros((), tensor.type.numpy)
        return self._made(tensor.type, pointers.shape, np.where(m, found, rest).astype(tensor.type.numpy))

    def write(self, pointers: Value, value: Value, mask: Value | None) -> None:
        v = np.broadcast_to(value.data, pointers.shape)
        tensor, offsets, m = self._access("store", pointers, mask, v)
        if not self._skipped(tensor.type):
            self.store.write(tensor, offsets[m], v[m])

    def update(self, name: str, pointers: Value, values: tuple[Value, ...], mask: Value | None) -> Value:
        tensor, offsets, m = self._access("atomic", pointers, mask)
        if self._skipped(tensor.type):
            return self._zero(tensor.type, pointers.shape)
        old = np.zeros(pointers.shape, tensor.type.numpy)
        args = [np.broadcast_to(v.data, pointers.shape) for v in values]
        for i in np.ndindex(pointers.shape):
            if m[i]:
                at = np.array([int(offsets[i])])
                before = self.store.read(tensor, at)
                new = _ATOMIC[name](before, *(a[i] for a in args))
                old[i] = before[0]
                self.store.write(tensor, at, np.asarray(new).astype(tensor.type.numpy).reshape(1))
        return self._made(tensor.type, pointers.shape, old)

    # -------------------------------------------------------------------------------------------- hints

    def hinted(self, kind: str, v: Value, values: tuple[int, ...]) -> Value:
        x = np.asarray(v.data[1] if isinstance(v.type, PointerType) else v.data)
        for k, d in enumerate(values if len(values) == max(1, x.ndim) else values[-1:] * max(1, x.ndim)):
            rows = np.moveaxis(x, k, 0) if x.ndim else x.reshape(1)
            i = np.arange(len(rows))
            if kind == "multiple_of":
                kept = (rows[0] % d == 0).all()
            else:
                rise = ((i % d) if kind == "max_contiguous" else np.zeros_like(i)).reshape(-1, *(1,) * (rows.ndim - 1))
                kept = (rows == rows[i - i % d] + rise).all()
            if not kept:
                self._event("hint")
        return v

    def assumed(self, c: Value) -> None:
        if not np.all(c.data):
            self._event("hint")

    # -------------------------------------------------------------------------------------------- control

    def branch(self, node: ast.If, condition: Value, env: Env) -> Return | None:
        raise Unsupported(f"{self.where()}: a condition that is no scalar")

    def loop(self, node: ast.For, bounds: tuple[Any, Any, Any], env: Env) -> None:
        values = [self.int32(b) for b in bounds]
        t = self.common(self.constant(0, self.common(values[0], values[1])), values[2])
        run = range(*(int(v.data) for v in values))
        if len(run) > RUNS:
            raise TooLong
        for i in run:
            self.assign(node.target, self.constant(i, t), env)
            self.inside(node.body, env)
        if run and not t.lo <= run[-1] + run.step <= t.hi:
            self.node = node.iter
            self._event("overflow", value=np.asarray(run[-1] + run.step))

    def while_(self, node: ast.While, env: Env) -> None:
        for _ in range(WAITS):
            if not self.truth(self.expr(node.test, env)):
                return
            self.inside(node.body, env)
        raise TooLong


def _truncated(a: Any, b: Any) -> Any:
    """C's division; by 0 it is 0 here."""
    d = np.where(b == 0, np.ones((), np.asarray(b).dtype), b)
    q = a // d
    return np.where(b == 0, 0, q + ((q * d != a) & ((a < 0) != (d < 0)))).astype(np.asarray(a).dtype)


def _shifted(f: Callable[..., Any]) -> Callable[..., Any]:
    def shift(a: Any, b: Any) -> Any:
        if a.dtype == object:
            return np.vectorize(lambda x, y: x << y if y < 128 else 0, otypes=[object])(a, b)
        bits = 8 * a.dtype.itemsize
        return np.where((b >= 0) & (b < bits), f(a, np.clip(b, 0, bits - 1)), 0)

    return shift


_INTEGER: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": _truncated,
    "mod": lambda a, b: a - _truncated(a, b) * b,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "shl": _shifted(np.left_shift),
    "shr": _shifted(np.right_shift),
    "min": np.minimum,
    "max": np.maximum,
}
_FLOAT: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "mod": np.fmod,
    "floordiv": np.floor_divide,
    "min": np.fmin,
    "max": np.fmax,
}
_ATOMIC: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "xchg": lambda old, new: new,
    "cas": lambda old, expected, new: np.where(old == expected, new, old),
}


def run_all(
    module: Module,
    kernel: ast.FunctionDef,
    arguments: Mapping[str, Any],
    grid: tuple[int, ...],
    store: Store,
    *,
    work: int = WORK,
    floats: bool = True,
) -> Iterable[Event]:
    """The events of every program of the grid, one program after another."""
    for index in np.ndindex(*grid):
        walker = Concrete(module, store, tuple(int(i) for i in index), grid, work=work, floats=floats)
        yield from walker.run(kernel, arguments)
        work = walker.work
