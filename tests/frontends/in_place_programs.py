"""Random programs of views, in-place updates that derivatives see or do not see, and pure operators."""

from collections.abc import Callable
from typing import Any

import numpy as np

import assay

Step = Callable[[Any, list[Any]], None]
"""What a step does to a list of tensors of a library (assay, or torch)."""
KINDS = "slice select transpose reshape sin product sum add_ mul_ copy_ scale_ fresh unseen detached hidden data".split()
"""hidden: a view made under no_grad."""


def drawn_kind(rng: np.random.Generator, live: list[Any], kinds: list[str]) -> tuple[str, int, int, float]:
    """(kind, number of an operand that is no leaf, number of one of its shape, a factor)."""
    kind = str(rng.choice(kinds))
    k = int(rng.integers(2, len(live)))
    j = int(rng.choice([j for j, b in enumerate(live) if j > 1 and b.shape == live[k].shape]))
    return kind, k, j, float(rng.choice([-0.5, 0.5, 1.5]))


def plain_step(kind: str, rng: np.random.Generator, a: Any, k: int, j: int) -> Step | None:
    """A step on operand k, which is `a`, and operand j that is spelled alike in every library; None for other kinds."""
    if kind == "slice" and a.ndim and a.shape[0] > 1:
        n = int(rng.integers(1, a.shape[0]))
        return lambda lib, v: v.append(v[k][n:])
    if kind == "select" and a.ndim and a.shape[0]:
        n = int(rng.integers(a.shape[0]))
        return lambda lib, v: v.append(v[k][n, ...])
    if kind == "product":
        return lambda lib, v: v.append(v[k] * v[j])
    if kind == "sum" and a.ndim:
        return lambda lib, v: v.append(v[k].sum(-1))
    return None


def random_step(rng: np.random.Generator, live: list[Any], kinds: list[str]) -> Step | None:
    """One step that is legal on the tensors `live`, but for the first two, the leaves, which are not written."""
    kind, k, j, number = drawn_kind(rng, live, kinds)
    a = live[k]
    made = plain_step(kind, rng, a, k, j)
    if made is not None:
        return made
    if kind == "transpose" and a.ndim == 2:
        return lambda lib, v: v.append(v[k].t())
    if kind == "reshape" and a.ndim and a.is_contiguous():
        return lambda lib, v: v.append(v[k].reshape(-1))
    if kind == "sin":
        return lambda lib, v: v.append(v[k].sin())
    if kind == "fresh":
        return lambda lib, v: v.append(v[k] * number)
    if kind == "scale_":
        return lambda lib, v: v[k].mul_(number)
    if kind in ("add_", "mul_", "copy_"):
        return lambda lib, v: getattr(v[k], kind)(v[j])
    if kind == "unseen":

        def step(lib: Any, v: list[Any]) -> None:
            with lib.no_grad():
                v[k].add_(v[j] * number)

        return step
    if kind == "detached":
        return lambda lib, v: v[k].detach().mul_(number)
    if kind == "data" and a.ndim and a.shape[0]:
        return lambda lib, v: v[k].data[0].fill_(number)
    if kind == "hidden" and a.ndim and a.shape[0] > 1:

        def view(lib: Any, v: list[Any]) -> None:
            with lib.no_grad():
                v.append(v[k][1:])

        return view
    return None


def drawn(seed: int, kinds: list[str] = KINDS) -> tuple[Callable[..., Any], list[np.ndarray]]:
    """f(lib, two leaves) -> tensors, and values of the leaves.  Steps that eager evaluation refuses are left out."""
    rng = np.random.default_rng(seed)
    start = [rng.uniform(0.3, 1.2, (3, 4)), rng.uniform(0.3, 1.2, (4,))]
    steps: list[Step] = [lambda lib, v: v.append(v[0] * 1.0), lambda lib, v: v.append(v[1] * 1.0)]

    def run(lib: Any, *leaves: Any) -> list[Any]:
        live = list(leaves)
        for s in steps:
            s(lib, live)
        return live

    while len(steps) < 12:
        made = random_step(rng, run(assay, *(assay.tensor(a, requires_grad=True) for a in start)), kinds)
        if made is not None:
            steps.append(made)
            try:
                run(assay, *(assay.tensor(a, requires_grad=True) for a in start))
            except assay.UserError:
                steps.pop()
    return lambda lib, *leaves: [y.clone() for y in run(lib, *leaves)[2:]], start
