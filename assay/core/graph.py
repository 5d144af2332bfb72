"""The operator graph: what capture records before anything is lowered.

A graph is single assignment and without mutation: placeholders, calls of operator overloads with every default argument
filled in, and projections of calls that return several tensors.  An input that the captured function changed in place
comes back as an epilogue: `placeholder <- value`, which the caller copies after the call.  Arguments are bound
by position of the operator's schema, keyword-only ones at the end; a Node stands where a tensor goes.

    graph(
        %primals_1 : [num_users=1] = placeholder[target=primals_1]
        %relu shape=(64, 128) : [num_users=1] = call_function[target=assay.ops.relu.default](args = (%primals_1,), kwargs = {})
        return (relu,)
    )
"""

from __future__ import annotations

import builtins
import keyword
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from assay.core.dtypes import DType
from assay.core.errors import UserError

PLACEHOLDER, CALL, GETITEM = "placeholder", "call_function", "getitem"


class Node:
    """One value of a graph, compared by identity.

    kind         placeholder | call_function | getitem
    target       the operator of a call
    args         a call's arguments in the order of the schema; a getitem's (call, k)
    shape, dtype of the value; a call with several outputs has their tuples in `outputs` and is read through getitem nodes
    value        the array that a placeholder is bound to when the function did not receive it as an argument, else None
    partial      whether the call may raise (an index read from data): it is never dead code
    where        the user's "file:line"
    """

    __slots__ = ("args", "dtype", "kind", "name", "outputs", "partial", "shape", "target", "value", "where")
    args: tuple[Any, ...]
    kind: str
    name: str
    shape: tuple[int, ...]
    dtype: DType
    target: Any
    args: tuple[Any, ...]
    outputs: tuple[tuple[tuple[int, ...], DType], ...]
    partial: bool
    value: np.ndarray | None
    where: str

    def __init__(self, kind: str, name: str, shape: tuple[int, ...], dtype: DType, *, target: Any = None,
                 args: tuple[Any, ...] = (), outputs: tuple[tuple[tuple[int, ...], DType], ...] = (), partial: bool = False,
                 where: str = "") -> None:  # fmt: skip
        self.kind, self.name, self.shape, self.dtype, self.target, self.args = kind, name, shape, dtype, target, args
        self.outputs, self.partial, self.where, self.value = outputs, partial, where, None

    def __repr__(self) -> str:
        return f"%{self.name}"

    @property
    def operands(self) -> Iterator[Node]:
        """The nodes among the arguments, lists of tensors included, in order, with repetition."""
        return nodes_in(self.args)


def nodes_in(value: Any) -> Iterator[Node]:
    """Every node inside a (nested) argument."""
    if isinstance(value, Node):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from nodes_in(item)


def map_nodes(value: Any, f: Callable[[Node], Any]) -> Any:
    """The (nested) argument with every node replaced by f(node)."""
    if isinstance(value, Node):
        return f(value)
    if isinstance(value, list | tuple):
        return type(value)(map_nodes(item, f) for item in value)
    return value


class Names:
    """Fresh names: the candidate itself, or, where it is taken or a Python word, candidate_0, candidate_1, ..."""

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._next: dict[str, int] = {}

    def fresh(self, candidate: str) -> str:
        name = candidate
        while name in self._used or keyword.iskeyword(name) or hasattr(builtins, name):
            k = self._next.get(candidate, 0)
            self._next[candidate] = k + 1
            name = f"{candidate}_{k}"
        self._used.add(name)
        return name


class Graph:
    """inputs, nodes (calls and getitems, in order of evaluation), outputs, epilogue.

    `results` are what a compiled graph returns: first the new values of the changed inputs, then the outputs.
    """

    def __init__(self, inputs: Iterable[Node], nodes: Iterable[Node], outputs: Iterable[Node],
                 epilogue: Iterable[tuple[Node, Node]] = (), name: str = "f") -> None:  # fmt: skip
        self.inputs, self.nodes, self.outputs = tuple(inputs), tuple(nodes), tuple(outputs)
        self.epilogue, self.name = tuple(epilogue), name

    @property
    def results(self) -> tuple[Node, ...]:
        """Epilogue values, then outputs."""
        return (*(value for _, value in self.epilogue), *self.outputs)

    def users(self) -> dict[Node, int]:
        """How many nodes and results read each node."""
        count = dict.fromkeys((*self.inputs, *self.nodes), 0)
        for node in self.nodes:
            for operand in dict.fromkeys(node.operands):
                count[operand] += 1
        for result in dict.fromkeys(self.results):
            count[result] += 1
        return count

    def without_dead_code(self) -> Graph:
        """The graph without calls that nothing reads; a call that may raise stays.  Bound inputs go when nothing reads them."""
        live = set(self.results)
        for node in reversed(self.nodes):
            if node in live or node.partial:
                live.add(node)
                live.update(node.operands)
        live.update(place for place, _ in self.epilogue)
        inputs = [n for n in self.inputs if n.value is None or n in live]
        return Graph(inputs, [n for n in self.nodes if n in live], self.outputs, self.epilogue, self.name)

    def run(self, call: Callable[[Any, tuple[Any, ...]], Any], values: Sequence[Any]) -> list[Any]:
        """The results when `call(operator, arguments)` evaluates a node: eager evaluation, tracing again, any interpreter.

        Raises UserError for a wrong number of values; `values` are those of the inputs, bound ones included.
        """
        if len(values) != len(self.inputs):
            raise UserError(
                f"graph {self.name} has {len(self.inputs)} inputs ({', '.join(n.name for n in self.inputs)}), got {len(values)}"
            )
        env: dict[Node, Any] = dict(zip(self.inputs, values, strict=True))
        for node in self.nodes:
            if node.kind == GETITEM:
                env[node] = env[node.args[0]][node.args[1]]
            else:
                env[node] = call(node.target, tuple(map_nodes(a, env.__getitem__) for a in node.args))
        return [env[n] for n in self.results]

    def __str__(self) -> str:
        return show_graph(self)

    def __repr__(self) -> str:
        return f"<graph {self.name}: {len(self.inputs)} inputs, {len(self.nodes)} nodes, {len(self.results)} results>"


def show_graph(graph: Graph, *, where: bool = False) -> str:
    """The text of a graph; with `where`, each call is followed by the user's line."""
    users = graph.users()
    lines = ["graph("]
    for node in graph.inputs:
        lines.append(f"    %{node.name} : [num_users={users[node]}] = placeholder[target={node.name}]")
    for node in graph.nodes:
        shape = f" shape={node.shape}" if not node.outputs else ""
        line = f"    %{node.name}{shape} : [num_users={users[node]}] = {_call(node)}"
        lines.append(f"{line}  # {node.where}" if where and node.where else line)
    lines += [f"    {place.name} <- {value.name}" for place, value in graph.epilogue]
    returned = ", ".join(n.name for n in graph.outputs)
    lines.append(f"    return ({returned}{',' if len(graph.outputs) == 1 else ''})")
    return "\n".join([*lines, ")"])


def _call(node: Node) -> str:
    if node.kind == GETITEM:
        return f"call_function[target=operator.getitem](args = ({node.args[0]}, {node.args[1]}), kwargs = {{}})"
    params = node.target.params
    args = [_text(a, p) for a, p in zip(node.args, params, strict=True) if not p.keyword_only]
    kwargs = [f"{p.name}: {_text(a, p)}" for a, p in zip(node.args, params, strict=True) if p.keyword_only]
    listed = ", ".join(args) + ("," if len(args) == 1 else "")
    return f"call_function[target=assay.ops.{node.target.name}](args = ({listed}), kwargs = {{{', '.join(kwargs)}}})"


def _text(value: Any, param: Any) -> str:
    if value is None and param.type.kind == "ScalarType":
        return "assay.undefined"
    if isinstance(value, DType):
        return f"assay.{value.torch}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_text(v, param) for v in value)}]"
    return repr(value)
