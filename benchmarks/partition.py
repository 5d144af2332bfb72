"""Training steps under different partitions: saved bytes, peak of memory, time; beside PyTorch's cut where torch is installed.

    python -m benchmarks.partition [digits | transformer ...] [--calls 20]

For each step: save all, the default cut, and budgets of 50, 25 and 10 % of what saving all takes.  `peak` is what either half
holds at most (saved values, results, temporaries; without inputs): simulated by liveness, and measured as what the compiled
code allocates.  Times are the least of some calls, all partitions in turn.  All gradients are compared with eager's, bit by bit.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import assay
import assay.nn.functional as F
from assay.backends.cpp import compile_program
from assay.backends.runtime import Executable
from assay.core.lang import Program, size_of
from assay.frontends.joint import joint_of_graph
from assay.partition.budget import within
from assay.partition.joint import Joint, Split
from assay.partition.peak import footprint
from assay.partition.prices import Partition, cut, save_all
from assay.semantics.compare import bits_equal
from assay.semantics.cost import cost_of
from assay.transforms.pipeline import optimise
from examples.digits import model as digits
from examples.transformer import model as transformer

SHARES = (50, 25, 10)
VIEWS = ("view", "permute", "transpose", "expand", "squeeze", "slice", "select", "alias", "getitem", "clone", "split")


@dataclass(frozen=True)
class Workload:
    """A loss of arrays, of which those after the first `data` are weights; `torch_like` as in the examples."""

    loss: Callable[..., Any]
    arrays: Sequence[np.ndarray]
    data: int


def digits_loss(torch_like: Any, images: Any, targets: Any, *weights: Any) -> Any:
    """The mean cross entropy of a batch."""
    p = digits.network(torch_like.nn.functional, images, *weights)
    return -(p.log() * targets).sum() / images.shape[0]


def transformer_loss(torch_like: Any, tokens: Any, *weights: Any) -> Any:
    """The mean square of the block's output."""
    y = transformer.transformer(torch_like, tokens, *weights)
    return (y * y).mean()


def workloads() -> dict[str, Workload]:
    random = np.random.default_rng(0)
    images = random.uniform(0, 1, (64, 1, 8, 8)).astype(np.float32)
    targets = np.eye(10, dtype=np.float32)[random.integers(0, 10, 64)]
    return {
        "digits": Workload(digits_loss, [images, targets, *digits.weights()], 2),
        "transformer": Workload(transformer_loss, [transformer.tokens(8), *transformer.weights()], 1),
    }


def joint_of(w: Workload) -> Joint:
    """The loss and the gradients of the weights, as `assay.compile` partitions them."""
    assert F is not None  # assay.nn is there
    graph = assay.trace(lambda *a: w.loss(assay, *a), *(assay.tensor(a) for a in w.arrays))
    return joint_of_graph(graph, assay.lower(graph), tuple(range(w.data, len(w.arrays))), (0,))


def eager(w: Workload) -> tuple[list[np.ndarray], float]:
    """The loss and its gradients, operator by operator, and the seconds it takes."""
    best, found = math.inf, list[np.ndarray]()
    for _ in range(2):
        args = [assay.tensor(a) for a in w.arrays]
        for t in args[w.data :]:
            t.requires_grad_()
        start = time.perf_counter()
        loss = w.loss(assay, *args)
        loss.backward()
        best = min(best, time.perf_counter() - start)
        found = [loss.detach().numpy(), *(t.grad.numpy() for t in args[w.data :])]
    return found, best


@dataclass
class Run:
    """One partition, compiled."""

    name: str
    partition: Partition
    halves: Split
    forward: Executable
    backward: Executable
    seconds: float = math.inf

    def __call__(self, inputs: Sequence[np.ndarray], cotangents: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Outputs and gradients."""
        start = time.perf_counter()
        by_input = dict(zip(self.halves.joint.inputs, inputs, strict=True))
        results = self.forward(list(inputs))
        arguments = [*(results[k] for k in self.halves.at), *(by_input[t] for t in self.halves.held), *cotangents]
        made = self.backward(arguments)
        self.seconds = min(self.seconds, time.perf_counter() - start)
        return [*results[: self.halves.joint.outputs], *made]

    @property
    def measured(self) -> int:
        """What the compiled halves hold at most."""
        return max(_allocated(self.forward), _allocated(self.backward) + self.halves.saved_bytes)

    @property
    def again(self) -> int:
        """Scalar operations, as written, of what is computed again."""
        return sum(cost_of(t).operations for t in self.halves.again)


def _allocated(e: Executable) -> int:
    return e.layout.arena + sum(size_of(t) for t in set(e.program.outputs))


def compiled(name: str, p: Partition) -> Run:
    def build(half: Program) -> Executable:
        return compile_program(optimise(half)[-1].program)

    return Run(name, p, p.split, build(p.split.forward), build(p.split.backward))


def report(name: str, w: Workload, calls: int, theirs: tuple[int, int] | None) -> None:
    joint = joint_of(w)
    everything = save_all(joint)
    runs = [compiled("save all", everything), compiled("cut", cut(joint))]
    limits = [everything.saved_bytes * s // 100 for s in SHARES]
    runs += [compiled(f"{s} %", within(joint, saved=m)) for s, m in zip(SHARES, limits, strict=True)]
    if theirs is not None:
        runs.append(compiled("as PyTorch's", within(joint, saved=theirs[0])))
    inputs = [np.array(a, order="C") for a in w.arrays]
    inputs += [np.zeros(t.shape, t.dtype.numpy) for t in joint.inputs[len(inputs) :]]
    cotangents = [np.ones(t.shape, t.dtype.numpy) for t in joint.cotangents]
    wanted, seconds = eager(w)
    same = all(bits_equal(a, b) for r in runs for a, b in zip(r(inputs, cotangents), wanted, strict=True))
    for _ in range(calls):
        for r in runs:
            r(inputs, cotangents)
    print(f"{name}: {len(joint.values)} values; loss and gradients have eager's bits: {same}")
    print(f"  {'partition':<14} {'saved':>10} {'peak, simulated':>16} {'measured':>10} {'computed again':>15} {'model us':>9} "
          f"{'time ms':>8}")  # fmt: skip
    for r in runs:
        print(f"  {r.name:<14} {r.partition.saved_bytes:>10,} {footprint(r.halves).peak:>16,} {r.measured:>10,} {r.again:>15,} "
              f"{r.partition.time * 1e6:>9.1f} {r.seconds * 1e3:>8.3f}")  # fmt: skip
    print(f"  {'eager':<14} {'':>10} {'':>16} {'':>10} {'':>15} {'':>9} {seconds * 1e3:>8.3f}")
    if theirs is not None:
        print(f"  {'PyTorch':<14} {theirs[0]:>10,} {'':>16} {'':>10} {theirs[1]:>15,}")


def peer(w: Workload) -> tuple[int, int] | None:
    """Saved bytes and operations computed again of PyTorch's min_cut_rematerialization_partition; None without torch."""
    try:
        import torch
        import torch._inductor.lowering
    except ImportError:
        return None
    from functorch.compile import aot_function, make_boxed_func, min_cut_rematerialization_partition
    from torch._inductor.decomposition import select_decomp_table

    found: list[tuple[int, int]] = []

    def partition(joint: Any, inputs: Any, **options: Any) -> Any:
        forward, backward = min_cut_rematerialization_partition(joint, inputs, **options)
        given = {n.name for n in forward.graph.nodes if n.op == "placeholder"}
        results = next(n for n in forward.graph.nodes if n.op == "output").args[0]
        saved = [n for n in results[options["num_fwd_outputs"] :] if getattr(n, "name", None) not in given]
        size = sum(n.meta["val"].numel() * n.meta["val"].element_size() for n in saved if hasattr(n.meta.get("val"), "numel"))
        first = {n.name for n in forward.graph.nodes if n.op == "call_function"}
        again = [n for n in backward.graph.nodes if n.op == "call_function" and n.name in first]
        found.append((size, sum(map(_operations, again))))
        return forward, backward

    arrays = [torch.tensor(a) for a in w.arrays]
    for a in arrays[w.data :]:
        a.requires_grad_()
    keep = lambda graph, _: make_boxed_func(graph.forward)  # noqa: E731
    step = aot_function(lambda *a: w.loss(torch, *a), fw_compiler=keep, bw_compiler=keep, partition_fn=partition,
                        decompositions=select_decomp_table())  # fmt: skip
    step(*arrays).backward()
    return found[0]


def _operations(n: Any) -> int:
    """One for each element of what is elementwise, of the operand of a reduction; none for views."""
    name = str(n.target)
    if any(v in name for v in VIEWS):
        return 0
    sizes = [a.meta["val"].numel() for a in n.all_input_nodes if hasattr(a.meta.get("val"), "numel")]
    made = n.meta["val"].numel() if hasattr(n.meta.get("val"), "numel") else 0
    return max([made, *sizes])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=[])
    parser.add_argument("--calls", type=int, default=20)
    options = parser.parse_args()
    every = workloads()
    for name in options.names or every:
        report(name, every[name], options.calls, peer(every[name]))


if __name__ == "__main__":
    main()
