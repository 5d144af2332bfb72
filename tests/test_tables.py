"""The tables that print themselves, as golden texts: a weaker contract, a lost operator or row shows in review."""

from collections import Counter
from collections.abc import Callable

import pytest

from assay.core.errors import Unsupported
from assay.core.operators.registry import OPERATORS
from assay.core.row import TABLE, Row
from assay.report.tables import pass_rows
from assay.transforms.pipeline import contract_of


def test_passes(golden: Callable[[str, str], None]) -> None:
    """What `assay passes` says: order, name, contract."""
    lines = [f"{r['order']}  {r['name']:20} {r['contract']:10} {r['meaning']}" for r in pass_rows()]
    golden("passes.txt", "\n".join([*lines, f"the pipeline as a whole: {contract_of()}"]))


def test_operators_of_each_family(golden: Callable[[str, str], None]) -> None:
    """Overloads of each family, and how many are made from another one in place."""
    every = Counter(o.family for o in OPERATORS.values())
    twins = Counter(o.family for o in OPERATORS.values() if o.inplace_of is not None)
    lines = [f"{family:14} {n:4}  {twins[family]:4} in place" for family, n in sorted(every.items())]
    golden("operators.txt", "\n".join([*lines, f"{'all':14} {every.total():4}  {twins.total():4} in place"]))


def test_scalar_functions(golden: Callable[[str, str], None]) -> None:
    """The rows of the scalar table by kind; monoids are marked."""
    def marked(r: Row) -> str:
        return r.name if isinstance(r.monoid, Unsupported) else r.name + "*"

    kinds = sorted({r.kind for r in TABLE.values()})
    lines = [f"{kind}: {' '.join(marked(r) for r in TABLE.values() if r.kind == kind)}" for kind in kinds]
    golden("scalar.txt", "\n".join([*lines, f"{len(TABLE)} rows, * a monoid"]))


@pytest.mark.parametrize(("count", "what"), [(len(OPERATORS), 160), (len(TABLE), 70)])
def test_the_tables_are_large_enough(count: int, what: int) -> None:
    assert count >= what
