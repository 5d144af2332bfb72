"""Index questions with their right answers: the accesses that models make, and the mistakes that compilers make.

Each case is the definition of a tensor `t`; the question is whether every access in it is in bounds on its path.
The false ones differ from a true one by a single mistake.
"""

from __future__ import annotations

from typing import NamedTuple

from assay.core.lang import Program
from assay.core.text import parse


class Case(NamedTuple):
    name: str
    inputs: str
    definition: str

    @property
    def program(self) -> Program:
        return parse(f"program f({self.inputs}):\n{self.definition}\nreturn t")


def _when(*conditions: str) -> str:
    """The conjunction of conditions such as "2 <= i - 1 < 8" and "i < j", over index variables."""
    made: list[str] = []
    for c in conditions:
        words = c.replace("<=", " le ").replace("<", " lt ").split()
        text = " ".join(words)
        parts = [p.strip() for p in text.replace(" le ", "|le|").replace(" lt ", "|lt|").split("|")]
        for a, how, b in zip(parts[::2], parts[1::2], parts[2::2], strict=False):
            made.append(f"{how}([{a}]:i64, [{b}]:i64)")
    result = made[0]
    for m in made[1:]:
        result = f"and({result}, {m})"
    return result


def _guarded(conditions: list[str], value: str) -> str:
    return f"select({_when(*conditions)}, {value}, 0)"


def _clamp(x: str, lo: int, hi: int) -> str:
    return f"min(max({x}, {lo}), {hi})"


def _wrapped(x: str, n: int) -> str:
    return f"select(lt({x}, 0), add({x}, {n}), {x})"


# m -> index: reshapes and transposes written as compilers leave them
_A = "(21*i + j)"
_M5 = "(m//77*77 + m%77)"
_F = "((m%54)*16 + m//54)"
_G = f"(({_F}%36)*24 + {_F}//36)"
_S1 = "((m%30)*1001 + m//30)"
_S2 = f"(({_S1}%42)*715 + {_S1}//42)"
_S3 = f"(({_S2}%154)*195 + {_S2}//154)"
_W, _P = "(m//49)", "(m%49)"
_OFFSETS = 'r[i:65] = require(and(le(0, o[i]), le(o[i], 10000)), o[i], "[IndexError] bad offset {value}", 0..10000)\n'
_TRIANGLE = "floordiv(mul([i]:i64, [i - 1]:i64), 2)"
_TRIANGLE_UP = "floordiv(mul([i]:i64, [i + 1]:i64), 2)"
_GROUP = "min([37 - 8*(m//232)]:i64, 8)"

TRUE = [
    Case("affine", "x: f32[1048576]", "t[i:64,j:2,r:8192] = x[16384*i + 8192*j + r]"),
    Case("transpose", "x: f32[131072]", "t[i:256,j:512] = x[i + 256*j]"),
    Case("slice x[3:100:2]", "x: f32[100]", "t[i:49] = x[2*i + 3]"),
    Case("flip", "x: f32[128]", "t[i:128] = x[127 - i]"),
    Case("roll", "x: f32[128]", "t[i:128] = x[(i - 5)%128]"),
    Case("roll in two dimensions", "x: f32[3136]", "t[i:56,j:56] = x[((i - 3)%56)*56 + (j - 3)%56]"),
    Case("pad", "x: f32[128]", f"t[i:132] = {_guarded(['2 <= i < 130'], 'x[i - 2]')}"),
    Case("pad by reflection", "x: f32[32]",
         "t[i:38] = x[select(lt([i - 3]:i64, 0), [3 - i]:i64, select(le(32, [i - 3]:i64), [65 - i]:i64, [i - 3]:i64))]"),
    Case("right part of a join", "x: f32[28]", "t[i:128] = select(lt([i]:i64, 100), 0, x[i - 100])"),
    Case("repeat", "x: f32[128]", "t[i:512] = x[i%128]"),
    Case("repeat_interleave", "x: f32[128]", "t[i:512] = x[i//4]"),
    Case("unflatten", "x: f32[8192]", "t[m:8192] = x[(m//128)*128 + m%128]"),
    Case("reshape, the row", "x: f32[12]", f"t[i:20,j:21] = x[{_A}//35]"),
    Case("reshape and transpose", "x: f32[420]", f"t[i:20,j:21] = x[{_A}//35 + 12*({_A}%35)]"),
    Case("merge heads", "x: f32[786432]", "t[i:8,j:128,k:768] = x[((i*12 + k//64)*128 + j)*64 + k%64]"),
    Case("three reshapes", "x: f32[5005]", f"t[m:5005] = x[({_M5}%35)*143 + {_M5}//35]"),
    Case("reshape, transpose, reshape, transpose", "x: f32[864]", f"t[m:864] = x[({_G}%24)*36 + {_G}//24]"),
    Case("convolution, guarded", "x: f32[224]", f"t[i:112,k:3] = {_guarded(['0 <= i*2 + k - 1 < 224'], 'x[i*2 + k - 1]')}"),
    Case("convolution without padding", "x: f32[224]", "t[i:111,k:3] = x[i*2 + k]"),
    Case("two-dimensional convolution, guarded", "x: f32[3211264]", "t[i:112,j:112,k:3,l:3,m:64] = " + _guarded(
        ["0 <= i*2 + k - 1 < 224", "0 <= j*2 + l - 1 < 224"], "x[(m*224 + (i*2 + k - 1))*224 + (j*2 + l - 1)]")),
    Case("unfold", "x: f32[128]", "t[i:42,j:5] = x[i*3 + j]"),
    Case("im2col", "x: f32[25088]", "t[i:26,j:26,m:288] = x[((m//9)*28 + (i + (m%9)//3))*28 + (j + m%3)]"),
    Case("pooling in ceil mode", "x: f32[112]", f"t[i:56,k:3] = {_guarded(['i*2 + k < 112'], 'x[i*2 + k]')}"),
    Case("example 6.3", "x: f32[128]", "t[i:128] = x[(3*i)%128]"),
    Case("gather, clamped", "x: f32[128], n: i64[9]", f"t[i:9] = x[{_clamp('n[i]', 0, 127)}]"),
    Case("gather, floor mod", "x: f32[128], n: i64[9]", "t[i:9] = x[n[i]%128]"),
    Case("gather, wrapped and checked", "x: f32[128], n: i64[9]",
         f"t[i:9] = select(and(le(-128, n[i]), lt(n[i], 128)), x[{_wrapped('n[i]', 128)}], 0)"),
    Case("gather, wrapped and clamped", "x: f32[128], n: i64[9]", f"t[i:9] = x[{_clamp(_wrapped('n[i]', 128), 0, 127)}]"),
    Case("embedding", "x: f32[38597376], n: i64[9]", f"t[i:9,j:768] = x[{_clamp('n[i]', 0, 50256)}*768 + j]"),
    Case("nested gather", "x: f32[8192], n: i64[9], o: i64[9]", f"t[i:9] = x[{_clamp('n[i]', 0, 63)}*128 + o[i]%128]"),
    Case("paged table", "x: f32[4096], o: i64[256]", f"t[m:4096] = x[{_clamp('o[m//16]', 0, 255)}*16 + m%16]"),
    Case("jagged rows", "x: f32[10000], o: i64[65]",
         _OFFSETS + "t[i:64,p:20000] = select(and(le(r[i], [p]:i64), lt([p]:i64, r[i + 1])), x[p], 0)"),
    Case("lower triangle, packed", "x: f32[8128]", f"t[i:128,j:128] = {_guarded(['j < i'], f'x[{_TRIANGLE} + j]')}"),
    Case("upper triangle, packed", "x: f32[8256]", f"t[i:128,j:128] = {_guarded(['i <= j'], f'x[128*i - {_TRIANGLE_UP} + j]')}"),
    Case("diagonal", "x: f32[16384]", "t[i:128] = x[129*i]"),
    Case("middle of a binary search", "x: f32[1000], n: i64[9], o: i64[9]",
         "t[i:9] = select(and(and(le(0, n[i]), le(n[i], o[i])), lt(o[i], 1000)), x[(n[i] + o[i])//2], 0)"),
    Case("nearest, up", "x: f32[100]", "t[i:37] = x[(i*100)//37]"),
    Case("nearest, down", "x: f32[224]", "t[i:1000] = x[(i*224)//1000]"),
    Case("rotate half", "x: f32[64]", "t[i:64] = x[select(lt([i]:i64, 32), [i + 32]:i64, [i - 32]:i64)]"),
    Case("relative position", "x: f32[393]", "t[i:197,j:197] = x[i - j + 196]"),
    Case("shifted windows", "x: f32[3136]",
         f"t[m:3136] = x[(({_W}//8*7 + {_P}//7 + 3)%56)*56 + ({_W}%8*7 + {_P}%7 + 3)%56]"),
    Case("pixel shuffle", "x: f32[147456]", "t[i:16,j:96,k:96] = x[((i*9 + (j%3)*3 + k%3)*32 + j//3)*32 + k//3]"),
    Case("tiles with a tail", "x: f32[1000]", f"t[i:8,k:128] = {_guarded(['i*128 + k < 1000'], 'x[i*128 + k]')}"),
    Case("block-cyclic", "x: f32[4096]", "t[i:4096] = x[((i//4)%8)*512 + (i//32)*4 + i%4]"),
    Case("mod spelled out", "x: f32[77]", "t[m:5005] = x[m - (m//77)*77]"),
    Case("relinearised", "x: f32[288]", "t[m:288] = x[(m//9)*9 + ((m%9)//3)*3 + m%3]"),
    Case("partial group", "x: f32[1003]", "t[m:1003] = x[(m//12)*12 + m%12]"),
    Case("transposed convolution", "x: f32[32]",
         "t[i:64,k:4] = select(and(and(le(0, [i + 1 - k]:i64), eq([(i + 1 - k)%2]:i64, 0)), lt([(i + 1 - k)//2]:i64, 32)), "
         "x[(i + 1 - k)//2], 0)"),
    Case("two levels of tiles", "x: f32[25000]",
         f"t[i:100,j:8,k:32] = {_guarded(['i*256 + j*32 + k < 25000'], 'x[i*256 + j*32 + k]')}"),
    Case("ring buffer", "x: f32[1024]", "t[i:100000,j:1024] = x[(i - j)%1024]"),
    Case("grouped tiles", "x: f32[40]", "t[m:1073] = x[(m//232)*8 + (m%232)%8]"),
    Case("grouped tiles, exact tail", "x: f32[37]", f"t[m:1073] = {{ g = {_GROUP} x[(m//232)*8 + mod([m%232]:i64, g)] }}"),
    Case("six levels of reshape and transpose", "x: f32[30030]", f"t[m:30030] = x[{_S3}]"),
    Case("intermediate of 10**9", "x: f32[1000000]",
         "t[i:1000,j:1000,k:1000] = x[((i*1000 + j)*1000 + k)//1000000*1000 + (i*1000000 + j*1000 + k)%1000]"),
    Case("window start, clamped", "x: f32[56]", f"t[i:7,k:9] = x[{_clamp('[(i*56 + 6)//7 + k - 4]:i64', 0, 55)}]"),
    Case("adaptive pooling", "x: f32[64]", "t[i:7,k:12] = " + _guarded(
        ["(i*64)//7 + k < ((i + 1)*64 + 6)//7"], "x[(i*64)//7 + k]")),
    Case("pad of a join of a convolution", "x: f32[2048]", "t[i:66,j:66] = " + _guarded(
        ["1 <= i < 65", "1 <= j < 65"],
        "x[select(lt([i - 1]:i64, 32), [(i - 1)*64 + j - 1]:i64, [(i - 33)*64 + j - 1]:i64)]")),
]  # fmt: skip

FALSE = [
    Case("slice, one too many", "x: f32[101]", "t[i:50] = x[2*i + 3]"),
    Case("tiles without a tail mask", "x: f32[1000]", "t[i:8,k:128] = x[i*128 + k]"),
    Case("pad without a mask", "x: f32[128]", "t[i:132] = x[i - 2]"),
    Case("convolution without a guard", "x: f32[224]", "t[i:112,k:3] = x[i*2 + k - 1]"),
    Case("gather of raw indices", "x: f32[128], n: i64[9]", "t[i:9] = x[n[i]]"),
    Case("wrapped but not checked", "x: f32[128], n: i64[9]", f"t[i:9] = x[{_wrapped('n[i]', 128)}]"),
    Case("remainder of C", "x: f32[128], n: i64[9]", "t[i:9] = x[select(lt(n[i], 0), neg(mod(neg(n[i]), 128)), mod(n[i], 128))]"),
    Case("reshape to a wrong size", "x: f32[12]", "t[i:20,j:22] = x[(21*i + j)//35]"),
    Case("triangle with its diagonal", "x: f32[8128]", f"t[i:128,j:128] = {_guarded(['j <= i'], f'x[{_TRIANGLE} + j]')}"),
    Case("nearest, shifted", "x: f32[100]", "t[i:37] = x[(i*100 + 100)//37]"),
    Case("wrong radix", "x: f32[288]", "t[m:288] = x[(m//9)*10 + m%9]"),
    Case("adaptive pooling without a guard", "x: f32[64]", "t[i:7,k:12] = x[(i*64)//7 + k]"),
]  # fmt: skip
