"""The patterns of tests/verify/patterns.py for all sizes: what is a number there, and goes with a size, comes from a shape here.

Where nothing is said, every axis of the pattern's own arguments is a size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import assay
from assay.dynamic import SizedProgram, sized_program
from assay.frontends.dynamic import Dim, Dynamic
from tests.verify import patterns
from tests.verify.patterns import Argument, Pattern, f, i


class Sized(NamedTuple):
    """`function` of tensors, of which the axes that `dynamic` names are sizes; arguments at real and at small sizes."""

    function: Callable[..., Any]
    real: tuple[Any, ...]
    small: tuple[Any, ...]
    dynamic: Dynamic = True

    def program(self, *, small: bool) -> SizedProgram:
        arguments = [a.make(small=small) if isinstance(a, Argument) else a for a in (self.small if small else self.real)]
        return sized_program(self.function, tuple(arguments), {}, self.dynamic)


def sized(p: Pattern) -> Sized:
    """The pattern for all sizes."""
    return OTHERWISE.get(p.name, Sized(p.function, p.real, p.small))


def flat_transpose(m: Any) -> Any:
    return patterns.flat_transpose(m.reshape(-1), *m.shape)


def lower_triangle(rows: Any) -> Any:
    n = rows.shape[0]
    return patterns.lower_triangle(assay.arange(n * (n + 1) // 2), n)


def block_diagonal(m: Any) -> Any:
    blocks, size = m.shape
    return patterns.block_diagonal(assay.zeros(blocks * size, blocks * size), size)


def relative_position(x: Any) -> Any:
    return patterns.relative_position(assay.arange(2 * x.shape[0] - 1), x.shape[0])


def relative_buckets(x: Any, most: Any) -> Any:
    return patterns.relative_buckets(assay.arange(2 * most.shape[0] + 1), x.shape[0], most.shape[0])


def rotary_pairs(m: Any) -> Any:
    return patterns.rotary_pairs(m.reshape(-1))


def paged(pages: Any, table: Any) -> Any:
    return patterns.paged(pages, table, table.shape[0] * pages.shape[1])


def paged_assumed(pages: Any, table: Any) -> Any:
    return patterns.paged_assumed(pages, table, table.shape[0] * pages.shape[1])


def grouped_heads(k: Any, q: Any) -> Any:
    group = q.shape[1]
    return k[patterns.indices(k.shape[0] * group) // group]


def block_sparse(x: Any, blocks: Any) -> Any:
    return patterns.block_sparse(x.reshape(x.shape[0], -1), blocks)


def counted(mask: Any) -> Any:
    return patterns.counted(assay.arange(mask.shape[1] + 1), mask)


def bins(x: Any, edges: Any) -> Any:
    return patterns.bins(assay.arange(edges.shape[0] + 1), x, edges)


def insertion(x: Any, edges: Any) -> Any:
    return patterns.insertion(assay.arange(edges.shape[0] + 1), x, edges)


def worst_pair(rows: Any, columns: Any, scores: Any) -> Any:
    n = scores.shape[1]
    at = scores.argmin()
    return rows[at // n] + columns[at % n]


def beam_reorder(cache: Any, scores: Any) -> Any:
    beams, vocabulary = scores.shape
    return cache[scores.reshape(-1).topk(4, 0)[1] // vocabulary] if beams == cache.shape[0] else cache


OTHERWISE = {
    "table of a quantised value": Sized(patterns.table_look_up, (f(256), f(4096)), (f(256), f(9)), {"x": {0: "n"}}),
    "argmin of a matrix": Sized(worst_pair, (f(128), f(64), f(128, 64)), (f(3), f(6), f(3, 6))),
    "beam search": Sized(beam_reorder, (f(4, 64), f(4, 1000)), (f(4, 3), f(4, 5))),
    "pad by reflection": Sized(patterns.reflect, (f(4096), 7), (f(9), 3), {"x": {0: Dim("n", 8)}}),
    "transpose by flat indices": Sized(flat_transpose, (f(64, 96),), (f(6, 7),)),
    "packed lower triangle": Sized(lower_triangle, (f(128),), (f(8),)),
    "block diagonal": Sized(block_diagonal, (f(8, 16),), (f(3, 4),)),
    "relative position": Sized(relative_position, (f(197),), (f(7),)),
    "relative position in buckets": Sized(relative_buckets, (f(197), f(32)), (f(6), f(3))),
    "rotary pairs": Sized(rotary_pairs, (f(64, 2),), (f(4, 2),), {"m": {0: "n"}}),
    "paged keys": Sized(paged, (f(256, 16, 64), i(64)), (f(5, 3, 2), i(4))),
    "paged keys, assumed": Sized(paged_assumed, (f(256, 16, 64), i(64)), (f(5, 3, 2), i(4))),
    "grouped heads": Sized(grouped_heads, (f(8, 64), f(8, 4)), (f(3, 5), f(3, 2))),
    "block-sparse columns": Sized(block_sparse, (f(64, 64, 4), i(16)), (f(2, 3, 4), i(2)),
                                 {"x": {0: "n", 1: "m"}, "blocks": {0: "k"}}),
    "count": Sized(counted, (patterns.b(128, 64),), (patterns.b(3, 6),)),
    "bucketize": Sized(bins, (f(1000), f(64)), (f(4), f(6))),
    "searchsorted": Sized(insertion, (f(1000), f(64)), (f(4), f(6))),
}  # fmt: skip
