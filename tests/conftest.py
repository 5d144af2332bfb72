"""Fixtures for every test: golden texts, the C++ compiler or the reason why there is none, reproducible Hypothesis."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import hypothesis
import pytest

CASES = Path(__file__).parent / "cases"

hypothesis.settings.register_profile("assay", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("assay")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--accept", action="store_true", help="rewrite the golden files that differ (never in CI)")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--accept") and os.environ.get("CI"):
        raise pytest.UsageError("--accept does not run in CI: accept golden files by hand and commit them")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    compiler = os.environ.get("CXX", "g++")
    if shutil.which(compiler) is None:
        reason = f"no C++ compiler ({compiler} is not on PATH): apt-get install -y g++"
        for item in items:
            if item.get_closest_marker("cpp"):
                item.add_marker(pytest.mark.skip(reason=reason))


def compare_golden(path: Path, text: str, *, accept: bool) -> None:
    """The text equals the file at path; with accept, the file becomes the text. A missing file is a failure."""
    if not text.endswith("\n"):
        text += "\n"
    if accept:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return
    if not path.exists():
        pytest.fail(f"no golden file {path}; look at the text, then run pytest --accept:\n{text}")
    assert text == path.read_text(encoding="utf-8"), f"{path} differs; if the new text is right, run pytest --accept"


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """golden(name, text): the text equals tests/cases/<name>."""
    accept: bool = request.config.getoption("--accept")

    def check(name: str, text: str) -> None:
        compare_golden(CASES / name, text, accept=accept)

    return check
