"""The operator table (core/operators/registry.py); importing this package fills it."""

from assay.core.operators import activations, compare, creation, division, elementary, matmul, pointwise, reductions, views
from assay.core.operators.registry import OPERATORS, TENSOR_TYPES, Operator, lookup, operator, overloads, register, resolve

__all__ = [
    "OPERATORS", "TENSOR_TYPES", "Operator", "creation", "lookup", "matmul", "operator", "overloads", "pointwise",
    "reductions", "register", "resolve", "views",
]  # fmt: skip
