"""Calling compiled programs: binding arrays, memory of results and intermediates, errors of requires, externs."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NoReturn

import numpy as np

from assay.backends import threads as threads_
from assay.backends.memory import POOL, size_class
from assay.backends.plan import Plan
from assay.core.dtypes import bf16
from assay.core.errors import UserError
from assay.core.lang import Program, T, size_of
from assay.semantics.denote import evaluate, raise_require
from assay.verify.link import Link

RELEASE = 1 << 15  # from this many bytes of tensors on, a call releases the GIL
_FORMATS = {"bool": "?", "i8": "b", "i16": "h", "i32": "i", "i64": "l", "u8": "B",
            "f16": "e", "bf16": "H", "f32": "f", "f64": "d"}  # fmt: skip


class _Input(ctypes.Structure):
    _fields_ = (("ndim", ctypes.c_long), ("format", ctypes.c_long), ("shape", ctypes.c_void_p))


class _Call(ctypes.Structure):
    """What the native call needs to know besides the arrays."""

    _fields_ = (("inputs", ctypes.c_void_p), ("count", ctypes.c_long), ("pointers", ctypes.c_void_p),
                ("run", ctypes.c_void_p), ("threads", ctypes.c_long), ("release", ctypes.c_long))  # fmt: skip


@dataclass(frozen=True)
class Step:
    """Native code (the exported function `entry`, kernels in it), or the externs that run on the host between."""

    entry: str | None
    tensors: tuple[T, ...]


@dataclass
class Layout:
    """Where each tensor of a program lives: `slot` in the array of pointers, `offset` in the arena of intermediates.

    `sizes`: of code for all sizes, those of this program.
    """

    slots: dict[T, int]
    failures: dict[T, int]
    offsets: dict[T, int] = field(default_factory=dict)
    arena: int = 0
    sizes: tuple[int, ...] = ()


class _Frame:
    """The pointers of one call in progress; calls from several threads use different frames."""

    __slots__ = ("address", "arena", "call", "described", "pointers", "sizes", "status")

    def __init__(self, layout: Layout, spec: int, count: int, entry: int, threads: int, release: int) -> None:
        self.pointers = (ctypes.c_void_p * (len(layout.slots) + 2))()
        self.sizes = np.array(layout.sizes or (0,), np.int64)
        self.pointers[len(layout.slots) + 1] = self.sizes.ctypes.data
        self.address = ctypes.addressof(self.pointers)
        self.described = _Call(spec, count, self.address, entry, threads, release)
        self.call = ctypes.addressof(self.described)
        self.status = np.zeros(max(1, len(layout.failures)), np.int64)
        self.pointers[len(layout.slots)] = self.status.ctypes.data
        self.arena: np.ndarray | None = None
        if layout.arena:
            self.arena, start = POOL.array((layout.arena,), np.dtype(np.uint8), size_class(layout.arena))
            for t, offset in layout.offsets.items():
                self.pointers[layout.slots[t]] = start + offset


class Executable:
    """A compiled program: called with arrays of exactly the declared dtypes and shapes, it returns a list of new arrays.

    text     the C++ of its translation unit       plan     what was decided about its kernels
    timings  seconds of each step that was made     threads  how many threads it may use
    layout   where its tensors live                 key      of its build

    Inputs that are not C-contiguous are copied.  Raises UserError for a wrong dtype or shape, and the error of the first
    require that does not hold.  May be called from several threads at once.
    """

    def __init__(self, program: Program, made: Callable[[], tuple[Plan, str]], timings: dict[str, float], steps: list[Step],
                 layout: Layout, library: ctypes.CDLL, threads: int, key: str,
                 proofs: Callable[[], tuple[Link, ...]]) -> None:  # fmt: skip
        self.key = key
        self._proofs = proofs
        self.program, self._made_of, self.timings, self.threads = program, made, timings, threads
        self.layout, self._library, self.steps = layout, library, steps
        self._entries = [ctypes.cast(getattr(library, s.entry), ctypes.c_void_p).value if s.entry else 0 for s in steps]
        self._native = threads_.native()
        self._call = self._native.call
        self._frames: list[_Frame] = []
        inputs = program.inputs
        self._shapes = [(ctypes.c_long * max(1, len(t.shape)))(*t.shape) for t in inputs]
        described = [
            _Input(len(t.shape), ord(_FORMATS[t.dtype.name]), ctypes.addressof(s))
            for t, s in zip(inputs, self._shapes, strict=True)
        ]
        self._inputs = (_Input * max(1, len(inputs)))(*described)
        self._spec = ctypes.addressof(self._inputs)
        self._count = len(inputs)
        computed = [t for t in dict.fromkeys(program.outputs) if t.kind != "input"]
        self._results = [(layout.slots[t], t.shape, t.dtype.numpy, size_class(size_of(t))) for t in computed]
        self._made = computed
        self._direct = program.outputs == tuple(computed) and len(steps) == 1 and steps[0].entry is not None
        self._reinterpreted = [k for k, t in enumerate(inputs) if t.dtype is bf16]
        total = sum(size_of(t) for t in layout.slots)
        self._release = int(total >= RELEASE)

    @cached_property
    def _origin(self) -> tuple[Plan, str]:
        return self._made_of()

    @cached_property
    def links(self) -> tuple[Link, ...]:
        """What is proved of its schedule and its loop nests: found while g++ ran, read from its record, or found now."""
        return self._proofs()

    @property
    def plan(self) -> Plan:
        return self._origin[0]

    @property
    def text(self) -> str:
        return self._origin[1]

    def __repr__(self) -> str:
        return f"<compiled {self.program.name}: {len(self.plan.kernels)} kernels, {self.threads} threads>"

    def __call__(self, arrays: Sequence[Any]) -> list[np.ndarray]:
        try:
            frame = self._frames.pop()
        except IndexError:
            frame = _Frame(self.layout, self._spec, self._count, self._entries[0] or 0, self.threads, self._release)
        try:
            pointers, results, array = frame.pointers, [], POOL.array
            for slot, shape, dtype, size in self._results:
                made, pointers[slot] = array(shape, dtype, size)
                results.append(made)
            bound = self._bindable(arrays) if self._reinterpreted else tuple(arrays)
            if not self._direct or bound is None:
                return self._stepwise(tuple(arrays), frame, results)
            done = self._call(bound, frame.call)
            if done:
                if done > 0:
                    self._fail(done - 1, frame, results, arrays)
                return self._stepwise(tuple(arrays), frame, results)
            return results
        finally:
            self._frames.append(frame)

    def _bindable(self, arrays: Sequence[Any]) -> tuple[Any, ...] | None:
        """The arrays with bf16, which no buffer can describe, as u16; None where one is not as declared."""
        views = list(arrays)
        for k in self._reinterpreted:
            a = views[k] if k < len(views) else None
            if type(a) is not np.ndarray or a.dtype != bf16.numpy or not a.flags.c_contiguous:
                return None
            views[k] = a.view(np.uint16)
        return tuple(views)

    # -------------------------------------------------------------------------------------------- the general path

    def _stepwise(self, arrays: tuple[Any, ...], frame: _Frame, results: list[np.ndarray]) -> list[np.ndarray]:
        """Bind any arrays (copied where they are not C-contiguous) and run step by step."""
        inputs = self._checked(arrays)
        held = dict(zip(self.program.inputs, inputs, strict=True))
        for t, a in held.items():
            frame.pointers[self.layout.slots[t]] = a.ctypes.data
        for step, entry in zip(self.steps, self._entries, strict=True):
            if step.entry is None:
                self._externs(step.tensors, frame, held, results)
                continue
            done = self._native.bound(frame.address, entry, self.threads)
            if done:
                self._fail(done - 1, frame, results, inputs)
        found = dict(zip(self._made, results, strict=True))
        outputs: list[np.ndarray] = []
        for k, t in enumerate(self.program.outputs):
            a = held[t].copy() if t.kind == "input" else found[t]
            outputs.append(a.copy() if t in self.program.outputs[:k] else a)
        return outputs

    def _checked(self, arrays: tuple[Any, ...]) -> list[np.ndarray]:
        wanted = self.program.inputs
        if len(arrays) != len(wanted):
            raise UserError(f"program {self.program.name} takes {len(wanted)} inputs, not {len(arrays)}")
        return [_array(t, a) for t, a in zip(wanted, arrays, strict=True)]

    def _view(self, t: T, frame: _Frame, results: list[np.ndarray]) -> np.ndarray:
        """The array of a tensor that the program computes."""
        if t in self._made:
            return results[self._made.index(t)]
        assert frame.arena is not None
        offset = self.layout.offsets[t]
        return frame.arena[offset : offset + size_of(t)].view(t.dtype.numpy).reshape(t.shape)

    def _externs(self, tensors: tuple[T, ...], frame: _Frame, held: dict[T, np.ndarray], results: list[np.ndarray]) -> None:
        known = {r: held[r] if r in held else self._view(r, frame, results) for t in tensors for r in t.args}
        for t, value in zip(tensors, evaluate(tensors, known), strict=True):
            self._view(t, frame, results)[...] = value

    def _fail(self, number: int, frame: _Frame, results: list[np.ndarray], arrays: Sequence[Any]) -> NoReturn:
        """Raises the error of the require `number`, or of one that the program checks before it and that has not run yet."""
        t = next(t for t, k in self.layout.failures.items() if k == number)
        earlier = self.program.checks[: self.program.checks.index(t)]
        ran = [made for step in self.steps for made in step.tensors]
        passed = set(ran[: ran.index(t)])
        open_ = [c for c in earlier if c not in passed]
        if open_:
            evaluate(open_, dict(zip(self.program.inputs, self._checked(tuple(arrays)), strict=True)))
        at = int(frame.status[number])
        raise_require(t, at, self._view(t, frame, results).reshape(-1)[at])


def _array(t: T, a: Any) -> np.ndarray:
    if not isinstance(a, np.ndarray | np.generic):
        raise UserError(f"input {t.name!r}: a numpy array is needed, not {type(a).__name__}")
    if a.dtype != t.dtype.numpy:
        raise UserError(f"input {t.name!r}: dtype {a.dtype} given, {t.dtype.numpy} ({t.dtype.name}) needed")
    if a.shape != t.shape:
        raise UserError(f"input {t.name!r}: shape {list(a.shape)} given, {list(t.shape)} needed")
    return np.require(np.asarray(a, order="C"), requirements="A")


def arena(layout: Layout, order: Sequence[tuple[T, int, int]]) -> None:
    """Give the intermediates (tensor, first step, last step) offsets, so that those alive together do not overlap."""
    placed: list[tuple[int, int, int, int]] = []
    for t, first, last in sorted(order, key=lambda x: -size_of(x[0])):
        size = -(-max(1, size_of(t)) // 64) * 64
        at = 0
        for start, end, f, g in sorted(placed):
            if f <= last and first <= g and start < at + size and at < end:
                at = end
        placed.append((at, at + size, first, last))
        layout.offsets[t] = at
        layout.arena = max(layout.arena, at + size)


__all__ = ["Executable", "Layout", "Step", "arena"]
