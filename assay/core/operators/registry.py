"""THE operator table.  One entry = an ATen schema and its meaning; everything else follows from the two.

    @operator("add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", samples=...)
    def add(self, other, alpha): return pointwise(..., self, other)

The meaning is a Python function of the arguments in schema order, every one filled in: tensors are core tensors T
(or numbers, where the schema says Scalar), lists are tuples.  It returns a T, or one T per result.  Shapes, types,
eager and compiled code are those of what it returns.

    OPERATORS["add.Tensor"]              an entry
    resolve("add", (x, 2), {})           -> (add.Scalar, (x, 2, 1)): the first overload that fits, defaults filled in
    entry(*arguments)                    -> T or tuple of T: the meaning on core tensors (lowering)
    entry.program(*arguments)            -> Program with the tensor arguments as inputs, in argument order

Columns of an entry: view (the result is an index map of the first argument, whose storage it may share), inverse (how a
write to the view becomes a new value of the parent), inplace_of (the functional operator an in-place one is made
from), decompose (the same value by simpler operators), samples (arguments to try: see samples.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias, TypeVar

from assay.core import sizes
from assay.core.errors import UserError
from assay.core.ieee import ieee
from assay.core.lang import Program, T, input, load, op, program, recorded_requires, tensor
from assay.core.operators.build import written
from assay.core.operators.dependence import Dependences, through_floats
from assay.core.operators.schema import (
    MISSING,
    TENSOR_TYPES,
    Param,
    Schema,
    converter,
    describe,
    fits,
    is_tensor_type,
    parse,
    tag,
)

Meaning: TypeAlias = Callable[..., "T | tuple[T, ...]"]
M = TypeVar("M", bound=Meaning)
Apply: TypeAlias = Callable[..., Any]
Samples: TypeAlias = Callable[[], Iterable[tuple[Any, ...]]]


def _no_samples() -> Iterable[tuple[Any, ...]]:
    return ()


@dataclass(eq=False)
class Operator:
    """One overload; compared by identity.

    inverse(apply, parent, new, *rest) is the new value of the parent of a view after `new` was written to the view;
    `rest` are the view's arguments after the first, and output=k is added where the view has several results.
    decompose(apply, *arguments) computes the result by other operators.  apply(name, *arguments) calls an operator at
    whatever level the caller works on (values, traced values, core tensors).
    backend(program) is what evaluates its programs on arrays; None: the reference.
    convention(*arguments) is a meaning of the same value whose derivative counts as the operator's: at kinks, where the value
    does not say what that is, it has PyTorch's.  It depends on nothing that the operator's own meaning does not depend on, and
    is one for each program of that; where another argument decides, the meaning itself says `as_if` (embedding).
    """

    schema: Schema
    meaning: Meaning
    family: str
    view: bool = False
    inverse: Callable[..., Any] | None = None
    inplace_of: str | None = None
    decompose: Callable[..., Any] | None = None
    samples: Samples = _no_samples
    backend: Callable[[Program], Callable[[list[Any]], Any]] | None = None
    convention: Meaning | None = None
    _plans: dict[Any, list[tuple[Any, ...]] | None] = field(default_factory=dict[Any, "list[tuple[Any, ...]] | None"])
    _programs: dict[Any, Program] = field(default_factory=dict[Any, Program])
    _conventions: dict[Program, Program] = field(default_factory=dict[Program, Program])
    _places: dict[Program, tuple[tuple[int, int], ...]] = field(default_factory=dict[Program, tuple[tuple[int, int], ...]])
    _dependences: dict[Program, Dependences] = field(default_factory=dict[Program, Dependences])

    @property
    def name(self) -> str:
        return self.schema.name

    @property
    def base(self) -> str:
        return self.schema.base

    @property
    def overload(self) -> str:
        return self.schema.overload

    @property
    def params(self) -> tuple[Param, ...]:
        return self.schema.params

    @property
    def returns(self) -> tuple[str, ...]:
        return self.schema.returns

    @property
    def doc(self) -> str:
        """What the entry means, in words."""
        return (self.meaning.__doc__ or "").strip()

    def __repr__(self) -> str:
        return f"<operator {self.schema.text}>"

    def __call__(self, *arguments: Any) -> T | tuple[T, ...]:
        """The meaning of the call on core tensors.  Raises UserError that names the operator and its arguments."""
        try:
            return self.meaning(*arguments)
        except UserError as error:
            if str(error).startswith(self.name):
                raise
            raise type(error)(f"{self.name}({describe(arguments, {})}): {error}") from None

    def declared(self, *arguments: Any) -> T | tuple[T, ...]:
        """The meaning of the call on core tensors; where there is a convention, its derivative is the convention's."""
        made = self(*arguments)
        if self.convention is None:
            return made
        other = self.convention(*arguments)
        if not isinstance(made, tuple) or not isinstance(other, tuple):
            assert isinstance(made, T)
            assert isinstance(other, T)
            return _as_if(made, other)
        return tuple(map(_as_if, made, other))

    def fill(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...] | None:
        """The arguments in schema order with every default filled in; None where the call does not fit the schema."""
        key = (tuple(map(tag, args)), tuple((k, tag(v)) for k, v in kwargs.items())) if kwargs else tuple(map(tag, args))
        if key not in self._plans:
            self._plans[key] = self._plan(args, kwargs)
        plan = self._plans[key]
        if plan is None:
            return None
        filled: list[Any] = []
        for source, convert, value in plan:
            v = value if source is None else args[source] if type(source) is int else kwargs[source]
            filled.append(v if convert is None else convert(v))
        return tuple(filled)

    def _plan(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[Any, ...]] | None:
        """Per parameter: (position or keyword or None, conversion, default)."""
        params = self.params
        if len(args) > sum(not p.keyword_only for p in params) or not kwargs.keys() <= {p.name for p in params}:
            return None
        plan: list[tuple[Any, ...]] = []
        for k, p in enumerate(params):
            if k < len(args) and not p.keyword_only:
                if p.name in kwargs:
                    return None
                source, value = k, args[k]
            elif p.name in kwargs:
                source, value = p.name, kwargs[p.name]
            elif p.default is MISSING:
                return None
            else:
                plan.append((None, None, p.default))
                continue
            if not fits(p.type, tag(value)):
                return None
            plan.append((source, converter(p.type, tag(value)), None))
        return plan

    def program(self, *arguments: Any) -> Program:
        """The call as a core program whose inputs are the tensor arguments in order (an element of a list counts too).

        Tensors may be anything with .shape and .dtype.  Cached by shapes, types and the other arguments.
        """
        key = tuple(map(_key, arguments))
        assumed = sizes.current()
        programs = self._programs if assumed is None else assumed.memory(self)  # what was decided belongs to the assumptions
        found = programs.get(key)
        if found is None:
            inputs: list[T] = []
            actual: list[Any] = []
            places: list[tuple[int, int]] = []
            for k, (p, v) in enumerate(zip(self.params, arguments, strict=True)):
                actual.append(_as_inputs(p.name, v, inputs))
                places += [(k, place) for place in range(len(inputs) - len(places))]
            found = programs[key] = self._written(self, actual, inputs)
            self._places[found] = tuple(places)
            if self.convention is not None:
                self._conventions[found] = self._written(self.convention, actual, inputs)
        return found

    def _written(self, meaning: Meaning, actual: Sequence[Any], inputs: list[T]) -> Program:
        with ieee(), recorded_requires() as effects:
            result = meaning(*actual)
        return program(inputs, result if isinstance(result, tuple) else (result,), effects, name=self.base)

    def differentiated(self, p: Program) -> Program:
        """The program, of the same inputs and values, whose derivative is that of the program `p` of this operator."""
        return self._conventions.get(p, p)

    def dependences(self, p: Program) -> Dependences:
        """For each output of the program `p` of a call, the inputs that a gradient of it goes to.

        Those that it reads through floats, and those that it would read if other arguments had other values, or axes of no
        elements had some (x**0, dropout(x, 1.0)): these have the gradient 0.
        """
        found = self._dependences.get(p)
        if found is None:
            found = through_floats(p)
            floats = frozenset([k for k, t in enumerate(p.inputs) if t.dtype.is_float])
            if any(t.dtype.is_float and on != floats for t, on in zip(p.outputs, found, strict=True)):
                found = tuple([self._with_others(p, k, on) for k, on in enumerate(found)])
            self._dependences[p] = found
        return found

    def _with_others(self, p: Program, k: int, on: frozenset[int]) -> frozenset[int]:
        """The inputs `on`, and those that output `k` reads in some sample."""
        floats = [n for n, t in enumerate(p.inputs) if t.dtype.is_float and p.outputs[k].dtype.is_float]
        return on.union([n for n in floats if self._kind(p, k, n) in self._ever])

    def _kind(self, p: Program, k: int, n: int) -> tuple[int, int, bool]:
        """How output `k` and input `n` stand to each other: result and parameter of the schema, and whether, in the lists that
        these may be, both have the same place (as those of meshgrid that depend on each other)."""
        parameter, place = self._places[p][n]
        return min(k, len(self.returns) - 1), parameter, place == k

    @cached_property
    def _ever(self) -> frozenset[tuple[int, int, bool]]:
        """The kinds of outputs and inputs of which the one reads the other, through floats, in some sample."""
        programs = [self.program(*sample) for sample in self.samples()]
        return frozenset([self._kind(p, k, n) for p in programs for k, on in enumerate(through_floats(p)) for n in on])


def _as_if(value: T, slope: T) -> T:
    """`value`, whose derivative is that of `slope`."""
    if value is slope or not value.dtype.is_float:
        return value
    return tensor(value.shape, lambda *i: op("as_if", load(value, *i), load(slope, *i)))


def _key(v: Any) -> Any:
    """What distinguishes arguments: 1, 1.0 and True, and +0 and -0, are different."""
    t = type(v)
    if t is tuple or t is list:
        return tuple(map(_key, v))
    if t is float:
        return repr(v)
    if t is int or t is bool or t is str or v is None:
        return (t, v)
    return (tuple(v.shape), v.dtype) if is_tensor_type(t) else v


def _as_inputs(name: str, v: Any, inputs: list[T]) -> Any:
    if isinstance(v, tuple | list):
        return tuple(_as_inputs(f"{name}_{k}", x, inputs) for k, x in enumerate(v))  # pyright: ignore[reportUnknownArgumentType]
    if not is_tensor_type(type(v)):
        return v
    inputs.append(input(name, tuple(v.shape), v.dtype))
    return inputs[-1]


OPERATORS: dict[str, Operator] = {}
_OVERLOADS: dict[str, list[Operator]] = {}
_resolved: dict[Any, Operator] = {}


def register(schema: str, meaning: Meaning, *, family: str | None = None, view: bool = False,
             inverse: Callable[..., Any] | None = None, inplace: bool = False,
             decompose: Callable[..., Any] | None = None, samples: Samples = _no_samples,
             convention: Meaning | None = None) -> Operator:  # fmt: skip
    """Add one entry (with `inplace`, also its twin name_(Tensor(a!) self, ...)).  Overloads are tried in this order."""
    parsed = parse(schema)
    family = family or meaning.__module__.rpartition(".")[2]
    made = _add(Operator(parsed, meaning, family, view, inverse, None, decompose, samples, convention=convention))
    if inplace:
        twin = parse(_inplace_schema(parsed))
        _add(Operator(twin, _inplace_meaning(meaning), family, inplace_of=made.name, samples=_same_shape(made)))
    return made


def _add(o: Operator) -> Operator:
    if o.name in OPERATORS:
        raise UserError(f"operator {o.name} is already defined in {OPERATORS[o.name].family}")
    OPERATORS[o.name] = o
    _OVERLOADS.setdefault(o.base, []).append(o)
    _resolved.clear()
    return o


def operator(schema: str, **columns: Any) -> Callable[[M], M]:
    """Decorator: the function is the meaning of `schema`.  Columns as in `register`."""

    def decorate(meaning: M) -> M:
        register(schema, meaning, **columns)
        return meaning

    return decorate


def _inplace_schema(s: Schema) -> str:
    overload = "" if s.overload == "default" else f".{s.overload}"
    first, *rest = (p.text for p in s.params)
    if any(p.keyword_only for p in s.params):
        at = next(k for k, p in enumerate(s.params) if p.keyword_only)
        rest.insert(at - 1, "*")
    first = first.replace("Tensor ", "Tensor(a!) ", 1)
    return f"{s.base}_{overload}({', '.join([first, *rest])}) -> Tensor(a!)"


def _inplace_meaning(meaning: Meaning) -> Meaning:
    def stored(self: T, *rest: Any) -> T:
        result = meaning(self, *rest)
        if isinstance(result, tuple):
            raise UserError("an operator with several results has no in-place form")
        return written(self, result)

    stored.__doc__ = f"self becomes: {(meaning.__doc__ or '').strip()}"
    return stored


def _same_shape(functional: Operator) -> Samples:
    """The samples of the functional operator whose result can be stored in `self`."""

    def samples() -> Iterable[tuple[Any, ...]]:
        for arguments in functional.samples():
            p = functional.program(*arguments)
            if p.outputs[0].shape == tuple(arguments[0].shape) and p.outputs[0].dtype is arguments[0].dtype:
                yield arguments

    return samples


ALIASES = {
    "absolute": "abs", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh", "clip": "clamp", "concat": "cat", "concatenate": "cat", "divide": "div", "fix": "trunc", "ger": "outer",
    "greater": "gt", "greater_equal": "ge", "less": "lt", "less_equal": "le", "moveaxis": "movedim", "multiply": "mul",
    "negative": "neg", "not_equal": "ne", "subtract": "sub", "swapdims": "swapaxes", "true_divide": "div",
}  # fmt: skip
"""Other names that PyTorch has for an operator; a graph records the operator."""


def canonical(base: str) -> str:
    """The name in the table of the operator called `base`, a trailing underscore kept: clip_ is clamp_."""
    if base in _OVERLOADS:
        return base
    name = base.removesuffix("_")
    return ALIASES.get(name, name) + base[len(name) :]


def overloads(base: str) -> list[Operator]:
    """The overloads of `base` in the order they are tried.  Raises UserError with the nearest names."""
    found = _OVERLOADS.get(canonical(base))
    if found is None:
        import difflib

        near = ", ".join(difflib.get_close_matches(base, [*_OVERLOADS, *ALIASES], n=3)) or "see `assay ops`"
        raise UserError(f"unknown operator {base!r}; did you mean: {near}")
    return found


def lookup(name: str) -> Operator:
    """The entry called "base.overload" (or "base", meaning its default overload).  Raises UserError."""
    found = OPERATORS.get(name) or OPERATORS.get(f"{name}.default")
    if found is None:
        base, _, _ = name.partition(".")
        raise UserError(f"unknown overload {name!r}; {base} has: {', '.join(o.name for o in overloads(base))}")
    return found


def resolve(base: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Operator, tuple[Any, ...]]:
    """The first overload of `base` that the arguments fit, and the arguments in schema order, defaults filled in.

    Cached by the types of the arguments.  Raises UserError with the schemas where none fits.
    """
    key = (base, tuple(map(tag, args)), tuple((k, tag(v)) for k, v in kwargs.items()))
    found = _resolved.get(key)
    if found is not None:
        filled = found.fill(args, kwargs)
        if filled is not None:
            return found, filled
    for o in overloads(base):
        filled = o.fill(args, kwargs)
        if filled is not None:
            _resolved[key] = o
            return o, filled
    allowed = "\n  ".join(o.schema.text for o in overloads(base))
    raise UserError(f"{base}({describe(args, kwargs)}): no overload takes these arguments; allowed:\n  {allowed}")


__all__ = [
    "ALIASES", "OPERATORS", "TENSOR_TYPES", "Apply", "Meaning", "Operator", "Param", "Samples", "Schema", "canonical", "lookup",
    "operator", "overloads", "register", "resolve",
]  # fmt: skip
