"""Compiled functions under autograd: eager's bits within any budget, what is kept, when it is compiled, higher orders."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import assay
import assay.nn.functional as F
from assay.autograd import BackwardError, grad
from assay.compiler import Compiled
from assay.core.errors import AssayError, InternalError, UserError
from assay.core.operators.samples import Like
from assay.frontends.partitioned import Recording, check_reads
from assay.fuzz.generate import random_recipe
from assay.partition.choose import Budget, as_budget
from assay.partition.peak import footprint
from assay.semantics.compare import bits_equal
from assay.semantics.failure import RequireError

BACKENDS = ["reference", pytest.param("cpp", marks=pytest.mark.cpp)]
BUDGETS = [None, 0, 100, 700, 2000, 10**9]


def leaf(*shape: int, seed: int = 0, dtype: Any = np.float32) -> Any:
    return assay.tensor(np.random.default_rng(seed).standard_normal(shape).astype(dtype)).requires_grad_()


def bits(x: Any) -> bytes:
    return x.detach().numpy().tobytes()


def gradients(f: Callable[..., Any], *args: Any) -> list[bytes]:
    """The results and the gradients of all arguments that require one, for cotangents that differ from element to element."""
    made = f(*args)
    outputs = made if isinstance(made, tuple) else (made,)
    seeds = [assay.tensor(np.linspace(0.5, 1.5, max(1, y.numel())).reshape(y.shape).astype(y.dtype.numpy)) for y in outputs]
    wrt = [a for a in args if isinstance(a, assay.Tensor) and a.requires_grad]
    return [*map(bits, outputs), *map(bits, grad(outputs, wrt, seeds))]


def partition_of(g: Compiled) -> Any:
    (found,) = g.derivatives.partitions
    return found[1]


# ------------------------------------------------------------------------------------------------ functions to try


def block(x: Any, w1: Any, w2: Any, b: Any) -> Any:
    h = F.gelu(F.layer_norm(x, (8,)) @ w1 + b)
    return F.softmax(h @ w2, -1) * x + x


def reused(x: Any, y: Any) -> Any:
    """x has several readers, twice in one operator: the order of its sum shows."""
    a = x * x
    b = (x * y).exp()
    return (a + b * x).sum(0), (b / (a + 1)).tanh()


def pooled(x: Any, w: Any) -> Any:
    y = F.max_pool2d(F.relu(F.conv2d(x, w, padding=1)), 2)
    return y.amax(1).cumsum(-1)


def looked_up(x: Any, i: Any) -> Any:
    return (F.embedding(i, x.tanh()) * x[0]).prod(-1)


def written(x: Any, y: Any) -> Any:
    a = x * x
    a[1] = y
    a[0].mul_(2.0)
    return a * a.t()


def sorted_(x: Any) -> Any:
    return (x.sigmoid().sort(-1)[0] * x).logsumexp(-1)


INDICES = assay.tensor(np.array([[0, 3, 3], [1, 2, 0]]))
CASES: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {
    "block": (block, lambda: (leaf(4, 8), leaf(8, 16, seed=1), leaf(16, 8, seed=2), leaf(16, seed=3))),
    "reused": (reused, lambda: (leaf(5, 7), leaf(7, seed=1))),
    "pooled": (pooled, lambda: (leaf(2, 1, 6, 6), leaf(3, 1, 3, 3, seed=1))),
    "looked_up": (looked_up, lambda: (leaf(4, 5), INDICES)),
    "written": (written, lambda: (leaf(4, 4), leaf(4, seed=1))),
    "sorted": (sorted_, lambda: (leaf(3, 9),)),
}


# ------------------------------------------------------------------------------------------------ bits and budgets


@pytest.mark.parametrize("name", CASES)
def test_34_gradients_have_eagers_bits_within_every_budget(name: str) -> None:
    f, make = CASES[name]
    args = make()
    wanted = gradients(f, *args)
    for budget in BUDGETS:
        g = assay.compile(f, backend="reference", memory_budget=budget)
        assert gradients(g, *args) == wanted
        if budget is not None:
            assert partition_of(g).saved_bytes <= budget


@pytest.mark.cpp
@pytest.mark.parametrize("name", ["block", "reused", "pooled"])
@pytest.mark.parametrize("budget", [None, 300])
def test_34_compiled_by_g(name: str, budget: int | None) -> None:
    f, make = CASES[name]
    args = make()
    assert gradients(assay.compile(f, memory_budget=budget), *args) == gradients(f, *args)


def test_34_random_numbers_are_drawn_again() -> None:
    def f(x: Any) -> Any:
        return (F.dropout(x.exp(), 0.5) * x).sum()

    x = leaf(64)
    for budget in (None, 16):  # the state, which the call advances, has to be kept as it was
        g = assay.compile(f, backend="reference", memory_budget=budget)
        assay.manual_seed(3)
        wanted = gradients(f, x)
        assay.manual_seed(3)
        assert gradients(g, x) == wanted
    with pytest.raises(UserError, match="at least 16 bytes have to be saved"):
        assay.compile(f, backend="reference", memory_budget=0)(x)


def test_51_a_peak_is_honoured() -> None:
    args = CASES["block"][1]()
    free = assay.compile(block, backend="reference")
    wanted = gradients(free, *args)
    most = footprint(partition_of(free).split).peak
    g = assay.compile(block, backend="reference", memory_budget=Budget(peak=most - 64, saved=2000))
    assert gradients(g, *args) == wanted
    made = partition_of(g)
    assert footprint(made.split).peak <= most - 64
    assert made.saved_bytes <= 2000


@pytest.mark.cpp
def test_51_a_peak_is_honoured_by_the_compiled_code() -> None:
    """The memory of intermediates and results, as laid out for the kernels."""
    args = CASES["block"][1]()
    free = assay.compile(block)
    wanted = gradients(free, *args)
    held = free.derivatives.held
    most = footprint(partition_of(free).split, held).peak
    assert most >= footprint(partition_of(free).split).peak
    g = assay.compile(block, memory_budget=Budget(peak=most - 64))
    assert gradients(g, *args) == wanted
    assert footprint(partition_of(g).split, held).peak <= most - 64
    with pytest.raises(UserError, match="a peak of 2000 bytes was asked for"):
        assay.compile(block, memory_budget=Budget(peak=2000))(*args)


def test_51_an_impossible_budget_is_an_error_at_the_call() -> None:
    g = assay.compile(block, backend="reference", memory_budget=Budget(peak=10))
    args = CASES["block"][1]()
    with assay.no_grad():
        g(*args)  # nothing is kept
    with pytest.raises(UserError, match="a peak of 10 bytes was asked for; the least that was found is"):
        g(*args)


def test_51_a_backward_that_reads_inputs_alone_has_a_least_peak() -> None:
    def f(x: Any) -> Any:
        return F.mish(x) + 1

    x = leaf(12)
    wanted = gradients(f, x)
    with pytest.raises(UserError, match="a peak of 1 bytes was asked for; the least that was found is 48 bytes"):
        assay.compile(f, backend="reference", memory_budget=Budget(peak=1))(x)
    assert gradients(assay.compile(f, backend="reference", memory_budget=Budget(peak=48)), x) == wanted


@pytest.mark.parametrize("bad", [-1, 1.5, True, "1 GB", Budget])
def test_a_budget_is_a_number_of_bytes(bad: Any) -> None:
    with pytest.raises(UserError, match="memory_budget="):
        assay.compile(block, memory_budget=bad)


def test_a_budget_object() -> None:
    assert as_budget(5) == Budget(saved=5)
    assert as_budget(None) is None
    with pytest.raises(UserError, match=r"Budget\(peak=-3\)"):
        Budget(peak=-3)


def test_the_report_says_what_is_kept_and_why() -> None:
    g = assay.compile(block, backend="reference", memory_budget=500)
    assert g.explain_partitions() == "block: no gradient of it was recorded"
    gradients(g, *CASES["block"][1]())
    text = g.explain_partitions()
    assert "saved" in text
    assert "stored by the forward anyway" in text
    assert f"at most 500 bytes: {partition_of(g).saved_bytes:,} bytes saved" in text


# ------------------------------------------------------------------------------------------------ random programs


def drawn(like: Like, rng: np.random.Generator) -> np.ndarray:
    """Values of an input of a random program."""
    if like.dtype.is_float:
        return rng.standard_normal(like.shape).astype(like.dtype.numpy)
    low = like.lo if like.lo is not None else 0 if like.dtype.lo == 0 else -3
    high = like.hi if like.hi is not None else 5
    return rng.integers(low, max(high, low + 1), like.shape).astype(like.dtype.numpy)


def differentiated(f: Callable[..., Any], arrays: list[np.ndarray]) -> tuple[list[np.ndarray], list[np.ndarray]] | None:
    """Results, and gradients of the float inputs (zeros where there is none); None where nothing has a gradient."""
    args = [assay.tensor(a) for a in arrays]
    wrt = [t.requires_grad_() for t in args if t.dtype.is_float]
    results = f(*args)
    ends = [y for y in results if y.requires_grad]
    if not ends:
        return None
    rng = np.random.default_rng(1)
    seeds = [assay.tensor(rng.standard_normal(y.shape).astype(y.dtype.numpy)) for y in ends]
    found = grad(ends, wrt, seeds, allow_unused=True)
    made = [np.zeros(t.shape, t.dtype.numpy) if g is None else g.detach().numpy() for t, g in zip(wrt, found, strict=True)]
    return [y.detach().numpy() for y in results], made


@pytest.mark.parametrize("seeds", [range(25), pytest.param(range(25, 1000), marks=pytest.mark.full)], ids=["25", "1000"])
def test_34_random_programs_have_eagers_gradients_within_random_budgets(seeds: range) -> None:
    """Views, gathers, scatters, folds, scans, sorts, half types.  Results are copies: of results that share memory eager adds
    the cotangents in another order."""
    compared = 0
    for seed in seeds:
        recipe, rng = random_recipe(seed, most=8, joined=bool(seed & 1)), np.random.default_rng(seed)
        arrays = [drawn(like, rng) for like in recipe.inputs]
        if any(c.target.base == "overwritten" for c in recipe.calls):  # writes make it, of what has no history
            continue

        def f(*args: Any, recipe: Any = recipe) -> list[Any]:
            return [y.clone() for y in recipe(*args)]

        try:
            wanted = differentiated(f, arrays)
        except (AssayError, RequireError):  # an index out of range, no derivative
            continue
        if wanted is None:
            continue
        compared += 1
        for budget in (None, int(rng.integers(0, 2000))):
            found = differentiated(assay.compile(f, backend="reference", memory_budget=budget), arrays)
            assert found is not None
            for a, b in zip((*wanted[0], *wanted[1]), (*found[0], *found[1]), strict=True):
                assert bits_equal(a, b), f"seed {seed}, budget {budget}\n{recipe}"
    assert compared > len(seeds) // 2


# ------------------------------------------------------------------------------------------------ some results, some inputs


def test_gradients_of_one_result_or_for_one_input() -> None:
    """What was saved for all of them serves each."""
    x, y = CASES["reused"][1]()
    for budget in (None, 0, 200):
        g = assay.compile(reused, backend="reference", memory_budget=budget)
        for pick in (lambda r: (r[0],), lambda r: (r[1],), lambda r: r):
            for wrt in ((x,), (y,), (x, y)):
                found = []
                for f in (reused, g):
                    outputs = pick(f(x, y))
                    made = grad(outputs, wrt, [assay.ones(*o.shape) for o in outputs], allow_unused=True)
                    found.append([None if a is None else bits(a) for a in made])
                if None not in found[0]:
                    assert found[0] == found[1]


def test_what_was_not_kept_is_not_read() -> None:
    class Named:
        name = "f"

    check_reads(Named(), [1, ~0], [~0, 1, 2])  # type: ignore[arg-type]
    with pytest.raises(InternalError, match=r"reads \[3\], of which only \[1, 2\] were kept"):
        check_reads(Named(), [1, 3], [2, 1])  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------------ when, and how long


def test_36_the_backward_is_compiled_when_it_first_runs() -> None:
    g = assay.compile(block, backend="reference")
    built: list[str] = []
    build = g.derivatives.build
    g.derivatives.build = lambda p: (built.append(p.name), build(p))[1]
    args = CASES["block"][1]()
    with assay.no_grad():
        g(*args)
    assert built == []
    outputs = [g(*args) for _ in range(10)]
    assert built == ["block_forward"]
    for y in outputs:
        y.sum().backward()
    assert built == ["block_forward", "block_backward"]


def test_36_ahead_of_time_both_halves_are_compiled_at_the_first_recorded_call() -> None:
    g = assay.compile(block, backend="reference", ahead=True)
    built: list[str] = []
    build = g.derivatives.build
    g.derivatives.build = lambda p: (built.append(p.name), build(p))[1]
    y = g(*CASES["block"][1]())
    assert built == ["block_forward", "block_backward"]
    y.sum().backward()
    assert built == ["block_forward", "block_backward"]


def saved_values(y: Any) -> list[Any]:
    return [s.value for s in y.grad_fn.saved.values()]


def test_35_what_is_kept_is_the_partitions_and_is_let_go() -> None:
    x, *weights = CASES["block"][1]()
    g = assay.compile(block, backend="reference", memory_budget=2000)
    y = g(x, *weights)
    made = partition_of(g)
    inputs = {id(a.value.array) for a in (x, *weights)}
    kept = [v for v in saved_values(y) if id(v.array) not in inputs]
    assert sum(v.array.nbytes for v in kept) == made.saved_bytes > 0
    alive = [weakref.ref(v.array) for v in kept]
    del kept
    y.sum().backward()
    gc.collect()
    assert all(r() is None for r in alive)
    with pytest.raises(BackwardError, match="what it had saved was let go"):
        y.sum().backward()


def test_37_a_saved_value_that_is_changed_is_an_error() -> None:
    x = leaf(3)
    y = assay.compile(lambda x: x.exp(), backend="reference")(x)  # the slope of exp is its result
    y.add_(1.0)
    with pytest.raises(BackwardError, match=r"changed in place by add_\.Scalar"):
        y.sum().backward()


# ------------------------------------------------------------------------------------------------ higher orders


def smooth(x: Any, w: Any) -> Any:
    return (F.gelu(x @ w).tanh() * (x * x).sum()).sum()


@pytest.mark.parametrize("budget", [None, 0])
def test_42_second_and_third_order_agree_with_eager(budget: int | None) -> None:
    x, w = leaf(3, 4, dtype=np.float64), leaf(4, 4, seed=1, dtype=np.float64)
    g = assay.compile(smooth, backend="reference", memory_budget=budget)
    orders = []
    for f in (smooth, g):
        found = [grad(f(x, w), (x, w), create_graph=True)]
        for _ in range(2):
            found.append(grad(sum((a * a).sum() for a in found[-1]), (x, w), create_graph=True))
        orders.append(found)
    for a, b in zip(orders[0][0], orders[1][0], strict=True):
        assert bits(a) == bits(b)
        assert b.requires_grad
    for eager, compiled in zip(orders[0][1:], orders[1][1:], strict=True):
        for a, b in zip(eager, compiled, strict=True):
            assert np.allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-10, atol=1e-10)
    assert len(g.derivatives.partitions) >= 3  # each order has a forward and a backward of its own


@pytest.mark.parametrize("name", CASES)
def test_42_higher_orders_differ_in_the_last_places_only(name: str) -> None:
    """Measured: at most 4.1 units of 2^-52 of the largest element; docs/autodiff.md says why they may differ."""
    f, make = CASES[name]
    orders: list[list[np.ndarray]] = []
    for h in (f, assay.compile(f, backend="reference")):
        args = [a.double().detach().requires_grad_() if a.requires_grad else a for a in make()]
        wrt = [a for a in args if a.requires_grad]
        made = h(*args)
        found: Any = grad([y.sin().sum() for y in (made if isinstance(made, tuple) else (made,))], wrt, create_graph=True)
        for _ in range(2):
            found = grad(sum((a * a).sum() for a in found if a.requires_grad), wrt, create_graph=True, materialize_grads=True)
        orders.append([a.detach().numpy() for a in found])
    for a, b in zip(*orders, strict=True):
        assert np.abs(a - b).max() <= 16 * 2.0**-52 * np.abs(a).max()


def second_order(f: Callable[..., Any], arrays: list[np.ndarray]) -> list[np.ndarray | None]:
    """Gradients of the sum of the gradients of the results."""
    args = [assay.tensor(a) for a in arrays]
    wrt = [t.requires_grad_() for t in args if t.dtype.is_float]
    ends = [y for y in f(*args) if y.requires_grad]
    found = grad(ends, wrt, [assay.ones(*y.shape, dtype=y.dtype) for y in ends], allow_unused=True, create_graph=True)
    slopes = [g for g in found if g is not None and g.requires_grad]
    made = grad(slopes, wrt, [assay.ones(*g.shape, dtype=g.dtype) for g in slopes], allow_unused=True)
    return [None if g is None else g.numpy() for g in made]


@pytest.mark.parametrize("seed", [6, 17, 27, 61])
def test_42_the_backward_of_a_saved_value_finds_what_it_reads(seed: int) -> None:
    """Programs whose first-order backward reads saved values only: the second order goes on to the inputs behind them."""
    recipe, rng = random_recipe(seed, most=6, joined=bool(seed & 1)), np.random.default_rng(seed)
    arrays = [drawn(like, rng) for like in recipe.inputs]

    def f(*args: Any) -> list[Any]:
        return [y.clone() for y in recipe(*args)]

    for a, b in zip(second_order(f, arrays), second_order(assay.compile(f, backend="reference"), arrays), strict=True):
        x, y = (np.zeros(1) if g is None else g.astype(np.float64) for g in (a, b))  # none where it is 0 for all inputs
        assert np.allclose(x, y, rtol=1e-3, atol=1e-3, equal_nan=True)


def test_42_first_order_has_the_same_bits_with_and_without_a_graph() -> None:
    x, w = leaf(3, 4), leaf(4, 4, seed=1)
    g = assay.compile(smooth, backend="reference")
    plain = grad(g(x, w), (x, w))
    graph = grad(g(x, w), (x, w), create_graph=True)
    assert list(map(bits, plain)) == list(map(bits, graph))
    assert [a.requires_grad for a in (*plain, *graph)] == [False, False, True, True]


@pytest.mark.parametrize("most", [1, 2])
def test_43_beyond_max_order_the_values_are_there_and_their_gradient_is_an_error(most: int) -> None:
    x, w = leaf(3, 4, dtype=np.float64), leaf(4, 4, seed=1, dtype=np.float64)
    g = assay.compile(smooth, backend="reference", max_order=most)
    wanted = grad(smooth(x, w), (x, w))
    found = grad(g(x, w), (x, w), create_graph=True)
    assert list(map(bits, wanted)) == list(map(bits, found))
    for _ in range(most - 1):
        found = grad(sum((a * a).sum() for a in found), (x, w), create_graph=True)
    assert all(a.requires_grad for a in found)
    with pytest.raises(RuntimeError, match=rf"max_order={most} was asked for: it has no gradient\. .* without compilation"):
        grad(sum((a * a).sum() for a in found), (x, w))


def test_43_max_order_is_a_positive_number() -> None:
    with pytest.raises(UserError, match="max_order=0"):
        assay.compile(smooth, max_order=0)


def test_a_recorded_call_shows_its_results_only() -> None:
    x, w = leaf(3, 4), leaf(4, 4, seed=1)
    g = assay.compile(smooth, backend="reference")
    y = g(x, w)
    assert isinstance(y, assay.Tensor)
    assert isinstance(y.grad_fn.op, Recording)
    assert y.grad_fn.op.shown == 1 < len(y.grad_fn.op.fixed.outputs)
