"""Activations.  The derivative at a kink is the one that the spelling gives: relu is select(x <= 0, 0, x), slope 0 at 0.

Where PyTorch's formula gives NaN at an infinity, the limit decides (silu, gelu, mish at -inf: -0).
"""

from __future__ import annotations

import math

from assay.core.dtypes import bf16, f64
from assay.core.errors import UserError
from assay.core.lang import E, T, op, select
from assay.core.mathlib import slopes
from assay.core.operators.build import Number, pointwise
from assay.core.operators.pointwise import scaled
from assay.core.operators.registry import operator
from assay.core.operators.samples import FLOATS, NUMBERS, like, listed, unary, with_scalar
from assay.core.operators.views import halves, reindexed


@operator("relu(Tensor self) -> Tensor", inplace=True, samples=unary(NUMBERS))
def relu(self: T) -> T:
    """self where self > 0, else +0; NaN stays."""
    return pointwise(lambda x: op("relu", x), self, kinds="int float")


@operator("relu6(Tensor self) -> Tensor", inplace=True, samples=unary(NUMBERS))
def relu6(self: T) -> T:
    """min(max(self, 0), 6)"""
    return hardtanh(self, 0, 6)


@operator("hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor", inplace=True,
          samples=unary(NUMBERS, (0, 1), (-1, 1), (-2.5, 0.5)))  # fmt: skip
def hardtanh(self: T, min_val: Number, max_val: Number) -> T:
    """min_val where self <= min_val, max_val where self >= max_val, else self."""
    if min_val > max_val:
        raise UserError(f"min_val {min_val} must be <= max_val {max_val}")
    return pointwise(lambda x, lo, hi: select(x <= lo, lo, select(x >= hi, hi, x)), self, min_val, max_val, kinds="int float",
                     dtype=self.dtype)  # fmt: skip


@operator("leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor", inplace=True,
          samples=with_scalar(FLOATS, (0.01, 2, -0.5)))
def leaky_relu(self: T, negative_slope: Number) -> T:
    """self where self > 0, else negative_slope * self."""
    return pointwise(lambda x, s: select(x > 0, x, s * x), self, negative_slope, kinds="float")


@operator("prelu(Tensor self, Tensor weight) -> Tensor",
          samples=listed(*((like(2, 3, 4, dtype=d), like(3, dtype=d)) for d in FLOATS), (like(5), like(1)), (like(), like()),
                         (like(0, 3), like(3))))  # fmt: skip
def prelu(self: T, weight: T) -> T:
    """self where self > 0, else w * self; one weight, or one for each element of axis 1."""
    if weight.size != 1:
        channels = self.shape[1] if len(self.shape) > 1 else self.shape[0] if self.shape else 1
        if len(weight.shape) != 1 or weight.shape[0] != channels:
            raise UserError(f"weight {list(weight.shape)} must hold 1 value or {channels}, one for each channel")
    shape = [1] * len(self.shape)
    if weight.size != 1:
        shape[min(1, len(shape) - 1)] = weight.size
    return pointwise(lambda x, w: select(x > 0, x, w * x), self, reindexed(weight, shape), kinds="float")


@operator("threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor", inplace=True,
          samples=unary(NUMBERS, (1, -2), (0.5, 7.5)))  # fmt: skip
def threshold(self: T, threshold: Number, value: Number) -> T:
    """value where self <= threshold, else self."""
    return pointwise(lambda x, t, v: select(x <= t, v, x), self, threshold, value, dtype=self.dtype)


@operator("gelu(Tensor self, *, str approximate='none') -> Tensor", inplace=True, samples=unary(FLOATS, ("none",), ("tanh",)))
def gelu(self: T, approximate: str) -> T:
    """x/2 (1 + erf(x/sqrt 2)), or with "tanh" x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x**3))); -0 at -inf."""
    rows = {"none": "gelu", "tanh": "gelu_tanh"}
    if approximate not in rows:
        raise UserError(f"approximate {approximate!r}; allowed: 'none', 'tanh'")
    return pointwise(lambda x: op(rows[approximate], x), self, kinds="float")


_GRADIENT_SHAPES = ((), (17,), (3, 4), (0, 3))


@operator("gelu_backward(Tensor grad_output, Tensor self, *, str approximate='none') -> Tensor",
          samples=listed(*((like(*s), like(*s), how) for s in _GRADIENT_SHAPES for how in ("none", "tanh")),
                         *((like(5, dtype=d), like(5, dtype=d), "none") for d in (f64, bf16))))  # fmt: skip
def gelu_backward(grad_output: T, self: T, approximate: str) -> T:
    """g * (Phi(x) + x phi(x)): Phi = (1 + erf(x/sqrt 2))/2, phi the normal density; with "tanh" the derivative of that form."""
    if approximate not in ("none", "tanh"):
        raise UserError(f"approximate {approximate!r}; allowed: 'none', 'tanh'")
    slope = slopes.gelu_slope if approximate == "none" else slopes.gelu_tanh_slope
    return pointwise(lambda g, x: g * slope(x), grad_output, self, kinds="float")


@operator("silu(Tensor self) -> Tensor", inplace=True, samples=unary(FLOATS))
def silu(self: T) -> T:
    """x / (1 + e**-x); -0 at -inf."""
    return pointwise(lambda x: op("silu", x), self, kinds="float")


@operator("mish(Tensor self) -> Tensor", inplace=True, samples=unary(FLOATS))
def mish(self: T) -> T:
    """x * tanh(log(1 + e**x)); -0 at -inf."""
    return pointwise(lambda x: select(op("eq", x, -math.inf), -0.0, x * op("tanh", op("softplus", x))), self, kinds="float")


@operator("elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor", inplace=True,
          samples=unary(FLOATS, (1, 1, 1), (0.5, 2, 1.5)))  # fmt: skip
def elu(self: T, alpha: Number, scale: Number, input_scale: Number) -> T:
    """scale * (x where x > 0, else alpha * (e**(input_scale * x) - 1))."""

    def body(x: E) -> E:
        return select(x > 0, scaled(x, scale), scaled(op("expm1", scaled(x, input_scale)), alpha * scale))

    return pointwise(body, self, kinds="float")


SELU_ALPHA, SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


@operator("selu(Tensor self) -> Tensor", inplace=True, samples=unary(FLOATS))
def selu(self: T) -> T:
    """elu with the constants of self-normalising networks."""
    return elu(self, SELU_ALPHA, SELU_SCALE, 1)


@operator("celu(Tensor self, Scalar alpha=1.0) -> Tensor", inplace=True, samples=unary(FLOATS, (1.0,), (2,)))
def celu(self: T, alpha: Number) -> T:
    """x where x > 0, else alpha * (e**(x / alpha) - 1)."""
    if alpha == 0:
        raise UserError("alpha must not be 0")
    return elu(self, alpha, 1, 1 / alpha)


@operator("softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor", samples=unary(FLOATS, (1, 20), (2, 5)))
def softplus(self: T, beta: Number, threshold: Number) -> T:
    """log(1 + e**(beta * x)) / beta; x where beta * x > threshold."""

    def body(x: E) -> E:
        z = scaled(x, beta)
        return select(z > threshold, x, op("softplus", z) if beta == 1 else op("softplus", z) / beta)

    return pointwise(body, self, kinds="float")


@operator("log_sigmoid(Tensor self) -> Tensor", samples=unary(FLOATS))
def log_sigmoid(self: T) -> T:
    """log(1 / (1 + e**-x))"""
    return pointwise(lambda x: op("log_sigmoid", x), self, kinds="float")


@operator("hardsigmoid(Tensor self) -> Tensor", inplace=True, samples=unary(FLOATS))
def hardsigmoid(self: T) -> T:
    """min(max(x + 3, 0), 6) / 6"""
    return pointwise(_hard_sigmoid, self, kinds="float")


def _hard_sigmoid(x: E) -> E:
    shifted = x + 3
    return select(shifted <= 0, 0.0, select(shifted >= 6, 6.0, shifted)) / 6


@operator("hardswish(Tensor self) -> Tensor", inplace=True, samples=unary(FLOATS))
def hardswish(self: T) -> T:
    """x * min(max(x + 3, 0), 6) / 6; -0 at -inf."""

    def body(x: E) -> E:
        shifted = x + 3
        return select(shifted <= 0, -0.0, x * select(shifted >= 6, 6.0, shifted) / 6)

    return pointwise(body, self, kinds="float")


@operator("softsign(Tensor self) -> Tensor", samples=unary(FLOATS))
def softsign(self: T) -> T:
    """x / (1 + |x|); 1 and -1 at the infinities."""
    return pointwise(lambda x: op("softsign", x), self, kinds="float")


@operator("tanhshrink(Tensor self) -> Tensor", samples=unary(FLOATS))
def tanhshrink(self: T) -> T:
    """x - tanh(x)"""
    return pointwise(lambda x: x - op("tanh", x), self, kinds="float")


@operator("hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor", samples=unary(FLOATS, (0.5,), (2,)))
def hardshrink(self: T, lambd: Number) -> T:
    """0 where -lambd <= x <= lambd, else x; NaN stays."""
    return pointwise(lambda x, d: select((x >= -d) & (x <= d), 0.0, x), self, lambd, kinds="float")


@operator("softshrink(Tensor self, Scalar lambd=0.5) -> Tensor", samples=unary(FLOATS, (0.5,), (2,)))
def softshrink(self: T, lambd: Number) -> T:
    """x - lambd where x > lambd, x + lambd where x < -lambd, else 0; NaN stays."""
    if lambd < 0:
        raise UserError(f"lambd {lambd} must be >= 0")

    def body(x: E, d: E) -> E:
        inner = select(x < -d, x + d, select(op("eq", x, x), 0.0, x))
        return select(x > d, x - d, inner)

    return pointwise(body, self, lambd, kinds="float")


@operator("glu(Tensor self, int dim=-1) -> Tensor", samples=listed(*((like(3, 4, dtype=d), -1) for d in FLOATS), (like(4, 3), 0),
                                                                   (like(0, 2), 1), (like(2), 0)))
def glu(self: T, dim: int) -> T:
    """a * sigmoid(b) of the two halves (a, b) of axis `dim`."""
    return pointwise(lambda a, b: a * op("sigmoid", b), *halves(self, dim), kinds="float")
