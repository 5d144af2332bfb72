"""Index expressions with sizes: rules proved by z3 for all divisors, signs and intervals by brute force, extents and guards."""

import itertools
import operator
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import z3

from assay.core.errors import Unsupported, UserError
from assay.core.index import Ix, Size, Var, evaluate, floordiv, ix, size, variable, within
from assay.core.lang import bind, index
from assay.core.polynomial import RULES, divides, limits, nonnegative
from assay.core.sizes import Assumptions, hint
from assay.core.text import parse, show, sum_text
from assay.core.wellformed import check

N, M, P = size("n"), size("m"), size("p")
ROW, COL, DEP = ix(variable(0, N)), ix(variable(1, M)), ix(variable(2, P))  # type: ignore[arg-type]
FLAT = ix(variable(3, N * M * P))  # type: ignore[arg-type]

# ------------------------------------------------------------------------------------------------ rules

POSITIVE = "acg"


def formula(text: str, names: dict[str, Any], solver: Any) -> Any:
    """The Python expression as a z3 formula; x // y becomes a q with y*q <= x < y*q + y."""

    class Number:
        def __init__(self, term: Any) -> None:
            self.term = term

        def __floordiv__(self, other: "Number") -> "Number":
            q = z3.FreshInt("q")
            solver.add(other.term * q <= self.term, self.term < other.term * q + other.term)
            return Number(q)

    def binary(how: Callable[[Any, Any], Any]) -> Any:
        return lambda a, b: Number(how(a.term, b.term if isinstance(b, Number) else b))

    for name in ("add", "sub", "mul"):
        setattr(Number, f"__{name}__", binary(getattr(operator, name)))
    for name in ("le", "lt", "eq", "ge", "gt"):
        setattr(Number, f"__{name}__", lambda a, b, n=name: getattr(a.term, f"__{n}__")(b.term if isinstance(b, Number) else b))
    return eval(text.replace("0 <= b < g", "(b >= 0) & (b < g)").replace("c*m <= r < c*(m+1)", "(c*m <= r) & (r < c*(m+1))"),
                {}, {n: Number(t) for n, t in names.items()})  # fmt: skip


z3.BoolRef.__and__ = lambda a, b: z3.And(a, b)  # type: ignore[method-assign]


def counterexample(claim: str, condition: str) -> str:
    solver = z3.Solver()
    solver.set("rlimit", 20_000_000)
    names = {n: z3.Int(n) for n in "abcgkmqrxy"}
    solver.add([names[c] > 0 for c in POSITIVE])
    if condition != "True":
        solver.add(formula(condition, names, solver))
    solver.add(z3.Not(formula(claim, names, solver)))
    return str(solver.check())


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.name)
def test_rule_is_a_theorem_for_all_divisors(rule: Any) -> None:
    claim, _, condition = rule.statement.partition(" if ")
    assert counterexample(claim.strip(), condition.strip() or "True") == "unsat"


@pytest.mark.parametrize("rule", [r for r in RULES if " if " in r.statement], ids=lambda r: r.name)
def test_without_its_side_condition_it_is_false(rule: Any) -> None:
    assert counterexample(rule.statement.partition(" if ")[0].strip(), "True") == "sat"


def test_a_sum_times_a_divisor_keeps_its_sign() -> None:
    p, c = z3.Ints("p c")
    solver = z3.SimpleSolver()
    solver.add(c > 0, z3.Not((p >= 0) == (c * p + c - 1 >= 0)))
    assert solver.check() == z3.unsat


# ------------------------------------------------------------------------------------------------ normal forms


@pytest.mark.parametrize(
    ("e", "text"),
    [
        (lambda: (ROW * M + COL) // M, "i"),
        (lambda: (ROW * M + COL) % M, "j"),
        (lambda: ((ROW * M + COL) * P + DEP) // (M * P), "i"),
        (lambda: ((ROW * M + COL) * P + DEP) // P % M, "j"),
        (lambda: (FLAT // P) // M - FLAT // (M * P), "0"),
        (lambda: (FLAT // (M * P) * M + FLAT // P % M) * P + FLAT % P - FLAT, "0"),
        (lambda: (N + M) * (N - M), "n*n - m*m"),
        (lambda: (8 * N) // 8 + (8 * N) % 8, "n"),
        (lambda: (6 * N + 1) // 4, "n//2 + n"),
        (lambda: (N * M) // (2 * M), "n//2"),
        (lambda: N // N, "1"),
        (lambda: (N - 1) // N, "0"),
        (lambda: -N // N, "-1"),
        (lambda: (ROW - N) // N, "-1"),
        (lambda: (N * ROW) // (N * M), "i//m"),
        (lambda: 128 % N, "-n*(128//n) + 128"),
    ],
)
def test_normal_forms(e: Callable[[], Ix], text: str) -> None:
    names = {variable(0, N): "i", variable(1, M): "j", variable(2, P): "k", variable(3, N * M * P): "l"}  # type: ignore[arg-type]
    assert sum_text(e(), names.__getitem__) == text  # type: ignore[arg-type]


def test_equal_expressions_are_the_same_object() -> None:
    assert N * M is M * N
    assert (N + M) * N is N * N + N * M
    assert (ROW * M + COL) // M is ROW
    assert (N + 1) - 1 is N


@pytest.mark.parametrize("c", [0, -1, N - 5, ROW, N * 0])
def test_divisors_are_positive_for_all_sizes(c: Any) -> None:
    with pytest.raises(ValueError, match="positive"):
        floordiv(N, c)


# ------------------------------------------------------------------------------------------------ brute force


def random_expression(rng: random.Random, depth: int) -> tuple[Ix, Callable[[dict[Any, int]], int]]:
    """An expression, and what it means without any simplification."""
    if depth == 0 or rng.random() < 0.15:
        leaf = rng.choice([N, M, ROW, COL, ix(rng.randint(-4, 4))])
        return leaf, lambda at: evaluate(leaf, at.__getitem__)
    a, x = random_expression(rng, depth - 1)
    match rng.randint(0, 5):
        case 0:
            b, y = random_expression(rng, depth - 1)
            return a + b, lambda at: x(at) + y(at)
        case 1:
            b, y = random_expression(rng, depth - 1)
            return a - b, lambda at: x(at) - y(at)
        case 2:
            b = rng.choice([N, M, ROW])
            return a * b, lambda at: x(at) * at[b.terms[0][0]]
        case 3:
            k = rng.choice([-3, -1, 2, 4])
            return a * k, lambda at: x(at) * k
        case _:
            c = rng.choice([N, M, N * M, 2 * N, N + M, ix(2), ix(3)])
            remainder = rng.random() < 0.5
            made = a % c if remainder else a // c

            def value(at: dict[Any, int]) -> int:
                divisor = evaluate(c, at.__getitem__)
                return x(at) % divisor if remainder else x(at) // divisor

            return made, value


def points() -> list[dict[Any, int]]:
    n, m, i, j = N.terms[0][0], M.terms[0][0], ROW.terms[0][0], COL.terms[0][0]
    return [{n: a, m: b, i: c, j: d} for a, b in itertools.product((1, 2, 3, 5), repeat=2) for c in range(a) for d in range(b)]


def test_simplified_expressions_have_the_values_of_the_written_ones() -> None:
    every = points()
    seen = 0
    for seed in range(1200):
        e, value = random_expression(random.Random(seed), 4)
        values = [value(at) for at in every]
        assert [evaluate(e, at.__getitem__) for at in every] == values, (seed, e)
        assert e.lo <= min(values), (seed, e)
        assert max(values) <= e.hi, (seed, e)
        if nonnegative(e):
            seen += 1
            assert min(values) >= 0, (seed, e)
    assert seen > 200


SMALL, FEW = ix(size("a", 2, 12)), ix(size("b", 2, 5))
AT = ix(variable(0, SMALL))  # type: ignore[arg-type]


@pytest.mark.parametrize("e", [
    (SMALL // 2) * (SMALL // 2), (SMALL // 2) ** 3, (SMALL // FEW) * (SMALL // FEW), (SMALL // FEW) ** 2 * FEW,
    (SMALL // FEW) * FEW, (SMALL // FEW) * FEW * FEW, ((AT - 1) // FEW) * FEW, ((AT - 3) // FEW) ** 2 * FEW,
    ((AT - 3) // FEW) * FEW * SMALL, ((AT - 5) // 3) * (SMALL // 2), ((AT - 3) // FEW) * ((AT + 1) // FEW) * FEW,
    ((AT - 1) // (SMALL // 2)) * (SMALL // 2),
], ids=repr)  # fmt: skip
def test_products_of_quotients_lie_in_their_intervals(e: Ix) -> None:
    a, b, i = (x.terms[0][0] for x in (SMALL, FEW, AT))
    values = [evaluate(e, {a: n, b: m, i: k}.__getitem__)
              for n in range(2, 13) for m in range(2, 6) for k in range(n)]  # fmt: skip
    assert e.lo <= min(values)
    assert max(values) <= e.hi


def test_what_divides_a_polynomial() -> None:
    assert divides(2, N * (N + 1))
    assert divides(6, N * (N + 1) * (N + 2))
    assert divides(4, 4 * N + 8)
    assert not divides(2, N * (N + 2))
    assert not divides(4, N * (N + 1))


@pytest.mark.parametrize(
    ("i", "n", "seen"),
    [
        (ROW * M + COL, N * M, True),
        (ROW * N + COL, N * M, False),
        (N - 1 - ROW, N, True),
        (N - ROW, N, False),
        (FLAT // (M * P), N, True),
        (FLAT // (M * P), N - 1, False),
        ((ROW * 5) // N, ix(5), True),
        (ROW * (N + 1), N * N, True),
        (ROW * (N + 1) + 1, N * N, False),
    ],
)
def test_bounds_for_all_sizes(i: Ix, n: Any, *, seen: bool) -> None:
    assert within(i, n) is seen


def test_the_products_that_are_limited() -> None:
    n, m, p = (x.terms[0][0] for x in (N, M, P))
    assert set(limits([N * M + 3])) == {(m, n)}
    assert set(limits([ROW * P])) == {(n, p)}  # i < n
    assert set(limits([FLAT // (M * P)])) >= {(m, n, p), (m, p)}


# ------------------------------------------------------------------------------------------------ extents


def test_comparisons_that_hold_for_all_sizes_need_no_assumptions() -> None:
    assert N > 0
    assert N + 1 != 0
    assert not N * M < 1
    assert N == N
    assert N - N == 0
    assert not N - N
    assert N != "n"
    assert min(N, N + 1) is N
    assert ROW != COL


def test_other_comparisons_need_them() -> None:
    with pytest.raises(Unsupported, match="depends on the sizes"):
        _ = N == M
    with pytest.raises(Unsupported, match="depends on the sizes"):
        bool(N - 1)
    with pytest.raises(Unsupported, match="no fixed value"):
        range(N)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="only extents"):
        _ = ROW < COL


def test_decisions_by_hints_are_guards() -> None:
    n, m = N.terms[0][0], M.terms[0][0]
    assert isinstance(n, Size)
    assert isinstance(m, Size)
    with Assumptions({n: 8, m: 3}, where=lambda: "line 7") as found:
        assert N > M
        assert not N == M
        assert M < N  # the same question
        assert N % 4 == 0
        assert max(N, M) is N
        assert list(range(M)) == [0, 1, 2]  # type: ignore[call-overload]
        assert N / 2 == 4.0
        assert hint(N * M) == 24
    assert sorted(map(str, found.guards.values())) == [
        "m == 3", "n % 4 == 0", "n == 8", "n > m"]  # fmt: skip
    assert {g.where for g in found.guards.values()} == {"line 7"}
    assert all(g.holds({n: 8, m: 3}.__getitem__) for g in found.guards.values())
    assert not all(g.holds({n: 8, m: 8}.__getitem__) for g in found.guards.values())


# ------------------------------------------------------------------------------------------------ programs

TEXT = """program f[m: 1..64, n: 1..](x: f32[m,n + 1], o: i64[]):
  guard le([n]:i64, [2*m]:i64)
  t0[i:m] = sum(k:n) mul(x[i,k + 1], [n]:f32)
  t1[i:m*n] = t0[i//n]
  t2[i:m*n] = x[i + o[] - m*((i + o[])//m),i - n*(i//n)]
  t3[i:m,n + 1] = scan(0) sum(k:n) x[i,k]
  t4[i:m] = {
    v0 = fold(k:n; a=0x0p+0:f32, b=[m]:i64) (add(a, x[i,k]), add(b, [k*n]:i64))
    add(v0.0, f32(v0.1))
  }
  t5 = scatter t0 over [i:m*n] at [i//n] add t1[i]
  return t0, t1, t2, t3, t4, t5
"""


def test_round_trip() -> None:
    p = parse(TEXT)
    assert check(p) is p
    assert show(p) == TEXT
    assert parse(show(p)) is p
    assert [(s.name, s.lo, s.hi) for s in p.sizes] == [("m", 1, 64), ("n", 1, 1 << 40)]


@pytest.mark.parametrize(("m", "n"), [(1, 1), (2, 3), (3, 1), (4, 4), (64, 128)])
def test_bound_programs_are_those_written_with_numbers(m: int, n: int) -> None:
    """An axis of one step has no scan: the operators write it as a choice, and so does bind."""
    numbers = {"m": str(m), "n": str(n)}
    lines = [s for s in TEXT.replace("[m: 1..64, n: 1..]", "").splitlines() if not s.strip().startswith("guard")]
    text = "".join(numbers.get(w, w) for s in lines for w in _words(s + "\n"))
    if n == 1:
        scanned = f"t3[i:{m},1 + 1] = scan(0) sum(k:1) x[i,k]"
        assert scanned in text
        text = text.replace(scanned, f"t3[i:{m},j:2] = select(eq([j]:i64, 0), 0.0:f32, add(0.0:f32, x[i,0]))")
    assert bind(parse(TEXT), {"m": m, "n": n}) is parse(text)


def _words(text: str) -> list[str]:
    return ["".join(g) for _, g in itertools.groupby(text, lambda c: c.isalnum() or c in "_.")]


@pytest.mark.parametrize(
    ("sizes", "error"),
    [
        ({"m": 2}, "needs the sizes n"),
        ({"m": 65, "n": 1}, "m = 65 is not in 1..64"),
        ({"m": 1, "n": 3}, "the guard .* does not hold"),
    ],
)
def test_sizes_that_are_refused(sizes: dict[str, int], error: str) -> None:
    with pytest.raises(UserError, match=error):
        bind(parse(TEXT), sizes)


def test_products_beyond_the_limit_are_refused() -> None:
    p = parse("program f[n: 1.., m: 1..](x: f32[n]):\n t[i:n,j:m] = x[i]\n return t")
    with pytest.raises(UserError, match="at most 2\\*\\*40"):
        bind(p, {"n": 1 << 30, "m": 1 << 11})


def test_a_size_as_a_number() -> None:
    from assay.core import dtypes as dt
    from assay.core.lang import const

    assert index(N, dt.f32).op == "idx"
    assert const(N, dt.f32) is index(N, dt.f32)  # type: ignore[arg-type]
    p = parse("program f[n: 1..](x: f32[n]):\n t[i:n] = div(x[i], [n]:f32)\n return t")
    assert bind(p, {"n": 7}) is parse("program f(x: f32[7]):\n t[i:7] = div(x[i], 7.0:f32)\n return t")
    with pytest.raises(UserError):
        parse("program f[n: 1..](x: f32[n]):\n t[i:n] = [i]:f32\n return t")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("program f[n: 1..](x: f32[n]):\n t[i:k] = x[i]\n return t", "unknown name 'k'"),
        ("program f[n: 1..](x: f32[n]):\n t[i:n] = x[i%(n - 3)]\n return t", "positive for all sizes"),
        ("program f[n: 3..2](x: f32[n]):\n return x", "has no value"),
        ("program f[n: 1..](x: f32[n - 2]):\n t[i:4,j:i] = x[i]\n return t", "depends on sizes only"),
    ],
)
def test_wrong_texts(text: str, error: str) -> None:
    with pytest.raises(UserError, match=error):
        parse(text)


def test_values_of_sizes_in_arrays() -> None:
    at = {N.terms[0][0]: np.array([3, 4]), ROW.terms[0][0]: np.array([2, 0])}
    assert evaluate(ROW * N + N // 2, at.__getitem__).tolist() == [7, 2]
    assert isinstance(ROW.terms[0][0], Var)


def test_a_digit_that_is_forgotten_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """With x % c taken for 0, a sum that is negative somewhere would count as >= 0: what the values show."""
    from assay.core import polynomial

    e = M * (ROW // M) - ROW
    assert not nonnegative(e)
    monkeypatch.setattr(polynomial, "_signs", {})
    monkeypatch.setattr(polynomial, "remainder", lambda a: ix(0))
    assert nonnegative(e)
    assert min(evaluate(e, at.__getitem__) for at in points()) < 0
