"""Proofs about Triton kernels that others wrote: their source is read, neither triton nor a GPU is needed.

terms       integers and conditions as interned polynomials over sizes, program ids, lanes and iterations
deciding    do conditions imply a condition: elimination of variables, samples, z3
types       the types of triton.language and its promotion
source      a function in a file, its helpers and constants, by `ast`
arguments   what --arg, --grid and --assume mean
walker      one interpreter of kernel source; `language` has the functions of triton.language
symbolic    all programs, lanes and sizes at once; collects what must hold
concrete    one program at given sizes, by numpy: replays counterexamples, and is the oracle of the tests
prover      settles what must hold
"""

from __future__ import annotations

from assay.kernels.prover import KernelProof, prove

__all__ = ["KernelProof", "prove"]
