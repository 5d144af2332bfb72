"""Attention: softmax(scale * q k^T + mask) v, one row of scores after the other."""

from __future__ import annotations

import math
from collections.abc import Sequence

from assay.core import dtypes as dt
from assay.core.dtypes import compute_dtype
from assay.core.errors import Unsupported, UserError
from assay.core.index import Ix
from assay.core.lang import E, T, const, convert, fold, index, load, op, select
from assay.core.operators.build import at, broadcast, contraction, elements, lift, need_float, same_type
from assay.core.operators.registry import operator
from assay.core.operators.samples import FLOATS, like, listed

_NONE = (None, 0.0, False, None, False)


@operator("scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0.0, "
          "bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor",
          samples=listed((like(2, 3, 4), like(2, 5, 4), like(2, 5, 6), *_NONE),
                         (like(1, 2, 3, 4), like(1, 2, 3, 4), like(1, 2, 3, 4), None, 0.0, True, None, False),
                         (like(3, 4), like(5, 4), like(5, 2), like(3, 5), 0.0, False, 0.25, False),
                         (like(3, 4), like(5, 4), like(5, 2), like(5, dtype=dt.bool_), 0.0, False, None, False),
                         (like(2, 4, 3, 4), like(2, 2, 5, 4), like(2, 2, 5, 4), None, 0.0, True, None, True),
                         (like(3, 4), like(0, 4), like(0, 2), *_NONE),
                         *((like(3, 4, dtype=d), like(3, 4, dtype=d), like(3, 4, dtype=d), *_NONE)
                         for d in FLOATS[1:])))  # fmt: skip
def scaled_dot_product_attention(query: T, key: T, value: T, attn_mask: T | None, dropout_p: float, is_causal: bool,
                                 scale: float | None,
                                 enable_gqa: bool) -> T:  # fmt: skip
    """y[.., i, e] = fold(j) fma(p[.., i, j], value[.., j, e]) with p = softmax over j of scale * q.k + mask.

    query [.., l, d], key [.., s, d], value [.., s, e]; scale is 1/sqrt(d) by default.  A bool mask keeps where it holds, a
    float one is added; is_causal keeps j <= i.  A row in which nothing is kept is 0.  With enable_gqa, consecutive query
    heads share one key and value head.  Half types compute in f32 and round once.
    """
    dtype = same_type(query, key, value)
    how = compute_dtype(need_float(query))
    if dropout_p:
        raise Unsupported(f"dropout_p={dropout_p}: random numbers need a state; write softmax, dropout and matmul out")
    if min(len(query.shape), len(key.shape), len(value.shape)) < 2:
        raise UserError(f"query {list(query.shape)}, key {list(key.shape)}, value {list(value.shape)} need at least 2 axes each")
    *_, rows, depth = query.shape
    *_, columns, key_depth = key.shape
    if key_depth != depth or value.shape[-2] != columns:
        shapes = ", ".join(str(list(t.shape)) for t in (query, key, value))
        raise UserError(f"query, key and value of shapes {shapes}; needs [.., l, d], [.., s, d], [.., s, e]")
    if is_causal and attn_mask is not None:
        raise UserError("is_causal and attn_mask exclude one another")
    heads = _shared_heads(query, key, value) if enable_gqa else 1
    lead = broadcast(query.shape[:-2], *([] if enable_gqa else [key.shape[:-2], value.shape[:-2]]))
    factor = 1 / math.sqrt(depth) if scale is None and depth else 1.0 if scale is None else scale

    def of_head(b: Sequence[Ix]) -> Sequence[Ix]:
        return (*b[:-1], b[-1] // heads) if heads > 1 else b

    def score(*i: Ix) -> E:
        *b, r, c = i
        dot = contraction(depth, dtype, lambda k: at(query, (*b, r, k)), lambda k: at(key, (*of_head(b), c, k)))
        s = dot * const(factor, how)
        if attn_mask is not None and attn_mask.dtype is not dt.bool_:
            return s + convert(at(attn_mask, i), how)
        kept = at(attn_mask, i) if attn_mask is not None else op("le", index(c), index(r)) if is_causal else None
        return s if kept is None else select(kept, s, const(-math.inf, how))

    if attn_mask is not None and broadcast(attn_mask.shape, (*lead, rows, columns)) != (*lead, rows, columns):
        raise UserError(f"attn_mask of shape {list(attn_mask.shape)} does not broadcast to {[*lead, rows, columns]}")
    scores = elements((*lead, rows, columns), score, how)
    lowest, zero = const(-math.inf, how), const(0, how)
    largest = lambda *i: fold(columns, lowest, lambda m, c: op("max", m, load(scores, *i, c)))  # noqa: E731
    top = elements((*lead, rows), lambda *i: op("stop", largest(*i)), how)
    powers = elements(scores.shape, lambda *i: op("exp", load(scores, *i) - load(top, *i[:-1])), how)
    sums = elements((*lead, rows), lambda *i: fold(columns, zero, lambda s, c: s + load(powers, *i, c)), how)

    def weight(*i: Ix) -> E:
        nothing = op("eq", load(top, *i[:-1]), lowest)
        return select(nothing, zero, load(powers, *i) / load(sums, *i[:-1]))

    weights = elements(scores.shape, weight, how)

    def body(*i: Ix) -> E:
        *b, r, e = i
        return fold(columns, zero, lambda s, c: op("fma", load(weights, *b, r, c), lift(at(value, (*of_head(b), c, e))), s))

    return elements((*lead, rows, value.shape[-1]), body, dtype)


def _shared_heads(query: T, key: T, value: T) -> int:
    """How many query heads use one key and value head."""
    if len(query.shape) < 3 or len(key.shape) != len(query.shape) or value.shape[:-2] != key.shape[:-2]:
        raise UserError("enable_gqa needs a head axis in query, key and value, and equal leading sizes of key and value")
    if query.shape[:-3] != key.shape[:-3] or not key.shape[-3] or query.shape[-3] % key.shape[-3]:
        raise UserError(f"enable_gqa: {query.shape[-3]} query heads for {key.shape[-3]} key heads; allowed: a multiple")
    return query.shape[-3] // key.shape[-3]
