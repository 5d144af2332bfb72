"""Random numbers: the state of the generator is an input and its advance an epilogue; compiled draws what eager draws."""

import subprocess
import sys
from collections.abc import Iterator
from threading import Thread
from typing import Any

import numpy as np
import pytest

import assay
import assay.nn.functional as F


@pytest.fixture(autouse=True)
def seeded() -> None:
    assay.manual_seed(7)


def drawn(f: Any) -> bytes:
    assay.manual_seed(7)
    return f().numpy().tobytes()


DRAWS = [
    lambda: assay.rand(3, 4),
    lambda: assay.rand((3, 4), dtype=assay.float64),
    lambda: assay.randn(5),
    lambda: assay.randint(10, (20,)),
    lambda: assay.randint(-3, 3, (20,), dtype="int32"),
    lambda: assay.randperm(30),
    lambda: assay.normal(2.0, 3.0, (4,)),
    lambda: assay.normal(assay.zeros(4), 1.0),
    lambda: assay.bernoulli(assay.full((50,), 0.5)),
    lambda: assay.full((50,), 0.3).bernoulli(),
    lambda: assay.dropout(assay.ones(50), 0.5, True),
    lambda: F.dropout(assay.ones(50)),
    lambda: assay.rand_like(assay.zeros(2, 2, dtype=assay.float64)),
    lambda: assay.randn_like(assay.zeros(2, 2)),
    lambda: assay.randint_like(assay.zeros(9), 100),
    lambda: assay.zeros(6).uniform_(-1.0, 1.0),
    lambda: assay.zeros(6).normal_(),
    lambda: assay.zeros(50).bernoulli_(0.2),
]


@pytest.mark.parametrize("draw", DRAWS)
def test_a_seed_fixes_the_numbers_and_a_second_call_draws_others(draw: Any) -> None:
    assert drawn(draw) == drawn(draw)
    assert drawn(draw) != draw().numpy().tobytes()


@pytest.mark.parametrize(
    ("draw", "backend"),
    [
        *((draw, "reference") for draw in DRAWS),
        *(pytest.param(DRAWS[k], "cpp", marks=pytest.mark.cpp) for k in (0, 2, 3, 5, 8, 10)),
    ],
)
def test_compiled_draws_what_eager_draws(draw: Any, backend: str) -> None:
    want = [draw().numpy() for _ in range(3)]
    state = assay.default_generator.get_state().tolist()
    assay.manual_seed(7)
    g = assay.compile(draw, backend=backend)
    for w in want:
        assert g().numpy().tobytes() == w.tobytes()
    assert assay.default_generator.get_state().tolist() == state
    assert g.cache_info().entries == 1


def test_the_state_is_an_input_and_its_advance_the_epilogue() -> None:
    before = assay.default_generator.get_state().tolist()
    graph = assay.trace(lambda x: F.dropout(x) + assay.rand(3), assay.ones(3))
    assert [n.shape for n in graph.inputs] == [(3,), (2,)]
    assert [(place.name, value.target.name) for place, value in graph.epilogue] == [("bound_1", "advance.state")]
    assert [n.target.name for n in graph.nodes] == ["dropout.state", "advance.state", "rand.state", "advance.state", "add.Tensor"]
    assert assay.default_generator.get_state().tolist() == before == [7, 0]


def test_values() -> None:
    u = assay.rand(4000).numpy()
    assert 0 <= u.min()
    assert u.max() < 1
    assert abs(u.mean() - 0.5) < 0.02
    z = assay.randn(4000).numpy()
    assert abs(z.mean()) < 0.06
    assert abs(z.std() - 1) < 0.05
    n = assay.randint(-2, 3, (500,)).numpy()
    assert set(n.tolist()) == {-2, -1, 0, 1, 2}
    assert sorted(assay.randperm(50).tolist()) == list(range(50))
    y = F.dropout(assay.ones(1000), 0.25).numpy()
    assert set(y.tolist()) == {0.0, np.float32(1 / 0.75)}
    assert F.dropout(x := assay.ones(3), 0.5, training=False) is x


def test_generators() -> None:
    g = assay.Generator(3)
    a = assay.rand(5, generator=g).tolist()
    assert assay.default_generator.get_state().tolist() == [7, 0]
    assert g.get_state().tolist() == [3, 1]
    state = g.get_state()
    b = assay.rand(5, generator=g).tolist()
    g.set_state(state)
    assert assay.rand(5, generator=g).tolist() == b != a
    assert g.manual_seed(3).initial_seed() == 3
    assert assay.rand(5, generator=g).tolist() == a
    assert assay.Generator(2**64 - 1).initial_seed() == -1


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: assay.manual_seed(2**64), "64 bits"),
        (lambda: assay.randint(3, 3, (2,)), "low < high"),
        (lambda: assay.normal(0.0, 1.0), "needs a size"),
        (lambda: assay.normal(0.0, -1.0, (2,)), "std"),
        (lambda: F.dropout(assay.ones(2), 1.5), "probability"),
        (lambda: assay.rand(2, dtype=assay.int64), "float type"),
    ],
)
def test_refusals(call: Any, words: str) -> None:
    with pytest.raises(assay.UserError, match=words):
        call()


def test_a_capture_that_loads_the_generator_does_not_record_its_making() -> None:
    """The first use of assay.nn inside a function under capture: the default generator is no input, and keeps its state."""
    code = "import assay; print(assay.trace(lambda x: assay.nn.functional.relu(x), assay.tensor([1.0])))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.count("placeholder") == 1
    assert "select_scatter" not in shown


@pytest.fixture
def eager_switches() -> Iterator[None]:
    """Threads that change places as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("eager_switches")
@pytest.mark.parametrize("backend", ["eager", "reference", pytest.param("cpp", marks=pytest.mark.cpp), "mixed"])
def test_threads_that_share_a_generator_draw_different_numbers(backend: str) -> None:
    def draw() -> Any:
        return assay.rand(2, dtype=assay.float64)

    compiled = assay.compile(draw, backend="reference" if backend == "mixed" else backend) if backend != "eager" else draw
    compiled()
    assay.manual_seed(3)
    found: list[list[bytes]] = [[], [], []]

    def run(k: int) -> None:
        f = draw if backend == "mixed" and k == 0 else compiled
        found[k].extend(f().numpy().tobytes() for _ in range(40))

    threads = [Thread(target=run, args=(k,)) for k in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assay.manual_seed(3)
    assert sorted(x for part in found for x in part) == sorted(draw().numpy().tobytes() for _ in range(120))
