"""A process of its own for judging, so that compiled code that crashes is a finding and not the end of the campaign."""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from types import TracebackType
from typing import Self

from assay.backends.build import FLAGS
from assay.compiler import check_backend
from assay.fuzz.oracle import Judged, draw_many_arrays, judge_on
from assay.fuzz.recipe import Recipe
from assay.verify.layered import Arrays


class Judge:
    """Judges recipes in this process."""

    def __init__(self, backend: str = "cpp") -> None:
        check_backend(backend)
        self.backend = backend

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Nothing is held."""

    def judge(self, recipes: Sequence[Recipe], seed: int, flags: tuple[str, ...] = FLAGS) -> list[Judged]:
        """As judge_on, on inputs drawn with the seed."""
        return self.judge_on(recipes, draw_many_arrays(recipes, seed), flags)

    def judge_on(self, recipes: Sequence[Recipe], inputs: Sequence[Sequence[Arrays]],
                 flags: tuple[str, ...] = FLAGS) -> list[Judged]:  # fmt: skip
        """As oracle.judge_on."""
        return judge_on(recipes, inputs, backend=self.backend, flags=flags)


class Worker(Judge):
    """Judges recipes in one child process, which is replaced when it dies."""

    def __init__(self, backend: str = "cpp") -> None:
        super().__init__(backend)
        self._pool: ProcessPoolExecutor | None = None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def judge_on(self, recipes: Sequence[Recipe], inputs: Sequence[Sequence[Arrays]],
                 flags: tuple[str, ...] = FLAGS) -> list[Judged]:  # fmt: skip
        """As oracle.judge_on; a recipe whose code kills the process is judged wrong at the stage "crash"."""
        if self._pool is None:
            self._pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
        try:
            given = [list(xs) for xs in inputs]
            return self._pool.submit(judge_on, list(recipes), given, backend=self.backend, flags=flags).result()
        except BrokenProcessPool:
            self._pool = None
        if len(recipes) == 1:
            return [Judged(recipes[0], tuple(inputs[0]), None, "crash: the process died while it ran this program")]
        half = len(recipes) // 2
        found = self.judge_on(recipes[:half], inputs[:half], flags) + self.judge_on(recipes[half:], inputs[half:], flags)
        if all(j.stage != "crash" for j in found):
            for k, (r, xs) in enumerate(zip(recipes, inputs, strict=True)):
                found[k] = found[k] if not found[k].ok else Judged(r, tuple(xs), None, _TOGETHER)
        return found


_TOGETHER = "crash: the process died while it ran these programs together, and not when each half ran alone"
