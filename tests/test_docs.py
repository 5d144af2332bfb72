"""What the documents show is true: every Python block runs, every shown output is what comes out, every link leads somewhere.

    ```python     runs, in the namespace of its page; a ```text block right after it is what it prints
    ```pycon      a session: each expression is followed by its value
    ```console    `$ assay ...` lines run in a copy of the repository's root, followed by what they print
    ```program    parses, and prints as it stands
    "..." in an output stands for anything.  Blocks of other kinds (sh, text) are not run.
"""

import contextlib
import doctest
import io
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import assay
from assay.cli.commands import app

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NEEDS_COMPILER = {"README.md"}


def blocks(text: str) -> Iterator[tuple[int, str, str, str | None]]:
    """(line, kind, content, the text block right after it or None) of every block that runs."""
    found = list(BLOCK.finditer(text))
    for k, block in enumerate(found):
        shown = None
        if k + 1 < len(found) and found[k + 1][1] == "text" and not text[block.end() : found[k + 1].start()].strip():
            shown = found[k + 1][2]
        yield text.count("\n", 0, block.start()) + 2, block[1], block[2], shown


def agrees(shown: str, printed: str) -> bool:
    """Whether the output is as shown, with "..." for anything; the ends of lines do not count."""
    pattern = ".*".join(map(re.escape, _trimmed(shown).split("...")))
    return re.fullmatch(pattern, _trimmed(printed), re.DOTALL) is not None


def _trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.splitlines()).strip("\n")


def run_python(code: str, shown: str | None, where: str, line: int, names: dict[str, Any]) -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile("\n" * (line - 1) + code, where, "exec"), names)
    assert shown is None or agrees(shown, printed.getvalue()), f"{where}:{line} prints\n{printed.getvalue()}"


def run_session(code: str, where: str, line: int, names: dict[str, Any]) -> None:
    for example in doctest.DocTestParser().get_examples(code):
        at = line + example.lineno
        printed = io.StringIO()
        raised = None
        try:
            with contextlib.redirect_stdout(printed):
                exec(compile("\n" * (at - 1) + example.source, where, "single"), names)
        except Exception as error:
            raised = f"{type(error).__name__}: {error}"
        shown = example.exc_msg if raised is not None else example.want
        assert shown is not None, f"{where}:{at} raises {raised}"
        assert agrees(shown, raised or printed.getvalue()), f"{where}:{at} {example.source}gives\n{raised or printed.getvalue()}"


def run_console(text: str, where: str) -> None:
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        program, *arguments = shlex.split(command)
        assert program == "assay", f"{where}: only `assay` commands run, not {command!r}; say `sh` instead of `console`"
        result = CliRunner(env={"COLUMNS": "100"}).invoke(app, arguments)
        assert agrees(shown, result.output), f"{where}: $ {command}\n{result.output}"


def run_page(text: str, where: str) -> int:
    """Runs the blocks of a page; returns how many ran."""
    names: dict[str, Any] = {}
    count = 0
    for line, kind, content, shown in blocks(text):
        count += kind in ("python", "pycon", "console", "program")
        if kind == "python":
            run_python(content, shown, where, line, names)
        elif kind == "pycon":
            run_session(content, where, line, names)
        elif kind == "console":
            run_console(content, where)
        elif kind == "program":
            assert assay.show(assay.parse(content)) == content, f"{where}:{line} prints as\n{assay.show(assay.parse(content))}"
    return count


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the examples and the case corpus of the repository, where commands may write."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("examples", "tests"):
        (folder / name).symlink_to(ROOT / name)
    return folder


@pytest.mark.parametrize(
    "page", [pytest.param(p, id=p.name, marks=[pytest.mark.cpp] if p.name in NEEDS_COMPILER else []) for p in PAGES]
)
def test_page(page: Path, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(checkout)
    run_page(page.read_text(encoding="utf-8"), page.name)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links(page: Path) -> None:
    """Relative links lead to files; names of files in back quotes exist."""
    text = page.read_text(encoding="utf-8")
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text) if not link.startswith(("http", "#"))]
    assert [link for link in links if not (page.parent / link).exists()] == []
    named = re.findall(r"`((?:assay|docs|examples|tests|tools|benchmarks)/[\w./-]+)`", text)
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_every_page_is_in_the_readme() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [p.name for p in PAGES if p.parent.name == "docs" and f"docs/{p.name}" not in text] == []


@pytest.mark.parametrize("page", [
    "```python\nprint(1)\n```\n\n```text\n2\n```\n",
    "```python\nx = y\n```\n",
    "```pycon\n>>> 1 + 1\n3\n```\n",
    "```pycon\n>>> 1 // 0\n0\n```\n",
    "```pycon\n>>> [][0]\nTraceback (most recent call last):\nKeyError: ...\n```\n",
    "```pycon\n>>> 1 + 1\nTraceback (most recent call last):\nKeyError: ...\n```\n",
    "```console\n$ assay passes\nnothing\n```\n",
    "```console\n$ rm -r x\n```\n",
    "```program\nprogram f(x: f32[2]):\n    return x\n```\n",
])  # fmt: skip
def test_a_false_page_is_found(page: str) -> None:
    with pytest.raises((AssertionError, NameError)):
        run_page(page, "page.md")


def test_a_true_page_passes() -> None:
    code = "```python\nx = 1\nprint(x, 'a', 2)\n```\n```text\n1 ... 2\n```\n"
    session = "```pycon\n>>> x + 1\n2\n>>> x / 0\nTraceback (most recent call last):\nZeroDivisionError: ...\n```\n"
    assert run_page(code + session, "page.md") == 2




def test_the_defect_in_the_readme_is_what_the_demo_prints() -> None:
    """The block that shows the end of `make demo`, which a block of text cannot run."""
    pytest.importorskip("sklearn")
    from examples.digits.demo import refuted

    shown = (ROOT / "README.md").read_text(encoding="utf-8").partition("and a defect, for comparison")[2].partition("```")[0]
    printed = "  " + str(refuted()).replace("\n", "\n  ")
    assert printed.endswith(shown.partition("\n")[2].rstrip("\n"))
