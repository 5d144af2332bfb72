"""Gradients, under torch.autograd's names: backward, grad, Function, grad modes, detect_anomaly; forward_ad for dual numbers."""

from __future__ import annotations

from assay.autograd import forward_ad, function
from assay.frontends.autograd import AUTOGRAD, BackwardError
from assay.frontends.function import Function
from assay.frontends.grad_mode import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled
from assay.frontends.gradients import backward, grad


class detect_anomaly:
    """A gradient that becomes NaN is an error at the line of the forward call whose derivative it is.

    Forward and backward have to run inside; each recorded call costs a walk up the Python stack.  check_nan=False only takes
    note of the lines.  set_detect_anomaly(True) is the same from there on.
    """

    def __init__(self, check_nan: bool = True) -> None:  # noqa: FBT001, FBT002
        self._wanted = (True, check_nan)
        self._before: tuple[bool, bool] = (False, True)

    def __enter__(self) -> None:
        self._before = AUTOGRAD.anomaly, AUTOGRAD.check_nan
        AUTOGRAD.anomaly, AUTOGRAD.check_nan = self._wanted

    def __exit__(self, *_: object) -> None:
        AUTOGRAD.anomaly, AUTOGRAD.check_nan = self._before


class set_detect_anomaly(detect_anomaly):
    """Anomaly mode on or off from here on; as a context manager, until the block ends."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:  # noqa: FBT001, FBT002
        super().__init__(check_nan)
        self._wanted = (mode, check_nan)
        self._at_once = AUTOGRAD.anomaly, AUTOGRAD.check_nan
        AUTOGRAD.anomaly, AUTOGRAD.check_nan = self._wanted

    def __enter__(self) -> None:
        super().__enter__()
        self._before = self._at_once


def is_anomaly_enabled() -> bool:
    """Whether anomaly mode is on."""
    return AUTOGRAD.anomaly


__all__ = [
    "BackwardError", "Function", "backward", "detect_anomaly", "enable_grad", "forward_ad", "function", "grad", "inference_mode",
    "is_anomaly_enabled", "is_grad_enabled", "no_grad", "set_detect_anomaly", "set_grad_enabled",
]  # fmt: skip
