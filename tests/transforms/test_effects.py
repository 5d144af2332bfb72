"""A check outlives the value it was made for: a pass that makes a read superfluous keeps the error."""

import numpy as np
import pytest

from assay.core.parser import parse
from assay.core.text import show
from assay.semantics.denote import run
from assay.transforms.pipeline import optimise

CONSTANT_BEHIND_A_CHECK = """program f(n: i64[3]):
  t0[i:3] = 0x0p+0:f32
  t1[i:3] = require(and(le(0:i64, n[i]), lt(n[i], 3:i64)), n[i], "[IndexError] index out of bounds: 0 <= {value} < 3", 0..2)
  t2[i:3] = t0[t1[i]]
  return t2
"""


@pytest.mark.parametrize("k", range(5))
def test_the_index_of_a_constant_is_still_checked(k):
    stage = optimise(parse(CONSTANT_BEHIND_A_CHECK))[k]
    with pytest.raises(IndexError, match="0 <= 4 < 3"):
        run(stage.program, [np.array([0, 4, 1])])


def test_the_check_becomes_an_effect():
    assert "effects t1" in show(optimise(parse(CONSTANT_BEHIND_A_CHECK))[-1].program)
