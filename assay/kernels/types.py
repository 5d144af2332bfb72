"""The element types of triton.language, and to which type two operands are converted.

Promotion is that of Triton: a Python number takes the type of the tensor it meets, unless its kind (bool < int < float) is
higher; integers of one signedness go to the wider, otherwise to the unsigned type where that is not narrower.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.core.errors import Unsupported

KINDS = {"bool": 0, "int": 1, "uint": 1, "float": 2}


@dataclass(frozen=True)
class Type:
    """An element type; `kind` is bool, int, uint or float."""

    name: str
    kind: str
    bits: int

    @property
    def is_integer(self) -> bool:
        return self.kind in ("int", "uint")

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_bool(self) -> bool:
        return self.kind == "bool"

    @property
    def lo(self) -> int:
        """The least integer of the type."""
        return -(1 << (self.bits - 1)) if self.kind == "int" else 0

    @property
    def hi(self) -> int:
        """The greatest integer of the type."""
        return (1 << (self.bits - 1)) - 1 if self.kind == "int" else (1 << self.bits) - 1

    @property
    def numpy(self) -> Any:
        """The numpy type that holds it; float types that numpy lacks are held as float32."""
        if self.is_bool:
            return np.bool_
        if self.is_float:
            return {16: np.float16, 64: np.float64}.get(self.bits, np.float32) if self.name != "bfloat16" else np.float32
        return np.dtype(f"{self.kind}{self.bits}").type

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class PointerType:
    """A pointer to elements of a type."""

    element: Type
    kind: str = "pointer"

    is_integer = is_float = is_bool = False

    def __str__(self) -> str:
        return f"pointer<{self.element}>"


TYPES = {
    t.name: t
    for t in [
        Type("int1", "bool", 1),
        *(Type(f"int{b}", "int", b) for b in (8, 16, 32, 64)),
        *(Type(f"uint{b}", "uint", b) for b in (8, 16, 32, 64)),
        Type("float16", "float", 16),
        Type("bfloat16", "float", 16),
        Type("float32", "float", 32),
        Type("float64", "float", 64),
        *(Type(n, "float", 8) for n in ("float8e4nv", "float8e5", "float8e4b8", "float8e5b16", "float8e4b15")),
    ]
}
BOOL, I32, I64, U32, F32 = TYPES["int1"], TYPES["int32"], TYPES["int64"], TYPES["uint32"], TYPES["float32"]

# How element types are spelled in --arg.
SHORT = {
    "bool": BOOL,
    "f16": TYPES["float16"],
    "bf16": TYPES["bfloat16"],
    "f32": F32,
    "f64": TYPES["float64"],
    "f8": TYPES["float8e5"],
    **{f"{k[0]}{b}": TYPES[f"{k}{b}"] for k in ("int", "uint") for b in (8, 16, 32, 64)},
}


def of_number(v: bool | int | float) -> Type:  # noqa: FBT001
    """The type that a Python number has by itself."""
    if isinstance(v, bool):
        return BOOL
    if isinstance(v, float):
        return F32
    for t in (I32, U32, I64, TYPES["uint64"]):
        if t.lo <= v <= t.hi:
            return t
    raise Unsupported(f"the integer {v} fits no type of at most 64 bits")


def promoted(a: Type, b: Type, *, division: bool = False) -> Type:
    """The type in which two tensors are combined."""
    if a.is_float or b.is_float:
        floats = [t for t in (a, b) if t.is_float]
        if len(floats) == 2 and floats[0] != floats[1] and floats[0].bits == floats[1].bits:
            return F32 if floats[0].bits == 16 else TYPES["float16"]
        found = max(floats, key=lambda t: t.bits)
        return F32 if division and found.bits <= 16 else found
    if a.is_bool or b.is_bool:
        return b if a.is_bool else a
    if a.kind == b.kind:
        return a if a.bits >= b.bits else b
    unsigned, signed = (a, b) if a.kind == "uint" else (b, a)
    return unsigned if unsigned.bits >= signed.bits else signed


def promoted_number(t: Type, v: bool | int | float, *, division: bool = False) -> Type:  # noqa: FBT001
    """The type in which a tensor of type `t` is combined with a Python number."""
    other = of_number(v)
    if KINDS[other.kind] <= KINDS[t.kind]:
        return F32 if division and t.is_float and t.bits <= 16 else t
    return promoted(t, other, division=division)
