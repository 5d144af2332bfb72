"""The C++ column of the scalar table: how each primitive row is spelled, on scalars and on vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

from assay.backends.placement import Value
from assay.core import dtypes as dt
from assay.core.dtypes import DType
from assay.core.errors import Unsupported
from assay.core.lang import const_bits, constant_value


class Spelling(NamedTuple):
    """C++ names of a type: `register` and `memory` scalar types, letter of the register vector, letter of ld/st."""

    register: str
    memory: str
    vector: str
    access: str


TYPES: dict[DType, Spelling] = {
    dt.bool_: Spelling("bool", "unsigned char", "I", "M"),
    dt.i8: Spelling("signed char", "signed char", "I", "C"),
    dt.i16: Spelling("short", "short", "I", "S"),
    dt.i32: Spelling("int", "int", "I", "I"),
    dt.i64: Spelling("long", "long", "L", "L"),
    dt.u8: Spelling("unsigned char", "unsigned char", "I", "O"),
    dt.f16: Spelling("short", "short", "I", "S"),
    dt.bf16: Spelling("short", "short", "I", "S"),
    dt.f32: Spelling("float", "float", "F", "F"),
    dt.f64: Spelling("double", "double", "D", "D"),
}

_COMPARE = {"lt": "<", "le": "<=", "eq": "==", "ne": "!="}
_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "band": "&", "bor": "|", "bxor": "^"}
_CALL = {"fma": "fma_", "sqrt": "sqrt_", "abs": "abs_", "floor": "floor_", "ceil": "ceil_", "trunc": "trunc_",
         "round": "roundeven_", "max": "max_", "min": "min_", "floordiv": "fdiv_", "mod": "fmod_",
         "umulhi": "umulhi_"}  # fmt: skip
_MASKS = {"and": "{0}&{1}", "or": "{0}|{1}", "max": "{0}|{1}", "min": "{0}&{1}", "not": "~{0}", "lt": "~{0}&{1}",
          "le": "~{0}|{1}", "eq": "~({0}^{1})", "ne": "{0}^{1}", "select": "({0}&{1})|(~{0}&{2})"}  # fmt: skip
_WRAPS = frozenset(("add", "sub", "mul", "neg", "abs", "shl", "bnot", "floordiv"))


@cache
def constant(bits: int, d: DType) -> str:
    """The scalar constant with these bits."""
    if d.is_half:
        return f"(short){bits - (1 << 16) if bits >> 15 else bits}"
    v = constant_value(const_bits(bits, d))
    if d.is_float:
        suffix = "f" if d is dt.f32 else ""
        if v != v:
            return f'__builtin_nan{suffix}("")'
        if v in (float("inf"), float("-inf")):
            return f"({'-' if v < 0 else ''}__builtin_inf{suffix}())"
        text = float(v).hex() + suffix
        return f"({text})" if text[0] == "-" else text
    if d is dt.bool_:
        return "true" if v else "false"
    if d is dt.i64:
        return f"({v}L)" if v != d.lo else "(-0x7fffffffffffffffL-1)"
    if d is dt.i32:
        return f"({v})" if v != d.lo else "(-0x7fffffff-1)"
    return f"({TYPES[d].register}){v}"


def broadcast(text: str, d: DType, width: int = 32) -> str:
    """A vector whose lanes are the scalar; of a boolean, a mask of `width` bits a lane."""
    if d is dt.bool_:
        return f"{'bN' if width == 64 else 'bM'}({text})"
    return f"b{TYPES[d].vector}({text})"


def mask(text: str, width: int, wanted: int) -> str:
    """The mask with lanes of `wanted` bits."""
    return text if width == wanted else f"toL({text})" if wanted == 64 else f"toI({text})"


def wide(d: DType) -> bool:
    """Whether its lanes take 64 bits."""
    return d.bits == 64


_templates: dict[tuple[object, ...], Callable[..., str]] = {}
_BY_VALUE = frozenset(("shl", "shr", "floordiv", "mod"))  # rows whose spelling looks at the values of the arguments
_HOLES = ("{0}", "{1}", "{2}")


def template(v: Value, *, vector: bool) -> Callable[..., str]:
    """The text of a row, conversion or bitcast as a function of its argument texts (see `row`)."""
    if v.op in _BY_VALUE:
        return row(v, _HOLES[: len(v.args)], vector=vector).format
    key = (v.op, v.dtype, vector, *[a.dtype for a in v.args])
    found = _templates.get(key)
    if found is None:
        found = _templates[key] = row(v, _HOLES[: len(v.args)], vector=vector).format
    return found


def row(v: Value, a: Sequence[str], *, vector: bool) -> str:
    """The text of a row, conversion or bitcast applied to argument texts (all vectors, or all scalars).

    Masks among the arguments have one width: that of the row's other operands, or the widest.  A small integer result
    is wrapped here if it is a vector; as a scalar, by the type of the variable it is assigned to.
    """
    d, of = v.dtype, v.args[-1].dtype
    if v.op == "convert":
        return convert(a[0], v.args[0].dtype, d, vector=vector)
    if v.op == "bitcast":
        return bitcast(a[0], v.args[0].dtype, d, vector=vector)
    if vector and of is dt.bool_ and v.op in _MASKS:
        return _MASKS[v.op].format(*a)
    if v.op in _COMPARE:
        return f"{a[0]}{_COMPARE[v.op]}{a[1]}"
    if v.op in ("shl", "shr"):
        return _wrapped(_shift(v, a), v, vector=vector)
    if v.op == "select":
        return f"sel({a[0]},{a[1]},{a[2]})" if vector else f"{a[0]}?{a[1]}:{a[2]}"
    if v.op == "neg":
        return _wrapped(f"-{a[0]}", v, vector=vector)
    if v.op == "bnot":
        return _wrapped(f"~{a[0]}", v, vector=vector)
    if of is dt.bool_ and v.op in ("and", "or", "max", "min"):
        return f"{a[0]}{'&' if v.op in ('and', 'min') else '|'}{a[1]}"
    if v.op == "not":
        return f"!{a[0]}"
    if v.op in _INFIX:
        return _wrapped(f"{a[0]}{_INFIX[v.op]}{a[1]}", v, vector=vector)
    if v.op in ("floordiv", "mod") and not vector and min(v.args[0].lo, v.args[1].lo - 1) >= 0:
        return f"{a[0]}{'/' if v.op == 'floordiv' else '%'}{a[1]}"
    if v.op in _CALL:
        text = f"{_CALL[v.op]}({','.join(a)})"
        return _wrapped(text, v, vector=vector)
    raise Unsupported(f"the C++ backend has no spelling for the scalar row {v.op!r}")


def _wrapped(text: str, v: Value, *, vector: bool) -> str:
    if not vector or v.op not in _WRAPS or v.dtype.is_float or v.dtype.bits >= 32:
        return text
    return {dt.i8: "wrap8({})", dt.i16: "wrap16({})", dt.u8: "({})&255"}[v.dtype].format(text)


def _shift(v: Value, a: Sequence[str]) -> str:
    count = v.args[1]
    sign = "<<" if v.op == "shl" else ">>"
    if count.op == "const" and 0 <= count.lo < v.dtype.bits:
        return f"{a[0]}{sign}{count.lo}"
    return f"{v.op}_({a[0]},{a[1]},{v.dtype.bits})"


def convert(x: str, old: DType, new: DType, *, vector: bool) -> str:
    """x as another type: half types through f32 only; floats to integers saturate, NaN to 0."""
    if old is dt.bf16 or old is dt.f16:
        return f"{'bf2f' if old is dt.bf16 else 'h2f'}({x})"
    if new is dt.bf16 or new is dt.f16:
        return f"{'f2bf' if new is dt.bf16 else 'f2h'}({x})"
    if old.is_float and not new.is_float:
        if new is dt.i64:
            return f"sat64({x})"
        text = f"sat32({x})"
        return text if new is dt.i32 else f"clamp({text},{new.lo},{new.hi})"
    if not vector:
        return f"({TYPES[new].register}){x}"
    return _convert_vector(x, old, new)


def _convert_vector(x: str, old: DType, new: DType) -> str:
    if old is dt.bool_:
        x = f"({x}&{'bL(1)' if new is dt.i64 else '1'})"
        return x if not new.is_float else f"to{TYPES[new].vector}({x})"
    if new.is_float or wide(new):
        return f"to{TYPES[new].vector}({x})" if TYPES[new].vector != TYPES[old].vector else x
    x = f"toI({x})" if wide(old) else x
    if new is dt.i32 or (old.bits < new.bits and old is not dt.bool_) or (new is dt.i16 and old is dt.u8):
        return x
    return {dt.i8: "wrap8({})", dt.i16: "wrap16({})", dt.u8: "({}&255)"}[new].format(x)


_BITCAST: dict[tuple[str, str], Callable[[str], str]] = {
    ("F", "I"): lambda x: f"asI({x})", ("I", "F"): lambda x: f"asF({x})",
    ("D", "L"): lambda x: f"asL({x})", ("L", "D"): lambda x: f"asD({x})",
}  # fmt: skip


def bitcast(x: str, old: DType, new: DType, *, vector: bool) -> str:
    """The same bits as another type of the same width; half types already are their bits."""
    if vector:
        same = _BITCAST.get((TYPES[old].vector, TYPES[new].vector))
        return same(x) if same else x
    return x if TYPES[old].register == TYPES[new].register else f"CAST({TYPES[new].register},{x})"


def mask_arguments(v: Value) -> bool:
    """Whether the row combines masks with masks (and, or, not, comparisons and choices of booleans)."""
    return v.args[-1].dtype is dt.bool_ and v.op in _MASKS
