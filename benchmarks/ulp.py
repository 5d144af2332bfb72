"""Largest errors of the elementary functions, in units in the last place (ulp) of the exact result.

    python benchmarks/ulp.py [NAME ...]            f32: all 2**32 inputs of a function of one argument, or random pairs
    python benchmarks/ulp.py --every 64 NAME ...   f32: one block of 2**16 inputs in 64 (a smoke test: sampling hides maxima)
    python benchmarks/ulp.py --numpy 1 NAME ...    f32: numpy's bits on every block that is run, not on one in 64
    python benchmarks/ulp.py --f64 [NAME ...]      f64: random inputs
    python benchmarks/ulp.py --table               writes what has been measured into docs/accuracy.md

The function is compared with glibc in the next wider type: f64 for f32 (its error, below one f64 ulp, is 2**-29 f32 ulp),
80-bit long double for f64 (x86 only; its own error adds up to 1 ulp to gelu_tanh).  What runs over all inputs is the code that
the C++ backend emits, and numpy must have its bits; random inputs run in a plain translation of the composition to C++.
Subnormal results are measured in units of the last subnormal bit, an infinite result counts as 2**(largest exponent), logaddexp
in ulp of the larger of its result and its larger argument. Results are kept in benchmarks/ulp.json.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from assay.backends.cpp import compile_many
from assay.core import dtypes as dt
from assay.core.dtypes import DType
from assay.core.lang import E, Program, input, load, op, program, tensor, walk
from assay.core.row import TABLE
from assay.semantics import denote
from assay.semantics.compare import bits_equal

RESULTS = Path(__file__).with_suffix(".json")
DOCUMENT = Path(__file__).parent.parent / "docs" / "accuracy.md"
FLAGS = "-march=native -ffp-contract=off -fno-math-errno -fno-trapping-math -fwrapv -fPIC -shared -w -std=c++20".split()

# ------------------------------------------------------------------------------------------------ C++

C_TYPES = {"f32": "float", "f64": "double", "i32": "int", "i64": "long", "bool": "bool"}
C_SPELLING = {
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": "{0} / {1}",
    "neg": "-{0}",
    "abs": "__builtin_fabs{s}({0})",
    "sqrt": "__builtin_sqrt{s}({0})",
    "trunc": "__builtin_trunc{s}({0})",
    "fma": "__builtin_fma{s}({0}, {1}, {2})",
    "max": "maximum({0}, {1})",
    "min": "-maximum(-{0}, -{1})",
    "lt": "{0} < {1}",
    "le": "{0} <= {1}",
    "eq": "{0} == {1}",
    "ne": "{0} != {1}",
    "and": "{0} & {1}",
    "or": "{0} | {1}",
    "not": "!{0}",
    "band": "{0} & {1}",
    "bor": "{0} | {1}",
    "bxor": "{0} ^ {1}",
    "shl": "({t})((unsigned {t}){0} << {1})",
    "shr": "{0} >> {1}",
    "select": "{0} ? {1} : {2}",
    "convert": "({t}){0}",
    "bitcast": "__builtin_bit_cast({t}, {0})",
}
PRELUDE = """
template <class F> static inline F maximum(F a, F b) {
  return a != a ? a : b != b ? b : a == b ? (__builtin_signbit(a) ? b : a) : a > b ? a : b;
}
"""


def translate(e: E, arguments: list[E], name: str = "fn") -> str:
    """A C++ function `name` of n elements: the composition, one statement a node (shift counts are in range in mathlib)."""
    names = {a: f"x{k}[i]" for k, a in enumerate(arguments)}
    lines: list[str] = []
    for node in walk([e]):
        if node in names:
            continue
        t = C_TYPES[node.dtype.name]
        if node.op == "const":
            bits = f"{node.attr}u{'l' if node.dtype.bits == 64 else ''}"
            value = f"__builtin_bit_cast({t}, {bits})" if node.dtype is not dt.bool_ else str(node.attr)
        else:
            suffix = "f" if node.dtype is dt.f32 else ""
            value = C_SPELLING[node.op].format(*(names[a] for a in node.args), s=suffix, t=t)
        names[node] = f"v{len(lines)}"
        lines.append(f"    const {t} {names[node]} = {value};")
    given = ", ".join(f"const {C_TYPES[a.dtype.name]}* __restrict x{k}" for k, a in enumerate(arguments))
    head = f'extern "C" void {name}({C_TYPES[e.dtype.name]}* __restrict y, {given}, long n) {{'
    return "\n".join([head, "  for (long i = 0; i < n; i++) {", *lines, f"    y[i] = {names[e]};", "  }", "}", ""])


def build(text: str, optimise: str = "-O3") -> ctypes.CDLL:
    """The compiled text (the bits are those of -O1: no flag lets the compiler change a result)."""
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "fn.cpp"), Path(folder, "fn.so")
        source.write_text(PRELUDE + text)
        run = subprocess.run(
            ["g++", optimise, *FLAGS, "-o", str(library), str(source), "-lm"], capture_output=True, text=True, check=False
        )
        if run.returncode:
            raise SystemExit(run.stderr[:4000])
        return ctypes.CDLL(str(library))


def composition(name: str, dtype: DType) -> tuple[E, list[E]]:
    """The function as an expression of its arguments."""
    row = TABLE[name]
    arguments = [load(input(p, (1,), dtype), 0) for p in row.params]
    if row.kind == "primitive":
        return op(name, *arguments), arguments
    return row.define(*arguments), arguments  # type: ignore[operator]


def pointer(a: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(a.ctypes.data)


@cache
def compiled(name: str, dtype: DType) -> Callable[..., np.ndarray]:
    """The function, compiled, on numpy arrays."""
    library = build(translate(*composition(name, dtype)))

    def call(*xs: np.ndarray) -> np.ndarray:
        xs = tuple(np.ascontiguousarray(x, dtype.numpy) for x in xs)
        y = np.empty_like(xs[0])
        library.fn(pointer(y), *map(pointer, xs), ctypes.c_long(y.size))
        return y

    return call


# ------------------------------------------------------------------------------------------------ the oracle

ORACLE = r"""
extern "C" { @DECLARATIONS@ }
typedef @WIDE@ W;
static inline W sigmoid_(W x) { return 1 / (1 + M(exp)(-x)); }
static inline W softplus_(W x) { return (x > 0 ? x : x == x ? 0 : x) + M(log1p)(M(exp)(-M(fabs)(x))); }
static inline W silu_(W x) { return x == -__builtin_inf() ? (W)-0.0 : x / (1 + M(exp)(-x)); }
static inline W gelu_(W x) {
  if (x == -__builtin_inf()) return (W)-0.0;
  const W c = 0.70710678118654752440084436210485L, t = x * -c, d = M(fma)(x, -c, -t) + x * (W)@LOW@;  // -x/sqrt2 = t + d
  return (W)0.5 * x * (t > -30 && t < 60 ? M(erfc)(t) - (W)1.1283791670955125739L * M(exp)(-t * t) * d : M(erfc)(t));
}
static inline W gelu_tanh_(W x) {
  if (x < -30) return (W)-0.0;
  if (x > 30) return x;
  return x / (1 + M(exp)(-(W)1.59576912160573071175978423973752L * (x + (W)0.044715L * x * x * x)));
}
static inline W rsqrt_(W x) { return 1 / M(sqrt)(x); }
static inline W logaddexp_(W x, W y) {
  if (x != x || y != y) return x + y;
  W top = x > y ? x : y, d = x > y ? y - x : x - y;
  return d == d && d > -__builtin_inf() ? top + M(log1p)(M(exp)(d)) : top;
}
struct Result { double worst; double at[2], got, exact; long rounded_otherwise, wrong, sign; double wrong_at[2], sign_at[2]; };
extern "C" void measure(Result* R, const @NARROW@* y, const @NARROW@* x0, const @NARROW@* x1, long n) {
  const W limit = M(ldexp)((W)1, @EMAX@);
  for (long i = 0; i < n; i++) {
    const W o = CALL;
    const @NARROW@ r = (@NARROW@)o, v = y[i];
    if (r == v && (r != 0 || !__builtin_signbit(r) == !__builtin_signbit(v))) continue;
    if (r != r && v != v) continue;
    R->rounded_otherwise++;
    double error;
    if (r != r || v != v) error = 1e30;
    else {
      W a = o > limit ? limit : o < -limit ? -limit : o, b = (W)v > limit ? limit : (W)v < -limit ? -limit : (W)v;
      W unit = UNIT;
      int e; M(frexp)(unit, &e);
      if (unit == 0 || e < @EMIN@) e = @EMIN@;
      if (e > @EMAX@) e = @EMAX@;
      error = (double)M(ldexp)(M(fabs)(b - a), @P@ - e);
      if (r == 0 && v == 0) { R->sign++; R->sign_at[0] = x0[i]; R->sign_at[1] = x1[i]; }
    }
    if (error > 2) { R->wrong++; R->wrong_at[0] = x0[i]; R->wrong_at[1] = x1[i]; }
    if (error > R->worst) { R->worst = error; R->at[0] = x0[i]; R->at[1] = x1[i]; R->got = v; R->exact = (double)o; }
  }
}
"""
ONE = "exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh erf erfc cbrt".split()
TWO = "pow atan2 hypot fmod remainder".split()
SYMMETRIC = "sin cos tan sinh cosh tanh asin atan asinh atanh erf cbrt".split()
"""f(-x) = f(x) or -f(x) by construction: only x >= 0 is run."""
NAMES = [*ONE, "sigmoid", "silu", "softplus", "gelu", "gelu_tanh", "rsqrt", *TWO, "logaddexp"]
INF, NAN = float("inf"), float("nan")


class Result(ctypes.Structure):
    _fields_ = (
        ("worst", ctypes.c_double),
        ("at", ctypes.c_double * 2),
        ("got", ctypes.c_double),
        ("exact", ctypes.c_double),
        ("rounded_otherwise", ctypes.c_long),
        ("wrong", ctypes.c_long),
        ("sign", ctypes.c_long),
        ("wrong_at", ctypes.c_double * 2),
        ("sign_at", ctypes.c_double * 2),
    )


def measuring(name: str, dtype: DType) -> ctypes.CDLL:
    """The function and its oracle in one library."""
    wide, suffix = ("double", "") if dtype is dt.f32 else ("long double", "l")
    declarations = [f"{wide} {f}{suffix}({wide});" for f in [*ONE, "sqrt", "fabs"]] + [
        f"{wide} {f}{suffix}({wide}, {wide});" for f in TWO
    ]
    declarations += [f"{wide} fmax{suffix}({wide}, {wide});", f"{wide} fma{suffix}({wide}, {wide}, {wide});"]
    declarations += [f"{wide} ldexp{suffix}({wide}, int);", f"{wide} frexp{suffix}({wide}, int*);"]
    known = name in ONE or name in TWO
    arguments = ", ".join(f"(W)x{k}[i]" for k in range(len(TABLE[name].params)))
    call = f"{f'M({name})' if known else name + '_'}({arguments})"
    unit = "M(fmax)(M(fabs)(a), M(fabs)(M(fmax)(x0[i], x1[i])))" if name == "logaddexp" else "a"  # it cancels near zeros
    text = ORACLE.replace("CALL", call).replace("UNIT", unit)
    replaced = {"DECLARATIONS": " ".join(declarations), "WIDE": wide, "NARROW": C_TYPES[dtype.name]}
    replaced |= (
        {"EMIN": "-125", "EMAX": "128", "P": "24", "LOW": "0x1.bdd3413b26456p-55"}
        if dtype is dt.f32
        else {"EMIN": "-1021", "EMAX": "1024", "P": "53", "LOW": "-0x1.65f626cdd52bp-66"}
    )
    for key, value in replaced.items():
        text = text.replace(f"@{key}@", value)
    return build(translate(*composition(name, dtype)) + f"#define M(f) f{'##l' if suffix else ''}\n" + text)


# ------------------------------------------------------------------------------------------------ inputs

SPECIAL = [0.0, 1.0, 2.0, 3.0, 0.5, 1.5, 2.5, INF, 1.4e-45, 1.1754944e-38, 1e-39, 3.4028235e38, 16777215.0, 16777216.0,
           33554431.0, 0.99999994, 1.0000001, 128.0, 149.0, 150.0, 127.0, 1e30, 1e-30, 4.5, 7.0]  # fmt: skip
SPECIAL_F64 = [
    5e-324,
    2.2250738585072014e-308,
    1e-310,
    1.7976931348623157e308,
    2.0**52,
    2.0**53 - 1,
    2.0**53,
    1e300,
    1e-300,
    709.78,
]


def special(dtype: DType) -> np.ndarray:
    """Zeros, infinities, NaN, subnormals, the largest, small integers and their neighbours, with both signs."""
    values = SPECIAL + (SPECIAL_F64 if dtype is dt.f64 else [])
    return np.array([s * v for v in values for s in (1.0, -1.0)] + [NAN], dtype.numpy)


def random_bits(g: np.random.Generator, dtype: DType, n: int) -> np.ndarray:
    uint = np.uint32 if dtype is dt.f32 else np.uint64
    return g.integers(0, np.iinfo(uint).max, n, dtype=uint, endpoint=True).view(dtype.numpy)


DOMAIN = {"log": (1e-3, 3.0), "log2": (1e-3, 3.0), "log10": (1e-3, 3.0), "rsqrt": (1e-3, 3.0), "acosh": (1.0, 20.0),
          "log1p": (-1.0, 3.0), "asin": (-1.0, 1.0), "acos": (-1.0, 1.0), "atanh": (-1.0, 1.0), "erfc": (-6.0, 27.0),
          "exp": (-745.0, 710.0), "expm1": (-40.0, 710.0), "exp2": (-1075.0, 1024.0), "gelu": (-38.0, 8.0)}  # fmt: skip


def inputs(name: str, dtype: DType, n: int, k: int, g: np.random.Generator) -> tuple[np.ndarray, ...]:
    """n inputs of the k-th distribution: bits, wide magnitudes, ordinary numbers, where the function is interesting, near 1."""
    if len(TABLE[name].params) == 2:
        return tuple(a.astype(dtype.numpy) for a in _pairs(name, dtype, n, k, g))
    low, high = DOMAIN.get(name, (-25.0, 25.0))
    kind = k % 5
    if kind == 0:
        x = random_bits(g, dtype, n)
    elif kind == 1:
        x = np.exp(g.uniform(-40, 4, n)) * g.choice([-1.0, 1.0], n)
    elif kind == 2:
        x = g.uniform(-3, 3, n)
    elif kind == 3:
        x = g.uniform(low, high, n)
    else:
        x = 1 + g.normal(0, 1e-2, n)
    x = np.abs(x) if low >= 0 else x
    return (x.astype(dtype.numpy),)


def _pairs(name: str, dtype: DType, n: int, k: int, g: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    sign = g.choice([-1.0, 1.0], n)
    top, bottom = (87.0, -103.0) if dtype is dt.f32 else (700.0, -740.0)
    kind = k % 6
    if kind == 0:
        return random_bits(g, dtype, n), random_bits(g, dtype, n)
    if kind == 1:
        return np.exp(g.uniform(-10, 10, n)), g.normal(0, 10, n)
    if kind == 2:
        return g.normal(0, 1, n), g.normal(0, 1, n)
    if kind == 3:
        return 1 + g.normal(0, 1e-3, n), g.normal(0, 3e4, n)
    a = np.exp(g.uniform(-top, top, n)) * sign
    if kind == 4:
        return a, g.integers(-8, 9, n) * 0.5 if name == "pow" else a * np.exp(g.uniform(-3, 3, n))
    b = g.uniform(0.8, 1.2, n) if name == "pow" else np.exp(g.uniform(bottom, -0.8 * top, n))
    return np.exp(g.uniform(bottom, -0.8 * top, n)), b


# ------------------------------------------------------------------------------------------------ measuring


@dataclass
class Row:
    """One line of a table."""

    name: str
    dtype: str
    operations: int
    divisions: int
    inputs: str
    count: int
    worst: float
    at: list[float]
    rounded_otherwise: float
    wrong: int
    sign: int
    nanoseconds: float
    compared: int = 0
    """Inputs on which numpy was asked too."""
    differing: int = 0
    """Blocks of them in which its bits were not those of the emitted code."""


def operations(e: E) -> tuple[int, int]:
    """(all operations but bit casts, divisions and square roots) of a composition."""
    nodes = [n for n in walk([e]) if n.op not in ("const", "load", "bitcast")]
    return len(nodes), sum(n.op in ("div", "sqrt") for n in nodes)


def speed(library: ctypes.CDLL, name: str, dtype: DType) -> float:
    """Nanoseconds an element, 4096 elements in the first-level cache, best of many: this translation, vectorised by g++."""
    g = np.random.default_rng(0)
    xs = [np.abs(g.uniform(0.3, 0.99, 4096)).astype(dtype.numpy) for _ in TABLE[name].params]
    if name == "acosh":
        xs = [x + dtype.numpy.type(1) for x in xs]
    y = np.empty_like(xs[0])
    best = INF
    for _ in range(60):
        start = time.perf_counter()
        for _ in range(16):
            library.fn(pointer(y), *map(pointer, xs), ctypes.c_long(y.size))
        best = min(best, time.perf_counter() - start)
    return best / 16 / y.size * 1e9


def row(name: str, dtype: DType, library: ctypes.CDLL, result: Result, described: str, count: int, compared: int = 0,
        differing: int = 0) -> Row:  # fmt: skip
    ops, divisions = operations(composition(name, dtype)[0])
    at = list(result.at)[: len(TABLE[name].params)]
    shown = Row(name, dtype.name, ops, divisions, described, count, result.worst, at, result.rounded_otherwise / count,
                result.wrong, result.sign, speed(library, name, dtype), compared, differing)  # fmt: skip
    wrong = f" wrong {result.wrong} at {list(result.wrong_at)}" if result.wrong else ""
    sign = f" sign of zero {result.sign} at {list(result.sign_at)}" if result.sign else ""
    print(f"{name:10} {dtype.name} ops {ops:3} {shown.nanoseconds:6.2f} ns  worst {result.worst:.4f} at {at} ", end="")
    print(f"({result.got!r}, exact {result.exact!r})", end=" ")
    print(f"not correctly rounded {100 * shown.rounded_otherwise:.4f} %{wrong}{sign}", end="")
    print(f"; numpy differs in {differing} of {compared // BLOCK} blocks" if compared else "", flush=True)
    return shown


BLOCK = 1 << 16


def elementwise(name: str) -> Program:
    """The function of BLOCK numbers of f32."""
    x = input("x", (BLOCK,), dt.f32)
    return program((x,), [tensor((BLOCK,), lambda i: op(name, x[i]))])


def every_f32(name: str, every: int = 1, numpy_every: int = 64) -> Row:
    """The emitted code on all 2**32 inputs (2**31 of an odd or even function), or one block of BLOCK in `every`.

    On one of `numpy_every` of these blocks numpy has the same bits, or the row says that it has not.
    """
    library, result = measuring(name, dt.f32), Result()
    p = elementwise(name)
    (emitted,) = compile_many([p], threads=1)
    compared = differing = 0
    end = 1 << (31 if name in SYMMETRIC else 32)
    for k, first in enumerate(range(0, end, BLOCK * every)):
        x = np.arange(first, first + BLOCK, dtype=np.uint32).view(np.float32)
        (y,) = emitted([x])
        library.measure(ctypes.byref(result), pointer(y), pointer(x), pointer(x), ctypes.c_long(BLOCK))
        if k % numpy_every == numpy_every // 2:
            compared += BLOCK
            differing += not bits_equal(y, denote.run(p, [x])[0])
    described = "all" if every == 1 else f"1 in {every}"
    return row(name, dt.f32, library, result, described, end // every, compared, differing)


def sampled(name: str, dtype: DType, rounds: int, n: int = 1 << 18) -> Row:
    """Random inputs of several distributions, and every pair of special values."""
    library, result, g = measuring(name, dtype), Result(), np.random.default_rng(1)
    two = len(TABLE[name].params) == 2

    def measure(*xs: np.ndarray) -> None:
        xs = tuple(np.ascontiguousarray(x) for x in xs)
        y = np.empty_like(xs[0])
        library.fn(pointer(y), *map(pointer, xs), ctypes.c_long(y.size))
        library.measure(ctypes.byref(result), pointer(y), pointer(xs[0]), pointer(xs[-1]), ctypes.c_long(y.size))

    s = special(dtype)
    measure(*((np.repeat(s, s.size), np.tile(s, s.size)) if two else (s,)))
    with np.errstate(all="ignore"):
        for k in range(rounds):
            measure(*inputs(name, dtype, n, k, g))
    return row(name, dtype, library, result, f"{rounds * n:.1e} random", rounds * n)


def results() -> dict[str, dict[str, Any]]:
    """What has been measured: "name.dtype" -> the fields of a Row."""
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def table(dtype: str) -> str:
    """The measured rows of one format as a Markdown table; what has not been measured says so."""
    kept = results()
    lines = [
        "| function | operations (divisions) | inputs | worst ulp | at | not correctly rounded |",
        "|---|---|---|---|---|---|",
    ]
    for name in NAMES:
        r = kept.get(f"{name}.{dtype}")
        if r is None:
            lines.append(f"| {name} | | not measured | | | |")
            continue
        at = ", ".join(f"{v:.9g}" if dtype == "f32" else repr(v) for v in r["at"]) if r["worst"] else ""
        lines.append(f"| {name} | {r['operations']} ({r['divisions']}) | {r['inputs']} | {r['worst']:.4f} | {at} "
                     f"| {100 * r['rounded_otherwise']:.4f} % |")  # fmt: skip
    return "\n".join(lines)


def write_tables() -> None:
    """Put the tables of what has been measured into docs/accuracy.md."""
    text = DOCUMENT.read_text()
    for dtype in ("f32", "f64"):
        text = re.sub(rf"(## {dtype}\n).*?(?=\n## )", lambda m, d=dtype: f"{m[1]}\n{table(d)}\n", text, flags=re.DOTALL)
    DOCUMENT.write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--numpy", type=int, default=64)
    parser.add_argument("--f64", action="store_true")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    if args.table:
        write_tables()
        return
    os.nice(10)
    for name in args.names or [n for n in NAMES if n in TABLE]:
        if args.f64:
            shown = sampled(name, dt.f64, args.rounds)
        elif len(TABLE[name].params) == 2:
            shown = sampled(name, dt.f32, args.rounds)
        else:
            shown = every_f32(name, args.every, args.numpy)
        if args.every == 1:
            kept = results()
            kept[f"{name}.{shown.dtype}"] = vars(shown)
            RESULTS.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
