"""The blocks of docs/tensors.md run, in order, in one namespace."""

import re
from pathlib import Path
from typing import Any

TEXT = (Path(__file__).parents[2] / "docs" / "tensors.md").read_text(encoding="utf-8")


def test_the_blocks_run() -> None:
    names: dict[str, Any] = {}
    blocks = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    assert len(blocks) == 6
    for k, block in enumerate(blocks):
        exec(compile(block, f"docs/tensors.md, block {k + 1}", "exec"), names)
