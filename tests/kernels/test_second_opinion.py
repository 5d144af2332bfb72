"""What elimination proves of the examples, asked of z3 again."""

from __future__ import annotations

import pytest

from assay.kernels import deciding, prove
from assay.kernels.eliminate import Budget
from assay.kernels.terms import Cond
from assay.verify.integers import ask_z3
from assay.verify.terms import Z3
from tests.kernels.launches import KERNELS


@pytest.mark.full
@pytest.mark.parametrize("kernel", ["add", "softmax", "matmul_blocks", "forward", "backward_dwdb", "embedding", "paged_read"])
def test_z3_refutes_no_elimination(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[tuple[Cond, tuple[Cond, ...]], None] = {}
    proved = deciding._proved

    def recorded(goal: Cond, given: tuple[Cond, ...], budget: Budget) -> bool:
        result = proved(goal, given, budget)
        if result:
            found[goal, given] = None
        return result

    monkeypatch.setattr(deciding, "_proved", recorded)
    monkeypatch.setattr(deciding, "_quick", {})
    prove(KERNELS[kernel], kernel)
    outcomes = [ask_z3(Z3(), deciding.KernelQuestion(*q), simple=True, negated_goal=True)[0] for q in found]
    assert "sat" not in outcomes
    assert "unsat" in outcomes or not outcomes
