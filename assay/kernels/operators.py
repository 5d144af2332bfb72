"""Values and typed operations on them: constants, promotion, broadcasting, conversions, operators.

A domain says what the data of a value is and what the primitives do with it.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any, NoReturn

from assay.core.errors import Unsupported, UserError
from assay.kernels.source import PYTHON, Module
from assay.kernels.types import BOOL, F32, PointerType, Type, of_number, promoted, promoted_number


@dataclass(frozen=True)
class Value:
    """A scalar (shape ()) or tensor; what `data` is depends on the domain."""

    type: Any  # Type or PointerType
    shape: tuple[int, ...]
    data: Any


@dataclass(frozen=True)
class BlockPointer:
    """A block of a tensor: element i of the block is at base + sum of (offsets[k] + i[k]) * strides[k]."""

    base: Value
    shape: tuple[Value, ...]
    strides: tuple[Value, ...]
    offsets: tuple[Value, ...]
    block: tuple[int, ...]
    checked: bool = False  # a tensor descriptor: every axis is checked


class Operators:
    """Typed operations; a subclass has the primitives of the domain."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.node: ast.AST = ast.Module([], [])
        self.calls: list[ast.AST] = []

    # -------------------------------------------------------------------------------------------- errors

    def where(self) -> str:
        """The line in hand, and the calls that lead to it."""
        via = "".join(f", called at line {getattr(c, 'lineno', 0)}" for c in reversed(self.calls))
        return f"{self.module.where(self.node)}{via}"

    def unsupported(self, what: str, instead: str) -> NoReturn:
        """Raises Unsupported at the line in hand."""
        raise Unsupported(f"{self.where()}: {what} is not understood: `{self.module.text(self.node)}`; {instead}")

    def wrong(self, what: str) -> NoReturn:
        """Raises UserError at the line in hand."""
        raise UserError(f"{self.where()}: {what}: `{self.module.text(self.node)}`")

    # -------------------------------------------------------------------------------------------- the domain

    def constant(self, v: bool | int | float, type_: Type, shape: tuple[int, ...] = ()) -> Value:  # noqa: FBT001
        raise NotImplementedError

    def known(self, v: Value) -> Any:
        """The Python value of a scalar where it is the same always, else None."""
        raise NotImplementedError

    def arithmetic(self, op: str, type_: Type, a: Value, b: Value) -> Value:
        """add sub mul div floordiv mod and or xor shl shr min max of two values of one type and shape."""
        raise NotImplementedError

    def comparison(self, op: str, a: Value, b: Value) -> Value:
        """lt le eq ne of two values of one type and shape."""
        raise NotImplementedError

    def converted(self, v: Value, type_: Type) -> Value:
        raise NotImplementedError

    def choice(self, c: Value, a: Value, b: Value) -> Value:
        """Elementwise: a where c, else b; all of one shape, a and b of one type."""
        raise NotImplementedError

    def moved(self, v: Value, offset: Value) -> Value:
        """A pointer and an integer of one shape: the pointer that many elements on."""
        raise NotImplementedError

    def expanded(self, v: Value, axis: int) -> Value:
        """With an axis of length 1 inserted."""
        raise NotImplementedError

    def stretched(self, v: Value, shape: tuple[int, ...]) -> Value:
        """Axes of length 1 repeated; the rank stays."""
        raise NotImplementedError

    # -------------------------------------------------------------------------------------------- compile-time values

    def python(self, v: Any) -> Any:
        """A compile-time value: a scalar that is always the same is that Python value."""
        if isinstance(v, Value) and v.shape == ():
            found = self.known(v)
            return v if found is None else found
        return tuple(self.python(x) for x in v) if isinstance(v, tuple | list) else v

    def number(self, v: Any, what: str = "this argument") -> int:
        """A compile-time integer.  Raises UserError for anything else."""
        found = self.python(v)
        if isinstance(found, bool) or not isinstance(found, int):
            self.wrong(f"{what} must be known at compile time (a tl.constexpr)")
        return found

    def numbers(self, v: Any, what: str = "the shape") -> tuple[int, ...]:
        """A tuple of compile-time integers; one integer is a tuple of one."""
        found = v if isinstance(v, tuple | list) else (v,)
        return tuple(self.number(x, what) for x in found)

    # -------------------------------------------------------------------------------------------- operators

    def value(self, v: Any, like: Type | None = None) -> Value:
        """A scalar or tensor; a Python number becomes one (of the type `like` where that is given)."""
        if isinstance(v, Value):
            return v
        if isinstance(v, bool | int | float):
            return self.constant(v, like or of_number(v))
        self.wrong(f"a tensor or a number is needed, not {type(v).__name__}")

    def common(self, a: Any, b: Any, *, division: bool = False) -> Type:
        """The type in which a and b are combined."""
        if isinstance(a, Value) and isinstance(b, Value):
            return promoted(a.type, b.type, division=division)
        if isinstance(a, Value):
            return promoted_number(a.type, b, division=division)
        if isinstance(b, Value):
            return promoted_number(b.type, a, division=division)
        return promoted(of_number(a), of_number(b), division=division)

    def same(self, a: Any, b: Any, type_: Type | None = None) -> tuple[Value, Value]:
        """Both as values of one type and shape."""
        for v in (a, b):
            if not isinstance(v, Value | bool | int | float):
                self.wrong(f"a tensor or a number is needed, not {type(v).__name__}")
        if any(isinstance(v, Value) and isinstance(v.type, PointerType) for v in (a, b)):
            x, y = self.value(a), self.value(b)
            if x.type != y.type and not (isinstance(x.type, PointerType) and isinstance(y.type, PointerType)):
                self.wrong(f"{x.type} and {y.type} have no common type")
        else:
            t = type_ or self.common(a, b)
            x, y = (self.cast(v, t) if isinstance(v, Value) else self._number_as(v, t) for v in (a, b))
        return self.joined(x, y)

    def _number_as(self, v: Any, t: Type) -> Value:
        if t.is_integer and not t.lo <= v <= t.hi:
            self.wrong(f"the number {v} does not fit {t}")
        return self.constant(v, t)

    def joined(self, x: Value, y: Value) -> tuple[Value, Value]:
        """Both of the shape that they broadcast to."""
        shape = self.joint_shape(x.shape, y.shape)
        return self.broadcast(x, shape), self.broadcast(y, shape)

    def joint_shape(self, a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
        rank = max(len(a), len(b))
        x, y = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
        if any(n != m and 1 not in (n, m) for n, m in zip(x, y, strict=True)):
            self.wrong(f"the shapes {list(a)} and {list(b)} do not broadcast")
        return tuple(max(n, m) for n, m in zip(x, y, strict=True))

    def broadcast(self, v: Value, shape: tuple[int, ...]) -> Value:
        """`v` repeated to a shape; missing axes are in front."""
        if v.shape == shape:
            return v
        if self.joint_shape(v.shape, shape) != shape:
            self.wrong(f"the shape {list(v.shape)} does not broadcast to {list(shape)}")
        while len(v.shape) < len(shape):
            v = self.expanded(v, 0)
        return self.stretched(v, shape)

    def cast(self, v: Any, t: Type) -> Value:
        """A value as another type."""
        if not isinstance(v, Value):
            v = self.value(v)
        if v.type == t:
            return v
        if isinstance(v.type, PointerType) or isinstance(t, PointerType):
            if isinstance(v.type, PointerType) and isinstance(t, PointerType):
                self.unsupported("a pointer as a pointer to another type", "declare the parameter with the type that is accessed")
            self.unsupported("a pointer as an integer", "use pointer arithmetic; arrays of pointers have no bounds here")
        return self.converted(v, t)

    def binary(self, op: type, a: Any, b: Any) -> Any:
        if not isinstance(a, Value) and not isinstance(b, Value):
            try:
                return PYTHON[op](a, b)
            except (TypeError, ArithmeticError, ValueError) as error:
                self.wrong(str(error))
        name = _BINARY.get(op)
        if name is None:
            self.unsupported("this operator on tensors", "use + - * / // % & | ^ << >>")
        if any(isinstance(v, Value) and isinstance(v.type, PointerType) for v in (a, b)):
            return self._pointer(name, a, b)
        return self.operate(name, a, b)

    def operate(self, name: str, a: Any, b: Any) -> Value:
        """add sub mul div floordiv mod and or xor shl shr min max of values or numbers."""
        t = self.common(a, b, division=name in ("div", "floordiv", "mod"))
        if name == "div" and not t.is_float:
            t = F32
        if name in ("and", "or", "xor", "shl", "shr") and t.is_float:
            self.wrong(f"bits of {t} cannot be combined; use .to(tl.int32, bitcast=True)")
        if t.is_bool and name in ("add", "sub", "mul", "floordiv", "mod", "shl", "shr"):
            if name == "mul":
                name = "and"
            else:
                self.unsupported("arithmetic on conditions", "say what is meant: .to(tl.int32), or & | ^")
        x, y = self.same(a, b, t)
        return self.arithmetic(name, t, x, y)

    def _pointer(self, name: str, a: Any, b: Any) -> Value:
        x, y = self.value(a), self.value(b)
        if name == "add" and isinstance(y.type, PointerType):
            x, y = y, x
        if name not in ("add", "sub") or not isinstance(x.type, PointerType) or not y.type.is_integer:
            self.unsupported("this arithmetic on pointers", "a pointer plus or minus integers is one")
        if name == "sub":
            y = self.unary(ast.USub, y)
        return self.moved(*self.joined(x, y))

    def unary(self, op: type, v: Any) -> Any:
        if not isinstance(v, Value):
            try:
                return PYTHON[op](v)
            except TypeError as error:
                self.wrong(str(error))
        if op is ast.UAdd:
            return v
        if op is ast.Not or (op is ast.Invert and v.type == BOOL):
            x = self.as_bool(v)
            return self.arithmetic("xor", BOOL, x, self.constant(True, BOOL, x.shape))
        if op is ast.USub:
            return self.arithmetic("sub", v.type, self.constant(0, v.type, v.shape), v)
        return self.arithmetic("xor", v.type, v, self.constant(-1 if v.type.kind == "int" else v.type.hi, v.type, v.shape))

    def compare(self, op: str, a: Any, b: Any) -> Value:
        """lt le eq ne"""
        x, y = self.same(a, b)
        return self.comparison(op, x, y)

    def int32(self, v: Any) -> Value:
        """An integer argument that Triton takes as a scalar."""
        found = self.value(v)
        if not found.type.is_integer:
            self.wrong(f"an integer is needed, not {found.type}")
        return found

    def logical(self, op: str, a: Any, b: Any) -> Any:
        """`and`, `or` of conditions."""
        x, y = (self.as_bool(v) for v in (a, b))
        x, y = self.same(x, y)
        return self.arithmetic(op, BOOL, x, y)

    def as_bool(self, v: Any) -> Value:
        if isinstance(v, Value):
            return v if v.type == BOOL else self.compare("ne", v, 0)
        return self.constant(bool(v), BOOL)


_BINARY = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.BitAnd: "and",
    ast.BitOr: "or",
    ast.BitXor: "xor",
    ast.LShift: "shl",
    ast.RShift: "shr",
}
