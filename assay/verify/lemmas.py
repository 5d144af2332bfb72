"""What the ranges of opaque values rest on.

A fact speaks of values that arithmetic does not explain: a fold, its accumulators, a load of a let that folds, a result of
an extern.  It takes their ranges as given.  `lemmas` gives the facts that establish these ranges, until nothing is left but the
types of inputs and what externs declare:

    fold        its inits lie in the ranges of its accumulators, and so do its steps where the accumulators do;
                of one that grows: the init leaves room for all steps, and a step adds what the range allows for
    let, scan   the body lies in the range of the tensor
    require     so does its value, where its condition holds
    scatter     so does what is written; the base is read as any tensor
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from assay.core.index import Ix
from assay.core.lang import LOADS, E, Program, T, accumulators, as_index, bodies, walk
from assay.core.lang.expressions import FULL
from assay.core.lang.folds import growth
from assay.core.row import TABLE
from assay.verify.integers import Fact, Goal, split
from assay.verify.terms import Atom, brief


@dataclass(frozen=True)
class Lemma:
    """`fact` establishes a range of a value in the tensor `tensor`; `what` says of which."""

    what: str
    tensor: T
    fact: Fact


class Ranges:
    """The lemmas of one program."""

    def __init__(self, program: Program) -> None:
        self.homes: dict[E, list[tuple[T, E]]] = {}  # accumulator -> the folds that have it, and where
        for t in program.tensors:
            for e in walk(bodies(t)):
                if e.op == "fold":
                    for a in accumulators(e):
                        self.homes.setdefault(a, []).append((t, e))

    def of(self, t: T, atoms: Iterable[Atom]) -> Iterator[Lemma | str]:
        """What the ranges of the atoms, which a fact about `t` speaks of, rest on: lemmas, and assumptions in words."""
        for a in atoms:
            if isinstance(a, E) and a.dtype.is_integer and (a.lo, a.hi) != FULL[a.dtype]:
                yield from self._of(t, a)

    def _of(self, t: T, a: E) -> Iterator[Lemma | str]:
        if a.op in LOADS:
            yield from _of_tensor(a.attr[0])
        elif a.op == "acc":
            known = self.homes.get(a)
            if known is None:
                yield f"the range {a.lo}..{a.hi} of {brief(a)}"
            for home, fold in known or ():
                yield _of_fold(home, fold)
        elif a.op == "fold":
            yield _of_fold(t, a)
        elif a.op == "proj":
            yield _of_fold(t, a.args[0])
        elif a.op in TABLE:
            yield f"the interval rule of the row {a.op}"
            for x in a.args:
                if x.dtype.is_integer and (x.lo, x.hi) != FULL[x.dtype]:
                    yield Lemma(f"an argument of {a.op}", t, Fact(Goal(((as_index(x), x.lo, x.hi),))))
        else:
            yield f"the range {a.lo}..{a.hi} of {a.op}"


def _of_tensor(t: T) -> Iterator[Lemma | str]:
    if t.kind == "extern":
        yield f"the declared range {t.lo}..{t.hi} of extern {t.name}"
    elif t.kind == "scan":
        yield _of_fold(t, t.body)
    elif t.kind == "scatter":
        yield Lemma("what is written", t, Fact(Goal(((as_index(t.body), t.lo, t.hi),))))
        yield from _of_tensor(t.base) if (t.base.lo, t.base.hi) != FULL[t.dtype] else ()
    elif t.kind in ("let", "require"):
        conditions = frozenset(split(t.cond, True)) if t.kind == "require" else frozenset[tuple[E, bool]]()
        yield Lemma("the value", t, Fact(Goal(((as_index(t.body), t.lo, t.hi),)), conditions))


def _of_fold(t: T, fold: E) -> Lemma:
    half, n = len(fold.args) // 2, fold.attr.hi + 1
    ranges: list[tuple[Ix, int, int]] = []
    for init, step, a in zip(fold.args[:half], fold.args[half:], accumulators(fold), strict=True):
        if not a.dtype.is_integer:
            continue
        added = growth(step, a) if step.lo < a.lo or step.hi > a.hi else None
        if added is None:
            ranges += [(as_index(init), a.lo, a.hi), (as_index(step), a.lo, a.hi)]
        else:
            least, most = min(0, added[0]), max(0, added[1])
            ranges.append((as_index(init), a.lo - (n - 1) * least, a.hi - (n - 1) * most))
            ranges.append((as_index(step) - as_index(a), least, most))
    if half == 1 and fold.dtype.is_integer:
        ranges.append((as_index(fold.args[1]), fold.lo, fold.hi))
    return Lemma(f"the accumulators of a fold over {fold.attr.n}", t, Fact(Goal(tuple(ranges))))
