"""Random programs read off the operator table: a Hypothesis strategy, and the same drawing from a seed.

A call is a sample of its operator (the `samples` column) whose tensors are values made so far wherever the operator
takes them, and new inputs elsewhere; the operator's own meaning says what it takes.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, TypeAlias

from assay.core import dtypes as dt
from assay.core.errors import AssayError
from assay.core.lang import T, input
from assay.core.operators.registry import OPERATORS, Operator
from assay.core.operators.samples import Like
from assay.fuzz.recipe import Call, Recipe, Ref, map_refs, refs

Pick: TypeAlias = Callable[[int], int]  # pick(n) is one of 0..n-1

LARGEST = 4096  # elements of any value
LONG = (16, 33, 40, 67, 130)  # sizes of several vectors, with and without a rest
NEARLY = (31, 63, 127)  # one element is missing to whole vectors
MOST_OPERATORS = 12
SAMPLES = 60  # of one operator
ATTEMPTS = 6  # drawn calls of which one may read what the program has computed
JOINING = ("add.Tensor", "mul.Tensor", "maximum.default", "minimum.default", "lt.Tensor")  # of two values of one shape and type
REDUCING = ("sum.dim_IntList", "amax.default", "amin.default")  # of the axis in which two values differ
FAMILY_WEIGHT = {
    "pointwise": 4, "elementary": 2, "views": 4, "reductions": 4, "rearrange": 3, "matmul": 3, "scans": 2, "joins": 4,
    "indexing": 2,
}  # fmt: skip
WEIGHT = {"constant_pad_nd.default": 20, "cat.default": 5}  # within its family: what transformations treat specially


@cache
def samples(name: str) -> tuple[tuple[Any, ...], ...]:
    """Samples of the operator that have no huge tensor, at most SAMPLES of them."""
    found = []
    for arguments in OPERATORS[name].samples():
        if all(x.dtype is not None and _size(x) <= LARGEST for x in _likes(arguments)):
            found.append(arguments)
        if len(found) == SAMPLES:
            break
    return tuple(found)


@cache
def operators() -> tuple[tuple[str, ...], ...]:
    """The functional operators that have samples, by family; a family stands as often as its weight."""
    families: dict[str, list[str]] = {}
    for o in OPERATORS.values():
        if o.inplace_of is None and samples(o.name):
            families.setdefault(o.family, []).extend([o.name] * WEIGHT.get(o.name, 1))
    return tuple(tuple(names) for family, names in families.items() for _ in range(FAMILY_WEIGHT.get(family, 1)))


def _size(x: Like) -> int:
    n = 1
    for s in x.shape:
        n *= s
    return n


def _likes(value: Any) -> list[Like]:
    if isinstance(value, Like):
        return [value]
    return [x for v in value for x in _likes(v)] if isinstance(value, tuple | list) else []


@cache
def _unnamed(number: int, shape: tuple[int, ...], dtype: dt.DType) -> T:
    """An input of a program that is being drawn."""
    return input(f"x{number}", shape, dtype)


class _Draft:
    """The program so far, with core tensors that have the shapes and types of its values (no elements are computed)."""

    def __init__(self, *, joined: bool) -> None:
        self.joined = joined
        self.inputs: list[Like] = []
        self.made: list[tuple[T, ...]] = []  # of calls
        self.calls: list[Call] = []

    def new_input(self, like: Like) -> Ref:
        self.inputs.append(like)
        return Ref(-len(self.inputs))  # inputs are numbered last: see finish

    def tensor(self, ref: Ref) -> T:
        if ref.value < 0:
            like = self.inputs[-ref.value - 1]
            return _unnamed(-ref.value, like.shape, like.dtype)
        return self.made[ref.value][ref.output]

    def values(self) -> list[Ref]:
        """Everything a call may read: unbounded inputs, and results of calls."""
        found = [Ref(-k) for k, like in enumerate(self.inputs, 1) if like.lo is None]
        return found + [Ref(k, o) for k, outputs in enumerate(self.made) for o in range(len(outputs))]

    def call(self, o: Operator, args: tuple[Any, ...]) -> bool:
        """Append the call if the operator takes the arguments and its results are small."""
        try:
            outputs = o.program(*map_refs(args, self.tensor)).outputs  # kept for capture and eager runs
        except (AssayError, IndexError):
            return False
        if any(t.size > LARGEST or len(t.shape) > 6 for t in outputs):
            return False
        self.calls.append(Call(o.name, args))
        self.made.append(outputs)
        return True

    def finish(self, shown: Callable[[Ref], bool]) -> Recipe:
        """Number the inputs before the calls; the results are the values that no call reads, and those that are `shown`."""
        n = len(self.inputs)

        def renumber(r: Ref) -> Ref:
            return Ref(-r.value - 1) if r.value < 0 else Ref(n + r.value, r.output)

        calls = tuple(Call(c.operator, map_refs(c.args, renumber)) for c in self.calls)
        read = {r for c in calls for r in refs(c.args)}
        every = [Ref(n + k, o) for k, outputs in enumerate(self.made) for o in range(len(outputs))]
        return Recipe(tuple(self.inputs), calls, tuple(r for r in every if r not in read or shown(r)))


def recipes(most: int = MOST_OPERATORS) -> Any:
    """The Hypothesis strategy of programs of 1 to `most` operators."""
    from hypothesis import strategies as st

    @st.composite
    def drawn(draw: st.DrawFn) -> Recipe:
        return draw_recipe(lambda n: draw(st.integers(0, n - 1)), most)

    return drawn()


def random_recipe(seed: int, most: int = MOST_OPERATORS, *, joined: bool = False) -> Recipe:
    """The program of this seed (a campaign draws without Hypothesis, whose examples are mutations of one another)."""
    return draw_recipe(random.Random(seed).randrange, most, joined=joined)


def draw_recipe(pick: Pick, most: int, *, joined: bool = False) -> Recipe:
    """A program of 1 to `most` operators, every choice made by `pick`.

    A `joined` one computes more from what it has computed: values of two others, or of what two that differ in one axis are
    reduced to; elements at computed indices, which may lie outside.  Some of its results are read by calls too.
    """
    draft = _Draft(joined=joined)
    for _ in range(1 + pick(most)):
        _extend(pick, draft)
    if not draft.calls:
        draft.call(OPERATORS["neg.default"], (draft.new_input(Like((3,))),))
    for _ in range(1 + pick(3) if joined else 0):
        (_join if pick(3) else _gather)(pick, draft)
    return without_unread_inputs(draft.finish(lambda r: joined and pick(5) == 0))


def _join(pick: Pick, draft: _Draft) -> None:
    """One more call on two values of one shape and type; values that differ in one axis are reduced to such first."""
    known = [(r, draft.tensor(r)) for r in draft.values()]
    made = [x for x in known if x[0].value >= 0]
    if not made:
        return
    a, t = made[pick(len(made))]
    pairs = [(r, s) for r, s in known if r != a and s.dtype is t.dtype and len(s.shape) == len(t.shape)]
    pairs = [(r, axes) for r, s in pairs if len(axes := [k for k, n in enumerate(t.shape) if n != s.shape[k]]) <= 1]
    if not pairs:
        return
    b, axes = pairs[pick(len(pairs))]
    for d in axes:
        name = REDUCING[pick(len(REDUCING))]
        reduced: list[Ref] = []
        for r in (a, b):
            if not draft.call(OPERATORS[name], (r, (d,), False, None) if name.startswith("sum") else (r, (d,), False)):
                return
            reduced.append(Ref(len(draft.calls) - 1))
        a, b = reduced
    name = JOINING[pick(len(JOINING))]
    draft.call(OPERATORS[name], (a, b, 1) if name.startswith("add") else (a, b))


def _gather(pick: Pick, draft: _Draft) -> None:
    """Elements of a value at computed indices: an integer value, the place of a maximum, or numbers from some on."""
    known = [(r, draft.tensor(r)) for r in draft.values()]
    (r, t), indices = known[pick(len(known))], [r for r, t in known if t.dtype is dt.i64 and r.value >= 0]
    if indices and pick(2):
        index = indices[pick(len(indices))]
    elif t.shape and pick(2) and draft.call(OPERATORS["argmax.default"], (r, pick(len(t.shape)), False)):
        index = Ref(len(draft.calls) - 1)
    else:
        n = 2 + pick(6)
        draft.call(OPERATORS["arange.default"], (n, dt.i64))
        draft.call(OPERATORS["slice.Tensor"], (Ref(len(draft.calls) - 1), 0, pick(n), n, 1))
        index = Ref(len(draft.calls) - 1)
    if len(draft.tensor(index).shape) > 1 or not t.shape or not pick(3):
        draft.call(OPERATORS["take.default"], (r, index))
    else:
        draft.call(OPERATORS["index_select.default"], (r, pick(len(t.shape)), index))


def _extend(pick: Pick, draft: _Draft) -> None:
    """One more call: of ATTEMPTS drawn ones the first that reads the result of an earlier call, else one on new inputs."""
    known = len(draft.inputs)
    for _ in range(ATTEMPTS if draft.calls else 0):
        name, sample = _pick_sample(pick)
        args = _with_refs(pick, draft, sample)
        if any(r.value >= 0 for r in refs(args)) and draft.call(OPERATORS[name], args):
            return
        del draft.inputs[known:]
    name, sample = _pick_sample(pick)
    for form in (_stretched(pick, sample, (*LONG, *NEARLY) if draft.joined else LONG), sample):
        if draft.call(OPERATORS[name], _all_new(draft, form)):
            return
        del draft.inputs[known:]


def _pick_sample(pick: Pick) -> tuple[str, tuple[Any, ...]]:
    families = operators()
    names = families[pick(len(families))]
    name = names[pick(len(names))]
    listed = samples(name)
    return name, listed[pick(len(listed))]


def _stretched(pick: Pick, sample: Any, long: tuple[int, ...]) -> Any:
    """The sample, in one of two cases with one of its sizes replaced, wherever it stands, by one of `long`."""
    sizes = sorted({n for x in _likes(sample) for n in x.shape if n > 1})
    if not sizes or pick(2):
        return sample
    old, new = sizes[pick(len(sizes))], long[pick(len(long))]

    def stretch(v: Any) -> Any:
        if isinstance(v, Like):
            shape = tuple(new if n == old else n for n in v.shape)
            return replace(v, shape=shape) if _size(replace(v, shape=shape)) <= LARGEST else v
        return tuple(map(stretch, v)) if isinstance(v, tuple | list) else v

    return stretch(sample)


def _with_refs(pick: Pick, draft: _Draft, sample: Any) -> Any:
    """The sample with values of the program for its tensors: results of calls before inputs, of the same shape and type
    before the same rank and kind before the same kind; tensors with a range (indices) and some others are new inputs."""
    if isinstance(sample, tuple | list):
        return tuple(_with_refs(pick, draft, v) for v in sample)
    if not isinstance(sample, Like):
        return sample
    if sample.lo is not None or pick(5) == 0:
        return draft.new_input(sample)
    known = [(r, draft.tensor(r)) for r in draft.values()]
    same = [r for r, t in known if t.shape == sample.shape and t.dtype is sample.dtype]
    alike = [r for r, t in known if len(t.shape) == len(sample.shape) and t.dtype.kind == sample.dtype.kind]
    kind = [r for r, t in known if t.dtype.kind == sample.dtype.kind]
    for fitting in (same, alike, kind):
        made = [r for r in fitting if r.value >= 0]
        if made and pick(4):
            return made[-1 - pick(len(made))]
        if fitting and pick(2):
            return fitting[pick(len(fitting))]
    return draft.new_input(sample)


def _all_new(draft: _Draft, sample: Any) -> Any:
    if isinstance(sample, tuple | list):
        return tuple(_all_new(draft, v) for v in sample)
    return draft.new_input(sample) if isinstance(sample, Like) else sample


def without_unread_inputs(r: Recipe) -> Recipe:
    """Inputs that failed attempts left behind go."""
    read = {x.value for c in r.calls for x in refs(c.args)} | {x.value for x in r.results}
    kept = [k for k in range(len(r.inputs)) if k in read]
    number = {k: i for i, k in enumerate(kept)} | {len(r.inputs) + k: len(kept) + k for k in range(len(r.calls))}

    def renumber(x: Ref) -> Ref:
        return Ref(number[x.value], x.output)

    calls = tuple(Call(c.operator, map_refs(c.args, renumber)) for c in r.calls)
    return Recipe(tuple(r.inputs[k] for k in kept), calls, tuple(map(renumber, r.results)))
