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

from assay.kernels.types import BOOL, F32, I32, I64, TYPES, U32, PointerType, Type
from assay.kernels.walker import BlockPointer, Dotted, Value

FUNCTIONS: dict[str, Callable[..., Any]] = {}


def _function(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(f: Callable[..., Any]) -> Callable[..., Any]:
        for n in names or (f.__name__.rstrip("_"),):
            FUNCTIONS[n] = f
        return f

    return register


# ------------------------------------------------------------------------------------------------ programs and creation


@_function()
def program_id(w: Any, axis: Any) -> Value:
    return w.program(w.number(axis))


@_function()
def num_programs(w: Any, axis: Any) -> Value:
    return w.programs(w.number(axis))


@_function()
def arange(w: Any, start: Any, end: Any) -> Value:
    lo, hi = w.number(start, "the start of arange"), w.number(end, "the end of arange")
    n = hi - lo
    if n <= 0 or n & (n - 1):
        w.wrong(f"the length of arange must be a power of 2, not {n}")
    return w.lanes(lo, n)


@_function()
def full(w: Any, shape: Any, value: Any, dtype: Any = None) -> Value:
    sizes = w.numbers(shape)
    v = w.value(value)
    return w.broadcast(w.cast(v, dtype) if dtype is not None else v, sizes)


@_function()
def zeros(w: Any, shape: Any, dtype: Any = F32) -> Value:
    return full(w, shape, 0, dtype)


@_function()
def zeros_like(w: Any, x: Value) -> Value:
    return full(w, x.shape, 0, x.type)


@_function()
def full_like(w: Any, x: Value, value: Any) -> Value:
    return full(w, x.shape, value, x.type)


@_function("cast", "to")
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


@_function()
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


@_function()
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
            pointer, boundary_check, padding_option = moved_block(w, pointer, mask), range(len(pointer.block)), "zero"
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


@_function()
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
            pointer, value, boundary_check = moved_block(w, pointer, value), mask, range(len(pointer.block))
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
    @_function(f"atomic_{name}")
    def atomic(w: Any, pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> Value:
        pointers = _pointers(w, pointer)
        v = w.cast(w.value(val), pointers.type.element)
        shape = w.joint_shape(pointers.shape, v.shape)
        return w.update(name, w.broadcast(pointers, shape), (w.broadcast(v, shape),), _mask(w, mask, shape))


for _name in ("add", "max", "min", "and", "or", "xor", "xchg"):
    _atomic(_name)


@_function()
def atomic_cas(w: Any, pointer: Any, cmp: Any, val: Any, sem: Any = None, scope: Any = None) -> Value:
    pointers = _pointers(w, pointer)
    values = tuple(w.broadcast(w.cast(w.value(v), pointers.type.element), pointers.shape) for v in (cmp, val))
    return w.update("cas", pointers, values, None)


def _integers(w: Any, xs: Any) -> tuple[Value, ...]:
    return tuple(w.int32(x) for x in xs)


@_function()
def make_block_ptr(w: Any, base: Any, shape: Any, strides: Any, offsets: Any, block_shape: Any, order: Any) -> BlockPointer:
    return BlockPointer(
        _pointers(w, base), _integers(w, shape), _integers(w, strides), _integers(w, offsets), w.numbers(block_shape)
    )


@_function("make_tensor_descriptor")
def make_tensor_descriptor(
    w: Any, base: Any, shape: Any, strides: Any, block_shape: Any, padding_option: Any = "zero"
) -> BlockPointer:
    zero = w.constant(0, I32)
    block = w.numbers(block_shape)
    return BlockPointer(_pointers(w, base), _integers(w, shape), _integers(w, strides), (zero,) * len(block), block, True)


@_function("advance")
def advance(w: Any, base: BlockPointer, offsets: Any) -> BlockPointer:
    return moved_block(w, base, offsets)


def moved_block(w: Any, b: BlockPointer, offsets: Any) -> BlockPointer:
    if not isinstance(offsets, tuple | list) or len(offsets) != len(b.block):
        w.wrong(f"{len(b.block)} offsets are needed")
    moved = tuple(w.operate("add", o, d) for o, d in zip(b.offsets, offsets, strict=True))
    return BlockPointer(b.base, b.shape, b.strides, moved, b.block, b.checked)


# ------------------------------------------------------------------------------------------------ elementwise


@_function()
def where(w: Any, condition: Any, x: Any, y: Any) -> Value:
    a, b = w.same(x, y)
    c = w.as_bool(condition)
    shape = w.joint_shape(c.shape, a.shape)
    return w.choice(w.broadcast(c, shape), w.broadcast(a, shape), w.broadcast(b, shape))


def _extreme(name: str) -> Callable[..., Any]:
    def f(w: Any, *args: Any, propagate_nan: Any = None, **options: Any) -> Any:
        if len(args) == 1 or options or (len(args) == 2 and isinstance(args[0], Value) and _is_axis(args)):
            return _reduction(w, name, *args, **options)
        x, y = args
        if not isinstance(x, Value) and not isinstance(y, Value):
            return (min if name == "min" else max)(x, y)
        return w.operate(name, x, y)

    return f


def _is_axis(args: Sequence[Any]) -> bool:
    """tl.max(x, 1) reduces along an axis; max(x, y) of Python takes the larger."""
    return len(args[0].shape) > 0 and isinstance(args[1], int) and not isinstance(args[1], bool)


FUNCTIONS["max"], FUNCTIONS["min"] = _extreme("max"), _extreme("min")


@_function()
def maximum(w: Any, x: Any, y: Any, propagate_nan: Any = None) -> Any:
    return w.operate("max", x, y)


@_function()
def minimum(w: Any, x: Any, y: Any, propagate_nan: Any = None) -> Any:
    return w.operate("min", x, y)


@_function()
def clamp(w: Any, x: Any, min: Any, max: Any, propagate_nan: Any = None) -> Any:
    return w.operate("min", w.operate("max", x, min), max)


@_function()
def abs_(w: Any, x: Any) -> Any:
    if not isinstance(x, Value):
        return abs(x)
    if x.type.is_float:
        return w.computed("abs", x.type, x.shape, np.abs, x)
    return w.choice(w.compare("lt", x, 0), w.unary(ast.USub, x), x)


@_function()
def cdiv(w: Any, x: Any, div: Any) -> Any:
    if not isinstance(x, Value) and not isinstance(div, Value):
        return -(-x // div)
    return w.operate("floordiv", w.operate("add", x, w.binary(ast.Sub, div, 1)), div)


@_function()
def next_power_of_2(w: Any, n: Any) -> int:
    return 1 << max(0, w.number(n) - 1).bit_length()


@_function()
def swizzle2d(w: Any, i: Any, j: Any, size_i: Any, size_j: Any, size_g: Any) -> tuple[Value, Value]:
    o = w.operate
    ij = o("add", o("mul", i, size_j), j)
    size_gj = o("mul", size_g, size_j)
    first = o("mul", o("floordiv", ij, size_gj), size_g)
    group = o("min", o("sub", size_i, first), size_g)
    ij = o("mod", ij, size_gj)
    return o("add", first, o("mod", ij, group)), o("floordiv", ij, group)


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _erf(x: Any) -> Any:
    from math import erf

    return np.vectorize(erf, otypes=[x.dtype])(x)


UNARY: dict[str, Callable[..., Any]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "sqrt": np.sqrt,
    "sqrt_rn": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "tanh": np.tanh,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "erf": _erf,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "rint": np.rint,
    "log1p": np.log1p,
    "expm1": np.expm1,
    "sigmoid": _sigmoid,
    "log10": np.log10,
    "exp10": lambda x: 10.0**x,
    "fast_expf": np.exp,
    "fast_tanhf": np.tanh,
    "llrint": np.rint,
    "nearbyint": np.rint,
    "round": np.rint,
    "cbrt": np.cbrt,
}
BINARY: dict[str, Callable[..., Any]] = {
    "div_rn": np.divide,
    "fdiv": np.divide,
    "pow": np.power,
    "atan2": np.arctan2,
    "fmod": np.fmod,
    "copysign": np.copysign,
}
TESTS: dict[str, Callable[..., Any]] = {"isnan": np.isnan, "isinf": np.isinf, "isfinited": np.isfinite, "finitef": np.isfinite}


def _elementwise(name: str, f: Callable[..., Any], result: Type | None = None) -> None:
    @_function(name)
    def apply(w: Any, *args: Any, **options: Any) -> Value:
        values = [w.value(a) for a in args]
        t = F32
        for v in values:
            t = w.common(v, values[0]) if v.type.is_float else t
        shape: tuple[int, ...] = ()
        for v in values:
            shape = w.joint_shape(shape, v.shape)
        values = [w.broadcast(w.cast(v, t), shape) for v in values]
        return w.computed(name, result or t, shape, f, *values)


for _n, _f in (*UNARY.items(), *BINARY.items()):
    _elementwise(_n, _f)
for _n, _f in TESTS.items():
    _elementwise(_n, _f, BOOL)
_elementwise("fma", lambda a, b, c: a * b + c)


@_function()
def umulhi(w: Any, x: Any, y: Any) -> Value:
    a, b = w.same(x, y)
    high = lambda p, q: ((p.astype(object) * q.astype(object)) >> a.type.bits).astype(p.dtype)
    return w.computed("umulhi", a.type, a.shape, high, a, b)


@_function()
def softmax(w: Any, x: Value, dim: Any = None, keep_dims: Any = False, ieee_rounding: Any = False) -> Value:
    axis = -1 if dim is None else w.number(dim)

    def f(a: Any) -> Any:
        e = np.exp(a - a.max(axis, keepdims=True))
        return e / e.sum(axis, keepdims=True)

    return w.computed("softmax", x.type, x.shape, f, x)


# ------------------------------------------------------------------------------------------------ shapes


@_function()
def expand_dims(w: Any, x: Any, axis: Any) -> Value:
    v = w.value(x)
    added = sorted(w.numbers(axis))
    for a in added:
        v = w.expanded(v, a + len(v.shape) + 1 if a < 0 else a)
    return v


def _sizes(w: Any, args: Sequence[Any]) -> tuple[int, ...]:
    return w.numbers(args[0]) if len(args) == 1 else w.numbers(tuple(args))


@_function("broadcast_to")
def broadcast_to(w: Any, x: Any, *shape: Any) -> Value:
    return w.broadcast(w.value(x), _sizes(w, shape))


@_function("broadcast")
def broadcast(w: Any, x: Any, y: Any) -> tuple[Value, Value]:
    return w.joined(w.value(x), w.value(y))


@_function("reshape", "view")
def reshape(w: Any, x: Value, *shape: Any, can_reorder: Any = False) -> Value:
    sizes = _sizes(w, shape)
    if prod(sizes) != prod(x.shape):
        w.wrong(f"{list(x.shape)} has other elements than {list(sizes)}")
    return w.reshaped(x, sizes)


@_function()
def ravel(w: Any, x: Value, can_reorder: Any = False) -> Value:
    return w.reshaped(x, (prod(x.shape),))


@_function("trans", "permute")
def permute(w: Any, x: Value, *dims: Any) -> Value:
    order = _sizes(w, dims) if dims else (1, 0)
    order = tuple(d % len(x.shape) for d in order)
    if sorted(order) != list(range(len(x.shape))):
        w.wrong(f"{list(order)} is no order of the {len(x.shape)} axes")
    return w.permuted(x, order)


@_function()
def join(w: Any, a: Any, b: Any) -> Value:
    x, y = w.same(a, b)
    return w.computed("join", x.type, (*x.shape, 2), lambda p, q: np.stack([p, q], -1), x, y, **_union(w, x, y))


@_function()
def interleave(w: Any, a: Any, b: Any) -> Value:
    v = join(w, a, b)
    return w.reshaped(v, (*v.shape[:-2], 2 * v.shape[-2]))


@_function()
def split(w: Any, a: Value) -> tuple[Value, Value]:
    if not a.shape or a.shape[-1] != 2:
        w.wrong("split needs a last axis of length 2")
    limits = _union(w, a)
    one, two = (w.computed("split", a.type, a.shape[:-1], lambda p, i=i: p[..., i], a, **limits) for i in (0, 1))
    return one, two


@_function()
def cat(w: Any, a: Any, b: Any, can_reorder: Any = False, dim: Any = 0) -> Value:
    x, y = w.same(a, b) if w.value(a).shape == w.value(b).shape else (a, b)
    axis = w.number(dim)
    shape = tuple(n + m if k == axis else n for k, (n, m) in enumerate(zip(x.shape, y.shape, strict=True)))
    return w.computed("cat", x.type, shape, lambda p, q: np.concatenate([p, q], axis), x, y, **_union(w, x, y))


@_function()
def flip(w: Any, x: Value, dim: Any = None) -> Value:
    axis = -1 if dim is None else w.number(dim)
    return w.computed("flip", x.type, x.shape, lambda p: np.flip(p, axis), x, **_union(w, x))


def _union(w: Any, *values: Value) -> dict[str, int]:
    """The range that holds all elements of the values, for results that only move them."""
    if not values[0].type.is_integer:
        return {}
    ranges = [w.interval(v) for v in values]
    return {"lo": min(lo for lo, _ in ranges), "hi": max(hi for _, hi in ranges)}


# ------------------------------------------------------------------------------------------------ reductions


def _reduction(
    w: Any,
    name: str,
    x: Any,
    axis: Any = None,
    return_indices: Any = False,
    return_indices_tie_break_left: Any = True,
    keep_dims: Any = False,
    tie_break_left: Any = True,
    dtype: Any = None,
) -> Any:
    x = w.value(x)
    if not x.shape:
        return x
    along = None if axis is None else w.number(axis) % len(x.shape)
    t = x.type
    if name in ("sum", "xor_sum"):
        if dtype is not None:
            t = dtype
        elif t.is_bool or (t.is_integer and t.bits < 32):
            t = U32 if t.kind == "uint" else I32
        x = w.cast(x, t)
    n = prod(x.shape) if along is None else x.shape[along]
    shape = _dropped(x.shape, along, keep=bool(keep_dims))
    limits: dict[str, int] = {}
    if name in ("argmax", "argmin"):
        t, limits = I32, {"lo": 0, "hi": n - 1}
    elif t.is_integer and name != "xor_sum":
        lo, hi = w.interval(x)
        limits = {"lo": n * lo, "hi": n * hi} if name == "sum" else {"lo": lo, "hi": hi}
        if not t.lo <= limits["lo"] <= limits["hi"] <= t.hi:
            limits = {}  # it may wrap

    def f(a: Any) -> Any:
        made = REDUCE[name](a, along).astype(t.numpy)
        return made.reshape(shape)

    found = w.computed(f"{name} of a tensor", t, shape, f, x, **limits)
    if return_indices:
        return found, _reduction(w, f"arg{name}", x, axis, keep_dims=keep_dims)
    return found


def _dropped(shape: tuple[int, ...], along: int | None, *, keep: bool) -> tuple[int, ...]:
    if along is None:
        return (1,) * len(shape) if keep else ()
    return tuple(1 if k == along else n for k, n in enumerate(shape) if keep or k != along)


REDUCE: dict[str, Callable[[Any, int | None], Any]] = {
    "sum": lambda a, k: a.sum(k, dtype=a.dtype),
    "max": lambda a, k: a.max(k),
    "min": lambda a, k: a.min(k),
    "argmax": lambda a, k: a.argmax(k),
    "argmin": lambda a, k: a.argmin(k),
    "xor_sum": lambda a, k: np.bitwise_xor.reduce(a, k) if k is not None else np.bitwise_xor.reduce(a.ravel()),
}
for _n in ("sum", "argmax", "argmin", "xor_sum"):
    FUNCTIONS[_n] = lambda w, *args, _name=_n, **options: _reduction(w, _name, *args, **options)


def _combined(w: Any, combine_fn: Any, a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
    found = w.call(combine_fn, [*a, *b], {})
    return list(found) if isinstance(found, tuple) else [found]


@_function("reduce")
def reduce_(w: Any, input: Any, axis: Any, combine_fn: Any, keep_dims: Any = False) -> Any:
    values = list(input) if isinstance(input, tuple) else [input]
    along = w.number(axis) % len(values[0].shape)
    shape = _dropped(values[0].shape, along, keep=bool(keep_dims))

    def result(k: int) -> Value:
        def f(*arrays: Any) -> Any:
            columns = [np.moveaxis(a, along, 0) for a in arrays]
            parts = [
                [Value(v.type, c.shape[1:], c[i]) for v, c in zip(values, columns, strict=True)] for i in range(len(columns[0]))
            ]
            total = parts[0]
            for p in parts[1:]:
                total = _combined(w, combine_fn, total, p)
            return np.asarray(total[k].data).reshape(shape)

        return w.computed("a reduction", values[k].type, shape, f, *values)

    found = tuple(result(k) for k in range(len(values)))
    return found if isinstance(input, tuple) else found[0]


@_function()
def associative_scan(w: Any, input: Any, axis: Any, combine_fn: Any, reverse: Any = False) -> Any:
    values = list(input) if isinstance(input, tuple) else [input]
    along = w.number(axis) % len(values[0].shape)

    def result(k: int) -> Value:
        def f(*arrays: Any) -> Any:
            columns = [np.moveaxis(a, along, 0) for a in arrays]
            columns = [c[::-1] for c in columns] if reverse else columns
            parts = [
                [Value(v.type, c.shape[1:], c[i]) for v, c in zip(values, columns, strict=True)] for i in range(len(columns[0]))
            ]
            totals = [parts[0]]
            for p in parts[1:]:
                totals.append(_combined(w, combine_fn, totals[-1], p))
            made = np.stack([np.asarray(t[k].data) for t in totals])
            return np.moveaxis(made[::-1] if reverse else made, 0, along)

        return w.computed("a scan", values[k].type, values[k].shape, f, *values)

    found = tuple(result(k) for k in range(len(values)))
    return found if isinstance(input, tuple) else found[0]


def _scan(name: str, f: Callable[..., Any]) -> None:
    @_function(name)
    def scan(w: Any, x: Value, axis: Any = 0, reverse: Any = False, dtype: Any = None) -> Value:
        along = w.number(axis) % len(x.shape)
        t = dtype or (I32 if x.type.is_bool or (x.type.is_integer and x.type.bits < 32) else x.type)
        v = w.cast(x, t)
        limits: dict[str, int] = {}
        if name == "cumsum" and t.is_integer:
            lo, hi = w.interval(v)
            n = x.shape[along]
            if t.lo <= n * min(lo, 0) and n * max(hi, 0) <= t.hi:
                limits = {"lo": min(lo, n * lo), "hi": max(hi, n * hi)}

        def run(a: Any) -> Any:
            a = np.flip(a, along) if reverse else a
            made = f(a, along).astype(t.numpy)
            return np.flip(made, along) if reverse else made

        return w.computed(name, t, x.shape, run, v, **limits)


_scan("cumsum", lambda a, k: np.cumsum(a, k, dtype=a.dtype))
_scan("cumprod", lambda a, k: np.cumprod(a, k, dtype=a.dtype))


@_function()
def sort(w: Any, x: Value, dim: Any = None, descending: Any = False) -> Value:
    axis = -1 if dim is None else w.number(dim)
    f = lambda a: np.flip(np.sort(a, axis), axis) if descending else np.sort(a, axis)
    return w.computed("sort", x.type, x.shape, f, x, **_union(w, x))


@_function()
def histogram(w: Any, x: Value, num_bins: Any, mask: Any = None) -> Value:
    bins = w.number(num_bins)
    f = lambda a: np.bincount(a.ravel(), minlength=bins)[:bins].astype(np.int32)
    return w.computed("histogram", I32, (bins,), f, x, lo=0, hi=prod(x.shape))


@_function()
def gather(w: Any, src: Value, index: Value, axis: Any) -> Value:
    along = w.number(axis)
    return w.computed("gather", src.type, index.shape, lambda a, i: np.take_along_axis(a, i, along), src, index, **_union(w, src))


@_function()
def dot(
    w: Any,
    input: Value,
    other: Value,
    acc: Any = None,
    input_precision: Any = None,
    allow_tf32: Any = None,
    max_num_imprecise_acc: Any = None,
    out_dtype: Any = None,
) -> Value:
    if len(input.shape) != len(other.shape) or len(input.shape) not in (2, 3) or input.shape[-1] != other.shape[-2]:
        w.wrong(f"dot of shapes {list(input.shape)} and {list(other.shape)}")
    t = (acc.type if isinstance(acc, Value) else None) or out_dtype or (I32 if input.type.is_integer else F32)
    t = F32 if t.is_float and t.bits < 32 and out_dtype is None and acc is None else t
    shape = (*input.shape[:-1], other.shape[-1])
    if isinstance(acc, Value):
        return w.computed("dot", t, shape, lambda a, b, c: (_wide(a, t) @ _wide(b, t) + c).astype(t.numpy), input, other, acc)
    return w.computed("dot", t, shape, lambda a, b: (_wide(a, t) @ _wide(b, t)).astype(t.numpy), input, other)


def _wide(a: Any, t: Type) -> Any:
    return a.astype(t.numpy if t.bits >= 32 else np.float32)


# ------------------------------------------------------------------------------------------------ random numbers


def philox(seed: Any, c: Any, rounds: int = 10) -> list[Any]:
    """Philox-4x32 of the counters (c, 0, 0, 0) and the key `seed`: four arrays of 32-bit words."""
    key0, key1 = np.uint64(int(seed) & 0xFFFFFFFF), np.uint64(int(seed) >> 32 & 0xFFFFFFFF)
    low = np.uint64(0xFFFFFFFF)
    x = [c.astype(np.uint32).astype(np.uint64), *(np.zeros(np.shape(c), np.uint64) for _ in range(3))]
    for _ in range(rounds):
        p, q = x[0] * np.uint64(0xD2511F53), x[2] * np.uint64(0xCD9E8D57)
        x = [(q >> np.uint64(32)) ^ x[1] ^ key0, q & low, (p >> np.uint64(32)) ^ x[3] ^ key1, p & low]
        key0, key1 = (key0 + np.uint64(0x9E3779B9)) & low, (key1 + np.uint64(0xBB67AE85)) & low
    return [v.astype(np.uint32) for v in x]


def _uniform(bits: Any) -> Any:
    """[0, 1) from 32 random bits, as triton.language.rand does it."""
    x = bits.view(np.int32)
    return np.where(x < 0, -x - 1, x).astype(np.float32) * np.float32(4.6566127342e-10)


def _random(name: str, type_: Type, f: Callable[[list[Any]], Any], count: int) -> None:
    @_function(name)
    def draw(w: Any, seed: Any, offset: Any, n_rounds: Any = 10) -> Any:
        o, s = w.value(offset), w.value(seed)
        found = tuple(
            w.computed(name, type_, o.shape, lambda c, key, k=k: f(philox(key, c, w.number(n_rounds)))[k], o, s)
            for k in range(count)
        )
        return found if count > 1 else found[0]


def _normal(words: list[Any]) -> list[Any]:
    u, v = np.maximum(np.float32(1e-7), _uniform(words[0])), _uniform(words[1])
    r, angle = np.sqrt(np.float32(-2) * np.log(u)), np.float32(6.283185307179586) * v
    return [r * np.cos(angle), r * np.sin(angle)]


_random("rand", F32, lambda x: [_uniform(v) for v in x], 1)
_random("rand4x", F32, lambda x: [_uniform(v) for v in x], 4)
_random("randint", U32, lambda x: x, 1)
_random("randint4x", U32, lambda x: x, 4)
_random("randn", F32, _normal, 1)


# ------------------------------------------------------------------------------------------------ hints and checks


@_function("multiple_of")
def multiple_of(w: Any, input: Any, values: Any) -> Any:
    return w.hinted("multiple_of", w.value(input), w.numbers(values))


@_function("max_contiguous")
def max_contiguous(w: Any, input: Any, values: Any) -> Any:
    return w.hinted("max_contiguous", w.value(input), w.numbers(values))


@_function("max_constancy")
def max_constancy(w: Any, input: Any, values: Any) -> Any:
    return w.hinted("max_constancy", w.value(input), w.numbers(values))


@_function()
def assume(w: Any, cond: Any) -> None:
    w.assumed(w.as_bool(cond))


@_function()
def static_assert(w: Any, cond: Any, msg: Any = "") -> None:
    if w.python(cond) is False:
        w.wrong(f"static_assert fails: {w.python(msg)}")


@_function("static_print", "device_print", "print", "device_assert", "debug_barrier", "nop")
def nothing(w: Any, *args: Any, **options: Any) -> None:
    """No effect on memory."""


# ------------------------------------------------------------------------------------------------ Python's own


@_function("len")
def len_(w: Any, x: Any) -> int:
    return len(x) if isinstance(x, tuple | list | str) else x.shape[0]


@_function("int")
def int_(w: Any, x: Any) -> int:
    return int(w.python(x))


@_function("float")
def float_(w: Any, x: Any) -> float:
    return float(x) if isinstance(x, int | float | str) else w.cast(x, F32)


@_function("bool")
def bool_(w: Any, x: Any) -> Any:
    return w.as_bool(x) if isinstance(x, Value) else bool(x)
