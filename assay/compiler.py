"""assay.compile: one compiled entry for each signature of the arguments, called in microseconds.

    g = assay.compile(f)                    compiles at the first call with new shapes, types or static arguments
    g(x, y)                                 the bits of f(x, y)
    g.cache_info()   g.explain_recompiles()     what was compiled, and what made each one necessary

The signature of a tensor is its shape, its type, and its strides where they are not row-major; of anything else its value.
Sizes are specialised.  Python values that the function reads from globals or attributes are fixed at its first call with
a signature; tensors found there are read at every call (a name that is bound to another tensor later still means the first).
What else it does in Python (printing, appending) happens only then.

Outputs own their memory: a later call, or another thread's, never writes to an output that is still in use.  An input that
another thread changes during a call gives an unspecified mixture of old and new elements, never a read out of bounds
through a checked index.

Here: which entry a call gets, when one is compiled, and what is reported of them; `build` hands a program to a backend.
What a signature is stands in frontends/signature.py, what a call of an entry does in entries.py.
"""

from __future__ import annotations

import functools
import inspect
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import optree

from assay.core.collection import uncollected
from assay.core.errors import InternalError, Unsupported, UserError
from assay.core.ieee import ieee
from assay.core.lang import Program
from assay.core.options import named_options
from assay.core.text import show
from assay.core.wording import counted
from assay.dynamic import SizedProgram, sized_program
from assay.entries import Entry, Executable, Links, SizedEntry
from assay.frontends.capture import capture, check_function, flatten, is_tensor, with_handles
from assay.frontends.creation import check_bools
from assay.frontends.dynamic import Dynamic, check_dynamic, leaf_names
from assay.frontends.partitioned import Derivatives
from assay.frontends.signature import (
    array_signature,
    changes,
    describe,
    describe_symbolic,
    dictionary_keys,
    difference,
    further,
    independent,
    leaf_signature,
    refuse_hidden_sharing,
)
from assay.frontends.tensor import Tensor, wrap
from assay.frontends.value import STATE
from assay.partition.choose import Budget, as_budget
from assay.semantics.failure import RequireError
from assay.semantics.lifetimes import working_bytes
from assay.transforms.lower import lower
from assay.transforms.pipeline import optimise
from assay.verify.link import Link

RECOMPILE_LIMIT = 64
QUICK = 4096  # signatures that are found in one step


class CacheInfo(NamedTuple):
    """Calls answered by an existing entry, calls that compiled one, the most entries allowed, entries."""

    hits: int
    misses: int
    limit: int
    entries: int


class Compiled:
    """A function that is compiled for each signature it is called with; see the module."""

    def __init__(self, f: Callable[..., Any], *, backend: str = "cpp", limit: int = RECOMPILE_LIMIT,
                 tune: bool = False, dynamic: Dynamic = False, budget: Budget | None = None,
                 max_order: int | None = None, ahead: bool = False) -> None:  # fmt: skip
        functools.update_wrapper(self, f, updated=())
        self.__name__: str = getattr(f, "__name__", type(f).__name__)
        self.function = f
        self.backend = backend
        self.limit = limit
        self.tune = tune
        self.dynamic = dynamic
        self.derivatives = Derivatives(self._build_derivative, budget, max_order, memory_of(backend), ahead)
        self.entries: dict[Any, Entry | SizedEntry] = {}
        self._sized: dict[Any, list[SizedEntry]] = {}
        self._quick: dict[tuple[Any, ...], tuple[Entry, bool]] = {}
        self._lock = threading.RLock()
        self._misses = 0
        try:
            self._parameters: inspect.Signature | None = inspect.signature(f, follow_wrapped=False)  # what a call binds to
        except (TypeError, ValueError):
            self._parameters = None

    def __reduce__(self) -> str:
        """By name, as a function is: copies of an object that has it have the same one, with what it has compiled."""
        return self.__qualname__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs or STATE.trace is not None:
            return self._slow(args, kwargs)
        key: list[Any] = []
        arrays: list[Any] = []
        for a in args:
            if type(a) is Tensor:
                if a.cell.annotated:
                    return self._slow(args, kwargs)
                signature, array = a.quick or a.described()
                key.append(signature)
                arrays.append(array)
            elif type(a) is np.ndarray:
                if a.dtype == np.bool_:
                    check_bools(a)
                key.append(array_signature(a))
                arrays.append(a)
            else:
                return self._slow(args, kwargs)
        found = self._quick.get(tuple(key))
        if found is None:
            return self._slow(args, kwargs)
        entry, as_tensors = found
        if entry.captured.outside and entry.concerns(()):
            return self._slow(args, kwargs)
        entry.hits += 1
        if not entry.in_order:
            arrays = [arrays[k] if a is None else a for k, a in entry.bound]
        try:
            results = entry.executable(arrays)
        except RequireError as error:
            entry.locate(error)
            raise
        if entry.single:
            return wrap(results[0]) if as_tensors else results[0]
        leaves = [results[o.index] for o in entry.captured.outputs]
        return optree.tree_unflatten(entry.captured.structure, map(wrap, leaves) if as_tensors else leaves)

    def __repr__(self) -> str:
        return f"<compiled {self.__name__}: {counted(len(self._distinct()), 'signature')}, backend {self.backend!r}>"

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def _slow(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Any call: nested arguments, static ones, shared storage, changed inputs."""
        if STATE.trace is not None:
            return self.function(*args, **kwargs)
        if kwargs and self._parameters is not None:
            bound = self._parameters.bind(*args, **kwargs)
            args, kwargs = bound.args, bound.kwargs
        leaves, structure = flatten(args, kwargs)
        tensors = [x for x in with_handles(leaves) if isinstance(x, Tensor)]
        entry = self._entry(leaves, structure, tensors, args, kwargs)
        entry.hits += 1
        if entry.mutates:
            refuse_hidden_sharing(entry.captured, tensors)
        try:
            result = entry.recorded(tensors) if entry.concerns(tensors) else entry(tensors)
        except RequireError as error:
            entry.locate(error)
            raise
        as_tensors = any(isinstance(x, Tensor) for x in leaves) or not tensors
        if entry.fast and not kwargs and all(type(a) in (Tensor, np.ndarray) for a in args):
            key = tuple(a.signature if type(a) is Tensor else array_signature(a) for a in args)
            if all(strides is None for _, _, strides in key):
                if len(self._quick) > QUICK:
                    self._quick.clear()
                self._quick[key] = (entry, as_tensors)
        return result if as_tensors else optree.tree_map(_to_numpy, result, none_is_leaf=True)

    def _entry(
        self, leaves: list[Any], structure: Any, tensors: list[Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Entry:
        key = ((structure, dictionary_keys((args, kwargs))), tuple(map(leaf_signature, leaves)))
        with self._lock:
            if self.dynamic and independent(tensors):
                return self._entry_for_sizes(key, tensors, leaves, args, kwargs)
            found: Any = self.entries.get(key)
            if found is not None and found.more:
                key = (*key, further(found.captured, tensors))
                found = self.entries.get(key)
            if found is None:
                found = self._compile(args, kwargs, leaf_names(self.function, args, kwargs), leaves, tensors)
                self.entries.setdefault(key[:2], found)
                if found.more:
                    self.entries[(*key[:2], further(found.captured, tensors))] = found
            return found

    def _entry_for_sizes(self, key: Any, tensors: list[Tensor], leaves: list[Any], args: tuple[Any, ...],
                         kwargs: dict[str, Any]) -> Entry:  # fmt: skip
        """The entry of the first compiled one that serves the shapes; a new one where none does."""
        alike = key[0], tuple([(len(s[0]), s[1]) if is_tensor(x) else s for x, s in zip(leaves, key[1], strict=True)])
        shapes = [t.shape for t in tensors]
        known = self._sized.setdefault(alike, [])
        why: list[str] = []
        for e in known:
            found = e(shapes)
            if isinstance(found, Entry):
                return found
            why.append(found)
        made = self._compile_for_sizes(args, kwargs, leaves, "; ".join(dict.fromkeys(why)))
        known.append(made)
        self.entries["for sizes", len(self.entries)] = made
        found = made(shapes)
        if isinstance(found, str):
            raise InternalError(f"{self.__name__} compiled for shapes {shapes} does not serve them: {found}")
        return found

    def _compile_for_sizes(self, args: tuple[Any, ...], kwargs: dict[str, Any], leaves: list[Any], why: str) -> SizedEntry:
        names = leaf_names(self.function, args, kwargs)
        self._refuse_more(tuple(f"{name}: {describe(x)}" for name, x in zip(names, leaves, strict=True)))
        start = time.perf_counter()
        with ieee(), uncollected():
            sized = sized_program(self.function, args, kwargs, self.dynamic)
            made_at = time.perf_counter()
            code, nests = build_for_sizes(sized, backend=self.backend)
        self._misses += 1
        seconds = {"capture": made_at - start, "backend": time.perf_counter() - made_at}
        shapes = iter(sized.sizes.shapes)
        described = tuple(f"{name}: {describe_symbolic(x, next(shapes)) if is_tensor(x) else describe(x)}"
                          for name, x in zip(names, leaves, strict=True))  # fmt: skip
        return SizedEntry(sized, code, described, why, seconds, Links(sized.stages), self.derivatives, nests)

    def _compile(self, args: tuple[Any, ...], kwargs: dict[str, Any], names: list[str], leaves: list[Any],
                 tensors: list[Tensor]) -> Entry:  # fmt: skip
        described = tuple(f"{name}: {describe(x)}" for name, x in zip(names, leaves, strict=True))
        self._refuse_more(described)
        start = time.perf_counter()
        captured = capture(self.function, args, kwargs)
        captured_at = time.perf_counter()
        with ieee(), uncollected():
            stages = optimise(lower(captured.graph))
        optimised_at = time.perf_counter()
        links = Links(stages)

        def make() -> Executable:
            with ieee(), uncollected():
                return build(stages[-1].program, backend=self.backend, tune=self.tune, meanwhile=links.prove)

        self._misses += 1
        seconds = {"capture": captured_at - start, "transform": optimised_at - captured_at}
        entry = Entry(captured, stages, make, described, links, self.derivatives, seconds)
        if not entry.concerns(tensors):
            _ = entry.executable  # compiled now; a call that is recorded runs the forward of a partition instead
        return entry

    def _build_derivative(self, program: Program) -> Executable:
        """A derivative of an entry, compiled as the entry is."""
        with ieee(), uncollected():
            return build(optimise(program)[-1].program, backend=self.backend)

    def _refuse_more(self, described: tuple[str, ...]) -> None:
        """Raises UserError where the limit of entries is reached."""
        compiled = self._distinct()
        if len(compiled) >= self.limit:
            raise UserError(
                f"{self.__name__} was compiled for {len(compiled)} signatures, the limit; this call is one more and differs "
                f"from the last one in {difference(compiled[-1].described, described)}.\n"
                "  Pad or bucket the sizes, pass numbers that change as 0-d tensors, split the function, or raise the limit "
                "(Compiled.limit)."
            )

    def _distinct(self) -> list[Entry | SizedEntry]:
        return list(dict.fromkeys(self.entries.values()))

    def cache_info(self) -> CacheInfo:
        """How often an entry was found, how often one was compiled."""
        entries = self._distinct()
        calls = sum(e.hits for e in entries)
        return CacheInfo(calls - self._misses, self._misses, self.limit, len(entries))

    def explain_proofs(self) -> str:
        """For each compiled entry: every pass, the schedule and the loop nests, proved for all inputs, or why not.

        Found while g++ ran, or read from the record of an earlier compile; otherwise now.  What is not proved here, and the
        text of the code, is as good as the tests: `assay.check` runs it.
        """
        lines = [] if self.entries else [f"{self.__name__}: compiled never"]
        for entry in self._distinct():
            lines.append(f"{self.__name__}({', '.join(entry.described)})")
            lines += [f"  {link}" for link in entry.links]
        return "\n".join(lines)

    def explain_partitions(self) -> str:
        """For each recorded derivative: the program of results and gradients, what the backward is given and what it computes
        again, at what prices, and why."""
        lines = [] if self.derivatives.partitions else [f"{self.__name__}: no gradient of it was recorded"]
        for name, made in self.derivatives.partitions:
            lines.append(f"{name}({', '.join(map(repr, made.split.joint.inputs))})")
            lines += [f"  {line}" for line in (*show(made.split.joint.program).splitlines(), "", *str(made).splitlines())]
        return "\n".join(lines)

    def explain_recompiles(self) -> str:
        """For each compiled entry after the first: which argument differed, from what, to what."""
        entries = self._distinct()
        if len(entries) < 2:
            return f"{self.__name__}: compiled {'once' if entries else 'never'}, no recompilation"
        lines = [f"{self.__name__}: compiled {len(entries)} times", f"  1. {', '.join(entries[0].described)}"]
        for k, entry in enumerate(entries[1:], 1):
            if isinstance(entry, SizedEntry) and entry.why:
                lines.append(f"  {k + 1}. {', '.join(entry.described)}, because {entry.why}")
                continue
            nearest = min(entries[:k], key=lambda e: len(changes(e.described, entry.described)))
            lines.append(f"  {k + 1}. because {difference(nearest.described, entry.described)}")
        return "\n".join(lines)


def _to_numpy(x: Any) -> Any:
    return x.numpy() if isinstance(x, Tensor) else x


# ------------------------------------------------------------------------------------------------ backends

BACKENDS = ("cpp", "reference")


def check_backend(backend: str) -> None:
    """Raises UserError for a name that is no backend."""
    if backend not in BACKENDS:
        raise UserError(f"backend={backend!r}; allowed: {', '.join(map(repr, BACKENDS))}")


def build(program: Program, *, backend: str, tune: bool = False, meanwhile: Callable[[], object] = lambda: None) -> Executable:
    """The program compiled by the backend "cpp" or "reference"; `tune` as in `compile`, `meanwhile` is called while g++ runs."""
    check_backend(backend)
    if backend == "reference":
        from assay.semantics import denote

        return functools.partial(denote.run, program)
    from assay.backends import cpp

    return cpp.compile_program(program, tune=tune, meanwhile=meanwhile)


def memory_of(backend: str) -> Callable[[Program], int]:
    """How many bytes the code of a program takes for results and intermediates."""
    if backend == "reference":
        return working_bytes

    def allocated(program: Program) -> int:
        from assay.backends import cpp

        return cpp.allocated(program)

    return allocated


def build_for_sizes(
    sized: SizedProgram, *, backend: str
) -> tuple[Callable[[dict[str, int]], Executable], Callable[[], tuple[Link, ...]]]:
    """Sizes -> the program at them, compiled once for all sizes by "cpp", or run by "reference"; what is proved of its nests.

    What the backend decides by the sizes of the first call is among the guards.
    """
    check_backend(backend)
    if backend == "reference":
        from assay.semantics import denote

        return lambda sizes: functools.partial(denote.run, sized.at(sizes)), tuple
    from assay.backends.cpp.sized import compile_sized

    with sized.sizes.assumptions:
        code = compile_sized(sized.final)
    return lambda sizes: code.at({s.name: sizes[s.name] for s in sized.final.sizes}), lambda: code.links


@named_options
def compile(f: Callable[..., Any] | None = None, *, numerics: str = "exact", backend: str = "cpp", strict: bool = True,
            dynamic: Dynamic = False, tune: bool = False, memory_budget: int | Budget | None = None,
            max_order: int | None = None, ahead: bool = False) -> Any:  # fmt: skip
    """The function, compiled for each signature at its first call; also a decorator, with or without options.

    numerics="exact" gives the bits of eager evaluation.  It returns arrays if numpy arrays are what it
    got, tensors otherwise.
    backend: "cpp" (machine code by g++) or "reference" (the meaning itself, slow).
    tune: at the first call of a signature, time the most promising schedules of every kernel that takes 20 us or more (a
    second or so each) instead of believing the cost model; the winners are remembered on disk.  The bits are the same.
    dynamic: one entry serves many sizes.  True: every extent of an argument may vary; {"x": {0: "n", 1: Dim("m", 1, 64)}}: those
    that are named.  What the function or a pass decides by sizes becomes a guard of the entry; a call that does not satisfy it
    makes another entry (`explain_recompiles` says why).
    memory_budget: how many bytes may be kept from a forward that is recorded for its backward; Budget(saved=, peak=) limits the
    peak of either half too.  None: what takes least time (`explain_partitions` says what is kept and why).  The gradients have
    the same bits whatever it is.
    ahead: compile the backward with the forward, at the first call that is recorded; otherwise when it first runs.
    max_order: gradients of a higher order than this are an error where they are asked for; None: any order, each compiled at
    its first use.
    Raises UserError for an unknown option, Unsupported for numerics="fast" and strict=False.
    """
    if numerics not in ("exact", "fast"):
        raise UserError(f"numerics={numerics!r}; allowed: 'exact', 'fast'")
    check_backend(backend)
    if numerics == "fast":
        raise Unsupported(
            "numerics='fast' (split sums, contraction, elided casts, each by a named law) is not there yet; use 'exact'"
        )
    check_dynamic(dynamic)
    for name, value in (("strict", strict), ("tune", tune), ("ahead", ahead)):
        if type(value) is not bool:
            raise UserError(f"{name}={value!r}; allowed: True, False")
    if not strict:
        raise Unsupported(
            "strict=False (falling back to eager evaluation) is not there: what has no meaning raises where it is used"
        )
    if tune and dynamic:
        raise UserError("tune=True times the schedules for one size; with dynamic there are many: choose one of the two")
    if tune and backend != "cpp":
        raise UserError(f"tune=True times the schedules of backend='cpp'; {backend!r} has none")
    budget = as_budget(memory_budget)
    if max_order is not None and (type(max_order) is not int or max_order < 1):
        raise UserError(f"max_order={max_order!r}; allowed: None, 1, 2, ...")
    if f is None:
        return functools.partial(compile, numerics=numerics, backend=backend, strict=strict, dynamic=dynamic, tune=tune,
                                 memory_budget=memory_budget, max_order=max_order, ahead=ahead)  # fmt: skip
    if isinstance(f, Compiled):
        return f
    if not callable(f):
        raise UserError(f"compile() needs a function, not {type(f).__name__}")
    check_function(f)
    return Compiled(f, backend=backend, tune=tune, dynamic=dynamic, budget=budget, max_order=max_order, ahead=ahead)
