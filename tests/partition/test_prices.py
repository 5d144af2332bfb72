"""The default policy: what is saved and why, ten thousand operators in half a second, and no quadratic growth."""

import math
import random
import time

import pytest

from assay.core import dtypes as dt
from assay.core.lang import input, load, op, program, tensor
from assay.core.row import TABLE
from assay.partition.joint import Joint, joint_program, rejoined
from assay.partition.network import Values, cheapest
from assay.partition.prices import Costs, costs, cut, save_all, save_none
from assay.semantics.cost import Prices, length
from tests.partition.flows import subsets
from tests.partition.graphs import apply, gelu_program, mlp, transformer


def test_example_5_1_saves_the_product_and_computes_the_slope_again() -> None:
    p, w = gelu_program()
    found = cut(joint_program(p, [w]))
    assert [t.shape for t in found.split.saved] == [(32, 64)]
    assert found.saved_bytes == 8192
    assert str(found).splitlines()[1].split()[:5] == ["t0", "f32[32,64]", "saved", "8,192", "0.273"]
    assert "stored by the forward anyway; again takes 9.80 times as long" in str(found)


def test_prices_by_hand() -> None:
    """y = exp(x) * exp(x): e = exp(x) is read by the backward; a machine of 1 operation and 8 bytes a second."""
    x = input("x", (16,), dt.f32)
    e = tensor((16,), lambda i: op("exp", load(x, i)))
    joint = joint_program(program([x], [tensor((16,), lambda i: load(e, i) * load(e, i))]))
    c = costs(joint, Prices(1.0, 8.0))
    second = 10**12
    assert c.tensors == (e,)
    assert c.bytes == (64,)
    assert c.save == (16 * second,)  # 64 bytes written, and read
    assert c.stored == (False,)
    operations = 16 * length(TABLE["exp"], (dt.f32,))
    assert c.recompute == ((operations + 8) * second,)  # and 64 bytes of x
    assert c.time([0]) == 16 * second
    assert c.time([]) == (operations + 8) * second


def test_the_forward_may_store_a_value_anyway() -> None:
    joint = joint_program(mlp((4, 5, 3), batch=6))
    c = costs(joint)
    stored = {t.shape: s for t, s in zip(c.tensors, c.stored, strict=True) if any(e.has_fold for e in (t.body,))}
    assert all(stored.values())
    written = [s for t, s in zip(c.tensors, c.stored, strict=True) if t.body.op == "tanh"]
    assert written == [True, False]  # the operand of the second product; what only the sum reads


@pytest.mark.parametrize("held", [1e-12, 1e-10, 1e-9, 1e-7])
def test_no_choice_costs_less(held: float) -> None:
    for p in (mlp((3, 4, 2), batch=2), mlp((6, 3, 3), batch=30)):
        c = costs(joint_program(p))
        assert len(c.tensors) <= 8
        price = held * 1e12

        def total(saved: frozenset[int], c: Costs = c, price: float = price) -> float:
            return c.time(saved) + sum(math.ceil(price * c.bytes[v]) for v in saved)

        found = cheapest(c.values(held))
        assert found is not None
        assert total(found.saved) == min(map(total, subsets(len(c.tensors))))


def test_a_dearer_byte_saves_fewer() -> None:
    joint = joint_program(transformer(2))
    found = [cut(joint, held=h) for h in (0, 1e-12, 3e-10, 1e-9, 1e-6)]
    saved = [p.saved_bytes for p in found]
    assert saved == sorted(saved, reverse=True)
    assert saved[-1] == 0 < saved[0] < save_all(joint).saved_bytes
    assert [p.time for p in found] == sorted(p.time for p in found)
    assert all(rejoined(p.split) is joint.program for p in found)


def test_every_value_has_a_line_that_says_why() -> None:
    found = cut(joint_program(transformer(1)))
    text = str(found)
    assert len(text.splitlines()) == len(found.costs.tensors) + 2
    assert {line.action for line in found.lines} == {"saved", "recomputed", "unneeded"}
    for line in found.lines:
        assert line.why
        assert f"{line.bytes:,}" in str(line)
    assert sum(line.bytes for line in found.lines if line.action == "saved") == found.saved_bytes
    assert text.splitlines()[-1].startswith("cut: ")


def test_save_all_and_save_none_are_the_ends() -> None:
    joint = joint_program(transformer(1))
    assert save_all(joint).split.again == ()
    assert save_none(joint).split.saved == ()


def test_a_changed_input_is_saved_at_its_size_and_never_recomputed() -> None:
    x = input("x", (4,), dt.f32)
    p = program([x], [tensor((4,), lambda i: op("exp", load(x, i)) * load(x, i))])
    found = save_none(joint_program(p, changed=[x]))
    assert found.split.saved == (x,)
    assert found.saved_bytes == 16
    assert [line.why for line in found.lines] == ["overwritten after the forward"]


def deep(n: int) -> Joint:
    """A joint program of about 2 n operators: n elementwise steps and matrix products one after the other, skips between them."""
    x, w = input("x", (8, 8), dt.f32), input("w", (8, 8), dt.f32)
    made = [x]
    for k in range(n):
        if k % 7 == 0:
            made.append(apply("matmul.default", made[-1], w))
        else:
            name = ("sin", "tanh", "mul")[k % 3]
            other = made[max(0, len(made) - 9)] if name == "mul" else made[-1]
            a = made[-1]
            made.append(tensor((8, 8), lambda i, j, a=a, o=other, f=name: op(f, load(a, i, j), load(o, i, j)) if f == "mul"
                               else op(f, load(a, i, j))))  # fmt: skip
    return joint_program(program([x, w], [apply("sum.default", made[-1], None)]), [x, w])


def seconds(values: Values) -> float:
    best = math.inf
    for _ in range(3):
        start = time.process_time()
        assert cheapest(values) is not None
        best = min(best, time.process_time() - start)
    return best


def layered(n: int) -> Values:
    """n values in one deep chain with skips, prices of all sizes, one in ten not to be recomputed."""
    rng = random.Random(n)
    parents = tuple(tuple({max(0, v - 1), rng.randrange(max(0, v - 40), v)}) if v else () for v in range(n))
    save = tuple(rng.randint(1, 10**9) for _ in range(n))
    again = tuple(math.inf if rng.random() < 0.1 else rng.randint(0, 10**8) for _ in range(n))
    return Values(parents, save, again, frozenset(v for v in range(n) if rng.random() < 0.5))


def test_ten_thousand_values_are_cut_in_half_a_second_and_ten_times_fewer_in_a_tenth() -> None:
    few, many = seconds(layered(1000)), seconds(layered(10_000))
    assert many < 0.5
    assert many < 40 * max(few, 0.004)


@pytest.mark.full
def test_a_joint_program_of_ten_thousand_operators_is_cut_in_half_a_second() -> None:
    joint = deep(5000)
    assert len(joint.program.tensors) >= 10_000
    assert seconds(costs(joint).values()) < 0.5
    assert len(str(cut(joint)).splitlines()) == len(joint.values) + 2
