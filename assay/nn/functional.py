"""torch.nn.functional's names and signatures over the operator table: F.conv2d, F.layer_norm, F.softmax, F.embedding.

A name that is not defined here is the operator of that name; F.relu(x, inplace=True) is its in-place form.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from assay.core.errors import Unsupported, UserError
from assay.frontends import dispatch, namespace, random
from assay.frontends.tensor import Tensor

REDUCTIONS = ("none", "mean", "sum")


def __getattr__(name: str) -> Callable[..., Any]:
    if name.startswith("_"):
        raise AttributeError(name)
    operator = namespace.function(name)

    def function(*args: Any, inplace: bool = False, **kwargs: Any) -> Any:
        return dispatch.call(f"{name}_", args, kwargs) if inplace else operator(*args, **kwargs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = operator.__doc__
    globals()[name] = function
    return function


# ------------------------------------------------------------------------------------------------ layers


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """x * Phi(x); approximate="tanh" for the tanh formula."""
    return dispatch.call("gelu", (input,), {"approximate": approximate})


def logsigmoid(input: Tensor) -> Tensor:
    """log(sigmoid(x))"""
    return dispatch.call("log_sigmoid", (input,), {})


def softmin(input: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """softmax(-x)"""
    return (-input).softmax(dim, dtype=dtype)


def embedding(input: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: float | None = None,
              norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False) -> Tensor:  # noqa: FBT001, FBT002  # fmt: skip
    """weight[input[i...], j].  Raises IndexError for an index outside the rows, Unsupported for max_norm."""
    if max_norm is not None:
        raise Unsupported("embedding(max_norm=...) rewrites the weights; normalise them first, as in F.normalize(weight, dim=1)")
    return dispatch.call("embedding", (weight, input, -1 if padding_idx is None else padding_idx), {})


def batch_norm(input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = None,
               bias: Tensor | None = None, training: bool = False, momentum: float = 0.1, eps: float = 1e-5) -> Tensor:  # noqa: FBT001, FBT002  # fmt: skip
    """(x - mean) / sqrt(var + eps) * weight + bias along axis 1; in training the running statistics move by `momentum`."""
    args = (input, weight, bias, running_mean, running_var, training, momentum, eps, False)
    out = dispatch.call("batch_norm", args, {})
    if training and running_mean is not None and running_var is not None:
        dims = [d for d in range(input.ndim) if d != 1]
        running_mean.copy_(running_mean * (1 - momentum) + input.mean(dims) * momentum)
        running_var.copy_(running_var * (1 - momentum) + input.var(dims, True) * momentum)
    return out


def instance_norm(input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None,
                  weight: Tensor | None = None, bias: Tensor | None = None, use_input_stats: bool = True,  # noqa: FBT001, FBT002
                  momentum: float = 0.1, eps: float = 1e-5) -> Tensor:  # fmt: skip
    """Each sample and channel normalised by its own mean and variance."""
    args = (input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, False)
    return dispatch.call("instance_norm", args, {})


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:  # noqa: FBT001, FBT002
    """x * mask / (1 - p), mask drawn from the default generator; x itself when not training."""
    out = random.dropout(input, p, training)
    return input.copy_(out) if inplace else out


def _pool(base: str) -> Callable[..., Tensor]:
    def pool(input: Tensor, kernel_size: Any, stride: Any = None, *args: Any, **kwargs: Any) -> Any:
        if kwargs.pop("return_indices", False):
            return dispatch.call(f"{base}_with_indices", (input, kernel_size, () if stride is None else stride, *args), kwargs)
        return dispatch.call(base, (input, kernel_size, () if stride is None else stride, *args), kwargs)

    pool.__name__ = pool.__qualname__ = base
    pool.__doc__ = "torch.nn.functional's signature; stride=None means kernel_size."
    return pool


max_pool1d, max_pool2d = _pool("max_pool1d"), _pool("max_pool2d")
avg_pool1d, avg_pool2d = _pool("avg_pool1d"), _pool("avg_pool2d")


def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:  # noqa: FBT001, FBT002
    """The maximum of each cell of a grid of this size."""
    values, indices = dispatch.call("adaptive_max_pool2d", (input, output_size), {})
    return (values, indices) if return_indices else values


def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
                                 is_causal: bool = False, scale: float | None = None) -> Tensor:  # noqa: FBT001, FBT002  # fmt: skip
    """softmax(query key^T * scale + mask) value; scale is 1 / sqrt(d) by default; a false mask element is -inf."""
    scores = query @ key.transpose(-2, -1) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        if attn_mask is not None:
            raise UserError("scaled_dot_product_attention: give attn_mask or is_causal=True, not both")
        rows, columns = query.shape[-2], key.shape[-2]
        attn_mask = namespace.function("ones")(rows, columns, dtype="bool").tril()
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, float("-inf")) if attn_mask.dtype.name == "bool" else scores + attn_mask
    weights = scores.softmax(-1)
    return (dropout(weights, dropout_p) if dropout_p else weights) @ value


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """sum(x1 x2) / (max(|x1|, eps) max(|x2|, eps)) along dim."""
    lengths = [(x * x).sum(dim).sqrt().clamp_min(eps) for x in (x1, x2)]
    return (x1 * x2).sum(dim) / (lengths[0] * lengths[1])


# ------------------------------------------------------------------------------------------------ losses


def _reduced(loss: Tensor, reduction: str) -> Tensor:
    if reduction not in REDUCTIONS:
        raise UserError(f"reduction={reduction!r}; allowed: {', '.join(map(repr, REDUCTIONS))}")
    return loss if reduction == "none" else loss.mean() if reduction == "mean" else loss.sum()


def mse_loss(input: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """(x - y)^2"""
    d = input - target
    return _reduced(d * d, reduction)


def l1_loss(input: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """|x - y|"""
    return _reduced((input - target).abs(), reduction)


def huber_loss(input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0) -> Tensor:
    """d^2 / 2 for |d| < delta, else delta (|d| - delta / 2)."""
    d = (input - target).abs()
    return _reduced(dispatch.call("where", (d < delta, d * d * 0.5, (d - 0.5 * delta) * delta), {}), reduction)


def smooth_l1_loss(input: Tensor, target: Tensor, *, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """d^2 / (2 beta) for |d| < beta, else |d| - beta / 2; beta = 0 is l1_loss."""
    d = (input - target).abs()
    return _reduced(d if beta == 0 else dispatch.call("where", (d < beta, d * d * 0.5 / beta, d - 0.5 * beta), {}), reduction)


def nll_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, *, ignore_index: int = -100,
             reduction: str = "mean") -> Tensor:  # fmt: skip
    """-input[n, target[n], ...] weighted by class; the mean divides by the weights that counted."""
    kept = target != ignore_index
    at = dispatch.call("where", (kept, target, 0), {}).unsqueeze(1 if input.ndim > 1 else 0)
    picked = -input.gather(1 if input.ndim > 1 else 0, at).squeeze(1 if input.ndim > 1 else 0)
    scale = (weight.index_select(0, at.reshape(-1)).reshape(target.shape) if weight is not None else 1.0) * kept.to(input.dtype)
    loss = dispatch.call("where", (kept, picked * scale, 0.0), {})
    return loss.sum() / scale.sum() if reduction == "mean" else _reduced(loss, reduction)


def cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, *, ignore_index: int = -100,
                  reduction: str = "mean", label_smoothing: float = 0.0) -> Tensor:  # fmt: skip
    """nll_loss of log_softmax for class indices; -sum(target log_softmax) for class probabilities."""
    if label_smoothing:
        raise Unsupported("cross_entropy(label_smoothing=...): mix the target probabilities yourself and pass them as target")
    logs = input.log_softmax(1 if input.ndim > 1 else 0)
    if not target.dtype.is_float:
        return nll_loss(logs, target, weight, ignore_index=ignore_index, reduction=reduction)
    if weight is not None:
        logs = logs * weight.reshape(_along_classes(weight.shape[0], input.ndim))
    loss = -(logs * target).sum(1 if input.ndim > 1 else 0)
    return loss.sum() / (input.shape[0] if input.ndim > 1 else 1) if reduction == "mean" and input.ndim <= 2 else _reduced(loss, reduction)


def _along_classes(classes: int, rank: int) -> Sequence[int]:
    return (classes,) if rank == 1 else (1, classes, *(1,) * (rank - 2))


def binary_cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, *, reduction: str = "mean") -> Tensor:
    """-(y log x + (1 - y) log(1 - x)), logarithms not below -100 (PyTorch)."""
    loss = -(target * input.log().clamp_min(-100.0) + (1 - target) * (-input).log1p().clamp_min(-100.0))
    return _reduced(loss if weight is None else loss * weight, reduction)


def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Tensor | None = None, *, reduction: str = "mean",
                                     pos_weight: Tensor | None = None) -> Tensor:  # fmt: skip
    """-(w y log sigmoid(x) + (1 - y) log sigmoid(-x))"""
    positive = target * logsigmoid(input)
    loss = -((positive if pos_weight is None else positive * pos_weight) + (1 - target) * logsigmoid(-input))
    return _reduced(loss if weight is None else loss * weight, reduction)


def kl_div(input: Tensor, target: Tensor, *, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """target (log target - input), 0 where target is 0; "batchmean" divides the sum by the first size."""
    loss = target.exp() * (target - input) if log_target else target.xlogy(target) - target * input
    return loss.sum() / input.shape[0] if reduction == "batchmean" else _reduced(loss, reduction)
