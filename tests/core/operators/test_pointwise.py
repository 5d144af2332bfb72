"""Pointwise operators against numpy formulas, on every sample of the table and on literal special values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from assay.core import dtypes as dt
from assay.core.dtypes import DType
from assay.core.errors import UserError
from assay.core.operators import OPERATORS
from assay.core.operators.build import largest_of, result_type
from assay.core.operators.samples import like
from tests.core.operators.calling import Array, array, call, drawn, evaluate, same

inf, nan = math.inf, math.nan
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy warns of overflow and invalid operations

# ------------------------------------------------------------------------------------------------ promotion


@pytest.mark.parametrize(("a", "b", "expected"), [
    ("f32[3]", "f32[3]", "f32"),
    ("f32[3]", "f64[3]", "f64"),
    ("f16[3]", "bf16[3]", "f32"),
    ("i64[3]", "f16[3]", "f16"),
    ("bool[3]", "u8[3]", "u8"),
    ("u8[3]", "i8[3]", "i16"),
    ("i32[3]", "i64[3]", "i64"),
    ("f32[3]", "f64[]", "f32"),  # a 0-d tensor of the same category is weak
    ("bf16[3]", "f64[]", "bf16"),
    ("i32[3]", "i64[]", "i32"),
    ("i32[3]", "f64[]", "f64"),  # of a higher category it is not
    ("i32[3]", "f16[]", "f16"),
    ("bool[3]", "i32[]", "i32"),
    ("f32[]", "f64[]", "f64"),
    ("f16[3]", 2.5, "f16"),
    ("i32[3]", 2.5, "f32"),
    ("i32[]", 2.5, "f32"),
    ("i32[3]", 2, "i32"),
    ("i8[3]", 1000, "i8"),
    ("bool[3]", 2, "i64"),
    ("bool[3]", True, "bool"),
    ("f64[]", 2.5, "f64"),
    ("u8[3]", True, "u8"),
])  # fmt: skip
def test_promotion(a, b, expected):
    def operand(text: Any) -> Any:
        if not isinstance(text, str):
            return text
        name, _, shape = text.partition("[")
        return like(*(int(n) for n in shape[:-1].split(",") if n), dtype=dt.DTYPES[name])

    for x, y in ((a, b), (b, a)):
        if isinstance(x, str):
            name = "mul.Tensor" if isinstance(y, str) else "mul.Scalar"
            assert OPERATORS[name].program(operand(x), operand(y)).outputs[0].dtype is dt.DTYPES[expected]


# ------------------------------------------------------------------------------------------------ against numpy


def computed(v: Any, common: DType) -> Any:
    """The operand as numpy computes with it: rounded to the common type, half types as f32."""
    a = np.asarray(v)
    if common.is_half:
        return a.astype(np.float32).astype(common.numpy).astype(np.float32)
    return a.astype(common.numpy)


def common_type(arguments: Any) -> DType:
    operands = [OPERATORS["alias.default"].program(Array(v)).outputs[0] if isinstance(v, np.ndarray) else v for v in arguments]
    return result_type(*(v for v in operands if v is not None))


def rounded(value: Any, d: DType) -> np.ndarray:
    value = np.asarray(value)
    return value.astype(np.float32).astype(d.numpy) if d.is_half and value.dtype != np.float32 else value.astype(d.numpy)


def arithmetic(f: Callable[..., Any], *, floats: bool = False, rest: int | None = None) -> Callable[..., np.ndarray]:
    """f in the common type of the first `rest` arguments (all), then rounded to it."""

    def oracle(*arguments: Any) -> np.ndarray:
        operands = arguments if rest is None else arguments[:rest]
        common = common_type(operands)
        common = dt.f32 if floats and not common.is_float else common
        return rounded(f(*(computed(v, common) for v in operands), *arguments[len(operands) :]), common)

    return oracle


def predicate(f: Callable[..., Any]) -> Callable[..., np.ndarray]:
    def oracle(*arguments: Any) -> np.ndarray:
        common = common_type(arguments)
        return np.asarray(f(*(computed(v, common) for v in arguments)), np.bool_)

    return oracle


def ordered(f: Any, *, first: bool) -> Callable[[Any, Any], Any]:
    """numpy's maximum or minimum with -0 < +0."""

    def g(x: Any, y: Any) -> Any:
        if x.dtype.kind != "f":
            return f(x, y)
        zero = np.where(np.signbit(x) == first, y, x)
        return np.where((x == 0) & (y == 0), zero, f(x, y))

    return g


maximum, minimum = ordered(np.maximum, first=True), ordered(np.minimum, first=False)


def times(alpha: Any, y: Any) -> Any:
    return y if alpha == 1 else np.asarray(alpha).astype(y.dtype) * y


def clamp(x: Any, lo: Any, hi: Any) -> np.ndarray:
    common = common_type([v for v in (x, lo, hi) if v is not None])
    y = computed(x, common)
    y = y if lo is None else maximum(y, computed(lo, common))
    return rounded(y if hi is None else minimum(y, computed(hi, common)), common)


def nan_to_num(x: Any, n: Any, p: Any, m: Any) -> np.ndarray:
    d = dt.dtype(x.dtype)
    if not d.is_float:
        return x
    largest = largest_of(d)
    y = np.where(np.isnan(x), rounded(n or 0.0, d), x)
    y = np.where(x == inf, rounded(largest if p is None else p, d), y)
    return rounded(np.where(x == -inf, rounded(-largest if m is None else m, d), y), d)


def lerp(a: Any, b: Any, w: Any) -> Any:
    one = np.ones((), a.dtype)
    return np.where(np.abs(w) < 0.5, a + w * (b - a), b - (b - a) * (one - w))


def round_decimals(x: Any, n: int) -> Any:
    if x.dtype.kind != "f":
        return x
    p = x.dtype.type(10.0 ** abs(n))
    return np.rint(x * p) / p if n > 0 else np.rint(x / p) * p


def where(c: Any, x: Any, y: Any) -> np.ndarray:
    common = common_type([x, y])
    return np.where(c, rounded(x, common), rounded(y, common))


def signbit(x: Any) -> Any:
    return np.signbit(x) & ~np.isnan(x) if x.dtype.kind == "f" else x < 0


def shift(f: Any, fill: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    def g(x: Any, n: Any) -> Any:
        inside = (n >= 0) & (n < 8 * x.dtype.itemsize)
        return np.where(inside, f(x, np.where(inside, n, 0).astype(x.dtype)), fill(x))

    return g


def bits(f: Any, logical: Any) -> Callable[..., np.ndarray]:
    return arithmetic(lambda *v: logical(*v) if v[0].dtype == np.bool_ else f(*v))


def truth(f: Any) -> Callable[..., np.ndarray]:
    return predicate(lambda *v: f(*(x != 0 for x in v)))


def is_(f: Any) -> Callable[..., np.ndarray]:
    return predicate(lambda x: f(x) if x.dtype.kind == "f" else np.full(x.shape, f is np.isfinite))


def whole(f: Any) -> Callable[..., np.ndarray]:
    return arithmetic(lambda x: f(x) if x.dtype.kind == "f" else x)


def sign(x: Any) -> Any:
    return np.where(np.isnan(x), 0, np.where(x == 0, 0, np.sign(x))) if x.dtype != np.bool_ else x


def ignoring_nan(f: Any) -> Any:
    return lambda x, y: np.where(np.isnan(x), y, np.where(np.isnan(y), x, f(x, y)))


def trunc_division(x: Any, y: Any) -> Any:
    """Exact integers, Python's own."""
    if x.dtype.kind == "f":
        return np.trunc(x / y)
    one = np.frompyfunc(lambda a, b: (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1), 2, 1)
    return np.asarray(one(x.astype(object), y.astype(object)), object).astype(np.int64)


def mode(x: Any, y: Any, m: str | None) -> np.ndarray:
    if m is None:
        return ORACLES["div.Tensor"](x, y)
    return arithmetic({"trunc": trunc_division, "floor": python_floor}[m])(x, y)


def python_floor(x: Any, y: Any) -> Any:
    return np.floor_divide(x, y) if x.dtype.kind != "f" else exactly(lambda a, b: a // b, x, y, np.divide)


def python_modulo(x: Any, y: Any) -> Any:
    return np.remainder(x, y) if x.dtype.kind != "f" else exactly(lambda a, b: a % b, x, y, lambda a, b: np.full((), nan))


def exactly(f: Any, x: Any, y: Any, by_zero: Any) -> Any:
    """Python's // or % on each pair of finite floats, in its double precision for f32; what Python refuses, numpy decides."""

    def one(a: Any, b: Any) -> Any:
        if b == 0:
            return by_zero(x.dtype.type(a), x.dtype.type(b))
        if math.isinf(a) or math.isnan(a) or math.isnan(b):
            return nan
        return f(float(a), float(b))

    x, y = np.broadcast_arrays(x, y)
    return np.array([one(a, b) for a, b in zip(x.ravel().tolist(), y.ravel().tolist(), strict=True)], np.float64).reshape(x.shape)


def power(x: Any, e: Any) -> np.ndarray:
    common = common_type([x, e])
    if common.is_float:
        return np.full((), nan)  # see test_powers
    return rounded(np.power(computed(x, common), computed(e, common)), common)


def isclose(x: Any, y: Any, rtol: float, atol: float, equal_nan: bool) -> Any:  # noqa: FBT001
    common = common_type([x, y])
    a, b = computed(x, common), computed(y, common)
    if common is dt.bool_:
        return a == b
    if not common.is_float:
        p, q = a.astype(np.float64), b.astype(np.float64)
        return (a == b) | (np.abs(p - q) <= np.abs(q) * rtol + atol)
    kind = a.dtype.type
    near = (np.abs(a - b) <= np.abs(b) * kind(rtol) + kind(atol)) & np.isfinite(a) & np.isfinite(b) & np.isfinite(a - b)
    return (a == b) | near | (np.isnan(a) & np.isnan(b) & equal_nan)


def ldexp(x: Any, n: Any) -> np.ndarray:
    """Where 2**n is a power of two that is stored exactly; elsewhere nothing is claimed here (see test_elementary.py)."""
    common = common_type([x, n])
    common = common if common.is_float else dt.f32
    a, b = computed(x, common), computed(n, common)
    whole = (b == np.rint(b)) & (np.abs(b) < 100)
    got = evaluate(OPERATORS["ldexp.Tensor"], (x, n))
    return np.where(whole, rounded(a * np.exp2(b.astype(np.float64)).astype(a.dtype), common), got)


ORACLES: dict[str, Callable[..., Any]] = {}
for _names, _oracle in {
    "add.Tensor add.Scalar": arithmetic(lambda x, y, a: x | y if x.dtype == bool else x + times(a, y), rest=2),
    "sub.Tensor sub.Scalar": arithmetic(lambda x, y, a: x - times(a, y), rest=2),
    "rsub.Tensor rsub.Scalar": arithmetic(lambda x, y, a: y - times(a, x), rest=2),
    "mul.Tensor mul.Scalar": arithmetic(np.multiply),
    "div.Tensor div.Scalar": arithmetic(np.divide, floats=True),
    "div.Tensor_mode div.Scalar_mode": mode,
    "floor_divide.default floor_divide.Scalar": arithmetic(python_floor),
    "remainder.Tensor remainder.Scalar remainder.Scalar_Tensor": arithmetic(python_modulo),
    "fmod.Tensor fmod.Scalar": arithmetic(np.fmod),
    "reciprocal.default": arithmetic(lambda x: np.ones((), x.dtype) / x, floats=True),
    "neg.default": arithmetic(np.negative),
    "abs.default": arithmetic(np.abs),
    "square.default": arithmetic(lambda x: x * x),
    "sign.default": arithmetic(sign),
    "maximum.default max.other": arithmetic(maximum),
    "minimum.default min.other": arithmetic(minimum),
    "fmax.default": arithmetic(ignoring_nan(maximum)),
    "fmin.default": arithmetic(ignoring_nan(minimum)),
    "clamp.default clamp.Tensor": clamp,
    "clamp_min.default clamp_min.Tensor": lambda x, lo: clamp(x, lo, None),
    "clamp_max.default clamp_max.Tensor": lambda x, hi: clamp(x, None, hi),
    "addcmul.default": arithmetic(lambda x, a, b, v: x + times(v, a) * b, rest=3),
    "addcdiv.default": arithmetic(lambda x, a, b, v: x + times(v, a) / b, rest=3),
    "lerp.Tensor lerp.Scalar": arithmetic(lerp),
    "nan_to_num.default": nan_to_num,
    "signbit.default": predicate(signbit),
    "copysign.Tensor copysign.Scalar": arithmetic(lambda x, y: np.where(signbit(y), -np.abs(x), np.abs(x)), floats=True),
    "floor.default": whole(np.floor),
    "ceil.default": whole(np.ceil),
    "trunc.default": whole(np.trunc),
    "round.default": whole(np.rint),
    "round.decimals": arithmetic(round_decimals, rest=1),
    "frac.default": arithmetic(lambda x: x - np.trunc(x)),
    "eq.Tensor eq.Scalar": predicate(np.equal),
    "ne.Tensor ne.Scalar": predicate(np.not_equal),
    "lt.Tensor lt.Scalar": predicate(np.less),
    "le.Tensor le.Scalar": predicate(np.less_equal),
    "gt.Tensor gt.Scalar": predicate(np.greater),
    "ge.Tensor ge.Scalar": predicate(np.greater_equal),
    "isnan.default": is_(np.isnan),
    "isinf.default": is_(np.isinf),
    "isfinite.default": is_(np.isfinite),
    "isposinf.default": is_(np.isposinf),
    "isneginf.default": is_(np.isneginf),
    "logical_and.default": truth(np.logical_and),
    "logical_or.default": truth(np.logical_or),
    "logical_xor.default": truth(np.logical_xor),
    "logical_not.default": truth(np.logical_not),
    "bitwise_and.Tensor bitwise_and.Scalar": bits(np.bitwise_and, np.logical_and),
    "bitwise_or.Tensor bitwise_or.Scalar": bits(np.bitwise_or, np.logical_or),
    "bitwise_xor.Tensor bitwise_xor.Scalar": bits(np.bitwise_xor, np.logical_xor),
    "bitwise_not.default": bits(np.bitwise_not, np.logical_not),
    "bitwise_left_shift.Tensor bitwise_left_shift.Tensor_Scalar": arithmetic(shift(np.left_shift, np.zeros_like)),
    "bitwise_right_shift.Tensor bitwise_right_shift.Tensor_Scalar": arithmetic(shift(np.right_shift,
                                                                                     lambda x: np.where(x < 0, -1, 0))),
    "isclose.default": isclose,
    "heaviside.default": arithmetic(lambda x, v: np.where(x == 0, v, x > 0)),
    "ldexp.Tensor": ldexp,
    "where.self where.ScalarSelf where.ScalarOther where.Scalar": where,
}.items():
    ORACLES.update(dict.fromkeys(_names.split(), _oracle))

INTEGER_ONLY = {"pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow.Scalar"}
FAMILIES = ("pointwise", "division", "compare")


def test_every_overload_has_an_oracle():
    expected = {o.name for o in OPERATORS.values() if o.family in FAMILIES and o.inplace_of is None}
    assert expected - ORACLES.keys() == INTEGER_ONLY


@pytest.mark.parametrize("name", ORACLES)
def test_against_numpy(name):
    for arguments in drawn(OPERATORS[name]):
        actual, expected = evaluate(OPERATORS[name], arguments), ORACLES[name](*arguments)
        assert same(actual, expected), f"{name}{arguments}:\n{actual!r}\n{expected!r}"


# ------------------------------------------------------------------------------------------------ literal values


@pytest.mark.parametrize(("name", "args", "expected", "dtype"), [
    ("add", ([-0.0, -0.0, inf], [-0.0, 0.0, -inf]), [-0.0, 0.0, nan], "f32"),
    ("add", ([250, 1], [10, 1]), [4, 2], "u8"),
    ("sub", ([0, -128], [1, 1]), [-1, 127], "i8"),
    ("mul", ([True, True, False], [True, False, False]), [True, False, False], "bool"),
    ("neg", ([0.0, -0.0, -inf, nan],), [-0.0, 0.0, inf, nan], "f32"),
    ("neg", ([-128, 5],), [-128, -5], "i8"),
    ("abs", ([-0.0, -inf, -1e-45],), [0.0, inf, 1e-45], "f32"),
    ("sign", ([-2.5, -0.0, 0.0, nan, inf],), [-1.0, 0.0, 0.0, 0.0, 1.0], "f32"),
    ("maximum", ([-0.0, 0.0, nan, 1.0], [0.0, -0.0, 1.0, nan]), [0.0, 0.0, nan, nan], "f32"),
    ("minimum", ([-0.0, 0.0, nan, 1.0], [0.0, -0.0, 1.0, nan]), [-0.0, -0.0, nan, nan], "f32"),
    ("fmax", ([nan, 1.0, nan], [2.0, nan, nan]), [2.0, 1.0, nan], "f32"),
    ("reciprocal", ([0.0, -0.0, 2.0, inf],), [inf, -inf, 0.5, 0.0], "f32"),
    ("round", ([0.5, 1.5, 2.5, -0.5, -2.5],), [0.0, 2.0, 2.0, -0.0, -2.0], "f32"),
    ("ceil", ([-0.5, 0.5],), [-0.0, 1.0], "f32"),
    ("trunc", ([-0.5, -1.5, inf],), [-0.0, -1.0, inf], "f32"),
    ("frac", ([1.5, -1.5, -1.0, inf],), [0.5, -0.5, 0.0, nan], "f32"),
    ("floor_divide", ([-7, 7, -8], [2, -2, 3]), [-4, -4, -3], "i32"),
    ("remainder", ([-7, 7, -8], [2, -2, 3]), [1, -1, 1], "i32"),
    ("fmod", ([-7, 7, -8], [2, -2, 3]), [-1, 1, -2], "i32"),
    ("remainder", ([-5.5, 5.5, -1.0, 1.0, -6.0, 6.0], [3.0, -3.0, inf, -inf, 3.0, -3.0]), [0.5, -0.5, inf, -inf, 0.0, -0.0],
     "f32"),
    ("floor_divide", ([-5.5, 5.5, -1.0, 1.0, 1.0, -1.0, 0.0], [3.0, -3.0, inf, -inf, 0.0, 0.0, 0.0]),
     [-2.0, -2.0, -1.0, -1.0, inf, -inf, nan], "f32"),
    ("floor_divide", ([-72962.765625, 141999.265625], [0.33326295018196106, 2.7307257652282715]), [-218935.0, 52000.0], "f32"),
    ("fmod", ([5.5, -5.5, 1.0, -0.0], [3.0, 3.0, inf, 3.0]), [2.5, -2.5, 1.0, -0.0], "f64"),
    ("heaviside", ([-0.0, -1.0, inf, nan], [0.5, 0.5, 0.5, 0.5]), [0.5, 0.0, 1.0, 0.0], "f32"),
    ("ldexp", ([1.5, -0.0, inf, 1.0], [3.0, 5.0, -2.0, -149.0]), [12.0, -0.0, inf, 1e-45], "f32"),
    ("copysign", ([1.0, -2.0, nan], [-0.0, 0.0, -1.0]), [-1.0, 2.0, nan], "f32"),
    ("copysign", ([1.0, -1.0], [nan, -nan]), [1.0, 1.0], "f32"),  # a NaN has no sign
    ("bitwise_left_shift", ([7, -7, 1], [64, 1, -1]), [0, -14, 0], "i64"),
    ("bitwise_right_shift", ([7, -7, -1], [64, 70, -1]), [0, -1, -1], "i64"),
])  # fmt: skip
def test_values(name, args, expected, dtype):
    actual = call(name, *(array(v, dtype) for v in args))
    assert same(actual, array(expected, dtype)), actual


@pytest.mark.parametrize(("name", "args", "expected"), [
    ("eq", ([nan, 0.0], [nan, -0.0]), [False, True]),
    ("ne", ([nan, 0.0], [nan, -0.0]), [True, False]),
    ("lt", ([-0.0, 1.0, nan], [0.0, inf, 1.0]), [False, True, False]),
    ("ge", ([nan, inf], [nan, inf]), [False, True]),
    ("signbit", ([-0.0, 0.0, -nan, -inf],), [True, False, False, True]),
    ("isfinite", ([nan, inf, -inf, 3e38],), [False, False, False, True]),
    ("logical_not", ([nan, 0.0, -0.0],), [False, True, True]),
    ("isclose", ([-(2.0**31), 2.0**31], [2.0**31, 2.0**31]), [False, True]),
    ("isclose", ([inf, -inf, nan, 1.0, 3e38], [inf, inf, nan, 1.000001, -3e38]), [True, False, False, True, False]),
])  # fmt: skip
def test_truth_values(name, args, expected):
    assert same(call(name, *(array(v) for v in args)), np.array(expected))


@pytest.mark.parametrize(("base", "exponent", "expected", "dtype"), [
    ([0.0, 1.0, nan, -1.0, 2.0], [0.0, nan, 0.0, inf, 10.0], [1.0, 1.0, 1.0, 1.0, 1024.0], "f32"),
    ([-0.0, -0.0, -8.0], [-3.0, 3.0, 0.5], [-inf, -0.0, nan], "f64"),
    ([2.0, 3.0], [2.0, 3.0], [4.0, 27.0], "f16"),
    ([0, 2, -3, 10], [64, 63, 3, 0], [0, -(2**63), -27, 1], "i64"),
    ([3, 2], [5, 8], [243, 0], "u8"),
    ([-1, -1], [127, 126], [-1, 1], "i8"),
])  # fmt: skip
def test_powers(base, exponent, expected, dtype):
    assert same(call("pow", array(base, dtype), array(exponent, dtype)), array(expected, dtype))


@pytest.mark.parametrize(("x", "exponent", "expected"), [
    ([3.0, nan, -0.0], 2, [9.0, nan, 0.0]),
    ([3.0, nan, -0.0], 1, [3.0, nan, -0.0]),
    ([3.0, nan, inf], 0, [1.0, 1.0, 1.0]),
    ([2.0, -0.0, inf], -1, [0.5, -inf, 0.0]),
    ([4.0, -0.0, -inf], 0.5, [2.0, 0.0, inf]),  # pow, not sqrt
])  # fmt: skip
def test_constant_exponents(x, exponent, expected):
    assert same(call("pow", array(x), exponent), array(expected))


@pytest.mark.parametrize("name", sorted(INTEGER_ONLY))
def test_integer_powers_against_numpy(name):
    seen = 0
    for arguments in drawn(OPERATORS[name]):
        if not common_type(arguments).is_float:
            seen += 1
            assert same(evaluate(OPERATORS[name], arguments), power(*arguments)), arguments
    assert seen


def test_division_by_zero_of_integers_raises():
    x, zero = array([7, 8], "i32"), array([2, 0], "i32")
    for name in ("floor_divide", "remainder", "fmod"):
        with pytest.raises(ZeroDivisionError, match="integer division by zero"):
            call(name, x, zero)
        with pytest.raises(ZeroDivisionError):
            call(name, x, 0)
        with pytest.raises(ZeroDivisionError):
            call(name, x, array(0, "i32"))
        with pytest.raises(ZeroDivisionError):
            call(name, array([1], "u8"), 256)  # 0 in eight bits
        assert call(name, array([], "i32"), array(0, "i32")).shape == (0,)  # nothing is divided
    with pytest.raises(ZeroDivisionError):
        call("div", x, zero, rounding_mode="trunc")


def test_negative_integer_powers_raise():
    with pytest.raises(ValueError, match="negative integer powers"):
        call("pow", array([2, 2], "i64"), array([1, -1], "i64"))
    with pytest.raises(ValueError, match="negative integer powers"):
        call("pow", array([2, 2], "i64"), -1)
    assert same(call("pow", array([2.0]), array([-1], "i64")), array([0.5]))


@pytest.mark.parametrize(("name", "args"), [
    ("sub", (array([True], "bool"), array([True], "bool"))),
    ("neg", (array([True], "bool"),)),
    ("floor_divide", (array([True], "bool"), array([True], "bool"))),
    ("bitwise_and", (array([1.0]), array([1.0]))),
    ("bitwise_left_shift", (array([1.0]), 1)),
    ("addcdiv", (array([1], "i64"), array([1], "i64"), array([1], "i64"))),
    ("clamp", (array([1.0]),)),
    ("add", (array([1], "i64"), array([1], "i64"), 0.5)),
    ("where", (array([1.0]), array([1.0]), array([1.0]))),
    ("mul", (array([1], "i64"), 2**70)),
])  # fmt: skip
def test_what_is_not_defined(name, args):
    with pytest.raises(UserError):
        call(name, *args[:2], alpha=args[2]) if name == "add" else call(name, *args)


def test_a_half_operator_rounds_once():
    x = array([2048.0], "f16")
    assert same(call("add", x, array([1.0], "f16"), alpha=1.5), array([2050.0], "f16"))  # 2048 + 1.5 in f32, not 2048 + f16(...)
    assert same(call("addcmul", array([-40000.0], "f16"), array([400.0], "f16"), array([200.0], "f16")), array([40000.0], "f16"))
