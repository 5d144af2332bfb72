"""A process that has the libraries imported, none of Assay's own modules, and forks a child for each mutant.

    requests   one line of JSON each on stdin:  {"programs": 60, "files": [], "name": "", "known": [], "seconds": 9, "limits": {}}
    answers    one line of JSON each on stdout: what the child says, or {"died": signal number, "at": the part it looked at}

A child has `limits[part]` seconds of processor time for each part that it looks at, `seconds` where there is no such limit: a
busy machine makes no hang.  Without a mutant it says how long each part took at most.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

LIBRARIES = ("numpy", "ml_dtypes", "z3", "torch")
PATIENCE = 20  # seconds on the clock for a second of processor time, of a child that waits for what never comes


def serve() -> None:
    """Answer requests until there are no more."""
    for name in LIBRARIES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.freeze()  # the children share these pages
    signal.signal(signal.SIGTERM, lambda *_: os.killpg(0, signal.SIGKILL))
    os.setpgid(0, 0)
    for line in sys.stdin:
        print(json.dumps(_forked(json.loads(line))), flush=True)  # noqa: T201


def _forked(request: dict[str, Any]) -> Any:
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _child(request, write)
    os.close(write)
    with open(read, encoding="utf-8") as pipe:
        *told, said = ("", *pipe.read().split("\n"))  # what is looked at, then what was found
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return {"died": -code, "at": told[-1]} if code < 0 else json.loads(said)


def _child(request: dict[str, Any], write: int) -> None:
    """Hunt, say what was found, and end this process."""
    from assay.fuzz.mutants.faults import MUTANTS
    from assay.fuzz.mutants.hunt import control, hunt

    programs, files = request["programs"], list(map(Path, request["files"]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    usual: dict[str, float] = {}
    looked_at, since = "", time.process_time()

    def allow(part: str) -> None:
        """What looking at the part may take; and what the part before has taken."""
        nonlocal looked_at, since
        now = time.process_time()
        usual[looked_at] = max(usual.get(looked_at, 0.0), now - since)
        looked_at, since = part, now
        seconds = request["limits"].get(part, request["seconds"])
        signal.setitimer(signal.ITIMER_PROF, seconds)  # of processor time; its signal ends the process
        signal.setitimer(signal.ITIMER_REAL, PATIENCE * seconds)

    def tell(part: str) -> None:
        os.write(write, f"{part}\n".encode())
        allow(part)

    allow("")

    try:
        if request["name"]:
            found: Any = vars(hunt(MUTANTS[request["name"]], programs, files=files, known=request["known"], tell=tell))
        else:
            found = {"control": control(programs, files, tell)}
            allow("")
            found["usual"] = usual
    except BaseException as error:
        found = {"raised": f"{type(error).__name__}: {error}"}
    with open(write, "w", encoding="utf-8") as pipe:
        json.dump(found, pipe)
    os._exit(0)


if __name__ == "__main__":
    serve()
