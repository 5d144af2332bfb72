"""Proofs for all sizes: true accesses proved, false ones refuted with a witness, certificates, brute force at small sizes."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from assay.core.errors import Unsound, UserError
from assay.core.index import evaluate, ix, size, variable
from assay.core.lang import E, Program, bind, walk
from assay.core.text import parse, show
from assay.core.wellformed import check
from assay.verify import bounds, integers, products
from assay.verify.products import Certificate, System, certificate, refutes
from assay.verify.validate import validate
from tests.verify.size_cases import FALSE, TRUE, SizeCase

SEEDS = (0, 1, 7, 42, 1234)


def settled(p: Program) -> bounds.Proof:
    """The proof without any memory of earlier answers."""
    bounds._proofs.clear()
    integers._answers.clear()
    return bounds.prove(p)


def test_there_are_43_true_and_6_false_ones() -> None:
    assert (len(TRUE), len(FALSE)) == (43, 6)


@pytest.mark.parametrize("case", TRUE, ids=lambda c: c.name)
def test_proved_for_all_sizes(case: SizeCase) -> None:
    proof = bounds.prove(case.program)
    assert proof.verdict.kind == "PROVED", str(proof)
    assert not any("z3" in o.how for o in proof.obligations if o.kind == "bounds"), str(proof)


@pytest.mark.parametrize("case", [*TRUE, *FALSE], ids=lambda c: c.name)
def test_well_formed_and_printed(case: SizeCase) -> None:
    assert parse(show(check(case.program))) is case.program


@pytest.mark.parametrize("case", FALSE, ids=lambda c: c.name)
def test_refuted_with_sizes_and_indices(case: SizeCase) -> None:
    p = case.program
    proof = bounds.prove(p)
    assert proof.verdict.kind == "REFUTED"
    [o] = [o for o in proof.obligations if o.status == "refuted"]
    assert o.witness is not None
    at = {s.name: o.witness[s.name] for s in p.sizes if s.name in o.witness}
    assert at
    goes_out = o.witness["index"][0]
    at |= {s.name: s.lo for s in p.sizes if s.name not in at}
    assert o.node is not None
    small = bind(p, at)
    assert not 0 <= goes_out < small.inputs[0].shape[0]
    if 0 not in small.inputs[0].shape:
        assert settled(small).verdict.kind == "REFUTED"


@pytest.mark.parametrize("seed", SEEDS)
def test_no_verdict_depends_on_the_seed(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(integers, "SEED", seed)
    for case in TRUE:
        assert settled(case.program).verdict.kind == "PROVED", case.name
    for case in FALSE:
        assert settled(case.program).verdict.kind == "REFUTED", case.name


@pytest.mark.parametrize("case", TRUE, ids=lambda c: c.name)
def test_no_access_goes_out_at_small_sizes(case: SizeCase) -> None:
    """Each concrete program is proved by the prover for concrete sizes, which enumerates where there are few points."""
    p = case.program
    tried = 0
    for values in itertools.product((1, 2, 3, 4, 8), repeat=len(p.sizes)):
        try:
            small = bind(p, {s.name: n for s, n in zip(p.sizes, values, strict=True)})
        except UserError:  # a guard, or the least value of a size
            continue
        tried += 1
        assert bounds.prove(small).verdict.kind == "PROVED", values
        if tried == 12:
            break
    assert tried


def test_a_program_that_is_refuted_for_some_size_may_not_be_emitted() -> None:
    with pytest.raises(Unsound, match="n = 2"):
        bounds.proven(FALSE[0].program)


# ------------------------------------------------------------------------------------------------ guards


@pytest.mark.parametrize(
    ("guard", "verdict"),
    [("le([m]:i64, [n]:i64)", "PROVED"), ("lt([m]:i64, [n + 2]:i64)", "REFUTED"), ("eq([n]:i64, [m]:i64)", "PROVED"),
     ("lt([n]:i64, 1)", "PROVED")],
)  # fmt: skip
def test_guards_are_hypotheses(guard: str, verdict: str) -> None:
    proof = bounds.prove(parse(f"program f[m: 1.., n: 1..](x: f32[n]):\n guard {guard}\n t[i:m] = x[i]\n return t"))
    assert proof.verdict.kind == verdict


def test_contradictory_guards_are_reported_as_unreachable() -> None:
    proof = bounds.prove(parse("program f[m: 1.., n: 1..](x: f32[n]):\n guard lt([n]:i64, 1)\n t[i:m] = x[i]\n return t"))
    assert "unreachable" in proof.obligations[0].how


# ------------------------------------------------------------------------------------------------ certificates

N, M = size("n"), size("m")
ROW, COL = ix(variable(0, N)), ix(variable(1, M))  # type: ignore[arg-type]


def test_a_certificate_is_an_identity() -> None:
    """i*m + j >= n*m has no solution: m*(n - 1 - i) and m - 1 - j are >= 0."""
    found = certificate(System((), (ROW * M + COL - N * M,)))
    assert found is not None
    assert found.holds()
    assert any(len(m) == 2 for _, p in found.bounds for m in p)


def test_a_changed_certificate_does_not_hold() -> None:
    found = certificate(System((), (ROW * M + COL - N * M,)))
    assert found is not None
    w, p = found.bounds[0]
    assert not Certificate(((w + 1, p), *found.bounds[1:]), found.zeros).holds()
    assert not Certificate(((-w, {m: -k for m, k in p.items()}), *found.bounds[1:]), found.zeros).holds()
    assert not Certificate(found.bounds[1:], found.zeros).holds()
    assert not Certificate(((Fraction(1), {(): 1}),), ()).holds()


@pytest.mark.parametrize(
    ("name", "bounds_", "refuted"),
    [
        ("i < n", (ROW - N,), True),
        ("i < n - 1", (ROW - N + 1,), False),
        ("i*m + j < n*m", (ROW * M + COL - N * M,), True),
        ("i*n + j < n*m", (ROW * N + COL - N * M,), False),
        ("i*(n + 1) < n*n", (ROW * (N + 1) - N * N,), True),
        ("i*m <= n*m - m", (ROW * M - N * M + M - 1,), True),
        ("i*m < n*m - m", (ROW * M - N * M + M,), False),
    ],
)
def test_systems(name: str, bounds_: tuple[ix, ...], *, refuted: bool) -> None:  # type: ignore[valid-type]
    assert refutes(System((), bounds_)) is refuted, name


def condition(text: str) -> E:
    p = parse(f"program f[n: 1.., m: 1..](x: f32[n], o: i64[], r: i32[]):\n t[] = {text}\n return t")
    return p.outputs[0].body


@pytest.mark.parametrize(
    ("text", "always"),
    [
        ("le(max(o[], 0), max(o[], [n]:i64))", True),
        ("lt(min(o[], [n - 1]:i64), [n]:i64)", True),
        ("lt(max(o[], [n - 1]:i64), [n]:i64)", False),
        ("or(lt([n]:i64, [m]:i64), le([m]:i64, [n]:i64))", True),
        ("or(lt([n]:i64, [m]:i64), lt([m]:i64, [n]:i64))", False),
        ("ne(select(lt(o[], 0), [n]:i64, [m]:i64), 0)", True),
        ("lt(o[], add(o[], [n]:i64))", False),  # wraps
        ("lt(convert(r[]), add(convert(r[]), [n]:i64))".replace("convert", "i64"), True),
        ("eq([n*m - m*n]:i64, 0)", True),
        ("le([2*((n*n + n)//2)]:i64, [n*n + n]:i64)", True),
        ("le([n*n + n]:i64, [2*((n*n + n)//2)]:i64)", True),
        ("le([n*n]:i64, [2*((n*n)//2)]:i64)", False),
    ],
)
def test_conditions(text: str, *, always: bool) -> None:
    answer = integers.decide(integers.Goal(condition=condition(text)))
    assert (answer.status == "proved") is always, answer
    if answer.status == "refuted":
        assert answer.point is not None


@pytest.mark.parametrize(
    ("step", "always"),
    [("select(lt(o[q%4], 3), 1:i8, 0:i8)", True), ("select(lt(o[q%4], 3), 1:i8, -100:i8)", False)],  # -200 is 56 in an i8
)
def test_sums_that_fall_below_their_type_come_back_from_above(step: str, *, always: bool) -> None:
    p = parse(f"program f[n: 1..](o: i64[4]):\n u[] = fold(q:n; a=0:i8) add(a, {step})\n t[] = le([u[]]:i64, [n]:i64)\n return t")
    assert (integers.decide(integers.Goal(condition=p.outputs[0].body)).status == "proved") is always


def test_the_end_of_a_let_is_none_outside_of_it() -> None:
    """Elsewhere it reads as 0, which may be more."""
    for at, always in (("u[i]", True), ("u?[i]", True), ("u?[i + 2]", False)):
        p = parse("program f[n: 1..](o: i64[4]):\n u[i:2] = fold(q:n; a=[-n]:i64) select(lt(o[q%4], 3), [-n - 1]:i64, a)\n"
                  f" t[i:2] = le({at}, [-n]:i64)\n return t")  # fmt: skip
        assert (integers.decide(integers.Goal(condition=p.outputs[0].body)).status == "proved") is always, at


@pytest.mark.parametrize("held", ["[n]:i64", "c[i]", "d?[i]"])
def test_conditions_on_sizes_are_no_constants(held: str) -> None:
    head = "program f[n: 1..](x: f32[4]):\n c[i:4] = [n]:i64\n d[i:n] = 7:i64\n"
    source = parse(f"{head} t[i:4] = select(lt({held}, 5), x[i], 0x0p+0:f32)\n return t")
    for value in ("x[i]", "0x0p+0:f32"):
        assert not validate(source, parse(f"{head} t[i:4] = {value}\n return t")).proved


def test_a_stated_end_is_written_where_its_number_says_no_more_than_the_value() -> None:
    p = parse("program f[n: 1..](x: f32[n]):\n c[i:n] = require(lt([i]:i64, [n]:i64), [i]:i64, \"[IndexError] no\", 0..n - 1)\n"
              " t[i:n] = x[c[i]]\n return t")  # fmt: skip
    assert p.checks[0].end is not None
    assert parse(show(p)) is p


def test_programs_that_take_other_sizes_are_not_equal() -> None:
    one, other = (parse(f"program f[n: 1..](x: f32[n]):\n{g} t[i:n] = x[i]\n return t") for g in ("", " guard lt(3, [n]:i64)\n"))
    assert validate(one, one).proved
    assert not validate(one, other).proved
    assert not validate(other, one).proved


@pytest.mark.parametrize(("body", "other"), [
    ("sum(k:m) x[i,k]", "sum(k:n + 1) x[i,k]"),
    ("max(p:n) max(q:m) x[p,q]", "max(p:n) max(q:n + 1) x[p,q]"),
    ("max(p:n) max(q:m) x[p,q]", "max(p:m) max(q:n) x[p,q]"),
])  # fmt: skip
def test_folds_of_which_it_depends_on_sizes_whether_they_are_equally_long_are_not_proved_equal(body: str, other: str) -> None:
    text = "program f[n: 2..9, m: 2..9](x: f32[n,m]):\n  y[i:n] = BODY\n  return y\n"
    assert not validate(*(parse(text.replace("BODY", b)) for b in (body, other))).proved


def test_scatters_over_domains_of_different_sizes_are_not_equal() -> None:
    text = "program f[n: 2..9, m: 2..9](z: f32[n]):\n  y = scatter z over [i:SIZE] at [0] add 0x1p+0:f32\n  return y\n"
    assert not validate(*(parse(text.replace("SIZE", n)) for n in "nm")).proved


def test_each_step_is_needed() -> None:
    """Without products, what they prove is left to z3's search in the integers."""
    how = {o.how.split(",")[0] for c in TRUE for o in bounds.prove(c.program).obligations if o.kind == "bounds"}
    assert {"signs", "sums of products", "guards", "intervals"} <= how


def test_samples_respect_axes_and_guards() -> None:
    p = parse("program f[n: 1.., h: 1..](x: f32[n]):\n guard eq([n]:i64, [2*h]:i64)\n t[i:n] = x[i + h]\n return t")
    [o] = [o for o in bounds.prove(p).obligations if o.status == "refuted"]
    assert o.how == "samples"
    assert o.witness is not None
    assert o.witness["n"] == 2 * o.witness["h"]
    assert 0 <= o.witness["i"] < o.witness["n"] <= o.witness["index"][0]


def test_witnesses_respect_the_limit_of_products() -> None:
    q = integers.Question(integers.Goal(((N * M, 0, 1 << 41),)), ())
    atoms = {a: np.array([1 << 21], object) for a in q.atoms}
    assert q.judge(atoms) == (False, None)


def test_questions_read_sizes_as_written() -> None:
    p = TRUE[0].program
    [e] = [e for e in walk([p.outputs[0].body]) if e.op == "load"]
    at = {s: 3 for s in p.sizes} | {v: 1 for v in e.free}
    assert evaluate(e.attr[1][0], at.__getitem__) == 4
    assert products.CASES >= 8
