"""Makes weights.npz: trains the network of model.py with PyTorch, prints its accuracy.

    pip install torch==2.13.0 scikit-learn && python -m examples.digits.train

One thread and fixed seeds: the same PyTorch on the same kind of machine writes the same weights.
"""

import numpy as np
import torch

from examples.digits.data import digits, split
from examples.digits.model import SHAPES, WEIGHTS, network

EPOCHS = 60
BATCH = 64


def initial_weights(generator: torch.Generator) -> list[torch.Tensor]:
    """Scaled normal matrices, zero biases, a unit norm: N(0, 2 / fan_in) for what has an input dimension."""
    made: list[torch.Tensor] = []
    for name, shape in SHAPES.items():
        if name == "norm_w":
            value = torch.ones(shape)
        elif name.endswith("_b"):
            value = torch.zeros(shape)
        else:
            fan_in = int(np.prod(shape[1:]))
            value = torch.randn(shape, generator=generator) * (2 / fan_in) ** 0.5
        made.append(value.requires_grad_())
    return made


def probabilities(images: torch.Tensor, weights: list[torch.Tensor]) -> torch.Tensor:
    return network(torch.nn.functional, images, *weights)


def shifted(images: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Each batch moves by at most one pixel each way, zeros coming in."""
    down, right = torch.randint(0, 3, (2,), generator=generator).tolist()
    return torch.nn.functional.pad(images, (1, 1, 1, 1))[:, :, down : down + 8, right : right + 8]


def main() -> None:
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    generator = torch.Generator().manual_seed(0)
    images, labels = (torch.from_numpy(array) for array in digits())
    seen, held_out = (torch.from_numpy(indices) for indices in split(len(images)))
    weights = initial_weights(generator)
    steps = EPOCHS * -(-len(seen) // BATCH)
    optimizer = torch.optim.AdamW(weights, lr=3e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for epoch in range(EPOCHS):
        total = 0.0
        for batch in seen[torch.randperm(len(seen), generator=generator)].split(BATCH):
            right = probabilities(shifted(images[batch], generator), weights).gather(1, labels[batch][:, None])
            loss = -right.clamp_min(1e-12).log().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item() * len(batch)
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1:3d}  loss {total / len(seen):.4f}")
    with torch.no_grad():
        hit = probabilities(images, weights).argmax(1) == labels
    for name, part in (("trained on", seen), ("held out", held_out)):
        print(f"{name:10s}  {int(hit[part].sum())} of {len(part)} right, {hit[part].float().mean():.2%}")
    np.savez_compressed(WEIGHTS, **{name: value.detach().numpy() for name, value in zip(SHAPES, weights, strict=True)})
    print(f"wrote {WEIGHTS.name}, {WEIGHTS.stat().st_size} bytes")


if __name__ == "__main__":
    main()
