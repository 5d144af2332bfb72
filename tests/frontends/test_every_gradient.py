"""Every differentiable overload through the engine: gradients and tangents have the bits of the derived programs."""

import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import assay
from assay.autograd import grad
from assay.autograd.forward_ad import dual_level, make_dual, unpack_dual
from assay.core.errors import Unsupported
from assay.core.lang import input, program
from assay.core.operators import FAMILIES, Operator
from assay.frontends.derived import active
from assay.fuzz.differences import FUNCTIONAL
from assay.semantics.compare import bits_equal
from assay.semantics.denote import RequireError, run
from assay.semantics.tangent import tangent
from assay.transforms.adjoint import gradient_program
from tests.frontends.test_every_overload import call, tensors

CONSTANT = frozenset("""
    signbit eq ne lt le gt ge isnan isinf isfinite isposinf isneginf isclose logical_and logical_or logical_xor logical_not
    bitwise_and bitwise_or bitwise_xor bitwise_not bitwise_left_shift bitwise_right_shift detach any all count_nonzero argmax
    argmin empty zeros ones full empty_like zeros_like ones_like full_like new_empty new_zeros new_ones new_full scalar_tensor
    arange linspace eye zero assume one_hot masked_select nonzero argsort searchsorted bucketize unique_consecutive _unique2
    unique_dim rand uniform randn randint randperm exponential multinomial advance
""".split())  # bases without an overload that is differentiable
ALSO_CONSTANT = ("where.Scalar", "fill.Scalar", "normal.state", "bernoulli.state_p")


def leaves(v: Any) -> Iterator[assay.Tensor]:
    if isinstance(v, assay.Tensor):
        yield v
    elif isinstance(v, tuple):
        for x in v:
            yield from leaves(x)


def outcome(o: Operator, sample: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """(arguments, results with a history, their numbers); None: nothing to differentiate, or a call that raises."""
    args = tensors(sample, np.random.default_rng(zlib.crc32(o.name.encode())))
    p = o.program(*args)
    wanted = tuple(k for k, x in enumerate(leaves(args)) if x.dtype.is_float)
    if not wanted or not (given := active(o, p, wanted)):
        return None
    for x in leaves(args):
        if x.dtype.is_float:
            x.requires_grad_()
    try:
        out = call(o, args)
    except (RequireError, IndexError, ZeroDivisionError):
        return None
    results = list(leaves(tuple(out) if isinstance(out, tuple | list) else (out,)))
    return args, results, given


def check(o: Operator, sample: tuple[Any, ...]) -> bool:
    """Whether the engine's gradients were compared with the derived program's."""
    made = outcome(o, sample)
    if made is None:
        return False
    args, results, given = made
    p = o.program(*args)
    rng = np.random.default_rng(0)
    seeds = [np.asarray(rng.standard_normal(results[k].shape)).astype(p.outputs[k].dtype.numpy) for k in given]
    wrt = [x for x in leaves(args) if x.requires_grad]
    arrays = [x.detach().numpy() for x in leaves(args)]
    try:
        q = gradient_program(program(p.inputs, [o.differentiated(p).outputs[k] for k in given], (), p.name))
    except Unsupported:
        with pytest.raises(Unsupported, match=o.name):
            grad([results[k] for k in given], wrt, list(map(assay.from_numpy, seeds)))
        return False
    want = run(q, [*arrays, *seeds])
    got = grad([results[k] for k in given], wrt, list(map(assay.from_numpy, seeds)), allow_unused=True)
    assert all(results[k].requires_grad == (k in given) for k in range(len(results))), o.name
    for x, a, b in zip(wrt, got, want, strict=True):
        if a is None:  # the results do not depend on it
            assert not b.any(), (o.name, sample)
            continue
        assert a.shape == x.shape
        assert a.dtype is x.dtype
        assert bits_equal(a.numpy(), b), (o.name, sample)
    check_tangents(o, args, arrays)
    return True


def check_tangents(o: Operator, args: tuple[Any, ...], arrays: list[np.ndarray]) -> None:
    p = o.program(*args)
    rng = np.random.default_rng(1)
    moves = [np.asarray(rng.standard_normal(t.shape)).astype(t.dtype.numpy) for t in p.inputs if t.dtype.is_float]
    given = active(o, p, tuple(k for k, t in enumerate(p.inputs) if t.dtype.is_float))
    inputs = {t: input(f"move{k}", t.shape, t.dtype) for k, t in enumerate(t for t in p.inputs if t.dtype.is_float)}
    with dual_level():
        left = iter(moves)

        def moved(x: Any) -> Any:
            if isinstance(x, tuple):
                return tuple(map(moved, x))
            floats = isinstance(x, assay.Tensor) and x.dtype.is_float
            return make_dual(x.detach(), assay.from_numpy(next(left))) if floats else x

        out = call(o, moved(args))
        results = list(leaves(tuple(out) if isinstance(out, tuple | list) else (out,)))
        for k, made in enumerate(tangent(o.differentiated(p).outputs, inputs)):
            found = unpack_dual(results[k]).tangent
            assert (found is not None) == (k in given), o.name
            if found is not None and made is None:
                assert not found.numpy().any(), o.name
            elif found is not None and made is not None:
                want = run(program([*p.inputs, *inputs.values()], [made]), [*arrays, *moves])[0]
                assert bits_equal(found.numpy(), want), o.name


@pytest.mark.parametrize("family", FAMILIES)
def test_15_every_gradient(family: str) -> None:
    for o in (o for o in FUNCTIONAL if o.family == family):
        samples = list(o.samples())
        start = zlib.crc32(o.name.encode()) % max(len(samples), 1)
        compared = any(check(o, tuple(s)) for s in samples[start:] + samples[:start])
        assert compared != (o.base in CONSTANT or o.name in ALSO_CONSTANT), o.name


@pytest.mark.full
@pytest.mark.parametrize("family", FAMILIES)
def test_15_every_gradient_of_every_sample(family: str) -> None:
    for o in (o for o in FUNCTIONAL if o.family == family):
        for s in o.samples():
            check(o, tuple(s))
