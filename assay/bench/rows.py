"""The workloads.  Each is one function of a torch-like library (assay or torch) and one of jax.numpy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Function = Callable[..., Any]


@dataclass(frozen=True)
class Row:
    """`torch_like(library, *inputs)` for assay and torch, `jax(jnp, jax, *inputs)`; `inputs(rng)` are numpy arrays.

    `work` says what bounds it: bytes moved once, or floating-point operations.
    """

    name: str
    inputs: Callable[[np.random.Generator], Sequence[np.ndarray]]
    torch_like: Function
    jax: Function
    bytes: int = 0
    flops: int = 0


def normal(*shape: int) -> Callable[[np.random.Generator], np.ndarray]:
    return lambda rng: rng.standard_normal(shape, np.float32)


def some(*makers: Callable[[np.random.Generator], np.ndarray]) -> Callable[[np.random.Generator], list[np.ndarray]]:
    return lambda rng: [make(rng) for make in makers]


def indices(n: int, *shape: int) -> Callable[[np.random.Generator], np.ndarray]:
    return lambda rng: rng.integers(0, n, shape)


def _relu_sum(t: Any, x: Any, y: Any) -> Any:
    return (t.relu(x + y) * 2).sum(-1)


def _jax_relu_sum(jnp: Any, jax: Any, x: Any, y: Any) -> Any:
    return (jax.nn.relu(x + y) * 2).sum(-1)


def _gelu_backward(t: Any, g: Any, h: Any) -> Any:
    if t.__name__ == "torch":
        return t.ops.aten.gelu_backward(g, h)
    return t.ops.gelu_backward.default(g, h)


def _jax_gelu_backward(jnp: Any, jax: Any, g: Any, h: Any) -> Any:
    cdf = 0.5 * (1.0 + jax.lax.erf(h * 0.7071067811865476))
    return g * (cdf + h * jnp.exp(-0.5 * h * h) * 0.3989422804014327)


def _layer_norm(t: Any, x: Any, w: Any, b: Any) -> Any:
    return t.nn.functional.layer_norm(x, (x.shape[-1],), w, b)


def _jax_layer_norm(jnp: Any, jax: Any, x: Any, w: Any, b: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    d = x - mean
    return d * jax.lax.rsqrt((d * d).mean(-1, keepdims=True) + 1e-5) * w + b


def _layer_norm_backward(t: Any, g: Any, x: Any, mean: Any, rstd: Any, w: Any) -> Any:
    if t.__name__ == "torch" and not t.compiler.is_compiling():
        return t.ops.aten.native_layer_norm_backward(g, x, [x.shape[-1]], mean, rstd, w, w, [True, True, True])
    hat = (x - mean) * rstd
    a = g * w
    n = x.shape[-1]
    dx = (a - a.sum(-1, keepdim=True) / n - hat * ((a * hat).sum(-1, keepdim=True) / n)) * rstd
    return dx, (g * hat).sum(0), g.sum(0)


def _jax_layer_norm_backward(jnp: Any, jax: Any, g: Any, x: Any, mean: Any, rstd: Any, w: Any) -> Any:
    hat = (x - mean) * rstd
    a = g * w
    dx = (a - a.mean(-1, keepdims=True) - hat * (a * hat).mean(-1, keepdims=True)) * rstd
    return dx, (g * hat).sum(0), g.sum(0)


def _layer_norm_backward_inputs(rng: np.random.Generator) -> list[np.ndarray]:
    x = rng.standard_normal((8192, 1024), np.float32)
    mean = x.mean(-1, keepdims=True)
    rstd = 1 / np.sqrt(x.var(-1, keepdims=True) + np.float32(1e-5))
    return [rng.standard_normal(x.shape, np.float32), x, mean, rstd, rng.standard_normal(1024, np.float32)]


def _chain(t: Any, x: Any, y: Any) -> Any:
    for _ in range(6):
        x = t.exp(t.tanh(t.relu(x * y + 0.5)) * 0.1) - 1.0
    return x


def _jax_chain(jnp: Any, jax: Any, x: Any, y: Any) -> Any:
    for _ in range(6):
        x = jnp.exp(jnp.tanh(jax.nn.relu(x * y + 0.5)) * 0.1) - 1.0
    return x


MB = 1 << 20
SQUARE = normal(4096, 4096)
ROWS: tuple[Row, ...] = (
    Row("relu(x+y)*2 .sum(-1) 4096x4096", some(SQUARE, SQUARE), _relu_sum, _jax_relu_sum, bytes=128 * MB),
    Row("gelu 4096x4096", some(SQUARE), lambda t, x: t.nn.functional.gelu(x),
        lambda jnp, jax, x: jax.nn.gelu(x, approximate=False), bytes=128 * MB),
    Row("gelu backward 4096x4096", some(SQUARE, SQUARE), _gelu_backward, _jax_gelu_backward, bytes=192 * MB),
    Row("softmax 4096x4096", some(SQUARE), lambda t, x: t.softmax(x, -1),
        lambda jnp, jax, x: jax.nn.softmax(x, -1), bytes=128 * MB),
    Row("softmax 32768x256", some(normal(32768, 256)), lambda t, x: t.softmax(x, -1),
        lambda jnp, jax, x: jax.nn.softmax(x, -1), bytes=64 * MB),
    Row("layer norm 8192x1024", some(normal(8192, 1024), normal(1024), normal(1024)), _layer_norm, _jax_layer_norm,
        bytes=64 * MB),
    Row("layer norm backward 8192x1024", _layer_norm_backward_inputs, _layer_norm_backward, _jax_layer_norm_backward,
        bytes=96 * MB),
    Row("x.t()+y 4096x4096", some(SQUARE, SQUARE), lambda t, x, y: x.t() + y,
        lambda jnp, jax, x, y: x.T + y, bytes=192 * MB),
    Row("(x*x).sum(-1) 64x16384", some(normal(64, 16384)), lambda t, x: (x * x).sum(-1),
        lambda jnp, jax, x: (x * x).sum(-1), bytes=4 * MB),
    Row("sum(0) 16384x1024", some(normal(16384, 1024)), lambda t, x: x.sum(0), lambda jnp, jax, x: x.sum(0), bytes=64 * MB),
    Row("gather 1M rows of 50000x64", some(normal(50000, 64), indices(50000, 1 << 20)), lambda t, x, i: x[i],
        lambda jnp, jax, x, i: x[i], bytes=512 * MB),
    Row("matmul 1024", some(normal(1024, 1024), normal(1024, 1024)), lambda t, a, b: a @ b, lambda jnp, jax, a, b: a @ b,
        flops=2 << 30),
    Row("matmul 2048", some(normal(2048, 2048), normal(2048, 2048)), lambda t, a, b: a @ b, lambda jnp, jax, a, b: a @ b,
        flops=16 << 30),
    Row("matmul+bias+gelu 1024.1024.4096", some(normal(1024, 1024), normal(1024, 4096), normal(4096)),
        lambda t, a, b, c: t.nn.functional.gelu(a @ b + c), lambda jnp, jax, a, b, c: jax.nn.gelu(a @ b + c, approximate=False),
        flops=8 << 30),
    Row("30-op chain 16.8M", some(SQUARE, SQUARE), _chain, _jax_chain, bytes=192 * MB),
    Row("cat of 3, relu*2 16.8M", some(normal(1024, 4096), normal(2048, 4096), normal(1024, 4096)),
        lambda t, a, b, c: t.relu(t.cat((a, b, c))) * 2, lambda jnp, jax, a, b, c: jax.nn.relu(jnp.concatenate((a, b, c))) * 2,
        bytes=128 * MB),
    Row("small relu(x+y)*2 .sum(-1) 64x128", some(normal(64, 128), normal(64, 128)), _relu_sum, _jax_relu_sum),
)  # fmt: skip
