"""Calls: memory of results, any kind of array, threads, and what a call costs."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from assay.backends.build import build as build_text
from assay.backends.cpp import compile_many, compile_program
from assay.backends.memory import HUGE, POOL, Pool, size_class
from assay.backends.plan import Kernel, Plan, Schedule
from assay.backends.runtime import Executable
from assay.backends.target import host
from assay.core import dtypes as dt
from assay.core import lang
from assay.core.errors import UserError
from assay.core.lang import op, program, tensor
from assay.semantics.denote import bits_equal, run
from tests.backends.programs import arrays, build, f32

pytestmark = pytest.mark.cpp


def added(*shape: int, schedule: Schedule | None = None, threads: int = 1) -> Executable:
    x, y = f32("x", *shape), f32("y", *shape)
    out = tensor(shape, lambda *i: x[i] + y[i])
    plan = Plan((Kernel((out,), schedule or Schedule(vector=len(shape) - 1)),))
    return compile_program(program((x, y), [out]), plan=plan, threads=threads)


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def test_results_are_not_reused_while_anything_shows_them() -> None:
    e, a = added(64, 128), ones(64, 128)
    first = e([a, a])[0]
    row = first[3]
    flat = first.reshape(-1)[5:9]
    del first
    for k in range(20):
        e([a * k, a])
    assert (row == 2).all()
    assert (flat == 2).all()


def test_results_are_reused_when_nothing_shows_them() -> None:
    e, a = added(64, 128), ones(64, 128)
    places = {e([a, a])[0].ctypes.data for _ in range(50)}
    assert len(places) <= 2


def test_a_result_can_be_resized_by_its_owner_without_harm() -> None:
    e, a = added(8, 8), ones(8, 8)
    y = e([a, a])[0]
    y.shape = (4, 16)  # pyright: ignore[reportDeprecated]
    del y
    assert e([a, a])[0].shape == (8, 8)


def test_pool_gives_up_free_blocks_beyond_its_limit() -> None:
    pool = Pool(limit=1 << 20)
    held = [pool.array((1 << 18,), np.dtype(np.uint8), size_class(1 << 18)) for _ in range(3)]
    del held
    pool.array((1 << 19,), np.dtype(np.uint8), size_class(1 << 19))
    assert pool.held <= 1 << 20
    assert pool.live() == 0


@pytest.mark.parametrize(
    ("n", "size"), [(0, 64), (1, 64), (64, 64), (65, 128), (1000, 1024), (1 << 20, 1 << 20), ((1 << 20) + 1, 1179648)]
)
def test_size_classes(n: int, size: int) -> None:
    assert size_class(n) == size


def test_blocks_are_aligned() -> None:
    pool = Pool()
    for n, align in ((100, 64), (HUGE, HUGE)):
        _, address = pool.array((n,), np.dtype(np.uint8), size_class(n))
        assert address % align == 0


def test_any_memory_order_alignment_and_kind_of_array() -> None:
    e = added(6, 10)
    base = np.arange(240, dtype=np.float32).reshape(12, 20)
    raw = np.zeros(6 * 10 * 4 + 1, np.uint8)[1:].view(np.float32).reshape(6, 10)
    assert not raw.flags.aligned
    frozen = ones(6, 10)
    frozen.flags.writeable = False
    fortran = np.asfortranarray(ones(6, 10))
    for a in (base[::2, ::2], base[:6, :10].T.reshape(10, 6).T, fortran, raw, frozen, ones(6, 10)[::-1, ::-1]):
        assert bits_equal(e([a, ones(6, 10)])[0], a + 1)


def test_intermediates_share_memory() -> None:
    x = f32("x", 64, 64)
    y = x
    for k in range(10):
        y = tensor((64, 64), lambda i, j, y=y, k=k: op("sqrt", y[i, j] + float(k)))
    e = compile_many([program((x,), [y])])[0]
    assert e.layout.arena <= 2 * 64 * 64 * 4
    (a,) = arrays(e.program)
    assert bits_equal(e([a])[0], run(e.program, [a])[0])


def test_what_a_kernel_writes_does_not_share_memory_with_what_it_reads() -> None:
    x = f32("x", 64, 64)
    a, b = (tensor((64, 64), lambda i, j, c=c: x[i, j] * c) for c in (2.0, 3.0))
    c, d = tensor((64, 64), lambda i, j: a[i, j] + 1.0), tensor((64, 64), lambda i, j: b[j, i] + a[j, i])
    out = tensor((64, 64), lambda i, j: c[i, j] + d[i, j])
    p = program((x,), [out])
    plan = Plan((Kernel((a,)), Kernel((b,)), Kernel((c, d), Schedule(vector=1)), Kernel((out,))))
    e, (values,) = compile_program(p, plan=plan), arrays(p)
    at = {t: range(start, start + 64 * 64 * 4) for t, start in e.layout.offsets.items()}
    assert not any(set(at[t]) & set(at[u]) for t in (c, d) for u in (a, b))
    assert bits_equal(e([values])[0], run(p, [values])[0])


def test_outputs_that_are_inputs_or_repeated_are_copies() -> None:
    p = build(["several_outputs"])["several_outputs"]
    (a,) = arrays(p)
    x, y, again, _ = compile_many([p])[0]([a])
    assert not np.shares_memory(x, a)
    assert not np.shares_memory(y, again)


def test_half_types_and_scalars() -> None:
    x = lang.input("x", (), dt.bf16)
    p = program((x,), [tensor((3,), lambda i: x[()])])
    assert compile_many([p])[0]([np.ones((), dt.bf16.numpy)])[0].tolist() == [1, 1, 1]
    assert compile_many([p])[0]([dt.bf16.numpy.type(2)])[0].tolist() == [2, 2, 2]


def test_an_array_of_other_bits_is_no_bf16() -> None:
    x = lang.input("x", (3,), dt.bf16)
    e = compile_many([program((x,), [tensor((3,), lambda i: x[i])])])[0]
    assert e([np.array([1, 2, 3]).astype(dt.bf16.numpy)])[0].tolist() == [1, 2, 3]
    assert e([np.arange(6).astype(dt.bf16.numpy)[::2]])[0].tolist() == [0, 2, 4]
    with pytest.raises(UserError, match="dtype uint16 given, bfloat16"):
        e([np.zeros(3, np.uint16)])


def test_calls_from_several_threads() -> None:
    e = added(200, 300, schedule=Schedule(vector=1, threads=0), threads=2)
    wrong: list[int] = []

    def work(k: int) -> None:
        a = ones(200, 300) * k
        for _ in range(50):
            if not (e([a, a])[0] == 2 * k).all():
                wrong.append(k)

    workers = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert wrong == []


def test_the_pool_survives_fork() -> None:
    e, a = added(200, 300, schedule=Schedule(vector=1, threads=0), threads=2), ones(200, 300)
    e([a, a])
    child = os.fork()
    if child == 0:
        os._exit(0 if (e([a, a])[0] == 2).all() else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert (e([a, a])[0] == 2).all()


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
def test_a_worker_leaves_the_processor_of_its_caller() -> None:
    e, a = added(200, 300, schedule=Schedule(vector=1, threads=0), threads=2), ones(200, 300)
    e([a, a])  # the pool has its worker
    allowed = os.sched_getaffinity(0)
    workers = [int(t) for t in os.listdir("/proc/self/task") if int(t) != threading.get_native_id()]
    one = min(allowed)
    try:
        for t in (0, *workers):
            os.sched_setaffinity(t, {one})
        e([a, a])
        os.sched_setaffinity(0, allowed)
        e([a, a])
        assert _processor() != one or any(one not in os.sched_getaffinity(t) for t in workers)
    finally:
        for t in (0, *workers):
            os.sched_setaffinity(t, allowed)


def _processor() -> int:
    return int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[36])


def test_a_forked_child_writes_in_its_own_memory() -> None:
    a = POOL.array((1024, 1024), np.dtype(np.float32), size_class(HUGE * 2))[0]
    a[...] = 1
    child = os.fork()
    if child == 0:
        a[...] = 2
        os._exit(0)
    os.waitpid(child, 0)
    assert (a == 1).all()



@pytest.mark.skipif(not host().x86, reason="sets the control register of x86")
@pytest.mark.parametrize("mode", [0x9FC0, 0x7F80, 0x3F80])  # subnormals flushed; rounding towards zero; downwards
def test_modes_that_other_libraries_set_do_not_change_the_bits(mode: int) -> None:
    e = added(200, 300, schedule=Schedule(vector=1, threads=0), threads=2)
    small = [ones(200, 300) * np.float32(v) for v in (1e-41, -3e-45)]
    want = e(small)[0]
    register = build_text('extern "C" void mode(unsigned v){__builtin_ia32_ldmxcsr(v);}').library
    register.mode(mode)
    try:
        got = e(small)[0]
    finally:
        register.mode(0x1F80)
    assert bits_equal(got, want)
    assert want.view(np.int32).min() > 0


def test_a_small_call_costs_microseconds() -> None:
    e, a = added(64, 128), ones(64, 128)
    best = 1.0
    for _ in range(30):
        start = time.perf_counter()
        for _ in range(50):
            e([a, a])
        best = min(best, (time.perf_counter() - start) / 50)
    assert best < 20e-6  # 3 us on an idle core; the margin is for a busy one
