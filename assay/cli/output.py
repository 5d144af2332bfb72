"""How commands speak: one JSON object with --json, text otherwise; errors as sentences; exit codes."""

from __future__ import annotations

import contextlib
import json
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NoReturn, TextIO

import numpy as np
import typer
import typer.core

from assay.core.errors import InternalError, Unsound, Unsupported, UserError
from assay.semantics.failure import RequireError
from assay.verify.verdict import INTERNAL, INTERRUPTED, USAGE

UNSUPPORTED_CODE, REFUTED_CODE = 5, 1
_PACKAGE = Path(__file__).parent.parent
_objects: ContextVar[TextIO | None] = ContextVar("objects", default=None)  # where the object goes while the user's code may print
_UsageError: Any = typer.BadParameter.__bases__[0]  # click's, which some versions of typer hold a copy of


class Commands(typer.core.TyperGroup):
    """The commands; with --json, an option that is wrong is said by an object too."""

    def invoke(self, ctx: Any) -> Any:
        as_json = "--json" in ctx.args
        try:
            return super().invoke(ctx)
        except _UsageError as error:
            if not as_json:
                raise
            raise typer.Exit(_failed(error.format_message(), "USAGE", USAGE, as_json=True)) from None


def emit(text: str | Callable[[], None], data: dict[str, Any], *, as_json: bool) -> int:
    """Print the object, or the text (a function prints itself); returns data["exit_code"]."""
    if as_json:
        _print_object(data)
    elif callable(text):
        text()
    else:
        sys.stdout.write(text.rstrip("\n") + "\n")
    return int(data.get("exit_code", 0))


def guarded(command: Callable[[], int], *, as_json: bool) -> NoReturn:
    """Run the command and leave with its exit code; what it raises becomes a message and the code of whose fault it is.

    With --json the object stands alone on stdout: what the user's code prints goes to stderr.
    """
    token = _objects.set(sys.stdout)
    try:
        with _warnings_said(), contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
            code = _code(command, as_json=as_json)
    finally:
        _objects.reset(token)
    raise typer.Exit(code)


@contextlib.contextmanager
def _warnings_said() -> Iterator[None]:
    """A warning that is not of a line of the user is a sentence too: no line of a library stands beside it."""
    usual = warnings.showwarning

    def said(message: Warning | str, category: type[Warning], filename: str, lineno: int, file: TextIO | None = None,
             line: str | None = None) -> None:  # fmt: skip
        if _is_users(Path(filename)):
            usual(message, category, filename, lineno, file, line)
        else:
            sys.stderr.write(f"assay: warning: {message}\n")

    warnings.showwarning = said
    try:
        yield
    finally:
        warnings.showwarning = usual


def _print_object(data: dict[str, Any]) -> None:
    (_objects.get() or sys.stdout).write(json.dumps(data, default=str) + "\n")


def _code(command: Callable[[], int], *, as_json: bool) -> int:
    try:
        return command()
    except KeyboardInterrupt:
        return _failed("interrupted", "INTERRUPTED", INTERRUPTED, as_json=as_json)
    except Unsupported as error:
        return _failed(str(error), "UNSUPPORTED", UNSUPPORTED_CODE, as_json=as_json)
    except Unsound as error:
        return _failed(f"unsound: {error}", "REFUTED", REFUTED_CODE, as_json=as_json)
    except UserError as error:
        return _failed(str(error), "USAGE", USAGE, as_json=as_json)
    except RequireError as error:  # the program ran and says itself that its inputs are wrong
        kind = next(c.__name__ for c in type(error).__mro__ if c.__module__ == "builtins")
        notes = "".join(f"\n  {note}" for note in getattr(error, "__notes__", ()))
        return _failed(f"{kind}: {error}{notes}", "USAGE", USAGE, as_json=as_json)
    except InternalError as error:
        return _failed(f"internal error: {error}", "INTERNAL", INTERNAL, as_json=as_json)
    except SystemExit as error:  # the user's code ends the process: a command would end without a word, by a code of its own
        where = _users_line(error)
        if where is None:  # rich's, where the reader of a pipe has gone
            raise
        at = f"{where.filename}:{where.lineno}: {where.line}"
        return _failed(f"the target ended the process: SystemExit({error.code!r})\n  {at}", "USAGE", USAGE, as_json=as_json)
    except BrokenPipeError:  # the reader of a pipe has gone: click ends quietly
        raise
    except Exception as error:
        where = _users_line(error)
        if where is not None:
            message = f"{type(error).__name__}: {error}\n  {where.filename}:{where.lineno}: {where.line}"
            return _failed(message, "USAGE", USAGE, as_json=as_json)
        if isinstance(error, OSError) and error.filename is not None:  # a path that was given cannot be read or written
            return _failed(f"{error.filename}: {error.strerror}", "USAGE", USAGE, as_json=as_json)
        return _failed(f"internal error\n{traceback.format_exc()}", "INTERNAL", INTERNAL, as_json=as_json)


def _users_line(error: BaseException) -> traceback.FrameSummary | None:
    """The line of the user's file that raised, or None where it was ours (or a library's that we called)."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if path.is_relative_to(_PACKAGE):
            return None
        if _is_users(path):
            return frame
    return None


def _is_users(path: Path) -> bool:
    """Whether the file is neither ours nor a library's (no file: compiled or frozen code)."""
    libraries = (_PACKAGE, Path(np.__file__).parent.parent, Path(traceback.__file__).parent)
    return path.is_file() and not any(path.is_relative_to(folder) for folder in libraries)


def _failed(message: str, verdict: str, code: int, *, as_json: bool) -> int:
    if as_json:
        _print_object({"verdict": verdict, "exit_code": code, "error": message})
    else:
        sys.stderr.write(f"assay: {message}\n")
    return code
