"""The concrete interpreter of kernels beside Triton's own: every element of every tensor, on the examples at small sizes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay.kernels.arguments import Tensor, read_launch
from assay.kernels.concrete import Arrays, run_all
from assay.kernels.source import read_module
from assay.kernels.types import Type
from assay.kernels.witness import concrete_arguments
from tests.kernels.launches import KERNELS, ulps_of_gelu_backward

pytestmark = pytest.mark.peers

SIZES = {
    "add": ("n=1000", "BLOCK=256"),
    "gelu_backward": ("n=1000", "XBLOCK=256"),
    "softmax": ("x_stride=80", "out_stride=70", "n_rows=5", "n_cols=67", "BLOCK=128", "P=3"),
    "matmul": ("M=40", "N=50", "K=37", "BLOCK_M=16", "BLOCK_N=16", "BLOCK_K=16", "GROUP_M=2", "ACTIVATION='leaky_relu'"),
    "matmul_blocks": ("M=40", "N=50", "K=37", "BLOCK_M=16", "BLOCK_N=16", "BLOCK_K=16"),
    "matmul_descriptors": ("M=40", "N=56", "K=40", "BLOCK_M=16", "BLOCK_N=16", "BLOCK_K=16"),
    "forward": ("M=3", "N=100", "eps=1e-5", "BLOCK=32"),
    "backward_dx": ("M=6", "N=50", "GROUP=2", "BLOCK=64"),
    "backward_dwdb": ("M=37", "N=50", "BLOCK_M=16", "BLOCK_N=32"),
    "dropout": ("n=1000", "p=0.5", "seed=123", "BLOCK=256"),
    "attention": ("scale=0.125", "n_heads=2", "Z=2", "n_ctx=50", "D=16", "BLOCK_M=16", "BLOCK_N=16", "CAUSAL=True"),
    "embedding": ("n=20", "D=50", "V=7", "BLOCK_N=8", "BLOCK_D=32"),
    "paged_read": ("max_pages=3", "S=2", "P=9", "D=20", "PAGE=4", "BLOCK_D=32"),
    "cross_entropy": ("V=50", "n=6", "ignore=3", "BLOCK=16"),
}


def interpreted(kernel: str, folder: Path) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """(the arrays before, after our interpreter, after Triton's)."""
    module = read_module(KERNELS[kernel])
    stated = module.launches[kernel]
    named = {a.partition("=")[0]: a for a in (*stated["args"], *SIZES[kernel])}
    launch = read_launch(module, module.function(kernel), list(named.values()), stated["grid"])
    value = lambda p: p.constant  # noqa: E731
    grid = tuple(value(g) for g in launch.grid)
    arrays = {n: _drawn(t, k) for k, (n, t) in enumerate(launch.parameters.items()) if isinstance(t, Tensor)}
    arguments = concrete_arguments(launch, value)
    for a in named.values():
        name, _, text = a.partition("=")
        if isinstance(launch.parameters.get(name), Type) and launch.parameters[name].is_float:
            arguments[name] = (launch.parameters[name], float(text))
    scalars = {n: v[1] if isinstance(v, tuple) else v for n, v in arguments.items() if n not in arrays}
    given, out = folder / "in.npz", folder / "out.npz"
    np.savez(given, launch=json.dumps({"grid": grid, "scalars": scalars}), **arrays)
    script = Path(__file__).parent / "triton_interpreter.py"
    command = [sys.executable, str(script), str(KERNELS[kernel]), kernel, str(given), str(out)]
    ran = subprocess.run(command, env={**os.environ, "TRITON_INTERPRET": "1"}, capture_output=True, text=True)
    if "Block pointers have been removed" in ran.stderr:
        pytest.skip("this version of Triton has no block pointers")
    assert ran.returncode == 0, ran.stderr
    ours = {n: a.copy() for n, a in arrays.items()}
    for e in run_all(module, module.function(kernel), arguments, grid, Arrays(ours)):
        assert e.tensor is None or not e.outside.any()
    return arrays, ours, dict(np.load(out))


@pytest.mark.parametrize("kernel", list(KERNELS))
def test_every_element(kernel: str, tmp_path: Path) -> None:
    pytest.importorskip("triton")
    arrays, ours, theirs = interpreted(kernel, tmp_path)
    changed = [n for n in arrays if not np.array_equal(theirs[n], arrays[n])]
    assert changed, "the kernel stores nothing"
    for n in arrays:
        exact = ours[n].dtype.kind != "f"
        rtol = 0 if exact else 2e-3 if ours[n].dtype == np.float16 else 1e-5  # sums and exp are rounded in another order
        np.testing.assert_allclose(ours[n], theirs[n], rtol=rtol, atol=0 if exact else 1e-6)


def test_32_the_backward_of_gelu_is_within_a_few_ulps_by_tritons_interpreter(tmp_path: Path) -> None:
    """Listing 5.4."""
    pytest.importorskip("triton")
    arrays, _, theirs = interpreted("gelu_backward", tmp_path)
    assert ulps_of_gelu_backward(theirs["out_ptr"], arrays["h_ptr"], arrays["upstream_ptr"]) <= 2


def _drawn(t: Tensor, seed: int) -> Any:
    count = t.count.constant
    rng = np.random.default_rng(seed)
    if t.type.is_float:
        return rng.standard_normal(count).astype(t.type.numpy)
    lo, hi = (0 if b is None else b.constant for b in (t.lower, t.upper))
    return rng.integers(lo, max(lo, hi) + 1, count).astype(t.type.numpy)
