"""choose(program, target): the kernels of a program, and how each is computed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, cached_property

from assay.backends.plan import Kernel, Plan, Schedule
from assay.backends.schedule.cost import Nest, arithmetic, finish
from assay.backends.schedule.fuse import QUICK, Decisions, Group, Model, collapse
from assay.backends.schedule.machine import Machine
from assay.backends.schedule.machine import machine as measured
from assay.backends.schedule.pack import packed, packings, reused
from assay.backends.schedule.space import Choice, orders
from assay.backends.schedule.summary import Summary
from assay.backends.target import Target
from assay.core import lang
from assay.core.errors import InternalError
from assay.core.index import Ix
from assay.core.lang import E, Program, T
from assay.transforms.rewrite import checks
from assay.transforms.split import split_exact_folds

TILES = 3  # register tiles that are tried with packed operands
FORMS = 3  # of these, with each set of operands, the ones that are tried under more schedules


@dataclass(frozen=True)
class Candidate:
    """One way to compute a group: as it is, or with the operands `packed` (by number) copied for the register tile `tile`."""

    seconds: float
    group: Group
    choice: Choice
    lanes: int = 0
    tile: Schedule | None = None
    packed: tuple[int, ...] = ()
    copied: tuple[Choice, ...] = ()

    @cached_property
    def _parts(self) -> tuple[tuple[T, ...], tuple[T, ...]]:
        if self.tile is None:
            return (), self.group.tensors
        copies, t = packed(self.group.tensors[0], self.tile, self.lanes, self.packed)
        return copies, (t,)

    @property
    def tensors(self) -> tuple[T, ...]:
        """What the kernel computes."""
        return self._parts[1]

    @property
    def copies(self) -> tuple[tuple[T, Choice], ...]:
        """The copies of operands, each with its schedule."""
        return tuple(zip(self._parts[0], self.copied, strict=True))

    @property
    def reason(self) -> str:
        """The modelled time and what bounds it."""
        return f"{self.choice.cost.seconds * 1e6:.1f} us, bound by {self.choice.cost.bound}"


def choose(program: Program, target: Target, machine: Machine | None = None) -> tuple[Program, Plan]:
    """The program (lets inlined, operands packed: bitwise) and the plan of its kernels, for the measured or another machine."""
    found = explore(program, target, machine)
    chosen = [(group, candidates[0] if candidates else None) for group, candidates in found.groups]
    return assemble(found.program, chosen, found.log)


@dataclass(frozen=True)
class Explored:
    """The program that is scheduled, its groups with their candidates (none for a reference function), the search log."""

    program: Program
    groups: list[tuple[Group, list[Candidate]]]
    log: tuple[str, ...]


def explore(program: Program, target: Target, machine: Machine | None = None) -> Explored:
    """What is computed together, and the ways to do it, best first."""
    model = _model(target) if machine is None else Model(machine)
    model.start()
    program = collapse(split_exact_folds(program))
    decisions = Decisions(program, model)
    decisions.search()
    merged = [g.merged() for g in decisions.groups()]
    groups = [(g, candidates(g, model) if g.tensors[0].kind != "extern" else []) for g in merged]
    return Explored(program, groups, tuple(decisions.log))


@cache
def _model(target: Target) -> Model:
    m = measured()
    return Model(m if m.lanes == target.lanes else replace(m, lanes=target.lanes, registers=target.registers))


def ranked(t: T, target: Target) -> list[Schedule]:
    """The schedules of a kernel that computes `t` alone, by modelled time, best first."""
    return [c.schedule for c in _model(target).ranked((t,), ())]


def candidates(group: Group, model: Model) -> list[Candidate]:
    """The ways to compute the group by modelled time, best first (never empty); InternalError where no schedule is legal."""
    key = "candidates", model.signature(group.tensors, group.local)
    found = model.memory.get(key)
    if found is None:
        ranked = model.ranked(group.tensors, group.local)
        if not ranked:
            rows = [t for t, _ in group.local]
            raise InternalError(f"no schedule is legal for {list(group.tensors)} with the row buffers {rows}; store these")
        found = [Candidate(c.cost.seconds, group, c) for c in ranked]
        if found[0].seconds > QUICK and reused(k := model.summary(group.tensors, group.local)):
            found += _with_packing(group, k, ranked, model)
            found.sort(key=lambda c: c.seconds)
        model.memory[key] = found
    return [replace(c, group=group) for c in found] if found[0].group is not group else found


def _with_packing(group: Group, k: Summary, ranked: list[Choice], model: Model) -> list[Candidate]:
    """The group with packed operands, for the best register tiles."""
    m = model.machine
    natural = tuple((a, None) for a in range(k.rank))
    tiles: dict[Schedule, set[int]] = {}  # the tiles, and chunks of a carried fold that suited them
    for c in ranked:
        s = c.schedule
        if s.vector is not None and s.jam:
            plain = s._replace(order=natural, carry=None, threads=None, stream=False)
            tiles.setdefault(plain, set()).update({s.carry} - {None})  # type: ignore[arg-type]
    busy = {tile: sum(c for _, c in arithmetic(Nest(k, tile, m))) for tile in tiles}
    found: list[Candidate] = []
    forms: list[tuple[float, int, _Packing]] = []
    for tile in sorted(tiles, key=lambda tile: busy[tile])[:TILES]:
        for operands in packings(group.tensors[0], tile, m.lanes):
            form = _Packing(group, tile, operands, model)
            found.append(form.candidate(tile))
            forms.append((found[-1].seconds, len(forms), form))
    for _, _, form in sorted(forms, key=lambda f: f[:2])[:FORMS]:
        tried = [form.tile._replace(order=order) for order in orders(form.summary, form.tile, form.machine.lanes)]
        tried += [form.tile._replace(carry=carry) for carry in sorted(tiles[form.tile])]
        found += [form.candidate(s) for s in tried]
    return found


class _Packing:
    """The group with some operands packed for a register tile, under several schedules."""

    def __init__(self, group: Group, tile: Schedule, operands: tuple[int, ...], model: Model) -> None:
        self.group, self.tile, self.operands, self.machine = group, tile, operands, model.machine
        copies, t = packed(group.tensors[0], tile, model.machine.lanes, operands)
        self.copied = tuple(model.ranked((c,), ())[0] for c in copies)
        self.extra = sum(c.cost.seconds for c in self.copied)
        self.summary = model.summary((t,), ())

    def candidate(self, s: Schedule) -> Candidate:
        nest = Nest(self.summary, s._replace(threads=None, stream=False), self.machine)
        c, chosen = finish(nest, arithmetic(nest))
        seconds = c.seconds + self.extra
        return Candidate(seconds, self.group, Choice(c, chosen), self.machine.lanes, self.tile, self.operands, self.copied)


def assemble(program: Program, chosen: list[tuple[Group, Candidate | None]], log: tuple[str, ...] = ()) -> tuple[Program, Plan]:
    """The program that the chosen kernels compute, and their plan."""
    final: dict[T, T] = {}

    def on_load(source: T, idx: tuple[Ix, ...], how: str) -> E | None:
        made = final.get(source)
        return lang.load_as(how, made, *idx) if made is not None and made is not source else None

    def rebuild(t: T) -> T:
        if not any(final.get(r, r) is not r for r in t.reads):
            return t
        return lang.rewrite_tensor(t, on_load, lambda x: final.get(x, x))

    kernels: list[Kernel] = []
    computed: set[T] = set()
    for group, candidate in chosen:
        if candidate is None:
            for source, t in zip(group.sources, group.tensors, strict=True):
                final[source] = rebuild(t)
            continue  # a reference function is no kernel
        for copy, choice in candidate.copies:
            made_copy = final[copy] = rebuild(copy)
            if made_copy not in computed:  # of another group, that reads the same operand in the same tiles
                computed.add(made_copy)
                reason = f"packs an operand: {choice.cost.seconds * 1e6:.1f} us"
                kernels.append(Kernel((made_copy,), choice.schedule, reason=reason))
        local: list[tuple[T, int]] = []
        for t, lead in group.local:
            final[t] = rebuild(t)
            local.append((final[t], lead))
        made = tuple(rebuild(t) for t in candidate.tensors)
        stores = tuple(rebuild(t) for t in group.stores)
        final.update(zip(group.sources, stores or made, strict=True))
        new = {s: t for s, t in zip(stores or made, made, strict=True) if s not in computed}  # what was rebuilt may be equal
        computed.update(new)
        if new:
            stores = tuple(new) if stores else ()
            kernels.append(Kernel(tuple(new.values()), candidate.choice.schedule, tuple(local), candidate.reason, stores))
    outputs = [final.get(t, t) for t in program.outputs]
    result = lang.program(program.inputs, outputs, checks(program, final), program.name, program.guards)
    return result, Plan(tuple(kernels), log, program)
