"""A process of its own for judging: code that crashes, hangs or eats the memory is a finding and not the end of the campaign.

The child says what it is about to do (a program, or the build of all) and sends each verdict as soon as it has it.  When
it dies or says nothing for too long, it is killed with its compiler, and what it was doing is judged again alone.
"""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Any, NamedTuple, Self

from assay.backends.build import FLAGS
from assay.compiler import check_backend
from assay.core.errors import InternalError
from assay.fuzz.generate import random_recipe
from assay.fuzz.oracle import BUILDING, Judged, Tell, draw_many_arrays, judge_on
from assay.fuzz.recipe import Recipe
from assay.verify.layered import Arrays

LIMIT = 60.0  # seconds for any one step of one program; a step takes milliseconds
BUILD_LIMIT = 4.0  # seconds more for each program of a file that is built
START_LIMIT = 300.0  # seconds until the child has imported what it needs
RETIRED = 2000  # programs that a child draws: what it keeps of each is a third of a megabyte


class Judge:
    """Judges recipes in this process."""

    def __init__(self, backend: str = "cpp") -> None:
        check_backend(backend)
        self.backend = backend

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Nothing is held."""

    def draw(self, seeds: Sequence[int], most: int) -> list[Recipe]:
        """The program of each seed, of at most `most` operators."""
        return [random_recipe(s, most) for s in seeds]

    def judge(self, recipes: Sequence[Recipe], seed: int, flags: tuple[str, ...] = FLAGS, *, inputs: int = 2, ends: bool = False,
              schedules: Sequence[int | None] | None = None) -> list[Judged]:  # fmt: skip
        """As judge_on, on so many inputs drawn with the seed."""
        return self.judge_on(recipes, draw_many_arrays(recipes, seed, inputs), flags, ends=ends, schedules=schedules)

    def judge_on(self, recipes: Sequence[Recipe], inputs: Sequence[Sequence[Arrays]], flags: tuple[str, ...] = FLAGS, *,
                 ends: bool = False, schedules: Sequence[int | None] | None = None) -> list[Judged]:  # fmt: skip
        """As oracle.judge_on."""
        return judge_on(recipes, inputs, backend=self.backend, flags=flags, ends=ends, schedules=schedules)


class _Lost(NamedTuple):
    """The child is gone: while it was at program `at` (BUILDING: at the build of all), and why."""

    at: int
    stage: str
    how: str


class _Asked(NamedTuple):
    """A program to judge on inputs, and the number of its plan (oracle.judge_on)."""

    recipe: Recipe
    inputs: list[Arrays]
    schedule: int | None


class Worker(Judge):
    """Judges recipes in one child process, which is replaced when it dies or hangs (`limit` seconds for a program's step)."""

    def __init__(self, backend: str = "cpp", *, limit: float = LIMIT) -> None:
        super().__init__(backend)
        self.limit = limit
        self._child: BaseProcess | None = None
        self._pipe: Connection | None = None
        self._drawn = 0

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._end()

    def draw(self, seeds: Sequence[int], most: int) -> list[Recipe]:
        """The program of each seed, drawn by the child, which then knows the meanings of their calls."""
        if self._drawn >= RETIRED:
            self._end()
        _, pipe = self._running()
        self._drawn += len(seeds)
        try:
            pipe.send((_draw, (list(seeds), most), {}))
            if pipe.poll(self.limit + len(seeds)):
                kind, _, what = pipe.recv()
                if kind == "drawn":
                    return what
        except (EOFError, ConnectionError):
            pass
        self._end()
        return super().draw(seeds, most)

    def judge_on(self, recipes: Sequence[Recipe], inputs: Sequence[Sequence[Arrays]], flags: tuple[str, ...] = FLAGS, *,
                 ends: bool = False, schedules: Sequence[int | None] | None = None) -> list[Judged]:  # fmt: skip
        """As oracle.judge_on; a recipe whose code kills the process is judged wrong at the stage "crash", one that does
        not end at the stage "hang"."""
        numbers = schedules or [None] * len(recipes)
        asked = [_Asked(r, list(xs), number) for r, xs, number in zip(recipes, inputs, numbers, strict=True)]
        return self._all(asked, flags, ends=ends)

    def _all(self, asked: list[_Asked], flags: tuple[str, ...], *, ends: bool) -> list[Judged]:
        found: dict[int, Judged] = {}
        todo = list(range(len(asked)))
        while todo:
            judged, lost = self._attempt([asked[k] for k in todo], flags, ends=ends)
            found.update((todo[k], j) for k, j in judged.items())
            if lost is not None:
                found.update(self._blame(lost, todo, asked, flags, ends=ends))
            todo = [k for k in todo if k not in found]
        return [found[k] for k in range(len(asked))]

    def _blame(self, lost: _Lost, todo: list[int], asked: list[_Asked], flags: tuple[str, ...], *,
               ends: bool) -> dict[int, Judged]:  # fmt: skip
        """Verdicts that explain the loss: of the program that was run, or of all where the build was at fault."""
        if len(todo) == 1:
            return {todo[0]: _gone(asked[todo[0]], lost, "this program")}
        if lost.at == BUILDING:
            made: dict[int, Judged] = {}
            for part in (todo[: len(todo) // 2], todo[len(todo) // 2 :]):
                made.update(zip(part, self._all([asked[k] for k in part], flags, ends=ends), strict=True))
            return made
        k = todo[lost.at]
        (alone,) = self._all([asked[k]], flags, ends=ends)
        return {k: alone if not alone.ok else _gone(asked[k], lost, "this program, and not when it ran alone")}

    def _attempt(self, asked: list[_Asked], flags: tuple[str, ...], *,
                 ends: bool) -> tuple[dict[int, Judged], _Lost | None]:  # fmt: skip
        """Verdicts of one run of the child, and how it was lost, if it was."""
        child, pipe = self._running()
        found: dict[int, Judged] = {}
        at = BUILDING
        try:
            how = {"backend": self.backend, "flags": flags, "ends": ends, "schedules": [a.schedule for a in asked]}
            pipe.send((judge_on, ([a.recipe for a in asked], [a.inputs for a in asked]), how))
            while len(found) < len(asked):
                seconds = self.limit + (BUILD_LIMIT * len(asked) if at == BUILDING else 0.0)
                if not pipe.poll(seconds):
                    self._end()
                    return found, _Lost(at, "hang", f"nothing came back within {seconds:.0f} seconds")
                kind, at, what = pipe.recv()
                if kind == "judged":
                    found[at] = what
                elif kind == "raised":
                    raise what
        except (EOFError, ConnectionError):
            child.join(self.limit)
            code = child.exitcode
            self._end()
            how = f"killed by {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit code {code}"
            return found, _Lost(at, "crash", f"the process died ({how})")
        except BaseException:  # interrupted in the middle of a batch: the child would answer the next one with this one's
            self._end()
            raise
        return found, None

    def _running(self) -> tuple[BaseProcess, Connection]:
        if self._child is None or self._pipe is None:
            context = multiprocessing.get_context(_start_method())
            self._pipe, theirs = context.Pipe()
            self._child = context.Process(target=_serve, args=(theirs,), daemon=False)
            self._child.start()
            theirs.close()
            self._drawn = 0
            if not self._pipe.poll(START_LIMIT):
                self._end()
                raise InternalError(f"the process that judges programs did not start within {START_LIMIT:.0f} seconds")
            try:
                self._pipe.recv()
            except (EOFError, ConnectionError):
                self._child.join(self.limit)
                code = self._child.exitcode
                self._end()
                raise InternalError(
                    f"the process that judges programs ended before it was ready (exit code {code}): beside other threads it "
                    "imports assay and the main module again, so what it wrote says why; a script needs its "
                    "if __name__ == '__main__'"
                ) from None
        return self._child, self._pipe

    def _end(self) -> None:
        """Kill the child and every process that it started."""
        child, self._child = self._child, None
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            pipe.close()
        if child is not None and child.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.kill()
            child.join()
            child.close()


def _start_method() -> str:
    """How the child starts: by a fork, which imports nothing again, where no other thread of Python could hold a lock."""
    return "fork" if sys.platform == "linux" and threading.active_count() == 1 else "spawn"


def _gone(asked: _Asked, lost: _Lost, what: str) -> Judged:
    doing = "built" if lost.at == BUILDING else "ran"
    error = f"{lost.stage}: {lost.how} while it {doing} {what}"
    return Judged(asked.recipe, tuple(asked.inputs), None, error, schedule=asked.schedule)


def _serve(pipe: Connection) -> None:
    """Judge what comes through the pipe until it closes; runs in the child, which leads its own process group."""
    with contextlib.suppress(PermissionError):
        os.setpgid(0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a crash is found again from its case
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is the parent's to handle
    threading.Thread(target=_end_with_parent, daemon=True).start()
    gc.disable()  # nodes are interned and live: collections take a tenth of the time and find little
    with contextlib.suppress(EOFError, ConnectionError):  # the parent is gone: nobody waits for an answer
        pipe.send(("ready", BUILDING, None))
        while True:
            _answer(pipe, *pipe.recv())


def _answer(pipe: Connection, work: Callable[..., object], args: tuple[Any, ...], how: dict[str, Any]) -> None:
    """Do the work (judge_on or _draw), which tells what it finds; an error of its own goes to the parent."""

    def tell(kind: str, at: int, what: Any = None) -> None:
        pipe.send((kind, at, what))

    try:
        work(*args, **how, tell=tell)
    except ConnectionError:
        raise
    except BaseException as error:
        tell("raised", BUILDING, error)


def _draw(seeds: list[int], most: int, tell: Tell) -> None:
    tell("drawn", 0, [random_recipe(s, most) for s in seeds])


def _end_with_parent() -> None:
    """Kill this process and its compiler when the parent is gone: code that hangs would run for ever."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    wait([parent.sentinel])
    if os.getpgid(0) == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
