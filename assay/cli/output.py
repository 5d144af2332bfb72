"""How commands speak: one JSON object with --json, text otherwise; errors as sentences; exit codes."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

import typer

from assay.core.errors import InternalError, Unsound, Unsupported, UserError
from assay.verify.verdict import INTERNAL, INTERRUPTED, USAGE

UNSUPPORTED_CODE, REFUTED_CODE = 5, 1


def emit(text: str | Callable[[], None], data: dict[str, Any], *, as_json: bool) -> int:
    """Print the object, or the text (a function prints itself); returns data["exit_code"]."""
    if as_json:
        sys.stdout.write(json.dumps(data, default=str) + "\n")
    elif callable(text):
        text()
    else:
        sys.stdout.write(text.rstrip("\n") + "\n")
    return int(data.get("exit_code", 0))


def guarded(command: Callable[[], int], *, as_json: bool) -> NoReturn:
    """Run the command and leave with its exit code; what it raises becomes a message and the code of whose fault it is."""
    raise typer.Exit(_code(command, as_json=as_json))


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
    except InternalError as error:
        return _failed(f"internal error: {error}", "INTERNAL", INTERNAL, as_json=as_json)
    except Exception:
        return _failed(f"internal error\n{traceback.format_exc()}", "INTERNAL", INTERNAL, as_json=as_json)


def _failed(message: str, verdict: str, code: int, *, as_json: bool) -> int:
    if as_json:
        sys.stdout.write(json.dumps({"verdict": verdict, "exit_code": code, "error": message}) + "\n")
    else:
        sys.stderr.write(f"assay: {message}\n")
    return code
