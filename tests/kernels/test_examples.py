"""Kernels in the style of Triton's tutorials are proved for all sizes; each seeded fault is refuted, at its line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from assay.kernels.arguments import read_launch
from assay.kernels.concrete import Arrays, run_all
from assay.kernels.prover import KernelProof, prove
from assay.kernels.source import read_module
from assay.kernels.witness import concrete_arguments
from assay.verify.verdict import PROVED, REFUTED, UNKNOWN
from tests.kernels.launches import FAULTS, FOLDER, KERNELS, Fault, seeded, ulps_of_gelu_backward


def _proof(kernel: str, folder: Path, text: str, grid: str = "", args: tuple[str, ...] = ()) -> KernelProof:
    path = folder / KERNELS[kernel].name
    path.write_text(text)
    return prove(path, kernel, grid=grid, args=args)


@pytest.mark.parametrize("kernel", [k for k in KERNELS if k != "backward_dx"])
def test_right_kernels_are_proved(kernel: str) -> None:
    proof = prove(KERNELS[kernel], kernel)
    assert proof.verdict.kind == PROVED, str(proof)


def test_a_lock_leaves_races_unknown() -> None:
    proof = prove(KERNELS["backward_dx"], "backward_dx")
    assert proof.verdict.kind == UNKNOWN
    assert {o.status for o in proof.obligations if o.kind != "race"} == {PROVED}
    assert [o.status for o in proof.obligations if o.kind == "race"] == [PROVED, UNKNOWN, UNKNOWN]


def _id(f: Fault) -> str:
    return f"{f.kernel}: {f.new or ' '.join(f.args)}"[:60]


SLOW = (
    "lock_id = row % (GROUP + 1)", "off_z = off_zh // (n_heads + 1)", "tl.range(first, n_rows, 1)", "off_zh * stride_h",
    "n = tl.program_id(1) * (BLOCK_N - 1)", "shape=[N, M]", "off_h = off_zh", "(offs_cm[:, None] < N) & (offs_cn[None, :] < M)",
    "M=1..2**17",
)  # fmt: skip


def _marks(f: Fault) -> list[pytest.MarkDecorator]:
    return [pytest.mark.full] if f.new in SLOW or (f.args and f.args[0] in SLOW) else []


@pytest.mark.parametrize("fault", [pytest.param(f, marks=_marks(f), id=_id(f)) for f in FAULTS])
def test_faults_are_refuted(fault: Fault, tmp_path: Path) -> None:
    faulty = seeded(fault)
    assert faulty != KERNELS[fault.kernel].read_text() or fault.args
    proof = _proof(fault.kernel, tmp_path, faulty, fault.grid, fault.args)
    assert proof.verdict.kind == REFUTED, str(proof)
    lines = faulty.splitlines()
    found = [o for o in proof.obligations if o.status == REFUTED and o.kind == fault.kind and fault.at in lines[o.line - 1]]
    assert found, str(proof)
    assert all(o.witness is not None for o in found)


@pytest.mark.parametrize(("kernel", "kind", "at"), [
    ("add", "bounds", "x = tl.load"), ("copy_rows", "int32", "row * columns"), ("pair_sums", "race", "tl.store"),
])  # fmt: skip
def test_the_faulty_examples_are_refuted(kernel: str, kind: str, at: str) -> None:
    proof = prove(FOLDER / "faulty.py", kernel)
    assert [o.kind for o in proof.obligations if o.status == REFUTED] == [kind]
    spoiled = [o.how for o in proof.obligations if o.status == UNKNOWN]
    assert spoiled == [] if kind != "int32" else all("only if line 34 fits int32" in how for how in spoiled)
    line = next(o.line for o in proof.obligations if o.status == REFUTED)
    assert at in (FOLDER / "faulty.py").read_text().splitlines()[line - 1]


def test_32_the_backward_of_gelu_reads_h_and_a_scalar_once_and_writes_once() -> None:
    """Listing 5.4: its memory accesses, the order of its terms, its values by the interpreter of kernels."""
    module = read_module(KERNELS["gelu_backward"])
    text = KERNELS["gelu_backward"].read_text()
    assert [text.count(call) for call in ("tl.load(upstream_ptr", "tl.load(h_ptr", "tl.load(", "tl.store(")] == [1, 1, 2, 1]
    assert [text.count(call) for call in ("tl.erf(", "tl.exp(", "tl.broadcast_to(")] == [1, 1, 1]
    stated = module.launches["gelu_backward"]
    launch = read_launch(module, module.function("gelu_backward"), [*stated["args"], "n=1000"], stated["grid"])
    arguments = concrete_arguments(launch, lambda p: p.constant)
    arrays = {"upstream_ptr": np.array([0.75], np.float32), "h_ptr": np.linspace(-6, 6, 1000, dtype=np.float32),
              "out_ptr": np.full(1000, np.nan, np.float32)}  # fmt: skip
    events = list(run_all(module, module.function("gelu_backward"), arguments, (1,), Arrays(arrays)))
    assert not any(e.outside.any() for e in events if e.tensor is not None)
    assert ulps_of_gelu_backward(arrays["out_ptr"], arrays["h_ptr"], arrays["upstream_ptr"]) <= 2
    wrong = np.where(abs(arrays["h_ptr"]) < 1, 0.75, arrays["out_ptr"])
    assert ulps_of_gelu_backward(wrong, arrays["h_ptr"], arrays["upstream_ptr"]) > 1000
