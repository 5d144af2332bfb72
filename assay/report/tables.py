"""The tables of Assay as rows of text: operators, scalar functions, transformations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from assay.core.wording import counted

if TYPE_CHECKING:
    from assay.core.operators.registry import Operator


def operator_rows() -> list[dict[str, Any]]:
    """One row for each overload: schema, family, what the entry has."""
    from assay.core.operators.registry import OPERATORS

    return [
        {
            "name": o.name, "family": o.family, "schema": o.schema.text, "has": ", ".join(_has(o)),
            "samples": sum(1 for _ in o.samples()), "meaning": o.doc.splitlines()[0] if o.doc else "",
        }
        for o in OPERATORS.values()
    ]  # fmt: skip


def _has(o: Operator) -> list[str]:
    columns = {"view": o.view, "inverse": o.inverse is not None, "in place": o.inplace_of is not None,
               "decomposition": o.decompose is not None, "samples": any(True for _ in o.samples())}  # fmt: skip
    return [name for name, there in columns.items() if there]


def scalar_rows() -> list[dict[str, Any]]:
    """One row for each scalar function."""
    from assay.core.errors import Unsupported
    from assay.core.row import TABLE

    def has(cell: Any) -> bool:
        return not isinstance(cell, Unsupported)

    return [
        {
            "name": r.name, "parameters": " ".join(r.params), "kind": r.kind, "monoid": has(r.monoid), "interval": has(r.range),
            "cases": len(r.cases), "ulp": ", ".join(f"{d} {e:g}" for d, e in r.ulp.items()), "meaning": r.doc.splitlines()[0],
        }
        for r in TABLE.values()
    ]  # fmt: skip


def pass_rows() -> list[dict[str, Any]]:
    """One row for each transformation, in the order of the pipeline; those that run elsewhere last."""
    from assay.transforms.contract import all_transforms
    from assay.transforms.pipeline import EXACT

    rest = [t for t in all_transforms().values() if t not in EXACT]
    rows = [(str(k + 1), t) for k, t in enumerate(EXACT)] + [("-", t) for t in rest]
    return [{"order": k, "name": t.name, "contract": str(t.contract), "meaning": t.doc.strip().splitlines()[0]} for k, t in rows]


def print_table(rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> None:
    """These columns of the rows on the terminal."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for c in columns:
        table.add_column(c, overflow="fold", no_wrap=c == "name")
    for r in rows:
        table.add_row(*(str(r[c]) for c in columns))
    console = Console()
    console.print(table)
    console.print(counted(len(rows), "row"), highlight=False)
