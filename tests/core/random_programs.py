"""Random core programs, drawn by Hypothesis: every construct of the language, small sizes, special constants."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from assay.core import dtypes as dt
from assay.core.dtypes import DType
from assay.core.index import Ix, ix
from assay.core.lang import (
    E,
    Program,
    T,
    axes,
    bitcast,
    const,
    convert,
    extern,
    folds,
    index,
    input,
    let,
    load,
    load_or_zero,
    op,
    program,
    require,
    scan,
    scatter,
    select,
)

SIZES = st.sampled_from([1, 2, 3, 4, 8, 12, 128])
TYPES = st.sampled_from([dt.f32, dt.f32, dt.i64, dt.i32, dt.f64, dt.bf16, dt.f16, dt.u8, dt.i8, dt.i16, dt.bool_])
FLOATS = st.sampled_from([0.0, -0.0, 1.0, -1.5, math.inf, -math.inf, math.nan, 1e-45, 3.4e38, 0.1])
UNARY = {"f": ["neg", "abs", "sqrt", "floor", "relu", "stop"], "i": ["neg", "abs", "bnot", "stop", "relu"], "b": ["not", "stop"]}
BINARY = {
    "f": ["add", "sub", "mul", "div", "max", "min"],
    "i": ["add", "sub", "mul", "max", "min", "floordiv", "mod", "band", "bor", "bxor", "shl", "shr"],
    "b": ["and", "or", "max", "min"],
}
COMPARE = ["lt", "le", "eq", "ne"]


def family(d: DType) -> str:
    return {"float": "f", "int": "i", "uint": "i", "bool": "b"}[d.kind]


@st.composite
def indices(draw: st.DrawFn, variables: tuple[Ix, ...], depth: int = 3) -> Ix:
    """A random index over the variables."""
    if depth == 0 or not variables or draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from([*variables, ix(draw(st.integers(-3, 9)))]))
    kind = draw(st.integers(0, 3))
    a = draw(indices(variables, depth - 1))
    if kind == 0:
        return a + draw(indices(variables, depth - 1))
    if kind == 1:
        return a * draw(st.sampled_from([-12, -2, -1, 2, 3, 4, 12, 128]))
    c = draw(st.sampled_from([1, 2, 3, 4, 6, 12, 128]))
    return a // c if kind == 2 else a % c


class Builder:
    """Draws expressions that read the tensors made so far."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.tensors: list[T] = []

    def any_index(self, variables: tuple[Ix, ...], depth: int, accs: tuple[E, ...]) -> Ix | E:
        if depth > 0 and self.draw(st.integers(0, 6)) == 0:
            return self.expression(self.draw(st.sampled_from([dt.i64, dt.i32])), variables, depth - 1, accs)
        return self.draw(indices(variables))

    def leaf(self, d: DType, variables: tuple[Ix, ...], depth: int, accs: tuple[E, ...]) -> E:
        same = [a for a in accs if a.dtype is d]
        if same and self.draw(st.booleans()):
            return self.draw(st.sampled_from(same))
        readable = [t for t in self.tensors if t.dtype is d]
        if readable and self.draw(st.integers(0, 4)):
            t = self.draw(st.sampled_from(readable))
            made = load if self.draw(st.integers(0, 3)) else load_or_zero
            return made(t, *(self.any_index(variables, depth, accs) for _ in t.shape))
        if d is dt.i64 and variables and self.draw(st.booleans()):
            return index(self.draw(indices(variables)))
        if d.is_float:
            return const(self.draw(FLOATS), d)
        return const(self.draw(st.sampled_from([0, 1, -1, 7, d.hi, d.lo])), d)

    def expression(self, d: DType, variables: tuple[Ix, ...], depth: int, accs: tuple[E, ...] = ()) -> E:
        if depth == 0 or self.draw(st.integers(0, 5)) == 0:
            return self.leaf(d, variables, depth, accs)
        kind = self.draw(st.integers(0, 7))
        again = self.draw(TYPES)
        if kind == 0:
            condition = self.expression(dt.bool_, variables, depth - 1, accs)
            return select(condition, *(self.expression(d, variables, depth - 1, accs) for _ in range(2)))
        if kind == 1:
            return convert(self.expression(again, variables, depth - 1, accs), d)
        if kind == 2 and d in (dt.i32, dt.f32):
            return bitcast(self.expression(dt.f32 if d is dt.i32 else dt.i32, variables, depth - 1, accs))
        if kind == 3 and variables:
            count = self.draw(st.integers(1, 3))
            inits = [self.expression(d if k == 0 else self.draw(TYPES), variables, depth - 1, accs) for k in range(count)]
            made = folds(
                self.draw(SIZES),
                inits,
                lambda *args: tuple(
                    self.expression(e.dtype, (*variables, args[-1]), depth - 1, accs + args[:-1]) for e in inits
                ),
            )
            return made[0]
        if kind == 4 and not d.is_half:
            start = {"add": 0, "mul": 1, "or": False, "and": True}
            name = self.draw(st.sampled_from(["or", "and"] if d is dt.bool_ else ["add", "mul"]))
            return folds(
                self.draw(SIZES),
                [const(start[name], d)],
                lambda a, r: op(name, a, self.expression(d, (*variables, r), depth - 1, accs)),
            )[0]
        if d.is_half:
            return convert(self.expression(dt.f32, variables, depth - 1, accs), d)
        if d is dt.bool_ and kind == 5:
            of = self.draw(st.sampled_from([dt.f32, dt.i64]))
            return op(self.draw(st.sampled_from(COMPARE)), self.expression(of, variables, depth - 1, accs),
                      self.expression(of, variables, depth - 1, accs))  # fmt: skip
        if kind == 6:
            return op(self.draw(st.sampled_from(UNARY[family(d)])), self.expression(d, variables, depth - 1, accs))
        shared = self.expression(d, variables, depth - 1, accs)
        other = shared if self.draw(st.integers(0, 3)) == 0 else self.expression(d, variables, depth - 1, accs)
        return op(self.draw(st.sampled_from(BINARY[family(d)])), shared, other)

    def shape(self) -> tuple[int, ...]:
        return tuple(self.draw(st.lists(SIZES, max_size=3)))

    def tensor(self) -> T:
        kind = self.draw(st.sampled_from(["let", "let", "let", "require", "scan", "scatter", "extern"]))
        shape = self.shape()
        variables = tuple(ix(v) for v in axes(shape))
        d = self.draw(TYPES)
        if kind == "require":
            body = self.expression(d, variables, 2)
            cond = self.expression(dt.bool_, variables, 2)
            narrow = (max(body.lo, -5), body.hi) if d.is_integer and body.hi >= -5 else (None, None)
            return require(shape, body, cond, '[IndexError] "{value}"\n at {index}', lo=narrow[0], hi=narrow[1])
        if kind == "scan":
            made = folds(4, [const(0, d)], lambda a, r: self.expression(d, (*variables, r), 2, (a,)))[0]
            if made.op == "fold":
                return scan(shape, made, 0, self.draw(st.integers(0, len(shape))))
        if kind == "scatter":
            base = self.draw(st.sampled_from(self.tensors))
            at = [self.any_index(variables, 2, ()) for _ in base.shape]
            combine = self.draw(st.sampled_from([None, "max"])) if not base.dtype.is_half else None
            return scatter(base, shape, at, self.expression(base.dtype, variables, 2), combine)
        if kind == "extern":
            bounds = (0, 100) if d.is_integer else (None, None)
            return extern("sort", self.tensors[-2:], (1, -0.5, True, None, "a\"b", (dt.f32, (), 3)), 1, shape, d, *bounds)
        return let(shape, self.expression(d, variables, 3))


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """A program of one to three inputs and one to four tensors."""
    b = Builder(draw)
    shapes = [b.shape() for _ in range(draw(st.integers(1, 3)))]
    inputs = [input(name, s, draw(TYPES)) for name, s in zip(["x", "i", "the input"], shapes, strict=False)]
    b.tensors = list(inputs)
    for _ in range(draw(st.integers(1, 4))):
        b.tensors.append(b.tensor())
    outputs = draw(st.lists(st.sampled_from(b.tensors), min_size=1, max_size=3))
    return program(inputs, outputs, b.tensors[len(inputs) :], draw(st.sampled_from(["f", "my program", "fold"])))
