"""Random kernels (index arithmetic, masks, loops, branches, narrow types, reads through indices), and all small launches."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

import numpy as np

from assay.kernels.concrete import Arrays, Memory, run_all
from assay.kernels.source import Module
from assay.kernels.trials import Trial
from assay.kernels.types import I32, SHORT

SIZES = (1, 2, 3, 5, 6)  # of n and m
GRID = 3


class Writer:
    """Writes one kernel."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.lines: list[str] = []
        self.scalars = ["n", "m", "pid"]
        self.count = 0

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def scalar(self, depth: int = 2) -> str:
        """An integer expression of scalars."""
        r = self.r
        if depth == 0 or r.random() < 0.3:
            return r.choice([*self.scalars, str(r.randint(0, 5))])
        a, b = self.scalar(depth - 1), self.scalar(depth - 1)
        return self._binary(a, b)

    def _binary(self, a: str, b: str) -> str:
        r = self.r
        return r.choice([
            f"({a} + {b})", f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", f"({a} // {r.choice(['n', 'm', '2', '3'])})",
            f"({a} % {r.choice(['n', 'm', '2', '4'])})", f"tl.minimum({a}, {b})", f"tl.maximum({a}, {b})",
            f"({a} & {r.choice([1, 3, 5])})",
            f"({a} >> 1)", f"tl.cdiv({a}, {r.choice(['2', '3'])})",
        ])  # fmt: skip

    def tensor(self, depth: int, tensors: list[str]) -> str:
        """An integer expression with lanes."""
        r = self.r
        if depth == 0:
            return r.choice(tensors)
        a = self.tensor(depth - 1, tensors)
        b = self.scalar(1) if r.random() < 0.6 else self.tensor(depth - 1, tensors)
        if r.random() < 0.12:
            return f"tl.where({self.condition(tensors)}, {a}, {b})"
        return self._binary(a, b)

    def condition(self, tensors: list[str]) -> str:
        r = self.r
        a = self.tensor(r.randint(0, 1), tensors)
        b = r.choice(["n", "m", "n * m", self.scalar(1)])
        c = f"({a} {r.choice(['<', '<', '<', '<=', '>=', '!='])} {b})"
        if r.random() < 0.3:
            c = f"({c} {r.choice('&&|')} {self.condition(tensors)})"
        return c

    def access(self, tensors: list[str], indent: str) -> None:
        r = self.r
        shape = r.choice(["x_ptr", "x_ptr", "y_ptr"])
        offset = self.tensor(r.randint(0, 2), tensors)
        mask = f", mask={self.condition(tensors)}" if r.random() < 0.8 else ""
        kind = r.random()
        if kind < 0.3:
            self.lines.append(f"{indent}tl.store({shape} + {offset}, 1.0{mask})")
        elif kind < 0.5:
            v = self.name()
            other = ", other=0" if mask else ""
            self.lines.append(f"{indent}{v} = tl.load(i_ptr + {offset}{mask}{other})")
            tensors.append(v)
        else:
            self.lines.append(f"{indent}tl.load({shape} + {offset}{mask})")

    def source(self) -> str:
        """The kernel's text."""
        r = self.r
        two = r.random() < 0.4
        self.lines = ["import triton", "import triton.language as tl", "", "", "@triton.jit",
                      "def kernel(x_ptr, y_ptr, i_ptr, n, m):", "    pid = tl.program_id(0)"]  # fmt: skip
        tensors = ["tl.arange(0, 4)"]
        if two:
            tensors = ["tl.arange(0, 4)[:, None]", "tl.arange(0, 2)[None, :]"]
        for _ in range(r.randint(0, 2)):
            v = self.name()
            if r.random() < 0.5:
                self.lines.append(f"    {v} = {self.scalar()}")
                self.scalars.append(v)
            else:
                self.lines.append(f"    {v} = {self.tensor(1, tensors)}")
                tensors.append(v)
        if r.random() < 0.15:
            v = self.name()
            self.lines.append(f"    {v} = {r.choice(tensors)}.to(tl.int8) * {r.choice(['m', '3', '40'])}.to(tl.int8)"
                              .replace("3.to(tl.int8)", "3").replace("40.to(tl.int8)", "40"))  # fmt: skip
            tensors.append(v)
        for _ in range(r.randint(1, 2)):
            self._piece(tensors, "    ")
        return "\n".join(self.lines) + "\n"

    def _piece(self, tensors: list[str], indent: str) -> None:
        r = self.r
        way = r.random()
        if way < 0.35:
            carried = self.name() if r.random() < 0.7 else None
            if carried:
                self.lines.append(f"{indent}{carried} = {r.choice([self.scalar(1), self.tensor(1, tensors), '0'])}")
            k = self.name()
            end = r.choice(["n", "m", "3", "9", "tl.cdiv(n, 2)", self.scalar(1)])
            start, step = r.choice(["0", "0", "0", "pid", "1"]), r.choice(["", "", ", 2", ", m"])
            self.lines.append(f"{indent}for {k} in range({start}, {end}{step}):")
            inner = [*tensors]
            self.scalars.append(k)
            if carried:
                inner.append(carried)
            if carried and len(inner) == 1:
                inner.append("tl.arange(0, 4)")
            self.access(inner, indent + "    ")
            if carried:
                step = r.choice(["1", "2", "m", "4", k, f"({carried} % 3)"]) if r.random() < 0.9 else "pid"
                self.lines.append(f"{indent}    {carried} += {step}")
            self.scalars.remove(k)
            if carried and r.random() < 0.5:
                self.access([*tensors, carried], indent)
        elif way < 0.5:
            self.lines.append(f"{indent}if {self.scalar(1)} {r.choice(['<', '>=', '=='])} {self.scalar(1)}:")
            self.access([*tensors], indent + "    ")
            if r.random() < 0.4:
                self.lines.append(f"{indent}    return")
        else:
            self.access(tensors, indent)


def launches(seed: int) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """(arguments, arrays) for all small sizes; x has n*m elements, y n, i n values in 0..m-1."""
    for n, m in itertools.product(SIZES, SIZES):
        rng = np.random.default_rng(seed)
        arrays: dict[str, Any] = {"x_ptr": np.zeros(n * m, np.float32), "y_ptr": np.zeros(n, np.float32)}
        arrays["i_ptr"] = rng.integers(0, m, n).astype(np.int32)
        memories = {k: Memory(k, SHORT["i32"] if k == "i_ptr" else SHORT["f32"], len(a)) for k, a in arrays.items()}
        yield {**memories, "n": (I32, n), "m": (I32, m)}, arrays


def trials(module: Module, seed: int) -> Iterator[Trial]:
    """What happens in each launch of small sizes."""
    kernel = module.function("kernel")
    for arguments, arrays in launches(seed):
        events = list(run_all(module, kernel, arguments, (GRID,), Arrays(arrays), floats=False))
        yield Trial({k: arguments[k][1] for k in ("n", "m")}, events)
