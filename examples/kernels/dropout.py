"""Dropout that stores no mask: the random numbers are made again from the seed."""

import triton
import triton.language as tl

LAUNCHES = {
    "dropout": {
        "grid": "cdiv(n, BLOCK)",
        "args": [
            "x_ptr=f32[n]", "out_ptr=f32[n]", "n=1..2**31-1", "p=f32", "seed=0..2**31-1", "BLOCK=1024",
        ],
    },
}


@triton.jit
def dropout(x_ptr, out_ptr, n, p, seed, BLOCK: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    random = tl.rand(seed, offsets)
    keep = random > p
    tl.store(out_ptr + offsets, tl.where(keep, x / (1 - p), 0.0), mask=mask)
