"""Every overload through tensors: eager, in place, captured and compiled agree with the operator's own program, bit for bit."""

import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import assay
from assay.core.operators import FAMILIES, OPERATORS, Operator
from assay.core.operators.samples import Like, draw
from assay.frontends.capture import capture, decompose
from assay.semantics.compare import bits_equal
from assay.semantics.denote import run
from assay.transforms.lower import lower


def tensors(v: Any, rng: np.random.Generator) -> Any:
    """The sample with tensors over fresh memory."""
    if isinstance(v, Like):
        return assay.from_numpy(draw(v, rng))
    return tuple(tensors(x, rng) for x in v) if isinstance(v, tuple | list) else v


def copies(v: Any) -> Any:
    if isinstance(v, assay.Tensor):
        return assay.from_numpy(v.numpy().copy())
    return tuple(map(copies, v)) if isinstance(v, tuple) else v


def arrays(v: Any) -> Iterator[np.ndarray]:
    if isinstance(v, assay.Tensor):
        yield v.numpy()
    elif isinstance(v, tuple):
        for x in v:
            yield from arrays(x)


def call(o: Operator, args: tuple[Any, ...]) -> Any:
    """As a user calls it: positional ones by position, keyword-only ones by name."""
    positional = [a for a, p in zip(args, o.params, strict=True) if not p.keyword_only]
    named = {p.name: a for a, p in zip(args, o.params, strict=True) if p.keyword_only}
    return getattr(getattr(assay.ops, o.base), o.overload)(*positional, **named)


def outcome(f: Any) -> Any:
    try:
        return list(arrays(out if isinstance(out := f(), tuple) else (out,)))
    except (IndexError, ZeroDivisionError, ValueError) as error:
        return type(error).__mro__[1:]


def agree(a: Any, b: Any) -> bool:
    if isinstance(a, tuple) or isinstance(b, tuple):
        return isinstance(a, tuple) and isinstance(b, tuple)
    return len(a) == len(b) and all(x.shape == y.shape and bits_equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("family", FAMILIES)
def test_every_overload(family: str) -> None:
    for o in (o for o in OPERATORS.values() if o.family == family):
        samples = list(o.samples())
        for sample in samples[zlib.crc32(o.name.encode()) % max(len(samples), 1) :][:1]:
            args = tensors(tuple(sample), np.random.default_rng(zlib.crc32(o.name.encode())))
            want = outcome(lambda: tuple(map(assay.from_numpy, run(o.program(*args), list(arrays(args))))))  # noqa: B023
            eager = copies(args)
            got = outcome(lambda: call(o, eager))  # noqa: B023
            assert agree(got, want), (o.name, sample, got, want)
            if o.inplace_of is not None and isinstance(got, list):
                assert np.shares_memory(got[0], eager[0].numpy()) or got[0].size == 0, o.name
                assert agree([eager[0].numpy()], want), o.name

            def function(*leaves: Any) -> Any:
                return call(o, leaves)  # noqa: B023

            compiled = copies(args)
            again = outcome(lambda: assay.compile(function, backend="reference")(*compiled))  # noqa: B023
            assert agree(again, want), (o.name, sample, again, want)
            if o.inplace_of is not None and isinstance(again, list):
                assert agree([compiled[0].numpy()], want), o.name


@pytest.mark.parametrize("name", sorted(o.name for o in OPERATORS.values() if o.decompose is not None))
def test_a_decomposition_has_the_bits_of_the_operator(name: str) -> None:
    o = OPERATORS[name]
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    for sample in list(o.samples())[:6]:
        args = tensors(tuple(sample), rng)
        want = outcome(lambda: tuple(map(assay.from_numpy, run(o.program(*args), list(arrays(args))))))  # noqa: B023
        captured = capture(lambda *leaves: call(o, leaves), args, {})
        graph = decompose(captured.graph)
        assert all(node.target is None or node.target.decompose is None for node in graph.nodes)
        given = list(arrays(args))
        values = [given[s.index] if s.kind == "argument" else s.array for s in captured.sources]
        got = outcome(lambda: tuple(map(assay.from_numpy, run(lower(graph), values))))  # noqa: B023
        assert agree(got, want) or not graph.outputs, (sample, got, want)
