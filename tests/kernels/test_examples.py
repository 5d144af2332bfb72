"""Kernels in the style of Triton's tutorials are proved for all sizes; each seeded fault is refuted, at its line."""

from __future__ import annotations

import pytest

from assay.kernels.prover import KernelProof, prove_kernel
from assay.verify.verdict import PROVED, REFUTED, UNKNOWN
from tests.kernels.launches import FAULTS, LAUNCHED, Fault


def _proof(kernel: str, text: str | None = None, grid: str = "", args: tuple[str, ...] = ()) -> KernelProof:
    x = LAUNCHED[kernel]
    named = {a.split("=")[0]: a for a in (*x.args, *args)}
    return prove_kernel(x.module(text), kernel, grid=grid or x.grid, args=list(named.values()), assume=x.assume)


@pytest.mark.parametrize("kernel", [k for k in LAUNCHED if k != "backward_dx"])
def test_right_kernels_are_proved(kernel: str) -> None:
    proof = _proof(kernel)
    assert proof.verdict.kind == PROVED, str(proof)


def test_a_lock_leaves_races_unknown() -> None:
    proof = _proof("backward_dx")
    assert proof.verdict.kind == UNKNOWN
    assert {o.status for o in proof.obligations if o.kind != "race"} == {PROVED}
    assert [o.status for o in proof.obligations if o.kind == "race"] == [PROVED, UNKNOWN, UNKNOWN]


def _id(f: Fault) -> str:
    return f"{f.kernel}: {f.new or ' '.join(f.args)}"[:60]


SLOW = ("lock_id = row % (GROUP + 1)", "off_z = off_zh // (n_heads + 1)")


@pytest.mark.parametrize("fault", [pytest.param(f, marks=[pytest.mark.full] if f.new in SLOW else [], id=_id(f)) for f in FAULTS])
def test_faults_are_refuted(fault: Fault) -> None:
    text = LAUNCHED[fault.kernel].text()
    assert fault.old in text
    at = 0 if fault.kernel == "attention" else text.index(f"def {fault.kernel}(")
    faulty = text[:at] + text[at:].replace(fault.old, fault.new, 1)
    assert faulty != text or fault.args or fault.grid
    proof = _proof(fault.kernel, faulty, fault.grid, fault.args)
    assert proof.verdict.kind == REFUTED, str(proof)
    lines = faulty.splitlines()
    found = [o for o in proof.obligations if o.status == REFUTED and o.kind == fault.kind and fault.at in lines[o.line - 1]]
    assert found, str(proof)
    assert all(o.witness is not None for o in found)
