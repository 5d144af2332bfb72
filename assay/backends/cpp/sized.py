"""Machine code for all sizes of a program: built once, called at any sizes that satisfy the guards.

    code = compile_sized(program)        g++ runs here
    code.at({"n": 64})                   an Executable of the program at these sizes, in the same library

Extents and strides are expressions over the sizes, which a kernel reads beside the pointers of its tensors; an axis is cut in
tiles and then single elements, each as many as there are at the call.  Memory is laid out when the sizes are known.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from assay.backends import threads as threads_
from assay.backends.build import build
from assay.backends.cpp import Emitted, default_plan, emit_program, translation_unit
from assay.backends.runtime import Executable, Layout, Step, arena
from assay.backends.target import host
from assay.core.errors import Unsupported
from assay.core.lang import Program, bind_tensors
from assay.verify.bounds import proven


class SizedCode:
    """The library of a program with sizes.

    text   the C++ of its translation unit     plan     one kernel for each tensor
    """

    def __init__(self, program: Program, *, threads: int | None = None) -> None:
        target = host()
        start = time.perf_counter()
        plan = default_plan(program, target)
        self.program, self.plan = program, plan
        self._emitted: Emitted = emit_program(proven(program), plan, target)
        self.text = translation_unit([self._emitted], target)
        emission = time.perf_counter() - start
        built = build(self.text)
        self._library, self.key = built.library, built.key
        self.timings = {"emit": emission, "g++": built.seconds}
        self._threads = threads or threads_.available()

    def at(self, sizes: Mapping[str, int]) -> Executable:
        """The code at these sizes.

        Raises UserError where they are not those of the program, Unsupported where two of its tensors become one at them.
        """
        program, made = bind_tensors(self.program, sizes)
        e = self._emitted
        if len({made[t] for t in e.layout.slots}) < len(e.layout.slots):
            raise Unsupported(f"two tensors of {self.program.name} are the same one at {dict(sizes)}")
        layout = Layout({made[t]: k for t, k in e.layout.slots.items()}, {made[t]: k for t, k in e.layout.failures.items()},
                        sizes=tuple(sizes[s.name] for s in self.program.sizes))  # fmt: skip
        arena(layout, [(made[t], first, last) for t, first, last in e.lifetimes])
        steps = [Step(s.entry, tuple(made[t] for t in s.tensors)) for s in e.steps]
        return Executable(program, lambda: (self.plan, self.text), self.timings, steps, layout, self._library, self._threads,
                          self.key, tuple)  # fmt: skip


def compile_sized(program: Program, *, threads: int | None = None) -> SizedCode:
    """The machine code of a program with sizes.

    Raises Unsound where the proof for all sizes refutes or leaves open an access.
    """
    return SizedCode(program, threads=threads)
