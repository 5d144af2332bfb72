"""Softmax of each row; a program takes rows, `num_programs` apart."""

import triton
import triton.language as tl

LAUNCHES = {
    "softmax": {
        "grid": "P",
        "args": [
            "x_stride=1..2**15", "out_stride=1..2**15", "n_rows=1..60000", "n_cols=1..1024", "BLOCK=1024",
            "P=1..1024", "x_ptr=f32[n_rows,n_cols; x_stride,1]", "out_ptr=f32[n_rows,n_cols; out_stride,1]",
        ],
        "assume": ["x_stride >= n_cols", "out_stride >= n_cols"],
    },
}


@triton.jit
def softmax(out_ptr, x_ptr, x_stride, out_stride, n_rows, n_cols, BLOCK: tl.constexpr):
    first = tl.program_id(0)
    step = tl.num_programs(0)
    for row in tl.range(first, n_rows, step):
        columns = tl.arange(0, BLOCK)
        mask = columns < n_cols
        x = tl.load(x_ptr + row * x_stride + columns, mask=mask, other=-float("inf"))
        x = tl.exp(x - tl.max(x, axis=0))
        y = x / tl.sum(x, axis=0)
        tl.store(out_ptr + row * out_stride + columns, y, mask=mask)
