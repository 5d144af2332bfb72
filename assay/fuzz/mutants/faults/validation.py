"""Faults in translation validation: each makes it believe that programs are equal which are not."""

from assay.fuzz.mutants.mutant import Mutant


def _in(file: str, *faults: tuple[str, str, str]) -> tuple[Mutant, ...]:
    return tuple(Mutant(name, "validator", f"verify/{file}", old, new) for name, old, new in faults)


TABLE = (
    *_in("equal.py",
         ("reads of one tensor are equal wherever they are", "                answer = yield from self._all_indices(idx, jdx, c)\n                if not isinstance(answer, Mismatch):\n                    return answer\n            elif", "                return EQUAL\n            elif"),
         ("equal first arms make choices equal", "        for holds in (True, False):\n            one, other", "        for holds in (True,):\n            one, other"),
         ("the first argument of a function decides", "answer = yield from self.each(zip(a.args, b.args, strict=True), c)", "answer = yield from self.each(zip(a.args[:1], b.args[:1], strict=True), c)"),
         ("all functions of as many arguments are one", "if a.op == b.op and a.args and a.attr == b.attr and len(a.args) == len(b.args):", "if a.args and b.args and a.op not in LOADS and b.op not in LOADS and a.attr == b.attr and len(a.args) == len(b.args):"),
         ("the last axis decides where a read is", "        for i, j in zip(idx, jdx, strict=True):\n            answer = yield from self.indices(i, j, c)", "        for i, j in list(zip(idx, jdx, strict=True))[-1:]:\n            answer = yield from self.indices(i, j, c)"),
         ("a guard is forgotten when a read is opened", "        for i, n in outside:\n            body = select", "        for i, n in outside[:0]:\n            body = select"),
         ("scatters are equal when their bases are", "        if is_empty(t.domain):\n            return base\n", "        return base\n"),
         ("what combines in a scatter does not matter", "if t.combine != s.combine or not same_shape(t.domain, s.domain):", "if not same_shape(t.domain, s.domain):"),
         ("an integer difference is not looked at", "return c.is_zero(difference)", "return True"),
         ("accumulators of one loop are one", 'if a.op == "acc" == b.op and a.attr[:2] == b.attr[:2]:', 'if a.op == "acc" == b.op:')),
    *_in("validate.py",
         ("the first output stands for all", "        for k, (a, b) in enumerate(zip(t.outputs, s.outputs, strict=True)):", "        for k, (a, b) in enumerate(list(zip(t.outputs, s.outputs, strict=True))[:1]):"),
         ("a dropped check is not asked after", "            if not self._always(s):\n                return f\"check {s.message!r}\", Mismatch(\"it was dropped", "            if False:\n                return f\"check {s.message!r}\", Mismatch(\"it was dropped"),
         ("the value of a check may change", "for a, b in ((t.cond, s.cond), (t.body, s.body)):", "for a, b in ((t.cond, s.cond),):")),
    *_in("coverage.py",
         ("a gap of one element between tiles is not seen", "gaps = np.flatnonzero(starts[1:] > ends[:-1])", "gaps = np.flatnonzero(starts[1:] > ends[:-1] + 1)"),
         ("elements beyond an axis do not matter", "if starts[0] < 0 or ends[-1] > axis.n:", "if starts[0] < 0:"),
         ("the last element of an axis does not matter", "    if ends[-1] < axis.n:\n", "    if ends[-1] < axis.n - 1:\n"),
         ("every element is thought to be computed once", 'return "", total == axis.n', 'return "", True'),
         ("the last tile is thought to start where it would", "early = min(p.count, p.last // p.size + 1) if p.last is not None and p.size > 0 else p.count", "early = p.count"),
         ("a check need not be made", '        return "its check is not made"\n', '        return ""\n'),
         ("an update may go anywhere", "if i is not j and not comparator.nowhere.is_zero(i - j):", "if i.lo > j.hi:"),
         ("what is stored is not compared", 'return str(answer) if isinstance(answer, Mismatch) else ""', 'return ""'),
         ("a fold in chunks may have any length", "        if outer[0].attr.n != length:\n", "        if outer[0].attr.n < length:\n"),
         ("threads may divide any axis of a scatter", "if divided is not None and divided not in free:", "if divided is not None and divided >= len(nest.axes):"),
         ("the updates of a scatter may run in any order", 'return "" if kept == sorted(set(kept)) else', 'return "" if kept else'),
         ("what a step reads is thought to be there", "late = [t for t in step.reads if t not in known]", "late = [t for t in step.reads if t.id < 0]"),
         ("an output that nothing computes is not missed", "missing = [t for t in (*s.program.outputs, *s.program.checks) if t not in known]", "missing = [t for t in s.program.checks if t not in known]"),
         ("a kernel need not say what it reads", "hidden = [t for t in loaded - local - step.reads", "hidden = [t for t in loaded - local - loaded"),
         ("a tensor is dead when it is last read", "first[t] <= last[u] and first[u] <= last[t]:", "first[t] < last[u] and first[u] < last[t]:"),
         ("memory is shared by any two tensors", "        open_.append((end, t))\n", "        open_.append((at, t))\n")),
    *_in("regroup.py",
         ("a step that reads what a middle loop starts from is that of a flat fold", "own_accumulators(loops[-1], inner", "own_accumulators(loops[0], inner")),
    *_in("context.py",
         ("a condition that is not refuted holds", "        if not holds and decide(Goal(condition=~condition), self.hypotheses, rlimit=self.rlimit).status == \"proved\":\n            return False\n        return None", "        if not holds and decide(Goal(condition=~condition), self.hypotheses, rlimit=self.rlimit).status == \"proved\":\n            return False\n        return True"),
         ("every condition fails that is not proved", "            return True\n        if not holds and decide", "            return True\n        if True or decide")),
)  # fmt: skip
