"""The machine that code is generated for: vector width, registers, and the instructions that may be named."""

from __future__ import annotations

import hashlib
import platform
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Target:
    """`bytes` of a vector register, `registers` of them: 64 with AVX-512, 32 with AVX2, else 16.

    `instructions` names the part of the prelude that says what has an instruction: "avx512", "avx2", or "lanes" (nothing).
    `lanes` counts f32 elements; a vector of f64 or i64 with as many lanes is a pair of registers.
    `identity` distinguishes machines whose code differs (part of the key of the build cache).
    """

    arch: str
    bytes: int
    registers: int
    instructions: str
    identity: str

    @property
    def lanes(self) -> int:
        return self.bytes // 4

    @property
    def x86(self) -> bool:
        return self.arch == "x86_64"


def of(arch: str, features: frozenset[str], identity: str) -> Target:
    """The target of an architecture with these /proc/cpuinfo features."""
    if arch == "x86_64" and features >= {"avx2", "fma", "f16c"}:
        wide = features >= {"avx512f", "avx512dq", "avx512vl"}
        return Target(arch, 64, 32, "avx512", identity) if wide else Target(arch, 32, 16, "avx2", identity)
    return Target(arch, 16, 16 if arch == "x86_64" else 32, "lanes", identity)


@cache
def host() -> Target:
    """The machine that this process runs on."""
    arch = platform.machine().replace("AMD64", "x86_64")
    described = ""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            key, _, rest = line.partition(":")
            if key.strip() in ("flags", "Features", "model name", "cpu family", "model", "CPU part"):
                described += f"{key.strip()}:{' '.join(sorted(rest.split()))}\n"
            elif not line.strip() and described:
                break
    except OSError:
        described = platform.processor()
    features = frozenset(described.split())
    features |= frozenset(word.partition(":")[2] for word in described.split())
    return of(arch, features, hashlib.sha256((arch + described).encode()).hexdigest()[:16])
