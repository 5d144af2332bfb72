"""The names that users and other tools rely on."""

import inspect
import subprocess
import sys

import pytest

import assay

SURFACE = [
    "tensor", "as_tensor", "from_numpy", "from_dlpack", "Tensor", "zeros", "ones", "full", "arange", "linspace",
    "eye", "rand", "randn", "randint", "manual_seed", "Generator", "cat", "stack", "where", "assume", "einsum", "float32",
    "float64", "bfloat16", "float16", "int64", "int32", "int8", "uint8", "bool", "inf", "nan", "pi", "ops", "nn",
    "compile", "trace", "lower", "show", "parse", "check", "prove", "UserError", "Unsupported", "Unsound",
    "InternalError", "AssayError", "__version__",
]  # fmt: skip


@pytest.mark.parametrize("name", SURFACE)
def test_it_is_there(name: str) -> None:
    assert getattr(assay, name) is not None
    assert name in dir(assay) or name.startswith("__")


def test_names_that_are_not_there() -> None:
    with pytest.raises(AttributeError, match="did you mean: zeros"):
        assay.zeroes  # noqa: B018
    assert not hasattr(assay, "__nothing__")


def test_import_loads_next_to_nothing() -> None:
    code = "import sys, assay; print(*(m for m in sys.modules if m.split('.')[0] in ('numpy', 'optree', 'ml_dtypes')))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split() == []


def test_compile_takes_what_it_promises() -> None:
    options = inspect.signature(assay.compile).parameters
    defaults = {name: p.default for name, p in options.items() if p.kind is p.KEYWORD_ONLY}
    assert defaults == {
        "numerics": "exact", "backend": "cpp", "strict": True, "dynamic": False, "tune": False, "memory_budget": None,
        "max_order": None, "ahead": False,
    }  # fmt: skip


def test_a_program_round_trips_through_its_text() -> None:
    x = assay.zeros(3, 4)
    program = assay.lower(assay.trace(lambda x: (x.t() * 2).sum(0), x))
    assert assay.parse(assay.show(program)) is program


@pytest.mark.parametrize("name", ["bool", "uint8", "int64", "float16", "bfloat16", "float64"])
def test_a_dtype_says_whether_it_is_floating_point(name: str) -> None:
    x = assay.zeros(1, dtype=name)
    assert x.dtype.is_floating_point == x.is_floating_point() == ("float" in name)
