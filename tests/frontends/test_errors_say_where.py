"""An error of an eager call begins with the user's line, "file:line: text", as that of a captured or compiled call does."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import assay
import assay.nn.functional as F
from assay.frontends import source

X, Y, I8 = assay.ones(2, 3), assay.ones(4, 5), assay.ones(2, dtype=assay.int8)
W = assay.ones(3, requires_grad=True)
AT_FIVE = assay.tensor([5])


def inner(x: Any, y: Any) -> Any:
    return x + y  # where it happens


def outer(x: Any, y: Any) -> Any:
    made = inner(x, y)
    return made * 2


class Model:
    def __call__(self, x: Any) -> Any:
        for k in range(3):
            x = x.reshape(3 - k, 2)  # in a loop: the second time there are 6 elements for 2 * 2
        return x


def store(x: Any, y: Any) -> None:
    x[0] = y


class Wrong(assay.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x @ x  # inside of the user's Function


class Unwritten(assay.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2


@pytest.mark.parametrize(("f", "line", "said"), [
    (lambda: outer(X, Y), "return x + y  # where it happens", "do not broadcast"),
    (lambda: X @ Y, None, "do not multiply"),
    (lambda: Model()(X), "x = x.reshape(3 - k, 2)  #", "does not hold 6 elements"),
    (lambda: store(X, Y), "x[0] = y", "does not expand to [3]"),
    (lambda: Wrong.apply(X), "return x @ x  # inside", "do not multiply"),
    (lambda: Unwritten.apply(W).sum().backward(), None, "write the static method backward"),
    (lambda: X.reshape(7), None, "shape [7] does not hold 6 elements"),
    (lambda: X.view(2, 2), None, "does not hold 6 elements"),
    (lambda: X.T.view(6), None, "no strides express it"),
    (lambda: assay.cat([X, Y]), None, "differ outside axis 0"),
    (lambda: X[2], None, "index 2 is out of bounds for axis 0 of size 2"),
    (lambda: X.select(1, -4), None, "index out of bounds"),
    (lambda: X.sum(2), None, "dim 2 is not an axis"),
    (lambda: X & X, None, "not defined on f32"),
    (lambda: I8.add_(X), None, "do not broadcast"),
    (lambda: I8.add_(1.5), None, "cannot be stored in a i8 tensor"),
    (lambda: X.masked_fill(X, 0), None, "the mask must be bool, not f32"),
    (lambda: X.sum(nodim=1), None, "no overload takes these arguments"),
    (lambda: np.sum(X), None, "numpy's sum takes no tensors"),
    (lambda: X.nosuch(), None, "no attribute or operator 'nosuch'"),
    (lambda: assay.ops.add.Nosuch(X, 1), None, "add has no overload 'Nosuch'"),
    (lambda: assay.ops.add.Tensor(X, Y), None, "do not broadcast"),
    (lambda: F.conv2d(X, Y), None, "needs 4 axes each"),
    (lambda: F.l1_loss(X, X, reduction="all"), None, "reduction='all'"),
    (lambda: X.to("f31"), None, "unknown dtype 'f31'"),
    (lambda: assay.zeros(2, dtype="f31"), None, "unknown dtype 'f31'"),
    (lambda: assay.zeros(2, device="cuda"), None, "device='cuda'"),
    (lambda: assay.zeros(-1), None, "sizes >= 0"),
    (lambda: assay.tensor([[1], [2, 3]]), None, "do not form a tensor"),
    (lambda: assay.tensor(300, dtype=assay.int8), None, "300 does not fit i8"),
    (lambda: assay.randn(2, -3), None, "sizes must be integers >= 0"),
    (lambda: X.item(), None, "item() needs one element"),
    (lambda: I8.requires_grad_(), None, "only floats have gradients"),
    (lambda: (W * 2).sum().backward(X), None, "must have its shape and type"),
    (lambda: assay.func.grad(lambda x: x * 2)(X), None, "grad needs a result of one element"),
    (lambda: assay.optim.SGD(X, lr=0.1), None, "an optimiser takes a list"),
])  # fmt: skip
def test_the_head_of_the_message_is_the_users_line(f: Callable[[], Any], line: str | None, said: str) -> None:
    with pytest.raises(assay.AssayError) as caught:
        f()
    head, _, rest = str(caught.value).partition("\n")
    file, number, text = re.fullmatch(r"(.*):(\d+): (.*)", head).groups()  # type: ignore[union-attr]
    assert (file, rest[:2]) == (__file__, "  ")
    assert said in rest
    assert ".py:" not in rest  # one place, not two
    if line is None:
        assert (int(number), text[:9]) == (f.__code__.co_firstlineno, "(lambda: ")
    else:
        assert text.startswith(line)


@pytest.mark.parametrize("call", [lambda f: f, assay.compile], ids=["eager", "compiled"])
@pytest.mark.parametrize(("f", "text", "said"), [
    (lambda x: x[AT_FIVE], "(lambda x: x[AT_FIVE]", "index out of bounds: 0 <= 5 < 2"),
    (lambda x: x.int() // 0, "(lambda x: x.int() // 0", "integer division by zero"),
])  # fmt: skip
def test_an_error_that_depends_on_data_has_the_line_as_a_note(call: Any, f: Any, text: str, said: str) -> None:
    with pytest.raises(assay.AssayError, match=said) as caught:
        call(f)(X)
    (note,) = caught.value.__notes__
    assert f" at {__file__}:{f.__code__.co_firstlineno}: {text}" in note


def test_a_capture_says_the_same_as_the_eager_call() -> None:
    said: set[str] = set()
    for f in (outer, assay.compile(outer)):
        with pytest.raises(assay.UserError) as caught:
            f(X, Y)
        said.add(str(caught.value))
    assert len(said) == 1


def test_the_class_and_the_notes_of_a_located_error_stay() -> None:
    error = assay.autograd.BackwardError("lost")
    error.add_note("and a note")
    made = source.located(error)
    assert (type(made), made.__notes__, str(made)) == (
        type(error), ["and a note"],
        f"{__file__}:{test_the_class_and_the_notes_of_a_located_error_stay.__code__.co_firstlineno + 3}: "
        "made = source.located(error)\n  lost",
    )  # fmt: skip
    assert source.located(made) is made


def test_no_line_is_looked_for_while_calls_succeed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "user_frame", lambda: pytest.fail("looked for a line"))
    assert ((X + X).reshape(3, 2) @ X)[1:].sum().item() == 24.0
    with pytest.raises(pytest.fail.Exception, match="looked for"):
        X @ X
