"""x + y, element by element: each program adds one block."""

import triton
import triton.language as tl

LAUNCHES = {
    "add": {
        "grid": "cdiv(n, BLOCK)",
        "args": [
            "x_ptr=f32[n]", "y_ptr=f32[n]", "out_ptr=f32[n]", "n=1..2**31-1", "BLOCK=1024",
        ],
    },
}


@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    start = tl.program_id(0) * BLOCK
    offsets = start + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)
