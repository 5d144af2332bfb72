"""From contributions to tensors: index equations solved exactly, so that a transposed view is a view and no scatter.

    xbar[j] = sum over the scope, where at(scope) = j and the guards hold, of value

`solution` eliminates the variables of the scope by integer arithmetic, largest range first:

    a // c                with a variable in it becomes two digits: a = c*q + t, 0 <= t < c
    g*H + L = R           with L narrower than g is two equations: H = R // g, L = R % g (reshapes are inverted exactly)
    k*v + u = R           with a unit u wider than k: u = k*q + t, and then the above (strided convolution)
    g*H = R               gives H = R // g where g divides R
    k*v + d*u = R         with d and k coprime and R mod k known: u = k*q + (R/d mod k) (strided and dilated convolution)
    k*v = R               gives v = R // k where k divides R and v is in its range
    eq(a, b)              of integers among the guards is an equation too

What is left of the scope becomes nested folds in scope order: that is the fixed order of the sum.  Where a variable is used in an
index only through data (x[idx[n]]) there is no solution, and the contribution is a scatter (`Unsolved`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from assay.core import dtypes as dt
from assay.core.index import Div, Ix, Val, Var, divisions, fresh, from_atom, interned, ix, rewrite, values, within
from assay.core.lang import E, Environment, as_index, const, index, is_const, op, substitute, substitute_all
from assay.semantics.access import row_major
from assay.transforms.accumulate import summed
from assay.transforms.cotangent import Cotangent, chosen


@dataclass(frozen=True)
class Contribution:
    """x[at] has the cotangent, at every setting of the scope; `may_miss`: where that is an element of x."""

    scope: tuple[Var, ...]
    at: tuple[Ix, ...]
    cotangent: Cotangent
    may_miss: bool


class Unsolved(Exception):
    """The position depends on data: there is no gather."""


@dataclass
class System:
    """Equations e = 0 and conditions over the variables `live`, which are being eliminated."""

    live: list[Var]
    equations: list[Ix]
    guards: list[E]
    value: E
    ranges: list[tuple[Ix, int]] = field(default_factory=list[tuple[Ix, int]])
    divisible: list[tuple[Ix, int]] = field(default_factory=list[tuple[Ix, int]])
    positions: list[Ix] = field(default_factory=list[Ix])

    # ---------------------------------------------------------------------------------------- what is done to it

    def replace(self, env: Mapping[Var, Ix]) -> None:
        """Put expressions in the place of variables, everywhere."""
        self.live = [v for v in self.live if v not in env]
        self.equations = [moved(e, env) for e in self.equations]
        self.ranges = [(moved(e, env), n) for e, n in self.ranges]
        self.divisible = [(moved(e, env), k) for e, k in self.divisible]
        self.positions = [moved(e, env) for e in self.positions]
        whole: Environment = {**env}
        self.value, *self.guards = substitute_all((self.value, *self.guards), whole)

    def into_digits(self) -> None:
        """Each division with a variable in it becomes a quotient and a rest, two new variables."""
        known: dict[Div, Ix] = {}
        n = 0
        while n < len(self.equations):
            e = self.equations[n]
            found = next((a for a, _ in e.terms if type(a) is Div and self._depends(a.e)), None)
            if found is None:
                n += 1
                continue
            if found not in known:
                q, t = fresh(found.hi - found.lo + 1), fresh(found.c)
                place = min(k for k, v in enumerate(self.live) if v in found.free)
                self.live[place:place] = [v for v in (q, t) if v.hi > 0]
                known[found] = ix(q) + found.lo
                self.equations.append(found.e - found.c * known[found] - ix(t))
            k = dict(e.terms)[found]
            self.equations[n] = e - k * from_atom(found) + k * known[found]

    def split(self) -> bool:
        """Make two equations of one g*H + L = R; whether there was one."""
        for n, e in enumerate(self.equations):
            mine = [(a, k) for a, k in e.terms if a in self.live]
            rest = interned(e.c, tuple((a, k) for a, k in e.terms if a not in self.live))
            if len(mine) < 2 or self._depends(rest):
                continue
            for g in sorted({abs(k) for _, k in mine} - {1}, reverse=True):
                high = interned(0, tuple((a, k // g) for a, k in mine if k % g == 0))
                low = interned(0, tuple((a, k) for a, k in mine if k % g))
                if high.terms and low.terms and low.hi - low.lo < g:
                    right = -rest - low.lo
                    self.equations[n] = high - right // g
                    self.equations.append(low - low.lo - right % g)
                    return True
        return False

    def widen(self) -> bool:
        """Make a digit and a rest of a unit variable that is wider than the stride beside it; whether there was one."""
        for e in self.equations:
            mine = [(a, k) for a, k in e.terms if type(a) is Var and a in self.live]
            if len(mine) != 2 or any(not self._alone(a, e) or self._shared(a) for a, _ in mine):
                continue
            stride = max(abs(k) for _, k in mine)
            for u, k in mine:
                if abs(k) == 1 and 1 < stride < u.n:
                    q, t = fresh(-(-u.n // stride)), fresh(stride)
                    whole = stride * ix(q) + ix(t)
                    place = self.live.index(u)
                    self.live[place:place] = [q, t] if q.hi > 0 else [t]
                    if u.n % stride:
                        self.ranges.append((whole, u.n))
                    self.replace({u: whole})
                    return True
        return False

    def reduce(self) -> bool:
        """Divide an equation by what divides all its coefficients; whether there was one."""
        for n, e in enumerate(self.equations):
            mine = [(a, k) for a, k in e.terms if a in self.live]
            g = math.gcd(*(k for _, k in mine))
            right = -interned(e.c, tuple((a, k) for a, k in e.terms if a not in self.live))
            if len(mine) > 1 and g > 1 and not self._depends(right):
                self.divisible.append((right, g))
                self.equations[n] = interned(0, tuple((a, k // g) for a, k in mine)) - right // g
                return True
        return False

    def residue(self) -> bool:
        """Give a variable the values at which a stride divides what is left; whether there was one."""
        for e in self.equations:
            mine = [(a, k) for a, k in e.terms if type(a) is Var and a in self.live]
            if len(mine) != 2 or any(not self._alone(a, e) for a, _ in mine) or len({a.n for a, _ in mine}) < 2:
                continue
            (u, d), (v, k) = sorted(mine, key=lambda term: term[0].n)
            stride, right = abs(k), d * ix(u) + k * ix(v) - e
            if stride == 1 or math.gcd(d, stride) > 1 or (right % stride).terms:
                continue
            first = (right % stride).c * pow(d, -1, stride) % stride
            count = max(-(-(u.n - first) // stride), 1)
            q = fresh(count)
            whole = stride * ix(q) + first if count > 1 else ix(first)
            if first >= u.n:
                self.ranges.append((whole, u.n))
            place = self.live.index(u)
            self.live[place:place] = [q] if count > 1 else []
            self.replace({u: whole})
            return True
        return False

    def eliminate(self) -> bool:
        """Solve one equation for the variable of the largest range (a unit coefficient first); whether there was one.

        A quotient of other variables of the sum is put into no other equation: there it would be a division again, which
        into_digits opens with two new variables, and so on without an end.
        """
        best: tuple[tuple[int, bool], int, Var, int] | None = None
        for n, e in enumerate(self.equations):
            for a, k in e.terms:
                if type(a) is Var and a in self.live and self._alone(a, e) and (abs(k) == 1 or not self._linked(a, e, k)):
                    key = (a.n, abs(k) == 1)
                    if best is None or key > best[0]:
                        best = key, n, a, k
        if best is None:
            return False
        _, n, v, k = best
        e = self.equations.pop(n)
        rest = k * ix(v) - e if k > 0 else e - k * ix(v)  # |k| v = rest
        k = abs(k)
        if k > 1:
            self.divisible.append((rest, k))
        self.ranges.append((rest // k, v.n))
        self.replace({v: rest // k})
        return True

    def by_radix(self) -> None:
        """Write a variable that is divided by c1, c2, ..., each a multiple of the one before, as digits of that mixed radix."""
        for v in list(self.live):
            found = {a.c for e in self.equations for a in _divisions(e) if a.e is ix(v)}
            chain = sorted(found)
            if not chain or any(b % a for a, b in itertools.pairwise(chain)):
                continue
            digits: list[Var] = []
            whole = ix(0)
            for c, above in zip([1, *chain], [*chain, 0], strict=True):
                d = fresh(above // c if above else -(-v.n // c))
                digits.insert(0, d)
                whole = whole + c * ix(d)
            place = self.live.index(v)
            self.live[place:place] = [d for d in digits if d.hi > 0]
            if v.n % chain[-1]:
                self.ranges.append((whole, v.n))
            self.replace({v: whole})

    def solve(self) -> None:
        """Eliminate what can be eliminated."""
        self.by_radix()
        self.into_digits()
        while self.split() or self.widen() or self.reduce() or self.residue() or self.eliminate():
            self.into_digits()

    def tighten(self) -> bool:
        """Give a variable that constants bound just the values in bounds; whether there are none (the sum is 0)."""
        for n, (e, size) in enumerate(self.ranges):
            if len(e.terms) == 1 and type(v := e.terms[0][0]) is Var and v in self.live and not (e.lo >= 0 and e.hi < size):
                k = e.terms[0][1]
                lo, hi = (-(e.c // k), (size - 1 - e.c) // k) if k > 0 else (-((size - 1 - e.c) // -k), e.c // -k)
                lo, hi = max(lo, 0), min(hi, v.hi)
                if hi < lo:
                    return True
                del self.ranges[n]
                w = fresh(hi - lo + 1)
                self.live[self.live.index(v)] = w
                self.replace({v: ix(w) + lo})
                self.live = [x for x in self.live if x.hi > 0]
                return self.tighten()
        return False

    def conditions(self) -> list[E] | None:
        """What must hold for the value to count; None where it never does."""
        found: list[E] = []
        self.guards = [g for g in self.guards if not self._follows(g)]
        for e, n in self.ranges:
            found += [op("le", const(0, dt.i64), index(e)), op("lt", index(e), const(n, dt.i64))]
        found += [op("eq", index(e % k), const(0, dt.i64)) for e, k in self.divisible]
        found += [_equation(e) for e in self.equations]
        found += self.guards
        kept = [g for g in dict.fromkeys(found) if not is_const(g, True)]
        return None if any(is_const(g, False) for g in kept) else kept

    # ---------------------------------------------------------------------------------------- what is asked of it

    def _depends(self, e: Ix) -> bool:
        return not e.free.isdisjoint(self.live)

    def _follows(self, g: E) -> bool:
        """Whether the guard c <= x follows from an equation x = e, with e >= c."""
        if g.op != "le" or g.args[0].op != "const" or not g.args[1].dtype.is_integer:
            return False
        x = as_index(g.args[1])
        others = [other for e in self.equations for other in (x - e, x + e) if other.free.isdisjoint(self.live)]
        return any(e.lo >= g.args[0].lo and not {a for a, _ in e.terms} & {a for a, _ in x.terms} for e in others)

    def _shared(self, v: Var) -> bool:
        """Whether more than one equation has the variable."""
        return sum(v in e.free for e in self.equations) > 1

    def _linked(self, v: Var, e: Ix, k: int) -> bool:
        """Whether `e` ties the variable to others of the sum, and another equation has it too."""
        return self._shared(v) and self._depends(e - k * ix(v))

    def _alone(self, v: Var, e: Ix) -> bool:
        """Whether `v` occurs in the equation as a term and nowhere else."""
        return not any(v in a.free for a, _ in e.terms if a is not v)


def _divisions(e: Ix) -> Iterable[Div]:
    return (a for a in divisions(e) if type(a) is Div)


def moved(e: Ix, env: Mapping[Var, Ix]) -> Ix:
    """The index with expressions in the place of variables, also inside the values it is made of."""
    if e.free.isdisjoint(env):
        return e
    whole: Environment = {**env}
    return rewrite(e, lambda a: as_index(substitute(a.e, whole)) if isinstance(a, Val) else env.get(a, ix(a)))


def _equation(e: Ix) -> E:
    """e = 0, as a comparison of a value with an index where there is one."""
    for a, k in e.terms:
        if type(a) is Val and abs(k) == 1:
            other = from_atom(a) - k * e
            if a.e.dtype is dt.i64 and dt.i64.lo <= other.lo and other.hi <= dt.i64.hi:
                return op("eq", a.e, index(other))
    return op("eq", index(e), const(0, dt.i64))


def is_equation(g: E) -> bool:
    """Whether the guard says that two integers are equal."""
    return g.op == "eq" and g.args[0].dtype.is_integer


def _system(c: Contribution, equations: Iterable[Ix]) -> System:
    guards = [g for g in c.cotangent.guards if not is_equation(g)]
    equal = [as_index(g.args[0]) - as_index(g.args[1]) for g in c.cotangent.guards if is_equation(g)]
    return System([v for v in c.scope if v.hi > 0], [*equations, *equal], guards, c.cotangent.value)


@dataclass(frozen=True)
class Solution:
    """The sum over `variables`, where the guards hold, of `value`."""

    variables: tuple[Var, ...]
    guards: tuple[E, ...]
    value: E

    @property
    def terms(self) -> int:
        """How many settings of the variables there are, whether the guards hold or not."""
        return math.prod(v.n for v in self.variables)

    @property
    def sum(self) -> E:
        return summed(self.variables, self.guards, self.value)


def solution(c: Contribution, j: Sequence[Ix], shape: Sequence[int]) -> Solution | None:
    """The contribution to element `j`; None where it is zero.  Raises Unsolved where its position depends on data."""
    s = _system(c, _position_equations(c, j, shape))
    s.solve()
    if s.tighten():
        return None
    s.equations = [e for e in s.equations if e.terms or e.c]
    left = [e for e in s.equations if not e.free.isdisjoint(s.live)]
    conditions = [*s.equations, *(e for e, _ in s.ranges), *(e for e, _ in s.divisible)]
    if left or any(not v.free.isdisjoint(s.live) for e in conditions for v in values(e)):
        raise Unsolved
    conditions = s.conditions()
    return None if conditions is None else Solution(tuple(s.live), tuple(conditions), s.value)


def _position_equations(c: Contribution, j: Sequence[Ix], shape: Sequence[int]) -> list[Ix]:
    """at = j, axis by axis; as one equation of the flat positions where that has no division and the axes have some.

    The two say the same where the position is in bounds, as that of a plain load is.
    """
    made: list[Ix] = []
    k = 0
    while k < len(c.at):
        end = k + 1
        if not c.may_miss and _divided(c.at[k]):
            flat = (m for m in range(k + 2, len(c.at) + 1) if not _divided(row_major(shape[k:m], c.at[k:m])))
            end = next(flat, end)
        made.append(row_major(shape[k:end], c.at[k:end]) - row_major(shape[k:end], j[k:end]))
        k = end
    return made


def _divided(e: Ix) -> bool:
    return any(True for _ in _divisions(e))


@dataclass(frozen=True)
class Scattered:
    """y[at] += value for all values of `variables`, in lexicographic order."""

    variables: tuple[Var, ...]
    at: tuple[Ix, ...]
    value: E


def scattered(c: Contribution, shape: Sequence[int]) -> Scattered | None:
    """The contribution as a scatter over the variables that its positions depend on; None where it is zero.

    The rest of the scope is summed in what is written.  Where the conditions fail, 0 is added to element 0.
    """
    s = _system(c, ())
    s.positions = list(c.at)
    s.solve()
    if s.tighten():
        return None
    s.ranges += [(e, n) for e, n in zip(s.positions, shape, strict=True) if c.may_miss]
    conditions = s.conditions()
    if conditions is None:
        return None
    used = tuple(v for v in s.live if any(v in e.free for e in s.positions))
    rest = tuple(v for v in s.live if v not in used)
    outer = [g for g in conditions if g.free.isdisjoint(rest)]
    zero = const(0, dt.i64)
    at = [e if within(e, n) else as_index(chosen(outer, index(e), zero)) for e, n in zip(s.positions, shape, strict=True)]
    return Scattered(used, tuple(at), summed(rest, conditions, s.value))
