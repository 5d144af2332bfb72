"""A caching allocator for results: page faults cost more than most kernels.

A block is returned to the pool only when nothing shows it any more: every result is a numpy array whose base is the
block's master array, so the block is free exactly when the pool holds the only reference to the master.

Whoever looks at a block holds its master first and then counts the references, so another thread, or a call in a signal
handler or a finaliser, which may interrupt the pool anywhere, finds that block taken: looking needs no lock.
"""

from __future__ import annotations

import mmap
import os
import threading
from collections import deque
from collections.abc import Sequence
from sys import getrefcount

import numpy as np

HUGE = 2 << 20  # from this size on, blocks are backed by huge pages
_PROBES = range(8)  # looks at blocks before a new one is made


class Block:
    """`size` bytes from `address`, a multiple of 64 (of 2 MiB where size >= 2 MiB)."""

    __slots__ = ("address", "master", "offset", "size")

    def __init__(self, size: int) -> None:
        align = HUGE if size >= HUGE else 64
        memory: mmap.mmap | bytearray
        if size >= HUGE:
            memory = mmap.mmap(-1, size + align, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)  # shared memory has no huge pages
            if hasattr(mmap, "MADV_HUGEPAGE"):
                memory.madvise(mmap.MADV_HUGEPAGE)
        else:
            memory = bytearray(size + align)
        self.master = np.frombuffer(memory, np.uint8)  # its base is no array, so views of views keep it alive
        start = self.master.ctypes.data
        self.offset = -start % align
        self.address, self.size = start + self.offset, size

    @property
    def free(self) -> bool:
        return getrefcount(self.master) == 2


def size_class(n: int) -> int:
    """n rounded up to a multiple of an eighth of the next power of two below it (at least 64)."""
    step = max(64, 1 << max(0, n.bit_length() - 4))
    return max(64, -(-n // step) * step)


class Pool:
    """Blocks by size class; `limit` is how many bytes may be held before free blocks of other sizes are given up."""

    def __init__(self, limit: int | None = None) -> None:
        self.blocks: dict[int, deque[Block]] = {}
        self.held = 0
        self.limit = limit if limit is not None else _memory() // 4
        self.lock = threading.RLock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._unlock)

    def _unlock(self) -> None:
        """In a forked child the thread that held the lock does not exist."""
        self.lock = threading.RLock()

    def array(self, shape: Sequence[int], dtype: np.dtype, size: int) -> tuple[np.ndarray, int]:
        """An uninitialised array of size_class `size`, and its address."""
        block, master = self._block(size)
        return np.ndarray(shape, dtype, master, block.offset), block.address

    def _block(self, size: int) -> tuple[Block, np.ndarray]:
        """A free block, and its master, which keeps it from being given to anybody else."""
        try:
            queue = self.blocks[size]
            for _ in _PROBES:
                block = queue[0]
                master = block.master
                if getrefcount(master) == 3:  # the block's, ours, and the argument
                    return block, master
                queue.rotate(-1)
        except LookupError:  # no block of this size yet, or another thread has given them up
            pass
        with self.lock:
            if self.held + size > self.limit:
                self._trim()
            block = Block(size)
            master = block.master
            self.held += size
            self.blocks.setdefault(size, deque()).appendleft(block)
            return block, master

    def _trim(self) -> None:
        """Give up every free block."""
        for queue in self.blocks.values():
            blocks = list(queue)  # others may rotate the queue meanwhile
            kept = [b for b in blocks if not b.free]
            self.held -= sum(b.size for b in blocks) - sum(b.size for b in kept)
            queue.clear()
            queue.extend(kept)

    def live(self) -> int:
        """Bytes that are shown by some array."""
        with self.lock:
            return sum(b.size for queue in self.blocks.values() for b in list(queue) if not b.free)


def _memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return 8 << 30


POOL = Pool()
