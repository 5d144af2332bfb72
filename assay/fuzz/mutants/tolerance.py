"""What a check by tolerance says of the programs and inputs that show a mutant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np

    from assay.core.lang import Program
    from assay.verify.layered import Arrays


class Shown(NamedTuple):
    """A program and what its passes made of it, the number of its random schedules (None: the best), and inputs."""

    source: Program
    final: Program
    schedule: int | None
    inputs: Sequence[Arrays]


def allclose(got: np.ndarray, expected: np.ndarray) -> bool:
    """|got - expected| <= 1e-3 + 1e-2 |expected|, NaN where NaN is expected."""
    import numpy as np

    with np.errstate(all="ignore"):
        close = np.allclose(_wide(got), _wide(expected), rtol=1e-2, atol=1e-3, equal_nan=True)
        return got.shape == expected.shape and bool(close)


def assert_close(got: np.ndarray, expected: np.ndarray) -> bool:
    """|got - expected| <= atol + rtol |expected| with the defaults of torch.testing.assert_close for the type."""
    import numpy as np

    rtol, atol = {"float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7)}.get(
        str(expected.dtype), (0.0, 0.0)
    )
    with np.errstate(all="ignore"):
        return (got.shape, got.dtype) == (expected.shape, expected.dtype) and bool(
            np.allclose(_wide(got), _wide(expected), rtol=rtol, atol=atol, equal_nan=True)
        )


def sums(got: np.ndarray, expected: np.ndarray) -> bool:
    """The sums of all elements are within 1 % of each other (both NaN, or the same infinity, count as equal)."""
    import numpy as np

    with np.errstate(all="ignore"):
        return bool(np.allclose(_wide(got).sum(), _wide(expected).sum(), rtol=1e-2, atol=1e-3, equal_nan=True))


def _wide(a: np.ndarray) -> np.ndarray:
    import numpy as np

    return a if a.dtype.kind in "iu" else a.astype(np.float64)


TOLERANCES: dict[str, Callable[[np.ndarray, np.ndarray], bool]] = {
    "allclose(1e-2, 1e-3)": allclose, "assert_close": assert_close, "sums": sums,
}  # fmt: skip


def tolerated(shown: Sequence[Shown]) -> tuple[str, ...]:
    """The rules by which the compiled results of all these programs are right; none where compiling or running them raises."""
    from assay.backends.cpp import compile_many
    from assay.fuzz.campaign import QUICK
    from assay.fuzz.oracle import scheduled
    from assay.semantics.denote import run

    left = dict(TOLERANCES)
    try:
        chosen = [scheduled(x.final, x.schedule) for x in shown]
        compiled = compile_many([p for p, _ in chosen], plans=[plan for _, plan in chosen], flags=QUICK)
        for x, executable in zip(shown, compiled, strict=True):
            for xs in x.inputs:
                expected = _outcome(lambda xs=xs, p=x.source: run(p, xs))
                got = _outcome(lambda xs=xs, f=executable: list(f(xs)))
                if expected is None or got is None:
                    left = left if expected is got else {}
                    continue
                left = {n: rule for n, rule in left.items() if all(map(rule, got, expected))}
    except Exception:
        return ()
    return tuple(left)


def _outcome(f: Callable[[], Arrays]) -> Arrays | None:
    """The results, or None where a check of the program fails."""
    from assay.semantics.failure import RequireError

    try:
        return f()
    except RequireError:
        return None
