"""Speed of the reference (semantics/denote.py) on one core.

    python benchmarks/denote.py            small random programs a second, and large single operators in seconds
    python benchmarks/denote.py --profile  where the small programs spend their time
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import random
import time
from collections.abc import Callable

import numpy as np

from assay.core import dtypes as dt
from assay.core.lang import Program, T, input, program
from assay.core.operators import OPERATORS
from assay.semantics.denote import run

PROGRAMS = 300
OPERATIONS = 10

UNARY = ("relu.default", "exp.default", "tanh.default", "neg.default", "abs.default", "sigmoid.default", "sqrt.default")
BINARY = ("add.Tensor", "mul.Tensor", "sub.Tensor", "maximum.default", "div.Tensor")


def call(name: str, *arguments: object) -> T:
    """The meaning of an operator; default arguments filled in."""
    entry = OPERATORS[name]
    filled = entry.fill(arguments, {})
    assert filled is not None, name
    result = entry(*filled)
    return result if isinstance(result, T) else result[0]


def small(rng: random.Random) -> Program:
    """A random program of `OPERATIONS` operators on tensors of at most 8 x 8 elements."""
    shape = (rng.randint(1, 8), rng.randint(1, 8))
    inputs = [input("x", shape, dt.f32), input("y", shape, dt.f32)]
    pool = list(inputs)
    for _ in range(OPERATIONS):
        x = pool[-1] if rng.random() < 0.7 else rng.choice(pool)
        k = rng.random()
        if k < 0.35 or len(x.shape) != 2:
            made = call(rng.choice(UNARY), x)
        elif k < 0.65:
            made = call(rng.choice(BINARY), x, rng.choice([t for t in pool if t.shape == x.shape]))
        elif k < 0.75:
            made = call("transpose.int", x, 0, 1)
        elif k < 0.85:
            made = call(rng.choice(("sum.dim_IntList", "mean.dim")), x, [rng.randint(0, 1)], True)
        elif k < 0.92:
            made = call("softmax.int", x, 1)
        else:
            made = call("mm.default", x, call("transpose.int", x, 0, 1))
        pool.append(made)
    return program(inputs, [pool[-1]])


def timed(f: Callable[[], object]) -> float:
    """Processor seconds of the call (other load on the machine does not count)."""
    start = time.process_time()
    f()
    return time.process_time() - start


def small_programs() -> None:
    """Prints how many new programs are evaluated a second (building them is not counted), and how many known ones."""
    rng = random.Random(0)
    programs = [small(rng) for _ in range(PROGRAMS)]
    arrays = [[np.random.default_rng(k).standard_normal(t.shape, np.float32) for t in p.inputs] for k, p in enumerate(programs)]

    def every() -> None:
        for p, a in zip(programs, arrays, strict=True):
            run(p, a)

    run(small(random.Random(1)), [np.ones(t.shape, np.float32) for t in small(random.Random(1)).inputs])
    new, again = PROGRAMS / timed(every), PROGRAMS / timed(every)
    print(f"small programs of {OPERATIONS} operators: new {new:.0f} a second, again {again:.0f}")


LARGE: tuple[tuple[str, tuple[tuple[int, ...], ...], Callable[..., T]], ...] = (
    ("row sum 4096 x 4096", ((4096, 4096),), lambda x: call("sum.dim_IntList", x, [1])),
    ("column sum 4096 x 4096", ((4096, 4096),), lambda x: call("sum.dim_IntList", x, [0])),
    ("sum of 4096 x 4096", ((4096, 4096),), lambda x: call("sum.default", x)),
    ("row max 4096 x 4096", ((4096, 4096),), lambda x: call("amax.default", x, [1])),
    ("row argmax 1024 x 1024", ((1024, 1024),), lambda x: call("argmax.default", x, 1)),
    ("cumsum 1024 x 4096", ((1024, 4096),), lambda x: call("cumsum.default", x, 1)),
    ("matmul 512^3 (fma)", ((512, 512), (512, 512)), lambda x, y: call("mm.default", x, y)),
    ("dot of 2^20", ((1 << 20,), (1 << 20,)), lambda x, y: call("dot.default", x, y)),
    ("softmax 1024 x 1024", ((1024, 1024),), lambda x: call("softmax.int", x, 1)),
    ("gelu 2^20", ((1 << 20,),), lambda x: call("gelu.default", x)),
    ("layer norm 1024 x 1024", ((1024, 1024),), lambda x: call("layer_norm.default", x, [1024])),
    ("conv2d 8x16x32x32, 3x3, 16", ((8, 16, 32, 32), (16, 16, 3, 3)),
     lambda x, w: call("conv2d.default", x, w, None, [1, 1], [1, 1])),
    ("transpose and add 2048^2", ((2048, 2048),), lambda x: call("add.Tensor", x, call("transpose.int", x, 0, 1))),
)  # fmt: skip


def large() -> None:
    """Prints the seconds of single operators on large tensors."""
    rng = np.random.default_rng(0)
    for name, shapes, make in LARGE:
        inputs = [input(f"x{k}", s, dt.f32) for k, s in enumerate(shapes)]
        p = program(inputs, [make(*inputs)])
        arrays = [rng.standard_normal(s, np.float32) for s in shapes]
        print(f"{name:32} {timed(lambda p=p, a=arrays: run(p, a)):7.3f} s")


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    if options.profile:
        with cProfile.Profile() as profile:
            small_programs()
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)
        return
    small_programs()
    large()


if __name__ == "__main__":
    main()
