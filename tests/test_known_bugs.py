"""Wrong results that other compilers have given, each with its right value."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import assay
import assay.nn.functional as F
from assay.autograd import BackwardError, Function, grad
from assay.semantics.compare import bits_equal

EVALUATIONS = [
    pytest.param(lambda f: f, id="eager"),
    pytest.param(lambda f: assay.compile(f, backend="reference"), id="reference"),
    pytest.param(assay.compile, id="cpp", marks=pytest.mark.cpp),
]


@pytest.mark.parametrize("compiled", EVALUATIONS)
@pytest.mark.parametrize("n", [4, 100_000])
class TestReadsPrecedeWrites:
    """B41 (pytorch#101950, #197829, #162410, ...): in-place updates from an overlapping view of the same memory."""

    def test_shift(self, compiled: Callable[..., Any], n: int) -> None:
        def shift(x: Any) -> None:
            x[1:] = x[:-1]

        def shift_a_clone(x: Any) -> None:
            x[1:] = x[:-1].clone()

        for f in (shift, shift_a_clone):
            x = assay.arange(n).float()
            compiled(f)(x)
            assert np.array_equal(x.numpy(), np.maximum(np.arange(n) - 1, 0))

    def test_reverse(self, compiled: Callable[..., Any], n: int) -> None:
        x = assay.arange(n).float()
        compiled(lambda x: x.copy_(x.flip(0)))(x)
        assert np.array_equal(x.numpy(), np.arange(n)[::-1])

    def test_add_reversed(self, compiled: Callable[..., Any], n: int) -> None:
        def f(x: Any) -> None:
            x += x.flip(0)

        x = assay.arange(n).float()
        compiled(f)(x)
        assert (x.numpy() == n - 1).all()

    def test_transpose(self, compiled: Callable[..., Any], n: int) -> None:
        m = min(n, 300)
        x = assay.arange(m * m).float().reshape(m, m)
        compiled(lambda x: x.copy_(x.t()))(x)
        assert np.array_equal(x.numpy(), np.arange(m * m, dtype=np.float32).reshape(m, m).T)


@pytest.mark.parametrize("compiled", EVALUATIONS)
def test_repeat_interleave_reversed(compiled: Callable[..., Any]) -> None:
    """B41: the composed index must not go negative."""
    assert compiled(lambda x: x.repeat_interleave(2).flip(0))(assay.tensor([1, 2, 3])).tolist() == [3, 3, 2, 2, 1, 1]


@pytest.mark.parametrize("compiled", EVALUATIONS)
@pytest.mark.parametrize("rows", [1, 2])
def test_gather_reads_what_scatter_wrote(compiled: Callable[..., Any], rows: int) -> None:
    """B43 (pytorch#191571): scatter_add into an axis of size 1, then a gather of it."""

    def f(x: Any, at: Any) -> Any:
        sums = assay.zeros(rows, 4).scatter_add(0, at.unsqueeze(1).expand(8, 4), x)
        return sums.index_select(0, at)

    out = compiled(f)(assay.ones(8, 4), assay.zeros(8, dtype=assay.int64))
    assert out.tolist() == [[8.0] * 4] * 8


inf, nan = np.inf, np.nan


def bits(x: Any) -> list[Any]:
    """The values with the sign of zero and NaN comparable: -0.0 as "-0.0", NaN as "nan"."""
    flat = np.asarray(x.numpy()).astype(np.float64 if x.dtype.is_float else np.int64).ravel().tolist()
    return [str(v) if v != v or (v == 0 and np.signbit(v)) else v for v in flat]


def expect(compiled: Callable[..., Any], f: Callable[..., Any], inputs: list[tuple[Any, str]], *expected: list[Any]) -> None:
    """f on the inputs (values, type) gives these results, bit for bit."""
    arguments = [assay.tensor(v, dtype=getattr(assay, t)) for v, t in inputs]
    out = compiled(f)(*arguments)
    for got, right in zip(out if isinstance(out, tuple) else (out,), expected, strict=True):
        wanted = [str(v) if v != v or (v == 0 and np.signbit(v)) else v for v in right]
        assert bits(got) == wanted


@pytest.mark.parametrize("compiled", EVALUATIONS)
class TestIntegerArithmetic:
    def test_b01_shift_by_the_width_or_more(self, compiled: Callable[..., Any]) -> None:
        """pytorch#143566: x86 masks the count to n % 64."""
        expect(compiled, lambda x, n: (x << n, x >> n), [([7, -7], "int64"), ([64, 70], "int64")], [0, 0], [0, -1])
        expect(compiled, lambda x, n: (x << n, x >> n), [([7, -7], "int64"), ([-1, -2], "int64")], [0, 0], [0, -1])

    def test_b03_float_floor_division(self, compiled: Callable[..., Any]) -> None:
        """pytorch#197895: floor(a / b) is one too many where the quotient rounds up to an integer."""
        a, b = ([1.0, 0.5, 6.0, 3.0], "float32"), ([0.1, 0.1, 0.2, 0.1], "float32")
        expect(compiled, lambda a, b: a // b, [a, b], [9.0, 4.0, 29.0, 29.0])
        expect(compiled, lambda a, b: ((a % b) > 0) & ((a % b) < b), [a, b], [1, 1, 1, 1])

    def test_b05_smallest_integer_divided_by_minus_one(self, compiled: Callable[..., Any]) -> None:
        """pytorch#184406, numpy#21506: idiv traps (SIGFPE)."""
        x, y = ([-(2**31), 7], "int32"), ([-1, -1], "int32")
        expect(compiled, lambda x, y: (x // y, x % y), [x, y], [-(2**31), -7], [0, 0])

    def test_b07_floor_semantics(self, compiled: Callable[..., Any]) -> None:
        """triton#619: // and % truncate; constants and run-time values must agree."""
        a, b = ([-7, 7, -8], "int32"), ([2, -2, 3], "int32")
        expect(compiled, lambda a, b: (a // b, a % b), [a, b], [-4, -4, -3], [1, -1, 1])
        expect(compiled, lambda a, b: -((-a) // b), [([-36], "int64"), ([5], "int64")], [-7])
        expect(compiled, lambda x, y: x % y, [([-5.5], "float32"), ([3.0], "float32")], [0.5])
        expect(compiled, lambda x: assay.full((1,), -5.5) % 3.0 + x, [([0.0], "float32")], [0.5])

    def test_b09_constant_folding_of_integers(self, compiled: Callable[..., Any]) -> None:
        """tvm#20281: folded through float64."""
        c = ([9007199254740993, 1152921504606846979], "int64")
        expect(compiled, lambda c, d: c // d, [c, ([1, 3], "int64")], [9007199254740993, 384307168202282326])
        folded = lambda x: assay.full((1,), 1152921504606846979, dtype=assay.int64) // 3 + x  # noqa: E731
        expect(compiled, folded, [([0], "int64")], [384307168202282326])

    def test_b11_powers(self, compiled: Callable[..., Any]) -> None:
        """jax#5987, #16898, #7701: 0**64, negative integer powers, log(pow(0, 0)), IEEE pow."""
        expect(compiled, lambda x, n: x**n, [([0], "int32"), ([64], "int32")], [0])
        expect(compiled, lambda x, y: (x**y).log(), [([0.0], "float32"), ([0.0], "float32")], [0.0])
        expect(compiled, lambda x, y: x**y, [([1.0, nan, -1.0], "float32"), ([nan, 0.0, inf], "float32")], [1.0, 1.0, 1.0])
        with pytest.raises(ValueError, match="negative integer powers"):
            compiled(lambda x, n: x**n)(assay.tensor([10]), assay.tensor([-1]))


@pytest.mark.parametrize("compiled", EVALUATIONS)
class TestSpecialValues:
    def test_b12_nan_at_every_position(self, compiled: Callable[..., Any]) -> None:
        """tvm#19579, onnxruntime#10514: max, min and relu lose a NaN depending on where it stands."""
        f = compiled(lambda x, y: (x.amax(1), x.amin(1), assay.maximum(y, y * 0), assay.relu(y), assay.maximum(y * 0, y)))
        for n in range(1, 10):
            x = np.where(np.eye(n, dtype=bool), nan, np.arange(n)).astype(np.float32)
            for out in f(assay.tensor(x), assay.tensor(np.diagonal(x).copy())):
                assert np.isnan(out.numpy()).all()

    def test_b14_adding_zero_is_not_the_identity(self, compiled: Callable[..., Any]) -> None:
        """pytorch#189799: -0 + 0 is +0."""

        def f(x: Any) -> Any:
            z = x.ceil()
            return 1 / (z + 0.0), 1 / (z - 0.0), 1 / (z * 1.0), 1 / (0.0 - z)

        expect(compiled, f, [([-0.3], "float32")], [inf], [-inf], [-inf], [inf])

    def test_b17_inverse_functions_do_not_cancel(self, compiled: Callable[..., Any]) -> None:
        """xla#42732, jax#37919: the intermediate overflows."""

        def f(x: Any, y: Any, z: Any) -> Any:
            return x.exp().log(), y.square().sqrt(), z.log().exp()

        expect(compiled, f, [([90.0], "float32"), ([-2e19], "float32"), ([-1.0], "float32")], [inf], [inf], [nan])

    def test_b19_float_to_integer(self, compiled: Callable[..., Any]) -> None:
        """pytorch#180159, numpy#21166: undefined in C; here it saturates and NaN is 0, in vectors and in tails."""
        values = [nan, inf, -inf, 300.0, -1.0] * 7
        expect(compiled, lambda x: (x.to(assay.int32), x.to(assay.int8), x.to(assay.uint8)), [(values, "float32")],
               [0, 2**31 - 1, -(2**31), 300, -1] * 7, [0, 127, -128, 127, -1] * 7, [0, 255, 0, 255, 0] * 7)  # fmt: skip

    def test_b21_clamp(self, compiled: Callable[..., Any]) -> None:
        """pytorch#76795: NaN values, NaN bounds, a bound beyond the type."""
        expect(compiled, lambda x: x.clamp(0, 1), [([0.5, -3.0, nan], "float32")], [0.5, 0.0, nan])
        expect(compiled, lambda x: x.clamp(0, nan), [([0.5, -3.0], "float32")], [nan, nan])
        expect(compiled, lambda x: x.clamp(min=-1e39), [([0.5], "float32")], [0.5])

    def test_b22_nan_to_num_of_half_types(self, compiled: Callable[..., Any]) -> None:
        """mlx#4220, pytorch#57982: the largest value of a half type came out as 0 or inf."""
        values = [nan, inf, -inf, 1.5]
        expect(compiled, lambda x: x.nan_to_num(), [(values, "float16")], [0.0, 65504.0, -65504.0, 1.5])
        largest = 3.3895313892515355e38
        expect(compiled, lambda x: x.nan_to_num(), [(values, "bfloat16")], [0.0, largest, -largest, 1.5])

    def test_b36_round_half_to_even(self, compiled: Callable[..., Any]) -> None:
        """tvm#19368, pytorch#103465: away from zero in compiled code."""
        expect(compiled, lambda x: x.round(), [([0.5, 1.5, 2.5, -0.5, -2.5] * 3, "float32")], [0.0, 2.0, 2.0, -0.0, -2.0] * 3)


@pytest.mark.parametrize("compiled", EVALUATIONS)
class TestPrecision:
    def test_b24_casts_are_operations(self, compiled: Callable[..., Any]) -> None:
        """pytorch#183607, jax#23007: an intermediate cast to a half type is removed."""

        def f(x: Any) -> Any:
            h = x.to(assay.float16)
            return (h * h).to(assay.float32)

        expect(compiled, f, [([300.0], "float32")], [inf])
        expect(compiled, lambda x, y: y - ((x + y) - x), [([1.0], "bfloat16"), ([2.0**-9], "bfloat16")], [2.0**-9])

    def test_b26_no_contraction(self, compiled: Callable[..., Any]) -> None:
        """pytorch#122260, numpy#27422: one of two equal products becomes part of an fma."""
        expect(compiled, lambda x: x * x - x * x, [([1.0000001] * 9, "float32")], [0.0] * 9)
        x = assay.tensor([[3.76, 3.75]]) / 1e-6
        assert abs(float(compiled(lambda x: x.softmax(1).sum())(x)) - 1) <= 1e-6

    def test_b28_a_0d_tensor_is_rounded_before_the_operation(self, compiled: Callable[..., Any]) -> None:
        """pytorch#185605: the compiled code used the double."""
        x, s = assay.tensor([0.1], dtype=assay.bfloat16), assay.tensor(-0.1, dtype=assay.float64)
        out = compiled(lambda x, s: x + s)(x, s)
        assert out.dtype == assay.bfloat16
        assert out.tolist() == [0.0]


@pytest.mark.parametrize("compiled", EVALUATIONS)
class TestReductions:
    def test_b30_ties_take_the_first(self, compiled: Callable[..., Any]) -> None:
        """pytorch#93630, triton#1736, tinygrad#8108: the last of equal elements, or an index from the padding."""
        expect(compiled, lambda x: x.argmax(1), [([[1, 3, 3], [4, 4, 0]], "int32")], [1, 0])
        expect(compiled, lambda x: x.argmax(), [([-inf] * 1000, "float32")], [0])
        expect(compiled, lambda x: (~x).argmax(), [([2, 2], "int32")], [0])

    def test_b32_small_integers(self, compiled: Callable[..., Any]) -> None:
        """pytorch#191499: the vector accumulator started at 0."""
        expect(compiled, lambda x: (x.min(), x.argmin()), [([7] * 16 + [3], "uint8")], [3], [16])
        expect(compiled, lambda x: x.max(), [([-9] * 16 + [-2], "int8")], [-2])

    def test_b54_lengths_that_are_no_power_of_two(self, compiled: Callable[..., Any]) -> None:
        """triton#737, FlagGems#3716: what fills the last vector takes part in the reduction."""
        x = ([-1.0, -2.0, -3.0, -4.0, -5.0], "float32")
        expect(compiled, lambda x: (x.sum(), x.prod(), x.max(), x.min()), [x], [-15.0], [-120.0], [-1.0], [-5.0])


@pytest.mark.parametrize("compiled", EVALUATIONS)
def test_b37_a_constant_index_outside_is_an_error_when_compiled(compiled: Callable[..., Any]) -> None:
    """pytorch#185885: select(dim, 1) of an axis of size 1 compiled."""
    with pytest.raises(IndexError, match="out of bounds"):
        compiled(lambda x: x.select(0, 2))(assay.ones(2, 3))
    with pytest.raises(IndexError, match="out of bounds"):
        compiled(lambda x: x.select(0, 1))(assay.ones(1, 3))


@pytest.mark.parametrize("compiled", EVALUATIONS)
def test_b34_a_scan_masks_by_choosing(compiled: Callable[..., Any]) -> None:
    """pytorch#132107, triton#2361: 0 * inf in a masked scan gives NaN; a block loses the carry of the one before."""
    scan = lambda x: x.cumsum(0)  # noqa: E731
    expect(compiled, scan, [([inf] * 5, "float32")], [inf] * 5)
    expect(compiled, scan, [([1.0, inf, -inf], "float32")], [1.0, inf, nan])
    expect(compiled, scan, [([1.0] * 1000, "float32")], [float(n + 1) for n in range(1000)])


@pytest.mark.parametrize("compiled", EVALUATIONS)
@pytest.mark.parametrize(("f", "shape", "index", "text"), [
    (lambda x, i: x[i], (2, 3), 2, "0 <= 2 < 2"),
    (lambda x, i: x[i], (2, 3), -3, "0 <= -1 < 2"),
    (lambda x, i: x.index_select(0, i), (2, 3), -1, "0 <= -1 < 2"),
    (lambda x, i: F.embedding(i, x), (2, 3), -2, "0 <= -2 < 2"),
    (lambda x, i: x.index_add(0, i, x[:1]), (2, 3), -1, "0 <= -1 < 2"),
    (lambda x, i: x.gather(0, i.unsqueeze(1)), (2, 3), 5, "0 <= 5 < 2"),
    (lambda x, i: x.index_select(0, i), (1, 3), 1, "0 <= 1 < 1"),
    (lambda x, i: x.scatter_add(0, i.unsqueeze(1), x[:1, :1]).sum(), (2, 3), 2, "0 <= 2 < 2"),
])  # fmt: skip
def test_b37_an_index_outside_is_an_error(
    compiled: Callable[..., Any], f: Callable[..., Any], shape: tuple[int, ...], index: int, text: str
) -> None:
    """pytorch#185885, #183608, #121251, #183769: silently wrapped, or read from stray memory, when compiled."""
    with pytest.raises(IndexError) as error:
        compiled(f)(assay.ones(*shape), assay.tensor([index]))
    assert f"index out of bounds: {text}" in str(error.value)


# ------------------------------------------------------------------------------------------------ derivatives

DIFFERENTIATED = [
    *EVALUATIONS,
    pytest.param(lambda f: assay.compile(f, backend="reference", memory_budget=0), id="all recomputed"),
    pytest.param(lambda f: assay.compile(f, memory_budget=0), id="all recomputed, cpp", marks=pytest.mark.cpp),
]


def leaf(data: Any, dtype: Any = assay.float32) -> assay.Tensor:
    return assay.tensor(data, dtype=dtype).requires_grad_()


@pytest.mark.parametrize("compiled", DIFFERENTIATED)
class TestDerivatives:
    def test_b46_the_backward_reads_what_the_forward_read(self, compiled: Callable[..., Any]) -> None:
        """functorch#565, pytorch#127561: dy/dx of y = x * c is 3 though c is 4 afterwards, or an error, and not 4."""
        c, x = assay.tensor([3.0]), leaf([2.0])

        def f(x: Any) -> Any:
            y = x * c
            c.add_(1.0)
            return y

        try:
            compiled(f)(x).sum().backward()
            found = f"{x.grad.tolist()}, c = {c.tolist()}"
        except (BackwardError, assay.UserError) as error:
            found = str(error)
        assert found == "[3.0], c = [4.0]" or re.search(
            r"needs the value of 'other', f32\[1\], as it was in the forward pass; since then it was changed in place by add_"
            r"|at least 4 bytes have to be saved, the inputs \[bound_1:f32\[1\]\], which are overwritten", found
        )  # fmt: skip

    def test_b46_an_update_in_place_is_done_once(self, compiled: Callable[..., Any]) -> None:
        """pytorch#154820: recomputed, it would happen twice."""

        def f(x: Any) -> Any:
            t = 2 * x
            t *= t
            return t

        x = leaf([3.0])
        y = compiled(f)(x)
        y.sum().backward()
        assert y.tolist() == [36.0]
        assert x.grad.tolist() == [24.0]

    def test_b48_what_is_computed_again_has_the_same_bits(self, compiled: Callable[..., Any]) -> None:
        """pytorch#186799: x == min is false everywhere where a vector and a scalar libm differ: no gradient, or 0/0."""
        rng = np.random.default_rng(0)
        x, y = (assay.from_numpy(rng.standard_normal((50, 37)).astype(np.float32)) for _ in range(2))
        for extreme in ("amin", "amax"):
            t = assay.zeros(50, 37, requires_grad=True)
            f = compiled(lambda x, y, t: getattr(assay.atan2(x, y) + t, extreme)(1).sum())  # noqa: B023
            assert grad(f(x, y, t), [t])[0].numpy().sum(1).tolist() == [1.0] * 50

    def test_b48_equal_shares_of_many_ties_in_a_half_type(self, compiled: Callable[..., Any]) -> None:
        """pytorch#43519: the number of ties, 70,000, is inf in f16, and the gradient 0."""
        x = assay.ones(70_000, dtype=assay.float16).requires_grad_()
        (g,) = grad(compiled(lambda x: x.max())(x), [x])
        assert set(g.numpy().tolist()) == {float(np.float16(1 / 70_000))}

    def test_b49_second_derivatives(self, compiled: Callable[..., Any]) -> None:
        """pytorch#91469, #181581: zero, or those of something else, through a compiled function."""
        x, z = leaf([0.5, 1.5]), leaf(1.0)
        (first,) = grad(compiled(lambda x: x**4)(x).sum(), [x], create_graph=True)
        assert first.tolist() == [0.5, 13.5]
        assert grad(first.sum(), [x])[0].tolist() == [3.0, 27.0]
        (first,) = grad(compiled(lambda z: z**5)(z), [z], create_graph=True)
        assert (first.item(), grad(first, [z])[0].item()) == (5.0, 20.0)


def test_b46_what_a_backward_writes_is_written_by_the_backward() -> None:
    """pytorch#155242: a counter that the backward counts was counted after the forward."""
    counter = assay.zeros(1)

    class Counted(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            counter.add_(1.0)
            return g * 2

    x = leaf([1.0])
    y = Counted.apply(x)
    assert counter.item() == 0.0
    y.sum().backward()
    assert counter.item() == 1.0


@pytest.mark.parametrize(("budget", "most"), [(None, 2 * (4 * 64 + 64 * 64) + 4 * 4 * 64), (2 * 4 * 64, 2 * 4 * 64), (0, 0)])
def test_b50_no_more_is_saved_than_eager_saves(budget: int | None, most: int) -> None:
    """pytorch#141881: the cast of a weight was saved though the weight lives anyway; eager saves both casts and the product.

    Within the bytes of x the weight is cast again, to the same bits.
    """
    rng = np.random.default_rng(0)
    x, w = (leaf(rng.standard_normal(s).astype(np.float32)) for s in ((4, 64), (64, 64)))
    f = lambda x, w: (x.to(assay.float16) @ w.to(assay.float16)).float().square().sum()  # noqa: E731
    g = assay.compile(f, backend="reference", memory_budget=budget)
    got, wanted = grad(g(x, w), [x, w]), grad(f(x, w), [x, w])
    assert all(bits_equal(a.numpy(), b.numpy()) for a, b in zip(got, wanted, strict=True))
    assert g.derivatives.partitions[0][1].saved_bytes <= most
