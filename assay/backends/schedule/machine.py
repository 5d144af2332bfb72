"""The machine as the cost model sees it: cycles per instruction, bytes per cycle, sizes; measured once per CPU model.

Measuring takes about a second, happens at most once on a host (the result is stored beside the kernel cache, under the
name of the CPU model) and never in a process that finds the file.  Where nothing can be compiled, `DEFAULTS` are used.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import hashlib
import json
import math
import os
import platform
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from assay.backends.build import compiler, directory
from assay.backends.schedule import probe
from assay.core.errors import Unsupported
from assay.core.files import write_whole

FLAGS = ("-O2", "-march=native", "-ffp-contract=fast", "-fno-math-errno", "-shared", "-fPIC", "-pthread")
_MEBI = 1 << 20


@dataclass(frozen=True)
class Machine:
    """Cycles are of one core; `_t` is the reciprocal throughput of one vector instruction, `_l` its latency.

    `bw_*` are bytes a cycle (one thread, all threads together); `lanes` are the f32 elements of a vector.
    mix_t     one instruction of a stream that alternates adds and multiplications (the issue width)
    scalar_t  one scalar floating-point instruction
    """

    name: str = "generic 256-bit x86-64"
    lanes: int = 8
    registers: int = 16
    threads: int = 1
    ghz: float = 3.0
    add_t: float = 0.5
    add_l: float = 3.0
    mul_t: float = 0.5
    mul_l: float = 3.0
    fma_t: float = 0.5
    fma_l: float = 4.0
    div_t: float = 5.0
    div_l: float = 11.0
    sqrt_t: float = 6.0
    sqrt_l: float = 14.0
    int_t: float = 0.34
    int_l: float = 1.0
    cmp_t: float = 1.0
    cmp_l: float = 2.0
    mix_t: float = 0.34
    scalar_t: float = 0.5
    gather_t: float = 11.0
    load_t: float = 0.5
    store_t: float = 1.0
    l1: int = 32 << 10
    l1_ways: int = 8
    l2: int = 512 << 10
    l2_ways: int = 8
    l3: int = 16 << 20
    l3_ways: int = 16
    bw_l2: tuple[float, float] = (30.0, 58.0)
    bw_l3: tuple[float, float] = (15.0, 26.0)
    bw_ram: tuple[float, float] = (4.8, 7.5)
    fork_us: float = 0.2

    @property
    def peak_gflops(self) -> float:
        """f32 FMA peak of all threads, in 1e9 operations a second."""
        return 2 * self.lanes / self.fma_t * self.ghz * self.threads

    def to_json(self) -> dict[str, object]:
        return dataclasses.asdict(self)


def _from_json(fields: Any) -> Machine:
    if not isinstance(fields, dict):
        raise TypeError(f"not the fields of a machine: {fields!r:.80}")
    names = {f.name for f in dataclasses.fields(Machine)}
    return Machine(**{k: tuple(v) if isinstance(v, list) else v for k, v in fields.items() if k in names})  # type: ignore[arg-type]


DEFAULTS: dict[int, Machine] = {
    4: Machine(name="generic 128-bit", lanes=4, registers=32),
    8: Machine(),
    16: Machine(name="generic 512-bit x86-64", lanes=16, registers=32, add_t=1.0, mul_t=1.0, fma_t=1.0, mix_t=0.5,
                div_t=10.0, sqrt_t=12.0, gather_t=19.0, load_t=1.0),
}  # fmt: skip


def cpu_model() -> str:
    """What a measurement is valid for: the model, stepping and instruction sets of the CPU, and the number of cores."""
    wanted = ("vendor_id", "cpu family", "model", "model name", "stepping", "flags", "CPU implementer", "CPU part", "Features")
    found: dict[str, str] = {}
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            key, _, text = line.partition(":")
            if key.strip() in wanted:
                found.setdefault(key.strip(), text.strip())
    except OSError:
        found["processor"] = platform.processor()
    return "\n".join([*(f"{k}={v}" for k, v in sorted(found.items())), f"cores={cores()}"])


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _file(directory: Path) -> Path:
    return directory / f"machine-{hashlib.sha256((probe.SOURCE + cpu_model()).encode()).hexdigest()[:16]}.json"


@cache
def machine() -> Machine:
    """The machine this process runs on: stored, else measured and stored, else the table of defaults."""
    file = _file(directory())
    try:
        return _from_json(json.loads(file.read_text()))
    except (OSError, ValueError, TypeError):
        pass
    try:
        measured = measure()
    except (OSError, subprocess.SubprocessError, Unsupported):
        return defaults()
    _store(file, measured)
    return measured


def _store(file: Path, measured: Machine) -> None:
    """Concurrent processes see a whole file or none; a read-only home is no error."""
    with contextlib.suppress(OSError):
        write_whole(file, json.dumps(measured.to_json(), indent=1))


def defaults() -> Machine:
    """The stored table for this vector width, with this machine's cores and cache sizes."""
    text = cpu_model()
    lanes = 16 if "avx512f" in text else 8 if "avx2" in text else 4
    return dataclasses.replace(DEFAULTS[lanes], threads=cores(), **_sizes())


def _sizes() -> dict[str, int]:
    """Size and associativity of the caches, from sysfs; what is not there is left to the defaults."""
    found: dict[str, int] = {}
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            level, kind = (index / "level").read_text().strip(), (index / "type").read_text().strip()
            size, ways = (index / "size").read_text().strip(), (index / "ways_of_associativity").read_text().strip()
        except OSError:
            continue
        if kind != "Instruction" and size[:-1].isdigit() and int(ways) > 0:
            found[f"l{level}"] = int(size[:-1]) << {"K": 10, "M": 20}.get(size[-1], 0)
            found[f"l{level}_ways"] = int(ways)
    return {k: v for k, v in found.items() if k in {f.name for f in dataclasses.fields(Machine)}}


def measure() -> Machine:
    """Compile the probe and run it.  Raises Unsupported where there is no compiler."""
    with tempfile.TemporaryDirectory() as tmp:
        source, library = Path(tmp) / "probe.cpp", Path(tmp) / "probe.so"
        source.write_text(probe.SOURCE)
        subprocess.run((compiler()[0], *FLAGS, "-o", library, source), check=True, capture_output=True)
        loaded = ctypes.CDLL(str(library))
        best = _better(_measure(loaded), _measure(loaded))
        for _ in range(RETRIES):
            if not _disturbed(best):
                break
            best = _better(best, _measure(loaded))
        return best


def _disturbed(m: Machine) -> bool:
    """Whether other processes held the cores: threads that did not run side by side, a round trip that met the scheduler."""
    return m.threads > 1 and (m.fork_us >= LONGEST_FORK or m.bw_l2[1] < 1.5 * m.bw_l2[0])


def _better(a: Machine, b: Machine) -> Machine:
    """Field by field the quicker of two measurements."""
    fields: dict[str, object] = {}
    for f in dataclasses.fields(Machine):
        x, y = getattr(a, f.name), getattr(b, f.name)
        if f.name.startswith("bw_"):
            fields[f.name] = tuple(map(max, x, y))
        elif f.name.endswith(("_t", "_l", "_us")):
            fields[f.name] = min(x, y)
        else:
            fields[f.name] = max(x, y) if f.name == "ghz" else x
    return Machine(**fields)  # type: ignore[arg-type]


_INSTRUCTIONS = ("add_t", "add_l", "mul_t", "mul_l", "fma_t", "fma_l", "div_t", "div_l", "sqrt_t", "sqrt_l", "int_t", "int_l",
                 "cmp_t", "cmp_l", "mix_t", "scalar_t", "gather_t")  # fmt: skip
ROUNDS = 6
RETRIES = 1
LONGEST_FORK = 3.0  # microseconds; a longer round trip met the scheduler, not the other core
_READ, _STORE = 0, 1


def _measure(library: ctypes.CDLL) -> Machine:
    lanes, threads = library.lanes(), cores()

    def seconds(name: str, *args: object, tries: int = 15) -> float:
        call = getattr(library, name)
        call.restype = ctypes.c_double
        return min(call(*args) for _ in range(tries))

    # a chain of integer adds takes one cycle each on every machine
    hertz = 1 / seconds("clock_l", ctypes.c_long(20_000), tries=60)
    n = ctypes.c_long(500)
    quickest = dict.fromkeys(_INSTRUCTIONS, math.inf)
    for _ in range(ROUNDS):  # other processes disturb for milliseconds: come back later, keep the best
        hertz = max(hertz, 1 / seconds("clock_l", ctypes.c_long(5_000), tries=20))
        for k in _INSTRUCTIONS:
            quickest[k] = min(quickest[k], seconds(k, n, tries=6))
    fields: dict[str, object] = {k: round(t * hertz, 2) for k, t in quickest.items()}

    half = 32 * _MEBI
    room = np.ones(2 * half + 128, np.uint8)
    start = -room.ctypes.data % 64 + room.ctypes.data
    src, dst = ctypes.c_void_p(start), ctypes.c_void_p(start + half)

    def rate(kind: int, nbytes: int, total: int, count: int, tries: int = 4) -> float:
        repeat = ctypes.c_long(max(1, total // nbytes))
        return round(1 / (seconds("bytes", dst, src, ctypes.c_long(nbytes // 4), repeat, kind, count, tries=3) * hertz), 2)

    def both(kind: int, nbytes: int, total: int) -> tuple[float, float]:
        alone = rate(kind, nbytes, total, 1)
        return alone, rate(
            kind, nbytes * threads if nbytes < half // threads else nbytes, total, threads
        ) if threads > 1 else alone

    def nearby(name: str, cycles: float) -> float:
        """At most half as slow again as the table says: a neighbour on the core takes L1 for longer than a measurement."""
        return round(min(cycles, 1.5 * getattr(DEFAULTS[lanes], name)), 2)

    vector = 4 * lanes
    sizes = _sizes()
    l2 = sizes.get("l2", Machine.l2)
    return Machine(
        name=platform.processor() or platform.machine(),
        lanes=lanes, registers=32 if lanes == 16 or platform.machine() == "aarch64" else 16, threads=threads,
        ghz=round(hertz * 1e-9, 2), **fields,  # type: ignore[arg-type]
        load_t=nearby("load_t", vector / rate(_READ, 16 << 10, _MEBI, 1, 30)),
        store_t=nearby("store_t", vector / rate(_STORE, 16 << 10, _MEBI, 1, 30)),
        bw_l2=both(_READ, l2 // 2, 8 * _MEBI), bw_l3=both(_READ, 3 * l2, 8 * _MEBI), bw_ram=both(_READ, half, half),
        fork_us=round(min(LONGEST_FORK, seconds("fork_s", ctypes.c_long(100)) * 1e6), 2) if threads > 1 else 0.0, **sizes,
    )  # fmt: skip
