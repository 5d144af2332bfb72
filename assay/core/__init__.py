"""The languages, as data: element types, indices, the scalar table, the core language, the operator graph."""

from assay.core import elementary, functions, scalar  # noqa: F401  (they fill the scalar table)
