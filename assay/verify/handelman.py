"""Finding the sums of products that rational.py checks.

    find(script) -> {"check": k, "cases": [[{"positive": [0, 3], "times": "1/2"}, ...], ...]} or None

What is found is not trusted, so neither is z3, which solves the linear problem (farkas.py).  Here: which products and multiples
are offered to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, combinations_with_replacement
from typing import Any

from assay.verify.farkas import multipliers
from assay.verify.rational import Case, Polynomial, cases, constant, product, proves
from assay.verify.smtlib import Refused, Script, Term

DEGREE = 2  # of the products of inequalities
FACTORS = 4  # that are multiplied in a directed search
PARTS = 500  # a larger linear problem is not asked
RLIMIT = 2_000_000  # z3 resource units for each case


def multiplies(script: Script) -> bool:
    """Whether the text multiplies two unknowns, or divides by one."""
    return any(_multiplies(t) for t in (*script.definitions.values(), *script.checks[-1].assertions))


def _multiplies(t: Term) -> bool:
    if isinstance(t, str):
        return False
    if t[0] == "*" and sum(not _is_number(x) for x in t[1:]) > 1:
        return True
    return (t[0] in ("div", "mod") and not _is_number(t[2])) or any(map(_multiplies, t[1:]))


def _is_number(t: Term) -> bool:
    return (isinstance(t, str) and t.isdigit()) or (isinstance(t, tuple) and t[0] == "-" and len(t) == 2 and _is_number(t[1]))


def find(script: Script) -> dict[str, Any] | None:
    """A certificate of the last check, where it multiplies unknowns and products of two inequalities suffice; else None."""
    if script.checks[-1].expected != "unsat" or not multiplies(script):
        return None
    try:
        found = [_combination(case) for case in cases(script.checks[-1])]
    except Refused:
        return None
    if any(parts is None for parts in found) or not proves(script.checks[-1], found):  # type: ignore[arg-type]
        return None
    return {"check": len(script.checks) - 1, "cases": found}


def _parts(case: Case, degree: int) -> Iterator[tuple[dict[str, Any], Polynomial]]:
    """What may be added up: products of at most `degree` inequalities, equations times an unknown."""
    for d in range(1, degree + 1):
        for chosen in combinations_with_replacement(range(len(case.positive)), d):
            p = constant(1)
            for k in chosen:
                p = product(p, case.positive[k])
            if (p and p.keys() != {()}) or p.get((), Fraction(0)) < 0:
                yield {"positive": list(chosen)}, p
    for k, e in enumerate(case.zero):
        for monomial in [(), *((x,) for x in case.unknowns)][: None if degree > 1 else 1]:
            yield {"zero": k, "monomial": list(monomial)}, product(e, {monomial: Fraction(1)})


def _combination(case: Case) -> list[dict[str, Any]] | None:
    for offered in (_parts(case, 1), _directed(case), _parts(case, DEGREE)):
        parts = list(offered)
        found = _solve(parts) if len(parts) <= PARTS else None
        if found is not None:
            return found
    return None


def _directed(case: Case) -> Iterator[tuple[dict[str, Any], Polynomial]]:
    """Inequalities times the unknowns (less their lower bounds) that some monomial of the case multiplies together.

    Row-major addresses of any rank need no more: i*m*p >= 0, and (n - 1 - i)*m*p + (m - 1 - j)*p + (p - 1 - k) >= 0.
    """
    yield from _parts(case, 1)
    together = {frozenset(m) for p in (*case.positive, *case.zero) for m in p if len(m) > 1}
    subsets = {s for m in together for size in range(1, FACTORS + 1) for s in combinations(sorted(m), size)}
    lower = {next(m for m in p if m)[0]: k for k, p in enumerate(case.positive) if _is_lower_bound(p)}
    several = [k for k, p in enumerate(case.positive) if len({x for m in p for x in m}) > 1]
    for monomial in sorted(subsets):
        factors = [lower[x] for x in monomial if x in lower]
        if len(factors) == len(monomial):
            times = constant(1)
            for k in factors:
                times = product(times, case.positive[k])
            if len(factors) > 1:
                yield {"positive": factors}, times
            for k in several if len(factors) < FACTORS else ():
                yield {"positive": [k, *factors]}, product(case.positive[k], times)
        for k, e in enumerate(case.zero):
            yield {"zero": k, "monomial": list(monomial)}, product(e, {monomial: Fraction(1)})


def _is_lower_bound(p: Polynomial) -> bool:
    """Whether p is x - c."""
    unknowns = [m for m in p if m]
    return len(unknowns) == 1 and len(unknowns[0]) == 1 and p[unknowns[0]] > 0


def _solve(parts: list[tuple[dict[str, Any], Polynomial]]) -> list[dict[str, Any]] | None:
    """Multipliers with which the parts add up to -1, those of zero left out."""
    positive, zero = [x for x in parts if "positive" in x[0]], [x for x in parts if "zero" in x[0]]
    found = multipliers([p for _, p in positive], [p for _, p in zero], rlimit=RLIMIT)
    if found is None:
        return None
    return [{**name, "times": str(v)} for v, (name, _) in zip(found[0] + found[1], positive + zero, strict=True) if v]
