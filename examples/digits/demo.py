"""Compiles the digits network exactly and shows that nothing changed: the main job of Assay on real input.

    python -m examples.digits.demo        (`make demo` sets everything up first)

Exit status 0: compiled equals eager bit for bit on all 1,797 images, every stage was checked, every access is
proved or keeps its check, and a wrong rewrite is refuted. 1: something differs.
"""

import os
import shutil
import sys
import time
from collections import Counter

import numpy as np

import assay
from assay.examine import draw_many
from assay.semantics.denote import run
from assay.verify.layered import Layer, Report, compare
from examples.digits.data import digits, split
from examples.digits.model import model, weights

CHECKED = 16  # images that go through every stage of the compiler, each compared with the reference

RELU = """\
program f(x: f32[64]):
  t0[i:64] = mul(relu(x[i]), 0x1p+1:f32)
  return t0
"""
WRONG = RELU.replace("relu(x[i])", "select(lt(0x0p+0:f32, x[i]), x[i], 0x0p+0:f32)")  # x > 0 ? x : 0 loses a NaN


def refuted() -> Report:
    """What a defect looks like: the wrong rewrite against what was meant."""
    meant, made = assay.parse(RELU), assay.parse(WRONG)
    return compare(meant, [Layer("rewritten", lambda xs: run(made, xs), made)], draw_many(meant, 5, 0))


def main() -> int:
    images, labels = digits()
    arrays = [images, *weights()]
    inputs = [assay.tensor(array) for array in arrays]

    backend = "cpp" if shutil.which(os.environ.get("CXX", "g++")) else "reference"
    if backend == "reference":
        print("no C++ compiler: the reference stands in for machine code; to have it: apt-get install -y g++\n")
    compiled = assay.compile(model, numerics="exact", backend=backend)
    start = time.perf_counter()
    got = compiled(*inputs).numpy()
    first = time.perf_counter() - start
    start = time.perf_counter()
    again = compiled(*inputs).numpy()
    later = time.perf_counter() - start
    start = time.perf_counter()
    want = model(*inputs).numpy()
    eager = time.perf_counter() - start

    same = np.array_equal(got.view(np.int32), want.view(np.int32)) and np.array_equal(got, again)
    hit = got.argmax(1) == labels
    held_out = split(len(images))[1]
    entry = next(iter(compiled.entries.values()))
    nodes = len(entry.captured.graph.nodes)
    made = f"{len(entry.executable.plan.kernels)} kernels of C++" if backend == "cpp" else "evaluated by the reference"
    print(f"{len(images)} handwritten digits through a convolutional network, compiled with numerics='exact'")
    print(f"  compiled == eager   {'yes, every bit' if same else 'NO'} ({got.size:,} probabilities)")
    print(f"  accuracy            {hit.mean():.2%} of all, {hit[held_out].mean():.2%} of the {len(held_out)} never trained on")
    print(f"  program             {nodes} operators, {made}")
    print(f"  time                eager {eager * 1e3:.0f} ms, compiled {later * 1e3:.1f} ms a call")
    why = ": it measures this machine, compiles, times schedules" if backend == "cpp" else ""
    print(f"                      the first call took {first:.1f} s{why}")

    few = [assay.tensor(images[:CHECKED]), *inputs[1:]]
    report = assay.check(model, *few, backend=backend)
    print(f"\nassay check: every stage against the meaning, bit for bit, {CHECKED} images and {report.inputs - 1} drawn inputs")
    for stage in report.stages:
        print(f"  {stage.name:20s}{stage.verdict}")

    proof = assay.prove(model, *inputs)
    print("\nassay prove: every access of the program that is compiled, for all inputs")
    for (kind, status, how), count in sorted(Counter((o.kind, o.status, o.how) for o in proof.obligations).items()):
        print(f"  {count:4d} {kind:8s}{status:10s}{how}")

    defect = refuted()
    print("\nand a defect, for comparison: relu rewritten to `x > 0 ? x : 0`")
    print("  " + str(defect).replace("\n", "\n  "))

    right = same and all(str(verdict).startswith(("PROVED", "VALIDATED")) for verdict in (report.verdict, proof.verdict))
    right = right and str(defect.verdict) == "REFUTED"
    print("\nall right" if right else "\nNOT all right: see above")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
