"""Integer facts about polynomials, proved by sums of products: no search in the integers, and a certificate.

What is to be refuted is a system of index expressions p >= 0 and e == 0: the hypotheses, the ranges of the atoms, the digits
0 <= x - c * (x // c) < c of each division, and the negated goal.  It has no solution if, as polynomials,

    sum of weights * (p, and products of two of the p)  +  sum of factors * (e, and multiples of e)  =  -1,     weights >= 0

(Handelman).  z3 finds the weights in linear arithmetic over the rationals, which is complete and does not depend on a seed; the
identity is then checked in exact arithmetic, so z3 is not trusted.  Conditions and values that are choices (or, select, max,
min, a sum that may wrap) are split into cases, each refuted on its own.  Before that, core/polynomial.py may refute a p >= 0
by corners and digits.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, TypeAlias

from assay.core import index as index_
from assay.core.index import Div, Factor, Ix, Quotient, Size, Val, Var, ix
from assay.core.lang import E, as_index, op
from assay.core.polynomial import LIMIT, Polynomial, divides, nonnegative, plus, polynomial, times, top
from assay.verify.farkas import multipliers

Hypothesis: TypeAlias = "tuple[E, bool]"
Case: TypeAlias = "tuple[tuple[Hypothesis, ...], tuple[Ix, ...], Ix | None]"

CASES = 48  # cases of a question that are looked at
BOUNDS = 40  # with more constraints, no products are offered
RLIMIT = 3_000_000  # z3 resource units for one linear question

OPPOSITE = {"lt": "ge", "le": "gt", "eq": "ne", "ne": "eq"}


@dataclass(frozen=True)
class System:
    """Conditions still to be read, expressions that are >= 0, and expressions that are 0."""

    conditions: tuple[Hypothesis, ...] = ()
    bounds: tuple[Ix, ...] = ()
    zeros: tuple[Ix, ...] = ()


@dataclass(frozen=True)
class Certificate:
    """(weight, polynomial) of bounds and their products, and of multiples of zeros, whose sum is -1."""

    bounds: tuple[tuple[Fraction, Polynomial], ...]
    zeros: tuple[tuple[Fraction, Polynomial], ...]

    def holds(self) -> bool:
        """The identity and the signs of the weights, in exact arithmetic."""
        total: dict[Any, Fraction] = {}
        for weight, p in (*self.bounds, *self.zeros):
            for m, k in p.items():
                total[m] = total.get(m, Fraction(0)) + weight * k
        return {m: x for m, x in total.items() if x} == {(): -1} and all(weight >= 0 for weight, _ in self.bounds)


def refutes(system: System) -> bool:
    """Whether it is shown that no integers satisfy the system."""
    found = list(itertools.islice(_cases(system), CASES + 1))
    return len(found) <= CASES and all(map(_impossible, found))


# ------------------------------------------------------------------------------------------------ cases


def _cases(s: System) -> Iterator[System]:
    """Systems without conditions and choices that together have the solutions of `s`."""
    while s.conditions:
        (e, holds), rest = s.conditions[-1], replace(s, conditions=s.conditions[:-1])
        alternatives = list(_reading(e, holds=holds))
        for conditions, bounds, zero in alternatives[1:]:
            yield from _cases(_with(rest, conditions, bounds, zero))
        if not alternatives:
            return
        s = _with(rest, *alternatives[0])
    chosen = next((v for i in (*s.bounds, *s.zeros) for v in index_.values(i) if _is_choice(v.e)), None)
    if chosen is None:
        yield s
        return
    for (conditions, bounds, _), by in _choices(chosen):
        moved = System((), (*(_with_image(i, chosen, by) for i in s.bounds), *bounds),
                       tuple(_with_image(i, chosen, by) for i in s.zeros))  # fmt: skip
        yield from _cases(replace(moved, conditions=conditions))


def _with(s: System, conditions: tuple[Hypothesis, ...], bounds: tuple[Ix, ...], zero: Ix | None) -> System:
    zeros = s.zeros if zero is None else (*s.zeros, zero)
    return System((*s.conditions, *conditions), (*s.bounds, *bounds), zeros)


def _reading(e: E, *, holds: bool) -> Iterator[Case]:
    """What the condition says: one of these alternatives.  A condition that says nothing about integers is dropped."""
    if e.op == "const":
        if bool(e.lo) == holds:
            yield (), (), None
    elif e.op == "not":
        yield ((e.args[0], not holds),), (), None
    elif e.op == ("and" if holds else "or"):
        yield tuple((a, holds) for a in e.args), (), None
    elif e.op in ("and", "or"):
        yield ((e.args[0], holds),), (), None
        yield ((e.args[0], not holds), (e.args[1], holds)), (), None
    elif e.op in OPPOSITE and e.args[0].dtype.is_integer:
        kind = e.op if holds else OPPOSITE[e.op]
        d = as_index(e.args[1]) - as_index(e.args[0])
        if kind == "eq":
            yield (), (), d
        elif kind == "ne":
            yield (), (d - 1,), None
            yield (), (-d - 1,), None
        else:
            yield (), ({"lt": d - 1, "le": d, "gt": -d - 1, "ge": -d}[kind],), None
    else:
        yield (), (), None


def _is_choice(e: E) -> bool:
    return e.op in ("select", "max", "min") or (e.op in ("add", "sub", "mul") and e.dtype.is_integer)


def _choices(v: Val) -> Iterator[tuple[Case, Ix]]:
    """What a value is, case by case; an opaque one stands for a sum that wraps."""
    e = v.e
    if e.op == "select":
        c, a, b = e.args
        yield (((c, True),), (), None), as_index(a)
        yield (((c, False),), (), None), as_index(b)
        return
    a, b = e.args
    if e.op in ("max", "min"):
        larger = op("lt", a, b) if e.op == "max" else op("lt", b, a)
        yield (((larger, True),), (), None), as_index(b)
        yield (((larger, False),), (), None), as_index(a)
        return
    x, y = as_index(a), as_index(b)
    exact = {"add": lambda: x + y, "sub": lambda: x - y, "mul": lambda: x * y}[e.op]()
    yield ((), (exact - e.dtype.lo, e.dtype.hi - exact), None), exact
    wrapped = ix(index_.fresh(1 << 62)) * 4 + e.dtype.lo  # wider than any type: only the bounds of the sum matter
    yield ((), (exact - e.dtype.hi - 1,), None), wrapped
    yield ((), (e.dtype.lo - 1 - exact,), None), wrapped


# ------------------------------------------------------------------------------------------------ one case


def _impossible(s: System) -> bool:
    if any(nonnegative(-i - 1) for i in s.bounds) or any(nonnegative(i - 1) or nonnegative(-i - 1) for i in s.zeros):
        return True
    s = _solved(s)
    narrowed = _by_ranges(s)
    return any(nonnegative(-i - 1) for i in narrowed.bounds) or certificate(s) is not None


def _solved(s: System) -> System:
    """`s` without the zeros that give a size or a variable by the rest: n = 8*(n//8) puts 8*q for n, and q for n//8."""
    zeros = list(s.zeros)
    bounds = list(s.bounds)
    for at in range(len(zeros)):
        d = zeros[at]
        for a, k in d.terms:
            if abs(k) != 1 or not isinstance(a, Size | Var):
                continue
            rest = d - k * index_.from_atom(a)
            if any(f is a for t, _ in rest.terms for f in index_.factors(t)):
                continue
            image = _opaque(rest, a) * -k
            zeros[at] = ix(0)
            zeros = [_with_image(i, a, image) for i in zeros]
            ends = [image - a.lo, (ix(a.n) if isinstance(a, Var) else ix(a.hi + 1)) - 1 - image]
            bounds = [_with_image(i, a, image) for i in (*bounds, *ends)]
            break
    return System((), tuple(bounds), tuple(zeros))


def _with_image(i: Ix, a: Factor, image: Ix) -> Ix:
    """`i` with `a` replaced."""
    return index_.rewrite(i, lambda x: image if x is a else _itself(x), lambda x: image if x is a else index_.from_atom(x))


def _opaque(e: Ix, a: Factor) -> Ix:
    """`e` with the divisions in which `a` occurs made variables of their range."""
    parts: list[tuple[int, Ix]] = [(1, ix(e.c))]
    for t, k in e.terms:
        made = ix(1)
        for f in index_.factors(t):
            inside = isinstance(f, Div | Quotient) and (a in f.free or a in f.sizes)
            made = made * (ix(index_.fresh(f.hi - f.lo + 1)) + f.lo if inside else index_.from_atom(f))
        parts.append((k, made))
    return index_.affine(parts)


def _by_ranges(s: System) -> System:
    """`s` with sums that bounds keep between 0 and an extent made variables: i + k - r with 0 <= i + k - r < h."""
    bounds = list(s.bounds)
    for x, y in itertools.combinations(range(len(bounds)), 2):
        p, last = bounds[x], bounds[x] + bounds[y]  # 0 <= p <= last
        if not (last.is_extent or last.is_const) or last.lo < 0:
            continue
        divided = frozenset[Var]().union(*(d.free for i in bounds for d in index_.divisions(i)))
        alone = [(a, k) for a, k in p.terms if isinstance(a, Var) and abs(k) == 1 and a not in divided]
        for a, k in alone:
            if len(p.terms) > 1 and not any(a in index_.factors(t) for t, _ in p.terms if t is not a):
                image = k * (index_.ix(index_.fresh(last + 1 if last.terms else last.c + 1)) - (p - k * ix(a)))  # type: ignore[arg-type]
                bounds = [_with_image(i, a, image) for i in bounds]
                break
    return System((), tuple(bounds), s.zeros)


def _itself(a: Var | Val) -> Ix:
    return ix(a) if isinstance(a, Var) else as_index(a.e)


def certificate(s: System) -> Certificate | None:
    """Why a system without conditions has no solution, if that is found."""
    bounds, ends, zeros = _constraints(s)
    for degree in (1, 2):
        offered, multiples = [*bounds, *ends], list(zeros)
        if degree == 2:
            if len(bounds) > BOUNDS:
                return None
            offered += [times(p, q) for p, q in itertools.combinations_with_replacement(bounds, 2)]
            atoms = dict.fromkeys(a for p in (*bounds, *zeros) for m in p for a in m)
            multiples += [times(e, {(a,): 1}) for e in zeros for a in atoms]
        found = _weights(offered, multiples)
        if found is not None and found.holds():
            return found
    return None


def _constraints(s: System) -> tuple[list[Polynomial], list[Polynomial], list[Polynomial]]:
    """(bounds, upper ends of sizes and values, zeros) of the system and of every atom in it, each once."""
    bounds: dict[Any, Polynomial] = {}
    zeros: dict[Any, Polynomial] = {}
    ends: dict[Any, Polynomial] = {}

    def add(where: dict[Any, Polynomial], p: Polynomial) -> None:
        if where is not zeros:
            g = math.gcd(*(k for m, k in p.items() if m)) or 1  # g*x + c >= 0 is x + c // g >= 0
            p = {m: k // g for m, k in p.items() if k // g}
        where.setdefault(frozenset(p.items()), p)

    seen: set[Factor] = set()
    todo = [*s.bounds, *s.zeros]
    for i in s.bounds:
        add(bounds, polynomial(i))
    for i in s.zeros:
        add(zeros, polynomial(i))
    while todo:
        for a in (a for term, _ in todo.pop().terms for a in index_.factors(term)):
            if a in seen:
                continue
            seen.add(a)
            if isinstance(a, Div | Quotient):
                c, rest = ix(a.c), a.e - ix(a.c) * index_.from_atom(a)
                if isinstance(a, Div) and divides(a.c, a.e):
                    add(zeros, polynomial(rest))
                else:
                    add(bounds, polynomial(rest))
                    add(bounds, polynomial(c - 1 - rest))
                todo += [a.e, c]
                continue
            one: Polynomial = {(a,): 1}
            add(bounds if a.lo > -LIMIT else ends, plus(one, {(): -a.lo}))
            if isinstance(a, Val) and any(top(a)):
                add(bounds, plus(top(a), one, -1))
            elif isinstance(a, Size | Val) or type(a.n) is int:
                add(bounds if a.hi < LIMIT else ends, plus({(): a.hi}, one, -1))
            else:
                add(bounds, polynomial(a.n - 1 - ix(a)))
                todo.append(a.n)  # type: ignore[arg-type]
    found = [[p for p in ps.values() if any(p)] for ps in (bounds, ends, zeros)]
    return found[0], found[1], found[2]


def _weights(bounds: Sequence[Polynomial], zeros: Sequence[Polynomial]) -> Certificate | None:
    """Weights with which the sum is -1: first which constraints conflict, then, of these, how (farkas.py)."""
    import z3

    context = z3.Context()
    solver: Any = z3.SimpleSolver(ctx=context)
    solver.set("rlimit", RLIMIT)
    solver.set("unsat_core", True)
    values: dict[Any, Any] = {}

    def value(p: Polynomial) -> Any:
        parts = [z3.RealVal(p.get((), 0), context)]
        for m, k in p.items():
            if m:
                if m not in values:
                    values[m] = z3.Real(f"m{len(values)}", context)
                parts.append(k * values[m])
        return z3.Sum(parts)

    named: dict[str, tuple[bool, Polynomial]] = {}
    for number, (is_bound, p) in enumerate([*((True, p) for p in bounds), *((False, p) for p in zeros)]):
        name = z3.Bool(f"c{number}", context)
        named[f"c{number}"] = is_bound, p
        solver.assert_and_track(value(p) >= 0 if is_bound else value(p) == 0, name)
    if solver.check() != z3.unsat:
        return None
    chosen = [named[str(c)] for c in solver.unsat_core()]
    inequalities, equations = [p for is_bound, p in chosen if is_bound], [p for is_bound, p in chosen if not is_bound]
    found = multipliers(inequalities, equations, rlimit=RLIMIT)
    if found is None:
        return None
    return Certificate(tuple(zip(found[0], inequalities, strict=True)), tuple(zip(found[1], equations, strict=True)))
