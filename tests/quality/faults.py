"""Faults put on purpose into single stages: each is a small change of the real code that a person could make."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from assay.backends.build import FLAGS
from assay.backends.cpp import folds, nest
from assay.backends.schedule import fuse
from assay.core.index import Ix
from assay.core.lang import E, T, axes, substitute, tensor
from assay.fuzz.campaign import QUICK
from assay.transforms import rewrite as rewriting
from assay.transforms import split
from assay.verify.nests import Axis

# what -ffast-math allows; itself it would also turn off subnormals in the whole process that loads the code
FAST = ("-fassociative-math", "-fno-signed-zeros", "-freciprocal-math", "-ffinite-math-only", "-ffp-contract=fast")
CASES = Path(__file__).parent.parent / "cases" / "faults"


@dataclass(frozen=True)
class Fault:
    """What is changed while the fault is on, and the stage that must be named for it."""

    name: str
    stage: str
    changes: Callable[[], dict[str, Any]]
    flags: tuple[str, ...] = QUICK

    @property
    def case(self) -> Path:
        """A program that shows it."""
        return CASES / f"{self.name.replace(' ', '_')}.assay"

    @contextlib.contextmanager
    def on(self) -> Iterator[None]:
        """The fault is in the code inside the block."""
        with contextlib.ExitStack() as stack:
            for target, wrong in self.changes().items():
                stack.enter_context(mock.patch(target, wrong))
            yield


def _rewrite_with(wrong: Callable[[T, tuple[Ix, ...], str], E]) -> Callable[..., Any]:
    """rewrite(...) in which a let is inlined by `wrong`."""
    right = rewriting.rewrite

    def rewrite(*args: Any, **kwargs: Any) -> Any:
        with mock.patch("assay.transforms.rewrite.inline_load", wrong):
            return right(*args, **kwargs)

    return rewrite


_inline_load = rewriting.inline_load


def _axes_swapped(t: T, idx: tuple[Ix, ...], how: str) -> E:
    return _inline_load(t, (idx[1], idx[0], *idx[2:]) if len(idx) > 1 else idx, how)


def _guard_dropped(t: T, idx: tuple[Ix, ...], how: str) -> E:
    return _inline_load(t, idx, "load")


def _last_axis_reversed(t: T, idx: tuple[Ix, ...], how: str) -> E:
    return _inline_load(t, (*idx[:-1], t.shape[-1] - 1 - idx[-1]) if idx else idx, how)


def _moved_without_its_body(t: T, k: int) -> T:
    shape = (*t.shape[:k], *t.shape[k + 1 :], t.shape[k])
    return tensor(shape, lambda *i: substitute(t.body, dict(zip(axes(t.shape), i, strict=True))))


def _any_monoid(e: E) -> Any:
    with mock.patch("assay.core.row.Monoid.is_exact", return_value=True):
        return _exact_monoid(e)


_exact_monoid = split.exact_monoid


def _joined_anyhow(self: Any, a: fuse.Group, b: fuse.Group) -> fuse.Group | None:
    kinds = {t.kind for t in (*a.tensors, *b.tensors)}
    if kinds != {"let"} or fuse.loop_shape(a.tensors[0]) != fuse.loop_shape(b.tensors[0]):
        return None
    return fuse.Group(a.tensors + b.tensors, a.sources + b.sources, tuple(dict.fromkeys(a.local + b.local)))


_cut = nest.cut


def _without_tails(*args: Any, **options: Any) -> Axis:
    axis = _cut(*args, **options)
    whole = tuple(p for p in axis.pieces if not p.is_tail)
    return Axis(axis.n, whole) if whole and whole[0].lanes > 1 else axis


_declare = folds.declare


def _from_zero(p: Any, v: Any) -> Any:
    accs = _declare(p, v)
    lines = p.block.lines
    names = {n for a in accs for n in a.texts}
    for k, line in enumerate(lines):
        declared = line.partition("=")[0]
        if declared.split(" ")[-1] in names:
            lines[k] = f"{declared}={{}};"
    return accs


def fault(name: str) -> Fault:
    """The fault of this name."""
    return next(f for f in FAULTS if f.name == name)


FAULTS = (
    Fault("inline reads transposed", "inline", lambda: {"assay.transforms.inline.rewrite": _rewrite_with(_axes_swapped)}),
    Fault("inline drops the guard of a pad", "inline",
          lambda: {"assay.transforms.inline.rewrite": _rewrite_with(_guard_dropped)}),
    Fault("views are composed in the wrong order", "compose_views",
          lambda: {"assay.transforms.views.rewrite": _rewrite_with(_axes_swapped)}),
    Fault("views are composed with a reversed axis", "compose_views",
          lambda: {"assay.transforms.views.rewrite": _rewrite_with(_last_axis_reversed)}),
    Fault("a check is dropped without proof", "propagate_indices",
          lambda: {"assay.transforms.indices.is_const": lambda e, value: True}),
    Fault("a layout is changed and its body is not", "choose_layout",
          lambda: {"assay.transforms.layout._move_last": _moved_without_its_body}),
    Fault("float sums are split", "schedule", lambda: {"assay.transforms.split.exact_monoid": _any_monoid}),
    Fault("a kernel reads what it computes", "nest",
          lambda: {"assay.backends.schedule.fuse.Decisions._joined": _joined_anyhow,
                   "assay.backends.cpp._check_order": lambda program, plan: None}),
    Fault("the last elements of a row are not computed", "nest", lambda: {"assay.backends.cpp.nest.cut": _without_tails}),
    Fault("folds start from 0", "cpp",
          lambda: {"assay.backends.cpp.folds.declare": _from_zero}),
    Fault("g++ may reorder and forget NaN", "cpp", dict, (*FLAGS, *FAST)),
)  # fmt: skip
