"""Making a finding small: fewer results, fewer calls, plainer inputs, as long as the same stage stays wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from assay.backends.build import FLAGS
from assay.core.operators.samples import Like
from assay.fuzz.generate import without_unread_inputs
from assay.fuzz.oracle import Judged
from assay.fuzz.recipe import Call, Recipe, Ref, map_refs, refs, tensors
from assay.fuzz.worker import Judge
from assay.verify.layered import Arrays

MOST_TRIALS = 150  # programs that are run to shrink one finding
INPUT_TRIALS = 50  # of these, for its inputs


def shrink(found: Judged, worker: Judge, *, trials: int = MOST_TRIALS, flags: tuple[str, ...] = FLAGS) -> Judged:
    """A smaller finding of the same stage: the fewest calls that single steps reach, then inputs with few non-zeros."""
    left = trials

    def wrong(recipe: Recipe, inputs: list[Arrays]) -> Judged | None:
        nonlocal left
        if left <= 0:
            return None
        left -= 1
        (judged,) = worker.judge_on([recipe], [inputs], flags, schedules=[found.schedule])
        return judged if not judged.ok and judged.stage == found.stage else None

    best = found
    improved = True
    while improved:
        improved = False
        for recipe, inputs in _smaller(best):
            judged = wrong(recipe, inputs)
            if judged is not None:
                best, improved = judged, True
                break
    left = min(left, INPUT_TRIALS)
    return _plain_inputs(best, wrong)


def _smaller(j: Judged) -> Iterator[tuple[Recipe, list[Arrays]]]:
    """One result instead of several; each input of the run alone; a call replaced by an input with the value it had."""
    r = j.recipe
    for result in r.results if len(r.results) > 1 else ():
        yield _restrict(Recipe(r.inputs, r.calls, (result,)), j.inputs)
    for xs in j.inputs if len(j.inputs) > 1 else ():
        yield r, [xs]
    for k in reversed(range(len(r.calls))):
        cut = _cut(r, k, j.inputs)
        if cut is not None:
            yield cut
    for k, call in enumerate(r.calls):  # a result one step earlier
        if any(ref.value == len(r.inputs) + k for ref in r.results) and len(r.calls) > 1:
            earlier = tuple(x for x in refs(call.args) if x.value >= len(r.inputs))
            for ref in earlier:
                yield _restrict(Recipe(r.inputs, r.calls, (ref,)), j.inputs)


def _restrict(r: Recipe, inputs: tuple[Arrays, ...]) -> tuple[Recipe, list[Arrays]]:
    """Only what the results need."""
    live = {ref.value for ref in r.results}
    for k in reversed(range(len(r.calls))):
        if len(r.inputs) + k in live:
            live.update(ref.value for ref in refs(r.calls[k].args))
    kept = [k for k in range(len(r.calls)) if len(r.inputs) + k in live]
    number = {k: k for k in range(len(r.inputs))} | {len(r.inputs) + k: len(r.inputs) + i for i, k in enumerate(kept)}

    def renumber(ref: Ref) -> Ref:
        return Ref(number[ref.value], ref.output)

    calls = tuple(Call(r.calls[k].operator, map_refs(r.calls[k].args, renumber)) for k in kept)
    smaller = Recipe(r.inputs, calls, tuple(map(renumber, r.results)))
    used = [k for k in range(len(r.inputs)) if k in live]
    return without_unread_inputs(smaller), [[xs[k] for k in used] for xs in inputs]


def _cut(r: Recipe, k: int, inputs: tuple[Arrays, ...]) -> tuple[Recipe, list[Arrays]] | None:
    """The recipe with call `k` gone and its results given as inputs, with the values that eager evaluation gives them."""
    if len(r.calls) == 1:
        return None
    gone = len(r.inputs) + k
    wanted = sorted({ref for c in r.calls[k + 1 :] for ref in refs(c.args) if ref.value == gone}, key=lambda x: x.output)
    if not wanted:
        return None
    values = []
    for xs in inputs:
        try:
            results = Recipe(r.inputs, r.calls[: k + 1], tuple(wanted))(*tensors([x.copy() for x in xs]))
        except Exception:
            return None
        values.append([np.array(t.numpy()) for t in results])
    made = [Like(v.shape, t.dtype) for v, t in zip(values[0], results, strict=True)]
    n = len(r.inputs)
    place = {ref: Ref(n + q) for q, ref in enumerate(wanted)}

    def renumber(ref: Ref) -> Ref:
        if ref in place:
            return place[ref]
        if ref.value < n:
            return ref
        return Ref(ref.value + len(made) - (1 if ref.value > gone else 0), ref.output)

    calls = tuple(Call(c.operator, map_refs(c.args, renumber)) for q, c in enumerate(r.calls) if q != k)
    results_ = tuple(renumber(ref) for ref in r.results if ref.value != gone) or tuple(place[ref] for ref in wanted)
    smaller = Recipe((*r.inputs, *made), calls, results_)
    return _restrict(smaller, tuple([*xs, *v] for xs, v in zip(inputs, values, strict=True)))


def _plain_inputs(best: Judged, wrong: Callable[[Recipe, list[Arrays]], Judged | None]) -> Judged:
    """Zeros for whole inputs, then for halves, quarters, ..., elements."""
    for k in range(len(best.recipe.inputs)):
        block = max(xs[k].size for xs in best.inputs)
        while block:
            for start in range(0, max(xs[k].size for xs in best.inputs), block):
                trial = [[x.copy() for x in xs] for xs in best.inputs]
                changed = False
                for xs in trial:
                    flat = xs[k].reshape(-1)
                    changed |= bool(flat[start : start + block].astype(bool).any())
                    flat[start : start + block] = np.zeros((), flat.dtype)
                    xs[k] = flat.reshape(xs[k].shape)
                if changed:
                    best = wrong(best.recipe, trial) or best
            block //= 2
    return best
