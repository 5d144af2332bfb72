"""parse(show(p)) is p; the printed form; errors of the parser."""

import math
import time

import pytest
from hypothesis import HealthCheck, given, settings

import assay.core.functions  # noqa: F401
from assay.core import dtypes as dt
from assay.core.errors import UserError
from assay.core.index import ix
from assay.core.lang import (
    Program,
    const,
    convert,
    fold,
    folds,
    index,
    input,
    let,
    load_or_zero,
    op,
    program,
    require,
    scan,
    scatter,
    select,
    tensor,
)
from assay.core.text import parse, show
from assay.core.wellformed import check
from tests.core.random_programs import programs

X = input("x", (64, 128), dt.f32)
Y = input("y", (64, 128), dt.f32)
N = input("n", (64,), dt.i64)


@given(programs())
@settings(max_examples=300, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_round_trip(p: Program) -> None:
    assert parse(show(p)) is p


# ------------------------------------------------------------------------------------------------ golden texts


def is_written(p: Program, text: str) -> None:
    assert show(p) == text
    assert parse(text) is p
    check(p)


def test_the_design_example() -> None:
    s = tensor((64,), lambda i: fold(128, const(0, dt.f32), lambda a, k: a + op("relu", X[i, k] + Y[i, k]) * 2.0))
    is_written(program((X, Y), (s,)), """\
program f(x: f32[64,128], y: f32[64,128]):
  t0[i:64] = sum(k:128) mul(relu(add(x[i,k], y[i,k])), 0x1p+1:f32)
  return t0
""")  # fmt: skip


def test_what_is_shared_is_named_once_where_it_is_known() -> None:
    def largest(i):
        return fold(128, const(-math.inf, dt.f32), lambda a, k: op("max", a, X[i, k]))

    t = tensor((64, 128), lambda i, j: fold(128, X[i, j] - largest(i), lambda a, k: a + (X[i, k] - largest(i)) * X[j % 64, k]))
    is_written(program((X,), (t,)), """\
program f(x: f32[64,128]):
  t0[i:64,j:128] = {
    v0 = max(k:128) x[i,k]
    fold(k:128; a=sub(x[i,j], v0)) add(a, mul(sub(x[i,k], v0), x[j%64,k]))
  }
  return t0
""")  # fmt: skip


def test_several_accumulators() -> None:
    def best(i):
        def step(top, at, k):
            c = op("lt", top, X[i, k])
            return select(c, X[i, k], top), select(c, index(k), at)

        return folds(128, (const(-math.inf, dt.f32), const(0, dt.i64)), step)

    t = tensor((64,), lambda i: best(i)[1])
    u = tensor((64,), lambda i: best(i)[0])
    is_written(program((X,), (t, u)), """\
program f(x: f32[64,128]):
  t0[i:64] = {
    v1 = fold(k:128; a=-inf:f32, b=0:i64 in 0..127) {
      v0 = lt(a, x[i,k])
      (select(v0, x[i,k], a), select(v0, [k]:i64, b))
    }
    v1.1
  }
  t1[i:64] = {
    v1 = fold(k:128; a=-inf:f32, b=0:i64 in 0..127) {
      v0 = lt(a, x[i,k])
      (select(v0, x[i,k], a), select(v0, [k]:i64, b))
    }
    v1.0
  }
  return t0, t1
""")  # fmt: skip


def test_whole_tensor_nodes() -> None:
    r = require((64,), N[ix(0)] + 0, op("lt", N[ix(0)], 64), '[IndexError] "{value}" < 64', hi=63)
    g = tensor((64, 3), lambda i, j: X[i, (7 * i + 2 * j) % 5 + 3 * ((i // 3) % 4)])
    add = scatter(g, (10,), (N[ix(3)], 1), const(1, dt.f32), "add")
    put = scatter(add, (), (0, 0), const(-0.0, dt.f32))
    rows = scan((64,), fold(128, const(0, dt.f32), lambda a, k: a + X[ix(0), k]), 0, 0)
    p = program((X, N), (put, rows), (r,))
    is_written(p, """\
program f(x: f32[64,128], n: i64[64]):
  t0[i:64,j:3] = x[i,3*((i//3)%4) + (2*i + 2*j)%5]
  t1 = scatter t0 over [i:10] at [n[3],1] add 0x1p+0:f32
  t2 = scatter t1 over [] at [0,0] set -0x0p+0:f32
  t3[129,i:64] = scan(0) sum(k:128) x[0,k]
  t4[i:64] = require(lt(n[0], 64:i64), add(n[0], 0:i64), "[IndexError] \\"{value}\\" < 64", -9223372036854775808..63)
  effects t4
  return t2, t3
""")  # fmt: skip


def test_casts_pads_and_constants() -> None:
    h = input("h", (8,), dt.bf16)
    body = tensor((12,), lambda i: convert(convert(load_or_zero(h, i - 2), dt.f32) + math.inf, dt.bf16))
    no = tensor((), lambda: const(True, dt.bool_))
    bits = tensor((2,), lambda i: op("band", convert(index(i), dt.i32), -7))
    is_written(program((h,), (body, no, bits), name="pad and cast"), """\
program `pad and cast`(h: bf16[8]):
  t0[i:12] = bf16(add(f32(h?[i - 2]), inf:f32))
  t1[] = true
  t2[i:2] = band(i32([i]:i64), -7:i32)
  return t0, t1, t2
""")  # fmt: skip


def test_the_text_does_not_depend_on_what_was_built_before() -> None:
    one = tensor((5,), lambda i: op("sqrt", X[i, 7]))
    two = tensor((5,), lambda i: op("abs", X[i, 9]))
    a = program((X,), (two, one))
    assert show(a).index("abs") < show(a).index("sqrt")


def test_names_of_inputs_are_kept_apart() -> None:
    i, t0, a = input("i", (3,), dt.f32), input("t0", (3,), dt.f32), input("add", (3,), dt.f32)
    is_written(program((i, t0, a), (tensor((3,), lambda k: i[k] + t0[k] * a[k]),)), """\
program f(i: f32[3], t0: f32[3], `add`: f32[3]):
  t1[j:3] = add(i[j], mul(t0[j], `add`[j]))
  return t1
""")  # fmt: skip


# ------------------------------------------------------------------------------------------------ written by hand


def parsed(body: str) -> str:
    """The canonical text of the definition `body` of a tensor t over x, y, n."""
    return show(parse(f"program f(x: f32[64,128], y: f32[64,128], n: i64[64]):\n  {body}\n  return t")).split("\n")[1].strip()


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("t[b:64] = add(x[b, 1], 2)", "t0[i:64] = add(x[i,1], 0x1p+1:f32)"),
        ("t[b:64] = add(1.5, x[b, 1])  # a comment", "t0[i:64] = add(0x1.8p+0:f32, x[i,1])"),
        ("t[b:4] = x[b*3 + 2*b - b, (b + 1)//2*2]", "t0[i:4] = x[4*i,2*((i + 1)//2)]"),
        ("t[b:4] = x[-b + 3, 7 + -1*b]", "t0[i:4] = x[-i + 3,-i + 7]"),
        ("t[b:4] = x[-b//3 + 2, -(b//3) + 2]", "t0[i:4] = x[(2*i)//3 - i + 2,-(i//3) + 2]"),
        ("t[b:4] = x[0, n[b] % 128]", "t0[i:4] = x[0,n[i]%128]"),
        ("t[b:4] = sum(r:1) x[b, r]", "t0[i:4] = add(0x0p+0:f32, x[i,0])"),
        ("t[b:4] = sum(r:0) x[b, r]", "t0[i:4] = 0x0p+0:f32"),
        ("t[b:4] = relu(relu(x[b,b]))", "t0[i:4] = relu(relu(x[i,i]))"),
        ("t[b:4] = nan:f32", "t0[i:4] = nan:f32"),
        ("t[b:1] = { v = exp(x[b,0]); mul(v, v) }", "t0[i:1] = {"),
    ],
)  # fmt: skip
def test_written_by_hand(given: str, shown: str) -> None:
    assert parsed(given) == shown


WRONG = [
    ("t[i:64] = x[i]", "column 13: 1 indices for a tensor of shape [64, 128]"),
    ("t[i:64] = x[i,j]", "unknown name 'j'"),
    ("t[i:64] = add(x[i,0])", "add takes 2 arguments (x, y), not 1"),
    ("t[i:64] = add(x[i,0], n[i])", "add: argument types (f32, i64)"),
    ("t[i:64] = adds(x[i,0], 1)", "unknown name 'adds'; did you mean: add"),
    ("t[i:64] = i", "i is an index; as a value it is written [i]:i64"),
    ("t[i:64] = 3", "the constant 3 needs a type, as in 3:f32"),
    ("t[i:64] = 3:f31", "expected an element type (bool, i8, i16, i32, i64, u8, f16, bf16, f32, f64), found 'f31'"),
    ("t[i:64] = [i]", "expected ':' and the type of the value, as in [i]:i64"),
    ("t[i:64] = [i + 200]:i8", "does not fit i8"),
    ("t[i:64] = x[i*i,0]", "one side of * must be an integer"),
    ("t[i:64] = x[i//0,0]", "the divisor of // in an index must be a positive integer"),
    ("t[i:64] = x[i,0", "expected ',' or ']', found 'return'"),
    ("t[i:64 = x[i,0]", "expected ',' or ']', found '='"),
    ("t[64] = x[0,0]", "an axis needs a name, as in i:64"),
    ("t = x[0,0]", "expected 'extern' or 'scatter'"),
    ("t[] = sum(k:3) ?", "expected an expression, found '?'"),
    ("t[] = x[0,0] @", "unexpected character '@'"),
    ("t[] = fold(k:3; a=0:i64, b=0:i64) a", "expected '(' and 2 steps"),
    ("t[] = fold(k:3; a=0:i64, b=0:i64) (a, b)", "name it, p = fold(...), and use p.0, p.1"),
    ("t[] = fold(k:3; a=0:i64) 1:i32", "steps of types [i32] for accumulators of types [i64]"),
    ("t[] = fold(k:9; a=0:i64 in 0..7) add(a, 1)", "the accumulator range 0..7 does not hold"),
    ("t[] = fold(k:3; a=9:i64 in 0..7) a", "the accumulator range 0..7 does not hold"),
    ("t[i:3] = require(n[i], n[i], 5)", "expected the message, a string"),
    ("t[4] = scan(0) x[0,0]", "scan needs a fold, not load"),
    ("t[i:4] = scan(0) sum(k:3) x[0,k]", "a scan has one axis without a name"),
    ("t[4] = scan(1) sum(k:3) x[0,k]", "scan of accumulator 1 of a fold that has 1"),
    ("t = scatter x over [i:4] at [i] set 1:f32", "scatter of f32 with 1 indices"),
    ("t = scatter x over [4] at [0] set 1:f32", "the axes of a scatter need names"),
    ("t = scatter x over [i:4] at [i,i] sets 1:f32", "expected 'set' or the scalar function that combines"),
    ('t = extern "sort"(q; ; 0): f32[3]', "expected the name of a tensor (x, y, n)"),
    ("t[i:99999999999999] = x[0,0]", "at most 2**40 are allowed"),
    ("x[i:3] = x[0,0]", "'x' is defined twice"),
    ("t[x:3] = 1:f32", "'x' is defined twice"),
    ("t[i:3] = bitcast(x[0,0]):i64", "bitcast of f32 to i64"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "message"), WRONG, ids=[b for b, _ in WRONG])
def test_errors_show_the_line_and_the_place(body: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        parsed(body)
    text = str(caught.value)
    assert message in text
    assert text.startswith("line ")
    assert text.rstrip(" ").endswith("^")


def test_the_caret_stands_under_the_place() -> None:
    with pytest.raises(UserError) as caught:
        parsed("t[i:64] = mul(x[i,0], z[i,1])")
    assert str(caught.value) == (
        "line 2, column 25: unknown name 'z'\n"
        "    t[i:64] = mul(x[i,0], z[i,1])\n"
        "                          ^"
    )  # fmt: skip


@pytest.mark.parametrize("text", ["", "program", "program f", "program f(", "program f():", "program f():\n  return x", "x"])
def test_incomplete_programs(text: str) -> None:
    with pytest.raises(UserError, match=r"line \d+, column \d+: expected"):
        parse(text)


def test_names_that_cannot_be_printed() -> None:
    with pytest.raises(UserError, match="back quotes"):
        show(program((), (let((), const(1, dt.f32)),), name="a`b"))


def test_printing_is_quick() -> None:
    t = X
    for k in range(100):
        t = tensor((64, 128), lambda i, j, t=t, k=k: op("relu", t[i, j] * float(k) + X[i, 127 - j]))
    p = program((X,), (t,))
    start = time.process_time()
    text = show(p)
    assert time.process_time() - start < 0.1  # measured: 4 ms
    assert parse(text) is p
