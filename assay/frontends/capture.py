"""Capture: a Python function becomes an operator graph by running it on tensors that have shapes and no elements.

    trace(f, *args, **kwargs) -> Graph          capture(f, args, kwargs) -> Captured: the graph and how a call uses it

Arguments may be nested (optree); tensors and numpy arrays among them become placeholders primals_1, primals_2, ...; whatever else
stands there is specialised.  Tensors that the function finds elsewhere, and the state of the random generator, become
inputs bound to their memory.  In-place updates and views leave no mutation in the graph: a changed input comes back
in the epilogue, and an output that shares storage with an input is made again as a view of the actual argument.
The real tensors are never written during a capture.
"""

from __future__ import annotations

import functools
import inspect
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import optree

from assay.core.errors import Unsupported, UserError
from assay.core.graph import Graph, Node
from assay.core.index import is_symbolic
from assay.frontends.autograd import AUTOGRAD, Edge, GradientsInside, Leaf, Outer, is_gone, make_leaf
from assay.frontends.cell import Cell, Chain
from assay.frontends.creation import from_numpy
from assay.frontends.history import History
from assay.frontends.layout import overlaps
from assay.frontends.source import quoted_line
from assay.frontends.tensor import Tensor
from assay.frontends.value import (
    STATE,
    Abstract,
    Decompose,
    Interpreter,
    Trace,
    Value,
    abstract,
    interpreters,
    muted,
    process,
)


@dataclass(frozen=True)
class Source:
    """What a graph input is at a call.

    argument  the tensor argument `index`            storage   the whole storage of the tensor argument `index`
    outside   the storage `cell`, met elsewhere      constant  the elements `array`
    gradient  the .grad of the tensor argument `index`, or of what is in `cell`
    """

    kind: str
    index: int = -1
    cell: Cell | None = None
    array: np.ndarray | None = None

    def storage(self, tensors: Sequence[Tensor]) -> Cell | None:
        """The storage at a call with these tensor arguments; None for a constant."""
        if self.kind == "gradient":
            return self.leaf(tensors).grad.cell
        return tensors[self.index].cell if self.kind in ("argument", "storage") else self.cell

    def memory(self, tensors: Sequence[Tensor]) -> np.ndarray:
        """The array at a call with these tensor arguments."""
        if self.kind == "gradient":
            return self.leaf(tensors).grad.value.array
        if self.kind == "argument":
            return tensors[self.index].value.array  # type: ignore[return-value]
        cell = self.storage(tensors)
        return self.array if cell is None else cell.array  # type: ignore[return-value]

    def leaf(self, tensors: Sequence[Tensor]) -> Leaf:
        """The leaf that the tensor is at a call with these tensor arguments."""
        return self.value(tensors).meta[AUTOGRAD][0]

    def value(self, tensors: Sequence[Tensor]) -> Value:
        """The tensor whose gradient it is about, at a call."""
        return tensors[self.index].value if self.cell is None else self.cell.value


@dataclass(frozen=True)
class Output:
    """What one leaf of the result is at a call.

    result    `index` of the graph's outputs, seen through `chain`
    argument  the tensor argument `index`, seen through `chain`
    storage   the storage of the tensor argument `index`, seen through `chain`
    outside   the tensor `value`, met elsewhere      static    `value`, not a tensor
    gradient  the .grad that is the source `value`, seen through `chain`
    """

    kind: str
    index: int = -1
    chain: Chain = ()
    value: Any = None


@dataclass(frozen=True)
class Captured:
    """A captured call: the graph, what its inputs, its epilogue (`changed`) and the leaves of its result are at a call.

    `functions`: the user's own Functions that ran, whose backward the graph does not know; `hooks`: the lines that registered a
    hook, which only a backward inside of the function calls.
    `leaves`: of a function that asks for gradients itself (otherwise None), what it uses, with its state of `leaf_state`;
    `gradients`: the leaves that get another .grad, and what that is; `history`: the way back, where Functions ran.
    """

    graph: Graph
    sources: tuple[Source, ...]
    changed: tuple[Source, ...]
    outputs: tuple[Output, ...]
    structure: Any
    grouped: bool
    outside: frozenset[Cell]
    functions: tuple[str, ...]
    hooks: tuple[str, ...] = ()
    leaves: tuple[tuple[Source, Any], ...] | None = None
    gradients: tuple[tuple[Source, Output], ...] = ()
    history: History | None = None


def is_tensor(x: Any) -> bool:
    """Whether an argument is captured as a placeholder."""
    return isinstance(x, Tensor | np.ndarray)


def with_handles(leaves: Sequence[Any]) -> list[Any]:
    """The leaves with a tensor over each array's memory in its place; the same array gives the same tensor."""
    made: dict[int, Tensor] = {}
    return [made.setdefault(id(x), from_numpy(x)) if isinstance(x, np.ndarray) else x for x in leaves]


def flatten(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], Any]:
    """The leaves of the arguments and their structure."""
    leaves, structure = optree.tree_flatten((args, kwargs), none_is_leaf=True)  # type: ignore[arg-type]
    return leaves, structure


def trace(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Graph:
    """The operator graph of f(*args, **kwargs), in place of its evaluation.

    Every call is a unique overload with its defaults filled in; the graph is functional.  Raises UserError at the user's
    line where Python would need the elements of a tensor.
    """
    return capture(f, args, kwargs).graph


_SUSPENDED = {
    "a generator": inspect.isgeneratorfunction, "a coroutine": inspect.iscoroutinefunction,
    "an asynchronous generator": inspect.isasyncgenfunction,
}  # fmt: skip


def check_function(f: Callable[..., Any]) -> None:
    """Raises UserError where a call of f runs nothing of its body."""
    for kind, holds in _SUSPENDED.items():
        if holds(f) or holds(type(f).__call__):
            name = getattr(f, "__name__", type(f).__name__)
            raise UserError(f"{name} is {kind} function: calling it runs nothing of its body, so there is nothing to compile; "
                            "write a plain function that returns its tensors, in a tuple or list if there are many")  # fmt: skip


def capture(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
            shapes: Sequence[tuple[int, ...]] | None = None) -> Captured:  # fmt: skip
    """The graph of the call and how to call it.

    Arguments are first captured one by one.  Where the function writes to an argument whose storage another argument
    (or the function itself) shares, it is captured again with one placeholder for each storage.
    `shapes` stand for those of the tensor arguments; their extents may depend on sizes.
    """
    if not callable(f):
        raise UserError(f"a function is needed, followed by its arguments, not {type(f).__name__}")
    check_function(f)
    leaves, structure = flatten(args, kwargs)
    handles = with_handles(leaves)
    inside = own = False
    try:
        captured = _Capture(handles, grouped=False, shapes=shapes).run(f, structure)
    except GradientsInside:
        if shapes is not None:
            raise Unsupported(
                "a function that calls backward() or autograd.grad is not captured for all sizes; compile it without dynamic, or "
                "call backward() on its result"
            ) from None
        inside = True
        captured = _Capture(handles, grouped=False, inside=True).run(f, structure)
    if captured.functions and shapes is None:
        own = True
        captured = _Capture(handles, grouped=False, inside=inside, own=True).run(f, structure)
    if captured.changed:
        cells = [h.cell for h in handles if isinstance(h, Tensor)]
        if len(set(cells)) < len(cells) or captured.outside & set(cells):
            captured = _Capture(handles, grouped=True, inside=inside, own=own).run(f, structure)
    return captured


def leaf_state(v: Value) -> Any:
    """What a function that asks for gradients may see of a tensor: whether it requires one, is a leaf, has a .grad.

    The state is None without a gradient, else (is a leaf, has a .grad).
    """
    edge = v.meta.get(AUTOGRAD)
    if edge is None or AUTOGRAD in STATE.muted:
        return None if edge is None else "muted"
    return type(edge[0]) is Leaf, type(edge[0]) is Leaf and edge[0].grad is not None


class _Capture:
    """One run of the function on stand-ins."""

    def __init__(self, handles: Sequence[Any], *, grouped: bool, shapes: Sequence[tuple[int, ...]] | None = None,
                 inside: bool = False, own: bool = False) -> None:  # fmt: skip
        self.level = Trace()
        self.history = History(self.level) if own else None
        self.grouped = grouped
        self.inside = inside
        self.muted = STATE.muted & {AUTOGRAD} if inside else frozenset[Interpreter]()
        self.leaves: list[tuple[Source, Any]] = []
        self.known: list[tuple[Source, Leaf, Tensor | None]] = []  # each leaf, and the .grad that it starts with
        self.grads: dict[Cell, Node] = {}
        self.edges: dict[Edge, Edge] = {}
        if inside or own:
            self.level.met = lambda cell, value: self._known_as(cell.value, value, Source("gradient", cell=cell))
        self.sources: dict[Node, Source] = {}
        self.stand_ins: dict[Cell, tuple[int, Node]] = {}  # of arguments: the first argument, its placeholder
        self.given: list[Any] = []
        real = [(h, h.cell.value if grouped else h.value) for h in handles if isinstance(h, Tensor)]
        made: dict[Any, Cell] = {}
        for k, (handle, value) in enumerate(real):
            key = handle.cell if grouped else k
            if key not in made:
                shape = value.shape if shapes is None or grouped else shapes[k]
                made[key] = self._stand_in(value, shape, Source("storage" if grouped else "argument", k))
                if grouped:
                    self.level.cells[handle.cell] = made[key]
        inside = iter([Tensor(made[h.cell if grouped else k], h.chain if grouped else ()) for k, (h, _) in enumerate(real)])
        self.given = [next(inside) if isinstance(h, Tensor) else h for h in handles]

    def _stand_in(self, real: Value, shape: tuple[int, ...], source: Source) -> Cell:
        value = abstract(shape, real.dtype, None if any(map(is_symbolic, shape)) else real.strides)
        node = self.level.placeholder(value, f"primals_{len(self.stand_ins) + 1}")
        self.sources[node] = source
        self._known_as(real, value, Source("gradient", source.index))
        cell = Cell(None, value, self.level)
        self.stand_ins[cell] = source.index, node
        return cell

    def _known_as(self, real: Value, value: Value, source: Source) -> None:
        """What the levels of the capture know of the value that stands for `real`."""
        if self.history is not None:
            self.history.leaf(value)
        if self.inside:
            self._leaf(real, value, source)

    def _leaf(self, real: Value, value: Value, source: Source) -> None:
        """The value that stands for `real` requires a gradient where that does; a .grad that is there becomes an input."""
        state = leaf_state(real)
        self.leaves.append((source, state))
        if state is None:
            return
        edge: Edge = real.meta[AUTOGRAD]
        if edge in self.edges:  # the same tensor a second time
            value.meta[AUTOGRAD] = self.edges[edge]
            return
        node = edge[0]
        if not isinstance(node, Leaf):
            value.meta[AUTOGRAD] = self.edges[edge] = (Outer(AUTOGRAD, node), 0)
            return
        if node.hooks or node.after:
            raise Unsupported(
                "a captured function asks for gradients of a tensor that has hooks, which are Python and would run once only; "
                "remove the hooks, or call backward() on the result outside"
            )
        leaf = make_leaf(value)
        leaf.behind = node
        self.edges[edge] = (leaf, 0)
        if node.grad is not None:
            g = node.grad.value
            stand_in = abstract(g.shape, g.dtype, g.strides)
            place = self.level.placeholder(stand_in, f"grad_{len(self.grads) + 1}")
            self.sources[place] = source
            cell = Cell(None, stand_in, self.level)
            self.grads[cell] = place
            leaf.grad = Tensor(cell)
        self.known.append((source, leaf, leaf.grad))

    def _hooks(self) -> tuple[str, ...]:
        """Where the function registered hooks, or retain_grad().  Raises Unsupported for hooks of what comes from outside."""
        places: list[str] = []
        for place, node in self.level.hooked:
            after = isinstance(node, Leaf) and node.after
            if not (after or node.retained or any((node.hooks or {}).values())):
                continue  # removed again, or the leaf's own gradient
            if isinstance(node, Outer) or (isinstance(node, Leaf) and node.behind is not None):
                raise Unsupported(
                    f"{quoted_line(place)}\n  a hook of a tensor from outside is Python, and the capture would be the only call "
                    "that registers it; register it outside of the captured function"
                )
            places.append(place)
        return tuple(places)

    def run(self, f: Callable[..., Any], structure: Any) -> Captured:
        """Capture f on the stand-ins."""
        level = self.level
        stack: list[Interpreter] = [Abstract(), level]
        if self.history is not None:
            stack.append(self.history.own)
        if self.inside:
            stack.append(AUTOGRAD)
        with interpreters(*stack), muted(self.muted):
            args, kwargs = optree.tree_unflatten(structure, self.given)
            leaves, shape = optree.tree_flatten(f(*args, **kwargs), none_is_leaf=True)
            made = [(source, leaf.grad) for source, leaf, before in self.known if leaf.grad is not before]
            returned: list[Node] = []
            with muted(self.muted | {AUTOGRAD}):
                outputs = self._outputs([*map(_without_what_is_gone, leaves), *(g for _, g in made)], returned)
            inputs = {cell: node for cell, (_, node) in self.stand_ins.items()}
            inputs.update(self.grads)
            inputs.update((level.cells[cell], node) for node, cell in level.outside.items())
            self.sources.update((node, Source("outside", cell=cell)) for node, cell in level.outside.items())
            epilogue = [(node, self._node(cell.value)) for cell, node in inputs.items() if cell.version]
        named = f.func if isinstance(f, functools.partial) else f
        name = getattr(named, "__name__", type(named).__name__)  # an object that is called has the name of its class
        name = name if name.isidentifier() else "f"
        graph = Graph(level.inputs, level.nodes, returned, epilogue, name)
        if self.history is None:  # otherwise the way back may read what the way there does not
            graph = graph.without_dead_code()
        return Captured(
            graph,
            tuple(self.sources.get(n) or Source("constant", array=n.value) for n in graph.inputs),
            tuple(self.sources[place] for place, _ in graph.epilogue),
            tuple(outputs[: len(leaves)]), shape, self.grouped, frozenset(level.outside.values()), tuple(level.functions),
            self._hooks(), tuple(self.leaves) if self.inside else None,
            tuple((source, o) for (source, _), o in zip(made, outputs[len(leaves) :], strict=True)),
            self.history,
        )  # fmt: skip

    def _node(self, value: Value) -> Node:
        """The node of a result."""
        node = self.level.node(value)
        if self.history is not None:
            self.history.result(node, value)
        return node

    def _outputs(self, leaves: Sequence[Any], returned: list[Node]) -> list[Output]:
        """What each leaf of the result is; the values that the graph has to return are appended to `returned`.

        A value that is returned once is returned as it is seen; several views of one new storage share it again.
        """
        sharing = Counter(x.cell for x in leaves if isinstance(x, Tensor))
        position: dict[Cell, int] = {}
        outputs: list[Output] = []
        for x in leaves:
            if not isinstance(x, Tensor):
                outputs.append(Output("static", value=x))
            elif x.cell in self.stand_ins:
                outputs.append(Output("storage" if self.grouped else "argument", self.stand_ins[x.cell][0], x.chain))
            elif x.cell in self.grads:
                outputs.append(Output("gradient", chain=x.chain, value=self.sources[self.grads[x.cell]]))
            elif x.cell.owner is not self.level:
                outputs.append(Output("outside", value=Tensor(x.cell, x.chain)))
            elif sharing[x.cell] == 1 and not overlaps(x.value.shape, x.value.strides):
                outputs.append(Output("result", len(returned)))
                returned.append(self._node(x.value))
            else:
                if x.cell not in position:
                    position[x.cell] = len(returned)
                    returned.append(self._node(x.cell.value))
                outputs.append(Output("result", position[x.cell], x.chain))
        return outputs


def _without_what_is_gone(x: Any) -> Any:
    """The tensor; a result that backward() has been through inside of the function has no history outside."""
    edge = x.value.meta.get(AUTOGRAD) if isinstance(x, Tensor) and x.cell.owner is STATE.trace else None
    return x.detach() if edge is not None and is_gone(edge[0]) else x


def decompose(graph: Graph, basis: frozenset[str] = frozenset()) -> Graph:
    """The graph with the operators outside the basis replaced by simpler ones, where they have a decomposition."""
    level = Trace()
    with interpreters(Abstract(), level, Decompose(basis)):
        return level.retraced(graph, graph.run(process, level.placeholders(graph)))
