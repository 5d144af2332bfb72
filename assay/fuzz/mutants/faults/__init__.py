"""The mutants, one table for each part of the compiler."""

from __future__ import annotations

from assay.fuzz.mutants.faults import derivatives, emission, language, operators, passes, planning, validation
from assay.fuzz.mutants.mutant import Mutant

TABLES = (passes.TABLE, operators.TABLE, planning.TABLE, emission.TABLE, language.TABLE, validation.TABLE,
          derivatives.TABLE)  # fmt: skip
MUTANTS: dict[str, Mutant] = {m.name: m for table in TABLES for m in table}
