"""What a kernel owes, and how each debt is settled.

    bounds     every load, store and atomic: 0 <= offset < elements, in every lane whose mask holds
    int32      every operation on which an offset or a mask depends fits its type (Triton computes in int32 unless widened)
    race       no two programs, and no two lanes of one store, write one element; no program reads what another writes
    promise    tl.multiple_of, tl.max_contiguous, tl.assume: what the kernel promises the compiler holds

for all programs, lanes, iterations, sizes and inputs that the launch describes. A refutation names one of each, and was
replayed by the concrete interpreter before it is reported.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from assay.core.errors import UserError
from assay.kernels import terms as tm
from assay.kernels.arguments import Launch, Tensor, read_launch
from assay.kernels.deciding import decide, decide_quickly, satisfiable
from assay.kernels.races import Race, races
from assay.kernels.source import Module, read_module
from assay.kernels.symbolic import Symbolic
from assay.kernels.symbols import Access, Fits, in_order
from assay.kernels.terms import Cond, Poly
from assay.kernels.trials import Trial, run_trials
from assay.kernels.witness import Witness, bounds_witness, fits_witness, outside_witness, promise_witness, same_place
from assay.verify.integers import Answer
from assay.verify.verdict import PROVED, REFUTED, UNKNOWN, Verdict, proved, refuted, unknown, worst

STATUS = {"proved": PROVED, "refuted": REFUTED, "unknown": UNKNOWN}


@dataclass(frozen=True)
class Obligation:
    """One debt: where it stands in the source, how it was settled, and what shows that it does not hold."""

    kind: str  # bounds, int32 (or another type), race, promise
    line: int
    text: str
    status: str
    how: str
    what: str = ""  # load, store, atomic
    tensor: str = ""
    mask: tuple[str, ...] = ()  # remarks about parts of the mask
    witness: Witness | Race | None = None

    def __str__(self) -> str:
        head = f"{self.status.lower():8}{self.kind:8} line {self.line}: {self.text}: {self.how}"
        lines = [head, *(f"{'':16} {m}" for m in self.mask)]
        if self.witness is not None:
            lines += [f"{'':16} {w}" for w in str(self.witness).splitlines()]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """All fields; `where` is the line."""
        return {
            "kind": self.kind,
            "line": self.line,
            "text": self.text,
            "status": self.status,
            "how": self.how,
            "access": self.what,
            "tensor": self.tensor,
            "mask": list(self.mask),
            "witness": self.witness.to_json() if self.witness is not None else None,
        }


@dataclass(frozen=True)
class KernelProof:
    """What was found about a kernel."""

    name: str
    path: str
    obligations: tuple[Obligation, ...]
    operations: int = 0  # integer operations that were proved to fit their type

    @property
    def verdict(self) -> Verdict:
        """PROVED only if every obligation is."""
        found = []
        for o in self.obligations:
            found.append({PROVED: proved, REFUTED: refuted(o)}.get(o.status) or unknown(o.how))
        return worst(found) if found else unknown("the kernel accesses no memory")

    def __str__(self) -> str:
        counts = ", ".join(
            f"{sum(o.status == s for o in self.obligations)} {s.lower()}"
            for s in (PROVED, REFUTED, UNKNOWN)
            if any(o.status == s for o in self.obligations)
        )
        return "\n".join([*map(str, self.obligations), f"{self.verdict.kind}: {counts}"])

    def to_json(self) -> dict[str, Any]:
        """The verdict, its exit code, the obligations."""
        v = self.verdict
        return {
            "name": self.name,
            "verdict": v.kind,
            "exit_code": v.exit_code,
            "obligations": [o.to_json() for o in self.obligations],
        }


def prove(path: str | Path, kernel: str, *, grid: str = "", args: Sequence[str] = (), assume: Sequence[str] = ()) -> KernelProof:
    """Proves or refutes that a Triton kernel keeps its bounds, its integer widths, its promises, and has no race.

    `grid`, `args` and `assume` are texts as on the command line: grid="cdiv(n, BLOCK)", args=["x_ptr=f32[n]", "n=1..2**30",
    "BLOCK=1024"], assume=["n % 16 == 0"].  What they leave out is taken from LAUNCHES of the file.
    Raises UserError for wrong descriptions, Unsupported for what is not understood.
    """
    module = read_module(Path(path))
    stated = module.launches.get(kernel, {"grid": "", "args": [], "assume": []})
    named = {a.partition("=")[0].strip(): a for a in (*stated["args"], *args)}
    grid, args, assume = grid or stated["grid"], list(named.values()), [*stated["assume"], *assume]
    module.function(kernel)
    if not grid.strip():
        raise UserError(f"{kernel} is a kernel: say how many programs run, such as --grid 'cdiv(n, BLOCK)'")
    return prove_kernel(module, kernel, grid=grid, args=args, assume=assume)


def prove_kernel(module: Module, kernel: str, *, grid: str, args: Sequence[str], assume: Sequence[str] = ()) -> KernelProof:
    """`prove` for a module that was read."""
    f = module.function(kernel)
    launch = read_launch(module, f, args, grid, assume)
    return _Prover(module, f, launch).run()


@dataclass
class _Prover:
    module: Module
    kernel: ast.FunctionDef
    launch: Launch
    obligations: list[Obligation] = field(default_factory=list)
    fitting: dict[Any, Answer] = field(default_factory=dict)
    spoiled: dict[str, Obligation] = field(default_factory=dict)  # tensors that are accessed at offsets that may not fit
    misfits: dict[tuple[str, int, str], Obligation] = field(default_factory=dict)

    def run(self) -> KernelProof:
        given = (*self.launch.assumptions, *(tm.nonnegative(g - 1) for g in self.launch.grid))
        self.given: tuple[Cond, ...] = tuple(c for c in given if c is not tm.TRUE)
        if not satisfiable(self.given):
            raise UserError(
                f"no sizes satisfy the conditions ({', '.join(self.launch.stated) or 'the ranges'}) with a grid of at least "
                "one program: everything would be true"
            )
        for t in self.launch.parameters.values():
            if isinstance(t, Tensor) and t.lower is not None and t.upper is not None:
                if decide(tm.at_most(t.lower, t.upper), self.given).status != "proved":
                    raise UserError(f"--arg {t.name}: the range of its values may be empty for some sizes; narrow the sizes")
        first = Symbolic(self.module, self.launch)
        first.run(self.kernel)
        written = frozenset(a.tensor.name for a in first.accesses if a.kind != "load")
        self.symbolic = first
        if any(a.tensor.name in written and a.kind == "load" for a in first.accesses):
            self.symbolic = Symbolic(self.module, self.launch, written)
            self.symbolic.run(self.kernel)
        for a in self.symbolic.accesses:
            self._access(a)
        for h in self.symbolic.hints:
            answer = decide(h.goal, (*self.given, *h.path))
            witness = promise_witness(self, h, answer) if answer.point is not None else None
            self._owe("promise", h.node, answer, witness=witness)
        self.obligations += self.misfits.values()
        for r in races(self.module, self.launch, self.symbolic, self.given, lambda: self.trials):
            status, how, witness = r.status, r.how, r if r.conflict is not None else None
            misfit = self.spoiled.get(r.tensor)
            if status == PROVED and misfit is not None:
                status, how = UNKNOWN, f"written by one lane of one program only if line {misfit.line} fits {misfit.kind}"
            self.obligations.append(
                Obligation("race", r.line, self.module.text(r.node), status, how, tensor=r.tensor, witness=witness)
            )
        return KernelProof(self.kernel.name, self.module.path, tuple(_one_a_place(self.obligations)), len(self.fitting))

    def _owe(self, kind: str, node: ast.AST, answer: Answer, how: str = "", **more: Any) -> None:
        """A witness was replayed, so it refutes even where the solver's point has values that are not inputs."""
        status = STATUS[answer.status]
        if more.get("witness") is not None:
            status, how = REFUTED, more["witness"].how
        elif status == REFUTED:
            status, how = UNKNOWN, "a counterexample was found that takes too long to replay"
        self.obligations.append(
            Obligation(kind, getattr(node, "lineno", 0), self.module.text(node), status, how or self._how(answer), **more)
        )

    def _how(self, answer: Answer) -> str:
        if answer.status == "unknown" and answer.opaque:
            return "depends on " + "; ".join(dict.fromkeys(a.why or a.name for a in answer.opaque))  # type: ignore[attr-defined]
        return answer.how

    # -------------------------------------------------------------------------------------------- accesses

    def _access(self, a: Access) -> None:
        mask: tuple[Cond, ...] = tm.conjuncts(a.mask.term) if a.mask is not None else ()
        misfit = self._misfit(a, mask)
        if misfit is not None:
            self.spoiled.setdefault(a.tensor.name, misfit)
        goal = inside(a.offset.term, a.tensor.count)
        hypotheses = (*self.given, *a.path, *mask)
        answer = decide_quickly(goal, hypotheses)
        witness = None
        if answer is None:
            witness = self._seen_outside(a)
            answer = decide(goal, hypotheses) if witness is None else Answer("refuted", "a small launch")
        if answer.point is not None:
            witness = bounds_witness(self, a, answer)
        how = ""
        if answer.status == "proved":
            how = f"every offset of {a.tensor.name} is inside: {answer.how}"
            if misfit is not None:
                how = f"inside only if line {misfit.line} fits {misfit.kind}"
                answer = replace(answer, status="unknown")
        remarks = self._mask_remarks(a, mask, goal) if mask and answer.status == "proved" and not answer.unreachable else ()
        self._owe("bounds", a.node, answer, how, what=a.kind, tensor=a.tensor.name, mask=remarks, witness=witness)

    @cached_property
    def trials(self) -> list[Trial]:
        """Small launches that were run."""
        return run_trials(self.module, self.kernel, self.launch, self.given)

    def _seen_outside(self, a: Access) -> Witness | None:
        """An access outside in a small launch."""
        for t in self.trials:
            for e in t.events:
                if e.tensor is not None and e.kind == a.kind and same_place(e.node, a.node) and e.outside.any():
                    return outside_witness(t.sizes, e)
        return None

    def _mask_remarks(self, a: Access, mask: tuple[Cond, ...], goal: Cond) -> tuple[str, ...]:
        """Which parts of the mask always hold (they can go), and which the bounds do not need."""
        found: list[str] = []
        for k, c in enumerate(mask):
            others = (*self.given, *a.path, *mask[:k], *mask[k + 1 :])
            text = self.symbolic.texts.get(c, "a part of it")
            if _holds(c, others):
                found.append(f"mask: {text} always holds, it can be removed")
            elif _holds(goal, others):
                found.append(f"mask: {text} is not needed for the bounds (it still chooses lanes)")
        return tuple(found)

    def _misfit(self, a: Access, mask: tuple[Cond, ...]) -> Obligation | None:
        """An operation on which the access depends and that was not proved to fit its type; the refuted ones are recorded.

        Asked everywhere first, and where that fails, of an offset only where the mask holds.  What overflows only because an
        operand did is not reported.
        """
        needs = [(f, ()) for f in in_order(a.path_needs)]
        needs += [(f, a.path) for f in in_order(a.mask.needs if a.mask is not None else ())]
        needs += [(f, (*a.path, *mask)) for f in in_order(a.offset.needs)]
        found: list[Obligation] = []
        for f, context in needs:
            goal = tm.all_of((tm.at_most(tm.poly(f.type.lo), f.term), tm.at_most(f.term, tm.poly(f.type.hi))))
            answer = self._decided(f, goal, ())
            if answer.status != "proved" and context:
                answer = self._decided(f, goal, context)
            if answer.status != "proved":
                found.append(self._not_fitting(f, a, answer))
        refuted_ones = [o for o in found if o.status == REFUTED]
        for o in refuted_ones or found:
            key = o.kind, o.line, o.text
            if key not in self.misfits or self.misfits[key].status != REFUTED:
                self.misfits[key] = o
        return next(iter(refuted_ones or found), None)

    def _not_fitting(self, f: Fits, a: Access, answer: Answer) -> Obligation:
        witness = fits_witness(self, f, a, answer) if answer.point is not None else None
        if witness is not None:
            status, how = REFUTED, witness.how
        elif answer.status == "refuted":
            status, how = UNKNOWN, f"may not fit {f.type}: a counterexample was found that takes too long to replay"
        else:
            status, how = UNKNOWN, self._how(answer)
        text = self.module.text(f.node)
        return Obligation(str(f.type), f.line, text, status, how, tensor=a.tensor.name, witness=witness)

    def _decided(self, f: Fits, goal: Cond, context: tuple[Cond, ...]) -> Answer:
        key = f, context
        if key not in self.fitting:
            self.fitting[key] = decide(goal, (*self.given, *f.path, *context))
        return self.fitting[key]


def _one_a_place(found: Sequence[Obligation]) -> list[Obligation]:
    """One obligation for each kind and place in the source, the worst: an access may be met on several ways."""
    places: dict[tuple[str, int, str], list[Obligation]] = {}
    for o in found:
        places.setdefault((o.kind, o.line, o.text), []).append(o)
    merged: list[Obligation] = []
    for same in places.values():
        o = next((o for s in (REFUTED, UNKNOWN) for o in same if o.status == s), None)
        if o is None:
            o = replace(same[0], how=", ".join(dict.fromkeys(x.how for x in same)))
            o = replace(o, mask=tuple(m for m in o.mask if all(m in x.mask for x in same)))
        merged.append(o)
    return sorted(merged, key=lambda o: o.line)


def _holds(goal: Cond, hypotheses: tuple[Cond, ...]) -> bool:
    answer = decide_quickly(goal, hypotheses)
    return answer is not None and answer.status == "proved"


def inside(offset: Poly, count: Poly) -> Cond:
    """0 <= offset < count"""
    return tm.all_of((tm.nonnegative(offset), tm.less(offset, count)))
