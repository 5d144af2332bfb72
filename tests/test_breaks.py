"""Attacks that once succeeded, each with the right answer."""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import shutil
import signal
import struct
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pytest

import assay
from assay.backends.build import build
from assay.backends.cpp import compile_program
from assay.backends.cpp.prelude import prelude
from assay.backends.memory import POOL, Pool
from assay.backends.schedule import choose
from assay.backends.target import host
from assay.core import dtypes as dt
from assay.core.errors import UserError
from assay.core.ieee import ieee
from assay.core.index import divisions, value
from assay.core.lang import as_index, axes, const, convert, fold, index, input, load, op, program, require, select, tensor
from assay.core.text import parse, show
from assay.fuzz.cases import Case, write_case
from assay.gate import collect
from assay.semantics import denote
from assay.semantics.failure import RequireError
from assay.verify.bounds import prove

I10 = index(axes((10,))[0])


# ------------------------------------------------------------------------------------------------ proofs


def test_the_complement_of_an_unsigned_value_is_not_negative():
    x, u = input("x", (256,), dt.f32), input("u", (4,), dt.u8)
    y = tensor((4,), lambda i: load(x, as_index(convert(~u[i], dt.i64) + 256)))
    assert prove(program([x, u], [y])).verdict.kind == "REFUTED"
    z = tensor((4,), lambda i: load(x, as_index(convert(~u[i], dt.i64))))
    assert prove(program([x, u], [z])).verdict.kind == "PROVED"


def test_a_require_says_nothing_of_elements_that_it_does_not_have():
    """r[j] is selected for j < 10 only; that j*j <= 9*j, which r checks of its own elements, excludes no j >= 10."""
    x, q = input("x", (12,), dt.f32), input("q", (10,), dt.i64)
    value = q[axes((10,))[0]]
    r = require((10,), value, (I10 * I10 <= I10 * 9) & (value >= 0) & (value < 12), "[IndexError] {value}", lo=0, hi=11)

    def program_of(other):
        y = tensor((20,), lambda j: load(x, as_index(select(index(j) < 10, load(r, j), const(other, dt.i64)))))
        return program([x, q], [y])

    assert prove(program_of(15)).verdict.kind == "REFUTED"
    assert prove(program_of(11)).verdict.kind == "PROVED"


@pytest.mark.parametrize("operations", [280, 700])
def test_a_long_condition_beside_a_guard(operations):
    x, q = input("x", (5,), dt.f32), input("q", (20,), dt.i64)

    def body(j):
        c = q[j]
        for k in range(operations):
            c = c * 3 + k
        return select((index(j) < 5) & (c > 0), load(x, j), const(0.0, dt.f32))

    assert prove(program([x, q], [tensor((20,), body)])).verdict.kind == "PROVED"


# ------------------------------------------------------------------------------------------------ which error


def two_gathers(x, i, j):
    return x[i * 2] + x[j]  # the first index is rewritten by inlining, the second is not


def unread_first(x, i, j):
    x[i * 2]
    return x[j] * 2.0


@pytest.mark.parametrize("f", [two_gathers, unread_first, lambda x, i, j: (x[j], x[i * 2]), lambda x, i, j: x[j] + (i // j)])
@pytest.mark.parametrize("backend", ["cpp", "reference"])
def test_of_several_errors_the_first_in_the_order_of_the_function_is_raised(f, backend):
    x, i, j = assay.arange(10.0), assay.tensor([7]), assay.tensor([99])
    for k in (j, assay.tensor([0]), assay.tensor([3])):
        expected = failure(f, x, i, k)
        assert failure(assay.compile(f, backend=backend), x, i, k) == expected


def failure(f, *args):
    try:
        f(*args)
    except RequireError as error:
        return type(error), str(error), error.index, error.value
    return None


def test_the_order_of_checks_is_part_of_a_program_and_of_its_text():
    x = input("x", (4,), dt.i64)
    a = require((), x[0], x[0] > 0, "[ValueError] a {value}")
    b = require((), x[1], x[1] > 0, "[ValueError] b {value}")
    y = tensor((), lambda: op("add", a[()], b[()]))
    orders = [program([x], [y], effects) for effects in ((), (a,), (b,), (a, b), (b, a))]
    assert [p.checks for p in orders] == [(a, b), (b, a), (a, b), (a, b), (b, a)]
    assert all(parse(show(p)) is p for p in orders)
    assert "effects" not in show(orders[0])
    for p, message in ((orders[3], "a -1"), (orders[4], "b -2")):
        for run in (denote.run, lambda p, xs: compile_program(p)(xs)):
            with pytest.raises(ValueError, match=message):
                run(p, [np.array([-1, -2, 0, 0])])


# ------------------------------------------------------------------------------------------------ signatures


@dataclass(frozen=True)
class Scale:
    by: float


@pytest.mark.parametrize(
    ("a", "b"), [(np.float32(0.0), np.float32(-0.0)), (np.float16(0.0), np.float16(-0.0)), (np.float64(0.0), -0.0)]
)
def test_numpy_scalars_that_differ_in_sign_do_not_share_an_entry(a, b):
    g = assay.compile(lambda x, s: x * s)
    x = assay.ones(2)
    assert [np.signbit(g(x, s).numpy()).tolist() for s in (a, b, a)] == [[False, False], [True, True], [False, False]]


@pytest.mark.parametrize(("a", "b", "of"), [
    (Scale(2), Scale(2.0), lambda s: s.by),
    (frozenset((2,)), frozenset((2.0,)), lambda s: next(iter(s))),
])  # fmt: skip
def test_values_that_are_equal_and_mean_something_else_do_not_share_an_entry(a, b, of):
    g = assay.compile(lambda x, s: x * of(s))
    x = assay.arange(3)
    assert [g(x, s).dtype.name for s in (a, b, a)] == ["i64", "f32", "i64"]


def test_a_nan_of_numpy_is_compiled_once():
    g = assay.compile(lambda x, s: x * s)
    for _ in range(3):
        g(assay.ones(2), np.float32("nan"))
    assert g.cache_info().misses == 1


def test_a_wrapper_is_called_by_its_own_signature():
    def inner(x, k):
        return x * k

    @functools.wraps(inner)
    def doubled(x):
        return inner(x, 2.0)

    assert assay.compile(doubled)(x=assay.ones(2)).tolist() == [2.0, 2.0]


# ------------------------------------------------------------------------------------------------ memory of results


def test_a_block_that_somebody_is_about_to_take_is_not_free():
    """A signal handler may interrupt the pool between its look at a block and the array on it."""
    pool = Pool()
    first, address = pool.array((16,), np.dtype(np.float32), 64)
    del first
    _, held = pool._block(64)  # what an interrupted call holds
    second, other = pool.array((16,), np.dtype(np.float32), 64)
    assert held.ctypes.data <= address < held.ctypes.data + held.nbytes
    assert other != address
    assert second.shape == (16,)


def test_a_handler_may_call_while_the_pool_is_locked():
    pool = Pool()
    with pool.lock:
        assert pool.array((1,), np.dtype(np.float32), 64)[0].shape == (1,)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_forked_while_a_thread_holds_the_pool_can_call():
    g = assay.compile(lambda x: x + 1.0)
    x = np.ones(4, np.float32)
    g(x)
    ready, done = threading.Event(), threading.Event()

    def hold():
        with POOL.lock:
            ready.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    ready.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        os._exit(0 if g(x).tolist() == [2.0] * 4 else 1)
    done.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0


# ------------------------------------------------------------------------------------------------ floating-point modes

X86_LINUX = sys.platform == "linux" and platform.machine() == "x86_64"
FLUSH, DOWN = 0x9FC0, 0x3F80  # MXCSR: subnormals are zero; rounding down


@contextmanager
def control(mxcsr):
    """The block runs with this control register, as another library may have left it."""
    libm = ctypes.CDLL("libm.so.6")
    old, new = ctypes.create_string_buffer(64), ctypes.create_string_buffer(64)
    libm.fegetenv(old)
    libm.fegetenv(new)
    struct.pack_into("<I", new, 28, mxcsr)
    libm.fesetenv(new)
    try:
        yield
    finally:
        libm.fesetenv(old)


def scaled(x):
    return (x + 1e-40) * 0.1 / 3.0


@pytest.mark.skipif(not X86_LINUX, reason="sets the control register of x86 by the layout of its libm")
@pytest.mark.parametrize("mode", [FLUSH, DOWN])
def test_the_floating_point_mode_of_the_thread_changes_nothing(mode):
    x = assay.tensor([1e-40, -1e-40, 1.0, 3.0, 1e-38])
    expected = scaled(x).numpy().view(np.int32).tolist()
    g = assay.compile(scaled)
    g(x)
    with control(mode):
        got = [f(x).numpy().view(np.int32) for f in (scaled, g, assay.compile(lambda x: scaled(x)))]
        probe = float(np.float32(1e-40) * np.float32(1)), float(np.float32(1) / np.float32(3))
    assert [a.tolist() for a in got] == [expected] * 3
    assert probe != (float(np.float32(1e-40)), float(np.float32(1) / np.float32(3)))  # the mode was on


@pytest.mark.skipif(not X86_LINUX, reason="sets the control register of x86 by the layout of its libm")
def test_the_mode_is_set_back():
    with control(DOWN):
        with ieee():
            assert float(np.float32(1) / np.float32(3)) == float(np.float32(11184811 / 2**25))
        assert float(np.float32(1) / np.float32(3)) == float(np.float32(11184810 / 2**25))


# ------------------------------------------------------------------------------------------------ threads


def test_threads_that_build_the_same_program_get_the_same_object():
    """Shapes that nothing else uses, so that every node is new."""

    def made_of(n):
        x = input("threads", (n, 7), dt.f32)
        y = tensor((n,), lambda i: fold(7, const(0.0, dt.f32), lambda a, r: a + load(x, i, r) * 2.0))
        return program([x], [tensor((n,), lambda i: load(y, (i * 3) % n) + 1.0)])

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            for n in range(5003, 5103):
                barrier = threading.Barrier(4)
                made = list(pool.map(lambda _, n=n, b=barrier: (b.wait(), made_of(n))[1], range(4)))
                assert len(set(made)) == 1
    finally:
        sys.setswitchinterval(interval)


# ------------------------------------------------------------------------------------------------ huge axes


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
@pytest.mark.parametrize("n", [0, 1, 9, 1 << 30, (1 << 30) + 3, (1 << 33) + 5])
def test_which_lanes_of_a_masked_load_lie_inside_a_long_axis(n):
    target = host()
    text = prelude(target) + 'extern "C" void probe(long b,long n,int*o){stI(o,range(b,n));}'
    probe = build(text).library.probe
    probe.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p]
    for start in (-(1 << 40), -target.lanes, -3, 0, n - target.lanes, n - 3, n, 1 << 30, (1 << 31) - 4, 1 << 40):
        mask = np.zeros(target.lanes, np.int32)
        probe(start, n, mask.ctypes.data)
        assert mask.tolist() == [-int(0 <= start + lane < n) for lane in range(target.lanes)]


# ------------------------------------------------------------------------------------------------ never ok by default


@pytest.mark.parametrize(("f", "x"), [
    (lambda x: x * 2, assay.zeros(0, 3)),
    (lambda x: x * float("nan"), assay.ones(3)),
    (lambda x: 3, assay.ones(3)),
])  # fmt: skip
def test_a_check_that_compares_nothing_is_not_ok(f, x):
    verdict = assay.check(f, x, backend="reference").verdict
    assert verdict.kind == "UNKNOWN"
    assert not verdict.ok


def test_a_check_of_a_condition_compares_its_error():
    assert assay.check(lambda x, i: x[i], assay.zeros(3, 0), assay.tensor([1]), backend="reference").verdict.ok


def test_the_gate_refuses_two_cases_of_one_name(tmp_path):
    p = program([input("x", (3,), dt.f32)], [tensor((3,), lambda i: input("x", (3,), dt.f32)[i] * 2.0)])
    for folder in ("a", "b"):
        write_case(tmp_path / folder / "same.assay", Case(p, None, (), ""))
    assert list(collect([tmp_path / "a"], backend="reference")) == ["same.assay"]
    with pytest.raises(UserError, match=r"same\.assay is given twice"):
        collect([tmp_path / "a", tmp_path / "a"], backend="reference")
    with pytest.raises(UserError, match=r"same\.assay is given twice"):
        collect([tmp_path / "a" / "same.assay"] * 2, backend="reference")  # one object
    with pytest.raises(UserError, match=r"two cases are called same\.assay"):
        collect([tmp_path], backend="reference")


# ------------------------------------------------------------------------------------------------ depth, width


def test_a_chain_deeper_than_pythons_stack_is_scheduled():
    x = input("x", (8,), dt.f32)

    def body(i):
        e = x[i]
        for k in range(1200):
            e = e * 0.5 + float(k % 3)
        return e

    p = program([x], [tensor((8,), body)])
    _, plan = choose(p, host())
    assert len(plan.kernels) == 1


def test_an_index_computed_in_more_steps_than_pythons_stack_is_deep():
    x = input("x", (8,), dt.f32)

    def body(i):
        e = index(i)
        for _ in range(1500):
            e = e + 1
        return load(x, e - 1500)

    assert tensor((8,), body) is tensor((8,), lambda i: x[i])


I64_ENDS = np.array([2**63 - 1, -(2**63), 5, -1])


@pytest.mark.parametrize("f", [
    lambda x, i: x[((i + 1) % 4 + 1) % 4], lambda x, i: x[(i % 4 + 3) % 4], lambda x, i: x[(i % 4 + i % 2) % 4],
])  # fmt: skip
def test_no_simplified_index_computes_what_wraps(f):
    x, i = assay.arange(4.0), assay.tensor(I64_ENDS)
    assert assay.compile(f)(x, i).tolist() == f(x, i).tolist()
    assert assay.prove(f, x, i).verdict.kind == "PROVED"


def test_the_dividends_of_an_index_fit_int64():
    v = value(input("v", (), dt.i64)[()])
    e = (v % 4 + 1) % 4
    assert all(-(2**63) <= d.e.lo and d.e.hi < 2**63 for d in divisions(e))


# ------------------------------------------------------------------------------------------------ text


def test_a_name_at_the_end_of_a_statement_is_not_called_by_the_next_line():
    text = """
    program f(x: i64[4]):
      t0[i:4] = {
        v0 = fold(j:3; a=x[i], b=x[0]) {
          v1 = fold(k:2; c=a) c
          (add(v1, b), mul(v1, v1))
        }
        add(v0.0, v0.1)
      }
      return t0
    """
    assert parse(show(parse(text))) is parse(text)


# ------------------------------------------------------------------------------------------------ containers


def weighted(d):
    total = None
    for v in d.values():
        total = v if total is None else total * 2.0 + v
    return total


def test_the_order_of_keys_is_part_of_the_signature():
    x, y = assay.tensor([1.0]), assay.tensor([10.0])
    g, h = assay.compile(weighted), assay.compile(lambda **d: weighted(d))
    for d in ({"a": x, "b": y}, {"b": y, "a": x}, {"b": x, "a": y}):
        assert g(d).tolist() == h(**d).tolist() == weighted(d).tolist()


def test_keys_that_are_equal_and_of_another_type_are_told_apart():
    g = assay.compile(lambda d: d[1] * next(iter(d)))
    assert [g({k: assay.tensor([3])}).dtype.name for k in (1, 1.0, 1)] == ["i64", "f32", "i64"]


def test_an_array_that_is_returned_as_it_is_belongs_to_the_caller():
    g = assay.compile(lambda x: (x + 1.0, np.zeros(2)))
    g(assay.ones(1))[1][:] = 7
    assert g(assay.ones(1))[1].tolist() == [0.0, 0.0]


def test_a_require_whose_range_does_not_follow_from_its_condition_is_an_error() -> None:
    text = """program f(x: i64[4], y: f32[4]):
  c[i:4] = require(true, x[i], "a", 0..3)
  t[i:4] = y[c[i]]
  return t
"""
    p = parse(text)
    y = np.arange(4, dtype=np.float32)
    assert denote.run(p, [np.array([3, 0, 1, 2]), y])[0].tolist() == [3, 0, 1, 2]
    with pytest.raises(UserError, match=r"states the range 0\.\.3, and its condition lets 0\.\.7 pass"):
        denote.run(p, [np.array([3, 0, 7, 2]), y])
