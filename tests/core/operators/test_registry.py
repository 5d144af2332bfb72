"""The table itself: schemas, resolution, defaults, programs, in-place twins, the columns of every entry."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from assay.core import dtypes as dt
from assay.core.errors import Unsupported, UserError
from assay.core.lang import T
from assay.core.operators import OPERATORS, lookup, overloads, register, resolve
from assay.core.operators.registry import ALIASES
from assay.core.operators.samples import Like, like
from assay.core.operators.schema import MISSING, Type, parse, parse_type
from assay.semantics.denote import run
from tests.core.operators.calling import call, drawn

X, Y = like(3, 4), like(4)
FUNCTIONAL = [o for o in OPERATORS.values() if o.inplace_of is None]


def test_the_table_is_large_enough() -> None:
    assert len(FUNCTIONAL) >= 160


@pytest.mark.parametrize("o", OPERATORS.values(), ids=lambda o: o.name)
def test_every_entry_says_what_it_means_and_takes_its_schema(o):
    assert o.doc
    names = [p.name for p in o.params]
    assert len(set(names)) == len(names)
    inspect.signature(o.meaning).bind(*o.params)


@pytest.mark.parametrize(("text", "type_"), [
    ("Tensor", Type("Tensor")),
    ("Tensor?", Type("Tensor", optional=True)),
    ("Tensor[]", Type("Tensor", is_list=True)),
    ("Tensor?[]", Type("Tensor", is_list=True, optional_elements=True)),
    ("Tensor(a!)", Type("Tensor", writes=True)),
    ("Tensor(a)", Type("Tensor")),
    ("int[1]?", Type("int", is_list=True, length=1, optional=True)),
    ("int[2]", Type("int", is_list=True, length=2)),
    ("Scalar?", Type("Scalar", optional=True)),
    ("ScalarType?", Type("ScalarType", optional=True)),
])  # fmt: skip
def test_types_of_schemas(text, type_):
    assert parse_type(text) == type_


def test_a_schema():
    s = parse("pool(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, *, str mode='a,b') "
              "-> (Tensor values, Tensor)")  # fmt: skip
    assert (s.name, [p.name for p in s.params]) == ("pool.default", ["self", "kernel_size", "stride", "padding", "mode"])
    assert [p.default for p in s.params] == [MISSING, MISSING, (), (0, 0), "a,b"]
    assert [p.keyword_only for p in s.params] == [False, False, False, False, True]
    assert s.returns == ("values", "")


@pytest.mark.parametrize("text", ["add(Tensor self)", "add(Vector x) -> Tensor", "(Tensor self) -> Tensor",
                                  "add Tensor -> Tensor"])
def test_what_is_not_a_schema(text):
    with pytest.raises(UserError, match=r"schema"):
        parse(text)


@pytest.mark.parametrize(("base", "args", "kwargs", "name", "filled"), [
    ("add", (X, Y), {}, "add.Tensor", (X, Y, 1)),
    ("add", (X, Y), {"alpha": 2}, "add.Tensor", (X, Y, 2)),
    ("add", (X, 2), {}, "add.Scalar", (X, 2, 1)),
    ("add", (X, np.float32(2.5)), {}, "add.Scalar", (X, 2.5, 1)),
    ("mul", (X, True), {}, "mul.Scalar", (X, True)),
    ("sum", (X,), {}, "sum.default", (X, None)),
    ("sum", (X, -1), {}, "sum.dim_IntList", (X, (-1,), False, None)),
    ("sum", (X, [0, 1], True), {}, "sum.dim_IntList", (X, (0, 1), True, None)),
    ("sum", (X,), {"dim": 0, "dtype": dt.f64}, "sum.dim_IntList", (X, (0,), False, dt.f64)),
    ("max", (X,), {}, "max.default", (X,)),
    ("max", (X, 1), {}, "max.dim", (X, 1, False)),
    ("max", (X, Y), {}, "max.other", (X, Y)),
    ("var", (X, False), {}, "var.default", (X, False)),
    ("var", (X, 1), {}, "var.dim", (X, (1,), True, False)),
    ("var", (X,), {"correction": 0}, "var.correction", (X, None, 0, False)),
    ("clamp", (X, 0), {}, "clamp.default", (X, 0, None)),
    ("clamp", (X,), {"max": Y}, "clamp.Tensor", (X, None, Y)),
    ("arange", (5,), {}, "arange.default", (5, None)),
    ("arange", (1, 5), {}, "arange.start", (1, 5, None)),
    ("arange", (1, 5, 2), {}, "arange.start_step", (1, 5, 2, None)),
    ("squeeze", (X,), {}, "squeeze.default", (X,)),
    ("squeeze", (X, 0), {}, "squeeze.dim", (X, 0)),
    ("gelu", (X,), {}, "gelu.default", (X, "none")),
    ("pow", (2, X), {}, "pow.Scalar", (2, X)),
    ("slice", (X, 0, None, 3), {}, "slice.Tensor", (X, 0, None, 3, 1)),
    ("add_", (X, Y), {}, "add_.Tensor", (X, Y, 1)),
    ("multiply", (X, Y), {}, "mul.Tensor", (X, Y)),
    ("clip_", (X, 0, 1), {}, "clamp_.default", (X, 0, 1)),
    ("true_divide", (X, 2), {}, "div.Scalar", (X, 2)),
])  # fmt: skip
def test_resolution(base, args, kwargs, name, filled):
    for _ in range(2):  # the second time from the cache
        o, got = resolve(base, args, kwargs)
        assert (o.name, got) == (name, filled)
        assert [type(v) for v in got] == [type(v) for v in filled]


@pytest.mark.parametrize(("base", "args", "kwargs", "text"), [
    ("add", ("a", X), {}, "no overload"),
    ("add", (X,), {}, "no overload"),
    ("add", (X, Y, 2), {}, "no overload"),  # alpha is keyword-only
    ("add", (X, Y), {"gamma": 1}, "no overload"),
    ("sum", (X, True), {}, "no overload"),
    ("view", (X, [2.5]), {}, "no overload"),
    ("ad", (X, Y), {}, "did you mean: .*add"),
])  # fmt: skip
def test_calls_that_fit_no_overload(base, args, kwargs, text):
    with pytest.raises(UserError, match=text):
        resolve(base, args, kwargs)


def test_a_list_of_mixed_types_is_refused():
    with pytest.raises(UserError, match=r"element 'a'"):
        resolve("view", (X, [2, "a"]), {})


def test_aliases_are_other_names_of_what_exists():
    for alias, base in ALIASES.items():
        assert alias not in {o.base for o in OPERATORS.values()}
        assert overloads(alias) == overloads(base)


def test_lookup():
    assert lookup("add.Tensor") is OPERATORS["add.Tensor"]
    assert lookup("relu") is OPERATORS["relu.default"]
    with pytest.raises(UserError, match=r"add has: add.Scalar, add.Tensor"):
        lookup("add.Vector")


def test_a_name_is_defined_once():
    with pytest.raises(UserError, match="already defined"):
        register("relu(Tensor self) -> Tensor", lambda self: self)


def test_programs_are_cached_by_shape_type_and_attributes():
    o = OPERATORS["add.Scalar"]
    p = o.program(X, 2, 1)
    assert p is o.program(like(3, 4), 2, 1)
    whole = like(3, dtype=dt.i64)
    assert o.program(whole, 2, 1).outputs[0].dtype is not o.program(whole, 2.0, 1).outputs[0].dtype
    assert p is not o.program(like(3, 4, dtype=dt.f64), 2, 1)
    assert o.program(X, 0.0, 1) is not o.program(X, -0.0, 1)
    assert [t.name for t in p.inputs] == ["self"]


def test_errors_name_the_operator_and_its_arguments():
    with pytest.raises(UserError, match=r"add.Tensor\(f32\[3, 4\], f32\[5\], int 1\): shapes \[3, 4\], \[5\] do not broadcast"):
        OPERATORS["add.Tensor"].program(X, like(5), 1)
    with pytest.raises(UserError, match=r"mm.default.*shapes \[3, 4\] and \[3, 4\] do not multiply"):
        OPERATORS["mm.default"].program(X, X)
    with pytest.raises(UserError, match=r"sum.dim_IntList.*dim 2 is not an axis of a tensor of rank 2; allowed: -2..1"):
        OPERATORS["sum.dim_IntList"].program(X, (2,), False, None)


@pytest.mark.parametrize("o", [o for o in OPERATORS.values() if o.inplace_of], ids=lambda o: o.name)
def test_in_place_twins_store_the_functional_result(o):
    f = OPERATORS[o.inplace_of]
    assert o.schema.text.startswith(f"{f.base}_")
    assert "Tensor(a!) self" in o.schema.text
    assert [p.name for p in o.params] == [p.name for p in f.params]
    assert list(o.samples())
    for arguments in o.samples():
        p, q = o.program(*arguments), f.program(*arguments)
        assert (p.outputs[0].shape, p.outputs[0].dtype) == (tuple(arguments[0].shape), arguments[0].dtype)
        assert q.outputs[0].dtype is not p.outputs[0].dtype or p.outputs[0] is q.outputs[0]


def test_what_cannot_be_stored_in_place():
    with pytest.raises(UserError, match=r"type f32 cannot be stored in a tensor of type i64"):
        OPERATORS["add_.Scalar"].program(like(3, dtype=dt.i64), 1.5, 1)
    with pytest.raises(UserError, match=r"shape \[2, 3\] cannot be stored in a tensor of shape \[3\]"):
        OPERATORS["add_.Tensor"].program(like(3), like(2, 3), 1)
    assert call("add_", np.array([1.0], np.float32), np.array([0.1], np.float64))[0] == np.float32(np.float64(1) + 0.1)


@pytest.mark.parametrize("o", FUNCTIONAL, ids=lambda o: o.name)
def test_samples_evaluate_to_what_the_program_declares(o):
    rows = list(drawn(o))
    if not rows:  # only an operator whose result shape depends on the data has none
        with pytest.raises(Unsupported):
            o.meaning(*(X for _ in o.params))
    for arguments, likes in zip(rows[:4], o.samples(), strict=False):
        p = o.program(*likes)
        flat = [a for v in arguments for a in (v if isinstance(v, tuple) else [v]) if isinstance(a, np.ndarray)]
        for t, a in zip(p.outputs, run(p, flat), strict=True):
            assert isinstance(t, T)
            assert (t.shape, t.dtype.numpy) == (a.shape, a.dtype)


def test_the_order_of_overloads_does_not_depend_on_who_asks_first():
    assert [o.name for o in overloads("var")] == ["var.default", "var.dim", "var.correction"]


def test_like_is_a_tensor():
    assert Like((3,)).dtype is dt.f32
