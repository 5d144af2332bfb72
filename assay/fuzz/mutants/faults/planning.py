"""Faults in choosing a plan: what is fused, packed and put together, and the program that the plan is for."""

from assay.fuzz.mutants.mutant import Mutant

PART = "schedule|nest|cpp|emit"  # a plan that fits no program is noticed where it is printed


def _in(file: str, *faults: tuple[str, str, str]) -> tuple[Mutant, ...]:
    return tuple(Mutant(name, PART, f"backends/schedule/{file}", old, new) for name, old, new in faults)


TABLE = (
    *_in("fuse.py",
         ("a merged group writes the memory of another shape", "return Group(made, self.sources, (), self.tensors)", "return Group(made, self.sources, (), made)"),
         ("a row buffer is asked for rows that its tensor lacks", "all(0 <= i.lo and i.hi < n and i.free <= known for", "all(i.free <= known for"),
         ("a row buffer is filled inside a fold", "i.hi < n and i.free <= known for", "i.hi < n for"),
         ("a guarded read of a row buffer loses its guard", 'lang.load_as(how, made[source], *idx)\n            return None', "lang.load(made[source], *idx)\n            return None"),
         ("an inlined let is read at reversed indices", "return inline_load(made[source], idx, how)", "return inline_load(made[source], idx[::-1] if len(set(source.shape)) == 1 else idx, how)"),
         ("a row buffer has one leading index too few", "used[made[r]] = len(r.shape) - 1", "used[made[r]] = max(0, len(r.shape) - 2)")),
    *_in("decide.py",
         ("the checks of the program are not in the plan", "checks(program, final), program.name, program.guards)", "(), program.name, program.guards)"),
         ("outputs of the plan are the program's own tensors", "outputs = [final.get(t, t) for t in program.outputs]", "outputs = list(program.outputs)"),
         ("a reader of a packed operand keeps the old one", "            return t\n        return lang.rewrite_tensor(t, on_load, lambda x: final.get(x, x))", "            return t\n        return lang.rewrite_tensor(t, on_load, lambda x: x)")),
)  # fmt: skip
