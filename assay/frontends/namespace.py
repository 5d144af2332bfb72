"""Functions of the operator table by name: assay.cat, assay.where, assay.zeros(2, 3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from assay.core.errors import UnknownName, Unsupported, UserError
from assay.core.operators import OPERATORS
from assay.core.operators.registry import canonical
from assay.frontends import dispatch, random, source

_HERE = {"device": ("cpu", None), "layout": (None,), "pin_memory": (False, None), "memory_format": (None,)}


def norm(input: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:  # noqa: FBT001, FBT002
    """(sum |x|**p)**(1/p) of all elements, or over `dim`; "fro" is p = 2.  Raises Unsupported for "nuc"."""
    if p == "nuc":
        raise source.located(Unsupported('norm(p="nuc") needs singular values, which are not there; a number or "fro" is'))
    p = 2 if p in (None, "fro") else p
    if dim is None and not keepdim and dtype is None:
        return dispatch.call("norm", (input, p), {})
    return dispatch.call("linalg_vector_norm", (input, p, dim, keepdim), {"dtype": dtype})


CALLED: dict[str, Callable[..., Any]] = {"norm": norm}
"""Functions, and methods, whose signature in PyTorch is that of no overload."""


def function(name: str, *, module: str = "assay", besides: Iterable[str] = ()) -> Callable[..., Any]:
    """The function `name`: an operator whose overload the arguments decide, or a random one with its generator.

    Raises UnknownName with the nearest names, those that the module has `besides` among them.
    """
    written = random.FUNCTIONS.get(name) or CALLED.get(name)
    if written is not None:
        return written
    name = canonical(name)
    if not any(op.base == name for op in OPERATORS.values()):
        raise unknown(f"module '{module}' has no attribute", name, {*names(), *besides})

    def operator(*args: Any, **kwargs: Any) -> Any:
        leaf = "requires_grad" in kwargs and kwargs.pop("requires_grad")
        made = dispatch.call(name, args, plain(kwargs))
        return made.requires_grad_() if leaf else made

    operator.__name__ = operator.__qualname__ = name
    operator.__doc__ = "\n".join(op.schema.text for op in OPERATORS.values() if op.base == name)
    return operator


_INSTEAD = {
    "bincount": "its length depends on the data: zeros(n, dtype=int64).index_add(0, x, ones_like(x)) counts to n",
    "cdist": "(x.unsqueeze(-2) - y.unsqueeze(-3)).norm(dim=-1) are the distances",
    "cuda": "tensors live in the memory of the CPU: leave it out",
    "diff": "x[1:] - x[:-1] are the differences",
    "finfo": "numpy has the limits: float(np.finfo(np.float32).min)",
    "func.functional_call": "a function takes its weights as arguments: grad(f)(weights, x)",
    "func.jacrev": "assay.func.jacobian takes the mode that needs fewer passes",
    "func.vmap": "there is no vmap: write the batch axis, or stack the results of a loop",
    "jit": "assay.compile(f) compiles a function",
    **dict.fromkeys(("cholesky", "det", "inverse", "logdet"), "there are no decompositions; small sizes can be written out"),
    "linalg": "norms are assay.linalg_vector_norm and x.norm(p, dim); there are no decompositions",
    "load": "there is no file format: assay.from_numpy(np.load(file))",
    "nn.": "layers are functions of their weights (assay.nn.functional.linear(x, w, b)), a model is any function; tensors "
           "that it finds in attributes of an object are its inputs too (docs/tensors.md, examples/digits/model.py)",
    "optim.": "there are SGD, Adam and AdamW; a rate is changed in param_groups[0]['lr']",
    "quantile": "x.sort() and the elements wanted, or median and kthvalue",
    "save": "there is no file format: np.save(file, x.numpy())",
    "unique": "the shape of the result depends on the data: use numpy, np.unique(x.numpy())",
}  # fmt: skip


def unknown(what: str, name: str, known: Iterable[str]) -> Exception:
    """The error about a name that does not exist, at the user's line: what to use instead, or the nearest known names."""
    import difflib

    folder = name.partition(".")[0] + "."
    said = _INSTEAD.get(folder if folder in _INSTEAD else name)
    if said is None:
        near = difflib.get_close_matches(name, [k for k in known if name.startswith("_") or not k.startswith("_")], n=3)
        said = f"did you mean: {', '.join(near)}" if near else "`assay ops` lists the operators"
    return source.located(UnknownName(f"{what} {name!r}; {said}"))


def plain(kwargs: dict[str, Any]) -> dict[str, Any]:
    """The keyword arguments without those that torch has and that say nothing here.

    Raises UserError for a device other than the CPU.
    """
    if not kwargs:
        return kwargs
    rest = dict(kwargs)
    for option, allowed in _HERE.items():
        if option in rest and (value := rest.pop(option)) not in allowed and str(value) != "cpu":
            raise source.located(
                UserError(f"{option}={value!r}: tensors are row-major in the memory of the CPU; leave {option} out")
            )
    return rest


def names() -> list[str]:
    """Every function that exists."""
    return sorted({op.base for op in OPERATORS.values()} | set(random.FUNCTIONS))
