"""torch.nn.functional's names and signatures over the operator table: F.conv2d, F.layer_norm, F.softmax, F.embedding.

A name that is not defined here is the operator of that name; F.relu(x, inplace=True) is its in-place form.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from assay.core.errors import Unsupported, UserError
from assay.frontends import dispatch, namespace, random, source
from assay.frontends.tensor import Tensor

REDUCTIONS = ("none", "mean", "sum")


def __getattr__(name: str) -> Callable[..., Any]:
    if name.startswith("_"):
        raise AttributeError(name)
    here = {known for known, f in globals().items() if getattr(f, "__module__", "") == __name__}
    operator = namespace.function(name, module="assay.nn.functional", besides=here)

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
        raise source.located(
            Unsupported("embedding(max_norm=...) rewrites the weights; normalise them first, as in F.normalize(weight, dim=1)")
        )
    return dispatch.call("embedding", (weight, input, -1 if padding_idx is None else padding_idx), {})


def batch_norm(input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = None,
               bias: Tensor | None = None, training: bool = False, momentum: float = 0.1, eps: float = 1e-5) -> Tensor:  # noqa: FBT001, FBT002  # fmt: skip
    """(x - mean) / sqrt(var + eps) * weight + bias along axis 1; in training the running statistics move, without a history."""
    if not training or running_mean is None or running_var is None:
        return dispatch.call("batch_norm", (input, weight, bias, running_mean, running_var, training, momentum, eps, False), {})
    args = (input, weight, bias, running_mean, running_var, True, momentum, eps)
    out, _, _, mean, var = dispatch.call("_native_batch_norm_legit_functional", args, {})
    running_mean.copy_(mean.detach())
    running_var.copy_(var.detach())
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


def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,  # noqa: FBT001, FBT002
) -> Tensor:  # fmt: skip
    """softmax(query key^T * scale + mask) value; scale is 1 / sqrt(d) by default; a false mask element is -inf."""
    if dropout_p:
        raise source.located(
            Unsupported("scaled_dot_product_attention(dropout_p=...): write softmax(q @ k.mT * scale) and F.dropout of it")
        )
    options = {"scale": scale, "enable_gqa": enable_gqa}
    return dispatch.call("scaled_dot_product_attention", (query, key, value, attn_mask, 0.0, is_causal), options)


def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """x / (k + alpha * mean)^beta with the mean of x^2 over `size` channels around (axis 1); those outside count as 0."""
    if input.ndim < 3:
        raise source.located(
            UserError(f"local_response_norm of shape {list(input.shape)}; needs [n, c, ...] with at least 3 axes")
        )
    squares = (input * input).flatten(2).unsqueeze(1)  # [n, 1, c, everything else]
    padded = dispatch.call("pad", (squares, [0, 0, size // 2, (size - 1) // 2]), {})
    means = dispatch.call("avg_pool2d", (padded, [size, 1], 1), {}).squeeze(1).reshape(input.shape)
    return input / (means * alpha + k) ** beta


def interpolate(input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
                align_corners: bool | None = None) -> Tensor:  # noqa: FBT001  # fmt: skip
    """`input` resampled to `size` or by `scale_factor` along the last two axes; mode "nearest", "bilinear" or "bicubic"."""
    if mode not in ("nearest", "bilinear", "bicubic") or input.ndim != 4:
        allowed = "'nearest', 'bilinear', 'bicubic' of rank 4"
        raise source.located(Unsupported(f"interpolate(mode={mode!r}) of a tensor of rank {input.ndim}; there: {allowed}"))
    sizes = (size,) * 2 if isinstance(size, int) else size
    factors = (float(scale_factor),) * 2 if isinstance(scale_factor, int | float) else scale_factor
    corners = () if mode == "nearest" else (bool(align_corners),)
    return dispatch.call(f"upsample_{mode}2d.vec", (input, sizes, *corners, factors), {})


# ------------------------------------------------------------------------------------------------ losses


def _code(reduction: str) -> int:
    if reduction not in REDUCTIONS:
        raise source.located(UserError(f"reduction={reduction!r}; allowed: {', '.join(map(repr, REDUCTIONS))}"))
    return REDUCTIONS.index(reduction)


def _loss(name: str, base: str) -> Callable[..., Tensor]:
    def loss(input: Tensor, target: Tensor, *args: Any, reduction: str = "mean", **kwargs: Any) -> Tensor:
        return dispatch.call(base, (input, target, *args), {**kwargs, "reduction": _code(reduction)})

    loss.__name__ = loss.__qualname__ = name
    loss.__doc__ = "torch.nn.functional's signature; reduction is a keyword: 'mean', 'sum' or 'none'."
    return loss


mse_loss, l1_loss = _loss("mse_loss", "mse_loss"), _loss("l1_loss", "l1_loss")
smooth_l1_loss, huber_loss = _loss("smooth_l1_loss", "smooth_l1_loss"), _loss("huber_loss", "huber_loss")
binary_cross_entropy = _loss("binary_cross_entropy", "binary_cross_entropy")
binary_cross_entropy_with_logits = _loss("binary_cross_entropy_with_logits", "binary_cross_entropy_with_logits")
nll_loss, cross_entropy = _loss("nll_loss", "nll_loss_nd"), _loss("cross_entropy", "cross_entropy_loss")


def kl_div(input: Tensor, target: Tensor, *, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """target (log target - input); reduction "batchmean" divides the sum by the first size."""
    if reduction == "batchmean":
        return kl_div(input, target, reduction="sum", log_target=log_target) / input.shape[0]
    return dispatch.call("kl_div", (input, target, _code(reduction)), {"log_target": log_target})
