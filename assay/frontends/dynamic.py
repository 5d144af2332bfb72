"""Capture for all sizes: axes of the arguments become sizes, and what the function decides by them becomes guards.

    Dim("n", 1, 4096)          an axis of that name and range
    capture_dynamic(f, args, kwargs, dynamic=True)

With dynamic=True each extent of an argument that is not 0 or 1 becomes a size; equal extents the same one, so that x + y needs no
guard.  A mapping says which axes: {"x": {0: "n", 1: Dim("m", 1, 64)}}; axes of one name are one size.

The function runs on symbolic shapes.  A guard that gives one size by others (n == m, n % 8 == 0, n == 64) is solved: the
function is captured again with m for n, 8*q for n, 64 for n, so that what comes out is about the sizes that are left.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import optree

from assay.core import dtypes as dt
from assay.core import index as index_
from assay.core import polynomial
from assay.core.errors import AssayError, UserError
from assay.core.index import Div, Ix, Size, evaluate, is_symbolic, ix
from assay.core.lang import E, Program, const, index, op, program
from assay.core.lang.bind import stated
from assay.core.lang.programs import indices
from assay.core.sizes import Assumptions, Guard
from assay.frontends import source
from assay.frontends.capture import Captured, capture, flatten, is_tensor, with_handles
from assay.frontends.tensor import Tensor

ROUNDS = 32  # guards that are solved

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Dim:
    """An axis whose size varies: its name, and the least and the largest size."""

    name: str
    lo: int = 2
    hi: int = polynomial.LIMIT

    def __post_init__(self) -> None:
        named = type(self.name) is str and self.name.isidentifier()
        if not named or type(self.lo) is not int or type(self.hi) is not int or not 0 <= self.lo < self.hi <= polynomial.LIMIT:
            raise UserError(f"{self!r}: a name that is an identifier, and 0 <= lo < hi <= 2**40 are needed")


Dynamic = bool | Mapping[str, Any]


def check_dynamic(x: object) -> None:
    """Raises UserError for what is no value of the option dynamic=."""
    if not isinstance(x, bool | Mapping):
        raise UserError(f"dynamic={x!r}; allowed: True, False, or axes by argument, as in {{'x': {{0: 'n'}}}}")


@dataclass(frozen=True)
class Sizes:
    """The sizes of a captured function, and what they must satisfy.

    `shapes` of the tensor arguments; `names` of them; `solved`: guards that were used to express sizes by others; `assumptions`
    has the guards that are left, and the hints, the sizes of the arguments that were captured.
    """

    shapes: tuple[Shape, ...]
    names: tuple[str, ...]
    assumptions: Assumptions
    solved: tuple[Guard, ...] = ()
    limits: dict[polynomial.Monomial, None] = field(default_factory=dict)  # pyright: ignore

    @property
    def guards(self) -> tuple[Guard, ...]:
        """The conditions that sizes must satisfy, beside their ranges and the shapes."""
        return tuple(self.assumptions.guards.values())

    @property
    def sizes(self) -> tuple[Size, ...]:
        """The sizes that the shapes depend on."""
        extents = [n for shape in self.shapes for n in shape if is_symbolic(n)]
        return tuple(dict.fromkeys(s for n in extents for s in sorted(n.sizes, key=_key)))

    def match(self, shapes: Sequence[Shape]) -> dict[str, int] | str:
        """The sizes at arguments of these shapes, or why they are not served."""
        known: dict[Size, int] = {}
        equations = [(n, m, name, k) for name, a, b in zip(self.names, self.shapes, shapes, strict=True) if len(a) == len(b)
                     for k, (n, m) in enumerate(zip(a, b, strict=True))]  # fmt: skip
        for _ in range(len(equations)):
            for n, m, _, _ in equations:
                solution = _solution(n, m, known)
                if solution is not None:
                    known.update((solution,))
        for n, m, name, k in equations:
            if is_symbolic(n) and not n.sizes <= known.keys():
                return f"{name}.shape[{k}] = {m} is not {n!r} for any sizes"
            expected = evaluate(n, known.__getitem__) if is_symbolic(n) else n
            if expected != m:
                return f"{name}.shape[{k}] is {n!r} = {expected} there, here {m}"
        for s, value in known.items():
            if not s.lo <= value <= s.hi:
                return f"{s.name} = {value} is not in {s.lo}..{s.hi}"
        for g in self.guards:
            if not g.holds(known.__getitem__):
                return f"{g} does not hold" + (f" ({g.where})" if g.where else "")
        for m in self.limits:
            if evaluate(polynomial.monomial(m), known.__getitem__) > polynomial.LIMIT:
                return f"{'*'.join(map(repr, m))} exceeds 2**40"
        return {s.name: value for s, value in known.items()}

    def guarded(self, p: Program) -> Program:
        """The program with the guards, and its products of sizes among the limits."""
        self.limits.update(polynomial.limits(indices(p)))
        return program(p.inputs, p.outputs, p.checks, p.name, [condition(g) for g in self.guards])

    def __str__(self) -> str:
        lines = [f"{s.name} in {s.lo}..{s.hi if s.hi < polynomial.LIMIT else ''}, captured at {self.assumptions.hints[s]}"
                 for s in self.sizes]  # fmt: skip
        for g in (*self.solved, *self.guards):
            lines.append(f"{g}" + (f"    {g.where}" if g.where else ""))
        return "\n".join(lines)


def _key(s: Size) -> Any:
    return s.key


def _solution(n: int, m: int, known: Mapping[Size, int]) -> tuple[Size, int] | None:
    """(size, value) from the equation n == m where all but one size of n, in which it is linear, are known."""
    if not is_symbolic(n):
        return None
    unknown = n.sizes - known.keys()
    if len(unknown) != 1:
        return None
    (s,) = unknown
    if any(s in d.e.sizes or (is_symbolic(d.c) and s in d.c.sizes) for d in index_.divisions(n)):
        return None  # a remainder has the same value at many sizes
    at = [evaluate(n, lambda x, v=v: v if x is s else known[x]) for v in (s.lo, s.lo + 1)]
    step = at[1] - at[0]
    if not step or (m - at[0]) % step:
        return None
    value = s.lo + (m - at[0]) // step
    return (s, value) if evaluate(n, lambda x: value if x is s else known[x]) == m else None


def condition(g: Guard) -> E:
    """The guard as an expression."""
    zero, d = const(0, dt.i64), index(g.d)
    return op("le", zero, d) if g.kind == "ge" else op(g.kind, d, zero)


# ------------------------------------------------------------------------------------------------ capture


def capture_dynamic(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
                    dynamic: Dynamic) -> tuple[Captured, Sizes]:  # fmt: skip
    """The captured call for all sizes, and the sizes; the same assumptions hold for what is made of it later.

    Raises UserError for a mapping that names no argument or axis.
    """
    leaves, _ = flatten(args, kwargs)
    names = [name for name, x in zip(leaf_names(f, args, kwargs), leaves, strict=True) if is_tensor(x)]
    handles = [x for x in with_handles(leaves) if isinstance(x, Tensor)]
    actual = [h.shape for h in handles]
    shapes, hints = symbolic_shapes([h if h.is_contiguous() else None for h in handles], actual, names, dynamic)
    solved: list[Guard] = []
    for _ in range(ROUNDS):
        assumptions = Assumptions(hints, where=source.where)
        failure: AssayError | ValueError | None = None
        try:
            with assumptions:
                captured = capture(f, args, kwargs, shapes)
        except (AssayError, ValueError) as error:  # an axis of 8*q may be split, one of n with n % 8 == 0 may not
            failure = error
        found = next((s for g in assumptions.guards.values() if (s := solve(g, hints)) is not None), None)
        if found is None and failure is not None:
            found = next((_fixed(s, hints) for g in assumptions.guards.values() if g.kind == "eq"
                          for s in sorted(g.d.sizes, key=_key)), None)  # fmt: skip
        if found is None and failure is None:  # a condition that int64 may not hold is asked of fewer sizes
            found = next((_fixed(s, hints) for g in assumptions.guards.values() if not dt.i64.lo <= g.d.lo <= g.d.hi <= dt.i64.hi
                          for s in sorted(g.d.sizes, key=_key)), None)  # fmt: skip
        if found is None and failure is not None:
            at = {s.name: n for s, n in hints.items()}
            failure.args = tuple(stated(at, a) if isinstance(a, str) else a for a in failure.args)  # of this call
            raise failure
        if found is None:
            break
        guard, size, by, part = found
        solved.append(guard)
        if part is not None:
            hints[part] = evaluate_at(part, by, hints[size])
        shapes = [tuple([_put(n, size, by) for n in shape]) for shape in shapes]
    return captured, Sizes(tuple(shapes), tuple(names), assumptions, tuple(solved))


def _put(n: int, size: Size, by: Ix) -> int:
    if not is_symbolic(n):
        return n
    made = index_.rewrite(n, lambda a: ix(a), lambda s: by if s is size else index_.from_atom(s))  # type: ignore[arg-type]
    return made if made.terms else made.c  # type: ignore[return-value]


def evaluate_at(part: Size, by: Ix, n: int) -> int:
    """The value of the size at which `by`, a multiple of it, is n."""
    return n // dict(by.terms)[part]


def _fixed(s: Size, hints: Mapping[Size, int]) -> tuple[Guard, Size, Ix, Size | None]:
    """The size as it is hinted, where an equation of several sizes is in the way."""
    return Guard("eq", index_.from_atom(s) - hints[s]), s, ix(hints[s]), None


def solve(g: Guard, hints: Mapping[Size, int]) -> tuple[Guard, Size, Ix, Size | None] | None:
    """(guard, size, what it is by others, a new size in that) of an equation that gives one."""
    if g.kind != "eq":
        return None
    for a, k in sorted(g.d.terms, key=lambda t: t[0].key, reverse=True):
        if not isinstance(a, Size):
            continue
        rest = g.d - k * index_.from_atom(a)
        if not rest.terms and rest.c % k == 0:
            return g, a, ix(-rest.c // k), None
        if abs(k) != 1:
            continue
        if a not in rest.sizes:
            return g, a, rest * -k, None
    for d in index_.divisions(g.d):  # n == 2*(n//2), and what holds where that does
        (a,) = d.e.sizes if len(d.e.sizes) == 1 else (None,)
        if isinstance(d, Div) and a is not None and d.e is index_.from_atom(a) and hints[a] % d.c == 0:
            part = index_.size(f"{a.name}_{d.c}", -(-a.lo // d.c), a.hi // d.c)
            return Guard("eq", d.e - d.c * index_.from_atom(d), g.where), a, d.c * part, next(iter(part.sizes), None)
    return None


def symbolic_shapes(handles: Sequence[Any], actual: Sequence[Shape], names: Sequence[str],
                    dynamic: Dynamic) -> tuple[list[Shape], dict[Size, int]]:  # fmt: skip
    """The shapes with sizes, and their hints.  An argument that is not row-major (None) keeps its shape."""
    wanted = _wanted(actual, names, dynamic)
    hints: dict[Size, int] = {}
    made: dict[str, Ix] = {}
    shapes: list[Shape] = []
    for handle, shape, dims in zip(handles, actual, wanted, strict=True):
        extents: list[Any] = list(shape)
        for k, d in dims.items() if handle is not None else ():
            if d.name not in made:
                made[d.name] = index_.size(d.name, d.lo, d.hi)
            n = made[d.name]
            (s,) = n.sizes
            if hints.setdefault(s, shape[k]) != shape[k]:
                raise UserError(f"the axes {d.name} have different sizes: {hints[s]} and {shape[k]}")
            if not d.lo <= shape[k] <= d.hi:
                raise UserError(f"the axis {d.name} of size {shape[k]} is not in {d.lo}..{d.hi}")
            extents[k] = n
        shapes.append(tuple(extents))
    return shapes, hints


def _wanted(actual: Sequence[Shape], names: Sequence[str], dynamic: Dynamic) -> list[dict[int, Dim]]:
    """For each tensor argument, its axes that become sizes."""
    if isinstance(dynamic, bool):
        numbers = {n: f"n{k}" for k, n in enumerate(dict.fromkeys(n for shape in actual for n in shape if n > 1))}
        return [{k: Dim(numbers[n]) for k, n in enumerate(shape) if n > 1} for shape in actual]
    unknown = [name for name in dynamic if name not in names]
    if unknown:
        raise UserError(f"dynamic names {unknown[0]!r}, which is no tensor argument; there are: {', '.join(names)}")
    found: list[dict[int, Dim]] = []
    ranges: dict[str, Dim] = {}
    for shape, name in zip(actual, names, strict=True):
        marks = dynamic.get(name, {})
        axes = dict(enumerate(marks)) if isinstance(marks, list | tuple) else dict(marks)
        dims: dict[int, Dim] = {}
        for k, mark in axes.items():
            if mark is None:
                continue
            if type(k) is not int:
                raise UserError(f"dynamic marks axis {k!r} of {name}; allowed: integers, as in {{{name!r}: {{0: 'n'}}}}")
            if not -len(shape) <= k < len(shape):
                raise UserError(f"dynamic marks axis {k} of {name}, which has {len(shape)} axes")
            d = mark if isinstance(mark, Dim) else Dim(str(mark))
            if ranges.setdefault(d.name, d) != d and isinstance(mark, Dim):
                raise UserError(f"the axis {d.name} is given two ranges")
            dims[k % len(shape)] = ranges[d.name]
        found.append(dims)
    return found


def leaf_names(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """The name of each leaf of the arguments: x, weights[2], options['scale']."""
    try:
        parameters = list(inspect.signature(f, follow_wrapped=False).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names: list[str] = []
    paths = optree.tree_paths((args, kwargs), none_is_leaf=True)  # type: ignore[arg-type]
    variadic = next((k for k, p in enumerate(parameters) if p.kind is p.VAR_POSITIONAL), len(parameters))
    for kind, at, *rest in paths:
        if kind == 1:
            head = str(at)
        elif at < variadic:
            head = parameters[at].name
        else:
            head = f"{parameters[variadic].name if variadic < len(parameters) else 'args'}[{at - variadic}]"
        names.append(head + "".join(f"[{k!r}]" for k in rest))
    return names
