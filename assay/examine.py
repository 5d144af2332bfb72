"""assay.check, assay.prove, assay.explain: what one compile did, whether every stage of it is right, and why.

    check(f, *args)     every stage, eager to machine code, against the meaning, bit for bit, on special inputs
    prove(f, *args)     every index access: proved in bounds (how), kept as a run-time check (why), or refuted
    explain(f, *args)   the whole story of one compile as text or JSON
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import optree

from assay.compiler import build
from assay.core.errors import UserError
from assay.core.lang import Program
from assay.core.options import check_options
from assay.core.text import show, type_text
from assay.dynamic import prove as prove_dynamic
from assay.frontends.capture import Captured, capture, flatten, is_tensor, with_handles
from assay.frontends.creation import from_numpy
from assay.frontends.dependence import dependences_of_graph
from assay.frontends.dynamic import Dynamic, check_dynamic
from assay.frontends.joint import joint_of_graph
from assay.frontends.tensor import Tensor
from assay.frontends.value import process
from assay.partition.choose import partition
from assay.semantics.denote import run
from assay.semantics.inputs import KINDS, draw_inputs
from assay.semantics.trace import named
from assay.transforms.lower import lower
from assay.transforms.pipeline import Stage, optimise
from assay.verify import bounds
from assay.verify.layered import Arrays, Layer, Report, compare
from assay.verify.link import Link, nest_link


@dataclass(frozen=True)
class Examined:
    """A function at given arguments, captured, lowered and transformed; `program` is what the graph means."""

    function: Callable[..., Any]
    arguments: tuple[tuple[Any, ...], dict[str, Any]]
    captured: Captured
    stages: tuple[Stage, ...]
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def program(self) -> Program:
        """The lowered program."""
        return self.stages[0].program

    @property
    def final(self) -> Program:
        """What the backend gets."""
        return self.stages[-1].program

    def actual_inputs(self) -> Arrays:
        """The arrays of the program's inputs at the given arguments."""
        leaves, _ = flatten(*self.arguments)
        tensors = [from_numpy(x) if isinstance(x, np.ndarray) else x for x in leaves if is_tensor(x)]
        arrays = [s.memory(tensors) for s in self.captured.sources]
        return [np.ascontiguousarray(a) if a.ndim else a for a in arrays]


def examine(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> Examined:
    """Capture, lower and transform f(*args, **kwargs)."""
    captured = capture(f, args, kwargs or {})
    return Examined(f, (args, kwargs or {}), captured, tuple(optimise(lower(captured.graph))))


# ------------------------------------------------------------------------------------------------ check


def check(f: Callable[..., Any] | Program, *args: Any, backend: str = "cpp", inputs: int = 10, seed: int = 0,
          shrink: bool = True, **kwargs: Any) -> Report:  # fmt: skip
    """Every stage of the compile of f(*args) against its meaning, bit for bit.

    The stages are run on the given arguments and on `inputs` drawn ones (special values, exact integers, subnormals,
    huge numbers, indices in and out of range).  The report's verdict is PROVED or VALIDATED(n) if all stages agree;
    otherwise REFUTED, with the first stage that differs and a small witness with every intermediate value.
    A core program may stand in the place of the function.
    """
    if isinstance(f, Program):
        _refuse_arguments("check", args, kwargs, ("backend", "inputs", "seed", "shrink"))
        return check_program(f, backend=backend, inputs=inputs, seed=seed, shrink=shrink)
    examined = examine(f, args, kwargs)
    layers = [*source_layers(examined), *program_layers(examined.stages, backend)]
    drawn = draw_many(examined.program, inputs, seed)
    varied = {k for k, s in enumerate(examined.captured.sources) if s.kind == "argument"}
    actual = examined.actual_inputs()
    tried = [actual] + [[d if k in varied else a for k, (a, d) in enumerate(zip(actual, xs, strict=True))] for xs in drawn]
    return replace(compare(examined.program, layers, tried, shrink=shrink), given=True)


def _refuse_arguments(command: str, args: tuple[Any, ...], kwargs: dict[str, Any], options: tuple[str, ...] = ()) -> None:
    """A program has its inputs, with their shapes and types: arguments beside it would say nothing."""
    check_options(f"{command}(program)", kwargs, options)
    if args:
        raise UserError(f"{command}(program) takes no arguments beside the program, which has the shapes and types of its "
                        f"inputs; {len(args)} given")  # fmt: skip


def check_program(p: Program, *, backend: str = "cpp", inputs: int = 10, seed: int = 0, shrink: bool = True) -> Report:
    """`check` for a core program: after each pass and as machine code."""
    return compare(p, program_layers(tuple(optimise(p)), backend), draw_many(p, inputs, seed), shrink=shrink)


def draw_many(p: Program, count: int, seed: int) -> list[Arrays]:
    """`count` inputs of all kinds; every fifth may fail a require."""
    for name, value in (("inputs", count), ("seed", seed)):
        if type(value) is not int or value < 0:
            raise UserError(f"{name}={value!r}; allowed: 0, 1, 2, ...")
    rng = np.random.default_rng(seed)
    return [draw_inputs(p, KINDS[k % len(KINDS)], rng, defined=k % 5 != 4) for k in range(count)]


def stage_layers(stages: Sequence[Stage]) -> list[Layer]:
    """A layer for each stage's program."""
    return [Layer(s.name, lambda xs, p=s.program: run(p, xs), s.program, s.contract.laws) for s in stages]


def program_layers(stages: Sequence[Stage], backend: str) -> list[Layer]:
    """A layer for each stage's program, and one for what the backend makes of the last."""
    executable = build(stages[-1].program, backend=backend)
    ran = Link(backend, False, "what was printed is run, not read")
    made = Layer(backend, lambda xs: list(executable(xs)), proof=lambda: ran)
    if backend == "reference":
        return [*stage_layers(stages), made]
    printed: Program = executable.program  # type: ignore[attr-defined]

    def nests() -> Link:
        from assay.backends.cpp import scheduled

        return nest_link(scheduled(printed, executable.plan))  # type: ignore[attr-defined]

    return [*stage_layers(stages), *schedule_layers(printed, nests), made]


def schedule_layers(program: Program, nests: Callable[[], Link]) -> list[Layer]:
    """The program after scheduling (packed operands, split folds), and its loop nests, of which `nests` says what is proved."""
    return [Layer("schedule", lambda xs: run(program, xs), program), Layer("nest", None, proof=nests)]


def source_layers(e: Examined) -> list[Layer]:
    """What comes before the core programs: eager evaluation (where the arguments share no storage), the operator graph."""
    eager = _eager(e)
    return [*([eager] if eager is not None else []), _graph(e)]


def _eager(e: Examined) -> Layer | None:
    """The function itself on tensors; None where its arguments share storage (they cannot be drawn apart), and where it asks for
    gradients itself: it changes the .grad of tensors, so one run is not like another."""
    if e.captured.grouped or e.captured.leaves is not None:
        return None
    leaves, structure = flatten(*e.arguments)
    where = [k for k, x in enumerate(leaves) if is_tensor(x)]

    def run_eager(xs: Arrays) -> Arrays:
        given = list(leaves)
        for s, x in zip(e.captured.sources, xs, strict=True):
            if s.kind == "argument":
                given[where[s.index]] = from_numpy(x)
        args, kwargs = optree.tree_unflatten(structure, given)
        results = optree.tree_leaves(e.function(*args, **kwargs), none_is_leaf=True)
        tensors = [given[k] for k in where]
        found: dict[int, np.ndarray] = {}
        for o, x in zip(e.captured.outputs, results, strict=True):
            if o.kind == "result":
                found[o.index] = (x.cell.value if o.chain else x.value).array
        return [s.memory(tensors) for s in e.captured.changed] + [found[k] for k in sorted(found)]

    return Layer("eager", run_eager, proof=lambda: Link("eager", False, "a Python function is run, not read"))


def _graph(e: Examined) -> Layer:
    """The operator graph, node by node through the eager engine."""

    def run_graph(xs: Arrays) -> Arrays:
        return [v.array for v in e.captured.graph.run(process, [from_numpy(x).value for x in xs])]

    return Layer("graph", run_graph, proof=lambda: Link("graph", False, "operators are run one by one"))


# ------------------------------------------------------------------------------------------------ prove


def prove(f: Callable[..., Any] | Program, *args: Any, dynamic: Dynamic = False, **kwargs: Any) -> Any:
    """Every obligation of the program that the backend gets: index bounds, index width, sign of index divisions.

    Returns a proof with .verdict and .obligations (.kind .where .status .how .witness).
    With `dynamic` it is about all sizes that satisfy the proof's .guards, and about each pass: dynamic=True makes a size of
    every extent of an argument, {"x": {0: "n"}} of those that are named.
    """
    check_dynamic(dynamic)
    if isinstance(f, Program):
        _refuse_arguments("prove", args, kwargs, ("dynamic",))
    if dynamic:
        if isinstance(f, Program):
            raise UserError("a program has its sizes already: prove(program), without dynamic")
        return prove_dynamic(f, args, kwargs, dynamic)
    return bounds.prove(final_program(f, *args, **kwargs))


def final_program(f: Callable[..., Any] | Program, *args: Any, **kwargs: Any) -> Program:
    """The program after the last pass."""
    return optimise(f)[-1].program if isinstance(f, Program) else examine(f, args, kwargs).final


# ------------------------------------------------------------------------------------------------ explain


@dataclass(frozen=True)
class Explanation:
    """The story of one compile, section by section."""

    name: str
    sections: tuple[tuple[str, str], ...]
    data: dict[str, Any]

    def __str__(self) -> str:
        return "\n\n".join(f"{title}\n{'-' * len(title)}\n{_folded(text)}" for title, text in self.sections)

    __repr__ = __str__

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "verdict": self.data["verdict"], "exit_code": self.data["exit_code"], **self.data,
                "sections": dict(self.sections)}  # fmt: skip


STAGES = ("graph", "lower", "final", "searched", "scheduled", "kernels", "cpp")


def stage_text(f: Callable[..., Any] | Program, args: tuple[Any, ...], stage: str) -> str:
    """The text of one stage: graph, the name of a pass, final, searched, scheduled, kernels, cpp.  UserError for another."""
    if isinstance(f, Program):
        stages, graph = tuple(optimise(f)), None
    else:
        examined = examine(f, args)
        stages, graph = examined.stages, examined.captured.graph
    named = {s.name: show(s.program) for s in stages}
    named["final"] = show(stages[-1].program)
    if graph is not None:
        named["graph"] = str(graph)
    if stage in named:
        return named[stage]
    machine = {"searched": searched_text, "scheduled": lambda made: show(made.program), "kernels": kernels_text,
               "cpp": lambda made: made.text}  # fmt: skip
    if stage in machine:
        return machine[stage](build(stages[-1].program, backend="cpp"))
    raise UserError(f"unknown stage {stage!r}; allowed: {', '.join([*named, *machine])}")


def searched_text(executable: Any) -> str:
    """The program that the search for a schedule starts from, and what it decided about its tensors."""
    program = executable.plan.searched or executable.program
    return "\n".join([show(program).rstrip(), *(f"# {named(d, program)}" for d in executable.plan.decisions)])


def kernels_text(executable: Any) -> str:
    """One paragraph a kernel: what it computes, its schedule, why."""
    lines: list[str] = []
    for number, k in enumerate(executable.plan.kernels):
        lines.append(f"kernel {number}: {', '.join(f'{t!r}: {type_text(t.dtype, t.shape)}' for t in k.computes)}")
        lines.append(f"  {k.schedule}")
        lines += [f"  row buffer {t!r}, by its first {lead} indices" for t, lead in k.local]
        lines += [f"  {k.reason}"] if k.reason else []
    return named("\n".join(lines), executable.program)


def _folded(text: str) -> str:
    """Lines of at most COLUMNS characters, cut after a comma, colon or semicolon, else at a space; then indented more."""
    found: list[str] = []
    for line in text.splitlines():
        margin = " " * (len(line) - len(line.lstrip()) + 4)
        while len(line) > COLUMNS:
            first = len(margin) + 8
            ends = max(line.rfind(c, max(first, COLUMNS // 2), COLUMNS) for c in (", ", "; ", ": "))  # of a part of a sentence
            cut = ends + 1 if ends >= 0 else line.rfind(" ", first, COLUMNS)
            if cut < 0:
                break
            found.append(line[:cut].rstrip())
            line = margin + line[cut:].lstrip()
        found.append(line)
    return "\n".join(found)


COLUMNS = 80


def gradient_sections(e: Examined) -> list[tuple[str, str]]:
    """Results and gradients as one program, what of it is saved (without a budget), the backward; [] where there is none."""
    leaves, _ = flatten(*e.arguments)
    tensors = [x for x in with_handles(leaves) if isinstance(x, Tensor)]
    handles = {"argument": lambda s: tensors[s.index], "storage": lambda s: Tensor(tensors[s.index].cell),
               "outside": lambda s: Tensor(s.cell)}  # fmt: skip
    sources = e.captured.sources
    wanted = tuple([k for k, s in enumerate(sources) if s.kind in handles and handles[s.kind](s).requires_grad])
    given = tuple([k for k, on in enumerate(dependences_of_graph(e.captured.graph)) if not on.isdisjoint(wanted)])
    if not given or e.captured.history is not None or e.captured.functions:
        return []
    made = partition(joint_of_graph(e.captured.graph, e.program, wanted, given))
    return [("results and gradients", show(made.split.joint.program).rstrip()), ("saved for the backward", str(made)),
            ("backward", show(made.split.backward).rstrip())]  # fmt: skip


def explain(f: Callable[..., Any] | Program, *args: Any, **kwargs: Any) -> Explanation:
    """Graph, programs after each pass with the decisions and their costs, kernels, obligations, time per stage.

    Where f uses tensors that require a gradient, also what a recorded call saves for its backward, and that backward.
    """
    if isinstance(f, Program):
        _refuse_arguments("explain", args, kwargs)
        stages, graph, name, found = tuple(optimise(f)), None, f.name, None
    else:
        found = examine(f, args, kwargs)
        stages, graph, name = found.stages, found.captured.graph, found.captured.graph.name
    executable = build(stages[-1].program, backend="cpp")
    proof = bounds.prove(stages[-1].program)
    sections = [("operator graph", str(graph))] if graph is not None else []
    for before, s in zip((None, *stages), stages, strict=False):
        same = before is not None and before.program is s.program
        notes = [f"# {named(n, before.program)}" for n in s.notes] if before is not None else []  # by the names above
        text = "nothing changes" if same else show(s.program).rstrip()
        sections.append((f"{s.name} ({s.contract})", "\n".join([*notes, text])))
    if executable.plan.decisions:  # type: ignore[attr-defined]
        sections.append(("before the schedule (bitwise)", searched_text(executable)))
    scheduled: Program = executable.program  # type: ignore[attr-defined]
    same = scheduled is stages[-1].program
    sections.append(("schedule (bitwise)", "nothing changes" if same else show(scheduled).rstrip()))
    sections.append(("kernels", kernels_text(executable)))
    if found is not None:
        sections += gradient_sections(found)
    sections.append(("obligations", str(proof)))
    seconds = {s.name: s.seconds for s in stages} | dict(getattr(executable, "timings", {}))
    built = "g++" if seconds.get("g++") else "g++ (in the cache)"
    labels = {"choose": "choose schedules", "stored": "read from the cache", "g++": built}
    sections.append(("time", "\n".join(f"{labels.get(k, k):24} {v * 1e3:8.2f} ms" for k, v in seconds.items())))
    data = {
        "verdict": str(proof.verdict), "exit_code": proof.verdict.exit_code,
        "obligations": proof.to_json()["obligations"], "seconds": seconds,
        "kernels": [{"tensors": [named(repr(t), scheduled) for t in k.computes], "schedule": str(k.schedule), "reason": k.reason}
                    for k in executable.plan.kernels],  # type: ignore[attr-defined]
    }  # fmt: skip
    return Explanation(name, tuple(sections), data)
