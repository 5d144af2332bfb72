"""ATen schemas: "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", parsed and matched to arguments.

Parameters that say nothing here (layout, device, pin_memory, memory_format, generator) are left out of the schemas.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from assay.core.dtypes import DType
from assay.core.errors import UserError
from assay.core.graph import Node
from assay.core.index import Ix
from assay.core.lang import T

KINDS = ("Tensor", "Scalar", "int", "float", "bool", "str", "ScalarType")

_TYPE = re.compile(r"(\w+)(\([a-z]!?\))?(\?)?(?:\[(\d*)\])?(\?)?$")
_PART = re.compile(r"(?:[^,\[('\n]|\[[^\]]*\]|\([^)]*\)|'[^']*')+")
_SCHEMA = re.compile(r"(\w+)(?:\.(\w+))?\((.*)\)\s*->\s*(.+)$", re.DOTALL)


class _Missing:
    def __repr__(self) -> str:
        return "(required)"


MISSING = _Missing()


@dataclass(frozen=True)
class Type:
    """`kind`, or a list of it (of `length` elements where that is not 0), each element or the whole possibly None.

    `writes`: the argument is updated in place (Tensor(a!)).
    """

    kind: str
    is_list: bool = False
    length: int = 0
    optional: bool = False
    optional_elements: bool = False
    writes: bool = False


@dataclass(frozen=True)
class Param:
    """One parameter of a schema; `default` is MISSING where the caller must give it."""

    name: str
    type: Type
    default: Any
    keyword_only: bool
    text: str


@dataclass(frozen=True)
class Schema:
    """A parsed schema.  `returns` holds one name per result ("" where the schema names none)."""

    base: str
    overload: str
    params: tuple[Param, ...]
    returns: tuple[str, ...]
    text: str

    @property
    def name(self) -> str:
        """base.overload, the overload of an unnamed one being "default"."""
        return f"{self.base}.{self.overload}"


# ------------------------------------------------------------------------------------------------ parsing


@cache
def parse_type(text: str) -> Type:
    """The type written `text`.  Raises UserError for a kind that is not one of KINDS."""
    m = _TYPE.match(text)
    if m is None or m[1] not in KINDS:
        raise UserError(f"schema type {text!r}; allowed: {', '.join(KINDS)}, each with ?, [], [n]")
    is_list = m[4] is not None
    return Type(
        m[1],
        is_list,
        int(m[4]) if m[4] else 0,
        optional=bool(m[5] if is_list else m[3] or m[5]),
        optional_elements=bool(is_list and m[3]),
        writes=bool(m[2] and m[2].endswith("!)")),
    )


def _split(text: str) -> list[str]:
    """`text` at its commas that stand in no bracket and no quotes."""
    return [part for m in _PART.finditer(text) if (part := m[0].strip())]


def parse(text: str) -> Schema:
    """The schema written `text`.  Raises UserError where it is not one."""
    text = " ".join(text.split())
    m = _SCHEMA.match(text)
    if m is None:
        raise UserError(f"not a schema: {text!r}; expected name.overload(Type name=default, *, ...) -> Type")
    params: list[Param] = []
    keyword_only = False
    for part in _split(m[3]):
        if part == "*":
            keyword_only = True
            continue
        declared, _, default_text = part.partition("=")
        type_text, _, name = declared.strip().rpartition(" ")
        type_ = parse_type(type_text)
        default = _default(type_, default_text) if default_text else MISSING
        params.append(Param(name, type_, default, keyword_only, part))
    returned = m[4].strip()
    results = _split(returned[1:-1]) if returned.startswith("(") else [returned]
    for r in results:
        parse_type(r.split()[0])
    returns = tuple(r.split()[1] if " " in r else "" for r in results)
    return Schema(m[1], m[2] or "default", tuple(params), returns, text)


@cache
def _default(type_: Type, text: str) -> Any:
    value = ast.literal_eval(text.strip())
    return _tuple(value, type_) if type_.is_list and value is not None else value


def _tuple(value: Any, type_: Type) -> tuple[Any, ...]:
    """The list argument as a tuple: one value stands for a list of `length` copies of it."""
    if isinstance(value, list | tuple):
        return tuple(value)  # pyright: ignore[reportUnknownArgumentType]
    return (value,) * (type_.length or 1)


# ------------------------------------------------------------------------------------------------ matching

TENSOR_TYPES: list[type] = [T, Node]
"""What counts as a tensor argument.  A frontend appends its own classes (each with .shape and .dtype)."""


def is_tensor_type(t: type) -> bool:
    """Whether values of type `t` are tensors."""
    return issubclass(t, tuple(TENSOR_TYPES))


def tag(value: object) -> Any:
    """What decides whether `value` fits a parameter: its type; for a list also the type of its first element."""
    t = type(value)
    if t is list or t is tuple:
        for x in value:  # type: ignore[attr-defined]
            if x is not None:
                return (list, type(x))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        return (list, None)
    return t


_SCALARS = {
    "Scalar": (bool, int, float, np.generic, Ix),
    "float": (int, float, np.integer, np.floating, Ix),
    "int": (int, np.integer, Ix),
    "bool": (bool, np.bool_),
    "str": (str,),
    "ScalarType": (DType,),
}


def _fits_kind(kind: str, t: type) -> bool:
    if kind == "Tensor":
        return is_tensor_type(t)
    if issubclass(t, bool) and kind in ("int", "float"):
        return False
    return issubclass(t, _SCALARS[kind])


def fits(type_: Type, tag_: Any) -> bool:
    """Whether a value with this tag is allowed for a parameter of this type."""
    if tag_ is type(None):
        return type_.optional
    if isinstance(tag_, tuple):
        element: type | None = tag_[1]  # pyright: ignore[reportUnknownVariableType]
        fitting = element is None or _fits_kind(type_.kind, element)  # pyright: ignore[reportUnknownArgumentType]
        return type_.is_list and fitting
    if type_.is_list and type_.kind == "Tensor":
        return False
    return _fits_kind(type_.kind, tag_)


def _number(v: Any) -> Any:
    return v.item() if isinstance(v, np.generic) else v


def converter(type_: Type, tag_: Any) -> Callable[[Any], Any] | None:
    """How a fitting value becomes the argument that a meaning sees (lists are tuples, numbers Python's); None: as it is."""
    if tag_ is type(None):
        return None
    if type_.is_list:
        kind, length, gaps = type_.kind, type_.length, type_.optional_elements

        def as_tuple(value: Any) -> tuple[Any, ...]:
            values = _tuple(value, type_)
            for v in values:
                if not (v is None and gaps) and (v is None or not _fits_kind(kind, type(v))):
                    raise UserError(f"expected a list of {kind}, but element {v!r} is of type {type(v).__name__}")
            if length and len(values) == 1:
                values = values * length
            elif length and length > 1 and len(values) not in (0, length):  # int[1] takes any number of them, as in ATen
                raise UserError(f"expected one {kind} or {length} of them, not {len(values)}: {list(values)}")
            return values if kind == "Tensor" else tuple(map(_number, values))

        return as_tuple
    if isinstance(tag_, type) and issubclass(tag_, np.generic):
        return _number
    if type_.kind == "float" and issubclass(tag_, int | Ix):
        return float
    return None


def describe(args: Sequence[Any], kwargs: dict[str, Any]) -> str:
    """The types of a call's arguments, for messages."""

    def one(v: Any) -> str:
        shape, dtype = getattr(v, "shape", None), getattr(v, "dtype", None)
        if isinstance(dtype, DType):
            return f"{dtype.name}{list(shape or ())}"
        return "None" if v is None else f"{type(v).__name__} {v!r}"

    return ", ".join([*map(one, args), *(f"{k}={one(v)}" for k, v in kwargs.items())])
