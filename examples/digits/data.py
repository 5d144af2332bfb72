"""The 1,797 handwritten digits that scikit-learn's package ships: 8x8 pixels of 0..16, and which digit each one is."""

import numpy as np

HELD_OUT = 360  # the last 360 of a fixed shuffle are never trained on


def digits() -> tuple[np.ndarray, np.ndarray]:
    """(images f32[1797,1,8,8] in [0, 1], exact multiples of 1/16; labels i64[1797])."""
    try:
        from sklearn.datasets import load_digits
    except ModuleNotFoundError:
        raise SystemExit("the digits come with scikit-learn: pip install 'assay[demo]'") from None
    source = load_digits()
    images = (source.images / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    return images, source.target.astype(np.int64)


def split(count: int) -> tuple[np.ndarray, np.ndarray]:
    """(training, held-out) indices of `count` images; always the same split."""
    order = np.random.Generator(np.random.Philox(1797)).permutation(count)
    return order[:-HELD_OUT], order[-HELD_OUT:]
