"""Three kernels with a fault each, all of which pass a test at the sizes that tests use."""

import triton
import triton.language as tl

LAUNCHES = {
    "add": {
        "grid": "cdiv(n, BLOCK)",
        "args": ["x_ptr=f32[n]", "y_ptr=f32[n]", "out_ptr=f32[n]", "n=1..2**30", "BLOCK=1024"],
    },
    "copy_rows": {
        "grid": "(rows, cdiv(columns, BLOCK))",
        "args": ["x_ptr=f32[rows,columns]", "out_ptr=f32[rows,columns]", "rows=1..2**17", "columns=1..2**15", "BLOCK=1024"],
    },
    "pair_sums": {
        "grid": "2 * pairs",
        "args": ["x_ptr=f32[2*pairs,BLOCK]", "out_ptr=f32[pairs]", "pairs=1..2**20", "BLOCK=64"],
    },
}


@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)  # no mask: reads behind x, unless BLOCK divides n
    y = tl.load(y_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, x + y, mask=offsets < n)


@triton.jit
def copy_rows(x_ptr, out_ptr, rows, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    offsets = row * columns + cols  # int32: wraps where rows * columns > 2**31
    x = tl.load(x_ptr + offsets, mask=cols < columns)
    tl.store(out_ptr + offsets, x, mask=cols < columns)


@triton.jit
def pair_sums(x_ptr, out_ptr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.sum(tl.load(x_ptr + row * BLOCK + tl.arange(0, BLOCK)), axis=0)
    before = tl.load(out_ptr + row // 2)
    tl.store(out_ptr + row // 2, before + total)  # two programs add to one element, without an atomic
