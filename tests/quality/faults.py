"""Faults put on purpose into single stages: each is a small change of the real code that a person could make.

Those that a line of one module makes are of the table of mutants (assay/fuzz/mutants/faults); the others break what several
passes share in one of them only.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any
from unittest import mock

from assay.backends.build import FLAGS
from assay.backends.schedule import fuse
from assay.core.index import Ix
from assay.core.lang import E, T
from assay.fuzz.campaign import QUICK
from assay.fuzz.mutants.faults import MUTANTS
from assay.transforms import rewrite as rewriting

# what -ffast-math allows; itself it would also turn off subnormals in the whole process that loads the code
FAST = ("-fassociative-math", "-fno-signed-zeros", "-freciprocal-math", "-ffinite-math-only", "-ffp-contract=fast")
CASES = Path(__file__).parent.parent / "cases" / "faults"


@dataclass(frozen=True)
class Fault:
    """What is changed while the fault is on (`planted`), and the stage that must be named for it."""

    name: str
    stage: str
    planted: Callable[[], contextlib.AbstractContextManager[None]]
    flags: tuple[str, ...] = QUICK

    @property
    def case(self) -> Path:
        """A program that shows it."""
        return CASES / f"{self.name.replace(' ', '_')}.assay"

    @contextlib.contextmanager
    def on(self) -> Iterator[None]:
        """The fault is in the code inside the block."""
        with self.planted():
            yield


def patched(changes: dict[str, Any]) -> Callable[[], contextlib.AbstractContextManager[None]]:
    """The names mean something else."""

    @contextlib.contextmanager
    def planted() -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for target, wrong in changes.items():
                stack.enter_context(mock.patch(target, wrong))
            yield

    return planted


def mutant(name: str) -> Callable[[], contextlib.AbstractContextManager[None]]:
    """The functions of the mutant's module run its text; they stay the objects that others have imported."""

    @contextlib.contextmanager
    def planted() -> Iterator[None]:
        m = MUTANTS[name]
        module = ".".join(("assay", *Path(m.file).with_suffix("").parts)).removesuffix(".__init__")
        importlib.import_module(module)
        wrong = dict(_codes(compile(m.text, str(m.path), "exec", dont_inherit=True)))
        every = [f for f in gc.get_objects() if isinstance(f, FunctionType)]
        found = [f for f in every if f.__module__ == module and f.__qualname__ in wrong]
        assert found, m
        right = [(f, f.__code__) for f in found]
        try:
            for f in found:
                f.__code__ = wrong[f.__qualname__]
            yield
        finally:
            for f, code in right:
                f.__code__ = code

    return planted


def _codes(code: CodeType) -> Iterator[tuple[str, CodeType]]:
    """The functions and methods of a module by their names, without what is defined inside a function."""
    for c in code.co_consts:
        if isinstance(c, CodeType) and "<" not in c.co_qualname:
            yield c.co_qualname, c
            yield from _codes(c)


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


def _joined_anyhow(self: Any, a: fuse.Group, b: fuse.Group) -> fuse.Group | None:
    kinds = {t.kind for t in (*a.tensors, *b.tensors)}
    if kinds != {"let"} or fuse.loop_shape(a.tensors[0]) != fuse.loop_shape(b.tensors[0]):
        return None
    return fuse.Group(a.tensors + b.tensors, a.sources + b.sources, tuple(dict.fromkeys(a.local + b.local)))


def fault(name: str) -> Fault:
    """The fault of this name."""
    return next(f for f in FAULTS if f.name == name)


FAULTS = (
    Fault("inline reads transposed", "inline", patched({"assay.transforms.inline.rewrite": _rewrite_with(_axes_swapped)})),
    Fault("inline drops the guard of a pad", "inline",
          patched({"assay.transforms.inline.rewrite": _rewrite_with(_guard_dropped)})),
    Fault("views are composed in the wrong order", "compose_views",
          patched({"assay.transforms.views.rewrite": _rewrite_with(_axes_swapped)})),
    Fault("views are composed with a reversed axis", "compose_views",
          patched({"assay.transforms.views.rewrite": _rewrite_with(_last_axis_reversed)})),
    Fault("a check is dropped without proof", "propagate_indices", mutant("every check is taken for proved")),
    Fault("a layout is changed and its body is not", "choose_layout", mutant("the body of a changed layout is not permuted")),
    Fault("float sums are split", "schedule", mutant("float sums are split into lanes")),
    Fault("a kernel reads what it computes", "nest",
          patched({"assay.backends.schedule.fuse.Decisions._joined": _joined_anyhow,
                   "assay.backends.cpp._check_order": lambda program, plan: None})),
    Fault("the last elements of a row are not computed", "nest", mutant("the elements behind the last vector are not computed")),
    Fault("folds start from 0", "cpp", mutant("the first values of a fold are zeros")),
    Fault("g++ may reorder and forget NaN", "cpp", contextlib.nullcontext, (*FLAGS, *FAST)),
)  # fmt: skip
