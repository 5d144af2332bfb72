"""Options by name: one that is misspelt is an error that names the nearest and what there is."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable
from typing import ParamSpec, TypeVar

from assay.core.errors import UserError

P = ParamSpec("P")
R = TypeVar("R")


def check_options(where: str, given: Iterable[str], allowed: Iterable[str]) -> None:
    """Raises UserError for a name in `given` that is not allowed."""
    known = tuple(allowed)
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            meant = f"did you mean {near[0]}=? " if near else ""
            options = f"it has {', '.join(f'{k}=' for k in known)}" if known else "it has none"
            raise UserError(f"{where} has no option {name}=; {meant}{options}")


def named_options(f: Callable[P, R]) -> Callable[P, R]:
    """f, with `check_options` for the keywords of a call."""
    parameters = inspect.signature(f).parameters
    options = [k for k, p in parameters.items() if p.kind is p.KEYWORD_ONLY]

    @functools.wraps(f)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        check_options(f"{f.__name__}()", (k for k in kwargs if k not in parameters), options)
        return f(*args, **kwargs)

    return checked
