"""Contractions against folds of fma written out with exact rationals, bit for bit; shapes against numpy."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from assay.core import dtypes as dt
from assay.core.errors import UserError
from assay.core.operators import OPERATORS
from tests.core.operators.calling import array, call, drawn, evaluate, same

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def rounded(v: Fraction, precision: int, largest_exponent: int) -> float:
    """The rational number to nearest even with `precision` bits, subnormals and overflow included."""
    a = abs(v)
    e = a.numerator.bit_length() - a.denominator.bit_length()
    e -= a < Fraction(2) ** e
    unit = max(e, 1 - largest_exponent) - (precision - 1)
    n, rest = divmod(a / Fraction(2) ** unit, 1)
    n += rest > Fraction(1, 2) or (rest == Fraction(1, 2) and n % 2)
    value = math.inf if n * Fraction(2) ** unit >= Fraction(2) ** (largest_exponent + 1) else math.ldexp(n, unit)
    return -value if v < 0 else value


def fma(a: Any, b: Any, c: Any) -> Any:
    """a * b + c with one rounding, of two floats of one type."""
    kind = type(c)
    if np.isfinite(a) and np.isfinite(b) and not np.isfinite(c):
        return c
    if not all(map(np.isfinite, (a, b, c))):
        return kind(np.float64(a) * np.float64(b) + np.float64(c)) if kind is np.float32 else a * b + c
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    if exact == 0:
        return kind(a * b + c) if a * b == 0 else kind(0.0)
    return kind(rounded(exact, 24, 127) if kind is np.float32 else rounded(exact, 53, 1023))


def contract(a: np.ndarray, b: np.ndarray) -> Any:
    """The left fold of fma over two vectors."""
    acc = a.dtype.type(0)
    for x, y in zip(a, b, strict=True):
        acc = fma(x, y, acc) if a.dtype.kind == "f" else acc + x * y
    return acc


def compute(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float32) if dt.dtype(x.dtype).is_half else x


def matrices(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a [.., n, k] times b [.., k, m], in the type they are computed in."""
    a, b = compute(a), compute(b)
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = np.broadcast_to(a, (*lead, *a.shape[-2:])), np.broadcast_to(b, (*lead, *b.shape[-2:]))
    out = np.zeros((*lead, a.shape[-2], b.shape[-1]), a.dtype)
    for index in np.ndindex(out.shape):
        *outer, i, j = index
        out[index] = contract(a[(*outer, i)], b[(*outer, slice(None), j)])
    return out


def matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    y = matrices(a[None, :] if a.ndim == 1 else a, b[:, None] if b.ndim == 1 else b)
    y = y[..., 0] if b.ndim == 1 else y
    return (y[..., 0, :] if b.ndim > 1 else y[..., 0]) if a.ndim == 1 else y


def times(alpha: Any, x: np.ndarray) -> np.ndarray:
    return x if alpha == 1 else x.dtype.type(alpha) * x


def added(product: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    def oracle(self: np.ndarray, a: np.ndarray, b: np.ndarray, beta: Any, alpha: Any) -> np.ndarray:
        p = times(alpha, product(a, b))
        return (p if beta == 0 else times(beta, compute(self)) + p).astype(self.dtype)

    return oracle


def linear(x: np.ndarray, w: np.ndarray, b: np.ndarray | None) -> np.ndarray:
    y = matmul(x, w.T if w.ndim == 2 else w)
    return (y if b is None else y + compute(b)).astype(x.dtype)


def outer(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return compute(a)[:, None] * compute(b)[None, :]


def tensordot(a: np.ndarray, b: np.ndarray, i: tuple[int, ...], j: tuple[int, ...]) -> np.ndarray:
    """The axes i of a moved to its end and j of b to its front, in their order, then the product of two matrices."""
    x, y = np.moveaxis(compute(a), i, range(-len(i), 0)), np.moveaxis(compute(b), j, range(len(j)))
    rows, columns = x.shape[: x.ndim - len(i)], y.shape[len(j) :]
    k = int(np.prod(y.shape[: len(j)]))
    return matrices(x.reshape(int(np.prod(rows)), k), y.reshape(k, int(np.prod(columns)))).reshape((*rows, *columns))


def typed(f: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    return lambda *v: np.asarray(f(*v)).astype(v[0].dtype)


ORACLES: dict[str, Callable[..., np.ndarray]] = {
    "mm.default": typed(matmul),
    "bmm.default": typed(matmul),
    "mv.default": typed(matmul),
    "dot.default": typed(matmul),
    "outer.default": typed(outer),
    "inner.default": typed(lambda a, b: tensordot(a, b, (-1,), (-1,))),
    "tensordot.default": typed(lambda a, b, i, j: tensordot(a, b, i, j)),
    "kron.default": typed(lambda a, b: np.kron(compute(a), compute(b))),
    "matmul.default": typed(matmul),
    "linear.default": linear,
    "addmm.default": added(matmul),
    "baddbmm.default": added(matmul),
    "addmv.default": added(matmul),
    "addr.default": added(outer),
}


def test_every_overload_has_an_oracle():
    table = {o.name for o in OPERATORS.values() if o.family == "matmul" and o.inplace_of is None}
    assert table - ORACLES.keys() == {"einsum.default"}


@pytest.mark.parametrize("name", ORACLES)
def test_against_a_fold_of_fma(name):
    for arguments in drawn(OPERATORS[name]):
        actual, expected = evaluate(OPERATORS[name], arguments), ORACLES[name](*arguments)
        assert same(actual, expected), f"{name}{arguments}:\n{actual!r}\n{expected!r}"


def test_a_contraction_is_fused():
    x, y = array([1.0000001, 1.0000001]), array([1.0000001, -1.0000001])
    assert float(call("dot", x, y)) == float(np.float32(np.float64(x[0] * x[0]) - np.float64(x[0]) ** 2))  # not 0


@pytest.mark.parametrize(("name", "args", "expected"), [
    ("mm", ([[1.0, 2.0]], [[3.0], [4.0]]), [[11.0]]),
    ("dot", ([], []), 0.0),
    ("dot", ([-0.0], [1.0]), 0.0),  # from +0
    ("dot", ([math.inf], [0.0]), math.nan),
    ("mv", ([[1.0, 2.0], [3.0, 4.0]], [1.0, -1.0]), [-1.0, -1.0]),
    ("linear", ([1.0, 2.0], [[3.0, 4.0], [5.0, 6.0]], [0.5, -0.5]), [11.5, 16.5]),
])  # fmt: skip
def test_values(name, args, expected):
    assert same(call(name, *map(array, args)), array(expected))


def test_beta_zero_does_not_read_the_addend():
    nan = array([math.nan])
    assert same(call("addmm", nan, array([[1.0]]), array([[2.0]]), beta=0), array([[2.0]]))
    assert np.isnan(call("addmm", nan, array([[1.0]]), array([[2.0]]))).all()


def test_integers_wrap():
    assert same(call("mm", array([[100, 100]], "i8"), array([[1], [1]], "i8")), array([[-56]], "i8"))


@pytest.mark.parametrize(("equation", "shapes"), [
    ("ik,kj->ij", ((3, 4), (4, 5))),
    ("bik,bjk->bij", ((2, 3, 4), (2, 5, 4))),
    ("ik,kj", ((3, 4), (4, 5))),
    ("ii->i", ((3, 3),)),
    ("ii", ((3, 3),)),
    ("ijk->ki", ((2, 3, 4),)),
    ("i,j->ij", ((3,), (4,))),
    ("bhqd,bhkd->bhqk", ((1, 2, 3, 4), (1, 2, 5, 4))),
    ("i,ij,j->", ((3,), (3, 4), (4,))),
])  # fmt: skip
def test_einsum_on_small_integers(equation, shapes):
    """Products of small integers are exact in any order, so numpy decides."""
    rng = np.random.default_rng(0)
    arrays = tuple(rng.integers(-3, 4, s).astype(np.float32) for s in shapes)
    np.testing.assert_array_equal(call("einsum", equation, arrays), np.einsum(equation, *arrays))


def test_einsum_is_matmul():
    a, b = (np.random.default_rng(1).standard_normal(s).astype(np.float32) for s in ((7, 9), (9, 5)))
    assert same(call("einsum", "ik,kj->ij", (a, b)), call("mm", a, b))


@pytest.mark.parametrize(("name", "shapes"), [
    ("mm", ((3, 4), (3, 4))), ("mm", ((3,), (3, 4))), ("bmm", ((2, 3, 4), (3, 4, 5))), ("mv", ((3, 4), (3,))),
    ("dot", ((3,), (4,))),
    ("dot", ((), ())), ("outer", ((3, 1), (4,))), ("matmul", ((), (3,))), ("matmul", ((2, 3, 4), (3, 4, 5))),
    ("matmul", ((4,), (3,))),
    ("linear", ((3, 4), (4, 5))), ("linear", ((3, 4), (5, 4), (4,))), ("addmm", ((7,), (3, 4), (4, 5))),
])  # fmt: skip
def test_bad_shapes(name, shapes):
    with pytest.raises(UserError):
        call(name, *(np.zeros(s, np.float32) for s in shapes))


@pytest.mark.parametrize("equation", ["ij,jk->il", "ij->ij", "i,j->i", "ij,kk->ijj", "i1,ij->"])
def test_bad_equations(equation):
    with pytest.raises(UserError):
        call("einsum", equation, (np.zeros((2, 2), np.float32), np.zeros((2, 3), np.float32)))


def test_operands_must_have_one_type():
    with pytest.raises(UserError, match="one type"):
        call("mm", np.zeros((1, 1), np.float32), np.zeros((1, 1), np.float64))
    with pytest.raises(UserError, match="bool"):
        call("mm", np.zeros((1, 1), np.bool_), np.zeros((1, 1), np.bool_))
