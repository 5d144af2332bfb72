"""C = A @ B, blocks in groups of rows so that they share what is in the L2 cache."""

import triton
import triton.language as tl

LAUNCHES = {
    "matmul": {
        "grid": "cdiv(M, BLOCK_M) * cdiv(N, BLOCK_N)",
        "args": [
            "a_ptr=f16[M,K]", "b_ptr=f16[K,N]", "c_ptr=f16[M,N]", "stride_am=K", "stride_ak=1", "stride_bk=N",
            "stride_bn=1", "stride_cm=N", "stride_cn=1", "M=1..2**15", "N=1..2**15", "K=1..2**15", "BLOCK_M=128",
            "BLOCK_N=256", "BLOCK_K=64", "GROUP_M=8",
        ],
    },
    "matmul_blocks": {
        "grid": "(cdiv(M, BLOCK_M), cdiv(N, BLOCK_N))",
        "args": [
            "a_ptr=f16[M,K]", "b_ptr=f16[K,N]", "c_ptr=f16[M,N]", "stride_am=K", "stride_ak=1", "stride_bk=N",
            "stride_bn=1", "stride_cm=N", "stride_cn=1", "M=1..2**20", "N=1..2**20", "K=1..2**20", "BLOCK_M=128",
            "BLOCK_N=256", "BLOCK_K=64",
        ],
    },
    "matmul_descriptors": {
        "grid": "(cdiv(M, BLOCK_M), cdiv(N, BLOCK_N))",
        "args": [
            "a_ptr=f16[M,K]", "b_ptr=f16[K,N]", "c_ptr=f16[M,N]", "M=1..2**20", "N=1..2**20", "K=1..2**20",
            "BLOCK_M=128", "BLOCK_N=256", "BLOCK_K=64",
        ],
        "assume": ["N % 8 == 0", "K % 8 == 0"],
    },
}


@triton.jit
def leaky_relu(x):
    return tl.where(x >= 0, x, 0.01 * x)


@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
           BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
           ACTIVATION: tl.constexpr = ""):
    pid = tl.program_id(axis=0)
    blocks_m = tl.cdiv(M, BLOCK_M)
    blocks_n = tl.cdiv(N, BLOCK_N)
    in_group = GROUP_M * blocks_n
    group = pid // in_group
    first_m = group * GROUP_M
    rows = min(blocks_m - first_m, GROUP_M)
    pid_m = first_m + ((pid % in_group) % rows)
    pid_n = (pid % in_group) // rows

    offs_am = (pid_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    offs_bn = (pid_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + (offs_am[:, None] * stride_am + offs_k[None, :] * stride_ak)
    b_ptrs = b_ptr + (offs_k[:, None] * stride_bk + offs_bn[None, :] * stride_bn)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BLOCK_K, other=0.0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BLOCK_K, other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    if ACTIVATION == "leaky_relu":
        acc = leaky_relu(acc)
    c = acc.to(tl.float16)
    offs_cm = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_cn = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    c_ptrs = c_ptr + stride_cm * offs_cm[:, None] + stride_cn * offs_cn[None, :]
    c_mask = (offs_cm[:, None] < M) & (offs_cn[None, :] < N)
    tl.store(c_ptrs, c, mask=c_mask)


@triton.jit
def matmul_blocks(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
                  BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """The same through block pointers."""
    pid_m = tl.program_id(0)
    pid_n = tl.program_id(1)
    a_block = tl.make_block_ptr(a_ptr, (M, K), (stride_am, stride_ak), (pid_m * BLOCK_M, 0), (BLOCK_M, BLOCK_K), (1, 0))
    b_block = tl.make_block_ptr(b_ptr, (K, N), (stride_bk, stride_bn), (0, pid_n * BLOCK_N), (BLOCK_K, BLOCK_N), (1, 0))
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        a = tl.load(a_block, boundary_check=(0, 1), padding_option="zero")
        b = tl.load(b_block, boundary_check=(0, 1), padding_option="zero")
        acc += tl.dot(a, b)
        a_block = tl.advance(a_block, (0, BLOCK_K))
        b_block = tl.advance(b_block, (BLOCK_K, 0))
    c_block = tl.make_block_ptr(c_ptr, (M, N), (stride_cm, stride_cn), (pid_m * BLOCK_M, pid_n * BLOCK_N),
                                (BLOCK_M, BLOCK_N), (1, 0))
    tl.store(c_block, acc.to(tl.float16), boundary_check=(0, 1))


@triton.jit
def matmul_descriptors(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """The same through tensor descriptors, which check every bound."""
    m = tl.program_id(0) * BLOCK_M
    n = tl.program_id(1) * BLOCK_N
    a = tl.make_tensor_descriptor(a_ptr, shape=[M, K], strides=[K, 1], block_shape=[BLOCK_M, BLOCK_K])
    b = tl.make_tensor_descriptor(b_ptr, shape=[K, N], strides=[N, 1], block_shape=[BLOCK_K, BLOCK_N])
    c = tl.make_tensor_descriptor(c_ptr, shape=[M, N], strides=[N, 1], block_shape=[BLOCK_M, BLOCK_N])
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        acc = tl.dot(a.load([m, k]), b.load([k, n]), acc)
    c.store([m, n], acc.to(tl.float16))
