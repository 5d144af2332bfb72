"""Every overload, callable with ATen's schema: assay.ops.add.Tensor(x, y, alpha=2); assay.ops.add(x, 2) resolves the overload."""

from __future__ import annotations

from typing import Any

from assay.core.errors import UnknownName
from assay.core.operators import overloads
from assay.core.operators.registry import Operator
from assay.frontends import dispatch, source


class Overload:
    """One overload as a function of tensors."""

    def __init__(self, op: Operator) -> None:
        self.op = op
        self.__doc__ = f"{op.schema.text}\n\n{op.doc}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return dispatch.call(self.op.name, args, kwargs)

    def __repr__(self) -> str:
        return f"assay.ops.{self.op.name}"


class Packet:
    """The overloads of one name; calling it resolves the one that the arguments fit."""

    def __init__(self, base: str) -> None:
        self.base = base
        self._overloads = {o.overload: o for o in overloads(base)}

    def __getattr__(self, overload: str) -> Overload:
        op = self._overloads.get(overload)
        if op is None:
            known = ", ".join(self._overloads)
            raise source.located(UnknownName(f"{self.base} has no overload {overload!r}; it has: {known}"))
        made = Overload(op)
        setattr(self, overload, made)
        return made

    def overloads(self) -> list[str]:
        """The names of the overloads, in the order in which they are tried."""
        return list(self._overloads)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return dispatch.call(self.base, args, kwargs)

    def __repr__(self) -> str:
        return f"<assay.ops.{self.base}: {', '.join(self._overloads)}>"


def __getattr__(name: str) -> Packet:
    if name.startswith("__"):
        raise AttributeError(name)
    try:
        made = Packet(name)
    except ValueError as error:
        raise source.located(UnknownName(str(error))) from None
    globals()[name] = made
    return made
