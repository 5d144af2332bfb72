"""Optimisers: they change parameters in place by what backward() left in their .grad.

    optimiser = assay.optim.SGD([w, b], lr=0.1, momentum=0.9)
    loss.backward(); optimiser.step(); optimiser.zero_grad()

Arguments, groups of parameters and state_dict() are those of torch.optim.  A rate is changed in param_groups[0]["lr"].
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from assay.core.errors import UserError
from assay.core.wording import counted
from assay.frontends import dispatch, source
from assay.frontends.grad_mode import enable_grad, no_grad
from assay.frontends.tensor import Tensor
from assay.frontends.value import STATE

__all__ = ["SGD", "Adam", "AdamW", "Optimizer"]

Group = dict[str, Any]
Params = Iterable[Tensor] | Iterable[Mapping[str, Any]]


class Optimizer:
    """What all have in common: groups of parameters with their options, a state for each parameter."""

    def __init__(self, params: Params, defaults: Group) -> None:
        self.defaults = defaults
        self.param_groups: list[Group] = []
        self.state: dict[Tensor, dict[str, Any]] = {}
        if isinstance(params, Tensor):
            raise source.located(
                UserError("an optimiser takes a list of tensors, or of groups {'params': [...], 'lr': ...}; this is one tensor")
            )
        given = list(params)
        if not given:
            raise source.located(UserError("an optimiser needs parameters; the list is empty"))
        for group in given if isinstance(given[0], Mapping) else [{"params": given}]:
            self.add_param_group(group)  # type: ignore[arg-type]

    def __repr__(self) -> str:
        options = [", ".join(f"{k}={v!r}" for k, v in g.items() if k != "params") for g in self.param_groups]
        groups = [f"{counted(len(g['params']), 'tensor')}: {o}" for g, o in zip(self.param_groups, options, strict=True)]
        return f"{type(self).__name__}({'; '.join(groups)})"

    def add_param_group(self, group: Mapping[str, Any]) -> None:
        """More parameters; options that the group does not state are those of the optimiser.

        Raises UserError for what is no leaf, a parameter that is there already, unknown options and values out of range.
        """
        given = group["params"]
        made: Group = {**self.defaults, **group, "params": [given] if isinstance(given, Tensor) else list(given)}
        unknown = made.keys() - self.defaults.keys() - {"params"}
        if unknown:
            raise source.located(
                UserError(f"{type(self).__name__} has no option {min(unknown)!r}; there are: {', '.join(self.defaults)}")
            )
        self.check(made)
        known = {p for g in self.param_groups for p in g["params"]}
        for k, p in enumerate(made["params"]):
            if not isinstance(p, Tensor):
                raise source.located(UserError(f"parameter {k} is a {type(p).__name__}; an optimiser changes tensors"))
            if not p.is_leaf:
                raise source.located(
                    UserError(
                        f"parameter {k}, {p.dtype.name}{list(p.shape)}, is a result of operators, not a leaf: a step would "
                        "change a tensor that is computed anew. Give the leaf that it is computed from, or "
                        "detach().requires_grad_()"
                    )
                )
            if p in known:
                raise source.located(UserError(f"parameter {k}, {p.dtype.name}{list(p.shape)}, is there twice"))
            known.add(p)
        self.param_groups.append(made)

    def check(self, group: Group) -> None:
        """Raises UserError for options out of range."""
        for name in ("lr", "momentum", "weight_decay", "eps"):
            if name in group and not group[name] >= 0.0:
                raise source.located(UserError(f"{name}={group[name]!r}; allowed: {name} >= 0"))
        for k, b in enumerate(group.get("betas", ())):
            if not 0.0 <= b < 1.0:
                raise source.located(UserError(f"betas[{k}]={b!r}; allowed: 0 <= beta < 1"))

    def zero_grad(self, set_to_none: bool = True) -> None:  # noqa: FBT001, FBT002
        """Forget the gradients; with set_to_none=False, fill them with zeros."""
        for group in self.param_groups:
            for p in group["params"]:
                g = p.grad
                if set_to_none:
                    p.grad = None
                elif g is not None:
                    g.detach_()
                    dispatch.call("fill_", (g, 0.0), {})

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change every parameter that has a gradient; closure() computes the loss and its gradients first, and is returned."""
        if STATE.trace is not None:
            raise UserError(
                f"{source.quoted()}  the state of an optimiser is not part of a captured function: compile the loss, and call "
                "backward() and step() outside"
            )
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        with no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is not None:
                        g = p.grad.detach()
                        self.update(p, -g if group["maximize"] else g, group, self.state.setdefault(p, {}))
        return loss

    def update(self, p: Tensor, g: Tensor, group: Group, state: dict[str, Any]) -> None:
        """Change a parameter by its gradient."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """The options, and the state of each parameter by its number: what load_state_dict takes."""
        number = {p: k for k, p in enumerate(p for g in self.param_groups for p in g["params"])}
        groups = [{**g, "params": [number[p] for p in g["params"]]} for g in self.param_groups]
        return {"state": {number[p]: dict(s) for p, s in self.state.items()}, "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on where another optimiser of parameters of the same shapes was; tensors are copied.

        Raises UserError where the groups do not fit.
        """
        groups = state_dict["param_groups"]
        if [len(g["params"]) for g in groups] != [len(g["params"]) for g in self.param_groups]:
            counts = f"{[len(g['params']) for g in groups]} parameters; here are {[len(g['params']) for g in self.param_groups]}"
            raise source.located(UserError(f"the state is one for groups of {counts}"))
        parameters = [p for g in self.param_groups for p in g["params"]]
        number = [k for g in groups for k in g["params"]]
        state: dict[Tensor, dict[str, Any]] = {}
        for k, p in zip(number, parameters, strict=True):
            if k in state_dict["state"]:
                state[p] = {n: _copy(v, p, n) for n, v in state_dict["state"][k].items()}
        self.state = state
        for mine, theirs in zip(self.param_groups, groups, strict=True):
            mine.update({name: v for name, v in theirs.items() if name != "params"})


def _copy(v: Any, p: Tensor, name: str) -> Any:
    if isinstance(v, Tensor) and v.shape not in (p.shape, ()):
        raise source.located(UserError(f"the state {name!r} has shape {list(v.shape)}; the parameter has {list(p.shape)}"))
    return v.detach().clone() if isinstance(v, Tensor) else v


class SGD(Optimizer):
    """g += weight_decay p;   v = momentum v + (1 - dampening) g, at first g;   p -= lr v, with nesterov lr (g + momentum v)"""

    def __init__(self, params: Params, lr: float = 1e-3, momentum: float = 0.0, dampening: float = 0.0, weight_decay: float = 0.0,
                 nesterov: bool = False, *, maximize: bool = False) -> None:  # noqa: FBT001, FBT002  # fmt: skip
        super().__init__(params, {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
                                  "nesterov": nesterov, "maximize": maximize})  # fmt: skip

    def check(self, group: Group) -> None:
        super().check(group)
        if group["nesterov"] and (group["momentum"] <= 0 or group["dampening"] != 0):
            given = f"{group['momentum']!r} and {group['dampening']!r}"
            raise source.located(UserError(f"nesterov=True needs momentum > 0 and dampening=0, not {given}"))

    def update(self, p: Tensor, g: Tensor, group: Group, state: dict[str, Any]) -> None:
        if group["weight_decay"]:
            g = g + group["weight_decay"] * p
        if group["momentum"]:
            v = state.get("momentum_buffer")
            if v is None:
                v = state["momentum_buffer"] = g.clone()
            else:
                v.mul_(group["momentum"]).add_((1 - group["dampening"]) * g)
            g = g + group["momentum"] * v if group["nesterov"] else v
        dispatch.call("sub_", (p, g), {"alpha": group["lr"]})


class Adam(Optimizer):
    """m = b1 m + (1 - b1) g;  s = b2 s + (1 - b2) g^2;  p -= lr (m / (1 - b1^t)) / (sqrt(s / (1 - b2^t)) + eps)

    weight_decay is added to the gradient; amsgrad: the largest s so far is what counts.
    """

    decoupled = False

    def __init__(self, params: Params, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0.0, amsgrad: bool = False, *, maximize: bool = False) -> None:  # noqa: FBT001, FBT002  # fmt: skip
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
                                  "maximize": maximize})  # fmt: skip

    def update(self, p: Tensor, g: Tensor, group: Group, state: dict[str, Any]) -> None:
        (b1, b2), lr, decay = group["betas"], group["lr"], group["weight_decay"]
        if decay and self.decoupled:
            p.mul_(1 - lr * decay)
        elif decay:
            g = g + decay * p
        if not state:
            state.update(step=0, exp_avg=_zeros(p), exp_avg_sq=_zeros(p))
            if group["amsgrad"]:
                state["max_exp_avg_sq"] = _zeros(p)
        state["step"] += 1
        t, m, s = state["step"], state["exp_avg"], state["exp_avg_sq"]
        m.mul_(b1).add_((1 - b1) * g)
        s.mul_(b2).add_((1 - b2) * g * g)
        if group["amsgrad"]:
            largest = state["max_exp_avg_sq"]
            s = largest.copy_(dispatch.call("maximum", (largest, s), {}))
        p.sub_((lr / (1 - b1**t)) * m / ((s / (1 - b2**t)).sqrt() + group["eps"]))


class AdamW(Adam):
    """Adam whose decay does not pass through the moments: p *= 1 - lr weight_decay before each step."""

    decoupled = True

    def __init__(self, params: Params, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0.01, amsgrad: bool = False, *, maximize: bool = False) -> None:  # noqa: FBT001, FBT002  # fmt: skip
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize)


def _zeros(p: Tensor) -> Tensor:
    return dispatch.call("zeros_like", (p,), {})


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    from assay.frontends.namespace import unknown

    raise unknown("module 'assay' has no attribute", f"optim.{name}", ())


def __dir__() -> list[str]:
    return __all__
