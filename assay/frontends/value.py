"""Immutable values under a stack of interpreters.

    STACK = [bottom, ..., top];   process(op, args) = top.process(op, args), which may go `below` itself

The bottom computes: Eager runs the operator's core program on arrays, Abstract knows shapes only.  Whatever stands above
(Trace, Decompose, Autograd, Dual) sees every operator that reaches it and keeps what it knows of a value in
`value.meta[interpreter instance]`: there are no wrapper types, and two levels of one kind cannot be confused.
The stack is thread-local; every thread starts with Eager and the levels of `everywhere` (autograd.py adds one).

Retracing, decomposing, differentiating or evaluating a graph is running it under another stack.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from assay.core import graph
from assay.core.dtypes import DTYPES, DType, bool_
from assay.core.errors import UserError
from assay.core.graph import Graph, Names, Node
from assay.core.lang import Program, requires, size_of
from assay.core.operators.registry import TENSOR_TYPES, Operator, lookup, resolve
from assay.core.operators.schema import describe
from assay.frontends import source
from assay.frontends.layout import Layout, contiguous_strides, layouts, strided
from assay.semantics import denote

_LIST_RESULTS: dict[Operator, bool] = {}
_DTYPE = {d.numpy: d for d in DTYPES.values()}


class Writes:
    """How often some memory was written, and by which operator last."""

    __slots__ = ("count", "writer")

    def __init__(self) -> None:
        self.count = 0
        self.writer = ""


class Value:
    """A tensor value, immutable until a tensor handle on its memory is written.

    `array` holds its elements (None under Abstract), `strides` counts elements (it decides whether a reshape is a view),
    `shares` says that it lies in the memory of the first argument of the view that made it, `meta` is what each
    interpreter knows of it, `writes` counts the writes to its memory once a handle owns that.
    """

    __slots__ = ("array", "dtype", "meta", "shape", "shares", "strides", "writes")
    array: np.ndarray | None
    shape: tuple[int, ...]
    dtype: DType
    strides: tuple[int, ...]
    meta: dict[Any, Any]
    shares: bool
    writes: Writes | None

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.shape = array.shape
        self.dtype = _DTYPE[array.dtype]
        size = array.itemsize
        self.strides = tuple([s // size for s in array.strides])
        self.meta = {}
        self.shares = False
        self.writes = None

    def __repr__(self) -> str:
        return f"<value {self.dtype.name}{list(self.shape)}{'' if self.array is not None else ' abstract'}>"


TENSOR_TYPES.append(Value)


def abstract(shape: tuple[int, ...], dtype: DType, strides: tuple[int, ...] | None = None) -> Value:
    """A value of which only shape, type and strides are known (None: contiguous)."""
    v = Value.__new__(Value)
    v.array, v.shape, v.dtype, v.meta, v.shares, v.writes = None, shape, dtype, {}, False, None
    v.strides = contiguous_strides(shape) if strides is None else strides
    return v


def leaked(value: Value) -> UserError:
    """The error of using a value whose capture is over."""
    return UserError(
        f"{source.quoted()}  this uses a tensor ({value.dtype.name}{list(value.shape)}) of a capture that is over, so it has no "
        "elements; return tensors from a captured function instead of keeping them in a global or an attribute"
    )


def _shared(v: Value) -> Value:
    v.shares = True
    return v


def same_value(v: Value, strides: tuple[int, ...]) -> Value:
    """The value `v`, as it lies in memory with these strides."""
    made = abstract(v.shape, v.dtype, strides)
    made.array, made.meta = v.array, dict(v.meta)
    return made


def values_in(args: Any) -> Iterator[Value]:
    """The values among the arguments, lists included, in order."""
    for a in args:
        if isinstance(a, Value):
            yield a
        elif isinstance(a, tuple | list):
            yield from values_in(a)


def has_list_result(op: Operator) -> bool:
    """Whether the operator returns a tuple of tensors, also one of none."""
    found = _LIST_RESULTS.get(op)
    if found is None:
        found = _LIST_RESULTS[op] = len(op.returns) != 1 or op.schema.text.endswith("[]")
    return found


def view_layouts(op: Operator, args: tuple[Any, ...]) -> tuple[Layout, ...] | None:
    """How the results of a view operator lie in the memory of its first argument; None: not expressible, a copy is due."""
    found = layouts(op.program(*args), args[0].strides)
    return None if None in found else found  # type: ignore[return-value]


# ------------------------------------------------------------------------------------------------ interpreters


class Interpreter:
    """One level of the stack.  `annotates`: what it knows of a value goes with the value, so writing in place concerns it."""

    annotates = False

    def check_write(self, whole: Value, writer: str) -> None:
        """Raises where the storage `whole` must not be written in place."""

    def before_write(self, new: Value, writes: Writes) -> None:
        """Called before `new` is written in place to memory with these `writes`."""

    def after_write(self, before: Value, after: Value) -> None:
        """Called when a storage that was `before` has become `after`."""

    def process(self, op: Operator, args: tuple[Any, ...]) -> Any:
        """The Value, or tuple of Values, of the operator on all its arguments."""
        raise NotImplementedError


class Eager(Interpreter):
    """The bottom that computes: the operator's core program under the bitwise reference; a view shares memory."""

    def process(self, op: Operator, args: tuple[Any, ...]) -> Any:
        placed = view_layouts(op, args) if op.view else None
        if placed is not None:
            made = [_shared(Value(strided(args[0].array, layout))) for layout in placed]
        else:
            program = op.program(*args)
            _check_memory(op, program)
            arrays = [v.array for v in values_in(args)]
            made = [Value(a) for a in (denote.run(program, arrays) if op.backend is None else op.backend(program)(arrays))]
        return tuple(made) if has_list_result(op) else made[0]


def _check_memory(op: Operator, program: Program) -> None:
    """Raises UserError where the results alone are larger than the memory of this machine."""
    wanted = sum(map(size_of, program.outputs))
    if wanted > 1 << 30 and wanted > (there := os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")):
        raise UserError(f"{source.quoted()}  {op.name}: the result does not fit in memory: {wanted} bytes of {there}")


class Abstract(Interpreter):
    """The bottom that knows shapes only."""

    def process(self, op: Operator, args: tuple[Any, ...]) -> Any:
        placed = view_layouts(op, args) if op.view else None
        if placed is not None:
            made = [_shared(abstract(p.shape, args[0].dtype, p.strides)) for p in placed]
        else:
            made = [abstract(t.shape, t.dtype) for t in op.program(*args).outputs]
        return tuple(made) if has_list_result(op) else made[0]


class Trace(Interpreter):
    """Records every operator that reaches it, as nodes of a graph.

    `cells` holds, for each mutable cell from outside, the cell that stands for it during the capture; `outside`, for each
    placeholder that the function found elsewhere, the cell it is bound to; `functions`, the Functions of the user that ran;
    `hooked`, the nodes that something was asked to be done at when their gradient is there, and where in the user's text;
    `met(cell, value)` is told of each such cell and the value that stands for it.
    Where it is muted, as no_grad asks, the results are constants for derivatives: each goes through detach.
    """

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.inputs: list[Node] = []
        self.names = Names()
        self.cells: dict[Any, Any] = {}
        self.outside: dict[Node, Any] = {}
        self.functions: list[str] = []
        self.hooked: list[tuple[str, Any]] = []
        self.met: Callable[[Any, Value], None] | None = None

    def placeholder(self, value: Value, name: str) -> Node:
        """A new input of the graph that stands for `value`."""
        node = Node(graph.PLACEHOLDER, self.names.fresh(name), value.shape, value.dtype)
        self.inputs.append(node)
        value.meta[self] = node
        return node

    def placeholders(self, graph: Graph) -> list[Value]:
        """Values for another run of the graph, each with an input like the graph's."""
        values = [abstract(n.shape, n.dtype) for n in graph.inputs]
        for value, node in zip(values, graph.inputs, strict=True):
            self.placeholder(value, node.name).value = node.value
        return values

    def retraced(self, graph: Graph, results: Sequence[Value]) -> Graph:
        """What another run of the graph has recorded: with its epilogue, returning the other `results`."""
        places = dict(zip(graph.inputs, self.inputs, strict=False))
        nodes, cut = list(map(self.node, results)), len(graph.epilogue)
        epilogue = [(places[place], value) for (place, _), value in zip(graph.epilogue, nodes, strict=False)]
        return Graph(self.inputs, self.nodes, nodes[cut:], epilogue, graph.name).without_dead_code()

    def bind(self, value: Value, array: np.ndarray | None) -> Node:
        """An input that the function did not receive as an argument: a constant, or a tensor from outside."""
        if array is None:
            raise leaked(value)
        node = self.placeholder(value, f"bound_{1 + sum(n.value is not None for n in self.inputs)}")
        node.value = array
        return node

    def node(self, x: Any) -> Any:
        """The argument with its values replaced by the nodes that stand for them."""
        if isinstance(x, Value):
            return x.meta.get(self) or self.bind(x, x.array)
        return tuple(map(self.node, x)) if isinstance(x, list | tuple) else x

    def process(self, op: Operator, args: tuple[Any, ...]) -> Any:
        out = self._recorded(op, args)
        if self not in STATE.muted or op.base == "detach":
            return out
        return tuple(map(self._constant, out)) if isinstance(out, tuple) else self._constant(out)

    def _constant(self, v: Value) -> Value:
        if not v.dtype.is_float:
            return v
        made = self._recorded(lookup("detach.default"), (v,))
        made.shares = v.shares
        return made

    def _recorded(self, op: Operator, args: tuple[Any, ...]) -> Any:
        out = down(self, op, args)
        nodes = tuple(map(self.node, args))
        made = out if isinstance(out, tuple) else (out,)
        call = Node(
            graph.CALL, self.names.fresh(op.base), made[0].shape if made else (), made[0].dtype if made else bool_,
            target=op, args=nodes, outputs=tuple((v.shape, v.dtype) for v in made) if isinstance(out, tuple) else (),
            partial=bool(requires(op.program(*args))), where=source.where(),
        )  # fmt: skip
        self.nodes.append(call)
        if not isinstance(out, tuple):
            out.meta[self] = call
        else:
            for k, v in enumerate(out):
                item = Node(graph.GETITEM, self.names.fresh("getitem"), v.shape, v.dtype, args=(call, k), where=call.where)
                self.nodes.append(item)
                v.meta[self] = item
        return out


class Decompose(Interpreter):
    """Replaces operators outside the basis by their decomposition, which runs through the whole stack again."""

    def __init__(self, basis: frozenset[str] = frozenset()) -> None:
        self.basis = basis

    def process(self, op: Operator, args: tuple[Any, ...]) -> Any:
        if op.decompose is not None and op.name not in self.basis:
            return op.decompose(apply_by_name, *args)
        return down(self, op, args)


# ------------------------------------------------------------------------------------------------ the stack

EAGER = Eager()
_START: list[Interpreter] = [EAGER]


class _State(threading.local):
    """The stack of this thread, the innermost trace in it, and the levels that let everything pass (as no_grad asks)."""

    def __init__(self) -> None:
        self.stack: tuple[Interpreter, ...] = tuple(_START)
        self.trace: Trace | None = None
        self.muted: frozenset[Interpreter] = frozenset()


STATE = _State()


def everywhere(level: Interpreter) -> None:
    """Put the level on the stack of this thread and of those that start later."""
    _START.append(level)
    STATE.stack = (*STATE.stack, level)


def annotating_levels() -> list[Interpreter]:
    """The levels of the stack that know something of values."""
    return [level for level in STATE.stack if level.annotates]


def live_levels() -> list[Interpreter]:
    """Those of them that are not muted."""
    return [level for level in STATE.stack if level.annotates and level not in STATE.muted]


def is_annotated(*values: Value) -> bool:
    """Whether a level that annotates now knows something of one of the values."""
    return any(level in v.meta for level in live_levels() for v in values)


@contextmanager
def muted(levels: frozenset[Interpreter]) -> Iterator[None]:
    """Exactly these levels let everything pass."""
    old = STATE.muted
    STATE.muted = levels
    try:
        yield
    finally:
        STATE.muted = old


def recording(level: Interpreter, *, wanted: bool) -> AbstractContextManager[None]:
    """The level sees what happens, or, where that is not wanted, lets it pass."""
    return muted(STATE.muted - {level} if wanted else STATE.muted | {level})


@contextmanager
def pushed(level: Interpreter) -> Iterator[None]:
    """One more level on top of the stack."""
    old = STATE.stack
    STATE.stack = (*old, level)
    try:
        yield
    finally:
        STATE.stack = old


def process(op: Operator, args: tuple[Any, ...]) -> Any:
    """The operator on values, all arguments given, under the present stack."""
    return STATE.stack[-1].process(op, args)


def apply_by_name(name: str, *args: Any, **kwargs: Any) -> Any:
    """The operator "base" (resolved by its arguments) or "base.overload" on values under the present stack.

    For an overload, all arguments may stand in the order of the schema, keyword-only ones too.
    """
    if "." in name and not kwargs:
        params = lookup(name).params
        if len(args) == len(params):
            kwargs = {p.name: a for p, a in zip(params, args, strict=True) if p.keyword_only}
            args = args[: len(args) - len(kwargs)]
    return process(*find(name, args, kwargs))


def find(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Operator, tuple[Any, ...]]:
    """The operator "base.overload", or the overload of "base" that the arguments fit, and all its arguments.

    Raises UserError where they do not fit.
    """
    if "." not in name:
        return resolve(name, args, kwargs)
    op = lookup(name)
    filled = op.fill(args, kwargs)
    if filled is None:
        raise UserError(f"{op.name}({describe(args, kwargs)}): the arguments do not fit {op.schema.text}")
    return op, filled


def down(level: Interpreter, op: Operator, args: tuple[Any, ...]) -> Any:
    """The operator under the levels that stand below `level`."""
    with below(level):
        return process(op, args)


@contextmanager
def below(level: Interpreter) -> Iterator[None]:
    """The stack without `level` and what stands above it."""
    old = STATE.stack
    STATE.stack = old[: old.index(level)]
    try:
        yield
    finally:
        STATE.stack = old


@contextmanager
def interpreters(*stack: Interpreter) -> Iterator[None]:
    """Another stack, bottom first."""
    old = STATE.stack, STATE.trace
    STATE.stack = stack
    STATE.trace = next((level for level in reversed(stack) if isinstance(level, Trace)), None)
    try:
        yield
    finally:
        STATE.stack, STATE.trace = old
