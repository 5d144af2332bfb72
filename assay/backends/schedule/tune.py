"""Timing instead of believing: the first few candidates of every kernel are compiled and run, the winner is remembered.

The model alone ranks; among near ties it cannot know.  Timings are interleaved, so that what disturbs the machine
disturbs all candidates, and the quickest run of each counts.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from assay.backends.build import directory
from assay.backends.plan import Kernel, Plan
from assay.backends.schedule.decide import Candidate, assemble, explore
from assay.backends.schedule.fuse import Group
from assay.backends.schedule.machine import cpu_model
from assay.backends.schedule.space import TIMED
from assay.backends.target import Target
from assay.core import lang
from assay.core.files import write_whole
from assay.core.index import Ix
from assay.core.lang import LOADS, E, Program, T
from assay.core.text import show

FIRST = 5  # candidates of a kernel that are timed
SECONDS = 0.2  # for timing one kernel's candidates

Clock = Callable[[], float]


def tune(program: Program, target: Target, *, first: int = FIRST, seconds: float = SECONDS) -> tuple[Program, Plan]:
    """As choose, with the winner of the first `first` candidates of every kernel; remembered by program and machine."""
    explored = explore(program, target)
    file = _file(program, first)
    remembered = _read(file)
    picks: list[int] = []
    chosen: list[tuple[Group, Candidate | None]] = []
    for k, (group, candidates) in enumerate(explored.groups):
        if not candidates:
            chosen.append((group, None))
            continue
        tried = candidates[:first]
        if remembered is not None and k < len(remembered) and remembered[k] < len(tried):
            pick = remembered[k]
        elif len(tried) > 1 and tried[0].seconds >= TIMED and standalone(group):
            times = measure([alone(group, c) for c in tried], seconds)
            pick = min(range(len(times)), key=times.__getitem__)
        else:
            pick = 0
        picks.append(pick)
        chosen.append((group, tried[pick]))
    if remembered is None:
        _write(file, picks)
    return assemble(explored.program, chosen, explored.log)


def standalone(group: Group) -> bool:
    """Whether the group can run with arbitrary values for what it reads: no index comes from another kernel."""
    tensors = (*group.tensors, *(t for t, _ in group.local))
    return all(t.kind == "let" for t in tensors) and not any(
        d.dtype.is_integer for t in tensors for e in lang.walk((t.body,)) if e.op in LOADS for d in e.deps
    )


def alone(group: Group, candidate: Candidate) -> tuple[Program, Plan]:
    """The candidate as a program of its own: what other kernels compute are inputs."""
    inside = {t for t, _ in group.local}
    stand_ins: dict[T, T] = {}

    def stand_in(t: T) -> T:
        found = stand_ins.get(t)
        if found is None:
            found = stand_ins[t] = lang.input(f"in{len(stand_ins)}", t.shape, t.dtype)
        return found

    def on_load(t: T, idx: tuple[Ix, ...], how: str) -> E | None:
        if t in copies or t in inside:
            return None
        return lang.load_as(how, stand_in(t), *idx)

    def moved(t: T) -> T:
        return lang.rewrite_tensor(t, on_load, lambda x: x)

    copies = {t for t, _ in candidate.copies}
    new = {t: moved(t) for t in (*copies, *inside, *candidate.tensors)}

    def rename(t: T, idx: tuple[Ix, ...], how: str) -> E | None:
        made = new.get(t)
        return lang.load_as(how, made, *idx) if made is not None and made is not t else None

    for t in sorted(new, key=lambda t: t.id):
        new[t] = lang.rewrite_tensor(new[t], rename, lambda x: x)
    kernels = [Kernel((new[t],), choice.schedule) for t, choice in candidate.copies]
    outputs = tuple(new[t] for t in candidate.tensors)
    local = tuple((new[t], lead) for t, lead in group.local)
    kernels.append(Kernel(outputs, candidate.choice.schedule, local))
    return lang.program(tuple(stand_ins.values()), outputs), Plan(tuple(kernels))


def measure(
    programs: Sequence[tuple[Program, Plan]], seconds: float, *, threads: int | None = None, clock: Clock = time.perf_counter
) -> list[float]:
    """Seconds of each program: the quickest of interleaved runs."""
    from assay.backends.cpp import compile_many

    built = compile_many([p for p, _ in programs], plans=[plan for _, plan in programs], threads=threads)
    arrays: dict[tuple[str, tuple[int, ...]], np.ndarray] = {}
    calls = [(e, [_array(t, arrays) for t in e.program.inputs]) for e in built]
    return interleaved([lambda e=e, a=a: e(a) for e, a in calls], seconds, clock=clock)


def interleaved(calls: Sequence[Callable[[], object]], seconds: float, *, clock: Clock = time.perf_counter) -> list[float]:
    """Seconds of each call: the quickest of runs that alternate until about `seconds` have passed."""
    best = [math.inf] * len(calls)
    for call in calls:
        call()
    end = time.perf_counter() + seconds
    rounds = 0
    while rounds < 3 or time.perf_counter() < end:
        for k, call in enumerate(calls):
            start = clock()
            call()
            best[k] = min(best[k], clock() - start)
        rounds += 1
    return best


def _array(t: T, known: dict[tuple[str, tuple[int, ...]], np.ndarray]) -> np.ndarray:
    """Ordinary numbers of the type and shape of `t`."""
    key = (f"{t.name} {t.dtype.name}", t.shape)
    found = known.get(key)
    if found is None:
        rng = np.random.default_rng(len(known))
        values = rng.standard_normal(t.shape) if t.dtype.is_float else rng.integers(0, 2, t.shape)
        found = known[key] = values.astype(t.dtype.numpy)
    return found


# ------------------------------------------------------------------------------------------------ memory


def _file(program: Program, first: int) -> Path:
    key = hashlib.sha256("\0".join((show(program), cpu_model(), str(first))).encode()).hexdigest()[:24]
    return directory() / f"tuned-{key}.json"


def _read(file: Path) -> list[int] | None:
    try:
        found = json.loads(file.read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, list) and all(isinstance(k, int) and k >= 0 for k in found) else None


def _write(file: Path, picks: list[int]) -> None:
    with contextlib.suppress(OSError):  # timed again the next time
        write_whole(file, json.dumps(picks))


__all__ = ["alone", "interleaved", "measure", "standalone", "tune"]
