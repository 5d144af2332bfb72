"""Flash attention, forward: a block of queries runs over the keys with an online softmax."""

import triton
import triton.language as tl

LAUNCHES = {
    "attention": {
        "grid": "(cdiv(n_ctx, BLOCK_M), Z*n_heads)",
        "args": [
            "q_ptr=f16[Z,n_heads,n_ctx,D]", "k_ptr=f16[Z,n_heads,n_ctx,D]", "v_ptr=f16[Z,n_heads,n_ctx,D]",
            "out_ptr=f16[Z,n_heads,n_ctx,D]", "lse_ptr=f32[Z,n_heads,n_ctx]", "scale=f32", "stride_h=n_ctx*D",
            "stride_n=D", "n_heads=1..64", "Z=1..64", "n_ctx=1..2**16", "D=64", "BLOCK_M=128", "BLOCK_N=64",
            "CAUSAL=True", "stride_z=i64 n_heads*stride_h",
        ],
    },
}


@triton.jit
def attend(acc, l_i, m_i, q, k_ptrs, v_ptrs, stride_kn, stride_vn, start_m, offs_m, offs_n, scale, n_ctx,
           BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr):
    hi = n_ctx
    if CAUSAL:
        hi = tl.minimum((start_m + 1) * BLOCK_M, n_ctx)
    for start_n in range(0, hi, BLOCK_N):
        start_n = tl.multiple_of(start_n, BLOCK_N)
        inside = start_n + offs_n < n_ctx
        k = tl.load(k_ptrs + start_n * stride_kn, mask=inside[None, :], other=0.0)
        qk = tl.dot(q, k) * scale
        qk = tl.where(inside[None, :], qk, -1.0e6)
        if CAUSAL:
            qk = tl.where(offs_m[:, None] >= start_n + offs_n[None, :], qk, -1.0e6)
        m_new = tl.maximum(m_i, tl.max(qk, 1))
        p = tl.math.exp2(qk - m_new[:, None])
        alpha = tl.math.exp2(m_i - m_new)
        l_i = l_i * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        v = tl.load(v_ptrs + start_n * stride_vn, mask=inside[:, None], other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc)
        m_i = m_new
    return acc, l_i, m_i


@triton.jit
def attention(q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, scale, stride_z, stride_h, stride_n, n_heads, n_ctx,
              D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr):
    start_m = tl.program_id(0)
    off_zh = tl.program_id(1)
    off_z = off_zh // n_heads
    off_h = off_zh % n_heads
    base = off_z.to(tl.int64) * stride_z + off_h.to(tl.int64) * stride_h
    offs_m = start_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, D)
    q_ptrs = q_ptr + base + offs_m[:, None] * stride_n + offs_d[None, :]
    k_ptrs = k_ptr + base + offs_n[None, :] * stride_n + offs_d[:, None]
    v_ptrs = v_ptr + base + offs_n[:, None] * stride_n + offs_d[None, :]
    m_i = tl.zeros([BLOCK_M], dtype=tl.float32) - float("inf")
    l_i = tl.zeros([BLOCK_M], dtype=tl.float32) + 1.0
    acc = tl.zeros([BLOCK_M, D], dtype=tl.float32)
    q = tl.load(q_ptrs, mask=offs_m[:, None] < n_ctx, other=0.0)
    acc, l_i, m_i = attend(acc, l_i, m_i, q, k_ptrs, v_ptrs, stride_n, stride_n, start_m, offs_m, offs_n,
                           scale * 1.44269504, n_ctx, BLOCK_M, BLOCK_N, CAUSAL)
    m_i += tl.math.log2(l_i)
    tl.store(lse_ptr + off_zh * n_ctx + offs_m, m_i, mask=offs_m < n_ctx)
    out_ptrs = out_ptr + base + offs_m[:, None] * stride_n + offs_d[None, :]
    tl.store(out_ptrs, (acc / l_i[:, None]).to(tl.float16), mask=offs_m[:, None] < n_ctx)
