"""The mutants, one table for each part of the compiler."""

from __future__ import annotations

from assay.fuzz.mutants.faults import emission, language, operators, passes, planning
from assay.fuzz.mutants.mutant import Mutant

MUTANTS: dict[str, Mutant] = {m.name: m for table in (passes.TABLE, operators.TABLE, planning.TABLE, emission.TABLE, language.TABLE) for m in table}
