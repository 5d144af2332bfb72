"""Kernel source: a function of a file, the other functions it can call, and the constants of its module; read, never run.

A decorator that ends in `jit` (triton.jit, tl.jit, jit) marks a kernel or a device function. Constants are module-level
assignments whose value follows from literals and earlier constants.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.core.errors import Unsupported, UserError


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel."""

    name: str
    constexpr: bool
    default: Any  # NONE where there is none


NONE = object()


@dataclass(frozen=True)
class Module:
    """A file of kernels: its jitted functions and constants."""

    path: str
    lines: tuple[str, ...]
    functions: Mapping[str, ast.FunctionDef]
    constants: Mapping[str, Any]
    aliases: Mapping[str, str]  # name -> dotted name of what was imported: tl -> triton.language
    launches: Mapping[str, Any]  # what LAUNCHES says of each kernel: {"grid": "...", "args": "...", "assume": [...]}

    def text(self, node: ast.AST) -> str:
        """The source of a node on one line."""
        found = ast.get_source_segment("\n".join(self.lines), node) or ast.unparse(node)
        return " ".join(found.split())

    def where(self, node: ast.AST) -> str:
        return f"{self.path}:{getattr(node, 'lineno', 0)}"

    def function(self, name: str) -> ast.FunctionDef:
        """The kernel of this name.  Raises UserError where there is none."""
        found = self.functions.get(name)
        if found is None:
            raise UserError(
                f"{self.path} has no kernel {name!r} (a function under @triton.jit); "
                f"it has: {', '.join(self.functions) or 'none'}"
            )
        return found

    def parameters(self, f: ast.FunctionDef) -> tuple[Parameter, ...]:
        """The parameters of a function in order."""
        if f.args.vararg or f.args.kwarg:
            raise Unsupported(f"{self.where(f)}: {f.name} takes *args or **kwargs; name its parameters")
        positional = [*f.args.posonlyargs, *f.args.args]
        defaults: dict[str, ast.expr | None] = dict(
            zip([a.arg for a in positional[len(positional) - len(f.args.defaults) :]], f.args.defaults, strict=True)
        )
        defaults |= dict(zip([a.arg for a in f.args.kwonlyargs], f.args.kw_defaults, strict=True))
        found = []
        for a in (*positional, *f.args.kwonlyargs):
            node = defaults.get(a.arg)
            default = NONE if node is None else constant(node, self.constants)
            found.append(Parameter(a.arg, a.annotation is not None and "constexpr" in ast.unparse(a.annotation), default))
        return tuple(found)


def is_jitted(f: ast.FunctionDef) -> bool:
    """Whether a decorator says that Triton compiles the function."""
    names = [ast.unparse(d.func if isinstance(d, ast.Call) else d) for d in f.decorator_list]
    return any(n.split(".")[-1] == "jit" and n.split(".")[0] in ("triton", "tl", "jit", "language", "gluon") for n in names)


def has_kernel(path: Path, name: str) -> bool:
    """Whether `name` is a jitted function of the file, or no function of a file that has jitted ones.

    False for a file that does not parse: its import says why.
    """
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, UnicodeDecodeError):
        return False
    jitted = {n.name: is_jitted(n) for n in tree.body if isinstance(n, ast.FunctionDef)}
    return jitted.get(name, any(jitted.values()))


def read_module(path: Path) -> Module:
    """The kernels of a file.  Raises UserError for a file that is missing or does not parse."""
    if not path.is_file():
        raise UserError(f"no file {path}")
    return read_source(path.read_text(encoding="utf-8"), str(path))


def read_source(text: str, path: str) -> Module:
    """The kernels of a text."""
    try:
        tree = ast.parse(text, path)
    except SyntaxError as error:
        raise UserError(f"{path}:{error.lineno}: {error.msg}") from error
    functions: dict[str, ast.FunctionDef] = {}
    constants: dict[str, Any] = {}
    aliases: dict[str, str] = {}
    for node in tree.body:
        value = constant(node.value, constants) if isinstance(node, ast.Assign | ast.AnnAssign) and node.value else NONE
        for name in _set_by(node):  # what is set otherwise, or under a condition, has no meaning that can be read off
            constants.pop(name, None)
            functions.pop(name, None)
        if isinstance(node, ast.FunctionDef) and is_jitted(node):
            functions[node.name] = node
        if value is not NONE:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]  # type: ignore[union-attr]
            constants.update({t.id: value for t in targets if isinstance(t, ast.Name)})
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            aliases.update({a.asname or a.name.split(".")[0]: a.name if a.asname else a.name.split(".")[0] for a in node.names})
        elif isinstance(node, ast.ImportFrom):
            aliases.update({a.asname or a.name: f"{node.module}.{a.name}" for a in node.names})
    return Module(path, tuple(text.splitlines()), functions, constants, aliases, _launches(tree, path))


def _set_by(node: ast.AST) -> list[str]:
    """The names that a statement of the module may set, without those inside of functions and classes."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    found = [node.id] if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del) else list[str]()
    for inner in ast.iter_child_nodes(node):
        found += _set_by(inner)
    return found


def _launches(tree: ast.Module, path: str) -> Mapping[str, Any]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "LAUNCHES" for t in node.targets):
            try:
                found = ast.literal_eval(node.value)
                return {
                    k: {"grid": str(v["grid"]), "args": [*v["args"]], "assume": [*v.get("assume", ())]} for k, v in found.items()
                }
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise UserError(
                    f'{path}:{node.lineno}: LAUNCHES must be {{"kernel": {{"grid": "...", "args": ["n=1..2**20", ...], '
                    f'"assume": [...]}}}} in literals: {error}'
                ) from error
    return {}


def constant(node: ast.expr, names: Mapping[str, Any]) -> Any:
    """The value of an expression of literals and constants; NONE where it is not one."""
    if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "constexpr" and len(node.args) == 1:
        return constant(node.args[0], names)
    if isinstance(node, ast.Name):
        return names.get(node.id, NONE)
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Tuple | ast.List):
        parts = [constant(e, names) for e in node.elts]
        return NONE if any(p is NONE for p in parts) else tuple(parts)
    if isinstance(node, ast.UnaryOp | ast.BinOp):
        operands = [node.operand] if isinstance(node, ast.UnaryOp) else [node.left, node.right]
        values = [constant(o, names) for o in operands]
        if all(isinstance(v, bool | int | float) for v in values):
            try:
                return PYTHON[type(node.op)](*values)
            except (ArithmeticError, TypeError, ValueError, KeyError):
                return NONE
    return NONE


PYTHON: dict[type, Callable[..., Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
    ast.Pow: lambda a, b: a**b,
    ast.LShift: lambda a, b: a << b,
    ast.RShift: lambda a, b: a >> b,
    ast.BitAnd: lambda a, b: a & b,
    ast.BitOr: lambda a, b: a | b,
    ast.BitXor: lambda a, b: a ^ b,
    ast.USub: lambda a: -a,
    ast.UAdd: lambda a: +a,
    ast.Invert: lambda a: ~a,
    ast.Not: lambda a: not a,
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b,
    ast.Eq: lambda a, b: a == b,
    ast.NotEq: lambda a, b: a != b,
    ast.Is: lambda a, b: a is b,
    ast.IsNot: lambda a, b: a is not b,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}
