"""The assay command: text, JSON, exit codes, and what it says when something is wrong."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import assay
from assay.cli import main
from assay.cli.commands import app
from assay.cli.target import argument
from assay.core.errors import InternalError, Unsound
from assay.core.wording import counted
from assay.fuzz.campaign import Finding, Result
from tests.quality.faults import fault

DOCUMENT = "examples/document.py"
FUNCTIONS = '''
import assay
import assay.nn.functional as F

def double(x):
    return x * 2

def branch(x):
    if x.sum() > 0:
        return x
    return -x

def look_up(x, i):
    return x[i]

def wrong_shapes(x, y):
    return x @ y

def half_index(x, i):
    return assay.index_select(x, 0, i)

def scaled(x, k):
    return x * k

def boom(x):
    return {}["missing"]

def typo(x):
    return F.gelluu(x)

def wrong_method(x):
    return x.sofmax(-1)

class Model:
    pass

def transposed(x):
    return -x.T

def changing(x, calls=[]):
    calls.append(x)
    return x * len(calls)

ARGUMENTS = {double: ("f32[4]",)}
'''
PROGRAM = """program double(x: f32[3]):
  y[i:3] = mul(x[i], 0x1p+1:f32)
  return y
"""
WRONG_PROGRAM = """program f(x: f32[3]):
  y[i:3] = mul(x[i], oops[i])
  return y
"""


@pytest.fixture
def functions(tmp_path: Path) -> str:
    path = tmp_path / "functions.py"
    path.write_text(FUNCTIONS)
    return str(path)


@pytest.fixture
def case(tmp_path: Path) -> str:
    path = tmp_path / "double.assay"
    path.write_text(PROGRAM)
    return str(path)


def call(*args: str) -> tuple[int, str, str]:
    """(exit code, stdout, stderr)"""
    result = CliRunner().invoke(app, list(args), env={"COLUMNS": "80", "TERM": "dumb"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def said(*args: str) -> dict[str, Any]:
    """The one JSON object that the command prints with --json."""
    code, out, err = call(*args, "--json")
    lines = out.splitlines()
    assert (len(lines), err) == (1, "")
    found = json.loads(lines[0])
    assert found["exit_code"] == code
    assert isinstance(found["verdict"], str)
    return found


# ------------------------------------------------------------------------------------------------ each command


def test_prove_with_certificates(functions: str, tmp_path: Path) -> None:
    target = ("prove", f"{functions}:look_up", "--arg", "f32[8]", "--arg", "i64[3]=0..7")
    folder = str(tmp_path / "saved")
    found = said(*target, "--save-certificates", folder, "--recheck")
    assert (found["verdict"], found["certificates"]["count"], found["recheck"]["disagreements"]) == ("PROVED", 5, [])
    code, out, _ = call(*target, "--recheck", folder)
    assert (code, "PROVED: 0 disagreements" in out) == (0, True)
    assert said("prove", folder, "--recheck")["programs"][0]["name"] == "look_up"
    code, _, err = call("prove", f"{functions}:look_up", "--arg", "f32[9]", "--arg", "i64[3]", "--recheck", folder)
    assert (code, err.count("sha256"), "another program" in err) == (2, 2, True)
    assert call(*target, folder)[0] == 2  # a folder without --recheck


def test_recheck_fails_where_a_certificate_is_not_owed(case: str, tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    assert call("prove", case, "--save-certificates", str(folder))[0] == 0
    [path] = folder.glob("*/001-*.smt2")
    path.write_text(path.read_text().replace("2", "3"))
    code, _, err = call("prove", case, "--recheck", str(folder))
    assert (code, "was changed or cut off" in err) == (2, True)
    assert call("prove", str(tmp_path), "--recheck")[0] == 2


@pytest.mark.parametrize(
    ("text", "low", "high"), [("i64[50]=0..9", 0, 9), ("i32[50]=-3..-1", -3, -1), ("f32[50]=0.5..0.75", 0.5, 0.75)]
)
def test_a_range_of_drawn_values(text: str, low: float, high: float) -> None:
    values = argument(text, np.random.default_rng(0)).numpy()
    assert (values.shape, low <= values.min(), values.max() <= high, values.min() < values.max()) == ((50,), True, True, True)


def test_run(functions: str, case: str) -> None:
    code, out, _ = call("run", f"{functions}:scaled", "--arg", "f32[3]=0.5", "--arg", "3", "--backend", "reference")
    assert (code, "1.5" in out) == (0, True)
    found = said("run", case, "--backend", "reference")
    assert (found["verdict"], "array" in found["results"], found["seconds"] > 0) == ("OK", True, True)


@pytest.mark.cpp
def test_run_compiled(functions: str) -> None:
    assert call("run", f"{functions}:double", "--arg", "f32[2]=1.5")[1].strip() == "tensor([3., 3.])"


@pytest.mark.parametrize("stage", ["graph", "lower", "propagate_indices", "compose_views", "inline", "choose_layout", "final"])
def test_show(functions: str, stage: str) -> None:
    code, out, _ = call("show", f"{functions}:double", "--stage", stage)
    assert (code, "mul" in out) == (0, True)
    assert said("show", f"{functions}:double", "--stage", stage)["text"].rstrip("\n") == out.rstrip("\n")


@pytest.mark.cpp
@pytest.mark.parametrize(("stage", "words"), [
    ("searched", "program"), ("scheduled", "program"), ("kernels", "kernel 0"), ("cpp", 'extern "C"'),
])  # fmt: skip
def test_show_what_the_backend_made(case: str, stage: str, words: str) -> None:
    assert words in call("show", case, "--stage", stage)[1]


@pytest.mark.cpp
def test_explain_tells_the_whole_story_in_80_columns() -> None:
    code, out, _ = call("explain", f"{DOCUMENT}:g1")
    assert code == 0
    for section in ("operator graph", "lower (bitwise)", "inline (bitwise)", "kernels", "obligations", "time"):
        assert f"\n{section}\n" in f"\n{out}"
    assert "kept" in out
    found = said("explain", f"{DOCUMENT}:g2")
    assert {"name", "obligations", "kernels", "seconds", "sections"} <= found.keys()
    assert {o["status"] for o in found["obligations"]} == {"proved"}
    assert found["kernels"][0]["tensors"] == ["t0"]


WEIGHT = assay.ones(64, 32, requires_grad=True)


def attention_with_a_weight(x: assay.Tensor) -> assay.Tensor:
    h = (x @ WEIGHT).relu()
    h = (assay.softmax(h @ WEIGHT.T, -1) @ WEIGHT).exp()
    return (h * h / h.sum(1, keepdim=True)).sum()


def sorted_rows(x: assay.Tensor) -> assay.Tensor:
    return x.cumsum(0).sort(0).values.sum(1)


@pytest.mark.cpp
@pytest.mark.parametrize(("f", "shape", "sections"), [
    (attention_with_a_weight, (128, 64), {"before the schedule (bitwise)", "results and gradients", "saved for the backward"}),
    (sorted_rows, (5, 6), set()),  # its second kernel computes t1 over axes that were merged
])  # fmt: skip
def test_explain_names_values_as_its_programs_do(f: Any, shape: tuple[int, ...], sections: set[str]) -> None:
    told = assay.explain(f, assay.ones(shape))
    assert sections <= dict(told.sections).keys()
    assert re.findall(r"t\d+:\w+\[.*", f"{told} {json.dumps(told.to_json())}") == []  # as a tensor prints itself: by number
    programs = re.findall(r"^ +(t\d+)\[", dict(told.sections).get("before the schedule (bitwise)", ""), re.MULTILINE)
    decisions = re.findall(r"^# (t\d+): \w+ -> ", str(told), re.MULTILINE)
    assert set(decisions) <= set(programs)
    if sections:
        assert decisions


@pytest.mark.cpp
def test_check(functions: str, case: str) -> None:
    code, out, _ = call("check", f"{functions}:double", "--inputs", "3")
    assert (code, out.splitlines()[0]) == (0, "double: VALIDATED(4)")
    found = said("check", case, "--inputs", "2")
    assert [s["name"] for s in found["stages"]][-1] == "cpp"
    assert (found["verdict"], found["witness"]) == ("VALIDATED(2)", None)


def test_check_says_where_the_program_is_an_error(functions: str) -> None:
    target = ("check", f"{functions}:look_up", "--arg", "f32[8]", "--backend", "reference")
    out = call(*target, "--arg", "i64[3]=9")[1]
    assert "on 3 of 11 inputs the program is an error, on the given arguments: IndexError: index out of bounds: 0 <= 9 < 8" in out
    out = call(*target, "--arg", "i64[3]=7", "--explain")[1]
    assert "on 2 of 11 inputs the program is an error, on input 5: IndexError" in out
    assert [r["input"] for r in said(*target, "--arg", "i64[3]=9")["raised"]] == [0, 5, 10]
    assert "error" not in call("check", f"{functions}:double", "--backend", "reference")[1]


def test_check_of_a_wrong_compiler_is_refuted(case: str) -> None:
    Path(case).write_text("program f(x: f32[2,3]):\n  t[i:3,j:2] = x[j,i]\n  y[i:3,j:2] = neg(t[i,j])\n  return y\n")
    with fault("views are composed with a reversed axis").on():
        code, out, _ = call("check", case, "--backend", "reference")
        found = said("check", case, "--backend", "reference")
    assert code == 1
    assert "compose_views" in out
    assert re.search(r"output 0\[\d, \d\]: meaning \S+.*, compose_views \S+", out)
    assert "source" in out
    assert (found["verdict"], found["witness"]["layer"]) == ("REFUTED", "compose_views")


def test_check_saves_a_failing_case_that_replays(functions: str, case: str, tmp_path: Path) -> None:
    Path(case).write_text("program f(x: f32[2,3]):\n  t[i:3,j:2] = x[j,i]\n  y[i:3,j:2] = neg(t[i,j])\n  return y\n")
    saved = tmp_path / "deep" / "saved"
    for target in ((case,), (f"{functions}:transposed", "--arg", "f32[2,3]")):
        check = ("check", *target, "--backend", "reference", "--save", str(saved))
        with fault("views are composed with a reversed axis").on():
            code, out, _ = call(*check)
            found = said(*check)
            assert (code, out.splitlines()[-1]) == (1, f"saved {found['case']}")
            replayed = said("replay", found["case"], "--backend", "reference")
            assert replayed["exit_code"] == 1
            assert next(s["name"] for s in replayed["stages"] if s["verdict"].startswith("REFUTED")) == "compose_views"
        assert call("replay", found["case"], "--backend", "reference")[0] == 0  # the fault is gone
        assert Path(found["case"]).parent == saved
    assert "recipe" in Path(found["case"]).read_text()  # of a function: its operators, so that eager is replayed too
    assert {s["name"] for s in replayed["stages"]} > {"eager", "graph", "lower"}
    assert len(list(saved.iterdir())) == 2


def test_check_saves_nothing_where_all_stages_agree(functions: str, tmp_path: Path) -> None:
    check = ("check", f"{functions}:double", "--backend", "reference", "--save", str(tmp_path / "none"))
    assert said(*check)["case"] is None
    assert "saved" not in call(*check)[1]
    assert not (tmp_path / "none").exists()


def test_a_case_says_where_only_the_function_differs(functions: str, tmp_path: Path) -> None:
    code, out, _ = call("check", f"{functions}:changing", "--arg", "f32[3]=1", "--backend", "reference", "--save", str(tmp_path))
    assert (code, "eager differs from the meaning" in out) == (1, True)
    assert out.splitlines()[-1].endswith("-eager.assay, which does not show it: only the function itself does")


def test_prove() -> None:
    code, out, _ = call("prove", f"{DOCUMENT}:g1")
    assert (code, "kept" in out) == (0, True)
    found = said("prove", f"{DOCUMENT}:g1")
    assert {"kept", "proved"} == {o["status"] for o in found["obligations"]}
    assert {"kind", "where", "status", "how", "witness"} <= found["obligations"][0].keys()


def test_prove_for_all_sizes(functions: str) -> None:
    target = ("prove", f"{functions}:double", "--arg", "f32[6,10]", "--dynamic")
    code, out, _ = call(*target)
    assert code == 0
    assert "for all n0 >= 2    (captured at 6)" in out
    found = said(*target)
    assert (found["verdict"], found["shapes"], found["guards"]) == ("PROVED", {"x": ["n0", "n1"]}, [])
    assert call(*target, "--recheck")[0] == 2


def test_prove_refutes(case: str) -> None:
    Path(case).write_text("program f(x: f32[3]):\n  y[i:4] = x[i]\n  return y\n")
    code, out, _ = call("prove", case)
    assert (code, "refuted" in out) == (1, True)
    assert said("prove", case)["verdict"] == "REFUTED"


def test_fuzz(tmp_path: Path) -> None:
    args = ("fuzz", "--count", "2", "--operators", "2", "--backend", "reference", "--save", str(tmp_path))
    code, out, _ = call(*args)
    assert code == 0
    assert re.search(r"2 programs, \d+ operators, 0 findings, 0 unsupported, [\d.]+ programs/s", out)
    found = said(*args)
    assert (found["programs"], found["findings"]) == (2, [])
    assert said("fuzz", "--count", "0", "--save", str(tmp_path))["exit_code"] == 6


def test_replay(case: str) -> None:
    assert call("replay", case, "--backend", "reference")[0] == 0
    assert said("replay", "tests/cases/corpus/constant_behind_a_check.assay", "--backend", "reference")["exit_code"] == 0


def test_replay_of_what_cannot_be_tested(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path(case).write_text(PROGRAM.replace("0x1p+1", "0x1.2345p+1"))  # nobody has built this one
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path))
    monkeypatch.setattr("shutil.which", lambda *args, **options: None)
    from assay.backends import build

    build.compiler.cache_clear()
    try:
        assert said("replay", case)["exit_code"] == 125
        code, out, _ = call("replay", case)
        assert (code, "apt install g++" in out) == (125, True)
    finally:
        build.compiler.cache_clear()


def test_without_a_compiler_the_gate_compares_nothing(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    baseline = str(tmp_path / "gate.json")
    call("gate", case, "--baseline", baseline, "--backend", "reference", "--accept")
    monkeypatch.setenv("CXX", "no-such-compiler")
    from assay.backends import build

    build.compiler.cache_clear()
    try:
        code, out, err = call("gate", case, "--baseline", baseline)
        assert (code, out) == (5, "")
        assert "needs no-such-compiler, which is not on PATH" in err
        assert "(a command: --backend reference)" in err
    finally:
        build.compiler.cache_clear()


def test_gate(case: str, tmp_path: Path) -> None:
    baseline = str(tmp_path / "gate.json")
    assert call("gate", case, "--baseline", baseline, "--backend", "reference")[0] == 2
    assert "1 case, 0 differences" in call("gate", case, "--baseline", baseline, "--backend", "reference", "--accept")[1]
    assert said("gate", case, "--baseline", baseline, "--backend", "reference")["cases"] == 1
    Path(case).write_text("program f(\n")
    code, out, _ = call("gate", case, "--baseline", baseline, "--backend", "reference")
    assert (code, "WORSE" in out) == (1, True)
    assert said("gate", case, "--baseline", baseline, "--backend", "reference")["differences"][0]["case"] == "double.assay"
    (tmp_path / "none").mkdir()
    assert call("gate", str(tmp_path / "none"), "--baseline", baseline)[0] == 6


def test_ops() -> None:
    code, out, _ = call("ops", "softmax")
    assert (code, "softmax.int" in out) == (0, True)
    found = said("ops")
    assert len(found["operators"]) >= 160
    assert {"name", "schema", "family", "has", "meaning"} <= found["operators"][0].keys()
    assert len(said("ops", "--scalar")["functions"]) >= 60


def test_ops_says_where_there_is_none() -> None:
    assert call("ops", "no such") == (0, "no operator has 'no such' in its name\n", "")
    assert call("ops", "--scalar", "no such")[1] == "no scalar function has 'no such' in its name\n"


def test_version() -> None:
    assert call("--version") == (0, "assay 0.1.0\n", "")


def test_passes() -> None:
    assert "the pipeline as a whole: bitwise" in call("passes")[1]
    names = [p["name"] for p in said("passes")["passes"]]
    assert names[:5] == ["drop_slopes", "propagate_indices", "compose_views", "inline", "choose_layout"]


def test_doctor() -> None:
    out = call("doctor")[1]
    assert "cache" in out
    assert "pip install assay" not in out  # another package has this name on PyPI
    assert {"compiler", "cache", "extras", "libraries"} <= said("doctor").keys()


def test_bench_with_nothing_to_do() -> None:
    assert "no such row" in said("bench", "--rows", "no such row", "--peers", "")["error"]


def test_help_names_every_command() -> None:
    out = call("--help")[1]
    for name in ("run", "show", "explain", "check", "prove", "fuzz", "replay", "gate", "ops", "passes", "bench", "doctor"):
        assert f" {name} " in out
    assert call()[0] in (0, 2)


# ------------------------------------------------------------------------------------------------ what is wrong


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("run", "missing.py:f"), "no file missing.py"),
        (("run", "missing.assay"), "no file missing.assay"),
        (("run", "what"), "target 'what'; allowed: file.py:function, or program.assay"),
        (("prove", "examples/kernels/faulty.py"), "faulty.py defines: add, copy_rows, pair_sums"),
        (("run", "FUNCTIONS:Model"), "Model is a class; name a function, or an object that can be called"),
        (("check", "FUNCTIONS:typo", "--arg", "f32[3]"), "functions.py:29: return F.gelluu(x)\n  module 'assay.nn.functional'"),
        (("check", "FUNCTIONS:typo", "--arg", "f32[3]"), "attribute 'gelluu'; did you mean: gelu"),
        (("check", "FUNCTIONS:wrong_method", "--arg", "f32[3]"), "no attribute or operator 'sofmax'; did you mean: softmax"),
        (("check", "examples/kernels/matmul.py:matmul"), "is for `assay prove`, which needs no triton"),
        (("run", "FUNCTIONS:trouble"), "has no function 'trouble'; it defines: double, branch, look_up"),
        (("run", "FUNCTIONS:scaled"), "missing a required argument: 'x'"),
        (("run", "FUNCTIONS:double", "--arg", "f32[4"), "--arg 'f32[4'; allowed: a tensor such as f32[64,128]"),
        (("run", "FUNCTIONS:double", "--arg", "f33[4]"), "--arg 'f33[4]': unknown dtype 'f33'; allowed: a tensor"),
        (("run", "FUNCTIONS:double", "--arg", "f32[4]=zero"), "--arg 'f32[4]=zero': could not convert string to float"),
        (("run", "FUNCTIONS:double", "--arg", "i64[4]=a..b"), "--arg 'i64[4]=a..b'"),
        (("run", "FUNCTIONS:double", "--arg", "i64[4]=9..0"), "--arg 'i64[4]=9..0'"),
        (("run", "FUNCTIONS:double", "--arg", "f32[99999999999]"), "--arg 'f32[99999999999]'"),
        (("prove", "CASE", "--save-certificates", "/dev/null/here"), "/dev/null/here: Not a directory"),
        (("run", "CASE", "--arg", "f32[3]"), "is a program: its inputs have their types already"),
        (("show", "FUNCTIONS:double", "--stage", "fused"), "unknown stage 'fused'; allowed: lower, drop_slopes"),
        (("run", "FUNCTIONS:wrong_shapes", "--arg", "f32[2,3]", "--arg", "f32[2,3]"), "functions.py"),
        (("run", "FUNCTIONS:half_index", "--arg", "f32[3]", "--arg", "f16[2]"), "functions.py"),
        (("run", "FUNCTIONS:branch", "--arg", "f32[3]"), "if x.sum() > 0:"),
        (("run", "FUNCTIONS:boom", "--arg", "f32[3]"), "functions.py:26: return {}[\"missing\"]"),
        (("run", "FUNCTIONS:double", "--backend", "fortran"), "backend='fortran'; allowed: 'cpp', 'reference'"),
        (("check", "CASE", "--backend", "fortran"), "backend='fortran'; allowed: 'cpp', 'reference'"),
        (("fuzz", "--count", "1", "--backend", "fortran"), "backend='fortran'; allowed: 'cpp', 'reference'"),
        (("replay", "missing.assay"), "no file missing.assay"),
        (("gate", "missing"), "no file or folder missing"),
    ],
)
def test_a_wrong_command_says_what_is_allowed(functions: str, case: str, args: tuple[str, ...], words: str) -> None:
    args = tuple(a.replace("FUNCTIONS", functions).replace("CASE", case) for a in args)
    code, out, err = call(*args)
    assert (code in (2, 5), out) == (True, "")
    assert words in err
    assert err.startswith("assay: ")
    assert "Traceback" not in err
    found = said(*args)
    assert (found["exit_code"], words in found["error"]) == (code, True)


def test_an_error_in_a_program_shows_the_line_and_the_place(case: str) -> None:
    Path(case).write_text(WRONG_PROGRAM)
    code, _, err = call("check", case)
    assert code == 2
    assert "y[i:3] = mul(x[i], oops[i])" in err
    assert err.splitlines()[-1].strip().startswith("^") or "^" in err
    assert "double.assay" in err or "line 2" in err


def test_a_data_dependent_branch_is_unsupported_or_usage_at_the_users_line(functions: str) -> None:
    code, _, err = call("check", f"{functions}:branch", "--arg", "f32[3]")
    assert code in (2, 5)
    assert "functions.py:9" in err
    assert "where" in err  # what to use instead


def test_an_index_outside_is_the_programs_error(functions: str) -> None:
    code, _, err = call("run", f"{functions}:look_up", "--arg", "f32[3]", "--arg", "i64[2]=7", "--backend", "reference")
    assert code == 2
    assert err.startswith("assay: IndexError: ")
    assert "0 <= 7 < 3" in err


def test_a_file_that_does_not_import_is_a_message(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("def f(x:\n")
    code, _, err = call("run", f"{path}:f")
    assert (code, "Traceback" in err) == (2, False)
    assert "broken.py" in err
    path.write_text("x = 1\ny = x / 0\n")
    assert call("run", f"{path}:f")[2].endswith("broken.py:2: y = x / 0\n")
    path = tmp_path / "modules.py"
    path.write_text("import assay\nM = assay.nn.Module\n")
    assert "modules.py:2: M = assay.nn.Module\n  module 'assay' has no attribute 'nn.Module'" in call("run", f"{path}:f")[2]
    path.write_text("import no_such_module\n")
    code, _, err = call("run", f"{path}:f")
    assert (code, "no_such_module" in err, "Traceback" in err) == (2, True, False)


@pytest.mark.parametrize(
    ("error", "code", "verdict"),
    [(Unsound("a"), 1, "REFUTED"), (InternalError("a"), 3, "INTERNAL"), (KeyboardInterrupt(), 130, "INTERRUPTED"),
     (None, 3, "INTERNAL")],
)  # fmt: skip
def test_whose_fault_it_is(case: str, monkeypatch: pytest.MonkeyPatch, error: Any, code: int, verdict: str) -> None:
    def raises(*args: Any, **options: Any) -> Any:
        if error is not None:
            raise error
        return counted(None, "a")  # type: ignore[arg-type]  a defect: an exception out of Assay's own code

    monkeypatch.setattr("assay.examine.prove", raises)
    found = said("prove", case)
    assert (found["exit_code"], found["verdict"]) == (code, verdict)


def test_the_installed_command() -> None:
    done = subprocess.run([sys.executable, "-m", "assay", "passes", "--json"], capture_output=True, text=True, check=False)
    assert (done.returncode, json.loads(done.stdout)["verdict"], done.stderr) == (0, "OK", "")


@pytest.mark.cpp
def test_explain_shows_the_gradient_of_what_requires_one() -> None:
    import assay

    w = assay.ones(2, 3, requires_grad=True)

    def loss(x):
        return (x @ w).exp().sum()

    titles = [title for title, _ in assay.explain(loss, assay.ones(4, 2)).sections]
    assert {"results and gradients", "saved for the backward", "backward"} <= set(titles)
    w.requires_grad_(False)
    assert "backward" not in [title for title, _ in assay.explain(loss, assay.ones(4, 2)).sections]


# ------------------------------------------------------------------------------------------------ one object, whoever prints


def test_the_object_stands_alone_where_the_users_code_prints(tmp_path: Path) -> None:
    path = tmp_path / "talks.py"
    path.write_text("print('imported')\ndef f(x):\n    print('traced')\n    return -x\n")
    code, out, err = call("prove", f"{path}:f", "--arg", "f32[3]", "--json")
    assert (code, json.loads(out)["verdict"], err) == (0, "PROVED", "imported\ntraced\n")
    assert call("prove", f"{path}:f", "--arg", "f32[3]")[1].startswith("imported\ntraced\nproved")


@pytest.mark.parametrize(("text", "words"), [
    ("import sys\ndef f(x):\n    sys.exit(3)\n", "SystemExit(3)\n  {}:3: sys.exit(3)"),
    ("raise SystemExit\n", "SystemExit(None)\n  {}:1: raise SystemExit"),
])  # fmt: skip
def test_a_target_that_ends_the_process_is_said(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "ends.py"
    path.write_text(text)
    found = said("prove", f"{path}:f", "--arg", "f32[3]")
    assert (found["exit_code"], found["error"]) == (2, "the target ended the process: " + words.format(path))


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("run", "CASE", "--seed", "-1"), "--seed"),
        (("check", "CASE", "--inputs", "-1"), "--inputs"),
        (("fuzz", "--count", "-1"), "--count"),
        (("fuzz", "--operators", "0"), "--operators"),
        (("bench", "--rounds", "0"), "--rounds"),
        (("bench", "--threads", "0"), "--threads"),
        (("mutants", "--jobs", "0"), "--jobs"),
        (("run", "CASE", "--nope"), "--nope"),
        (("nosuch",), "nosuch"),
        (("fuzz", "--save", "CASE"), "this is a file; give a folder"),  # said before a campaign, not at its first finding
        (("check", "CASE", "--save", "CASE"), "this is a file; give a folder"),
    ],
)
def test_an_option_that_is_wrong_is_said_by_an_object_too(case: str, args: tuple[str, ...], words: str) -> None:
    args = tuple(case if a == "CASE" else a for a in args)
    code, out, err = call(*args)
    assert (code, out, words in err, "Traceback" in err) == (2, "", True, False)
    assert words in said(*args)["error"]


@pytest.mark.parametrize("command", ["ops", "mutants --list", "ops --json"])
def test_a_pipe_whose_reader_has_gone_ends_quietly(command: str) -> None:
    shell = f"{sys.executable} -m assay {command} | head -c 1"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=False)
    assert done.stderr == ""


def test_a_compiler_that_fails_is_not_an_internal_error(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from assay.backends import build

    Path(case).write_text(PROGRAM.replace("0x1p+1", "0x1.2346p+1"))  # nobody has built this one
    broken = tmp_path / "g++"
    broken.write_text("#!/bin/sh\necho no licence >&2\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CXX", str(broken))
    build.compiler.cache_clear()
    try:
        code, _, err = call("run", case)
        assert (code, f"`{broken} -dumpfullversion -dumpmachine` ended with 3: no licence; set CXX" in err) == (5, True)
        assert (said("doctor")["exit_code"], "ended with 3: no licence" in call("doctor")[1]) == (5, True)
        broken.write_text("not a program")
        assert "does not run" in said("doctor")["compiler_error"]
        monkeypatch.setenv("CXX", "")
        assert said("doctor")["command"] == "g++"
    finally:
        build.compiler.cache_clear()


def test_help_keeps_what_stands_in_brackets() -> None:
    assert "--arg 'x_ptr=f32[n]'" in call("prove", "--help")[1]


def test_an_interrupted_campaign_says_what_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Finding(3, "inline", 2, "the recipe", "the witness", "kept.assay")

    def interrupted(*_: Any, progress: Any, **__: Any) -> None:
        progress(0, Result(programs=7, findings=[found]))
        raise KeyboardInterrupt

    monkeypatch.setattr("assay.fuzz.campaign.run_campaign", interrupted)
    code, out, _ = call("fuzz", "--save", str(tmp_path))
    assert code == 130
    assert out.splitlines()[-1].startswith("interrupted: 7 programs, 0 operators, 1 finding, 0 unsupported")
    assert "replay: assay replay kept.assay" in out
    object_ = said("fuzz", "--save", str(tmp_path))
    assert (object_["verdict"], object_["exit_code"], len(object_["findings"])) == ("INTERRUPTED", 130, 1)


def test_a_command_that_is_interrupted_before_it_begins(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("assay.cli.commands.app", interrupted)
    with pytest.raises(SystemExit) as left:
        main()
    assert (left.value.code, capsys.readouterr().err) == (130, "assay: interrupted\n")


@pytest.mark.cpp
def test_a_warning_of_a_command_shows_no_line_of_a_library(case: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    environment = {**os.environ, "ASSAY_CACHE": str(tmp_path / "file"), "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-m", "assay", "run", case], env=environment, capture_output=True, text=True)
    assert done.returncode == 0
    assert re.fullmatch(r"assay: warning: the build cache \S+ cannot be written .* Set ASSAY_CACHE .*\n", done.stderr)
    assert list(tmp_path.glob("assay-*")) == []  # what was built instead is gone


def test_a_case_that_is_given_twice_is_said(case: str, tmp_path: Path) -> None:
    for twice in (case, str(tmp_path)):
        code, _, err = call("gate", case, twice, "--backend", "reference")
        assert (code, err) == (2, f"assay: {case} is given twice; name each case once, by itself or by a folder\n")
