"""Derivatives of functions, as functions: grad, value_and_grad, vjp, jvp, hvp, jacobian, hessian.

    assay.func.grad(f)(x)          assay.func.hessian(f)(x)          assay.func.grad(assay.func.grad(f))(x)

f is a function of tensors, or of nested containers of them.  Each call has a level of its own, so they nest in any order and
inside of compiled functions, and touch no .grad.  A gradient of a tensor that f does not depend on is zero.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import optree

from assay.core.errors import UserError
from assay.frontends import dispatch, source
from assay.frontends.autograd import Autograd, Edge, check_like, differentiate, make_leaf, twin
from assay.frontends.cell import new_cell
from assay.frontends.dual import Dual, with_tangent, without_tangent
from assay.frontends.gradients import owned
from assay.frontends.tensor import Tensor, fresh
from assay.frontends.value import apply_by_name, pushed, recording

__all__ = ["grad", "hessian", "hvp", "jacfwd", "jacobian", "jvp", "value_and_grad", "vjp"]

Argnums = int | tuple[int, ...]


def grad(f: Callable[..., Any], argnums: Argnums = 0, *, has_aux: bool = False) -> Callable[..., Any]:
    """The gradient of a function whose result has one element, in the structure of the arguments `argnums`.

    has_aux: f returns (result, anything), and so does the gradient: (gradient, anything).
    """
    return _grad(f, argnums, "grad", has_aux=has_aux)


def _grad(f: Callable[..., Any], argnums: Argnums, caller: str, *, has_aux: bool = False) -> Callable[..., Any]:
    both = _value_and_grad(f, argnums, caller, has_aux=has_aux)

    @functools.wraps(f)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, g = both(*args, **kwargs)
        return (g, value[1]) if has_aux else g

    return gradient


def value_and_grad(f: Callable[..., Any], argnums: Argnums = 0, *, has_aux: bool = False) -> Callable[..., Any]:
    """(f(...), its gradient); with has_aux, ((result, anything), gradient)."""
    return _value_and_grad(f, argnums, "value_and_grad", has_aux=has_aux)


_INSTEAD = {"hessian": "use jacobian(jacobian(f))", "hvp": "use hvp of its sum, or of one of its elements"}


def _value_and_grad(f: Callable[..., Any], argnums: Argnums, caller: str, *, has_aux: bool) -> Callable[..., Any]:
    """value_and_grad; errors name the function `caller` that the user called."""

    @functools.wraps(f)
    def both(*args: Any, **kwargs: Any) -> Any:
        chosen = _chosen(args, argnums)

        def of(*moved: Any) -> Any:
            return f(*_with(args, argnums, moved), **kwargs)

        level = Autograd()
        with pushed(level):
            inputs, structure, edges = _leaves(chosen, level)
            out = of(*optree.tree_unflatten(structure, inputs))
            y, aux = out if has_aux else (out, None)
            if not isinstance(y, Tensor) or y.numel() != 1:
                what = f"of shape {list(y.shape)}" if isinstance(y, Tensor) else f"of type {type(y).__name__}"
                instead = _INSTEAD.get(caller, "use vjp or jacobian")
                raise source.located(UserError(f"{caller} needs a result of one element; this one is {what}: {instead}"))
            with recording(level, wanted=False):
                seed = fresh(apply_by_name("full_like", y.value, 1.0))
            gradients = _pull(level, [y], [seed], inputs, edges)
        gradient = optree.tree_unflatten(structure, gradients)
        value = _plain(y, level)
        return ((value, _plain(aux, level)) if has_aux else value), gradient[0] if isinstance(argnums, int) else gradient

    return both


def vjp(f: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., tuple[Any, ...]]]:
    """(f(*primals), pull): pull(cotangents, in the structure of the result) -> a gradient for each primal."""
    level = Autograd()
    with pushed(level):
        inputs, structure, edges = _leaves(primals, level)
        out = f(*optree.tree_unflatten(structure, inputs))
    results, shape = optree.tree_flatten(out)
    if not all(isinstance(y, Tensor) for y in results):
        raise source.located(UserError("vjp needs a function whose results are tensors"))

    def pull(cotangents: Any) -> tuple[Any, ...]:
        given, same = optree.tree_flatten(cotangents)
        if same != shape:
            raise source.located(UserError(f"vjp: the cotangents have the structure {same}; the result has {shape}"))
        return optree.tree_unflatten(structure, _pull(level, results, given, inputs, edges))

    return _plain(out, level), pull


def jvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """(f(*primals), how that moves when the primals move along the tangents): one pass, nothing kept."""
    return _jvp(f, primals, tangents, "jvp")


def _jvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], caller: str) -> tuple[Any, Any]:
    values, structure = optree.tree_flatten(tuple(primals))
    moves, same = optree.tree_flatten(tuple(tangents))
    if same != structure:
        raise source.located(UserError(f"{caller}: the tangents have the structure {same}; the primals have {structure}"))
    level = Dual()
    with pushed(level):
        moved = [with_tangent(x, d, level) for x, d in zip(values, moves, strict=True)]
        leaves, shape = optree.tree_flatten(f(*optree.tree_unflatten(structure, moved)))
    if not all(isinstance(y, Tensor) for y in leaves):
        raise source.located(UserError(f"{caller} needs a function whose results are tensors"))
    pairs = [without_tangent(y, level) for y in leaves]
    results = [y for y, _ in pairs]
    found = [dispatch.call("zeros_like", (y,), {}) if d is None else d for y, d in pairs]
    return optree.tree_unflatten(shape, results), optree.tree_unflatten(shape, found)


def hvp(f: Callable[..., Any], primals: Sequence[Any], vectors: Sequence[Any]) -> tuple[Any, Any]:
    """(the gradient of f at the primals, its Hessian times the vectors), forward over reverse, at a few times the cost of f."""
    return _jvp(_grad(f, tuple(range(len(primals))), "hvp"), primals, vectors, "hvp")


def jacobian(f: Callable[..., Any], argnums: int = 0) -> Callable[..., Tensor]:
    """d f / d argument, of shape (*result, *argument), for one tensor each; as many passes as the smaller one has elements."""

    @functools.wraps(f)
    def of(*args: Any) -> Tensor:
        x = _chosen_tensor(args, argnums, "jacobian")
        level = Autograd()
        with pushed(level):
            inputs, _, edges = _leaves((x,), level)
            y = f(*_with(args, argnums, inputs))
        if not isinstance(y, Tensor):
            raise _no_tensor(y, "jacobian")
        if x.numel() <= y.numel():
            return _jacfwd(f, argnums, "jacobian")(*args)
        rows = [_pull(level, [y], [unit], inputs, edges)[0] for unit in _units(y)]
        return dispatch.call("stack", (tuple(rows), 0), {}).reshape((*y.shape, *x.shape))

    return of


def jacfwd(f: Callable[..., Any], argnums: int = 0) -> Callable[..., Tensor]:
    """The Jacobian column by column, in forward mode."""
    return _jacfwd(f, argnums, "jacfwd")


def _jacfwd(f: Callable[..., Any], argnums: int, caller: str) -> Callable[..., Tensor]:
    @functools.wraps(f)
    def of(*args: Any) -> Tensor:
        x = _chosen_tensor(args, argnums, caller)
        columns = [_jvp(lambda moved: f(*_with(args, argnums, (moved,))), (x,), (unit,), caller)[1] for unit in _units(x)]
        if not columns:
            y = f(*args)
            return dispatch.call("zeros", ((*y.shape, *x.shape),), {"dtype": y.dtype})
        if not isinstance(columns[0], Tensor):
            raise _no_tensor(columns[0], caller)
        return dispatch.call("stack", (tuple(columns), -1), {}).reshape((*columns[0].shape, *x.shape))

    return of


def hessian(f: Callable[..., Any], argnums: int = 0) -> Callable[..., Tensor]:
    """The second derivatives of a function with a result of one element, (*argument, *argument): forward over reverse."""
    return _jacfwd(_grad(f, argnums, "hessian"), argnums, "hessian")


# ------------------------------------------------------------------------------------------------ parts


def _chosen(args: tuple[Any, ...], argnums: Argnums) -> tuple[Any, ...]:
    wanted = (argnums,) if isinstance(argnums, int) else argnums
    if any(not -len(args) <= k < len(args) for k in wanted):
        raise source.located(UserError(f"argnums={argnums} of a call with {len(args)} positional arguments"))
    return tuple(args[k] for k in wanted)


def _chosen_tensor(args: tuple[Any, ...], argnums: int, caller: str) -> Tensor:
    if not isinstance(argnums, int):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise source.located(UserError(f"{caller}: argnums={argnums!r}; allowed: the number of one argument"))
    (x,) = _chosen(args, argnums)
    if not isinstance(x, Tensor):
        raise source.located(UserError(f"{caller} is taken with respect to a tensor, not {type(x).__name__}"))
    return x


def _no_tensor(y: Any, caller: str) -> Exception:
    return source.located(UserError(f"{caller} needs a function with one tensor as its result, not a {type(y).__name__}"))


def _with(args: tuple[Any, ...], argnums: Argnums, moved: Sequence[Any]) -> list[Any]:
    """The arguments with those at `argnums` replaced."""
    made = list(args)
    for k, x in zip((argnums,) if isinstance(argnums, int) else argnums, moved, strict=True):
        made[k] = x
    return made


def _leaves(tree: Any, level: Autograd) -> tuple[list[Tensor], Any, list[Edge]]:
    """The tensors of the tree as leaves of the level, over the same memory; the structure; where their gradients go."""
    given, structure = optree.tree_flatten(tree)
    made: list[Tensor] = []
    edges: list[Edge] = []
    for x in given:
        if not isinstance(x, Tensor) or not x.dtype.is_float:
            what = f"{x.dtype.name}{list(x.shape)}" if isinstance(x, Tensor) else type(x).__name__
            raise source.located(
                UserError(f"derivatives are taken with respect to tensors of floats, not {what}; choose others with argnums")
            )
        v = twin(x.value)
        edges.append((make_leaf(v, level), 0))
        made.append(Tensor(new_cell(v)))
    return made, structure, edges


@source.at_the_users_line
def _pull(level: Autograd, results: Sequence[Tensor], cotangents: Sequence[Tensor], inputs: Sequence[Tensor],
          edges: Sequence[Edge]) -> list[Tensor]:  # fmt: skip
    """The gradients of the inputs; what was recorded stays for another time."""
    seeds: list[tuple[Edge, Any]] = []
    for y, c in zip(results, cotangents, strict=True):
        if not isinstance(c, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UserError(f"vjp: a cotangent is a tensor, not {type(c).__name__}")
        check_like(y.value, c.value, "gradient")
        if level in y.value.meta:
            seeds.append((y.value.meta[level], c.value))
    found = differentiate(level, seeds, edges, keep=True, create_graph=False)
    with recording(level, wanted=False):
        pairs = zip(inputs, edges, strict=True)
        taken = {id(seed) for _, seed in seeds}
        return [fresh(owned(found[e], taken) if e in found else apply_by_name("zeros_like", x.value)) for x, e in pairs]


def _plain(tree: Any, level: Autograd) -> Any:
    """The tree with tensors that the level knows nothing of."""

    def plain(x: Any) -> Any:
        if not isinstance(x, Tensor) or level not in x.value.meta:
            return x
        v = twin(x.value)
        del v.meta[level]
        return Tensor(new_cell(v))

    return optree.tree_map(plain, tree)


def _units(x: Tensor) -> list[Tensor]:
    """The unit vectors in the shape of x."""
    n = math.prod(x.shape)
    return [row.reshape(x.shape) for row in dispatch.call("eye", (n,), {"dtype": x.dtype})] if n else []


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    from assay.frontends.namespace import unknown

    raise unknown("module 'assay' has no attribute", f"func.{name}", [f"func.{known}" for known in __all__])


def __dir__() -> list[str]:
    return __all__
