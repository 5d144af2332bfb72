"""Do two expressions have the same bits for all inputs?

Nodes are interned, so what is the same object is equal.  Where two nodes differ, one of these rules must apply; scalar functions
and inputs stay uninterpreted, so equality means equal bits whatever the inputs are.  Only facts about indices and conditions are
computed with (verify/context.py).

    select      the context decides the condition, or both arms are compared under it
    integers    equal as index arithmetic
    load        one tensor at indices that are equal; two tensors with `lemma`: t[order(i)] == s[i] at every point, proved once;
                otherwise a let (or require) is replaced by its body
    fold        as many steps, equal inits, equal steps for one loop variable and the same accumulators: no law is used.
                Folds of other lengths, and sums that are grouped otherwise: verify/regroup.py
    scan        the folds in all of their states (`States`), so none that is grouped otherwise
    row         the same row of equal arguments; a named row may be replaced by its composition
    otherwise   equal only where the context contradicts itself: the point is never reached

The denotation is total: a load outside of its tensor is 0.  A let is replaced by its body only where the indices are proved
to be inside; elsewhere by select(inside, body, 0).  A require is a let whose condition may be assumed (validate.py compares
the checks).

Every rule is a generator that yields the questions it needs answered: programs are deep, and Python's stack is not.
An answer is remembered when it is there, and serves every context that knows more; nothing is assumed while a question is open,
so a failed attempt leaves nothing behind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

from assay.core import dtypes as dt
from assay.core.errors import UserError
from assay.core.index import Ix, Val, Var, ix, rewrite, same_shape, value, values, variable
from assay.core.lang import (
    LOADS,
    E,
    T,
    accumulators,
    as_index,
    axes,
    const,
    exactly,
    expand,
    index,
    op,
    select,
    substitute,
    substitute_all,
)
from assay.core.lang import acc as accumulator
from assay.core.lang import load as load_
from assay.core.row import MARKS
from assay.verify.context import Context, constant_of
from assay.verify.integers import split
from assay.verify.leaves import leaves, with_leaves
from assay.verify.questions import EQUAL, Answer, Law, Laws, Lemma, Mismatch, Pair, Question, Rule, States
from assay.verify.skeleton import form, inputs, skeleton
from assay.verify.terms import interpreted

WEIGHT = 60_000  # sum over all questions of (hypotheses in force)^2, which make them dear: as STEPS
STEPS = 200_000  # questions after which the answer is "not proved": a bound that no busy machine changes
RESTATED = 3  # lets in one another that a condition is traced through
DEFINED = ("let", "require")


class Comparator:
    """Answers questions about two programs, `a` sides from one, `b` sides from the other, and remembers them.

    allowed   names of the laws that may be used although they change bits; laws that hold bit for bit always may
    """

    def __init__(self, allowed: frozenset[str] = frozenset(), *, rlimit: int | None = None, steps: int = STEPS) -> None:
        self.allowed, self.steps = allowed, steps
        self.nowhere = Context(rlimit=rlimit)
        self.asked = self._weight = 0
        self._known: dict[Question, Answer] = {}
        self._proved: dict[tuple[E, E], list[tuple[Context, Laws]]] = {}
        self._pending: set[Question] = set()
        self._bodies: dict[E, tuple[E, tuple[tuple[E, bool], ...]]] = {}

    def ask(self, question: Question) -> Answer:
        """The answer, by as many further questions as it takes."""
        stack: list[tuple[Question, Rule]] = []
        answer = self._open(question, stack)
        while stack:
            asked, rule = stack[-1]
            try:
                further = next(rule) if answer is None else rule.send(answer)
            except StopIteration as done:
                stack.pop()
                self._pending.discard(asked)
                answer = self._known[asked] = done.value
                if isinstance(asked, Pair) and not isinstance(answer, Mismatch):
                    self._proved.setdefault((asked.a, asked.b), []).append((asked.context, answer))
                continue
            answer = self._open(further, stack)
        assert answer is not None
        return answer

    def _open(self, question: Question, stack: list[tuple[Question, Rule]]) -> Answer | None:
        """The answer where it is known, else None, and the rule that finds it is on the stack."""
        if question[0] is question[1] and (not isinstance(question, Lemma) or _is_identity(question.order)):
            return EQUAL
        found = self._known.get(question)
        if found is None and isinstance(question, Pair):  # what holds under some of the hypotheses holds under all
            proved = self._proved.get((question.a, question.b), ())
            found = next((laws for c, laws in proved if c.hypotheses <= question.context.hypotheses), None)
        if found is not None:
            return found
        self.asked += 1
        self._weight += len(question.context.hypotheses) ** 2 if isinstance(question, Pair) else 0
        if self.asked > self.steps or self._weight > WEIGHT:
            return Mismatch(f"not decided within {self.asked} questions")
        if question in self._pending:
            return Mismatch("it would follow from itself")
        self._pending.add(question)
        stack.append((question, self._rule(question)))
        return None

    def _rule(self, question: Question) -> Rule:
        if isinstance(question, Pair):
            return self._pair(*question)
        if isinstance(question, Lemma):
            return self._lemma(*question)
        from assay.verify.regroup import states

        return states(self, *question, self.nowhere)

    def law(self, name: str, function: str, dtype: dt.DType, *, exact: bool) -> Answer:
        """The law, where it may be used."""
        if exact or name in self.allowed:
            return frozenset((Law(name, function, dtype.name, exact),))
        return Mismatch(f"needs {name} of {function} on {dtype.name}, which changes bits and which the contract does not name")

    # -------------------------------------------------------------------------------------------- expressions

    def _pair(self, a: E, b: E, c: Context) -> Rule:
        if a.dtype is not b.dtype:
            return Mismatch("types differ", a, b, c)
        if a.op in MARKS or b.op in MARKS:  # it marks a value for derivatives, and is that value
            return (yield Pair(a.args[0] if a.op in MARKS else a, b.args[0] if b.op in MARKS else b, c))
        if a.op == "select" or b.op == "select":
            return (yield from self._select(a, b, c))
        if a.dtype.is_integer:
            i, j = as_index(a), as_index(b)
            if i is j:
                return EQUAL
            if not (_is_value(i, a) and _is_value(j, b)):
                answer = yield from self.indices(i, j, c)
                if not isinstance(answer, Mismatch):
                    return answer
        answer = yield from self._by_form(a, b, c)
        if not isinstance(answer, Mismatch):
            return answer
        if not a.dtype.is_float and (known := (self._with_constants(a, c), self._with_constants(b, c))) != (a, b):
            return (yield Pair(*known, c))
        if not a.dtype.is_float and interpreted(a) and interpreted(b) and self._equal_integers(a, b, c):
            return EQUAL
        if c.is_unreachable():
            return EQUAL
        return answer

    def _equal_integers(self, a: E, b: E, c: Context) -> bool:
        if a.dtype.is_integer:
            difference = as_index(a) - as_index(b)
            if dt.i64.lo <= difference.lo and difference.hi <= dt.i64.hi:  # else it is no index, and lets in it are not inlined
                return c.is_zero(difference)
        return c.truth(op("eq", a, b)) is True

    def _by_form(self, a: E, b: E, c: Context) -> Rule:
        if a.op in LOADS or b.op in LOADS:
            return (yield from self._loads(a, b, c))
        if a.op == b.op == "fold":
            from assay.verify.regroup import folds

            return (yield from folds(self, a, b, c))
        if a.op == "acc" == b.op and a.attr[:2] == b.attr[:2]:
            return EQUAL
        if a.op == b.op and a.args and a.attr == b.attr and len(a.args) == len(b.args):
            answer = yield from self.each(zip(a.args, b.args, strict=True), c)
            if not isinstance(answer, Mismatch):
                return answer
        else:
            answer = Mismatch("two different values", a, b, c)
        for x, y in ((expand(a), b), (a, expand(b))):
            if (x is not a or y is not b) and a.op != b.op:
                return (yield Pair(x, y, c))
        from assay.verify.regroup import regrouped

        return (yield from regrouped(self, a, b, c, answer))

    def each(self, pairs: Iterator[tuple[E, E]], c: Context) -> Rule:
        """All of the pairs, with all their laws."""
        laws = EQUAL
        for x, y in pairs:
            answer = yield Pair(x, y, c)
            if isinstance(answer, Mismatch):
                return answer
            laws |= answer
        return laws

    def _select(self, a: E, b: E, c: Context) -> Rule:
        holds = (yield from self._decided(a, c)), (yield from self._decided(b, c))
        if a.op == b.op and (holds[0] is None) != (holds[1] is None):  # that the conditions are equal decides the other too
            answer = yield Pair(a.args[0], b.args[0], c)
            if not isinstance(answer, Mismatch):
                k = 2 - int(bool(holds[0]) or bool(holds[1]))
                arms = yield Pair(a.args[k], b.args[k], c)
                return arms if isinstance(arms, Mismatch) else answer | arms
        if holds != (None, None):
            one, other = (x if h is None else x.args[2 - int(h)] for x, h in zip((a, b), holds, strict=True))
            return (yield Pair(one, other, c))
        opened = [self.meaning(x, c) for x in (a, b)]  # a load of a let may be a select too: conditions are compared then
        (x, under), (y, more) = opened
        if x is not a or y is not b:
            return (yield Pair(x, y, under.all_of(more.hypotheses)))
        if expand(a) is not a or expand(b) is not b:  # a named row is one too
            return (yield Pair(expand(a), expand(b), c))
        condition = (a if a.op == "select" else b).args[0]
        same = {condition}
        laws = EQUAL
        if a.op == b.op and b.args[0] is not condition:
            answer = yield Pair(condition, b.args[0], c)
            if not isinstance(answer, Mismatch):
                same.add(b.args[0])
                laws |= answer
        stated = set(same)
        for s in same if c.hypotheses else ():  # in the words of what is known: two halves of one fact must meet
            stated.add((yield from self._restated(s, c)))
        for holds in (True, False):
            one, other = (x.args[1 if holds else 2] if x.op == "select" and x.args[0] in same else x for x in (a, b))
            under = c
            for s in sorted(stated, key=lambda s: s.id):
                under = under.given(s, holds=holds)
            answer = yield Pair(one, other, under)
            if isinstance(answer, Mismatch):
                return answer
            laws |= answer
        return laws

    def _decided(self, e: E, c: Context) -> Generator[Question, Answer, bool | None]:
        """Whether the condition of a select holds; None where that is not known, or `e` is none."""
        if e.op != "select":
            return None
        holds = c.truth(e.args[0])
        if holds is None and e.args[0].reads:
            restated = yield from self._restated(e.args[0], c)
            holds = c.truth(restated) if restated is not e.args[0] else None
        return holds

    def _restated(self, condition: E, c: Context) -> Generator[Question, Answer, E]:
        """The condition with its loads and folds replaced by equal ones, those first of which the hypotheses speak; what the
        hypotheses do not speak of, and what is constant, by what it means."""
        said = (x for h, _ in sorted(c.hypotheses, key=lambda h: h[0].id) for x in leaves(h))
        stated = dict.fromkeys(sorted(said, key=_width))  # an index may need the bounds of a checked value
        for _ in range(RESTATED):
            replaced = self._constants(condition, c)
            known = dict(stated)
            for x in leaves(condition):
                for y in known if x not in replaced else ():
                    if x is y:
                        break
                    if _may_be_equal(x, y) and not isinstance((yield Pair(x, y, c)), Mismatch):
                        replaced[x] = y
                        break
                else:
                    known[x] = None
            for x in known if stated and not replaced else ():
                if x not in stated and (body := self.meaning(x, c)[0]) is not x:
                    replaced[x] = body
            if not replaced:
                break
            try:
                condition = with_leaves(condition, replaced)
            except UserError:  # without the bounds that a checked value has, an index does not fit its type
                break
        return condition

    # -------------------------------------------------------------------------------------------- indices

    def indices(self, i: Ix, j: Ix, c: Context) -> Rule:
        """Is i = j?  Values that are read in them are compared as expressions, the most alike first."""
        laws = EQUAL
        for alike in (True, False):
            mine = [v for v in dict.fromkeys(values(i)) if v not in set(values(j))]
            for v in mine:
                for w in sorted(dict.fromkeys(values(j)), key=lambda w: form(w.e) != form(v.e)):
                    if v.e.dtype is w.e.dtype and (skeleton(v.e) == skeleton(w.e)) is alike:
                        answer = yield Pair(v.e, w.e, c)
                        if not isinstance(answer, Mismatch):
                            laws |= answer
                            j = rewrite(j, _replacing(w, v))
                            break
            if i is j or c.is_zero(i - j):
                return laws
            if not mine:
                break
        return Mismatch("indices differ", i, j, c)

    def _all_indices(self, idx: tuple[Ix, ...], jdx: tuple[Ix, ...], c: Context) -> Rule:
        laws = EQUAL
        for i, j in zip(idx, jdx, strict=True):
            answer = yield from self.indices(i, j, c)
            if isinstance(answer, Mismatch):
                return answer
            laws |= answer
        return laws

    # -------------------------------------------------------------------------------------------- loads

    def _loads(self, a: E, b: E, c: Context) -> Rule:
        answer: Answer = Mismatch("two different values", a, b, c)
        last: list[Rule] = []  # tried where nothing else succeeds
        if a.op in LOADS and b.op in LOADS:
            (t, idx), (s, jdx) = a.attr, b.attr
            if t is s:
                answer = yield from self._all_indices(idx, jdx, c)
                if not isinstance(answer, Mismatch):
                    return answer
            elif not is_view(t) and not is_view(s) and t.dtype is s.dtype and _same_extents(t, s):
                attempt = self._two_tensors(t, idx, s, jdx, c)
                if t.kind in DEFINED and s.kind in DEFINED and tensor_skeleton(t) != tensor_skeleton(s):
                    last.append(attempt)
                else:
                    answer = yield from attempt
                    if not isinstance(answer, Mismatch):
                        return answer
            both = is_view(t) == is_view(s)
            opened = [self.meaning(x, c) if both or is_view(x.attr[0]) else (x, c) for x in (a, b)]
        else:
            opened = [self.meaning(x, c) for x in (a, b)]
        (x, under), (y, more) = opened
        if x is a and y is b:
            return (yield Pair(expand(a), expand(b), c)) if expand(a) is not a or expand(b) is not b else answer
        answer = yield Pair(x, y, under.all_of(more.hypotheses))
        for attempt in last if isinstance(answer, Mismatch) else ():
            found = yield from attempt
            answer = answer if isinstance(found, Mismatch) else found
        return answer

    def _two_tensors(self, t: T, idx: tuple[Ix, ...], s: T, jdx: tuple[Ix, ...], c: Context) -> Rule:
        """t[idx] = s[jdx] by the lemma that the tensors are equal, up to an order of their axes."""
        answer: Answer = Mismatch("two different tensors", t, s, c)
        for order in orders(t, idx, s, jdx):
            answer = yield Lemma(t, s, order)
            if isinstance(answer, Mismatch):
                continue
            laws = answer
            answer = yield from self._all_indices(idx, tuple(jdx[k] for k in order), c)
            if not isinstance(answer, Mismatch):
                return laws | answer
        return answer

    def meaning(self, e: E, c: Context) -> tuple[E, Context]:
        """The load as the body of its let, and the context with what a require says; `e` itself where there is no body."""
        if e.op not in LOADS:
            return e, c
        t, idx = e.attr
        outside = [(i, n) for i, n in zip(idx, t.shape, strict=True) if not c.within(i, 0, n - 1)]
        if any(i.lo < dt.i64.lo or i.hi > dt.i64.hi for i, _ in outside):  # no condition of a program says where it is inside
            return e, c
        if any(c.truth(inside(i, n)) is False for i, n in outside):
            return const(0, e.dtype), c
        if t.kind not in DEFINED:
            return (e, c) if e.op == "load" or outside else (load_(t, *idx), c)
        found = self._bodies.get(e)
        if found is None:
            env: dict[Var | E, Ix | E] = dict(zip(axes(t.shape), idx, strict=True))
            roots = (t.body,) if t.kind == "let" else (t.body, t.cond)
            body, *facts = substitute_all(roots, env)
            found = self._bodies[e] = body, tuple(h for f in facts for h in split(f, True))
        body, facts = found
        if facts and not outside:
            c = c.all_of(facts)
        for i, n in outside:
            body = select(inside(i, n), body, const(0, e.dtype))
        return body, c

    def _with_constants(self, e: E, c: Context) -> E:
        """The expression with the values of the loads that have one value."""
        known = self._constants(e, c)
        return with_leaves(e, known) if known else e

    def _constants(self, e: E, c: Context) -> dict[E, E]:
        return {x: value for x in leaves(e) if (value := self._constant(x, c)) is not None}

    def _constant(self, e: E, c: Context) -> E | None:
        """A load of what has one value everywhere, or at this index (a pad), or of a view of such, as that value."""
        while e.op in LOADS and (seen := self.meaning(e, c)[0]) is not e and (is_view(e.attr[0]) or seen.op == "const"):
            e = seen
        if e.op == "const":
            return e
        if e.op in LOADS and not e.sized and not inputs(e.attr[0]) and (found := constant_of(e.attr[0])) is not None:
            (t, indices) = e.attr
            return found if all(c.within(i, 0, n - 1) for i, n in zip(indices, t.shape, strict=True)) else None
        return None

    # -------------------------------------------------------------------------------------------- tensors

    def _lemma(self, t: T, s: T, order: tuple[int, ...]) -> Rule:
        if t.dtype is not s.dtype or not same_shape(t.shape, [s.shape[k] for k in order]):
            return Mismatch("types or shapes differ", t, s)
        if is_empty(t.shape):
            return EQUAL
        c = self.nowhere
        if t.kind in DEFINED or s.kind in DEFINED:
            at = [ix(v) for v in axes(s.shape)]
            there = tuple(at[k] for k in order)
            b = s.body if s.kind in DEFINED else load_(s, *at)
            if t.kind in DEFINED:
                a = t.body if _is_identity(order) else substitute(t.body, dict(zip(axes(t.shape), there, strict=True)))
            else:
                a = load_(t, *there)
            return (yield Pair(a, b, c))
        if t.kind != s.kind or not _is_identity(order):
            return Mismatch("two different tensors", t, s)
        if t.kind == "scan":
            same = (t.k, t.axis) == (s.k, s.axis)
            return (yield States(t.body, s.body)) if same else Mismatch("scans of different axes", t, s)
        if t.kind == "extern":
            return (yield from self._externs(t, s))
        if t.kind == "scatter":
            return (yield from self._scatters(t, s, c))
        return Mismatch("two different inputs", t, s)

    def _externs(self, t: T, s: T) -> Rule:
        one, other = ((x.name, exactly(x.params), x.output, len(x.args), x.lo, x.hi) for x in (t, s))
        if one != other:
            return Mismatch("different reference functions", t, s)
        laws = EQUAL
        for x, y in zip(t.args, s.args, strict=True):
            answer = yield Lemma(x, y, tuple(range(len(x.shape))))
            if isinstance(answer, Mismatch):
                return answer
            laws |= answer
        return laws

    def _scatters(self, t: T, s: T, c: Context) -> Rule:
        if t.combine != s.combine or not same_shape(t.domain, s.domain):
            return Mismatch("scatters over different domains", t, s)
        base = yield Lemma(t.base, s.base, tuple(range(len(t.shape))))
        if isinstance(base, Mismatch):
            return base
        if is_empty(t.domain):
            return base
        where = yield from self._all_indices(t.indices, s.indices, c)
        if isinstance(where, Mismatch):
            return where
        what = yield Pair(t.body, s.body, c)
        return what if isinstance(what, Mismatch) else base | where | what


# ------------------------------------------------------------------------------------------------ shared with regroup.py


def steps_at(node: E, v: Var, bounds: tuple[tuple[int, int], ...]) -> tuple[E, ...]:
    """The steps of the fold with the loop variable `v` and accumulators that lie in `bounds`."""
    half = len(node.args) // 2
    own = accumulators(node)
    new = tuple(accumulator(v, k, a.dtype, b) for k, (a, b) in enumerate(zip(own, bounds, strict=True)))
    if v is node.attr and new == own:
        return node.args[half:]
    return substitute_all(node.args[half:], {node.attr: ix(v), **dict(zip(own, new, strict=True))})


def loop_variable(a: E, b: E, c: Context, n: int) -> Var:
    """A variable for both folds that nothing around them speaks of."""
    level = max(a.attr.level, b.attr.level)
    while (v := variable(level, n)) in c.free:
        level += 1
    return v


def inside(i: Ix, n: int) -> E:
    """0 <= i < n."""
    low = op("le", const(0, dt.i64), index(i))
    return op("and", low, op("lt", index(i), const(n, dt.i64)))


def is_empty(shape: Sequence[int]) -> bool:
    """Whether an extent is 0, for all sizes."""
    return any(type(n) is int and n == 0 for n in shape)


def is_view(t: T) -> bool:
    """Whether the let only re-indexes another tensor."""
    return t.kind == "let" and t.body.op in LOADS


def orders(t: T, idx: tuple[Ix, ...], s: T, jdx: tuple[Ix, ...]) -> Iterator[tuple[int, ...]]:
    """Orders of the axes of `s` that give the shape of `t`, those that make the indices equal first: at most two."""
    rank = len(t.shape)
    left = list(range(rank))
    found: list[int] = []
    for i, n in zip(idx, t.shape, strict=True):
        k = next((k for k in left if jdx[k] is i and same_shape((s.shape[k],), (n,))), None)
        if k is None:
            break
        found.append(k)
        left.remove(k)
    identity = tuple(range(rank))
    if len(found) == rank and tuple(found) != identity:
        yield tuple(found)
    if same_shape(t.shape, s.shape):
        yield identity


def _same_extents(t: T, s: T) -> bool:
    """Whether the tensors have the same extents in some order."""
    return Counter(map(repr, t.shape)) == Counter(map(repr, s.shape))


def _may_be_equal(x: E, y: E) -> bool:
    """Whether the two leaves look alike.  Two elements of one tensor hardly ever are equal."""
    of_one = x.op in LOADS and y.op in LOADS and x.attr[0] is y.attr[0]
    return x.dtype is y.dtype and not of_one and skeleton(x) == skeleton(y)


def _width(e: E) -> int:
    return e.hi - e.lo if e.dtype.is_integer else 0


def tensor_skeleton(t: T) -> Any:
    return skeleton(load_(t, *(ix(v) for v in axes(t.shape))))


def _is_identity(order: tuple[int, ...]) -> bool:
    return order == tuple(range(len(order)))


def _is_value(i: Ix, e: E) -> bool:
    """Whether the index is just the value of `e`."""
    return len(i.terms) == 1 and isinstance(a := i.terms[0][0], Val) and a.e is e


def _replacing(old: Val, new: Val) -> Callable[[Var | Val], Ix]:
    def atom(a: Var | Val) -> Ix:
        if isinstance(a, Var):
            return ix(a)
        return value(new.e) if a is old else value(a.e)

    return atom


__all__ = [
    "DEFINED", "Comparator", "inside", "is_empty", "is_view", "loop_variable", "steps_at",
]  # fmt: skip
