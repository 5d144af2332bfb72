"""The C++ that every translation unit starts with: vector types and the operations that C++ does not spell itself.

No #include.  Register types, all of W lanes:

    F float   I int (also i8, i16, u8 and the bits of f16 and bf16, sign- or zero-extended)   D double   L long

D and L are pairs of vectors.  A boolean is a mask (0 or -1) in I or L, as wide as the operands it was computed from.
A scalar is broadcast by an initializer list: `F{} + x` would turn -0 into +0.
`keep` hides a value from the optimiser: under -fno-trapping-math g++ 12 takes (float)(int)x for trunc(x), which is -0 at -0.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from assay.backends.target import Target

_TEXT = Path(__file__).parent / "text"


@cache
def prelude(target: Target) -> str:
    """The prelude for the vectors of `target`."""
    w, h = target.lanes, target.lanes // 2
    parts = ["types", "convert", "scalar", target.instructions, "operations"]
    text = "".join((_TEXT / f"{part}.h").read_text(encoding="utf-8") for part in parts)
    names = [f"v{k}" for k in range(w)]
    holes = {
        "@iotalo": range(h), "@iotahi": range(h, w), "@iota": range(w), "@lo": range(h), "@hi": range(h, w), "@all": range(w),
        "@odd": [k * w + i for i in range(1, w, 2) for k in (0, 1)], "@up": [i for i in range(1, w, 2) for _ in (0, 1)],
        "@x8": ["x"] * w, "@x4": ["x"] * h, "@dargs": [f"double {n}" for n in names], "@largs": [f"long {n}" for n in names],
        "@v4": names[:h], "@w4": names[h:],
    }  # fmt: skip
    for hole, items in holes.items():
        text = text.replace(hole, ",".join(map(str, items)))
    text = text.replace("@K", "x" if target.x86 else "w")
    return text.replace("@B", str(target.bytes)).replace("@H", str(h)).replace("@W", str(w))
