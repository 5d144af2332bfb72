"""One program for many sizes: captured, transformed, and proved for all sizes that satisfy its guards.

    sized_program(f, args, kwargs, dynamic)     the stages, each with the sizes and the guards
    prove(f, args, kwargs, dynamic)             bounds and widths of what the backend gets, and each pass, for all sizes

What is decided while a program is made (a broadcast, a reshape, a choice of a pass) is decided for all sizes, or by the sizes of
the arguments and recorded as a guard; so a proof under the guards is a proof for every call that satisfies them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from assay.core.graph import Graph, Node, map_nodes
from assay.core.index import Size, evaluate, is_symbolic
from assay.core.lang import Program, bind
from assay.core.sizes import Guard
from assay.frontends.capture import Captured
from assay.frontends.derived import ProgramOperator
from assay.frontends.dynamic import Dynamic, Sizes, capture_dynamic
from assay.transforms.lower import lower
from assay.transforms.pipeline import Stage, optimise
from assay.verify import bounds, verdict
from assay.verify.validate import Validation, validate
from assay.verify.verdict import Verdict

LARGE = 1 << 31  # the end of a range beyond this is not worth telling


@dataclass(frozen=True)
class SizedProgram:
    """A function captured for all sizes, lowered and transformed."""

    captured: Captured
    sizes: Sizes
    stages: tuple[Stage, ...]

    @property
    def final(self) -> Program:
        """What the backend gets."""
        return self.stages[-1].program

    def at(self, sizes: dict[str, int]) -> Program:
        """The last program at given sizes."""
        return bind(self.final, {s.name: sizes[s.name] for s in self.final.sizes})


def sized_program(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], dynamic: Dynamic) -> SizedProgram:
    """The function at the arguments, for all sizes; the guards are those of every stage."""
    captured, sizes = capture_dynamic(f, args, kwargs, dynamic)
    with sizes.assumptions:
        stages = optimise(lower(captured.graph))
    return SizedProgram(captured, sizes, tuple(replace(s, program=sizes.guarded(s.program)) for s in stages))


def at_sizes(captured: Captured, sizes: dict[str, int]) -> Captured:
    """How a call at these sizes uses the graph: views among the results, and sizes that are results, get their values."""

    def value(x: Any) -> Any:
        return _value(x, sizes)

    outputs = [replace(o, chain=tuple([k.with_rest(value(k.rest)) for k in o.chain]), value=value(o.value))
               for o in captured.outputs]  # fmt: skip
    return replace(captured, outputs=tuple(outputs))


def graph_at_sizes(graph: Graph, sizes: dict[str, int]) -> Graph:
    """The graph of a call at these sizes: shapes and arguments get their values."""
    new: dict[Node, Node] = {}
    for n in (*graph.inputs, *graph.nodes):
        made = new[n] = Node(n.kind, n.name, _value(n.shape, sizes), n.dtype, target=_operator(n.target, sizes),
                             args=_value(map_nodes(n.args, new.__getitem__), sizes), outputs=_value(n.outputs, sizes),
                             partial=n.partial, where=n.where)  # fmt: skip
        made.value = n.value
    return Graph([new[n] for n in graph.inputs], [new[n] for n in graph.nodes], [new[n] for n in graph.outputs],
                 [(new[place], new[value]) for place, value in graph.epilogue], graph.name)  # fmt: skip


def _value(x: Any, sizes: dict[str, int]) -> Any:
    if is_symbolic(x) and x.is_extent:
        return evaluate(x, lambda s: sizes[s.name])
    return tuple([_value(y, sizes) for y in x]) if isinstance(x, tuple) else x


def _operator(op: Any, sizes: dict[str, int]) -> Any:
    """The operator; one that means a program with sizes, at these."""
    if isinstance(op, ProgramOperator) and op.fixed.sizes:
        return ProgramOperator(op.base, op.overload, bind(op.fixed, {s.name: sizes[s.name] for s in op.fixed.sizes}), op.backend)
    return op


@dataclass(frozen=True)
class SizedProof:
    """What was proved for all sizes that satisfy the guards.

    `proof` is about the bounds, widths and signs of the last program, `passes` says of each pass that changed something that
    the program after it has the bits of the one before.
    """

    sized: SizedProgram
    proof: bounds.Proof
    passes: tuple[tuple[str, Validation], ...]

    @property
    def verdict(self) -> Verdict:
        """The worst of the obligations and the passes."""
        return verdict.worst([self.proof.verdict, *(v.verdict for _, v in self.passes)])

    @property
    def obligations(self) -> tuple[bounds.Obligation, ...]:
        """Those of the last program."""
        return self.proof.obligations

    @property
    def guards(self) -> tuple[Guard, ...]:
        """What the sizes must satisfy, with the line that needed it; those first that express a size by others."""
        return (*self.sized.sizes.solved, *self.sized.sizes.guards)

    def __str__(self) -> str:
        sizes = self.sized.sizes
        lines = [f"{'for all':8}{_range(s)}    (captured at {sizes.assumptions.hints[s]})" for s in sizes.sizes]
        lines += [f"{'with':8}{name}: [{', '.join(map(_extent, shape))}]"
                  for name, shape in zip(sizes.names, sizes.shapes, strict=True)]  # fmt: skip
        lines += [f"{'if':8}{g}" + (f"    ({g.where})" if g.where else "") for g in self.guards]
        lines += map(str, self.obligations)
        lines += [f"{'proved' if v.proved else 'unknown':8}{name}: {v}" for name, v in self.passes]
        return "\n".join([*lines, f"{self.verdict}: {len(self.obligations)} obligations, {len(self.passes)} passes"])

    def to_json(self) -> dict[str, Any]:
        """The object of `assay prove --dynamic --json`."""
        v = self.verdict
        sizes = self.sized.sizes
        return {
            "verdict": str(v), "exit_code": v.exit_code,
            "sizes": [{"name": s.name, "lo": s.lo, "hi": s.hi, "hint": sizes.assumptions.hints[s]} for s in sizes.sizes],
            "shapes": {name: list(map(_extent, shape)) for name, shape in zip(sizes.names, sizes.shapes, strict=True)},
            "guards": [{"condition": str(g), "where": g.where} for g in self.guards],
            "obligations": [o.to_json() for o in self.obligations],
            "passes": [{"pass": name, "proved": v.proved, "how": str(v)} for name, v in self.passes],
        }  # fmt: skip


def _extent(n: Any) -> str:
    return repr(n)


def _range(s: Size) -> str:
    return f"{s.name} >= {s.lo}" if s.hi > LARGE else f"{s.lo} <= {s.name} <= {s.hi}"


def prove(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], dynamic: Dynamic) -> SizedProof:
    """The proof for all sizes of the function at the arguments."""
    sized = sized_program(f, args, kwargs, dynamic)
    steps = zip(sized.stages, sized.stages[1:], strict=False)
    passes = tuple((b.name, validate(a.program, b.program)) for a, b in steps if a.program is not b.program)
    return SizedProof(sized, bounds.prove(sized.final), passes)
