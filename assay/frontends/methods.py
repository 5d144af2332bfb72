"""The methods that a tensor has from the operator table: x.sum(-1) is the operator `sum` with x as its first argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from assay.core.operators import OPERATORS
from assay.core.operators.registry import Operator, canonical
from assay.frontends import dispatch, namespace, random


def names() -> set[str]:
    """Every operator that is a method."""
    return {o.base for o in OPERATORS.values() if _takes_self(o)}


def _takes_self(op: Operator) -> bool:
    """Whether x.op(...) makes sense: the first parameter is a tensor, and not the state of a generator."""
    first = op.params[0] if op.params else None
    return first is not None and first.type.kind == "Tensor" and not first.type.is_list and first.name != "state"


def method_of(name: str) -> Callable[..., Any]:
    """The method called `name`.  Raises UnknownName with the nearest names."""
    if name in random.METHODS:
        return random.METHODS[name]
    if name in namespace.CALLED:
        return namespace.CALLED[name]
    name = canonical(name)
    if not any(o.base == name and _takes_self(o) for o in OPERATORS.values()):
        raise namespace.unknown("Tensor has no attribute or operator", name, names())

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return dispatch.call(name, (self, *args), kwargs)

    method.__name__ = method.__qualname__ = name
    return method
