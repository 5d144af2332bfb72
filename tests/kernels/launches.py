"""The kernels of examples/kernels with a description of their launches, and faults to seed into them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from assay.kernels.source import Module, read_source

FOLDER = Path(__file__).parents[2] / "examples" / "kernels"


@dataclass(frozen=True)
class Launched:
    """A kernel, and all its launches."""

    kernel: str
    file: str
    grid: str
    args: tuple[str, ...]
    assume: tuple[str, ...] = ()

    def text(self) -> str:
        return (FOLDER / self.file).read_text()

    def module(self, text: str | None = None) -> Module:
        return read_source(text or self.text(), self.file)


def launched(kernel: str, file: str, grid: str, args: str, *more: str, assume: tuple[str, ...] = ()) -> Launched:
    return Launched(kernel, file, grid, (*args.split(), *more), assume)


_MATRICES = "a_ptr=f16[M,K] b_ptr=f16[K,N] c_ptr=f16[M,N] stride_am=K stride_ak=1 stride_bk=N stride_bn=1 stride_cm=N stride_cn=1"
_HEADS = "".join(f"{x}_ptr=f16[Z,n_heads,n_ctx,D] " for x in ("q", "k", "v", "out"))
_NORM = "x_ptr=f32[M,N] w_ptr=f32[N] mean_ptr=f32[M] rstd_ptr=f32[M] stride=N M=1..2**16"

LAUNCHED = {x.kernel: x for x in [
    launched("add", "vector_add.py", "cdiv(n, BLOCK)", "x_ptr=f32[n] y_ptr=f32[n] out_ptr=f32[n] n=1..2**31-1 BLOCK=1024"),
    launched("softmax", "softmax.py", "P", "x_stride=1..2**15 out_stride=1..2**15 n_rows=1..60000 n_cols=1..1024 BLOCK=1024 "
             "P=1..1024", "x_ptr=f32[n_rows,n_cols; x_stride,1]", "out_ptr=f32[n_rows,n_cols; out_stride,1]",
             assume=("x_stride >= n_cols", "out_stride >= n_cols")),
    launched("matmul", "matmul.py", "cdiv(M, BLOCK_M) * cdiv(N, BLOCK_N)",
             f"{_MATRICES} M=1..2**15 N=1..2**15 K=1..2**15 BLOCK_M=128 BLOCK_N=256 BLOCK_K=64 GROUP_M=8"),
    launched("matmul_blocks", "matmul.py", "(cdiv(M, BLOCK_M), cdiv(N, BLOCK_N))",
             f"{_MATRICES} M=1..2**20 N=1..2**20 K=1..2**20 BLOCK_M=128 BLOCK_N=256 BLOCK_K=64"),
    launched("forward", "layer_norm.py", "M", f"{_NORM} y_ptr=f32[M,N] b_ptr=f32[N] N=1..2**14 eps=f32 BLOCK=1024"),
    launched("backward_dx", "layer_norm.py", "M", f"{_NORM} dx_ptr=f32[M,N] dy_ptr=f32[M,N] dw_ptr=f32[GROUP,N] "
             "db_ptr=f32[GROUP,N] lock_ptr=i32[2*GROUP] N=1..4096 GROUP=64 BLOCK=4096"),
    launched("backward_dwdb", "layer_norm.py", "cdiv(N, BLOCK_N)", "dw_ptr=f32[M,N] db_ptr=f32[M,N] final_dw_ptr=f32[N] "
             "final_db_ptr=f32[N] M=1..2**14 N=1..2**14 BLOCK_M=32 BLOCK_N=128"),
    launched("dropout", "dropout.py", "cdiv(n, BLOCK)",
             "x_ptr=f32[n] out_ptr=f32[n] n=1..2**31-1 p=f32 seed=0..2**31-1 BLOCK=1024"),
    launched("attention", "attention.py", "(cdiv(n_ctx, BLOCK_M), Z*n_heads)",
             f"{_HEADS} lse_ptr=f32[Z,n_heads,n_ctx] scale=f32 stride_h=n_ctx*D stride_n=D n_heads=1..64 Z=1..64 n_ctx=1..2**16 "
             "D=64 BLOCK_M=128 BLOCK_N=64 CAUSAL=True", "stride_z=i64 n_heads*stride_h"),
    launched("embedding", "embedding.py", "(cdiv(n, BLOCK_N), cdiv(D, BLOCK_D))", "table_ptr=f32[V,D] out_ptr=f32[n,D] "
             "n=1..2**16 D=1..2**14 V=1..2**16 BLOCK_N=32 BLOCK_D=128", "idx_ptr=i64[n] in 0..V-1"),
    launched("paged_read", "embedding.py", "(S, max_pages)", "cache_ptr=f16[P,PAGE,D] out_ptr=f16[S,max_pages*PAGE,D] "
             "max_pages=1..2**10 S=1..256 P=1..2**16 D=1..128 PAGE=16 BLOCK_D=128", "table_ptr=i32[S,max_pages] in 0..P-1",
             "length_ptr=i32[S] in 0..max_pages*PAGE", assume=("S*max_pages <= 2**16",)),
    launched("cross_entropy", "embedding.py", "n", "logits_ptr=f32[n,V] loss_ptr=f32[n] stride=V V=1..2**18 n=1..2**20 "
             "ignore=-100..2**20 BLOCK=4096", "target_ptr=i64[n] in 0..V-1"),
]}  # fmt: skip


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
