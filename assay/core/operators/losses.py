"""Losses.  `reduction` is ATen's: 0 none, 1 the mean, 2 the sum; sums are left folds from +0 in row-major order.

Half types compute everything in f32 and round the result once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from assay.core import dtypes as dt
from assay.core.dtypes import DType, compute_dtype
from assay.core.errors import OutOfBounds, UserError
from assay.core.index import Ix
from assay.core.lang import E, T, const, convert, fold, load, op, require, select, tensor
from assay.core.operators.build import at, broadcast, cast, constant, dims, elements, inserted, lift, need_float, result_type
from assay.core.operators.build import dim as axis_of
from assay.core.operators.guards import INDEX_TYPES
from assay.core.operators.reductions import average, total
from assay.core.operators.registry import operator
from assay.core.operators.samples import FLOATS, like, listed
from assay.core.operators.softmax import log_softmax_over

NONE, MEAN, SUM = 0, 1, 2


def need_reduction(reduction: int) -> None:
    """Raise UserError unless `reduction` is 0, 1 or 2."""
    if reduction not in (NONE, MEAN, SUM):
        raise UserError(f"reduction={reduction}; allowed: 0 (none), 1 (mean), 2 (sum)")


def all_of(x: T) -> T:
    """The sum of all elements."""
    return total(x, dims(None, len(x.shape)), x.dtype, keepdim=False)


def reduced(terms: T, reduction: int, dtype: DType, weights: T | None = None) -> T:
    """`terms`, their mean (their sum over that of `weights`, where given), or their sum, rounded to `dtype` once."""
    need_reduction(reduction)
    if reduction == NONE:
        return cast(terms, dtype)
    if reduction == SUM:
        return cast(all_of(terms), dtype)
    if weights is None:
        return cast(average(terms, dims(None, len(terms.shape)), terms.dtype, keepdim=False), dtype)
    over, under = all_of(terms), all_of(weights)
    return tensor((), lambda: convert(load(over) / load(under), dtype))


def _pointwise(fn: Callable[..., E], reduction: int, *operands: T) -> T:
    """The reduction of fn of the operands, broadcast, in the type their common type is computed in."""
    dtype = result_type(*operands)
    if not dtype.is_float:
        raise UserError(f"needs float tensors, not {dtype.name}")
    how = compute_dtype(dtype)
    shape = broadcast(*(x.shape for x in operands))
    terms = elements(shape, lambda *i: fn(*(convert(at(x, i), how) for x in operands)), how)
    return reduced(terms, reduction, dtype)


_PAIRS = ((like(3, 4), like(3, 4)), (like(5), like()), (like(), like()), (like(0), like(0)),
          *((like(4, dtype=d), like(4, dtype=d)) for d in FLOATS[1:]))  # fmt: skip


def _pairs(*rest: object) -> Callable[[], list[tuple[object, ...]]]:
    return lambda: [(*p, r, *rest) for p in _PAIRS for r in (MEAN, SUM, NONE)]


@operator("mse_loss(Tensor self, Tensor target, int reduction=1) -> Tensor", samples=_pairs())
def mse_loss(self: T, target: T, reduction: int) -> T:
    """(self - target)**2"""
    return _pointwise(lambda x, y: (x - y) * (x - y), reduction, self, target)


@operator("l1_loss(Tensor self, Tensor target, int reduction=1) -> Tensor", samples=_pairs())
def l1_loss(self: T, target: T, reduction: int) -> T:
    """|self - target|"""
    return _pointwise(lambda x, y: op("abs", x - y), reduction, self, target)


@operator("smooth_l1_loss(Tensor self, Tensor target, int reduction=1, float beta=1.0) -> Tensor", samples=_pairs(0.5))
def smooth_l1_loss(self: T, target: T, reduction: int, beta: float) -> T:
    """d = |self - target|: 0.5*d*d/beta where d < beta, else d - 0.5*beta."""
    if beta < 0:
        raise UserError(f"beta={beta}; allowed: >= 0")
    if beta == 0:
        return l1_loss(self, target, reduction)

    def term(x: E, y: E) -> E:
        d = op("abs", x - y)
        return select(d < beta, d * 0.5 * d / const(beta, d.dtype), d - 0.5 * beta)

    return _pointwise(term, reduction, self, target)


@operator("huber_loss(Tensor self, Tensor target, int reduction=1, float delta=1.0) -> Tensor", samples=_pairs(0.5))
def huber_loss(self: T, target: T, reduction: int, delta: float) -> T:
    """d = |self - target|: 0.5*d*d where d <= delta, else delta*(d - 0.5*delta)."""
    if not delta > 0:
        raise UserError(f"delta={delta}; allowed: > 0")

    def term(x: E, y: E) -> E:
        d = op("abs", x - y)
        return select(d <= delta, d * 0.5 * d, (d - 0.5 * delta) * delta)

    return _pointwise(term, reduction, self, target)


@operator("kl_div(Tensor self, Tensor target, int reduction=1, *, bool log_target=False) -> Tensor",
          samples=listed(*((like(3, 4), like(3, 4, lo=0, hi=1), r, t) for r in (MEAN, SUM, NONE) for t in (False, True)),
                         *((like(4, dtype=d), like(4, dtype=d, lo=0, hi=1), MEAN, False) for d in FLOATS[1:])))  # fmt: skip
def kl_div(self: T, target: T, reduction: int, log_target: bool) -> T:
    """target*log(target) - target*self, the first 0 where target is 0; with log_target, exp(target)*(target - self)."""

    def term(x: E, y: E) -> E:
        if log_target:
            return op("exp", y) * (y - x)
        return select(op("eq", y, 0), const(0, y.dtype), y * op("log", y)) - y * x

    return _pointwise(term, reduction, self, target)


def _weighted(weight: T | None) -> list[T]:
    return [] if weight is None else [weight]


@operator("binary_cross_entropy(Tensor self, Tensor target, Tensor? weight=None, int reduction=1) -> Tensor",
          samples=listed(*((like(3, 4, lo=0, hi=1), like(3, 4, lo=0, hi=1), w, r) for w in (None, like(4))
                         for r in (MEAN, SUM, NONE)),
                         *((like(4, dtype=d, lo=0, hi=1), like(4, dtype=d, lo=0, hi=1), None, MEAN)
                         for d in FLOATS[1:])))  # fmt: skip
def binary_cross_entropy(self: T, target: T, weight: T | None, reduction: int) -> T:
    """-(target*log(p) + (1 - target)*log(1 - p)) * weight, each logarithm at least -100; p in [0, 1] or a ValueError."""
    p = elements(self.shape, lambda *i: load(self, *i), need_float(self))
    if self.size:
        held = (lift(p.body) >= 0) & (lift(p.body) <= 1)
        p = require(p.shape, p.body, held, "[ValueError] a probability must lie in [0, 1], not {value} at {index}")

    def term(x: E, y: E, w: E | None = None) -> E:
        loss = (y - 1) * op("max", op("log1p", -x), -100.0) - y * op("max", op("log", x), -100.0)
        return loss if w is None else loss * w

    return _pointwise(term, reduction, p, target, *_weighted(weight))


@operator("binary_cross_entropy_with_logits(Tensor self, Tensor target, Tensor? weight=None, Tensor? pos_weight=None, "
          "int reduction=1) -> Tensor",
          samples=listed(*((like(3, 4), like(3, 4, lo=0, hi=1), w, p, r) for w in (None, like(4))
                         for p in (None, like(4, lo=0.5, hi=2))
                           for r in (MEAN, SUM, NONE)),
                         *((like(4, dtype=d), like(4, dtype=d, lo=0, hi=1), None, None, MEAN) for d in FLOATS[1:])))  # fmt: skip
def binary_cross_entropy_with_logits(self: T, target: T, weight: T | None, pos_weight: T | None, reduction: int) -> T:
    """((1 - target)*x - log_sigmoid(x)) * weight; with pos_weight v: (1 - target)*x - (1 + (v - 1)*target)*log_sigmoid(x)."""

    def term(x: E, y: E, *more: E) -> E:
        rest = list(more)
        w = rest.pop(0) if weight is not None else None
        bent = op("log_sigmoid", x)
        if pos_weight is not None:
            bent = ((rest.pop(0) - 1) * y + 1) * bent
        loss = (1 - y) * x - bent
        return loss if w is None else loss * w

    return _pointwise(term, reduction, self, target, *_weighted(weight), *_weighted(pos_weight))


@operator("soft_margin_loss(Tensor self, Tensor target, int reduction=1) -> Tensor", samples=_pairs())
def soft_margin_loss(self: T, target: T, reduction: int) -> T:
    """log(1 + exp(-target*self))"""
    return _pointwise(lambda x, y: op("log1p", op("exp", -y * x)), reduction, self, target)


@operator("hinge_embedding_loss(Tensor self, Tensor target, float margin=1.0, int reduction=1) -> Tensor",
          samples=listed((like(3, 4), like(3, 4), 1.0, MEAN), (like(4), like(4), 0.5, SUM),
                         (like(4), like(4), 1.0, NONE)))  # fmt: skip
def hinge_embedding_loss(self: T, target: T, margin: float, reduction: int) -> T:
    """max(0, margin - self) where target is not 1, plus self where it is not -1."""

    def term(x: E, y: E) -> E:
        zero = const(0, x.dtype)
        apart = select(op("eq", y, 1), zero, op("max", margin - x, 0))
        return apart + select(op("eq", y, -1), zero, x)

    return _pointwise(term, reduction, self, target)


@operator("margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, int reduction=1) -> Tensor",
          samples=listed((like(4), like(4), like(4), 0.5, MEAN), (like(2, 3), like(3), like(), 0.0, NONE),
                         (like(4), like(4), like(4), 0.0, SUM)))  # fmt: skip
def margin_ranking_loss(input1: T, input2: T, target: T, margin: float, reduction: int) -> T:
    """max(0, -target*(input1 - input2) + margin)"""
    return _pointwise(lambda x, y, t: op("max", -t * (x - y) + margin, 0), reduction, input1, input2, target)


@operator("poisson_nll_loss(Tensor input, Tensor target, bool log_input, bool full, float eps, int reduction) -> Tensor",
          samples=listed((like(3, 4), like(3, 4, lo=0, hi=5), True, False, 1e-8, MEAN),
                         (like(4, lo=0, hi=3), like(4, lo=0, hi=5), False, True, 1e-8, NONE),
                         (like(4), like(4, lo=0, hi=5), True, True, 1e-8, SUM)))  # fmt: skip
def poisson_nll_loss(input: T, target: T, log_input: bool, full: bool, eps: float, reduction: int) -> T:
    """exp(input) - target*input, or input - target*log(input + eps); `full` adds Stirling's terms where target > 1.

    Stirling: target*log(target) - target + 0.5*log(2*pi*target).
    """

    def term(x: E, y: E) -> E:
        loss = op("exp", x) - y * x if log_input else x - y * op("log", x + eps)
        if not full:
            return loss
        return loss + select(y <= 1, const(0, y.dtype), y * op("log", y) - y + op("log", y * (2 * math.pi)) * 0.5)

    return _pointwise(term, reduction, input, target)


# ------------------------------------------------------------------------------------------------ classes


def _classes(self: T) -> int:
    """The axis of the classes of a tensor of scores [c], [n, c] or [n, c, positions...]."""
    if not self.shape:
        raise UserError("needs an axis of classes, not a 0-d tensor")
    return 0 if len(self.shape) == 1 else 1


def _targets(scores: T, target: T, ignore: int, what: str) -> T:
    """The class of each position (0 where it is `ignore`), checked: a require unless the interval of target proves it."""
    d = _classes(scores)
    n = scores.shape[d]
    if target.shape != (*scores.shape[:d], *scores.shape[d + 1 :]) or target.dtype not in INDEX_TYPES:
        raise UserError(
            f"target {target.dtype.name}{list(target.shape)} for scores of shape {list(scores.shape)}; "
            f"needs classes (i64) of shape {[*scores.shape[:d], *scores.shape[d + 1 :]]}"
        )
    raw = tensor(target.shape, lambda *i: convert(load(target, *i), dt.i64))
    kept = tensor(target.shape, lambda *i: select(op("eq", load(raw, *i), ignore), 0, load(raw, *i)))
    if 0 in target.shape or (raw.lo >= 0 and raw.hi < n):
        return kept
    if n == 0:
        raise OutOfBounds(f"index out of bounds: no class exists ({what}, scores of shape {list(scores.shape)})")
    inside = (kept.body >= 0) & (kept.body < n)
    message = f"[IndexError] index out of bounds: 0 <= {{value}} < {n} ({what}, a class of target) at {{index}}"
    return require(target.shape, kept.body, inside, message, lo=0, hi=n - 1)


def _class_weights(weight: T | None, n: int) -> None:
    if weight is not None and weight.shape != (n,):
        raise UserError(f"weight of shape {list(weight.shape)}; needs one number a class, [{n}]")


def _nll(self: T, target: T, weight: T | None, ignore: int, what: str) -> tuple[T, T]:
    """(-weight[target] * self[target], weight[target]) for each position, both 0 where target is `ignore`."""
    d = _classes(self)
    _class_weights(weight, self.shape[d])
    how = compute_dtype(need_float(self))
    classes = _targets(self, target, ignore, what)

    def weight_at(*i: Ix) -> E:
        w = const(1, how) if weight is None else convert(load(weight, load(classes, *i)), how)
        return select(op("eq", convert(load(target, *i), dt.i64), ignore), const(0, how), w)

    weights = elements(target.shape, weight_at, how)

    def term(*i: Ix) -> E:
        score = lift(load(self, *inserted(i, d, load(classes, *i))))  # type: ignore[arg-type]
        ignored = op("eq", convert(load(target, *i), dt.i64), ignore)
        return select(ignored, const(0, how), -score if weight is None else -score * load(weights, *i))

    return elements(target.shape, term, how), weights


_NLL = ((like(4, 3), like(4, dtype=dt.i64, lo=0, hi=2), None), (like(4, 3), like(4, dtype=dt.i64, lo=-1, hi=2), like(3)),
        (like(3), like(dtype=dt.i64, lo=0, hi=2), None), (like(2, 3, 2, 2), like(2, 2, 2, dtype=dt.i64, lo=0, hi=2), like(3)),
        (like(2, 1), like(2, dtype=dt.i64, lo=0, hi=0), None), (like(0, 3), like(0, dtype=dt.i64, lo=0, hi=2), None),
        *((like(4, 3, dtype=d), like(4, dtype=dt.i64, lo=0, hi=2), like(3, dtype=d)) for d in FLOATS[1:]))  # fmt: skip


@operator("nll_loss_forward(Tensor self, Tensor target, Tensor? weight, int reduction, int ignore_index) -> (Tensor output, "
          "Tensor total_weight)",
          samples=listed(*((*s, r, -1) for s in _NLL if len(s[0].shape) < 3 for r in (MEAN, SUM, NONE))))  # fmt: skip
def nll_loss_forward(self: T, target: T, weight: T | None, reduction: int, ignore_index: int) -> tuple[T, T]:
    """(nll_loss, the sum of the weights of the targets)"""
    terms, weights = _nll(self, target, weight, ignore_index, "nll_loss")
    of_all = cast(all_of(weights), self.dtype) if reduction != NONE else constant((), 0, self.dtype)
    return reduced(terms, reduction, self.dtype, weights), of_all


@operator("nll_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, int ignore_index=-100) -> Tensor",
          samples=listed(*((*s, r, -1) for s in _NLL if len(s[0].shape) < 3 for r in (MEAN, SUM, NONE))))  # fmt: skip
@operator("nll_loss2d(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, int ignore_index=-100) -> Tensor",
          samples=listed(*((*s, r, -1) for s in _NLL if len(s[0].shape) > 3 for r in (MEAN, SUM, NONE))))  # fmt: skip
@operator("nll_loss_nd(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, int ignore_index=-100) -> Tensor",
          samples=listed(*((*s, r, -1) for s in _NLL for r in (MEAN, SUM, NONE))))  # fmt: skip
def nll_loss(self: T, target: T, weight: T | None, reduction: int, ignore_index: int) -> T:
    """-weight[t] * self[t] for the class t of each position; the mean divides by the sum of these weights.

    Positions of class ignore_index count 0; another class outside the axis is an IndexError.
    """
    terms, weights = _nll(self, target, weight, ignore_index, "nll_loss")
    return reduced(terms, reduction, self.dtype, weights)


_CROSS = (*((*s, r, -1, e) for s in _NLL for r in (MEAN, SUM, NONE) for e in (0.0, 0.1)),
          *((like(4, 3), like(4, 3, lo=0, hi=1), w, r, -100, e) for w in (None, like(3)) for r in (MEAN, SUM, NONE)
          for e in (0.0, 0.1)))  # fmt: skip


@operator("cross_entropy_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, int ignore_index=-100, "
          "float label_smoothing=0.0) -> Tensor", samples=listed(*_CROSS))  # fmt: skip
def cross_entropy_loss(self: T, target: T, weight: T | None, reduction: int, ignore_index: int, label_smoothing: float) -> T:
    """-weight[t] * log_softmax(self)[t] for the class t of each position, or -sum_c weight[c]*target[c]*log_softmax(self)[c].

    With label smoothing e: (1 - e) of this and e / classes of the same for every class.  The mean divides by the sum of
    the weights of the targets (by the number of positions, where target holds probabilities).
    """
    d = _classes(self)
    if not 0 <= label_smoothing <= 1:
        raise UserError(f"label_smoothing={label_smoothing}; allowed: 0..1")
    need_reduction(reduction)
    n, logs = self.shape[d], log_softmax_over(self, d, compute_dtype(need_float(self)))
    _class_weights(weight, n)
    how = logs.dtype

    def over_classes(i: Sequence[Ix], share: Callable[[Ix], E] | None) -> E:
        """-sum over c of share(c) * weight[c] * logs[c]"""

        def step(s: E, c: Ix) -> E:
            term = load(logs, *inserted(i, d, c))
            if weight is not None:
                term = term * convert(load(weight, c), how)
            return s - (term if share is None else term * share(c))

        return fold(n, const(0, how), step)

    positions = (*self.shape[:d], *self.shape[d + 1 :])
    smooth, sharp = const(label_smoothing / max(n, 1), how), const(1 - label_smoothing, how)
    if target.shape == self.shape and target.dtype.is_float:

        def share(i: Sequence[Ix], c: Ix) -> E:
            p = convert(load(target, *inserted(i, d, c)), how)
            return p * sharp + smooth if label_smoothing else p

        terms = elements(positions, lambda *i: over_classes(i, lambda c: share(i, c)), how)
        return reduced(terms, reduction, self.dtype)
    plain, weights = _nll(logs, target, weight, ignore_index, "cross_entropy_loss")
    terms = plain
    if label_smoothing:

        def smoothed(*i: Ix) -> E:
            ignored = op("eq", convert(load(target, *i), dt.i64), ignore_index)
            return load(plain, *i) * sharp + select(ignored, const(0, how), over_classes(i, None)) * smooth

        terms = elements(positions, smoothed, how)
    return reduced(terms, reduction, self.dtype, weights)


@operator("cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor",
          samples=listed((like(3, 4), like(3, 4), 1, 1e-8), (like(3, 4), like(1, 4), -1, 1e-8), (like(5), like(5), 0, 0.5),
                         *((like(3, 4, dtype=d), like(3, 4, dtype=d), 1, 1e-6) for d in FLOATS[1:])))  # fmt: skip
def cosine_similarity(x1: T, x2: T, dim: int, eps: float) -> T:
    """sum(x1*x2) / (max(|x1|, eps) * max(|x2|, eps)) along dim; the sums are folds of fma from +0."""
    dtype = result_type(x1, x2)
    if not dtype.is_float:
        raise UserError(f"needs float tensors, not {dtype.name}")
    how, shape = compute_dtype(dtype), broadcast(x1.shape, x2.shape)
    d = axis_of(dim, len(shape))

    def dot(a: T, b: T, i: Sequence[Ix]) -> E:
        def step(s: E, k: Ix) -> E:
            j = inserted(i, d, k) if shape else ()
            return op("fma", convert(at(a, j), how), convert(at(b, j), how), s)

        return fold(shape[d] if shape else 1, const(0, how), step)

    def body(*i: Ix) -> E:
        sides = [op("max", op("sqrt", dot(x, x, i)), eps) for x in (x1, x2)]
        return dot(x1, x2, i) / (sides[0] * sides[1])

    return elements((*shape[:d], *shape[d + 1 :]), body, dtype)
