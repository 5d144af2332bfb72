"""The kernels of examples/kernels (the files describe their launches), and faults to seed into them."""

from __future__ import annotations

from dataclasses import dataclass
from math import erf
from pathlib import Path
from typing import Any

import numpy as np

from assay.kernels.source import read_module

FOLDER = Path(__file__).parents[2] / "examples" / "kernels"


KERNELS = {name: file for file in sorted(FOLDER.glob("*.py")) for name in read_module(file).launches if file.name != "faulty.py"}


@dataclass(frozen=True)
class Fault:
    """`old` replaced by `new` in the source must be refuted: an obligation of this kind, at a line that has the text `at`."""

    kernel: str
    old: str
    new: str
    kind: str
    at: str
    grid: str = ""
    args: tuple[str, ...] = ()


FAULTS = [
    Fault("add", "tl.load(x_ptr + offsets, mask=mask)", "tl.load(x_ptr + offsets)", "bounds", "tl.load(x_ptr"),
    Fault("add", "mask = offsets < n", "mask = offsets <= n", "bounds", "tl.load(x_ptr"),
    Fault("add", "start = tl.program_id(0) * BLOCK", "start = tl.program_id(0) * (BLOCK // 2)", "race", "tl.store(out_ptr"),
    Fault("add", "mask = offsets < n", "mask = tl.arange(0, BLOCK) < n", "bounds", "tl.store(out_ptr", grid="cdiv(n, BLOCK) + 1"),
    Fault("add", "tl.program_id(0) * BLOCK", "tl.program_id(0) * BLOCK * 3 // 3", "int32", "start ="),
    Fault("gelu_backward", "tl.load(h_ptr + x0, mask=xmask)", "tl.load(h_ptr + x0)", "bounds", "h = tl.load"),
    Fault("gelu_backward", "tl.load(upstream_ptr + 0)", "tl.load(upstream_ptr + x0, mask=xmask)", "bounds", "upstream = "),
    Fault("softmax", "mask = columns < n_cols", "mask = columns < BLOCK", "bounds", "tl.load(x_ptr"),
    Fault("softmax", "out_ptr + row * out_stride", "out_ptr + row * x_stride", "bounds", "tl.store(out_ptr"),
    Fault("softmax", "tl.range(first, n_rows, step)", "tl.range(first, n_rows + 1, step)", "bounds", "tl.load(x_ptr"),
    Fault("softmax", "tl.range(first, n_rows, step)", "tl.range(first, n_rows, 1)", "race", "tl.store(out_ptr"),
    Fault("softmax", "", "", "int32", "row * x_stride", args=("n_rows=1..2**17",)),
    Fault("matmul", "% M", "% N", "bounds", "tl.load(a_ptrs"),
    Fault("matmul", "offs_bn[None, :] * stride_bn", "offs_bn[None, :] * stride_bk", "bounds", "tl.load(b_ptrs"),
    Fault("matmul", "offs_k[None, :] < K - k * BLOCK_K", "offs_k[None, :] <= K - k * BLOCK_K", "bounds", "tl.load(a_ptrs"),
    Fault("matmul", "(offs_cm[:, None] < M) & (offs_cn[None, :] < N)", "(offs_cm[:, None] < M)", "bounds", "tl.store(c_ptrs"),
    Fault("matmul", "(offs_cm[:, None] < M) & (offs_cn[None, :] < N)", "(offs_cm[:, None] < N) & (offs_cn[None, :] < M)",
          "bounds", "tl.store(c_ptrs"),
    Fault("matmul", "a_ptrs += BLOCK_K * stride_ak", "a_ptrs += BLOCK_K * stride_am", "bounds", "tl.load(a_ptrs"),
    Fault("matmul", "pid_n = (pid % in_group) // rows", "pid_n = (pid % in_group) // GROUP_M", "race", "tl.store(c_ptrs"),
    Fault("matmul", "", "", "int32", "offs_am[:, None] * stride_am", args=("M=1..2**17", "K=1..2**17", "N=1..2**10")),
    Fault("matmul_blocks", "a_block, boundary_check=(0, 1)", "a_block, boundary_check=(0,)", "bounds", "tl.load(a_block"),
    Fault("matmul_blocks", "(stride_bk, stride_bn)", "(stride_bn, stride_bk)", "bounds", "tl.load(b_block"),
    Fault("matmul_blocks", "acc.to(tl.float16), boundary_check=(0, 1)", "acc.to(tl.float16), boundary_check=(1,)", "bounds",
          "tl.store(c_block"),
    Fault("matmul_descriptors", "shape=[M, N]", "shape=[N, M]", "bounds", "c.store"),
    Fault("matmul_descriptors", "shape=[M, K], strides=[K, 1]", "shape=[M, K], strides=[N, 1]", "bounds", "a.load"),
    Fault("matmul_descriptors", "n = tl.program_id(1) * BLOCK_N", "n = tl.program_id(1) * (BLOCK_N - 1)", "race", "c.store"),
    Fault("forward", "x = tl.load(x_ptr + cols, mask=cols < N, other=0.0)", "x = tl.load(x_ptr + cols)", "bounds",
          "x = tl.load(x_ptr + cols)"),
    Fault("forward", "tl.store(mean_ptr + row, mean)", "tl.store(mean_ptr + row + 1, mean)", "bounds", "tl.store(mean_ptr"),
    Fault("forward", "y_ptr += row * stride", "y_ptr += (row + 1) * stride", "bounds", "tl.store(y_ptr"),
    Fault("forward", "y_ptr += row * stride", "y_ptr += row", "race", "tl.store(y_ptr"),
    Fault("backward_dx", "lock_id = row % GROUP", "lock_id = row % (GROUP + 1)", "bounds", "tl.store(dw_ptr"),
    Fault("backward_dx", "count_ptr = lock_ptr + GROUP", "count_ptr = lock_ptr + 2 * GROUP", "bounds", "tl.load(count_ptr"),
    Fault("backward_dx", "mask = cols < N", "mask = cols < BLOCK", "bounds", "tl.load(x_ptr"),
    Fault("backward_dwdb", "(rows[:, None] < M) & (cols[None, :] < N)", "cols[None, :] < N", "bounds", "tl.load(dw_ptr"),
    Fault("backward_dwdb", "(rows[:, None] < M) & (cols[None, :] < N)", "rows[:, None] < M", "bounds", "tl.load(dw_ptr"),
    Fault("backward_dwdb", "sum_dw, mask=cols < N", "sum_dw, mask=cols < M", "bounds", "tl.store(final_dw_ptr"),
    Fault("dropout", "mask = offsets < n", "mask = offsets < n + 1", "bounds", "tl.load(x_ptr"),
    Fault("dropout", "x = tl.load(x_ptr + offsets, mask=mask)", "x = tl.load(x_ptr + offsets, mask=offsets > 0)", "bounds",
          "tl.load(x_ptr"),
    Fault("dropout", "pid * BLOCK + tl.arange(0, BLOCK)", "pid + tl.arange(0, BLOCK)", "race", "tl.store(out_ptr"),
    Fault("attention", "inside = start_n + offs_n < n_ctx", "inside = start_n + offs_n < n_ctx + 1", "bounds", "k = tl.load"),
    Fault("attention", "v = tl.load(v_ptrs + start_n * stride_vn, mask=inside[:, None], other=0.0)",
          "v = tl.load(v_ptrs + start_n * stride_vn)", "bounds", "v = tl.load"),
    Fault("attention", "off_z = off_zh // n_heads", "off_z = off_zh // (n_heads + 1)", "race", "tl.store(out_ptrs"),
    Fault("attention", "off_h = off_zh % n_heads", "off_h = off_zh", "bounds", "q = tl.load"),
    Fault("attention", "off_z.to(tl.int64) * stride_z + off_h.to(tl.int64) * stride_h", "off_zh * stride_h", "int32", "base ="),
    Fault("embedding", "idx = tl.load(idx_ptr + rows, mask=rows < n, other=0)", "idx = tl.load(idx_ptr + rows, other=0)",
          "bounds", "tl.load(idx_ptr"),
    Fault("embedding", "", "", "bounds", "tl.load(table_ptr", args=("idx_ptr=i64[n]",)),
    Fault("embedding", "", "", "bounds", "tl.load(table_ptr", args=("idx_ptr=i64[n] in 0..V",)),
    Fault("embedding", "idx[:, None] * D + cols[None, :], mask=mask", "idx[:, None] * n + cols[None, :], mask=mask", "bounds",
          "tl.load(table_ptr"),
    Fault("paged_read", "number * PAGE + slot", "number * D + slot", "bounds", "tl.load(cache_ptr"),
    Fault("paged_read", "sequence * max_pages + page", "sequence + page * max_pages", "bounds", "number = tl.load"),
    Fault("paged_read", "sequence * max_pages * PAGE", "sequence * max_pages", "race", "tl.store(out_ptr"),
    Fault("paged_read", "& (d[None, :] < D)", "", "bounds", "tl.load(cache_ptr"),
    Fault("cross_entropy", "mask=cols < V", "mask=cols <= V", "bounds", "x = tl.load(logits_ptr"),
    Fault("cross_entropy", "", "", "bounds", "x_target = tl.load", args=("target_ptr=i64[n] in -100..V-1",)),
    Fault("cross_entropy", "tl.program_id(0).to(tl.int64)", "tl.program_id(0)", "int32", "logits_ptr += row"),
    Fault("cross_entropy", "tl.store(loss_ptr + row, 0.0)", "tl.store(loss_ptr, 0.0)", "race", "tl.store(loss_ptr, 0.0)"),
]  # fmt: skip


def seeded(fault: Fault) -> str:
    """The kernel's file with the fault in it: in the kernel itself, or what it calls if that stands before it."""
    text = KERNELS[fault.kernel].read_text()
    assert fault.old in text, fault
    at = 0 if fault.kernel == "attention" else text.index(f"def {fault.kernel}(")
    return text[:at] + text[at:].replace(fault.old, fault.new, 1)


def ulps_of_gelu_backward(got: Any, h: Any, upstream: Any) -> float:
    """The largest error of upstream * (0.5*(1 + erf(h/sqrt 2)) + h*phi(h)) in f32, in ulps of its terms, which cancel."""
    x, g = np.asarray(h, np.float64), float(np.asarray(upstream).reshape(()))
    half = np.array([0.5 * erf(v / np.sqrt(2)) for v in x.ravel()]).reshape(x.shape)
    term = x * np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi)
    return float(np.max(abs(got - g * (0.5 + half + term)) / (abs(g) * (0.5 + abs(half) + abs(term)) * 2.0**-23)))
