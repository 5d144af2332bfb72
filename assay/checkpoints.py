"""Checkpoints: parts of a function of which only the arguments are kept for the backward (section 5.8).

    y = assay.checkpoint(f, x)                            f(x); the backward computes what it needs of f again
    y = assay.checkpoint_sequential([f, g, ...], 3, x)    the functions one after the other, in three such parts
    y = assay.checkpoint_sequential([f, g, ...], None, x, slots=4)     four states are kept at any time, by a binomial schedule

A part is captured like a compiled function, and partitioned with nothing saved.  So tensors that it finds in globals and
attributes have their gradients, random numbers are drawn again as they were, gradients have the bits of f without a
checkpoint, and they can be differentiated again.  Inside a compiled function a checkpoint is f: there memory_budget decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from assay.compiler import Compiled
from assay.core.errors import Unsupported, UserError
from assay.frontends import dispatch, gradients
from assay.frontends.autograd import BackwardError
from assay.frontends.capture import capture
from assay.frontends.cell import new_cell
from assay.frontends.function import Context, Function
from assay.frontends.grad_mode import enable_grad, is_grad_enabled, no_grad
from assay.frontends.tensor import Tensor
from assay.frontends.value import Value
from assay.partition.choose import LEAST
from assay.partition.schedule import ADVANCE, FREE, LOAD, REVERSE, STORE, Move, binomial, growing, uniform

_parts: WeakKeyDictionary[Callable[..., Any], Compiled] = WeakKeyDictionary()
"""The captured parts of functions that are called more than once."""


def checkpoint(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """f(*args, **kwargs); of what it computes nothing is kept for the backward, which computes it again.

    Raises UserError at the user's line where f asks for the elements of a tensor: it is captured.
    """
    if not callable(f):
        raise UserError(f"checkpoint() needs a function, not {type(f).__name__}")
    try:
        part = _parts.get(f)
        if part is None:
            part = _parts[f] = _captured(f)
    except TypeError:  # a function that cannot be hashed, or not be referred to weakly
        part = _captured(f)
    return part(*args, **kwargs)


def _captured(f: Callable[..., Any]) -> Compiled:
    def call(*args: Any, **kwargs: Any) -> Any:
        return f(*args, **kwargs)

    call.__name__ = getattr(f, "__name__", type(f).__name__)
    return Compiled(call, backend="reference", budget=LEAST)


def checkpoint_sequential(functions: Sequence[Callable[[Any], Any]], segments: int | None, x: Any, *,
                          slots: int | None = None) -> Any:  # fmt: skip
    """functions[-1](... functions[0](x)) in segments of which only the first state is kept; the last segment is kept whole.

    With `segments` equal ones the states held are at most segments + l/segments (theorem 5.3).  None: segments that grow by a
    step from the last to the first, which holds fewest, about sqrt(2 l), each step computed at most twice.
    slots: at most so many states are stored at any time, and one is current (theorem 5.4); segments must be None.  Gradients
    of such a chain are not differentiated again.
    """
    fs = list(functions)
    if slots is not None and segments is not None:
        raise UserError(f"segments={segments} and slots={slots}: choose one of the two")
    if not fs:
        return x
    if slots is not None:
        return _scheduled(fs, binomial(len(fs), slots), x)
    lengths = growing(len(fs)) if segments is None else uniform(len(fs), segments)
    at = 0
    for n in lengths[:-1]:
        x = checkpoint(_Run(tuple(fs[at : at + n])), x)
        at += n
    return _Run(tuple(fs[at:]))(x)


class _Run:
    """The functions one after the other."""

    def __init__(self, functions: tuple[Callable[[Any], Any], ...]) -> None:
        self.functions = functions
        self.__name__ = "segment"

    def __call__(self, x: Any) -> Any:
        for f in self.functions:
            x = f(x)
        return x


# ------------------------------------------------------------------------------------------------ schedules


class _Step:
    """A captured function of the state: `weights` are the tensors that it finds elsewhere."""

    def __init__(self, f: Callable[[Any], Any], z: Tensor) -> None:
        with enable_grad():
            self.captured = c = capture(f, (z,), {})
        if c.changed or c.functions or len(c.outputs) != 1 or c.outputs[0].kind not in ("result", "argument"):
            raise Unsupported(
                f"{getattr(f, '__name__', f)!r} in a chain with slots: it must give one tensor, change none (random numbers "
                "advance their generator) and call no Function of the user; use segments"
            )
        self.places = [k for k, s in enumerate(c.sources) if s.kind != "argument"]
        self.weights = [_tensor(c.sources[k]) for k in self.places]

    def __call__(self, z: Tensor, weights: Sequence[Tensor]) -> Tensor:
        c = self.captured
        found = dict(zip(self.places, weights, strict=True))
        results = c.graph.run(dispatch.apply, [found.get(k, z) for k in range(len(c.sources))])
        (o,) = c.outputs
        made = z if o.kind == "argument" else results[o.index]
        return Tensor(made.cell, made.chain + o.chain) if o.chain else made


def _tensor(s: Any) -> Tensor:
    return Tensor(new_cell(Value(s.array))) if s.cell is None else Tensor(s.cell)


class _Chain:
    """A schedule that is being carried out: its forward up to the first reversed step, then, by the backward, the rest."""

    def __init__(self, functions: Sequence[Callable[[Any], Any]], moves: Sequence[Move], x: Tensor) -> None:
        self.functions, self.moves, self.next = functions, moves, 0
        self.steps: dict[int, _Step] = {}
        self.stored: dict[int, Tensor] = {0: x}
        self.current: tuple[int, Tensor] = (0, x)
        self.most = 1

    def until_reverse(self) -> int:
        """Carries out moves up to the next reversed step, whose number it returns."""
        while (move := self.moves[self.next]).kind != REVERSE:
            self.next += 1
            if move.kind == LOAD:
                self.current = (move.at, self.stored[move.at])
            elif move.kind == STORE:
                self.stored[move.at] = self.current[1]
                self.most = max(self.most, len(self.stored))
            elif move.kind == FREE:
                del self.stored[move.at]
            elif move.kind == ADVANCE:
                self.current = (move.at, self.advanced(move.at))
        self.next += 1
        return move.at

    def state(self, k: int) -> Tensor:
        return self.current[1] if self.current[0] == k else self.stored[k]

    def advanced(self, k: int) -> Tensor:
        """The state k, from the one before."""
        z = self.state(k - 1)
        if k not in self.steps:
            self.steps[k] = _Step(self.functions[k - 1], z)
        return self.steps[k](z, self.steps[k].weights)


def _scheduled(functions: Sequence[Callable[[Any], Any]], moves: Sequence[Move], x: Any) -> Any:
    if not isinstance(x, Tensor):
        raise UserError(f"the state of a chain is a tensor, not {type(x).__name__}")
    with no_grad():
        chain = _Chain(functions, moves, x.detach())
        last = chain.advanced(chain.until_reverse())
    weights: dict[Any, Tensor] = {}
    for k in sorted(chain.steps):
        weights.update((w.cell, w) for w in chain.steps[k].weights)
    return ScheduledChain.apply(chain, last, x, *weights.values())


class ScheduledChain(Function):
    """The result of a chain whose backward goes on with the schedule."""

    @staticmethod
    def forward(ctx: Context, chain: _Chain, last: Tensor, x: Tensor, *weights: Tensor) -> Tensor:
        ctx.save_for_backward(x, *weights)
        ctx.chain, ctx.cells = chain, [w.cell for w in weights]  # type: ignore[attr-defined]
        return last

    @staticmethod
    def backward(ctx: Context, *given: Any) -> Any:
        if is_grad_enabled():
            raise Unsupported("gradients of a chain with slots are not differentiated again; use segments, or memory_budget=")
        chain: _Chain | None = ctx.chain  # type: ignore[attr-defined]
        if chain is None:
            raise BackwardError("backward went through this chain before, and its states were let go on the way; run it again")
        ctx.chain = None  # type: ignore[attr-defined]
        _ = ctx.saved_tensors  # raises where one has been changed
        bar: Any = given[0]
        found: dict[Any, Tensor] = {}
        k = len(chain.functions)
        while True:
            step = chain.steps[k]
            with enable_grad():
                z = chain.state(k - 1).detach().requires_grad_()
                own = [w.detach().requires_grad_() if w.requires_grad else w for w in step.weights]
                wanted = [w for w in own if w.requires_grad]
                y = step(z, own)
            bar, *slopes = gradients.grad(y, [z, *wanted], bar, allow_unused=True)
            places = [w.cell for w, o in zip(step.weights, own, strict=True) if o.requires_grad]
            for cell, g in zip(places, slopes, strict=True):
                if g is not None:
                    found[cell] = found[cell] + g if cell in found else g
            if k == 1:
                break
            k = chain.until_reverse()
        return (None, None, bar, *map(found.get, ctx.cells))  # type: ignore[attr-defined]
