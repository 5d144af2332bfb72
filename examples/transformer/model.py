"""A pre-norm transformer block: embedding lookup, causal attention with four heads, a GELU perceptron.

The weights are random and always the same. The tokens are bytes of a text, so the embedding lookup reads its index
from data: Assay keeps a check there, and proves every other access.
"""

from typing import Any

import numpy as np

VOCABULARY, LENGTH, WIDTH, HEADS, HIDDEN = 256, 32, 64, 4, 256

SHAPES = {
    "embedding": (VOCABULARY, WIDTH),
    "position": (LENGTH, WIDTH),
    "norm1_w": (WIDTH,),
    "norm1_b": (WIDTH,),
    "qkv_w": (3 * WIDTH, WIDTH),
    "qkv_b": (3 * WIDTH,),
    "mix_w": (WIDTH, WIDTH),
    "mix_b": (WIDTH,),
    "norm2_w": (WIDTH,),
    "norm2_b": (WIDTH,),
    "up_w": (HIDDEN, WIDTH),
    "up_b": (HIDDEN,),
    "down_w": (WIDTH, HIDDEN),
    "down_b": (WIDTH,),
}  # in the order of the parameters of `transformer`

TEXT = "Assay, v.: to test a metal against a standard; also, to try one's own work before others rely on it. "


def causal_attention(torch_like: Any, q: Any, k: Any, v: Any) -> Any:
    """softmax(q k^T / sqrt(d), masked above the diagonal) v; q, k, v f32[n, heads, t, d]."""
    at = torch_like.arange(q.shape[-2])
    future = at.unsqueeze(0) > at.unsqueeze(1)
    scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
    return torch_like.nn.functional.softmax(scores.masked_fill(future, float("-inf")), dim=-1) @ v


def transformer(
    torch_like: Any, tokens: Any, embedding: Any, position: Any, norm1_w: Any, norm1_b: Any, qkv_w: Any, qkv_b: Any,
    mix_w: Any, mix_b: Any, norm2_w: Any, norm2_b: Any, up_w: Any, up_b: Any, down_w: Any, down_b: Any,
) -> Any:  # fmt: skip
    """tokens i64[n,t], t <= LENGTH -> f32[n,t,WIDTH]; torch_like is the module assay or torch."""
    F = torch_like.nn.functional
    n, t = tokens.shape
    x = F.embedding(tokens, embedding) + position[:t]
    q, k, v = F.linear(F.layer_norm(x, (WIDTH,), norm1_w, norm1_b), qkv_w, qkv_b).chunk(3, dim=-1)
    q, k, v = (part.reshape(n, t, HEADS, WIDTH // HEADS).transpose(1, 2) for part in (q, k, v))
    mixed = causal_attention(torch_like, q, k, v).transpose(1, 2).reshape(n, t, WIDTH)
    x = x + F.linear(mixed, mix_w, mix_b)
    up = F.gelu(F.linear(F.layer_norm(x, (WIDTH,), norm2_w, norm2_b), up_w, up_b))
    return x + F.linear(up, down_w, down_b)


def block(tokens: Any, *weights: Any) -> Any:
    """The transformer in Assay; weights in the order of SHAPES."""
    import assay.nn.functional  # also makes assay.nn an attribute

    return transformer(assay, tokens, *weights)


def weights() -> list[np.ndarray]:
    """f32 weights from Philox with seed 0: matrices N(0, 1 / fan_in), biases N(0, 1/64), norms around 1."""
    random = np.random.Generator(np.random.Philox(0))
    made: list[np.ndarray] = []
    for name, shape in SHAPES.items():
        value = random.standard_normal(shape)
        if name.endswith("_b"):
            value = value / 8
        elif name.startswith("norm"):
            value = 1 + value / 8
        elif name != "embedding":
            value = value / shape[-1] ** 0.5
        made.append(value.astype(np.float32))
    return made


def tokens(n: int = 2) -> np.ndarray:
    """i64[n, LENGTH]: the bytes of TEXT, each row starting further on."""
    data = TEXT.encode("ascii")
    return np.array([[data[(11 * row + i) % len(data)] for i in range(LENGTH)] for row in range(n)], dtype=np.int64)


# for the `assay` command: check FILE:FUNCTION
ARGUMENTS = {block: ("i64[2,32]=0..255", *(f"f32[{','.join(map(str, shape))}]" for shape in SHAPES.values()))}
