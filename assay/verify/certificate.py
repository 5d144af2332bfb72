"""Certificates: each settled obligation of a program as files that other programs can check.

    made = certificates(prove(program));  save(made, folder);  load(folder, program)

    folder/program.assay            the program, whose SHA-256 the certificates are tied to
    folder/certificates.json        what there is: kind, place, status, expected answers, hash of each file
    folder/001-bounds-t0-x_2_i_3.smt2     one integer fact (verify/query.py)
    folder/001-...products.json     where it multiplies unknowns: the fact as a sum of products (verify/rational.py)

A fact that fails (a kept check, a floor division) has the answer sat, and its witness beside it.  What facts take as given is
certified too (verify/lemmas.py, kind "range"), or listed under `assumes`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assay.core.errors import UserError
from assay.core.index import Size, Val, Var
from assay.core.lang import LOADS, Program, T
from assay.core.text import show, sum_text
from assay.verify import handelman, smtlib
from assay.verify.bounds import KEPT, PROVED, Obligation, Proof, Texts
from assay.verify.integers import NODES, Answer, Fact, Question, decide
from assay.verify.lemmas import Lemma, Ranges
from assay.verify.query import write
from assay.verify.terms import Atom

FORMAT = 1
INDEX = "certificates.json"
PROGRAM = "program.assay"


@dataclass(frozen=True)
class Certificate:
    """One integer fact with the answers that it states.

    `status` is "holds", "fails" (with a `witness`: a value for each constant) or "unreachable" (it is about no point at all).
    """

    name: str
    kind: str
    where: str
    status: str
    how: str
    text: str
    expected: tuple[str, ...]
    witness: dict[str, int] | None = None
    products: dict[str, Any] | None = None

    @property
    def fact(self) -> str:
        """The text without the comments: what is asserted and asked."""
        return "\n".join(line.partition("  ;")[0] for line in self.text.splitlines() if not line.startswith(";"))


@dataclass(frozen=True)
class Certificates:
    """All certificates of a program; `open` says of which obligations there is none, and why; `assumes` what they rest on."""

    name: str
    program: str
    certificates: tuple[Certificate, ...]
    open: tuple[str, ...]
    assumes: tuple[str, ...]
    verdict: str = field(default="", compare=False)

    @property
    def sha256(self) -> str:
        """The hash of the program's text."""
        return digest(self.program)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


# ------------------------------------------------------------------------------------------------ making


def certificates(proof: Proof, *, name: str = "") -> Certificates:
    """The certificates of all obligations of a proof, and of the ranges that they rest on."""
    return _Maker(proof).run(name or proof.program.name)


def fact_certificates(facts: Mapping[Fact, Answer], name: str) -> Certificates:
    """The certificates of facts that something else than a proof of bounds asked (integers.recorded_facts)."""
    made: dict[str, Certificate] = {}
    open_: list[str] = []
    for fact, answer in facts.items():
        q = fact.question
        fails = answer.point is not None and not answer.opaque
        if len(q.nodes) > NODES or (answer.status != PROVED and not fails):
            open_.append(f"{answer.how} gave no answer")
            continue
        c = _certificate(f"{len(made) + 1:03}-fact", "fact", name, q, answer, [], lambda a: "")
        made.setdefault(c.fact, c)
    return Certificates(name, "", tuple(made.values()), tuple(open_), ())


def _certificate(stem: str, kind: str, where: str, q: Question, answer: Answer, title: Iterable[str],
                 name: Callable[[Atom], str]) -> Certificate:  # fmt: skip
    fails = answer.status != PROVED
    reachable = fails or not q.hypotheses or q.satisfiable()
    text = write(q, title, name, holds=not fails, reachable=reachable)
    status = "fails" if fails else "holds" if reachable else "unreachable"
    found = handelman.find(smtlib.read(text.text)) if status == "holds" else None
    witness = _witness(answer, text.names) if fails else None
    return Certificate(stem, kind, where, status, answer.how, text.text, text.expected, witness, found)


class _Maker:
    def __init__(self, proof: Proof) -> None:
        self.proof = proof
        self.text = Texts(proof.program)
        self.made: dict[str, Certificate] = {}  # by the text of the fact
        self.open: dict[str, None] = {}
        self.assumes: dict[str, None] = {}
        self.variables: dict[T, dict[Var, str]] = {}

    def run(self, name: str) -> Certificates:
        ranges = Ranges(self.proof.program)
        todo = [*self._obligations()]
        seen: set[tuple[T, Fact]] = set()
        while todo:
            kind, t, where, fact, o = todo.pop(0)
            if (t, fact) in seen and o is None:
                continue
            seen.add((t, fact))
            for found in ranges.of(t, self._certify(kind, t, where, fact, o)):
                if isinstance(found, Lemma):
                    todo.append(("range", found.tensor, f"{self.text.names.of[found.tensor]}: {found.what}", found.fact, None))
                else:
                    self.assumes[found] = None
        program = show(self.proof.program)
        verdict = str(self.proof.verdict)
        return Certificates(name, program, tuple(self.made.values()), tuple(self.open), tuple(self.assumes), verdict)

    def _obligations(self) -> Iterator[tuple[str, T, str, Fact, Obligation | None]]:
        for o in self.proof.obligations:
            for fact in (f for f in o.facts if f.goal.ranges or f.goal.condition is not None):
                yield o.kind, o.tensor, o.where, fact, o

    def _certify(self, kind: str, t: T, where: str, fact: Fact, o: Obligation | None) -> tuple[Atom, ...]:
        """Add the certificate of the fact; returns the atoms that it speaks of."""
        q = fact.question
        if len(q.nodes) > NODES:
            self.open[f"{where}: {len(q.nodes)} operations, at most {NODES}"] = None
            return ()
        answer = decide(fact.goal, fact.hypotheses)
        fails = answer.point is not None and not answer.opaque
        if answer.status != PROVED and not fails:
            stays = "it stays a floor division" if kind == "sign" else "its check stays"
            instead = f"; {stays}" if o is not None and o.status == KEPT else ""
            self.open[f"{where}: {answer.how} gave no answer{instead}"] = None
            return ()
        title = [f"{kind} {where}", f"program {self.proof.program.name}, sha256 {digest(show(self.proof.program))}"]
        stem = f"{len(self.made) + 1:03}-{kind}-{_slug(where)}"
        c = _certificate(stem, kind, where, q, answer, title, lambda a: self._name(t, a))
        self.made.setdefault(c.fact, c)
        return tuple(q.atoms)

    def _name(self, t: T, a: Atom) -> str:
        if isinstance(a, Var):
            if t not in self.variables:
                self.variables[t] = self.text.variables(t)
            return self.variables[t].get(a, repr(a))
        if isinstance(a, Size):
            return a.name
        if a.op in LOADS:
            tensor, indices = a.attr
            inside = ",".join(sum_text(i, lambda x: self._name(t, x.e if isinstance(x, Val) else x)) for i in indices)
            return f"{self.text.names.of.get(tensor, '')}[{inside}]"
        return ""


def _witness(answer: Answer, names: dict[Atom, str]) -> dict[str, int] | None:
    """The point by the names of the text; None where it was found before loads were replaced by what they mean."""
    point = answer.point or {}
    if not names.keys() <= point.keys():
        return None
    return {x: int(point[a]) for a, x in names.items()}


def folder_name(name: str) -> str:
    """The name of the folder of a program's certificates."""
    return re.sub(r"[^A-Za-z0-9_]+", "-", name).strip("-") or "program"


def _slug(where: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", where).strip("-")[:40].rstrip("-")


# ------------------------------------------------------------------------------------------------ files


def save(made: Certificates, folder: Path) -> Path:
    """Write the certificates to folder/name, all of them at once or none; returns that folder.

    Raises UserError where something stands there that is no folder of certificates.
    """
    target = folder / folder_name(made.name)
    if target.exists() and not (target / INDEX).is_file():
        raise UserError(f"{target} exists and is no folder of certificates (it has no {INDEX}); give another folder")
    folder.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=folder, prefix=f".{target.name}-"))
    try:
        for name, text in _files(made).items():
            (temporary / name).write_text(text, encoding="utf-8")
        old = temporary.with_name(temporary.name + "-old")
        if target.exists():
            os.replace(target, old)
        os.replace(temporary, target)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return target


def _files(made: Certificates) -> dict[str, str]:
    files = {PROGRAM: made.program}
    listed: list[dict[str, Any]] = []
    for c in made.certificates:
        entry = {"name": c.name, "kind": c.kind, "where": c.where, "status": c.status, "how": c.how,
                 "expected": list(c.expected), "witness": c.witness, "products": c.products is not None}  # fmt: skip
        files[f"{c.name}.smt2"] = c.text
        if c.products is not None:
            files[f"{c.name}.products.json"] = json.dumps(c.products, indent=1) + "\n"
        listed.append(entry)
    hashes = {k: digest(v) for k, v in files.items()}
    content = {"format": FORMAT, "name": made.name, "verdict": made.verdict, "program": made.sha256, "certificates": listed,
               "open": list(made.open), "assumes": list(made.assumes), "files": hashes}  # fmt: skip
    text = json.dumps(content, indent=1)
    files[INDEX] = json.dumps({"sha256": digest(text), "content": content}, indent=1) + "\n"
    return files


def load(folder: Path, program: Program | None = None) -> Certificates:
    """The certificates of folder, intact and of this program.

    Raises UserError for a file that is missing, cut off or changed, and, with both hashes, where the program is another one.
    """
    content = _index(folder)
    files = {name: _intact(folder / name, sha) for name, sha in content["files"].items()}
    text = files.get(PROGRAM, "")
    if digest(text) != content["program"]:
        raise UserError(f"{folder / PROGRAM} has sha256 {digest(text)}, the certificates are of {content['program']}")
    if program is not None and digest(show(program)) != content["program"]:
        raise UserError(
            f"{folder}: the certificates are of another program\n  saved    sha256 {content['program']}\n"
            f"  program  sha256 {digest(show(program))}\n  It changed since (or the passes did); save its certificates again."
        )
    try:
        found = [
            Certificate(e["name"], e["kind"], e["where"], e["status"], e["how"], files[f"{e['name']}.smt2"],
                        tuple(e["expected"]), e["witness"],
                        json.loads(files[f"{e['name']}.products.json"]) if e["products"] else None)
            for e in content["certificates"]
        ]  # fmt: skip
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{folder / INDEX} does not describe its files: {type(error).__name__} {error}") from None
    open_, assumes = tuple(content["open"]), tuple(content["assumes"])
    return Certificates(content["name"], text, tuple(found), open_, assumes, content["verdict"])


def _index(folder: Path) -> dict[str, Any]:
    path = folder / INDEX
    if not path.is_file():
        raise UserError(f"{folder} holds no certificates (no {INDEX}); `assay prove TARGET --save-certificates DIR` writes them")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        content = found["content"]
        if digest(json.dumps(content, indent=1)) != found["sha256"]:
            raise UserError(f"{path} was changed or cut off: its content does not have the sha256 that it states")
        if content["format"] != FORMAT:
            raise UserError(f"{path} has format {content['format']}; this version reads format {FORMAT}")
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{path} is not complete: {type(error).__name__}: {error}") from None
    return content


def _intact(path: Path, sha256: str) -> str:
    if not path.is_file():
        raise UserError(f"{path} is missing")
    text = path.read_text(encoding="utf-8", errors="replace")
    if digest(text) != sha256:
        raise UserError(f"{path} was changed or cut off: sha256 {digest(text)}, saved as {sha256}")
    return text


def folders(folder: Path) -> list[Path]:
    """The folders of certificates in `folder`, or itself if it is one.  Raises UserError where there are none."""
    if (folder / INDEX).is_file():
        return [folder]
    found = sorted(p for p in folder.iterdir() if not p.name.startswith(".") and p.is_dir()) if folder.is_dir() else []
    if not any((p / INDEX).is_file() for p in found):
        raise UserError(f"{folder} holds no certificates; `assay prove TARGET --save-certificates DIR` writes them")
    return [p for p in found if (p / INDEX).is_file()]


def differences(saved: Certificates, owed: Certificates) -> list[str]:
    """What the program owes and the saved certificates do not say, one sentence each."""
    have = {c.fact: c for c in saved.certificates}
    found = [f"{c.name}: no saved certificate states this fact" for c in owed.certificates if c.fact not in have]
    found += [
        f"{have[c.fact].name} is saved as {have[c.fact].status}, which the program owes as {c.status}"
        for c in owed.certificates
        if c.fact in have and have[c.fact].expected != c.expected
    ]
    extra = {c.fact for c in owed.certificates}
    return found + [f"{c.name}: the program does not owe this fact" for c in saved.certificates if c.fact not in extra]


__all__ = [
    "Certificate", "Certificates", "certificates", "differences", "fact_certificates", "folder_name", "folders", "load", "save",
]  # fmt: skip
