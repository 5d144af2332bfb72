"""Functions of the operator table by name: assay.cat, assay.where, assay.zeros(2, 3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from assay.core.errors import UserError
from assay.core.operators import OPERATORS
from assay.core.operators.registry import canonical
from assay.frontends import dispatch, random

_HERE = {"device": ("cpu", None), "layout": (None,), "pin_memory": (False, None), "memory_format": (None,)}


def function(name: str) -> Callable[..., Any]:
    """The function `name`: an operator whose overload the arguments decide, or a random one with its generator.

    Raises AttributeError with the nearest names.
    """
    drawn = random.FUNCTIONS.get(name)
    if drawn is not None:
        return drawn
    name = canonical(name)
    if not any(op.base == name for op in OPERATORS.values()):
        import difflib

        near = ", ".join(difflib.get_close_matches(name, names(), n=3))
        raise AttributeError(f"module 'assay' has no attribute {name!r}" + (f"; did you mean: {near}" if near else ""))

    def operator(*args: Any, **kwargs: Any) -> Any:
        leaf = "requires_grad" in kwargs and kwargs.pop("requires_grad")
        made = dispatch.call(name, args, plain(kwargs))
        return made.requires_grad_() if leaf else made

    operator.__name__ = operator.__qualname__ = name
    operator.__doc__ = "\n".join(op.schema.text for op in OPERATORS.values() if op.base == name)
    return operator


def plain(kwargs: dict[str, Any]) -> dict[str, Any]:
    """The keyword arguments without those that torch has and that say nothing here.

    Raises UserError for a device other than the CPU.
    """
    if not kwargs:
        return kwargs
    rest = dict(kwargs)
    for option, allowed in _HERE.items():
        if option in rest and (value := rest.pop(option)) not in allowed and str(value) != "cpu":
            raise UserError(f"{option}={value!r}: tensors are row-major in the memory of the CPU; leave {option} out")
    return rest


def names() -> list[str]:
    """Every function that exists."""
    return sorted({op.base for op in OPERATORS.values()} | set(random.FUNCTIONS))
