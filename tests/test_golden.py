"""The golden fixture fails when it should: a missing file, a differing text; and it accepts only when asked."""

from pathlib import Path

import pytest

from tests.conftest import compare_golden


def test_missing_file_fails(tmp_path: Path) -> None:
    with pytest.raises(pytest.fail.Exception, match="no golden file"):
        compare_golden(tmp_path / "a.txt", "text", accept=False)


def test_other_text_fails(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text\n")
    compare_golden(tmp_path / "a.txt", "text", accept=False)
    with pytest.raises(AssertionError, match="differs"):
        compare_golden(tmp_path / "a.txt", "texts", accept=False)


def test_accept_writes_the_text(tmp_path: Path) -> None:
    compare_golden(tmp_path / "new" / "a.txt", "text", accept=True)
    compare_golden(tmp_path / "new" / "a.txt", "text", accept=False)


@pytest.mark.parametrize("ci", ["true", "1"])
def test_ci_never_accepts(monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config, ci: str) -> None:
    from tests import conftest

    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr(pytestconfig.option, "accept", True)
    with pytest.raises(pytest.UsageError, match="does not run in CI"):
        conftest.pytest_configure(pytestconfig)
