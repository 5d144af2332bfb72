"""Every intermediate value behind one element of a tensor: what a counterexample shows.

No second evaluator: each intermediate expression, its axes fixed at the element, is a tensor of shape () that `denote`
evaluates; the states of a fold are the scan of it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.core.index import ix
from assay.core.lang import LOADS, E, Program, T, axes, let, program, scan, substitute, walk
from assay.core.text import Names
from assay.semantics.denote import run

MOST_LINES = 60
_TENSOR = re.compile(r"\w+:\w+\[[\d, ]*\]")  # as a tensor prints itself


@dataclass(frozen=True)
class Line:
    """One intermediate value: `name = text` had `value`."""

    name: str
    text: str
    value: Any

    def __str__(self) -> str:
        return f"{self.name} = {self.text}  -> {format_value(self.value)}"


def format_value(v: Any) -> str:
    """A scalar so that its bits can be read off: -0.0, nan, and floats also in hex where decimal hides them."""
    array = np.asarray(v)
    if array.dtype.kind in "biu":
        return str(array.item())
    x = float(array.astype(np.float64))
    return repr(x) if not np.isfinite(x) or x == int(x) else f"{x!r} ({x.hex()})"


def intermediates(p: Program, t: T, element: Sequence[int], inputs: Sequence[np.ndarray]) -> list[Line]:
    """The values of all subexpressions of t[element] in evaluation order, the last being the element itself.

    Subexpressions inside a fold have one value per iteration: of a fold the states are shown, at most the first and the
    last four.  Only lets and requires have elements of their own; for other kinds the list is empty.
    """
    if t.kind not in ("let", "require"):
        return []
    body = substitute(t.body, {v: ix(int(i)) for v, i in zip(axes(t.shape), element, strict=True)})
    nodes = [e for e in walk((body,)) if not e.free and e.op not in ("const", "acc")][-MOST_LINES:]
    tensors: list[T] = []
    for e in nodes:
        tensors.append(scan((), e, 0, 0) if e.op == "fold" else let((), e))
    values = run(program(p.inputs, tensors), list(inputs))
    names: dict[E, str] = {}
    lines: list[Line] = []
    for e, v in zip(nodes, values, strict=True):
        names[e] = f"v{len(names)}"
        if e.op == "fold":
            shown = list(v) if len(v) <= 9 else [*v[:4], *v[-4:]]
            states = ", ".join(format_value(s) for s in shown[:4]) + (", ..., " if len(v) > 9 else ", " if shown[4:] else "")
            text = f"fold of {e.attr.n} steps, states {states}{', '.join(format_value(s) for s in shown[4:])}"
            lines.append(Line(names[e], text, v[-1]))
        else:
            lines.append(Line(names[e], named(_text(e, names), p), v))
    return lines


def named(text: str, p: Program) -> str:
    """The text with the tensors of `p` called as in the text of `p`: t25:f32[64, 128] becomes t0."""
    names = {repr(t): name for t, name in Names(p).of.items()}
    return _TENSOR.sub(lambda m: names.get(m[0], m[0]), text)


def _text(e: E, names: dict[E, str]) -> str:
    if e.op in (*LOADS, "idx", "proj"):
        return repr(e) if e.op != "proj" else f"accumulator {e.attr} of {names.get(e.args[0], 'a fold')}"
    arguments = (names.get(a) or repr(a) for a in e.args)
    kind = f":{e.dtype.name}" if e.op in ("convert", "bitcast") else ""
    return f"{e.op}{kind}({', '.join(arguments)})"
