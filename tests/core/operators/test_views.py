"""Views and rearrangements against numpy, on every sample; inverses against numpy's writes through views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from assay.core.errors import OutOfBounds, UserError
from assay.core.operators import OPERATORS
from assay.core.operators.samples import like
from tests.core.operators.calling import array, call, drawn, evaluate, same


def squeeze(x: Any, d: Any = None) -> Any:
    axes = range(x.ndim) if d is None else [d] if isinstance(d, int) else d
    keep = {k % max(x.ndim, 1) for k in axes}
    return x.reshape([n for k, n in enumerate(x.shape) if k not in keep or n != 1])


def split(x: Any, sizes: Any, d: int) -> Any:
    return tuple(np.split(x, np.cumsum(sizes)[:-1], axis=d))


def parts_of(n: int, size: int) -> list[int]:
    return [size] * (n // size) + ([n % size] if n % size or n == 0 else [])


def unfold(x: Any, d: int, size: int, step: int) -> Any:
    n = (x.shape[d] - size) // step + 1
    return np.stack([np.moveaxis(np.take(x, range(w * step, w * step + size), axis=d), d, -1) for w in range(n)], axis=d)


def diagonal(x: Any, k: int, a: int, b: int) -> Any:
    return np.diagonal(x, k, a, b)


def diag_embed(x: Any, k: int, a: int, b: int) -> Any:
    n = x.shape[-1] + abs(k)
    y = np.zeros((*x.shape[:-1], n, n), x.dtype)
    at = np.arange(x.shape[-1])
    y[..., at + max(-k, 0), at + max(k, 0)] = x
    return np.moveaxis(y, (-2, -1), (a, b))


def as_strided(x: Any, size: Any, stride: Any, offset: Any) -> Any:
    return np.ndarray(size, x.dtype, x, (offset or 0) * x.itemsize, [s * x.itemsize for s in stride])


VIEWS: dict[str, Callable[..., Any]] = {
    "as_strided.default": as_strided,
    "view.default": lambda x, s: x.reshape(s),
    "reshape.default": lambda x, s: x.reshape(s),
    "view_as.default": lambda x, y: x.reshape(y.shape),
    "ravel.default": lambda x: x.reshape(x.size),
    "flatten.using_ints": lambda x, a, b: x.reshape((*x.shape[: a % max(x.ndim, 1)], -1, *x.shape[x.ndim + b + 1 :]))
    if x.size else x.reshape((*x.shape[: a % x.ndim], int(np.prod(x.shape[a % x.ndim :])))),
    "unflatten.int": lambda x, d, s: x.reshape((*x.shape[: d % x.ndim], *s, *x.shape[d % x.ndim + 1 :])),
    "squeeze.default": squeeze,
    "squeeze.dim": squeeze,
    "squeeze.dims": squeeze,
    "unsqueeze.default": np.expand_dims,
    "permute.default": np.transpose,
    "transpose.int": lambda x, a, b: np.swapaxes(x, a, b) if x.ndim else x,
    "swapaxes.default": lambda x, a, b: np.swapaxes(x, a, b) if x.ndim else x,
    "t.default": lambda x: x.T,
    "numpy_T.default": lambda x: x.T,
    "mT.default": lambda x: np.swapaxes(x, -1, -2),
    "movedim.int": np.moveaxis,
    "movedim.intlist": np.moveaxis,
    "expand.default": lambda x, s, _: np.broadcast_to(x, [m if n == -1 else n for n,
                                                          m in zip(s, (1,) * (len(s) - x.ndim) + x.shape, strict=True)]),
    "expand_as.default": lambda x, y: np.broadcast_to(x, y.shape),
    "broadcast_to.default": np.broadcast_to,
    "select.int": lambda x, d, k: np.moveaxis(x, d, 0)[k, ...],
    "slice.Tensor": lambda x, d, a, b, s: np.moveaxis(np.moveaxis(x, d, 0)[a:b:s], 0, d),
    "narrow.default": lambda x, d, a, n: np.moveaxis(np.moveaxis(x, d, 0)[a % x.shape[d] if a < 0 else a :][:n], 0, d),
    "diagonal.default": diagonal,
    "unfold.default": unfold,
    "unbind.int": lambda x, d: tuple(np.moveaxis(x, d, 0)[k, ...] for k in range(x.shape[d])),
    "split.Tensor": lambda x, n, d: split(x, parts_of(x.shape[d], n), d),
    "split_with_sizes.default": split,
    "split.sizes": split,
    "chunk.default": lambda x, n, d: split(x, parts_of(x.shape[d], -(-x.shape[d] // n)) if x.shape[d] else [0] * n, d),
    "alias.default": lambda x: x,
    "detach.default": lambda x: x,
}
COPIES: dict[str, Callable[..., Any]] = {
    "clone.default": lambda x: x,
    "contiguous.default": lambda x: x,
    "flip.default": np.flip,
    "fliplr.default": np.fliplr,
    "flipud.default": np.flipud,
    "roll.default": lambda x, s, d: np.roll(x, s, d) if d else np.roll(x, s[0]),
    "rot90.default": np.rot90,
    "repeat.default": np.tile,
    "tile.default": np.tile,
    "repeat_interleave.self_int": np.repeat,
    "diag.default": np.diag,
    "diag_embed.default": diag_embed,
    "tril.default": np.tril,
    "triu.default": np.triu,
    "overwritten.default": lambda x, new: new,
}
NO_WRITE = ("expand.default", "expand_as.default", "broadcast_to.default", "unfold.default")


def test_every_overload_has_an_oracle():
    table = {o.name: o for o in OPERATORS.values() if o.family in ("views", "rearrange") and o.inplace_of is None}
    assert table.keys() == {**VIEWS, **COPIES}.keys()
    assert {name for name, o in table.items() if o.view} == VIEWS.keys()


@pytest.mark.parametrize(("name", "oracle"), {**VIEWS, **COPIES}.items())
def test_against_numpy(name, oracle):
    for arguments in drawn(OPERATORS[name]):
        if name == "flip.default" and not arguments[1]:
            continue  # numpy flips every axis then; see test_values
        actual, expected = evaluate(OPERATORS[name], arguments), oracle(*arguments)
        assert same(actual, expected), f"{name}{arguments}:\n{actual!r}\n{expected!r}"


def apply(name: str, *arguments: Any) -> Any:
    return evaluate(OPERATORS[name], arguments)


@pytest.mark.parametrize("name", [name for name in VIEWS if name not in NO_WRITE])
def test_inverse_equals_a_write_through_numpy(name):
    for x, *rest in drawn(OPERATORS[name]):
        base = x.copy()
        view = VIEWS[name](base, *rest)
        views = view if isinstance(view, tuple) else (view,)
        for k, part in enumerate(views):
            if part.size and not np.shares_memory(part, base):
                continue  # this reshape is a copy in numpy
            base[...] = x
            new = np.ones(part.shape, part.dtype)
            if part.size:
                part.setflags(write=True)
                part[...] = new
            extra = {"output": k} if isinstance(view, tuple) else {}
            rest_of = [r for r in rest if not isinstance(r, np.ndarray)] if name != "view_as.default" else rest
            got = OPERATORS[name].inverse(apply, x, new, *rest_of, **extra)
            assert same(got, base), f"{name}{(x, *rest)} output {k}:\n{got!r}\n{base!r}"


@pytest.mark.parametrize("name", NO_WRITE)
def test_what_repeats_elements_cannot_be_written_to(name):
    with pytest.raises(UserError, match="clone it first"):
        OPERATORS[name].inverse(apply, array([1.0]), array([1.0]), (3,), False)


@pytest.mark.parametrize(("name", "args", "expected"), [
    ("flip", ([[1.0, 2.0]], ()), [[1.0, 2.0]]),
    ("roll", ([1.0, 2.0, 3.0], 7, 0), [3.0, 1.0, 2.0]),
    ("tril", ([[1.0, np.nan], [np.inf, -0.0]],), [[1.0, 0.0], [np.inf, -0.0]]),
    ("triu", ([[1.0, -0.0], [np.inf, 2.0]], 1), [[0.0, -0.0], [0.0, 0.0]]),
    ("repeat_interleave", ([1.0, 2.0], 2), [1.0, 1.0, 2.0, 2.0]),
    ("slice", ([1.0, 2.0, 3.0], 0, -2, None), [2.0, 3.0]),
    ("slice", ([1.0, 2.0, 3.0], 0, 2, 1), []),
    ("select", ([1.0, 2.0, 3.0], 0, -1), 3.0),
    ("unfold", ([1.0, 2.0, 3.0], 0, 2, 1), [[1.0, 2.0], [2.0, 3.0]]),
])  # fmt: skip
def test_values(name, args, expected):
    x, *rest = args
    assert same(call(name, array(x), *rest), array(expected))


@pytest.mark.parametrize(("name", "args", "error"), [
    ("view", ((3, 4), (5, 2)), UserError),
    ("view", ((3, 4), (-1, -1)), UserError),
    ("view", ((0, 4), (-1, 0)), UserError),
    ("view", ((3, 4), (-2, 6)), UserError),
    ("t", ((2, 3, 4),), UserError),
    ("permute", ((3, 4), (0, 0)), UserError),
    ("permute", ((3, 4), (0,)), UserError),
    ("transpose", ((3, 4), 0, 2), UserError),
    ("expand", ((3, 4), (3, 5)), UserError),
    ("expand", ((3, 4), (4,)), UserError),
    ("expand", ((4,), (-1, 4)), UserError),
    ("select", ((3, 4), 0, 3), OutOfBounds),
    ("select", ((3, 4), 1, -5), OutOfBounds),
    ("select", ((1,), 0, 1), OutOfBounds),
    ("select", ((), 0, 0), UserError),
    ("slice", ((3, 4), 0, 0, 3, 0), UserError),
    ("narrow", ((3, 4), 0, 2, 2), UserError),
    ("unfold", ((3,), 0, 4, 1), UserError),
    ("as_strided", ((3,), (2,), (2,), 1), UserError),
    ("as_strided", ((3,), (2,), (-1,), 1), UserError),
    ("as_strided", ((3,), (2, 1), (1,)), UserError),
    ("split", ((3,), 0), UserError),
    ("chunk", ((3,), 0), UserError),
    ("split_with_sizes", ((3,), (1, 1)), UserError),
    ("split", ((3,), (1, 1)), UserError),
    ("diagonal", ((3, 4), 0, 1, 1), UserError),
    ("unsqueeze", ((3, 4), 3), UserError),
    ("repeat", ((3, 4), (2,)), UserError),
    ("rot90", ((3,), 1, (0, 0)), UserError),
    ("tril", ((3,),), UserError),
])  # fmt: skip
def test_bad_arguments(name, args, error):
    shape, *rest = args
    with pytest.raises(error):
        call(name, np.zeros(shape, np.float32), *rest)


def test_a_view_is_one_load():
    """No arithmetic, no select: what a view reads is an index expression of its parent."""
    for name in VIEWS:
        for arguments in OPERATORS[name].samples():
            p = OPERATORS[name].program(*arguments)
            for t in p.outputs:
                if t is not p.inputs[0]:
                    body = t.body.args[0] if t.body.op == "stop" else t.body  # detach
                    assert body.op == ("load" if t.size or body is not t.body else "const"), name


def test_a_split_axis_that_joins_again_is_the_axis():
    p = OPERATORS["view.default"].program(like(128, 64), (2, 64, 64))
    q = OPERATORS["view.default"].meaning(p.outputs[0], (128, 64))
    i, j = q.body.attr[1][0], q.body.attr[1][1]
    assert (repr(i), repr(j)) == ("(i0)//64", "i0+-64*(i0)//64")
