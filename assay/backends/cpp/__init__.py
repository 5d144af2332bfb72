"""The C++ backend: a program and a plan -> one translation unit -> an Executable.

    compile_program(program, plan=None, threads=None)    compile_many(programs)

Only a proven program is emitted: every access is in bounds or guarded (verify/bounds.py).  The emitted code has the
bits of the program's meaning (semantics/denote.py) under every plan and number of threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from assay.backends import threads as threads_
from assay.backends.build import FLAGS, build
from assay.backends.cpp import stored
from assay.backends.cpp.nest import Nest, size_lines
from assay.backends.cpp.prelude import prelude
from assay.backends.cpp.transpose import transpose_text
from assay.backends.cpp.values import extent_text
from assay.backends.placement import Placement
from assay.backends.plan import Kernel, Plan, Schedule
from assay.backends.runtime import Executable, Layout, Step, arena
from assay.backends.target import Target, host
from assay.core.errors import InternalError
from assay.core.index import is_symbolic
from assay.core.lang import Program, T, size_of
from assay.core.sizes import hint
from assay.core.text import domain
from assay.semantics.lifetimes import thriftiest
from assay.verify import nests as verify
from assay.verify.bounds import ProvenProgram, proven
from assay.verify.link import Link, nest_link, schedule_links

_SERIAL = 1 << 14  # domains of fewer elements are not worth waking threads for


@dataclass
class Emitted:
    """The C++ of a program, without the prelude, the functions of named rows that it uses, and where its tensors live."""

    program: Program
    plan: Plan
    text: str
    rows: dict[str, str]
    steps: list[Step]
    layout: Layout
    nests: dict[Kernel, Nest]
    lifetimes: list[tuple[T, int, int]]


def default_plan(program: Program, target: Target) -> Plan:
    """One kernel for each tensor, vectors along the last axis where it is long enough, threads along the first."""
    kernels = []
    for t in program.tensors:
        if t.kind != "extern":
            kernels.append(Kernel((t,), default_schedule(t, target), reason="default"))
    return Plan(tuple(kernels))


def default_schedule(t: T, target: Target) -> Schedule:
    shape = domain(t)
    if t.kind == "scatter":
        return Schedule()
    vector = len(shape) - 1 if shape and hint(shape[-1]) >= target.lanes else None
    big = 1
    for n in shape:
        big *= hint(n)
    return Schedule(vector=vector, threads=0 if shape and big >= _SERIAL else None)


def emit_program(facts: ProvenProgram, plan: Plan, target: Target, prefix: str = "") -> Emitted:
    """The kernels of `plan`, and functions `run<prefix>_<step>(P, parallel, threads)` that call them in order.

    Raises InternalError where the plan does not compute the program: a tensor missing, or read before it is written.
    """
    program = facts.program
    plan = checks_first(program, plan if program.sizes else thrifty(program, plan))
    computed = [t for k in plan.kernels for t in k.computes] + [t for t in program.tensors if t.kind == "extern"]
    inside = {t for k in plan.kernels for t, _ in k.local}
    slots = {t: k for k, t in enumerate(dict.fromkeys([*program.inputs, *computed]))}
    checks = [t for t in program.tensors if t.kind == "require"]
    layout = Layout(slots, {t: k for k, t in enumerate(checks)})
    missing = [t for t in program.tensors if t not in slots and t not in inside]
    if missing:
        raise InternalError(f"the plan of {program!r} computes no kernel for {missing}")
    _check_order(program, plan)
    parts, groups = [], _groups(program, plan)
    steps: list[Step] = []
    rows: dict[str, str] = {}
    nests: dict[Kernel, Nest] = {}
    for group in groups:
        if isinstance(group, T):
            steps.append(Step(None, (group,)))
            continue
        entry = f"run{prefix}_{len(steps)}"
        calls = [f"S[{layout.failures[t]}]=0x7fffffffffffffffL;" for k in group for t in k.computes if t in layout.failures]
        for kernel in group:
            if all(any(not is_symbolic(n) and n == 0 for n in t.shape) for t in kernel.tensors):
                continue
            nest = nests[kernel] = _nest(kernel, facts, target, f"k{prefix}_{len(nests)}", layout)
            parts.append(nest.text)
            rows.update(nest.printer.rows)
            calls += _calls(kernel, nest, layout)
        status = f"long*S=(long*)P[{len(slots)}];" if layout.failures else ""
        status += "".join(size_lines(program.sizes, len(slots)))
        parts.append(f'extern "C" long {entry}(void**P,Par par,long threads){{{status}\n' + "\n".join([*calls, "return 0;}"]))
        steps.append(Step(entry, tuple(t for k in group for t in k.computes)))
    lifetimes = _lifetimes(program, groups)
    if not program.sizes:  # with sizes, memory is laid out when they are known: cpp/sized.py
        arena(layout, lifetimes)
    return Emitted(program, plan, "\n".join(parts) + "\n", rows, steps, layout, nests, lifetimes)


def scheduled(program: Program, plan: Plan, target: Target | None = None) -> verify.Scheduled:
    """What is printed for the plan, as data: loop nests, their order, and where tensors live."""
    return as_data(emit_program(proven(program), plan, target or host()))


def as_data(e: Emitted) -> verify.Scheduled:
    """What was printed, as data."""
    steps: list[verify.Step] = []
    for group in _groups(e.program, e.plan):
        if isinstance(group, T):
            steps.append(verify.Step((group,), frozenset(group.args)))
            continue
        for kernel in group:
            nest = e.nests.get(kernel)  # none where there is no element
            reads = frozenset(nest.placement.reads) if nest is not None else frozenset[T]()
            steps.append(verify.Step(kernel.computes, reads, nest.loops if nest is not None else None))
    return verify.Scheduled(e.program, tuple(steps), tuple(e.layout.offsets.items()), e.layout.arena)


def checks_first(program: Program, plan: Plan) -> Plan:
    """The plan with the checks that read inputs only before all other kernels: a call that must fail does no work first."""
    inputs = set(program.inputs)
    early = [k for k in plan.kernels if any(t.kind == "require" for t in k.computes) and _needs(k) <= inputs]
    if not early or plan.kernels[: len(early)] == tuple(early):
        return plan
    return replace(plan, kernels=(*early, *(k for k in plan.kernels if k not in early)))


def thrifty(program: Program, plan: Plan) -> Plan:
    """The plan with its kernels in the order, of a few, whose intermediates need least memory at once."""
    units: list[Kernel | T] = [*plan.kernels]
    if any(t.kind == "extern" for t in program.tensors):
        units = [u for g in _groups(program, plan) for u in ((g,) if isinstance(g, T) else g)]

    def made(u: Kernel | T) -> tuple[T, ...]:
        return (u,) if isinstance(u, T) else u.computes

    def reads(u: Kernel | T) -> Iterable[T]:
        return u.args if isinstance(u, T) else _needs(u)

    order = thriftiest(units, made, reads, program.outputs, frozenset(program.outputs))
    return replace(plan, kernels=tuple(u for u in order if isinstance(u, Kernel))) if order != units else plan


def _nest(kernel: Kernel, facts: ProvenProgram, target: Target, name: str, layout: Layout) -> Nest:
    placement = kernel.placement
    if placement is None or placement.facts is None or placement.facts.proof is not facts.proof:
        placement = Placement(kernel, facts)
    pointer = {t: f"p{layout.slots[t]}" for t in placement.reads}
    failures = {t: layout.failures[t] for t in kernel.tensors if t in layout.failures}
    slots = layout.slots | {made: layout.slots[t] for made, t in zip(kernel.tensors, kernel.computes, strict=True)}
    return Nest(placement, kernel.schedule, target, pointer, name, failures, slots, facts.program.sizes)


def _calls(kernel: Kernel, nest: Nest, layout: Layout) -> list[str]:
    """The statements that run a kernel, and stop the program where a require does not hold."""
    calls = []
    for t in kernel.tensors:
        if t.kind == "scatter":
            calls.append(f"__builtin_memcpy(P[{layout.slots[t]}],P[{layout.slots[t.base]}],{extent_text(size_of(t))});")
    if nest.threaded:
        calls.append(f"par({nest.name},P,{extent_text(nest.units)},threads);")
    else:
        calls.append(f"{nest.name}(P,0,{extent_text(nest.units)});")
    for t in kernel.tensors:
        if t in layout.failures:
            q = layout.failures[t]
            calls.append(f"if(S[{q}]!=0x7fffffffffffffffL)return {q + 1};")
    return calls


def _groups(program: Program, plan: Plan) -> list[tuple[Kernel, ...] | T]:
    """The kernels in the order of the plan, with each extern before the first kernel that reads it."""
    todo = [t for t in program.tensors if t.kind == "extern"]
    if not todo:
        return [plan.kernels]
    groups: list[tuple[Kernel, ...] | T] = []
    done: set[T] = set(program.inputs)
    waiting: list[Kernel] = list(plan.kernels)
    while waiting or todo:
        ready = [t for t in todo if set(t.args) <= done]
        for t in ready:
            groups.append(t)
            done.add(t)
            todo.remove(t)
        run: list[Kernel] = []
        while waiting and _needs(waiting[0]) <= done:
            kernel = waiting.pop(0)
            run.append(kernel)
            done.update(kernel.computes)
        if run:
            groups.append(tuple(run))
        elif not ready:
            raise InternalError(f"the plan of {program!r} reads {waiting[:1] or todo[:1]} before it is computed")
    return groups


def _check_order(program: Program, plan: Plan) -> None:
    """Raises InternalError where a kernel reads what itself or a later kernel computes (an extern counts as computed)."""
    known = set(program.inputs) | {t for t in program.tensors if t.kind == "extern"}
    for kernel in plan.kernels:
        early = _needs(kernel) - known
        own = {r for t in kernel.tensors for r in t.reads} & set(kernel.computes)
        if early or own:
            raise InternalError(f"the plan of {program!r} computes {list(kernel.tensors)} from {sorted(early | own, key=repr)}, "
                                "which are not computed yet")  # fmt: skip
        known.update(kernel.computes)


def _needs(kernel: Kernel) -> set[T]:
    inside = {t for t, _ in kernel.local}
    read = {r for t in (*kernel.tensors, *inside) for r in t.reads}
    return read - inside - set(kernel.computes)


def _lifetimes(program: Program, groups: list[tuple[Kernel, ...] | T]) -> list[tuple[T, int, int]]:
    """(tensor, first step, last step) of the intermediates: what a kernel reads or writes is alive while it runs."""
    written: dict[T, int] = {}
    last: dict[T, int] = {}
    now = 0
    for group in groups:
        for unit in (group,) if isinstance(group, T) else group:
            now += 1
            made = (unit,) if isinstance(unit, T) else unit.computes
            written.update((t, now) for t in made)
            last.update((t, now) for t in made)
            last.update((t, now) for t in (unit.args if isinstance(unit, T) else _needs(unit)))
    kept = set(program.outputs)
    return [(t, first, last[t]) for t, first in written.items() if t not in kept]


_RUN = "typedef void (*Par_)(void(*)(void**,long,long),void**,long,long);\n#define Par Par_\n"


def translation_unit(programs: Sequence[Emitted], target: Target) -> str:
    """The emitted programs behind the prelude of `target` and the functions that they share."""
    rows = {name: text for e in programs for name, text in e.rows.items()}
    body = "".join([*rows.values(), *(e.text for e in programs)])
    return prelude(target) + (transpose_text(target) if "transpose(" in body else "") + _RUN + body


def compile_many(programs: Sequence[Program | ProvenProgram], *, plans: Sequence[Plan | None] | None = None,
                 threads: int | None = None, flags: tuple[str, ...] = FLAGS,
                 meanwhile: Callable[[list[Emitted]], None] = lambda emitted: None) -> list[Executable]:  # fmt: skip
    """Compile several programs in one translation unit: g++ starts once.  A plan that is None is the default plan.

    `meanwhile` is called with what was emitted while g++ runs, if it has to.

    The bits are guaranteed for the pinned `flags` only; others serve to show that the comparison notices them.
    Raises as compile_program does.
    """
    target = host()
    emitted, start = [], time.perf_counter()
    for k, given in enumerate(programs):
        facts = given if isinstance(given, ProvenProgram) else proven(given)
        plan = (plans[k] if plans is not None else None) or default_plan(facts.program, target)
        emitted.append(emit_program(facts, plan, target, str(k) if len(programs) > 1 else ""))
    text = translation_unit(emitted, target)
    emission = time.perf_counter() - start
    built = build(text, flags=flags, meanwhile=lambda: meanwhile(emitted))
    count = threads or threads_.available()
    timings = {"emit": emission, "g++": built.seconds}
    return [
        Executable(e.program, lambda e=e: (e.plan, text), timings, e.steps, e.layout, built.library, count, built.key,
                   lambda e=e: (nest_link(as_data(e)),))
        for e in emitted
    ]  # fmt: skip


def compile_program(program: Program | ProvenProgram, *, plan: Plan | None = None, threads: int | None = None,
                    tune: bool = False, meanwhile: Callable[[], object] = lambda: None) -> Executable:  # fmt: skip
    """The program as machine code, under `plan`, with at most `threads` threads (None: as many as there are processors).

    plan None: chosen by the schedule search, which may replace the program by one of the same bits (packed operands); with
    `tune` the first few candidates of each large kernel are timed, and the winners remembered for this machine.
    While g++ runs, that and the loop nests are proved (`Executable.links`), and `meanwhile` is called.
    Raises Unsound where the program's proof refutes or leaves open an access; Unsupported where g++ is missing;
    InternalError where the plan is not one of the program or g++ refuses the text.
    """
    if plan is not None:
        return compile_many([program], plans=[plan], threads=threads)[0]
    source = program.program if isinstance(program, ProvenProgram) else program
    links: list[Link] = []

    def prove(emitted: list[Emitted]) -> None:
        links.extend(schedule_links(source, as_data(emitted[0])))
        meanwhile()

    def made(final: Program, plan: Plan) -> Executable:
        executable = compile_many([final], plans=[plan], threads=threads, meanwhile=prove)[0]
        executable.links = tuple(links) or schedule_links(source, scheduled(final, plan))
        return executable

    if tune and all(t.size for t in source.tensors):
        from assay.backends.schedule.tune import tune as timed

        return made(*timed(source, host()))
    record = stored.record_path(source)
    found = stored.load(record, threads or threads_.available(), lambda: _again(source))
    if found is not None:
        return found
    start = time.perf_counter()
    chosen = _chosen(source)
    choosing = time.perf_counter() - start
    executable = made(*chosen)
    executable.timings["choose"] = choosing
    stored.store(record, executable)
    return executable


def allocated(program: Program) -> int:
    """Bytes that the code of compile_program(program) takes for results and intermediates; nothing is compiled."""
    final, plan = _chosen(program)
    layout = emit_program(proven(final), plan, host()).layout
    return layout.arena + sum(size_of(t) for t in set(final.outputs))


def _chosen(program: Program) -> tuple[Program, Plan]:
    if any(t.size == 0 for t in program.tensors):
        return program, default_plan(program, host())
    from assay.backends.schedule import choose

    return choose(program, host())


def _again(program: Program) -> tuple[Plan, str]:
    """Plan and text of a program that was loaded from its record."""
    final, plan = _chosen(program)
    return plan, translation_unit([emit_program(proven(final), plan, host())], host())


__all__ = [
    "Emitted", "allocated", "compile_many", "compile_program", "default_plan", "emit_program", "scheduled", "translation_unit",
]  # fmt: skip
