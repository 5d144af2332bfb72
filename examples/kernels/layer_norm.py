"""Layer normalisation of rows: forward, the gradient of x with partial sums of those of w and b, and their final sum."""

import triton
import triton.language as tl

LAUNCHES = {
    "forward": {
        "grid": "M",
        "args": [
            "x_ptr=f32[M,N]", "w_ptr=f32[N]", "mean_ptr=f32[M]", "rstd_ptr=f32[M]", "stride=N", "M=1..2**16",
            "y_ptr=f32[M,N]", "b_ptr=f32[N]", "N=1..2**14", "eps=f32", "BLOCK=1024",
        ],
    },
    "backward_dx": {
        "grid": "M",
        "args": [
            "x_ptr=f32[M,N]", "w_ptr=f32[N]", "mean_ptr=f32[M]", "rstd_ptr=f32[M]", "stride=N", "M=1..2**16",
            "dx_ptr=f32[M,N]", "dy_ptr=f32[M,N]", "dw_ptr=f32[GROUP,N]", "db_ptr=f32[GROUP,N]",
            "lock_ptr=i32[2*GROUP]", "N=1..4096", "GROUP=64", "BLOCK=4096",
        ],
    },
    "backward_dwdb": {
        "grid": "cdiv(N, BLOCK_N)",
        "args": [
            "dw_ptr=f32[M,N]", "db_ptr=f32[M,N]", "final_dw_ptr=f32[N]", "final_db_ptr=f32[N]", "M=1..2**14",
            "N=1..2**14", "BLOCK_M=32", "BLOCK_N=128",
        ],
    },
}


@triton.jit
def forward(x_ptr, y_ptr, w_ptr, b_ptr, mean_ptr, rstd_ptr, stride, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    y_ptr += row * stride
    x_ptr += row * stride
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for off in range(0, N, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        a = tl.load(x_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)
        total += a
    mean = tl.sum(total, axis=0) / N
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for off in range(0, N, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)
        x = tl.where(cols < N, x - mean, 0.0)
        squares += x * x
    rstd = 1 / tl.sqrt(tl.sum(squares, axis=0) / N + eps)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    for off in range(0, N, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        mask = cols < N
        w = tl.load(w_ptr + cols, mask=mask)
        b = tl.load(b_ptr + cols, mask=mask)
        x = tl.load(x_ptr + cols, mask=mask, other=0.0).to(tl.float32)
        tl.store(y_ptr + cols, (x - mean) * rstd * w + b, mask=mask)


@triton.jit
def backward_dx(dx_ptr, dy_ptr, dw_ptr, db_ptr, x_ptr, w_ptr, mean_ptr, rstd_ptr, lock_ptr, stride, N,
                GROUP: tl.constexpr, BLOCK: tl.constexpr):
    """dx of a row; the row's part of dw and db goes to one of GROUP buffers, under a lock."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    x_ptr += row * stride
    dy_ptr += row * stride
    dx_ptr += row * stride
    lock_id = row % GROUP
    lock_ptr += lock_id
    count_ptr = lock_ptr + GROUP
    dw_ptr = dw_ptr + lock_id * N + cols
    db_ptr = db_ptr + lock_id * N + cols
    x = tl.load(x_ptr + cols, mask=mask, other=0).to(tl.float32)
    dy = tl.load(dy_ptr + cols, mask=mask, other=0).to(tl.float32)
    w = tl.load(w_ptr + cols, mask=mask).to(tl.float32)
    mean = tl.load(mean_ptr + row)
    rstd = tl.load(rstd_ptr + row)
    xhat = tl.where(mask, (x - mean) * rstd, 0.0)
    wdy = tl.where(mask, w * dy, 0.0)
    c1 = tl.sum(xhat * wdy, axis=0) / N
    c2 = tl.sum(wdy, axis=0) / N
    tl.store(dx_ptr + cols, (wdy - (xhat * c1 + c2)) * rstd, mask=mask)
    partial_dw = (dy * xhat).to(w.dtype)
    partial_db = dy.to(w.dtype)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    count = tl.load(count_ptr)
    if count == 0:
        tl.atomic_xchg(count_ptr, 1)
    else:
        partial_dw += tl.load(dw_ptr, mask=mask)
        partial_db += tl.load(db_ptr, mask=mask)
    tl.store(dw_ptr, partial_dw, mask=mask)
    tl.store(db_ptr, partial_db, mask=mask)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)


@triton.jit
def backward_dwdb(dw_ptr, db_ptr, final_dw_ptr, final_db_ptr, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """The sums of M partial gradients."""
    pid = tl.program_id(0)
    cols = pid * BLOCK_N + tl.arange(0, BLOCK_N)
    dw = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    db = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for i in range(0, M, BLOCK_M):
        rows = i + tl.arange(0, BLOCK_M)
        mask = (rows[:, None] < M) & (cols[None, :] < N)
        offs = rows[:, None] * N + cols[None, :]
        dw += tl.load(dw_ptr + offs, mask=mask, other=0.0)
        db += tl.load(db_ptr + offs, mask=mask, other=0.0)
    sum_dw = tl.sum(dw, axis=0)
    sum_db = tl.sum(db, axis=0)
    tl.store(final_dw_ptr + cols, sum_dw, mask=cols < N)
    tl.store(final_db_ptr + cols, sum_db, mask=cols < N)
