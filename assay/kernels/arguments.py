"""What --arg, --assume and --grid say of a kernel's launch.

    x_ptr=f32[n]                a tensor of n elements; f32[M,K] of M*K, row by row
    w_ptr=f32[M,K; sm,sk]       with these strides: 1 + (M-1)*sm + (K-1)*sk elements
    idx_ptr=i64[n] in 0..V-1    integers in this range
    n=1..2**30                  an integer, any in this range; `n=i64 1..2**40` one that is passed as int64
    stride=K                    an integer that is this expression of sizes
    BLOCK=1024                  a number; a compile-time parameter may also be a string, True, None, a type (float16)
    eps=f32                     any number of this type

Names that are no parameter of the kernel may be used in shapes and the grid (`--arg B=1..64`). Expressions have + - * // %
**, cdiv(a, b), min, max; conditions have comparisons, `and`, `or`, `not`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.core.errors import UserError
from assay.kernels import terms as tm
from assay.kernels.source import NONE, Module
from assay.kernels.terms import TRUE, Cond, Poly
from assay.kernels.types import F32, I32, I64, SHORT, TYPES, Type

GRID = ((1 << 31) - 1, 65535, 65535)  # most programs along an axis
_TENSOR = re.compile(r"(?P<type>\w+)\[(?P<dims>[^\];]*)(;(?P<strides>[^\]]*))?\](\s*in\s+(?P<lo>.+?)\.\.(?P<hi>.+))?$")
_TYPED = re.compile(r"([iu]\d+)\s+(.+)$")
_RANGE = re.compile(r"((?P<type>[iu]\d+)\s+)?(?P<lo>[^.]+)\.\.(?P<hi>[^.]+)$")


@dataclass(frozen=True)
class Tensor:
    """What a pointer parameter points to: `count` elements, their type, and a range of their values (None: any)."""

    name: str
    type: Type
    count: Poly
    shape: tuple[Poly, ...]
    strides: tuple[Poly, ...]
    lower: Poly | None = None
    upper: Poly | None = None


@dataclass(frozen=True)
class Launch:
    """How a kernel is launched: all launches at once that fit the description."""

    sizes: Mapping[str, Poly]
    parameters: Mapping[str, Any]  # Tensor, (Type, Poly), Type for any float, or a compile-time value
    grid: tuple[Poly, ...]
    assumptions: tuple[Cond, ...]
    stated: tuple[str, ...]  # the assumptions as they were written


class _Reader:
    def __init__(self, texts: Mapping[str, str], assume: Sequence[str]) -> None:
        self.texts = texts
        self.types: dict[str, Type] = {}
        self.values: dict[str, Any] = {}
        self.open: list[str] = []
        self.divisors = dict(filter(None, map(_divisor, assume)))

    def value(self, name: str) -> Any:
        """What --arg says of a name: an integer, a tensor, a compile-time value, a type for any float."""
        if name not in self.values:
            if name in self.open:
                raise UserError(f"--arg: {' -> '.join([*self.open, name])} refer to each other")
            self.open.append(name)
            self.values[name] = self._read(name, self.texts[name].strip())
            self.open.pop()
        return self.values[name]

    def _read(self, name: str, text: str) -> Any:
        tensor = _TENSOR.match(text)
        if tensor is not None and tensor["type"].removeprefix("*") in SHORT:
            return self._tensor(name, tensor)
        if text in SHORT and (SHORT[text].is_float):
            return SHORT[text]
        found = _RANGE.match(text)
        if found is not None:
            return self._integer(name, found)
        typed = _TYPED.match(text)
        if typed is not None and SHORT.get(typed[1], F32).is_integer:
            self.types[name], text = SHORT[typed[1]], typed[2]
        try:
            tree = ast.parse(text, mode="eval").body
        except SyntaxError:
            raise self._wrong(name, text) from None
        literal = _literal(tree)
        if literal is not NONE:
            return literal
        return self.expression(tree, f"--arg {name}")

    def _wrong(self, name: str, text: str) -> UserError:
        return UserError(
            f"--arg {name}={text}: allowed are a tensor f32[n] or i64[n] in 0..V-1 (types {', '.join(SHORT)}), a range 1..2**30, "
            "an expression of sizes, a number, a string, a type"
        )

    def _integer(self, name: str, found: re.Match[str]) -> Poly:
        bounds = [self.expression(_parsed(found[k], f"--arg {name}"), f"--arg {name}") for k in ("lo", "hi")]
        t = SHORT.get(found["type"] or "i32", None)
        if t is None or not t.is_integer:
            raise self._wrong(name, self.texts[name])
        self.types[name] = t
        lo, hi = bounds[0].lo, bounds[1].hi
        if lo > hi:
            raise UserError(f"--arg {name}={self.texts[name]}: the range is empty")
        if not t.lo <= lo <= hi <= t.hi:
            raise UserError(
                f"--arg {name}={self.texts[name]}: {lo}..{hi} does not fit {t}, the type in which Triton passes it; "
                f"write `{name}=i64 {found['lo'].strip()}..{found['hi'].strip()}` for an argument that is passed as int64"
            )
        lower = bounds[0] if bounds[0].constant is None else None
        upper = bounds[1] if bounds[1].constant is None else None
        d = self.divisors.get(name)
        if d is not None and lower is upper is None:
            return d * tm.leaf(f"{name}/{d}", -(-lo // d), hi // d, "size")
        return tm.leaf(name, lo, hi, "size", lower=lower, upper=upper)

    def _tensor(self, name: str, found: re.Match[str]) -> Tensor:
        what = f"--arg {name}"
        dims = tuple(self.expression(d, what) for d in _listed(found["dims"], what))
        if found["strides"] is not None:
            strides = tuple(self.expression(d, what) for d in _listed(found["strides"], what))
            if len(strides) != len(dims):
                raise UserError(f"{what}: {len(dims)} dimensions, {len(strides)} strides")
            count = tm.poly(1)
            for n, s in zip(dims, strides, strict=True):
                if s.lo < 0 or n.lo < 1:
                    raise UserError(f"{what}: with strides every dimension must be at least 1 and every stride at least 0")
                count = count + (n - 1) * s
        else:
            count, made = tm.poly(1), []
            for n in reversed(dims):
                made.append(count)
                count = count * n
            strides = tuple(reversed(made))
        lower, upper = (self.expression(_parsed(found[k], what), what) if found[k] else None for k in ("lo", "hi"))
        return Tensor(name, SHORT[found["type"]], count, dims, strides, lower, upper)

    # -------------------------------------------------------------------------------------------- expressions

    def expression(self, e: ast.expr, what: str) -> Poly:
        """An integer expression of sizes."""
        match e:
            case ast.Constant() if isinstance(e.value, int):
                return tm.poly(int(e.value))
            case ast.Name():
                return self._size(e.id, what)
            case ast.UnaryOp() if isinstance(e.op, ast.USub):
                return -self.expression(e.operand, what)
            case ast.BinOp():
                a, b = self.expression(e.left, what), self.expression(e.right, what)
                match e.op:
                    case ast.Add():
                        return a + b
                    case ast.Sub():
                        return a - b
                    case ast.Mult():
                        return a * b
                    case ast.FloorDiv() | ast.Mod():
                        if b.lo <= 0:
                            raise UserError(f"{what}: {ast.unparse(e)}: the divisor must be positive, it lies in {b.lo}..{b.hi}")
                        return (tm.floordiv if isinstance(e.op, ast.FloorDiv) else tm.mod)(a, b)
                    case ast.Pow() if a.constant is not None and b.constant is not None and 0 <= b.constant < 128:
                        return tm.poly(a.constant**b.constant)
                    case _:
                        pass
            case ast.Call():
                args = [self.expression(a, what) for a in e.args]
                name = ast.unparse(e.func).split(".")[-1]
                if name == "cdiv" and len(args) == 2:
                    if args[1].lo <= 0:
                        raise UserError(
                            f"{what}: {ast.unparse(e)}: the divisor must be positive, it lies in {args[1].lo}..{args[1].hi}"
                        )
                    return tm.floordiv(args[0] + args[1] - 1, args[1])
                if name in ("min", "max") and args:
                    found = args[0]
                    for a in args[1:]:
                        found = (tm.minimum if name == "min" else tm.maximum)(found, a)
                    return found
            case _:
                pass
        raise UserError(f"{what}: {ast.unparse(e)!r} is no integer expression of sizes (+ - * // % **, cdiv, min, max)")

    def _size(self, name: str, what: str) -> Poly:
        if name not in self.texts:
            raise UserError(f"{what}: nothing is said of {name}; give --arg {name}=1..65536 (a range) or a value")
        found = self.value(name)
        if isinstance(found, Poly):
            return found
        if isinstance(found, int) and not isinstance(found, bool):
            return tm.poly(found)
        raise UserError(f"{what}: {name} is no integer")

    def condition(self, e: ast.expr, what: str) -> Cond:
        """A condition on sizes."""
        match e:
            case ast.BoolOp():
                parts = [self.condition(v, what) for v in e.values]
                return (tm.all_of if isinstance(e.op, ast.And) else tm.any_of)(parts)
            case ast.UnaryOp() if isinstance(e.op, ast.Not):
                return tm.negation(self.condition(e.operand, what))
            case ast.Compare():
                sides = [self.expression(x, what) for x in (e.left, *e.comparators)]
                return tm.all_of(_relation(op, a, b, what) for op, a, b in zip(e.ops, sides, sides[1:], strict=False))
            case _:
                raise UserError(f"{what}: {ast.unparse(e)!r} is no condition, such as n % 16 == 0 or M <= N")


def _relation(op: ast.cmpop, a: Poly, b: Poly, what: str) -> Cond:
    match op:
        case ast.Lt():
            return tm.less(a, b)
        case ast.LtE():
            return tm.at_most(a, b)
        case ast.Gt():
            return tm.less(b, a)
        case ast.GtE():
            return tm.at_most(b, a)
        case ast.Eq():
            return tm.equal(a, b)
        case ast.NotEq():
            return tm.negation(tm.equal(a, b))
        case _:
            raise UserError(f"{what}: comparisons are < <= > >= == !=")


def _parsed(text: str, what: str) -> ast.expr:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        raise UserError(f"{what}: {text.strip()!r} is no expression") from None


def _listed(text: str, what: str) -> list[ast.expr]:
    """The expressions between commas."""
    made = _parsed(f"[{text}]", what)
    return made.elts if isinstance(made, ast.List) else [made]


def _literal(tree: ast.expr) -> Any:
    """A Python literal or a type name; NONE for an expression.  An integer is an expression too."""
    if isinstance(tree, ast.Attribute | ast.Name):
        name = ast.unparse(tree).split(".")[-1]
        short = {"fp16": "f16", "fp32": "f32", "fp64": "f64"}.get(name, name)
        return TYPES.get(name) or (SHORT.get(short, NONE) if name in ("fp16", "bf16", "fp32", "fp64") else NONE)
    try:
        return ast.literal_eval(tree)
    except ValueError:
        return NONE


def _divisor(text: str) -> tuple[str, int] | None:
    """(name, d) where the assumption is `name % d == 0`."""
    found = re.fullmatch(r"\s*(\w+)\s*%\s*(\d+)\s*==\s*0\s*", text)
    return (found[1], int(found[2])) if found and int(found[2]) > 0 else None


def read_launch(module: Module, kernel: ast.FunctionDef, args: Sequence[str], grid: str, assume: Sequence[str] = ()) -> Launch:
    """The launches that the options describe.  Raises UserError for what is missing, unknown or contradictory."""
    texts: dict[str, str] = {}
    for a in args:
        name, equals, text = a.partition("=")
        if not equals or not name.strip().isidentifier():
            raise UserError(f"--arg {a!r}: for a kernel it is NAME=..., such as x_ptr=f32[n], n=1..2**30, BLOCK=1024")
        texts[name.strip()] = text
    parameters = module.parameters(kernel)
    for p in parameters:
        if p.name not in texts and p.default is not NONE:
            texts[p.name] = repr(p.default)
    missing = [p for p in parameters if p.name not in texts]
    if missing:
        shown = ", ".join(f"--arg {p.name}={_example(p.name, constexpr=p.constexpr)}" for p in missing)
        raise UserError(f"{kernel.name} needs {shown} (or another tensor, range or value; see docs/kernels.md)")
    reader = _Reader(texts, assume)
    found: dict[str, Any] = {}
    for p in parameters:
        v = reader.value(p.name)
        if p.constexpr:
            if isinstance(v, Poly):
                v = v.constant
            if (v is None and texts[p.name].strip() != "None") or isinstance(v, Tensor):
                raise UserError(f"--arg {p.name}={texts[p.name]}: {p.name} is a tl.constexpr, its value must be given")
            found[p.name] = v
        elif isinstance(v, bool):
            found[p.name] = (I32, tm.poly(int(v)))
        elif isinstance(v, int | Poly):
            found[p.name] = _scalar(p.name, tm.poly(v), reader)
        elif isinstance(v, float):
            found[p.name] = F32
        else:
            found[p.name] = v
    for name in texts:
        reader.value(name)
    conditions = [reader.condition(_parsed(a, "--assume"), "--assume") for a in assume]
    tree = _parsed(grid, "--grid")
    dims = tuple(reader.expression(d, "--grid") for d in (tree.elts if isinstance(tree, ast.Tuple | ast.List) else [tree]))
    if not 1 <= len(dims) <= 3:
        raise UserError(f"--grid {grid}: one to three axes")
    sizes = {n: tm.poly(v) for n, v in reader.values.items() if isinstance(v, Poly | int) and not isinstance(v, bool)}
    conditions += [tm.at_most(d, tm.poly(most)) for d, most in zip(dims, GRID, strict=False)]
    return Launch(sizes, found, dims, tuple(c for c in conditions if c is not TRUE), tuple(assume))


def _scalar(name: str, p: Poly, reader: _Reader) -> tuple[Type, Poly]:
    """An integer argument has the type in which Triton passes it: int32 where it fits, unless it was said otherwise."""
    t = reader.types.get(name)
    if t is None:
        t = I32 if I32.lo <= p.lo and p.hi <= I32.hi else I64
        if t is I64 and p.lo <= I32.hi:  # it may be passed as either; int32 is the case where something can go wrong
            raise UserError(
                f"--arg {name}: {reader.texts[name]} lies in {p.lo}..{p.hi}: Triton passes it as int32 where it fits and as "
                f"int64 else; narrow the sizes, or say --arg '{name}=i64 ...'"
            )
    return t, p


def _example(name: str, *, constexpr: bool) -> str:
    if constexpr:
        return "128"
    return "f32[n]" if name.endswith("ptr") or name.lower() in ("x", "y", "out", "output", "q", "k", "v") else "1..65536"
