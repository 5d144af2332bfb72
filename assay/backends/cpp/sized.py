"""Machine code for all sizes of a program: built once, called at any sizes that satisfy the guards.

    code = compile_sized(program)        g++ runs here
    code.at({"n": 64})                   an Executable of the program at these sizes, in the same library

Extents and strides are expressions over the sizes, which a kernel reads beside the pointers of its tensors; an axis is cut in
tiles and then single elements, each as many as there are at the call.  Memory is laid out when the sizes are known.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property

from assay.backends import threads as threads_
from assay.backends.build import build
from assay.backends.cpp import Emitted, as_data, default_plan, emit_program, translation_unit
from assay.backends.legality import illegal
from assay.backends.placement import Placement
from assay.backends.plan import Kernel, Plan, Schedule
from assay.backends.runtime import Executable, Layout, Step, arena
from assay.backends.schedule.decide import ranked
from assay.backends.target import Target, host
from assay.core import index
from assay.core.errors import Unsupported
from assay.core.lang import Program, bind_tensors
from assay.core.sizes import hint
from assay.verify.bounds import proven
from assay.verify.link import QUESTIONS, RLIMIT, Link, nest_link

TRIED = 8  # schedules of the ranking that are looked at


def plan_for_hints(program: Program, target: Target) -> Plan:
    """One kernel for each tensor, with the best schedule for the hints of the sizes that is right for all sizes.

    Vectors, copies, jammed axes, folds in rows and threads are: tiles are followed by single elements.  Blocks, chunks and
    row buffers are not taken: they need fixed extents.
    """
    plan = default_plan(program, target)
    at = {s.name: hint(index.from_atom(s)) for s in program.sizes}
    bound, made = bind_tensors(program, at)
    if any(0 in t.shape for t in bound.tensors) or len(set(made.values())) < len(made):
        return plan
    facts = proven(program)
    kernels: list[Kernel] = []
    for kernel in plan.kernels:
        (t,) = kernel.tensors
        placement = Placement(kernel, facts)
        ranking = ranked(made[t], target)[:TRIED] if t.kind != "scatter" else []
        legal = (s for s in map(_for_all_sizes, ranking) if illegal(placement, s, target.lanes) is None)
        kernels.append(replace(kernel, schedule=next(legal, kernel.schedule)))
    return replace(plan, kernels=tuple(kernels))


def _for_all_sizes(s: Schedule) -> Schedule:
    """The schedule without what needs fixed extents."""
    threads = s.threads if isinstance(s.threads, int) or s.threads is None else s.threads[1]
    order = tuple((k, None) for k, block in s.order if block is None)
    return s._replace(order=order, carry=None, stream=False, threads=threads)


class SizedCode:
    """The library of a program with sizes.

    text   the C++ of its translation unit     plan     one kernel for each tensor, for the hints of the sizes
    """

    def __init__(self, program: Program, *, threads: int | None = None) -> None:
        target = host()
        start = time.perf_counter()
        plan = plan_for_hints(program, target)
        self.program, self.plan = program, plan
        self._emitted: Emitted = emit_program(proven(program), plan, target)
        self.text = translation_unit([self._emitted], target)
        emission = time.perf_counter() - start
        built = build(self.text)
        self._library, self.key = built.library, built.key
        self.timings = {"emit": emission, "g++": built.seconds}
        self._threads = threads or threads_.available()

    @cached_property
    def links(self) -> tuple[Link, ...]:
        """What is proved of the loop nests, for all sizes that satisfy the guards."""
        try:
            return (nest_link(as_data(self._emitted), rlimit=RLIMIT, steps=QUESTIONS),)
        except (Unsupported, ValueError) as error:  # a question whose answer depends on the sizes: guards are not used here
            return (Link("nest", False, f"not proved: {error}"),)

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
                          self.key, lambda: self.links)  # fmt: skip


def compile_sized(program: Program, *, threads: int | None = None) -> SizedCode:
    """The machine code of a program with sizes.

    Raises Unsound where the proof for all sizes refutes or leaves open an access.
    """
    return SizedCode(program, threads=threads)
