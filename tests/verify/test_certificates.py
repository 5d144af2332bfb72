"""Certificates: what they say, that others confirm them, and that nothing tampered with, cut off or unsound passes."""

from __future__ import annotations

import ast
import json
import random
import shutil
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import assay.core.functions  # noqa: F401
from assay.core.errors import Unsupported, UserError
from assay.core.lang import Program
from assay.core.text import parse, show
from assay.verify import bounds, certificate, integers, rational, recheck, smtlib
from assay.verify.bounds import prove
from assay.verify.certificate import Certificates, certificates, differences, digest, load, save
from assay.verify.integers import Answer
from assay.verify.recheck import by_cvc5, by_enumeration, by_z3
from assay.verify.validate import validate
from tests.verify import size_cases
from tests.verify.cases import FALSE, TRUE, Case

CASES = {c.name: c for c in TRUE + FALSE}


@cache
def made(text: str | Case) -> Certificates:
    return certificates(prove(text.program if isinstance(text, Case) else parse(text)))


# ------------------------------------------------------------------------------------------------ who agrees

SOME = [
    "affine", "roll", "pad", "gather, floor mod", "gather, wrapped and checked", "jagged rows", "lower triangle, packed",
    "middle of a binary search", "grouped tiles, exact tail", "intermediate of 10**9", "tiles without a tail mask",
    "remainder of C", "triangle with its diagonal",
]  # fmt: skip


@pytest.mark.parametrize("name", SOME)
def test_every_checker_agrees(name: str) -> None:
    found = recheck.recheck(made(CASES[name]))
    assert (found.disagreements, found.faults, found.open) == ((), (), ())
    assert found.total.cvc5 == found.total.facts > 0
    assert found.verdict.kind == "PROVED"


@pytest.mark.full
@pytest.mark.parametrize("name", CASES)
def test_every_checker_agrees_on_every_case(name: str) -> None:
    found = recheck.recheck(made(CASES[name]))
    assert (found.disagreements, found.faults, found.total.cvc5) == ((), (), found.total.facts)


def test_a_fact_that_fails_carries_its_witness() -> None:
    found = made(CASES["slice, one too many"])
    [c] = [c for c in found.certificates if c.kind == "bounds"]
    assert (c.status, c.witness, c.expected) == ("fails", {"i": 49}, ("sat", "sat"))
    last = smtlib.read(c.text).checks[-1]
    assert smtlib.holds_at(last, {"i": 49})
    assert not smtlib.holds_at(last, {"i": 48})


def test_the_text() -> None:
    [c] = [c for c in made(CASES["pad"]).certificates if c.kind == "bounds"]
    lines = [line for line in c.text.splitlines() if not line.startswith(";")]
    assert lines == [
        "(set-logic ALL)",
        "(declare-const i Int)",
        "(assert (<= 0 i 131))",
        "(assert (<= 2 i))",
        "(assert (< i 130))",
        "(set-info :status sat)",
        "(check-sat)",
        "(assert (not (and (<= 0 (+ (- 2) i)) (<= (+ (- 2) i) 127))))",
        "(set-info :status unsat)",
        "(check-sat)",
    ]
    assert c.text.startswith("; bounds t0: x[i - 2]\n; program f, sha256 " + digest(show(CASES["pad"].program)))


def test_what_is_never_reached_states_that_its_hypotheses_cannot_hold() -> None:
    text = "program f(x: f32[5], n: i64[9]):\nt[i:9] = select(lt(n[i], 0), select(lt(n[i], 0), 0, x[i]), 0)\nreturn t"
    [c] = [c for c in made(text).certificates if "x[i]" in c.where]
    assert (c.status, c.expected) == ("unreachable", ("unsat", "unsat"))
    assert by_cvc5(c, smtlib.read(c.text)) == ["unsat", "unsat"]


def test_a_step_that_might_wrap_is_asked_about() -> None:
    """n + 1 is exact by the interval of n: the certificate asks, so that no interval is believed."""
    text = "program f(x: f32[128], n: i64[9]):\nt[i:9] = x[max(add(min(n[i], 126), 1), 0)]\nreturn t"
    [c] = [c for c in made(text).certificates if "x[" in c.where and "n" in c.where and c.kind == "bounds"]
    assert c.expected == ("unsat", "sat", "unsat")
    assert by_cvc5(c, smtlib.read(c.text)) == list(c.expected)


# ------------------------------------------------------------------------------------------------ what facts rest on


def test_the_range_of_a_fold_is_a_fact_of_its_own() -> None:
    text = "program f(x: f32[10], n: i64[4]):\nt[i:3] = x[fold(k:4; a=0:i64 in 0..9) min(max(add(a, n[k]), 0), 9)]\nreturn t"
    found = made(text)
    [c] = [c for c in found.certificates if c.kind == "range"]
    assert c.where == "t0: the accumulators of a fold over 4"
    assert recheck.recheck(found).verdict.kind == "PROVED"
    assert found.assumes == ()


def test_what_an_extern_declares_is_listed_as_assumed() -> None:
    text = 'program f(x: f32[10]):\no = extern "sort"(x; 0, false; 1): i64[10] in 0..9\nt[i:10] = x[o[i]]\nreturn t'
    assert made(text).assumes == ("the declared range 0..9 of extern sort",)


def test_a_wrong_range_of_a_fold_is_refuted_by_cvc5(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lemma of a fold is not a formality: without it an interval that no induction supports would pass."""
    text = "program f(x: f32[10], n: i64[4]):\nt[i:3] = x[fold(k:4; a=0:i64 in 0..9) min(max(add(a, n[k]), 0), 9)]\nreturn t"
    [c] = [c for c in made(text).certificates if c.kind == "range"]
    wrong = replace(c, text=c.text.replace(" 9))))", " 8))))"))
    assert wrong.text != c.text
    assert by_cvc5(wrong, smtlib.read(wrong.text))[-1] == "sat"


def test_the_lemma_of_a_count_speaks_of_its_growth() -> None:
    text = "program f(x: f32[5], m: bool[4]):\nt[i:3] = x[sum(k:4 in 0..3) select(m[k], 1:i64, 0:i64)]\nreturn t"
    found = made(text)
    [c] = [c for c in found.certificates if c.kind == "range"]
    assert recheck.recheck(found).verdict.kind == "PROVED"
    wrong = replace(c, text=c.text.replace("(ite |m[k]| 1 0)", "(ite |m[k]| 2 0)"))
    assert wrong.text != c.text
    assert by_cvc5(wrong, smtlib.read(wrong.text))[-1] == "sat"


# ------------------------------------------------------------------------------------------------ sizes, validation

SIZED = {c.name: c for c in size_cases.TRUE}


@pytest.mark.parametrize("name", ["affine", "roll by 5", "convolution, guarded", "tiles with a tail", "gather, clamped"])
def test_programs_with_sizes(name: str) -> None:
    found = recheck.recheck(certificates(prove(SIZED[name].program)))
    assert (found.disagreements, found.verdict.kind, found.total.cvc5) == ((), "PROVED", found.total.facts)


@pytest.mark.parametrize("name", ["row major, three axes", "two-dimensional convolution, guarded"])
def test_addresses_of_many_sizes_have_exact_certificates(name: str) -> None:
    """cvc5 does not decide these within its limit: products of three sizes and an index."""
    [c] = certificates(prove(SIZED[name].program)).certificates
    assert c.products is not None
    assert recheck.by_products(c, smtlib.read(c.text)) == list(c.expected)


def test_the_facts_of_a_validation() -> None:
    """What the comparison of two programs asks of indices is confirmed by others too."""
    source, target = (
        parse(f"program f(x: f32[6]):\nt[i:6] = {body}\nreturn t")
        for body in ("x[select(lt([i]:i64, 3), [i + 3]:i64, [i - 3]:i64)]", "x[(i + 3)%6]")
    )
    with integers.recorded_facts() as facts:
        assert validate(source, target).proved
    assert facts
    found = recheck.recheck(certificate.fact_certificates(facts, "a step"))
    assert (found.disagreements, found.total.unconfirmed) == ((), 0)
    assert found.total.cvc5 == found.total.facts > 0


# ------------------------------------------------------------------------------------------------ files


@pytest.fixture
def saved(tmp_path: Path) -> tuple[Path, Certificates]:
    owed = made(CASES["gather, wrapped and checked"])
    return save(owed, tmp_path / "certificates"), owed


def test_saving_and_loading(saved: tuple[Path, Certificates]) -> None:
    folder, owed = saved
    assert sorted(p.name for p in folder.iterdir()) == [
        "001-bounds-t0-n-i.smt2", "002-bounds-t0-x-select-lt-n-i-0-i64-add-n-i-128-i64.smt2", "003-width-t0.smt2",
        "004-width-t0.smt2", "certificates.json", "program.assay",
    ]  # fmt: skip
    assert load(folder) == load(folder, CASES["gather, wrapped and checked"].program) == owed
    assert differences(load(folder), owed) == []
    save(owed, folder.parent)  # again, over what is there
    assert [p.name for p in folder.parent.iterdir()] == [folder.name]


def test_another_program_is_refused_with_both_hashes(saved: tuple[Path, Certificates]) -> None:
    other = CASES["roll"].program
    with pytest.raises(UserError, match="certificates are of another program") as error:
        load(saved[0], other)
    assert saved[1].sha256 in str(error.value)
    assert digest(show(other)) in str(error.value)


def test_a_changed_program_file_is_refused_with_both_hashes(saved: tuple[Path, Certificates]) -> None:
    folder, owed = saved
    text = (folder / "program.assay").read_text().replace("128", "129")
    (folder / "program.assay").write_text(text)
    with pytest.raises(UserError, match="was changed or cut off") as error:
        load(folder)
    assert owed.sha256 in str(error.value)
    assert digest(text) in str(error.value)


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


@pytest.mark.parametrize("which", range(6))
def test_a_half_written_file_is_refused(saved: tuple[Path, Certificates], which: int) -> None:
    path = saved[0] / names(saved[0])[which]
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(UserError, match=r"cut off|not complete"):
        load(saved[0])


@pytest.mark.parametrize("which", range(6))
def test_a_missing_file_is_refused(saved: tuple[Path, Certificates], which: int) -> None:
    (saved[0] / names(saved[0])[which]).unlink()
    with pytest.raises(UserError, match=r"is missing|holds no certificates"):
        load(saved[0])


def tampered(folder: Path, change: Any) -> None:
    """Change the content of the index and make its hashes right again, as somebody would who wants to be believed."""
    index = json.loads((folder / "certificates.json").read_text())
    change(index["content"])
    index["content"]["files"] = {n: digest((folder / n).read_text()) for n in names(folder) if n != "certificates.json"}
    index["sha256"] = digest(json.dumps(index["content"], indent=1))
    (folder / "certificates.json").write_text(json.dumps(index))


def weaken_goal(folder: Path) -> None:
    path = folder / "002-bounds-t0-x-select-lt-n-i-0-i64-add-n-i-128-i64.smt2"
    path.write_text(path.read_text().replace(" 127)", " 1270)"))
    tampered(folder, lambda content: None)


def add_hypothesis(folder: Path) -> None:
    path = folder / "002-bounds-t0-x-select-lt-n-i-0-i64-add-n-i-128-i64.smt2"
    path.write_text(path.read_text().replace("; the hypotheses\n", "; the hypotheses\n(assert (< i 3))\n"))
    tampered(folder, lambda content: None)


def drop(folder: Path) -> None:
    (folder / "004-width-t0.smt2").unlink()
    tampered(folder, lambda content: content["certificates"].pop())


@pytest.mark.parametrize("tamper", [weaken_goal, add_hypothesis, drop])
def test_tampering_with_right_hashes_is_seen_by_what_is_owed(saved: tuple[Path, Certificates], tamper: Any) -> None:
    folder, owed = saved
    tamper(folder)
    found = load(folder)
    faults = differences(found, owed)
    assert faults
    assert "no saved certificate states this fact" in faults[0]
    assert recheck.recheck(found, faults=faults).verdict.kind == "REFUTED"


def test_a_folder_of_something_else_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / "precious.txt").write_text("x")
    with pytest.raises(UserError, match="is no folder of certificates"):
        save(made(CASES["pad"]), tmp_path)
    assert names(tmp_path / "f") == ["precious.txt"]


def test_a_killed_write_leaves_the_old_certificates(saved: tuple[Path, Certificates], monkeypatch: pytest.MonkeyPatch) -> None:
    folder, owed = saved
    before = {n: (folder / n).read_text() for n in names(folder)}
    real = Path.write_text

    def fails(self: Path, *args: Any, **kwargs: Any) -> int:
        if "certificates.json" in self.name:
            raise OSError("no space left on device")
        return real(self, *args, **kwargs)

    monkeypatch.setattr(Path, "write_text", fails)
    with pytest.raises(OSError, match="no space"):
        save(owed, folder.parent)
    assert {n: (folder / n).read_text() for n in names(folder)} == before
    assert [p.name for p in folder.parent.iterdir()] == [folder.name]


# ------------------------------------------------------------------------------------------------ unsound on purpose


def test_an_unsound_fact_is_caught_by_cvc5(monkeypatch: pytest.MonkeyPatch) -> None:
    """A prover that believes everything: cvc5, enumeration and z3 all disagree with it."""
    program = CASES["tiles without a tail mask"].program
    monkeypatch.setattr(integers, "_decide", lambda *_: Answer("proved", "intervals"))
    for module, memo in ((integers, "_answers"), (bounds, "_proofs")):
        monkeypatch.setattr(module, memo, {})
    found = recheck.recheck(certificates(prove(program)))
    assert {d.who for d in found.disagreements} == {"z3", "cvc5", "enumeration"}
    assert {(d.stated, d.got) for d in found.disagreements} == {("unsat", "sat")}
    assert found.verdict.kind == "REFUTED"


def test_an_unsound_interval_is_caught_by_cvc5(monkeypatch: pytest.MonkeyPatch) -> None:
    """A remainder that is believed to be smaller than it is."""
    monkeypatch.setattr(integers, "_inside", lambda goal, known: True)
    for module, memo in ((integers, "_answers"), (bounds, "_proofs")):
        monkeypatch.setattr(module, memo, {})
    text = "program f(x: f32[6], n: i64[9]):\nt[i:9] = x[mod(n[i], add(mod(n[i], 3), 5))]\nreturn t"
    found = recheck.recheck(certificates(prove(parse(text))))
    assert "cvc5" in {d.who for d in found.disagreements}


# ------------------------------------------------------------------------------------------------ enumeration


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(declare-const i Int)", "asks nothing"),
        ("(assert (< 1 2)", "cut off"),
        (")", "a bracket too many"),
        ("(declare-fun f (Int) Int)", "not a command of the subset"),
        ("(check-sat)", "not a command of the subset"),  # it states no answer
        ("(set-info :status unsat)(check-sat-assuming (a))", "not a command of the subset"),
        ("(declare-const i Int)(declare-const i Int)", "not a command"),
        ("(pop 1)", "not a command"),
    ],
)
def test_what_enumeration_does_not_read(text: str, message: str) -> None:
    with pytest.raises(smtlib.Refused, match=message):
        smtlib.read(text)


ONE = "(declare-const i Int)(assert (<= (- 3) i 4)){}(set-info :status sat)(check-sat)"


@pytest.mark.parametrize(
    ("assertion", "answer"),
    [
        ("(assert (= (mod i 3) 2))", "sat"),
        ("(assert (< (mod i 3) 0))", "unsat"),
        ("(assert (= (div i 2) (- 2)))", "sat"),  # floor: -3 div 2
        ("(assert (not (= (+ (* 3 (div i 3)) (mod i 3)) i)))", "unsat"),
        ("(assert (< 4 (* i i) 9))", "unsat"),
        ("(assert (= (ite (< i 0) (- i) i) 4))", "sat"),
        ("(assert (and (< i 0) (or (= i 0) (= i 1))))", "unsat"),
        ("(assert (< 0 (* i 6917529027641081856 4)))", "sat"),  # beyond int64
        ("(assert (< (* i 6917529027641081856 4) (* (- i 1) 6917529027641081856 4)))", "unsat"),
        ("(define-fun v0 () Int (- i 1))(assert (= v0 i))", "unsat"),
        ("(assert true)", "sat"),
        ("(assert false)", "unsat"),
    ],
)
def test_enumeration(assertion: str, answer: str) -> None:
    [check] = smtlib.read(ONE.format(assertion)).checks
    assert smtlib.enumerate_box(check) == answer


@pytest.mark.parametrize("term", ["(div 1 i)", "(f i)", "j", "(div 1 0)", "(ite true 1)"])
def test_enumeration_refuses_what_has_no_meaning_there(term: str) -> None:
    [check] = smtlib.read(ONE.format(f"(assert (= {term} 0))")).checks
    with pytest.raises(smtlib.Refused):
        smtlib.enumerate_box(check)


def test_enumeration_needs_ranges() -> None:
    [check] = smtlib.read("(declare-const i Int)(assert (<= 0 i))(set-info :status sat)(check-sat)").checks
    with pytest.raises(smtlib.Refused, match="no range is stated for i"):
        smtlib.enumerate_box(check)


def test_enumeration_agrees_with_solvers_on_random_texts() -> None:
    rng = random.Random(3)

    def integer(depth: int) -> str:
        if not depth:
            return rng.choice(["i", "j", "(- 2)", "0", "3", "7"])
        op = rng.choice(["+", "-", "*", "div", "mod", "ite"])
        if op == "ite":
            return f"(ite {condition(depth - 1)} {integer(depth - 1)} {integer(depth - 1)})"
        second = rng.choice(["2", "3", "5"]) if op in ("div", "mod") else integer(depth - 1)
        return f"({op} {integer(depth - 1)} {second})"

    def condition(depth: int) -> str:
        op = rng.choice(["<", "<=", "=", "and", "or", "not"]) if depth else "<"
        if op == "not":
            return f"(not {condition(depth - 1)})"
        part = condition if op in ("and", "or") else integer
        return f"({op} {part(max(depth - 1, 0))} {part(max(depth - 1, 0))})"

    seen: set[str] = set()
    for _ in range(30):
        ranges = "(declare-const i Int)(declare-const j Int)(assert (<= (- 3) i 4))(assert (<= 0 j 5))"
        text = f"(set-logic ALL){ranges}(assert {condition(3)})(set-info :status sat)(check-sat)"
        c = certificate.Certificate("r", "bounds", "r", "fails", "", text, ("sat",))
        script = smtlib.read(text)
        answers = {*by_cvc5(c, script), *by_z3(c, script), *(by_enumeration(c, script) or ())}
        assert len(answers) == 1, text
        seen |= answers
    assert seen == {"sat", "unsat"}


# ------------------------------------------------------------------------------------------------ sums of products


def test_a_triangle_is_proved_by_exact_arithmetic() -> None:
    [c] = [c for c in made(CASES["lower triangle, packed"]).certificates if c.kind == "bounds" and c.products]
    check = smtlib.read(c.text).checks[-1]
    assert c.products is not None
    proof = c.products["cases"]
    assert rational.proves(check, proof)
    for case in proof:
        for part in case:
            right = part["times"]
            part["times"] = str(Fraction(right) + 1)
            assert not rational.proves(check, proof)
            part["times"] = right
    assert not rational.proves(check, proof[:-1])
    assert not rational.proves(check, [*proof, []])


def test_a_negative_multiple_of_an_inequality_is_refused() -> None:
    """i >= 0 and i - 1 >= 0 do not contradict each other: -1 * (i) + (i - 1) = -1 would say so."""
    [check] = smtlib.read("(declare-const i Int)(assert (<= 0 i))(assert (<= 1 i))(set-info :status unsat)(check-sat)").checks
    [case] = rational.cases(check)
    parts = [{"positive": [0], "times": "-1"}, {"positive": [1], "times": "1"}]
    assert case.positive == ({("i",): 1}, {("i",): 1, (): -1})
    assert not rational.proves(check, [parts])


@pytest.mark.parametrize(
    "part",
    [
        {},
        {"positive": [7], "times": "1"},
        {"positive": [-1], "times": "1"},
        {"zero": 3, "monomial": [], "times": "1"},
        {"positive": [0], "times": "x"},
        {"times": "1"},
    ],
)
def test_malformed_products_prove_nothing(part: dict[str, Any]) -> None:
    [check] = smtlib.read("(declare-const i Int)(assert (<= 1 i 0))(set-info :status unsat)(check-sat)").checks
    assert not rational.proves(check, [[part]])


def test_division_by_what_may_be_negative_is_a_case_of_its_own() -> None:
    text = "(declare-const i Int)(declare-const n Int){}(assert (< (mod i n) 0))(set-info :status unsat)(check-sat)"
    free, guarded = (smtlib.read(text.format(x)) for x in ("", "(assert (<= 1 n))"))
    assert certificate.handelman.find(free) is None
    found = certificate.handelman.find(guarded)
    assert found is not None
    assert rational.proves(guarded.checks[-1], found["cases"])
    assert not rational.proves(free.checks[-1], found["cases"])


@pytest.mark.parametrize("module", ["smtlib", "rational"])
def test_the_checkers_import_nothing_but_numbers(module: str) -> None:
    tree = ast.parse((Path(certificate.__file__).parent / f"{module}.py").read_text())
    found = {n.module if isinstance(n, ast.ImportFrom) else a.name for n in ast.walk(tree)
             if isinstance(n, ast.Import | ast.ImportFrom) for a in n.names}  # fmt: skip
    assert found <= {"__future__", "collections.abc", "dataclasses", "fractions", "math", "numpy", "re", "typing",
                     "assay.verify.smtlib"}  # fmt: skip


# ------------------------------------------------------------------------------------------------ without cvc5


def test_without_cvc5_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recheck.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(Unsupported, match=r"-m pip install cvc5"):
        recheck.recheck(made(CASES["pad"]))


def test_programs_are_the_same_after_a_round_trip(tmp_path: Path) -> None:
    """The certificates of the parsed text are those of the program, so a folder can be rechecked by itself."""
    for name in ("jagged rows", "grouped tiles, exact tail"):
        program: Program = CASES[name].program
        folder = save(certificates(prove(program)), tmp_path / name)
        again = parse((folder / "program.assay").read_text())
        assert again is program
        shutil.rmtree(tmp_path / name)
