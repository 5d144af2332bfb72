"""What a command works on: `file.py:function` with --arg 'f32[64,128]', or a program in a .assay file."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from assay.core.dtypes import DTYPES, dtype
from assay.core.errors import AssayError, UserError
from assay.core.lang import Program
from assay.core.lang import input as core_input
from assay.frontends.creation import from_numpy
from assay.fuzz.cases import read_case
from assay.kernels.source import has_kernel
from assay.semantics.inputs import ORDINARY, draw, draw_inputs

_SPEC = re.compile(r"(?P<dtype>[a-z]+\d*)\[(?P<shape>[\d,\s]*)\](?:=(?P<fill>[\w.+-]+?)(?:\.\.(?P<hi>[\w.+-]+))?)?$")


@dataclass(frozen=True)
class Target:
    """A function with its arguments, or a core program; `given` is what goes after it in check(f, *args)."""

    name: str
    subject: Callable[..., Any] | Program
    args: tuple[Any, ...] = ()


def load_target(text: str, specs: list[str], seed: int) -> Target:
    """The target of the command line; tensors are drawn with the seed.

    Raises UserError for a missing file or function, a wrong --arg, or a text that does not parse.
    """
    if text.endswith(".assay"):
        path = _existing(text)
        p = read_case(path).program
        if specs:
            raise UserError(f"{text} is a program: its inputs have their types already, --arg is for functions")
        return Target(path.stem, p)
    file, colon, name = text.rpartition(":")
    if not colon or not file.endswith(".py"):
        raise UserError(f"target {text!r}; allowed: file.py:function, or program.assay{_defined(text)}")
    function = _function(_existing(file), name)
    rng = np.random.default_rng(seed)
    declared = getattr(sys.modules.get(function.__module__), "ARGUMENTS", {})
    specs = specs or list(declared.get(function, ()))
    try:
        inspect.signature(function).bind(*specs)
    except TypeError as error:
        raise UserError(
            f"{name}{inspect.signature(function)}: {error}; give one --arg for each, such as --arg 'f32[64,128]', "
            f"or name them in the file: ARGUMENTS = {{{name}: ('f32[64,128]',)}}"
        ) from None
    return Target(name, function, tuple(argument(s, rng) for s in specs))


def _defined(text: str) -> str:
    """The targets in a Python file that was given without a function, read and not run; "" for anything else."""
    path = Path(text)
    if path.suffix != ".py" or not path.is_file():
        return ""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return ""
    names = [s.name for s in tree.body if isinstance(s, ast.FunctionDef) and not s.name.startswith("_")]
    return f"; {text} defines: {', '.join(names) or 'no function'}"


def kernel_target(text: str) -> tuple[Path, str] | None:
    """(file, name) where the target is a kernel: a function under @triton.jit, whose file is read and not run."""
    file, colon, name = text.rpartition(":")
    if not colon or not file.endswith(".py") or not has_kernel(_existing(file), name):
        return None
    return Path(file), name


def program_inputs(p: Program, seed: int) -> list[np.ndarray]:
    """Ordinary inputs of a program, drawn with the seed."""
    return draw_inputs(p, ORDINARY, np.random.default_rng(seed))


def argument(text: str, rng: np.random.Generator) -> Any:
    """f32[64,128] a drawn tensor; i64[5]=0..9 integers in a range; f32[3]=0.5 a filled one; any Python literal else."""
    found = _SPEC.match(text.strip())
    if found is None:
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError):
            raise _wrong(text) from None
    try:
        return from_numpy(_tensor(found, rng))
    except (ValueError, OverflowError, MemoryError) as error:
        raise _wrong(text, error) from None


def _tensor(spec: re.Match[str], rng: np.random.Generator) -> np.ndarray:
    d = dtype(spec["dtype"])
    shape = tuple(int(n) for n in spec["shape"].split(",") if n.strip())
    if spec["fill"] is None:
        return draw(core_input("x", shape, d), ORDINARY, rng)
    with np.errstate(over="ignore"):
        if spec["hi"] is None:
            fill = float(spec["fill"]) if d.is_float else int(spec["fill"])
            return np.full(shape, fill, np.float64).astype(d.numpy) if d.is_float else np.full(shape, fill, d.numpy)
        lo, hi = float(spec["fill"]), float(spec["hi"])
        drawn = rng.uniform(lo, hi, shape) if d.is_float else rng.integers(int(lo), int(hi), shape, endpoint=True)
        return np.asarray(drawn).astype(d.numpy)


def _wrong(text: str, error: Exception | None = None) -> UserError:
    why = f": {str(error).partition(';')[0]}" if error is not None else ""  # what is allowed is said here
    return UserError(
        f"--arg {text!r}{why}; allowed: a tensor such as f32[64,128] (types {', '.join(DTYPES)}), of values "
        "in a range (i64[5]=0..9), of one value (f32[3]=0.5), or a Python literal such as 3, 0.5, [1, 2], True"
    )


def _existing(name: str) -> Path:
    path = Path(name)
    if not path.is_file():
        raise UserError(f"no file {name}")
    return path


def _in_short(error: Exception, path: Path) -> str:
    """What an import raised, and at which line of the file."""
    lines = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).resolve() == path.resolve()]
    text = str(error) if isinstance(error, AssayError) else f"{type(error).__name__}: {error}"
    at = f"{path}:{lines[-1].lineno}: {lines[-1].line}" if lines else ""
    if getattr(error, "name", None) == "triton":
        text += "; a kernel under @triton.jit is for `assay prove`, which needs no triton"
    return f"{text}\n  {at}" if at and f":{lines[-1].lineno}:" not in text else text


def _function(path: Path, name: str) -> Callable[..., Any]:
    module_name = f"assay_target_{path.stem}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise UserError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UserError(f"{path} cannot be imported: {_in_short(error, path)}") from error
    finally:
        sys.path.pop(0)
    found = getattr(module, name, None)
    if inspect.isclass(found):
        raise UserError(f"{path}: {name} is a class; name a function, or an object that can be called, such as model = {name}()")
    if not callable(found):
        here = [k for k, v in vars(module).items() if callable(v) and getattr(v, "__module__", None) == module_name]
        raise UserError(f"{path} has no function {name!r}; it defines: {', '.join(here) or 'none'}")
    return found
