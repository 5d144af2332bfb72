"""Layered comparison (section 11.4): every stage of one compile against the meaning, bit for bit.

The layers are eager execution, the operator graph, the core program after each pass and the emitted code.  Each is run
on the same inputs and compared with the denotation of the lowered program.  The first layer that differs is where the
defect is; its witness is made small and shown with every intermediate value.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from assay.core.dtypes import dtype
from assay.core.errors import InternalError
from assay.core.lang import Program, T
from assay.core.text import type_text
from assay.semantics.compare import evidence, first_difference
from assay.semantics.denote import Meanings, run
from assay.semantics.failure import RequireError
from assay.semantics.trace import Line, format_value, intermediates
from assay.verify.link import Link, program_link
from assay.verify.verdict import VALIDATED, Verdict, proved, refuted, unknown, validated, worst

FEW = 8  # elements that are listed with their index
Arrays: TypeAlias = "list[np.ndarray]"


@dataclass(frozen=True)
class Failure:
    """A run that raised: the class and the message are the outcome."""

    kind: str
    message: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


Outcome: TypeAlias = "Arrays | Failure"


@dataclass(frozen=True)
class Layer:
    """One stage: how to run it, and, where it is a core program, the program (it is proved against the one before it).

    `laws` are those that its contract allows.  Of a stage that is no core program `proof` says what is proved of it; one
    without `run` is run as the next one.
    """

    name: str
    run: Callable[[Arrays], Arrays] | None
    program: Program | None = None
    laws: frozenset[str] = frozenset()
    proof: Callable[[], Link] | None = None


@dataclass(frozen=True)
class Witness:
    """An input on which a layer differs from the meaning: element `index` of output `output`."""

    layer: str
    inputs: Arrays
    output: int
    index: tuple[int, ...]
    expected: Any
    got: Any
    source: tuple[Line, ...] = ()
    target: tuple[Line, ...] = ()

    def __str__(self) -> str:
        shown = [f"  input {k}: {_short(a)}" for k, a in enumerate(self.inputs)]
        lines = [f"{self.layer} differs from the meaning", *shown]
        if not isinstance(self.expected, np.generic) or not isinstance(self.got, np.generic):
            lines += [f"  {who}: {'no error' if isinstance(x, list) else x}"
                      for who, x in (("meaning", self.expected), (self.layer, self.got))]  # fmt: skip
        else:
            where = f"output {self.output}{list(self.index)}"
            lines += [f"  {where}: meaning {format_value(self.expected)}, {self.layer} {format_value(self.got)}"]
        lines += ["  source", *(f"    {x}" for x in self.source)] if self.source else []
        lines += ["  target", *(f"    {x}" for x in self.target)] if self.target else []
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        return {
            "layer": self.layer, "output": self.output, "index": list(self.index),
            "expected": str(self.expected), "got": str(self.got),
            "inputs": [{"shape": list(a.shape), "dtype": str(a.dtype), "values": _short(a)} for a in self.inputs],
            "source": [str(x) for x in self.source], "target": [str(x) for x in self.target],
        }  # fmt: skip


@dataclass(frozen=True)
class StageReport:
    """What was found of one layer: its verdict against the layer before it.

    laws    the laws that the proof used although they change bits     how   why it holds, or why it was only run
    """

    name: str
    verdict: Verdict
    laws: tuple[str, ...] = ()
    seconds: float = 0.0
    how: str = ""


@dataclass(frozen=True)
class Report:
    """The chain of all layers; `witness` is that of the first layer that differs.

    `evidence`: some run had a result that says something when it is equal, an element that is not NaN or an error.
    `raised`: the inputs, by number, on which the meaning is an error, and that error.  `given`: input 0 is the user's.
    """

    stages: tuple[StageReport, ...]
    witness: Witness | None = None
    inputs: int = 0
    name: str = "f"
    extra: dict[str, Any] = field(default_factory=dict)
    evidence: bool = True
    raised: tuple[tuple[int, Failure], ...] = ()
    given: bool = False

    @property
    def agrees(self) -> bool:
        """Whether no layer differs, however little there was to compare."""
        return all(s.verdict.ok for s in self.stages)

    @property
    def verdict(self) -> Verdict:
        found = worst(s.verdict for s in self.stages)
        if found.kind == VALIDATED and not self.evidence:
            return unknown("nothing was compared: no result has an element that is not NaN")
        return found

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.verdict}"]
        width = max((len(s.name) for s in self.stages), default=0)
        lines += [f"  {s.name:{width}}  {s.verdict}" for s in self.stages]
        return "\n".join([*lines, *self.remarks()])

    __repr__ = __str__

    def remarks(self) -> list[str]:
        """What is said after the stages: on how many inputs the program is an error, and the witness."""
        found = [str(self.witness)] if self.witness else []
        if self.raised:
            number, error = self.raised[0]
            which = "on the given arguments" if self.given and number == 0 else f"on input {number}"
            found.insert(0, f"on {len(self.raised)} of {self.inputs} inputs the program is an error, {which}: {error}")
        return found

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name, "verdict": str(self.verdict), "exit_code": self.verdict.exit_code, "inputs": self.inputs,
            "stages": [{"name": s.name, "verdict": str(s.verdict), "laws": list(s.laws), "how": s.how, "seconds": s.seconds}
                       for s in self.stages],
            "raised": [{"input": number, "error": str(error)} for number, error in self.raised],
            "witness": self.witness.to_json() if self.witness else None, **self.extra,
        }  # fmt: skip


def compare(program: Program, layers: Sequence[Layer], inputs: Sequence[Arrays], *, shrink: bool = True) -> Report:
    """Run every layer on every input and compare with the denotation of `program`.

    A layer whose program is proved equal to the program before it, for all inputs, is PROVED (verify/validate.py); another
    one that agrees on all inputs is VALIDATED(n); a layer that raises what the meaning raises agrees.
    """
    meanings = [Meanings(program.inputs, xs) for xs in inputs]  # equal parts of the core programs are computed once
    expected = [outcome(lambda xs, m=m: m.run(program), ()) for m in meanings]
    agrees: set[Program | None] = {program}  # core programs that need no further run
    stages: list[StageReport] = []
    witness: Witness | None = None
    before: Program | None = None
    pending: list[StageReport] = []  # neither proved nor run: the verdict is that of the next layer
    for layer in layers:
        start = time.perf_counter()
        runs = () if layer.program in agrees or layer.run is None else zip(inputs, expected, meanings, strict=True)
        found = next((w for xs, e, m in runs if (w := _differs(layer, xs, e, m)) is not None), None)
        verdict: Verdict | None = None
        if found is not None:
            if witness is None:
                witness = explain(program, layer, shrink_inputs(program, layer, found) if shrink else found)
            verdict = refuted(f"output {found.output}{list(found.index)}")
        elif layer.program is not None:
            agrees.add(layer.program)
        link = _link(program, before, layer)
        if verdict is None:
            verdict = proved if link.proved else validated(len(inputs)) if layer.run is not None else None
        elif link.proved and all(s.verdict.ok for s in stages):
            link = link._replace(how="although it is proved equal: the validator or the meaning is wrong")
        before = layer.program
        made = StageReport(layer.name, verdict or proved, link.laws, time.perf_counter() - start, link.how)
        stages += [*(replace(s, verdict=made.verdict) for s in pending), made] if verdict is not None else []
        pending = [made] if verdict is None else []
    if pending:
        raise InternalError(f"layer {pending[0].name} is neither proved nor run, and no layer after it is")
    return Report(tuple(stages), witness, len(inputs), program.name, evidence=any(_says_something(program, e) for e in expected),
                  raised=tuple((k, e) for k, e in enumerate(expected) if isinstance(e, Failure)))  # fmt: skip


def compare_runs(program: Program, layers: Sequence[Layer], inputs: Sequence[Arrays]) -> Report | None:
    """The report of layers that all have the outcome of the first one on every input; None where one differs.

    The meaning is not computed and nothing is proved: `compare` says which layer is wrong.
    """
    first, *others = layers
    evidence = False
    for xs in inputs:
        assert first.run is not None
        expected = outcome(first.run, xs)
        evidence = evidence or _says_something(program, expected)
        if any(_differs(layer, xs, expected) is not None for layer in others):
            return None
    made = validated(len(inputs))
    return Report(tuple(StageReport(layer.name, made) for layer in layers), None, len(inputs), program.name, evidence=evidence)


def _link(program: Program, before: Program | None, layer: Layer) -> Link:
    """What is proved of a layer against the one before it."""
    if layer.program is program and before is None:
        return Link(layer.name, True, "the meaning that all others are compared with")
    if layer.program is None or before is None:
        return layer.proof() if layer.proof is not None else Link(layer.name, False, "")
    return program_link(layer.name, before, layer.program, laws=layer.laws)


def _says_something(program: Program, expected: Outcome) -> bool:
    return bool(program.checks) or isinstance(expected, Failure) or any(evidence(a, a) for a in expected)


def outcome(f: Callable[[Arrays], Arrays], inputs: Sequence[np.ndarray]) -> Outcome:
    """The outputs of f, or how it failed.  Only the errors that programs mean are outcomes; any other is raised."""
    try:
        return f([a.copy() for a in inputs])
    except RequireError as error:
        kind = next(c.__name__ for c in type(error).__mro__ if c.__module__ == "builtins")
        return Failure(kind, str(error))


def _differs(layer: Layer, inputs: Arrays, expected: Outcome, meanings: Meanings | None = None) -> Witness | None:
    assert layer.run is not None
    core = layer.program
    got = outcome(layer.run if core is None or meanings is None else lambda xs: meanings.run(core), inputs)
    if isinstance(expected, Failure) or isinstance(got, Failure):
        return None if expected == got else Witness(layer.name, inputs, 0, (), expected, got)
    if len(got) != len(expected):
        return Witness(layer.name, inputs, 0, (), f"{len(expected)} outputs", f"{len(got)} outputs")
    for k, (a, b) in enumerate(zip(expected, got, strict=True)):
        if a.shape != b.shape or a.dtype != b.dtype:
            return Witness(layer.name, inputs, k, (), f"{a.dtype}{list(a.shape)}", f"{b.dtype}{list(b.shape)}")
        difference = first_difference(a, b)
        if difference is not None:
            index, x, y = difference
            return Witness(layer.name, inputs, k, tuple(index), x, y)
    return None


def shrink_inputs(program: Program, layer: Layer, witness: Witness) -> Witness:
    """The witness with as many inputs as possible zero, keeping the layer wrong: whole tensors, then halves, then elements."""
    best = witness
    budget = 200
    for k in range(len(best.inputs)):
        block = best.inputs[k].size
        while block >= 1 and budget > 0:
            for start in range(0, best.inputs[k].size, block):
                trial = [a.copy() for a in best.inputs]
                flat = trial[k].reshape(-1)
                if budget <= 0 or not flat[start : start + block].astype(bool).any():
                    continue
                budget -= 1
                flat[start : start + block] = np.zeros((), flat.dtype)
                trial[k] = flat.reshape(trial[k].shape)
                smaller = _differs(layer, trial, outcome(lambda xs: run(program, xs), trial))
                if smaller is not None:
                    best = smaller
            block = block // 2 if block > 1 else 0
    return best


def explain(program: Program, layer: Layer, witness: Witness) -> Witness:
    """The witness with every intermediate value of its element, in the meaning and (for a core program) in the layer."""
    if not isinstance(witness.expected, np.generic):
        return witness
    source = _lines(program, program.outputs[witness.output], witness)
    target = _lines(layer.program, layer.program.outputs[witness.output], witness) if layer.program is not None else ()
    return Witness(witness.layer, witness.inputs, witness.output, witness.index, witness.expected, witness.got, source, target)


def _lines(p: Program, t: T, witness: Witness) -> tuple[Line, ...]:
    if len(witness.index) != len(t.shape):
        return ()
    return tuple(intermediates(p, t, witness.index, witness.inputs))


def _short(a: np.ndarray) -> str:
    """Type, shape and elements; of many elements that are mostly 0 the others, each with its index."""
    head = type_text(dtype(a.dtype), a.shape)
    if a.size > FEW and np.count_nonzero(a) <= FEW:
        others = [f"{list(map(int, i))} = {a[tuple(i)]}" for i in np.argwhere(a)]
        return f"{head} 0 but {', '.join(others)}" if others else f"{head} all 0"
    with np.printoptions(threshold=40, edgeitems=3, precision=9):
        return f"{head} " + np.array2string(a, separator=", ").replace("\n", "\n      ")
