"""Audits of derivatives, each of what is made one way against the same made another way.

    slopes, adjoint, tangent   gradient and tangent of chains, operators, windows and digits against differences of their values
    partition                  both halves, for random saved values, against the joint program, bit for bit
    autograd                   backward() through an operator and an update in place, against the program of its gradient; through
                               a random program, against the joint program of its graph; a saved value that was changed since
"""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from assay.core import dtypes as dt
from assay.core.errors import Unsupported, UserError
from assay.core.index import Ix
from assay.core.lang import E, T, const, fold, input, load, load_or_zero, op, program, tensor
from assay.core.operators import Operator
from assay.core.operators.samples import Like, like
from assay.core.row import TABLE
from assay.fuzz.chains import chain
from assay.fuzz.differences import RANGES, SLOPED, Array, Point, likes, one_sample, point, points, slope
from assay.partition.joint import joint_program, split
from assay.semantics.denote import bits_equal, evaluate, run
from assay.semantics.failure import RequireError
from assay.semantics.tangent import tangent
from assay.transforms.adjoint import adjoint

TO_DIFFERENCES, TO_EACH_OTHER = 1e-7, 1e-12  # relative: of a gradient to differences of values, and to another gradient
STRIDE = 7919  # a prime: all operators come before one comes again
VALUES = 24  # of each argument of a scalar function
NEAR = 1e-11  # relative, of sums in another order
DECLARED = ("stop", "as_if")  # their slopes are said, not those of their values
SURE = 1e-9  # two estimates of a slope that are as close are away from kinks

Wrong = tuple[str, str]  # the part, and what it says


def wrong_derivative(seed: int) -> Wrong | None:
    """What one random question finds."""
    return QUESTIONS[seed % len(QUESTIONS)](seed // len(QUESTIONS))


def wrong_slope(seed: int) -> Wrong | None:
    """Column `lin` of one scalar function against differences of its values in f64."""
    rows = [r for r in TABLE.values() if r.lin is not None and not isinstance(r.lin, Unsupported) and r.name not in DECLARED]
    row = rows[seed % len(rows)]
    wanted = [like(VALUES, dtype=dt.f64)] * row.arity
    xs = [input(f"x{k}", (VALUES,), dt.f64) for k in range(row.arity)]
    try:
        p = program(xs, [tensor((VALUES,), lambda i: op(row.name, *(x[i] for x in xs)))])
    except UserError:  # of integers or conditions
        return None
    for values_in in RANGES:
        at = point(p, wanted, seed, values_in) if p.outputs[0].dtype.is_float else None
        if at is not None and (found := _compared(at)) is not None:
            return found[0], f"{row.name}: {found[1]}"
    return None


def _compared(at: Point) -> Wrong | None:
    """What disagrees at a point away from kinks."""
    wanted, apart = slope(at)
    return disagreement(at, wanted) if np.isfinite(wanted) and apart < SURE * max(1.0, abs(wanted)) else None


def gradients(at: Point) -> tuple[list[T], list[T], dict[T, Array]]:
    """(float inputs, gradients of the weighted outputs, values of what these read)."""
    wrt = list(at.directions)
    seeds = [input(f"c{k}", t.shape, t.dtype) for k, t in enumerate(at.weights)]
    found = adjoint(list(at.weights), seeds, wrt)
    return wrt, found, {**at.values, **dict(zip(seeds, at.weights.values(), strict=True))}


def disagreement(at: Point, wanted: float) -> Wrong | None:
    """Whether the gradient along the directions, or the tangent's product with the weights, is not the slope `wanted`."""
    wrt, found, arrays = gradients(at)
    terms = [g * at.directions[t] for g, t in zip(evaluate(found, arrays), wrt, strict=True)]
    along = _total(terms)
    inputs = {t: input(f"d_{t.name}", t.shape, t.dtype) for t in wrt}
    moves = [(w, d) for w, d in zip(at.weights.values(), tangent(list(at.weights), inputs), strict=True) if d is not None]
    arrays = {**at.values, **{inputs[t]: d for t, d in at.directions.items()}}
    forward = [np.asarray(w * evaluate([d], arrays)[0]) for w, d in moves]
    ahead = _total(forward)
    size = max([1.0, *(float(np.sum(abs(a))) for a in (*terms, *forward))])
    same = abs(ahead - along) <= TO_EACH_OTHER * size
    right = [abs(x - wanted) <= TO_DIFFERENCES * max(1.0, abs(wanted)) for x in (along, ahead)]
    if same and all(right):
        return None
    part = "adjoint" if right[1] else "tangent" if right[0] else "slopes"
    return part, f"gradient {along}, tangent {ahead}, differences {wanted}"


def _total(arrays: Sequence[Array]) -> float:
    return sum(float(np.sum(a)) for a in arrays)


def _of_chain(seed: int) -> Wrong | None:
    c = chain(seed)
    at = c.point()
    if at is None:
        return None
    found = _compared(at)
    return found and (found[0], f"chain {seed} ({', '.join(c.names)}): {found[1]}")


def _of_windows(seed: int) -> Wrong | None:
    """Sums, or maxima, over windows of any stride and dilation and three columns, some of them beyond the ends."""
    rng = random.Random(seed)
    stride, dilation, taps, before, count = rng.randint(1, 6), rng.randint(1, 6), rng.randint(2, 6), rng.choice((0, 0, 3)), 7
    length = stride * (count - 1) + dilation * (taps - 1) + 1 - before + rng.randint(0, 2)
    length = rng.choice((max(length, 2), max(length, 2), 1, 2, 4))  # of a short one few windows, or few terms of each, are inside
    x, w = input("x", (length, 3), dt.f64), input("w", (taps,), dt.f64)
    largest, backwards = rng.random() < 0.5, rng.random() < 0.5
    weighted, least = rng.random() < 0.5, rng.choice((-math.inf, -100.0))

    def window(i: Ix) -> E:
        def step(a: E, k: Ix, column: Ix) -> E:
            tap = taps - 1 - k if backwards else k
            read = load_or_zero(x, stride * i + dilation * tap - before, column)
            return op("max", a, read * w[k] if weighted else read) if largest else op("fma", read, w[k], a)

        first = const(least if largest else 0, dt.f64)
        return fold(taps, first, lambda a, k: fold(3, a, lambda b, column: step(b, k, column)))

    at = point(program([x, w], [tensor((count,), window)]), [like(*t.shape, dtype=dt.f64) for t in (x, w)], seed, RANGES[2])
    found = None if at is None else _compared(at)
    return found and (found[0], f"windows of stride {stride}, dilation {dilation}: {found[1]}")


def _of_digits(seed: int) -> Wrong | None:
    """Elements at the digits of numbers in a mixed radix, in some order, as many numbers as do not fill it; or their sum."""
    rng = random.Random(seed)
    a, b, count = rng.randint(2, 4), rng.randint(2, 4), rng.randint(5, 40)
    axes = rng.sample(range(3), 3)
    extents = (-(-count // (a * b)), b, a)
    x, w = input("x", tuple(extents[k] for k in axes), dt.f64), input("w", (count,), dt.f64)

    def read(v: Ix) -> E:
        digits = (v // (a * b), (v // a) % b, v % a)
        read = load(x, *(digits[k] for k in axes))
        return read if total == 2 else read * w[v]

    total = rng.randint(0, 2)
    y = tensor((), lambda: fold(count, const(0, dt.f64), lambda s, v: s + read(v))) if total else tensor((count,), read)
    at = point(program([x, w], [y]), [like(*t.shape, dtype=dt.f64) for t in (x, w)], seed, RANGES[2])
    found = None if at is None else _compared(at)
    return found and (found[0], f"{count} numbers of digits {b}, {a}: {found[1]}")


def _operator(seed: int) -> tuple[Operator, Point, float] | None:
    """An operator at a point away from kinks, and its slope there."""
    o = SLOPED[seed * STRIDE % len(SLOPED)]
    sample = one_sample(o)
    if sample is None:
        return None
    return next(((o, at, wanted) for at, wanted in points(o, sample)), None)


def _of_operator(seed: int) -> Wrong | None:
    drawn = _operator(seed)
    if drawn is None:
        return None
    o, at, wanted = drawn
    try:
        found = disagreement(at, wanted)
    except Unsupported:
        return None
    return found and (found[0], f"{o.name}{one_sample(o)}: {found[1]}")


def _of_halves(seed: int) -> Wrong | None:
    c = chain(seed)
    at = c.point()
    if at is None:
        return None
    rng = random.Random(seed)
    joint = joint_program(at.program)
    halves = split(joint, [t for t in joint.values if rng.random() < 0.5])
    values = dict(zip(at.program.inputs, at.values.values(), strict=True))
    seeds = [at.weights[t] for t in at.program.outputs]
    whole = run(joint.program, [*values.values(), *seeds])
    forward = run(halves.forward, [values[t] for t in halves.forward.inputs])
    try:
        back = run(halves.backward, [*(forward[k] for k in halves.at), *(values[t] for t in halves.held), *seeds])
    except UserError as error:  # what is saved has another shape or type than what the backward takes
        return "partition", f"chain {seed} ({', '.join(c.names)}): {error}"
    got = [*forward[: joint.outputs], *back]
    wrong = [k for k, (a, b) in enumerate(zip(got, whole, strict=True)) if not bits_equal(a, b)]
    return ("partition", f"chain {seed} ({', '.join(c.names)}): results {wrong} of the halves have other bits") if wrong else None


def _of_engine(seed: int) -> Wrong | None:
    """y = op(u), u = x / 2 then u *= s: the gradients of sum(w y) + sum(y y) for x / 2, s = 2, and the other arguments."""
    from assay.frontends.creation import from_numpy
    from assay.frontends.dispatch import apply
    from assay.frontends.gradients import grad

    drawn = _operator(seed)
    if drawn is None:
        return None
    o, at, _ = drawn
    sample = one_sample(o)
    assert sample is not None
    values, wanted = [*at.values.values()], likes(sample)
    first = next(k for k, v in enumerate(values) if v.dtype.kind == "f")
    tensors = [from_numpy(v / 2 if k == first else v.copy()) for k, v in enumerate(values)]
    leaves = [t.requires_grad_() for t in tensors if t.dtype.is_float]
    s = from_numpy(np.full((), 2.0)).requires_grad_()
    u = tensors[first].clone()
    u *= s
    given = iter([u if k == first else t for k, t in enumerate(tensors)])
    try:
        made = apply(o, _placed(sample, wanted, given))
        outputs = [t for t in (made if isinstance(made, tuple | list) else (made,)) if t.dtype.is_float]
        if len(outputs) != len(at.weights) or not any(t.requires_grad for t in outputs):
            return None  # a result that is another one again, or of which no gradient is asked
        loss = sum((t * from_numpy(w)).sum() + (t * t).sum() for t, w in zip(outputs, at.weights.values(), strict=True))
        found = grad(loss, [*leaves, s], allow_unused=True)
    except Unsupported:
        return None
    except UserError as error:  # a cotangent of another shape
        return "autograd", f"{o.name}{sample}: {error}"
    got = [np.zeros(t.shape) if g is None else g.numpy() for t, g in zip([*leaves, s], found, strict=True)]
    results = evaluate(list(at.weights), at.values)
    weights = {t: w + 2 * y for (t, w), y in zip(at.weights.items(), results, strict=True)}
    _, derived, arrays = gradients(Point(at.program, at.values, at.directions, weights))
    want = evaluate(derived, arrays)
    want.append(np.asarray(np.sum(want[0] * (values[first] / 2))))
    want[0] = want[0] * 2
    wrong = [k for k, (a, b) in enumerate(zip(got, want, strict=True)) if not _near(a, b)]
    return ("autograd", f"{o.name}{sample}: gradients {wrong} of the engine are not those of the program") if wrong else None


def _placed(x: Any, wanted: Sequence[Like], given: Iterator[Any]) -> Any:
    """The sample with the tensors in their places."""
    if isinstance(x, tuple):
        return tuple(_placed(y, wanted, given) for y in x)
    return next(given) if isinstance(x, Like) else x


def _of_graph(seed: int) -> Wrong | None:
    """The gradients of a random program, by the engine and by the joint program of its graph, bit for bit."""
    from assay.frontends.capture import capture
    from assay.frontends.creation import from_numpy
    from assay.frontends.gradients import grad
    from assay.frontends.joint import joint_of_graph
    from assay.fuzz.generate import random_recipe
    from assay.fuzz.oracle import draw_many_arrays
    from assay.transforms.lower import lower

    recipe = random_recipe(seed, 5, joined=True)
    arrays = draw_many_arrays([recipe], seed, 1)[0][0]
    tensors = [from_numpy(a.copy()) for a in arrays]
    floats = [k for k, t in enumerate(tensors) if t.dtype.is_float]
    try:
        graph = capture(recipe, tuple(tensors), {}).graph
        program = lower(graph)
        for k in floats:
            tensors[k].requires_grad_()
        results = recipe(*tensors)
        given = [k for k, t in enumerate(results) if t.requires_grad]
        if not floats or not given or len(graph.results) != len(results) or graph.inputs != graph.inputs[: len(tensors)]:
            return None
        seeds = [from_numpy(np.full(results[k].shape, 1 + n, results[k].dtype.numpy)) for n, k in enumerate(given)]
        found = grad([results[k] for k in given], [tensors[k] for k in floats], seeds, allow_unused=True)
        joint = joint_of_graph(graph, program, floats, given)
        want = run(joint.program, [*arrays, *(t.numpy() for t in seeds)])[joint.outputs :]
    except (Unsupported, UserError, RequireError):  # no program, no derivative, or an index that is out of bounds
        return None
    own = [arrays[k] for k in floats]
    got = [np.zeros(a.shape, a.dtype) if g is None else g.numpy() for a, g in zip(own, found, strict=True)]
    wrong = [k for k, a, b in zip(floats, got, want, strict=True) if not bits_equal(a, b)]
    return ("autograd", f"{recipe}\ngradients {wrong} have other bits than the joint program's") if wrong else None


def _of_stale(seed: int) -> Wrong | None:
    """The backward of a call whose saved value was changed in place since raises."""
    from assay.frontends.autograd import BackwardError
    from assay.frontends.creation import from_numpy
    from assay.frontends.grad_mode import no_grad

    x = from_numpy(np.array([0.5, 1.5])).requires_grad_()
    y = (x.exp(), x.sigmoid(), x.sqrt(), x.tanh())[seed % 4]
    with no_grad() if seed % 2 else contextlib.nullcontext():
        y.view(2)[seed % 2] += 1
    try:
        y.sum().backward()
    except BackwardError:
        return None
    return "autograd", f"case {seed % 4}: a saved result was changed in place, and its gradient is {x.grad}"


def _near(a: Array, b: Array) -> bool:
    size = max(1.0, float(np.max(abs(b), initial=0.0)))
    return a.shape == b.shape and bool(np.all(abs(a - b) <= NEAR * size * max(1, b.size)))


QUESTIONS: tuple[Callable[[int], Wrong | None], ...] = (
    _of_chain, _of_operator, _of_halves, _of_engine, _of_chain, _of_operator, _of_graph, _of_stale, _of_windows,
    _of_digits,
)  # fmt: skip
