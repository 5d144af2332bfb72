"""assay.optim against torch.optim: twenty steps in f64, changes of the rate, and a restart from a state_dict in the middle."""

from typing import Any

import numpy as np
import pytest

import assay

pytestmark = pytest.mark.peers

OPTIMISERS: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.05}),
    ("SGD", {"lr": 0.1, "weight_decay": 0.05, "maximize": True}),
    ("Adam", {"lr": 0.1}),
    ("Adam", {}),
    ("Adam", {"lr": 0.1, "betas": (0.5, 0.7), "eps": 1e-3}),
    ("Adam", {"lr": 0.1, "weight_decay": 0.05}),
    ("Adam", {"lr": 0.1, "amsgrad": True, "maximize": True}),
    ("AdamW", {"lr": 0.1}),
    ("AdamW", {"lr": 0.1, "weight_decay": 0.3, "amsgrad": True}),
]


def train(T: Any, name: str, options: dict[str, Any], *, restart: bool) -> list[np.ndarray]:
    """The two parameters after twenty steps; the rate is halved at the tenth, and one parameter has no gradient at the fifth."""
    rng = np.random.default_rng(0)
    w, b = (T.tensor(rng.standard_normal(s).tolist(), dtype=T.float64, requires_grad=True) for s in ((3, 4), (4,)))
    x, y = (T.tensor(rng.standard_normal(s).tolist(), dtype=T.float64) for s in ((5, 3), (5, 4)))
    make = getattr(T.optim, name)
    optimiser = make([{"params": [w]}, {"params": b, "lr": 0.03}], **options)
    for k in range(20):
        if k == 10:
            optimiser.param_groups[0]["lr"] /= 2
        if k == 13 and restart:
            kept = optimiser.state_dict()
            optimiser = make([{"params": [w]}, {"params": b}], lr=7.0)
            optimiser.load_state_dict(kept)
        optimiser.zero_grad(set_to_none=k % 2 == 0)
        d = (x @ w + (b if k != 5 else 0)).tanh() - y
        (d * d).sum().backward()
        optimiser.step()
    return [w.detach().numpy(), b.detach().numpy()]


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize(("name", "options"), OPTIMISERS, ids=lambda v: v if isinstance(v, str) else str(v))
def test_twenty_steps(name: str, options: dict[str, Any], restart: bool) -> None:  # noqa: FBT001
    import torch

    found = train(assay, name, options, restart=restart)
    for mine, theirs in zip(found, train(torch, name, options, restart=False), strict=True):
        assert np.abs(mine - theirs).max() <= 1e-12 * np.abs(theirs).max()
