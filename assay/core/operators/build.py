"""Builders that meanings are written with: promotion, broadcasting, dimensions, folds over several axes.

Half types: an operator computes in f32 from its arguments to its result and rounds once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from assay.core import dtypes as dt
from assay.core.dtypes import DType, category, compute_dtype, promote
from assay.core.errors import UserError
from assay.core.index import is_symbolic
from assay.core.lang import E, Ix, T, const, convert, folds, load, op, require, tensor

Number: TypeAlias = "int | float | bool"
Operand: TypeAlias = "T | int | float | bool"


# ------------------------------------------------------------------------------------------------ types


def result_type(*operands: Operand) -> DType:
    """PyTorch's common type: tensors with axes decide, then 0-d tensors, then numbers, each only by a higher category.

    The ladder is bool < integer < float; a number that decides is bool, i64 or f32.
    """
    with_axes: DType | None = None
    without: DType | None = None
    numbers: DType | None = None
    for x in operands:
        if not isinstance(x, T):
            numbers = _join(numbers, number_type(x))
        elif x.shape:
            with_axes = _join(with_axes, x.dtype)
        else:
            without = _join(without, x.dtype)
    result = _weak(with_axes, _weak(without, numbers))
    if result is None:
        raise UserError("no operands")
    return result


def number_type(x: Number) -> DType:
    """The type of a Python number, or of a size, as a tensor: bool, i64, f32."""
    return dt.i64 if is_symbolic(x) else dt.default_dtype(x)


def _join(a: DType | None, b: DType) -> DType:
    return b if a is None else promote(a, b)


def _weak(a: DType | None, b: DType | None) -> DType | None:
    """`a` unless `b` is of a higher category, then their common type."""
    if a is None or b is None:
        return a or b
    return a if category(a) >= category(b) else promote(a, b)


def float_type(d: DType) -> DType:
    """`d` if it is a float type, else f32 (PyTorch's default)."""
    return d if d.is_float else dt.f32


def largest_of(d: DType) -> float:
    """The largest finite value of a float type."""
    mantissa, exponent = {"f16": (11, 15), "bf16": (8, 127), "f32": (24, 127), "f64": (53, 1023)}[d.name]
    return math.ldexp(2 - math.ldexp(1, 1 - mantissa), exponent)


def need_float(x: T) -> DType:
    """The type of `x`, which must be a float type."""
    if not x.dtype.is_float:
        raise UserError(f"needs a float tensor, not {x.dtype.name}; convert it first, as in x.to(float32)")
    return x.dtype


def same_type(*tensors: T) -> DType:
    """The one type of all `tensors`."""
    if any(t.dtype is not tensors[0].dtype for t in tensors):
        raise UserError(f"needs tensors of one type, not {', '.join(t.dtype.name for t in tensors)}; convert them first")
    return tensors[0].dtype


def number(value: Number, dtype: DType) -> E:
    """The Python number as a constant: rounded or wrapped to `dtype`, and lifted to the type it is computed in.

    Raises UserError for an integer beyond 64 bits, and for a float where an integer type is wanted.
    """
    if isinstance(value, float) and not dtype.is_float:
        raise UserError(f"the float {value!r} is not a value of type {dtype.name}")
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        raise UserError(f"the integer {value} does not fit 64 bits")
    return lift(const(value, dtype))


def lift(e: E) -> E:
    """`e` in the type it is computed in (f16 and bf16 in f32, exactly)."""
    return convert(e, compute_dtype(e.dtype))


# ------------------------------------------------------------------------------------------------ shapes


def broadcast(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The common shape; axes align at the right, size 1 repeats.  Raises UserError where sizes differ."""
    rank = max(map(len, shapes), default=0)
    result: list[int] = []
    for k in range(-rank, 0):
        wide: list[int] = []
        for n in (s[k] for s in shapes if len(s) >= -k):
            if n != 1 and not any(n == m for m in wide):
                wide.append(n)
        if len(wide) > 1:
            listed = ", ".join(str(list(s)) for s in shapes)
            raise UserError(f"shapes {listed} do not broadcast: sizes {sorted(wide)} at axis {k}; allowed: equal, or 1")
        result.append(wide[0] if wide else 1)
    return tuple(result)


def dim(d: int, rank: int) -> int:
    """The axis `d` counted from the front; a 0-d tensor has the axes 0 and -1 (PyTorch)."""
    n = max(rank, 1)
    if not -n <= d < n:
        raise UserError(f"dim {d} is not an axis of a tensor of rank {rank}; allowed: {-n}..{n - 1}")
    return d % n


def dims(ds: Iterable[int] | None, rank: int) -> tuple[int, ...]:
    """The axes `ds` in ascending order; None or none given means all of them.  Raises UserError for a repeated one."""
    chosen = tuple(ds or ())
    if not chosen:
        return tuple(range(rank))
    found = sorted(dim(d, rank) for d in chosen)
    if len(set(found)) != len(found):
        raise UserError(f"dims {list(chosen)} name an axis twice")
    return tuple(k for k in found if k < rank)


def size_at(t: T, k: int) -> int:
    """The size of axis `k`; a 0-d tensor counts as one of size 1."""
    return t.shape[k] if t.shape else 1


def inserted(index: Sequence[Any], axis: int, x: Ix | int) -> list[Any]:
    """`index` with `x` inserted as axis `axis`."""
    return [*index[:axis], x, *index[axis:]]


def at(t: T, index: Sequence[Any]) -> E:
    """t[index], broadcast: the last axes of `index`, an axis of size 1 read at 0."""
    used = index[len(index) - len(t.shape) :]
    return load(t, *(0 if n == 1 else i for n, i in zip(t.shape, used, strict=True)))


def constant(shape: Sequence[int], value: Number, dtype: DType) -> T:
    """Every element is `value`."""
    return tensor(shape, lambda *_: const(value, dtype))


def elements(shape: Sequence[int], body: Callable[..., E], dtype: DType) -> T:
    """y[i...] = body(i...) rounded or wrapped to `dtype`; a tensor without elements has no body to build."""
    if 0 in shape:
        return constant(shape, 0, dtype)
    return tensor(shape, lambda *i: convert(body(*i), dtype))


# ------------------------------------------------------------------------------------------------ pointwise


def pointwise(fn: Callable[..., E], *operands: Operand, promotion: str = "default", kinds: str = "bool int float",
              dtype: DType | None = None) -> T:  # fmt: skip
    """y[i...] = fn(a[i...], b[i...], ...) on operands broadcast together and converted to their common type first.

    promotion: "default" the common type · "int_to_float" f32 where that is bool or integer · "bool" compares in the
    common type, the result is bool.  `kinds` are the categories of the common type that the operator allows; `dtype`
    replaces the common type.  fn sees f32 for half types; its result is rounded once.
    """
    common = dtype or result_type(*operands)
    allowed = kinds.split()
    if ("int" if common.kind == "uint" else common.kind) not in allowed:
        raise UserError(f"not defined on {common.name}; allowed: {', '.join(allowed)}")
    if promotion == "int_to_float":
        common = float_type(common)
    shape = broadcast(*(x.shape for x in operands if isinstance(x, T)))
    constants = [None if isinstance(x, T) else number(x, common) for x in operands]

    def body(*i: Ix) -> E:
        return fn(*(lift(convert(at(x, i), common)) if isinstance(x, T) else c for x, c in zip(operands, constants, strict=True)))

    return elements(shape, body, dt.bool_ if promotion == "bool" else common)


def cast(x: T, dtype: DType) -> T:
    """x as `dtype` (x itself where it has that type)."""
    return x if x.dtype is dtype else tensor(x.shape, lambda *i: convert(load(x, *i), dtype))


def copy(x: T) -> T:
    """y[i...] = x[i...]"""
    return tensor(x.shape, lambda *i: load(x, *i))


def written(target: T, value: T) -> T:
    """What `target` becomes when `value` is stored in it: `value` in the type of `target`.

    Raises UserError where the shapes differ or the type is of a higher category (a float into an integer tensor).
    """
    if value.shape != target.shape:
        raise UserError(f"a result of shape {list(value.shape)} cannot be stored in a tensor of shape {list(target.shape)}")
    if category(value.dtype) > category(target.dtype):
        raise UserError(f"a result of type {value.dtype.name} cannot be stored in a tensor of type {target.dtype.name}")
    return cast(value, target.dtype)


def nonzero(divisor: Operand, shape: Sequence[int], dtype: DType) -> Callable[[Sequence[Ix]], E]:
    """Index -> the integer divisor as `dtype`, guarded: a zero raises ZeroDivisionError (unless `shape` is empty)."""
    known = None if isinstance(divisor, T) else number(divisor, dtype)
    if known is not None and known.lo != 0:
        return lambda i: known
    t = cast(divisor, dtype) if isinstance(divisor, T) else constant((), divisor, dtype)
    if 0 in shape or t.lo > 0 or t.hi < 0:
        return lambda i: at(t, i)
    x = tensor(t.shape, lambda *i: load(t, *i)).body
    checked = require(t.shape, x, op("ne", x, 0), "[ZeroDivisionError] integer division by zero at {index}")
    return lambda i: at(checked, i)


# ------------------------------------------------------------------------------------------------ folds


Step: TypeAlias = Callable[[tuple[E, ...], tuple[Ix, ...]], tuple[E, ...]]


def fold_axes(sizes: Sequence[int], inits: Sequence[E], step: Step) -> tuple[E, ...]:
    """The left fold over the indices of `sizes` in lexicographic order: accs = step(accs, index)."""

    def level(k: int, accs: tuple[E, ...], index: tuple[Ix, ...]) -> tuple[E, ...]:
        if k == len(sizes):
            return step(accs, index)
        return folds(sizes[k], accs, lambda *a: level(k + 1, a[:-1], (*index, a[-1])))  # type: ignore[arg-type]

    return level(0, tuple(inits), ())


def kept_shape(shape: Sequence[int], reduced: Sequence[int], *, keepdim: bool) -> tuple[int, ...]:
    """The shape after reducing the axes `reduced`."""
    if keepdim:
        return tuple(1 if k in reduced else n for k, n in enumerate(shape))
    return tuple(n for k, n in enumerate(shape) if k not in reduced)


def merged(outer: Sequence[Any], inner: Sequence[Any], reduced: Sequence[int], rank: int, *, keepdim: bool) -> list[Any]:
    """The full index: `inner` at the axes `reduced`, the output's index `outer` at the others."""
    rest = iter(i for k, i in enumerate(outer) if not (keepdim and k in reduced))
    inside = iter(inner)
    return [next(inside) if k in reduced else next(rest) for k in range(rank)]


def reduction(x: T, reduced: Sequence[int], inits: Sequence[E], step: Callable[..., tuple[E, ...]], finish: Callable[..., E],
              dtype: DType, *, keepdim: bool, compute: DType | None = None) -> T:  # fmt: skip
    """y[i...] = finish(left fold over the axes `reduced`, ascending, of step(accs, x[i, k] as `compute`, (k...))), as `dtype`.

    `compute` defaults to the type x is computed in.
    """
    how = compute or compute_dtype(x.dtype)
    sizes = [x.shape[k] for k in reduced]

    def body(*outer: Ix) -> E:
        def one(accs: tuple[E, ...], inner: tuple[Ix, ...]) -> tuple[E, ...]:
            full = merged(outer, inner, reduced, len(x.shape), keepdim=keepdim)
            return step(accs, convert(load(x, *full), how), inner)

        return finish(*fold_axes(sizes, inits, one))

    return elements(kept_shape(x.shape, reduced, keepdim=keepdim), body, dtype)


def contraction(n: int, dtype: DType, a: Callable[[Ix], E], b: Callable[[Ix], E]) -> E:
    """sum over k of a(k) * b(k) in the type `dtype` computes in: a left fold of fma from +0, k ascending; integers wrap."""
    how = compute_dtype(dtype)
    start = const(0, how)
    if how.is_float:
        return folds(n, (start,), lambda s, k: op("fma", convert(a(k), how), convert(b(k), how), s))[0]
    return folds(n, (start,), lambda s, k: s + convert(a(k), how) * convert(b(k), how))[0]
