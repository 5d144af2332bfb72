"""Reverse mode: a level of the stack that records what is differentiable, and the walk back through what it recorded.

    value.meta[AUTOGRAD] = (node, k)       the value is result k of the call that `node` recorded; a Leaf has no call
    differentiate(AUTOGRAD, seeds, ...)    cotangents carried from results to arguments, latest call first

A node keeps what the derived operator of its call loads (derived.py), nothing else, and only until the walk has passed it.
The walk runs operators under the stack like everything else: with this level muted gradients are plain values, otherwise
(create_graph) they have a history of their own.  Levels are compared by identity, so nested differentiation cannot mix them up.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from assay.core.errors import Unsupported, UserError
from assay.core.lang import Program
from assay.core.operators.registry import Operator
from assay.frontends import source
from assay.frontends.derived import ProgramOperator, active, pullback, reaching
from assay.frontends.partitioned import check_reads, kept, visible
from assay.frontends.rules import Rule, reads, rules_of
from assay.frontends.value import (
    STATE,
    Interpreter,
    Value,
    Writes,
    abstract,
    apply_by_name,
    everywhere,
    process,
    recording,
    values_in,
)

Edge: TypeAlias = "tuple[Node, int]"
Hook: TypeAlias = Callable[[Value], "Value | None"]

_order = itertools.count()


class BackwardError(UserError, RuntimeError):
    """A gradient that cannot be had: what it needs is gone, was changed, or was never recorded."""


class Saved:
    """A value kept for the way back, and how often its memory had been written then."""

    __slots__ = ("count", "name", "value")

    def __init__(self, name: str, value: Value) -> None:
        self.name, self.value = name, value
        self.count = 0 if value.writes is None else value.writes.count

    def get(self, reader: str) -> Value:
        """The value.  Raises BackwardError where its memory was written since."""
        v = self.value
        if v.writes is not None and v.writes.count != self.count:
            raise BackwardError(
                f"the backward of {reader} needs the value of {self.name!r}, {v.dtype.name}{list(v.shape)}, as it was in the "
                f"forward pass; since then it was changed in place by {v.writes.writer} (version {v.writes.count}, saved at "
                f"{self.count}). Use the operator without the underscore there, or clone() the tensor before it is changed"
            )
        return v


class Node:
    """What the way back needs of one call; `edges` say, for each argument that has a gradient, where that comes from."""

    __slots__ = ("__weakref__", "edges", "found", "hooks", "level", "order", "outputs", "retained", "where")

    def __init__(self, level: Autograd, edges: Sequence[Edge | None], outputs: int) -> None:
        self.level = level
        self.edges = tuple(edges)
        self.outputs = outputs
        self.order = next(_order)
        self.hooks: dict[int, dict[int, Hook]] | None = None
        self.retained: set[int] | None = None  # results whose gradient retain_grad() asked for
        self.found: dict[int, Any] | None = None  # result -> its `grad`, a tensor
        self.where = source.where() if level.anomaly else ""

    @property
    def name(self) -> str:
        """The name of the call, as messages say it."""
        raise NotImplementedError

    def pull(self, cotangents: Sequence[Value | None], wanted: Sequence[bool], *, keep: bool) -> Sequence[Value | None]:
        """The gradients of the arguments, those that are not wanted None; what was saved is let go unless `keep`."""
        raise NotImplementedError

    @property
    def next_functions(self) -> tuple[tuple[Node, int] | tuple[None, int], ...]:
        """The nodes of the arguments."""
        return tuple([(None, 0) if e is None else e for e in self.edges])

    def __repr__(self) -> str:
        words = self.name.partition(".")[0].split("_")
        return f"<{''.join(w[:1].upper() + w[1:] for w in words)}Backward of {self.name}>"


class Leaf(Node):
    """A tensor that requires a gradient by the user's wish; `grad` is what backward() has brought it.

    In a capture: `behind` is the node outside that it stands for.
    """

    __slots__ = ("after", "behind", "grad")

    def __init__(self, level: Autograd) -> None:
        super().__init__(level, (), 1)
        self.grad: Any = None
        self.behind: Node | None = None
        self.after: dict[int, Callable[[], None]] | None = None  # called when something was added to `grad`

    @property
    def name(self) -> str:
        return "leaf"

    def __repr__(self) -> str:
        return "<leaf>"


class Outer(Node):
    """What stands in a capture for the history that a tensor has outside: a gradient may be asked for, but not go through it."""

    __slots__ = ("behind",)

    def __init__(self, level: Autograd, behind: Node) -> None:
        super().__init__(level, (), 1)
        self.behind = behind

    @property
    def name(self) -> str:
        return "a history from outside of the captured function"


class CallNode(Node):
    """A call of an operator: `wanted` are the tensor arguments with a gradient, `given` the results that depend on them."""

    __slots__ = ("given", "op", "program", "saved", "unsupported", "wanted")

    def __init__(self, level: Autograd, op: Operator, p: Program, values: Sequence[Value], out: Sequence[Value],
                 wanted: tuple[int, ...], given: tuple[int, ...]) -> None:  # fmt: skip
        super().__init__(level, [values[k].meta[level] for k in wanted], len(out))
        self.op, self.program, self.wanted, self.given = op, p, wanted, given
        self.saved: dict[int, Saved] | None = {}
        self.unsupported: Unsupported | None = None
        try:
            reads = kept(op, p, wanted, given)
        except Unsupported as error:  # of no concern unless somebody goes back through it
            self.unsupported, reads = error, ()
        for k in reads:
            self.saved[k] = Saved(p.inputs[k].name, values[k]) if k >= 0 else Saved("the result", twin(out[~k]))

    @property
    def name(self) -> str:
        return self.op.name

    def pull(self, cotangents: Sequence[Value | None], wanted: Sequence[bool], *, keep: bool) -> Sequence[Value | None]:
        if self.unsupported is not None:
            raise Unsupported(f"the backward of {self.name}: {self.unsupported}")
        if self.saved is None:
            raise gone(self.name)
        given = tuple(k for k in self.given if cotangents[k] is not None)
        through = reaching(self.op, self.program, tuple(itertools.compress(self.wanted, wanted)), given)
        derived = pullback(self.op, self.program, through, given) if through else None
        arguments = [cotangents[k] for k in given]
        reads = derived.reads if derived else ()
        check_reads(self.op, reads, self.saved.keys())
        for k in reads:
            value = self.saved[k].get(self.name)
            if k < 0 and self.level not in STATE.muted:
                value = twin(value)
                value.meta[self.level] = (self, ~k)
            arguments.append(value)
        if not keep and self.saved:
            self.saved = None
        made = process(derived.operator, tuple(arguments)) if derived else ()
        found = dict(zip(through, made if isinstance(made, tuple) else (made,), strict=True))
        return [found.get(k) if w else None for k, w in zip(self.wanted, wanted, strict=True)]


class RuleNode(Node):
    """A call of an operator that has rules (rules.py): `known` are the arguments, shapes and types that these read, by name."""

    __slots__ = ("known", "op", "rules", "saved")

    def __init__(self, level: Autograd, op: Operator, args: tuple[Any, ...], rules: dict[str, Rule]) -> None:
        given = dict(zip([p.name for p in op.params], args, strict=True))
        wanted = [name for name, a in given.items() if isinstance(a, Value) and level in a.meta]
        super().__init__(level, [given[name].meta[level] for name in wanted], 1)
        self.op = op
        self.rules = [rules[name] for name in wanted]
        self.known: dict[str, Any] = {}
        self.saved: dict[str, Saved] | None = {}
        for name in {name for rule in self.rules for name in reads(rule)} - {"g"}:
            if name not in given:
                of, _, what = name.rpartition("_")
                self.known[name] = getattr(given[of], what)
            elif isinstance(given[name], Value):
                self.saved[name] = Saved(name, given[name])
            else:
                self.known[name] = given[name]

    @property
    def name(self) -> str:
        return self.op.name

    def pull(self, cotangents: Sequence[Value | None], wanted: Sequence[bool], *, keep: bool) -> Sequence[Value | None]:
        if self.saved is None:
            raise gone(self.name)
        known = {"g": cotangents[0], **self.known, **{name: s.get(self.name) for name, s in self.saved.items()}}
        if not keep and self.saved:
            self.saved = None
        return [rule(*map(known.__getitem__, reads(rule))) if w else None for rule, w in zip(self.rules, wanted, strict=True)]


def gone(name: str) -> BackwardError:
    """The error of going back through a call whose saved values were let go."""
    return BackwardError(
        f"backward went through {name} before, and what it had saved was let go; if you need to go back a second time, say "
        "retain_graph=True the first time"
    )


def twin(v: Value) -> Value:
    """The same elements in the same memory, of which the levels learn separately from now on."""
    if v.array is not None and v.writes is None:
        v.writes = Writes()
    made = abstract(v.shape, v.dtype, v.strides)
    made.array, made.meta, made.shares, made.writes = v.array, dict(v.meta), v.shares, v.writes
    return made


class Autograd(Interpreter):
    """Records the calls on which a gradient depends.  With `anomaly`, where they stand in the user's program too."""

    annotates = True

    def __init__(self) -> None:
        self.anomaly = False
        self.check_nan = True

    def process(self, op: Operator, args: tuple[Any, ...]) -> Any:
        stack = STATE.stack
        at = stack.index(self)
        if not self._concerns(args):
            return stack[at - 1].process(op, args)
        asked = op
        if isinstance(op, ProgramOperator):
            op = op.recording(tuple([k for k, v in enumerate(values_in(args)) if self in v.meta]))
        STATE.stack = stack[:at]
        try:
            out = stack[at - 1].process(op, args)
        finally:
            STATE.stack = stack
        self._record(op, args, out if isinstance(out, tuple) else (out,))
        return out if op is asked else visible(op, out)  # a level above that asked for the saved values is given them

    def _concerns(self, args: Iterable[Any]) -> bool:
        """Whether an argument has a history."""
        if self in STATE.muted:
            return False
        for a in args:
            if type(a) is Value:
                if self in a.meta:
                    return True
            elif type(a) is tuple and self._concerns(a):
                return True
        return False

    def _record(self, op: Operator, args: tuple[Any, ...], out: tuple[Value, ...]) -> None:
        values = list(values_in(args))
        wanted = tuple([k for k, v in enumerate(values) if self in v.meta])
        p = op.program(*args)
        given = active(op, p, wanted)
        if not given:
            return
        if (rules := rules_of(op, args, out)) is not None:
            out[0].meta[self] = (RuleNode(self, op, args, rules), 0)
            return
        node = CallNode(self, op, p, values, out, reaching(op, p, wanted, given), given)
        for k in given:
            out[k].meta[self] = (node, k)

    def check_write(self, whole: Value, writer: str) -> None:
        found = whole.meta.get(self)
        if found is not None and type(found[0]) is Leaf:
            raise BackwardError(
                f"{source.quoted()}  {writer}: this tensor is a leaf that requires a gradient (or a view of one), and a leaf is "
                "not changed in place: its gradient would be that of a value that is gone. Say `with assay.no_grad():` to "
                "change the parameter itself, or go on with a new tensor"
            )

    def after_write(self, before: Value, after: Value) -> None:
        """retain_grad() was said of a tensor: it is about what the tensor is now."""
        old, new = before.meta.get(self), after.meta.get(self)
        if old is not None and new is not None and old is not new and old[0].retained and old[1] in old[0].retained:
            old[0].retained.remove(old[1])
            new[0].retained = {new[1], *(new[0].retained or ())}

    def before_write(self, new: Value, writes: Writes) -> None:
        """The call that made `new` keeps a copy of what the write is about to destroy, where it needs it: t *= t."""
        found = new.meta.get(self)
        node = found[0] if found else None
        if isinstance(node, CallNode | RuleNode) and node.saved:
            for saved in node.saved.values():
                v = saved.value
                if v.writes is writes and saved.count == writes.count and v.array is not None:
                    saved.value = twin(v)
                    saved.value.array, saved.value.writes, saved.count = v.array.copy(), None, 0


AUTOGRAD = Autograd()
"""The level of requires_grad and backward(), on the stack of every thread."""

everywhere(AUTOGRAD)


class GradientsInside(BaseException):
    """Told to a capture that had no level of reverse mode: the function asks for gradients, or whether there are any."""


def check_level() -> None:
    """Raises GradientsInside in a capture that records no history: it starts again with one that does."""
    if STATE.trace is not None and AUTOGRAD not in STATE.stack:
        raise GradientsInside


# ------------------------------------------------------------------------------------------------ the way back


def differentiate(level: Autograd, seeds: Sequence[tuple[Edge, Value]], wanted: Sequence[Edge] | None = None, *,
                  keep: bool, create_graph: bool) -> dict[Edge, Value]:  # fmt: skip
    """The gradients of the sum of results times their cotangents `seeds`: of `wanted`, or of all leaves that it depends on.

    Takes the recorded calls from last to first.  `keep`: what they saved stays for another time.
    """
    captured = level is AUTOGRAD and STATE.trace is not None
    on_the_way = set[Node]() if wanted is None and not captured else reached([edge[0] for edge, _ in seeds])
    if captured:
        _check_outside(on_the_way, wanted)
    leads = None if wanted is None else _leading(on_the_way, {node for node, _ in wanted})
    ends = None if wanted is None else set(wanted)
    found: dict[Edge, Value] = {}
    pending: dict[Node, list[Value | None]] = {}
    heap: list[tuple[int, Node]] = []

    def give(edge: Edge, cotangent: Value) -> None:
        node, k = edge
        slots = pending.get(node)
        if slots is None:
            slots = pending[node] = [None] * node.outputs
            heapq.heappush(heap, (-node.order, node))
        before = slots[k]
        slots[k] = cotangent if before is None else apply_by_name("add.Tensor", before, cotangent, 1)

    constant = captured and not create_graph  # gradients are constants at the call too
    with recording(level, wanted=create_graph):
        for edge, cotangent in seeds:
            give(edge, cotangent)
        while heap:
            _, node = heapq.heappop(heap)
            slots = pending.pop(node)
            if constant and (node.hooks or node.retained):
                slots = [None if g is None else apply_by_name("detach", g) for g in slots]
            _run_hooks(node, slots)
            for k, cotangent in enumerate(slots):
                if cotangent is not None and (type(node) is Leaf if ends is None else (node, k) in ends):
                    found[node, k] = cotangent
            wants = [e is not None and (leads is None or e[0] in leads) for e in node.edges]
            if any(wants):
                gradients = node.pull(slots, wants, keep=keep)
                if level.anomaly and level.check_nan:
                    _check(node, gradients)
                for edge, cotangent in zip(node.edges, gradients, strict=True):
                    if edge is not None and cotangent is not None:
                        give(edge, cotangent)
        if constant:
            found = {edge: apply_by_name("detach", g) for edge, g in found.items()}
    return found


def _check_outside(nodes: Iterable[Node], wanted: Sequence[Edge] | None) -> None:
    """Raises BackwardError in a capture where the way back, to the leaves or to `wanted`, would go on outside."""
    ends = None if wanted is None else {node.behind for node, _ in wanted if isinstance(node, Leaf | Outer)}
    for node in nodes:
        if type(node) is Outer and (ends is None or not ends.isdisjoint(reached([node.behind]) - {node.behind})):
            raise BackwardError(
                f"{source.quoted()}  backward() inside of a captured function would leave it, through the history that one of "
                "its tensors has outside; detach() that tensor first, or call backward() on the result outside"
            )


def is_gone(node: Node) -> bool:
    """Whether going back through the node would be an error, since what some call had saved was let go."""
    return any(getattr(n, "saved", n) is None or getattr(n, "ctx", n) is None for n in reached([node]))


def reached(nodes: Iterable[Node]) -> set[Node]:
    """The nodes, and all those they depend on."""
    seen = set(nodes)
    todo = list(seen)
    while todo:
        for e in todo.pop().edges:
            if e is not None and e[0] not in seen:
                seen.add(e[0])
                todo.append(e[0])
    return seen


def _leading(reached: set[Node], ends: set[Node]) -> set[Node]:
    """Those of the nodes that depend on one of `ends`, and these."""
    found: set[Node] = set()
    for node in sorted(reached, key=lambda n: n.order):  # arguments come before the call
        if node in ends or any(e is not None and e[0] in found for e in node.edges):
            found.add(node)
    return found


def _run_hooks(node: Node, slots: list[Value | None]) -> None:
    """Hooks may replace the gradient of the result that they were put on; then retained ones are kept."""
    for k, cotangent in enumerate(slots):
        if cotangent is None:
            continue
        for hook in list((node.hooks or {}).get(k, {}).values()):
            changed = hook(cotangent)
            if changed is not None:
                if changed.shape != cotangent.shape or changed.dtype is not cotangent.dtype:
                    raise UserError(
                        f"a hook on a result of {node.name} returned {changed.dtype.name}{list(changed.shape)}; the gradient is "
                        f"{cotangent.dtype.name}{list(cotangent.shape)}"
                    )
                cotangent = slots[k] = changed
        if node.retained is not None and k in node.retained:
            add_found(node, k, cotangent)


def add_found(node: Node, k: int, g: Value) -> None:
    """grad += g for a result that is no leaf: a new tensor, in memory of its own."""
    from assay.frontends.tensor import fresh

    node.found = node.found or {}
    before = node.found.get(k)
    node.found[k] = fresh(apply_by_name("clone", g) if before is None else apply_by_name("add.Tensor", before.value, g, 1))


def _check(node: Node, gradients: Sequence[Value | None]) -> None:
    """Raises BackwardError where a gradient is not a number, at the line of the forward call."""
    for k, g in enumerate(gradients):
        if g is not None and g.array is not None and g.dtype.is_float and (g.array != g.array).any():
            raise BackwardError(
                f"{source.quoted_line(node.where)}\n  the gradient of argument {k} of {node.name}, called there, is NaN in "
                f"{int((g.array != g.array).sum())} of {g.array.size} elements"
            )


def edge_of(v: Value, level: Autograd = AUTOGRAD) -> Edge | None:
    """Where the gradient of the value goes; None: it has none."""
    return v.meta.get(level)


def make_leaf(v: Value, level: Autograd = AUTOGRAD) -> Leaf:
    """The value becomes a leaf of the level."""
    leaf = Leaf(level)
    v.meta[level] = (leaf, 0)
    return leaf


def check_like(of: Value, made: Value, what: str) -> None:
    """Raises BackwardError for a gradient or tangent of another shape or type than the value it is for."""
    if of.shape != made.shape or of.dtype is not made.dtype:
        raise source.located(BackwardError(
            f"the {what} {made.dtype.name}{list(made.shape)} of {of.dtype.name}{list(of.shape)} must have its shape and type"
        ))  # fmt: skip


__all__ = [
    "AUTOGRAD",
    "Autograd",
    "BackwardError",
    "CallNode",
    "Edge",
    "GradientsInside",
    "Leaf",
    "Node",
    "Outer",
    "RuleNode",
    "Saved",
    "add_found",
    "check_level",
    "check_like",
    "differentiate",
    "edge_of",
    "is_gone",
    "make_leaf",
    "twin",
]  # fmt: skip
