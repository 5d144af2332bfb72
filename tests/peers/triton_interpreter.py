"""Runs one kernel of examples/kernels with Triton's own interpreter: python triton_interpreter.py FILE KERNEL IN.npz OUT.npz

IN has the arrays, and `launch`: the grid and the scalars as JSON.  Must start with TRITON_INTERPRET=1.  No torch: Triton's
interpreter is content with what `Tensor` says of an array.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from typing import Any

import numpy as np


class Tensor:
    """An array as Triton's interpreter sees a tensor: it writes straight into it."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.dtype = str(array.dtype)

    def data_ptr(self) -> int:
        return self.array.ctypes.data

    def untyped_storage(self) -> Tensor:
        return self

    def cpu(self) -> Tensor:
        return self

    def copy_(self, other: Tensor) -> None:
        assert other.array is self.array

    def new_empty(self, n: int, device: Any = None) -> Tensor:
        return Tensor(self.array)

    def set_(self, *_: Any) -> None:
        """The storage is the array's."""

    def storage_offset(self) -> int:
        return 0

    def size(self) -> tuple[int, ...]:
        return self.array.shape

    def stride(self) -> tuple[int, ...]:
        return tuple(s // self.array.itemsize for s in self.array.strides)


def main(file: str, kernel: str, given: str, out: str) -> None:
    """Runs the kernel and saves the arrays as it left them."""
    spec = importlib.util.spec_from_file_location("kernel_file", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["kernel_file"] = module
    spec.loader.exec_module(module)
    stored = np.load(given)
    launch = json.loads(str(stored["launch"]))
    arrays = {k: stored[k].copy() for k in stored.files if k != "launch"}
    getattr(module, kernel)[tuple(launch["grid"])](**{k: Tensor(a) for k, a in arrays.items()}, **launch["scalars"])
    np.savez(out, **arrays)


if __name__ == "__main__":
    main(*sys.argv[1:])
