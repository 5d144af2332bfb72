"""Element types: bool, i8..i64, u8, f16, bf16, f32, f64, and PyTorch's promotion lattice."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import cache, cached_property

import ml_dtypes
import numpy as np

from assay.core.errors import UserError


@dataclass(frozen=True, eq=False)
class DType:
    """An element type; compared by identity.

    `kind` is "bool", "int", "uint" or "float"; `bits` is the width in memory (bool: 8 in memory, 1 in meaning).
    """

    name: str
    kind: str
    bits: int
    numpy: np.dtype
    torch: str
    code: int  # a hash of the name that is the same in every process

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (dtype, (self.name,))

    @cached_property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.bits // 8

    @cached_property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_floating_point(self) -> bool:
        """PyTorch's name of is_float."""
        return self.is_float

    @cached_property
    def is_integer(self) -> bool:
        """Integers, signed or not; bool is not one."""
        return self.kind in ("int", "uint")

    @cached_property
    def is_half(self) -> bool:
        """f16 and bf16: types that are stored, but computed in f32."""
        return self.is_float and self.bits == 16

    @cached_property
    def lo(self) -> int:
        """Smallest integer value (bool: 0)."""
        return -(1 << (self.bits - 1)) if self.kind == "int" else 0

    @cached_property
    def hi(self) -> int:
        """Largest integer value (bool: 1)."""
        if self.kind == "bool":
            return 1
        return (1 << (self.bits - 1)) - 1 if self.kind == "int" else (1 << self.bits) - 1


def _make(name: str, kind: str, bits: int, scalar: object, torch: str) -> DType:
    return DType(name, kind, bits, np.dtype(scalar), torch, zlib.crc32(name.encode()))  # type: ignore[arg-type]


bool_ = _make("bool", "bool", 8, np.bool_, "bool")
i8 = _make("i8", "int", 8, np.int8, "int8")
i16 = _make("i16", "int", 16, np.int16, "int16")
i32 = _make("i32", "int", 32, np.int32, "int32")
i64 = _make("i64", "int", 64, np.int64, "int64")
u8 = _make("u8", "uint", 8, np.uint8, "uint8")
f16 = _make("f16", "float", 16, np.float16, "float16")
bf16 = _make("bf16", "float", 16, ml_dtypes.bfloat16, "bfloat16")
f32 = _make("f32", "float", 32, np.float32, "float32")
f64 = _make("f64", "float", 64, np.float64, "float64")

DTYPES: dict[str, DType] = {d.name: d for d in (bool_, i8, i16, i32, i64, u8, f16, bf16, f32, f64)}
INTEGERS = (i8, i16, i32, i64, u8)
FLOATS = (f16, bf16, f32, f64)
COMPUTED = (f32, f64)  # the float types that arithmetic is defined on

_BY_NUMPY = {d.numpy: d for d in DTYPES.values()}
_BY_TORCH = {d.torch: d for d in DTYPES.values()}


def dtype(name: object) -> DType:
    """The DType named "f32" or "float32", or of a numpy dtype or scalar type.  Raises UserError for any other."""
    if isinstance(name, DType):
        return name
    if isinstance(name, str):
        found = DTYPES.get(name) or _BY_TORCH.get(name.removeprefix("torch."))
        if found is not None:
            return found
    try:
        return _BY_NUMPY[np.dtype(name)]  # type: ignore[arg-type]
    except (TypeError, KeyError):
        raise UserError(f"unknown dtype {name!r}; allowed: {', '.join(DTYPES)}") from None


def category(d: DType) -> int:
    """0 bool, 1 integer, 2 float: the ladder on which 0-d tensors and Python numbers are weak."""
    return {"bool": 0, "int": 1, "uint": 1, "float": 2}[d.kind]


@cache
def promote(a: DType, b: DType) -> DType:
    """The least type both convert to (PyTorch's torch.promote_types).

    Integers never widen a float; f16 with bf16 is f32; u8 with i8 is i16.
    """
    if a is b:
        return a
    if category(a) != category(b):
        return a if category(a) > category(b) else b
    if a.is_float:
        if a.bits == b.bits:  # f16 and bf16
            return f32
        return a if a.bits > b.bits else b
    if a.kind == b.kind:
        return a if a.bits > b.bits else b
    signed, unsigned = (a, b) if a.kind == "int" else (b, a)
    return signed if signed.bits > unsigned.bits else i16


def default_dtype(value: object) -> DType:
    """The type of a Python number as a tensor: bool, i64, f32."""
    if isinstance(value, bool | np.bool_):
        return bool_
    if isinstance(value, int | np.integer):
        return i64
    return f32


def compute_dtype(d: DType) -> DType:
    """The type arithmetic on `d` runs in: f32 for f16 and bf16, else d."""
    return f32 if d.is_half else d
