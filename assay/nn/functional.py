"""torch.nn.functional's names and signatures over the operator table: F.conv2d, F.layer_norm, F.softmax, F.embedding.

A name that is not defined here is the operator of that name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from assay.frontends import dispatch, namespace


def __getattr__(name: str) -> Callable[..., Any]:
    if name.startswith("_"):
        raise AttributeError(name)
    found = namespace.function(name)
    globals()[name] = found
    return found
