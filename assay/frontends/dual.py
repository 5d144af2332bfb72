"""Forward mode: a level of the stack that carries tangents along.

    value.meta[dual] = the tangent of the value

Each operator is followed by its derived pushforward (derived.py).  Nothing is recorded and nothing kept: a tangent lives as
long as its value.  Levels are compared by identity, so nested differentiation cannot mix them up.
"""

from __future__ import annotations

from typing import Any

from assay.core.errors import UserError
from assay.core.operators.registry import Operator
from assay.frontends import source
from assay.frontends.autograd import check_like, twin
from assay.frontends.cell import new_cell
from assay.frontends.derived import pushforward
from assay.frontends.tensor import Tensor, fresh
from assay.frontends.value import STATE, Interpreter, Value, below, process, values_in


class Dual(Interpreter):
    """Computes the tangents of results from those of arguments."""

    annotates = True

    def process(self, op: Operator, args: tuple[Any, ...]) -> Any:
        values = list(values_in(args))
        moving = tuple([k for k, v in enumerate(values) if self in v.meta])
        with below(self):
            out = process(op, args)
            derived = pushforward(op, op.program(*args), moving) if moving and self not in STATE.muted else None
            if derived is None:
                return out
            results: tuple[Value, ...] = out if isinstance(out, tuple) else (out,)
            arguments = [values[k].meta[self] for k in moving]
            arguments += [values[k] if k >= 0 else results[~k] for k in derived.reads]
            made = process(derived.operator, tuple(arguments))
        for k, tangent in zip(derived.results, made if isinstance(made, tuple) else (made,), strict=True):
            results[k].meta[self] = tangent
        return out


def innermost() -> Dual:
    """The dual level that was entered last.  Raises UserError where there is none."""
    for level in reversed(STATE.stack):
        if isinstance(level, Dual):
            return level
    raise source.located(UserError("there are dual numbers only inside of `with assay.autograd.forward_ad.dual_level():`"))


def with_tangent(x: Tensor, tangent: Tensor, level: Dual) -> Tensor:
    """x, over the same memory, with a tangent.  Raises UserError for one of another shape or type, or for no tensor."""
    for given, what in ((x, "what moves"), (tangent, "a tangent")):
        if not isinstance(given, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise source.located(UserError(f"{what} is a tensor, not {type(given).__name__}"))
    v = twin(x.value)
    check_like(v, tangent.value, "tangent")
    v.meta[level] = tangent.value
    return Tensor(new_cell(v))


def without_tangent(x: Tensor, level: Dual) -> tuple[Tensor, Tensor | None]:
    """(x without its tangent, the tangent)"""
    v = twin(x.value)
    tangent = v.meta.pop(level, None)
    return Tensor(new_cell(v)), None if tangent is None else fresh(tangent)
