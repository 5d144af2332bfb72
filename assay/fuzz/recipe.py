"""A random program as data: inputs, and calls of operators on them.  It is a Python function, a graph and a JSON object."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.core.dtypes import DTYPES, DType
from assay.core.errors import UserError
from assay.core.graph import GETITEM, Graph, map_nodes
from assay.core.operators.registry import OPERATORS, Operator, lookup
from assay.core.operators.samples import Like
from assay.frontends.creation import from_numpy
from assay.frontends.dispatch import apply
from assay.frontends.tensor import Tensor


@dataclass(frozen=True)
class Ref:
    """Result `output` of value number `value`: inputs first, then calls."""

    value: int
    output: int = 0


@dataclass(frozen=True)
class Call:
    """One operator call: arguments in schema order, Ref where a tensor goes."""

    operator: str
    args: tuple[Any, ...]

    @property
    def target(self) -> Operator:
        return OPERATORS[self.operator]


@dataclass(frozen=True)
class Recipe:
    """What the fuzzer draws.  `results` are what the function returns."""

    inputs: tuple[Like, ...]
    calls: tuple[Call, ...]
    results: tuple[Ref, ...]

    __name__ = "f"  # of its program, and so of the program in the file of a case

    def __str__(self) -> str:
        lines = [f"v{k} = input {i.dtype.name}{list(i.shape)}" for k, i in enumerate(self.inputs)]
        for k, c in enumerate(self.calls, len(self.inputs)):
            lines.append(f"v{k} = {c.operator}({', '.join(map(_text, c.args))})")
        return "\n".join([*lines, f"return {', '.join(map(_text, self.results))}"])

    def __call__(self, *tensors: Tensor) -> list[Tensor]:
        """The calls, one after the other, through the eager engine (or whatever interpreter is on top)."""
        values: list[Any] = list(tensors)
        for call in self.calls:
            values.append(apply(call.target, map_refs(call.args, lambda r: pick(values, r))))
        return [pick(values, r) for r in self.results]

    def to_json(self) -> dict[str, Any]:
        return {
            "inputs": [{"shape": list(i.shape), "dtype": i.dtype.name, "lo": i.lo, "hi": i.hi} for i in self.inputs],
            "calls": [{"operator": c.operator, "args": [_to_json(a) for a in c.args]} for c in self.calls],
            "results": [[r.value, r.output] for r in self.results],
        }


def from_json(data: Mapping[str, Any]) -> Recipe:
    """The recipe of to_json.  Raises UserError for an unknown operator or type."""
    try:
        inputs = tuple(Like(tuple(i["shape"]), DTYPES[i["dtype"]], i["lo"], i["hi"]) for i in data["inputs"])
        calls = tuple(Call(lookup(c["operator"]).name, tuple(map(_from_json, c["args"]))) for c in data["calls"])
        return Recipe(inputs, calls, tuple(Ref(*r) for r in data["results"]))
    except (KeyError, TypeError) as error:
        raise UserError(f"not a recipe: {error!r}") from None


def recipe_of(graph: Graph) -> Recipe | None:
    """The recipe that makes the calls of the graph; None where one is of an operator that is not in the table (a derivative)."""
    places: dict[Any, Ref] = {node: Ref(k) for k, node in enumerate(graph.inputs)}
    calls: list[Call] = []
    for node in graph.nodes:
        if node.kind == GETITEM:
            places[node] = Ref(places[node.args[0]].value, node.args[1])
        elif OPERATORS.get(node.target.name) is not node.target:
            return None
        else:
            places[node] = Ref(len(graph.inputs) + len(calls))
            calls.append(Call(node.target.name, map_nodes(node.args, places.__getitem__)))
    inputs = tuple(Like(node.shape, node.dtype) for node in graph.inputs)
    return Recipe(inputs, tuple(calls), tuple(places[node] for node in graph.results))


def pick(values: Sequence[Any], ref: Ref) -> Any:
    """The tensor that `ref` names."""
    found = values[ref.value]
    return found[ref.output] if isinstance(found, tuple | list) else found


def map_refs(value: Any, f: Callable[[Ref], Any]) -> Any:
    """The (nested) argument with f(ref) for every Ref."""
    if isinstance(value, Ref):
        return f(value)
    return tuple(map_refs(v, f) for v in value) if isinstance(value, tuple) else value


def refs(value: Any) -> Iterator[Ref]:
    """Every Ref inside a (nested) argument."""
    if isinstance(value, Ref):
        yield value
    elif isinstance(value, tuple):
        for v in value:
            yield from refs(v)


def tensors(arrays: Sequence[np.ndarray]) -> list[Tensor]:
    """The arrays as tensors (sharing memory)."""
    return [from_numpy(a) for a in arrays]


def _text(a: Any) -> str:
    if isinstance(a, Ref):
        return f"v{a.value}" + (f".{a.output}" if a.output else "")
    return f"[{', '.join(map(_text, a))}]" if isinstance(a, tuple) else repr(a)


def _to_json(a: Any) -> Any:
    if isinstance(a, Ref):
        return {"ref": [a.value, a.output]}
    if isinstance(a, DType):
        return {"dtype": a.name}
    if isinstance(a, float):
        return {"float": a.hex()}
    return [_to_json(v) for v in a] if isinstance(a, tuple) else a


def _from_json(a: Any) -> Any:
    if isinstance(a, list):
        return tuple(map(_from_json, a))
    if isinstance(a, dict):
        if "ref" in a:
            return Ref(*a["ref"])
        return DTYPES[a["dtype"]] if "dtype" in a else float.fromhex(a["float"])
    return a
