"""Index obligations: the 57 true and 12 false questions, kept checks, width, sign, guards, and what a backend learns."""

import statistics
import time

import pytest

import assay.core.functions  # noqa: F401
from assay.core.errors import Unsound
from assay.core.lang import bodies, walk
from assay.core.text import parse
from assay.verify import bounds
from assay.verify.bounds import Obligation, Proof, prove, proven
from tests.verify.cases import FALSE, TRUE, Case


def owed(p: Proof, kind: str) -> list[Obligation]:
    return [o for o in p.obligations if o.kind == kind]


def proof(text: str) -> Proof:
    return prove(parse(text))


# ------------------------------------------------------------------------------------------------ the questions


def test_there_are_57_true_and_12_false_ones() -> None:
    assert (len(TRUE), len(FALSE)) == (57, 12)


@pytest.mark.parametrize("case", TRUE, ids=lambda c: c.name)
def test_true(case: Case) -> None:
    p = prove(case.program)
    assert [o.status for o in owed(p, "bounds")] == ["kept" if "require" in o.where else "proved" for o in owed(p, "bounds")]
    assert p.verdict.kind == "PROVED"


@pytest.mark.parametrize("case", FALSE, ids=lambda c: c.name)
def test_false(case: Case) -> None:
    p = prove(case.program)
    bad = [o for o in p.obligations if o.status == "refuted"]
    assert [o.kind for o in bad] == ["bounds"]
    [index] = bad[0].witness["index"]  # type: ignore[index]
    n = case.program.inputs[0].shape[0]
    assert not 0 <= index < n
    assert p.verdict.kind == "REFUTED"
    with pytest.raises(Unsound, match="may not be emitted"):
        proven(case.program)


def test_the_indices_that_go_out_are_those_of_the_witness() -> None:
    o = owed(prove(FALSE[0].program), "bounds")[0]
    assert o.witness == {"i": 49, "index": [101]}
    o = owed(prove(next(c for c in FALSE if c.name == "reshape to a wrong size").program), "bounds")[0]
    w = o.witness
    assert w is not None
    assert (21 * w["i"] + w["j"]) // 35 == w["index"][0] >= 12
    o = owed(prove(next(c for c in FALSE if c.name == "gather of raw indices").program), "bounds")[1]
    w = o.witness
    assert w is not None
    assert w[f"n[{w['i']}]"] == w["index"][0]


def test_the_median_question_takes_less_than_5_ms() -> None:
    programs = [c.program for c in TRUE + FALSE]
    times: list[float] = []
    for p in programs:
        bounds._proofs.clear()
        start = time.process_time()
        prove(p)
        times.append(time.process_time() - start)
    assert statistics.median(times) < 0.005  # measured: see benchmarks/bounds.py


# ------------------------------------------------------------------------------------------------ kept checks

CHECKED = (
    "r[i:50] = { a = n[i] b = select(lt(a, 0), add(a, 128), a) "
    'require(and(le(0, b), lt(b, 128)), b, "[IndexError] index out of bounds: 0 <= {value} < 128 at {index}", 0..127) }'
)


def test_a_check_that_depends_on_data_is_kept_with_its_message_and_the_data_that_fails() -> None:
    p = proof(f"program g1(x: f32[128], n: i64[50]):\n{CHECKED}\nt[i:50] = mul(x[r[i]], 2)\nreturn t")
    [kept] = p.kept
    assert (kept.kind, kept.status, kept.how) == ("bounds", "kept", "checked at run time")
    assert kept.message == "index out of bounds: 0 <= t0 < 128"
    w = kept.witness
    assert w is not None
    n = w[f"n[{w['i']}]"]
    assert not -128 <= n < 128
    through = next(o for o in p.obligations if o.where == "t1: x[t0[i]]")
    assert (through.status, through.how) == ("proved", "intervals, by a run-time check")
    assert p.verdict.kind == "PROVED"


def test_a_check_that_always_holds_is_proved() -> None:
    p = proof(
        "program g2(x: f32[128]):\na[i:128] = mod([3*i]:i64, 128)\n"
        'r[i:128] = require(and(le(0, a[i]), lt(a[i], 128)), a[i], "[IndexError] no {value}", 0..127)\n'
        "t[i:128] = x[r[i]]\nreturn t"
    )
    assert p.kept == ()
    assert {o.status for o in p.obligations} == {"proved"}


def test_other_checks() -> None:
    p = proof(
        'program f(n: i64[5]):\na[i:5] = require(ne(n[i], 0), n[i], "[ZeroDivisionError] integer division by zero")\n'
        'b[i:5] = require(ne(add(mul(mod(n[i], 7), 2), 1), 0), n[i], "[ZeroDivisionError] integer division by zero")\n'
        "return a, b"
    )
    first, second = owed(p, "check")
    assert (first.status, first.message, first.witness) == ("kept", "integer division by zero", {"n[0]": 0, "i": 0})
    assert second.status == "proved"


def test_a_require_is_a_fact_where_its_value_is_read() -> None:
    p = proof(
        "program f(x: f32[10], o: i64[5]):\n"
        'r[i:5] = require(and(le(0, o[i]), lt(mul(o[i], 2), 10)), o[i], "[IndexError] {value}")\n'
        "t[i:5] = x[2*(r[i] % 5)]\nu[i:5] = select(lt(o[i], 1000), x[2*min(max(r[i], -9), 9)], 0)\nreturn t, u"
    )
    assert p.verdict.kind == "PROVED"
    assert owed(p, "bounds")[-1].status == "proved"


# ------------------------------------------------------------------------------------------------ paths


def loads(text: str, tensor: str = "x") -> dict[str, str]:
    """status of each load of x, by its text."""
    p = proof(text)
    return {o.where.split(": ")[1]: o.status for o in owed(p, "bounds") if f" {tensor}[" in o.where}


@pytest.mark.parametrize(
    ("definition", "status"),
    [
        ("t[i:9] = select(lt([i]:i64, 5), x[i], 0)", "proved"),
        ("t[i:9] = select(lt([i]:i64, 6), x[i], 0)", "refuted"),
        ("t[i:9] = select(le(5, [i]:i64), 0, x[i])", "proved"),
        ("t[i:9] = select(lt([i]:i64, 5), 0, x[i])", "refuted"),
        ("t[i:9] = select(not(le(5, [i]:i64)), x[i], 0)", "proved"),
        ("t[i:9] = select(or(le(5, [i]:i64), lt(y[i], 0)), 0, x[i])", "proved"),
        ("t[i:9] = select(and(le(5, [i]:i64), lt(y[i], 0)), 0, x[i])", "unknown"),  # float comparisons are opaque
        ("t[i:9] = select(lt(y[i], 0), select(lt([i]:i64, 5), x[i], 0), 0)", "proved"),
        ("t[i:9] = add(select(lt([i]:i64, 5), x[i], 0), select(lt([i]:i64, 3), x[i], 1))", "proved"),  # two paths, both good
        ("t[i:9] = add(select(lt([i]:i64, 5), x[i], 0), select(lt([i]:i64, 7), x[i], 1))", "refuted"),  # one is not
        ("t[i:9] = add(select(lt([i]:i64, 5), x[i], 0), x[i])", "refuted"),  # one has no guard
        ("t[i:9] = select(lt(x[i], 1), 0, 1:f32)", "refuted"),  # a condition is evaluated whatever it says
        ("t[i:9] = select(and(lt([i]:i64, 5), lt(x[i], 1)), 0, 1:f32)", "refuted"),
        ("t[i:9] = select(lt(y[i], 0), select(lt(y[i], 0), 0, x[i]), 0)", "proved"),  # never reached
        ("t[i:2] = sum(k:9) select(lt([k + i]:i64, 5), x[k + i], 0)", "proved"),
        ("t[i:2] = select(lt([i]:i64, 1), sum(k:5) x[k + i], 0)", "proved"),
        ("t[i:2] = select(lt([i]:i64, 2), sum(k:5) x[k + i], 0)", "refuted"),
        ("t[i:9] = select(lt([i]:i64, 5), sum(k:9) x[k], 0)", "refuted"),  # the loop is the same variable as the axis
        ("t[i:9] = add(neg(x[i]), select(lt([i]:i64, 4), x[i], 7))", "refuted"),  # the other order of the paths
        ("t[i:9] = select(eq([i]:i64, 4), x[i], 0)", "proved"),
        ("t[i:9] = select(ne([i]:i64, 4), x[i], 0)", "refuted"),
        ("t[i:9] = select(lt([3*i]:i64, 15), x[i], 0)", "proved"),
        ("t[i:9] = select(lt([12 - 3*i]:i64, 0), 0, x[i])", "proved"),
    ],
)
def test_a_load_owes_its_bounds_on_every_path(definition: str, status: str) -> None:
    text = f"program f(x: f32[5], y: f32[9]):\n{definition}\nreturn t"
    assert set(loads(text).values()) == {status}


def test_contradictory_guards_are_reported_as_unreachable() -> None:
    p = proof("program f(x: f32[5], y: f32[9]):\nt[i:9] = select(lt(y[i], 0), select(lt(y[i], 0), 0, x[i]), 0)\nreturn t")
    o = next(o for o in owed(p, "bounds") if "x[" in o.where)
    assert o.how.startswith("unreachable")


def test_the_indices_of_a_scatter() -> None:
    good = "program f(x: f32[9], n: i64[5]):\nt = scatter x over [i:5] at [n[i]%9] add 1:f32\nreturn t"
    bad = "program f(x: f32[9], n: i64[5]):\nt = scatter x over [i:5] at [i + 5] add 1:f32\nreturn t"
    assert prove(parse(good)).verdict.kind == "PROVED"
    o = owed(proof(bad), "bounds")[0]
    assert (o.where, o.status, o.witness) == ("t0: scatter x at [i + 5]", "refuted", {"i": 4, "index": [9]})


def test_empty_tensors_owe_nothing() -> None:
    assert proof("program f(x: f32[5]):\nt[i:0,j:9] = x[j]\nreturn t").obligations == ()


def test_what_is_not_known_of_a_value_is_unknown_not_refuted() -> None:
    p = proof("program f(x: f32[100], n: i64[9]):\ns[] = sum(k:9) n[k]\nt[i:9] = x[s[]]\nreturn t")
    o = next(o for o in owed(p, "bounds") if "x[" in o.where)
    assert (o.status, p.verdict.kind) == ("unknown", "UNKNOWN")
    with pytest.raises(Unsound, match="could not be decided, which depends on"):
        proven(p.program)


# ------------------------------------------------------------------------------------------------ width and sign


def test_known_bug_b39_the_address_decides_the_width_not_the_number_of_elements() -> None:
    p = proof("program f(x: bf16[40000,65536]):\nt[i:1] = x[39999,1]\nreturn t")
    assert owed(p, "width")[0].how == "int64: an index reaches 2621374465"
    assert p.wide == {p.program.outputs[0]}


def test_known_bug_b39_an_index_read_from_data_times_a_stride() -> None:
    p = proof("program f(x: f32[24901,131072], n: i32[9]):\nt[i:9,j:131072] = x[min(max(n[i], 0), 24900),j]\nreturn t")
    assert owed(p, "width")[0].how.startswith("int64: an index reaches")


@pytest.mark.parametrize(
    ("size", "bits"), [(1 << 31, 32), ((1 << 31) + 1, 64)]
)  # fmt: skip
def test_the_width_just_below_and_above(size: int, bits: int) -> None:
    p = proof(f"program f(x: i8[{size}]):\nt[i:1] = x[{size - 1}]\nreturn t")
    assert proven(p.program).index_bits(p.program.outputs[0]) == bits


def test_the_width_is_asked_without_the_guard() -> None:
    guard = "select(lt([i]:i64, 10), x[1000000000*i], 0)"
    p = proof(f"program f(x: i8[10000000000]):\nt[i:20] = {guard}\nreturn t")
    assert owed(p, "width")[0].how == "int64: an index reaches 3000000000"
    small = proof("program f(x: i8[20]):\nt[i:2147483647] = select(lt([i]:i64, 1), x[2*i], 0)\nreturn t")
    assert small.wide == {small.program.outputs[0]}


def test_indices_beyond_int64_are_refuted() -> None:
    p = proof("program f(x: f32[9], n: i64[5]):\nt[i:5] = x?[3*n[i]]\nreturn t")
    o = owed(p, "width")[0]
    assert o.status == "refuted"
    assert abs(3 * next(v for k, v in (o.witness or {}).items() if k.startswith("n["))) > 2**63 - 1


@pytest.mark.parametrize(
    ("definition", "status"),
    [
        ("t[i:9] = x[(i + 1)//2]", "proved"),
        ("t[i:9] = x[n[i] // 128 % 5]", "kept"),  # a raw i64 may be negative
        ("t[i:9] = x[max(n[i], 0) % 5]", "proved"),
        ("t[i:9] = x?[(2*i - 3*i)//4 + 2]", "proved"),  # normalised to a dividend >= 0
    ],
)
def test_the_sign_of_dividends(definition: str, status: str) -> None:
    p = proof(f"program f(x: f32[9], n: i64[9]):\n{definition}\nreturn t")
    assert {o.status for o in owed(p, "sign")} == {status}
    assert bool(p.floors) == (status == "kept")


def test_known_bug_b51_a_kept_division_says_which_dividend_is_negative() -> None:
    p = proof("program f(x: f32[128], n: i64[9]):\nt[i:9] = x[n[i] % 128]\nreturn t")
    o = owed(p, "sign")[0]
    assert (o.how, o.witness) == ("emitted as a floor division", {"n[0]": -1, "i": 0, "index": [-1]})


# ------------------------------------------------------------------------------------------------ what a backend learns


def test_guarded_loads_are_reported() -> None:
    text = "program f(x: f32[8]):\nt[i:12] = add(select(lt([i]:i64, 8), x[i], 0), x[i % 8])\nreturn t"
    p = proven(parse(text))
    t = p.program.outputs[0]
    found = {e: p.is_guarded(t, e) for e in walk(bodies(t)) if e.op == "load"}
    assert sorted(found.values()) == [False, True]
    assert all(p.is_inside(t, e) != guarded for e, guarded in found.items())


def test_a_guard_that_is_not_needed_is_no_guard() -> None:
    p = proven(parse("program f(x: f32[8], n: i64[12]):\nt[i:8] = select(lt(n[i], 8), x[i], 0)\nreturn t"))
    t = p.program.outputs[0]
    assert not any(p.is_guarded(t, e) for e in walk(bodies(t)) if e.op == "load")


def test_a_refuted_program_cannot_be_wrapped() -> None:
    p = FALSE[0].program
    with pytest.raises(Unsound, match=r"refuted bounds t0: x\[2\*i \+ 3\]"):
        bounds.ProvenProgram(p, prove(p))
    good = TRUE[0].program
    with pytest.raises(Unsound):
        bounds.ProvenProgram(good, prove(TRUE[1].program))


def test_json() -> None:
    found = prove(FALSE[0].program).to_json()
    assert (found["verdict"], found["exit_code"]) == ("REFUTED", 1)
    assert found["obligations"][0] == {
        "kind": "bounds", "where": "t0: x[2*i + 3]", "status": "refuted", "how": "samples", "message": "",
        "witness": {"i": 49, "index": [101]}, "reason": "fails for i = 49, index = [101]",
    }  # fmt: skip


# ------------------------------------------------------------------------------------------------ stated ranges


@pytest.mark.parametrize(
    ("condition", "stated", "verdict"),
    [
        ("and(le(0:i64, k[i]), lt(k[i], 4:i64))", "0..3", "PROVED"),
        ("and(le(0:i64, k[i]), lt(k[i], 4:i64))", "0..7", "PROVED"),  # the condition says more
        ("and(le(0:i64, k[i]), lt(k[i], 8:i64))", "0..3", "REFUTED"),
        ("and(le(-1:i64, k[i]), lt(k[i], 4:i64))", "0..3", "REFUTED"),
        ("ne(k[i], 0:i64)", "0..3", "REFUTED"),
    ],
)
def test_a_require_implies_the_range_that_it_states(condition: str, stated: str, verdict: str) -> None:
    """What reads it believes the range: a load was proved in bounds by a check that lets 7 pass."""
    found = prove(parse(f"program f(x: f32[4], k: i64[4]):\n c[i:4] = require({condition}, k[i], \"[IndexError] no\", {stated})\n"
                        " t[i:4] = x[c[i]]\n return t"))  # fmt: skip
    assert found.verdict.kind == verdict
    if "0..3" in stated and verdict == "REFUTED":
        assert [o.status for o in found.obligations if o.kind == "range"] == ["refuted"]
