"""Function: an operator with derivatives that the user writes.

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

forward runs unrecorded; with setup_context(ctx, inputs, output) beside it, forward takes no ctx.  backward (or vjp) is for
gradients, jvp(ctx, *tangents) for forward mode: both are differentiated like any other code where their results have to be.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from assay.core.errors import Unsupported, UserError
from assay.frontends import source
from assay.frontends.autograd import Autograd, BackwardError, Node, Saved, check_like, gone, twin
from assay.frontends.cell import new_cell
from assay.frontends.dual import Dual
from assay.frontends.tensor import Tensor, fresh
from assay.frontends.value import STATE, Interpreter, Value, apply_by_name, live_levels, muted


class Context:
    """What forward leaves for backward; other attributes may be set freely.

    needs_input_grad says of each argument of apply() whether a gradient is wanted.
    """

    def __init__(self, name: str, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad
        self._name = name
        self._saved: Kept = []
        self._moving: Kept | None = None  # what was saved for jvp, where that is something else
        self._plain: list[Tensor] = []
        self._dirty: list[Tensor] = []
        self._zeros = True
        self._in_jvp = False
        self._known: list[dict[Interpreter, Any]] = []  # of each result: what the levels know of it

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors (arguments, results, or others): changing one in place makes backward an error."""
        self._saved = _kept(tensors)

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for jvp, which has those of save_for_backward otherwise."""
        self._moving = _kept(tensors)

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """What save_for_backward kept; in jvp, save_for_forward.  Raises BackwardError where one was changed in place since."""
        found: list[Tensor | None] = []
        for entry in self._moving if self._in_jvp and self._moving is not None else self._saved:
            if entry is None:
                found.append(None)
                continue
            saved, result = entry
            value = saved.get(self._name)
            if result is not None:
                value = twin(value)
                value.meta.update(self._known[result])
            found.append(Tensor(new_cell(value)))
        return tuple(found)

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """These results have no gradient."""
        self._plain = list(tensors)

    def mark_dirty(self, *tensors: Tensor) -> None:
        """These arguments were changed in place by forward, which returns them."""
        self._dirty = list(tensors)

    def set_materialize_grads(self, value: bool) -> None:  # noqa: FBT001
        """False: backward gets None, not zeros, for a result that nothing depends on; jvp for an argument that does not move."""
        self._zeros = value


Kept = list["tuple[Saved, int | None] | None"]
"""(value, which result it is), None for None."""


def _kept(tensors: Sequence[Tensor | None]) -> Kept:
    return [None if t is None else (Saved(f"saved tensor {k}", t.value), None) for k, t in enumerate(tensors)]


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
        if self.function.backward is not Function.backward:
            made = self.function.backward(ctx, *given)
        elif self.function.vjp is not Function.vjp:
            made = self.function.vjp(ctx, *given)
        else:
            raise Unsupported(f"{self.name} has no backward: write the static method backward(ctx, *gradients) of that Function")
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
    """Derive from it, with static methods forward(ctx, *args) and backward(ctx, *gradients); call it with apply(*args).

    Or forward(*args) and setup_context(ctx, inputs, output); jvp(ctx, *tangents) is for forward mode.
    """

    @staticmethod
    def forward(*args: Any) -> Any:
        """The results: a tensor or a tuple."""
        raise NotImplementedError

    @staticmethod
    def setup_context(ctx: Context, inputs: tuple[Any, ...], output: Any) -> None:
        """What the derivatives need is kept in ctx."""
        raise NotImplementedError

    @staticmethod
    def backward(ctx: Context, *gradients: Any) -> Any:
        """From the gradients of the results, those of the arguments, in order; None where there is none."""
        raise NotImplementedError

    @staticmethod
    def vjp(ctx: Context, *gradients: Any) -> Any:
        """Another name for backward."""
        raise NotImplementedError

    @staticmethod
    def jvp(ctx: Context, *tangents: Any) -> Any:
        """From the tangents of the arguments, those of the results, in order; None where there is none."""
        raise NotImplementedError

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """The results of forward, with the history and the tangents that the levels of the stack ask for.

        Raises Unsupported for dual numbers where there is no jvp.
        """
        tensors = [a for a in args if isinstance(a, Tensor)]
        concerned = [level for level in live_levels() if any(level in t.value.meta for t in tensors)]
        levels = [level for level in concerned if isinstance(level, Autograd)]
        if len(levels) < len(concerned) and cls.jvp is Function.jvp:
            raise Unsupported(
                f"{source.quoted()}  {cls.__name__} has no forward derivative: write the static method jvp(ctx, *tangents) of "
                "that Function, or use reverse mode (backward(), assay.func.grad)"
            )
        if STATE.trace is not None:
            STATE.trace.functions.append(cls.__name__)
        ctx = Context(cls.__name__, tuple([isinstance(a, Tensor) and any(lv in a.value.meta for lv in levels) for a in args]))
        with muted(STATE.muted.union(concerned)):
            if cls.setup_context is Function.setup_context:
                out = cls.forward(ctx, *args)
            else:
                out = cls.forward(*args)
                cls.setup_context(ctx, args, out)
        if not concerned:
            return out
        results = list(out) if isinstance(out, tuple) else [out]
        for r in results:
            if r is not None and not isinstance(r, Tensor):
                allowed = "allowed: a tensor, or a tuple of tensors and None"
                raise source.located(UserError(f"{cls.__name__}.forward returned a {type(r).__name__}; {allowed}"))
        moves = [isinstance(r, Tensor) and r.dtype.is_float and not any(r is t for t in ctx._plain) for r in results]
        nodes = [FunctionNode(level, cls, ctx, args, results) for level in levels]
        ctx._known = [{node.level: (node, k) for node in nodes} if m else {} for k, m in enumerate(moves)]
        ctx._saved = [_with_result(entry, results) for entry in ctx._saved]
        if ctx._moving is not None:
            ctx._moving = [_with_result(entry, results) for entry in ctx._moving]
        for k, level in enumerate(concerned):  # from below: the tangents of one have those of the levels below it
            if isinstance(level, Dual):
                with muted(STATE.muted.union(concerned[k:])):
                    made = cls._tangents(ctx, level, args, results)
                for known, tangent, m in zip(ctx._known, made, moves, strict=True):
                    if m and tangent is not None:
                        known[level] = tangent
        final = [_recorded(ctx, r, k, concerned) if isinstance(r, Tensor) else r for k, r in enumerate(results)]
        return tuple(final) if isinstance(out, tuple) else final[0]

    @classmethod
    def _tangents(cls, ctx: Context, level: Dual, args: Sequence[Any], results: Sequence[Any]) -> list[Value | None]:
        """The tangents of the results at a level.  Raises UserError where jvp gives others than one for each."""
        given: list[Tensor | None] = []
        for a in args:
            t = a.value.meta.get(level) if isinstance(a, Tensor) else None
            if t is None and isinstance(a, Tensor) and a.dtype.is_float and ctx._zeros:
                t = apply_by_name("zeros", a.shape, dtype=a.dtype)
            given.append(None if t is None else fresh(t))
        ctx._in_jvp = True
        try:
            made = cls.jvp(ctx, *given)
        finally:
            ctx._in_jvp = False
        tangents = list(made) if isinstance(made, tuple | list) else [made]
        if len(tangents) != len(results):
            raise UserError(f"{cls.__name__}.jvp returned {len(tangents)} tangents for {len(results)} results of forward")
        for k, (t, r) in enumerate(zip(tangents, results, strict=True)):
            if t is None:
                continue
            if not isinstance(t, Tensor) or not isinstance(r, Tensor):
                what = "its result is no tensor" if isinstance(t, Tensor) else f"a {type(t).__name__}; allowed: a tensor or None"
                raise UserError(f"{cls.__name__}.jvp: tangent {k}: {what}")
            check_like(r.value, t.value, f"tangent {k} that {cls.__name__}.jvp returned,")
        return [None if t is None else t.value for t in tangents]


class _Refused(Node):
    """What has a backward once only."""

    __slots__ = ("function",)

    @property
    def name(self) -> str:
        return self.function

    def pull(self, cotangents: Sequence[Value | None], wanted: Sequence[bool], *, keep: bool) -> Sequence[Value | None]:
        raise BackwardError(f"{self.function} is marked @once_differentiable: its gradients have no gradient")


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator of a backward that is not made of operators, or of wrong ones: differentiating its results is an error."""

    @functools.wraps(backward)
    def once(ctx: Context, *gradients: Any) -> Any:
        levels = [lv for lv in live_levels() if isinstance(lv, Autograd)]
        with muted(STATE.muted.union(levels)):
            made = backward(ctx, *gradients)
        given = [g for g in gradients if isinstance(g, Tensor)]
        results: tuple[Any, ...] = tuple(made) if isinstance(made, tuple | list) else (made,)
        for level in levels:
            edges = [g.value.meta[level] for g in given if level in g.value.meta]
            if edges:
                node = _Refused(level, edges, len(results))
                node.function = ctx._name
                results = tuple(_with_history(r, level, node, k) if isinstance(r, Tensor) else r for k, r in enumerate(results))
        return results if isinstance(made, tuple | list) else results[0]

    return once


def _with_history(t: Tensor, level: Autograd, node: Node, k: int) -> Tensor:
    value = twin(t.value)
    value.meta[level] = (node, k)
    return Tensor(new_cell(value))


def _with_result(entry: tuple[Saved, int | None] | None, results: Sequence[Any]) -> tuple[Saved, int | None] | None:
    """Note of a saved value which result it is."""
    if entry is not None:
        for k, r in enumerate(results):
            if isinstance(r, Tensor) and r.value is entry[0].value:
                return entry[0], k
    return entry


def _recorded(ctx: Context, result: Tensor, k: int, levels: Sequence[Interpreter]) -> Tensor:
    """The result as the user gets it: over the same memory, with what the levels know of it."""
    value = twin(result.value)
    value.meta = {level: known for level, known in value.meta.items() if level not in levels}
    value.meta.update(ctx._known[k])
    if any(result is t for t in ctx._dirty):
        result.write(value, ctx._name)
        return result
    return Tensor(new_cell(value))
