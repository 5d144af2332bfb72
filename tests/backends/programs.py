"""Small programs of odd sizes, at least one for each thing that the emitter prints, with their inputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from assay.core import dtypes as dt
from assay.core import functions as functions  # it fills the scalar table
from assay.core import lang, philox
from assay.core.dtypes import DType
from assay.core.lang import (
    E,
    Program,
    T,
    bitcast,
    const,
    convert,
    extern,
    fold,
    folds,
    index,
    load,
    load_or_zero,
    op,
    program,
    require,
    scan,
    scatter,
    select,
    tensor,
)

SPECIAL = (math.nan, math.inf, -math.inf, -0.0, 0.0, 1e-45, -1e-40, 1e-38, 3e38, -88.0, 89.0, 2.0**31, -(2.0**63), 0.5, -2.5)
CASES: dict[str, Callable[[], Program]] = {}


def case(build: Callable[[], Program]) -> Callable[[], Program]:
    CASES[build.__name__] = build
    return build


def values(t: T, seed: int) -> np.ndarray:
    """Inputs for `t`: a tenth of the floats are special; integers stay in the range that the name asks for."""
    rng = np.random.Generator(np.random.Philox(key=seed))
    if t.dtype is dt.bool_:
        return rng.integers(0, 2, t.shape).astype(bool)
    if not t.dtype.is_float:
        if "of" in t.name:  # an index: "idx_of_9" lies in [-9, 9)
            n = int(t.name.rpartition("of_")[2])
            return rng.integers(-n, n, t.shape).astype(t.dtype.numpy)
        x = rng.integers(-9, 10, t.shape)
        edge = rng.choice([t.dtype.lo, t.dtype.hi, -1, 0, 1, 31, 64], t.shape)
        return np.where(rng.random(t.shape) < 0.3, edge, x).astype(t.dtype.numpy)
    x = rng.standard_normal(t.shape) * 3
    with np.errstate(all="ignore"):
        x = np.where(rng.random(t.shape) < 0.1, rng.choice(SPECIAL, t.shape), x)
        return x.astype(np.float32 if t.dtype.is_half else t.dtype.numpy).astype(t.dtype.numpy)


def arrays(p: Program, seed: int = 1) -> list[np.ndarray]:
    return [values(t, seed + 7 * k) for k, t in enumerate(p.inputs)]


def f32(name: str, *shape: int) -> T:
    return lang.input(name, shape, dt.f32)


def total(n: int, term: Callable[..., E], d: DType = dt.f32) -> E:
    return fold(n, const(0, d), lambda a, k: a + term(k))


def mapped(x: T, f: Callable[[E], E]) -> T:
    return tensor(x.shape, lambda *i: f(x[i]))


def wrapped(idx: T, n: int) -> T:
    """Python's negative indices, checked."""
    body = mapped(idx, lambda v: select(v < 0, v + n, v)).body
    return require(idx.shape, body, (body >= 0) & (body < n), "[IndexError] index {value} at {index}", lo=0, hi=n - 1)


@case
def relu_sum() -> Program:
    x, y = f32("x", 13, 37), f32("y", 13, 37)
    return program((x, y), [tensor((13,), lambda i: total(37, lambda k: op("relu", x[i, k] + y[i, k]) * 2.0))])


@case
def softmax() -> Program:
    x = f32("x", 11, 45)
    m = tensor((11,), lambda i: fold(45, const(-math.inf, dt.f32), lambda a, k: op("max", a, x[i, k])))
    e = tensor((11, 45), lambda i, j: op("exp", x[i, j] - m[i]))
    s = tensor((11,), lambda i: total(45, lambda k: e[i, k]))
    return program((x,), [tensor((11, 45), lambda i, j: e[i, j] / s[i])])


@case
def softmax_fused() -> Program:
    x = f32("x", 11, 45)

    def e(i: lang.Ix, j: lang.Ix) -> E:
        return op("exp", x[i, j] - fold(45, const(-math.inf, dt.f32), lambda a, k: op("max", a, x[i, k])))

    return program((x,), [tensor((11, 45), lambda i, j: e(i, j) / total(45, lambda k: e(i, k)))])


@case
def layernorm() -> Program:
    x, w, b = f32("x", 7, 33), f32("w", 33), f32("b", 33)
    mean = tensor((7,), lambda i: total(33, lambda k: x[i, k]) * (1 / 33))
    d = tensor((7, 33), lambda i, j: x[i, j] - mean[i])
    var = tensor((7,), lambda i: total(33, lambda k: d[i, k] * d[i, k]) * (1 / 33))
    r = tensor((7,), lambda i: 1.0 / op("sqrt", var[i] + 1e-5))
    return program((x, w, b), [tensor((7, 33), lambda i, j: d[i, j] * r[i] * w[j] + b[j])])


@case
def gelu() -> Program:
    x = f32("x", 5, 71)
    return program((x,), [mapped(x, lambda v: op("gelu", v)), mapped(x, lambda v: op("tanh", v))])


@case
def matmul_bias_gelu() -> Program:
    a, b, c = f32("a", 13, 17), f32("b", 17, 27), f32("c", 27)
    m = tensor((13, 27), lambda i, j: fold(17, const(0.0, dt.f32), lambda s, k: op("fma", a[i, k], b[k, j], s)))
    return program((a, b, c), [tensor((13, 27), lambda i, j: op("gelu", m[i, j] + c[j])), m])


@case
def matmul_f64() -> Program:
    a, b = (lang.input(n, s, dt.f64) for n, s in (("a", (7, 9)), ("b", (9, 21))))
    zero = const(0.0, dt.f64)
    return program((a, b), [tensor((7, 21), lambda i, j: fold(9, zero, lambda s, k: op("fma", a[i, k], b[k, j], s)))])


def conv(stride: int, pad: int) -> Program:
    x, w = f32("x", 2, 3, 9, 19), f32("w", 4, 3, 3, 3)
    h, v = (9 + 2 * pad - 3) // stride + 1, (19 + 2 * pad - 3) // stride + 1

    def body(n: lang.Ix, o: lang.Ix, y: lang.Ix, z: lang.Ix) -> E:
        def tap(c: lang.Ix, p: lang.Ix, q: lang.Ix) -> E:
            return load_or_zero(x, n, c, stride * y + p - pad, stride * z + q - pad) * w[o, c, p, q]

        return fold(3, const(0.0, dt.f32), lambda s, c: fold(3, s, lambda t, p: fold(3, t, lambda u, q: u + tap(c, p, q))))

    return program((x, w), [tensor((2, 4, h, v), body)])


@case
def conv2d_pad() -> Program:
    return conv(1, 1)


@case
def conv2d_stride() -> Program:
    return conv(2, 1)


@case
def argmax() -> Program:
    x = f32("x", 9, 29)

    def body(i: lang.Ix) -> E:
        def step(m: E, k: E, r: lang.Ix) -> tuple[E, E]:
            better = op("lt", m, x[i, r]) | (op("ne", x[i, r], x[i, r]) & op("eq", m, m))
            return select(better, x[i, r], m), select(better, index(r), k)

        return folds(29, (const(-math.inf, dt.f32), const(0, dt.i64)), step)[1]

    return program((x,), [tensor((9,), body)])


@case
def welford() -> Program:
    x = f32("x", 19, 23)

    def body(i: lang.Ix) -> E:
        def step(mean: E, m2: E, r: lang.Ix) -> tuple[E, E]:
            d = x[i, r] - mean
            after = mean + d / convert(index(r) + 1, dt.f32)
            return after, m2 + d * (x[i, r] - after)

        return folds(23, (const(0.0, dt.f32), const(0.0, dt.f32)), step)[1] * (1 / 23)

    return program((x,), [tensor((19,), body)])


@case
def swap_accumulators() -> Program:
    x = f32("x", 12)
    return program((x,), [tensor((12,), lambda i: folds(5, (x[i], const(1.5, dt.f32)), lambda a, b, r: (b, a + b))[1])])


@case
def cumsum() -> Program:
    x = f32("x", 10, 21)
    inner = tensor((10,), lambda i: total(21, lambda k: x[i, k]))
    outer = tensor((21,), lambda j: total(10, lambda k: x[k, j]))
    return program((x,), [scan((10,), inner.body, 0, 1), scan((21,), outer.body, 0, 0)])


@case
def scan_pair() -> Program:
    x = f32("x", 6, 17)

    def step(m: E, k: E, r: lang.Ix) -> tuple[E, E]:
        return op("max", m, x[0, r]), select(op("lt", m, x[0, r]), index(r), k)

    pair = folds(17, (const(-math.inf, dt.f32), const(-1, dt.i64)), step)
    node = pair[0].args[0] if pair[0].op == "proj" else pair[0]
    return program((x,), [scan((), node, 0, 0), scan((), node, 1, 0)])


@case
def scatter_add() -> Program:
    base, v, idx = f32("base", 9, 13), f32("v", 31, 13), lang.input("idx_of_9", (31,), dt.i64)
    at = wrapped(idx, 9)
    k, j = lang.axes((31, 13))
    return program((base, v, idx), [scatter(base, (31, 13), (at[k], j), v[k, j], "add")])


@case
def scatter_set() -> Program:
    base, v, idx = lang.input("base", (7,), dt.i16), lang.input("v", (20,), dt.i16), lang.input("idx_of_7", (20,), dt.i64)
    (a,), at = lang.axes((20,)), wrapped(idx, 7)
    return program((base, v, idx), [scatter(base, (20,), (at[a],), v[a]), scatter(base, (20,), (at[a],), v[a], "max")])


@case
def gather() -> Program:
    x, idx = f32("x", 9, 21), lang.input("idx_of_9", (14,), dt.i64)
    at = wrapped(idx, 9)
    return program((x, idx), [tensor((14, 21), lambda i, j: x[at[i], j]), tensor((21, 14), lambda j, i: x[at[i], j])])


@case
def cat() -> Program:
    a, b = f32("a", 5, 19), f32("b", 4, 19)

    def body(i: lang.Ix, j: lang.Ix) -> E:
        return select(index(i) < 5, load(a, i, j), load(b, i - 5, j)) * 2.0

    def last(i: lang.Ix, j: lang.Ix) -> E:
        return select(index(j) < 5, load(a, j, i), load(b, j - 5, i))

    return program((a, b), [tensor((9, 19), body), tensor((19, 9), last)])


@case
def transposes() -> Program:
    x, y = f32("x", 19, 26), f32("y", 26, 19)
    z = lang.input("z", (5, 9, 11), dt.f64)
    cycled = tensor((11, 5, 9), lambda i, j, k: z[j, k, i] * 2.0)
    return program((x, y, z), [tensor((26, 19), lambda i, j: x[j, i] + y[i, j]), cycled])


@case
def reshapes() -> Program:
    x = f32("x", 6, 35)
    flat = tensor((210,), lambda i: x[i // 35, i % 35] + 1.0)
    other = tensor((10, 21), lambda i, j: flat[21 * i + j] * 2.0)
    rolled = tensor((210,), lambda i: flat[(i + 17) % 210])
    return program((x,), [other, rolled, tensor((105,), lambda i: flat[209 - 2 * i])])


@case
def column_sums() -> Program:
    x = f32("x", 23, 29)
    sums = tensor((29,), lambda j: total(23, lambda k: x[k, j]))
    squares = tensor((29,), lambda j: op("sqrt", total(23, lambda k: x[k, j] * x[k, j])))
    return program((x,), [sums, squares])


def chain(d: DType) -> Program:
    x, y = lang.input("x", (3, 29), d), lang.input("y", (3, 29), d)

    def half(v: E) -> E:
        return convert(v, d)

    def body(i: lang.Ix, j: lang.Ix) -> E:
        a, b = convert(x[i, j], dt.f32), convert(y[i, j], dt.f32)
        s = convert(half(a + b), dt.f32)
        return half(op("max", convert(half(s * a), dt.f32), b))

    dots = tensor((3,), lambda i: half(total(29, lambda k: convert(x[i, k], dt.f32) * convert(y[i, k], dt.f32))))
    picked = tensor((3, 29), lambda i, j: select(op("lt", convert(x[i, j], dt.f32), 0.0), x[i, j], bitcast(bitcast(y[i, j]), d)))
    return program((x, y), [tensor((3, 29), body), dots, picked])


@case
def bf16_chain() -> Program:
    return chain(dt.bf16)


@case
def f16_chain() -> Program:
    return chain(dt.f16)


@case
def conversions() -> Program:
    inputs = [lang.input(d.name, (3, 19), d) for d in dt.DTYPES.values()]
    pairs = [(t, d) for t in inputs for d in dt.DTYPES.values() if d is not t.dtype]
    return program(inputs, [mapped(t, lambda v, d=d: convert(v, d)) for t, d in pairs])


@case
def masks() -> Program:
    x, y, c = f32("x", 5, 19), lang.input("y", (5, 19), dt.f64), lang.input("c", (5, 19), dt.bool_)

    def body(i: lang.Ix, j: lang.Ix) -> E:
        both = op("lt", x[i, j], 0.5) & op("le", y[i, j], 1.0)
        return select(both | ~c[i, j], convert(x[i, j], dt.f64), y[i, j])

    def flags(i: lang.Ix, j: lang.Ix) -> E:
        return op("lt", y[i, j], 0.0) ^ c[i, j]

    return program((x, y, c), [
        tensor((5, 19), body), tensor((5, 19), flags),
        tensor((5,), lambda i: fold(19, const(False, dt.bool_), lambda a, k: a | op("lt", y[i, k], -3.0))),
        tensor((19,), lambda j: fold(5, const(True, dt.bool_), lambda a, k: a & op("lt", x[k, j], 3.0))),
        tensor((5, 19), lambda i, j: select(op("lt", y[i, j], 0.0), c[i, j], op("eq", x[i, j], x[i, j]))),
        tensor((5, 19), lambda i, j: convert(flags(i, j), dt.i64) + convert(c[i, j], dt.i64)),
    ])  # fmt: skip


@case
def random_words() -> Program:
    """The rounds of Philox in lanes (a counter for each element), and its multiplication in lanes and in scalars."""
    state, a, b = lang.input("state", (2,), dt.i64), lang.input("a", (3, 37), dt.i32), lang.input("b", (3, 37), dt.i32)
    return program([state, a, b], [
        tensor((3, 37), lambda i, j: philox.words(state[0], state[1], index(37 * i + j))[3]),
        tensor((3, 37), lambda i, j: op("umulhi", a[i, j], b[i, j])),
        tensor((3, 37), lambda i, j: op("umulhi", a[i, j], b[i, 0])),
        tensor((3,), lambda i: op("umulhi", a[i, 0], b[i, 0])),
    ])  # fmt: skip


@case
def integer_arithmetic() -> Program:
    inputs, outputs = [], []
    for d in dt.INTEGERS:
        a, b = lang.input(f"a_{d.name}", (2, 23), d), lang.input(f"b_{d.name}", (2, 23), d)
        inputs += [a, b]
        for name in ("add", "sub", "mul", "floordiv", "mod", "max", "min", "band", "bor", "bxor", "shl", "shr", "lt", "le"):
            outputs.append(tensor((2, 23), lambda i, j, n=name, a=a, b=b: op(n, a[i, j], b[i, j])))
        outputs += [mapped(a, lambda v, n=n: op(n, v)) for n in ("neg", "abs", "bnot")]
        if d is dt.i32:
            outputs += [tensor((2, 23), lambda i, j, a=a, b=b: op("umulhi", a[i, j], b[i, j]))]
        outputs.append(tensor((2,), lambda i, a=a, d=d: total(23, lambda k: a[i, k] * a[i, k], d)))
        outputs.append(tensor((2, 23), lambda i, j, d=d: index(3 * i + j, d)))
    return program(inputs, outputs)


@case
def broadcasts() -> Program:
    x, y, c = f32("x", 6), lang.input("y", (6,), dt.f64), lang.input("c", (6,), dt.bool_)

    def zero(i: lang.Ix, d: DType) -> E:
        return select(index(i) < 3, const(-0.0, d), const(math.nan, d))

    return program((x, y, c), [
        tensor((6, 19), lambda i, j: zero(i, dt.f32)), tensor((6, 19), lambda i, j: zero(i, dt.f64)),
        tensor((6, 19), lambda i, j: x[i]), tensor((6, 19), lambda i, j: y[i]), tensor((6, 19), lambda i, j: c[i]),
        tensor((6, 19), lambda i, j: const(-0.0, dt.f32)), tensor((6, 19), lambda i, j: convert(c[i], dt.i64) + index(j)),
    ])  # fmt: skip


@case
def rank_zero() -> Program:
    x = f32("x")
    y = f32("y", 9)
    s = tensor((), lambda: total(9, lambda k: y[k] * x[()]))
    return program((x, y), [s, tensor((1, 9), lambda i, j: s[()] + y[j] + y[i])])


@case
def empty() -> Program:
    x = f32("x", 0, 5)
    return program((x,), [mapped(x, lambda v: v + 1.0), tensor((5,), lambda j: total(0, lambda k: x[k, j]))])


@case
def requires_hold() -> Program:
    x = lang.input("x_of_40", (3, 19), dt.i64)
    twice, small = mapped(x, lambda v: v * 2), mapped(x, lambda v: op("lt", v, 99))
    checked = require((3, 19), twice.body, small.body, "[ValueError] {value} at {index}")
    return program((x,), [tensor((3, 19), lambda i, j: checked[i, j] + 1)])


@case
def sorted_rows() -> Program:
    x = f32("x", 4, 11)
    y = mapped(x, lambda v: v * 2.0)
    s = extern("sort", (y,), (1, False), 0, (4, 11), dt.f32)
    at = extern("sort", (y,), (1, False), 1, (4, 11), dt.i64, 0, 10)
    return program((x,), [tensor((4, 11), lambda i, j: s[i, j] + y[i, j]), at])


@case
def several_outputs() -> Program:
    x = f32("x", 3, 17)
    y = mapped(x, lambda v: v + 1.0)
    return program((x,), [x, y, y, mapped(y, lambda v: op("exp", v))])


@case
def attention() -> Program:
    q, k, v = f32("q", 2, 9, 8), f32("k", 2, 11, 8), f32("v", 2, 11, 8)
    s = tensor((2, 9, 11), lambda h, i, j: fold(8, const(0.0, dt.f32), lambda a, c: op("fma", q[h, i, c], k[h, j, c], a)) * 0.35)
    m = tensor((2, 9), lambda h, i: fold(11, const(-math.inf, dt.f32), lambda a, j: op("max", a, s[h, i, j])))
    e = tensor((2, 9, 11), lambda h, i, j: op("exp", s[h, i, j] - m[h, i]))
    z = tensor((2, 9), lambda h, i: total(11, lambda j: e[h, i, j]))
    p = tensor((2, 9, 11), lambda h, i, j: e[h, i, j] / z[h, i])
    o = tensor((2, 9, 8), lambda h, i, c: fold(11, const(0.0, dt.f32), lambda a, j: op("fma", p[h, i, j], v[h, j, c], a)))
    return program((q, k, v), [o])


def build(names: Sequence[str] | None = None) -> dict[str, Program]:
    return {name: CASES[name]() for name in names or CASES}
