"""The loads and folds that an integer is computed from, and the integer with others in their place."""

from __future__ import annotations

from assay.core.index import Ix, Val, Var, ix, rewrite
from assay.core.lang import LOADS, E, as_index, index, rebuild, walk


def leaves(e: E) -> list[E]:
    """The loads and folds that the value of an integer or bool expression is computed from, without what is in them."""
    found: dict[E, None] = {}
    seen: set[E] = set()
    todo = [e]
    while todo:
        x = todo.pop()
        if x in seen:
            continue
        seen.add(x)
        if x.op in (*LOADS, "fold", "proj"):
            found[x] = None
        else:
            todo += x.deps
    return list(found)


def with_leaves(e: E, leaf: dict[E, E]) -> E:
    """The expression with other loads and folds in the place of these."""
    made: dict[E, E] = {}

    def atom(a: Var | Val) -> Ix:
        return ix(a) if isinstance(a, Var) else as_index(made.get(a.e, a.e))

    for x in walk((e,)):
        if x in leaf:
            made[x] = leaf[x]
        elif x.op in (*LOADS, "fold", "proj") or not any(d in made for d in x.deps):
            continue
        else:
            args = tuple(made.get(a, a) for a in x.args)
            made[x] = index(rewrite(x.attr, atom), x.dtype) if x.op == "idx" else rebuild(x, args)
    return made.get(e, e)
