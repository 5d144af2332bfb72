"""Function, and what goes with it, under torch.autograd.function's names."""

from __future__ import annotations

from assay.frontends.function import Context as FunctionCtx
from assay.frontends.function import Function, once_differentiable

__all__ = ["Function", "FunctionCtx", "once_differentiable"]
