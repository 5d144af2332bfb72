"""Pullbacks made of named operators, where ATen has the name: expand for a sum, gelu_backward for gelu, products for a product.

    RULES["mul.Scalar"] = {"self": lambda g, other: call("mul.Scalar", g, other)}

Each is a law, not a definition: its gradient has the bits of the derived one (tests/frontends/test_rules.py).  What there is to
gain: the graph of a gradient reads as ATen's would, a broadcast gradient is a view, an addition passes its cotangent on.
A rule gives the gradient of one argument; the names of its parameters are what it reads: g, the cotangent; an argument;
x_shape, the shape of the argument x.  Rules concern calls whose tensors, results included, have one type.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from assay.core.operators.registry import Operator
from assay.frontends.value import Value, apply_by_name

call = apply_by_name
Rule = Callable[..., Value]


def _same(g: Value) -> Value:
    return g


def _rows(g: Value, self_shape: tuple[int, ...], dim: tuple[int, ...], keepdim: bool) -> Value:  # noqa: FBT001
    """The cotangent of a sum over some axes, once for each element that was summed."""
    rank = len(self_shape)
    summed = {d % rank for d in dim} if dim else set(range(rank))
    if not keepdim:
        g = call("reshape", g, tuple([1 if k in summed else n for k, n in enumerate(self_shape)]))
    return call("expand", g, self_shape)


def _inverse(dims: tuple[int, ...]) -> tuple[int, ...]:
    axes = [d % len(dims) for d in dims]
    return tuple(sorted(range(len(dims)), key=axes.__getitem__))


RULES: dict[str, dict[str, Rule]] = {
    "add.Tensor": {"self": _same, "other": _same},
    "sub.Tensor": {"self": _same, "other": lambda g: call("neg", g)},
    "add.Scalar": {"self": _same},
    "sub.Scalar": {"self": _same},
    "neg.default": {"self": lambda g: call("neg", g)},
    "mul.Scalar": {"self": lambda g, other: call("mul.Scalar", g, other)},
    "t.default": {"self": lambda g: call("t", g)},
    "permute.default": {"self": lambda g, dims: call("permute", g, _inverse(dims))},
    "transpose.int": {"self": lambda g, dim0, dim1: call("transpose", g, dim0, dim1)},
    "reshape.default": {"self": lambda g, self_shape: call("reshape", g, self_shape)},
    "view.default": {"self": lambda g, self_shape: call("reshape", g, self_shape)},
    "unsqueeze.default": {"self": lambda g, self_shape: call("reshape", g, self_shape)},
    "squeeze.default": {"self": lambda g, self_shape: call("reshape", g, self_shape)},
    "squeeze.dim": {"self": lambda g, self_shape: call("reshape", g, self_shape)},
    "sum.default": {"self": lambda g, self_shape: call("expand", g, self_shape)},
    "sum.dim_IntList": {"self": _rows},
    "gelu.default": {"self": lambda g, self, approximate: call("gelu_backward", g, self, approximate=approximate)},
    "mm.default": {"self": lambda g, mat2: call("mm", g, call("t", mat2)),
                   "mat2": lambda g, self: call("mm", call("t", self), g)},
    "matmul.default": {"self": lambda g, other: call("matmul", g, call("t", other)),
                       "other": lambda g, self: call("matmul", call("t", self), g)},
}  # fmt: skip


def reads(rule: Rule) -> tuple[str, ...]:
    """The names of the rule's parameters."""
    found = _READS.get(rule)
    if found is None:
        found = _READS[rule] = tuple(inspect.signature(rule).parameters)
    return found


_READS: dict[Rule, tuple[str, ...]] = {}


def rules_of(op: Operator, args: tuple[Any, ...], results: tuple[Value, ...]) -> dict[str, Rule] | None:
    """The rules for a call, by parameter; None: its derivative is derived."""
    found = RULES.get(op.name)
    if found is None or len(results) != 1:
        return None
    tensors = [a for a in args if isinstance(a, Value)]
    if any(t.dtype is not results[0].dtype for t in tensors):
        return None
    if op.base == "matmul" and any(len(t.shape) != 2 for t in tensors):
        return None
    if op.name in ("add.Tensor", "sub.Tensor") and (args[2] != 1 or any(t.shape != results[0].shape for t in tensors)):
        return None
    return found
