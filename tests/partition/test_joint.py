"""Both halves together are the joint program, whatever is saved: the same object, and the same bits when they run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest

from assay.backends.cpp import compile_many
from assay.core import dtypes as dt
from assay.core.errors import InternalError, UserError
from assay.core.lang import Program, T, bodies, input, let, load, op, order, program, tensor, walk
from assay.fuzz.chains import chain
from assay.partition.joint import Joint, Split, joint_program, rejoined, split
from assay.semantics.access import accesses
from assay.semantics.compare import bits_equal
from assay.semantics.denote import RequireError, run
from assay.transforms.adjoint import gradient_program
from assay.transforms.pipeline import optimise
from assay.verify.bounds import prove
from tests.partition.flows import subsets
from tests.partition.graphs import apply, gelu_program, mlp

Values = dict[str, np.ndarray]


def backward_arguments(halves: Split, results: list[np.ndarray], values: Values) -> list[np.ndarray]:
    """What the backward is called with, from the forward's results."""
    return [*(results[k] for k in halves.at), *(values[t.name] for t in halves.backward.inputs[len(halves.at) :])]


def run_halves(halves: Split, values: Values) -> list[np.ndarray]:
    """The outputs and gradients of the two halves by the reference."""
    results = run(halves.forward, [values[t.name] for t in halves.forward.inputs])
    return results[: halves.joint.outputs] + run(halves.backward, backward_arguments(halves, results, values))


def random_values(joint: Joint, seed: int) -> Values:
    rng = np.random.default_rng(seed)
    return {t.name: rng.standard_normal(t.shape).astype(t.dtype.numpy) for t in joint.program.inputs}


def equal(a: Iterable[np.ndarray], b: Iterable[np.ndarray]) -> bool:
    return all(bits_equal(x, y) for x, y in zip(a, b, strict=True))


def test_the_joint_program_holds_outputs_and_gradients() -> None:
    p, w = gelu_program()
    joint = joint_program(p, [w])
    assert joint.results == p.outputs
    assert joint.gradients == gradient_program(p, [w]).outputs
    assert [t.name for t in joint.program.inputs] == ["x", "W", "d0"]


def test_33_example_5_1_passes_the_product_alone() -> None:
    p, w = gelu_program()
    joint = joint_program(p, [w])
    (product,) = joint.values  # nothing else of the forward is read: gelu's slope is computed from it
    halves = split(joint, [product])
    assert product.shape == (32, 64)
    assert halves.saved_bytes == 8192
    assert [t.name for t in halves.backward.inputs] == ["s0", "x", "d0"]
    assert [t.name for t in halves.held] == ["x"]
    assert not {t for t in order(halves.backward.outputs) if t.kind == "input"} - set(halves.backward.inputs)


def test_30_the_backward_kernel_of_example_5_1_reads_h_and_one_scalar_and_writes_once() -> None:
    """erf is computed again in the loop that needs the slope: no tensor of 32 x 64 but h is read, none but the result written."""
    p, w = gelu_program()
    joint = joint_program(p, [w])
    final = optimise(split(joint, joint.values).backward)[-1].program
    slope, product = final.tensors
    assert {t.name for t in slope.reads} == {"s0", "d0"}
    loads = [e for e in walk(bodies(slope)) if e.op == "load"]
    assert sorted(e.attr[0].name for e in loads) == ["d0", "s0"]
    assert sum(e.op == "erf" for e in walk(bodies(slope))) == 1
    assert [(a.kind, a.count) for a in accesses(slope) if a.kind == "write"] == [("write", 32 * 64)]
    assert product.reads == {slope, *joint.inputs[:1]}


def test_34_gradients_have_the_same_bits_for_every_set_of_a_small_program() -> None:
    joint = joint_program(mlp((3, 4, 2), batch=2))
    values = random_values(joint, 0)
    wanted = run(joint.program, [values[t.name] for t in joint.program.inputs])
    assert 2 <= len(joint.values) <= 8
    for chosen in subsets(len(joint.values)):
        halves = split(joint, [joint.values[v] for v in chosen])
        assert rejoined(halves) is joint.program
        assert equal(run_halves(halves, values), wanted)


def test_34_random_programs_and_random_sets() -> None:
    for seed in range(24):
        made = chain(seed)
        joint = joint_program(made.program)
        rng = np.random.default_rng(seed)
        values = random_values(joint, seed) | {t.name: a for t, a in made.values.items()}
        wanted = run(joint.program, [values[t.name] for t in joint.program.inputs])
        for k in range(2):
            halves = split(joint, [t for t in joint.values if rng.random() < (k + 1) / 3])
            assert rejoined(halves) is joint.program, made.names
            assert equal(run_halves(halves, values), wanted), made.names


@pytest.mark.cpp
def test_34_random_programs_compiled() -> None:
    """Many halves in one translation unit: what the C++ computes of both has the bits of the joint program."""
    found: list[tuple[Split, Values, list[np.ndarray]]] = []
    for seed in range(100, 112):
        made = chain(seed)
        joint = joint_program(made.program)
        rng = np.random.default_rng(seed)
        values = random_values(joint, seed) | {t.name: a for t, a in made.values.items()}
        wanted = run(joint.program, [values[t.name] for t in joint.program.inputs])
        found.append((split(joint, [t for t in joint.values if rng.random() < 0.4]), values, wanted))
    compiled = compile_many([optimise(p)[-1].program for h, *_ in found for p in (h.forward, h.backward)])
    for (halves, values, wanted), forward, backward in zip(found, compiled[::2], compiled[1::2], strict=True):
        results = forward([values[t.name] for t in halves.forward.inputs])
        arguments = [np.array(a, order="C") for a in backward_arguments(halves, results, values)]
        assert equal([*results[: halves.joint.outputs], *backward(arguments)], wanted)


# ------------------------------------------------------------------------------------------------ checks, random numbers, indices


def gathered() -> tuple[Program, T]:
    """sum(tanh(x[i]) ** 2) with an index from data, which may be out of range."""
    x, at = input("x", (5, 3), dt.f32), input("at", (4,), dt.i64)
    y = apply("tanh.default", apply("index_select.default", x, 0, at))
    return program([x, at], [apply("sum.default", apply("mul.Tensor", y, y), None)]), x


@pytest.mark.parametrize("which", range(4))
def test_checks_stay_in_the_forward_and_what_they_say_is_kept(which: int) -> None:
    p, x = gathered()
    joint = joint_program(p, [x])
    checked = [t for t in joint.values if t.kind == "require"]
    chosen = [t for k, t in enumerate(joint.values) if (which & 1 and t in checked) or (which & 2 and t not in checked)]
    halves = split(joint, chosen)
    assert rejoined(halves) is joint.program
    assert halves.forward.checks == p.checks != ()
    assert halves.backward.checks == ()
    assert not any(t.kind == "require" for t in halves.backward.tensors)
    assert prove(optimise(halves.backward)[-1].program).verdict.kind == "PROVED"
    values = random_values(joint, 1) | {"at": np.array([4, 1, 0, 4])}
    wanted = run(joint.program, [values[t.name] for t in joint.program.inputs])
    assert equal(run_halves(halves, values), wanted)
    with pytest.raises(RequireError):
        run_halves(halves, values | {"at": np.array([4, 5, 0, 4])})


def test_a_random_mask_that_is_drawn_again_is_the_same_mask() -> None:
    x, state = input("x", (64,), dt.f32), input("state", (2,), dt.i64)
    drawn = apply("rand.state", state, (64,), None)
    mask = tensor((64,), lambda i: op("lt", load(drawn, i), 0.5))
    y = tensor((64,), lambda i: op("select", load(mask, i), op("exp", load(x, i)), 0.0))
    joint = joint_program(program([x, state], [apply("sum.default", y, None)]), [x])
    values = random_values(joint, 2) | {"state": np.array([7, 3])}
    wanted = run(joint.program, [values[t.name] for t in joint.program.inputs])
    assert mask in joint.values
    for chosen in ([], [mask], list(joint.values)):
        assert equal(run_halves(split(joint, chosen), values), wanted)


def test_what_only_the_backward_needs_may_be_computed_by_the_forward() -> None:
    """The position of a maximum: a byte for a row instead of the row."""
    x = input("x", (6, 50), dt.f64)
    joint = joint_program(program([x], [apply("amax.default", x, (1,), False)]))
    (position,) = (t for t in joint.values if t not in joint.early)
    assert position.dtype is dt.i64
    halves = split(joint, [position])
    assert joint.packed(position) in halves.forward.outputs
    assert joint.packed(position).dtype is dt.i8
    assert halves.saved_bytes == 6
    assert halves.held == ()  # the row itself is not kept
    values = random_values(joint, 3)
    assert equal(run_halves(halves, values), run(joint.program, [values[t.name] for t in joint.program.inputs]))
    assert prove(optimise(halves.backward)[-1].program).verdict.kind == "PROVED"


def test_an_input_that_is_overwritten_has_to_be_saved() -> None:
    x = input("x", (4,), dt.f32)
    p = program([x], [tensor((4,), lambda i: op("exp", load(x, i)) * load(x, i))])
    joint = joint_program(p, changed=[x])
    assert x in joint.values
    assert x in split(joint, [x]).saved
    with pytest.raises(UserError, match="will have been overwritten"):
        split(joint, [])


def test_a_value_that_is_an_output_too_is_passed_once() -> None:
    x = input("x", (4,), dt.f32)
    e = tensor((4,), lambda i: op("exp", load(x, i)))
    joint = joint_program(program([x], [e]))
    halves = split(joint, [e])
    assert halves.forward.outputs == (e,)
    assert halves.at == (0,)


def test_what_is_no_value_cannot_be_saved() -> None:
    p, w = gelu_program()
    joint = joint_program(p, [w])
    for t in (p.outputs[0], joint.gradients[0], w):
        with pytest.raises(UserError, match="cannot be saved"):
            split(joint, [t])


def test_what_nothing_needs_is_not_passed() -> None:
    joint = joint_program(mlp((3, 4, 2), batch=2))
    last = joint.values[-1]
    assert set(split(joint, joint.values).saved) <= set(joint.values)
    assert split(joint, joint.values).again == ()
    assert last in split(joint, joint.values).saved


# ------------------------------------------------------------------------------------------------ wrong halves


def wrong_halves() -> dict[str, Split]:
    joint = joint_program(mlp((3, 4, 4, 2), batch=2))
    halves = split(joint, joint.values)
    a, b = (k for k, t in enumerate(halves.saved) if t.shape == (2, 4))
    swapped = list(halves.at)
    swapped[a], swapped[b] = swapped[b], swapped[a]
    g = halves.backward.outputs
    doubled = let(g[0].shape, op("add", g[0].body, g[0].body))
    back = halves.backward
    return {
        "two saved values are swapped": replace(halves, at=tuple(swapped)),
        "the saved value is another one": replace(halves, at=(*halves.at[:-1], halves.at[0])),
        "two gradients are swapped": replace(halves, backward=program(back.inputs, (g[0], g[2], g[1], *g[3:]), name=back.name)),
        "a gradient is doubled": replace(halves, backward=program(back.inputs, (doubled, *g[1:]), name=back.name)),
        "a gradient is dropped": replace(halves, backward=program(back.inputs, g[:-1], name=back.name)),
        "the results of the forward are in another order":
            replace(halves, forward=program(halves.forward.inputs, halves.forward.outputs[::-1])),
    }


@pytest.mark.parametrize("name", wrong_halves())
def test_wrong_halves_are_refused(name: str) -> None:
    with pytest.raises(InternalError, match="another program"):
        rejoined(wrong_halves()[name])
