"""Reads through index tensors.  An index is checked by a `require` before anything is read through it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from assay.core import dtypes as dt
from assay.core.errors import Unsupported, UserError
from assay.core.index import Ix
from assay.core.lang import E, T, as_index, const, convert, index, load, op, require, select
from assay.core.operators.build import at, broadcast, cast, copy, elements, size_at
from assay.core.operators.build import dim as axis_of
from assay.core.operators.guards import checked_index, data_dependent, within
from assay.core.operators.registry import operator
from assay.core.operators.samples import ALL, FLOATS, Like, like, listed
from assay.core.operators.views import reindexed


def indices(*shape: int, n: int, dtype: dt.DType = dt.i64, wraps: bool = False) -> Like:
    """A sample index tensor into an axis of n elements."""
    return like(*shape, dtype=dtype, lo=-n if wraps else 0, hi=n - 1)


def resized(shape: Sequence[int], axis: int, n: int) -> tuple[int, ...]:
    """`shape` with n elements in `axis`."""
    return (*shape[:axis], n, *shape[axis + 1 :])


def replaced(i: Sequence[Any], axis: int, x: Any) -> tuple[Any, ...]:
    """The index `i` with x in `axis`."""
    return (*i[:axis], x, *i[axis + 1 :])


# ------------------------------------------------------------------------------------------------ x[index tensors]


@dataclass(frozen=True)
class Advanced:
    """x[..., index tensors, ...], resolved.

    positions[d] is the checked index tensor of axis d, or None where the axis is kept whole.  The index tensors
    broadcast to `block`, whose axes begin in the result at `first`: where the indexed axes are neighbours, in their
    place; else in front.
    """

    positions: tuple[T | None, ...]
    block: tuple[int, ...]
    first: int
    shape: tuple[int, ...]

    def source(self, i: Sequence[Ix]) -> tuple[Ix | E, ...]:
        """The indices of x that element i of the result reads."""
        end = self.first + len(self.block)
        kept = iter((*i[: self.first], *i[end:]))
        return tuple(next(kept) if p is None else at(p, i[self.first : end]) for p in self.positions)


def advanced(x: T, given: Sequence[T | None], what: str) -> Advanced:
    """The indexing of x by one entry an axis (None, or missing at the end: the whole axis).  Negative indices wrap once."""
    if len(given) > len(x.shape):
        raise UserError(f"{len(given)} indices for a tensor of shape {list(x.shape)}")
    given = [*given, *[None] * (len(x.shape) - len(given))]
    axes = [d for d, t in enumerate(given) if t is not None]
    block = broadcast(*(t.shape for t in given if t is not None))
    positions = tuple(
        None if t is None else checked_index(t, n, operator=what, dim=d, wraps=True)
        for d, (t, n) in enumerate(zip(given, x.shape, strict=True))
    )
    neighbours = bool(axes) and axes[-1] - axes[0] == len(axes) - 1
    first = axes[0] if neighbours else 0
    kept = [n for n, p in zip(x.shape, positions, strict=True) if p is None]
    return Advanced(positions, block, first, (*kept[:first], *block, *kept[first:]))


def is_mask(t: T | None) -> bool:
    """Whether an entry of an index list selects by condition (bool; u8 in old programs)."""
    return t is not None and t.dtype in (dt.bool_, dt.u8)


@operator("_unsafe_index.Tensor(Tensor self, Tensor?[] indices) -> Tensor",
          samples=listed((like(5), (indices(3, n=5, wraps=True),))))  # fmt: skip
@operator("index.Tensor(Tensor self, Tensor?[] indices) -> Tensor",
          samples=listed((like(5), (indices(3, n=5, wraps=True),)), (like(3, 4), (None, indices(2, 2, n=4))),
                         (like(3, 4), (indices(2, 1, n=3), indices(5, n=4))),
                         (like(2, 3, 4), (indices(2, n=2), None, indices(2, n=4))),
                         (like(2, 3, 2, 4), (None, indices(5, n=3), None, indices(5, n=4))),
                         (like(2, 3, 4), (None, indices(n=3))), (like(1, 4), (indices(2, n=1, wraps=True),)),
                         (like(4, 0), (indices(3, n=4),)), (like(3, 4), (indices(0, n=3),)),
                         (like(6, dtype=dt.bf16), (indices(4, n=6, dtype=dt.i32),))))  # fmt: skip
def index_tensor(self: T, given: Sequence[T | None]) -> T:
    """self[given]: index tensors broadcast together, negative indices wrap once; a mask is Unsupported."""
    if any(map(is_mask, given)):
        raise data_dependent("indexing with a mask", "where(mask, x, other) or masked_fill, which keep the shape")
    a = advanced(self, given, "index.Tensor")
    return elements(a.shape, lambda *i: load(self, *a.source(i)), self.dtype)


# ------------------------------------------------------------------------------------------------ along one axis


def selected(self: T, dim: int, chosen: T, what: str, *, wraps: bool = False) -> tuple[int, tuple[int, ...], T]:
    """(axis, its shape with one element an index, checked positions) for an index of rank 0 or 1 along `dim`."""
    if len(chosen.shape) > 1:
        raise UserError(f"index must have at most one axis, not shape {list(chosen.shape)}")
    d = axis_of(dim, len(self.shape))
    positions = checked_index(chosen, size_at(self, d), operator=what, dim=d, wraps=wraps)
    if not self.shape and chosen.size != 1:
        raise UserError(f"a 0-d tensor takes one index, not {chosen.size}")
    return d, resized(self.shape, d, chosen.size) if self.shape else (), positions


def at_element(positions: T, k: Ix) -> E:
    """Element k of an index of rank 0 or 1."""
    return load(positions, *((k,) if positions.shape else ()))


@operator("index_select(Tensor self, int dim, Tensor index) -> Tensor",
          samples=listed((like(3, 4), 0, indices(5, n=3)), (like(3, 4), -1, indices(2, n=4)), (like(3, 4), 1, indices(n=4)),
                         (like(3, 4), 0, indices(0, n=3)), (like(), 0, indices(1, n=1)), (like(1, 3), 0, indices(4, n=1)),
                         (like(2, 0), 0, indices(3, n=2)), (like(5, dtype=dt.f16), 0, indices(3, n=5, dtype=dt.i32)),
                         (like(5, dtype=dt.i64), 0, indices(3, n=5))))  # fmt: skip
def index_select(self: T, dim: int, chosen: T) -> T:
    """y[.., k, ..] = self[.., chosen[k], ..] along dim; negative indices are errors."""
    d, shape, positions = selected(self, dim, chosen, "index_select")
    return elements(shape, lambda *i: load(self, *(replaced(i, d, at_element(positions, i[d])) if i else ())), self.dtype)


def need_fits(self: T, d: int, chosen: T) -> None:
    """Raise UserError unless the index has the rank of self and is no larger outside axis d."""
    same_rank = len(chosen.shape) == len(self.shape)
    if not same_rank or any(k != d and chosen.shape[k] > n for k, n in enumerate(self.shape)):
        raise UserError(
            f"index of shape {list(chosen.shape)} for a tensor of shape {list(self.shape)} along axis {d}; "
            "allowed: the same rank, and no larger in the other axes"
        )


@operator("gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor",
          samples=listed((like(3, 4), 0, indices(2, 4, n=3), False), (like(3, 4), -1, indices(3, 7, n=4), False),
                         (like(3, 4), 1, indices(1, 2, n=4), False), (like(), 0, indices(n=1), False),
                         (like(1), 0, indices(5, n=1), False), (like(3, 4), 0, indices(0, 4, n=3), False),
                         (like(4, dtype=dt.bool_), 0, indices(3, n=4), False)))  # fmt: skip
def gather(self: T, dim: int, chosen: T, sparse_grad: bool) -> T:
    """y[i] = self[i with chosen[i] along dim]; negative indices are errors."""
    if sparse_grad:
        raise Unsupported("sparse gradients have no meaning here; leave sparse_grad=False")
    d = axis_of(dim, len(self.shape))
    if chosen.size:
        need_fits(self, d, chosen)
    positions = checked_index(chosen, size_at(self, d), operator="gather", dim=d)
    return elements(chosen.shape, lambda *i: load(self, *(replaced(i, d, load(positions, *i)) if i else ())), self.dtype)


def flat(x: T) -> T:
    """The elements in row-major order."""
    return reindexed(x, (x.size,))


@operator("take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor",
          samples=listed((like(3, 4), indices(3, 2, n=4), 1), (like(3, 4), indices(1, 4, n=3), 0),
                         (like(1, 4), indices(3, 2, n=4), -1),
                         (like(3, 4), indices(5, n=12), None), (like(2, 3), indices(2, 2, n=6), None)))  # fmt: skip
def take_along_dim(self: T, chosen: T, dim: int | None) -> T:
    """gather, with self and chosen broadcast to each other outside dim; dim=None reads both in row-major order."""
    if dim is None:
        return gather(flat(self), 0, flat(chosen), sparse_grad=False)
    if len(self.shape) != len(chosen.shape):
        raise UserError(f"self of shape {list(self.shape)} and indices of shape {list(chosen.shape)} differ in rank")
    d = axis_of(dim, len(self.shape))
    common = broadcast(resized(self.shape, d, 1), resized(chosen.shape, d, 1))
    positions = checked_index(chosen, size_at(self, d), operator="take_along_dim", dim=d)
    shape = resized(common, d, chosen.shape[d]) if common else ()
    return elements(shape, lambda *i: at(self, replaced(i, d, at(positions, i)) if i else ()), self.dtype)


@operator("take(Tensor self, Tensor index) -> Tensor",
          samples=listed((like(3, 4), indices(5, n=12, wraps=True)), (like(3, 4), indices(2, 2, n=12, wraps=True)),
                         (like(), indices(3, n=1)), (like(3, dtype=dt.i32), indices(n=3)),
                         (like(3), indices(0, n=3))))  # fmt: skip
def take(self: T, chosen: T) -> T:
    """y[i] = (self in row-major order)[chosen[i]]; negative indices wrap once."""
    positions = checked_index(chosen, self.size, operator="take", dim=0, wraps=True)

    def body(*i: Ix) -> E:
        rest, found = as_index(load(positions, *i)), list[Ix]()
        for n in reversed(self.shape):
            found.insert(0, rest % n)
            rest = rest // n
        return load(self, *found)

    return elements(chosen.shape, body, self.dtype)


# ------------------------------------------------------------------------------------------------ preconditions


@operator("assume(Tensor self, int lo, int hi) -> Tensor",
          samples=listed(*((like(7, dtype=d, lo=0, hi=5), 0, 5) for d in dt.INTEGERS),
                         (like(2, 3, dtype=dt.i64, lo=-3, hi=9), -3, 9), (like(dtype=dt.i32, lo=2, hi=2), 2, 2),
                         (like(0, dtype=dt.i64), 0, 0)))  # fmt: skip
def assume(self: T, lo: int, hi: int) -> T:
    """self, whose elements must lie in lo..hi: checked once, before anything reads them, and then known to every proof."""
    if not self.dtype.is_integer:
        raise UserError(f"only integers are assumed to lie in a range, not {self.dtype.name}")
    if lo > hi:
        raise UserError(f"no integer lies in {lo}..{hi}; give lo <= hi")
    found = copy(self)
    if self.size == 0 or (lo <= found.lo and found.hi <= hi):
        return found
    inside = within(found.body, lo, hi)
    message = f"[IndexError] assumed {lo} <= value <= {hi}, here {{value}} at {{index}}"
    return require(self.shape, found.body, inside, message, lo=lo, hi=hi)


# ------------------------------------------------------------------------------------------------ tables


@operator("embedding(Tensor weight, Tensor indices, int padding_idx=-1, bool scale_grad_by_freq=False, "
          "bool sparse=False) -> Tensor",
          samples=listed(*((like(5, 3, dtype=d), indices(2, 4, n=5), -1, False, False) for d in FLOATS),
                         (like(1, 3), indices(2, n=1), -1, False, False), (like(5, 3), indices(n=5), 0, False, False),
                         (like(5, 0), indices(2, n=5), -1, False, False)))  # fmt: skip
def embedding(weight: T, chosen: T, padding_idx: int, scale_grad_by_freq: bool, sparse: bool) -> T:
    """y[i.., j] = weight[chosen[i..], j]; negative indices are errors.  The row `padding_idx` has no gradient."""
    if len(weight.shape) != 2:
        raise UserError(f"weight must have 2 axes, not shape {list(weight.shape)}")
    if scale_grad_by_freq or sparse:
        raise Unsupported("scale_grad_by_freq and sparse have no meaning here; leave them False")
    positions = checked_index(chosen, weight.shape[0], operator="embedding", dim=0)

    def body(*i: Ix) -> E:
        position = load(positions, *i[:-1])
        e = load(weight, position, i[-1])
        return op("as_if", e, select(op("eq", position, padding_idx), op("stop", e), e)) if padding_idx >= 0 else e

    return elements((*chosen.shape, weight.shape[1]), body, weight.dtype)


@operator("one_hot(Tensor self, int num_classes=-1) -> Tensor",
          samples=listed((indices(4, n=3), 3), (indices(2, 2, n=5), 5), (indices(n=2), 2), (indices(3, n=1), 1),
                         (indices(0, n=3), 3)))  # fmt: skip
def one_hot(self: T, num_classes: int) -> T:
    """y[i.., c] = 1 where self[i..] = c, else 0, as i64; a class outside 0..num_classes-1 is an error."""
    if num_classes <= 0:
        raise data_dependent("one_hot without num_classes", "one_hot(x, num_classes=n)")
    classes = checked_index(self, num_classes, operator="one_hot", dim=len(self.shape))
    shape = (*self.shape, num_classes)
    return elements(shape, lambda *i: convert(op("eq", load(classes, *i[:-1]), index(i[-1])), dt.i64), dt.i64)


# ------------------------------------------------------------------------------------------------ masks


def need_mask(mask: T) -> None:
    """Raise UserError unless `mask` is bool."""
    if mask.dtype is not dt.bool_:
        raise UserError(f"the mask must be bool, not {mask.dtype.name}; write it as a condition, as in mask != 0")


MASKED = (((3, 4), (3, 4)), ((3, 4), (4,)), ((4,), (3, 4)), ((), ()), ((0, 3), (1, 3)), ((2, 1), ()))


@operator("masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor", inplace=True,
          samples=listed(*((like(*a), like(*b, dtype=dt.bool_), float("-inf")) for a, b in MASKED),
                         *((like(3, 4, dtype=d), like(4, dtype=dt.bool_), 1) for d in ALL),
                         (like(3), like(3, dtype=dt.bool_), -0.0)))  # fmt: skip
@operator("masked_fill.Tensor(Tensor self, Tensor mask, Tensor value) -> Tensor", inplace=True,
          samples=listed(*((like(*a), like(*b, dtype=dt.bool_), like()) for a, b in MASKED),
                         (like(3, dtype=dt.f16), like(3, dtype=dt.bool_), like(dtype=dt.f64))))  # fmt: skip
def masked_fill(self: T, mask: T, value: T | bool | int | float) -> T:
    """y[i] = value where mask[i], else self[i], broadcast; value is a number or a 0-d tensor, converted to the type of self."""
    need_mask(mask)
    if isinstance(value, T) and value.shape:
        raise UserError(f"value must have no axes, not shape {list(value.shape)}")
    filler = cast(value, self.dtype) if isinstance(value, T) else value
    if isinstance(filler, float) and not self.dtype.is_float:
        raise UserError(f"the float {filler!r} is not a value of type {self.dtype.name}")

    def body(*i: Ix) -> E:
        fill = load(filler) if isinstance(filler, T) else const(filler, self.dtype)
        return select(at(mask, i), fill, at(self, i))

    return elements(broadcast(self.shape, mask.shape), body, self.dtype)


@operator("masked_select(Tensor self, Tensor mask) -> Tensor")
def masked_select(self: T, mask: T) -> NoReturn:
    """Unsupported: the shape of the result depends on the data."""
    raise data_dependent("masked_select", "where(mask, x, 0) or masked_fill, which keep the shape")


@operator("nonzero(Tensor self) -> Tensor")
def nonzero(self: T) -> NoReturn:
    """Unsupported: the shape of the result depends on the data."""
    raise data_dependent("nonzero", "the condition x != 0 itself with where or masked_fill")
