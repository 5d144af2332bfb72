"""The operator table (core/operators/registry.py); importing this package fills it."""

from importlib import import_module

from assay.core.operators.registry import OPERATORS, TENSOR_TYPES, Operator, lookup, operator, overloads, register, resolve

FAMILIES = (
    "pointwise", "division", "compare", "elementary", "activations", "reductions", "extremes", "softmax", "views", "rearrange",
    "creation", "matmul",
    "indexing", "scans", "scatter", "joins", "conv", "pooling", "norms", "sorting", "losses", "attention", "resample", "random",
)  # fmt: skip

for _family in FAMILIES:
    import_module(f"assay.core.operators.{_family}")

__all__ = ["FAMILIES", "OPERATORS", "TENSOR_TYPES", "Operator", "lookup", "operator", "overloads", "register", "resolve"]
