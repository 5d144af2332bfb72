"""triton.language, construct by construct: what one access or promise of a small kernel comes out as."""

from __future__ import annotations

import pytest

from assay.core.errors import Unsupported, UserError
from assay.kernels.prover import KernelProof, prove_kernel
from assay.kernels.source import read_source
from assay.verify.verdict import PROVED, REFUTED, UNKNOWN

HEAD = """import triton
import triton.language as tl

FOUR = tl.constexpr(4)

@triton.jit
def halves(x, y):
    if x.dtype == tl.int32:
        return x // 2, y // 2
    return x, y

@triton.jit
def first(a, b):
    return a

@triton.jit
def kernel(x_ptr, i_ptr, f_ptr, b_ptr, n, m, s, B: tl.constexpr):
    pid = tl.program_id(0)
    i = tl.arange(0, B)
"""
ARGS = ("x_ptr=f32[n]", "i_ptr=i32[n] in 0..m-1", "f_ptr=f32[m]", "b_ptr=i32[n]",
        "n=1..2**20", "m=1..2**20", "s=-5..2**20", "B=8")  # fmt: skip


def proof(body: str, *args: str, grid: str = "m", assume: tuple[str, ...] = ()) -> KernelProof:
    text = HEAD + "".join(f"    {line}\n" for line in body.splitlines())
    named = {a.partition("=")[0]: a for a in (*ARGS, *args)}
    return prove_kernel(read_source(text, "kernel.py"), "kernel", grid=grid, args=list(named.values()), assume=assume)


PROVEN = [
    "tl.load(x_ptr + i, mask=i < n)",
    "tl.load(x_ptr + i % n)",
    "tl.load(x_ptr + tl.minimum(i, n - 1))",
    "tl.load(x_ptr + tl.where(i < n, i, 0))",
    "tl.load(x_ptr + (i & 3), mask=(i & 3) < n)",
    "tl.load(x_ptr + (i >> 3))",
    "tl.load(x_ptr + (i ^ i))",
    "k = 1 << (pid & 15)\ntl.load(x_ptr + k, mask=k < n)",
    "tl.load(x_ptr + (n - 1 - i), mask=i < n)",
    "tl.load(f_ptr + pid)",
    "tl.load(f_ptr + tl.load(i_ptr + i, mask=i < n, other=0))",
    "tl.load(f_ptr + tl.load(i_ptr + i, mask=i < n), mask=i < n)",
    "v = tl.load(b_ptr)\nif v >= 0 and v < n:\n    tl.load(x_ptr + v)",
    "v = tl.load(b_ptr)\nif v < 0:\n    return\ntl.load(x_ptr + v, mask=v < n)",
    "v = tl.load(b_ptr)\ntl.load(x_ptr + tl.clamp(v, 0, n - 1))",
    "v = tl.load(b_ptr)\ntl.load(x_ptr + tl.load(b_ptr) * 0 + (v - tl.load(b_ptr)))",
    "v = tl.load(b_ptr).to(tl.uint32)\ntl.load(x_ptr + (v * 2654435761 % n.to(tl.uint32)).to(tl.int64))",
    "for k in range(0, n, B):\n    tl.load(x_ptr + k + i, mask=k + i < n)",
    "p = x_ptr + i\nfor k in range(tl.cdiv(n, B)):\n    tl.load(p, mask=k * B + i < n)\n    p += B",
    "p = x_ptr + n - 1\nfor k in range(n):\n    tl.load(p)\n    p -= 1",
    "for k in range(n - 1, -1, -1):\n    tl.load(x_ptr + k)",
    "for k in tl.static_range(3):\n    tl.load(x_ptr + k, mask=k < n)",
    "for k in tl.range(n - 1, -1, step=-1):\n    tl.load(x_ptr + k)",
    "for k in tl.range(0, arg2=n, num_stages=2, step=B):\n    tl.load(x_ptr + k + i, mask=k + i < n)",
    "tl.load(x_ptr + min(i, n - 1))",
    "tl.load(x_ptr + max(i - 7, 0, i - 9))",
    "tl.load(x_ptr + tl.sum(i // 8, 0, True))",
    "v = tl.argmax(i, 0, False)\ntl.load(x_ptr + v, mask=v < n)",
    "v, k = tl.max(i, 0, return_indices=True)\ntl.load(x_ptr + k, mask=k < n)",
    "k = 0\nwhile k < n:\n    tl.load(x_ptr + k)\n    k += 1",
    "k = pid\nwhile k < n:\n    tl.load(x_ptr + k)\n    k += tl.num_programs(0)",
    "k = n\nwhile k > 0:\n    k -= 1\n    tl.load(x_ptr + k)",
    "k = 0\nfor _ in range(100):\n    k = (k + 3) % 7\n    tl.load(x_ptr + k, mask=k < n)",
    "k = 1\nfor _ in range(3):\n    k *= 2\ntl.load(x_ptr + k - 8)",
    "if pid < n:\n    o = pid\nelse:\n    o = 0\ntl.load(x_ptr + o)",
    "o = pid if pid < n else n - 1\ntl.load(x_ptr + o)",
    "a, b = halves(i, i + 1)\ntl.load(x_ptr + a, mask=b < n)",
    "tl.load(x_ptr + first(a=i, b=2), mask=i < n)",
    "tl.load(x_ptr + i * FOUR // FOUR, mask=i < n)",
    "v = tl.argmax(tl.load(x_ptr + i, mask=i < n), axis=0)\ntl.load(x_ptr + v, mask=v < n)",
    "v = tl.sum((i < n).to(tl.int32), axis=0)\ntl.load(x_ptr + v - 1, mask=(v > 0) & (v <= n))",
    "v = tl.max(i, axis=0)\ntl.load(x_ptr + v, mask=v < n)",
    "v = tl.cumsum(i // 8, axis=0)\ntl.load(x_ptr + v)",
    "v = tl.sort(i // 8)\ntl.load(x_ptr + v)",
    "t = i[:, None] * B + i[None, :]\ntl.load(x_ptr + tl.trans(t), mask=tl.trans(t) < n)",
    "t = tl.reshape(i, [2, 4])\ntl.load(x_ptr + t, mask=t < n)",
    "t = tl.reshape(i[:, None] * B + i[None, :], [B * B])\ntl.load(x_ptr + t, mask=tl.arange(0, B * B) < n)",
    "t = tl.broadcast_to(i[:, None], [B, B])\ntl.load(x_ptr + t, mask=i[:, None] < n)",
    "q = tl.make_block_ptr(x_ptr, (n,), (1,), (pid * B,), (B,), (0,))\ntl.load(q, boundary_check=(0,))",
    "d = tl.make_tensor_descriptor(x_ptr, shape=[n], strides=[1], block_shape=[B])\nd.load([s])",
    "tl.atomic_add(x_ptr + i, 1.0, mask=i < n)",
    "tl.store(x_ptr + i, i.to(tl.float32), mask=(i < n) & (pid == 0))",
    "r = tl.rand(pid, i)\ntl.load(x_ptr + i, mask=(r > 0.5) & (i < n))",
    "a, b = tl.swizzle2d(pid // 8, pid % 8, tl.cdiv(m, 8), 8, 2)\ntl.load(f_ptr + a * 0 + 0 * b)",
    "tl.multiple_of(pid * 16, 16)\ntl.load(x_ptr)",
    "tl.max_contiguous(pid * 16 + i, 8)\ntl.load(x_ptr)",
    "tl.assume(n > 0)\ntl.load(x_ptr)",
    "tl.static_assert(B == 8)\ntl.load(x_ptr)",
    "w = x_ptr + (i[:, None] + i[None, :] * 0)\ntl.load(w, mask=i[:, None] < n)",
    "x = tl.load(x_ptr + i, mask=i < n)\nx = tl.where(x > 0, tl.exp(x), x * 2)\ntl.load(x_ptr, mask=tl.sum(x, axis=0) > 1)",
    "tl.load(x_ptr + i, mask=~(i >= n))",
    "tl.load(x_ptr + i, mask=not_ if False else i < n)",
    "tl.load(x_ptr + s // 1, mask=(s >= 0) & (s < n))",
    "tl.load(x_ptr + s % n + n - 1, mask=s % n + n - 1 < n)",  # C's remainder: above -n
]  # fmt: skip

REFUTABLE = [
    ("tl.load(x_ptr + i)", "bounds"),
    ("tl.load(x_ptr + i, mask=i <= n)", "bounds"),
    ("tl.load(x_ptr + s, mask=s < n)", "bounds"),  # s may be negative
    ("tl.load(x_ptr + s % n)", "bounds"),  # C's remainder has the sign of the dividend
    ("tl.load(x_ptr + s // 2, mask=s < 2 * n)", "bounds"),  # -1 // 2 is 0 in C, -2 // 2 is not
    ("tl.load(x_ptr + tl.load(b_ptr))", "bounds"),
    ("tl.load(f_ptr + tl.load(i_ptr + i, mask=i < n, other=m))", "bounds"),
    ("for k in range(0, n, B):\n    tl.load(x_ptr + k + i)", "bounds"),
    ("p = x_ptr\nfor k in range(n):\n    p += 1\n    tl.load(p)", "bounds"),
    ("k = 0\nwhile k <= n:\n    tl.load(x_ptr + k)\n    k += 1", "bounds"),
    ("o = 0\nif pid > 0:\n    o = n\ntl.load(x_ptr + o)", "bounds"),
    ("tl.load(x_ptr + n * m % n, mask=n < 0)\ntl.load(x_ptr + n * m - n * m)", ""),
    ("tl.load(x_ptr + n * m * 0)", "int32"),
    ("tl.load(x_ptr + (n + m) * 4096 % n)", "int32"),
    ("v = (i * 40).to(tl.int8)\ntl.load(x_ptr + v * 0)", "int8"),
    ("tl.store(x_ptr + i, 1.0, mask=i < n)", "race"),
    ("tl.store(f_ptr + pid + i, 1.0, mask=pid + i < m)", "race"),
    ("tl.store(f_ptr + pid // 2, 1.0)", "race"),
    ("tl.store(f_ptr + tl.load(i_ptr + pid % n), 1.0)", "race"),
    ("tl.store(f_ptr + pid, tl.load(f_ptr + (pid + 1) % m))", "race"),
    ("tl.multiple_of(pid * 8, 16)\ntl.load(x_ptr)", "promise"),
    ("tl.max_contiguous(i * 2, 8)\ntl.load(x_ptr)", "promise"),
    ("tl.assume(pid > 0)\ntl.load(x_ptr)", "promise"),
    ("t = i[:, None] * B + i[None, :]\ntl.load(x_ptr + t, mask=tl.trans(t) < n)", "bounds"),
    ("q = tl.make_block_ptr(x_ptr, (n,), (1,), (pid * B,), (B,), (0,))\ntl.load(q)", "bounds"),
    ("q = tl.make_block_ptr(x_ptr, (n + 1,), (1,), (pid * B,), (B,), (0,))\ntl.load(q, boundary_check=(0,))", "bounds"),
    ("tl.atomic_add(x_ptr + i, 1.0, mask=i <= n)", "bounds"),
    ("for k in tl.range(n - 1, -1, step=-1):\n    tl.load(x_ptr + k + 1)", "bounds"),
    ("for k in tl.static_range(B, 0, step=-1):\n    tl.load(x_ptr + k, mask=k <= n)", "bounds"),
    ("if pid == 0:\n    tl.store(x_ptr + min(i, n - 1), 1.0)", "race"),  # Python's min takes the smaller of two
]  # fmt: skip

OPEN = [
    "k = 1 << (pid & 31)\ntl.load(x_ptr + k, mask=k < n)",  # 1 << 31 is negative
    "tl.load(x_ptr + i, mask=tl.view(i, B) < n)",  # in any order
    "tl.load(x_ptr + i, mask=tl.reshape(i, [B], can_reorder=True) < n)",
    "k = 1 << s\ntl.load(x_ptr + k, mask=k < n)",
    "x = tl.load(x_ptr)\no = x.to(tl.int32)\ntl.load(x_ptr + o, mask=(o >= 0) & (o * 2 < n * 3))",
    "lo = 0\nhi = n\nwhile lo < hi:\n    mid = (lo + hi) // 2\n"
    "    if tl.load(x_ptr + mid) > 0:\n        lo = mid + 1\n    else:\n        hi = mid",
    "while tl.atomic_cas(b_ptr, 0, 1) == 1:\n    pass\ntl.store(f_ptr, 1.0)\ntl.atomic_xchg(b_ptr, 0)",
]  # fmt: skip


@pytest.mark.parametrize("body", PROVEN)
def test_right(body: str) -> None:
    p = proof(body)
    assert p.verdict.kind == PROVED, str(p)


@pytest.mark.parametrize(("body", "kind"), [r for r in REFUTABLE if r[1]])
def test_wrong(body: str, kind: str) -> None:
    p = proof(body)
    assert p.verdict.kind == REFUTED, str(p)
    assert kind in {o.kind for o in p.obligations if o.status == REFUTED}, str(p)


@pytest.mark.parametrize("body", OPEN)
def test_undecided_is_said(body: str) -> None:
    p = proof(body)
    assert p.verdict.kind in (UNKNOWN, REFUTED), str(p)
    assert all(o.how for o in p.obligations)


@pytest.mark.parametrize(("body", "error", "says"), [
    ("for k in tl.range(0, n, steps=2):\n    pass", UserError, r"a loop has no option steps, .* arg1, arg2, step"),
    ("tl.foo(i)", Unsupported, r"kernel.py:20: triton.language.foo is not understood"),
    ("tl.load(x_ptr + i.to(tl.pointer_type))", UserError, r"kernel.py:20"),
    ("x = [k for k in range(3)]", Unsupported, r"kernel.py:20: `ListComp` is not understood"),
    ("for k in range(n):\n    break", Unsupported, r"kernel.py:21: `break` is not understood"),
    ("tl.load(nothing + i)", UserError, r"kernel.py:20: unknown name 'nothing'"),
    ("tl.load(n + i)", UserError, r"kernel.py:20: a pointer is needed: is its parameter declared as a tensor"),
    ("tl.arange(0, 7)", UserError, r"kernel.py:20: the length of arange must be a power of 2, not 7"),
    ("tl.arange(0, n)", UserError, r"the end of arange must be known at compile time"),
    ("i[:, None] + tl.arange(0, 4)[:, None]", UserError, r"the shapes \[8, 1\] and \[4, 1\] do not broadcast"),
    ("if pid:\n    v = 1\ntl.load(x_ptr + v)", UserError, r"kernel.py:22: v is assigned in one branch"),
    ("for k in range(n):\n    v = k\ntl.load(x_ptr + v)", UserError, r"kernel.py:22: v is assigned in a loop only"),
    ("acc = 0\nfor k in range(n):\n    acc = acc + i", UserError, r"kernel.py:22: acc is int32\[\] before .* int32\[8\] after"),
    ("x = i\nx[0] = 1", Unsupported, r"assignment to a part of a tensor"),
    ("tl.load(x_ptr + i, masks=i < n)", UserError, r"kernel.py:20: .*masks"),
    ("tl.static_assert(B == 9, 'B must be 9')", UserError, r"static_assert fails: B must be 9"),
    ("halves(i)", UserError, r"halves misses its argument y"),
    ("tl.load(tl.where(pid > 0, x_ptr, f_ptr))", Unsupported, r"a choice between pointers to different tensors"),
    ("tl.load(x_ptr + i, mask=i < 3000000000)", UserError, r"the number 3000000000 does not fit int32"),
])  # fmt: skip
def test_what_is_not_understood_is_an_error_at_its_line(body: str, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        proof(body)


@pytest.mark.parametrize(("args", "grid", "assume", "says"), [
    (("n=1..2**40",), "m", (), r"1..1099511627776 does not fit int32.*write `n=i64 1..2\*\*40`"),
    (("n=5..1",), "m", (), r"the range is empty"),
    (("x_ptr=f32[k]",), "m", (), r"nothing is said of k; give --arg k=1..65536"),
    (("x_ptr=f31[n]",), "m", (), r"'f31\[n\]' is no integer expression"),
    (("n=m", "m=n"), "m", (), r"n -> m -> n refer to each other"),
    ((), "m n", (), r"--grid: 'm n' is no expression"),
    ((), "m // s", (), r"the divisor must be positive"),
    ((), "m", ("n > 2**21",), r"no sizes satisfy the conditions \(n > 2\*\*21\)"),
    ((), "m", ("n",), r"'n' is no condition"),
    (("B=i",), "m", (), r"nothing is said of i"),
    (("i_ptr=i32[n] in 0..s",), "m", (), r"the range of its values may be empty"),
    (("B=1..8",), "m", (), r"B is a tl.constexpr, its value must be given"),
    (("x_ptr=f32[n;s]",), "m", (), r"every stride at least 0"),
])  # fmt: skip
def test_wrong_descriptions(args: tuple[str, ...], grid: str, assume: tuple[str, ...], says: str) -> None:
    with pytest.raises(UserError, match=says):
        proof("tl.load(x_ptr)", *args, grid=grid, assume=assume)


def test_a_while_loop_may_run_longer_than_int32_counts() -> None:
    body = "k = pid.to(tl.int64)\nwhile k < s:\n    tl.load(x_ptr + k)\n    k += 1"
    assert proof(body, "s=i64 1..2**33", "x_ptr=f32[2**31]").verdict.kind != PROVED
    assert proof(body, "s=i64 1..2**33", "x_ptr=f32[max(s, m)]").verdict.kind == PROVED


def test_masks_that_can_go_are_named() -> None:
    p = proof("k = pid * 8 + i\ntl.load(f_ptr + k, mask=(k < m) & (k < n))", "n=m", grid="cdiv(m, 8)")
    assert p.obligations[0].mask == ()
    p = proof("k = pid * 8 + i\ntl.load(f_ptr + k, mask=(k < m) & (k >= 0) & (i < n))", grid="cdiv(m, 8)")
    assert p.obligations[0].mask == ("mask: i < n is not needed for the bounds (it still chooses lanes)",)
    p = proof("k = pid * 8 + i\ntl.load(f_ptr + k, mask=(k < m) & (i < n))", grid="cdiv(m, 8)", assume=("m % 8 == 0", "n > 8"))
    assert p.obligations[0].mask == ("mask: k < m always holds, it can be removed", "mask: i < n always holds, it can be removed")


def test_a_witness_holds_everything() -> None:
    p = proof("tl.load(f_ptr + tl.load(i_ptr + i, mask=i < n, other=0))", "i_ptr=i32[n] in 0..m")
    found = next(o for o in p.obligations if o.status == REFUTED)
    w = found.to_json()["witness"]
    assert (found.line, w["index"], w["bound"]) == (20, w["sizes"]["m"], w["sizes"]["m"])
    assert w["elements"] == [f"i_ptr[{w['lane'][0]}] = {w['index']}"]
    assert p.to_json()["exit_code"] == 1


def test_numbers_that_are_assigned_are_scalars_of_int32() -> None:
    p = proof("a = 70000\ntl.load(x_ptr + a * a * 0)")  # 70000 * 70000 wraps, as it does in Triton
    assert [o.kind for o in p.obligations if o.status == REFUTED] == ["int32"]
    assert proof("tl.load(x_ptr + 70000 * 70000 * 0)").verdict.kind == PROVED  # compile-time numbers do not


@pytest.mark.parametrize(("loop", "n", "verdict"), [
    ("range(0, n, 1 << 30)", "n=1..2**31-1", REFUTED),
    ("range(0, n, 1024)", "n=1..2**31-1", UNKNOWN),  # two million iterations are not replayed
    ("range(0, n, 1024)", "n=1..2**31-1024", PROVED),
    ("range(0, n)", "n=1..2**31-1", PROVED),
    ("range(n - 1, -1, -1024)", "n=1..2**31-1", PROVED),
])  # fmt: skip
def test_the_counter_of_a_loop_must_not_wrap_after_its_last_iteration(loop: str, n: str, verdict: object) -> None:
    """The machine adds the step and then compares: 2**31 - 1024 + 1024 is negative, and less than n."""
    found = proof(f"for k in {loop}:\n    tl.load(x_ptr + k)", n)
    assert found.verdict.kind == verdict, str(found)


MODULE = """import triton
import triton.language as tl
from elsewhere import swizzle2d

@triton.jit
def place(x):
    return x

FOUR = tl.constexpr(4)
SIX, SEVEN = 6, 7
{more}

@triton.jit
def kernel(x_ptr):
    tl.store(x_ptr + {offset}, 1.0)
"""


@pytest.mark.parametrize(("more", "offset", "says"), [
    ("", "FOUR", ""),
    ("", "place(3)", ""),
    ("", "SIX", "unknown name 'SIX'"),
    ("FOUR = tl.constexpr(number_of_places())", "FOUR", "unknown name 'FOUR'"),
    ("if larger():\n    FOUR = tl.constexpr(40)", "FOUR", "unknown name 'FOUR'"),
    ("FOUR += 1", "FOUR", "unknown name 'FOUR'"),
    ("for FOUR in places():\n    pass", "FOUR", "unknown name 'FOUR'"),
    ("FOUR = tl.constexpr(5)", "FOUR", ""),
    ("try:\n    @triton.jit\n    def place(x):\n        return x\nfinally:\n    pass", "place(3)", "unknown name 'place'"),
    ("def place(x):\n    return x + 9", "place(3)", "unknown name 'place'"),
    ("", "swizzle2d(1, 1, 4, 4, 2)[0]", "elsewhere.swizzle2d is not understood"),
])  # fmt: skip
def test_what_a_module_may_define_otherwise_has_no_meaning(more: str, offset: str, says: str) -> None:
    module = read_source(MODULE.format(more=more, offset=offset), "kernel.py")
    if not says:
        assert prove_kernel(module, "kernel", grid="1", args=["x_ptr=f32[8]"]).verdict.kind == PROVED
        return
    with pytest.raises((UserError, Unsupported), match=says):
        prove_kernel(module, "kernel", grid="1", args=["x_ptr=f32[8]"])
