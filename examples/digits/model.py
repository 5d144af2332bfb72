"""A small convolutional network for 8x8 handwritten digits; its weights are in weights.npz, made by train.py.

`network` is written once. Assay runs and compiles it with assay.nn.functional; train.py runs the same lines with
torch.nn.functional.
"""

from pathlib import Path
from typing import Any

import numpy as np

WEIGHTS = Path(__file__).with_name("weights.npz")

SHAPES = {
    "conv1_w": (16, 1, 3, 3),
    "conv1_b": (16,),
    "conv2_w": (32, 16, 3, 3),
    "conv2_b": (32,),
    "norm_w": (128,),
    "norm_b": (128,),
    "hidden_w": (64, 128),
    "hidden_b": (64,),
    "out_w": (10, 64),
    "out_b": (10,),
}  # in the order of the parameters of `network`


def network(
    F: Any, images: Any, conv1_w: Any, conv1_b: Any, conv2_w: Any, conv2_b: Any,
    norm_w: Any, norm_b: Any, hidden_w: Any, hidden_b: Any, out_w: Any, out_b: Any,
) -> Any:  # fmt: skip
    """images f32[n,1,8,8] -> probabilities f32[n,10]; F is assay.nn.functional or torch.nn.functional."""
    x = F.gelu(F.conv2d(images, conv1_w, conv1_b, padding=1))
    x = F.max_pool2d(x, 2)
    x = F.gelu(F.conv2d(x, conv2_w, conv2_b, padding=1))
    x = F.max_pool2d(x, 2)
    x = x.flatten(1)
    x = F.layer_norm(x, (128,), norm_w, norm_b)
    x = F.gelu(F.linear(x, hidden_w, hidden_b))
    return F.softmax(F.linear(x, out_w, out_b), dim=-1)


def model(images: Any, *weights: Any) -> Any:
    """The network in Assay; weights in the order of SHAPES."""
    import assay.nn.functional as F

    return network(F, images, *weights)


def weights() -> list[np.ndarray]:
    """The trained weights, f32, in the order of SHAPES."""
    with np.load(WEIGHTS) as stored:
        arrays = [stored[name] for name in SHAPES]
    for (name, shape), array in zip(SHAPES.items(), arrays, strict=True):
        if array.shape != shape or array.dtype != np.float32:
            raise ValueError(f"{WEIGHTS.name}: {name} is {array.dtype}{list(array.shape)}, expected float32{list(shape)}")
    return arrays


# for the `assay` command: check FILE:FUNCTION
ARGUMENTS = {model: ("f32[16,1,8,8]", *(f"f32[{','.join(map(str, shape))}]" for shape in SHAPES.values()))}
