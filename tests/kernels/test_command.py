"""`assay prove` on kernels: what it prints, JSON, exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from assay.cli.commands import app

ADD = "examples/kernels/vector_add.py:add"


def run(*args: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["prove", *args])
    return result.exit_code, result.output


def test_json() -> None:
    code, out = run("examples/kernels/faulty.py:add", "--json")
    data: dict[str, Any] = json.loads(out)
    assert (code, data["exit_code"], data["verdict"], data["name"]) == (1, 1, "REFUTED", "add")
    worst = next(o for o in data["obligations"] if o["status"] == "REFUTED")
    assert (worst["kind"], worst["line"], worst["access"], worst["tensor"]) == ("bounds", 25, "load", "x_ptr")
    assert worst["witness"]["sizes"] == {"n": worst["witness"]["bound"]}


@pytest.mark.parametrize(("args", "code", "says"), [
    ((ADD,), 0, "PROVED: 4 proved"),
    ((ADD, "--arg", "x_ptr=f32[n-1]"), 1, "x_ptr is accessed outside"),
    ((ADD, "--grid", "cdiv(n, BLOCK) + 1"), 1, "2147483648 wraps to -2147483648; line 21 then accesses x_ptr[-2147483648]"),
    ((ADD, "--grid", "cdiv(n, BLOCK) + 1", "--arg", "n=1..2**30"), 0, "PROVED"),
    ((ADD, "--arg", "n"), 2, "for a kernel it is NAME=..., such as x_ptr=f32[n]"),
    ((ADD, "--assume", "n >"), 2, "--assume: 'n >' is no expression"),
    (("examples/kernels/vector_add.py:sub",), 2, "has no kernel 'sub' (a function under @triton.jit); it has: add"),
    (("examples/document.py:g1", "--grid", "1"), 2, "--grid and --assume are for kernels"),
    (("examples/kernels/layer_norm.py:backward_dx",), 4, "locks (atomic_cas, atomic_xchg) are not modelled"),
])  # fmt: skip
def test_codes(args: tuple[str, ...], code: int, says: str) -> None:
    found, out = run(*args)
    assert (found, says in out) == (code, True), out


def test_a_kernel_without_launches(tmp_path: Path) -> None:
    path = tmp_path / "k.py"
    path.write_text("import triton\nimport triton.language as tl\n\n@triton.autotune(configs=[], key=[])\n@triton.jit\n"
                    "def k(x_ptr, n, B: tl.constexpr = 4):\n    tl.load(x_ptr + tl.inline_asm(n))\n")  # fmt: skip
    assert "say how many programs run, such as --grid" in run(f"{path}:k")[1]
    code, out = run(f"{path}:k", "--grid", "n")
    assert (code, "k needs --arg x_ptr=f32[n], --arg n=1..65536" in out) == (2, True), out
    code, out = run(f"{path}:k", "--grid", "n", "--arg", "x_ptr=f32[n]", "--arg", "n=1..9")
    assert (code, f"{path}:7: triton.language.inline_asm is not understood" in out) == (5, True), out
    path.write_text("LAUNCHES = {'k': 3}\n" + path.read_text())
    assert "LAUNCHES must be" in run(f"{path}:k")[1]
