"""Indexing as models write it: small functions whose index checks should be removable, and some whose checks must stay.

Each is asked twice: at real sizes (`real`, which is what is timed), and at small ones with indices of 8 bits (`small`), where
the whole box of every index fact can be enumerated.  `kept` says why a check stays, "" where none does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import assay

F = assay.nn.functional


class Argument(NamedTuple):
    """A tensor of the shape; "f" floats, "b" bools, "i" indices (i64, 8 bits wide where they are enumerated)."""

    kind: str
    shape: tuple[int, ...]

    def make(self, *, small: bool) -> Any:
        dtype = {"f": np.float32, "b": np.bool_, "i": np.int8 if small else np.int64, "u": np.uint8}[self.kind]
        return assay.tensor(np.ones(self.shape, dtype))


class Pattern(NamedTuple):
    """`function` of tensors; the sizes go into it by `real` and `small`: (arguments, other parameters)."""

    name: str
    function: Callable[..., Any]
    real: tuple[Any, ...]
    small: tuple[Any, ...]
    kept: str = ""

    def arguments(self, *, small: bool) -> list[Any]:
        return [a.make(small=small) if isinstance(a, Argument) else a for a in (self.small if small else self.real)]


def f(*shape: int) -> Argument:
    return Argument("f", shape)


def i(*shape: int) -> Argument:
    return Argument("i", shape)


def b(*shape: int) -> Argument:
    return Argument("b", shape)


def positions(idx: Any) -> Any:
    """Indices as i64, whatever they were given in."""
    return idx.long()


def indices(n: int) -> Any:
    return assay.arange(n)


# ------------------------------------------------------------------------------------------------ views written as gathers


def roll(x: Any, shift: int) -> Any:
    return x[(indices(x.shape[0]) - shift) % x.shape[0]]


def roll_two(x: Any, a: int, c: int) -> Any:
    h, w = x.shape
    return x[((indices(h) - a) % h)[:, None], ((indices(w) - c) % w)[None, :]]


def flip(x: Any) -> Any:
    return x[x.shape[0] - 1 - indices(x.shape[0])]


def every_second(x: Any) -> Any:
    return x[2 * indices(x.shape[0] // 2)]


def sliding_window(x: Any, size: int, step: int) -> Any:
    starts = indices((x.shape[0] - size) // step + 1)
    return x[step * starts[:, None] + indices(size)[None, :]]


def im2col(x: Any, k: int) -> Any:
    h, w = x.shape
    rows = indices(h - k + 1)[:, None, None, None] + indices(k)[None, None, :, None]
    columns = indices(w - k + 1)[None, :, None, None] + indices(k)[None, None, None, :]
    return x[rows, columns]


def strided_convolution(x: Any, weight: Any, stride: int) -> Any:
    k = weight.shape[0]
    at = stride * indices((x.shape[0] - k) // stride + 1)[:, None] + indices(k)[None, :]
    return (x[at] * weight).sum(-1)


def guarded_convolution(x: Any, k: int, pad: int) -> Any:
    n = x.shape[0]
    at = indices(n)[:, None] + indices(k)[None, :] - pad
    inside = (at >= 0) & (at < n)
    return assay.where(inside, x[assay.where(inside, at, 0)], 0.0)


def reflect(x: Any, pad: int) -> Any:
    n = x.shape[0]
    at = (indices(n + 2 * pad) - pad).abs()
    return x[n - 1 - (n - 1 - at).abs()]


def replicate(x: Any, pad: int) -> Any:
    n = x.shape[0]
    return x[(indices(n + 2 * pad) - pad).clamp(0, n - 1)]


def circular(x: Any, pad: int) -> Any:
    n = x.shape[0]
    return x[(indices(n + 2 * pad) - pad) % n]


def pixel_shuffle(x: Any, r: int) -> Any:
    c, h, w = x.shape
    rows, columns = indices(h * r)[:, None], indices(w * r)[None, :]
    return x[(rows % r) * r + columns % r, rows // r, columns // r] if c == r * r else x


def space_to_depth(x: Any, r: int) -> Any:
    h, w = x.shape
    at = indices(r * r)
    rows = indices(h // r)[None, :, None] * r + (at // r)[:, None, None]
    return x[rows, indices(w // r)[None, None, :] * r + (at % r)[:, None, None]]


def flat_transpose(x: Any, rows: int, columns: int) -> Any:
    at = indices(rows * columns)
    return x[(at % rows) * columns + at // rows]


def lower_triangle(x: Any, n: int) -> Any:
    at = indices(n * n)
    row, column = at // n, at % n
    inside = column <= row
    return assay.where(inside, x[assay.where(inside, row * (row + 1) // 2 + column, 0)], 0.0)


def diagonal(x: Any) -> Any:
    n = x.shape[0]
    return x.reshape(-1)[indices(n) * (n + 1)]


def block_diagonal(x: Any, size: int) -> Any:
    n = x.shape[0]
    at = indices(n)
    return x[at[:, None], (at // size * size)[:, None] + indices(size)[None, :]]


def block_cyclic(x: Any, blocks: int, size: int) -> Any:
    n = x.shape[0]
    at = indices(n)
    return x[(at // size % blocks) * (n // blocks) + at // (size * blocks) * size + at % size]


def windows(x: Any, size: int, shift: int) -> Any:
    """Shifted windows of an image, as Swin reads them."""
    n = x.shape[0]
    window, inside = indices((n // size) ** 2)[:, None], indices(size * size)[None, :]
    rows = (window // (n // size) * size + inside // size + shift) % n
    columns = (window % (n // size) * size + inside % size + shift) % n
    return x[rows, columns]


# ------------------------------------------------------------------------------------------------ interpolation, pooling


def nearest(x: Any, n: int) -> Any:
    return x[indices(n) * x.shape[0] // n]


def bilinear(x: Any, n: int) -> Any:
    m = x.shape[0]
    at = indices(n) * (m - 1) // (n - 1)
    return x[at] + x[(at + 1).clamp(max=m - 1)]


def float_nearest(x: Any, n: int) -> Any:
    at = (indices(n).to(assay.float32) * 0.37).floor().clamp(0, x.shape[0] - 1)
    return x[at.long()]


def grid_sample(x: Any, grid: Any) -> Any:
    n = x.shape[0]
    at = ((grid + 1) * (n / 2) - 0.5).floor().clamp(0, n - 1).to(assay.int64)
    return x[at]


def table_look_up(table: Any, x: Any) -> Any:
    return table[(x * 255).round().clamp(0, 255).to(assay.int32)]


def max_pool(x: Any) -> Any:
    return F.max_pool1d(x[None], 3, 2, 1)


def ceil_pool(x: Any) -> Any:
    return F.max_pool1d(x[None], 3, 2, 0, ceil_mode=True)


def adaptive_pool(x: Any, n: int) -> Any:
    return F.adaptive_avg_pool1d(x[None], n)


def unpool(x: Any) -> Any:
    """The largest of each pair back at its place."""
    pairs = x.reshape(-1, 2)
    at = 2 * indices(pairs.shape[0]) + pairs.argmax(1)
    return assay.zeros(x.shape[0]).scatter(0, at, pairs.amax(1))


# ------------------------------------------------------------------------------------------------ look-ups after a computation


def clamped(x: Any, idx: Any) -> Any:
    return x[positions(idx).clamp(0, x.shape[0] - 1)]


def wrapped(x: Any, idx: Any) -> Any:
    return x[positions(idx) % x.shape[0]]


def masked_bits(x: Any, idx: Any) -> Any:
    return x[positions(idx) & (x.shape[0] - 1)]


def hashed_embedding(weight: Any, idx: Any) -> Any:
    return F.embedding((positions(idx) * 31 + 7) % weight.shape[0], weight)


def embedding_clamped(weight: Any, idx: Any) -> Any:
    return F.embedding(positions(idx).clamp(0, weight.shape[0] - 1), weight)


def out_of_vocabulary(weight: Any, idx: Any) -> Any:
    """Unknown tokens read row 0."""
    p = positions(idx)
    return F.embedding(assay.where((p >= 0) & (p < weight.shape[0]), p, 0), weight)


def padded_embedding(weight: Any, idx: Any) -> Any:
    """Rows of what is padding are zero."""
    p = positions(idx)
    inside = (p >= 0) & (p < weight.shape[0])
    return weight[p.masked_fill(~inside, 0)] * inside[..., None].to(assay.float32)


def best(table: Any, scores: Any) -> Any:
    return table[scores.argmax(1)]


def worst_pair(table: Any, scores: Any) -> Any:
    n = scores.shape[1]
    at = scores.argmin()
    return table[at // n] + table[at % n]


def best_of_topk(table: Any, scores: Any, k: int) -> Any:
    return table[scores.topk(k, 1)[1]]


def sorted_rows(x: Any, keys: Any) -> Any:
    return x[keys.argsort(0)]


def along_sorted(x: Any) -> Any:
    return x.gather(1, x.sort(1)[1])


def inverse_permutation(x: Any) -> Any:
    order = x.argsort(0)
    return assay.zeros(x.shape[0], dtype=assay.int64).scatter(0, order, indices(x.shape[0]))


def median_row(x: Any) -> Any:
    return x.gather(1, x.median(1, keepdim=True)[1])


def kth_row(x: Any) -> Any:
    return x.gather(1, x.kthvalue(2, 1, keepdim=True)[1])


def beam_reorder(cache: Any, scores: Any, beams: int) -> Any:
    vocabulary = scores.shape[0] // beams
    return cache[scores.topk(beams, 0)[1] // vocabulary]


def mixture(x: Any, gate: Any, weight: Any) -> Any:
    """The expert that the gate prefers."""
    chosen = gate.topk(1, 1)[1][:, 0]
    return (weight[chosen] * x[:, None, :]).sum(-1)


def expert_slots(gate: Any, capacity: int) -> Any:
    """Each token's place in the queue of its expert, dropped to the last slot where the queue is full."""
    chosen = F.one_hot(gate.argmax(1), gate.shape[1])
    place = (chosen.cumsum(0) * chosen).sum(1) - 1
    at = gate.argmax(1) * capacity + place.clamp(0, capacity - 1)
    return assay.zeros(gate.shape[1] * capacity).scatter(0, at, assay.ones(gate.shape[0]))


def threshold_sample(table: Any, probabilities: Any, u: float) -> Any:
    """The first index whose cumulated probability exceeds u."""
    n = probabilities.shape[1]
    return table[(probabilities.cumsum(1) < u).sum(1).clamp(max=n - 1)]


def counted(table: Any, mask: Any) -> Any:
    return table[mask.sum(1)]


def compact(x: Any, mask: Any) -> Any:
    """The selected elements moved to the front, the others to the last place (masked_select of a fixed size)."""
    n = x.shape[0]
    at = assay.where(mask, mask.long().cumsum(0) - 1, n - 1).clamp(0, n - 1)
    return assay.zeros(n).scatter(0, at, x)


def bins(table: Any, x: Any, edges: Any) -> Any:
    return table[assay.bucketize(x, edges)]


def insertion(table: Any, x: Any, edges: Any) -> Any:
    return table[assay.searchsorted(edges, x)]


def histogram(x: Any, n: int) -> Any:
    at = (x * n).floor().clamp(0, n - 1).long()
    return assay.zeros(n).index_add(0, at, assay.ones(x.shape[0]))


def one_hot_clamped(idx: Any, n: int) -> Any:
    return F.one_hot(positions(idx).clamp(0, n - 1), n)


def class_weights(weight: Any, labels: Any) -> Any:
    return weight.gather(0, positions(labels) % weight.shape[0])


def picked_scores(scores: Any, labels: Any) -> Any:
    return scores.gather(1, positions(labels).clamp(0, scores.shape[1] - 1)[:, None])


# ------------------------------------------------------------------------------------------------ attention


def relative_position(table: Any, n: int) -> Any:
    at = indices(n)
    return table[at[:, None] - at[None, :] + n - 1]


def relative_buckets(table: Any, n: int, most: int) -> Any:
    at = indices(n)
    return table[(at[:, None] - at[None, :]).clamp(-most, most) + most]


def rotate_half(x: Any) -> Any:
    h = x.shape[0] // 2
    at = indices(2 * h)
    return x[assay.where(at < h, at + h, at - h)]


def rotary_pairs(x: Any) -> Any:
    at = indices(x.shape[0])
    return x[at + 1 - 2 * (at % 2)]


def paged(pages: Any, table: Any, n: int) -> Any:
    """Keys of n positions through a table of pages."""
    size = pages.shape[1]
    at = indices(n)
    page = positions(table)[at // size].clamp(0, pages.shape[0] - 1)
    return pages[page, at % size]


def paged_assumed(pages: Any, table: Any, n: int) -> Any:
    size = pages.shape[1]
    at = indices(n)
    page = assay.assume(table, 0, pages.shape[0] - 1)[at // size]
    return pages[page.long(), at % size]


def ring_buffer(cache: Any, start: int, n: int) -> Any:
    return cache[(start + indices(n)) % cache.shape[0]]


def local_attention(k: Any, radius: int) -> Any:
    n = k.shape[0]
    at = indices(n)[:, None] + indices(2 * radius + 1)[None, :] - radius
    return k[at.clamp(0, n - 1)]


def causal_window(k: Any, size: int) -> Any:
    n = k.shape[0]
    at = indices(n)[:, None] - indices(size)[None, :]
    return assay.where(at >= 0, k[assay.where(at >= 0, at, 0)], 0.0)


def grouped_heads(k: Any, heads: int) -> Any:
    """The key head that each query head reads."""
    return k[indices(heads) // (heads // k.shape[0])]


def block_sparse(x: Any, blocks: Any) -> Any:
    """Columns of the blocks that a table names."""
    size = 4
    chosen = positions(blocks) % (x.shape[1] // size)
    return x[:, (chosen[:, None] * size + indices(size)[None, :]).reshape(-1)]


def jagged(x: Any, offsets: Any, most: int) -> Any:
    """Rows of different lengths, padded to `most`."""
    o = positions(offsets).clamp(0, x.shape[0])
    at = o[:-1][:, None] + indices(most)[None, :]
    inside = at < o[1:][:, None]
    return assay.where(inside, x[assay.where(inside, at, 0).clamp(max=x.shape[0] - 1)], 0.0)


def segment_sum(x: Any, segments: Any, n: int) -> Any:
    return assay.zeros(n).index_add(0, positions(segments).clamp(0, n - 1), x)


def scatter_rows(x: Any, idx: Any, n: int) -> Any:
    return assay.zeros(n, x.shape[1]).index_add(0, positions(idx) % n, x)


def put_clamped(x: Any, idx: Any, v: Any) -> Any:
    return x.index_put((positions(idx).clamp(0, x.shape[0] - 1),), v)


def two_tables(first: Any, second: Any, idx: Any) -> Any:
    inner = positions(first)[positions(idx).clamp(0, first.shape[0] - 1)]
    return second[inner.clamp(0, second.shape[0] - 1)]


def doubly_nested(first: Any, idx: Any) -> Any:
    """A table of places into itself."""
    n = first.shape[0]
    table = positions(first) % n
    return table[table[positions(idx) % n]]


# ------------------------------------------------------------------------------------------------ checks that must stay


def raw(x: Any, idx: Any) -> Any:
    return x[positions(idx)]


def raw_embedding(weight: Any, idx: Any) -> Any:
    return F.embedding(positions(idx), weight)


def off_by_one(x: Any, idx: Any) -> Any:
    return x[positions(idx).clamp(0, x.shape[0])]


def absolute(x: Any, idx: Any) -> Any:
    return x[positions(idx).abs().clamp(max=x.shape[0] - 1)]


def count_too_many(x: Any, mask: Any) -> Any:
    return x[mask.sum(1)]


PATTERNS: Sequence[Pattern] = (
    Pattern("roll", roll, (f(4096), 5), (f(9), 5)),
    Pattern("roll in two dimensions", roll_two, (f(56, 56), 3, 3), (f(5, 6), 2, 2)),
    Pattern("flip", flip, (f(4096),), (f(9),)),
    Pattern("every second", every_second, (f(4096),), (f(9),)),
    Pattern("sliding window", sliding_window, (f(4096), 64, 16), (f(20), 5, 3)),
    Pattern("im2col", im2col, (f(64, 64), 3), (f(6, 7), 3)),
    Pattern("strided convolution", strided_convolution, (f(4096), f(5), 2), (f(17), f(3), 2)),
    Pattern("convolution with a guard", guarded_convolution, (f(4096), 5, 2), (f(9), 3, 1)),
    Pattern("pad by reflection", reflect, (f(4096), 7), (f(9), 3)),
    Pattern("pad by the edge", replicate, (f(4096), 7), (f(9), 3)),
    Pattern("circular pad", circular, (f(4096), 7), (f(9), 3)),
    Pattern("pixel shuffle", pixel_shuffle, (f(9, 32, 32), 3), (f(4, 3, 3), 2)),
    Pattern("space to depth", space_to_depth, (f(96, 96), 3), (f(6, 6), 3)),
    Pattern("transpose by flat indices", flat_transpose, (f(6144), 64, 96), (f(42), 6, 7)),
    Pattern("packed lower triangle", lower_triangle, (f(8256), 128), (f(36), 8)),
    Pattern("diagonal", diagonal, (f(128, 128),), (f(7, 7),)),
    Pattern("block diagonal", block_diagonal, (f(128, 128), 16), (f(12, 12), 4)),
    Pattern("block-cyclic", block_cyclic, (f(4096), 8, 4), (f(48), 3, 4)),
    Pattern("shifted windows", windows, (f(56, 56), 7, 3), (f(6, 6), 3, 1)),
    Pattern("nearest, up", nearest, (f(224), 1000), (f(5), 12)),
    Pattern("nearest, down", nearest, (f(1000), 224), (f(12), 5)),
    Pattern("linear interpolation", bilinear, (f(224), 1000), (f(5), 12)),
    Pattern("nearest by floats", float_nearest, (f(224), 600), (f(5), 12)),
    Pattern("grid sample", grid_sample, (f(224), f(1000)), (f(5), f(12))),
    Pattern("table of a quantised value", table_look_up, (f(256), f(4096)), (f(256), f(9))),
    Pattern("max pooling", max_pool, (f(8, 4096),), (f(2, 9),)),
    Pattern("pooling in ceil mode", ceil_pool, (f(8, 4096),), (f(2, 9),)),
    Pattern("adaptive pooling", adaptive_pool, (f(8, 224), 7), (f(2, 9), 4)),
    Pattern("unpooling", unpool, (f(4096),), (f(12),)),
    Pattern("clamped", clamped, (f(4096), i(1000)), (f(9), i(4))),
    Pattern("floor mod", wrapped, (f(4096), i(1000)), (f(9), i(4))),
    Pattern("low bits", masked_bits, (f(4096), i(1000)), (f(8), i(4))),
    Pattern("hashed embedding", hashed_embedding, (f(5000, 64), i(8, 128)), (f(9, 3), i(2, 2))),
    Pattern("clamped embedding", embedding_clamped, (f(5000, 64), i(8, 128)), (f(9, 3), i(2, 2))),
    Pattern("unknown tokens", out_of_vocabulary, (f(5000, 64), i(8, 128)), (f(9, 3), i(2, 2))),
    Pattern("padding rows", padded_embedding, (f(5000, 64), i(8, 128)), (f(9, 3), i(2, 2))),
    Pattern("argmax", best, (f(64), f(128, 64)), (f(6), f(3, 6))),
    Pattern("argmin of a matrix", worst_pair, (f(128), f(128, 64)), (f(6), f(3, 6))),
    Pattern("topk", best_of_topk, (f(64), f(128, 64), 5), (f(6), f(3, 6), 2)),
    Pattern("rows in sorted order", sorted_rows, (f(128, 16), f(128)), (f(5, 2), f(5))),
    Pattern("gather of a sort", along_sorted, (f(64, 128),), (f(3, 6),)),
    Pattern("inverse of a permutation", inverse_permutation, (f(1024),), (f(7),)),
    Pattern("median", median_row, (f(64, 33),), (f(3, 5),)),
    Pattern("k-th value", kth_row, (f(64, 33),), (f(3, 5),)),
    Pattern("beam search", beam_reorder, (f(4, 64), f(4000), 4), (f(2, 3), f(12), 2)),
    Pattern("mixture of experts", mixture, (f(128, 16), f(128, 8), f(8, 4, 16)), (f(3, 2), f(3, 4), f(4, 2, 2))),
    Pattern("slots of experts", expert_slots, (f(128, 8), 32), (f(5, 3), 2)),
    Pattern("sampling by thresholds", threshold_sample, (f(64), f(128, 64), 0.5), (f(6), f(3, 6), 0.5)),
    Pattern("count", counted, (f(65), b(128, 64)), (f(7), b(3, 6))),
    Pattern("compaction", compact, (f(1024), b(1024)), (f(7), b(7))),
    Pattern("bucketize", bins, (f(65), f(1000), f(64)), (f(7), f(4), f(6))),
    Pattern("searchsorted", insertion, (f(65), f(1000), f(64)), (f(7), f(4), f(6))),
    Pattern("histogram", histogram, (f(4096), 64), (f(9), 5)),
    Pattern("one-hot, clamped", one_hot_clamped, (i(128), 100), (i(4), 5)),
    Pattern("weights of classes", class_weights, (f(100), i(128)), (f(5), i(4))),
    Pattern("scores of labels", picked_scores, (f(128, 100), i(128)), (f(4, 5), i(4))),
    Pattern("relative position", relative_position, (f(393), 197), (f(13), 7)),
    Pattern("relative position in buckets", relative_buckets, (f(65), 197, 32), (f(7), 6, 3)),
    Pattern("rotate half", rotate_half, (f(128),), (f(8),)),
    Pattern("rotary pairs", rotary_pairs, (f(128),), (f(8),)),
    Pattern("paged keys", paged, (f(256, 16, 64), i(64), 1024), (f(5, 3, 2), i(4), 12)),
    Pattern("paged keys, assumed", paged_assumed, (f(256, 16, 64), i(64), 1024), (f(5, 3, 2), i(4), 12)),
    Pattern("ring buffer", ring_buffer, (f(1024, 64), 777, 512), (f(7, 2), 5, 6)),
    Pattern("local attention", local_attention, (f(512, 64), 16), (f(7, 2), 2)),
    Pattern("causal window", causal_window, (f(512), 64), (f(7), 3)),
    Pattern("grouped heads", grouped_heads, (f(8, 64), 32), (f(2, 3), 6)),
    Pattern("block-sparse columns", block_sparse, (f(64, 256), i(16)), (f(2, 12), i(2))),
    Pattern("jagged rows", jagged, (f(10000), i(65), 200), (f(7), i(3), 4)),
    Pattern("sum of segments", segment_sum, (f(4096), i(4096), 100), (f(6), i(6), 5)),
    Pattern("rows added by index", scatter_rows, (f(1024, 64), i(1024), 100), (f(6, 2), i(6), 5)),
    Pattern("index_put, clamped", put_clamped, (f(4096), i(128), f(128)), (f(7), i(3), f(3))),
    Pattern("a table of places", two_tables, (i(128), f(4096), i(1000)), (i(3), f(7), i(4))),
    Pattern("places of places", doubly_nested, (i(128), i(1000)), (i(3), i(4))),
    Pattern("raw", raw, (f(4096), i(1000)), (f(9), i(4)), "nothing is known of the data"),
    Pattern("raw embedding", raw_embedding, (f(5000, 64), i(8, 128)), (f(9, 3), i(2, 2)), "nothing is known of the data"),
    Pattern("clamped to the size", off_by_one, (f(4096), i(1000)), (f(9), i(4)), "the size itself is outside"),
    Pattern("absolute value", absolute, (f(4096), i(1000)), (f(9), i(4)), "the absolute value of the least integer is negative"),
    Pattern("count of all", count_too_many, (f(64), b(128, 64)), (f(6), b(3, 6)), "all of them may be selected"),
)
