"""Pairs of programs: those that are equal for all inputs, by which laws, and those that differ in one place.

Text of a pair: inputs, the source's bindings, a line of dashes, the target's bindings; the result is `y`.
"""

from __future__ import annotations

from dataclasses import dataclass

import assay.core.functions  # noqa: F401
from assay.core.lang import Program
from assay.core.parser import parse


@dataclass(frozen=True)
class Pair:
    """`laws` are what the contract allows; `used` the laws that change bits and that the proof must use."""

    name: str
    inputs: str
    text: str
    laws: frozenset[str] = frozenset()
    used: frozenset[str] = frozenset()

    @property
    def programs(self) -> tuple[Program, Program]:
        source, target = (self._program(part) for part in self.text.split("---\n"))
        return source, target

    def _program(self, part: str) -> Program:
        lines = [line.strip() for line in part.strip().splitlines()]
        return parse("\n".join([f"program f({self.inputs}):", *(f"  {line}" for line in lines), "  return y"]) + "\n")


def pair(name: str, inputs: str, source: str, target: str, laws: str = "", used: str | None = None) -> Pair:
    allowed = frozenset(laws.split())
    return Pair(name, inputs, f"{source}\n---\n{target}", allowed, allowed if used is None else frozenset(used.split()))


def require(name: str, n: int, value: str, index: str = "i:4") -> str:
    """An index that is read from data, wrapped once and checked."""
    return (f"{name}[{index}] = require(and(le(0:i64, {value}), lt({value}, {n}:i64)), {value}, "
            f'"[IndexError] {{value}} at {{index}}", 0..{n - 1})')  # fmt: skip


CHECKED = require("c", 8, "k[i]")
PADDED = "select(and(le(1:i64, [K]:i64), lt([K]:i64, 18:i64)), x[K - 1], 0x1p+0:f32)"
TRIANGLE = "t[i:3,j:34] = select(le([j]:i64, [i]:i64), x[i,j], 0x0p+0:f32)"
TURNED = "select(or(lt([K]:i64, 1:i64), le(18:i64, [K]:i64)), 0x1p+0:f32, x[K - 1])"
NEVER = 'c[i:4] = require(false, [i]:i64, "[IndexError] {value} at {index}", 0..3)'
ALWAYS = require("c", 8, "mod(k[i], 8:i64)")
SUM16 = "y[i:4] = sum(k:16) x[i,k]"
MAX16 = "y[i:4] = max(k:16) x[i,k]"


def padded_lanes(value: str, first: str) -> str:
    """A maximum of 20 in 4 lanes and a rest; the second lane meets no pad, and reads `first`."""
    lanes = [f"max(k:4) {value.replace('K', at)}" for at in ("4*k", "4*k + 2", "4*k + 3", "k + 16")]
    return f"y[] = max(max(max({lanes[0]}, max(k:4) x[{first}]), max({lanes[1]}, {lanes[2]})), {lanes[3]})"


def argmax(better: str, first: str = "0:i64") -> str:
    """The index of the largest of 16, ties and all, by a fold of two accumulators."""
    return (f"y[i:4] = {{\nv = fold(k:16; m=-inf:f32, a={first}) (max(m, x[i,k]), select({better}, [k]:i64, a))\nv.1\n}}")


GOOD = (
    # lets
    pair("inlined", "x: f32[4,16]", "t[i:4,j:16] = exp(x[i,j])\ny[i:4,j:16] = add(t[i,j], t[i,j])",
         "y[i:4,j:16] = add(exp(x[i,j]), exp(x[i,j]))"),
    pair("materialised", "x: f32[4,16]", "y[i:4,j:16] = neg(exp(x[i,j]))",
         "t[i:4,j:16] = exp(x[i,j])\ny[i:4,j:16] = neg(t[i,j])"),
    pair("written transposed", "x: f32[4,16]", "t[i:4,j:16] = exp(x[i,j])\ny[i:16,j:4] = neg(t[j,i])",
         "t[i:16,j:4] = exp(x[j,i])\ny[i:16,j:4] = neg(t[i,j])"),
    pair("written transposed, of a square shape", "x: f32[8,8]", "t[i:8,j:8] = exp(x[i,j])\ny[i:8,j:8] = sub(t[j,i], x[i,j])",
         "t[i:8,j:8] = exp(x[j,i])\ny[i:8,j:8] = sub(t[i,j], x[i,j])"),
    pair("a reshape and its inverse", "x: f32[4,16]", "t[m:64] = x[m // 16, m % 16]\ny[i:4,j:16] = neg(t[16*i + j])",
         "y[i:4,j:16] = neg(x[i,j])"),
    pair("roll there and back", "x: f32[16]", "t[i:16] = x[(i + 5) % 16]\ny[i:16] = t[(i + 11) % 16]", "y[i:16] = x[i]"),
    # selects and guards
    pair("a pad that is sliced away", "x: f32[10]", "t[i:16] = x?[i - 3]\ny[i:10] = neg(t[i + 3])", "y[i:10] = neg(x[i])"),
    pair("a pad as a select", "x: f32[10]", "y[i:16] = x?[i - 3]",
         "y[i:16] = select(and(le(3:i64, [i]:i64), lt([i]:i64, 13:i64)), x[i - 3], 0x0p+0:f32)"),
    pair("a pad twice", "x: f32[10]", "t[i:14] = x?[i - 2]\ny[i:20] = t?[i - 3]", "y[i:20] = x?[i - 5]"),
    pair("arms of a decided select", "x: f32[16], z: f32[16]",
         "t[i:32] = select(lt([i]:i64, 16:i64), x?[i], z?[i - 16])\ny[i:16] = neg(t[i + 16])", "y[i:16] = neg(z[i])"),
    pair("selects by a value of another let", "x: f32[16]",
         "t[i:16] = exp(x[i])\nu[i:16] = select(eq(t[i], 0x0p+0:f32), 0x1p+0:f32, t[i])\ny[i:16] = neg(u[i])",
         "y[i:16] = neg(select(eq(exp(x[i]), 0x0p+0:f32), 0x1p+0:f32, exp(x[i])))"),
    pair("a condition on one value, read in two ways", "x: f32[16]",
         "t[i:16] = exp(x[i])\nu[i:16] = t[i]\n"
         "y[i:16] = select(ne(lt(t[i], 0x1p+0:f32), lt(u[i], 0x1p+0:f32)), -0x0p+0:f32, 0x0p+0:f32)",
         "y[i:16] = 0x0p+0:f32"),
    pair("the same under a condition that decides nothing", "x: f32[16]",
         "t[i:16] = exp(x[i])\nu[i:16] = t[i]\ny[i:16] = select(lt(t[i], u[15 - i]), "
         "select(ne(lt(t[i], 0x1p+0:f32), lt(u[i], 0x1p+0:f32)), -0x0p+0:f32, t[i]), 0x1p+1:f32)",
         "t[i:16] = exp(x[i])\ny[i:16] = select(lt(t[i], t[15 - i]), t[i], 0x1p+1:f32)"),
    pair("a condition on what two tensors of constants give", "x: f32[16]",
         "t[i:16] = -0x0p+0:f32\nu[i:16] = select(lt(bitcast(t[i]):i32, 0:i32), 0x1p+0:f32, t[i])\n"
         "y[i:16] = select(lt(0x0p+0:f32, u[i]), x[i], exp(x[i]))", "y[i:16] = x[i]"),
    pair("a condition on constants", "x: f32[16]",
         "t[i:16] = 0x0p+0:f32\ny[i:16] = select(lt(0x0p+0:f32, t[i]), 0x1p+0:f32, x[i])",
         "y[i:16] = select(lt(0x0p+0:f32, 0x0p+0:f32), 0x1p+0:f32, x[i])"),
    pair("a condition on a constant that data places", "x: f32[16], k: i64[4]",
         "t[i:16] = 0x0p+0:f32\nc[i:4] = mod(k[i], 16:i64)\n"
         "y[i:4] = select(lt(0x0p+0:f32, t[c[i]]), 0x1p+0:f32, x[i])",
         "y[i:4] = select(lt(0x0p+0:f32, 0x0p+0:f32), 0x1p+0:f32, x[i])"),
    pair("a condition on a view of a constant", "x: f32[16], k: i64[4]",
         "t[i:16] = 0x0p+0:f32\nc[i:4] = mod(k[i], 16:i64)\nv[i:4] = t[c[i]]\n"
         "u[i:4] = select(lt(0x0p+0:f32, v[i]), 0x1p+0:f32, x[i])\ny[i:4] = u[-i + 3]",
         "y[i:4] = select(lt(0x0p+0:f32, 0x0p+0:f32), 0x1p+0:f32, x[-i + 3])"),
    pair("a condition that only the other side shows to be constant", "x: f32[16]",
         "t[i:1] = x[0]\nu[i:1] = log(t?[1])\ny[i:16] = select(lt(u[0], 0x0p+0:f32), 0x1p+0:f32, x[i])",
         "y[i:16] = select(lt(log(0x0p+0:f32), 0x0p+0:f32), 0x1p+0:f32, x[i])"),
    pair("a named row that chooses", "x: u8[16]", "y[i:16] = neg(relu(x[i]))",
         "y[i:16] = neg(select(le(x[i], 0:u8), 0:u8, x[i]))"),
    pair("an index that a let holds, in a condition", "x: f32[5], k: i64[4]",
         "t[i:4] = mod(k[i], 7:i64)\nu[i:4] = x?[t[i] - 1]\ny[i:4] = neg(u[i])",
         "v[i:4] = mod(k[i], 7:i64)\n"
         "y[i:4] = neg(select(and(le(1:i64, v[i]), lt(v[i], 6:i64)), x?[mod(k[i], 7:i64) - 1], 0x0p+0:f32))"),
    # integers
    pair("integer arithmetic as an index", "x: f32[128]",
         "t[i:128] = mod(mul([i]:i64, 3:i64), 128:i64)\ny[i:128] = x[t[i]]", "y[i:128] = x[(3*i) % 128]"),
    pair("a clamp written the other way round", "x: f32[8], k: i64[4]",
         "y[i:4] = x[max(min(k[i], 7:i64), 0:i64)]", "y[i:4] = x[min(max(k[i], 0:i64), 7:i64)]"),
    pair("a gather of a let", "x: f32[8], k: i64[4]", "t[i:8] = exp(x[i])\ny[i:4] = t[mod(k[i], 8:i64)]",
         "y[i:4] = exp(x[mod(k[i], 8:i64)])"),
    pair("an index that another let holds", "x: f32[8], k: i64[4]",
         "t[i:4] = mod(k[i], 8:i64)\nu[i:4] = t[3 - i]\ny[i:4] = x[u[i]]", "y[i:4] = x[mod(k[3 - i], 8:i64)]"),
    pair("an integer that is 0 after all, of the whole range before", "k: i64[4]",
         "t[i:2] = 0:i64\nu[i:2] = select(eq([i]:i64, 0:i64), -9223372036854775808:i64, t[i])\n"
         "y[i:4] = add(t[1], mul(mul(2:i64, u[1]), k[i]))", "y[i:4] = 0:i64"),
    # checks
    pair("a check that always holds", "x: f32[8], k: i64[4]", f"{ALWAYS}\ny[i:4] = x[c[i]]", "y[i:4] = x[mod(k[i], 8:i64)]"),
    pair("a check of an inlined value", "x: f32[8], k: i64[4]",
         f"t[i:4] = add(k[i], 1:i64)\n{require('c', 8, 't[i]')}\ny[i:4] = x[c[i]]",
         f"{require('c', 8, 'add(k[i], 1:i64)')}\ny[i:4] = x[c[i]]"),
    # folds
    pair("one accumulator through two loops", "x: f32[4,16]", SUM16,
         "y[i:4] = fold(p:4; a=0x0p+0:f32) fold(q:4; b=a) add(b, x[i, 4*p + q])"),
    pair("two loops cut otherwise", "x: f32[64]", "y[] = fold(p:4; a=0x0p+0:f32) fold(q:16; b=a) add(b, x[16*p + q])",
         "y[] = fold(p:8; a=0x0p+0:f32) fold(q:8; b=a) add(b, x[8*p + q])"),
    pair("a fold over an inlined let", "x: f32[4,16]", "t[i:4,j:16] = exp(x[i,j])\ny[i:4] = sum(k:16) t[i,k]",
         "y[i:4] = sum(k:16) exp(x[i,k])"),
    pair("softmax, its exponentials inlined", "x: f32[4,16]",
         "m[i:4] = max(k:16) x[i,k]\ne[i:4,j:16] = exp(sub(x[i,j], m[i]))\ns[i:4] = sum(k:16) e[i,k]\n"
         "y[i:4,j:16] = div(e[i,j], s[i])",
         "m[i:4] = max(k:16) x[i,k]\ns[i:4] = sum(k:16) exp(sub(x[i,k], m[i]))\n"
         "y[i:4,j:16] = div(exp(sub(x[i,j], m[i])), s[i])"),
    pair("a product of matrices, packed", "a: f32[7,16], b: f32[16,8]",
         "y[i:7,j:8] = fold(k:16; s=0x0p+0:f32) fma(a[i,k], b[k,j], s)",
         "p[i:2,k:16,u:4] = a?[4*i + u, k]\ny[i:7,j:8] = fold(k:16; s=0x0p+0:f32) fma(p[i // 4, k, i % 4], b[k,j], s)"),
    pair("argmax of an inlined let", "x: f32[4,16]", "t[i:4,j:16] = neg(x[i,j])\n" + argmax("lt(m, t[i,k])").replace("x[", "t["),
         argmax("lt(m, neg(x[i,k]))").replace("max(m, x[i,k])", "max(m, neg(x[i,k]))")),
    # exact laws
    pair("a maximum in lanes", "x: f32[4,16]", MAX16,
         "p[i:4,l:4] = max(k:4) x[i, 4*k + l]\ny[i:4] = max(max(p[i,0], p[i,2]), max(p[i,1], p[i,3]))"),
    pair("a maximum in blocks", "x: f32[4,16]", MAX16, "y[i:4] = max(p:4) max(q:4) x[i, 4*p + q]"),
    pair("a maximum in lanes, with a rest", "x: f32[4,18]", "y[i:4] = max(k:18) x[i,k]",
         "p[i:4,l:4] = max(k:4) x[i, 4*k + l]\n"
         "y[i:4] = fold(k:2; a=max(max(p[i,0], p[i,2]), max(p[i,1], p[i,3]))) max(a, x[i, k + 16])"),
    pair("a maximum with pads, in lanes of which one meets none", "x: f32[17]", f"y[] = max(k:20) {PADDED.replace('K', 'k')}",
         padded_lanes(PADDED, "4*k")),
    pair("the same, the pad chosen first", "x: f32[17]", f"y[] = max(k:20) {TURNED.replace('K', 'k')}",
         padded_lanes(TURNED, "4*k")),
    pair("a maximum in lanes that are all constant but the first", "x: f32[16]",
         "y[] = max(k:16) select(lt([k]:i64, 1:i64), x[k], 0x0p+0:f32)",
         "t[i:4] = max(k:4) select(lt([4*k + i]:i64, 1:i64), x[4*k + i], 0x0p+0:f32)\n"
         "y[] = max(max(t[0], t[2]), max(t[1], t[3]))"),
    pair("a maximum in lanes of which the last five are constant, fewer positions than lanes in each", "x: f32[3,40]",
         "y[i:3] = max(k:40) select(le([k]:i64, [i]:i64), x[i,k], 0x0p+0:f32)",
         "t[i:3,j:8] = max(k:5) select(le([j + 8*k]:i64, [i]:i64), x[i,j + 8*k], 0x0p+0:f32)\n"
         "y[i:3] = max(max(max(t[i,0], t[i,4]), max(t[i,2], t[i,6])), max(max(t[i,1], t[i,5]), max(t[i,3], t[i,7])))"),
    pair("a condition that reads a pad, which is a number there", "x: f32[2,3]",
         "t[i:4,j:4] = select(and(lt([i]:i64, 2:i64), le(0:i64, [j - 1]:i64)), x[i,j - 1], -inf:f32)\n"
         "y[] = select(lt(bitcast(t[0,0]):i32, 0:i32), neg(t[1,1]), t[1,1])",
         "y[] = neg(x[1,0])"),
    pair("a maximum in lanes with a rest, whose loop has the length of a loop in its terms", "x: f32[19], z: f32[3]",
         "s[] = sum(k:3) z[k]\ny[] = max(k:19) div(s[], x[k])",
         "t[i:4] = max(k:4) div(sum(l:3) z[l], x[4*k + i])\n"
         "y[] = fold(k:3; a=max(max(t[0], t[2]), max(t[1], t[3]))) max(a, div(sum(l:3) z[l], x[k + 16]))"),
    pair("whether any is true, of what is constant", "x: f32[3]",
         "t[i:2,j:3] = 0x0p+0:f32\nn[i:2,j:3] = ne(i16(t[i,j]), 0:i16)\ny[i:3] = any(k:2) n[k,i]", "y[i:3] = any(k:2) false"),
    pair("a pad at an index that is checked twice", "x: f32[1], p: i64[]",
         "u[i:1] = neg(x[0])\nz[i:3] = u?[i - 1]\nv[] = p[]\n" + require("c", 3, "select(eq(v[], -1:i64), 0:i64, v[])", "")
         + "\ny[] = select(eq(p[], -1:i64), 0x0p+0:f32, z[c[]])",
         "z[i:3] = select(lt([i - 1]:i64, 1:i64), select(le(0:i64, [i - 1]:i64), neg(x[0]), 0x0p+0:f32), 0x0p+0:f32)\n"
         + require("c", 3, "select(eq(p[], -1:i64), 0:i64, p[])", "")
         + "\ny[] = select(eq(p[], -1:i64), 0x0p+0:f32, z[c[]])"),
    pair("a maximum in lanes, of terms that stand twice", "x: f32[16]", "y[] = max(k:16) max(x[k], x[k])",
         "t[i:4] = max(k:4) max(x[4*k + i], x[4*k + i])\ny[] = max(max(t[0], t[2]), max(t[1], t[3]))"),
    pair("a maximum in lanes whose positions cannot be read off, with a rest", "x: f32[5,3]",
         "y[] = max(k:18) x?[k // 4, 2*(k // 2 % 2) + k % 2 - 1]",
         "t[i:8] = max(k:2) x?[2*k + i // 4, 2*(i // 2 % 2) + i % 2 - 1]\n"
         "u[i:4] = max(t[i], t[i + 4])\n"
         "y[] = fold(k:2; a=max(max(u[0], u[2]), max(u[1], u[3]))) max(a, x?[4, k - 1])"),
    pair("an integer sum backwards", "x: i64[16]", "y[] = sum(k:16) x[k]", "y[] = sum(k:16) x[15 - k]"),
    # scans
    pair("all maxima of a let", "x: f32[16]", "t[i:16] = neg(x[i])\ny[17] = scan(0) max(k:16) t[k]",
         "y[17] = scan(0) max(k:16) neg(x[k])"),
    pair("all sums, the terms turned", "x: i64[16]", "y[17] = scan(0) fold(k:16; s=0:i64) add(s, x[k])",
         "y[17] = scan(0) fold(k:16; s=0:i64) add(x[k], s)"),
    pair("all sums of rows, whose elements come in two loops", "x: f32[4,6]",
         "y[5] = scan(0) fold(p:4; a=0x0p+0:f32) fold(q:6; b=a) add(b, x[p,q])",
         "y[5] = scan(0) fold(p:4; a=0x0p+0:f32) fold(q:2; b=a) fold(r:3; d=b) add(d, x[p,3*q + r])"),
    # laws that change bits
    pair("a float sum in blocks", "x: f32[4,16]", SUM16, "y[i:4] = sum(p:4) sum(q:4) x[i, 4*p + q]", "assoc unit"),
    pair("a float sum in lanes", "x: f32[4,16]", SUM16, "y[i:4] = sum(l:4) sum(k:4) x[i, 4*k + l]", "assoc comm unit"),
    pair("a float sum backwards", "x: f32[16]", "y[] = sum(k:16) x[k]", "y[] = sum(k:16) x[15 - k]", "assoc comm unit"),
    pair("lanes of repeated elements, of which some meet only zeros", "x: f32[3,34]",
         f"{TRIANGLE}\ny[i:3] = max(k:68) t[i,k // 2]",
         f"{TRIANGLE}\np[i:3,l:8] = max(k:8) t[i,(l + 8*k) // 2]\n"
         "y[i:3] = fold(k:4; a=max(max(max(p[i,0], p[i,4]), max(p[i,2], p[i,6])), "
         "max(max(p[i,1], p[i,5]), max(p[i,3], p[i,7])))) max(a, t[i,(k + 64) // 2])"),
    pair("lanes of repeated elements", "x: f32[10]", "y[] = max(k:20) x[k // 2]",
         "p[l:8] = max(k:2) x[(l + 8*k) // 2]\ny[] = fold(k:4; a=max(max(max(p[0], p[4]), max(p[2], p[6])), max(max(p[1], p[5]), "
         "max(p[3], p[7])))) max(a, x[(k + 16) // 2])"),
)  # fmt: skip

BAD = (
    pair("all sums of the first elements, and of the last", "x: i64[16]", "y[17] = scan(0) sum(k:16) x[k]",
         "y[17] = scan(0) sum(k:16) x[15 - k]"),
    pair("all maxima of the first elements, and of the last", "x: f32[16]", "y[17] = scan(0) max(k:16) x[k]",
         "y[17] = scan(0) max(k:16) x[15 - k]"),
    pair("all maxima by rows and by columns", "x: f32[4,4]", "y[5] = scan(0) max(p:4) max(q:4) x[p,q]",
         "y[5] = scan(0) max(p:4) max(q:4) x[q,p]"),
    pair("all maxima of two elements each, and of elements that lie apart", "x: f32[8]",
         "y[5] = scan(0) max(p:4) max(q:2) x[2*p + q]", "y[5] = scan(0) max(p:4) max(x[p], x[p + 4])"),
    pair("an index from a let that has fewer columns: 0 there", "x: f32[8], n: i64[4,8]",
         "u[i:4,j:8] = min(max(n[i,j], 0:i64), 7:i64)\ny[i:4,j:8] = x[u[i,j]]",
         "u[i:4,j:6] = min(max(n[i,j], 0:i64), 7:i64)\ny[i:4,j:8] = x[u[i,j]]"),
    pair("indices of which one may not fit i64", "x: f32[8], k: i64[8]",
         "t[i:8] = neg(x[i])\nc[i:8] = mod(k[i], 8:i64)\ny[i:8] = t[7 - c[i]]", "t[i:8] = neg(x[i])\ny[i:8] = t[7 - k[i]]"),
    pair("a check that never holds, before what differs", "x: f32[4], z: f32[4]", f"{NEVER}\ny[i:4] = x[c[i]]",
         f"{NEVER}\ny[i:4] = z[c[i]]"),
    pair("two terms in one loop, against a loop for each: they change places", "x: f32[16], z: f32[16]",
         "y[] = fold(k:16; s=-0x0p+0:f32) add(s, add(x[k], z[k]))", "y[] = add(sum(k:16) x[k], sum(k:16) z[k])", "assoc unit"),
    pair("a first term in each step of an outer loop, against all of them first", "x: f32[16], z: f32[16]",
         "y[] = fold(k:4; s=-0x0p+0:f32) add(s, fold(j:4; r=z[k]) add(r, x[4*k + j]))",
         "y[] = add(sum(k:4) z[k], sum(k:16) x[k])", "assoc unit"),
    pair("positions outside of the box: two of them have one number", "x: f32[4]",
         "y[] = max(k:2) max(l:2) add(x[k], x[l])", "y[] = max(k:4) add(x[0], x[k])"),
    pair("positions outside of the box, of integers", "x: i32[4]", "y[] = sum(k:2) sum(l:2) mul(x[k], x[l])",
         "y[] = sum(k:4) mul(x[0], x[k])"),
    pair("wrong stride", "x: f32[4,16]", "t[m:64] = x[m // 16, m % 16]\ny[i:4,j:16] = neg(t[16*i + j])",
         "t[m:64] = x[m // 16, m % 16]\ny[i:4,j:16] = neg(t[15*i + j])"),
    pair("off by one", "x: f32[17]", "y[i:16] = x[i]", "y[i:16] = x[i + 1]"),
    pair("flipped", "x: f32[16]", "y[i:16] = x[i]", "y[i:16] = x[15 - i]"),
    pair("transposed", "x: f32[8,8]", "t[i:8,j:8] = exp(x[i,j])\ny[i:8,j:8] = neg(t[i,j])",
         "t[i:8,j:8] = exp(x[i,j])\ny[i:8,j:8] = neg(t[j,i])"),
    pair("mask dropped", "x: f32[10]", "y[i:16] = x?[i - 3]", "y[i:16] = x[max(min([i]:i64, 9:i64), 0:i64)]"),
    pair("mask one too wide", "x: f32[20]", "y[i:16] = select(lt([i]:i64, 10:i64), x[i], 0x0p+0:f32)",
         "y[i:16] = select(lt([i]:i64, 11:i64), x[i], 0x0p+0:f32)"),
    pair("pad with -0", "x: f32[10]", "y[i:16] = x?[i]", "y[i:16] = select(lt([i]:i64, 10:i64), x?[i], -0x0p+0:f32)"),
    pair("swapped branches", "x: f32[16], z: f32[16]", "y[i:16] = select(lt(x[i], z[i]), x[i], z[i])",
         "y[i:16] = select(lt(x[i], z[i]), z[i], x[i])"),
    pair("a comparison turned round", "x: f32[16], z: f32[16]", "y[i:16] = select(lt(x[i], z[i]), x[i], z[i])",
         "y[i:16] = select(lt(z[i], x[i]), z[i], x[i])"),
    pair("swapped operands", "x: f32[16], z: f32[16]", "y[i:16] = sub(x[i], z[i])", "y[i:16] = sub(z[i], x[i])"),
    pair("another function", "x: f32[16]", "y[i:16] = exp(x[i])", "y[i:16] = expm1(x[i])"),
    pair("another input", "x: f32[16], z: f32[16]", "y[i:16] = x[i]", "y[i:16] = z[i]"),
    pair("a rounding dropped", "x: f32[16]", "y[i:16] = f32(bf16(x[i]))", "y[i:16] = x[i]"),
    pair("contracted", "x: f32[16], z: f32[16]", "y[i:16] = add(mul(x[i], x[i]), z[i])", "y[i:16] = fma(x[i], x[i], z[i])"),
    pair("+0 added", "x: f32[16]", "y[i:16] = add(x[i], 0x0p+0:f32)", "y[i:16] = x[i]"),
    pair("multiplied by 0", "x: f32[16]", "y[i:16] = mul(x[i], 0x0p+0:f32)", "y[i:16] = 0x0p+0:f32"),
    pair("wrong init", "x: f32[4,16]", SUM16, "y[i:4] = fold(k:16; a=-0x0p+0:f32) add(a, x[i,k])"),
    pair("wrong neutral", "x: f32[4,16]", MAX16, "y[i:4] = max(max(k:16) x[i,k], 0x0p+0:f32)"),
    pair("wrong neutral of a part", "x: f32[4,16]", MAX16,
         "p[i:4,l:4] = fold(k:4; a=0x0p+0:f32) max(a, x[i, 4*k + l])\ny[i:4] = max(max(p[i,0], p[i,2]), max(p[i,1], p[i,3]))"),
    pair("last step missing", "x: f32[4,16]", SUM16, "y[i:4] = sum(k:15) x[i,k]"),
    pair("a float sum in blocks", "x: f32[4,16]", SUM16, "y[i:4] = sum(p:4) sum(q:4) x[i, 4*p + q]"),
    pair("a float sum backwards", "x: f32[16]", "y[] = sum(k:16) x[k]", "y[] = sum(k:16) x[15 - k]"),
    pair("a float sum in lanes by assoc alone", "x: f32[4,16]", SUM16, "y[i:4] = sum(l:4) sum(k:4) x[i, 4*k + l]", "assoc unit"),
    pair("three loops cut otherwise, whose step reads what the middle one starts from", "x: f32[]",
         "y[] = fold(k:2; a=0x1p+0:f32) fold(l:3; b=a) fold(m:4; c=b) add(c, mul(b, x[]))",
         "y[] = fold(k:4; a=0x1p+0:f32) fold(l:3; b=a) fold(m:2; c=b) add(c, mul(b, x[]))"),
    pair("order of two loops", "x: f32[4,4]", "y[] = fold(p:4; a=0x0p+0:f32) fold(q:4; b=a) add(b, x[p,q])",
         "y[] = fold(p:4; a=0x0p+0:f32) fold(q:4; b=a) add(b, x[q,p])"),
    pair("a fold that is not commutative, backwards", "x: f32[16]", "y[] = fold(k:16; a=0x0p+0:f32) sub(x[k], a)",
         "y[] = fold(k:16; a=0x0p+0:f32) sub(x[15 - k], a)"),
    pair("a lane that meets no pad, shifted", "x: f32[17]", f"y[] = max(k:20) {PADDED.replace('K', 'k')}",
         padded_lanes(PADDED, "4*k + 1")),
    pair("a lane twice", "x: f32[4,16]", MAX16,
         "p[i:4,l:4] = max(k:4) x[i, 4*k + l]\ny[i:4] = max(max(p[i,0], p[i,2]), max(p[i,1], p[i,2]))"),
    pair("one element, as often as all of many", "x: f32[5000000]", "y[] = max(k:5000000) x[k]",
         "y[] = max(k:5000000) x[0]"),
    pair("overlapping blocks", "x: f32[18]", "y[] = max(k:18) x[k]", "y[] = max(p:4) max(q:5) x[4*p + q - p // 3 * 2]"),
    pair("a sum with the rest twice", "x: i64[18]", "y[] = sum(k:18) x[k]",
         "y[] = fold(k:2; a=sum(p:4) sum(q:4) x[4*p + q]) add(a, x[k + 15])"),
    pair("stale let", "x: f32[16], z: f32[16]", "t[i:16] = exp(x[i])\nu[i:16] = exp(z[i])\ny[i:16] = sub(t[i], u[i])",
         "t[i:16] = exp(x[i])\ny[i:16] = sub(t[i], t[i])"),
    pair("+0 and -0 as the parameter of a reference function", "x: f32[16]", 'y = extern "nudge"(x; 0x0p+0; 0): f32[16]',
         'y = extern "nudge"(x; -0x0p+0; 0): f32[16]'),
    pair("a reference function that declares a narrower range", "x: f32[16]",
         'y = extern "sort"(x; 0, false; 1): i64[16] in 0..15', 'y = extern "sort"(x; 0, false; 1): i64[16] in 0..14'),
    pair("1 and true as the parameter of a reference function", "x: f32[16]", 'y = extern "nudge"(x; 1; 0): f32[16]',
         'y = extern "nudge"(x; true; 0): f32[16]'),
    pair("a condition on constants of which one differs", "x: f32[16]",
         "t[i:16] = select(lt([i]:i64, 15:i64), 0x1p+0:f32, -0x1p+0:f32)\n"
         "y[i:16] = select(lt(0x0p+0:f32, t[i]), x[i], exp(x[i]))",
         "y[i:16] = x[i]"),
    pair("a condition on constants, of another sign", "x: f32[16]",
         "t[i:16] = -0x0p+0:f32\ny[i:16] = select(lt(bitcast(t[i]):i32, 0:i32), 0x1p+0:f32, x[i])",
         "y[i:16] = select(lt(bitcast(0x0p+0:f32):i32, 0:i32), 0x1p+0:f32, x[i])"),
    pair("a check dropped", "x: f32[8], k: i64[4]", f"{CHECKED}\ny[i:4] = x[c[i]]", "y[i:4] = x?[k[i]]"),
    pair("a check made narrower", "x: f32[8], k: i64[4]", f"{CHECKED}\ny[i:4] = neg(x[c[i]])",
         f"{CHECKED.replace('le(0', 'le(1')}\ny[i:4] = neg(x[c[i]])"),
    pair("a check with another message", "x: f32[8], k: i64[4]", f"{CHECKED}\ny[i:4] = x[c[i]]",
         f"{CHECKED.replace('at {index}', 'there')}\ny[i:4] = x[c[i]]"),
    pair("checks in another order", "k: i64[4], m: i64[4]",
         f"{require('c', 8, 'k[i]')}\n{require('d', 9, 'm[i]')}\ny[i:4] = sub(c[i], d[i])",
         f"{require('c', 8, 'k[i]')}\n{require('d', 9, 'm[i]')}\ny[i:4] = add(neg(d[i]), c[i])"),
    pair("a gather not wrapped", "x: f32[8], k: i64[4]", "y[i:4] = x[mod(k[i], 8:i64)]", "y[i:4] = x?[k[i]]"),
    pair("half an integer the other way", "x: i64[4]", "y[i:4] = floordiv(x[i], 2:i64)",
         "y[i:4] = neg(floordiv(neg(x[i]), 2:i64))"),
    pair("a narrower integer", "x: i64[4]", "y[i:4] = x[i]", "y[i:4] = i64(i32(x[i]))"),
    pair("argmax by another tie", "x: f32[4,16]", argmax("lt(m, x[i,k])"), argmax("le(m, x[i,k])")),
    pair("argmax from another index", "x: f32[4,16]", argmax("lt(m, x[i,k])"), argmax("lt(m, x[i,k])", "1:i64")),
)  # fmt: skip
