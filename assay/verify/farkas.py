"""The linear problem of every refutation by products: multipliers with which polynomials add up to -1.

    sum of  a_i * positive_i  +  sum of  b_j * zero_j   =   -1        a_i >= 0, b_j of any sign

Each monomial stands for itself, so this is linear programming over the rationals (the lemma of Farkas), whose size is what
products.py (of index expressions) and handelman.py (of SMT-LIB texts) keep small by what they offer.  z3 solves it and is not
trusted: who asks checks the identity in exact arithmetic.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from fractions import Fraction
from typing import Any


def multipliers(
    positive: Sequence[Mapping[Any, int | Fraction]], zero: Sequence[Mapping[Any, int | Fraction]], *, rlimit: int
) -> tuple[list[Fraction], list[Fraction]] | None:
    """(a, b), one number for each polynomial {monomial: coefficient}, () the monomial 1; None where none are found."""
    import z3

    lines = [f"(declare-const m{k} Real)" for k in range(len(positive) + len(zero))]
    lines += [f"(assert (<= 0 m{k}))" for k in range(len(positive))]
    sums: dict[Hashable, list[str]] = {(): []}
    for k, p in enumerate((*positive, *zero)):
        for monomial, c in p.items():
            sums.setdefault(monomial, []).append(f"(* {_rational(c)} m{k})")
    for monomial, terms in sums.items():
        lines.append(f"(assert (= {'(- 1)' if monomial == () else '0'} (+ 0 0 {' '.join(terms)})))")
    solver: Any = z3.SimpleSolver(ctx=z3.Context())
    solver.set("rlimit", rlimit)
    solver.from_string("\n".join(lines))
    if str(solver.check()) != "sat":
        return None
    model = solver.model()
    values = {d.name(): model[d].as_fraction() for d in model.decls()}
    found = [Fraction(values.get(f"m{k}", 0)) for k in range(len(positive) + len(zero))]
    return found[: len(positive)], found[len(positive) :]


def _rational(c: int | Fraction) -> str:
    text = str(abs(c.numerator)) if c.denominator == 1 else f"(/ {abs(c.numerator)} {c.denominator})"
    return text if c >= 0 else f"(- {text})"
