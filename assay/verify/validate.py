"""Translation validation: does a program compute the bits of another one, for all inputs, and fail where it fails?

    validate(source, target)      every output, and every check, of the target against the source

Outputs are equal at every point (verify/equal.py), under the assumption that all checks passed; so both programs have
the same values wherever neither is an error.  Of the checks, in their order:

    each check of the target is one of the source: the same condition, value and message at every point
    a check of one program alone is proved to hold always
    a check reads no values that only a later check guards

so the first check that fails is the same in both, and so is the error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from assay.core.index import same_shape
from assay.core.lang import Program, T, is_const, order
from assay.verify import verdict
from assay.verify.equal import STEPS, Comparator, is_empty
from assay.verify.questions import EQUAL, Answer, Law, Laws, Lemma, Mismatch, Pair
from assay.verify.verdict import Verdict


@dataclass(frozen=True)
class Validation:
    """What was proved of one step from a program to another.

    laws       of scalar functions that were used and change bits (none in a bitwise step)
    exact      laws that were used and hold bit for bit
    dropped    checks that were dropped because they always hold
    reason     why it was not proved; `where` names the output or check
    questions  how many comparisons it took
    """

    laws: Laws = EQUAL
    exact: Laws = EQUAL
    dropped: tuple[T, ...] = ()
    reason: str = ""
    where: str = ""
    questions: int = 0
    mismatch: Mismatch | None = field(default=None, compare=False)

    @property
    def proved(self) -> bool:
        return not self.reason

    @property
    def verdict(self) -> Verdict:
        return verdict.proved if self.proved else verdict.unknown(f"{self.where}: {self.reason}" if self.where else self.reason)

    @property
    def law_names(self) -> tuple[str, ...]:
        """The laws that were used and change bits, as they are printed."""
        return tuple(sorted(map(str, self.laws)))

    def __str__(self) -> str:
        """for all inputs; max on f32 is associative, bit for bit; ... or why not."""
        if not self.proved:
            return f"not proved: {self.where}: {self.reason}"
        parts = ["the same program" if not self.questions else "for all inputs", *sorted(map(str, self.laws | self.exact))]
        parts += [f"{len(self.dropped)} checks dropped, which always hold"] if self.dropped else []
        return "; ".join(parts)


def validate(source: Program, target: Program, *, laws: frozenset[str] = frozenset(), rlimit: int | None = None,
             steps: int = STEPS) -> Validation:  # fmt: skip
    """The target against the source.

    laws     names of the laws that may be used although they change bits (those of the contract of the transformation)
    rlimit   z3 resource units for a question (None: integers.RLIMIT); 0: z3 is neither asked nor loaded
    steps    comparisons after which the answer is "not proved"
    """
    if source is target:
        return Validation()
    return _Validator(source, target, Comparator(laws, rlimit=rlimit, steps=steps)).run()


class _Validator:
    def __init__(self, source: Program, target: Program, comparator: Comparator) -> None:
        self.source, self.target, self.comparator = source, target, comparator
        self.laws: set[Law] = set()
        self.dropped: list[T] = []

    def run(self) -> Validation:
        s, t = self.source, self.target
        if s.inputs != t.inputs or len(s.outputs) != len(t.outputs):
            return self._against("the program", Mismatch("inputs or outputs differ"))
        if set(s.guards) != set(t.guards):
            return self._against("the program", Mismatch("its guards admit other sizes"))
        for k, (a, b) in enumerate(zip(t.outputs, s.outputs, strict=True)):
            if not same_shape(a.shape, b.shape) or a.dtype is not b.dtype:
                return self._against(f"output {k}", Mismatch(f"{a!r} in the place of {b!r}"))
            answer = self.comparator.ask(Lemma(a, b, tuple(range(len(a.shape)))))
            if isinstance(answer, Mismatch):
                return self._against(f"output {k}", answer)
            self.laws |= answer
        fault = self._checks()
        if fault is not None:
            return self._against(*fault)
        exact = frozenset(x for x in self.laws if x.exact)
        return Validation(frozenset(self.laws) - exact, exact, tuple(self.dropped), questions=self.comparator.asked)

    def _against(self, where: str, mismatch: Mismatch) -> Validation:
        return Validation(reason=str(mismatch), where=where, questions=self.comparator.asked, mismatch=mismatch)

    # -------------------------------------------------------------------------------------------- checks

    def _checks(self) -> tuple[str, Mismatch] | None:
        mine, yours = self.target.checks, self.source.checks
        if mine == yours:
            return None
        for p, name in ((self.source, "the source"), (self.target, "the target")):
            if (late := _guarded_later(p)) is not None:
                return f"check {late!r} of {name}", Mismatch("it reads what only a later check guards", late)
        at = 0
        for t in mine:
            failed = Mismatch("no check of the source is equal to it, after those before it", t)
            for k in range(at, len(yours)):
                answer = self._same_check(t, yours[k])
                if not isinstance(answer, Mismatch):
                    self.laws |= answer
                    gone = self._dropped(yours[at:k])
                    if gone is not None:
                        return gone
                    at = k + 1
                    break
                failed = answer
            else:
                if not self._always(t):
                    return f"check {t.message!r}", failed
        return self._dropped(yours[at:])

    def _same_check(self, t: T, s: T) -> Answer:
        """Whether the two checks are the same error on the same inputs, given that those before them pass."""
        if t is s:
            return EQUAL
        if t.message != s.message or not same_shape(t.shape, s.shape) or t.dtype is not s.dtype:
            return Mismatch("messages, types or shapes of checks differ", t, s)
        if is_empty(t.shape):
            return EQUAL
        laws = EQUAL
        for a, b in ((t.cond, s.cond), (t.body, s.body)):
            answer = self.comparator.ask(Pair(a, b, self.comparator.nowhere))
            if isinstance(answer, Mismatch):
                return answer
            laws |= answer
        return laws

    def _dropped(self, checks: Sequence[T]) -> tuple[str, Mismatch] | None:
        for s in checks:
            if not self._always(s):
                return f"check {s.message!r}", Mismatch("it was dropped, and is not proved to hold always", s)
            self.dropped.append(s)
        return None

    def _always(self, t: T) -> bool:
        return is_empty(t.shape) or is_const(t.cond, True) or self.comparator.nowhere.truth(t.cond) is True


def _guarded_later(p: Program) -> T | None:
    """A check that reads a check which does not come before it."""
    before: set[T] = set()
    for t in p.checks:
        if any(r.kind == "require" and r is not t and r not in before for r in order((t,))):
            return t
        before.add(t)
    return None


__all__ = ["Validation", "validate"]
