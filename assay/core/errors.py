"""Whose fault it is: every error that Assay raises on purpose is one of these.

UserError      the input is wrong: dtype, shape, name, file, option (also a ValueError)
OutOfBounds    a UserError about an index (also an IndexError)
UnknownName    a UserError about a function or method that does not exist (also an AttributeError)
Unsupported    the construct has no meaning here yet (also a NotImplementedError)
Unsound        a pass, a rule or a backend broke its contract: a bug in the compiler that was checked
InternalError  Assay itself is broken
"""

from __future__ import annotations


class AssayError(Exception):
    """Base of all deliberate errors."""


class UserError(AssayError, ValueError):
    """The caller's input is wrong; the message names the values and what is allowed."""


class NoView(UserError):
    """A view was asked for of elements that no strides express."""


class OutOfBounds(UserError, IndexError):
    """An index known before anything runs lies outside its dimension."""


class UnknownName(UserError, AttributeError):
    """A function, method or module that does not exist; the message says which are near, or what to use instead."""


class Unsupported(AssayError, NotImplementedError):
    """A construct that has no meaning here; the message says what to use instead."""


class Unsound(AssayError):
    """A contract was broken: two programs that must agree do not."""


class InternalError(AssayError):
    """A defect of Assay itself."""
