"""The errors of programs: what a `require` that does not hold raises, on every backend."""

from __future__ import annotations

import re
from typing import Any, NoReturn

import numpy as np

from assay.core.errors import AssayError, InternalError
from assay.core.lang import T


class RequireError(AssayError):
    """A condition of the program does not hold: `tensor` is the require, `index` its first failing element, `value` its value.

    Raised as the subclass that is also the Python exception which the message names.
    """

    tensor: T
    index: tuple[int, ...]
    value: Any


class RequireIndexError(RequireError, IndexError):
    """An index read from data lies outside."""


class RequireZeroDivisionError(RequireError, ZeroDivisionError):
    """An integer division by zero."""


class RequireValueError(RequireError, ValueError):
    """A value that the operation does not allow."""


class RequireRuntimeError(RequireError, RuntimeError):
    """Any other condition (the default)."""


CLASSES: dict[str, type[RequireError]] = {
    "IndexError": RequireIndexError,
    "ZeroDivisionError": RequireZeroDivisionError,
    "ValueError": RequireValueError,
    "RuntimeError": RequireRuntimeError,
}

WRAPPED = re.compile(r"\{wrapped:(\d+)\}")


def raise_require(t: T, flat_index: int, value: Any) -> NoReturn:
    """Raises the error of the require `t` whose first failing element is `flat_index` (C order), with body value `value`.

    A message "[IndexError] index {value} at {index} ..." is an IndexError that says the rest, with {value} and {index}
    replaced; {wrapped:128} becomes ", here -129" where the value -1 is the index -129 wrapped once in an axis of 128, and
    nothing where the value is not negative.  Without a class in brackets it is a RuntimeError.
    """
    name, text = "RuntimeError", t.message
    if text.startswith("["):
        name, _, text = text[1:].partition("]")
    if name not in CLASSES:
        raise InternalError(f"require message {t.message!r}: the class in brackets must be one of {', '.join(CLASSES)}")
    index = tuple(int(i) for i in np.unravel_index(flat_index, t.shape))
    number = value.item() if isinstance(value, np.generic | np.ndarray) else value
    text = text.strip().replace("{value}", repr(number)).replace("{index}", repr(list(index)))
    text = WRAPPED.sub(lambda found: f", here {number - int(found[1])}" if number < 0 else "", text)
    error = CLASSES[name](text)
    error.tensor, error.index, error.value = t, index, number
    raise error
