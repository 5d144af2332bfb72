"""From text to program, by recursive descent; the grammar stands in core/text.py."""

from __future__ import annotations

import difflib
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, TypeAlias, TypeVar

from assay.core import dtypes as dt
from assay.core import lang
from assay.core.cursor import Cursor
from assay.core.dtypes import DTYPES, DType
from assay.core.errors import UserError
from assay.core.index import Ix, Var, fresh, ix, size, variable
from assay.core.lang import E, Program, T
from assay.core.polynomial import LIMIT
from assay.core.row import TABLE

# What a name stands for: a tensor, an index variable, an expression, or the accumulators of a fold.
Meaning: TypeAlias = "T | Ix | E | tuple[E, ...]"
X = TypeVar("X")

FOLDS = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "any": "or", "all": "and"}


def parse(text: str) -> Program:
    """The program that `text` describes.  Raises UserError at the place that is wrong."""
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UserError(f"parse() reads the text of a program, a str, not {type(text).__name__}: {str(text)[:80]!r}")
    parser = _Parser(text)
    try:
        return parser.program()
    except RecursionError:
        at = parser.tokens[min(parser.pos, len(parser.tokens) - 1)].at
    parser.fail("nested too deeply; name some of the values: { v0 = ...; ... }", at)


class _Parser(Cursor):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.names: dict[str, Meaning] = {}

    # -------------------------------------------------------------------------------------------- small parts

    def interval(self) -> tuple[int, int]:
        lo = self.integer("the lower end of a range")
        self.expect("..")
        return lo, self.integer("the upper end of a range")

    def stated(self) -> tuple[int, int]:
        """The range of a require or an extern, whose upper end may depend on sizes."""
        lo = self.integer("the lower end of a range")
        self.expect("..")
        return lo, self.integer("the upper end of a range") if self.is_("-") else self.extent("the upper end of a range")

    def dtype(self) -> DType:
        name = self.word("an element type")
        if name not in DTYPES:
            self.pos -= 1
            self.expected(f"an element type ({', '.join(DTYPES)})")
        return DTYPES[name]

    def define(self, name: str, meaning: Meaning, at: int) -> None:
        """`name` means `meaning` from here on; variables and values may hide each other, tensors are unique."""
        if isinstance(self.names.get(name), T) or (isinstance(meaning, T) and name in self.names):
            self.fail(f"{name!r} is defined twice", at)
        self.names[name] = meaning

    # -------------------------------------------------------------------------------------------- programs

    def program(self) -> Program:
        self.expect("program")
        name = self.word("the name of the program")
        if self.accept("["):
            self.many("]", self.size)
        self.expect("(")
        inputs = self.many(")", self.input)
        self.expect(":")
        effects: list[T] = []
        guards: list[E] = []
        while self.accept("guard"):
            guards.append(self.scalar())
        while not self.is_("return"):
            if self.accept("effects"):
                effects = self.tensor_list("effects")
                continue
            at = self.token.at
            target = self.word("the definition of a tensor, or 'return'")
            self.define(target, self.definition(), at)
        at = self.token.at
        self.expect("return")
        outputs = self.tensor_list("return") if self.token.kind != "end" else []
        if self.token.kind != "end":
            self.expected("',' or the end of the program")
        return self.build(at, lambda: lang.program(inputs, outputs, effects, name, guards))

    def size(self) -> None:
        """n: 1..64, or n: 1.. without a stated end"""
        at = self.token.at
        name = self.word("the name of a size")
        self.expect(":")
        lo = self.natural("the least value of the size")
        self.expect("..")
        hi = self.natural("the largest value of the size") if self.token.kind == "int" else LIMIT
        if hi < lo:
            self.fail(f"the size {name} has no value in {lo}..{hi}", at)
        self.define(name, size(name, lo, hi), at)

    def input(self) -> T:
        at = self.token.at
        name = self.word("the name of an input")
        self.expect(":")
        dtype = self.dtype()
        shape = self.shape()
        t = self.build(at, lambda: lang.input(name, shape, dtype))
        self.define(name, t, at)
        return t

    def shape(self) -> list[int]:
        self.expect("[")
        return self.many("]", lambda: self.extent("a size"))

    def extent(self, what: str) -> int:
        """An integer, or an expression over sizes."""
        at = self.token.at
        if self.token.kind == "int" and self.ahead(1) not in ("*", "+", "-", "//", "%"):
            return self.natural(what)
        if self.token.kind not in ("name", "quoted", "int") and not self.is_("("):
            self.expected(what)
        n = self.index()
        if not (n.is_const or n.is_extent):
            self.fail(f"{what} depends on sizes only", at)
        return n.c if n.is_const else n  # type: ignore[return-value]

    def tensor_list(self, where: str) -> list[T]:
        found = [self.tensor(where)]
        while self.accept(","):
            found.append(self.tensor(where))
        return found

    def tensor(self, where: str) -> T:
        name = self.word(f"a tensor after {where!r}")
        t = self.names.get(name)
        if not isinstance(t, T):
            self.pos -= 1
            tensors = ", ".join(n for n, m in self.names.items() if isinstance(m, T)) or "none yet"
            self.expected(f"the name of a tensor ({tensors})")
        return t

    def definition(self) -> T:
        """What follows the name of a tensor: `[axes] = ...`, `= scatter ...` or `= extern ...`."""
        outer = dict(self.names)
        if self.accept("="):
            if self.accept("scatter"):
                made = self.scatter()
            else:
                self.expect("extern", " or 'scatter' (other tensors are written name[axis:size,...] = ...)")
                made = self.extern()
        else:
            dims = self.dims()
            self.expect("=")
            made = self.block(lambda: self.result(dims))
        self.names = outer
        return made

    def dims(self) -> list[int | None]:
        """[i:64,129,j:3] binds the axes that have names; the size where there is a name, else None."""
        self.expect("[")
        count = itertools.count()
        return self.many("]", lambda: self.dim(count))

    def dim(self, count: Iterator[int]) -> int | None:
        at = self.token.at
        if self.ahead(1) != ":":
            self.extent("an axis, as in i:64")
            return None
        name = self.word("an axis, as in i:64")
        self.expect(":")
        n = self.extent("the size of the axis")
        self.define(name, ix(variable(next(count), n)), at)
        return n

    def block(self, result: Callable[[], X]) -> X:
        """result, or { name = E  name = E  result }"""
        if not self.accept("{"):
            return result()
        outer = dict(self.names)
        while self.token.kind in ("name", "quoted") and self.ahead(1) == "=":
            at = self.token.at
            name = self.word("a name")
            self.expect("=")
            self.define(name, self.value(), at)
            self.accept(";")
        found = result()
        self.expect("}")
        self.names = outer
        return found

    def result(self, dims: list[int | None]) -> T:
        """The expression of a let, a require or a scan."""
        at = self.token.at
        shape = tuple(n for n in dims if n is not None)
        if self.accept("scan"):
            self.expect("(")
            k = self.natural("the number of an accumulator")
            self.expect(")")
            node = self.value()
            if len(shape) != len(dims) - 1:
                self.fail("a scan has one axis without a name: its size is the number of states", at)
            fold = node if isinstance(node, E) else _fold_of(node)
            return self.build(at, lambda: lang.scan(shape, fold, k, dims.index(None)))
        if len(shape) != len(dims):
            self.fail("an axis needs a name, as in i:64 (only the axis of a scan has none)", at)
        if not (self.is_("require") and self.ahead(1) == "("):
            body = self.scalar()
            return self.build(at, lambda: lang.let(shape, body))
        self.pos += 2
        cond = self.scalar()
        self.expect(",")
        body = self.scalar()
        self.expect(",")
        message = self.string("the message, a string")
        lo, hi = self.stated() if self.accept(",") else (None, None)
        self.expect(")")
        return self.build(at, lambda: lang.require(shape, body, cond, message, lo=lo, hi=hi))

    def scatter(self) -> T:
        base = self.tensor("scatter")
        self.expect("over")
        dims = self.dims()
        if None in dims:
            self.fail("the axes of a scatter need names, as in i:64")
        return self.block(lambda: self.update(base, tuple(n for n in dims if n is not None)))

    def update(self, base: T, domain: tuple[int, ...]) -> T:
        at = self.token.at
        self.expect("at")
        self.expect("[")
        indices = self.many("]", self.index)
        combine = self.word("'set' or the scalar function that combines")
        if combine != "set" and combine not in TABLE:
            self.pos -= 1
            self.expected("'set' or the scalar function that combines")
        body = self.scalar()
        return self.build(at, lambda: lang.scatter(base, domain, indices, body, None if combine == "set" else combine))

    def extern(self) -> T:
        at = self.token.at
        name = self.string("the name of the reference function, a string")
        self.expect("(")
        args = [] if self.is_(";") else self.tensor_list("extern")
        self.expect(";", " or ','")
        parameters = self.many(";", self.literal)
        output = self.natural("the number of the output")
        self.expect(")")
        self.expect(":")
        dtype = self.dtype()
        shape = self.shape()
        lo, hi = self.stated() if self.accept("in") else (None, None)
        return self.build(at, lambda: lang.extern(name, args, parameters, output, shape, dtype, lo, hi))

    def literal(self) -> Any:
        if self.accept("("):
            return tuple(self.many(")", self.literal))
        if self.token.kind == "string":
            return self.string("a string")
        sign = -1 if self.accept("-") else 1
        if self.token.kind in ("int", "float") or self.token.text in ("inf", "nan"):
            return sign * self.number()
        word = self.word("a parameter: none, true, false, a number, a string, a type or a tuple of them")
        if word in DTYPES:
            return DTYPES[word]
        words: dict[str, bool | None] = {"none": None, "true": True, "false": False}
        if word not in words:
            self.pos -= 1
            self.expected("a parameter: none, true, false, a number, a string, a type or a tuple of them")
        return words[word]

    # -------------------------------------------------------------------------------------------- expressions

    def number(self) -> int | float:
        token = self.token
        self.pos += 1
        if token.kind == "int":
            return int(token.text)
        return math.inf if token.text == "inf" else math.nan if token.text == "nan" else _float(token.text)

    def value(self) -> E | tuple[E, ...]:
        """An expression, or the accumulators of a fold that has several."""
        at = self.token.at
        made = self.operand()
        if not isinstance(made, int | float):
            return made
        self.fail(f"the constant {made} needs a type, as in {made}:f32", at)

    def scalar(self) -> E:
        at = self.token.at
        made = self.value()
        if isinstance(made, tuple):
            self.fail("a fold of several accumulators is not one value: name it, p = fold(...), and use p.0, p.1", at)
        return made

    def argument(self) -> E | int | float:
        """An argument of a scalar function: a constant without a type takes that of the other arguments."""
        at = self.token.at
        made = self.operand()
        if isinstance(made, tuple):
            self.fail("a fold of several accumulators is not one value: name it, p = fold(...), and use p.0, p.1", at)
        return made

    def operand(self) -> E | tuple[E, ...] | int | float:
        token = self.token
        at = token.at
        if token.text == "-" or token.kind in ("int", "float") or (token.text in ("inf", "nan") and not self.is_name()):
            negative = self.accept("-")
            if not (self.token.kind in ("int", "float") or self.token.text in ("inf", "nan")):
                self.expected("a number")
            v = self.number()
            v = -v if negative else v
            if not self.accept(":"):
                return v
            dtype = self.dtype()
            return self.build(at, lambda: lang.const(v, dtype))
        if self.accept("["):
            i = self.index()
            self.expect("]")
            self.expect(":", " and the type of the value, as in [i]:i64")
            dtype = self.dtype()
            return self.build(at, lambda: lang.index(i, dtype))
        if token.kind not in ("name", "quoted"):
            self.expected("an expression")
        if token.kind == "quoted" or self.is_name():
            return self.named()
        if token.text in ("true", "false"):
            self.pos += 1
            return lang.const(token.text == "true", dt.bool_)
        if (token.text in FOLDS or token.text == "fold") and self.is_loop():
            return self.fold()
        if self.ahead(1) != "(" or not (token.text in TABLE or token.text in DTYPES or token.text == "bitcast"):
            self.unknown()
        self.pos += 2
        if token.text in TABLE:
            args = self.many(")", self.argument)
            return self.build(at, lambda: lang.op(token.text, *args))
        x = self.scalar()
        self.expect(")")
        if token.text != "bitcast":
            return self.build(at, lambda: lang.convert(x, DTYPES[token.text]))
        self.expect(":", " and the type")
        dtype = self.dtype()
        return self.build(at, lambda: lang.bitcast(x, dtype))

    def is_name(self) -> bool:
        """Whether a name defined in the text stands here (right before a parenthesis it is a function)."""
        token = self.token
        called = self.ahead(1) == "(" and self.tokens[self.pos + 1].at == token.at + len(token.text)
        return token.text in self.names and not called

    def is_loop(self) -> bool:
        """Whether `(name:size` follows: max(k:128) is a fold, max(x, y) and max(0:i64, x) are functions."""
        return self.ahead(1) == "(" and self.ahead(3) == ":" and self.ahead(4) not in DTYPES

    def unknown(self) -> NoReturn:
        near = difflib.get_close_matches(self.token.text, (*self.names, *TABLE, *FOLDS), n=3)
        self.fail(f"unknown name {self.token.text!r}" + (f"; did you mean: {', '.join(near)}" if near else ""))

    def named(self) -> E | tuple[E, ...]:
        """A local name, an accumulator, or a load."""
        at = self.token.at
        name = self.word("a name")
        meaning = self.names.get(name)
        if isinstance(meaning, E):
            return meaning
        if isinstance(meaning, tuple):
            if not self.accept("."):
                return meaning
            k = self.natural("the number of an accumulator")
            if k >= len(meaning):
                self.fail(f"{name} has {len(meaning)} accumulators, numbered from 0", at)
            return meaning[k]
        if isinstance(meaning, Ix):
            self.fail(f"{name} is an index; as a value it is written [{name}]:i64", at)
        if meaning is None:
            self.pos -= 1
            self.unknown()
        total = self.accept("?")
        self.expect("[")
        indices = self.many("]", self.index)
        return self.build(at, lambda: (lang.load_or_zero if total else lang.load)(meaning, *indices))

    def fold(self) -> E | tuple[E, ...]:
        """sum(k:128) E, or fold(k:128; a=E, b=E in lo..hi) (E, E)"""
        at = self.token.at
        kind = self.word("a fold")
        self.expect("(")
        at_loop = self.token.at
        loop = self.word("a loop variable")
        self.expect(":")
        n = self.extent("the number of steps")
        v = fresh(n)
        outer = dict(self.names)
        if kind != "fold":
            bounds = [self.interval() if self.accept("in") else None]
            self.expect(")")
            self.define(loop, ix(v), at_loop)
            body = self.block(self.scalar)
            init = lang.const(0 if kind == "sum" else TABLE[FOLDS[kind]].monoid.neutral(body.dtype), body.dtype)  # type: ignore[union-attr]
            inits = [init]
            accs = self.accumulators(v, inits, bounds)
            steps = (self.build(at, lambda: lang.op(FOLDS[kind], accs[0], body)),)
        else:
            self.expect(";")
            states = self.many(")", self.state)
            inits, bounds = [init for _, _, init, _ in states], [b for _, _, _, b in states]
            accs = self.accumulators(v, inits, bounds)
            self.define(loop, ix(v), at_loop)
            for (where, name, _, _), a in zip(states, accs, strict=True):
                self.define(name, a, where)
            steps = self.block(lambda: self.steps(len(states)))
        self.names = outer
        if [s.dtype for s in steps] != [e.dtype for e in inits]:
            self.fail(f"steps of types {[s.dtype for s in steps]} for accumulators of types {[e.dtype for e in inits]}", at)
        if type(n) is int and n <= 1:
            first, *rest = inits if n == 0 else steps
            return (first, *rest) if rest else first
        known = [b or (e.dtype.lo, e.dtype.hi) if not e.dtype.is_float else (0, 0) for b, e in zip(bounds, inits, strict=True)]
        chosen = known if any(bounds) else None
        node = self.build(at, lambda: lang.close_fold(v, tuple(inits), tuple(steps), chosen))
        return tuple(lang.proj(node, k) for k in range(len(inits))) if len(inits) > 1 else node

    def accumulators(self, v: Var, inits: list[E], bounds: list[tuple[int, int] | None]) -> list[E]:
        """What the accumulators are in the steps; with a single step they are the initial values."""
        if type(v.n) is int and v.n == 1:
            return inits
        return [lang.acc(v, k, e.dtype, b) for k, (e, b) in enumerate(zip(inits, bounds, strict=True))]

    def state(self) -> tuple[int, str, E, tuple[int, int] | None]:
        at = self.token.at
        name = self.word("an accumulator, as in a=0:i64")
        self.expect("=")
        init = self.scalar()
        return at, name, init, self.interval() if self.accept("in") else None

    def steps(self, count: int) -> tuple[E, ...]:
        at = self.token.at
        if count == 1:
            return (self.scalar(),)
        self.expect("(", f" and {count} steps")
        found = tuple(self.many(")", self.scalar))
        if len(found) != count:
            self.fail(f"{len(found)} steps for {count} accumulators", at)
        return found

    # -------------------------------------------------------------------------------------------- indices

    def index(self) -> Ix:
        """A sum of products, left to right as in Python."""
        total = self.product()
        while self.is_("+") or self.is_("-"):
            minus = self.accept("-") or not self.accept("+")
            term = self.product()
            total = total - term if minus else total + term
        return total

    def product(self) -> Ix:
        left = self.factor()
        while self.is_("*") or self.is_("//") or self.is_("%"):
            at = self.token.at
            operator = self.token.text
            self.pos += 1
            right = self.factor()
            if operator == "*":
                if not (left.is_const or right.is_const or left.sizes or right.sizes):
                    self.fail("an index is a sum of integer multiples: one side of * must be an integer or depend on sizes", at)
                left = left * right
            elif not (right.is_const or right.is_extent) or right.lo < 1:
                self.fail(f"the divisor of {operator} in an index must be a positive integer, or positive for all sizes", at)
            else:
                left = left // right if operator == "//" else left % right
        return left

    def factor(self) -> Ix:
        at = self.token.at
        if self.accept("-"):
            return -self.factor()
        if self.token.kind == "int":
            return ix(self.natural("an integer"))
        if self.accept("("):
            inside = self.index()
            self.expect(")")
            return inside
        meaning = self.names.get(self.token.text)
        if isinstance(meaning, Ix) and self.token.kind in ("name", "quoted"):
            self.pos += 1
            return meaning
        e = self.scalar()
        return self.build(at, lambda: lang.as_index(e))


def _float(text: str) -> float:
    """The number, rounded to f64; infinity where it is too large."""
    try:
        return float.fromhex(text) if text.startswith("0x") else float(text)
    except OverflowError:
        return math.inf


def _fold_of(projections: tuple[E, ...]) -> E:
    """The fold whose accumulators these are."""
    return next(iter(projections)).args[0]
