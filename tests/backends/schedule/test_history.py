"""What a process has made before, and in what order, changes no letter of the C++ text of a program.

Expressions are visited in the order of the text.  Lets that do not read each other still run in the order in which they were
made.
"""

import subprocess
import sys

PROGRAMS = """\
program two_functions_of_operands(a: f32[96,128], b: f32[128,96]):
  t0[i:96,j:96] = fold(k:128; s=0x0p+0:f32) fma(relu(a[i,k]), exp(b[k,j]), s)
  return t0
program three_products(a: f32[128,96], b: f32[128,96]):
  t0[i:96,j:96] = fold(k:128; s=0x0p+0:f32) fma(a[k,i], b[k,j], s)
  t1[i:96,j:96] = fold(k:128; s=0x0p+0:f32) fma(b[k,i], a[k,j], s)
  t2[i:96,j:96] = fold(k:96; s=0x0p+0:f32) fma(t0[i,k], t1[k,j], s)
  return t2
program three_folds(a: f32[300,200], b: f32[300,200]):
  t0[i:200] = sum(k:300) mul(a[k,i], 0x1p+1:f32)
  t1[i:300] = sum(k:200) add(b[i,k], a[i,k])
  t2[i:200] = max(k:300) sub(a[k,i], b[k,i])
  return t2, t0, t1
program rows(a: f32[128,64], b: f32[128,64]):
  t0[i:128] = sum(k:64) mul(a[i,k], b[i,k])
  t1[i:128] = sum(k:64) mul(a[i,k], a[i,k])
  t2[i:128,j:64] = div(mul(b[i,j], t0[i]), add(sqrt(t1[i]), exp(a[i,j])))
  t3[i:128,j:64] = add(exp(t2[i,j]), mul(t2[i,j], b[i,j]))
  t4[i:128] = sum(k:64) add(t3[i,k], t2[i,k])
  return t3, t4
"""
SAME_PARTS_IN_ANOTHER_ORDER = """\
program h(b: f32[128,96], a: f32[96,128]):
  t0[i:96,j:96,k:128] = add(exp(b[k,j]), relu(a[i,k]))
  return t0
program h(b: f32[128,96], a: f32[128,96]):
  t0[i:96,j:96,k:128] = add(b[k,j], a[k,i])
  t1[i:96,j:96,k:128] = add(b[k,i], a[k,j])
  return t0, t1
program h(b: f32[300,200], a: f32[300,200]):
  t0[i:200,j:300] = neg(sub(a[j,i], b[j,i]))
  t1[i:300,j:200] = neg(add(b[i,j], a[i,j]))
  return t0, t1
program h(b: f32[128,64], a: f32[128,64]):
  t0[i:128,j:64] = add(exp(a[i,j]), b[i,j])
  t1[i:128,j:64] = neg(mul(a[i,j], a[i,j]))
  return t0, t1
"""
PRINT_KERNELS = """
import hashlib, re, sys
from assay.backends.cpp import emit_program, translation_unit
from assay.backends.schedule import choose
from assay.backends.schedule.machine import DEFAULTS
from assay.backends.target import host
from assay.core.parser import parse
from assay.semantics.trace import named
from assay.verify.bounds import proven

before, programs = [[parse(t) for t in re.split("(?=^program )", text, flags=re.M) if t] for text in sys.argv[1:]]
for p in programs:
    final, plan = choose(p, host(), DEFAULTS[8])
    text = translation_unit([emit_program(proven(final), plan, host())], host())
    print(p.name, len(plan.kernels), hashlib.sha256(text.encode()).hexdigest(),
          *(named(d, plan.searched) for d in plan.decisions))
"""


def kernels_after(history: str) -> list[str]:
    """Name, number of kernels and hash of the C++ text of each program, in a process that has parsed `history` first."""
    command = [sys.executable, "-c", PRINT_KERNELS, history, PROGRAMS]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def test_kernels_do_not_depend_on_what_the_process_made_before() -> None:
    fresh = kernels_after("")
    assert [line.split()[0] for line in fresh] == ["two_functions_of_operands", "three_products", "three_folds", "rows"]
    assert len({line.split()[2] for line in fresh}) == 4
    assert kernels_after(SAME_PARTS_IN_ANOTHER_ORDER) == fresh
