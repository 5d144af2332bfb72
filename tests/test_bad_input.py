"""Wrong input, as a person meets it: what is said, and that nothing crashes, hangs or gives wrong numbers.

The cache (damaged, unwritable, killed and concurrent builds) is in tests/backends/test_build.py, inputs that change
during a call in tests/frontends/test_compile.py, wrong commands in tests/test_cli.py.
"""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import assay
import assay.nn.functional as F
from assay.backends import build
from assay.backends.schedule import machine
from assay.core.errors import AssayError, UserError
from assay.core.parser import parse

PROGRAM = parse("program f(x: f32[3]):\n  y[i:3] = add(x[i], x[i])\n  return y\n")


def generated(x):
    yield x


async def awaited(x):
    return x


class Suspended:
    async def __call__(self, x):
        yield x


X = assay.arange(12).to(assay.float32).reshape(3, 4)
NAN, INF = float("nan"), float("inf")
MASKED = np.ma.array([1.0, 2.0], mask=[0, 1])
ODD_BOOLS = np.frombuffer(bytes([0, 1, 2, 255]), np.uint8).view(np.bool_)  # bytes that numpy takes for truth values


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        # arrays whose elements are not what they seem
        (lambda: assay.from_numpy(MASKED), "a masked array, 1 of whose 2 elements have no value; fill them first"),
        (lambda: assay.tensor(MASKED), "tensor(x.filled(0))"),
        (lambda: assay.tensor([MASKED, MASKED]), "tensor(): a masked array"),
        (lambda: assay.compile(lambda x: x + 1, backend="reference")(MASKED), "a masked array"),
        (lambda: assay.from_numpy(ODD_BOOLS), "element [2] of a bool array [4] is the byte 2; allowed: 0 and 1"),
        (lambda: assay.compile(lambda x: ~x, backend="reference")(ODD_BOOLS), "x.view(np.uint8) != 0"),
        # options
        (lambda: assay.compile(F.relu, strict="no"), "strict='no'; allowed: True, False"),
        (lambda: assay.compile(F.relu, ahead=None), "ahead=None; allowed: True, False"),
        (lambda: assay.compile(F.relu, tune=1), "tune=1; allowed: True, False"),
        (lambda: assay.compile(lambda x: x, dynamic={"x": {"a": "n"}}, backend="reference")(X), "dynamic marks axis 'a' of x"),
        (lambda: assay.compile(lambda x: x, dynamic={"x": {True: "n"}}, backend="reference")(X), "dynamic marks axis True of x"),
        (lambda: assay.Dim("n", 1.5, 2), "0 <= lo < hi"),
        (lambda: assay.Dim(3), "a name that is an identifier"),
        (lambda: assay.check(F.relu, X, inputs=-1, backend="reference"), "inputs=-1; allowed: 0, 1, 2"),
        (lambda: assay.check(F.relu, X, inputs="3", backend="reference"), "inputs='3'; allowed"),
        (lambda: assay.check(F.relu, X, seed=-1, backend="reference"), "seed=-1; allowed"),
        (lambda: assay.check(3, X), "a function is needed, followed by its arguments, not int"),
        (lambda: assay.trace(3), "a function is needed, followed by its arguments, not int"),
        (lambda: assay.prove(assay.trace(F.relu, X)), "a function is needed, followed by its arguments, not Graph"),
        (lambda: assay.compile(F.relu, numeric="exact"), "compile() has no option numeric=; did you mean numerics=? it has"),
        (lambda: assay.compile(dynamics=True), "did you mean dynamic=?"),
        (lambda: assay.Budget(sved=1), "Budget() has no option sved=; did you mean saved=? it has saved=, peak=, least="),
        (lambda: assay.prove(F.relu, X, dynamic="x"), "dynamic='x'; allowed: True, False, or axes by argument"),
        (lambda: assay.check(PROGRAM, X), "check(program) takes no arguments beside the program"),
        (lambda: assay.check(PROGRAM, inpts=3), "did you mean inputs=? it has backend=, inputs=, seed=, shrink="),
        (lambda: assay.prove(PROGRAM, X), "prove(program) takes no arguments beside the program"),
        (lambda: assay.explain(PROGRAM, X), "explain(program) takes no arguments beside the program"),
        # what is no program, what runs nothing when it is called
        (lambda: assay.parse(3), "parse() reads the text of a program, a str, not int: '3'"),
        (lambda: assay.parse(b"x"), "a str, not bytes"),
        (lambda: assay.compile(generated), "generated is a generator function: calling it runs nothing of its body"),
        (lambda: assay.check(generated, X), "a generator function"),
        (lambda: assay.compile(awaited), "awaited is a coroutine function"),
        (lambda: assay.trace(Suspended(), X), "Suspended is an asynchronous generator function"),
        # sizes
        (lambda: assay.zeros(INF), "zeros(float inf): no overload takes these arguments"),
        (lambda: assay.zeros(-1), "size [-1]; allowed: sizes >= 0"),
        (lambda: assay.zeros(2**70), "elements; at most 2**40 are allowed"),
        (lambda: X.repeat(10**7, 10**7), "elements; at most 2**40 are allowed"),
        (lambda: X.expand(10**14, 3, 4), "elements; at most 2**40 are allowed"),
        (lambda: F.pad(X, (10**14, 0)), "elements; at most 2**40 are allowed"),
        (lambda: assay.zeros(2**39), "the result does not fit in memory"),
        (lambda: X.reshape(5, -1), "reshape"),
        (lambda: X.reshape(NAN), "reshape(f32[3, 4], float nan): no overload takes these arguments"),
        # constants
        (lambda: assay.arange(0, INF), "allowed: finite numbers, step not 0"),
        (lambda: assay.arange(0, 1, NAN), "allowed: finite numbers, step not 0"),
        (lambda: assay.full((2,), 2**63, dtype=assay.int64), "the value 9223372036854775808 does not fit i64"),
        (lambda: assay.tensor([2**63]), "9223372036854775808 does not fit i64"),
        # shapes
        (lambda: X + assay.zeros(5), "shapes [3, 4], [5] do not broadcast: sizes [4, 5] at axis -1; allowed: equal, or 1"),
        (lambda: X @ X, "shapes [3, 4] and [3, 4] do not multiply"),
        (lambda: X.sum(7), "dim 7 is not an axis of a tensor of rank 2; allowed: -2..1"),
        (lambda: F.softmax(X, dim=9), "dim 9 is not an axis of a tensor of rank 2; allowed: -2..1"),
        (lambda: F.conv2d(X, X), "input of shape [3, 4] and weight of shape [3, 4]; needs 4 axes each"),
        (lambda: F.conv2d(assay.zeros(1, 2, 5, 5), assay.zeros(2, 2), padding="same"), "needs 4 axes each"),
        (lambda: F.layer_norm(X, (5,)), "normalized_shape [5] must be one or more of the last sizes of [3, 4]"),
        (lambda: assay.tensor([[1], [1, 2]]), "the nested lists do not form a tensor"),
        # types
        (lambda: X.to("f33"), "unknown dtype 'f33'; allowed: bool, i8, i16"),
        (lambda: assay.tensor(["a"]), "unknown dtype"),
        (lambda: X << 1, "bitwise_left_shift.Tensor_Scalar(f32[3, 4], int 1): not defined on f32; allowed: int"),
        (lambda: X[0.5], "float"),
        (lambda: assay.show(assay.trace(F.relu, X)), "show() prints a program, not Graph; a graph is printed by print()"),
        (lambda: assay.lower(F.relu), "lower() takes a graph, not function: assay.lower(assay.trace(f, *args))"),
        (lambda: X[assay.tensor([9])], "index out of bounds: 0 <= 9 < 3 (index.Tensor, dimension 0"),
        (lambda: X[5], "5"),
    ],
)
def test_the_message_says_what_is_allowed(wrong: Callable[[], Any], words: str) -> None:
    with pytest.raises(AssayError) as raised:
        wrong()
    assert words in str(raised.value)
    assert len(str(raised.value)) < 2000


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: assay.ops.frobnicate(X), "unknown operator 'frobnicate'"),
        (lambda: assay.ops.add.Nonsense(X, X), "add has no overload 'Nonsense'; it has: Scalar, Tensor"),
        (lambda: X.frobnicate(), "Tensor has no attribute or operator 'frobnicate'; `assay ops` lists the operators"),
        (lambda: X.softmx, "Tensor has no attribute or operator 'softmx'; did you mean: softmax, log_softmax"),
        (lambda: F.rellu, "module 'assay' has no attribute 'rellu'; did you mean: relu"),
        (lambda: assay.fft, "module 'assay' has no attribute 'fft'; `assay ops` lists the operators"),
        (lambda: assay.nn.Linear, "module 'assay' has no attribute 'nn.Linear'; layers are functions of their weights"),
        (lambda: X.cuda(), "tensors live in the memory of the CPU"),
    ],
)
def test_an_unknown_operator(wrong: Callable[[], Any], words: str) -> None:
    with pytest.raises(AttributeError) as raised:
        wrong()
    assert words in str(raised.value)


def test_what_is_wrong_in_a_compiled_function_is_said_at_its_line() -> None:
    def product(x: Any) -> Any:
        return x @ x  # THE LINE

    def branch(x: Any) -> Any:
        return x if x.sum() > 0 else -x  # THE LINE

    def loop(x: Any) -> Any:
        return [x for _ in range(int(x.sum()))]  # THE LINE

    for f, words in ((product, "do not multiply"), (branch, "where"), (loop, "elements")):
        for attempt in (lambda f=f: assay.compile(f)(X), lambda f=f: assay.check(f, X), lambda f=f: assay.prove(f, X)):
            with pytest.raises(AssayError) as raised:
                attempt()
            assert "THE LINE" in str(raised.value)
            assert words in str(raised.value)


@pytest.mark.parametrize("backend", [pytest.param("cpp", marks=pytest.mark.cpp), "reference"])
@pytest.mark.parametrize("k", [NAN, INF, -INF, -0.0, 5e-324, 1e308])
def test_constants_that_are_not_ordinary_compile(backend: str, k: float) -> None:
    def f(x: Any) -> Any:
        return x * k, assay.maximum(x, assay.full((4,), k)), F.pad(x, (1, 0), value=k)

    for a, b in zip(assay.compile(f, backend=backend)(X), f(X), strict=True):
        assert a.numpy().tobytes() == b.numpy().tobytes() or (a != a).equal(b != b)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "expected 'program'"),
        ("\0", "unexpected character"),
        ("program f(x: f32[99999999999999999999]):\n  return x\n", "at most 2**40 are allowed"),
        ("program f(x: f32[-1]):\n  return x\n", "expected a size, found '-'"),
        ("program f(x: f33[1]):\n  return x\n", "f33"),
        ("program f(x: f32[3]):\n  return z\n", "expected the name of a tensor (x), found 'z'"),
        ("program f(x: f32[3]):\n  y[i:3] = frob(x[i])\n  return y\n", "unknown name 'frob'"),
        ("program f(x: f32[3]):\n  y[i:3] = add(x[i])\n  return y\n", "add takes 2 arguments (x, y), not 1"),
        ("program f(x: f32[3]):\n  y[i:3] = add(x[i], 1:i64)\n  return y\n", "add: argument types (f32, i64)"),
        ("program f(x: f32[3]):\n  y[i:3] = " + "neg(" * 20000 + "x[i]" + ")" * 20000 + "\n  return y\n", "nested too deeply"),
    ],
)
def test_an_error_in_a_program_points_at_its_place(text: str, words: str) -> None:
    with pytest.raises(UserError) as raised:
        parse(text)
    head, line, caret = str(raised.value).splitlines()
    assert head.startswith("line ")
    assert words in head
    assert caret.strip() == "^"
    assert len(caret) <= len(line) + 1
    assert len(str(raised.value)) < 500


def test_a_constant_beyond_its_type_is_infinite() -> None:
    p = parse("program f(x: f32[3]):\n  y[i:3] = add(x[i], 0x1p+99999:f32)\n  return y\n")
    assert p is parse("program f(x: f32[3]):\n  y[i:3] = add(x[i], inf:f32)\n  return y\n")


# ------------------------------------------------------------------------------------------------ processes

def test_bools_of_any_bytes_are_truth_values_where_they_are_copied() -> None:
    assert assay.tensor(ODD_BOOLS).numpy().view(np.uint8).tolist() == [0, 1, 1, 1]
    assert assay.tensor(ODD_BOOLS, dtype="float32").tolist() == [0.0, 1.0, 1.0, 1.0]
    assert assay.tensor([list(ODD_BOOLS)]).tolist() == [[False, True, True, True]]


@pytest.mark.parametrize("backend", ["reference", pytest.param("cpp", marks=pytest.mark.cpp)])
def test_a_compiled_call_refuses_such_bools_every_time(backend: str) -> None:
    count = assay.compile(lambda x: x.sum(), backend=backend)
    for _ in range(3):  # also where the call is known and takes the short way
        assert count(ODD_BOOLS == ODD_BOOLS) == 4
        with pytest.raises(UserError, match="is the byte 2"):
            count(ODD_BOOLS)


SCRIPT = """
import assay
g = assay.compile(lambda x: (assay.exp(x) * 1.{seed}).sum(-1))
print(g(assay.arange(600).to(assay.float32).reshape(20, 30) / 100).numpy().tobytes().hex())
"""


def compile_in_a_process(cache: Path, seed: int) -> subprocess.Popen[bytes]:
    """A compile with this cache; the measurements of this machine are copied into it, which takes a second to repeat."""
    machine.machine()
    (cache / "cpp").mkdir(exist_ok=True)
    for measured in build.directory().glob("machine-*.json"):
        shutil.copy(measured, cache / "cpp")
    environment = {**os.environ, "ASSAY_CACHE": str(cache)}
    return subprocess.Popen([sys.executable, "-c", SCRIPT.format(seed=seed)], env=environment, stdout=subprocess.PIPE)


@pytest.mark.cpp
def test_two_processes_compile_the_same_program_at_once(tmp_path: Path) -> None:
    a, b = (compile_in_a_process(tmp_path, 25) for _ in range(2))
    first, second = a.communicate()[0], b.communicate()[0]
    assert first == second
    assert len(first) == 20 * 8 + 1
    kept = sorted(f.name for f in (tmp_path / "cpp").iterdir())
    assert [name for name in kept if name.startswith("building-")] == []
    assert compile_in_a_process(tmp_path, 25).communicate()[0] == first
    assert sorted(f.name for f in (tmp_path / "cpp").iterdir()) == kept  # found, not built again


@pytest.mark.cpp
def test_after_a_killed_compile_the_next_one_is_right(tmp_path: Path) -> None:
    run = compile_in_a_process(tmp_path, 75)
    cache = tmp_path / "cpp"
    for _ in range(2000):
        if cache.exists() and any(cache.glob("building-*")):
            break
        time.sleep(0.005)
    run.send_signal(signal.SIGKILL)
    run.communicate()
    again = compile_in_a_process(tmp_path, 75).communicate()[0]
    x = assay.arange(600).to(assay.float32).reshape(20, 30) / 100
    assert again.decode().strip() == (assay.exp(x) * 1.75).sum(-1).numpy().tobytes().hex()


def test_a_function_without_results_gives_no_evidence() -> None:
    def nothing(x):
        return None

    assert str(assay.prove(nothing, X).verdict) == "UNKNOWN(nothing to prove: there is no result)"
    assert assay.check(nothing, X, backend="reference").verdict.kind == "UNKNOWN"
    assert assay.compile(nothing, backend="reference")(X) is None


def test_options_that_are_named_rightly_keep_their_meaning() -> None:
    assert assay.Budget(8, peak=9) == assay.Budget(saved=8, peak=9)
    assert pickle.loads(pickle.dumps(assay.Budget(saved=8))) == assay.Budget(saved=8)
    assert assay.compile(f=F.relu, backend="reference").function is F.relu
