"""Audits of verify/coverage.py: a scheduled program that was made wrong at one place is not proved.

What is wrong is known by construction (a step is gone, a check is not made, ...), or found by counting elements.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

from assay.core import dtypes as dt
from assay.core.index import ix
from assay.core.lang import Program, T, axes, const, is_const, size_of
from assay.core.parser import parse
from assay.verify.coverage import covered, prove_schedule
from assay.verify.nests import Axis, LoopNest, Piece, Scheduled
from assay.verify.skeleton import inputs

PROGRAM = 6  # of so many questions one is about a program, the others about an axis
LANES = (1, 1, 4, 8)


def wrong_schedule(seed: int) -> str | None:
    """What coverage.py says of an axis or a scheduled program, and should not."""
    rng = random.Random(seed)
    return _axis(rng) if seed % PROGRAM else _program(rng, seed)


# ------------------------------------------------------------------------------------------------ axes


def computed(axis: Axis) -> Counter[int]:
    """How often each element is computed, as verify/nests.py says."""
    return Counter(
        p.base + (c * p.size if p.last is None else min(c * p.size, p.last)) + o + lane
        for p in axis.pieces for c in range(p.count) for o in p.offsets for lane in range(p.lanes)
    )  # fmt: skip


def _axis(rng: random.Random) -> str | None:
    """An axis that is cut as kernels are, and changed in one number or not at all."""
    lanes, copies, count, rest = rng.choice(LANES), rng.randint(1, 3), rng.randint(1, 4), rng.randint(0, 9)
    size = lanes * copies
    offsets = tuple(q * lanes for q in range(copies))
    n = count * size + rest
    pieces = [Piece(count, size, offsets, lanes)]
    if rest and rng.random() < 0.4 and rest <= size:
        pieces = [Piece(count + 1, size, offsets, lanes, last=n - size)]
    elif rest:
        pieces.append(Piece(rest, 1, (0,), 1, base=count * size, is_tail=True))
    k = rng.randrange(len(pieces))
    p, by = pieces[k], rng.choice((-1, 1))
    changes = (
        lambda: p, lambda: replace(p, count=p.count + by), lambda: replace(p, size=p.size + by),
        lambda: replace(p, base=p.base + by), lambda: replace(p, lanes=p.lanes + by),
        lambda: replace(p, last=p.last + by if p.last is not None else None),
        lambda: replace(p, offsets=(*p.offsets[:-1], p.offsets[-1] + by)), lambda: replace(p, offsets=p.offsets[1:]),
    )  # fmt: skip
    pieces[k] = rng.choice(changes)()
    axis = Axis(n, tuple(pieces))
    found = computed(axis)
    reason, exactly = covered(axis)
    if not reason and (set(found) != set(range(n)) or (exactly and max(found.values()) > 1)):
        return f"{axis} is proved to compute each of {n} elements{' once' if exactly else ''}: {sorted(found.items())}"
    return None


# ------------------------------------------------------------------------------------------------ programs


SCATTERS = (
    """program f(x: f32[4], v: f32[3,8], k: i64[3,8]):
      y = scatter x over [i:3,j:8] at [min(max(k[i,j], 0:i64), 3:i64)] set v[i,j]
      return y
    """,
    """program f(x: f32[3,4], v: f32[3,8,5], k: i64[8]):
      y = scatter x over [i:3,j:8,l:5] at [i,min(max(k[j], 0:i64), 3:i64)] add v[i,j,l]
      return y
    """,
)


def _program(rng: random.Random, seed: int) -> str | None:
    from assay.backends import cpp
    from assay.fuzz.oracle import scheduled

    try:
        chosen, plan = scheduled(parse(rng.choice(SCATTERS)) if rng.random() < 0.25 else _random_program(seed), seed)
        if plan is None:
            return None
        right = cpp.scheduled(chosen, plan)
    except Exception:  # what raises is no schedule; running the programs will say why
        return None
    for what, change in CHANGES.items():
        made = list(change(right, rng))
        if made and prove_schedule(rng.choice(made)).proved:
            return f"{what}, and the schedule is proved:\n{right}"
    return None


def _random_program(seed: int) -> Program:
    from assay.examine import examine
    from assay.fuzz.generate import random_recipe
    from assay.fuzz.oracle import draw_many_arrays
    from assay.fuzz.recipe import tensors
    from assay.semantics.denote import run

    recipe = random_recipe(seed, 5, joined=True)
    (drawn,) = draw_many_arrays([recipe], seed, 1)
    final = examine(recipe, tuple(tensors(drawn[0]))).final
    run(final, drawn[0])  # of a program that raises whatever it is given, every value is right
    return final


def _without_a_step(s: Scheduled, rng: random.Random) -> Iterator[Scheduled]:
    for k in range(len(s.steps)):
        yield replace(s, steps=(*s.steps[:k], *s.steps[k + 1 :]))


def _too_early(s: Scheduled, rng: random.Random) -> Iterator[Scheduled]:
    for k in range(len(s.steps) - 1):
        a, b = s.steps[k : k + 2]
        if not b.reads.isdisjoint(a.writes):
            yield replace(s, steps=(*s.steps[:k], b, a, *s.steps[k + 2 :]))


def _silent_reads(s: Scheduled, rng: random.Random) -> Iterator[Scheduled]:
    """A kernel's own loads are in its values, so that a declared read of what they load is needed."""
    for k, step in enumerate(s.steps):
        if step.nest is not None:
            for t in sorted({t for x in step.nest.stores for t in x.value.reads} & step.reads, key=lambda t: t.id):
                yield replace(s, steps=(*s.steps[:k], replace(step, reads=step.reads - {t}), *s.steps[k + 1 :]))


def _nests(s: Scheduled, change: Callable[[LoopNest], Iterator[LoopNest]]) -> Iterator[Scheduled]:
    for k, step in enumerate(s.steps):
        if step.nest is not None and all(step.nest.domain):
            for nest in change(step.nest):
                yield replace(s, steps=(*s.steps[:k], replace(step, nest=nest), *s.steps[k + 1 :]))


def _other_values(n: LoopNest) -> Iterator[LoopNest]:
    """77, or true where the inputs decide: what is computed of none may be true."""
    for k, x in enumerate(n.stores):
        other = const(dt.bool_ is x.value.dtype or 77, x.value.dtype)
        true = x.value.dtype is dt.bool_ and not any(map(inputs, x.value.reads))
        if x.value.op not in ("const", "fold") and n.kind != "scan" and not true and not x.value.lo == x.value.hi == 1:
            yield replace(n, stores=(*n.stores[:k], replace(x, value=other), *n.stores[k + 1 :]))


def _without_check(n: LoopNest) -> Iterator[LoopNest]:
    for k, x in enumerate(n.stores):
        if x.condition is not None and not is_const(x.condition, True):
            yield replace(n, stores=(*n.stores[:k], replace(x, condition=None), *n.stores[k + 1 :]))


def _elsewhere(n: LoopNest) -> Iterator[LoopNest]:
    for k, x in enumerate(n.stores):
        for q, i in enumerate(x.indices):
            indices = (*x.indices[:q], i + 1, *x.indices[q + 1 :])
            yield replace(n, stores=(*n.stores[:k], replace(x, indices=indices), *n.stores[k + 1 :]))


def _without_elements(n: LoopNest) -> Iterator[LoopNest]:
    for k, axis in enumerate(n.axes):
        for q, p in enumerate(axis.pieces):
            fewer = Axis(axis.n, (*axis.pieces[:q], replace(p, offsets=p.offsets[:-1]), *axis.pieces[q + 1 :]))
            if set(computed(fewer)) != set(range(axis.n)):
                yield replace(n, axes=(*n.axes[:k], fewer, *n.axes[k + 1 :]))


def _fewer_steps(n: LoopNest) -> Iterator[LoopNest]:
    if n.chunks is not None:
        yield replace(n, chunks=(n.chunks[0] - 1, n.chunks[1]))


def _tied(n: LoopNest) -> list[int]:
    """The axes of a scatter that no written index names by itself: their updates may be of one element."""
    found = [k for k, size in enumerate(n.domain) if size > 1] if n.kind == "scatter" else []
    return [k for k in found if all(ix(axes(n.domain)[k]) not in x.indices for x in n.stores)]


def _reordered(n: LoopNest) -> Iterator[LoopNest]:
    for a, b in itertools.pairwise(_tied(n)):
        yield replace(n, order=((b, None), (a, None), *((k, block) for k, block in n.order if k not in (a, b))))


def _divided(n: LoopNest) -> Iterator[LoopNest]:
    for k in _tied(n):
        if all(block is None for _, block in n.order):
            yield replace(n, threads=k, units=n.axes[k].units)


def _on_top(s: Scheduled, rng: random.Random) -> Iterator[Scheduled]:
    """Two tensors in one place, one of which is written when the other is still to be read."""
    alive: dict[T, list[int]] = {}
    for number, step in enumerate(s.steps):
        for t in (*step.writes, *step.reads):
            alive.setdefault(t, []).append(number)
    for (a, at), (b, _) in itertools.permutations([(t, at) for t, at in s.offsets if size_of(t) and t in alive], 2):
        if min(alive[a]) <= max(alive[b]) and min(alive[b]) <= max(alive[a]):
            moved = tuple((t, at if t is b else where) for t, where in s.offsets)
            yield replace(s, offsets=moved, arena=s.arena + size_of(b))


CHANGES: dict[str, Callable[[Scheduled, random.Random], Iterator[Scheduled]]] = {
    "a step is gone": _without_a_step,
    "a step runs before what it reads": _too_early,
    "a read is not declared": _silent_reads,
    "two tensors that live together share memory": _on_top,
    "another value is stored": lambda s, rng: _nests(s, _other_values),
    "a check is not made": lambda s, rng: _nests(s, _without_check),
    "updates go elsewhere": lambda s, rng: _nests(s, _elsewhere),
    "elements are not computed": lambda s, rng: _nests(s, _without_elements),
    "steps of a fold do not run": lambda s, rng: _nests(s, _fewer_steps),
    "updates change places": lambda s, rng: _nests(s, _reordered),
    "updates are divided among threads": lambda s, rng: _nests(s, _divided),
}
