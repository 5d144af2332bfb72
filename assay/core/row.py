"""What one row of the scalar table holds, and the table itself (filled by core/scalar.py).

A row declares a scalar function once, with its readings side by side.  Columns:

    types    (dtype, ...) -> dtype, or raises UserError naming what is allowed
    numpy    the IEEE meaning on numpy arrays (primitive rows)
    define   the composition of primitive rows that IS the meaning (named rows); called with E nodes
    range    interval of an integer result from the intervals of the arguments, before wrapping
    monoid   the neutral element and the algebraic laws that hold bit for bit, where the row is a fold's step
    lin      the derivative: (arguments..., result) -> one linear map (`Linear`) for each argument.  A scalar linear map is
             its own transpose, so one column carries tangents and cotangents.  It is not asked on integers: they have none
    cases    (arguments..., result) literals, never empty
    ulp      measured worst error by dtype, in units in the last place (docs/accuracy.md); 0.5 means correctly rounded

A cell that has no entry holds `Unsupported("why")`, never None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from assay.core.dtypes import DType
from assay.core.errors import Unsupported, UserError

Interval: TypeAlias = tuple[int, int]
Types: TypeAlias = Callable[..., DType]
Linear: TypeAlias = "Callable[[Any], Any] | Where | None"
Derivative: TypeAlias = Callable[..., tuple[Linear, ...]]

PRIMITIVE, NAMED, DERIVED = "primitive", "named", "derived"


@dataclass(frozen=True)
class Where:
    """The linear map c -> c where `condition` (a bool node) holds, else 0.

    It is no product: what does not pass is 0 though c be infinite or NaN, and conditions are kept apart from values until a
    derivative is stored, so that the branch of a `select` that is not taken contributes nothing, whatever its slope is there.
    """

    condition: Any


@dataclass(frozen=True)
class Monoid:
    """neutral(dtype) is the Python number e with e + a == a, bit for bit; `laws` are those that hold bit for bit."""

    neutral: Callable[[DType], int | float | bool]
    exact_for: Callable[[DType], bool]

    def is_exact(self, d: DType) -> bool:
        """Whether the operation is associative and commutative on the bits of `d`, so any split equals the fold."""
        return self.exact_for(d)


@dataclass(frozen=True, eq=False)
class Row:
    """One scalar function; compared by identity."""

    name: str
    params: tuple[str, ...]
    kind: str
    types: Types
    doc: str
    numpy: Callable[..., Any] | Unsupported
    define: Callable[..., Any] | Unsupported
    range: Callable[..., Interval] | Unsupported
    monoid: Monoid | Unsupported
    lin: Derivative | Unsupported
    cases: tuple[tuple[Any, ...], ...]
    ulp: Mapping[str, float] = field(default_factory=dict)

    @property
    def arity(self) -> int:
        return len(self.params)

    def __repr__(self) -> str:
        return f"<row {self.name}({', '.join(self.params)})>"


TABLE: dict[str, Row] = {}

MARKS = frozenset(("stop", "as_if"))
"""The rows that are their first argument, and say something of its derivative."""


def row(name: str) -> Row:
    """The row called `name`.  Raises UserError with the nearest names."""
    found = TABLE.get(name)
    if found is None:
        import difflib

        near = ", ".join(difflib.get_close_matches(name, TABLE, n=3)) or "see `assay ops --scalar`"
        raise UserError(f"unknown scalar function {name!r}; did you mean: {near}")
    return found


def same(*allowed: DType) -> Types:
    """All arguments have one type of `allowed`, and so has the result."""

    def types(*args: DType) -> DType:
        if args.count(args[0]) != len(args) or args[0] not in allowed:
            raise UserError(f"argument types {_names(args)}; allowed: one type of {_names(allowed)} for all arguments")
        return args[0]

    return types


def to(result: DType, *allowed: DType) -> Types:
    """All arguments have one type of `allowed`; the result is `result`."""
    check = same(*allowed)

    def types(*args: DType) -> DType:
        check(*args)
        return result

    return types


def _names(types: tuple[DType, ...]) -> str:
    return "(" + ", ".join(t.name for t in types) + ")"
