"""Good programs pass; every kind of broken program is refused, with the line marked."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

import assay.core.functions  # noqa: F401
from assay.core import dtypes as dt
from assay.core import index as index_
from assay.core import lang
from assay.core.errors import InternalError
from assay.core.index import ix, variable
from assay.core.lang import E, Program, T, const, fold, input, let, program
from assay.core.lang.expressions import make_node
from assay.core.lang.folds import _accumulators
from assay.core.lang.tensors import make_tensor
from assay.core.wellformed import check
from tests.core.random_programs import programs

X = input("x", (4, 8), dt.f32)
N = input("n", (4,), dt.i64)
II, J, K = (variable(k, n) for k, n in ((0, 4), (1, 8), (2, 3)))
ZERO = const(0.0, dt.f32)
L3, L4 = variable(0, 3), variable(0, 4)
BOUNDED = lang.acc(L4, 0, dt.i64, (0, 3))
ROW_SUM = fold(8, ZERO, lambda a, k: a + X[ix(II), k])


@given(programs())
@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_what_the_constructors_build_is_well_formed(p: Program) -> None:
    assert check(p) is p


def raw_let(shape: tuple[int, ...], body: E, dtype: dt.DType | None = None, reads: Any = None) -> T:
    return make_tensor("let", shape, dtype or body.dtype, (body.lo, body.hi), body.reads if reads is None else reads, body=body)


def raw(op: str, args: tuple[E, ...], attr: Any, dtype: dt.DType, interval: tuple[int, int] = (0, 0)) -> E:
    return make_node(op, args, attr, dtype, interval)


def raw_fold(v: index_.Var, init: E, step: E, acc: E) -> E:
    node = raw("fold", (init, step), v, init.dtype, (init.lo, init.hi))
    _accumulators[node] = (acc,)
    return node


BROKEN: list[tuple[str, Callable[[], T]]] = [
    ("add(f32, i64)", lambda: raw_let((), raw("add", (ZERO, const(1, dt.i64)), None, dt.f32))),
    ("has type bool, not f32", lambda: raw_let((), raw("lt", (ZERO, ZERO), None, dt.f32))),
    ("it takes 2", lambda: raw_let((), raw("add", (ZERO,), None, dt.f32))),
    ("'relu6' is not a node", lambda: raw_let((), raw("relu6", (ZERO,), None, dt.f32))),
    ("1 indices and type f32", lambda: raw_let((4,), raw("load", (), (X, (ix(II),)), dt.f32))),
    ("indices and type i32", lambda: raw_let((4,), raw("load", (), (X, (ix(II), ix(0))), dt.i32))),
    ("always inside is a load", lambda: raw_let((4,), raw("load_or_zero", (), (X, (ix(II), ix(1))), dt.f32))),
    ("not its axes", lambda: raw_let((4,), lang.load(X, II, J))),
    ("type f64 with a body of type f32", lambda: raw_let((4,), lang.load(X, II, 0), dt.f64)),
    ("but reads ['x:f32[4, 8]']", lambda: raw_let((4,), lang.load(X, II, 1), reads=())),
    ("not the canonical constant", lambda: raw_let((), raw("const", (), 0x7FC00001, dt.f32))),
    ("the range 0..300 is not one of u8", lambda: raw_let((), raw("add", (const(200, dt.u8),) * 2, None, dt.u8, (0, 300)))),
    ("no conversion from f64 to bf16", lambda: raw_let((), raw("convert", (const(1.0, dt.f64),), None, dt.bf16))),
    ("no bitcast from f32 to i64", lambda: raw_let((), raw("bitcast", (ZERO,), None, dt.i64))),
    ("as a value of type f32", lambda: raw_let((4,), raw("idx", (), ix(II), dt.f32))),
    ("outside of the steps", lambda: raw_let((4,), lang.acc(II, 0, dt.f32))),
    ("a fold of 1 steps", lambda: raw_let((), raw_fold(variable(0, 1), ZERO, ZERO, lang.acc(variable(0, 1), 0, dt.f32)))),
    ("not named canonically", lambda: raw_let((4,), raw_fold(K, ZERO, lang.load(X, II, K), lang.acc(K, 0, dt.f32)))),
    ("is not an accumulator of this fold",
     lambda: raw_let((), raw_fold(L3, ZERO, lang.acc(L3, 1, dt.f32), lang.acc(L3, 0, dt.f32)))),
    ("is not kept", lambda: raw_let((), raw_fold(L4, const(0, dt.i64), BOUNDED + 1, BOUNDED))),
    ("accumulator 2 of a fold of 1", lambda: raw_let((4,), raw("proj", (ROW_SUM,), 2, dt.f32))),
    ("of size 1 is the index 0", lambda: raw_let((1,), raw("load", (), (N, (index_.from_atom(variable(0, 1)),)), dt.i64))),
    ("not in normal form", lambda: raw_let((4,), raw("load", (), (N, (index_.value(lang.index(II) + 1),)), dt.i64))),
    ("the condition has type f32", lambda: make_tensor("require", (), dt.f32, (0, 0), (), body=ZERO, cond=ZERO, message="m")),
    ("is wider than the body's", lambda: make_tensor(
        "require", (4,), dt.i64, (-9, 9), (N,), body=lang.op("max", N[ix(II)], 0), cond=const(True, dt.bool_), message="m")),
    ("a scan of 8 steps has 8 states", lambda: make_tensor(
        "scan", (4, 8), dt.f32, (0, 0), ROW_SUM.reads, body=ROW_SUM, k=0, axis=1)),
    ("scatters f32 at 1 indices", lambda: make_tensor(
        "scatter", (4, 8), dt.f32, (0, 0), (X,), base=X, domain=(4,), indices=(ix(II),), body=ZERO, combine=None)),
    ("no function of two arguments", lambda: make_tensor(
        "scatter", (4, 8), dt.f32, (0, 0), (X,), base=X, domain=(4,), indices=(ix(II), ix(II)), body=ZERO, combine="sqrt")),
    ("depends on more than the axes", lambda: make_tensor(
        "scatter", (4, 8), dt.f32, (0, 0), (X,), base=X, domain=(4,), indices=(ix(II), ix(J)), body=ZERO, combine=None)),
]  # fmt: skip


@pytest.mark.parametrize(("message", "make"), BROKEN, ids=[m for m, _ in BROKEN])
def test_broken(message: str, make: Callable[[], T]) -> None:
    p = lang.program((X, N), (let((4,), lang.load(N, II)), make()))
    with pytest.raises(InternalError) as caught:
        check(p)
    text = str(caught.value)
    assert message in text
    assert "\n> " in text


def test_an_undeclared_input() -> None:
    p = program((X,), (let((4,), lang.load(X, II, 0)),))
    p.inputs = ()
    try:
        with pytest.raises(InternalError, match=r"the input x:f32.* is not declared"):
            check(p)
    finally:
        p.inputs = (X,)


def test_the_message_shows_the_program() -> None:
    bad = raw_let((4,), lang.load(X, II, 1), dt.f64)
    with pytest.raises(InternalError) as caught:
        check(program((X,), (let((4,), lang.load(X, II, 2)), bad)))
    assert str(caught.value) == (
        "the program is not well formed: type f64 with a body of type f32\n"
        "  program f(x: f32[4,8]):\n"
        "    t0[i:4] = x[i,2]\n"
        ">   t1[i:4] = x[i,1]\n"
        "    return t0, t1"
    )
