"""Assay: a reference tensor compiler that proves its own work.

    x = assay.tensor([[1.0, -2.0]]); F = assay.nn.functional
    g = assay.compile(lambda x: F.relu(x).sum(-1))         # compiled C++, the bits of eager evaluation
    print(assay.trace(f, x)); assay.check(f, x).verdict; assay.prove(f, x).obligations

Operators are functions here (assay.cat, assay.where, assay.arange) and methods of tensors; names and signatures are torch's.
Everything loads on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_DTYPES = {
    "bool": "bool_", "uint8": "u8", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "float16": "f16",
    "bfloat16": "bf16", "float32": "f32", "float64": "f64", "short": "i16", "int": "i32", "long": "i64", "half": "f16",
    "float": "f32", "double": "f64",
}  # fmt: skip

_EXPORTS: dict[str, tuple[str, ...]] = {
    "assay.checkpoints": ("checkpoint", "checkpoint_sequential"),
    "assay.compiler": ("compile",),
    "assay.core.errors": ("AssayError", "InternalError", "Unsound", "Unsupported", "UserError"),
    "assay.core.text": ("parse", "show"),
    "assay.examine": ("check", "explain", "prove"),
    "assay.frontends.capture": ("trace",),
    "assay.frontends.dynamic": ("Dim",),
    "assay.frontends.grad_mode": ("enable_grad", "inference_mode", "is_grad_enabled", "no_grad", "set_grad_enabled"),
    "assay.frontends.creation": ("as_tensor", "from_dlpack", "from_numpy", "tensor"),
    "assay.frontends.random": ("Generator", "default_generator", "manual_seed"),
    "assay.frontends.tensor": ("Tensor",),
    "assay.partition.choose": ("Budget",),
    "assay.transforms.lower": ("lower",),
}  # fmt: skip

_HOME = {name: module for module, names in _EXPORTS.items() for name in names}
_MODULES = ("autograd", "func", "nn", "ops", "optim")

inf = float("inf")
nan = float("nan")
pi = 3.141592653589793


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    if name in _HOME:
        found = getattr(import_module(_HOME[name]), name)
    elif name in _DTYPES:
        found = getattr(import_module("assay.core.dtypes"), _DTYPES[name])
    elif name in _MODULES:
        found = import_module(f"assay.{name}")
    else:
        found = import_module("assay.frontends.namespace").function(name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    names = import_module("assay.frontends.namespace").names()
    return sorted({*_HOME, *_DTYPES, *_MODULES, *names, "inf", "nan", "pi"})
