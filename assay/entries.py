"""What one compilation leaves: an entry for one signature, or one for many sizes, and what is proved of its steps.

    Entry(tensors)          the result of a call: inputs read, code run, changed inputs written, outputs made
    Entry.recorded(tensors) the same as one operator of the stack, where the call is to be differentiated
    SizedEntry(shapes)      the Entry at these sizes, or why it does not serve them
    Links                   the proofs of the passes, made once

Which entry a call gets, and when one is compiled, is decided in compiler.py.
"""

from __future__ import annotations

import copy
import functools
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import optree

from assay.core.errors import Unsupported, UserError
from assay.core.graph import Graph
from assay.core.lang import Program, requires
from assay.core.lang.bind import stated
from assay.dynamic import SizedProgram, at_sizes, graph_at_sizes
from assay.frontends.autograd import Autograd
from assay.frontends.capture import Captured, Output, Source
from assay.frontends.cell import Cell, Chain
from assay.frontends.cell import Link as ViewLink
from assay.frontends.derived import active
from assay.frontends.dynamic import Sizes
from assay.frontends.joint import joint_of_graph
from assay.frontends.partitioned import Derivatives, PartitionedOperator
from assay.frontends.source import quoted, quoted_line
from assay.frontends.tensor import Tensor
from assay.frontends.unseen import is_unseen, refuse_lost_history
from assay.frontends.value import STATE, Value, is_annotated, live_levels, process
from assay.semantics.failure import RequireError
from assay.transforms.lower import lower
from assay.transforms.pipeline import Stage
from assay.verify.link import Link, pass_links

SERVED = 1024  # sizes of an entry for many sizes that are remembered
LEAF = optree.tree_structure(0, none_is_leaf=True)  # type: ignore[arg-type]

Executable = Callable[[list[np.ndarray]], Sequence[np.ndarray]]


class Links:
    """The passes of a compile, proved while g++ runs, or when somebody asks."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        self.stages = stages
        self._proved: tuple[Link, ...] | None = None

    def prove(self) -> tuple[Link, ...]:
        """Each pass against the program before it."""
        if self._proved is None:
            self._proved = pass_links(self.stages)
        return self._proved


@dataclass(eq=False)
class Entry:
    """One compiled signature.

    `stages` are the programs from lowering to what the backend got, `seconds` the time of each step, `fast` whether a
    call is: arrays in, executable, arrays out; then `bound` says for each input which argument it is, or its memory.
    `make` builds the executable, when it is first needed: a call that is recorded runs another one, the partition's forward.
    """

    captured: Captured
    stages: list[Stage]
    make: Callable[[], Executable]
    described: tuple[str, ...]
    passes: Links
    derivatives: Derivatives
    seconds: dict[str, float] = field(default_factory=dict)
    hits: int = 0
    sizes: Sizes | None = None
    at: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        c = self.captured
        self.mutates = bool(c.changed)
        self.more = self.mutates or c.leaves is not None  # the key has a further part
        self.bound = [(s.index, None if s.kind == "argument" else s.memory(())) for s in c.sources
                      if s.kind not in ("storage", "gradient")]  # fmt: skip
        plain = not c.changed and c.leaves is None and all(a is None or a.flags.c_contiguous for _, a in self.bound)
        self.fast = plain and all(o.kind == "result" and not o.chain for o in c.outputs)
        self.in_order = [k for k, _ in self.bound] == list(range(len(self.described)))
        self.single = self.fast and c.structure == LEAF

    @cached_property
    def executable(self) -> Executable:
        start = time.perf_counter()
        made = self.make()
        self.seconds.setdefault("backend", time.perf_counter() - start)
        return made

    @property
    def links(self) -> tuple[Link, ...]:
        """What is proved of each pass, of the schedule and of the loop nests, for all inputs; what is not says why."""
        return (*self.passes.prove(), *getattr(self.executable, "links", ()))

    def __call__(self, tensors: Sequence[Tensor]) -> Any:
        """The result on tensors of the entry's signature; changed inputs are written after everything was computed."""
        c = self.captured
        cut = len(c.changed)
        with _updates(c.changed, tensors):
            arrays = [s.memory(tensors) for s in c.sources]
            results = list(self.executable([np.ascontiguousarray(a) if a.ndim else a for a in arrays]))
            for target, value in zip(c.changed, results, strict=False):
                _write(target, tensors, value)
        return self._finished(results[cut:], tensors)

    def _finished(self, results: Sequence[np.ndarray | Value], tensors: Sequence[Tensor]) -> Any:
        """What the call returns, made of the results of the program; leaves get their gradients."""
        c = self.captured
        outputs = _Outputs(results, tensors)
        made = [outputs.made(o) for o in c.outputs]
        for source, o in c.gradients:
            source.leaf(tensors).grad = outputs.made(o)
        outputs.show_views()
        return optree.tree_unflatten(c.structure, made)

    # -------------------------------------------------------------------------------------------- derivatives

    def concerns(self, tensors: Sequence[Tensor]) -> bool:
        """Whether a level of the stack knows something of what the call reads: it has to be recorded then."""
        values = [t.value for t in tensors if t.cell.annotated]
        values += [c.value for c in (*self.captured.outside, *(t.cell for t in tensors)) if c.annotated]
        return bool(values) and is_annotated(*values)

    @cached_property
    def graph(self) -> Graph:
        """The graph of a call, at the sizes of the entry."""
        return self.captured.graph if self.sizes is None else graph_at_sizes(self.captured.graph, self.at)

    @cached_property
    def operator(self) -> PartitionedOperator:
        """The compiled function as one operator.  Its derivatives, of any order, are derived from its program, partitioned
        within the budget, and compiled at their first use."""
        graph = self.graph
        p = self.stages[0].program if graph is self.captured.graph else lower(graph)
        compiled: dict[Program, Executable] = {}

        def backend(program: Program) -> Callable[[list[Any]], Any]:
            found = self.executable if program is p else compiled.get(program)
            if found is None:
                found = compiled.setdefault(program, self.derivatives.build(program))
            return lambda arrays: found([np.ascontiguousarray(a) if a.ndim else a for a in arrays])

        settings = replace(self.derivatives, build=backend)
        history = self.captured.history
        if history is not None:  # a derivative of the user's backward would not be the user's
            settings = replace(settings, max_order=1)
            joint = functools.partial(history.joint, graph, p)
            return PartitionedOperator(graph.name, p, settings, joint=joint, of=graph)
        joint = functools.partial(joint_of_graph, graph, p)
        return PartitionedOperator(graph.name, p, settings, joint=joint, of=graph)

    def recorded(self, tensors: Sequence[Tensor]) -> Any:
        """The call under the present stack, so that it is differentiated.

        Raises Unsupported for a Function of the user in it, in forward mode or for all sizes, and for hooks in it.
        """
        c = self.captured
        values = [self._value(s, tensors) for s in c.sources]
        wanted = tuple([k for k, v in enumerate(values) if is_annotated(v)])
        if c.history is not None:
            c.history.check(c.graph, self.operator, wanted)
        if c.functions and active(self.operator, self.operator.fixed, wanted):
            reverse = all(isinstance(lv, Autograd) for lv in live_levels() if any(lv in values[k].meta for k in wanted))
            if c.history is None or not reverse:
                called = ", ".join(dict.fromkeys(c.functions))
                what = (
                    "compiled for all sizes, it has no gradient. Compile it for fixed sizes, without dynamic"
                    if reverse
                    else f"compiled, it has no forward derivative. Compile the parts around {called}"
                )
                raise Unsupported(
                    f"{quoted()}  the compiled function calls {called}, whose derivatives are Python: {what}, or call the "
                    "function itself, without assay.compile"
                )
        if c.hooks and active(self.operator, self.operator.fixed, wanted):
            raise Unsupported(
                f"{quoted_line(c.hooks[0])}\n  this hook (or retain_grad()) is inside of a compiled function, where only a "
                "backward inside of it calls it; this call is differentiated from outside, as one operator. Call backward() "
                "inside too, or make it a Function with a backward of its own, or return the tensor and register the hook outside"
            )
        with _updates(c.changed, tensors):
            refuse_lost_history(self.graph, wanted)
            made = process(self.operator, tuple(values))
            results = list(made) if isinstance(made, tuple) else [made]
            for target, value, (place, end) in zip(c.changed, results, c.graph.epilogue, strict=False):
                if is_unseen(place, end):
                    _write(target, tensors, value.array)
                else:
                    _handle(target, tensors).write(value, "a compiled function")
        return self._finished(results[len(c.changed) :], tensors)

    def _value(self, s: Source, tensors: Sequence[Tensor]) -> Value:
        """What an input of the program is at a call, as a value that levels may know something of."""
        return Value(s.array) if s.kind == "constant" and s.array is not None else _handle(s, tensors).value

    def locate(self, error: RequireError) -> None:
        """Note on the error which lines of the user ask for what does not hold, and of which arguments."""
        with self.sizes.assumptions if self.sizes is not None else nullcontext():
            self._locate(error)

    def _locate(self, error: RequireError) -> None:
        graph = self.captured.graph
        arguments = {node: self.described[s.index].partition(":")[0]
                     for node, s in zip(graph.inputs, self.captured.sources, strict=True) if s.kind == "argument"}  # fmt: skip
        for node in graph.nodes:
            if not node.partial:
                continue
            meaning = node.target.program(*node.args)
            if any(stated(self.at, t.message) == error.tensor.message for t in requires(meaning)):
                of = ", ".join(arguments.get(x, x.name) for x in node.operands)
                error.add_note(f"in {node.target.base} of {of} at {quoted_line(node.where)}")


@dataclass(eq=False)
class SizedEntry:
    """One compiled entry for many sizes: every call whose shapes give sizes that satisfy the guards.

    `served` are the entries at the sizes that were called, `why` says why no earlier entry serves the call that made it.
    """

    sized: SizedProgram
    code: Callable[[dict[str, int]], Executable]
    described: tuple[str, ...]
    why: str
    seconds: dict[str, float]
    passes: Links
    derivatives: Derivatives
    nests: Callable[[], tuple[Link, ...]] = tuple
    earlier: int = 0
    served: dict[tuple[int, ...], Entry] = field(default_factory=dict[tuple[int, ...], Entry])

    @property
    def hits(self) -> int:
        """The calls that it served."""
        return self.earlier + sum(e.hits for e in self.served.values())

    @property
    def links(self) -> tuple[Link, ...]:
        """What is proved of each pass and of the loop nests, for all sizes and inputs."""
        return (*self.passes.prove(), *self.nests())

    def __call__(self, shapes: Sequence[tuple[int, ...]]) -> Entry | str:
        """The entry at arguments of these shapes, or why they are not served."""
        sizes = self.sized.sizes.match(shapes)
        if isinstance(sizes, str):
            return sizes
        key = tuple(sizes.values())
        found = self.served.get(key)
        if found is None:
            try:
                executable = self.code(sizes)
            except Unsupported as error:
                return str(error)
            if len(self.served) >= SERVED:
                self.earlier, self.served = self.hits, {}
            captured = at_sizes(self.sized.captured, sizes)
            found = self.served[key] = Entry(captured, list(self.sized.stages), lambda: executable, self.described, self.passes,
                                             self.derivatives, self.seconds, sizes=self.sized.sizes, at=sizes)  # fmt: skip
        return found


def _updates(changed: Sequence[Source], tensors: Sequence[Tensor]) -> ExitStack:
    """Holds the locks of the storages that a call changes, always in the same order."""
    cells = [s.storage(tensors) for s in changed]
    held = ExitStack()
    for lock in sorted({c.lock for c in cells if c is not None and c.lock is not None}, key=id):
        held.enter_context(lock)
    return held


def _write(s: Source, tensors: Sequence[Tensor], value: np.ndarray) -> None:
    target, cell = s.memory(tensors), s.storage(tensors)
    if not target.flags.writeable:
        raise UserError("the compiled function changes an argument whose memory is read-only; pass a copy")
    np.copyto(target, value)
    cell.written("a compiled function")  # type: ignore[union-attr]


def _handle(s: Source, tensors: Sequence[Tensor]) -> Tensor:
    """The tensor that an input of the program is at a call."""
    if s.kind == "argument":
        return tensors[s.index]
    if s.kind == "gradient":
        return s.leaf(tensors).grad
    cell = s.storage(tensors)
    assert cell is not None
    return Tensor(cell)


class _Outputs:
    """The tensors that a call returns; those that share a result share its memory."""

    def __init__(self, results: Sequence[np.ndarray | Value], tensors: Sequence[Tensor]) -> None:
        self.results, self.tensors = results, tensors
        self.cells: dict[int, Cell] = {}
        self.links: dict[ViewLink, ViewLink] = {}
        self.views: list[Tensor] = []
        self.of_arguments: list[Tensor] = []

    def made(self, o: Output) -> Any:
        """What one leaf of the result is."""
        if o.kind in ("static", "outside"):
            return copy.copy(o.value) if isinstance(o.value, np.ndarray | set | bytearray) else o.value  # each call its own
        chain = tuple(map(self._link, o.chain))
        if o.kind == "result":
            if o.index not in self.cells:
                made = self.results[o.index]
                self.cells[o.index] = Cell(made.array, made) if isinstance(made, Value) else Cell(made)
            view = Tensor(self.cells[o.index], chain)
            if chain and view.cell.annotated:
                self.views.append(view)
            return view
        t = o.value.leaf(self.tensors).grad if o.kind == "gradient" else self.tensors[o.index]
        if o.kind in ("argument", "gradient") and not chain:
            return t
        view = Tensor(t.cell, t.chain + chain if o.kind in ("argument", "gradient") else chain)
        if chain and view.cell.annotated:
            self.of_arguments.append(view)
        return view

    def _link(self, link: ViewLink) -> ViewLink:
        """A link of the capture, here: one object wherever it stands."""
        found = self.links.get(link)
        if found is None:
            levels = frozenset(level for level in STATE.stack if isinstance(level, Autograd))
            found = self.links[link] = link.called(levels)
        return found

    def show_views(self) -> None:
        """Views of results with a history get theirs now, in the order in which the function made them, each from the one before:
        so cotangents of what they share meet in the order of eager evaluation."""
        known: dict[tuple[Cell, Chain], Value] = {}
        parts = {(v.cell, v.chain[:n]): None for v in self.views for n in range(1, len(v.chain) + 1)}
        for cell, chain in sorted(parts, key=lambda part: part[1][-1].number):
            value = known[cell, chain] = chain[-1].view(known.get((cell, chain[:-1])) or cell.value)
            value.writes = cell.writes
        for v in self.views:
            v.show(known[v.cell, v.chain])
        for v in sorted(self.of_arguments, key=lambda v: v.chain[-1].number):
            _ = v.value  # now, while the levels of the call are there: a tangent would be lost after jvp has left its level
