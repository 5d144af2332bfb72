"""The worked examples of the compiler that Assay was designed after, one function each.

    assay show examples/document.py:example_1_1 --arg 'f32[64,128]' --arg 'f32[64,128]'
"""

from typing import Any

import assay
import assay.nn.functional as F


def example_1_1(x: Any, y: Any) -> Any:
    """x, y f32[64,128]: three pointwise operators and a row sum, one kernel."""
    return (F.relu(x + y) * 2).sum(-1)


def example_5_1(x: Any, w: Any) -> Any:
    """x f32[32,64], w f32[64,64]: the forward part of the example for autodiff."""
    return F.gelu(x @ w).sum()


def example_6_1(x: Any, y: Any) -> Any:
    """x f32[512,256], y f32[256,512]: the transpose is only an index."""
    return x.t() + y


def example_6_2(x: Any) -> Any:
    """x f32[64,16384]: few outputs, long sums."""
    return (x * x).sum(-1)


def g1(x: Any, idx: Any) -> Any:
    """Example 6.3, x f32[128], idx i64[128]: an index read from data keeps its wrap and its check."""
    return x[idx] * 2


def g2(x: Any) -> Any:
    """Example 6.3, x f32[128]: an index that is computed needs neither buffer nor check."""
    idx = (assay.arange(128) * 3) % 128
    return x[idx] * 2


ARGUMENTS = {
    example_1_1: ("f32[64,128]", "f32[64,128]"),
    example_5_1: ("f32[32,64]", "f32[64,64]"),
    example_6_1: ("f32[512,256]", "f32[256,512]"),
    example_6_2: ("f32[64,16384]",),
    g1: ("f32[128]", "i64[128]"),
    g2: ("f32[128]",),
}
