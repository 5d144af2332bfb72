"""The fuzzer itself: what it draws, how it judges, what it keeps."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from assay.backends import build
from assay.core.dtypes import f32, f64, i64
from assay.core.errors import UserError
from assay.core.operators.registry import OPERATORS
from assay.core.operators.samples import Like
from assay.frontends.capture import capture
from assay.fuzz import campaign, cases, oracle
from assay.fuzz.generate import LARGEST, operators, random_recipe, recipes, samples
from assay.fuzz.oracle import Judged, draw_arrays, draw_many_arrays, judge_on
from assay.fuzz.recipe import Call, Recipe, Ref, from_json, tensors
from assay.fuzz.schedules import random_plan
from assay.fuzz.shrink import shrink
from assay.fuzz.worker import Judge, Worker
from assay.semantics.compare import bits_equal
from assay.semantics.inputs import KINDS
from assay.transforms.lower import lower
from assay.transforms.pipeline import EXACT, optimise
from assay.verify.layered import Report
from tests.quality.faults import fault

TRANSPOSED = fault("inline reads transposed")
CORPUS = Path(__file__).parent.parent / "cases" / "corpus"
IDENTITY = "program f(x: f32[2]):\n  return x\n"
ADD_SUM = Recipe(
    (Like((2, 3), f32), Like((3,), f32)),
    (Call("add.Tensor", (Ref(0), Ref(1), 1)), Call("sum.dim_IntList", (Ref(2), (1,), False, None))),
    (Ref(3),),
)


# ------------------------------------------------------------------------------------------------ drawing


def test_a_seed_is_a_program() -> None:
    assert [random_recipe(s) for s in range(40)] == [random_recipe(s) for s in range(40)]
    assert len({random_recipe(s) for s in range(40)}) == 40


def test_programs_have_1_to_12_operators_and_small_values() -> None:
    drawn = [random_recipe(s) for s in range(300)]
    sizes = Counter(len(r.calls) for r in drawn)
    assert set(sizes) <= set(range(1, 13))
    assert min(sizes[n] for n in range(1, 12)) >= 5
    assert all(np.prod(i.shape, dtype=int) <= LARGEST for r in drawn for i in r.inputs)


def test_every_functional_operator_with_samples_can_be_drawn() -> None:
    reachable = {name for family in operators() for name in family}
    assert reachable == {o.name for o in OPERATORS.values() if o.inplace_of is None and samples(o.name)}
    assert len(reachable) >= 400


def test_values_are_reused() -> None:
    drawn = [random_recipe(s) for s in range(100)]
    read = sum(r.value >= len(d.inputs) for d in drawn for c in d.calls for r in _refs(c.args))
    calls = sum(len(d.calls) for d in drawn)
    assert read > calls / 3  # at least every third call reads the result of another


def _refs(args: Any) -> list[Ref]:
    return [args] if isinstance(args, Ref) else [r for a in args for r in _refs(a)] if isinstance(args, tuple) else []


@pytest.mark.parametrize("seed", [*range(0, 60, 3), 1044, 2044])
def test_a_recipe_survives_json(seed: int) -> None:
    recipe = random_recipe(seed)
    assert from_json(json.loads(json.dumps(recipe.to_json()))) == recipe


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"calls": [{"operator": "frobnicate.default", "args": []}]}, "frobnicate"),
        ({"inputs": [{"shape": [2], "dtype": "f33", "lo": None, "hi": None}]}, "f33"),
        ({"calls": 3}, "not a recipe"),
    ],
)
def test_what_is_no_recipe_is_an_error(change: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        from_json({**ADD_SUM.to_json(), **change})


@settings(max_examples=25)
@given(recipes(4))
def test_drawn_programs_agree_with_their_meaning(recipe: Recipe) -> None:
    (judged,) = judge_on([recipe], draw_many_arrays([recipe], 7), backend="reference")
    assert judged.ok or judged.unsupported, f"{recipe}\n{judged.error or judged.report}"


# ------------------------------------------------------------------------------------------------ judging


@pytest.mark.cpp
def test_every_stage_is_in_the_report() -> None:
    (judged,) = judge_on([ADD_SUM], draw_many_arrays([ADD_SUM], 0))
    assert judged.report is not None
    last = ["schedule", "nest", "cpp"]
    assert [s.name for s in judged.report.stages] == ["eager", "graph", "lower", *(t.name for t in EXACT), *last]
    assert judged.ok


@pytest.mark.cpp
def test_a_stage_that_raises_is_the_wrong_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(program: Any, **options: Any) -> Any:
        raise ZeroDivisionError("three")

    monkeypatch.setattr("assay.transforms.views.rewrite", broken)
    (judged,) = Judge().judge([ADD_SUM], 0)
    assert (judged.ok, judged.stage, judged.error) == (False, "compose_views", "compose_views: ZeroDivisionError: three")


@pytest.mark.cpp
def test_an_emitter_that_raises_hides_no_earlier_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any, **options: Any) -> Any:
        raise ZeroDivisionError("four")

    monkeypatch.setattr("assay.backends.cpp.compile_many", broken)
    (judged,) = Judge().judge([ADD_SUM], 0)
    assert judged.stage == "emit"
    case = cases.read_case(TRANSPOSED.case)
    assert case.recipe is not None
    with TRANSPOSED.on():
        (judged,) = Judge().judge_on([case.recipe], [case.inputs])
    assert judged.stage == "inline"


def test_shrinking_keeps_the_stage_and_reaches_one_operator() -> None:
    case = cases.read_case(TRANSPOSED.case)
    assert case.recipe is not None
    with TRANSPOSED.on():
        judge = Judge("reference")
        (found,) = judge.judge_on([case.recipe], [case.inputs])
        small = shrink(found, judge)
    assert (found.stage, small.stage) == ("inline", "inline")
    assert len(small.recipe.calls) <= 2 < len(case.recipe.calls)


class _Hangs(Recipe):
    """Never returns."""

    def __call__(self, *xs: Any) -> Any:
        while True:
            time.sleep(1)


class _Dies(Recipe):
    """Ends its process as a crash of compiled code does."""

    def __call__(self, *xs: Any) -> Any:
        os.kill(os.getpid(), signal.SIGSEGV)


class _IsKilled(Recipe):
    """Ends its process as the kernel does where memory runs out."""

    def __call__(self, *xs: Any) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)


def _as(kind: type[Recipe]) -> Recipe:
    return kind(ADD_SUM.inputs, ADD_SUM.calls, ADD_SUM.results)


def test_programs_that_hang_or_kill_their_process_are_findings_and_the_others_are_judged() -> None:
    drawn = [ADD_SUM, _as(_Hangs), random_recipe(1), _as(_Dies), _as(_IsKilled), ADD_SUM]
    with Worker("reference", limit=6.0) as worker:
        judged = worker.judge(drawn, 0)
        (again,) = worker.judge([ADD_SUM], 1)
    assert [(j.ok, j.stage) for j in judged] == [(True, ""), (False, "hang"), (True, ""), (False, "crash"), (False, "crash"),
                                                 (True, "")]  # fmt: skip
    assert [judged[k].error for k in (1, 3, 4)] == [
        "hang: nothing came back within 6 seconds while it ran this program",
        "crash: the process died (killed by SIGSEGV) while it ran this program",
        "crash: the process died (killed by SIGKILL) while it ran this program",
    ]
    assert again.ok


_MARKED = Recipe((Like((5,), f32),), (Call("add.Tensor", (Ref(0), Ref(0), 12345.5)),), (Ref(1),))
_COMPILER = """#!/bin/sh
case "$*" in *-dumpfullversion*) exec g++ "$@";; esac
text=$(cat)
case "$text" in *0x1.81cc*) %s;; esac
printf '%%s\n' "$text" | exec g++ "$@"
"""


def _with_compiler(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "g++-of-the-test"
    compiler.write_text(_COMPILER % fault)
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.setattr(build, "compiler", build.compiler.__wrapped__)  # a process that is forked has what was found before


@pytest.mark.cpp
@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("sleep 1000", "hang: nothing came back within 10 seconds while it built this program"),
        ("text=$(printf '%s' \"$text\" | sed 's/^return 0;}/for(;;);}/')",
         "hang: nothing came back within 6 seconds while it ran this program"),
    ],
    ids=["g++-hangs", "code-hangs"],
)  # fmt: skip
def test_a_compiler_or_code_that_never_returns_is_a_finding(fault: str, error: str, tmp_path: Path,
                                                            monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    _with_compiler(fault, tmp_path, monkeypatch)
    with Worker(limit=6.0) as worker:
        (judged,) = worker.judge([_MARKED], 0)
    assert (judged.ok, judged.error) == (False, error)


@pytest.mark.cpp
def test_a_campaign_keeps_what_kills_its_process_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _with_compiler("text=$(printf '%s' \"$text\" | sed 's/^return 0;}/__builtin_trap();}/')", tmp_path, monkeypatch)
    drawn = {7: ADD_SUM, 8: _MARKED, 9: ADD_SUM}
    monkeypatch.setattr(Worker, "draw", lambda self, seeds, most: [drawn[s] for s in seeds])
    monkeypatch.setattr(campaign, "BATCH", 1)
    monkeypatch.setattr(campaign, "LOST_TRIALS", 1)
    result = campaign.run_campaign(3, 7, directory=tmp_path)
    assert result.programs == 3
    assert [(f.seed, f.stage, f.witness) for f in result.findings] == [
        (8, "crash", "crash: the process died (killed by SIGILL) while it ran this program")
    ]
    assert cases.read_case(tmp_path / "seed-8.assay").recipe == _MARKED


# ------------------------------------------------------------------------------------------------ campaigns and cases


class _StopsAfter(Judge):
    """Judges two batches, then behaves as a campaign that is interrupted."""

    batches = 0

    def judge(self, recipes: Any, seed: int, flags: Any = (), **how: Any) -> list[Judged]:
        self.batches += 1
        if self.batches > 2:
            raise KeyboardInterrupt
        return super().judge(recipes, seed, flags, **how)


def test_a_killed_campaign_keeps_its_findings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = cases.read_case(TRANSPOSED.case).recipe
    monkeypatch.setattr(campaign, "BATCH", 1)
    monkeypatch.setattr(Judge, "draw", lambda self, seeds, most: [recipe for _ in seeds])
    with TRANSPOSED.on(), pytest.raises(KeyboardInterrupt):
        campaign.run_campaign(50, 7, directory=tmp_path, judge=_StopsAfter("reference"))
    path = tmp_path / "seed-7.assay"
    case = cases.read_case(path)
    assert case.stage == "inline"
    replayed = cases.replay(case, backend="reference")
    assert isinstance(replayed, Report)
    assert replayed.verdict.ok  # the fault is gone
    with TRANSPOSED.on():
        again = cases.replay(case, backend="reference")
    assert isinstance(again, Report)
    assert next(s.name for s in again.stages if not s.verdict.ok) == "inline"


def test_the_child_draws_what_the_seeds_stand_for() -> None:
    expected = [random_recipe(s, 3) for s in range(4, 9)]
    with Worker("reference") as worker:
        assert worker.draw(range(4, 9), 3) == expected
        child, _ = worker._running()
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
        assert worker.draw(range(4, 9), 3) == expected


def test_a_campaign_counts(tmp_path: Path) -> None:
    result = campaign.run_campaign(4, 30, directory=tmp_path, backend="reference", judge=Judge("reference"), most=2)
    assert (result.programs + result.unsupported, result.findings, result.exit_code) == (4, [], 0)
    assert result.to_json()["verdict"] == f"VALIDATED({result.programs})"
    assert campaign.run_campaign(0, 0, directory=tmp_path, judge=Judge("reference")).exit_code == 6


def test_a_case_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = cases.read_case(CORPUS / "constant_behind_a_check.assay")
    path = tmp_path / "deep" / "x.assay"
    cases.write_case(path, case)
    assert cases.read_case(path).program is case.program
    assert cases.read_case(path).recipe == case.recipe
    assert all(bits_equal(a, b) for a, b in zip(cases.read_case(path).inputs[0], case.inputs[0], strict=True))
    before = path.read_bytes()

    def fails(source: str, target: Path) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises(OSError, match="disk full"):
        cases.write_case(path, cases.Case(case.program, None, (), "cpp"))
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == ["x.assay"]


@pytest.mark.cpp
def test_a_case_keeps_the_number_of_its_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Worker() as worker:
        (judged, chosen) = worker.judge([ADD_SUM, ADD_SUM], 0, schedules=[417, None])
    assert [(j.ok, j.schedule) for j in (judged, chosen)] == [(True, 417), (True, None)]
    path = tmp_path / "x.assay"
    cases.write_case(path, cases.case_of(judged))
    assert "# schedule: 417" in path.read_text().splitlines()
    planned: list[int | None] = []
    monkeypatch.setattr(oracle, "scheduled", lambda p, n, was=oracle.scheduled: (planned.append(n), was(p, n))[1])
    cases.replay(cases.read_case(path))
    cases.replay(replace(cases.read_case(path), schedule=None))
    assert planned == [417, None]


@pytest.mark.cpp
def test_a_finding_of_a_drawn_plan_is_shrunk_under_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault that only plan number 7 has; the plan that is chosen, and others, are right."""

    def planned(final: Any, number: int | None, was: Any = oracle.scheduled) -> Any:
        if number == 7:
            raise ValueError("number 7")
        return was(final, number)

    monkeypatch.setattr(oracle, "scheduled", planned)
    recipe, judge = random_recipe(5), Judge()
    inputs = draw_many_arrays([recipe], 5)
    right, wrong = judge.judge_on([recipe, recipe], [*inputs, *inputs], campaign.QUICK, schedules=[8, 7])
    small = shrink(wrong, judge, flags=campaign.QUICK)
    assert (right.ok, wrong.stage, small.stage, small.schedule) == (True, "schedule", "schedule", 7)
    assert len(small.recipe.calls) == 1 < len(recipe.calls)


def test_a_plan_is_drawn_from_its_number_and_nothing_else() -> None:
    programs = [optimise(lower(capture(r, tuple(tensors(xs[0])), {}).graph))[-1].program
                for r, xs in ((r, draw_many_arrays([r], s)[0]) for s in range(40, 44) for r in [random_recipe(s)])]  # fmt: skip
    first = [random_plan(p, n) for n in range(6) for p in programs]
    again = [random_plan(p, n) for n in reversed(range(6)) for p in reversed(programs)][::-1]
    assert first == again
    for k, p in enumerate(programs):
        assert len({str([(x.tensors, x.schedule) for x in plan.kernels]) for _, plan in first[k :: len(programs)]}) > 2, p


def test_one_program_in_forty_is_compiled_as_those_of_users_are() -> None:
    assert [(r.start, r.stop, campaign.pinned(r.start)) for r in campaign.batches(range(1950, 3500))] == [
        (1950, 2000, False), (2000, 2025, True), (2025, 3000, False), (3000, 3025, True), (3025, 3500, False),
    ]  # fmt: skip
    assert sum(map(campaign.pinned, range(20_000))) == 500
    assert list(campaign.batches(range(3, 3))) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"# schedule: first\n{IDENTITY}", "the line '# schedule: ...' is not JSON"),
        (f"# recipe: {{\n{IDENTITY}", "the line '# recipe: ...' is not JSON"),
        ('# recipe: {"inputs": 3}\nprogram f(x: f32[2]):\n  return x\n', "not a recipe"),
        (f'# inputs: [[{{"dtype": "f32", "shape": [2], "hex": "00"}}]]\n{IDENTITY}', "the line '# inputs: ...'"),
        (f'# inputs: [[{{"dtype": "f33", "shape": [2], "hex": ""}}]]\n{IDENTITY}', "the line '# inputs: ...'"),
        ("program f(x: f32[2]):\n  return y\n", "y"),
        ("", "program"),
        ("\udcff", "UTF-8"),
    ],
)
def test_what_is_no_case_is_an_error_that_names_the_file(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "bad.assay"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(UserError, match=words) as raised:
        cases.read_case(path)
    assert "bad.assay" in str(raised.value)


def test_no_file() -> None:
    with pytest.raises(UserError, match=r"no file missing\.assay"):
        cases.read_case(Path("missing.assay"))


def test_special_values_reach_every_float_type() -> None:
    negations = [Recipe((Like((400,), d),), (Call("neg.default", (Ref(0),)),), (Ref(1),)) for d in (f32, f64)]
    for arrays in draw_many_arrays(negations, 1, 5):
        every = np.concatenate([xs[0] for xs in arrays])
        assert np.isnan(every).any()
        assert np.isinf(every).any()
        assert (np.signbit(every) & (every == 0)).any()
        assert ((every != 0) & (abs(every) < np.finfo(every.dtype).tiny)).any()


def test_bounded_inputs_stay_in_their_range() -> None:
    recipe = Recipe((Like((50,), i64, -3, 2),), (Call("neg.default", (Ref(0),)),), (Ref(1),))
    drawn = [draw_arrays(recipe, kind, np.random.default_rng(1))[0] for kind in KINDS]
    assert [(x.min(), x.max()) for x in drawn] == [(-3, 2)] * 4 + [(-5, 4)]  # huge: some fail the check of an index


def test_the_recipe_is_a_python_function() -> None:
    x, b = np.array([[1, 2, 3], [4, 5, 6]], np.float32), np.array([0.5, 0, -1], np.float32)
    (s,) = ADD_SUM(*tensors([x, b]))
    assert s.numpy().tolist() == [5.5, 14.5]
    assert str(ADD_SUM).splitlines()[2:4] == ["v2 = add.Tensor(v0, v1, 1)", "v3 = sum.dim_IntList(v2, [1], False, None)"]


# ------------------------------------------------------------------------------------------------ from end to end


@pytest.mark.cpp
def test_the_ends_alone_are_run_and_all_stages_where_they_differ() -> None:
    (right,) = judge_on([ADD_SUM], draw_many_arrays([ADD_SUM], 0), ends=True)
    assert right.report is not None
    assert [(s.name, str(s.verdict)) for s in right.report.stages] == [("eager", "VALIDATED(2)"), ("cpp", "VALIDATED(2)")]
    case = cases.read_case(TRANSPOSED.case)
    assert case.recipe is not None
    with TRANSPOSED.on():
        (wrong,) = judge_on([case.recipe], [case.inputs], ends=True)
    assert (wrong.ok, wrong.stage) == (False, "inline")
    assert wrong.report is not None
    assert len(wrong.report.stages) > 5


# ------------------------------------------------------------------------------------------------ processes that end early


def test_a_child_that_cannot_start_is_an_error_that_says_so(tmp_path: Path) -> None:
    script = tmp_path / "unguarded.py"
    script.write_text("import sys, threading, time\nif __name__ != '__main__':\n    sys.exit(3)\n"
                      "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
                      "from assay.fuzz.worker import Worker\nWorker('reference')._running()\n")  # fmt: skip
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False, timeout=120)
    assert "InternalError: the process that judges programs ended before it was ready (exit code 3)" in done.stderr
    assert "EOFError" not in done.stderr


def test_a_process_without_other_threads_is_forked_and_its_main_module_not_run_again(tmp_path: Path) -> None:
    script = tmp_path / "unguarded.py"
    script.write_text("from assay.fuzz.generate import random_recipe\nfrom assay.fuzz.worker import Worker\n"
                      "with Worker('reference') as worker:\n"
                      "    print([j.ok for j in worker.judge([random_recipe(k) for k in (1, 2)], 0)])\n")  # fmt: skip
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False, timeout=120)
    assert (done.stdout, done.stderr) == ("[True, True]\n", "")


_HANGING = """
import sys, time
sys.path.insert(0, {root!r})
from tests.fuzz.test_fuzz import ADD_SUM, _Hangs, _as
from assay.fuzz.worker import Worker
if __name__ == "__main__":
    worker = Worker("reference")
    child, _ = worker._running()
    print(child.pid, flush=True)
    worker.judge([_as(_Hangs)], 0)
"""


def test_a_child_that_hangs_ends_quietly_with_a_killed_parent(tmp_path: Path) -> None:
    script = tmp_path / "hanging.py"
    script.write_text(_HANGING.format(root=str(Path(__file__).parents[2])))
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stderr is not None
        child = int(parent.stdout.readline())
        time.sleep(1)
        parent.kill()
        assert parent.stderr.read() == ""  # at its end the child has closed it too
    for _ in range(200):
        if not _runs(child):
            return
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    pytest.fail("the child outlives its parent")


def _runs(pid: int) -> bool:
    """Whether the process lives (one that nobody has waited for is dead)."""
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_view_that_no_strides_express_is_no_program() -> None:
    calls = (Call("permute.default", (Ref(0), (1, 0))), Call("view_as.default", (Ref(1), Ref(0))))
    recipe = Recipe((Like((3, 2), f32),), calls, (Ref(2),))
    (judged,) = judge_on([recipe], draw_many_arrays([recipe], 0), backend="reference")
    assert judged.unsupported
    assert "view_as to [3, 2]: no strides express it over [2, 3] with strides [1, 2]" in judged.error


@pytest.mark.cpp
def test_plans_are_drawn_only_of_kernels_whose_row_buffers_can_be_filled() -> None:
    x = Like((1, 2, 16, 4), f32)
    attention = Call("scaled_dot_product_attention.default", (Ref(0), Ref(1), Ref(2), None, 0.0, True, None, False))
    recipe = Recipe((x, x, x), (attention,), (Ref(3),))
    judged = judge_on([recipe] * 4, draw_many_arrays([recipe] * 4, 0), flags=campaign.QUICK, schedules=[918, 1, 2, 3])
    assert [j.ok for j in judged] == [True] * 4, [j.error for j in judged]


def test_a_child_is_replaced_when_it_has_drawn_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.fuzz.worker.RETIRED", 3)
    with Worker("reference") as worker:
        drawn, children = [], []
        for first in (0, 2, 4):
            drawn += worker.draw(range(first, first + 2), 3)
            children.append(worker._running()[0].pid)
    assert drawn == [random_recipe(s, 3) for s in range(6)]
    assert children[0] == children[1] != children[2]
