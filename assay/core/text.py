"""The one text form of programs: `parse(show(p)) is p`.

    program f(x: f32[64,128], y: f32[64,128]):
      t0[i:64] = sum(k:128) mul(relu(add(x[i,k], y[i,k])), 0x1p+1:f32)
      return t0

Names occur only here; tensors and shared subexpressions are named in topological order.

    tensor      t[i:64,j:3] = E | require(cond, E, "message", lo..hi) | scan(k) FOLD (the scanned axis has no name)
                t = scatter base over [i:64] at [ix,...] add E   ("set": without combining)
                t = extern "sort"(x; parameters; output): f32[64] in lo..hi
    E           x[ix,...] | x?[ix,...] (0 outside) | [ix]:i64 (an index as a value) | 0x1p+1:f32, -3:i64, true
                row(E, ...) | f32(E) (convert) | bitcast(E):i32 | name | name.k (accumulator k) | FOLD
    FOLD        sum(k:128) E, prod, max, min, any, all (from +0, 1, -inf, +inf, false, true)
                fold(k:128; a=E, b=E in lo..hi) (E, E)          steps over the accumulators; `in`: their range
    shared      { v0 = E  v1 = E  E } wherever a tensor's or a fold's expression stands
    ix          integers, axes, values, sizes; + - * // % as in Python

Sizes stand in front, with their ranges; guards are conditions that they must satisfy:

    program f[m: 1..64, n: 1..](x: f32[m,n + 1]):
      guard le([n]:i64, [2*m]:i64)
      t0[i:m] = sum(k:n) x[i,k + 1]
      return t0
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from assay.core import dtypes as dt
from assay.core import lang
from assay.core.dtypes import DType
from assay.core.errors import InternalError, UserError
from assay.core.index import Atom, Div, Ix, Product, Quotient, Size, Val, Var
from assay.core.lang import (
    LOADS,
    E,
    Program,
    T,
    accumulators,
    axes,
    bodies,
    constant_value,
    is_const,
    own_accumulators,
    reading_order,
)
from assay.core.parser import parse
from assay.core.polynomial import LIMIT
from assay.core.row import TABLE

WIDTH = 100  # a subexpression of more characters gets a name of its own
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z_0-9]*\Z")
KEYWORDS = frozenset(("program", "guard", "return", "effects", "require", "scan", "scatter", "over", "at", "set", "extern", "in",
                      "fold", "sum", "prod", "max", "min", "any", "all", "true", "false", "nan", "inf", "none",
                      "bitcast"))  # fmt: skip
SUGAR = {"add": "sum", "mul": "prod", "max": "max", "min": "min", "or": "any", "and": "all"}


def show(program: Program) -> str:
    """The text of `program`.  Raises UserError for anything else."""
    if not isinstance(program, Program):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UserError(f"show() prints a program, not {type(program).__name__}; a graph is printed by print(), its program is "
                        "assay.lower(graph), that of a function assay.lower(assay.trace(f, *args))")  # fmt: skip
    return "\n".join(line for _, line in lines(program)) + "\n"


def lines(program: Program, *, definition: Callable[[Names, T], list[str]] | None = None) -> Iterator[tuple[T | None, str]]:
    """(tensor defined there or None, line) of the text, in order; `definition` prints a tensor (default Names.definition)."""
    names = Names(program)
    inputs = ", ".join(f"{names.of[t]}: {type_text(t.dtype, t.shape)}" for t in program.inputs)
    yield None, f"program {quoted(program.name)}{_sizes_text(program)}({inputs}):"
    for e in program.guards:
        yield None, f"  guard {_Scope(names, (e,), ()).text(e)}"
    for t in names.order:
        for line in (definition or Names.definition)(names, t):
            yield t, "  " + line
    stated = _stated_effects(program)
    if stated:
        yield None, f"  effects {', '.join(names.of[t] for t in stated)}"
    yield None, f"  return {', '.join(names.of[t] for t in program.outputs)}".rstrip()


def type_text(dtype: DType, shape: Sequence[int]) -> str:
    """f32[64,128]"""
    return f"{dtype.name}[{','.join(map(extent_text, shape))}]"


def extent_text(n: Ix | int) -> str:
    """64, or n + 1"""
    return sum_text(n, repr) if isinstance(n, Ix) else str(n)


def _sizes_text(program: Program) -> str:
    """[m: 1..64, n: 1..]: the largest possible end is left out."""
    ends = [f"{quoted(s.name)}: {s.lo}..{s.hi if s.hi < LIMIT else ''}" for s in program.sizes]
    return f"[{', '.join(ends)}]" if ends else ""


def quoted(name: str) -> str:
    """`name` as an identifier of the text, between back quotes where it is not one."""
    if IDENTIFIER.match(name) and name not in KEYWORDS and name not in TABLE and name not in dt.DTYPES:
        return name
    if "`" in name or "\n" in name:
        raise UserError(f"the name {name!r} cannot be printed; back quotes and line ends are not allowed in names")
    return f"`{name}`"


def _series(letters: str, taken: frozenset[str]) -> Iterator[str]:
    """a, b, ..., a1, b1, ... without the taken names."""
    round_ = 0
    while True:
        yield from (name for c in letters if (name := f"{c}{round_ or ''}") not in taken)
        round_ += 1


class _Sequence:
    """Element k of an endless series of names."""

    def __init__(self, letters: str, taken: frozenset[str]) -> None:
        self.rest = _series(letters, taken)
        self.known: list[str] = []

    def __getitem__(self, k: int) -> str:
        while len(self.known) <= k:
            self.known.append(next(self.rest))
        return self.known[k]


class Names:
    """The names of one program's tensors, and the text of each definition."""

    def __init__(self, program: Program) -> None:
        taken = frozenset(t.name for t in program.inputs) | frozenset(s.name for s in program.sizes)
        self.order = reading_order(program.roots)
        self.roots: dict[T, _Scope] = {}
        self.of: dict[T, str] = {t: quoted(t.name) for t in program.inputs}
        numbers = (name for k in range(1 << 30) if (name := f"t{k}") not in taken)
        self.of.update((t, name) for t, name in zip(self.order, numbers, strict=False))
        taken |= frozenset(self.of.values())
        self.taken = taken
        self.loops = _Sequence("ijklmnopqrsuwxyz", taken)
        self.accumulators = _Sequence("abcdefgh", taken)

    def locals(self) -> Iterator[str]:
        """Names for the shared subexpressions of one tensor."""
        return (name for k in range(1 << 30) if (name := f"v{k}") not in self.taken)

    def axis_names(self, rank: int) -> list[str]:
        """i, j, k, ... for the axes of a tensor."""
        return [self.loops[k] for k in range(rank)]

    def definition(self, t: T) -> list[str]:
        """The lines that define `t`."""
        name = self.of[t]
        if t.kind == "extern":
            args = ", ".join(self.of[a] for a in t.args)
            parameters = ", ".join(map(literal, t.params))
            full = t.dtype.is_float or (t.lo, t.hi) == (t.dtype.lo, t.dtype.hi)
            interval = "" if full else f" in {t.lo}..{extent_text(t.hi if t.end is None else t.end)}"
            type_ = type_text(t.dtype, t.shape)
            return [f"{name} = extern {json.dumps(t.name)}({args}; {parameters}; {t.output}): {type_}{interval}"]
        if t.kind == "scatter":
            root = _root(self, t)
            over = ",".join(f"{v}:{extent_text(n)}" for v, n in zip(root.axes, t.domain, strict=True))
            at = ",".join(index_text(i, root) for i in t.indices)
            head = f"{name} = scatter {self.of[t.base]} over [{over}]"
            return _block(head, root.statements, f"at [{at}] {t.combine or 'set'} {root.text(t.body)}")
        if t.kind == "scan":
            root = _root(self, t)
            named = [f"{v}:{extent_text(n)}" for v, n in zip(root.axes, domain(t), strict=True)]
            dims = ",".join((*named[: t.axis], extent_text(t.shape[t.axis]), *named[t.axis :]))
            return _block(f"{name}[{dims}] =", root.statements, f"scan({t.k}) {root.text(t.body)}")
        root = _root(self, t)
        head = f"{name}[{','.join(f'{v}:{extent_text(n)}' for v, n in zip(root.axes, t.shape, strict=True))}] ="
        result = root.text(t.body)
        if t.kind == "require":
            stated = f", {t.lo}..{extent_text(t.hi if t.end is None else t.end)}"
            own = t.end is None and (t.lo, t.hi) == (t.body.lo, t.body.hi)
            narrowed = "" if t.dtype.is_float or own else stated
            result = f"require({root.text(t.cond)}, {result}, {json.dumps(t.message)}{narrowed})"
        return _block(head, root.statements, result)

    def place(self, t: T, e: E) -> tuple[str, dict[Var, str]]:
        """Of `e`, an expression inside `t`: its text as it stands in that of `t`, and the names of the variables there."""
        root = self.roots.get(t)
        if root is None:
            root = self.roots[t] = _root(self, t)
        s = root.holding(e)
        if s is None:
            raise InternalError(f"{e!r} does not occur in {t!r}")
        return s.text_of(e), s.all_variables()


def _stated_effects(program: Program) -> tuple[T, ...]:
    """The shortest list after which program(...) finds the checks in their order; all of them where it refuses the program."""
    for k in reversed(range(len(program.checks) + 1)):
        stated = program.checks[k:]
        try:
            if lang.program(program.inputs, program.outputs, stated, program.name, program.guards) is program:
                return stated
        except UserError:  # not well formed: shown all the same
            return program.checks
    raise InternalError(f"the checks {program.checks} of {program!r} cannot be stated")


def domain(t: T) -> tuple[int, ...]:
    """The sizes of the variables that the expressions of `t` range over: its axes; without the scanned one; of its updates."""
    if t.kind == "scan":
        return t.shape[: t.axis] + t.shape[t.axis + 1 :]
    return t.domain if t.kind == "scatter" else t.shape


def _root(names: Names, t: T) -> _Scope:
    return _Scope(names, bodies(t), domain(t))


def _block(head: str, statements: list[str], result: str) -> list[str]:
    if not statements:
        return f"{head} {result}".split("\n")
    inner = [line for s in (*statements, result) for line in s.split("\n")]
    return [f"{head} {{", *("  " + line for line in inner), "}"]


def literal(value: Any) -> str:
    """A parameter of an extern: none, true, an integer, a float, a string, a type, a tuple of them."""
    if isinstance(value, DType):
        return value.name
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return float_text(value)
    if isinstance(value, tuple):
        return f"({', '.join(map(literal, value))})"  # type: ignore[arg-type]
    if isinstance(value, int | str):
        return json.dumps(value)
    raise UserError(f"extern parameter {value!r} cannot be printed; allowed: none, bool, int, float, str, dtype, tuples")


def float_text(v: float) -> str:
    """`v` in hexadecimal, exactly: 0x1.8p+1, inf, nan."""
    text = v.hex() if v == v else "nan"
    return re.sub(r"\.?0*p", "p", text) if "p" in text else text


def constant_text(e: E) -> str:
    """0x1p+1:f32, -3:i64, true"""
    v = constant_value(e)
    if e.dtype is dt.bool_:
        return "true" if v else "false"
    return f"{float_text(v) if isinstance(v, float) else v}:{e.dtype.name}"


# ------------------------------------------------------------------------------------------------ scopes


def monoid_fold(e: E) -> tuple[str, E] | None:
    """(row, body) of a fold of one accumulator whose step is row(acc, body) from the row's usual start value."""
    if len(e.args) != 2 or e.args[1].op not in SUGAR:
        return None
    init, step = e.args
    a = accumulators(e)[0]
    start = 0 if step.op == "add" else TABLE[step.op].monoid.neutral(e.dtype)  # type: ignore[union-attr]
    if step.args[0] is not a or not is_const(init, start) or a in own_accumulators(a.attr[0], (step.args[1],)):
        return None
    return step.op, step.args[1]


class _Scope:
    """Where expressions stand: a tensor's body (with its axes) or the steps of one fold.

    A node belongs to the innermost enclosing scope that binds a variable it depends on, so what does not depend on a
    loop is named outside of it.  `uses` counts the places that mention a node within its scope.
    """

    __slots__ = (
        "accs", "axes", "depth", "fold", "inner", "locals", "loop", "names", "order", "parent", "roots", "statements",
        "texts", "uses", "var", "variables",
    )  # fmt: skip
    parent: _Scope | None
    var: Var | None
    fold: E | None
    axes: list[str]
    variables: dict[Var, str]

    def __init__(self, names: Names, roots: Iterable[E], shape: tuple[int, ...]) -> None:
        self.names = names
        self.parent = self.var = self.fold = None
        self.axes = names.axis_names(len(shape))
        self.variables = dict(zip(axes(shape), self.axes, strict=True))
        self.accs, self.loop, self.depth = [], "", max(2, len(shape))
        self.locals = names.locals()
        self._start(roots)
        self._count()
        self._render()

    def _start(self, roots: Iterable[E]) -> None:
        self.roots = tuple(roots)
        self.uses: dict[E, int] = {}
        self.order: list[E] = []
        self.inner: dict[E, _Scope] = {}
        self.texts: dict[E, str] = {}
        self.statements: list[str] = []

    def _within(self, fold: E) -> _Scope:
        """The scope of the steps of `fold`, which stands here."""
        s = _Scope.__new__(_Scope)
        s.names, s.parent, s.fold, s.var, s.locals = self.names, self, fold, fold.attr, self.locals
        s.axes, s.variables, s.depth = [], {}, self.depth + 1
        s.loop = self.names.loops[self.depth]
        first = self._accs_above()
        s.accs = [self.names.accumulators[first + k] for k in range(len(fold.args) // 2)]
        known = monoid_fold(fold)
        s._start((known[1],) if known else fold.args[len(fold.args) // 2 :])
        return s

    def _accs_above(self) -> int:
        total, s = 0, self
        while s is not None:
            total += len(s.accs)
            s = s.parent
        return total

    def owner(self, e: E) -> _Scope:
        s = self
        while s.parent is not None and s.var not in e.free:
            s = s.parent
        return s

    def _count(self) -> None:
        """Fill `uses` and `order` (arguments before users, left to right) of this scope and all scopes within."""
        todo: list[tuple[E, _Scope, bool]] = [(e, self, False) for e in reversed(self.roots)]
        while todo:
            e, s, done = todo.pop()
            if done:
                s.order.append(e)
                continue
            s = s.owner(e)
            n = s.uses[e] = s.uses.get(e, 0) + 1
            if n > 1:
                continue
            todo.append((e, s, True))
            if e.op == "fold":
                inner = s.inner[e] = s._within(e)
                todo.extend((x, inner, False) for x in reversed(inner.roots))
                todo.extend((x, s, False) for x in reversed(e.args[: len(e.args) // 2]))
            else:
                todo.extend((x, s, False) for x in reversed(e.args or tuple(dict.fromkeys(e.deps))))

    def _render(self) -> None:
        for e in self.order:
            text = self.text_of(e)
            if self._deserves_name(e, text):
                name = next(self.locals)
                self.statements.append(f"{name} = {text}")
                text = name
            self.texts[e] = text

    def _deserves_name(self, e: E, text: str) -> bool:
        if e.op in ("const", "acc", "proj"):
            return False
        if e.op == "fold" and len(e.args) > 2:
            return not (self.uses[e] == 1 and e in self.roots)
        if self.uses[e] > 1:
            return bool(e.deps) or e.op == "fold"
        return e not in self.roots and (len(text) > WIDTH or "\n" in text)

    def text(self, e: E) -> str:
        """How `e` is written here."""
        return self.owner(e).texts[e]

    def holding(self, e: E) -> _Scope | None:
        """This scope or the one below it in which `e` stands."""
        if e in self.uses:
            return self
        return next((found for s in self.inner.values() if (found := s.holding(e))), None)

    def all_variables(self) -> dict[Var, str]:
        """The names of the variables that may occur here."""
        if self.parent is None:
            return dict(self.variables)
        assert self.var is not None
        return {**self.parent.all_variables(), self.var: self.loop}

    def variable(self, v: Var) -> str:
        s = self
        while s.parent is not None and s.var is not v:
            s = s.parent
        if s.parent is not None:
            return s.loop
        if v not in s.variables:
            raise InternalError(f"the variable {v!r} is bound nowhere: check the program with core.wellformed.check")
        return s.variables[v]

    def accumulator(self, e: E) -> str:
        s = self
        while s.var is not e.attr[0]:
            if s.parent is None:
                raise InternalError(f"the accumulator {e!r} is bound nowhere: check the program with core.wellformed.check")
            s = s.parent
        return s.accs[e.attr[1]]

    def text_of(self, e: E) -> str:
        op = e.op
        if op == "const":
            return constant_text(e)
        if op in LOADS:
            t, idx = e.attr
            mark = "" if op == "load" else "?"
            return f"{self.names.of[t]}{mark}[{','.join(index_text(i, self) for i in idx)}]"
        if op == "idx":
            return f"[{index_text(e.attr, self)}]:{e.dtype.name}"
        if op == "acc":
            return self.accumulator(e)
        if op == "fold":
            return self._fold_text(e)
        if op == "proj":
            return f"{self.text(e.args[0])}.{e.attr}"
        inner = ", ".join([self.text(a) for a in e.args])
        if op == "convert":
            return f"{e.dtype.name}({inner})"
        if op == "bitcast":
            return f"bitcast({inner}):{e.dtype.name}"
        return f"{op}({inner})"

    def _fold_text(self, e: E) -> str:
        s = self.inner[e]
        s._render()
        known = monoid_fold(e)
        ranges = [_range_text(a) for a in accumulators(e)]
        if known:
            head = f"{SUGAR[known[0]]}({s.loop}:{extent_text(e.attr.n)}{ranges[0]})"
        else:
            inits = e.args[: len(e.args) // 2]
            states = ", ".join(f"{a}={self.text(x)}{r}" for a, x, r in zip(s.accs, inits, ranges, strict=True))
            head = f"fold({s.loop}:{extent_text(e.attr.n)}; {states})"
        result = ", ".join([s.text(x) for x in s.roots])
        return "\n".join(_block(head, s.statements, f"({result})" if len(s.roots) > 1 else result))


def _range_text(a: E) -> str:
    full = a.dtype.is_float or (a.lo, a.hi) == (a.dtype.lo, a.dtype.hi)
    return "" if full else f" in {a.lo}..{a.hi}"


# ------------------------------------------------------------------------------------------------ indices


def index_text(e: Ix, scope: _Scope) -> str:
    """`e` over the names of `scope`; m*(x - c*(x//c)) is written m*(x % c)."""
    return sum_text(e, lambda a: scope.variable(a) if isinstance(a, Var) else _value_text(a.e, scope))


def _value_text(e: E, scope: _Scope) -> str:
    text = scope.text(e)
    return f"({text})" if e.op == "fold" and " " in text else text


def sum_text(e: Ix, atom: Callable[[Var | Val], str]) -> str:
    """`e` with variables and values written as `atom` says."""
    if not e.terms:
        return str(e.c)
    if len(e.terms) == 1 and e.c == 0 and e.terms[0][1] == 1 and not isinstance(e.terms[0][0], Div):
        text = _atom_text(e.terms[0][0], atom)
        return text[1:-1] if isinstance(e.terms[0][0], Quotient) else text
    parts, c = remainders(e)
    written: list[tuple[int, str]] = []
    for k, x, modulus in parts:
        if isinstance(x, Div):
            text = f"{_factor(x.e, atom)}//{x.c}"
            text = f"({text})%{modulus}" if modulus else text
        elif modulus:
            text = f"{_factor(x, atom) if isinstance(x, Ix) else _atom_text(x, atom)}%{modulus}"
        else:
            assert not isinstance(x, Ix)
            text = _atom_text(x, atom)
        if k != 1 and (isinstance(x, Div) or modulus):
            text = f"({text})"  # 2*(i//3) is not 2*i//3, and -(i//3) is not -i//3
        written.append((k, f"{abs(k)}*{text}" if abs(k) != 1 else text))
    if written[0][0] < 0:
        first = next((p for p in written if p[0] > 0), None)
        if first is not None:
            written.remove(first)
            written.insert(0, first)
    out = ("-" if written[0][0] < 0 else "") + written[0][1]
    out += "".join(f" {'-' if k < 0 else '+'} {text}" for k, text in written[1:])
    if c:
        out += f" {'-' if c < 0 else '+'} {abs(c)}"
    return out


def _atom_text(a: Atom, atom: Callable[[Var | Val], str]) -> str:
    """An atom as a factor of a term."""
    if isinstance(a, Size):
        return quoted(a.name)
    if isinstance(a, Product):
        return "*".join(_atom_text(x, atom) for x in a.factors)
    if isinstance(a, Div):
        return f"({_factor(a.e, atom)}//{a.c})"
    if isinstance(a, Quotient):
        return f"({_factor(a.e, atom)}//{_factor(a.c, atom)})"
    return atom(a)


def _factor(e: Ix, atom: Callable[[Var | Val], str]) -> str:
    text = sum_text(e, atom)
    single = len(e.terms) == 1 and e.c == 0 and e.terms[0][1] == 1 and not isinstance(e.terms[0][0], Div | Product | Quotient)
    simple = single or (not e.terms and e.c >= 0)
    return text if simple else f"({text})"


def remainders(e: Ix) -> tuple[list[tuple[int, Atom | Ix, int]], int]:
    """e = c + sum of k * x, or k * (x % modulus) where modulus > 0: the parts (k, x, modulus), and c.

    Each x - c*(x//c) that makes the sum shorter is taken out, the largest divisors first.
    """
    terms = dict(e.terms)
    c = e.c
    parts: list[tuple[int, Atom | Ix, int]] = []
    divs = sorted((a for a in terms if isinstance(a, Div)), key=lambda a: -a.c)
    for d in divs:
        k = terms.get(d, 0)
        best: tuple[dict[Atom, int], Ix, int] | None = None
        for base, modulus in _dividends(d, divs):
            if k == 0 or k % modulus:
                continue
            rest = dict(terms)
            del rest[d]
            for a, q in base.terms:
                rest[a] = rest.get(a, 0) + k // modulus * q
            rest = {a: q for a, q in rest.items() if q}
            if len(rest) < len(best[0] if best else terms):
                best = rest, base, modulus
        if best:
            terms, base, modulus = best
            c += k // modulus * base.c
            single = base.terms[0][0] if len(base.terms) == 1 and base.c == 0 and base.terms[0][1] == 1 else base
            parts.append((-k // modulus, single, modulus))
    whole: list[tuple[int, Atom | Ix, int]] = [(terms[a], a, 0) for a in sorted(terms, key=lambda a: a.key)]
    return whole + parts, c


def _dividends(d: Div, divs: list[Div]) -> Iterator[tuple[Ix, int]]:
    """(x, c) with d == x // c."""
    yield d.e, d.c
    for other in divs:
        if other is not d and other.e is d.e and d.c % other.c == 0 and d.c > other.c:
            yield other.e // other.c, d.c // other.c


__all__ = ["Names", "domain", "lines", "parse", "show", "sum_text", "type_text"]
