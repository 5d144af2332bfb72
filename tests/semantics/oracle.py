"""The definitions of the core language, read literally: one element at a time, in Python numbers.  Slow on purpose.

Shares no code with assay.semantics: floats are Python floats rounded explicitly, integers are Python integers wrapped
explicitly, fma is exact rational arithmetic, folds and scatters are loops.
"""

from __future__ import annotations

import itertools
import math
import struct
import sys
from fractions import Fraction

import numpy as np

from assay.core import dtypes as dt
from assay.core.index import Div, Var
from assay.core.lang import constant_value, expand, order
from assay.core.row import TABLE

FLOAT = {"f32": ("<f", "<i"), "f64": ("<d", "<q")}
PRECISION = {"f32": (24, -149), "f64": (53, -1074)}  # bits of the significand, exponent of the smallest subnormal


sys.setrecursionlimit(max(sys.getrecursionlimit(), 20_000))  # compositions of named rows are deep


class Failed(Exception):
    """A require does not hold: (tensor, index, value)."""


def run(program, arrays):
    """The outputs, or Failed."""
    tensors = {t: np.asarray(a) for t, a in zip(program.inputs, arrays, strict=True)}
    for t in order(program.roots):
        if t.kind != "input":
            tensors[t] = tensor(t, tensors)
    return [tensors[t] for t in program.outputs]


def positions(shape):
    return itertools.product(*(range(n) for n in shape))


def tensor(t, tensors):
    out = np.empty(t.shape, t.dtype.numpy)
    if t.kind in ("let", "require"):
        for at in positions(t.shape):
            env = bind(at, t.shape)
            x = value(t.body, env, tensors)
            if t.kind == "require" and not value(t.cond, env, tensors):
                raise Failed(t, at, x)
            out[at] = store(x, t.dtype)
    elif t.kind == "scan":
        rest = t.shape[: t.axis] + t.shape[t.axis + 1 :]
        for at in positions(rest):
            for r, now in enumerate(states(t.body, bind(at, rest), tensors)):
                out[(*at[: t.axis], r, *at[t.axis :])] = store(now[t.k], t.dtype)
    elif t.kind == "scatter":
        out[...] = tensors[t.base]
        for u in positions(t.domain):
            env = bind(u, t.domain)
            at = tuple(index(i, env, tensors) for i in t.indices)
            if all(0 <= k < n for k, n in zip(at, t.shape, strict=True)):
                x = value(t.body, env, tensors)
                out[at] = store(x if t.combine is None else primitive(t.combine, t.dtype, [fetch(out[at], t.dtype), x]), t.dtype)
    else:
        raise NotImplementedError(t.kind)
    return out


def bind(at, shape):
    return {"memo": {}, **{("var", k, n): i for k, (i, n) in enumerate(zip(at, shape, strict=True))}}


def states(fold, env, tensors):
    """The accumulators before the first, after the first, ..., after the last iteration."""
    half = len(fold.args) // 2
    v = fold.attr
    now = [value(i, env, tensors) for i in fold.args[:half]]
    yield now
    for r in range(v.n):
        inner = {**env, "memo": {}, ("var", v.level, v.n): r, **{("acc", v.level, v.n, k): x for k, x in enumerate(now)}}
        now = [value(s, inner, tensors) for s in fold.args[half:]]
        yield now


def index(i, env, tensors):
    total = i.c
    for a, k in i.terms:
        if isinstance(a, Var):
            x = env["var", a.level, a.n]
        elif isinstance(a, Div):
            x = math.floor(Fraction(index(a.e, env, tensors), a.c))
        else:
            x = value(a.e, env, tensors)
        total += k * x
    return total


def value(e, env, tensors):
    """The value of `e`; each node is computed once for each binding of the variables and accumulators."""
    memo = env["memo"]
    if e not in memo:
        memo[e] = computed(e, env, tensors)
    return memo[e]


def computed(e, env, tensors):
    d = e.dtype
    if e.op == "const":
        return constant_value(e)
    if e.op in ("load", "load_or_zero"):
        t, idx = e.attr
        at = tuple(index(i, env, tensors) for i in idx)
        inside = all(0 <= k < n for k, n in zip(at, t.shape, strict=True))
        return fetch(tensors[t][at], d) if inside else fetch(np.zeros((), d.numpy), d)
    if e.op == "idx":
        return index(e.attr, env, tensors)
    if e.op == "acc":
        v, k = e.attr[:2]
        return env["acc", v.level, v.n, k]
    if e.op == "fold":
        *_, last = states(e, env, tensors)
        return last if len(last) > 1 else last[0]
    if e.op == "proj":
        return value(e.args[0], env, tensors)[e.attr]
    if e.op == "convert":
        return converted(value(e.args[0], env, tensors), e.args[0].dtype, d)
    if e.op == "bitcast":
        return from_bits(to_bits(value(e.args[0], env, tensors), e.args[0].dtype), d)
    if TABLE[e.op].kind == "named":
        return value(expand(e), env, tensors)
    return primitive(e.op, e.args[0].dtype if e.op != "select" else d, [value(a, env, tensors) for a in e.args])


# ------------------------------------------------------------------------------------------------ numbers


def fetch(x, d):
    if d is dt.bool_:
        return bool(x)
    return float(x) if d.is_float else int(x)


def store(x, d):
    return np.float32(x).astype(d.numpy) if d.is_half else d.numpy.type(x)


def to_bits(x, d):
    if d.is_half:
        return int(np.float32(x).astype(d.numpy).view(np.int16))
    if d.is_float:
        return struct.unpack(FLOAT[d.name][1], struct.pack(FLOAT[d.name][0], x))[0]
    return x


def from_bits(n, d):
    if d.is_half:
        return float(np.array(n, np.int16).view(d.numpy))
    if d.is_float:
        return struct.unpack(FLOAT[d.name][0], struct.pack(FLOAT[d.name][1], n))[0]
    return n


def wrapped(n, d):
    if d is dt.bool_:
        return bool(n)
    n &= (1 << d.bits) - 1
    return n - (1 << d.bits) if d.kind == "int" and n >> (d.bits - 1) else n


def converted(x, source, target):
    if not target.is_float:
        if not source.is_float:
            return wrapped(int(x), target)
        if x != x:
            return 0
        return max(target.lo, min(target.hi, math.trunc(x))) if math.isfinite(x) else target.hi if x > 0 else target.lo
    if not source.is_float:
        return rational(Fraction(int(x)), target)
    if target.is_half:
        return float(np.float32(x).astype(target.numpy))
    return rounded(x, target)


def rounded(x, d):
    """A float (exact, or a correctly rounded f64 result of +, -, *, /, sqrt of two f32) rounded to `d`."""
    return float(np.float32(x)) if d is dt.f32 else x


def rational(q, d, zero=0.0):
    """The rational q rounded to nearest even; `zero` is the result for q = 0."""
    if q == 0:
        return zero
    bits, smallest = PRECISION[d.name]
    a = abs(q)
    exponent = a.numerator.bit_length() - a.denominator.bit_length()
    if a < Fraction(2) ** exponent:
        exponent -= 1
    unit = Fraction(2) ** max(exponent - bits + 1, smallest)
    n = round(a / unit)  # Fraction rounds half to even
    largest = (2**bits - 1) * Fraction(2) ** (127 - 23 if d is dt.f32 else 1023 - 52)
    result = math.inf if n * unit > largest else float(n * unit)
    return math.copysign(result, -1.0 if q < 0 else 1.0)


def fma(x, y, z, d):
    if not (math.isfinite(x) and math.isfinite(y)):
        return plus(times(x, y), z)
    if not math.isfinite(z):
        return z
    sign = math.copysign(1.0, x) * math.copysign(1.0, y)
    zero = math.copysign(0.0, z) if sign == math.copysign(1.0, z) else 0.0  # -0 only from -0 + -0
    if x != 0 and y != 0 and z == 0:
        zero = 0.0
    return rational(Fraction(x) * Fraction(y) + Fraction(z), d, zero)


def plus(x, y):
    return x + y


def times(x, y):
    return x * y


def divided(x, y):
    if y == 0.0:
        sign = math.copysign(1.0, x) * math.copysign(1.0, y)
        return math.nan if x == 0.0 or x != x else math.copysign(math.inf, sign)
    return x / y


def integral(f, x):
    if not math.isfinite(x):
        return x
    return math.copysign(float(f(x)), x)


def extreme(x, y, *, largest):
    if x != x or y != y:
        return math.nan
    if x == y == 0:
        negative = [math.copysign(1.0, v) < 0 for v in (x, y)]
        return -0.0 if (all(negative) if largest else any(negative)) else 0.0
    return max(x, y) if largest else min(x, y)


def primitive(name, d, a):
    """The row `name` on arguments of type `d`."""
    if name == "select":
        return a[1] if a[0] else a[2]
    if name == "stop":
        return a[0]
    if name in COMPARE:
        return COMPARE[name](*a)
    if d.is_float:
        return rounded(FLOATS[name](*a), d) if name != "fma" else fma(*a, d)
    return wrapped(INTS[name](*a, d) if name in SIZED else INTS[name](*a), d)


def shl(x, n, d):
    return x << n if 0 <= n < d.bits else 0


def shr(x, n, d):
    return x >> n if 0 <= n < d.bits else x >> d.bits


COMPARE = {
    "lt": lambda x, y: x < y, "le": lambda x, y: x <= y, "eq": lambda x, y: x == y, "ne": lambda x, y: x != y,
    "and": lambda x, y: x and y, "or": lambda x, y: x or y, "not": lambda x: not x,
}  # fmt: skip
FLOATS = {
    "add": plus, "sub": lambda x, y: x - y, "mul": times, "div": divided, "neg": lambda x: -x, "abs": abs,
    "sqrt": lambda x: math.nan if x < 0 else math.sqrt(x), "floor": lambda x: integral(math.floor, x),
    "ceil": lambda x: integral(math.ceil, x), "trunc": lambda x: integral(math.trunc, x), "round": lambda x: integral(round, x),
    "max": lambda x, y: extreme(x, y, largest=True), "min": lambda x, y: extreme(x, y, largest=False),
}  # fmt: skip
INTS = {
    "add": plus, "sub": lambda x, y: x - y, "mul": times, "neg": lambda x: -x, "abs": abs, "max": max, "min": min,
    "floordiv": lambda x, y: x // y if y else 0, "mod": lambda x, y: x % y if y else 0,
    "band": lambda x, y: x & y, "bor": lambda x, y: x | y, "bxor": lambda x, y: x ^ y, "bnot": lambda x: ~x,
    "shl": shl, "shr": shr, "umulhi": lambda x, y: (x % 2**32) * (y % 2**32) // 2**32,
}  # fmt: skip
SIZED = frozenset(("shl", "shr"))
