"""Function: an operator with a backward that the user writes.

    class Exp(Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, g):
            (y,) = ctx.saved_tensors
            return g * y

    Exp.apply(x)

forward runs unrecorded.  backward is differentiated like any other code where its result has to be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from assay.core.errors import Unsupported, UserError
from assay.frontends import source
from assay.frontends.autograd import Autograd, Node, Saved, gone, twin
from assay.frontends.cell import new_cell
from assay.frontends.tensor import Tensor, fresh
from assay.frontends.value import STATE, Value, apply_by_name, live_levels, muted


class Context:
    """What forward leaves for backward; other attributes may be set freely.

    needs_input_grad says of each argument of apply() whether a gradient is wanted.
    """

    def __init__(self, name: str, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad
        self._name = name
        self._saved: list[tuple[Saved, int | None] | None] = []  # (value, which result it is), None for None
        self._plain: list[Tensor] = []
        self._dirty: list[Tensor] = []
        self._zeros = True
        self._nodes: list[FunctionNode] = []

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors (arguments, results, or others): changing one in place makes backward an error."""
        self._saved = [None if t is None else (Saved(f"saved tensor {k}", t.value), None) for k, t in enumerate(tensors)]

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """What save_for_backward kept.  Raises BackwardError where one was changed in place since."""
        found: list[Tensor | None] = []
        for entry in self._saved:
            if entry is None:
                found.append(None)
                continue
            saved, result = entry
            value = saved.get(self._name)
            if result is not None:
                value = twin(value)
                value.meta.update((node.level, (node, result)) for node in self._nodes)
            found.append(Tensor(new_cell(value)))
        return tuple(found)

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """These results have no gradient."""
        self._plain = list(tensors)

    def mark_dirty(self, *tensors: Tensor) -> None:
        """These arguments were changed in place by forward, which returns them."""
        self._dirty = list(tensors)

    def set_materialize_grads(self, value: bool) -> None:  # noqa: FBT001
        """False: backward gets None, not zeros, for a result that nothing depends on."""
        self._zeros = value


class FunctionNode(Node):
    """A call of a Function."""

    __slots__ = ("arguments", "ctx", "function", "likes")

    def __init__(self, level: Autograd, function: type[Function], ctx: Context, arguments: Sequence[Any],
                 results: Sequence[Any]) -> None:  # fmt: skip
        edges = [a.value.meta.get(level) if isinstance(a, Tensor) else None for a in arguments]
        super().__init__(level, edges, len(results))
        self.function = function
        self.ctx: Context | None = ctx
        self.arguments = [(a.shape, a.dtype) if isinstance(a, Tensor) else None for a in arguments]
        self.likes = [(r.shape, r.dtype) if isinstance(r, Tensor) else None for r in results]

    @property
    def name(self) -> str:
        return self.function.__name__

    def pull(self, cotangents: Sequence[Value | None], wanted: Sequence[bool], *, keep: bool) -> Sequence[Value | None]:
        ctx = self.ctx
        if ctx is None:
            raise gone(self.name)
        given: list[Tensor | None] = []
        for g, like in zip(cotangents, self.likes, strict=True):
            if g is None and like is not None and ctx._zeros:
                g = apply_by_name("zeros", like[0], dtype=like[1])
            given.append(None if g is None else fresh(g))
        made = self.function.backward(ctx, *given)
        gradients = list(made) if isinstance(made, tuple | list) else [made]
        if len(gradients) != len(self.arguments):
            counts = f"{len(gradients)} gradients for {len(self.arguments)} arguments"
            raise UserError(f"{self.name}.backward returned {counts} of apply()")
        if not keep:
            self.ctx = None
        return [self._checked(k, g) if w else None for k, (g, w) in enumerate(zip(gradients, wanted, strict=True))]

    def _checked(self, k: int, g: Any) -> Value | None:
        if g is None:
            return None
        like = self.arguments[k]
        if not isinstance(g, Tensor) or like is None or (g.shape, g.dtype) != like:
            shown = f"{g.dtype.name}{list(g.shape)}" if isinstance(g, Tensor) else type(g).__name__
            wanted = "no tensor" if like is None else f"{like[1].name}{list(like[0])}"
            raise UserError(f"{self.name}.backward: gradient {k} is {shown}; the argument is {wanted}")
        return g.value


class Function:
    """Derive from it, with static methods forward(ctx, *args) and backward(ctx, *gradients); call it with apply(*args)."""

    @staticmethod
    def forward(ctx: Context, *args: Any) -> Any:
        """The results: a tensor or a tuple."""
        raise NotImplementedError

    @staticmethod
    def backward(ctx: Context, *gradients: Any) -> Any:
        """From the gradients of the results, those of the arguments, in order; None where there is none."""
        raise NotImplementedError

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """forward(ctx, *args), recorded where an argument requires a gradient.  Raises Unsupported for dual numbers."""
        tensors = [a for a in args if isinstance(a, Tensor)]
        concerned = [level for level in live_levels() if any(level in t.value.meta for t in tensors)]
        levels = [level for level in concerned if isinstance(level, Autograd)]
        if len(levels) < len(concerned):
            what = "a Function has no forward derivative; use reverse mode, or operators"
            raise Unsupported(f"{source.quoted()}  {cls.__name__}: {what}")
        if STATE.trace is not None:
            STATE.trace.functions.append(cls.__name__)
        ctx = Context(cls.__name__, tuple([isinstance(a, Tensor) and any(lv in a.value.meta for lv in levels) for a in args]))
        with muted(STATE.muted.union(levels)):
            out = cls.forward(ctx, *args)
        if not levels:
            return out
        results = list(out) if isinstance(out, tuple) else [out]
        for r in results:
            if r is not None and not isinstance(r, Tensor):
                allowed = "allowed: a tensor, or a tuple of tensors and None"
                raise UserError(f"{cls.__name__}.forward returned a {type(r).__name__}; {allowed}")
        ctx._nodes = [FunctionNode(level, cls, ctx, args, results) for level in levels]
        ctx._saved = [_with_result(entry, results) for entry in ctx._saved]
        made = [_recorded(ctx, r, k) if isinstance(r, Tensor) else r for k, r in enumerate(results)]
        return tuple(made) if isinstance(out, tuple) else made[0]


def _with_result(entry: tuple[Saved, int | None] | None, results: Sequence[Any]) -> tuple[Saved, int | None] | None:
    """Note of a saved value which result it is."""
    if entry is not None:
        for k, r in enumerate(results):
            if isinstance(r, Tensor) and r.value is entry[0].value:
                return entry[0], k
    return entry


def _recorded(ctx: Context, result: Tensor, k: int) -> Tensor:
    """The result as the user gets it: over the same memory, with the history of the call."""
    levels = {node.level for node in ctx._nodes}
    value = twin(result.value)
    value.meta = {level: known for level, known in value.meta.items() if level not in levels}
    plain = not value.dtype.is_float or any(result is t for t in ctx._plain)
    if not plain:
        value.meta.update((node.level, (node, k)) for node in ctx._nodes)
    if any(result is t for t in ctx._dirty):
        result.write(value, ctx._name)
        return result
    return Tensor(new_cell(value))
