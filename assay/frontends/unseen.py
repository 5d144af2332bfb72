"""Writes that derivatives do not see, in a captured graph: under no_grad, through detach(), through a view made under no_grad.

    overwritten(before, new)      what such a write leaves: the value `new`, the derivative of `before`
"""

from __future__ import annotations

from collections.abc import Sequence

from assay.core.errors import UserError
from assay.core.graph import GETITEM, Graph, Node
from assay.frontends.derived import active
from assay.frontends.source import quoted_line


def is_unseen(place: Node, value: Node) -> bool:
    """Whether the input `place`, which is `value` in the end, was changed by such writes only."""
    while value.kind != GETITEM and value.target is not None and value.target.base == "overwritten":
        value = value.args[0]
    return value is place


def refuse_lost_history(graph: Graph, wanted: Sequence[int]) -> None:
    """Raises UserError where something with a gradient for the inputs `wanted` is written where none can be recorded."""
    calls = [n for n in graph.nodes if n.kind != GETITEM]
    if not any(n.target.base == "overwritten" for n in calls):
        return
    known = {(graph.inputs[k], 0) for k in wanted}
    for node in calls:
        moving = tuple([k for k, n in enumerate(node.operands) if _place(n) in known])
        if node.target.base == "overwritten" and 1 in moving:
            raise UserError(
                f"{quoted_line(node.where)}\n  this tensor shares memory with one that it is detached from (detach(), .data, or "
                "a view made under no_grad), so what requires a gradient cannot be written to it; clone() it first"
            )
        if moving and node.target.base != "detach":
            known.update((node, k) for k in active(node.target.program(*node.args), moving))


def _place(n: Node) -> tuple[Node, int]:
    return (n.args[0], n.args[1]) if n.kind == GETITEM else (n, 0)
