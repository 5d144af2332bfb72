"""Replaying certificates by others: z3 and cvc5 on the texts, enumeration of small boxes, exact arithmetic for products.

    recheck(certificates) -> Recheck          .agreement a row for each kind    .disagreements    .verdict

Every checker works on the text alone.  Solvers run under resource limits, so that a busy machine changes no answer.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from assay.core.errors import Unsupported
from assay.verify import rational, smtlib, verdict
from assay.verify.certificate import Certificate, Certificates
from assay.verify.smtlib import Check, Refused
from assay.verify.verdict import Verdict

BOX = 1 << 20  # points that are enumerated
Z3_LIMIT = 2_000_000  # z3 resource units for each question and solver
CVC5_LIMIT = 1_000_000  # cvc5 resource units for each question

Checker = Callable[[Certificate, smtlib.Script], "list[str] | None"]


@dataclass(frozen=True)
class Disagreement:
    """Question `number` of a certificate, which states one answer and got another from `who`."""

    certificate: str
    where: str
    number: int
    who: str
    stated: str
    got: str

    def __str__(self) -> str:
        return f"{self.certificate} ({self.where}): question {self.number + 1} states {self.stated}, {self.who} says {self.got}"


@dataclass
class Row:
    """How many facts of one kind there are, and how many of them each checker confirmed; `undecided` by cvc5."""

    kind: str
    facts: int = 0
    z3: int = 0
    cvc5: int = 0
    undecided: int = 0
    exhaustive: int = 0
    products: int = 0
    unconfirmed: int = 0

    def to_json(self) -> dict[str, Any]:
        return {**vars(self)}


@dataclass(frozen=True)
class Recheck:
    """What came of it.  `faults` are differences between the saved certificates and what the program owes."""

    name: str
    rows: tuple[Row, ...]
    disagreements: tuple[Disagreement, ...]
    faults: tuple[str, ...]
    open: tuple[str, ...]
    assumes: tuple[str, ...]

    @property
    def total(self) -> Row:
        return Row("all", *(sum(getattr(r, f) for r in self.rows) for f in list(vars(Row("")))[1:]))

    @property
    def verdict(self) -> Verdict:
        """REFUTED by a disagreement; UNKNOWN where a fact was confirmed by nobody but z3, or there are none."""
        wrong = [*map(str, self.disagreements), *self.faults]
        if wrong:
            return verdict.refuted(wrong[0])
        if not self.total.facts:
            return verdict.unknown("there are no certificates")
        if self.total.unconfirmed:
            return verdict.unknown(f"{self.total.unconfirmed} facts have no confirmation besides z3's")
        return verdict.proved

    def __str__(self) -> str:
        columns = ["", "facts", "z3", "cvc5", "undecided", "exhaustive", "products", "nobody"]
        cells = [columns, *([r.kind, *map(str, list(vars(r).values())[1:])] for r in (*self.rows, self.total))]
        width = [max(len(line[k]) for line in cells) for k in range(len(columns))]
        lines = [self.name]
        lines += ["  ".join(x.ljust(width[0]) if k == 0 else x.rjust(width[k]) for k, x in enumerate(line)) for line in cells]
        if self.total.undecided or self.total.unconfirmed:
            lines.append("undecided: cvc5 gave no answer within its resource limit; nobody: proved, and confirmed by z3 alone")
        lines += [f"DISAGREEMENT: {d}" for d in self.disagreements] + [f"WRONG: {f}" for f in self.faults]
        lines += [f"no certificate: {x}" for x in self.open] + [f"assumed: {x}" for x in self.assumes]
        return "\n".join([*lines, f"{self.verdict}: {len(self.disagreements)} disagreements"])

    def to_json(self) -> dict[str, Any]:
        v = self.verdict
        rows = [r.to_json() for r in (*self.rows, self.total)]
        return {"name": self.name, "verdict": str(v), "exit_code": v.exit_code, "rows": rows,
                "disagreements": [vars(d) for d in self.disagreements], "faults": list(self.faults), "open": list(self.open),
                "assumes": list(self.assumes)}  # fmt: skip


def recheck(made: Certificates, *, faults: Iterable[str] = ()) -> Recheck:
    """Every certificate, by every checker.  Raises Unsupported where cvc5 is not installed."""
    need_cvc5()
    rows: dict[str, Row] = {}
    wrong: list[Disagreement] = []
    damaged = [*faults]
    for c in made.certificates:
        row = rows.setdefault(c.kind, Row(c.kind))
        row.facts += 1
        try:
            script = smtlib.read(c.text)
        except Refused as error:
            damaged.append(f"{c.name}: {error}")
            continue
        stated = [check.expected for check in script.checks]
        if tuple(stated) != c.expected:
            damaged.append(f"{c.name} states {stated}, its entry {list(c.expected)}")
        answers = {name: checker(c, script) for name, checker in CHECKERS.items()}
        for who, got in answers.items():
            for k, (s, g) in enumerate(zip(stated, got or (), strict=False)):
                if g in ("sat", "unsat") and g != s:
                    wrong.append(Disagreement(c.name, c.where, k, who, s, g))
        right = {who for who, got in answers.items() if got == stated}
        row.z3 += "z3" in right
        row.cvc5 += "cvc5" in right
        row.undecided += any(g not in ("sat", "unsat") for g in answers["cvc5"] or ())
        row.exhaustive += "enumeration" in right
        row.products += "products" in right
        row.unconfirmed += not right - {"z3"}
    return Recheck(made.name, tuple(rows.values()), tuple(wrong), tuple(damaged), made.open, made.assumes)


# ------------------------------------------------------------------------------------------------ the checkers


def need_cvc5() -> None:
    """Raises Unsupported where cvc5 is not installed."""
    if importlib.util.find_spec("cvc5") is None:
        raise Unsupported(f"rechecking needs the second solver, cvc5: {sys.executable} -m pip install cvc5")


def by_cvc5(c: Certificate, _: smtlib.Script) -> list[str]:
    """cvc5's answers to the text (without those that it states): sat, unsat, or why there is none."""
    cvc5: Any = importlib.import_module("cvc5")
    solver = cvc5.Solver(cvc5.TermManager())
    solver.setOption("incremental", "true")
    solver.setOption("rlimit-per", str(CVC5_LIMIT))
    parser = cvc5.InputParser(solver)
    text = re.sub(r"\(set-info :status (un)?sat\)", "", c.text)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, text, c.name)
    symbols = parser.getSymbolManager()
    answers: list[str] = []
    while not (command := parser.nextCommand()).isNull():
        answers += str(command.invoke(solver, symbols)).split("\n")
    return [a.strip() for a in answers if a.strip()]


def by_z3(_: Certificate, script: smtlib.Script) -> list[str]:
    """z3's answers to each question, first without preprocessing."""
    import z3

    answers: list[str] = []
    context = z3.Context()  # one for each certificate: no answer depends on what was asked before
    for check in script.checks:
        text = "\n".join(_commands(check))
        answer = "unknown"
        for make in (z3.SimpleSolver, z3.Solver):
            solver: Any = make(ctx=context)
            solver.set("rlimit", Z3_LIMIT)
            solver.from_string(text)
            answer = str(solver.check())
            if answer != "unknown":
                break
        answers.append(answer)
    return answers


def _commands(check: Check) -> Iterator[str]:
    """One question as a text of its own."""
    for x, sort in check.script.constants.items():
        yield f"(declare-const {x} {sort})"
    sorts = sorts_of(check.script)
    for x, body in check.script.definitions.items():
        yield f"(define-fun {x} () {sorts[x]} {render(body)})"
    for term in check.assertions:
        yield f"(assert {render(term)})"


def render(t: smtlib.Term) -> str:
    """The term as text."""
    return t if isinstance(t, str) else f"({' '.join(map(render, t))})"


def sorts_of(script: smtlib.Script) -> dict[str, str]:
    """The sort of each constant and definition."""
    sorts = dict(script.constants)

    def sort(t: smtlib.Term) -> str:
        if isinstance(t, str):
            return "Bool" if t in ("true", "false") else sorts.get(t, "Int")
        return sort(t[2]) if t[0] == "ite" else "Int" if t[0] in ("+", "-", "*", "div", "mod") else "Bool"

    for x, body in script.definitions.items():
        sorts[x] = sort(body)
    return sorts


def by_enumeration(c: Certificate, script: smtlib.Script) -> list[str] | None:
    """The answers by evaluating every point; of a fact that fails, and has a larger box, at its witness. None: neither."""
    try:
        if smtlib.points(script.checks[-1]) <= BOX:
            return [smtlib.enumerate_box(check) for check in script.checks]
        if c.witness is not None and c.expected[-1] == "sat":
            at = c.witness
            return ["sat" if check.expected == "sat" and smtlib.holds_at(check, at) else "unsat" for check in script.checks]
    except Refused as error:
        return [str(error)]
    return None


def by_products(c: Certificate, script: smtlib.Script) -> list[str] | None:
    """The last answer by exact arithmetic (what it is not about is taken as stated). None: the certificate has no products."""
    if c.products is None:
        return None
    check = script.checks[-1]
    try:
        proved = check.expected == "unsat" and rational.proves(check, c.products["cases"])
    except (Refused, KeyError, TypeError) as error:
        return [f"products: {error}"]
    return [x.expected for x in script.checks[:-1]] + ["unsat" if proved else "not proved by its products"]


CHECKERS: dict[str, Checker] = {"z3": by_z3, "cvc5": by_cvc5, "enumeration": by_enumeration, "products": by_products}

__all__ = ["CHECKERS", "Disagreement", "Recheck", "Row", "recheck"]
