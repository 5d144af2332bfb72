"""Calls of operators on tensor handles: overload resolution, in-place updates, results that share storage.

call("add", (x, 2), {})       resolve the overload by the arguments, then apply it
apply(op, arguments)          handles -> values -> the interpreter stack -> handles
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterable
from typing import Any

from assay.core import dtypes
from assay.core.dtypes import category
from assay.core.errors import NoView, Unsupported, UserError
from assay.core.index import is_symbolic
from assay.core.operators import OPERATORS, overloads
from assay.core.operators.registry import Operator
from assay.core.operators.schema import describe
from assay.frontends import numpy_calls, source, tensor
from assay.frontends.cell import Link
from assay.frontends.layout import is_contiguous
from assay.frontends.value import Value, find, has_list_result, process
from assay.semantics.failure import RequireError

dtype_of = source.at_the_users_line(dtypes.dtype)
SIZES = frozenset(("size", "dims", "shape", "repeats", "sizes", "tile_dims"))


def call(base: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The overload of `base` ("add"), or the overload named ("add.Tensor"), that the arguments fit, applied.

    A list of sizes or tensors may be given as several arguments: x.view(2, 3), einsum("ij,jk", x, y).
    An error says at which line of the user it happened.
    """
    try:
        if kwargs:
            kwargs = _spelled(base, kwargs)
        return apply(*_matched(base, args, kwargs))
    except RequireError as error:
        error.add_note(f"in {base} at {source.quoted().rstrip()}")
        raise
    except (UserError, Unsupported) as error:
        raise source.located(error) from None


def _matched(base: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Operator, tuple[Any, ...]]:
    """The overload and all its arguments, several of them gathered into a list where nothing fits otherwise."""
    try:
        return find(base, args, kwargs)
    except UserError:
        gathered = _gathered(base, args)
    try:
        return find(base, args if gathered is None else gathered, kwargs)
    except UserError:
        function = source.numpy_function()
        if function:
            raise numpy_calls.refused(function) from None
        parameters = [p for op in overloads(base.partition(".")[0]) for p in op.params]
        given = any(isinstance(a, tensor.Tensor) for a in (*args, *kwargs.values()))
        if given and not any(p.type.kind == "Tensor" for p in parameters):
            raise UserError(
                f"{base}({describe(args, kwargs)}): its arguments are numbers, not tensors, since no shape may depend on data; "
                "give a fixed size, or the number, x.item(), which a captured function is given from outside"
            ) from None
        raise


def _spelled(base: str, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The keyword arguments as the schemas name them: axis is dim, keepdims keepdim, input the first tensor; dtype a DType."""
    known = {p.name for op in overloads(base.partition(".")[0]) for p in op.params}
    spelled: dict[str, Any] = {}
    for name, value in kwargs.items():
        if name not in known:
            name = {"axis": "dim", "keepdims": "keepdim", "input": "self", "x": "self"}.get(name, name)
        spelled[name] = dtype_of(value) if name == "dtype" and value is not None else value
    return spelled


def _gathered(base: str, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The arguments with those that stand where a list of sizes or tensors is expected made into it; None: no such place."""
    for op in overloads(base.partition(".")[0]):
        for k, p in enumerate(op.params):
            if p.type.is_list and not p.keyword_only:
                rest = args[k:]
                if p.type.kind == "Tensor" and rest and all(isinstance(t, tensor.Tensor) for t in rest):
                    return (*args[:k], rest)
                if p.name in SIZES and p.type.kind == "int" and all(hasattr(n, "__index__") for n in rest):
                    return (*args[:k], tuple(n if is_symbolic(n) else n.__index__() for n in rest))
    return None


def unwrap(x: Any) -> Any:
    """The argument with values in place of tensor handles."""
    if isinstance(x, tensor.Tensor):
        return x.value
    return tuple(map(unwrap, x)) if isinstance(x, tuple) else x


def apply(op: Operator, args: tuple[Any, ...]) -> Any:
    """The operator on all its arguments, tensors being handles."""
    if op.inplace_of is not None:
        return update(args[0], OPERATORS[op.inplace_of], args)
    values = tuple([a.value if type(a) is tensor.Tensor else unwrap(a) for a in args])
    if op.view:
        return _view(op, args[0], values)
    out = process(op, values)
    return _results(op, map(tensor.fresh, out)) if has_list_result(op) else tensor.fresh(out)


_RECORDS: dict[tuple[str, ...], Any] = {}


def _results(op: Operator, made: Iterable[Any]) -> tuple[Any, ...]:
    """Several results: a tuple, with fields where the schema names them (x.max(1).values)."""
    if not all(op.returns):
        return tuple(made)
    record = _RECORDS.get(op.returns)
    if record is None:
        record = _RECORDS[op.returns] = namedtuple("Results", op.returns)
    return record(*made)


def update(target: Any, functional: Operator, args: tuple[Any, ...]) -> Any:
    """target = functional(args...), in the memory of `target` and in its type; returns `target`.

    Raises UserError where the shape differs or the result is of a higher category than the target can hold.
    """
    return store(target, process(functional, tuple(map(unwrap, args))), f"{functional.base}_.{functional.overload}")


def store(target: Any, new: Value, writer: str) -> Any:
    """Write the value in the target's memory."""
    shown = target.value
    if new.shape != shown.shape:
        raise UserError(f"{writer}: the result has shape {list(new.shape)}, which does not fit in place into {list(shown.shape)}")
    if new.dtype is not shown.dtype:
        if category(new.dtype) > category(shown.dtype):
            raise UserError(
                f"{writer}: a {new.dtype.name} result cannot be stored in a {shown.dtype.name} tensor; "
                f"use the operator without the underscore, or convert the tensor first, as in x.to({new.dtype.torch})"
            )
        new = process(*find("to.dtype", (new, shown.dtype), {}))
    target.write(new, writer)
    return target


def _view(op: Operator, parent: Any, values: tuple[Any, ...]) -> Any:
    """The results of a view operator: handles on the same cell where the view is expressible in its memory, else copies."""
    if op.base == "as_strided" and (parent.chain or not is_contiguous(values[0].shape, values[0].strides)):
        raise Unsupported(
            f"{source.quoted()}  as_strided of a view, or of elements that are not row-major (shape {list(values[0].shape)}, "
            f"strides {list(values[0].strides)}): strides count the elements of a storage, which this tensor does not show as it "
            "is; clone() it first, or take as_strided of the tensor that it is a view of"
        )
    out = process(op, values)
    shared = all(v.shares for v in out) if isinstance(out, tuple) else out.shares
    if not shared and op.base in ("view", "view_as", "unflatten"):
        shape = list((out[0] if isinstance(out, tuple) else out).shape)
        raise NoView(
            f"{source.quoted()}  {op.base} to {shape}: no strides express it over {list(values[0].shape)} with strides "
            f"{list(values[0].strides)}; use reshape, which copies where it must"
        )
    if not has_list_result(op):
        return parent.viewed(Link(op, values[1:], None), out) if shared else tensor.fresh(out)
    return tuple(parent.viewed(Link(op, values[1:], k), v) if shared else tensor.fresh(v) for k, v in enumerate(out))
