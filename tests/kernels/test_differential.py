"""The prover beside the concrete interpreter: what is proved never goes outside, in any program of any small launch."""

from __future__ import annotations

import pytest

from assay.core.errors import Unsupported, UserError
from assay.kernels.eliminate import Facts
from assay.kernels.prover import prove_kernel
from assay.kernels.races import conflicts_of
from assay.kernels.source import read_source
from assay.kernels.terms import Op, poly
from assay.verify.verdict import PROVED, REFUTED
from tests.kernels.random_kernels import GRID, Writer, trials

ARGS = ("x_ptr=f32[n*m]", "y_ptr=f32[n]", "i_ptr=i32[n] in 0..m-1", "n=1..1000", "m=1..1000")


def compare(seed: int) -> dict[str, int]:
    """Statuses by count.  Raises AssertionError where the two contradict each other."""
    text = Writer(seed).source()
    module = read_source(text, "kernel.py")
    try:
        proof = prove_kernel(module, "kernel", grid=str(GRID), args=ARGS)
    except (Unsupported, UserError) as error:
        return {type(error).__name__: 1}
    outside: set[tuple[str, int]] = set()
    for t in trials(module, seed):
        outside |= {("bounds", e.line) for e in t.events if e.tensor is not None and e.outside.any()}
        outside |= {(f"int{b}", e.line) for e in t.events if e.kind == "overflow" for b in (8, 32)}
        outside |= {("race", line) for c in conflicts_of(t) for line in (c.first[0], c.second[0])}
    counts: dict[str, int] = {}
    for o in proof.obligations:
        counts[o.status] = counts.get(o.status, 0) + 1
        if o.status == PROVED:
            assert (o.kind, o.line) not in outside, f"seed {seed}: {o.kind} of line {o.line} is false\n{text}\n{proof}"
        assert o.status != REFUTED or o.witness is not None
    return counts


def test_proofs_agree_with_all_small_launches() -> None:
    for seed in range(16):
        compare(seed)


@pytest.mark.full
@pytest.mark.parametrize("start", range(16, 300, 20))
def test_more_proofs_agree_with_all_small_launches(start: int) -> None:
    for seed in range(start, start + 20):
        compare(seed)


def test_a_wrong_prover_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a fact that does not hold (a quotient that is one too small), some proof contradicts a launch."""
    division = Facts._division

    def wrong(self: Facts, a: Op) -> None:
        division(self, a)
        if a.name == "div":
            self._add(a.args[0] - a.args[1] * (poly(a) + 1))

    monkeypatch.setattr(Facts, "_division", wrong)

    def compare_some() -> None:
        for seed in range(60):
            compare(seed)

    with pytest.raises(AssertionError, match="is false"):
        compare_some()
