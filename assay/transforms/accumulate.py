"""Sums of guarded values over loop variables, as nested folds."""

from __future__ import annotations

from collections.abc import Sequence

from assay.core.index import Var
from assay.core.lang import E, Environment, const, folds, op, substitute_all
from assay.transforms.cotangent import chosen


def summed(variables: Sequence[Var], guards: Sequence[E], value: E) -> E:
    """The sum of `value`, where the guards hold, over all values of the variables: folds from +0, the first variable outermost.

    A product is added by one fma.  Each condition is tested in the outermost loop that decides it; where it fails the sum stays.
    """
    depth = {v: k + 1 for k, v in enumerate(variables)}

    def level(g: E) -> int:
        return max((depth[v] for v in g.free if v in depth), default=0)

    at = [[g for g in guards if level(g) == k] for k in range(len(variables) + 1)]

    def sum_from(k: int, total: E, env: Environment) -> E:
        here, conditions = _moved((value, *at[k]), env)
        if k < len(variables):
            v = variables[k]
            result = folds(v.n, (total,), lambda a, r: sum_from(k + 1, a, {**env, v: r}))[0]
        else:
            result = op("fma", *here.args, total) if here.op == "mul" else total + here
        return chosen(conditions, result, total)

    if not variables:
        return chosen(guards, value, const(0, value.dtype))
    return sum_from(0, const(0, value.dtype), {})


def _moved(es: Sequence[E], env: Environment) -> tuple[E, tuple[E, ...]]:
    first, *rest = substitute_all(tuple(es), env) if env else tuple(es)
    return first, tuple(rest)

