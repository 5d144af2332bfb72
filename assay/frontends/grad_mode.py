"""Whether operators are recorded: a level that is muted lets everything pass.

    with no_grad(): ...        @no_grad()        set_grad_enabled(False)

no_grad mutes the levels of Autograd that are on the stack when it begins: a gradient that is asked for inside has a level of
its own and is not concerned.  In a capture it mutes the trace, whose results are constants for derivatives then.
"""

from __future__ import annotations

import functools
import inspect
from contextlib import ContextDecorator
from typing import Any

from assay.frontends.autograd import AUTOGRAD, Autograd, check_level
from assay.frontends.value import STATE, Interpreter, Trace


def _levels() -> frozenset[Interpreter]:
    return frozenset(level for level in STATE.stack if isinstance(level, Autograd | Trace))


class _Mode(ContextDecorator):
    """Recording on or off, until the block or the decorated function ends."""

    def __init__(self, enabled: bool) -> None:  # noqa: FBT001
        self.enabled = enabled
        self._before: list[frozenset[Interpreter]] = []

    def __enter__(self) -> None:
        self._before.append(STATE.muted)
        _set(self.enabled)

    def __exit__(self, *_: object) -> None:
        STATE.muted = self._before.pop()

    def __call__(self, func: Any) -> Any:
        """The function under the mode; a generator between one `yield` and the next."""
        if not inspect.isgeneratorfunction(func):
            return super().__call__(func)

        @functools.wraps(func)
        def generator(*args: Any, **kwargs: Any) -> Any:
            running = func(*args, **kwargs)
            step, given = running.send, None
            while True:
                try:
                    with _Mode(self.enabled):
                        made = step(given)
                except StopIteration as end:
                    return end.value
                try:
                    step, given = running.send, (yield made)
                except GeneratorExit:
                    running.close()
                    raise
                except BaseException as error:
                    step, given = running.throw, error

        return generator


def _set(enabled: bool) -> None:  # noqa: FBT001
    STATE.muted = STATE.muted - _levels() if enabled else STATE.muted | _levels()


class _Plain(_Mode):
    """A mode that decorates without parentheses too."""

    def __new__(cls, func: Any = None) -> Any:
        made = super().__new__(cls)
        if not callable(func):
            return made
        made.__init__()
        return made(func)


class no_grad(_Plain):
    """Nothing is recorded: with no_grad(): ..., or @no_grad() on a function."""

    def __init__(self) -> None:
        super().__init__(False)


class enable_grad(_Plain):
    """Operators are recorded, also inside of no_grad."""

    def __init__(self) -> None:
        super().__init__(True)


class inference_mode(_Plain):
    """no_grad; inference_mode(False) is enable_grad.  Its results may be used anywhere."""

    def __init__(self, mode: bool = True) -> None:  # noqa: FBT001, FBT002
        super().__init__(not mode)


class set_grad_enabled(_Mode):
    """Recording on or off from here on; as a context manager, until the block ends."""

    def __init__(self, mode: bool) -> None:  # noqa: FBT001
        super().__init__(mode)
        self._at_once = STATE.muted
        _set(mode)

    def __enter__(self) -> None:
        self._before.append(self._at_once)
        _set(self.enabled)

    def __call__(self, func: Any) -> Any:
        STATE.muted = self._at_once  # as a decorator it is for the function alone
        return super().__call__(func)


def is_grad_enabled() -> bool:
    """Whether operators on tensors that require a gradient are recorded now."""
    check_level()
    levels = _levels()
    return not (AUTOGRAD in levels and AUTOGRAD in STATE.muted) and bool(levels - STATE.muted)
