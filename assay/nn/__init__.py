"""Neural network functions, under torch's names."""

from assay.nn import functional

__all__ = ["functional"]
