"""C++ text -> shared object, through a content-hashed cache on disk.

The key is a hash of the text, the flags, the compiler and the processor, so a build is never used on another machine.
A file is the shared object followed by a digest of its name and itself: a truncated or damaged file, or one that was stored
under another name, is not used, but built again.  It appears under its name by an atomic rename, so concurrent processes,
and processes that are killed, do no harm.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import errno
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from assay.backends.target import Target, host
from assay.core.errors import InternalError, Unsupported
from assay.core.files import UNFINISHED

# vectors are explicit: g++'s own vectoriser only regroups the scalars of a register tile (a 4 x 24 GEMM tile ran at half speed)
FLAGS = ("-O2", "-march=native", "-fno-tree-vectorize", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fwrapv",
         "-fPIC", "-shared", "-std=c++17", "-w", "-Wno-psabi", "-pthread", "-lm")  # fmt: skip
MAGIC = b"assay-build-2\0"
MOST = 8192  # files in the cache
DAY = 86400.0
ENDED = (b"signal terminated", b"terminated with signal",  # g++ of a compiler or linker that had no memory or was killed
         *(os.strerror(number).encode() for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)))  # fmt: skip
_loaded: dict[str, ctypes.CDLL] = {}


class Built(NamedTuple):
    """A loaded library; `seconds` that g++ took (0.0: found in the cache or loaded before)."""

    library: ctypes.CDLL
    seconds: float
    key: str


def directory() -> Path:
    """$ASSAY_CACHE, or assay in $XDG_CACHE_HOME (a relative path does not count) or ~/.cache.

    Where that cannot be written: a directory of this process, with a RuntimeWarning, deleted when it ends.
    """
    caches = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(caches):
        caches = os.path.expanduser("~/.cache")
    return _writable(os.environ.get("ASSAY_CACHE") or os.path.join(caches, "assay"))


def _users_level() -> int:
    """The stacklevel of a warning that quotes the line of the user, the innermost frame outside the package and Python's own."""
    ours = tuple(f"{folder}{os.sep}" for folder in (Path(__file__).parent.parent, Path(os.__file__).parent))
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(ours):
        frame, level = frame.f_back, level + 1
    return level


@cache
def _writable(wanted: str) -> Path:
    path = Path(wanted) / "cpp"
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            tidy(path)
            return path
    except OSError as error:
        own = Path(tempfile.mkdtemp(prefix="assay-"))
        atexit.register(_remove, own, os.getpid())
        warnings.warn(f"the build cache {path} cannot be written ({error}); builds of this process go to {own} and are not "
                      "kept. Set ASSAY_CACHE to a writable directory.", RuntimeWarning, stacklevel=_users_level())  # fmt: skip
        return own


def _remove(own: Path, process: int) -> None:
    if os.getpid() == process:  # not a fork of it
        shutil.rmtree(own, ignore_errors=True)


def tidy(path: Path) -> None:
    """Delete what killed builds have left, and the older half of more than MOST files."""
    files: list[tuple[float, Path]] = []
    for f in path.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another process tidies too
            files.append((f.stat().st_mtime, f))
    stale = [f for at, f in files if f.name.startswith(UNFINISHED) and at < time.time() - DAY]
    if len(files) > MOST:
        stale += [f for _, f in sorted(files)[: len(files) // 2]]
    for f in stale:
        f.unlink(missing_ok=True)


def chosen() -> str:
    """The compiler that is asked for: $CXX, or g++."""
    return os.environ.get("CXX") or "g++"


@cache
def compiler() -> tuple[str, str]:
    """Path and version of g++, or of $CXX.  Raises Unsupported where there is none that works."""
    wanted = chosen()
    path = shutil.which(wanted)
    if path is None:
        raise Unsupported(f'the C++ backend needs {wanted}, which is not on PATH; install it (Debian, Ubuntu: "apt install g++") '
                          'or use backend="reference" (a command: --backend reference)')  # fmt: skip
    return path, asked(path, "-dumpfullversion", "-dumpmachine")


def asked(path: str, *options: str) -> str:
    """What the compiler prints for the options.  Raises Unsupported where it ends with an error and prints nothing."""
    try:
        done = subprocess.run([path, *options], capture_output=True, text=True, errors="replace", check=False)
        printed, failed = done.stdout.strip(), f"ended with {done.returncode}: {done.stderr.strip()[:500]}"
        if printed or not done.returncode:
            return printed
    except OSError as error:
        failed = f"does not run: {error.strerror}"
    raise Unsupported(f'the C++ backend needs a g++ that works: `{path} {" ".join(options)}` {failed}; set CXX to another, '
                      'unset it, or use backend="reference" (a command: --backend reference)')  # fmt: skip


def key(text: str, flags: tuple[str, ...] = FLAGS, target: Target | None = None) -> str:
    """What identifies a build."""
    parts = (text, "\0".join(flags), *compiler(), (target or host()).identity)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:40]


def load(name: str) -> ctypes.CDLL | None:
    """The library of the build `name`, or None where there is no intact one."""
    found = _loaded.get(name)
    if found is None:
        found = _load(directory() / f"{name}.so")
        if found is not None:
            _loaded[name] = found
    return found


def build(text: str, *, flags: tuple[str, ...] = FLAGS, meanwhile: Callable[[], None] = lambda: None) -> Built:
    """Compile and load `text`; `meanwhile` is called while g++ runs, if it does.

    Raises InternalError with the command and the path of the text where g++ refuses it.
    """
    name = key(text, flags)
    path, seconds = directory() / f"{name}.so", 0.0
    library = load(name)
    if library is None:
        start = time.perf_counter()
        _compile(text, flags, path, meanwhile)
        seconds = time.perf_counter() - start
        library = _load(path)
        if library is None:
            raise InternalError(f"the build {path} cannot be loaded although g++ has just written it")
    _loaded[name] = library
    return Built(library, seconds, name)


def _load(path: Path) -> ctypes.CDLL | None:
    """The library, or None where there is no intact one."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    body, mark, kept = data[: -len(MAGIC) - 32], data[-len(MAGIC) - 32 : -32], data[-32:]
    if mark != MAGIC or digest(path, body) != kept:
        return None
    try:
        return ctypes.CDLL(str(path))
    except OSError:
        return None


def digest(path: Path, body: bytes) -> bytes:
    """Of what a file of the cache holds and of its name: one that was moved to another name is not intact."""
    return hashlib.sha256(path.name.encode() + b"\0" + body).digest()


def _compile(text: str, flags: tuple[str, ...], path: Path, meanwhile: Callable[[], None]) -> None:
    try:
        handle, temporary = tempfile.mkstemp(prefix=UNFINISHED, suffix=".so", dir=path.parent)
    except OSError as error:
        raise _unwritten(path, str(error)) from None
    os.close(handle)
    try:
        command = [compiler()[0], *flags, "-x", "c++", "-", "-o", temporary]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            if process.stdin is not None:
                with contextlib.suppress(BrokenPipeError):  # g++ has ended already, and says why
                    process.stdin.write(text.encode())
                    process.stdin.close()
                process.stdin = None
            meanwhile()
            _, message = process.communicate()
        except BaseException:
            _end(process)
            raise
        if process.returncode:
            if any(word in message for word in ENDED):
                raise _unwritten(path, message.decode(errors="replace").strip()[:500])
            source = path.with_suffix(".cpp")
            source.write_text(text)
            command[command.index("-")] = str(source)
            raise InternalError(f"g++ refused generated code\n  command  {' '.join(command)}\n  text     {source}\n"
                                f"  message  {message.decode(errors='replace')[:2000]}")  # fmt: skip
        body = Path(temporary).read_bytes()
        with open(temporary, "ab") as file:
            file.write(MAGIC + digest(path, body))
        os.replace(temporary, path)
    except OSError as error:
        raise _unwritten(path, str(error)) from None
    finally:
        Path(temporary).unlink(missing_ok=True)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End g++, which deletes its temporary files, and the compiler that it runs, which would go on without it."""
    running: list[str] = []
    with contextlib.suppress(OSError):
        running = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.terminate()
    for child in running:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(child), signal.SIGKILL)
    process.wait()


def _unwritten(path: Path, why: str) -> Unsupported:
    return Unsupported(f"a build could not be made in the cache {path.parent}: {why}\n  Free some space there and in "
                       f'{tempfile.gettempdir()} (or memory), set ASSAY_CACHE to another directory, or use backend="reference" '
                       "(a command: --backend reference)")  # fmt: skip
