"""Tensors as numpy and torch users expect them: creation, sharing, conversion, printing, indexing."""

import copy
import pickle
import threading
from typing import Any

import numpy as np
import pytest

import assay

inf, nan = float("inf"), float("nan")


@pytest.mark.parametrize(
    ("data", "dtype", "shape"),
    [
        (1, "int64", ()), (1.5, "float32", ()), (True, "bool", ()), ([1, 2], "int64", (2,)), ([1, 2.5], "float32", (2,)),
        ([], "float32", (0,)), ([[]], "float32", (1, 0)), ([[True], [False]], "bool", (2, 1)), (np.float64(2), "float64", ()),
        (np.zeros((2, 3), np.int8), "int8", (2, 3)), (np.zeros(2, np.float16), "float16", (2,)), (-0.0, "float32", ()),
    ],
)  # fmt: skip
def test_tensor_infers_type_and_shape(data: Any, dtype: str, shape: tuple[int, ...]) -> None:
    x = assay.tensor(data)
    assert (x.dtype, x.shape) == (getattr(assay, dtype), shape)


@pytest.mark.parametrize(
    ("data", "dtype", "words"),
    [
        ([[1], [1, 2]], None, "nested lists"), (300, "uint8", "does not fit u8"), (-1, "uint8", "does not fit"),
        (2**63, "int64", "does not fit i64"),
        ("text", None, "dtype"), ([1], "complex64", "unknown dtype"), (np.zeros(2, np.complex64), None, "dtype"),
    ],
)  # fmt: skip
def test_tensor_refuses(data: Any, dtype: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        assay.tensor(data, dtype=dtype)


def test_tensor_copies_and_from_numpy_shares() -> None:
    a = np.zeros((2, 3), np.float32)
    x, y = assay.tensor(a), assay.from_numpy(a)
    a[0, 0] = 5
    assert (x[0, 0].item(), y[0, 0].item()) == (0.0, 5.0)
    y.add_(1.0)
    assert a.tolist() == [[6, 1, 1], [1, 1, 1]]
    assert np.shares_memory(y.numpy(), a)
    assert np.shares_memory(y.t()[1:].numpy(), a)


@pytest.mark.parametrize(
    "a", [np.arange(12.0).reshape(3, 4)[::-1], np.arange(12.0).reshape(3, 4)[:, ::-2], np.arange(12.0).reshape(3, 4).T]
)
def test_from_numpy_takes_any_strides(a: np.ndarray) -> None:
    x = assay.from_numpy(a)
    assert np.shares_memory(x.numpy(), a)
    assert np.shares_memory(x[1:].numpy(), a)
    assert x[1:, 0].tolist() == a[1:, 0].tolist()
    assert (x * 2).tolist() == (a * 2).tolist()
    x[0] = 7.0
    assert (a[0] == 7).all()


def test_read_only_memory_is_not_written() -> None:
    a = np.zeros(3, np.float32)
    a.flags.writeable = False
    x = assay.from_numpy(a)
    with pytest.raises(assay.UserError, match="read-only"):
        x.add_(1.0)
    assert (x + 1).tolist() == [1, 1, 1]


def test_an_array_that_is_reshaped_in_place_does_not_change_the_tensor() -> None:
    a = np.zeros((2, 3), np.float32)
    x = assay.from_numpy(a)
    a.shape = (6,)
    x.numpy().shape = (3, 2)
    x.numpy().flags.writeable = False
    assert x.add_(1.0).shape == (2, 3)
    assert a.tolist() == [1] * 6


@pytest.mark.parametrize("bad", [np.zeros(3, ">f4"), np.zeros(3, [("x", "f4"), ("y", "u1")])["x"], np.zeros(3, "U1"), [1, 2]])
def test_from_numpy_refuses(bad: Any) -> None:
    with pytest.raises(ValueError, match=r"from_numpy|dtype"):
        assay.from_numpy(bad)


def test_dlpack_shares_both_ways() -> None:
    x = assay.tensor([1.0, 2.0, 3.0])
    a = np.from_dlpack(x)
    assert np.shares_memory(a, x.numpy())
    y = assay.from_dlpack(np.arange(3.0))
    assert y.tolist() == [0, 1, 2]
    assert x.__dlpack_device__() == (1, 0)


def test_array_protocol() -> None:
    x = assay.tensor([1.0, 2.0])
    assert np.shares_memory(np.asarray(x), x.numpy())
    assert np.asarray(x, dtype=np.float64).dtype == np.float64
    assert not np.shares_memory(np.array(x), x.numpy())
    with pytest.raises(ValueError, match="without a copy"):
        np.array(x, dtype=np.float64, copy=False)


def test_numbers() -> None:
    assert (assay.tensor(3).item(), int(assay.tensor([4])), float(assay.tensor([[0.5]]))) == (3, 4, 0.5)
    assert assay.tensor(1.5, dtype=assay.bfloat16).item() == 1.5
    assert [10, 20][assay.tensor(1)] == 20
    assert bool(assay.tensor([0.0])) is False
    with pytest.raises(assay.UserError, match="ambiguous"):
        bool(assay.tensor([1, 2]))
    with pytest.raises(assay.UserError, match="one element"):
        assay.tensor([1, 2]).item()
    with pytest.raises(TypeError, match="integer tensors"):
        [10, 20][assay.tensor(1.0)]


@pytest.mark.parametrize("device", ["cuda", "cuda:0", "mps"])
def test_other_devices_are_refused(device: str) -> None:
    with pytest.raises(assay.UserError, match="CPU"):
        assay.tensor(1.0).to(device)
    with pytest.raises(assay.UserError, match="CPU"):
        assay.zeros(2, device=device)
    assert assay.zeros(2, device="cpu").to("cpu").tolist() == [0, 0]


def test_to_is_the_tensor_itself_where_nothing_changes() -> None:
    x = assay.tensor([1.5])
    assert x.to(assay.float32) is x
    assert x.float() is x
    assert x.to("cpu", assay.int64).tolist() == [1]
    assert x.to(assay.tensor(1, dtype=assay.float64)).dtype is assay.float64
    assert x.to(assay.float32, copy=True) is not x


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (1, "tensor(1)"), ([1.0, -2.5], "tensor([ 1.0000, -2.5000])"), ([1.0, 2.0], "tensor([1., 2.])"), ([], "tensor([])"),
        ([[1, 20], [3, 4]], "tensor([[ 1, 20],\n        [ 3,  4]])"), ([True, False], "tensor([ True, False])"),
        ([inf, nan, 1.0], "tensor([inf, nan,  1.])"), ([1e-8, 1.0], "tensor([1.0000e-08, 1.0000e+00])"),
    ],
)  # fmt: skip
def test_printing(x: Any, text: str) -> None:
    assert repr(assay.tensor(x)) == text


def test_printing_names_the_type_and_shortens() -> None:
    assert repr(assay.tensor([1], dtype=assay.int32)) == "tensor([1], dtype=assay.int32)"
    assert repr(assay.zeros(0, 3)) == "tensor([], size=(0, 3))"
    assert "..." in repr(assay.zeros(50, 50))
    assert f"{assay.tensor(2.5):.2f}" == "2.50"


INDICES = [
    1, -1, slice(1, 3), slice(None, None, 2), slice(5, 1), None, Ellipsis, (0, 1), (Ellipsis, 0), (slice(None), 1),
    (None, 0, None), (Ellipsis, None), ([0, 2],), ([0, 2], [1, 3]), (slice(None), [0, 0, 3]), ([[0], [1]], [0, 2]),
    (slice(1, None), [-1, 0]), ([],),
]  # fmt: skip


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_indexing_is_numpys(index: Any) -> None:
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    x = assay.from_numpy(a.copy())
    index_of_array = (
        tuple(np.array(i, np.int64) if isinstance(i, list) else i for i in index) if isinstance(index, tuple) else index
    )
    want = a[index_of_array]
    got = x[index]
    assert (got.shape, got.tolist()) == (want.shape, want.tolist())
    b = a.copy()
    b[index_of_array] = -1
    x[index] = -1
    assert x.tolist() == b.tolist()
    b[index_of_array] = want * 2
    x[index] = assay.tensor(want * 2)
    assert x.tolist() == b.tolist()


def test_setitem_forms() -> None:
    x = assay.zeros(2, 3)
    x[0] = assay.tensor([[1.0, 2.0, 3.0]])  # leading ones go
    x[1] = [4, 5, 6]
    x[:, 0] += 10
    assert x.tolist() == [[11, 2, 3], [14, 5, 6]]
    x[x > 10] = 0
    x[assay.tensor([True, False])] = 7.0
    assert x.tolist() == [[7, 7, 7], [0, 5, 6]]
    x[assay.tensor([0, 0]), assay.tensor([1, 1])] += 1  # read once, then written: not accumulated
    assert x[0, 1].item() == 8


@pytest.mark.parametrize(
    ("index", "error"),
    [
        (3, IndexError), (-4, IndexError), ((0, 4), IndexError), ((0, 0, 0), IndexError), ([3], IndexError), ([-4], IndexError),
        (0.5, ValueError), ("a", ValueError), ((Ellipsis, Ellipsis), ValueError), (slice(None, None, -1), NotImplementedError),
        (True, NotImplementedError), (slice(0.5, None), ValueError),
    ],
)  # fmt: skip
def test_a_wrong_index(index: Any, error: type[Exception]) -> None:
    x = assay.zeros(3, 4)
    with pytest.raises(error):
        x[index]
    with pytest.raises(error):
        x[index] = 1.0
    assert x.tolist() == assay.zeros(3, 4).tolist()


def test_mask_advice() -> None:
    x = assay.tensor([1.0, -1.0])
    with pytest.raises(assay.Unsupported, match=r"assay\.where"):
        x[x > 0]
    with pytest.raises(assay.Unsupported, match=r"assay\.where"):
        x[x > 0] = assay.tensor([1.0, 2.0])
    with pytest.raises(assay.UserError, match="mask of shape"):
        x[assay.tensor([True])] = 0.0


def test_writing_an_expanded_view_is_refused() -> None:
    x = assay.tensor([1.0, 2.0])
    wide = x.expand(3, 2)
    for write in (lambda: wide.add_(1.0), lambda: wide.__setitem__(0, wide[0] * 1) or wide[:2].mul_(2), lambda: wide.zero_()):
        with pytest.raises(assay.UserError, match="one element of memory"):
            write()
        with pytest.raises(assay.UserError, match="one element of memory"):
            assay.trace(lambda y: y.expand(3, 2).add_(1.0), x)


@pytest.mark.parametrize(
    ("a", "b"), [(2.0, [1.0, 4.0]), (7, [2, 3]), (np.float32(2), [1.0, 4.0]), (np.int64(7), [2, 3]), (True, [True, False])]
)
def test_reflected_operators(a: Any, b: Any) -> None:
    x, y = assay.tensor(b), np.array(b, np.float32 if isinstance(b[0], float) else None)
    for got, want in [(a + x, a + y), (a * x, a * y), (a == x, a == y), (a < x, a < y)]:
        assert got.tolist() == want.tolist()
    if not isinstance(a, bool):
        for got, want in [
            (a - x, a - y),
            (a // x, a // y),
            (a % x, a % y),
            (a**x, a**y),
            (a / x, np.float32(a) / y.astype(np.float32)),
        ]:
            assert got.tolist() == want.tolist()
        assert (a - x).dtype is x.dtype


def test_operators_with_something_else() -> None:
    x = assay.tensor([1.0])
    assert (x == None) is False  # noqa: E711
    assert (x != "a") is True
    for f in (lambda: x + "a", lambda: x < [1], lambda: "a" * x):
        with pytest.raises(TypeError):
            f()


def test_inplace_keeps_identity_and_type() -> None:
    x = assay.tensor([1, 2])
    y = x
    x += 2
    x *= assay.tensor([True, False])
    assert y is x
    assert (x.tolist(), x.dtype) == ([3, 0], assay.int64)
    with pytest.raises(assay.UserError, match="cannot be stored"):
        x += 0.5
    with pytest.raises(assay.UserError, match="does not fit"):
        x += assay.zeros(2, 2, dtype=assay.int64)


def test_tensors_iterate_copy_pickle_hash() -> None:
    x = assay.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert [row.tolist() for row in x] == [[1, 2], [3, 4]]
    assert len(x) == 2
    assert 3.0 in x
    assert copy.deepcopy(x).tolist() == pickle.loads(pickle.dumps(x.t())).t().tolist() == x.tolist()
    assert len({x, x, x.t()}) == 2
    with pytest.raises(TypeError, match="0-d"):
        len(assay.tensor(1))


def test_every_name_is_reachable() -> None:
    assert "add" in dir(assay)
    assert "sum" in dir(assay.tensor(1))
    assert set(assay.ops.add.overloads()) == {"Tensor", "Scalar"}
    assert assay.ops.add.Tensor(assay.tensor([1.0]), assay.tensor([2.0]), alpha=3).tolist() == [7]
    with pytest.raises(AttributeError, match="did you mean"):
        assay.ops.ad  # noqa: B018
    with pytest.raises(AttributeError, match="no overload"):
        assay.ops.add.Wrong  # noqa: B018


def test_threads_have_their_own_stack() -> None:
    seen: list[Any] = []

    def f(x: Any) -> Any:
        thread = threading.Thread(target=lambda: seen.append((assay.tensor([1.0]) + 1).tolist()))
        thread.start()
        thread.join()
        return x + 1

    assay.trace(f, assay.tensor([1.0]))
    assert seen == [[2.0]]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: assay.zeros(1 << 41), "at most 2"),
        (lambda: assay.zeros(1 << 20, 1 << 20, 2), "at most 2"),
        (lambda: assay.zeros(1 << 38), "does not fit in memory"),
        (lambda: assay.zeros(-1), "sizes >= 0"),
        (lambda: assay.zeros(inf), "no overload"),
        (lambda: assay.zeros(nan), "no overload"),
        (lambda: assay.arange(0, inf), "finite"),
        (lambda: assay.arange(0, 1, 0), "step not 0"),
        (lambda: assay.zeros(2).expand(1 << 40, 2), "at most 2"),
        (lambda: assay.zeros(2).view(1 << 70), "does not hold"),
    ],
)
def test_sizes_that_cannot_be(make: Any, words: str) -> None:
    with pytest.raises(assay.UserError, match=words):
        make()


@pytest.mark.parametrize(("made", "wanted"), [
    (lambda t: np.float32(2) * t, [2.0, 6.0]),
    (lambda t: np.float64(2) - t, [1.0, -1.0]),
    (lambda t: np.float32(2) ** t, [2.0, 8.0]),
    (lambda t: np.float32(2) < t, [False, True]),
    (lambda t: np.float64(1) == t, [True, False]),
    (lambda t: np.int64(7) // t, [7.0, 2.0]),
])  # fmt: skip
def test_scalars_of_numpy_on_the_left(made, wanted) -> None:
    assert made(assay.tensor([1.0, 3.0])).tolist() == wanted


@pytest.mark.parametrize(("f", "said"), [
    (np.exp, r"numpy's exp takes no tensors; use assay\.exp\(\.\.\.\), or np\.exp"),
    (np.frexp, r"numpy's frexp takes no tensors; use np\.frexp"),
    (np.add.reduce, "numpy's add takes no tensors"),
    (lambda t: np.add(t, 1.0), "numpy's add takes no tensors"),
    (np.sum, r"numpy's sum takes no tensors; use assay\.sum\(\.\.\.\), or np\.sum\(\.\.\.\) of x\.numpy\(\)$"),
    (lambda t: np.max(t, axis=0), r"numpy's max takes no tensors; use assay\.amax"),
    (lambda t: np.clip(t, 0, 1), r"numpy's clip takes no tensors; use assay\.clamp"),
    (lambda t: np.std(t), r"use assay\.std\(x, correction=0\), or np\.std"),
    (lambda t: np.reshape(t, (2, 1)), r"use assay\.reshape"),
    (lambda t: np.repeat(t, 2), r"use assay\.repeat_interleave"),
    (lambda t: np.flip(t), r"np\.flip\(t\).*\n  a slice with step -1; use x\.flip"),  # the user's line, not numpy's
    (lambda t: np.ones(2, np.float32) + t, "mixes a tensor and a numpy array"),
    (lambda t: np.ones((2, 2), np.float32) @ t, "numpy's matmul takes no tensors"),
])  # fmt: skip
def test_functions_of_numpy_say_what_to_use(f, said: str) -> None:
    with pytest.raises(assay.AssayError, match=said):
        f(assay.tensor([1.0, 3.0]))


def test_functions_of_numpy_compute_of_arrays() -> None:
    t = assay.tensor([1.0, 3.0])
    assert [np.dot(t, t), np.concatenate([t, t]).tolist(), np.array_equal(t, t)] == [10.0, [1.0, 3.0, 1.0, 3.0], True]
    with pytest.raises(assay.UserError, match=r"sum\(f32\[2\], dim=int 0, out=None\): no overload"):
        np.vectorize(lambda k: t.sum(axis=0, out=None))(0)  # the user's own call, inside of one of numpy's


@pytest.mark.parametrize(
    ("call", "want"),
    [
        (lambda x: x.norm(), 5.0),
        (lambda x: x.norm("fro"), 5.0),
        (lambda x: x.norm(1), 7.0),
        (lambda x: x.norm(dim=-1), [3.0, 4.0]),
        (lambda x: x.norm(2, 1, True), [[3.0], [4.0]]),
        (lambda x: assay.norm(x, dim=0, p=1), [3.0, 4.0]),
        (lambda x: x.norm(keepdim=True), [[5.0]]),
        (lambda x: x.norm(dim=(0, 1), dtype=assay.float64), 5.0),
    ],
)
def test_norm_is_called_as_in_torch(call: Any, want: Any) -> None:
    x = assay.tensor([[3.0, 0.0], [0.0, -4.0]])
    assert call(x).tolist() == want
    assert assay.compile(call, backend="reference")(x).tolist() == want


def test_norms_that_are_not_there() -> None:
    with pytest.raises(assay.Unsupported, match="nuc"):
        assay.ones(2, 2).norm("nuc")
    with pytest.raises(AttributeError, match="linalg_vector_norm"):
        assay.linalg  # noqa: B018


def test_split_takes_a_size_or_all_sizes() -> None:
    x = assay.arange(8).view(2, 4)
    first, second = x.split([1, 3], dim=-1)
    first += 10
    assert (x.tolist(), second.tolist()) == ([[10, 1, 2, 3], [14, 5, 6, 7]], [[1, 2, 3], [5, 6, 7]])
    assert [part.shape for part in assay.split(x, 3, dim=1)] == [(2, 3), (2, 1)]


@pytest.mark.parametrize(("name", "words"), [("finfo", "numpy"), ("cdist", "norm"), ("bincount", "index_add"), ("diff", "1:")])
def test_names_that_are_not_there_say_what_to_write(name: str, words: str) -> None:
    with pytest.raises(AttributeError, match=words):
        getattr(assay, name)
