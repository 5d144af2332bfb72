"""One interpreter of kernel source for every domain of values: statements, expressions, calls.

A domain (symbolic.py, concrete.py) has the primitives of operators.py, loops and branches.  Python numbers, strings, tuples and
types are compile-time values; a number that is assigned to a name becomes a scalar, as in Triton.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from assay.kernels.operators import BlockPointer, Operators, Value
from assay.kernels.source import NONE, PYTHON
from assay.kernels.types import BOOL, TYPES, PointerType, Type, of_number

DEPTH = 40  # calls inside each other
LOOP_OPTIONS = ("num_stages", "loop_unroll_factor", "disallow_acc_multi_buffer", "flatten", "warp_specialize", "disable_licm")


@dataclass(frozen=True)
class Dotted:
    """Something that was imported, by its full name."""

    name: str

    @property
    def last(self) -> str:
        return self.name.split(".")[-1]


@dataclass(frozen=True)
class Method:
    """A function of triton.language bound to its first argument."""

    name: str
    subject: Any


@dataclass(frozen=True)
class Poison:
    """What a name holds where it has no value; reading it is an error."""

    why: str


@dataclass(frozen=True)
class Return:
    """A block ended with `return value`."""

    value: Any


Env = dict[str, Any]


class Walker(Operators):
    """Runs a kernel; a subclass has the domain."""

    # -------------------------------------------------------------------------------------------- the domain

    def branch(self, node: ast.If, condition: Value, env: Env) -> Return | None:
        raise NotImplementedError

    def loop(self, node: ast.For, bounds: tuple[Any, Any, Any], env: Env) -> None:
        raise NotImplementedError

    def while_(self, node: ast.While, env: Env) -> None:
        raise NotImplementedError

    def evaluated(self, e: Value) -> Value:
        """Told of each condition that an expression yields (the domain may keep its text)."""
        return e

    # -------------------------------------------------------------------------------------------- calls

    def call(self, f: ast.FunctionDef, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Runs a function of the file on arguments; its value."""
        if len(self.calls) > DEPTH:
            self.unsupported(f"a call of depth {DEPTH}", "recursion has no meaning in a kernel")
        parameters = self.module.parameters(f)
        env: Env = {}
        names = [p.name for p in parameters]
        given = dict(zip(names, args, strict=False))
        if len(args) > len(names) or (set(kwargs) - set(names)) or set(given) & set(kwargs):
            self.wrong(f"the arguments do not fit {f.name}({', '.join(names)})")
        for p in parameters:
            v = given.get(p.name, kwargs.get(p.name, p.default))
            if v is NONE:
                self.wrong(f"{f.name} misses its argument {p.name}")
            env[p.name] = v
        return self.body(f, env)

    def body(self, f: ast.FunctionDef, env: Env) -> Any:
        found = self.block(f.body, env)
        return found.value if found is not None else None

    # -------------------------------------------------------------------------------------------- statements

    def block(self, statements: Sequence[ast.stmt], env: Env) -> Return | None:
        """Runs statements; what they return, None where they run to their end."""
        for s in statements:
            self.node = s
            found = self.statement(s, env)
            if found is not None:
                return found
        return None

    def statement(self, s: ast.stmt, env: Env) -> Return | None:
        match s:
            case ast.Assign():
                value = self.materialised(self.expr(s.value, env))
                for target in s.targets:
                    self.assign(target, value, env)
            case ast.AnnAssign():
                if s.value is not None:
                    value = self.expr(s.value, env)
                    fixed = "constexpr" in ast.unparse(s.annotation)
                    self.assign(s.target, self.python(value) if fixed else self.materialised(value), env)
            case ast.AugAssign():
                left = self.expr(ast.copy_location(_loaded(s.target), s.target), env)
                right = self.expr(s.value, env)
                self.node = s
                self.assign(s.target, self.materialised(self.binary(type(s.op), left, right)), env)
            case ast.Expr():
                if not isinstance(s.value, ast.Constant):
                    self.expr(s.value, env)
            case ast.Return():
                return Return(self.expr(s.value, env) if s.value is not None else None)
            case ast.If():
                return self._if(s, env)
            case ast.For():
                self._for(s, env)
            case ast.While():
                if s.orelse:
                    self.unsupported("`else` of a loop", "write it after the loop")
                self.while_(s, env)
            case ast.Pass():
                pass
            case ast.Assert():
                if self.python(self.expr(s.test, env)) is False:
                    self.wrong("an assert fails")
            case _:
                self.unsupported(f"`{type(s).__name__.lower()}`", "kernels have assignments, if, for, while, calls, return")
        return None

    def _if(self, s: ast.If, env: Env) -> Return | None:
        condition = self.truth(self.expr(s.test, env))
        if isinstance(condition, bool):
            return self.block(s.body if condition else s.orelse, env)
        self.node = s
        return self.branch(s, condition, env)

    def _for(self, s: ast.For, env: Env) -> None:
        if s.orelse:
            self.unsupported("`else` of a loop", "write it after the loop")
        if not isinstance(s.iter, ast.Call):
            items = self.expr(s.iter, env)
            if not isinstance(items, tuple | list):
                self.unsupported("this loop", "loop over range, tl.range, tl.static_range or a tuple")
            self._unrolled(s, items, env)
            return
        f = self.expr(s.iter.func, env)
        name = f.last if isinstance(f, Dotted) else ""
        if name not in ("range", "static_range"):
            self.unsupported("this loop", "loop over range, tl.range, tl.static_range or a tuple")
        lo, hi, step = self._bounds(s.iter, env)
        self.node = s
        if name == "static_range":
            self._unrolled(s, list(range(*(self.number(x) for x in (lo, hi, step)))), env)
        else:
            self.loop(s, (lo, hi, step), env)

    def _bounds(self, call: ast.Call, env: Env) -> tuple[Any, Any, Any]:
        """(start, end, step) of range(end), range(start, end), range(start, end, step), where tl.range also takes names."""
        found = dict(zip(("arg1", "arg2", "step"), (self.expr(a, env) for a in call.args), strict=False))
        for k in call.keywords:
            if k.arg in ("arg1", "arg2", "step") and k.arg not in found:
                found[k.arg] = self.expr(k.value, env)
            elif k.arg not in LOOP_OPTIONS:
                self.wrong(f"a loop has no option {k.arg}, or has it twice; it has arg1, arg2, step, {', '.join(LOOP_OPTIONS)}")
        if "arg1" not in found or len(call.args) > 3:
            self.wrong("a range has one to three bounds: end; start, end; start, end, step")
        if found.get("arg2") is None:
            return 0, found["arg1"], 1 if found.get("step") is None else found["step"]
        return found["arg1"], found["arg2"], 1 if found.get("step") is None else found["step"]

    def _unrolled(self, s: ast.For, items: Sequence[Any], env: Env) -> None:
        for item in items:
            self.assign(s.target, item, env)
            self.inside(s.body, env)

    def inside(self, body: Sequence[ast.stmt], env: Env) -> None:
        """One run of the body of a loop."""
        if self.block(body, env) is not None:
            self.unsupported("`return` in a loop", "Triton does not allow it either; use a mask or a condition")

    def assign(self, target: ast.expr, value: Any, env: Env) -> None:
        if isinstance(target, ast.Name):
            env[target.id] = value
        elif isinstance(target, ast.Tuple | ast.List):
            if not isinstance(value, tuple | list) or len(value) != len(target.elts):
                self.wrong("the two sides of the assignment have different lengths")
            for t, v in zip(target.elts, value, strict=True):
                self.assign(t, v, env)
        else:
            self.unsupported("assignment to a part of a tensor", "use tl.where, or tl.store through a pointer")

    def materialised(self, v: Any) -> Any:
        """What a name holds after an assignment: Python numbers become scalars."""
        if isinstance(v, bool | int | float):
            return self.constant(v, of_number(v))
        return tuple(self.materialised(x) for x in v) if isinstance(v, tuple) else v

    def truth(self, v: Any) -> bool | Value:
        """A condition: a Python bool where it is known, else a scalar."""
        found = self.python(v)
        if not isinstance(found, Value):
            return bool(found)
        if found.shape != ():
            self.wrong("a condition must be a scalar; use tl.where for tensors")
        return found if found.type == BOOL else self.compare("ne", found, 0)

    # -------------------------------------------------------------------------------------------- expressions

    def expr(self, e: ast.expr, env: Env) -> Any:
        """The value of an expression; errors point to its line."""
        self.node = e
        found = self._expr(e, env)
        self.node = e
        return self.evaluated(found) if isinstance(found, Value) and found.type == BOOL else found

    def _expr(self, e: ast.expr, env: Env) -> Any:
        match e:
            case ast.Constant():
                return e.value
            case ast.Name():
                return self._name(e.id, env)
            case ast.Tuple() | ast.List():
                return tuple(self.expr(x, env) for x in e.elts)
            case ast.Attribute():
                return self._attribute(self.expr(e.value, env), e.attr)
            case ast.BinOp():
                left, right = self.expr(e.left, env), self.expr(e.right, env)
                self.node = e
                return self.binary(type(e.op), left, right)
            case ast.UnaryOp():
                return self.unary(type(e.op), self.expr(e.operand, env))
            case ast.Compare():
                return self._compare(e, env)
            case ast.BoolOp():
                return self._logical(e, env)
            case ast.IfExp():
                condition = self.truth(self.expr(e.test, env))
                if isinstance(condition, bool):
                    return self.expr(e.body if condition else e.orelse, env)
                a, b = self.same(self.expr(e.body, env), self.expr(e.orelse, env))
                return self.choice(self.broadcast(condition, a.shape), a, b)
            case ast.Subscript():
                return self._subscript(self.expr(e.value, env), e.slice, env)
            case ast.Call():
                return self._call(e, env)
            case ast.JoinedStr():
                return ast.unparse(e)
            case _:
                self.unsupported(f"`{type(e).__name__}`", "kernels have arithmetic, comparisons, calls, x[:, None]")

    def _name(self, name: str, env: Env) -> Any:
        if name in env:
            found = env[name]
            if isinstance(found, Poison):
                self.wrong(f"{name} {found.why}")
            return found
        m = self.module
        if name in m.functions:
            return m.functions[name]
        if name in m.constants:
            return m.constants[name]
        if name in m.aliases:
            return Dotted(m.aliases[name])
        if name in ("range", "min", "max", "len", "print", "int", "float", "bool", "abs", "sum", "isinstance", "tuple", "list"):
            return Dotted(f"builtins.{name}")
        self.wrong(f"unknown name {name!r} (a constant of the module must be a literal or an expression of literals)")

    def _attribute(self, v: Any, name: str) -> Any:
        if isinstance(v, Dotted):
            dotted = Dotted(f"{v.name}.{name}")
            return TYPES.get(name, dotted) if v.name.startswith("triton") else dotted
        if isinstance(v, Value):
            if name == "dtype":
                return v.type
            if name == "shape":
                return v.shape
            if name == "type":
                return v
            if name in ("element_ty", "scalar"):
                return v.type.element if isinstance(v.type, PointerType) else v.type
            if name == "T":
                return self.function("trans", (v,), {})
            if name == "value":
                return v
            if name == "numel":
                count = 1
                for n in v.shape:
                    count *= n
                return count
        if isinstance(v, PointerType) and name in ("element_ty", "scalar"):
            return v.element
        if isinstance(v, Type):
            if name == "primitive_bitwidth":
                return v.bits
            if name in ("scalar", "element_ty"):
                return v
        if isinstance(v, BlockPointer):
            if name in ("block_shape", "shape", "strides"):
                return {"block_shape": v.block, "shape": v.shape, "strides": v.strides}[name]
            if name == "dtype":
                return v.base.type.element
        if isinstance(v, bool | int | float | str) and name == "value":
            return v
        return Method(name, v)

    def _compare(self, e: ast.Compare, env: Env) -> Any:
        found: Any = None
        left = self.expr(e.left, env)
        for op, node in zip(e.ops, e.comparators, strict=True):
            right = self.expr(node, env)
            self.node = e
            one = self.relation(type(op), left, right)
            found = one if found is None else self.logical("and", found, one)
            left = right
        return found

    def relation(self, op: type, a: Any, b: Any) -> Any:
        """a < b and its kind; `is` and `in` on compile-time values."""
        if op in (ast.Is, ast.IsNot):
            return PYTHON[op](a, b)
        if not isinstance(a, Value) and not isinstance(b, Value):
            try:
                return PYTHON[op](a, b)
            except TypeError as error:
                self.wrong(str(error))
        names = {ast.Lt: "lt", ast.LtE: "le", ast.Eq: "eq", ast.NotEq: "ne"}
        if op in names:
            return self.compare(names[op], a, b)
        if op in (ast.Gt, ast.GtE):
            return self.compare("lt" if op is ast.Gt else "le", b, a)
        self.unsupported("this comparison of tensors", "use < <= > >= == !=")

    def _logical(self, e: ast.BoolOp, env: Env) -> Any:
        op = "and" if isinstance(e.op, ast.And) else "or"
        found = self.expr(e.values[0], env)
        for node in e.values[1:]:
            known = self.python(found)
            if not isinstance(known, Value):  # Python's own rule: the rest may not even have a meaning
                if bool(known) != (op == "and"):
                    return known
                found = self.expr(node, env)
            else:
                found = self.logical(op, found, self.expr(node, env))
        return found

    def _subscript(self, v: Any, index: ast.expr, env: Env) -> Any:
        if not isinstance(v, Value):
            i = self.python(self.expr(index, env)) if not isinstance(index, ast.Slice) else None
            if isinstance(v, tuple | list | str) and isinstance(i, int):
                return v[i]
            self.unsupported("this subscript", "a tuple takes an integer known at compile time")
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        axis = 0
        for p in parts:
            if isinstance(p, ast.Slice) and p.lower is p.upper is p.step is None:
                axis += 1
            elif isinstance(p, ast.Constant) and p.value is None:
                v = self.expanded(v, axis)
                axis += 1
            else:
                self.unsupported("this subscript of a tensor", "use `:` and `None`; read elements through a pointer")
        if axis > len(v.shape):
            self.wrong(f"too many indices for the shape {list(v.shape)}")
        return v

    def _call(self, e: ast.Call, env: Env) -> Any:
        f = self.expr(e.func, env)
        args: list[Any] = []
        for a in e.args:
            if isinstance(a, ast.Starred):
                args += list(self.expr(a.value, env))
            else:
                args.append(self.expr(a, env))
        kwargs = {k.arg: self.expr(k.value, env) for k in e.keywords if k.arg is not None}
        self.node = e
        if isinstance(f, ast.FunctionDef):
            self.calls.append(e)
            try:
                return self.call(f, args, kwargs)
            finally:
                self.calls.pop()
                self.node = e
        if isinstance(f, Method):
            return self.function(f.name, (f.subject, *args), kwargs)
        if isinstance(f, Dotted):
            return self.function(f.last, args, kwargs, f.name)
        if isinstance(f, Type):
            return self.cast(args[0], f)
        self.unsupported("this call", "call functions of triton.language or @triton.jit functions of the same file")

    def function(self, name: str, args: Sequence[Any], kwargs: dict[str, Any], dotted: str = "") -> Any:
        """A function of triton.language by its name."""
        from assay.kernels.numerics import FUNCTIONS

        if dotted and dotted.split(".")[0] not in ("triton", "builtins", "math"):
            self.unsupported(f"{dotted}", "only functions of this file and of triton.language are read: put it into this file")
        f = FUNCTIONS.get(dotted) or FUNCTIONS.get(name)
        if f is None:
            self.unsupported(
                f"{dotted or name}", "it is no function of triton.language that is known here, and none of this file"
            )
        try:
            return f(self, *args, **kwargs)
        except TypeError as error:
            if "argument" not in str(error):
                raise
            self.wrong(str(error).replace("()", ""))


def _loaded(target: ast.expr) -> ast.expr:
    """The target of an augmented assignment, as an expression that reads it."""
    return ast.Name(target.id, ast.Load()) if isinstance(target, ast.Name) else target
