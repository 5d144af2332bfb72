"""The rows of the CPU benchmarks as core programs, one let an operator, as a front end lowers them."""

from __future__ import annotations

import math
from collections.abc import Callable

from assay.core import dtypes as dt
from assay.core import lang
from assay.core.lang import E, Program, T, const, fold, folds, index, input, op, program, select, tensor

f32 = dt.f32


def matrix(name: str, *shape: int) -> T:
    """An f32 input."""
    return input(name, shape, f32)


def each(x: T, f: Callable[[E], E]) -> T:
    """f of every element."""
    return tensor(x.shape, lambda *i: f(x[i]))


def pair(x: T, y: T, f: Callable[[E, E], E]) -> T:
    """f of elements of two tensors of one shape."""
    return tensor(x.shape, lambda *i: f(x[i], y[i]))


def by_row(x: T, m: T, f: Callable[[E, E], E]) -> T:
    """f(x[.., j], m[..])."""
    return tensor(x.shape, lambda *i: f(x[i], m[i[:-1]]))


def by_column(x: T, w: T, f: Callable[[E, E], E]) -> T:
    """f(x[.., j], w[j])."""
    return tensor(x.shape, lambda *i: f(x[i], w[i[-1:]]))


def row_sum(x: T) -> T:
    """The left-to-right sum over the last axis, from +0."""
    return tensor(x.shape[:-1], lambda *i: fold(x.shape[-1], const(0.0, f32), lambda a, k: a + x[(*i, k)]))


def row_max(x: T) -> T:
    """The maximum over the last axis."""
    return tensor(x.shape[:-1], lambda *i: fold(x.shape[-1], const(-math.inf, f32), lambda a, k: op("max", a, x[(*i, k)])))


def column_sum(x: T) -> T:
    """The top-to-bottom sum over the first axis."""
    return tensor(x.shape[1:], lambda *i: fold(x.shape[0], const(0.0, f32), lambda a, k: a + x[(k, *i)]))


def product(a: T, b: T, *, turn_a: bool = False, turn_b: bool = False) -> T:
    """a @ b over the last two axes, k ascending, one rounding a step."""
    m, k = (a.shape[-1], a.shape[-2]) if turn_a else a.shape[-2:]
    n = b.shape[-2] if turn_b else b.shape[-1]

    def element(*i: lang.Ix) -> E:
        lead, r, c = i[:-2], i[-2], i[-1]

        def step(acc: E, q: lang.Ix) -> E:
            return op("fma", a[(*lead, q, r) if turn_a else (*lead, r, q)], b[(*lead, c, q) if turn_b else (*lead, q, c)], acc)

        return fold(k, const(0.0, f32), step)

    return tensor((*a.shape[:-2], m, n), element)


def gelu(x: T) -> T:
    """x/2 (1 + erf(x / sqrt 2)), an operator a let."""
    half = each(x, lambda v: v * 0.5)
    error = each(each(x, lambda v: v * math.sqrt(0.5)), lambda v: op("erf", v))
    return pair(half, each(error, lambda v: v + 1.0), lambda a, b: a * b)


def gelu_backward(g: T, x: T) -> T:
    """g (cdf(x) + x pdf(x))."""
    error = each(each(x, lambda v: v * math.sqrt(0.5)), lambda v: op("erf", v))
    cdf = each(each(error, lambda v: v + 1.0), lambda v: v * 0.5)
    square = each(pair(x, x, lambda a, b: a * b), lambda v: v * -0.5)
    pdf = each(each(square, lambda v: op("exp", v)), lambda v: v * 0.3989422804014327)
    return pair(g, pair(cdf, pair(x, pdf, lambda a, b: a * b), lambda a, b: a + b), lambda a, b: a * b)


def softmax(x: T) -> T:
    """exp(x - max) / sum, over the last axis."""
    e = each(by_row(x, row_max(x), lambda a, m: a - m), lambda v: op("exp", v))
    return by_row(e, row_sum(e), lambda a, s: a / s)


def layer_norm(x: T, w: T, b: T) -> T:
    """(x - mean) / sqrt(var + 1e-5) * w + b."""
    n = x.shape[-1]
    d = by_row(x, each(row_sum(x), lambda v: v * (1.0 / n)), lambda a, m: a - m)
    var = each(row_sum(pair(d, d, lambda a, c: a * c)), lambda v: v * (1.0 / n))
    scaled = by_row(d, each(var, lambda v: 1.0 / op("sqrt", v + 1e-5)), lambda a, r: a * r)
    return by_column(by_column(scaled, w, lambda a, c: a * c), b, lambda a, c: a + c)


def layer_norm_backward(g: T, x: T, mean: T, rstd: T, w: T) -> tuple[T, T, T]:
    """Gradients of x, w and b."""
    n = float(x.shape[-1])
    xhat = by_row(by_row(x, mean, lambda a, m: a - m), rstd, lambda a, r: a * r)
    gw = by_column(g, w, lambda a, c: a * c)
    s1, s2 = row_sum(gw), row_sum(pair(gw, xhat, lambda a, c: a * c))
    first = by_row(each(gw, lambda v: v * n), s1, lambda a, s: a - s)
    second = pair(first, by_row(xhat, s2, lambda a, s: a * s), lambda a, c: a - c)
    dx = by_row(second, each(rstd, lambda v: v * (1.0 / n)), lambda a, r: a * r)
    return dx, column_sum(pair(g, xhat, lambda a, c: a * c)), column_sum(g)


def chain(x: T, y: T, rounds: int = 6) -> T:
    """rounds x (multiply, add, relu, tanh, exp)."""
    z = x
    for _ in range(rounds):
        z = pair(z, y, lambda a, b: a * b)
        z = pair(z, x, lambda a, b: a + b)
        for name in ("relu", "tanh", "exp"):
            z = each(z, lambda v, name=name: op(name, v))
    return z


def attention(q: T, k: T, v: T) -> T:
    """softmax(q k^T / sqrt d) v."""
    s = each(product(q, k, turn_b=True), lambda a: a * q.shape[-1] ** -0.5)
    return product(softmax(s), v)


def conv2d(x: T, w: T, pad: int, stride: int = 1) -> T:
    """Cross-correlation with zero padding, channels then window in order."""
    n, ci, h, b = x.shape
    co, _, kh, kw = w.shape
    shape = (n, co, (h + 2 * pad - kh) // stride + 1, (b + 2 * pad - kw) // stride + 1)

    def element(i: lang.Ix, o: lang.Ix, r: lang.Ix, c: lang.Ix) -> E:
        def at(u: lang.Ix, t: lang.Ix, z: lang.Ix) -> E:
            return lang.load_or_zero(x, i, u, r * stride + t - pad, c * stride + z - pad)

        return fold(
            ci,
            const(0.0, f32),
            lambda a, u: fold(kh, a, lambda a2, t: fold(kw, a2, lambda a3, z: op("fma", at(u, t, z), w[o, u, t, z], a3))),
        )

    return tensor(shape, element)


def cat_rows(*xs: T) -> T:
    """Concatenation along the first axis."""
    total = sum(x.shape[0] for x in xs)

    def element(i: lang.Ix, j: lang.Ix) -> E:
        start, value = xs[0].shape[0], lang.load_or_zero(xs[0], i, j)
        for x in xs[1:]:
            value = select(index(i) < start, value, lang.load_or_zero(x, i - start, j))
            start += x.shape[0]
        return value

    return tensor((total, xs[0].shape[1]), element)


def argmax(x: T) -> T:
    """The first index of the maximum of each row; NaN wins."""
    n = x.shape[-1]

    def element(*i: lang.Ix) -> E:
        def step(m: E, at: E, k: lang.Ix) -> tuple[E, E]:
            v = x[(*i, k)]
            better = (m < v) | (op("ne", v, v) & op("eq", m, m))
            return select(better, v, m), select(better, index(k), at)

        return folds(n, (const(-math.inf, f32), const(0, dt.i64)), step)[1]

    return tensor(x.shape[:-1], element)


def cumsum(x: T) -> T:
    """Prefix sums along the last axis."""
    rest = x.shape[:-1]
    node = lang.tensor(rest, lambda *i: fold(x.shape[-1], const(0.0, f32), lambda a, k: a + x[(*i, k)])).body
    states = lang.scan(rest, node, 0, len(rest))
    return tensor(x.shape, lambda *i: states[(*i[:-1], i[-1] + 1)])


def gather(x: T, at: T) -> T:
    """Rows x[at[i], :]; a negative index counts from the end, then must lie inside."""
    n = x.shape[0]
    v = tensor(at.shape, lambda i: select(at[i] < 0, at[i] + n, at[i]))
    checked = lang.require(
        at.shape, v.body, (v.body >= 0) & (v.body < n), "[IndexError] index {value} at {index}", lo=0, hi=n - 1
    )
    return tensor((*at.shape, x.shape[1]), lambda i, j: x[checked[i], j])


def _program(*outputs: T) -> Program:
    inputs = [t for t in lang.order(outputs) if t.kind == "input"]
    effects = [t for t in lang.order(outputs) if t.kind == "require"]
    return program(inputs, outputs, effects)


def _relu_sum(rows: int, columns: int) -> T:
    total = pair(matrix("x", rows, columns), matrix("y", rows, columns), lambda a, b: a + b)
    return row_sum(each(each(total, lambda v: op("relu", v)), lambda v: v * 2.0))


def _matmul_bias_gelu() -> T:
    z = product(matrix("a", 1024, 1024), matrix("b", 1024, 4096))
    return gelu(by_column(z, matrix("bias", 4096), lambda v, c: v + c))


def _layer_norm_backward() -> tuple[T, ...]:
    return layer_norm_backward(
        matrix("g", 8192, 1024), matrix("x", 8192, 1024), matrix("m", 8192), matrix("r", 8192), matrix("w", 1024)
    )


def _squares(rows: int, columns: int) -> T:
    x = matrix("x", rows, columns)
    return row_sum(pair(x, x, lambda a, b: a * b))


def _transposed_sum(n: int) -> T:
    x, y = matrix("x", n, n), matrix("y", n, n)
    return pair(tensor((n, n), lambda i, j: x[j, i]), y, lambda a, b: a + b)


def _cat() -> T:
    joined = cat_rows(matrix("x", 1000, 4096), matrix("y", 1500, 4096), matrix("z", 1596, 4096))
    return each(each(joined, lambda v: op("relu", v)), lambda v: v * 2.0)


ROWS: dict[str, Callable[[], Program]] = {
    "relu-sum 64x128": lambda: _program(_relu_sum(64, 128)),
    "relu-sum 4096x4096": lambda: _program(_relu_sum(4096, 4096)),
    "gelu 4096x4096": lambda: _program(gelu(matrix("x", 4096, 4096))),
    "gelu backward 4096x4096": lambda: _program(gelu_backward(matrix("g", 4096, 4096), matrix("x", 4096, 4096))),
    "softmax 4096x4096": lambda: _program(softmax(matrix("x", 4096, 4096))),
    "softmax 32768x256": lambda: _program(softmax(matrix("x", 32768, 256))),
    "softmax 64x128": lambda: _program(softmax(matrix("x", 64, 128))),
    "layernorm 8192x1024": lambda: _program(layer_norm(matrix("x", 8192, 1024), matrix("w", 1024), matrix("b", 1024))),
    "layernorm backward": lambda: _program(*_layer_norm_backward()),
    "x.t()+y 4096": lambda: _program(_transposed_sum(4096)),
    "(x*x).sum(-1) 64x16384": lambda: _program(_squares(64, 16384)),
    "sum(0) 16384x1024": lambda: _program(column_sum(matrix("x", 16384, 1024))),
    "gather 1M of 50000x64": lambda: _program(gather(matrix("x", 50000, 64), input("at", (1_000_000,), dt.i64))),
    "matmul 1024": lambda: _program(product(matrix("a", 1024, 1024), matrix("b", 1024, 1024))),
    "matmul 2048": lambda: _program(product(matrix("a", 2048, 2048), matrix("b", 2048, 2048))),
    "matmul+bias+gelu": lambda: _program(_matmul_bias_gelu()),
    "30-op chain 4096x4096": lambda: _program(chain(matrix("x", 4096, 4096), matrix("y", 4096, 4096))),
    "cat of 3, relu*2": lambda: _program(_cat()),
    "conv2d 3x3 8x64x32x32": lambda: _program(conv2d(matrix("x", 8, 64, 32, 32), matrix("w", 64, 64, 3, 3), 1)),
    "attention 8x512x64": lambda: _program(attention(*(matrix(n, 8, 512, 64) for n in "qkv"))),
    "argmax 4096x1024": lambda: _program(argmax(matrix("x", 4096, 1024))),
    "cumsum 4096x1024": lambda: _program(cumsum(matrix("x", 4096, 1024))),
    "matmul 64x128x96": lambda: _program(product(matrix("a", 64, 128), matrix("b", 128, 96))),
    "matmul a.b^T 512x768x640": lambda: _program(product(matrix("a", 512, 768), matrix("b", 640, 768), turn_b=True)),
}
