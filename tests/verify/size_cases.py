"""Index questions for all sizes, with their right answers: the accesses of tests/verify/cases.py whose extents are symbols.

Each case is the definition of a tensor `t` in a program with sizes and guards; the question is whether every access in it is in
bounds on its path, for all sizes that satisfy the guards.  An equation a == b is asked as the access x[a - b] of one element.
"""

from __future__ import annotations

from typing import NamedTuple

from assay.core.lang import Program
from assay.core.text import parse


class SizeCase(NamedTuple):
    name: str
    sizes: str
    inputs: str
    definition: str
    guards: tuple[str, ...] = ()

    @property
    def program(self) -> Program:
        guards = "\n".join(f"guard {g}" for g in self.guards)
        return parse(f"program f[{self.sizes}]({self.inputs}):\n{guards}\n{self.definition}\nreturn t")


def _clamp(x: str, last: str) -> str:
    return f"min(max({x}, 0), [{last}]:i64)"


def _when(*conditions: str) -> str:
    """The conjunction of "a <= b" and "a < b" over index expressions."""
    made: list[str] = []
    for c in conditions:
        how = "le" if "<=" in c else "lt"
        a, b = c.split("<=" if how == "le" else "<")
        made.append(f"{how}([{a.strip()}]:i64, [{b.strip()}]:i64)")
    result = made[0]
    for m in made[1:]:
        result = f"and({result}, {m})"
    return result


def _guarded(conditions: list[str], value: str) -> str:
    return f"select({_when(*conditions)}, {value}, 0)"


NM, NMP = "n: 1.., m: 1..", "n: 1.., m: 1.., p: 1.."
_F = "(i*n + j)"
_A = "((l%m)*n + l//m)"

TRUE = [
    SizeCase("affine", NM, "x: f32[n*m]", "t[i:n,j:m] = x[i*m + j]"),
    SizeCase("transposed", NM, "x: f32[n*m]", "t[i:n,j:m] = x[i + j*n]"),
    SizeCase("row major, three axes", NMP, "x: f32[n*m*p]", "t[i:n,j:m,k:p] = x[(i*m + j)*p + k]"),
    SizeCase("row major, four axes", NMP + ", q: 1..", "x: f32[n*m*p*q]", "t[i:n,j:m,k:p,l:q] = x[((i*m + j)*p + k)*q + l]"),
    SizeCase("flip", "n: 1..", "x: f32[n]", "t[i:n] = x[n - 1 - i]"),
    SizeCase("roll by 5", "n: 1..", "x: f32[n]", "t[i:n] = x[(i - 5)%n]"),
    SizeCase("roll by any number", "n: 1..", "x: f32[n], o: i32[]", "t[i:n] = x[(i - o[])%n]"),
    SizeCase("roll as a choice", "n: 1.., r: 0..", "x: f32[n]",
             "t[i:n] = x[select(lt([i]:i64, [r]:i64), [i - r + n]:i64, [i - r]:i64)]", ("lt([r]:i64, [n]:i64)",)),
    SizeCase("slice with a step", "n: 1.., r: 0.., s: 1..", "x: f32[n]", "t[i:(n - r + s - 1)//s] = x[r + i*s]",
             ("lt([r]:i64, [n]:i64)",)),
    SizeCase("pad", "n: 1.., r: 0..", "x: f32[n]", f"t[i:n + 2*r] = {_guarded(['r <= i', 'i < n + r'], 'x[i - r]')}"),
    SizeCase("right part of a join", NM, "x: f32[m]", "t[i:n + m] = select(lt([i]:i64, [n]:i64), 0, x[i - n])"),
    SizeCase("repeat", NM, "x: f32[n]", "t[i:n*m] = x[i%n]"),
    SizeCase("repeat_interleave", NM, "x: f32[n]", "t[i:n*m] = x[i//m]"),
    SizeCase("relinearised", NM, "x: f32[n*m]", "t[l:n*m] = x[(l//m)*m + l%m]"),
    SizeCase("transposed by a flat index", NM, "x: f32[n*m]", "t[l:n*m] = x[(l%m)*n + l//m]"),
    SizeCase("reshape, the row", NM, "x: f32[n]", f"t[i:m,j:n] = x[{_F}//m]"),
    SizeCase("reshape and transpose", NM, "x: f32[n*m]", f"t[i:m,j:n] = x[{_F}//m + n*({_F}%m)]"),
    SizeCase("the row of a flat index", NM, "x: f32[1]", "t[i:n,j:m] = x[(i*m + j)//m - i]"),
    SizeCase("the column of a flat index", NM, "x: f32[1]", "t[i:n,j:m] = x[(i*m + j)%m - j]"),
    SizeCase("first of three digits", NMP, "x: f32[n]", "t[l:n*m*p] = x[l//(m*p)]"),
    SizeCase("first of three digits, in two steps", NMP, "x: f32[n]", "t[l:n*m*p] = x[(l//p)//m]"),
    SizeCase("nested quotients", NMP, "x: f32[1]", "t[l:n*m*p] = x[(l//p)//m - l//(m*p)]"),
    SizeCase("three digits make the index", NMP, "x: f32[1]", "t[l:n*m*p] = x[((l//(m*p))*m + (l//p)%m)*p + l%p - l]"),
    SizeCase("transposed twice", NM, "x: f32[1]", f"t[l:n*m] = x[({_A}%n)*m + {_A}//n - l]"),
    SizeCase("convolution, guarded", "h: 1.., s: 1.., r: 0.., a: 1.., b: 1..", "x: f32[h]",
             f"t[i:a,k:b] = {_guarded(['0 <= i*s + k - r', 'i*s + k - r < h'], 'x[i*s + k - r]')}"),
    SizeCase("convolution without padding", "h: 1.., w: 1.., s: 1..", "x: f32[h]", "t[i:(h - w)//s + 1,k:w] = x[i*s + k]",
             ("le([w]:i64, [h]:i64)",)),
    SizeCase("two-dimensional convolution, guarded", "n: 1.., h: 1.., w: 1.., r: 0.., a: 1.., b: 1.., c: 1.., d: 1..",
             "x: f32[n*h*w]", "t[m:n,i:a,j:b,k:c,l:d] = " + _guarded(
                 ["0 <= i + k - r", "i + k - r < h", "0 <= j + l - r", "j + l - r < w"], "x[(m*h + i + k - r)*w + j + l - r]")),
    SizeCase("lower triangle, packed", "n: 1..", "x: f32[(n*(n - 1))//2]",
             f"t[i:n,j:n] = {_guarded(['j < i'], 'x[(i*(i - 1))//2 + j]')}"),
    SizeCase("upper triangle, packed", "n: 1..", "x: f32[(n*(n + 1))//2]",
             f"t[i:n,j:n] = {_guarded(['i <= j'], 'x[i*n - (i*(i + 1))//2 + j]')}"),
    SizeCase("diagonal", "n: 1..", "x: f32[n*n]", "t[i:n] = x[i*(n + 1)]"),
    SizeCase("gather, clamped", "n: 1..", "x: f32[n], o: i64[9]", f"t[i:9] = x[{_clamp('o[i]', 'n - 1')}]"),
    SizeCase("gather, wrapped and checked", "n: 1..", "x: f32[n], o: i64[9]",
             "t[i:9] = select(and(le([-n]:i64, o[i]), lt(o[i], [n]:i64)), x[select(lt(o[i], 0), add(o[i], [n]:i64), o[i])], 0)"),
    SizeCase("embedding", NM, "x: f32[n*m], o: i64[9]", f"t[i:9,j:m] = x[{_clamp('o[i]', 'n - 1')}*m + j]"),
    SizeCase("nearest", "h: 1.., w: 1..", "x: f32[h]", "t[i:w] = x[(i*h)//w]"),
    SizeCase("adaptive pooling", "h: 1.., w: 1.., c: 1..", "x: f32[h]", "t[i:w,k:c] = " + _guarded(
        ["(i*h)//w + k < ((i + 1)*h + w - 1)//w"], "x[(i*h)//w + k]")),
    SizeCase("tiles with a tail", "n: 1.., a: 1.., s: 1..", "x: f32[n]",
             f"t[i:a,k:s] = {_guarded(['i*s + k < n'], 'x[i*s + k]')}"),
    SizeCase("the first of each tile", "n: 1.., s: 1..", "x: f32[n]", "t[i:(n + s - 1)//s] = x[i*s]"),
    SizeCase("paged table of 16", "n: 1.., a: 1..", "x: f32[n*16], o: i64[9]",
             f"t[i:9,j:a] = x[{_clamp('o[i]', 'n - 1')}*16 + j%16]"),
    SizeCase("paged table", "n: 1.., s: 1.., a: 1..", "x: f32[n*s], o: i64[9]",
             f"t[i:9,j:a] = x[{_clamp('o[i]', 'n - 1')}*s + j%s]"),
    SizeCase("pixel shuffle", "n: 1.., r: 1.., a: 1.., b: 1..", "x: f32[n*r*r]", "t[i:n,j:a,k:b] = x[(i*r + j%r)*r + k%r]"),
    SizeCase("whole groups of 8", "n: 1..", "x: f32[n]", "t[l:n] = x[(l//8)*8 + 7]", ("eq([n%8]:i64, 0:i64)",)),
    SizeCase("rotate half", "n: 1.., h: 1..", "x: f32[n]", "t[i:n] = x[select(lt([i]:i64, [h]:i64), [i + h]:i64, [i - h]:i64)]",
             ("eq([n]:i64, [2*h]:i64)",)),
    SizeCase("an axis split in two", NMP, "x: f32[n*m*p]", "t[i:n,l:m*p] = x[(i*m + l//p)*p + l%p]"),
]  # fmt: skip

FALSE = [
    SizeCase("the wrong stride", NM, "x: f32[n*m]", "t[i:n,j:m] = x[i*n + j]"),
    SizeCase("clamped to the size", "n: 1..", "x: f32[n], o: i64[9]", f"t[i:9] = x[{_clamp('o[i]', 'n')}]"),
    SizeCase("clamped, but maybe empty", "n: 0..", "x: f32[n], o: i64[9]", f"t[i:9] = x[{_clamp('o[i]', 'n - 1')}]"),
    SizeCase("nearest, rounded up", "h: 1.., w: 1..", "x: f32[h]", "t[i:w] = x[(i*h + w - 1)//w + 1]"),
    SizeCase("convolution, one too many", "h: 1.., w: 1.., s: 1..", "x: f32[h]", "t[i:(h - w)//s + 2,k:w] = x[i*s + k]",
             ("le([w]:i64, [h]:i64)",)),
    SizeCase("nested quotients, divisors added", NMP, "x: f32[1]", "t[l:n*m*p] = x[(l//p)//m - l//(m + p)]"),
]  # fmt: skip
