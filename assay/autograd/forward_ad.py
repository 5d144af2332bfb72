"""Dual numbers, under torch.autograd.forward_ad's names.

    with dual_level():
        y = f(make_dual(x, dx))
        unpack_dual(y).tangent
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from assay.frontends.dual import Dual, innermost, with_tangent, without_tangent
from assay.frontends.tensor import Tensor
from assay.frontends.value import pushed


class Unpacked(NamedTuple):
    """A value and its tangent; None: it does not move."""

    primal: Tensor
    tangent: Tensor | None


@contextmanager
def dual_level() -> Iterator[None]:
    """Tensors may have tangents inside; levels nest."""
    with pushed(Dual()):
        yield


def make_dual(tensor: Tensor, tangent: Tensor) -> Tensor:
    """The tensor, over the same memory, moving along `tangent`, which has its shape and type."""
    return with_tangent(tensor, tangent, innermost())


def unpack_dual(tensor: Tensor) -> Unpacked:
    """The value, and how it moves at the innermost level."""
    return Unpacked(*without_tangent(tensor, innermost()))
