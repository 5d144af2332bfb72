"""One process, one mutant: every check of the compiler is run under it until one of them says that something is wrong.

    torch        the meaning of operators against PyTorch's (for mutants of it)
    audit        questions to the simplifier, the intervals and the prover, whose answers are found by evaluating every point
    proof        the obligations of random programs after each pass, and each pass against the program before it, for all inputs
    comparison   every stage of the same programs against the meaning, bit for bit, as they are run

What a check by tolerance would have said of the same programs and inputs is asked too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from assay.fuzz.mutants.mutant import Mutant, plant

if TYPE_CHECKING:
    import numpy as np

    from assay.fuzz.recipe import Recipe
    from assay.fuzz.worker import Judge
    from assay.verify.layered import Arrays

BATCH = 20  # programs between two looks at the other checks
AUDITED = 20  # rounds of questions in a batch
BACKEND = ("schedule", "nest", "emit", "cpp")  # stages that need a build
WEAK = 5  # programs that are judged by the rules with a tolerance too


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant.

    `by`         the check that caught it, "" where none did
    `part`       what that check named
    `programs`   how many were drawn until then
    `operators`  of the program that shows it, after shrinking (0 where no program was needed)
    `tolerated`  the rules of TOLERANCES that saw nothing wrong in the same programs on the same inputs
    """

    name: str
    by: str = ""
    part: str = ""
    programs: int = 0
    operators: int = 0
    text: str = ""
    tolerated: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def caught(self) -> bool:
        return bool(self.by)


# ------------------------------------------------------------------------------------------------ rules with a tolerance


def allclose(got: np.ndarray, expected: np.ndarray) -> bool:
    """|got - expected| <= 1e-3 + 1e-2 |expected|, NaN where NaN is expected."""
    import numpy as np

    with np.errstate(all="ignore"):
        close = np.allclose(_wide(got), _wide(expected), rtol=1e-2, atol=1e-3, equal_nan=True)
        return got.shape == expected.shape and bool(close)


def assert_close(got: np.ndarray, expected: np.ndarray) -> bool:
    """|got - expected| <= atol + rtol |expected| with the defaults of torch.testing.assert_close for the type."""
    import numpy as np

    rtol, atol = {"float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7)}.get(
        str(expected.dtype), (0.0, 0.0)
    )
    with np.errstate(all="ignore"):
        return (got.shape, got.dtype) == (expected.shape, expected.dtype) and bool(
            np.allclose(_wide(got), _wide(expected), rtol=rtol, atol=atol, equal_nan=True)
        )


def sums(got: np.ndarray, expected: np.ndarray) -> bool:
    """The sums of all elements are within 1 % of each other (both NaN, or the same infinity, count as equal)."""
    import numpy as np

    with np.errstate(all="ignore"):
        return bool(np.allclose(_wide(got).sum(), _wide(expected).sum(), rtol=1e-2, atol=1e-3, equal_nan=True))


def _wide(a: np.ndarray) -> np.ndarray:
    import numpy as np

    return a if a.dtype.kind in "iu" else a.astype(np.float64)


TOLERANCES: dict[str, Callable[[np.ndarray, np.ndarray], bool]] = {
    "allclose(1e-2, 1e-3)": allclose, "assert_close": assert_close, "sums": sums,
}  # fmt: skip


def tolerated(recipes: Sequence[Recipe], inputs: Sequence[Sequence[Arrays]]) -> tuple[str, ...]:
    """The rules by which the compiled results of all these programs are right; none where compiling or running them raises."""
    from assay.backends.cpp import compile_many
    from assay.backends.schedule import choose
    from assay.backends.target import host
    from assay.examine import examine
    from assay.fuzz.campaign import QUICK
    from assay.fuzz.recipe import tensors
    from assay.semantics.denote import run

    left = dict(TOLERANCES)
    try:
        made = [examine(r, tuple(tensors(xs[0]))) for r, xs in zip(recipes, inputs, strict=True)]
        chosen = [choose(e.final, host()) if all(t.size for t in e.final.tensors) else (e.final, None) for e in made]
        compiled = compile_many([p for p, _ in chosen], plans=[plan for _, plan in chosen], flags=QUICK)
        for examined, executable, arrays in zip(made, compiled, inputs, strict=True):
            for xs in arrays:
                expected = _outcome(lambda xs=xs, e=examined: run(e.program, xs))
                got = _outcome(lambda xs=xs, f=executable: list(f(xs)))
                if expected is None or got is None:
                    left = left if expected is got else {}
                    continue
                left = {n: rule for n, rule in left.items() if all(map(rule, got, expected))}
    except Exception:
        return ()
    return tuple(left)


def _outcome(f: Callable[[], Arrays]) -> Arrays | None:
    """The results, or None where a check of the program fails."""
    from assay.semantics.failure import RequireError

    try:
        return f()
    except RequireError:
        return None


# ------------------------------------------------------------------------------------------------ the checks


def _by_audit(first: int) -> Outcome | None:
    from assay.fuzz.audit import audit
    from assay.fuzz.oracle import draw_many_arrays

    found = audit(AUDITED, first)
    if found is None:
        return None
    recipes = drawn(0)
    return Outcome("", "audit", found.part, 0, 0, str(found), tolerated(recipes, draw_many_arrays(recipes, 0)))


def _by_torch(mutant: Mutant) -> Outcome | None:
    """Overloads of the module that the mutant is in; all of them where it is none of the operators'."""
    from importlib.util import find_spec

    if find_spec("torch") is None:
        return None
    from assay.fuzz.against_torch import compared, disagreements, pointwise, results

    module = ".".join(("assay", *mutant.file.removesuffix(".py").split("/")))
    for special, listed in ((0.0, compared()), (0.3, pointwise())):
        own = [o for o in listed if o.meaning.__module__ == module or "operators" not in module]
        for o in own:
            for text in disagreements(o, special=special):
                made = [found for x in own for found in results(x, special=special)]
                pairs = [pair for _, ours, theirs in made for pair in zip(ours, theirs, strict=False)]
                left = tuple(n for n, rule in TOLERANCES.items() if all(rule(a, b) for a, b in pairs))
                return Outcome("", "torch", "operators", 0, 1, text, left)
    return None


def drawn(first: int) -> list[Recipe]:
    """Programs first .. first + BATCH - 1: every second one computes more from what it has computed."""
    from assay.fuzz.generate import random_recipe

    return [random_recipe(s, joined=s % 2 == 1) for s in range(first, first + BATCH)]


def _by_programs(by: str, judge: Judge, first: int, trials: int, known: Sequence[int]) -> Outcome | None:
    """Programs first .. first + BATCH - 1, but for the `known` ones; of those judged wrong, one shows it, made small."""
    from assay.fuzz.campaign import QUICK
    from assay.fuzz.shrink import shrink

    judged = judge.judge(drawn(first), first, QUICK)
    wrong = [(k, j) for k, j in enumerate(judged) if not j.ok and not j.unsupported and first + k not in known]
    if not wrong:
        return None
    k, one = wrong[0]
    if by == "comparison" and one.stage not in BACKEND:
        judge = type(judge)("reference")  # builds nothing
    small = shrink(one, judge, trials=trials, flags=QUICK)
    shown = str(small.report.witness) if small.report is not None else small.error
    return Outcome("", by, small.stage, first + k + 1, len(small.recipe.calls), f"{small.recipe}\n{shown}",
                   tolerated(*zip(*((j.recipe, j.inputs) for _, j in wrong[:WEAK]), strict=True)))  # fmt: skip


def control(programs: int) -> list[int]:
    """The programs that are judged wrong without any mutant: a defect, or a proof that is not found.  They say nothing of one."""
    from assay.fuzz.campaign import QUICK
    from assay.fuzz.mutants.proofs import Proofs
    from assay.fuzz.worker import Judge

    found: set[int] = set()
    for first in range(0, programs, BATCH):
        for judge in (Proofs(), Judge()):
            judged = judge.judge(drawn(first), first, QUICK)
            found.update(first + k for k, j in enumerate(judged) if not j.ok and not j.unsupported)
    return sorted(found)


def hunt(mutant: Mutant, programs: int, *, known: Sequence[int] = (), trials: int = 80) -> Outcome:
    """Run this process as the mutant and look for what is wrong, until something is or `programs` have been drawn.

    `known` programs are wrong without it (see `control`).
    """
    start = time.perf_counter()
    plant(mutant)
    try:
        found = _search(mutant, programs, trials, known)
    except Exception as error:  # a check that raises has noticed too
        where = _where(error)
        found = Outcome("", "error", where, 0, 0, f"{type(error).__name__}: {error}")
    found = found or Outcome("", programs=programs)
    return replace(found, name=mutant.name, seconds=time.perf_counter() - start)


def _search(mutant: Mutant, programs: int, trials: int, known: Sequence[int]) -> Outcome | None:
    from assay.fuzz.mutants.proofs import Proofs
    from assay.fuzz.worker import Judge

    if mutant.part == "operators" and (found := _by_torch(mutant)) is not None:
        return found
    proofs, runs = Proofs(), Judge()
    for first in range(0, programs, BATCH):
        found = (
            _by_audit(first // BATCH * AUDITED)
            or _by_programs("proof", proofs, first, trials, known)
            or _by_programs("comparison", runs, first, trials, known)
        )
        if found is not None:
            return found
    return None


def _where(error: BaseException) -> str:
    """The innermost frame of Assay's own that raised."""
    import traceback

    frames = [f for f in traceback.extract_tb(error.__traceback__) if "/assay/" in f.filename and "/fuzz/" not in f.filename]
    return frames[-1].filename.partition("/assay/")[2] if frames else ""
