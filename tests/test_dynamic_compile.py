"""assay.compile(dynamic=...): one build serves every size that satisfies the guards, with the bits of the static compile."""

from typing import Any

import numpy as np
import pytest

import assay
import assay.nn.functional as F
from assay.autograd import grad
from assay.backends import build
from assay.core.errors import UserError
from assay.semantics.compare import bits_equal
from tests.frontends.dynamic_cases import CASES, DynamicCase, tensors
from tests.frontends.test_dynamic import captured, other_shapes

SIZES = 20


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The translation units that g++ was asked for, or that were found on disk."""
    made: list[str] = []
    real = build.build

    def counted(text: str, *args: Any, **kwargs: Any) -> Any:
        made.append(text)
        return real(text, *args, **kwargs)

    from assay.backends import cpp
    from assay.backends.cpp import sized

    monkeypatch.setattr(cpp, "build", counted)
    monkeypatch.setattr(sized, "build", counted)
    return made


def leaves(x: Any) -> list[np.ndarray]:
    return [np.asarray(t.numpy()) for t in (x if isinstance(x, tuple | list) else (x,))]


@pytest.mark.parametrize("c", CASES, ids=lambda c: c.name)
def test_one_build_serves_20_sizes(c: DynamicCase, builds: list[str]) -> None:
    g = assay.compile(c.f, dynamic=True)
    g(*tensors(c, [s for s, _ in c.arguments]))
    assert len(builds) == 1
    for k, shapes in enumerate(other_shapes(captured(c), 3, SIZES)):
        args = tensors(c, shapes, k)
        got, want = leaves(g(*args)), leaves(c.f(*args))
        assert all(map(bits_equal, got, want)), shapes
    assert len(builds) == 1, "a size made a build"
    info = g.cache_info()
    assert (info.misses, info.entries, info.hits) == (1, 1, SIZES)


def gradients(f: Any, args: list[Any]) -> list[np.ndarray | None]:
    """Of all results that have a history, with respect to all floats."""
    wrt = [t.detach().requires_grad_() for t in args if t.dtype.is_float]
    given = iter(wrt)
    made = f(*(next(given) if t.dtype.is_float else t for t in args))
    ends = [y for y in (made if isinstance(made, tuple | list) else (made,)) if y.requires_grad]
    seeds = [assay.arange(y.numel()).reshape(y.shape).to(y.dtype) + 0.5 for y in ends]
    found = grad(ends, wrt, seeds, allow_unused=True) if ends else [None] * len(wrt)
    return [None if g is None else g.numpy() for g in found]


@pytest.mark.parametrize("c", CASES, ids=lambda c: c.name)
def test_gradients_have_eagers_bits_at_every_size(c: DynamicCase) -> None:
    g = assay.compile(c.f, backend="reference", dynamic=True)
    for k, shapes in enumerate(([s for s, _ in c.arguments], *other_shapes(captured(c), 3, 2))):
        args = tensors(c, shapes, k)
        got, want = gradients(g, args), gradients(c.f, args)
        for a, b in zip(got, want, strict=True):
            assert (a is None) == (b is None)
            assert a is None or b is None or bits_equal(a, b), shapes


def test_ties_share_a_gradient_at_every_size() -> None:
    x, y = assay.tensor([[1.0, 2.0], [3.0, 4.0]]), assay.tensor([[1.0, 5.0], [0.0, 4.0]])
    g = assay.compile(lambda x, y: assay.maximum(x, y).sum(), backend="reference", dynamic=True)
    assert [a.tolist() for a in gradients(g, [x, y])] == [[[0.25, 0.0], [0.5, 0.25]], [[0.25, 0.5], [0.0, 0.25]]]


@pytest.mark.parametrize("n", [2, 7, 8, 9, 15, 16, 17, 64, 100, 1000])
@pytest.mark.parametrize("m", [2, 8, 33, 130])
def test_tiles_and_tails(n: int, m: int) -> None:
    x = np.random.default_rng(n).standard_normal((n, m)).astype(np.float32)
    x[0, 0], x[-1, -1], x[n // 2, m // 2] = np.nan, -0.0, np.inf
    assert bits_equal(SOFT(assay.tensor(x)).numpy(), soft(assay.tensor(x)).numpy())


def soft(x: Any) -> Any:
    return (x.relu() + 1).softmax(-1) * x.sum(0)


SOFT = assay.compile(soft, dynamic={"x": {0: assay.Dim("n", 1, 1 << 20), 1: "m"}})


def test_threads_share_the_axis() -> None:
    x = np.random.default_rng(0).standard_normal((700, 300)).astype(np.float32)
    g = assay.compile(lambda x: x.exp() + 1, dynamic=True)
    for n in (700, 1, 699, 350, 2):
        assert bits_equal(g(assay.tensor(x[:n])).numpy(), (assay.tensor(x[:n]).exp() + 1).numpy())


# ------------------------------------------------------------------------------------------------ entries


def test_a_guard_that_fails_makes_another_entry(builds: list[str]) -> None:
    def f(x: Any) -> Any:
        return x.view(x.shape[0] // 2, -1).sum(1) if x.shape[0] % 2 == 0 else x.sum(1)

    g = assay.compile(f, dynamic=True)
    for n in (6, 8, 7, 9, 10, 11):
        x = assay.ones(n, 5)
        assert g(x).shape == f(x).shape
    assert len(builds) == 2
    assert g.cache_info()[:2] == (4, 2)
    text = g.explain_recompiles()
    assert "x: f32[2*n0_2,n1]" in text
    assert "because x.shape[0] = 7 is not 2*n0_2 for any sizes" in text


def test_extents_that_were_equal(builds: list[str]) -> None:
    g = assay.compile(lambda x, y: x @ y, dynamic=True)
    g(assay.ones(4, 4), assay.ones(4, 4))
    g(assay.ones(5, 5), assay.ones(5, 5))
    assert len(builds) == 1
    g(assay.ones(5, 3), assay.ones(3, 6))
    g(assay.ones(2, 7), assay.ones(7, 4))
    assert len(builds) == 2
    assert "x.shape[1] is n0 = 5 there, here 3" in g.explain_recompiles()


def test_a_range_that_is_left(builds: list[str]) -> None:
    g = assay.compile(lambda x: x + 1, dynamic={"x": [assay.Dim("n", 2, 8)]})
    for n in (3, 8, 2):
        assert g(assay.ones(n)).shape == (n,)
    assert len(builds) == 1
    with pytest.raises(UserError, match=r"is not in 2\.\.8"):
        g(assay.ones(9))


def test_results_that_are_views_and_sizes() -> None:
    def f(x: Any) -> Any:
        return x[1:], x.shape[0] * 2, x.shape, x + 1

    g = assay.compile(f, dynamic=True)
    for n, m in ((4, 3), (6, 5), (2, 9)):
        x = assay.tensor(np.arange(n * m, dtype=np.float32).reshape(n, m))
        view, twice, shape, more = g(x)
        assert (view.shape, twice, shape, more.shape) == ((n - 1, m), 2 * n, (n, m), (n, m))
        assert type(twice) is int
        view.add_(1)
        assert x.numpy()[1, 0] == m + 1


def test_changed_arguments(builds: list[str]) -> None:
    def f(x: Any) -> Any:
        x.add_(1)
        return x.sum()

    g = assay.compile(f, dynamic=True)
    for n in (4, 9, 3):
        x = assay.zeros(n)
        assert g(x).numpy() == n
        assert x.numpy().tolist() == [1] * n
    assert len(builds) == 1


def test_what_shares_storage_is_compiled_for_its_sizes() -> None:
    g = assay.compile(lambda x, y: x + y, dynamic=True)
    x = assay.ones(4, 6)
    assert g(x, x.t().t()).shape == (4, 6)
    assert g(x.t(), assay.ones(6, 4)).shape == (6, 4)


def test_errors_name_the_size_of_the_call() -> None:
    g = assay.compile(lambda w, i: w[i], dynamic=True)
    g(assay.ones(6, 3), assay.tensor(np.array([0, 5])))
    with pytest.raises(IndexError, match="0 <= 9 < 9"):
        g(assay.ones(9, 3), assay.tensor(np.array([0, 3, 9])))
    with pytest.raises(IndexError, match=r"index 5 is out of bounds for axis 0 of size 4; allowed: -4\.\.3"):
        assay.compile(lambda w: w[5], dynamic=True)(assay.ones(4))


def test_the_first_check_that_fails_is_that_of_eager_evaluation() -> None:
    def f(x: Any, idx: Any) -> Any:
        assay.assume(idx.clone(), 0, 3)  # its result is dropped, so no output reads this check, but it comes first
        return x[idx]

    g = assay.compile(f, dynamic=True)
    for call in (f, assay.compile(f), g):
        with pytest.raises(IndexError, match=r"assumed 0 <= value <= 3, here 4 at \[1\]"):
            call(assay.randn(4), assay.tensor([0, 4]))


def test_a_size_that_becomes_a_tensor_is_fixed() -> None:
    g = assay.compile(lambda x: x + assay.tensor([x.shape[0] * 3, 1]).sum(), dynamic=True)
    for n in (5, 7, 5):
        assert g(assay.zeros(n)).tolist() == [3.0 * n + 1] * n


@pytest.mark.parametrize("power", [lambda n: n**0.5, lambda n: n**-1, lambda n: 1.5**n, lambda n: n**2])
def test_powers_of_sizes(power: Any) -> None:
    g = assay.compile(lambda x: x / power(x.shape[0]), dynamic=True)
    for n in (3, 7, 3):
        assert bits_equal(g(assay.ones(n)).numpy(), (assay.ones(n) / power(n)).numpy())


@pytest.mark.parametrize("number", [
    lambda n: n + 0.5, lambda n: 0.5 - n, lambda n: n * 0.5, lambda n: 2.0 * n, lambda n: np.float32(2) * n, lambda n: n // 2.5,
    lambda n: -6.5 // n, lambda n: n % 2.5, lambda n: 7.5 % n, lambda n: divmod(7, n)[1], lambda n: n // -2, lambda n: n % -4,
    lambda n: 9 // (n - 4), lambda n: n & 6, lambda n: 1 << n, lambda n: n >> 1, lambda n: ~n, lambda n: +n, lambda n: round(n),
    lambda n: int(n == 3.0), lambda n: int(n < 3.5), lambda n: int(2.5 <= n), lambda n: max(n, 4.5), lambda n: round(n, -1),
])  # fmt: skip
def test_a_size_is_a_number(number: Any) -> None:
    g = assay.compile(lambda x: x * number(x.shape[0]), dynamic=True, backend="reference")
    for n in (3, 7, 3, 5):
        assert bits_equal(g(assay.ones(n)).numpy(), (assay.ones(n) * number(n)).numpy())


@pytest.mark.parametrize("function", [
    lambda n, x: n < x, lambda n, x: n >= x, lambda n, x: n // x, lambda n, x: n % x, lambda n, x: n - x, lambda n, x: n**x,
    lambda n, x: n == x, lambda n, x: n & x.long(), lambda n, x: n << x.long(), lambda n, x: n // (x.long() + 1),
    lambda n, x: assay.full((2,), n), lambda n, x: assay.bucketize(n, x.cumsum(0)), lambda n, x: assay.where(x > 4, n, 0),
])  # fmt: skip
def test_a_size_beside_a_tensor(function: Any) -> None:
    """The type of an integer, and the tensor's operators."""
    g = assay.compile(lambda x: function(x.shape[0], x), dynamic=True, backend="reference")
    for n in (3, 7):
        x = assay.arange(n).float() + 0.5
        got, want = g(x), function(n, x)
        assert got.dtype is want.dtype
        assert bits_equal(got.numpy(), want.numpy())


@pytest.mark.parametrize("function", [lambda x: x.mean(), lambda x: x.var(), lambda x: x.std((0, 1)), lambda x: F.mse_loss(x, x)])
@pytest.mark.parametrize("shapes", [((0, 3), (0, 5)), ((3, 0), (5, 0))])
def test_no_element_beside_a_size(function: Any, shapes: Any) -> None:
    g = assay.compile(function, dynamic=True, backend="reference")
    for shape in shapes:
        assert np.isnan(g(assay.ones(*shape)).item())


def test_the_square_of_a_quotient_is_no_quotient() -> None:
    def f(x: Any) -> Any:
        return x if (x.shape[0] // 2) ** 2 > 60 else -x

    g = assay.compile(f, dynamic={"x": {0: assay.Dim("n", 2, 100)}}, backend="reference")
    assert [g(assay.ones(n))[0].item() for n in (6, 40, 15)] == [-1.0, 1.0, -1.0]


def test_a_size_is_not_read_off_a_remainder() -> None:
    """The guard m % 3 - n == -5 makes n an axis of m - 3*(m//3) + 5 elements, of which m = 2, 5, 8 are solutions."""
    g = assay.compile(lambda x: x * 2 if x.shape[1] % 3 - x.shape[0] == -5 else x, dynamic=True, backend="reference")
    assert [g(assay.ones(*s))[0, 0].item() for s in ((7, 8), (7, 2), (6, 5), (7, 5))] == [2.0, 2.0, 1.0, 2.0]


def test_a_guard_that_may_leave_int64_fixes_a_size() -> None:
    def f(x: Any) -> Any:
        n, m = x.shape
        return x * 2 if (m // n) ** 2 == (n - 2) // 3 else -x

    g = assay.compile(f, dynamic=True, backend="reference")
    for shape in ((6, 9), (7, 2), (5, 6), (5, 11)):
        assert bits_equal(g(assay.ones(*shape)).numpy(), f(assay.ones(*shape)).numpy())


def test_each_function_states_its_guards() -> None:
    """A divisor that was positive by a guard of one function is a question of the next one too."""
    for f in (lambda x: x * (100 // (x.shape[0] - 5)), lambda x: x + 100 // (x.shape[0] - 5)):
        g = assay.compile(f, dynamic=True, backend="reference")
        for n in (7, 3, 9):
            assert bits_equal(g(assay.ones(n)).numpy(), f(assay.ones(n)).numpy())


def test_reference_backend() -> None:
    g = assay.compile(soft, dynamic=True, backend="reference")
    for n in (3, 6):
        x = assay.ones(n, 4)
        assert bits_equal(g(x).numpy(), soft(x).numpy())
    assert g.cache_info().entries == 1


def test_arrays_come_back_as_arrays() -> None:
    g = assay.compile(lambda x: x * 2, dynamic=True)
    for n in (3, 5, 3, 5):
        assert isinstance(g(np.ones(n, np.float32)), np.ndarray)


@pytest.mark.parametrize("d", [np.float16, np.float64, np.int32, np.int64, np.uint8, np.bool_])
def test_types(d: Any) -> None:
    g = assay.compile(lambda x: (x + x.shape[0]).sum(0), dynamic=True)
    for n in (3, 20, 65):
        x = assay.tensor(np.ones((n, n + 1), d))
        assert bits_equal(g(x).numpy(), (x + n).sum(0).numpy())


@pytest.mark.parametrize(
    ("options", "error"), [({"dynamic": 3}, "allowed: True"), ({"dynamic": True, "tune": True}, "choose one")]
)
def test_wrong_options(options: Any, error: str) -> None:
    with pytest.raises(UserError, match=error):
        assay.compile(lambda x: x, **options)


@pytest.mark.parametrize(
    "f",
    [
        lambda x, y: ((x + y).relu() * 2).sum(-1),
        lambda x, y: x.softmax(-1) + y.softmax(0),
        lambda x, y: x @ y.t(),
        lambda x, y: (x.t() + y.t()).cumsum(0),
    ],
    ids=["row sums", "softmax", "matmul", "transposed"],
)
@pytest.mark.parametrize("first", [(5, 9), (64, 128), (300, 17)])
def test_whatever_sizes_come_first(f: Any, first: tuple[int, int]) -> None:
    """The schedule is chosen for the first call's sizes; the bits are those of the meaning at any."""
    g = assay.compile(f, dynamic=True)
    rng = np.random.default_rng(1)
    for n, m in (first, (2, 3), (8, 8 * 9 + 1), (33, 250), (130, 66), (7, 1024)):
        x, y = (assay.tensor(rng.standard_normal((n, m)).astype(np.float32)) for _ in range(2))
        assert bits_equal(g(x, y).numpy(), f(x, y).numpy()), (n, m)


# ------------------------------------------------------------------------------------------------ what the tests would see


def test_a_dropped_tail_changes_the_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    from assay.backends.cpp import nest

    real = nest._cut_extent
    monkeypatch.setattr(nest, "_cut_extent", lambda n, rep, size: nest.Axis(n, real(n, rep, size).pieces[:1]))
    x = assay.tensor(np.arange(100, dtype=np.float32))
    g = assay.compile(lambda x: x * 3 + 1, dynamic=True)
    assert not bits_equal(g(x).numpy(), (x * 3 + 1).numpy())


def test_guards_are_checked_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the match of a call forgot the guards, binding its sizes would still refuse them."""
    from assay.frontends.dynamic import Sizes

    g = assay.compile(lambda x: x[:4] * 2, dynamic=True)
    assert g(assay.ones(6)).shape == (4,)
    monkeypatch.setattr(Sizes, "guards", property(lambda self: ()))
    with pytest.raises(UserError, match=r"the guard .* does not hold"):
        g(assay.ones(3))


def test_a_wrong_extent_is_not_proved() -> None:
    """A program whose code would read one element too many at some size is never emitted."""
    from assay.backends.cpp.sized import compile_sized
    from assay.core.errors import Unsound

    with pytest.raises(Unsound, match="n = "):
        compile_sized(assay.parse("program f[n: 2..](x: f32[n]):\n t[i:n] = x[i + 1]\n return t"))


@pytest.mark.parametrize("c", CASES, ids=lambda c: c.name)
def test_loop_nests_are_proved_for_all_sizes(c: DynamicCase) -> None:
    g = assay.compile(c.f, dynamic=True)
    g(*tensors(c, [s for s, _ in c.arguments]))
    [entry] = g.entries.values()
    nests = [link for link in entry.links if link.name == "nest"]
    assert nests
    assert all(link.proved for link in entry.links if link.name != "nest"), g.explain_proofs()
    by_guard = c.name == "convolution"  # extents that are positive by a guard, which the proof of a nest does not use
    assert [link.proved for link in nests] == [not by_guard], g.explain_proofs()


def test_a_dropped_tail_is_not_proved() -> None:
    from assay.core.index import size
    from assay.verify.coverage import covered
    from assay.verify.nests import Axis, Piece

    n: Any = size("n", 1)
    tiles, left = Piece(n // 8, 8, (0,), 8), Piece(n - n // 8 * 8, 1, (0,), 1, n // 8 * 8, is_tail=True)
    assert covered(Axis(n, (tiles, left))) == ("", True)
    assert "not computed" in covered(Axis(n, (tiles,)))[0]
    assert "gaps" in covered(Axis(n, (Piece(n // 8, 8, (0,), 4), left)))[0]
    assert "starts at" in covered(Axis(n, (tiles, Piece(left.count, 1, (0,), 1, 0, is_tail=True))))[0]
