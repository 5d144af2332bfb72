"""Contractions: left folds of fma from +0, k ascending (integers: multiply and add, wrapping).

Half types: the fold is f32, the result is rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence

from assay.core import dtypes as dt
from assay.core.dtypes import DType, compute_dtype
from assay.core.errors import UserError
from assay.core.lang import E, Ix, T, const, convert, load, op
from assay.core.operators.build import Number, at, broadcast, contraction, dim, elements, fold_axes, lift, same_type
from assay.core.operators.pointwise import mul, scaled
from assay.core.operators.registry import operator
from assay.core.operators.samples import NUMBERS, Like, Samples, like, listed

SIZES = ((1, 1, 1), (0, 3, 2), (2, 0, 3), (1, 17, 1), (9, 8, 17))


def _numbers(*tensors: T) -> DType:
    dtype = same_type(*tensors)
    if dtype is dt.bool_:
        raise UserError("not defined on bool; convert to an integer or float type first")
    return dtype


def _mismatch(a: T, b: T, allowed: str) -> UserError:
    return UserError(f"shapes {list(a.shape)} and {list(b.shape)} do not multiply; allowed: {allowed}")


# ------------------------------------------------------------------------------------------------ vectors and matrices


@operator("mm(Tensor self, Tensor mat2) -> Tensor",
          samples=listed(*((like(3, 4, dtype=d), like(4, 5, dtype=d)) for d in NUMBERS),
                         *((like(n, k), like(k, m)) for n, k, m in SIZES)))  # fmt: skip
def mm(self: T, mat2: T) -> T:
    """y[i,j] = fold(k) fma(self[i,k], mat2[k,j])"""
    dtype = _numbers(self, mat2)
    if len(self.shape) != 2 or len(mat2.shape) != 2 or self.shape[1] != mat2.shape[0]:
        raise _mismatch(self, mat2, "[n, k] and [k, m]")
    return _matrices(self, mat2, dtype)


def _matrices(a: T, b: T, dtype: DType) -> T:
    (n, k), m = a.shape, b.shape[1]
    return elements((n, m), lambda i, j: contraction(k, dtype, lambda r: load(a, i, r), lambda r: load(b, r, j)), dtype)


@operator("bmm(Tensor self, Tensor mat2) -> Tensor",
          samples=listed(*((like(2, 3, 4, dtype=d), like(2, 4, 5, dtype=d)) for d in NUMBERS),
                         *((like(2, n, k), like(2, k, m)) for n, k, m in SIZES), (like(0, 2, 3), like(0, 3, 1))))  # fmt: skip
def bmm(self: T, mat2: T) -> T:
    """y[b,i,j] = fold(k) fma(self[b,i,k], mat2[b,k,j])"""
    dtype = _numbers(self, mat2)
    if len(self.shape) != 3 or len(mat2.shape) != 3 or self.shape[2] != mat2.shape[1] or self.shape[0] != mat2.shape[0]:
        raise _mismatch(self, mat2, "[b, n, k] and [b, k, m]")
    return _batches(self, mat2, dtype)


def _batches(a: T, b: T, dtype: DType) -> T:
    """Matrix products over leading axes that broadcast."""
    k = a.shape[-1]
    lead = broadcast(a.shape[:-2], b.shape[:-2])

    def body(*index: Ix) -> E:
        *outer, i, j = index
        return contraction(k, dtype, lambda r: at(a, [*outer, i, r]), lambda r: at(b, [*outer, r, j]))

    return elements((*lead, a.shape[-2], b.shape[-1]), body, dtype)


@operator("mv(Tensor self, Tensor vec) -> Tensor",
          samples=listed(*((like(3, 4, dtype=d), like(4, dtype=d)) for d in NUMBERS), (like(0, 2), like(2)),
                         (like(2, 0), like(0))))  # fmt: skip
def mv(self: T, vec: T) -> T:
    """y[i] = fold(k) fma(self[i,k], vec[k])"""
    dtype = _numbers(self, vec)
    if len(self.shape) != 2 or len(vec.shape) != 1 or self.shape[1] != vec.shape[0]:
        raise _mismatch(self, vec, "[n, k] and [k]")
    n, k = self.shape
    return elements((n,), lambda i: contraction(k, dtype, lambda r: load(self, i, r), lambda r: load(vec, r)), dtype)


@operator("dot(Tensor self, Tensor tensor) -> Tensor",
          samples=listed(*((like(7, dtype=d), like(7, dtype=d)) for d in NUMBERS), (like(0), like(0)),
                         (like(1), like(1))))  # fmt: skip
def dot(self: T, tensor: T) -> T:
    """fold(k) fma(self[k], tensor[k])"""
    dtype = _numbers(self, tensor)
    if len(self.shape) != 1 or self.shape != tensor.shape:
        raise _mismatch(self, tensor, "[k] and [k]")
    return elements((), lambda: contraction(self.shape[0], dtype, lambda r: load(self, r), lambda r: load(tensor, r)), dtype)


@operator("outer(Tensor self, Tensor vec2) -> Tensor",
          samples=listed(*((like(3, dtype=d), like(4, dtype=d)) for d in NUMBERS), (like(0), like(2))))  # fmt: skip
def outer(self: T, vec2: T) -> T:
    """y[i,j] = self[i] * vec2[j]"""
    dtype = _numbers(self, vec2)
    if len(self.shape) != 1 or len(vec2.shape) != 1:
        raise _mismatch(self, vec2, "[n] and [m]")
    return elements((*self.shape, *vec2.shape), lambda i, j: lift(load(self, i)) * lift(load(vec2, j)), dtype)


# ------------------------------------------------------------------------------------------------ any rank


@operator("matmul(Tensor self, Tensor other) -> Tensor",
          samples=listed(*((like(2, 3, 4, dtype=d), like(4, 5, dtype=d)) for d in NUMBERS),
                         *((like(n, k), like(k, m)) for n, k, m in SIZES), (like(4), like(4)), (like(4), like(4, 2)),
                         (like(3, 4), like(4)),
                         (like(4), like(2, 4, 3)), (like(2, 3, 4), like(4)), (like(2, 1, 3, 4), like(5, 4, 2)),
                         (like(1, 3, 4), like(2, 4, 1)),
                         (like(0, 3, 4), like(4, 2))))  # fmt: skip
def matmul(self: T, other: T) -> T:
    """Matrix products over leading axes that broadcast: fold(k) fma(self[.., i, k], other[.., k, j]); a vector has no i or j."""
    dtype = _numbers(self, other)
    a, b = self.shape, other.shape
    if not a or not b or a[-1] != b[-2 if len(b) > 1 else 0]:
        raise _mismatch(self, other, "[.., n, k] and [.., k, m], [k] for a vector")
    k = a[-1]
    lead = broadcast(a[:-2], b[:-2])
    rows, columns = a[-2:-1], b[-1:] if len(b) > 1 else ()

    def body(*index: Ix) -> E:
        outer_, inner = index[: len(lead)], index[len(lead) :]
        i, j = inner[: len(rows)], inner[len(rows) :]
        return contraction(k, dtype, lambda r: at(self, [*outer_, *i, r]), lambda r: at(other, [*outer_, r, *j]))

    return elements((*lead, *rows, *columns), body, dtype)


@operator("linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor",
          samples=listed(*((like(2, 4, dtype=d), like(3, 4, dtype=d), like(3, dtype=d)) for d in NUMBERS),
                         (like(2, 3, 4), like(5, 4), None),
                         (like(4), like(3, 4), like(3)), (like(4), like(4), None), (like(0, 4), like(3, 4), like(3)),
                         (like(2, 0), like(3, 0), like(3))))  # fmt: skip
def linear(input: T, weight: T, bias: T | None) -> T:
    """y[.., j] = (fold(k) fma(input[.., k], weight[j, k])) + bias[j]"""
    dtype = _numbers(input, weight, *([bias] if bias is not None else []))
    if not input.shape or len(weight.shape) not in (1, 2) or input.shape[-1] != weight.shape[-1]:
        raise _mismatch(input, weight, "[.., k] and [m, k] or [k]")
    columns = weight.shape[:-1]
    if bias is not None and bias.shape != columns:
        raise UserError(f"bias {list(bias.shape)}; allowed: {list(columns)}")

    def body(*index: Ix) -> E:
        row, j = index[: len(input.shape) - 1], index[len(input.shape) - 1 :]
        product = contraction(input.shape[-1], dtype, lambda r: load(input, *row, r), lambda r: load(weight, *j, r))
        return product if bias is None else product + lift(load(bias, *j))

    return elements((*input.shape[:-1], *columns), body, dtype)


@operator("tensordot(Tensor self, Tensor other, int[] dims_self, int[] dims_other) -> Tensor",
          samples=listed(*((like(2, 3, 4, dtype=d), like(4, 3, 5, dtype=d), (1, 2), (1, 0)) for d in NUMBERS),
                         (like(3), like(4), (), ()), (like(2, 0), like(0, 3), (1,), (0,)),
                         (like(3), like(3), (-1,), (0,))))  # fmt: skip
def tensordot(self: T, other: T, dims_self: Sequence[int], dims_other: Sequence[int]) -> T:
    """The sum of products over axes dims_self[k] of self and dims_other[k] of other: a left fold of fma from +0."""
    dtype = _numbers(self, other)
    a, b = [dim(d, len(self.shape)) for d in dims_self], [dim(d, len(other.shape)) for d in dims_other]
    if len(set(a)) != len(a) or len(set(b)) != len(b) or [self.shape[k] for k in a] != [other.shape[k] for k in b]:
        raise _mismatch(self, other, f"axes of equal sizes at {list(dims_self)} and {list(dims_other)}")
    rows, columns = [k for k in range(len(self.shape)) if k not in a], [k for k in range(len(other.shape)) if k not in b]
    how = compute_dtype(dtype)

    def body(*index: Ix) -> E:
        def factor(x: T, own: Sequence[int], outer_: Sequence[Ix], axes: Sequence[int], inner: Sequence[Ix]) -> E:
            at_ = {**dict(zip(own, outer_, strict=True)), **dict(zip(axes, inner, strict=True))}
            return convert(load(x, *(at_[k] for k in range(len(x.shape)))), how)

        def step(accs: tuple[E, ...], inner: tuple[Ix, ...]) -> tuple[E, ...]:
            x = factor(self, rows, index[: len(rows)], a, inner)
            y = factor(other, columns, index[len(rows) :], b, inner)
            return (op("fma", x, y, accs[0]) if how.is_float else accs[0] + x * y,)

        return fold_axes([self.shape[k] for k in a], [const(0, how)], step)[0]

    return elements([*(self.shape[k] for k in rows), *(other.shape[k] for k in columns)], body, dtype)


@operator("inner(Tensor self, Tensor other) -> Tensor",
          samples=listed(*((like(2, 4, dtype=d), like(3, 4, dtype=d)) for d in NUMBERS), (like(4), like(4)),
                         (like(2, 3, 4), like(4))))  # fmt: skip
def inner(self: T, other: T) -> T:
    """y[i.., j..] = fold(k) fma(self[i.., k], other[j.., k]); of a 0-d tensor, the product."""
    if not self.shape or not other.shape:
        return mul(self, other)
    return tensordot(self, other, (-1,), (-1,))


@operator("kron(Tensor self, Tensor other) -> Tensor",
          samples=listed(*((like(2, 3, dtype=d), like(3, 2, dtype=d)) for d in NUMBERS), (like(2), like(2, 3)),
                         (like(), like(2))))  # fmt: skip
def kron(self: T, other: T) -> T:
    """y[i * m + j] = self[i] * other[j] on each axis, m the size of other; missing axes at the front have size 1."""
    dtype = _numbers(self, other)
    rank = max(len(self.shape), len(other.shape))
    a, b = ((1,) * (rank - len(x.shape)) + x.shape for x in (self, other))

    def body(*i: Ix) -> E:
        left = at(self, [x // m for x, m in zip(i, b, strict=True)])
        return lift(left) * lift(at(other, [x % m for x, m in zip(i, b, strict=True)]))

    return elements([n * m for n, m in zip(a, b, strict=True)], body, dtype)


# ------------------------------------------------------------------------------------------------ with an addend


def _added(self: T, product: T, beta: Number, alpha: Number, dtype: DType) -> T:
    """beta * self + alpha * product, self broadcast; for beta = 0 self is not read.  `product` is in the computed type."""
    if broadcast(self.shape, product.shape) != product.shape:
        raise UserError(f"shape {list(self.shape)} does not expand to {list(product.shape)}")

    def body(*i: Ix) -> E:
        p = scaled(load(product, *i), alpha)
        return p if beta == 0 else scaled(lift(at(self, i)), beta) + p

    return elements(product.shape, body, dtype)


def _addends(self: Sequence[int], *operands: Sequence[int], full: Sequence[int]) -> Samples:
    """self and operands of these shapes in every type, then with other factors; self also 0-d, and in the shape of the result."""

    def samples() -> list[tuple[object, ...]]:
        rows: list[tuple[object, ...]] = [
            (Like(tuple(self), d), *(Like(tuple(o), d) for o in operands), 1, 1) for d in NUMBERS
        ]
        first = (Like(tuple(self)), *(Like(tuple(o)) for o in operands))
        return [*rows, (*first, 0, 2), (*first, 0.5, -1.5), (Like(()), *first[1:], 1, 1), (Like(tuple(full)), *first[1:], 1, 1)]

    return samples


@operator("addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", inplace=True,
          samples=_addends((5,), (3, 4), (4, 5), full=(3, 5)))  # fmt: skip
def addmm(self: T, mat1: T, mat2: T, beta: Number, alpha: Number) -> T:
    """beta * self + alpha * mm(mat1, mat2); for beta = 0 self is not read."""
    dtype = _numbers(self, mat1, mat2)
    if len(mat1.shape) != 2 or len(mat2.shape) != 2 or mat1.shape[1] != mat2.shape[0]:
        raise _mismatch(mat1, mat2, "[n, k] and [k, m]")
    return _added(self, _matrices(mat1, mat2, compute_dtype(dtype)), beta, alpha, dtype)


@operator("baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", inplace=True,
          samples=_addends((3, 5), (2, 3, 4), (2, 4, 5), full=(2, 3, 5)))  # fmt: skip
def baddbmm(self: T, batch1: T, batch2: T, beta: Number, alpha: Number) -> T:
    """beta * self + alpha * bmm(batch1, batch2); for beta = 0 self is not read."""
    dtype = _numbers(self, batch1, batch2)
    a, b = batch1.shape, batch2.shape
    if len(a) != 3 or len(b) != 3 or a[2] != b[1] or a[0] != b[0]:
        raise _mismatch(batch1, batch2, "[b, n, k] and [b, k, m]")
    return _added(self, _batches(batch1, batch2, compute_dtype(dtype)), beta, alpha, dtype)


@operator("addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor", inplace=True,
          samples=_addends((3,), (3, 4), (4,), full=(3,)))  # fmt: skip
def addmv(self: T, mat: T, vec: T, beta: Number, alpha: Number) -> T:
    """beta * self + alpha * mv(mat, vec); for beta = 0 self is not read."""
    dtype = _numbers(self, mat, vec)
    if len(mat.shape) != 2 or len(vec.shape) != 1 or mat.shape[1] != vec.shape[0]:
        raise _mismatch(mat, vec, "[n, k] and [k]")
    (n, k), how = mat.shape, compute_dtype(dtype)
    product = elements((n,), lambda i: contraction(k, how, lambda r: load(mat, i, r), lambda r: load(vec, r)), how)
    return _added(self, product, beta, alpha, dtype)


@operator("addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", inplace=True,
          samples=_addends((3, 1), (3,), (4,), full=(3, 4)))  # fmt: skip
def addr(self: T, vec1: T, vec2: T, beta: Number, alpha: Number) -> T:
    """beta * self + alpha * (vec1[i] * vec2[j]), each operation rounded; for beta = 0 self is not read."""
    dtype = _numbers(self, vec1, vec2)
    if len(vec1.shape) != 1 or len(vec2.shape) != 1:
        raise _mismatch(vec1, vec2, "[n] and [m]")
    product = elements((*vec1.shape, *vec2.shape), lambda i, j: lift(load(vec1, i)) * lift(load(vec2, j)), compute_dtype(dtype))
    return _added(self, product, beta, alpha, dtype)


# ------------------------------------------------------------------------------------------------ einsum


def _subscripts(equation: str, tensors: Sequence[T]) -> tuple[list[str], str]:
    """The letters of each operand and of the result.  Raises UserError for a malformed equation."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    inputs = left.split(",")
    letters = [c for part in inputs for c in part]
    if not all(c.isalpha() for c in [*letters, *right]) or len(inputs) != len(tensors):
        raise UserError(f"equation {equation!r} for {len(tensors)} tensors; allowed: a letter for each axis, as in 'ik,kj->ij'")
    output = right if arrow else "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    if len(set(output)) != len(output) or not set(output) <= set(letters):
        raise UserError(f"equation {equation!r}: each letter of the result occurs once there, and in an operand")
    for part, x in zip(inputs, tensors, strict=True):
        if len(part) != len(x.shape):
            raise UserError(f"equation {equation!r}: {part!r} for a tensor of shape {list(x.shape)}")
    return inputs, output


@operator("einsum(str equation, Tensor[] tensors) -> Tensor",
          samples=listed(("ik,kj->ij", (like(3, 4), like(4, 5))), ("bik,bjk", (like(2, 3, 4), like(2, 5, 4))),
                         ("ii->i", (like(3, 3),)),
                         ("ij->", (like(3, 4),)), ("i,j->ji", (like(3), like(4))), ("i,ij,j->", (like(3), like(3, 2), like(2))),
                         ("ik,kj->ij", (like(3, 0, dtype=dt.f16), like(0, 5, dtype=dt.f16))),
                         ("ab,b->a", (like(3, 4, dtype=dt.i32), like(4, dtype=dt.i32)))))  # fmt: skip
def einsum(equation: str, tensors: Sequence[T]) -> T:
    """The sum of products over the letters that the result lacks, in order of appearance: a left fold of
    fma(product of all but the last factor, last factor, acc) from +0; of one tensor, a sum."""
    dtype = _numbers(*tensors)
    inputs, output = _subscripts(equation, tensors)
    sizes: dict[str, int] = {}
    for part, x in zip(inputs, tensors, strict=True):
        for c, n in zip(part, x.shape, strict=True):
            if sizes.setdefault(c, n) != n:
                raise UserError(f"equation {equation!r}: axis {c!r} has the sizes {sizes[c]} and {n}")
    summed = [c for c in sizes if c not in output]
    how = compute_dtype(dtype)

    def body(*outer_index: Ix) -> E:
        known = dict(zip(output, outer_index, strict=True))

        def factors(inner: Sequence[Ix]) -> list[E]:
            at_ = {**known, **dict(zip(summed, inner, strict=True))}
            return [convert(load(x, *(at_[c] for c in part)), how) for part, x in zip(inputs, tensors, strict=True)]

        def step(accs: tuple[E, ...], inner: tuple[Ix, ...]) -> tuple[E, ...]:
            *first, last = factors(inner)
            if not first:
                return (accs[0] + last,)
            product = first[0]
            for f in first[1:]:
                product = product * f
            return (op("fma", product, last, accs[0]) if how.is_float else accs[0] + product * last,)

        if summed:
            return fold_axes([sizes[c] for c in summed], [const(0, how)], step)[0]
        product, *others = factors(())
        for f in others:
            product = product * f
        return product

    return elements([sizes[c] for c in output], body, dtype)
