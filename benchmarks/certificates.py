"""Do others confirm what was proved?  Every index obligation, and every integer fact of translation validation, replayed.

    python -m benchmarks.certificates

A row a program: facts, how many z3 and cvc5 confirm on the SMT-LIB text, how many cvc5 does not decide within its resource
limit, how many enumeration and exact arithmetic confirm, disagreements.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

import assay
from assay.backends.cpp import scheduled
from assay.backends.schedule import choose
from assay.backends.schedule.machine import DEFAULTS
from assay.backends.target import host
from assay.cli.target import argument
from assay.core.lang import Program
from assay.examine import examine
from assay.transforms.pipeline import optimise
from assay.verify.bounds import prove
from assay.verify.certificate import Certificates, certificates, fact_certificates
from assay.verify.coverage import prove_schedule
from assay.verify.integers import recorded_facts
from assay.verify.recheck import Recheck, recheck
from assay.verify.validate import validate
from examples import document
from examples.digits import data
from examples.digits import model as digits
from examples.transformer import model as transformer
from tests.verify.cases import FALSE, TRUE
from tests.verify.patterns import PATTERNS
from tests.verify.size_cases import FALSE as SIZES_FALSE
from tests.verify.size_cases import TRUE as SIZES_TRUE


def validation(name: str, programs: list[Program]) -> Certificates:
    """The facts of proving each program equal to the one before it, and the loop nests of the last (on a fixed machine)."""
    final = programs[-1]
    with recorded_facts() as facts:
        if prove(final).verdict.ok:
            scheduled_program, plan = choose(final, host(), DEFAULTS[8])
            programs = [*programs, scheduled_program]
            facts.clear()  # the search asks too
            prove_schedule(scheduled(scheduled_program, plan))
        for source, target in pairwise(programs):
            validate(source, target)
    return fact_certificates(facts, name)


def examples() -> Iterator[tuple[Callable[..., Any], list[Any]]]:
    """The example functions with arrays of their shapes."""
    yield digits.model, [data.digits()[0], *digits.weights()]
    yield transformer.block, [transformer.tokens(), *transformer.weights()]
    rng = np.random.default_rng(0)
    for f, specs in document.ARGUMENTS.items():
        yield f, [argument(s, rng) for s in specs]


def groups() -> Iterator[tuple[str, Iterator[Certificates]]]:
    concrete = [*TRUE, *FALSE]
    yield "69 questions, obligations", (certificates(prove(c.program)) for c in concrete)
    yield "69 questions, validation", (validation(c.name, [s.program for s in optimise(c.program)]) for c in concrete)
    yield "49 questions for all sizes", (certificates(prove(c.program)) for c in [*SIZES_TRUE, *SIZES_FALSE])
    models = [examine(f, tuple(map(assay.as_tensor, arrays))) for f, arrays in examples()]
    yield "8 examples, obligations", (certificates(prove(e.final)) for e in models)
    yield "8 examples, validation", (validation(e.captured.graph.name, [s.program for s in e.stages]) for e in models)
    captured = [examine(p.function, tuple(p.arguments(small=False))) for p in PATTERNS]
    yield "78 patterns, obligations", (certificates(prove(e.final)) for e in captured)
    yield "78 patterns, validation", (validation(e.captured.graph.name, [s.program for s in e.stages]) for e in captured)


def total(name: str, found: list[Recheck]) -> str:
    rows = [r.total for r in found]
    fields = ("facts", "z3", "cvc5", "undecided", "exhaustive", "products", "unconfirmed")
    cells = {f: sum(getattr(r, f) for r in rows) for f in fields}
    wrong = sum(len(r.disagreements) for r in found)
    return f"{name:30} " + "  ".join(f"{k} {v}" for k, v in cells.items()) + f"  disagreements {wrong}"


def main() -> None:
    for name, made in groups():
        start = time.process_time()
        found = [recheck(c) for c in made]
        print(f"{total(name, found)}  ({time.process_time() - start:.1f} s)", flush=True)
        for r in found:
            for d in r.disagreements:
                print(f"  {r.name}: {d}")


if __name__ == "__main__":
    main()
