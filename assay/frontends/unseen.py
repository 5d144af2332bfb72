"""Writes that derivatives do not see, in a captured graph: under no_grad, through detach(), through a view made under no_grad.

    overwritten(before, new)      what such a write leaves: the value `new`, the derivative of `before`
"""

from __future__ import annotations

from collections.abc import Sequence

from assay.core.errors import UserError
from assay.core.graph import GETITEM, Graph, Node
from assay.frontends.dependence import flow
from assay.frontends.source import quoted_line


def is_unseen(place: Node, value: Node) -> bool:
    """Whether the input `place`, which is `value` in the end, was changed by such writes only."""
    while value.kind != GETITEM and value.target is not None and value.target.base == "overwritten":
        value = value.args[0]
    return value is place


def refuse_lost_history(graph: Graph, wanted: Sequence[int]) -> None:
    """Raises UserError where something with a gradient for the inputs `wanted` is written where none can be recorded."""
    hidden = [n for n in graph.nodes if n.kind != GETITEM and n.target.base == "overwritten"]
    known = flow(graph) if hidden else {}
    for node in hidden:
        if not known[node.args[1]][0].isdisjoint(wanted):
            raise UserError(
                f"{quoted_line(node.where)}\n  this tensor shares memory with one that it is detached from (detach(), .data, or "
                "a view made under no_grad), so what requires a gradient cannot be written to it; clone() it first"
            )
