"""Reads through indices that are data: an embedding lookup, a paged key-value cache, cross entropy."""

import triton
import triton.language as tl

LAUNCHES = {
    "embedding": {
        "grid": "(cdiv(n, BLOCK_N), cdiv(D, BLOCK_D))",
        "args": [
            "table_ptr=f32[V,D]", "out_ptr=f32[n,D]", "n=1..2**16", "D=1..2**14", "V=1..2**16", "BLOCK_N=32",
            "BLOCK_D=128", "idx_ptr=i64[n] in 0..V-1",
        ],
    },
    "paged_read": {
        "grid": "(S, max_pages)",
        "args": [
            "cache_ptr=f16[P,PAGE,D]", "out_ptr=f16[S,max_pages*PAGE,D]", "max_pages=1..2**10", "S=1..256",
            "P=1..2**16", "D=1..128", "PAGE=16", "BLOCK_D=128", "table_ptr=i32[S,max_pages] in 0..P-1",
            "length_ptr=i32[S] in 0..max_pages*PAGE",
        ],
        "assume": ["S*max_pages <= 2**16"],
    },
    "cross_entropy": {
        "grid": "n",
        "args": [
            "logits_ptr=f32[n,V]", "loss_ptr=f32[n]", "stride=V", "V=1..2**18", "n=1..2**20", "ignore=-100..2**20",
            "BLOCK=4096", "target_ptr=i64[n] in 0..V-1",
        ],
    },
}


@triton.jit
def embedding(idx_ptr, table_ptr, out_ptr, n, D, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    cols = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    idx = tl.load(idx_ptr + rows, mask=rows < n, other=0)
    mask = (rows[:, None] < n) & (cols[None, :] < D)
    x = tl.load(table_ptr + idx[:, None] * D + cols[None, :], mask=mask)
    tl.store(out_ptr + rows[:, None] * D + cols[None, :], x, mask=mask)


@triton.jit
def paged_read(cache_ptr, table_ptr, length_ptr, out_ptr, max_pages, D, PAGE: tl.constexpr, BLOCK_D: tl.constexpr):
    """out[sequence, position, :] = cache[table[sequence, position // PAGE], position % PAGE, :]"""
    sequence = tl.program_id(0)
    page = tl.program_id(1)
    length = tl.load(length_ptr + sequence)
    number = tl.load(table_ptr + sequence * max_pages + page)
    slot = tl.arange(0, PAGE)
    d = tl.arange(0, BLOCK_D)
    position = page * PAGE + slot
    mask = (position[:, None] < length) & (d[None, :] < D)
    x = tl.load(cache_ptr + (number * PAGE + slot[:, None]) * D + d[None, :], mask=mask, other=0.0)
    tl.store(out_ptr + (sequence * max_pages * PAGE + position[:, None]) * D + d[None, :], x, mask=mask)


@triton.jit
def cross_entropy(logits_ptr, target_ptr, loss_ptr, stride, V, ignore, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    logits_ptr += row * stride
    target = tl.load(target_ptr + row)
    if target == ignore:
        tl.store(loss_ptr + row, 0.0)
        return
    m = float("-inf")
    d = 0.0
    for i in range(0, V, BLOCK):
        cols = i + tl.arange(0, BLOCK)
        x = tl.load(logits_ptr + cols, mask=cols < V, other=float("-inf")).to(tl.float32)
        m_new = tl.maximum(m, tl.max(x))
        d = d * tl.exp(m - m_new) + tl.sum(tl.exp(x - m_new))
        m = m_new
    x_target = tl.load(logits_ptr + target).to(tl.float32)
    tl.store(loss_ptr + row, m + tl.log(d) - x_target)
