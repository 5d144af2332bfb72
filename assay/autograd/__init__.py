"""Gradients, under torch.autograd's names: backward, grad, Function, grad modes, detect_anomaly; forward_ad for dual numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from assay.autograd import forward_ad
from assay.frontends.autograd import AUTOGRAD, BackwardError
from assay.frontends.function import Function
from assay.frontends.grad_mode import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled
from assay.frontends.gradients import backward, grad


@contextmanager
def detect_anomaly() -> Iterator[None]:
    """A gradient that becomes NaN is an error at the line of the forward call whose derivative it is.

    Forward and backward have to run inside; each recorded call costs a walk up the Python stack.
    """
    before = AUTOGRAD.anomaly
    AUTOGRAD.anomaly = True
    try:
        yield
    finally:
        AUTOGRAD.anomaly = before


__all__ = [
    "BackwardError", "Function", "backward", "detect_anomaly", "enable_grad", "forward_ad", "grad", "inference_mode",
    "is_grad_enabled", "no_grad", "set_grad_enabled",
]  # fmt: skip
