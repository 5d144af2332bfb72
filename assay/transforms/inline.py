"""Inlining and realisation (section 6.6): which values are stored, and which are recomputed where they are read.

Both directions are theorem 6.1, so the choice is a question of cost alone.  A policy is a set of thresholds; the cost
model of the document is printed beside each decision:

    T_inline = k N (c/P + q/B)         T_realise = N (c/P + q/B) + N b/B + k N b/B

N elements, each c operations on q bytes read, b bytes a stored element, k readers, P operations/s, B bytes/s.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from assay.core.lang import LOADS, E, Program, T, bodies, walk
from assay.core.row import TABLE
from assay.core.sizes import hint
from assay.semantics.cost import Prices, Realisation, realisation
from assay.transforms.contract import bitwise, transform
from assay.transforms.rewrite import must_realise, readers, rewrite

TRANSCENDENTAL = frozenset(("exp", "log", "log10", "log1p", "log2", "sigmoid", "tanh"))
ALSO_DEAR = frozenset(("erf", "erfc", "sin", "cos", "tan", "pow", "gelu", "silu", "softplus", "exp2", "expm1", "atan2"))


@dataclass(frozen=True)
class Policy:
    """Thresholds above which a value with several readers is stored.

    dear             scalar functions that are too dear to evaluate twice
    operations       most scalar operations of a body
    many_readers     with more readers than this, half of `operations` is the limit
    buffers          most distinct tensors that a body reads
    reads            most loads of a body after inlining
    keep_operands    operands of contractions (read inside a fold more often than they have elements) are stored,
                     also with one reader, and folds are stored unless their reader visits each element once
    """

    name: str
    dear: frozenset[str]
    operations: int
    many_readers: int | None
    buffers: int
    reads: int
    keep_operands: bool
    flops: float  # P, operations a second
    bandwidth: float  # B, bytes a second


CPU_DOCUMENT = Policy("cpu, as the document", TRANSCENDENTAL, 50, 5, 4, 12, False, 1e11, 3e10)
GPU_DOCUMENT = Policy("gpu, as the document", frozenset(), 30, None, 4, 8, False, 3e13, 2e12)
CPU = Policy("cpu", TRANSCENDENTAL | ALSO_DEAR, 50, 5, 4, 12, True, 1e11, 3e10)
POLICIES = {"cpu": CPU, "cpu-document": CPU_DOCUMENT, "gpu-document": GPU_DOCUMENT}


@dataclass(frozen=True)
class Decision:
    """Whether one let of the program before was stored or inlined, and why: put into words when it is shown.

    tensor   the let of the program before      made   what it became: everything that it reads decided already
    rule     why it is stored; None: inlined    readers, policy   what the rule was asked of
    """

    tensor: T
    made: T
    rule: str | None
    readers: int
    policy: Policy

    @property
    def realised(self) -> bool:
        return self.rule is not None

    @cached_property
    def model(self) -> Realisation:
        """What the cost model says of either way."""
        t, found = self.made, features(self.made)
        prices = Prices(self.policy.flops, self.policy.bandwidth)
        return realisation(hint(t.size), found.operations, found.read_bytes, t.dtype.itemsize, self.readers, prices)

    def __str__(self) -> str:
        action = "store" if self.realised else "inline"
        rule = self.rule or ("one reader" if self.readers <= 1 else "cheap")
        model = f"model: inline {self.model.inline * 1e6:.2f} us, store {self.model.realise * 1e6:.2f} us"
        return f"{self.tensor!r}: {action} ({rule}; k = {self.readers}; {model})"


@transform(contract=bitwise)
def inline(program: Program, *, policy: Policy = CPU, log: Callable[[Decision], None] | None = None) -> Program:
    """Lets are substituted into their readers, except those that the policy stores.

        a[i:64,k:128] = relu(add(x[i,k], y[i,k]))      s[i:64] = sum(k:128) relu(add(x[i,k], y[i,k]))
        s[i:64] = sum(k:128) a[i,k]               ->
    """
    reading = readers(program)
    operands = contraction_operands(program) if policy.keep_operands else frozenset[T]()

    def inlined(source: T, made: T) -> bool:
        rule = realisation_rule(source, made, reading[source], policy, operand=source in operands)
        if log is not None:
            log(Decision(source, made, rule, len(reading[source]), policy))
        return rule is None

    result = rewrite(program, inlined=inlined)
    if log is not None:
        for t in must_realise(program):
            if t.kind == "let":
                log(Decision(t, t, "an output or an operand named whole", max(1, len(reading[t])), policy))
    return result


def realisation_rule(source: T, t: T, reading: list[T], policy: Policy, *, operand: bool) -> str | None:
    """The rule by which the let `source` with these readers, which has become `t`, is stored, or None: inline it."""
    k = len(reading)
    if operand:
        return "operand of a contraction"
    if policy.keep_operands and t.body.has_fold and not _visited_once(source, reading):
        return "a fold that would be evaluated more than once"
    if k <= 1:
        return None
    found = features(t)
    dear = found.functions & policy.dear
    if dear:
        return f"{min(dear)} with {k} readers"
    if policy.many_readers is not None and k > policy.many_readers and 2 * found.operations > policy.operations:
        return f"{k} readers of {found.operations} operations"
    if found.operations > policy.operations:
        return f"{found.operations} operations, at most {policy.operations}"
    if found.buffers > policy.buffers:
        return f"{found.buffers} buffers read, at most {policy.buffers}"
    if found.reads > policy.reads:
        return f"{found.reads} loads, at most {policy.reads}"
    return None


@dataclass(frozen=True)
class Features:
    """What the realisation rules count in a body."""

    operations: int
    functions: frozenset[str]
    buffers: int
    reads: int
    read_bytes: int


def features(t: T) -> Features:
    """Scalar operations (a named function counts one), functions, distinct tensors and loads of one element of `t`."""
    nodes = walk((t.body,))
    loads = [e for e in nodes if e.op in LOADS]
    rows = [e.op for e in nodes if e.op in TABLE or e.op in ("convert", "bitcast")]
    return Features(len(rows), frozenset(rows), len({e.attr[0] for e in loads}), len(loads), sum(e.dtype.itemsize for e in loads))


def contraction_operands(program: Program) -> frozenset[T]:
    """The lets that some fold reads more than twice as often as they have elements."""
    found: set[T] = set()
    for t in program.tensors:
        if t.kind not in ("let", "require") or not any(e.has_fold for e in bodies(t)):
            continue
        trips: dict[E, int] = {}
        for e in walk((t.body,)):
            trips[e] = max((trips[d] for d in e.deps), default=1) * (hint(e.attr.n) if e.op == "fold" else 1)
            if e.op == "fold":
                found.update(r for r in e.reads if r.kind == "let" and hint(t.size) * trips[e] > 2 * hint(r.size))
    return frozenset(found)


def _visited_once(t: T, reading: list[T]) -> bool:
    """Whether the only reader has no more elements than `t` and reads it outside of folds: no value is computed twice."""
    if len(reading) != 1 or reading[0].kind not in ("let", "require") or hint(reading[0].size) > hint(t.size):
        return False
    return not any(f.op == "fold" and t in f.reads for f in walk((reading[0].body,)))
