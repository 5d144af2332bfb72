"""What each scalar row means, in literal numbers."""

import math

import numpy as np
import pytest

from assay.core import lang
from assay.core.dtypes import bf16, bool_, f16, f32, f64, i8, i16, i32, i64, u8
from assay.core.errors import UserError
from assay.core.lang import (
    bitcast,
    const,
    convert,
    input,
    op,
    select,
    tensor,
)
from assay.core.row import TABLE
from assay.semantics.denote import bits_equal, evaluate
from tests.semantics.test_denote import array, equal, value

inf, nan = math.inf, math.nan


def defined(kind, types):
    """(row, type) for every type of `types` that a row of the kind allows."""
    return [
        pytest.param(r, d, id=f"{r.name}-{d.name}")
        for r in TABLE.values()
        for d in types
        if r.kind == kind and allows(r, argument_types(r, d))
    ]


def allows(r, types):
    try:
        r.types(*types)
    except UserError:
        return False
    return True


def argument_types(r, d):
    return [bool_ if r.name == "select" and k == 0 else d for k in range(r.arity)]


def holds(v, d):
    """Whether the literal v is a value of type d."""
    if d.is_float:
        return isinstance(v, float) and (v != v or d is f64 or float(np.float32(v)) == v)
    return not isinstance(v, float) and (isinstance(v, bool) if d is bool_ else not isinstance(v, bool) and d.lo <= v <= d.hi)


@pytest.mark.parametrize(("row", "d"), defined("primitive", (f32, f64, i8, i16, i32, i64, u8, bool_)))
def test_rows_have_their_type_and_cases(row, d):
    """On every type a row allows: the declared result type, and those of the row's own cases that are of this type."""
    types = argument_types(row, d)
    result = row.types(*types)
    x = [input(f"x{k}", (), t) for k, t in enumerate(types)]
    y = tensor((), lambda: op(row.name, *(u[()] for u in x)))
    value(y, **{u.name: 1 for u in x})
    for *arguments, expected in row.cases:
        if all(map(holds, (*arguments, expected), (*types, result))):
            equal(value(y, **{f"x{k}": v for k, v in enumerate(arguments)}), expected, result)


WRAPS = [
    ("add", i8, (127, 1), -128),
    ("add", i64, (2**63 - 1, 1), -(2**63)),
    ("sub", u8, (0, 1), 255),
    ("mul", i32, (1 << 16, 1 << 16), 0),
    ("neg", i8, (-128,), -128),
    ("neg", u8, (1,), 255),
    ("abs", i64, (-(2**63),), -(2**63)),
    ("abs", i8, (-128,), -128),
    ("floordiv", i8, (-128, -1), -128),
    ("floordiv", i64, (-(2**63), -1), -(2**63)),
    ("floordiv", i32, (-7, 2), -4),
    ("floordiv", i32, (5, 0), 0),
    ("mod", i32, (-7, 2), 1),
    ("mod", i32, (7, -2), -1),
    ("mod", i64, (-(2**63), -1), 0),
    ("mod", u8, (7, 0), 0),
    ("shl", i8, (1, 7), -128),
    ("shl", i8, (1, 8), 0),
    ("shl", i32, (1, -1), 0),
    ("shr", i8, (-1, 9), -1),
    ("shr", u8, (255, 8), 0),
    ("shr", i32, (-8, 1), -4),
    ("bnot", u8, (0,), 255),
    ("umulhi", i32, (-1, -1), -2),
    ("umulhi", i32, (-(2**31), -(2**31)), 2**30),
    ("umulhi", i32, (2**31 - 1, -1), 2**31 - 2),
]


@pytest.mark.parametrize(("name", "d", "arguments", "expected"), WRAPS)
def test_integers_wrap_without_a_warning(name, d, arguments, expected):
    x = [input(f"x{k}", (3,), d) for k in range(len(arguments))]
    y = tensor((3,), lambda i: op(name, *(u[i] for u in x)))
    equal(value(y, **{f"x{k}": [v] * 3 for k, v in enumerate(arguments)}), [expected] * 3, d)
    scalars = [input(f"x{k}", (), d) for k in range(len(arguments))]
    y = tensor((), lambda: op(name, *(u[()] for u in scalars)))
    equal(value(y, **{f"x{k}": v for k, v in enumerate(arguments)}), expected, d)


CONVERSIONS = [
    (f32, i8, (nan, inf, -inf, 127.9, 128.0, -128.9, -129.0, -0.9), (0, 127, -128, 127, 127, -128, -128, 0)),
    (f32, u8, (nan, -1.0, -0.5, 255.5, 256.0, 1e30), (0, 0, 0, 255, 255, 255)),
    (f32, i32, (2.0**31, -(2.0**31), 2147483520.0, nan), (2**31 - 1, -(2**31), 2147483520, 0)),
    (f64, i32, (2147483647.9, 2147483648.0, -2147483648.9), (2147483647, 2147483647, -2147483648)),
    (f64, i64, (2.0**63, -(2.0**63), 9.2e18, inf, nan), (2**63 - 1, -(2**63), 9200000000000000000, 2**63 - 1, 0)),
    (f32, i64, (1e20, -1e20, 1.5), (2**63 - 1, -(2**63), 1)),
    (i64, f32, (2**24 + 1, 2**24 + 3, 2**63 - 1), (2.0**24, 2.0**24 + 4, 2.0**63)),
    (i64, i8, (128, 255, 256, -129), (-128, -1, 0, 127)),
    (i8, u8, (-1, -128), (255, 128)),
    (bool_, f32, (True, False), (1.0, 0.0)),
    (bool_, i64, (True, False), (1, 0)),
    (f32, bool_, (0.0, -0.0, nan, 1e-45), (False, False, True, True)),
    (f64, f32, (1e39, 1e-46, -0.0, nan, 1 + 2.0**-24, 1 + 3 * 2.0**-24), (inf, 0.0, -0.0, nan, 1.0, 1 + 2.0**-22)),
    (f32, f64, (1e-45, -0.0, nan), (2.0**-149, -0.0, nan)),
    (f32, f16, (65519.0, 65520.0, 2.0**-25, 2.0**-24, -0.0, 1 + 2.0**-11), (65504.0, inf, 0.0, 2.0**-24, -0.0, 1.0)),
    (f32, bf16, (1 + 2.0**-8, 1 + 3 * 2.0**-8, 3.4e38, -0.0, nan), (1.0, 1 + 2.0**-6, inf, -0.0, nan)),
    (f16, f32, (2.0**-24, -0.0, inf, nan), (2.0**-24, -0.0, inf, nan)),
    (f64, f16, (1 + 2.0**-11 + 2.0**-40,), (1.0,)),  # through f32: rounded twice
]


@pytest.mark.parametrize(("source", "target", "given", "expected"), CONVERSIONS)
def test_convert(source, target, given, expected):
    x = input("x", (len(given),), source)
    equal(value(tensor(x.shape, lambda i: convert(x[i], target)), x=given), expected, target)


BITCASTS = [
    (f32, (0.0, -0.0, 1.0, inf, 1e-45), (0, -(2**31), 0x3F800000, 0x7F800000, 1)),
    (f64, (-0.0, 1.0), (-(2**63), 0x3FF0000000000000)),
    (f16, (1.0, -2.0), (0x3C00, 0xC000 - 2**16)),
    (bf16, (1.0, -2.0), (0x3F80, 0xC000 - 2**16)),
]


@pytest.mark.parametrize(("d", "floats", "bits"), BITCASTS)
def test_bitcast_there_and_back(d, floats, bits):
    x = input("x", (len(floats),), d)
    y = tensor(x.shape, lambda i: bitcast(x[i]))
    equal(value(y, x=floats), bits, y.dtype)
    equal(value(tensor(x.shape, lambda i: bitcast(y[i], d)), x=floats), floats, d)


def test_select_chooses_bits_and_both_arms_are_total():
    x = input("x", (4,), f32)
    y = tensor((4,), lambda i: select(x[i] > 0, 1.0 / x[i], const(-0.0, f32)))
    equal(value(y, x=[2.0, 0.0, nan, inf]), [0.5, -0.0, -0.0, 0.0], f32)


def test_fma_rounds_once_and_mul_add_twice():
    x = input("x", (), f32)
    a = 1 + 2.0**-12
    equal(value(tensor((), lambda: op("fma", x[()], x[()], -1.0)), x=a), 2.0**-11 + 2.0**-24, f32)
    equal(value(tensor((), lambda: x[()] * x[()] - 1.0), x=a), 2.0**-11, f32)


def test_named_rows_mean_their_composition():
    x = input("x", (5,), f32)
    values = [nan, -1.0, -0.0, 2.5, inf]
    equal(value(tensor((5,), lambda i: op("relu", x[i])), x=values), [nan, 0.0, 0.0, 2.5, inf], f32)
    written = tensor((5,), lambda i: lang.expand(op("exp", x[i])))
    named = tensor((5,), lambda i: op("exp", x[i]))
    assert bits_equal(value(written, x=values), value(named, x=values))


@pytest.mark.parametrize(("row", "d"), defined("named", (f32, f64, i64)))
def test_a_named_row_does_not_look_at_its_arguments(row, d):
    """The composition over constants has the bits of the composition over values: so it may be compiled once a row."""
    for v in (nan, -0.0, 2.0) if d.is_float else (-3, 0, 5):
        x = [input(f"x{k}", (), d) for k in range(row.arity)]
        loaded = tensor((), lambda x=x: op(row.name, *(u[()] for u in x)))
        constant = tensor((), lambda v=v: lang.expand(op(row.name, *(const(v, d) for _ in row.params))))
        arrays = {u: array(v, d) for u in x}
        a, b = (evaluate([t], arrays)[0] for t in (loaded, constant))
        assert bits_equal(a, b), f"{row.name}({v}): {a} by value, {b} by constant"
