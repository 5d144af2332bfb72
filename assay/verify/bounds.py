"""What a program owes before it may be emitted, and the proof of it.

    bounds   each plain load and each index of a scatter is in bounds on its path; each require that checks an index
             is proved to hold always, or kept as the run-time check it is
    check    the other requires (division by zero, ...): proved to hold always, or kept
    range    a require's condition implies the range that it states; owed only where that is not proved
    width    every index and flattened address fits int32, asked without the guards (masked lanes compute addresses
             too), else int64
    sign     every // in an index has a dividend >= 0, so that C's truncating division is right, else it is kept as a
             floor division

A load under selects owes its bounds only where their conditions hold; emitted code evaluates both arms, so such a load is
reported as guarded.  How each fact is decided: verify/integers.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from assay.core import dtypes as dt
from assay.core.errors import Unsound
from assay.core.index import Atom as IndexAtom
from assay.core.index import Div, Ix, Quotient, Size, Val, Var, affine, divisions, from_atom, ix, values, within
from assay.core.lang import LOADS, E, Program, T, as_index, axes, bodies, walk
from assay.core.lang.bind import STATED
from assay.core.text import Names, domain, sum_text
from assay.core.wording import counted
from assay.semantics.failure import WRAPPED
from assay.verify import verdict
from assay.verify.integers import END, Answer, Fact, Goal, Hypothesis, decide, magnitude, split, value_at
from assay.verify.terms import Atom, brief
from assay.verify.verdict import Verdict

Path: TypeAlias = "frozenset[Hypothesis]"

INT32 = -(1 << 31), (1 << 31) - 1
INT64 = -(1 << 63), (1 << 63) - 1
OF_SIZES = re.compile(r"\{wrapped:\{=[^{}]*\}\}")  # as WRAPPED, where the extent depends on sizes
PATHS = 16  # alternatives kept for a node; with more, only what all of them share

PROVED, KEPT, REFUTED, UNKNOWN = "proved", "kept", "refuted", "unknown"
_ALWAYS: Path = frozenset()


@dataclass(frozen=True, eq=False)
class Obligation:
    """One fact that the program owes, in the tensor `tensor`, and what became of it.

    `status`   proved; kept (the run-time check, or the floor division, that makes up for it); refuted; unknown
    `how`      the step that settled it
    `facts`    the integer facts that were asked of it: all of them hold, where it is proved (verify/certificate.py)
    `witness`  values of the variables and of inputs for which the fact fails, and the indices that then go out
    `message`  of a kept check: what it says when it fails
    """

    kind: str
    tensor: T
    status: str
    how: str
    text: Texts
    node: E | Ix | Div | Quotient | None = None
    answer: Answer | None = None
    asked: Callable[[], Iterable[Fact]] = tuple

    @property
    def facts(self) -> tuple[Fact, ...]:
        return tuple(dict.fromkeys(self.asked()))

    @property
    def where(self) -> str:
        return self.text.where(self)

    @property
    def message(self) -> str:
        return self.text.message(self.tensor) if self.status == KEPT and self.tensor.kind == "require" else ""

    @property
    def witness(self) -> dict[str, Any] | None:
        return self.text.witness(self)

    @property
    def reason(self) -> str:
        """Why a fact was not proved."""
        if self.answer is None or self.status == PROVED:
            return ""
        if self.answer.status == "refuted":
            return "fails for " + ", ".join(f"{k} = {v}" for k, v in (self.witness or {}).items())
        of = f", which depends on {brief(self.answer.opaque[0])}" if self.answer.opaque else ""
        return f"could not be decided{of}" if self.answer.point is not None else self.answer.how

    def to_json(self) -> dict[str, Any]:
        """The fields of `assay prove --json`."""
        return {"kind": self.kind, "where": self.where, "status": self.status, "how": self.how, "message": self.message,
                "witness": self.witness, "reason": self.reason}  # fmt: skip

    def __str__(self) -> str:
        more = "; ".join(x for x in (self.message, self.reason) if x)
        return f"{self.status:8}{self.kind:7}{self.where}: {self.how}" + (f" ({more})" if more else "")


class Texts:
    """The words of obligations, made only where they are read."""

    def __init__(self, program: Program) -> None:
        self.program = program

    @cached_property
    def names(self) -> Names:
        return Names(self.program)

    def _variables(self, o: Obligation) -> dict[Var, str]:
        return self.names.place(o.tensor, o.node)[1] if isinstance(o.node, E) else self.variables(o.tensor)

    def variables(self, t: T) -> dict[Var, str]:
        """The names of the axes of `t`, and of the loops around its loads."""
        found: dict[Var, str] = {}
        for e in walk(bodies(t)):
            if e.op in (*LOADS, "idx"):
                found.update(self.names.place(t, e)[1])
        return found | dict(zip(_axes(t), self.names.axis_names(len(domain(t))), strict=True))

    def _index(self, o: Obligation, e: Ix) -> str:
        variables = self._variables(o)

        def atom(a: Var | Val) -> str:
            return variables.get(a, repr(a)) if isinstance(a, Var) else self.names.place(o.tensor, a.e)[0]

        return sum_text(e, atom)

    def where(self, o: Obligation) -> str:
        name = self.names.of[o.tensor]
        if isinstance(o.node, E):
            return f"{name}: {self.names.place(o.tensor, o.node)[0]}"
        if isinstance(o.node, Ix | Div | Quotient):
            e = o.node if isinstance(o.node, Ix) else o.node.e // o.node.c
            return f"{name}: {self._index(o, e)}"
        if o.tensor.kind == "scatter" and o.kind == "bounds":
            at = ",".join(self._index(o, i) for i in o.tensor.indices)
            return f"{name}: scatter {self.names.of[o.tensor.base]} at [{at}]"
        return f"{name}: require" if o.tensor.kind == "require" and o.kind in ("bounds", "check") else name

    def message(self, t: T) -> str:
        """What the require says, with its name for the value: index out of bounds: 0 <= t3 < 128"""
        text = t.message.partition("]")[2] if t.message.startswith("[") else t.message
        text = STATED.sub(r"\1", OF_SIZES.sub("", WRAPPED.sub("", text.strip()))).replace("{value}", self.names.of[t])
        return text.removesuffix(" at {index}").replace("{index}", "its index")

    def witness(self, o: Obligation) -> dict[str, Any] | None:
        if o.answer is None or o.answer.point is None or o.status == PROVED:
            return None
        point = o.answer.point
        variables = self._variables(o)
        found: dict[str, Any] = {}
        for a, x in point.items():
            if isinstance(a, Var | Size):
                found[variables.get(a, repr(a)) if isinstance(a, Var) else a.name] = x
            elif a.op == "load":
                t, idx = a.attr
                at = [value_at(i, point) for i in idx]
                found[f"{self.names.of.get(t, repr(t))}[{','.join(map(str, at))}]"] = bool(x) if a.dtype.kind == "bool" else x
            else:
                found[brief(a)] = x
        goes_out = self._indices(o, point)
        return found | ({"index": goes_out} if goes_out is not None else {})

    def _indices(self, o: Obligation, point: dict[Atom, int]) -> list[int | None] | None:
        if isinstance(o.node, E) and o.node.op in LOADS:
            indices = o.node.attr[1]
        elif o.tensor.kind == "scatter" and o.kind == "bounds":
            indices = o.tensor.indices
        elif isinstance(o.node, Ix | Div | Quotient):
            indices = (o.node if isinstance(o.node, Ix) else o.node.e,)
        else:
            return None
        return [value_at(i, point) for i in indices]


@dataclass(frozen=True, eq=False)
class Proof:
    """All obligations of a program, and the facts that its emitter needs.

    `guarded`  (tensor, load): in bounds only under the conditions of the selects above it
    `in_bounds` (tensor, load): in bounds whatever the path, although the intervals alone do not say so
    `wide`     tensors with an index or an address that needs int64
    `floors`   (tensor, division): a division whose dividend may be negative
    """

    program: Program
    obligations: tuple[Obligation, ...]
    guarded: frozenset[tuple[T, E]]
    in_bounds: frozenset[tuple[T, E]]
    wide: frozenset[T]
    floors: frozenset[tuple[T, Div | Quotient]]

    @property
    def verdict(self) -> Verdict:
        """PROVED when nothing is refuted or undecided; a kept check is part of the meaning."""
        for o in self.obligations:
            if o.status == REFUTED:
                return verdict.refuted({"where": o.where, **(o.witness or {})})
        for o in self.obligations:
            if o.status == UNKNOWN:
                return verdict.unknown(f"{o.where}: {o.reason}")
        if not self.program.outputs and not self.program.checks:
            return verdict.unknown("nothing to prove: there is no result")
        return verdict.proved

    @property
    def kept(self) -> tuple[Obligation, ...]:
        """The run-time checks that stay."""
        return tuple(o for o in self.obligations if o.status == KEPT and o.kind in ("bounds", "check"))

    def __str__(self) -> str:
        return "\n".join([*map(str, self.obligations), f"{self.verdict}: {counted(len(self.obligations), 'obligation')}"])

    __repr__ = __str__

    def to_json(self) -> dict[str, Any]:
        """The object of `assay prove --json`."""
        v = self.verdict
        return {"verdict": str(v), "exit_code": v.exit_code, "obligations": [o.to_json() for o in self.obligations]}


@dataclass(frozen=True, eq=False)
class ProvenProgram:
    """A program with a proof that refutes nothing and leaves nothing undecided: the only thing that may be emitted."""

    program: Program
    proof: Proof

    def __post_init__(self) -> None:
        faults = [str(o) for o in self.proof.obligations if o.status in (REFUTED, UNKNOWN)]
        if faults or self.proof.program is not self.program:
            kind = self.proof.verdict.kind
            raise Unsound(f"the program {self.program.name} may not be emitted, its proof is {kind}:\n" + "\n".join(faults))

    def is_guarded(self, t: T, load: E) -> bool:
        """Whether the load in `t` may lie outside where it is not selected: emit it masked, or with a clamped address."""
        return (t, load) in self.proof.guarded

    def is_inside(self, t: T, load: E) -> bool:
        """Whether the load in `t` is in bounds on every path, so that it needs no guard whatever its intervals say."""
        return load.op == "load" and ((t, load) in self.proof.in_bounds or _intervals_suffice(load))

    def index_bits(self, t: T) -> int:
        """The width of index arithmetic that is wide enough for `t`: 32 or 64."""
        return 64 if t in self.proof.wide else 32

    def truncates(self, t: T, division: Div | Quotient) -> bool:
        """Whether C's truncating division is right for this division in `t`."""
        return (t, division) not in self.proof.floors


_proofs: dict[Program, Proof] = {}


def prove(program: Program) -> Proof:
    """Every obligation of the program, settled.  Refutations are in the proof; `proven` raises them."""
    found = _proofs.get(program)
    if found is None:
        found = _proofs[program] = _Prover(program).run()
    return found


def proven(program: Program) -> ProvenProgram:
    """The program with its proof.  Raises Unsound, with the obligations and their witnesses, where it has none."""
    return ProvenProgram(program, prove(program))


# ------------------------------------------------------------------------------------------------ paths


def paths(t: T) -> dict[E, set[Path]]:
    """For each expression of `t`, the alternative conjunctions of conditions under which it is reached.

    A path that implies another is dropped: {c}, {c, d} -> {c}.  A condition on the variable of a fold (or on an axis of
    the same name) does not pass into its steps, where the name means the loop.
    """
    found: dict[E, set[Path]] = {}
    for root in bodies(t):
        found.setdefault(root, set()).add(_ALWAYS)
    for e in sorted(walk(bodies(t)), key=lambda e: -e.id):
        here = found[e]
        if e.op == "select":
            c, a, b = e.args
            _reach(found, c, here)
            _reach(found, a, (p.union(split(c, True)) for p in here))
            _reach(found, b, (p.union(split(c, False)) for p in here))
        elif e.op == "fold":
            half = len(e.args) // 2
            inside = [frozenset(h for h in p if e.attr not in h[0].free) for p in here]
            for x in e.args[:half]:
                _reach(found, x, here)
            for x in e.args[half:]:
                _reach(found, x, inside)
        else:
            for x in e.deps:
                _reach(found, x, here)
    return found


def _reach(found: dict[E, set[Path]], e: E, new: Iterable[Path]) -> None:
    known = found.setdefault(e, set())
    for p in new:
        if not any(q <= p for q in known):
            known.difference_update([q for q in known if p <= q])
            known.add(p)
    if len(known) > PATHS:
        shared = frozenset.intersection(*known)
        known.clear()
        known.add(shared)


# ------------------------------------------------------------------------------------------------ the prover


def _axes(t: T) -> tuple[Var, ...]:
    return axes(domain(t))


class _Prover:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.text = Texts(program)
        self.obligations: list[Obligation] = []
        self.guarded: set[tuple[T, E]] = set()
        self.in_bounds: set[tuple[T, E]] = set()
        self.wide: set[T] = set()
        self.floors: set[tuple[T, Div | Quotient]] = set()
        self.given: Path = frozenset(h for e in program.guards for h in split(e, True))

    def _decide(self, goal: Goal, path: Path = _ALWAYS) -> Answer:
        """`decide` for all sizes that the guards of the program admit."""
        return decide(goal, path | self.given)

    def _asked(self, goal: Goal, *alternatives: Path) -> Callable[[], Iterable[Fact]]:
        """The goal under each of the alternatives (without any: under no hypothesis but the guards)."""
        return lambda: [Fact(goal, p | self.given) for p in alternatives or (_ALWAYS,)]

    def run(self) -> Proof:
        for t in self.text.names.order:
            if not any(type(n) is int and n == 0 for n in domain(t)) or t.kind == "extern":
                self._tensor(t)
        return Proof(self.program, tuple(self.obligations), frozenset(self.guarded), frozenset(self.in_bounds),
                     frozenset(self.wide), frozenset(self.floors))  # fmt: skip

    def _owe(self, kind: str, t: T, status: str, how: str, node: E | Ix | Div | Quotient | None = None,
             answer: Answer | None = None, asked: Callable[[], Iterable[Fact]] = tuple) -> None:  # fmt: skip
        self.obligations.append(Obligation(kind, t, status, how, self.text, node, answer, asked))

    def _tensor(self, t: T) -> None:
        nodes = walk(bodies(t))
        loads = [e for e in nodes if e.op in LOADS]
        known: dict[E, set[Path]] = {}
        for e in loads:
            if e.op != "load":
                continue
            goal = _inside(e.attr[0].shape, e.attr[1])
            if _intervals_suffice(e):
                self._owe("bounds", t, PROVED, _how_intervals(e.attr[1]), e, asked=self._asked(goal))
                continue
            known = known or paths(t)
            self._load(t, e, goal, known[e])
        if t.kind == "scatter":
            goal = _inside(t.shape, t.indices)
            answer = self._decide(goal)
            how = _how_intervals(t.indices) if answer.how == "intervals" else answer.how
            self._owe("bounds", t, answer.status, how, None, answer, self._asked(goal))
        if t.kind == "require":
            self._require(t)
        self._width(t, nodes, loads, known)
        self._sign(t, nodes)

    def _load(self, t: T, e: E, goal: Goal, alternatives: set[Path]) -> None:
        if alternatives != {_ALWAYS}:
            self.guarded.add((t, e))
            free = self._decide(goal)
            if free.status == PROVED:
                alternatives = {_ALWAYS}
                self.guarded.discard((t, e))
        asked = self._asked(goal, *sorted(alternatives, key=_path_key))
        answers = [decide(f.goal, f.hypotheses) for f in asked()]
        worst = next((a for s in (REFUTED, UNKNOWN) for a in answers if a.status == s), None)
        if worst is not None:
            self._owe("bounds", t, worst.status, worst.how, e, worst, asked)
            return
        how = ", ".join(dict.fromkeys(a.how for a in answers))
        self._owe("bounds", t, PROVED, how if (t, e) not in self.guarded else f"{how}, under its guard", e, answers[0], asked)
        if (t, e) not in self.guarded:
            self.in_bounds.add((t, e))

    def _require(self, t: T) -> None:
        kind = "bounds" if t.message.startswith("[IndexError]") else "check"
        goal = Goal(condition=t.cond)
        answer = self._decide(goal)
        if answer.status == PROVED:
            self._owe(kind, t, PROVED, f"always holds: {answer.how}", None, answer, self._asked(goal))
        else:
            self._owe(kind, t, KEPT, "checked at run time", None, answer, self._asked(goal))
        stated = _stated(t)
        if stated is None:
            return
        passed = frozenset(split(t.cond, True))
        implied = self._decide(stated, passed)
        if implied.status != PROVED:
            self._owe("range", t, implied.status, "its condition does not imply the range that it states", None, implied,
                      self._asked(stated, passed))  # fmt: skip

    # -------------------------------------------------------------------------------------------- width

    def _width(self, t: T, nodes: list[E], loads: list[E], known: dict[E, set[Path]]) -> None:
        """One obligation for all indices of `t`: the narrowest type that holds them, and every step of computing them.

        That int32 suffices must hold whatever the guards; int64 may rely on them, since what is not selected may be any
        element.
        """
        addressed: list[tuple[tuple[int, ...], tuple[Ix, ...], E | None]] = [(e.attr[0].shape, e.attr[1], e) for e in loads]
        addressed += [((1,), (e.attr,), e) for e in nodes if e.op == "idx"]
        if t.kind == "scatter":
            addressed.append((t.shape, t.indices, None))
        why, wide = "int32: intervals", f"int64: {t.size!r} elements" if _most(t.size) > INT32[1] else ""
        small: list[tuple[tuple[int, ...], tuple[Ix, ...]]] = []
        large: list[Fact] = []
        for shape, indices, e in addressed:
            if sum(_most(s) * magnitude(i) for s, i in zip(_strides(shape), indices, strict=True)) <= INT32[1]:
                small.append((shape, indices))
                continue
            if any(isinstance(n, Ix) for n in shape) or any(i.sizes for i in indices):
                wide = wide or "int64: for all sizes"
            else:
                goal = _narrow(shape, indices)
                narrow = self._decide(goal)
                if narrow.status == PROVED:
                    why = f"int32: {narrow.how}"
                    small.append((shape, indices))
                    continue
                wide = wide or f"int64: an index {_reaches([i for i, _, _ in goal.ranges], narrow)}"
            known = known or paths(t)
            for i in indices:
                parts = [p for p in _divided(i) if e is None or p is not i or not p.sizes]  # a load with sizes is in bounds
                goal = Goal(tuple((p, *INT64) for p in parts))
                for path in sorted(known[e], key=_path_key) if e is not None else [_ALWAYS]:
                    full = self._decide(goal, path)
                    if full.status != PROVED:
                        self.wide.add(t)
                        self._owe("width", t, full.status, full.how, i if full.point else e, full, self._asked(goal, path))
                        return
                    large.append(Fact(goal, path))
        if wide:
            self.wide.add(t)
        self._owe("width", t, PROVED, wide or why, asked=lambda: [*(Fact(_narrow(*x)) for x in small), *large])

    # -------------------------------------------------------------------------------------------- sign

    def _sign(self, t: T, nodes: list[E]) -> None:
        for d in dict.fromkeys(_divisions(t, nodes)):
            goal = Goal(((d.e, 0, max(0, d.e.hi)),))
            answer = self._decide(goal)
            if answer.status == PROVED:
                self._owe("sign", t, PROVED, answer.how, d, answer, self._asked(goal))
            else:
                self.floors.add((t, d))
                self._owe("sign", t, KEPT, "emitted as a floor division", d, answer, self._asked(goal))


def _divisions(t: T, nodes: list[E]) -> Iterator[Div | Quotient]:
    for e in nodes:
        if e.op == "idx":
            yield from divisions(e.attr)
        elif e.op in LOADS:
            for i in e.attr[1]:
                yield from divisions(i)
    if t.kind == "scatter":
        for i in t.indices:
            yield from divisions(i)


def _path_key(p: Path) -> list[tuple[int, int, bool]]:
    return sorted((e.digest, e.id, holds) for e, holds in p)


def _inside(shape: tuple[int, ...], indices: tuple[Ix, ...]) -> Goal:
    ranges: list[tuple[Ix, int, int]] = []
    for i, n in zip(indices, shape, strict=True):
        ranges += [(i, 0, END), (n - 1 - i, 0, END)] if isinstance(n, Ix) else [(i, 0, n - 1)]
    return Goal(tuple(ranges))


def _stated(t: T) -> Goal | None:
    """That the value of a require lies in the range that it states, which all that read it believe; None: its own range."""
    if t.dtype.is_integer and (t.end is not None or (t.lo, t.hi) != (t.body.lo, t.body.hi)):
        i = as_index(t.body)
        below = [(i, t.lo, END)] if t.body.lo < t.lo else []
        above = [((t.hi if t.end is None else t.end) - i, 0, END)] if t.end is not None or t.body.hi > t.hi else []
        return Goal((*below, *above))
    if t.dtype is dt.bool_ and t.lo == t.hi and t.body.lo != t.body.hi:
        return Goal(condition=t.body if t.lo else ~t.body)
    return None


def _narrow(shape: tuple[int, ...], indices: tuple[Ix, ...]) -> Goal:
    """int32 holds the indices, the address, and every step of computing them."""
    parts = _steps((affine(zip(_strides(shape), indices, strict=True)), *indices))
    return Goal(tuple((p, *INT32) for p in parts))


def _intervals_suffice(load: E) -> bool:
    t, indices = load.attr
    return all(map(within, indices, t.shape))


def _how_intervals(indices: tuple[Ix, ...]) -> str:
    checked = any(a.e.op == "load" and a.e.attr[0].kind == "require" for i in indices for a in values(i))
    if any(i.sizes for i in indices):
        return "signs"
    return "intervals, by a run-time check" if checked else "intervals"


def _most(n: int) -> int:
    return n.hi if isinstance(n, Ix) else n


def _strides(shape: tuple[int, ...]) -> list[int]:
    strides = [1] * len(shape)
    for k in range(len(shape) - 1, 0, -1):
        strides[k - 1] = strides[k] * shape[k]
    return strides


def _divided(i: Ix) -> list[Ix]:
    """`i` and every dividend in it: what must not wrap (sums and multiples may, as long as the result fits)."""
    return [i, *(d.e for d in divisions(i))]


def _steps(indices: Iterable[Ix]) -> tuple[Ix, ...]:
    """The indices and every partial sum, multiple and dividend in them."""
    found: dict[Ix, None] = {}
    for i in indices:
        found[i] = None
        total = ix(i.c)
        for a, k in i.terms:
            term = affine(((k, _of(a)),))
            total = total + term
            found[term] = found[total] = None
            for d in divisions(term):
                found.update(dict.fromkeys(_steps((d.e,))))
    return tuple(found)


def _of(a: IndexAtom) -> Ix:
    return from_atom(a)


def _reaches(parts: Iterable[Ix], answer: Answer) -> str:
    """reaches 2147483648, or what is known of the largest."""
    if answer.point is not None:
        for p in parts:
            v = value_at(p, answer.point)
            if v is not None and not INT32[0] <= v <= INT32[1]:
                return f"reaches {v}"
    return f"may lie in {min(p.lo for p in parts)}..{max(p.hi for p in parts)}"
