"""Where a value does not say what its derivative is: PyTorch's convention, as another spelling of the operator."""

import zlib
from typing import Any

import numpy as np
import pytest

import assay
import assay.nn.functional as F
from assay.autograd import grad
from assay.core.operators import OPERATORS, Operator
from assay.core.operators.samples import draw
from assay.fuzz.differences import likes
from assay.semantics.denote import RequireError, run
from assay.transforms.pipeline import optimise

CONVENTIONS = [o for o in OPERATORS.values() if o.convention is not None]


@pytest.mark.parametrize("o", CONVENTIONS, ids=lambda o: o.name)
def test_the_other_spelling_has_the_same_value(o: Operator) -> None:
    """Up to the sign of zeros and one rounding of a mean of equal numbers; elements and all."""
    rng = np.random.default_rng(zlib.crc32(o.name.encode()))
    compared = 0
    for sample in o.samples():
        p = o.program(*sample)
        arrays = [draw(x, rng, special=0.3) for x in likes(sample)]
        try:
            want, got = run(p, arrays), run(o.differentiated(p), arrays)
        except RequireError:
            continue
        for a, b in zip(want, got, strict=True):
            with np.errstate(over="ignore"):
                largest = np.abs(a.astype(np.float64)) > 1e38  # the sum of two may overflow where the mean does not
            assert np.allclose(b[~largest], a[~largest], rtol=1e-2 if a.dtype.itemsize == 2 else 1e-6, atol=0, equal_nan=True)
        compared += 1
    assert compared > 2


def gradient(f: Any, *data: Any, dtype: Any = None) -> list[Any]:
    leaves = [assay.tensor(d, dtype=dtype, requires_grad=True) for d in data]
    return [g.tolist() for g in grad(f(*leaves).sum(), leaves)]


inf, nan = float("inf"), float("nan")
TIES: list[tuple[Any, tuple[Any, ...], list[Any]]] = [
    (assay.maximum, ([1.0, 2.0, 3.0, -0.0], [1.0, 5.0, 1.0, 0.0]), [[0.5, 0.0, 1.0, 0.5], [0.5, 1.0, 0.0, 0.5]]),
    (assay.minimum, ([1.0, 2.0, inf], [1.0, 5.0, inf]), [[0.5, 1.0, 0.5], [0.5, 0.0, 0.5]]),
    (lambda x: x.amax(-1), ([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]],), [[[0.0, 0.5, 0.5], [1 / 3, 1 / 3, 1 / 3]]]),
    (lambda x: x.amin(0, keepdim=True), ([[1.0, 3.0], [1.0, 5.0]],), [[[0.5, 1.0], [0.5, 0.0]]]),
    (lambda x: x.max(), ([1.0, 4.0, 4.0],), [[0.0, 0.5, 0.5]]),
    (lambda x: x.min(), ([nan, 1.0, nan],), [[0.5, 0.0, 0.5]]),
    (lambda x: x.max(0).values, ([4.0, 1.0, 4.0],), [[1.0, 0.0, 0.0]]),
    (lambda x: sum(x.aminmax(dim=0)), ([1.0, 1.0, 5.0],), [[0.5, 0.5, 1.0]]),
    (lambda w: F.embedding(assay.tensor([0, 1, 1]), w, padding_idx=1), ([[1.0], [2.0], [3.0]],), [[[1.0], [0.0], [0.0]]]),
    (lambda w: F.embedding(assay.tensor([0, 1, 1]), w), ([[1.0], [2.0], [3.0]],), [[[1.0], [2.0], [0.0]]]),
]


@pytest.mark.parametrize(("f", "data", "wanted"), TIES)
def test_ties(f: Any, data: tuple[Any, ...], wanted: list[Any]) -> None:
    got = gradient(f, *data)
    assert np.allclose(np.array(got, dtype=object).astype(float), np.array(wanted, dtype=object).astype(float), rtol=1e-7)


def test_b48_the_number_of_ties_is_counted_in_f32() -> None:
    x = assay.ones(70_000, dtype=assay.float16, requires_grad=True)
    x.max().backward()
    assert x.grad.tolist() == [float(np.float16(1 / 70_000))] * 70_000
    t = assay.atan2(assay.tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]), assay.ones(2, 3)).requires_grad_()
    assert grad(t.amin(1).sum(), t)[0].sum(1).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("backend", ["reference", pytest.param("cpp", marks=pytest.mark.cpp)])
def test_compiled_functions_have_the_same_conventions(backend: str) -> None:
    f = assay.compile(lambda x: x.amax(-1).sum() + assay.maximum(x, x.detach()).sum(), backend=backend)
    assert gradient(f, [[1.0, 3.0, 3.0]]) == [[[0.5, 1.0, 1.0]]]


@pytest.mark.parametrize("options", [{}, {"dynamic": True}], ids=["", "dynamic"])
@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("f", [lambda x, y: assay.maximum(x, y) ** 4, lambda x, y: (x - 1).amax() ** 4 * x + y.min() ** 5,
                               lambda x, y: F.embedding(assay.tensor([0, 1, 1, 2]), x.unsqueeze(1), padding_idx=1) ** 4 * y],
                         ids=["maximum", "amax, min", "embedding"])  # fmt: skip
def test_conventions_hold_at_every_order_and_for_all_sizes(f: Any, order: int, options: dict[str, Any]) -> None:
    """Shares of powers of two: exact in any order of sums."""
    found: list[Any] = []
    for g in (f, assay.compile(f, backend="reference", **options)):
        leaves = [assay.tensor(d, requires_grad=True) for d in ([2.0, 2.0, 1.0, -1.0], [2.0, 3.0, 1.0, 1.0])]
        gradients: tuple[Any, ...] = grad(g(*leaves).sum(), leaves, create_graph=order > 1)
        for k in range(2, order + 1):
            gradients = grad(sum((d * d).sum() for d in gradients), leaves, create_graph=order > k)
        found.append([d.tolist() for d in gradients])
    assert found[0] == found[1]


def test_a_padding_row_costs_the_forward_nothing() -> None:
    args = assay.tensor([0, 1, 1]), assay.ones(3, 4)
    plain, padded = (optimise(assay.lower(assay.trace(f, *args)))[-1].program for f in (
        lambda i, w: F.embedding(i, w), lambda i, w: F.embedding(i, w, padding_idx=1)))  # fmt: skip
    assert padded is plain
