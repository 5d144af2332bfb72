"""torch's signatures reach the operators they mean: the same bits as the operator called directly."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import assay
import assay.nn.functional as F
from assay import ops


def floats(*shape: int) -> assay.Tensor:
    return assay.tensor(np.linspace(-2, 2, int(np.prod(shape)), dtype=np.float32).reshape(shape))


X, Y, IMAGE, W = floats(3, 4), floats(3, 4).flip(0), floats(2, 3, 6, 6), floats(5, 3, 3, 3)
TARGET = assay.tensor([1, 3, 0])


@pytest.mark.parametrize(
    ("got", "want"),
    [
        (lambda: F.relu(X), lambda: ops.relu.default(X)),
        (lambda: F.gelu(X), lambda: ops.gelu.default(X, approximate="none")),
        (lambda: F.gelu(X, "tanh"), lambda: ops.gelu.default(X, approximate="tanh")),
        (lambda: F.leaky_relu(X, 0.2), lambda: ops.leaky_relu.default(X, 0.2)),
        (lambda: F.softmax(X, dim=-1), lambda: ops.softmax.int(X, -1)),
        (lambda: F.softmax(input=X, dim=0), lambda: ops.softmax.int(X, 0)),
        (lambda: F.softmin(X, 1), lambda: ops.softmax.int(-X, 1)),
        (lambda: F.log_softmax(X, dim=1), lambda: ops.log_softmax.int(X, 1)),
        (lambda: F.logsigmoid(X), lambda: ops.log_sigmoid.default(X)),
        (lambda: F.linear(X, Y), lambda: ops.linear.default(X, Y, None)),
        (lambda: F.conv2d(IMAGE, W, padding=1), lambda: ops.conv2d.default(IMAGE, W, None, (1, 1), (1, 1))),
        (lambda: F.conv2d(IMAGE, W, stride=2, padding="valid"), lambda: ops.conv2d.default(IMAGE, W, None, (2, 2))),
        (lambda: F.max_pool2d(IMAGE, 2), lambda: ops.max_pool2d.default(IMAGE, (2, 2), (2, 2))),
        (lambda: F.max_pool2d(IMAGE, 3, 1, 1), lambda: ops.max_pool2d.default(IMAGE, (3, 3), (1, 1), (1, 1))),
        (lambda: F.max_pool2d(IMAGE, 2, return_indices=True)[1], lambda: ops.max_pool2d_with_indices.default(IMAGE, 2)[1]),
        (lambda: F.avg_pool2d(IMAGE, 2, stride=None), lambda: ops.avg_pool2d.default(IMAGE, (2, 2))),
        (lambda: F.adaptive_avg_pool2d(IMAGE, 2), lambda: ops.adaptive_avg_pool2d.default(IMAGE, (2, 2))),
        (lambda: F.adaptive_max_pool2d(IMAGE, 2), lambda: ops.adaptive_max_pool2d.default(IMAGE, (2, 2))[0]),
        (lambda: F.layer_norm(X, (4,), eps=0.5), lambda: ops.layer_norm.default(X, (4,), None, None, 0.5)),
        (lambda: F.group_norm(IMAGE, 3), lambda: ops.group_norm.default(IMAGE, 3)),
        (lambda: F.embedding(TARGET[:2] - 1, X), lambda: X[[0, 2]]),
        (lambda: F.pad(X, (1, 2), value=7.0), lambda: ops.constant_pad_nd.default(X, (1, 2), 7.0)),
        (lambda: F.one_hot(TARGET, 4), lambda: ops.one_hot.default(TARGET, 4)),
        (lambda: F.normalize(X, dim=0), lambda: ops.normalize.default(X, 2.0, 0)),
        (lambda: F.interpolate(IMAGE, scale_factor=2), lambda: ops.upsample_nearest2d.default(IMAGE, (12, 12))),
        (lambda: F.interpolate(IMAGE, size=3), lambda: ops.upsample_nearest2d.default(IMAGE, (3, 3))),
        (lambda: F.mse_loss(X, Y), lambda: ops.mse_loss.default(X, Y, 1)),
        (lambda: F.mse_loss(X, Y, reduction="none"), lambda: (X - Y) * (X - Y)),
        (lambda: F.l1_loss(X, Y, reduction="sum"), lambda: (X - Y).abs().sum()),
        (lambda: F.huber_loss(X, Y, delta=2.0), lambda: ops.huber_loss.default(X, Y, 1, 2.0)),
        (lambda: F.smooth_l1_loss(X, Y, beta=2.0), lambda: ops.smooth_l1_loss.default(X, Y, 1, 2.0)),
        (lambda: F.cross_entropy(X, TARGET), lambda: ops.cross_entropy_loss.default(X, TARGET)),
        (lambda: F.cross_entropy(X, TARGET, reduction="none"), lambda: F.nll_loss(F.log_softmax(X, 1), TARGET, reduction="none")),
        (lambda: F.nll_loss(X, TARGET, reduction="none"), lambda: -X[[0, 1, 2], [1, 3, 0]]),
        (lambda: F.kl_div(X, Y.exp(), reduction="batchmean"), lambda: ops.kl_div.default(X, Y.exp(), 2) / 3),
        (lambda: F.cosine_similarity(X, Y), lambda: ops.cosine_similarity.default(X, Y)),
        (lambda: F.scaled_dot_product_attention(X, Y, X, scale=1.0), 
         lambda: ops.scaled_dot_product_attention.default(X, Y, X, scale=1.0)),
    ],
)  # fmt: skip
def test_the_function_is_the_operator(got: Callable[[], Any], want: Callable[[], Any]) -> None:
    a, b = got(), want()
    assert (a.shape, a.dtype) == (b.shape, b.dtype)
    assert a.numpy().tobytes() == b.numpy().tobytes()


def test_inplace_forms() -> None:
    x = X.clone()
    assert F.relu(x, inplace=True) is x
    assert x.tolist() == X.relu().tolist()


def test_batch_norm_moves_the_running_statistics_in_training_only() -> None:
    x = assay.tensor([[[1.0, 3.0]], [[1.0, 3.0]]])  # mean 2, unbiased variance 4/3
    mean, var = assay.zeros(1), assay.ones(1)
    F.batch_norm(x, mean, var)
    assert (mean.item(), var.item()) == (0.0, 1.0)
    F.batch_norm(x, mean, var, training=True, momentum=0.5)
    assert mean.item() == 1.0
    assert var.item() == np.float32(0.5) + np.float32(0.5) * np.float32(4 / 3)


@pytest.mark.parametrize("wrap", [lambda f: f, lambda f: assay.compile(f, backend="reference")])
def test_running_statistics_have_no_history(wrap: Callable[[Any], Any]) -> None:
    mean, var, weight = assay.zeros(2), assay.ones(2), assay.ones(3, 2, requires_grad=True)

    def step(x: Any, weight: Any, mean: Any, var: Any) -> Any:
        return F.batch_norm(x @ weight, mean, var, training=True).pow(3).sum()

    called = wrap(step)
    for _ in range(2):  # with a history, the second step would go back through the first
        called(X[:, :3], weight, mean, var).backward()
        assert (mean.requires_grad, var.requires_grad) == (False, False)
    assert mean.abs().sum().item() > 0
    assay.func.grad(lambda w: step(X[:, :3], w, mean, var))(weight.detach())
    assert not mean.requires_grad


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: F.mse_loss(X, Y, reduction="avg"), assay.UserError, "'none', 'mean', 'sum'"),
        (lambda: F.embedding(TARGET, X, max_norm=1.0), assay.Unsupported, "normalise"),
        (lambda: F.interpolate(X, 2), assay.Unsupported, "rank 4"),
        (lambda: F.interpolate(IMAGE, 2, mode="area"), assay.Unsupported, "area"),
        (lambda: F.scaled_dot_product_attention(X, Y, X, dropout_p=0.5), assay.Unsupported, "dropout"),
        (lambda: F.reluu, AttributeError, "did you mean: relu"),
        (lambda: F.embedding(TARGET, X), IndexError, "0 <= 3 < 3"),
    ],
)
def test_refusals(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize("shape", [(2, 5, 3), (1, 5, 2, 3), (2, 4, 2, 1, 2)])
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_local_response_norm(shape: tuple[int, ...], size: int) -> None:
    x = np.random.default_rng(0).standard_normal(shape)
    channels = np.arange(shape[1])
    windows = [np.abs(np.clip(channels, c - size // 2, c + (size - 1) // 2) - channels) == 0 for c in channels]
    means = np.stack([(x**2)[:, w].sum(1) / size for w in windows], 1)
    got = F.local_response_norm(assay.from_numpy(x), size, alpha=0.5, beta=0.75, k=2.0).numpy()
    np.testing.assert_array_max_ulp(got, x / (2.0 + 0.5 * means) ** 0.75, maxulp=8)


def test_local_response_norm_needs_channels() -> None:
    with pytest.raises(assay.UserError, match="at least 3 axes"):
        F.local_response_norm(assay.ones(2, 3), 2)
