"""assay.compile: entries, recompilation, changed and aliased inputs, threads, and what it refuses."""

import copy
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import assay
import assay.nn.functional as F

BACKENDS = ["reference", pytest.param("cpp", marks=pytest.mark.cpp)]


def floats(*shape: int) -> assay.Tensor:
    return assay.tensor(np.linspace(-2, 2, int(np.prod(shape)), dtype=np.float32).reshape(shape))


def example(x: Any, y: Any) -> Any:
    return (F.relu(x + y) * 2).sum(-1)


def same(got: Any, want: Any) -> bool:
    return got.dtype is want.dtype and got.shape == want.shape and got.numpy().tobytes() == want.numpy().tobytes()


@pytest.mark.parametrize("backend", BACKENDS)
def test_compiled_is_eager(backend: str) -> None:
    g = assay.compile(example, backend=backend)
    x, y = floats(6, 8), floats(8)
    for _ in range(3):
        assert same(g(x, y), example(x, y))
    assert same(g(y=y, x=x), example(x, y))
    assert same(g(x.t()[:6], y[:6]), example(x.t()[:6], y[:6]))
    assert g.cache_info() == (3, 2, 64, 2)


@pytest.mark.parametrize("backend", BACKENDS)
def test_arrays_in_arrays_out(backend: str) -> None:
    g = assay.compile(example, backend=backend)
    x, y = floats(6, 8).numpy(), floats(8).numpy()
    for _ in range(2):
        out = g(x, y)
        assert isinstance(out, np.ndarray)
        assert out.tobytes() == example(assay.tensor(x), assay.tensor(y)).numpy().tobytes()
    assert isinstance(g(x, assay.tensor(y)), assay.Tensor)
    assert isinstance(g(np.asfortranarray(x), y), np.ndarray)


def test_one_entry_per_signature() -> None:
    calls: list[str] = []

    @assay.compile(backend="reference")
    def f(x: Any, scale: Any = 1.0, *, mode: str = "sum") -> Any:
        calls.append(mode)
        return getattr(x * scale, mode)()

    for _ in range(2):
        f(floats(2))
        f(floats(3))
        f(floats(1))
        f(floats())
        f(floats(2), 1)
        f(floats(2), 1.0)
        f(floats(2), True)
        f(floats(2), 0.0)
        f(floats(2), -0.0)
        f(floats(2), mode="mean")
        f(floats(2).double())
        f(floats(2, 2).t())
    assert len(calls) == 12
    assert f.cache_info() == (12, 12, 64, 12)
    assert f.__name__ == "f"


def test_recompilation_is_explained() -> None:
    f = assay.compile(lambda x, params, scale: x * scale + params["b"][0], backend="reference")
    assert f.explain_recompiles() == "<lambda>: compiled never, no recompilation"
    b = floats(2)
    f(floats(2), {"b": [b]}, 1.0)
    assert "compiled once" in f.explain_recompiles()
    f(floats(3, 2), {"b": [b]}, 1.0)
    f(floats(3, 2), {"b": [b.double()]}, 2.0)
    assert f.explain_recompiles().splitlines() == [
        "<lambda>: compiled 3 times",
        "  1. x: f32[2], params['b'][0]: f32[2], scale: 1.0",
        "  2. because x: f32[2] -> f32[3,2]",
        "  3. because params['b'][0]: f32[2] -> f64[2]; scale: 1.0 -> 2.0",
    ]


def test_it_refuses_to_recompile_for_ever() -> None:
    f = assay.compile(lambda x, n: x * n, backend="reference")
    for n in range(64):
        f(floats(2), n)
    with pytest.raises(assay.UserError, match=r"64 signatures.*\n.*0-d tensors") as info:
        f(floats(2), 64)
    assert "n: 63 -> 64" in str(info.value)
    assert f(floats(2), 3).tolist() == (floats(2) * 3).tolist()
    f.limit = 65
    f(floats(2), 64)


@pytest.mark.parametrize("bad", [{1, 2}, [object(), {3}], np.zeros(2, "U1")])
def test_an_argument_that_is_no_signature(bad: Any) -> None:
    with pytest.raises(assay.UserError):
        assay.compile(lambda x, y: x, backend="reference")(floats(2), bad)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"numerics": "fast"}, assay.Unsupported, "not there yet"),
        ({"numerics": "close"}, assay.UserError, "'exact', 'fast'"),
        ({"backend": "triton"}, assay.UserError, "'cpp', 'reference'"),
        ({"dynamic": 3}, assay.UserError, "allowed: True, False"),
        ({"strict": False}, assay.Unsupported, "strict"),
    ],
)
def test_options(options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        assay.compile(example, **options)
    with pytest.raises(assay.UserError, match="needs a function"):
        assay.compile(3)


# ------------------------------------------------------------------------------------------------ changed and shared inputs


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("arrays", [False, True])
def test_changed_inputs_come_back(backend: str, arrays: bool) -> None:  # noqa: FBT001
    def f(x: Any, y: Any) -> Any:
        x.t()[1:].add_(y)
        return x[0], (x * y.sum()), x

    def run(g: Callable[..., Any]) -> tuple[Any, ...]:
        x, y = floats(3, 4).numpy(), floats(3).numpy()
        first, product, whole = g(x, y) if arrays and g is not f else g(assay.from_numpy(x), assay.from_numpy(y))
        first, product, whole = (r.numpy() if isinstance(r, assay.Tensor) else r for r in (first, product, whole))
        return x.tolist(), first.tolist(), product.tolist(), np.shares_memory(first, x), np.shares_memory(whole, x)

    g = assay.compile(f, backend=backend)
    assert run(g) == run(g) == run(f)
    assert run(f)[3:] == (True, True)


@pytest.mark.parametrize("backend", BACKENDS)
def test_shared_inputs(backend: str) -> None:
    def f(x: Any, y: Any) -> Any:
        x.add_(1.0)
        return y * 2

    g = assay.compile(f, backend=backend)
    for views in [
        lambda b: (b, floats(3, 3)),
        lambda b: (b, b),
        lambda b: (b, b.t()),
        lambda b: (b[:2], b[1:]),
        lambda b: (b[1:], b[:2]),
    ]:
        for _ in range(2):
            base, again = floats(3, 3), floats(3, 3)
            got, want = g(*views(base)), f(*views(again))
            assert same(got, want)
            assert same(base, again)


def test_arrays_that_share_memory_behind_our_back_are_refused_where_it_matters() -> None:
    a = np.zeros(4, np.float32)
    writes = assay.compile(lambda x, y: x.add_(1.0) + y.sum(), backend="reference")
    with pytest.raises(assay.UserError, match="shares memory"):
        writes(a[:3], a[1:])
    assert a.tolist() == [0, 0, 0, 0]
    assert assay.compile(lambda x, y: x + y, backend="reference")(a[:3], a[1:]).tolist() == [0, 0, 0]


def test_read_only_inputs_are_not_changed() -> None:
    a = np.zeros(4, np.float32)
    a.flags.writeable = False
    with pytest.raises(assay.UserError, match="read-only"):
        assay.compile(lambda x: x.add_(1.0), backend="reference")(a)


WEIGHT = floats(3)


@pytest.mark.parametrize("backend", BACKENDS)
def test_tensors_from_outside_are_read_at_every_call_and_written_back(backend: str) -> None:
    def f(x: Any) -> Any:
        WEIGHT.add_(x)
        return WEIGHT * 2

    g = assay.compile(f, backend=backend)
    WEIGHT.zero_()
    one = assay.ones(3)
    assert [g(one).tolist() for _ in range(3)] == [[2, 2, 2], [4, 4, 4], [6, 6, 6]]
    WEIGHT.fill_(10.0)
    assert g(one).tolist() == [22, 22, 22]
    assert g(WEIGHT).tolist() == [44, 44, 44]
    assert WEIGHT.tolist() == [22, 22, 22]


def test_outputs_of_every_shape() -> None:
    def f(x: Any) -> Any:
        y = x + 1
        return {"view": x[1:], "new": y, "row": y[0], "same": x, "none": None, "number": 3, "list": [x.sum(), "text"]}

    x = floats(3, 2)
    for g in (f, assay.compile(f, backend="reference")):
        out = g(x)
        assert out["same"] is x
        assert np.shares_memory(out["view"].numpy(), x.numpy())
        assert np.shares_memory(out["row"].numpy(), out["new"].numpy())
        assert (out["none"], out["number"], out["list"][1]) == (None, 3, "text")
        assert same(out["list"][0], x.sum())


def test_compiled_inside_compiled_is_one_graph() -> None:
    inner = assay.compile(lambda x: x * 2, backend="reference")
    outer = assay.compile(lambda x: inner(x) + 1, backend="reference")
    assert outer(floats(3)).tolist() == (floats(3) * 2 + 1).tolist()
    assert inner.cache_info().entries == 0


def test_as_a_method() -> None:
    class Model:
        def __init__(self) -> None:
            self.w = floats(3)

        @assay.compile(backend="reference")
        def forward(self, x: Any) -> Any:
            return x * self.w

    model = Model()
    assert model.forward(floats(3)).tolist() == (floats(3) * floats(3)).tolist()
    model.w.zero_()
    assert model.forward(floats(3)).tolist() == [0, 0, 0]


@pytest.mark.cpp
def test_outputs_never_share_a_buffer_that_is_in_use() -> None:
    g = assay.compile(lambda x: x * 2)
    kept = [g(assay.full((1000,), float(k))) for k in range(50)]
    views = [g(assay.full((1000,), float(k))).numpy()[1:] for k in range(50)]
    g(assay.full((1000,), -1.0))
    assert [k.numpy()[999] for k in kept] == [2.0 * k for k in range(50)]
    assert [v[0] for v in views] == [2.0 * k for k in range(50)]


@pytest.mark.cpp
def test_an_output_may_be_the_next_input_and_calls_may_nest_in_threads() -> None:
    g = assay.compile(lambda x, y: x + y)
    one = assay.ones(5000)
    g(one, one)
    wrong: list[int] = []

    def work() -> None:
        x = assay.zeros(5000)
        for _ in range(100):
            x = g(x, one)
        if x.tolist() != [100.0] * 5000:
            wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


@pytest.mark.cpp
def test_an_input_that_changes_during_a_call_never_reads_outside() -> None:
    """The index is checked on the elements that are used: whatever another thread stores there, the call returns or raises."""
    table, at = floats(64), assay.zeros(20000, dtype=assay.int64)
    g = assay.compile(lambda t, i: t[i] * 2)
    g(table, at)
    stop = threading.Event()

    def disturb() -> None:
        while not stop.is_set():
            at.numpy()[::7] = 1 << 40
            at.numpy()[::7] = 3

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        for _ in range(200):
            try:
                values = set(g(table, at).tolist())
            except IndexError:
                continue
            assert values <= {table[0].item() * 2, table[3].item() * 2}
    finally:
        stop.set()
        thread.join()


def test_errors_of_the_program_come_from_the_call() -> None:
    for backend in ("reference", "cpp"):
        g = assay.compile(lambda x, i: x[i], backend=backend)
        assert g(floats(3), assay.tensor([-1])).tolist() == [2.0]
        with pytest.raises(IndexError, match="7"):
            g(floats(3), assay.tensor([7]))
        assert g(floats(3), assay.tensor([0])).tolist() == [-2.0]


def test_an_erroring_call_changes_nothing() -> None:
    def f(x: Any, i: Any) -> Any:
        x.add_(1.0)
        return x[i]

    x = floats(3)
    with pytest.raises(IndexError):
        assay.compile(f, backend="reference")(x, assay.tensor([9]))
    assert x.tolist() == floats(3).tolist()


def test_the_same_array_given_twice_is_one_storage() -> None:
    def f(x: Any, y: Any) -> Any:
        x.add_(1.0)
        return y * 2

    a = np.zeros(3, np.float32)
    assert assay.compile(f, backend="reference")(a, a).tolist() == [2, 2, 2]
    assert a.tolist() == [1, 1, 1]


def test_a_tensor_from_outside_that_shares_memory_is_refused_where_it_matters() -> None:
    a = np.zeros(4, np.float32)
    outside = assay.from_numpy(a)
    with pytest.raises(assay.UserError, match="shares memory"):
        assay.compile(lambda x: x.add_(1.0) + outside[:3], backend="reference")(assay.from_numpy(a[1:]))
    assert a.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_constant_that_is_returned_is_a_new_tensor_at_each_call(backend: str) -> None:
    g = assay.compile(lambda x: (assay.tensor([1.0, 2.0]), x + 1), backend=backend)
    g(floats(2))[0].add_(5.0)
    assert g(floats(2))[0].tolist() == [1, 2]


@pytest.mark.parametrize("backend", BACKENDS)
def test_memory_that_is_not_aligned(backend: str) -> None:
    a = np.frombuffer(bytearray(41), np.uint8)[1:].view(np.float32)
    a[:] = 2
    assert assay.compile(lambda x: x * 2, backend=backend)(a).tolist() == [4] * 10
    assay.compile(lambda x: x.add_(1.0), backend=backend)(a)
    assert a.tolist() == [3] * 10


@pytest.mark.parametrize("backend", BACKENDS)
def test_nothing_to_compute(backend: str) -> None:
    assert assay.compile(lambda: 3, backend=backend)() == 3
    assert assay.compile(lambda x: None, backend=backend)(floats(2)) is None
    assert assay.compile(lambda x: x.t() * 2, backend=backend)(assay.zeros(0, 3)).shape == (3, 0)
    assert assay.compile(lambda x: x.sum(), backend=backend)(assay.zeros(0, 3)).item() == 0


@pytest.mark.cpp
def test_tuning_times_schedules_and_keeps_the_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    from assay.backends.schedule import tune

    asked: list[str] = []
    true = tune.tune
    monkeypatch.setattr(tune, "tune", lambda p, target: asked.append(p.name) or true(p, target, seconds=0.0))
    x = assay.from_numpy(np.random.default_rng(0).standard_normal((64, 96)).astype(np.float32))
    f = lambda x: x.softmax(-1).sum(0)  # noqa: E731
    tuned = assay.compile(f, tune=True)
    assert tuned(x).numpy().tobytes() == f(x).numpy().tobytes()
    assert len(asked) == 1
    assay.compile(f)(x)
    assert len(asked) == 1
    assert assay.compile(tune=True)(f).tune


def test_tuning_needs_a_backend_with_schedules() -> None:
    with pytest.raises(assay.UserError, match="times the schedules of backend='cpp'"):
        assay.compile(lambda x: x, backend="reference", tune=True)


@assay.compile(backend="reference")
def twice(x):
    return x * 2


def test_a_compiled_function_is_copied_and_pickled_as_a_function_is() -> None:
    class Model:
        step = assay.compile(lambda x: x + 1, backend="reference")

    model = {"step": Model.step, "weights": assay.ones(2)}
    made = copy.deepcopy(model)
    assert made["step"] is copy.copy(Model.step) is Model.step
    assert made["weights"] is not model["weights"]
    assert pickle.loads(pickle.dumps(twice)) is twice
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(Model.step)
