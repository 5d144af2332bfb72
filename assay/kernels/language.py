"""The functions of triton.language, by name: each takes the walker and what the call gives it.

Most are made of the primitives of the domain. What bounds and masks do not depend on (exp, dot, sorting, random numbers)
goes through `computed`: the concrete domain runs the given numpy function, the symbolic one knows the type, the shape and a
range. Options that steer code generation only (cache modifiers, eviction, num_stages, ...) are accepted and mean nothing
here.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from assay.kernels.operators import BlockPointer, Value
from assay.kernels.types import F32, I32, I64, TYPES, PointerType, Type
from assay.kernels.walker import Dotted

FUNCTIONS: dict[str, Callable[..., Any]] = {}


def register(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Puts a function into the table under these names, or under its own."""

    def added(f: Callable[..., Any]) -> Callable[..., Any]:
        for n in names or (f.__name__.rstrip("_"),):
            FUNCTIONS[n] = f
        return f

    return added


# ------------------------------------------------------------------------------------------------ programs and creation


@register()
def program_id(w: Any, axis: Any) -> Value:
    return w.program(w.number(axis))


@register()
def num_programs(w: Any, axis: Any) -> Value:
    return w.programs(w.number(axis))


@register()
def arange(w: Any, start: Any, end: Any) -> Value:
    lo, hi = w.number(start, "the start of arange"), w.number(end, "the end of arange")
    n = hi - lo
    if n <= 0 or n & (n - 1):
        w.wrong(f"the length of arange must be a power of 2, not {n}")
    return w.lanes(lo, n)


@register()
def full(w: Any, shape: Any, value: Any, dtype: Any = None) -> Value:
    sizes = w.numbers(shape)
    v = w.value(value)
    return w.broadcast(w.cast(v, dtype) if dtype is not None else v, sizes)


@register()
def zeros(w: Any, shape: Any, dtype: Any = F32) -> Value:
    return full(w, shape, 0, dtype)


@register()
def zeros_like(w: Any, x: Value) -> Value:
    return full(w, x.shape, 0, x.type)


@register()
def full_like(w: Any, x: Value, value: Any) -> Value:
    return full(w, x.shape, value, x.type)


@register("cast", "to")
def cast(w: Any, x: Any, dtype: Any, fp_downcast_rounding: Any = None, bitcast: Any = False) -> Value:
    if isinstance(dtype, Dotted | str):
        dtype = TYPES.get(dtype if isinstance(dtype, str) else dtype.last)
    if not isinstance(dtype, Type | PointerType):
        w.wrong("the second argument of a conversion is a type, such as tl.int64")
    x = w.value(x)
    if not bitcast or x.type == dtype:
        return w.cast(x, dtype)
    if x.type.is_integer and dtype.is_integer and x.type.bits == dtype.bits:
        return w.converted(x, dtype)
    return w.computed("the bits of a value as another type", dtype, x.shape, lambda a: a.view(dtype.numpy), x)


@register()
def constexpr(w: Any, x: Any) -> Any:
    return w.python(x)


# ------------------------------------------------------------------------------------------------ memory


def block_access(w: Any, b: BlockPointer, checked: Sequence[int]) -> tuple[Value, Value | None]:
    """(pointers, mask) of a block: pointer + (offset + lane) * stride on each axis; the mask checks the axes `checked`."""
    pointer, mask = b.base, None
    rank = len(b.block)
    for k in range(rank):
        lane = w.cast(w.lanes(0, b.block[k]), I64)
        for axis in range(rank):
            if axis != k:
                lane = w.expanded(lane, axis)
        i = w.operate("add", w.cast(b.offsets[k], I64), lane)
        pointer = w.moved(*w.joined(pointer, w.operate("mul", i, w.cast(b.strides[k], I64))))
        if k in checked:
            inside = w.logical("and", w.compare("le", 0, i), w.compare("lt", i, w.cast(b.shape[k], I64)))
            mask = inside if mask is None else w.logical("and", mask, inside)
    return pointer, mask


def _axes(w: Any, boundary_check: Any) -> tuple[int, ...]:
    found = w.python(boundary_check)
    return tuple(found) if isinstance(found, tuple | list) else (found,)


@register()
def load(
    w: Any,
    pointer: Any,
    mask: Any = None,
    other: Any = None,
    boundary_check: Any = (),
    padding_option: Any = "",
    cache_modifier: Any = "",
    eviction_policy: Any = "",
    volatile: Any = False,
) -> Value:
    if isinstance(pointer, BlockPointer):
        if pointer.checked:
            pointer, boundary_check, padding_option = moved_block(w, pointer, mask), tuple(range(len(pointer.block))), "zero"
        pointers, mask = block_access(w, pointer, _axes(w, boundary_check))
        other = {"zero": 0.0, "nan": float("nan")}.get(padding_option)
        if other == 0.0 and not pointers.type.element.is_float:
            other = 0
    else:
        pointers = _pointers(w, pointer)
    m = _mask(w, mask, pointers.shape)
    if m is not None and m.shape != pointers.shape:
        pointers = w.broadcast(pointers, m.shape)
    o = None
    if other is not None:
        o = w.broadcast(w.cast(w.value(other), pointers.type.element), pointers.shape)
    return w.read(pointers, m, o)


@register()
def store(
    w: Any,
    pointer: Any,
    value: Any,
    mask: Any = None,
    boundary_check: Any = (),
    cache_modifier: Any = "",
    eviction_policy: Any = "",
) -> None:
    if isinstance(pointer, BlockPointer):
        if pointer.checked:
            pointer, value, boundary_check = moved_block(w, pointer, value), mask, tuple(range(len(pointer.block)))
        pointers, mask = block_access(w, pointer, _axes(w, boundary_check))
    else:
        pointers = _pointers(w, pointer)
    v = w.cast(w.value(value), pointers.type.element)
    shape = w.joint_shape(pointers.shape, v.shape) if pointers.shape else pointers.shape
    m = _mask(w, mask, shape)
    if m is not None:
        shape = w.joint_shape(shape, m.shape)
    w.write(w.broadcast(pointers, shape), w.broadcast(v, shape), m)


def _pointers(w: Any, pointer: Any) -> Value:
    if not isinstance(pointer, Value) or not isinstance(pointer.type, PointerType):
        w.wrong("a pointer is needed: is its parameter declared as a tensor (--arg 'x_ptr=f32[n]')?")
    return pointer


def _mask(w: Any, mask: Any, shape: tuple[int, ...]) -> Value | None:
    if mask is None:
        return None
    m = w.as_bool(mask)
    return w.broadcast(m, w.joint_shape(m.shape, shape))


def _atomic(name: str) -> None:
    @register(f"atomic_{name}")
    def atomic(w: Any, pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> Value:
        pointers = _pointers(w, pointer)
        v = w.cast(w.value(val), pointers.type.element)
        shape = w.joint_shape(pointers.shape, v.shape)
        return w.update(name, w.broadcast(pointers, shape), (w.broadcast(v, shape),), _mask(w, mask, shape))


for _name in ("add", "max", "min", "and", "or", "xor", "xchg"):
    _atomic(_name)


@register()
def atomic_cas(w: Any, pointer: Any, cmp: Any, val: Any, sem: Any = None, scope: Any = None) -> Value:
    pointers = _pointers(w, pointer)
    values = tuple(w.broadcast(w.cast(w.value(v), pointers.type.element), pointers.shape) for v in (cmp, val))
    return w.update("cas", pointers, values, None)


def _integers(w: Any, xs: Any) -> tuple[Value, ...]:
    return tuple(w.int32(x) for x in xs)


@register()
def make_block_ptr(w: Any, base: Any, shape: Any, strides: Any, offsets: Any, block_shape: Any, order: Any) -> BlockPointer:
    return BlockPointer(
        _pointers(w, base), _integers(w, shape), _integers(w, strides), _integers(w, offsets), w.numbers(block_shape)
    )


@register("make_tensor_descriptor")
def make_tensor_descriptor(
    w: Any, base: Any, shape: Any, strides: Any, block_shape: Any, padding_option: Any = "zero"
) -> BlockPointer:
    zero = w.constant(0, I32)
    block = w.numbers(block_shape)
    return BlockPointer(_pointers(w, base), _integers(w, shape), _integers(w, strides), (zero,) * len(block), block, True)


@register("advance")
def advance(w: Any, base: BlockPointer, offsets: Any) -> BlockPointer:
    return moved_block(w, base, offsets)


def moved_block(w: Any, b: BlockPointer, offsets: Any) -> BlockPointer:
    if not isinstance(offsets, tuple | list) or len(offsets) != len(b.block):
        w.wrong(f"{len(b.block)} offsets are needed")
    moved = tuple(w.operate("add", o, d) for o, d in zip(b.offsets, offsets, strict=True))
    return BlockPointer(b.base, b.shape, b.strides, moved, b.block, b.checked)


# ------------------------------------------------------------------------------------------------ elementwise


@register()
def where(w: Any, condition: Any, x: Any, y: Any) -> Value:
    a, b = w.same(x, y)
    c = w.as_bool(condition)
    shape = w.joint_shape(c.shape, a.shape)
    return w.choice(w.broadcast(c, shape), w.broadcast(a, shape), w.broadcast(b, shape))


@register()
def maximum(w: Any, x: Any, y: Any, propagate_nan: Any = None) -> Any:
    return w.operate("max", x, y)


@register()
def minimum(w: Any, x: Any, y: Any, propagate_nan: Any = None) -> Any:
    return w.operate("min", x, y)


@register()
def clamp(w: Any, x: Any, min: Any, max: Any, propagate_nan: Any = None) -> Any:
    return w.operate("min", w.operate("max", x, min), max)


@register()
def abs_(w: Any, x: Any) -> Any:
    if not isinstance(x, Value):
        return abs(x)
    if x.type.is_float:
        return w.computed("abs", x.type, x.shape, np.abs, x)
    return w.choice(w.compare("lt", x, 0), w.unary(ast.USub, x), x)


@register()
def cdiv(w: Any, x: Any, div: Any) -> Any:
    if not isinstance(x, Value) and not isinstance(div, Value):
        return -(-x // div)
    return w.operate("floordiv", w.operate("add", x, w.binary(ast.Sub, div, 1)), div)


@register()
def next_power_of_2(w: Any, n: Any) -> int:
    return 1 << max(0, w.number(n) - 1).bit_length()


@register()
def swizzle2d(w: Any, i: Any, j: Any, size_i: Any, size_j: Any, size_g: Any) -> tuple[Value, Value]:
    o = w.operate
    ij = o("add", o("mul", i, size_j), j)
    size_gj = o("mul", size_g, size_j)
    first = o("mul", o("floordiv", ij, size_gj), size_g)
    group = o("min", o("sub", size_i, first), size_g)
    ij = o("mod", ij, size_gj)
    return o("add", first, o("mod", ij, group)), o("floordiv", ij, group)


# ------------------------------------------------------------------------------------------------ shapes


@register()
def expand_dims(w: Any, x: Any, axis: Any) -> Value:
    v = w.value(x)
    added = sorted(w.numbers(axis))
    for a in added:
        v = w.expanded(v, a + len(v.shape) + 1 if a < 0 else a)
    return v


def _sizes(w: Any, args: Sequence[Any]) -> tuple[int, ...]:
    return w.numbers(args[0]) if len(args) == 1 else w.numbers(tuple(args))


@register("broadcast_to")
def broadcast_to(w: Any, x: Any, *shape: Any) -> Value:
    return w.broadcast(w.value(x), _sizes(w, shape))


@register("broadcast")
def broadcast(w: Any, x: Any, y: Any) -> tuple[Value, Value]:
    return w.joined(w.value(x), w.value(y))


@register()
def reshape(w: Any, x: Value, *shape: Any, can_reorder: Any = False) -> Value:
    sizes = _sizes(w, shape)
    if prod(sizes) != prod(x.shape):
        w.wrong(f"{list(x.shape)} has other elements than {list(sizes)}")
    if w.python(can_reorder):  # the compiler may put each element anywhere
        return w.computed("a reshape in any order", x.type, sizes, lambda a: a.reshape(sizes), x, **union_of(w, x))
    return w.reshaped(x, sizes)


@register()
def view(w: Any, x: Value, *shape: Any) -> Value:
    return reshape(w, x, *shape, can_reorder=True)


@register()
def ravel(w: Any, x: Value, can_reorder: Any = False) -> Value:
    return reshape(w, x, prod(x.shape), can_reorder=can_reorder)


@register("trans", "permute")
def permute(w: Any, x: Value, *dims: Any) -> Value:
    order = _sizes(w, dims) if dims else (1, 0)
    order = tuple(d % len(x.shape) for d in order)
    if sorted(order) != list(range(len(x.shape))):
        w.wrong(f"{list(order)} is no order of the {len(x.shape)} axes")
    return w.permuted(x, order)


@register()
def join(w: Any, a: Any, b: Any) -> Value:
    x, y = w.same(a, b)
    return w.computed("join", x.type, (*x.shape, 2), lambda p, q: np.stack([p, q], -1), x, y, **union_of(w, x, y))


@register()
def interleave(w: Any, a: Any, b: Any) -> Value:
    v = join(w, a, b)
    return w.reshaped(v, (*v.shape[:-2], 2 * v.shape[-2]))


@register()
def split(w: Any, a: Value) -> tuple[Value, Value]:
    if not a.shape or a.shape[-1] != 2:
        w.wrong("split needs a last axis of length 2")
    limits = union_of(w, a)
    one, two = (w.computed("split", a.type, a.shape[:-1], lambda p, i=i: p[..., i], a, **limits) for i in (0, 1))
    return one, two


@register()
def cat(w: Any, a: Any, b: Any, can_reorder: Any = False, dim: Any = 0) -> Value:
    x, y = w.same(a, b) if w.value(a).shape == w.value(b).shape else (a, b)
    axis = w.number(dim)
    shape = tuple(n + m if k == axis else n for k, (n, m) in enumerate(zip(x.shape, y.shape, strict=True)))
    return w.computed("cat", x.type, shape, lambda p, q: np.concatenate([p, q], axis), x, y, **union_of(w, x, y))


@register()
def flip(w: Any, x: Value, dim: Any = None) -> Value:
    axis = -1 if dim is None else w.number(dim)
    return w.computed("flip", x.type, x.shape, lambda p: np.flip(p, axis), x, **union_of(w, x))


def union_of(w: Any, *values: Value) -> dict[str, int]:
    """The range that holds all elements of the values, for results that only move them."""
    if not values[0].type.is_integer:
        return {}
    ranges = [w.interval(v) for v in values]
    return {"lo": min(lo for lo, _ in ranges), "hi": max(hi for _, hi in ranges)}


# ------------------------------------------------------------------------------------------------ hints and checks


@register("multiple_of")
def multiple_of(w: Any, input: Any, values: Any) -> Any:
    return w.hinted("multiple_of", w.value(input), w.numbers(values))


@register("max_contiguous")
def max_contiguous(w: Any, input: Any, values: Any) -> Any:
    return w.hinted("max_contiguous", w.value(input), w.numbers(values))


@register("max_constancy")
def max_constancy(w: Any, input: Any, values: Any) -> Any:
    return w.hinted("max_constancy", w.value(input), w.numbers(values))


@register()
def assume(w: Any, cond: Any) -> None:
    w.assumed(w.as_bool(cond))


@register()
def static_assert(w: Any, cond: Any, msg: Any = "") -> None:
    if w.python(cond) is False:
        w.wrong(f"static_assert fails: {w.python(msg)}")


@register("static_print", "device_print", "print", "device_assert", "debug_barrier", "nop")
def nothing(w: Any, *args: Any, **options: Any) -> None:
    """No effect on memory."""


# ------------------------------------------------------------------------------------------------ Python's own


@register("len")
def len_(w: Any, x: Any) -> int:
    return len(x) if isinstance(x, tuple | list | str) else x.shape[0]


@register("int")
def int_(w: Any, x: Any) -> int:
    return int(w.python(x))


@register("float")
def float_(w: Any, x: Any) -> float:
    return float(x) if isinstance(x, int | float | str) else w.cast(x, F32)


@register("bool")
def bool_(w: Any, x: Any) -> Any:
    return w.as_bool(x) if isinstance(x, Value) else bool(x)
