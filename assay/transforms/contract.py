"""What a transformation promises, as a value that the checker runs.

bitwise         every output has the bits of the source's, for every input; the same inputs are errors
reals(laws)     equal over the real numbers, by the named laws; the bits may differ within the bound of each law
refines         inputs on which the source is defined keep their bits; inputs on which it is an error may not be errors
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from assay.core.lang import Program

BITWISE, REALS, REFINES = "bitwise", "reals", "refines"


@dataclass(frozen=True)
class Contract:
    """`kind` is BITWISE, REALS or REFINES; `laws` are the names of the algebraic laws that REALS used."""

    kind: str
    laws: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return f"{self.kind}[{', '.join(sorted(self.laws))}]" if self.laws else self.kind

    def then(self, other: Contract) -> Contract:
        """The contract of this followed by the other: the weaker kind, both sets of laws."""
        weaker = max(self, other, key=lambda c: (BITWISE, REFINES, REALS).index(c.kind))
        return Contract(weaker.kind, self.laws | other.laws)


bitwise = Contract(BITWISE)
refines = Contract(REFINES)


def reals(*laws: str) -> Contract:
    """Equal over the reals by these laws."""
    return Contract(REALS, frozenset(laws))


@dataclass(frozen=True)
class Transform:
    """A transformation of programs.  Calling it gives the new program (the same object where it does not apply)."""

    name: str
    contract: Contract
    run: Callable[..., Program]
    doc: str = field(compare=False)

    def __call__(self, program: Program, **options: Any) -> Program:
        return self.run(program, **options)


TRANSFORMS: dict[str, Transform] = {}


def transform(*, contract: Contract) -> Callable[[Callable[..., Program]], Transform]:
    """Declare the function as a transformation with this contract, under its own name."""

    def declare(run: Callable[..., Program]) -> Transform:
        name = run.__name__
        if name in TRANSFORMS:
            raise ValueError(f"two transformations are called {name}")
        made = TRANSFORMS[name] = Transform(name, contract, run, run.__doc__ or "")
        return made

    return declare


def all_transforms() -> dict[str, Transform]:
    """Every transformation of the folder, by name."""
    import assay.transforms as folder

    for module in pkgutil.iter_modules(folder.__path__):
        importlib.import_module(f"assay.transforms.{module.name}")
    return dict(sorted(TRANSFORMS.items()))
