"""The scheduled loop nest against its program: every plan is proved; each fault put into it on purpose is refused and named."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest

import assay.core.functions  # noqa: F401
from assay.backends import legality
from assay.backends.cpp import nest as printing
from assay.backends.cpp import scheduled
from assay.backends.placement import Placement, Store
from assay.backends.plan import Kernel, Plan, Schedule
from assay.backends.schedule import choose
from assay.backends.target import host
from assay.core.errors import InternalError
from assay.core.index import ix
from assay.core.lang import Program, substitute
from assay.core.parser import parse
from assay.fuzz.schedules import random_plan
from assay.semantics.denote import run
from assay.verify.coverage import covered, prove_schedule
from assay.verify.nests import Axis, LoopNest, Piece, Scheduled
from tests.backends.plans import FEATURES, plan
from tests.backends.programs import CASES

LANES = 8


def kinds(s: Scheduled) -> set[str]:
    """The kinds of the obligations that are not proved."""
    return {o.kind for o in prove_schedule(s).failed}


# ------------------------------------------------------------------------------------------------ right ones


@pytest.mark.parametrize("name", CASES)
def test_every_plan_of_every_program(name: str) -> None:
    p = CASES[name]()
    drawn = [random_plan(p, number) for number in range(2)] if all(t.size for t in p.tensors) else []
    for q, made in (*((p, plan(p, feature)) for feature in FEATURES), *drawn):
        found = prove_schedule(scheduled(q, made))
        assert found.proved, str(found)


@pytest.mark.parametrize("name", ["reshapes", "transposes", "masks", "several_outputs"])
def test_the_chosen_plans_store_lets_in_other_shapes(name: str) -> None:
    found = prove_schedule(scheduled(*choose(CASES[name](), host())))
    assert found.proved, str(found)


# ------------------------------------------------------------------------------------------------ axes

TILES = Piece(3, 16, (0, 8), LANES)  # 48 elements
AXES = (
    ("tiles alone", Axis(48, (TILES,)), True, True),
    ("a tail of vectors", Axis(64, (TILES, Piece(1, 0, (48, 56), LANES, is_tail=True))), True, True),
    ("a tail that overlaps", Axis(59, (TILES, Piece(1, 0, (48, 51), LANES, is_tail=True))), True, False),
    ("a tail of single elements", Axis(51, (TILES, Piece(3, 1, (0,), 1, 48, is_tail=True))), True, True),
    ("the last tile moved", Axis(59, (Piece(4, 16, (0, 8), LANES, last=43),)), True, False),
    ("no tail", Axis(51, (TILES,)), False, False),
    ("a tail one too early", Axis(51, (TILES, Piece(3, 1, (0,), 1, 47, is_tail=True))), False, False),
    ("a tail that leaves the axis", Axis(51, (TILES, Piece(1, 0, (48,), LANES, is_tail=True))), False, False),
    ("a step too long", Axis(48, (Piece(3, 17, (0, 8), LANES),)), False, False),
    ("a copy missing", Axis(48, (Piece(3, 16, (0,), LANES),)), False, False),
    ("copies too far apart", Axis(48, (Piece(3, 16, (0, 9), LANES),)), False, False),
    ("a step too short", Axis(40, (Piece(3, 12, (0, 8), LANES),)), True, False),
    ("the last tile too early", Axis(59, (Piece(4, 16, (0, 8), LANES, last=40),)), False, False),
    ("nothing", Axis(8, ()), False, False),
    ("a thousand million tiles", Axis(1 << 34, (Piece(1 << 30, 16, (0, 8), LANES),)), True, True),
    ("one of them moved", Axis((1 << 34) + 8, (Piece((1 << 30) + 1, 16, (0, 8), LANES, last=(1 << 34) - 8),)), True, False),
)  # fmt: skip


@pytest.mark.parametrize(("name", "axis", "complete", "once"), AXES, ids=[name for name, *_ in AXES])
def test_pieces_of_an_axis(name: str, axis: Axis, complete: bool, once: bool) -> None:  # noqa: FBT001
    reason, exactly = covered(axis)
    assert (reason == "", exactly) == (complete, once), reason


# ------------------------------------------------------------------------------------------------ faults

POINTWISE = """program f(x: f32[6,45], z: f32[6,45]):
  y[i:6,j:45] = sub(exp(x[i,j]), z[i,j])
  return y
"""
SOFTMAX = """program f(x: f32[6,45]):
  m[i:6] = max(k:45) x[i,k]
  e[i:6,j:45] = exp(sub(x[i,j], m[i]))
  s[i:6] = sum(k:45) e[i,k]
  y[i:6,j:45] = div(e[i,j], s[i])
  return y
"""
CHAIN = """program f(x: f32[64]):
  a[i:64] = exp(x[i])
  b[i:64] = neg(a[i])
  c[i:64] = sub(b[i], x[i])
  y[i:64] = sub(c[i], b[i])
  return y
"""
MATMUL = """program f(a: f32[6,45], b: f32[45,43]):
  y[i:6,j:43] = fold(k:45; s=0x0p+0:f32) fma(a[i,k], b[k,j], s)
  return y
"""
SCATTER = """program f(x: f32[4], v: f32[3,8], k: i64[3,8]):
  y = scatter x over [i:3,j:8] at [min(max(k[i,j], 0:i64), 3:i64)] set v[i,j]
  return y
"""
SORTED = """program f(x: f32[4,11]):
  t[i:4,j:11] = exp(x[i,j])
  s = extern "sort"(t; 1, false; 0): f32[4,11]
  y[i:4,j:11] = neg(s[i,j])
  return y
"""
SUMS = """program f(x: i64[6,45]):
  y[46,i:6] = scan(0) sum(k:45) x[i,k]
  return y
"""
LOOKUP = """program f(x: f32[8], k: i64[40]):
  c[i:40] = require(and(le(0:i64, k[i]), lt(k[i], 8:i64)), k[i], "[IndexError] {value} at {index}", 0..7)
  y[i:40] = x[c[i]]
  return y
"""


def made(text: str, *schedules: Schedule, local: int | None = None) -> tuple[Program, Plan]:
    """The program, and a kernel for each of its tensors; tensor number `local` lives in a row buffer of the next kernel."""
    p = parse(text)
    tensors = [t for t in p.tensors if t.kind != "extern"]
    given = [*schedules, *[Schedule()] * len(tensors)]
    kernels = []
    for k, (t, s) in enumerate(zip(tensors, given, strict=False)):
        if k != local:
            kernels.append(Kernel((t,), s, ((tensors[local], 1),) if local is not None and tensors[local] in t.reads else ()))
    return p, Plan(tuple(kernels))


_cut, _store, _row, _fill = printing.cut, Placement._store, Placement._row, Placement._fill


def _tail_missing(*args: Any, **options: Any) -> Axis:
    axis = _cut(*args, **options)
    return Axis(axis.n, tuple(p for p in axis.pieces if not p.is_tail)) if axis.whole else axis


def _tail_elsewhere(*args: Any, **options: Any) -> Axis:
    axis = _cut(*args, **options)
    return Axis(axis.n, tuple(replace(p, offsets=tuple(o - 1 for o in p.offsets)) if p.is_tail else p for p in axis.pieces))


def _wrong_size(*args: Any, **options: Any) -> Axis:
    axis = _cut(*args, **options)
    return Axis(axis.n, tuple(replace(p, size=p.size + 1) if p.count > 1 else p for p in axis.pieces))


def _always_repeatable(*args: Any, **options: Any) -> Axis:
    return _cut(*args, **{**options, "repeatable": True})


def _operands_swapped(self: Placement, op: str, args: Any, *rest: Any) -> Any:
    return _row(self, op, args[::-1] if op == "sub" else args, *rest)


def _stored_elsewhere(self: Placement, t: Any, number: int) -> Store:
    s = _store(self, t, number)
    return replace(s, value=s.value.args[0])


def _unchecked(self: Placement, t: Any, number: int) -> Store:
    return replace(_store(self, t, number), cond=None)


def _other_row(self: Placement, e: Any, env: Any, opened: Any) -> Any:
    fill, scope = _fill(self, e, env, opened)
    fill.lead = (ix(0), *fill.lead[1:])
    return fill, scope


def _all_at_zero(layout: Any, order: Any) -> None:
    for t, _, _ in order:
        layout.offsets[t] = 0
        layout.arena = 1 << 12


WIDE = Schedule(vector=1, copies=2)
FAULTS: tuple[tuple[str, str, Callable[[], tuple[Program, Plan]], dict[str, Any]], ...] = (
    ("tail missing", "coverage", lambda: made(POINTWISE, WIDE), {"assay.backends.cpp.nest.cut": _tail_missing}),
    ("tail elsewhere", "coverage", lambda: made(POINTWISE, WIDE), {"assay.backends.cpp.nest.cut": _tail_elsewhere}),
    ("tiles too far apart", "coverage", lambda: made(POINTWISE, WIDE), {"assay.backends.cpp.nest.cut": _wrong_size}),
    ("overlapping tiles of a fold in chunks", "writer", lambda: made(MATMUL, Schedule(vector=1, carry=8, copies=2)),
     {"assay.backends.cpp.nest.cut": _always_repeatable}),
    ("operands swapped", "value", lambda: made(POINTWISE, WIDE), {"assay.backends.placement.Placement._row": _operands_swapped}),
    ("part of the value stored", "value", lambda: made(POINTWISE),
     {"assay.backends.placement.Placement._store": _stored_elsewhere}),
    ("check not made", "value", lambda: made(LOOKUP), {"assay.backends.placement.Placement._store": _unchecked}),
    ("row of another index", "rows value", lambda: made(SOFTMAX, local=1),
     {"assay.backends.placement.Placement._fill": _other_row}),
    ("intermediates on top of each other", "storage", lambda: made(CHAIN), {"assay.backends.cpp.arena": _all_at_zero}),
    ("threads on an axis of a scatter", "writer", lambda: made(SCATTER, Schedule(threads=0)),
     {"assay.backends.cpp.nest.illegal": lambda p, s, lanes: None}),
    ("lanes on an axis of a scatter", "writer", lambda: made(SCATTER, Schedule(vector=1)),
     {"assay.backends.cpp.nest.illegal": lambda p, s, lanes: None}),
    ("loops of a scatter exchanged", "writer", lambda: made(SCATTER, Schedule(order=((1, None), (0, None)))),
     {"assay.backends.cpp.nest.illegal": lambda p, s, lanes: None}),
    ("blocks of a scatter outermost", "writer", lambda: made(SCATTER, Schedule(order=((1, 4), (0, None), (1, None)))),
     {"assay.backends.cpp.nest.illegal": lambda p, s, lanes: None}),
)  # fmt: skip


@pytest.mark.parametrize(("name", "kind", "build", "changes"), FAULTS, ids=[name for name, *_ in FAULTS])
def test_a_fault_is_refused(name: str, kind: str, build: Callable[[], tuple[Program, Plan]], changes: dict[str, Any]) -> None:
    with contextlib.ExitStack() as stack:
        for target, wrong in changes.items():
            stack.enter_context(mock.patch(target, wrong))
        found = kinds(scheduled(*build()))
    assert found == {*kind.split()}


def test_a_fold_from_another_value() -> None:
    p, right = made(MATMUL, WIDE)
    other, _ = made(MATMUL.replace("s=0x0p+0", "s=-0x0p+0"))
    s = scheduled(p, right)
    assert kinds(s) == set()
    assert kinds(replace(s, steps=(replace(s.steps[0], writes=other.outputs),), program=other)) == {"value"}


def changed(s: Scheduled, step: int, **fields: Any) -> Scheduled:
    """With other fields of the loop nest of a step."""
    steps = list(s.steps)
    nest = steps[step].nest
    assert isinstance(nest, LoopNest)
    steps[step] = replace(steps[step], nest=replace(nest, **fields))
    return replace(s, steps=tuple(steps))


def test_faults_in_the_data() -> None:
    s = scheduled(*made(CHAIN, *[Schedule(vector=0, threads=0)] * 4))
    assert kinds(s) == set()
    first, second, third, last = s.steps
    assert kinds(replace(s, steps=(second, first, third, last))) == {"order"}
    assert kinds(replace(s, steps=(first, second, second, third, last))) == {"order"}
    assert kinds(replace(s, steps=(first, second, last))) == {"order"}
    assert kinds(replace(s, steps=(first, replace(second, reads=frozenset()), third, last))) == {"order"}
    assert kinds(replace(s, arena=64)) == {"storage"}
    assert kinds(replace(s, offsets=s.offsets[1:])) == {"storage"}
    assert kinds(replace(s, offsets=((s.program.outputs[0], 0), *s.offsets))) >= {"storage"}
    assert kinds(changed(s, 1, units=3)) == {"writer"}
    assert kinds(changed(s, 1, threads=("block", 0))) == {"writer"}
    assert kinds(changed(s, 1, order=())) == {"coverage"}
    assert kinds(changed(s, 1, order=((0, None), (0, None)))) == {"coverage"}
    assert kinds(changed(s, 1, order=((0, 0), (0, None)))) >= {"coverage"}


def test_chunks_run_through_the_whole_fold() -> None:
    s = scheduled(*made(MATMUL, Schedule(vector=1, carry=8)))
    assert kinds(s) == set()
    assert kinds(changed(s, 0, chunks=(44, 8))) == {"chunks"}
    assert kinds(changed(s, 0, chunks=(45, 0))) == {"chunks"}


def test_what_a_kernel_says_of_itself_is_held_against_what_it_writes() -> None:
    s = scheduled(*made(SCATTER))
    (step,) = s.steps
    assert step.nest is not None
    one, rows = Axis(1, (Piece(1, 1, (0,), 1),)), step.nest.axes[1]
    assert kinds(s) == set()
    assert kinds(changed(s, 0, domain=(1, 8), axes=(one, rows))) == {"value"}
    assert kinds(changed(s, 0, domain=(0, 8))) == {"value"}
    assert kinds(changed(s, 0, kind="let", threads=0, units=3)) == {"value", "writer"}
    assert kinds(replace(s, steps=(replace(step, nest=None),))) == {"value"}
    base = step.writes[0].base
    assert kinds(replace(s, steps=(replace(step, reads=step.reads - {base}),))) == {"order"}


def test_a_scan_writes_all_states_of_its_fold_not_only_the_last() -> None:
    s = scheduled(*made(SUMS))
    (step,) = s.steps
    assert step.nest is not None
    backwards = parse(SUMS.replace("x[i,k]", "x[i,44 - k]")).outputs[0].body
    assert kinds(s) == set()
    assert kinds(changed(s, 0, stores=(replace(step.nest.stores[0], value=backwards),))) == {"value"}


def test_rows_are_those_that_are_read() -> None:
    s = scheduled(*made(SOFTMAX, local=1))
    assert kinds(s) == set()
    nest = s.steps[1].nest
    assert nest is not None
    (b,) = nest.buffers
    (row,) = b.lead
    first = replace(b, lead=(ix(0),), value=substitute(b.value, {v: ix(0) for v in row.free}))
    assert kinds(changed(s, 1, buffers=(first,))) == {"rows"}
    assert kinds(changed(s, 1, axes=(Axis(6, (Piece(1, 0, (0, 2), 4, is_tail=True),)),))) == {"rows"}
    assert kinds(changed(s, 1, buffers=())) == {"order"}


def test_reference_functions_read_their_arguments() -> None:
    s = scheduled(*made(SORTED))
    at = next(k for k, step in enumerate(s.steps) if step.nest is None)
    assert kinds(s) == set()
    assert kinds(replace(s, steps=(*s.steps[:at], replace(s.steps[at], reads=frozenset()), *s.steps[at + 1 :]))) == {"order"}


SHARED = """program f(x: f32[6,45]):
  m[i:6] = max(k:45) x[i,k]
  s[i:6] = sum(k:45) exp(sub(x[i,k], max(l:45) x[i,l]))
  return m, s
"""


def test_a_fold_in_chunks_is_not_shared_with_another_fold(monkeypatch: pytest.MonkeyPatch) -> None:
    """The maximum of all elements so far is not the one that the sum means; the schedule was legal, and its result was wrong."""
    p = parse(SHARED)
    plan = Plan((Kernel(p.outputs, Schedule(carry=8)),))
    with pytest.raises(InternalError, match="carry needs one fold"):
        scheduled(p, plan)
    monkeypatch.setattr("assay.backends.cpp.nest.illegal", lambda p, s, lanes: None)
    monkeypatch.setattr("assay.backends.cpp.nest.carried", lambda p, lanes: tuple(v.attr for v in p.values if v.op == "fold")[:2])
    assert kinds(scheduled(p, plan)) == {"chunks"}


def test_blocks_of_a_scatter_stay_around_their_loop() -> None:
    """A schedule that changes the order of updates is not legal; it was, and its result was wrong."""
    p, wrong = made(SCATTER, Schedule(order=((1, 4), (0, None), (1, None))))
    with pytest.raises(InternalError, match="changes the order"):
        scheduled(p, wrong)
    k = np.full((3, 8), 1)
    k[0, 7] = k[2, 0] = 0
    v = np.arange(24, dtype=np.float32).reshape(3, 8)
    assert run(p, [np.zeros(4, np.float32), v, k])[0][0] == v[2, 0]
    assert legality.illegal(Placement(Kernel(p.outputs)), Schedule(order=((0, 2), (0, None), (1, None))), host().lanes) is None
