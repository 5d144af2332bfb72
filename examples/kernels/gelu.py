"""The backward of gelu below a sum, listing 5.4: upstream * (Phi(h) + h*phi(h)), the upstream one scalar."""

import triton
import triton.language as tl

LAUNCHES = {
    "gelu_backward": {
        "grid": "cdiv(n, XBLOCK)",
        "args": ["upstream_ptr=f32[1]", "h_ptr=f32[n]", "out_ptr=f32[n]", "n=1..2**31-1024", "XBLOCK=1024"],
    },
}


@triton.jit
def gelu_backward(upstream_ptr, h_ptr, out_ptr, n, XBLOCK: tl.constexpr):
    x0 = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    xmask = x0 < n
    upstream = tl.broadcast_to(tl.load(upstream_ptr + 0), [XBLOCK])
    h = tl.load(h_ptr + x0, mask=xmask)
    cdf = 0.5 * (1.0 + tl.erf(h * 0.7071067811865476))
    pdf = 0.3989422804014327 * tl.exp(-0.5 * (h * h))
    tl.store(out_ptr + x0, upstream * (cdf + h * pdf), mask=xmask)
