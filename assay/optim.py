"""Optimisers: they change parameters in place by what backward() left in their .grad.

    optimiser = assay.optim.SGD([w, b], lr=0.1, momentum=0.9)
    loss.backward(); optimiser.step(); optimiser.zero_grad()
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from assay.core.errors import UserError
from assay.frontends import dispatch
from assay.frontends.grad_mode import no_grad
from assay.frontends.tensor import Tensor


class Optimizer:
    """What all have in common: the parameters, a rate, zero_grad."""

    def __init__(self, params: Iterable[Tensor], lr: float) -> None:
        self.params = list(params)
        self.lr = lr
        for k, p in enumerate(self.params):
            if not p.requires_grad or not p.is_leaf:
                raise UserError(f"parameter {k}, {p.dtype.name}{list(p.shape)}, is not a leaf that requires a gradient")

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for p in self.params:
            p.grad = None

    @no_grad()
    def step(self) -> None:
        """Change every parameter that has a gradient."""
        for k, p in enumerate(self.params):
            if p.grad is not None:
                self.update(k, p, p.grad)

    def update(self, k: int, p: Tensor, g: Tensor) -> None:
        """Change parameter `k` by its gradient."""
        raise NotImplementedError


class SGD(Optimizer):
    """v = momentum v + g + weight_decay p;   p -= lr v"""

    def __init__(self, params: Iterable[Tensor], lr: float, momentum: float = 0.0, weight_decay: float = 0.0) -> None:
        super().__init__(params, lr)
        self.momentum, self.weight_decay = momentum, weight_decay
        self.velocity: dict[int, Tensor] = {}

    def update(self, k: int, p: Tensor, g: Tensor) -> None:
        if self.weight_decay:
            g = g + self.weight_decay * p
        if self.momentum:
            known = self.velocity.get(k)
            g = self.velocity[k] = g.clone() if known is None else known.mul_(self.momentum).add_(g)
        dispatch.call("sub_", (p, g), {"alpha": self.lr})


class Adam(Optimizer):
    """m = b1 m + (1 - b1) g;  s = b2 s + (1 - b2) g^2;  p -= lr (m / (1 - b1^t)) / (sqrt(s / (1 - b2^t)) + eps)"""

    def __init__(self, params: Iterable[Tensor], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0.0) -> None:  # fmt: skip
        super().__init__(params, lr)
        self.betas, self.eps, self.weight_decay = betas, eps, weight_decay
        self.moments: dict[int, tuple[int, Any, Any]] = {}

    def update(self, k: int, p: Tensor, g: Tensor) -> None:
        (b1, b2), decay = self.betas, self.weight_decay
        if decay:
            g = g + decay * p
        t, m, s = self.moments.get(k) or (0, dispatch.call("zeros_like", (p,), {}), dispatch.call("zeros_like", (p,), {}))
        t += 1
        m.mul_(b1).add_((1 - b1) * g)
        s.mul_(b2).add_((1 - b2) * g * g)
        self.moments[k] = t, m, s
        p.sub_((self.lr / (1 - b1**t)) * m / ((s / (1 - b2**t)).sqrt() + self.eps))
