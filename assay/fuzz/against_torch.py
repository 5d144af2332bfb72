"""Every overload against PyTorch's ATen operator of the same name: where do the results differ by more than is stated?

ULPS states by how many units in the last place of the largest element of a result an overload may differ; an overload
that it does not name has the same bits.  Stated is twice what was measured with torch 2.13.0 on a machine with AVX2,
rounded up to a power of two, since PyTorch's own bits depend on the machine.  Where the two differ on purpose, or
PyTorch's result is not defined, NOT_COMPARED and SPECIAL say why.  Needs the extra `torch`.
"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np

from assay.core.dtypes import DType
from assay.core.operators import OPERATORS, Operator
from assay.core.operators.samples import Like, draw
from assay.semantics.denote import run

ULPS: dict[str, int] = {
    name: ulps
    for ulps, names in {
        1: """celu elu exp.default leaky_relu linspace log10 selu sinc""",
        2: """_adaptive_avg_pool2d _log_softmax acos acosh adaptive_avg_pool1d addcmul addr arange.start_step asin asinh atan
            atan2 atanh bmm conv1d.padding conv_transpose1d cos cosh cumprod cumsum div.Tensor erf erfc exp2 index_add index_put
            lerp.Tensor linalg_vector_norm log.default log1p log2 log_sigmoid log_softmax logaddexp logcumsumexp logit logsumexp
            mish mul.Tensor mv nll_loss2d norm poisson_nll_loss pow prod rsqrt rsub.Scalar sigmoid silu sin sinh softplus sqrt
            ldexp std std_mean tan tanh trace xlogy""",
        4: """_fused_rms_norm _softmax addmm addmv baddbmm conv1d.default conv2d conv3d.padding conv_transpose2d
            conv_transpose3d convolution cosine_similarity einsum glu hinge_embedding_loss huber_loss
            kl_div l1_loss mean.dim mm native_group_norm smooth_l1_loss soft_margin_loss softmax var var_mean""",
        8: """_native_batch_norm_legit_functional _native_batch_norm_legit_no_training adaptive_avg_pool2d batch_norm
            binary_cross_entropy binary_cross_entropy_with_logits conv3d.default group_norm instance_norm layer_norm mse_loss
            native_layer_norm rms_norm upsample_bilinear2d.default""",
        16: """grid_sampler_2d inner linear nansum nll_loss.default sum.dim_IntList tensordot upsample_bilinear2d.vec""",
        32: """cross_entropy_loss scaled_dot_product_attention sum.default upsample_bicubic2d""",  # positions are rounded there
        128: """dot mean.default nanmean nll_loss_nd""",  # one number, the sum of terms that cancel
        256: """matmul""",
        4096: """gelu_backward""",  # 1 + tanh and 1 + erf cancel for negative arguments, there and here
        131072: """gelu""",  # its erf cancels for negative arguments there
    }.items()
    for name in names.split()
}

NOT_COMPARED = {
    "empty": "the contents are not defined there",
    "empty_like": "the contents are not defined there",
    "new_empty": "the contents are not defined there",
    "assume": "there is none there",
    "overwritten": "there is none there",
    "normalize": "a Python function there",
    "softsign": "a Python function there",
    "tanhshrink": "a Python function there",
    "searchsorted": "the samples are not sorted, and then its result is not defined there",
    "bucketize": "the samples are not sorted, and then its result is not defined there",
    "argsort.default": "not stable there",
    "kthvalue": "which of equal elements is taken is not defined there",
    "topk": "which of equal elements are taken is not defined there",
    "_to_copy": "float to u8 outside 0..255 is not defined there",
    "to.dtype": "float to u8 outside 0..255 is not defined there",
    "nll_loss_forward": "the total weight of unreduced losses differs with the rank there",
}

SPECIAL = {
    **dict.fromkeys(("clamp", "clamp_min", "clamp_max", "hardtanh", "relu", "relu6", "minimum", "maximum", "amax", "amin", "max",
                     "min"), "-0 < +0 in maxima here, either one there"),
    **dict.fromkeys(("gelu", "gelu_backward", "silu", "mish", "hardswish"), "the limits at -inf here, NaN there"),
    **dict.fromkeys(("remainder", "softshrink", "log_sigmoid", "pow.Tensor_Scalar", "fmod"), "the sign of a zero"),
    **dict.fromkeys(("copy", "type_as"), "float to integer saturates here, is not defined there"),
    **dict.fromkeys(("sort", "median"), "the place of one of several NaN"),
    **dict.fromkeys(("adaptive_max_pool1d", "adaptive_max_pool2d", "max_pool2d_with_indices", "max_pool1d_with_indices"),
                    "the first NaN of a window here, the last one there"),
    "mode": "its sort takes NaN for equal to anything",
    "erfc": "subnormal results are 0 there",
    "ldexp": "exp2 of a half type is rounded first there",
    "isclose": "differences of integers wrap there",
    "lerp": "another formula for weights of at least 1/2 there",
    **dict.fromkeys(("upsample_bilinear2d", "upsample_bicubic2d"), "0 * inf at the pixel that has no weight"),
    "grid_sampler_2d": "coordinates that are infinite or NaN are not defined there",
    "var": "Welford there", "std": "Welford there", "var_mean": "Welford there", "std_mean": "Welford there",
}  # fmt: skip

ORDERED = (
    "conv", "mm", "mv", "addr", "matmul", "einsum", "inner", "tensordot", "linear", "dot", "norm", "sum", "mean", "prod",
    "softmax", "loss", "entropy",
    "cosine_similarity", "attention", "pool", "kl_div", "trace",
)  # fmt: skip
"""Parts of names of operators that accumulate: an intermediate overflow depends on the order, which is ours alone."""

SPECIAL_DRAWS = 4  # of each sample with special values, of which there are more than elements

MISSING = 0.2
"""Elements that are NaN for the operators that leave them out."""


def named(o: Operator, table: dict[str, Any]) -> bool:
    """Whether the table speaks of the overload or of its base."""
    return o.name in table or o.base in table


def compared() -> list[Operator]:
    """The overloads whose results have to agree."""
    return [o for o in OPERATORS.values() if not o.inplace_of and o.family != "random" and not named(o, NOT_COMPARED)]


def pointwise() -> list[Operator]:
    """Those that have to agree on NaN, infinities and signed zeros too."""
    return [o for o in compared() if not named(o, SPECIAL) and not any(part in o.base for part in ORDERED)]


def torch_array(a: np.ndarray) -> Any:
    import torch

    if a.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(a.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(np.array(a))


def numpy_array(t: Any) -> np.ndarray:
    import torch

    t = t.detach().contiguous()
    return t.view(torch.int16).numpy().view(ml_dtypes.bfloat16) if t.dtype is torch.bfloat16 else t.numpy()


def results(o: Operator, *, special: float) -> Iterator[tuple[Any, list[np.ndarray], list[np.ndarray]]]:
    """(sample, our results, PyTorch's) of each sample that both accept."""
    import torch

    theirs = getattr(getattr(torch.ops.aten, o.base), o.overload)
    rng = np.random.default_rng(zlib.crc32(o.name.encode()))
    for sample in [s for s in o.samples() for _ in range(SPECIAL_DRAWS if special else 1)]:
        arrays: list[np.ndarray] = []

        def fill(v: Any, arrays: list[np.ndarray] = arrays) -> Any:
            if isinstance(v, Like):
                arrays.append(draw(v, rng, special=special))
                if o.base.startswith("nan") and v.dtype.is_float:  # what these are for
                    arrays[-1][rng.random(arrays[-1].shape) < MISSING] = np.nan
                return torch_array(arrays[-1])
            if isinstance(v, tuple | list):
                return [fill(x, arrays) for x in v]
            return getattr(torch, v.torch) if isinstance(v, DType) else v

        values = list(map(fill, sample))
        positional = [v for v, p in zip(values, o.params, strict=True) if not p.keyword_only]
        keywords = {p.name: v for v, p in zip(values, o.params, strict=True) if p.keyword_only}
        ours = run(o.program(*sample), arrays)
        try:
            with warnings.catch_warnings(action="ignore"):
                answer = theirs(*positional, **keywords)
        except (RuntimeError, IndexError, NotImplementedError):
            continue  # PyTorch refuses some types and empty shapes that have a meaning here
        yield sample, ours, [numpy_array(t) for t in (answer if isinstance(answer, tuple | list) else [answer])]


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """The largest difference in units in the last place of the largest finite element of b; inf where only one is finite."""
    if a.dtype.kind in "biu":
        return 0.0 if np.array_equal(a, b) else np.inf
    x, y = a.astype(np.float64), b.astype(np.float64)
    finite = np.isfinite(x) & np.isfinite(y)
    if not (finite | (x == y) | (np.isnan(x) & np.isnan(y))).all():
        return np.inf
    info = ml_dtypes.finfo(a.dtype)
    scale = max(np.abs(y[finite]).max(initial=0), float(info.smallest_normal))
    with np.errstate(invalid="ignore", over="ignore"):
        return float(np.abs(x - y)[finite].max(initial=0) / (np.spacing(scale) * 2.0 ** (52 - info.nmant)))


def _half_statistics(a: np.ndarray, b: np.ndarray) -> bool:
    """Statistics of half tensors are f32 here, half there."""
    return a.dtype == np.float32 and b.dtype.itemsize == 2 and a.shape == b.shape


def disagreements(o: Operator, *, special: float = 0.0) -> Iterator[str]:
    """What PyTorch says otherwise, sample by sample; `special` is the share of inputs that are NaN, infinite, -0, ..."""
    allowed = ULPS.get(o.name, ULPS.get(o.base, 0))
    for sample, ours, theirs in results(o, special=special):
        if len(ours) != len(theirs):
            yield f"{o.name}{sample}: {len(ours)} results here, {len(theirs)} there"
            continue
        for a, b in zip(ours, theirs, strict=True):
            if not special and (_half_statistics(a, b) or (o.family == "conv" and 0 in sample[1].shape)):
                continue  # without input channels PyTorch's result has no output channels
            if (a.dtype, a.shape) != (b.dtype, b.shape):
                yield f"{o.name}{sample}: {a.dtype}{list(a.shape)} here, {b.dtype}{list(b.shape)} there"
            elif (units := distance(a, b)) > allowed:
                yield f"{o.name}{sample}: {units:g} units apart, allowed {allowed}\n  here  {a!r}\n  there {b!r}"
            elif special and a.dtype.kind not in "biu":
                zeros = (a == 0) & (b == 0)
                if not np.array_equal(np.signbit(a)[zeros], np.signbit(b)[zeros]):
                    yield f"{o.name}{sample}: the sign of a zero\n  here  {a!r}\n  there {b!r}"
