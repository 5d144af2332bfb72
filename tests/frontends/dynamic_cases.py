"""Functions that are captured for all sizes: the operator families, as models use them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import assay
import assay.nn.functional as F

f32, i64 = np.float32, np.int64


class DynamicCase(NamedTuple):
    """`arguments` are (shape, type) of each argument; an index argument holds values of 0 and 1."""

    name: str
    f: Callable[..., Any]
    arguments: tuple[tuple[tuple[int, ...], Any], ...]


def _layer_norm(x: Any, w: Any, b: Any) -> Any:
    return F.layer_norm(x, (x.shape[-1],), w, b)


def _heads(x: Any) -> Any:
    return x.view(x.shape[0], x.shape[1], 4, x.shape[2] // 4).transpose(1, 2).contiguous()


def _halves(x: Any) -> Any:
    return x.view(x.shape[0] // 2, 2, x.shape[1]).transpose(0, 1).reshape(-1)


def _in_place(x: Any) -> Any:
    y = x.clone()
    y[:, 1:] += 2
    return y


def case(name: str, f: Callable[..., Any], *shapes: Any) -> DynamicCase:
    return DynamicCase(name, f, tuple((s, f32) if isinstance(s, tuple) and not isinstance(s[-1], type) else s for s in shapes))


CASES = [
    case("pointwise and row sum", lambda x, y: ((x + y).relu() * 2).sum(-1), (6, 10), (6, 10)),
    case("sum of all", lambda x: x.sum(), (6, 10)),
    case("mean", lambda x: x.mean(1), (6, 10)),
    case("mean of columns", lambda x: x.mean(0), (6, 10)),
    case("maximum with its index", lambda x: x.max(1), (6, 10)),
    case("argmax", lambda x: x.argmax(1), (6, 10)),
    case("variance", lambda x: x.var(1), (6, 10)),
    case("log-sum-exp", lambda x: x.logsumexp(1), (6, 10)),
    case("softmax", lambda x: x.softmax(-1), (6, 10)),
    case("log_softmax of columns", lambda x: x.log_softmax(0), (6, 10)),
    case("layer norm", _layer_norm, (6, 10), (10,), (10,)),
    case("cumsum", lambda x: x.cumsum(1), (6, 10)),
    case("cummax with its index", lambda x: x.cummax(1), (6, 10)),
    case("view with the sizes in reverse", lambda x: x.view(*x.shape[::-1]).tanh(), (6, 8, 8)),
    case("pools, rolled", lambda x: F.max_pool1d(x, 2).roll(1, -1) * 2, (6, 10)),
    case("broadcast", lambda x, y: x * y.unsqueeze(1) + 1, (6, 10), (6,)),
    case("bias", lambda x, b: (x + b).tanh(), (6, 10), (10,)),
    case("where", lambda x, y: assay.where(x > y, x, y), (6, 10), (6, 10)),
    case("size as a number", lambda x: x.sum(0) / x.shape[0] + x.shape[1], (6, 10)),
    case("arange", lambda x: x + assay.arange(x.shape[1]), (6, 10)),
    case("ones of a size", lambda x: x + assay.ones(x.shape[1]), (6, 10)),
    case("matmul", lambda a, b: a @ b, (6, 10), (10, 4)),
    case("batched matmul", lambda a, b: a @ b, (3, 6, 10), (3, 10, 4)),
    case("linear and gelu", lambda x, w, b: F.linear(x, w, b).gelu(), (6, 10), (8, 10), (8,)),
    case("transpose", lambda x: x.t() + 1, (6, 10)),
    case("halves, transposed and flat", _halves, (6, 10)),
    case("reshape to the transposed shape", lambda x: x.reshape(x.shape[1], x.shape[0]) * 2, (6, 10)),
    case("flat", lambda x: x.reshape(-1) * 2, (6, 10)),
    case("heads", _heads, (2, 6, 12)),
    case("slice with a step", lambda x: x[1:, ::2] + 0, (6, 10)),
    case("last row", lambda x: x[-1] + 0, (6, 10)),
    case("columns before the last", lambda x: x[:, -3:-1] + 1, (6, 10)),
    case("sums of the last columns, and of one", lambda x: x[:, -3:].cumsum(1) + x[:, -2:-1].sum(1, keepdim=True), (6, 10)),
    case("chunks", lambda x: x.chunk(2, 1)[1] * 3, (6, 10)),
    case("join", lambda x, y: assay.cat([x, y], 0), (6, 10), (4, 10)),
    case("join of columns", lambda x, y: assay.cat([x, y * 2, x], 1), (6, 10), (6, 4)),
    case("stack", lambda x, y: assay.stack([x, y]), (6, 10), (6, 10)),
    case("roll", lambda x: assay.roll(x, 3, 1), (6, 10)),
    case("flip", lambda x: x.flip(1), (6, 10)),
    case("pad", lambda x: F.pad(x, (1, 2)), (6, 10)),
    case("repeat", lambda x: x.repeat(2, 3), (6, 10)),
    case("lower triangle", lambda x: x.tril(), (6, 10)),
    case("embedding", lambda w, i: F.embedding(i, w), (6, 10), ((3, 4), i64)),
    case("gather", lambda x, i: x.gather(1, i), (6, 10), ((6, 4), i64)),
    case("rows by index", lambda x, i: x[i] + 1, (6, 10), ((4,), i64)),
    case("index_select", lambda x, i: x.index_select(1, i), (6, 10), ((4,), i64)),
    case("attention", lambda q, k, v: F.scaled_dot_product_attention(q, k, v), (2, 6, 8), (2, 10, 8), (2, 10, 8)),
    case("convolution", lambda x, w: F.conv2d(x, w, padding=1), (2, 5, 8, 9), (4, 5, 3, 3)),
    case("max pooling", lambda x: F.max_pool2d(x, 2), (2, 5, 8, 6)),
    case("in place", _in_place, (6, 10)),
    case("two results", lambda x, y: (x + y, x.sum(0)), (6, 10), (6, 10)),
]  # fmt: skip


def tensors(c: DynamicCase, shapes: list[tuple[int, ...]], seed: int = 0) -> list[Any]:
    """Arguments of these shapes."""
    rng = np.random.default_rng(seed)
    return [assay.tensor(rng.integers(0, 2, s) if d is i64 else rng.standard_normal(s).astype(d))
            for s, (_, d) in zip(shapes, c.arguments, strict=True)]  # fmt: skip
