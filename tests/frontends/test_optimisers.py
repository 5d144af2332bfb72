"""assay.optim: steps, groups, states, and what is refused."""

from typing import Any

import pytest

import assay
from assay.optim import SGD, Adam, AdamW

t = assay.tensor


def close(a: Any, b: Any, tolerance: float) -> None:
    assert a.tolist() == pytest.approx(b, rel=tolerance)


@pytest.mark.parametrize(("make", "steps"), [
    (lambda p: SGD(p, 0.1), [[0.8], [0.64]]),
    (lambda p: SGD(p, 0.1, momentum=0.5), [[0.8], [0.54]]),
    (lambda p: SGD(p, 0.1, momentum=0.5, dampening=0.5), [[0.8], [0.62]]),
    (lambda p: SGD(p, 0.1, momentum=0.5, nesterov=True), [[0.7], [0.44]]),
    (lambda p: SGD(p, 0.1, weight_decay=1.0), [[0.7], [0.49]]),
    (lambda p: SGD(p, 0.1, maximize=True), [[1.2], [1.44]]),
    (lambda p: Adam(p, 0.1), [[0.9], [0.8004]]),
    (lambda p: AdamW(p, 0.1, weight_decay=1.0), [[0.8], [0.6206]]),
])  # fmt: skip
def test_two_steps(make: Any, steps: list[list[float]]) -> None:
    p = t([1.0], dtype=assay.float64, requires_grad=True)
    optimiser = make([p])
    for want in steps:
        optimiser.zero_grad()
        (p * p).sum().backward()
        optimiser.step()
        close(p.detach(), want, 1e-3)
    assert p.is_leaf
    assert p.requires_grad


def test_groups_rates_and_gradients() -> None:
    a, b, frozen = t([1.0], requires_grad=True), t([1.0], requires_grad=True), t([1.0])
    optimiser = SGD([{"params": [a, frozen]}, {"params": b, "lr": 0.5}], lr=0.25)
    (2 * a + 2 * b).sum().backward()
    optimiser.step()
    assert (a.item(), b.item(), frozen.item()) == (0.5, 0.0, 1.0)
    optimiser.param_groups[0]["lr"] = 1.0
    optimiser.zero_grad(set_to_none=False)
    assert a.grad.tolist() == [0.0]
    assert optimiser.step(lambda: (a * 1.0).sum().backward() or 7.0) == 7.0
    assert (a.item(), b.item()) == (-0.5, 0.0)
    optimiser.zero_grad()
    assert a.grad is None


def test_a_state_goes_on() -> None:
    def trained(stop: int) -> assay.Tensor:
        p = t([1.0, 2.0], requires_grad=True)
        optimiser = Adam([p], 0.1)
        for k in range(6):
            if k == stop:
                kept = optimiser.state_dict()
                optimiser = Adam([p], 9.0)
                optimiser.load_state_dict(kept)
            optimiser.zero_grad()
            (p * p).sum().backward()
            optimiser.step()
        return p

    assert trained(3).tolist() == trained(-1).tolist()
    kept = Adam([t([1.0], requires_grad=True)]).state_dict()
    assert kept["param_groups"][0]["params"] == [0]
    with pytest.raises(assay.UserError, match=r"groups of \[1\] parameters; here are \[2\]"):
        Adam([t([1.0]), t([2.0])]).load_state_dict(kept)


x = t([1.0], requires_grad=True)


@pytest.mark.parametrize(("make", "message"), [
    (lambda: SGD([x], lr=-1.0), "lr=-1.0; allowed: lr >= 0"),
    (lambda: SGD([x], momentum=-0.1), "momentum=-0.1; allowed: momentum >= 0"),
    (lambda: SGD([x], weight_decay=float("nan")), "weight_decay=nan; allowed"),
    (lambda: SGD([x], nesterov=True), "nesterov=True needs momentum > 0 and dampening=0"),
    (lambda: Adam([x], betas=(0.9, 1.0)), r"betas\[1\]=1.0; allowed: 0 <= beta < 1"),
    (lambda: Adam([x], eps=-1.0), "eps=-1.0; allowed: eps >= 0"),
    (lambda: Adam([{"params": [x], "momentum": 1}]), "Adam has no option 'momentum'; there are: lr, betas"),
    (lambda: SGD([]), "needs parameters; the list is empty"),
    (lambda: SGD(x), "this is one tensor"),
    (lambda: SGD([3.0]), "parameter 0 is a float"),
    (lambda: SGD([x, x]), r"parameter 1, f32\[1\], is there twice"),
    (lambda: SGD([x * 2]), r"parameter 0, f32\[1\], is a result of operators, not a leaf"),
    (lambda: assay.compile(lambda y: SGD([x]).step() or y, backend="reference")(x), "not part of a captured function"),
])  # fmt: skip
def test_what_is_refused(make: Any, message: str) -> None:
    with pytest.raises(assay.UserError, match=message):
        make()


def test_an_optimiser_shows_its_groups() -> None:
    shown = repr(assay.optim.SGD([assay.ones(2, requires_grad=True)], lr=0.5))
    assert shown == "SGD(1 tensor: lr=0.5, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False, maximize=False)"
    with pytest.raises(assay.UserError, match="SGD, Adam and AdamW"):
        _ = assay.optim.RMSprop
