"""Neural network functions, under torch's names; there are no modules."""

from typing import Any

from assay.nn import functional

__all__ = ["functional"]


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    from assay.frontends.namespace import unknown

    raise unknown("module 'assay' has no attribute", f"nn.{name}", ())
