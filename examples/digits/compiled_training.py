"""Trains the network of model.py with Assay: forward, backward and Adam's update compiled; prints its accuracy.

    python -m examples.digits.compiled_training              60 epochs: 357 of the 360 held out are right (20: 351)
    python -m examples.digits.compiled_training --check 10   the same steps by eager evaluation beside it

--check: exit status 1 where a loss, gradient or weight differs from eager's in a bit; and what a step takes in time and memory.
`weights.npz` was made by train.py, in as many epochs with PyTorch: 355 of 360.
"""

import argparse
import os
import shutil
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import assay
import assay.nn.functional as F
from assay.partition.prices import save_all
from assay.semantics.compare import bits_equal
from examples.digits.data import digits, split
from examples.digits.model import SHAPES, model, network

EPOCHS, BATCH, RATE = 60, 64, 3e-3
BACKEND = "cpp" if shutil.which(os.environ.get("CXX", "g++")) else "reference"


def initial_weights(seed: int = 0) -> list[assay.Tensor]:
    """Zero biases, a unit norm, N(0, 2 / fan_in) for what has an input dimension."""
    generator = assay.Generator().manual_seed(seed)
    made: list[Any] = []
    for name, shape in SHAPES.items():
        if name == "norm_w":
            value = assay.ones(shape)
        elif name.endswith("_b"):
            value = assay.zeros(shape)
        else:
            value = assay.randn(shape, generator=generator) * (2 / int(np.prod(shape[1:]))) ** 0.5
        made.append(value.requires_grad_())
    return made


def loss(images: Any, labels: Any, *weights: Any) -> Any:
    """The mean cross entropy of a batch."""
    right = network(F, images, *weights).gather(1, labels.unsqueeze(1))
    return -right.clamp_min(1e-12).log().mean()


def batches(images: np.ndarray, labels: np.ndarray, epochs: int) -> Iterator[tuple[float, assay.Tensor, assay.Tensor]]:
    """(how much of the training is over, images, labels): shuffled, each batch moved by at most one pixel each way."""
    random = np.random.Generator(np.random.Philox(0))
    of_epoch = -(-len(images) // BATCH)
    for step in range(epochs * of_epoch):
        at = step % of_epoch
        if at == 0:
            order = random.permutation(len(images))
        chosen = order[at * BATCH : (at + 1) * BATCH]
        down, right = random.integers(0, 3, 2)
        padded = np.pad(images[chosen], ((0, 0), (0, 0), (1, 1), (1, 1)))
        moved = np.ascontiguousarray(padded[:, :, down : down + 8, right : right + 8])
        yield step / (epochs * of_epoch), assay.tensor(moved), assay.tensor(labels[chosen])


def adam(rate: Any, debias: Any, weights: Any, gradients: Any, means: Any, squares: Any) -> None:
    """m = 0.9 m + 0.1 g,  s = 0.999 s + 0.001 g^2,  w -= rate m / (sqrt(debias s) + 1e-8), for all weights at once, in place."""
    for w, g, m, s in zip(weights, gradients, means, squares, strict=True):
        m.mul_(0.9).add_(0.1 * g)
        s.mul_(0.999).add_(0.001 * g * g)
        w.sub_(rate * m / ((s * debias).sqrt() + 1e-8))


class Trainer:
    """Weights that follow the gradients of a loss by Adam; `losses`, and the seconds of each forward and backward, are kept."""

    def __init__(self, function: Any, update: Any) -> None:
        self.function, self.update = function, update
        self.weights = initial_weights()
        self.means, self.squares = ([assay.zeros_like(w) for w in self.weights] for _ in range(2))
        self.losses: list[np.ndarray] = []
        self.seconds: list[float] = []

    def step(self, over: float, images: assay.Tensor, labels: assay.Tensor) -> None:
        """Forward, backward, update; the rate falls to zero."""
        for w in self.weights:
            w.grad = None
        start = time.perf_counter()
        value = self.function(images, labels, *self.weights)
        value.backward()
        self.seconds.append(time.perf_counter() - start)
        self.losses.append(value.detach().numpy())
        t = len(self.losses)
        rate, debias = np.float32(RATE * (1 - over) / (1 - 0.9**t)), np.float32(1 / (1 - 0.999**t))
        with assay.no_grad():
            self.update(assay.tensor(rate), assay.tensor(debias), self.weights, [w.grad for w in self.weights],
                        self.means, self.squares)  # fmt: skip

    def gradients(self) -> list[np.ndarray]:
        """Those of the last step."""
        return [w.grad.numpy() for w in self.weights]


def check(steps: int, backend: str = BACKEND, show: Any = print) -> bool:
    """Whether `steps` steps of compiled training have the losses, gradients and weights of eager training, bit for bit."""
    images, labels = digits()
    seen = split(len(images))[0]
    step = assay.compile(loss, backend=backend)
    eager, compiled = Trainer(loss, adam), Trainer(step, assay.compile(adam, backend=backend))
    same = True
    for _, batch in zip(range(steps), batches(images[seen], labels[seen], EPOCHS), strict=False):
        for t in (eager, compiled):
            t.step(*batch)
        pairs = zip([eager.losses[-1], *eager.gradients()], [compiled.losses[-1], *compiled.gradients()], strict=True)
        equal = all(bits_equal(a, b) for a, b in pairs)
        same = same and equal
        show(f"step {len(eager.losses):3d}  loss {eager.losses[-1].item():.9f}  {'the same bits' if equal else 'DIFFERS'}")
    same = same and all(bits_equal(a.detach().numpy(), b.detach().numpy())
                        for a, b in zip(eager.weights, compiled.weights, strict=True))  # fmt: skip
    made = step.derivatives.partitions[0][1]
    everything = save_all(made.split.joint).saved_bytes
    show(f"forward and backward: eager {min(eager.seconds) * 1e3:.1f} ms a step, compiled {min(compiled.seconds) * 1e3:.1f} ms")
    show(f"kept for the backward: {made.saved_bytes:,} bytes; all that it reads: {everything:,}")
    return same


def train(epochs: int) -> None:
    """Some epochs of compiled training, and what the weights get right."""
    images, labels = digits()
    seen, held_out = split(len(images))
    trainer = Trainer(assay.compile(loss, backend=BACKEND), assay.compile(adam, backend=BACKEND))
    of_epoch = -(-len(seen) // BATCH)
    for k, batch in enumerate(batches(images[seen], labels[seen], epochs), 1):
        trainer.step(*batch)
        if k % (10 * of_epoch) == 0:
            print(f"epoch {k // of_epoch:3d}  loss {np.mean(trainer.losses[-of_epoch:]):.4f}", flush=True)
    weights = [w.detach().numpy() for w in trainer.weights]
    hit = assay.compile(model, backend=BACKEND)(images, *weights).argmax(1) == labels
    for name, part in (("trained on", seen), ("held out", held_out)):
        print(f"{name:10s}  {int(hit[part].sum())} of {len(part)} right, {hit[part].mean():.2%}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--check", type=int, metavar="STEPS", help="compare with eager evaluation instead")
    options = parser.parse_args()
    if options.check:
        return 0 if check(options.check) else 1
    train(options.epochs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
