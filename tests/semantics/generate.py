"""Random small programs over every kind of expression and tensor, for comparison with the oracle."""

from __future__ import annotations

import math
import random

import numpy as np

from assay.core import dtypes as dt
from assay.core import lang
from assay.core.errors import UserError
from assay.core.index import ix
from assay.core.lang import bitcast, const, convert, folds, index, load, load_or_zero, op, select
from assay.core.row import TABLE

SPECIAL = (math.nan, math.inf, -math.inf, 0.0, 0.0, -0.0, -0.0, -0.0, 1.0, 1.0, -1.0, -1.5, 2.5, 0.1,
           1e-45, -1e-40, 3.4e38, 2.0**31, -(2.0**63))  # fmt: skip
INTS = (0, 1, -1, 2, 3, -7, 127, -128, 255, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63))
COMMON = (dt.f32, dt.f32, dt.f64, dt.i64, dt.i32, dt.i8, dt.u8, dt.bool_, dt.f16, dt.bf16)
TWIN = {"f16": dt.i16, "bf16": dt.i16, "f32": dt.i32, "f64": dt.i64, "i32": dt.f32, "i64": dt.f64}
PRIMITIVES = [r for r in TABLE.values() if r.kind == "primitive" and r.name != "select"]


def array(rng: random.Random, shape, d):
    """Random values of type d, special ones among them."""
    n = math.prod(shape)
    if d.is_float:
        flat = [rng.choice(SPECIAL) if rng.random() < 0.3 else rng.gauss(0, 2) for _ in range(n)]
        with np.errstate(all="ignore"):
            values = np.array(flat, np.float64)
            return values.astype(np.float32 if d.is_half else d.numpy).astype(d.numpy).reshape(shape)
    flat = [rng.choice(INTS) if rng.random() < 0.4 else rng.randrange(-9, 10) for _ in range(n)]
    return np.array(flat, np.int64).astype(np.uint8 if d is dt.u8 else np.int64).astype(d.numpy).reshape(shape)


class Generator:
    """The program and the arrays of one seed."""

    def __init__(self, seed: int):
        self.rng = random.Random(seed)
        self.tensors = []
        self.inputs = []
        for k in range(self.rng.randint(1, 3)):
            d = self.rng.choice(COMMON)
            t = lang.input(f"x{k}", self.shape(), d)
            self.inputs.append(t)
            self.tensors.append(t)
        self.named = [r for r in TABLE.values() if r.kind == "named"]

    def shape(self):
        return tuple(self.rng.choice((1, 2, 3, 3, 4, 5)) for _ in range(self.rng.choice((0, 1, 1, 2, 2, 3))))

    def arrays(self):
        return [array(self.rng, t.shape, t.dtype) for t in self.inputs]

    def index(self, axes, n, inside):
        """A random index expression; in 0..n-1 when `inside`."""
        rng = self.rng
        r = ix(rng.randint(0, 3))
        for v in rng.sample(axes, min(len(axes), rng.randint(0, 2))):
            r = r + rng.choice((1, 1, 1, -1, 2, 3)) * v
        if rng.random() < 0.3:
            r = r // rng.choice((2, 3))
        if rng.random() < 0.2:
            ints = [t for t in self.tensors if t.dtype.is_integer and t.size]
            if ints:
                t = rng.choice(ints)
                r = r + lang.as_index(load(t, *(self.index(axes, m, True) for m in t.shape)))
        plain = [v for v in axes if v.hi < n]
        if inside and plain and rng.random() < 0.6:
            return rng.choice(plain)
        return r % n if inside else r

    def load(self, axes):
        t = self.rng.choice(self.tensors)
        if not t.size or self.rng.random() < 0.25:
            return load_or_zero(t, *(self.index(axes, n, False) for n in t.shape))
        return load(t, *(self.index(axes, n, True) for n in t.shape))

    def of(self, e, d):
        """`e` as type d."""
        if e.dtype is d:
            return e
        if d is dt.bool_:
            return op("ne", self.of(e, dt.f32) if e.dtype.is_half else e, 0)
        return convert(e, d)

    def const(self, d):
        rng = self.rng
        if d.is_float:
            return const(rng.choice(SPECIAL), d)
        return const(rng.choice(INTS), d)

    def expression(self, d, axes, depth, accs=()):
        rng = self.rng
        if accs and rng.random() < 0.3:
            return self.of(rng.choice(accs), d)
        if depth == 0 or rng.random() < 0.1:
            k = rng.random()
            if k < 0.15:
                return self.const(d)
            if k < 0.3:
                i = self.index(axes, 3, False)
                return self.of(index(i if dt.i64.lo <= i.lo and i.hi <= dt.i64.hi else i % 7, dt.i64), d)
            return self.of(self.load(axes), d)
        k = rng.random()
        if k < 0.12:
            c = self.expression(dt.bool_, axes, depth - 1, accs)
            return select(c, self.expression(d, axes, depth - 1, accs), self.expression(d, axes, depth - 1, accs))
        if k < 0.2:
            return self.of(self.expression(rng.choice(COMMON), axes, depth - 1, accs), d)
        if k < 0.25 and d.name in TWIN:
            x = self.expression(TWIN[d.name], axes, depth - 1, accs)
            return bitcast(select(op("eq", x, x), x, 1), d)  # the bits of a NaN are nobody's business
        if k < 0.45 and depth > 1:
            return self.fold(d, axes, depth, accs)
        row = rng.choice(self.named) if rng.random() < 0.15 else rng.choice(PRIMITIVES)
        for inner in rng.sample((d, dt.f32, dt.i64, dt.i32, dt.f64, dt.bool_, dt.u8), 7):
            try:
                row.types(*(inner for _ in row.params))
            except UserError:
                continue
            return self.of(op(row.name, *(self.expression(inner, axes, depth - 1, accs) for _ in row.params)), d)
        return self.of(self.load(axes), d)

    def fold(self, d, axes, depth, accs=()):
        rng = self.rng
        n = rng.randint(2, 5)
        if rng.random() < 0.5:  # the shapes that have a quick reading
            d2 = rng.choice((dt.f32, dt.f32, dt.f64, dt.i32, dt.i8, dt.bool_))
            if d2.is_float:
                name = rng.choice(("add", "mul", "max", "min", "fma"))
            else:
                name = rng.choice(("max", "min")) if d2 is dt.bool_ else rng.choice(("add", "max", "mul", "bxor", "band"))

            def step(a, r):
                x = self.expression(d2, [*axes, r], depth - 2, accs)
                if name == "fma":
                    return op("fma", x, self.expression(d2, [*axes, r], depth - 2, accs), a)
                return op(name, a, x) if rng.random() < 0.7 else op(name, x, a)

            return self.of(lang.fold(n, self.expression(d2, axes, 0, accs), step), d)
        types = [rng.choice(COMMON) for _ in range(rng.randint(1, 2))]
        inits = [self.expression(t, axes, depth - 2, accs) for t in types]

        def general(*now):
            *own, r = now
            return tuple(self.expression(t, [*axes, r], depth - 1, tuple(own) + accs) for t in types)

        made = folds(n, inits, general)
        return self.of(rng.choice(made), d)

    def reduction(self):
        """A fold or scan over one axis of a tensor, from the neutral element or -0: rounding and signs show undisturbed."""
        rng = self.rng
        found = [t for t in self.tensors if t.shape and t.shape[-1] > 1 and t.size and t.dtype is not dt.bool_]
        if not found:
            return lang.let((2,), self.expression(dt.f32, [ix(v) for v in lang.axes((2,))], 1))
        x = rng.choice(found)
        d = dt.f32 if x.dtype.is_half else x.dtype
        name = rng.choice(("add", "mul", "max", "min", "fma") if d.is_float else ("add", "mul", "max", "min", "bor"))
        k = rng.randrange(len(x.shape)) if rng.random() < 0.3 else len(x.shape) - 1
        rest = x.shape[:k] + x.shape[k + 1 :]
        axes = [ix(v) for v in lang.axes(rest)]

        def step(a, r):
            e = self.of(load(x, *axes[:k], r, *axes[k:]), d)
            return op("fma", e, e * e, a) if name == "fma" else op(name, a, e)

        start = -0.0 if d.is_float and name in ("add", "fma") else {"mul": 1, "max": -9, "min": 9}.get(name, 0)
        e = lang.fold(x.shape[k], const(start, d), step)
        if e.op == "fold" and rng.random() < 0.4:
            return lang.scan(rest, e, 0, rng.randint(0, len(rest)))
        return lang.let(rest, e)

    def tensor(self):
        rng = self.rng
        kind = rng.random()
        if kind < 0.3:
            return self.reduction()
        shape = self.shape() if rng.random() < 0.95 else (2, 0)
        axes = [ix(v) for v in lang.axes(shape)]
        if kind < 0.7:
            return lang.let(shape, self.expression(rng.choice(COMMON), axes, rng.randint(1, 4)))
        if kind < 0.76:
            cond = op("or", self.expression(dt.bool_, axes, 2), op("le", index(axes[0] if axes else ix(0)), 2))
            return lang.require(shape, self.expression(rng.choice(COMMON), axes, 2), cond, "[ValueError] {value} at {index}")
        if kind < 0.88:
            for _ in range(20):
                e = self.fold(rng.choice(COMMON), axes, 3)
                while e.op in ("convert", "bitcast", "ne", "proj"):
                    e = e.args[0]
                if e.op == "fold":
                    return lang.scan(shape, e, rng.randrange(len(e.args) // 2), rng.randint(0, len(shape)))
            return lang.let(shape, self.expression(dt.f32, axes, 2))
        base = rng.choice(self.tensors)
        if base.dtype.is_half or rng.random() < 0.3:
            combine = None
        elif base.dtype is dt.bool_:
            combine = rng.choice(("max", "min", "and", "or"))
        else:
            combine = rng.choice(("add", "max", "min", "mul"))
        idx = [self.index(axes, n, rng.random() < 0.5) if n else ix(0) for n in base.shape]
        return lang.scatter(base, shape, idx, self.expression(base.dtype, axes, 2), combine)

    def program(self):
        for _ in range(self.rng.randint(1, 4)):
            self.tensors.append(self.tensor())
        made = self.tensors[len(self.inputs) :]
        outputs = [made[-1], self.rng.choice(made)]
        return lang.program(self.inputs, outputs, [t for t in made if t.kind == "require"])
