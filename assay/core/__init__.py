"""The languages, as data: element types, indices, the scalar table, the core language, the operator graph."""

from assay.core import elementary, functions, scalar

__all__ = ["elementary", "functions", "scalar"]  # they fill the scalar table
