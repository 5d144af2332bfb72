"""Convolutions: for each output one left fold of fma from +0 over (channel, kernel row, kernel column), ascending.

    y[n, o, p] = bias[o] + fold(c, k) fma(x[n, group(o) + c, p*stride + k*dilation - padding], w[o, c, k])

The padding is read as +0 and multiplied like any other element.  The bias is added last, with one rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from assay.core import dtypes as dt
from assay.core.dtypes import compute_dtype
from assay.core.errors import UserError
from assay.core.index import Ix
from assay.core.lang import E, T, const, index, load, load_or_zero, op, select
from assay.core.operators.build import elements, fold_axes, lift, same_type
from assay.core.operators.guards import both, inside
from assay.core.operators.registry import operator, register
from assay.core.operators.samples import FLOATS, like, listed
from assay.core.operators.views import reindexed

Sizes: TypeAlias = Sequence[int]


def _times(s: E, a: E, b: E) -> E:
    return op("fma", a, b, s) if s.dtype.is_float else s + a * b


def _checked(x: T, w: T, bias: T | None, axes: int, groups: int, *, transposed: bool) -> None:
    """Raise UserError unless the shapes fit: x [n, c, *axes], w [o, c / groups, *axes] (transposed: [c, o / groups, *axes])."""
    same_type(x, w, *([bias] if bias is not None else []))
    if len(x.shape) != axes + 2 or len(w.shape) != axes + 2:
        raise UserError(f"input of shape {list(x.shape)} and weight of shape {list(w.shape)}; needs {axes + 2} axes each")
    channels, outputs = (w.shape[0], w.shape[1] * groups) if transposed else (w.shape[1] * groups, w.shape[0])
    if groups < 1 or x.shape[1] != channels or outputs % groups:
        raise UserError(
            f"{x.shape[1]} input channels, weight of shape {list(w.shape)}, groups={groups}; "
            f"the weight takes {channels} channels, and the outputs must be a multiple of the groups"
        )
    if bias is not None and bias.shape != (outputs,):
        raise UserError(f"bias of shape {list(bias.shape)}; needs [{outputs}]")


def _positive(**sizes: Sizes) -> None:
    for name, values in sizes.items():
        if any(v < (name == "stride" or name == "dilation") for v in values):
            raise UserError(f"{name}={list(values)} has a value that is too small")


def correlate(x: T, w: T, bias: T | None, stride: Sizes, before: Sizes, after: Sizes, dilation: Sizes,
              groups: int) -> T:  # fmt: skip
    """The convolution of x [n, c, *s] with w [o, c / groups, *k], padded by `before` and `after` along each axis."""
    axes = len(stride)
    _checked(x, w, bias, axes, groups, transposed=False)
    _positive(stride=stride, dilation=dilation, padding=(*before, *after))
    spans = [d * (k - 1) + 1 for d, k in zip(dilation, w.shape[2:], strict=True)]
    sizes = [(n + a + b - span) // s + 1 for n, a, b, span, s in zip(x.shape[2:], before, after, spans, stride, strict=True)]
    if min(sizes) < 1:
        raise UserError(f"a kernel over {spans} does not fit into {list(x.shape[2:])} padded by {list(before)} and {list(after)}")
    depth, per_group = w.shape[1], w.shape[0] // groups
    how = compute_dtype(x.dtype)

    def body(*i: Ix) -> E:
        n, o, *p = i

        def step(accs: tuple[E, ...], r: tuple[Ix, ...]) -> tuple[E, ...]:
            c, *k = r
            source = [p[a] * stride[a] + k[a] * dilation[a] - before[a] for a in range(axes)]
            return (_times(accs[0], lift(load_or_zero(x, n, o // per_group * depth + c, *source)), lift(load(w, o, c, *k))),)

        total = fold_axes((depth, *w.shape[2:]), [const(0, how)], step)[0]
        return total if bias is None else total + lift(load(bias, o))

    return elements((x.shape[0], w.shape[0], *sizes), body, x.dtype)


def transposed(x: T, w: T, bias: T | None, stride: Sizes, padding: Sizes, dilation: Sizes,
               output_padding: Sizes, groups: int) -> T:  # fmt: skip
    """y[n, o, p] = bias[o] + fold(c, k) fma(x[n, group(o) + c, (p + padding - k*dilation) / stride], w[group(o) + c, o', k]).

    Terms with a remainder, or outside x, are left out.  x [n, c, *s], w [c, o / groups, *k].
    """
    axes = len(stride)
    _checked(x, w, bias, axes, groups, transposed=True)
    _positive(stride=stride, dilation=dilation, padding=padding, output_padding=output_padding)
    if any(e >= max(s, d) for e, s, d in zip(output_padding, stride, dilation, strict=True)):
        raise UserError(f"output_padding={list(output_padding)}: each must be below its stride or its dilation")
    spans = [d * (k - 1) + 1 + e for d, k, e in zip(dilation, w.shape[2:], output_padding, strict=True)]
    sizes = [(n - 1) * s - 2 * p + span for n, s, p, span in zip(x.shape[2:], stride, padding, spans, strict=True)]
    if min(sizes) < 1:
        raise UserError(f"the output would have sizes {sizes}")
    depth, per_group = x.shape[1] // groups, w.shape[1]
    how = compute_dtype(x.dtype)

    def body(*i: Ix) -> E:
        n, o, *p = i

        def step(accs: tuple[E, ...], r: tuple[Ix, ...]) -> tuple[E, ...]:
            c, *k = r
            channel = o // per_group * depth + c
            scaled = [p[a] + padding[a] - k[a] * dilation[a] for a in range(axes)]
            held = inside([q // s for q, s in zip(scaled, stride, strict=True)], x.shape[2:])
            for q, s in zip(scaled, stride, strict=True):
                if s > 1:
                    held = both(held, op("eq", index(q % s), 0))
            term = load(x, n, channel, *(q // s for q, s in zip(scaled, stride, strict=True)))
            return (select(held, _times(accs[0], lift(term), lift(load(w, channel, o % per_group, *k))), accs[0]),)

        total = fold_axes((depth, *w.shape[2:]), [const(0, how)], step)[0]
        return total if bias is None else total + lift(load(bias, o))

    return elements((x.shape[0], per_group * groups, *sizes), body, x.dtype)


def _batched(x: T, axes: int) -> tuple[T, bool]:
    """x with a batch axis, and whether it had one."""
    if len(x.shape) == axes + 1:
        return reindexed(x, (1, *x.shape)), False
    return x, True


def _unbatched(y: T, *, batched: bool) -> T:
    return y if batched else reindexed(y, y.shape[1:])


def conv(x: T, weight: T, bias: T | None, stride: Sizes, padding: Sizes | str, dilation: Sizes, groups: int) -> T:
    """The convolution of [n, c, *s] with [o, c / groups, *k], len(stride) axes: a fold of fma over (c, *k), the bias last."""
    axes = len(stride)
    x, batched = _batched(x, axes)
    if isinstance(padding, str):
        _checked(x, weight, bias, axes, groups, transposed=False)
        if padding not in ("same", "valid"):
            raise UserError(f"padding={padding!r}; allowed: 'same', 'valid', or numbers")
        if padding == "same" and any(s != 1 for s in stride):
            raise UserError(f"padding='same' needs stride 1, not {list(stride)}")
        total = [d * (k - 1) * (padding == "same") for d, k in zip(dilation, weight.shape[2:], strict=True)]
        before, after = [t // 2 for t in total], [t - t // 2 for t in total]
    else:
        before = after = list(padding)
    return _unbatched(correlate(x, weight, bias, stride, before, after, dilation, groups), batched=batched)


def conv_transpose(x: T, weight: T, bias: T | None, stride: Sizes, padding: Sizes, output_padding: Sizes, groups: int,
                   dilation: Sizes) -> T:  # fmt: skip
    """The transposed convolution of [n, c, *s] with [c, o / groups, *k]: a fold of fma over (c, *k), the bias last."""
    x, batched = _batched(x, len(stride))
    return _unbatched(transposed(x, weight, bias, stride, padding, dilation, output_padding, groups), batched=batched)


_SAMPLES_1 = ((like(1, 2, 5), like(3, 2, 3), like(3), (1,), (0,), (1,), 1),
              (like(2, 4, 7), like(4, 2, 2), None, (2,), (1,), (2,), 2),
              (like(2, 5), like(3, 2, 1), None, (1,), (0,), (1,), 1),
              (like(0, 2, 5), like(3, 2, 3), None, (1,), (0,), (1,), 1))  # fmt: skip
_SAMPLES_2 = ((like(1, 2, 5, 6), like(3, 2, 3, 3), like(3), (1, 1), (1, 1), (1, 1), 1),
              (like(2, 4, 7, 5), like(4, 2, 2, 3), None, (2, 1), (1, 0), (2, 1), 2),
              (like(2, 3, 3), like(1, 2, 1, 1), like(1), (1, 1), (0, 0), (1, 1), 1),
              (like(1, 3, 4, 4), like(6, 1, 3, 3), None, (1, 1), (2, 2), (1, 1), 3),
              (like(1, 0, 4, 4), like(2, 0, 3, 3), like(2), (1, 1), (0, 0), (1, 1), 1),
              *((like(1, 2, 4, 4, dtype=d), like(2, 2, 3, 3, dtype=d), like(2, dtype=d), (1, 1), (1, 1), (1, 1),
              1) for d in FLOATS[1:]),
              (like(1, 1, 3, 3, dtype=dt.i32), like(1, 1, 2, 2, dtype=dt.i32), None, (1, 1), (0, 0), (1, 1), 1))  # fmt: skip
_SAMPLES_3 = ((like(1, 2, 3, 4, 3), like(2, 2, 2, 2, 2), like(2), (1, 1, 1), (1, 0, 1), (1, 1, 1), 1),
              (like(1, 2, 3, 3, 3), like(2, 1, 1, 2, 1), None, (1, 2, 1), (0, 0, 0), (1, 1, 1), 2))  # fmt: skip


def _named(rows: Sequence[tuple[Any, ...]]) -> Any:
    """The samples of the overload whose padding is a name."""
    unit = [row for row in rows if set(row[3]) == {1}]
    return listed(*((*row[:4], "valid", *row[5:]) for row in rows), *((*row[:4], "same", *row[5:]) for row in unit))


_TRANSPOSED_1 = ((like(1, 2, 4), like(2, 3, 3), like(3), (2,), (1,), (1,), 1, (1,)),
                 (like(2, 4, 3), like(4, 1, 2), None, (1,), (0,), (0,), 2, (2,)))
_TRANSPOSED_2 = ((like(1, 2, 3, 3), like(2, 3, 3, 3), like(3), (2, 2), (1, 1), (1, 0), 1, (1, 1)),
                 (like(1, 4, 2, 3), like(4, 2, 2, 2), None, (1, 3), (0, 1), (0, 2), 2, (1, 2)),
                 (like(2, 2, 2), like(2, 1, 1, 1), None, (1, 1), (0, 0), (0, 0), 1, (1, 1)))  # fmt: skip
_TRANSPOSED_3 = ((like(1, 2, 2, 2, 2), like(2, 1, 2, 1, 2), like(1), (1, 2, 1), (0, 0, 1), (0, 1, 0), 1, (1, 1, 1)),)


for _n, _rows, _turned in ((1, _SAMPLES_1, _TRANSPOSED_1), (2, _SAMPLES_2, _TRANSPOSED_2), (3, _SAMPLES_3, _TRANSPOSED_3)):
    _first = f"Tensor input, Tensor weight, Tensor? bias=None, int[{_n}] stride=1"
    register(f"conv{_n}d({_first}, int[{_n}] padding=0, int[{_n}] dilation=1, int groups=1) -> Tensor", conv,
             samples=listed(*_rows))  # fmt: skip
    register(f"conv{_n}d.padding({_first}, str padding='valid', int[{_n}] dilation=1, int groups=1) -> Tensor", conv,
             samples=_named(_rows))  # fmt: skip
    register(f"conv_transpose{_n}d{'.input' if _n > 1 else ''}({_first}, int[{_n}] padding=0, int[{_n}] output_padding=0, "
             f"int groups=1, int[{_n}] dilation=1) -> Tensor", conv_transpose, samples=listed(*_turned))  # fmt: skip


def _general(rows: Sequence[tuple[Any, ...]], rows_transposed: Sequence[tuple[Any, ...]]) -> Any:
    direct: list[tuple[Any, ...]] = [(*row[:6], False, (0,) * len(row[3]), row[6]) for row in rows]
    turned: list[tuple[Any, ...]] = [(*row[:5], row[7], True, row[5], row[6]) for row in rows_transposed]
    return listed(*(row for row in direct + turned if len(row[0].shape) == len(row[3]) + 2))


@operator("convolution(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, bool transposed, "
          "int[] output_padding, int groups) -> Tensor", samples=_general((*_SAMPLES_1, *_SAMPLES_2), _TRANSPOSED_2))  # fmt: skip
def convolution(x: T, weight: T, bias: T | None, stride: Sizes, padding: Sizes, dilation: Sizes,
                is_transposed: bool, output_padding: Sizes, groups: int) -> T:  # fmt: skip
    """conv1d, conv2d, conv3d or their transposed forms, by the number of axes of the weight; x has a batch axis."""
    axes = len(weight.shape) - 2

    def each(values: Sizes) -> Sizes:
        return tuple(values) * axes if len(values) == 1 else tuple(values)

    stride, padding, dilation, output_padding = map(each, (stride, padding, dilation, output_padding))
    if axes < 1 or any(len(v) != axes for v in (stride, padding, dilation)):
        raise UserError(f"stride, padding and dilation need {axes} numbers each for a weight of shape {list(weight.shape)}")
    if is_transposed:
        return transposed(x, weight, bias, stride, padding, dilation, output_padding, groups)
    return correlate(x, weight, bias, stride, padding, padding, dilation, groups)
