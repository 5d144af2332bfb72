"""Emitted code has the bits of the meaning: every program, under every feature of a schedule and number of threads."""

from __future__ import annotations

import itertools
import math
import os
import re
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from assay.backends import cpp
from assay.backends.build import FLAGS, compiler
from assay.backends.cpp import compile_many, compile_program, nest, rows
from assay.backends.plan import Kernel, Plan, Schedule
from assay.backends.runtime import Executable
from assay.backends.target import host
from assay.core import dtypes as dt
from assay.core import lang
from assay.core.dtypes import DType
from assay.core.errors import InternalError, Unsound, UserError
from assay.core.lang import E, Program, T, const, convert, fold, op, program, tensor
from assay.core.row import TABLE, Row
from assay.fuzz.schedules import random_plan
from assay.semantics.denote import RequireError, bits_equal, run
from assay.verify.bounds import proven
from tests.backends import plans
from tests.backends.plans import FEATURES, plan
from tests.backends.programs import SPECIAL, arrays, build, f32, mapped, total, wrapped
from tests.semantics import generate

pytestmark = pytest.mark.cpp
LONG = ("conversions", "integer_arithmetic")  # many outputs, each a row or a conversion; those have their own tests


def differs(e: Executable, meaning: Program, inputs: list[np.ndarray]) -> list[int]:
    """The outputs whose bits differ from the meaning."""
    want, got = run(meaning, inputs), e(inputs)
    return [k for k, (a, b) in enumerate(zip(want, got, strict=True)) if a.dtype != b.dtype or not bits_equal(a, b)]


@pytest.mark.parametrize("feature", FEATURES)
def test_bits(feature: str) -> None:
    names = ("transposes", "reshapes", "attention", "gather") if feature == "transpose" else None
    programs = {n: p for n, p in build(names).items() if feature == "scalar" or n not in LONG}
    made = compile_many(list(programs.values()), plans=[plan(p, feature) for p in programs.values()], threads=2)
    bad = {n: found for (n, p), e in zip(programs.items(), made, strict=True) if (found := differs(e, p, arrays(p)))}
    assert bad == {}


def test_constants_with_a_sign_after_a_sign() -> None:
    """x - -c and -(-c), of one element and of many: the text -- would be another operator."""

    def signs(x: T) -> Program:
        least = -math.inf if x.dtype.is_float else x.dtype.lo
        constants = [const(c, x.dtype) for c in (-1, -2, least)]
        return program([x], [mapped(x, lambda v, c=c, r=r: op(r, v, c)) for c in constants for r in ("sub", "add", "mul")])

    types = (dt.f32, dt.f64, dt.i8, dt.i16, dt.i32, dt.i64)
    programs = [signs(lang.input("x", shape, d)) for d in types for shape in ((), (37,))]
    for e, p in zip(compile_many(programs), programs, strict=True):
        assert differs(e, p, arrays(p)) == []


@pytest.mark.parametrize(("called", "text"), [(0.0, "AI void tanh_f32v"), (math.inf, "noinline)) F tanh_f32v")])
def test_named_rows_are_opened_or_called(called: float, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "CALLED", called)
    x, y, z = f32("x", 5, 37), f32("y", 37), lang.input("z", (5, 37), dt.f64)
    named = program(
        [x, y, z],
        [
            mapped(x, lambda v: op("tanh", v) + op("pow", v, const(2.5, dt.f32))),
            tensor((5, 37), lambda i, j: op("pow", x[i, j], y[j])),
            mapped(z, lambda v: op("exp", v) * op("erf", v)),
            mapped(x, lambda v: convert(op("sigmoid", convert(convert(v, dt.f16), dt.f32)), dt.f16)),
        ],
    )
    programs = [named, *build(("softmax", "gelu", "f16_chain", "bf16_chain")).values()]
    made = compile_many(programs, plans=[plan(p, "jam") for p in programs], threads=2)
    assert [differs(e, p, arrays(p)) for e, p in zip(made, programs, strict=True)] == [[]] * len(programs)
    assert text in made[0].text


@pytest.mark.parametrize("feature", ["vector", "jam"])
def test_a_tail_as_one_more_whole_tile(feature: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nest, "AGAIN", 0)
    programs = build(("relu_sum", "softmax_fused", "conv2d_pad", "cumsum", "gather", "column_sums", "transposes", "reshapes"))
    made = compile_many(list(programs.values()), plans=[plan(p, feature) for p in programs.values()], threads=2)
    bad = {n: found for (n, p), e in zip(programs.items(), made, strict=True) if (found := differs(e, p, arrays(p)))}
    assert bad == {}
    assert re.search(r"long s\d+=i\d+", made[0].text)


def outcome(f: Callable[[], list[np.ndarray]]) -> list[np.ndarray] | str:
    try:
        return f()
    except RequireError as error:
        return str(error)


def random_programs_differ(seeds: Iterable[int]) -> list[int]:
    """The seeds whose random program, under a random plan, differs from its meaning (values, or the error)."""
    cases = []
    for seed in seeds:
        g = generate.Generator(seed)
        try:
            p = g.program()
            proven(p)
        except (UserError, Unsound):
            continue
        cases.append((seed, p, g.arrays()))
    planned = [random_plan(p, seed) for seed, p, _ in cases]
    made = compile_many([p for p, _ in planned], plans=[made for _, made in planned], threads=2)
    bad = []
    for (seed, p, inputs), e in zip(cases, made, strict=True):
        want, got = outcome(lambda p=p, a=inputs: run(p, a)), outcome(lambda e=e, a=inputs: e(a))
        if isinstance(want, str) or isinstance(got, str):
            same = want == got
        else:
            same = all(map(bits_equal, want, got))
        bad += [] if same else [seed]
    return bad


def test_random_programs_and_plans() -> None:
    assert random_programs_differ(range(30)) == []


@pytest.mark.full
@pytest.mark.parametrize("start", range(1000, 3000, 50))
def test_many_random_programs_and_plans(start: int) -> None:
    assert random_programs_differ(range(start, start + 50)) == []


MIXED = ("relu_sum", "masks", "gather", "transposes", "conv2d_stride", "bf16_chain", "argmax", "matmul_f64")


@pytest.mark.parametrize(
    ("names", "width", "features"),
    [
        (MIXED, 16, ("vector", "rowvec")),
        (MIXED, 64, ("jam", "transpose")),
        (("random_words",), 16, ("vector",)),
        (("random_words",), 32, ("vector",)),
        (("random_words",), 64, ("vector",)),
    ],
)
def test_bits_on_other_widths_of_vectors(names: tuple[str, ...], width: int, features: tuple[str, ...],
                                         monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    other = replace(host(), bytes=width, instructions="lanes")
    for module in (cpp, plans):
        monkeypatch.setattr(module, "host", lambda: other)
    programs = build(names)
    for feature in features:
        made = compile_many(list(programs.values()), plans=[plan(p, feature) for p in programs.values()], threads=2)
        bad = {n: found for (n, p), e in zip(programs.items(), made, strict=True) if (found := differs(e, p, arrays(p)))}
        assert bad == {}


@pytest.mark.skipif(not host().x86, reason="text for x86")
def test_avx512_text_compiles(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    other = replace(host(), bytes=64, registers=32, instructions="avx512")
    monkeypatch.setattr(plans, "host", lambda: other)
    programs = build(("gelu", "masks", "conv2d_pad", "bf16_chain", "f16_chain", "requires_hold", "transposes", "random_words"))
    parts = [cpp.emit_program(proven(p), plan(p, "vector"), other, n) for n, p in programs.items()]
    flags = ("-march=skylake-avx512", "-O1", "-std=c++17", "-w", "-S", "-x", "c++", "-")
    command = [compiler()[0], *flags, "-o", str(tmp_path / "a.s")]
    subprocess.run(command, input=cpp.translation_unit(parts, other).encode(), check=True)
    assert (tmp_path / "a.s").read_text().count("%zmm") > 100


def test_chosen_plans() -> None:
    programs = build(("layernorm", "conv2d_pad", "empty"))
    assert {n: found for n, p in programs.items() if (found := differs(compile_program(p, threads=2), p, arrays(p)))} == {}


# ------------------------------------------------------------------------------------------------ rows

INTEGERS = (0, 1, -1, 2, 5, -7, 31, 63, 64, 127, -128, 255, 32767, -(2**31), 2**31 - 1, -(2**63), 2**63 - 1)


def points(d: DType) -> list[float | int | bool]:
    if d is dt.bool_:
        return [False, True]
    if d.is_float:
        more = (1.0, 1.5, 2.5, -3.5, 127.5, -128.9, 255.5, 65504.0, 65520.0, 2.0**63, 3.3895314e38, 1e300, 5e-324, 7.0)
        return [*SPECIAL, *more]
    return sorted({v for v in INTEGERS if d.lo <= v <= d.hi})


def grid(d: DType, arity: int) -> list[np.ndarray]:
    """Every combination of the special values (of half of them, for three arguments), padded to an odd length."""
    p = points(d)[:: 1 if arity < 3 else 2]
    rows = np.array(list(itertools.product(p, repeat=arity)), dtype=object)
    rows = np.concatenate([rows, rows[: 1 + len(rows) % 2]])
    if not d.is_float:
        return [c.astype(d.numpy) for c in rows.T]
    with np.errstate(all="ignore"):
        return [c.astype(np.float64).astype(np.float32 if d.is_half else d.numpy).astype(d.numpy) for c in rows.T]


def types_of(r: Row) -> list[DType]:
    found = []
    for d in dt.DTYPES.values():
        try:
            r.types(*([dt.bool_, d, d] if r.name == "select" else [d] * r.arity))
        except UserError:
            continue
        found.append(d)
    return found


def one_row(d: DType, rows: list[Row]) -> tuple[Program, list[np.ndarray]]:
    """A program that applies every row to special values of type `d`."""
    inputs, data, outputs = [], [], []
    for arity in sorted({r.arity for r in rows}):
        columns = grid(d, arity)
        xs = [lang.input(f"x{arity}{k}", c.shape, d) for k, c in enumerate(columns)]
        inputs, data = inputs + xs, data + columns
        for r in rows:
            if r.arity == arity:
                outputs.append(tensor(xs[0].shape, lambda i, r=r, xs=xs: apply(r, [x[i] for x in xs])))
    return program(inputs, outputs, name=f"rows_{d.name}"), data


def apply(r: Row, args: list[E]) -> E:
    return op("select", convert(args[0], dt.bool_), *args[1:]) if r.name == "select" else op(r.name, *args)


def rows_differ(kind: str, types: list[DType], features: tuple[str, ...]) -> list[str]:
    made = [one_row(d, [r for r in TABLE.values() if r.kind == kind and d in types_of(r)]) for d in types]
    bad = []
    for feature in features:
        executables = compile_many([p for p, _ in made], plans=[plan(p, feature) for p, _ in made], threads=1)
        for (p, data), e in zip(made, executables, strict=True):
            bad += [f"{feature} {p.name} {p.outputs[k].body!r}" for k in differs(e, p, data)]
    return bad


def test_primitive_rows() -> None:
    assert rows_differ("primitive", list(dt.DTYPES.values()), ("scalar", "vector")) == []


def test_named_rows() -> None:
    assert rows_differ("named", [dt.f32], ("vector",)) == []


@pytest.mark.full
def test_named_rows_everywhere() -> None:
    assert rows_differ("named", [dt.f32, dt.f64, *dt.INTEGERS], ("scalar", "vector")) == []


def test_conversions_of_special_values() -> None:
    pairs, bad = [], []
    for d in dt.DTYPES.values():
        (column,) = grid(d, 1)
        x = lang.input("x", column.shape, d)
        others = [c for c in dt.DTYPES.values() if c is not d]
        there = [mapped(x, lambda v, c=c: convert(v, c)) for c in others]
        through = [c for c in (dt.i32, dt.i64) if d.is_float]
        back = [mapped(x, lambda v, c=c, d=d: convert(convert(v, c), d)) for c in through]
        pairs.append((program((x,), there + back, name=f"from_{d.name}"), column))
    for feature in ("scalar", "vector"):
        programs = [p for p, _ in pairs]
        made = compile_many(programs, plans=[plan(p, feature) for p in programs])
        for (p, column), e in zip(pairs, made, strict=True):
            bad += [f"{feature} {p.outputs[k].body!r}" for k in differs(e, p, [column])]
    assert bad == []


# ------------------------------------------------------------------------------------------------ the checker notices

@pytest.mark.parametrize(("flag", "feature"), [("-ffp-contract=fast", "vector"), ("-ffast-math", "scalar")])
def test_wrong_flags_are_noticed(flag: str, feature: str) -> None:
    x, y = f32("x", 9, 64), f32("y", 9, 64)
    product = tensor((9, 64), lambda i, j: x[i, j] * y[i, j] + 0.3)
    p = program((x, y), [product, tensor((9, 64), lambda i, j: (x[i, j] + y[i, j]) - y[i, j])])
    (good,) = compile_many([p], plans=[plan(p, feature)])
    assert differs(good, p, arrays(p)) == []
    child = os.fork()  # a library built with -ffast-math flushes subnormals in the thread that loads it, for ever
    if child == 0:
        (wrong,) = compile_many([p], plans=[plan(p, feature)], flags=(*FLAGS, flag))
        os._exit(len(differs(wrong, p, arrays(p))))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) > 0


# ------------------------------------------------------------------------------------------------ threads and schedules

@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_any_number_of_threads(threads: int) -> None:
    p = build(["relu_sum"])["relu_sum"]
    e = compile_many([p], plans=[plan(p, "rowvec")], threads=threads)[0]
    assert differs(e, p, arrays(p)) == []


def test_kernel_with_several_outputs_and_carry() -> None:
    p = build(["column_sums"])["column_sums"]
    schedule = Schedule(vector=0, copies=2, carry=8, threads=0)
    e = compile_program(p, plan=Plan((Kernel(p.outputs, schedule),)), threads=2)
    assert differs(e, p, arrays(p)) == []


@pytest.mark.parametrize("schedule", [
    Schedule(vector=1, copies=2, threads=0),
    Schedule(vector=1, jam=((0, 4),), threads=0),
    Schedule(vector=1, jam=((0, 2),), fold="rowvec"),
    Schedule(jam=((0, 3),), fold="rowvec"),
])  # fmt: skip
def test_row_buffers(schedule: Schedule) -> None:
    x = f32("x", 11, 45)
    m = tensor((11,), lambda i: fold(45, const(-math.inf, dt.f32), lambda a, k: op("max", a, x[i, k])))
    e = tensor((11, 45), lambda i, j: op("exp", x[i, j] - m[i]))
    out = tensor((11, 45), lambda i, j: e[i, j] / total(45, lambda k: e[i, k]))
    p = program((x,), [out])
    plan_ = Plan((Kernel((m,), Schedule()), Kernel((out,), schedule, local=((e, 1),))))
    assert differs(compile_program(p, plan=plan_, threads=2), p, arrays(p)) == []


@pytest.mark.parametrize("d", [dt.i8, dt.u8, dt.i16, dt.i32, dt.i64, dt.f32, dt.f64], ids=lambda d: d.name)
def test_terms_held_in_lanes_keep_their_type(d: DType) -> None:
    """Small integers are held as int: a row that is a template of two equal types has to see their own."""
    x = lang.input("x", (3, 21), d)
    names = ("min", "max", "floordiv", "mod", "add") if d.is_integer else ("min", "max", "add")

    def folded(name: str) -> T:
        return tensor((3,), lambda i: fold(21, x[i, 0], lambda a, k: op(name, a, op("max", x[i, k], x[i, 20 - k]))))

    p = program((x,), [folded(name) for name in names])
    assert differs(compile_program(p, plan=plan(p, "rowvec")), p, arrays(p)) == []


ROWS = {
    "by a fold": lambda e, at: tensor((16,), lambda i: total(40, lambda k: e[k, 3] * e[k, 5]) * e[2, 1]),
    "by a loaded index": lambda e, at: tensor((16,), lambda i: e[at[i], 3] - e[at[i], 5]),
    "by an axis": lambda e, at: tensor((16,), lambda i: e[i, 3] - e[i, 5]),
}


@pytest.mark.parametrize(("name", "schedule", "legal"), [
    ("by a fold", Schedule(), True),
    ("by a fold", Schedule(vector=0), True),
    ("by a fold", Schedule(fold="rowvec"), False),
    ("by a loaded index", Schedule(jam=((0, 4),)), True),
    ("by a loaded index", Schedule(vector=0), False),
    ("by an axis", Schedule(jam=((0, 4),)), True),
    ("by an axis", Schedule(vector=0), False),
])  # fmt: skip
def test_no_row_buffer_is_filled_in_lanes(name: str, schedule: Schedule, *, legal: bool) -> None:
    x, indices = f32("x", 40, 24), lang.input("at", (16,), dt.i64)
    e = tensor((40, 24), lambda i, j: op("exp", x[i, j]))
    at = tensor((16,), lambda i: op("mod", indices[i], 40))
    out = ROWS[name](e, at)
    p = program((x, indices), [out])
    kernels = (Kernel((at,), Schedule()),) if at in p.tensors else ()
    plan_ = Plan((*kernels, Kernel((out,), schedule, local=((e, 1),))))
    if legal:
        assert differs(compile_program(p, plan=plan_), p, arrays(p)) == []
    else:
        with pytest.raises(InternalError, match="filled in lanes"):
            compile_program(p, plan=plan_)


@pytest.mark.parametrize(("schedule", "why"), [
    (Schedule(vector=2), "rank"),
    (Schedule(vector=1, jam=((1, 2),)), "both vector and jam"),
    (Schedule(order=((0, None),)), "each of 2 axes"),
    (Schedule(vector=1, order=((1, 12), (0, None), (1, None))), "multiple of its tile"),
    (Schedule(carry=4), "carry"),
    (Schedule(threads=("block", 0)), "blocks"),
])  # fmt: skip
def test_illegal_schedules_are_refused(schedule: Schedule, why: str) -> None:
    p = build(["gelu"])["gelu"]
    with pytest.raises(InternalError, match=why):
        compile_program(p, plan=Plan(tuple(Kernel((t,), schedule) for t in p.tensors)))


def test_scatter_keeps_its_order() -> None:
    p = build(["scatter_set"])["scatter_set"]
    for schedule in (Schedule(vector=0), Schedule(threads=0), Schedule(jam=((0, 2),))):
        kernels = (Kernel((t,), schedule if t.kind == "scatter" else Schedule()) for t in p.tensors)
        with pytest.raises(InternalError, match="must run in order"):
            compile_program(p, plan=Plan(tuple(kernels)))


def test_a_plan_must_compute_everything() -> None:
    p = build(["softmax"])["softmax"]
    with pytest.raises(InternalError, match="no kernel"):
        compile_program(p, plan=Plan(tuple(Kernel((t,)) for t in p.tensors[1:])))


# ------------------------------------------------------------------------------------------------ proofs

def test_an_access_that_goes_out_is_not_emitted() -> None:
    x, idx = f32("x", 9), lang.input("idx", (4,), dt.i64)
    with pytest.raises(Unsound, match="refuted"):
        compile_program(program((x, idx), [tensor((4,), lambda i: x[idx[i]])]))


def test_a_proof_removes_the_guard_that_intervals_would_keep() -> None:
    x = f32("x", 12)
    inside = program((x,), [tensor((6, 6), lambda i, j: x[i + j + (i - j) // 6])])
    texts = [compile_many([p], plans=[plan(p, "scalar")])[0].text for p in (inside,)]
    assert all("(unsigned long)" not in t[t.index("k_0(") :] for t in texts)
    assert differs(compile_many([inside])[0], inside, arrays(inside)) == []


# ------------------------------------------------------------------------------------------------ errors of programs

def checked_gather() -> tuple[Program, T]:
    x, idx = f32("x", 9, 21), lang.input("idx", (4, 37), dt.i64)
    at = wrapped(idx, 9)
    return program((x, idx), [tensor((4, 37, 21), lambda i, j, k: x[at[i, j], k])]), at


@pytest.mark.parametrize("feature", ["scalar", "vector", "jam", "rowvec"])
@pytest.mark.parametrize("bad", [9, -10, 2**63 - 1, -(2**63)])
def test_the_first_failing_element_is_reported(feature: str, bad: int) -> None:
    p, _ = checked_gather()
    e = compile_many([p], plans=[plan(p, feature)], threads=2)[0]
    x, idx = arrays(p)
    idx = np.abs(idx) % 9
    assert differs(e, p, [x, idx]) == []
    idx[1, 36], idx[3, 2] = bad, 99
    with pytest.raises(RequireError) as expected:
        run(p, [x, idx])
    with pytest.raises(IndexError) as found:
        e([x, idx])
    assert str(found.value) == str(expected.value)
    assert "[1, 36]" in str(found.value)
    assert differs(e, p, [x, np.zeros_like(idx)]) == []


def test_later_kernels_do_not_run_after_a_failure() -> None:
    p, at = checked_gather()
    text = compile_many([p], plans=[plan(p, "scalar")])[0].text
    assert text.index("return 1;") < text.rindex("k_1(P")
    assert at in p.tensors


@pytest.mark.parametrize(("inputs", "why"), [
    ([np.zeros((5, 71), np.float64)], "dtype float64 given, float32"),
    ([np.zeros((71, 5), np.float32)], r"shape \[71, 5\] given, \[5, 71\]"),
    ([], "takes 1 inputs, not 0"),
    ([np.zeros((5, 71), np.float32)] * 2, "takes 1 inputs, not 2"),
    ([[1.0]], "a numpy array is needed, not list"),
])  # fmt: skip
def test_wrong_inputs(inputs: list[np.ndarray], why: str) -> None:
    p = build(["gelu"])["gelu"]
    with pytest.raises(UserError, match=why):
        compile_many([p])[0](inputs)
