"""Writes assay/core/mathlib/coefficients.py: every polynomial and every split constant of the elementary functions.

    python tools/fit_mathlib.py [NAME ...]     fits only NAME ... again, keeps the others
    python tools/fit_mathlib.py --constants    only the constants

Polynomials come from sollya's fpminimax (Debian package sollya): coefficients are already rounded to the format, the
relative error is minimax, and is measured again by dirtyinfnorm. Constants come from mpmath, as unevaluated sums hi + lo.
"""

import importlib.util
import math
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import mpmath
import numpy as np

OUTPUT = Path(__file__).parent.parent / "assay" / "core" / "mathlib" / "coefficients.py"
PRECISION = {"f32": 24, "f64": 53}
FORMATS = {"f32": "SG", "f64": "D"}


@dataclass(frozen=True)
class Fit:
    """p(x) ~ function on [low; high], minimising |1 - p/function|.

    `leading` are sollya's formats (or numbers of bits) of the first coefficients, where they are not the format itself; the
    first one is then a pair hi + lo whose hi has `zeros` trailing zero bits.
    """

    name: str
    function: str
    low: str
    high: str
    degree: dict[str, int]
    leading: dict[str, str] | None = None
    zeros: int = 0


def odd_rest(f: str) -> str:
    """(f(r) - r)/r^3 as a function of x = r^2."""
    return f"({f}(sqrt(x))-sqrt(x))/(sqrt(x)*x)"


PAIR = {"f32": "D", "f64": "DD"}
TAIL = {"f32": "40", "f64": "98"}  # c0 = hi + lo, hi short enough for hi - F to be exact, see mathlib/gaussian.py
ATANH_LOG = "log((1+sqrt(x))/(1-sqrt(x)))"  # with sqrt(x) = (m-1)/(m+1): log(m)
TINY = "2^(-24)"


def erfc(t: str) -> str:
    """erfc(t) e**t^2."""
    return f"erfc({t})*exp({t}^2)"


def tail(name: str, g: str, log_slope: str, k: str, m: str, last: str, degree: dict[str, int]) -> list[Fit]:
    """g(t) (t + k) as a function of x = w - m with w = 1/(t + k), t in [0, last]; the slope of log(g) against log(w), roughly."""
    w = f"(x+{m})"
    t = f"(1/{w}-{k})"
    low, high = f"1/({last}+{k})-{m}", f"1/{k}-{m}"
    function = g.format(t=t)
    slope = f"-({log_slope.format(t=t, g=f'({function})')})/{w}"
    rough = Fit(f"{name}_slope", slope, low, high, dict.fromkeys(degree, 2))
    return [Fit(f"{name}_tail", f"{function}/{w}", low, high, degree, TAIL, 8), rough]


FITS = [
    Fit("exp", "(expm1(x)-x)/x^2", "-0.3468", "0.3468", {"f32": 5, "f64": 10}),
    Fit("expm1", "(expm1(x)-x-x^2/2)/x^3", "-0.3468", "0.3468", {"f32": 4, "f64": 9}),
    Fit("exp2_wide", "2^x", "-0.5", "0.5", {"f64": 8}),
    Fit("sinh", odd_rest("sinh"), TINY, "1", {"f32": 3, "f64": 7}),
    Fit("log", "(log1p(x)-x+x^2/2)/x^3", "-0.29290", "0.41422", {"f32": 9}),
    Fit("log_atanh", f"({ATANH_LOG}/sqrt(x)-2)/x", TINY, "0.02945", {"f64": 7}),
    Fit("log_double", f"((({ATANH_LOG}/sqrt(x)-2)/x-2/3)/x-2/5)/x", "2^(-20)", "0.02945", {"f64": 8}),
    Fit("log2_wide", f"{ATANH_LOG}/log(2)/sqrt(x)", TINY, "0.02945", {"f64": 6}),
    Fit("erf", "erf(sqrt(x))/sqrt(x)-1", TINY, "1", {"f32": 7, "f64": 13}, PAIR),
    Fit("log_erfc", "log(erfc(0.8398838639259338+x))", "0", "3.12", {"f32": 9}),  # the shift: log_erfc_start below
    *tail("erfc", erfc("{t}"), "2*{t}-2/sqrt(pi)/{g}", "1.75", "0.15625", "9.3", {"f32": 10}),
    *tail("erfc", erfc("{t}"), "2*{t}-2/sqrt(pi)/{g}", "2.5", "0.15625", "26.6", {"f64": 26}),
    *tail("gelu", erfc("({t}*sqrt(1/2))") + "/2", "{t}-sqrt(1/(2*pi))/{g}", "2.5", "0.125", "13.5", {"f32": 10}),
    *tail("gelu", erfc("({t}*sqrt(1/2))") + "/2", "{t}-sqrt(1/(2*pi))/{g}", "3", "0.09375", "37.6", {"f64": 25}),
    Fit("sin", odd_rest("sin"), TINY, "0.6169", {"f32": 3, "f64": 6}),
    Fit("cos", "(cos(sqrt(x))-1+x/2)/x^2", TINY, "0.6169", {"f32": 3, "f64": 6}),
    Fit("tan", odd_rest("tan"), TINY, "0.6169", {"f32": 7, "f64": 15}),
    Fit("asin", odd_rest("asin"), TINY, "0.25", {"f32": 5, "f64": 12}),
    Fit("atan", odd_rest("atan"), TINY, "0.17158", {"f32": 5, "f64": 12}),
    Fit("cbrt", "x^(1/3)", "0.5", "4", {"f32": 4, "f64": 4}),
]


def fit(f: Fit, dtype: str) -> tuple[list[float], float]:
    """Coefficients from degree 0 up (a pair's low part comes second), and log2 of the largest relative error."""
    degree = f.degree[dtype]
    leading = f"{f.leading[dtype]}, " if f.leading else ""
    script = f"""prec = 300; display = hexadecimal!; f = {f.function}; I = [{f.low};{f.high}];
p = fpminimax(f, {degree}, [|{leading}{FORMATS[dtype]}...|], I, floating, relative);
for i from 0 to {degree} do print("C", coeff(p, i));
display = decimal!; print("E", dirtyinfnorm(1 - p/f, I)); quit;"""
    run = subprocess.run(["sollya", "--warnonstderr"], input=script, capture_output=True, text=True, timeout=600, check=True)
    coefficients = [exact(c) for c in re.findall(r"^C (\S+)", run.stdout, re.M)]
    errors = re.findall(r"^E (\S+)", run.stdout, re.M)
    if len(coefficients) != degree + 1 or not errors:
        raise SystemExit(f"sollya did not fit {f.name} {dtype}:\n{run.stdout}{run.stderr}")
    first = split(coefficients[0], dtype, f.zeros) if f.leading else [float(coefficients[0])]
    return first + [float(c) for c in coefficients[1:]], math.log2(float(errors[0]))


def exact(text: str) -> mpmath.mpf:
    """The number that sollya printed, in hexadecimal, exactly."""
    m = re.fullmatch(r"(-?)0x([0-9a-f]+)\.?([0-9a-f]*)p([+-]?\d+)", text)
    if not m:
        return mpmath.mpf(int(text))
    sign, whole, fraction, exponent = m.groups()
    v = mpmath.ldexp(mpmath.mpf(int(whole + fraction, 16)), int(exponent) - 4 * len(fraction))
    return -v if sign else v


def rounded(v: mpmath.mpf, dtype: str) -> float:
    return float(np.float32(float(v))) if dtype == "f32" else float(v)


def split(v: mpmath.mpf, dtype: str, zeros: int = 0) -> list[float]:
    """v = hi + lo; hi has `zeros` trailing zero bits, so that small integers times hi are exact."""
    exponent = int(mpmath.floor(mpmath.log(abs(v), 2))) + 1 - PRECISION[dtype] + zeros
    hi = mpmath.ldexp(mpmath.nint(mpmath.ldexp(v, -exponent)), exponent)
    return [float(hi), rounded(v - hi, dtype)]


def constants(dtype: str) -> dict[str, list[float]]:
    pi, ln2, ln10 = mpmath.pi, mpmath.log(2), mpmath.log(10)
    integers = {"f32": 8, "f64": 11}[dtype]  # bits of an exponent
    return {
        "ln2_by_integer": split(ln2, dtype, integers),
        "ln2": split(ln2, dtype),
        "log10_2_by_integer": split(ln2 / ln10, dtype, integers),
        "inverse_ln2": split(1 / ln2, dtype),
        "inverse_ln10": split(1 / ln10, dtype),
        "pi": split(+pi, dtype),
        "pi_2": split(pi / 2, dtype),
        "pi_4": split(pi / 4, dtype),
        "pi_3_4": split(3 * pi / 4, dtype),
        "nine_eighths_of_sqrt_half": split(mpmath.mpf("1.125") * mpmath.sqrt(0.5), dtype),
        "gelu_linear": split(2 * mpmath.sqrt(2 / pi), dtype),
        "gelu_cubic": split(2 * mpmath.sqrt(2 / pi) * mpmath.mpf("0.044715"), dtype),
        "two_thirds": split(mpmath.mpf(2) / 3, dtype),
        "two_fifths": split(mpmath.mpf(2) / 5, dtype),
    }


def two_over_pi(words: int, zeros: int = 64) -> list[int]:
    """2/pi after `zeros` zero bits, in 64-bit words, the most significant first."""
    v = int(mpmath.floor(mpmath.ldexp(2 / mpmath.pi, 64 * words - zeros)))
    return [(v >> 64 * (words - 1 - i)) & (2**64 - 1) for i in range(words)]


def log_erfc_start() -> float:
    """The f32 t in 0.8398 + [0, 4000) steps for which log(erfc(t)) is nearest to an f32: its constant term is then exact."""

    def miss(t: mpmath.mpf) -> mpmath.mpf:
        v = mpmath.log(mpmath.erfc(t))
        return abs(v - rounded(v, "f32"))

    first = int(0.8398 * 2**24)
    return float(min((mpmath.mpf(first + k) / 2**24 for k in range(4000)), key=miss))


def listed(values: list[str]) -> str:
    """A tuple display, wrapped."""
    lines, line = [], "       "
    for v in values:
        if len(line) + len(v) > 120:
            lines.append(line)
            line = "       "
        line += f" {v},"
    return "(\n" + "\n".join([*lines, line]) + "\n    )"


def hexes(values: list[float]) -> str:
    return listed([f'"{v.hex()}"' for v in values])


def write(polynomials: dict[str, dict[str, tuple[list[float], str]]]) -> None:
    out = [
        '"""Coefficients and constants of the elementary functions. Written by tools/fit_mathlib.py; do not edit."""',
        "",
        "# fmt: off",
    ]
    out += ["LOG_ERFC_START = " + f'float.fromhex("{log_erfc_start().hex()}")']
    out += ['"""Where the polynomial log_erfc begins: log(erfc(.)) is almost an f32 there."""', ""]
    out += ["TWO_OVER_PI = " + listed([f"0x{w:016x}" for w in two_over_pi(20)]).replace("\n    )", "\n)")]
    out += ['"""2/pi after 64 zero bits, in 64-bit words."""', ""]
    out += ["CONSTANTS: dict[str, dict[str, tuple[str, str]]] = {"]
    for dtype in FORMATS:
        out += [f'    "{dtype}": {{']
        out += [f'        "{name}": ("{hi.hex()}", "{lo.hex()}"),' for name, (hi, lo) in constants(dtype).items()]
        out += ["    },"]
    out += ["}", '"""constant = hi + lo; `by_integer`: hi times an exponent is exact."""', ""]
    out += ["POLYNOMIALS: dict[str, dict[str, tuple[str, ...]]] = {"]
    for dtype in FORMATS:
        out += [f'    "{dtype}": {{']
        for name in dict.fromkeys(f.name for f in FITS if dtype in f.degree):
            values, comment = polynomials[dtype][name]
            out += [f"        # {comment}", f'        "{name}": ' + hexes(values).replace("\n", "\n    ") + ","]
        out += ["    },"]
    out += ["}", ""]
    OUTPUT.write_text("\n".join(out))


def present() -> dict[str, dict[str, tuple[list[float], str]]]:
    """What the file holds now, with the comment above each polynomial."""
    found: dict[str, dict[str, tuple[list[float], str]]] = {d: {} for d in FORMATS}
    if not OUTPUT.exists():
        return found
    spec = importlib.util.spec_from_file_location("coefficients", OUTPUT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = OUTPUT.read_text()
    for dtype, rows in module.POLYNOMIALS.items():
        comments = re.findall(r'# (.*)\n +"(\w+)": \(', text[text.index(f'"{dtype}": {{', text.index("POLYNOMIALS")) :])
        named = {name: comment for comment, name in reversed(comments)}
        found[dtype] = {name: ([float.fromhex(v) for v in values], named[name]) for name, values in rows.items()}
    return found


def main(names: list[str]) -> None:
    mpmath.mp.prec = 2000
    polynomials = present()
    for f in FITS:
        if names and f.name not in names:
            continue
        for dtype, degree in f.degree.items():
            values, error = fit(f, dtype)
            comment = f"degree {degree} on [{f.low};{f.high}], relative error 2^{error:.2f}"
            before = polynomials[dtype].get(f.name)
            print(f.name, dtype, comment, "(unchanged)" if before and before[0] == values else "(new)", flush=True)
            polynomials[dtype][f.name] = values, comment
    write(polynomials)


if __name__ == "__main__":
    main(sys.argv[1:])
