"""What an installation can do, and how to add what is missing."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import warnings
from importlib import metadata, util
from typing import Any

from assay.core.errors import Unsupported

EXTRAS = {  # the module that an optional part needs, and what it adds
    "proof": ("cvc5", "the second solver of `assay prove --recheck`"),
    "torch": ("torch", "a peer of `assay bench` and of the tests"),
    "triton": ("triton", "kernels beside Triton's interpreter, in the tests"),
}
LIBRARIES = ("numpy", "ml-dtypes", "z3-solver", "hypothesis", "typer", "rich", "optree", "scipy")


def installation() -> dict[str, Any]:
    """Compiler, cache, extras and libraries; the exit code is 5 where compiled code cannot be made."""
    from assay.backends.build import asked, chosen

    compiler = chosen()
    path = shutil.which(compiler)
    version, failed = None, ""
    if path is not None:
        try:
            version = asked(path, "--version").partition("\n")[0]
        except Unsupported as error:
            failed = str(error)
    cache = _cache()
    able = version is not None and cache["writable"]
    return {
        "verdict": "OK" if able else "UNSUPPORTED", "exit_code": 0 if able else 5,
        "python": platform.python_version(), "machine": platform.machine(), "cores": len(os.sched_getaffinity(0)),
        "command": compiler, "compiler": version, "compiler_error": failed, "cache": cache,
        "extras": {name: util.find_spec(module) is not None for name, (module, _) in EXTRAS.items()},
        "libraries": {name: metadata.version(name) for name in LIBRARIES},
    }  # fmt: skip


def _cache() -> dict[str, Any]:
    """Where builds are kept, how many, how big; whether the wanted place can be written."""
    from assay.backends import build

    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        path = build.directory()
    sizes = [f.stat().st_size for f in path.glob("*.so")]
    return {"path": str(path), "entries": len(sizes), "bytes": sum(sizes), "writable": not raised}


def doctor_text(found: dict[str, Any]) -> str:
    """The installation as lines, each missing part with its remedy."""
    cache = found["cache"]
    missing = f"{found['command']} is missing: apt-get install -y g++ (without it: backend=\"reference\", --backend reference)"
    readonly = "" if cache["writable"] else "; NOT WRITABLE, set ASSAY_CACHE to a directory that is"
    lines = [
        f"python       {found['python']} on {found['machine']}, {found['cores']} cores",
        f"compiler     {found['compiler'] or found['compiler_error'] or missing}",
        f"cache        {cache['path']}, {cache['entries']} entries, {cache['bytes'] / 1e6:.1f} MB{readonly}",
    ]
    for name, there in found["extras"].items():
        module, adds = EXTRAS[name]
        remedy = "" if there else f"; to have it: {sys.executable} -m pip install {module}"
        lines.append(f"{module:12} {'installed' if there else 'missing'}: {adds}{remedy}")
    lines += [f"{name:12} {version}" for name, version in found["libraries"].items()]
    return "\n".join(lines)
