"""A package imports only what stands above it; heavy libraries load on first use; `import assay` stays light."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "assay"

LAYERS = (
    ("core",),
    ("core.operators",),
    ("semantics",),
    ("transforms",),
    ("verify",),
    ("partition",),
    ("kernels",),
    ("backends",),
    ("frontends",),
    ("autograd", "func", "nn", "ops", "optim"),
    ("dynamic",),
    ("entries",),
    ("compiler",),
    ("checkpoints",),
    ("examine",),
    ("fuzz",),
    ("gate", "report"),
    ("pytest_plugin", "__init__"),
    ("bench",),
    ("cli",),
    ("__main__",),
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
EVERYWHERE = {"assay.__version__"}

ON_FIRST_USE = {
    "z3", "triton", "torch", "flint", "scipy", "sympy", "mpmath", "cvc5",
    "jax", "onnxruntime", "onnx", "distributed", "sklearn",
}  # fmt: skip
NOT_WITH_ASSAY = ON_FIRST_USE | {"hypothesis", "typer", "rich", "asyncio", "unittest", "http"}


def layer(module: str) -> str:
    """The layer of a dotted name: assay.core.operators.views -> core.operators, assay.cli -> cli, assay -> __init__."""
    parts = module.split(".")[1:]
    for length in (2, 1):
        name = ".".join(parts[:length])
        if name in RANK:
            return name
    return parts[0] if parts else "__init__"


def imports(tree: ast.Module, module: str, *, package: bool) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of every import anywhere in the tree; `from a import b` gives a.b."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.split(".")
                parts = parts[: len(parts) - node.level + package]
                base = ".".join([*parts, base] if base else parts)
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


def layering_faults(source: str, module: str, *, package: bool = False) -> list[str]:
    """What the source of a module imports from a lower place in the list."""
    own = layer(module)
    if own not in RANK:
        return [f"{module}: {own} has no place in LAYERS"]
    found: list[str] = []
    for line, name in imports(ast.parse(source), module, package=package):
        if name.split(".")[0] != "assay" or name in EVERYWHERE:
            continue
        other = layer(name)
        rank = RANK.get(other, RANK["__init__"])
        if other != own and rank >= RANK[own]:
            found.append(f"{module}:{line}: {own} imports {name}, which stands below it")
    return found


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def eager_imports(source: str, forbidden: set[str]) -> list[str]:
    """The forbidden libraries that the source imports when it is loaded: outside functions and TYPE_CHECKING."""
    found: list[str] = []
    todo: list[ast.AST] = [ast.parse(source)]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if is_type_checking(node):
            assert isinstance(node, ast.If)
            todo += node.orelse
            continue
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        found += [f"line {node.lineno}: {name}" for name in names if name.split(".")[0] in forbidden]  # type: ignore[attr-defined]
        todo += ast.iter_child_nodes(node)
    return found


FILES = sorted(ROOT.rglob("*.py"))


def module_of(path: Path) -> str:
    parts = ["assay", *path.relative_to(ROOT).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_imports_only_what_stands_above(path: Path) -> None:
    assert layering_faults(path.read_text(), module_of(path), package=path.name == "__init__.py") == []


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_heavy_libraries_load_on_first_use(path: Path) -> None:
    assert eager_imports(path.read_text(), ON_FIRST_USE) == []


def test_import_assay_loads_no_heavy_library() -> None:
    code = "import sys, assay; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "assay" in loaded
    assert sorted(NOT_WITH_ASSAY.intersection(loaded)) == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("assay.core.lang", "from assay.semantics import denote"),
        ("assay.core.lang", "from assay.core.operators import registry"),
        ("assay.core.lang", "from .operators import registry"),
        ("assay.core.lang", "from .. import backends"),
        ("assay.core.lang", "def f():\n    import assay.backends.cpp"),
        ("assay.core.lang", "import assay"),
        ("assay.core.lang", "from assay import compile"),
        ("assay.semantics.denote", "from ..transforms.lower import lower"),
        ("assay.transforms.lower", "from assay.verify import bounds"),
        ("assay.frontends.eager", "from assay.fuzz import generate"),
        ("assay.fuzz.oracle", "from assay import cli"),
        ("assay.elsewhere.thing", ""),
    ],
)
def test_a_wrong_import_is_found(module: str, source: str) -> None:
    assert len(layering_faults(source, module)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("assay.core.lang", "from assay.core import index\nfrom . import dtypes\nfrom .dtypes import f32\nimport numpy"),
        ("assay.core.operators.views", "from ..lang import tensor\nfrom assay.core.lang import E"),
        ("assay.backends.cpp", "from ..verify.bounds import prove\nfrom assay import __version__"),
        ("assay.cli", "from assay import fuzz, gate\nfrom assay.backends import build"),
    ],
)
def test_a_right_import_passes(module: str, source: str) -> None:
    assert layering_faults(source, module) == []


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("import z3", 1),
        ("from scipy.optimize import linprog", 1),
        ("try:\n    import torch\nexcept ImportError:\n    torch = None", 1),
        ("class A:\n    import sympy", 1),
        ("if TYPE_CHECKING:\n    import z3\nelse:\n    import triton", 1),
        ("if TYPE_CHECKING:\n    import z3", 0),
        ("def f():\n    import z3", 0),
        ("class A:\n    def f(self):\n        import flint", 0),
        ("from .torch import to_torch", 0),
    ],
)
def test_an_eager_import_is_found(source: str, count: int) -> None:
    assert len(eager_imports(source, ON_FIRST_USE)) == count
