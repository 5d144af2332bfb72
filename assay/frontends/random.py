"""Random numbers: operators of the state of a generator, which they advance.

    assay.rand(2, 3)       assay.manual_seed(0)       assay.dropout(x, 0.5, True)       x.normal_(0.0, 1.0)

The state is a tensor i64[2] = (seed, offset); each call draws with one offset and advances it, as an in-place update does.  So
a capture takes the state as an input and gives its advance back in the epilogue: a compiled call draws what eager
evaluation would draw, and the next call draws other numbers.  Threads that share a generator draw different numbers, in the
order in which they come: a draw, eager or compiled, holds the lock of the state; for numbers that can be repeated, give each
thread a generator of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import RLock
from typing import Any

import numpy as np

from assay.core.errors import UserError
from assay.frontends import dispatch, source
from assay.frontends.cell import Cell
from assay.frontends.dispatch import dtype_of
from assay.frontends.tensor import Tensor
from assay.frontends.value import STATE, find, process


def _start(seed: int) -> tuple[int, int]:
    """(seed as an i64, offset 0)"""
    if not -(1 << 63) <= seed < 1 << 64:
        raise source.located(UserError(f"seed {seed}; allowed: integers of 64 bits"))
    return (seed + (1 << 63)) % (1 << 64) - (1 << 63), 0


class Generator:
    """A counter-based random generator: `state` is i64[2], its seed and offset."""

    def __init__(self, seed: int = 0) -> None:
        cell = Cell(np.array(_start(seed), np.int64))  # no operators: a capture may be what loads this module
        cell.lock = self._lock = RLock()
        self.state = Tensor(cell)

    def manual_seed(self, seed: int) -> Generator:
        """Restart: this seed, offset 0."""
        with self._lock:
            for k, number in enumerate(_start(seed)):
                self.state[k] = number
        return self

    def initial_seed(self) -> int:
        """The seed."""
        return self.state[0].item()

    def get_state(self) -> Tensor:
        """A copy of the state."""
        with self._lock:
            return self.state.clone()

    def set_state(self, state: Tensor) -> None:
        """Continue from a state."""
        with self._lock:
            self.state.copy_(state)

    def draw(self, operator: str, *args: Any, **kwargs: Any) -> Any:
        """The random operator on the state and `args`; the state advances by one call."""
        kept = STATE.trace is None and any(isinstance(a, Tensor) and a.cell.annotated for a in args)  # for a way back
        with self._lock:
            out = dispatch.call(operator, (self.state.clone() if kept else self.state, *args), kwargs)
            dispatch.store(self.state, process(*find("advance.state", (self.state.value,), {})), "advance.state")
        return out


default_generator = Generator(0)


def manual_seed(seed: int) -> Generator:
    """Restart the default generator with this seed, offset 0."""
    return default_generator.manual_seed(seed)


def _sizes(size: tuple[Any, ...]) -> tuple[int, ...]:
    """rand(2, 3), rand((2, 3)) and rand([2, 3]) mean the same."""
    return tuple(size[0]) if len(size) == 1 and isinstance(size[0], Sequence) else size


def rand(*size: Any, dtype: Any = None, generator: Generator | None = None, requires_grad: bool = False) -> Tensor:
    """Uniform in [0, 1)."""
    return (generator or default_generator).draw("rand.state", _sizes(size), dtype=dtype).requires_grad_(requires_grad)


def randn(*size: Any, dtype: Any = None, generator: Generator | None = None, requires_grad: bool = False) -> Tensor:
    """Normal with mean 0 and variance 1."""
    return (generator or default_generator).draw("randn.state", _sizes(size), dtype=dtype).requires_grad_(requires_grad)


def randint(low: int, high: Any, size: Any = None, *, dtype: Any = None, generator: Generator | None = None) -> Tensor:
    """Integers low <= n < high; randint(high, size) starts at 0."""
    if size is None:
        low, high, size = 0, low, high
    return (generator or default_generator).draw("randint.state", low, high, tuple(size), dtype=dtype)


def randperm(n: int, *, dtype: Any = None, generator: Generator | None = None) -> Tensor:
    """A permutation of 0 .. n - 1."""
    return (generator or default_generator).draw("randperm.state", n, dtype=dtype)


def normal(mean: Any, std: Any, size: Any = None, *, dtype: Any = None, generator: Generator | None = None) -> Tensor:
    """mean + std * z: numbers and a size, or tensors."""
    chosen = generator or default_generator
    if size is not None:
        return chosen.draw("normal.state", mean, std, tuple(size), dtype=dtype)
    if not isinstance(mean, Tensor) and not isinstance(std, Tensor):
        raise source.located(UserError("normal() of two numbers needs a size, as in normal(0.0, 1.0, (2, 3))"))
    like = mean if isinstance(mean, Tensor) else std
    tensors = [x if isinstance(x, Tensor) else dispatch.call("full", ((), x), {"dtype": like.dtype}) for x in (mean, std)]
    return chosen.draw("normal.state_Tensor", *tensors)


def bernoulli(input: Tensor, p: float | None = None, *, generator: Generator | None = None) -> Tensor:
    """1 with probability `input` (or p), else 0, in the type of `input`."""
    chosen = generator or default_generator
    return chosen.draw("bernoulli.state", input) if p is None else chosen.draw("bernoulli.state_p", input, p)


def dropout(input: Tensor, p: float = 0.5, train: bool = True, *, generator: Generator | None = None) -> Tensor:  # noqa: FBT001, FBT002
    """input / (1 - p) where kept, 0 where dropped (with probability p); input itself when not training or p is 0."""
    if not train or p == 0:
        return input
    return (generator or default_generator).draw("dropout.state", input, p, True)


def rand_like(input: Tensor, *, dtype: Any = None, generator: Generator | None = None, requires_grad: bool = False) -> Tensor:
    """rand in the shape and type of `input`."""
    wanted = input.dtype if dtype is None else dtype_of(dtype)
    return rand(input.shape, dtype=wanted, generator=generator, requires_grad=requires_grad)


def randn_like(input: Tensor, *, dtype: Any = None, generator: Generator | None = None, requires_grad: bool = False) -> Tensor:
    """randn in the shape and type of `input`."""
    wanted = input.dtype if dtype is None else dtype_of(dtype)
    return randn(input.shape, dtype=wanted, generator=generator, requires_grad=requires_grad)


def randint_like(input: Tensor, low: int, high: int | None = None, *, dtype: Any = None,
                 generator: Generator | None = None) -> Tensor:  # fmt: skip
    """randint in the shape and type of `input`."""
    bounds = (0, low) if high is None else (low, high)
    return randint(*bounds, input.shape, dtype=input.dtype if dtype is None else dtype_of(dtype), generator=generator)


def uniform_(self: Tensor, from_: float = 0.0, to: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with numbers uniform in [from_, to)."""
    return self.copy_((generator or default_generator).draw("uniform.state", self.shape, from_, to, dtype=self.dtype))


def normal_(self: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with normal numbers."""
    return self.copy_(normal(mean, std, self.shape, dtype=self.dtype, generator=generator))


def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Fill with 1 with probability p (a number, or a tensor that broadcasts), else 0."""
    if isinstance(p, Tensor):
        return self.copy_(bernoulli(p.expand(self.shape), generator=generator))
    return self.copy_(bernoulli(self, p, generator=generator))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    f.__name__: f for f in (rand, randn, randint, randperm, normal, bernoulli, dropout, rand_like, randn_like, randint_like)
}
METHODS: dict[str, Callable[..., Any]] = {f.__name__: f for f in (bernoulli, uniform_, normal_, bernoulli_)}
