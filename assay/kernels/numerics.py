"""Functions of triton.language whose results have no structure here: elementwise, reductions, scans, dot, random numbers.

The symbolic domain knows their type, shape and range; the concrete one runs the numpy function that is given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from assay.kernels.language import FUNCTIONS, register, union_of
from assay.kernels.operators import Value
from assay.kernels.types import BOOL, F32, I32, U32, Type

# ------------------------------------------------------------------------------------------------ elementwise


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
    @register(name)
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


@register()
def umulhi(w: Any, x: Any, y: Any) -> Value:
    a, b = w.same(x, y)
    high = lambda p, q: ((p.astype(object) * q.astype(object)) >> a.type.bits).astype(p.dtype)
    return w.computed("umulhi", a.type, a.shape, high, a, b)


@register()
def softmax(w: Any, x: Value, dim: Any = None, keep_dims: Any = False, ieee_rounding: Any = False) -> Value:
    axis = -1 if dim is None else w.number(dim)

    def f(a: Any) -> Any:
        e = np.exp(a - a.max(axis, keepdims=True))
        return e / e.sum(axis, keepdims=True)

    return w.computed("softmax", x.type, x.shape, f, x)


# ------------------------------------------------------------------------------------------------ reductions


def _reduction(
    w: Any, name: str, x: Any, axis: Any = None, *, keep_dims: Any = False, dtype: Any = None, return_indices: Any = False
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


def _extreme(name: str) -> Callable[..., Any]:
    def f(
        w: Any,
        input: Any,
        axis: Any = None,
        return_indices: Any = False,
        return_indices_tie_break_left: Any = True,
        keep_dims: Any = False,
    ) -> Any:
        return _reduction(w, name, input, axis, keep_dims=keep_dims, return_indices=w.python(return_indices))

    return f


def _of_both(name: str) -> Callable[..., Any]:
    """min(x, y) of Python, which is elementwise on tensors: tl.min(x, 0) is the least along an axis."""

    def f(w: Any, *args: Any) -> Any:
        if len(args) < 2:
            w.wrong(f"{name} of Python needs two arguments here")
        found = args[0]
        for x in args[1:]:
            numbers = not isinstance(found, Value) and not isinstance(x, Value)
            found = (min if name == "min" else max)(found, x) if numbers else w.operate(name, found, x)
        return found

    return f


REDUCE: dict[str, Callable[[Any, int | None], Any]] = {
    "sum": lambda a, k: a.sum(k, dtype=a.dtype),
    "max": lambda a, k: a.max(k),
    "min": lambda a, k: a.min(k),
    "argmax": lambda a, k: a.argmax(k),
    "argmin": lambda a, k: a.argmin(k),
    "xor_sum": lambda a, k: np.bitwise_xor.reduce(a, k) if k is not None else np.bitwise_xor.reduce(a.ravel()),
}
for _n in ("max", "min"):
    FUNCTIONS[_n] = _extreme(_n)
    FUNCTIONS[f"builtins.{_n}"] = FUNCTIONS[f"triton.language.math.{_n}"] = _of_both(_n)


def _total(name: str) -> Callable[..., Any]:
    def f(w: Any, input: Any, axis: Any = None, keep_dims: Any = False, dtype: Any = None) -> Any:
        return _reduction(w, name, input, axis, keep_dims=keep_dims, dtype=dtype)

    return f


def _place_of(name: str) -> Callable[..., Any]:
    def f(w: Any, input: Any, axis: Any = None, tie_break_left: Any = True, keep_dims: Any = False) -> Any:
        return _reduction(w, name, input, axis, keep_dims=keep_dims)

    return f


FUNCTIONS["sum"], FUNCTIONS["xor_sum"] = _total("sum"), _total("xor_sum")
FUNCTIONS["argmax"], FUNCTIONS["argmin"] = _place_of("argmax"), _place_of("argmin")


def _combined(w: Any, combine_fn: Any, a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
    found = w.call(combine_fn, [*a, *b], {})
    return list(found) if isinstance(found, tuple) else [found]


@register("reduce")
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


@register()
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
    @register(name)
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


@register()
def sort(w: Any, x: Value, dim: Any = None, descending: Any = False) -> Value:
    axis = -1 if dim is None else w.number(dim)
    f = lambda a: np.flip(np.sort(a, axis), axis) if descending else np.sort(a, axis)
    return w.computed("sort", x.type, x.shape, f, x, **union_of(w, x))


@register()
def histogram(w: Any, x: Value, num_bins: Any, mask: Any = None) -> Value:
    bins = w.number(num_bins)
    f = lambda a: np.bincount(a.ravel(), minlength=bins)[:bins].astype(np.int32)
    return w.computed("histogram", I32, (bins,), f, x, lo=0, hi=prod(x.shape))


@register()
def gather(w: Any, src: Value, index: Value, axis: Any) -> Value:
    along = w.number(axis)
    return w.computed(
        "gather", src.type, index.shape, lambda a, i: np.take_along_axis(a, i, along), src, index, **union_of(w, src)
    )


@register()
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
    @register(name)
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
