"""A reader of SMT-LIB texts of integer facts, and their decision by enumeration: a second opinion that asks no solver.

    for check in read(text).checks: enumerate_box(check) == check.expected

It imports nothing of this package.  The subset: Int and Bool constants, definitions without parameters, and
+ - * div mod < <= = ite and or not.  Anything else is refused, never guessed at.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

Term: TypeAlias = "str | tuple[Term, ...]"

_TOKEN = re.compile(r"""\s+|;[^\n]*|(?P<token>[()]|\|[^|]*\||"[^"]*"|[^\s();|"]+)""")
_NUMBER = re.compile(r"\d+")
LIMIT = 1 << 62  # beyond this int64 is not trusted, and Python integers are used


class Refused(ValueError):
    """The text is not one of the subset, or has a meaning that enumeration does not give."""


@dataclass(frozen=True)
class Check:
    """One (check-sat): what is asserted there, and the answer that the text states."""

    expected: str
    assertions: tuple[Term, ...]
    script: Script


@dataclass(frozen=True)
class Script:
    """Constants with their sorts, definitions in order, and the checks."""

    constants: dict[str, str]
    definitions: dict[str, Term]
    checks: tuple[Check, ...]


def terms(text: str) -> list[Term]:
    """The S-expressions of a text.  Raises Refused where it is cut off or has characters that no token starts with."""
    stack: list[list[Term]] = [[]]
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise Refused(f"no token at character {at}: {text[at : at + 20]!r}")
        at = found.end()
        token = found["token"]
        if token == "(":
            stack.append([])
        elif token == ")":
            if len(stack) == 1:
                raise Refused(f"a bracket too many at character {at - 1}")
            done = tuple(stack.pop())
            stack[-1].append(done)
        elif token is not None:
            stack[-1].append(token)
    if len(stack) != 1:
        raise Refused(f"the text is cut off: {len(stack) - 1} brackets are open")
    return stack[0]


def read(text: str) -> Script:
    """The script.  Every check-sat must follow a (set-info :status sat) or unsat."""
    constants: dict[str, str] = {}
    definitions: dict[str, Term] = {}
    levels: list[list[Term]] = [[]]
    checks: list[Check] = []
    script = Script(constants, definitions, ())
    expected = ""
    for command in terms(text):
        match command:
            case ("set-logic", _):
                pass
            case ("set-info", ":status", "sat" | "unsat" as status):
                expected = status
            case ("declare-const", str(name), "Int" | "Bool" as sort) if name not in constants and name not in definitions:
                constants[name] = sort
            case ("define-fun", str(name), (), "Int" | "Bool", body) if name not in constants and name not in definitions:
                definitions[name] = body
            case ("assert", term):
                levels[-1].append(term)
            case ("push", "1"):
                levels.append([])
            case ("pop", "1") if len(levels) > 1:
                levels.pop()
            case ("check-sat",) if expected:
                checks.append(Check(expected, tuple(t for level in levels for t in level), script))
                expected = ""
            case _:
                raise Refused(f"not a command of the subset: {command!r:.80}")
    if not checks:
        raise Refused("the text asks nothing")
    return Script(constants, definitions, tuple(checks))


def number(term: Term) -> int | None:
    """The value of an integer literal: 5 or (- 5)."""
    match term:
        case str() if _NUMBER.fullmatch(term):
            return int(term)
        case ("-", str(digits)) if _NUMBER.fullmatch(digits):
            return -int(digits)
        case _:
            return None


# ------------------------------------------------------------------------------------------------ enumeration


def box(check: Check) -> dict[str, tuple[int, int]]:
    """The range of each constant, from assertions (<= lo x hi).  Raises Refused where an integer has none."""
    found: dict[str, tuple[int, int]] = {x: (0, 1) for x, sort in check.script.constants.items() if sort == "Bool"}
    for term in check.assertions:
        match term:
            case ("<=", a, str(x), b) if x in check.script.constants and x not in found:
                lo, hi = number(a), number(b)
                if lo is not None and hi is not None:
                    found[x] = lo, hi
            case _:
                pass
    missing = [x for x in check.script.constants if x not in found]
    if missing:
        raise Refused(f"no range is stated for {missing[0]}")
    return found


def points(check: Check) -> int:
    """Number of points of the box."""
    return math.prod(max(0, hi - lo + 1) for lo, hi in box(check).values())


def enumerate_box(check: Check) -> str:
    """sat or unsat, by evaluating the assertions at every point of the box."""
    ranges = box(check)
    flat = np.arange(points(check), dtype=np.int64)
    columns: dict[str, Any] = {}
    for x, (lo, hi) in ranges.items():
        column = flat % (hi - lo + 1) + lo
        columns[x] = column == 1 if check.script.constants[x] == "Bool" else column
        flat = flat // (hi - lo + 1)
    return "sat" if bool(np.any(holds(check, columns, ranges))) else "unsat"


def holds_at(check: Check, point: dict[str, int]) -> bool:
    """Whether the assertions hold at one point.  Raises Refused where it has no value for a constant."""
    sorts = check.script.constants
    if point.keys() != sorts.keys():
        raise Refused(f"the point gives values to {sorted(point)}, the text has {sorted(sorts)}")
    ranges = {x: (v, v) for x, v in point.items()}
    columns = {x: np.array([v == 1]) if sorts[x] == "Bool" else np.array([v], object) for x, v in point.items()}
    return bool(np.all(holds(check, columns, ranges)))


def holds(check: Check, columns: dict[str, Any], ranges: dict[str, tuple[int, int]]) -> Any:
    """Where the assertions hold, given the values of the constants at many points."""
    definitions = check.script.definitions
    bounds: dict[str, int] = {x: max(abs(lo), abs(hi)) for x, (lo, hi) in ranges.items()}
    largest = 0
    for name, body in definitions.items():
        bounds[name] = _magnitude(body, bounds)
        largest = max(largest, bounds[name])
    for term in check.assertions:
        largest = max(largest, _magnitude(term, bounds))
    kind: Any = object if largest >= LIMIT else np.int64
    known: dict[str, Any] = {x: c if c.dtype == np.bool_ else c.astype(kind) for x, c in columns.items()}
    for name, body in definitions.items():
        known[name] = _value(body, known, kind)
    result: Any = np.True_
    for term in check.assertions:
        result = result & _value(term, known, kind)
    return result


def _magnitude(term: Term, bounds: dict[str, int]) -> int:
    """A bound on the absolute value of the term and of every term in it."""
    if isinstance(term, str):
        return int(term) if _NUMBER.fullmatch(term) else bounds.get(term, 1)
    parts = [_magnitude(t, bounds) for t in term[1:]]
    if term[0] in ("+", "-"):
        return sum(parts)
    return math.prod(max(1, p) for p in parts) if term[0] == "*" else max(parts, default=1)


def _value(term: Term, known: dict[str, Any], kind: Any) -> Any:
    if isinstance(term, str):
        if term in known:
            return known[term]
        if _NUMBER.fullmatch(term):
            return np.array(int(term), kind)
        if term in ("true", "false"):
            return np.bool_(term == "true")
        raise Refused(f"{term!r} is not defined")
    op, *rest = term
    args = [_value(t, known, kind) for t in rest]
    match op, args:
        case "+" | "*" | "and" | "or", [first, *others]:
            for x in others:
                first = first + x if op == "+" else first * x if op == "*" else first & x if op == "and" else first | x
            return first
        case "-", [a]:
            return -a
        case "-", [a, b]:
            return a - b
        case "div" | "mod", [a, b]:
            if not np.all(np.asarray(b > 0)):
                raise Refused(f"{op} by what is not positive")
            return a // b if op == "div" else a % b
        case "<" | "<=", [a, b, *others]:
            inside = np.True_
            for x, y in zip([a, b, *others], [b, *others], strict=False):
                inside = inside & np.asarray(x < y if op == "<" else x <= y, np.bool_)
            return inside
        case "=", [a, b]:
            return np.asarray(a == b, np.bool_)
        case "not", [a]:
            return np.logical_not(a)
        case "ite", [c, a, b]:
            return np.where(c, a, b)
        case _:
            raise Refused(f"{op!r} of {len(args)} arguments is not of the subset")
