"""Integer facts as SMT-LIB texts, which any solver reads.

    write(question, name) -> Text

Each text asks three things: does no step of the arithmetic wrap (its negation: unsat); can the hypotheses hold (sat, or unsat
where the fact is about what is never reached); and can they hold where the goal does not (unsat; sat for a fact that
fails).  The first makes the text independent of the intervals that the expressions carry: between the ranges of its
constants and its answers stands arithmetic only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from assay.core import dtypes as dt
from assay.core.dtypes import DType
from assay.core.index import Ix
from assay.core.lang import E
from assay.core.polynomial import LIMIT
from assay.verify.integers import Question
from assay.verify.terms import Atom, Reading, brief, wraps

SHARED = 60
"""Terms of more characters than this get a name, and so are printed once."""

_ARITHMETIC = ("add", "sub", "mul", "neg", "abs", "shl", "convert", "idx")
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_TAKEN = re.compile(r"v\d+|div|mod|abs|ite|and|or|xor|not|let|par|as|true|false|exists|forall|match|distinct")


@dataclass(frozen=True)
class Term:
    """An SMT-LIB term; of a sum or a conjunction the `parts` are known, so that it stays flat."""

    text: str
    sort: str
    op: str = ""
    parts: tuple[str, ...] = ()

    def __add__(self, other: Term) -> Term:
        parts = tuple(x for t in (self, other) for x in (t.parts if t.op == "+" else (t.text,)) if x != "0")
        if len(parts) < 2:
            return Term(parts[0] if parts else "0", "Int")
        return Term(f"(+ {' '.join(parts)})", "Int", "+", parts)

    def __sub__(self, other: Term) -> Term:
        return Term(f"(- {self.text} {other.text})", "Int")

    def __mul__(self, other: Term | int) -> Term:
        if isinstance(other, int):
            return self if other == 1 else Term(f"(* {literal(other)} {self.text})", "Int")
        return Term(f"(* {self.text} {other.text})", "Int")

    __rmul__ = __mul__

    def __neg__(self) -> Term:
        return Term(f"(- {self.text})", "Int")


def literal(v: int) -> str:
    return str(v) if v >= 0 else f"(- {-v})"


class Smtlib:
    """The algebra (see verify/terms.py) whose terms are texts."""

    def integer(self, v: int) -> Term:
        return Term(literal(v), "Int")

    def boolean(self, v: bool) -> Term:  # noqa: FBT001
        return Term("true" if v else "false", "Bool")

    def lt(self, a: Term, b: Term) -> Term:
        return Term(f"(< {a.text} {b.text})", "Bool")

    def le(self, a: Term, b: Term) -> Term:
        return Term(f"(<= {a.text} {b.text})", "Bool")

    def eq(self, a: Term, b: Term) -> Term:
        return Term(f"(= {a.text} {b.text})", "Bool")

    def both(self, a: Term, b: Term) -> Term:
        parts = tuple(dict.fromkeys(x for t in (a, b) for x in (t.parts if t.op == "and" else (t.text,)) if x != "true"))
        if len(parts) < 2:
            return Term(parts[0] if parts else "true", "Bool")
        return Term(f"(and {' '.join(parts)})", "Bool", "and", parts)

    def either(self, a: Term, b: Term) -> Term:
        return Term(f"(or {a.text} {b.text})", "Bool")

    def negate(self, a: Term) -> Term:
        return Term(f"(not {a.text})", "Bool")

    def select(self, c: Term, a: Term, b: Term) -> Term:
        return Term(f"(ite {c.text} {a.text} {b.text})", a.sort)

    def floordiv(self, a: Term, b: Term) -> Term:
        return Term(f"(div {a.text} {b.text})", "Int")

    def mod(self, a: Term, b: Term) -> Term:
        return Term(f"(mod {a.text} {b.text})", "Int")


class Printed(Reading):
    """A reading in which long terms are defined once, and every step that stays in its type is remembered."""

    def __init__(self, atoms: dict[Atom, Term]) -> None:
        super().__init__(Smtlib(), atoms)
        self.definitions: dict[Term, str] = {}
        self.steps: list[tuple[Term, DType]] = []

    def index(self, i: Ix) -> Term:
        found = self.known.get(i)
        if found is None:
            found = self.known[i] = self._shared(super().index(i))
        return found

    def _term(self, e: E) -> Term:
        made: Term = super()._term(e)
        if e.op in _ARITHMETIC and self._is_step(e):
            self.steps.append((made, e.dtype))
        return self._shared(made)

    @staticmethod
    def _is_step(e: E) -> bool:
        """Whether the value of `e` could leave its type, but for the ranges of what it is made of."""
        if e.op == "idx":
            return len(e.attr.terms) > 1 or e.attr.terms[0][1] != 1
        return e.dtype.is_integer and e.args[0].dtype.is_integer and not wraps(e)

    def _shared(self, t: Term) -> Term:
        if len(t.text) <= SHARED:
            return t
        name = self.definitions.setdefault(t, f"v{len(self.definitions)}")
        return Term(name, t.sort)


@dataclass(frozen=True)
class Text:
    """The SMT-LIB text of a fact, the answers that it states, and the name of each atom in it."""

    text: str
    expected: tuple[str, ...]
    names: dict[Atom, str] = field(compare=False)


def write(q: Question, title: Iterable[str], name: Callable[[Atom], str], *, holds: bool = True,
          reachable: bool = True) -> Text:  # fmt: skip
    """The text of the question; `holds` and `reachable` say which answers it states.  `title` are its first comment lines."""
    names = unique_names(q.atoms, name)
    reading = Printed({a: Term(x, "Bool" if is_bool(a) else "Int") for a, x in names.items()})
    hypotheses, goal = q.read(reading)
    algebra: Any = reading.algebra
    inside: Term = algebra.boolean(True)
    for term, d in dict.fromkeys(reading.steps):
        for limit in (algebra.le(algebra.integer(d.lo), term), algebra.le(term, algebra.integer(d.hi))):
            inside = algebra.both(inside, limit)
    lines = [f"; {x}" for x in title] + ["(set-logic ALL)"]
    for a, x in names.items():
        lines.append(f"(declare-const {x} {'Bool' if is_bool(a) else 'Int'})" + _what(a, x))
        if not is_bool(a):
            lo, hi = q.atoms[a]
            lines.append(f"(assert (<= {literal(lo)} {x} {literal(hi)}))")
    for m in q.limits:
        product = " ".join(names[s] for s in m)
        lines.append(f"(assert (<= {f'(* {product})' if len(m) > 1 else product} {LIMIT}))")
    expected: list[str] = []
    extents = dict.fromkeys(algebra.le(algebra.integer(0), reading.index(i)).text for i in q.ends)
    lines += [f"(define-fun {x} () {t.sort} {t.text})" for t, x in reading.definitions.items()]
    lines += [f"(assert {x})" for x in extents]
    if inside.text != "true":
        lines += ["; no step wraps", "(push 1)", f"(assert (not {inside.text}))", *_ask("unsat", expected), "(pop 1)"]
    stated = () if hypotheses.text == "true" else hypotheses.parts or (hypotheses.text,)
    lines += ["; the hypotheses", *(f"(assert {x})" for x in stated if x not in extents)]
    lines += _ask("sat" if reachable else "unsat", expected)
    lines += ["; and not the goal", f"(assert (not {goal.text}))", *_ask("unsat" if holds else "sat", expected)]
    return Text("\n".join(lines) + "\n", tuple(expected), names)


def _ask(status: str, expected: list[str]) -> list[str]:
    expected.append(status)
    return [f"(set-info :status {status})", "(check-sat)"]


def unique_names(atoms: Iterable[Atom], name: Callable[[Atom], str]) -> dict[Atom, str]:
    """A legal and unused SMT-LIB symbol for each atom, as near to its name as the syntax allows."""
    found: dict[Atom, str] = {}
    taken: set[str] = set()
    for number, a in enumerate(atoms):
        text = re.sub(r"[|\\\n\r]|[^\x20-\x7e]", "_", name(a))
        if not text or len(text) > SHARED:
            text = f"a{number}"
        if text in taken:
            text = f"{text}#{number}"
        taken.add(text)
        found[a] = text if _PLAIN.fullmatch(text) and not _TAKEN.fullmatch(text) else f"|{text}|"
    return found


def is_bool(a: Atom) -> bool:
    return isinstance(a, E) and a.dtype is dt.bool_


def _what(a: Atom, name: str) -> str:
    """A comment that says what an atom without a readable name stands for."""
    if not isinstance(a, E) or not re.fullmatch(r"a\d+|\|.*#\d+\|", name):
        return ""
    return f"  ; {brief(a)}"
